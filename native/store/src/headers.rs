//! Header fields of a capture: each is a name and a value.
//!
//! A name: the number of a known one, with HEADER_LOWER_CASE if it is all in lower case; or 0, a varint length and the
//! name.  A value, behind a varint: the number of a known one; 0 for a date as HTTP writes it, with seconds since 1970 as
//! u32, big-endian; or the length of its text plus HEADER_TEXT.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::format::{HEADER_LOWER_CASE, HEADER_NAMES, HEADER_TEXT, HEADER_VALUES};
use crate::varint;

const DAY_SECONDS: u32 = 86_400;
const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
pub const DATE_BYTES: usize = 29;

/// The number of each known name, as it is written in the list and in lower case.
static NAMES: LazyLock<HashMap<Vec<u8>, u8>> = LazyLock::new(|| {
    let numbered = || HEADER_NAMES.iter().zip(1..);
    let lower = numbered().map(|(name, number)| (name.to_ascii_lowercase().into_bytes(), number | HEADER_LOWER_CASE));
    lower.chain(numbered().map(|(name, number)| (name.as_bytes().to_vec(), number))).collect()
});
static VALUES: LazyLock<HashMap<&[u8], u8>> =
    LazyLock::new(|| HEADER_VALUES.iter().zip(1..).map(|(value, number)| (value.as_bytes(), number)).collect());

/// A name as it stands in the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// Its place in `HEADER_NAMES`, and whether it is in lower case.
    Known(usize, bool),
    Spelled(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// Its place in `HEADER_VALUES`.
    Known(usize),
    Date([u8; DATE_BYTES]),
    Spelled(&'a [u8]),
}

/// Year, month from 0 on and day of a day since 1970.  Years begin in March here, so that a leap day is the last one.
fn civil(day: u32) -> (u32, usize, u32) {
    let since = day + 719_468; // 1 March of the year 0
    let (era, day_of_era) = (since / 146_097, since % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let is_next = month >= 10;
    let year = 400 * era + year_of_era + u32::from(is_next);
    (year, ((month + 2) % 12) as usize, day_of_year - (153 * month + 2) / 5 + 1)
}

/// A date as HTTP writes it.
fn render(seconds: u32) -> [u8; DATE_BYTES] {
    let (day, rest) = (seconds / DAY_SECONDS, seconds % DAY_SECONDS);
    let (year, month, day_of_month) = civil(day);
    let mut text = *b"Day, 00 Mon 0000 00:00:00 GMT";
    text[..3].copy_from_slice(DAYS[day as usize % 7]);
    text[8..11].copy_from_slice(MONTHS[month]);
    let two = [(5, day_of_month), (12, year / 100), (14, year % 100)];
    for (at, number) in two.into_iter().chain([(17, rest / 3600), (20, rest / 60 % 60), (23, rest % 60)]) {
        text[at] = b'0' + (number / 10) as u8;
        text[at + 1] = b'0' + (number % 10) as u8;
    }
    text
}

/// The seconds since 1970 that are rendered as this text.
fn seconds_of(text: &[u8]) -> Option<u32> {
    if text.len() != DATE_BYTES || !text.ends_with(b" GMT") {
        return None;
    }
    let digits = |at: usize, count: usize| {
        let digits = &text[at..at + count];
        let is_number = digits.iter().all(u8::is_ascii_digit);
        is_number.then(|| digits.iter().fold(0, |number, digit| 10 * number + i64::from(digit - b'0')))
    };
    let month = MONTHS.iter().position(|month| month[..] == text[8..11])? as i64;
    let (day, year) = (digits(5, 2)?, digits(12, 4)? - i64::from(month < 2));
    let day_of_year = (153 * ((month + 10) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468;
    let seconds = i64::from(DAY_SECONDS) * days + 3600 * digits(17, 2)? + 60 * digits(20, 2)? + digits(23, 2)?;
    u32::try_from(seconds).ok().filter(|&seconds| render(seconds) == text)
}

/// Add a field.
pub fn push(encoded: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    match NAMES.get(name) {
        Some(number) => encoded.push(*number),
        None => {
            encoded.push(0);
            varint::push(encoded, name.len() as u64);
            encoded.extend_from_slice(name);
        }
    }
    if let Some(number) = VALUES.get(value) {
        encoded.push(*number);
    } else if let Some(seconds) = seconds_of(value) {
        encoded.push(0);
        encoded.extend_from_slice(&seconds.to_be_bytes());
    } else {
        varint::push(encoded, HEADER_TEXT + value.len() as u64);
        encoded.extend_from_slice(value);
    }
}

/// The field at a place, which is moved behind it; None if it is damaged.
pub fn read<'a>(source: &'a [u8], at: &mut usize) -> Option<(Name<'a>, Text<'a>)> {
    let first = *source.get(*at)?;
    *at += 1;
    let name = match first {
        0 => {
            let bytes = usize::try_from(varint::read(source, at)?).ok()?;
            Name::Spelled(varint::take(source, at, bytes)?)
        }
        number => {
            let place =
                usize::from(number & !HEADER_LOWER_CASE).checked_sub(1).filter(|at| *at < HEADER_NAMES.len())?;
            Name::Known(place, number & HEADER_LOWER_CASE != 0)
        }
    };
    let value = match varint::read(source, at)? {
        0 => Text::Date(render(varint::big_endian(source, at, 4)? as u32)),
        number if number < HEADER_TEXT => {
            Text::Known((number as usize - 1 < HEADER_VALUES.len()).then_some(number as usize - 1)?)
        }
        length => Text::Spelled(varint::take(source, at, usize::try_from(length - HEADER_TEXT).ok()?)?),
    };
    Some((name, value))
}

/// Most characters of an ETag or a date that a rejected page keeps; servers write 10 to 70.
const LONGEST_VALIDATOR: usize = 200;

/// Of header fields those with which a page is asked for again; None if they are damaged.
pub fn validators(source: &[u8]) -> Option<Vec<u8>> {
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < source.len() {
        let (name, value) = read(source, &mut at)?;
        let name = match name {
            Name::Known(place, true) => HEADER_NAMES[place].to_ascii_lowercase().into_bytes(),
            Name::Known(place, false) => HEADER_NAMES[place].as_bytes().to_vec(),
            Name::Spelled(name) => name.to_vec(),
        };
        let value = match &value {
            Text::Known(place) => HEADER_VALUES[*place].as_bytes(),
            Text::Date(date) => date,
            Text::Spelled(value) => value,
        };
        let characters = value.utf8_chunks().map(|part| part.valid().chars().count() + part.invalid().len());
        let is_validator = [&b"etag"[..], b"last-modified"].contains(&&*name.to_ascii_lowercase());
        if is_validator && characters.sum::<usize>() <= LONGEST_VALIDATOR {
            push(&mut kept, &name, value);
        }
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(name: &[u8], value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        push(&mut bytes, name, value);
        bytes
    }

    #[test]
    fn lists_of_words_fit_their_numbers() {
        assert!(HEADER_NAMES.len() < usize::from(HEADER_LOWER_CASE));
        assert!(HEADER_VALUES.len() < HEADER_TEXT as usize);
        assert_eq!(NAMES.len(), 2 * HEADER_NAMES.len(), "a name of the list is in lower case, or twice there");
    }

    #[test]
    fn known_words_are_numbers_and_others_are_spelled() {
        assert_eq!(encoded(b"Age", b"0"), [1, 1]);
        assert_eq!(encoded(b"age", b"*"), [0x81, 2]);
        assert_eq!(encoded(b"AGE", b"1"), b"\0\x03AGE\x411");
        let bytes = encoded(b"x-\xff", b"\xff");
        assert_eq!(read(&bytes, &mut 0), Some((Name::Spelled(b"x-\xff"), Text::Spelled(b"\xff"))));
        assert_eq!(read(&[0x81, 2], &mut 0), Some((Name::Known(0, true), Text::Known(1))));
    }

    #[test]
    fn dates_are_seconds_where_they_come_back_as_they_were() {
        for (text, seconds) in [
            (b"Thu, 01 Jan 1970 00:00:00 GMT", 0_u32),
            (b"Tue, 29 Feb 2000 23:59:59 GMT", 951_868_799),
            (b"Tue, 14 Nov 2023 22:13:20 GMT", 1_700_000_000),
            (b"Sun, 07 Feb 2106 06:28:15 GMT", u32::MAX),
        ] {
            assert_eq!(render(seconds), *text);
            assert_eq!(encoded(b"Date", text), [&[5, 0][..], &seconds.to_be_bytes()].concat());
        }
        for odd in [
            &b"Mon, 01 Jan 1970 00:00:00 GMT"[..],
            b"Sun, 07 Feb 2106 06:28:16 GMT",
            b"Wed, 31 Dec 1969 23:59:59 GMT",
            b"Thu, 01 Jan 1970 00:00:60 GMT",
            b"Thu, 01 jan 1970 00:00:00 GMT",
            b"Thu, 1 Jan 1970 00:00:00 GMT",
            b"Tue, 30 Feb 2000 00:00:00 GMT",
            b"Thu, 01 Jan 1970 00:00:00 UTC",
        ] {
            assert_eq!(read(&encoded(b"Date", odd), &mut 0), Some((Name::Known(4, false), Text::Spelled(odd))));
        }
    }

    #[test]
    fn what_is_cut_or_has_no_word_is_damaged() {
        let bytes = [encoded(b"x-odd", b"text"), encoded(b"Date", b"Thu, 01 Jan 1970 00:00:00 GMT")].concat();
        let mut at = 0;
        let mut ends = vec![0];
        while at < bytes.len() {
            assert!(read(&bytes, &mut at).is_some());
            ends.push(at);
        }
        for cut in 0..bytes.len() {
            let (source, mut at) = (&bytes[..cut], 0);
            while at < cut && read(source, &mut at).is_some() {}
            assert_eq!(at == cut && ends.contains(&at), ends.contains(&cut), "{cut}");
        }
        for damaged in [&[127, 1][..], &[0x80, 1], &[1, 63], &[1]] {
            assert_eq!(read(damaged, &mut 0), None, "{damaged:?}");
        }
    }
    #[test]
    fn validators_are_short_etags_and_dates() {
        let long = [b'x'; 201];
        let fields: [(&[u8], &[u8]); 6] = [
            (b"ETag", b"\"1\""),
            (b"Age", b"0"),
            (b"last-modified", b"Tue, 14 Nov 2023 22:13:20 GMT"),
            (b"EtAg", &long),
            (b"eTag", "\u{e9}".as_bytes()),
            (b"etag", &long[1..]),
        ];
        let all =
            |places: &[usize]| places.iter().flat_map(|&at| encoded(fields[at].0, fields[at].1)).collect::<Vec<_>>();
        assert_eq!(validators(&all(&[0, 1, 2, 3, 4, 5])), Some(all(&[0, 2, 4, 5])));
        assert_eq!(validators(&all(&[1, 3])), Some(Vec::new()));
        assert_eq!(validators(&all(&[0])[..2]), None);
    }
}
