//! Values on their way into records: the frames of `docstore-frames`, with the GIL let go.
//!
//! Knows bytes of Python, and nothing of records.  What it does not take it leaves to the reference, by giving None.

use std::cell::RefCell;
use std::panic::{catch_unwind, AssertUnwindSafe};

use docstore_frames::{Dictionary, Encoder, Refused};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

thread_local! {
    static ENCODER: RefCell<Option<Box<Encoder>>> = const { RefCell::new(None) };
}

/// A dictionary, indexed for any number of threads.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct FrameDictionary {
    dictionary: Option<Dictionary>,
}

#[pymethods]
impl FrameDictionary {
    #[new]
    fn new(python: Python<'_>, content: &[u8]) -> PyResult<Self> {
        let made = python.detach(|| catch_unwind(|| Dictionary::new(content)));
        Ok(Self { dictionary: made.map_err(|_| defect("indexing a dictionary panicked"))? })
    }

    /// What it holds.
    #[getter]
    fn memory_bytes(&self) -> usize {
        self.dictionary.as_ref().map_or(0, Dictionary::capacity)
    }

    /// The frame of a value with this dictionary; None where they are too long together, no bytes where it
    /// would be clearly longer than a limit.
    #[pyo3(signature = (value, limit=None))]
    fn frame<'py>(
        &self,
        python: Python<'py>,
        value: &[u8],
        limit: Option<usize>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        match &self.dictionary {
            Some(dictionary) => encoded(python, |encoder| encoder.with_dictionary(value, dictionary, limit)),
            None => Ok(None),
        }
    }

    /// The frame of a body with this dictionary, and that of its text against the body; None where they are too long
    /// together.
    fn frames<'py>(
        &self,
        python: Python<'py>,
        body: &[u8],
        text: &[u8],
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let Some(dictionary) = &self.dictionary else { return Ok(None) };
        let mut encoder = take_encoder()?;
        let made = worked(python, &mut encoder, |encoder| encoder.body_and_text(body, text, dictionary))?;
        put_back(encoder);
        match made {
            Ok((first, second)) => Ok(Some((PyBytes::new(python, &first), PyBytes::new(python, &second)))),
            Err(Refused::TooLong) => Ok(None),
            Err(refused) => Err(defect(&refused.to_string())),
        }
    }
}

/// The frame of a value against a base; None where they are too long together.
#[pyfunction]
pub fn delta_frame<'py>(python: Python<'py>, value: &[u8], base: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
    encoded(python, |encoder| encoder.with_base(value, base))
}

/// What this thread's encoder makes, as bytes.
fn encoded<'py>(
    python: Python<'py>,
    work: impl FnOnce(&mut Encoder) -> Result<&[u8], Refused> + Send,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let mut encoder = take_encoder()?;
    let frame = match worked(python, &mut encoder, work)? {
        Err(Refused::TooLong) => None,
        Err(Refused::OverLimit) => Some(PyBytes::new(python, b"")),
        Err(refused) => return Err(defect(&refused.to_string())),
        Ok(frame) => Some(PyBytes::new(python, frame)),
    };
    put_back(encoder);
    Ok(frame)
}

/// This thread's encoder.
fn take_encoder() -> PyResult<Box<Encoder>> {
    match ENCODER.take() {
        Some(encoder) => Ok(encoder),
        None => Ok(Box::new(Encoder::new().ok_or_else(|| defect("libzstd gives no context"))?)),
    }
}

/// For the next call; one that panicked, or has grown large, is not used again.
fn put_back(encoder: Box<Encoder>) {
    if !encoder.is_large() {
        ENCODER.set(Some(encoder));
    }
}

/// What an encoder makes, without the GIL.
fn worked<'encoder, Made: Send>(
    python: Python<'_>,
    encoder: &'encoder mut Encoder,
    work: impl FnOnce(&'encoder mut Encoder) -> Made + Send,
) -> PyResult<Made> {
    python.detach(|| catch_unwind(AssertUnwindSafe(|| work(encoder)))).map_err(|_| defect("encoding a value panicked"))
}

fn defect(what: &str) -> PyErr {
    PyRuntimeError::new_err(what.to_owned())
}
