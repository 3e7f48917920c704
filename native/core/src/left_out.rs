//! What of a page's tags is no text, whoever reads it: `tests/reference/left_out.py`.
//!
//! Tags are dropped, and others made longer, so that they swallow what is left out.  Signs stay, and their places are
//! given beside the tags.

use std::ops::Range;
use std::sync::OnceLock;

use crate::bytes::is_blank;
use crate::groups;
use crate::names::{
    self, properties, IMPLIED, KNOWN, NAME_A, NAME_BODY, NAME_BUTTON, NAME_HTML, NAME_NOFRAMES, NAME_SPAN,
    NAME_SUMMARY, NOTHING,
};
use crate::page::{is_space, values};
use crate::references::decode;
use crate::sixteen;
use crate::tokens::{mentions, Tag};
use crate::wide::{self, Bytes, Groups};

const LINK_NAMES: [&str; 3] = ["editsection", "headerlink", "secedit"];
const ACCORDIONS: [&str; 2] = ["accordion", "collapsible"];
const LINK_SIGNS: [&str; 6] = ["#", "§", "🔗", "∞", "\u{f0c1}", "\u{200b}"];
const EDIT_SIGNS: [&[u8]; 2] = [b"/edit", b"=edit"];
const EDIT_WORDS: [&str; 8] = ["edit", "edit source", "bearbeiten", "modifier", "editar", "modifica", "编辑", "編集"];
const PILCROW: &str = "¶";
const SIGN_BYTES: usize = 24;
const REACH: usize = 16;
const HIDDEN_SHARE: u32 = 2;
const PANEL_BYTES: u32 = 200;
const LINK_BYTES: u32 = 80;
/// Words in attributes that may matter, and what they may mean.
const WORDS: [(&str, u8); 12] = [
    ("idden", HIDES),
    ("IDDEN", HIDES),
    ("isplay", HIDES),
    ("ISPLAY", HIDES),
    ("editsection", IS_SIGN),
    ("headerlink", IS_SIGN),
    ("secedit", IS_SIGN),
    ("button", IS_BUTTON),
    ("accordion", IS_PANEL),
    ("collaps", IS_PANEL),
    ("labelledby", IS_PANEL),
    ("panel", IS_PANEL),
];
const HIDES: u8 = 1;
const IS_SIGN: u8 = 2;
const IS_BUTTON: u8 = 4;
const IS_PANEL: u8 = 8;

/// By start tag: open elements on top that it ends.
static ENDS: [&[u32]; KNOWN] = {
    let mut ends: [&[u32]; KNOWN] = [&[]; KNOWN];
    let mut place = 0;
    while place < IMPLIED.len() {
        ends[IMPLIED[place].0 as usize] = IMPLIED[place].1;
        place += 1;
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
}

/// An open element.
struct Open {
    element: u32,
    tag: u32,
    why: Option<Why>,
    is_panel: bool,
    /// Another name for its tags.
    becomes: Option<u32>,
}

/// An element that may be left out, from its start tag to the tag that ends it, which may be its own end tag.
struct Span {
    /// The start tag, as it was read.
    tag: Tag,
    first: usize,
    last: usize,
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
}

/// First bytes by which words are told apart.
const READ_AHEAD: usize = 3;

/// Looks for `WORDS` in the attributes of start tags; gives whether a tag may be left out, or change what another is.
struct FindWords<'a> {
    source: &'a [u8],
    tags: &'a [Tag],
    found: &'a mut Vec<(u32, u8)>,
}

impl wide::Work for FindWords<'_> {
    type Made = bool;

    #[inline(always)]
    fn on<B: Bytes>(self) -> bool {
        static GROUPS: OnceLock<Groups<READ_AHEAD>> = OnceLock::new();
        let groups =
            GROUPS.get_or_init(|| groups::of(WORDS.iter().map(|(word, _)| groups::as_written(word.as_bytes())), &[]));
        self.found.clear();
        let mut may_change = false;
        for (number, tag) in self.tags.iter().enumerate() {
            if tag.name & 1 != 0 {
                continue;
            }
            may_change |= properties(tag.name) & names::LEFT_OUT != 0 || tag.name >> 1 == NAME_BUTTON;
            let (mut meanings, end) = (0, tag.content as usize - 1);
            for start in (tag.attributes as usize..end).step_by(B::COUNT) {
                let mut places = B::in_a_group(self.source, start, groups);
                while places != 0 && start + (places.trailing_zeros() as usize) < end {
                    let rest = &self.source[start + places.trailing_zeros() as usize..];
                    let begins = rest.first_chunk::<READ_AHEAD>();
                    let may_be = |word: &str| word.as_bytes().first_chunk() == begins;
                    let word = WORDS.iter().find(|(word, _)| may_be(word) && rest.starts_with(word.as_bytes()));
                    meanings |= word.map_or(0, |&(_, meaning)| meaning);
                    places &= places - 1;
                }
            }
            if meanings != 0 {
                self.found.push((number as u32, meanings));
                may_change |= meanings != IS_PANEL;
            }
        }
        may_change
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
    /// Numbers of the tags with one of `WORDS` in their attributes, ascending, and what these may mean.
    found: Vec<(u32, u8)>,
    signs: Vec<Range<u32>>,
}

impl LeftOut {
    /// Take out of a page's tags what is no text, and find its signs.
    #[inline(never)]
    pub fn read<'a>(&'a mut self, source: &[u8], tags: &'a mut Vec<Tag>) -> Kept<'a> {
        self.spans.clear();
        self.signs.clear();
        if wide::run(FindWords { source, tags, found: &mut self.found }) {
            self.find_spans(source, tags);
        }
        if !self.spans.is_empty() {
            self.spans.sort_unstable_by_key(|span| span.first);
            self.drop_spans(source, tags);
        }
        for number in 0..tags.len().saturating_sub(1) {
            if matches!(tags[number].name >> 1, NAME_A | NAME_SPAN) && tags[number].name & 1 == 0 {
                self.find_sign(source, tags, number);
            }
        }
        self.signs.sort_unstable_by_key(|sign| (sign.start, sign.end));
        self.signs.dedup_by(|next, sign| {
            let is_within = next.start <= sign.end;
            sign.end = if is_within { sign.end.max(next.end) } else { sign.end };
            is_within
        });
        Kept { tags, signs: &self.signs }
    }

    fn find_spans(&mut self, source: &[u8], tags: &mut [Tag]) {
        self.stack.clear();
        self.counts.clear();
        self.counts.resize(KNOWN, 0);
        (self.heads, self.headings) = (0, 0);
        let mut next_found = 0;
        for number in 0..tags.len() {
            let tag = tags[number];
            if tag.name == NOTHING {
                continue;
            }
            let element = tag.name >> 1;
            let kind = properties(tag.name);
            if tag.name & 1 == 1 {
                if self.counts.get(element as usize).is_some_and(|&count| count != 0) && self.closes(element) {
                    while self.pop(tags, number, tag.name) != Some(element) {}
                }
                continue;
            }
            let implied = ENDS.get(element as usize).copied().unwrap_or(&[]);
            while self.stack.last().is_some_and(|top| implied.contains(&top.element)) {
                self.pop(tags, number, tag.name);
            }
            let attributes = tag.attributes(source);
            let found = self.found.get(next_found).filter(|found| found.0 as usize == number);
            next_found += usize::from(found.is_some());
            let meanings = found.map_or(0, |found| found.1);
            let is_panel = meanings & IS_PANEL != 0;
            let is_hidden = meanings & HIDES != 0 && element != NAME_HTML && element != NAME_BODY && hides(attributes);
            if kind & names::CHILDLESS != 0 {
                if is_hidden && kind & names::RAW != 0 && element != NAME_NOFRAMES {
                    let (first, last, why) = (number, number, Why::Hidden);
                    self.spans.push(Span { tag, first, last, is_closed: false, why, is_panel });
                }
                continue;
            }
            let mut becomes = None;
            if kind & names::HEADING != 0 && self.counts[NAME_BUTTON as usize] != 0 {
                let buttons = self.stack.iter_mut().rev().take(REACH).filter(|open| open.element == NAME_BUTTON);
                buttons.for_each(|open| open.becomes = Some(NOTHING));
            }
            if element == NAME_BUTTON {
                becomes = if self.heads != 0 {
                    Some(NOTHING)
                } else {
                    (is_panel && has_word(attributes, &ACCORDIONS)).then_some(NAME_SUMMARY << 1)
                };
            } else if self.headings != 0 && meanings & IS_BUTTON != 0 && is_button(attributes) {
                becomes = Some(NOTHING);
            }
            let why = if meanings & IS_SIGN != 0 && has_word(attributes, &LINK_NAMES) {
                Some(Why::Sign)
            } else if kind & names::LEFT_OUT != 0 {
                Some(Why::Named)
            } else {
                is_hidden.then_some(Why::Hidden)
            };
            if self.counts.len() <= element as usize {
                self.counts.resize(element as usize + 1, 0);
            }
            self.counts[element as usize] += 1;
            self.heads += u32::from(kind & names::HEAD != 0);
            self.headings += u32::from(kind & names::HEADING != 0);
            self.stack.push(Open { element, tag: number as u32, why, is_panel, becomes });
        }
        while self.pop(tags, tags.len(), NOTHING).is_some() {}
    }

    /// Close the last open element at a tag of that name; gives its own.
    #[inline(always)]
    fn pop(&mut self, tags: &mut [Tag], at: usize, closing: u32) -> Option<u32> {
        let open = self.stack.pop()?;
        let kind = properties(open.element << 1);
        self.counts[open.element as usize] -= 1;
        self.heads -= u32::from(kind & names::HEAD != 0);
        self.headings -= u32::from(kind & names::HEADING != 0);
        let (first, is_closed) = (open.tag as usize, closing == open.element << 1 | 1);
        if let Some(why) = open.why {
            self.spans.push(Span { tag: tags[first], first, last: at, is_closed, why, is_panel: open.is_panel });
        }
        if let Some(name) = open.becomes {
            tags[first].name = name;
            if is_closed {
                tags[at].name = name | 1;
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
    fn drop_spans(&mut self, source: &[u8], tags: &mut Vec<Tag>) {
        // Of each tag: how much text stands before it, up to its start; at the end, that of the page.
        let mut before = Vec::with_capacity(tags.len() + 1);
        let (mut held, mut end) = (0, 0);
        for tag in &*tags {
            held += tag.start - end;
            end = tag.end;
            before.push(held);
        }
        before.push(held + source.len() as u32 - end);
        let total = before[tags.len()];
        let (mut read, mut written) = (0, 0);
        for &Span { tag, first, last, is_closed, why, is_panel } in &self.spans {
            if first < read {
                continue;
            }
            let held = before[last] - before[first];
            let is_inline = properties(tag.name) & names::INLINE != 0;
            if why == Why::Hidden {
                let is_weighed = if is_inline {
                    tag.name == NAME_A << 1 && held > LINK_BYTES
                } else {
                    held > PANEL_BYTES || is_panel
                };
                if is_weighed || held * HIDDEN_SHARE > total {
                    continue;
                }
            }
            let end = tags.get(last).map_or(source.len() as u32, |tag| tag.start);
            if why == Why::Sign || properties(tag.name) & (names::INLINE | names::RUBY | names::RAW) == 0 {
                self.signs.push(tag.end..end);
                continue;
            }
            tags.copy_within(read..first, written);
            written += first - read;
            if is_closed {
                tags[last].name = NOTHING;
            }
            tags[written] = Tag { name: NOTHING, end: tag.end.max(end), ..tag };
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
        let may_be_sign = (start..end).step_by(16).any(|place| {
            let bytes = sixteen::load(source, place);
            let special = bytes.equal(b'#') | bytes.equal(b'&') | bytes.high();
            special.trailing_zeros() < (end - place) as u32
        });
        if may_be_sign {
            let mut decoded = Vec::new();
            decode(&source[start..end], false, &mut decoded);
            let text = std::str::from_utf8(&decoded).unwrap_or_default().trim_matches(is_space);
            let is_sign = is_link && LINK_SIGNS.contains(&text) && tag.attributes(source).contains(&b'#');
            if is_sign || text == PILCROW {
                self.signs.push(tag.end..next.start);
            }
        }
        let before = source[..tag.start as usize].last();
        if is_link && before.is_some_and(|&byte| byte == b'[' || is_blank(byte)) {
            self.find_edit_links(source, tags, number);
        }
    }

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

/// Whether attributes have a word, as it is written.
fn has(attributes: &[u8], word: &str) -> bool {
    memchr::memmem::find(attributes, word.as_bytes()).is_some()
}

/// Whether the attributes of a start tag hide its element.
fn hides(attributes: &[u8]) -> bool {
    let [hidden, aria, style] = values(attributes, ["hidden", "aria-hidden", "style"]);
    let style = style.unwrap_or_default().to_ascii_lowercase().replace(' ', "");
    hidden.is_some_and(|value| !value.eq_ignore_ascii_case("until-found"))
        || aria.is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || style.contains("display:none")
        || style.contains("visibility:hidden")
}

/// Whether a class has one of some words; they are looked for in small letters first.
fn has_word(attributes: &[u8], words: &[&str]) -> bool {
    if words.iter().all(|word| !has(attributes, word)) {
        return false;
    }
    let [class] = values(attributes, ["class"]);
    let class = class.unwrap_or_default().to_ascii_lowercase();
    class.split(|each: char| !each.is_ascii_lowercase()).any(|word| words.contains(&word))
}

fn is_button(attributes: &[u8]) -> bool {
    values(attributes, ["role"]).iter().flatten().any(|role| role.eq_ignore_ascii_case("button"))
}
