//! What a compaction does with the values of rows: which of them leave their segment, and which records are copied.
//!
//! Rows are added in their order.  Then, for one window after another: `read` reads the records of the next captures in
//! the order of the files, and says what has to be known about bases and dictionaries; `decide` takes the answers; `run`
//! copies records into the segment that is written, up to a value that its caller has to encode, and `settle` takes what
//! became of that value.  A record is copied as it is if it would hardly become smaller:
//!
//! | encoded | copied if |
//! |---|---|
//! | as a delta of a base | the base stays |
//! | with a dictionary | the same one would be chosen |
//! | as a delta of its body | that is the record written last |
//! | plain, or stored | never |
//!
//! Records that captures of several pages share are encoded again, with their other owners in view.  The head of a copy
//! is made anew, because its checksum begins with the number of the segment.  Only a payload with the right checksum is
//! copied: a damaged record is left to the caller, who says where it lies.

use std::collections::{HashMap, HashSet};
use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use docstore_frames::site_of;

use crate::capture::{Record as Capture, BODY, FIELDS, MAIN};
use crate::format::{
    CAPTURE_FAMILY, CODEC_ZSTD_BODY, CODEC_ZSTD_DELTA, CODEC_ZSTD_DICTIONARY, RECORD_VALUE, VALUE_REF,
};
use crate::record::{self, NewRecord, Record};
use crate::segment::{Contents, Segment};
use crate::survey::{Cell, Rules};
use crate::values::{ref_of, without_value, Place};

/// A window ends behind the capture with which its records have so many bytes.
const WINDOW_BYTES: u64 = 8 << 20;
/// A gap of so many bytes between two records is read, rather than made the end of a read.
const GAP_BYTES: u64 = 8 << 10;
const READ_BYTES: u64 = 1 << 20;
/// `run` returns after so many values, so that its caller can be interrupted.
const MOST_VALUES: usize = 256;

/// The segments.
pub trait Log {
    type Bytes: AsRef<[u8]>;
    type Error;

    /// The bytes at a place, fewer at the end of the file; None if they cannot be read.
    fn read(&mut self, place: Place) -> Result<Option<Self::Bytes>, Self::Error>;
}

/// New cell values by old ones, of records that pages may share: for the movers of all tablets.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>);

impl Shared {
    fn map(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a record is a delta against: the base that a copied record names, or what the caller has encoded it against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Against<Base> {
    Stays(Vec<u8>),
    Given(Base),
}

/// A value with its new cell value, or a body that is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move<Base> {
    /// The number of its column in a capture record; 0 for the value of another cell.
    pub column: u8,
    pub old: Vec<u8>,
    pub new: Vec<u8>,
    /// Its name as a base; empty if it is none, or if that is not known.
    pub name: Vec<u8>,
    /// None if its record is no delta against a base.
    pub base: Option<Against<Base>>,
}

/// What the caller made of a value that was left to it.
#[derive(Clone, Debug)]
pub struct Settled<Base> {
    pub new: Vec<u8>,
    pub name: Vec<u8>,
    pub base: Option<Base>,
    /// It is a body whose record was written just now, and that is no delta.
    pub is_whole_body: bool,
    /// Captures of other pages, or deltas, may refer to its record.
    pub is_shared: bool,
}

/// How a record is encoded, with the number of its base or of its scope of dictionaries in the window.
#[derive(Clone, Copy, Debug)]
enum Way {
    Delta(usize),
    Dictionary(usize),
    OnBody,
    /// In another way, or it cannot be copied.
    Other,
}

/// A value that moves, or a body that a policy hides, which has no place.
#[derive(Debug)]
struct Item {
    row: usize,
    cell: usize,
    column: u8,
    old: Vec<u8>,
    place: Option<Place>,
    /// The number of a read of the window, and where in it the record begins.
    source: Option<(usize, usize)>,
    way: Way,
    name: Vec<u8>,
}

/// The moves of the values of a cell, with its number in its row.
pub type Change<Base> = (usize, Vec<Move<Base>>);

/// A scope of dictionaries: a row key of its site, and the family and qualifier of a column.
pub type Scope = (Vec<u8>, String, Vec<u8>);

/// What the caller has to say about the records of a window.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Old cell values: the name of each that is a base.
    pub values: Vec<Vec<u8>>,
    /// Names of bases: whether each stays.
    pub bases: Vec<Vec<u8>>,
    /// The name of the dictionary that a value of each scope would be encoded with.
    pub scopes: Vec<Scope>,
}

/// A value that is left to the caller.
#[derive(Debug)]
pub struct Left<'a, Base> {
    /// The numbers of its row, and of its cell in the row.
    pub row: usize,
    pub cell: usize,
    pub column: u8,
    pub old: &'a [u8],
    /// None if it is damaged, or could not be read.
    pub record: Option<Record<'a>>,
    /// The move of the body of the same capture.
    pub body: Option<&'a Move<Base>>,
    /// That body is the record written last, and whole.
    pub is_after_body: bool,
    /// It is a delta of the body that was moved last.
    pub is_on_body: bool,
}

/// Why `run` has returned.
#[derive(Debug)]
pub enum Step<'a, Base> {
    /// The caller has to encode the next value.
    Left(Left<'a, Base>),
    /// The caller has to begin a segment.
    Begin,
    /// There is more to do.
    Pause,
    /// The window has ended, or a row with which a limit is reached.
    End,
}

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub values: u64,
    pub raw_bytes: u64,
    /// Bytes of the old records.
    pub read_bytes: u64,
}

/// Moves the values of one tablet.
#[derive(Debug)]
pub struct Mover<Bytes, Base> {
    rules: Rules,
    /// Segments to empty.
    old: HashSet<u64>,
    shared: Shared,
    /// What belongs into `shared`, but for the segment, which has no row in the manifest yet.
    here: HashMap<Vec<u8>, Vec<u8>>,
    segment: Option<Segment>,
    /// Where the body lay that was moved last.
    old_body: Option<Place>,
    /// The key of each row, and whether policies drop some of its cells.
    rows: Vec<(Vec<u8>, bool)>,
    /// Values of the rows, in the order in which they are written.
    items: Vec<Item>,
    /// The item that comes next, and the end of the window.
    at: usize,
    window_end: usize,
    reads: Vec<Bytes>,
    stays: Vec<bool>,
    chosen: Vec<Vec<u8>>,
    /// Moves that were not taken yet, with the numbers of their row and cell.
    moves: Vec<(usize, usize, Move<Base>)>,
    /// Numbers of the moves of the row by old cell value: captures of a row may share a record.
    done: HashMap<Vec<u8>, usize>,
    /// The number of the move of the capture's body.
    body: Option<usize>,
    taken_rows: usize,
    counts: Counts,
}

impl<Bytes: AsRef<[u8]>, Base: Clone> Mover<Bytes, Base> {
    pub fn new(old: HashSet<u64>, rules: Rules, shared: Shared) -> Self {
        Self {
            rules,
            old,
            shared,
            here: HashMap::new(),
            segment: None,
            old_body: None,
            rows: Vec::new(),
            items: Vec::new(),
            at: 0,
            window_end: 0,
            reads: Vec::new(),
            stays: Vec::new(),
            chosen: Vec::new(),
            moves: Vec::new(),
            done: HashMap::new(),
            body: None,
            taken_rows: 0,
            counts: Counts::default(),
        }
    }

    // --- rows

    /// Add a row with all of its cells; false for an odd row: the caller adds what is kept of it.
    ///
    /// A row is odd if a record or a ref is damaged, and if one of its cells may be hidden.
    pub fn add_row(&mut self, row_key: &[u8], cells: &[Cell<'_>]) -> bool {
        !self.rules.may_hide(cells) && self.add_kept(row_key, cells, &HashSet::new(), false).is_ok()
    }

    /// Add a row with the cells that are kept, and the times of captures whose bodies are dropped; or nothing of it: then
    /// the first value that is damaged.
    pub fn add_kept<'a>(
        &mut self,
        row_key: &[u8],
        cells: &[Cell<'a>],
        hidden: &HashSet<i64>,
        drops_cells: bool,
    ) -> Result<(), &'a [u8]> {
        let before = self.items.len();
        for (cell, found) in cells.iter().enumerate() {
            if let Err(damaged) = self.add_cell(cell, found, hidden) {
                self.items.truncate(before);
                return Err(damaged);
            }
        }
        self.rows.push((row_key.to_vec(), drops_cells));
        Ok(())
    }

    /// Add the values of a cell: of a record the body, then the text, so that it can be a delta of that body.
    fn add_cell<'a>(&mut self, cell: usize, found: &Cell<'a>, hidden: &HashSet<i64>) -> Result<(), &'a [u8]> {
        if found.family != CAPTURE_FAMILY {
            return self.add_value(cell, 0, found.value);
        }
        let columns = Capture::parse(found.timestamp, found.value).ok_or(found.value)?.columns;
        if !columns[BODY].is_empty() && hidden.contains(&found.timestamp) {
            without_value(columns[BODY]).ok_or(columns[BODY])?;
            self.add_item(cell, BODY, columns[BODY], None);
        } else {
            self.add_value(cell, BODY, columns[BODY])?;
        }
        let others = (1..FIELDS).filter(|column| ![BODY, MAIN].contains(column));
        [MAIN].into_iter().chain(others).try_for_each(|column| self.add_value(cell, column, columns[column]))
    }

    fn add_value<'a>(&mut self, cell: usize, column: usize, value: &'a [u8]) -> Result<(), &'a [u8]> {
        if value.first() == Some(&VALUE_REF) {
            let (_, place) = ref_of(value).ok_or(value)?;
            if self.old.contains(&place.0) {
                self.add_item(cell, column, value, Some(place));
            }
        }
        Ok(())
    }

    fn add_item(&mut self, cell: usize, column: usize, old: &[u8], place: Option<Place>) {
        let (row, column, old) = (self.rows.len(), column as u8, old.to_vec());
        self.items.push(Item { row, cell, column, old, place, source: None, way: Way::Other, name: Vec::new() });
    }

    /// Whether the next item belongs to another row than the one before.
    pub fn is_between_rows(&self) -> bool {
        let row_at = |place: usize| self.items.get(place).map(|item| item.row);
        self.at == 0 || row_at(self.at - 1) != row_at(self.at)
    }

    /// Whether all rows that were added are taken.
    pub fn is_done(&self) -> bool {
        self.rows.is_empty()
    }

    fn is_between_cells(&self, at: usize) -> bool {
        let cell_at = |place: usize| self.items.get(place).map(|item| (item.row, item.cell));
        at == 0 || cell_at(at - 1) != cell_at(at)
    }

    /// Rows that are planned: their numbers, whether policies drop some of their cells, and their changes; each once, and
    /// none in the middle of a row.  After the last one, rows are numbered anew.
    pub fn take_planned(&mut self) -> Vec<(usize, bool, Vec<Change<Base>>)> {
        let mut planned = Vec::new();
        if !self.is_between_rows() {
            return planned;
        }
        let until = self.items.get(self.at).map_or(self.rows.len(), |next| next.row);
        let mut moves = self.moves.drain(..).peekable();
        for row in self.taken_rows..until {
            let mut changes: Vec<Change<Base>> = Vec::new();
            while let Some((_, cell, found)) = moves.next_if(|(of, ..)| *of == row) {
                match changes.last_mut().filter(|(of, _)| *of == cell) {
                    Some((_, others)) => others.push(found),
                    None => changes.push((cell, vec![found])),
                }
            }
            if self.rows[row].1 || !changes.is_empty() {
                planned.push((row, self.rows[row].1, changes));
            }
        }
        drop(moves);
        self.taken_rows = until;
        if until == self.rows.len() {
            self.rows.clear();
            self.items.clear();
            (self.at, self.window_end, self.taken_rows) = (0, 0, 0);
        }
        planned
    }

    // --- windows

    /// Whether the next record was not read yet; false also if there is none.
    pub fn wants_read(&self) -> bool {
        self.at == self.window_end && self.at < self.items.len()
    }

    /// Read the records of the next captures; if `copies`, some of them may be copied.
    pub fn read<L: Log<Bytes = Bytes>>(&mut self, log: &mut L, copies: bool) -> Result<Wanted, L::Error> {
        let mut bytes = 0;
        while self.window_end < self.items.len() && (bytes <= WINDOW_BYTES || !self.is_between_cells(self.window_end)) {
            bytes += self.items[self.window_end].place.map_or(0, |place| place.2);
            self.window_end += 1;
        }
        self.read_in_order(log)?;
        let mut wanted = Wanted::default();
        let (mut bases, mut scopes) = (HashMap::new(), HashMap::new());
        let (mut site, mut start) = (Vec::new(), &[][..]);
        for item in if copies { &mut self.items[self.at..self.window_end] } else { &mut [] } {
            wanted.values.push(item.old.clone());
            let row_key = &self.rows[item.row].0[..];
            let Some(record) = record_of(item, &self.reads).filter(|record| record.row_key == row_key) else {
                continue;
            };
            item.way = match record.codec {
                CODEC_ZSTD_DELTA => Way::Delta(*bases.entry(record.related.to_vec()).or_insert_with(|| {
                    wanted.bases.push(record.related.to_vec());
                    wanted.bases.len() - 1
                })),
                CODEC_ZSTD_DICTIONARY => {
                    if start.is_empty() || !row_key.starts_with(start) {
                        (site, start) = site_of(row_key);
                    }
                    let column = (family_of(&record).unwrap_or_default().to_owned(), record.qualifier.to_vec());
                    Way::Dictionary(*scopes.entry((site.clone(), column)).or_insert_with_key(
                        |(_, (family, qualifier))| {
                            wanted.scopes.push((row_key.to_vec(), family.clone(), qualifier.clone()));
                            wanted.scopes.len() - 1
                        },
                    ))
                }
                CODEC_ZSTD_BODY => Way::OnBody,
                _ => Way::Other,
            };
        }
        Ok(wanted)
    }

    /// Read the records of the window in the order of the files, neighbours together.
    fn read_in_order<L: Log<Bytes = Bytes>>(&mut self, log: &mut L) -> Result<(), L::Error> {
        self.reads.clear();
        let window = self.at..self.window_end;
        let mut places: Vec<_> = window.filter_map(|number| Some((self.items[number].place?, number))).collect();
        places.sort_unstable();
        let mut first = 0;
        while first < places.len() {
            let (segment, begin, length) = places[first].0;
            let (mut end, mut next) = (begin.saturating_add(length), first + 1);
            while let Some(((other, offset, length), _)) = places.get(next) {
                let longer = end.max(offset.saturating_add(*length));
                if *other != segment || *offset > end.saturating_add(GAP_BYTES) || longer - begin > READ_BYTES {
                    break;
                }
                (end, next) = (longer, next + 1);
            }
            match log.read((segment, begin, end - begin))? {
                Some(bytes) => {
                    for (place, number) in &places[first..next] {
                        self.items[*number].source = Some((self.reads.len(), (place.1 - begin) as usize));
                    }
                    self.reads.push(bytes);
                }
                None if next > first + 1 => {
                    for (place, number) in &places[first..next] {
                        let Some(bytes) = log.read(*place)? else { continue };
                        self.items[*number].source = Some((self.reads.len(), 0));
                        self.reads.push(bytes);
                    }
                }
                None => (),
            }
            first = next;
        }
        Ok(())
    }

    /// Take what the caller says about the records of the window.
    ///
    /// `names` has the name of each value that is a base, `stays` whether each base stays, `chosen` the name of the
    /// dictionary of each scope.
    pub fn decide(&mut self, names: impl IntoIterator<Item = Vec<u8>>, stays: Vec<bool>, chosen: Vec<Vec<u8>>) {
        for (item, name) in self.items[self.at..self.window_end].iter_mut().zip(names) {
            item.name = name;
        }
        (self.stays, self.chosen) = (stays, chosen);
    }

    /// Copy records up to one that is left to the caller, to the end of the window, or to the end of a row with which the
    /// segment has so many bytes, or so many moves wait to be taken.
    pub fn run(&mut self, most_bytes: u64, most_moves: usize) -> Step<'_, Base> {
        for _ in 0..MOST_VALUES {
            if self.at == self.window_end {
                return Step::End;
            }
            if self.is_between_rows() {
                self.done.clear();
                if self.length_bytes() >= most_bytes || self.moves.len() >= most_moves {
                    return Step::End;
                }
            }
            if self.is_between_cells(self.at) {
                self.body = None;
            }
            let item = &self.items[self.at];
            let Some(place) = item.place else {
                let new = without_value(&item.old).unwrap_or_default();
                let dropped = Move { column: item.column, old: item.old.clone(), new, name: Vec::new(), base: None };
                self.moves.push((item.row, item.cell, dropped));
                self.at += 1;
                continue;
            };
            if let Some(known) = self.done.get(&item.old) {
                let known = self.moves[*known].2.clone();
                self.finish(Move { column: item.column, ..known });
                continue;
            }
            if !record_of(item, &self.reads).is_some_and(|record| self.is_copied(item, &record, place)) {
                return Step::Left(self.left());
            }
            match self.copy() {
                Some(copied) => self.finish(copied),
                None if self.segment.is_none() => return Step::Begin,
                None => return Step::Left(self.left()),
            }
        }
        Step::Pause
    }

    fn left(&self) -> Left<'_, Base> {
        let item = &self.items[self.at];
        let record = record_of(item, &self.reads);
        let is_on_body = record.as_ref().zip(item.place).is_some_and(|(record, place)| self.is_on_body(record, place));
        Left {
            row: item.row,
            cell: item.cell,
            column: item.column,
            old: &item.old,
            record,
            body: self.body.map(|number| &self.moves[number].2),
            is_after_body: self.is_after_body(),
            is_on_body,
        }
    }

    /// Take what became of the value that was left; None if it stays, because it is damaged.
    pub fn settle(&mut self, settled: Option<Settled<Base>>) {
        let Some(item) = self.items.get(self.at).filter(|_| self.at < self.window_end) else { return };
        let Some(Settled { new, name, base, is_whole_body, is_shared }) = settled else {
            self.at += 1;
            return;
        };
        if usize::from(item.column) == BODY {
            self.old_body = item.place;
        }
        if is_whole_body {
            self.segment.iter_mut().for_each(|segment| segment.end_with_body(&new));
        }
        if is_shared {
            self.here.insert(item.old.clone(), new.clone());
        }
        let (column, old) = (item.column, item.old.clone());
        self.finish(Move { column, old, new, name, base: base.map(Against::Given) });
    }

    /// Note the move of the next item, and go on.
    fn finish(&mut self, found: Move<Base>) {
        let Item { row, cell, column, .. } = self.items[self.at];
        if usize::from(column) == BODY {
            self.body = Some(self.moves.len());
        }
        self.done.insert(found.old.clone(), self.moves.len());
        self.moves.push((row, cell, found));
        self.at += 1;
    }

    // --- copies

    fn is_copied(&self, item: &Item, record: &Record<'_>, place: Place) -> bool {
        match item.way {
            Way::Delta(base) => self.stays.get(base).is_some_and(|stays| *stays),
            Way::Dictionary(scope) => self.chosen.get(scope).is_some_and(|name| *name == record.related),
            Way::OnBody => self.is_after_body() && self.is_on_body(record, place),
            Way::Other => false,
        }
    }

    fn is_after_body(&self) -> bool {
        let new = self.body.map_or(&[][..], |body| &self.moves[body].2.new);
        self.segment.as_ref().is_some_and(|segment| segment.ends_with_body(new))
    }

    fn is_on_body(&self, record: &Record<'_>, place: Place) -> bool {
        record.codec == CODEC_ZSTD_BODY && record.body_place(place).is_some_and(|of| Some(of) == self.old_body)
    }

    /// Copy the record of the next item, or refer to the copy of it that was made for another page; None if there is no
    /// segment to copy it into.
    fn copy(&mut self) -> Option<Move<Base>> {
        let item = &self.items[self.at];
        let record = record_of(item, &self.reads)?;
        let moved = self.moved(&item.old);
        let is_written = moved.is_none();
        let is_delta = record.codec == CODEC_ZSTD_DELTA;
        let new = match moved {
            Some(new) => new,
            None => self.segment.as_mut()?.write(new_of(&record))?,
        };
        let (column, old, name) = (item.column, item.old.clone(), item.name.clone());
        let base = is_delta.then(|| Against::Stays(record.related.to_vec()));
        self.counts.values += 1;
        self.counts.raw_bytes += u64::from(record.raw_bytes);
        self.counts.read_bytes += item.place.map_or(0, |place| place.2);
        if !name.is_empty() {
            self.here.insert(old.clone(), new.clone());
        }
        if usize::from(column) == BODY {
            self.old_body = item.place;
            self.segment.iter_mut().for_each(|segment| match is_written && !is_delta {
                true => segment.end_with_body(&new),
                false => segment.end_without_body(),
            });
        }
        Some(Move { column, old, new, name, base })
    }

    /// The new cell value of a record that was moved for another page; None if it was not moved yet.
    pub fn moved(&self, old: &[u8]) -> Option<Vec<u8>> {
        self.here.get(old).cloned().or_else(|| self.shared.map().get(old).cloned())
    }

    /// Let the movers of other tablets refer to moved values that pages may share: their segment has its row.
    pub fn share(&mut self) {
        self.shared.map().extend(self.here.drain());
    }

    // --- the segment

    /// Begin a segment of which so many bytes are written.
    pub fn begin(&mut self, number: u64, length_bytes: u64) {
        self.segment = Some(Segment::new(number, length_bytes));
    }

    /// The segment that is written; None if none has been begun.
    pub fn segment(&mut self) -> Option<&mut Segment> {
        self.segment.as_mut()
    }

    /// The length of the segment; 0 if there is none.
    pub fn length_bytes(&self) -> u64 {
        self.segment.as_ref().map_or(0, Segment::length_bytes)
    }

    /// End the segment.
    pub fn end_segment(&mut self) -> Contents {
        self.segment.take().map_or_else(Contents::default, Segment::into_contents)
    }

    /// What was copied since the last call.
    pub fn take_counts(&mut self) -> Counts {
        take(&mut self.counts)
    }
}

/// The sound record of a value; None also if it was not read, or has no family that can be written.
fn record_of<'a, Bytes: AsRef<[u8]>>(item: &Item, reads: &'a [Bytes]) -> Option<Record<'a>> {
    let ((number, start), (segment, _, length)) = (item.source?, item.place?);
    let bytes = reads.get(number)?.as_ref().get(start..)?;
    let bytes = &bytes[..bytes.len().min(usize::try_from(length).ok()?)];
    record::decode(bytes, segment).ok().filter(|record| record.kind == RECORD_VALUE && family_of(record).is_some())
}

fn new_of<'a>(record: &Record<'a>) -> NewRecord<'a> {
    let Record { kind, row_key, qualifier, timestamp, codec, related, raw_bytes, payload, .. } = *record;
    let family = family_of(record).unwrap_or_default();
    NewRecord { kind, row_key, family, qualifier, timestamp, codec, related, raw_bytes, payload }
}

fn family_of<'a>(record: &Record<'a>) -> Option<&'a str> {
    std::str::from_utf8(record.family).ok()
}

#[cfg(test)]
mod tests;
