//! The fingerprints of a main text, and what a page asks the index, as native objects: arrays are handed over on demand.

use std::sync::Arc;

use docstore_kernel::analysis::{self, TEXT_DIGEST_BYTES};
use docstore_kernel::postings::{Answer, Asked};
use docstore_kernel::sketch::{BANDS, BAND_KEYS, SKETCH_BYTES};
use docstore_kernel::titles::Facts;
use docstore_store::pages::Marks;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::words_as_bytes;

/// Numbers of bytes of uint64 in the machine's order.
fn words_of(bytes: &[u8]) -> PyResult<Vec<u64>> {
    let (words, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(PyValueError::new_err("numbers of 8 bytes each end inside a number"));
    }
    Ok(words.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

/// The fingerprints of a main text; arrays are bytes of uint64.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct Fingerprints(pub Arc<Marks>);

type Parts<'py> = (
    usize,
    Bound<'py, PyBytes>,
    u64,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    bool,
);

#[pymethods]
impl Fingerprints {
    /// Fingerprints that were computed elsewhere, such as in another process.
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        word_count: usize,
        text_digest: [u8; TEXT_DIGEST_BYTES],
        simhash: u64,
        sketch: &[u8],
        band_keys: &[u8],
        samples: &[u8],
        runs: &[u8],
        shingles: &[u8],
        name: [u8; 16],
        holds_title: bool,
    ) -> PyResult<Self> {
        let misshapen = |_| PyValueError::new_err("a sketch or its band keys have another length");
        let sketch: [u8; SKETCH_BYTES] = sketch.to_vec().try_into().map_err(misshapen)?;
        let band_keys: [u64; BAND_KEYS] = words_of(band_keys)?.try_into().map_err(|_| misshapen(Vec::new()))?;
        let (samples, runs, shingles) = (words_of(samples)?, words_of(runs)?, words_of(shingles)?);
        let fingerprints =
            analysis::Fingerprints { word_count, text_digest, shingles, simhash, sketch, band_keys, samples, runs };
        Ok(Self(Arc::new(Marks::new(fingerprints, Facts { name, holds_title }))))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Parts<'py>)> {
        let (python, marks) = (slf.py(), &slf.get().0);
        let (its, facts) = (&marks.fingerprints, marks.facts);
        let parts = (
            its.word_count,
            PyBytes::new(python, &its.text_digest),
            its.simhash,
            PyBytes::new(python, &its.sketch),
            words_as_bytes(python, &its.band_keys)?,
            words_as_bytes(python, &its.samples)?,
            words_as_bytes(python, &its.runs)?,
            words_as_bytes(python, &its.shingles)?,
            PyBytes::new(python, &facts.name),
            facts.holds_title,
        );
        Ok((slf.get_type().into_any(), parts))
    }

    #[getter]
    fn word_count(&self) -> usize {
        self.0.fingerprints.word_count
    }

    #[getter]
    fn text_checksum<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, &self.0.text_checksum)
    }

    #[getter]
    fn shingle_count(&self) -> u64 {
        self.0.shingle_count()
    }

    #[getter]
    fn simhash(&self) -> u64 {
        self.0.fingerprints.simhash
    }

    #[getter]
    fn sketch<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, &self.0.sketch)
    }

    #[getter]
    fn band_keys<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        words_as_bytes(python, &self.0.fingerprints.band_keys)
    }

    #[getter]
    fn samples<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        words_as_bytes(python, &self.0.fingerprints.samples)
    }

    #[getter]
    fn runs<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        words_as_bytes(python, &self.0.fingerprints.runs)
    }

    #[getter]
    fn shingles<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        words_as_bytes(python, &self.0.fingerprints.shingles)
    }

    #[getter]
    fn name<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, &self.0.facts.name)
    }

    #[getter]
    fn holds_title(&self) -> bool {
        self.0.facts.holds_title
    }

    /// What the page asks the index; of a stored text, whose row names it by another number, under that number.
    #[pyo3(signature = (own_number=None))]
    fn query(&self, own_number: Option<u64>) -> IndexQuery {
        let own = own_number.unwrap_or(self.0.number);
        IndexQuery { keys: Keys::OfPage(self.0.clone()), own, more: 0 }
    }
}

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
        Self { keys: Keys::OfPage(marks.clone()), own: marks.number, more }
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
    module.add_class::<Fingerprints>()?;
    module.add_class::<IndexQuery>()?;
    module.add_class::<Proposal>()
}
