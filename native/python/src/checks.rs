//! Which rows of pages are sound; `docstore_store::check` decides.
//!
//! Records of segments are read with the GIL, some rows at a time.  Values are decoded, and fingerprints are computed,
//! without it.

use docstore_store::check::{Cell, Checker, Query, Row, Rules, Sources};
use docstore_store::values::Place;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyFrozenSet, PyList, PyTuple};

use crate::convert::detached;
use crate::kernel::Kernel;
use crate::postings::PostingHashes;

/// Values of so many bytes are decoded at a time.
const CHUNK_BYTES: usize = 4 << 20;

/// What `reports.check` says.
#[derive(FromPyObject)]
struct GivenRules {
    posted: Vec<u8>,
    least_words: usize,
}

/// Gives the records of segments, and what they are decoded with, by functions of Python.
struct Functions<'py> {
    record: Bound<'py, PyAny>,
    dictionary: Bound<'py, PyAny>,
    base: Bound<'py, PyAny>,
    body: Bound<'py, PyAny>,
}

impl Sources for Functions<'_> {
    type Bytes = PyBackedBytes;
    type Error = PyErr;

    fn record(&self, place: Place) -> PyResult<PyBackedBytes> {
        Ok(self.record.call1(place)?.extract()?)
    }

    fn dictionary(&self, name: &[u8]) -> PyResult<Option<PyBackedBytes>> {
        Ok(self.dictionary.call1((PyBytes::new(self.dictionary.py(), name),))?.extract()?)
    }

    fn base(&self, name: &[u8]) -> PyResult<Option<PyBackedBytes>> {
        Ok(self.base.call1((PyBytes::new(self.base.py(), name),))?.extract()?)
    }

    fn body(&self, place: Place) -> PyResult<Option<PyBackedBytes>> {
        Ok(self.body.call1(place)?.extract()?)
    }
}

fn read_row(
    sources: &Functions<'_>,
    number: usize,
    row: &Bound<'_, PyAny>,
    families: &Bound<'_, PyFrozenSet>,
) -> PyResult<Option<Row<PyBackedBytes>>> {
    if row.get_item(2)?.is_truthy()? {
        return Ok(None); // it has more cells
    }
    let cells = row.get_item(1)?.cast_into::<PyList>()?;
    let cells = cells.iter().map(|cell| {
        let cell = cell.cast_into::<PyTuple>()?;
        let (family, value) = (cell.get_item(0)?.extract()?, cell.get_item(3)?.extract()?);
        Ok::<_, PyErr>(Cell { family, timestamp: cell.get_item(2)?.extract()?, value })
    });
    let cells = cells.collect::<PyResult<Vec<_>>>()?;
    let has_family = |family: &str| families.contains(family).unwrap_or(false);
    Row::read(number, row.get_item(0)?.extract()?, cells, has_family, sources)
}

/// What the index has to be asked for rows that are sound otherwise.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
pub struct Queries(pub Vec<Query>);

#[pymethods]
impl Queries {
    /// Numbers of their rows.
    fn rows(&self) -> Vec<usize> {
        self.0.iter().map(|query| query.row).collect()
    }
}

/// Numbers of the rows that Python has to look at, and what the index has to be asked for the others.
///
/// `record` gives the bytes of a record of a segment, `dictionary`, `base` and `body` what it is decoded with.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn check_rows<'py>(
    record: Bound<'py, PyAny>,
    dictionary: Bound<'py, PyAny>,
    base: Bound<'py, PyAny>,
    body: Bound<'py, PyAny>,
    rows: &Bound<'py, PyList>,
    families: &Bound<'py, PyFrozenSet>,
    rules: GivenRules,
    kernel: &Bound<'py, Kernel>,
    known: &Bound<'py, PostingHashes>,
) -> PyResult<(Vec<usize>, Queries)> {
    let python = rows.py();
    let sources = Functions { record, dictionary, base, body };
    let rules = Rules { posted: rules.posted, least_words: rules.least_words };
    let (mut odd, mut queries) = (Vec::new(), Vec::new());
    let Some(mut checker) = Checker::new(&rules, known.get().sorted()) else {
        return Ok(((0..rows.len()).collect(), Queries(queries)));
    };
    let mut workshop = kernel.get().workshop();
    let (mut chunk, mut chunk_bytes) = (Vec::new(), 0);
    for (number, row) in rows.iter().enumerate() {
        match read_row(&sources, number, &row, families) {
            Ok(Some(row)) => {
                chunk_bytes += row.raw_bytes;
                chunk.push(row);
            }
            Ok(None) => odd.push(number),
            Err(error) if error.is_instance_of::<PyException>(python) => odd.push(number),
            Err(error) => return Err(error),
        }
        if chunk_bytes >= CHUNK_BYTES || number + 1 == rows.len() {
            detached(python, || {
                for row in &chunk {
                    if !checker.is_sound(row, &mut workshop.analyser, &mut queries) {
                        odd.push(row.number);
                    }
                }
            })?;
            chunk.clear();
            chunk_bytes = 0;
        }
    }
    Kernel::keep(workshop, 0);
    Ok((odd, Queries(queries)))
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Queries>()?;
    module.add_function(wrap_pyfunction!(check_rows, module)?)
}
