//! What a page asks the index, and what the index answers.

use std::sync::Arc;

use docstore_kernel::postings::{Answer, Asked};
use docstore_kernel::sketch::BANDS;
use docstore_store::analysed::Marks;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::words_as_bytes;

#[derive(Clone)]
enum Keys {
    OfPage(Arc<Marks>),
    /// Band keys, fingerprints and runs.
    Given(Arc<[Vec<u64>; 3]>),
}

/// What a page asks the index, and what it is posted under.
#[pyclass(frozen, subclass, module = "docstore.dedup.docstore_native")]
#[derive(Clone)]
pub struct IndexQuery {
    keys: Keys,
    own: u64,
    pub more: usize,
}

impl IndexQuery {
    pub fn of(marks: &Arc<Marks>, more: usize) -> Self {
        Self::under(marks, marks.number, more)
    }

    /// What a stored text asks, whose row names it by another number.
    pub fn under(marks: &Arc<Marks>, own: u64, more: usize) -> Self {
        Self { keys: Keys::OfPage(marks.clone()), own, more }
    }

    pub fn asked(&self) -> Asked<'_> {
        match &self.keys {
            Keys::OfPage(marks) => Asked { own: self.own, ..marks.asked() },
            Keys::Given(keys) => {
                let [band_keys, fingerprints, runs] = &**keys;
                Asked { band_keys, fingerprints, runs, own: self.own }
            }
        }
    }

    /// The keys that a text is posted under: the first of all its chains, and further ones.
    pub fn posted(&self, proposal: Option<&Proposal>) -> Vec<u64> {
        let Asked { band_keys, fingerprints, .. } = self.asked();
        let further = proposal.map_or(&[][..], |proposal| &proposal.0.further_keys);
        [&band_keys[..band_keys.len().min(BANDS)], fingerprints, further].concat()
    }
}

#[pymethods]
impl IndexQuery {
    #[new]
    #[pyo3(signature = (band_keys, fingerprints, runs, own_number, more=0))]
    fn new(
        python: Python<'_>,
        band_keys: PyBuffer<u64>,
        fingerprints: PyBuffer<u64>,
        runs: PyBuffer<u64>,
        own_number: u64,
        more: usize,
    ) -> PyResult<Self> {
        let keys = [band_keys.to_vec(python)?, fingerprints.to_vec(python)?, runs.to_vec(python)?];
        Ok(Self { keys: Keys::Given(Arc::new(keys)), own: own_number, more })
    }

    #[getter]
    fn own_number(&self) -> u64 {
        self.own
    }

    /// The keys that the text is posted under: the first of all chains, and the further ones of a proposal.
    #[pyo3(signature = (proposal=None))]
    fn posted_keys(&self, proposal: Option<&Proposal>) -> Vec<u64> {
        self.posted(proposal)
    }
}

/// What the index answers.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct Proposal(pub Arc<Answer>);

impl Proposal {
    pub fn new(answer: Answer) -> Self {
        Self(Arc::new(answer))
    }
}

#[pymethods]
impl Proposal {
    #[getter]
    fn numbers(&self) -> Vec<u64> {
        self.0.proposal.numbers.clone()
    }

    #[getter]
    fn candidates(&self) -> usize {
        self.0.proposal.candidates
    }

    #[getter]
    fn has_own(&self) -> bool {
        self.0.proposal.holds_own
    }

    #[getter]
    fn further(&self) -> Vec<u64> {
        self.0.proposal.further.clone()
    }

    #[getter]
    fn is_crowded(&self) -> bool {
        self.0.is_crowded
    }

    #[getter]
    fn further_keys<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        words_as_bytes(python, &self.0.further_keys)
    }

    /// The same, but the page's own text counts as not posted.
    fn without_own(&self) -> Self {
        let mut answer = (*self.0).clone();
        answer.proposal.holds_own = false;
        Self::new(answer)
    }
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<IndexQuery>()?;
    module.add_class::<Proposal>()
}
