//! Whether a short text is a date, a time or a count: `docstore/text/stamps.py`.

use crate::tables::stamps::{BESIDE_WORDS, SIGN_WORDS};

const YEAR_DIGITS: usize = 4;
/// Longest word of the tables, in bytes.
const WORD_BYTES: usize = 32;

/// What a character belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Digit,
    Letter,
    Other,
}

/// A run of digits or letters.
struct Run {
    kind: Kind,
    start: usize,
    end: usize,
    characters: usize,
}

fn kind_of(character: char) -> Kind {
    match character {
        '0'..='9' => Kind::Digit,
        'a'..='z' | 'A'..='Z' | '\u{c0}'..='\u{1fff}' | '\u{2070}'.. => Kind::Letter,
        _ => Kind::Other,
    }
}

fn runs_of(text: &str) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (place, character) in text.char_indices() {
        let kind = kind_of(character);
        let end = place + character.len_utf8();
        match runs.last_mut().filter(|run| run.kind == kind && run.end == place) {
            Some(run) => (run.end, run.characters) = (end, run.characters + 1),
            None if kind != Kind::Other => runs.push(Run { kind, start: place, end, characters: 1 }),
            None => {}
        }
    }
    runs
}

/// Whether a text, white space folded, is a stamp.
pub fn is_stamp(text: &[u8]) -> bool {
    if !text.iter().any(u8::is_ascii_digit) {
        return false;
    }
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let runs = runs_of(text);
    let (mut known, mut total, mut has_sign) = (0, 0, false);
    for run in &runs {
        total += run.characters;
        let is_sign = run.kind == Kind::Letter && is_in(&SIGN_WORDS, &text[run.start..run.end]);
        has_sign |= is_sign;
        if is_sign || run.kind == Kind::Digit || is_in(&BESIDE_WORDS, &text[run.start..run.end]) {
            known += run.characters;
        }
    }
    known * 2 >= total && (has_sign || has_time(text.as_bytes(), &runs))
}

/// Whether a table, ascending, has a word, in small or capital ASCII letters.
fn is_in(table: &[&str], word: &str) -> bool {
    let mut lower = [0; WORD_BYTES];
    let Some(lower) = lower.get_mut(..word.len()) else { return false };
    lower.copy_from_slice(word.as_bytes());
    lower.make_ascii_lowercase();
    table.binary_search_by(|each| each.as_bytes().cmp(lower)).is_ok()
}

/// Whether it has a time of day, or a date of numbers.
fn has_time(text: &[u8], runs: &[Run]) -> bool {
    let mut before: (&[u8], usize) = (b"", 0);
    for pair in runs.windows(2) {
        let [one, other] = pair else { continue };
        if one.kind != Kind::Digit || other.kind != Kind::Digit {
            before = (b"", 0);
            continue;
        }
        let between = &text[one.end..other.start];
        if between == b":" && one.characters <= 2 && other.characters == 2 {
            return true;
        }
        let has_year = before.1 == YEAR_DIGITS || other.characters == YEAR_DIGITS;
        if between == before.0 && (between == b"/" || (matches!(between, b"-" | b".") && has_year)) {
            return true;
        }
        before = (between, one.characters);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_ascend_and_their_words_fit() {
        for table in [&SIGN_WORDS[..], &BESIDE_WORDS] {
            assert!(table.is_sorted() && table.iter().all(|word| word.len() <= WORD_BYTES));
        }
    }

    #[test]
    fn dates_times_and_counts_are_stamps() {
        for text in ["Brian, October 1, 2025, 12:57pm", "3 DAYS AGO", "12 replies", "2025-10-01", "1.10.2025", "3天前"] {
            assert!(is_stamp(text.as_bytes()), "{text}");
        }
        for text in ["10 hours", "1.2.3", "$ 12.90", "(12)", "Battery lasts for 12 hours from May 3", "yesterday", "2025 - 10 - 01"] {
            assert!(!is_stamp(text.as_bytes()), "{text}");
        }
    }
}
