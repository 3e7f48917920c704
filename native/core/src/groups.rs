//! Many words in eight groups, to be looked for all at once: `wide::Bytes::in_a_group`.
//!
//! Of each of a word's first bytes the low four bits, and of the first byte the high ones, are looked up in a table of
//! groups ("Teddy", of
//! Intel's Hyperscan).  Where a group is left, one of its words may begin.  Knows nothing of what the words mean.

use crate::wide::Groups;

const GROUPS: usize = 8;

/// By the low four bits of each of a word's first bytes, and by the high four bits of the first one, as bits: which of
/// these it may have.
pub type Shape<const N: usize> = ([u16; N], u16);

/// Of a word; whatever follows a short one.
pub fn as_written<const N: usize>(word: &[u8]) -> Shape<N> {
    let low = std::array::from_fn(|place| word.get(place).map_or(u16::MAX, |&byte| 1 << (byte & 15)));
    (low, word.first().map_or(u16::MAX, |&byte| 1 << (byte >> 4)))
}

/// The same for a word of ASCII letters, small or capital.
pub fn in_any_case<const N: usize>(word: &[u8]) -> Shape<N> {
    joined(&as_written(&word.to_ascii_lowercase()), &as_written(&word.to_ascii_uppercase()))
}

fn joined<const N: usize>(one: &Shape<N>, other: &Shape<N>) -> Shape<N> {
    (std::array::from_fn(|place| one.0[place] | other.0[place]), one.1 | other.1)
}

/// How many beginnings a group cannot tell from those of its words.
fn looseness<const N: usize>((low, high): &Shape<N>) -> u64 {
    low.iter().chain([high]).map(|bits| u64::from(bits.count_ones())).product()
}

/// Whether a group has a beginning.
fn has<const N: usize>(shape: &Shape<N>, word: &Shape<N>) -> bool {
    shape.1 & word.1 != 0 && shape.0.iter().zip(word.0).all(|(one, other)| one & other != 0)
}

/// Words by their shapes: those are joined whose group stays the least loose and has none of the frequent `others`.
pub fn of<const N: usize>(words: impl Iterator<Item = Shape<N>>, others: &[&str]) -> Groups<N> {
    let others: Vec<Shape<N>> = others.iter().map(|other| as_written(other.as_bytes())).collect();
    let mut shapes: Vec<Shape<N>> = words.collect();
    while shapes.len() > GROUPS {
        let pairs = (1..shapes.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
        let added = |&(one, other): &(usize, usize)| {
            let both = joined(&shapes[one], &shapes[other]);
            let alone = looseness(&shapes[one]) + looseness(&shapes[other]);
            (others.iter().filter(|word| has(&both, word)).count(), looseness(&both).saturating_sub(alone))
        };
        let Some((one, other)) = pairs.min_by_key(added) else { break };
        shapes[other] = joined(&shapes[one], &shapes[other]);
        shapes.swap_remove(one);
    }
    let mut groups = Groups { low: [[0; 16]; N], high: [0; 16] };
    for (group, (low, high)) in shapes.iter().enumerate() {
        let bit = |bits: u16, nibble: usize| u8::from(bits >> nibble & 1 != 0) << group;
        for nibble in 0..16 {
            groups.high[nibble] |= bit(*high, nibble);
            groups.low.iter_mut().zip(low).for_each(|(groups, &low)| groups[nibble] |= bit(low, nibble));
        }
    }
    groups
}
