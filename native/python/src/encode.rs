//! Values on their way into records: the frames of `docstore-frames`, with the GIL let go.
//!
//! Knows the fields of values and records, and nothing of the bytes of a record.

use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};

use docstore_frames::{encode_group, Base, Body, Dictionary, Effort, Encoders, Offer, Value, Way};
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyType};

use crate::convert::new_of;

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

/// A value that is to be stored; see `storage.bases.NewValue`.
#[derive(FromPyObject)]
struct NewValue<'py> {
    pointer: (Bound<'py, PyAny>, Bound<'py, PyAny>),
    column: (Bound<'py, PyAny>, Bound<'py, PyAny>),
    raw: PyBackedBytes,
    bases: Vec<Bound<'py, PyAny>>,
    body: Bound<'py, PyAny>,
    same: Bound<'py, PyAny>,
    frame: PyBackedBytes,
    saves: Vec<isize>,
}

/// Bytes that a value may be a delta against: those of a stored value, or of an earlier one of the group.
enum Held {
    Nothing,
    Given(PyBackedBytes),
    Earlier(usize),
}

/// What is made of a value: its record, and the value that it is a delta against.
type Made<'py> = (Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

/// Encode the values of a group in one call; see `tablets.codec.ValueCodec.encode`.
///
/// `costs` has what the deltas of a column, of other columns, and of texts against their own body are weighed against;
/// `effort` the level of zstd, whether all bases are compared, and whether long frames are given up early; `threads` is
/// the most that work, this one included; `record` a type, and the kind of its records.
#[pyfunction]
fn encode_values<'py>(
    python: Python<'py>,
    values: Vec<Bound<'py, PyAny>>,
    dictionaries: Vec<Option<Bound<'py, PyAny>>>,
    costs: (Bound<'py, PyDict>, (usize, usize), (usize, usize)),
    effort: (i32, bool, bool),
    threads: usize,
    record: (Bound<'py, PyType>, u8),
) -> PyResult<Vec<Made<'py>>> {
    let numbers: HashMap<_, _> = values.iter().enumerate().map(|(number, value)| (value.as_ptr(), number)).collect();
    let held = |other: &Bound<'py, PyAny>| {
        Ok::<_, PyErr>(match numbers.get(&other.as_ptr()) {
            Some(number) => Held::Earlier(*number),
            None if other.is_none() || other.get_type().is(values[0].get_type()) => Held::Nothing,
            None if other.is_instance_of::<PyBytes>() => Held::Given(other.extract()?),
            None => Held::Given(other.getattr(intern!(python, "raw"))?.extract()?),
        })
    };
    let news = values.iter().map(|value| value.extract()).collect::<PyResult<Vec<NewValue<'_>>>>()?;
    let mut tasks = Vec::with_capacity(news.len());
    for (new, dictionary) in news.iter().zip(&dictionaries) {
        let bases = new.bases.iter().map(held).collect::<PyResult<Vec<_>>>()?;
        let frames = dictionary.as_ref().map(|dictionary| dictionary.getattr(intern!(python, "frames")));
        let frames = frames.transpose()?.map(|frames| frames.cast_into::<FrameDictionary>()).transpose()?;
        let cost = costs.0.get_item((&new.column.0, &new.column.1))?;
        tasks.push((bases, held(&new.body)?, frames, cost.map_or(Ok(costs.1), |cost| cost.extract())?));
    }
    let given: Vec<Value<'_>> = news
        .iter()
        .zip(&tasks)
        .map(|(new, (bases, body, frames, (small, cost_bytes)))| Value {
            raw: &new.raw,
            bases: bases
                .iter()
                .enumerate()
                .map(|(place, base)| {
                    let (frame, saves): (&[u8], _) = (if place == 0 { &new.frame } else { &[] }, new.saves.get(place));
                    let raw: &[u8] = match base {
                        Held::Earlier(number) => return Base::Earlier(*number),
                        Held::Given(raw) => raw,
                        Held::Nothing => &[],
                    };
                    Base::Given(Offer { raw, frame, saves: saves.copied().unwrap_or(0) })
                })
                .collect(),
            dictionary: frames.as_ref().map(|frames| &frames.get().0),
            body: match body {
                Held::Nothing => Body::None,
                Held::Given(body) => Body::Given(body),
                Held::Earlier(number) => Body::Earlier(*number),
            },
            same: numbers.get(&new.same.as_ptr()).copied(),
            small: *small,
            cost_bytes: *cost_bytes,
        })
        .collect();
    let (level, compares, guesses) = effort;
    let effort = Effort { level, compares, guesses, on_body: costs.2 };
    let encoded = python
        .detach(|| catch_unwind(AssertUnwindSafe(|| encode_group(&given, effort, &ENCODERS, threads))))
        .map_err(|_| defect("encoding a group panicked"))?;
    let new_record = new_of(&record.0)?;
    // What others may be deltas against: the base of each value, or the value itself.
    let mut roots: Vec<Bound<'py, PyAny>> = Vec::with_capacity(values.len());
    let mut made = Vec::with_capacity(values.len());
    for (((value, new), dictionary), encoded) in values.iter().zip(&news).zip(&dictionaries).zip(encoded) {
        let encoded = encoded.map_err(|refused| defect(&refused.to_string()))?;
        let (mut root, mut related) = (None, PyBytes::new(python, b"").into_any());
        match (encoded.way, encoded.base, dictionary) {
            (Way::Same, Some(number), _) => {
                roots.push(values[number].clone());
                made.push((None, Some(values[number].clone())));
                continue;
            }
            (Way::Delta, Some(number), _) => {
                let base = &new.bases[number];
                let base = numbers.get(&base.as_ptr()).map_or(base, |number| &roots[*number]).clone();
                related = base.getattr(intern!(python, "name"))?;
                root = Some(base);
            }
            (Way::Dictionary, _, Some(dictionary)) => related = dictionary.getattr(intern!(python, "checksum"))?,
            _ => (),
        }
        let raw = value.getattr(intern!(python, "raw"))?;
        let frame = PyBytes::new(python, &encoded.frame);
        let payload = if encoded.way == Way::Stored { &raw } else { frame.as_any() };
        let ((at, row_key), (family, qualifier)) = (&new.pointer, &new.column);
        let codec = encoded.way as u8;
        let fields = (record.1, row_key, family, qualifier, at, codec, related, new.raw.len(), payload);
        roots.push(root.as_ref().unwrap_or(value).clone());
        made.push((Some(new_record.call1((&record.0, fields))?), root));
    }
    Ok(made)
}

fn defect(what: &str) -> PyErr {
    PyRuntimeError::new_err(what.to_owned())
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<FrameDictionary>()?;
    module.add_function(wrap_pyfunction!(encode_values, module)?)
}
