//! Whether a short text is a stamp: a date, a time or a count that stands next to content and changes without it.
//!
//! A text is cut into runs of ASCII digits and runs of letters: ASCII letters and every character from U+00C0 on but
//! the general punctuation (U+2000 to U+206F).  It is a *stamp* where it has a digit and a sign, and at least half of
//! these characters are in digits, in words that are signs, or in words that stand next to these.  A sign is
//!
//! - one of the date words, or of the count words: "ago", or a word of what is counted, such as "replies" (small and
//!   capital ASCII letters are the same);
//! - a time of day: one or two digits, a colon and two digits; or digits before one of `HOURS`, if all is known;
//! - a date of numbers: three runs of digits with "/" between, or with "-" or "." where the first or last has four.
//!
//! So "Brian, October 1, 2025, 12:57pm", "3 days ago", "12 replies" and "9h30" are stamps; "10 hours", "1.2.3", "$
//! 12.90" "(12)" and "Battery lasts for 12 hours from May 3" are none: they may be what tells two pages apart.
//!
//! What counts, and what says that something was published (the told words, or "by" and a name), is left out,
//! preformatted text apart.  Any other date or time in an entry of a table or list is text.  Else it is left out if its
//! tag or small element is named for its writer or time (`scored::WRITER_NAMES`).  So is one date alone, not next to
//! another one, that is half or more in a time element, next to the first heading, within two blocks of a heading that
//! is all link, or next to a byline.
//!
//! Cases, in `tests/cases/text/`: `dates`.

use std::ops::Range;
use std::sync::OnceLock;

use crate::bytes;
use crate::simd;
use crate::tables::stamps::{BESIDE_WORDS, COUNT_WORDS, DATE_WORDS, TOLD_WORDS};

const YEAR_DIGITS: usize = 4;
const REST_CHARACTERS: usize = 2;
const HOURS: [&str; 4] = ["h", "uhr", "am", "pm"];
const NOT_MONTHS: [&str; 2] = ["年", "日"];
const BY: [&str; 7] = ["by", "von", "par", "por", "di", "da", "door"];
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
const SLOTS: usize = 1024;

/// What a short text is that changes while the page says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// It counts, or tells how long ago something was.
    pub is_counted: bool,
    /// It says that something was published then, or by whom.
    pub is_told: bool,
    /// It is one date and nothing else.
    pub is_date: bool,
}

impl Stamp {
    /// Whether it is a date that may be one of a list.
    pub fn is_bare_date(self) -> bool {
        self.is_date && !self.is_counted && !self.is_told
    }
}

/// What a known word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Month,
    /// Another word of a date.
    Date,
    Count,
    Told,
    Beside,
    /// A word beside that may stand behind a time of day.
    Hour,
}

/// Whether a word, as it is written, is one that names a writer after it.
pub fn is_by(word: &[u8]) -> bool {
    BY.iter().any(|by| word.eq_ignore_ascii_case(by.as_bytes()))
}

/// Words of the tables by a key of their first eight bytes; a free slot has the key 0.
struct Words {
    keys: [u64; SLOTS],
    known: [(&'static str, Kind); SLOTS],
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
        let mut table = Words { keys: [0; SLOTS], known: [("", Kind::Beside); SLOTS] };
        let all = [
            (&DATE_WORDS[..], Kind::Month),
            (&COUNT_WORDS, Kind::Count),
            (&TOLD_WORDS, Kind::Told),
            (&BESIDE_WORDS, Kind::Beside),
        ];
        for (words, kind) in all {
            for word in words {
                let kind = match word {
                    _ if NOT_MONTHS.contains(word) => Kind::Date,
                    _ if HOURS.contains(word) => Kind::Hour,
                    _ => kind,
                };
                let key = key_of(word.as_bytes(), 0, word.len());
                let mut slot = slot_of(key);
                while table.keys[slot] != 0 {
                    slot = (slot + 1) % SLOTS;
                }
                table.keys[slot] = key;
                table.known[slot] = (word, kind);
            }
        }
        table
    })
}

impl Words {
    /// What a word says, where it is known, in small or capital ASCII letters.
    #[inline(always)]
    fn kind(&self, text: &[u8], start: usize, end: usize) -> Option<Kind> {
        let key = key_of(text, start, end);
        let mut slot = slot_of(key);
        while self.keys[slot] != 0 {
            let (word, kind) = self.known[slot];
            if self.keys[slot] == key && word.as_bytes().eq_ignore_ascii_case(&text[start..end]) {
                return Some(kind);
            }
            slot = (slot + 1) % SLOTS;
        }
        None
    }
}

fn has_digit(text: &[u8], range: &Range<usize>) -> bool {
    range.clone().step_by(16).any(|place| {
        let bytes = simd::load(text, place);
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
    dates: usize,
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
            self.dates += usize::from(is_date && between == self.before.0);
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

/// What stamp a part of a text is, valid UTF-8 and white space folded; None if it is none.
///
/// All of the text is given, as bytes behind the part can be read at once with it.
pub fn stamp_of(text: &[u8], part: Range<usize>) -> Option<Stamp> {
    if !has_digit(text, &part) {
        return None;
    }
    let words = words();
    let mut numbers = Numbers::default();
    let (mut known, mut total, mut years, mut months) = (0, 0, 0, 0);
    let (mut has_date, mut has_hour, mut is_counted, mut is_told) = (false, false, false, false);
    // How many runs were read, and whether the first one may have a writer behind it.
    let (mut runs, mut is_by_first) = (0, false);
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
            years += usize::from(place - start == YEAR_DIGITS);
            runs += 1;
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
        let is_behind_digits = numbers.last.is_some();
        numbers.letters();
        total += characters;
        if runs == 0 {
            is_by_first = is_by(&text[start..place]);
        }
        if let Some(kind) = words.kind(text, start, place) {
            known += characters;
            has_date |= matches!(kind, Kind::Month | Kind::Date);
            months += usize::from(kind == Kind::Month);
            is_counted |= kind == Kind::Count;
            is_told |= kind == Kind::Told;
            has_hour |= kind == Kind::Hour && is_behind_digits;
        } else {
            is_told |= runs == 1 && is_by_first;
            if total - known > known + (end - place) {
                // What is left cannot make up for what is not known.
                return None;
            }
        }
        runs += 1;
    }
    let has_sign = has_date || is_counted || numbers.has_time || numbers.dates != 0 || (has_hour && known == total);
    let is_date = months + numbers.dates == 1 && years <= 1 && total - known <= REST_CHARACTERS;
    (known * 2 >= total && has_sign).then_some(Stamp { is_counted, is_told, is_date })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_known_in_any_case() {
        let all = [(&DATE_WORDS[..], Kind::Month), (&COUNT_WORDS, Kind::Count), (&TOLD_WORDS, Kind::Told)];
        let all = all.into_iter().chain([(&BESIDE_WORDS[..], Kind::Beside)]);
        for (word, kind) in all.flat_map(|(words, kind)| words.iter().map(move |word| (word, kind))) {
            let kind = match word {
                _ if NOT_MONTHS.contains(word) => Some(Kind::Date),
                _ if HOURS.contains(word) => Some(Kind::Hour),
                _ => Some(kind),
            };
            for text in [word.to_string(), word.to_ascii_uppercase()] {
                assert_eq!(words().kind(text.as_bytes(), 0, text.len()), kind);
                let longer = format!("{text}x");
                assert_eq!(words().kind(longer.as_bytes(), 0, text.len()), kind);
            }
        }
        assert_eq!(words().kind(b"septembra", 0, 9), None);
    }

    #[test]
    fn dates_times_and_counts_are_stamps() {
        for text in [
            "Brian, October 1, 2025, 12:57pm",
            "Posted by Brian » Tue Aug 27, 2019 10:02 pm",
            "3 DAYS AGO",
            "12 replies",
            "1,204 Views",
            "2025-10-01",
            "1.10.2025",
            "01.10.2025",
            "1/2/25",
            "at 12:16",
            "vor 3 Tagen",
            "hace 2 horas",
            "12 марта",
            "3天前",
            "2025年10月1日",
        ] {
            assert!(stamp_of(text.as_bytes(), 0..text.len()).is_some(), "{text}");
            let longer = format!("x 7{text}8: ago");
            assert!(stamp_of(longer.as_bytes(), 3..3 + text.len()).is_some(), "{text}");
        }
        for text in [
            "10 hours",
            "1.2.3",
            "$ 12.90",
            "(12)",
            "Battery lasts for 12 hours from May 3",
            "yesterday",
            "12",
            "192.168.0.1",
            "Version 2.10",
            "May",
            "Chapter 3: the long way home",
            "2025 - 10 - 01",
        ] {
            assert!(stamp_of(text.as_bytes(), 0..text.len()).is_none(), "{text}");
            let longer = format!("May 1, 2020: {text} 3 days ago");
            assert!(stamp_of(longer.as_bytes(), 13..13 + text.len()).is_none(), "{text}");
        }
    }
    #[test]
    fn a_stamp_says_what_it_is() {
        for (text, is_counted, is_told, is_date) in [
            ("May 3, 2026", false, false, true),
            ("3 May 2026 xy", false, false, true),
            ("3 May 2026 xyz", false, false, false),
            ("May 2025 2026", false, false, false),
            ("May 3, June 4", false, false, false),
            ("1/2/25", false, false, true),
            ("1/2/25 3/4/25", false, false, false),
            ("12:30", false, false, false),
            ("12 replies", true, false, false),
            ("May 3 2026, 12 replies", true, false, true),
            ("Posted May 3, 2026", false, true, true),
            ("by Brian May 3, 2026", false, true, false),
            ("von Brian 3 Mai 2026", false, true, false),
            ("by May 3, 2026", false, false, true),
            ("9h30", false, false, false),
            ("2025年10月1日", false, false, true),
        ] {
            let found = stamp_of(text.as_bytes(), 0..text.len());
            assert_eq!(found, Some(Stamp { is_counted, is_told, is_date }), "{text}");
        }
        for text in ["9h30x", "123:00", "12:000", "1-2-3", "1.2.2025x y z w v", "10 hours", "may 3 but of others abc"] {
            let found = stamp_of(text.as_bytes(), 0..text.len());
            assert_eq!(found.is_some(), text == "1.2.2025x y z w v", "{text}");
        }
    }
}
