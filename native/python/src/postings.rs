//! Postings for Python: questions to the index, those of a batch, and hashes of all for a check.

use docstore_kernel::postings::{self, mix_key, Answer, Asked, Recent};
use docstore_kernel::ranking::{self, Looks};
use docstore_store::keys::posting_hash;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::convert::words_as_bytes;

/// What a page asks: band keys, fingerprints and runs, not mixed, the number of its own text, and how many more texts are
/// wanted than `looks`.
pub type Question = (PyBuffer<u64>, PyBuffer<u64>, PyBuffer<u64>, u64, usize);
/// How many texts are looked at; see `ranking::Looks`.
pub type LookLimits = (usize, usize, usize, usize);
/// Text numbers, texts found, whether the page's own is among them, numbers that come next, whether it is crowded,
/// further keys.
pub type Proposal<'py> = (Vec<u64>, usize, bool, Vec<u64>, bool, Bound<'py, PyBytes>);

/// Take a question apart, propose, and hand the answer over.
pub fn answered<'py>(
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
fn propose<'py>(
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
pub struct Postings(pub Recent);

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

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Postings>()?;
    module.add_class::<PostingHashes>()?;
    module.add_function(wrap_pyfunction!(propose, module)?)
}
