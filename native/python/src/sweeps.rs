//! What a sweep keeps of rows of plain shapes; `docstore_store::sweep` decides.
//!
//! A row of any other shape ends the call: `sweep.pages` takes that row, and the next call goes on after it.

use docstore_kernel::words::Words;
use docstore_store::sweep::{Columns, Row, Rules};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::convert::detached;

/// Rows that are looked at before the first look at what they are; then twice as many.
const FIRST_ROWS: usize = 8;
const MOST_ROWS: usize = 512;

/// What `sweep.pages` says.
#[derive(FromPyObject)]
struct GivenRules {
    redirects: Vec<u64>,
    same_page: Vec<u8>,
    least_words: u64,
    least_title_words: u64,
    long_text_bytes: u64,
}

/// A cell of a row: its time, whether a sweep has written it and as what, and its value.
type OwnCell = (i64, Option<bool>, PyBackedBytes);

/// The cells of a scanned row that count here: capture records, and what an earlier sweep has written.
fn cells_of(row: &Bound<'_, PyAny>, names: &Names<'_>) -> PyResult<(PyBackedBytes, Vec<OwnCell>)> {
    let cells = row.get_item(1)?.cast_into::<PyList>()?;
    let mut found = Vec::with_capacity(cells.len());
    for cell in &cells {
        let cell = cell.cast_into::<PyTuple>()?;
        let family = cell.get_item(0)?;
        let placed = if family.eq(&names.0)? {
            None
        } else {
            let qualifier = cell.get_item(1)?;
            let mut columns = [&names.1, &names.2].into_iter().enumerate();
            let is_column = |(_, (of, name)): &(usize, &(Bound<'_, PyAny>, Bound<'_, PyAny>))| {
                Ok::<_, PyErr>(family.eq(of)? && qualifier.eq(name)?)
            };
            match columns.find_map(|column| is_column(&column).map(|is| is.then_some(column.0 == 1)).transpose()) {
                Some(is_page) => Some(is_page?),
                None => continue,
            }
        };
        found.push((cell.get_item(2)?.extract()?, placed, cell.get_item(3)?.extract()?));
    }
    Ok((row.get_item(0)?.extract()?, found))
}

/// The family of captures, and the columns of the cluster and the canonical page.
type Names<'py> = (Bound<'py, PyAny>, (Bound<'py, PyAny>, Bound<'py, PyAny>), (Bound<'py, PyAny>, Bound<'py, PyAny>));

/// The versions of rows from one on, up to a row of another shape.
///
/// Gives how many rows were taken; positions of versions in them, and their columns as bytes; then named pages and
/// canonical links, each with the number of its version; and row keys and times of columns without a version.
#[pyfunction]
fn sweep_versions<'py>(
    python: Python<'py>,
    rows: &Bound<'py, PyList>,
    first: usize,
    names: Names<'py>,
    rules: GivenRules,
) -> PyResult<Bound<'py, PyTuple>> {
    let GivenRules { redirects, same_page, least_words, least_title_words, long_text_bytes } = rules;
    let rules = Rules { redirects, same_page, least_words, least_title_words, long_text_bytes };
    let mut columns = Columns::default();
    let (mut taken, mut most) = (0, FIRST_ROWS);
    let mut words = Words::default();
    loop {
        let mut part: Vec<(PyBackedBytes, Vec<OwnCell>)> = Vec::with_capacity(most);
        for place in first + taken..rows.len().min(first + taken + most) {
            part.push(cells_of(&rows.get_item(place)?, &names)?);
        }
        let before = taken;
        detached(python, || {
            for (row_key, cells) in &part {
                let records = cells.iter().filter(|cell| cell.1.is_none());
                let row = Row {
                    row_key,
                    records: records.map(|(time, _, value)| (*time, &value[..])).collect(),
                    placed: cells.iter().filter_map(|(time, is, value)| Some((*time, (*is)?, &value[..]))).collect(),
                };
                if columns.add_row(&rules, &mut words, taken, &row).is_none() {
                    break;
                }
                taken += 1;
            }
        })?;
        if taken - before < most {
            break;
        }
        most = MOST_ROWS.min(2 * most);
    }
    let bytes = |column: &[u8]| PyBytes::new(python, column);
    let parts = [
        bytes(&columns.positions),
        bytes(&columns.timestamps),
        bytes(&columns.column_times),
        bytes(&columns.placed),
        bytes(&columns.identity),
        bytes(&columns.bodies),
        bytes(&columns.equal_by),
        bytes(&columns.flags),
        bytes(&columns.shingle_counts),
        bytes(&columns.sketches),
        bytes(&columns.state),
    ];
    let blobs = [&columns.row_keys, &columns.body_values, &columns.texts, &columns.titles]
        .map(|(data, sizes)| (bytes(data), bytes(sizes)));
    let named: Vec<_> = columns.named.iter().map(|(number, row_key, at)| (*number, bytes(row_key), *at)).collect();
    let canonical: Vec<_> = columns.canonical.iter().map(|(number, link)| (*number, bytes(link))).collect();
    let stale: Vec<_> = columns.stale.iter().map(|(row_key, at)| (bytes(row_key), *at)).collect();
    (taken, PyTuple::new(python, parts)?, blobs, named, canonical, stale).into_pyobject(python)
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(sweep_versions, module)?)
}
