//! Elements of a page with their evidence, blocks of text with their weights: `docstore/text/outline.py`.
//!
//! The text of every block is written to one `Flow`, folded, so that a block is a range of it.

use std::ops::Range;

use crate::evidence::element_evidence;
use crate::flow::Flow;
use crate::names::{self, properties, CLOSES, KINDS, NOTHING};
use crate::said::Remembered;
use crate::tokens::{mentions, Tag};
use crate::visible::Shown;
use crate::wide::{self, Bytes};

/// What a tag is; 0 opens or closes an element, and all but the first four end the block.
const INLINE: u8 = 1;
const SPACE: u8 = 2;
const LINK: u8 = 3;
const LINK_END: u8 = 4;
const LEAF: u8 = 5;
const NO_ELEMENT: u8 = 6;

/// A piece of text between two tags that break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of the element that holds it.
    pub owner: u32,
    /// Its place in the flow.
    pub text: Range<usize>,
    pub weight: u64,
    pub link_weight: u64,
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
    /// Each element's name, and the number of its attributes in `said`.
    pub tags: Vec<(u32, u32)>,
    pub said: Remembered,
    /// Open elements: number and name.
    stack: Vec<(u32, u32)>,
    /// How many elements of a name are open.
    open_count: Vec<u32>,
}

/// The block that is being read.
struct Reading {
    start: usize,
    /// Weight of all that is before it.
    begin: u64,
    link_weight: u64,
    evidence: u8,
    is_heading: bool,
    leaf: u32,
}

impl Reading {
    fn new(start: usize, begin: u64) -> Self {
        Self { start, begin, link_weight: 0, evidence: 0, is_heading: false, leaf: 0 }
    }
}

struct Read<'a> {
    outline: &'a mut Outline,
    source: &'a [u8],
    tags: &'a [Tag],
    flow: &'a mut Flow,
    noscript: bool,
}

impl wide::Work for Read<'_> {
    type Made = ();

    #[inline(always)]
    fn on<B: Bytes>(self) {
        self.outline.read_on::<B>(self.source, self.tags, self.flow, self.noscript);
    }
}

impl Outline {
    /// Read one page; noscript elements are shown where that is asked for.
    #[inline(never)]
    pub fn read(&mut self, source: &[u8], tags: &[Tag], flow: &mut Flow, noscript: bool) {
        wide::run(Read { outline: self, source, tags, flow, noscript });
    }

    #[inline(always)]
    fn read_on<B: Bytes>(&mut self, source: &[u8], tags: &[Tag], flow: &mut Flow, noscript: bool) {
        flow.clear();
        self.parents.clear();
        self.parents.push(0);
        self.evidence.clear();
        self.evidence.push(0);
        self.blocks.clear();
        self.tags.clear();
        self.tags.push((NOTHING, 0));
        self.stack.clear();
        self.stack.push((0, NOTHING));
        self.open_count.clear();
        self.said.begin();
        let mut shown = Shown::with(noscript);
        let mut in_link = false;
        let mut reading = Reading::new(0, 0);
        if let Some(how) = shown.text() {
            flow.push(source, 0, tags.first().map_or(source.len(), |tag| tag.start as usize), how);
        }
        for (number, tag) in tags.iter().enumerate() {
            let element = tag.name >> 1;
            let kind = kind_of(tag);
            match kind {
                INLINE => {}
                LINK => in_link = mentions(tag.attributes(source), b"href"),
                LINK_END => in_link = false,
                SPACE => flow.end_block(),
                _ => {
                    self.end_block(&mut reading, flow);
                    match kind {
                        LEAF => {
                            reading.leaf = self.said.number(tag.attributes(source));
                            if reading.leaf != 0 {
                                reading.evidence = element_evidence(element) | self.said.said(reading.leaf).evidence;
                            }
                            reading.is_heading = properties(tag.name) & names::HEADING != 0;
                        }
                        NO_ELEMENT => {}
                        _ if tag.name & 1 == 0 => self.open(source, tag),
                        _ => self.close(element),
                    }
                }
            }
            let before = flow.weight();
            if let Some(how) = shown.pass(tag) {
                flow.push(source, tag.content as usize, tag.end as usize, how);
                flow.end_block();
            }
            let end = tags.get(number + 1).map_or(source.len(), |next| next.start as usize);
            if let Some(how) = shown.text() {
                flow.push_inline::<B>(source, tag.end as usize, end, how);
            }
            if in_link {
                reading.link_weight += flow.weight() - before;
            }
        }
        self.end_block(&mut reading, flow);
    }

    /// End the block that is being read, and begin the next one.
    #[inline(always)]
    fn end_block(&mut self, reading: &mut Reading, flow: &mut Flow) {
        let weight = flow.weight() - reading.begin;
        if weight != 0 {
            let end = flow.bytes().len();
            self.blocks.push(Block {
                owner: self.stack[self.stack.len() - 1].0,
                text: reading.start + usize::from(reading.start != 0)..end,
                weight,
                link_weight: reading.link_weight,
                evidence: reading.evidence,
                is_heading: reading.is_heading,
                leaf: reading.leaf,
            });
            reading.start = end;
        }
        flow.end_block();
        *reading = Reading::new(reading.start, flow.weight());
    }

    fn open(&mut self, source: &[u8], tag: &Tag) {
        let element = tag.name >> 1;
        if let Some((_, implied)) = CLOSES.iter().find(|(name, _)| *name == element) {
            while let Some(&(_, top)) = self.stack.last().filter(|(_, top)| implied.contains(top)) {
                self.open_count[top as usize] -= 1;
                self.stack.pop();
            }
        }
        let number = self.parents.len() as u32;
        self.parents.push(self.stack[self.stack.len() - 1].0);
        let attributes = self.said.number(tag.attributes(source));
        self.evidence.push(element_evidence(element) | self.said.said(attributes).evidence);
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
        while let Some((_, closed)) = self.stack.pop() {
            self.open_count[closed as usize] -= 1;
            if closed == element {
                break;
            }
        }
    }
}

#[inline(always)]
fn kind_of(tag: &Tag) -> u8 {
    if tag.name == NOTHING {
        return INLINE;
    }
    let kinds = KINDS.get((tag.name >> 1) as usize).copied().unwrap_or((0, 0));
    if tag.name & 1 == 0 {
        kinds.0
    } else {
        kinds.1
    }
}
