//! Which parts of a value are copies of what stands before it: the choice of sequences, in zstd's sense.
//!
//! Greedy, with a look at the next place where a copy is short, as zstd's lazy strategies have it.  What they get from
//! looking further comes cheaper here: a copy is extended backward also over those chosen before it, and where it leaves
//! little of one, that one goes.  A longer copy that began inside a shorter one is so found when it is met again behind
//! its end, on the same diagonal.

use std::ops::Range;

use crate::entropy::{Copy, BLOCK_BYTES};
use crate::places::{eight, four, Index, Key, Recent, HASHED_BYTES, READ_BYTES};

/// A copy shorter than this is compared with that of the next place.
const SHORT_BYTES: usize = 8;
/// The same against a base, where copies are few and there is time.
const SHORT_BYTES_WITH_BASE: usize = 16;
/// An earlier copy of which a later one leaves fewer bytes goes: as literals they cost less than a sequence.
const LEAST_LEFT_BYTES: usize = 4;
/// Steps grow by one for each so many bytes (as a power of two) without a copy.
const SKIP_BITS: u32 = 7;
/// No copy begins so near to a block's end.
const MARGIN_BYTES: usize = 16;

/// What a frame takes, in sixteenths of a byte, for each literal and each copy: fitted to values with a dictionary, of
/// which half come out within 3%, all but one of fifty within 11.
const LITERAL_SIXTEENTHS: usize = 11;
const COPY_SIXTEENTHS: usize = 46;
/// A value is given up whose frame would take more than so many eighths of its limit, as far as it is read.
const GIVEN_UP_EIGHTHS: usize = 9;
/// That is looked at after one part in so many of the value, and again after each half of that; not of shorter parts.
const TRIED_PART: usize = 8;
const LEAST_TRIED_BYTES: usize = 1 << 10;

/// A copy that begins at `at` and takes its bytes from `from`.
struct Found {
    at: usize,
    from: usize,
    bytes: usize,
    gain: i32,
}

/// Finds copies; keeps its tables' memory.
#[derive(Default)]
pub struct Finder {
    recent: Recent,
    copies: Vec<Copy>,
    /// Nothing is copied from before it.
    floor: usize,
    /// Where it is looked next whether the frame would be clearly longer than a limit.
    look_at: usize,
    limit: usize,
}

impl Finder {
    /// Places of the text before and in the value, to be emptied for each.
    pub fn recent(&mut self) -> &mut Recent {
        &mut self.recent
    }

    /// Bytes of memory of the larger of its tables.
    pub fn capacity(&self) -> usize {
        self.recent.capacity().max(self.copies.capacity() * size_of::<Copy>())
    }

    /// What `find` found: sequences, with the literals before each; one that copies nothing ends each block.
    pub fn copies(&self) -> &[Copy] {
        &self.copies
    }

    /// Whether the part of a value up to a place says that its frame would be clearly longer than the limit.
    fn is_over(&mut self, done: usize, value_bytes: usize) -> bool {
        self.look_at += value_bytes / TRIED_PART / 2;
        let literals: usize = self.copies.iter().map(Copy::literals).sum();
        let estimated_bytes = (literals * LITERAL_SIXTEENTHS + self.copies.len() * COPY_SIXTEENTHS) / 16;
        estimated_bytes * value_bytes / done * 8 > self.limit.saturating_mul(GIVEN_UP_EIGHTHS)
    }

    /// Find the copies of a value, which begins at `start` of the text, in the value that was read last, from `floor` on,
    /// and in itself.
    pub fn find_after(&mut self, text: &[u8], floor: usize, start: usize) {
        self.floor = floor;
        self.find_from(text, start, None, None);
    }

    /// Find the copies of a value, which begins at `start` of the text; false where it was given up, because its frame
    /// would be clearly longer than a limit.
    pub fn find(&mut self, text: &[u8], start: usize, index: Option<&Index>, limit: Option<usize>) -> bool {
        self.floor = 0;
        self.find_from(text, start, index, limit)
    }

    fn find_from(&mut self, text: &[u8], start: usize, index: Option<&Index>, limit: Option<usize>) -> bool {
        self.copies.clear();
        self.limit = limit.unwrap_or(usize::MAX);
        self.look_at = limit.map_or(usize::MAX, |_| LEAST_TRIED_BYTES.max((text.len() - start) / TRIED_PART));
        let mut distances = (0, 0);
        for begin in (start..text.len()).step_by(BLOCK_BYTES) {
            let end = text.len().min(begin + BLOCK_BYTES);
            let reached = match index {
                Some(_) => self.find_in_block(text, start, begin..end, index, distances, SHORT_BYTES),
                None => self.find_in_block(text, start, begin..end, None, distances, SHORT_BYTES_WITH_BASE),
            };
            let Some(reached) = reached else { return false };
            distances = reached;
        }
        true
    }

    /// Find the copies of a block; distances are those of the last copies, and given back, but for a value given up.
    #[inline(always)]
    fn find_in_block(
        &mut self,
        text: &[u8],
        start: usize,
        block: Range<usize>,
        index: Option<&Index>,
        (mut last, mut before): (usize, usize),
        short_bytes: usize,
    ) -> Option<(usize, usize)> {
        let (begin, value_bytes) = (block.start, text.len() - start);
        let text = &text[..block.end];
        let first = self.copies.len();
        let limit = text.len().saturating_sub(MARGIN_BYTES);
        let (mut place, mut literals_from) = (begin, begin);
        while place < limit {
            let mut found;
            if last != 0 && four(text, place + 1 - last) == four(text, place + 1) {
                let from = place + 1 - last;
                found = Found { at: place + 1, from, bytes: 4 + common(text, from + 4, place + 5), gain: 0 };
            } else {
                found = self.best(text, place, index);
                if found.bytes == 0 {
                    place += 1 + ((place - literals_from) >> SKIP_BITS);
                    continue;
                }
                while found.bytes < short_bytes && found.at + 1 < limit {
                    let next = self.best(text, found.at + 1, index);
                    if next.gain <= found.gain + 4 {
                        break;
                    }
                    found = next;
                }
            }
            let mut distance = found.at - found.from;
            literals_from = self.extend_backward(text, begin, first, literals_from, &mut found);
            loop {
                self.copies.push(Copy::new(found.at - literals_from, distance, found.bytes));
                if distance != last {
                    (before, last) = (last, distance);
                }
                place = found.at + found.bytes;
                literals_from = place;
                for noted in [found.at + 2, place - 2] {
                    if noted < limit {
                        self.recent.note(Key::at(text, noted), noted);
                    }
                }
                // The one before may go on where the last ends.
                if before == 0 || place >= limit || four(text, place - before) != four(text, place) {
                    break;
                }
                distance = before;
                let from = place - before;
                found = Found { at: place, from, bytes: 4 + common(text, from + 4, place + 4), gain: 0 };
            }
            if place - start >= self.look_at && self.is_over(place - start, value_bytes) {
                return None;
            }
        }
        self.copies.push(Copy::end_of_block(text.len() - literals_from));
        Some((last, before))
    }

    /// The best copy that begins at a place; one of no bytes where there is none.
    #[inline(always)]
    fn best(&mut self, text: &[u8], place: usize, index: Option<&Index>) -> Found {
        let key = Key::at(text, place);
        let mut best = Found { at: place, from: place, bytes: 0, gain: 0 };
        for from in self.recent.places_and_note(key, place, index) {
            // Candidates come by distance: one that is no longer than the best is no better.
            if best.bytes != 0 && !reaches_beyond(text, from, place, best.bytes) {
                continue;
            }
            if from < place && from >= self.floor && key.stands_at(text, from) {
                let bytes = HASHED_BYTES + common(text, from + HASHED_BYTES, place + HASHED_BYTES);
                let gain = gain(bytes, place - from);
                if gain > best.gain {
                    best = Found { at: place, from, bytes, gain };
                }
            }
        }
        best
    }

    /// Let a copy begin earlier, also in place of copies of this block; gives where the literals before it begin.
    #[inline(always)]
    fn extend_backward(
        &mut self,
        text: &[u8],
        begin: usize,
        first: usize,
        mut literals_from: usize,
        found: &mut Found,
    ) -> usize {
        let earliest =
            found.at - common_behind(text, begin, found.at, found.from).min(found.from.saturating_sub(self.floor));
        let mut start = earliest.max(literals_from);
        while earliest < literals_from && self.copies.len() > first {
            let Some(copy) = self.copies.last() else { break };
            let copy_at = literals_from - copy.bytes();
            if earliest >= copy_at + LEAST_LEFT_BYTES {
                break;
            }
            literals_from = copy_at - copy.literals();
            self.copies.pop();
            start = earliest.max(literals_from);
        }
        found.bytes += found.at - start;
        found.at = start;
        literals_from
    }
}

/// Whether the copy of these bytes may go on behind them; looks at the last few, and the next.
#[inline(always)]
fn reaches_beyond(text: &[u8], from: usize, place: usize, bytes: usize) -> bool {
    place + bytes < text.len() && four(text, from + bytes - 3) == four(text, place + bytes - 3)
}

/// What a copy saves, in quarter bytes or so: far ones cost more.
#[inline(always)]
fn gain(bytes: usize, distance: usize) -> i32 {
    bytes as i32 * 4 - (usize::BITS - distance.leading_zeros()) as i32
}

/// How many bytes from two places on are the same, up to the text's end.
#[inline(always)]
fn common(text: &[u8], mut from: usize, mut place: usize) -> usize {
    let start = place;
    while place + 8 <= text.len() {
        let differs = eight(text, from) ^ eight(text, place);
        if differs != 0 {
            return place - start + (differs.trailing_zeros() / 8) as usize;
        }
        place += 8;
        from += 8;
    }
    while place < text.len() && text[from] == text[place] {
        place += 1;
        from += 1;
    }
    place - start
}

/// How many bytes before two places are the same, down to the block's beginning.
#[inline(always)]
fn common_behind(text: &[u8], begin: usize, at: usize, from: usize) -> usize {
    let most = (at - begin).min(from);
    let mut same = 0;
    while same + READ_BYTES <= most {
        let differs = eight(text, at - same - READ_BYTES) ^ eight(text, from - same - READ_BYTES);
        if differs != 0 {
            return same + (differs.leading_zeros() / 8) as usize;
        }
        same += READ_BYTES;
    }
    while same < most && text[at - same - 1] == text[from - same - 1] {
        same += 1;
    }
    same
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random, the same for the same seed.
    struct Noise(u64);

    impl Noise {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (self.0 >> 33) as usize % limit
        }

        fn text(&mut self, bytes: usize, letters: usize) -> Vec<u8> {
            (0..bytes).map(|_| b'a' + self.below(letters) as u8).collect()
        }

        /// Runs of a text, some of them twice or at other places, with other bytes between them.
        fn edited(&mut self, text: &[u8]) -> Vec<u8> {
            let mut edited = Vec::new();
            for _ in 0..self.below(20) {
                let from = self.below(text.len() + 1);
                edited.extend_from_slice(&text[from..(from + self.below(500)).min(text.len())]);
                let between = self.below(9);
                edited.extend(self.text(between, 26));
            }
            edited
        }
    }

    /// The value that copies make up.
    fn replayed(copies: &[Copy], before: &[u8], value: &[u8]) -> Vec<u8> {
        let mut text = before.to_vec();
        let mut literals_from = 0;
        for copy in copies {
            text.extend_from_slice(&value[literals_from..literals_from + copy.literals()]);
            for _ in 0..copy.bytes() {
                text.push(text[text.len() - copy.distance()]);
            }
            literals_from = text.len() - before.len();
        }
        text.split_off(before.len())
    }

    #[test]
    fn copies_make_up_the_value() {
        let mut noise = Noise(1);
        let mut finder = Finder::default();
        for round in 0..2000 {
            let before_bytes = noise.below(3000);
            let before = noise.text(before_bytes, 1 + round % 30);
            let value = noise.edited(&before);
            let text = [&before[..], &value].concat();
            finder.recent().clear_to_base(&text, before.len());
            finder.find(&text, before.len(), None, None);
            assert_eq!(replayed(finder.copies(), &before, &value), value, "round {round}, by base");
            finder.recent().clear(value.len());
            finder.find(&text, before.len(), Some(&Index::new(&before)), None);
            assert_eq!(replayed(finder.copies(), &before, &value), value, "round {round}, by index");
        }
    }

    #[test]
    fn a_text_is_copied_from_its_body_and_never_from_what_stands_before() {
        let mut noise = Noise(3);
        let mut finder = Finder::default();
        for round in 0..2000 {
            let letters = 1 + round % 30;
            let content_bytes = noise.below(2000);
            let content = noise.text(content_bytes, letters);
            let body = [noise.edited(&content), noise.text(round % 400, letters)].concat();
            let said = [noise.edited(&body), noise.edited(&content)].concat();
            let start = content.len();
            finder.recent().clear(body.len() + said.len());
            finder.find(&[&content[..], &body].concat(), start, Some(&Index::new(&content)), None);
            assert_eq!(replayed(finder.copies(), &content, &body), body, "round {round}, the body");
            finder.find_after(&[&content[..], &body, &said].concat(), start, start + body.len());
            assert_eq!(replayed(finder.copies(), &body, &said), said, "round {round}, the text");
        }
    }

    #[test]
    fn a_text_with_one_change_is_two_copies() {
        let base = Noise(2).text(20_000, 26);
        let value = [&base[..9000], b"-- put in --", &base[9000..]].concat();
        let text = [&base[..], &value].concat();
        let mut finder = Finder::default();
        finder.recent().clear_to_base(&text, base.len());
        finder.find(&text, base.len(), None, None);
        let lengths: Vec<usize> = finder.copies().iter().map(Copy::bytes).collect();
        assert_eq!(lengths, [9000, 11_000, 0]);
    }

    #[test]
    fn a_longer_copy_takes_the_place_of_those_inside_it() {
        // "abcdef" stands alone before, and inside the longer text, which is met again behind its end.
        let before = b"..abcdefQ....Xabcdefghijklmnopqrstuvwxyz....abcdefR........................";
        let value = b"--Xabcdefghijklmnopqrstuvwxyz--------------------------";
        let text = [&before[..], &value[..]].concat();
        let mut finder = Finder::default();
        finder.recent().clear(value.len());
        finder.find(&text, before.len(), Some(&Index::new(before)), None);
        assert_eq!((finder.copies()[0].literals(), finder.copies()[0].bytes()), (2, 27));
    }
}
