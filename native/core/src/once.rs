//! Long sentences that a page has said before, which are not written again: `write_once` of `tests/reference/scored.py`.

use std::ops::Range;

use crate::bytes;
use crate::numbers::Numbers;
use crate::outline::Outline;

const REPEATED_SENTENCE_WEIGHT: u64 = 40;
const REPEATED_SHARE: u64 = 3;
/// What may close a quote or a bracket behind the end of a sentence.
const CLOSERS: [&str; 5] = ["\"", "'", ")", "”", "»"];
/// Ends of sentences that no blank follows.
const WIDE_ENDS: [&str; 4] = ["。", "！", "？", "।"];

/// Lines and sentences by their text.
#[derive(Default)]
pub struct Once {
    numbers: Numbers,
    known: Vec<Range<usize>>,
}

impl Once {
    /// Places in the text of those lines and sentences of some blocks that stand there before.
    ///
    /// None if they are more than a third of all: then the page is about them.  A whole line goes first.  Headings are known, and stay; blocks with signs and preformatted ones are passed over.
    pub fn find(&mut self, page: &Outline, text: &[u8], kept: &[usize]) -> Vec<Range<usize>> {
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
            let is_preformatted = preformatted.get(block.owner as usize).is_some_and(|&is_within| is_within);
            if block.weight < REPEATED_SENTENCE_WEIGHT || has_sign || is_preformatted {
                continue;
            }
            let before = repeated.len();
            self.read_block(text, block.text.clone(), &mut repeated);
            if block.is_heading {
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

    fn read_block(&mut self, text: &[u8], block: Range<usize>, repeated: &mut Vec<Range<usize>>) {
        let mut start = block.start;
        while start < block.end {
            let end = memchr::memchr(b'\n', &text[start..block.end]).map_or(block.end, |at| start + at);
            if self.is_known(text, start..end) {
                repeated.push(start..end);
            } else if end - start >= REPEATED_SENTENCE_WEIGHT as usize {
                let mut first = start;
                while first < end {
                    let next = sentence_end(&text[..end], first);
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
        if own.len() < REPEATED_SENTENCE_WEIGHT as usize || weight_of(own) < REPEATED_SENTENCE_WEIGHT {
            return false;
        }
        let next = self.known.len() as u32;
        let known = &self.known;
        let is_same = |other: u32| text[known[other as usize].clone()] == *own;
        if self.numbers.number((bytes::mixed(own) >> 32) as u32, next, is_same) != next {
            return true;
        }
        self.known.push(range);
        false
    }
}

/// The place behind the sentence that begins at `start`, and behind the blank that follows it; the text ends a line.
fn sentence_end(text: &[u8], start: usize) -> usize {
    let mut place = start;
    while place < text.len() {
        let rest = &text[place..];
        match rest[0] {
            b'.' | b'!' | b'?' => {
                let closer = CLOSERS.iter().find(|closer| rest[1..].starts_with(closer.as_bytes()));
                let behind = 1 + closer.map_or(0, |closer| closer.len());
                if rest.get(behind) == Some(&b' ') {
                    return place + behind + 1;
                }
            }
            0xe0.. => {
                if let Some(end) = WIDE_ENDS.iter().find(|end| rest.starts_with(end.as_bytes())) {
                    return place + end.len();
                }
            }
            _ => {}
        }
        place += 1;
    }
    text.len()
}

/// Characters that are no blanks, wide ones counted three times.
fn weight_of(text: &[u8]) -> u64 {
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
