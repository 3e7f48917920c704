//! What pairs of sets share.
//!
//! `overlap` compares four values with four at once where the processor has AVX2.
//! Mirrors `overlap`, a merge, and `shared_members` of `tests/reference/fingerprints.py`: one set is put into a table
//! of at least four times its size and any number of others are looked up in it, so that a set which is in many pairs is
//! read once.

/// Parts of two sets that are merged at once: each step waits for the one before it, four of them overlap.
const LANES: usize = 4;
/// Sets smaller than this are merged value by value.
const FEW: usize = 32;
/// A set so many times as large as the other is searched, not merged value by value, or block by block.
const FAR_LARGER: usize = 16;
#[cfg(target_arch = "x86_64")]
const FAR_LARGER_FOR_BLOCKS: usize = 40;

/// How many values two sorted sets share.
///
/// Fastest where values are spread evenly, as hashes are; right for any.
pub fn overlap(first: &[u64], second: &[u64]) -> usize {
    let (short, long) = if first.len() <= second.len() { (first, second) } else { (second, first) };
    #[cfg(target_arch = "x86_64")]
    if short.len() >= FEW && short.len() * FAR_LARGER_FOR_BLOCKS >= long.len() {
        if let Some(shared) = fours::run(short, long) {
            return shared;
        }
    }
    if short.len() * FAR_LARGER < long.len() {
        search(short, long)
    } else if short.len() < FEW {
        merge(short, long)
    } else {
        merge_lanes(short, long)
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod fours {
    use std::arch::x86_64::{
        __m256i, _mm256_cmpeq_epi64, _mm256_loadu_si256, _mm256_or_si256, _mm256_permute2x128_si256,
        _mm256_setzero_si256, _mm256_shuffle_epi32, _mm256_storeu_si256, _mm256_sub_epi64,
    };

    /// Two sets in the same range of values, how far they are merged, and in each part how many values they share.
    struct Half<'a> {
        first: &'a [u64],
        second: &'a [u64],
        shared: __m256i,
    }

    /// `merge` where the processor has AVX2.
    pub fn run(first: &[u64], second: &[u64]) -> Option<usize> {
        // SAFETY: the processor is asked first.
        is_x86_feature_detected!("avx2").then(|| unsafe { merge(first, second) })
    }

    /// Both sets are cut at the same value; the halves are merged in turn, for each step waits for the one before it.
    #[target_feature(enable = "avx2")]
    fn merge(first: &[u64], second: &[u64]) -> usize {
        let cut = |set: &[u64]| set.partition_point(|&value| value >> 63 == 0);
        let ((low, high), (other_low, other_high)) = (first.split_at(cut(first)), second.split_at(cut(second)));
        let shared = _mm256_setzero_si256();
        let mut low = Half { first: low, second: other_low, shared };
        let mut high = Half { first: high, second: other_high, shared };
        loop {
            let both = low.blocks().min(high.blocks());
            if both == 0 {
                break;
            }
            for _ in 0..both {
                low.step();
                high.step();
            }
        }
        low.finish() + high.finish()
    }

    impl Half<'_> {
        /// So many steps can be done at least.
        #[inline(always)]
        fn blocks(&self) -> usize {
            self.first.len().min(self.second.len()) / 4
        }

        /// Compare two blocks of four; that whose largest value is not above that of the other is done, for what
        /// follows there is larger.
        #[inline]
        #[target_feature(enable = "avx2")]
        fn step(&mut self) {
            let (Some(left), Some(right)) = (self.first.first_chunk::<4>(), self.second.first_chunk::<4>()) else {
                return;
            };
            // SAFETY: each reads the 32 bytes of a block.
            let four = unsafe { _mm256_loadu_si256(left.as_ptr().cast()) };
            // SAFETY: as above.
            let other = unsafe { _mm256_loadu_si256(right.as_ptr().cast()) };
            // Neighbours change places, halves do, and both, so that each value meets each.
            let halves = _mm256_permute2x128_si256::<1>(other, other);
            let neighbours = [other, halves].map(|other| _mm256_shuffle_epi32::<0b01_00_11_10>(other));
            let one = _mm256_or_si256(_mm256_cmpeq_epi64(four, other), _mm256_cmpeq_epi64(four, halves));
            let two = _mm256_or_si256(_mm256_cmpeq_epi64(four, neighbours[0]), _mm256_cmpeq_epi64(four, neighbours[1]));
            self.shared = _mm256_sub_epi64(self.shared, _mm256_or_si256(one, two)); // of equal values all bits are set
            self.first = &self.first[4 * usize::from(left[3] <= right[3])..];
            self.second = &self.second[4 * usize::from(right[3] <= left[3])..];
        }

        #[target_feature(enable = "avx2")]
        fn finish(mut self) -> usize {
            while self.blocks() > 0 {
                self.step();
            }
            let mut counts = [0_u64; 4];
            // SAFETY: writes the 32 bytes of `counts`.
            unsafe { _mm256_storeu_si256(counts.as_mut_ptr().cast(), self.shared) };
            counts.iter().sum::<u64>() as usize + super::merge(self.first, self.second)
        }
    }
}

/// Looks for each value of a small set where a step as long as the ratio of their sizes leads, or behind it.
fn search(short: &[u64], long: &[u64]) -> usize {
    let stride = long.len() / short.len().max(1);
    let mut rest = long;
    let mut shared = 0;
    for &value in short {
        let mut step = stride;
        while rest.get(step).is_some_and(|&other| other < value) {
            rest = &rest[step + 1..];
            step *= 2;
        }
        let near = &rest[..rest.len().min(step + 1)];
        let at = near.partition_point(|&other| other < value);
        shared += usize::from(rest.get(at) == Some(&value));
        rest = &rest[at..];
    }
    shared
}

fn merge(first: &[u64], second: &[u64]) -> usize {
    let (mut at_first, mut at_second, mut shared) = (0, 0, 0);
    while at_first < first.len() && at_second < second.len() {
        step(first, second, &mut at_first, &mut at_second, &mut shared);
    }
    shared
}

#[inline]
fn step(first: &[u64], second: &[u64], at_first: &mut usize, at_second: &mut usize, shared: &mut usize) {
    let (left, right) = (first[*at_first], second[*at_second]);
    *shared += usize::from(left == right);
    *at_first += usize::from(left <= right);
    *at_second += usize::from(right <= left);
}

/// Both sets cut at the same values; the parts are merged in step as long as none of them can end.
fn merge_lanes(first: &[u64], second: &[u64]) -> usize {
    let (first, second) = (cut(first), cut(second));
    let (mut at_first, mut at_second, mut shared) = ([0; LANES], [0; LANES], [0; LANES]);
    loop {
        let left = |lane: usize| (first[lane].len() - at_first[lane]).min(second[lane].len() - at_second[lane]);
        let steps = (0..LANES).map(left).min().unwrap_or(0);
        if steps == 0 {
            break;
        }
        for _ in 0..steps {
            for lane in 0..LANES {
                step(first[lane], second[lane], &mut at_first[lane], &mut at_second[lane], &mut shared[lane]);
            }
        }
    }
    let rest = (0..LANES).map(|lane| merge(&first[lane][at_first[lane]..], &second[lane][at_second[lane]..]));
    rest.chain(shared).sum()
}

/// A sorted set in `LANES` parts of the space of values.
fn cut(set: &[u64]) -> [&[u64]; LANES] {
    let mut rest = set;
    std::array::from_fn(|lane| {
        let end = (lane as u64 + 1).wrapping_mul(u64::MAX / LANES as u64 + 1);
        let count = if lane + 1 == LANES { rest.len() } else { rest.partition_point(|&value| value < end) };
        let (part, behind) = rest.split_at(count);
        rest = behind;
        part
    })
}

/// A set to look others up in; of use again for the next one.
#[derive(Default)]
pub struct Marked {
    /// Open addressing, linear probing; 0 is an empty place.
    table: Vec<u64>,
    shift: u32,
    has_zero: bool,
}

/// 2^64 divided by the golden ratio: spreads members that have their low or high bits in common.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl Marked {
    /// Take a set of distinct members in place of the one before.
    pub fn mark(&mut self, set: &[u64]) {
        let size = (4 * set.len().max(4)).next_power_of_two();
        self.table.clear();
        self.table.resize(size, 0);
        self.shift = 64 - size.trailing_zeros();
        self.has_zero = false;
        for &member in set {
            if member == 0 {
                self.has_zero = true;
                continue;
            }
            let place = self.place(member);
            self.table[place] = member;
        }
    }

    /// How many members of another set of distinct members are in it.
    pub fn shared(&self, set: &[u64]) -> usize {
        if self.table.is_empty() {
            return 0;
        }
        let holds = |member: u64| if member == 0 { self.has_zero } else { self.table[self.place(member)] != 0 };
        set.iter().filter(|&&member| holds(member)).count()
    }

    /// Where a member lies, or the empty place that it would take.
    fn place(&self, member: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut place = (member.wrapping_mul(SPREAD) >> self.shift) as usize;
        while self.table[place] != 0 && self.table[place] != member {
            place = (place + 1) & mask;
        }
        place
    }
}

/// What each pair of sets shares; set i has the members `starts[i]..starts[i + 1]`.  None where a pair names a set that
/// is not there, or the members of one are not.
pub fn shared_members(starts: &[u64], members: &[u64], first: &[u64], second: &[u64]) -> Option<Vec<u64>> {
    let set = |number: u64| {
        let at = usize::try_from(number).ok()?;
        let (begin, end) = (*starts.get(at)?, *starts.get(at.checked_add(1)?)?);
        members.get(usize::try_from(begin).ok()?..usize::try_from(end).ok()?)
    };
    let (mut marked, mut held) = (Marked::default(), None);
    let mut counts = Vec::with_capacity(first.len());
    for (&one, &other) in first.iter().zip(second) {
        if held != Some(one) {
            marked.mark(set(one)?);
            held = Some(one);
        }
        counts.push(marked.shared(set(other)?) as u64);
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_counts_shared_values_of_sets_of_any_size_and_spread() {
        for spread in [1, 1 << 40, SPREAD] {
            let set = |step: u64, count: u64| -> Vec<u64> {
                let mut members: Vec<u64> = (0..count).map(|each| (each * step).wrapping_mul(spread)).collect();
                members.sort_unstable();
                members
            };
            let sets: Vec<Vec<u64>> = [(2, 1000), (3, 700), (5, 40), (7, 31), (11, 3), (1, 1), (1, 0), (4, 5000)]
                .iter()
                .map(|&(step, count)| set(step, count))
                .collect();
            for one in &sets {
                for other in &sets {
                    let shared = one.iter().filter(|value| other.binary_search(value).is_ok()).count();
                    assert_eq!(overlap(one, other), shared, "{} and {}", one.len(), other.len());
                    assert_eq!(merge_lanes(one, other), shared, "{} and {} in lanes", one.len(), other.len());
                }
            }
        }
    }

    #[test]
    fn lookups_count_what_a_merge_counts() {
        let mut marked = Marked::default();
        assert_eq!(marked.shared(&[1, 2]), 0);
        for stride in [1u64, 3, 1 << 21, 1 << 43, SPREAD] {
            let set = |step: u64, count: u64| -> Vec<u64> {
                let mut members: Vec<u64> = (0..count).map(|each| (each * step).wrapping_mul(stride)).collect();
                members.sort_unstable();
                members.dedup();
                members
            };
            for (one, other) in [(set(2, 900), set(3, 700)), (set(1, 5), set(1, 0)), (set(1, 0), set(1, 5))] {
                marked.mark(&one);
                assert_eq!(marked.shared(&other), merge(&one, &other), "{stride}");
            }
        }
    }

    #[test]
    fn pairs_that_name_no_set_are_refused() {
        let (starts, members) = ([0, 2, 2, 5], [0, 7, 0, 7, 9]);
        assert_eq!(shared_members(&starts, &members, &[0, 0, 2], &[2, 1, 2]), Some(vec![2, 0, 3]));
        assert_eq!(shared_members(&starts, &members, &[0], &[3]), None);
        assert_eq!(shared_members(&starts, &members, &[u64::MAX], &[0]), None);
        assert_eq!(shared_members(&[0, 9], &members, &[0], &[0]), None);
        assert_eq!(shared_members(&[3, 1], &members, &[0], &[0]), None);
        assert_eq!(shared_members(&[], &[], &[], &[]), Some(Vec::new()));
    }
}
