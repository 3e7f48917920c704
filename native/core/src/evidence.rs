//! What a tag says of the text inside it: `docstore/text/evidence.py`.

use std::sync::OnceLock;

use crate::bytes;
use crate::names::{ADVERT_WORDS, HINT_WORDS, NEGATIONS, ROLES, TAG_EVIDENCE};
use crate::page::attribute_value;
use crate::tokens::each_attribute;

pub const BOILERPLATE: u8 = 1;
pub const HINT: u8 = 2;
pub const HEADER: u8 = 4;
pub const ARTICLE: u8 = 8;
pub const MAIN: u8 = 16;
pub const ARTICLE_BODY: u8 = 32;
pub const WHOLE: u8 = 64;
/// A class or id says that it is an advert; `HINT` is set too.
pub const ADVERT: u8 = 128;

/// Words without which no attribute can say anything, beside the hint words.
const OTHER_WATCHED: [&str; 4] = ["role", "itemprop", "hidden", "display"];

const SLOTS: usize = 1024;
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Watched words by their first eight letters and their length.
struct Watched {
    slots: [Option<&'static str>; SLOTS],
}

fn slot_of(word: &[u8]) -> usize {
    let key = bytes::lower(bytes::load_padded(word, 0)) ^ (word.len() as u64) << 59;
    (key.wrapping_mul(MIX) >> (64 - SLOTS.trailing_zeros())) as usize
}

fn watched() -> &'static Watched {
    static TABLE: OnceLock<Watched> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Watched { slots: [None; SLOTS] };
        for word in HINT_WORDS.into_iter().chain(OTHER_WATCHED) {
            let mut slot = slot_of(word.as_bytes());
            while table.slots[slot].is_some() {
                slot = (slot + 1) % SLOTS;
            }
            table.slots[slot] = Some(word);
        }
        table
    })
}

impl Watched {
    /// The watched word that this is, in lower case.
    fn find(&self, word: &[u8]) -> Option<&'static str> {
        let mut slot = slot_of(word);
        while let Some(known) = self.slots[slot] {
            if known.as_bytes().eq_ignore_ascii_case(word) {
                return Some(known);
            }
            slot = (slot + 1) % SLOTS;
        }
        None
    }
}

/// Words of a name: an optional capital and small letters, or capitals alone; stops where `visit` gives true.
pub fn any_word(text: &[u8], mut visit: impl FnMut(&[u8]) -> bool) -> bool {
    let mut place = 0;
    while place < text.len() {
        let start = place;
        if !text[place].is_ascii_alphabetic() {
            place += 1;
            continue;
        }
        place += 1;
        let is_small = |at: usize| text.get(at).is_some_and(u8::is_ascii_lowercase);
        if text[start].is_ascii_lowercase() || is_small(place) {
            while is_small(place) {
                place += 1;
            }
        } else {
            while text.get(place).is_some_and(u8::is_ascii_uppercase) {
                place += 1;
            }
        }
        if visit(&text[start..place]) {
            return true;
        }
    }
    false
}

/// `HINT` and `ADVERT` bits of a class or id value.
pub fn name_evidence(names: &str) -> u8 {
    let watched = watched();
    let mut found = 0;
    for name in names.split(|each: char| each.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&each)) {
        let mut negated = false;
        any_word(name.as_bytes(), |word| {
            if let Some(word) = watched.find(word).filter(|word| !negated && !OTHER_WATCHED.contains(word)) {
                found |= if ADVERT_WORDS.contains(&word) { HINT | ADVERT } else { HINT };
            }
            negated = NEGATIONS.iter().any(|negation| negation.as_bytes().eq_ignore_ascii_case(word));
            false
        });
    }
    found
}

/// Evidence bits that an element has by its name; `element` as `names` numbers it.
#[inline(always)]
pub fn element_evidence(element: u32) -> u8 {
    TAG_EVIDENCE.get(element as usize).copied().unwrap_or(0)
}

const REMEMBERED: usize = 256;

/// What attributes of a page say: a page's tags repeat their attributes, which are looked through once.
pub struct Remembered {
    /// By slot: place and length in the source, and evidence; length 0 where there is nothing.
    slots: [(u32, u32, u8); REMEMBERED],
}

impl Default for Remembered {
    fn default() -> Self {
        Self { slots: [(0, 0, 0); REMEMBERED] }
    }
}

impl Remembered {
    /// Forget the page before.
    pub fn clear(&mut self) {
        self.slots.fill((0, 0, 0));
    }

    /// Evidence bits of the attributes that stand at a place of this page's source.
    #[inline(always)]
    pub fn evidence(&mut self, source: &[u8], place: usize, length: usize) -> u8 {
        if length == 0 {
            return 0;
        }
        let attributes = &source[place..place + length];
        let ends = bytes::load_padded(attributes, 0) ^ bytes::load_padded(attributes, length.saturating_sub(8)) << 1;
        let slot = ((ends ^ length as u64).wrapping_mul(MIX) >> (64 - REMEMBERED.trailing_zeros())) as usize;
        let (known_place, known_length, known) = self.slots[slot];
        if known_length as usize == length && source[known_place as usize..].starts_with(attributes) {
            return known;
        }
        let found = attributes_evidence(attributes);
        self.slots[slot] = (place as u32, length as u32, found);
        found
    }
}

/// Evidence bits of the attributes of one start tag, as in the source.
#[inline(never)]
pub fn attributes_evidence(attributes: &[u8]) -> u8 {
    let watched = watched();
    // A character reference could hide a word.
    if any_word(attributes, |word| (2..=15).contains(&word.len()) && watched.find(word).is_some())
        || memchr::memchr(b'&', attributes).is_some()
    {
        return evidence_of_values(attributes);
    }
    0
}

fn evidence_of_values(attributes: &[u8]) -> u8 {
    let names = ["role", "hidden", "style", "itemprop", "class", "id"];
    let mut values = [None; 6];
    each_attribute(attributes, |name, value| {
        if let Some(place) = names.iter().position(|each| name.eq_ignore_ascii_case(each.as_bytes())) {
            values[place].get_or_insert(value);
        }
    });
    let [role, hidden, style, item, class, id] = values;
    let lower = |value: Option<&[u8]>| value.map(attribute_value).unwrap_or_default().to_ascii_lowercase();
    let role = lower(role);
    let role = role.trim_matches(|each: char| each.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&each));
    let mut found = ROLES.iter().find(|(known, _)| *known == role).map_or(0, |(_, bits)| *bits);
    if hidden.is_some() || lower(style).replace(' ', "").contains("display:none") {
        found |= BOILERPLATE;
    }
    if lower(item).contains("articlebody") {
        found |= ARTICLE_BODY;
    }
    let values = [class, id].into_iter().flatten();
    values.fold(found, |found, value| found | name_evidence(&attribute_value(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{NAME_DIV, NAME_NAV};

    fn tag_evidence(element: u32, attributes: &[u8]) -> u8 {
        element_evidence(element) | attributes_evidence(attributes)
    }

    #[test]
    fn what_is_remembered_of_attributes_is_what_they_say() {
        let values = ["", "a", " id=ad", " id=nav", " id=na", " class=sidebar", " class=sidebax", " role=main"];
        let (mut source, mut places) = (String::new(), Vec::new());
        for turn in 0..40 {
            let value = values[turn * 7 % values.len()];
            places.push((source.len(), value.len()));
            source.push_str(value);
        }
        let mut remembered = Remembered::default();
        for (place, length) in places {
            let attributes = &source.as_bytes()[place..place + length];
            assert_eq!(remembered.evidence(source.as_bytes(), place, length), attributes_evidence(attributes));
        }
    }

    #[test]
    fn tags_roles_and_hint_words_say_what_they_hold() {
        assert_eq!(tag_evidence(NAME_NAV, b""), BOILERPLATE);
        assert_eq!(tag_evidence(NAME_DIV, b" class='main relatedPosts'"), HINT);
        assert_eq!(tag_evidence(NAME_DIV, b" class='no-sidebar hasMenu'"), 0);
        assert_eq!(tag_evidence(NAME_DIV, b" id=SIDEBAR"), HINT);
        assert_eq!(tag_evidence(NAME_DIV, b" id='side&#98;ar'"), HINT);
        assert_eq!(tag_evidence(NAME_DIV, b" role=' Main ' itemprop=articleBody"), MAIN | ARTICLE_BODY);
        assert_eq!(tag_evidence(NAME_DIV, b" style='color: red; DISPLAY : none'"), BOILERPLATE);
        assert_eq!(tag_evidence(NAME_DIV, b" hidden"), BOILERPLATE);
    }
}
