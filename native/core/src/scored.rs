//! The default rule, `scored`: every block is scored by a table of evidence, and kept above the page's bar.
//!
//! The rule:
//!
//! 1. The blocks of the page but for those in elements that are never content (see `marks.rs`) or say that they are
//!    adverts and hold at most half of the text, and those of at most half after leaves that say so; inline tags that
//!    say so stand apart (see `marks.rs`).  Of the rest, *outlier blocks* go, long texts that few of many alike
//!    elements have (`outliers.rs`), and *teasers* (`teasers.rs`). And what `combined` takes of the blocks; if it finds
//!    16 solid ones or fewer, short ones are solid, too.  An element that holds more than 19/20 of the text is the page
//!    itself, whatever it is called, unless a fifth of what it holds or more names cookies or consent; html and body
//!    always are.  Where what is taken weighs less than 300 and the page has noscript elements, these are shown, and if
//!    300 or more is taken then, the page is read so: it is a shell for browsers that run scripts, and its text stands
//!    there for those that do not.
//! 2. A block's *score* is the sum of what the scorecard gives for: the marks of the elements around it and of its own
//!    tag; its size, its share of links and whether it is a heading, together with whether `combined` took it; where it
//!    stands to what was taken, in which fifth of the page's text, and whether a heading comes before it; whether its
//!    text stands in the title, or in another element too; how many blocks of the page have just the same marks and
//!    element; whether it ends a sentence, has a sign of currency, names cookies or consent, or claims a copyright; and
//!    the same things of the two blocks before and the two behind.
//! 3. Blocks with a score above the *bar* are the main content: of -100, -50, 0 and 50 the one that promises the
//!    greatest F1, where a block's chance to be content grows evenly from none at -200 to all at 300 and blocks count
//!    by weight; the lowest of equals.  But of blocks of 40 and more with the same text only those in the element of
//!    the first, or in one next to it with its name and marks, as pages repeat a text for other sizes of screen, and
//!    replies quote.  Where there is none, what `combined` took.
//! 4. That is *doubtful* where it weighs less than an eighth of the page's text, or no block scored above the bar, and
//!    it has less than a fifth of the words of the title (of those with four characters or more, as they are written).
//!    Then it is likely to be a notice that the whole site shares, and the page's text is that of step 5 of `combined`:
//!    all that does not say that it is boilerplate.
//! 5. Of what was found, *stamps* (dates, times and counts: `stamps.rs`) are left out, headings and blocks over 48
//!    apart, where all of them weigh at most a fifth: they change while the page says the same.  A page of more is
//!    about them.
//!
//! 6. Dates and times of lists and tables among what was found belong to it, with the short block before each.
//!    Preformatted text among or right behind what was found belongs to it, unless it is numbers only or stands there
//!    twice.  A line, else a sentence, of 40 and more that an earlier block has said is not written again, headings and
//!    preformatted text apart, unless these are more than a third of all.
//!
//! `combined` knows what weight and explicit markup say of a page as a whole; the scorecard knows which kinds of blocks
//! are content in shops, forums, lists and articles.  Its numbers were fitted to pages with known content;
//! `docs/extraction.md` says which, and what came out on pages that were not looked at.
//!
//! Cases, in `tests/cases/text/`: `scored`, `scorecard`, `dates`, `once`, `preformatted`, `explain`, `kinds_of_pages`.

use std::ops::Range;

use memchr::memmem;

use crate::around::Around;
use crate::attributes::Remembered;
use crate::bytes;
use crate::combined::{self, Combined, LITTLE_WEIGHT, SOLID_WEIGHT};
use crate::evidence::{ADVERT, MAIN, WHOLE};
use crate::flow::{Flow, Source};
use crate::left_out::Kept;
use crate::marks::Marks;
use crate::names::{NAME_DD, NAME_DL, NAME_LI, NAME_NOSCRIPT, NAME_TD, NAME_TH, NAME_TITLE};
use crate::numbers::Numbers;
use crate::outliers::Outliers;
use crate::outline::{Block, Outline, Reading};
use crate::phrases::{self, OF_CONSENT};
use crate::stamps::{is_by, stamp_of, Stamp};
use crate::tables::scorecard::{
    AMOUNT, ANY, FIFTH, HEADING_BEFORE, LIKE, LIKES, NEIGHBOUR, NEIGHBOUR_FATE, NOTHING, PLACE, REPEATED, SAME_ELEMENT,
    SENTENCE, SENTENCE_ENDS, SHAPE, SHARE, SIZES, TAKEN_WEIGHTS, TITLE, WORDS,
};
use crate::teasers;
use crate::tokens::{mentions, Tag};
use crate::wholes;

const FEW_SOLID: usize = 16;
const WRAPPER_SHARE: (u64, u64) = (19, 20);
const CONSENT_SHARE: u64 = 5;
const ADVERT_SHARE: u64 = 2;
const DOUBTFUL_SHARE: u64 = 8;
const BARS: [i32; 4] = [-100, -50, 0, 50];
const CHANCES: (i32, i32) = (-200, 300);
const COPY_WEIGHT: u64 = 40;
const STAMP_WEIGHT: u64 = 48;
const STAMP_SHARE: u64 = 5;
const DATUM_WEIGHT: u64 = 400;
const WRITER_WEIGHT: u64 = 120;
const BYLINE_WEIGHT: u64 = 60;
const HEADING_REACH: usize = 4;
const WRITER_NAMES: [&str; 14] = [
    "author",
    "byline",
    "posted",
    "publish",
    "timestamp",
    "dateline",
    "pubdate",
    "post-date",
    "entry-date",
    "article-date",
    "post-meta",
    "entry-meta",
    "article-meta",
    "postmeta",
];
const TITLE_SHARE: usize = 5;
const TITLE_WORD_CHARACTERS: usize = 4;
const TITLE_WEIGHT: u64 = 8;
pub const REPEATED_WEIGHT: u64 = 4;
const FIFTHS: u64 = (FIFTH.len() / 2) as u64;
const LINKS: usize = 5;
const SHAPES: usize = 2 * (SIZES.len() + 1) * LINKS;
const AMOUNTS: usize = TAKEN_WEIGHTS.len() + 1;
const SHARES: u64 = (SHARE.len() / 2) as u64;
/// Places of a block's neighbours in `Scored::traits`, where the block itself stands two behind its number.
const NEIGHBOURS: [usize; 4] = [0, 1, 3, 4];
/// The kind of what is beyond the first and the last block.
const NO_BLOCK: usize = 2 * SHAPES;
const KINDS: usize = 256;
/// What a block is worth by each neighbour: by what that is and its fate, by the block's own fate.
static BESIDE: [[[i16; 4]; 2]; KINDS] = {
    let mut worth = [[[0; 4]; 2]; KINDS];
    let mut place = 0;
    while place < 8 * NO_BLOCK {
        let (neighbour, fate, kind) = (place % 4, place / 4 % 2, place / 8);
        let of_fate = (neighbour * 2 + kind / SHAPES) * 2 + fate;
        worth[kind][fate][neighbour] = NEIGHBOUR[neighbour * SHAPES + kind % SHAPES] + NEIGHBOUR_FATE[of_fate];
        worth[NO_BLOCK][fate][neighbour] = NOTHING[neighbour];
        place += 1;
    }
    worth
};
/// What each set of kinds of words is worth, by their bits.
static OF_WORDS: [i32; 1 << WORDS.len()] = {
    let mut worth = [0; 1 << WORDS.len()];
    let mut place = 0;
    while place < WORDS.len() << WORDS.len() {
        let (kind, kinds) = (place % WORDS.len(), place / WORDS.len());
        worth[kinds] += if kinds >> kind & 1 != 0 { WORDS[kind] as i32 } else { 0 };
        place += 1;
    }
    worth
};
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Buffers of the rule.
#[derive(Default)]
pub struct Scored {
    combined: Combined,
    around: Around,
    alike: Alike,
    outliers: Outliers,
    /// Where in the text the blocks begin that are teasers.
    teasers: Vec<usize>,
    /// Numbers of the blocks of each list and table that is kept as a whole.
    wholes: Vec<Range<usize>>,
    /// Of each block, and of two blocks that are not there before the first and behind the last.
    traits: Vec<Traits>,
    /// Of each block: which of the kinds of words in `WORDS` it has, as bits.
    words: Vec<u8>,
    /// Of each block: the number of the first block with its text, and whether a later element has it.
    first: Vec<(u32, bool)>,
    by_text: Numbers,
    scores: Vec<i32>,
    /// By the first block of a text: the owner of the first of its copies that is kept.
    owners: Vec<Option<u32>>,
    title: Title,
    /// What made up the scores, if `find` was asked to keep it.
    parts: Vec<Part>,
}

/// A part of a block's score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub block: usize,
    pub cause: Cause,
    pub worth: i32,
}

/// What gives a part of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Whether `combined` takes the block.
    Fate {
        is_taken: bool,
    },
    /// The marks of the tags around the block and of its own, all together.
    Marks,
    /// Form, size and share of links, by their place in a table.
    Shape {
        is_heading: bool,
        size: usize,
        links: usize,
    },
    /// Where a block that is left stands to those that are taken: before, among, behind.
    Place(usize),
    Alike,
    Fifth,
    HeadingBefore(bool),
    /// The text stands on the page again: here first, or not.
    Repeated {
        is_first: bool,
    },
    Title,
    /// Kinds of words, as bits.
    Words(u8),
    Sentence,
    Neighbours,
}

/// What the rule finds.
pub struct Found {
    /// Numbers of the blocks that are main content, ascending, stamps among them.
    pub blocks: Vec<usize>,
    /// Numbers of the blocks that `combined` takes.
    pub taken: Vec<usize>,
    /// Numbers of the blocks that their scores keep.
    pub chosen: Vec<usize>,
    /// The bar.
    pub bar: i32,
    /// Whether the title names none of it, so that all that is not boilerplate counts.
    pub is_doubtful: bool,
}

/// The text of the first title element that has one, folded.
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
    by_kind: Numbers,
    /// Each kind of block: the number of the marks around it, its element's name, how many there are.
    kinds: Vec<(u32, u32, u32)>,
    /// Of each block: its kind.
    of_blocks: Vec<u32>,
    /// How many of `LIKES` each kind's count reaches.
    likes: Vec<u8>,
}

/// What of a block its neighbours' scores depend on, too.
#[derive(Clone, Copy)]
struct Traits {
    /// Of the block's element.
    owner: u32,
    /// Place of its form, size and links in a table, `SHAPES` more where it is taken; or `NO_BLOCK`.
    kind: u8,
}

/// Main content of a page, in `flow`.
pub fn scored(source: &[u8], kept: Kept, buffers: &mut Scored, flow: &mut Flow) {
    buffers.main(source, kept, flow);
}

impl Scored {
    /// Main content of a page, in `flow`; gives the numbers of its blocks, and how the page was read.
    pub fn main(&mut self, source: &[u8], kept: Kept, flow: &mut Flow) -> (Vec<usize>, Reading) {
        self.read_title(source, kept.tags, flow);
        let (taken, reading) = self.read(source, kept);
        let found = self.find::<false>(taken, flow);
        let kept = self.without_rest(found.blocks);
        self.combined.write(&kept, flow);
        (kept, reading)
    }

    /// Step 1: the page, the numbers of the blocks that `combined` takes, and how the page was read.
    pub fn read(&mut self, source: &[u8], kept: Kept) -> (Vec<usize>, Reading) {
        let plain = Reading { noscript: false, apart: true };
        let shown = Reading { noscript: true, apart: true };
        let taken = self.take(source, kept, plain);
        if weigh(&self.combined.page, &taken) < LITTLE_WEIGHT
            && kept.tags.iter().any(|tag| tag.name == NAME_NOSCRIPT << 1)
        {
            let of_shown = self.take(source, kept, shown);
            if weigh(&self.combined.page, &of_shown) >= LITTLE_WEIGHT {
                return (of_shown, shown);
            }
            return (self.take(source, kept, plain), plain);
        }
        (taken, plain)
    }

    /// Steps 2 to 4; with `EXPLAINED`, `parts` has what made up the scores.  `flow` is overwritten.
    pub fn find<const EXPLAINED: bool>(&mut self, taken: Vec<usize>, flow: &mut Flow) -> Found {
        let (chosen, bar) = self.select::<EXPLAINED>(&taken);
        let page = &self.combined.page;
        let total: u64 = page.blocks.iter().map(|block| block.weight).sum();
        let may_be_doubtful = weigh(page, &chosen) * DOUBTFUL_SHARE < total;
        let blocks = if chosen.is_empty() { taken.clone() } else { chosen.clone() };
        let is_doubtful = may_be_doubtful && self.is_of_another(&blocks, flow);
        let blocks = if is_doubtful { combined::lenient(&self.combined.page) } else { blocks };
        let (blocks, text) = (self.with_dates(blocks), self.combined.text());
        let blocks = wholes::settle(&self.combined.page, text, blocks, &mut self.wholes);
        Found { blocks: self.with_preformatted(blocks), taken, chosen, bar, is_doubtful }
    }

    /// Main content with the dates and times of lists and tables among it, and the short block before each.
    fn with_dates(&self, mut found: Vec<usize>) -> Vec<usize> {
        let page = &self.combined.page;
        let (Some(&first), Some(&last)) = (found.first(), found.last()) else { return found };
        let is_short = |number: usize| {
            let block = &page.blocks[number];
            let is_text = !block.is_heading && block.link_weight == 0 && block.weight <= STAMP_WEIGHT;
            is_text && matches!(page.tags[block.owner as usize].0, NAME_DL | NAME_DD | NAME_TD | NAME_TH | NAME_LI)
        };
        let mut more = Vec::new();
        let is_left = |number: &usize| is_short(*number) && found.binary_search(number).is_err();
        for number in (first..=last).filter(is_left) {
            let stamp = stamp_of(self.combined.text(), page.blocks[number].text.clone());
            if stamp.is_some_and(|stamp| !stamp.is_counted && !stamp.is_told) {
                if number > first && is_short(number - 1) {
                    more.push(number - 1);
                }
                more.push(number);
            }
        }
        if !more.is_empty() {
            found.append(&mut more);
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    /// Main content with the preformatted blocks among it, and those right behind it, that say more than numbers.
    fn with_preformatted(&self, found: Vec<usize>) -> Vec<usize> {
        let page = &self.combined.page;
        let preformatted = page.preformatted();
        if preformatted.is_empty() || found.is_empty() {
            return found;
        }
        let is_within = |number: usize| preformatted[page.blocks[number].owner as usize];
        let may_be = |&number: &usize| {
            let text = &self.combined.text()[page.blocks[number].text.clone()];
            let says_more = text.iter().any(|byte| byte.is_ascii_alphabetic() || *byte >= 0x80);
            is_within(number) && says_more && self.first[number].0 as usize == number
        };
        let last = found[found.len() - 1];
        let behind = (last + 1..page.blocks.len()).take_while(|&number| is_within(number));
        let mut all: Vec<usize> = (found[0]..=last).chain(behind).filter(may_be).chain(found).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Numbers of the blocks that are written, without stamps; long sentences that repeat are signs from now on.
    pub fn without_rest(&mut self, found: Vec<usize>) -> Vec<usize> {
        let kept = self.combined.without_stamps(found);
        self.combined.leave_out_repeated(&kept, &self.wholes);
        kept
    }

    /// The page as it was read last, without what is never content.
    pub fn combined(&self) -> &Combined {
        &self.combined
    }

    /// Where in the text the blocks begin that are teasers, ascending.
    pub fn teasers(&self) -> &[usize] {
        &self.teasers
    }

    /// The score of each block.
    pub fn scores(&self) -> &[i32] {
        &self.scores
    }

    /// What made up the scores, block by block.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The marks of the tags around a block and of its own.
    pub fn marks_of(&self, block: &Block) -> Marks {
        self.around.path(block.owner).marks.with(self.combined.page.said.said(block.leaf).marks)
    }

    /// The blocks of a page that are not in elements that are never content; outlier blocks are among them.
    pub fn not_never(&mut self, source: &[u8], kept: Kept, reading: Reading) -> &[Block] {
        self.combined.read(source, kept, reading);
        self.around.read(&self.combined.page);
        self.find_words();
        self.drop_never();
        &self.combined.page.blocks
    }

    /// The page without what is never content, and the numbers of the blocks that `combined` takes.
    fn take(&mut self, source: &[u8], kept: Kept, reading: Reading) -> Vec<usize> {
        self.not_never(source, kept, reading);
        self.drop_outliers();
        self.drop_teasers();
        combined::select(&self.combined.page, FEW_SOLID)
    }

    /// Steps 2 and 3 without `combined`: numbers of the blocks that their scores keep, ascending, and the bar.
    #[inline(never)]
    fn select<const EXPLAINED: bool>(&mut self, taken: &[usize]) -> (Vec<usize>, i32) {
        self.find_first();
        self.count_alike();
        let page = &self.combined.page;
        let blocks = &page.blocks;
        self.traits.clear();
        self.traits.extend([Traits::NO_BLOCK; 2]);
        self.traits.extend(blocks.iter().map(Traits::of));
        self.traits.extend([Traits::NO_BLOCK; 2]);
        for &number in taken {
            self.traits[number + 2].kind += SHAPES as u8;
        }
        let taken_weight = weigh(page, taken);
        let total: u64 = blocks.iter().map(|block| block.weight).sum();
        let mut fifth = 0;
        let amount = steps(taken_weight, &TAKEN_WEIGHTS);
        let share = (SHARES * taken_weight).checked_div(total).map_or(0, |share| share.min(SHARES - 1)) as usize;
        let of_page =
            [0, 1].map(|fate| at(&AMOUNT, fate * AMOUNTS + amount) + at(&SHARE, fate * SHARES as usize + share));
        let first = taken.first().copied().unwrap_or(blocks.len());
        let last = taken.last().copied().unwrap_or(0);
        self.scores.clear();
        self.parts.clear();
        let parts = &mut self.parts;
        let mut weight_before = 0;
        let mut heading_before = false;
        // What the last leaf was worth: the next block mostly has one with the same attributes.
        let mut leaf = ((0, 0), 0);
        let around = self.traits.windows(5);
        for (number, (block, around)) in blocks.iter().zip(around).enumerate() {
            let own = around[2];
            let (fate, shape) = (usize::from(own.kind) / SHAPES, usize::from(own.kind) % SHAPES);
            let mut score = ANY;
            let mut add = |cause: Cause, worth: i32| {
                score += worth;
                if EXPLAINED {
                    parts.push(Part { block: number, cause, worth });
                }
            };
            let path = self.around.path(block.owner);
            add(Cause::Fate { is_taken: fate == 1 }, of_page[fate]);
            add(Cause::Marks, path.worth);
            if block.leaf != 0 {
                if leaf.0 != (block.leaf, block.owner) {
                    let marks = page.said.said(block.leaf).marks;
                    leaf = ((block.leaf, block.owner), marks.score_beyond(path.marks));
                }
                add(Cause::Marks, leaf.1);
            }
            let (form_and_size, links) = (shape / LINKS, shape % LINKS);
            let (form, size) = (form_and_size / (SIZES.len() + 1), form_and_size % (SIZES.len() + 1));
            add(Cause::Shape { is_heading: form == 1, size, links }, at(&SHAPE, own.kind.into()));
            if fate == 0 {
                let place = if number < first { 0 } else { 1 + usize::from(number > last) };
                add(Cause::Place(place), at(&PLACE, place));
            }
            let like = usize::from(self.alike.likes[self.alike.of_blocks[number] as usize]);
            add(Cause::Alike, at(&LIKE, ((like * 2 + fate) * LINKS + links) * AMOUNTS + amount));
            while (fifth + 1) * total <= FIFTHS * weight_before {
                fifth += 1;
            }
            add(Cause::Fifth, at(&FIFTH, fate * FIFTHS as usize + fifth as usize));
            weight_before += block.weight;
            heading_before |= block.is_heading;
            add(Cause::HeadingBefore(heading_before), at(&HEADING_BEFORE, heading_before.into()));
            let first = self.first[number].0 as usize;
            let is_first = first == number || blocks[first].owner == block.owner;
            let repeated = if is_first { usize::from(self.first[first].1) } else { 2 };
            add(Cause::Repeated { is_first }, at(&REPEATED, repeated));
            let text = &self.combined.text()[block.text.clone()];
            if block.weight >= TITLE_WEIGHT && self.title.has(text) {
                add(Cause::Title, at(&TITLE, block.is_heading.into()));
            }
            add(Cause::Words(self.words[number]), OF_WORDS[usize::from(self.words[number])]);
            add(Cause::Sentence, if ends_sentence(text) { at(&SENTENCE, fate) } else { 0 });
            for (neighbour, place) in NEIGHBOURS.into_iter().enumerate() {
                let other = around[place];
                add(Cause::Neighbours, i32::from(BESIDE[usize::from(other.kind)][fate][neighbour]));
                let is_same = other.owner == own.owner;
                add(Cause::Neighbours, if is_same { at(&SAME_ELEMENT, neighbour) } else { 0 });
            }
            self.scores.push(score);
        }
        let bar = self.best_bar();
        (self.choose(bar), bar)
    }

    /// Step 3 without `combined`: numbers of the blocks that their scores keep, ascending.
    fn choose(&mut self, bar: i32) -> Vec<usize> {
        let page = &self.combined.page;
        let mut kept = Vec::with_capacity(self.scores.len());
        kept.extend(self.scores.iter().enumerate().filter(|(_, &score)| score > bar).map(|(number, _)| number));
        let mut owners = std::mem::take(&mut self.owners);
        owners.clear();
        owners.resize(page.blocks.len(), None);
        kept.retain(|&number| {
            let block = &page.blocks[number];
            if block.weight < COPY_WEIGHT {
                return true;
            }
            let first = *owners[self.first[number].0 as usize].get_or_insert(block.owner);
            first == block.owner || self.are_beside(first, block.owner)
        });
        self.owners = owners;
        kept
    }

    /// Numbers of the blocks of the page read last that other scores would keep; a fit of the scorecard asks.
    pub fn choose_by(&mut self, scores: Vec<i32>) -> Vec<usize> {
        self.scores = scores;
        let bar = self.best_bar();
        self.choose(bar)
    }

    /// The bar that promises the greatest F1.
    fn best_bar(&self) -> i32 {
        let all = (CHANCES.1 - CHANCES.0) as u64;
        let mut total = 0;
        let mut above = [(0, 0); BARS.len()];
        for (block, &score) in self.combined.page.blocks.iter().zip(&self.scores) {
            let hope = block.weight * (score.clamp(CHANCES.0, CHANCES.1) - CHANCES.0) as u64;
            total += hope;
            for (place, bar) in BARS.into_iter().enumerate() {
                let (right, weight) = above[place];
                above[place] = if score > bar { (right + hope, weight + block.weight) } else { (right, weight) };
            }
        }
        let mut best = (BARS[0], 0, 1);
        for (bar, (right, weight)) in BARS.into_iter().zip(above) {
            let size = u128::from(total + all * weight);
            if u128::from(right) * best.2 > best.1 * size {
                best = (bar, u128::from(right), size);
            }
        }
        best.0
    }

    /// Whether elements have the same parent, name and marks.
    fn are_beside(&self, one: u32, other: u32) -> bool {
        let Outline { parents, tags, .. } = &self.combined.page;
        let (one, other) = (one as usize, other as usize);
        let has_same_marks = self.around.number(one as u32) == self.around.number(other as u32);
        has_same_marks && parents[one] == parents[other] && tags[one].0 == tags[other].0
    }

    pub fn read_title(&mut self, source: &[u8], tags: &[Tag], flow: &mut Flow) {
        flow.clear();
        for title in tags.iter().filter(|tag| tag.name == NAME_TITLE << 1) {
            flow.push(source, title.content as usize, title.end as usize, Source::Text);
            if !flow.bytes().is_empty() {
                break;
            }
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

    /// Drop the blocks in elements that are never content.
    fn drop_never(&mut self) {
        let page = &mut self.combined.page;
        let leaf_says_so =
            |said: &Remembered, block: &Block| block.evidence & ADVERT != 0 || said.said(block.leaf).marks.is_never();
        let by_leaf = page.blocks.iter().any(|block| leaf_says_so(&page.said, block));
        if !by_leaf && self.around.never.is_empty() && page.evidence.iter().all(|evidence| evidence & ADVERT == 0) {
            return;
        }
        let sums = combined::subtree_sums(page, page.blocks.iter().map(|block| block.weight));
        let is_named = |kinds: &u8| kinds & OF_CONSENT != 0;
        let named = page.blocks.iter().zip(&self.words);
        let named = named.map(|(block, kinds)| if is_named(kinds) { block.weight } else { 0 });
        let of_consent = self.words.iter().any(is_named).then(|| combined::subtree_sums(page, named));
        let is_advert = |(&evidence, &sum): (&u8, &u64)| {
            evidence & ADVERT != 0 && evidence & (MAIN | WHOLE) == 0 && sum * ADVERT_SHARE <= sums[0]
        };
        let mut never: Vec<bool> = page.evidence.iter().zip(&sums).map(is_advert).collect();
        for &element in &self.around.never {
            let is_page = sums[element] * WRAPPER_SHARE.1 > sums[0] * WRAPPER_SHARE.0;
            never[element] |=
                !is_page || of_consent.as_ref().map_or(0, |sums| sums[element]) * CONSENT_SHARE >= sums[element];
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
    fn drop_outliers(&mut self) {
        let page = &mut self.combined.page;
        let outliers = self.outliers.find(page);
        self.drop_blocks(&outliers);
    }

    /// Drop cards of other pages behind a story.
    fn drop_teasers(&mut self) {
        let teasers = teasers::find(&self.combined.page);
        self.teasers.clear();
        self.teasers.extend(teasers.iter().map(|&number| self.combined.page.blocks[number].text.start));
        self.drop_blocks(&teasers);
    }

    /// Drop blocks by their numbers, ascending.
    fn drop_blocks(&mut self, gone: &[usize]) {
        if gone.is_empty() {
            return;
        }
        let page = &mut self.combined.page;
        let mut kinds = 0..;
        self.words.retain(|_| kinds.next().is_some_and(|number| gone.binary_search(&number).is_err()));
        let mut blocks = 0..;
        page.blocks.retain(|_| blocks.next().is_some_and(|number| gone.binary_search(&number).is_err()));
    }

    fn find_first(&mut self) {
        let text = self.combined.text();
        let blocks = &self.combined.page.blocks;
        self.by_text.clear();
        self.first.clear();
        for (number, block) in blocks.iter().enumerate() {
            let mut first = number;
            if block.weight >= REPEATED_WEIGHT {
                let own = &text[block.text.clone()];
                let hash = (bytes::mixed(own) >> 32) as u32;
                let is_same = |other: u32| text[blocks[other as usize].text.clone()] == *own;
                first = self.by_text.number(hash, number as u32, is_same) as usize;
                if blocks[first].owner != block.owner {
                    self.first[first].1 = true;
                }
            }
            self.first.push((first as u32, false));
        }
    }

    /// How many blocks have the marks and the element of each block.
    fn count_alike(&mut self) {
        let page = &self.combined.page;
        let Alike { by_kind, kinds, of_blocks, likes } = &mut self.alike;
        by_kind.clear();
        kinds.clear();
        of_blocks.clear();
        let mut last_owner = u32::MAX;
        for block in &page.blocks {
            if block.owner == last_owner {
                let kind = of_blocks[of_blocks.len() - 1];
                kinds[kind as usize].2 += 1;
                of_blocks.push(kind);
                continue;
            }
            last_owner = block.owner;
            let path = self.around.number(block.owner);
            let (name, _) = page.tags[block.owner as usize];
            let hash = (u64::from(path) << 32 | u64::from(name)).wrapping_mul(MIX) >> 32;
            let next = kinds.len() as u32;
            let kind = by_kind.number(hash as u32, next, |kind| {
                let (its_path, its_name, _) = kinds[kind as usize];
                its_path == path && its_name == name
            });
            if kind == next {
                kinds.push((path, name, 0));
            }
            kinds[kind as usize].2 += 1;
            of_blocks.push(kind);
        }
        likes.clear();
        likes.extend(kinds.iter().map(|&(_, _, count)| steps(count.into(), &LIKES) as u8));
    }

    /// Which kinds of words each block has.
    fn find_words(&mut self) {
        let blocks = &self.combined.page.blocks;
        self.words.clear();
        self.words.resize(blocks.len(), 0);
        let mut number = 0;
        phrases::find(self.combined.text(), |place, kinds| {
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

impl Combined {
    /// Step 5.
    pub fn without_stamps(&self, mut found: Vec<usize>) -> Vec<usize> {
        let stamp = |number: usize| {
            let block = &self.page.blocks[number];
            let may_be = !block.is_heading && block.weight <= STAMP_WEIGHT;
            may_be.then(|| stamp_of(self.text(), block.text.clone())).flatten()
        };
        let stamps: Vec<Option<Stamp>> = found.iter().map(|&number| stamp(number)).collect();
        if stamps.iter().all(Option::is_none) {
            return found;
        }
        let dates = Dates {
            page: &self.page,
            text: self.text(),
            sums: combined::subtree_sums(&self.page, self.page.blocks.iter().map(|block| block.weight)),
            preformatted: self.page.preformatted(),
            heading: found.iter().position(|&number| self.page.blocks[number].is_heading),
        };
        let gone: Vec<usize> = (0..found.len())
            .filter(|&place| stamps[place].is_some_and(|stamp| dates.go(&found, &stamps, place, stamp)))
            .map(|place| found[place])
            .collect();
        if !gone.is_empty() && weigh(&self.page, &gone) * STAMP_SHARE <= weigh(&self.page, &found) {
            found.retain(|number| gone.binary_search(number).is_err());
        }
        found
    }
}

/// What tells stamps that belong to the page's publication from dates that are text.
struct Dates<'a> {
    page: &'a Outline,
    text: &'a [u8],
    /// Of each element: the weight of what it holds.
    sums: Vec<u64>,
    preformatted: Vec<bool>,
    /// Place of the first heading among the found blocks.
    heading: Option<usize>,
}

impl Dates<'_> {
    /// Whether a stamp is left out.
    fn go(&self, found: &[usize], stamps: &[Option<Stamp>], place: usize, stamp: Stamp) -> bool {
        let (number, blocks) = (found[place], &self.page.blocks);
        let block = &blocks[number];
        if self.preformatted.get(block.owner as usize).is_some_and(|&is_within| is_within) {
            return false;
        }
        if stamp.is_counted || stamp.is_told {
            return true;
        }
        if self.is_datum(block) {
            return false;
        }
        if self.names_writer(block) {
            return true;
        }
        let is_bare = |place: usize| stamps.get(place).copied().flatten().is_some_and(Stamp::is_bare_date);
        if !stamp.is_date || is_bare(place.wrapping_sub(1)) || is_bare(place + 1) {
            return false;
        }
        if block.time_weight * 2 >= block.weight || self.is_near_heading(found, place) {
            return true;
        }
        let beside = [2, 1].map(|step| number.checked_sub(step).map(|at| (at, step)));
        let beside = beside.into_iter().flatten().chain([1, 2].map(|step| (number + step, step)));
        beside.filter_map(|(at, step)| blocks.get(at).map(|block| (block, step))).any(|(other, step)| {
            let is_of_link = other.is_heading && other.link_weight == other.weight;
            is_of_link || (step == 1 && self.is_byline(other))
        })
    }

    fn is_byline(&self, block: &Block) -> bool {
        let text = &self.text[block.text.clone()];
        let first = text.split(|&byte| byte == b' ').next().unwrap_or_default();
        block.weight <= BYLINE_WEIGHT && !block.is_heading && (is_by(first) || self.names_writer(block))
    }

    /// Whether a block is in a small cell or entry of a table or a definition list, or all of an entry of a list.
    fn is_datum(&self, block: &Block) -> bool {
        let mut element = block.owner as usize;
        let name = self.page.tags[element].0;
        if name == NAME_DL || (name == NAME_LI && self.sums[element] == block.weight) {
            return true;
        }
        while element != 0 {
            let name = self.page.tags[element].0;
            if matches!(name, NAME_TD | NAME_TH | NAME_DD) && self.sums[element] <= DATUM_WEIGHT {
                return true;
            }
            element = self.page.parents[element] as usize;
        }
        false
    }

    /// Whether the tag before a block, or the small element around it, is named for who wrote, or when.
    fn names_writer(&self, block: &Block) -> bool {
        let owner = block.owner as usize;
        let of_owner = if self.sums[owner] <= WRITER_WEIGHT { self.page.tags[owner].1 } else { 0 };
        let sources = [block.leaf, of_owner].map(|attributes| self.page.said.source(attributes));
        sources.into_iter().any(|source| WRITER_NAMES.iter().any(|name| mentions(source, name.as_bytes())))
    }

    /// Whether a block stands right before the first heading, or behind it with nothing but short blocks between.
    fn is_near_heading(&self, found: &[usize], place: usize) -> bool {
        let Some(heading) = self.heading else { return false };
        let is_short = |&number: &usize| self.page.blocks[number].weight < SOLID_WEIGHT;
        place + 1 >= heading
            && place <= heading + HEADING_REACH
            && (place <= heading || found[heading + 1..place].iter().all(is_short))
    }
}

impl Traits {
    const NO_BLOCK: Self = Self { owner: u32::MAX, kind: NO_BLOCK as u8 };

    fn of(block: &Block) -> Self {
        let form = usize::from(block.is_heading);
        let shape = (form * (SIZES.len() + 1) + steps(block.weight, &SIZES)) * LINKS + link_share(block);
        Self { owner: block.owner, kind: shape as u8 }
    }
}

#[inline(always)]
pub fn ends_sentence(text: &[u8]) -> bool {
    const ENDS: [bool; 0x80] = {
        let mut ends = [false; 0x80];
        let mut place = 0;
        while place < SENTENCE_ENDS.len() {
            if SENTENCE_ENDS[place].is_ascii() {
                ends[SENTENCE_ENDS[place] as usize] = true;
            }
            place += 1;
        }
        ends
    };
    let Some(&last) = text.last() else { return false };
    ENDS.get(usize::from(last)).copied().unwrap_or_else(|| ends_sentence_beyond_ascii(text))
}

#[inline(never)]
fn ends_sentence_beyond_ascii(text: &[u8]) -> bool {
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

/// How many of some ascending steps a value reaches.
pub fn steps(value: u64, steps: &[u64]) -> usize {
    steps.iter().filter(|&&step| value >= step).count()
}

fn weigh(page: &Outline, numbers: &[usize]) -> u64 {
    combined::weigh(&page.blocks, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::left_out::LeftOut;
    use crate::names::Names;
    use crate::tokens::{split, Tags};

    const PROSE: &str = "The lamp burns for twelve hours on one filling and is light enough for long walks";

    /// Read a page with the rule, and do something with its tags.
    fn read<T>(source: &str, ask: impl FnOnce(&mut Scored, Kept, &mut Flow) -> T) -> T {
        let (mut rule, mut tags, mut left_out) = (Scored::default(), Tags::default(), LeftOut::default());
        split(source.as_bytes(), false, &mut tags, &mut Names::default());
        ask(&mut rule, left_out.read(source.as_bytes(), &mut tags), &mut Flow::default())
    }

    /// A rule whose blocks are all of a page.
    fn of_all(source: &str) -> Scored {
        read(source, |rule, kept, _| {
            rule.combined.read(source.as_bytes(), kept, Reading::default());
            rule.around.read(&rule.combined.page);
            rule.find_first();
            std::mem::take(rule)
        })
    }

    fn chosen(source: &str, scores: &[i32]) -> Vec<usize> {
        of_all(source).choose_by(scores.to_vec())
    }

    #[test]
    fn of_long_blocks_with_one_text_those_in_the_first_element_are_kept() {
        let page = format!("<p>{PROSE}</p><p>short</p><div><p>{PROSE}</p><p>short</p></div><p>{PROSE}</p>");
        assert_eq!(chosen(&page, &[100; 5]), [0, 1, 3, 4]);
        assert_eq!(chosen(&page, &[-200, 60, 100, 60, 100]), [1, 2, 3]);
    }

    #[test]
    fn a_block_of_forty_is_long_and_one_below_is_not() {
        let page = |length: usize| format!("<p>{0}</p><div><p>{0}</p></div>", "x".repeat(length));
        assert_eq!(chosen(&page(39), &[100; 2]), [0, 1]);
        assert_eq!(chosen(&page(40), &[100; 2]), [0]);
    }

    #[test]
    fn one_text_in_elements_of_one_kind_beside_each_other_is_kept() {
        for (start, kept) in [
            ("<section>", &[0, 1][..]),
            ("<section data-x>", &[0, 1]),
            ("<div>", &[0]),
            ("<section class=desktop>", &[0]),
        ] {
            let page = format!("<main><section><p>{PROSE}</p></section>{start}<p>{PROSE}</p>");
            assert_eq!(chosen(&page, &[100, 100]), kept, "{start}");
        }
        let apart = format!("<section><p>{PROSE}</p></section><main><section><p>{PROSE}</p>");
        assert_eq!(chosen(&apart, &[100, 100]), [0]);
    }

    #[test]
    fn the_bar_is_the_one_that_promises_the_greatest_f1() {
        let page: String = (0..12).map(|number| format!("<p>{PROSE} {number:02}</p>")).collect();
        let scores = |first: i32, count: usize, second: i32| -> Vec<i32> {
            (0..12).map(|place| if place < count { first } else { second }).collect()
        };
        let bar = |scores: Vec<i32>| {
            let mut rule = of_all(&page);
            rule.scores = scores;
            rule.best_bar()
        };
        assert_eq!(bar(scores(-99, 12, 0)), -100);
        assert_eq!(bar(scores(10, 1, -200)), -100, "the lowest of equals");
        assert_eq!(bar(scores(300, 6, -80)), -50);
        assert_eq!(bar(scores(300, 6, 20)), -100);
        assert_eq!(bar(scores(300, 11, 40)), 50);
        assert_eq!(bar(scores(300, 6, -20)), 0);
        assert_eq!(chosen(&page, &scores(300, 6, -80)), [0, 1, 2, 3, 4, 5]);
        assert_eq!(chosen(&page, &scores(-200, 12, 0)), []);
        assert_eq!(chosen(&page, &scores(-100, 6, -99)), [6, 7, 8, 9, 10, 11], "above the bar, not at it");
    }

    /// What gave parts of the score of each block that are not nothing.
    fn causes(source: &str) -> Vec<Vec<Cause>> {
        read(source, |rule, kept, flow| {
            rule.read_title(source.as_bytes(), kept.tags, flow);
            let (taken, _) = rule.read(source.as_bytes(), kept);
            rule.find::<true>(taken, flow);
            let of_block = |number| {
                let parts = rule.parts().iter().filter(move |part| part.block == number && part.worth != 0);
                parts.map(|part| part.cause).collect()
            };
            (0..rule.scores().len()).map(of_block).collect()
        })
    }

    #[test]
    fn title_place_and_repetition_are_signs_of_a_block() {
        let (first, again) = (Cause::Repeated { is_first: true }, Cause::Repeated { is_first: false });
        let title = "<title>Blue lamp | Shop Menu</title>";
        let found = causes(&format!("{title}<p>Menu</p><h1>Blue lamp</h1><div><p>Menu</p><p>of</p></div><p>of</p>"));
        assert!(found[0].contains(&Cause::HeadingBefore(false)) && found[0].contains(&first));
        assert!(found[1].contains(&Cause::HeadingBefore(true)) && found[1].contains(&Cause::Title));
        assert!(found[2].contains(&again) && !found[2].contains(&Cause::Title), "under eight characters");
        assert!([Cause::Title, first, again].iter().all(|cause| !found[3].contains(cause)), "under four characters");
        let beside = causes("<title>Blue lamp</title><h1>Blue lamp</h1><p>Menu</p><p>Menu</p>");
        assert!(beside.iter().flatten().all(|cause| *cause != first && *cause != again), "one element has both");
        let part = causes("<title>Blue lamp Blue lamp Blue lamp Blue lamp Blue lamp</title><h1>Blue lamp</h1>");
        assert!(!part[0].contains(&Cause::Title), "less than a quarter of the title");
    }

    #[test]
    fn little_text_without_a_word_of_the_title_is_doubtful() {
        let notice = "We ask you to call us for the price: makers do not let us show it here.";
        let items: String =
            (0..300).map(|number| format!("<li><a href=/p{number}>Camping lantern number {number}</a>")).collect();
        let is_of_another = |title: &str, found: &[usize]| {
            let source = format!("{title}<div><p>{notice}</p></div><ul>{items}</ul>");
            read(&source, |rule, kept, flow| {
                rule.read_title(source.as_bytes(), kept.tags, flow);
                rule.read(source.as_bytes(), kept);
                rule.is_of_another(found, flow)
            })
        };
        assert!(is_of_another("<title>Camping \n lanterns | A&amp;B</title><title>price</title>", &[0]));
        assert!(!is_of_another("", &[0]));
        assert!(!is_of_another("<title>price Camping</title>", &[0]));
        assert!(!is_of_another("<title>lantern</title>", &[0, 1, 2]));
        assert!(!is_of_another("<title>the toy red</title>", &[0]), "no word has four characters");
        assert!(is_of_another("<title>the toy tent</title>", &[0]));
        assert!(!is_of_another("<title>price aaaa bbbb cccc dddd</title>", &[0]), "a fifth of the words");
        assert!(is_of_another("<title>price aaaa bbbb cccc dddd eeee</title>", &[0]), "less than a fifth");
    }
}
