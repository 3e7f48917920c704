//! Text -> normalised words: `tests/reference/words.py`.
//!
//! The words are written one after the other, in lower case and normal form, with one space between: just what the
//! text checksum is taken of.  ASCII is classed and put into lower case for the whole text at once, a block
//! at a time, and then cut word by word by one bit a byte; other characters go by their table entry (see
//! `tools/make_native_tables.py` for what makes a character *safe*); only around characters that are not safe, from the
//! last safe one before to the next one behind, the five passes of NFKC_Casefold are made.

use std::ops::Range;

use unicode_normalization::{is_nfkc_quick, IsNormalized, UnicodeNormalization};

use crate::bytes::{self, code_point, sequence_length};
use crate::tables::unicode::{BLOCK, CASE_FOLDING, ENTRIES, INDEX, STRINGS, UNASSIGNED};
use crate::wide::{self, Bytes};

const WORD: u32 = 1;
const UNSPACED: u32 = 2;
const MARK: u32 = 3;

const KEEP: u32 = 0;
const DROP: u32 = 1;
const SLOW: u32 = 2;
const CHARACTER: u32 = 3;
const STRING: u32 = 4;
const REORDER: u32 = 5;
const APOSTROPHE: u32 = 6;
const INERT: u32 = 1 << 5;

#[inline(always)]
fn entry(code_point: u32) -> u32 {
    let block = INDEX[code_point as usize / BLOCK] as usize;
    ENTRIES[block * BLOCK + code_point as usize % BLOCK]
}

#[inline(always)]
fn action(entry: u32) -> u32 {
    entry >> 2 & 7
}

/// Where the ASCII bytes from `place` on end.
#[inline(always)]
fn ascii_run(text: &[u8], mut place: usize) -> usize {
    while place + 8 <= text.len() {
        let high = bytes::load(text, place) & bytes::HIGHS;
        if high != 0 {
            return place + bytes::first(high);
        }
        place += 8;
    }
    while place < text.len() && text[place] < 0x80 {
        place += 1;
    }
    place
}

/// Bytes whose classes stand in one integer.
const BLOCK_BYTES: usize = 64;
/// So many bytes of a word are copied in any case; few words are longer.
const PIECE_BYTES: usize = 16;

/// What `Words::class` does, in buffers that are large enough.
struct Class<'a> {
    text: &'a [u8],
    lowered: &'a mut [u8],
    word_bits: &'a mut Vec<u64>,
}

impl wide::Work for Class<'_> {
    type Made = ();

    #[inline(always)]
    fn on<B: Bytes>(self) {
        for (text, lowered) in self.text.chunks(BLOCK_BYTES).zip(self.lowered.as_chunks_mut().0) {
            self.word_bits.push(B::class_64(text, lowered));
        }
    }
}

/// The words of one text.
#[derive(Default)]
pub struct Words {
    /// The text with its ASCII letters in lower case, and a block more; longer than the text, never shrinks.
    lowered: Vec<u8>,
    /// For each block of the text, which of its bytes are ASCII letters, digits or underscores.
    word_bits: Vec<u64>,
    /// Longer than what is written, never shrinks; a space behind each word.
    joined: Vec<u8>,
    length: usize,
    /// Where each word ends in `joined`; longer than what is written, never shrinks.
    ends: Vec<u32>,
    count: usize,
    /// Where the open word begins, if there is one.
    start: usize,
    open: Open,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Open {
    #[default]
    Nothing,
    Word,
    /// A letter of an unspaced script: only marks may follow.
    Unit,
}

/// A place to go back to.
#[derive(Clone, Copy)]
struct Before {
    place: usize,
    length: usize,
    words: usize,
    start: usize,
    open: Open,
}

impl Words {
    /// The words with one space between them.
    pub fn joined(&self) -> &[u8] {
        &self.joined[..self.length.saturating_sub(1)]
    }

    /// The same, with at least sixteen bytes of anything behind.
    pub fn padded(&self) -> &[u8] {
        &self.joined
    }

    pub fn ends(&self) -> &[u32] {
        &self.ends[..self.count]
    }

    /// Each word.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends().iter().map(move |&end| {
            let word = &self.joined[start..end as usize];
            start = end as usize + 1;
            word
        })
    }

    /// Cut a text, valid UTF-8, into words; what was here before goes.
    #[inline(never)]
    pub fn cut(&mut self, text: &[u8]) {
        self.length = 0;
        self.count = 0;
        self.open = Open::Nothing;
        self.reserve(text.len());
        self.class(text);
        let mut place = 0;
        while place < text.len() {
            let run = ascii_run(text, place);
            if run != place {
                if self.open == Open::Unit {
                    self.end_word();
                }
                self.ascii(place, run);
                place = run;
            }
            if place < text.len() {
                place = self.wide(text, place, text.len());
                self.reserve(text.len() - place);
            }
        }
        self.end_word();
    }

    /// The same as `cut`, with the bytes of the text from which each word comes; several times as slow.
    ///
    /// The text is taken in pieces, each from a safe character up to the next one: no character reaches into another.
    pub fn cut_in_place(&mut self, text: &[u8], places: &mut Vec<Range<usize>>) {
        (self.length, self.count, self.open) = (0, 0, Open::Nothing);
        places.clear();
        let mut place = 0;
        while place < text.len() {
            let first = place + sequence_length(text[place]);
            let end = next_safe(text, first);
            let (begun, before) = (self.begun(), self.length);
            let goes_on = self.open != Open::Nothing;
            self.reserve(end - place);
            if text[place] >= 0x80 {
                self.wide(text, place, end);
            } else if first == end {
                let byte = text[place];
                let class = if byte.is_ascii_alphanumeric() || byte == b'_' { WORD } else { 0 };
                self.put([byte.to_ascii_lowercase(), 0, 0, 0], 1, class);
            } else {
                let folded = fold(&text[place..end]);
                self.put_string(folded.as_bytes());
            }
            let mut stop = first;
            let mut at = first;
            while at < end {
                let next = at + sequence_length(text[at]);
                if action(entry(code_point(&text[at..], next - at))) != DROP {
                    stop = next;
                }
                at = next;
            }
            if goes_on && self.ends().get(begun - 1).map_or(self.length, |&end| end as usize) > before {
                places[begun - 1].end = stop;
            }
            places.resize(self.begun(), place..stop);
            place = end;
        }
        self.end_word();
    }

    /// How many words have begun.
    fn begun(&self) -> usize {
        self.count + usize::from(self.open != Open::Nothing)
    }

    /// Put the text's ASCII into lower case, and note which bytes of it belong to words.
    fn class(&mut self, text: &[u8]) {
        let blocks = text.len().div_ceil(BLOCK_BYTES);
        if self.lowered.len() < (blocks + 1) * BLOCK_BYTES {
            self.lowered.resize((blocks + 1) * BLOCK_BYTES * 3 / 2, 0);
        }
        self.word_bits.clear();
        wide::run(Class { text, lowered: &mut self.lowered, word_bits: &mut self.word_bits });
    }

    /// ASCII text from `place` to `end`, which lies behind it, word by word.
    #[inline(never)]
    fn ascii(&mut self, mut place: usize, end: usize) {
        let Self { joined, ends, lowered, word_bits, .. } = self;
        let (mut length, mut count) = (self.length, self.count);
        let mut start = if self.open == Open::Word { self.start } else { length };
        while place < end {
            let bits = word_bits[place / BLOCK_BYTES] >> (place % BLOCK_BYTES);
            let limit = (BLOCK_BYTES - place % BLOCK_BYTES).min(end - place);
            let mut bits = bits & (u64::MAX >> (BLOCK_BYTES - limit));
            // An open word ends where its next byte, the first that is looked at here, is a separator.
            if start != length && bits & 1 == 0 {
                joined[length] = b' ';
                ends[count] = length as u32;
                count += 1;
                length += 1;
                start = length;
            }
            while bits != 0 {
                let first = bits.trailing_zeros() as usize;
                let taken = (!(bits >> first)).trailing_zeros() as usize;
                let word = &lowered[place + first..place + first + BLOCK_BYTES];
                let target = &mut joined[length..length + BLOCK_BYTES + 1];
                target[..PIECE_BYTES].copy_from_slice(&word[..PIECE_BYTES]);
                if taken > PIECE_BYTES {
                    target[PIECE_BYTES..BLOCK_BYTES].copy_from_slice(&word[PIECE_BYTES..]);
                }
                length += taken;
                // The run that ends with the block, or with the text, may go on.
                if first + taken == limit {
                    break;
                }
                target[taken] = b' ';
                ends[count] = length as u32;
                count += 1;
                length += 1;
                start = length;
                // The lowest run of ones goes.
                bits &= bits.wrapping_add(1 << first);
            }
            place += limit;
        }
        (self.length, self.count, self.start) = (length, count, start);
        self.open = if start != length { Open::Word } else { Open::Nothing };
    }

    /// Make room for the words of so many bytes of source, folded one to one, with a space each.
    fn reserve(&mut self, source_bytes: usize) {
        let most = self.length + source_bytes * 2 + BLOCK_BYTES + PIECE_BYTES;
        if self.joined.len() < most {
            self.joined.resize(most + most / 2, 0);
        }
        let most = self.count + source_bytes + 8;
        if self.ends.len() < most {
            self.ends.resize(most + most / 2, 0);
        }
    }

    #[inline(always)]
    fn begin(&mut self, open: Open) {
        self.start = self.length;
        self.open = open;
    }

    #[inline(always)]
    fn end_word(&mut self) {
        if self.open != Open::Nothing {
            self.ends[self.count] = self.length as u32;
            self.count += 1;
            self.joined[self.length] = b' ';
            self.length += 1;
            self.open = Open::Nothing;
        }
    }

    /// Append a folded character of a class: so many of four bytes.
    #[inline(always)]
    fn put(&mut self, four: [u8; 4], length: usize, class: u32) {
        match class {
            WORD if self.open != Open::Word => {
                self.end_word();
                self.begin(Open::Word);
            }
            UNSPACED => {
                self.end_word();
                self.begin(Open::Unit);
            }
            MARK if self.open == Open::Nothing => self.begin(Open::Word),
            WORD | MARK => {}
            _ => {
                self.end_word();
                return;
            }
        }
        self.joined[self.length..self.length + 4].copy_from_slice(&four);
        self.length += length;
    }

    /// Append folded characters, whose lengths may be beyond what `reserve` thought of.
    fn put_string(&mut self, folded: &[u8]) {
        self.reserve(folded.len());
        let mut place = 0;
        while place < folded.len() {
            let length = sequence_length(folded[place]);
            self.put(bytes::four(folded, place), length, entry(code_point(&folded[place..], length)) & 3);
            place += length;
        }
    }

    #[inline(always)]
    fn before(&self, place: usize) -> Before {
        Before { place, length: self.length, words: self.count, start: self.start, open: self.open }
    }

    fn go_back(&mut self, before: &Before) {
        self.length = before.length;
        self.count = before.words;
        self.start = before.start;
        self.open = before.open;
    }

    /// Characters beyond ASCII from `place` on, up to the next ASCII one at least, and at most to `limit`, where a safe
    /// character begins; gives the place behind them.
    fn wide(&mut self, text: &[u8], mut place: usize, limit: usize) -> usize {
        // Before the last safe character, to which a character that is not safe may reach back.
        let mut last = self.before_ascii(text, place);
        let mut combining = 0;
        while place < limit && text[place] >= 0x80 {
            let length = sequence_length(text[place]);
            let four = bytes::four(text, place);
            let found = entry(code_point(&four, length));
            match action(found) {
                KEEP => {
                    last = self.before(place);
                    combining = if found & INERT != 0 { 0 } else { u32::MAX };
                    self.put(four, length, found & 3);
                }
                DROP => {}
                CHARACTER => {
                    last = self.before(place);
                    combining = if found & INERT != 0 { 0 } else { u32::MAX };
                    let mut folded = [0; 4];
                    let length = char::from_u32(found >> 8).unwrap_or('\u{fffd}').encode_utf8(&mut folded).len();
                    self.put(folded, length, entry(found >> 8) & 3);
                }
                STRING => {
                    last = self.before(place);
                    combining = u32::MAX;
                    let start = (found >> 16) as usize;
                    self.put_string(&STRINGS[start..start + (found >> 8 & 0xff) as usize]);
                    self.reserve(text.len() - place);
                }
                APOSTROPHE => {
                    let is_between = self.open == Open::Word && begins_word(&text[place + length..]);
                    self.put(four, length, if is_between { 0 } else { WORD });
                    // Nothing composes with it.
                    last = self.before(place + length);
                    combining = 0;
                }
                REORDER if found >> 8 >= combining => {
                    combining = found >> 8;
                    self.put(four, length, MARK);
                }
                _ => {
                    let end = next_safe(text, place + length);
                    self.go_back(&last);
                    let folded = fold(&text[last.place..end]);
                    self.put_string(folded.as_bytes());
                    self.reserve(text.len() - end);
                    place = end;
                    // What stands here is folded as a whole; a character that is not safe cannot follow.
                    last = self.before(place);
                    combining = u32::MAX;
                    continue;
                }
            }
            place += length;
        }
        place
    }

    /// The state before the ASCII character that stands before `place`, or the one here where the text begins.
    fn before_ascii(&self, text: &[u8], place: usize) -> Before {
        let here = self.before(place);
        let Some(&byte) = place.checked_sub(1).map(|before| &text[before]) else { return here };
        if byte >= 0x80 || self.open == Open::Nothing {
            return Before { place: if byte < 0x80 { place - 1 } else { place }, ..here };
        }
        // An open word that ends in this very character.
        let mut before = Before { place: place - 1, length: here.length - 1, ..here };
        if before.length == before.start {
            before.open = Open::Nothing;
        }
        before
    }
}

/// Whether a text begins with a letter or digit of a word.
fn begins_word(mut text: &[u8]) -> bool {
    while let Some(&byte) = text.first() {
        if byte < 0x80 {
            return byte.is_ascii_alphanumeric() || byte == b'_';
        }
        let length = sequence_length(byte);
        let found = entry(code_point(text, length));
        if action(found) != DROP {
            return found & 3 == WORD;
        }
        text = &text[length..];
    }
    false
}

/// The place of the first safe character from `place` on.
fn next_safe(text: &[u8], mut place: usize) -> usize {
    while place < text.len() && text[place] >= 0x80 {
        let length = sequence_length(text[place]);
        match action(entry(code_point(&text[place..], length))) {
            DROP | SLOW | REORDER => place += length,
            _ => break,
        }
    }
    place
}

fn is_assigned(code_point: u32) -> bool {
    let next = UNASSIGNED.partition_point(|&(first, _)| first <= code_point);
    next == 0 || UNASSIGNED[next - 1].1 < code_point
}

fn case_fold(text: impl Iterator<Item = char>) -> String {
    let mut folded = String::new();
    for character in text {
        match CASE_FOLDING.binary_search_by_key(&u32::from(character), |row| row.0) {
            Ok(row) => folded
                .extend(CASE_FOLDING[row].1.iter().filter(|&&part| part != 0).filter_map(|&part| char::from_u32(part))),
            Err(_) => folded.push(character),
        }
    }
    folded
}

/// A text case-folded by the tables of Unicode 14.0.
pub fn case_folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() {
            folded.push(character.to_ascii_lowercase());
        } else {
            folded.push_str(&case_fold(std::iter::once(character)));
        }
    }
    folded
}

/// Whether a character is of a script that does not separate words.
pub fn is_unspaced(character: char) -> bool {
    entry(character.into()) & 3 == UNSPACED
}

/// NFKC_Casefold by the tables of Unicode 14.0, the long way.
///
/// The normalising crate knows later versions; what 14.0 does not assign is gone before, and the rest is stable.
fn fold(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let kept = text.chars().filter(|&character| action(entry(character.into())) != DROP).map(|character| {
        if is_assigned(character.into()) {
            character
        } else {
            ' '
        }
    });
    let first = case_fold(kept.nfd());
    let second = case_fold(first.nfkc());
    drop(first);
    // Nearly all text is done by now, and one long word may be megabytes.
    if is_nfkc_quick(second.chars()) == IsNormalized::Yes {
        return second;
    }
    second.nfkc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Words::default();
        words.cut(text.as_bytes());
        let each: Vec<_> = words.iter().map(|word| String::from_utf8(word.to_vec()).unwrap()).collect();
        assert_eq!(each.join(" ").as_bytes(), words.joined());
        let (mut in_place, mut places) = (Words::default(), Vec::new());
        in_place.cut_in_place(text.as_bytes(), &mut places);
        assert_eq!((in_place.joined(), in_place.ends()), (words.joined(), words.ends()), "{text:?}");
        assert_eq!(places.len(), each.len());
        assert!(places.iter().all(|place| text.get(place.clone()).is_some_and(|part| !part.is_empty())), "{text:?}");
        assert!(places.is_sorted_by_key(|place| place.start) && places.is_sorted_by_key(|place| place.end), "{text:?}");
        each
    }

    /// Step by step over the whole text.
    fn slowly(text: &str) -> Vec<String> {
        let mut words = Words::default();
        words.reserve(0);
        words.put_string(fold(text.as_bytes()).as_bytes());
        words.end_word();
        words.iter().map(|word| String::from_utf8(word.to_vec()).unwrap()).collect()
    }

    #[test]
    fn every_character_is_case_folded_by_its_table() {
        let all: String = ('\0'..=char::MAX).collect();
        assert!(case_folded(&all) == case_fold(all.chars()));
    }

    #[test]
    fn words_are_folded_and_cut() {
        assert_eq!(words("Hello, WORLD_1 x\u{ad}y\u{200b}z"), ["hello", "world_1", "xy", "z"]);
        assert_eq!(
            words("Stra\u{df}e \u{c9}cole e\u{301}cole \u{fb01}n"),
            ["strasse", "\u{e9}cole", "\u{e9}cole", "fin"]
        );
        assert_eq!(words("\u{4e2d}\u{6587}abc\u{3042}"), ["\u{4e2d}", "\u{6587}", "abc", "\u{3042}"]);
        assert_eq!(words("a<\u{338}b"), ["a", "b"]);
    }

    #[test]
    fn each_word_is_placed_where_its_characters_stand() {
        let placed = |text: &str| {
            let (mut words, mut places) = (Words::default(), Vec::new());
            words.cut_in_place(text.as_bytes(), &mut places);
            places.into_iter().map(|place| text[place].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(placed("The Ge\u{ad}samt\u{ad} o\u{fb03}ce"), ["The", "Ge\u{ad}samt", "o\u{fb03}ce"]);
        assert_eq!(
            placed("e\u{301}cole, \u{ff8e}\u{ff9f}\u{ff70}x"),
            ["e\u{301}cole", "\u{ff8e}\u{ff9f}", "\u{ff70}", "x"]
        );
        assert_eq!(placed("(\u{3231}) \u{1103}\u{1169}!"), ["\u{3231}", "\u{1103}\u{1169}"]);
    }

    #[test]
    fn every_code_point_between_others_folds_as_the_long_way() {
        for around in [("", ""), ("a", "b"), ("\u{915}", "\u{94d}"), ("e", "\u{301}"), ("\u{e9} ", "\u{327}\u{301}")] {
            // The letter apostrophe cuts by what is around it: `tests/unit/test_words.py`.
            for each in (0..0x11_0000).filter_map(char::from_u32).filter(|&each| each != '\u{2bc}') {
                let text = format!("{}{each}{}", around.0, around.1);
                assert_eq!(words(&text), slowly(&text), "{each:?} in {around:?}");
            }
        }
    }

    #[test]
    fn random_strings_fold_as_the_long_way() {
        let mut state = 7u64;
        let mut next = |bound: u32| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) as u32) % bound
        };
        for _ in 0..200_000 {
            let text: String = (0..next(8) + 1)
                .filter_map(|_| match next(6) {
                    0 => char::from_u32(0x20 + next(0x5f)),
                    1 => char::from_u32(0x300 + next(0x70)),
                    2 => char::from_u32(0xa0 + next(0x260)),
                    3 => char::from_u32(0x590 + next(0xb00)),
                    4 => char::from_u32(0x1100 + next(0x100)),
                    _ => char::from_u32(next(0x11_0000)),
                })
                .filter(|&each| each != '\u{2bc}')
                .collect();
            assert_eq!(words(&text), slowly(&text), "{:?}", text);
        }
    }
}
