//! Formulas of MathML, KaTeX and MathJax, each shown once: its TeX where that is there, else its letters in order.
//!
//! The tags of a formula in TeX become one that begins it and one that ends it, and swallow all but the TeX.  Those of
//! another one become nothing, or blanks where a reader sees a gap: around operators between operands, between words, and
//! between the parts of fractions and tables.  What MathJax has made of a script with TeX goes, and so does all that it
//! has made of a formula but the MathML in it.

use crate::flow::fold_line;
use crate::names::*;
use crate::references::decode;
use crate::tokens::{mentions, Tag};

/// Operators without gaps, before which and behind which operands end; and those with a gap behind.
const OPENING: [char; 7] = ['(', '[', '{', '⟨', '/', '.', '\\'];
const CLOSING: [char; 10] = [')', ']', '}', '⟩', '\'', '′', '!', '|', '°', '%'];
const POINTS: [char; 3] = [',', ';', ':'];
/// Signs that are not seen: application, times, separator, plus.
const UNSEEN: [char; 4] = ['\u{2061}', '\u{2062}', '\u{2063}', '\u{2064}'];
/// Elements whose parts are apart.
const PARTED: [&[u8]; 8] = [b"mfrac", b"mroot", b"munder", b"mover", b"munderover", b"mtr", b"mtable", b"mlabeledtr"];
/// Elements of which nothing is shown.
const UNSHOWN: [&[u8]; 4] = [b"annotation", b"annotation-xml", b"mphantom", b"none"];
/// Tags of what MathJax made that are looked through for its end.
const REACH: usize = 4096;

/// Whether a script holds a formula in TeX.
#[inline(always)]
pub fn is_tex_script(source: &[u8], tag: &Tag) -> bool {
    tag.name == NAME_SCRIPT << 1 && mentions(tag.attributes(source), b"math/tex")
}

/// Whether no formula ends right before the tag of what KaTeX made of one.
pub fn is_missing(tags: &[Tag], number: usize) -> bool {
    tags[number.saturating_sub(3)..number].iter().all(|tag| tag.name != FORMULA_END && tag.name != NAME_MATH << 1 | 1)
}

/// The tags of a page with those of its formulas written anew.
#[inline(never)]
pub fn rewrite(source: &[u8], tags: &[Tag]) -> Vec<Tag> {
    let mut of = Formulas { source, tags, made: Vec::with_capacity(tags.len()), has_end: true };
    let (mut number, mut is_display) = (0, false);
    while let Some(tag) = tags.get(number) {
        let is_start = tag.name & 1 == 0 && tag.name < CUT;
        let mut next = None;
        if tag.name == NAME_MATH << 1 {
            next = of.math(number, is_display);
            is_display = false;
        } else if is_tex_script(source, tag) {
            let is_display = mentions(tag.attributes(source), b"mode=display");
            let last = number + usize::from(tags.get(number + 1).is_some_and(|next| next.name == tag.name | 1));
            of.begin(tag.start, tag.content, is_display);
            of.end(tag.end, tags[last].end);
            next = Some(last + 1);
        } else if is_start && mentions(tag.attributes(source), b"mathjax") {
            next = of.rendered(number);
        } else if is_start {
            is_display |= mentions(tag.attributes(source), b"katex-display");
        }
        if next.is_none() {
            of.made.push(*tag);
        }
        number = next.unwrap_or(number + 1);
    }
    of.made
}

struct Formulas<'a> {
    source: &'a [u8],
    tags: &'a [Tag],
    made: Vec<Tag>,
    /// Whether a math element may have an end.
    has_end: bool,
}

impl Formulas<'_> {
    /// Let a tag stand for a part of the source, and swallow it.
    fn push(&mut self, start: u32, end: u32, name: u32) {
        self.made.push(Tag { start, end, attributes: end, content: end, name });
    }

    /// Begin a formula in TeX, behind what is swallowed.
    fn begin(&mut self, start: u32, end: u32, is_display: bool) {
        self.push(start, end, if is_display { DISPLAY } else { FORMULA });
    }

    fn end(&mut self, start: u32, end: u32) {
        self.push(start, end, FORMULA_END);
    }

    fn is_start(&self, number: usize, name: &[u8]) -> bool {
        let tag = &self.tags[number];
        let is_other = tag.name & 1 == 0 && tag.name < CUT && tag.name >> 1 >= KNOWN as u32;
        is_other && tag.name(self.source).eq_ignore_ascii_case(name)
    }

    /// Write the tags of a math element; gives the number of the tag behind it.
    fn math(&mut self, first: usize, is_display: bool) -> Option<usize> {
        let tags = self.tags;
        let last = tags[first..].iter().position(|tag| self.has_end && tag.name == NAME_MATH << 1 | 1);
        let Some(last) = last.map(|at| first + at) else {
            self.has_end = false;
            return None;
        };
        let is_display = is_display || mentions(tags[first].attributes(self.source), b"block");
        let is_tex = |&number: &usize| {
            self.is_start(number, b"annotation") && mentions(tags[number].attributes(self.source), b"tex")
        };
        if let Some(tex) = (first..last).find(is_tex) {
            self.begin(tags[first].start, tags[tex].end, is_display);
            self.end(tags[tex + 1].start, tags[last].end);
        } else {
            self.letters(first, last);
        }
        Some(last + 1)
    }

    /// Write the tags of a formula of which the letters are shown.
    fn letters(&mut self, first: usize, last: usize) {
        let (source, tags) = (self.source, self.tags);
        let (mut is_operand, mut was_word, mut after) = (false, false, NOTHING);
        // How deep the open elements lie whose parts are apart, and the one that is not shown.
        let (mut parted, mut unshown, mut depth) = (Vec::new(), usize::MAX, 0usize);
        for (number, tag) in tags.iter().enumerate().take(last + 1).skip(first) {
            let behind = if number == last { tag.end } else { tags[number + 1].start };
            let is_part = |parted: &[usize], depth: usize| parted.last().is_some_and(|&each| each + 1 == depth);
            let (mut end, mut kind) = (tag.end, NOTHING);
            let text = fold_line(&shown(&source[tag.end as usize..behind as usize]));
            let signs: Vec<char> = text.chars().take(2).collect();
            let is_unseen = signs.iter().all(|sign| UNSEEN.contains(sign));
            if tag.name & 1 == 1 {
                if tag.name < CUT {
                    depth = depth.saturating_sub(1);
                    was_word |= parted.pop_if(|each| *each >= depth).is_some();
                    unshown = if depth < unshown { usize::MAX } else { unshown };
                    kind = if is_part(&parted, depth) { MEETING } else { std::mem::replace(&mut after, NOTHING) };
                }
                end = if is_unseen || unshown != usize::MAX { behind } else { end };
                self.push(tag.start, end, kind);
                continue;
            }
            let name = tag.name(source);
            let is_any = |names: &[&[u8]]| names.iter().any(|each| name.eq_ignore_ascii_case(each));
            kind = if is_part(&parted, depth) || is_any(&[b"mspace", b"mtext"]) { MEETING } else { NOTHING };
            if tag.attributes(source).last() != Some(&b'/') {
                if is_any(&PARTED) {
                    parted.push(depth);
                }
                unshown = if unshown == usize::MAX && is_any(&UNSHOWN) { depth } else { unshown };
                depth += 1;
            }
            if unshown != usize::MAX || is_unseen {
                end = behind;
            } else if is_any(&[b"mo"]) {
                let is_one_of = |some: &[char]| signs.len() == 1 && some.contains(&signs[0]);
                let is_infix = is_operand && !is_one_of(&POINTS) && !is_one_of(&OPENING) && !is_one_of(&CLOSING);
                after = if is_infix || is_one_of(&POINTS) { BLANK } else { NOTHING };
                kind = if is_infix { BLANK } else { kind };
                (is_operand, was_word) = (is_one_of(&CLOSING), false);
            } else {
                let is_word = signs.len() > 1 && signs.iter().all(|sign| sign.is_alphabetic());
                kind = if is_operand && (is_word || was_word) { BLANK } else { kind };
                (is_operand, was_word) = (true, is_word);
            }
            self.push(tag.start, end, kind);
        }
    }

    /// Swallow what MathJax made from an element on, if a script has its TeX, or all but the MathML in it.
    fn rendered(&mut self, first: usize) -> Option<usize> {
        let last = self.element_end(first)?;
        let mut next = last + 1;
        loop {
            let tag = self.tags.get(next)?;
            let is_next = self.source[self.tags[next - 1].end as usize..tag.start as usize].trim_ascii().is_empty();
            if is_next && is_tex_script(self.source, tag) {
                self.push(self.tags[first].start, self.tags[last].end, NOTHING);
                return Some(last + 1);
            }
            if !is_next || tag.name & 1 != 0 || !mentions(tag.attributes(self.source), b"mathjax") {
                break;
            }
            next = self.element_end(next)? + 1;
        }
        let math = (first..last).find(|&number| self.tags[number].name == NAME_MATH << 1)?;
        let tag = &self.tags[first];
        let is_display = mentions(tag.attributes(self.source), b"display");
        self.push(tag.start, self.tags[math].start, NOTHING);
        let behind = self.math(math, is_display)?;
        self.push(self.tags[behind - 1].end, self.tags[last].end, NOTHING);
        Some(last + 1)
    }

    /// The number of the tag that ends an element.
    fn element_end(&self, first: usize) -> Option<usize> {
        let (name, mut depth) = (self.tags[first].name, 0);
        let tags = self.tags[first..].iter().take(REACH);
        let end = tags.into_iter().position(|tag| {
            depth += i32::from(tag.name == name) - i32::from(tag.name == name | 1);
            depth == 0
        });
        end.map(|at| first + at)
    }
}

/// A part of a source as it is shown.
fn shown(source: &[u8]) -> String {
    let mut text = Vec::new();
    decode(source, false, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
