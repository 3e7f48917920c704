//! A sorted set of hashes and where in it each of their first bits begins: counts what two sets share by look-ups.
//!
//! The same counts as `pairs::overlap`, in a half of its time once an index is there: for sets that are compared again
//! and again.  Hashes are spread evenly, so an equal share of their space has few of them; sets that are not are counted
//! right, and slower.

/// Values looked at without asking how many there are: few shares of the space have more.
const WINDOW: usize = 6;

/// Of one set; the set itself is handed in again.
#[derive(Debug)]
pub struct Index {
    /// Values before each share of the space, and at the end all.
    starts: Vec<u32>,
    shift: u32,
}

impl Index {
    /// None for a set that is not worth it, or too large to be counted in 32 bits.
    pub fn new(set: &[u64]) -> Option<Self> {
        let count = u32::try_from(set.len()).ok().filter(|&count| count >= 32)?;
        let bits = count.ilog2() - 1;
        let shift = u64::BITS - bits;
        let mut starts = vec![0_u32; (1 << bits) + 1];
        for (number, &value) in (1..).zip(set) {
            starts[(value >> shift) as usize + 1] = number;
        }
        let mut last = 0;
        for start in &mut starts {
            last = last.max(*start);
            *start = last;
        }
        Some(Self { starts, shift })
    }

    /// How many values a set shares with the one that this is of.
    pub fn shared(&self, set: &[u64], other: &[u64]) -> usize {
        other.iter().filter(|&&value| self.holds(set, value)).count()
    }

    #[inline]
    fn holds(&self, set: &[u64], value: u64) -> bool {
        let share = (value >> self.shift) as usize;
        let (start, end) = (self.starts[share] as usize, self.starts[share + 1] as usize);
        // Values behind the share begin with other bits, so that none of them is equal.
        match set.get(start..start + WINDOW) {
            Some(near) if end <= start + WINDOW => near.iter().fold(false, |found, &one| found | (one == value)),
            _ => set.get(start..end).is_some_and(|its| its.binary_search(&value).is_ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::overlap;

    #[test]
    fn look_ups_count_what_a_merge_counts_however_values_are_spread() {
        for spread in [1, 3, 1 << 40, 0x9e37_79b9_7f4a_7c15] {
            let set = |step: u64, count: u64| -> Vec<u64> {
                let mut members: Vec<u64> = (0..count).map(|each| (each * step).wrapping_mul(spread)).collect();
                members.sort_unstable();
                members.push(u64::MAX);
                members
            };
            for one in [set(1, 31), set(1, 32), set(2, 700), set(3, 4000)] {
                let index = Index::new(&one).expect("large enough");
                for other in [set(1, 0), set(5, 40), set(4, 900), one.clone(), Vec::new()] {
                    assert_eq!(index.shared(&one, &other), overlap(&one, &other), "{spread} {}", one.len());
                }
            }
        }
        assert!(Index::new(&[1, 2, 3]).is_none());
    }
}
