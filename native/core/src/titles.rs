//! What a write asks of a main text beside its fingerprints: its name as a base of deltas, and whether it has words of
//! the page's title, by the rule for doubtful text in `dedup.comparable`.

use crate::page::is_space;
use crate::{bytes, words};

/// Letters of a word of the title that counts; the text has one in `SHARE` of these words.
const LEAST_LETTERS: usize = 4;
const SHARE: usize = 4;

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
    fn the_name_of_a_text_depends_on_its_bytes_alone() {
        assert_eq!(Facts::of(b"text", "a").name, Facts::of(b"text", "b").name);
        assert_ne!(Facts::of(b"text", "a").name, Facts::of(b"Text", "a").name);
    }
}
