//! The values of cells: the value itself, a record in a segment, or the length of a value that was not kept.

use crate::format::{INLINE_LIMIT_BYTES, VALUE_ABSENT, VALUE_INLINE, VALUE_REF};
use crate::varint;

/// Segment, offset and length of a record.
pub type Place = (u64, u64, u64);

/// What a cell holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Inline(&'a [u8]),
    /// Raw length, and where a backend has the value; only that backend takes this apart.
    Ref(u64, &'a [u8]),
    /// Not kept; its raw length.
    Absent(u64),
}

/// Take a cell's value apart; None if it is damaged.
pub fn parse(cell_value: &[u8]) -> Option<Value<'_>> {
    let (tag, rest) = cell_value.split_first()?;
    match *tag {
        VALUE_INLINE => Some(Value::Inline(rest)),
        VALUE_REF => {
            let mut at = 0;
            let raw_bytes = varint::read(rest, &mut at)?;
            (at < rest.len()).then_some(Value::Ref(raw_bytes, &rest[at..]))
        }
        VALUE_ABSENT => {
            let mut at = 0;
            let raw_bytes = varint::read(rest, &mut at)?;
            (at == rest.len()).then_some(Value::Absent(raw_bytes))
        }
        _ => None,
    }
}

/// A value that stands in its cell, empty if there is no cell; None for any other.
pub fn inline(cell_value: &[u8]) -> Option<&[u8]> {
    match cell_value.first() {
        None => Some(cell_value),
        Some(&VALUE_INLINE) => Some(&cell_value[1..]),
        _ => None,
    }
}

/// Whether a value goes to a segment, because it is too long for its cell.
pub fn is_long(raw_bytes: usize) -> bool {
    raw_bytes > INLINE_LIMIT_BYTES
}

/// The parts of a ref of a segment; None if it is damaged.
pub fn place_of(reference: &[u8]) -> Option<Place> {
    let mut at = 0;
    let mut next = || varint::read(reference, &mut at);
    let place = (next()?, next()?, next()?);
    (at == reference.len()).then_some(place)
}

/// Raw length of a value that is a record of a segment, and where that is; None for other values.
pub fn ref_of(cell_value: &[u8]) -> Option<(u64, Place)> {
    match parse(cell_value)? {
        Value::Ref(raw_bytes, reference) => Some((raw_bytes, place_of(reference)?)),
        _ => None,
    }
}

/// Add a ref of a segment.
pub fn push_ref(bytes: &mut Vec<u8>, (segment, offset, length): Place) {
    for number in [segment, offset, length] {
        varint::push(bytes, number);
    }
}

/// The cell value of a value that is a record.
pub fn encode_ref(raw_bytes: u64, reference: &[u8]) -> Vec<u8> {
    let mut value = vec![VALUE_REF];
    varint::push(&mut value, raw_bytes);
    value.extend_from_slice(reference);
    value
}

/// The cell value of a value that is not kept.
pub fn encode_absent(raw_bytes: u64) -> Vec<u8> {
    let mut value = vec![VALUE_ABSENT];
    varint::push(&mut value, raw_bytes);
    value
}

/// The cell value of what a visit or a hidden body shows: that it is not there, and its length; None if it is damaged.
pub fn without_value(cell_value: &[u8]) -> Option<Vec<u8>> {
    Some(match parse(cell_value)? {
        Value::Absent(_) => cell_value.to_vec(),
        Value::Inline(raw) => encode_absent(raw.len() as u64),
        Value::Ref(raw_bytes, _) => encode_absent(raw_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_value_is_told_by_its_tag() {
        let mut reference = Vec::new();
        push_ref(&mut reference, (3, 200_000_000, 4500));
        let stored = encode_ref(25_000, &reference);
        assert_eq!(parse(&stored), Some(Value::Ref(25_000, &reference)));
        assert_eq!(ref_of(&stored), Some((25_000, (3, 200_000_000, 4500))));
        assert_eq!(parse(b"\0text"), Some(Value::Inline(b"text")));
        assert_eq!(parse(&encode_absent(300)), Some(Value::Absent(300)));
        assert_eq!((inline(b""), inline(b"\0"), inline(&stored)), (Some(&b""[..]), Some(&b""[..]), None));
    }

    #[test]
    fn damaged_values_are_none() {
        for damaged in [&b""[..], b"\x01", b"\x01\x05", b"\x01\x80", b"\x02", b"\x02\x80", b"\x02\x01\x01", b"\x03a"] {
            assert_eq!(parse(damaged), None, "{damaged:?}");
        }
        assert_eq!(parse(b"\x01\x05row"), Some(Value::Ref(5, b"row")), "a ref of another backend");
        for odd in [&b"\x01\x05\x01\x02"[..], b"\x01\x05\x01\x02\x03\x04", b"\0abc"] {
            assert_eq!(ref_of(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn a_value_that_is_not_shown_keeps_its_length() {
        assert_eq!(without_value(b"\0four"), Some(encode_absent(4)));
        assert_eq!(without_value(&encode_ref(9, b"x")), Some(encode_absent(9)));
        assert_eq!(without_value(&encode_absent(7)), Some(encode_absent(7)));
        assert_eq!(without_value(b"\x07"), None);
    }

    #[test]
    fn values_above_the_limit_are_long() {
        assert!(!is_long(INLINE_LIMIT_BYTES) && is_long(INLINE_LIMIT_BYTES + 1));
    }
}
