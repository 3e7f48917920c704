//! Cells on their way into a batch of sorted keys: `engines.cellbatch.encode` in native code.
//!
//! Knows tuples of Python and nothing of any engine: every byte that marks something is handed in.  What it does not
//! know it leaves to the reference, by giving None.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple, PyType};

/// Encodes the cells of rows as keys and values.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct CellEncoder {
    tags: Py<PyDict>,
    bare: Py<PyDict>,
    set_cell: Py<PyType>,
    cells_at: Py<PyType>,
    escape: Vec<u8>,
    end: Vec<u8>,
    kind: Vec<u8>,
    largest_bytes: usize,
}

/// Keys and values as they grow, and buffers for one of each.
struct Batch<'a, 'py> {
    keys: Bound<'py, PyList>,
    values: Bound<'py, PyList>,
    key: Vec<u8>,
    stored: Vec<u8>,
    families: &'a Bound<'py, PyDict>,
    epoch: &'a [u8],
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

    /// Append one cell whose row's key is in the batch; None for what the reference refuses.
    fn push_cell<'py>(
        &self,
        batch: &mut Batch<'_, 'py>,
        family: &Bound<'py, PyAny>,
        qualifier: &Bound<'py, PyAny>,
        micros: i64,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Option<()>> {
        // By way of `__missing__`, which makes the key of a family that comes for the first time, or refuses it.
        let Ok(family_key) = batch.families.as_any().get_item(family) else { return Ok(None) };
        let (Ok(qualifier), Ok(value)) = (qualifier.cast::<PyBytes>(), value.cast::<PyBytes>()) else {
            return Ok(None);
        };
        let (python, value) = (value.py(), value.as_bytes());
        if micros < 0 || value.len() > self.largest_bytes {
            return Ok(None);
        }
        let prefix_bytes = batch.key.len();
        batch.key.extend_from_slice(family_key.cast::<PyBytes>()?.as_bytes());
        self.push_escaped(&mut batch.key, qualifier.as_bytes());
        batch.key.extend_from_slice(&(i64::MAX - micros).to_be_bytes());
        batch.stored.clear();
        batch.stored.extend_from_slice(batch.epoch);
        batch.stored.extend_from_slice(value);
        batch.keys.append(PyBytes::new(python, &batch.key))?;
        batch.values.append(PyBytes::new(python, &batch.stored))?;
        batch.key.truncate(prefix_bytes);
        Ok(Some(()))
    }

    /// Append the cells of one timestamp.
    fn push_cells_at<'py>(&self, batch: &mut Batch<'_, 'py>, cells: &Bound<'py, PyAny>) -> PyResult<Option<()>> {
        let python = cells.py();
        let values = cells.getattr(intern!(python, "values"))?;
        let Ok(micros) = cells.getattr(intern!(python, "timestamp"))?.extract::<i64>() else { return Ok(None) };
        let Ok(values) = values.cast::<PyDict>() else { return Ok(None) };
        for (column, value) in values.iter() {
            let Ok(column) = column.cast::<PyTuple>() else { return Ok(None) };
            let (family, qualifier) = (column.get_item(0)?, column.get_item(1)?);
            if self.push_cell(batch, &family, &qualifier, micros, &value)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
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
    /// What marks things: tags of tables, the family of each bare table, the types of a cell and of cells of one
    /// timestamp, how a zero byte and an end are written, the kind of a cell's key, and the longest value.
    #[new]
    fn new(
        tags: Py<PyDict>,
        bare: Py<PyDict>,
        types: (Py<PyType>, Py<PyType>),
        escape: Vec<u8>,
        end: Vec<u8>,
        kind: Vec<u8>,
        largest_bytes: usize,
    ) -> Self {
        Self { tags, bare, set_cell: types.0, cells_at: types.1, escape, end, kind, largest_bytes }
    }

    /// Keys and values of all cells, in order; None where the reference has to look at them.
    fn encode<'py>(
        &self,
        python: Python<'py>,
        rows: &Bound<'py, PyAny>,
        epoch: &[u8],
        families: &Bound<'py, PyDict>,
    ) -> PyResult<Option<(Bound<'py, PyList>, Bound<'py, PyList>)>> {
        let (tags, bare) = (self.tags.bind(python), self.bare.bind(python));
        let (set_cell, cells_at) = (self.set_cell.bind(python), self.cells_at.bind(python));
        let nothing = PyBytes::new(python, b"");
        let mut batch = Batch {
            keys: PyList::empty(python),
            values: PyList::empty(python),
            key: Vec::with_capacity(256),
            stored: Vec::with_capacity(1024),
            families,
            epoch,
        };
        for row in rows.try_iter()? {
            let row = row?;
            let Ok(row) = row.cast::<PyTuple>() else { return Ok(None) };
            let (table, row_key, mutations) = (row.get_item(0)?, row.get_item(1)?, row.get_item(2)?);
            let Some(tag) = tags.get_item(&table)? else { return Ok(None) };
            let Ok(row_key) = row_key.cast::<PyBytes>() else { return Ok(None) };
            batch.key.clear();
            batch.key.extend_from_slice(tag.cast::<PyBytes>()?.as_bytes());
            self.push_escaped(&mut batch.key, row_key.as_bytes());
            let only_family = bare.get_item(&table)?.map(|family| family.extract::<String>()).transpose()?;
            if only_family.is_none() {
                batch.key.extend_from_slice(&self.kind);
                if mutations.get_type().is(cells_at) {
                    if self.push_cells_at(&mut batch, &mutations)?.is_none() {
                        return Ok(None);
                    }
                    continue;
                }
            }
            let prefix_bytes = batch.key.len();
            for mutation in mutations.try_iter()? {
                let mutation = mutation?;
                if !mutation.get_type().is(set_cell) {
                    return Ok(None);
                }
                let cell = mutation.cast::<PyTuple>()?;
                if let Some(only_family) = &only_family {
                    batch.key.truncate(prefix_bytes);
                    if Self::push_bare(&mut batch.key, only_family, cell)?.is_none() {
                        return Ok(None);
                    }
                    batch.keys.append(PyBytes::new(python, &batch.key))?;
                    batch.values.append(&nothing)?;
                    continue;
                }
                let Ok(micros) = cell.get_item(2)?.extract::<i64>() else { return Ok(None) };
                if self
                    .push_cell(&mut batch, &cell.get_item(0)?, &cell.get_item(1)?, micros, &cell.get_item(3)?)?
                    .is_none()
                {
                    return Ok(None);
                }
            }
        }
        Ok(Some((batch.keys, batch.values)))
    }
}
