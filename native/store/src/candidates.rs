//! Candidates for a verdict on a text: the texts that the index proposes, verified by exact comparison.

use std::collections::HashSet;
use std::sync::Arc;

use docstore_kernel::pairs::overlap;
use docstore_kernel::postings::Answer;
use docstore_kernel::sketches::Look;
use docstore_kernel::texts::{Asking as AskingText, Overlap};

use crate::analysed::Marks;
use crate::compare::{text_compares, DELTA_SIMILARITY, MAX_VERIFIED, SKETCH_MARGIN};
use crate::core::Core;
use crate::keys::text_number;
use crate::pages::{Asking, Page, Reads, Value};
use crate::posted::{row_key_of, text_row, Condition, Pointer};

/// Queries of the index for one page while the proposed texts are gone: 960 texts in all.
const GONE_ROUNDS: usize = 24;

/// A verified candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    /// The oldest live page with this text.
    pub pointer: Pointer,
    /// Exact Jaccard coefficient.
    pub jaccard: f64,
    /// Share of the query page's shingles that are in this page.
    pub contained: f64,
    /// Share of this page's shingles that are in the query page.
    pub contains: f64,
    /// The number of its text.
    pub number: u64,
}

/// Most similar first, then oldest, then smallest row key.
pub(crate) fn sort_by_similarity(matches: &mut [Match]) {
    matches.sort_by(|one, other| other.jaccard.total_cmp(&one.jaccard).then_with(|| one.pointer.cmp(&other.pointer)));
}

/// The match with the largest share, then the oldest.
pub(crate) fn largest(matches: &[Match], share: impl Fn(&Match) -> f64) -> Option<&Match> {
    matches
        .iter()
        .min_by(|one, other| share(other).total_cmp(&share(one)).then_with(|| one.pointer.cmp(&other.pointer)))
}

impl<H> Core<H> {
    /// The exact Jaccard coefficient of a page and the text of a stored page, and the share of the page that is in that
    /// text; both are 0 if either text has no word, or is unreadable.
    pub fn shares<R: Reads<Held = H>>(
        &mut self,
        marks: Option<&Arc<Marks>>,
        text_checksum: &[u8],
        of: &Pointer,
        reads: &mut R,
    ) -> Result<(f64, f64), R::Error> {
        let Some(marks) = marks.filter(|_| !text_checksum.is_empty()) else { return Ok((0.0, 0.0)) };
        if *marks.text_checksum == *text_checksum {
            return Ok((1.0, 1.0));
        }
        self.hold(marks);
        let number = text_number(text_checksum).unwrap_or_default();
        let Some((shared, others)) = self.overlap(marks, number, text_checksum, of, reads)? else {
            return Ok((0.0, 0.0));
        };
        let size = marks.fingerprints.shingles.len();
        let either = size + others - shared;
        let jaccard = if either == 0 { 0.0 } else { shared as f64 / either as f64 };
        Ok((jaccard, shared as f64 / size.max(1) as f64))
    }

    /// Of the texts proposed for a page, those whose pages will probably be read.
    ///
    /// Their sketches are not held, or do not rule out that the texts are similar.
    pub fn candidates_to_read(&self, marks: &Marks, numbers: &[u64]) -> Vec<u64> {
        let sketches = &self.texts.sketches;
        let least = DELTA_SIMILARITY - SKETCH_MARGIN;
        let mut chosen = sketches.unheld(numbers);
        chosen.extend(sketches.likeliest(&marks.sketch, numbers, least, MAX_VERIFIED));
        chosen
    }

    /// Candidates for a page, verified: most similar first; and what the index proposed.
    pub(crate) fn matches<R: Reads<Held = H>>(
        &mut self,
        asking: &Asking,
        marks: &Arc<Marks>,
        limit: usize,
        reads: &mut R,
    ) -> Result<(Vec<Match>, Arc<Answer>), R::Error> {
        let mut matches = Vec::new();
        let mut looked_at = HashSet::new();
        let mut answer = self.propose(marks, reads)?;
        for round in 0..GONE_ROUNDS {
            if round > 0 {
                answer = self.propose(marks, reads)?;
            }
            let gone_before = self.gone_seen;
            let numbers = answer.proposal.numbers.iter().copied();
            let numbers: Vec<u64> = numbers.filter(|number| !looked_at.contains(number)).collect();
            self.verify(asking, marks, &numbers, limit, &mut matches, reads)?;
            if self.gone_seen == gone_before || matches.len() == limit {
                break;
            }
            looked_at.extend(numbers); // removed texts took the place of others
        }
        if matches.len() == limit && matches.iter().all(|each| each.jaccard < self.rules.near) {
            let others = answer.proposal.numbers.iter().chain(&answer.proposal.further).copied().collect();
            self.verify_likeliest(asking, marks, others, &mut matches, reads)?;
        }
        sort_by_similarity(&mut matches);
        Ok((matches, answer))
    }

    /// Compare a page that has many relatives with further texts whose sketches say that they are near.
    fn verify_likeliest<R: Reads<Held = H>>(
        &mut self,
        asking: &Asking,
        marks: &Arc<Marks>,
        mut numbers: Vec<u64>,
        matches: &mut Vec<Match>,
        reads: &mut R,
    ) -> Result<(), R::Error> {
        numbers.retain(|number| !matches.iter().any(|each| each.number == *number));
        for number in self.texts.sketches.unheld(&numbers) {
            self.oldest_of_text(asking, marks, number, None, true, reads)?; // holds its sketch
        }
        let least = self.rules.near - SKETCH_MARGIN;
        let likely = self.texts.sketches.likeliest(&marks.sketch, &numbers, least, MAX_VERIFIED);
        if likely.is_empty() {
            return Ok(());
        }
        let limit = matches.len() + likely.len();
        self.verify(asking, marks, &likely, limit, matches, reads)
    }

    /// Hold the sketch and the shingles of a page.
    fn hold(&mut self, marks: &Arc<Marks>) {
        self.texts.sketches.put(marks.number, &marks.sketch, marks.shingle_count());
        if !self.texts.holds(marks.number, &marks.text_checksum) {
            let shingles = marks.fingerprints.shingles.clone(); // the rest of the fingerprints is not held with them
            self.texts.keep(marks.number, &marks.text_checksum, shingles);
        }
    }

    /// Compare a page with texts until there are `limit` matches.
    fn verify<R: Reads<Held = H>>(
        &mut self,
        asking: &Asking,
        marks: &Arc<Marks>,
        numbers: &[u64],
        limit: usize,
        matches: &mut Vec<Match>,
        reads: &mut R,
    ) -> Result<(), R::Error> {
        self.hold(marks);
        let (size, shingle_count) = (marks.fingerprints.shingles.len(), marks.shingle_count());
        let text = AskingText { number: marks.number, sketch: &marks.sketch, shingle_count };
        let texts = &self.texts;
        let compared: Vec<_> = reads.apart(numbers.len(), || {
            let compared = texts.compare(text, numbers, limit).into_iter();
            let owned = |its: Overlap<'_>| (Box::<[u8]>::from(its.checksum), its.shared, its.size);
            compared.map(|each| (each.number, each.is_known, each.overlap.map(owned))).collect()
        });
        for (number, is_known, held) in compared {
            let checksum = held.as_ref().map(|(checksum, ..)| &**checksum);
            let (mut shared, mut others) = held.as_ref().map_or((0, 0), |(_, shared, size)| (*shared, *size));
            let pointer = loop {
                let found = self.oldest_of_text(asking, marks, number, checksum, !is_known, reads)?;
                let Some((pointer, page)) = found else { break None };
                if checksum == Some(&page.text_checksum) {
                    break Some(pointer);
                }
                if let Some(found) = self.overlap(marks, number, &page.text_checksum, &pointer, reads)? {
                    (shared, others) = found;
                    break Some(pointer);
                }
                self.unreadable.insert(pointer); // another page may have the text
            };
            let Some(pointer) = pointer.filter(|_| others > 0) else { continue };
            let jaccard = shared as f64 / (size + others - shared) as f64;
            let (contained, contains) = (shared as f64 / size as f64, shared as f64 / others as f64);
            matches.push(Match { pointer, jaccard, contained, contains, number });
            if matches.len() == limit {
                break;
            }
        }
        Ok(())
    }

    /// Shingles that a page shares with the text of a stored page, and shingles of that text; None if it is unreadable.
    ///
    /// The shingles of the page are held.
    fn overlap<R: Reads<Held = H>>(
        &mut self,
        marks: &Marks,
        number: u64,
        text_checksum: &[u8],
        of: &Pointer,
        reads: &mut R,
    ) -> Result<Option<(usize, usize)>, R::Error> {
        if let Some(held) = self.texts.overlap(marks.number, number).filter(|held| *held.checksum == *text_checksum) {
            return Ok(Some((held.shared, held.size)));
        }
        let Some(text) = self.value(of, Value::Main, reads)? else { return Ok(None) };
        let shingles = reads.shingles(&text);
        if shingles.is_empty() {
            return Ok(Some((0, 0))); // a cell set by hand: not the text of the fingerprints
        }
        let found = (overlap(&marks.fingerprints.shingles, &shingles), shingles.len());
        self.texts.keep(number, text_checksum, shingles);
        Ok(Some(found))
    }

    /// The oldest live page with a text that is compared.
    ///
    /// A text without such a page in any row is gone: the index stops proposing it.
    ///
    /// - `checksum`: of the text that has this number, as far as it is known; another text may have it, too.
    /// - `is_unlike`: the page was not compared with the text's sketch; then there is also no page if the sketch rules
    ///   out that they are similar, or that one contains the other.
    fn oldest_of_text<R: Reads<Held = H>>(
        &mut self,
        asking: &Asking,
        marks: &Marks,
        number: u64,
        checksum: Option<&[u8]>,
        is_unlike: bool,
        reads: &mut R,
    ) -> Result<Option<(Pointer, Arc<Page>)>, R::Error> {
        let (row, is_list) = (text_row(number), asking.page.is_list());
        let mut found = None;
        if let Some(few) = self.postings.few(&row, reads)? {
            // Nearly all rows.
            for pointer in few.iter().filter(|pointer| row_key_of(pointer) != &*asking.row_key) {
                let Some(page) = self.readable_page(pointer, reads)? else { continue };
                let has_text =
                    checksum == Some(&page.text_checksum) || text_number(&page.text_checksum) == Some(number);
                if has_text && page.is_list == is_list && text_compares(page.status) {
                    found = Some((pointer.clone(), page));
                    break;
                }
            }
        } else {
            let condition = Condition::Text { is_list: Some(is_list) };
            if let Some(pointer) = self.oldest(&row, &asking.row_key, condition, reads)? {
                found = self.readable_page(&pointer, reads)?.map(|page| (pointer, page));
            }
        }
        let Some((pointer, page)) = found else {
            if self.oldest(&row, b"", Condition::Text { is_list: None }, reads)?.is_none() {
                self.note_gone(number);
            }
            return Ok(None);
        };
        if is_unlike {
            let sketches = &mut self.texts.sketches;
            sketches.put(number, &page.sketch, page.shingle_count);
            if sketches.look(&marks.sketch, marks.shingle_count(), number) == Look::RuledOut {
                return Ok(None);
            }
        }
        Ok(Some((pointer, page)))
    }
}
