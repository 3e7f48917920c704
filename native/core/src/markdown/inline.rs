//! The text of one paragraph, heading or cell with its marks, written as Markdown.
//!
//! Text is gathered in runs of the same style, so that marks come out nested however they were nested in the page.

use crate::bytes::{is_space, is_wide_space, sequence_length};
use crate::references::decode;

/// Styles of text, as bits.
pub const STRONG: u8 = 1;
pub const EMPHASIS: u8 = 2;
pub const STRUCK: u8 = 4;
pub const CODE: u8 = 8;

/// Marks that open and close, a link before the others.
const MARKS: [(u8, &str); 3] = [(STRONG, "**"), (EMPHASIS, "*"), (STRUCK, "~~")];
const LINK: usize = MARKS.len();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    /// Markdown, as it is to be written.
    Made,
    Break,
}

/// A part of a paragraph.
#[derive(Clone, Copy, Debug)]
struct Run {
    kind: Kind,
    start: usize,
    end: usize,
    style: u8,
    /// Number of the link in `Inline::links`, from 1 on; 0 for none.
    link: u32,
}

/// What separates a piece from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    Nothing,
    Space,
    Break,
}

/// A run without the white space around it.
struct Piece<'a> {
    kind: Kind,
    text: &'a str,
    gap: Gap,
    style: u8,
    link: u32,
    /// By mark: the number of the last piece up to which it goes on.
    reach: [usize; LINK + 1],
}

impl Piece<'_> {
    /// Whether it has a mark, of which a link is the last.
    fn has(&self, mark: usize) -> bool {
        if mark == LINK {
            self.link != 0
        } else {
            self.style & MARKS[mark].0 != 0
        }
    }

    /// Whether it is written as the text that it is.
    fn is_plain(&self) -> bool {
        self.kind == Kind::Text && self.style & CODE == 0
    }
}

/// Where text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Paragraph,
    Heading,
    Cell,
}

/// The paragraph that is being read.
#[derive(Default)]
pub struct Inline {
    text: Vec<u8>,
    runs: Vec<Run>,
    /// White space follows, and the style that it has.
    gap: Option<u8>,
    /// Addresses of the page's links.
    pub links: Vec<String>,
    /// What stands between `\(` and `\)` is a formula.
    pub keeps_formulas: bool,
}

impl Inline {
    /// Whether nothing was gathered.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Forget what was gathered.
    pub fn clear(&mut self) {
        self.text.clear();
        self.runs.clear();
        self.gap = None;
    }

    /// Where the next text will stand.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Let white space of a style follow.
    pub fn gap(&mut self, style: u8) {
        self.gap = self.gap.or(Some(style));
    }

    /// Take back what was gathered from a place on, if it has no letter and no digit.
    pub fn drop_sign(&mut self, place: usize) {
        let text = self.text.get(place..).unwrap_or_default();
        if !String::from_utf8_lossy(text).contains(char::is_alphanumeric) {
            self.text.truncate(place);
            self.runs.retain(|run| run.start < place);
            if let Some(run) = self.runs.last_mut() {
                run.end = run.end.min(place);
            }
        }
    }

    /// Gather Markdown that stands as it is.
    pub fn push_made(&mut self, markdown: &str, link: u32) {
        self.begin(Kind::Made, 0, link);
        self.text.extend_from_slice(markdown.as_bytes());
        self.end();
    }

    /// Gather an image.
    pub fn push_image(&mut self, alt: &str, address: &str, link: u32) {
        let mut made = "![".to_owned();
        for character in alt.chars() {
            made.push_str(if matches!(character, '[' | ']' | '\\' | '`' | '<' | '*' | '_' | '&') { "\\" } else { "" });
            made.push(character);
        }
        made.push_str("](");
        push_address(address, &mut made);
        made.push(')');
        self.push_made(&made, link);
    }

    /// End the line; gives whether two lines end here.
    pub fn push_break(&mut self) -> bool {
        let is_second = self.runs.last().is_some_and(|run| run.kind == Kind::Break);
        self.gap = None;
        if !self.runs.is_empty() && !is_second {
            self.begin(Kind::Break, 0, 0);
        }
        is_second
    }

    /// Gather text; character references count, white space is folded.
    pub fn push(&mut self, source: &[u8], style: u8, link: u32) {
        let mut decoded = Vec::new();
        if memchr::memchr(b'&', source).is_some() {
            decode(source, false, &mut decoded);
        }
        let text = if decoded.is_empty() { source } else { &decoded };
        let (mut place, mut has_begun) = (0, false);
        while let Some(&byte) = text.get(place) {
            let length = sequence_length(byte);
            if is_space(byte) || (length > 1 && is_wide_space(&text[place..(place + length).min(text.len())])) {
                self.gap(style);
                place += length;
                continue;
            }
            if !has_begun {
                self.begin(Kind::Text, style, link);
                has_begun = true;
            } else if self.gap.take().is_some() {
                self.text.push(b' ');
            }
            // Up to what is, or may begin, white space.
            let may_end = |&byte: &u8| byte <= b' ' || matches!(byte, 0xc2 | 0xe1..=0xe3);
            let start = place;
            place += length;
            place += text[place.min(text.len())..].iter().position(may_end).unwrap_or(text.len());
            place = place.min(text.len());
            self.text.extend_from_slice(&text[start..place]);
        }
        if has_begun {
            self.end();
        }
    }

    /// Begin a run, or go on with the last one.
    fn begin(&mut self, kind: Kind, style: u8, link: u32) {
        let start = self.text.len();
        // Spans of code with a space between are not one.
        let is_apart = style & CODE != 0 && self.gap.is_some_and(|gap| gap & CODE == 0);
        let is_same = |run: &Run| run.kind == kind && run.style == style && run.link == link;
        let goes_on = |run: &Run| kind == Kind::Text && !is_apart && is_same(run);
        if !self.runs.last().is_some_and(goes_on) {
            self.runs.push(Run { kind, start, end: start, style, link });
        }
        if self.gap.take().is_some() {
            self.text.push(b' ');
        }
    }

    fn end(&mut self) {
        if let Some(run) = self.runs.last_mut() {
            run.end = self.text.len();
        }
    }

    /// What was gathered as Markdown; lines end only in a paragraph.
    pub fn write(&self, place: Place, out: &mut String) {
        let text = std::str::from_utf8(&self.text).unwrap_or_default();
        if let ([Run { kind: Kind::Text, style: 0, link: 0, .. }], true) = (&self.runs[..], self.is_plain()) {
            return out.push_str(text.trim_matches(' '));
        }
        let pieces = self.pieces(text, place);
        let begin = out.len();
        // Open marks, outermost first, and up to which piece a mark is not to be opened.
        let mut open: Vec<usize> = Vec::new();
        let mut refused = [0; LINK];
        for (number, piece) in pieces.iter().enumerate() {
            let before = number.checked_sub(1).map(|before| &pieces[before]);
            let goes_on = |&mark: &usize| piece.has(mark) && before.is_some_and(|before| before.reach[mark] >= number);
            let kept = open.iter().position(|mark| !goes_on(mark)).unwrap_or(open.len());
            let has_closed = kept < open.len();
            while open.len() > kept {
                let mark = open.pop().unwrap_or_default();
                self.close(mark, before.map_or(0, |before| before.link), out);
            }
            let gap = if number == 0 { Gap::Nothing } else { piece.gap };
            match gap {
                Gap::Nothing => {}
                Gap::Break if place == Place::Paragraph => out.push_str("\\\n"),
                _ => out.push(' '),
            }
            let mut missing: Vec<usize> = (0..=LINK).filter(|mark| piece.has(*mark) && !open.contains(mark)).collect();
            missing.sort_by_key(|&mark| std::cmp::Reverse((piece.reach[mark], mark)));
            for mark in missing {
                if mark == LINK {
                    if out.len() > begin && out.ends_with('!') {
                        out.pop();
                        out.push_str("\\!");
                    }
                    out.push('[');
                } else if refused[mark] > number
                    || (has_closed && gap == Gap::Nothing && MARKS[mark].0 != STRUCK)
                    || !may_open(&pieces, number, mark, out[begin..].chars().next_back())
                {
                    refused[mark] = piece.reach[mark] + 1;
                    continue;
                } else {
                    out.push_str(MARKS[mark].1);
                }
                open.push(mark);
            }
            let after = pieces.get(number + 1).map_or(' ', first_of);
            match piece.kind {
                Kind::Made if place == Place::Cell => out.push_str(&piece.text.replace('|', "\\|")),
                Kind::Made | Kind::Break => out.push_str(piece.text),
                Kind::Text if piece.style & CODE != 0 => push_code(piece.text, place == Place::Cell, out),
                Kind::Text => self.escape(piece, place, after, begin, out),
            }
        }
        let last = pieces.last().map_or(0, |piece| piece.link);
        while let Some(mark) = open.pop() {
            self.close(mark, last, out);
        }
    }

    /// Whether nothing has to be escaped.
    fn is_plain(&self) -> bool {
        !self.text.iter().any(|&byte| SPECIAL[usize::from(byte)])
    }

    fn close(&self, mark: usize, link: u32, out: &mut String) {
        if mark == LINK {
            out.push_str("](");
            push_address(&self.links[link as usize - 1], out);
            out.push(')');
        } else {
            out.push_str(MARKS[mark].1);
        }
    }

    fn pieces<'a>(&self, text: &'a str, place: Place) -> Vec<Piece<'a>> {
        let mut pieces: Vec<Piece> = Vec::with_capacity(self.runs.len());
        let mut gap = Gap::Nothing;
        for run in &self.runs {
            let whole = &text[run.start..run.end];
            let trimmed = whole.trim_matches(' ');
            if run.kind == Kind::Break {
                gap = Gap::Break;
            } else if whole.starts_with(' ') {
                gap = gap.max(Gap::Space);
            }
            if trimmed.is_empty() {
                continue;
            }
            let style = if place == Place::Heading { run.style & !STRONG } else { run.style };
            let link = run.link;
            pieces.push(Piece { kind: run.kind, text: trimmed, gap, style, link, reach: [pieces.len(); LINK + 1] });
            gap = if whole.ends_with(' ') { Gap::Space } else { Gap::Nothing };
        }
        for number in (1..pieces.len()).rev() {
            for mark in 0..=LINK {
                let goes_on = pieces[number - 1].has(mark) && pieces[number].has(mark);
                if goes_on && (mark != LINK || pieces[number - 1].link == pieces[number].link) {
                    pieces[number - 1].reach[mark] = pieces[number].reach[mark];
                }
            }
        }
        pieces
    }

    /// Append text, so that it is read as it is.
    fn escape(&self, piece: &Piece, place: Place, after: char, begin: usize, out: &mut String) {
        let text = piece.text;
        let bytes = text.as_bytes();
        let (mut done, mut at) = (0, 0);
        let mut ends_formula = [true; 3];
        while let Some(found) = bytes[at..].iter().position(|&byte| SPECIAL[usize::from(byte)]) {
            at += found;
            let byte = bytes[at];
            let next = text[at + 1..].chars().next().unwrap_or(after);
            let before = || text[..at].chars().next_back().or_else(|| out[begin..].chars().next_back()).unwrap_or(' ');
            let is_escaped = match byte {
                b'*' => !(before() == ' ' && next == ' '),
                b'_' => {
                    let end = at + bytes[at..].iter().take_while(|&&byte| byte == b'_').count();
                    let behind = text[end..].chars().next().unwrap_or(after);
                    if before().is_alphanumeric() && behind.is_alphanumeric() {
                        at = end;
                        continue;
                    }
                    true
                }
                b'\\' | b'$' if self.keeps_formulas => {
                    if let Some(end) = formula_end(text, at, &mut ends_formula) {
                        out.push_str(&text[done..at]);
                        push_tex(&text[at..end], out);
                        (done, at) = (end, end);
                        continue;
                    }
                    byte == b'\\' && (next.is_ascii_punctuation() || at + 1 == bytes.len())
                }
                b'\\' => next.is_ascii_punctuation() || at + 1 == bytes.len(),
                b'[' => piece.link != 0,
                b']' => piece.link != 0 || matches!(next, '(' | '[' | ':'),
                b'<' => next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?'),
                b'&' => is_reference(&bytes[at + 1..]),
                b'~' => next == '~' || before() == '~',
                b'|' => place == Place::Cell,
                _ => byte == b'`',
            };
            if is_escaped {
                out.push_str(&text[done..at]);
                out.push('\\');
                done = at;
            }
            at += 1;
        }
        out.push_str(&text[done..]);
    }
}

/// Bytes that may have to be escaped.
static SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut place = 0;
    let all = b"*_\\[]<&~|`$";
    while place < all.len() {
        special[all[place] as usize] = true;
        place += 1;
    }
    special
};

/// The first character of a piece as it is written, or a space.
fn first_of(piece: &Piece) -> char {
    if piece.gap != Gap::Nothing {
        return ' ';
    }
    if piece.is_plain() && piece.link == 0 {
        piece.text.chars().next().unwrap_or(' ')
    } else {
        '['
    }
}

/// Whether a mark is read as one that opens before a piece, and its end as one that closes.
fn may_open(pieces: &[Piece], number: usize, mark: usize, before: Option<char>) -> bool {
    let is_apart = |each: char| each.is_whitespace() || each.is_ascii_punctuation();
    let (piece, last) = (&pieces[number], &pieces[pieces[number].reach[mark]]);
    let behind = pieces.get(piece.reach[mark] + 1).map_or(' ', first_of);
    let is_word = |piece: &Piece, each: Option<char>| {
        let is_bare = piece.is_plain() && piece.link == 0 && piece.style == MARKS[mark].0;
        is_bare && each.is_some_and(char::is_alphanumeric)
    };
    (is_word(piece, piece.text.chars().next()) || before.is_none_or(is_apart))
        && (is_word(last, last.text.chars().next_back()) || is_apart(behind))
}

/// A span of code whose fence is longer than any in its text.
fn push_code(text: &str, in_cell: bool, out: &mut String) {
    let fence = longest_run(text, b'`') + 1;
    let padding = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    // Spans that touch would be one.
    out.push_str(if out.ends_with('`') { " " } else { "" });
    out.extend(std::iter::repeat_n('`', fence));
    out.push_str(padding);
    for (number, part) in text.split('|').enumerate() {
        out.push_str(if number == 0 {
            ""
        } else if in_cell {
            "\\|"
        } else {
            "|"
        });
        out.push_str(part);
    }
    out.push_str(padding);
    out.extend(std::iter::repeat_n('`', fence));
}

/// The length of the longest run of a byte.
pub fn longest_run(text: &str, wanted: u8) -> usize {
    let (mut longest, mut length) = (0, 0);
    for byte in text.bytes() {
        length = if byte == wanted { length + 1 } else { 0 };
        longest = longest.max(length);
    }
    longest
}

/// Append a formula, so that no tag is read in it.
pub fn push_tex(tex: &str, out: &mut String) {
    let mut rest = tex;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
        if rest.starts_with(|next: char| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?')) {
            out.push(' ');
        }
    }
    out.push_str(rest);
}

/// Append an address in brackets that are balanced.
pub fn push_address(address: &str, out: &mut String) {
    let mut depth = 0i64;
    let is_balanced = address.bytes().all(|byte| {
        depth += i64::from(byte == b'(') - i64::from(byte == b')');
        depth >= 0
    });
    if is_balanced && depth == 0 {
        out.push_str(address);
    } else {
        out.push_str(&address.replace('(', "%28").replace(')', "%29"));
    }
}

/// The end of the formula in TeX that begins at a place; `ends` has which kinds may still end in the text.
fn formula_end(text: &str, at: usize, ends: &mut [bool; 3]) -> Option<usize> {
    const SIGNS: [(&str, &str); 3] = [("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$")];
    let kind = SIGNS.iter().position(|(begin, _)| text[at..].starts_with(begin)).filter(|&kind| ends[kind])?;
    let found = text[at + 2..].find(SIGNS[kind].1).map(|end| at + 2 + end + 2);
    ends[kind] = found.is_some();
    found
}

/// Whether what stands behind an ampersand makes it a character reference.
fn is_reference(bytes: &[u8]) -> bool {
    let name = bytes.iter().take(40).take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'#').count();
    name != 0 && bytes.get(name) == Some(&b';')
}

/// Where a line needs a backslash, lest it begin another block than a paragraph.
pub fn guarded(line: &str) -> Option<usize> {
    let bytes = line.as_bytes();
    let first = *bytes.first()?;
    let run = bytes.iter().take_while(|&&byte| byte == first).count();
    let ends_at = |place: usize| bytes.get(place).is_none_or(|&byte| byte == b' ' || byte == b'\\');
    let is_needed = match first {
        b'#' => run <= 6 && ends_at(run),
        b'>' => true,
        b'=' => run == bytes.len(),
        b'+' | b'*' => ends_at(1),
        b'-' | b':' | b'|' => ends_at(1) || bytes.iter().all(|byte| b"-:| ".contains(byte)),
        b'[' => matches!(bytes.get(1), Some(b' ' | b'x' | b'X')) && bytes.get(2) == Some(&b']') && ends_at(3),
        b'0'..=b'9' => {
            let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let is_item = digits < 10 && matches!(bytes.get(digits), Some(b'.' | b')')) && ends_at(digits + 1);
            return is_item.then_some(digits);
        }
        _ => false,
    };
    is_needed.then_some(0)
}
