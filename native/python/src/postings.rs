//! Runs of postings for Python: `docstore_kernel::postings` over buffers, mapped files most of all.
//!
//! The GIL is let go while runs are made and merged, and while the texts of a group are posted; a look-up takes less
//! time than to let it go and take it again.

use std::ffi::{c_int, c_void};

use docstore_kernel::postings::{self, mix_key, Answer, Asked, Encoded, Pruning, Recent};
use docstore_kernel::ranking::{self, Looks};
use docstore_kernel::slices::{self, Damaged, Shape};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use pyo3::{ffi, import_exception};

use crate::text::WORDS;
use crate::verdicts::Shared;
use crate::{detached, words_as_bytes};

import_exception!(docstore.model.errors, CorruptionError);

fn damaged(_: Damaged) -> PyErr {
    CorruptionError::new_err("a run of postings leads outside itself; it is built again from the pages")
}

fn shape_of(slice_bits: u32, place_bits: u32) -> PyResult<Shape> {
    Shape::new(slice_bits, place_bits)
        .ok_or_else(|| PyValueError::new_err(format!("no run has 2^{slice_bits} slices and {place_bits} bits a place")))
}

/// A run over a read-only buffer that nobody changes.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct RunView {
    buffer: PyBuffer<u8>,
    parts: [usize; 4],
    shape: Shape,
}

#[pymethods]
impl RunView {
    #[new]
    fn new(buffer: PyBuffer<u8>, parts: [usize; 4], slice_bits: u32, place_bits: u32) -> PyResult<Self> {
        if !buffer.is_c_contiguous() || !buffer.readonly() {
            return Err(PyValueError::new_err("a run must be one read-only piece of memory"));
        }
        let shape = Shape::new(slice_bits, place_bits).ok_or(Damaged).map_err(damaged)?;
        let view = Self { buffer, parts, shape };
        view.run()?;
        Ok(view)
    }
}

impl RunView {
    fn run(&self) -> PyResult<slices::Run<'_>> {
        // SAFETY: the buffer is contiguous, and exported for as long as `self.buffer` lives, which the result borrows.
        // It is read-only, so Python code does not change it; a run's file is never changed once it is mapped.
        let bytes = unsafe { std::slice::from_raw_parts(self.buffer.buf_ptr().cast::<u8>(), self.buffer.len_bytes()) };
        slices::Run::new(bytes, self.parts, self.shape).map_err(damaged)
    }
}

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

/// Postings by mixed key: of runs, oldest first, then those that no run has.  Those of a batch have no runs.
#[pyclass(module = "docstore.dedup.docstore_native")]
pub struct Postings {
    runs: Vec<Py<RunView>>,
    recent: Recent,
}

impl Postings {
    fn views(&self) -> PyResult<Vec<slices::Run<'_>>> {
        self.runs.iter().map(|run| run.get().run()).collect()
    }

    /// Postings that no run has, those of a batch last.
    fn tables<'a>(&'a self, batch: &'a Option<PyRef<'_, Self>>) -> Vec<&'a Recent> {
        [Some(&self.recent), batch.as_ref().map(|batch| &batch.recent)].into_iter().flatten().collect()
    }
}

#[pymethods]
impl Postings {
    #[new]
    #[pyo3(signature = (runs = Vec::new()))]
    fn new(runs: Vec<Py<RunView>>) -> Self {
        Self { runs, recent: Recent::default() }
    }

    /// Texts that no run has.
    fn __len__(&self) -> usize {
        self.recent.texts().len()
    }

    #[getter]
    fn postings(&self) -> usize {
        self.recent.len()
    }

    #[getter]
    fn memory_bytes(&self) -> usize {
        self.recent.memory_bytes()
    }

    fn read(&mut self, runs: Vec<Py<RunView>>) {
        self.runs = runs;
    }

    #[pyo3(signature = (text, *parts))]
    fn post<'py>(&mut self, python: Python<'py>, text: u64, parts: &Bound<'py, PyTuple>) -> PyResult<()> {
        let mut keys = Vec::new();
        for part in parts {
            keys.extend(part.extract::<PyBuffer<u64>>()?.to_vec(python)?.into_iter().map(mix_key));
        }
        if self.recent.post(text, &keys) {
            return Ok(());
        }
        Err(PyValueError::new_err("no room for another text: make a run of those posted"))
    }

    /// The texts that no run has with their keys, as cells of a row of the log.
    fn log<'py>(&self, python: Python<'py>, durable_end: u64, cell_texts: usize) -> Vec<Bound<'py, PyBytes>> {
        self.recent.log(durable_end, cell_texts).iter().map(|cell| PyBytes::new(python, cell)).collect()
    }

    /// Post what a cell of the log has; without the GIL if it has many texts.
    fn replay(&mut self, python: Python<'_>, cell: &[u8]) -> PyResult<()> {
        let recent = &mut self.recent;
        let mut work = || recent.replay(cell);
        let posted = if cell.len() < LONG_CELL_BYTES { work() } else { detached(python, work)? };
        posted.map_err(|_| CorruptionError::new_err("a cell of the log of postings ends inside a text"))
    }

    /// Look up keys, those of a batch last: (which key, text number), each as bytes of uint64.
    fn find<'py>(
        &self,
        python: Python<'py>,
        keys: PyBuffer<u64>,
        limit: usize,
        batch: Option<PyRef<'py, Self>>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let mixed: Vec<u64> = keys.to_vec(python)?.into_iter().map(mix_key).collect();
        let (owners, texts) = postings::find(&self.views()?, &self.tables(&batch), &mixed, limit).map_err(damaged)?;
        Ok((words_as_bytes(python, &owners)?, words_as_bytes(python, &texts)?))
    }

    /// The chains of a page looked up, and what they lead to ranked.
    fn propose<'py>(
        &self,
        python: Python<'py>,
        asked: Question,
        limit: usize,
        looks: LookLimits,
        batch: Option<PyRef<'py, Self>>,
    ) -> PyResult<Proposal<'py>> {
        let (views, tables) = (self.views()?, self.tables(&batch));
        answered(python, asked, looks, |asked, looks| {
            postings::propose(&views, &tables, asked, limit, looks).map_err(damaged)
        })
    }

    /// All postings that no run has, sorted, at most `limit` of a key.
    fn sorted<'py>(&self, python: Python<'py>, limit: usize) -> PyResult<Bound<'py, PyBytes>> {
        let recent = &self.recent;
        words_as_bytes(python, &python.detach(|| recent.sorted(limit)))
    }

    fn texts<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        words_as_bytes(python, self.recent.texts())
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
    let named = |kind: u8, name: &[u8]| [&[kind], name].concat();
    let mut rows = vec![named(POSTING_BODY, &body_checksum[..body_checksum.len().min(BODY_HEAD_BYTES)])];
    if !text_checksum.is_empty() {
        let number = &text_checksum[1..text_checksum.len().min(1 + TEXT_NUMBER_BYTES)];
        rows.push(named(POSTING_TEXT, number));
        let (mut words, folded) = WORDS.take();
        words.cut(String::from_utf8_lossy(title).as_bytes());
        let title_key = blake3::hash(words.joined());
        rows.push(named(POSTING_TEXT, &[number, &title_key.as_bytes()[..TITLE_KEY_BYTES]].concat()));
        WORDS.set((words, folded));
    }
    rows.iter().map(|row| PyBytes::new(python, row)).collect()
}

/// Bytes that Python reads in place: to copy a megabyte would hold the GIL for as long, and whoever waits for it.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct Packed(Vec<u8>);

#[pymethods]
impl Packed {
    /// Fill a view that Python asks for; it keeps `slf` alive.
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

fn handed_over(python: Python<'_>, encoded: Encoded) -> PyResult<Bound<'_, PyTuple>> {
    let units: Vec<u8> = encoded.units.iter().flat_map(|units| units.to_ne_bytes()).collect();
    (Packed(encoded.bytes), PyBytes::new(python, &units), encoded.keys, encoded.postings).into_pyobject(python)
}

/// All slices of sorted postings.
#[pyfunction]
pub fn encode_slices<'py>(
    python: Python<'py>,
    packed: PyBuffer<u64>,
    slice_bits: u32,
    place_bits: u32,
) -> PyResult<Bound<'py, PyTuple>> {
    let shape = shape_of(slice_bits, place_bits)?;
    let packed = packed.to_vec(python)?;
    let encoded = python.detach(|| postings::encode(&packed, shape));
    handed_over(python, encoded)
}

/// Slices `first..first + count` of runs together, oldest first; `texts` says how many each has.
#[pyfunction]
#[pyo3(signature = (runs, texts, shape, limit, first, count))]
pub fn merge_slices<'py>(
    python: Python<'py>,
    runs: Vec<PyRef<'py, RunView>>,
    texts: Vec<u64>,
    shape: (u32, u32),
    limit: usize,
    first: usize,
    count: usize,
) -> PyResult<Bound<'py, PyTuple>> {
    let shape = shape_of(shape.0, shape.1)?;
    let views = runs.iter().map(|run| run.run()).collect::<PyResult<Vec<_>>>()?;
    let merged = python.detach(|| postings::merge(&views, &texts, shape, limit, first, count)).map_err(damaged)?;
    handed_over(python, merged)
}

/// Slices `first..first + count` of a run without texts that are gone.
///
/// `places` has the new place of each text, 2^64 - 1 for one that is gone; `texts` stay.
#[pyfunction]
#[pyo3(signature = (run, places, texts, shape, limit, first, count))]
#[allow(clippy::too_many_arguments)]
pub fn prune_slices<'py>(
    python: Python<'py>,
    run: PyRef<'py, RunView>,
    places: PyBuffer<u64>,
    texts: u64,
    shape: (u32, u32),
    limit: usize,
    first: usize,
    count: usize,
) -> PyResult<Bound<'py, PyTuple>> {
    let shape = shape_of(shape.0, shape.1)?;
    let (view, places) = (run.run()?, Shared::new(python, places)?);
    let pruned = python
        .detach(|| postings::prune(view, Pruning { places: places.as_ref(), texts, limit }, shape, first, count))
        .map_err(damaged)?;
    handed_over(python, pruned)
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RunView>()?;
    module.add_class::<Postings>()?;
    module.add_class::<Packed>()?;
    module.add_function(wrap_pyfunction!(posting_rows, module)?)?;
    module.add_function(wrap_pyfunction!(encode_slices, module)?)?;
    module.add_function(wrap_pyfunction!(merge_slices, module)?)?;
    module.add_function(wrap_pyfunction!(prune_slices, module)?)?;
    module.add_function(wrap_pyfunction!(propose, module)?)
}
