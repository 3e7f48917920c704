//! The rows of a commit for Python: filled in few calls, put into a batch of LevelDB, and unpacked for those who iterate.

use docstore_store::packed::{self, Row, LARGEST_CELL_BYTES};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyIterator, PyList, PyString, PyType};

use crate::convert::{new_of, InvalidArgument};
use crate::filter::RowFilter;

/// `model.types.RowMutations` and `model.types.SetCell`.
static TYPES: PyOnceLock<(Py<PyType>, Py<PyType>)> = PyOnceLock::new();

fn types(python: Python<'_>) -> PyResult<&'static (Py<PyType>, Py<PyType>)> {
    TYPES.get_or_try_init(python, || {
        let module = python.import("docstore.model.types")?;
        let named = |name| Ok::<_, PyErr>(module.getattr(name)?.cast_into::<PyType>()?.unbind());
        Ok((named("RowMutations")?, named("SetCell")?))
    })
}

/// Rows of cells in one piece of memory; to Python a sequence of `RowMutations`.
#[pyclass(sequence, module = "docstore.dedup.docstore_native")]
#[derive(Default)]
pub struct PackedRows {
    pub rows: packed::PackedRows,
    /// The same, once somebody has asked.
    unpacked: Option<Py<PyList>>,
}

impl PackedRows {
    /// Add a row; None if it has anything but cells that its table takes.
    fn add_row(&mut self, row: &Bound<'_, PyAny>, set_cell: &Bound<'_, PyType>) -> Option<()> {
        let (table, row_key, mutations) =
            row.extract::<(Bound<'_, PyString>, Bound<'_, PyBytes>, Bound<'_, PyAny>)>().ok()?;
        self.rows.begin_row(table.to_str().ok()?, row_key.as_bytes())?;
        let added = self.add_cells(&mutations, set_cell);
        if added.is_none() {
            self.rows.undo_row();
        }
        added
    }

    fn add_cells(&mut self, mutations: &Bound<'_, PyAny>, set_cell: &Bound<'_, PyType>) -> Option<()> {
        for mutation in mutations.try_iter().ok()? {
            let cell = mutation.ok().filter(|cell| cell.get_type().is(set_cell))?;
            let (family, qualifier, timestamp, value) =
                cell.extract::<(Bound<'_, PyString>, Bound<'_, PyBytes>, u64, Bound<'_, PyBytes>)>().ok()?;
            self.rows.add_cell(family.to_str().ok()?, qualifier.as_bytes(), timestamp, value.as_bytes())?;
        }
        Some(())
    }

    /// Fill in further rows.
    pub fn fill(&mut self, fill: impl FnOnce(&mut packed::PackedRows) -> Option<()>) -> PyResult<()> {
        self.unpacked = None;
        fill(&mut self.rows).ok_or_else(|| InvalidArgument::new_err("a table does not take these cells"))
    }

    fn unpacked<'py>(&mut self, python: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        if let Some(unpacked) = &self.unpacked {
            return Ok(unpacked.bind(python).clone());
        }
        let unpacked = PyList::new(python, self.some(python, |_| true)?)?;
        self.unpacked = Some(unpacked.clone().unbind());
        Ok(unpacked)
    }

    fn some<'py>(&self, python: Python<'py>, wanted: impl Fn(&Row<'_>) -> bool) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let (row_type, cell_type) = types(python)?;
        let (row_type, cell_type) = (row_type.bind(python), cell_type.bind(python));
        let new = new_of(row_type)?;
        let bytes = |part: &[u8]| PyBytes::new(python, part);
        let unpack = |row: Row<'_>| {
            let cells = PyList::empty(python);
            for cell in row.cells() {
                let family = PyString::intern(python, cell.family);
                let fields = (family, bytes(&cell.qualifier), cell.timestamp, bytes(cell.value));
                cells.append(new.call1((cell_type, fields))?)?;
            }
            let fields = (PyString::intern(python, row.table), bytes(&row.row_key()), cells);
            new.call1((row_type, fields))
        };
        self.rows.rows().filter(wanted).map(unpack).collect()
    }
}

#[pymethods]
impl PackedRows {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Rows of Python; None if one of them has a delete, or what may have to be refused.
    #[staticmethod]
    fn of(rows: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let mut packed = Self::default();
        let set_cell = types(rows.py())?.1.bind(rows.py());
        for row in rows.try_iter()? {
            if packed.add_row(&row?, set_cell).is_none() {
                return Ok(None);
            }
        }
        Ok(Some(packed))
    }

    /// Add a row of Python, whose cells are sound.
    fn append(&mut self, row: &Bound<'_, PyAny>) -> PyResult<()> {
        self.unpacked = None;
        let added = self.add_row(row, types(row.py())?.1.bind(row.py()));
        let what = || Ok::<_, PyErr>(format!("a row cannot be packed: {:.200}", row.repr()?.to_cow()?));
        added.ok_or_else(|| what().map_or_else(|error| error, InvalidArgument::new_err))
    }

    fn __iadd__(&mut self, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(packed) = rows.cast::<Self>() {
            self.unpacked = None;
            self.rows.extend(&packed.try_borrow()?.rows);
            return Ok(());
        }
        rows.try_iter()?.try_for_each(|row| self.append(&row?))
    }

    fn __len__(&self) -> usize {
        self.rows.row_count()
    }

    fn __getitem__<'py>(&mut self, python: Python<'py>, place: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.unpacked(python)?.as_any().get_item(place)
    }

    fn __iter__<'py>(&mut self, python: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.unpacked(python)?.try_iter()
    }

    /// The rows of a table.
    fn of_table<'py>(&self, python: Python<'py>, table: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.some(python, |row| row.table == table)
    }

    /// Put the cells into a batch, in order, and the rows into the filter.
    fn put_into(&self, python: Python<'_>, put: &Bound<'_, PyAny>, filter: &Bound<'_, RowFilter>) -> PyResult<()> {
        {
            let filter = &mut filter.borrow_mut().filter;
            self.rows.rows().for_each(|row| filter.add(row.prefix));
        }
        for (key, value) in self.rows.pairs() {
            put.call1((PyBytes::new(python, key), PyBytes::new(python, value)))?;
        }
        Ok(())
    }
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("LARGEST_CELL_BYTES", LARGEST_CELL_BYTES)?;
    module.add_class::<PackedRows>()
}
