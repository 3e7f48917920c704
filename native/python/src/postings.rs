//! Postings for Python: questions to the index, those of a batch, and hashes of all for a check.

use docstore_kernel::postings::{self, mix_key, Recent};
use docstore_kernel::ranking::Looks;
use docstore_store::keys::posting_hash;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::convert::words_as_bytes;
use crate::queries::{IndexQuery, Proposal};

/// How many texts are looked at; see `ranking::Looks`.
pub type LookLimits = (usize, usize, usize, usize);

/// How many texts are looked at for a question.
pub fn looks_of((near, inside, most, further): LookLimits, query: &IndexQuery) -> Looks {
    Looks { near: near.saturating_add(query.more), inside: inside.saturating_add(query.more), most, further }
}

/// The chains of a page looked up by a function of Python, and what they lead to ranked.
///
/// `find` takes keys as bytes of uint64; it gives for each posting which key, ascending (int64), and its text (uint64).
#[pyfunction]
fn propose<'py>(
    python: Python<'py>,
    query: &IndexQuery,
    limit: usize,
    looks: LookLimits,
    find: &Bound<'py, PyAny>,
) -> PyResult<Proposal> {
    let looks = looks_of(looks, query);
    let answer = postings::propose_by(query.asked(), limit, looks, |keys| {
        let found = find.call1((words_as_bytes(python, &keys)?,))?;
        let (owners, texts) = found.extract::<(PyBuffer<i64>, PyBuffer<u64>)>()?;
        let found: Vec<_> =
            owners.to_vec(python)?.into_iter().map(|owner| owner as u32).zip(texts.to_vec(python)?).collect();
        match found.iter().all(|&(owner, _)| (owner as usize) < keys.len()) {
            true => Ok(found),
            false => Err(PyValueError::new_err("a look-up gives a posting of a key that it was not asked for")),
        }
    })?;
    Ok(Proposal::new(answer))
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

    /// Add the text of a query, under the first keys of its chains and the further ones of a proposal.
    #[pyo3(signature = (query, proposal=None))]
    fn post(&mut self, query: &IndexQuery, proposal: Option<&Proposal>) -> PyResult<()> {
        let keys: Vec<u64> = query.posted(proposal).into_iter().map(mix_key).collect();
        if self.0.post(query.asked().own, &keys) {
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
