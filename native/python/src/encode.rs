//! Values on their way into records: the frames of `docstore-frames`, with the GIL let go.
//!
//! Knows bytes of Python, and nothing of records.

use std::panic::{catch_unwind, AssertUnwindSafe};

use docstore_frames::{choose, encode_group, Base, Dictionary, Effort, Encoded, Encoders, Offer, Refused, Value};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyIterator};

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

/// Encode the values of a group in one call, with at most so many threads; `on_body` is what a text against its own body
/// is weighed against.
#[pyfunction]
pub fn encode_values<'py>(
    python: Python<'py>,
    tasks: Vec<Task<'py>>,
    on_body: (usize, usize),
    threads: usize,
) -> PyResult<Vec<Made<'py>>> {
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
        .map(|((raw, _, dictionary, text, frame, small, cost_bytes), bases)| Value {
            raw,
            bases: bases
                .iter()
                .map(|base| match base {
                    Held::Given(raw) => Base::Given(raw),
                    Held::Earlier(number) => Base::Earlier(*number),
                })
                .collect(),
            dictionary: dictionary.as_ref().map(|dictionary| &dictionary.get().0),
            text,
            body: &[],
            on_body: frame,
            small: *small,
            cost_bytes: *cost_bytes,
        })
        .collect();
    let made = python
        .detach(|| catch_unwind(AssertUnwindSafe(|| encode_group(&values, on_body, &ENCODERS, threads))))
        .map_err(|_| defect("encoding a group panicked"))?;
    made.into_iter().map(|made| handed_over(python, made)).collect()
}

/// Encode one value at a level; `bases` gives what it may be a delta against, one at a time: raw bytes, the frame against
/// them or b"", bytes that are saved elsewhere.  `costs` are small and cost of the value, and of a text against its body.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn encode_value<'py>(
    python: Python<'py>,
    raw: PyBackedBytes,
    bases: Bound<'py, PyIterator>,
    dictionary: Option<Bound<'py, FrameDictionary>>,
    body: PyBackedBytes,
    costs: (usize, usize, usize, usize),
    level: i32,
    compares: bool,
) -> PyResult<Made<'py>> {
    let (small, cost_bytes, on_body) = (costs.0, costs.1, (costs.2, costs.3));
    let effort = Effort { level, compares, guesses: false, on_body };
    let dictionary = dictionary.map(Bound::unbind);
    let bases = bases.unbind();
    let mut failure = None;
    let mut encoder = ENCODERS.take().ok_or_else(|| defect("libzstd gives no context"))?;
    let made = python.detach(|| {
        let dictionary = dictionary.as_ref().map(|dictionary| &dictionary.get().0);
        let value = Value {
            raw: &raw,
            bases: Vec::new(),
            dictionary,
            text: &[],
            body: &body,
            on_body: &[],
            small,
            cost_bytes,
        };
        let next = || {
            Python::attach(|python| {
                let offered = bases.bind(python).clone().next()?;
                match offered.and_then(|offered| offered.extract::<(PyBackedBytes, PyBackedBytes, isize)>()) {
                    Ok((raw, frame, saves)) => Some(Offer { raw, frame, saves }),
                    Err(error) => {
                        failure = Some(error);
                        None
                    }
                }
            })
        };
        catch_unwind(AssertUnwindSafe(|| choose(&mut encoder, &value, effort, next)))
    });
    if let Some(error) = failure {
        return Err(error);
    }
    let made = made.map_err(|_| defect("encoding a value panicked"))?;
    if made.is_ok() {
        ENCODERS.put_back(encoder);
    }
    handed_over(python, made)
}

fn handed_over(python: Python<'_>, made: Result<Encoded, Refused>) -> PyResult<Made<'_>> {
    let made = made.map_err(|refused| defect(&refused.to_string()))?;
    let base = made.base.map_or(-1, |base| base as i64);
    Ok((made.way as u8, base, PyBytes::new(python, &made.frame), PyBytes::new(python, &made.text)))
}

fn defect(what: &str) -> PyErr {
    PyRuntimeError::new_err(what.to_owned())
}
