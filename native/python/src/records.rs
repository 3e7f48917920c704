//! What a commit writes: the fields of captures, records of a segment, and the cells of a batch of LevelDB.
//!
//! Knows tuples of Python and the layouts of docs/format.md; names and marks are handed in.  Deletes of cells, and what
//! may have to be refused, are left to Python, by giving None or false.

use std::borrow::Cow;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::filter::RowFilter;
use crate::reads::SHORT_BYTES;
use crate::runs::corrupt;

/// Bytes of the header before the fields.
pub const HEADER_BYTES: usize = 18;
pub const CRC_BYTES: usize = 4;
/// By so many a record names its dictionary or base, or the body before it, by codec.
pub const RELATED_BYTES: [usize; 5] = [0, 0, 16, 16, 4];
const BODY_CODEC: usize = 4;
const MILLISECONDS_END: u64 = 1 << 48;
const TIMESTAMP_MAX: u64 = i64::MAX as u64;
const FIELDS_MAX_BYTES: usize = 256 << 10;
/// Bytes of 64 bits, seven in each.
const LONGEST_VARINT: usize = 10;
/// Tag of a value that is in its cell.
pub const INLINE: u8 = 0;
const CELL_KIND: u8 = 3;
const KEY_ESCAPE: [u8; 2] = [0, 0xff];
pub const KEY_END: [u8; 2] = [0, 1];

/// Encodes records and their refs.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct RecordEncoder {
    magic: u8,
    kinds: Py<PyBytes>,
    wide: u8,
    micros_in_a_step: u64,
    columns: Py<PyDict>,
}

pub fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// A number as a varint: groups of 7 bits, lowest first; the top bit is set in all bytes but the last.
#[pyfunction]
fn encode_varint(python: Python<'_>, number: u64) -> Bound<'_, PyBytes> {
    let mut bytes = Vec::with_capacity(LONGEST_VARINT);
    push_varint(&mut bytes, number);
    PyBytes::new(python, &bytes)
}

/// The number of a varint that begins at an offset, and the offset after it.
#[pyfunction]
#[pyo3(signature = (source, offset = 0))]
fn decode_varint(python: Python<'_>, source: &[u8], offset: usize) -> PyResult<(u64, usize)> {
    let mut number = 0;
    for (place, &byte) in source.iter().enumerate().skip(offset).take(LONGEST_VARINT) {
        number |= u64::from(byte & 0x7f) << (7 * (place - offset));
        if byte < 0x80 {
            return Ok((number, place + 1));
        }
    }
    Err(corrupt(python, "unfinished varint", Some(offset), "a byte below 0x80", "none"))
}

pub fn crc32(bytes: &[u8], seed: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

/// A record on its way: where its head ends among those of its group, its payload, and where the CRC of that stands.
struct Part<Payload> {
    head_end: usize,
    crc_at: usize,
    payload: Payload,
}

impl RecordEncoder {
    /// Add the head of a record, without its CRCs; None for one that does not fit the format.  The record before it has so
    /// many bytes.
    fn add_head<'py>(
        &self,
        record: &Bound<'py, PyTuple>,
        before: usize,
        heads: &mut Vec<u8>,
    ) -> Option<Part<Bound<'py, PyBytes>>> {
        let item = |place| record.get_item(place).ok();
        let bytes = |place| item(place)?.cast_into::<PyBytes>().ok();
        let kind: u8 = item(0)?.extract().ok()?;
        if record.len() != 9 || !self.kinds.as_bytes(record.py()).contains(&kind) {
            return None;
        }
        let (row_key, related, payload) = (bytes(1)?, bytes(6)?, bytes(8)?);
        let (row_key, related) = (row_key.as_bytes(), related.as_bytes());
        let (family, qualifier) = (item(2)?.cast_into::<PyString>().ok()?, bytes(3)?);
        let mut spelled = Vec::new();
        let column: u8 = match self.columns.bind(record.py()).get_item((&family, &qualifier)).ok()? {
            Some(number) => number.extract().ok()?,
            None => {
                for name in [family.to_str().ok()?.as_bytes(), qualifier.as_bytes()] {
                    push_varint(&mut spelled, name.len() as u64);
                    spelled.extend_from_slice(name);
                }
                0
            }
        };
        let (timestamp, codec): (u64, u8) = (item(4)?.extract().ok()?, item(5)?.extract().ok()?);
        let raw_bytes: u32 = item(7)?.extract().ok()?;
        let body_length; // a text names its body, the record before it, by its length
        let related = if usize::from(codec) == BODY_CODEC && related.is_empty() && before > 0 {
            body_length = u32::try_from(before).ok()?.to_le_bytes();
            &body_length[..]
        } else {
            related
        };
        let milliseconds = timestamp / self.micros_in_a_step;
        let fields_bytes = related.len() + spelled.len() + row_key.len();
        let payload_bytes = u32::try_from(payload.as_bytes().len()).ok()?;
        if RELATED_BYTES.get(usize::from(codec)) != Some(&related.len())
            || fields_bytes > FIELDS_MAX_BYTES
            || timestamp > TIMESTAMP_MAX
        {
            return None;
        }
        let tag = kind | codec << 4;
        let short = (u8::try_from(fields_bytes), u16::try_from(payload_bytes), u16::try_from(raw_bytes));
        let is_narrow = timestamp % self.micros_in_a_step == 0 && milliseconds < MILLISECONDS_END;
        if let ((Ok(fields_bytes), Ok(payload_bytes), Ok(raw_bytes)), true) = (short, is_narrow) {
            heads.extend_from_slice(&[self.magic, tag, column, fields_bytes]);
            heads.extend_from_slice(&payload_bytes.to_le_bytes());
            heads.extend_from_slice(&raw_bytes.to_le_bytes());
            heads.extend_from_slice(&milliseconds.to_le_bytes()[..6]);
        } else {
            heads.extend_from_slice(&[self.magic, tag | self.wide, column, 0]);
            for number in [fields_bytes as u32, payload_bytes, raw_bytes] {
                heads.extend_from_slice(&number.to_le_bytes());
            }
            heads.extend_from_slice(&timestamp.to_le_bytes());
        }
        let crc_at = heads.len();
        heads.extend_from_slice(&[0; CRC_BYTES]);
        heads.extend_from_slice(related);
        heads.extend_from_slice(&spelled);
        heads.extend_from_slice(row_key);
        Some(Part { head_end: heads.len(), crc_at, payload })
    }
}

/// Put heads, their CRCs and payloads one behind the other.
fn fill_records(mut rest: &mut [u8], heads: &mut [u8], parts: &[Part<&[u8]>], seed: u32) {
    let mut start = 0;
    for part in parts {
        let head = &mut heads[start..part.head_end];
        let at = part.crc_at - start;
        head[at..at + CRC_BYTES].copy_from_slice(&crc32(part.payload, 0).to_le_bytes());
        let crc = crc32(head, seed).to_le_bytes();
        for bytes in [&*head, &crc[..], part.payload] {
            let (place, behind) = rest.split_at_mut(bytes.len());
            place.copy_from_slice(bytes);
            rest = behind;
        }
        start = part.head_end;
    }
}

#[pymethods]
impl RecordEncoder {
    /// What marks things: a record's first byte, the kinds of records, the bit of a wide header, microseconds in a step of
    /// its timestamp; and the number of each known column.
    #[new]
    fn new(marks: (u8, Py<PyBytes>, u8, u64), columns: Py<PyDict>) -> Self {
        Self { magic: marks.0, kinds: marks.1, wide: marks.2, micros_in_a_step: marks.3, columns }
    }

    /// Records that lie one behind the other from an offset on, and the ref of each; None if one of them does not fit the
    /// format.  Of a group, checksums and copies are made without the GIL.
    fn encode<'py>(
        &self,
        python: Python<'py>,
        records: Vec<Bound<'py, PyAny>>,
        segment: u64,
        offset: u64,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyList>)>> {
        let seed = segment as u32; // numbers of a dry run are larger
        let refs = PyList::empty(python);
        let mut heads = Vec::with_capacity(128 * records.len());
        let mut parts = Vec::with_capacity(records.len());
        let mut place = Vec::with_capacity(16);
        let (mut total, mut length) = (0, 0);
        for record in &records {
            let Ok(record) = record.cast::<PyTuple>() else { return Ok(None) };
            let start = heads.len();
            let Some(part) = self.add_head(record, length, &mut heads) else { return Ok(None) };
            length = part.head_end - start + CRC_BYTES + part.payload.as_bytes().len();
            place.clear();
            for number in [segment, offset + total as u64, length as u64] {
                push_varint(&mut place, number);
            }
            refs.append(PyBytes::new(python, &place))?;
            parts.push(part);
            total += length;
        }
        let parts: Vec<Part<&[u8]>> = parts
            .iter()
            .map(|part| Part { head_end: part.head_end, crc_at: part.crc_at, payload: part.payload.as_bytes() })
            .collect();
        let encoded = PyBytes::new_with(python, total, |bytes| {
            if total < SHORT_BYTES {
                fill_records(bytes, &mut heads, &parts, seed);
            } else {
                python.detach(|| fill_records(bytes, &mut heads, &parts, seed));
            }
            Ok(())
        })?;
        Ok(Some((encoded, refs)))
    }
}

/// The bytes of a text in UTF-8; lone surrogates go as an error handler of Python has them.
pub fn utf8<'a>(text: &'a Bound<'_, PyString>, errors: &str) -> PyResult<Cow<'a, [u8]>> {
    match text.to_str() {
        Ok(text) => Ok(Cow::Borrowed(text.as_bytes())),
        Err(_) => Ok(Cow::Owned(text.call_method1("encode", ("utf-8", errors))?.extract()?)),
    }
}

/// Fields of a capture by where they go: in their cell up to a limit, else into a segment; empty ones go nowhere.
#[pyfunction]
fn sort_fields<'py>(
    columns: &Bound<'py, PyTuple>,
    fields: &Bound<'py, PyTuple>,
    limit: usize,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let python = columns.py();
    let (inline, long) = (PyDict::new(python), PyDict::new(python));
    for (column, field) in columns.iter().zip(fields.iter()) {
        let raw = match field.cast::<PyBytes>() {
            Ok(raw) => Cow::Borrowed(raw.as_bytes()),
            Err(_) => {
                let text = field.cast::<PyString>()?;
                let is_text = || column.get_item(0)?.eq("text");
                utf8(text, if text.to_str().is_err() && is_text()? { "surrogatepass" } else { "surrogateescape" })?
            }
        };
        if raw.len() > limit {
            long.set_item(column, PyBytes::new(python, &raw))?;
        } else if !raw.is_empty() {
            let value = PyBytes::new_with(python, 1 + raw.len(), |value| {
                value[0] = INLINE;
                value[1..].copy_from_slice(&raw);
                Ok(())
            });
            inline.set_item(column, value?)?;
        }
    }
    Ok((inline, long))
}

fn push_escaped(key: &mut Vec<u8>, raw: &[u8]) {
    for (number, part) in raw.split(|byte| *byte == 0).enumerate() {
        if number > 0 {
            key.extend_from_slice(&KEY_ESCAPE);
        }
        key.extend_from_slice(part);
    }
    key.extend_from_slice(&KEY_END);
}

type LevelDbCell<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// What the names in a cell stand for: tag and only family of each table, bytes of each family; the type of a cell.
struct CellNames<'a, 'py> {
    tables: &'a Bound<'py, PyDict>,
    families: &'a Bound<'py, PyDict>,
    set_cell: &'a Bound<'py, PyAny>,
    largest_bytes: usize,
}

impl<'py> CellNames<'_, 'py> {
    /// Add the cells of a row; None if it has anything else, or a cell that may be refused.
    fn add_row(
        &self,
        row: &Bound<'py, PyAny>,
        cells: &mut Vec<LevelDbCell<'py>>,
        filter: &Bound<'py, RowFilter>,
    ) -> Option<()> {
        let (table, row_key, mutations) =
            row.extract::<(Bound<'_, PyAny>, Bound<'_, PyBytes>, Bound<'_, PyAny>)>().ok()?;
        let (tag, only_family) = self.tables.get_item(table).ok()??.extract::<(u8, Bound<'_, PyAny>)>().ok()?;
        let is_bare = !only_family.is_none();
        let mut key = Vec::with_capacity(row_key.as_bytes().len() + 64);
        key.push(tag);
        push_escaped(&mut key, row_key.as_bytes());
        let prefix_bytes = key.len();
        filter.borrow_mut().filter.add(&key);
        for mutation in mutations.try_iter().ok()? {
            let cell = mutation.ok().filter(|cell| cell.get_type().is(self.set_cell))?;
            let (family, qualifier, timestamp, value) =
                cell.extract::<(Bound<'_, PyAny>, Bound<'_, PyBytes>, u64, Bound<'_, PyBytes>)>().ok()?;
            key.truncate(prefix_bytes);
            if is_bare {
                if timestamp != 0 || !value.as_bytes().is_empty() || !family.eq(&only_family).ok()? {
                    return None;
                }
                key.extend_from_slice(qualifier.as_bytes());
            } else {
                if value.as_bytes().len() > self.largest_bytes {
                    return None;
                }
                key.push(CELL_KIND);
                key.extend_from_slice(self.families.get_item(family).ok()??.cast::<PyBytes>().ok()?.as_bytes());
                push_escaped(&mut key, qualifier.as_bytes());
                key.extend_from_slice(&TIMESTAMP_MAX.checked_sub(timestamp)?.to_be_bytes());
            }
            cells.push((PyBytes::new(row.py(), &key), value));
        }
        Some(())
    }
}

/// Put the cells of rows into a batch, in order, as `LevelDBEngine._fill` does, and the rows into the filter; false, and
/// no cell is put, if that has to.
#[pyfunction]
fn put_cells<'py>(
    put: &Bound<'py, PyAny>,
    rows: &Bound<'py, PyAny>,
    tables: &Bound<'py, PyDict>,
    families: &Bound<'py, PyDict>,
    set_cell: &Bound<'py, PyAny>,
    largest_bytes: usize,
    filter: &Bound<'py, RowFilter>,
) -> PyResult<bool> {
    let names = CellNames { tables, families, set_cell, largest_bytes };
    let mut cells = Vec::new();
    for row in rows.try_iter()? {
        if names.add_row(&row?, &mut cells, filter).is_none() {
            return Ok(false);
        }
    }
    for cell in cells {
        put.call1(cell)?;
    }
    Ok(true)
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RecordEncoder>()?;
    module.add_function(wrap_pyfunction!(sort_fields, module)?)?;
    module.add_function(wrap_pyfunction!(encode_varint, module)?)?;
    module.add_function(wrap_pyfunction!(decode_varint, module)?)?;
    module.add_function(wrap_pyfunction!(put_cells, module)?)
}
