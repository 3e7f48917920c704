//! Keys for Python: row keys of plain URLs, rows of postings, and parts of LevelDB's keys.

use docstore_store::keys;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::corrupt;
use crate::text::WORDS;

/// The row key of a URL that is canonical as it is written, as most are; None for any other.
#[pyfunction]
fn plain_row_key<'py>(url: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
    let key = keys::plain_row_key(url.extract::<&str>().ok()?)?;
    Some(PyBytes::new(url.py(), &key))
}

/// The part of a row key that names its host; b"" if it has none.
#[pyfunction]
fn host_of<'py>(python: Python<'py>, row_key: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(python, keys::host_of(row_key))
}

/// The name of the host of a row, without a leading `www.` or `m.`; for a row without a host its whole key.
#[pyfunction]
fn site<'py>(python: Python<'py>, row_key: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(python, keys::site(row_key))
}

/// The rows of postings of a page: by its body, its text, and its text and title; b"" for a text that is not compared.
#[pyfunction]
fn posting_rows<'py>(
    python: Python<'py>,
    body_checksum: &[u8],
    text_checksum: &[u8],
    title: &[u8],
) -> Vec<Bound<'py, PyBytes>> {
    let mut words = WORDS.take();
    let rows = keys::posting_rows(body_checksum, text_checksum, title, &mut words);
    WORDS.set(words);
    rows.iter().map(|row| PyBytes::new(python, row)).collect()
}

/// Bytes with their zeros escaped, and the end.
#[pyfunction]
fn escape<'py>(python: Python<'py>, raw: &[u8]) -> Bound<'py, PyBytes> {
    let mut escaped = Vec::with_capacity(raw.len() + 8);
    keys::push_escaped(&mut escaped, raw);
    PyBytes::new(python, &escaped)
}

/// The row key of a row prefix.
#[pyfunction]
fn row_key_of<'py>(python: Python<'py>, prefix: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(python, &keys::row_key_of(prefix))
}

/// Length of the row prefix of a key.
#[pyfunction]
fn prefix_length(python: Python<'_>, key: &[u8]) -> PyResult<usize> {
    keys::row_prefix_end(key).ok_or_else(|| {
        let found: String = key.iter().take(60).map(|byte| format!("{byte:02x}")).collect();
        corrupt(python, "a key has no end of its row key", None, "", &found)
    })
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(plain_row_key, module)?)?;
    module.add_function(wrap_pyfunction!(host_of, module)?)?;
    module.add_function(wrap_pyfunction!(site, module)?)?;
    module.add_function(wrap_pyfunction!(posting_rows, module)?)?;
    module.add_function(wrap_pyfunction!(escape, module)?)?;
    module.add_function(wrap_pyfunction!(row_key_of, module)?)?;
    module.add_function(wrap_pyfunction!(prefix_length, module)?)
}
