//! Keys for Python: row keys of plain URLs, rows of postings, and the cells of a batch of LevelDB.
//!
//! Deletes of cells, and what may have to be refused, are left to Python, by giving None or false.

use docstore_store::keys;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::convert::corrupt;
use crate::filter::RowFilter;
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

type LevelDbCell<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// What a cell of Python may be: its type, the families that may be written, and the most bytes of a value.
struct Accepted<'a, 'py> {
    families: &'a Bound<'py, PyDict>,
    set_cell: &'a Bound<'py, PyAny>,
    largest_bytes: usize,
}

impl<'py> Accepted<'_, 'py> {
    /// Add the cells of a row; None if it has anything else, or a cell that may be refused.
    fn add_row(
        &self,
        row: &Bound<'py, PyAny>,
        cells: &mut Vec<LevelDbCell<'py>>,
        filter: &Bound<'py, RowFilter>,
    ) -> Option<()> {
        let (table, row_key, mutations) =
            row.extract::<(Bound<'_, PyString>, Bound<'_, PyBytes>, Bound<'_, PyAny>)>().ok()?;
        let (tag, bare_family) = keys::table(table.to_str().ok()?)?;
        let mut key = Vec::with_capacity(row_key.as_bytes().len() + 64);
        key.push(tag);
        keys::push_escaped(&mut key, row_key.as_bytes());
        let prefix_bytes = key.len();
        filter.borrow_mut().filter.add(&key);
        for mutation in mutations.try_iter().ok()? {
            let cell = mutation.ok().filter(|cell| cell.get_type().is(self.set_cell))?;
            let (family, qualifier, timestamp, value) =
                cell.extract::<(Bound<'_, PyString>, Bound<'_, PyBytes>, u64, Bound<'_, PyBytes>)>().ok()?;
            let (family_name, qualifier, bytes) = (family.to_str().ok()?, qualifier.as_bytes(), value.as_bytes().len());
            key.truncate(prefix_bytes);
            if let Some(only) = bare_family {
                if timestamp != 0 || bytes > 0 || family_name != only {
                    return None;
                }
                key.extend_from_slice(qualifier);
            } else {
                if bytes > self.largest_bytes || !self.families.contains(&family).ok()? {
                    return None;
                }
                keys::push_cell(&mut key, family_name.as_bytes(), qualifier, timestamp)?;
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
    families: &Bound<'py, PyDict>,
    set_cell: &Bound<'py, PyAny>,
    largest_bytes: usize,
    filter: &Bound<'py, RowFilter>,
) -> PyResult<bool> {
    let accepted = Accepted { families, set_cell, largest_bytes };
    let mut cells = Vec::new();
    for row in rows.try_iter()? {
        if accepted.add_row(&row?, &mut cells, filter).is_none() {
            return Ok(false);
        }
    }
    for cell in cells {
        put.call1(cell)?;
    }
    Ok(true)
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
    module.add_function(wrap_pyfunction!(prefix_length, module)?)?;
    module.add_function(wrap_pyfunction!(put_cells, module)?)
}
