//! Body bytes and Content-Type -> encoding name and text.  Never fails, linear time.
//!
//! Which encoding, first that holds (names and labels are the WHATWG's):
//!
//! 1. A byte order mark: EF BB BF utf-8, FE FF utf-16be, FF FE utf-16le.  It is not part of the text. UTF-16 without a
//!    mark is known by the zero bytes of its first 1024 bytes (`wide`).
//! 2. The *declared* encoding: `charset=` of the Content-Type, else the first known one of a `<meta>` in the first 1024
//!    bytes (`charset`, or `http-equiv=content-type` with `content`, also misspelt; utf-16 there means utf-8 and
//!    x-user-defined means windows-1252), else that of an XML declaration, else that of a *late* `<meta>`: one in the
//!    first MiB before the body, which begins with the first start tag of an element that no head has; unless rule 3
//!    says that it lies.
//! 3. *Lies.*  Let lead = the number of bytes from 0xC2 to 0xF4 in a body that is valid UTF-8, else 0.
//!
//!    - declared single-byte, lead >= 1: utf-8;
//!    - declared legacy multi-byte, lead >= 8: utf-8;
//!    - declared utf-16 by Content-Type without a mark, and no zero byte in the first 1024: as if not declared;
//!    - declared utf-8, but decoding gives more U+FFFD than half of the body's bytes from 0xC2 to 0xF4, and another
//!      declaration (Content-Type, meta or XML) names another encoding: that one.
//! 4. None declared: utf-8 if the body is valid UTF-8, or has at least 8 bytes from 0xC2 to 0xF4 per U+FFFD of its
//!    decoding (a body cut off, one broken byte); else it is guessed (`guess`, by chardetng, with the top-level domain
//!    that the Content-Type has as its parameter `tld`).  ASCII with an escape sequence may be iso-2022-jp.
//!
//! Decoding is the standard's: a malformed UTF-8 sequence gives one U+FFFD per maximal subpart, a byte without a
//! character gives U+FFFD, and `replacement` one U+FFFD for the whole body.  The crate `encoding_rs` decodes.
//!
//! Cases, in `tests/cases/text/`: `charset`.

use std::borrow::Cow;

use encoding_rs::Encoding;

use crate::bytes::is_blank;
use crate::references;
use crate::tokens::each_attribute;

const PRESCAN_BYTES: usize = 1024;
const SURE_LEADS: usize = 8;
/// In how much of a body a late declaration is looked for.
const LATE_BYTES: usize = 1 << 20;
/// How much of a body is guessed from, behind its first byte that is not ASCII.
const GUESS_BYTES: usize = 1 << 20;
/// Elements of a head; any other begins the body.
const HEAD: [&[u8]; 13] = [
    b"html",
    b"head",
    b"title",
    b"base",
    b"basefont",
    b"bgsound",
    b"link",
    b"meta",
    b"script",
    b"style",
    b"noscript",
    b"template",
    b"noframes",
];
/// Those of them whose content is skipped.
const SKIPPED: [&[u8]; 6] = [b"title", b"script", b"style", b"noscript", b"template", b"noframes"];

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

/// What says which encoding a body has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Bom,
    Http,
    Meta,
    Xml,
    Guessed,
}

/// Find the encoding of a body and decode it.
pub fn decode<'a>(body: &'a [u8], content_type: &str) -> Decoded<'a> {
    decode_told(body, content_type).0
}

/// Find the encoding of a body and what says so, and decode it.
pub fn decode_told<'a>(body: &'a [u8], content_type: &str) -> (Decoded<'a>, Origin) {
    if let Some(rest) = body.strip_prefix(b"\xef\xbb\xbf") {
        return (decode_as(rest, encoding_rs::UTF_8), Origin::Bom);
    }
    for (mark, name) in [(b"\xfe\xff", encoding_rs::UTF_16BE), (b"\xff\xfe", encoding_rs::UTF_16LE)] {
        if let Some(rest) = body.strip_prefix(mark) {
            return (decode_as(rest, name), Origin::Bom);
        }
    }
    let head = &body[..body.len().min(PRESCAN_BYTES)];
    let has_zero = memchr::memchr(0, head).is_some();
    let of_header = of_content_type(content_type).filter(|&name| !is_utf_16(name) || has_zero);
    if let Some(name) = has_zero.then(|| wide(head)).flatten() {
        return (decode_as(body, name), if of_header == Some(name) { Origin::Http } else { Origin::Guessed });
    }
    let early = || [(of_header, Origin::Http), (of_meta(head), Origin::Meta), (of_xml(head), Origin::Xml)];
    let is_said = |(name, origin): (Option<Name>, Origin)| name.map(|name| (name, origin));
    let late = || is_said((of_late_meta(body), Origin::Meta));
    let Ok(utf_8) = simdutf8::basic::from_utf8(body) else {
        let mut declared: Vec<(Name, Origin)> = early().into_iter().filter_map(is_said).collect();
        if declared.iter().all(|said| said.0 == encoding_rs::UTF_8) {
            declared.extend(late());
        }
        return decode_not_utf_8(body, &declared, content_type);
    };
    let declared = match of_header {
        Some(name) => Some((name, Origin::Http)),
        None => early().into_iter().find_map(is_said).or_else(late),
    };
    let (name, origin) = match declared {
        Some((name, _))
            if (is_single_byte(name) && !body.is_ascii())
                || (is_multi_byte(name) && lead_bytes(body) >= SURE_LEADS) =>
        {
            (encoding_rs::UTF_8, Origin::Guessed)
        }
        Some(said) => said,
        None if body.is_ascii() && memchr::memchr(0x1b, body).is_some() => (guess(body, content_type), Origin::Guessed),
        None => (encoding_rs::UTF_8, Origin::Guessed),
    };
    if name == encoding_rs::UTF_8 || is_single_byte(name) {
        return ((name, Cow::Borrowed(utf_8)), origin);
    }
    (decode_as(body, name), origin)
}

fn decode_not_utf_8<'a>(body: &'a [u8], declared: &[(Name, Origin)], content_type: &str) -> (Decoded<'a>, Origin) {
    if let Some(&(first, origin)) = declared.first().filter(|said| said.0 != encoding_rs::UTF_8) {
        return (decode_as(body, first), origin);
    }
    let utf_8 = String::from_utf8_lossy(body);
    let (leads, broken) = (lead_bytes(body), utf_8.matches('\u{fffd}').count());
    let Some(&(_, first)) = declared.first() else {
        if leads >= SURE_LEADS * broken {
            return ((encoding_rs::UTF_8, utf_8), Origin::Guessed);
        }
        return (decode_as(body, guess(body, content_type)), Origin::Guessed);
    };
    match declared.iter().find(|said| said.0 != encoding_rs::UTF_8) {
        Some(&(other, origin)) if 2 * broken > leads => (decode_as(body, other), origin),
        _ => ((encoding_rs::UTF_8, utf_8), first),
    }
}

/// The encoding that a body without declaration most likely has.
///
/// Content types that docstore makes have the top-level domain as their first parameter.  A body may be cut within a
/// character, so its end does not speak against an encoding of several bytes.
pub fn guess(body: &[u8], content_type: &str) -> Name {
    let tld = content_type.split(';').nth(1).and_then(|hint| hint.trim_start_matches(' ').strip_prefix("tld="));
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let tld = tld.map(str::as_bytes).filter(|tld| tld.iter().all(|&byte| is_letter(byte)));
    let ascii = Encoding::ascii_valid_up_to(body);
    let rest = if ascii == body.len() { body } else { &body[ascii.saturating_sub(2)..] };
    let mut detector = chardetng::EncodingDetector::new();
    detector.feed(&rest[..rest.len().min(GUESS_BYTES)], false);
    let cut = detector.guess(tld, true);
    detector.feed(&[], true);
    if is_multi_byte(cut) {
        cut
    } else {
        detector.guess(tld, true)
    }
}

/// UTF-16 without a mark, by the zero bytes of its ASCII characters.
///
/// All of them are the upper bytes of characters of text.  They are a quarter of the characters; or one in 64 if the
/// head is no UTF-8 and has no unpaired surrogate, as in texts of Chinese and Japanese.
pub fn wide(head: &[u8]) -> Option<Name> {
    let units = || head.chunks_exact(2).filter(|unit| **unit != [0, 0]);
    let is_text = |byte: u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~' | 0xa0..);
    let zeros = |place: usize| units().filter(|unit| unit[place] == 0).count();
    let (name, upper) = match (zeros(0), zeros(1)) {
        (0, _) => (encoding_rs::UTF_16LE, 1),
        (_, 0) => (encoding_rs::UTF_16BE, 0),
        _ => return None,
    };
    let (count, narrow) = (units().count(), zeros(upper));
    if narrow < 2 || !units().filter(|unit| unit[upper] == 0).all(|unit| is_text(unit[1 - upper])) {
        return None;
    }
    let is_whole = || {
        let (text, _) = name.decode_without_bom_handling(&head[..head.len() & !1]);
        std::str::from_utf8(head).is_err_and(|error| error.error_len().is_some())
            && !text.trim_end_matches('\u{fffd}').contains('\u{fffd}')
    };
    (4 * narrow >= count || (64 * narrow >= count && is_whole())).then_some(name)
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
                    return Some(meant(name));
                }
                place = end;
            }
        }
    }
    None
}

/// The encoding that the first meta element with a known one declares, if it stands before the body.
///
/// Unlike the first look, this one is linear: it ends at markup that has no end.
fn of_late_meta(body: &[u8]) -> Option<Name> {
    let head = &body[..body.len().min(LATE_BYTES)];
    let mut place = 0;
    loop {
        let start = place + memchr::memchr(b'<', &head[place..])? + 1;
        let rest = &head[start..];
        if let Some(comment) = rest.strip_prefix(b"!--") {
            place = start + 3 + memchr::memmem::find(comment, b"-->")? + 3;
            continue;
        }
        let Some(first) = rest.first() else { return None };
        if !first.is_ascii_alphabetic() {
            let is_markup = matches!(first, b'!' | b'/' | b'?');
            place = if is_markup { start + memchr::memchr(b'>', rest)? + 1 } else { start };
            continue;
        }
        let length = rest.iter().take_while(|&&byte| !is_blank(byte) && byte != b'>' && byte != b'/').count();
        let is_one = |names: &[&[u8]]| names.iter().any(|name| rest[..length].eq_ignore_ascii_case(name));
        if !is_one(&HEAD) {
            return None;
        }
        let end = tag_end(head, start + length);
        if end >= head.len() {
            return None;
        }
        if is_one(&[b"meta"]) {
            if let Some(name) = of_attributes(&head[start + length..end]) {
                return Some(meant(name));
            }
        }
        place = end + 1;
        if is_one(&SKIPPED) {
            let is_end = |at: &usize| {
                head[at + 2..].get(..length).is_some_and(|name| name.eq_ignore_ascii_case(&rest[..length]))
            };
            place += memchr::memmem::find_iter(&head[place..], b"</").find(|at| is_end(&(place + at)))?;
        }
    }
}

/// What a meta element means by an encoding.
fn meant(name: Name) -> Name {
    match name {
        _ if is_utf_16(name) => encoding_rs::UTF_8,
        _ if name == encoding_rs::X_USER_DEFINED => encoding_rs::WINDOWS_1252,
        _ => name,
    }
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

/// Whether an attribute is `http-equiv`, or a misspelling of it.
fn is_http_equiv(name: &[u8]) -> bool {
    name.len() > 8
        && name[..4].eq_ignore_ascii_case(b"http")
        && name.windows(3).any(|part| part.eq_ignore_ascii_case(b"equ"))
}

fn of_attributes(attributes: &[u8]) -> Option<Name> {
    let (mut charset, mut http_equiv, mut content) = (None, None, None);
    each_attribute(attributes, |name, value| {
        let kept = match name {
            _ if name.eq_ignore_ascii_case(b"charset") => &mut charset,
            _ if is_http_equiv(name) => &mut http_equiv,
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
    let letters = |value: Vec<u8>| value.into_iter().filter(u8::is_ascii_alphabetic).collect::<Vec<u8>>();
    if !letters(decoded(http_equiv?)).eq_ignore_ascii_case(b"contenttype") {
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
