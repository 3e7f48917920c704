//! What the tags around a text say of it, as marks: names of tags, words of classes and ids, roles, states.
//!
//! An element is *never content* where it says that it is a dialog: by its `role` (dialog, alertdialog), by
//! `aria-modal`, by the name of a consent manager among the words of its `class` and `id`, or by a name in these that
//! has a word of consent and a word of a notice (`cookie-banner`, `gdprPopup`); or its name is one of the names that
//! are never content. That is the first mark.  The name of a custom element, which has a hyphen, is read as a class of
//! that name.
//!
//! An element's other marks are its tag's name, the words of its `class` and `id` (cut and negated as for evidence),
//! its `role` (`role=list`), the values of its `itemprop` (`itemprop=text`), and `hidden` and `aria-hidden` where its
//! attributes say so; those that the scorecard knows count, all others are nothing.  A text has the marks of all
//! elements around it, each once.
//!
//! Cases, in `tests/cases/text/`: `scored`, `scorecard`.

use std::hash::Hasher;

use crate::bytes;
use crate::names::NAME_DIALOG;
use crate::tables::scorecard::{MARK_COUNT, MARK_NAMES, MARK_NEVER, MARK_SCORES, TAG_MARKS};

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
const PARTS: usize = MARK_COUNT.div_ceil(64);
/// No mark.
const NONE: u16 = u16::MAX;

/// A set of marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Marks([u64; PARTS]);

impl Marks {
    /// Add a mark, or `NONE`.
    #[inline(always)]
    pub fn add(&mut self, mark: u16) {
        if mark != NONE {
            self.0[mark as usize / 64] |= 1 << (mark % 64);
        }
    }

    /// All of them, as bits.
    #[inline(always)]
    pub fn parts(&self) -> &[u64] {
        &self.0
    }

    /// Whether the element is never content.
    #[inline(always)]
    pub fn is_never(self) -> bool {
        self.0[0] & 1 << MARK_NEVER != 0
    }

    #[inline(always)]
    pub fn with(mut self, other: Self) -> Self {
        for (mine, other) in self.0.iter_mut().zip(other.0) {
            *mine |= other;
        }
        self
    }

    /// Whether another set has all of these.
    #[inline(always)]
    pub fn are_in(self, other: Self) -> bool {
        self.0.iter().zip(other.0).fold(0, |left, (mine, other)| left | (mine & !other)) == 0
    }

    /// The name and the score of each.
    pub fn named(self) -> impl Iterator<Item = (&'static str, i32)> {
        let has = move |mark: usize| self.0[mark / 64] >> (mark % 64) & 1 != 0;
        (0..MARK_COUNT).filter(move |&mark| has(mark)).map(|mark| (MARK_NAMES[mark], MARK_SCORES[mark].into()))
    }

    /// Sum of the scores of those that are not in another set.
    #[inline(always)]
    pub fn score_beyond(self, other: Self) -> i32 {
        let mut sum = 0;
        for part in 0..PARTS {
            let mut left = self.0[part] & !other.0[part];
            while left != 0 {
                sum += i32::from(MARK_SCORES[part * 64 + left.trailing_zeros() as usize]);
                left &= left - 1;
            }
        }
        sum
    }
}

#[inline(always)]
fn by_name(element: u32) -> u16 {
    TAG_MARKS.get(element as usize).copied().unwrap_or(NONE)
}

/// Whether a tag has a mark by its name alone, which is among the known ones.
#[inline(always)]
pub fn has_name_marks(element: u32) -> bool {
    by_name(element) != NONE || element == NAME_DIALOG
}

/// The marks of a tag by its name alone, which is among the known ones.
#[inline(always)]
pub fn name_marks(element: u32) -> Marks {
    let mut found = Marks::default();
    found.add(by_name(element));
    if element == NAME_DIALOG {
        found.add(MARK_NEVER);
    }
    found
}

/// Hashes what `Marks` are made of.
#[derive(Default)]
pub struct Mixed(u64);

impl Mixed {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(MIX);
    }
}

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for &word in words {
            self.mix(u64::from_le_bytes(word));
        }
        self.mix(bytes::load_padded(rest, 0));
    }

    fn write_u32(&mut self, word: u32) {
        self.mix(word.into());
    }
}
