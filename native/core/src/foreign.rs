//! Foreign content (svg and math) and XHTML, where `/>` ends an element, as a parser of XML and HTML reads it.

use crate::kind;
use crate::names::*;
use crate::tokens::{each_attribute, mentions, raw_end, Tag};

/// Start tags of HTML that end foreign content, as in HTML's rules for parsing it.
#[rustfmt::skip]
const BREAKOUT: [u32; 39] = [
    NAME_B, NAME_BIG, NAME_BLOCKQUOTE, NAME_BODY, NAME_BR, NAME_CENTER, NAME_CODE, NAME_DD, NAME_DIV, NAME_DL,
    NAME_DT, NAME_EM, NAME_EMBED, NAME_H1, NAME_H2, NAME_H3, NAME_H4, NAME_H5, NAME_H6, NAME_HEAD, NAME_HR, NAME_I,
    NAME_IMG, NAME_LI, NAME_LISTING, NAME_META, NAME_NOBR, NAME_OL, NAME_P, NAME_PRE, NAME_RUBY, NAME_S, NAME_SMALL,
    NAME_SPAN, NAME_STRONG, NAME_SUB, NAME_SUP, NAME_TABLE, NAME_UL,
];
/// Elements of foreign content that hold HTML.
const HTML_WITHIN: [&[u8]; 7] = [b"foreignobject", b"desc", b"mtext", b"mi", b"mn", b"mo", b"ms"];
const XML_TYPES: [&str; 3] = ["application/xhtml+xml", "text/xml", "application/xml"];

/// Whether a page is XHTML: by its type, or by a declaration of XML.
pub fn is_xhtml(text: &[u8], content_type: &str) -> bool {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text).trim_ascii_start();
    text.get(..6).is_some_and(|start| start[..5].eq_ignore_ascii_case(b"<?xml") && start[5].is_ascii_whitespace())
        || (mentions(content_type.as_bytes(), b"xml")
            && XML_TYPES.iter().any(|known| kind::media_type(content_type).eq_ignore_ascii_case(known)))
}

/// Which of svg and math are open, and the elements with HTML in these, while a page's tags go by.
#[derive(Default)]
pub struct Foreign {
    open: Vec<u32>,
    is_xhtml: bool,
}

/// Whether an element is foreign.
#[inline(always)]
fn is_root(element: u32) -> bool {
    element == NAME_SVG || element == NAME_MATH
}

impl Foreign {
    pub fn of(is_xhtml: bool) -> Self {
        Self { is_xhtml, ..Self::default() }
    }

    /// Whether the next tag is to be read in another way than those of HTML.
    pub fn is_read(&self) -> bool {
        self.is_xhtml || !self.open.is_empty()
    }

    /// Whether the last tag was within svg or math.
    pub fn is_within(&self) -> bool {
        self.open.last().is_some_and(|&last| is_root(last))
    }

    /// Whether `<![CDATA[` begins text.
    pub fn has_cdata(&self) -> bool {
        self.is_xhtml || self.is_within()
    }

    /// Take note of a tag; gives the end tag that `/>` stands for.
    #[inline(never)]
    pub fn pass(&mut self, source: &[u8], tag: &mut Tag) -> Option<Tag> {
        if tag.name == CDATA {
            let end = tag.end as usize;
            return (end < source.len()).then(|| Tag::comment(end, end + 3));
        }
        if tag.name == NOTHING {
            return None;
        }
        let element = tag.name >> 1;
        if tag.name & 1 != 0 {
            if let Some(place) = self.open.iter().rposition(|&open| open == element) {
                self.open.truncate(place);
            }
            return None;
        }
        if !self.is_xhtml && BREAKOUT.contains(&element) {
            while self.is_within() {
                self.open.pop();
            }
        }
        let is_within = self.is_within();
        let kind = properties(tag.name);
        if (self.is_xhtml || is_within || is_root(element)) && ends_itself(source, tag) {
            tag.end = tag.content;
            tag.name = if element == NAME_TITLE && is_within { NOTHING } else { tag.name };
            let has_end = kind & CHILDLESS == 0 && (self.is_xhtml || kind != 0 || is_root(element));
            let end = tag.end;
            return has_end.then(|| Tag { start: end, end, attributes: end - 1, content: end, name: tag.name | 1 });
        }
        if is_within && kind & RAW != 0 {
            // No element of foreign content is raw: what has no end tag ends with it.
            let content = &source[..tag.end as usize];
            let roots = self.open.iter().filter(|&&open| is_root(open)).map(|&open| NAMES[open as usize].as_bytes());
            let end = roots.map(|name| raw_end(content, tag.content as usize, name)).min();
            tag.end = end.map_or(tag.end, |end| end as u32);
            // An icon's title is not that of the page.
            tag.name = if element == NAME_TITLE { NOTHING } else { tag.name };
        } else if is_root(element) || (is_within && holds_html(source, tag)) {
            self.open.push(element);
        } else if self.is_xhtml && kind & RAW != 0 {
            // The end tag in a section of characters is none.
            let content = &source[tag.content as usize..];
            if let Some(at) = memchr::memmem::find(tag.content(source), b"<![CDATA[") {
                let end = memchr::memmem::find(&content[at..], b"]]>").map_or(content.len(), |end| at + end);
                tag.end = tag.end.max(raw_end(source, tag.content as usize + end, tag.name(source)) as u32);
            }
        }
        None
    }
}

/// Whether an element of foreign content holds HTML.
fn holds_html(source: &[u8], tag: &Tag) -> bool {
    let is_named = |name: &[u8]| tag.name(source).eq_ignore_ascii_case(name);
    HTML_WITHIN.iter().any(|name| is_named(name))
        || (is_named(b"annotation-xml") && mentions(tag.attributes(source), b"html"))
}

/// Whether a start tag ends in `/>`; a slash at the end of a value without quotes is part of that.
fn ends_itself(source: &[u8], tag: &Tag) -> bool {
    let attributes = tag.attributes(source);
    if attributes.last() != Some(&b'/') {
        return false;
    }
    let end = attributes.as_ptr_range().end;
    let mut is_value = false;
    each_attribute(attributes, |_, value| is_value = !value.is_empty() && value.as_ptr_range().end == end);
    !is_value
}
