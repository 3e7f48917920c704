//! Rows of cells from a sorted stream of LevelDB's pairs, by a read spec.
//!
//! `docstore.tablets.engines.cellkeys` has the layout of the keys, and takes a spec apart.  Streams are iterators of plyvel;
//! each must contain the end key of the engine.  If it ends before, data is lost, and StopIteration goes to its owner.

use std::collections::HashMap;

use docstore_store::format::KEY_KIND_CELL;
use docstore_store::keys::{self, column_of, end_of, row_prefix_end, timestamp_of, TIMESTAMP_BYTES};
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyString, PyTuple, PyType};

use crate::convert::{new_of, CorruptionError};

/// A seek costs about as much as so many steps (measured: 6 us against 0.5 us).
const STEPS_BEFORE_SEEK: usize = 12;
/// Decoded column names that a reader caches: rows of pages have the same columns.
const MOST_COLUMNS: usize = 256;

type Pair<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);
/// Family, qualifier, and whether the spec selects the column.
type Column = (Py<PyString>, Py<PyBytes>, bool);
/// What a spec selects of a row: ranges of keys behind the kind of a cell, ascending, an open end for the end of the row.
type Part = (Vec<u8>, Option<Vec<u8>>);

/// Reads rows from a stream by a read spec.
#[pyclass(module = "docstore.dedup.docstore_native")]
pub struct RowReader {
    parts: Vec<Part>,
    /// Inverted timestamps of the newest and the oldest cells; the first is empty for all.
    newest: Vec<u8>,
    oldest: Vec<u8>,
    prefix: Vec<u8>,
    /// Cells before it are counted as versions, and left out.
    resume: Vec<u8>,
    versions: Option<usize>,
    limit: Option<usize>,
    keys_only: bool,
    cell_type: Py<PyType>,
    row_type: Py<PyType>,
    columns: HashMap<Vec<u8>, Column>,
}

fn damaged(what: &str) -> PyErr {
    CorruptionError::new_err(what.to_owned())
}

fn next<'py>(stream: &Bound<'py, PyIterator>) -> PyResult<Pair<'py>> {
    let pair = stream.clone().next().ok_or_else(|| PyStopIteration::new_err(()))??.cast_into::<PyTuple>()?;
    Ok((pair.get_item(0)?.cast_into()?, pair.get_item(1)?.cast_into()?))
}

/// The first pair with a key that is not below the target: by a few steps, then a seek.
fn advance<'py>(stream: &Bound<'py, PyIterator>, mut pair: Pair<'py>, target: &[u8]) -> PyResult<Pair<'py>> {
    for _ in 0..STEPS_BEFORE_SEEK {
        if pair.0.as_bytes() >= target {
            return Ok(pair);
        }
        pair = next(stream)?;
    }
    if pair.0.as_bytes() < target {
        stream.call_method1("seek", (PyBytes::new(stream.py(), target),))?;
        pair = next(stream)?;
    }
    Ok(pair)
}

impl RowReader {
    fn column(&mut self, python: Python<'_>, name: &[u8]) -> PyResult<&Column> {
        if !self.columns.contains_key(name) {
            let (family, qualifier) = column_of(name).ok_or_else(|| damaged("a key has no column"))?;
            let family = PyString::intern(python, family).unbind();
            let is_selected = qualifier.starts_with(&self.prefix);
            if self.columns.len() >= MOST_COLUMNS {
                self.columns.clear();
            }
            self.columns.insert(name.to_vec(), (family, PyBytes::new(python, &qualifier).unbind(), is_selected));
        }
        self.columns.get(name).ok_or_else(|| damaged("a key has no column"))
    }

    /// Cells of the row whose keys begin with `cells`, whether the limit left some out, and the pair after them.
    fn cells<'py>(
        &mut self,
        stream: &Bound<'py, PyIterator>,
        mut pair: Pair<'py>,
        cells: &[u8],
    ) -> PyResult<(Bound<'py, PyList>, bool, Pair<'py>)> {
        let python = stream.py();
        let (found, skip) = (PyList::empty(python), cells.len());
        let cell_type = self.cell_type.clone_ref(python).into_bound(python);
        let new_cell = new_of(&cell_type)?;
        let parts = std::mem::take(&mut self.parts);
        let row_end = end_of(cells);
        let mut read = || -> PyResult<(bool, Pair<'py>)> {
            for (low, high) in &parts {
                pair = advance(stream, pair.clone(), &[cells, low].concat())?;
                let stop = high.as_ref().map_or_else(|| row_end.clone(), |high| [cells, high].concat());
                let (mut name, mut seen) = (Vec::new(), 0);
                while pair.0.as_bytes() < &stop[..] {
                    let key = pair.0.as_bytes();
                    let Some(stamp_at) = key.len().checked_sub(TIMESTAMP_BYTES).filter(|at| *at >= skip) else {
                        return Err(damaged("a key has no column"));
                    };
                    if key[skip..stamp_at] != name[..] || name.is_empty() {
                        name = key[skip..stamp_at].to_vec();
                        seen = 0;
                    }
                    let (versions, limit, keys_only) = (self.versions, self.limit, self.keys_only);
                    let is_old = key[stamp_at..] > self.oldest[..];
                    let is_new = key[stamp_at..] < self.newest[..];
                    let is_shown = key[skip..] >= self.resume[..];
                    let (family, qualifier, is_selected) = self.column(python, &name)?;
                    if !is_selected || is_old || versions == Some(seen) {
                        let target = [&key[..stamp_at - 1], &[2]].concat();
                        pair = advance(stream, pair.clone(), &target)?;
                        continue;
                    }
                    if is_new {
                        let target = [&key[..stamp_at], &self.newest].concat();
                        pair = advance(stream, pair.clone(), &target)?;
                        continue;
                    }
                    if is_shown {
                        if limit == Some(found.len()) {
                            return Ok((true, pair.clone()));
                        }
                        let timestamp = timestamp_of(&key[stamp_at..]);
                        let value = if keys_only { PyBytes::new(python, b"") } else { pair.1.clone() };
                        let fields = (family, qualifier, timestamp, value);
                        found.append(new_cell.call1((&cell_type, fields))?)?;
                    }
                    seen += 1;
                    pair = next(stream)?;
                }
            }
            Ok((false, pair.clone()))
        };
        let read = read();
        self.parts = parts;
        let (is_truncated, pair) = read?;
        Ok((found, is_truncated, pair))
    }
}

#[pymethods]
impl RowReader {
    /// A reader of the parts of a row between two inverted timestamps, of qualifiers with a prefix.
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        parts: Vec<Part>,
        times: (Vec<u8>, Vec<u8>),
        prefix: Vec<u8>,
        resume: Vec<u8>,
        versions: Option<usize>,
        limit: Option<usize>,
        keys_only: bool,
        types: (Py<PyType>, Py<PyType>),
    ) -> Self {
        let ((newest, oldest), (cell_type, row_type)) = (times, types);
        let columns = HashMap::new();
        Self { parts, newest, oldest, prefix, resume, versions, limit, keys_only, cell_type, row_type, columns }
    }

    /// Cells of the row whose keys begin with `cells`.
    fn read<'py>(&mut self, stream: &Bound<'py, PyAny>, cells: &[u8]) -> PyResult<Bound<'py, PyList>> {
        let stream = stream.try_iter()?;
        let pair = next(&stream)?;
        Ok(self.cells(&stream, pair, cells)?.0)
    }

    /// Rows of a stream up to a key: at most so many, and no further one after so many cells.
    ///
    /// Gives them, and where the next ones begin, b"" at the end of the range.
    fn scan<'py>(
        &mut self,
        stream: &Bound<'py, PyAny>,
        high: &[u8],
        most_rows: usize,
        most_cells: usize,
    ) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyBytes>)> {
        let (python, stream) = (stream.py(), stream.try_iter()?);
        let rows = PyList::empty(python);
        let row_type = self.row_type.clone_ref(python).into_bound(python);
        let new_row = new_of(&row_type)?;
        let (mut examined, mut count) = (0, 0);
        let mut pair = next(&stream)?;
        let mut prefix = Vec::new();
        while pair.0.as_bytes() < high {
            if examined == most_rows || count >= most_cells {
                return Ok((rows, PyBytes::new(python, &end_of(&prefix))));
            }
            let key = pair.0.as_bytes();
            let Some(end) = row_prefix_end(key) else { return Err(damaged("a key has no end of its row key")) };
            prefix = key[..end].to_vec();
            let row_key = PyBytes::new(python, &keys::row_key_of(&prefix));
            let (cells, is_truncated, after) = self.cells(&stream, pair, &[&prefix[..], &[KEY_KIND_CELL]].concat())?;
            count += cells.len();
            if !cells.is_empty() {
                rows.append(new_row.call1((&row_type, (row_key, cells, is_truncated)))?)?;
            }
            pair = advance(&stream, after, &end_of(&prefix))?;
            examined += 1;
        }
        Ok((rows, PyBytes::new(python, b"")))
    }
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RowReader>()
}
