//! The first bytes of a body, and whether it is HTML or plain text: the rules at the head of `docstore/text/readers.py`.

use std::borrow::Cow;

use crate::charset;
use crate::page::is_space;

const BINARY_STARTS: [&[u8]; 7] =
    [b"%PDF-", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b", b"Rar!\x1a"];
const HTML_TYPES: [&str; 2] = ["text/html", "application/xhtml+xml"];
const XML_TYPES: [&str; 2] = ["text/xml", "application/xml"];
const LIST_ROOTS: [&[u8]; 5] = [b"rss", b"feed", b"rdf", b"urlset", b"sitemapindex"];
const HEAD_BYTES: usize = 1024;
const WARNED_ROOTS: [&[u8]; 5] = [b"rss", b"feed", b"rdf:rdf", b"urlset", b"sitemapindex"];
const WARNINGS_BYTES: usize = 4096;
/// One control character in so many bytes of the head is one too many.
const CONTROLS_SHARE: usize = 64;

/// The type without its parameters.
pub fn media_type(content_type: &str) -> &str {
    let media_type = content_type.split(';').next().unwrap_or("").trim_matches(is_space);
    media_type.split(is_space).next().unwrap_or("")
}

/// Whether a body is read as HTML.
pub fn is_html(body: &[u8], content_type: &str) -> bool {
    if BINARY_STARTS.iter().any(|start| body.starts_with(start)) {
        return false;
    }
    let media_type = media_type(content_type);
    let is_any = |types: &[&str]| types.iter().any(|known| media_type.eq_ignore_ascii_case(known));
    if !media_type.is_empty() && !is_any(&HTML_TYPES) && !is_any(&XML_TYPES) {
        return false;
    }
    begins_as_html(&head(body), media_type.is_empty(), is_any(&HTML_TYPES))
}

/// The part of a body whose lines are its text, if it is read as plain text: by its type; or without a type, if it does
/// not begin as XML.
pub fn plain<'a>(body: &'a [u8], content_type: &str) -> Option<&'a [u8]> {
    if BINARY_STARTS.iter().any(|start| body.starts_with(start)) {
        return None;
    }
    let is_untyped = media_type(content_type).is_empty();
    if !is_untyped && !media_type(content_type).eq_ignore_ascii_case("text/plain") {
        return None;
    }
    let body = &body[warnings_bytes(body)..];
    let head = head(body);
    if is_untyped {
        let root = root(&head).unwrap_or_default();
        if starts_xml(&head) || LIST_ROOTS.iter().any(|list| root.eq_ignore_ascii_case(list)) {
            return None;
        }
    }
    is_text(&head, !is_untyped).then_some(body)
}

/// Whether the head of a body is of a text: it has a character, and no control characters, or if its type is given a few.
pub fn is_text(head: &[u8], is_typed: bool) -> bool {
    let controls = head.iter().filter(|byte| matches!(byte, 0..=8 | 0x0e..=0x1a | 0x1c..=0x1f)).count();
    let most = if is_typed { (head.len() / CONTROLS_SHARE).max(1) } else { 0 };
    controls <= most && !after_blanks(head).is_empty()
}

fn starts_xml(head: &[u8]) -> bool {
    let begin = after_mark(head);
    let wide = [b"<\0?\0x\0", b"\0<\0?\0x"];
    begin.len() >= 5 && begin[..5].eq_ignore_ascii_case(b"<?xml") || wide.iter().any(|start| head.starts_with(*start))
}

/// Length of the messages of PHP that stand before a feed or site map; 0 if there are none.
pub fn warnings_bytes(body: &[u8]) -> usize {
    let head = &body[..body.len().min(WARNINGS_BYTES)];
    let Some(line) = memchr::memmem::find(head, b" on line ") else { return 0 };
    let first = memchr::memchr_iter(b'<', head).find(|&at| begins_list(&head[at..]));
    first.filter(|&start| line < start).unwrap_or(0)
}

/// Whether a feed or site map begins here, perhaps with a declaration of XML.
fn begins_list(head: &[u8]) -> bool {
    let is_declaration = head.len() > 5 && head[..5].eq_ignore_ascii_case(b"<?xml");
    let rest = match head.iter().position(|&byte| byte == b'>') {
        Some(end) if is_declaration => after_blanks(&head[end + 1..]),
        _ => head,
    };
    let is_root = |name: &&[u8]| {
        let ends = rest.get(1 + name.len()).is_some_and(|byte| matches!(byte, b'\t'..=b'\r' | b' ' | b'>'));
        ends && rest[0] == b'<' && rest[1..=name.len()].eq_ignore_ascii_case(name)
    };
    WARNED_ROOTS.iter().any(is_root)
}

/// The first bytes of a body, behind messages of PHP; of UTF-16 its characters as UTF-8, without its mark.
pub fn head(body: &[u8]) -> Cow<'_, [u8]> {
    let start = warnings_bytes(body);
    let head = &body[start..body.len().min(WARNINGS_BYTES).min(start + HEAD_BYTES)];
    let (wide, text) = match head {
        [0xff, 0xfe, rest @ ..] => (Some(encoding_rs::UTF_16LE), rest),
        [0xfe, 0xff, rest @ ..] => (Some(encoding_rs::UTF_16BE), rest),
        _ if head.contains(&0) => (charset::wide(head), head),
        _ => (None, head),
    };
    match wide {
        Some(name) => Cow::Owned(name.decode_without_bom_handling(text).0.into_owned().into_bytes()),
        None => Cow::Borrowed(head),
    }
}

fn begins_as_html(head: &[u8], is_untyped: bool, is_typed_html: bool) -> bool {
    let root = root(head).unwrap_or_default();
    if LIST_ROOTS.iter().any(|list| root.eq_ignore_ascii_case(list)) {
        return false;
    }
    if !is_untyped {
        return is_typed_html || root.eq_ignore_ascii_case(b"html");
    }
    if head.contains(&0) || root.eq_ignore_ascii_case(b"svg") {
        return false;
    }
    let Some(behind) = after_mark(head).strip_prefix(b"<") else { return false };
    let begins_xml = behind.len() >= 4 && behind[..4].eq_ignore_ascii_case(b"?xml");
    match behind.first() {
        Some(byte) if byte.is_ascii_alphabetic() || *byte == b'!' => true,
        _ => begins_xml && behind[4..].windows(5).any(|part| part.eq_ignore_ascii_case(b"<html")),
    }
}

fn after_mark(head: &[u8]) -> &[u8] {
    after_blanks(head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head))
}

fn after_blanks(head: &[u8]) -> &[u8] {
    let blanks = head.iter().take_while(|byte| matches!(byte, b'\t'..=b'\r' | b' ')).count();
    &head[blanks..]
}

/// Local name of the first element, after instructions, comments and declarations.
pub fn root(head: &[u8]) -> Option<&[u8]> {
    let mut rest = after_mark(head);
    while let Some(behind) = rest.strip_prefix(b"<") {
        let (begin, end): (usize, &[u8]) = match behind {
            [b'?', ..] => (1, b"?>"),
            [b'!', b'-', b'-', ..] => (3, b"-->"),
            [b'!', ..] => (1, b">"),
            _ => break,
        };
        let at = memchr::memmem::find(&behind[begin..], end)?;
        rest = after_blanks(&behind[begin + at + end.len()..]);
    }
    let name = rest.strip_prefix(b"<")?;
    let begins = |part: &[u8]| part.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let first = name_length(name);
    let local = name.get(first + 1..).filter(|local| first > 0 && name[first] == b':' && begins(local));
    let local = local.unwrap_or(name);
    begins(local).then(|| &local[..name_length(local)])
}

fn name_length(name: &[u8]) -> usize {
    name.iter().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_told_by_its_type_or_by_its_head() {
        let whole = |body: &'static [u8], kind| plain(body, kind) == Some(body);
        assert!(whole(b"text", "Text/PLAIN; charset=x") && whole(b"text", "") && whole(b"<p>kept", "text/plain"));
        assert!(whole(b"a\x01", "text/plain") && !whole(b"a\x01", "") && !whole(b"a\x01\x02", "text/plain"));
        assert!(whole(b"\xff\xfea\0b\0", "text/plain") && !whole(b" \n", "text/plain") && !whole(b"", ""));
        assert!(whole(b"<?xml?>", "text/plain") && !whole(b" <?XML?>", "") && !whole(b"\xef\xbb\xbf<urlset>", ""));
        assert!(!whole(b"PK\x03\x04 zip", "text/plain") && !whole(b"text", "text/css"));
        let warned = b"Warning: x on line 7\n<rss> a";
        assert_eq!(plain(warned, "text/plain"), Some(&b"<rss> a"[..]));
        assert_eq!(plain(warned, ""), None);
    }

    #[test]
    fn bodies_are_html_by_type_or_by_their_head() {
        assert!(is_html(b"x", " Text/HTML ; charset=x"));
        assert!(!is_html(b"<p>", "text/plain"));
        assert!(!is_html(b"%PDF-1", "text/html"));
        assert!(is_html(b"\xef\xbb\xbf \n<!doctype", ""));
        assert!(is_html(b"\xff\xfe<\0p\0", ""));
        assert!(!is_html(b"<p\0", ""));
        assert!(!is_html(b"<RSS version", ""));
        assert!(is_html(b"<rssy", ""));
        assert!(is_html(b"<?XML?><HTML", ""));
        assert!(!is_html(b"<?xml?><svg", ""));
        assert!(!is_html(b"<!-- x --><!DOCTYPE x><a:RSS>", "text/html"));
        assert!(is_html(b"<svg>", "text/html"));
        assert!(is_html(b"<?xml?><html>", "text/xml"));
        assert!(!is_html(b"<a>", "application/xml"));
    }
}
