//! Long sentences that a page has said before, which are not written again.
//!
//! A line, else a sentence, that weighs 40 or more and stands in a kept block before is not written again; headings, and
//! lists and tables that are kept whole, are known and stay, blocks with signs and preformatted ones are passed over.  A sentence ends at `.`, `!` or `?`,
//! perhaps with a quote or bracket behind, and a blank; or at an end of another script, with no blank needed.  If these
//! are more than a third of all that is kept, the page is about them, and nothing is left out.
//!
//! Cases, in `tests/cases/text/`: `once`.

use std::ops::Range;

use crate::bytes;
use crate::numbers::Numbers;
use crate::outline::Outline;
use crate::wide::{self, Bytes};

const REPEATED_SENTENCE_WEIGHT: u64 = 40;
const REPEATED_SHARE: u64 = 3;
/// What may close a quote or a bracket behind the end of a sentence.
const CLOSERS: [&str; 5] = ["\"", "'", ")", "”", "»"];
/// Ends of sentences that need no blank behind them.
const WIDE_ENDS: [&str; 6] = ["。", "！", "？", "।", "؟", "۔"];

/// What may close a quote behind these.
const WIDE_CLOSERS: [&str; 3] = ["」", "』", "”"];

/// Lines and sentences by their text.
#[derive(Default)]
pub struct Once {
    numbers: Numbers,
    known: Vec<Range<usize>>,
}

struct Find<'a> {
    once: &'a mut Once,
    page: &'a Outline,
    text: &'a [u8],
    kept: &'a [usize],
    wholes: &'a [Range<usize>],
}

impl wide::Work for Find<'_> {
    type Made = Vec<Range<usize>>;

    #[inline(always)]
    fn on<B: Bytes>(self) -> Self::Made {
        self.once.find_on::<B>(self.page, self.text, self.kept, self.wholes)
    }
}

impl Once {
    /// Places in the text of those lines and sentences of some blocks that stand there before.
    ///
    /// None if they are more than a third of all: then the page is about them.  A whole line goes first.  Headings, and
    /// blocks of wholes, given by their numbers, are known, and stay; those with signs and preformatted ones are passed
    /// over.
    pub fn find(&mut self, page: &Outline, text: &[u8], kept: &[usize], wholes: &[Range<usize>]) -> Vec<Range<usize>> {
        wide::run(Find { once: self, page, text, kept, wholes })
    }

    #[inline(always)]
    fn find_on<B: Bytes>(
        &mut self,
        page: &Outline,
        text: &[u8],
        kept: &[usize],
        mut wholes: &[Range<usize>],
    ) -> Vec<Range<usize>> {
        self.numbers.clear();
        self.known.clear();
        let preformatted = page.preformatted();
        let mut repeated = Vec::new();
        let mut signs = &page.signs[..];
        for &number in kept {
            let block = &page.blocks[number];
            while signs.first().is_some_and(|sign| sign.end <= block.text.start) {
                signs = &signs[1..];
            }
            let has_sign = signs.first().is_some_and(|sign| sign.start < block.text.end);
            while wholes.first().is_some_and(|whole| whole.end <= number) {
                wholes = &wholes[1..];
            }
            let is_preformatted = preformatted.get(block.owner as usize).is_some_and(|&is_within| is_within);
            if block.weight < REPEATED_SENTENCE_WEIGHT || has_sign || is_preformatted {
                continue;
            }
            let before = repeated.len();
            self.read_block::<B>(text, block.text.clone(), &mut repeated);
            if block.is_heading || wholes.first().is_some_and(|whole| whole.contains(&number)) {
                repeated.truncate(before);
            }
        }
        let total: u64 = kept.iter().map(|&number| page.blocks[number].weight).sum();
        let said: u64 = repeated.iter().map(|range| weight_of(&text[range.clone()])).sum();
        if said * REPEATED_SHARE > total {
            repeated.clear();
        }
        repeated
    }

    #[inline(always)]
    fn read_block<B: Bytes>(&mut self, text: &[u8], block: Range<usize>, repeated: &mut Vec<Range<usize>>) {
        let mut start = block.start;
        while start < block.end {
            let end = memchr::memchr(b'\n', &text[start..block.end]).map_or(block.end, |at| start + at);
            if self.is_known(text, start..end) {
                repeated.push(start..end);
            } else if end - start >= REPEATED_SENTENCE_WEIGHT as usize {
                let mut first = start;
                while first < end {
                    let next = sentence_end::<B>(text, first, end);
                    // The line itself is known by now.
                    if (first, next) != (start, end) && self.is_known(text, first..next) {
                        repeated.push(first..next);
                    }
                    first = next;
                }
            }
            start = end + 1;
        }
    }

    /// Whether a text of some weight was met before; from now on it was.
    #[inline(always)]
    fn is_known(&mut self, text: &[u8], range: Range<usize>) -> bool {
        let end = range.end - usize::from(text[range.clone()].ends_with(b" "));
        let range = range.start..end;
        let own = &text[range.clone()];
        // No character weighs more than its bytes.
        if own.len() < REPEATED_SENTENCE_WEIGHT as usize {
            return false;
        }
        let next = self.known.len() as u32;
        let known = &self.known;
        let is_same = |other: u32| text[known[other as usize].clone()] == *own;
        if self.numbers.number((bytes::mixed(own) >> 32) as u32, next, is_same) != next {
            return weight_of(own) >= REPEATED_SENTENCE_WEIGHT;
        }
        self.known.push(range);
        false
    }
}

/// The place behind the sentence that begins at `start`, and behind the blank that follows it; its line ends at `end`.
#[inline(always)]
fn sentence_end<B: Bytes>(text: &[u8], start: usize, end: usize) -> usize {
    for start in (start..end).step_by(B::COUNT) {
        let bytes = B::load(text, start);
        let mut places = bytes.equal(b'.') | bytes.equal(b'!') | bytes.equal(b'?');
        if bytes.high() != 0 {
            let next = B::load(text, start + 1);
            let wide = bytes.equal(0xe0) | bytes.equal(0xe3) | bytes.equal(0xef);
            places |= wide & (next.equal(0x80) | next.equal(0xa5) | next.equal(0xbc));
            places |= (bytes.equal(0xd8) & next.equal(0x9f)) | (bytes.equal(0xdb) & next.equal(0x94));
        }
        while places != 0 {
            let place = start + places.trailing_zeros() as usize;
            if place >= end {
                return end;
            }
            if let Some(behind) = behind_sentence(&text[..end], place) {
                return behind;
            }
            places &= places - 1;
        }
    }
    end
}

/// The place behind a sentence, and the blank that follows it, if the sentence ends with what stands at `place`.
fn behind_sentence(text: &[u8], place: usize) -> Option<usize> {
    let rest = &text[place..];
    if rest[0] >= 0x80 {
        let end = WIDE_ENDS.iter().find(|end| rest.starts_with(end.as_bytes()))?.len();
        let closer = WIDE_CLOSERS.iter().find(|closer| rest[end..].starts_with(closer.as_bytes()));
        let behind = end + closer.map_or(0, |closer| closer.len());
        return Some(place + behind + usize::from(rest.get(behind) == Some(&b' ')));
    }
    let closer = CLOSERS.iter().find(|closer| rest[1..].starts_with(closer.as_bytes()));
    let behind = 1 + closer.map_or(0, |closer| closer.len());
    (rest.get(behind) == Some(&b' ')).then_some(place + behind + 1)
}

/// Characters that are no blanks, wide ones counted three times.
fn weight_of(text: &[u8]) -> u64 {
    if text.is_ascii() {
        return text.iter().filter(|&&byte| byte != b' ').count() as u64;
    }
    let mut weight = 0;
    for (place, &byte) in text.iter().enumerate() {
        let is_wide = byte >= 0xe2 && u16::from_be_bytes([byte, text[place + 1]]) >= 0xe2ba;
        weight += match byte {
            b' ' | 0x80..=0xbf => 0,
            _ if is_wide => 3,
            _ => 1,
        };
    }
    weight
}
