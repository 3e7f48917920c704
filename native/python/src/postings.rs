//! The index of a store for Python: `docstore_kernel::postings` over runs in mapped files, and the postings of a batch.
//!
//! The GIL is let go while runs are made and merged (`runs`), and while the texts of a large group are posted; a look-up
//! takes less time than to let it go and take it again.

use std::collections::{HashMap, HashSet};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use docstore_kernel::postings::{self, mix_key, Answer, Asked, Layer, Recent};
use docstore_kernel::ranking::{self, Looks};
use docstore_kernel::sketch::BANDS;
use docstore_kernel::slices::{Damaged, LIST_LIMIT, PLACE_BITS};
use docstore_kernel::words::Words;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::checks::Queries;
use crate::runs::{corrupt, damaged, CorruptionError, InvalidArgument, Run, RunParts, TEXT_GONE};
use crate::text::WORDS;
use crate::{detached, words_as_bytes};

/// A cell of the log of so many bytes is posted without the GIL: of some 16 texts, a tenth of a millisecond.
const LONG_CELL_BYTES: usize = 8 << 10;

/// What a page asks: band keys, fingerprints and runs, not mixed, the number of its own text, and how many more texts are
/// wanted than `looks`.
type Question = (PyBuffer<u64>, PyBuffer<u64>, PyBuffer<u64>, u64, usize);
/// How many texts are looked at; see `ranking::Looks`.
type LookLimits = (usize, usize, usize, usize);
/// Text numbers, texts found, whether the page's own is among them, numbers that come next, whether it is crowded,
/// further keys.
type Proposal<'py> = (Vec<u64>, usize, bool, Vec<u64>, bool, Bound<'py, PyBytes>);

/// Take a question apart, propose, and hand the answer over.
fn answered<'py>(
    python: Python<'py>,
    asked: Question,
    looks: LookLimits,
    propose: impl FnOnce(Asked<'_>, Looks) -> PyResult<Answer>,
) -> PyResult<Proposal<'py>> {
    let (band_keys, fingerprints, of_runs, own, more) = asked;
    let (band_keys, fingerprints) = (band_keys.to_vec(python)?, fingerprints.to_vec(python)?);
    let asked = Asked { band_keys: &band_keys, fingerprints: &fingerprints, runs: &of_runs.to_vec(python)?, own };
    let (near, inside, most, further) = looks;
    let looks = Looks { near: near.saturating_add(more), inside: inside.saturating_add(more), most, further };
    let found = propose(asked, looks)?;
    let further_keys = words_as_bytes(python, &found.further_keys)?;
    let ranking::Proposal { numbers, candidates, holds_own, further } = found.proposal;
    Ok((numbers, candidates, holds_own, further, found.is_crowded, further_keys))
}

/// The chains of a page looked up by a function of Python, and what they lead to ranked.
///
/// `find` takes keys as bytes of uint64; it gives for each posting which key, ascending (int64), and its text (uint64).
#[pyfunction]
pub fn propose<'py>(
    python: Python<'py>,
    asked: Question,
    limit: usize,
    looks: LookLimits,
    find: &Bound<'py, PyAny>,
) -> PyResult<Proposal<'py>> {
    answered(python, asked, looks, |asked, looks| {
        postings::propose_by(asked, limit, looks, |keys| {
            let found = find.call1((words_as_bytes(python, &keys)?,))?;
            let (owners, texts) = found.extract::<(PyBuffer<i64>, PyBuffer<u64>)>()?;
            let found: Vec<_> =
                owners.to_vec(python)?.into_iter().map(|owner| owner as u32).zip(texts.to_vec(python)?).collect();
            match found.iter().all(|&(owner, _)| (owner as usize) < keys.len()) {
                true => Ok(found),
                false => Err(PyValueError::new_err("a look-up gives a posting of a key that it was not asked for")),
            }
        })
    })
}

/// Postings of a batch, by mixed key.
#[pyclass(module = "docstore.dedup.docstore_native")]
#[derive(Default)]
pub struct Postings(Recent);

#[pymethods]
impl Postings {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// How many texts they are of.
    fn __len__(&self) -> usize {
        self.0.texts().len()
    }

    /// Add a text under keys that are not mixed, each once.
    #[pyo3(signature = (text, *parts))]
    fn post<'py>(&mut self, python: Python<'py>, text: u64, parts: &Bound<'py, PyTuple>) -> PyResult<()> {
        let mut keys = Vec::new();
        for part in parts {
            keys.extend(part.extract::<PyBuffer<u64>>()?.to_vec(python)?.into_iter().map(mix_key));
        }
        if self.0.post(text, &keys) {
            return Ok(());
        }
        Err(PyValueError::new_err("no room for another text: commit those posted"))
    }

    /// The texts with their keys, as cells of a row of the log.
    fn log<'py>(&self, python: Python<'py>, durable_end: u64, cell_texts: usize) -> Vec<Bound<'py, PyBytes>> {
        self.0.log(durable_end, cell_texts).iter().map(|cell| PyBytes::new(python, cell)).collect()
    }
}

/// Groups of a run: `first <= group < end`.
type Span = (u64, u64);

/// The index of a store: committed postings in a few sorted runs, oldest first, and in a table in memory (the memtable).
///
/// A small LSM tree.  Neighbouring runs of similar size are merged; the caller writes the bytes of flushes and merges to
/// files, and hands these over.  Each run keeps the first `limit` texts of a key, so results do not depend on merges.
/// Not thread-safe.
#[pyclass(module = "docstore.dedup.docstore_native")]
pub struct Runs {
    limit: usize,
    /// The memtable is flushed at so many texts, or so many postings, however few texts they are of.
    flush_texts: usize,
    flush_postings: usize,
    /// Runs of one level that are merged into one of the next.
    fan_in: usize,
    runs: Vec<Py<Run>>,
    recent: Recent,
    /// The first group of the memtable.  Groups before it are in runs.
    end: u64,
    next: u64,
    /// Sources of each merge that is being written.
    merges: HashMap<Span, Vec<Span>>,
    /// Texts that stay, ascending, while runs of groups before `prune_end` are rewritten without others; `pruned` has
    /// the runs whose rewriting has started.
    live: Option<Arc<Vec<u64>>>,
    prune_end: u64,
    pruned: HashSet<Span>,
    dropped: u64,
}

impl Runs {
    fn layer(&self, skips_damage: bool) -> PyResult<Layer<'_>> {
        let runs = self.runs.iter().map(|run| run.get().view()).collect::<PyResult<_>>()?;
        Ok(Layer { runs, recent: Some(&self.recent), skips_damage })
    }

    /// The committed postings of another index, then those of this one, then those of a batch.
    fn layers<'a>(
        &'a self,
        lower: &'a Option<PyRef<'_, Self>>,
        batch: &'a Option<PyRef<'_, Postings>>,
        skips_damage: bool,
    ) -> PyResult<Vec<Layer<'a>>> {
        let mut layers =
            lower.as_ref().map(|lower| lower.layer(skips_damage)).transpose()?.into_iter().collect::<Vec<_>>();
        layers.push(self.layer(skips_damage)?);
        layers.extend(batch.as_ref().map(|batch| Layer { recent: Some(&batch.0), ..Layer::default() }));
        Ok(layers)
    }

    /// The power of `fan_in` for the size of a run in full memtables.
    fn level(&self, run: &Run) -> u32 {
        let size = (run.texts / self.flush_texts as u64).max(run.postings / self.flush_postings as u64);
        size.checked_ilog(self.fan_in as u64).unwrap_or(0)
    }
}

#[pymethods]
impl Runs {
    /// An index without postings.
    #[new]
    #[pyo3(signature = (limit, flush_texts = 2048, flush_postings = 1 << 17, fan_in = 2))]
    fn new(limit: usize, flush_texts: usize, flush_postings: usize, fan_in: usize) -> PyResult<Self> {
        if fan_in < 2 || flush_texts < 1 || flush_postings < 1 || !(1..=LIST_LIMIT).contains(&limit) {
            return Err(InvalidArgument::new_err(format!(
                "fan_in {fan_in} must be at least 2, flush_texts {flush_texts} and flush_postings {flush_postings} at \
                 least 1 and limit {limit} from 1 to {LIST_LIMIT}"
            )));
        }
        Ok(Self {
            limit,
            flush_texts,
            flush_postings,
            fan_in,
            runs: Vec::new(),
            recent: Recent::default(),
            end: 0,
            next: 0,
            merges: HashMap::new(),
            live: None,
            prune_end: 0,
            pruned: HashSet::new(),
            dropped: 0,
        })
    }

    /// Groups below this number are in runs.
    #[getter]
    fn end(&self) -> u64 {
        self.end
    }

    /// The number of the next group.
    #[getter]
    fn next(&self) -> u64 {
        self.next
    }

    /// The runs that look-ups read, oldest first.
    #[getter]
    fn runs(&self, python: Python<'_>) -> Vec<Py<Run>> {
        self.runs.iter().map(|run| run.clone_ref(python)).collect()
    }

    /// Whether the memtable has to be flushed.
    #[getter]
    fn is_full(&self) -> bool {
        self.recent.texts().len() >= self.flush_texts || self.recent.len() >= self.flush_postings
    }

    /// Whether texts are being pruned.
    #[getter]
    fn is_pruning(&self) -> bool {
        self.live.is_some()
    }

    /// Whether merges or rewrites are being written.
    #[getter]
    fn is_merging(&self) -> bool {
        !self.merges.is_empty()
    }

    /// Postings that were pruned so far.
    #[getter]
    fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The texts that no run has with their keys, as cells of a row of the log.
    fn log<'py>(&self, python: Python<'py>, cell_texts: usize) -> Vec<Bound<'py, PyBytes>> {
        self.recent.log(self.end, cell_texts).iter().map(|cell| PyBytes::new(python, cell)).collect()
    }

    /// Numbers of the texts that no run has, as bytes of uint64.
    fn recent_texts<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        words_as_bytes(python, self.recent.texts())
    }

    /// Open the next run of a store; -> False if the runs before it cover it: its merge was finished.
    fn open(&mut self, python: Python<'_>, first: u64, end: u64, buffer: PyBuffer<u8>) -> PyResult<bool> {
        if end <= self.end {
            return Ok(false);
        }
        if first != self.end {
            let (expected, found) = (format!("one from group {}", self.end), format!("group {first}"));
            return Err(corrupt(python, "a run of postings is missing", None, &expected, &found));
        }
        self.runs.push(Py::new(python, Run::open(python, (first, end), buffer)?)?);
        (self.end, self.next) = (end, end);
        Ok(true)
    }

    /// Take a committed group into the memtable; -> number of its texts.
    ///
    /// `group` is larger than that of the last one; groups between them failed.  `cells` are those of its row of the log.
    fn add(&mut self, python: Python<'_>, group: u64, cells: Vec<PyBackedBytes>) -> PyResult<usize> {
        if group < self.next {
            let last = self.next - 1;
            return Err(InvalidArgument::new_err(format!(
                "group {group} does not follow {last}; add each once, in order"
            )));
        }
        let before = self.recent.texts().len();
        let recent = &mut self.recent;
        let mut work = || cells.iter().try_for_each(|cell| recent.replay(cell));
        let is_short = cells.iter().map(|cell| cell.len()).sum::<usize>() < LONG_CELL_BYTES;
        let posted = if is_short { work() } else { detached(python, work)? };
        posted.map_err(|_| CorruptionError::new_err("a cell of the log of postings ends inside a text"))?;
        self.next = group + 1;
        Ok(self.recent.texts().len() - before)
    }

    /// The run of the memtable, to be written and adopted before another group is added; None if it has no group.
    fn flush(&self) -> PyResult<Option<RunParts>> {
        let span = (self.end, self.next);
        (self.next > self.end).then(|| RunParts::of_recent(span, self.limit, &self.recent)).transpose()
    }

    /// Merges to begin: of neighbours whose oldest is not larger than the largest of the others.
    ///
    /// While texts are pruned, runs are rewritten without them instead.
    fn merge(&mut self, python: Python<'_>) -> PyResult<Vec<RunParts>> {
        let mut begun = Vec::new();
        let mut busy: HashSet<Span> = self.merges.values().flatten().copied().collect();
        if let Some(live) = &self.live {
            for run in &self.runs {
                let span = run.get().span;
                if span.1 <= self.prune_end && !busy.contains(&span) && self.pruned.insert(span) {
                    begun.push(RunParts::pruned(self.limit, run.clone_ref(python), live.clone())?);
                    self.merges.insert(span, vec![span]);
                }
            }
            if !self.merges.is_empty() {
                return Ok(begun);
            }
            self.live = None;
        }
        for sources in self.runs.windows(self.fan_in).rev() {
            let levels: Vec<u32> = sources.iter().map(|run| self.level(run.get())).collect();
            let spans: Vec<Span> = sources.iter().map(|run| run.get().span).collect();
            let is_small = sources.iter().map(|run| run.get().texts).sum::<u64>() <= 1 << PLACE_BITS;
            let is_due = levels[1..].iter().any(|&level| levels[0] <= level);
            if is_due && is_small && !spans.iter().any(|span| busy.contains(span)) {
                let span = (spans[0].0, spans[spans.len() - 1].1);
                let sources = sources.iter().map(|run| run.clone_ref(python)).collect();
                begun.push(RunParts::merged(span, self.limit, sources)?);
                busy.extend(&spans);
                self.merges.insert(span, spans);
            }
        }
        Ok(begun)
    }

    /// Take a run that was written from `flush` or `merge`; -> the runs that it replaces, whose files may go.
    ///
    /// A run that is rewritten under its own name replaces its file, and is not among them.
    fn adopt(&mut self, python: Python<'_>, first: u64, end: u64, buffer: PyBuffer<u8>) -> PyResult<Vec<Py<Run>>> {
        let span = (first, end);
        let run = Py::new(python, Run::open(python, span, buffer)?)?;
        let Some(sources) = self.merges.remove(&span) else {
            if span != (self.end, self.next) {
                return Err(InvalidArgument::new_err(format!("no run of groups {first} to {end} is being made")));
            }
            self.runs.push(run);
            self.end = self.next;
            self.recent = Recent::default();
            return Ok(Vec::new());
        };
        let at = self.runs.iter().position(|run| run.get().span == sources[0]);
        let at = at.ok_or_else(|| InvalidArgument::new_err("the sources of a merge are gone"))?;
        if sources[0] == span {
            self.dropped += self.runs[at].get().postings - run.get().postings;
        }
        let old = self.runs.splice(at..at + sources.len(), [run]);
        Ok(old.filter(|run| run.get().span != span).collect())
    }

    /// Begin to rewrite the runs without removed texts: `merge` gives them, and no merges until all are adopted.
    ///
    /// `live` are the numbers of texts that stay, ascending; texts of groups that are not in runs yet stay as well.
    fn prune(&mut self, python: Python<'_>, live: PyBuffer<u64>) -> PyResult<()> {
        self.live = Some(Arc::new(live.to_vec(python)?));
        self.prune_end = self.end;
        self.pruned.clear();
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
        let mixed: Vec<u64> = keys.to_vec(python)?.into_iter().map(mix_key).collect();
        let (owners, texts) =
            postings::find(&self.layers(&lower, &batch, false)?, &mixed, self.limit).map_err(damaged)?;
        Ok((words_as_bytes(python, &owners)?, words_as_bytes(python, &texts)?))
    }

    /// The chains of a page looked up, and what they lead to ranked; removed texts are left out.
    ///
    /// `skips_damage`: go on without the postings that a damaged run cannot give.
    #[pyo3(signature = (asked, looks, batch = None, lower = None, skips_damage = false))]
    fn propose<'py>(
        &self,
        python: Python<'py>,
        asked: Question,
        looks: LookLimits,
        batch: Option<PyRef<'py, Postings>>,
        lower: Option<PyRef<'py, Self>>,
        skips_damage: bool,
    ) -> PyResult<Proposal<'py>> {
        let layers = self.layers(&lower, &batch, skips_damage)?;
        answered(python, asked, looks, |asked, looks| {
            let mut found = postings::propose(&layers, asked, self.limit, looks).map_err(damaged)?;
            found.proposal.numbers.retain(|&number| number != TEXT_GONE);
            Ok(found)
        })
    }

    /// Numbers of the rows whose texts no look-up finds, though their buckets have room for them.
    ///
    /// The caller sees to it that nobody changes the index meanwhile.
    fn lacking(&self, python: Python<'_>, queries: &Bound<'_, Queries>, looks: LookLimits) -> PyResult<Vec<usize>> {
        let (layers, queries) = (self.layers(&None, &None, false)?, &queries.get().0);
        let (near, inside, most, further) = looks;
        let looks = Looks { near, inside, most, further };
        let is_lacking = |query: &Query| {
            let Query { band_keys, fingerprints, runs, own, .. } = query;
            for key in band_keys.iter().take(BANDS) {
                if postings::find(&layers, &[mix_key(*key)], self.limit)?.1.contains(own) {
                    return Ok(false); // nearly always under the first one
                }
            }
            let asked = Asked { band_keys, fingerprints, runs, own: *own };
            let found = postings::propose(&layers, asked, self.limit, looks)?;
            Ok::<_, Damaged>(!found.proposal.holds_own && !found.is_crowded)
        };
        let look = || {
            let mut rows = Vec::new();
            for query in queries {
                if is_lacking(query)? {
                    rows.push(query.row);
                }
            }
            Ok(rows)
        };
        detached(python, look)?.map_err(damaged)
    }
}

const BODY_HEAD_BYTES: usize = 9;
const TEXT_NUMBER_BYTES: usize = 6;
const TITLE_KEY_BYTES: usize = 4;
const POSTING_BODY: u8 = 0x01;
const POSTING_TEXT: u8 = 0x07;

/// The rows of postings of a page: by its body, its text, and its text and title; b"" for a text that is not compared.
///
/// A lone surrogate of the title, in the three bytes of "surrogatepass", is no letter, nor is what takes its place.
#[pyfunction]
pub fn posting_rows<'py>(
    python: Python<'py>,
    body_checksum: &[u8],
    text_checksum: &[u8],
    title: &[u8],
) -> Vec<Bound<'py, PyBytes>> {
    let mut words = WORDS.take();
    let rows = posting_keys(body_checksum, text_checksum, title, &mut words);
    WORDS.set(words);
    rows.iter().map(|row| PyBytes::new(python, row)).collect()
}

/// See `posting_rows`.
pub fn posting_keys(body_checksum: &[u8], text_checksum: &[u8], title: &[u8], words: &mut Words) -> Vec<Vec<u8>> {
    let named = |kind: u8, name: &[u8]| [&[kind], name].concat();
    let mut rows = vec![named(POSTING_BODY, &body_checksum[..body_checksum.len().min(BODY_HEAD_BYTES)])];
    if !text_checksum.is_empty() {
        let number = &text_checksum[1..text_checksum.len().min(1 + TEXT_NUMBER_BYTES)];
        rows.push(named(POSTING_TEXT, number));
        words.cut(String::from_utf8_lossy(title).as_bytes());
        let title_key = blake3::hash(words.joined());
        rows.push(named(POSTING_TEXT, &[number, &title_key.as_bytes()[..TITLE_KEY_BYTES]].concat()));
    }
    rows
}

/// What stands for a posting among others: 64 bits of a hash of its row and its qualifier.
pub fn posting_hash(row: &[u8], qualifier: &[u8]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&row.len().to_le_bytes()).update(row).update(qualifier);
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}

/// Hashes of postings, 8 bytes each, for one check.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct PostingHashes(Vec<u64>);

impl PostingHashes {
    pub fn sorted(&self) -> &[u64] {
        &self.0
    }
}

#[pymethods]
impl PostingHashes {
    /// The postings of rows of the index, given in parts.
    #[new]
    fn new(parts: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut hashes = Vec::new();
        for rows in parts.try_iter()? {
            for row in rows?.cast_into::<PyList>()? {
                let row_key = row.get_item(0)?.cast_into::<PyBytes>()?;
                for cell in row.get_item(1)?.cast_into::<PyList>()? {
                    let qualifier = cell.get_item(1)?.cast_into::<PyBytes>()?;
                    hashes.push(posting_hash(row_key.as_bytes(), qualifier.as_bytes()));
                }
            }
        }
        hashes.sort_unstable();
        Ok(Self(hashes))
    }

    /// Whether a posting is there.
    fn holds(&self, row: &[u8], qualifier: &[u8]) -> bool {
        self.0.binary_search(&posting_hash(row, qualifier)).is_ok()
    }
}

/// What a text asks for; see `Question`.
pub struct Query {
    /// For the caller.
    pub row: usize,
    pub band_keys: Vec<u64>,
    pub fingerprints: Vec<u64>,
    pub runs: Vec<u64>,
    pub own: u64,
}

/// Bytes that Python reads in place: to copy a megabyte would hold the GIL for as long, and whoever waits for it.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct Packed(pub Vec<u8>);

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
    module.add_class::<Postings>()?;
    module.add_class::<PostingHashes>()?;
    module.add_class::<Runs>()?;
    module.add_class::<Packed>()?;
    module.add_function(wrap_pyfunction!(posting_rows, module)?)?;
    module.add_function(wrap_pyfunction!(propose, module)?)
}
