//! Addresses of links, made absolute and fit for Markdown.
//!
//! A reference is resolved as RFC 3986 says, with the repairs of browsers that pages need: white space around it and line
//! ends in it go, a backslash is a slash, and what no address may hold is percent-encoded.

use std::borrow::Cow;

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
        if let Some(end) = scheme_end(&reference) {
            let scheme = reference[..end].to_ascii_lowercase();
            let rest = with_path(&scheme, &reference[end..]);
            return (!REFUSED.contains(&&scheme[..end - 1])).then(|| encoded(&(scheme + &rest)));
        }
        let (path, rest) = reference.split_at(reference.find(['?', '#']).unwrap_or(reference.len()));
        let path = path.replace('\\', "/");
        let Self { scheme, authority, path: own, query } = self;
        Some(encoded(&if path.starts_with("//") {
            format!("{scheme}{path}{rest}")
        } else if path.is_empty() {
            format!("{scheme}{authority}{own}{}{rest}", if rest.starts_with('?') { "" } else { query })
        } else {
            let folder = own.rfind('/').map_or("/", |end| &own[..=end]);
            let path = if path.starts_with('/') { path } else { folder.to_owned() + &path };
            format!("{scheme}{authority}{}{rest}", without_dots(path))
        }))
    }
}

/// What stands behind the scheme of an address; of a host of the web with a path, which is a slash if there is none.
fn with_path<'a>(scheme: &str, rest: &'a str) -> Cow<'a, str> {
    let Some(host) = rest.strip_prefix("//").filter(|_| matches!(scheme, "http:" | "https:")) else {
        return rest.into();
    };
    let end = 2 + host.find(['/', '?', '#', '\\']).unwrap_or(host.len());
    let lacks_path = end > 2 && !rest[end..].starts_with(['/', '\\']);
    if lacks_path {
        format!("{}/{}", &rest[..end], &rest[end..]).into()
    } else {
        rest.into()
    }
}

/// The place behind the colon of a scheme.
fn scheme_end(url: &str) -> Option<usize> {
    let end = url.find(|each: char| !each.is_ascii_alphanumeric() && !matches!(each, '+' | '-' | '.'))?;
    (url.as_bytes()[end] == b':' && url.as_bytes()[0].is_ascii_alphabetic()).then_some(end + 1)
}

/// A path that begins with a slash, without the segments `.` and `..`.
fn without_dots(path: String) -> String {
    if !path.contains("/.") {
        return path;
    }
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    let is_folder = path.ends_with("/.") || path.ends_with("/..");
    format!("/{}{}", kept.join("/"), if is_folder && !kept.is_empty() { "/" } else { "" })
}

/// An address in which all is percent-encoded that none may hold.
fn encoded(text: &str) -> String {
    let may_stay = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'`' | b'\\' | b'|');
    if text.bytes().all(may_stay) {
        return text.to_owned();
    }
    let mut made = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if may_stay(byte) {
            made.push(byte.into());
        } else {
            made.push_str(&format!("%{byte:02X}"));
        }
    }
    made
}
