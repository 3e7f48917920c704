//! The default main-content rule: `docstore/text/scored.py`, whose header states it step by step.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::OnceLock;

use memchr::memmem::{self, Finder};

use crate::bytes;
use crate::combined::{self, Combined, LITTLE_WEIGHT};
use crate::evidence::{ADVERT, MAIN, WHOLE};
use crate::flow::{Flow, Source};
use crate::marks::{self, name_marks, Marks};
use crate::names::{NAME_NOSCRIPT, NAME_TITLE};
use crate::outline::{Block, Outline, Reading};
use crate::said::Remembered;
use crate::stamps::is_stamp;
use crate::tables::scorecard::{
    AMOUNT, ANY, CONSENT, COPYRIGHT, CURRENCIES, FIFTH, HEADING_BEFORE, LIKE, LIKES, NEIGHBOUR, NEIGHBOUR_FATE,
    NOTHING, PLACE, REPEATED, SAME_ELEMENT, SENTENCE, SENTENCE_ENDS, SHAPE, SHARE, SIZES, TAKEN_WEIGHTS, TITLE, WORDS,
};
use crate::tokens::Tag;

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
/// Of the bits of `Scored::words`.
const OF_CONSENT: u8 = 1 << 1;
const LINKS: usize = 5;
const SHAPES: usize = 2 * (SIZES.len() + 1) * LINKS;
const AMOUNTS: usize = TAKEN_WEIGHTS.len() + 1;
const SHARES: u64 = (SHARE.len() / 2) as u64;
const STEPS: [isize; 4] = [-2, -1, 1, 2];
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
    /// Elements that say of themselves that they are never content.
    never: Vec<usize>,
    traits: Vec<Traits>,
    /// Of each block: which of the kinds of words in `WORDS` it has, as bits.
    words: Vec<u8>,
    /// Of each block: the number of the first block with its text, and whether a later element has it.
    first: Vec<(usize, bool)>,
    /// Numbers of blocks by a hash of their text.
    by_text: Vec<u32>,
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
}

/// What of a block its neighbours' scores depend on, too.
#[derive(Clone, Copy)]
struct Traits {
    /// Place of its form, size and links in a table.
    shape: usize,
    links: usize,
    is_taken: bool,
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
        combined::select(&self.combined.page)
    }

    /// Numbers of the blocks that are main content, ascending.
    #[inline(never)]
    fn select(&mut self, taken: &[usize]) -> Vec<usize> {
        self.find_first();
        self.count_alike();
        let page = &self.combined.page;
        let blocks = &page.blocks;
        self.traits.clear();
        self.traits.extend(blocks.iter().map(Traits::of));
        for &number in taken {
            self.traits[number].is_taken = true;
        }
        let taken_weight = weigh(page, taken);
        let total: u64 = blocks.iter().map(|block| block.weight).sum();
        let mut fifth = 0;
        let amount = steps(taken_weight, &TAKEN_WEIGHTS);
        let share = (SHARES * taken_weight).checked_div(total).map_or(0, |share| share.min(SHARES - 1)) as usize;
        let first = taken.first().copied().unwrap_or(blocks.len());
        let last = taken.last().copied().unwrap_or(0);
        self.scores.clear();
        let mut weight_before = 0;
        let mut heading_before = false;
        for (number, block) in blocks.iter().enumerate() {
            let own = self.traits[number];
            let fate = usize::from(own.is_taken);
            let (marks, of_marks) = self.paths[self.around[block.owner as usize] as usize];
            let mut score = ANY + of_marks;
            if block.leaf != 0 {
                score += page.said.said(block.leaf).marks.score_beyond(marks);
            }
            score += at(&SHAPE, fate * SHAPES + own.shape);
            score += at(&AMOUNT, fate * AMOUNTS + amount) + at(&SHARE, fate * SHARES as usize + share);
            if !own.is_taken {
                score += at(&PLACE, if number < first { 0 } else { 1 + usize::from(number > last) });
            }
            let like = steps(self.alike.count(block).into(), &LIKES);
            score += at(&LIKE, ((like * 2 + fate) * LINKS + own.links) * AMOUNTS + amount);
            while (fifth + 1) * total <= FIFTHS * weight_before {
                fifth += 1;
            }
            score += at(&FIFTH, fate * FIFTHS as usize + fifth as usize);
            weight_before += block.weight;
            heading_before |= block.is_heading;
            score += at(&HEADING_BEFORE, heading_before.into());
            let first = self.first[number].0;
            let is_in_first = blocks[first].owner == block.owner;
            score += at(&REPEATED, if is_in_first { usize::from(self.first[first].1) } else { 2 });
            if block.weight >= TITLE_WEIGHT && self.title.has(&self.combined.text()[block.text.clone()]) {
                score += at(&TITLE, block.is_heading.into());
            }
            score += self.combined.word_score(block, self.words[number], fate);
            for (neighbour, step) in STEPS.into_iter().enumerate() {
                let Some(other) = number.checked_add_signed(step).filter(|&other| other < blocks.len()) else {
                    score += at(&NOTHING, neighbour);
                    continue;
                };
                let traits = self.traits[other];
                score += at(&NEIGHBOUR, neighbour * SHAPES + traits.shape);
                score += at(&NEIGHBOUR_FATE, (neighbour * 2 + usize::from(traits.is_taken)) * 2 + fate);
                if blocks[other].owner == block.owner {
                    score += at(&SAME_ELEMENT, neighbour);
                }
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
            if (own.is_never() || marks::is_never(name)) && page.evidence[element] & WHOLE == 0 {
                self.never.push(element);
            }
            let key = (parent, name, attributes);
            let mixed = (u64::from(parent) << 42 ^ u64::from(name) << 21 ^ u64::from(attributes)).wrapping_mul(MIX);
            let made = &mut self.made[(mixed >> (64 - MADE.trailing_zeros())) as usize];
            if made.0 != key {
                let own = name_marks(name).with(own);
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

    fn find_first(&mut self) {
        let text = self.combined.text();
        let blocks = &self.combined.page.blocks;
        let slots = (blocks.len() * 2).next_power_of_two();
        self.by_text.clear();
        self.by_text.resize(slots, u32::MAX);
        self.first.clear();
        for (number, block) in blocks.iter().enumerate() {
            let mut first = number;
            if block.weight >= REPEATED_WEIGHT {
                let own = &text[block.text.clone()];
                let mut slot = (bytes::mixed(own) >> 32) as usize & (slots - 1);
                while self.by_text[slot] != u32::MAX && text[blocks[self.by_text[slot] as usize].text.clone()] != *own {
                    slot = (slot + 1) & (slots - 1);
                }
                if self.by_text[slot] == u32::MAX {
                    self.by_text[slot] = number as u32;
                }
                first = self.by_text[slot] as usize;
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
        let Alike { of_marks, of_names, of_paths, of_elements, counts } = &mut self.alike;
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
    }

    /// Which kinds of words each block has.
    fn find_words(&mut self) {
        let blocks = &self.combined.page.blocks;
        let text = self.combined.text();
        self.words.clear();
        self.words.resize(blocks.len(), 0);
        for (finder, kind) in finders() {
            let mut number = 0;
            for place in finder.find_iter(text) {
                number += blocks[number..].partition_point(|block| block.text.end <= place);
                self.words[number] |= 1 << kind;
            }
        }
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
    fn count(&self, block: &Block) -> u32 {
        self.counts[self.of_elements[block.owner as usize] as usize]
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

    /// What the words of a block say.
    fn word_score(&self, block: &Block, kinds: u8, fate: usize) -> i32 {
        let text = &self.text()[block.text.clone()];
        let start = (text.len().saturating_sub(4)..text.len()).rev().find(|&place| text[place] & 0xc0 != 0x80);
        let last = start.and_then(|place| std::str::from_utf8(&text[place..]).ok()).and_then(|end| end.chars().next());
        let mut score = if last.is_some_and(|last| SENTENCE_ENDS.contains(&last)) { at(&SENTENCE, fate) } else { 0 };
        for kind in 0..WORDS.len() {
            if kinds & 1 << kind != 0 {
                score += at(&WORDS, kind);
            }
        }
        score
    }
}

impl Traits {
    fn of(block: &Block) -> Self {
        let links = link_share(block);
        let form = usize::from(block.is_heading);
        let shape = (form * (SIZES.len() + 1) + steps(block.weight, &SIZES)) * LINKS + links;
        Self { shape, links, is_taken: false }
    }
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

/// Searchers for the words of all kinds, with the number of the kind.
fn finders() -> &'static [(Finder<'static>, usize)] {
    static FINDERS: OnceLock<Vec<(Finder<'static>, usize)>> = OnceLock::new();
    FINDERS.get_or_init(|| {
        let kinds: [&'static [&'static str]; 3] = [&CURRENCIES, &CONSENT, &COPYRIGHT];
        let numbered = kinds.into_iter().enumerate();
        numbered.flat_map(|(kind, words)| words.iter().map(move |word| (Finder::new(word), kind))).collect()
    })
}

/// Hashes what `Marks` are made of.
#[derive(Default)]
struct Mixed(u64);

impl Mixed {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(MIX);
    }
}

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for &word in words {
            self.mix(u64::from_le_bytes(word));
        }
        self.mix(bytes::load_padded(rest, 0));
    }

    fn write_u32(&mut self, word: u32) {
        self.mix(word.into());
    }
}
