//! A table of data as GFM has them.

use super::{code, number_in, Chosen};
use crate::names::*;
use crate::tokens::{mentions, Tag};

/// Columns that cells may span, and to which short rows are filled up.
const MOST_COLUMNS: usize = 100;
const MOST_SPAN: usize = 20;

/// The table that is an element, with the texts of its cells, as Markdown.
pub fn written(of: &Chosen, table: usize, mut texts: Vec<(usize, String)>) -> String {
    texts.sort_by_key(|(cell, _)| *cell);
    let mut texts = texts.into_iter().peekable();
    let mut rows = vec![Vec::new()];
    // By column: rows that a cell of a row before still spans.
    let mut spans: Vec<usize> = Vec::new();
    let mut has_head = false;
    for element in table + 1..of.page.parents.len() {
        if (of.page.parents[element] as usize) < table {
            break;
        }
        let name = of.page.tags[element].0;
        let is_first = rows.len() == 1;
        let row = rows.last_mut().expect("there is a row");
        if name == NAME_TR {
            spans.iter_mut().skip(row.len()).for_each(|rows| *rows = rows.saturating_sub(1));
            if row.iter().any(|cell: &String| !cell.is_empty()) {
                rows.push(Vec::new());
            } else {
                row.clear();
            }
        } else if name == NAME_TD || name == NAME_TH {
            let attributes = of.tags[of.page.starts[element] as usize].attributes(of.source);
            let span = |name| number_in(attributes, name).unwrap_or(1) as usize;
            while let Some(rows) = spans.get_mut(row.len()).filter(|rows| **rows != 0) {
                *rows -= 1;
                row.push(String::new());
            }
            let is_head = name == NAME_TH
                || of.page.tags[of.page.parents[of.page.parents[element] as usize] as usize].0 == NAME_THEAD;
            has_head = if is_first { is_head && (has_head || row.is_empty()) } else { has_head };
            let (first, columns, down) = (row.len(), span("colspan").clamp(1, MOST_SPAN), span("rowspan"));
            let mut text = String::new();
            while let Some((_, more)) = texts.next_if(|(cell, _)| *cell <= element) {
                text.extend([if text.is_empty() { "" } else { " " }, &more]);
            }
            row.push(text);
            row.resize(first + columns, String::new());
            if down > 1 && first + columns <= MOST_COLUMNS {
                spans.resize(spans.len().max(first + columns), 0);
                spans[first..first + columns].fill(down - 1);
            }
        }
    }
    rows.retain(|row| row.iter().any(|cell| !cell.is_empty()));
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    if !has_head {
        rows.insert(0, Vec::new());
    }
    let mut made = String::new();
    for (number, row) in rows.iter().enumerate() {
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

/// Whether the table that begins at a tag holds data, and no parts of the page.
pub fn is_data(source: &[u8], tags: &[Tag], number: usize) -> bool {
    let (mut row, mut columns, mut has_head) = (0, 0, false);
    for (at, tag) in tags.iter().enumerate().skip(number + 1) {
        match (tag.name >> 1, tag.name & 1 == 0) {
            (NAME_TABLE, false) => break,
            (NAME_TABLE | NAME_PRE | NAME_H1 | NAME_H2 | NAME_H3 | NAME_H4 | NAME_H5 | NAME_H6, _) => return false,
            (NAME_TR, true) => row = 0,
            (NAME_TD | NAME_TH, true) if code::is_gutter(source, tags, at) => return false,
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
