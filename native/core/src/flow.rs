//! Text on its way out: references replaced, white space folded, blocks on lines: `fold_blocks` and `_fold` of the
//! reference, done while the text is read.

use std::ops::Range;

use crate::bytes::{self, is_space, is_wide_space, sequence_length};
use crate::names::{BLANK, MEETING, SOFT};
use crate::references::reference;
use crate::simd::Sixteen;
use crate::tokens::Tag;
use crate::wide::Bytes;

/// Bytes of a word that are looked at.
const WORD_BYTES: usize = 32;

/// What stands between the last word written and the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    Nothing,
    /// A space if two letters or digits follow, which are not all digits with those before; or if any follows.
    Soft,
    Meeting,
    Space,
    Line,
}

/// Folded text.
///
/// `bytes` is longer than what is written and never shrinks, so that whole words can be stored at once.
#[derive(Default)]
pub struct Flow {
    bytes: Vec<u8>,
    length: usize,
    gap: Gap,
    /// Separators written.
    separators: usize,
    /// What the characters beyond ASCII weigh more, or less, than their bytes.
    adjustment: isize,
}

/// How a source is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Character references count.
    Text,
    /// They count, and a line feed ends the block.
    Preformatted,
    /// They do not count, and a line feed ends the block.
    Literal,
    /// They do not count.
    Characters,
}

impl Flow {
    pub fn clear(&mut self) {
        self.length = 0;
        self.gap = Gap::Nothing;
        self.separators = 0;
        self.adjustment = 0;
    }

    /// Characters written that are not white space, those from U+2E80 on counted three times.
    #[inline(always)]
    pub fn weight(&self) -> u64 {
        ((self.length - self.separators) as isize + self.adjustment) as u64
    }

    /// What is written; valid UTF-8.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// A copy of what is written, line ends given as spaces.
    pub fn to_line(&self) -> String {
        let spaced = self.bytes().iter().map(|&byte| if byte == b'\n' { b' ' } else { byte });
        String::from_utf8(spaced.collect()).unwrap_or_default()
    }

    /// End the block.
    #[inline(always)]
    pub fn end_block(&mut self) {
        self.gap = Gap::Line;
    }

    /// Part the next word from the last one.
    pub fn blank(&mut self) {
        self.widen(Gap::Space);
    }

    /// Part the next word from the last one as a tag that stands for no tag of HTML says.
    pub fn part(&mut self, name: u32) {
        match name {
            SOFT if last_word(self.bytes()).chars().nth(1).is_some() => self.widen(Gap::Soft),
            MEETING if !last_word(self.bytes()).is_empty() => self.widen(Gap::Meeting),
            BLANK => self.blank(),
            _ => {}
        }
    }

    /// Whether a gap between words is a blank before a text.
    #[cold]
    fn settle(&mut self, next: &[u8]) {
        let is_number = |text: &str| text.chars().all(|each| each.is_numeric());
        let next = String::from_utf8_lossy(&next[..next.len().min(WORD_BYTES)]).into_owned();
        let next: String = next.chars().take_while(|each| each.is_alphanumeric()).collect();
        let last = last_word(self.bytes());
        let is_word = next.chars().nth(1).is_some() && !(is_number(&next) && is_number(&last));
        let is_blank = is_word || (self.gap == Gap::Meeting && !next.is_empty());
        self.gap = if is_blank { Gap::Space } else { Gap::Nothing };
    }

    #[inline(always)]
    fn widen(&mut self, gap: Gap) {
        self.gap = self.gap.max(gap);
    }

    #[inline(always)]
    fn close_gap(&mut self) {
        if self.gap != Gap::Nothing {
            if self.length != 0 {
                self.bytes[self.length] = if self.gap == Gap::Line { b'\n' } else { b' ' };
                self.length += 1;
                self.separators += 1;
            }
            self.gap = Gap::Nothing;
        }
    }

    /// Append a character of so many bytes, with anything behind, weighed.
    #[inline(always)]
    fn put(&mut self, character: [u8; 4], length: usize) {
        self.close_gap();
        let weight = if u16::from_be_bytes([character[0], character[1]]) >= 0xe2ba { 3 } else { 1 };
        self.adjustment += weight - length as isize;
        self.bytes[self.length..self.length + 4].copy_from_slice(&character);
        self.length += length;
    }

    /// Append text that is folded already as a block of its own.
    pub fn push_folded(&mut self, block: &[u8]) {
        if block.is_empty() {
            return;
        }
        let most = self.length + block.len() + 32;
        if self.bytes.len() < most {
            self.bytes.resize(most * 2, 0);
        }
        self.end_block();
        self.close_gap();
        self.bytes[self.length..self.length + block.len()].copy_from_slice(block);
        self.length += block.len();
    }

    /// Append `source[start..end]`, valid UTF-8.
    #[inline(never)]
    pub fn push(&mut self, source: &[u8], start: usize, end: usize, how: Source) {
        self.push_inline::<Sixteen>(source, start, end, how);
    }

    /// Append the content of a tag, which is a block unless it is a section of characters.
    pub fn push_raw(&mut self, source: &[u8], tag: &Tag, how: Source) {
        self.push(source, tag.content as usize, tag.end as usize, how);
        if how != Source::Characters {
            self.end_block();
        }
    }

    /// `push`, for where it is called most.
    #[inline(always)]
    pub fn push_inline<B: Bytes>(&mut self, source: &[u8], start: usize, end: usize, how: Source) {
        // A reference takes up to 6/5 of its source; the rest is for a gap and for storing whole words at once.
        let most = self.length + (end - start) * 2 + 2 * B::COUNT;
        if self.bytes.len() < most {
            self.bytes.resize(most * 2, 0);
        }
        if matches!(self.gap, Gap::Soft | Gap::Meeting) && start < end {
            self.settle(&source[start..end]);
        }
        let text = &source[..end];
        let is_line = matches!(how, Source::Text | Source::Characters);
        let mut place = start;
        while place < end {
            let bytes = B::load(source, place);
            // What lies behind the end of the text, or of these bytes, is no matter: it begins with a special bit.
            let left = (end - place).min(B::COUNT).min(63);
            let newlines = if is_line { bytes.equal(b'\n') } else { 0 };
            let spaces = bytes.equal(b' ') | newlines;
            let special = bytes.at_most(0x1f) & !newlines | bytes.equal(b'&') | bytes.high() | 1 << left;
            // One space between two plain bytes stays as it is, a line feed is one.
            let stop = special | (spaces & ((spaces | special) >> 1));
            let mut plain = stop.trailing_zeros() as usize;
            if plain != 0 && (spaces & 1 == 0 || (self.gap == Gap::Nothing && self.length != 0)) {
                self.close_gap();
                bytes.store_at_least(b' ', &mut self.bytes, self.length);
                self.separators += B::count(spaces & ((1 << plain) - 1));
                self.length += plain;
                place += plain;
                if plain == left {
                    continue;
                }
            } else {
                plain = 0;
            }
            let white = (!(spaces >> plain)).trailing_zeros() as usize;
            if white != 0 {
                self.widen(Gap::Space);
                place += white.min(left - plain);
            } else {
                place = self.special(text, place, how);
            }
        }
    }

    /// Append `source[start..end]` with a blank in place of what is a sign.
    ///
    /// The places of signs are ascending; those that end at `start` or before are taken off.
    #[inline(always)]
    pub fn push_shown<B: Bytes>(
        &mut self,
        source: &[u8],
        start: usize,
        end: usize,
        how: Source,
        signs: &mut &[Range<u32>],
    ) {
        if signs.first().is_none_or(|sign| sign.start as usize >= end) {
            self.push_inline::<B>(source, start, end, how);
        } else {
            self.push_around(source, start, end, how, signs, |flow, _| flow.blank());
        }
    }

    /// Append `source[start..end]`, and give each sign in it to `of_sign`.
    #[inline(never)]
    pub fn push_around(
        &mut self,
        source: &[u8],
        mut start: usize,
        end: usize,
        how: Source,
        signs: &mut &[Range<u32>],
        mut of_sign: impl FnMut(&mut Self, Range<usize>),
    ) {
        while let Some(sign) = signs.first().filter(|sign| (sign.start as usize) < end) {
            let (from, to) = (start.max(sign.start as usize), end.min(sign.end as usize));
            if from < to {
                self.push(source, start, from, how);
                of_sign(self, from..to);
                start = to;
            }
            if sign.end as usize > end {
                break;
            }
            *signs = &signs[1..];
        }
        self.push(source, start, end, how);
    }

    /// Append what is neither a plain byte nor a space; gives the place behind it.
    #[inline(always)]
    fn special(&mut self, source: &[u8], mut place: usize, how: Source) -> usize {
        let byte = source[place];
        if byte == b'\n' {
            self.end_block();
            return place + 1;
        }
        if byte == b'&' && !matches!(how, Source::Literal | Source::Characters) {
            if let Some(found) = reference(&source[place..], false) {
                for character in found.characters.into_iter().flatten() {
                    if character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character) {
                        self.widen(Gap::Space);
                    } else {
                        let mut encoded = [0; 4];
                        character.encode_utf8(&mut encoded);
                        self.put(encoded, character.len_utf8());
                    }
                }
                return place + found.length;
            }
        }
        while place < source.len() && source[place] >= 0x80 {
            let length = sequence_length(source[place]);
            if is_wide_space(&source[place..place + length]) {
                self.widen(Gap::Space);
            } else {
                self.put(bytes::four(source, place), length);
            }
            place += length;
        }
        if byte >= 0x80 {
            return place;
        }
        if is_space(byte) {
            self.widen(Gap::Space);
        } else {
            self.put([byte, 0, 0, 0], 1);
        }
        place + 1
    }
}

/// The letters and digits at the end of a text.
fn last_word(text: &[u8]) -> String {
    let end = String::from_utf8_lossy(&text[text.len().saturating_sub(WORD_BYTES)..]).into_owned();
    end.chars().rev().take_while(|each| each.is_alphanumeric()).collect()
}

/// A string folded to one line.
pub fn fold_line(source: &str) -> String {
    let mut flow = Flow::default();
    flow.push(source.as_bytes(), 0, source.len(), Source::Literal);
    flow.to_line()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(parts: &[(&str, Source)]) -> String {
        let mut flow = Flow::default();
        for (part, how) in parts {
            flow.push(part.as_bytes(), 0, part.len(), *how);
            flow.end_block();
        }
        String::from_utf8(flow.bytes().to_vec()).unwrap()
    }

    #[test]
    fn white_space_is_folded_and_blocks_stand_on_lines() {
        assert_eq!(
            folded(&[
                ("  a  b\tc\u{a0}d\u{3000} ", Source::Text),
                (" \n ", Source::Text),
                ("e&nbsp;&#10;f", Source::Text)
            ]),
            "a b c d\ne f"
        );
        assert_eq!(folded(&[("a\nb &lt;", Source::Preformatted), ("a\nb &lt;", Source::Literal)]), "a\nb <\na\nb &lt;");
        assert_eq!(folded(&[("\u{1}x\u{1c}y\u{85}z", Source::Text)]), "\u{1}x y z");
    }

    #[test]
    fn references_longer_than_their_source_fit() {
        let expected = "\u{2267}\u{338}".repeat(2000);
        assert_eq!(folded(&[("&ngE;".repeat(2000).as_str(), Source::Text)]), expected);
    }
}
