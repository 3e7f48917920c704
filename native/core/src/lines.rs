//! Which tags are part of a line, where their names do not say so: icons, elements that HTML does not know, buttons,
//! Word's smart tags, scripts, and elements whose own style shows them in another way.
//!
//! - An svg without text is nothing.
//! - Word's smart tags never cut a line.
//! - Elements that are *doubtful* are part of a line if the element around them, through others of these and through
//!   inline ones, has words of its own and they hold no element that cuts.  Else they cut.
//! - `display:inline` makes an element part of a line; `block`, `flex`, `grid`, `table` and `list-item` make an inline
//!   one cut.
//! - Two words are parted by a blank where elements meet that are part of a line by the text around them, or an icon is
//!   all that parts two.  Around inline elements that float or are blocks in the line this holds for words of two letters
//!   or more each.

use crate::attributes::{declares, Said};
use crate::names::*;
use crate::references::reference;
use crate::simd;
use crate::tokens::Tag;

/// Tags around an icon that are looked at, on each side.
const REACH: usize = 8;
/// Values of `display` that cut a line.
#[rustfmt::skip]
const CUTTING: [&str; 10] = [
    "block", "flex", "grid", "list-item", "flow-root", "table", "table-row", "table-cell", "table-caption",
    "table-row-group",
];
const BLOCKS_IN_LINE: [&str; 3] = ["inline-block", "inline-flex", "inline-table"];
/// Raw and empty elements that are doubtful, beside those of `is_doubtful`.
const ALSO_DOUBTFUL: [u32; 8] =
    [NAME_IFRAME, NAME_LINK, NAME_META, NAME_NOEMBED, NAME_PARAM, NAME_SCRIPT, NAME_STYLE, NAME_EMBED];
/// What is seen of them parts words.
const SEEN: [u32; 4] = [NAME_INPUT, NAME_IFRAME, NAME_EMBED, NAME_OBJECT];

/// How an element stands in the text around it, as far as its start tag says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Line {
    Inline,
    Cuts,
    /// The text around it says.
    Doubtful,
    /// It is one of Word's smart tags.
    Word,
    /// Its style makes it part of a line, or lets it cut, or makes a block in the line of it.
    Joins,
    Parts,
    Floats,
}

impl Line {
    #[inline(always)]
    pub fn of(source: &[u8], tag: &Tag) -> Self {
        static LINES: [Line; KNOWN] = {
            let (doubtful, also) = (table_of(DOUBTFUL), table_of(ALSO_DOUBTFUL));
            let mut lines = [Line::Inline; KNOWN];
            let mut name = 0;
            while name < KNOWN {
                if doubtful[name] || also[name] {
                    lines[name] = Line::Doubtful;
                } else if PROPERTIES[name] & (INLINE | CHILDLESS) == 0 {
                    lines[name] = Line::Cuts;
                }
                name += 1;
            }
            lines
        };
        let line = LINES.get((tag.name >> 1) as usize).copied();
        line.unwrap_or_else(|| if is_of_word(source, tag) { Self::Word } else { Self::Doubtful })
    }

    /// The same with what the element's own style says.
    pub fn styled(self, element: u32, style: &[u8]) -> Self {
        let shows = |values: &[&str]| declares(style, "display", values);
        let is_line = self == Self::Inline || self == Self::Doubtful;
        if is_line && shows(&CUTTING) {
            Self::Parts
        } else if self == Self::Inline && (shows(&BLOCKS_IN_LINE) || declares(style, "float", &["left", "right"])) {
            Self::Floats
        } else if self == Self::Cuts && shows(&["inline"]) && !KEPT.contains(&element) {
            Self::Joins
        } else {
            self
        }
    }
}

/// Elements that stay what they are if they are shown in a line.
#[rustfmt::skip]
const KEPT: [u32; 22] = [
    NAME_BODY, NAME_H1, NAME_H2, NAME_H3, NAME_H4, NAME_H5, NAME_H6, NAME_LI, NAME_UL, NAME_OL, NAME_DL, NAME_DT,
    NAME_DD, NAME_TABLE, NAME_TBODY, NAME_TR, NAME_TD, NAME_TH, NAME_PRE, NAME_FORM, NAME_NAV, NAME_NOSCRIPT,
];

/// Whether a tag that HTML does not know is one of Word's.
#[cold]
fn is_of_word(source: &[u8], tag: &Tag) -> bool {
    let name = tag.name(source);
    let Some(colon) = memchr::memchr(b':', name) else {
        return memchr::memmem::find(tag.attributes(source), b"w:st=").is_some();
    };
    let (space, own) = (&name[..colon], &name[colon + 1..]);
    let digits = space.get(2..).unwrap_or_default();
    (space.len() > 2 && space[..2].eq_ignore_ascii_case(b"st") && digits.iter().all(u8::is_ascii_digit))
        || (space.eq_ignore_ascii_case(b"o") && own.eq_ignore_ascii_case(b"p"))
}

/// Whether a part of a source has a letter or a digit.
#[inline(always)]
pub fn has_word(source: &[u8], mut start: usize, end: usize) -> bool {
    while start < end {
        let solid = !simd::load(source, start).at_most(b' ') & ((1 << 16) - 1);
        if solid != 0 {
            start += solid.trailing_zeros() as usize;
            return start < end && (source[start].is_ascii_alphanumeric() || has_word_behind(&source[start..end]));
        }
        start += 16;
    }
    false
}

fn has_word_behind(text: &[u8]) -> bool {
    let mut place = 0;
    while let Some(&byte) = text.get(place) {
        if byte.is_ascii_alphanumeric() {
            return true;
        }
        if byte == b'&' {
            if let Some(found) = reference(&text[place..], false) {
                if found.characters.into_iter().flatten().any(char::is_alphanumeric) {
                    return true;
                }
                place += found.length;
                continue;
            }
        }
        if byte >= 0x80 {
            let rest = &text[place..text.len().min(place + 64)];
            let valid = rest.utf8_chunks().next().map_or("", |chunk| chunk.valid());
            let Some(next) = valid.chars().next() else { return true };
            if next.is_alphanumeric() {
                return true;
            }
            place += next.len_utf8();
            continue;
        }
        place += 1;
    }
    false
}

/// Whether there is text, and no tag, right before the start tag of a raw or empty element.
pub fn is_behind_text(source: &[u8], tag: &Tag) -> bool {
    let is_start = tag.name & 1 == 0 && properties(tag.name) & CHILDLESS != 0 && tag.name >> 1 != NAME_TITLE;
    is_start && source[..tag.start as usize].trim_ascii_end().last().is_some_and(|&last| last != b'>')
}

/// What is decided about the tags of a page.
#[derive(Default)]
pub struct Lines {
    /// First and last tags of elements that are doubtful as yet; the same number twice if there is no end tag.
    pub doubts: Vec<(usize, usize)>,
    /// Numbers of tags, and the names that they get.
    pub renamed: Vec<(usize, u32)>,
    /// Tags that stand for no tag of HTML, and their places in the source.
    inserted: Vec<(u32, u32)>,
    /// Tags with these among them.
    all: Vec<Tag>,
    /// Whether the page has words outside of all elements.
    pub has_words: bool,
    /// First and last tags of svgs without text, up to a tag.
    icons: Vec<(usize, usize)>,
    icons_to: usize,
}

impl Lines {
    pub fn begin(&mut self) {
        self.doubts.clear();
        self.renamed.clear();
        self.inserted.clear();
        self.has_words = false;
        self.icons_to = 0;
    }

    /// Decide at the end of an element: on what is doubtful in it, from a place in `doubts` on, and on its own tags.
    #[inline(never)]
    pub fn end(
        &mut self,
        source: &[u8],
        tags: &[Tag],
        line: Line,
        (first, last): (usize, usize),
        doubts: usize,
        has_words: bool,
    ) {
        if has_words {
            for place in doubts..self.doubts.len() {
                let (first, last) = self.doubts[place];
                self.join(source, tags, first, last);
            }
        }
        if has_words || matches!(line, Line::Cuts | Line::Parts) {
            self.doubts.truncate(doubts);
        }
        match line {
            Line::Doubtful => self.doubts.push((first, last)),
            Line::Word | Line::Joins => self.rename(first, last, NAME_SPAN << 1),
            Line::Parts if first != last => self.surround(tags, first, last, CUT),
            Line::Floats if first != last => self.surround(tags, first, last, SOFT),
            _ => {}
        }
    }

    fn rename(&mut self, first: usize, last: usize, name: u32) {
        self.renamed.push((first, name));
        if first != last {
            self.renamed.push((last, name | 1));
        }
    }

    fn surround(&mut self, tags: &[Tag], first: usize, last: usize, name: u32) {
        self.inserted.push((tags[first].start, name));
        self.inserted.push((tags[last].end, name));
    }

    /// Make an element part of its line.
    fn join(&mut self, source: &[u8], tags: &[Tag], first: usize, last: usize) {
        let (tag, element) = (&tags[first], tags[first].name >> 1);
        if properties(tag.name) & CHILDLESS != 0 {
            let name = if SEEN.contains(&element) { BLANK } else { NOTHING };
            return self.rename(first, last, name);
        }
        if element >= KNOWN as u32 {
            let said = Said::of_name(tag.name(source));
            if said.evidence != 0 || said.marks.is_never() {
                return;
            }
        }
        self.rename(first, last, NAME_SPAN << 1);
        let meets = |before: usize, behind: usize| {
            let next = tags.get(behind).filter(|next| next.name & 1 == 0 && tags[before].name & 1 == 1);
            next.is_some_and(|next| tags[before].end == next.start)
        };
        if first != 0 && meets(first - 1, first) {
            self.inserted.push((tag.start, MEETING));
        }
        if meets(last, last + 1) {
            self.inserted.push((tags[last].end, MEETING));
        }
    }

    /// The number of the tag that ends an svg without text.
    pub fn icon(&mut self, source: &[u8], tags: &[Tag], first: usize) -> Option<usize> {
        if first >= self.icons_to {
            self.find_icons(source, tags, first);
        }
        self.icons.iter().find(|icon| icon.0 == first).map(|icon| icon.1)
    }

    /// Find those in an svg, itself among them, that show no text; one that is in another such need not be known.
    #[inline(never)]
    fn find_icons(&mut self, source: &[u8], tags: &[Tag], first: usize) {
        self.icons.clear();
        // Of open ones: the start tag, and whether there is text, or an element of HTML.
        let mut open = vec![(first, false)];
        let mut untold = 0;
        for number in first + 1..tags.len() {
            let tag = &tags[number];
            let text = &source[tags[number - 1].end as usize..tag.start as usize];
            let top = open.len() - 1;
            open[top].1 |= (untold == 0 && !text.trim_ascii().is_empty()) || tag.name == CDATA;
            let (element, is_end) = (tag.name >> 1, tag.name & 1 == 1);
            if element == NAME_SVG && !is_end {
                open.push((number, false));
            } else if element == NAME_SVG {
                let (start, has_text) = open.pop().unwrap_or_default();
                if !has_text {
                    self.icons.push((start, number));
                }
                let Some(around) = open.last_mut() else {
                    self.icons_to = number + 1;
                    self.icons.reverse();
                    return;
                };
                around.1 |= has_text;
            } else if element < KNOWN as u32 {
                let is_drawn = matches!(element, NAME_PATH | NAME_G | NAME_CIRCLE | NAME_RECT | NAME_USE | NAME_A);
                open[top].1 |= untold == 0 && !is_drawn && properties(tag.name) & RAW == 0;
            } else if tag.name < CUT && !is_end && untold == 0 {
                let name = tag.name(source);
                let is_untold = [&b"desc"[..], b"metadata"].iter().any(|each| name.eq_ignore_ascii_case(each));
                untold = if is_untold { number } else { 0 };
            } else if untold != 0 && is_end && tags[untold].name >> 1 == element {
                untold = 0;
            }
        }
        self.icons_to = tags.len();
        self.icons.clear();
    }

    /// Put tags in that stand for no tag of HTML, where none swallows their places.
    #[inline(always)]
    pub fn insert(&mut self, tags: &mut Vec<Tag>) {
        if !self.inserted.is_empty() {
            self.insert_all(tags);
        }
    }

    #[inline(never)]
    fn insert_all(&mut self, tags: &mut Vec<Tag>) {
        self.inserted.sort_unstable();
        let all = &mut self.all;
        all.clear();
        all.reserve(tags.len() + self.inserted.len());
        let mut inserted = self.inserted.drain(..).peekable();
        let mut end = 0;
        for &tag in tags.iter() {
            while let Some((at, name)) = inserted.next_if(|&(at, _)| at <= tag.start) {
                if at >= end {
                    all.push(Tag { start: at, end: at, attributes: at, content: at, name });
                }
            }
            end = tag.end;
            all.push(tag);
        }
        for (at, name) in inserted.filter(|&(at, _)| at >= end) {
            all.push(Tag { start: at, end: at, attributes: at, content: at, name });
        }
        std::mem::swap(tags, all);
    }
}

/// What stands for an icon: what parts words if an element ends before it and one begins behind, and no text is between.
pub fn name_of_icon(tags: &[Tag], first: usize, last: usize) -> u32 {
    let is_inline = |tag: &Tag| properties(tag.name) & INLINE != 0;
    let before = (1..=first).rev().map_while(|number| {
        let tag = Some(&tags[number - 1]).filter(|tag| tag.end == tags[number].start && is_inline(tag));
        tag.map(|tag| tag.name & 1 == 1)
    });
    let behind = (last..tags.len() - 1).map_while(|number| {
        let tag = Some(&tags[number + 1]).filter(|tag| tag.start == tags[number].end && is_inline(tag));
        tag.map(|tag| tag.name & 1 == 1)
    });
    // In order, and whether each ends an element.
    let mut around: Vec<bool> = before.take(REACH).collect();
    around.reverse();
    around.extend(behind.take(REACH));
    let ended = around.iter().position(|&is_end| is_end);
    if ended.is_some_and(|at| around[at..].contains(&false)) {
        MEETING
    } else {
        NOTHING
    }
}
