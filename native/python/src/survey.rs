//! What rows of pages refer to, for a compaction; `docstore_store::survey` counts.

use std::collections::HashSet;

use docstore_store::survey::{self, Cell, Rules};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::values::damaged;

/// What a cell of Python holds, for as long as it is there.
pub type Held<'py> = (Bound<'py, PyString>, Bound<'py, PyBytes>, i64, Bound<'py, PyBytes>);

pub fn held<'py>(cells: &Bound<'py, PyList>) -> PyResult<Vec<Held<'py>>> {
    let fields = |cell: Bound<'py, PyAny>| {
        let cell = cell.cast_into::<PyTuple>()?;
        let (family, qualifier) = (cell.get_item(0)?.cast_into()?, cell.get_item(1)?.cast_into()?);
        Ok((family, qualifier, cell.get_item(2)?.extract()?, cell.get_item(3)?.cast_into()?))
    };
    cells.iter().map(fields).collect()
}

/// The list of cells of a scanned row.
pub fn cells_of<'py>(row: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    Ok(row.get_item(1)?.cast_into()?)
}

pub fn cells<'a>(held: &'a [Held<'_>]) -> PyResult<Vec<Cell<'a>>> {
    let cell = |(family, qualifier, timestamp, value): &'a Held<'_>| {
        let (qualifier, value) = (qualifier.as_bytes(), value.as_bytes());
        Ok(Cell { family: family.to_str()?, qualifier, timestamp: *timestamp, value })
    };
    held.iter().map(cell).collect()
}

/// See `docstore_store::survey::Survey`.
#[pyclass(module = "docstore.dedup.docstore_native")]
struct Survey(survey::Survey);

#[pymethods]
impl Survey {
    #[new]
    fn new(bases: Vec<Vec<u8>>, of_captures: Vec<String>, counted: Vec<String>, aging: Vec<String>) -> Self {
        Self(survey::Survey::new(bases, Rules { of_captures, counted, aging }))
    }

    /// Count scanned rows; gives the numbers of those that the caller has to count.
    fn add_rows(&mut self, rows: &Bound<'_, PyList>) -> PyResult<Vec<usize>> {
        let mut odd = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            let has_more = row.get_item(2)?.is_truthy()?;
            let row_key = row.get_item(0)?.cast_into::<PyBytes>()?;
            if has_more || !self.0.add_row(row_key.as_bytes(), &cells(&held(&cells_of(&row)?)?)?) {
                odd.push(number);
            }
        }
        Ok(odd)
    }

    /// Count the bodies and refs of a row: whether it is a body, and the cell value.
    fn add(&mut self, python: Python<'_>, row_key: &[u8], values: Vec<(bool, Bound<'_, PyBytes>)>) -> PyResult<()> {
        let values: Vec<_> = values.iter().map(|(is_body, value)| (*is_body, value.as_bytes())).collect();
        self.0.add(row_key, &values).map_err(|value| damaged(python, value))
    }

    /// By the number of the segment: live bytes, first and last row.
    fn segments<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(python);
        for (number, life) in &self.0.segments {
            let rows = (PyBytes::new(python, &life.first), PyBytes::new(python, &life.last));
            found.set_item(number, (life.live_bytes, rows.0, rows.1))?;
        }
        Ok(found)
    }

    fn unused_bases<'py>(&self, python: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        self.0.unused_bases().map(|base| PyBytes::new(python, base)).collect()
    }

    fn shared_bases<'py>(&self, python: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        self.0.shared_bases().map(|base| PyBytes::new(python, base)).collect()
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.0.rows
    }

    #[getter]
    fn values(&self) -> u64 {
        self.0.values
    }

    #[getter]
    fn raw_bytes(&self) -> u64 {
        self.0.raw_bytes
    }

    #[getter]
    fn body_bytes(&self) -> u64 {
        self.0.body_bytes
    }
}

type Refs<'py> = Vec<(Bound<'py, PyAny>, Bound<'py, PyBytes>)>;

/// Of each scanned row the refs of its capture records into some segments, by column; None for a row that the caller has
/// to look at.  `names` has the columns by their numbers.
#[pyfunction]
fn refs_into<'py>(
    rows: &Bound<'py, PyList>,
    segments: HashSet<u64>,
    names: &Bound<'py, PyDict>,
) -> PyResult<Vec<Option<Refs<'py>>>> {
    let python = rows.py();
    let of_row = |row: Bound<'py, PyAny>| {
        let held = held(&cells_of(&row)?)?;
        let Some(found) = survey::refs_into(&segments, &cells(&held)?) else { return Ok(None) };
        let named = |(number, value): (u8, &[u8])| Ok((names.as_any().get_item(number)?, PyBytes::new(python, value)));
        Ok(Some(found.into_iter().map(named).collect::<PyResult<_>>()?))
    };
    rows.iter().map(of_row).collect()
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Survey>()?;
    module.add_function(wrap_pyfunction!(refs_into, module)?)
}
