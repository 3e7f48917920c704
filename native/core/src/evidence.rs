//! What a tag says of the text inside it, as bits, and what its name says; `attributes.rs` has the rule.

use crate::names::TAG_EVIDENCE;

pub const BOILERPLATE: u8 = 1;
pub const HINT: u8 = 2;
pub const HEADER: u8 = 4;
pub const ARTICLE: u8 = 8;
pub const MAIN: u8 = 16;
pub const ARTICLE_BODY: u8 = 32;
pub const WHOLE: u8 = 64;
/// A class or id says that it is an advert; `HINT` is set too.
pub const ADVERT: u8 = 128;

/// Evidence bits that an element has by its name; `element` as `names` numbers it.
#[inline(always)]
pub fn element_evidence(element: u32) -> u8 {
    TAG_EVIDENCE.get(element as usize).copied().unwrap_or(0)
}
