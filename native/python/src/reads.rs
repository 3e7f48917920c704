//! Steps of a read: URL to row key, capture record to columns or to the fields of a document, record of a segment to
//! value.
//!
//! The layouts are those of docs/format.md.  For damaged or rare input a function gives None; Python then does the step in
//! general, or reports the damage.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::{ptr, slice};

use docstore_frames::Decoder;
use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::records::{crc32, push_varint, CRC_BYTES, HEADER_BYTES, INLINE, RELATED_BYTES};

const RECORD_MAGIC: u8 = 0xd5;
const VALUE_KIND: u8 = 1;
const KIND_BITS: u8 = 7;
const WIDE: u8 = 8;
const WIDE_HEADER_BYTES: usize = 28;
/// Columns that take one byte in a record.
const COLUMNS: std::ops::RangeInclusive<u8> = 1..=8;
pub const STORED: u8 = 0;
pub const DICTIONARY: u8 = 2;
pub const DELTA: u8 = 3;
/// Of a text that is a delta of its body, whose record is directly before it.
pub const BODY: u8 = 4;
/// Tags of a cell's value that is a record (`REF`), or that is not kept.
pub const REF: u8 = 1;
pub const ABSENT: u8 = 2;
/// Kind of a capture that was stored with its page.
pub const STORED_CAPTURE: u8 = 0;
/// Kinds of captures, and numbers of a record's fields that are no columns.
const KINDS: u8 = 4;
pub const ARRIVED: u8 = 64;
pub const CONFIRMS: u8 = 65;
/// A payload digest as most archives have it: its 20 bytes, in place of the column.
pub const SHA1: u8 = 67;
pub const SHA1_BYTES: usize = 20;
const PAYLOAD_DIGEST: u8 = 7;
/// Of the column's cell value, before 32 letters of base32.
const SHA1_HEAD: &[u8] = b"\0sha1:";
const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const URL_LIMIT_BYTES: usize = 65_536;
/// Decoded, or copied, in some 50 us: another thread that got the GIL meanwhile would keep it a hundred times as long.
pub const SHORT_BYTES: usize = 128 << 10;

thread_local! {
    static DECODER: RefCell<Option<Box<Decoder>>> = const { RefCell::new(None) };
}

/// A number in groups of 7 bits, lowest first; None where it does not end, or is longer than any of ours.
pub fn varint(source: &[u8], at: &mut usize) -> Option<u64> {
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

fn u16_at(source: &[u8], at: usize) -> usize {
    usize::from(source[at]) | usize::from(source[at + 1]) << 8
}

fn u32_at(source: &[u8], at: usize) -> u32 {
    (u16_at(source, at) | u16_at(source, at + 2) << 16) as u32
}

/// Whether a host is made of labels that the URL parser gives back as they are; the last one is no number.
fn is_plain_host(host: &[u8]) -> bool {
    let is_plain = |label: &[u8]| {
        let ends = label.first().zip(label.last());
        ends.is_some_and(|(first, last)| *first != b'-' && *last != b'-')
            && label.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
            && !label.windows(2).any(|pair| pair == b"--")
    };
    let last = host.rsplit(|byte| *byte == b'.').next();
    host.split(|byte| *byte == b'.').all(is_plain) && last.is_some_and(|label| label[0].is_ascii_lowercase())
}

/// Whether path and query are what the URL parser gives back as it is; no segment begins with a dot.
fn is_plain_path(path: &[u8]) -> bool {
    let (mut before, mut in_query) = (0, false);
    path.iter().all(|&byte| {
        let fits = match byte {
            b'?' => true,
            b'.' => in_query || before != b'/',
            _ => byte.is_ascii_alphanumeric() || b"_~!$&()*+,;=:@/-".contains(&byte),
        };
        in_query |= byte == b'?';
        before = byte;
        fits
    })
}

/// The row key of a URL that is canonical as it is written, as most are; None for any other.
#[pyfunction]
fn plain_row_key<'py>(url: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    let text = url.extract::<&str>().ok()?;
    let (scheme, rest) = text.split_once("://").filter(|(scheme, _)| matches!(*scheme, "https" | "http"))?;
    let (host, path) = rest.as_bytes().split_at(rest.find('/')?);
    if text.len() > URL_LIMIT_BYTES || !is_plain_host(host) || !is_plain_path(path) {
        return None;
    }
    let mut key = Vec::with_capacity(text.len());
    for label in host.rsplit(|byte| *byte == b'.') {
        key.extend_from_slice(label);
        key.push(b',');
    }
    key.pop();
    key.push(b')');
    key.extend_from_slice(path);
    key.push(b' ');
    key.extend_from_slice(scheme.as_bytes());
    Some(PyBytes::new(url.py(), &key))
}

type Fields<'py> = (u8, Bound<'py, PyDict>, u64, u64);

/// A capture record: kind, values by column, arrived, confirms; None if it is damaged.  Columns are
/// given by their numbers.
#[pyfunction]
fn decode_capture<'py>(value: &Bound<'py, PyBytes>, names: &Bound<'py, PyDict>) -> PyResult<Option<Fields<'py>>> {
    let (python, source) = (value.py(), value.as_bytes());
    let columns = PyDict::new(python);
    let (mut arrived, mut confirms) = (0, 0);
    let Some(&kind) = source.first().filter(|kind| **kind < KINDS) else { return Ok(None) };
    let mut at = 1;
    while let Some(&number) = source.get(at) {
        at += 1;
        let Some(bytes) = varint(source, &mut at) else { return Ok(None) };
        let end = at.saturating_add(bytes as usize);
        let Some(content) = source.get(at..end) else { return Ok(None) };
        match number {
            ARRIVED | CONFIRMS => {
                let mut from = 0;
                let Some(found) = varint(content, &mut from) else { return Ok(None) };
                *(if number == ARRIVED { &mut arrived } else { &mut confirms }) = found;
            }
            SHA1 => {
                let (Ok(content), Some(column)) = (content.try_into(), names.get_item(PAYLOAD_DIGEST)?) else {
                    return Ok(None);
                };
                columns.set_item(column, PyBytes::new(python, &sha1_text(content)))?;
            }
            _ => {
                let Some(column) = names.get_item(number)? else { return Ok(None) };
                columns.set_item(column, PyBytes::new(python, content))?;
            }
        }
        at = end;
    }
    Ok(Some((kind, columns, arrived, confirms)))
}

/// The cell value of a payload digest.
fn sha1_text(digest: &[u8; SHA1_BYTES]) -> [u8; SHA1_HEAD.len() + 32] {
    let mut text = [0; SHA1_HEAD.len() + 32];
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
    let text = value.strip_prefix(SHA1_HEAD).filter(|text| text.len() == 32)?;
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

/// The value of a capture record; `tests/reference/capture.py` is the readable definition.
#[pyfunction]
fn encode_capture<'py>(
    columns: &Bound<'py, PyDict>,
    numbers: &Bound<'py, PyDict>,
    kind: u8,
    arrived: u64,
    confirms: u64,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut fields = Vec::with_capacity(columns.len());
    let mut sha1 = None;
    for (column, value) in columns {
        let number = numbers.get_item(&column)?.ok_or_else(|| PyKeyError::new_err(column.unbind()))?.extract::<u8>()?;
        let value = value.cast_into::<PyBytes>()?;
        let digest = if number == PAYLOAD_DIGEST { sha1_of(value.as_bytes()) } else { None };
        match digest {
            Some(digest) => sha1 = Some(digest),
            None => fields.push((number, value)),
        }
    }
    fields.sort_unstable_by_key(|(number, _)| *number);
    let mut record = Vec::with_capacity(64 + fields.iter().map(|(_, value)| value.as_bytes().len() + 4).sum::<usize>());
    record.push(kind);
    let mut add = |number: u8, content: &[u8]| {
        record.push(number);
        push_varint(&mut record, content.len() as u64);
        record.extend_from_slice(content);
    };
    for (number, value) in &fields {
        add(*number, value.as_bytes());
    }
    for (number, time) in [(ARRIVED, arrived), (CONFIRMS, confirms)] {
        if time != 0 {
            let mut content = Vec::with_capacity(10);
            push_varint(&mut content, time);
            add(number, &content);
        }
    }
    if let Some(digest) = sha1 {
        add(SHA1, &digest);
    }
    Ok(PyBytes::new(columns.py(), &record))
}

/// Segment, offset and length of a record.
pub type Place = (u64, u64, u64);

/// Length of a cell's value that is a record, and where that is; None for other values.
pub fn ref_of(cell_value: &[u8]) -> Option<(u64, Place)> {
    let mut at = 1;
    let mut next = || varint(cell_value, &mut at);
    let (raw_bytes, place) = (next()?, (next()?, next()?, next()?));
    (cell_value.first() == Some(&REF) && at == cell_value.len()).then_some((raw_bytes, place))
}

/// Where a cell's value lies; None for a value that stands in its cell.
#[pyfunction]
fn value_place(cell_value: &[u8]) -> Option<Place> {
    ref_of(cell_value).map(|(_, place)| place)
}

/// A sound record of a value: how its payload was made, and where its parts begin.
pub struct Record {
    pub codec: u8,
    pub fields: usize,
    pub payload: std::ops::Range<usize>,
    pub raw_bytes: usize,
}

/// A record of a segment whose number starts its checksum; None if it is damaged, or of a column or kind unknown here.
pub fn parse(source: &[u8], seed: u32) -> Option<Record> {
    let [RECORD_MAGIC, tag, column, ..] = *source else { return None };
    let codec = tag >> 4;
    if tag & KIND_BITS != VALUE_KIND || usize::from(codec) >= RELATED_BYTES.len() || !COLUMNS.contains(&column) {
        return None;
    }
    let (fields, fields_bytes, payload_bytes, raw_bytes, payload_crc) = if tag & WIDE == 0 {
        let head = source.get(..HEADER_BYTES)?;
        (HEADER_BYTES, usize::from(head[3]), u16_at(head, 4), u16_at(head, 6), u32_at(head, 14))
    } else {
        let head = source.get(..WIDE_HEADER_BYTES).filter(|head| head[3] == 0)?;
        let [fields_bytes, payload_bytes, raw_bytes] = [4, 8, 12].map(|at| u32_at(head, at) as usize);
        (WIDE_HEADER_BYTES, fields_bytes, payload_bytes, raw_bytes, u32_at(head, 24))
    };
    let crc_at = fields + fields_bytes;
    let payload = crc_at + CRC_BYTES..crc_at + CRC_BYTES + payload_bytes;
    if fields_bytes < RELATED_BYTES[usize::from(codec)] {
        return None;
    }
    let content = source.get(payload.clone())?;
    let is_sound = crc32(&source[..crc_at], seed) == u32_at(source, crc_at) && crc32(content, 0) == payload_crc;
    is_sound.then_some(Record { codec, fields, payload, raw_bytes })
}

/// Gives the dictionary or base of a name, or the body of a record by segment, offset and length.
struct Related<'a, 'py> {
    dictionary: &'a Bound<'py, PyAny>,
    base: &'a Bound<'py, PyAny>,
    body: &'a Bound<'py, PyAny>,
    /// The value decoded last, and its record: a text mostly is a delta of the body that is read with it.
    last: Option<(Place, Bound<'py, PyBytes>)>,
}

impl<'py> Related<'_, 'py> {
    /// The value of the record at a place; None if Python has to decode it.
    fn decode(
        &self,
        source: &Bound<'py, PyBytes>,
        (segment, offset, _): Place,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (python, bytes) = (source.py(), source.as_bytes());
        let Some(record) = parse(bytes, segment as u32) else { return Ok(None) };
        let payload = &bytes[record.payload];
        if record.codec == STORED {
            return Ok((payload.len() == record.raw_bytes).then(|| PyBytes::new(python, payload)));
        }
        let related = &bytes[record.fields..record.fields + RELATED_BYTES[usize::from(record.codec)]];
        let content = match record.codec {
            DICTIONARY => self.dictionary.call1((PyBytes::new(python, related),))?,
            DELTA => self.base.call1((PyBytes::new(python, related),))?,
            BODY => {
                let length = u64::from(u32_at(related, 0));
                let Some(place) = offset.checked_sub(length).map(|start| (segment, start, length)) else {
                    return Ok(None);
                };
                match &self.last {
                    Some((last, body)) if *last == place => body.clone().into_any(),
                    _ => self.body.call1(place)?,
                }
            }
            _ => return decode_frame(python, payload, record.raw_bytes, b""),
        };
        if content.is_none() {
            return Ok(None);
        }
        decode_frame(python, payload, record.raw_bytes, &content.extract::<PyBackedBytes>()?)
    }
}

/// The value of a record; None if it is damaged, or has a column or kind that Python decodes.
///
/// `dictionary`, `base` and `body` give what `Related` has them for, or None; what they raise is raised.
#[pyfunction]
fn decode_value<'py>(
    source: &Bound<'py, PyBytes>,
    segment: u64,
    offset: u64,
    dictionary: &Bound<'py, PyAny>,
    base: &Bound<'py, PyAny>,
    body: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    Related { dictionary, base, body, last: None }.decode(source, (segment, offset, 0))
}

/// Fill in the values of a stored capture's record, as `DocumentReader._assemble` defines it; false if that has to do it.
///
/// `source` gives the bytes of a record of a segment; `shown` has for each number of a field None, or its place in
/// `fields` and how it is shown: None as bytes, the name of an error handler as text, or a function of the bytes.
/// Values of more than `most_bytes` in all are not read.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn fill_capture<'py>(
    source: &Bound<'py, PyAny>,
    dictionary: &Bound<'py, PyAny>,
    base: &Bound<'py, PyAny>,
    body: &Bound<'py, PyAny>,
    record: &Bound<'py, PyBytes>,
    shown: &Bound<'py, PyDict>,
    fields: &Bound<'py, PyList>,
    most_bytes: u64,
) -> PyResult<bool> {
    let (python, bytes) = (record.py(), record.as_bytes());
    let mut related = Related { dictionary, base, body, last: None };
    let (mut at, mut total) = (1, 0u64);
    if bytes.first() != Some(&STORED_CAPTURE) {
        return Ok(false);
    }
    while at < bytes.len() {
        let number = bytes[at];
        at += 1;
        let cell_value = varint(bytes, &mut at).and_then(|length| take(bytes, &mut at, length as usize));
        let (Some(mut cell_value), Some(field)) = (cell_value, shown.get_item(number)?) else { return Ok(false) };
        if field.is_none() {
            continue;
        }
        let digest;
        if number == SHA1 {
            let Ok(content) = cell_value.try_into() else { return Ok(false) };
            digest = sha1_text(content);
            cell_value = &digest;
        }
        let (index, how) = field.extract::<(usize, Bound<'py, PyAny>)>()?;
        let value = match cell_value.first() {
            Some(&INLINE) => {
                total += cell_value.len() as u64 - 1;
                Ok(&cell_value[1..])
            }
            Some(&ABSENT) => continue,
            _ => {
                let Some((raw_bytes, place)) = ref_of(cell_value) else { return Ok(false) };
                total = total.saturating_add(raw_bytes);
                Err(place)
            }
        };
        if total > most_bytes {
            return Ok(false);
        }
        let value = match value {
            Ok(value) => PyBytes::new(python, value),
            Err(place) => {
                let stored = source.call1(place)?.cast_into::<PyBytes>()?;
                let Some(value) = related.decode(&stored, place)? else { return Ok(false) };
                related.last.get_or_insert_with(|| (place, value.clone())); // the body comes first
                value
            }
        };
        let value = if how.is_none() {
            value.into_any()
        } else if value.as_bytes().is_empty() {
            continue;
        } else if how.is_instance_of::<PyString>() {
            match PyString::from_bytes(python, value.as_bytes()) {
                Ok(text) => text.into_any(),
                Err(_) => value.call_method1("decode", ("utf-8", how))?,
            }
        } else {
            how.call1((value,))?
        };
        fields.set_item(index, value)?;
    }
    Ok(true)
}

/// The content of a frame, of a known length; None if it is damaged.
#[pyfunction]
fn decode_frame<'py>(
    python: Python<'py>,
    frame: &[u8],
    raw_bytes: usize,
    before: &[u8],
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    decoded(python, raw_bytes, |decoder, value| decoder.decode(frame, before, value))
}

/// Bytes that this thread's decoder fills, without the GIL if they are many; None where it fails.
fn decoded<'py>(
    python: Python<'py>,
    raw_bytes: usize,
    work: impl FnOnce(&mut Decoder, &mut [MaybeUninit<u8>]) -> bool + Send,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let Some(mut decoder) = DECODER.take().or_else(|| Decoder::new().map(Box::new)) else { return Ok(None) };
    let Ok(length) = ffi::Py_ssize_t::try_from(raw_bytes) else { return Ok(None) };
    // SAFETY: a new object that only we have; its bytes are written before anybody else sees it, or it goes.
    let (made, value) = unsafe {
        let object = Bound::from_owned_ptr_or_err(python, ffi::PyBytes_FromStringAndSize(ptr::null(), length))?;
        let start = ffi::PyBytes_AsString(object.as_ptr()).cast::<MaybeUninit<u8>>();
        (object.cast_into_unchecked::<PyBytes>(), slice::from_raw_parts_mut(start, raw_bytes))
    };
    let work = || catch_unwind(AssertUnwindSafe(|| work(&mut decoder, value)));
    let is_whole = if raw_bytes <= SHORT_BYTES { work() } else { python.detach(work) };
    let is_whole = is_whole.map_err(|_| PyRuntimeError::new_err("decoding a value panicked"))?;
    DECODER.set(Some(decoder));
    Ok(is_whole.then_some(made))
}

pub fn take<'a>(source: &'a [u8], at: &mut usize, bytes: usize) -> Option<&'a [u8]> {
    let found = source.get(*at..at.checked_add(bytes)?)?;
    *at += bytes;
    Some(found)
}

pub fn number(source: &[u8], at: &mut usize, bytes: usize) -> Option<u64> {
    Some(take(source, at, bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(plain_row_key, module)?)?;
    module.add_function(wrap_pyfunction!(decode_capture, module)?)?;
    module.add_function(wrap_pyfunction!(encode_capture, module)?)?;
    module.add_function(wrap_pyfunction!(value_place, module)?)?;
    module.add_function(wrap_pyfunction!(decode_value, module)?)?;
    module.add_function(wrap_pyfunction!(fill_capture, module)?)?;
    module.add_function(wrap_pyfunction!(decode_frame, module)?)
}
