//! Hashing of many values at once, for processors that multiply eight 64-bit integers in one instruction.
//!
//! Word hashes and shingles are chains of 64-bit multiplications: without AVX-512 there is one a cycle, and what SSE2
//! and AVX2 piece together from halves is no faster.  So these loops are compiled for AVX-512, and used where
//! `available` says so; `shingle` has the way for all others, and its tests say that both give the same.
//!
//! Unsafe here is the call of a function that is compiled for instructions the processor was asked about right before
//! (`sixteen` has the core's other unsafe code).  Whatever is asked of this module where `available` says no is done by the same loops, compiled
//! for every processor.
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
        && is_x86_feature_detected!("avx512vl");
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
                #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
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
