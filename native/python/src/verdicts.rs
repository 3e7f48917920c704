//! What a verdict is decided by, for Python: `docstore_kernel::{pairs, texts}` over buffers.
//!
//! The GIL is let go while a page is compared with others: their sets are of a few microseconds each.

use docstore_kernel::pairs::overlap as overlap_of;
use docstore_kernel::sketch::{self, BINS};
use docstore_kernel::sketches::{self, Bounds, Look};
use docstore_kernel::texts::{self, Asking};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// So many texts are compared faster than the GIL is let go and taken again.
const FEW: usize = 3;

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

/// A page that asks: number and checksum of its text, sketch, count of shingles, shingles.
type Page<'py> = (u64, Bound<'py, PyBytes>, Bound<'py, PyBytes>, u64, PyBuffer<u64>);
/// A text that is not ruled out: number, whether its sketch is held, checksum if its shingles are, shingles shared, its
/// shingles.
type Compared<'py> = (u64, bool, Option<Bound<'py, PyBytes>>, usize, usize);

/// Sketches and shingle sets of the last texts.
#[pyclass(module = "docstore.dedup.docstore_native")]
struct Texts(texts::Texts<Shared>);

#[pymethods]
impl Texts {
    #[new]
    fn new(limit: usize, bounds: (f64, f64, f64), limit_bytes: usize) -> Self {
        let (least_estimate, margin, least_contained) = bounds;
        Self(texts::Texts::new(limit, Bounds { least_estimate, margin, least_contained }, limit_bytes))
    }

    #[getter]
    fn set_bytes(&self) -> usize {
        self.0.set_bytes()
    }

    fn put(&mut self, number: u64, sketch: &[u8], shingle_count: u64) {
        self.0.sketches.put(number, sketch, shingle_count);
    }

    fn rules_out(&self, sketch: &[u8], shingle_count: u64, number: u64) -> bool {
        self.0.sketches.look(sketch, shingle_count, number) == Look::RuledOut
    }

    fn unheld(&self, numbers: Vec<u64>) -> Vec<u64> {
        self.0.sketches.unheld(&numbers)
    }

    fn likeliest(&self, sketch: &[u8], numbers: Vec<u64>, least: f64, most: usize) -> Vec<u64> {
        self.0.sketches.likeliest(sketch, &numbers, least, most)
    }

    fn keep(&mut self, python: Python<'_>, number: u64, text_checksum: &[u8], shingles: PyBuffer<u64>) -> PyResult<()> {
        self.0.keep(number, text_checksum, Shared::new(python, shingles)?);
        Ok(())
    }

    fn overlap<'py>(
        &self,
        python: Python<'py>,
        number: u64,
        other: u64,
    ) -> Option<(Bound<'py, PyBytes>, usize, usize)> {
        self.0.overlap(number, other).map(|its| (PyBytes::new(python, its.checksum), its.shared, its.size))
    }

    /// Hold the page's text, then compare it with others.
    fn compare<'py>(
        &mut self,
        python: Python<'py>,
        page: Page<'py>,
        numbers: Vec<u64>,
        most: usize,
    ) -> PyResult<Vec<Compared<'py>>> {
        let (number, checksum, sketch, shingle_count, shingles) = page;
        let (checksum, sketch) = (checksum.as_bytes(), sketch.as_bytes());
        self.0.sketches.put(number, sketch, shingle_count);
        if !self.0.holds(number, checksum) {
            self.0.keep(number, checksum, Shared::new(python, shingles)?);
        }
        let page = Asking { number, sketch, shingle_count };
        let shown = |one: texts::Compared<'_>| match one.overlap {
            None => (one.number, one.is_known, None, 0, 0),
            Some(its) => (one.number, one.is_known, Some(PyBytes::new(python, its.checksum)), its.shared, its.size),
        };
        let texts = &self.0;
        let compared = if numbers.len() < FEW {
            texts.compare(page, &numbers, most)
        } else {
            python.detach(|| texts.compare(page, &numbers, most))
        };
        Ok(compared.into_iter().map(shown).collect())
    }
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Texts>()?;
    module.add_function(wrap_pyfunction!(overlap, module)?)?;
    module.add_function(wrap_pyfunction!(sketch_similarity, module)?)?;
    module.add_function(wrap_pyfunction!(sketches_of_sets, module)?)
}
