//! Regular expressions of strangers, in the syntax of RE2, matched in linear time.
//!
//! Clients of web archives send RE2's syntax, and the crate `regex` reads a dialect of its own: its `\d`, `\w`, `\s` and
//! `\b` are of Unicode, a class may hold classes and operators, `\Q` is unknown, and `a**` is allowed.  `translate`
//! writes an expression anew in that dialect, with one meaning for each part, or says what RE2 would refuse.

use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

use regex::bytes::{Regex, RegexBuilder};

/// As in RE2.
const MOST_REPETITIONS: u32 = 1000;

/// Names of classes in `[[:name:]]`.
const NAMED: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// An expression that matches at the beginning of a text, or the whole text.
pub struct Expression(Regex);

impl Expression {
    /// Compile an expression into at most so many bytes; an error says why that cannot be done.
    pub fn new(source: &str, limit_bytes: usize, whole: bool) -> Result<Self, String> {
        let translated = translate(source)?;
        let end = if whole { r"\z" } else { "" };
        let built = RegexBuilder::new(&format!(r"\A(?:{translated}){end}")).size_limit(limit_bytes).build();
        built.map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
            error => error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
        })
    }

    pub fn matches(&self, text: &str) -> bool {
        self.0.is_match(text.as_bytes())
    }
}

/// The meaning of an expression of RE2 in the dialect of the crate `regex`.
fn translate(source: &str) -> Result<String, String> {
    let mut rest = source.chars().peekable();
    let mut made = String::new();
    let mut depth = 0;
    // Whether the last part was `*`, `+`, `?` or a count: RE2 refuses another one behind it.
    let mut is_repeated = false;
    while let Some(character) = rest.next() {
        let was_repeated = std::mem::take(&mut is_repeated);
        match character {
            '*' | '+' | '?' => {
                is_repeated = true;
                made.push(character);
            }
            '{' => match count(&mut rest) {
                Some(counted) => {
                    is_repeated = true;
                    made.push_str(&counted?);
                }
                None => made.push_str(r"\{"),
            },
            '\\' => escape(&mut rest, &mut made)?,
            '[' => class(&mut rest, &mut made)?,
            '(' => depth += usize::from(group(&mut rest, &mut made)?),
            ')' if depth == 0 => return Err("a ) without its (".to_owned()),
            ')' => {
                depth -= 1;
                made.push(character);
            }
            '|' | '^' | '$' | '.' => made.push(character),
            literal => push_literal(literal, &mut made),
        }
        if is_repeated {
            if was_repeated {
                return Err("a repetition follows a repetition".to_owned());
            }
            made.extend(rest.next_if_eq(&'?'));
        }
    }
    Ok(made)
}

fn push_literal(character: char, made: &mut String) {
    if character.is_ascii_alphanumeric() {
        made.push(character);
    } else {
        let _ = write!(made, r"\x{{{:x}}}", u32::from(character));
    }
}

/// What follows `{` of a count, with both braces; None, with nothing taken, if the brace is a literal one.
fn count(rest: &mut Peekable<Chars<'_>>) -> Option<Result<String, String>> {
    let inner: String = rest.clone().take_while(|character| *character != '}').collect();
    let (least, most) = inner.split_once(',').unwrap_or((&inner, &inner));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let closes = rest.clone().nth(inner.chars().count()) == Some('}');
    if !closes || !is_number(least) || !(most.is_empty() || is_number(most)) {
        return None;
    }
    rest.nth(inner.chars().count());
    let bound = |digits: &str| digits.parse().unwrap_or(u32::MAX);
    let largest = if most.is_empty() { bound(least) } else { bound(most) };
    if largest > MOST_REPETITIONS || bound(least) > largest {
        return Some(Err(format!("bad repetition {{{inner}}}; at most {MOST_REPETITIONS}")));
    }
    Some(Ok(format!("{{{inner}}}")))
}

/// `(` with the flags of RE2, or with the name of a group, which is left out: nothing asks what a group has matched.
/// Gives whether a group begins: `(?i)` sets flags and is none.
fn group(rest: &mut Peekable<Chars<'_>>, made: &mut String) -> Result<bool, String> {
    made.push_str("(?");
    if rest.next_if_eq(&'?').is_none() {
        made.push(':');
        return Ok(true);
    }
    let is_named = rest.next_if_eq(&'P').is_some();
    if rest.next_if_eq(&'<').is_some() {
        let name: String = rest.by_ref().take_while(|character| *character != '>').collect();
        if name.is_empty() || !name.chars().all(|letter| letter.is_alphanumeric() || letter == '_') {
            return Err("look-around is not known, and the name of a group has letters, digits and _".to_owned());
        }
        made.push(':');
        return Ok(true);
    }
    while !is_named {
        match rest.next() {
            Some(flag @ ('i' | 'm' | 's' | 'U' | '-')) => made.push(flag),
            Some(end @ (':' | ')')) => {
                made.push(end);
                return Ok(end == ':');
            }
            _ => break,
        }
    }
    Err("an unknown flag, a back reference or look-around behind (?".to_owned())
}

/// Classes of ASCII by their letters; `\s` has no vertical tab in RE2.
fn members(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => r"[\t\n\f\r ]",
        'S' => r"[^\t\n\f\r ]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        _ => return None,
    })
}

/// What follows a backslash outside of a class.
fn escape(rest: &mut Peekable<Chars<'_>>, made: &mut String) -> Result<(), String> {
    let letter = *rest.peek().ok_or("a backslash at the end")?;
    if let Some(members) = members(letter) {
        rest.next();
        made.push_str(members);
        return Ok(());
    }
    match letter {
        'A' | 'z' => {
            rest.next();
            made.extend(['\\', letter]);
        }
        'b' | 'B' => {
            rest.next();
            let _ = write!(made, r"(?-u:\{letter})");
        }
        'C' => {
            rest.next();
            made.push_str("(?s:.)");
        }
        'Q' => {
            rest.next();
            while let Some(character) = rest.next() {
                if character == '\\' && rest.next_if_eq(&'E').is_some() {
                    break;
                }
                push_literal(character, made);
            }
        }
        'p' | 'P' => property(rest, made)?,
        _ => push_literal(code_point(rest)?, made),
    }
    Ok(())
}

/// `\pL`, `\p{Greek}`, `\p{^Greek}`, from the letter on.
fn property(rest: &mut Peekable<Chars<'_>>, made: &mut String) -> Result<(), String> {
    let mut is_negated = rest.next() == Some('P');
    let name: String = match rest.next() {
        Some('{') => rest.by_ref().take_while(|character| *character != '}').collect(),
        Some(letter) => letter.to_string(),
        None => return Err(r"\p without a name".to_owned()),
    };
    let plain = name.strip_prefix('^').unwrap_or(&name);
    is_negated ^= plain.len() < name.len();
    if plain.is_empty() || !plain.chars().all(|character| character.is_ascii_alphanumeric() || character == '_') {
        return Err(format!(r"no property is named {name:?}"));
    }
    let letter = if is_negated { 'P' } else { 'p' };
    if plain == "Any" {
        made.push_str(if is_negated { "[^\\x{0}-\\x{10ffff}]" } else { "[\\x{0}-\\x{10ffff}]" });
    } else {
        let _ = write!(made, r"\{letter}{{{plain}}}");
    }
    Ok(())
}

/// The character that an escape stands for, from behind its backslash on.
fn code_point(rest: &mut Peekable<Chars<'_>>) -> Result<char, String> {
    let letter = rest.next().ok_or("a backslash at the end")?;
    let number = |digits: &str, radix| {
        let found = u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
        found.ok_or_else(|| format!("no character has the number {digits}"))
    };
    match letter {
        'a' => Ok('\x07'),
        'f' => Ok('\x0c'),
        'n' => Ok('\n'),
        'r' => Ok('\r'),
        't' => Ok('\t'),
        'v' => Ok('\x0b'),
        'x' => {
            let digits: String = match rest.next() {
                Some('{') => rest.by_ref().take_while(|character| *character != '}').collect(),
                Some(first) => [Some(first), rest.next()].into_iter().flatten().collect(),
                None => String::new(),
            };
            number(&digits, 16)
        }
        '0'..='7' => {
            let mut digits = letter.to_string();
            for _ in 0..2 {
                digits.extend(rest.next_if(|digit| matches!(digit, '0'..='7')));
            }
            if letter != '0' && digits.len() == 1 {
                return Err("back references are not known".to_owned());
            }
            number(&digits, 8)
        }
        letter if letter.is_ascii() && !letter.is_ascii_alphanumeric() => Ok(letter),
        letter => Err(format!(r"the escape \{letter} is not known")),
    }
}

/// A class, from behind its bracket on.
fn class(rest: &mut Peekable<Chars<'_>>, made: &mut String) -> Result<(), String> {
    made.push('[');
    made.extend(rest.next_if_eq(&'^'));
    let mut is_first = true;
    loop {
        let character = rest.next().ok_or("a class does not end")?;
        if character == ']' && !is_first {
            made.push(']');
            return Ok(());
        }
        is_first = false;
        let behind = rest.peek().copied();
        if character == '[' && behind == Some(':') {
            let name: String = rest.clone().skip(1).take_while(|character| *character != ']').collect();
            if let Some(plain) = name.strip_suffix(':') {
                if !NAMED.contains(&plain.strip_prefix('^').unwrap_or(plain)) {
                    return Err(format!("no class is named {plain:?}"));
                }
                rest.nth(name.chars().count() + 1);
                let _ = write!(made, "[:{plain}:]");
                continue;
            }
        } else if character == '\\' {
            if let Some(members) = behind.and_then(members) {
                rest.next();
                made.push_str(members);
                continue;
            } else if matches!(behind, Some('p' | 'P')) {
                property(rest, made)?;
                continue;
            }
        }
        let first = if character == '\\' { code_point(rest)? } else { character };
        let mut last = first;
        let mut ahead = rest.clone();
        if ahead.next() == Some('-') && ahead.peek().is_some_and(|end| *end != ']') {
            rest.next();
            last = match rest.next() {
                Some('\\') => code_point(rest)?,
                Some(end) => end,
                None => return Err("a class does not end".to_owned()),
            };
        }
        if last < first {
            return Err(format!("the range {first}-{last} ends before it begins"));
        }
        let _ = write!(made, r"\x{{{:x}}}-\x{{{:x}}}", u32::from(first), u32::from(last));
    }
}

#[cfg(test)]
mod tests {
    use super::Expression;

    const LIMIT_BYTES: usize = 1 << 18;

    #[test]
    fn a_bracket_that_closes_nothing_does_not_leave_the_anchors() {
        for source in ["a)(?:b", "a)|(?:b", ")", "(?i))"] {
            assert_eq!(
                Expression::new(source, LIMIT_BYTES, true).err().as_deref(),
                Some("a ) without its ("),
                "{source}"
            );
        }
    }

    #[test]
    fn an_expression_has_a_limit_of_bytes_and_a_long_text_takes_linear_time() {
        let too_large = Expression::new(r"((\pL{100}){10}){10}", LIMIT_BYTES, true);
        assert_eq!(too_large.err().as_deref(), Some("it is too large"));
        let slow = Expression::new("(a*)*(a|a?)*b", LIMIT_BYTES, true).unwrap();
        assert!(!slow.matches(&"a".repeat(100_000)));
    }
}
