//! Records of captures: their bytes, and what a visit shows of the capture that it confirms.
//!
//! A record is its kind, then fields: number, varint length, content, in ascending order of numbers, each at most once.
//! A field below CAPTURE_ARRIVED is a column, its content a cell value.

use crate::format::{
    CAPTURE_ARRIVED, CAPTURE_CONFIRMS, CAPTURE_FIELDS, CAPTURE_NOT_MODIFIED, CAPTURE_REJECTED, CAPTURE_SHA1,
};
use crate::varint;

/// Numbers of columns; a test compares them with `CAPTURE_FIELDS`.
pub const BODY: usize = 1;
pub const STATUS: usize = 2;
pub const HEADERS: usize = 3;
pub const TYPE: usize = 4;
pub const CHARSET: usize = 5;
pub const IP: usize = 6;
pub const PAYLOAD_DIGEST: usize = 7;
pub const DOCNO: usize = 8;
pub const VISIT: usize = 9;
pub const FETCHED_URL: usize = 10;
pub const TITLE: usize = 11;
pub const MAIN: usize = 12;
pub const DESCRIPTION: usize = 13;
pub const KEYWORDS: usize = 14;
pub const HEADINGS: usize = 15;
pub const LANG: usize = 16;
pub const CANONICAL: usize = 17;
pub const PUBLISHED: usize = 18;
pub const ENTRIES: usize = 19;
pub const CHECKSUM: usize = 20;
pub const TEXT_CHECKSUM: usize = 21;
pub const SIMHASH: usize = 22;
pub const SKETCH: usize = 23;
pub const VERDICT: usize = 24;
pub const CRAWL: usize = 25;
/// Numbers are below this one.
pub const FIELDS: usize = CAPTURE_FIELDS.len() + 1;

pub const SHA1_BYTES: usize = 20;
/// Of the column's cell value, before 32 letters of base32.
const SHA1_HEAD: &[u8] = b"\0sha1:";
const SHA1_LETTERS: usize = 32;
pub const SHA1_TEXT_BYTES: usize = SHA1_HEAD.len() + SHA1_LETTERS;
const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The number of a column; None for one that no record has.
pub fn number_of(family: &str, qualifier: &[u8]) -> Option<u8> {
    let is_column = |(_, column): &&(u8, (&str, &[u8]))| column.1 == qualifier && column.0 == family;
    CAPTURE_FIELDS.iter().find(is_column).map(|(number, _)| *number)
}

/// The cell value of a payload digest.
pub fn sha1_text(digest: &[u8; SHA1_BYTES]) -> [u8; SHA1_TEXT_BYTES] {
    let mut text = [0; SHA1_TEXT_BYTES];
    text[..SHA1_HEAD.len()].copy_from_slice(SHA1_HEAD);
    for (part, letters) in digest.chunks(5).zip(text[SHA1_HEAD.len()..].chunks_mut(8)) {
        let bits = part.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        for (place, letter) in letters.iter_mut().enumerate() {
            *letter = LETTERS[(bits >> (35 - 5 * place)) as usize & 31];
        }
    }
    text
}

/// The digest of such a cell value; None for any other.
fn sha1_of(value: &[u8]) -> Option<[u8; SHA1_BYTES]> {
    let text = value.strip_prefix(SHA1_HEAD).filter(|text| text.len() == SHA1_LETTERS)?;
    let mut digest = [0; SHA1_BYTES];
    for (letters, part) in text.chunks(8).zip(digest.chunks_mut(5)) {
        let mut bits = 0u64;
        for letter in letters {
            let five = match letter {
                b'A'..=b'Z' => letter - b'A',
                b'2'..=b'7' => letter - b'2' + 26,
                _ => return None,
            };
            bits = bits << 5 | u64::from(five);
        }
        part.copy_from_slice(&bits.to_be_bytes()[3..]);
    }
    Some(digest)
}

/// Cell values of columns by their numbers, in one piece of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    bytes: Vec<u8>,
    /// The number of each, and where its cell value ends.
    ends: Vec<(u8, usize)>,
}

impl Columns {
    /// With room for those of a page.
    pub fn with_room() -> Self {
        Self { bytes: Vec::with_capacity(1024), ends: Vec::with_capacity(FIELDS) }
    }

    /// Add a column that is not there, with a cell value of several parts.
    pub fn push(&mut self, number: usize, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.ends.push((number as u8, self.bytes.len()));
    }

    /// Numbers and cell values.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        self.ends.iter().zip(starts).map(|((number, end), start)| (*number, &self.bytes[start..*end]))
    }

    /// The cell value of a column; empty if it is not there.
    pub fn get(&self, number: usize) -> &[u8] {
        self.iter().find(|(other, _)| usize::from(*other) == number).map_or(&[], |(_, cell_value)| cell_value)
    }

    pub fn has(&self, number: usize) -> bool {
        self.ends.iter().any(|(other, _)| usize::from(*other) == number)
    }
}

/// A field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    /// Number and cell value.
    Column(u8, &'a [u8]),
    /// The payload digest, in place of its column.
    Sha1(&'a [u8; SHA1_BYTES]),
    Arrived(u64),
    Confirms(u64),
}

/// The kind of a record; None if it is unknown.
pub fn kind_of(source: &[u8]) -> Option<u8> {
    source.first().copied().filter(|kind| *kind <= CAPTURE_REJECTED)
}

/// The fields of a record; one that is None is damaged or unknown, and the last.
pub fn fields(source: &[u8]) -> impl Iterator<Item = Option<Field<'_>>> {
    let mut at = 1;
    std::iter::from_fn(move || {
        let number = *source.get(at)?;
        at += 1;
        let found = field(number, source, &mut at);
        at = if found.is_none() { source.len() } else { at };
        Some(found)
    })
}

fn field<'a>(number: u8, source: &'a [u8], at: &mut usize) -> Option<Field<'a>> {
    let bytes = usize::try_from(varint::read(source, at)?).ok()?;
    let content = varint::take(source, at, bytes)?;
    Some(match number {
        CAPTURE_ARRIVED => Field::Arrived(varint::read(content, &mut 0)?),
        CAPTURE_CONFIRMS => Field::Confirms(varint::read(content, &mut 0)?),
        CAPTURE_SHA1 => Field::Sha1(content.try_into().ok()?),
        _ => Field::Column(number, Some(content).filter(|_| (1..FIELDS).contains(&usize::from(number)))?),
    })
}

/// The value of a record's cell, of its columns in any order.
pub fn encode<'a>(kind: u8, columns: &mut Vec<(u8, &'a [u8])>, arrived: u64, confirms: u64) -> Vec<u8> {
    let mut sha1 = None;
    columns.retain(|(number, value)| {
        let digest = if usize::from(*number) == PAYLOAD_DIGEST { sha1_of(value) } else { None };
        sha1 = sha1.or(digest);
        digest.is_none()
    });
    columns.sort_unstable_by_key(|(number, _)| *number);
    let mut record = Vec::with_capacity(64 + columns.iter().map(|(_, value)| value.len() + 4).sum::<usize>());
    record.push(kind);
    let mut add = |number: u8, content: &[u8]| {
        record.push(number);
        varint::push(&mut record, content.len() as u64);
        record.extend_from_slice(content);
    };
    for (number, value) in columns {
        add(*number, value);
    }
    for (number, time) in [(CAPTURE_ARRIVED, arrived), (CAPTURE_CONFIRMS, confirms)] {
        if time != 0 {
            let mut content = Vec::with_capacity(varint::LONGEST);
            varint::push(&mut content, time);
            add(number, &content);
        }
    }
    if let Some(digest) = sha1 {
        add(CAPTURE_SHA1, &digest);
    }
    record
}

/// A record with other values in some of its columns, by their numbers; None if it is damaged.
pub fn with_values(source: &[u8], values: &[(u8, &[u8])]) -> Option<Vec<u8>> {
    let longer: usize = values.iter().map(|(_, value)| value.len()).sum();
    let mut record = Vec::with_capacity(source.len() + longer);
    record.push(kind_of(source)?);
    let mut start = 1;
    while start < source.len() {
        let mut end = start + 1;
        let found = field(source[start], source, &mut end)?;
        let other = values.iter().find(|(number, _)| matches!(found, Field::Column(of, _) if of == *number));
        match other {
            None => record.extend_from_slice(&source[start..end]),
            Some((number, value)) => {
                record.push(*number);
                varint::push(&mut record, value.len() as u64);
                record.extend_from_slice(value);
            }
        }
        start = end;
    }
    Some(record)
}

/// Whether a visit of a kind shows a column of the capture that it confirms, if it has none itself.
///
/// A visit without a body (304) shows all but the crawl, which is of each fetch; one with the same bytes shows the body
/// and what depends on the body alone.
pub fn shows_of_source(kind: u8, column: usize) -> bool {
    match kind {
        CAPTURE_NOT_MODIFIED => column != CRAWL,
        _ => matches!(column, BODY | TITLE..=ENTRIES | TEXT_CHECKSUM..=SKETCH),
    }
}

/// A record taken apart: columns by number, an absent one empty; the payload digest only if it is spelled.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub timestamp: i64,
    pub kind: u8,
    pub columns: [&'a [u8]; FIELDS],
    /// The time of the capture that it confirmed when it was written; 0 for none.
    pub confirms: i64,
}

impl<'a> Record<'a> {
    /// None for a record that is damaged or has a field that is not known here.
    pub fn parse(timestamp: i64, source: &'a [u8]) -> Option<Self> {
        let mut found = Self { timestamp, kind: kind_of(source)?, columns: [&[]; FIELDS], confirms: 0 };
        for field in fields(source) {
            match field? {
                Field::Column(number, value) => {
                    *found.columns.get_mut(usize::from(number)).filter(|_| !value.is_empty())? = value;
                }
                Field::Confirms(time) => found.confirms = i64::try_from(time).ok()?,
                Field::Arrived(_) | Field::Sha1(_) => {}
            }
        }
        Some(found)
    }

    /// What tells its body from others; empty for a visit that confirmed nothing.
    pub fn body_identity(&self) -> &'a [u8] {
        self.columns[CHECKSUM]
    }

    /// Show what a visit shows of the capture that it confirms.
    pub fn confirm(&mut self, source: &Self) {
        for (column, value) in self.columns.iter_mut().enumerate() {
            if value.is_empty() && shows_of_source(self.kind, column) {
                *value = source.columns[column];
            }
        }
    }
}

/// Whether white space alone is in a body.
pub fn is_blank(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    body.iter().all(|byte| matches!(byte, b' ' | b'\t'..=b'\r'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{CAPTURE_CONFIRMED, CAPTURE_STORED};

    const DIGEST: &[u8] = b"\0sha1:ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

    #[test]
    fn numbers_of_columns_are_those_of_the_list() {
        for (number, family, qualifier) in [
            (BODY, "page", &b"body"[..]),
            (STATUS, "http", b"status"),
            (HEADERS, "http", b"headers"),
            (PAYLOAD_DIGEST, "http", b"payload_digest"),
            (VISIT, "http", b"visit"),
            (TITLE, "text", b"title"),
            (MAIN, "text", b"main"),
            (CANONICAL, "text", b"canonical"),
            (ENTRIES, "text", b"entries"),
            (CHECKSUM, "dedup", b"checksum"),
            (SKETCH, "dedup", b"sketch"),
            (TEXT_CHECKSUM, "dedup", b"text_checksum"),
            (VERDICT, "dedup", b"verdict"),
            (CRAWL, "http", b"crawl"),
        ] {
            assert_eq!(number_of(family, qualifier), Some(number as u8), "{family}:{qualifier:?}");
        }
        assert!(CAPTURE_FIELDS.iter().zip(1..).all(|((number, _), place)| *number == place));
        assert_eq!(number_of("page", b"title"), None);
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut columns = vec![(24, &b"\0verdict"[..]), (7, DIGEST), (1, b"\x01ref"), (2, b"\x00200")];
        let record = encode(CAPTURE_CONFIRMED, &mut columns, 5, 1 << 40);
        assert_eq!(kind_of(&record), Some(CAPTURE_CONFIRMED));
        let found: Vec<_> = fields(&record).map(|field| field.expect("sound")).collect();
        let Field::Sha1(digest) = found[5] else { panic!("no digest: {found:?}") };
        assert_eq!(sha1_text(digest), DIGEST);
        assert_eq!(
            found[..5],
            [
                Field::Column(1, b"\x01ref"),
                Field::Column(2, b"\x00200"),
                Field::Column(24, b"\0verdict"),
                Field::Arrived(5),
                Field::Confirms(1 << 40),
            ]
        );
        let parsed = Record::parse(9, &record).expect("sound");
        assert_eq!((parsed.timestamp, parsed.confirms, parsed.columns[STATUS]), (9, 1 << 40, &b"\x00200"[..]));
    }

    #[test]
    fn a_digest_of_another_shape_is_spelled() {
        for odd in [&b"\0sha1:abc"[..], b"\0sha1:ABCDEFGHIJKLMNOPQRSTUVWXYZ234561", b"\x01sha1", b"\0md5:x"] {
            let record = encode(CAPTURE_STORED, &mut vec![(7, odd)], 0, 0);
            assert_eq!(fields(&record).collect::<Vec<_>>(), [Some(Field::Column(7, odd))]);
        }
    }

    #[test]
    fn a_record_that_is_cut_or_has_an_unknown_field_is_damaged() {
        let record = encode(CAPTURE_STORED, &mut vec![(1, b"\0abc")], 300, 0);
        let ends = [1, 7, record.len()];
        for cut in 1..=record.len() {
            let is_whole = fields(&record[..cut]).all(|field| field.is_some());
            assert_eq!(is_whole, ends.contains(&cut), "{cut}");
        }
        for odd in [&[0, 26, 0][..], &[0, 0, 1, 1], &[0, 66, 1, 1], &[0, 67, 1, 1], &[0, 64, 1, 0x80]] {
            assert_eq!(fields(odd).collect::<Vec<_>>(), [None], "{odd:?}");
        }
        assert_eq!((kind_of(&[4]), kind_of(&[])), (None, None));
    }

    #[test]
    fn a_visit_shows_the_page_that_it_confirms_and_keeps_its_own_columns() {
        let stored = |columns: &mut Vec<(u8, &'static [u8])>| encode(CAPTURE_STORED, columns, 0, 0);
        let source = stored(&mut vec![(1, b"\0body"), (2, b"\x00200"), (11, b"\0title"), (24, b"\0v"), (25, b"\0c1")]);
        let source = Record::parse(1, &source).expect("sound");
        for (kind, verdict, status) in
            [(CAPTURE_NOT_MODIFIED, &b"\0v"[..], &b"\x00304"[..]), (CAPTURE_CONFIRMED, b"", b"\x00304")]
        {
            let visit = encode(kind, &mut vec![(2, b"\x00304")], 0, 1);
            let mut visit = Record::parse(2, &visit).expect("sound");
            visit.confirm(&source);
            assert_eq!((visit.columns[BODY], visit.columns[TITLE]), (&b"\0body"[..], &b"\0title"[..]));
            assert_eq!((visit.columns[STATUS], visit.columns[VERDICT]), (status, verdict));
            assert_eq!(visit.columns[CRAWL], b"", "the crawl is of each fetch");
        }
    }

    #[test]
    fn a_record_gets_other_values_and_keeps_its_other_fields() {
        let [body, text, long] = [&b"\x01body"[..], b"\x01text", &[1; 200]];
        let columns = |body, text| vec![(1, body), (7, DIGEST), (12, text), (25, b"\0c1")];
        let record = encode(CAPTURE_CONFIRMED, &mut columns(body, text), 5, 1 << 40);
        for (values, expected) in [
            (&[][..], columns(body, text)),
            (&[(12, &b"\x01new"[..])], columns(body, b"\x01new")),
            (&[(12, long), (1, b"\x02\x04"), (2, b"not there")], columns(b"\x02\x04", long)),
        ] {
            let mut expected = expected;
            assert_eq!(with_values(&record, values), Some(encode(CAPTURE_CONFIRMED, &mut expected, 5, 1 << 40)));
        }
        assert_eq!(with_values(&record[..record.len() - 1], &[(1, text)]), None);
        assert_eq!(with_values(b"", &[]), None);
    }

    #[test]
    fn white_space_and_a_mark_of_utf_8_are_blank() {
        for blank in [&b""[..], b" \n\t\x0b\x0c\r", b"\xef\xbb\xbf", b"\xef\xbb\xbf \n"] {
            assert!(is_blank(blank), "{blank:?}");
        }
        for text in [&b"a"[..], b"\0", b"\xef\xbb", b" \xef\xbb\xbf", b"\xc2\xa0", b"\x1c"] {
            assert!(!is_blank(text), "{text:?}");
        }
    }
}
