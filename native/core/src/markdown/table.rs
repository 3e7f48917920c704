//! A table of data, row by row, as GFM has them.

use crate::names::*;
use crate::tokens::{mentions, Tag};

/// Columns that cells may span, and to which short rows are filled up.
const MOST_COLUMNS: usize = 100;
const MOST_SPAN: usize = 20;

/// A table that is being read.
#[derive(Default)]
pub struct Table {
    /// The text of the cell that is being read.
    pub cell: Option<String>,
    rows: Vec<Vec<String>>,
    row: Vec<String>,
    /// By column: rows that a cell of a row before still spans.
    spans: Vec<usize>,
    /// The first row is a head.
    has_head: bool,
    /// All cells of the row are heads.
    is_head: bool,
}

impl Table {
    pub fn begin_row(&mut self, is_head: bool) {
        if !self.row.is_empty() {
            self.end_row();
        }
        self.is_head = true;
        self.has_head |= is_head && self.rows.is_empty();
    }

    pub fn begin_cell(&mut self) {
        while let Some(rows) = self.spans.get_mut(self.row.len()).filter(|rows| **rows != 0) {
            *rows -= 1;
            self.row.push(String::new());
        }
        self.cell = Some(String::new());
    }

    pub fn end_cell(&mut self, is_head: bool, columns: usize, rows: usize) {
        let (first, columns) = (self.row.len(), columns.clamp(1, MOST_SPAN));
        self.is_head &= is_head;
        self.row.push(self.cell.take().unwrap_or_default());
        self.row.resize(first + columns, String::new());
        if rows > 1 && first + columns <= MOST_COLUMNS {
            self.spans.resize(self.spans.len().max(first + columns), 0);
            self.spans[first..first + columns].fill(rows - 1);
        }
    }

    pub fn end_row(&mut self) {
        let row = std::mem::take(&mut self.row);
        self.spans.iter_mut().skip(row.len()).for_each(|rows| *rows = rows.saturating_sub(1));
        if row.iter().any(|cell| !cell.is_empty()) {
            self.has_head |= self.is_head && self.rows.is_empty();
            self.rows.push(row);
        }
    }

    /// The table as Markdown; "" without a row.
    pub fn written(mut self) -> String {
        self.end_row();
        let width = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        if width != 0 && !self.has_head {
            self.rows.insert(0, Vec::new());
        }
        let mut made = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let filled = if number == 0 { width } else { width.min(MOST_COLUMNS) };
            made.push_str(if number == 0 { "|" } else { "\n|" });
            for column in 0..row.len().max(filled) {
                let cell = row.get(column).map_or("", String::as_str);
                made.extend([" ", cell, if cell.is_empty() { "|" } else { " |" }]);
            }
            if number == 0 {
                made.push_str("\n|");
                made.push_str(&" --- |".repeat(width));
            }
        }
        made
    }
}

/// Whether the table that begins at a tag holds data, and no parts of the page.
pub fn is_data(source: &[u8], tags: &[Tag], number: usize) -> bool {
    let (mut row, mut columns, mut has_head) = (0, 0, false);
    for tag in &tags[number + 1..] {
        match (tag.name >> 1, tag.name & 1 == 0) {
            (NAME_TABLE, false) => break,
            (NAME_TABLE | NAME_PRE | NAME_H1 | NAME_H2 | NAME_H3 | NAME_H4 | NAME_H5 | NAME_H6, _) => return false,
            (NAME_TR, true) => row = 0,
            (NAME_TD | NAME_TH, true) => {
                row += 1;
                columns = columns.max(row);
                has_head |= tag.name >> 1 == NAME_TH;
            }
            _ => {}
        }
    }
    (columns > 1 || has_head) && !mentions(tags[number].attributes(source), b"presentation")
}
