//! A page as Markdown (CommonMark, with tables and struck text of GFM), of those blocks alone that are main text.
//!
//! One pass over the tags.  Open elements are on a stack; those that indent what is in them (items, quotes, definitions)
//! are containers, too, of which at most `MOST_CONTAINERS` count.  Each paragraph, heading, table and piece of code is
//! written when it ends, behind the marks of its containers.  Time is linear in the page: look-ups in the stack are
//! bounded by `REACH`.

mod addresses;
mod inline;

use std::ops::Range;

use crate::bytes::is_space;
use crate::flow::{fold_line, Source};
use crate::names::*;
use crate::page::values;
use crate::references::decode;
use crate::tokens::{mentions, Tag};
use crate::visible::Shown;
use addresses::Base;
use inline::{guarded, longest_run, push_address, push_tex, Inline, Place, CODE, EMPHASIS, STRONG, STRUCK};

const MOST_CONTAINERS: usize = 10;
/// Elements on top of the stack among which the one that an end tag closes is looked for.
const REACH: usize = 128;
/// Columns of a table that cells may span, and to which short rows are filled up.
const MOST_COLUMNS: usize = 100;
const MOST_SPAN: usize = 20;

const LISTS: [u32; 3] = [NAME_UL, NAME_OL, NAME_MENU];
const HEADINGS: [u32; 6] = [NAME_H1, NAME_H2, NAME_H3, NAME_H4, NAME_H5, NAME_H6];
/// Elements of which an end tag of another element outside closes none.
const TABLE_PARTS: [u32; 8] =
    [NAME_TABLE, NAME_THEAD, NAME_TBODY, NAME_TFOOT, NAME_TR, NAME_TD, NAME_TH, NAME_CAPTION];
/// Elements before which an open heading ends.
const END_HEADINGS: [u32; 9] =
    [NAME_P, NAME_UL, NAME_OL, NAME_DL, NAME_TABLE, NAME_PRE, NAME_SECTION, NAME_ARTICLE, NAME_BLOCKQUOTE];
/// Words of classes of line numbers and of buttons in source code.
const GUTTERS: [&str; 12] = [
    "linenos", "lineno", "linenodiv", "linenumber", "line-number", "line-numbers", "line-numbers-rows", "lnt", "ln",
    "gutter", "blob-num", "hljs-ln-numbers",
];
/// Words that stand in classes in the place of a language.
const NO_LANGUAGES: [&str; 9] =
    ["default", "none", "text", "plaintext", "plain", "notranslate", "source", "nohighlight", "txt"];

/// What is written as one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaf {
    Paragraph,
    Term,
    Other,
}

/// What the end of an element does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Nothing,
    Link { href: u32, place: usize },
    Skip,
    Code,
    Formula,
    Annotation,
    List,
    Cell { is_head: bool, columns: usize, rows: usize },
    Row,
    Table,
}

/// An open element, with what was so before it.
struct Open {
    element: u32,
    tag: u32,
    end: End,
    style: u8,
    link: u32,
    heading: u8,
    containers: usize,
}

/// What an open list numbers.
struct List {
    id: u32,
    /// The number of the next item; None for bullets.
    next: Option<u64>,
    /// Sign of its items, once one is written.
    sign: Option<char>,
    /// It has terms in a definition, which are items.
    is_of_terms: bool,
    /// Containers around it.
    containers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Quote,
    Definition,
    /// Place of its list, and its number.
    Item(usize, u64),
}

/// An element that indents what is in it.
struct Container {
    id: u32,
    holds: Holds,
    /// What stands before its lines; "" before its first one.
    indent: String,
}

/// Source code that is being read.
#[derive(Default)]
struct Code {
    text: Vec<u8>,
    language: String,
    /// The end of an element ended the last line, so that a line end behind it ends none.
    has_ended_line: bool,
    /// What of the text is in blocks that are left out.
    left_out: Vec<Range<usize>>,
}

/// A formula that is being read.
struct Formula {
    is_display: bool,
    tex: Option<String>,
    shown: String,
    is_kept: bool,
}

#[derive(Default)]
struct Table {
    rows: Vec<Vec<String>>,
    row: Vec<String>,
    /// By column: rows that a cell of a row before still spans.
    spans: Vec<usize>,
    /// The first row is the head.
    has_head: bool,
    is_head_row: bool,
    aligned: Vec<&'static str>,
    cell: Option<String>,
}

struct Writer<'a> {
    source: &'a [u8],
    tags: &'a [Tag],
    base: Base,
    /// The pieces that are main text, ascending, and the first that does not end before the piece at hand.
    kept: &'a [Range<u32>],
    next_kept: usize,
    /// The next piece with text, if it was looked for.
    ahead: usize,
    is_last_kept: bool,
    has_formulas: bool,
    shown: Option<Source>,
    out: String,
    inline: Inline,
    stack: Vec<Open>,
    counts: Vec<u32>,
    containers: Vec<Container>,
    lists: Vec<List>,
    ids: u32,
    /// Containers of the last block: id and sign; and what the block was.
    last: Vec<(u32, char)>,
    last_leaf: Leaf,
    style: u8,
    link: u32,
    heading: u8,
    skipped: usize,
    task: Option<bool>,
    code: Option<Code>,
    formula: Option<Formula>,
    last_tex: String,
    table: Option<Table>,
    is_data: Vec<bool>,
    tables_seen: usize,
}

/// The Markdown of a page.
///
/// # Arguments
/// * `url`: of the page; addresses are resolved against it and `base_href`.
/// * `kept`: the pieces of main text (see `Block::pieces`), ascending.
/// * `noscript`: noscript elements are shown.
pub fn markdown(
    source: &[u8],
    tags: &[Tag],
    kept: &[Range<u32>],
    noscript: bool,
    url: &str,
    base_href: Option<&str>,
) -> String {
    let has = |word: &str| memchr::memmem::find(source, word.as_bytes()).is_some();
    let mut inline = Inline::default();
    inline.keeps_formulas = has("athjax") || has("athJax") || has("arithmatex") || has("katex");
    let mut writer = Writer {
        source,
        tags,
        base: Base::new(url).with(base_href),
        kept,
        next_kept: 0,
        ahead: 0,
        is_last_kept: false,
        has_formulas: has("katex") || has("math/tex"),
        shown: Some(Source::Text),
        out: String::with_capacity(source.len() / 4),
        inline,
        stack: Vec::new(),
        counts: vec![0; KNOWN],
        containers: Vec::new(),
        lists: Vec::new(),
        ids: 0,
        last: Vec::new(),
        last_leaf: Leaf::Other,
        style: 0,
        link: 0,
        heading: 0,
        skipped: 0,
        task: None,
        code: None,
        formula: None,
        last_tex: String::new(),
        table: None,
        is_data: data_tables(source, tags),
        tables_seen: 0,
    };
    writer.read(noscript);
    writer.out
}

/// The lines of a text as paragraphs.
pub fn of_lines(text: &str) -> String {
    let mut made = String::new();
    for line in text.lines() {
        let mut inline = Inline::default();
        inline.push(line.replace('&', "&amp;").as_bytes(), 0, 0);
        let mut paragraph = String::new();
        inline.write(Place::Paragraph, &mut paragraph);
        if !paragraph.is_empty() {
            made.push_str(if made.is_empty() { "" } else { "\n" });
            push_guarded(&paragraph, &mut made);
            made.push('\n');
        }
    }
    made
}

/// Append a line, so that it is no other block than a paragraph.
fn push_guarded(line: &str, made: &mut String) {
    let place = guarded(line).unwrap_or(line.len());
    made.push_str(&line[..place]);
    made.push_str(if place < line.len() { "\\" } else { "" });
    made.push_str(&line[place..]);
}

impl Writer<'_> {
    fn read(&mut self, noscript: bool) {
        let mut shown = Shown::with(noscript);
        let first = self.tags.first().map_or(self.source.len(), |tag| tag.start as usize);
        self.text(0, 0..first, Source::Text);
        for (number, tag) in self.tags.iter().enumerate() {
            let raw = shown.pass(tag);
            self.shown = shown.text;
            if tag.name != NOTHING {
                self.tables_seen += usize::from(tag.name == NAME_TABLE << 1);
                if tag.name & 1 == 0 { self.start(number, tag) } else { self.end(tag.name >> 1) }
            }
            let piece = number as u32 + 1;
            if let Some(how) = raw {
                self.end_paragraph();
                self.code.get_or_insert_default();
                self.text(piece, tag.content as usize..tag.end as usize, how);
                self.end_code();
            }
            let end = self.tags.get(number + 1).map_or(self.source.len(), |next| next.start as usize);
            if let Some(how) = shown.text.filter(|_| (tag.end as usize) < end) {
                self.text(piece, tag.end as usize..end, how);
            }
        }
        while self.pop() {}
        self.end_paragraph();
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    // --- what is main text

    fn is_kept(&mut self, piece: u32) -> bool {
        while self.kept.get(self.next_kept).is_some_and(|range| range.end <= piece) {
            self.next_kept += 1;
        }
        self.kept.get(self.next_kept).is_some_and(|range| range.start <= piece)
    }

    /// Whether what has no text and stands right behind a tag is among main text: the texts before and behind it are.
    fn is_among_kept(&mut self, tag: usize) -> bool {
        if !self.is_last_kept {
            return false;
        }
        self.ahead = self.ahead.max(tag + 1);
        while self.ahead <= self.tags.len() && self.is_blank(self.ahead) {
            self.ahead += 1;
        }
        let next = self.ahead as u32;
        let range = self.kept[self.next_kept.min(self.kept.len())..].iter().find(|range| range.end > next);
        range.is_some_and(|range| range.start <= next)
    }

    fn is_blank(&self, piece: usize) -> bool {
        let start = self.tags[piece - 1].end as usize;
        let end = self.tags.get(piece).map_or(self.source.len(), |tag| tag.start as usize);
        self.source[start..end.max(start)].iter().all(|&byte| is_space(byte))
    }

    // --- texts

    fn text(&mut self, piece: u32, text: Range<usize>, how: Source) {
        if self.skipped != 0 {
            return;
        }
        let source = &self.source[text];
        let is_blank = source.iter().all(|&byte| is_space(byte));
        if is_blank && self.code.is_none() {
            self.inline.gap();
            return;
        }
        let is_kept = self.is_kept(piece);
        if let Some(formula) = &mut self.formula {
            formula.is_kept |= is_kept;
            let mut decoded = Vec::new();
            decode(source, false, &mut decoded);
            let decoded = String::from_utf8_lossy(&decoded);
            if self.stack.last().is_some_and(|open| open.end == End::Annotation) {
                formula.tex.get_or_insert_default().push_str(&decoded);
            } else {
                formula.shown.push(' ');
                formula.shown.push_str(&decoded);
            }
            return;
        }
        if let Some(code) = &mut self.code {
            let start = code.text.len();
            let skipped = usize::from(std::mem::take(&mut code.has_ended_line) && source.starts_with(b"\n"));
            let source = &source[skipped..];
            if how == Source::Literal {
                code.text.extend_from_slice(source);
            } else {
                decode(source, false, &mut code.text);
            }
            if !is_blank {
                self.is_last_kept = is_kept;
                if !is_kept {
                    code.left_out.push(start..code.text.len());
                }
            }
            return;
        }
        self.is_last_kept = is_kept;
        if is_kept {
            self.inline.push(source, self.style, self.link);
        }
    }

    fn end_paragraph(&mut self) {
        if self.formula.is_some() {
            return;
        }
        if self.inline.is_empty() {
            self.inline.clear();
            return;
        }
        let (task, mut made) = (self.task.take(), String::new());
        let cell = self.table.as_mut().and_then(|table| table.cell.as_mut());
        if let Some(cell) = cell {
            if !cell.is_empty() {
                cell.push(' ');
            }
            self.inline.write(Place::Cell, cell);
            self.inline.clear();
            return;
        }
        if self.heading != 0 {
            made.extend(std::iter::repeat_n('#', self.heading.into()));
            made.push(' ');
            self.inline.write(Place::Heading, &mut made);
            let bare = made.trim_end_matches('#').len();
            if made[..bare].ends_with(' ') && bare < made.len() {
                made.insert(bare, '\\');
            }
            self.inline.clear();
            if made.len() > usize::from(self.heading) + 1 {
                self.write(Leaf::Other, &made);
            }
            return;
        }
        self.inline.write(Place::Paragraph, &mut made);
        self.inline.clear();
        if made.is_empty() {
            return;
        }
        let mut safe = String::with_capacity(made.len() + 8);
        if let Some(is_done) = task {
            safe.push_str(if is_done { "[x] " } else { "[ ] " });
        }
        for (number, line) in made.split('\n').enumerate() {
            safe.push_str(if number == 0 { "" } else { "\n" });
            push_guarded(line, &mut safe);
        }
        self.write(if self.counts[NAME_DT as usize] != 0 { Leaf::Term } else { Leaf::Paragraph }, &safe);
    }

    // --- blocks

    /// Write a block of several lines behind the marks of its containers.
    fn write(&mut self, leaf: Leaf, block: &str) {
        let begun = self.containers.iter().take_while(|container| !container.indent.is_empty()).count();
        let is_close = self.is_close(leaf, begun);
        let mut indent: String = self.containers[..begun].iter().map(|container| container.indent.as_str()).collect();
        if !self.out.is_empty() {
            if !is_close {
                self.out.push('\n');
                self.out.push_str(indent.trim_end());
            }
            self.out.push('\n');
        }
        self.out.push_str(&indent);
        for place in begun..self.containers.len() {
            let mark = self.mark(place, is_close && place == begun && place + 1 == self.containers.len());
            self.out.push_str(&mark);
            let container = &mut self.containers[place];
            container.indent = if container.holds == Holds::Quote { mark } else { " ".repeat(mark.len()) };
            indent.push_str(&container.indent);
        }
        for (number, line) in block.split('\n').enumerate() {
            if number != 0 {
                self.out.push('\n');
                self.out.push_str(if line.is_empty() { indent.trim_end() } else { &indent });
            }
            self.out.push_str(line);
        }
        self.last_leaf = leaf;
        self.last.clear();
        for container in &self.containers {
            let sign = match container.holds {
                Holds::Item(list, _) => self.lists[list].sign.unwrap_or('-'),
                _ => '>',
            };
            self.last.push((container.id, sign));
        }
    }

    /// Whether a block follows the last one without an empty line.
    fn is_close(&self, leaf: Leaf, begun: usize) -> bool {
        let Some(container) = self.containers.get(begun) else { return false };
        let is_sibling = self.last.get(begun).is_some_and(|&(id, _)| id == container.id);
        let is_first = self.last.len() == begun;
        match container.holds {
            Holds::Quote => false,
            Holds::Definition => {
                leaf == Leaf::Paragraph
                    && ((is_first && self.last_leaf == Leaf::Term)
                        || (is_sibling && self.last.len() == begun + 1 && self.last_leaf == Leaf::Paragraph))
            }
            Holds::Item(list, number) => {
                let may_interrupt = self.lists[list].next.is_none() || number == 1;
                is_sibling || (is_first && begun != 0 && self.last_leaf == Leaf::Paragraph && may_interrupt)
            }
        }
    }

    /// The mark with which a container begins.
    fn mark(&mut self, place: usize, may_define: bool) -> String {
        match self.containers[place].holds {
            Holds::Quote => "> ".to_owned(),
            Holds::Definition => if may_define { ": " } else { "  " }.to_owned(),
            Holds::Item(list, number) => {
                // A list right behind another one has another sign, lest they be one.
                let before = self.last.get(place).filter(|(id, _)| *id != self.lists[list].id).map(|&(_, sign)| sign);
                let list = &mut self.lists[list];
                let signs = if list.next.is_some() { ['.', ')'] } else { ['-', '*'] };
                let sign = *list.sign.get_or_insert(if before == Some(signs[0]) { signs[1] } else { signs[0] });
                if list.next.is_some() { format!("{number}{sign} ") } else { format!("{sign} ") }
            }
        }
    }

    fn end_code(&mut self) {
        let Some(code) = self.code.take() else { return };
        let Code { mut text, language, left_out, .. } = code;
        let dropped: usize = left_out.iter().map(Range::len).sum();
        if dropped * 2 > text.len() {
            for range in left_out.into_iter().rev() {
                text[range].fill(0);
            }
            text.retain(|&byte| byte != 0);
        }
        let text = String::from_utf8_lossy(&text).replace("\r\n", "\n").replace('\r', "\n");
        let text = text.trim_end();
        let start = text.bytes().take_while(|&byte| byte == b'\n').count();
        let text = &text[start..];
        if text.is_empty() {
            return;
        }
        let fence = "`".repeat(longest_run(text, b'`').max(2) + 1);
        self.write(Leaf::Other, &format!("{fence}{language}\n{text}\n{fence}"));
    }

    fn end_formula(&mut self) {
        let Some(formula) = self.formula.take() else { return };
        if !formula.is_kept {
            return;
        }
        let tex = fold_line(&formula.tex.unwrap_or_default());
        if tex.is_empty() {
            let shown = formula.shown.replace('&', "&amp;");
            self.inline.push(shown.as_bytes(), self.style, self.link);
        } else {
            self.push_formula(&tex, formula.is_display);
        }
        self.is_last_kept = true;
    }

    fn push_formula(&mut self, tex: &str, is_display: bool) {
        let sign = if is_display { "$$" } else { "$" };
        let mut made = sign.to_owned();
        push_tex(tex, &mut made);
        made.push_str(sign);
        self.inline.push_made(&made, 0);
        self.last_tex = tex.to_owned();
    }

    fn end_table(&mut self) {
        let Some(Table { mut rows, has_head, aligned, .. }) = self.table.take() else { return };
        if rows.is_empty() {
            return;
        }
        if !has_head {
            rows.insert(0, Vec::new());
        }
        let width = rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut made = String::new();
        for (number, row) in rows.iter().enumerate() {
            let filled = if number == 0 { width } else { width.min(MOST_COLUMNS) };
            made.push('|');
            for column in 0..row.len().max(filled) {
                let cell = row.get(column).map_or("", String::as_str);
                made.push(' ');
                made.push_str(cell);
                made.push_str(if cell.is_empty() { "|" } else { " |" });
            }
            if number == 0 {
                made.push_str("\n|");
                for column in 0..width {
                    made.push_str(aligned.get(column).copied().unwrap_or(" --- |"));
                }
            }
            if number + 1 < rows.len() {
                made.push('\n');
            }
        }
        self.write(Leaf::Other, &made);
    }
}

impl Writer<'_> {
    // --- tags

    fn push(&mut self, element: u32, tag: usize, end: End) {
        if self.counts.len() <= element as usize {
            self.counts.resize(element as usize + 1, 0);
        }
        self.counts[element as usize] += 1;
        let (style, link, heading) = (self.style, self.link, self.heading);
        let containers = self.containers.len();
        self.stack.push(Open { element, tag: tag as u32, end, style, link, heading, containers });
    }

    /// Close the last open element; gives whether there was one.
    fn pop(&mut self) -> bool {
        let Some(open) = self.stack.last() else { return false };
        let (element, end) = (open.element, open.end);
        let is_inline = properties(element << 1) & INLINE != 0;
        if !is_inline && self.code.is_none() {
            self.end_paragraph();
        }
        match end {
            End::Nothing => {}
            End::Link { href, place } => {
                if place != usize::MAX && self.inline.len() >= place && self.has_fragment(href) {
                    self.inline.drop_sign(place);
                }
            }
            End::Skip => self.skipped -= 1,
            End::Code => self.end_code(),
            End::Formula => self.end_formula(),
            End::Annotation => {}
            End::List => drop(self.lists.pop()),
            End::Cell { is_head, columns, rows } => self.end_cell(is_head, columns, rows),
            End::Row => self.end_row(),
            End::Table => self.end_table(),
        }
        let Some(open) = self.stack.pop() else { return false };
        self.counts[element as usize] -= 1;
        (self.style, self.link, self.heading) = (open.style, open.link, open.heading);
        self.containers.truncate(open.containers);
        true
    }

    /// Close open elements up to the topmost of some names, unless one of others stands before it.
    fn close(&mut self, wanted: &[u32], barriers: &[u32]) {
        if wanted.iter().all(|&name| self.counts.get(name as usize).is_none_or(|&count| count == 0)) {
            return;
        }
        let near = self.stack.iter().rev().take(REACH);
        let mut place = 0;
        for open in near {
            place += 1;
            if wanted.contains(&open.element) {
                for _ in 0..place {
                    self.pop();
                }
                return;
            }
            if barriers.contains(&open.element) {
                return;
            }
        }
    }

    fn start(&mut self, number: usize, tag: &Tag) {
        let element = tag.name >> 1;
        let attributes = tag.attributes(self.source);
        let is_inline = properties(tag.name) & INLINE != 0;
        if self.formula.is_some() {
            if element as usize >= KNOWN || is_inline {
                return self.start_in_formula(number, tag);
            }
            while self.formula.is_some() && self.pop() {}
        }
        if self.code.is_some() {
            return self.start_in_code(number, tag);
        }
        if is_inline {
            return self.start_inline(number, tag);
        }
        match element {
            NAME_BR => {
                if self.inline.push_break() {
                    self.end_paragraph();
                }
                return;
            }
            NAME_IMG => return self.image(number, attributes),
            NAME_INPUT => {
                if self.counts[NAME_LI as usize] != 0 && self.inline.is_empty() && self.shown.is_some() {
                    let [kind, checked] = values(attributes, ["type", "checked"]);
                    self.task = kind.filter(|kind| kind.eq_ignore_ascii_case("checkbox")).map(|_| checked.is_some());
                }
                return self.inline.gap();
            }
            NAME_SCRIPT => {
                self.inline.gap();
                if self.has_formulas {
                    self.script(number, tag);
                }
                return;
            }
            NAME_HR => return self.end_paragraph(),
            _ => {}
        }
        if KINDS.get(element as usize).is_some_and(|kinds| kinds.0 == 6) {
            return self.inline.gap();
        }
        self.end_paragraph();
        self.close_implied(element);
        self.start_block(number, tag);
    }

    /// Close what a start tag of a block implies to be closed.
    fn close_implied(&mut self, element: u32) {
        let before = |open: &&Open| open.element == NAME_P || properties(open.element << 1) & INLINE == 0;
        if self.stack.iter().rev().take(REACH).find(before).is_some_and(|open| open.element == NAME_P) {
            self.close(&[NAME_P], &[]);
        }
        if self.heading != 0 && (END_HEADINGS.contains(&element) || HEADINGS.contains(&element)) {
            self.close(&HEADINGS, &TABLE_PARTS);
        }
        match element {
            NAME_LI => self.close(&[NAME_LI], &[NAME_UL, NAME_OL, NAME_MENU, NAME_TABLE]),
            NAME_DT | NAME_DD => self.close(&[NAME_DT, NAME_DD], &[NAME_DL, NAME_TABLE]),
            NAME_TD | NAME_TH => self.close(&[NAME_TD, NAME_TH], &[NAME_TABLE, NAME_TR]),
            NAME_TR => self.close(&[NAME_TR], &[NAME_TABLE]),
            NAME_THEAD | NAME_TBODY | NAME_TFOOT => self.close(&[NAME_THEAD, NAME_TBODY, NAME_TFOOT], &[NAME_TABLE]),
            _ => {}
        }
    }

    fn start_block(&mut self, number: usize, tag: &Tag) {
        let element = tag.name >> 1;
        let attributes = tag.attributes(self.source);
        let is_data = self.table.is_some();
        let mut end = End::Nothing;
        match element {
            NAME_PRE | NAME_LISTING => end = End::Code,
            NAME_UL | NAME_OL | NAME_MENU | NAME_DL => end = End::List,
            NAME_TABLE if self.is_data[self.tables_seen - 1] && !is_data => end = End::Table,
            NAME_TR if is_data => end = End::Row,
            NAME_TD | NAME_TH if is_data => {
                let [columns, rows] = values(attributes, ["colspan", "rowspan"]);
                let span = |value: Option<String>| value.and_then(|value| value.trim().parse().ok()).unwrap_or(1);
                let (columns, rows) = (usize::clamp(span(columns), 1, MOST_SPAN), span(rows));
                end = End::Cell { is_head: element == NAME_TH, columns, rows };
            }
            NAME_TD | NAME_TH if is_gutter(attributes) => end = End::Skip,
            _ => {}
        }
        self.push(element, number, end);
        match (element, end) {
            (_, End::Skip) => self.skipped += 1,
            (_, End::Code) => {
                let language = self.language(attributes);
                self.code = Some(Code { language, ..Code::default() });
            }
            (_, End::List) => {
                let start = if element == NAME_OL { number_in(attributes, "start") } else { None };
                let next = (element == NAME_OL).then(|| start.unwrap_or(1));
                let is_of_terms = element == NAME_DL && self.containers.iter().any(|each| each.holds == Holds::Definition);
                self.ids += 1;
                self.lists.push(List { id: self.ids, next, sign: None, is_of_terms, containers: self.containers.len() });
            }
            (_, End::Table) => self.table = Some(Table::default()),
            (_, End::Row) => self.begin_row(),
            (_, End::Cell { .. }) => self.begin_cell(attributes),
            (NAME_LI, _) => {
                if !self.stack.iter().rev().skip(1).take(REACH).any(|open| LISTS.contains(&open.element)) {
                    return;
                }
                self.task = None;
                let value = number_in(attributes, "value");
                let Some(place) = self.lists.len().checked_sub(1) else { return };
                let list = &mut self.lists[place];
                let number = value.or(list.next).unwrap_or(0);
                list.next = list.next.map(|_| (number + 1).min(999_999_999));
                let id = list.id;
                self.contain(id, Holds::Item(place, number));
            }
            (NAME_BLOCKQUOTE, _) => {
                self.ids += 1;
                self.contain(self.ids, Holds::Quote);
            }
            (NAME_DT, _) => {
                let Some(list) = self.lists.last().filter(|list| list.is_of_terms) else { return };
                let (id, place, containers) = (list.id, self.lists.len() - 1, list.containers);
                self.containers.truncate(containers);
                self.contain(id, Holds::Item(place, 0));
                // The definitions behind the term are in its item.
                let length = self.containers.len();
                if let Some(open) = self.stack.last_mut() {
                    open.containers = length;
                }
            }
            (NAME_DD, _) => {
                if let Some(list) = self.lists.last().filter(|list| !list.is_of_terms) {
                    self.contain(list.id, Holds::Definition);
                }
            }
            _ => {
                if let Some(level) = HEADINGS.iter().position(|&name| name == element) {
                    self.heading = level as u8 + 1;
                }
            }
        }
    }

    fn contain(&mut self, id: u32, holds: Holds) {
        if self.containers.len() < MOST_CONTAINERS && self.table.is_none() {
            self.containers.push(Container { id, holds, indent: String::new() });
        }
    }

    fn start_inline(&mut self, number: usize, tag: &Tag) {
        let element = tag.name >> 1;
        let attributes = tag.attributes(self.source);
        let style = match element {
            NAME_A => return self.start_link(number, attributes),
            NAME_MATH => {
                let is_display = mentions(attributes, b"block");
                return self.start_formula(element, number, is_display);
            }
            NAME_SPAN if self.has_formulas => {
                if mentions(attributes, b"katex") {
                    return self.start_formula(element, number, mentions(attributes, b"katex-display"));
                }
                let is_preview = mentions(attributes, b"MathJax") && has_word(attributes, &["mathjax", "mathjax_preview", "mathjax_display", "mathjax_svg", "mathjax_chtml"]);
                if is_preview || self.skipped != 0 || self.counts[NAME_SPAN as usize] != 0 {
                    self.push(element, number, if is_preview { End::Skip } else { End::Nothing });
                    self.skipped += usize::from(is_preview);
                }
                return;
            }
            NAME_STRONG | NAME_B => STRONG,
            NAME_EM | NAME_I => EMPHASIS,
            NAME_DEL | NAME_S | NAME_STRIKE => STRUCK,
            NAME_CODE | NAME_KBD | NAME_SAMP | NAME_TT => CODE,
            _ => return,
        };
        self.push(element, number, End::Nothing);
        if self.style & CODE == 0 {
            self.style |= style;
        }
    }

    fn start_link(&mut self, number: usize, attributes: &[u8]) {
        self.close(&[NAME_A], &TABLE_PARTS);
        let [href] = values(attributes, ["href"]);
        let place = if href.is_some() { self.inline.len() } else { usize::MAX };
        let address = href.and_then(|href| self.base.resolve(&href));
        self.push(NAME_A, number, End::Link { href: number as u32, place });
        self.link = 0;
        if let Some(address) = address {
            self.inline.links.push(address);
            self.link = self.inline.links.len() as u32;
        }
    }

    fn has_fragment(&self, tag: u32) -> bool {
        self.tags[tag as usize].attributes(self.source).contains(&b'#')
    }

    fn start_formula(&mut self, element: u32, number: usize, is_display: bool) {
        let is_kept = self.is_among_kept(number);
        self.push(element, number, End::Formula);
        self.formula = Some(Formula { is_display, tex: None, shown: String::new(), is_kept });
    }

    fn start_in_formula(&mut self, number: usize, tag: &Tag) {
        let attributes = tag.attributes(self.source);
        let mut end = End::Nothing;
        if tag.name(self.source).eq_ignore_ascii_case(b"annotation") && mentions(attributes, b"tex") {
            end = End::Annotation;
        } else if tag.name >> 1 == NAME_MATH && mentions(attributes, b"block") {
            if let Some(formula) = &mut self.formula {
                formula.is_display = true;
            }
        }
        self.push(tag.name >> 1, number, end);
    }

    fn start_in_code(&mut self, number: usize, tag: &Tag) {
        let element = tag.name >> 1;
        let attributes = tag.attributes(self.source);
        let Some(code) = &mut self.code else { return };
        if element == NAME_BR {
            code.text.push(b'\n');
        } else if element == NAME_CODE && code.language.is_empty() {
            code.language = language_of(attributes).unwrap_or_default();
        }
        let kinds = KINDS.get(element as usize).copied().unwrap_or((0, 0));
        if matches!(kinds.0, 2 | 6) {
            return;
        }
        let is_inline = properties(tag.name) & INLINE != 0;
        if is_line(element) {
            self.end_line();
        }
        let is_skipped = element == NAME_BUTTON || is_gutter(attributes);
        if !is_inline || is_skipped || self.counts[element as usize] != 0 {
            self.push(element, number, if is_skipped { End::Skip } else { End::Nothing });
            self.skipped += usize::from(is_skipped);
        }
    }

    /// End a line of code, unless it is empty.
    fn end_line(&mut self) {
        if let Some(code) = self.code.as_mut().filter(|code| code.text.last().is_some_and(|&last| last != b'\n')) {
            code.text.push(b'\n');
            code.has_ended_line = true;
        }
    }

    fn end(&mut self, element: u32) {
        let is_inline = properties(element << 1) & INLINE != 0;
        if self.code.is_some() {
            if is_line(element) && element != NAME_PRE {
                self.end_line();
            }
        } else if !is_inline && properties(element << 1) & RAW == 0 && element != NAME_BR {
            self.end_paragraph();
        }
        if self.counts.get(element as usize).is_none_or(|&count| count == 0) {
            return;
        }
        if !is_inline {
            let is_part = TABLE_PARTS.contains(&element);
            return self.close(&[element], if is_part { &[] } else { &TABLE_PARTS });
        }
        let is_end = |open: &Open| open.element == element || properties(open.element << 1) & INLINE == 0;
        let near = self.stack.iter().rev().take(REACH).position(is_end);
        let Some(place) = near.map(|place| self.stack.len() - 1 - place) else { return };
        if self.stack[place].element == element || self.formula.is_some() {
            self.close(&[element], &TABLE_PARTS);
        } else if element == NAME_A {
            self.link = 0;
        } else {
            self.style = 0;
        }
    }

    // --- what has no text

    fn image(&mut self, number: usize, attributes: &[u8]) {
        self.inline.gap();
        if self.shown.is_none() || self.skipped != 0 || !self.is_image_kept(number) {
            return;
        }
        let [alt, src, late, class] = values(attributes, ["alt", "src", "data-src", "class"]);
        let alt = fold_line(&alt.unwrap_or_default());
        if alt.is_empty() {
            return;
        }
        let class = class.unwrap_or_default();
        if class.contains("math-fallback") || class.split(' ').any(|word| matches!(word, "tex" | "latex" | "math")) {
            let tex = alt.strip_prefix("{\\displaystyle ").and_then(|tex| tex.strip_suffix('}')).unwrap_or(&alt).trim();
            if !self.last_tex.contains(tex) {
                self.push_formula(tex, false);
            }
            return self.inline.gap();
        }
        let mut made = "![".to_owned();
        for character in alt.chars() {
            if matches!(character, '[' | ']' | '\\' | '`' | '<') {
                made.push('\\');
            }
            made.push(character);
        }
        made.push_str("](");
        let address = [src, late].into_iter().flatten().find_map(|address| self.base.resolve(&address));
        push_address(&address.unwrap_or_default(), &mut made);
        made.push(')');
        self.inline.push_made(&made, self.link);
        self.inline.gap();
    }

    /// Whether an image is within a block of main text, or between two.
    fn is_image_kept(&mut self, number: usize) -> bool {
        let (before, behind) = (number as u32, number as u32 + 1);
        let range = self.is_kept(before).then(|| self.kept[self.next_kept].clone());
        range.is_some_and(|range| range.end > behind) || self.is_among_kept(number)
    }

    fn script(&mut self, number: usize, tag: &Tag) {
        let [kind] = values(tag.attributes(self.source), ["type"]);
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        if kind.starts_with("math/tex") && self.skipped == 0 && self.is_among_kept(number) {
            let tex = fold_line(&String::from_utf8_lossy(tag.content(self.source)));
            self.push_formula(&tex, kind.contains("display"));
        }
    }

    // --- tables

    fn begin_row(&mut self) {
        let is_head_row = self.counts[NAME_THEAD as usize] != 0;
        if let Some(table) = &mut self.table {
            table.row.clear();
            table.is_head_row = true;
            table.has_head |= is_head_row && table.rows.is_empty();
        }
    }

    fn begin_cell(&mut self, attributes: &[u8]) {
        let Some(table) = &mut self.table else { return };
        while table.spans.get(table.row.len()).is_some_and(|&rows| rows != 0) {
            table.spans[table.row.len()] -= 1;
            table.row.push(String::new());
        }
        if table.rows.is_empty() && mentions(attributes, b"align") {
            let [align, style] = values(attributes, ["align", "style"]);
            let said = align.unwrap_or_default() + &style.unwrap_or_default();
            let sign = [("right", " ---: |"), ("center", " :---: |"), ("left", " :--- |")];
            let sign = sign.into_iter().find(|(word, _)| said.contains(word)).map_or(" --- |", |(_, sign)| sign);
            table.aligned.resize(table.row.len().min(MOST_COLUMNS), " --- |");
            table.aligned.push(sign);
        }
        table.cell = Some(String::new());
    }

    fn end_cell(&mut self, is_head: bool, columns: usize, rows: usize) {
        let Some(table) = &mut self.table else { return };
        let first = table.row.len();
        table.is_head_row &= is_head;
        table.row.push(table.cell.take().unwrap_or_default());
        table.row.resize(first + columns, String::new());
        if rows > 1 && first + columns <= MOST_COLUMNS {
            let length = table.spans.len().max(first + columns);
            table.spans.resize(length, 0);
            table.spans[first..first + columns].fill(rows - 1);
        }
    }

    fn end_row(&mut self) {
        let Some(table) = &mut self.table else { return };
        let row = std::mem::take(&mut table.row);
        for rows in table.spans.iter_mut().skip(row.len()) {
            *rows = rows.saturating_sub(1);
        }
        if row.iter().all(String::is_empty) {
            return;
        }
        if table.rows.is_empty() {
            table.has_head |= table.is_head_row;
        }
        table.rows.push(row);
    }

    // --- source code

    /// The language of source code, by its classes and those of the elements around it.
    fn language(&self, attributes: &[u8]) -> String {
        let around = self.stack.iter().rev().skip(1).take(6);
        let around = around.take_while(|open| !matches!(open.element, NAME_LI | NAME_BODY | NAME_ARTICLE | NAME_MAIN));
        let all = around.map(|open| self.tags[open.tag as usize].attributes(self.source));
        std::iter::once(attributes).chain(all).find_map(language_of).unwrap_or_default()
    }
}

/// The language that a class names.
fn language_of(attributes: &[u8]) -> Option<String> {
    if attributes.is_empty() {
        return None;
    }
    let [class, lang, language] = values(attributes, ["class", "data-lang", "data-language"]);
    let class = class.unwrap_or_default();
    let mut found = lang.or(language);
    let mut before = "";
    for word in class.split_ascii_whitespace() {
        let prefixed = ["language-", "lang-", "highlight-source-", "highlight-"].iter();
        let named = prefixed.filter_map(|prefix| word.strip_prefix(prefix)).next();
        let follows = matches!(before, "brush:" | "sourceCode" | "hljs" | "highlight" | "code");
        let named = named.or_else(|| (follows && !word.contains(['-', '_'])).then_some(word));
        found = found.or_else(|| named.map(|name| name.trim_end_matches(';').to_owned()));
        before = word;
    }
    let is_fit = |name: &String| {
        let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"+#._-".contains(&byte);
        !name.is_empty() && name.len() <= 24 && name.bytes().all(is_sign) && !NO_LANGUAGES.contains(&name.as_str())
    };
    found.map(|name| name.to_ascii_lowercase()).filter(is_fit)
}

/// Whether an element holds line numbers.
fn is_gutter(attributes: &[u8]) -> bool {
    let is_likely = ["ln", "line", "gutter", "-num"].iter().any(|word| mentions(attributes, word.as_bytes()));
    is_likely && has_word(attributes, &GUTTERS)
}

/// Whether an element stands on lines of its own.
fn is_line(element: u32) -> bool {
    KINDS.get(element as usize).is_some_and(|kinds| matches!(kinds.0, 0 | 5))
}

/// Whether a class has one of some words, in any case.
fn has_word(attributes: &[u8], words: &[&str]) -> bool {
    if attributes.is_empty() {
        return false;
    }
    let [class] = values(attributes, ["class"]);
    class.is_some_and(|class| class.split_ascii_whitespace().any(|word| words.iter().any(|each| word.eq_ignore_ascii_case(each))))
}

fn number_in(attributes: &[u8], name: &str) -> Option<u64> {
    let [value] = values(attributes, [name]);
    value.and_then(|value| value.trim().parse().ok()).filter(|&number: &u64| number <= 999_999_999)
}

/// Of each table, in order: whether it holds data, and no parts of the page.
fn data_tables(source: &[u8], tags: &[Tag]) -> Vec<bool> {
    struct Seen {
        number: usize,
        row: usize,
        columns: usize,
        has_head: bool,
        is_layout: bool,
    }
    let mut found = Vec::new();
    let mut open: Vec<Seen> = Vec::new();
    let mut finish = |seen: Seen, found: &mut Vec<bool>| {
        found[seen.number] = !seen.is_layout && (seen.columns > 1 || seen.has_head);
    };
    for tag in tags {
        let element = tag.name >> 1;
        let Some(seen) = open.last_mut() else {
            if tag.name == NAME_TABLE << 1 {
                let is_layout = mentions(tag.attributes(source), b"presentation");
                open.push(Seen { number: found.len(), row: 0, columns: 0, has_head: false, is_layout });
                found.push(false);
            }
            continue;
        };
        match (element, tag.name & 1 == 0) {
            (NAME_TABLE, true) => {
                seen.is_layout = true;
                let is_layout = mentions(tag.attributes(source), b"presentation");
                open.push(Seen { number: found.len(), row: 0, columns: 0, has_head: false, is_layout });
                found.push(false);
            }
            (NAME_TABLE, false) => {
                if let Some(seen) = open.pop() {
                    finish(seen, &mut found);
                }
            }
            (NAME_TR, true) => seen.row = 0,
            (NAME_TD | NAME_TH, true) => {
                seen.row += 1;
                seen.columns = seen.columns.max(seen.row);
                seen.has_head |= element == NAME_TH;
            }
            (NAME_PRE | NAME_H1 | NAME_H2 | NAME_H3 | NAME_H4 | NAME_H5 | NAME_H6, true) => seen.is_layout = true,
            _ => {}
        }
    }
    while let Some(seen) = open.pop() {
        finish(seen, &mut found);
    }
    found
}
