//! The rows of a commit in one piece of memory, with their cells as LevelDB has them; see `keys`.
//!
//! It has cells that are set, and no deletes.

use std::ops::Range;

use crate::format::{CAPTURE_FAMILY, FAMILY_END, KEY_END, KEY_KIND_CELL, TABLE_TAGS};
use crate::keys::{column_of, push_cell, push_escaped, row_key_of, table, timestamp_of, TIMESTAMP_BYTES};

/// Bytes of the longest value of a cell.
pub const LARGEST_CELL_BYTES: usize = 1 << 20;

/// A row: its prefix, and its cells.
#[derive(Clone)]
struct PackedRow {
    prefix: Range<usize>,
    cells: Range<usize>,
}

/// Rows of cells, in order.  A row may come several times.
#[derive(Clone, Default)]
pub struct PackedRows {
    bytes: Vec<u8>,
    rows: Vec<PackedRow>,
    /// Key and value of each cell.
    cells: Vec<(Range<usize>, Range<usize>)>,
    /// The only family of the row that was begun last, if its table is bare.
    bare: Option<&'static str>,
}

/// One row of them.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// Its name.
    pub table: &'static str,
    pub prefix: &'a [u8],
    packed: &'a PackedRows,
    row: &'a PackedRow,
}

/// A cell as a mutation has it.
#[derive(Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    pub family: &'a str,
    pub qualifier: Vec<u8>,
    pub timestamp: u64,
    pub value: &'a [u8],
}

impl PackedRows {
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Begin a row; None if there is no such table.
    pub fn begin_row(&mut self, name: &str, row_key: &[u8]) -> Option<()> {
        let (tag, bare) = table(name)?;
        self.bare = bare;
        let (start, cells) = (self.bytes.len(), self.cells.len());
        self.bytes.push(tag);
        push_escaped(&mut self.bytes, row_key);
        self.rows.push(PackedRow { prefix: start..self.bytes.len(), cells: cells..cells });
        Some(())
    }

    /// Add a cell to the row that was begun last; None if its table does not take it.
    pub fn add_cell(&mut self, family: &str, qualifier: &[u8], timestamp: u64, value: &[u8]) -> Option<()> {
        let row = self.rows.last_mut()?;
        let start = self.bytes.len();
        self.bytes.extend_from_within(row.prefix.clone());
        if let Some(only) = self.bare {
            if timestamp != 0 || !value.is_empty() || family != only {
                return None;
            }
            self.bytes.extend_from_slice(qualifier);
        } else {
            if value.len() > LARGEST_CELL_BYTES || family.is_empty() || family.as_bytes().contains(&FAMILY_END) {
                return None;
            }
            push_cell(&mut self.bytes, family.as_bytes(), qualifier, timestamp)?;
        }
        let end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.cells.push((start..end, end..self.bytes.len()));
        row.cells.end = self.cells.len();
        Some(())
    }

    /// Take the row back that was begun last.
    pub fn undo_row(&mut self) {
        if let Some(row) = self.rows.pop() {
            self.cells.truncate(row.cells.start);
            self.bytes.truncate(row.prefix.start);
        }
    }

    /// Add the rows of others.
    pub fn extend(&mut self, others: &Self) {
        let moved = |range: &Range<usize>, by: usize| range.start + by..range.end + by;
        let (bytes, cells) = (self.bytes.len(), self.cells.len());
        self.bytes.extend_from_slice(&others.bytes);
        self.cells.extend(others.cells.iter().map(|(key, value)| (moved(key, bytes), moved(value, bytes))));
        let row = |row: &PackedRow| PackedRow { prefix: moved(&row.prefix, bytes), cells: moved(&row.cells, cells) };
        self.rows.extend(others.rows.iter().map(row));
    }

    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().filter_map(|row| {
            let prefix = &self.bytes[row.prefix.clone()];
            let (table, _) = TABLE_TAGS.iter().find(|(_, tag)| prefix.first() == Some(tag))?;
            Some(Row { table, prefix, packed: self, row })
        })
    }

    /// Key and value of each cell, in order, as LevelDB has them.
    pub fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.cells.iter().map(|(key, value)| (&self.bytes[key.clone()], &self.bytes[value.clone()]))
    }
}

impl<'a> Row<'a> {
    pub fn row_key(&self) -> Vec<u8> {
        row_key_of(self.prefix)
    }

    /// The first byte of its row key; None for an empty one.
    pub fn kind(&self) -> Option<u8> {
        self.prefix.get(1).copied().filter(|_| self.prefix.len() > 1 + KEY_END.len())
    }

    /// Its cells.
    pub fn cells(self) -> impl Iterator<Item = Cell<'a>> {
        let bare = table(self.table).and_then(|(_, bare)| bare);
        self.packed.cells[self.row.cells.clone()].iter().filter_map(move |(key, value)| {
            let (rest, value) = (&self.packed.bytes[key.start + self.prefix.len()..key.end], value.clone());
            let value = &self.packed.bytes[value];
            if let Some(family) = bare {
                return Some(Cell { family, qualifier: rest.to_vec(), timestamp: 0, value });
            }
            let (name, stamp) = rest.split_at_checked(rest.len().checked_sub(TIMESTAMP_BYTES)?)?;
            let (family, qualifier) = column_of(name.strip_prefix(&[KEY_KIND_CELL])?)?;
            Some(Cell { family, qualifier, timestamp: timestamp_of(stamp), value })
        })
    }

    /// Whether it is of pages and has a capture record.
    pub fn has_capture(self) -> bool {
        let head = [&[KEY_KIND_CELL], CAPTURE_FAMILY.as_bytes(), &[FAMILY_END]].concat();
        let mut keys = self.packed.cells[self.row.cells.clone()].iter().map(|(key, _)| key.clone());
        self.table == "pages" && keys.any(|key| self.packed.bytes[key][self.prefix.len()..].starts_with(&head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Unpacked<'a> = Vec<(&'static str, Vec<u8>, Vec<Cell<'a>>)>;

    fn unpacked(rows: &PackedRows) -> Unpacked<'_> {
        rows.rows().map(|row| (row.table, row.row_key(), row.cells().collect())).collect()
    }

    fn cell<'a>(family: &'a str, qualifier: &[u8], timestamp: u64, value: &'a [u8]) -> Cell<'a> {
        Cell { family, qualifier: qualifier.to_vec(), timestamp, value }
    }

    #[test]
    fn rows_come_back_as_they_were_added() {
        let mut rows = PackedRows::default();
        rows.begin_row("pages", b"a\0b").expect("a table");
        rows.add_cell("capture", b"", 5, b"record").expect("it fits");
        rows.add_cell("f", b"q\0\x01", 0, b"").expect("it fits");
        rows.begin_row("postings", b"\x01\0").expect("a table");
        rows.add_cell("p", b"\0\0q", 0, b"").expect("it fits");
        rows.begin_row("meta", b"empty").expect("a table");
        let mut more = PackedRows::default();
        more.begin_row("pages", b"c").expect("a table");
        more.add_cell("anchor", b"x", 7, b"text").expect("it fits");
        rows.extend(&more);
        assert_eq!(
            unpacked(&rows),
            [
                ("pages", b"a\0b".to_vec(), vec![cell("capture", b"", 5, b"record"), cell("f", b"q\0\x01", 0, b"")]),
                ("postings", b"\x01\0".to_vec(), vec![cell("p", b"\0\0q", 0, b"")]),
                ("meta", b"empty".to_vec(), vec![]),
                ("pages", b"c".to_vec(), vec![cell("anchor", b"x", 7, b"text")]),
            ]
        );
        assert_eq!(rows.rows().map(Row::has_capture).collect::<Vec<_>>(), [true, false, false, false]);
        assert_eq!(rows.rows().map(|row| row.kind()).collect::<Vec<_>>(), [b'a', 1, b'e', b'c'].map(Some));
        assert_eq!(rows.row_count(), 4);
        let (key, value) = rows.pairs().next().expect("a pair");
        assert!(key.starts_with(b"\x02a\0\xffb\0\x01\x03capture\0") && value == b"record");
    }

    #[test]
    fn what_a_table_does_not_take_is_refused() {
        let mut rows = PackedRows::default();
        assert_eq!(rows.begin_row("none", b"a"), None);
        assert_eq!(rows.add_cell("f", b"", 0, b""), None, "no row was begun");
        rows.begin_row("postings", b"a").expect("a table");
        for (family, timestamp, value) in [("q", 0, &b""[..]), ("p", 1, b""), ("p", 0, b"x")] {
            assert_eq!(rows.add_cell(family, b"", timestamp, value), None);
        }
        rows.begin_row("pages", b"a").expect("a table");
        let long = vec![0; LARGEST_CELL_BYTES + 1];
        for (family, timestamp, value) in [("", 0, &b""[..]), ("a\0", 0, b""), ("f", u64::MAX, b""), ("f", 0, &long)] {
            assert_eq!(rows.add_cell(family, b"", timestamp, value), None);
        }
        assert_eq!(rows.add_cell("f", b"", 0, &long[1..]), Some(()));
        rows.undo_row();
        assert_eq!((rows.row_count(), rows.pairs().count()), (1, 0));
    }
}
