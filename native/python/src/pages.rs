//! Pages on their way into the store for Python: `storage.writes.Prepared` is read here alone, and judged pages are handles.

use std::sync::Arc;

use docstore_store::batch::{self, totals_of, Decided, Fetched, FetchedKind, NewRecord, Refusal, Seen};
use docstore_store::capture::{Columns, BODY, MAIN};
use docstore_store::columns::RecordColumns;
use docstore_store::format::{CAPTURE_STORED, VALUE_INLINE, VERDICT_KINDS};
use docstore_store::keys::version_less;
use docstore_store::pages::{Asking, Bytes};
use docstore_store::posted::{pointer, row_key_of, time_of, Pointer};
use docstore_store::varint;
use docstore_store::verdict::{number_of as number_of_word, STORED_REFERENCE};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

use crate::analysis::Analysis;
use crate::captures::{column_of, number_of};
use crate::convert::{place_of, text_of};
use crate::headers::encoded_headers;

/// Places of the fields of `storage.writes.Prepared`.
const PAGE: usize = 0;
const ROW_KEY: usize = 1;
const TIMESTAMP: usize = 3;
const ANALYSIS: usize = 4;
const ERROR: usize = 5;
const ANCHORS: usize = 6;
const IS_VISIT: usize = 7;
const KEEP_BODY: usize = 8;

/// Places of the fields of a capture record; of a live capture the fourth is the time of its source.
const KIND: usize = 1;
const COLUMNS: usize = 2;
const SOURCE: usize = 3;
const CONFIRMS: usize = 4;

/// What Python holds of a page of the batch.
pub struct Held {
    pub prepared: Py<PyTuple>,
    /// Its record with body and text in their cells, once that was asked for: a few are.
    record: PyOnceLock<Py<PyAny>>,
}

pub type JudgedPage = batch::Judged<Held>;

/// A page that is prepared.
pub fn fetched_of(prepared: &Bound<'_, PyTuple>) -> PyResult<Fetched<Held>> {
    let python = prepared.py();
    let bytes = |place| Ok::<_, PyErr>(Box::<[u8]>::from(prepared.get_item(place)?.cast::<PyBytes>()?.as_bytes()));
    let held = Held { prepared: prepared.clone().unbind(), record: PyOnceLock::new() };
    let page = prepared.get_item(PAGE)?;
    let kind = match prepared.get_item(ERROR)?.is_truthy()? {
        true => FetchedKind::Refused,
        false if prepared.get_item(IS_VISIT)?.is_truthy()? => FetchedKind::Visit,
        false => FetchedKind::Page,
    };
    let mut fetched = Fetched {
        kind,
        asking: Asking { row_key: bytes(ROW_KEY)?, status: 0, body: Bytes::new([]), page: Arc::default() },
        timestamp: prepared.get_item(TIMESTAMP)?.extract()?,
        wants_body: prepared.get_item(KEEP_BODY)?.is_truthy()?,
        crawl: Box::default(),
        columns: RecordColumns::default(),
        visit: Box::default(),
        path: Box::default(),
        has_anchors: prepared.get_item(ANCHORS)?.is_truthy()?,
        held,
    };
    if kind == FetchedKind::Refused {
        return Ok(fetched); // its fields may be of any type
    }
    fetched.asking.status = page.getattr(intern!(python, "status"))?.extract()?;
    let crawl = page.getattr(intern!(python, "crawl"))?.cast_into::<PyString>()?;
    fetched.crawl = crawl.to_str()?.as_bytes().into();
    if kind == FetchedKind::Visit {
        let mut visit = Vec::new();
        varint::push(&mut visit, fetched.asking.status as u64);
        visit.extend(encoded_headers(&page.getattr(intern!(python, "headers"))?)?);
        fetched.visit = visit.into();
        return Ok(fetched);
    }
    fetched.asking.body = Bytes::new(page.getattr(intern!(python, "body"))?.extract::<PyBackedBytes>()?);
    let analysis = prepared.get_item(ANALYSIS)?.cast_into::<Analysis>()?;
    let analysis = analysis.get();
    fetched.asking.page = analysis.page.clone();
    fetched.columns = analysis.columns.clone();
    fetched.path = version_less(&fetched.asking.row_key).into();
    Ok(fetched)
}

/// The number of a column that records have.
fn known(column: &Bound<'_, PyAny>) -> PyResult<u8> {
    number_of(column)?.ok_or_else(|| PyKeyError::new_err(column.clone().unbind()))
}

/// A record or live capture of Python; None for none.
pub fn seen_of(found: &Bound<'_, PyAny>, is_live: bool) -> PyResult<Option<Seen>> {
    if found.is_none() {
        return Ok(None);
    }
    let fields = found.cast::<PyTuple>()?;
    let mut columns = Columns::default();
    for (column, value) in fields.get_item(COLUMNS)?.cast::<PyDict>()? {
        let (number, value) = (usize::from(known(&column)?), value.cast_into::<PyBytes>()?);
        let value = value.as_bytes();
        let is_whole = matches!(number, BODY | MAIN) && value.first() == Some(&VALUE_INLINE);
        columns.push(number, &[if is_whole { &value[..1] } else { value }]);
    }
    let time = |place| fields.get_item(place)?.extract::<u64>();
    let (source, confirms) = if is_live { (time(SOURCE)?, 0) } else { (0, time(CONFIRMS)?) };
    Ok(Some(Seen { timestamp: time(0)?, kind: fields.get_item(KIND)?.extract()?, columns, source, confirms }))
}

/// Records of the batch by their times, as Python has them; `reads` makes each once.
pub fn pending_of<'py>(reads: &Bound<'py, PyAny>, pending: &[Arc<JudgedPage>]) -> PyResult<Bound<'py, PyDict>> {
    let python = reads.py();
    let found = PyDict::new(python);
    for judged in pending {
        let Some(record) = &judged.record else { continue };
        let timestamp = time_of(&judged.pointer);
        let whole = judged.fetched.held.record.get_or_try_init(python, || {
            let columns = whole_columns(python, judged, record)?;
            let fields = (timestamp, record.kind, columns, record.arrived, record.confirms);
            Ok::<_, PyErr>(reads.call_method1(intern!(python, "record_of_batch"), fields)?.unbind())
        })?;
        found.set_item(timestamp, whole)?;
    }
    Ok(found)
}

fn whole_columns<'py>(python: Python<'py>, judged: &JudgedPage, record: &NewRecord) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(python);
    let inline = |number: usize, raw: &[u8]| {
        columns.set_item(column_of(python, number)?, PyBytes::new(python, &[&[VALUE_INLINE], raw].concat()))
    };
    if record.kind == CAPTURE_STORED {
        inline(BODY, judged.fetched.asking.body())?;
        inline(MAIN, judged.fetched.asking.main())?;
    }
    for (number, raw) in &record.long {
        inline(usize::from(*number), raw.as_ref())?;
    }
    for (number, cell_value) in record.columns.iter() {
        columns.set_item(column_of(python, usize::from(number))?, PyBytes::new(python, cell_value))?;
    }
    Ok(columns)
}

/// A page with its verdict, and everything that its commit writes.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct Judged(pub Arc<JudgedPage>);

type Place<'py> = (u64, Bound<'py, PyBytes>);

#[pymethods]
impl Judged {
    /// A stored page that is encoded anew by reference to another: its body and text alone.
    #[staticmethod]
    fn by_reference(prepared: &Bound<'_, PyTuple>, timestamp: u64, kind: &str, of: Place<'_>) -> PyResult<Self> {
        let unknown = || PyValueError::new_err(format!("there is no verdict {kind:?}"));
        let kind = number_of_word(VERDICT_KINDS, kind).ok_or_else(unknown)?;
        let of = pointer(of.0, of.1.as_bytes());
        let stored = STORED_REFERENCE;
        let verdict = Decided { kind, of: Some(of.clone()), stored, ..Decided::unjudged() };
        let record = NewRecord { kind: CAPTURE_STORED, ..NewRecord::default() };
        let path = Box::default(); // it is not the newest of its path
        let judged = JudgedPage::without_record(Fetched { path, ..fetched_of(prepared)? }, timestamp, verdict);
        Ok(Self(Arc::new(JudgedPage { record: Some(record), nearest: Some(of), ..judged })))
    }

    #[getter]
    fn prepared<'py>(&self, python: Python<'py>) -> Bound<'py, PyTuple> {
        self.0.fetched.held.prepared.bind(python).clone()
    }

    #[getter]
    fn place<'py>(&self, python: Python<'py>) -> Place<'py> {
        place_of(python, &self.0.pointer)
    }

    /// Kind of its verdict, the page that it names, and its reason.
    #[getter]
    fn verdict<'py>(&self, python: Python<'py>) -> PyResult<(u8, Option<Place<'py>>, Bound<'py, PyAny>)> {
        let Decided { kind, of, reason, .. } = &self.0.verdict;
        let of = of.as_ref().map(|of| place_of(python, of));
        Ok((*kind, of, text_of(python, reason, "surrogateescape")?))
    }

    /// How it is stored, as a number.
    #[getter]
    fn stored(&self) -> u8 {
        self.0.verdict.stored
    }

    #[getter]
    fn contains<'py>(&self, python: Python<'py>) -> Option<Place<'py>> {
        self.0.contains.as_ref().map(|page| place_of(python, page))
    }

    #[getter]
    fn rewrites(&self) -> bool {
        self.0.rewrites
    }
}

type Answer<'py> = (
    Bound<'py, PyTuple>,
    u64,
    (u8, Bound<'py, PyBytes>, u64, f64, Bound<'py, PyAny>, Bound<'py, PyBytes>, u64, u64),
    (u8, f64, u8),
    Option<String>,
    Option<u8>,
);

/// What the caller of each page is told: the prepared page, its time, the verdict against other rows, what it says of the
/// own row, why it is refused (None; empty if its preparation says it), and how the same capture was stored before.
#[pyfunction]
fn answers<'py>(python: Python<'py>, pages: Vec<PyRef<'py, Judged>>) -> PyResult<Vec<Answer<'py>>> {
    let row_of = |page: Option<&Pointer>| PyBytes::new(python, page.map_or(&[], |page| row_key_of(page)));
    let answer = |page: &PyRef<'py, Judged>| {
        let judged = &page.0;
        let verdict = &judged.verdict;
        let reason = match &*verdict.reason {
            b"" => intern!(python, "").clone().into_any(),
            reason => text_of(python, reason, "surrogateescape")?,
        };
        let others = (
            verdict.kind,
            row_of(verdict.of.as_ref()),
            verdict.of.as_ref().map_or(0, |of| time_of(of)),
            verdict.similarity,
            reason,
            PyBytes::new(python, &verdict.contains),
            verdict.candidates,
            verdict.verified,
        );
        let refusal = judged.refusal.map(|refusal| match refusal {
            Refusal::Prepared => String::new(),
            Refusal::NoFreeTime => format!(
                "no millisecond from {} on is free in this row; write the page with an earlier time",
                judged.fetched.timestamp
            ),
        });
        let own = (verdict.previous, verdict.previous_similarity, verdict.stored);
        Ok((page.prepared(python), time_of(&judged.pointer), others, own, refusal, judged.known_as))
    };
    pages.iter().map(answer).collect()
}

type CountedGroup<'py> = (u8, u8, u8, Bound<'py, PyBytes>, u64, u64);

/// What pages and visits that get a record add to totals: as `Totals.groups`, and the number of visits.
#[pyfunction]
fn counted<'py>(python: Python<'py>, pages: Vec<PyRef<'py, Judged>>) -> (Vec<CountedGroup<'py>>, u64) {
    let (groups, visits) = totals_of(pages.iter().map(|page| &page.0));
    let shown = groups.into_iter().map(|(of, count, body_bytes)| {
        (of.kind, of.previous, of.stored, PyBytes::new(python, &of.reason), count, body_bytes)
    });
    (shown.collect(), visits)
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Judged>()?;
    module.add_function(wrap_pyfunction!(answers, module)?)?;
    module.add_function(wrap_pyfunction!(counted, module)?)
}
