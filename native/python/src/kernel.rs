//! Bodies to text and fingerprints, by the one kernel of a store.
//!
//! The GIL is let go while bodies are analysed.  A panic over one body among others is the error of that body.

use std::cell::RefCell;
use std::sync::Arc;

use docstore_kernel::analysis::Fingerprints;
use docstore_kernel::page::Declared;
use docstore_kernel::sketch::BINS;
use docstore_kernel::titles::Facts;
use docstore_kernel::words::Words;
use docstore_kernel::{pairs, Analyser, Extractor, Options, Outcome, Page};
use docstore_store::analysed::{Analysed, Marks};
use docstore_store::format::SCHEME_BLAKE3_256;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyString};

use crate::analysis::{Analysis, Link, ReadText};
use crate::convert::{caught, detached, words_as_bytes};

/// Bodies are analysed in runs of about so many bytes, each without the GIL: seldom enough to ask for it, and little
/// enough to stay in the processor's cache.
const RUN_BYTES: usize = 256 << 10;
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

/// Buffers of a thread, for the options that they were made for.
pub struct Workshop {
    options: Options,
    pub analyser: Analyser,
    page: Page,
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
            Box::new(Workshop { options: self.options, analyser: Analyser::new(self.options), page: Page::default() })
        })
    }

    /// Keep a thread's buffers for its next page, unless a very long one has made them large.
    pub fn keep(workshop: Box<Workshop>, longest_bytes: usize) {
        if longest_bytes <= KEPT_BODY_BYTES {
            WORKSHOP.set(Some(workshop));
        }
    }

    /// A page with the fingerprints of its main text.
    fn with_marks(&self, python: Python<'_>, page: Analysed) -> PyResult<Analysed> {
        let (mut workshop, bytes) = (self.workshop(), page.main.len());
        let page = detached(python, || {
            let found = workshop.analyser.fingerprints_of(&String::from_utf8_lossy(&page.main));
            let marks = found.map(|found| marks_of(found, &page.main, &String::from_utf8_lossy(&page.title)));
            Analysed { marks, ..page }
        })?;
        Self::keep(workshop, bytes);
        Ok(page)
    }

    /// One body; a page without text and without a reason is for Python to read.
    fn analysed(&self, workshop: &mut Workshop, body: &[u8], content_type: &str, links: bool) -> (Analysed, Vec<Link>) {
        let checksum = [&[SCHEME_BLAKE3_256], &blake3::hash(body).as_bytes()[..]].concat().into();
        let without_text = Analysed { checksum, ..Analysed::default() };
        let Workshop { analyser, page, .. } = workshop;
        let outcome = caught(|| match analyser.analyse(body, content_type, links, page) {
            Outcome::Other => None,
            Outcome::Html | Outcome::Plain => {
                let Declared { title, description, keywords, lang, canonical, headings, links } =
                    std::mem::take(&mut page.declared);
                let marks = page.fingerprints.as_ref().map(|found| marks_of(found.clone(), &page.main, &title));
                let analysed = Analysed {
                    has_text: true,
                    charset: page.encoding.clone(),
                    title: title.into_bytes().into(),
                    description: description.into_bytes().into(),
                    keywords: keywords.into_bytes().into(),
                    lang: lang.into_bytes().into(),
                    canonical: canonical.into_bytes().into(),
                    headings: headings.into_bytes().into(),
                    main: page.main.as_slice().into(),
                    marks,
                    ..Analysed::default()
                };
                Some((analysed, links))
            }
        });
        match outcome {
            Ok(None) => (without_text, Vec::new()),
            Ok(Some((page, links))) => (Analysed { checksum: without_text.checksum, ..page }, links),
            Err(error) => {
                // Buffers that a panic left half filled are made anew.
                (*analyser, *page) = (Analyser::new(self.options), Page::default());
                (Analysed { no_text: error, ..without_text }, Vec::new())
            }
        }
    }
}

fn marks_of(found: Fingerprints, main: &[u8], title: &str) -> Arc<Marks> {
    Arc::new(Marks::new(found, Facts::of(main, title)))
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

    /// Bodies with their content types, in order.
    fn analyse_many(
        &self,
        python: Python<'_>,
        bodies: Vec<(PyBackedBytes, Bound<'_, PyString>)>,
        links: bool,
    ) -> PyResult<Vec<Analysis>> {
        let bodies: Vec<_> = bodies.iter().map(|(body, content_type)| (body, content_type.to_string_lossy())).collect();
        let mut workshop = self.workshop();
        let mut found = Vec::with_capacity(bodies.len());
        let mut rest = &bodies[..];
        while !rest.is_empty() {
            let mut run_bytes = 0;
            let run = rest.iter().take_while(|(body, _)| {
                let begins = run_bytes < RUN_BYTES;
                run_bytes += body.len();
                begins
            });
            let (run, behind) = rest.split_at(run.count());
            rest = behind;
            check_memory(run_bytes)?;
            detached(python, || {
                for (body, content_type) in run {
                    let (page, links) = self.analysed(&mut workshop, body, content_type, links);
                    found.push(Analysis::new(page, links));
                }
            })?;
        }
        Self::keep(workshop, bodies.iter().map(|(body, _)| body.len()).max().unwrap_or(0));
        Ok(found)
    }

    /// A page with a text that Python has read, and if asked for with the links of it.
    fn with_text(
        &self,
        python: Python<'_>,
        page: &Analysis,
        text: ReadText<'_>,
        entries: &[u8],
        links: bool,
    ) -> PyResult<Analysis> {
        let page_links = if links && page.links.is_empty() { text.links() } else { page.links.clone() };
        let page = text.of(&page.page, entries)?;
        Ok(Analysis::new(self.with_marks(python, page)?, page_links))
    }

    /// A page of a text in UTF-8 and of the checksum of its body.
    fn with_stored_text(&self, python: Python<'_>, main: &[u8], checksum: &[u8]) -> PyResult<Analysis> {
        let page = Analysed { checksum: checksum.into(), has_text: true, main: main.into(), ..Analysed::default() };
        Ok(Analysis::new(self.with_marks(python, page)?, Vec::new()))
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

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Kernel>()?;
    module.add_function(wrap_pyfunction!(shared_members, module)?)
}
