//! Addresses of links, made absolute and fit for Markdown.
//!
//! A reference is resolved as RFC 3986 says, with the repairs of browsers that pages need: white space around it and line
//! ends in it go, a backslash is a slash, and what no address may hold is percent-encoded.

use crate::page::is_space;

/// Schemes whose addresses lead to no other page.
const REFUSED: [&str; 6] = ["about", "blob", "data", "file", "javascript", "vbscript"];

/// The address that others are resolved against, cut into its parts; each keeps its leading sign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Base {
    /// With its colon.
    scheme: String,
    authority: String,
    path: String,
    query: String,
}

impl Base {
    /// Of an absolute URL.
    pub fn new(url: &str) -> Self {
        let scheme = scheme_end(url).map_or("", |end| &url[..end]);
        let rest = url[scheme.len()..].split('#').next().unwrap_or_default();
        let (rest, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (authority, path) = match rest.strip_prefix("//") {
            Some(host) => rest.split_at(2 + host.find('/').unwrap_or(host.len())),
            None => ("", rest),
        };
        let [scheme, authority, path, query] = [scheme, authority, path, query].map(str::to_owned);
        Self { scheme, authority, path, query }
    }

    /// The address of a page whose `base` element has this reference.
    pub fn with(self, reference: Option<&str>) -> Self {
        reference.and_then(|reference| self.resolve(reference)).map_or(self, |url| Self::new(&url))
    }

    /// An absolute address; None if it leads to no page.
    pub fn resolve(&self, reference: &str) -> Option<String> {
        let reference = reference.trim_matches(|each: char| each <= ' ' || is_space(each));
        let reference = reference.replace(['\t', '\n', '\r'], "");
        let mut made =
            String::with_capacity(self.scheme.len() + self.authority.len() + self.path.len() + reference.len());
        if let Some(end) = scheme_end(&reference) {
            let scheme = reference[..end - 1].to_ascii_lowercase();
            if REFUSED.contains(&scheme.as_str()) {
                return None;
            }
            encode(&scheme, &mut made);
            encode(&reference[end - 1..], &mut made);
            return Some(made);
        }
        let end = reference.find(['?', '#']).unwrap_or(reference.len());
        let (path, rest) = reference.split_at(end);
        let path = path.replace('\\', "/");
        made.push_str(&self.scheme);
        if !path.starts_with("//") {
            made.push_str(&self.authority);
            if path.is_empty() {
                made.push_str(&self.path);
                if !rest.starts_with('?') {
                    made.push_str(&self.query);
                }
            } else if path.starts_with('/') {
                push_path(&path, &mut made);
            } else {
                let folder = self.path.rfind('/').map_or("/", |end| &self.path[..=end]);
                push_path(&format!("{folder}{path}"), &mut made);
            }
        } else {
            encode(&path, &mut made);
        }
        encode(rest, &mut made);
        Some(made)
    }
}

/// The place behind the colon of a scheme.
fn scheme_end(url: &str) -> Option<usize> {
    let end = url.find(|each: char| !each.is_ascii_alphanumeric() && !matches!(each, '+' | '-' | '.'))?;
    (url.as_bytes()[end] == b':' && url.as_bytes()[0].is_ascii_alphabetic()).then_some(end + 1)
}

/// A path that begins with a slash, without the segments `.` and `..`.
fn push_path(path: &str, made: &mut String) {
    if !path.contains("/.") {
        return encode(path, made);
    }
    let mut kept: Vec<&str> = Vec::new();
    let last = path.split('/').skip(1).last().unwrap_or_default();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    if matches!(last, "." | "..") {
        kept.push("");
    }
    for segment in kept {
        made.push('/');
        encode(segment, made);
    }
}

/// Append what an address may hold as it is, and percent-encode the rest.
fn encode(text: &str, made: &mut String) {
    let may_stay = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'`' | b'\\' | b'|');
    if text.bytes().all(may_stay) {
        return made.push_str(text);
    }
    for byte in text.bytes() {
        if may_stay(byte) {
            made.push(byte.into());
        } else {
            made.push('%');
            for digit in [byte >> 4, byte & 15] {
                made.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
    }
}
