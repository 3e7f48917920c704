//! Values on their way into records: the frames of `docstore-frames`, with the GIL let go.
//!
//! Knows bytes of Python, and nothing of records.

use std::panic::{catch_unwind, AssertUnwindSafe};

use docstore_frames::{encode_group, Base, Body, Dictionary, Effort, Encoded, Encoders, Offer, Refused, Value};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

static ENCODERS: Encoders = Encoders::new();

/// A dictionary, indexed for any number of threads.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct FrameDictionary(Dictionary);

#[pymethods]
impl FrameDictionary {
    #[new]
    fn new(python: Python<'_>, content: &[u8], level: i32) -> PyResult<Self> {
        let made = python.detach(|| catch_unwind(|| Dictionary::new(content, level)));
        made.map(Self).map_err(|_| defect("indexing a dictionary panicked"))
    }

    /// What it holds.
    #[getter]
    fn memory_bytes(&self) -> usize {
        self.0.capacity()
    }
}

/// What a value may be a delta against: bytes, or the number of an earlier value; the frame against them, or b""; bytes
/// that are saved elsewhere.
type Offered<'py> = (Bound<'py, PyAny>, PyBackedBytes, isize);
/// Of a value: its bytes; bases; dictionary; of a text, its body: bytes, or the number of an earlier value; the number of
/// an earlier value whose record it may share; small, cost: see `frames::Value`.
type Task<'py> = (
    PyBackedBytes,
    Vec<Offered<'py>>,
    Option<Bound<'py, FrameDictionary>>,
    Option<Bound<'py, PyAny>>,
    Option<usize>,
    usize,
    usize,
);
/// Codec, or 255 for a value that shares the record of an earlier one; which of the bases, or the number of that value;
/// frame.
type Made<'py> = (u8, i64, Bound<'py, PyBytes>);

enum Held {
    Given(PyBackedBytes),
    Earlier(usize),
}

impl Held {
    fn of(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        given.extract().map(Self::Earlier).or_else(|_| Ok(Self::Given(given.extract()?)))
    }
}

/// Encode the values of a group in one call.
///
/// `on_body` is what a text against its own body is weighed against; `effort` is the level of zstd, whether all bases are
/// compared, and whether long frames are given up early; `threads` is the most that work, this one included.
#[pyfunction]
pub fn encode_values<'py>(
    python: Python<'py>,
    tasks: Vec<Task<'py>>,
    on_body: (usize, usize),
    effort: (i32, bool, bool),
    threads: usize,
) -> PyResult<Vec<Made<'py>>> {
    let mut held = Vec::with_capacity(tasks.len());
    for (_, bases, _, body, ..) in &tasks {
        let bases = bases.iter().map(|(base, ..)| Held::of(base)).collect::<PyResult<Vec<_>>>()?;
        held.push((bases, body.as_ref().map(Held::of).transpose()?));
    }
    let values: Vec<Value<'_>> = tasks
        .iter()
        .zip(&held)
        .map(|((raw, offered, dictionary, _, same, small, cost_bytes), (bases, body))| Value {
            raw,
            bases: bases
                .iter()
                .zip(offered)
                .map(|(base, (_, frame, saves))| match base {
                    Held::Given(raw) => Base::Given(Offer { raw, frame, saves: *saves }),
                    Held::Earlier(number) => Base::Earlier(*number),
                })
                .collect(),
            dictionary: dictionary.as_ref().map(|dictionary| &dictionary.get().0),
            body: match body {
                None => Body::None,
                Some(Held::Given(body)) => Body::Given(body),
                Some(Held::Earlier(number)) => Body::Earlier(*number),
            },
            same: *same,
            small: *small,
            cost_bytes: *cost_bytes,
        })
        .collect();
    let (level, compares, guesses) = effort;
    let effort = Effort { level, compares, guesses, on_body };
    let made = python
        .detach(|| catch_unwind(AssertUnwindSafe(|| encode_group(&values, effort, &ENCODERS, threads))))
        .map_err(|_| defect("encoding a group panicked"))?;
    made.into_iter().map(|made| handed_over(python, made)).collect()
}

fn handed_over(python: Python<'_>, made: Result<Encoded, Refused>) -> PyResult<Made<'_>> {
    let made = made.map_err(|refused| defect(&refused.to_string()))?;
    let base = made.base.map_or(-1, |base| base as i64);
    Ok((made.way as u8, base, PyBytes::new(python, &made.frame)))
}

fn defect(what: &str) -> PyErr {
    PyRuntimeError::new_err(what.to_owned())
}
