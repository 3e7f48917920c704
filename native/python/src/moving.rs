//! Values that a compaction moves; `docstore_store::moving` decides which are copied.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use docstore_store::moving::{self, Against, Counts, Left, Log, Move, Settled, Shared, Step};
use docstore_store::segment::{Contents, Segment};
use docstore_store::survey::Rules;
use docstore_store::values::Place;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::convert::caught;
use crate::records::{fields_of, Given};
use crate::survey::{cells, cells_of, held};
use crate::values::damaged;

/// A base of Python, which nobody looks into here.
type Base = Arc<Py<PyAny>>;

/// Gives the bytes at segment, offset and length, or None.
struct Reader<'a, 'py>(&'a Bound<'py, PyAny>);

impl Log for Reader<'_, '_> {
    type Bytes = PyBackedBytes;
    type Error = PyErr;

    fn read(&mut self, place: Place) -> PyResult<Option<PyBackedBytes>> {
        Ok(self.0.call1(place)?.extract()?)
    }
}

/// New cell values of records that pages may share, for the movers of all tablets.
#[pyclass(frozen, module = "docstore.dedup.docstore_native")]
struct SharedMoves(Shared);

#[pymethods]
impl SharedMoves {
    #[new]
    fn new() -> Self {
        Self(Shared::default())
    }
}

/// Moves the values of one tablet; see `docstore_store::moving::Mover`.
#[pyclass(module = "docstore.dedup.docstore_native")]
struct Mover {
    mover: moving::Mover<PyBackedBytes, Base>,
    /// Keys and cells of the rows.
    rows: Vec<(Py<PyBytes>, Py<PyList>)>,
}

type Moved = (Vec<u8>, Vec<u8>, Option<Py<PyAny>>, bool, bool);
type Ended<'py> = (Vec<Bound<'py, PyBytes>>, Vec<Bound<'py, PyBytes>>, Bound<'py, PyDict>);

#[pymethods]
impl Mover {
    /// Segments to empty, and what `survey::Rules` has.
    #[new]
    fn new(old: HashSet<u64>, rules: (Vec<String>, Vec<String>, Vec<String>), shared: &SharedMoves) -> Self {
        let (of_captures, counted, aging) = rules;
        let rules = Rules { of_captures, counted, aging };
        Self { mover: moving::Mover::new(old, rules, shared.0.clone()), rows: Vec::new() }
    }

    /// Add scanned rows from one on; gives the number of the first that the caller has to add, or of all rows.
    fn add_rows(&mut self, rows: &Bound<'_, PyList>, first: usize) -> PyResult<usize> {
        for number in first..rows.len() {
            let row = rows.get_item(number)?;
            let (row_key, list) = (row.get_item(0)?.cast_into::<PyBytes>()?, cells_of(&row)?);
            let has_more = row.get_item(2)?.is_truthy()?;
            if has_more || !self.mover.add_row(row_key.as_bytes(), &cells(&held(&list)?)?) {
                return Ok(number);
            }
            self.rows.push((row_key.unbind(), list.unbind()));
        }
        Ok(rows.len())
    }

    /// Add a row: the cells that are kept, the times of captures whose bodies are dropped, and whether cells are dropped.
    fn add_row(
        &mut self,
        row_key: Bound<'_, PyBytes>,
        kept: Bound<'_, PyList>,
        hidden: HashSet<i64>,
        drops_cells: bool,
    ) -> PyResult<()> {
        let held = held(&kept)?;
        let added = self.mover.add_kept(row_key.as_bytes(), &cells(&held)?, &hidden, drops_cells);
        added.map_err(|value| damaged(kept.py(), value))?;
        self.rows.push((row_key.unbind(), kept.unbind()));
        Ok(())
    }

    /// Read the next records; gives values, bases and scopes of dictionaries for `decide`, None if there is no record.
    fn read<'py>(
        &mut self,
        read: &Bound<'py, PyAny>,
        copies: bool,
    ) -> PyResult<Option<(Vec<Bound<'py, PyBytes>>, Vec<Bound<'py, PyBytes>>, Bound<'py, PyList>)>> {
        if !self.mover.wants_read() {
            return Ok(None);
        }
        let python = read.py();
        let wanted = self.mover.read(&mut Reader(read), copies)?;
        let bytes = |parts: &[Vec<u8>]| parts.iter().map(|part| PyBytes::new(python, part)).collect();
        let scopes = wanted.scopes.iter().map(|(row_key, family, qualifier)| {
            (PyBytes::new(python, row_key), (family, PyBytes::new(python, qualifier)))
        });
        Ok(Some((bytes(&wanted.values), bytes(&wanted.bases), PyList::new(python, scopes)?)))
    }

    /// Names of values that are bases, whether bases stay, and the names of the dictionaries of scopes.
    fn decide(&mut self, names: Vec<Option<PyBackedBytes>>, stays: Vec<bool>, chosen: Vec<Vec<u8>>) {
        let names = names.iter().map(|name| name.as_ref().map_or_else(Vec::new, |name| name.to_vec()));
        self.mover.decide(names, stays, chosen);
    }

    /// Go on; gives a value that is left to the caller, () if a segment may have to be begun, and None at an end.
    fn run<'py>(
        &mut self,
        python: Python<'py>,
        most_bytes: u64,
        most_moves: usize,
    ) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let step = caught(|| self.mover.run(most_bytes, most_moves)).map_err(PyRuntimeError::new_err)?;
        let left = match step {
            Step::End => return Ok(None),
            Step::Begin | Step::Pause => return Ok(Some(PyTuple::empty(python))),
            Step::Left(left) => left,
        };
        let Left { row, cell, column, old, record, body, is_after_body, is_on_body } = left;
        let (row_key, cells) = &self.rows[row];
        let record = record.map(|record| fields_of(python, &record)).transpose()?;
        let body = body.map(|body| move_of(python, body)).transpose()?;
        let place = (row_key, cells, cells.bind(python).get_item(cell)?);
        (place, column, PyBytes::new(python, old), record, body, is_after_body, is_on_body)
            .into_pyobject(python)
            .map(Some)
    }

    /// What became of the value: its cell value and name, its base, whether its record is a whole body that was written
    /// just now, and whether others may refer to it; None if the value stays.
    fn settle(&mut self, moved: Option<Moved>) {
        self.mover.settle(moved.map(|(new, name, base, is_whole_body, is_shared)| Settled {
            new,
            name,
            base: base.map(Arc::new),
            is_whole_body,
            is_shared,
        }));
    }

    /// Rows that are planned: key, cells with the moves of their values, and whether other cells are dropped.
    fn take_planned<'py>(&mut self, python: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let planned = PyList::empty(python);
        for (row, drops_cells, changes) in self.mover.take_planned() {
            let (row_key, cells) = &self.rows[row];
            let found = PyList::empty(python);
            for (cell, moves) in changes {
                let moves = moves.iter().map(|one| move_of(python, one)).collect::<PyResult<Vec<_>>>()?;
                found.append((cells.bind(python).get_item(cell)?, moves))?;
            }
            planned.append((row_key, found, drops_cells))?;
        }
        if self.mover.is_done() {
            self.rows.clear();
        }
        Ok(planned)
    }

    #[getter]
    fn is_between_rows(&self) -> bool {
        self.mover.is_between_rows()
    }

    #[getter]
    fn is_done(&self) -> bool {
        self.mover.is_done()
    }

    fn moved<'py>(&self, python: Python<'py>, old: &[u8]) -> Option<Bound<'py, PyBytes>> {
        self.mover.moved(old).map(|new| PyBytes::new(python, &new))
    }

    fn share(&mut self) {
        self.mover.share();
    }

    fn begin(&mut self, number: u64, length_bytes: u64) {
        self.mover.begin(number, length_bytes);
    }

    #[getter]
    fn length_bytes(&self) -> u64 {
        self.mover.length_bytes()
    }

    /// Write a record; gives its cell value, or None if it does not fit the format, or no segment has been begun.
    fn write<'py>(&mut self, record: &Bound<'py, PyAny>) -> Option<Bound<'py, PyBytes>> {
        let given = Given::of(record)?;
        let cell_value = self.mover.segment()?.write(given.new()?)?;
        Some(PyBytes::new(record.py(), &cell_value))
    }

    fn take_bytes<'py>(&mut self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, &self.mover.segment().map_or_else(Vec::new, Segment::take_bytes))
    }

    /// End the segment; gives the names of bases and of dictionaries that it needs, and its bytes by family and codec.
    fn end_segment<'py>(&mut self, python: Python<'py>) -> PyResult<Ended<'py>> {
        let Contents { bases, dictionaries, codec_bytes } = self.mover.end_segment();
        let bytes = |names: BTreeSet<Vec<u8>>| names.iter().map(|name| PyBytes::new(python, name)).collect();
        let found = PyDict::new(python);
        for (kind, bytes) in codec_bytes {
            found.set_item(kind, bytes)?;
        }
        Ok((bytes(bases), bytes(dictionaries), found))
    }

    /// Since the last call: copied values, their raw bytes, and bytes of their old records.
    fn take_counts(&mut self) -> (u64, u64, u64) {
        let Counts { values, raw_bytes, read_bytes } = self.mover.take_counts();
        (values, raw_bytes, read_bytes)
    }
}

/// Column, old and new cell value, name, and base: its name if the record was copied.
fn move_of<'py>(python: Python<'py>, found: &Move<Base>) -> PyResult<Bound<'py, PyTuple>> {
    let bytes = |part: &[u8]| PyBytes::new(python, part);
    let base = found.base.as_ref().map(|base| match base {
        Against::Stays(name) => bytes(name).into_any(),
        Against::Given(base) => base.bind(python).clone(),
    });
    (found.column, bytes(&found.old), bytes(&found.new), bytes(&found.name), base).into_pyobject(python)
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SharedMoves>()?;
    module.add_class::<Mover>()
}
