//! Keys: the row key of a plain URL, keys of LevelDB, and the rows of postings of a page.
//!
//! A cell of a table has the key: tag of the table, escaped row key, KEY_KIND_CELL, family, FAMILY_END, escaped qualifier,
//! inverted timestamp.  A qualifier of a bare table has: tag, escaped row key, qualifier.  Escaped bytes sort as the
//! bytes do, and no escaped key is a prefix of another.

use docstore_kernel::words::Words;

use crate::format::{
    BARE_TABLES, FAMILY_END, KEY_END, KEY_ESCAPE, KEY_KIND_CELL, POSTING_BODY, POSTING_BODY_BYTES, POSTING_TEXT,
    ROW_KEY_HOST_END, ROW_KEY_LABEL_SEPARATOR, ROW_KEY_NO_HOST, ROW_KEY_SCHEME_MARK, TABLE_TAGS, TEXT_NUMBER_BYTES,
    TIMESTAMP_MAX, TITLE_KEY_BYTES, URL_LIMIT_BYTES,
};

pub const TIMESTAMP_BYTES: usize = 8;

/// The tag of a table; and its only family, if it is bare.
pub fn table(name: &str) -> Option<(u8, Option<&'static str>)> {
    let (_, tag) = TABLE_TAGS.iter().find(|(table, _)| *table == name)?;
    Some((*tag, BARE_TABLES.iter().find(|(table, _)| *table == name).map(|(_, family)| *family)))
}

/// Add bytes with their zeros escaped, and the end.
pub fn push_escaped(key: &mut Vec<u8>, raw: &[u8]) {
    for (number, part) in raw.split(|byte| *byte == 0).enumerate() {
        if number > 0 {
            key.extend_from_slice(&KEY_ESCAPE);
        }
        key.extend_from_slice(part);
    }
    key.extend_from_slice(&KEY_END);
}

/// Bytes without the escapes of zero bytes.
pub fn unescaped(bytes: &[u8]) -> Vec<u8> {
    if !bytes.contains(&KEY_ESCAPE[0]) {
        return bytes.to_vec();
    }
    let mut plain = Vec::with_capacity(bytes.len());
    let mut is_escape = false;
    for &byte in bytes {
        if !(is_escape && byte == KEY_ESCAPE[1]) {
            plain.push(byte);
        }
        is_escape = byte == KEY_ESCAPE[0];
    }
    plain
}

/// Where the prefix of a row ends in a key, behind the tag of its table.
pub fn row_prefix_end(key: &[u8]) -> Option<usize> {
    let end = key.get(1..)?.windows(KEY_END.len()).position(|two| two == KEY_END)?;
    Some(1 + end + KEY_END.len())
}

/// The row key of the prefix of a row.
pub fn row_key_of(prefix: &[u8]) -> Vec<u8> {
    unescaped(prefix.get(1..prefix.len().saturating_sub(KEY_END.len())).unwrap_or_default())
}

/// The exclusive end of all keys with a prefix, whose last byte is not ff.
pub fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// Add what a cell has behind the prefix of its row; None for a timestamp that does not fit.
pub fn push_cell(key: &mut Vec<u8>, family: &[u8], qualifier: &[u8], timestamp: u64) -> Option<()> {
    key.push(KEY_KIND_CELL);
    key.extend_from_slice(family);
    key.push(FAMILY_END);
    push_escaped(key, qualifier);
    key.extend_from_slice(&TIMESTAMP_MAX.checked_sub(timestamp)?.to_be_bytes());
    Some(())
}

/// Family and qualifier of a column as it stands in a key; None if they cannot be told apart.
pub fn column_of(name: &[u8]) -> Option<(&str, Vec<u8>)> {
    let end = name.iter().position(|byte| *byte == FAMILY_END)?;
    let qualifier = name.strip_suffix(&KEY_END)?.get(end + 1..)?;
    Some((std::str::from_utf8(&name[..end]).ok()?, unescaped(qualifier)))
}

/// The timestamp in the last bytes of a key.
pub fn timestamp_of(inverted: &[u8]) -> u64 {
    TIMESTAMP_MAX.wrapping_sub(inverted.iter().fold(0, |stamp, byte| stamp << 8 | u64::from(*byte)))
}

/// Whether a host is made of labels that the URL parser gives back as they are; the last one is no number.
fn is_plain_host(host: &[u8]) -> bool {
    let is_plain = |label: &[u8]| {
        let ends = label.first().zip(label.last());
        ends.is_some_and(|(first, last)| *first != b'-' && *last != b'-')
            && label.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
            && !label.windows(2).any(|pair| pair == b"--")
    };
    let last = host.rsplit(|byte| *byte == b'.').next();
    host.split(|byte| *byte == b'.').all(is_plain) && last.is_some_and(|label| label[0].is_ascii_lowercase())
}

/// Whether path and query are what the URL parser gives back as it is; no segment begins with a dot.
fn is_plain_path(path: &[u8]) -> bool {
    let (mut before, mut in_query) = (0, false);
    path.iter().all(|&byte| {
        let fits = match byte {
            b'?' => true,
            b'.' => in_query || before != b'/',
            _ => byte.is_ascii_alphanumeric() || b"_~!$&()*+,;=:@/-".contains(&byte),
        };
        in_query |= byte == b'?';
        before = byte;
        fits
    })
}

/// The row key of a URL that is canonical as it is written, as most are; None for any other.
pub fn plain_row_key(url: &str) -> Option<Vec<u8>> {
    let (scheme, rest) = url.split_once("://").filter(|(scheme, _)| matches!(*scheme, "https" | "http"))?;
    let (host, path) = rest.as_bytes().split_at(rest.find('/')?);
    if url.len() > URL_LIMIT_BYTES || !is_plain_host(host) || !is_plain_path(path) {
        return None;
    }
    let mut key = Vec::with_capacity(url.len());
    for label in host.rsplit(|byte| *byte == b'.') {
        key.extend_from_slice(label);
        key.push(ROW_KEY_LABEL_SEPARATOR);
    }
    key.pop();
    key.push(ROW_KEY_HOST_END);
    key.extend_from_slice(path);
    key.push(ROW_KEY_SCHEME_MARK);
    key.extend_from_slice(scheme.as_bytes());
    Some(key)
}

/// The rows of postings of a page: by its body, its text, and its text and title; b"" for a text that is not compared.
///
/// A lone surrogate of the title, in the three bytes of "surrogatepass", is no letter, nor is what takes its place.
pub fn posting_rows(body_checksum: &[u8], text_checksum: &[u8], title: &[u8], words: &mut Words) -> Vec<Vec<u8>> {
    let named = |kind: u8, name: &[u8]| [&[kind], name].concat();
    let mut rows = vec![named(POSTING_BODY, &body_checksum[..body_checksum.len().min(1 + POSTING_BODY_BYTES)])];
    if !text_checksum.is_empty() {
        let number = &text_checksum[1..text_checksum.len().min(1 + TEXT_NUMBER_BYTES)];
        rows.push(named(POSTING_TEXT, number));
        words.cut(String::from_utf8_lossy(title).as_bytes());
        let title_key = blake3::hash(words.joined());
        rows.push(named(POSTING_TEXT, &[number, &title_key.as_bytes()[..TITLE_KEY_BYTES]].concat()));
    }
    rows
}

/// Where the host of a row key ends; None if it has none.
fn host_end(row_key: &[u8]) -> Option<usize> {
    let end = row_key.iter().position(|byte| *byte == ROW_KEY_HOST_END)?;
    (row_key[0] != ROW_KEY_NO_HOST).then_some(end)
}

/// The part of a row key that names its host; empty if it has none.
pub fn host_of(row_key: &[u8]) -> &[u8] {
    &row_key[..host_end(row_key).unwrap_or(0)]
}

/// A row key without numbers and languages before its last path segment; empty if it has none, or no host.
///
/// A version is `7`, `1_74.0` or `6-12`; a language is a path segment such as `de` or `en-US`.  `#` stands for each.
pub fn version_less(row_key: &[u8]) -> Vec<u8> {
    let found = |byte: u8, from: usize| row_key[from..].iter().position(|other| *other == byte).map(|at| from + at);
    let Some(host_end) = found(ROW_KEY_HOST_END, 0) else { return Vec::new() };
    let Some(path_end) = found(b'?', host_end).or_else(|| found(ROW_KEY_SCHEME_MARK, host_end)) else {
        return Vec::new();
    };
    let Some(slash) = row_key[host_end..path_end].iter().rposition(|byte| *byte == b'/') else { return Vec::new() };
    let folder_bytes = host_end + slash + 1;
    let (folder, rest) = row_key.split_at(folder_bytes);
    let (mut made, mut at) = (Vec::with_capacity(row_key.len()), 0);
    while at < folder.len() {
        let end = version_end(folder, at).or_else(|| language_end(folder, at));
        made.push(if end.is_some() { b'#' } else { folder[at] });
        at = end.unwrap_or(at + 1);
    }
    if made == folder {
        return Vec::new();
    }
    made.extend_from_slice(rest);
    made
}

/// Where numbers that begin at a place end, with `.`, `_` or `-` between them.
fn version_end(folder: &[u8], at: usize) -> Option<usize> {
    let digits = |from: usize| folder[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = at + digits(at);
    while end > at && matches!(folder.get(end), Some(b'.' | b'_' | b'-')) && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    (end > at).then_some(end)
}

/// Where a path segment ends that begins at a place and looks like a language, with or without a region.
fn language_end(folder: &[u8], at: usize) -> Option<usize> {
    let segment = folder[at..].split(|byte| *byte == b'/').next()?;
    let (language, region) = segment.split_at_checked(2)?;
    let is_region = region.is_empty()
        || (matches!(region.len(), 3..=5) && region[0] == b'-' && region[1..].iter().all(u8::is_ascii_alphabetic));
    let begins = at > 0 && folder[at - 1] == b'/';
    (begins && is_region && language.iter().all(u8::is_ascii_lowercase)).then_some(at + segment.len())
}

/// Row keys of rows of tables without URLs begin so: `(urn:docstore:SOURCE:ID`.
const TABLE_ROW: &[u8] = b"(urn:docstore:";

/// The name of the host of a row, without a leading `www.` or `m.`; for a row without a host its whole key.
///
/// At least two labels remain: `www.com` and `m.com` are two sites.  All rows of one table source are one site.
pub fn site(row_key: &[u8]) -> &[u8] {
    if let Some(rest) = row_key.strip_prefix(TABLE_ROW) {
        let source = rest.iter().position(|byte| *byte == b':').unwrap_or(rest.len());
        return &row_key[..TABLE_ROW.len() + source];
    }
    let Some(end) = host_end(row_key) else { return row_key };
    let host = &row_key[..end];
    let Some(last) = host.iter().rposition(|byte| *byte == ROW_KEY_LABEL_SEPARATOR) else { return host };
    match &host[last + 1..] {
        b"www" | b"m" if host[..last].contains(&ROW_KEY_LABEL_SEPARATOR) => &host[..last],
        _ => host,
    }
}

/// The number of a text in the index: the first bytes of its checksum behind the scheme; None if it is too short.
pub fn text_number(text_checksum: &[u8]) -> Option<u64> {
    let bytes = text_checksum.get(1..1 + TEXT_NUMBER_BYTES)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// What stands for a posting among others: 64 bits of a hash of its row and its qualifier.
pub fn posting_hash(row: &[u8], qualifier: &[u8]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&row.len().to_le_bytes()).update(row).update(qualifier);
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(raw: &[u8]) -> Vec<u8> {
        let mut key = Vec::new();
        push_escaped(&mut key, raw);
        key
    }

    #[test]
    fn versions_and_languages_before_the_last_segment_are_left_out_of_a_key() {
        let of = |key: &str| String::from_utf8(version_less(key.as_bytes())).expect("keys are text");
        assert_eq!(of("org,boost,www)/doc/libs/1_74_0/any.html https"), "org,boost,www)/doc/libs/#/any.html https");
        assert_eq!(of("example,v12)/6-1.x/de/en-US/fr-x/z-7?a/2/3 https"), "example,v#)/#.x/#/#/fr-x/z-7?a/2/3 https");
        assert_eq!(of("a)/zh-Hant/Zh/e1/en-latin/1.-2/x https"), "a)/#/Zh/e#/en-latin/#.-#/x https");
        let same = [
            ("org,kernel,www)/doc/html/v6.1/x.html https", "org,kernel,www)/doc/html/v6.12/x.html https"),
            ("example,docs,v1)/x.html https", "example,docs,v12)/x.html https"),
            ("example,help)/7.4/de/text/x.html https", "example,help)/7.4/en-US/text/x.html https"),
            ("example,a)/2.0/x?id=3 https", "example,a)/2.1/x?id=3 https"),
            ("example,a)/2.0/ https", "example,a)/2.1/ https"),
        ];
        same.iter().for_each(|(first, second)| assert_eq!((of(first), of(first).is_empty()), (of(second), false)));
        let other = [
            ("example,a)/2.0/page-12.html https", "example,a)/2.0/page-13.html https"),
            ("example,a)/2.0/x?id=3 https", "example,a)/2.0/x?id=4 https"),
            ("example,a)/2.0/x https", "example,b)/2.0/x https"),
            ("example,a)/2.0/api/x https", "example,a)/2.0/doc/x https"),
        ];
        other.iter().for_each(|(first, second)| assert_ne!(of(first), of(second)));
        for none in
            ["a)/?2/3 https", "a)/x.html https", "a)/ https", "(urn:isbn:12", "a)x1 https", "", "a/1/x https", "a)/1/x"]
        {
            assert_eq!(of(none), "", "{none}");
        }
    }

    #[test]
    fn escaped_bytes_sort_as_the_bytes_do_and_come_back() {
        let raws: [&[u8]; 9] = [b"", b"\0", b"\0\0", b"\0\x01", b"\0\xff", b"a", b"a\0", b"a\0b", b"b"];
        for (one, other) in raws.iter().zip(&raws[1..]) {
            assert!(escaped(one) < escaped(other), "{one:?} {other:?}");
        }
        for raw in raws {
            let prefix = [&[2], &escaped(raw)[..]].concat();
            assert_eq!(row_key_of(&prefix), raw);
            assert_eq!(row_prefix_end(&[&prefix, &b"\x03p\0"[..]].concat()), Some(prefix.len()));
        }
        assert_eq!(row_prefix_end(b"\x02abc"), None);
        assert_eq!(row_prefix_end(b""), None);
    }

    #[test]
    fn only_the_table_of_postings_is_bare() {
        assert_eq!((table("pages"), table("postings")), (Some((2, None)), Some((4, Some("p")))));
        assert_eq!(table("none"), None);
    }

    #[test]
    fn a_column_and_a_time_come_back_from_a_key() {
        let mut key = Vec::new();
        assert_eq!(push_cell(&mut key, b"page", b"bo\0dy", 1000), Some(()));
        let (name, stamp) = key.split_at(key.len() - TIMESTAMP_BYTES);
        assert_eq!(column_of(&name[1..]), Some(("page", b"bo\0dy".to_vec())));
        assert_eq!(timestamp_of(stamp), 1000);
        assert_eq!(push_cell(&mut key, b"", b"", TIMESTAMP_MAX + 1), None);
        for damaged in [&b"page"[..], b"page\0body", b"\xff\0\0\x01", b"p\0\x01"] {
            assert_eq!(column_of(damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn newer_cells_of_a_column_come_first() {
        let key = |timestamp| {
            let mut key = Vec::new();
            push_cell(&mut key, b"f", b"q", timestamp).map(|()| key)
        };
        assert!(key(2) < key(1) && key(TIMESTAMP_MAX) < key(2));
    }

    #[test]
    fn only_a_canonical_url_is_plain() {
        let key = |url| plain_row_key(url).map(|key| String::from_utf8(key).expect("ASCII"));
        assert_eq!(key("https://www.example.com/a.b?c=.d").as_deref(), Some("com,example,www)/a.b?c=.d https"));
        assert_eq!(key("http://example/").as_deref(), Some("example)/ http"));
        for url in [
            "ftp://example.com/",
            "https://example.com",
            "https://Example.com/",
            "https://1.2.3.4/",
            "https://a..b/",
            "https://-a.com/",
            "https://xn--a.com/",
            "https://a.com:80/",
            "https://a.com/%41",
            "https://a.com/.a",
            "https://a.com/a/../b",
            "https://a.com/#x",
            "urn:isbn:1",
            "https://a.com/ b",
            "https://a.com/\u{e9}",
        ] {
            assert_eq!(key(url), None, "{url}");
        }
        assert_eq!(key(&format!("https://a.com/{}", "a".repeat(URL_LIMIT_BYTES))), None);
    }

    #[test]
    fn a_page_is_posted_by_body_and_by_text_and_title() {
        let mut words = Words::default();
        let body = [1; 33];
        assert_eq!(posting_rows(&body, b"", b"A title", &mut words), [[&[1][..], &body[..9]].concat()]);
        let text = [2, 3, 4, 5, 6, 7, 8, 9];
        let rows = posting_rows(&body, &text, b"A title", &mut words);
        assert_eq!(rows[1], [7, 3, 4, 5, 6, 7, 8]);
        assert_eq!((rows.len(), rows[2].len()), (3, 11));
        assert_eq!(rows[2][..7], rows[1][..]);
        // A lone surrogate and what replaces it are both no letters.
        assert_eq!(posting_rows(&body, &text, b"a \xed\xa0\x80 TITLE", &mut words), rows);
        assert_ne!(posting_rows(&body, &text, b"another", &mut words)[2], rows[2]);
        assert_eq!(text_number(&text), Some(0x0304_0506_0708));
        assert_eq!(text_number(&text[..6]), None);
    }

    #[test]
    fn rows_and_qualifiers_of_other_lengths_are_other_postings() {
        assert_ne!(posting_hash(b"ab", b"c"), posting_hash(b"a", b"bc"));
        assert_eq!(posting_hash(b"ab", b"c"), posting_hash(b"ab", b"c"));
    }
}
