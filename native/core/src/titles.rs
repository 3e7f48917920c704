//! Words of titles, by the rules of `dedup.comparable`; and what a write asks of a main text beside its fingerprints: its
//! name as a base of deltas, and whether it has words of the page's title.

use std::sync::LazyLock;

use regex::Regex;

use crate::bytes;
use crate::page::is_space;
use crate::words::{self, Words};

/// Letters of a word of the title that counts; the text has one in `SHARE` of these words.
const LEAST_LETTERS: usize = 4;
const SHARE: usize = 4;
/// Bytes of a word that distinguishes a page: shorter ones are in most titles.
const LEAST_WORD_BYTES: usize = 3;

/// Decimal digits of all scripts, and nothing else; numerals such as \u{2167} are no decimal digits.
static DECIMALS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{Nd}+$").ok());

/// The words of a title that distinguish its page, ascending, each once: those of three bytes and more that are no numbers.
pub fn distinctive<'a>(title: &str, words: &'a mut Words) -> Vec<&'a [u8]> {
    words.cut(title.as_bytes());
    let is_number = |word: &[u8]| match std::str::from_utf8(word) {
        Ok(word) if !word.is_ascii() => DECIMALS.as_ref().is_some_and(|decimals| decimals.is_match(word)),
        _ => word.iter().all(u8::is_ascii_digit),
    };
    let words = words.joined().split(|byte| *byte == b' ');
    let mut chosen: Vec<&[u8]> = words.filter(|word| word.len() >= LEAST_WORD_BYTES && !is_number(word)).collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// Which of some normalised words are words of a text, which is cut into `words`.
pub fn held(text: &str, wanted: &[impl AsRef<str>], words: &mut Words) -> Vec<bool> {
    words.cut(text.as_bytes());
    let mut held = vec![false; wanted.len()];
    let bit = |word: &[u8]| 1_u64 << word.len().min(63);
    let lengths = wanted.iter().fold(0, |lengths, word| lengths | bit(word.as_ref().as_bytes()));
    for word in words.iter().filter(|word| lengths & bit(word) != 0) {
        for (held, wanted) in held.iter_mut().zip(wanted) {
            *held |= word == wanted.as_ref().as_bytes();
        }
    }
    held
}

/// What is said of a main text in UTF-8 and the title of its page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// As a base of deltas.
    pub name: [u8; 16],
    pub holds_title: bool,
}

impl Facts {
    pub fn of(main: &[u8], title: &str) -> Self {
        let mut name = [0; 16];
        name.copy_from_slice(&blake3::hash(main).as_bytes()[..16]);
        Self { name, holds_title: holds_words(main, title) }
    }
}

/// Whether a text has enough of the long words of a title; both are case-folded.
fn holds_words(text: &[u8], title: &str) -> bool {
    let folded = words::case_folded(title);
    let long = |word: &&str| word.chars().nth(LEAST_LETTERS - 1).is_some();
    let mut wanted: Vec<&[u8]> = folded.split(is_space).filter(long).map(str::as_bytes).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let enough = wanted.len().div_ceil(SHARE);
    if bytes::has_in_lowered(text, &wanted, enough) {
        return true;
    }
    let folded = || words::case_folded(&String::from_utf8_lossy(text));
    bytes::may_fold(text) && bytes::has_in_lowered(folded().as_bytes(), &wanted, enough)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_long_words_of_a_title_is_enough() {
        for (text, title, is_enough) in [
            ("the tropical sea", "Tropical fish keepers almanac", true),
            ("the sea", "Tropical fish keepers almanac", false),
            ("tropical", "Tropical fish keepers almanac, second edition", false),
            ("anything", "A fox", true),
            ("", "", true),
            ("STRASSE", "Stra\u{df}e", true),
            ("stra\u{df}e", "STRASSE", true),
        ] {
            assert_eq!(holds_words(text.as_bytes(), title), is_enough, "{text:?} {title:?}");
        }
    }

    #[test]
    fn numbers_and_short_words_distinguish_no_page() {
        let mut words = Words::default();
        for (title, chosen) in [
            ("The 2024 words of 17 words", &["the", "words"][..]),
            ("a\u{e9} \u{e9} \u{4e94} ab", &["a\u{e9}", "\u{4e94}"]),
            ("\u{663}\u{664} \u{967}\u{968} 1\u{662} \u{1d7d8}", &[]),
            ("\u{2180}\u{2180} 12a", &["12a", "\u{2180}\u{2180}"]),
            ("", &[]),
        ] {
            let found: Vec<_> = distinctive(title, &mut words).into_iter().map(String::from_utf8_lossy).collect();
            assert_eq!(found, chosen, "{title}");
        }
    }

    #[test]
    fn a_text_holds_whole_words_whatever_their_length() {
        let long = "x".repeat(100);
        let text = format!("One two, TWO {long}");
        let wanted = ["two", "tw", "three", &long, &long[1..]];
        assert_eq!(held(&text, &wanted, &mut Words::default()), [true, false, false, true, false]);
    }

    #[test]
    fn the_name_of_a_text_depends_on_its_bytes_alone() {
        assert_eq!(Facts::of(b"text", "a").name, Facts::of(b"text", "b").name);
        assert_ne!(Facts::of(b"text", "a").name, Facts::of(b"Text", "a").name);
    }
}
