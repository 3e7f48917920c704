//! What of a page's tags is no text, whoever reads it: `tests/reference/left_out.py`.
//!
//! Tags are dropped, and others made longer, so that they swallow what is left out.  Signs stay, and their places are
//! given beside the tags.

use std::ops::Range;
use std::sync::OnceLock;

use memchr::memmem::{self, Finder};

use crate::bytes::is_blank;
use crate::names::{
    self, properties, IMPLIED, KNOWN, NAME_A, NAME_BODY, NAME_BUTTON, NAME_HTML, NAME_NOFRAMES, NAME_SPAN,
    NAME_SUMMARY, NOTHING,
};
use crate::page::{is_space, values};
use crate::references::decode;
use crate::tokens::{mentions, Tag};

const LINK_NAMES: [&str; 3] = ["editsection", "headerlink", "secedit"];
const ACCORDIONS: [&str; 2] = ["accordion", "collapsible"];
const LINK_SIGNS: [&str; 6] = ["#", "§", "🔗", "∞", "\u{f0c1}", "\u{200b}"];
const EDIT_SIGNS: [&[u8]; 2] = [b"/edit", b"=edit"];
const EDIT_WORDS: [&str; 8] = ["edit", "edit source", "bearbeiten", "modifier", "editar", "modifica", "编辑", "編集"];
const PILCROW: &str = "¶";
const SIGN_BYTES: usize = 24;
const REACH: usize = 16;
const HIDDEN_SHARE: usize = 2;
const PANEL_BYTES: usize = 200;
const LINK_BYTES: usize = 80;
const PANEL_WORDS: [&str; 4] = ["accordion", "collaps", "labelledby", "panel"];
const HIDING: [&str; 4] = ["idden", "IDDEN", "isplay", "ISPLAY"];

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
    /// Another name for its tags.
    becomes: Option<u32>,
}

/// An element that may be left out, from its start tag to the tag that ends it, which may be its own end tag.
struct Span {
    first: usize,
    last: usize,
    is_closed: bool,
    why: Why,
}

/// A page's tags without what is no text, and the places of its signs in the source, ascending.
#[derive(Clone, Copy)]
pub struct Kept<'a> {
    pub tags: &'a [Tag],
    pub signs: &'a [Range<u32>],
}

/// Buffers of the pass.
#[derive(Default)]
pub struct LeftOut {
    tags: Vec<Tag>,
    stack: Vec<Open>,
    /// By name: how many are open.
    counts: Vec<u32>,
    heads: u32,
    headings: u32,
    spans: Vec<Span>,
    /// Where words stand that may hide an element or name a link sign.
    places: Vec<u32>,
    signs: Vec<Range<u32>>,
}

impl LeftOut {
    /// The page's tags without what is no text, and its signs.
    #[inline(never)]
    pub fn read(&mut self, source: &[u8], tags: &[Tag]) -> Kept<'_> {
        self.tags.clear();
        self.tags.extend_from_slice(tags);
        self.find_words(source);
        self.find_spans(source, tags);
        self.signs.clear();
        self.spans.sort_unstable_by_key(|span| span.first);
        if !self.spans.is_empty() {
            self.drop_spans(source, tags);
        }
        for number in 0..self.tags.len().saturating_sub(1) {
            self.find_sign(source, number);
        }
        self.signs.sort_unstable_by_key(|sign| (sign.start, sign.end));
        self.signs.dedup_by(|next, sign| {
            let is_within = next.start <= sign.end;
            sign.end = if is_within { sign.end.max(next.end) } else { sign.end };
            is_within
        });
        Kept { tags: &self.tags, signs: &self.signs }
    }

    fn find_words(&mut self, source: &[u8]) {
        static FINDERS: OnceLock<Vec<Finder>> = OnceLock::new();
        let finders = FINDERS.get_or_init(|| HIDING.iter().chain(&LINK_NAMES).map(|word| Finder::new(*word)).collect());
        self.places.clear();
        for finder in finders {
            self.places.extend(finder.find_iter(source).map(|place| place as u32));
        }
        self.places.sort_unstable();
    }

    fn find_spans(&mut self, source: &[u8], tags: &[Tag]) {
        self.spans.clear();
        self.stack.clear();
        self.counts.clear();
        self.counts.resize(KNOWN, 0);
        (self.heads, self.headings) = (0, 0);
        let mut next_place = 0;
        for (number, tag) in tags.iter().enumerate() {
            if tag.name == NOTHING {
                continue;
            }
            let element = tag.name >> 1;
            let kind = properties(tag.name);
            if tag.name & 1 == 1 {
                if self.counts.get(element as usize).is_some_and(|&count| count != 0) && self.closes(element) {
                    while self.pop(number, tag.name) != Some(element) {}
                }
                continue;
            }
            let implied = ENDS.get(element as usize).copied().unwrap_or(&[]);
            while self.stack.last().is_some_and(|top| implied.contains(&top.element)) {
                self.pop(number, tag.name);
            }
            while self.places.get(next_place).is_some_and(|&place| place < tag.attributes) {
                next_place += 1;
            }
            let attributes = tag.attributes(source);
            let is_candidate = self.places.get(next_place).is_some_and(|&place| place < tag.content);
            let is_hidden = is_candidate && element != NAME_HTML && element != NAME_BODY && hides(attributes);
            if kind & names::CHILDLESS != 0 {
                if is_hidden && kind & names::RAW != 0 && element != NAME_NOFRAMES {
                    self.spans.push(Span { first: number, last: number, is_closed: false, why: Why::Hidden });
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
                    has_word(attributes, &ACCORDIONS).then_some(NAME_SUMMARY << 1)
                };
            } else if self.headings != 0 && is_button(attributes) {
                becomes = Some(NOTHING);
            }
            let why = if is_candidate && has_word(attributes, &LINK_NAMES) {
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
            self.stack.push(Open { element, tag: number as u32, why, becomes });
        }
        while self.pop(tags.len(), NOTHING).is_some() {}
    }

    /// Close the last open element at a tag of that name; gives its own.
    #[inline(always)]
    fn pop(&mut self, at: usize, closing: u32) -> Option<u32> {
        let open = self.stack.pop()?;
        let kind = properties(open.element << 1);
        self.counts[open.element as usize] -= 1;
        self.heads -= u32::from(kind & names::HEAD != 0);
        self.headings -= u32::from(kind & names::HEADING != 0);
        let (first, is_closed) = (open.tag as usize, closing == open.element << 1 | 1);
        if let Some(why) = open.why {
            self.spans.push(Span { first, last: at, is_closed, why });
        }
        if let Some(name) = open.becomes {
            self.tags[first].name = name;
            if is_closed {
                self.tags[at].name = name | 1;
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
    fn drop_spans(&mut self, source: &[u8], tags: &[Tag]) {
        let start_of = |number: usize| tags.get(number).map_or(source.len(), |tag| tag.start as usize);
        let mut before = Vec::with_capacity(tags.len() + 2);
        before.extend([0, start_of(0)]);
        for (number, tag) in tags.iter().enumerate() {
            before.push(before[number + 1] + start_of(number + 1) - tag.end as usize);
        }
        let total = before[tags.len() + 1];
        let (mut read, mut written) = (0, 0);
        for &Span { first, last, is_closed, why } in &self.spans {
            let held = before[last + 1] - before[first + 1];
            let kind = properties(tags[first].name);
            if first < read {
                continue;
            }
            if why == Why::Hidden {
                let is_weighed = if kind & names::INLINE == 0 {
                    let attributes = tags[first].attributes(source);
                    held > PANEL_BYTES
                        || PANEL_WORDS.iter().any(|word| memmem::find(attributes, word.as_bytes()).is_some())
                } else {
                    tags[first].name == NAME_A << 1 && held > LINK_BYTES
                };
                if is_weighed || held * HIDDEN_SHARE > total {
                    continue;
                }
            }
            let is_within_line = kind & (names::INLINE | names::RUBY | names::RAW) != 0;
            if why == Why::Sign || !is_within_line {
                self.signs.push(tags[first].end..start_of(last) as u32);
                continue;
            }
            self.tags.copy_within(read..=first, written);
            written += first - read;
            let mut tag = self.tags[written];
            tag.name = NOTHING;
            if is_closed {
                self.tags[last].name = NOTHING;
            }
            tag.end = tag.end.max(start_of(last) as u32);
            self.tags[written] = tag;
            written += 1;
            read = last.max(first + 1);
        }
        let left = self.tags.len() - read;
        self.tags.copy_within(read.., written);
        self.tags.truncate(written + left);
    }

    /// Note the text behind a tag, or the links in brackets that begin with it, if these are signs.
    #[inline(always)]
    fn find_sign(&mut self, source: &[u8], number: usize) {
        let (tag, next) = (self.tags[number], self.tags[number + 1]);
        let text = tag.end as usize..next.start as usize;
        if text.len() > SIGN_BYTES || tag.name & 1 != 0 || text.is_empty() {
            return;
        }
        let is_link = tag.name == NAME_A << 1 && next.name == NAME_A << 1 | 1;
        let may_be = matches!(tag.name >> 1, NAME_A | NAME_SPAN);
        if is_link || (may_be && source[text].iter().any(|byte| matches!(byte, b'&' | 0xc2))) {
            self.find_short(source, number, is_link);
        }
    }

    #[inline(never)]
    fn find_short(&mut self, source: &[u8], number: usize, is_link: bool) {
        let tag = self.tags[number];
        let next = self.tags[number + 1].start;
        let mut decoded = Vec::new();
        decode(&source[tag.end as usize..next as usize], false, &mut decoded);
        let text = std::str::from_utf8(&decoded).unwrap_or_default().trim_matches(is_space);
        let is_sign = is_link && LINK_SIGNS.contains(&text) && tag.attributes(source).contains(&b'#');
        if is_sign || text == PILCROW {
            self.signs.push(tag.end..next);
        }
        if is_link {
            self.find_edit_links(source, number);
        }
    }

    fn find_edit_links(&mut self, source: &[u8], number: usize) {
        let begin = number.checked_sub(1).map_or(0, |before| self.tags[before].end as usize);
        let ahead = &source[begin..self.tags[number].start as usize];
        let Some(bracket) = ahead.iter().rposition(|&byte| !is_blank(byte)).filter(|&at| ahead[at] == b'[') else {
            return;
        };
        let mut last = number;
        while last + 1 < self.tags.len() {
            let (link, end) = (self.tags[last], self.tags[last + 1]);
            let leads = EDIT_SIGNS.iter().any(|sign| mentions(link.attributes(source), sign));
            let text = source[link.end as usize..end.start as usize].trim_ascii().to_ascii_lowercase();
            let is_edit = leads || EDIT_WORDS.iter().any(|word| word.as_bytes() == text);
            if link.name != NAME_A << 1 || end.name != NAME_A << 1 | 1 || !is_edit {
                return;
            }
            let behind = self.tags.get(last + 2).map_or(source.len(), |tag| tag.start as usize);
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

/// Whether the attributes of a start tag hide its element.
fn hides(attributes: &[u8]) -> bool {
    if HIDING.iter().all(|sign| memmem::find(attributes, sign.as_bytes()).is_none()) {
        return false;
    }
    let [hidden, aria, style] = values(attributes, ["hidden", "aria-hidden", "style"]);
    let style = style.unwrap_or_default().to_ascii_lowercase().replace(' ', "");
    hidden.is_some_and(|value| !value.eq_ignore_ascii_case("until-found"))
        || aria.is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || style.contains("display:none")
        || style.contains("visibility:hidden")
}

/// Whether a class has one of some words; they are looked for in small letters first.
fn has_word(attributes: &[u8], words: &[&str]) -> bool {
    if words.iter().all(|word| memmem::find(attributes, word.as_bytes()).is_none()) {
        return false;
    }
    let [class] = values(attributes, ["class"]);
    let class = class.unwrap_or_default().to_ascii_lowercase();
    class.split(|each: char| !each.is_ascii_lowercase()).any(|word| words.contains(&word))
}

fn is_button(attributes: &[u8]) -> bool {
    memmem::find(attributes, b"button").is_some()
        && values(attributes, ["role"]).iter().flatten().any(|role| role.eq_ignore_ascii_case("button"))
}
