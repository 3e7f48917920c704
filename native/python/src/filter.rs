//! The filter of a store's rows, for Python: what it says about LevelDB's keys is decided in `tablets.engines.leveldb`.

use docstore_kernel::filter::Filter;
use docstore_store::keys::row_prefix_end;
use docstore_store::record::{sealed, unsealed};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// Prefixes of the rows in LevelDB, within so many bytes of memory.
#[pyclass(module = "docstore.dedup.docstore_native")]
pub struct RowFilter {
    pub filter: Filter,
}

#[pymethods]
impl RowFilter {
    #[new]
    fn new(most_bytes: usize) -> Self {
        Self { filter: Filter::new(most_bytes) }
    }

    /// The filter that was dumped with a head; None if it is another's, damaged, or takes more than so many bytes.
    #[staticmethod]
    fn load(raw: &[u8], head: &[u8], most_bytes: usize) -> Option<Self> {
        let layers = unsealed(raw)?.strip_prefix(head)?;
        Some(Self { filter: Filter::load(layers, most_bytes)? })
    }

    /// Head, layers and their CRC-32.
    fn dump<'py>(&self, python: Python<'py>, head: &[u8]) -> Bound<'py, PyBytes> {
        PyBytes::new(python, &sealed([head, &self.filter.dump()].concat()))
    }

    fn size_bytes(&self) -> usize {
        self.filter.bytes()
    }

    /// Whether a row of this prefix may have been added; False is certain.
    fn may_have(&self, prefix: &[u8]) -> bool {
        self.filter.may_have(prefix)
    }

    /// Add the rows of keys, which are sorted.
    fn add_rows_of(&mut self, keys: &Bound<'_, PyList>) -> PyResult<()> {
        let mut last = Vec::new();
        for key in keys.iter() {
            let key = key.cast::<PyBytes>()?.as_bytes();
            if last.is_empty() || !key.starts_with(&last) {
                last = key[..row_prefix_end(key).unwrap_or(key.len())].to_vec();
                self.filter.add(&last);
            }
        }
        Ok(())
    }
}
