//! The rule `combined`: what of a page's text is its content, decided over one stream of tags and texts.
//!
//! The rule, on the blocks and elements of `outline.rs`; "weight" is theirs:
//!
//! 0. An element whose class or id says advert is dropped when it holds at most half of the page's text.
//! 1. A block outside of these is *solid* when it weighs at least 40 and at most a third of it is links; its solid
//!    weight is what is not link.  If no block is, the least weight is waived.
//! 2. An element whose tag says boilerplate is dropped when it holds at most half of the page's solid weight (a header
//!    only outside an article); one whose class or id says so, when it holds at most a third; the block after a leaf
//!    tag that says so likewise.  What holds more is the page itself, whatever it is called.
//! 3. The *container*: the heaviest `itemprop=articleBody`, else the heaviest article, else the first main, of those
//!    with more than a third of the solid weight left; else the whole page.  Unless it is an articleBody, while one
//!    child holds at least 19/20 of its solid weight, that child takes its place.
//! 4. The blocks left in the container, up to the last solid one, that are at most two thirds links.  Before them the
//!    *lead*: going back from the first of them to the nearest heading, past at most 4 blocks that are no lead, that
//!    heading and the solid blocks without links; nothing if there is no such heading.  Dropped blocks are passed over.
//!    Where the container is an articleBody, article or main, and what is taken weighs less than half of the blocks
//!    left in it, these are all taken: its author says that it is content, though it be lists of links.
//! 5. If these weigh less than 300 (about 50 words) they are often the template alone.  Then: every block but those in
//!    elements that say boilerplate and hold at most half of the page's whole text; if that is less than 500, every
//!    block but those in elements whose class or id says advert and that hold at most half; if that is nothing, every
//!    block.
//!
//! Large shares decide, not optima: an advert or menu entry more moves no weight across a share, save by rare chance,
//! and 5 gives pages with little text enough to differ by.
//!
//! Cases, in `tests/cases/text/`: `combined`.

use std::ops::Range;

use crate::evidence::{ADVERT, ARTICLE, ARTICLE_BODY, BOILERPLATE, HEADER, HINT, MAIN, WHOLE};
use crate::flow::{Flow, Source};
use crate::left_out::Kept;
use crate::once::Once;
use crate::outline::{Block, Outline, Reading};

pub const SOLID_WEIGHT: u64 = 40;
const SOLID_LINK_SHARE: u64 = 3;
const TAG_SHARE: u64 = 2;
const HINT_SHARE: u64 = 3;
const CONTAINER_SHARE: u64 = 3;
const DESCENT: (u64, u64) = (19, 20);
const KEPT_LINKS: (u64, u64) = (2, 3);
const LEAD_REACH: usize = 4;
const EXPLICIT_SHARE: u64 = 2;
pub const LITTLE_WEIGHT: u64 = 300;
const LENIENT_WEIGHT: u64 = 500;

/// Buffers of the rule.
#[derive(Default)]
pub struct Combined {
    pub page: Outline,
    all: Flow,
    once: Once,
}

/// Main content of a page, in `flow`.
pub fn combined(source: &[u8], kept: Kept, buffers: &mut Combined, flow: &mut Flow) {
    buffers.read(source, kept, Reading::default());
    let kept = select(&buffers.page, 0);
    buffers.write(&kept, flow);
}

impl Combined {
    /// Read a page.
    pub fn read(&mut self, source: &[u8], kept: Kept, reading: Reading) {
        self.page.read(source, kept, &mut self.all, reading);
    }

    /// The text of all blocks, a line feed between.
    pub fn text(&self) -> &[u8] {
        self.all.bytes()
    }

    /// Treat as signs the long sentences of some blocks that an earlier one of them has said; wholes stay whole.
    pub fn leave_out_repeated(&mut self, kept: &[usize], wholes: &[Range<usize>]) {
        let repeated = self.once.find(&self.page, self.all.bytes(), kept, wholes);
        if !repeated.is_empty() {
            self.page.signs.extend(repeated);
            self.page.signs.sort_unstable_by_key(|sign| sign.start);
        }
    }

    /// Blocks on lines of their own without signs, in `flow`.
    pub fn write(&self, kept: &[usize], flow: &mut Flow) {
        flow.clear();
        let mut signs = &self.page.signs[..];
        // Blocks that follow each other stand in the text as they are to stand here, one line feed between.
        let mut run = 0..0;
        for &number in kept {
            let text = &self.page.blocks[number].text;
            while signs.first().is_some_and(|sign| sign.end <= text.start) {
                signs = &signs[1..];
            }
            let has_sign = signs.first().is_some_and(|sign| sign.start < text.end);
            if has_sign || run.is_empty() || run.end + 1 != text.start {
                flow.push_folded(&self.all.bytes()[run.clone()]);
                run.start = text.start;
            }
            run.end = text.end;
            if has_sign {
                self.write_around(text.clone(), signs, flow);
                run = 0..0;
            }
        }
        flow.push_folded(&self.all.bytes()[run]);
    }

    /// The text of one block without signs; empty if it has nothing else.
    pub fn written(&self, block: &Block) -> String {
        let mut flow = Flow::default();
        let before = self.page.signs.partition_point(|sign| sign.end <= block.text.start);
        self.write_around(block.text.clone(), &self.page.signs[before..], &mut flow);
        String::from_utf8_lossy(flow.bytes()).into_owned()
    }

    #[inline(never)]
    fn write_around(&self, text: Range<usize>, signs: &[Range<usize>], flow: &mut Flow) {
        flow.end_block();
        let mut start = text.start;
        for sign in signs.iter().take_while(|sign| sign.start < text.end) {
            flow.push(self.all.bytes(), start, sign.start.max(start), Source::Literal);
            flow.blank();
            start = sign.end;
        }
        flow.push(self.all.bytes(), start, text.end, Source::Literal);
    }
}

/// What the rule decides, and what its steps found.
pub struct Decision {
    /// Numbers of the blocks that are main content, ascending.
    pub kept: Vec<usize>,
    /// Of each element: whether it is an advert.
    pub adverts: Vec<bool>,
    /// Of each block: whether step 2 drops it.
    pub dropped: Vec<bool>,
    /// Of each element: whether it is in the container of step 3.
    pub inside: Vec<bool>,
    /// Whether step 5 decided.
    pub is_lenient: bool,
}

/// Numbers of the blocks that are main content, ascending; where no more than `few_solid` blocks are solid, the least
/// weight is waived.
pub fn select(page: &Outline, few_solid: usize) -> Vec<usize> {
    decide(page, few_solid).kept
}

/// `select`, with what the steps of the rule found.
#[inline(never)]
pub fn decide(page: &Outline, few_solid: usize) -> Decision {
    let blocks = &page.blocks;
    let adverts = said_and_small(page, ADVERT);
    let mut solid = solid_weights(blocks, SOLID_WEIGHT, &adverts);
    if solid.iter().filter(|&&weight| weight != 0).count() <= few_solid {
        solid = solid_weights(blocks, 0, &adverts);
    }
    let (dropped_elements, dropped) = dropped(page, &solid, &adverts);
    for (weight, &is_dropped) in solid.iter_mut().zip(&dropped) {
        if is_dropped {
            *weight = 0;
        }
    }
    let (inside, is_explicit) = container(page, &solid, &dropped_elements);
    let left: Vec<usize> =
        (0..blocks.len()).filter(|&number| inside[blocks[number].owner as usize] && !dropped[number]).collect();
    let mut kept = Vec::new();
    let last = left.iter().rposition(|&number| solid[number] != 0);
    if last.is_some() {
        kept = lead(blocks, &solid, &dropped, left[0]);
    }
    kept.extend_from_slice(&left[..last.map_or(left.len(), |place| place + 1)]);
    kept.retain(|&number| !is_links(&blocks[number]));
    if is_explicit && weigh(blocks, &kept) * EXPLICIT_SHARE < weigh(blocks, &left) {
        kept.extend_from_slice(&left);
        kept.sort_unstable();
        kept.dedup();
    }
    let is_lenient = weigh(blocks, &kept) < LITTLE_WEIGHT;
    let kept = if is_lenient { lenient(page) } else { kept };
    Decision { kept, adverts, dropped, inside, is_lenient }
}

/// Whether more than two thirds of a block are links.
pub fn is_links(block: &Block) -> bool {
    block.link_weight * KEPT_LINKS.1 > block.weight * KEPT_LINKS.0
}

pub fn weigh(blocks: &[Block], numbers: &[usize]) -> u64 {
    numbers.iter().map(|&number| blocks[number].weight).sum()
}

fn solid_weights(blocks: &[Block], least: u64, adverts: &[bool]) -> Vec<u64> {
    let is_solid = |block: &Block| {
        block.weight >= least && block.link_weight * SOLID_LINK_SHARE <= block.weight && !adverts[block.owner as usize]
    };
    blocks.iter().map(|block| if is_solid(block) { block.weight - block.link_weight } else { 0 }).collect()
}

/// Sum of the weights of the blocks inside each element.
pub fn subtree_sums(page: &Outline, weights: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut sums = vec![0; page.parents.len()];
    for (block, weight) in page.blocks.iter().zip(weights) {
        sums[block.owner as usize] += weight;
    }
    for element in (1..sums.len()).rev() {
        sums[page.parents[element] as usize] += sums[element];
    }
    sums
}

/// Which elements lie in one whose evidence has a wanted bit and which holds at most half of the page's text.
fn said_and_small(page: &Outline, wanted: u8) -> Vec<bool> {
    let mut found = vec![false; page.parents.len()];
    if page.evidence.iter().all(|evidence| evidence & wanted == 0) {
        return found;
    }
    let sums = subtree_sums(page, page.blocks.iter().map(|block| block.weight));
    for (element, &evidence) in page.evidence.iter().enumerate() {
        let says_so = evidence & wanted != 0 && evidence & (MAIN | WHOLE) == 0;
        found[element] = found[page.parents[element] as usize] || (says_so && sums[element] * TAG_SHARE <= sums[0]);
    }
    found
}

/// Which elements, and which blocks, step 2 drops; adverts among them.
fn dropped(page: &Outline, solid: &[u64], adverts: &[bool]) -> (Vec<bool>, Vec<bool>) {
    let sums = subtree_sums(page, solid.iter().copied());
    let total = sums[0];
    let mut elements = vec![false; page.parents.len()];
    for (element, &evidence) in page.evidence.iter().enumerate() {
        let parent = page.parents[element] as usize;
        if elements[parent] || adverts[element] {
            elements[element] = true;
        } else if evidence != 0 {
            let held = sums[element];
            let is_boilerplate =
                evidence & BOILERPLATE != 0 || (evidence & HEADER != 0 && page.evidence[parent] & ARTICLE == 0);
            let is_hinted = evidence & HINT != 0 && evidence & (MAIN | WHOLE) == 0;
            elements[element] =
                (is_boilerplate && held * TAG_SHARE <= total) || (is_hinted && held * HINT_SHARE <= total);
        }
    }
    let says_so = |block: &Block| block.evidence & (BOILERPLATE | HINT) != 0 && block.weight * HINT_SHARE <= total;
    let blocks = page.blocks.iter().map(|block| elements[block.owner as usize] || says_so(block)).collect();
    (elements, blocks)
}

/// Which elements lie in the container of step 3, itself among them; and whether it comes of explicit markup.
fn container(page: &Outline, solid: &[u64], dropped: &[bool]) -> (Vec<bool>, bool) {
    let count = page.parents.len();
    let sums = subtree_sums(page, solid.iter().copied());
    let (mut body, mut article, mut main) = (0, 0, 0);
    for (element, &evidence) in page.evidence.iter().enumerate() {
        if evidence & (ARTICLE_BODY | ARTICLE | MAIN) == 0
            || dropped[element]
            || sums[element] * CONTAINER_SHARE <= sums[0]
        {
            continue;
        }
        if evidence & ARTICLE_BODY != 0 && (body == 0 || sums[element] > sums[body]) {
            body = element;
        }
        if evidence & ARTICLE != 0 && (article == 0 || sums[element] > sums[article]) {
            article = element;
        }
        if evidence & MAIN != 0 && main == 0 {
            main = element;
        }
    }
    let mut top = [body, article, main].into_iter().find(|&element| element != 0).unwrap_or(0);
    if body == 0 && sums[0] != 0 {
        let mut heaviest = vec![0; count];
        for element in (1..count).rev() {
            let rival = &mut heaviest[page.parents[element] as usize];
            if *rival == 0 || sums[element] >= sums[*rival] {
                *rival = element;
            }
        }
        while heaviest[top] != 0 && sums[heaviest[top]] * DESCENT.1 >= sums[top] * DESCENT.0 {
            top = heaviest[top];
        }
    }
    let mut inside = vec![false; count];
    inside[top] = true;
    for element in top + 1..count {
        inside[element] = inside[page.parents[element] as usize];
    }
    (inside, [body, article, main] != [0; 3])
}

/// Numbers of the lead's blocks, ascending, which end before block `first`.
fn lead(blocks: &[Block], solid: &[u64], dropped: &[bool], first: usize) -> Vec<usize> {
    let mut lead = Vec::new();
    let mut others = 0;
    for number in (0..first).rev().filter(|&number| !dropped[number]) {
        if blocks[number].is_heading {
            lead.push(number);
            lead.reverse();
            return lead;
        }
        if solid[number] != 0 && blocks[number].link_weight == 0 {
            lead.push(number);
        } else {
            others += 1;
            if others > LEAD_REACH {
                break;
            }
        }
    }
    Vec::new()
}

/// Step 5.
pub fn lenient(page: &Outline) -> Vec<usize> {
    let blocks = &page.blocks;
    let mut kept = Vec::new();
    for wanted in [BOILERPLATE | HINT, ADVERT] {
        let dropped = said_and_small(page, wanted);
        kept = (0..blocks.len()).filter(|&number| !dropped[blocks[number].owner as usize]).collect();
        if weigh(blocks, &kept) >= LENIENT_WEIGHT {
            break;
        }
    }
    if kept.is_empty() {
        kept = (0..blocks.len()).collect();
    }
    kept
}
