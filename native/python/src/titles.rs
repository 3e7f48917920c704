//! Titles of pages for Python: `docstore_store::titles` over functions that give texts.

use std::borrow::Cow;
use std::sync::Arc;

use docstore_store::titles::{self, Shown, Titled};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::convert::{text_of, utf8};

const SURROGATES: &str = "surrogatepass";

/// Functions of Python that give the text of a page, and how many words its body shows.
struct Loads {
    text: Py<PyAny>,
    visible_words: Py<PyAny>,
}

/// Calls these functions.
struct Caller<'py>(Python<'py>);

impl Shown for Caller<'_> {
    type Name = Loads;
    type Error = PyErr;

    fn text<'a>(&'a mut self, name: &'a Loads) -> PyResult<Cow<'a, [u8]>> {
        let text = name.text.bind(self.0).call0()?.cast_into::<PyString>()?;
        Ok(utf8(&text, SURROGATES)?.into_owned().into())
    }

    fn visible_words(&mut self, name: &Loads) -> PyResult<Option<usize>> {
        name.visible_words.bind(self.0).call0()?.extract()
    }
}

/// A page's row, title, and compared text; text and body are read when they are first needed.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
struct TitledPage(Arc<Titled<Loads>>);

#[pymethods]
impl TitledPage {
    #[new]
    #[pyo3(signature = (row_key, title, load_text, load_visible_words, mostly_main=None))]
    fn new(
        row_key: &[u8],
        title: &Bound<'_, PyString>,
        load_text: Py<PyAny>,
        load_visible_words: Py<PyAny>,
        mostly_main: Option<bool>,
    ) -> PyResult<Self> {
        let loads = Loads { text: load_text, visible_words: load_visible_words };
        Ok(Self(Arc::new(Titled::new(loads, row_key, &utf8(title, SURROGATES)?, mostly_main))))
    }

    #[getter]
    fn title<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        text_of(python, &self.0.title, SURROGATES)
    }

    #[getter]
    fn host<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, self.0.host())
    }

    /// The words of its title that its text has, in UTF-8, ascending.
    fn held_words<'py>(&self, python: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let held = self.0.held_words(&mut Caller(python))?;
        Ok(held.into_iter().map(|word| PyBytes::new(python, word)).collect())
    }

    #[getter]
    fn is_mostly_main(&self, python: Python<'_>) -> PyResult<bool> {
        self.0.is_mostly_main(&mut Caller(python))
    }

    #[getter]
    fn is_article(&self, python: Python<'_>) -> PyResult<bool> {
        self.0.is_article(&mut Caller(python))
    }
}

/// Whether two titles contradict each other.
#[pyfunction]
fn titles_contradict(python: Python<'_>, page: &TitledPage, other: &TitledPage) -> PyResult<bool> {
    titles::contradict(&page.0, &other.0, &mut Caller(python))
}

fn pages_of(like_them: &Bound<'_, PyAny>) -> PyResult<Vec<Arc<Titled<Loads>>>> {
    like_them.try_iter()?.map(|each| Ok(each?.cast::<TitledPage>()?.get().0.clone())).collect()
}

/// Whether titles set two pages apart, by pages like them, of their hosts.
#[pyfunction]
fn title_mismatch(page: &TitledPage, other: &TitledPage, like_them: &Bound<'_, PyAny>) -> PyResult<bool> {
    titles::mismatch(&page.0, &other.0, &mut Caller(like_them.py()), |_, hosts| {
        let mut found = pages_of(like_them)?;
        found.retain(|each| hosts.contains(&each.host()));
        Ok(found)
    })
}

/// Whether the title of one of some pages contradicts those of two others.
#[pyfunction]
fn has_evidence(page: &TitledPage, other: &TitledPage, like_them: &Bound<'_, PyAny>) -> PyResult<bool> {
    let found = pages_of(like_them)?;
    titles::has_evidence(&page.0, &other.0, found.iter().map(|each| &**each), &mut Caller(like_them.py()))
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TitledPage>()?;
    module.add_function(wrap_pyfunction!(titles_contradict, module)?)?;
    module.add_function(wrap_pyfunction!(title_mismatch, module)?)?;
    module.add_function(wrap_pyfunction!(has_evidence, module)?)
}
