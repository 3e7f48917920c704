//! The Python module `docstore_native`: bytes in, strings and arrays out.
//!
//! Knows `docstore-kernel` and Python; decides nothing.  The GIL is let go while bodies are analysed.  A panic in the
//! core, which would be a defect, becomes a RuntimeError.

use std::cell::RefCell;
use std::panic::{catch_unwind, AssertUnwindSafe};

use docstore_kernel::analysis::{Fingerprints, Page};
use docstore_kernel::{shingle, Analyser, Analysis, Extractor, Options};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyTuple};

/// One body after the core: digest of the body where asked for, and the analysis.
type Analysed = (Option<[u8; 32]>, Analysis);

/// Analyses bodies by one fixed choice of extractor and shingle length; stateless, safe in threads.
#[pyclass(frozen, module = "docstore_native")]
struct Kernel {
    options: Options,
    with_blake3: bool,
}

thread_local! {
    /// Buffers of this thread, for the options that they were made for.
    static ANALYSER: RefCell<Option<(Options, Analyser)>> = const { RefCell::new(None) };
}

impl Kernel {
    /// Work with this thread's analyser; a panic becomes an error, and the buffers are made anew.
    fn with<T>(&self, work: impl FnOnce(&mut Analyser) -> T) -> Result<T, String> {
        ANALYSER.with_borrow_mut(|slot| {
            let same = |made: &Options| {
                made.extractor == self.options.extractor && made.shingle_words == self.options.shingle_words
            };
            let (made_for, mut analyser) = slot
                .take()
                .filter(|(made, _)| same(made))
                .unwrap_or_else(|| (self.options, Analyser::new(self.options)));
            let result = catch_unwind(AssertUnwindSafe(|| work(&mut analyser))).map_err(|cause| {
                let text = cause.downcast_ref::<String>().map(String::as_str);
                format!(
                    "the native kernel panicked: {}",
                    text.or(cause.downcast_ref().copied()).unwrap_or("no message")
                )
            })?;
            *slot = Some((made_for, analyser));
            Ok(result)
        })
    }

    fn analysed(&self, analyser: &mut Analyser, body: &[u8], content_type: &str, links: bool) -> Analysed {
        (self.with_blake3.then(|| *blake3::hash(body).as_bytes()), analyser.analyse(body, content_type, links))
    }
}

#[pymethods]
impl Kernel {
    #[new]
    fn new(extractor: &str, shingle_words: usize, with_blake3: bool) -> PyResult<Self> {
        let Some(extractor) = Extractor::of_name(extractor) else {
            return Err(PyValueError::new_err(format!("the native kernel has no extractor named {extractor:?}")));
        };
        if shingle_words == 0 {
            return Err(PyValueError::new_err("shingle_words must be at least 1, not 0"));
        }
        Ok(Self { options: Options { extractor, shingle_words }, with_blake3 })
    }

    /// One body: (BLAKE3 digest or None, outcome); outcome is None for what is no HTML, False for HTML that the
    /// caller has to decode, else what `source` gives.
    fn analyse<'py>(
        &self,
        python: Python<'py>,
        body: PyBackedBytes,
        content_type: &str,
        links: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let analysed = python
            .detach(|| self.with(|analyser| self.analysed(analyser, &body, content_type, links)))
            .map_err(PyRuntimeError::new_err)?;
        handed_over(python, analysed)
    }

    /// `analyse` of each (body, content type), in order, the GIL let go once for all.
    fn analyse_many<'py>(
        &self,
        python: Python<'py>,
        bodies: Vec<(PyBackedBytes, PyBackedStr)>,
        links: bool,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let analysed = python
            .detach(|| {
                self.with(|analyser| {
                    bodies.iter().map(|(body, kind)| self.analysed(analyser, body, kind, links)).collect::<Vec<_>>()
                })
            })
            .map_err(PyRuntimeError::new_err)?;
        analysed.into_iter().map(|each| handed_over(python, each)).collect()
    }

    /// A decoded page: the fields of an `Analysis` from charset on, with bytes in place of arrays.
    fn source<'py>(
        &self,
        python: Python<'py>,
        source: &str,
        charset: &str,
        links: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let mut page =
            python.detach(|| self.with(|analyser| analyser.page(source, links))).map_err(PyRuntimeError::new_err)?;
        page.encoding = charset.to_owned();
        fields(python, page)
    }

    /// The shingle set of a main text: ascending, as bytes of uint64 in the machine's order.
    fn shingles<'py>(&self, python: Python<'py>, text: &str) -> PyResult<Bound<'py, PyBytes>> {
        let set =
            python.detach(|| self.with(|analyser| analyser.shingle_set(text))).map_err(PyRuntimeError::new_err)?;
        words_as_bytes(python, &set)
    }
}

/// How many values two sorted arrays of distinct uint64 share.
#[pyfunction]
fn overlap(python: Python<'_>, first: PyBuffer<u64>, second: PyBuffer<u64>) -> PyResult<usize> {
    Ok(shingle::overlap(&first.to_vec(python)?, &second.to_vec(python)?))
}

fn words_as_bytes<'py>(python: Python<'py>, values: &[u64]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(python, values.len() * 8, |bytes| {
        for (place, value) in bytes.chunks_exact_mut(8).zip(values) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
        Ok(())
    })
}

fn handed_over(python: Python<'_>, (digest, analysis): Analysed) -> PyResult<Bound<'_, PyTuple>> {
    let digest = digest.map(|digest| PyBytes::new(python, &digest));
    let outcome = match analysis {
        Analysis::NotHtml => python.None().into_bound(python),
        Analysis::Foreign => false.into_pyobject(python)?.to_owned().into_any(),
        Analysis::Html(page) => fields(python, *page)?.into_any(),
    };
    (digest, outcome).into_pyobject(python)
}

/// charset, title, description, keywords, lang, canonical, headings, main, links, fingerprints or None.
fn fields(python: Python<'_>, page: Page) -> PyResult<Bound<'_, PyTuple>> {
    let Page { encoding, declared, main, fingerprints } = page;
    let fingerprints = fingerprints.map(|found| numbers(python, &found)).transpose()?;
    (
        encoding,
        declared.title,
        declared.description,
        declared.keywords,
        declared.lang,
        declared.canonical,
        declared.headings,
        main,
        declared.links,
        fingerprints,
    )
        .into_pyobject(python)
}

/// word count, text digest, simhash, sketch, band keys, samples, shingle set.
fn numbers<'py>(python: Python<'py>, found: &Fingerprints) -> PyResult<Bound<'py, PyTuple>> {
    (
        found.word_count,
        PyBytes::new(python, &found.text_digest),
        found.simhash,
        PyBytes::new(python, &found.sketch),
        words_as_bytes(python, &found.band_keys)?,
        words_as_bytes(python, &found.samples)?,
        words_as_bytes(python, &found.shingles)?,
    )
        .into_pyobject(python)
}

#[pymodule]
fn docstore_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Kernel>()?;
    module.add_function(wrap_pyfunction!(overlap, module)?)
}
