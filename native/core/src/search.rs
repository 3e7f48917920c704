//! The words of a text as a search compares them: those of the index, of a query, and of a snippet.
//!
//! They are the words by which pages are compared (`words`), in looser forms:
//!
//! - Letters of the Latin, Greek and Cyrillic scripts lose their accents, and o, d, l, h, t, i their bars and dots.
//! - Devanagari has one sign for nasal sounds: a nasal consonant without vowel before a stop of its own series (also
//!   n before a stop of another series or a sibilant, as in loan words), and the candrabindu, become the anusvara.  Both
//!   spellings are taught.

use std::sync::LazyLock;

use unicode_normalization::char::is_combining_mark;
use unicode_normalization::UnicodeNormalization;

use crate::words::Words;

/// Letters without a decomposition.
const SIMILAR: [(char, char); 7] = [
    ('\u{f8}', 'o'),
    ('\u{111}', 'd'),
    ('\u{142}', 'l'),
    ('\u{127}', 'h'),
    ('\u{167}', 't'),
    ('\u{131}', 'i'),
    ('\u{3c2}', '\u{3c3}'),
];
/// Later scripts keep their marks, because a mark makes another letter.
const LAST_ACCENTED: char = '\u{52f}';
/// Characters from here on stay as they are.
const REACH: usize = 0x2000;
const ACCENTS: std::ops::RangeInclusive<char> = '\u{300}'..='\u{36f}';
const CANDRABINDU: char = '\u{901}';
const ANUSVARA: char = '\u{902}';
const VIRAMA: char = '\u{94d}';
/// The nasal of each series of five consonants from U+0915 on, four stops before it.
const NASALS: [char; 5] = ['\u{919}', '\u{91e}', '\u{923}', '\u{928}', '\u{92e}'];
const DENTAL: char = '\u{928}';
const SIBILANTS: std::ops::RangeInclusive<char> = '\u{936}'..='\u{938}';

/// By character: what stands for it; NUL if it is dropped.
static FORMS: LazyLock<Vec<char>> = LazyLock::new(|| (0..REACH as u32).filter_map(char::from_u32).map(form).collect());

fn form(character: char) -> char {
    let similar = |each: char| SIMILAR.iter().find(|(letter, _)| *letter == each).map_or(each, |(_, plain)| *plain);
    if ACCENTS.contains(&character) {
        return '\0';
    }
    if character == CANDRABINDU {
        return ANUSVARA;
    }
    let mut decomposed = std::iter::once(character).nfkd();
    let first = decomposed.next().unwrap_or(character);
    let is_accented = first <= LAST_ACCENTED && first != ' ' && decomposed.all(is_combining_mark);
    similar(if is_accented { first } else { character })
}

/// Words with one space between, as `Words::joined` has them, in the forms of a search.
pub fn fold(words: &[u8], folded: &mut String) {
    let words = std::str::from_utf8(words).unwrap_or_default();
    folded.clear();
    folded.reserve(words.len());
    let mut rest = words.chars().peekable();
    let mut before = ' ';
    while let Some(character) = rest.next() {
        let mut character = if (character as usize) < REACH { FORMS[character as usize] } else { character };
        if before != ' ' && NASALS.contains(&character) && rest.peek() == Some(&VIRAMA) {
            let mut behind = rest.clone();
            if behind.nth(1).is_some_and(|next| is_nasal_of(character, next)) {
                rest.next();
                character = ANUSVARA;
            }
        }
        if character != '\0' {
            folded.push(character);
        }
        before = character;
    }
}

/// Whether the sound of a nasal is that of the anusvara before a consonant.
fn is_nasal_of(nasal: char, next: char) -> bool {
    let place = (next as usize).wrapping_sub('\u{915}' as usize);
    let is_stop = place < 25 && place % 5 != 4;
    let is_own = is_stop && NASALS[place / 5] == nasal;
    is_own || (nasal == DENTAL && (is_stop || SIBILANTS.contains(&next)))
}

/// The words of a text in the forms of a search, and where they are; in characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// With one space between.
    pub folded: String,
    /// Where each begins there.
    pub begins: Vec<u32>,
    /// Where each starts and ends in the text.
    pub starts: Vec<u32>,
    pub ends: Vec<u32>,
}

pub fn placed(text: &str) -> Placed {
    let (mut words, mut places, mut folded) = (Words::default(), Vec::new(), String::new());
    words.cut_in_place(text.as_bytes(), &mut places);
    fold(words.joined(), &mut folded);
    let spaces = folded.bytes().enumerate().filter(|(_, byte)| *byte == b' ').map(|(space, _)| space + 1);
    let begins = characters_before(folded.as_bytes(), std::iter::once(0).chain(spaces).take(places.len()));
    let starts = characters_before(text.as_bytes(), places.iter().map(|place| place.start));
    let ends = characters_before(text.as_bytes(), places.iter().map(|place| place.end));
    Placed { folded, begins, starts, ends }
}

/// How many characters stand before each of some ascending places of a text.
fn characters_before(text: &[u8], places: impl Iterator<Item = usize>) -> Vec<u32> {
    let (mut counted, mut characters) = (0, 0);
    let count = |part: &[u8]| part.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() as u32;
    places
        .map(|place| {
            characters += count(&text[counted..place]);
            counted = place;
            characters
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Words;

    fn folded(text: &str) -> String {
        let (mut words, mut folded) = (Words::default(), String::new());
        words.cut(text.as_bytes());
        fold(words.joined(), &mut folded);
        folded
    }

    #[test]
    fn spellings_of_one_word_have_one_form() {
        for (one, other) in [
            ("\u{17b}\u{f3}\u{142}ty", "zolty"),
            ("Cafe\u{301}", "caf\u{e9}"),
            ("\u{418}\u{419}", "\u{438}\u{438}"),
            ("\u{130}stanbul", "istanbul"),
            ("\u{39b}\u{39f}\u{393}\u{39f}\u{3a3}", "\u{3bb}\u{3cc}\u{3b3}\u{3bf}\u{3c2}"),
            ("हिन्दी", "हिंदी"),
            ("गाँव", "गांव"),
            ("पञ्चायत", "पंचायत"),
            ("पण्डित", "पंडित"),
            ("कम्पनी", "कंपनी"),
            ("गङ्गा", "गंगा"),
            ("इन्टरनेट", "इंटरनेट"),
            ("एजेन्सी", "एजेंसी"),
            ("हिन्\u{200d}दी", "हिंदी"),
        ] {
            assert_eq!(folded(one), folded(other), "{one}");
        }
    }

    #[test]
    fn other_words_keep_their_letters() {
        for word in ["जन्म", "उन्हें", "अन्न", "इम्तिहान", "सम्मान", "जन्य", "চাঁদ", "क\u{93c}लम"]
        {
            assert_eq!(folded(word), word);
        }
    }

    #[test]
    fn words_are_placed_in_characters() {
        let found = placed("\u{c9}t\u{e9}, \u{e9}t\u{e9}!");
        assert_eq!(found.folded, "ete ete");
        assert_eq!((found.begins, found.starts, found.ends), (vec![0, 4], vec![0, 5], vec![3, 8]));
        assert_eq!(placed(""), Placed::default());
    }
}
