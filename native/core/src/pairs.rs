//! What pairs of sets share.
//!
//! Mirrors `shared_members` of `docstore/dedup/overlaps.py`.  One set is put into a table of at least four times its size and any number of
//! others are looked up in it, so that a set which is in many pairs is read once.

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
    use crate::shingle::overlap;

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
                assert_eq!(marked.shared(&other), overlap(&one, &other), "{stride}");
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
