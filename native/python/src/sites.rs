//! Dictionaries of sites for Python, which keeps their files, their rows, and the prepared ones; see `docstore-frames`.

use std::panic::catch_unwind;

use docstore_frames::{site_of as site, Limits, Name, Shelf, Sites, Tablet, LEVEL, PIECE_BYTES};
use docstore_store::bases::name_of;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::cache::LruCache;
use crate::convert::defect;

/// A raw-content dictionary, indexed once for any number of threads.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct Dictionary {
    pub frames: docstore_frames::Dictionary,
    pub name: Name,
}

#[pymethods]
impl Dictionary {
    /// `checksum`: of the content, if the caller knows it.
    #[new]
    #[pyo3(signature = (content, level = LEVEL, checksum = None))]
    fn new(python: Python<'_>, content: &[u8], level: i32, checksum: Option<[u8; 16]>) -> PyResult<Self> {
        let made = python.detach(|| catch_unwind(|| docstore_frames::Dictionary::new(content, level)));
        let frames = made.map_err(|_| defect("indexing a dictionary panicked"))?;
        Ok(Self { frames, name: checksum.unwrap_or_else(|| name_of(content)) })
    }

    /// 16 bytes; names it in records.
    #[getter]
    fn checksum<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, &self.name)
    }

    /// What it holds.
    #[getter]
    fn memory_bytes(&self) -> usize {
        self.frames.capacity()
    }
}

/// What Python keeps: the prepared ones, and functions that give the row of a scope and the tablet of a row, write a
/// dictionary, and prepare one.
#[derive(FromPyObject)]
pub struct Kept<'py>(Bound<'py, LruCache>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

impl<'py> Kept<'py> {
    fn bytes(&self, bytes: &[u8]) -> Bound<'py, PyBytes> {
        PyBytes::new(self.0.py(), bytes)
    }
}

impl<'py> Shelf for Kept<'py> {
    type Dictionary = Bound<'py, Dictionary>;
    type Error = PyErr;

    fn stored(&mut self, scope: &[u8]) -> PyResult<Option<(usize, Name)>> {
        let row: Option<Bound<'py, PyBytes>> = self.1.call1((self.bytes(scope),))?.extract()?;
        let stored = row.as_ref().and_then(|row| row.as_bytes().split_first());
        Ok(stored.and_then(|(stage, name)| Some((usize::from(*stage), name.try_into().ok()?))))
    }

    fn tablet(&mut self, row_key: &[u8]) -> PyResult<Tablet> {
        let (number, start, end, _): (_, _, _, u64) = self.2.call1((self.bytes(row_key),))?.extract()?;
        Ok(Tablet { number, start, end })
    }

    fn write(&mut self, content: &[u8], is_last: bool) -> PyResult<Name> {
        let name = self.3.call1((self.bytes(content), is_last))?;
        Ok(name.cast::<PyBytes>()?.as_bytes().try_into()?)
    }

    fn prepared(&mut self, name: &Name) -> PyResult<Option<Self::Dictionary>> {
        let found = self.0.borrow_mut().get(self.bytes(name).as_any())?;
        Ok(found.map(|found| found.into_bound(self.0.py()).cast_into()).transpose()?)
    }

    fn prepare(&mut self, name: &Name) -> PyResult<Option<Self::Dictionary>> {
        Ok(self.4.call1((self.bytes(name),))?.extract()?)
    }
}

/// Chooses the dictionary of each value, and makes new ones from the values.
#[pyclass(module = "docstore.dedup.docstore_native")]
pub struct SiteScopes(pub Sites);

#[pymethods]
impl SiteScopes {
    /// Stages; most scopes, most bytes of samples; values a load, most that count; bytes and factor of a fading gain.
    #[new]
    fn new(stages: Vec<(usize, usize)>, scopes: (usize, usize), loads: (usize, usize), gain: (usize, f64)) -> Self {
        let (most_scopes, most_sample_bytes) = scopes;
        let (values_a_load, most_earned) = loads;
        let (gain_bytes, faded) = gain;
        let limits = Limits { stages, most_scopes, most_sample_bytes, values_a_load, most_earned, gain_bytes, faded };
        Self(Sites::new(limits))
    }

    #[getter]
    fn sample_bytes(&self) -> usize {
        self.0.sample_bytes()
    }

    fn take_changed<'py>(&mut self, python: Python<'py>) -> Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let bytes = |raw: Vec<u8>| PyBytes::new(python, &raw);
        self.0.take_changed().into_iter().map(|(name, row)| (bytes(name), bytes(row))).collect()
    }

    fn forget(&mut self) {
        self.0.forget();
    }
}

/// The name of a row's site, and what all its row keys begin with.
#[pyfunction]
fn site_of<'py>(python: Python<'py>, row_key: &[u8]) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
    let (name, start) = site(row_key);
    (PyBytes::new(python, &name), PyBytes::new(python, start))
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("PIECE_BYTES", PIECE_BYTES)?;
    module.add_class::<Dictionary>()?;
    module.add_class::<SiteScopes>()?;
    module.add_function(wrap_pyfunction!(site_of, module)?)
}
