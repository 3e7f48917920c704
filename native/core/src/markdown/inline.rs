//! The text of one paragraph, heading or cell with its marks, written as Markdown.
//!
//! Text is gathered in runs of the same style, so that marks come out nested however they were nested in the page.

use std::ops::Range;

/// Styles of text, as bits.
pub const STRONG: u32 = 1;
pub const EMPHASIS: u32 = 2;
pub const STRUCK: u32 = 4;
pub const SUBSCRIPT: u32 = 8;
pub const SUPERSCRIPT: u32 = 16;
/// Code has at least this style: the number of its element times it.
pub const CODE: u32 = 32;

/// Marks that open and close, a link before the others.  Markdown has none for subscripts and superscripts but HTML.
const MARKS: [(u32, &str, &str); 5] = [
    (STRONG, "**", "**"),
    (EMPHASIS, "*", "*"),
    (STRUCK, "~~", "~~"),
    (SUBSCRIPT, "<sub>", "</sub>"),
    (SUPERSCRIPT, "<sup>", "</sup>"),
];
const LINK: usize = MARKS.len();

/// What separates a run from the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gap {
    #[default]
    Nothing,
    Space,
    Break,
}

/// A part of a paragraph in one style, without the white space around it.
struct Run {
    /// Its place in the page's text; of what is Markdown already, in `Inline::made`.
    text: Range<usize>,
    is_made: bool,
    gap: Gap,
    style: u32,
    /// Number of the link in `Inline::links`, from 1 on; 0 for none.
    link: u32,
    /// By mark: the number of the last run up to which it goes on.
    reach: [usize; LINK + 1],
}

impl Run {
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
        !self.is_made && self.style < CODE
    }
}

/// Where text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Paragraph,
    Heading,
    Cell,
}

/// The paragraph that is being read.
#[derive(Default)]
pub struct Inline<'a> {
    /// The text of the page, of which runs are parts.
    text: &'a str,
    runs: Vec<Run>,
    made: String,
    /// What separates the next run from the last one.
    gap: Gap,
    /// Addresses of the page's links.
    pub links: Vec<String>,
    /// What stands between `\(` and `\)` is a formula.
    keeps_formulas: bool,
}

impl<'a> Inline<'a> {
    pub fn new(text: &'a str, keeps_formulas: bool) -> Self {
        Self { text, keeps_formulas, ..Self::default() }
    }

    /// Whether nothing was gathered.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Forget what was gathered.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.made.clear();
        self.gap = Gap::Nothing;
    }

    /// Whether the last run is Markdown already.
    pub fn ends_made(&self) -> bool {
        self.runs.last().is_some_and(|run| run.is_made)
    }

    /// Let white space follow; gives whether a line has ended here before.
    pub fn widen(&mut self, gap: Gap) -> bool {
        let has_ended = self.gap == Gap::Break;
        self.gap = self.gap.max(gap);
        has_ended
    }

    /// Gather Markdown that stands as it is.
    pub fn push_made(&mut self, markdown: &str, link: u32) {
        let start = self.made.len();
        self.made.push_str(markdown);
        self.add(start..self.made.len(), true, 0, link);
    }

    /// Gather a part of the text, in which single blanks and line ends separate words.
    pub fn push(&mut self, range: Range<usize>, style: u32, link: u32) {
        let bytes = self.text.as_bytes();
        let mut start = range.start;
        while start < range.end {
            if matches!(bytes[start], b' ' | b'\n') {
                // The first line end may come of an image; an element that breaks the line has said so.
                self.widen(if start == range.start || bytes[start] == b' ' { Gap::Space } else { Gap::Break });
                start += 1;
                continue;
            }
            let end = memchr::memchr(b'\n', &bytes[start..range.end]).map_or(range.end, |at| start + at);
            let has_blank = bytes[end - 1] == b' ';
            self.add(start..end - usize::from(has_blank), false, style, link);
            self.gap = if has_blank { Gap::Space } else { Gap::Nothing };
            start = end;
        }
    }

    fn add(&mut self, text: Range<usize>, is_made: bool, style: u32, link: u32) {
        let gap = if self.runs.is_empty() { Gap::Nothing } else { self.gap };
        self.gap = Gap::Nothing;
        if let Some(last) = self.runs.last_mut().filter(|last| !is_made && !last.is_made && last.link == link) {
            let between = &self.text[last.text.end..text.start];
            // Spans of code that touch are one.
            let is_same = last.style == style
                || (between.is_empty() && style.min(last.style) >= CODE && (style ^ last.style) & (CODE - 1) == 0);
            if is_same && between == ["", " ", "\n"][gap as usize] && gap != Gap::Break {
                last.text.end = text.end;
                return;
            }
        }
        self.runs.push(Run { text, is_made, gap, style, link, reach: [0; LINK + 1] });
    }

    /// What was gathered as Markdown; lines end only in a paragraph.
    pub fn write(&mut self, form: Form, out: &mut String) {
        if let [Run { text, is_made: false, style: 0, link: 0, .. }] = &self.runs[..] {
            let text = &self.text[text.clone()];
            if !text.bytes().any(|byte| SPECIAL[usize::from(byte)]) {
                return out.push_str(text);
            }
        }
        self.reach(form);
        let runs = &self.runs;
        let begin = out.len();
        // Open marks, outermost first, and up to which run a mark is not to be opened.
        let mut open: Vec<usize> = Vec::new();
        let mut refused = [0; LINK];
        for (number, run) in runs.iter().enumerate() {
            let before = number.checked_sub(1).map(|before| &runs[before]);
            let goes_on = |&mark: &usize| run.has(mark) && before.is_some_and(|before| before.reach[mark] >= number);
            let kept = open.iter().position(|mark| !goes_on(mark)).unwrap_or(open.len());
            let has_closed = kept < open.len();
            while open.len() > kept {
                let mark = open.pop().unwrap_or_default();
                self.close(mark, before.map_or(0, |before| before.link), out);
            }
            let gap = if number == 0 { Gap::Nothing } else { run.gap };
            match gap {
                Gap::Nothing => {}
                Gap::Break if form == Form::Paragraph => out.push_str("\\\n"),
                _ => out.push(' '),
            }
            let mut missing: Vec<usize> = (0..=LINK).filter(|mark| run.has(*mark) && !open.contains(mark)).collect();
            missing.sort_by_key(|&mark| std::cmp::Reverse((run.reach[mark], mark)));
            for mark in missing {
                if mark == LINK {
                    if out.len() > begin && out.ends_with('!') {
                        out.pop();
                        out.push_str("\\!");
                    }
                    out.push('[');
                } else if refused[mark] > number
                    || (MARKS[mark].0 < SUBSCRIPT
                        && ((has_closed && gap == Gap::Nothing && MARKS[mark].0 != STRUCK)
                            || !self.may_open(number, mark, out[begin..].chars().next_back())))
                {
                    refused[mark] = run.reach[mark] + 1;
                    continue;
                } else {
                    out.push_str(MARKS[mark].1);
                }
                open.push(mark);
            }
            let after = runs.get(number + 1).map_or(' ', |next| self.first_of(next));
            let text = self.text_of(run);
            match (run.is_made, form == Form::Cell) {
                (true, true) => out.push_str(&text.replace('|', "\\|")),
                (true, false) => out.push_str(text),
                (false, is_cell) if run.style >= CODE => push_code(text, is_cell, out),
                _ => self.escape(text, run.link != 0, form, after, begin, out),
            }
        }
        let last = runs.last().map_or(0, |run| run.link);
        while let Some(mark) = open.pop() {
            self.close(mark, last, out);
        }
    }

    fn close(&self, mark: usize, link: u32, out: &mut String) {
        if mark == LINK {
            out.push_str("](");
            push_address(&self.links[link as usize - 1], out);
            out.push(')');
        } else {
            out.push_str(MARKS[mark].2);
        }
    }

    /// Find how far each mark goes on.
    fn reach(&mut self, form: Form) {
        for number in (0..self.runs.len()).rev() {
            let (before, behind) = self.runs.split_at_mut(number + 1);
            let run = &mut before[number];
            run.style &= if form == Form::Heading { !STRONG } else { u32::MAX };
            // A link to a note is readable as it is.
            run.style &= if run.link != 0 { !(SUBSCRIPT | SUPERSCRIPT) } else { u32::MAX };
            run.reach = [number; LINK + 1];
            if let Some(next) = behind.first() {
                for mark in 0..=LINK {
                    if run.has(mark) && next.has(mark) && (mark != LINK || run.link == next.link) {
                        run.reach[mark] = next.reach[mark];
                    }
                }
            }
        }
    }

    fn text_of(&self, run: &Run) -> &str {
        if run.is_made {
            &self.made[run.text.clone()]
        } else {
            &self.text[run.text.clone()]
        }
    }

    /// The first character of a run as it is written, or a space.
    fn first_of(&self, run: &Run) -> char {
        match run.gap {
            Gap::Nothing if run.is_plain() && run.link == 0 => self.text_of(run).chars().next().unwrap_or(' '),
            Gap::Nothing => '[',
            _ => ' ',
        }
    }

    /// Whether a mark is read as one that opens before a run, and its end as one that closes.
    fn may_open(&self, number: usize, mark: usize, before: Option<char>) -> bool {
        let is_apart = |each: char| each.is_whitespace() || each.is_ascii_punctuation();
        let (run, last) = (&self.runs[number], &self.runs[self.runs[number].reach[mark]]);
        let behind = self.runs.get(run.reach[mark] + 1).map_or(' ', |next| self.first_of(next));
        let is_word = |run: &Run, each: Option<char>| {
            let is_bare = run.is_plain() && run.link == 0 && run.style == MARKS[mark].0;
            is_bare && each.is_some_and(char::is_alphanumeric)
        };
        (is_word(run, self.text_of(run).chars().next()) || before.is_none_or(is_apart))
            && (is_word(last, self.text_of(last).chars().next_back()) || is_apart(behind))
    }

    /// Append text, so that it is read as it is.
    fn escape(&self, text: &str, is_link: bool, form: Form, after: char, begin: usize, out: &mut String) {
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
                b'[' => is_link,
                b']' => is_link || matches!(next, '(' | '[' | ':'),
                b'<' => next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?'),
                b'&' => is_reference(&bytes[at + 1..]),
                b'~' => next == '~' || before() == '~',
                b'|' => form == Form::Cell,
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

/// A span of code whose fence is longer than any in its text.
fn push_code(text: &str, in_cell: bool, out: &mut String) {
    let fence = longest_run(text, b'`') + 1;
    let padding = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    // Spans that touch would be one.
    out.push_str(if out.ends_with('`') { " " } else { "" });
    out.extend(std::iter::repeat_n('`', fence));
    out.push_str(padding);
    if in_cell {
        out.push_str(&text.replace('|', "\\|"));
    } else {
        out.push_str(text);
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
