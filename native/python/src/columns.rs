//! Columns of records for Python, made of a page as it was fetched and of its analysis; `docstore_store::columns` has the
//! rules.

use docstore_store::analysed::Analysed;
use docstore_store::columns::{self, RecordColumns, Response, IDENTIFIED_HEADER};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::convert::{text_of, utf8};
use crate::headers::encoded_headers;

/// What is not UTF-8 in a response is kept.
const ESCAPE: &str = "surrogateescape";

/// The fields of a page that its record has; see `model.types.Page`.
#[derive(FromPyObject)]
pub struct FetchedFields<'py> {
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

impl FetchedFields<'_> {
    /// The columns of its record except body, text and verdict; `url` is that of its row.
    pub fn columns(
        &self,
        url: &Bound<'_, PyString>,
        content_type: &Bound<'_, PyString>,
        page: &Analysed,
    ) -> PyResult<RecordColumns> {
        let (fetched, canonical) = (utf8(&self.url, "surrogatepass")?, utf8(url, "surrogatepass")?);
        let response = Response {
            status: self.status,
            headers: &encoded_headers(&self.headers)?,
            content_type: &utf8(content_type, ESCAPE)?,
            ip: &utf8(&self.ip, ESCAPE)?,
            payload_digest: &utf8(&self.payload_digest, ESCAPE)?,
            docno: &utf8(&self.docno, ESCAPE)?,
            url: if fetched == canonical { b"" } else { &fetched },
        };
        Ok(RecordColumns::of(&response, page))
    }
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(content_type_of, module)?)
}
