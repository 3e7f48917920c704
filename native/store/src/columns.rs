//! What the record of a page says beside its body, its text and its verdict: columns of the response, and of the analysis.
//! Also by which content type a body is analysed.
//!
//! A function gives raw values by the numbers of their columns to `put`, in the order in which long ones are stored.  A
//! value that is empty has no column, but for the checksum of the text, so that none is read as that of a later body.

use docstore_kernel::page::is_space;

use crate::analysed::Analysed;
use crate::capture::{
    Columns, CANONICAL, CHARSET, CHECKSUM, DESCRIPTION, DOCNO, ENTRIES, FETCHED_URL, HEADERS, HEADINGS, IP, KEYWORDS,
    LANG, PAYLOAD_DIGEST, PUBLISHED, SIMHASH, SKETCH, STATUS, TEXT_CHECKSUM, TITLE, TYPE,
};
use crate::format::{ROW_KEY_LABEL_SEPARATOR, SCHEME_SIMHASH64_1, VALUE_INLINE};
use crate::keys::host_of;
use crate::pages::Bytes;
use crate::values::is_long;
use crate::varint;

/// Columns of a record that is made.
#[derive(Clone, Default)]
pub struct RecordColumns {
    /// Cell values.
    pub short: Columns,
    /// Raw values that are too long for their cell.
    pub long: Vec<(u8, Bytes)>,
}

impl RecordColumns {
    /// The columns of a response and of the analysis of its body.
    pub fn of(response: &Response<'_>, page: &Analysed) -> Self {
        let mut columns = Self { short: Columns::with_room(), long: Vec::new() };
        of_response(response, page, |number, raw| columns.put(number, raw));
        columns
    }

    /// Add a value: in its cell, if it is not too long.
    pub(crate) fn put(&mut self, number: usize, raw: &[u8]) {
        if is_long(raw.len()) {
            self.long.push((number as u8, Bytes::new(raw.to_vec())));
        } else {
            self.short.push(number, &[&[VALUE_INLINE], raw]);
        }
    }

    /// Add the columns in bytes.
    pub fn pack(&self, packed: &mut Vec<u8>) {
        let long = self.long.iter().map(|(number, raw)| (*number, raw.as_ref()));
        for (number, value) in self.short.iter().chain([(0, &[][..])]).chain(long) {
            packed.push(number);
            varint::push(packed, value.len() as u64);
            packed.extend_from_slice(value);
        }
    }

    /// The columns of `pack`, which fill all of the bytes; None for other bytes.
    pub fn unpack(packed: &[u8]) -> Option<Self> {
        let (mut columns, mut at, mut is_short) = (Self::default(), 0, true);
        while at < packed.len() {
            let number = varint::take(packed, &mut at, 1)?[0];
            let bytes = usize::try_from(varint::read(packed, &mut at)?).ok()?;
            let value = varint::take(packed, &mut at, bytes)?;
            match number {
                0 => is_short = false,
                _ if is_short => columns.short.push(number.into(), &[value]),
                _ => columns.long.push((number, Bytes::new(value.to_vec()))),
            }
        }
        (!is_short).then_some(columns)
    }
}

/// What a server and a crawler say of a page.
#[derive(Clone, Copy, Debug, Default)]
pub struct Response<'a> {
    pub status: i64,
    /// As they are stored.
    pub headers: &'a [u8],
    /// Of `content_type`.
    pub content_type: &'a [u8],
    pub ip: &'a [u8],
    pub payload_digest: &'a [u8],
    pub docno: &'a [u8],
    /// The fetched URL; empty if it is that of the row.
    pub url: &'a [u8],
}

/// The columns of a response and of the analysis of its body.
fn of_response(response: &Response<'_>, page: &Analysed, mut put: impl FnMut(usize, &[u8])) {
    let media_type = lower(trimmed(divided(response.content_type, b';').0));
    for (number, raw) in [
        (STATUS, response.status.to_string().as_bytes()),
        (HEADERS, response.headers),
        (TYPE, &media_type),
        (CHARSET, page.charset.as_bytes()),
        (IP, response.ip),
        (PAYLOAD_DIGEST, response.payload_digest),
        (DOCNO, response.docno),
        (FETCHED_URL, response.url),
    ] {
        if !raw.is_empty() {
            put(number, raw);
        }
    }
    of_page(page, put);
}

/// The columns of an analysis.
pub fn of_page(page: &Analysed, mut put: impl FnMut(usize, &[u8])) {
    let (mut simhash, mut sketch) = (Vec::new(), Vec::new());
    if let Some(marks) = &page.marks {
        simhash.push(SCHEME_SIMHASH64_1);
        simhash.extend_from_slice(&marks.fingerprints.simhash.to_be_bytes());
        sketch.extend_from_slice(&marks.sketch);
        varint::push(&mut sketch, marks.shingle_count());
    }
    for (number, raw) in [
        (TITLE, &*page.title),
        (DESCRIPTION, &page.description),
        (KEYWORDS, &page.keywords),
        (LANG, &page.lang),
        (CANONICAL, &page.canonical),
        (PUBLISHED, &page.published),
        (HEADINGS, &page.headings),
        (ENTRIES, &page.entries),
        (CHECKSUM, &page.checksum),
        (TEXT_CHECKSUM, page.text_checksum()),
        (SIMHASH, &simhash),
        (SKETCH, &sketch),
    ] {
        if !raw.is_empty() || number == TEXT_CHECKSUM {
            put(number, raw);
        }
    }
}

/// Name under which the type that a crawler identified stands among the headers, if it adds to them.
pub const IDENTIFIED_HEADER: &[u8] = b"WARC-Identified-Payload-Type";

/// The content type by which a body is analysed, whenever that is done.
///
/// The media type is that of the first Content-Type, or else the one that a crawler identified.  If it has no charset,
/// that of a later one is added.  The top-level domain of the URL is the first parameter, `tld`: it helps to guess.
pub fn content_type<'a>(headers: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone, row_key: &[u8]) -> Vec<u8> {
    let named = |wanted: &'static [u8]| {
        headers.clone().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
    };
    let mut types = named(b"Content-Type").chain(named(IDENTIFIED_HEADER));
    let (media_type, mut parameters) = divided(types.next().unwrap_or_default(), b';');
    let has_charset = |parameters: &[u8]| parameters.windows(7).any(|part| part.eq_ignore_ascii_case(b"charset"));
    if !has_charset(parameters) {
        let mut later = types.map(|value| divided(value, b';').1);
        parameters = later.find(|later| has_charset(later)).unwrap_or(parameters);
    }
    let domain = divided(host_of(row_key), ROW_KEY_LABEL_SEPARATOR).0;
    let behind: &[u8] = if parameters.is_empty() { b"" } else { b"; " };
    [trimmed(divided(media_type, b',').0), b"; tld=", domain, behind, parameters].concat()
}

/// What stands before and behind the first of these bytes; nothing is behind if there is none.
fn divided(value: &[u8], by: u8) -> (&[u8], &[u8]) {
    let at = value.iter().position(|byte| *byte == by);
    at.map_or((value, &[]), |at| (&value[..at], &value[at + 1..]))
}

/// Without white space around it, so far as it is UTF-8.
fn trimmed(value: &[u8]) -> &[u8] {
    std::str::from_utf8(value).map_or(value.trim_ascii(), |text| text.trim_matches(is_space).as_bytes())
}

/// In lower case, so far as it is UTF-8.
fn lower(value: &[u8]) -> Vec<u8> {
    value
        .utf8_chunks()
        .flat_map(|part| [part.valid().to_lowercase().into_bytes(), part.invalid().to_vec()].concat())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(response: &Response<'_>, page: &Analysed) -> Vec<(usize, Vec<u8>)> {
        let mut found = Vec::new();
        of_response(response, page, |number, raw| found.push((number, raw.to_vec())));
        found
    }

    #[test]
    fn what_is_empty_has_no_column_but_the_checksum_of_the_text() {
        let page = Analysed::default();
        assert_eq!(columns(&Response::default(), &page), [(STATUS, b"0".to_vec()), (TEXT_CHECKSUM, Vec::new())]);
        let page = Analysed { title: b"T"[..].into(), checksum: b"c"[..].into(), ..page };
        let response =
            Response { status: 404, content_type: b" Text/HTML ; tld=x", url: b"http://a/", ..Response::default() };
        let expected: [(usize, &[u8]); 6] = [
            (STATUS, b"404"),
            (TYPE, b"text/html"),
            (FETCHED_URL, b"http://a/"),
            (TITLE, b"T"),
            (CHECKSUM, b"c"),
            (TEXT_CHECKSUM, b""),
        ];
        assert_eq!(columns(&response, &page), expected.map(|(number, raw)| (number, raw.to_vec())));
    }

    #[test]
    fn columns_come_back_as_they_were_packed() {
        let page = Analysed { title: b"T"[..].into(), description: [b'd'; 600][..].into(), ..Analysed::default() };
        let made = RecordColumns::of(&Response { status: 200, ip: b"::1", ..Response::default() }, &page);
        assert_eq!(made.long.len(), 1);
        let mut packed = Vec::new();
        made.pack(&mut packed);
        let again = RecordColumns::unpack(&packed).expect("it was packed");
        assert_eq!(again.short, made.short);
        let long = |columns: &RecordColumns| {
            columns.long.iter().map(|(at, raw)| (*at, raw.as_ref().to_vec())).collect::<Vec<_>>()
        };
        assert_eq!(long(&again), long(&made));
        assert!(RecordColumns::unpack(&packed[..packed.len() - 1]).is_none() && RecordColumns::unpack(&[]).is_none());
    }

    #[test]
    fn the_first_content_type_counts_with_the_charset_of_a_later_one() {
        let key = b"jp,example)/ https";
        let (plain, late) = (("Content-Type", "text/html"), ("content-type", "x/y; Charset=koi8-r"));
        let identified = |value| ("warc-identified-Payload-Type", value);
        let of = |headers: &[(&'static str, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            String::from_utf8(content_type(headers, key)).expect("all of it is text")
        };
        assert_eq!(of(&[]), "; tld=jp");
        assert_eq!(of(&[plain, ("Age", "1"), late]), "text/html; tld=jp;  Charset=koi8-r");
        assert_eq!(of(&[late, ("Content-Type", "a/b; charset=gbk")]), "x/y; tld=jp;  Charset=koi8-r");
        assert_eq!(of(&[("Content-Type", "a/b, a/b; charset=x")]), "a/b; tld=jp;  charset=x");
        assert_eq!(of(&[identified("c/d;q=1"), plain]), "text/html; tld=jp");
        assert_eq!(of(&[identified("c/d;q=1")]), "c/d; tld=jp; q=1");
        assert_eq!(content_type([(&b"Content-TYPE"[..], &b" \xff,x"[..])].into_iter(), b"(urn:isbn:1"), b"\xff; tld=");
    }
}
