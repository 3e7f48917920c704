//! The tag plateau of a page, the span with few tags in it and many outside: `tests/reference/plateau.py`.

use crate::flow::Flow;
use crate::left_out::Kept;
use crate::names::NOTHING;
use crate::visible::Shown;
use crate::words::Words;

/// A page's tokens in bunches, and the best span of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plateau {
    /// Of each text: the number of tags before it, 0 or 1.
    pub tags: Vec<u32>,
    /// Of each text: its shown words.
    pub words: Vec<u32>,
    /// Numbers of the first text of the span, and of the one behind its last.
    pub span: (usize, usize),
}

/// Find the tag plateau of a page.
pub fn plateau(source: &[u8], kept: Kept) -> Plateau {
    let Kept { tags, mut signs, .. } = kept;
    let mut found = Plateau { tags: vec![0], ..Plateau::default() };
    found.tags.extend(tags.iter().map(|tag| u32::from(tag.name != NOTHING)));
    let (mut flow, mut words, mut shown) = (Flow::default(), Words::default(), Shown::with(false));
    let mut start = 0;
    for number in 0..=tags.len() {
        flow.clear();
        if let Some(tag) = number.checked_sub(1).map(|before| &tags[before]) {
            if let Some(how) = shown.pass(tag) {
                flow.push_raw(source, tag, how);
            }
            start = tag.end as usize;
        }
        if let Some(how) = shown.text {
            let end = tags.get(number).map_or(source.len(), |tag| tag.start as usize);
            flow.push_around(source, start, end, how, &mut signs, |flow, _| flow.blank());
        }
        words.cut(flow.bytes());
        found.words.push(words.ends().len() as u32);
    }
    found.span = best_span(&found.tags, &found.words);
    found
}

/// The span of greatest value; of several the longest in tokens, of these the first.
fn best_span(tags: &[u32], words: &[u32]) -> (usize, usize) {
    let (mut best, mut found) = ((0, 0), (0, 0));
    let (mut sum, mut tokens) = (0i64, 0u64);
    let (mut least, mut least_tokens, mut first) = (0, 0, 0);
    for (number, (&tags, &words)) in tags.iter().zip(words).enumerate() {
        sum -= i64::from(tags);
        tokens += u64::from(tags);
        if sum < least || number == 0 {
            (least, least_tokens, first) = (sum, tokens, number);
        }
        if words != 0 {
            sum += i64::from(words);
            tokens += u64::from(words);
            let here = (sum - least, tokens - least_tokens);
            if here > best {
                (best, found) = (here, (first, number + 1));
            }
        }
    }
    found
}
