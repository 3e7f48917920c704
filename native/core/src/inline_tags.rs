//! Which inline tags stand apart: those whose attributes say that they are adverts or never content.
//!
//! A page has some hundreds of inline tags and nearly none stands apart.  So the bytes of its attributes are looked
//! through for the beginnings of the words without which none does, and only where one is found the attributes are read.

use std::ops::Range;
use std::sync::OnceLock;

use crate::attributes::{decoded, number_of, Remembered, Said, ARIA_MODAL, NAMES, ROLE};
use crate::groups;
use crate::names::ADVERT_WORDS;
use crate::tables::scorecard::{CONSENT_MANAGERS, CONSENT_NAMES};
use crate::tokens::each_attribute;
use crate::wide::{Bytes, Groups};

/// Of the role, and of the attribute's name, that make a dialog.
const DIALOG_WORDS: [&str; 3] = ["dialog", "alertdialog", "modal"];
/// First bytes by which words are told apart.
const READ_AHEAD: usize = 6;

/// What stands in attributes most.
const FREQUENT: [&str; 6] = ["class", "href=", "title", "style", "target", "https"];

/// Beginnings of the words that can make a tag stand apart, and the ampersand, which could write one.
struct Beginnings {
    /// By first letter.
    words: [Vec<&'static [u8]>; 26],
    groups: Groups<READ_AHEAD>,
}

fn beginnings() -> &'static Beginnings {
    static BEGINNINGS: OnceLock<Beginnings> = OnceLock::new();
    BEGINNINGS.get_or_init(|| {
        let mut all: Vec<&[u8]> = [&ADVERT_WORDS[..], &CONSENT_MANAGERS, &CONSENT_NAMES, &DIALOG_WORDS]
            .into_iter()
            .flatten()
            .map(|word| word.as_bytes())
            .collect();
        all.sort_unstable();
        // In order, a word stands right behind the shorter ones that it begins with.
        all.dedup_by(|word, kept| word.starts_with(kept));
        let groups = groups::of(all.iter().copied().chain([&b"&"[..]]).map(groups::in_any_case), &FREQUENT);
        let mut words = [const { Vec::new() }; 26];
        for word in all {
            words[usize::from(word[0] - b'a')].push(word);
        }
        Beginnings { words, groups }
    })
}

impl Beginnings {
    /// Whether a word may begin at `place`, or is written there by a character reference.
    #[inline(never)]
    fn is_at(&self, text: &[u8], place: usize) -> bool {
        let Some(&first) = text.get(place) else { return false };
        if !first.is_ascii_alphabetic() {
            return first == b'&';
        }
        let before = if place == 0 { b' ' } else { text[place - 1] };
        // Where small letters, or capitals, go on, no word of a name begins.
        if before.is_ascii_alphabetic() && before.is_ascii_lowercase() == first.is_ascii_lowercase() {
            return false;
        }
        let words = &self.words[usize::from((first | 0x20) - b'a')];
        words.iter().any(|word| text[place..].get(..word.len()).is_some_and(|here| here.eq_ignore_ascii_case(word)))
    }

    /// Whether a part of a source has a beginning; bytes behind the part are read at once with it.
    #[inline(always)]
    fn are_in<B: Bytes>(&self, source: &[u8], part: Range<usize>) -> bool {
        let mut is_behind_small = 0;
        for start in part.clone().step_by(B::COUNT) {
            let bytes = B::load(source, start);
            let small = bytes.at_most(b'z') & !bytes.at_most(b'a' - 1);
            // Most candidates stand within words.
            let mut places = B::in_a_group(source, start, &self.groups) & !(small & (small << 1 | is_behind_small));
            is_behind_small = small >> (B::COUNT - 1);
            while places != 0 {
                if self.is_at(&source[..part.end], start + places.trailing_zeros() as usize) {
                    return true;
                }
                places &= places - 1;
            }
        }
        false
    }
}

/// What classes and ids say of inline tags, remembered by their values: the rest of a link's attributes is its own.
pub struct InlineTags {
    beginnings: &'static Beginnings,
    values: Remembered,
}

impl Default for InlineTags {
    fn default() -> Self {
        Self { beginnings: beginnings(), values: Remembered::default() }
    }
}

impl InlineTags {
    /// Begin a page.
    pub fn begin(&mut self) {
        self.values.begin();
    }

    /// Whether the attributes of a start tag say that it is an advert, or never content.
    #[inline(always)]
    pub fn stand_apart<B: Bytes>(&mut self, source: &[u8], attributes: Range<usize>) -> bool {
        self.beginnings.are_in::<B>(source, attributes.clone()) && self.say_so(&source[attributes])
    }

    #[inline(never)]
    fn say_so(&mut self, attributes: &[u8]) -> bool {
        let (mut found, mut seen) = (false, 0u8);
        each_attribute(attributes, |name, value| {
            let Some(number) = number_of(name).filter(|number| seen & 1 << number == 0) else { return };
            seen |= 1 << number;
            if NAMES.contains(&number) {
                let known = self.values.number_by(value, Said::of_names);
                found |= self.values.said(known).stands_apart();
            } else if number == ROLE || number == ARIA_MODAL {
                found |= Said::of_state(number, &decoded(value)).stands_apart();
            }
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wide::{self, Work};

    struct Ask<'a>(&'a [u8]);

    impl Work for Ask<'_> {
        type Made = bool;

        #[inline(always)]
        fn on<B: Bytes>(self) -> bool {
            beginnings().are_in::<B>(self.0, 0..self.0.len())
        }
    }

    #[test]
    fn no_tag_that_stands_apart_lacks_a_beginning() {
        let mut words =
            vec!["x", "box", "banner", "no", "-", "_", " ", "&#97;d", "\u{e9}", "7", "D", "d", "AB", "role", "="];
        words.extend(ADVERT_WORDS.iter().chain(&CONSENT_MANAGERS).chain(&CONSENT_NAMES).chain(&DIALOG_WORDS));
        let mut state = 1u64;
        let mut next = |bound: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % bound
        };
        let (mut tags, mut count) = (InlineTags::default(), 0);
        for turn in 0..40_000 {
            let mut attributes = " data-x='".to_owned() + &"y".repeat(turn % 70) + "'";
            for _ in 0..=next(2) {
                attributes +=
                    [" class=", " ID='", " role=", " Role=\"", " aria-modal=", " aria-MODAL=true id=\""][next(6)];
                for _ in 0..=next(3) {
                    let word = words[next(words.len())];
                    attributes += &match next(4) {
                        0 => word.to_ascii_uppercase(),
                        1 if word.is_ascii() => word[..1].to_ascii_uppercase() + &word[1..],
                        _ => word.to_owned(),
                    };
                }
                attributes += ["", "'", "\"", " "][next(4)];
            }
            if tags.say_so(attributes.as_bytes()) {
                count += 1;
                for found in
                    [Ask(attributes.as_bytes()).on::<crate::simd::Sixteen>(), wide::run(Ask(attributes.as_bytes()))]
                {
                    assert!(found, "{attributes}");
                }
            }
        }
        assert!(count > 1000, "{count}");
    }
}
