//! The address of an image: what its `src` says, or, below a placeholder, what a script would put there.
//!
//! A real `src` always counts.  It is a placeholder if it is missing or empty, `data:` or another address that leads to no
//! page, if its file has the name of one, or if the image says that it is one pixel.  Then counts the first of: the
//! attributes of scripts that load late, the largest of `srcset`, the `source` elements of its `picture` before it, the
//! image in a `noscript` right behind it, and last the placeholder.

use super::addresses::Base;
use super::Chosen;
use crate::names::*;
use crate::page::values;
use crate::tokens::Tag;

/// Attributes with one address, then those with a list.
const LATE: [&str; 7] =
    ["data-src", "data-lazy-src", "data-original", "data-original-src", "data-lazy", "data-url", "data-hi-res-src"];
const LISTS: [&str; 3] = ["data-srcset", "data-lazy-srcset", "srcset"];
/// Tags before an image among which its picture is looked for, and behind it for its noscript.
const REACH: usize = 12;
const BEHIND: usize = 4;
/// Names of files, without what follows the first point, that hold no picture.
const PLACEHOLDERS: [&str; 19] = [
    "1x1",
    "blank",
    "clear",
    "dot",
    "dummy",
    "empty",
    "grey",
    "gray",
    "lazy",
    "lazyload",
    "loader",
    "loading",
    "pixel",
    "placeholder",
    "spacer",
    "spinner",
    "trans",
    "transparent",
    "white",
];

/// The absolute address of the image that is a tag; "" if there is none.
pub fn address(of: &Chosen, number: usize, base: &Base) -> String {
    let attributes = of.tags[number].attributes(of.source);
    let [src, width, height] = values(attributes, ["src", "width", "height"]);
    let given = src.filter(|src| !src.trim().is_empty()).and_then(|src| base.resolve(&src));
    let is_pixel =
        |size: Option<String>| size.is_some_and(|size| matches!(size.trim().trim_end_matches("px"), "0" | "1"));
    let is_pixel = is_pixel(width) && is_pixel(height);
    let given = match given {
        Some(given) if !is_pixel && !is_placeholder(&given) => return given,
        given => given,
    };
    late(attributes, base)
        .or_else(|| of_picture(of, number, base))
        .or_else(|| of_noscript(of, number, base))
        .or(given)
        .unwrap_or_default()
}

/// Whether the file of an address has the name of a placeholder.
fn is_placeholder(address: &str) -> bool {
    let path = address.split(['?', '#']).next().unwrap_or_default();
    let file = path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let name = file.split('.').next().unwrap_or_default();
    PLACEHOLDERS.contains(&name) || name.split(['-', '_']).any(|word| matches!(word, "1x1" | "placeholder" | "spacer"))
}

/// What attributes name for later.
fn late(attributes: &[u8], base: &Base) -> Option<String> {
    let real = |address: &str| base.resolve(address).filter(|address| !is_placeholder(address));
    let of_one = values(attributes, LATE).into_iter().flatten().filter(|address| !address.trim().is_empty());
    let mut lists = values(attributes, LISTS).into_iter().flatten();
    of_one.into_iter().find_map(|address| real(&address)).or_else(|| lists.find_map(|list| real(largest(&list)?)))
}

/// The address of a `srcset` with the largest width or density, the first of several.
fn largest(list: &str) -> Option<&str> {
    let mut best: Option<(f64, &str)> = None;
    let mut rest = list;
    loop {
        rest = rest.trim_start_matches(|each: char| each.is_ascii_whitespace() || each == ',');
        let end = rest.find(|each: char| each.is_ascii_whitespace()).unwrap_or(rest.len());
        let (address, behind) = rest.split_at(end);
        if address.is_empty() {
            return best.map(|(_, address)| address);
        }
        let bare = address.trim_end_matches(',');
        let next = if bare.len() < address.len() { 0 } else { behind.find(',').unwrap_or(behind.len()) };
        let size = behind[..next].trim().trim_end_matches(['w', 'x', 'h']).parse().unwrap_or(1.0);
        if !bare.starts_with("data:") && best.is_none_or(|(most, _)| size > most) {
            best = Some((size, bare));
        }
        rest = &behind[next..];
    }
}

fn of_picture(of: &Chosen, number: usize, base: &Base) -> Option<String> {
    let before = of.tags[..number].iter().rev().take(REACH);
    let mut sources: Vec<&Tag> = before.take_while(|tag| !is_picture(tag)).filter(|tag| is(tag, NAME_SOURCE)).collect();
    let is_within = of.tags[..number].iter().rev().take(REACH).find(|tag| is_picture(tag))?.name & 1 == 0;
    sources.reverse();
    sources.into_iter().filter(|_| is_within).find_map(|tag| late(tag.attributes(of.source), base))
}

fn is_picture(tag: &Tag) -> bool {
    tag.name >> 1 == NAME_PICTURE
}

fn is(tag: &Tag, element: u32) -> bool {
    tag.name == element << 1
}

/// What the image of a noscript element names, unless another image stands before it.
fn of_noscript(of: &Chosen, number: usize, base: &Base) -> Option<String> {
    let behind = &of.tags[number + 1..];
    let begin =
        behind.iter().take(BEHIND).take_while(|tag| !is(tag, NAME_IMG)).position(|tag| is(tag, NAME_NOSCRIPT))?;
    let image = behind[begin + 1..].iter().take(BEHIND).take_while(|tag| tag.name != NAME_NOSCRIPT << 1 | 1);
    let attributes = image.into_iter().find(|tag| is(tag, NAME_IMG))?.attributes(of.source);
    let [src] = values(attributes, ["src"]);
    src.and_then(|src| base.resolve(&src)).filter(|address| !is_placeholder(address)).or_else(|| late(attributes, base))
}
