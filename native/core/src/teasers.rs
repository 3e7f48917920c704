//! Cards of other pages behind a story, which are no main text.
//!
//! A *head* is a heading that weighs 8 or more, is nothing but links, and does not lead to its own page.  An element
//! around a head is a *card* if it weighs at most 600 and is at most the sixth one out from it.  Cards with one parent
//! and one name are a *group* if they are four or more and weigh at most 350 on average; of groups in each other the
//! innermost counts.
//!
//! A *story* is the first element that holds directly five blocks or more, which weigh 700 or more together; blocks of
//! less than 40, headings, blocks of which more than a third is links, and what is in cards do not count; for cards in
//! main, nor does what is outside, such as notices of a shop about its shipping.  A group that begins behind the story's
//! fifth such block goes, and with it each element around it that begins there, too, and holds at most 80 beside the
//! group, such as "Read next".
//!
//! Cases, in `tests/cases/text/`: `teasers`.

use std::collections::HashMap;

use crate::combined::{subtree_sums, SOLID_WEIGHT};
use crate::evidence::MAIN;
use crate::outline::{Block, Outline};

const LEAST_CARDS: usize = 4;
const CARD_WEIGHT: u64 = 600;
const MEAN_WEIGHT: u64 = 350;
const HEAD_WEIGHT: u64 = 8;
const STORY_BLOCKS: usize = 5;
const STORY_WEIGHT: u64 = 700;
const AROUND_WEIGHT: u64 = 80;
const MOST_STEPS: usize = 6;
const SOLID_LINK_SHARE: u64 = 3;

/// Numbers of the blocks that are teasers, ascending.
pub fn find(page: &Outline) -> Vec<usize> {
    let blocks = &page.blocks;
    let is_head = |block: &Block| {
        block.is_heading && block.link_weight == block.weight && !block.is_local && block.weight >= HEAD_WEIGHT
    };
    if blocks.iter().filter(|block| is_head(block)).count() < LEAST_CARDS {
        return Vec::new();
    }
    let sums = subtree_sums(page, blocks.iter().map(|block| block.weight));
    let groups = groups(page, &sums, is_head);
    let mut is_member = vec![false; page.parents.len()];
    groups.iter().flatten().for_each(|&element| is_member[element] = true);
    for element in 1..is_member.len() {
        is_member[element] |= is_member[page.parents[element] as usize];
    }
    let mut first_block = vec![usize::MAX; page.parents.len()];
    for (number, block) in blocks.iter().enumerate() {
        let first = &mut first_block[block.owner as usize];
        *first = number.min(*first);
    }
    for element in (1..first_block.len()).rev() {
        let parent = page.parents[element] as usize;
        first_block[parent] = first_block[parent].min(first_block[element]);
    }
    let mut is_main: Vec<bool> = page.evidence.iter().map(|evidence| evidence & MAIN != 0).collect();
    for element in 1..is_main.len() {
        is_main[element] |= is_main[page.parents[element] as usize];
    }
    let story_ends = [false, true].map(|needs_main| {
        story_end(blocks, |element| !is_member[element] && (is_main[element] || !needs_main), page.parents.len())
    });
    let mut is_gone = vec![false; page.parents.len()];
    for group in groups {
        let story_end = story_ends[usize::from(is_main[group[0]])];
        if group.iter().any(|&element| first_block[element] < story_end) {
            continue;
        }
        let held: u64 = group.iter().map(|&element| sums[element]).sum();
        group.iter().for_each(|&element| is_gone[element] = true);
        let mut around = page.parents[group[0]] as usize;
        while around != 0 && first_block[around] >= story_end && sums[around] - held <= AROUND_WEIGHT {
            is_gone[around] = true;
            around = page.parents[around] as usize;
        }
    }
    for element in 1..is_gone.len() {
        is_gone[element] |= is_gone[page.parents[element] as usize];
    }
    (0..blocks.len()).filter(|&number| is_gone[blocks[number].owner as usize]).collect()
}

/// Alike siblings of which each has a heading that is a link, ascending in each group.
fn groups(page: &Outline, sums: &[u64], is_head: impl Fn(&Block) -> bool) -> Vec<Vec<usize>> {
    // By parent and name of an element: those that hold a heading.
    let mut alike: HashMap<(u32, u32), Vec<usize>> = HashMap::new();
    let mut taken = vec![false; page.parents.len()];
    let mut groups = Vec::new();
    for block in page.blocks.iter().filter(|block| is_head(block)) {
        let mut element = block.owner as usize;
        for _ in 0..MOST_STEPS {
            if element == 0 || sums[element] > CARD_WEIGHT {
                break;
            }
            let key = (page.parents[element], page.tags[element].0);
            let members = alike.entry(key).or_default();
            if members.last() != Some(&element) {
                members.push(element);
            }
            element = page.parents[element] as usize;
        }
    }
    let mut all: Vec<Vec<usize>> = alike.into_values().filter(|members| members.len() >= LEAST_CARDS).collect();
    // The innermost come first.
    all.sort_unstable_by_key(|members| std::cmp::Reverse(members[0]));
    for members in all {
        let held: u64 = members.iter().map(|&element| sums[element]).sum();
        if held > MEAN_WEIGHT * members.len() as u64 || members.iter().any(|&element| taken[element]) {
            continue;
        }
        for &element in &members {
            let mut around = element;
            while around != 0 && !taken[around] {
                taken[around] = true;
                around = page.parents[around] as usize;
            }
        }
        groups.push(members);
    }
    groups
}

/// Number of the block behind the first blocks of one element that make up a story; beyond all where there is none.
fn story_end(blocks: &[Block], may_tell: impl Fn(usize) -> bool, elements: usize) -> usize {
    let mut held = vec![(0, 0); elements];
    for (number, block) in blocks.iter().enumerate() {
        let is_solid = block.weight >= SOLID_WEIGHT && block.link_weight * SOLID_LINK_SHARE <= block.weight;
        if is_solid && !block.is_heading && may_tell(block.owner as usize) {
            let (count, weight) = &mut held[block.owner as usize];
            *count += 1;
            *weight += block.weight;
            if *count >= STORY_BLOCKS && *weight >= STORY_WEIGHT {
                return number + 1;
            }
        }
    }
    usize::MAX
}
