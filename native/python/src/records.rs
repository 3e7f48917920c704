//! Records on their way into a segment: `tablets.record.encode_records` in native code.
//!
//! Knows tuples of Python and the layout of a record's header; what marks things is handed in.  A record that is no
//! value, or one that may have to be refused, is left to the reference, by giving None.

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
