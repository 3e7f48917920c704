//! A segment that a compaction writes: its records, one behind the other, and what they name.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

use crate::format::{CODEC_ZSTD_BODY, CODEC_ZSTD_DELTA, CODEC_ZSTD_DICTIONARY};
use crate::record::{NewRecord, Records};
use crate::values::{encode_ref, push_ref, ref_of};

/// What the records of a segment name, and how many bytes they have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    pub bases: BTreeSet<Vec<u8>>,
    pub dictionaries: BTreeSet<Vec<u8>>,
    /// Bytes of records by family and codec.
    pub codec_bytes: BTreeMap<(String, u8), u64>,
}

/// See above.
#[derive(Debug)]
pub struct Segment {
    number: u64,
    length_bytes: u64,
    /// Records that were not taken yet.
    bytes: Vec<u8>,
    contents: Contents,
    /// The cell value of the record written last, if that is a body and no delta; else empty.
    last_body: Vec<u8>,
}

impl Segment {
    /// A segment of which so many bytes are written.
    pub fn new(number: u64, length_bytes: u64) -> Self {
        Self { number, length_bytes, bytes: Vec::new(), contents: Contents::default(), last_body: Vec::new() }
    }

    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Write a record; gives its cell value, or None if it does not fit the format.
    ///
    /// A text that is a delta of its body has to be written directly behind that body, and gets the length of its record.
    pub fn write(&mut self, record: NewRecord<'_>) -> Option<Vec<u8>> {
        let last_body = take(&mut self.last_body);
        let body_bytes;
        let mut record = record;
        if record.codec == CODEC_ZSTD_BODY {
            let (_, (_, _, length)) = ref_of(&last_body)?;
            body_bytes = u32::try_from(length).ok()?.to_le_bytes();
            record.related = &body_bytes;
        }
        let mut made = Records::new(self.number, self.length_bytes, 1);
        let place = made.add(record)?;
        let before = self.bytes.len();
        self.bytes.resize(before + made.total_bytes(), 0);
        made.fill(&mut self.bytes[before..]);
        self.length_bytes += place.2;
        let Contents { bases, dictionaries, codec_bytes } = &mut self.contents;
        let names = match record.codec {
            CODEC_ZSTD_DELTA => Some(bases),
            CODEC_ZSTD_DICTIONARY => Some(dictionaries),
            _ => None,
        };
        if let Some(names) = names.filter(|names| !names.contains(record.related)) {
            names.insert(record.related.to_vec());
        }
        match codec_bytes.iter_mut().find(|((family, codec), _)| family == record.family && *codec == record.codec) {
            Some((_, bytes)) => *bytes += place.2,
            None => {
                codec_bytes.insert((record.family.to_owned(), record.codec), place.2);
            }
        }
        let mut reference = Vec::with_capacity(16);
        push_ref(&mut reference, place);
        Some(encode_ref(u64::from(record.raw_bytes), &reference))
    }

    /// Note that the record with this cell value, which was written last, is a body and no delta.
    pub fn end_with_body(&mut self, cell_value: &[u8]) {
        self.last_body = cell_value.to_vec();
    }

    /// Note that no text can be a delta of the record written last.
    pub fn end_without_body(&mut self) {
        self.last_body.clear();
    }

    /// Whether the record with this cell value was written last, and is a body and no delta.
    pub fn ends_with_body(&self, cell_value: &[u8]) -> bool {
        !cell_value.is_empty() && self.last_body == cell_value
    }

    /// The bytes that were written since the last call.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        take(&mut self.bytes)
    }

    pub fn into_contents(self) -> Contents {
        self.contents
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{CODEC_STORED, RECORD_VALUE};
    use crate::record::decode;

    const NAME: [u8; 16] = [7; 16];

    fn record<'a>(family: &'a str, codec: u8, related: &'a [u8], payload: &'a [u8]) -> NewRecord<'a> {
        let (kind, row_key, qualifier, timestamp) = (RECORD_VALUE, &b"a"[..], &b"q"[..], 5000);
        NewRecord { kind, row_key, family, qualifier, timestamp, codec, related, raw_bytes: 1000, payload }
    }

    #[test]
    fn records_lie_one_behind_the_other_and_what_they_name_is_noted_once() {
        let mut segment = Segment::new(9, 24);
        let delta = record("page", CODEC_ZSTD_DELTA, &NAME, b"frame");
        let records =
            [delta, record("text", CODEC_ZSTD_DICTIONARY, &NAME, b""), record("page", CODEC_STORED, b"", b"x"), delta];
        let (mut bytes, mut end) = (Vec::new(), 24);
        for new in records {
            let value = segment.write(new).expect("it fits");
            let (raw_bytes, (number, offset, length)) = ref_of(&value).expect("a ref");
            assert_eq!((raw_bytes, number, offset), (1000, 9, end));
            let written = segment.take_bytes();
            assert_eq!(decode(&written, 9).expect("sound").payload, new.payload);
            assert_eq!(written.len() as u64, length);
            end += length;
            bytes.extend(written);
        }
        assert_eq!((segment.length_bytes(), bytes.len() as u64), (end, end - 24));
        assert!(segment.write(record("page", CODEC_ZSTD_DELTA, b"short", b"")).is_none());
        let contents = segment.into_contents();
        let names = BTreeSet::from([NAME.to_vec()]);
        assert_eq!((&contents.bases, &contents.dictionaries), (&names, &names));
        let kinds: Vec<_> = contents.codec_bytes.keys().map(|(family, codec)| (&family[..], *codec)).collect();
        assert_eq!(kinds, [("page", CODEC_STORED), ("page", CODEC_ZSTD_DELTA), ("text", CODEC_ZSTD_DICTIONARY)]);
        assert_eq!(contents.codec_bytes.values().sum::<u64>(), bytes.len() as u64);
    }

    #[test]
    fn a_text_is_a_delta_of_the_body_that_was_written_last() {
        let (body, text) = (record("page", CODEC_STORED, b"", b"body"), record("text", CODEC_ZSTD_BODY, b"", b"text"));
        let mut segment = Segment::new(9, 24);
        assert!(segment.write(text).is_none(), "there is no body before it");
        let value = segment.write(body).expect("it fits");
        segment.end_with_body(&value);
        assert!(segment.ends_with_body(&value) && !segment.ends_with_body(b""));
        segment.take_bytes();
        let (_, place) = ref_of(&segment.write(text).expect("it fits")).expect("a ref");
        let bytes = segment.take_bytes();
        let found = decode(&bytes, 9).expect("sound");
        assert_eq!(found.body_place(place), ref_of(&value).map(|(_, place)| place));
        assert!(!segment.ends_with_body(&value));
        segment.end_with_body(&value);
        segment.end_without_body();
        assert!(segment.write(text).is_none());
    }
}
