//! Columns of records for Python, made of a page as it was fetched and of its analysis; `docstore_store::columns` has the
//! rules.

use docstore_store::capture::MAIN;
use docstore_store::columns::{self, Response, IDENTIFIED_HEADER};
use docstore_store::format::VALUE_INLINE;
use docstore_store::values;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

use crate::analysis::Analysis;
use crate::captures::column_of;
use crate::convert::{text_of, utf8};
use crate::headers::encoded_headers;

/// What is not UTF-8 in a response is kept.
const ESCAPE: &str = "surrogateescape";

/// The fields of a page that its record has; see `model.types.Page`.
#[derive(FromPyObject)]
struct Fetched<'py> {
    url: Bound<'py, PyString>,
    status: i64,
    headers: Bound<'py, PyAny>,
    ip: Bound<'py, PyString>,
    payload_digest: Bound<'py, PyString>,
    docno: Bound<'py, PyString>,
}

/// The content type by which a body with these headers is analysed.
#[pyfunction]
fn content_type_of<'py>(headers: &Bound<'py, PyAny>, row_key: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let mut pairs = Vec::new();
    for pair in headers.try_iter()? {
        let pair = pair?.cast_into::<PyTuple>()?;
        let name = pair.get_item(0)?.cast_into::<PyString>()?;
        let name = utf8(&name, ESCAPE)?;
        if [b"Content-Type", IDENTIFIED_HEADER].iter().any(|wanted| name.eq_ignore_ascii_case(wanted)) {
            let value = pair.get_item(1)?.cast_into::<PyString>()?;
            pairs.push((name.into_owned(), utf8(&value, ESCAPE)?.into_owned()));
        }
    }
    let pairs = pairs.iter().map(|(name, value)| (&name[..], &value[..]));
    text_of(headers.py(), &columns::content_type(pairs, row_key), ESCAPE)
}

type Sorted<'py> = (Bound<'py, PyDict>, Bound<'py, PyDict>);

/// The values of a capture but its body, text and verdict, by where they go: in their cell, or if they are long into a
/// segment.
#[pyfunction]
fn capture_values<'py>(
    python: Python<'py>,
    page: Fetched<'py>,
    url: &Bound<'py, PyString>,
    content_type: &Bound<'py, PyString>,
    analysis: &Analysis,
) -> PyResult<Sorted<'py>> {
    let (inline, long) = (PyDict::new(python), PyDict::new(python));
    let (fetched, canonical) = (utf8(&page.url, "surrogatepass")?, utf8(url, "surrogatepass")?);
    let response = Response {
        status: page.status,
        headers: &encoded_headers(&page.headers)?,
        content_type: &utf8(content_type, ESCAPE)?,
        ip: &utf8(&page.ip, ESCAPE)?,
        payload_digest: &utf8(&page.payload_digest, ESCAPE)?,
        docno: &utf8(&page.docno, ESCAPE)?,
        url: if fetched == canonical { b"" } else { &fetched },
    };
    columns::of_response(&response, &analysis.page, |number, raw| {
        let column = column_of(python, number)?;
        if values::is_long(raw.len()) {
            return long.set_item(column, PyBytes::new(python, raw));
        }
        let cell_value = PyBytes::new_with(python, 1 + raw.len(), |value| {
            value[0] = VALUE_INLINE;
            value[1..].copy_from_slice(raw);
            Ok(())
        })?;
        inline.set_item(column, cell_value)
    })?;
    Ok((inline, long))
}

/// The values of the columns that an analysis fills, with its text.
#[pyfunction]
fn analysis_values<'py>(python: Python<'py>, analysis: &Analysis) -> PyResult<Bound<'py, PyDict>> {
    let found = PyDict::new(python);
    let put = |number, raw: &[u8]| found.set_item(column_of(python, number)?, PyBytes::new(python, raw));
    put(MAIN, &analysis.page.main)?;
    columns::of_page(&analysis.page, put)?;
    Ok(found)
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(content_type_of, module)?)?;
    module.add_function(wrap_pyfunction!(capture_values, module)?)?;
    module.add_function(wrap_pyfunction!(analysis_values, module)?)
}
