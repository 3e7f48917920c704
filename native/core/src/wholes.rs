//! Lists, tables and definitions of short cells, which are main text as wholes or not at all.
//!
//! Such a whole has two cells or more, of up to `CELL_WEIGHT` and two blocks each, of which one at most is long.  It
//! holds no heading, form, other list or table.  At most half of its text is links, unless each row, item or definition
//! with a link has other words, too.  It is kept if half of it scores well, if some of it does and so does the text
//! before and behind it, or if the text before it announces it with a colon.
//!
//! Headings are kept between kept blocks, and if they are the title of the kept block behind them.

use crate::combined::SOLID_WEIGHT;
use crate::names::*;
use crate::outline::{Block, Outline};

const CELL_WEIGHT: u64 = 240;
const CELL_BLOCKS: u32 = 2;
/// Blocks that are looked at behind a heading, and the weight of those that may be left out before the kept one.
const SKIPPED: usize = 4;
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

/// The innermost list, table or list of definitions around each element; 0 for none, or for one that is no whole.
fn lists(page: &Outline) -> Option<Vec<u32>> {
    const NAMES: [u32; 5] = [NAME_UL, NAME_OL, NAME_DL, NAME_TABLE, NAME_MENU];
    let is_list = |name: u32| NAMES.contains(&name);
    if !page.tags.iter().any(|&(name, _)| is_list(name)) {
        return None;
    }
    let mut around = vec![0; page.tags.len()];
    let mut is_other = vec![false; page.tags.len()];
    for (element, &(name, _)) in page.tags.iter().enumerate().skip(1) {
        let outer = around[page.parents[element] as usize];
        around[element] = if is_list(name) { element as u32 } else { outer };
        if outer != 0 && (is_list(name) || matches!(name, NAME_FORM | NAME_PRE | NAME_BLOCKQUOTE | NAME_FIGURE)) {
            is_other[outer as usize] = true;
        }
    }
    around.iter_mut().filter(|list| is_other[**list as usize]).for_each(|list| *list = 0);
    Some(around)
}

/// Numbers of the blocks that are main content, ascending: with wholes, and with headings of what is kept.
pub fn settle(page: &Outline, text: &[u8], found: Vec<usize>) -> Vec<usize> {
    let mut is_kept = vec![false; page.blocks.len()];
    found.iter().for_each(|&number| is_kept[number] = true);
    let has_wholes = !found.is_empty() && keep_wholes(page, text, &mut is_kept);
    if keep_headings(page, &mut is_kept) || has_wholes {
        return (0..page.blocks.len()).filter(|&number| is_kept[number]).collect();
    }
    found
}

/// Keep lists and tables as wholes; gives whether this changes what is kept.
fn keep_wholes(page: &Outline, text: &[u8], is_kept: &mut [bool]) -> bool {
    let Some(lists) = lists(page) else { return false };
    let (mut whole, mut has_changed) = (Whole::default(), false);
    for number in 0..=page.blocks.len() {
        let list = page.blocks.get(number).map_or(0, |block| lists[block.owner as usize] as usize);
        if list != whole.element {
            if whole.element != 0 {
                whole.end_row();
                has_changed |= whole.settle(page, text, number, is_kept);
            }
            whole = Whole { element: list, first: number, ..Whole::default() };
        }
        if list != 0 {
            whole.add(page, text, &page.blocks[number], is_kept[number]);
        }
    }
    has_changed
}

/// Keep headings between kept blocks, and those that are the title of the kept block behind them.
fn keep_headings(page: &Outline, is_kept: &mut [bool]) -> bool {
    let blocks = &page.blocks;
    let mut has_changed = false;
    let mut end = blocks.len();
    while end > 0 {
        // The headings right before a block.
        let first = blocks[..end].iter().rposition(|block| !block.is_heading).map_or(0, |at| at + 1);
        if first < end {
            let has_text_before = is_kept[..first].contains(&true);
            let next = next_kept(page, is_kept, end, if has_text_before { SKIPPED } else { 1 });
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
    let mut around = page.blocks[heading].owner;
    for step in 0..TITLE_STEPS {
        let name = page.tags[around as usize].0;
        if holds(around, next) {
            return step == 0 || !(around == 0 || matches!(name, NAME_BODY | NAME_HTML));
        }
        let is_alone = first.checked_sub(1).is_none_or(|before| !holds(around, before));
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

    /// Keep all of it, which ends before a block, or nothing; gives whether this changes what is kept.
    fn settle(&mut self, page: &Outline, text: &[u8], end: usize, is_kept: &mut [bool]) -> bool {
        self.end_cell();
        let is_whole = !self.is_other && self.cells > 1;
        if !is_whole || self.kept_weight == self.weight || (self.link_weight * 2 > self.weight && self.has_bare_link) {
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
        true
    }
}
