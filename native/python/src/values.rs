//! Values of cells for Python; what they mean is decided in `docstore_store::values`.

use docstore_store::values::{self, Place, Value};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::convert::corrupt;

pub fn damaged(python: Python<'_>, cell_value: &[u8]) -> PyErr {
    let mut found: String = cell_value.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    if found.is_empty() {
        found.push_str("nothing");
    }
    corrupt(python, "a cell value is damaged", None, "tag 00, 01 or 02", &found)
}

/// Where a cell's value lies in a segment; None for other values.
#[pyfunction]
fn value_place(cell_value: &[u8]) -> Option<Place> {
    values::ref_of(cell_value).map(|(_, place)| place)
}

/// Segment, offset and length of a ref; None if it is damaged.
#[pyfunction]
fn place_of(reference: &[u8]) -> Option<Place> {
    values::place_of(reference)
}

/// The ref of segment, offset and length.
#[pyfunction]
fn encode_ref<'py>(python: Python<'py>, segment: u64, offset: u64, length: u64) -> Bound<'py, PyBytes> {
    let mut reference = Vec::with_capacity(16);
    values::push_ref(&mut reference, (segment, offset, length));
    PyBytes::new(python, &reference)
}

type CellValue<'py> = (Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>);

/// The value itself, or its ref; neither if it was not kept.
#[pyfunction]
fn parse_cell_value<'py>(python: Python<'py>, cell_value: &[u8]) -> PyResult<CellValue<'py>> {
    let bytes = |part| PyBytes::new(python, part);
    match values::parse(cell_value) {
        Some(Value::Inline(value)) => Ok((bytes(value), None)),
        Some(Value::Ref(_, reference)) => Ok((bytes(b""), Some(bytes(reference)))),
        Some(Value::Absent(_)) => Ok((bytes(b""), None)),
        None => Err(damaged(python, cell_value)),
    }
}

/// Length of the raw value of a cell; 0 if it was not kept.
#[pyfunction]
fn raw_bytes_of(python: Python<'_>, cell_value: &[u8]) -> PyResult<u64> {
    match values::parse(cell_value) {
        Some(Value::Inline(value)) => Ok(value.len() as u64),
        Some(Value::Ref(raw_bytes, _)) => Ok(raw_bytes),
        Some(Value::Absent(_)) => Ok(0),
        None => Err(damaged(python, cell_value)),
    }
}

#[pyfunction]
fn encode_ref_value<'py>(python: Python<'py>, raw_bytes: u64, reference: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(python, &values::encode_ref(raw_bytes, reference))
}

#[pyfunction]
fn encode_absent(python: Python<'_>, raw_bytes: u64) -> Bound<'_, PyBytes> {
    PyBytes::new(python, &values::encode_absent(raw_bytes))
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(value_place, module)?)?;
    module.add_function(wrap_pyfunction!(place_of, module)?)?;
    module.add_function(wrap_pyfunction!(encode_ref, module)?)?;
    module.add_function(wrap_pyfunction!(parse_cell_value, module)?)?;
    module.add_function(wrap_pyfunction!(raw_bytes_of, module)?)?;
    module.add_function(wrap_pyfunction!(encode_ref_value, module)?)?;
    module.add_function(wrap_pyfunction!(encode_absent, module)?)
}
