//! A page as Markdown (CommonMark, with tables and struck text of GFM), of those blocks alone that are main text.
//!
//! One pass over the tags.  Open elements are on a stack; items and quotes, which indent what is in them, are containers,
//! too, of which at most `MOST_CONTAINERS` count.  Each paragraph, heading, table and piece of code is written when it
//! ends, behind the marks of its containers.  Time is linear in the page: look-ups in the stack are bounded by `REACH`.

mod addresses;
mod inline;
mod table;

use std::ops::Range;

use crate::bytes::is_space;
use crate::flow::{fold_line, Source};
use crate::names::*;
use crate::page::values;
use crate::references::decode;
use crate::tokens::{mentions, Tag};
use crate::visible::Shown;
use addresses::Base;
use inline::{guarded, longest_run, push_tex, Inline, Place, CODE, EMPHASIS, STRONG, STRUCK};
use table::Table;

const MOST_CONTAINERS: usize = 10;
/// Elements on top of the stack among which the one that an end tag closes is looked for.
const REACH: usize = 128;
const MOST_NUMBER: u64 = 999_999_999;

const HEADINGS: [u32; 6] = [NAME_H1, NAME_H2, NAME_H3, NAME_H4, NAME_H5, NAME_H6];
/// Elements before which an open heading ends, beside headings.
const END_HEADINGS: [u32; 8] = [NAME_P, NAME_UL, NAME_OL, NAME_DL, NAME_TABLE, NAME_PRE, NAME_SECTION, NAME_BLOCKQUOTE];
/// Elements of which the end tag of another element outside closes none.
const TABLE_PARTS: [u32; 8] = [NAME_TABLE, NAME_THEAD, NAME_TBODY, NAME_TFOOT, NAME_TR, NAME_TD, NAME_TH, NAME_CAPTION];
/// Words in classes of line numbers.
const GUTTERS: [&str; 8] = ["linenos", "lineno", "linenumber", "line-number", "lnt", "ln", "gutter", "hljs-ln-numbers"];
/// Words that stand in classes in the place of a language.
const NO_LANGUAGES: [&str; 8] =
    ["default", "none", "text", "plaintext", "notranslate", "source", "nohighlight", "highlight"];

/// What the end of an element does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Nothing,
    /// Its content since that place of the paragraph goes if it is a sign.
    Sign(usize),
    Skip,
    Code,
    Formula,
    Annotation,
    List,
    Cell {
        is_head: bool,
        columns: usize,
        rows: usize,
    },
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

/// An open list; of definitions, too, whose terms are items.
struct List {
    id: u32,
    /// The number of the next item; None for bullets.
    next: Option<u64>,
    /// Sign of its items, once one is written.
    sign: Option<char>,
    /// Containers around it.
    containers: usize,
}

/// An element that indents what is in it.
struct Container {
    id: u32,
    /// Of an item: the place of its list, and its number.
    item: Option<(usize, u64)>,
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
    tex: String,
    shown: String,
    is_kept: bool,
}

#[derive(Default)]
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
    is_shown: bool,
    out: String,
    inline: Inline,
    stack: Vec<Open>,
    /// By name: how many elements are open.
    counts: Vec<u32>,
    containers: Vec<Container>,
    lists: Vec<List>,
    ids: u32,
    /// Containers of the last block: id and sign.
    last: Vec<(u32, char)>,
    is_last_paragraph: bool,
    style: u8,
    /// The number of the open link's tag, plus one; and of the link used last, with its number in `Inline::links`.
    link: u32,
    last_link: (u32, u32),
    heading: u8,
    skipped: usize,
    code: Option<Code>,
    formula: Option<Formula>,
    last_tex: String,
    table: Option<Table>,
}

/// The Markdown of a page.
///
/// # Arguments
/// * `kept`: the pieces of main text (see `Block::pieces`), ascending.
/// * `noscript`: noscript elements are shown.
/// * `url`: of the page; addresses are resolved against it and `base_href`.
pub fn markdown(
    source: &[u8],
    tags: &[Tag],
    kept: &[Range<u32>],
    noscript: bool,
    url: &str,
    base_href: Option<&str>,
) -> String {
    let has = |word: &str| memchr::memmem::find(source, word.as_bytes()).is_some();
    let mut writer = Writer {
        source,
        tags,
        base: Base::new(url).with(base_href),
        kept,
        has_formulas: has("katex") || has("math/tex"),
        is_shown: true,
        counts: vec![0; KNOWN],
        ..Writer::default()
    };
    writer.inline.keeps_formulas = ["athjax", "athJax", "atex"].into_iter().any(has);
    writer.read(noscript);
    writer.out
}

/// The lines of a text as paragraphs.
pub fn of_lines(text: &str) -> String {
    let mut writer = Writer::default();
    for line in text.lines() {
        writer.inline.push(line.replace('&', "&amp;").as_bytes(), 0, 0);
        writer.end_paragraph();
    }
    writer.finish();
    writer.out
}

/// Whether elements of that name stand within lines.
fn is_inline(element: u32) -> bool {
    properties(element << 1) & INLINE != 0 || element == NAME_MATH
}

impl Writer<'_> {
    fn read(&mut self, noscript: bool) {
        let mut shown = Shown::with(noscript);
        self.text(0, 0..self.start_of(0), Source::Text);
        for (number, tag) in self.tags.iter().enumerate() {
            let raw = shown.pass(tag);
            self.is_shown = shown.text.is_some();
            if tag.name & 1 == 0 {
                self.start(number, tag);
            } else if tag.name != NOTHING {
                self.end(tag.name >> 1);
            }
            let piece = number as u32 + 1;
            if let Some(how) = raw {
                self.end_paragraph();
                self.code.get_or_insert_default();
                self.text(piece, tag.content as usize..tag.end as usize, how);
                self.end_code();
            }
            let end = self.start_of(number + 1);
            if let Some(how) = shown.text.filter(|_| (tag.end as usize) < end) {
                self.text(piece, tag.end as usize..end, how);
            }
        }
        while self.pop() {}
        self.finish();
    }

    fn finish(&mut self) {
        self.end_paragraph();
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    fn start_of(&self, tag: usize) -> usize {
        self.tags.get(tag).map_or(self.source.len(), |tag| tag.start as usize)
    }

    // --- what is main text

    fn is_kept(&mut self, piece: u32) -> bool {
        while self.kept.get(self.next_kept).is_some_and(|range| range.end <= piece) {
            self.next_kept += 1;
        }
        self.kept.get(self.next_kept).is_some_and(|range| range.start <= piece)
    }

    /// Whether what has no text and stands at a tag is within a block of main text, or between two.
    fn is_among_kept(&mut self, tag: usize) -> bool {
        if self.is_kept(tag as u32) && self.kept[self.next_kept].end as usize > tag + 1 {
            return true;
        }
        self.ahead = self.ahead.max(tag + 1);
        while self.is_last_kept && self.ahead <= self.tags.len() {
            let text = self.tags[self.ahead - 1].end as usize..self.start_of(self.ahead);
            if self.source.get(text).is_some_and(|text| !text.iter().all(|&byte| is_space(byte))) {
                break;
            }
            self.ahead += 1;
        }
        let range = self.kept[self.next_kept..].iter().find(|range| range.end as usize > self.ahead);
        self.is_last_kept && range.is_some_and(|range| range.start as usize <= self.ahead)
    }

    // --- texts

    fn text(&mut self, piece: u32, text: Range<usize>, how: Source) {
        let source = &self.source[text];
        let is_blank = source.iter().all(|&byte| is_space(byte));
        if self.skipped != 0 || (is_blank && self.code.is_none()) {
            return self.inline.gap(self.style);
        }
        let is_kept = self.is_kept(piece);
        if let Some(formula) = &mut self.formula {
            formula.is_kept |= is_kept;
            let mut decoded = Vec::new();
            decode(source, false, &mut decoded);
            let is_tex = self.stack.last().is_some_and(|open| open.end == End::Annotation);
            let text = if is_tex { &mut formula.tex } else { &mut formula.shown };
            text.push_str(&String::from_utf8_lossy(&decoded));
            return text.push(' ');
        }
        if !is_blank {
            self.is_last_kept = is_kept;
        }
        if let Some(code) = &mut self.code {
            let start = code.text.len();
            let skipped = std::mem::take(&mut code.has_ended_line) && source.starts_with(b"\n");
            let source = &source[usize::from(skipped)..];
            match how {
                Source::Literal => code.text.extend_from_slice(source),
                _ => decode(source, false, &mut code.text),
            }
            if !is_blank && !is_kept {
                code.left_out.push(start..code.text.len());
            }
        } else if is_kept {
            let link = self.used_link();
            self.inline.push(source, self.style, link);
        }
    }

    fn end_paragraph(&mut self) {
        if self.formula.is_some() || self.inline.is_empty() {
            return;
        }
        let mut made = String::new();
        if let Some(cell) = self.table.as_mut().and_then(|table| table.cell.as_mut()) {
            cell.push_str(if cell.is_empty() { "" } else { " " });
            self.inline.write(Place::Cell, cell);
        } else if self.heading != 0 {
            self.inline.write(Place::Heading, &mut made);
            let bare = made.trim_end_matches('#').len();
            if bare < made.len() && (bare == 0 || made[..bare].ends_with(' ')) {
                made.insert(bare, '\\');
            }
            if !made.is_empty() {
                made.insert_str(0, &"###### "[6 - usize::from(self.heading)..]);
            }
        } else {
            self.inline.write(Place::Paragraph, &mut made);
        }
        let is_paragraph = self.heading == 0;
        self.inline.clear();
        if !made.is_empty() {
            self.write(is_paragraph, &made);
        }
    }

    // --- blocks

    /// Write a block of several lines behind the marks of its containers.
    fn write(&mut self, is_paragraph: bool, block: &str) {
        let begun = self.containers.iter().take_while(|container| !container.indent.is_empty()).count();
        let mut indent: String = self.containers[..begun].iter().map(|container| container.indent.as_str()).collect();
        if !self.out.is_empty() {
            if !self.is_close(begun) {
                self.out.push('\n');
                self.out.push_str(indent.trim_end());
            }
            self.out.push('\n');
        }
        self.out.push_str(&indent);
        for place in begun..self.containers.len() {
            let (mark, sign) = self.mark(place);
            self.out.push_str(&mark);
            self.containers[place].indent = if sign == '>' { mark } else { " ".repeat(mark.len()) };
            indent.push_str(&self.containers[place].indent);
            self.last.truncate(place);
            self.last.push((self.containers[place].id, sign));
        }
        self.last.truncate(self.containers.len());
        for (number, line) in block.split('\n').enumerate() {
            if number != 0 {
                self.out.push('\n');
                self.out.push_str(if line.is_empty() { indent.trim_end() } else { &indent });
            }
            let place = if is_paragraph { guarded(line) } else { None }.unwrap_or(line.len());
            self.out.push_str(&line[..place]);
            self.out.push_str(if place < line.len() { "\\" } else { "" });
            self.out.push_str(&line[place..]);
        }
        self.is_last_paragraph = is_paragraph;
    }

    /// Whether a block follows the last one without an empty line: an item behind another, or behind the text around it.
    fn is_close(&self, begun: usize) -> bool {
        let Some(Container { id, item: Some((list, number)), .. }) = self.containers.get(begun) else { return false };
        let is_sibling = self.last.get(begun).is_some_and(|(last, _)| last == id);
        let may_interrupt = self.lists[*list].next.is_none() || *number == 1;
        is_sibling || (self.last.len() == begun && begun != 0 && self.is_last_paragraph && may_interrupt)
    }

    /// With what a container begins, and the sign in it.
    fn mark(&mut self, place: usize) -> (String, char) {
        let Some((list, number)) = self.containers[place].item else { return ("> ".to_owned(), '>') };
        let list = &mut self.lists[list];
        // A list right behind another one has another sign, lest they be one.
        let before = self.last.get(place).filter(|(id, _)| *id != list.id);
        let signs = if list.next.is_some() { ['.', ')'] } else { ['-', '*'] };
        let is_taken = before.is_some_and(|&(_, sign)| sign == signs[0]);
        let sign = *list.sign.get_or_insert(signs[usize::from(is_taken)]);
        (if list.next.is_some() { format!("{number}{sign} ") } else { format!("{sign} ") }, sign)
    }

    fn end_code(&mut self) {
        let Some(Code { mut text, language, left_out, .. }) = self.code.take() else { return };
        if left_out.iter().map(Range::len).sum::<usize>() * 2 > text.len() {
            left_out.into_iter().for_each(|range| text[range].fill(0));
            text.retain(|&byte| byte != 0);
        }
        let text = String::from_utf8_lossy(&text).replace("\r\n", "\n").replace('\r', "\n");
        let text = text.trim_start_matches('\n').trim_end();
        if !text.trim_start().is_empty() {
            let fence = "`".repeat(longest_run(text, b'`').max(2) + 1);
            self.write(false, &format!("{fence}{language}\n{text}\n{fence}"));
        }
    }

    fn end_formula(&mut self) {
        let Some(formula) = self.formula.take().filter(|formula| formula.is_kept) else { return };
        let tex = fold_line(&formula.tex);
        if tex.is_empty() {
            let link = self.used_link();
            self.inline.push(formula.shown.replace('&', "&amp;").as_bytes(), self.style, link);
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
}

impl Writer<'_> {
    // --- tags

    fn push(&mut self, element: u32, tag: usize, end: End) {
        if self.counts.len() <= element as usize {
            self.counts.resize(element as usize + 1, 0);
        }
        self.counts[element as usize] += 1;
        self.skipped += usize::from(end == End::Skip);
        let (style, link, heading, containers) = (self.style, self.link, self.heading, self.containers.len());
        self.stack.push(Open { element, tag: tag as u32, end, style, link, heading, containers });
    }

    /// Close the last open element; gives whether there was one.
    fn pop(&mut self) -> bool {
        let Some(&Open { element, end, .. }) = self.stack.last() else { return false };
        if !is_inline(element) && self.code.is_none() {
            self.end_paragraph();
        }
        match end {
            End::Nothing | End::Annotation => {}
            End::Sign(place) => self.inline.drop_sign(place),
            End::Skip => self.skipped -= 1,
            End::Code => self.end_code(),
            End::Formula => self.end_formula(),
            End::List => drop(self.lists.pop()),
            End::Cell { is_head, columns, rows } => self.in_table(|table| table.end_cell(is_head, columns, rows)),
            End::Row => self.in_table(Table::end_row),
            End::Table => {
                let made = self.table.take().map(Table::written).unwrap_or_default();
                if !made.is_empty() {
                    self.write(false, &made);
                }
            }
        }
        let Some(open) = self.stack.pop() else { return false };
        self.counts[element as usize] -= 1;
        (self.style, self.link, self.heading) = (open.style, open.link, open.heading);
        self.containers.truncate(open.containers);
        true
    }

    fn in_table(&mut self, work: impl FnOnce(&mut Table)) {
        if let Some(table) = &mut self.table {
            work(table);
        }
    }

    /// Close open elements up to the topmost of some names, unless one of others stands before it.
    fn close(&mut self, wanted: &[u32], barriers: &[u32]) {
        if wanted.iter().all(|&name| self.counts.get(name as usize).is_none_or(|&count| count == 0)) {
            return;
        }
        let is_end = |open: &Open| wanted.contains(&open.element) || barriers.contains(&open.element);
        if let Some(place) = self.stack.iter().rev().take(REACH).position(is_end) {
            if wanted.contains(&self.stack[self.stack.len() - 1 - place].element) {
                for _ in 0..=place {
                    self.pop();
                }
            }
        }
    }

    fn start(&mut self, number: usize, tag: &Tag) {
        let element = tag.name >> 1;
        let attributes = tag.attributes(self.source);
        if let Some(formula) = &mut self.formula {
            if element as usize >= KNOWN || is_inline(element) {
                formula.is_display |= element == NAME_MATH && mentions(attributes, b"block");
                let is_tex = tag.name(self.source).eq_ignore_ascii_case(b"annotation") && mentions(attributes, b"tex");
                return self.push(element, number, if is_tex { End::Annotation } else { End::Nothing });
            }
            while self.formula.is_some() && self.pop() {}
        }
        if self.code.is_some() {
            return self.start_in_code(number, element, attributes);
        }
        match element {
            _ if is_inline(element) => self.start_inline(number, element, attributes),
            NAME_BR => self.line_break(),
            NAME_IMG => self.image(number, attributes),
            NAME_HR => self.end_paragraph(),
            NAME_SCRIPT if self.has_formulas => self.script(number, tag),
            // What holds no text.
            _ if KINDS.get(element as usize).is_some_and(|kinds| kinds.0 == 6) => self.inline.gap(self.style),
            _ => {
                self.end_paragraph();
                self.close_implied(element);
                self.start_block(number, element, attributes);
            }
        }
    }

    /// Close what a start tag of a block implies to be closed.
    fn close_implied(&mut self, element: u32) {
        let near = self.stack.iter().rev().take(REACH).find(|open| !is_inline(open.element));
        if near.is_some_and(|open| open.element == NAME_P) {
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

    fn start_block(&mut self, number: usize, element: u32, attributes: &[u8]) {
        let is_data = self.table.is_some();
        let end = match element {
            NAME_PRE | NAME_LISTING => End::Code,
            NAME_UL | NAME_OL | NAME_MENU | NAME_DL => End::List,
            NAME_TABLE if !is_data && table::is_data(self.source, self.tags, number) => End::Table,
            NAME_TR if is_data => End::Row,
            NAME_TD | NAME_TH if is_data => {
                let span = |name| number_in(attributes, name).unwrap_or(1) as usize;
                End::Cell { is_head: element == NAME_TH, columns: span("colspan"), rows: span("rowspan") }
            }
            NAME_TD | NAME_TH if is_gutter(attributes) => End::Skip,
            _ => End::Nothing,
        };
        self.push(element, number, end);
        match (element, end) {
            (_, End::Code) => {
                let around = self.stack.iter().rev().take(7).take_while(|open| open.element != NAME_LI);
                let mut around = around.map(|open| self.tags[open.tag as usize].attributes(self.source));
                let language = around.find_map(language_of).unwrap_or_default();
                self.code = Some(Code { language, ..Code::default() });
            }
            (_, End::List) => {
                let next = (element == NAME_OL).then(|| number_in(attributes, "start").unwrap_or(1));
                self.ids += 1;
                self.lists.push(List { id: self.ids, next, sign: None, containers: self.containers.len() });
            }
            (_, End::Table) => self.table = Some(Table::default()),
            (_, End::Row) => {
                let is_head = self.counts[NAME_THEAD as usize] != 0;
                self.in_table(|table| table.begin_row(is_head));
            }
            (_, End::Cell { .. }) => self.in_table(Table::begin_cell),
            (NAME_LI | NAME_DT, _) => self.begin_item(number_in(attributes, "value")),
            (NAME_BLOCKQUOTE, _) => {
                self.ids += 1;
                self.contain(self.ids, None);
            }
            _ => {
                let level = HEADINGS.iter().position(|&name| name == element);
                self.heading = level.map_or(self.heading, |level| level as u8 + 1);
            }
        }
    }

    /// Begin an item, which lasts up to the next one, so that what defines a term is in its item.
    fn begin_item(&mut self, value: Option<u64>) {
        let Some(list) = self.lists.last_mut() else { return };
        let number = value.or(list.next).unwrap_or(0);
        list.next = list.next.map(|_| (number + 1).min(MOST_NUMBER));
        let (id, containers) = (list.id, list.containers);
        self.containers.truncate(containers);
        self.contain(id, Some((self.lists.len() - 1, number)));
        let count = self.containers.len();
        self.stack.iter_mut().rev().take(1).for_each(|open| open.containers = count);
    }

    fn contain(&mut self, id: u32, item: Option<(usize, u64)>) {
        if self.containers.len() < MOST_CONTAINERS && self.table.is_none() {
            self.containers.push(Container { id, item, indent: String::new() });
        }
    }

    fn start_inline(&mut self, number: usize, element: u32, attributes: &[u8]) {
        let style = match element {
            NAME_A => return self.start_link(number, attributes),
            NAME_MATH => return self.start_formula(number, element, mentions(attributes, b"block")),
            NAME_SPAN if self.has_formulas => {
                if mentions(attributes, b"katex") {
                    return self.start_formula(number, element, mentions(attributes, b"katex-display"));
                }
                // What MathJax made of a script that follows.
                let is_made = mentions(attributes, b"MathJax");
                return self.push(element, number, if is_made { End::Skip } else { End::Nothing });
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
        let has_fragment = attributes.contains(&b'#');
        self.push(NAME_A, number, if has_fragment { End::Sign(self.inline.len()) } else { End::Nothing });
        self.link = number as u32 + 1;
    }

    /// The number of the link at hand in `Inline::links`, whose address is resolved when it is used.
    fn used_link(&mut self) -> u32 {
        if self.link != 0 && self.last_link.0 != self.link {
            let [href] = values(self.tags[self.link as usize - 1].attributes(self.source), ["href"]);
            let address = href.and_then(|href| self.base.resolve(&href));
            self.inline.links.extend(address.clone());
            self.last_link = (self.link, address.map_or(0, |_| self.inline.links.len() as u32));
        }
        if self.link == 0 {
            0
        } else {
            self.last_link.1
        }
    }

    fn start_formula(&mut self, number: usize, element: u32, is_display: bool) {
        let is_kept = self.is_among_kept(number);
        self.push(element, number, End::Formula);
        self.formula = Some(Formula { is_display, tex: String::new(), shown: String::new(), is_kept });
    }

    fn start_in_code(&mut self, number: usize, element: u32, attributes: &[u8]) {
        let Some(code) = &mut self.code else { return };
        if element == NAME_BR {
            return self.line_break();
        } else if element == NAME_CODE && code.language.is_empty() {
            code.language = language_of(attributes).unwrap_or_default();
        }
        self.end_line(element);
        let is_skipped = element == NAME_BUTTON || is_gutter(attributes);
        let is_void = KINDS.get(element as usize).is_some_and(|kinds| matches!(kinds.0, 2 | 6));
        if !is_void && (!is_inline(element) || is_skipped || self.counts[element as usize] != 0) {
            self.push(element, number, if is_skipped { End::Skip } else { End::Nothing });
        }
    }

    fn line_break(&mut self) {
        if let Some(code) = &mut self.code {
            code.text.push(b'\n');
        } else if self.inline.push_break() {
            self.end_paragraph();
        }
    }

    /// At an element that stands on lines of its own, end a line of code, unless it is empty.
    fn end_line(&mut self, element: u32) {
        let is_line = KINDS.get(element as usize).is_some_and(|kinds| matches!(kinds.0, 0 | 5 | 6));
        let code = self.code.as_mut().filter(|code| code.text.last().is_some_and(|&last| last != b'\n'));
        if let Some(code) = code.filter(|_| is_line) {
            code.text.push(b'\n');
            code.has_ended_line = true;
        }
    }

    fn end(&mut self, element: u32) {
        if element == NAME_BR {
            return self.line_break();
        }
        let is_block = !is_inline(element) && properties(element << 1) & RAW == 0;
        if self.code.is_some() {
            self.end_line(element);
        } else if is_block {
            self.end_paragraph();
        }
        if self.counts.get(element as usize).is_none_or(|&count| count == 0) {
            return;
        }
        let is_within = |open: &Open| is_inline(open.element) && open.element != element;
        let near = self.stack.iter().rev().take(REACH).find(|open| !is_within(open));
        if is_block || self.formula.is_some() || near.is_some_and(|open| open.element == element) {
            self.close(&[element], if TABLE_PARTS.contains(&element) { &[] } else { &TABLE_PARTS });
        } else if element == NAME_A {
            self.link = 0;
        } else {
            self.style = 0;
        }
    }

    // --- what has no text

    fn image(&mut self, number: usize, attributes: &[u8]) {
        self.inline.gap(self.style);
        if !self.is_shown || self.skipped != 0 || !self.is_among_kept(number) {
            return;
        }
        let [alt, src, late, class] = values(attributes, ["alt", "src", "data-src", "class"]);
        let (alt, class) = (fold_line(&alt.unwrap_or_default()), class.unwrap_or_default());
        if class.contains("math-fallback") || class.split(' ').any(|word| matches!(word, "tex" | "latex" | "math")) {
            let tex = alt.strip_prefix("{\\displaystyle ").and_then(|tex| tex.strip_suffix('}')).unwrap_or(&alt).trim();
            if !self.last_tex.contains(tex) {
                self.push_formula(tex, false);
            }
        } else if !alt.is_empty() {
            let address = [src, late].into_iter().flatten().find_map(|address| self.base.resolve(&address));
            let link = self.used_link();
            self.inline.push_image(&alt, &address.unwrap_or_default(), link);
        }
        self.inline.gap(self.style);
    }

    fn script(&mut self, number: usize, tag: &Tag) {
        self.inline.gap(self.style);
        let [kind] = values(tag.attributes(self.source), ["type"]);
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        if kind.starts_with("math/tex") && self.skipped == 0 && self.is_among_kept(number) {
            let tex = fold_line(&String::from_utf8_lossy(tag.content(self.source)));
            self.push_formula(&tex, kind.contains("display"));
        }
    }
}

/// The language that a class names.
fn language_of(attributes: &[u8]) -> Option<String> {
    let [class, lang, language] = values(attributes, ["class", "data-lang", "data-language"]);
    let class = class.unwrap_or_default();
    let (mut found, mut before) = (lang.or(language), "");
    for word in class.split_ascii_whitespace() {
        let prefixes = ["language-", "lang-", "highlight-source-", "highlight-"];
        let follows = matches!(before, "brush:" | "sourceCode" | "hljs" | "highlight") && !word.contains(['-', '_']);
        let name = prefixes.iter().find_map(|prefix| word.strip_prefix(prefix)).or(follows.then_some(word));
        found = found.or(name.map(|name| name.trim_end_matches(';').to_owned()));
        before = word;
    }
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"+#._-".contains(&byte);
    let is_fit = |name: &String| {
        !name.is_empty() && name.len() <= 24 && name.bytes().all(is_sign) && !NO_LANGUAGES.contains(&name.as_str())
    };
    found.map(|name| name.to_ascii_lowercase()).filter(is_fit)
}

/// Whether an element holds line numbers.
fn is_gutter(attributes: &[u8]) -> bool {
    if !["ln", "line", "gutter"].iter().any(|word| mentions(attributes, word.as_bytes())) {
        return false;
    }
    let [class] = values(attributes, ["class"]);
    class.unwrap_or_default().split_ascii_whitespace().any(|word| GUTTERS.contains(&word))
}

fn number_in(attributes: &[u8], name: &str) -> Option<u64> {
    if !mentions(attributes, name.as_bytes()) {
        return None;
    }
    let [value] = values(attributes, [name]);
    value.and_then(|value| value.trim().parse().ok()).filter(|&number| number <= MOST_NUMBER)
}
