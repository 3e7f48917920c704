//! Text for Python: decoded bodies, visible text, words, and why a block is main text.

use std::borrow::Cow;
use std::cell::RefCell;

use docstore_kernel::analysis::TEXT_LIMIT_BYTES;
use docstore_kernel::charset::Origin;
use docstore_kernel::markdown;
use docstore_kernel::search;
use docstore_kernel::source::{self, Buffers, Source};
use docstore_kernel::titles::distinctive;
use docstore_kernel::words::{self, Words};
use docstore_kernel::{charset, expressions, kind, Extractor};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::convert::detached;
use crate::kernel::KEPT_BODY_BYTES;

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::default();
    pub static WORDS: RefCell<Words> = RefCell::default();
}

/// The normalised words of a text with one space between; for a search in its forms (see `search`).
#[pyfunction]
#[pyo3(signature = (text, for_search=false))]
fn joined_words<'py>(text: &Bound<'py, PyString>, for_search: bool) -> PyResult<Bound<'py, PyString>> {
    let (python, text) = (text.py(), text.to_string_lossy());
    let (mut words, mut folded) = (WORDS.take(), String::new());
    detached(python, || {
        words.cut(text.as_bytes());
        if for_search {
            search::fold(words.joined(), &mut folded);
        }
    })?;
    let joined = PyString::from_bytes(python, if for_search { folded.as_bytes() } else { words.joined() });
    if text.len() <= KEPT_BODY_BYTES {
        WORDS.set(words);
    }
    joined
}

/// The words of a text in the forms of a search, with one space between, where each begins there, and where each starts
/// and ends in the text: characters, as native-endian numbers of four bytes.
#[pyfunction]
fn placed_words<'py>(text: &Bound<'py, PyString>) -> PyResult<(String, [Bound<'py, PyBytes>; 3])> {
    let (python, text) = (text.py(), text.to_string_lossy());
    let placed = detached(python, || search::placed(&text))?;
    let bytes = |numbers: Vec<u32>| -> Vec<u8> { numbers.into_iter().flat_map(u32::to_ne_bytes).collect() };
    let numbers = [placed.begins, placed.starts, placed.ends].map(|numbers| PyBytes::new(python, &bytes(numbers)));
    Ok((placed.folded, numbers))
}

/// The words of a title that distinguish its page.
#[pyfunction]
fn distinctive_words(title: &Bound<'_, PyString>) -> Vec<String> {
    let title = title.to_string_lossy();
    let mut words = WORDS.take();
    let chosen = distinctive(&title, &mut words).into_iter().map(|word| String::from_utf8_lossy(word).into_owned());
    let chosen = chosen.collect();
    WORDS.set(words);
    chosen
}

/// Whether a character is of a script that does not separate words.
#[pyfunction]
fn is_unspaced(character: &Bound<'_, PyString>) -> bool {
    character.to_string_lossy().chars().next().is_some_and(words::is_unspaced)
}

/// An expression in the syntax of RE2, which matches in linear time.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct Expression(expressions::Expression);

#[pymethods]
impl Expression {
    #[new]
    fn new(source: &Bound<'_, PyString>, limit_bytes: usize, whole: bool) -> PyResult<Self> {
        expressions::Expression::new(&source.to_string_lossy(), limit_bytes, whole)
            .map(Self)
            .map_err(PyValueError::new_err)
    }

    fn matches(&self, text: &Bound<'_, PyString>) -> bool {
        self.0.matches(&text.to_string_lossy())
    }
}

/// Whether a body is read as HTML.
#[pyfunction]
fn is_html(body: &[u8], content_type: &Bound<'_, PyString>) -> bool {
    kind::is_html(body, &content_type.to_string_lossy())
}

/// Whether the head of a body whose type is given is of a text.
#[pyfunction]
fn is_text(head: &[u8]) -> bool {
    kind::is_text(head, true)
}

/// Length of the messages of PHP that stand before a feed or site map.
#[pyfunction]
fn warnings_bytes(body: &[u8]) -> usize {
    kind::warnings_bytes(body)
}

/// The first bytes of a body as markup is looked for in them, and the name of its root element in lower case.
#[pyfunction]
fn head_and_root<'py>(python: Python<'py>, body: &[u8]) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>) {
    let head = kind::head(body);
    let root = kind::root(&head).unwrap_or_default().to_ascii_lowercase();
    (PyBytes::new(python, &head), PyBytes::new(python, &root))
}

/// The encoding of a body, and the text of its first `TEXT_LIMIT_BYTES`.
#[pyfunction]
fn decode<'py>(body: &[u8], content_type: &Bound<'py, PyString>) -> PyResult<(String, Bound<'py, PyString>)> {
    let python = content_type.py();
    let (name, text) = decoded(python, body, content_type)?;
    Ok((name, PyString::new(python, &text)))
}

/// The encoding of a body, and what says so: bom, http, meta, xml or guessed.
#[pyfunction]
fn charset_of(body: &[u8], content_type: &Bound<'_, PyString>) -> PyResult<(String, &'static str)> {
    let (python, content_type) = (content_type.py(), content_type.to_string_lossy());
    let body = &body[..body.len().min(TEXT_LIMIT_BYTES)];
    let ((name, _), origin) = detached(python, || charset::decode_told(body, &content_type))?;
    let origin = match origin {
        Origin::Bom => "bom",
        Origin::Http => "http",
        Origin::Meta => "meta",
        Origin::Xml => "xml",
        Origin::Guessed => "guessed",
    };
    Ok((name.name().to_ascii_lowercase(), origin))
}

fn decoded<'a>(
    python: Python<'_>,
    body: &'a [u8],
    content_type: &Bound<'_, PyString>,
) -> PyResult<(String, Cow<'a, str>)> {
    let content_type = content_type.to_string_lossy();
    let body = &body[..body.len().min(TEXT_LIMIT_BYTES)];
    let (name, text) = detached(python, || charset::decode(body, &content_type))?;
    Ok((name.name().to_ascii_lowercase(), text))
}

/// Lines of a text, white space folded to one space, without empty ones.
#[pyfunction]
fn fold_lines(text: &Bound<'_, PyString>) -> PyResult<String> {
    let (python, text) = (text.py(), text.to_string_lossy());
    detached(python, || source::fold_lines(&text))
}

/// Ask something of a page's source.
fn ask<T: Send>(
    text: &Bound<'_, PyString>,
    content_type: &str,
    question: impl FnOnce(Source) -> T + Send,
) -> PyResult<T> {
    let (python, text) = (text.py(), text.to_string_lossy());
    detached(python, || question(Source::new(&text, content_type)))
}

/// The visible text of a piece of HTML, one block a line.
#[pyfunction]
fn visible_text(text: &Bound<'_, PyString>) -> PyResult<String> {
    ask(text, "", |source| source.visible())
}

/// Visible text, description, headings one a line, links as (href, anchor text).
type Page = (String, String, String, Vec<(String, String)>);

/// What a page of HTML shows and declares.
#[pyfunction]
fn read_html(text: &Bound<'_, PyString>) -> PyResult<Page> {
    ask(text, "", |source| {
        let declared = source.declared();
        (source.visible(), declared.description, declared.headings, declared.links)
    })
}

/// The address in the first `base` element of a page that has one.
#[pyfunction]
fn base_href(body: &[u8], content_type: &Bound<'_, PyString>) -> PyResult<Option<String>> {
    let (_, text) = decoded(content_type.py(), body, content_type)?;
    let kind = content_type.to_string_lossy();
    detached(content_type.py(), || Source::new(&text, &kind).base())
}

/// The main text of a page as Markdown: for HTML of those of its blocks that make up the text, else of its lines.
#[pyfunction]
#[pyo3(name = "markdown")]
fn markdown_of(
    python: Python<'_>,
    body: &[u8],
    content_type: &Bound<'_, PyString>,
    url: &str,
    text: &Bound<'_, PyString>,
) -> PyResult<String> {
    let text = text.to_string_lossy();
    let mut found = None;
    if kind::is_html(body, &content_type.to_string_lossy()) {
        let (_, source) = decoded(python, body, content_type)?;
        let kind = content_type.to_string_lossy();
        let written = || BUFFERS.with_borrow_mut(|buffers| Source::new(&source, &kind).markdown(buffers, url, &text));
        found = detached(python, written)?;
    }
    Ok(found.unwrap_or_else(|| markdown::of_lines(&text)))
}

/// The contents of the scripts of JSON-LD in a page.
#[pyfunction]
fn json_ld(body: &[u8], content_type: &Bound<'_, PyString>) -> PyResult<Vec<String>> {
    let (_, text) = decoded(content_type.py(), body, content_type)?;
    let kind = content_type.to_string_lossy();
    detached(content_type.py(), || Source::new(&text, &kind).json_ld().into_iter().map(str::to_owned).collect())
}

/// Tags before each text of a page, words of each, and the texts of the tag plateau: the first, and the one behind.
#[pyfunction]
fn plateau(text: &Bound<'_, PyString>) -> PyResult<(Vec<u32>, Vec<u32>, (usize, usize))> {
    let found = ask(text, "", |source| source.plateau())?;
    Ok((found.tags, found.words, found.span))
}

/// Text of a block, whether it is main text, its score, the causes in words.
type Explained = (String, bool, Option<i32>, Vec<String>);

/// Each block of a page, with the decision of an extractor.
#[pyfunction]
#[pyo3(signature = (text, extractor, content_type=""))]
fn explain(text: &Bound<'_, PyString>, extractor: &str, content_type: &str) -> PyResult<Vec<Explained>> {
    let Some(extractor) = Extractor::of_name(extractor) else {
        return Err(PyValueError::new_err(format!("there is no extractor named {extractor:?}")));
    };
    let blocks = ask(text, content_type, |source| source.explain(extractor))?;
    Ok(blocks.into_iter().map(|block| (block.text, block.is_kept, block.score, block.because)).collect())
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("TEXT_LIMIT_BYTES", TEXT_LIMIT_BYTES)?;
    module.add_function(wrap_pyfunction!(joined_words, module)?)?;
    module.add_function(wrap_pyfunction!(placed_words, module)?)?;
    module.add_function(wrap_pyfunction!(distinctive_words, module)?)?;
    module.add_function(wrap_pyfunction!(is_unspaced, module)?)?;
    module.add_class::<Expression>()?;
    module.add_function(wrap_pyfunction!(is_html, module)?)?;
    module.add_function(wrap_pyfunction!(is_text, module)?)?;
    module.add_function(wrap_pyfunction!(warnings_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(head_and_root, module)?)?;
    module.add_function(wrap_pyfunction!(decode, module)?)?;
    module.add_function(wrap_pyfunction!(charset_of, module)?)?;
    module.add_function(wrap_pyfunction!(fold_lines, module)?)?;
    module.add_function(wrap_pyfunction!(visible_text, module)?)?;
    module.add_function(wrap_pyfunction!(read_html, module)?)?;
    module.add_function(wrap_pyfunction!(base_href, module)?)?;
    module.add_function(wrap_pyfunction!(markdown_of, module)?)?;
    module.add_function(wrap_pyfunction!(json_ld, module)?)?;
    module.add_function(wrap_pyfunction!(plateau, module)?)?;
    module.add_function(wrap_pyfunction!(explain, module)?)
}
