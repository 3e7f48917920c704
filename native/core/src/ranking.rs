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

/// Rank what a look-up found: for each posting which key, and its text, in any order; the first `bands` keys are of bands.
pub fn rank(postings: &[(u32, u64)], bands: usize, own: u64, looks: Looks) -> Proposal {
    let tallies = tallies(postings, bands);
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
fn tallies(postings: &[(u32, u64)], bands: usize) -> Vec<Tally> {
    const NONE: u32 = u32::MAX;
    let mut tallies: Vec<Tally> = Vec::new();
    let size = (2 * postings.len()).next_power_of_two();
    let mut slots = vec![NONE; size];
    for &(owner, number) in postings {
        let mut at = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (size - 1);
        while slots[at] != NONE && tallies[slots[at] as usize].number != number {
            at = (at + 1) & (size - 1);
        }
        if slots[at] == NONE {
            slots[at] = tallies.len() as u32;
            tallies.push(Tally { number, bands: 0, fingerprints: 0 });
        }
        let tally = &mut tallies[slots[at] as usize];
        let is_band = (owner as usize) < bands;
        tally.bands += u32::from(is_band);
        tally.fingerprints += u32::from(!is_band);
    }
    tallies
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOKS: Looks = Looks { near: 2, inside: 2 };

    /// Texts of postings of band key 0, then of fingerprint 1.
    fn found(bands: &[u64], fingerprints: &[u64]) -> Vec<(u32, u64)> {
        let of_bands = bands.iter().map(|&text| (0, text));
        of_bands.chain(fingerprints.iter().map(|&text| (1, text))).collect()
    }

    #[test]
    fn texts_that_share_most_come_first_in_turn_and_each_once() {
        let ranked = rank(&found(&[5, 7, 5, 9, 9, 9], &[1, 1, 7]), 1, 3, LOOKS);
        assert_eq!(ranked, Proposal { numbers: vec![9, 1, 5, 7], candidates: 4, holds_own: false });
    }

    #[test]
    fn the_pages_own_text_comes_first_where_a_band_leads_to_it() {
        let ranked = rank(&found(&[5, 5, 8], &[9]), 1, 8, LOOKS);
        assert_eq!(ranked, Proposal { numbers: vec![8, 9, 5], candidates: 3, holds_own: true });
        assert_eq!(rank(&found(&[5], &[8]), 1, 8, LOOKS).numbers, [5, 8]);
    }

    #[test]
    fn nothing_found_is_nothing_proposed() {
        assert_eq!(rank(&[], 0, 0, LOOKS), Proposal::default());
        assert_eq!(rank(&found(&[4], &[]), 1, 0, Looks { near: 0, inside: 0 }).numbers, []);
    }
}
