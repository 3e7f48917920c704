//! What is HTML: `is_html` of `docstore/dedup/reference.py`.

const BINARY_STARTS: [&[u8]; 7] =
    [b"%PDF-", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b\x08", b"Rar!\x1a"];
const OTHER_ROOTS: [&[u8]; 6] = [b"rss", b"feed", b"rdf:RDF", b"svg", b"urlset", b"sitemapindex"];
const HEAD_BYTES: usize = 1024;

/// Whether a body is read as HTML.
pub fn is_html(body: &[u8], content_type: &str) -> bool {
    if BINARY_STARTS.iter().any(|start| body.starts_with(start)) {
        return false;
    }
    let is_space = |each: char| each.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&each);
    let media_type = content_type.split(';').next().unwrap_or("").trim_matches(is_space);
    if !media_type.is_empty() {
        return ["text/html", "application/xhtml+xml"].iter().any(|html| media_type.eq_ignore_ascii_case(html));
    }
    let head = &body[..body.len().min(HEAD_BYTES)];
    if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") {
        let without_zeros: Vec<u8> = head[2..].iter().copied().filter(|&byte| byte != 0).collect();
        return begins_as_html(&without_zeros);
    }
    !head.contains(&0) && begins_as_html(head)
}

fn begins_as_html(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let blanks = head.iter().take_while(|byte| matches!(byte, b'\t'..=b'\r' | b' ')).count();
    let Some(behind) = head[blanks..].strip_prefix(b"<") else { return false };
    let starts = |name: &[u8]| behind.len() >= name.len() && behind[..name.len()].eq_ignore_ascii_case(name);
    let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    if OTHER_ROOTS.iter().any(|root| starts(root) && !is_word(behind.get(root.len()))) {
        return false;
    }
    match behind.first() {
        Some(byte) if byte.is_ascii_alphabetic() || *byte == b'!' => true,
        _ => starts(b"?xml") && behind[4..].windows(5).any(|part| part.eq_ignore_ascii_case(b"<html")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
