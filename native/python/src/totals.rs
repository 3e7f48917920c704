//! Totals of a store and its live pages, counted over its rows; `docstore_store::totals` counts.

use docstore_store::format::CAPTURE_FAMILY;
use docstore_store::totals::{self, Values};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList};

use crate::captures::{policy_of, GivenPolicy};
use crate::survey::{cells, cells_of, held};

/// Gives the value of a cell by a function of Python, or None.
struct Fetch<'a, 'py>(&'a Bound<'py, PyAny>);

impl Values for Fetch<'_, '_> {
    type Bytes = PyBackedBytes;
    type Error = PyErr;

    fn value(&mut self, cell_value: &[u8]) -> PyResult<Option<PyBackedBytes>> {
        Ok(self.0.call1((PyBytes::new(self.0.py(), cell_value),))?.extract()?)
    }
}

/// See `docstore_store::totals::Totals`.
#[pyclass(module = "docstore.dedup.docstore_native")]
struct Totals(totals::Totals);

#[pymethods]
impl Totals {
    /// Policies as `LiveCaptures` takes them.
    #[new]
    fn new(captures: GivenPolicy, bodies: GivenPolicy) -> Self {
        Self(totals::Totals::new(policy_of(captures), policy_of(bodies)))
    }

    /// Add scanned rows, with all their capture records.
    fn add_rows(&mut self, rows: &Bound<'_, PyList>, fetch: &Bound<'_, PyAny>) -> PyResult<()> {
        for row in rows {
            let row_key = row.get_item(0)?.cast_into::<PyBytes>()?;
            let held = held(&cells_of(&row)?)?;
            let of_captures = cells(&held)?.into_iter().filter(|cell| cell.family == CAPTURE_FAMILY);
            let records: Vec<_> = of_captures.map(|cell| (cell.timestamp, cell.value)).collect();
            self.0.add_row(row_key.as_bytes(), &records, &mut Fetch(fetch))?;
        }
        Ok(())
    }

    #[getter]
    fn urls(&self) -> u64 {
        self.0.urls
    }

    #[getter]
    fn visits(&self) -> u64 {
        self.0.visits
    }

    /// Kind, previous, stored and reason of verdicts, how many there are, and the bytes of their bodies; words are numbers
    /// in the lists of `model.format`.
    fn groups<'py>(&self, python: Python<'py>) -> Vec<(u8, u8, u8, Bound<'py, PyBytes>, u64, u64)> {
        let groups = self.0.groups.iter();
        let reason = |group: &totals::Group| PyBytes::new(python, &group.reason);
        groups
            .map(|(group, (count, bytes))| (group.kind, group.previous, group.stored, reason(group), *count, *bytes))
            .collect()
    }

    /// Of rows of postings those that may lead to no live page, by the numbers of the row and its cell.
    fn unsure(&mut self, rows: &Bound<'_, PyList>) -> PyResult<Vec<(usize, usize)>> {
        self.0.sort();
        let mut found = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            let row_key = row.get_item(0)?.cast_into::<PyBytes>()?;
            for (place, cell) in cells_of(&row)?.iter().enumerate() {
                let qualifier = cell.get_item(1)?.cast_into::<PyBytes>()?;
                if !self.0.has_page(row_key.as_bytes(), qualifier.as_bytes()) {
                    found.push((number, place));
                }
            }
        }
        Ok(found)
    }
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Totals>()
}
