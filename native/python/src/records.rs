//! Records of a segment for Python: a record is the fields of `tablets.record.Record`.

use docstore_store::record::{self, Fault, NewRecord, Record, Records};
use docstore_store::values::push_ref;
use docstore_store::varint;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::convert::{corrupt, detached, text_of, SHORT_BYTES};

/// A number as a varint: groups of 7 bits, lowest first; the top bit is set in all bytes but the last.
#[pyfunction]
fn encode_varint(python: Python<'_>, number: u64) -> Bound<'_, PyBytes> {
    let mut bytes = Vec::with_capacity(varint::LONGEST);
    varint::push(&mut bytes, number);
    PyBytes::new(python, &bytes)
}

/// The number of a varint that begins at an offset, and the offset after it.
#[pyfunction]
#[pyo3(signature = (source, offset = 0))]
fn decode_varint(python: Python<'_>, source: &[u8], offset: usize) -> PyResult<(u64, usize)> {
    varint::decode(source, offset)
        .ok_or_else(|| corrupt(python, "unfinished varint", Some(offset), "a byte below 0x80", "none"))
}

/// The parts of a record of Python, of which borrowed ones are used.
pub struct Given<'py> {
    kind: u8,
    row_key: Bound<'py, PyBytes>,
    family: Bound<'py, PyString>,
    qualifier: Bound<'py, PyBytes>,
    timestamp: u64,
    codec: u8,
    related: Bound<'py, PyBytes>,
    raw_bytes: u32,
    payload: Bound<'py, PyBytes>,
}

impl<'py> Given<'py> {
    /// None for fields of other types, and for numbers that do not fit.
    pub fn of(record: &Bound<'py, PyAny>) -> Option<Self> {
        let record = record.cast::<PyTuple>().ok().filter(|record| record.len() == 9)?;
        let item = |place| record.get_item(place).ok();
        let bytes = |place| item(place)?.cast_into::<PyBytes>().ok();
        Some(Self {
            kind: item(0)?.extract().ok()?,
            row_key: bytes(1)?,
            family: item(2)?.cast_into().ok()?,
            qualifier: bytes(3)?,
            timestamp: item(4)?.extract().ok()?,
            codec: item(5)?.extract().ok()?,
            related: bytes(6)?,
            raw_bytes: item(7)?.extract().ok()?,
            payload: bytes(8)?,
        })
    }

    pub fn new(&self) -> Option<NewRecord<'_>> {
        Some(NewRecord {
            kind: self.kind,
            row_key: self.row_key.as_bytes(),
            family: self.family.to_str().ok()?,
            qualifier: self.qualifier.as_bytes(),
            timestamp: self.timestamp,
            codec: self.codec,
            related: self.related.as_bytes(),
            raw_bytes: self.raw_bytes,
            payload: self.payload.as_bytes(),
        })
    }
}

/// Records that lie one behind the other from an offset on, and the ref of each; None if one of them does not fit the
/// format.  Of a group, checksums and copies are made without the GIL.
#[pyfunction]
fn encode_records<'py>(
    python: Python<'py>,
    records: Vec<Bound<'py, PyAny>>,
    segment: u64,
    offset: u64,
) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyList>)>> {
    let Some(given) = records.iter().map(Given::of).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let refs = PyList::empty(python);
    let mut made = Records::new(segment, offset, given.len());
    let mut reference = Vec::with_capacity(16);
    for record in &given {
        let Some(place) = record.new().and_then(|new| made.add(new)) else { return Ok(None) };
        reference.clear();
        push_ref(&mut reference, place);
        refs.append(PyBytes::new(python, &reference))?;
    }
    let encoded = PyBytes::new_with(python, made.total_bytes(), |bytes| {
        if bytes.len() < SHORT_BYTES {
            made.fill(bytes);
        } else {
            detached(python, || made.fill(bytes))?;
        }
        Ok(())
    })?;
    Ok(Some((encoded, refs)))
}

/// The fields of the record at an offset of bytes that hold all of it.
#[pyfunction]
fn decode_record<'py>(source: &Bound<'py, PyBytes>, segment: u64, offset: usize) -> PyResult<Bound<'py, PyTuple>> {
    let (python, bytes) = (source.py(), source.as_bytes().get(offset..).unwrap_or_default());
    let told = |what: &str, expected: &str, found: &str| corrupt(python, what, Some(offset), expected, found);
    let checksums = |what, written, found| told(what, &format!("{written:#010x}"), &format!("{found:#010x}"));
    let found = record::decode(bytes, segment).map_err(|fault| match fault {
        Fault::CutOff => told("record is cut off", "a whole record", &format!("{} bytes", bytes.len())),
        Fault::NoRecord(byte) => told(
            "no record begins here",
            &format!("{:#04x}", docstore_store::format::RECORD_MAGIC),
            &format!("{byte:#04x}"),
        ),
        Fault::Head(written, found) => checksums("record header fails its CRC", written, found),
        Fault::Payload(written, found) => checksums("record payload fails its CRC", written, found),
        Fault::Unknown(tag, column) => told(
            "record of an unknown kind, codec or column",
            "one of docs/format.md",
            &format!("tag {tag:#04x}, column {column}"),
        ),
    })?;
    fields_of(python, &found)
}

/// The fields of a record.
pub fn fields_of<'py>(python: Python<'py>, record: &Record<'_>) -> PyResult<Bound<'py, PyTuple>> {
    let Record { kind, row_key, family, qualifier, timestamp, codec, related, raw_bytes, payload, .. } = *record;
    let (family, held) = (text_of(python, family, "replace")?, |part| PyBytes::new(python, part));
    let (row_key, qualifier, related, payload) = (held(row_key), held(qualifier), held(related), held(payload));
    (kind, row_key, family, qualifier, timestamp, codec, related, raw_bytes, payload).into_pyobject(python)
}

/// The length of the record whose header and fields stand at an offset; None if these are damaged.
#[pyfunction]
fn record_span(source: PyBackedBytes, offset: usize, segment: u64) -> Option<usize> {
    record::span(source.get(offset..)?, segment)
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(encode_varint, module)?)?;
    module.add_function(wrap_pyfunction!(decode_varint, module)?)?;
    module.add_function(wrap_pyfunction!(encode_records, module)?)?;
    module.add_function(wrap_pyfunction!(decode_record, module)?)?;
    module.add_function(wrap_pyfunction!(record_span, module)?)
}
