//! Hashing of many values at once, for processors that multiply eight 64-bit integers in one instruction.
//!
//! Word hashes and shingles are chains of 64-bit multiplications: without AVX-512 there is one a cycle, and what SSE2
//! and AVX2 piece together from halves is no faster.  So these loops are compiled for AVX-512, and used where
//! `available` says so; `shingle` has the way for all others, and its tests say that both give the same.
//!
//! Unsafe here is the call of a function that is compiled for instructions the processor was asked about right before,
//! and in `neighbours` what loads and stores (`sixteen` and `wide` have the core's other unsafe code).  Whatever is
//! asked of this module where `available` says no is done by the same loops, compiled for every processor, or not done,
//! which it says.
#![allow(unsafe_code)]

use crate::murmur;
use crate::shingle::{fold, START};

/// Words that are hashed at once.
pub const GROUP: usize = 64;

/// Short words, each as two integers of its bytes, and its length.
pub struct Group {
    pub low: [u64; GROUP],
    pub high: [u64; GROUP],
    pub lengths: [u64; GROUP],
}

impl Default for Group {
    fn default() -> Self {
        Self { low: [0; GROUP], high: [0; GROUP], lengths: [0; GROUP] }
    }
}

/// Whether this processor has what the loops here are made for.
#[inline]
pub fn available() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("popcnt");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[inline(always)]
fn each_short_word(group: &Group, hashes: &mut [u64; GROUP]) {
    let Group { low, high, lengths } = group;
    for (((hash, &low), &high), &length) in hashes.iter_mut().zip(low).zip(high).zip(lengths) {
        *hash = murmur::short_hash(low, high, length);
    }
}

#[inline(always)]
fn each_run_of_five(hashes: &[u64], shingles: &mut [u64]) {
    let count = shingles.len();
    let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|first| &hashes[first..first + count]);
    for place in 0..count {
        shingles[place] = fold(&[a[place], b[place], c[place], d[place], e[place]], START);
    }
}

macro_rules! on_lanes {
    ($(#[$documentation:meta])* $name:ident, $plainly:ident, $given:ty, $made:ty) => {
        $(#[$documentation])*
        pub fn $name(given: $given, made: $made) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512vl,popcnt")]
                fn wide(given: $given, made: $made) {
                    $plainly(given, made);
                }
                if available() {
                    // SAFETY: the processor has the instructions; it was asked in the line above.
                    return unsafe { wide(given, made) };
                }
            }
            $plainly(given, made);
        }
    };
}

on_lanes!(
    /// The hash of each word of a group.
    short_words, each_short_word, &Group, &mut [u64; GROUP]
);
on_lanes!(
    /// The shingle of each run of five hashes.
    ///
    /// # Panics
    /// If there are not four more hashes than shingles.
    runs_of_five, each_run_of_five, &[u64], &mut [u64]
);

/// Passes over neighbours that order nearly every list of hashes thrown into more buckets than there are hashes.
const PASSES: usize = 5;

/// Order neighbours of `set`, again and again: what is out of order by few places is in order then.
///
/// False where nothing is done, or something is left to do.
pub fn order_neighbours(set: &mut [u64]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if available() {
        // SAFETY: the processor has the instructions; it was asked in the line above.
        return unsafe { neighbours::order(set) };
    }
    let _ = set;
    false
}

/// Keep one of each value of an ascending list, in its first places; gives how many, or None where nothing is done.
pub fn keep_distinct(set: &mut [u64]) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    if available() {
        // SAFETY: the processor has the instructions; it was asked in the line above.
        return Some(unsafe { neighbours::keep_distinct(set) });
    }
    let _ = set;
    None
}

/// SAFETY, of every block here: each load and each store is of a part of the list with its eight integers.
#[cfg(target_arch = "x86_64")]
mod neighbours {
    use std::arch::x86_64::{
        __m512i, _mm512_alignr_epi64, _mm512_cmplt_epu64_mask, _mm512_cmpneq_epu64_mask, _mm512_loadu_si512,
        _mm512_mask_max_epu64, _mm512_maskz_compress_epi64, _mm512_min_epu64, _mm512_permutex_epi64, _mm512_set1_epi64,
        _mm512_storeu_si512,
    };

    use super::PASSES;

    const EIGHT: usize = 8;
    const SWAPPED: i32 = 0b10_11_00_01;

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,popcnt")]
    fn load(eight: &[u64]) -> __m512i {
        let eight = &eight[..EIGHT];
        unsafe { _mm512_loadu_si512(eight.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512vl,popcnt")]
    fn store(eight: &mut [u64], values: __m512i) {
        let eight = &mut eight[..EIGHT];
        unsafe { _mm512_storeu_si512(eight.as_mut_ptr().cast(), values) }
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512vl,popcnt")]
    pub fn order(set: &mut [u64]) -> bool {
        for pass in 0..PASSES {
            let from = set.len().min(pass % 2);
            let mut chunks = set[from..].chunks_exact_mut(EIGHT);
            for eight in &mut chunks {
                let values = load(eight);
                let swapped = _mm512_permutex_epi64::<SWAPPED>(values);
                let smaller = _mm512_min_epu64(values, swapped);
                store(eight, _mm512_mask_max_epu64(smaller, 0xaa, values, swapped));
            }
            crate::shingle::order_pairs(chunks.into_remainder());
        }
        if set.is_empty() {
            return true;
        }
        let mut wrong = 0;
        let (mut before, mut after) = (set.chunks_exact(EIGHT), set[1..].chunks_exact(EIGHT));
        for (before, after) in (&mut before).zip(&mut after) {
            wrong |= _mm512_cmplt_epu64_mask(load(after), load(before));
        }
        let looked_at = (set.len() - 1) / EIGHT * EIGHT;
        wrong == 0 && set[looked_at..].is_sorted()
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512vl,popcnt")]
    pub fn keep_distinct(set: &mut [u64]) -> usize {
        let Some(&first) = set.first() else { return 0 };
        // What stands before the first value differs from it.
        let mut last = _mm512_set1_epi64(!first as i64);
        let (mut place, mut kept) = (0, 0);
        while place + EIGHT <= set.len() {
            let values = load(&set[place..]);
            let is_first = _mm512_cmpneq_epu64_mask(values, _mm512_alignr_epi64::<7>(values, last));
            // Never beyond what is loaded already.
            store(&mut set[kept..], _mm512_maskz_compress_epi64(is_first, values));
            kept += is_first.count_ones() as usize;
            last = values;
            place += EIGHT;
        }
        let mut last = if kept == 0 { !first } else { set[kept - 1] };
        for place in place..set.len() {
            let value = set[place];
            set[kept] = value;
            kept += usize::from(value != last);
            last = value;
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_come_in_order_and_repeats_go_at_every_length() {
        for length in 0..100u64 {
            for factor in [1, 3, 7, 20] {
                // Runs of equal values, some swapped with what stands behind.
                let mut set: Vec<u64> = (0..length).map(|place| (place / factor * factor) << 40).collect();
                for place in (1..set.len()).step_by(3) {
                    set.swap(place - 1, place);
                }
                let mut expected = set.clone();
                expected.sort_unstable();
                if order_neighbours(&mut set) {
                    assert_eq!(set, expected, "{length} {factor}");
                }
                set.clone_from(&expected);
                expected.dedup();
                if let Some(kept) = keep_distinct(&mut set) {
                    assert_eq!(set[..kept], expected, "{length} {factor}");
                }
                assert_eq!(order_neighbours(&mut [1u64; 3]), available());
            }
            let mut far: Vec<u64> = (0..length).rev().collect();
            assert!(length < 8 || !order_neighbours(&mut far));
        }
    }
}
