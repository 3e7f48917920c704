//! Sketches of the last texts, and which texts they rule out.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// A text number is part of a checksum: it is spread already.
#[derive(Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Share of unequal bins of 4 bits that agree.
const BY_CHANCE: f64 = 1.0 / 16.0;

/// What a sketch must leave possible, for its text to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Least estimate of the Jaccard coefficient.
    pub least_estimate: f64,
    /// Added to an estimate to come to the upper end of its error.
    pub margin: f64,
    /// Least share of the smaller text that may lie in the other.
    pub least_contained: f64,
}

/// What is known of one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    RuledOut,
    Worth,
    Unknown,
}

/// The last sketches by text number, first in first out.
pub struct Sketches {
    held: HashMap<u64, (u64, Box<[u8]>), BuildHasherDefault<Spread>>,
    order: VecDeque<u64>,
    limit: usize,
    bounds: Bounds,
}

impl Sketches {
    pub fn new(limit: usize, bounds: Bounds) -> Self {
        Self { held: HashMap::default(), order: VecDeque::new(), limit, bounds }
    }

    pub fn len(&self) -> usize {
        self.held.len()
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Hold the sketch of a text with so many shingles; one that is held keeps its place in the order.
    pub fn put(&mut self, number: u64, sketch: &[u8], shingle_count: u64) {
        if self.held.insert(number, (shingle_count, sketch.into())).is_none() {
            self.order.push_back(number);
            if self.order.len() > self.limit {
                if let Some(oldest) = self.order.pop_front() {
                    self.held.remove(&oldest);
                }
            }
        }
    }

    /// Whether a page with this sketch should look at the text.
    pub fn look(&self, sketch: &[u8], shingle_count: u64, number: u64) -> Look {
        match self.held.get(&number) {
            None => Look::Unknown,
            Some((others, other)) => {
                let estimate = similarity(sketch, other);
                if self.leaves_room(estimate, shingle_count as f64, *others as f64) {
                    Look::Worth
                } else {
                    Look::RuledOut
                }
            }
        }
    }

    /// Of some texts those whose sketch is not held.
    pub fn unheld(&self, numbers: &[u64]) -> Vec<u64> {
        numbers.iter().copied().filter(|number| !self.held.contains_key(number)).collect()
    }

    /// Of some texts the `most` with the highest estimate, `least` and more; equal ones in their order.
    pub fn likeliest(&self, sketch: &[u8], numbers: &[u64], least: f64, most: usize) -> Vec<u64> {
        let estimate = |&number: &u64| self.held.get(&number).map(|(_, other)| (number, similarity(sketch, other)));
        let mut likely: Vec<_> = numbers.iter().filter_map(estimate).filter(|&(_, alike)| alike >= least).collect();
        likely.sort_by(|one, other| other.1.total_cmp(&one.1));
        likely.into_iter().take(most).map(|(number, _)| number).collect()
    }

    fn leaves_room(&self, estimate: f64, first: f64, second: f64) -> bool {
        let Bounds { least_estimate, margin, least_contained } = self.bounds;
        // The order of these steps counts: doubles are rounded at each.
        estimate >= least_estimate
            || (estimate + margin) / (1.0 + estimate + margin) * (first + second) >= least_contained * first.min(second)
    }
}

/// `sketch.similarity`.
pub fn similarity(first: &[u8], second: &[u8]) -> f64 {
    let bins = 2 * first.len().saturating_sub(1);
    if bins == 0 || first.len() != second.len() || first[0] != second[0] {
        return 0.0;
    }
    // Counted in bytes, so that the compiler compares many at once; a count of 254 fits.
    let pairs = first[1..].chunks(127).zip(second[1..].chunks(127));
    let equal: usize = pairs
        .map(|(one, other)| {
            let halves = one.iter().zip(other).map(|(one, other)| one ^ other);
            usize::from(halves.map(|it| u8::from(it & 0x0f == 0) + u8::from(it & 0xf0 == 0)).sum::<u8>())
        })
        .sum();
    ((equal as f64 / bins as f64 - BY_CHANCE) / (1.0 - BY_CHANCE)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { least_estimate: 0.3, margin: 0.1, least_contained: 0.8 };

    #[test]
    fn the_oldest_goes_first_and_one_held_again_keeps_its_place() {
        let mut sketches = Sketches::new(2, BOUNDS);
        for (number, count) in [(1, 10), (2, 10), (1, 20), (3, 10)] {
            sketches.put(number, &[1, 2, 3], count);
        }
        assert_eq!(sketches.len(), 2);
        assert_eq!(sketches.look(&[1, 2, 3], 10, 1), Look::Unknown);
        assert_eq!(sketches.look(&[1, 2, 3], 10, 3), Look::Worth);
    }

    #[test]
    fn sketches_of_another_scheme_or_length_say_nothing_of_likeness() {
        assert_eq!(similarity(&[1, 7, 7], &[1, 7, 7]), 1.0);
        assert_eq!(similarity(&[1, 7, 7], &[2, 7, 7]), 0.0);
        assert_eq!(similarity(&[1, 7, 7], &[1, 7]), 0.0);
        assert_eq!(similarity(&[1], &[1]), 0.0);
        assert_eq!(similarity(&[], &[]), 0.0);
    }

    #[test]
    fn a_small_text_may_lie_in_a_large_one_whatever_their_likeness() {
        let mut sketches = Sketches::new(9, BOUNDS);
        sketches.put(1, &[1, 0, 0, 0], 100);
        assert_eq!(sketches.look(&[1, 0x99, 0x99, 0x99], 100, 1), Look::RuledOut);
        assert_eq!(sketches.look(&[1, 0x99, 0x99, 0x99], 1000, 1), Look::Worth);
    }
}
