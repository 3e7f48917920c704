//! Numbers in bytes: varints in groups of 7 bits, lowest first, the top bit set in all bytes but the last; and numbers of
//! a fixed length.  A reader gives None for bytes that end inside a number.

/// Bytes of 64 bits, seven in each.
pub const LONGEST: usize = 10;

/// Add a number.
pub fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The number at a place, which is moved behind it; None also for a number of more than 63 bits, which nothing here has.
pub fn read(source: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..63).step_by(7) {
        let byte = *source.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// The number at an offset, of up to ten bytes, and the offset behind it.
pub fn decode(source: &[u8], offset: usize) -> Option<(u64, usize)> {
    let mut number = 0;
    for (place, &byte) in source.iter().enumerate().skip(offset).take(LONGEST) {
        number |= u64::from(byte & 0x7f) << (7 * (place - offset));
        if byte < 0x80 {
            return Some((number, place + 1));
        }
    }
    None
}

/// So many bytes at a place, which is moved behind them.
pub fn take<'a>(source: &'a [u8], at: &mut usize, bytes: usize) -> Option<&'a [u8]> {
    let found = source.get(*at..at.checked_add(bytes)?)?;
    *at += bytes;
    Some(found)
}

/// A number of at most eight bytes, highest first.
pub fn big_endian(source: &[u8], at: &mut usize, bytes: usize) -> Option<u64> {
    Some(take(source, at, bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// A number of bytes, lowest first.
pub fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_any_length_is_read_as_it_was_written() {
        for bits in 0..=64 {
            let number = if bits == 0 { 0 } else { u64::MAX >> (64 - bits) };
            let mut bytes = vec![7];
            push(&mut bytes, number);
            assert_eq!(decode(&bytes, 1), Some((number, bytes.len())));
            assert!(bytes.len() <= 1 + LONGEST);
            let mut at = 1;
            let expected = (bits < 64).then_some(number);
            assert_eq!(read(&bytes, &mut at), expected);
            bytes.pop();
            assert_eq!((read(&bytes, &mut 1), decode(&bytes, 1)), (None, None));
        }
    }

    #[test]
    fn a_number_of_more_than_ten_bytes_is_none() {
        assert_eq!(decode(&[0xff; 11], 0), None);
        assert_eq!(decode(&[], 3), None);
    }

    #[test]
    fn bytes_that_are_not_there_are_not_taken() {
        let mut at = 1;
        assert_eq!(take(b"abc", &mut at, 3), None);
        assert_eq!(take(b"abc", &mut at, usize::MAX), None);
        assert_eq!((take(b"abc", &mut at, 2), at), (Some(&b"bc"[..]), 3));
        assert_eq!(big_endian(b"\x01\x02", &mut 0, 2), Some(258));
        assert_eq!(little_endian(b"\x01\x02"), 513);
    }
}
