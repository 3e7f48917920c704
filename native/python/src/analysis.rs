//! A page that is analysed, for Python: one frozen object, whose fields are handed over on demand.

use std::sync::Arc;

use docstore_store::analysed::{Analysed, Marks};
use docstore_store::capture::MAIN;
use docstore_store::columns::{self, RecordColumns};
use docstore_store::varint;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::captures::column_of;
use crate::columns::FetchedFields;
use crate::convert::{text_of, utf8, words_as_bytes};
use crate::queries::IndexQuery;

/// How texts are written that are not Unicode.
const PASS: &str = "surrogatepass";

/// Href and anchor text.
pub type Link = (String, String);

/// See `docstore_native.Analysis`.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
#[derive(Default)]
pub struct Analysis {
    pub page: Arc<Analysed>,
    /// If they were asked for.
    pub links: Vec<Link>,
    /// Of its record except body, text and verdict; empty before `with_columns`.
    pub columns: RecordColumns,
}

impl Analysis {
    pub fn new(page: Analysed, links: Vec<Link>) -> Self {
        Self { page: Arc::new(page), links, columns: RecordColumns::default() }
    }
}

/// The text of a body that Python reads; see `text.readers.Text`.
#[derive(FromPyObject)]
pub struct ReadText<'py> {
    main: Bound<'py, PyString>,
    charset: String,
    title: Bound<'py, PyString>,
    description: Bound<'py, PyString>,
    headings: Bound<'py, PyString>,
    lang: Bound<'py, PyString>,
    published: String,
    links: Vec<(Bound<'py, PyString>, Bound<'py, PyString>)>,
}

impl ReadText<'_> {
    /// The page with this text, without fingerprints.  What the page itself declares comes first.
    pub fn of(&self, page: &Analysed, entries: &[u8]) -> PyResult<Analysed> {
        let declared = |own: &[u8], read: &Bound<'_, PyString>| -> PyResult<Box<[u8]>> {
            Ok(if own.is_empty() { utf8(read, PASS)?.into() } else { own.into() })
        };
        Ok(Analysed {
            checksum: page.checksum.clone(),
            has_text: true,
            no_text: String::new(),
            charset: if page.charset.is_empty() { &self.charset } else { &page.charset }.clone(),
            title: declared(&page.title, &self.title)?,
            description: declared(&page.description, &self.description)?,
            keywords: page.keywords.clone(),
            lang: declared(&page.lang, &self.lang)?,
            canonical: page.canonical.clone(),
            published: self.published.as_bytes().into(),
            headings: declared(&page.headings, &self.headings)?,
            entries: entries.into(),
            main: utf8(&self.main, PASS)?.into(),
            marks: None,
        })
    }

    pub fn links(&self) -> Vec<Link> {
        let text = |text: &Bound<'_, PyString>| text.to_string_lossy().into_owned();
        self.links.iter().map(|(href, anchor)| (text(href), text(anchor))).collect()
    }
}

impl Analysis {
    fn marks(&self) -> Option<&Arc<Marks>> {
        self.page.marks.as_ref()
    }

    fn numbers<'py>(&self, python: Python<'py>, of: impl FnOnce(&Marks) -> &[u64]) -> PyResult<Bound<'py, PyBytes>> {
        words_as_bytes(python, self.marks().map_or(&[], |marks| of(marks)))
    }
}

#[pymethods]
impl Analysis {
    /// Of a page without a body to analyse.
    #[new]
    fn of_nothing() -> Self {
        Self::default()
    }

    /// Of bytes that `pack` gave.
    #[staticmethod]
    fn unpack(packed: &[u8]) -> PyResult<Self> {
        let parts = || {
            let mut at = 0;
            let bytes = usize::try_from(varint::read(packed, &mut at)?).ok()?;
            let page = Analysed::unpack(varint::take(packed, &mut at, bytes)?)?;
            Some(Self { columns: RecordColumns::unpack(&packed[at..])?, ..Self::new(page, Vec::new()) })
        };
        parts().ok_or_else(|| PyValueError::new_err("not a packed page"))
    }

    fn pack<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        let page = self.page.pack();
        let mut packed = Vec::with_capacity(page.len() + 2048);
        varint::push(&mut packed, page.len() as u64);
        packed.extend_from_slice(&page);
        self.columns.pack(&mut packed);
        PyBytes::new(python, &packed)
    }

    /// The same page without text, and why.
    fn without_text(&self, no_text: String) -> Self {
        let page = Analysed { checksum: self.page.checksum.clone(), no_text, ..Analysed::default() };
        Self::new(page, Vec::new())
    }

    /// The same page with the columns of its record, and without its links.
    fn with_columns(
        &self,
        page: FetchedFields<'_>,
        url: &Bound<'_, PyString>,
        content_type: &Bound<'_, PyString>,
    ) -> PyResult<Self> {
        let columns = page.columns(url, content_type, &self.page)?;
        Ok(Self { page: self.page.clone(), links: Vec::new(), columns })
    }

    #[getter]
    fn has_text(&self) -> bool {
        self.page.has_text
    }

    #[getter]
    fn body_checksum<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, &self.page.checksum)
    }

    #[getter]
    fn charset(&self) -> &str {
        &self.page.charset
    }

    #[getter]
    fn title<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        text_of(python, &self.page.title, PASS)
    }

    #[getter]
    fn description<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        text_of(python, &self.page.description, PASS)
    }

    #[getter]
    fn keywords<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        text_of(python, &self.page.keywords, PASS)
    }

    #[getter]
    fn lang<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        text_of(python, &self.page.lang, PASS)
    }

    #[getter]
    fn canonical<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        text_of(python, &self.page.canonical, PASS)
    }

    #[getter]
    fn published<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        text_of(python, &self.page.published, PASS)
    }

    #[getter]
    fn headings<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, &self.page.headings)
    }

    #[getter]
    fn entries<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, &self.page.entries)
    }

    #[getter]
    fn main<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        text_of(python, &self.page.main, PASS)
    }

    #[getter]
    fn main_bytes<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, &self.page.main)
    }

    #[getter]
    fn links(&self) -> Vec<(&str, &str)> {
        self.links.iter().map(|(href, anchor)| (&**href, &**anchor)).collect()
    }

    /// Raw values of the columns that an analysis fills, with its text.
    fn values<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut values = vec![(MAIN, self.page.main.to_vec())];
        columns::of_page(&self.page, |number, raw| values.push((number, raw.to_vec())));
        let found = PyDict::new(python);
        for (number, raw) in values {
            found.set_item(column_of(python, number)?, PyBytes::new(python, &raw))?;
        }
        Ok(found)
    }

    /// Cell values by column; raw ones of those that are too long for their cell.
    #[getter]
    fn columns<'py>(&self, python: Python<'py>) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
        let (short, long) = (PyDict::new(python), PyDict::new(python));
        for (number, cell_value) in self.columns.short.iter() {
            short.set_item(column_of(python, number.into())?, PyBytes::new(python, cell_value))?;
        }
        for (number, raw) in &self.columns.long {
            long.set_item(column_of(python, usize::from(*number))?, PyBytes::new(python, raw.as_ref()))?;
        }
        Ok((short, long))
    }

    #[getter]
    fn no_text(&self) -> &str {
        &self.page.no_text
    }

    // --- fingerprints of the main text

    #[getter]
    fn word_count(&self) -> usize {
        self.page.word_count()
    }

    #[getter]
    fn text_checksum<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, self.page.text_checksum())
    }

    #[getter]
    fn shingle_count(&self) -> u64 {
        self.marks().map_or(0, |marks| marks.shingle_count())
    }

    #[getter]
    fn simhash(&self) -> u64 {
        self.marks().map_or(0, |marks| marks.fingerprints.simhash)
    }

    #[getter]
    fn sketch<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, self.marks().map_or(&[], |marks| &marks.sketch))
    }

    #[getter]
    fn band_keys<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.numbers(python, |marks| &marks.fingerprints.band_keys)
    }

    #[getter]
    fn fingerprints<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.numbers(python, |marks| &marks.fingerprints.samples)
    }

    #[getter]
    fn runs<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.numbers(python, |marks| &marks.fingerprints.runs)
    }

    #[getter]
    fn shingles<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.numbers(python, |marks| &marks.fingerprints.shingles)
    }

    #[getter]
    fn main_name<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, self.marks().map_or(&[], |marks| &marks.facts.name))
    }

    #[getter]
    fn holds_title(&self) -> bool {
        self.marks().is_some_and(|marks| marks.facts.holds_title)
    }

    /// What the page asks the index; of a stored text, whose row names it by another number, under that number.
    #[pyo3(signature = (own_number=None))]
    fn query(&self, own_number: Option<u64>) -> PyResult<IndexQuery> {
        let marks = self.marks().ok_or_else(|| PyValueError::new_err("a page without words asks nothing"))?;
        Ok(IndexQuery::under(marks, own_number.unwrap_or(marks.number), 0))
    }
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Analysis>()
}
