//! Rows of cells for Python, from iterators of plyvel; `docstore_store::rows` decides what a spec selects.

use docstore_store::rows::{Part, Reader, Spec, Stream};
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyString, PyTuple, PyType};

use crate::convert::{new_of, CorruptionError};

type Pair<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);
type Column = (Py<PyString>, Py<PyBytes>);

/// An iterator of pairs, and the cells and rows that are made of them.
struct Pairs<'py> {
    stream: Bound<'py, PyIterator>,
    cells: Bound<'py, PyList>,
    rows: Bound<'py, PyList>,
    keys_only: bool,
    cell_type: Bound<'py, PyType>,
    new_cell: Bound<'py, PyAny>,
    row_type: Bound<'py, PyType>,
    new_row: Bound<'py, PyAny>,
}

impl<'py> Stream for Pairs<'py> {
    type Pair = Pair<'py>;
    type Column = Column;
    type Error = PyErr;

    fn next(&mut self) -> PyResult<Pair<'py>> {
        let pair = self.stream.next().ok_or_else(|| PyStopIteration::new_err(()))??.cast_into::<PyTuple>()?;
        Ok((pair.get_item(0)?.cast_into()?, pair.get_item(1)?.cast_into()?))
    }

    fn seek(&mut self, key: &[u8]) -> PyResult<Pair<'py>> {
        self.stream.call_method1("seek", (PyBytes::new(self.stream.py(), key),))?;
        self.next()
    }

    fn key<'a>(pair: &'a Pair<'py>) -> &'a [u8] {
        pair.0.as_bytes()
    }

    fn damaged(what: &'static str) -> PyErr {
        CorruptionError::new_err(what)
    }

    fn column(&mut self, family: &str, qualifier: Vec<u8>) -> Column {
        let python = self.stream.py();
        (PyString::intern(python, family).unbind(), PyBytes::new(python, &qualifier).unbind())
    }

    fn cell(&mut self, (family, qualifier): &Column, timestamp: u64, pair: &Pair<'py>) -> PyResult<()> {
        let value = if self.keys_only { PyBytes::new(self.stream.py(), b"") } else { pair.1.clone() };
        let fields = (family, qualifier, timestamp, value);
        self.cells.append(self.new_cell.call1((&self.cell_type, fields))?)
    }

    fn row(&mut self, row_key: Vec<u8>, is_truncated: bool) -> PyResult<()> {
        let python = self.stream.py();
        let cells = std::mem::replace(&mut self.cells, PyList::empty(python));
        let fields = (PyBytes::new(python, &row_key), cells, is_truncated);
        self.rows.append(self.new_row.call1((&self.row_type, fields))?)
    }
}

/// Reads rows from a stream by a read spec.
#[pyclass(module = "docstore.dedup.docstore_native")]
pub struct RowReader {
    reader: Reader<Column>,
    keys_only: bool,
    cell_type: Py<PyType>,
    row_type: Py<PyType>,
}

impl RowReader {
    fn pairs<'py>(&self, stream: &Bound<'py, PyAny>) -> PyResult<Pairs<'py>> {
        let python = stream.py();
        let (cell_type, row_type) = (self.cell_type.bind(python).clone(), self.row_type.bind(python).clone());
        Ok(Pairs {
            stream: stream.try_iter()?,
            cells: PyList::empty(python),
            rows: PyList::empty(python),
            keys_only: self.keys_only,
            new_cell: new_of(&cell_type)?,
            cell_type,
            new_row: new_of(&row_type)?,
            row_type,
        })
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
        let reader = Reader::new(Spec { parts, newest, oldest, prefix, resume, versions, limit });
        Self { reader, keys_only, cell_type, row_type }
    }

    /// Cells of the row whose keys begin with `cells`.
    fn read<'py>(&mut self, stream: &Bound<'py, PyAny>, cells: &[u8]) -> PyResult<Bound<'py, PyList>> {
        let mut pairs = self.pairs(stream)?;
        self.reader.read(&mut pairs, cells)?;
        Ok(pairs.cells)
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
        let mut pairs = self.pairs(stream)?;
        let next = self.reader.scan(&mut pairs, high, most_rows, most_cells)?;
        Ok((pairs.rows, PyBytes::new(stream.py(), &next)))
    }
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RowReader>()
}
