//! The verdict: the relation of a page to pages of other URLs.
//!
//! Fingerprints propose, exact comparison decides: every similarity here is computed from shingle sets of stored texts.
//! A page has postings only while it has its own body, so any page in the index can be compared, if it is live.  The
//! verdict is the first that holds of
//!
//! 1. `exact`: a page has the same body.  A body of white space is a duplicate of none (reason `blank`).
//! 2. no verdict on text for a body without a reader (its reason says why) or an answer that is no page (`status`).
//! 3. `same_text`: a page has the same text under a title with the same words; of 20 words and more.
//! 4. no other verdict on a text of less than 50 words (`short_text`).
//! 5. `near`, `contained`, `similar` by the thresholds of the store, among candidates that titles do not set apart.
//! 6. `new`; if titles set it apart from a page that it would duplicate, it names that page (`title_mismatch`).
//!
//! If several pages qualify, the verdict names the most similar one, then the oldest, then the one with the smallest row
//! key.  If the body of the page that it names cannot be read, the page is judged again without that page.
//!
//! Lists of pages (feeds and site maps) are compared only with lists: a feed has the texts of the pages that it lists,
//! but is not a copy of them.  The body of a redirect or an error comes from the server, not from the page, so bytes are
//! compared within a status class (the first digit of the status), and texts only among 2xx pages.

use std::sync::Arc;

use crate::analysed::Marks;
use crate::candidates::{largest, Match};
use crate::capture::is_blank;
use crate::core::Core;
use crate::format::REASON_BLANK;
use crate::keys::{posting_rows, text_number};
use crate::pages::{Asking, Reads};
use crate::posted::{body_row, text_row, Condition, Pointer};
use crate::titles::same_title;

pub const MIN_SAME_TEXT_WORDS: usize = 20;
/// Shorter texts are mostly template ("log in", "page not found"): they get the reason `short_text` and no bands, so that
/// every candidate is at least so long.
pub const MIN_NEAR_WORDS: usize = 50;
/// Candidates compared exactly: the first that the index proposes and sketches do not rule out; if none of them is near,
/// as many more, the likeliest by their sketches.
pub const MAX_VERIFIED: usize = 16;
/// A page with at least this similarity is worth a delta, even if it is not a duplicate.
pub const DELTA_SIMILARITY: f64 = 0.4;
/// Three standard deviations of a sketch's estimate: texts further below the bound are ruled out.
pub const SKETCH_MARGIN: f64 = 0.1;
/// Least share of the smaller page that must be possible by the upper end of a sketch's error.
pub const LIKELY_CONTAINED: f64 = 0.8;

/// Whether the text of an answer is compared with other texts for which this holds.
pub fn text_compares(status: i64) -> bool {
    status / 100 == 2
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Exact,
    SameText,
    Near,
    Contained,
    Similar,
    New,
}

impl Kind {
    /// As `format::VERDICT_KINDS` has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::SameText => "same_text",
            Self::Near => "near",
            Self::Contained => "contained",
            Self::Similar => "similar",
            Self::New => "new",
        }
    }

    /// Whether the page is a duplicate of the one that the verdict names.
    pub fn is_duplicate(self) -> bool {
        !matches!(self, Self::Similar | Self::New)
    }
}

/// Why a page was not compared, or why its verdict may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was compared, and nothing makes its verdict less sure.
    None,
    Blank,
    /// The body has no reader, or it found no text; the analysis says which.
    NoText,
    Status,
    ShortText,
    /// It may be a duplicate: the buckets of pages like it are full at every depth.
    Crowded,
    /// Its main text is doubtful.
    Doubtful,
    /// Titles set it apart from a page with a similar text, which the verdict names.
    TitleMismatch,
}

pub const REASON_CROWDED: &str = "crowded";
pub const REASON_DOUBTFUL: &str = "doubtful_text";
pub const REASON_TITLE_MISMATCH: &str = "title_mismatch";

impl Reason {
    /// As a verdict has it; empty if the analysis says it.
    pub fn word(self) -> &'static str {
        match self {
            Self::None | Self::NoText => "",
            Self::Blank => REASON_BLANK,
            Self::Status => "status",
            Self::ShortText => "short_text",
            Self::Crowded => REASON_CROWDED,
            Self::Doubtful => REASON_DOUBTFUL,
            Self::TitleMismatch => REASON_TITLE_MISMATCH,
        }
    }
}

/// Least similarities for verdicts.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Least Jaccard coefficient of near duplicates.
    pub near: f64,
    /// Least share of the smaller page that is in the larger one.
    pub contained: f64,
    /// Least Jaccard coefficient of similar pages; None turns this verdict off.
    pub similar: Option<f64>,
    /// Whether titles may speak against a verdict on text.
    pub title_rule: bool,
}

impl Rules {
    /// The Jaccard coefficient below which there is no verdict but `contained`.
    pub fn least(&self) -> f64 {
        self.similar.unwrap_or(self.near)
    }

    /// The rules of a query for pages with at least this similarity.
    pub(crate) fn at_least(&self, least: f64) -> Self {
        Self { near: self.near.max(least), contained: self.contained.max(least), similar: Some(least), ..*self }
    }

    /// The verdict for a Jaccard coefficient, and the share of the page that is in the other page.
    pub(crate) fn kind(&self, similarity: f64, contained: f64) -> Kind {
        if similarity >= self.near {
            Kind::Near
        } else if contained >= self.contained {
            Kind::Contained
        } else if self.similar.is_some_and(|least| similarity >= least) {
            Kind::Similar
        } else {
            Kind::New
        }
    }
}

/// A verdict against other rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub kind: Kind,
    /// The page that it names.
    pub of: Option<Pointer>,
    pub similarity: f64,
    pub reason: Reason,
    /// A page that this page contains.
    pub contains: Option<Pointer>,
    /// Texts that the index proposed, and those that were compared exactly.
    pub candidates: usize,
    pub verified: usize,
    /// The nearest verified page, duplicate or not, whose similarity is at least `DELTA_SIMILARITY`: a base for a delta.
    pub nearest: Option<Pointer>,
}

impl Verdict {
    pub(crate) fn new(reason: Reason) -> Self {
        let (kind, similarity) = (Kind::New, 0.0);
        Self { kind, of: None, similarity, reason, contains: None, candidates: 0, verified: 0, nearest: None }
    }

    /// Of a page with the same body or text as another.
    pub(crate) fn same(kind: Kind, of: Pointer) -> Self {
        let nearest = Some(of.clone());
        Self { kind, of: Some(of), similarity: 1.0, candidates: 1, verified: 1, nearest, ..Self::new(Reason::None) }
    }
}

impl<H> Core<H> {
    /// Compare a page with the live pages of other rows, and give its verdict.
    pub fn compare<R: Reads<Held = H>>(&mut self, asking: &Asking, reads: &mut R) -> Result<Verdict, R::Error> {
        let page = &asking.page;
        let word_count = page.word_count();
        if word_count == 0 && is_blank(asking.body()) {
            return Ok(Verdict::new(Reason::Blank));
        }
        self.unreadable.clear();
        let body_row = body_row(&page.checksum);
        let mut verdict = loop {
            let has_body = Condition::Body { class: asking.status / 100, checksum: page.checksum.clone() };
            let same_body = self.oldest(&body_row, &asking.row_key, has_body, reads)?;
            let verdict = if let Some(same) = same_body {
                Verdict::same(Kind::Exact, same)
            } else if !page.has_text {
                Verdict::new(if !page.no_text.is_empty() { Reason::NoText } else { Reason::None })
            } else if !text_compares(asking.status) {
                Verdict::new(Reason::Status)
            } else {
                let is_long = word_count >= MIN_SAME_TEXT_WORDS;
                let same_text = if is_long { self.oldest_titled(asking, page.text_checksum(), reads)? } else { None };
                match (same_text, &page.marks) {
                    (Some(same), _) => Verdict::same(Kind::SameText, same),
                    (None, Some(marks)) if word_count >= MIN_NEAR_WORDS => self.similar_text(asking, marks, reads)?,
                    _ => Verdict::new(Reason::ShortText),
                }
            };
            match verdict.of.clone() {
                Some(of) if !self.is_readable(&of, reads)? => self.unreadable.insert(of),
                _ => break verdict,
            };
        };
        if verdict.reason == Reason::None && verdict.kind != Kind::Exact && page.is_doubtful() {
            verdict.reason = Reason::Doubtful;
        }
        Ok(verdict)
    }

    /// Compare a page with one live page of another row: exact, same_text, near, contained, or new.
    ///
    /// Titles are not compared: the sweep that proposes the pair has seen all evidence.
    pub fn compare_with<R: Reads<Held = H>>(
        &mut self,
        of: &Pointer,
        asking: &Asking,
        reads: &mut R,
    ) -> Result<Verdict, R::Error> {
        let (page, status) = (&asking.page, asking.status);
        let Some(other) = self.readable_page(of, reads)?.filter(|_| !is_blank(asking.body())) else {
            return Ok(Verdict::new(Reason::None));
        };
        let (mut kind, mut similarity) = (Kind::New, 1.0);
        if other.checksum == page.checksum && other.status / 100 == status / 100 {
            kind = Kind::Exact;
        } else if text_compares(status) && text_compares(other.status) && other.is_list == page.is_list() {
            let is_same = !page.text_checksum().is_empty() && *page.text_checksum() == *other.text_checksum;
            if is_same
                && page.word_count() >= MIN_SAME_TEXT_WORDS
                && same_title(&self.titled(of, reads)?.title, &page.title)
            {
                kind = Kind::SameText;
            } else if page.word_count() >= MIN_NEAR_WORDS {
                let (alike, contained) = self.shares(page.marks.as_ref(), &other.text_checksum, of, reads)?;
                kind = Rules { similar: None, ..self.rules }.kind(alike, contained);
                similarity = if kind == Kind::Contained { contained } else { alike };
            }
        }
        if kind == Kind::New || !self.is_readable(of, reads)? {
            return Ok(Verdict::new(Reason::None));
        }
        let is_doubtful = kind != Kind::Exact && page.is_doubtful();
        let reason = if is_doubtful { Reason::Doubtful } else { Reason::None };
        Ok(Verdict { similarity, reason, ..Verdict::same(kind, of.clone()) })
    }

    /// The row of postings of a text with the words of a title.
    pub(crate) fn titled_row(text_checksum: &[u8], title: &[u8]) -> Vec<u8> {
        posting_rows(b"", text_checksum, title, &mut Default::default()).pop().unwrap_or_default()
    }

    /// The oldest live page of another row with a text, and the title of the page that asks.
    pub(crate) fn oldest_titled<R: Reads<Held = H>>(
        &mut self,
        asking: &Asking,
        text_checksum: &[u8],
        reads: &mut R,
    ) -> Result<Option<Pointer>, R::Error> {
        let Some(number) = text_number(text_checksum) else { return Ok(None) };
        if self.postings.first(&text_row(number), reads)?.is_empty() {
            return Ok(None); // for most pages
        }
        let (title, is_list) = (asking.page.title.clone(), asking.page.is_list());
        let row = Self::titled_row(text_checksum, &title);
        let condition = Condition::Titled { text_checksum: text_checksum.into(), title, is_list };
        self.oldest(&row, &asking.row_key, condition, reads)
    }

    // --- texts

    fn similar_text<R: Reads<Held = H>>(
        &mut self,
        asking: &Asking,
        marks: &Arc<Marks>,
        reads: &mut R,
    ) -> Result<Verdict, R::Error> {
        let (matches, answer) = self.matches(asking, marks, MAX_VERIFIED, reads)?;
        let reason = if answer.is_crowded { Reason::Crowded } else { Reason::None };
        let (candidates, verified) = (answer.proposal.candidates, matches.len());
        self.matched = Some((marks.clone(), matches.clone(), answer));
        let new = Verdict { candidates, verified, ..Verdict::new(reason) };
        let Some(first) = matches.first() else { return Ok(new) };
        let nearest = (first.jaccard >= DELTA_SIMILARITY).then(|| first.pointer.clone());
        let (allowed, apart) = self.by_titles(asking, matches, self.rules.least(), true, reads)?;
        let smaller: Vec<Match> =
            allowed.iter().filter(|each| each.contains >= self.rules.contained).cloned().collect();
        let contains = largest(&smaller, |each| each.contains).map(|each| each.pointer.clone());
        let (kind, of, similarity) = self.strongest(&allowed);
        let found = Verdict { kind, of, similarity, contains, nearest, ..new };
        if kind.is_duplicate() {
            return Ok(Verdict { reason: Reason::None, ..found });
        }
        let (apart_kind, apart_of, apart_similarity) = self.strongest(&apart);
        if apart_kind.is_duplicate() || (kind == Kind::New && apart_of.is_some()) {
            let (kind, reason) = (Kind::New, Reason::TitleMismatch);
            return Ok(Verdict { kind, of: apart_of, similarity: apart_similarity, reason, ..found });
        }
        Ok(found)
    }

    /// The first verdict that holds for matches, most similar first; the page that it names, and its similarity.
    pub(crate) fn strongest(&self, matches: &[Match]) -> (Kind, Option<Pointer>, f64) {
        let Some(nearest) = matches.first() else { return (Kind::New, None, 0.0) };
        let whole = largest(matches, |each| each.contained).unwrap_or(nearest);
        match self.rules.kind(nearest.jaccard, whole.contained) {
            Kind::New => (Kind::New, None, 0.0),
            Kind::Contained => (Kind::Contained, Some(whole.pointer.clone()), whole.contained),
            kind => (kind, Some(nearest.pointer.clone()), nearest.jaccard),
        }
    }
}
