//! Tag names as numbers: known ones by table, others in order of appearance on the page.
//!
//! A *tag name* is a number, doubled, plus one for an end tag; comments and swallowed tags have `NOTHING`,
//! and what stands for no tag of HTML has a number right below.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::bytes;
pub use crate::tables::names::*;

pub const NOTHING: u32 = u32::MAX;
/// Of a section of characters, whose content is text as it is.
pub const CDATA: u32 = NOTHING - 2;
/// A blank between two words; one if both have two letters or more; one in any case.
pub const MEETING: u32 = NOTHING - 4;
pub const SOFT: u32 = NOTHING - 6;
pub const BLANK: u32 = NOTHING - 8;
/// Before a formula in TeX, before one that stands apart, and behind it.
pub const FORMULA: u32 = NOTHING - 10;
pub const DISPLAY: u32 = NOTHING - 12;
pub const FORMULA_END: u32 = NOTHING - 14;
/// The end of a block; all numbers from here on stand for no tag of HTML.
pub const CUT: u32 = NOTHING - 16;

const SLOTS: usize = 512;
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Names of up to eight bytes by their bytes as an integer; longer ones in a list.
struct Known {
    keys: [u64; SLOTS],
    numbers: [u8; SLOTS],
    long: Vec<(&'static [u8], u32)>,
}

#[inline(always)]
fn slot_of(key: u64) -> usize {
    (key.wrapping_mul(MIX) >> (64 - SLOTS.trailing_zeros())) as usize
}

fn known() -> &'static Known {
    static TABLE: OnceLock<Known> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Known { keys: [0; SLOTS], numbers: [0; SLOTS], long: Vec::new() };
        for (number, name) in NAMES.iter().enumerate() {
            if name.len() > 8 {
                table.long.push((name.as_bytes(), number as u32));
                continue;
            }
            let key = bytes::load_padded(name.as_bytes(), 0);
            let mut slot = slot_of(key);
            while table.keys[slot] != 0 {
                slot = (slot + 1) % SLOTS;
            }
            table.keys[slot] = key;
            table.numbers[slot] = number as u8;
        }
        table
    })
}

/// Numbers of the names of one page.
pub struct Names {
    known: &'static Known,
    others: HashMap<Vec<u8>, u32>,
}

impl Default for Names {
    fn default() -> Self {
        Self { known: known(), others: HashMap::new() }
    }
}

impl Names {
    /// Forget the names of the page before.
    pub fn clear(&mut self) {
        if !self.others.is_empty() {
            self.others.clear();
        }
    }

    /// The number of the name `source[start..end]`, not empty, in any case.
    #[inline(always)]
    pub fn number_at(&mut self, source: &[u8], start: usize, end: usize) -> u32 {
        let length = end - start;
        if length <= 8 {
            let word =
                if start + 8 <= source.len() { bytes::load(source, start) } else { bytes::load_padded(source, start) };
            let as_written = word & (u64::MAX >> (64 - 8 * length));
            // Nearly all are written in small letters.
            let known = self.known(as_written).or_else(|| self.known(bytes::lower(as_written)));
            if let Some(number) = known {
                return number;
            }
        }
        self.other(&source[start..end])
    }

    /// The number of a known name of up to eight bytes in small letters, as an integer.
    #[inline(always)]
    pub fn known(&self, key: u64) -> Option<u32> {
        let mut slot = slot_of(key);
        while self.known.keys[slot] != 0 {
            if self.known.keys[slot] == key {
                return Some(u32::from(self.known.numbers[slot]));
            }
            slot = (slot + 1) % SLOTS;
        }
        None
    }

    /// The number of a name, in any case.
    pub fn number(&mut self, name: &[u8]) -> u32 {
        self.number_at(name, 0, name.len())
    }

    /// The name with a number, in lower case.
    pub fn name(&self, number: u32) -> &[u8] {
        let other = || self.others.iter().find(|&(_, &each)| each == number).map_or(&[][..], |(name, _)| name);
        NAMES.get(number as usize).map_or_else(other, |name| name.as_bytes())
    }

    #[cold]
    fn other(&mut self, name: &[u8]) -> u32 {
        for &(known, number) in &self.known.long {
            if known.eq_ignore_ascii_case(name) {
                return number;
            }
        }
        let next = (KNOWN + self.others.len()) as u32;
        *self.others.entry(name.to_ascii_lowercase()).or_insert(next)
    }
}

/// Properties of the element that a tag name stands for.
#[inline(always)]
pub fn properties(tag_name: u32) -> u16 {
    PROPERTIES.get((tag_name >> 1) as usize).copied().unwrap_or(0)
}

/// Elements that are part of a line if there are words beside them, and else cut.
#[rustfmt::skip]
pub const DOUBTFUL: [u32; 14] = [
    NAME_AUDIO, NAME_BUTTON, NAME_CANVAS, NAME_INPUT, NAME_LABEL, NAME_MAP, NAME_MATH, NAME_OBJECT, NAME_PICTURE, NAME_SLOT,
    NAME_SOURCE, NAME_SVG, NAME_TRACK, NAME_VIDEO,
];

/// A table by the numbers of known names: a value for some, another one for the others.
pub const fn table_of<const N: usize>(some: [u32; N]) -> [bool; KNOWN] {
    let mut table = [false; KNOWN];
    let mut place = 0;
    while place < N {
        table[some[place] as usize] = true;
        place += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_name_has_its_number_in_any_case() {
        let mut names = Names::default();
        for (number, name) in NAMES.iter().enumerate() {
            assert_eq!(names.number(name.as_bytes()), number as u32);
            assert_eq!(names.number(name.to_ascii_uppercase().as_bytes()), number as u32);
        }
        let first = names.number(b"x-first");
        assert_eq!(first, KNOWN as u32);
        assert_eq!(names.number(b"y"), first + 1);
        assert_eq!(names.number(b"X-First"), first);
        assert_eq!(names.number("scr\u{131}pt".as_bytes()), first + 2);
    }
}
