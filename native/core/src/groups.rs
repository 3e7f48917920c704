//! Many words in eight groups, to be looked for all at once: `wide::Bytes::in_a_group`.
//!
//! Of each of a word's first bytes, the low and the high four bits are looked up in a table of groups ("Teddy", of
//! Intel's Hyperscan).  Where a group is left, one of its words may begin.  Knows nothing of what the words mean.

use crate::wide::Groups;

const GROUPS: usize = 8;

/// By the low and by the high four bits of each of a word's first bytes, as bits: which of these it may have.
pub type Shape<const N: usize> = [[u16; 2]; N];

const fn of_byte(byte: u8) -> [u16; 2] {
    [1 << (byte & 15), 1 << (byte >> 4)]
}

/// Of a word; whatever follows a short one.
pub fn as_written<const N: usize>(word: &[u8]) -> Shape<N> {
    std::array::from_fn(|place| word.get(place).map_or([u16::MAX; 2], |&byte| of_byte(byte)))
}

/// The same for a word of ASCII letters, small or capital.
pub fn in_any_case<const N: usize>(word: &[u8]) -> Shape<N> {
    joined(&as_written(&word.to_ascii_lowercase()), &as_written(&word.to_ascii_uppercase()))
}

fn joined<const N: usize>(one: &Shape<N>, other: &Shape<N>) -> Shape<N> {
    std::array::from_fn(|place| std::array::from_fn(|half| one[place][half] | other[place][half]))
}

/// How many beginnings a group cannot tell from those of its words.
fn looseness<const N: usize>(shape: &Shape<N>) -> u64 {
    shape.iter().flatten().map(|bits| u64::from(bits.count_ones())).product()
}

/// Whether a group has a beginning.
fn has<const N: usize>(shape: &Shape<N>, word: &Shape<N>) -> bool {
    shape.iter().flatten().zip(word.iter().flatten()).all(|(one, other)| one & other != 0)
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
    let mut groups = [[[0; 16]; 2]; N];
    for (group, shape) in shapes.iter().enumerate() {
        for (place, half, nibble) in (0..N * 32).map(|each| (each / 32, each / 16 % 2, each % 16)) {
            groups[place][half][nibble] |= u8::from(shape[place][half] >> nibble & 1 != 0) << group;
        }
    }
    groups
}
