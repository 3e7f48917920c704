//! Body bytes and Content-Type -> encoding and text: `tests/reference/charset.py`.

use std::borrow::Cow;

use encoding_rs::Encoding;

use crate::bytes::is_blank;
use crate::references;
use crate::tokens::each_attribute;

const PRESCAN_BYTES: usize = 1024;
const SURE_LEADS: usize = 8;

/// An encoding of the standard; compared by identity.
pub type Name = &'static Encoding;

/// The encoding of a body, and its text.
pub type Decoded<'a> = (Name, Cow<'a, str>);

fn is_utf_16(name: Name) -> bool {
    name == encoding_rs::UTF_16LE || name == encoding_rs::UTF_16BE
}

fn is_single_byte(name: Name) -> bool {
    name.is_single_byte()
}

fn is_multi_byte(name: Name) -> bool {
    !is_single_byte(name) && !is_utf_16(name) && name != encoding_rs::UTF_8 && name != encoding_rs::REPLACEMENT
}

fn decode_as(body: &[u8], name: Name) -> Decoded<'_> {
    if name == encoding_rs::UTF_8 {
        (name, String::from_utf8_lossy(body))
    } else if name == encoding_rs::REPLACEMENT {
        (name, if body.is_empty() { "".into() } else { "\u{fffd}".into() })
    } else {
        (name, name.decode_without_bom_handling(body).0)
    }
}

/// Find the encoding of a body and decode it.
pub fn decode<'a>(body: &'a [u8], content_type: &str) -> Decoded<'a> {
    if let Some(rest) = body.strip_prefix(b"\xef\xbb\xbf") {
        return decode_as(rest, encoding_rs::UTF_8);
    }
    for (mark, name) in [(b"\xfe\xff", encoding_rs::UTF_16BE), (b"\xff\xfe", encoding_rs::UTF_16LE)] {
        if let Some(rest) = body.strip_prefix(mark) {
            return decode_as(rest, name);
        }
    }
    let head = &body[..body.len().min(PRESCAN_BYTES)];
    let of_header = of_content_type(content_type).filter(|&name| !is_utf_16(name) || head.contains(&0));
    let Ok(utf_8) = simdutf8::basic::from_utf8(body) else {
        let declared: Vec<Name> = [of_header, of_meta(head), of_xml(head)].into_iter().flatten().collect();
        return decode_not_utf_8(body, &declared);
    };
    let declared = of_header.or_else(|| of_meta(head)).or_else(|| of_xml(head)).unwrap_or(encoding_rs::UTF_8);
    let name = if (is_single_byte(declared) && !body.is_ascii())
        || (is_multi_byte(declared) && lead_bytes(body) >= SURE_LEADS)
    {
        encoding_rs::UTF_8
    } else {
        declared
    };
    if name == encoding_rs::UTF_8 || is_single_byte(name) {
        return (name, Cow::Borrowed(utf_8));
    }
    decode_as(body, name)
}

fn decode_not_utf_8<'a>(body: &'a [u8], declared: &[Name]) -> Decoded<'a> {
    if let Some(&first) = declared.first().filter(|&&name| name != encoding_rs::UTF_8) {
        return decode_as(body, first);
    }
    let utf_8 = String::from_utf8_lossy(body);
    let (leads, broken) = (lead_bytes(body), utf_8.matches('\u{fffd}').count());
    if declared.is_empty() {
        if leads >= SURE_LEADS * broken {
            return (encoding_rs::UTF_8, utf_8);
        }
        return decode_as(body, encoding_rs::WINDOWS_1252);
    }
    match declared.iter().find(|&&name| name != encoding_rs::UTF_8) {
        Some(other) if 2 * broken > leads => decode_as(body, other),
        _ => (encoding_rs::UTF_8, utf_8),
    }
}

/// How many bytes can begin a UTF-8 sequence.
fn lead_bytes(body: &[u8]) -> usize {
    body.iter().filter(|byte| (0xc2..=0xf4).contains(*byte)).count()
}

fn of_label(label: &[u8]) -> Option<Name> {
    Encoding::for_label(label)
}

fn of_content_type(content_type: &str) -> Option<Name> {
    let source = content_type.as_bytes();
    let is_gap = |byte: &u8| matches!(byte, b'\t' | b' ');
    let skip = |place: usize| place + source[place..].iter().take_while(|byte| is_gap(byte)).count();
    for (semicolon, _) in source.iter().enumerate().filter(|(_, &byte)| byte == b';') {
        let place = skip(semicolon + 1);
        if !source[place..].get(..7).is_some_and(|word| word.eq_ignore_ascii_case(b"charset")) {
            continue;
        }
        let place = skip(place + 7);
        if source.get(place) != Some(&b'=') {
            continue;
        }
        let place = skip(place + 1);
        let value = match source.get(place) {
            Some(&quote @ (b'"' | b'\'')) => source[place + 1..].split(|&byte| byte == quote).next().unwrap_or(&[]),
            _ => {
                let ends = |byte: &u8| matches!(byte, b'\t'..=b'\r' | b' ' | b';' | b'"' | b'\'');
                let length = source[place..].iter().take_while(|byte| !ends(byte)).count();
                if length == 0 {
                    continue;
                }
                &source[place..place + length]
            }
        };
        return of_label(value);
    }
    None
}

/// The encoding that the first meta element with a known one declares.
fn of_meta(head: &[u8]) -> Option<Name> {
    let mut place = 0;
    while let Some(start) = memchr::memchr(b'<', &head[place..]).map(|offset| place + offset) {
        match prescan(head, start) {
            None => place = start + 1,
            Some((end, None)) => place = end,
            Some((end, Some(attributes))) => {
                if let Some(name) = of_attributes(attributes) {
                    return Some(match name {
                        _ if is_utf_16(name) => encoding_rs::UTF_8,
                        _ if name == encoding_rs::X_USER_DEFINED => encoding_rs::WINDOWS_1252,
                        _ => name,
                    });
                }
                place = end;
            }
        }
    }
    None
}

/// The markup that begins at `start`: its end, and the attributes if it is a meta element.
fn prescan(head: &[u8], start: usize) -> Option<(usize, Option<&[u8]>)> {
    let behind = &head[start + 1..];
    if let Some(content) = behind.strip_prefix(b"!--") {
        let length = if content.starts_with(b">") {
            Some(1)
        } else if content.starts_with(b"->") {
            Some(2)
        } else {
            memchr::memmem::find(content, b"-->").map(|place| place + 3)
        };
        if let Some(length) = length {
            return Some((start + 4 + length, None));
        }
    }
    if behind.len() > 4 && behind[..4].eq_ignore_ascii_case(b"meta") && (is_blank(behind[4]) || behind[4] == b'/') {
        let end = tag_end(head, start + 5);
        if end < head.len() {
            return Some((end + 1, Some(&head[start + 5..end])));
        }
    }
    let name = match behind {
        [b'/', letter, ..] if letter.is_ascii_alphabetic() => start + 2,
        [letter, ..] if letter.is_ascii_alphabetic() => start + 1,
        [b'!' | b'/' | b'?', ..] => {
            return memchr::memchr(b'>', &behind[1..]).map(|offset| (start + 3 + offset, None));
        }
        _ => return None,
    };
    let length = head[name..].iter().take_while(|&&byte| !is_blank(byte) && byte != b'>').count();
    let end = tag_end(head, name + length);
    if end < head.len() {
        return Some((end + 1, None));
    }
    // Unclosed as a tag; an end tag may still be a bogus comment.
    if behind[0] == b'/' {
        return memchr::memchr(b'>', &behind[1..]).map(|offset| (start + 3 + offset, None));
    }
    None
}

fn tag_end(head: &[u8], place: usize) -> usize {
    crate::tokens::attributes_end(head, place)
}

fn of_attributes(attributes: &[u8]) -> Option<Name> {
    let (mut charset, mut http_equiv, mut content) = (None, None, None);
    each_attribute(attributes, |name, value| {
        let kept = match name {
            _ if name.eq_ignore_ascii_case(b"charset") => &mut charset,
            _ if name.eq_ignore_ascii_case(b"http-equiv") => &mut http_equiv,
            _ if name.eq_ignore_ascii_case(b"content") => &mut content,
            _ => return,
        };
        kept.get_or_insert(value);
    });
    let decoded = |source: &[u8]| {
        // The head is read as Latin-1: bytes beyond ASCII must not look like UTF-8.
        let plain: Vec<u8> = source.iter().map(|&byte| if byte < 0x80 { byte } else { 0x1a }).collect();
        let mut value = Vec::new();
        references::decode(&plain, true, &mut value);
        value
    };
    if let Some(charset) = charset {
        return of_label(&decoded(charset));
    }
    if !decoded(http_equiv?).eq_ignore_ascii_case(b"content-type") {
        return None;
    }
    of_label(of_meta_content(&decoded(content.unwrap_or(&[])))?)
}

/// The label in the content of a meta element of type content-type.
fn of_meta_content(content: &[u8]) -> Option<&[u8]> {
    let skip = |place: usize| place + content[place..].iter().take_while(|&&byte| is_blank(byte)).count();
    for start in 0..content.len().saturating_sub(6) {
        if !content[start..start + 7].eq_ignore_ascii_case(b"charset") {
            continue;
        }
        let place = skip(start + 7);
        if content.get(place) != Some(&b'=') {
            continue;
        }
        let place = skip(place + 1);
        match content.get(place) {
            Some(&quote @ (b'"' | b'\'')) => {
                if let Some(length) = memchr::memchr(quote, &content[place + 1..]) {
                    return Some(&content[place + 1..place + 1 + length]);
                }
            }
            Some(&byte) if byte != b';' => {
                let length = content[place..].iter().take_while(|&&byte| !is_blank(byte) && byte != b';').count();
                return Some(&content[place..place + length]);
            }
            _ => {}
        }
    }
    None
}

/// The encoding of an XML declaration.
fn of_xml(head: &[u8]) -> Option<Name> {
    let behind = head.strip_prefix(b"<?xml")?;
    let declaration = &behind[..memchr::memchr(b'>', behind).unwrap_or(behind.len())];
    let skip = |place: usize| place + declaration[place..].iter().take_while(|&&byte| is_blank(byte)).count();
    for start in memchr::memmem::find_iter(declaration, b"encoding") {
        if start == 0 || !is_blank(declaration[start - 1]) {
            continue;
        }
        let place = skip(start + 8);
        if declaration.get(place) != Some(&b'=') {
            continue;
        }
        let place = skip(place + 1);
        if !matches!(declaration.get(place), Some(b'"' | b'\'')) {
            continue;
        }
        let value = &declaration[place + 1..];
        if let Some(length) = value.iter().position(|byte| matches!(byte, b'"' | b'\'')) {
            return of_label(&value[..length]).map(|name| if is_utf_16(name) { encoding_rs::UTF_8 } else { name });
        }
    }
    None
}
