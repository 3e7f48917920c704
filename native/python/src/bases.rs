//! Bases of deltas for Python: `docstore_store::bases`, which asks one function of Python for what no cache has.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use docstore_frames::Name;
use docstore_store::bases::{self, name_of, Pointer, Reads, Stored, LARGEST_BASE_BYTES};
use docstore_store::pages::Bytes;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PySet, PyString};

use crate::asking::CacheCounts;
use crate::convert::{defect, detached, SHORT_BYTES};

/// The fields of `model.capture.PagePointer`.
pub type GivenPointer<'py> = (u64, Bound<'py, PyBytes>);

pub fn pointer_of((timestamp, row_key): GivenPointer<'_>) -> Pointer {
    Pointer { timestamp, row_key: row_key.as_bytes().into() }
}

/// The function of Python that reads what no cache has, and the names of bases that are about to be freed.
#[derive(FromPyObject)]
pub struct Reader<'py>(Bound<'py, PyAny>, Bound<'py, PySet>);

impl<'py> Reader<'py> {
    fn bytes(&self, bytes: &[u8]) -> Bound<'py, PyBytes> {
        PyBytes::new(self.0.py(), bytes)
    }

    fn text(&self, text: &str) -> Bound<'py, PyString> {
        PyString::intern(self.0.py(), text)
    }
}

impl Reads<Bytes> for Reader<'_> {
    type Error = PyErr;

    fn page(&mut self, page: &Pointer) -> PyResult<[Vec<u8>; 2]> {
        let found = self.0.call1((self.text("page"), self.bytes(&page.row_key), page.timestamp))?;
        let (body, text): (Option<Vec<u8>>, Option<Vec<u8>>) = found.extract()?;
        Ok([body.unwrap_or_default(), text.unwrap_or_default()])
    }

    fn value(&mut self, cell_value: &[u8], column: usize, page: &Pointer) -> PyResult<Option<Stored<Bytes>>> {
        let what = self.text(["body", "text"][column]);
        let found = self.0.call1((what, self.bytes(&page.row_key), page.timestamp, self.bytes(cell_value)))?;
        let Some((raw, base)) = found.extract::<Option<(PyBackedBytes, Vec<u8>)>>()? else { return Ok(None) };
        Ok(Some(Name::try_from(base).map_or_else(|_| Stored::Whole(Bytes::new(raw)), Stored::DeltaOf)))
    }

    fn row(&mut self, name: &Name) -> PyResult<Vec<u8>> {
        self.0.call1((self.text("row"), self.bytes(name)))?.extract()
    }

    fn is_sound(&mut self, cell_value: &[u8]) -> PyResult<bool> {
        self.0.call1((self.text("sound"), self.bytes(cell_value)))?.extract()
    }

    fn is_retired(&mut self, name: &Name) -> PyResult<bool> {
        Ok(!self.1.is_empty() && self.1.contains(self.bytes(name))?)
    }
}

/// Stored values that deltas are made against.  REQUIRES: the committer's lock.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct Bases {
    held: Mutex<bases::Bases<Bytes>>,
    /// A handler of a signal has committed while a group was made: nothing that is cached is sure.
    missed: AtomicBool,
}

impl Bases {
    pub fn lock(&self) -> PyResult<MutexGuard<'_, bases::Bases<Bytes>>> {
        match self.held.try_lock() {
            Ok(mut held) => {
                if self.missed.swap(false, Ordering::Relaxed) {
                    held.clear();
                }
                Ok(held)
            }
            Err(TryLockError::Poisoned(poisoned)) => {
                self.held.clear_poison();
                let mut held = poisoned.into_inner();
                held.drop_new();
                held.clear();
                Ok(held)
            }
            Err(TryLockError::WouldBlock) => Err(defect("bases are in use by another thread")),
        }
    }
}

type GivenBase<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

#[pymethods]
impl Bases {
    /// Bytes that may be held: of values, of rows, of newest pages; and of one entry.
    #[new]
    fn new(values: usize, rows: usize, newest: usize, entry: usize) -> Self {
        let held = Mutex::new(bases::Bases::new(values, rows, newest, entry));
        Self { held, missed: AtomicBool::new(false) }
    }

    /// Of the caches of values, rows and newest pages.
    fn counts(&self) -> PyResult<[CacheCounts; 3]> {
        Ok(self.lock()?.counts().map(CacheCounts))
    }

    /// Name, bytes and cell value of the base for a value that resembles a stored one: column 0 is a body, 1 a text.
    fn base_for<'py>(
        &self,
        python: Python<'py>,
        mut reader: Reader<'py>,
        cell_value: &[u8],
        column: usize,
        page: GivenPointer<'py>,
    ) -> PyResult<Option<GivenBase<'py>>> {
        let Some(base) = self.lock()?.base_for(&mut reader, cell_value, column, &pointer_of(page))? else {
            return Ok(None);
        };
        let raw = PyBytes::new(python, (*base.raw).as_ref());
        Ok(Some((PyBytes::new(python, &base.name), raw, PyBytes::new(python, &base.cell_value))))
    }

    /// After a commit that changed the rows of bases with these names.
    fn follow(&self, changed: Vec<PyBackedBytes>, is_sure: bool) -> PyResult<()> {
        if matches!(self.held.try_lock(), Err(TryLockError::WouldBlock)) {
            self.missed.store(true, Ordering::Relaxed);
            return Ok(());
        }
        self.lock()?.follow(changed.iter().map(|name| &name[..]), is_sure);
        Ok(())
    }

    fn drop_new(&self) -> PyResult<()> {
        self.lock()?.drop_new();
        Ok(())
    }

    fn clear(&self) -> PyResult<()> {
        self.lock()?.clear();
        Ok(())
    }
}

/// The name of a value as a base or dictionary.
#[pyfunction]
fn value_name<'py>(python: Python<'py>, raw: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let name = if raw.len() < SHORT_BYTES { name_of(raw) } else { detached(python, || name_of(raw))? };
    Ok(PyBytes::new(python, &name))
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("LARGEST_BASE_BYTES", LARGEST_BASE_BYTES)?;
    module.add_class::<Bases>()?;
    module.add_function(wrap_pyfunction!(value_name, module)?)
}
