//! What a page declares, its headings and its links.
//!
//! - *title*: content of the first title element; else the first `og:title`.
//! - *description*: the first non-empty of meta `description`, `og:description`, `twitter:description`.
//! - *keywords*: the first non-empty meta `keywords`.
//! - *lang*: `lang`, else `xml:lang`, of the first html tag; else the first meta `content-language`.
//! - *canonical*: `href` of the first link whose `rel` has the word `canonical`, as written.
//! - *headings*: text of h1 to h6 up to the next heading tag, folded to a line, without what is `left_out` and signs;
//!   empty ones and those in hidden elements left out.
//! - *links*: `href` of each `a` and `area` outside hidden elements, with the text up to the next `a` tag; the text of
//!   an `area` is its `alt`.
//!
//! All but hrefs are folded: runs of white space become one space, none at the ends.
//!
//! Cases, in `tests/cases/text/`: `declared`.

use crate::flow::{fold_line, Flow, Source};
use crate::left_out::Kept;
use crate::names::{self, properties};
use crate::references;
use crate::tokens::{each_attribute, mentions, Tags};
use crate::visible::is_break;

/// A page's own words about itself; all folded to a line, headings one a line, hrefs trimmed only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    pub title: String,
    pub description: String,
    pub keywords: String,
    pub lang: String,
    pub canonical: String,
    pub headings: String,
    /// Href and anchor text, where asked for.
    pub links: Vec<(String, String)>,
}

/// Values of the kinds that meta elements declare, in order of precedence within a kind.
#[derive(Default)]
struct Meta {
    title: Option<String>,
    og_title: Option<String>,
    description: Option<String>,
    og_description: Option<String>,
    twitter_description: Option<String>,
    keywords: Option<String>,
    lang: Option<String>,
    content_language: Option<String>,
    canonical: Option<String>,
}

/// Whether a character has no width; a title of such alone is empty.
fn is_unseen(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
}

impl Meta {
    fn of_kind(&mut self, kind: &str) -> Option<&mut Option<String>> {
        let slots = [
            ("description", &mut self.description),
            ("og:description", &mut self.og_description),
            ("twitter:description", &mut self.twitter_description),
            ("keywords", &mut self.keywords),
            ("og:title", &mut self.og_title),
            ("content-language", &mut self.content_language),
        ];
        slots.into_iter().find(|(name, _)| kind.eq_ignore_ascii_case(name)).map(|(_, slot)| slot)
    }
}

/// The first value of each of some attributes, references decoded; None where a name is missing.
pub fn values<const N: usize>(attributes: &[u8], wanted: [&str; N]) -> [Option<String>; N] {
    sources(attributes, wanted).map(|value| value.map(attribute_value))
}

/// The same as in the source.
pub fn sources<'a, const N: usize>(attributes: &'a [u8], wanted: [&str; N]) -> [Option<&'a [u8]>; N] {
    let mut found = [const { None }; N];
    each_attribute(attributes, |name, value| {
        if let Some(place) = wanted.iter().position(|each| name.eq_ignore_ascii_case(each.as_bytes())) {
            if found[place].is_none() {
                found[place] = Some(value);
            }
        }
    });
    found
}

/// The value of an attribute as a string.
pub fn attribute_value(source: &[u8]) -> String {
    let mut decoded = Vec::with_capacity(source.len());
    references::decode(source, true, &mut decoded);
    String::from_utf8(decoded).unwrap_or_default()
}

pub fn is_space(each: char) -> bool {
    each.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&each)
}

fn note(slot: &mut Option<String>, text: Option<String>) {
    if slot.is_none() {
        *slot = text.map(|text| fold_line(&text)).filter(|text| !text.is_empty());
    }
}

/// Text between two places of the tag list without signs, folded to a line.
fn text_between(source: &[u8], kept: Kept, first: usize, last: usize, flow: &mut Flow) -> String {
    let Kept { tags, signs, .. } = kept;
    let mut signs = &signs[signs.partition_point(|sign| sign.end <= tags[first].end)..];
    flow.clear();
    for number in first + 1..=last {
        let start = tags[number - 1].end as usize;
        let end = tags.get(number).map_or(source.len(), |tag| tag.start as usize);
        flow.push_around(source, start, end, Source::Text, &mut signs, |flow, _| flow.blank());
        if number < last && is_break(&tags[number]) {
            flow.end_block();
        } else if number < last {
            flow.part(tags[number].name);
        }
    }
    flow.to_line()
}

/// Read what a page declares.
#[inline(never)]
pub fn read(source: &[u8], tags: &Tags, links: bool, flow: &mut Flow) -> Declared {
    let mut meta = Meta::default();
    let mut declared = Declared::default();
    let mut hidden_depth = 0usize;
    let mut anchor = None;
    let mut href = String::new();
    let Tags { all: tags, special, .. } = tags;
    let every: Vec<u32>;
    let numbers = if links {
        every = (0..tags.len() as u32).collect();
        &every
    } else {
        special
    };
    let all = Kept { tags, signs: &[], headings: &[] };
    let wanted = names::HIDDEN | names::DECLARING | if links { names::LINKING } else { 0 };
    for number in numbers.iter().map(|&number| number as usize) {
        let tag = &tags[number];
        let kind = properties(tag.name);
        if kind & wanted == 0 {
            continue;
        }
        let (element, is_end) = (tag.name >> 1, tag.name & 1 == 1);
        if kind & names::HIDDEN != 0 {
            hidden_depth = if is_end { hidden_depth.saturating_sub(1) } else { hidden_depth + 1 };
        } else if kind & names::LINKING != 0 {
            if element == names::NAME_AREA && is_end {
                continue;
            }
            if element == names::NAME_A {
                if let Some(first) = anchor.take() {
                    declared.links.push((std::mem::take(&mut href), text_between(source, all, first, number, flow)));
                }
            }
            if !is_end && hidden_depth == 0 {
                let [found, alt] = values(tag.attributes(source), ["href", "alt"]);
                let Some(found) = found else { continue };
                let found = found.trim_matches(is_space).to_owned();
                if element == names::NAME_A {
                    anchor = Some(number);
                    href = found;
                } else {
                    declared.links.push((found, fold_line(&alt.unwrap_or_default())));
                }
            }
        } else if is_end {
            continue;
        } else if element == names::NAME_TITLE {
            if meta.title.is_none() {
                flow.clear();
                flow.push(source, tag.content as usize, tag.end as usize, Source::Text);
                meta.title = Some(flow.to_line()).filter(|title| !title.chars().all(is_unseen));
            }
        } else {
            declare(&mut meta, element, tag.attributes(source));
        }
    }
    if let Some(first) = anchor {
        declared.links.push((href, text_between(source, all, first, tags.len(), flow)));
    }
    declared.title = meta.title.or(meta.og_title).unwrap_or_default();
    declared.description = meta.description.or(meta.og_description).or(meta.twitter_description).unwrap_or_default();
    declared.keywords = meta.keywords.unwrap_or_default();
    declared.lang = meta.lang.or(meta.content_language).unwrap_or_default();
    declared.canonical = meta.canonical.unwrap_or_default();
    declared
}

/// Text of the headings, one a line.
#[inline(never)]
pub fn headings(source: &[u8], kept: Kept, flow: &mut Flow) -> String {
    let mut headings = String::new();
    let mut hidden_depth = 0usize;
    let mut heading = None;
    for number in kept.headings.iter().map(|&number| number as usize) {
        let name = kept.tags[number].name;
        let is_end = name & 1 == 1;
        if properties(name) & names::HIDDEN != 0 {
            hidden_depth = if is_end { hidden_depth.saturating_sub(1) } else { hidden_depth + 1 };
        } else {
            if let Some(first) = heading.take() {
                push_line(&mut headings, &text_between(source, kept, first, number, flow));
            }
            heading = (!is_end && hidden_depth == 0).then_some(number);
        }
    }
    if let Some(first) = heading {
        push_line(&mut headings, &text_between(source, kept, first, kept.tags.len(), flow));
    }
    headings
}

fn push_line(lines: &mut String, line: &str) {
    if !lines.is_empty() && !line.is_empty() {
        lines.push('\n');
    }
    lines.push_str(line);
}

/// Note what one html, meta or link tag declares.
fn declare(meta: &mut Meta, element: u32, attributes: &[u8]) {
    if element == names::NAME_HTML {
        let [lang, xml_lang] = values(attributes, ["lang", "xml:lang"]);
        note(&mut meta.lang, lang.filter(|lang| !lang.is_empty()).or(xml_lang));
    } else if element == names::NAME_LINK {
        let [rel, href] = sources(attributes, ["rel", "href"]);
        let Some(rel) = rel.filter(|rel| rel.contains(&b'&') || mentions(rel, b"canonical")) else { return };
        if attribute_value(rel).split(is_space).any(|each| each.eq_ignore_ascii_case("canonical")) {
            note(&mut meta.canonical, href.map(attribute_value));
        }
    } else {
        let [name, property, http_equiv, content] = sources(attributes, ["name", "property", "http-equiv", "content"]);
        for kind in [name, property, http_equiv].into_iter().flatten() {
            if let Some(slot) = meta.of_kind(attribute_value(kind).trim_matches(is_space)) {
                note(slot, content.map(attribute_value));
                return;
            }
        }
    }
}
