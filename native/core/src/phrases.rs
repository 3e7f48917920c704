//! Where a page's text speaks of money, of consent or of rights: the words that `scored` looks for, all in one pass.
//!
//! Where the first bytes are those of a group of words (see `groups`), words are compared.

use std::sync::OnceLock;

use crate::groups;
use crate::tables::scorecard::{CONSENT, COPYRIGHT, CURRENCIES};
use crate::wide::{self, in_a_group_of_64, Bytes, Groups};

/// Of the bits of a kind of words; `WORDS` has what each is worth.
pub const OF_CONSENT: u8 = 1 << 1;
const KINDS: [&[&str]; 3] = [&CURRENCIES, &CONSENT, &COPYRIGHT];
/// First bytes by which words are told apart.
const READ_AHEAD: usize = 6;

/// Words with the bit of their kind, and how they are found.
struct Phrases {
    /// By first byte.
    words: Vec<Vec<(&'static [u8], u8)>>,
    groups: Groups<READ_AHEAD>,
}

fn phrases() -> &'static Phrases {
    static PHRASES: OnceLock<Phrases> = OnceLock::new();
    PHRASES.get_or_init(|| {
        let groups = groups::of(KINDS.into_iter().flatten().map(|word| groups::as_written(word.as_bytes())), &[]);
        let mut made = Phrases { words: vec![Vec::new(); 256], groups };
        for (kind, words) in KINDS.iter().enumerate() {
            for word in *words {
                made.words[usize::from(word.as_bytes()[0])].push((word.as_bytes(), 1 << kind));
            }
        }
        made
    })
}

struct Find<'a, F> {
    text: &'a [u8],
    found: F,
}

impl<F: FnMut(usize, u8)> wide::Work for Find<'_, F> {
    type Made = ();

    #[inline(always)]
    fn on<B: Bytes>(mut self) {
        let phrases = phrases();
        // A copy can stay in registers.
        let groups = phrases.groups;
        for start in (0..self.text.len()).step_by(64) {
            let mut places = in_a_group_of_64::<B, READ_AHEAD>(self.text, start, &groups);
            while places != 0 {
                let place = start + places.trailing_zeros() as usize;
                places &= places - 1;
                let Some(&first) = self.text.get(place) else { break };
                for &(word, bit) in &phrases.words[usize::from(first)] {
                    if self.text[place..].starts_with(word) {
                        (self.found)(place, bit);
                    }
                }
            }
        }
    }
}

/// Tell the place of each of the words in a text, ascending, and the bit of its kind.
#[inline(never)]
pub fn find(text: &[u8], found: impl FnMut(usize, u8)) {
    wide::run(Find { text, found });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Sixteen;

    #[test]
    fn one_pass_finds_what_a_search_for_each_word_finds() {
        let words: Vec<&str> = KINDS.iter().flat_map(|words| words.iter().copied()).collect();
        let mut state = 1u64;
        let mut next = |bound: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % bound
        };
        for length in 0..600 {
            let mut text = String::new();
            while text.len() < length {
                match next(4) {
                    0 => text.push_str(words[next(words.len())]),
                    1 => text.extend(words[next(words.len())].chars().take(next(6))),
                    2 => text.push(['\0', 'o', '\u{a2}', '\u{20a0}', '\u{4e2d}'][next(5)]),
                    _ => text.push_str(&" ".repeat(next(70))),
                }
            }
            let mut expected = Vec::new();
            for (kind, words) in KINDS.iter().enumerate() {
                for word in *words {
                    expected.extend(text.match_indices(word).map(|(place, _)| (place, 1 << kind)));
                }
            }
            expected.sort_unstable();
            let (mut plainly, mut places) = (Vec::new(), Vec::new());
            let one = Find { text: text.as_bytes(), found: |place, bit| plainly.push((place, bit)) };
            wide::Work::on::<Sixteen>(one);
            find(text.as_bytes(), |place, bit| places.push((place, bit)));
            for mut found in [plainly, places] {
                found.sort_unstable();
                assert_eq!(found, expected);
            }
        }
    }
}
