//! Cells on their way into a batch of sorted keys: `engines.cellbatch.encode` in native code.
//!
//! Knows tuples of Python and nothing of any engine: every byte that marks something is handed in.  What it does not
//! know it leaves to the reference, by giving None.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple, PyType};

/// Encodes the cells of rows as keys and values.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct CellEncoder {
    tags: Py<PyDict>,
    bare: Py<PyDict>,
    set_cell: Py<PyType>,
    escape: Vec<u8>,
    end: Vec<u8>,
    kind: Vec<u8>,
    largest_bytes: usize,
}

impl CellEncoder {
    /// Append bytes with every zero byte escaped, and the end mark.
    fn push_escaped(&self, key: &mut Vec<u8>, raw: &[u8]) {
        if raw.contains(&0) {
            for &byte in raw {
                if byte == 0 {
                    key.extend_from_slice(&self.escape);
                } else {
                    key.push(byte);
                }
            }
        } else {
            key.extend_from_slice(raw);
        }
        key.extend_from_slice(&self.end);
    }

    /// One cell of a bare table: its key; None for what the reference refuses.
    fn push_bare(key: &mut Vec<u8>, only_family: &str, cell: &Bound<'_, PyTuple>) -> PyResult<Option<()>> {
        let (family, qualifier, timestamp, value) =
            (cell.get_item(0)?, cell.get_item(1)?, cell.get_item(2)?, cell.get_item(3)?);
        let (Ok(family), Ok(qualifier), Ok(value)) =
            (family.cast::<PyString>(), qualifier.cast::<PyBytes>(), value.cast::<PyBytes>())
        else {
            return Ok(None);
        };
        let is_zero = timestamp.extract::<i64>().is_ok_and(|micros| micros == 0);
        if family.to_cow()? != only_family || !is_zero || !value.as_bytes().is_empty() {
            return Ok(None);
        }
        key.extend_from_slice(qualifier.as_bytes());
        Ok(Some(()))
    }
}

#[pymethods]
impl CellEncoder {
    /// What marks things: tags of tables, the family of each bare table, the type of a cell, how a zero byte and an
    /// end are written, the kind of a cell's key, and the longest value.
    #[new]
    fn new(
        tags: Py<PyDict>,
        bare: Py<PyDict>,
        set_cell: Py<PyType>,
        escape: Vec<u8>,
        end: Vec<u8>,
        kind: Vec<u8>,
        largest_bytes: usize,
    ) -> Self {
        Self { tags, bare, set_cell, escape, end, kind, largest_bytes }
    }

    /// Keys and values of all cells, in order; None where the reference has to look at them.
    fn encode<'py>(
        &self,
        python: Python<'py>,
        rows: &Bound<'py, PyAny>,
        epoch: &[u8],
        families: &Bound<'py, PyDict>,
    ) -> PyResult<Option<(Bound<'py, PyList>, Bound<'py, PyList>)>> {
        let (keys, values) = (PyList::empty(python), PyList::empty(python));
        let (tags, bare, set_cell) = (self.tags.bind(python), self.bare.bind(python), self.set_cell.bind(python));
        let nothing = PyBytes::new(python, b"");
        let mut key = Vec::with_capacity(256);
        let mut stored = Vec::with_capacity(1024);
        for row in rows.try_iter()? {
            let row = row?;
            let Ok(row) = row.cast::<PyTuple>() else { return Ok(None) };
            let (table, row_key, mutations) = (row.get_item(0)?, row.get_item(1)?, row.get_item(2)?);
            let Some(tag) = tags.get_item(&table)? else { return Ok(None) };
            let Ok(row_key) = row_key.cast::<PyBytes>() else { return Ok(None) };
            key.clear();
            key.extend_from_slice(tag.cast::<PyBytes>()?.as_bytes());
            self.push_escaped(&mut key, row_key.as_bytes());
            let only_family = bare.get_item(&table)?.map(|family| family.extract::<String>()).transpose()?;
            if only_family.is_none() {
                key.extend_from_slice(&self.kind);
            }
            let prefix_bytes = key.len();
            for mutation in mutations.try_iter()? {
                let mutation = mutation?;
                if !mutation.get_type().is(set_cell) {
                    return Ok(None);
                }
                let cell = mutation.cast::<PyTuple>()?;
                key.truncate(prefix_bytes);
                if let Some(only_family) = &only_family {
                    if Self::push_bare(&mut key, only_family, cell)?.is_none() {
                        return Ok(None);
                    }
                    keys.append(PyBytes::new(python, &key))?;
                    values.append(&nothing)?;
                    continue;
                }
                let (family, qualifier, timestamp, value) =
                    (cell.get_item(0)?, cell.get_item(1)?, cell.get_item(2)?, cell.get_item(3)?);
                let Some(family_key) = families.get_item(&family)? else { return Ok(None) };
                let (Ok(qualifier), Ok(micros), Ok(value)) =
                    (qualifier.cast::<PyBytes>(), timestamp.extract::<i64>(), value.cast::<PyBytes>())
                else {
                    return Ok(None);
                };
                let value = value.as_bytes();
                if micros < 0 || value.len() > self.largest_bytes {
                    return Ok(None);
                }
                key.extend_from_slice(family_key.cast::<PyBytes>()?.as_bytes());
                self.push_escaped(&mut key, qualifier.as_bytes());
                key.extend_from_slice(&(i64::MAX - micros).to_be_bytes());
                stored.clear();
                stored.extend_from_slice(epoch);
                stored.extend_from_slice(value);
                keys.append(PyBytes::new(python, &key))?;
                values.append(PyBytes::new(python, &stored))?;
            }
        }
        Ok(Some((keys, values)))
    }
}
