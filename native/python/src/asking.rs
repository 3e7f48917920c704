//! What the core is asked about, and what it reads, between Python and `docstore_store::{pages, core}`.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use docstore_kernel::postings::Answer;
use docstore_store::analysed::Marks;
use docstore_store::batch::{Decided, Seen};
use docstore_store::capture;
use docstore_store::compare::Verdict;
use docstore_store::format::{CAPTURE_FAMILY, POSTING_BODY, POSTING_TEXT};
use docstore_store::lru::Counts;
use docstore_store::pages::{Asking, Bytes, Page, Pending, Reads, RecordAndPage, Stored, Value};
use docstore_store::posted::{Pointer, StoredPostings, POINTER_SLICE};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::analysis::Analysis;
use crate::captures::column_of;
use crate::convert::{place_of, text_of};
use crate::kernel::Kernel;
use crate::packed::PackedRows;
use crate::pages::{pending_of, seen_of, Held};
use crate::queries::{IndexQuery, Proposal};

/// So many texts are compared faster than the GIL is let go and taken again.
const FEW: usize = 3;

/// The fields of a page as Python reads them: checksum, text checksum, sketch, its number of shingles, status, whether
/// it is a list, its title or None if that has to be read, and the cell values of title, main text and body.
type PageFields<'py> = (
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    u64,
    i64,
    bool,
    Option<Bound<'py, PyBytes>>,
    [Bound<'py, PyBytes>; 3],
);

/// A page that is judged.
pub fn asking_of(analysis: &Analysis, row_key: &[u8], body: PyBackedBytes, status: i64) -> Asking {
    Asking { row_key: row_key.into(), status, body: Bytes::new(body), page: analysis.page.clone() }
}

/// The first fields of a `model.capture.StoredVerdict`, with the kind as a number.
pub fn verdict_fields<'py>(
    python: Python<'py>,
    verdict: &Verdict,
    analysis: &Analysis,
) -> PyResult<Bound<'py, PyTuple>> {
    let decided = Decided::of(verdict, analysis.page.no_text.as_bytes());
    let (of_time, of_row) = decided.of.as_ref().map_or((0, PyBytes::new(python, b"")), |of| place_of(python, of));
    let (reason, contains) = (text_of(python, &decided.reason, "replace")?, PyBytes::new(python, &decided.contains));
    let fields =
        (decided.kind, of_row, of_time, decided.similarity, reason, contains, decided.candidates, decided.verified);
    fields.into_pyobject(python)
}

/// The postings that mutations of a row add, and those that they remove.
fn added_and_removed(mutations: &Bound<'_, PyAny>) -> PyResult<(Vec<Pointer>, Vec<Pointer>)> {
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    for mutation in mutations.try_iter()? {
        let mutation = mutation?.cast_into::<PyTuple>()?;
        let page = Pointer::from(mutation.get_item(1)?.cast::<PyBytes>()?.as_bytes());
        let is_set = mutation.get_item(3)?.is_instance_of::<PyBytes>();
        if is_set { &mut added } else { &mut removed }.push(page);
    }
    Ok((added, removed))
}

/// A row of pages of which a commit has changed captures.
#[derive(Default)]
pub struct ChangedRow {
    pub row_key: Vec<u8>,
    /// Times of the captures that it has set, and the checksums of their bodies; empty unless they are asked for.
    pub set: Vec<(u64, Box<[u8]>)>,
    pub deletes: bool,
    /// It deletes single captures, so that others may be shown again.
    pub uncovers: bool,
}

/// The checksum of the body of a record, without the scheme.
fn checksum_of(record: &[u8]) -> Box<[u8]> {
    let found = capture::Record::parse(0, record);
    found.map_or(Box::default(), |found| found.columns[capture::CHECKSUM].get(1..).unwrap_or_default().into())
}

/// What mutations of a row of pages change of its captures; a delete of the whole row names no family.
fn changed_row(row_key: &[u8], mutations: &Bound<'_, PyAny>, reads_set: bool) -> PyResult<Option<ChangedRow>> {
    let (mut changed, mut has_changed) = (ChangedRow { row_key: row_key.to_vec(), ..ChangedRow::default() }, false);
    for mutation in mutations.try_iter()? {
        let mutation = mutation?.cast_into::<PyTuple>()?;
        let is_set = mutation.len() == 4 && mutation.get_item(3)?.is_instance_of::<PyBytes>();
        changed.deletes |= !is_set;
        changed.uncovers |= !is_set && mutation.len() == 4;
        if mutation.is_empty() || mutation.get_item(0)?.cast::<PyString>()?.to_str()? == CAPTURE_FAMILY {
            has_changed = true;
            if is_set && reads_set {
                let value = mutation.get_item(3)?.cast_into::<PyBytes>()?;
                changed.set.push((mutation.get_item(2)?.extract()?, checksum_of(value.as_bytes())));
            }
        }
    }
    Ok(has_changed.then_some(changed))
}

/// Row, added and removed pages of a changed row of postings.
type ChangedPostings = (Vec<u8>, Vec<Pointer>, Vec<Pointer>);

/// The postings that rows of a commit change, and the rows of pages of which they change captures.
pub fn changes_of(rows: &Bound<'_, PyAny>, reads_set: bool) -> PyResult<(Vec<ChangedPostings>, Vec<ChangedRow>)> {
    let is_posting = |kind| matches!(kind, Some(POSTING_BODY | POSTING_TEXT));
    let (mut postings, mut changed) = (Vec::new(), Vec::new());
    if let Ok(packed) = rows.cast::<PackedRows>() {
        for row in packed.try_borrow()?.rows.rows() {
            if row.table == "postings" && is_posting(row.kind()) {
                let added = row.cells().map(|cell| Pointer::from(&cell.qualifier[..])).collect();
                postings.push((row.row_key(), added, Vec::new()));
            } else if row.has_capture() {
                let captures = row.cells().filter(|cell| reads_set && cell.family == CAPTURE_FAMILY);
                let set = captures.map(|cell| (cell.timestamp, checksum_of(cell.value))).collect();
                changed.push(ChangedRow { row_key: row.row_key(), set, ..ChangedRow::default() });
            }
        }
        return Ok((postings, changed));
    }
    for row in rows.try_iter()? {
        let row = row?.cast_into::<PyTuple>()?;
        let table = row.get_item(0)?.cast_into::<PyString>()?;
        let row_key = row.get_item(1)?.cast_into::<PyBytes>()?;
        let (table, mutations) = (table.to_str()?, row.get_item(2)?);
        if table == "postings" && is_posting(row_key.as_bytes().first().copied()) {
            let (added, removed) = added_and_removed(&mutations)?;
            postings.push((row_key.as_bytes().to_vec(), added, removed));
        } else if table == "pages" {
            changed.extend(changed_row(row_key.as_bytes(), &mutations, reads_set)?);
        }
    }
    Ok((postings, changed))
}

fn pages_of(qualifiers: &Bound<'_, PyAny>) -> PyResult<Vec<Pointer>> {
    qualifiers.cast::<PyList>()?.iter().map(|each| Ok(each.cast::<PyBytes>()?.as_bytes().into())).collect()
}

/// Reads through an object of Python; see `docstore_native.Reads`.
pub struct Reader<'a, 'py> {
    pub source: &'a Bound<'py, PyAny>,
    pub kernel: &'a Kernel,
}

impl<'py> Reader<'_, 'py> {
    fn python(&self) -> Python<'py> {
        self.source.py()
    }

    fn place(&self, pointer: &Pointer) -> (u64, Bound<'py, PyBytes>) {
        place_of(self.python(), pointer)
    }
}

impl StoredPostings for Reader<'_, '_> {
    type Error = PyErr;

    fn first(&mut self, rows: &[&[u8]]) -> PyResult<Vec<Vec<Pointer>>> {
        let python = self.python();
        let rows: Vec<_> = rows.iter().map(|row| PyBytes::new(python, row)).collect();
        let read = self.source.call_method1(intern!(python, "postings"), (rows, POINTER_SLICE))?;
        read.try_iter()?.map(|row| pages_of(&row?)).collect()
    }

    fn after(&mut self, row: &[u8], page: &[u8], most: usize) -> PyResult<Vec<Pointer>> {
        let python = self.python();
        let asked = (PyBytes::new(python, row), PyBytes::new(python, page), most);
        pages_of(&self.source.call_method1(intern!(python, "postings_after"), asked)?)
    }
}

impl<'py> Reader<'_, 'py> {
    fn bytes(&self, bytes: &[u8]) -> Bound<'py, PyBytes> {
        PyBytes::new(self.python(), bytes)
    }

    fn pending(&self, pending: Pending<'_, Held>) -> PyResult<Bound<'py, PyDict>> {
        pending_of(self.source, pending)
    }
}

impl Reads for Reader<'_, '_> {
    type Held = Held;

    fn absent_rows(&mut self, row_keys: Vec<&[u8]>) -> PyResult<Vec<Box<[u8]>>> {
        let row_keys: Vec<_> = row_keys.into_iter().map(|row_key| self.bytes(row_key)).collect();
        let found = self.source.call_method1(intern!(self.python(), "absent_rows"), (row_keys,))?;
        found.try_iter()?.map(|row_key| Ok(row_key?.cast::<PyBytes>()?.as_bytes().into())).collect()
    }

    fn page(&mut self, pointer: &Pointer, pending: Pending<'_, Held>) -> PyResult<Option<Stored>> {
        let (timestamp, row_key) = self.place(pointer);
        let asked = (timestamp, row_key, self.pending(pending)?);
        let found = self.source.call_method1(intern!(self.python(), "page"), asked)?;
        if found.is_none() {
            return Ok(None);
        }
        let (checksum, text_checksum, sketch, shingle_count, status, is_list, title, cells) =
            found.extract::<PageFields<'_>>()?;
        let page = Page::stored(
            checksum.as_bytes(),
            text_checksum.as_bytes(),
            sketch.as_bytes(),
            shingle_count,
            status,
            is_list,
            title.as_ref().map(|title| title.as_bytes()),
        );
        let cells = Arc::new(cells.map(|cell| cell.as_bytes().into()));
        Ok(Some(Stored { page: Arc::new(page), cells }))
    }

    fn value(
        &mut self,
        pointer: &Pointer,
        value: Value,
        cell_value: &[u8],
        pending: Pending<'_, Held>,
    ) -> PyResult<Option<Vec<u8>>> {
        let (timestamp, row_key) = self.place(pointer);
        let name = match value {
            Value::Title => "title",
            Value::Main => "main",
            Value::Body => "body",
        };
        let asked = (name, timestamp, row_key, self.bytes(cell_value), self.pending(pending)?);
        let found = self.source.call_method1(intern!(self.python(), "value"), asked)?;
        Ok(found.extract::<Option<PyBackedBytes>>()?.map(|raw| raw.to_vec()))
    }

    fn is_readable(&mut self, pointer: &Pointer, cell_value: &[u8], pending: Pending<'_, Held>) -> PyResult<bool> {
        let (timestamp, row_key) = self.place(pointer);
        let asked = (timestamp, row_key, self.bytes(cell_value), self.pending(pending)?);
        self.source.call_method1(intern!(self.python(), "is_readable"), asked)?.extract()
    }

    fn newest(&mut self, row_key: &[u8], pending: Pending<'_, Held>) -> PyResult<Option<u64>> {
        let asked = (self.bytes(row_key), self.pending(pending)?);
        self.source.call_method1(intern!(self.python(), "newest"), asked)?.extract()
    }

    fn record(&mut self, row_key: &[u8], timestamp: u64, pending: Pending<'_, Held>) -> PyResult<Option<Seen>> {
        let asked = (self.bytes(row_key), timestamp, self.pending(pending)?);
        seen_of(&self.source.call_method1(intern!(self.python(), "record"), asked)?, false)
    }

    fn record_and_page_before(
        &mut self,
        row_key: &[u8],
        timestamp: u64,
        pending: Pending<'_, Held>,
    ) -> PyResult<RecordAndPage> {
        let asked = (self.bytes(row_key), timestamp, self.pending(pending)?);
        let found = self.source.call_method1(intern!(self.python(), "record_and_page_before"), asked)?;
        let (record, page, has_looked) = found.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>, bool)>()?;
        Ok((seen_of(&record, false)?, if has_looked { Some(seen_of(&page, true)?) } else { None }))
    }

    fn before(
        &mut self,
        row_key: &[u8],
        timestamp: u64,
        fetches: bool,
        pending: Pending<'_, Held>,
    ) -> PyResult<Option<Seen>> {
        let asked = (self.bytes(row_key), timestamp, fetches, self.pending(pending)?);
        seen_of(&self.source.call_method1(intern!(self.python(), "before"), asked)?, true)
    }

    fn times(
        &mut self,
        row_key: &[u8],
        start: u64,
        end: u64,
        pending: Pending<'_, Held>,
    ) -> PyResult<Vec<(u64, Box<[u8]>)>> {
        let asked = (self.bytes(row_key), start, end, self.pending(pending)?);
        let found = self.source.call_method1(intern!(self.python(), "times"), asked)?;
        let found = found.extract::<Vec<(u64, Bound<'_, PyBytes>)>>()?;
        Ok(found.into_iter().map(|(time, checksum)| (time, checksum.as_bytes().into())).collect())
    }

    fn verdict(&mut self, row_key: &[u8], timestamp: u64, cell_value: &[u8]) -> PyResult<Option<Vec<u8>>> {
        let asked = (self.bytes(row_key), timestamp, self.bytes(cell_value));
        self.source.call_method1(intern!(self.python(), "verdict"), asked)?.extract()
    }

    fn is_sound(&mut self, row_key: &[u8], timestamp: u64, number: u8, cell_value: &[u8]) -> PyResult<bool> {
        let column = column_of(self.python(), usize::from(number))?;
        let asked = (self.bytes(row_key), timestamp, column, self.bytes(cell_value));
        self.source.call_method1(intern!(self.python(), "is_sound"), asked)?.extract()
    }

    fn add_anchors(&mut self, held: &Held, timestamp: u64, compares: bool) -> PyResult<()> {
        let asked = (held.prepared.bind(self.python()), timestamp, compares);
        self.source.call_method1(intern!(self.python(), "add_anchors"), asked).map(drop)
    }

    fn visible_words(&mut self, body: &[u8]) -> PyResult<usize> {
        let python = self.python();
        self.source.call_method1(intern!(python, "visible_words"), (PyBytes::new(python, body),))?.extract()
    }

    fn propose(&mut self, marks: &Arc<Marks>, more: usize) -> PyResult<Arc<Answer>> {
        let found = self.source.call_method1(intern!(self.python(), "propose"), (IndexQuery::of(marks, more),))?;
        Ok(found.cast::<Proposal>()?.get().0.clone())
    }

    fn post(&mut self, marks: &Arc<Marks>, answer: &Arc<Answer>) -> PyResult<()> {
        let asked = (IndexQuery::of(marks, 0), Proposal(answer.clone()));
        self.source.call_method1(intern!(self.python(), "post"), asked).map(drop)
    }

    fn shingles(&mut self, text: &[u8]) -> Vec<u64> {
        let mut workshop = self.kernel.workshop();
        let set = workshop.analyser.shingle_set(&String::from_utf8_lossy(text));
        Kernel::keep(workshop, text.len());
        set
    }

    fn apart<T: Send>(&mut self, texts: usize, work: impl FnOnce() -> T + Send) -> T {
        if texts < FEW {
            work()
        } else {
            self.python().detach(work)
        }
    }
}

/// How a cache of the core is used.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct CacheCounts(pub Arc<Counts>);

#[pymethods]
impl CacheCounts {
    fn __len__(&self) -> usize {
        self.0.entries.load(Ordering::Relaxed)
    }

    #[getter]
    fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    #[getter]
    fn hits(&self) -> u64 {
        self.0.hits.load(Ordering::Relaxed)
    }

    #[getter]
    fn misses(&self) -> u64 {
        self.0.misses.load(Ordering::Relaxed)
    }
}

/// A page as verdicts see it.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct SeenPage(pub Stored);

#[pymethods]
impl SeenPage {
    #[getter]
    fn checksum<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, &self.0.page.checksum)
    }

    #[getter]
    fn text_checksum<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, &self.0.page.text_checksum)
    }

    #[getter]
    fn status(&self) -> i64 {
        self.0.page.status
    }

    /// Cell values of body and text; None for one that it does not have.
    #[getter]
    fn cells<'py>(&self, python: Python<'py>) -> (Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>) {
        let cell = |value| Some(self.0.cell(value)).filter(|cell| !cell.is_empty());
        let shown = |value| cell(value).map(|cell| PyBytes::new(python, cell));
        (shown(Value::Body), shown(Value::Main))
    }
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CacheCounts>()?;
    module.add_class::<SeenPage>()
}
