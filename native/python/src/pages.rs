//! Pages with their verdicts, taken out of `storage.writes.Write`.

use docstore_frames::Name;
use docstore_store::bases::Pointer;
use docstore_store::capture::{BODY, MAIN};
use docstore_store::encoding::{is_shared_copy, NewPage};
use pyo3::exceptions::PyKeyError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::bases::{pointer_of, GivenPointer};
use crate::captures::{column_of, number_of};

/// The fields of a page with its verdict; see `storage.writes.Write`.
#[derive(FromPyObject)]
struct GivenWrite<'py> {
    prepared: GivenPage<'py>,
    pointer: GivenPointer<'py>,
    verdict: Bound<'py, PyAny>,
    record: (Bound<'py, PyAny>, u8, Bound<'py, PyDict>, u64, u64),
    nearest: Option<GivenPointer<'py>>,
    previous: Option<Previous<'py>>,
    is_damaged: bool,
}

#[derive(FromPyObject)]
struct GivenPage<'py> {
    page: GivenBody,
    analysis: GivenAnalysis<'py>,
    path_key: PyBackedBytes,
}

#[derive(FromPyObject)]
struct GivenBody {
    body: PyBackedBytes,
}

#[derive(FromPyObject)]
struct GivenAnalysis<'py> {
    main_bytes: PyBackedBytes,
    main_name: Bound<'py, PyBytes>,
    body_checksum: Bound<'py, PyBytes>,
}

#[derive(FromPyObject)]
struct Previous<'py> {
    source: u64,
    columns: Bound<'py, PyDict>,
}

/// The name at the beginning of bytes; None if they are too few.
fn name_in(bytes: &[u8]) -> Option<Name> {
    bytes.first_chunk().copied()
}

pub fn page_of(write: &Bound<'_, PyAny>) -> PyResult<NewPage<PyBackedBytes>> {
    let python = write.py();
    let given: GivenWrite<'_> = write.extract()?;
    let (_, kind, columns, arrived, confirms) = given.record;
    let analysis = given.prepared.analysis;
    let pointer = pointer_of(given.pointer);
    let word = |name| given.verdict.getattr(name)?.cast_into::<PyString>().map_err(PyErr::from);
    let (kind_of_verdict, stored) = (word(intern!(python, "kind"))?, word(intern!(python, "stored"))?);
    let is_copy = is_shared_copy(kind_of_verdict.to_str()?, stored.to_str()?);
    let copies = match is_copy {
        true => given.verdict.getattr(intern!(python, "of"))?.extract::<Option<GivenPointer<'_>>>()?.map(pointer_of),
        false => None,
    };
    let previous = match given.previous {
        None => None,
        Some(before) => {
            let cell = |column| -> PyResult<Option<PyBackedBytes>> {
                match before.columns.get_item(column_of(python, column)?)? {
                    Some(value) => Ok(Some(value.extract()?)),
                    None => Ok(None),
                }
            };
            let cells = [cell(BODY)?, cell(MAIN)?];
            Some((Pointer { timestamp: before.source, row_key: pointer.row_key.clone() }, cells))
        }
    };
    let mut held = Vec::with_capacity(columns.len());
    for (column, value) in columns {
        let number = number_of(&column)?.ok_or_else(|| PyKeyError::new_err(column.unbind()))?;
        held.push((number, value.extract()?));
    }
    Ok(NewPage {
        pointer,
        kind,
        arrived,
        confirms,
        columns: held,
        body: given.prepared.page.body,
        text: analysis.main_bytes,
        body_name: name_in(analysis.body_checksum.as_bytes().get(1..).unwrap_or_default()),
        text_name: name_in(analysis.main_name.as_bytes()),
        path: given.prepared.path_key,
        copies,
        previous,
        nearest: given.nearest.map(pointer_of),
        is_damaged: given.is_damaged,
    })
}
