//! Sets and sketches of shingles for Python: `docstore_kernel::{pairs, sketches}` over buffers.

use docstore_kernel::pairs::overlap as overlap_of;
use docstore_kernel::sketch::{self, BINS};
use docstore_kernel::sketches;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

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

/// Numbers, such as a sorted set, in a buffer that nobody changes.
pub struct Shared(PyBuffer<u64>);

impl Shared {
    pub fn new(python: Python<'_>, buffer: PyBuffer<u64>) -> PyResult<Self> {
        members(&buffer, python)?;
        Ok(Self(buffer))
    }
}

impl AsRef<[u64]> for Shared {
    fn as_ref(&self) -> &[u64] {
        if self.0.item_count() == 0 {
            return &[];
        }
        // SAFETY: `new` has asked `members`, the buffer is exported for as long as `self` lives, and nobody ever writes
        // to the numbers that are handed over so, with the GIL or without it.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast::<u64>(), self.0.item_count()) }
    }
}

/// The estimate of the Jaccard coefficient of two sets from their sketches.
#[pyfunction]
fn sketch_similarity(first: &[u8], second: &[u8]) -> f64 {
    sketches::similarity(first, second)
}

/// The sketches of sets, one after the other, a byte a bin; of an empty set zeros.
///
/// Set i has `members[starts[i]..starts[i + 1]]`.
#[pyfunction]
fn sketches_of_sets<'py>(
    python: Python<'py>,
    starts: PyBuffer<u64>,
    members: PyBuffer<u64>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (starts, members) = (starts.to_vec(python)?, Shared::new(python, members)?);
    let bins = crate::convert::detached(python, || {
        let mut bins = Vec::with_capacity(starts.len() * BINS);
        for ends in starts.windows(2) {
            match members.as_ref().get(ends[0] as usize..ends[1] as usize)? {
                [] => bins.resize(bins.len() + BINS, 0),
                set => bins.extend_from_slice(&sketch::bins(&sketch::minima(set))),
            }
        }
        Some(bins)
    })?;
    let bins = bins.ok_or_else(|| PyValueError::new_err("the members of a set are not there"))?;
    Ok(PyBytes::new(python, &bins))
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(overlap, module)?)?;
    module.add_function(wrap_pyfunction!(sketch_similarity, module)?)?;
    module.add_function(wrap_pyfunction!(sketches_of_sets, module)?)
}
