//! The extractor `visible`, and which parts of a page are shown.
//!
//! `visible`: all text outside of hidden elements and the contents of visible raw elements; references are decoded text
//! by text.  Start tags of hidden elements add one to a depth, their end tags take one off while it is above 0, and
//! text counts at depth 0: an unclosed one hides the rest.  Every tag that is not inline ends the block.  In pre,
//! listing, textarea, xmp and plaintext a line feed ends it too.  Text of svg, math, object, select, canvas, audio and
//! video counts; title, scripts, styles, iframe, noframes and noembed do not.  `native/core/data/words.txt` has the
//! lists. What `left_out` leaves out is never text.
//!
//! Cases, in `tests/cases/text/`: `inline`.

use crate::flow::{Flow, Source};
use crate::left_out::Kept;
use crate::names::{self, properties, CDATA, CUT};
use crate::tokens::Tag;
use crate::wide::{self, Bytes};

/// Depths of hidden and preformatted elements while a page's tags go by.
pub struct Shown {
    /// How the text behind the last tag is shown; None where it is hidden.
    pub text: Option<Source>,
    /// Whether noscript elements are shown.
    noscript: bool,
    hidden_depth: usize,
    preformatted_depth: usize,
}

impl Shown {
    /// At the start of a page.
    pub fn with(noscript: bool) -> Self {
        Self { text: Some(Source::Text), noscript, hidden_depth: 0, preformatted_depth: 0 }
    }

    /// Take note of a tag; gives how its raw content is shown, if it is.
    #[inline(always)]
    pub fn pass(&mut self, tag: &Tag) -> Option<Source> {
        let element = properties(tag.name);
        if element & (names::HIDDEN | names::PREFORMATTED | names::VISIBLE_RAW) == 0 {
            return if tag.name == CDATA { self.text.map(|_| Source::Characters) } else { None };
        }
        self.pass_special(tag, element)
    }

    #[inline(never)]
    fn pass_special(&mut self, tag: &Tag, element: u16) -> Option<Source> {
        if self.noscript && tag.name >> 1 == names::NAME_NOSCRIPT {
            return None;
        }
        let depth = if element & names::HIDDEN != 0 {
            &mut self.hidden_depth
        } else if element & names::PREFORMATTED != 0 {
            &mut self.preformatted_depth
        } else {
            let shown = tag.name & 1 == 0 && self.hidden_depth == 0;
            return shown.then_some(if element & names::REFERENCES_RAW != 0 {
                Source::Preformatted
            } else {
                Source::Literal
            });
        };
        *depth = if tag.name & 1 == 0 { *depth + 1 } else { depth.saturating_sub(1) };
        self.text = match (self.hidden_depth, self.preformatted_depth) {
            (0, 0) => Some(Source::Text),
            (0, _) => Some(Source::Preformatted),
            _ => None,
        };
        None
    }
}

/// Whether a tag cuts words.
#[inline(always)]
pub fn is_break(tag: &Tag) -> bool {
    if tag.name >= CUT {
        tag.name == CUT
    } else {
        properties(tag.name) & names::INLINE == 0
    }
}

struct Visible<'a> {
    source: &'a [u8],
    kept: Kept<'a>,
    flow: &'a mut Flow,
}

impl wide::Work for Visible<'_> {
    type Made = ();

    #[inline(always)]
    fn on<B: Bytes>(self) {
        visible_on::<B>(self.source, self.kept, self.flow);
    }
}

/// All visible text.
#[inline(never)]
pub fn visible(source: &[u8], kept: Kept, flow: &mut Flow) {
    wide::run(Visible { source, kept, flow });
}

#[inline(always)]
fn visible_on<B: Bytes>(source: &[u8], kept: Kept, flow: &mut Flow) {
    flow.clear();
    let mut signs = kept.signs;
    let mut shown = Shown::with(false);
    let mut start = 0;
    for tag in kept.tags {
        if let Some(how) = shown.text {
            flow.push_shown::<B>(source, start, tag.start as usize, how, &mut signs);
        }
        if is_break(tag) {
            flow.end_block();
        } else {
            flow.part(tag.name);
        }
        if let Some(how) = shown.pass(tag) {
            flow.push_raw(source, tag, how);
        }
        start = tag.end as usize;
    }
    if let Some(how) = shown.text {
        flow.push_shown::<B>(source, start, source.len(), how, &mut signs);
    }
}
