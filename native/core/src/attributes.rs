//! What the attributes of a start tag say, read once: evidence bits and marks.
//!
//! The lists are closed and in ASCII, in `native/core/data/words.txt`; a change changes main texts, and with them
//! fingerprints.
//!
//! A *hint word* is one of the hint words in the `class` or `id` of a tag.  Both are cut into names at white space, and
//! names into words: small letters with at most one capital before them (`relatedPosts` is `related`, `Posts`), or
//! capitals alone.  A word right after one of the negations in the same name does not count (`no-sidebar`, `hasMenu`).
//! Attributes are looked at when their source holds a watched word (a hint word, or role, itemprop, hidden, display; in
//! small letters, in capitals, or with one capital in front) or an ampersand, which could write one.
//!
//! The words were chosen on the even pages of a public set of 990 pages and judged on the odd ones;
//! `docs/extraction.md` has the figures.
//!
//! Cases, in `tests/cases/text/`: `combined`, `scorecard`.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use crate::bytes;
use crate::evidence::{ADVERT, ARTICLE_BODY, BOILERPLATE, HINT};
use crate::marks::Marks;
use crate::names::{ADVERT_NAMES, ADVERT_WORDS, HINT_WORDS, NEGATIONS, ROLES};
use crate::page::{attribute_value, is_space};
use crate::tables::scorecard::{
    CONSENT_MANAGERS, CONSENT_NAMES, ITEM_MARKS, MARK_ARIA_HIDDEN, MARK_HIDDEN, MARK_NEVER, NEVER_NAMES, NOTICES,
    ROLE_MARKS, WORD_MARKS,
};
use crate::tokens::{each_attribute, mentions};

const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// What attributes say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    pub evidence: u8,
    pub marks: Marks,
}

/// Words without which a role, a state or an itemprop is not evidence, beside the hint words.
const OTHER_WATCHED: [&str; 4] = ["role", "itemprop", "hidden", "display"];

/// What a word says.
#[derive(Clone, Copy, Default)]
struct Meaning {
    evidence: u8,
    mark: Option<u16>,
    is_watched: bool,
    /// The next word of the name does not count.
    negates: bool,
    is_manager: bool,
    is_consent: bool,
    is_notice: bool,
}

const SLOTS: usize = 1024;

/// Words by `Word::key`.
struct Words {
    keys: [u64; SLOTS],
    known: Vec<(&'static str, Meaning)>,
    /// By slot: the place in `known`, where the key is not 0.
    places: [u16; SLOTS],
}

/// A word of a source.
struct Word<'a> {
    text: &'a [u8],
    /// Where it begins.
    start: usize,
    /// Its first eight letters in lower case, and its length.
    key: u64,
}

fn words() -> &'static Words {
    static TABLE: OnceLock<Words> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Words { keys: [0; SLOTS], known: Vec::new(), places: [0; SLOTS] };
        for word in HINT_WORDS {
            *table.meaning(word) = Meaning { evidence: HINT, is_watched: true, ..Meaning::default() };
        }
        ADVERT_WORDS.iter().for_each(|word| table.meaning(word).evidence |= ADVERT);
        OTHER_WATCHED.iter().for_each(|word| table.meaning(word).is_watched = true);
        WORD_MARKS.iter().for_each(|&(word, mark)| table.meaning(word).mark = Some(mark));
        NEGATIONS.iter().for_each(|word| table.meaning(word).negates = true);
        CONSENT_MANAGERS.iter().for_each(|word| table.meaning(word).is_manager = true);
        CONSENT_NAMES.iter().for_each(|word| table.meaning(word).is_consent = true);
        NOTICES.iter().for_each(|word| table.meaning(word).is_notice = true);
        table
    })
}

impl Words {
    /// The slot of a word, or the free one where it would stand.
    #[inline(always)]
    fn slot(&self, word: &Word) -> usize {
        let mut slot = (word.key.wrapping_mul(MIX) >> (64 - SLOTS.trailing_zeros())) as usize;
        while self.keys[slot] != 0 && !(self.keys[slot] == word.key && self.is_at(slot, word)) {
            slot = (slot + 1) % SLOTS;
        }
        slot
    }

    #[inline(always)]
    fn is_at(&self, slot: usize, word: &Word) -> bool {
        let known = self.known[usize::from(self.places[slot])].0.as_bytes();
        known.len() == word.text.len() && (known.len() <= 8 || known.eq_ignore_ascii_case(word.text))
    }

    #[inline(always)]
    fn find(&self, word: &Word) -> Option<&Meaning> {
        let slot = self.slot(word);
        (self.keys[slot] != 0).then(|| &self.known[usize::from(self.places[slot])].1)
    }

    /// The meaning of a word in lower case, to be filled.
    fn meaning(&mut self, text: &'static str) -> &mut Meaning {
        let mut key = 0;
        any_word(text.as_bytes(), |word| {
            key = word.key;
            false
        });
        let slot = self.slot(&Word { text: text.as_bytes(), start: 0, key });
        if self.keys[slot] == 0 {
            self.keys[slot] = key;
            self.places[slot] = self.known.len() as u16;
            self.known.push((text, Meaning::default()));
        }
        &mut self.known[usize::from(self.places[slot])].1
    }
}

/// Words of a name: an optional capital and small letters, or capitals alone; stops where `visit` gives true.
#[inline(always)]
fn any_word<'a>(text: &'a [u8], mut visit: impl FnMut(Word<'a>) -> bool) -> bool {
    let mut start = 0;
    while start < text.len() {
        let eight = bytes::load_padded(text, start);
        let letters = bytes::letters(eight);
        if letters & 0x80 == 0 {
            start += bytes::first(letters);
            continue;
        }
        let small = letters & eight << 2;
        let is_small = small & 0x8080 != 0;
        let run = if is_small { small } else { letters & !small };
        let mut length = bytes::first(!(run | 0x80) & bytes::HIGHS);
        if length == 8 {
            let goes_on = |byte: &&u8| if is_small { byte.is_ascii_lowercase() } else { byte.is_ascii_uppercase() };
            length += text[text.len().min(start + 8)..].iter().take_while(goes_on).count();
        }
        let first = eight & (u64::MAX >> (64 - 8 * length.min(8)));
        // Letters alone: the bit of small ones can be set without a look; the length stands in the top bits.
        let key = (first | bytes::repeat(0x20)) ^ (length as u64) << 59;
        if visit(Word { text: &text[start..start + length], start, key }) {
            return true;
        }
        // Of the eight: to the next letter, if there is one.
        let behind = letters.checked_shr(8 * length as u32).unwrap_or(0);
        start += length + if behind == 0 { 0 } else { bytes::first(behind) };
    }
    false
}

/// Numbers of attributes: a class, this and an id, a role, and aria-modal.
const CLASS: usize = 0;
pub const NAMES: Range<usize> = CLASS..2;
pub const ROLE: usize = 2;
pub const ARIA_MODAL: usize = 4;

/// The number of an attribute that can say something.
#[inline(always)]
pub fn number_of(name: &[u8]) -> Option<usize> {
    const ALL: [&str; 8] = ["class", "id", "role", "itemprop", "aria-modal", "aria-hidden", "hidden", "style"];
    let number = match name.len() {
        2 => 1,
        4 => 2,
        5 if name[0] | 32 == b'c' => 0,
        5 => 7,
        6 => 6,
        8 => 3,
        10 => 4,
        11 => 5,
        _ => return None,
    };
    name.eq_ignore_ascii_case(ALL[number].as_bytes()).then_some(number)
}

fn named(known: &[(&str, u16)], name: &str) -> Option<u16> {
    known.iter().find(|(each, _)| each.eq_ignore_ascii_case(name)).map(|&(_, mark)| mark)
}

/// Whether a style gives a property one of some values, in any case: by its last declaration, or its last important one.
pub fn declares(style: &[u8], property: &str, values: &[&str]) -> bool {
    let needed = if let [value] = values { value } else { property };
    if !mentions(style, needed.as_bytes()) {
        return false;
    }
    let mut plain = Vec::new();
    let mut rest = style;
    while let Some(start) = memchr::memmem::find(rest, b"/*") {
        plain.extend_from_slice(&rest[..start]);
        plain.push(b' ');
        rest = memchr::memmem::find(&rest[start + 2..], b"*/").map_or(&[], |at| &rest[start + at + 4..]);
    }
    let plain = if plain.is_empty() { Cow::Borrowed(style) } else { Cow::Owned([&plain[..], rest].concat()) };
    let (mut found, mut is_kept) = (false, false);
    for declaration in plain.split(|&byte| byte == b';') {
        let Some(colon) = memchr::memchr(b':', declaration) else { continue };
        if !declaration[..colon].trim_ascii().eq_ignore_ascii_case(property.as_bytes()) {
            continue;
        }
        let value = declaration[colon + 1..].trim_ascii();
        let mark = memchr::memchr(b'!', value);
        let is_important = mark.is_some_and(|at| value[at + 1..].trim_ascii().eq_ignore_ascii_case(b"important"));
        if is_important || !is_kept {
            let value = value[..mark.unwrap_or(value.len())].trim_ascii();
            found = values.iter().any(|each| value.eq_ignore_ascii_case(each.as_bytes()));
            is_kept = is_important;
        }
    }
    found
}

/// An attribute's value, references replaced.
#[inline(always)]
pub fn decoded(value: &[u8]) -> Cow<'_, [u8]> {
    if bytes::has(value, b'&') {
        Cow::Owned(attribute_value(value).into_bytes())
    } else {
        Cow::Borrowed(value)
    }
}

impl Said {
    /// What the attributes of one start tag say, as in the source; what each class says is remembered.
    #[inline(never)]
    pub fn of(attributes: &[u8], classes: &mut Remembered) -> Self {
        let mut found = Self::default();
        let mut seen = 0u8;
        let mut stated = 0;
        each_attribute(attributes, |name, value| {
            let Some(number) = number_of(name).filter(|number| seen & 1 << number == 0) else { return };
            seen |= 1 << number;
            if number == CLASS {
                let known = classes.number_by(value, Self::of_names);
                found.add(classes.said(known));
            } else if NAMES.contains(&number) {
                found.add_names(&decoded(value));
            } else {
                stated |= found.add_state(number, &decoded(value));
            }
        });
        // The reference looks at states only where a word is watched, or a character reference could write one.
        let is_watched = |word: Word| words().find(&word).is_some_and(|meaning| meaning.is_watched);
        if stated != 0 && (memchr::memchr(b'&', attributes).is_some() || any_word(attributes, is_watched)) {
            found.evidence |= stated;
        }
        found
    }

    /// What the name of an element that is not among the known ones says.
    pub fn of_name(name: &[u8]) -> Self {
        let mut found = Self::default();
        if name.contains(&b'-') {
            found.add_ascii_names(&name.to_ascii_lowercase());
        }
        if ADVERT_NAMES.iter().any(|each| name.eq_ignore_ascii_case(each.as_bytes())) {
            found.evidence |= HINT | ADVERT;
        }
        if NEVER_NAMES.iter().any(|each| name.eq_ignore_ascii_case(each.as_bytes())) {
            found.marks.add(MARK_NEVER);
        }
        found
    }

    fn add(&mut self, other: &Self) {
        self.evidence |= other.evidence;
        self.marks = self.marks.with(other.marks);
    }

    /// Whether it is an advert, or never content.
    pub fn stands_apart(&self) -> bool {
        self.evidence & ADVERT != 0 || self.marks.is_never()
    }

    /// What a class or an id says by itself.
    pub fn of_names(names: &[u8]) -> Self {
        let mut found = Self::default();
        found.add_names(&decoded(names));
        found
    }

    /// What a role, an itemprop or a state says by itself, as a mark.
    pub fn of_state(number: usize, value: &[u8]) -> Self {
        let mut found = Self::default();
        found.add_state(number, value);
        found
    }

    /// Read a class or an id.
    fn add_names(&mut self, names: &[u8]) {
        if names.is_ascii() {
            return self.add_ascii_names(names);
        }
        String::from_utf8_lossy(names).split(is_space).for_each(|name| self.add_ascii_names(name.as_bytes()));
    }

    /// Read names with white space of ASCII between.
    fn add_ascii_names(&mut self, names: &[u8]) {
        let words = words();
        let (mut negated, mut says_consent, mut says_notice) = (false, false, false);
        // Of the white space of `str.split`, what a name in ASCII can have.
        let is_blank = |byte: &u8| matches!(byte, 9..=13 | 28..=32);
        let mut end = 0;
        any_word(names, |word| {
            if (negated || says_consent || says_notice) && names[end..word.start].iter().any(is_blank) {
                (negated, says_consent, says_notice) = (false, false, false);
            }
            end = word.start + word.text.len();
            let Some(meaning) = words.find(&word) else {
                negated = false;
                return false;
            };
            if !negated {
                self.evidence |= meaning.evidence;
                if let Some(mark) = meaning.mark {
                    self.marks.add(mark);
                }
                let is_consent = (meaning.is_consent && says_notice) || (meaning.is_notice && says_consent);
                if meaning.is_manager || is_consent {
                    self.marks.add(MARK_NEVER);
                }
            }
            says_consent |= meaning.is_consent;
            says_notice |= meaning.is_notice;
            negated = meaning.negates;
            false
        });
    }

    /// Read a role, an itemprop or a state; gives its evidence.
    fn add_state(&mut self, number: usize, value: &[u8]) -> u8 {
        let text = String::from_utf8_lossy(value);
        let is_true = text.eq_ignore_ascii_case("true");
        match number {
            ROLE => {
                let role = text.trim_matches(is_space);
                named(&ROLE_MARKS, role).into_iter().for_each(|mark| self.marks.add(mark));
                if role.eq_ignore_ascii_case("dialog") || role.eq_ignore_ascii_case("alertdialog") {
                    self.marks.add(MARK_NEVER);
                }
                return ROLES.iter().find(|(known, _)| known.eq_ignore_ascii_case(role)).map_or(0, |&(_, bits)| bits);
            }
            3 => {
                let items = text.split(is_space).filter_map(|item| named(&ITEM_MARKS, item));
                items.for_each(|mark| self.marks.add(mark));
                return if mentions(value, b"articlebody") { ARTICLE_BODY } else { 0 };
            }
            ARIA_MODAL if is_true => self.marks.add(MARK_NEVER),
            5 if is_true => self.marks.add(MARK_ARIA_HIDDEN),
            ARIA_MODAL | 5 => {}
            _ if number == 6 || declares(value, "display", &["none"]) => {
                self.marks.add(MARK_HIDDEN);
                return BOILERPLATE;
            }
            _ => {}
        }
        0
    }
}

const REMEMBERED: usize = 1 << 12;
const REMEMBERED_BYTES: usize = 1 << 18;

/// What attributes say, numbered: the tags of a page, and the pages of a site, repeat their attributes.
pub struct Remembered {
    /// By a hash of the source: the last number given for it.
    slots: Vec<u32>,
    /// By number: where the source ends in `sources`, where it begins in the one before; and what it says.
    known: Vec<(usize, Said)>,
    sources: Vec<u8>,
}

impl Default for Remembered {
    fn default() -> Self {
        Self { slots: vec![0; REMEMBERED], known: vec![(0, Said::default())], sources: Vec::new() }
    }
}

impl Remembered {
    /// Begin a page: numbers given before are void.
    pub fn begin(&mut self) {
        if self.sources.len() > REMEMBERED_BYTES {
            self.slots.fill(0);
            self.known.truncate(1);
            self.sources.clear();
        }
    }

    /// What the attributes with a number say.
    #[inline(always)]
    pub fn said(&self, number: u32) -> &Said {
        &self.known[number as usize].1
    }

    /// The source of the attributes with a number.
    pub fn source(&self, number: u32) -> &[u8] {
        let number = number as usize;
        number.checked_sub(1).map_or(&[], |before| &self.sources[self.known[before].0..self.known[number].0])
    }

    /// The number of attributes, as in the source, of which something makes what they say; 0 for none.
    #[inline(always)]
    pub fn number_by(&mut self, attributes: &[u8], make: impl FnOnce(&[u8]) -> Said) -> u32 {
        if attributes.is_empty() {
            return 0;
        }
        // The ends tell long ones apart, too.
        let mixed = match (attributes.first_chunk::<32>(), attributes.last_chunk::<32>()) {
            (Some(first), Some(last)) if attributes.len() > 64 => {
                bytes::mixed(first).rotate_left(8) ^ bytes::mixed(last)
            }
            _ => bytes::mixed(attributes),
        };
        let slot = (mixed >> (64 - REMEMBERED.trailing_zeros())) as usize;
        let number = self.slots[slot] as usize;
        if number != 0 && &self.sources[self.known[number - 1].0..self.known[number].0] == attributes {
            return number as u32;
        }
        let number = self.known.len() as u32;
        self.sources.extend_from_slice(attributes);
        self.known.push((self.sources.len(), make(attributes)));
        self.slots[slot] = number;
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{element_evidence, MAIN};
    use crate::names::{NAME_DIV, NAME_NAV};

    fn tag_evidence(element: u32, attributes: &[u8]) -> u8 {
        element_evidence(element) | Said::of(attributes, &mut Remembered::default()).evidence
    }

    #[test]
    fn what_is_remembered_of_attributes_is_what_they_say() {
        let (mut remembered, mut classes) = (Remembered::default(), Remembered::default());
        for page in 0..3 {
            remembered.begin();
            classes.begin();
            for turn in 0..20_000 {
                let attributes = match turn % 4 {
                    0 => format!(" class=sidebar data-turn={}", turn % 97),
                    1 => format!(" id=nav{}", turn + page),
                    2 => " role=main".to_owned(),
                    _ => String::new(),
                };
                let said = Said::of(attributes.as_bytes(), &mut classes);
                let number = remembered.number_by(attributes.as_bytes(), |_| said);
                assert_eq!(*remembered.said(number), said);
            }
        }
    }

    #[test]
    fn tags_roles_and_hint_words_say_what_they_hold() {
        assert_eq!(tag_evidence(NAME_NAV, b""), BOILERPLATE);
        assert_eq!(tag_evidence(NAME_DIV, b" class='main relatedPosts'"), HINT);
        assert_eq!(tag_evidence(NAME_DIV, b" class='no-sidebar hasMenu'"), 0);
        assert_eq!(tag_evidence(NAME_DIV, b" id=SIDEBAR"), HINT);
        assert_eq!(tag_evidence(NAME_DIV, b" id='side&#98;ar'"), HINT);
        assert_eq!(tag_evidence(NAME_DIV, b" id='recommendations recommendationx'"), HINT);
        assert_eq!(tag_evidence(NAME_DIV, b" role=' Main ' itemprop=articleBody"), MAIN | ARTICLE_BODY);
        assert_eq!(tag_evidence(NAME_DIV, b" style='color: red; DISPLAY : none'"), BOILERPLATE);
        assert_eq!(tag_evidence(NAME_DIV, b" hidden"), BOILERPLATE);
        // The first look knows a word in small letters, in capitals, or with one in front.
        assert_eq!(tag_evidence(NAME_DIV, b" hIdden"), 0);
        assert_eq!(tag_evidence(NAME_DIV, b" hIdden class=nav"), BOILERPLATE | HINT);
    }
}
