//! What new values may be deltas against: stored bodies and texts, the rows that name them, and pages of the same path.
//!
//! A base is never a delta against another base: what resembles a delta becomes a delta against that delta's base.  The
//! caches have committed data alone.  What a group stores is added when its commit is told (`follow`), or dropped.

use std::collections::HashMap;
use std::sync::Arc;

use docstore_frames::Name;

use crate::lru::{Counts, Lru};
use crate::values::{parse, Value};

/// A larger value is no base, because each read of a delta decodes its base.
pub const LARGEST_BASE_BYTES: usize = 4 << 20;
/// Memory of the row of a base.  Most pages of a template are deltas against the same base.
const ROW_BYTES: usize = 128;
/// Memory of a page that is the newest of its path, without its row key.
const PAGE_BYTES: usize = 150;

/// The name of a value as a base or dictionary: the first 16 bytes of its BLAKE3.
pub fn name_of(raw: &[u8]) -> Name {
    let mut name = Name::default();
    name.copy_from_slice(&blake3::hash(raw).as_bytes()[..16]);
    name
}

/// A row, and the time of one of its captures.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pointer {
    pub timestamp: u64,
    pub row_key: Box<[u8]>,
}

/// A stored value that another can be a delta against.
#[derive(Debug)]
pub struct Base<R> {
    pub name: Name,
    pub raw: Arc<R>,
    pub cell_value: Box<[u8]>,
}

/// A stored value: its bytes, or the name of the base that it is a delta against.
pub enum Stored<R> {
    Whole(R),
    DeltaOf(Name),
}

/// Reads of what no cache has.
pub trait Reads<R> {
    type Error;

    /// Cell values of body and text of a live page; empty for one that it does not have.
    fn page(&mut self, page: &Pointer) -> Result<[Vec<u8>; 2], Self::Error>;
    /// A stored value of a page; None if it cannot be read.  `column`: 0 for its body, 1 for its text.
    fn value(&mut self, cell_value: &[u8], column: usize, page: &Pointer) -> Result<Option<Stored<R>>, Self::Error>;
    /// The cell value in the row of a base; empty if there is none.
    fn row(&mut self, name: &Name) -> Result<Vec<u8>, Self::Error>;
    /// Whether the record of a cell value can be read.
    fn is_sound(&mut self, cell_value: &[u8]) -> Result<bool, Self::Error>;
    /// Whether compaction is about to free a base.
    fn is_retired(&mut self, name: &Name) -> Result<bool, Self::Error>;
}

/// What a new value means for those after it: the base to use for values that resemble it.
pub struct NewBase<R> {
    pub base: Arc<Base<R>>,
    /// Of the new value.
    pub cell_value: Box<[u8]>,
    /// It is a delta against the base, or shares its record, so the base needs a row.
    pub needs_row: bool,
}

/// Stored values that deltas are made against.
pub struct Bases<R> {
    /// By the cell value of a body or text: the base to use for a similar one.
    values: Lru<Box<[u8]>, Arc<Base<R>>>,
    /// Cell value of a base by name; empty if there was no such row when it was read.
    rows: Lru<Name, Box<[u8]>>,
    /// The newest page of each path, where paths that differ only in a version or a language are one path.  It fills
    /// again after a restart, and compaction finds the bases that were missed.
    newest: Lru<Box<[u8]>, Pointer>,
    /// Memory of an entry next to its value.
    entry: usize,
    new: Vec<NewBase<R>>,
    new_rows: Vec<(Name, Box<[u8]>)>,
}

impl<R: AsRef<[u8]>> Bases<R> {
    /// Bytes that may be held: of values, of rows, of newest pages; and of one entry.
    pub fn new(values: usize, rows: usize, newest: usize, entry: usize) -> Self {
        Self {
            values: Lru::new(values),
            rows: Lru::new(rows),
            newest: Lru::new(newest),
            entry,
            new: Vec::new(),
            new_rows: Vec::new(),
        }
    }

    /// Of the caches of values, rows and newest pages.
    pub fn counts(&self) -> [Arc<Counts>; 3] {
        [self.values.counts(), self.rows.counts(), self.newest.counts()]
    }

    /// The base for a new value that resembles a stored one: the stored value, or its own base if it is a delta.
    ///
    /// None if the stored value is too small or too large for a base, or cannot be read.
    pub fn base_for<S: Reads<R>>(
        &mut self,
        reads: &mut S,
        cell_value: &[u8],
        column: usize,
        page: &Pointer,
    ) -> Result<Option<Arc<Base<R>>>, S::Error> {
        if let Some(found) = self.values.get(cell_value) {
            return Ok(Some(found.clone()));
        }
        if !may_be_base(cell_value) {
            return Ok(None);
        }
        let base = match reads.value(cell_value, column, page)? {
            None => return Ok(None),
            Some(Stored::Whole(raw)) => {
                let name = name_of(raw.as_ref());
                let raw = Arc::new(raw);
                self.row(reads, &name)?;
                Base { name, raw, cell_value: cell_value.into() }
            }
            Some(Stored::DeltaOf(name)) => {
                let row = self.row(reads, &name)?;
                if !may_be_base(&row) {
                    return Ok(None);
                }
                let Some(Stored::Whole(raw)) = reads.value(&row, column, page)? else { return Ok(None) };
                Base { name, raw: Arc::new(raw), cell_value: row }
            }
        };
        let base = Arc::new(base);
        self.values.put(cell_value.into(), self.entry + (*base.raw).as_ref().len(), base.clone());
        Ok(Some(base))
    }

    fn row<S: Reads<R>>(&mut self, reads: &mut S, name: &Name) -> Result<Box<[u8]>, S::Error> {
        if let Some(row) = self.rows.get(name) {
            return Ok(row.clone());
        }
        let row = reads.row(name)?.into_boxed_slice();
        self.rows.put(*name, self.entry + ROW_BYTES, row.clone());
        Ok(row)
    }

    /// Whether a value may become a delta against a base, or share its record.
    ///
    /// False while compaction frees the base, and if the record that its row names cannot be read.  `cell_value`: of
    /// the base; empty if it is not stored yet.
    pub fn is_usable<S: Reads<R>>(&mut self, reads: &mut S, name: &Name, cell_value: &[u8]) -> Result<bool, S::Error> {
        if reads.is_retired(name)? {
            return Ok(false);
        }
        match self.rows.get(name) {
            Some(row) if !row.is_empty() && **row != *cell_value => reads.is_sound(row),
            _ => Ok(true),
        }
    }

    /// Make a page the newest of its path; gives the page before it if that is in another row.  No path is empty.
    pub fn replace_newest(&mut self, path: &[u8], page: &Pointer) -> Option<Pointer> {
        if path.is_empty() {
            return None;
        }
        let before = self.newest.get(path).cloned();
        self.newest.put(path.into(), self.entry + PAGE_BYTES + page.row_key.len(), page.clone());
        before.filter(|before| before.row_key != page.row_key)
    }

    /// Take the new values of the next commit; gives the rows of bases that it has to write: name and cell value.
    ///
    /// The stored row is not read: it may name any record with the bytes of the base, so it may be written again.
    pub fn prepare(&mut self, new: Vec<NewBase<R>>) -> &[(Name, Box<[u8]>)] {
        self.new = new;
        self.new_rows.clear();
        let mut places: HashMap<Name, usize> = HashMap::new();
        for NewBase { base, needs_row, .. } in &self.new {
            if !needs_row {
                continue;
            }
            if let Some(&place) = places.get(&base.name) {
                self.new_rows[place].1 = base.cell_value.clone();
            } else if self.rows.get(&base.name).is_none_or(|row| row.is_empty()) {
                places.insert(base.name, self.new_rows.len());
                self.new_rows.push((base.name, base.cell_value.clone()));
            }
        }
        &self.new_rows
    }

    /// After a commit that changed rows of bases with these names: it may have been that of `prepare`.
    pub fn follow<'a>(&mut self, mut changed: impl Iterator<Item = &'a [u8]>, is_sure: bool) {
        let (new, new_rows) = (std::mem::take(&mut self.new), std::mem::take(&mut self.new_rows));
        let mut own = 0;
        if !is_sure
            || !changed.all(|name| {
                own += 1;
                new_rows.iter().any(|(other, _)| other == name)
            })
        {
            return self.clear(); // compaction may have moved or freed bases
        }
        if own > 0 {
            for (name, row) in new_rows {
                self.rows.put(name, self.entry + ROW_BYTES, row);
            }
        }
        for NewBase { base, cell_value, .. } in new {
            let bytes = (*base.raw).as_ref().len();
            self.values.put(cell_value, self.entry + bytes, base);
        }
    }

    /// The commit of `prepare` is not made.
    pub fn drop_new(&mut self) {
        self.new.clear();
        self.new_rows.clear();
    }

    /// Clear the caches of stored values: others may have changed them.
    pub fn clear(&mut self) {
        self.values.clear();
        self.rows.clear();
    }
}

/// Whether a stored value has a length at which others may be deltas against it.
fn may_be_base(cell_value: &[u8]) -> bool {
    matches!(parse(cell_value), Some(Value::Ref(raw_bytes, _)) if raw_bytes <= LARGEST_BASE_BYTES as u64)
}
