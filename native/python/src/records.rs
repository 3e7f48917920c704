//! What a commit writes: the fields of captures, records of a segment, and the cells of a batch of LevelDB.
//!
//! Knows tuples of Python and the layouts of docs/format.md; names and marks are handed in.  What is rare, or may have to
//! be refused, is left to the reference in Python, by giving None or false.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

/// Bytes of the header before the fields.
pub const HEADER_BYTES: usize = 18;
pub const CRC_BYTES: usize = 4;
/// By so many a record names its dictionary or base, or the body before it, by codec.
pub const RELATED_BYTES: [usize; 5] = [0, 0, 16, 16, 4];
const BODY_CODEC: usize = 4;
const MILLISECONDS_END: u64 = 1 << 48;
const TIMESTAMP_MAX: u64 = i64::MAX as u64;
const FIELDS_MAX_BYTES: usize = 256 << 10;
/// Tag of a value that is in its cell.
const INLINE: u8 = 0;
const CELL_KIND: u8 = 3;
const KEY_ESCAPE: [u8; 2] = [0, 0xff];
const KEY_END: [u8; 2] = [0, 1];

/// Encodes records and their refs.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct RecordEncoder {
    magic: u8,
    value_kind: u8,
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

pub fn crc32(bytes: &[u8], seed: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

impl RecordEncoder {
    /// One record of a value with a known column; None for any other.  The record before it has so many bytes.
    fn encode_value<'py>(
        &self,
        record: &Bound<'py, PyTuple>,
        segment: u32,
        before: u64,
        head: &mut Vec<u8>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let python = record.py();
        if record.len() != 9 || record.get_item(0)?.extract::<u8>().ok() != Some(self.value_kind) {
            return Ok(None);
        }
        let (row_key, related, payload) = (record.get_item(1)?, record.get_item(6)?, record.get_item(8)?);
        let (Ok(row_key), Ok(related), Ok(payload)) =
            (row_key.cast::<PyBytes>(), related.cast::<PyBytes>(), payload.cast::<PyBytes>())
        else {
            return Ok(None);
        };
        let (row_key, related, payload) = (row_key.as_bytes(), related.as_bytes(), payload.as_bytes());
        let (family, qualifier) = (record.get_item(2)?, record.get_item(3)?);
        if !family.is_instance_of::<PyString>() || !qualifier.is_instance_of::<PyBytes>() {
            return Ok(None);
        }
        let Some(column) = self.columns.bind(python).get_item((family, qualifier))? else { return Ok(None) };
        let column: u8 = column.extract()?;
        let (Ok(timestamp), Ok(codec), Ok(raw_bytes)) = (
            record.get_item(4)?.extract::<u64>(),
            record.get_item(5)?.extract::<u8>(),
            record.get_item(7)?.extract::<u32>(),
        ) else {
            return Ok(None);
        };
        let body_length; // a text names its body, the record before it, by its length
        let related = if usize::from(codec) == BODY_CODEC && related.is_empty() {
            let Ok(length) = u32::try_from(before) else { return Ok(None) };
            body_length = length.to_le_bytes();
            &body_length[..]
        } else {
            related
        };
        let milliseconds = timestamp / self.micros_in_a_step;
        let fields_bytes = related.len() + row_key.len();
        let Ok(payload_bytes) = u32::try_from(payload.len()) else { return Ok(None) };
        if RELATED_BYTES.get(usize::from(codec)) != Some(&related.len())
            || fields_bytes > FIELDS_MAX_BYTES
            || timestamp > TIMESTAMP_MAX
        {
            return Ok(None);
        }
        let tag = self.value_kind | codec << 4;
        head.clear();
        let short = (u8::try_from(fields_bytes), u16::try_from(payload_bytes), u16::try_from(raw_bytes));
        let is_narrow = timestamp % self.micros_in_a_step == 0 && milliseconds < MILLISECONDS_END;
        if let ((Ok(fields_bytes), Ok(payload_bytes), Ok(raw_bytes)), true) = (short, is_narrow) {
            head.extend_from_slice(&[self.magic, tag, column, fields_bytes]);
            head.extend_from_slice(&payload_bytes.to_le_bytes());
            head.extend_from_slice(&raw_bytes.to_le_bytes());
            head.extend_from_slice(&milliseconds.to_le_bytes()[..6]);
        } else {
            head.extend_from_slice(&[self.magic, tag | self.wide, column, 0]);
            for number in [fields_bytes as u32, payload_bytes, raw_bytes] {
                head.extend_from_slice(&number.to_le_bytes());
            }
            head.extend_from_slice(&timestamp.to_le_bytes());
        }
        head.extend_from_slice(&crc32(payload, 0).to_le_bytes());
        head.extend_from_slice(related);
        head.extend_from_slice(row_key);
        let head_crc = crc32(head, segment);
        head.extend_from_slice(&head_crc.to_le_bytes());
        let encoded = PyBytes::new_with(python, head.len() + payload.len(), |bytes| {
            bytes[..head.len()].copy_from_slice(head);
            bytes[head.len()..].copy_from_slice(payload);
            Ok(())
        })?;
        Ok(Some(encoded))
    }
}

#[pymethods]
impl RecordEncoder {
    /// What marks things: a record's first byte, the kind of a value, the bit of a wide header, microseconds in a step of
    /// its timestamp; and the number of each known column.
    #[new]
    fn new(marks: (u8, u8, u8, u64), columns: Py<PyDict>) -> Self {
        Self { magic: marks.0, value_kind: marks.1, wide: marks.2, micros_in_a_step: marks.3, columns }
    }

    /// Records that lie one behind the other from an offset on, and the ref of each; None where the reference has to
    /// look at them.
    fn encode<'py>(
        &self,
        python: Python<'py>,
        records: &Bound<'py, PyAny>,
        segment: u64,
        offset: u64,
    ) -> PyResult<Option<(Bound<'py, PyList>, Bound<'py, PyList>)>> {
        let Ok(seed) = u32::try_from(segment) else { return Ok(None) };
        let (found, refs) = (PyList::empty(python), PyList::empty(python));
        let mut head = Vec::with_capacity(HEADER_BYTES + usize::from(u8::MAX) + CRC_BYTES);
        let mut place = Vec::with_capacity(16);
        let (mut offset, mut length) = (offset, 0);
        for record in records.try_iter()? {
            let record = record?;
            let Ok(record) = record.cast::<PyTuple>() else { return Ok(None) };
            let Some(encoded) = self.encode_value(record, seed, length, &mut head)? else { return Ok(None) };
            length = encoded.as_bytes().len() as u64;
            place.clear();
            push_varint(&mut place, segment);
            push_varint(&mut place, offset);
            push_varint(&mut place, length);
            refs.append(PyBytes::new(python, &place))?;
            found.append(encoded)?;
            offset += length;
        }
        Ok(Some((found, refs)))
    }
}

/// Fields of a capture by where they go, as `sort_fields` of `model.capture` defines it.
#[pyfunction]
fn sort_fields<'py>(
    columns: &Bound<'py, PyTuple>,
    fields: &Bound<'py, PyTuple>,
    limit: usize,
) -> Option<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let python = columns.py();
    let (inline, long) = (PyDict::new(python), PyDict::new(python));
    for (column, field) in columns.iter().zip(fields.iter()) {
        let raw = match field.cast::<PyBytes>() {
            Ok(raw) => raw.as_bytes(),
            Err(_) => field.cast::<PyString>().ok()?.to_str().ok()?.as_bytes(),
        };
        if raw.len() > limit {
            long.set_item(column, PyBytes::new(python, raw)).ok()?;
        } else if !raw.is_empty() {
            let value = PyBytes::new_with(python, 1 + raw.len(), |value| {
                value[0] = INLINE;
                value[1..].copy_from_slice(raw);
                Ok(())
            });
            inline.set_item(column, value.ok()?).ok()?;
        }
    }
    Some((inline, long))
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
    fn add_row(&self, row: &Bound<'py, PyAny>, cells: &mut Vec<LevelDbCell<'py>>) -> Option<()> {
        let (table, row_key, mutations) = row.extract::<(Bound<'_, PyAny>, Bound<'_, PyBytes>, Bound<'_, PyAny>)>().ok()?;
        let (tag, only_family) = self.tables.get_item(table).ok()??.extract::<(u8, Bound<'_, PyAny>)>().ok()?;
        let is_bare = !only_family.is_none();
        let mut key = Vec::with_capacity(row_key.as_bytes().len() + 64);
        key.push(tag);
        push_escaped(&mut key, row_key.as_bytes());
        let prefix_bytes = key.len();
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

/// Put the cells of rows into a batch, in order, as `LevelDBEngine._fill` does; false, and none is put, if that has to.
#[pyfunction]
fn put_cells<'py>(
    put: &Bound<'py, PyAny>,
    rows: &Bound<'py, PyAny>,
    tables: &Bound<'py, PyDict>,
    families: &Bound<'py, PyDict>,
    set_cell: &Bound<'py, PyAny>,
    largest_bytes: usize,
) -> PyResult<bool> {
    let names = CellNames { tables, families, set_cell, largest_bytes };
    let mut cells = Vec::new();
    for row in rows.try_iter()? {
        if names.add_row(&row?, &mut cells).is_none() {
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
    module.add_function(wrap_pyfunction!(put_cells, module)?)
}
