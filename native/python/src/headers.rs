//! Header fields of a capture for Python, as pairs of name and value; `docstore_store::headers` has their bytes.

use docstore_store::format::{HEADER_NAMES, HEADER_VALUES};
use docstore_store::headers::{self, Name, Text};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::convert::{text_of, utf8};

/// What is not UTF-8 in a header is kept.
const ESCAPE: &str = "surrogateescape";

/// Known names, the same in lower case, and known values, as strings of Python that are made once.
static WORDS: PyOnceLock<[Py<PyTuple>; 3]> = PyOnceLock::new();

fn words(python: Python<'_>) -> PyResult<&[Py<PyTuple>; 3]> {
    WORDS.get_or_try_init(python, || {
        let lower = HEADER_NAMES.iter().map(|name| name.to_ascii_lowercase()).collect::<Vec<_>>();
        let made =
            [PyTuple::new(python, HEADER_NAMES)?, PyTuple::new(python, lower)?, PyTuple::new(python, HEADER_VALUES)?];
        Ok(made.map(Bound::unbind))
    })
}

/// Encode pairs of name and value.
#[pyfunction]
fn encode_headers<'py>(pairs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(pairs.py(), &encoded_headers(pairs)?))
}

pub fn encoded_headers(pairs: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut encoded = Vec::with_capacity(256);
    for pair in pairs.try_iter()? {
        let pair = pair?;
        let pair = pair.cast::<PyTuple>()?;
        let (name, value) = (pair.get_borrowed_item(0)?, pair.get_borrowed_item(1)?);
        let (name, value) = (name.cast::<PyString>()?, value.cast::<PyString>()?);
        headers::push(&mut encoded, &utf8(&name, ESCAPE)?, &utf8(&value, ESCAPE)?);
    }
    Ok(encoded)
}

/// Of encoded headers those with which a page is asked for again; None if they are damaged.
#[pyfunction]
fn validators<'py>(source: &Bound<'py, PyBytes>) -> Option<Bound<'py, PyBytes>> {
    headers::validators(source.as_bytes()).map(|kept| PyBytes::new(source.py(), &kept))
}

/// Pairs of name and value; None if the bytes are damaged.
#[pyfunction]
fn decode_headers<'py>(source: &Bound<'py, PyBytes>) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let (python, source) = (source.py(), source.as_bytes());
    let [names, lower_names, values] = words(python)?;
    let known = |words: &Py<PyTuple>, place| words.bind(python).get_item(place);
    let pairs = PyList::empty(python);
    let mut at = 0;
    while at < source.len() {
        let Some((name, value)) = headers::read(source, &mut at) else { return Ok(None) };
        let name = match name {
            Name::Known(place, is_lower) => known(if is_lower { lower_names } else { names }, place)?,
            Name::Spelled(name) => text_of(python, name, ESCAPE)?,
        };
        let value = match value {
            Text::Known(place) => known(values, place)?,
            Text::Date(date) => text_of(python, &date, ESCAPE)?,
            Text::Spelled(value) => text_of(python, value, ESCAPE)?,
        };
        pairs.append((name, value))?;
    }
    Ok(Some(pairs.to_tuple()))
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(encode_headers, module)?)?;
    module.add_function(wrap_pyfunction!(validators, module)?)?;
    module.add_function(wrap_pyfunction!(decode_headers, module)?)
}
