//! Values on their way into records: the frames of `docstore-frames`, with the GIL let go.
//!
//! Knows bytes of Python, and nothing of records.  What it does not take it leaves to the reference, by giving None.

use std::panic::{catch_unwind, AssertUnwindSafe};

use docstore_frames::{encode_group, Base, Dictionary, Encoder, Encoders, Refused, Value};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

static ENCODERS: Encoders = Encoders::new();

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
    /// together, no bytes where the body's would be clearly longer than a limit.
    #[pyo3(signature = (body, text, limit=None))]
    fn frames<'py>(
        &self,
        python: Python<'py>,
        body: &[u8],
        text: &[u8],
        limit: Option<usize>,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let Some(dictionary) = &self.dictionary else { return Ok(None) };
        let mut encoder = take_encoder()?;
        let made = worked(python, &mut encoder, |encoder| encoder.body_and_text(body, text, dictionary, limit))?;
        ENCODERS.put_back(encoder);
        match made {
            Ok((first, second)) => Ok(Some((PyBytes::new(python, &first), PyBytes::new(python, &second)))),
            Err(Refused::TooLong) => Ok(None),
            Err(Refused::OverLimit) => Ok(Some((PyBytes::new(python, b""), PyBytes::new(python, b"")))),
            Err(refused) => Err(defect(&refused.to_string())),
        }
    }
}

/// The frame of a value against a base; None where they are too long together, no bytes where it would be clearly
/// longer than a limit.
#[pyfunction]
#[pyo3(signature = (value, base, limit=None))]
pub fn delta_frame<'py>(
    python: Python<'py>,
    value: &[u8],
    base: &[u8],
    limit: Option<usize>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    encoded(python, |encoder| encoder.with_base(value, base, limit))
}

/// Of a value: its bytes; what it may be a delta against, as bytes or as the number of an earlier value; its
/// dictionary; the text that follows it, or b""; its frame against its body, or b""; small, cost: `frames::Value`.
type Task<'py> = (
    PyBackedBytes,
    Vec<Bound<'py, PyAny>>,
    Option<Bound<'py, FrameDictionary>>,
    PyBackedBytes,
    PyBackedBytes,
    usize,
    usize,
);
/// Codec, which of the bases or -1, frame, frame of the text.
type Made<'py> = (u8, i64, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

enum Held {
    Given(PyBackedBytes),
    Earlier(usize),
}

/// Encode the values of a group in one call, with at most so many threads; None for those that the reference has to
/// encode.
#[pyfunction]
pub fn encode_values<'py>(
    python: Python<'py>,
    tasks: Vec<Task<'py>>,
    threads: usize,
) -> PyResult<Vec<Option<Made<'py>>>> {
    let mut bases = Vec::with_capacity(tasks.len());
    for (number, (_, named, ..)) in tasks.iter().enumerate() {
        let mut held = Vec::with_capacity(named.len());
        for base in named {
            held.push(match base.extract::<usize>() {
                Ok(earlier) if earlier >= number => return Err(PyValueError::new_err("a base comes after its delta")),
                Ok(earlier) => Held::Earlier(earlier),
                Err(_) => Held::Given(base.extract()?),
            });
        }
        bases.push(held);
    }
    let values: Vec<Value<'_>> = tasks
        .iter()
        .zip(&bases)
        .map(|((raw, _, dictionary, text, on_body, small, cost_bytes), bases)| Value {
            raw,
            bases: bases
                .iter()
                .map(|base| match base {
                    Held::Given(raw) => Base::Given(raw),
                    Held::Earlier(number) => Base::Earlier(*number),
                })
                .collect(),
            dictionary: dictionary.as_ref().and_then(|dictionary| dictionary.get().dictionary.as_ref()),
            text,
            on_body,
            small: *small,
            cost_bytes: *cost_bytes,
        })
        .collect();
    let made = python
        .detach(|| catch_unwind(AssertUnwindSafe(|| encode_group(&values, &ENCODERS, threads))))
        .map_err(|_| defect("encoding a group panicked"))?;
    made.into_iter()
        .map(|made| match made {
            Err(Refused::Failed(why)) => Err(defect(&why)),
            Err(_) => Ok(None),
            Ok(made) => {
                let base = made.base.map_or(-1, |base| base as i64);
                let (frame, text) = (PyBytes::new(python, &made.frame), PyBytes::new(python, &made.text));
                Ok(Some((made.way as u8, base, frame, text)))
            }
        })
        .collect()
}

/// What an encoder makes, as bytes.
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
    ENCODERS.put_back(encoder);
    Ok(frame)
}

fn take_encoder() -> PyResult<Box<Encoder>> {
    ENCODERS.take().ok_or_else(|| defect("libzstd gives no context"))
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
