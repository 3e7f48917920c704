//! What a verdict is decided by, for Python: `docstore_kernel::{indexed, pairs, sketches}` over buffers.
//!
//! The GIL stays held: the pages that one page is compared with take less time than to let it go and take it again.

use std::sync::OnceLock;

use docstore_kernel::indexed::Index;
use docstore_kernel::pairs::{overlap as overlap_of, FAR_LARGER};
use docstore_kernel::sketches::{self, Bounds, Look};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The members of a set, in place: to copy two sets takes as long as to compare them.
fn members<'a>(set: &'a PyBuffer<u64>, _python: Python<'a>) -> PyResult<&'a [u64]> {
    if !set.is_c_contiguous() {
        return Err(PyValueError::new_err("a set must be one piece of memory"));
    }
    if set.item_count() == 0 {
        return Ok(&[]);
    }
    // SAFETY: the buffer is contiguous, of u64 as `PyBuffer` has checked, aligned for it, and exported for as long as
    // `set` lives, which the result borrows.  Nobody writes to it meanwhile: the GIL is held, and no Python code runs.
    Ok(unsafe { std::slice::from_raw_parts(set.buf_ptr().cast::<u64>(), set.item_count()) })
}

/// How many values two sorted sets share.
#[pyfunction]
fn overlap(python: Python<'_>, first: PyBuffer<u64>, second: PyBuffer<u64>) -> PyResult<usize> {
    Ok(overlap_of(members(&first, python)?, members(&second, python)?))
}

/// A sorted set over a buffer that nobody changes, to be compared with others again and again.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
struct ShingleSet {
    buffer: PyBuffer<u64>,
    /// Made when it is first the larger one of two.
    index: OnceLock<Option<Index>>,
}

#[pymethods]
impl ShingleSet {
    #[new]
    fn new(python: Python<'_>, buffer: PyBuffer<u64>) -> PyResult<Self> {
        members(&buffer, python)?;
        Ok(Self { buffer, index: OnceLock::new() })
    }

    fn __len__(&self) -> usize {
        self.buffer.item_count()
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.buffer.len_bytes()
    }

    /// How many values it shares with each of others.
    fn shared(&self, python: Python<'_>, others: Vec<PyRef<'_, Self>>) -> PyResult<Vec<usize>> {
        others.iter().map(|other| self.shared_with(python, other)).collect()
    }
}

impl ShingleSet {
    fn shared_with(&self, python: Python<'_>, other: &Self) -> PyResult<usize> {
        let (smaller, larger) = if self.__len__() <= other.__len__() { (self, other) } else { (other, self) };
        let (few, many) = (members(&smaller.buffer, python)?, members(&larger.buffer, python)?);
        if larger.index.get().is_none() && few.len() * FAR_LARGER < many.len() {
            return Ok(overlap_of(few, many));
        }
        let index = larger.index.get_or_init(|| Index::new(many));
        Ok(index.as_ref().map_or_else(|| overlap_of(few, many), |index| index.shared(many, few)))
    }
}

/// The last sketches by text number.
#[pyclass(module = "docstore.dedup.docstore_native")]
struct Sketches(sketches::Sketches);

#[pymethods]
impl Sketches {
    #[new]
    fn new(limit: usize, least_estimate: f64, margin: f64, least_contained: f64) -> Self {
        Self(sketches::Sketches::new(limit, Bounds { least_estimate, margin, least_contained }))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn put(&mut self, number: u64, sketch: &[u8], shingle_count: u64) {
        self.0.put(number, sketch, shingle_count);
    }

    /// Of some texts those that are not ruled out, in order, each with whether its sketch is held.
    fn left(&self, sketch: &[u8], shingle_count: u64, numbers: Vec<u64>) -> Vec<(u64, bool)> {
        let look = |number| match self.0.look(sketch, shingle_count, number) {
            Look::RuledOut => None,
            Look::Worth => Some((number, true)),
            Look::Unknown => Some((number, false)),
        };
        numbers.into_iter().filter_map(look).collect()
    }
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Sketches>()?;
    module.add_class::<ShingleSet>()?;
    module.add_function(wrap_pyfunction!(overlap, module)?)
}
