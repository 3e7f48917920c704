//! A page as Markdown (CommonMark, with tables and struck text of GFM), of those blocks alone that are main text.
//!
//! The words are those of the page's text as `Outline` read it, without its signs; where they stand is what its elements
//! say.  One pass over the tags gives marks, links, images and line ends.  Each paragraph, heading, table and piece of
//! code is written when it ends, behind the marks of its items and quotes, of which at most `MOST_CONTAINERS` count.

mod addresses;
mod code;
mod images;
mod inline;
mod table;

use std::ops::Range;
use std::sync::LazyLock;

use crate::bytes::is_space;
use crate::flow::{fold_line, Flow, Source};
use crate::names::*;
use crate::outline::{kind_of, Block, Outline, ELEMENT, GAP, INLINE, LINK, LINK_END, NO_ELEMENT, SPACE};
use crate::page::values;
use crate::tokens::{mentions, Tag};
use crate::visible::Shown;
use addresses::Base;
use inline::{
    guarded, push_address, push_tex, Form, Gap, Inline, CODE, EMPHASIS, STRONG, STRUCK, SUBSCRIPT, SUPERSCRIPT,
};

const MOST_CONTAINERS: u32 = 10;
/// Elements around the last one, among which one that ends is looked for.
const DEPTH: usize = 32;
const MOST_NUMBER: u64 = 999_999_999;
const HEADINGS: [u32; 6] = [NAME_H1, NAME_H2, NAME_H3, NAME_H4, NAME_H5, NAME_H6];
/// Elements before which an open heading ends, beside headings.
const END_HEADINGS: [u32; 8] = [NAME_P, NAME_UL, NAME_OL, NAME_DL, NAME_TABLE, NAME_PRE, NAME_SECTION, NAME_BLOCKQUOTE];

/// A page whose main text is known.
#[derive(Clone, Copy)]
pub struct Chosen<'a> {
    pub source: &'a [u8],
    pub tags: &'a [Tag],
    /// Places of signs in the source, ascending.
    pub signs: &'a [Range<u32>],
    pub page: &'a Outline,
    /// The text of all blocks of the page.
    pub text: &'a str,
    /// Numbers of the blocks that are main text, ascending.
    pub kept: &'a [usize],
    /// Noscript elements are shown.
    pub noscript: bool,
}

impl Default for Chosen<'_> {
    fn default() -> Self {
        static EMPTY: LazyLock<Outline> = LazyLock::new(Outline::default);
        Self { source: b"", tags: &[], signs: &[], page: &EMPTY, text: "", kept: &[], noscript: false }
    }
}

/// Where what an element holds is written.
#[derive(Clone, Copy, Default)]
struct Place {
    /// The innermost list, item or quote, and element of a table of data and its cell, and of code; 0 for none.
    list: usize,
    container: usize,
    table: usize,
    cell: usize,
    code: usize,
    is_skipped: bool,
}

/// A list; of definitions, too, whose terms are items.
#[derive(Default)]
struct List {
    /// The number of the next item; None for bullets.
    next: Option<u64>,
    /// Sign of its items, once one is written.
    sign: Option<char>,
    /// The container around it, and its last item.
    around: usize,
    item: usize,
}

/// An element that indents what is in it.
#[derive(Default)]
struct Container {
    around: usize,
    depth: u32,
    /// Of an item: its list, and its number.
    item: Option<(usize, u64)>,
    /// What stands before its lines; "" before its first one.
    indent: String,
}

/// An image or a formula between blocks, which stands in the Markdown if the next text does.
struct Between {
    place: Place,
    markdown: String,
    link: u32,
    is_ended: bool,
}

#[derive(Default)]
struct Writer<'a> {
    of: Chosen<'a>,
    base: Base,
    out: String,
    inline: Inline<'a>,
    /// Where the paragraph at hand is written.
    place: Place,
    heading: u8,
    /// The text of the block at hand as far as it was read, whose length gives places in `Chosen::text`.
    flow: Flow,
    read: usize,
    /// In `Chosen::kept`: the first block that does not end before the text at hand.
    next: usize,
    /// The first sign of the text that does not end before.
    sign: usize,
    /// Of each element up to the tag at hand, and the number of the innermost open one.
    places: Vec<Place>,
    open: usize,
    lists: Vec<List>,
    containers: Vec<Container>,
    /// The item of the open term; 0 for none.
    term: usize,
    styles: u32,
    /// The number of an open element of code, plus one, and of an open link; and of the link used last, with its number in
    /// `Inline::links`.
    code: u32,
    link: u32,
    last_link: (u32, u32),
    between: Vec<Between>,
    /// The last text is none of the main text.
    is_foreign: bool,
    /// What stands around the formula at hand; "" if there is none.
    formula: &'static str,
    last_tex: String,
    last_code: usize,
    /// Cells of the table at hand, which is the element `table`, with their text.
    table: usize,
    cells: Vec<(usize, String)>,
    /// Containers of the last block: the list of an item, and the sign.
    last: Vec<(usize, char)>,
    is_last_paragraph: bool,
}

impl<'a> Writer<'a> {
    fn new(of: Chosen<'a>, url: &str, base_href: Option<&str>) -> Self {
        let has = |word: &str| memchr::memmem::find(of.source, word.as_bytes()).is_some();
        Self {
            base: Base::new(url).with(base_href),
            out: String::with_capacity(of.text.len()),
            inline: Inline::new(of.text, has("athjax") || has("athJax") || has("atex")),
            places: vec![Place::default()],
            lists: vec![List::default()],
            containers: vec![Container::default()],
            is_foreign: true,
            of,
            ..Self::default()
        }
    }
}

/// The Markdown of a page; links are resolved against its URL and the address in its `base` element.
pub fn markdown(chosen: Chosen, url: &str, base_href: Option<&str>) -> String {
    let mut writer = Writer::new(chosen, url, base_href);
    writer.read();
    writer.finish()
}

/// The lines of a text as paragraphs.
pub fn of_lines(text: &str) -> String {
    let mut writer = Writer::new(Chosen { text, ..Chosen::default() }, "", None);
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        writer.inline.push(start..start + line.len(), 0, 0);
        writer.end_paragraph();
        start += line.len();
    }
    writer.finish()
}

impl Writer<'_> {
    fn read(&mut self) {
        let mut shown = Shown::with(self.of.noscript);
        self.text(0, 0, None, shown.text);
        for (number, tag) in self.of.tags.iter().enumerate() {
            if self.next == self.of.kept.len() {
                return;
            }
            if self.of.page.starts.get(self.places.len()).is_some_and(|&start| start as usize == number) {
                self.start_element(number, tag.attributes(self.of.source));
            }
            let raw = shown.pass(tag);
            if tag.name == CUT {
                self.end_paragraph();
            } else if tag.name > CUT {
                self.flow.part(tag.name);
                self.formula = match tag.name {
                    FORMULA => "$",
                    DISPLAY => "$$",
                    _ => "",
                };
            } else {
                self.tag(number, tag, shown.text.is_some());
            }
            self.text(number + 1, tag.end as usize, raw, shown.text);
        }
    }

    fn finish(mut self) -> String {
        self.end_paragraph();
        self.end_table();
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out
    }

    // --- texts

    /// Read a piece of the source (see `Block::pieces`), which begins at `start` or is raw.
    fn text(&mut self, piece: usize, start: usize, raw: Option<Source>, how: Option<Source>) {
        let Chosen { source, tags, page, kept, .. } = self.of;
        let end = tags.get(piece).map_or(source.len(), |tag| tag.start as usize);
        let range = if how.is_some() { start..end } else { start..start };
        while kept.get(self.next).is_some_and(|&number| page.blocks[number].pieces.end as usize <= piece) {
            self.next += 1;
        }
        let block = kept.get(self.next).map(|&number| &page.blocks[number]);
        let Some(block) = block.filter(|block| block.pieces.start as usize <= piece) else {
            if !self.is_foreign && !source[range].iter().all(|&byte| is_space(byte)) {
                self.is_foreign = true;
                self.between.clear();
            }
            return;
        };
        let place = self.places.get(block.owner as usize).copied().unwrap_or_default();
        if block.pieces.start as usize == piece {
            self.begin_block(place, block);
        }
        if place.code != 0 || place.is_skipped {
            return;
        }
        let is_blank = |byte: Option<&u8>| byte.is_some_and(|&byte| is_space(byte));
        let ends_blank = is_blank(source[range.clone()].last());
        if is_blank(source[range.clone()].first()) {
            self.inline.widen(Gap::Space);
        }
        if piece + 1 == block.pieces.end as usize {
            self.show(place, block.text.end);
        } else {
            if let Some(raw) = raw {
                self.flow.push_raw(source, &tags[piece - 1], raw);
            }
            self.flow.push(source, range.start, range.end, how.unwrap_or(Source::Text));
            self.show(place, block.text.start + self.flow.bytes().len());
        }
        if ends_blank {
            self.inline.widen(Gap::Space);
        }
    }

    fn begin_block(&mut self, place: Place, block: &Block) {
        self.flow.clear();
        self.read = block.text.start;
        self.open = (block.owner as usize).min(self.places.len() - 1);
        self.is_foreign = false;
        for between in std::mem::take(&mut self.between) {
            self.push_made(between.place, &between.markdown, between.link);
            if between.is_ended {
                // The heading begins behind it.
                let heading = std::mem::take(&mut self.heading);
                self.end_paragraph();
                self.heading = heading;
            }
        }
        if place.code != 0 && place.code != self.last_code && !place.is_skipped {
            self.last_code = place.code;
            self.end_paragraph();
            let code = code::read(&self.of, place.code, self.next);
            if !code.is_empty() {
                self.end_table();
                self.write(place.container, false, &code);
            }
        }
        if !self.inline.ends_made() {
            self.inline.widen(Gap::Space);
        }
    }

    /// Gather the text of the block at hand up to a place in `Chosen::text`, without signs.
    fn show(&mut self, place: Place, end: usize) {
        let mut start = std::mem::replace(&mut self.read, end);
        if start >= end {
            return;
        }
        if !self.formula.is_empty() {
            let tex = self.of.text[start..end].trim();
            let made = self.made_formula(tex, self.formula);
            let link = self.used_link();
            return self.push_made(place, &made, link);
        }
        if self.inline.is_empty() {
            self.set_place(place);
        }
        // Code holds no subscripts.
        let styles = self.styles & if self.code == 0 { u32::MAX } else { !(SUBSCRIPT | SUPERSCRIPT) };
        let style = styles | (self.code * CODE);
        let link = self.used_link();
        let signs = &self.of.page.signs[..];
        while let Some(sign) = signs.get(self.sign).filter(|sign| sign.start < end) {
            if sign.end > start {
                self.inline.push(start..sign.start.max(start), style, link);
                self.inline.widen(Gap::Space);
                start = sign.end.min(end);
            }
            if sign.end > end {
                break;
            }
            self.sign += 1;
        }
        self.inline.push(start..end, style, link);
    }

    fn set_place(&mut self, place: Place) {
        self.place = place;
        if self.term != 0 && self.containers[self.term].item.is_some_and(|(list, _)| list == place.list) {
            self.place.container = self.term;
        }
    }

    fn end_paragraph(&mut self) {
        self.between.iter_mut().rev().take_while(|last| !last.is_ended).for_each(|last| last.is_ended = true);
        if self.inline.is_empty() {
            return;
        }
        let mut made = String::new();
        let Place { container, table, cell, .. } = self.place;
        if table != 0 && cell != 0 {
            if table != self.table {
                self.end_table();
                self.table = table;
            }
            self.inline.write(Form::Cell, &mut made);
            match self.cells.iter_mut().rev().take(DEPTH).find(|(number, _)| *number == cell) {
                Some((_, text)) => text.extend([" ", &made]),
                None => self.cells.push((cell, made)),
            }
        } else {
            self.end_table();
            let form = if self.heading == 0 { Form::Paragraph } else { Form::Heading };
            self.inline.write(form, &mut made);
            if form == Form::Heading {
                let bare = made.trim_end_matches('#').len();
                if bare < made.len() && (bare == 0 || made[..bare].ends_with(' ')) {
                    made.insert(bare, '\\');
                }
                made.insert_str(0, &"###### "[6 - usize::from(self.heading)..]);
            }
            self.write(container, form == Form::Paragraph, &made);
        }
        self.inline.clear();
    }

    fn end_table(&mut self) {
        let table = std::mem::take(&mut self.table);
        if table != 0 {
            let made = table::written(&self.of, table, std::mem::take(&mut self.cells));
            self.write(self.places[table].container, false, &made);
        }
    }

    // --- blocks

    /// Write a block of several lines behind the marks of its containers.
    fn write(&mut self, mut container: usize, is_paragraph: bool, block: &str) {
        let mut around = Vec::new();
        while container != 0 {
            around.push(container);
            container = self.containers[container].around;
        }
        around.reverse();
        let begun = around.iter().take_while(|&&each| !self.containers[each].indent.is_empty()).count();
        let mut indent: String = around[..begun].iter().map(|&each| self.containers[each].indent.as_str()).collect();
        if !self.out.is_empty() {
            if !self.is_close(&around, begun) {
                self.out.push('\n');
                self.out.push_str(indent.trim_end());
            }
            self.out.push('\n');
        }
        self.out.push_str(&indent);
        for (place, &each) in around.iter().enumerate().skip(begun) {
            let (mark, list, sign) = self.mark(each, place);
            self.out.push_str(&mark);
            self.containers[each].indent = if sign == '>' { mark } else { " ".repeat(mark.len()) };
            indent.push_str(&self.containers[each].indent);
            self.last.truncate(place);
            self.last.push((list, sign));
        }
        self.last.truncate(around.len());
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
    fn is_close(&self, around: &[usize], begun: usize) -> bool {
        let Some(Container { item: Some((list, number)), .. }) = around.get(begun).map(|&each| &self.containers[each])
        else {
            return false;
        };
        let is_sibling = self.last.get(begun).is_some_and(|(last, _)| last == list);
        let may_interrupt = self.lists[*list].next.is_none() || *number == 1;
        is_sibling || (self.last.len() == begun && begun != 0 && self.is_last_paragraph && may_interrupt)
    }

    /// With what a container begins; its list and its sign.
    fn mark(&mut self, container: usize, place: usize) -> (String, usize, char) {
        let Some((number, value)) = self.containers[container].item else {
            return ("> ".to_owned(), usize::MAX - container, '>');
        };
        let list = &mut self.lists[number];
        // A list right behind another one has another sign, lest they be one.
        let before = self.last.get(place).filter(|(last, _)| *last != number);
        let signs = if list.next.is_some() { ['.', ')'] } else { ['-', '*'] };
        let is_taken = before.is_some_and(|&(_, sign)| sign == signs[0]);
        let sign = *list.sign.get_or_insert(signs[usize::from(is_taken)]);
        (if list.next.is_some() { format!("{value}{sign} ") } else { format!("{sign} ") }, number, sign)
    }

    /// Note an element that begins, and where what it holds is written.
    fn start_element(&mut self, number: usize, attributes: &[u8]) {
        let (page, element) = (self.of.page, self.places.len());
        let parent = page.parents[element] as usize;
        let mut place = self.places[parent];
        match page.tags[element].0 {
            NAME_UL | NAME_OL | NAME_MENU | NAME_DL => {
                let next = (page.tags[element].0 == NAME_OL).then(|| number_in(attributes, "start").unwrap_or(1));
                // A list right in a list is in its last item.
                let item = self.lists[place.list].item;
                let is_right = matches!(page.tags[parent].0, NAME_UL | NAME_OL | NAME_MENU) && item != 0;
                let around = if is_right { item } else { place.container };
                self.lists.push(List { next, around, ..List::default() });
                place.list = self.lists.len() - 1;
                place.container = around;
            }
            NAME_LI if place.list != 0 => place.container = self.start_item(place.list, number_in(attributes, "value")),
            NAME_DD if self.lists[place.list].item != 0 => place.container = self.lists[place.list].item,
            NAME_BLOCKQUOTE => place.container = self.contain(place.container, None),
            NAME_TABLE if place.table == 0 && table::is_data(self.of.source, self.of.tags, number) => {
                (place.table, place.cell) = (element, 0);
            }
            NAME_TD | NAME_TH if place.table != 0 => place.cell = element,
            NAME_TD | NAME_TH => place.is_skipped |= code::is_gutter(self.of.source, self.of.tags, number),
            NAME_PRE | NAME_LISTING if place.code == 0 => place.code = element,
            _ => {}
        }
        self.places.push(place);
        self.open = element;
    }

    fn start_item(&mut self, list: usize, value: Option<u64>) -> usize {
        let number = value.or(self.lists[list].next).unwrap_or(0);
        let item = self.contain(self.lists[list].around, Some((list, number)));
        let list = &mut self.lists[list];
        list.next = list.next.map(|_| (number + 1).min(MOST_NUMBER));
        list.item = item;
        item
    }

    fn contain(&mut self, around: usize, item: Option<(usize, u64)>) -> usize {
        let depth = self.containers[around].depth + 1;
        if depth > MOST_CONTAINERS {
            return around;
        }
        self.containers.push(Container { around, depth, item, indent: String::new() });
        self.containers.len() - 1
    }

    // --- tags

    fn tag(&mut self, number: usize, tag: &Tag, is_shown: bool) {
        let (element, is_end) = (tag.name >> 1, tag.name & 1 != 0);
        match kind_of(tag) {
            INLINE | GAP | LINK | LINK_END => self.inline_tag(number, element, is_end),
            SPACE => {
                self.flow.end_block();
                if element == NAME_IMG {
                    if is_shown && !is_end {
                        self.image(number, tag.attributes(self.of.source));
                    }
                } else if self.inline.widen(Gap::Break) {
                    self.end_paragraph();
                }
            }
            // What holds no text.
            _ if element != NAME_HR && KINDS.get(element as usize).is_some_and(|kinds| kinds.0 == NO_ELEMENT) => {
                self.inline.widen(Gap::Space);
            }
            kind => self.block_tag(element, is_end, kind == ELEMENT),
        }
    }

    fn inline_tag(&mut self, number: usize, element: u32, is_end: bool) {
        let style = match element {
            NAME_A => {
                self.link = if is_end { 0 } else { number as u32 + 1 };
                return;
            }
            NAME_CODE | NAME_KBD | NAME_SAMP | NAME_TT => {
                self.code = if is_end { 0 } else { [self.code, number as u32 + 1][usize::from(self.code == 0)] };
                return;
            }
            NAME_STRONG | NAME_B => STRONG,
            NAME_EM | NAME_I => EMPHASIS,
            NAME_DEL | NAME_S | NAME_STRIKE => STRUCK,
            NAME_SUB => SUBSCRIPT,
            NAME_SUP => SUPERSCRIPT,
            _ => return,
        };
        self.styles = if is_end { self.styles & !style } else { self.styles | style };
    }

    fn block_tag(&mut self, element: u32, is_end: bool, is_element: bool) {
        self.end_paragraph();
        if is_end {
            (self.styles, self.code) = (0, 0);
        }
        if let Some(level) = HEADINGS.iter().position(|&name| name == element) {
            self.heading = if is_end { 0 } else { level as u8 + 1 };
        } else if END_HEADINGS.contains(&element) {
            self.heading = 0;
        }
        if matches!(element, NAME_DT | NAME_DD | NAME_DL) {
            let list = self.places[self.open].list;
            self.term = if element == NAME_DT && !is_end && list != 0 { self.start_item(list, None) } else { 0 };
        }
        if is_end && is_element {
            let mut around = self.open;
            for _ in 0..DEPTH {
                if self.of.page.tags[around].0 == element {
                    self.open = self.of.page.parents[around] as usize;
                    break;
                }
                around = self.of.page.parents[around] as usize;
            }
        }
    }

    /// The number of the link at hand in `Inline::links`, whose address is resolved when it is used.
    fn used_link(&mut self) -> u32 {
        if self.link == 0 {
            return 0;
        }
        if self.last_link.0 != self.link {
            let [href] = values(self.of.tags[self.link as usize - 1].attributes(self.of.source), ["href"]);
            let address = href.and_then(|href| self.base.resolve(&href));
            let has_address = address.is_some();
            self.inline.links.extend(address);
            self.last_link = (self.link, if has_address { self.inline.links.len() as u32 } else { 0 });
        }
        self.last_link.1
    }

    // --- images and formulas

    /// Let an image or a formula stand where tags up to `to` begin, if that is within main text or may be between.
    fn insert(&mut self, number: usize, to: usize, markdown: String) {
        let Chosen { page, kept, .. } = self.of;
        let (place, link) = (self.places[self.open], self.used_link());
        let pieces = kept.get(self.next).map_or(0..0, |&block| page.blocks[block].pieces.clone());
        if pieces.start as usize <= to && pieces.end as usize > number + 1 {
            self.push_made(place, &markdown, link);
        } else if !self.is_foreign {
            self.between.push(Between { place, markdown, link, is_ended: false });
        }
    }

    fn push_made(&mut self, place: Place, markdown: &str, link: u32) {
        if self.inline.is_empty() {
            self.set_place(place);
        }
        self.inline.push_made(markdown, link);
    }

    fn made_formula(&mut self, tex: &str, sign: &str) -> String {
        let mut made = sign.to_owned();
        push_tex(tex, &mut made);
        made.push_str(sign);
        tex.clone_into(&mut self.last_tex);
        made
    }

    fn image(&mut self, number: usize, attributes: &[u8]) {
        let [alt, class] = values(attributes, ["alt", "class"]);
        let (alt, class) = (fold_line(&alt.unwrap_or_default()), class.unwrap_or_default());
        if alt.is_empty() || self.places[self.open].code != 0 {
            return;
        }
        if class.contains("math-fallback") || class.split(' ').any(|word| matches!(word, "tex" | "latex" | "math")) {
            let tex = alt.strip_prefix("{\\displaystyle ").and_then(|tex| tex.strip_suffix('}')).unwrap_or(&alt).trim();
            if !self.last_tex.contains(tex) {
                let made = self.made_formula(tex, "$");
                self.insert(number, number, made);
            }
            return;
        }
        let mut made = "![".to_owned();
        for character in alt.chars() {
            made.push_str(if matches!(character, '[' | ']' | '\\' | '`' | '<' | '*' | '_' | '&') { "\\" } else { "" });
            made.push(character);
        }
        made.push_str("](");
        push_address(&images::address(&self.of, number, &self.base), &mut made);
        made.push(')');
        self.inline.widen(Gap::Space);
        self.insert(number, number, made);
        self.inline.widen(Gap::Space);
    }
}

fn number_in(attributes: &[u8], name: &str) -> Option<u64> {
    if !mentions(attributes, name.as_bytes()) {
        return None;
    }
    let [value] = values(attributes, [name]);
    value.and_then(|value| value.trim().parse().ok()).filter(|&number| number <= MOST_NUMBER)
}
