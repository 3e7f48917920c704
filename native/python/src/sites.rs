//! Dictionaries of sites for Python, which keeps their files, their rows, and the prepared ones; see `docstore-frames`.

use docstore_frames::{site_of as site, Limits, Name, Shelf, Sites, PIECE_BYTES};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::cache::LruCache;

/// What Python keeps: the prepared ones, and functions that give the row of a scope and the tablet of a row, write a
/// dictionary, and prepare one.
#[derive(FromPyObject)]
struct Kept<'py>(Bound<'py, LruCache>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

impl<'py> Kept<'py> {
    fn bytes(&self, bytes: &[u8]) -> Bound<'py, PyBytes> {
        PyBytes::new(self.0.py(), bytes)
    }
}

impl<'py> Shelf for Kept<'py> {
    type Dictionary = Bound<'py, PyAny>;
    type Error = PyErr;

    fn stored(&mut self, scope: &[u8]) -> PyResult<Option<(usize, Name)>> {
        let row: Option<Bound<'py, PyBytes>> = self.1.call1((self.bytes(scope),))?.extract()?;
        let stored = row.as_ref().and_then(|row| row.as_bytes().split_first());
        Ok(stored.and_then(|(stage, name)| Some((usize::from(*stage), name.try_into().ok()?))))
    }

    fn tablet(&mut self, row_key: &[u8]) -> PyResult<u64> {
        self.2.call1((self.bytes(row_key),))?.extract()
    }

    fn write(&mut self, content: &[u8], is_last: bool) -> PyResult<Name> {
        let name = self.3.call1((self.bytes(content), is_last))?;
        Ok(name.cast::<PyBytes>()?.as_bytes().try_into()?)
    }

    fn prepared(&mut self, name: &Name) -> PyResult<Option<Self::Dictionary>> {
        let found = self.0.borrow_mut().get(self.bytes(name).as_any())?;
        Ok(found.map(|found| found.into_bound(self.0.py())))
    }

    fn prepare(&mut self, name: &Name) -> PyResult<Option<Self::Dictionary>> {
        let made = self.4.call1((self.bytes(name),))?;
        Ok((!made.is_none()).then_some(made))
    }
}

/// Chooses the dictionary of each value, and makes new ones from the values.
#[pyclass(module = "docstore.dedup.docstore_native")]
struct SiteScopes(Sites);

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

    fn choose<'py>(
        &mut self,
        mut kept: Kept<'py>,
        row_key: &[u8],
        column: &[u8],
        raw: &[u8],
        samples: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.choose(&mut kept, (row_key, column), raw, samples)
    }

    fn sample(&mut self, mut kept: Kept<'_>, row_key: &[u8], column: &[u8], raw: &[u8]) -> PyResult<()> {
        self.0.sample(&mut kept, (row_key, column), raw)
    }

    fn note_gain(
        &mut self,
        mut kept: Kept<'_>,
        row_key: &[u8],
        column: &[u8],
        sizes: (usize, usize),
        dictionary: &[u8],
    ) -> PyResult<()> {
        self.0.note_gain(&mut kept, (row_key, column), sizes, dictionary.try_into()?)
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
    module.add_class::<SiteScopes>()?;
    module.add_function(wrap_pyfunction!(site_of, module)?)
}
