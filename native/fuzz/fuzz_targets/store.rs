//! The formats of a store from any bytes: each is damage, or comes back from what is written of it; never a panic or memory
//! without bound.
//!
//! An input has a byte that says what it is; the rest are the bytes.
#![no_main]

use docstore_kernel::words::Words;
use docstore_store::capture::{self, Field, Record as Capture};
use docstore_store::headers::{self, Name, Text};
use docstore_store::record::{self, NewRecord, Records};
use docstore_store::run::{Run, RunParts};
use docstore_store::sweep::{Columns, Row, Rules};
use docstore_store::values::{self, Value};
use docstore_store::{format, keys, varint, verdict};

/// Any field of a header comes back from what is written of it.
fn headers(source: &[u8]) {
    let mut at = 0;
    while let Some((name, value)) = headers::read(source, &mut at) {
        let lower;
        let name = match name {
            Name::Known(place, false) => format::HEADER_NAMES[place].as_bytes(),
            Name::Known(place, true) => {
                lower = format::HEADER_NAMES[place].to_ascii_lowercase();
                lower.as_bytes()
            }
            Name::Spelled(name) => name,
        };
        let value = match &value {
            Text::Known(place) => format::HEADER_VALUES[*place].as_bytes(),
            Text::Date(date) => date,
            Text::Spelled(value) => value,
        };
        let mut written = Vec::new();
        headers::push(&mut written, name, value);
        let mut end = 0;
        assert!(headers::read(&written, &mut end).is_some());
        assert_eq!(end, written.len());
    }
    assert!(at <= source.len());
}

/// A record is damage, or written again it is the same.
fn record(source: &[u8]) {
    let span = record::span(source, 7);
    let Ok(found) = record::decode(source, 7) else { return };
    let span = span.expect("a sound record has a span");
    let Ok(family) = std::str::from_utf8(found.family) else { return };
    let mut records = Records::new(7, 0, 1);
    let new = NewRecord {
        kind: found.kind,
        row_key: found.row_key,
        family,
        qualifier: found.qualifier,
        timestamp: found.timestamp,
        codec: found.codec,
        related: found.related,
        raw_bytes: found.raw_bytes,
        payload: found.payload,
    };
    if records.add(new).is_some() {
        let mut bytes = vec![0; records.total_bytes()];
        records.fill(&mut bytes);
        assert!(bytes.len() <= span);
        assert_eq!(record::decode(&bytes, 7).map(|again| again.payload), Ok(found.payload));
    }
}

/// A record whose checksums are made to fit, so that all of it is read.
fn sealed_record(source: &[u8]) {
    let mut bytes = source.to_vec();
    if bytes.len() < 40 {
        return;
    }
    bytes[0] = format::RECORD_MAGIC;
    let (fields_at, fields_bytes, payload_crc_at) =
        if bytes[1] & format::RECORD_WIDE == 0 { (18, usize::from(bytes[3]), 14) } else { (28, usize::from(bytes[4]), 24) };
    if bytes[1] & format::RECORD_WIDE != 0 {
        bytes[5..8].fill(0);
    }
    let crc_at = fields_at + fields_bytes;
    let payload_bytes = varint::little_endian(if fields_at == 18 { &bytes[4..6] } else { &bytes[8..12] }) as usize;
    if let Some(payload) = bytes.get(crc_at + 4..(crc_at + 4).saturating_add(payload_bytes)) {
        let crc = record::crc32(payload, 0).to_le_bytes();
        bytes[payload_crc_at..payload_crc_at + 4].copy_from_slice(&crc);
        let crc = record::crc32(&bytes[..crc_at], 7).to_le_bytes();
        bytes[crc_at..crc_at + 4].copy_from_slice(&crc);
        record(&bytes);
    }
}

fn capture(source: &[u8]) {
    let parsed = Capture::parse(1, source);
    let fields: Option<Vec<Field<'_>>> = capture::fields(source).collect();
    let (Some(kind), Some(fields)) = (capture::kind_of(source), fields) else {
        assert!(parsed.is_none());
        return;
    };
    let (mut columns, mut arrived, mut confirms) = (Vec::new(), 0, 0);
    for field in &fields {
        match field {
            Field::Column(number, value) => columns.push((*number, *value)),
            Field::Arrived(time) => arrived = *time,
            Field::Confirms(time) => confirms = *time,
            Field::Sha1(digest) => assert_eq!(capture::sha1_text(digest).len(), capture::SHA1_TEXT_BYTES),
        }
    }
    assert_eq!(capture::with_values(source, &[]).as_deref(), Some(source));
    if let Some((number, _)) = columns.first() {
        let other = capture::with_values(source, &[(*number, b"\0other")]).expect("a sound record");
        assert!(capture::fields(&other).any(|field| field == Some(Field::Column(*number, b"\0other"))));
    }
    let again = capture::encode(kind, &mut columns, arrived, confirms);
    assert!(capture::fields(&again).all(|field| field.is_some()));
    let rules = Rules { redirects: vec![301], same_page: vec![0], least_words: 5, least_title_words: 2, long_text_bytes: 99 };
    let row = Row { row_key: b"row", records: vec![(9, source), (1, &again)], placed: Vec::new() };
    let _ = Columns::default().add_row(&rules, &mut Words::default(), 0, &row);
}

fn value(source: &[u8]) {
    match values::parse(source) {
        Some(Value::Ref(raw_bytes, reference)) => {
            let again = values::encode_ref(raw_bytes, reference);
            assert_eq!(values::parse(&again), Some(Value::Ref(raw_bytes, reference)));
        }
        Some(Value::Absent(raw_bytes)) => {
            assert_eq!(values::parse(&values::encode_absent(raw_bytes)), Some(Value::Absent(raw_bytes)));
        }
        Some(Value::Inline(raw)) => assert_eq!(values::inline(source), Some(raw)),
        None => assert!(values::without_value(source).is_none()),
    }
}

fn key(source: &[u8]) {
    let mut prefix = vec![2];
    keys::push_escaped(&mut prefix, source);
    assert_eq!(keys::row_key_of(&prefix), source);
    assert_eq!(keys::row_prefix_end(&prefix), Some(prefix.len()));
    let _ = (keys::column_of(source), keys::row_prefix_end(source), keys::row_key_of(source));
    if let Ok(url) = std::str::from_utf8(source) {
        let _ = keys::plain_row_key(url);
    }
    let _ = keys::posting_rows(source, source, source, &mut Words::default());
}

fn run(source: &[u8]) {
    let Ok(run) = Run::open((0, 1), source.to_vec()) else { return };
    let _ = (run.numbers(), run.damaged_parts());
    let Ok(mut parts) = RunParts::merged((0, 1), 4, vec![std::sync::Arc::new(run)]) else { return };
    while let Ok(Some(_)) = parts.advance() {}
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((what, source)) = input.split_first() else { return };
    match what % 8 {
        0 => headers(source),
        1 => record(source),
        2 => sealed_record(source),
        3 => capture(source),
        4 => value(source),
        5 => key(source),
        6 => run(source),
        _ => {
            if let Ok(found) = verdict::decode(source) {
                let again = verdict::encode(&found);
                let same = verdict::decode(&again).expect("what was written");
                assert_eq!((same.kind, same.of_row_key, same.reason), (found.kind, found.of_row_key, found.reason));
            }
        }
    }
});
