//! The default main-content rule: `docstore/text/scored.py`, whose header states it step by step.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use memchr::memmem;

use crate::bytes;
use crate::combined::{self, Combined, LITTLE_WEIGHT};
use crate::evidence::{ADVERT, MAIN, WHOLE};
use crate::flow::{Flow, Source};
use crate::marks::{self, name_marks, Marks, Mixed};
use crate::names::{NAME_NOSCRIPT, NAME_TITLE};
use crate::outline::{Block, Outline, Reading};
use crate::phrases::{self, OF_CONSENT};
use crate::said::Remembered;
use crate::stamps::is_stamp;
use crate::strays::Strays;
use crate::tables::scorecard::{
    AMOUNT, ANY, FIFTH, HEADING_BEFORE, LIKE, LIKES, NEIGHBOUR, NEIGHBOUR_FATE, NOTHING, PLACE, REPEATED, SAME_ELEMENT,
    SENTENCE, SENTENCE_ENDS, SHAPE, SHARE, SIZES, TAKEN_WEIGHTS, TITLE, WORDS,
};
use crate::tokens::Tag;

const FEW_SOLID: usize = 16;
const WRAPPER_SHARE: (u64, u64) = (19, 20);
const CONSENT_SHARE: u64 = 5;
const ADVERT_SHARE: u64 = 2;
const DOUBTFUL_SHARE: u64 = 8;
const LITTLE_FOUND: u64 = 500;
const LITTLE_SHARE: u64 = 16;
const LOWER_BAR: i32 = -100;
const COPY_WEIGHT: u64 = 40;
const STAMP_WEIGHT: u64 = 48;
const STAMP_SHARE: u64 = 5;
const TITLE_SHARE: usize = 5;
const TITLE_WORD_CHARACTERS: usize = 4;
const TITLE_WEIGHT: u64 = 8;
const REPEATED_WEIGHT: u64 = 4;
const FIFTHS: u64 = (FIFTH.len() / 2) as u64;
const LINKS: usize = 5;
const SHAPES: usize = 2 * (SIZES.len() + 1) * LINKS;
const AMOUNTS: usize = TAKEN_WEIGHTS.len() + 1;
const SHARES: u64 = (SHARE.len() / 2) as u64;
/// Places of a block's neighbours in `Scored::traits`, where the block itself stands two behind its number.
const NEIGHBOURS: [usize; 4] = [0, 1, 3, 4];
/// The kind of what is beyond the first and the last block.
const NO_BLOCK: usize = 2 * SHAPES;
/// What a block is worth by its fate and, of each neighbour, by what that is and its fate.
static BESIDE: [[[i16; 2]; NO_BLOCK + 1]; 4] = {
    let mut worth = [[[0; 2]; NO_BLOCK + 1]; 4];
    let mut place = 0;
    while place < 4 * NO_BLOCK {
        let (neighbour, kind) = (place / NO_BLOCK, place % NO_BLOCK);
        let of_shape = NEIGHBOUR[neighbour * SHAPES + kind % SHAPES];
        let of_fate = (neighbour * 2 + kind / SHAPES) * 2;
        worth[neighbour][kind] = [of_shape + NEIGHBOUR_FATE[of_fate], of_shape + NEIGHBOUR_FATE[of_fate + 1]];
        worth[neighbour][NO_BLOCK] = [NOTHING[neighbour]; 2];
        place += 1;
    }
    worth
};
const MADE: usize = 256;
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Buffers of the rule.
#[derive(Default)]
pub struct Scored {
    combined: Combined,
    /// Marks around a text, and what they are worth: all that the page has, some twice.
    paths: Vec<(Marks, i32)>,
    /// Of each element: the place in `paths` of the marks around its text.
    around: Vec<u32>,
    /// The last path that was made of a parent's path, a name and attributes, by a hash of these.
    made: Vec<((u32, u32, u32), u32)>,
    alike: Alike,
    strays: Strays,
    /// Elements that say of themselves that they are never content.
    never: Vec<usize>,
    /// Of each block, and of two blocks that are not there before the first and behind the last.
    traits: Vec<Traits>,
    /// Of each block: which of the kinds of words in `WORDS` it has, as bits.
    words: Vec<u8>,
    /// Of each block: the number of the first block with its text, and whether a later element has it.
    first: Vec<(usize, bool)>,
    /// Numbers of blocks, with a hash of their text, by that hash.
    by_text: Vec<(u32, u32)>,
    scores: Vec<i32>,
    title: Title,
}

/// The text of the first title element, folded.
#[derive(Default)]
struct Title {
    text: String,
    characters: usize,
    /// Which pairs of bytes it has, by `pair_bit`.
    pairs: [u64; 32],
}

/// Counts of blocks with the same marks and element.
#[derive(Default)]
struct Alike {
    /// Numbers of sets of marks, and of those together with a name.
    of_marks: HashMap<Marks, u32, BuildHasherDefault<Mixed>>,
    of_names: HashMap<(u32, u32), u32, BuildHasherDefault<Mixed>>,
    /// Of each path, and of each element: the number; `u32::MAX` where it is not known.
    of_paths: Vec<u32>,
    of_elements: Vec<u32>,
    counts: Vec<u32>,
    /// How many of `LIKES` each count reaches.
    likes: Vec<u8>,
}

/// What of a block its neighbours' scores depend on, too.
#[derive(Clone, Copy)]
struct Traits {
    /// Of the block's element.
    owner: u32,
    /// Place of its form, size and links in a table, `SHAPES` more where it is taken; or `NO_BLOCK`.
    kind: u16,
}

/// Main content of a page, in `flow`.
pub fn scored(source: &[u8], tags: &[Tag], buffers: &mut Scored, flow: &mut Flow) {
    buffers.read_title(source, tags, flow);
    let taken = buffers.read(source, tags);
    let kept = buffers.select(&taken);
    let page = &buffers.combined.page;
    let total: u64 = page.blocks.iter().map(|block| block.weight).sum();
    let may_be_doubtful = weigh(page, &kept) * DOUBTFUL_SHARE < total;
    let found = if kept.is_empty() { taken } else { kept };
    let is_doubtful = may_be_doubtful && buffers.is_of_another(&found, flow);
    let found = if is_doubtful { combined::lenient(&buffers.combined.page) } else { found };
    buffers.combined.write(&buffers.combined.without_stamps(found), flow);
}

impl Scored {
    /// Step 1: the page, and the numbers of the blocks that `combined` takes.
    fn read(&mut self, source: &[u8], tags: &[Tag]) -> Vec<usize> {
        let taken = self.take(source, tags, false);
        if weigh(&self.combined.page, &taken) < LITTLE_WEIGHT && tags.iter().any(|tag| tag.name == NAME_NOSCRIPT << 1) {
            let of_shown = self.take(source, tags, true);
            if weigh(&self.combined.page, &of_shown) >= LITTLE_WEIGHT {
                return of_shown;
            }
            return self.take(source, tags, false);
        }
        taken
    }

    /// The page without what is never content, and the numbers of the blocks that `combined` takes.
    fn take(&mut self, source: &[u8], tags: &[Tag], noscript: bool) -> Vec<usize> {
        self.combined.read(source, tags, Reading { noscript, apart: true });
        self.mark();
        self.find_words();
        self.drop_never();
        self.drop_strays();
        combined::select(&self.combined.page, FEW_SOLID)
    }

    /// Numbers of the blocks that are main content, ascending.
    #[inline(never)]
    fn select(&mut self, taken: &[usize]) -> Vec<usize> {
        self.find_first();
        self.count_alike();
        let page = &self.combined.page;
        let blocks = &page.blocks;
        self.traits.clear();
        self.traits.extend([Traits::NO_BLOCK; 2]);
        self.traits.extend(blocks.iter().map(Traits::of));
        self.traits.extend([Traits::NO_BLOCK; 2]);
        for &number in taken {
            self.traits[number + 2].kind += SHAPES as u16;
        }
        let taken_weight = weigh(page, taken);
        let total: u64 = blocks.iter().map(|block| block.weight).sum();
        let mut fifth = 0;
        let amount = steps(taken_weight, &TAKEN_WEIGHTS);
        let share = (SHARES * taken_weight).checked_div(total).map_or(0, |share| share.min(SHARES - 1)) as usize;
        let of_page =
            [0, 1].map(|fate| ANY + at(&AMOUNT, fate * AMOUNTS + amount) + at(&SHARE, fate * SHARES as usize + share));
        let first = taken.first().copied().unwrap_or(blocks.len());
        let last = taken.last().copied().unwrap_or(0);
        self.scores.clear();
        let mut weight_before = 0;
        let mut heading_before = false;
        let around = self.traits.windows(5);
        for (number, (block, around)) in blocks.iter().zip(around).enumerate() {
            let own = around[2];
            let (fate, shape) = (usize::from(own.kind) / SHAPES, usize::from(own.kind) % SHAPES);
            let (marks, of_marks) = self.paths[self.around[block.owner as usize] as usize];
            let mut score = of_page[fate] + of_marks;
            if block.leaf != 0 {
                score += page.said.said(block.leaf).marks.score_beyond(marks);
            }
            score += at(&SHAPE, own.kind.into());
            if fate == 0 {
                score += at(&PLACE, if number < first { 0 } else { 1 + usize::from(number > last) });
            }
            let like = self.alike.like(block);
            score += at(&LIKE, ((like * 2 + fate) * LINKS + shape % LINKS) * AMOUNTS + amount);
            while (fifth + 1) * total <= FIFTHS * weight_before {
                fifth += 1;
            }
            score += at(&FIFTH, fate * FIFTHS as usize + fifth as usize);
            weight_before += block.weight;
            heading_before |= block.is_heading;
            score += at(&HEADING_BEFORE, heading_before.into());
            let (first, is_repeated) = self.first[number];
            let is_in_first = first == number || blocks[first].owner == block.owner;
            let is_repeated = if first == number { is_repeated } else { self.first[first].1 };
            score += at(&REPEATED, if is_in_first { usize::from(is_repeated) } else { 2 });
            let text = &self.combined.text()[block.text.clone()];
            if block.weight >= TITLE_WEIGHT && self.title.has(text) {
                score += at(&TITLE, block.is_heading.into());
            }
            score += word_score(text, self.words[number], fate);
            for (neighbour, place) in NEIGHBOURS.into_iter().enumerate() {
                let other = around[place];
                score += i32::from(BESIDE[neighbour][usize::from(other.kind)][fate]);
                score += if other.owner == own.owner { at(&SAME_ELEMENT, neighbour) } else { 0 };
            }
            self.scores.push(score);
        }
        self.choose()
    }

    /// Step 3 without `combined`: numbers of the blocks that their scores keep, ascending.
    fn choose(&self) -> Vec<usize> {
        let page = &self.combined.page;
        let above = |bar| (0..self.scores.len()).filter(|&number| self.scores[number] > bar).collect();
        let mut kept: Vec<usize> = above(0);
        let weight = weigh(page, &kept);
        if weight < LITTLE_FOUND || weight * LITTLE_SHARE < page.blocks.iter().map(|block| block.weight).sum() {
            kept = above(LOWER_BAR);
        }
        let mut owners = vec![None; self.scores.len()];
        kept.retain(|&number| {
            let block = &page.blocks[number];
            if block.weight < COPY_WEIGHT {
                return true;
            }
            let first = *owners[self.first[number].0].get_or_insert(block.owner);
            first == block.owner || self.are_beside(first as usize, block.owner as usize)
        });
        kept
    }

    /// Whether elements have the same parent, name and marks.
    fn are_beside(&self, one: usize, other: usize) -> bool {
        let parents = &self.combined.page.parents;
        parents[one] == parents[other] && self.alike.of_elements[one] == self.alike.of_elements[other]
    }

    fn read_title(&mut self, source: &[u8], tags: &[Tag], flow: &mut Flow) {
        flow.clear();
        if let Some(title) = tags.iter().find(|tag| tag.name == NAME_TITLE << 1) {
            flow.push(source, title.content as usize, title.end as usize, Source::Text);
        }
        self.title = Title::of(flow.to_line());
    }

    /// Whether what was found is not what the title names.
    fn is_of_another(&self, found: &[usize], flow: &mut Flow) -> bool {
        let mut words: Vec<&str> =
            self.title.text.split(' ').filter(|word| word.chars().count() >= TITLE_WORD_CHARACTERS).collect();
        words.sort_unstable();
        words.dedup();
        self.combined.write(found, flow);
        let named = words.iter().filter(|word| memmem::find(flow.bytes(), word.as_bytes()).is_some()).count();
        named * TITLE_SHARE < words.len()
    }

    /// Marks around the text of each element, its own among them.
    fn mark(&mut self) {
        let page = &self.combined.page;
        self.never.clear();
        self.paths.clear();
        self.paths.push((Marks::default(), 0));
        self.around.clear();
        self.around.push(0);
        self.made.clear();
        self.made.resize(MADE, ((u32::MAX, 0, 0), 0));
        for element in 1..page.parents.len() {
            let parent = self.around[page.parents[element] as usize];
            let (name, attributes) = page.tags[element];
            let own = page.said.said(attributes).marks.with(page.custom(name).marks);
            let of_name = name_marks(name);
            if own == Marks::default() && of_name == Marks::default() {
                self.around.push(parent);
                continue;
            }
            if (own.is_never() || marks::is_never(name)) && page.evidence[element] & WHOLE == 0 {
                self.never.push(element);
            }
            let key = (parent, name, attributes);
            let mixed = (u64::from(parent) << 42 ^ u64::from(name) << 21 ^ u64::from(attributes)).wrapping_mul(MIX);
            let made = &mut self.made[(mixed >> (64 - MADE.trailing_zeros())) as usize];
            if made.0 != key {
                let own = of_name.with(own);
                let (around, worth) = self.paths[parent as usize];
                *made = (key, parent);
                if !own.are_in(around) {
                    made.1 = self.paths.len() as u32;
                    self.paths.push((around.with(own), worth + own.score_beyond(around)));
                }
            }
            self.around.push(made.1);
        }
    }

    /// Drop the blocks in elements that are never content.
    fn drop_never(&mut self) {
        let page = &mut self.combined.page;
        let leaf_says_so =
            |said: &Remembered, block: &Block| block.evidence & ADVERT != 0 || said.said(block.leaf).marks.is_never();
        let by_leaf = page.blocks.iter().any(|block| leaf_says_so(&page.said, block));
        if !by_leaf && self.never.is_empty() && page.evidence.iter().all(|evidence| evidence & ADVERT == 0) {
            return;
        }
        let sums = combined::subtree_sums(page, page.blocks.iter().map(|block| block.weight));
        let named = page.blocks.iter().zip(&self.words);
        let named = named.map(|(block, kinds)| if kinds & OF_CONSENT != 0 { block.weight } else { 0 });
        let of_consent = combined::subtree_sums(page, named);
        let is_advert = |(&evidence, &sum): (&u8, &u64)| {
            evidence & ADVERT != 0 && evidence & (MAIN | WHOLE) == 0 && sum * ADVERT_SHARE <= sums[0]
        };
        let mut never: Vec<bool> = page.evidence.iter().zip(&sums).map(is_advert).collect();
        for &element in &self.never {
            let is_page = sums[element] * WRAPPER_SHARE.1 > sums[0] * WRAPPER_SHARE.0;
            never[element] |= !is_page || of_consent[element] * CONSENT_SHARE >= sums[element];
        }
        for element in 1..never.len() {
            never[element] |= never[page.parents[element] as usize];
        }
        let goes = |block: &Block| {
            never[block.owner as usize] || (leaf_says_so(&page.said, block) && block.weight * ADVERT_SHARE <= sums[0])
        };
        let mut is_kept = page.blocks.iter().map(|block| !goes(block)).collect::<Vec<_>>().into_iter();
        self.words.retain(|_| is_kept.next() == Some(true));
        page.blocks.retain(|block| !goes(block));
    }

    /// Drop long texts that few of many alike elements have.
    fn drop_strays(&mut self) {
        let page = &mut self.combined.page;
        let strays = self.strays.find(page);
        if strays.is_empty() {
            return;
        }
        let mut kinds = 0..;
        self.words.retain(|_| kinds.next().is_some_and(|number| strays.binary_search(&number).is_err()));
        let mut blocks = 0..;
        page.blocks.retain(|_| blocks.next().is_some_and(|number| strays.binary_search(&number).is_err()));
    }

    fn find_first(&mut self) {
        let text = self.combined.text();
        let blocks = &self.combined.page.blocks;
        let slots = (blocks.len() * 2).next_power_of_two();
        self.by_text.clear();
        self.by_text.resize(slots, (u32::MAX, 0));
        self.first.clear();
        for (number, block) in blocks.iter().enumerate() {
            let mut first = number;
            if block.weight >= REPEATED_WEIGHT {
                let own = &text[block.text.clone()];
                let mixed = (bytes::mixed(own) >> 32) as u32;
                let mut slot = mixed as usize & (slots - 1);
                let is_other = |(other, hash): (u32, u32)| {
                    other != u32::MAX && (hash != mixed || text[blocks[other as usize].text.clone()] != *own)
                };
                while is_other(self.by_text[slot]) {
                    slot = (slot + 1) & (slots - 1);
                }
                if self.by_text[slot].0 == u32::MAX {
                    self.by_text[slot] = (number as u32, mixed);
                }
                first = self.by_text[slot].0 as usize;
                if blocks[first].owner != block.owner {
                    self.first[first].1 = true;
                }
            }
            self.first.push((first, false));
        }
    }

    /// How many blocks have the marks and the element of each block.
    fn count_alike(&mut self) {
        let page = &self.combined.page;
        let Alike { of_marks, of_names, of_paths, of_elements, counts, likes } = &mut self.alike;
        of_marks.clear();
        of_names.clear();
        of_paths.clear();
        of_paths.resize(self.paths.len(), u32::MAX);
        of_elements.clear();
        of_elements.resize(page.parents.len(), u32::MAX);
        counts.clear();
        for block in &page.blocks {
            let number = &mut of_elements[block.owner as usize];
            if *number == u32::MAX {
                let path = self.around[block.owner as usize] as usize;
                if of_paths[path] == u32::MAX {
                    let next = of_marks.len() as u32;
                    of_paths[path] = *of_marks.entry(self.paths[path].0).or_insert(next);
                }
                let next = of_names.len() as u32;
                *number = *of_names.entry((of_paths[path], page.tags[block.owner as usize].0)).or_insert(next);
                counts.resize(of_names.len(), 0);
            }
            counts[*number as usize] += 1;
        }
        likes.clear();
        likes.extend(counts.iter().map(|&count| steps(count.into(), &LIKES) as u8));
    }

    /// Which kinds of words each block has.
    fn find_words(&mut self) {
        let blocks = &self.combined.page.blocks;
        self.words.clear();
        self.words.resize(blocks.len(), 0);
        let mut number = 0;
        phrases::find(self.combined.text(), |place, kinds| {
            if place < blocks[number].text.start {
                number = 0;
            }
            while blocks[number].text.end <= place {
                number += 1;
            }
            self.words[number] |= kinds;
        });
    }
}

impl Title {
    fn of(text: String) -> Self {
        let mut pairs = [0; 32];
        for pair in text.as_bytes().windows(2) {
            let (place, bit) = pair_bit(pair);
            pairs[place] |= bit;
        }
        Self { characters: characters_of(text.as_bytes()), pairs, text }
    }

    /// Whether it has a text, which must be a quarter of it.
    fn has(&self, text: &[u8]) -> bool {
        let title = self.text.as_bytes();
        let has_pair = |pair| {
            let (place, bit) = pair_bit(pair);
            self.pairs[place] & bit != 0
        };
        text.len() <= title.len()
            && text.len() * 4 >= self.characters
            && text.windows(2).all(has_pair)
            && characters_of(text) * 4 >= self.characters
            && memmem::find(title, text).is_some()
    }
}

/// Place and bit of two bytes in `Title::pairs`.
#[inline(always)]
fn pair_bit(pair: &[u8]) -> (usize, u64) {
    let number = (usize::from(pair[0]) * 37) ^ usize::from(pair[1]);
    (number / 64 % 32, 1 << (number % 64))
}

impl Alike {
    fn like(&self, block: &Block) -> usize {
        self.likes[self.of_elements[block.owner as usize] as usize].into()
    }
}

impl Combined {
    /// Step 5.
    fn without_stamps(&self, mut found: Vec<usize>) -> Vec<usize> {
        let is_stamp = |&number: &usize| {
            let block = &self.page.blocks[number];
            !block.is_heading && block.weight <= STAMP_WEIGHT && is_stamp(&self.text()[block.text.clone()])
        };
        let stamps: Vec<usize> = found.iter().copied().filter(is_stamp).collect();
        if !stamps.is_empty() && weigh(&self.page, &stamps) * STAMP_SHARE <= weigh(&self.page, &found) {
            found.retain(|number| stamps.binary_search(number).is_err());
        }
        found
    }
}

impl Traits {
    const NO_BLOCK: Self = Self { owner: u32::MAX, kind: NO_BLOCK as u16 };

    fn of(block: &Block) -> Self {
        let form = usize::from(block.is_heading);
        let shape = (form * (SIZES.len() + 1) + steps(block.weight, &SIZES)) * LINKS + link_share(block);
        Self { owner: block.owner, kind: shape as u16 }
    }
}

/// What the words of a block say.
#[inline(always)]
fn word_score(text: &[u8], kinds: u8, fate: usize) -> i32 {
    let mut score = if ends_sentence(text) { at(&SENTENCE, fate) } else { 0 };
    if kinds != 0 {
        for kind in 0..WORDS.len() {
            if kinds & 1 << kind != 0 {
                score += at(&WORDS, kind);
            }
        }
    }
    score
}

#[inline(always)]
fn ends_sentence(text: &[u8]) -> bool {
    let Some(start) = text.iter().rposition(|byte| byte & 0xc0 != 0x80) else { return false };
    let last = bytes::code_point(&text[start..], bytes::sequence_length(text[start]));
    SENTENCE_ENDS.iter().any(|&end| u32::from(end) == last)
}

fn link_share(block: &Block) -> usize {
    if block.link_weight == 0 {
        0
    } else if block.link_weight == block.weight {
        4
    } else {
        1 + usize::from(block.link_weight * 3 > block.weight) + usize::from(block.link_weight * 3 > block.weight * 2)
    }
}

/// Characters of a text.
fn characters_of(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
}

#[inline(always)]
fn at(table: &[i16], place: usize) -> i32 {
    table[place].into()
}

fn steps(value: u64, steps: &[u64]) -> usize {
    steps.iter().filter(|&&step| value >= step).count()
}

fn weigh(page: &Outline, numbers: &[usize]) -> u64 {
    combined::weigh(&page.blocks, numbers)
}
