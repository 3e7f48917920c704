//! Whether a short text is a date, a time or a count: `tests/reference/scored.py`.

use std::ops::Range;
use std::sync::OnceLock;

use crate::bytes;
use crate::sixteen;
use crate::tables::stamps::{BESIDE_WORDS, SIGN_WORDS};

const YEAR_DIGITS: usize = 4;
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
const SLOTS: usize = 1024;

/// Words of the tables by a key of their first eight bytes; a free slot has the key 0.
struct Words {
    keys: [u64; SLOTS],
    known: [(&'static str, bool); SLOTS],
}

/// The word's first eight bytes, ASCII letters in lower case, and its length.
#[inline(always)]
fn key_of(text: &[u8], start: usize, end: usize) -> u64 {
    let first = bytes::load_padded(text, start) & (u64::MAX >> (64 - 8 * (end - start).min(8)));
    bytes::lower(first) ^ ((end - start) as u64) << 59
}

#[inline(always)]
fn slot_of(key: u64) -> usize {
    (key.wrapping_mul(MIX) >> (64 - SLOTS.trailing_zeros())) as usize
}

fn words() -> &'static Words {
    static TABLE: OnceLock<Words> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Words { keys: [0; SLOTS], known: [("", false); SLOTS] };
        for (words, is_sign) in [(&SIGN_WORDS[..], true), (&BESIDE_WORDS, false)] {
            for word in words {
                let key = key_of(word.as_bytes(), 0, word.len());
                let mut slot = slot_of(key);
                while table.keys[slot] != 0 {
                    slot = (slot + 1) % SLOTS;
                }
                table.keys[slot] = key;
                table.known[slot] = (word, is_sign);
            }
        }
        table
    })
}

impl Words {
    /// Whether a word is a sign, where it is known, in small or capital ASCII letters.
    #[inline(always)]
    fn is_sign(&self, text: &[u8], start: usize, end: usize) -> Option<bool> {
        let key = key_of(text, start, end);
        let mut slot = slot_of(key);
        while self.keys[slot] != 0 {
            let (word, is_sign) = self.known[slot];
            if self.keys[slot] == key && word.as_bytes().eq_ignore_ascii_case(&text[start..end]) {
                return Some(is_sign);
            }
            slot = (slot + 1) % SLOTS;
        }
        None
    }
}

fn has_digit(text: &[u8], range: &Range<usize>) -> bool {
    range.clone().step_by(16).any(|place| {
        let bytes = sixteen::load(text, place);
        let within = u32::MAX >> (32 - (range.end - place).min(16));
        bytes.at_most(b'9') & !bytes.at_most(b'0' - 1) & within != 0
    })
}

/// Length of the letter at `place`; 0 where none stands there.
#[inline(always)]
fn letter_length(text: &[u8], place: usize) -> usize {
    let byte = text[place];
    if byte < 0x80 {
        return byte.is_ascii_alphabetic().into();
    }
    let length = bytes::sequence_length(byte);
    let is_letter = matches!(bytes::code_point(&text[place..], length), 0xc0..=0x1fff | 0x2070..);
    if is_letter {
        length
    } else {
        0
    }
}

/// Digits and what stands between them, as far as a text was read, for times of day and dates of numbers.
#[derive(Default)]
struct Numbers<'a> {
    /// Of the last run, where it is one of digits: its end, and how many they are.
    last: Option<(usize, usize)>,
    /// What stood between that and the run of digits before it, and how many those were.
    before: (&'a [u8], usize),
    has_time: bool,
}

impl<'a> Numbers<'a> {
    #[inline(always)]
    fn digits(&mut self, text: &'a [u8], start: usize, end: usize) {
        let count = end - start;
        if let Some((last_end, last)) = self.last {
            let between = &text[last_end..start];
            let has_year = self.before.1 == YEAR_DIGITS || count == YEAR_DIGITS;
            let is_date = between == b"/" || (matches!(between, b"-" | b".") && has_year);
            self.has_time |= between == b":" && last <= 2 && count == 2;
            self.has_time |= is_date && between == self.before.0;
            self.before = (between, last);
        }
        self.last = Some((end, count));
    }

    #[inline(always)]
    fn letters(&mut self) {
        self.last = None;
        self.before = (b"", 0);
    }
}

/// Whether a part of a text, valid UTF-8 and white space folded, is a stamp.
///
/// All of the text is given, as bytes behind the part can be read at once with it.
pub fn is_stamp(text: &[u8], part: Range<usize>) -> bool {
    if !has_digit(text, &part) {
        return false;
    }
    let words = words();
    let mut numbers = Numbers::default();
    let (mut known, mut total, mut has_sign) = (0, 0, false);
    let Range { start: mut place, end } = part;
    let within = &text[..end];
    while place < end {
        let start = place;
        if text[place].is_ascii_digit() {
            while within.get(place).is_some_and(u8::is_ascii_digit) {
                place += 1;
            }
            numbers.digits(text, start, place);
            known += place - start;
            total += place - start;
            continue;
        }
        let mut characters = 0;
        while place < end {
            let length = letter_length(text, place);
            if length == 0 {
                break;
            }
            place += length;
            characters += 1;
        }
        if characters == 0 {
            place += bytes::sequence_length(text[place]);
            continue;
        }
        numbers.letters();
        total += characters;
        if let Some(is_sign) = words.is_sign(text, start, place) {
            known += characters;
            has_sign |= is_sign;
        } else if total - known > known + (end - place) {
            // What is left cannot make up for what is not known.
            return false;
        }
    }
    known * 2 >= total && (has_sign || numbers.has_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_known_in_any_case() {
        for word in SIGN_WORDS.iter().chain(&BESIDE_WORDS) {
            let is_sign = Some(SIGN_WORDS.contains(word));
            for text in [word.to_string(), word.to_ascii_uppercase()] {
                assert_eq!(words().is_sign(text.as_bytes(), 0, text.len()), is_sign);
                let longer = format!("{text}x");
                assert_eq!(words().is_sign(longer.as_bytes(), 0, text.len()), is_sign);
            }
        }
        assert_eq!(words().is_sign(b"septembra", 0, 9), None);
    }

    #[test]
    fn dates_times_and_counts_are_stamps() {
        for text in ["Brian, October 1, 2025, 12:57pm", "3 DAYS AGO", "12 replies", "2025-10-01", "1.10.2025", "3天前"]
        {
            assert!(is_stamp(text.as_bytes(), 0..text.len()), "{text}");
            let longer = format!("x 7{text}8: ago");
            assert!(is_stamp(longer.as_bytes(), 3..3 + text.len()), "{text}");
        }
        for text in [
            "10 hours",
            "1.2.3",
            "$ 12.90",
            "(12)",
            "Battery lasts for 12 hours from May 3",
            "yesterday",
            "2025 - 10 - 01",
        ] {
            assert!(!is_stamp(text.as_bytes(), 0..text.len()), "{text}");
            let longer = format!("May 1, 2020: {text} 3 days ago");
            assert!(!is_stamp(longer.as_bytes(), 13..13 + text.len()), "{text}");
        }
    }
}
