//! What of a page's markup is no text, whoever reads it: one pass over its tags, before any extractor.
//!
//! An element is *left out*, with all that it holds, if
//!
//! - it is hidden: by `hidden` (but `until-found`, which a search in the page shows), by `aria-hidden="true"`, or by
//!   `display:none` or `visibility:hidden` in its `style`.  Rules in style sheets and scripts are not read.  What holds
//!   more than half of the page's text stays: scripts show such pages.  So do panels behind tabs and headings, for the
//!   extractors to weigh: what is not inline, and holds more than `PANEL_BYTES` or has one of the panel's words in
//!   `WORDS` in its attributes; and links of more than `LINK_BYTES`, which are hidden from the ear alone;
//! - it is the reading of a ruby (rt, rp, rtc), or a list of choices (select, datalist).  On a page with readings,
//!   white space with line breaks behind a character beyond ASCII within a ruby goes, too.
//!
//! What is left out within a line is gone before the text is weighed.  All else is a *sign*: it is weighed with the
//! text around it, and where that is written, a blank stands in its place.  So a choice more moves no other text, and a
//! heading is not taken for a repetition of its line in the table of contents.  Signs are
//!
//! - elements that are left out, but for inline ones, readings and raw ones;
//! - what an element holds of which a word of its class is one of `LINK_NAMES`: the edit links of wikis, and the link
//!   signs behind headings;
//! - the text `¶` behind the start tag of a link or span, to the next tag; and the text of a link that is one of
//!   `LINK_SIGNS`, with a `#` in its attributes;
//! - `[` links `]` if all these links lead to `/edit` or `=edit`, or have one of `EDIT_WORDS` as their text.
//!
//! A button in a heading, in dt, in summary or right in `role=heading`, a button around a heading, and any element with
//! `role=button` in a heading lose their tags, so that their text is that of the heading.  A button whose class names
//! an accordion or questions (FAQ) is a summary.
//!
//! An element ends at its end tag, at the end of an element around it, or at a tag of `implied` in
//! `native/core/data/words.txt` that implies its end, or that of the nearest element around it that is not inline; end
//! tags of inline elements close nothing beyond that one.
//!
//! Tags are dropped, and others made longer, so that they swallow what is left out.  Signs stay, and their places are
//! given beside the tags.
//!
//! Cases, in `tests/cases/text/`: `left_out`, `signs`.

use std::ops::Range;
use std::sync::OnceLock;

use crate::attributes::{declares, decoded};
use crate::bytes::is_blank;
use crate::formulas;
use crate::groups;
use crate::lines::{self, Line, Lines};
use crate::names::{
    self, properties, IMPLIED, KNOWN, NAME_A, NAME_BODY, NAME_BUTTON, NAME_HTML, NAME_NOFRAMES, NAME_PRE, NAME_RUBY,
    NAME_SUMMARY, NAME_SVG, NOTHING,
};
use crate::page::{is_space, sources, values};
use crate::references::decode;
use crate::simd;
use crate::tokens::{mentions, Tag, Tags};
use crate::wide::{self, in_a_group_of_64, Bytes, Groups};

const LINK_NAMES: [&str; 3] = ["editsection", "headerlink", "secedit"];
const ACCORDIONS: [&str; 3] = ["accordion", "collapsible", "faq"];
const LINK_SIGNS: [&str; 6] = ["#", "§", "🔗", "∞", "\u{f0c1}", "\u{200b}"];
const EDIT_SIGNS: [&[u8]; 2] = [b"/edit", b"=edit"];
const EDIT_WORDS: [&str; 8] = ["edit", "edit source", "bearbeiten", "modifier", "editar", "modifica", "编辑", "編集"];
const PILCROW: &str = "¶";
const SIGN_BYTES: usize = 24;
const ROLE_BYTES: usize = 1024;
const REACH: usize = 16;
const HIDDEN_SHARE: u32 = 2;
const PANEL_BYTES: u32 = 200;
const LINK_BYTES: u32 = 80;
/// Words in attributes that may matter, where in each stand letters that few other words have, and what they may mean.
const WORDS: [(&str, usize, u8); 13] = [
    ("idden", 1, HIDES),
    ("IDDEN", 1, HIDES),
    ("isplay", 1, HIDES),
    ("ISPLAY", 1, HIDES),
    ("float:", 2, FLOATS),
    ("editsection", 3, IS_SIGN),
    ("headerlink", 4, IS_SIGN),
    ("secedit", 2, IS_SIGN),
    ("button", 1, IS_BUTTON),
    ("accordion", 1, IS_PANEL),
    ("collaps", 3, IS_PANEL),
    ("labelledby", 6, IS_PANEL),
    ("panel", 1, IS_PANEL),
];
const HIDES: u8 = 1;
const IS_SIGN: u8 = 2;
const IS_BUTTON: u8 = 4;
const IS_PANEL: u8 = 8;
const FLOATS: u8 = 16;

/// Kinds of elements of which more is asked than what they hold.
const SPECIAL: u16 = names::CHILDLESS | names::HEAD | names::HEADING | names::LEFT_OUT | names::BUTTON;

/// By start tag: open elements on top that it ends.
static ENDS: [[bool; KNOWN]; KNOWN] = {
    let mut ends = [[false; KNOWN]; KNOWN];
    let (mut place, mut number) = (0, 0);
    while place < IMPLIED.len() {
        let (element, ended) = IMPLIED[place];
        if number < ended.len() {
            ends[element as usize][ended[number] as usize] = true;
            number += 1;
        } else {
            (place, number) = (place + 1, 0);
        }
    }
    ends
};

/// Why an element is no text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Hidden,
    /// It is a reading or a list of choices.
    Named,
    Sign,
    /// It shows a picture and no text.
    Icon,
}

/// An open element.
struct Open {
    element: u32,
    tag: u32,
    /// Bytes of text before its start tag.
    before: u32,
    why: Option<Why>,
    is_panel: bool,
    /// It changes nothing, and nothing can change it.
    is_plain: bool,
    /// Another name for its tags.
    becomes: Option<u32>,
    line: Line,
    /// Where those begin in `Lines` about which it decides.
    doubts: u32,
    /// It holds words of its own, or an element that cuts.
    has_words: bool,
    has_blocks: bool,
}

/// An element that may be left out, from its start tag to the tag that ends it, which may be its own end tag.
struct Span {
    /// The start tag, as it was read.
    tag: Tag,
    first: usize,
    last: usize,
    /// Bytes of text in it.
    held: u32,
    is_closed: bool,
    why: Why,
    /// By a word of its attributes.
    is_panel: bool,
}

/// A page's tags without what is no text, and the places of its signs in the source, ascending.
#[derive(Clone, Copy)]
pub struct Kept<'a> {
    pub tags: &'a [Tag],
    pub signs: &'a [Range<u32>],
    /// Numbers of the tags of headings and of elements that are hidden by their name.
    pub headings: &'a [u32],
}

/// Bytes by which words are told apart.
const READ_AHEAD: usize = 4;
/// These bytes of each word.
static KEYS: [[u8; READ_AHEAD]; WORDS.len()] = {
    let mut keys = [[0; READ_AHEAD]; WORDS.len()];
    let mut place = 0;
    while place < WORDS.len() * READ_AHEAD {
        let (word, ahead) = (place / READ_AHEAD, place % READ_AHEAD);
        keys[word][ahead] = WORDS[word].0.as_bytes()[WORDS[word].1 + ahead];
        place += 1;
    }
    keys
};
/// What stands in attributes most.
const FREQUENT: [&str; 8] = ["class", "href", "title", "style", "https", "span", "data", "    "];

/// Looks for `WORDS` in the attributes of start tags; gives whether a tag may be left out, or change what another is.
///
/// All but the content of raw elements is looked through at once: text has few of the words, and tags are short.
struct FindWords<'a> {
    source: &'a [u8],
    tags: &'a Tags,
    /// How many of the tags begin before the last word.
    passed: usize,
    found: &'a mut Vec<(u32, u8)>,
}

impl wide::Work for FindWords<'_> {
    type Made = bool;

    #[inline(always)]
    fn on<B: Bytes>(mut self) -> bool {
        static GROUPS: OnceLock<Groups<READ_AHEAD>> = OnceLock::new();
        // A copy can stay in registers.
        let groups = *GROUPS.get_or_init(|| groups::of(KEYS.iter().map(|key| groups::as_written(key)), &FREQUENT));
        self.found.clear();
        let (mut kinds, mut begin, mut is_within_text) = (0, 0, false);
        for tag in self.tags.special.iter().map(|&number| &self.tags.all[number as usize]) {
            kinds |= properties(tag.name);
            is_within_text |= lines::is_behind_text(self.source, tag);
            if tag.content != tag.end {
                self.look::<B>(begin..tag.content as usize, &groups);
                begin = tag.end as usize;
            }
        }
        self.look::<B>(begin..self.source.len(), &groups);
        self.tags.has_doubtful
            || is_within_text
            || kinds & (names::LEFT_OUT | names::BUTTON) != 0
            || self.found.iter().any(|&(_, meanings)| meanings != IS_PANEL)
    }
}

impl FindWords<'_> {
    /// Look through a part of the source.
    #[inline(always)]
    fn look<B: Bytes>(&mut self, part: Range<usize>, groups: &Groups<READ_AHEAD>) {
        for start in part.clone().step_by(64) {
            let mut places = in_a_group_of_64::<B, READ_AHEAD>(self.source, start, groups);
            while places != 0 && start + (places.trailing_zeros() as usize) < part.end {
                self.read(start + places.trailing_zeros() as usize);
                places &= places - 1;
            }
        }
    }

    /// Note the word that may have its letters at a place, if this is in the attributes of a start tag.
    #[inline(never)]
    fn read(&mut self, place: usize) {
        let Some(here) = self.source[place..].first_chunk() else { return };
        let Some(word) = KEYS.iter().position(|key| key == here) else { return };
        let (word, at, meaning) = WORDS[word];
        let Some(start) = place.checked_sub(at) else { return };
        if !self.source[start..].starts_with(word.as_bytes())
            || (word == "idden" && is_end_of_name(&self.source[..start]))
        {
            return;
        }
        while self.tags.all.get(self.passed).is_some_and(|tag| tag.start as usize <= place) {
            self.passed += 1;
        }
        let Some(tag) = self.passed.checked_sub(1).map(|number| &self.tags.all[number]) else { return };
        if tag.name & 1 != 0 || !(tag.attributes..tag.content - 1).contains(&(place as u32)) {
            return;
        }
        let number = self.passed as u32 - 1;
        match self.found.last_mut().filter(|last| last.0 == number) {
            Some(last) => last.1 |= meaning,
            None => self.found.push((number, meaning)),
        }
    }
}

/// Whether what stands before `idden` makes another word of it than `hidden` or `aria-hidden`.
fn is_end_of_name(before: &[u8]) -> bool {
    let [rest @ .., last, b'h' | b'H'] = before else { return false };
    match last {
        b'-' => !rest.last_chunk::<4>().is_some_and(|rest| rest.eq_ignore_ascii_case(b"aria")),
        // A digit may end a character reference: `&#58hidden`.
        _ => *last == b'_' || (last.is_ascii_alphabetic() && !last.is_ascii_hexdigit()),
    }
}

/// Buffers of the pass.
#[derive(Default)]
pub struct LeftOut {
    stack: Vec<Open>,
    /// By name: how many are open.
    counts: Vec<u32>,
    heads: u32,
    headings: u32,
    spans: Vec<Span>,
    /// Bytes of text up to the tag that was read last, or in all of the page.
    text: u32,
    /// Numbers of the tags with one of `WORDS` in their attributes, ascending, and what these may mean.
    found: Vec<(u32, u8)>,
    /// Numbers of tags, and the names that they get.
    renamed: Vec<(usize, u32)>,
    signs: Vec<Range<u32>>,
    outline: Vec<u32>,
    lines: Lines,
}

impl LeftOut {
    /// Take out of a page's tags what is no text, and find its signs.
    #[inline(never)]
    pub fn read<'a>(&'a mut self, source: &[u8], tags: &'a mut Tags) -> Kept<'a> {
        self.spans.clear();
        self.signs.clear();
        let mut special = tags.special.iter().map(|&number| &tags.all[number as usize]);
        if tags.has_math || special.any(|tag| formulas::is_tex_script(source, tag)) {
            tags.replace(formulas::rewrite(source, &tags.all));
        }
        let may_change = wide::run(FindWords { source, tags, passed: 0, found: &mut self.found });
        let tags = &mut tags.all;
        if may_change {
            self.find_spans(source, tags);
            self.renamed.extend(self.lines.renamed.drain(..));
            self.renamed.drain(..).for_each(|(number, name)| tags[number].name = name);
        }
        if !self.spans.is_empty() {
            self.spans.sort_unstable_by_key(|span| span.first);
            self.drop_spans(source, tags);
            if self.spans.iter().any(|span| properties(span.tag.name) & names::RUBY != 0) {
                trim_ruby(source, tags);
            }
        }
        self.lines.insert(tags);
        self.outline.clear();
        for (number, tag) in tags.iter().enumerate() {
            let kind = properties(tag.name) & (names::HEADING | names::HIDDEN | names::SIGNED);
            if kind == names::SIGNED {
                if tag.name & 1 == 0 && number + 1 < tags.len() {
                    self.find_sign(source, tags, number);
                }
            } else if kind != 0 {
                self.outline.push(number as u32);
            }
        }
        self.signs.sort_unstable_by_key(|sign| (sign.start, sign.end));
        self.signs.dedup_by(|next, sign| {
            let is_within = next.start <= sign.end;
            sign.end = if is_within { sign.end.max(next.end) } else { sign.end };
            is_within
        });
        Kept { tags, signs: &self.signs, headings: &self.outline }
    }

    #[inline(never)]
    fn find_spans(&mut self, source: &[u8], tags: &[Tag]) {
        self.stack.clear();
        self.counts.clear();
        self.counts.resize(KNOWN, 0);
        (self.heads, self.headings) = (0, 0);
        self.lines.begin();
        let (mut found, mut number, mut end, mut text) = (0, 0, 0, 0);
        while let Some(&tag) = tags.get(number) {
            let at = number;
            number += 1;
            text += tag.start - end;
            self.read_words(source, end, tag.start);
            end = tag.end;
            let element = tag.name >> 1;
            if tag.name & 1 == 1 {
                if self.ends_plainly(element) {
                    self.counts[element as usize] -= 1;
                } else if self.counts.get(element as usize).is_some_and(|&count| count != 0) && self.closes(element) {
                    self.text = text;
                    while self.pop(source, tags, at, tag.name) != Some(element) {}
                }
                continue;
            }
            let kind = properties(tag.name);
            if kind & names::ENDING != 0 {
                let ended = &ENDS[element as usize];
                let is_inline = |open: &&Open| properties(open.element << 1) & names::INLINE != 0;
                let around = |stack: &[Open]| {
                    let nearest = stack.iter().rev().take(REACH).find(|open| !is_inline(open));
                    nearest.is_some_and(|open| ended.get(open.element as usize) == Some(&true))
                };
                while around(&self.stack) {
                    self.text = text;
                    self.pop(source, tags, at, tag.name);
                }
            }
            let mut meanings = 0;
            if let Some(word) = self.found.get(found).filter(|word| word.0 as usize == at) {
                (found, meanings) = (found + 1, word.1);
            }
            let is_plain = kind & SPECIAL == 0 && meanings & !IS_PANEL == 0;
            let mut line = Line::of(source, &tag);
            if element == NAME_BUTTON && self.counts[NAME_PRE as usize] != 0 {
                line = Line::Cuts; // it copies the code
            }
            if let Some(next) = tags.get(number).filter(|next| is_plain && next.name == tag.name | 1) {
                // It ends at once.
                if line <= Line::Cuts {
                    number += 1;
                    text += next.start - end;
                    end = next.end;
                    self.note_block(line);
                    continue;
                }
            }
            if element == NAME_SVG {
                if let Some(last) = self.lines.icon(source, tags, at) {
                    let (name, why) = (lines::name_of_icon(tags, at, last), Why::Icon);
                    self.spans.push(Span {
                        tag: Tag { name, ..tag },
                        first: at,
                        last,
                        held: 0,
                        is_closed: true,
                        why,
                        is_panel: false,
                    });
                    (number, end) = (last + 1, tags[last].end);
                    continue;
                }
                line = Line::Cuts;
            }
            let (tag_number, is_panel) = (at as u32, meanings & IS_PANEL != 0);
            let mut is_hidden = false;
            if meanings & (HIDES | FLOATS) != 0 {
                (line, is_hidden) = shown(tag.attributes(source), element, line);
            }
            let mut open = Open {
                element,
                tag: tag_number,
                before: text,
                why: None,
                is_panel,
                is_plain,
                becomes: None,
                line,
                doubts: self.lines.doubts.len() as u32,
                has_words: false,
                has_blocks: false,
            };
            if is_plain {
                self.push(open);
                continue;
            }
            let attributes = tag.attributes(source);
            let is_hidden = is_hidden
                && meanings & HIDES != 0
                && element != NAME_HTML
                && element != NAME_BODY
                && !(mentions(attributes, b"katex-html") && formulas::is_missing(tags, at));
            if kind & names::CHILDLESS != 0 {
                if line == Line::Doubtful {
                    let has_end = tags.get(number).is_some_and(|next| next.name == tag.name | 1);
                    self.lines.doubts.push((at, if has_end { number } else { at }));
                }
                if is_hidden && kind & names::RAW != 0 && element != NAME_NOFRAMES {
                    let (first, last, why) = (at, at, Why::Hidden);
                    self.spans.push(Span { tag, first, last, held: 0, is_closed: false, why, is_panel });
                }
                continue;
            }
            if kind & names::HEADING != 0 && self.counts[NAME_BUTTON as usize] != 0 {
                let buttons = self.stack.iter_mut().rev().take(REACH).filter(|open| open.element == NAME_BUTTON);
                buttons.for_each(|open| open.becomes = Some(NOTHING));
            }
            if element == NAME_BUTTON {
                let parent = self.stack.last().map(|open| tags[open.tag as usize].attributes(source));
                let is_in_role = |parent: &[u8]| parent.len() <= ROLE_BYTES && has_role(parent, "heading");
                open.becomes = if self.heads != 0 || parent.is_some_and(is_in_role) {
                    Some(NOTHING)
                } else {
                    ((is_panel || mentions(attributes, b"faq")) && has_word(attributes, &ACCORDIONS))
                        .then_some(NAME_SUMMARY << 1)
                };
            } else if self.headings != 0 && meanings & IS_BUTTON != 0 && has_role(attributes, "button") {
                open.becomes = Some(NOTHING);
            }
            open.why = if meanings & IS_SIGN != 0 && has_word(attributes, &LINK_NAMES) {
                Some(Why::Sign)
            } else if kind & names::LEFT_OUT != 0 {
                Some(Why::Named)
            } else {
                is_hidden.then_some(Why::Hidden)
            };
            self.heads += u32::from(kind & names::HEAD != 0);
            self.headings += u32::from(kind & names::HEADING != 0);
            self.push(open);
        }
        self.text = text + source.len() as u32 - end;
        self.read_words(source, end, source.len() as u32);
        while self.pop(source, tags, tags.len(), NOTHING).is_some() {}
    }

    /// Open an element.
    #[inline(always)]
    fn push(&mut self, open: Open) {
        let element = open.element as usize;
        if self.counts.len() <= element {
            self.counts.resize(element + 1, 0);
        }
        self.counts[element] += 1;
        self.note_block(open.line);
        self.stack.push(open);
    }

    /// Close the last open element if it has that name, changes nothing, and nothing is decided at its end.
    #[inline(always)]
    fn ends_plainly(&mut self, element: u32) -> bool {
        let Some(top) = self.stack.last() else { return false };
        let ends = top.element == element
            && top.is_plain
            && top.line <= Line::Cuts
            && top.doubts as usize == self.lines.doubts.len();
        if ends {
            let has_blocks = top.has_blocks;
            self.stack.truncate(self.stack.len() - 1);
            if let Some(parent) = self.stack.last_mut().filter(|_| has_blocks) {
                parent.has_blocks = true;
            }
        }
        ends
    }

    /// Note in the last open element that one in it cuts.
    #[inline(always)]
    fn note_block(&mut self, line: Line) {
        if let Some(top) = self.stack.last_mut().filter(|_| line == Line::Cuts) {
            top.has_blocks = true;
        }
    }

    /// Note in the last open element that it has words.
    #[inline(always)]
    fn read_words(&mut self, source: &[u8], start: u32, end: u32) {
        if start == end {
            return;
        }
        let has_words = self.stack.last_mut().map_or(&mut self.lines.has_words, |top| &mut top.has_words);
        *has_words = *has_words || lines::has_word(source, start as usize, end as usize);
    }

    /// Decide on the tags of an element that ends at a tag, and on those about which it decides.
    #[inline(always)]
    fn end_line(&mut self, source: &[u8], tags: &[Tag], open: &Open, at: usize, is_closed: bool) {
        if let Some(parent) = self.stack.last_mut() {
            parent.has_blocks |= open.has_blocks;
        }
        if self.lines.doubts.len() != open.doubts as usize || open.line > Line::Cuts {
            let first = open.tag as usize;
            let line = if open.becomes.is_some() || (open.has_blocks && open.line != Line::Word) {
                open.line.min(Line::Cuts)
            } else {
                open.line
            };
            self.lines.end(
                source,
                tags,
                line,
                (first, if is_closed { at } else { first }),
                open.doubts as usize,
                open.has_words,
            );
        }
    }

    /// Close the last open element at a tag of that name; gives its own.
    #[inline(always)]
    fn pop(&mut self, source: &[u8], tags: &[Tag], at: usize, closing: u32) -> Option<u32> {
        let Some(open) = self.stack.pop() else {
            let has_words = self.lines.has_words;
            self.lines.end(source, tags, Line::Cuts, (0, 0), 0, has_words);
            return None;
        };
        let kind = properties(open.element << 1);
        self.counts[open.element as usize] -= 1;
        self.heads -= u32::from(kind & names::HEAD != 0);
        self.headings -= u32::from(kind & names::HEADING != 0);
        let (first, is_closed) = (open.tag as usize, closing == open.element << 1 | 1);
        self.end_line(source, tags, &open, at, is_closed);
        if let Some(why) = open.why {
            let (held, is_panel) = (self.text - open.before, open.is_panel);
            self.spans.push(Span { tag: tags[first], first, last: at, held, is_closed, why, is_panel });
        }
        if let Some(name) = open.becomes {
            self.renamed.push((first, name));
            if is_closed {
                self.renamed.push((at, name | 1));
            }
        }
        Some(open.element)
    }

    /// Whether the end tag of an element that is open closes it.
    fn closes(&self, element: u32) -> bool {
        let is_inline = |element: u32| properties(element << 1) & names::INLINE != 0;
        if !is_inline(element) {
            return true;
        }
        for open in self.stack.iter().rev().take(REACH) {
            if open.element == element {
                return true;
            }
            if !is_inline(open.element) && properties(open.element << 1) & names::RUBY == 0 {
                return false;
            }
        }
        false
    }

    /// Drop the tags of the spans, and let the tags around them swallow their text.
    #[inline(never)]
    fn drop_spans(&mut self, source: &[u8], tags: &mut Vec<Tag>) {
        let (mut read, mut written) = (0, 0);
        for &Span { tag, first, last, held, is_closed, why, is_panel } in &self.spans {
            if first < read {
                continue;
            }
            let is_inline = properties(tag.name) & names::INLINE != 0;
            if why == Why::Hidden {
                let is_weighed = if is_inline {
                    tag.name == NAME_A << 1 && held > LINK_BYTES
                } else {
                    held > PANEL_BYTES || is_panel
                };
                if is_weighed || held * HIDDEN_SHARE > self.text {
                    continue;
                }
            }
            let end = tags.get(last).map_or(source.len() as u32, |tag| tag.start);
            if why != Why::Icon
                && (why == Why::Sign || properties(tag.name) & (names::INLINE | names::RUBY | names::RAW) == 0)
            {
                self.signs.push(tag.end..end);
                continue;
            }
            tags.copy_within(read..first, written);
            written += first - read;
            if is_closed {
                tags[last].name = NOTHING;
            }
            let name = if why == Why::Icon { tag.name } else { NOTHING };
            tags[written] = Tag { name, end: tag.end.max(end), ..tag };
            written += 1;
            read = last.max(first + 1);
        }
        tags.copy_within(read.., written);
        tags.truncate(tags.len() - (read - written));
    }

    /// Note the text behind the start tag of a link or span, or the links in brackets that begin with it, if these are
    /// signs.
    fn find_sign(&mut self, source: &[u8], tags: &[Tag], number: usize) {
        let (tag, next) = (tags[number], tags[number + 1]);
        let (start, end) = (tag.end as usize, next.start as usize);
        if end - start > SIGN_BYTES || start == end {
            return;
        }
        let is_link = tag.name == NAME_A << 1 && next.name == NAME_A << 1 | 1;
        let special = |place: usize| {
            let bytes = simd::load(source, place.min(source.len()));
            bytes.equal(b'#') | bytes.equal(b'&') | bytes.high()
        };
        if (special(start) | special(start + 16) << 16) << (32 - (end - start)) != 0 {
            let mut decoded = Vec::new();
            decode(&source[start..end], false, &mut decoded);
            let text = std::str::from_utf8(&decoded).unwrap_or_default().trim_matches(is_space);
            let is_sign = is_link && LINK_SIGNS.contains(&text) && tag.attributes(source).contains(&b'#');
            if is_sign || text == PILCROW {
                self.signs.push(tag.end..next.start);
            }
        }
        let before = source[..tag.start as usize].last();
        let behind = source.get(next.end as usize);
        let may_be_edit = is_link && behind.is_some_and(|&byte| matches!(byte, b']' | b'|') || is_blank(byte));
        if may_be_edit && before.is_some_and(|&byte| byte == b'[' || is_blank(byte)) {
            self.find_edit_links(source, tags, number);
        }
    }

    #[inline(never)]
    fn find_edit_links(&mut self, source: &[u8], tags: &[Tag], number: usize) {
        let begin = number.checked_sub(1).map_or(0, |before| tags[before].end as usize);
        let ahead = &source[begin..tags[number].start as usize];
        let Some(bracket) = ahead.iter().rposition(|&byte| !is_blank(byte)).filter(|&at| ahead[at] == b'[') else {
            return;
        };
        let mut last = number;
        while last + 1 < tags.len() {
            let (link, end) = (tags[last], tags[last + 1]);
            let leads = EDIT_SIGNS.iter().any(|sign| mentions(link.attributes(source), sign));
            let text = source[link.end as usize..end.start as usize].trim_ascii().to_ascii_lowercase();
            let is_edit = leads || EDIT_WORDS.iter().any(|word| word.as_bytes() == text);
            if link.name != NAME_A << 1 || end.name != NAME_A << 1 | 1 || !is_edit {
                return;
            }
            let behind = tags.get(last + 2).map_or(source.len(), |tag| tag.start as usize);
            let behind = &source[end.end as usize..behind];
            let mut solid = behind.iter().enumerate().filter(|(_, &byte)| !is_blank(byte));
            match solid.next() {
                Some((at, b']')) => {
                    self.signs.push((begin + bracket) as u32..end.end + at as u32 + 1);
                    return;
                }
                Some((_, b'|')) if solid.next().is_none() => last += 2,
                _ => return,
            }
        }
    }
}

/// Let the tags in rubies swallow white space with line breaks behind a character beyond ASCII.
#[inline(never)]
fn trim_ruby(source: &[u8], tags: &mut [Tag]) {
    let has_break = |blanks: &[u8]| blanks.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
    let (mut is_within, mut is_beyond) = (false, false);
    for number in 0..tags.len().saturating_sub(1) {
        if tags[number].name >> 1 == NAME_RUBY {
            is_within = tags[number].name & 1 == 0;
        }
        let text = &source[tags[number].end as usize..tags[number + 1].start as usize];
        let behind = text.trim_ascii_start();
        let solid = behind.trim_ascii_end();
        if is_within && is_beyond && has_break(&text[..text.len() - behind.len()]) {
            tags[number].end += (text.len() - behind.len()) as u32;
        }
        is_beyond = solid.last().map_or(is_beyond, |last| !last.is_ascii());
        if is_within && is_beyond && has_break(&behind[solid.len()..]) {
            tags[number + 1].start -= (behind.len() - solid.len()) as u32;
        }
    }
}

/// How the attributes of a start tag let its element stand in the text around it, and whether they hide it.
#[inline(never)]
fn shown(attributes: &[u8], element: u32, line: Line) -> (Line, bool) {
    let values = sources(attributes, ["hidden", "aria-hidden", "style"]);
    let [hidden, aria, style] = values.map(|value| value.map(decoded));
    let style = style.unwrap_or_default();
    let displays = mentions(&style, b"display");
    let is_hidden = hidden.is_some_and(|value| !value.eq_ignore_ascii_case(b"until-found"))
        || aria.is_some_and(|value| value.eq_ignore_ascii_case(b"true"))
        || (displays && declares(&style, "display", &["none"]))
        || declares(&style, "visibility", &["hidden"]);
    let is_styled = displays || mentions(&style, b"float");
    (if is_styled { line.styled(element, &style) } else { line }, is_hidden)
}

/// Whether a class has one of some words.
fn has_word(attributes: &[u8], words: &[&str]) -> bool {
    if words.iter().all(|word| !mentions(attributes, word.as_bytes())) {
        return false;
    }
    let [class] = values(attributes, ["class"]);
    let class = class.unwrap_or_default().to_ascii_lowercase();
    class.split(|each: char| !each.is_ascii_lowercase()).any(|word| words.contains(&word))
}

fn has_role(attributes: &[u8], role: &str) -> bool {
    mentions(attributes, role.as_bytes())
        && values(attributes, ["role"]).iter().flatten().any(|value| value.eq_ignore_ascii_case(role))
}
