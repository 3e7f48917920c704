//! Steps of a read: a record of a segment to its value, a capture record to the fields of a document.
//!
//! For damaged or rare input a function gives None or false; Python then does the step in general, or reports the damage.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::{ptr, slice};

use docstore_frames::Decoder;
use docstore_store::capture::{self, Field, PAYLOAD_DIGEST};
use docstore_store::format::{
    CAPTURE_STORED, CODEC_STORED, CODEC_ZSTD_BODY, CODEC_ZSTD_DELTA, CODEC_ZSTD_DICTIONARY, RECORD_VALUE,
};
use docstore_store::record;
use docstore_store::values::{self, Place, Value};
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::convert::SHORT_BYTES;

thread_local! {
    static DECODER: RefCell<Option<Box<Decoder>>> = const { RefCell::new(None) };
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
    fn decode(&self, source: &Bound<'py, PyBytes>, place: Place) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (python, bytes) = (source.py(), source.as_bytes());
        let Ok(record) = record::decode(bytes, place.0) else { return Ok(None) };
        let (payload, raw_bytes) = (record.payload, record.raw_bytes as usize);
        let named = || PyBytes::new(python, record.related);
        let content = match record.codec {
            _ if record.kind != RECORD_VALUE => return Ok(None),
            CODEC_STORED => return Ok((payload.len() == raw_bytes).then(|| PyBytes::new(python, payload))),
            CODEC_ZSTD_DICTIONARY => self.dictionary.call1((named(),))?,
            CODEC_ZSTD_DELTA => self.base.call1((named(),))?,
            CODEC_ZSTD_BODY => match (record.body_place(place), &self.last) {
                (None, _) => return Ok(None),
                (Some(of), Some((last, body))) if *last == of => body.clone().into_any(),
                (Some(of), _) => self.body.call1(of)?,
            },
            _ => return decode_frame(python, payload, raw_bytes, b""),
        };
        if content.is_none() {
            return Ok(None);
        }
        decode_frame(python, payload, raw_bytes, &content.extract::<PyBackedBytes>()?)
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
    let mut total = 0u64;
    if capture::kind_of(bytes) != Some(CAPTURE_STORED) {
        return Ok(false);
    }
    for field in capture::fields(bytes) {
        let digest;
        let (number, cell_value) = match field {
            None => return Ok(false),
            Some(Field::Arrived(_) | Field::Confirms(_)) => continue,
            Some(Field::Column(number, cell_value)) => (number, cell_value),
            Some(Field::Sha1(content)) => {
                digest = capture::sha1_text(content);
                (PAYLOAD_DIGEST as u8, &digest[..])
            }
        };
        let Some(field) = shown.get_item(number)? else { return Ok(false) };
        if field.is_none() {
            continue;
        }
        let (index, how) = field.extract::<(usize, Bound<'py, PyAny>)>()?;
        let value = match values::parse(cell_value) {
            Some(Value::Inline(value)) => {
                total += value.len() as u64;
                Ok(value)
            }
            Some(Value::Absent(_)) => continue,
            Some(Value::Ref(raw_bytes, reference)) => {
                let Some(place) = values::place_of(reference) else { return Ok(false) };
                total = total.saturating_add(raw_bytes);
                Err(place)
            }
            None => return Ok(false),
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

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(decode_value, module)?)?;
    module.add_function(wrap_pyfunction!(fill_capture, module)?)?;
    module.add_function(wrap_pyfunction!(decode_frame, module)?)
}
