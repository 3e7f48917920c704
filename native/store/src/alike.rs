//! Pages like a page: those of its own site, for a policy, and all of them, for a query.

use std::collections::HashSet;
use std::sync::Arc;

use crate::candidates::Match;
use crate::capture::is_blank;
use crate::compare::{text_compares, Kind, Reason, Verdict, MAX_VERIFIED, MIN_NEAR_WORDS, MIN_SAME_TEXT_WORDS};
use crate::core::Core;
use crate::evidence::Evidence;
use crate::keys::site;
use crate::pages::{Asking, Reads};
use crate::posted::{body_row, row_key_of, text_row, Condition, Pointer};
use crate::titles::same_title;

/// Pages of a body or text among which one of a certain site is looked for; that takes some 10 ms.
const MOST_FOREIGN: usize = 16_384;
/// Live pages with the text of a page, whose titles are compared.
const MAX_TITLES: usize = 4096;

/// A page that is like another, for a query; of pages that titles set apart the kind is `New`.
#[derive(Clone, Debug, PartialEq)]
pub struct Similar {
    pub pointer: Pointer,
    pub kind: Kind,
    pub jaccard: f64,
    pub contained: f64,
    pub contains: f64,
}

impl<H> Core<H> {
    /// The verdict of a page against the pages of its own site that show what they did; None if there is none.
    ///
    /// Pages of other sites hide none of them: a body or a text has at most `MOST_FOREIGN` such pages looked through.
    /// Texts are those of the candidates of `compare`.  Only some kinds of verdicts are looked for.
    pub fn of_site<R: Reads<Held = H>>(
        &mut self,
        asking: &Asking,
        kinds: &[Kind],
        reads: &mut R,
    ) -> Result<Option<Verdict>, R::Error> {
        let (page, status) = (&asking.page, asking.status);
        if kinds.contains(&Kind::Exact) {
            let has_body = Condition::Body { class: status / 100, checksum: page.checksum.clone() };
            let same = self.first_of_site(&body_row(&page.checksum), asking, &has_body, reads)?;
            if let Some(same) = same {
                return Ok(Some(Verdict::same(Kind::Exact, same)));
            }
        }
        let Some(marks) = page.marks.as_ref().filter(|_| page.has_text && text_compares(status)) else {
            return Ok(None);
        };
        if page.word_count() < MIN_SAME_TEXT_WORDS {
            return Ok(None);
        }
        let reason = if page.is_doubtful() { Reason::Doubtful } else { Reason::None };
        if kinds.contains(&Kind::SameText) {
            let titled = Condition::Titled {
                text_checksum: marks.text_checksum.clone(),
                title: page.title.clone(),
                is_list: page.is_list(),
            };
            let row = Self::titled_row(&marks.text_checksum, &page.title);
            if let Some(same) = self.first_of_site(&row, asking, &titled, reads)? {
                return Ok(Some(Verdict { reason, ..Verdict::same(Kind::SameText, same) }));
            }
        }
        if page.word_count() < MIN_NEAR_WORDS || !kinds.contains(&Kind::Near) {
            return Ok(None);
        }
        let known = self.matched.take().filter(|(of, ..)| Arc::ptr_eq(of, marks));
        let (matches, answer) = match known {
            Some((_, matches, answer)) => (matches, answer),
            None => self.matches(asking, marks, MAX_VERIFIED, reads)?,
        };
        let (candidates, verified) = (answer.proposal.candidates, matches.len());
        self.matched = Some((marks.clone(), matches.clone(), answer));
        let mut own = Vec::new();
        for each in matches {
            let has_text = Condition::Text { is_list: Some(page.is_list()) };
            let found = self.first_of_site(&text_row(each.number), asking, &has_text, reads)?;
            own.extend(found.map(|pointer| Match { pointer, ..each }));
        }
        let (mut allowed, _) = self.by_titles(asking, own, self.rules.least(), false, reads)?;
        allowed.retain(|each| site(row_key_of(&each.pointer)) == site(&asking.row_key));
        let (kind, of, similarity) = self.strongest(&allowed);
        let new = Verdict::new(reason);
        Ok(of.map(|of| Verdict { kind, of: Some(of), similarity, candidates, verified, ..new }))
    }

    /// The oldest page of a row of postings that fits, is of the site of the page that asks, and shows what it did.
    fn first_of_site<R: Reads<Held = H>>(
        &mut self,
        row: &[u8],
        asking: &Asking,
        condition: &Condition,
        reads: &mut R,
    ) -> Result<Option<Pointer>, R::Error> {
        let mut pages = self.postings.pages(row, &[], reads)?;
        for _ in 0..MOST_FOREIGN {
            let Some(page) = pages.next(reads)? else { break };
            let is_of_site = site(row_key_of(&page)) == site(&asking.row_key);
            if is_of_site
                && row_key_of(&page) != &*asking.row_key
                && self.fits(&page, row, condition, reads)?
                && self.is_current(&page, reads)?
                && self.is_readable(&page, reads)?
            {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// The pages like a page, at most `limit` with its body or text, then others with a similarity of `least` and more.
    pub fn similar<R: Reads<Held = H>>(
        &mut self,
        asking: &Asking,
        least: f64,
        limit: usize,
        reads: &mut R,
    ) -> Result<Vec<Similar>, R::Error> {
        let mut found: Vec<Similar> = Vec::new();
        self.equal(asking, limit, &mut found, reads)?;
        let page = &asking.page;
        let Some(marks) = page.marks.as_ref().filter(|_| text_compares(asking.status)) else { return Ok(found) };
        if page.word_count() < MIN_NEAR_WORDS {
            return Ok(found);
        }
        let wanted = self.rules.at_least(least);
        let (matches, _) = self.matches(asking, marks, limit.max(MAX_VERIFIED), reads)?;
        let (allowed, apart) = self.by_titles(asking, matches, least, false, reads)?;
        let all = allowed.into_iter().map(|each| (each, false)).chain(apart.into_iter().map(|each| (each, true)));
        for (each, is_apart) in all {
            let Match { pointer, jaccard, contained, contains, .. } = each;
            let kind = wanted.kind(jaccard, contained.max(contains));
            let is_known = found.iter().any(|other| other.pointer == pointer);
            if kind != Kind::New && !is_known && self.is_readable(&pointer, reads)? {
                let kind = if is_apart { Kind::New } else { kind };
                found.push(Similar { pointer, kind, jaccard, contained, contains });
            }
        }
        Ok(found)
    }

    /// Pages of other rows with the body, or with the text and title of a page, and the first pages with only its text:
    /// oldest first within each verdict, until there are `limit`.
    fn equal<R: Reads<Held = H>>(
        &mut self,
        asking: &Asking,
        limit: usize,
        found: &mut Vec<Similar>,
        reads: &mut R,
    ) -> Result<(), R::Error> {
        let page = &asking.page;
        let mut rows = Vec::new();
        if !is_blank(asking.body()) {
            let has_body = Condition::Body { class: asking.status / 100, checksum: page.checksum.clone() };
            rows.push((body_row(&page.checksum), has_body, Kind::Exact));
        }
        let is_compared = text_compares(asking.status) && page.word_count() >= MIN_SAME_TEXT_WORDS;
        let marks = page.marks.as_ref().filter(|_| is_compared);
        if let Some(marks) = marks {
            let titled = Condition::Titled {
                text_checksum: marks.text_checksum.clone(),
                title: page.title.clone(),
                is_list: page.is_list(),
            };
            rows.push((Self::titled_row(&marks.text_checksum, &page.title), titled, Kind::SameText));
        }
        let mut seen = HashSet::new();
        for (row, condition, kind) in rows {
            let mut pages = self.postings.pages(&row, &[], reads)?;
            while let Some(pointer) = pages.next(reads)? {
                if row_key_of(&pointer) != &*asking.row_key
                    && self.fits(&pointer, &row, &condition, reads)?
                    && self.is_found(&pointer, kind, &mut seen, found, reads)?
                    && found.len() == limit
                {
                    return Ok(());
                }
            }
        }
        let Some(marks) = marks.filter(|_| page.word_count() >= MIN_NEAR_WORDS) else { return Ok(()) };
        let (matches, _) = self.matches(asking, marks, MAX_VERIFIED, reads)?;
        let mut evidence = Evidence::new(asking, &matches);
        let row = text_row(marks.number);
        let has_text = Condition::Text { is_list: Some(page.is_list()) };
        let mut pages = self.postings.pages(&row, &[], reads)?;
        let mut count = 0;
        while count < MAX_TITLES {
            let Some(pointer) = pages.next(reads)? else { break };
            if row_key_of(&pointer) == &*asking.row_key || !self.fits(&pointer, &row, &has_text, reads)? {
                continue;
            }
            count += 1;
            let its = self.readable_page(&pointer, reads)?;
            if !its.is_some_and(|its| its.text_checksum == marks.text_checksum)
                || same_title(&self.titled(&pointer, reads)?.title, &page.title)
            {
                continue;
            }
            let is_allowed = self.is_allowed(asking, &mut evidence, &pointer, reads)?;
            let kind = if is_allowed { Kind::Near } else { Kind::New };
            if self.is_found(&pointer, kind, &mut seen, found, reads)? && found.len() == limit {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Add a page with an equal text, unless it was found before, or cannot be read; whether it was added.
    fn is_found<R: Reads<Held = H>>(
        &mut self,
        pointer: &Pointer,
        kind: Kind,
        seen: &mut HashSet<Pointer>,
        found: &mut Vec<Similar>,
        reads: &mut R,
    ) -> Result<bool, R::Error> {
        if seen.contains(pointer) || !self.is_readable(pointer, reads)? {
            return Ok(false);
        }
        seen.insert(pointer.clone());
        let (jaccard, contained, contains) = (1.0, 1.0, 1.0);
        found.push(Similar { pointer: pointer.clone(), kind, jaccard, contained, contains });
        Ok(true)
    }
}
