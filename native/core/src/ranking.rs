//! What a look-up found, ranked: `docstore/dedup/ranking.py`.

use std::cmp::Reverse;

/// The texts to look at, and what else a look-up tells.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Proposal {
    /// Text numbers, in the order in which to look at them.
    pub numbers: Vec<u64>,
    /// Different texts found.
    pub candidates: usize,
    /// Whether the page's own text is among them.
    pub holds_own: bool,
}

/// How many texts are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    /// That share most bands.
    pub near: usize,
    /// That share most fingerprints.
    pub inside: usize,
}

#[derive(Clone, Copy)]
struct Tally {
    number: u64,
    bands: u32,
    fingerprints: u32,
}

/// Rank the texts that a look-up found: `bands` of its postings, the first ones, are of band keys.
pub fn rank(texts: &[u64], bands: usize, own: u64, looks: Looks) -> Proposal {
    let tallies = tallies(texts, bands);
    let mut near: Vec<_> = tallies
        .iter()
        .filter(|tally| tally.bands > 0)
        .map(|tally| (tally.number != own, Reverse(tally.bands), Reverse(tally.fingerprints), tally.number))
        .collect();
    let mut inside: Vec<_> = tallies
        .iter()
        .filter(|tally| tally.fingerprints > 0)
        .map(|tally| (Reverse(tally.fingerprints), tally.number))
        .collect();
    first_of(&mut near, looks.near);
    first_of(&mut inside, looks.inside);
    let mut numbers = Vec::with_capacity(near.len() + inside.len());
    for place in 0..near.len().max(inside.len()) {
        let both = [near.get(place).map(|one| one.3), inside.get(place).map(|one| one.1)];
        for number in both.into_iter().flatten() {
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
    }
    Proposal { numbers, candidates: tallies.len(), holds_own: tallies.iter().any(|tally| tally.number == own) }
}

/// The `count` smallest, sorted.
fn first_of<T: Ord>(all: &mut Vec<T>, count: usize) {
    if count == 0 {
        all.clear();
    }
    if count < all.len() {
        all.select_nth_unstable(count - 1);
        all.truncate(count);
    }
    all.sort_unstable();
}

/// Each text once, with how often it was found.
fn tallies(texts: &[u64], bands: usize) -> Vec<Tally> {
    const NONE: u32 = u32::MAX;
    let mut tallies: Vec<Tally> = Vec::new();
    let size = (2 * texts.len()).next_power_of_two();
    let mut slots = vec![NONE; size];
    for (place, &number) in texts.iter().enumerate() {
        let mut at = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (size - 1);
        while slots[at] != NONE && tallies[slots[at] as usize].number != number {
            at = (at + 1) & (size - 1);
        }
        if slots[at] == NONE {
            slots[at] = tallies.len() as u32;
            tallies.push(Tally { number, bands: 0, fingerprints: 0 });
        }
        let tally = &mut tallies[slots[at] as usize];
        tally.bands += u32::from(place < bands);
        tally.fingerprints += u32::from(place >= bands);
    }
    tallies
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOKS: Looks = Looks { near: 2, inside: 2 };

    #[test]
    fn texts_that_share_most_come_first_in_turn_and_each_once() {
        let found = rank(&[5, 7, 5, 9, 9, 9, 1, 1, 7], 6, 3, LOOKS);
        assert_eq!(found, Proposal { numbers: vec![9, 1, 5, 7], candidates: 4, holds_own: false });
    }

    #[test]
    fn the_pages_own_text_comes_first_where_a_band_leads_to_it() {
        let found = rank(&[5, 5, 8, 9], 3, 8, LOOKS);
        assert_eq!(found, Proposal { numbers: vec![8, 9, 5], candidates: 3, holds_own: true });
        assert_eq!(rank(&[5, 8], 1, 8, LOOKS).numbers, [5, 8]);
    }

    #[test]
    fn nothing_found_is_nothing_proposed() {
        assert_eq!(rank(&[], 0, 0, LOOKS), Proposal::default());
        assert_eq!(rank(&[4], 1, 0, Looks { near: 0, inside: 0 }).numbers, []);
    }
}
