//! Source code, verbatim, between fences.

use std::ops::Range;

use super::inline::longest_run;
use super::Chosen;
use crate::bytes::is_space;
use crate::names::*;
use crate::page::values;
use crate::references::decode;
use crate::tokens::{mentions, Tag};

/// Tags among which the end of an element is looked for.
const REACH: usize = 1000;
/// Elements around code that may name its language.
const AROUND: usize = 5;
const MOST_ATTRIBUTES_BYTES: usize = 1000;
/// Words in classes of line numbers.
const GUTTERS: [&str; 10] = [
    "linenos",
    "lineno",
    "linenumber",
    "line-number",
    "lnt",
    "ln",
    "gutter",
    "rouge-gutter",
    "hljs-ln-numbers",
    "blob-num",
];
/// Parts of classes, without `-` and `_`, of what holds line numbers if it holds nothing else.
const HINTS: [&str; 4] = ["lineno", "linenum", "gutter", "crayonnum"];
/// Numbers in sequence in a cell that are line numbers whatever its class is.
const LEAST_NUMBERS: usize = 3;
/// Words that stand in classes in the place of a language.
const NO_LANGUAGES: [&str; 8] =
    ["default", "none", "text", "plaintext", "notranslate", "source", "nohighlight", "highlight"];

/// The code in an element whose first kept block is `Chosen::kept[next]`, with its fences; "" if it is blank.
///
/// What main text leaves out of it goes only if that is more than half: lines of signs and lines that stand twice belong
/// to code.
pub fn read(of: &Chosen, element: usize, mut next: usize) -> String {
    let Chosen { source, tags, page, kept, .. } = *of;
    let last = (element + 1..page.parents.len()).find(|&each| (page.parents[each] as usize) < element);
    let elements = element as u32..last.unwrap_or(page.parents.len()) as u32;
    let within = page.blocks[kept[next]..].iter().take_while(|block| elements.contains(&block.owner));
    let (first, end) = (page.starts[element] as usize, within.last().map_or(0, |block| block.pieces.end as usize));
    let mut language = None;
    let mut around = element;
    for _ in 0..AROUND {
        if language.is_some() || around == 0 || page.tags[around].0 == NAME_LI {
            break;
        }
        language = language_of(tags[page.starts[around] as usize].attributes(source));
        around = page.parents[around] as usize;
    }
    let (mut text, mut left_out): (Vec<u8>, Vec<Range<usize>>) = Default::default();
    let (mut skipped_to, mut has_ended_line) = (0, false);
    for piece in first + 1..end {
        let tag = &tags[piece - 1];
        if piece - 1 > first && tag.name <= CUT {
            let (name, attributes) = (tag.name >> 1, tag.attributes(source));
            let is_start = tag.name & 1 == 0;
            let is_line = KINDS.get(name as usize).is_none_or(|kinds| matches!(kinds.0, 0 | 5 | 6));
            if name == NAME_BR {
                text.push(b'\n');
            } else if is_line && text.last().is_some_and(|&last| last != b'\n') {
                text.push(b'\n');
                has_ended_line = true;
            }
            if is_start && name == NAME_CODE && language.is_none() {
                language = language_of(attributes);
            }
            if is_start && (name == NAME_BUTTON || is_gutter(source, tags, piece - 1)) {
                skipped_to = skipped_to.max(end_of(tags, piece - 1));
            }
        }
        let range = tag.end as usize..tags.get(piece).map_or(source.len(), |next| next.start as usize);
        if piece <= skipped_to || range.is_empty() {
            continue;
        }
        while kept.get(next).is_some_and(|&block| page.blocks[block].pieces.end as usize <= piece) {
            next += 1;
        }
        let begin = text.len();
        let skipped = std::mem::take(&mut has_ended_line) && source[range.clone()].starts_with(b"\n");
        let mut from = range.start + usize::from(skipped);
        let before = of.signs.partition_point(|sign| sign.end as usize <= from);
        for sign in of.signs[before..].iter().take_while(|sign| (sign.start as usize) < range.end) {
            decode(&source[from..(sign.start as usize).max(from)], false, &mut text);
            from = (sign.end as usize).min(range.end);
        }
        decode(&source[from..range.end], false, &mut text);
        let is_kept = kept.get(next).is_some_and(|&block| page.blocks[block].pieces.start as usize <= piece);
        if !is_kept && !text[begin..].iter().all(|&byte| is_space(byte)) {
            left_out.push(begin..text.len());
        }
    }
    if left_out.iter().map(Range::len).sum::<usize>() * 2 > text.len() {
        left_out.into_iter().for_each(|range| text[range].fill(0));
        text.retain(|&byte| byte != 0);
    }
    let text = String::from_utf8_lossy(&text).replace("\r\n", "\n").replace('\r', "\n");
    let text = text.trim_start_matches('\n').trim_end();
    if text.trim_start().is_empty() {
        return String::new();
    }
    let fence = "`".repeat(longest_run(text, b'`').max(2) + 1);
    format!("{fence}{}\n{text}\n{fence}", language.unwrap_or_default())
}

/// The number of the tag that ends an element; that of its own tag if that is far away.
pub fn end_of(tags: &[Tag], number: usize) -> usize {
    let (name, mut depth) = (tags[number].name, 0);
    for (at, tag) in tags.iter().enumerate().skip(number).take(REACH) {
        depth += i32::from(tag.name == name) - i32::from(tag.name == name | 1);
        if depth == 0 {
            return at;
        }
    }
    number
}

/// The language that a class names.
fn language_of(attributes: &[u8]) -> Option<String> {
    if attributes.len() > MOST_ATTRIBUTES_BYTES {
        return None;
    }
    let [class, lang, language] = values(attributes, ["class", "data-lang", "data-language"]);
    let class = class.unwrap_or_default();
    let (mut found, mut before) = (lang.or(language), "");
    for word in class.split_ascii_whitespace() {
        let prefixes = ["language-", "lang-", "highlight-source-", "highlight-"];
        let follows = matches!(before, "brush:" | "sourceCode" | "hljs" | "highlight") && !word.contains(['-', '_']);
        let name = prefixes.iter().find_map(|prefix| word.strip_prefix(prefix)).or(follows.then_some(word));
        found = found.or(name.map(|name| name.trim_end_matches(';').to_owned()));
        before = word;
    }
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"+#._-".contains(&byte);
    let is_fit = |name: &String| {
        !name.is_empty() && name.len() <= 24 && name.bytes().all(is_sign) && !NO_LANGUAGES.contains(&name.as_str())
    };
    found.map(|name| name.to_ascii_lowercase()).filter(is_fit)
}

/// Whether the element that a tag begins holds line numbers.
pub fn is_gutter(source: &[u8], tags: &[Tag], number: usize) -> bool {
    let attributes = tags[number].attributes(source);
    let is_cell = matches!(tags[number].name >> 1, NAME_TD | NAME_TH);
    if !is_cell && !["ln", "line", "gutter", "num"].iter().any(|word| mentions(attributes, word.as_bytes())) {
        return false;
    }
    let [class] = values(attributes, ["class"]);
    let class = class.unwrap_or_default();
    if class.split_ascii_whitespace().any(|word| GUTTERS.contains(&word)) {
        return true;
    }
    let bare = class.to_ascii_lowercase().replace(['-', '_'], "");
    let is_hinted = tags[number].name >> 1 != NAME_CODE && HINTS.iter().any(|hint| bare.contains(hint));
    let least = if is_hinted { 1 } else { LEAST_NUMBERS };
    (is_hinted || is_cell) && numbers_in(source, tags, number) >= least
}

/// How many numbers an element holds, if it holds nothing else and each is the next of the one before; else 0.
fn numbers_in(source: &[u8], tags: &[Tag], number: usize) -> usize {
    let (name, mut depth) = (tags[number].name, 0);
    let (mut count, mut last) = (0, None);
    for pair in tags[number..].windows(2).take(REACH) {
        depth += i32::from(pair[0].name == name) - i32::from(pair[0].name == name | 1);
        if depth == 0 {
            return count;
        }
        let text = &source[pair[0].end as usize..pair[1].start as usize];
        for word in text.split(|&byte| is_space(byte)).filter(|word| !word.is_empty()) {
            let value = std::str::from_utf8(word).ok().and_then(|word| word.parse::<u64>().ok());
            if value.is_none() || last.is_some_and(|last: u64| value != last.checked_add(1)) {
                return 0;
            }
            (count, last) = (count + 1, value);
        }
    }
    0
}
