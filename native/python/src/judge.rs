//! The core for Python: what judging pages knows, and the verdicts.
//!
//! Python asks under a lock of its own, and everything that is read is read through one object of Python.  While it reads,
//! the state belongs to the call, and no mutex is held: another call meanwhile, or one in the child of a fork, is refused.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use docstore_store::compare::{
    Kind, Rules, MIN_NEAR_WORDS, MIN_SAME_TEXT_WORDS, REASON_CROWDED, REASON_DOUBTFUL, REASON_TITLE_MISMATCH,
};
use docstore_store::core::{self, Shares, LOOKS};
use docstore_store::format::VERDICT_KINDS;
use docstore_store::keys::table;
use docstore_store::lru::Counts;
use docstore_store::own::{Policies, PolicyTable};
use docstore_store::posted::{pointer, Pointer, POINTER_SLICE};
use docstore_store::verdict::number_of;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyTuple};

use crate::analysis::Analysis;
use crate::asking::{asking_of, changes_of, verdict_fields, CacheCounts, Reader, SeenPage};
use crate::convert::{caught, place_of, InvalidArgument};
use crate::encode::Group;
use crate::kernel::Kernel;
use crate::packed::PackedRows;
use crate::pages::{fetched_of, Held, Judged};

/// In how many children of forks this process has begun: to ask for the process takes as long as a look-up.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Python calls it in the child of a fork, whose cores are those of the parent.
#[pyfunction]
fn note_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

type State = core::Core<Held>;
type Place<'py> = (u64, Bound<'py, PyBytes>);

/// See `docstore_native.Core`.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
struct Core {
    /// None while a call works with it.
    state: Mutex<Option<Box<State>>>,
    /// A handler of a signal has committed while a call worked with the state: nothing that is cached is sure.
    missed: AtomicBool,
    kernel: Py<Kernel>,
    pages: Arc<Counts>,
    postings: Arc<Counts>,
    /// Forks before it was made; see `FORKS`.
    forks: u32,
}

impl Core {
    /// Work with the state, which no other call has meanwhile; a panic drops the batch and all that is cached.
    fn with<T>(&self, python: Python<'_>, work: impl FnOnce(&mut State) -> PyResult<T>) -> PyResult<T> {
        if FORKS.load(Ordering::Relaxed) != self.forks {
            let errors = python.import("docstore.model.errors")?;
            let error = errors.getattr("StoreUnavailable")?.call1((errors.getattr("FORKED")?,))?;
            return Err(PyErr::from_value(error));
        }
        let taken = self.state.try_lock().ok().and_then(|mut state| state.take());
        let mut state = taken.ok_or_else(|| PyRuntimeError::new_err("another call judges pages in this core"))?;
        let done = caught(|| work(&mut state));
        if done.is_err() {
            state.drop_batch();
            state.clear_pages();
        }
        if self.missed.swap(false, Ordering::Relaxed) {
            state.clear_rows();
        }
        if let Ok(mut home) = self.state.try_lock() {
            *home = Some(state);
        }
        done.map_err(PyRuntimeError::new_err)?
    }

    /// The same with what reads.
    fn reading<'py, T>(
        &self,
        reads: &Bound<'py, PyAny>,
        work: impl FnOnce(&mut State, &mut Reader<'_, 'py>) -> PyResult<T>,
    ) -> PyResult<T> {
        let mut reader = Reader { source: reads, kernel: self.kernel.get() };
        self.with(reads.py(), |state| work(state, &mut reader))
    }
}

const KINDS: [Kind; 6] = [Kind::Exact, Kind::SameText, Kind::Near, Kind::Contained, Kind::Similar, Kind::New];

#[pymethods]
impl Core {
    /// `rules`: thresholds of near, contained and similar, and whether titles are compared.  `shares`: bytes for pages,
    /// postings, sketches and shingles.
    #[new]
    fn new(
        rules: (f64, f64, Option<f64>, bool),
        kernel: Py<Kernel>,
        shares: (usize, usize, usize, usize),
        caches: bool,
        collects: bool,
    ) -> PyResult<Self> {
        if KINDS.iter().any(|kind| number_of(VERDICT_KINDS, kind.word()) != Some(*kind as u8)) {
            return Err(InvalidArgument::new_err("the kinds of verdicts are not those of the format"));
        }
        let (near, contained, similar, title_rule) = rules;
        let (pages, postings, sketches, shingles) = shares;
        let rules = Rules { near, contained, similar, title_rule };
        let state = State::new(rules, Shares { pages, postings, sketches, shingles }, caches, collects);
        let (pages, postings) = state.counts();
        let state = Mutex::new(Some(Box::new(state)));
        let (missed, forks) = (AtomicBool::new(false), FORKS.load(Ordering::Relaxed));
        Ok(Self { state, missed, kernel, pages, postings, forks })
    }

    /// How the caches of pages and of postings are used.
    fn counts(&self) -> (CacheCounts, CacheCounts) {
        (CacheCounts(self.pages.clone()), CacheCounts(self.postings.clone()))
    }

    // --- verdicts

    /// Judge pages, and add them to the batch; `policies` has for each the numbers of policies by kind of verdict, `table`
    /// the answers of `writing.policy`, `now` is the time of arrival.
    fn judge(
        &self,
        pages: Vec<Bound<'_, PyTuple>>,
        policies: &[u8],
        table: &[u8],
        now: u64,
        reads: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<Judged>> {
        let misshapen = |_| InvalidArgument::new_err("a table of policies has another length");
        let table: &PolicyTable = table.try_into().map_err(misshapen)?;
        let (policies, rest) = policies.as_chunks::<{ KINDS.len() }>();
        if policies.len() != pages.len() || !rest.is_empty() {
            return Err(InvalidArgument::new_err("there are policies for another number of pages"));
        }
        let pages = pages.iter().map(fetched_of).collect::<PyResult<Vec<_>>>()?;
        self.reading(reads, |state, reader| {
            state.prepare(&pages.iter().collect::<Vec<_>>(), reader)?;
            let mut judged = Vec::with_capacity(pages.len());
            for (page, &by_kind) in pages.into_iter().zip(policies) {
                reads.py().check_signals()?;
                if self.missed.swap(false, Ordering::Relaxed) {
                    state.clear_rows();
                }
                judged.push(Judged(state.judge(page, &Policies { by_kind, table }, now, reader)?));
            }
            Ok(judged)
        })
    }

    /// Read for pages that are judged next, in few calls.
    fn prepare(&self, pages: Vec<Bound<'_, PyTuple>>, reads: &Bound<'_, PyAny>) -> PyResult<()> {
        let pages = pages.iter().map(fetched_of).collect::<PyResult<Vec<_>>>()?;
        self.reading(reads, |state, reader| state.prepare(&pages.iter().collect::<Vec<_>>(), reader))
    }

    fn compare_with<'py>(
        &self,
        of: Place<'py>,
        body: PyBackedBytes,
        analysis: &Analysis,
        status: i64,
        reads: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let asking = asking_of(analysis, b"", body, status);
        let of = pointer(of.0, of.1.as_bytes());
        let verdict = self.reading(reads, |state, reader| state.compare_with(&of, &asking, reader))?;
        verdict_fields(reads.py(), &verdict, analysis)
    }

    #[allow(clippy::too_many_arguments)]
    fn similar<'py>(
        &self,
        row_key: &[u8],
        body: PyBackedBytes,
        analysis: &Analysis,
        status: i64,
        least: f64,
        limit: usize,
        reads: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<(Place<'py>, &'static str, f64, f64, f64)>> {
        let asking = asking_of(analysis, row_key, body, status);
        let found = self.reading(reads, |state, reader| state.similar(&asking, least, limit, reader))?;
        let shown = found.iter().map(|each| {
            (place_of(reads.py(), &each.pointer), each.kind.word(), each.jaccard, each.contained, each.contains)
        });
        Ok(shown.collect())
    }

    // --- the batch

    /// Pages and visits of the batch that get a record.
    fn pages(&self, python: Python<'_>) -> PyResult<Vec<Judged>> {
        self.with(python, |state| Ok(state.pages_of_batch().iter().cloned().map(Judged).collect()))
    }

    /// How many pages and visits of the batch get a record, and the bytes of their bodies.
    fn size(&self, python: Python<'_>) -> PyResult<(usize, usize)> {
        self.with(python, |state| Ok((state.pages_of_batch().len(), state.body_bytes_of_batch())))
    }

    fn post<'py>(
        &self,
        place: Place<'py>,
        analysis: &Analysis,
        status: i64,
        reads: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let (timestamp, row_key) = (place.0, place.1.as_bytes());
        let body = PyBackedBytes::from(PyBytes::new(reads.py(), b""));
        let asking = asking_of(analysis, row_key, body, status);
        self.reading(reads, |state, reader| state.post(&pointer(timestamp, row_key), &asking, reader))
    }

    /// Post a page in rows of other names.
    fn post_in(&self, rows: Vec<PyBackedBytes>, qualifier: &[u8], python: Python<'_>) -> PyResult<()> {
        self.with(python, |state| {
            let page = Pointer::from(qualifier);
            rows.iter().for_each(|row| state.postings.new.add(&page, row));
            Ok(())
        })
    }

    /// The rows of postings of the batch with their qualifiers.
    fn pack_postings(&self, rows: &Bound<'_, PackedRows>) -> PyResult<()> {
        self.with(rows.py(), |state| {
            rows.try_borrow_mut()?.fill(|rows| {
                let family = table("postings")?.1?;
                for (row, pages) in state.postings.new.iter() {
                    rows.begin_row("postings", row)?;
                    pages.iter().try_for_each(|page| rows.add_cell(family, page, 0, b""))?;
                }
                Some(())
            })
        })
    }

    fn is_in_batch(&self, python: Python<'_>, place: Place<'_>) -> PyResult<bool> {
        let pointer = pointer(place.0, place.1.as_bytes());
        self.with(python, |state| Ok(state.is_in_batch(&pointer)))
    }

    /// The batch is committed, its pages with the values of a group.
    fn committed(&self, python: Python<'_>, group: PyRef<'_, Group>) -> PyResult<()> {
        self.with(python, |state| {
            state.committed(|place, number| {
                let mut cells = group.0.cells_of_page(place);
                cells.find(|(other, _)| usize::from(*other) == number).map(|(_, cell_value)| cell_value)
            });
            Ok(())
        })
    }

    fn drop_batch(&self, python: Python<'_>) -> PyResult<()> {
        self.with(python, |state| {
            state.drop_batch();
            Ok(())
        })
    }

    // --- the caches

    /// After a commit.
    fn follow(&self, rows: &Bound<'_, PyAny>, is_sure: bool) -> PyResult<()> {
        if self.state.try_lock().is_ok_and(|state| state.is_none()) {
            self.missed.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let reads_set =
            self.state.try_lock().is_ok_and(|state| state.as_ref().is_some_and(|its| its.has_taken_times()));
        let (postings, changed) = changes_of(rows, reads_set)?;
        self.with(rows.py(), |state| {
            postings.iter().for_each(|(row, added, removed)| state.follow(row, added, removed, is_sure));
            for row in &changed {
                state.follow_row(&row.row_key, &row.set, row.deletes, is_sure);
                if row.uncovers {
                    state.uncover();
                }
            }
            Ok(())
        })
    }

    fn clear_pages(&self, python: Python<'_>) -> PyResult<()> {
        self.with(python, |state| {
            state.clear_pages();
            Ok(())
        })
    }

    // --- pages and look-ups

    fn page<'py>(&self, place: Place<'py>, reads: &Bound<'py, PyAny>) -> PyResult<Option<SeenPage>> {
        let pointer = pointer(place.0, place.1.as_bytes());
        Ok(self.reading(reads, |state, reader| state.page(&pointer, reader))?.map(SeenPage))
    }

    /// The main text of a page in UTF-8; None if it cannot be read.
    fn text<'py>(&self, place: Place<'py>, reads: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let pointer = pointer(place.0, place.1.as_bytes());
        let value = docstore_store::pages::Value::Main;
        let text = self.reading(reads, |state, reader| state.value(&pointer, value, reader))?;
        Ok(text.map(|text| PyBytes::new(reads.py(), &text)))
    }

    fn is_current<'py>(&self, place: Place<'py>, reads: &Bound<'py, PyAny>) -> PyResult<bool> {
        let pointer = pointer(place.0, place.1.as_bytes());
        self.reading(reads, |state, reader| state.is_current(&pointer, reader))
    }

    fn prepare_rows(&self, rows: Vec<Vec<u8>>, reads: &Bound<'_, PyAny>) -> PyResult<()> {
        self.reading(reads, |state, reader| state.prepare_rows(rows, reader))
    }

    /// The oldest page of each row of postings that has one.
    fn first_pages<'py>(&self, rows: Vec<PyBackedBytes>, reads: &Bound<'py, PyAny>) -> PyResult<Vec<Place<'py>>> {
        let found = self.reading(reads, |state, reader| {
            let mut found = Vec::new();
            for row in &rows {
                found.extend(state.postings.first(row, reader)?.first().cloned());
            }
            Ok(found)
        })?;
        Ok(found.iter().map(|page| place_of(reads.py(), page)).collect())
    }

    /// Of the texts that the index proposes for a page, those whose pages will probably be read.
    fn candidates_to_read(&self, analysis: &Analysis, reads: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
        let Some(marks) = &analysis.page.marks else { return Ok(Vec::new()) };
        self.reading(reads, |state, reader| {
            let answer = state.propose(marks, reader)?;
            Ok(state.candidates_to_read(marks, &answer.proposal.numbers))
        })
    }
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("LOOKS", (LOOKS.near, LOOKS.inside, LOOKS.most, LOOKS.further))?;
    module.add("POINTER_SLICE", POINTER_SLICE)?;
    module.add("MIN_NEAR_WORDS", MIN_NEAR_WORDS)?;
    module.add("MIN_SAME_TEXT_WORDS", MIN_SAME_TEXT_WORDS)?;
    module.add("REASON_CROWDED", REASON_CROWDED)?;
    module.add("REASON_DOUBTFUL", REASON_DOUBTFUL)?;
    module.add("REASON_TITLE_MISMATCH", REASON_TITLE_MISMATCH)?;
    module.add_function(wrap_pyfunction!(note_fork, module)?)?;
    module.add_class::<Core>()
}
