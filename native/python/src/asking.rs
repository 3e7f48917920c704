//! What the core is asked about, and what it reads, between Python and `docstore_store::{pages, core}`.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use docstore_kernel::postings::Answer;
use docstore_store::analysed::Marks;
use docstore_store::compare::{Reason, Verdict};
use docstore_store::format::{CAPTURE_FAMILY, POSTING_BODY, POSTING_TEXT};
use docstore_store::lru::Counts;
use docstore_store::pages::{Asking, Page, Reads, Stored, Value};
use docstore_store::posted::{row_key_of, time_of, Pointer, StoredPostings, POINTER_SLICE};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::analysis::Analysis;
use crate::kernel::Kernel;
use crate::packed::PackedRows;
use crate::queries::{IndexQuery, Proposal};

/// So many texts are compared faster than the GIL is let go and taken again.
const FEW: usize = 3;

/// Columns of a page as Python has them.
pub type Columns = Py<PyDict>;
/// The fields of a page as Python reads them: checksum, text checksum, sketch, its number of shingles, status, whether
/// it is a list, its title or None if that has to be read, columns.
type PageFields<'py> = (
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    u64,
    i64,
    bool,
    Option<Bound<'py, PyBytes>>,
    Bound<'py, PyDict>,
);

/// A page that is judged.
pub fn asking_of(analysis: &Analysis, row_key: &[u8], body: PyBackedBytes, status: i64) -> Asking {
    Asking { row_key: row_key.into(), status, body: Arc::new(body), page: analysis.page.clone() }
}

pub fn place_of<'py>(python: Python<'py>, pointer: &[u8]) -> (u64, Bound<'py, PyBytes>) {
    (time_of(pointer), PyBytes::new(python, row_key_of(pointer)))
}

/// The first fields of a `model.capture.StoredVerdict`, with the kind as a number; then the page that this page contains,
/// and the nearest page, each as time and row key or None.
pub fn verdict_fields<'py>(
    python: Python<'py>,
    verdict: &Verdict,
    analysis: &Analysis,
) -> PyResult<Bound<'py, PyTuple>> {
    let (of_time, of_row) = verdict.of.as_ref().map_or((0, PyBytes::new(python, b"")), |of| place_of(python, of));
    let contains = verdict.contains.as_ref().map(|pointer| place_of(python, pointer));
    let contains_row = contains.as_ref().map_or_else(|| PyBytes::new(python, b""), |(_, row_key)| row_key.clone());
    let reason = match verdict.reason.word() {
        "" if verdict.reason == Reason::NoText => PyString::new(python, &analysis.page.no_text),
        word => PyString::intern(python, word),
    };
    let fields = (
        verdict.kind as u8,
        of_row,
        of_time,
        verdict.similarity,
        reason,
        contains_row,
        verdict.candidates,
        verdict.verified,
        contains,
        verdict.nearest.as_ref().map(|pointer| place_of(python, pointer)),
    );
    fields.into_pyobject(python)
}

/// Bytes of the values of columns.
pub fn column_bytes(columns: &Bound<'_, PyDict>) -> PyResult<usize> {
    let mut total = 0;
    for (_, value) in columns {
        total += value.cast::<PyBytes>()?.as_bytes().len();
    }
    Ok(total)
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

/// Whether mutations of a row change its captures; a delete of the whole row names no family.
fn changes_captures(mutations: &Bound<'_, PyAny>) -> PyResult<bool> {
    for mutation in mutations.try_iter()? {
        let mutation = mutation?.cast_into::<PyTuple>()?;
        if mutation.is_empty() || mutation.get_item(0)?.cast::<PyString>()?.to_str()? == CAPTURE_FAMILY {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Row, added and removed pages of a changed row of postings.
type ChangedPostings = (Vec<u8>, Vec<Pointer>, Vec<Pointer>);

/// The postings that rows of a commit change, and the rows of pages of which they change captures.
pub fn changes_of<'py>(rows: &Bound<'py, PyAny>) -> PyResult<(Vec<ChangedPostings>, Vec<Bound<'py, PyBytes>>)> {
    let is_posting = |kind| matches!(kind, Some(POSTING_BODY | POSTING_TEXT));
    let (mut postings, mut changed) = (Vec::new(), Vec::new());
    if let Ok(packed) = rows.cast::<PackedRows>() {
        for row in packed.try_borrow()?.rows.rows() {
            if row.table == "postings" && is_posting(row.kind()) {
                let added = row.cells().map(|cell| Pointer::from(&cell.qualifier[..])).collect();
                postings.push((row.row_key(), added, Vec::new()));
            } else if row.has_capture() {
                changed.push(PyBytes::new(rows.py(), &row.row_key()));
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
        } else if table == "pages" && changes_captures(&mutations)? {
            changed.push(row_key);
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

impl Reads for Reader<'_, '_> {
    type Columns = Columns;

    fn page(&mut self, pointer: &Pointer) -> PyResult<Option<Stored<Columns>>> {
        let found = self.source.call_method1(intern!(self.python(), "page"), self.place(pointer))?;
        if found.is_none() {
            return Ok(None);
        }
        let (checksum, text_checksum, sketch, shingle_count, status, is_list, title, columns) =
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
        let column_bytes = column_bytes(&columns)?;
        Ok(Some(Stored { page: Arc::new(page), columns: Arc::new(columns.unbind()), column_bytes }))
    }

    fn value(&mut self, pointer: &Pointer, value: Value, columns: &Columns) -> PyResult<Option<Vec<u8>>> {
        let (timestamp, row_key) = self.place(pointer);
        let name = match value {
            Value::Title => "title",
            Value::Main => "main",
            Value::Body => "body",
        };
        let found = self.source.call_method1(intern!(self.python(), "value"), (name, timestamp, row_key, columns))?;
        Ok(found.extract::<Option<PyBackedBytes>>()?.map(|raw| raw.to_vec()))
    }

    fn is_readable(&mut self, pointer: &Pointer, columns: &Columns) -> PyResult<bool> {
        let (timestamp, row_key) = self.place(pointer);
        self.source.call_method1(intern!(self.python(), "is_readable"), (timestamp, row_key, columns))?.extract()
    }

    fn newest(&mut self, row_key: &[u8]) -> PyResult<Option<u64>> {
        let python = self.python();
        self.source.call_method1(intern!(python, "newest"), (PyBytes::new(python, row_key),))?.extract()
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
        self.source.call_method1(intern!(self.python(), "post"), asked)?;
        Ok(())
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
pub struct SeenPage(pub Stored<Columns>);

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

    #[getter]
    fn columns<'py>(&self, python: Python<'py>) -> Bound<'py, PyDict> {
        self.0.columns.bind(python).clone()
    }
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CacheCounts>()?;
    module.add_class::<SeenPage>()
}
