//! One pass over a page's tags and texts -> its elements with their evidence, its blocks of text with their weights.
//!
//! An *element* is opened by the start tag of a container (every tag but inline, void, raw and leaf ones) and closed by
//! the end tag of its name, which closes what is still open inside it; an end tag without an open element of its name
//! is nothing.  Before a start tag in `closes` in `words.txt`, elements on top whose end tag it implies are closed.
//! *Leaf* tags (p, h1, dt, ...) open no element: their evidence belongs to the block right after them, if any.
//! Elements are numbered in order of their start tags, so that a parent's number is below its children's and sums over
//! subtrees take one backward loop.
//!
//! Where that is asked for, an inline tag *stands apart* if its attributes say that it is an advert or never content,
//! or if one of its name stands apart and is open: it opens an element and ends the block, as its end tag does.  A
//! start tag in `closes` in `words.txt` closes those on top; one that was opened directly after a leaf's start tag, no
//! other element between, is closed by the next tag of a leaf, too, as parsers do.
//!
//! A *block* is the shown text between two tags that break: all but comments, inline ones, br and img.  Its *weight* is
//! its number of characters that are not white space, where one from U+2E80 on (Chinese, Japanese, Korean) counts
//! three: about as many letters as it stands for.  No blank is needed anywhere, so scripts without them are weighed
//! like others.  The link weight is that of the texts after an `a` tag with an href, up to the next `a` or `/a`.
//!
//! The text of every block is written to one `Flow`, folded, so that a block is a range of it.
//!
//! Cases, in `tests/cases/text/`: `combined`, `scorecard`, `inline`.

use std::ops::Range;

use crate::attributes::{Remembered, Said};
use crate::evidence::element_evidence;
use crate::flow::{Flow, Source};
use crate::inline_tags::InlineTags;
use crate::left_out::Kept;
use crate::names::{
    self, properties, CLOSES, CUT, KINDS, KNOWN, NAME_BLOCKQUOTE, NAME_DL, NAME_FIGURE, NAME_FORM, NAME_MENU, NAME_OL,
    NAME_PRE, NAME_TABLE, NAME_UL, NOTHING,
};
use crate::tokens::{mentions, Tag};
use crate::visible::Shown;
use crate::wide::{self, Bytes};

/// What a tag is; 0 opens or closes an element, and 5 and 6 end the block, too.  The last stands for no tag of HTML.
pub const ELEMENT: u8 = 0;
pub const INLINE: u8 = 1;
pub const SPACE: u8 = 2;
pub const LINK: u8 = 3;
pub const LINK_END: u8 = 4;
pub const LEAF: u8 = 5;
pub const NO_ELEMENT: u8 = 6;
pub const GAP: u8 = 7;

/// By name: the open elements that a start tag closes first.
static IMPLIED: [Option<&[u32]>; KNOWN] = {
    let mut implied: [Option<&[u32]>; KNOWN] = [None; KNOWN];
    let mut place = 0;
    while place < CLOSES.len() {
        implied[CLOSES[place].0 as usize] = Some(CLOSES[place].1);
        place += 1;
    }
    implied
};

const LIST: u8 = 1;
/// By name: whether an element is a list, or else is not to be in one that is a whole.
static IN_LISTS: [u8; KNOWN] = {
    let lists = names::table_of([NAME_UL, NAME_OL, NAME_DL, NAME_TABLE, NAME_MENU]);
    let others = names::table_of([NAME_FORM, NAME_PRE, NAME_BLOCKQUOTE, NAME_FIGURE]);
    let mut within = [0; KNOWN];
    let mut name = 0;
    while name < KNOWN {
        within[name] = if lists[name] { LIST } else { others[name] as u8 * 2 };
        name += 1;
    }
    within
};

/// A piece of text between two tags that break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of the element that holds it.
    pub owner: u32,
    /// Its place in the flow.
    pub text: Range<usize>,
    /// The pieces of the source that it is made of: piece 0 is the text before the first tag, piece n the content and
    /// the text behind tag n - 1.
    pub pieces: Range<u32>,
    pub weight: u64,
    /// Of the part in links; in a heading without signs.
    pub link_weight: u64,
    /// Of the part in time elements.
    pub time_weight: u64,
    /// It is a heading with a link to a place on its own page.
    pub is_local: bool,
    /// Of the leaf tag right before it.
    pub evidence: u8,
    pub is_heading: bool,
    /// Number of that tag's attributes in `Outline::said`.
    pub leaf: u32,
}

/// Elements and blocks of a page; element 0 is the page itself and its own parent.
#[derive(Default)]
pub struct Outline {
    pub parents: Vec<u32>,
    pub evidence: Vec<u8>,
    pub blocks: Vec<Block>,
    /// Places of signs in the flow, ascending: they are weighed, and not written.
    pub signs: Vec<Range<usize>>,
    /// Each element's name, and the number of its attributes in `said`.
    pub tags: Vec<(u32, u32)>,
    has_preformatted: bool,
    /// Of each element: the innermost list, table or list of definitions around it, or itself; 0 for none.  A list has 0
    /// for itself if it holds another one, or a form, quote, figure or preformatted text.
    lists: Vec<u32>,
    /// Of each element: the number of its start tag.
    pub starts: Vec<u32>,
    pub said: Remembered,
    /// What values of classes say.
    classes: Remembered,
    inline_tags: InlineTags,
    /// What the names say of elements that are not among the known ones, by number.
    customs: Vec<Option<Said>>,
    /// How many inline elements are open.
    apart_count: usize,
    /// Open elements: number and name.
    stack: Vec<(u32, u32)>,
    /// How many elements of a name are open.
    open_count: Vec<u32>,
}

/// How a page is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Noscript elements are shown.
    pub noscript: bool,
    /// Inline tags may stand apart, and the names of custom elements are evidence as their classes are.
    pub apart: bool,
}

/// The block that is being read.
struct Begun {
    start: usize,
    /// Its first piece.
    piece: u32,
    /// Weight of all that is before it.
    begin: u64,
    link_weight: u64,
    time_weight: u64,
    in_time: bool,
    is_local: bool,
    evidence: u8,
    is_heading: bool,
    leaf: u32,
}

impl Begun {
    fn new(start: usize, piece: u32, begin: u64) -> Self {
        Self {
            start,
            piece,
            begin,
            link_weight: 0,
            time_weight: 0,
            in_time: false,
            is_local: false,
            evidence: 0,
            is_heading: false,
            leaf: 0,
        }
    }
}

struct Read<'a> {
    outline: &'a mut Outline,
    source: &'a [u8],
    kept: Kept<'a>,
    flow: &'a mut Flow,
    reading: Reading,
}

impl wide::Work for Read<'_> {
    type Made = ();

    #[inline(always)]
    fn on<B: Bytes>(self) {
        self.outline.read_on::<B>(self.source, self.kept, self.flow, self.reading);
    }
}

impl Outline {
    /// Read one page.
    #[inline(never)]
    pub fn read(&mut self, source: &[u8], kept: Kept, flow: &mut Flow, reading: Reading) {
        wide::run(Read { outline: self, source, kept, flow, reading });
    }

    #[inline(always)]
    fn read_on<B: Bytes>(&mut self, source: &[u8], kept: Kept, flow: &mut Flow, how: Reading) {
        let Kept { tags, mut signs, .. } = kept;
        flow.clear();
        self.signs.clear();
        self.parents.clear();
        self.parents.push(0);
        self.evidence.clear();
        self.evidence.push(0);
        self.blocks.clear();
        self.tags.clear();
        self.tags.push((NOTHING, 0));
        self.lists.clear();
        self.lists.push(0);
        self.starts.clear();
        self.starts.push(u32::MAX);
        self.stack.clear();
        self.stack.push((0, NOTHING));
        self.open_count.clear();
        self.said.begin();
        self.classes.begin();
        self.inline_tags.begin();
        self.customs.clear();
        self.apart_count = 0;
        self.has_preformatted = false;
        let mut shown = Shown::with(how.noscript);
        let mut in_link = false;
        // The attributes of the last link.
        let mut link = &source[..0];
        let mut leaf_height = usize::MAX;
        let mut reading = Begun::new(0, 0, 0);
        if let Some(how) = shown.text {
            let end = tags.first().map_or(source.len(), |tag| tag.start as usize);
            self.push_signs(source, 0..end, how, &mut signs, flow);
        }
        for (number, tag) in tags.iter().enumerate() {
            let element = tag.name >> 1;
            let mut kind = kind_of(tag);
            let mut is_inline = false;
            match kind {
                GAP => flow.part(tag.name),
                INLINE => {
                    is_inline = true;
                    if element == names::NAME_TIME {
                        reading.in_time = tag.name & 1 == 0;
                    }
                }
                LINK => {
                    let attributes = tag.attributes(source);
                    in_link = attributes.get(1..5) == Some(b"href") || mentions(attributes, b"href");
                    link = attributes;
                    is_inline = true;
                }
                LINK_END => {
                    in_link = false;
                    is_inline = true;
                }
                SPACE => flow.end_block(),
                _ => {}
            }
            if is_inline && how.apart && self.stands_apart::<B>(source, tag) {
                kind = ELEMENT;
            }
            match kind {
                INLINE | SPACE | GAP | LINK | LINK_END => {}
                _ => {
                    self.end_block(&mut reading, number, flow);
                    if kind == LEAF || (kind == NO_ELEMENT && tag.name & 1 != 0) {
                        while self.apart_count != 0 && self.stack.len() > leaf_height && self.closes_inline() {}
                        leaf_height = if kind == LEAF { self.stack.len() } else { usize::MAX };
                    } else if kind == ELEMENT && !is_inline {
                        leaf_height = usize::MAX;
                    }
                    match kind {
                        LEAF => {
                            reading.leaf = self.number(tag.attributes(source));
                            if reading.leaf != 0 {
                                reading.evidence = element_evidence(element) | self.said.said(reading.leaf).evidence;
                            }
                            reading.is_heading = properties(tag.name) & names::HEADING != 0;
                        }
                        NO_ELEMENT => {}
                        _ if tag.name & 1 == 0 => self.open(source, tags, number, how, is_inline),
                        _ => self.close(element),
                    }
                }
            }
            let raw = shown.pass(tag);
            let end = tags.get(number + 1).map_or(source.len(), |next| next.start as usize);
            if tag.end as usize == end && raw.is_none() {
                continue;
            }
            let (before, mut of_signs) = (flow.weight(), 0);
            if let Some(how) = raw {
                flow.push_raw(source, tag, how);
            }
            if let Some(how) = shown.text {
                if signs.first().is_none_or(|sign| sign.start as usize >= end) {
                    flow.push_inline::<B>(source, tag.end as usize, end, how);
                } else {
                    let weight = self.push_signs(source, tag.end as usize..end, how, &mut signs, flow);
                    of_signs = if reading.is_heading { weight } else { 0 };
                }
            }
            if in_link {
                reading.link_weight += flow.weight() - before - of_signs;
                reading.is_local |= reading.is_heading && flow.weight() != before && leads_within(link);
            }
            if reading.in_time {
                reading.time_weight += flow.weight() - before;
            }
        }
        self.end_block(&mut reading, tags.len(), flow);
    }

    /// Read a text, and note where its signs stand in the flow; gives their weight.
    #[inline(never)]
    fn push_signs(
        &mut self,
        source: &[u8],
        text: Range<usize>,
        how: Source,
        signs: &mut &[Range<u32>],
        flow: &mut Flow,
    ) -> u64 {
        let mut weight = 0;
        flow.push_around(source, text.start, text.end, how, signs, |flow, sign| {
            let (start, before) = (flow.bytes().len(), flow.weight());
            flow.push(source, sign.start, sign.end, how);
            self.signs.push(start..flow.bytes().len());
            weight += flow.weight() - before;
        });
        weight
    }

    /// End the block that is being read at a tag, and begin the next one.
    #[inline(always)]
    fn end_block(&mut self, reading: &mut Begun, tag: usize, flow: &mut Flow) {
        let next = tag as u32 + 1;
        let weight = flow.weight() - reading.begin;
        if weight != 0 {
            let end = flow.bytes().len();
            self.blocks.push(Block {
                owner: self.stack[self.stack.len() - 1].0,
                text: reading.start + usize::from(reading.start != 0)..end,
                pieces: reading.piece..next,
                weight,
                link_weight: reading.link_weight,
                time_weight: reading.time_weight,
                is_local: reading.is_local,
                evidence: reading.evidence,
                is_heading: reading.is_heading,
                leaf: reading.leaf,
            });
            reading.start = end;
        }
        flow.end_block();
        *reading = Begun::new(reading.start, next, flow.weight());
    }

    /// Whether an inline tag opens or closes an element.
    #[inline(always)]
    fn stands_apart<B: Bytes>(&mut self, source: &[u8], tag: &Tag) -> bool {
        if self.apart_count != 0 && self.open_count.get((tag.name >> 1) as usize).is_some_and(|&count| count != 0) {
            return true;
        }
        tag.name & 1 == 0
            && self.inline_tags.stand_apart::<B>(source, tag.attributes as usize..tag.content as usize - 1)
    }

    /// Close the last open element if it is an inline one.
    fn closes_inline(&mut self) -> bool {
        let found = self.stack.last().is_some_and(|&(_, top)| is_inline_name(top));
        if found {
            self.pop();
        }
        found
    }

    /// Close the last open element; gives its name.
    fn pop(&mut self) -> Option<u32> {
        let (_, name) = self.stack.pop()?;
        self.open_count[name as usize] -= 1;
        self.apart_count -= usize::from(is_inline_name(name));
        Some(name)
    }

    /// Which elements are preformatted or lie in one that is; empty if there is none.
    pub fn preformatted(&self) -> Vec<bool> {
        if !self.has_preformatted {
            return Vec::new();
        }
        let is_own = |&(name, _): &(u32, u32)| properties(name << 1) & names::PREFORMATTED != 0;
        let mut found = vec![false; self.tags.len()];
        for element in 1..found.len() {
            found[element] = is_own(&self.tags[element]) || found[self.parents[element] as usize];
        }
        found
    }

    /// The list around a block that holds no other one; 0 for none.
    #[inline(always)]
    pub fn list_of(&self, block: &Block) -> usize {
        self.lists[self.lists[block.owner as usize] as usize] as usize
    }

    /// Whether the name of an element is not among the known ones.
    #[inline(always)]
    pub fn is_custom(&self, element: u32) -> bool {
        element as usize >= KNOWN
    }

    /// What that name says.
    pub fn custom(&self, element: u32) -> Said {
        let place = (element as usize).wrapping_sub(KNOWN);
        self.customs.get(place).copied().flatten().unwrap_or_default()
    }

    /// The number of a tag's attributes in `said`.
    #[inline(always)]
    fn number(&mut self, attributes: &[u8]) -> u32 {
        let classes = &mut self.classes;
        self.said.number_by(attributes, |attributes| Said::of(attributes, classes))
    }

    fn read_custom(&mut self, name: &[u8], element: u32) -> Said {
        let place = element as usize - KNOWN;
        if self.customs.len() <= place {
            self.customs.resize(place + 1, None);
        }
        *self.customs[place].get_or_insert_with(|| Said::of_name(name))
    }

    fn open(&mut self, source: &[u8], tags: &[Tag], number: usize, how: Reading, is_inline: bool) {
        let tag = &tags[number];
        self.starts.push(number as u32);
        let element = tag.name >> 1;
        if let Some(implied) = IMPLIED.get(element as usize).copied().flatten() {
            while self.stack.last().is_some_and(|(_, top)| implied.contains(top) || is_inline_name(*top)) {
                self.pop();
            }
        }
        self.apart_count += usize::from(is_inline);
        self.has_preformatted |= properties(tag.name) & names::PREFORMATTED != 0;
        let number = self.parents.len() as u32;
        let parent = self.stack[self.stack.len() - 1].0;
        self.parents.push(parent);
        let around = self.lists[parent as usize];
        let within = IN_LISTS.get(element as usize).copied().unwrap_or(0);
        if within != 0 {
            self.lists[around as usize] = 0;
        }
        self.lists.push(if within == LIST { number } else { around });
        let attributes = self.number(tag.attributes(source));
        let mut evidence = element_evidence(element) | self.said.said(attributes).evidence;
        if how.apart && element as usize >= KNOWN {
            evidence |= self.read_custom(tag.name(source), element).evidence;
        }
        self.evidence.push(evidence);
        self.tags.push((element, attributes));
        self.stack.push((number, element));
        if self.open_count.len() <= element as usize {
            self.open_count.resize(element as usize + 1, 0);
        }
        self.open_count[element as usize] += 1;
    }

    fn close(&mut self, element: u32) {
        if self.open_count.get(element as usize).is_none_or(|&count| count == 0) {
            return;
        }
        while self.pop().is_some_and(|closed| closed != element) {}
    }
}

/// Whether an element is a list, a table or a list of definitions.
pub fn is_list(element: u32) -> bool {
    IN_LISTS.get(element as usize) == Some(&LIST)
}

/// Whether a link leads to a place on its own page.
fn leads_within(attributes: &[u8]) -> bool {
    const NAME: &[u8] = b"href=";
    let Some(start) = attributes.windows(NAME.len()).position(|here| here.eq_ignore_ascii_case(NAME)) else {
        return false;
    };
    let value = &attributes[start + NAME.len()..];
    let value = value.strip_prefix(b"\"").or(value.strip_prefix(b"'")).unwrap_or(value);
    value.starts_with(b"#")
}

/// Whether an element has the name of an inline one.
#[inline(always)]
fn is_inline_name(element: u32) -> bool {
    properties(element << 1) & names::INLINE != 0
}

#[inline(always)]
pub fn kind_of(tag: &Tag) -> u8 {
    match KINDS.get((tag.name >> 1) as usize) {
        Some(kinds) if tag.name & 1 == 0 => kinds.0,
        Some(kinds) => kinds.1,
        None if tag.name < CUT => ELEMENT,
        None if tag.name == CUT => NO_ELEMENT,
        None => GAP,
    }
}
