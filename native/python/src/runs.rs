//! The index of a store for Python: `docstore_store::{index, run}` over mapped files.
//!
//! Python writes and maps the files; nothing here opens one.  The GIL is let go while runs are made and merged, and while
//! the texts of a large group are posted; a look-up takes less time than to let it go and take it again.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use docstore_kernel::ranking::Looks;
use docstore_store::index::Index;
use docstore_store::run::{self, Span};
use pyo3::buffer::PyBuffer;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::checks::Queries;
use crate::convert::{detached, run_error, words_as_bytes, InvalidArgument};
use crate::postings::{looks_of, LookLimits, Postings};
use crate::queries::{IndexQuery, Proposal};

/// A cell of the log of so many bytes is posted without the GIL: of some 16 texts, a tenth of a millisecond.
const LONG_CELL_BYTES: usize = 8 << 10;

/// One read-only piece of memory that nobody changes, such as a mapped file.
struct Mapped(PyBuffer<u8>);

impl Mapped {
    fn new(buffer: PyBuffer<u8>) -> PyResult<Self> {
        if !buffer.is_c_contiguous() || !buffer.readonly() {
            return Err(InvalidArgument::new_err("a run must be one read-only piece of memory"));
        }
        Ok(Self(buffer))
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the buffer is contiguous, which `new` checks, and exported for as long as it lives, which the result
        // borrows.  It is read-only, so Python code does not change it; a run's file is never changed once it is mapped.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast::<u8>(), self.0.len_bytes()) }
    }
}

/// A run over a read-only buffer; its name is the groups that it holds, `first <= group < end`.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
struct Run(Arc<run::Run<Mapped>>);

#[pymethods]
impl Run {
    /// Open the run of some groups; see `Runs.open`.
    #[new]
    fn new(first: u64, end: u64, buffer: PyBuffer<u8>) -> PyResult<Self> {
        run::Run::open((first, end), Mapped::new(buffer)?).map(Arc::new).map(Self).map_err(run_error)
    }

    #[getter]
    fn span(&self) -> Span {
        self.0.span
    }

    #[getter]
    fn shape(&self) -> (u32, u32) {
        (self.0.shape.slice_bits, self.0.shape.place_bits)
    }

    #[getter]
    fn parts(&self) -> [usize; 4] {
        self.0.parts
    }

    /// Texts, different keys and postings.
    #[getter]
    fn counts(&self) -> (u64, u64, u64) {
        (self.0.texts, self.0.keys, self.0.postings)
    }

    /// Text numbers by place, as bytes of uint64.
    fn text_numbers<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        words_as_bytes(python, &python.detach(|| self.0.numbers()))
    }

    /// Names of damaged parts; reads the whole run.
    fn damaged_parts(&self, python: Python<'_>) -> Vec<&'static str> {
        python.detach(|| self.0.damaged_parts())
    }
}

/// The bytes of a run that is made: an iterator of memoryviews, of which one that is empty has only verified.
#[pyclass(module = "docstore.dedup.docstore_native")]
struct RunParts(run::RunParts<Mapped>);

#[pymethods]
impl RunParts {
    /// The groups of the run that is made: `first <= group < end`.
    #[getter]
    fn span(&self) -> Span {
        self.0.span
    }

    /// Bytes of the runs that are read.
    #[getter]
    fn size_bytes(&self) -> usize {
        self.0.size_bytes
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, python: Python<'py>) -> PyResult<Option<Bound<'py, PyMemoryView>>> {
        let Some(bytes) = python.detach(|| self.0.advance()).map_err(run_error)? else { return Ok(None) };
        PyMemoryView::from(Bound::new(python, Packed(bytes))?.as_any()).map(Some)
    }
}

/// The index of a store; not thread-safe.
#[pyclass(module = "docstore.dedup.docstore_native")]
struct Runs(Index<Mapped>);

#[pymethods]
impl Runs {
    /// An index without postings.
    #[new]
    #[pyo3(signature = (limit, flush_texts = 2048, flush_postings = 1 << 17, fan_in = 2))]
    fn new(limit: usize, flush_texts: usize, flush_postings: usize, fan_in: usize) -> PyResult<Self> {
        Index::new(limit, flush_texts, flush_postings, fan_in).map(Self).map_err(run_error)
    }

    #[getter]
    fn end(&self) -> u64 {
        self.0.end()
    }

    #[getter]
    fn next(&self) -> u64 {
        self.0.next()
    }

    #[getter]
    fn runs(&self) -> Vec<Run> {
        self.0.runs().iter().cloned().map(Run).collect()
    }

    #[getter]
    fn is_full(&self) -> bool {
        self.0.is_full()
    }

    #[getter]
    fn is_pruning(&self) -> bool {
        self.0.is_pruning()
    }

    #[getter]
    fn is_merging(&self) -> bool {
        self.0.is_merging()
    }

    #[getter]
    fn dropped(&self) -> u64 {
        self.0.dropped()
    }

    /// The texts that no run has with their keys, as cells of a row of the log.
    fn log<'py>(&self, python: Python<'py>, cell_texts: usize) -> Vec<Bound<'py, PyBytes>> {
        let cells = self.0.recent().log(self.0.end(), cell_texts);
        cells.iter().map(|cell| PyBytes::new(python, cell)).collect()
    }

    /// Numbers of the texts that no run has, as bytes of uint64.
    fn recent_texts<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        words_as_bytes(python, self.0.recent().texts())
    }

    /// Open the next run of a store; -> False if the runs before it cover it: its merge was finished.
    fn open(&mut self, first: u64, end: u64, buffer: PyBuffer<u8>) -> PyResult<bool> {
        self.0.open((first, end), Mapped::new(buffer)?).map_err(run_error)
    }

    /// Take a committed group into the memtable; -> number of its texts.
    fn add(&mut self, python: Python<'_>, group: u64, cells: Vec<PyBackedBytes>) -> PyResult<usize> {
        let is_short = cells.iter().map(|cell| cell.len()).sum::<usize>() < LONG_CELL_BYTES;
        let mut work = || self.0.add(group, &cells);
        let added = if is_short { work() } else { detached(python, work)? };
        added.map_err(run_error)
    }

    /// The run of the memtable, to be written and adopted before another group is added; None if it has no group.
    fn flush(&self) -> PyResult<Option<RunParts>> {
        Ok(self.0.flush().map_err(run_error)?.map(RunParts))
    }

    /// Merges to begin; while texts are pruned, runs that are rewritten without them.
    fn merge(&mut self) -> PyResult<Vec<RunParts>> {
        Ok(self.0.merge().map_err(run_error)?.into_iter().map(RunParts).collect())
    }

    /// Take a run that was written from `flush` or `merge`; -> the runs that it replaces, whose files may go.
    fn adopt(&mut self, first: u64, end: u64, buffer: PyBuffer<u8>) -> PyResult<Vec<Run>> {
        let old = self.0.adopt((first, end), Mapped::new(buffer)?).map_err(run_error)?;
        Ok(old.into_iter().map(Run).collect())
    }

    /// Begin to rewrite the runs with the texts that stay alone, whose numbers ascend.
    fn prune(&mut self, python: Python<'_>, live: PyBuffer<u64>) -> PyResult<()> {
        self.0.prune(live.to_vec(python)?);
        Ok(())
    }

    /// Look up keys that are not mixed, those of a batch last: (which key, text number), each as bytes of uint64.
    #[pyo3(signature = (keys, batch = None, lower = None))]
    fn find<'py>(
        &self,
        python: Python<'py>,
        keys: PyBuffer<u64>,
        batch: Option<PyRef<'py, Postings>>,
        lower: Option<PyRef<'py, Self>>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let (batch, lower) = (batch.as_ref().map(|batch| &batch.0), lower.as_ref().map(|lower| &lower.0));
        let (owners, texts) = self.0.find(keys.to_vec(python)?, batch, lower).map_err(run_error)?;
        Ok((words_as_bytes(python, &owners)?, words_as_bytes(python, &texts)?))
    }

    /// The chains of a page looked up, and what they lead to ranked; removed texts are left out.
    #[pyo3(signature = (query, looks, batch = None, lower = None, skips_damage = false))]
    fn propose(
        &self,
        query: &IndexQuery,
        looks: LookLimits,
        batch: Option<PyRef<'_, Postings>>,
        lower: Option<PyRef<'_, Self>>,
        skips_damage: bool,
    ) -> PyResult<Proposal> {
        let (batch, lower) = (batch.as_ref().map(|batch| &batch.0), lower.as_ref().map(|lower| &lower.0));
        let looks = looks_of(looks, query);
        self.0.propose(query.asked(), looks, batch, lower, skips_damage).map(Proposal::new).map_err(run_error)
    }

    /// Numbers of the rows whose texts no look-up finds, though their buckets have room for them.
    ///
    /// The caller sees to it that nobody changes the index meanwhile.
    fn lacking(&self, python: Python<'_>, queries: &Bound<'_, Queries>, looks: LookLimits) -> PyResult<Vec<usize>> {
        let (near, inside, most, further) = looks;
        let (looks, queries) = (Looks { near, inside, most, further }, &queries.get().0);
        detached(python, || self.0.lacking(queries, looks))?.map_err(run_error)
    }
}

/// Bytes that Python reads in place: to copy a megabyte would hold the GIL for as long, and whoever waits for it.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
struct Packed(Vec<u8>);

#[pymethods]
impl Packed {
    /// Fill a view that Python asks for; it keeps `slf` alive.
    ///
    /// SAFETY: the caller is Python alone, whose view is valid or null, which `PyBuffer_FillInfo` refuses.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let bytes = &slf.get().0;
        let begin = bytes.as_ptr().cast_mut().cast::<c_void>();
        // No allocation is longer than isize::MAX.
        let length = isize::try_from(bytes.len()).unwrap_or(isize::MAX);
        // SAFETY: Python gives a view to fill.  The bytes live as long as `slf`, to which the view gets a reference, and
        // are never changed or moved: the class is frozen.  The view is read-only.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), begin, length, 1, flags) };
        if filled == -1 {
            return Err(PyErr::fetch(slf.py()));
        }
        Ok(())
    }
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Run>()?;
    module.add_class::<RunParts>()?;
    module.add_class::<Runs>()?;
    module.add_class::<Packed>()
}
