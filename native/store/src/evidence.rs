//! Candidates that titles set apart from a page, and the pages that are evidence for it; the rule is in `titles`.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::candidates::{sort_by_similarity, Match};
use crate::core::Core;
use crate::keys::{host_of, text_number};
use crate::pages::{Asking, Named, Reads, Value};
use crate::posted::{row_key_of, text_row, Condition, Pointer, POINTER_SLICE};
use crate::titles::{mismatch, Shown, Titled};

/// The oldest pages of a text that may be evidence against titles.
const MAX_EVIDENCE: usize = 64;
/// A third page counts as evidence if its similarity is below that of a near page by at most this.
const EVIDENCE_MARGIN: f64 = 0.1;

/// What is known against the titles of matches of one page: pages with texts like its own, by host.
pub(crate) struct Evidence {
    page: Titled<Named>,
    matches: Vec<Match>,
    like_them: Option<Vec<Pointer>>,
    by_host: HashMap<Box<[u8]>, Vec<Arc<Titled<Named>>>>,
}

/// The texts and bodies of pages, for `titles`.
struct Reader<'a, H, R> {
    core: &'a mut Core<H>,
    asking: &'a Asking,
    reads: &'a mut R,
}

impl<R: Reads> Shown for Reader<'_, R::Held, R> {
    type Name = Named;
    type Error = R::Error;

    fn text<'a>(&'a mut self, name: &'a Named) -> Result<Cow<'a, [u8]>, R::Error> {
        Ok(match name {
            Named::Asking => self.asking.main().into(),
            Named::Stored(pointer) => self.core.value(pointer, Value::Main, self.reads)?.unwrap_or_default().into(),
        })
    }

    fn visible_words(&mut self, name: &Named) -> Result<Option<usize>, R::Error> {
        let read;
        let body = match name {
            Named::Asking => self.asking.body(),
            Named::Stored(pointer) => {
                read = self.core.value(pointer, Value::Body, self.reads)?.unwrap_or_default();
                &read
            }
        };
        if body.is_empty() {
            return Ok(None);
        }
        self.reads.visible_words(body).map(Some)
    }
}

impl Evidence {
    pub(crate) fn new(asking: &Asking, matches: &[Match]) -> Self {
        let page = Titled::new(Named::Asking, &asking.row_key, &asking.page.title, None);
        Self { page, matches: matches.to_vec(), like_them: None, by_host: HashMap::new() }
    }
}

impl<H> Core<H> {
    /// Matches that titles allow, most similar first, and matches that titles set apart from a page.
    ///
    /// A match that is set apart is replaced by the oldest page with the same text that is not, if there is one.
    ///
    /// - `least`: Jaccard coefficient below which there is no verdict; such matches are kept unchecked.
    /// - `decisive_only`: leave out matches that are less similar than one that is allowed: they decide no verdict, unless
    ///   one page is contained in the other.
    pub(crate) fn by_titles<R: Reads<Held = H>>(
        &mut self,
        asking: &Asking,
        matches: Vec<Match>,
        least: f64,
        decisive_only: bool,
        reads: &mut R,
    ) -> Result<(Vec<Match>, Vec<Match>), R::Error> {
        let (mut allowed, mut apart) = (Vec::new(), Vec::new());
        let mut enough = 0.0_f64;
        let mut evidence = None;
        for each in &matches {
            let is_whole = each.contained >= self.rules.contained || each.contains >= self.rules.contained;
            if each.jaccard < enough && !is_whole {
                continue;
            }
            let mut each = each.clone();
            if each.jaccard < least && !is_whole {
                allowed.push(each);
                continue;
            }
            let known = evidence.get_or_insert_with(|| Evidence::new(asking, &matches));
            if !self.is_allowed(asking, known, &each.pointer, reads)? {
                match self.other_of_text(asking, known, &each.pointer, reads)? {
                    Some(other) => each.pointer = other,
                    None => {
                        apart.push(each);
                        continue;
                    }
                }
            }
            if decisive_only {
                enough = enough.max(each.jaccard);
            }
            allowed.push(each);
        }
        sort_by_similarity(&mut allowed); // another page of a text may be younger
        Ok((allowed, apart))
    }

    /// Whether titles allow a verdict on the text of a page to name another page.
    pub(crate) fn is_allowed<R: Reads<Held = H>>(
        &mut self,
        asking: &Asking,
        evidence: &mut Evidence,
        pointer: &Pointer,
        reads: &mut R,
    ) -> Result<bool, R::Error> {
        if !self.rules.title_rule {
            return Ok(true);
        }
        let other = self.titled(pointer, reads)?;
        let Evidence { page, matches, like_them, by_host } = evidence;
        let mut reader = Reader { core: self, asking, reads };
        let is_apart = mismatch(page, &other, &mut reader, |reader, hosts| {
            if like_them.is_none() {
                *like_them = Some(reader.core.like_them(matches, reader.reads)?);
            }
            let mut found = Vec::new();
            for host in hosts {
                if !by_host.contains_key(*host) {
                    let of_host = reader.core.titled_of_host(like_them.iter().flatten(), host, reader.reads)?;
                    by_host.insert((*host).into(), of_host);
                }
                found.extend(by_host.get(*host).into_iter().flatten().cloned());
            }
            Ok(found)
        })?;
        Ok(!is_apart)
    }

    /// Pages that may be evidence: those that matched, and the oldest with their texts, live or not.
    fn like_them<R: Reads<Held = H>>(&mut self, matches: &[Match], reads: &mut R) -> Result<Vec<Pointer>, R::Error> {
        let (near, contained) = (self.rules.near - EVIDENCE_MARGIN, self.rules.contained);
        let like = || matches.iter().filter(|each| each.jaccard >= near || each.contained >= contained);
        let mut found: Vec<Pointer> = like().map(|each| each.pointer.clone()).collect();
        for each in like() {
            let mut pages = self.postings.pages(&text_row(each.number), &[], reads)?;
            for _ in 0..MAX_EVIDENCE {
                let Some(page) = pages.next(reads)? else { break };
                found.push(page);
            }
        }
        let mut seen = HashSet::new();
        found.retain(|page| seen.insert(page.clone()));
        Ok(found)
    }

    fn titled_of_host<'a, R: Reads<Held = H>>(
        &mut self,
        pages: impl Iterator<Item = &'a Pointer>,
        host: &[u8],
        reads: &mut R,
    ) -> Result<Vec<Arc<Titled<Named>>>, R::Error> {
        let mut found = Vec::new();
        for pointer in pages.filter(|pointer| host_of(row_key_of(pointer)) == host) {
            if self.readable_page(pointer, reads)?.is_some() {
                found.push(self.titled(pointer, reads)?);
            }
        }
        Ok(found)
    }

    /// The oldest live page with the text of another page that titles allow: the oldest with the page's own title, or the
    /// first of all.
    fn other_of_text<R: Reads<Held = H>>(
        &mut self,
        asking: &Asking,
        evidence: &mut Evidence,
        pointer: &Pointer,
        reads: &mut R,
    ) -> Result<Option<Pointer>, R::Error> {
        let Some(stored) = self.readable_page(pointer, reads)? else { return Ok(None) };
        let Some(number) = text_number(&stored.text_checksum) else { return Ok(None) };
        let (row, has_text) = (text_row(number), Condition::Text { is_list: Some(stored.is_list) });
        let same_title = Condition::Titled {
            text_checksum: stored.text_checksum.clone(),
            title: asking.page.title.clone(),
            is_list: asking.page.is_list(),
        };
        let first = self.oldest(&row, &asking.row_key, has_text.clone(), reads)?;
        let titled_row = Self::titled_row(&stored.text_checksum, &asking.page.title);
        let titled = self.oldest(&titled_row, &asking.row_key, same_title, reads)?;
        let Some(first) = first else { return Ok(titled) };
        let mut pages = self.postings.pages(&row, &first, reads)?;
        let (mut next, mut count) = (Some(first), 1);
        while let Some(other) = next {
            let is_other = other != *pointer && row_key_of(&other) != &*asking.row_key;
            if is_other && self.fits(&other, &row, &has_text, reads)? {
                let page = self.readable_page(&other, reads)?;
                let has_text = page.is_some_and(|page| page.text_checksum == stored.text_checksum);
                if has_text && self.is_allowed(asking, evidence, &other, reads)? {
                    return Ok([Some(other), titled].into_iter().flatten().min());
                }
            }
            next = if count < POINTER_SLICE { pages.next(reads)? } else { None };
            count += 1;
        }
        Ok(titled)
    }
}
