//! Words -> shingles, and what their sets share: `tests/reference/fingerprints.py`.

use crate::lanes::{self, Group, GROUP};
use crate::murmur::{short, word_hash, LONGEST_SHORT};
use crate::words::Words;

pub const START: u64 = 0x9e37_79b9_7f4a_7c15;
const FOLD: u64 = 0xff51_afd7_ed55_8ccd;
const FINISH: u64 = 0xc4ce_b9fe_1a85_ec53;

pub const SAMPLE_MODULUS: u64 = 12;
pub const SAMPLE_LIMIT: usize = 4096;
const ASK_LIMIT: usize = 64;
/// Shingles in the runs that refine a fingerprint.
const RUN_LENGTHS: [usize; 3] = [16, 64, 256];
const RUN_FACTOR: u64 = 0xd134_2543_de82_ef95;
/// Added to `START` for runs.
const RUNS_FROM: u64 = 1 << 32;

/// Fold hashes into one, by the rule that stands in the reference.
#[inline(always)]
pub fn fold(hashes: &[u64], start: u64) -> u64 {
    let mut folded = start;
    for &hash in hashes {
        folded = (folded ^ hash).wrapping_mul(FOLD);
        folded ^= folded >> 32;
    }
    folded = folded.wrapping_mul(FINISH);
    folded ^ folded >> 29
}

/// The hash of each word.
#[inline(never)]
pub fn word_hashes(words: &Words, hashes: &mut Vec<u64>) {
    hashes.clear();
    if lanes::available() {
        word_hashes_on_lanes(words, hashes);
    } else {
        word_hashes_one_by_one(words, hashes);
    }
}

fn word_hashes_one_by_one(words: &Words, hashes: &mut Vec<u64>) {
    let padded = words.padded();
    let mut start = 0;
    hashes.extend(words.ends().iter().map(|&end| {
        let hash = word_hash(padded, start, end as usize);
        start = end as usize + 1;
        hash
    }));
}

fn word_hashes_on_lanes(words: &Words, hashes: &mut Vec<u64>) {
    let padded = words.padded();
    let mut group = Group::default();
    let mut start = 0;
    hashes.resize(words.ends().len().next_multiple_of(GROUP), 0);
    for (ends, hashes) in words.ends().chunks(GROUP).zip(hashes.chunks_exact_mut(GROUP)) {
        let first = start;
        let mut longest = 0;
        for (place, &end) in ends.iter().enumerate() {
            let length = end as usize - start;
            longest = longest.max(length);
            // Of a long word this is nonsense, which is put right below.
            (group.low[place], group.high[place]) = short(padded, start, length);
            group.lengths[place] = length as u64;
            start = end as usize + 1;
        }
        if let Ok(hashes) = hashes.try_into() {
            lanes::short_words(&group, hashes);
        }
        if longest > LONGEST_SHORT {
            start = first;
            for (&end, hash) in ends.iter().zip(hashes) {
                if end as usize - start > LONGEST_SHORT {
                    *hash = word_hash(padded, start, end as usize);
                }
                start = end as usize + 1;
            }
        }
    }
    hashes.truncate(words.ends().len());
}

/// Hashes of all runs of `shingle_words` words, in order, repeats kept.
#[inline(never)]
pub fn shingles(hashes: &[u64], shingle_words: usize, shingles: &mut Vec<u64>) {
    shingles.clear();
    if hashes.is_empty() {
        return;
    }
    match shingle_words.clamp(1, hashes.len()) {
        5 if lanes::available() => {
            shingles.resize(hashes.len() - 4, 0);
            lanes::runs_of_five(hashes, shingles);
        }
        // A known width unrolls.  Pushed one by one, because a loop that the compiler can see through it turns into
        // multiplications of vectors, which SSE2 has to piece together from halves: that takes twice as long.
        5 => {
            for run in hashes.windows(5) {
                shingles.push(fold(&run[..5], START));
            }
        }
        width => shingles.extend(hashes.windows(width).map(|run| fold(run, START))),
    }
}

/// Makes sets of hashes: sorted, distinct.
#[derive(Default)]
pub struct Sorter {
    /// Where the values of each highest part end.
    ends: Vec<u32>,
}

const MOST_BUCKETS: usize = 1 << 12;
/// A bucket with more values is sorted by itself.
const MOST_IN_BUCKET: u32 = 16;

impl Sorter {
    /// The set of `values` in `set`.
    ///
    /// Hashes are spread evenly, so that thrown into buckets by their highest bits they are nearly in order, and each
    /// moves a step or two; where someone has made them uneven, it is the general sort that keeps the time bounded.
    #[inline(never)]
    pub fn distinct(&mut self, values: &[u64], set: &mut Vec<u64>) {
        let buckets = values.len().next_power_of_two().min(MOST_BUCKETS);
        if buckets < 8 || values.len() > u32::MAX as usize {
            set.clear();
            set.extend_from_slice(values);
            set.sort_unstable();
        } else {
            self.throw(values, buckets, set);
            if lanes::order_neighbours(set) {
                let kept = lanes::keep_distinct(set);
                return set.truncate(kept.unwrap_or(set.len()));
            }
            // Neighbours in the wrong order are what is left to do at most places; without a branch.
            for first in [0, 1, 0, 1] {
                order_pairs(&mut set[first..]);
            }
        }
        keep_in_order(set);
    }

    /// Order by the highest bits, and wholly where many share them.
    fn throw(&mut self, values: &[u64], buckets: usize, set: &mut Vec<u64>) {
        let shift = 64 - buckets.trailing_zeros();
        let ends = &mut self.ends;
        ends.clear();
        ends.resize(buckets, 0);
        for value in values {
            ends[(value >> shift) as usize] += 1;
        }
        let is_uneven = ends.iter().fold(false, |found, &count| found | (count > MOST_IN_BUCKET));
        let mut total = 0;
        for end in ends.iter_mut() {
            total += std::mem::replace(end, total);
        }
        set.resize(values.len(), 0);
        for &value in values {
            let end = &mut ends[(value >> shift) as usize];
            set[*end as usize] = value;
            *end += 1;
        }
        if is_uneven {
            let mut start = 0;
            for &end in ends.iter() {
                let bucket = &mut set[start..end as usize];
                if bucket.len() > MOST_IN_BUCKET as usize {
                    bucket.sort_unstable();
                }
                start = end as usize;
            }
        }
    }
}

/// Order the first two values, the next two, and so on.
pub fn order_pairs(set: &mut [u64]) {
    for pair in set.chunks_exact_mut(2) {
        let (first, second) = (pair[0], pair[1]);
        pair[0] = first.min(second);
        pair[1] = first.max(second);
    }
}

/// Keep one of each value of what is nearly in order, in order; without a branch that repeats decide.
fn keep_in_order(set: &mut Vec<u64>) {
    let Some(&first) = set.first() else { return };
    let (mut last, mut kept) = (first, 0);
    for place in 1..set.len() {
        let value = set[place];
        if value >= last {
            kept += usize::from(value != last);
            set[kept] = value;
            last = value;
            continue;
        }
        let mut hole = kept;
        while hole > 0 && set[hole - 1] > value {
            hole -= 1;
        }
        if hole == 0 || set[hole - 1] != value {
            set.copy_within(hole..=kept, hole + 1);
            set[hole] = value;
            kept += 1;
        }
    }
    set.truncate(kept + 1);
}

/// The 0-mod-p fingerprints of a set: at most `SAMPLE_LIMIT`, in its order.
#[inline(never)]
pub fn sample(set: &[u64], kept: &mut Vec<u64>) {
    sample_within(set, SAMPLE_LIMIT, kept);
}

/// Of the fingerprints under which a text is posted those that it asks for: at most `ASK_LIMIT`.
pub fn asked(fingerprints: &[u64], kept: &mut Vec<u64>) {
    if fingerprints.len() > ASK_LIMIT {
        sample_within(fingerprints, ASK_LIMIT, kept);
    } else {
        fingerprints.clone_into(kept);
    }
}

/// Keys of the runs of shingles that begin with each fingerprint, length by length; `sums` is for use again.
pub fn runs(in_order: &[u64], fingerprints: &[u64], sums: &mut Vec<u64>, kept: &mut Vec<u64>) {
    // The sum of a run is that of all shingles behind its begin, less that of those behind its end.
    sums.clear();
    sums.resize(in_order.len() + 1, 0);
    let mut sum = 0_u64;
    for place in (0..in_order.len()).rev() {
        sum = in_order[place].wrapping_add(sum.wrapping_mul(RUN_FACTOR));
        sums[place] = sum;
    }
    // Where the fingerprints with each highest byte end: hashes are spread evenly, and few are left to look at.
    let mut ends = [0; 256];
    fingerprints.iter().for_each(|fingerprint| ends[(fingerprint >> 56) as usize] += 1);
    ends.iter_mut().fold(0, |total, end| {
        *end += total;
        *end
    });
    const NONE: usize = usize::MAX;
    let mut begins = vec![NONE; fingerprints.len()];
    for (place, shingle) in in_order.iter().enumerate() {
        if shingle % SAMPLE_MODULUS == 0 {
            let byte = (shingle >> 56) as usize;
            let start = if byte == 0 { 0 } else { ends[byte - 1] };
            if let Ok(number) = fingerprints[start..ends[byte]].binary_search(shingle) {
                begins[start + number] = begins[start + number].min(place);
            }
        }
    }
    kept.clear();
    for (number, &length) in (0..).zip(&RUN_LENGTHS) {
        let factor = RUN_FACTOR.wrapping_pow(length as u32);
        kept.extend(begins.iter().map(|&begin| {
            let begin = begin.min(in_order.len());
            let behind = sums[(begin + length).min(in_order.len())];
            let run = sums[begin].wrapping_sub(factor.wrapping_mul(behind));
            fold(&[run], START.wrapping_add(RUNS_FROM + number))
        }));
    }
}

fn sample_within(set: &[u64], limit: usize, kept: &mut Vec<u64>) {
    // Every value is written, and the next one over it unless it is kept: no branch that one in twelve takes.
    kept.clear();
    let mut few = [0; 64];
    for values in set.chunks(few.len()) {
        let mut count = 0;
        for &value in values {
            few[count] = value;
            count += usize::from(value % SAMPLE_MODULUS == 0);
        }
        kept.extend_from_slice(&few[..count]);
    }
    // What is a multiple of p is one of 2p where it has one more zero bit below: no division.
    let mut zeros = SAMPLE_MODULUS.trailing_zeros();
    while kept.len() > limit {
        zeros += 1;
        kept.retain(|value| value.trailing_zeros() >= zeros);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_on_lanes_are_those_one_by_one() {
        let mut words = Words::default();
        for count in [0, 1, 5, 63, 64, 65, 200, 1000] {
            let text: Vec<String> =
                (0..count).map(|each: usize| "word".repeat(1 + each * each % 11) + &each.to_string()).collect();
            words.cut(text.join(" ").as_bytes());
            let (mut plainly, mut on_lanes) = (Vec::new(), Vec::new());
            word_hashes_one_by_one(&words, &mut plainly);
            word_hashes_on_lanes(&words, &mut on_lanes);
            assert_eq!(plainly, on_lanes, "{count}");
            let mut made = Vec::new();
            shingles(&plainly, 5, &mut made);
            let expected: Vec<u64> = plainly.windows(count.clamp(1, 5)).map(|run| fold(run, START)).collect();
            assert_eq!(made, expected, "{count}");
        }
    }

    #[test]
    fn samples_are_the_multiples_of_the_smallest_doubling_that_leaves_few_enough() {
        let set: Vec<u64> = (0..200_000u64).map(|each| each * 7).collect();
        for length in [0, 11, 5_000, 49_000, 50_000, 200_000] {
            let mut kept = Vec::new();
            sample(&set[..length], &mut kept);
            let plainly = |modulus| set[..length].iter().copied().filter(move |value| value % modulus == 0);
            let modulus = (0..9).map(|power| SAMPLE_MODULUS << power).find(|&p| plainly(p).count() <= SAMPLE_LIMIT);
            assert_eq!(Some(kept), modulus.map(|modulus| plainly(modulus).collect()), "{length}");
        }
    }

    #[test]
    fn sets_are_sorted_and_distinct_however_values_are_spread() {
        let mut sorter = Sorter::default();
        let mut set = Vec::new();
        for length in [0u64, 1, 5, 16, 100, 1000, 70_000] {
            for spread in [1u64, 0x9e37_79b9_7f4a_7c15, 1 << 40, u64::MAX] {
                let values: Vec<u64> = (0..length).map(|each| (each * each % 1009).wrapping_mul(spread)).collect();
                sorter.distinct(&values, &mut set);
                let expected: Vec<u64> =
                    values.iter().copied().collect::<std::collections::BTreeSet<_>>().into_iter().collect();
                assert_eq!(set, expected);
            }
        }
    }
}
