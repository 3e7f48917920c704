//! Which rows of pages are sound.  `docstore.reports.check` defines what that means: it looks at all other rows itself,
//! and says what is wrong with them.
//!
//! Records of segments are read with the GIL, some rows at a time.  Values are decoded, and fingerprints are computed,
//! without it.

use std::ops::Range;

use docstore_frames::Decoder;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyFrozenSet, PyList, PyTuple};

use crate::postings::{posting_hash, posting_keys, PostingHashes, Query};
use crate::reads::{
    self, number, ref_of, take, varint, Place, ABSENT, BODY as OF_BODY, DELTA, DICTIONARY, REF, STORED as AS_IT_IS,
    STORED_CAPTURE as STORED,
};
use crate::records::{INLINE, RELATED_BYTES};
use crate::sweeps::{inline, Record, BODY, CHECKSUM, FIELDS, MAIN, STATUS, TEXT_CHECKSUM, TITLE, VERDICT};
use crate::Kernel;
use docstore_kernel::words::Words;

/// Values of so many bytes are decoded at a time.
const CHUNK_BYTES: usize = 4 << 20;
/// Values of a row are in memory together; Python reads those of a longer row capture by capture.
const MOST_ROW_BYTES: usize = 32 << 20;
/// A verdict is a list of so many fields: kind, similarity, ..., previous, similarity, how its capture is kept.
const VERDICT_FIELDS: u8 = 0x9b;
const PREVIOUS_FIELD: usize = 8;
const STORED_FIELD: usize = 10;
const TEXT_NUMBER: Range<usize> = 1..7;

/// What constants of Python say; see `reports.check`.
#[derive(FromPyObject)]
struct CheckRules {
    capture_family: String,
    blake3: u8,
    /// How many kinds, previous captures and ways of keeping a capture there are.
    verdict_kinds: u64,
    verdict_previous: u64,
    verdict_stored: u64,
    /// Those with which other pages are compared.
    posted: Vec<u64>,
    least_words: usize,
}

/// What a value is decoded with.
enum Before {
    Nothing,
    Content(PyBackedBytes),
    /// Another value of the row.
    Value(usize),
}

/// A value on its way: a sound record of a segment.
struct Piece {
    place: Place,
    source: PyBackedBytes,
    payload: Range<usize>,
    raw_bytes: usize,
    is_stored: bool,
    before: Before,
}

/// A row whose values are read: its captures, with the place of the first value of each among the pieces.
struct Row {
    number: usize,
    row_key: PyBackedBytes,
    captures: Vec<(i64, PyBackedBytes, usize)>,
    pieces: Vec<Piece>,
    raw_bytes: usize,
}

impl Row {
    /// Add a value; gives whether the row may have more.
    fn add(&mut self, piece: Piece) -> bool {
        self.raw_bytes += piece.raw_bytes;
        self.pieces.push(piece);
        self.raw_bytes <= MOST_ROW_BYTES
    }
}

/// Gives the records of segments, and what they are decoded with.
struct Sources<'py> {
    record: Bound<'py, PyAny>,
    dictionary: Bound<'py, PyAny>,
    base: Bound<'py, PyAny>,
    body: Bound<'py, PyAny>,
}

impl<'py> Sources<'py> {
    /// The record of a value; None if it is damaged.
    fn piece(&self, cell_value: &[u8], others: &[Piece]) -> PyResult<Option<Piece>> {
        let Some((_, place)) = ref_of(cell_value) else { return Ok(None) };
        let source = self.record.call1(place)?.extract::<PyBackedBytes>()?;
        let Some(record) = reads::parse(&source, place.0 as u32) else { return Ok(None) };
        let name = &source[record.fields..record.fields + RELATED_BYTES[usize::from(record.codec)]];
        let named = || PyBytes::new(self.record.py(), name);
        let content = match record.codec {
            DICTIONARY => self.dictionary.call1((named(),))?,
            DELTA => self.base.call1((named(),))?,
            OF_BODY => {
                let length = name.iter().rev().fold(0u64, |length, byte| length << 8 | u64::from(*byte));
                let Some(start) = place.1.checked_sub(length) else { return Ok(None) };
                let body = (place.0, start, length);
                match others.iter().position(|other| other.place == body) {
                    Some(other) => return Ok(Some(Piece::new(place, record, source, Before::Value(other)))),
                    None => self.body.call1(body)?,
                }
            }
            _ => return Ok(Some(Piece::new(place, record, source, Before::Nothing))),
        };
        if content.is_none() {
            return Ok(None);
        }
        Ok(Some(Piece::new(place, record, source, Before::Content(content.extract()?))))
    }

    /// A row with what is needed to look at it; None if only Python can.
    fn row(
        &self,
        number: usize,
        row: &Bound<'py, PyAny>,
        families: &Bound<'py, PyFrozenSet>,
        rules: &CheckRules,
    ) -> PyResult<Option<Row>> {
        let cells = row.get_item(1)?.cast_into::<PyList>()?;
        if row.get_item(2)?.is_truthy()? {
            return Ok(None);
        }
        let row_key = row.get_item(0)?.extract()?;
        let mut found = Row { number, row_key, captures: Vec::new(), pieces: Vec::new(), raw_bytes: 0 };
        for cell in &cells {
            let cell = cell.cast_into::<PyTuple>()?;
            let (family, value) = (cell.get_item(0)?, cell.get_item(3)?.extract::<PyBackedBytes>()?);
            let first = found.pieces.len();
            if family.extract::<&str>()? != rules.capture_family {
                match value.first() {
                    _ if !families.contains(&family)? => return Ok(None),
                    Some(&INLINE) => {}
                    _ => match self.piece(&value, &[])?.map(|piece| found.add(piece)) {
                        Some(true) => {}
                        _ => return Ok(None),
                    },
                }
                continue;
            }
            let timestamp = cell.get_item(2)?.extract()?;
            let Some(record) = Record::parse(timestamp, &value) else { return Ok(None) };
            for cell_value in record.columns.iter().filter(|value| value.first() == Some(&REF)) {
                let Some(piece) = self.piece(cell_value, &found.pieces[first..])? else { return Ok(None) };
                let before = match piece.before {
                    Before::Value(place) => Before::Value(first + place),
                    other => other,
                };
                if !found.add(Piece { before, ..piece }) {
                    return Ok(None);
                }
            }
            found.captures.push((timestamp, value, first));
        }
        Ok(Some(found))
    }
}

impl Piece {
    fn new(place: Place, record: reads::Record, source: PyBackedBytes, before: Before) -> Self {
        let reads::Record { codec, payload, raw_bytes, .. } = record;
        Self { place, source, payload, raw_bytes, is_stored: codec == AS_IT_IS, before }
    }

    fn decode(&self, decoder: &mut Decoder, others: &[Vec<u8>]) -> Option<Vec<u8>> {
        let payload = &self.source[self.payload.clone()];
        if self.is_stored {
            return (payload.len() == self.raw_bytes).then(|| payload.to_vec());
        }
        let before: &[u8] = match &self.before {
            Before::Nothing => &[],
            Before::Content(content) => content,
            Before::Value(place) => others.get(*place)?,
        };
        decoder.decoded(payload, before, self.raw_bytes)
    }
}

/// Go behind one item of a message that is no list; a number is given.
fn skip(source: &[u8], at: &mut usize) -> Option<u64> {
    let tag = number(source, at, 1)?;
    let (bytes, is_text) = match tag {
        0x00..=0x7f => return Some(tag),
        0xc0 | 0xc2 | 0xc3 => return Some(u64::MAX),
        0xcc..=0xcf => return number(source, at, 1 << (tag - 0xcc)),
        0xcb => (8, false),
        0xa0..=0xbf => (tag & 0x1f, true),
        0xc4..=0xc6 => (number(source, at, 1 << (tag - 0xc4))?, false),
        0xd9..=0xdb => (number(source, at, 1 << (tag - 0xd9))?, true),
        _ => return None,
    };
    let content = take(source, at, usize::try_from(bytes).ok()?)?;
    (!is_text || std::str::from_utf8(content).is_ok()).then_some(u64::MAX)
}

/// How the capture of a verdict is kept, as a number; None for what is no sound verdict.
fn kept_as(source: &[u8], rules: &CheckRules) -> Option<u64> {
    let mut fields = [0; STORED_FIELD + 1];
    let mut at = 1;
    if source.first() != Some(&VERDICT_FIELDS) {
        return None;
    }
    for field in &mut fields {
        *field = skip(source, &mut at)?;
    }
    let is_known = fields[0] < rules.verdict_kinds
        && fields[PREVIOUS_FIELD] < rules.verdict_previous
        && fields[STORED_FIELD] < rules.verdict_stored;
    (is_known && at == source.len()).then_some(fields[STORED_FIELD])
}

/// Looks at rows; keeps what it works with.
struct Checker<'a> {
    rules: &'a CheckRules,
    known: &'a [u64],
    words: Words,
    decoder: Decoder,
}

impl Checker<'_> {
    /// Whether a row is sound, but for the look-ups that are given.
    fn is_sound(&mut self, row: &Row, workshop: &mut crate::Workshop, queries: &mut Vec<Query>) -> Option<()> {
        let mut values: Vec<Vec<u8>> = Vec::with_capacity(row.pieces.len());
        for piece in &row.pieces {
            values.push(piece.decode(&mut self.decoder, &values)?);
        }
        for (timestamp, source, first) in &row.captures {
            let record = Record::parse(*timestamp, source)?;
            let mut of_capture = values.get(*first..)?.iter();
            let mut columns: [Option<&[u8]>; FIELDS] = [None; FIELDS];
            let mut is_dropped = false;
            for (number, cell_value) in record.columns.iter().enumerate() {
                columns[number] = match cell_value.first() {
                    None => None,
                    Some(&INLINE) => inline(cell_value),
                    Some(&REF) => Some(of_capture.next()?),
                    Some(&ABSENT) if number == BODY => {
                        let mut at = 1;
                        varint(cell_value, &mut at).filter(|_| at == cell_value.len())?;
                        is_dropped = true;
                        Some(&[])
                    }
                    _ => return None,
                };
            }
            let kept = columns[VERDICT].map(|encoded| kept_as(encoded, self.rules).ok_or(())).transpose().ok()?;
            if record.confirms != 0 && row.captures.iter().all(|(other, ..)| *other != record.confirms) {
                return None;
            }
            if record.kind != STORED {
                continue;
            }
            let (body, checksum, kept) = (columns[BODY]?, columns[CHECKSUM]?, kept?);
            if !is_dropped
                && (checksum.first()? != &self.rules.blake3 || blake3::hash(body).as_bytes() != &checksum[1..])
            {
                return None;
            }
            if !self.rules.posted.contains(&kept) || (body.is_empty() && !is_dropped) {
                continue;
            }
            let status = std::str::from_utf8(columns[STATUS].unwrap_or_default()).ok()?;
            let status: u64 = if status.is_empty() { 0 } else { status.parse().ok()? };
            let text_checksum = columns[TEXT_CHECKSUM].unwrap_or_default();
            let text = columns[MAIN].filter(|_| !text_checksum.is_empty() && status / 100 == 2);
            let compared = if text.is_some() { text_checksum } else { &[] };
            let title = columns[TITLE].unwrap_or_default();
            let qualifier = [&timestamp.to_be_bytes(), &row.row_key[..]].concat();
            let is_posted = |key: Vec<u8>| self.known.binary_search(&posting_hash(&key, &qualifier)).is_ok();
            if !posting_keys(checksum, compared, title, &mut self.words).into_iter().all(is_posted) {
                return None;
            }
            let Some(text) = text else { continue };
            let Some(found) = workshop.analyser.fingerprints_of(&String::from_utf8_lossy(text)) else { continue };
            if found.word_count >= self.rules.least_words {
                let own = text_checksum.get(TEXT_NUMBER)?.iter().fold(0, |own, byte| own << 8 | u64::from(*byte));
                let (band_keys, fingerprints, runs) = (found.band_keys.to_vec(), found.samples, found.runs);
                queries.push(Query { row: row.number, band_keys, fingerprints, runs, own });
            }
        }
        Some(())
    }
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
    rules: CheckRules,
    kernel: &Bound<'py, Kernel>,
    known: &Bound<'py, PostingHashes>,
) -> PyResult<(Vec<usize>, Queries)> {
    let python = rows.py();
    let sources = Sources { record, dictionary, base, body };
    let (mut odd, mut queries) = (Vec::new(), Vec::new());
    let Some(decoder) = Decoder::new() else { return Ok(((0..rows.len()).collect(), Queries(queries))) };
    let mut checker = Checker { rules: &rules, known: known.get().sorted(), words: Words::default(), decoder };
    let mut workshop = kernel.get().workshop();
    let (mut chunk, mut chunk_bytes) = (Vec::new(), 0);
    for (number, row) in rows.iter().enumerate() {
        match sources.row(number, &row, families, &rules) {
            Ok(Some(row)) => {
                chunk_bytes += row.raw_bytes;
                chunk.push(row);
            }
            Ok(None) => odd.push(number),
            Err(error) if error.is_instance_of::<PyException>(python) => odd.push(number),
            Err(error) => return Err(error),
        }
        if chunk_bytes >= CHUNK_BYTES || number + 1 == rows.len() {
            crate::detached(python, || {
                for row in &chunk {
                    let before = queries.len();
                    if checker.is_sound(row, &mut workshop, &mut queries).is_none() {
                        queries.truncate(before);
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
