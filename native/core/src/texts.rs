//! Caches of the last texts, with which a page is compared in one step.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::pairs::overlap;
use crate::sketches::{Bounds, Look, Sketches, Spread};

/// A page that asks.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// Of its text.
    pub number: u64,
    pub sketch: &'a [u8],
    pub shingle_count: u64,
}

/// A text that is not ruled out.
#[derive(Debug, PartialEq, Eq)]
pub struct Compared<'a> {
    pub number: u64,
    /// Whether its sketch is held.
    pub is_known: bool,
    pub overlap: Option<Overlap<'a>>,
}

/// What a text whose shingles are held shares with the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap<'a> {
    pub checksum: &'a [u8],
    pub shared: usize,
    pub size: usize,
}

#[derive(Debug)]
struct Set<S> {
    checksum: Box<[u8]>,
    members: S,
    /// Asked for since it was last spared.
    is_used: AtomicBool,
}

/// Sketches and shingle sets of the last texts, by number.
pub struct Texts<S> {
    pub sketches: Sketches,
    sets: HashMap<u64, Set<S>, BuildHasherDefault<Spread>>,
    order: VecDeque<u64>,
    set_bytes: usize,
    limit_bytes: usize,
}

impl<S: AsRef<[u64]>> Texts<S> {
    pub fn new(limit: usize, bounds: Bounds, limit_bytes: usize) -> Self {
        let sketches = Sketches::new(limit, bounds);
        Self { sketches, sets: HashMap::default(), order: VecDeque::new(), set_bytes: 0, limit_bytes }
    }

    /// Bytes of the shingles held.
    pub fn set_bytes(&self) -> usize {
        self.set_bytes
    }

    /// Hold the shingles of a text, sorted, in place of those that had its number.
    ///
    /// What is too much goes, first in first out; a set that was asked for since is spared once.
    pub fn keep(&mut self, number: u64, checksum: &[u8], members: S) {
        self.set_bytes += size_of_val(members.as_ref());
        let is_used = AtomicBool::new(false);
        let set = Set { checksum: checksum.into(), members, is_used };
        match self.sets.insert(number, set) {
            None => self.order.push_back(number),
            Some(before) => self.set_bytes -= size_of_val(before.members.as_ref()),
        }
        while self.set_bytes > self.limit_bytes && self.order.len() > 1 {
            let Some(oldest) = self.order.pop_front() else { break };
            let is_spared = |set: &Set<S>| set.is_used.swap(false, Ordering::Relaxed);
            if oldest == number || self.sets.get(&oldest).is_some_and(is_spared) {
                self.order.push_back(oldest);
            } else if let Some(gone) = self.sets.remove(&oldest) {
                self.set_bytes -= size_of_val(gone.members.as_ref());
            }
        }
    }

    fn set(&self, number: u64) -> Option<&Set<S>> {
        let set = self.sets.get(&number)?;
        set.is_used.store(true, Ordering::Relaxed);
        Some(set)
    }

    /// Whether the shingles of this very text are held.
    pub fn holds(&self, number: u64, checksum: &[u8]) -> bool {
        self.sets.get(&number).is_some_and(|set| *set.checksum == *checksum)
    }

    /// What a text whose shingles are held shares with the text of another number, held too.
    pub fn overlap(&self, number: u64, other: u64) -> Option<Overlap<'_>> {
        let (mine, other) = (self.sets.get(&number)?, self.set(other)?);
        let members = other.members.as_ref();
        let (shared, size) = (overlap(mine.members.as_ref(), members), members.len());
        Some(Overlap { checksum: &other.checksum, shared, size })
    }

    /// Of some texts those that a page's sketch does not rule out, in order; the first `most` of them compared, where
    /// their shingles are held as the page's are.
    pub fn compare(&self, page: Asking<'_>, numbers: &[u64], most: usize) -> Vec<Compared<'_>> {
        let mut found = Vec::new();
        for &number in numbers {
            let look = self.sketches.look(page.sketch, page.shingle_count, number);
            if look != Look::RuledOut {
                let overlap = if found.len() < most { self.overlap(page.number, number) } else { None };
                found.push(Compared { number, is_known: look == Look::Worth, overlap });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { least_estimate: 0.3, margin: 0.1, least_contained: 0.8 };

    fn texts(limit_bytes: usize) -> Texts<Vec<u64>> {
        Texts::new(9, BOUNDS, limit_bytes)
    }

    #[test]
    fn what_is_held_is_compared_and_what_is_ruled_out_is_left_out() {
        let mut texts = texts(1 << 20);
        texts.keep(1, b"one", vec![1, 2, 3]);
        texts.keep(2, b"two", vec![2, 3, 4, 5]);
        for (number, sketch) in [(1, [0, 0x77, 0x77, 0x77]), (2, [0, 0x77, 0x77, 0x77]), (3, [0, 0x11, 0x11, 0x11])] {
            texts.sketches.put(number, &sketch, 4);
        }
        let page = Asking { number: 1, sketch: &[0, 0x77, 0x77, 0x77], shingle_count: 3 };
        let two = Compared { number: 2, is_known: true, overlap: texts.overlap(1, 2) };
        let unknown = Compared { number: 4, is_known: false, overlap: None };
        assert_eq!(two.overlap, Some(Overlap { checksum: b"two", shared: 2, size: 4 }));
        assert_eq!(texts.compare(page, &[2, 3, 4], 9), [two, unknown]);
        assert_eq!(texts.compare(page, &[2], 0), [Compared { number: 2, is_known: true, overlap: None }]);
    }

    #[test]
    fn a_set_that_was_asked_for_is_spared_once_and_the_last_one_stays() {
        let mut texts = texts(48);
        texts.keep(1, b"1", vec![1, 2, 3]);
        texts.keep(2, b"2", vec![1, 2, 3]);
        assert!(texts.overlap(2, 1).is_some());
        texts.keep(3, b"3", vec![1]);
        assert_eq!([1, 2, 3].map(|number| texts.sets.contains_key(&number)), [true, false, true]);
        texts.keep(4, b"4", (0..100).collect());
        assert_eq!((texts.sets.len(), texts.set_bytes()), (1, 800));
        texts.keep(4, b"four", vec![1]);
        assert_eq!(texts.set_bytes(), 8);
        assert!(texts.holds(4, b"four") && !texts.holds(4, b"4") && !texts.holds(3, b"3"));
    }
}
