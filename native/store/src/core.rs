//! What judging pages knows: the batch, and caches of committed postings and pages.
//!
//! The batch comes first, then the caches, then what is read.  The caches have committed data alone; each commit updates
//! them by key (`follow`), and what look-ups learnt from a batch is dropped with it.

use std::collections::HashSet;
use std::sync::Arc;

use docstore_kernel::postings::Answer;
use docstore_kernel::ranking::Looks;
use docstore_kernel::sketches::Bounds;
use docstore_kernel::texts::Texts;
use docstore_kernel::words::Words;

use crate::analysed::{Analysed, Marks};
use crate::batch::{Batch, Compared, Fetched, FetchedKind, Judged};
use crate::candidates::Match;
use crate::capture::{BODY, MAIN, TITLE};
use crate::compare::{text_compares, Rules, DELTA_SIMILARITY, LIKELY_CONTAINED, MIN_NEAR_WORDS, SKETCH_MARGIN};
use crate::format::{POSTING_TEXT, VALUE_REF};
use crate::keys::{posting_rows, text_number};
use crate::lru::{Counts, Lru};
use crate::pages::{Asking, Named, Page, Reads, Stored, Value};
use crate::posted::{
    body_row, number_of, pointer as pointer_of, row_key_of, text_row, time_of, Condition, Oldest, Pages, Pointer,
    Postings, Row,
};
use crate::times::TakenTimes;
use crate::titles::{same_title, Titled};
use crate::values::inline;
use crate::verdict::STORED_TEXT;

/// The memory of a sketch.  Most candidates are recent pages of the same site, and sketches rule out most.
const SKETCH_BYTES: usize = 400;
/// The memory of a cached page without its cell values; and of the entry of its row.
const PAGE_BYTES: usize = 900;
const ENTRY_BYTES: usize = 250;
/// Texts without a live page that are remembered.
const MAX_GONE: usize = 65_536;
/// How many texts are looked at for each page.
pub const LOOKS: Looks = Looks { near: 24, inside: 16, most: 8, further: 48 };
const MOST_LOOKS: usize = LOOKS.near + LOOKS.inside + LOOKS.most;

/// Bytes of each cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shares {
    pub pages: usize,
    pub postings: usize,
    pub sketches: usize,
    pub shingles: usize,
}

/// The last proposal: judging a page and posting it ask the same.
struct Proposed {
    marks: Arc<Marks>,
    rows: usize,
    gone_seen: u64,
    answer: Arc<Answer>,
}

/// Cached committed pages of a row, by time.
type CachedRow = Vec<(u64, Stored)>;

/// `H` is what the caller holds of a page of the batch.
pub struct Core<H> {
    pub(crate) rules: Rules,
    pub postings: Postings,
    pub(crate) texts: Texts<Vec<u64>>,
    /// Candidates that turned out to be unreadable while this page was compared.  The next page tries them again.
    pub(crate) unreadable: HashSet<Pointer>,
    /// The last page that `compare` looked for, and what it found.
    pub(crate) matched: Option<(Arc<Marks>, Vec<Match>, Arc<Answer>)>,
    /// How many texts turned out to have no live page.
    pub(crate) gone_seen: u64,
    gone: Lru<u64, ()>,
    pub(crate) batch: Batch<H>,
    pub(crate) taken_times: TakenTimes,
    cached: Lru<Box<[u8]>, CachedRow>,
    proposed: Option<Proposed>,
    /// Whether a policy may hide captures or bodies.
    collects: bool,
    words: Words,
}

impl<H> Core<H> {
    /// `caches`: committed postings are cached, and pages too unless their share is 0.
    pub fn new(rules: Rules, shares: Shares, caches: bool, collects: bool) -> Self {
        let bounds = Bounds {
            least_estimate: DELTA_SIMILARITY - SKETCH_MARGIN,
            margin: SKETCH_MARGIN,
            least_contained: LIKELY_CONTAINED,
        };
        Self {
            rules,
            postings: Postings::new(shares.postings, caches),
            texts: Texts::new(shares.sketches / SKETCH_BYTES, bounds, shares.shingles),
            unreadable: HashSet::new(),
            matched: None,
            gone_seen: 0,
            gone: Lru::new(MAX_GONE),
            batch: Batch::default(),
            taken_times: TakenTimes::default(),
            cached: Lru::new(shares.pages),
            proposed: None,
            collects,
            words: Words::default(),
        }
    }

    /// Of the caches of pages and of postings.
    pub fn counts(&self) -> (Arc<Counts>, Arc<Counts>) {
        (self.cached.counts(), self.postings.counts())
    }

    // --- the batch

    /// Pages and visits of the batch that get a record, in the order in which they were judged.
    pub fn pages_of_batch(&self) -> &[Arc<Judged<H>>] {
        &self.batch.pages
    }

    /// Bytes of the bodies of the batch.
    pub fn body_bytes_of_batch(&self) -> usize {
        self.batch.body_bytes
    }

    /// Post a page with the batch: in its rows, and its text under its keys, if it is long enough and not posted yet.
    pub fn post<R: Reads<Held = H>>(
        &mut self,
        pointer: &Pointer,
        asking: &Asking,
        reads: &mut R,
    ) -> Result<(), R::Error> {
        let page = &asking.page;
        let marks = page.marks.as_ref().filter(|_| text_compares(asking.status));
        if let Some(marks) = marks.filter(|marks| marks.fingerprints.word_count >= MIN_NEAR_WORDS) {
            let answer = self.propose(marks, reads)?;
            if !answer.proposal.holds_own {
                // Else an earlier page with this text posted it, and may be gone.
                reads.post(marks, &answer)?;
            }
        }
        let text_checksum = marks.map_or(&[][..], |marks| &marks.text_checksum);
        for row in posting_rows(&page.checksum, text_checksum, &page.title, &mut self.words) {
            self.postings.new.add(pointer, &row);
        }
        Ok(())
    }

    /// Whether a page of the batch is stored there, and others are compared with it.
    pub fn is_in_batch(&self, pointer: &[u8]) -> bool {
        self.batch.compared.contains_key(pointer)
    }

    /// The batch is committed: cache its pages, and begin the next one.
    ///
    /// `cell` gives the cell value of a column of a page as it was written, by the place of the page in the batch.
    pub fn committed<'a>(&mut self, cell: impl Fn(usize, usize) -> Option<&'a [u8]>) {
        let mut batch = std::mem::take(&mut self.batch);
        self.postings.new = Default::default();
        self.proposed = None;
        if self.collects {
            return; // a policy may hide a late capture as soon as it is written
        }
        for (place, judged) in batch.pages.iter().enumerate() {
            let pointer = &judged.pointer;
            let Some(record) = &judged.record else { continue };
            // Of two pages at one time the last one is compared with.
            let is_last = |compared: &Compared<H>| Arc::ptr_eq(&compared.judged, judged);
            if !batch.compared.get(pointer).is_some_and(is_last) {
                continue;
            }
            let Some(Compared { stored, .. }) = batch.compared.remove(pointer) else { continue };
            let written = |number| cell(place, number).unwrap_or_else(|| record.columns.get(number)).into();
            let cells = [TITLE, MAIN, BODY].map(written);
            self.cache(
                row_key_of(pointer),
                vec![(time_of(pointer), Stored { page: stored.page, cells: Arc::new(cells) })],
            );
        }
    }

    /// Drop the batch, whose commit failed, or whose outcome is not known, and what look-ups learnt from it.
    pub fn drop_batch(&mut self) {
        self.batch = Batch::default();
        self.taken_times.clear();
        self.postings.new = Default::default();
        self.clear_postings();
    }

    // --- the caches

    /// Forget what is known of postings: other processes may have written, or hidden pages may be shown again.
    pub fn clear_postings(&mut self) {
        self.postings.clear();
        self.gone.clear();
        (self.proposed, self.matched) = (None, None);
    }

    /// Forget the cached pages.
    pub fn clear_pages(&mut self) {
        self.cached.clear();
    }

    /// Forget the cached pages of a row.
    pub fn drop_row(&mut self, row_key: &[u8]) {
        if self.cached.contains(row_key) {
            self.cached.drop(row_key);
        }
    }

    /// After a commit: update what is known of a row of postings that it changed.
    pub fn follow(&mut self, row: &[u8], added: &[Pointer], removed: &[Pointer], is_sure: bool) {
        if !added.is_empty() && self.gone_seen > 0 && row.first() == Some(&POSTING_TEXT) {
            self.gone.drop(&number_of(row));
        }
        self.postings.follow(row, added, removed, is_sure);
    }

    /// After a commit that has changed captures of a row of pages: those that it has set, and whether it deletes some.
    pub fn follow_row(&mut self, row_key: &[u8], set: &[(u64, Box<[u8]>)], deletes: bool, is_sure: bool) {
        self.drop_row(row_key);
        self.batch.absent.remove(row_key);
        self.taken_times.follow(row_key, set, deletes, is_sure);
    }

    /// After a commit that has deleted some captures of a row.
    pub fn uncover(&mut self) {
        if self.collects {
            self.clear_postings(); // an older page of the row may be live again, and its text is known as gone
        }
    }

    /// Whether `follow_row` needs to know which captures were set.
    pub fn has_taken_times(&self) -> bool {
        !self.taken_times.is_empty()
    }

    /// Others have committed while a page was judged: nothing is sure that is known of rows.
    pub fn clear_rows(&mut self) {
        self.clear_postings();
        self.clear_pages();
        self.batch.absent.clear();
        self.taken_times.clear();
    }

    fn cache(&mut self, row_key: &[u8], row: CachedRow) {
        let cost = row.iter().map(|(_, stored)| PAGE_BYTES + stored.cell_bytes()).sum::<usize>() + ENTRY_BYTES;
        self.cached.put(row_key.into(), cost, row);
    }

    // --- pages

    /// The page at a row and time; None if it was deleted, has expired, or was never written.
    ///
    /// A page of the batch is live if it will be once the batch is committed.  Other captures of its row are read with the
    /// records of the batch, and not cached: a visit may show a page of the batch, and a policy may hide a capture for it.
    pub fn page<R: Reads<Held = H>>(&mut self, pointer: &Pointer, reads: &mut R) -> Result<Option<Stored>, R::Error> {
        let (timestamp, row_key) = (time_of(pointer), row_key_of(pointer));
        let pending = self.batch.of_row(row_key);
        if !pending.is_empty() {
            if let Some(found) = self.batch.compared.get(pointer).filter(|_| !self.collects) {
                return Ok(Some(found.stored.clone()));
            }
            return reads.page(pointer, pending);
        }
        let row = self.cached.get(row_key);
        if let Some((_, stored)) = row.as_ref().and_then(|row| row.iter().find(|(time, _)| *time == timestamp)) {
            return Ok(Some(stored.clone()));
        }
        let mut row = row.map_or_else(Vec::new, |row| row.clone());
        let Some(found) = reads.page(pointer, pending)? else { return Ok(None) };
        row.push((timestamp, found.clone()));
        self.cache(row_key, row);
        Ok(Some(found))
    }

    /// The page at a row and time; None also if it is known to be unreadable.
    pub(crate) fn readable_page<R: Reads<Held = H>>(
        &mut self,
        pointer: &Pointer,
        reads: &mut R,
    ) -> Result<Option<Arc<Page>>, R::Error> {
        if self.unreadable.contains(pointer) {
            return Ok(None);
        }
        Ok(self.page(pointer, reads)?.map(|stored| stored.page))
    }

    /// A value of a page, empty if it has none; None if it cannot be read.
    pub fn value<R: Reads<Held = H>>(
        &mut self,
        pointer: &Pointer,
        value: Value,
        reads: &mut R,
    ) -> Result<Option<Vec<u8>>, R::Error> {
        if let Some(Compared { judged, .. }) = self.batch.compared.get(pointer).filter(|_| !self.collects) {
            let asking = &judged.fetched.asking;
            let raw = match value {
                Value::Title => &asking.page.title,
                Value::Main => asking.main(),
                Value::Body if judged.verdict.stored == STORED_TEXT => &[],
                Value::Body => asking.body(),
            };
            return Ok(Some(raw.to_vec()));
        }
        let Some(stored) = self.page(pointer, reads)? else { return Ok(Some(Vec::new())) };
        let cell_value = stored.cell(value);
        if let Some(raw) = inline(cell_value) {
            return Ok(Some(raw.to_vec())); // nearly all titles
        }
        let found = reads.value(pointer, value, cell_value, self.batch.of_row(row_key_of(pointer)))?;
        if found.is_none() {
            self.drop_row(row_key_of(pointer));
        }
        Ok(found)
    }

    /// Whether the body of a page can be read.
    pub fn is_readable<R: Reads<Held = H>>(&mut self, pointer: &Pointer, reads: &mut R) -> Result<bool, R::Error> {
        if self.is_in_batch(pointer) {
            return Ok(true);
        }
        let Some(stored) = self.page(pointer, reads)? else { return Ok(true) };
        let cell_value = stored.cell(Value::Body);
        if cell_value.first() != Some(&VALUE_REF) {
            return Ok(true);
        }
        let is_readable = reads.is_readable(pointer, cell_value, self.batch.of_row(row_key_of(pointer)))?;
        if !is_readable {
            self.drop_row(row_key_of(pointer));
        }
        Ok(is_readable)
    }

    /// Whether a page is live and what its URL shows today: nothing newer there has other bytes or another status class.
    pub fn is_current<R: Reads<Held = H>>(&mut self, pointer: &Pointer, reads: &mut R) -> Result<bool, R::Error> {
        let Some(Stored { page, .. }) = self.page(pointer, reads)? else { return Ok(false) };
        let row_key = row_key_of(pointer);
        let Some(newest) = reads.newest(row_key, self.batch.of_row(row_key))? else { return Ok(false) };
        if newest == time_of(pointer) {
            return Ok(true);
        }
        let Some(newer) = self.page(&pointer_of(newest, row_key), reads)? else { return Ok(false) };
        Ok(newer.page.checksum == page.checksum && newer.page.status / 100 == page.status / 100)
    }

    /// Title and text of a page as words.
    pub(crate) fn titled<R: Reads<Held = H>>(
        &mut self,
        pointer: &Pointer,
        reads: &mut R,
    ) -> Result<Arc<Titled<Named>>, R::Error> {
        let found = self.page(pointer, reads)?;
        if let Some(titled) = found.as_ref().and_then(|stored| stored.page.titled.get()) {
            return Ok(titled.clone());
        }
        let title = match found.as_ref().and_then(|stored| stored.page.title.clone()) {
            Some(title) => title,
            None => self.value(pointer, Value::Title, reads)?.unwrap_or_default().into(),
        };
        Ok(match found {
            Some(stored) => stored.page.titled(pointer, &title),
            None => Arc::new(Titled::new(Named::Stored(pointer.clone()), row_key_of(pointer), &title, None)),
        })
    }

    // --- look-ups

    /// Read for the pages that are judged next, in few calls: which of their rows exist; and into the cache, if there is
    /// one, the rows of postings of bodies and texts, then those of texts with titles, which exist for few.
    pub fn prepare<R: Reads<Held = H>>(&mut self, pages: &[&Fetched<H>], reads: &mut R) -> Result<(), R::Error> {
        let fetched = pages.iter().filter(|page| page.kind != FetchedKind::Refused);
        let absent = reads.absent_rows(fetched.map(|page| &*page.asking.row_key).collect())?;
        self.batch.absent.extend(absent);
        let pages = pages.iter().filter(|page| page.kind == FetchedKind::Page).map(|page| &*page.asking.page);
        let pages: Vec<&Analysed> = pages.collect();
        if !self.postings.caches() {
            return Ok(());
        }
        let texts = pages.iter().filter_map(|page| Some((*page, page.marks.as_ref()?)));
        let mut rows: Vec<Vec<u8>> = pages.iter().map(|page| body_row(&page.checksum)).collect();
        rows.extend(texts.clone().map(|(_, marks)| text_row(marks.number).to_vec()));
        self.prepare_rows(rows, reads)?;
        let mut titled = Vec::new();
        for (page, marks) in texts {
            if !self.postings.first(&text_row(marks.number), reads)?.is_empty() {
                titled.extend(posting_rows(b"", &marks.text_checksum, &page.title, &mut self.words).pop());
            }
        }
        self.prepare_rows(titled, reads)
    }

    /// Read rows of postings into the cache, if there is one, in one call.
    pub fn prepare_rows<R: Reads<Held = H>>(&mut self, mut rows: Vec<Vec<u8>>, reads: &mut R) -> Result<(), R::Error> {
        rows.sort_unstable();
        rows.dedup();
        let rows: Vec<&[u8]> = rows.iter().map(|row| &row[..]).collect();
        self.postings.prepare(&rows, reads)
    }

    /// The texts that share a band or a 0-mod-p fingerprint with a page, ranked.
    ///
    /// Texts that are known to be gone are left out, and take no place of others.
    pub fn propose<R: Reads<Held = H>>(&mut self, marks: &Arc<Marks>, reads: &mut R) -> Result<Arc<Answer>, R::Error> {
        let rows = self.postings.new.len();
        if let Some(last) = &self.proposed {
            if Arc::ptr_eq(&last.marks, marks) && last.rows == rows && last.gone_seen == self.gone_seen {
                return Ok(last.answer.clone());
            }
        }
        let mut answer = reads.propose(marks, 0)?;
        let mut more = 0;
        while self.gone_seen > 0 {
            let is_left = |number: &&u64| !self.is_gone(**number);
            let left: Vec<u64> = answer.proposal.numbers.iter().filter(is_left).copied().collect();
            let hidden = answer.proposal.numbers.len() - left.len();
            if hidden <= more {
                let further = answer.proposal.further.iter().filter(is_left).copied().collect();
                let mut shown = (*answer).clone();
                shown.proposal.numbers = left;
                shown.proposal.numbers.truncate(MOST_LOOKS);
                shown.proposal.further = further;
                answer = Arc::new(shown);
                break;
            }
            more = 2 * hidden;
            answer = reads.propose(marks, more)?;
        }
        let gone_seen = self.gone_seen;
        self.proposed = Some(Proposed { marks: marks.clone(), rows, gone_seen, answer: answer.clone() });
        Ok(answer)
    }

    fn is_gone(&self, number: u64) -> bool {
        self.gone.contains(&number) && self.postings.new.get(&text_row(number)).is_empty()
    }

    /// Record that a text has no live page, so that it is not proposed until a page with it is posted.
    pub(crate) fn note_gone(&mut self, number: u64) {
        self.gone.put(number, 1, ());
        self.gone_seen += 1;
    }

    /// Whether a page is live, and is what is looked for in a row of postings.
    pub(crate) fn fits<R: Reads<Held = H>>(
        &mut self,
        pointer: &Pointer,
        row: &[u8],
        condition: &Condition,
        reads: &mut R,
    ) -> Result<bool, R::Error> {
        let Some(page) = self.readable_page(pointer, reads)? else { return Ok(false) };
        if let Condition::Body { class, checksum } = condition {
            return Ok(page.checksum == *checksum && page.status / 100 == *class);
        }
        // An error page may have the body of a good one.
        if text_number(&page.text_checksum) != Some(number_of(row)) || !text_compares(page.status) {
            return Ok(false);
        }
        match condition {
            Condition::Titled { text_checksum, title, is_list } => {
                let is_text = page.is_list == *is_list && page.text_checksum == *text_checksum;
                Ok(is_text && same_title(&self.titled(pointer, reads)?.title, title))
            }
            Condition::Text { is_list } => Ok(is_list.is_none_or(|is_list| page.is_list == is_list)),
            Condition::Body { .. } => Ok(false),
        }
    }

    /// The oldest page of a row of postings that fits and is not of a row of pages.
    pub(crate) fn oldest<R: Reads<Held = H>>(
        &mut self,
        row: &[u8],
        row_key: &[u8],
        condition: Condition,
        reads: &mut R,
    ) -> Result<Option<Pointer>, R::Error> {
        if let Some(few) = self.postings.few(row, reads)? {
            for page in few.iter() {
                if row_key_of(page) != row_key && self.fits(page, row, &condition, reads)? {
                    return Ok(Some(page.clone()));
                }
            }
            return Ok(None);
        }
        if !self.postings.caches() {
            let mut pages = self.postings.pages(row, &[], reads)?;
            while let Some(page) = pages.next(reads)? {
                if row_key_of(&page) != row_key && self.fits(&page, row, &condition, reads)? {
                    return Ok(Some(page));
                }
            }
            return Ok(None);
        }
        let taken = self.postings.take_oldest(row, &condition);
        let new = self.postings.new.get(row).to_vec();
        let mut asked = AskedRow { core: self, row, condition: &condition, reads };
        let mut oldest = match taken {
            Some(oldest) => oldest,
            None => Oldest::new(&mut asked)?,
        };
        let found = oldest.find(row_key, &new, &mut asked)?;
        self.postings.keep_oldest(row, condition, oldest);
        Ok(found)
    }
}

/// A row of postings, for `Oldest`.
struct AskedRow<'a, H, R> {
    core: &'a mut Core<H>,
    row: &'a [u8],
    condition: &'a Condition,
    reads: &'a mut R,
}

impl<R: Reads> Row for AskedRow<'_, R::Held, R> {
    type Error = R::Error;

    fn fits(&mut self, page: &Pointer) -> Result<bool, R::Error> {
        self.core.fits(page, self.row, self.condition, self.reads)
    }

    fn pages_after(&mut self, page: &[u8]) -> Result<Pages, R::Error> {
        self.core.postings.stored_pages(self.row, page, self.reads)
    }

    fn next(&mut self, pages: &mut Pages) -> Result<Option<Pointer>, R::Error> {
        pages.next(self.reads)
    }
}
