//! The numbers on disk that native code has, for the test that compares each with `docstore/model/format.py`.

use docstore_store::format::{Literal, LITERALS};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

/// Each constant by its name.
#[pyfunction]
fn disk_format(python: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let found = PyDict::new(python);
    let bytes = |raw: &[u8]| PyBytes::new(python, raw);
    for (name, literal) in LITERALS {
        match literal {
            Literal::Number(number) => found.set_item(name, number)?,
            Literal::Bytes(raw) => found.set_item(name, bytes(raw))?,
            Literal::Text(text) => found.set_item(name, text)?,
            Literal::Texts(texts) => found.set_item(name, PyTuple::new(python, *texts)?)?,
            Literal::Numbers(numbers) => found.set_item(name, PyTuple::new(python, *numbers)?)?,
            Literal::Columns(columns) => {
                let columns =
                    columns.iter().map(|(number, (family, qualifier))| (*number, (*family, bytes(qualifier))));
                found.set_item(name, columns.collect::<Vec<_>>().into_pyobject(python).map(dict)??)?;
            }
            Literal::Tags(tags) => found.set_item(name, dict(tags.into_pyobject(python)?)?)?,
            Literal::Names(names) => found.set_item(name, dict(names.into_pyobject(python)?)?)?,
        }
    }
    Ok(found)
}

/// A dictionary of pairs.
fn dict<'py>(pairs: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    PyDict::from_sequence(&pairs)
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(disk_format, module)?)
}
