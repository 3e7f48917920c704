//! What the tags around a text say of it: `docstore/text/marks.py`.

use std::sync::OnceLock;

use crate::bytes;
use crate::evidence::any_word;
use crate::names::NEGATIONS;
use crate::page::{attribute_value, is_space};
use crate::tables::scorecard::{
    CONSENT_MANAGERS, CONSENT_NAMES, ITEM_MARKS, MARK_ARIA_HIDDEN, MARK_COUNT, MARK_HIDDEN, MARK_NEVER, MARK_SCORES,
    NOTICES, ROLE_MARKS, TAG_MARKS, WORD_MARKS,
};
use crate::tokens::each_attribute;

const PARTS: usize = MARK_COUNT.div_ceil(64);
/// No mark.
pub const NONE: u16 = u16::MAX;

/// A set of marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Marks([u64; PARTS]);

impl Marks {
    #[inline(always)]
    fn add(&mut self, mark: u16) {
        if mark != NONE {
            self.0[mark as usize / 64] |= 1 << (mark % 64);
        }
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

    /// A number that equal sets share.
    pub fn mixed(self) -> u64 {
        self.0.iter().fold(0, |mixed: u64, &part| (mixed.rotate_left(23) ^ part).wrapping_mul(MIX))
    }
}

const SLOTS: usize = 2048;
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a word of a class or id says.
#[derive(Clone, Copy, Default)]
struct Said {
    mark: Option<u16>,
    /// The next word does not count.
    negates: bool,
    is_manager: bool,
    is_consent: bool,
    is_notice: bool,
}

/// Words by their first eight letters and their length.
struct Words {
    slots: Vec<Option<(&'static str, Said)>>,
}

fn slot_of(word: &[u8]) -> usize {
    let key = bytes::lower(bytes::load_padded(&word[..word.len().min(8)], 0)) ^ (word.len() as u64) << 59;
    (key.wrapping_mul(MIX) >> (64 - SLOTS.trailing_zeros())) as usize
}

fn words() -> &'static Words {
    static TABLE: OnceLock<Words> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Words { slots: vec![None; SLOTS] };
        for (word, mark) in WORD_MARKS {
            table.said(word).mark = Some(mark);
        }
        NEGATIONS.iter().for_each(|word| table.said(word).negates = true);
        CONSENT_MANAGERS.iter().for_each(|word| table.said(word).is_manager = true);
        CONSENT_NAMES.iter().for_each(|word| table.said(word).is_consent = true);
        NOTICES.iter().for_each(|word| table.said(word).is_notice = true);
        table
    })
}

impl Words {
    /// The place of a word, or the free one where it would stand.
    #[inline(always)]
    fn slot(&self, word: &[u8]) -> usize {
        let mut slot = slot_of(word);
        while self.slots[slot].is_some_and(|(known, _)| !known.as_bytes().eq_ignore_ascii_case(word)) {
            slot = (slot + 1) % SLOTS;
        }
        slot
    }

    #[inline(always)]
    fn find(&self, word: &[u8]) -> Said {
        self.slots[self.slot(word)].map_or_else(Said::default, |(_, said)| said)
    }

    fn said(&mut self, word: &'static str) -> &mut Said {
        let slot = self.slot(word.as_bytes());
        &mut self.slots[slot].get_or_insert((word, Said::default())).1
    }
}

fn add_words(names: &[u8], found: &mut Marks) {
    if names.is_ascii() {
        // Of the white space of `str.split`, what a name in ASCII can have.
        let is_blank = |byte: &u8| matches!(byte, 9..=13 | 28..=32);
        return names.split(is_blank).for_each(|name| add_name(name, found));
    }
    String::from_utf8_lossy(names).split(is_space).for_each(|name| add_name(name.as_bytes(), found));
}

fn add_name(name: &[u8], found: &mut Marks) {
    let words = words();
    let (mut negated, mut says_consent, mut says_notice) = (false, false, false);
    any_word(name, |word| {
        let said = words.find(word);
        if !negated {
            found.add(said.mark.unwrap_or(NONE));
            if said.is_manager || (said.is_consent && says_notice) || (said.is_notice && says_consent) {
                found.add(MARK_NEVER);
            }
        }
        says_consent |= said.is_consent;
        says_notice |= said.is_notice;
        negated = said.negates;
        false
    });
}

fn named(known: &[(&str, u16)], name: &str) -> u16 {
    known.iter().find(|(each, _)| each.eq_ignore_ascii_case(name)).map_or(NONE, |&(_, mark)| mark)
}

/// The number of an attribute that can say something.
fn number_of(name: &[u8]) -> Option<usize> {
    const NAMES: [&str; 8] = ["class", "id", "role", "itemprop", "aria-modal", "aria-hidden", "hidden", "style"];
    let number = match name.len() {
        2 => 1,
        4 => 2,
        5 if name[0] | 32 == b'c' => 0,
        5 => 7,
        6 => 6,
        8 => 3,
        10 => 4,
        11 => 5,
        _ => return None,
    };
    name.eq_ignore_ascii_case(NAMES[number].as_bytes()).then_some(number)
}

/// Marks of the attributes of one start tag, as in the source.
#[inline(never)]
fn attribute_marks(attributes: &[u8]) -> Marks {
    let mut found = Marks::default();
    let mut seen = 0u8;
    each_attribute(attributes, |name, value| {
        let Some(number) = number_of(name).filter(|number| seen & 1 << number == 0) else { return };
        seen |= 1 << number;
        let decoded = memchr::memchr(b'&', value).map(|_| attribute_value(value));
        let value = decoded.as_ref().map_or(value, |decoded| decoded.as_bytes());
        if number < 2 {
            return add_words(value, &mut found);
        }
        let value = String::from_utf8_lossy(value);
        match number {
            2 => {
                let role = value.trim_matches(is_space);
                found.add(named(&ROLE_MARKS, role));
                if role.eq_ignore_ascii_case("dialog") || role.eq_ignore_ascii_case("alertdialog") {
                    found.add(MARK_NEVER);
                }
            }
            3 => value.split(is_space).for_each(|item| found.add(named(&ITEM_MARKS, item))),
            4 if value.eq_ignore_ascii_case("true") => found.add(MARK_NEVER),
            5 if value.eq_ignore_ascii_case("true") => found.add(MARK_ARIA_HIDDEN),
            6 => found.add(MARK_HIDDEN),
            7 if value.to_ascii_lowercase().replace(' ', "").contains("display:none") => found.add(MARK_HIDDEN),
            _ => {}
        }
    });
    found
}

/// The mark of a tag by its name alone.
pub fn name_marks(element: u32) -> Marks {
    let mut found = Marks::default();
    found.add(TAG_MARKS.get(element as usize).copied().unwrap_or(NONE));
    found
}

const REMEMBERED: usize = 1024;

/// What attributes of a page say: a page's tags repeat their attributes, which are looked through once.
pub struct Remembered {
    /// By slot: place and length in the source, and marks; length 0 where there is nothing.
    slots: Vec<(u32, u32, Marks)>,
}

impl Default for Remembered {
    fn default() -> Self {
        Self { slots: vec![(0, 0, Marks::default()); REMEMBERED] }
    }
}

impl Remembered {
    /// Forget the page before.
    pub fn clear(&mut self) {
        self.slots.fill((0, 0, Marks::default()));
    }

    /// Marks of the attributes that stand at a place of this page's source.
    #[inline(always)]
    pub fn marks(&mut self, source: &[u8], (place, length): (usize, usize)) -> Marks {
        if length == 0 {
            return Marks::default();
        }
        let attributes = &source[place..place + length];
        let middle = bytes::load_padded(attributes, (length / 2).min(length.saturating_sub(8)));
        let ends = bytes::load_padded(attributes, 0) ^ bytes::load_padded(attributes, length.saturating_sub(8)) << 1;
        let mixed = (ends ^ middle.rotate_left(29) ^ length as u64).wrapping_mul(MIX);
        let slot = (mixed >> (64 - REMEMBERED.trailing_zeros())) as usize;
        let (known_place, known_length, known) = self.slots[slot];
        if known_length as usize == length && source[known_place as usize..].starts_with(attributes) {
            return known;
        }
        let found = attribute_marks(attributes);
        self.slots[slot] = (place as u32, length as u32, found);
        found
    }
}
