//! Values on their way into records: groups of a write for Python, and single values of a compaction.
//!
//! `docstore_store::encoding` decides what becomes of each.  Frames are made with the GIL let go.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use docstore_frames::{encode_group, Base as FrameBase, Body, Effort, Encoders, Offer, Value, Way};
use docstore_store::bases;
use docstore_store::encoding::{self, Column, OwnRecord, ON_BODY};
use docstore_store::pages::Bytes;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::bases::{pointer_of, Bases, Reader};
use crate::captures::column_of;
use crate::convert::{defect, detached, InvalidArgument, SHORT_BYTES};
use crate::packed::PackedRows;
use crate::pages::Judged;
use crate::sites::{Dictionary, Kept, SiteScopes};

static ENCODERS: Encoders = Encoders::new();

type Column_<'py> = (Bound<'py, PyString>, Bound<'py, PyBytes>);
/// Row key, timestamp, column, codec, dictionary, raw length and payload of a record.
type GivenRecord<'py> = (Bound<'py, PyBytes>, u64, Column_<'py>, u8, Bound<'py, PyBytes>, usize, Bound<'py, PyBytes>);

/// The values of a group on their way into records.
#[pyclass(module = "docstore.dedup.docstore_native")]
pub struct Group(pub encoding::Group<Bytes>);

#[pymethods]
impl Group {
    /// `shares`: whether cells may share a value, and values be deltas.
    #[new]
    #[pyo3(signature = (shares = true))]
    fn new(shares: bool) -> Self {
        Self(encoding::Group::new(shares))
    }

    /// Add a value by itself: behind the body that was added before it, or with the name and bytes of a base to try.
    #[pyo3(signature = (row_key, column, timestamp, raw, base = None, follows_body = false))]
    fn add(
        &mut self,
        row_key: Bound<'_, PyBytes>,
        column: Column_<'_>,
        timestamp: u64,
        raw: PyBackedBytes,
        base: Option<(Bound<'_, PyBytes>, PyBackedBytes)>,
        follows_body: bool,
    ) -> PyResult<()> {
        let base = base.map(|(name, raw)| {
            Ok::<_, PyErr>(bases::Base {
                name: name.as_bytes().try_into()?,
                raw: Arc::new(Bytes::new(raw)),
                cell_value: [].into(),
            })
        });
        let column = Column::new(column.0.to_str()?, column.1.as_bytes());
        self.0.add(pointer_of((timestamp, row_key)), column, Bytes::new(raw), base.transpose()?, follows_body);
        Ok(())
    }

    /// Add the values of judged pages with a record.
    fn add_pages(&mut self, pages: Vec<PyRef<'_, Judged>>, bases: &Bases, mut reader: Reader<'_>) -> PyResult<()> {
        let mut bases = bases.lock()?;
        for page in pages.iter().filter_map(|page| page.0.new_page()) {
            self.0.add_page(page, &mut bases, &mut reader)?;
        }
        Ok(())
    }

    /// Encode all values with the dictionaries of their sites, and sample them for the next ones.
    fn encode(
        &mut self,
        python: Python<'_>,
        scopes: &Bound<'_, SiteScopes>,
        mut kept: Kept<'_>,
        threads: usize,
    ) -> PyResult<()> {
        let sites = &mut scopes.try_borrow_mut()?.0;
        let chosen = self.0.choose(sites, &mut kept)?;
        let dictionaries: Vec<_> =
            chosen.iter().map(|one| one.as_ref().map(|one| (&one.get().frames, one.get().name))).collect();
        let group = &mut self.0;
        detached(python, || group.encode(&dictionaries, &ENCODERS, threads))?.map_err(|failed| defect(&failed.0))?;
        self.0.learn(sites, &mut kept)
    }

    /// Checksums of the dictionaries that its records name.
    fn dictionaries<'py>(&self, python: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        self.0.used_dictionaries().map(|name| PyBytes::new(python, name)).collect()
    }

    /// How many records it has.
    #[getter]
    fn record_count(&self) -> usize {
        self.0.records().count()
    }

    /// Its records, for a backend that keeps them in its own way.
    fn records<'py>(&self, python: Python<'py>) -> Vec<GivenRecord<'py>> {
        let bytes = |part: &[u8]| PyBytes::new(python, part);
        let fields = |record: OwnRecord<'_>| {
            let (family, qualifier) = record.column.names();
            let column = (PyString::intern(python, family), bytes(qualifier));
            let (row_key, timestamp) = (bytes(&record.owner.row_key), record.owner.timestamp);
            let (codec, related, payload) = (record.way as u8, bytes(record.related), bytes(record.payload));
            (row_key, timestamp, column, codec, related, record.raw_bytes, payload)
        };
        self.0.records().map(fields).collect()
    }

    /// Its records one behind the other in a segment from an offset on, with a mark of their commit before them, if that
    /// has a number; None if one of them does not fit the format.
    fn lay_out<'py>(
        &mut self,
        python: Python<'py>,
        segment: u64,
        offset: u64,
        commit: u64,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Some((records, refs)) = self.0.lay_out(segment, offset, commit) else { return Ok(None) };
        let encoded = PyBytes::new_with(python, records.total_bytes(), |bytes| {
            if bytes.len() < SHORT_BYTES {
                records.fill(bytes);
                return Ok(());
            }
            detached(python, || records.fill(bytes))
        })?;
        self.0.place(&refs);
        Ok(Some(encoded))
    }

    /// Take the refs that a backend gave to its records.
    fn place(&mut self, refs: Vec<PyBackedBytes>) -> PyResult<()> {
        match self.0.place(&refs) {
            true => Ok(()),
            false => Err(InvalidArgument::new_err("a group needs a ref for each of its records")),
        }
    }

    /// The cell values of all values, in their order.
    fn cell_values<'py>(&self, python: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        self.0.cells().iter().map(|cell| PyBytes::new(python, cell)).collect()
    }

    /// The cell values of those columns of a page that are values of the group or shared ones.
    fn cells<'py>(&self, python: Python<'py>, page: usize) -> PyResult<Bound<'py, PyDict>> {
        let cells = PyDict::new(python);
        for (number, cell_value) in self.0.cells_of_page(page) {
            cells.set_item(column_of(python, usize::from(number))?, PyBytes::new(python, cell_value))?;
        }
        Ok(cells)
    }

    /// Add the rows of bases that its commit has to write; later values may be deltas against its values.
    fn pack_bases(&self, bases: &Bases, rows: &mut PackedRows) -> PyResult<()> {
        let mut held = bases.lock()?;
        let packed = encoding::pack_bases(held.prepare(self.0.new_bases()), &mut rows.rows);
        packed.ok_or_else(|| defect("a row of a base was refused"))
    }

    /// Add the capture records of its pages, each as a row.
    fn pack_captures(&self, rows: &mut PackedRows) -> PyResult<()> {
        self.0.pack_captures(&mut rows.rows).ok_or_else(|| defect("a row of a capture was refused"))
    }
}

// --- one value

type OneValue<'py> = (u8, Option<usize>, Bound<'py, PyBytes>);

/// A value of a compaction: its column, its bytes, bytes of bases with what a delta against each saves elsewhere, its
/// body, and its stored delta against the first base.
#[derive(FromPyObject)]
struct OldValue<'py>(Column_<'py>, PyBackedBytes, Vec<(PyBackedBytes, isize)>, PyBackedBytes, PyBackedBytes);

/// Encode a value; gives its codec, of a delta the place of its base, and its payload.
///
/// `effort` is the level of zstd, which part of the value a delta has to be below to be taken at once, whether all bases
/// are compared, and whether long frames are given up early.
#[pyfunction]
fn encode_value<'py>(
    python: Python<'py>,
    value: OldValue<'py>,
    dictionary: Option<&Dictionary>,
    effort: (i32, usize, bool, bool),
) -> PyResult<OneValue<'py>> {
    let OldValue((family, qualifier), raw, offers, body, frame) = value;
    let (least, cost_bytes) = Column::new(family.to_str()?, qualifier.as_bytes()).weights();
    let (level, small, compares, guesses) = effort;
    let task = Value {
        raw: &raw,
        bases: offers
            .iter()
            .enumerate()
            .map(|(place, (raw, saves))| {
                FrameBase::Given(Offer { raw, frame: if place == 0 { &frame } else { &[] }, saves: *saves })
            })
            .collect(),
        dictionary: dictionary.map(|dictionary| &dictionary.frames),
        body: if body.is_empty() { Body::None } else { Body::Given(&body) },
        same: None,
        small: if small == 0 { least } else { small },
        cost_bytes,
    };
    let effort = Effort { level, compares, guesses, on_body: ON_BODY };
    let encoded = python
        .detach(|| catch_unwind(AssertUnwindSafe(|| encode_group(&[task], effort, &ENCODERS, 1))))
        .map_err(|_| defect("encoding a value panicked"))?
        .pop()
        .ok_or_else(|| defect("a value was not encoded"))?
        .map_err(|refused| defect(&refused.to_string()))?;
    let payload: &[u8] = if encoded.way == Way::Stored { &raw } else { &encoded.frame };
    Ok((encoded.way as u8, encoded.base, PyBytes::new(python, payload)))
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Bases>()?;
    module.add_class::<Group>()?;
    module.add_function(wrap_pyfunction!(encode_value, module)?)
}
