//! What a look-up found, ranked: `tests/reference/ranking.py`.

use std::cmp::Reverse;

/// The texts to look at, and what else a look-up tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposal {
    /// Text numbers, in the order in which to look at them.
    pub numbers: Vec<u64>,
    /// Different texts found.
    pub candidates: usize,
    /// Whether the page's own text is among them.
    pub holds_own: bool,
    /// Text numbers that come next.
    pub further: Vec<u64>,
}

/// How many texts are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    /// Of those that share a band.
    pub near: usize,
    /// Of those that share a fingerprint.
    pub inside: usize,
    /// Of all, by how many keys they share.
    pub most: usize,
    /// Of each of the first two lists that come next.
    pub further: usize,
}

/// What a key counts that leads to one text.
const RAREST: u32 = 1 << 20;

/// What a key counts whose bucket has given so many texts; one with `limit` of them is full.
pub fn weight(texts: usize, limit: usize) -> u32 {
    if texts < limit {
        RAREST / texts.max(1) as u32
    } else {
        1
    }
}

/// A text that a key has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posting {
    pub text: u64,
    /// Of the key; see `weight`.
    pub weight: u32,
    /// Whether the key is of a band, or of a fingerprint.
    pub is_band: bool,
}

#[derive(Clone, Copy)]
struct Tally {
    number: u64,
    /// What its postings count.
    weight: u32,
    bands: u32,
    fingerprints: u32,
}

/// Rank what a look-up found, in any order.
pub fn rank(postings: &[Posting], own: u64, looks: Looks) -> Proposal {
    let tallies = tallies(postings);
    let mut near: Vec<_> = tallies
        .iter()
        .filter(|tally| tally.bands > 0)
        .map(|tally| {
            let Tally { number, weight, bands, fingerprints } = *tally;
            (number != own, Reverse(weight), Reverse(bands), Reverse(fingerprints), number)
        })
        .collect();
    let mut inside: Vec<_> = tallies
        .iter()
        .filter(|tally| tally.fingerprints > 0)
        .map(|tally| (Reverse(tally.weight), Reverse(tally.fingerprints), tally.number))
        .collect();
    let mut most: Vec<_> = tallies
        .iter()
        .map(|tally| (Reverse(tally.bands + tally.fingerprints), Reverse(tally.weight), tally.number))
        .collect();
    first_of(&mut near, looks.near + looks.further);
    first_of(&mut inside, looks.inside + looks.further);
    first_of(&mut most, looks.most);
    let near: Vec<u64> = near.into_iter().map(|one| one.4).collect();
    let inside: Vec<u64> = inside.into_iter().map(|one| one.2).collect();
    let most: Vec<u64> = most.into_iter().map(|one| one.2).collect();
    let (near, next_near) = near.split_at(looks.near.min(near.len()));
    let (inside, next_inside) = inside.split_at(looks.inside.min(inside.len()));
    let numbers = in_turn(&[near, inside, &most], &[]);
    let further = in_turn(&[next_near, next_inside], &numbers);
    let holds_own = tallies.iter().any(|tally| tally.number == own);
    Proposal { numbers, candidates: tallies.len(), holds_own, further }
}

/// The first of each list, then the second of each, and so on, each number once, and none of some.
fn in_turn(lists: &[&[u64]], but: &[u64]) -> Vec<u64> {
    let longest = lists.iter().map(|list| list.len()).max().unwrap_or(0);
    let mut numbers = Vec::with_capacity(lists.iter().map(|list| list.len()).sum());
    for place in 0..longest {
        for &number in lists.iter().filter_map(|list| list.get(place)) {
            if !numbers.contains(&number) && !but.contains(&number) {
                numbers.push(number);
            }
        }
    }
    numbers
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

/// Each text once, with what and how often it was found.
fn tallies(postings: &[Posting]) -> Vec<Tally> {
    const NONE: u32 = u32::MAX;
    let mut tallies: Vec<Tally> = Vec::new();
    let size = (2 * postings.len()).next_power_of_two();
    let mut slots = vec![NONE; size];
    for &Posting { text, weight, is_band } in postings {
        let mut at = (text.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (size - 1);
        while slots[at] != NONE && tallies[slots[at] as usize].number != text {
            at = (at + 1) & (size - 1);
        }
        if slots[at] == NONE {
            slots[at] = tallies.len() as u32;
            tallies.push(Tally { number: text, weight: 0, bands: 0, fingerprints: 0 });
        }
        let tally = &mut tallies[slots[at] as usize];
        tally.weight += weight;
        tally.bands += u32::from(is_band);
        tally.fingerprints += u32::from(!is_band);
    }
    tallies
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOKS: Looks = Looks { near: 2, inside: 2, most: 0, further: 1 };

    /// Postings of buckets, of bands and of fingerprints; a bucket of three is full.
    fn found(bands: &[&[u64]], fingerprints: &[&[u64]]) -> Vec<Posting> {
        let mut postings = Vec::new();
        for (buckets, is_band) in [(bands, true), (fingerprints, false)] {
            for texts in buckets {
                postings.extend(texts.iter().map(|&text| Posting { text, weight: weight(texts.len(), 3), is_band }));
            }
        }
        postings
    }

    #[test]
    fn texts_of_bands_and_of_fingerprints_come_in_turn_and_each_once() {
        let ranked = rank(&found(&[&[9], &[5, 9], &[7, 5]], &[&[1], &[1, 7]]), 3, LOOKS);
        assert_eq!(ranked, Proposal { numbers: vec![9, 1, 5, 7], candidates: 4, holds_own: false, further: vec![] });
    }

    #[test]
    fn a_rare_key_outweighs_full_buckets() {
        assert_eq!(rank(&found(&[&[1, 2, 3], &[1, 2, 3], &[4, 5], &[6]], &[]), 0, LOOKS).numbers, [6, 4]);
        assert_eq!(rank(&found(&[&[1, 2, 3], &[2, 3, 4]], &[]), 0, LOOKS).numbers, [2, 3]);
    }

    #[test]
    fn the_pages_own_text_comes_first_where_a_band_leads_to_it() {
        let ranked = rank(&found(&[&[5], &[5, 8]], &[&[9]]), 8, LOOKS);
        assert_eq!(ranked, Proposal { numbers: vec![8, 9, 5], candidates: 3, holds_own: true, further: vec![] });
        assert_eq!(rank(&found(&[&[5]], &[&[8]]), 8, LOOKS).numbers, [5, 8]);
    }

    #[test]
    fn the_text_that_shares_most_keys_is_looked_at_and_others_come_next() {
        let looks = Looks { near: 1, inside: 0, most: 1, further: 2 };
        let ranked = rank(&found(&[&[1, 2, 3], &[1, 2, 4], &[1, 5, 6], &[7], &[8], &[9]], &[]), 0, looks);
        assert_eq!((ranked.numbers, ranked.further), (vec![7, 1], vec![8, 9]));
    }

    #[test]
    fn nothing_found_is_nothing_proposed() {
        assert_eq!(rank(&[], 0, LOOKS), Proposal::default());
        assert_eq!(rank(&found(&[&[4]], &[]), 0, Looks { near: 0, inside: 0, most: 0, further: 0 }).numbers, []);
    }
}
