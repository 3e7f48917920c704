//! Bodies to text and fingerprints, by the one kernel of a store.
//!
//! The GIL is let go while bodies are analysed.  A panic over one body among others is the error of that body.

use std::cell::RefCell;
use std::sync::Arc;

use docstore_kernel::sketch::BINS;
use docstore_kernel::titles::Facts;
use docstore_kernel::words::Words;
use docstore_kernel::{analysis, pairs, Analyser, Extractor, Options, Outcome, Page};
use docstore_store::pages::Marks;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::convert::{caught, detached, words_as_bytes};
use crate::fingerprints::Fingerprints;

/// Bodies are analysed in runs of about so many bytes, each without the GIL: seldom enough to ask for it, and little
/// enough to stay in the processor's cache.
const RUN_BYTES: usize = 256 << 10;
/// Pages that a thread keeps to fill again.
const KEPT_PAGES: usize = 64;
/// A body of more bytes takes its thread's buffers with it: they would hold some five times as much for ever.
pub const KEPT_BODY_BYTES: usize = 4 << 20;
const LONG_BODY_BYTES: usize = 1 << 20;
/// Bytes that the analysis takes for one of a body, at most as measured: 33 for words of one letter, 22 for a text.
const ANALYSIS_BYTES: usize = 33;

/// Analyses bodies by one fixed choice of extractor and shingle length; stateless, safe in threads.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct Kernel {
    pub options: Options,
}

/// One body after the core: digest of the body, what it is or why it cannot be told, the page, and the
/// facts of its main text.
#[derive(Default)]
struct Analysed {
    digest: [u8; 32],
    outcome: Option<Result<Outcome, String>>,
    page: Page,
    facts: Facts,
}

/// Buffers of a thread, for the options that they were made for.
pub struct Workshop {
    options: Options,
    pub analyser: Analyser,
    analysed: Vec<Analysed>,
}

thread_local! {
    static WORKSHOP: RefCell<Option<Box<Workshop>>> = const { RefCell::new(None) };
}

/// Refuse what the analysis of long bodies may lack the memory for: an allocation that fails there ends the process.
///
/// Shorter bodies are not looked at: the C library would change how it allocates for what is asked for and freed.
fn check_memory(bytes: usize) -> PyResult<()> {
    let mut buffer = Vec::<u8>::new();
    let needed = if bytes < LONG_BODY_BYTES { 0 } else { bytes.saturating_mul(ANALYSIS_BYTES) };
    let reserved = std::hint::black_box(&mut buffer).try_reserve_exact(needed);
    reserved.map_err(|_| PyMemoryError::new_err(format!("the analysis of {bytes} bytes may take {needed}")))
}

/// Members, lengths and counts of words; each as bytes of uint64.
type ShingleSets<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>);

impl Kernel {
    /// This thread's buffers; they may be lost, and are then made anew.
    pub fn workshop(&self) -> Box<Workshop> {
        let same = |made: &Workshop| made.options == self.options;
        WORKSHOP.take().filter(|made| same(made)).unwrap_or_else(|| {
            Box::new(Workshop { options: self.options, analyser: Analyser::new(self.options), analysed: Vec::new() })
        })
    }

    /// Keep a thread's buffers for its next page, unless a very long one has made them large.
    pub fn keep(workshop: Box<Workshop>, longest_bytes: usize) {
        if longest_bytes <= KEPT_BODY_BYTES {
            WORKSHOP.set(Some(workshop));
        }
    }

    fn fill(&self, analyser: &mut Analyser, body: &[u8], content_type: &str, links: bool, analysed: &mut Analysed) {
        analysed.digest = *blake3::hash(body).as_bytes();
        let (page, facts) = (&mut analysed.page, &mut analysed.facts);
        let outcome = caught(|| {
            let outcome = analyser.analyse(body, content_type, links, page);
            if page.fingerprints.is_some() {
                *facts = Facts::of(&page.main, &page.declared.title);
            }
            outcome
        });
        if outcome.is_err() {
            // Buffers that a panic left half filled are made anew.
            (*analyser, *page) = (Analyser::new(self.options), Page::default());
        }
        analysed.outcome = Some(outcome);
    }
}

#[pymethods]
impl Kernel {
    #[new]
    fn new(extractor: &str, shingle_words: usize, order: [u8; BINS]) -> PyResult<Self> {
        let Some(extractor) = Extractor::of_name(extractor) else {
            return Err(PyValueError::new_err(format!("the native kernel has no extractor named {extractor:?}")));
        };
        if shingle_words == 0 {
            return Err(PyValueError::new_err("shingle_words must be at least 1, not 0"));
        }
        Ok(Self { options: Options { extractor, shingle_words, order } })
    }

    /// One body: (BLAKE3 digest, outcome); outcome is None for what is no HTML, a message for what the core
    /// panicked over, else its `fields`.
    fn analyse<'py>(
        &self,
        python: Python<'py>,
        body: PyBackedBytes,
        content_type: Bound<'py, PyString>,
        links: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let mut found = self.analyse_many(python, vec![(body, content_type)], links)?;
        found.pop().ok_or_else(|| PyRuntimeError::new_err("no body was analysed"))
    }

    /// `analyse` of each (body, content type), in order.
    fn analyse_many<'py>(
        &self,
        python: Python<'py>,
        bodies: Vec<(PyBackedBytes, Bound<'py, PyString>)>,
        links: bool,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let bodies: Vec<_> = bodies.iter().map(|(body, content_type)| (body, content_type.to_string_lossy())).collect();
        let mut workshop = self.workshop();
        let mut found = Vec::with_capacity(bodies.len());
        let mut rest = &bodies[..];
        while !rest.is_empty() {
            let mut run_bytes = 0;
            let run = rest.iter().take(KEPT_PAGES).take_while(|(body, _)| {
                let begins = run_bytes < RUN_BYTES;
                run_bytes += body.len();
                begins
            });
            let (run, behind) = rest.split_at(run.count());
            rest = behind;
            check_memory(run_bytes)?;
            let Workshop { analyser, analysed, .. } = &mut *workshop;
            if analysed.len() < run.len() {
                analysed.resize_with(run.len(), Analysed::default);
            }
            detached(python, || {
                for ((body, content_type), analysed) in run.iter().zip(analysed.iter_mut()) {
                    self.fill(analyser, body, content_type, links, analysed);
                }
            })?;
            for analysed in &workshop.analysed[..run.len()] {
                found.push(handed_over(python, analysed)?);
            }
        }
        // A very large page is not kept.
        workshop.analysed.retain(|kept| kept.page.main.capacity() <= RUN_BYTES);
        Self::keep(workshop, bodies.iter().map(|(body, _)| body.len()).max().unwrap_or(0));
        Ok(found)
    }

    /// Fingerprints of a main text in UTF-8, as `analyse` gives them; None if it has no word.
    fn fingerprints(
        &self,
        python: Python<'_>,
        text: PyBackedBytes,
        title: &Bound<'_, PyString>,
    ) -> PyResult<Option<Fingerprints>> {
        let (mut workshop, title) = (self.workshop(), title.to_string_lossy());
        let found = detached(python, || {
            let found = workshop.analyser.fingerprints_of(&String::from_utf8_lossy(&text))?;
            Some((found, Facts::of(&text, &title)))
        })?;
        Self::keep(workshop, text.len());
        Ok(found.map(|(found, facts)| fingerprints_of(found, facts)))
    }

    /// The shingle sets of texts, one after the other, as `shingles` gives them, and how many members each has; then a
    /// count of words of each, exact below `enough`.
    fn shingle_sets<'py>(
        &self,
        python: Python<'py>,
        texts: Vec<PyBackedBytes>,
        enough: u64,
    ) -> PyResult<ShingleSets<'py>> {
        let mut workshop = self.workshop();
        let (mut members, mut lengths, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        detached(python, || {
            let mut words = Words::default();
            for text in &texts {
                let text = String::from_utf8_lossy(text);
                let set = workshop.analyser.shingle_set(&text);
                let mut count = set.len() as u64;
                if count < enough {
                    words.cut(text.as_bytes());
                    count = words.ends().len() as u64;
                }
                members.extend_from_slice(&set);
                lengths.push(set.len() as u64);
                counts.push(count);
            }
        })?;
        Self::keep(workshop, texts.iter().map(|text| text.len()).max().unwrap_or(0));
        Ok((words_as_bytes(python, &members)?, words_as_bytes(python, &lengths)?, words_as_bytes(python, &counts)?))
    }

    /// The shingle set of a main text: ascending, as bytes of uint64 in the machine's order.
    fn shingles<'py>(&self, python: Python<'py>, text: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyBytes>> {
        let text = &*text.to_string_lossy();
        let mut workshop = self.workshop();
        let set = detached(python, || workshop.analyser.shingle_set(text))?;
        Self::keep(workshop, text.len());
        words_as_bytes(python, &set)
    }
}

/// How many members each pair of sets shares, as bytes of uint64.  Set i has `members[starts[i]..starts[i + 1]]`; pairs
/// of one first set that follow each other are fastest.
#[pyfunction]
pub fn shared_members<'py>(
    python: Python<'py>,
    starts: PyBuffer<u64>,
    members: PyBuffer<u64>,
    first: PyBuffer<u64>,
    second: PyBuffer<u64>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (starts, members) = (starts.to_vec(python)?, members.to_vec(python)?);
    let (first, second) = (first.to_vec(python)?, second.to_vec(python)?);
    let counts = python.detach(|| pairs::shared_members(&starts, &members, &first, &second));
    let counts = counts.ok_or_else(|| PyValueError::new_err("a pair names a set that is not there"))?;
    words_as_bytes(python, &counts)
}

fn handed_over<'py>(python: Python<'py>, analysed: &Analysed) -> PyResult<Bound<'py, PyTuple>> {
    let digest = PyBytes::new(python, &analysed.digest);
    let outcome = match &analysed.outcome {
        Some(Ok(Outcome::Html)) => fields(python, &analysed.page, analysed.facts)?.into_any(),
        Some(Err(message)) => PyString::new(python, message).into_any(),
        Some(Ok(Outcome::NotHtml)) | None => python.None().into_bound(python),
    };
    (digest, outcome).into_pyobject(python)
}

/// charset, title, description, keywords, lang, canonical, headings and main text as bytes, links, fingerprints or None.
fn fields<'py>(python: Python<'py>, page: &Page, facts: Facts) -> PyResult<Bound<'py, PyTuple>> {
    let declared = &page.declared;
    (
        &page.encoding,
        &declared.title,
        &declared.description,
        &declared.keywords,
        &declared.lang,
        &declared.canonical,
        PyBytes::new(python, declared.headings.as_bytes()),
        PyBytes::new(python, &page.main),
        &declared.links,
        page.fingerprints.as_ref().map(|found| fingerprints_of(found.clone(), facts)),
    )
        .into_pyobject(python)
}

fn fingerprints_of(found: analysis::Fingerprints, facts: Facts) -> Fingerprints {
    Fingerprints(Arc::new(Marks::new(found, facts)))
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Kernel>()?;
    module.add_function(wrap_pyfunction!(shared_members, module)?)
}
