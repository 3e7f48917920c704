//! Character references: `&amp;`, `&#228;`, `&#xE4;` -> characters, in text and in attribute values.
//!
//! Pure functions, linear time, no exception.
//!
//! The rule (results equal the standard library's `html.unescape`, which follows the WHATWG rules for text):
//!
//! 1. A reference is `&#[xX]hex+;?`, `&#digits+;?` or `&` and a run of ASCII letters and digits, then maybe `;`.
//! 2. Numeric: 0, surrogates and numbers above 0x10FFFF give U+FFFD; 0x80-0x9F give the windows-1252 character where
//!    there is one, else the C1 control; 0x0D gives itself; the other C0 controls except tab, line feed and form feed,
//!    0x0B, 0x7F, and noncharacters give nothing.  Digits after the eighth significant one cannot make a number
//!    smaller, so the number of digits does not matter for the time.
//! 3. Named, in text: the longest prefix of the run (with its `;` if there) that the table of named references has;
//!    what is left of the run stays text.  No such prefix: the reference stays text.
//! 4. Named, in an attribute value: as in text, but a name matched without `;` that is followed by `=` or an ASCII
//!    letter or digit stays text.
//!
//! Cases, in `tests/cases/text/`: `references`.

use std::sync::OnceLock;

use crate::tables::references::NAMED;

/// What a reference stands for: none, one or two characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Bytes of source, the `&` among them.
    pub length: usize,
    pub characters: [Option<char>; 2],
}

impl Reference {
    fn one(length: usize, character: char) -> Self {
        Self { length, characters: [Some(character), None] }
    }
}

const LONGEST_NAME: usize = 33;
const SLOTS: usize = 8192;
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Numbers in `NAMED`, plus one, by the hash of the name.
fn slots() -> &'static [u16; SLOTS] {
    static TABLE: OnceLock<Box<[u16; SLOTS]>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Box::new([0; SLOTS]);
        for (number, (name, _)) in NAMED.iter().enumerate() {
            let mut slot = slot_of(name.bytes().fold(0, extend));
            while table[slot] != 0 {
                slot = (slot + 1) % SLOTS;
            }
            table[slot] = number as u16 + 1;
        }
        table
    })
}

fn extend(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(MIX).rotate_left(23)
}

fn slot_of(hash: u64) -> usize {
    (hash.wrapping_mul(MIX) >> 51) as usize
}

/// The reference that `source`, which begins with `&`, begins with; None where the `&` is text.
#[inline]
pub fn reference(source: &[u8], in_attribute: bool) -> Option<Reference> {
    match source.get(1)? {
        b'#' => numeric(source),
        byte if byte.is_ascii_alphabetic() => {
            // Without an eye to what follows, only names with their semicolon are safe in attributes.
            match source {
                [_, b'a', b'm', b'p', b';', ..] => Some(Reference::one(5, '&')),
                [_, b'l', b't', b';', ..] => Some(Reference::one(4, '<')),
                [_, b'g', b't', b';', ..] => Some(Reference::one(4, '>')),
                [_, b'n', b'b', b's', b'p', b';', ..] => Some(Reference::one(6, '\u{a0}')),
                [_, b'q', b'u', b'o', b't', b';', ..] => Some(Reference::one(6, '"')),
                _ => named(source, in_attribute),
            }
        }
        _ => None,
    }
}

fn named(source: &[u8], in_attribute: bool) -> Option<Reference> {
    let slots = slots();
    let mut hash = 0;
    let mut longest = None;
    for length in 1..=LONGEST_NAME {
        let Some(&byte) = source.get(length) else { break };
        if !byte.is_ascii_alphanumeric() && byte != b';' {
            break;
        }
        hash = extend(hash, byte);
        let mut slot = slot_of(hash);
        while slots[slot] != 0 {
            let (name, characters) = NAMED[slots[slot] as usize - 1];
            if name.as_bytes() == &source[1..=length] {
                longest = Some((length, characters));
                break;
            }
            slot = (slot + 1) % SLOTS;
        }
        if byte == b';' {
            break;
        }
    }
    let (length, characters) = longest?;
    if in_attribute && source[length] != b';' {
        if let Some(&next) = source.get(length + 1) {
            if next.is_ascii_alphanumeric() || next == b'=' || next == b';' {
                return None;
            }
        }
    }
    let mut each = characters.chars();
    Some(Reference { length: length + 1, characters: [each.next(), each.next()] })
}

fn numeric(source: &[u8]) -> Option<Reference> {
    let (radix, start) = match source.get(2)? {
        b'x' | b'X' => (16, 3),
        _ => (10, 2),
    };
    let mut number: u32 = 0;
    let mut place = start;
    while let Some(digit) = source.get(place).and_then(|&byte| char::from(byte).to_digit(radix)) {
        // Beyond the last code point every number means the same.
        number = (number * radix + digit).min(0x11_0000);
        place += 1;
    }
    if place == start {
        return None;
    }
    if source.get(place) == Some(&b';') {
        place += 1;
    }
    Some(Reference { length: place, characters: [of_number(number), None] })
}

#[rustfmt::skip]
const WINDOWS_1252: [u16; 32] = [
    0x20ac, 0x81, 0x201a, 0x192, 0x201e, 0x2026, 0x2020, 0x2021, 0x2c6, 0x2030, 0x160, 0x2039, 0x152, 0x8d, 0x17d, 0x8f,
    0x90, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x2dc, 0x2122, 0x161, 0x203a, 0x153, 0x9d, 0x17e, 0x178,
];

fn of_number(number: u32) -> Option<char> {
    match number {
        0x80..=0x9f => char::from_u32(WINDOWS_1252[number as usize - 0x80].into()),
        0 | 0xd800..=0xdfff | 0x11_0000.. => Some('\u{fffd}'),
        0x01..=0x08 | 0x0b | 0x0e..=0x1f | 0x7f | 0xfdd0..=0xfdef => None,
        _ if number & 0xfffe == 0xfffe => None,
        _ => char::from_u32(number),
    }
}

/// A whole source with its references replaced, appended to `decoded`.
pub fn decode(source: &[u8], in_attribute: bool, decoded: &mut Vec<u8>) {
    let mut rest = source;
    while let Some(at) = memchr::memchr(b'&', rest) {
        decoded.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let length = match reference(rest, in_attribute) {
            Some(found) => {
                for character in found.characters.into_iter().flatten() {
                    decoded.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                found.length
            }
            None => {
                decoded.push(b'&');
                1
            }
        };
        rest = &rest[length..];
    }
    decoded.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(source: &str, in_attribute: bool) -> String {
        let mut bytes = Vec::new();
        decode(source.as_bytes(), in_attribute, &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn references_follow_the_rules_for_text() {
        assert_eq!(decoded("a &amp; b &ampx &notit; &nosuch; & &#; &", false), "a & b &x \u{ac}it; &nosuch; & &#; &");
        assert_eq!(
            decoded("&#65;&#x41&#0;&#xD800;&#128;&#x81;&#1;&#xFFFE;&#99999999999;", false),
            "AA\u{fffd}\u{fffd}\u{20ac}\u{81}\u{fffd}"
        );
        assert_eq!(decoded(&format!("&#{};", "9".repeat(100_000)), false), "\u{fffd}");
        assert_eq!(decoded(&format!("&#x{}41;", "0".repeat(100_000)), false), "A");
        assert_eq!(decoded("&ngE;&CounterClockwiseContourIntegral;", false), "\u{2267}\u{338}\u{2233}");
    }

    #[test]
    fn references_in_attributes_spare_query_strings() {
        assert_eq!(decoded("?a=1&copy=2&amp;b&lt;c&ltd&lt", true), "?a=1&copy=2&b<c&ltd<");
        assert_eq!(decoded("?a=1&copy=2&amp=3&lt", true), "?a=1&copy=2&amp=3<");
        assert_eq!(decoded("&ampx &amp;x &notit;", true), "&ampx &x &notit;");
    }

    #[test]
    fn every_name_is_found() {
        for (name, characters) in NAMED {
            assert_eq!(decoded(&format!("&{name}"), false), characters);
        }
    }
}
