//! Captures for Python: their records, which of them are live, what they show, and their verdicts.
//!
//! A record is the fields of `storage.captures.CaptureRecord`.  What its bytes and fields mean is decided in
//! `docstore_store::{capture, live, verdict}`.

use std::sync::Arc;

use docstore_store::capture::{self, Field, PAYLOAD_DIGEST, VERDICT};
use docstore_store::format::{
    CAPTURE_FIELDS, CAPTURE_NOT_MODIFIED, VALUE_INLINE, VERDICT_KINDS, VERDICT_PREVIOUS, VERDICT_STORED,
};
use docstore_store::live::{Live, Policy, Rows, Seen, Shown};
use docstore_store::{values, verdict};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyString, PyTuple};

use crate::convert::{utf8, CorruptionError, UnsupportedFormat};
use crate::values::damaged;

/// Places of the fields of a record.
const TIMESTAMP: usize = 0;
const KIND: usize = 1;
const COLUMNS: usize = 2;
const CONFIRMS: usize = 4;
/// How texts of a verdict are written that are not Unicode.
const ESCAPE: &str = "surrogateescape";

type Fields<'py> = (u8, Bound<'py, PyDict>, u64, u64);

/// A capture record: kind, values by column, arrived, confirms; None if it is damaged.  `names` has the columns by their
/// numbers.
#[pyfunction]
fn decode_capture<'py>(value: &Bound<'py, PyBytes>, names: &Bound<'py, PyDict>) -> PyResult<Option<Fields<'py>>> {
    let (python, source) = (value.py(), value.as_bytes());
    let (columns, mut arrived, mut confirms) = (PyDict::new(python), 0, 0);
    let Some(kind) = capture::kind_of(source) else { return Ok(None) };
    for field in capture::fields(source) {
        let text;
        let (number, cell_value) = match field {
            None => return Ok(None),
            Some(Field::Column(number, cell_value)) => (number, cell_value),
            Some(Field::Sha1(digest)) => {
                text = capture::sha1_text(digest);
                (PAYLOAD_DIGEST as u8, &text[..])
            }
            Some(Field::Arrived(time)) => {
                arrived = time;
                continue;
            }
            Some(Field::Confirms(time)) => {
                confirms = time;
                continue;
            }
        };
        let Some(column) = names.get_item(number)? else { return Ok(None) };
        columns.set_item(column, PyBytes::new(python, cell_value))?;
    }
    Ok(Some((kind, columns, arrived, confirms)))
}

/// Whether a body is empty or white space.
#[pyfunction]
fn is_blank(body: &[u8]) -> bool {
    capture::is_blank(body)
}

/// The columns of captures as `model.capture` has them, by their numbers: most columns of Python are these very objects.
static COLUMN_TUPLES: PyOnceLock<Vec<Py<PyTuple>>> = PyOnceLock::new();

fn column_tuples(python: Python<'_>) -> PyResult<&Vec<Py<PyTuple>>> {
    COLUMN_TUPLES.get_or_try_init(python, || {
        let known = python.import("docstore.model.capture")?.getattr("COLUMNS")?;
        let known: Vec<Bound<'_, PyTuple>> =
            known.try_iter()?.map(|column| Ok(column?.cast_into()?)).collect::<PyResult<_>>()?;
        let tuple = |(_, (family, qualifier)): &(u8, (&str, &[u8]))| {
            let column = (family, PyBytes::new(python, qualifier)).into_pyobject(python)?;
            for other in &known {
                if other.eq(&column)? {
                    return Ok(other.clone().unbind());
                }
            }
            Ok(column.unbind())
        };
        CAPTURE_FIELDS.iter().map(tuple).collect()
    })
}

/// The number of a column of Python.
pub fn number_of(column: &Bound<'_, PyAny>) -> PyResult<Option<u8>> {
    let known = column_tuples(column.py())?;
    if let Some(place) = known.iter().position(|other| other.is(column)) {
        return Ok(Some(place as u8 + 1));
    }
    let Ok((family, qualifier)) = column.extract::<(Bound<'_, PyString>, Bound<'_, PyBytes>)>() else {
        return Ok(None);
    };
    Ok(capture::number_of(family.to_str()?, qualifier.as_bytes()))
}

/// The column of a number.
pub fn column_of(python: Python<'_>, number: usize) -> PyResult<&Bound<'_, PyTuple>> {
    Ok(column_tuples(python)?[number - 1].bind(python))
}

/// The value of a capture record.
#[pyfunction]
fn encode_capture<'py>(
    columns: &Bound<'py, PyDict>,
    kind: u8,
    arrived: u64,
    confirms: u64,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut held = Vec::with_capacity(columns.len());
    for (column, value) in columns {
        let number = number_of(&column)?.ok_or_else(|| PyKeyError::new_err(column.unbind()))?;
        held.push((number, value.cast_into::<PyBytes>()?));
    }
    let mut fields = held.iter().map(|(number, value)| (*number, value.as_bytes())).collect();
    Ok(PyBytes::new(columns.py(), &capture::encode(kind, &mut fields, arrived, confirms)))
}

/// A record of Python, and what decides whether it is live.
#[derive(Clone)]
struct Held(Arc<(Py<PyTuple>, i64, u8, PyBackedBytes, i64)>);

impl Seen for Held {
    fn timestamp(&self) -> i64 {
        self.0 .1
    }

    fn kind(&self) -> u8 {
        self.0 .2
    }

    fn body_identity(&self) -> &[u8] {
        &self.0 .3
    }

    fn confirms(&self) -> i64 {
        self.0 .4
    }
}

/// The records of a row as Python gives them.
struct Reader<'py> {
    records: Bound<'py, PyIterator>,
    find: Bound<'py, PyAny>,
    checksum: Bound<'py, PyTuple>,
}

impl Reader<'_> {
    fn held(&self, record: &Bound<'_, PyAny>) -> PyResult<Held> {
        let record = record.cast::<PyTuple>()?;
        let timestamp = record.get_item(TIMESTAMP)?.extract()?;
        let kind = record.get_item(KIND)?.extract()?;
        let identity = match record.get_item(COLUMNS)?.cast::<PyDict>()?.get_item(&self.checksum)? {
            Some(identity) => identity.extract()?,
            None => PyBackedBytes::from(PyBytes::new(record.py(), b"")),
        };
        let confirms = record.get_item(CONFIRMS)?.extract()?;
        Ok(Held(Arc::new((record.clone().unbind(), timestamp, kind, identity, confirms))))
    }
}

impl Rows for Reader<'_> {
    type Record = Held;
    type Error = PyErr;

    fn next(&mut self) -> PyResult<Option<Held>> {
        self.records.next().map(|record| self.held(&record?)).transpose()
    }

    fn find(&mut self, timestamp: i64) -> PyResult<Option<Held>> {
        let found = self.find.call1((timestamp,))?;
        if found.is_none() {
            Ok(None)
        } else {
            self.held(&found).map(Some)
        }
    }
}

/// The columns that a live capture shows.
fn shown_columns<'py>(python: Python<'py>, shown: &Shown<Held>) -> PyResult<Bound<'py, PyDict>> {
    let columns_of = |held: &Held| held.0 .0.bind(python).get_item(COLUMNS)?.cast_into::<PyDict>().map_err(PyErr::from);
    let own = columns_of(&shown.record)?;
    let source = shown.source.as_ref().filter(|source| source.timestamp() != shown.record.timestamp());
    let mut columns = own.clone();
    if let Some(source) = source {
        columns = PyDict::new(python);
        for (column, value) in columns_of(source)? {
            let shows = |number| capture::shows_of_source(shown.record.kind(), usize::from(number));
            if number_of(&column)?.is_some_and(shows) {
                columns.set_item(column, value)?;
            }
        }
        columns.update(own.as_mapping())?;
        let of_verdict = column_of(python, VERDICT)?;
        if shown.record.kind() == CAPTURE_NOT_MODIFIED && !own.contains(of_verdict)? {
            if let Some(followed) = columns.get_item(of_verdict)?.map(|value| followed_verdict(&value)).transpose()? {
                followed.map(|value| columns.set_item(of_verdict, value)).transpose()?;
            }
        }
    }
    if !shown.has_body {
        let of_body = column_of(python, capture::BODY)?;
        if let Some(value) = columns.get_item(of_body)? {
            let value = value.cast_into::<PyBytes>()?;
            let absent = values::without_value(value.as_bytes()).ok_or_else(|| damaged(python, value.as_bytes()))?;
            if absent != value.as_bytes() {
                columns = columns.copy()?;
                columns.set_item(of_body, PyBytes::new(python, &absent))?;
            }
        }
    }
    Ok(columns)
}

/// The cell value of the verdict that a visit shows of its capture; None for one that is shown as it is, which may be
/// damaged: its reader reports it.
fn followed_verdict<'py>(cell_value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let cell_value = cell_value.cast::<PyBytes>()?;
    let Some((&VALUE_INLINE, encoded)) = cell_value.as_bytes().split_first() else { return Ok(None) };
    let Ok(found) = verdict::decode(encoded) else { return Ok(None) };
    let followed = [&[VALUE_INLINE], &verdict::encode(&verdict::not_modified(&found))[..]].concat();
    Ok(Some(PyBytes::new(cell_value.py(), &followed)))
}

/// The captures of a row that the policies keep, newest first: record, the record whose body and text it shows or None,
/// and the columns that it shows.
///
/// `find` gives the record at a time.  A policy is the number of bodies that it keeps, the time at which and before which
/// they are too old, and whether only both together drop a body.
#[pyclass(module = "docstore.dedup.docstore_native")]
struct LiveCaptures {
    live: Live<Held>,
    records: Py<PyIterator>,
    find: Py<PyAny>,
    checksum: Py<PyTuple>,
}

/// See `LiveCaptures`.
pub type GivenPolicy = (Option<u64>, Option<i64>, bool);

pub fn policy_of((most, oldest, both): GivenPolicy) -> Policy {
    Policy { most, oldest, both }
}

type LiveCapture<'py> = (Py<PyTuple>, Option<Py<PyTuple>>, Bound<'py, PyDict>);

#[pymethods]
impl LiveCaptures {
    #[new]
    fn new(
        python: Python<'_>,
        records: &Bound<'_, PyAny>,
        find: Py<PyAny>,
        captures: GivenPolicy,
        bodies: GivenPolicy,
    ) -> PyResult<Self> {
        let checksum = column_of(python, capture::CHECKSUM)?.clone().unbind();
        let live = Live::new(policy_of(captures), policy_of(bodies));
        Ok(Self { live, records: records.try_iter()?.unbind(), find, checksum })
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, python: Python<'py>) -> PyResult<Option<LiveCapture<'py>>> {
        let (records, find) = (self.records.bind(python).clone(), self.find.bind(python).clone());
        let mut reader = Reader { records, find, checksum: self.checksum.bind(python).clone() };
        let Some(shown) = self.live.next(&mut reader)? else { return Ok(None) };
        let columns = shown_columns(python, &shown)?;
        let object = |held: &Held| held.0 .0.clone_ref(python);
        Ok(Some((object(&shown.record), shown.source.as_ref().map(object), columns)))
    }
}

type Verdict<'py> = (
    Bound<'py, PyString>,
    Bound<'py, PyBytes>,
    u64,
    f64,
    Bound<'py, PyString>,
    Bound<'py, PyBytes>,
    u64,
    u64,
    Bound<'py, PyString>,
    f64,
    Bound<'py, PyString>,
);

/// The bytes of the fields of `model.capture.StoredVerdict`.
#[pyfunction]
fn encode_verdict<'py>(python: Python<'py>, fields: Verdict<'py>) -> PyResult<Bound<'py, PyBytes>> {
    let (kind, row_key, of_timestamp, similarity, reason, contains, candidates, verified, previous, own, stored) =
        fields;
    let number = |words, word: &Bound<'_, PyString>| {
        let unknown = || PyValueError::new_err(format!("a verdict has no word {word}"));
        verdict::number_of(words, word.to_str()?).ok_or_else(unknown)
    };
    let encoded = verdict::encode(&verdict::Verdict {
        kind: number(VERDICT_KINDS, &kind)?,
        of_row_key: row_key.as_bytes(),
        of_timestamp,
        similarity,
        reason: &utf8(&reason, ESCAPE)?,
        contains_row_key: contains.as_bytes(),
        candidates,
        verified,
        previous: number(VERDICT_PREVIOUS, &previous)?,
        previous_similarity: own,
        stored: number(VERDICT_STORED, &stored)?,
    });
    Ok(PyBytes::new(python, &encoded))
}

/// The encoded verdict that a visit without a body shows of the capture with an encoded verdict.
#[pyfunction]
fn not_modified<'py>(python: Python<'py>, value: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let followed = verdict::encode(&verdict::not_modified(&verdict::decode(value).map_err(verdict_error)?));
    Ok(PyBytes::new(python, &followed))
}

fn verdict_error(fault: verdict::Fault) -> PyErr {
    match fault {
        verdict::Fault::Damaged => CorruptionError::new_err("dedup:verdict does not decode"),
        verdict::Fault::Newer(kind) => UnsupportedFormat::new_err(format!(
            "dedup:verdict has the number {kind}, this docstore knows 0 to {}; open the store with a newer docstore",
            VERDICT_KINDS.len() - 1
        )),
    }
}

/// The fields of an encoded verdict; its words are numbers in the lists of `model.format`.
#[pyfunction]
fn decode_verdict<'py>(python: Python<'py>, value: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
    let found = verdict::decode(value).map_err(verdict_error)?;
    (
        found.kind,
        PyBytes::new(python, found.of_row_key),
        found.of_timestamp,
        found.similarity,
        PyString::from_bytes(python, found.reason)?,
        PyBytes::new(python, found.contains_row_key),
        found.candidates,
        found.verified,
        found.previous,
        found.previous_similarity,
        found.stored,
    )
        .into_pyobject(python)
}

/// A capture record with other cell values in some of its columns, by their numbers; None if it is damaged.
#[pyfunction]
fn with_values<'py>(
    python: Python<'py>,
    record: &[u8],
    values: Vec<(u8, PyBackedBytes)>,
) -> Option<Bound<'py, PyBytes>> {
    let values: Vec<_> = values.iter().map(|(number, value)| (*number, &value[..])).collect();
    capture::with_values(record, &values).map(|made| PyBytes::new(python, &made))
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LiveCaptures>()?;
    module.add_function(wrap_pyfunction!(decode_capture, module)?)?;
    module.add_function(wrap_pyfunction!(encode_capture, module)?)?;
    module.add_function(wrap_pyfunction!(is_blank, module)?)?;
    module.add_function(wrap_pyfunction!(encode_verdict, module)?)?;
    module.add_function(wrap_pyfunction!(decode_verdict, module)?)?;
    module.add_function(wrap_pyfunction!(not_modified, module)?)?;
    module.add_function(wrap_pyfunction!(with_values, module)?)
}
