//! Lists, tables and definitions of short cells, which are main text as wholes or not at all.
//!
//! Such a whole has two cells or more, of up to `CELL_WEIGHT` and two blocks each, of which one at most is long.  It
//! holds no heading, form, other list or table.  At most half of its text is links, unless each row, item or definition
//! with a link has other words, too.  It is kept if half of it scores well, if some of it does and so does the text
//! before and behind it, or if the text before it announces it with a colon.
//!
//! A paragraph right behind a kept list, in the element of that, is kept if it ends a sentence and at most two thirds of
//! it are links: "See the manual."
//!
//! Headings are kept between kept blocks, and if they are the title of the kept block behind them.

use std::ops::Range;

use crate::combined::{is_links, SOLID_WEIGHT};
use crate::names::*;
use crate::outline::{is_list, Block, Outline};
use crate::scored::ends_sentence;

const CELL_WEIGHT: u64 = 240;
const CELL_BLOCKS: u32 = 2;
/// Blocks that are looked at behind a heading, and the weight of those that may be left out before the kept one.
const SKIPPED: usize = 6;
const SKIPPED_WEIGHT: u64 = 100;
/// Elements around a title that hold it alone.
const TITLE_STEPS: usize = 5;
/// Elements between a block and the list that holds it.
const MOST_STEPS: usize = 8;

/// What is known of the whole at hand.
#[derive(Default)]
struct Whole {
    element: usize,
    first: usize,
    cells: u32,
    cell: usize,
    row: usize,
    /// Of the cell: its blocks, its long ones, its weight.
    blocks: u32,
    long: u32,
    cell_weight: u64,
    /// Of the row: the weight of its links, and whether it has other words.
    row_links: u64,
    row_words: bool,
    weight: u64,
    link_weight: u64,
    kept_weight: u64,
    has_bare_link: bool,
    is_other: bool,
}

/// Numbers of the blocks that are main content, ascending: with wholes, of which the blocks are noted, with the last words
/// behind them, and with headings of what is kept.
pub fn settle(page: &Outline, text: &[u8], found: Vec<usize>, wholes: &mut Vec<Range<usize>>) -> Vec<usize> {
    wholes.clear();
    let mut is_kept = vec![false; page.blocks.len()];
    found.iter().for_each(|&number| is_kept[number] = true);
    let has_wholes = !found.is_empty() && keep_wholes(page, text, &mut is_kept, wholes);
    if keep_headings(page, &mut is_kept) || has_wholes {
        return (0..page.blocks.len()).filter(|&number| is_kept[number]).collect();
    }
    found
}

/// Keep lists and tables as wholes, and the sentences behind them; gives whether this changes what is kept.
fn keep_wholes(page: &Outline, text: &[u8], is_kept: &mut [bool], wholes: &mut Vec<Range<usize>>) -> bool {
    let (mut whole, mut has_changed) = (Whole::default(), false);
    for (number, block) in page.blocks.iter().enumerate() {
        let list = page.list_of(block);
        if list == whole.element {
            continue;
        }
        has_changed |= whole.settle(page, text, number, is_kept, wholes);
        whole = Whole { element: list, first: number, ..Whole::default() };
    }
    has_changed |= whole.settle(page, text, page.blocks.len(), is_kept, wholes);
    for number in 1..page.blocks.len() {
        if !is_kept[number] && is_kept[number - 1] && is_last_word(page, text, number) {
            is_kept[number] = true;
            has_changed = true;
        }
    }
    has_changed
}

/// Whether a block is a sentence right behind a list, in the element of that.
fn is_last_word(page: &Outline, text: &[u8], number: usize) -> bool {
    let block = &page.blocks[number];
    if block.is_heading || block.evidence != 0 || is_links(block) || !ends_sentence(&text[block.text.clone()]) {
        return false;
    }
    let mut element = page.blocks[number - 1].owner;
    for _ in 0..MOST_STEPS {
        if page.parents[element as usize] == block.owner {
            return is_list(page.tags[element as usize].0);
        }
        element = page.parents[element as usize];
    }
    false
}

/// Keep headings between kept blocks, and those that are the title of the kept block behind them.
fn keep_headings(page: &Outline, is_kept: &mut [bool]) -> bool {
    let blocks = &page.blocks;
    let mut has_changed = false;
    let Some(first_kept) = is_kept.iter().position(|&is_kept| is_kept) else { return false };
    let mut end = blocks.len();
    while end > 0 {
        // The headings right before a block.
        let first = blocks[..end].iter().rposition(|block| !block.is_heading).map_or(0, |at| at + 1);
        if first < end {
            let next = next_kept(page, is_kept, end, if first_kept < first { SKIPPED } else { 1 });
            let is_among = next == Some(end) && first != 0 && is_kept[first - 1];
            for number in (first..end).rev() {
                if !is_kept[number] && (is_among || next.is_some_and(|next| is_title(page, number, first, next))) {
                    is_kept[number] = true;
                    has_changed = true;
                }
            }
        }
        end = first.saturating_sub(1);
    }
    has_changed
}

/// The next kept block among so many from a place on, with little before it that is left out.
fn next_kept(page: &Outline, is_kept: &[bool], start: usize, most: usize) -> Option<usize> {
    let mut weight = 0;
    for (number, block) in page.blocks.iter().enumerate().skip(start).take(most) {
        if is_kept[number] && !block.is_heading {
            return Some(number);
        }
        weight += block.weight;
        if block.is_heading || weight > SKIPPED_WEIGHT {
            return None;
        }
    }
    None
}

/// Whether a heading, in a run of headings from a first one on, is the title of a block: if the element around it holds
/// the block, or if it stands alone in that and in a few around, of which the outermost is beside the block.
fn is_title(page: &Outline, heading: usize, first: usize, next: usize) -> bool {
    let holds = |element: u32, block: usize| {
        let mut within = page.blocks[block].owner;
        for _ in 0..MOST_STEPS {
            if within == element {
                return true;
            }
            within = page.parents[within as usize];
        }
        false
    };
    let block = &page.blocks[heading];
    let is_elsewhere = block.link_weight == block.weight && !block.is_local;
    let is_right_before = !is_elsewhere && page.blocks[first..next].iter().all(|block| block.is_heading);
    let mut around = page.blocks[heading].owner;
    for step in 0..TITLE_STEPS {
        let name = page.tags[around as usize].0;
        if holds(around, next) {
            return step == 0 || is_right_before || !(around == 0 || matches!(name, NAME_BODY | NAME_HTML));
        }
        let is_alone = is_right_before || first.checked_sub(1).is_none_or(|before| !holds(around, before));
        if around == 0 || !is_alone || matches!(name, NAME_NAV | NAME_ASIDE | NAME_FOOTER) {
            return false;
        }
        around = page.parents[around as usize];
    }
    false
}

impl Whole {
    /// Add the next block.
    fn add(&mut self, page: &Outline, text: &[u8], block: &Block, is_kept: bool) {
        let (cell, row) = self.place(page, block);
        // A term is no element: its block is right in the list.
        let is_term = cell == self.element;
        if cell != self.cell || is_term {
            self.end_cell();
            self.cell = cell;
            self.cells += 1;
        }
        if row != self.row || is_term {
            self.end_row();
            self.row = row;
        }
        self.blocks += 1;
        self.long += u32::from(block.weight >= SOLID_WEIGHT);
        self.cell_weight += block.weight;
        self.weight += block.weight;
        self.link_weight += block.link_weight;
        self.kept_weight += if is_kept { block.weight } else { 0 };
        self.row_links += block.link_weight;
        let own = &text[block.text.clone()];
        self.row_words |=
            block.weight > block.link_weight && own.iter().any(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80);
        self.is_other |= block.is_heading;
    }

    /// The cell and the row of a block.
    fn place(&mut self, page: &Outline, block: &Block) -> (usize, usize) {
        let (mut element, mut cell, mut row) = (block.owner as usize, self.element, 0);
        for _ in 0..MOST_STEPS {
            if element == self.element {
                let is_definition = page.tags[element].0 == NAME_DL;
                return (
                    cell,
                    match row {
                        _ if is_definition => self.row,
                        0 => cell,
                        _ => row,
                    },
                );
            }
            match page.tags[element].0 {
                NAME_LI | NAME_TD | NAME_TH | NAME_DD => cell = element,
                NAME_TR => row = element,
                _ => {}
            }
            element = page.parents[element] as usize;
        }
        self.is_other = true;
        (cell, row)
    }

    fn end_cell(&mut self) {
        self.is_other |= self.cell_weight > CELL_WEIGHT || self.blocks > CELL_BLOCKS || self.long > 1;
        (self.blocks, self.long, self.cell_weight) = (0, 0, 0);
    }

    fn end_row(&mut self) {
        self.has_bare_link |= self.row_links != 0 && !self.row_words;
        (self.row_links, self.row_words) = (0, false);
    }

    /// Read it, up to a block, and keep all of it or nothing; gives whether this changes what is kept.
    fn settle(
        &mut self,
        page: &Outline,
        text: &[u8],
        end: usize,
        is_kept: &mut [bool],
        wholes: &mut Vec<Range<usize>>,
    ) -> bool {
        let first = self.first;
        // Nothing of it is kept or announced: it stays as it is.
        if self.element == 0 || !is_kept[first.saturating_sub(1)..end].contains(&true) {
            return false;
        }
        for (block, &is_kept) in page.blocks[first..end].iter().zip(&is_kept[first..]) {
            self.add(page, text, block, is_kept);
        }
        self.end_row();
        self.end_cell();
        let is_whole = !self.is_other && self.cells > 1;
        if !is_whole || (self.link_weight * 2 > self.weight && self.has_bare_link) {
            return false;
        }
        if self.kept_weight == self.weight {
            wholes.push(self.first..end);
            return false;
        }
        let before = self.first.checked_sub(1).filter(|&before| is_kept[before]);
        let is_announced = before.is_some_and(|before| {
            let own = &text[page.blocks[before].text.clone()];
            own.ends_with(b":") || own.ends_with("：".as_bytes())
        });
        let is_among = before.is_some() && is_kept.get(end) == Some(&true) && self.kept_weight != 0;
        let keeps = self.kept_weight * 2 >= self.weight || is_announced || is_among;
        if !keeps && self.kept_weight == 0 {
            return false;
        }
        is_kept[self.first..end].fill(keeps);
        if keeps {
            wholes.push(self.first..end);
        }
        true
    }
}
