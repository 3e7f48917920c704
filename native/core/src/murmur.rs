//! MurmurHash3 x64_128, of which the first 64 bits are a word's hash: `word_hashes` of
//! `tests/reference/fingerprints.py`.

use crate::bytes;

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

#[inline(always)]
fn mix_1(block: u64) -> u64 {
    block.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

#[inline(always)]
fn mix_2(block: u64) -> u64 {
    block.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

#[inline(always)]
fn finish(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

/// The hash of `source[start..end]`, seed 0; `source` has at least sixteen bytes more.
#[inline(always)]
pub fn word_hash(source: &[u8], start: usize, end: usize) -> u64 {
    let length = end - start;
    if length <= LONGEST_SHORT {
        let (low, high) = short(source, start, length);
        return short_hash(low, high, length as u64);
    }
    let (mut first, mut second) = (0u64, 0u64);
    let mut place = start;
    while end - place >= 16 {
        first ^= mix_1(bytes::load(source, place));
        first = first.rotate_left(27).wrapping_add(second).wrapping_mul(5).wrapping_add(0x52dc_e729);
        second ^= mix_2(bytes::load(source, place + 8));
        second = second.rotate_left(31).wrapping_add(first).wrapping_mul(5).wrapping_add(0x3849_5ab5);
        place += 16;
    }
    let rest = end - place;
    if rest > 8 {
        second ^= mix_2(bytes::load(source, place + 8) & (u64::MAX >> (8 * (16 - rest))));
        first ^= mix_1(bytes::load(source, place));
    } else if rest != 0 {
        first ^= mix_1(bytes::load(source, place) & (u64::MAX >> (8 * (8 - rest))));
    }
    tail(first, second, length as u64)
}

/// Words of so many bytes, nearly all, are one block that is not whole.
pub const LONGEST_SHORT: usize = 15;

/// By length: which bytes of a short word's two integers are its own.
static OWN_BYTES: [(u64, u64); 16] = {
    let mut own = [(u64::MAX, 0); 16];
    let mut length = 0;
    while length < 8 {
        own[length] = ((1 << (8 * length)) - 1, 0);
        own[8 + length].1 = (1 << (8 * length)) - 1;
        length += 1;
    }
    own
};

/// The bytes of a short word, zeros behind, as two integers; without a branch that its length decides.
#[inline(always)]
pub fn short(source: &[u8], start: usize, length: usize) -> (u64, u64) {
    let (low, high) = OWN_BYTES[length % 16];
    let source = &source[start..start + 16];
    (bytes::load(source, 0) & low, bytes::load(source, 8) & high)
}

/// The hash of a short word: zeros mix to zero.
#[inline(always)]
pub fn short_hash(low: u64, high: u64, length: u64) -> u64 {
    tail(mix_1(low), mix_2(high), length)
}

/// What ends the hash of a source of that length.
#[inline(always)]
fn tail(first: u64, second: u64, length: u64) -> u64 {
    let first = (first ^ length).wrapping_add(second ^ length);
    let second = (second ^ length).wrapping_add(first);
    finish(first).wrapping_add(finish(second))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First 64 bits of `mmh3.mmh3_x64_128_digest(b"abc...", 0)` for prefixes of the alphabet.
    const KNOWN: [(usize, u64); 6] = [
        (0, 0),
        (1, 0x85555565f6597889),
        (8, 0xcc8a0ab037ef8c02),
        (9, 0x0547c0cff13c7964),
        (16, 0xc4ca3ca3224cb723),
        (26, 0x749c9d7e516f4aa9),
    ];

    #[test]
    fn hashes_equal_those_of_mmh3() {
        let source = b"abcdefghijklmnopqrstuvwxyz................";
        for (length, hash) in KNOWN {
            assert_eq!(word_hash(source, 0, length), hash, "{length}");
        }
    }
}
