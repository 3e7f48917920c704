//! Rows of postings: the pages of a body, of a text, and of a text with the words of a title; and the oldest that fits.
//!
//! The pages of a row are sorted oldest first.  Those of the batch that is judged are looked up with the stored ones.
//! Only the first pages of a row are cached, or all if there are few; the pages of a body that thousands of URLs share are
//! read in slices.  `Oldest` skips each page that does not fit once, not once a query.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::format::{POSTING_BODY, POSTING_TEXT, TEXT_NUMBER_BYTES};
use crate::lru::Lru;

/// A version of a page: the qualifier of its postings, which is its time in 8 bytes, big-endian, then its row key.
pub type Pointer = Arc<[u8]>;

/// Pages of a row in the first read.
pub const POINTER_SLICE: usize = 64;
/// Pages in the next reads: few, then more and more.
const NEXT_POINTERS: usize = 8;
const MOST_POINTERS: usize = 1024;
/// With fewer pages of a body or text, each query goes through all; with more, the result is cached.
pub const FEW_PAGES: usize = 8;
/// Conditions of one row that are cached: by status class, and by title.
const MAX_CONDITIONS: usize = 128;
/// Rows that are known to be empty; when there are more, all are forgotten.
const MOST_ABSENT: usize = 4096;
/// The memory of a cached row: of itself with its entry, and of each page; an `Oldest` counts as several pages.
const ROW_BYTES: usize = 450;
const PAGE_BYTES: usize = 100;
const OLDEST_COST: usize = 6;

pub const TIME_BYTES: usize = 8;

pub fn pointer(timestamp: u64, row_key: &[u8]) -> Pointer {
    let mut bytes = Vec::with_capacity(TIME_BYTES + row_key.len());
    bytes.extend_from_slice(&timestamp.to_be_bytes());
    bytes.extend_from_slice(row_key);
    bytes.into()
}

pub fn row_key_of(pointer: &[u8]) -> &[u8] {
    pointer.get(TIME_BYTES..).unwrap_or_default()
}

pub fn time_of(pointer: &[u8]) -> u64 {
    pointer.iter().take(TIME_BYTES).fold(0, |time, byte| time << 8 | u64::from(*byte))
}

/// The row of the pages with a body, by its checksum.
pub fn body_row(checksum: &[u8]) -> Vec<u8> {
    let head = &checksum[..checksum.len().min(1 + crate::format::POSTING_BODY_BYTES)];
    [&[POSTING_BODY], head].concat()
}

/// The row of the pages with a text, by its number.
pub fn text_row(number: u64) -> [u8; 1 + TEXT_NUMBER_BYTES] {
    let mut row = [POSTING_TEXT; 1 + TEXT_NUMBER_BYTES];
    row[1..].copy_from_slice(&number.to_be_bytes()[8 - TEXT_NUMBER_BYTES..]);
    row
}

/// The number of the text of a row: the row of its pages, or of those with a title.
pub fn number_of(row: &[u8]) -> u64 {
    row.iter().skip(1).take(TEXT_NUMBER_BYTES).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Postings that are not committed: rows in the order of their first page, the pages of each in order.
#[derive(Debug, Default)]
pub struct NewRows {
    places: HashMap<Box<[u8]>, usize>,
    rows: Vec<(Box<[u8]>, Vec<Pointer>)>,
}

impl NewRows {
    pub fn add(&mut self, page: &Pointer, row: &[u8]) {
        let Some(place) = self.places.get(row) else {
            self.places.insert(row.into(), self.rows.len());
            self.rows.push((row.into(), vec![page.clone()]));
            return;
        };
        let pages = &mut self.rows[*place].1;
        if let Err(at) = pages.binary_search(page) {
            pages.insert(at, page.clone());
        }
    }

    pub fn get(&self, row: &[u8]) -> &[Pointer] {
        self.places.get(row).map_or(&[], |place| &self.rows[*place].1)
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &(Box<[u8]>, Vec<Pointer>)> {
        self.rows.iter()
    }
}

/// The first pages of a row, at most `POINTER_SLICE`, of two sorted lists, each once.
fn first_of(stored: &[Pointer], pending: &[Pointer]) -> Vec<Pointer> {
    let mut merged: Vec<Pointer> = Vec::with_capacity((stored.len() + pending.len()).min(POINTER_SLICE));
    let (mut here, mut there) = (stored.iter().peekable(), pending.iter().peekable());
    while merged.len() < POINTER_SLICE {
        let next = match (here.peek(), there.peek()) {
            (Some(one), Some(other)) if one <= other => here.next(),
            (Some(_), None) => here.next(),
            (_, Some(_)) => there.next(),
            (None, None) => break,
        };
        if let Some(next) = next.filter(|next| merged.last() != Some(next)) {
            merged.push(next.clone());
        }
    }
    merged
}

/// Reads stored rows of postings.
pub trait StoredPostings {
    type Error;

    /// The first `POINTER_SLICE` pages of rows.
    fn first(&mut self, rows: &[&[u8]]) -> Result<Vec<Vec<Pointer>>, Self::Error>;

    /// The next pages of a row after a page, at most `most`.
    fn after(&mut self, row: &[u8], page: &[u8], most: usize) -> Result<Vec<Pointer>, Self::Error>;
}

/// The pages of a row, oldest first, as they are read.
#[derive(Debug)]
pub struct Pages {
    row: Box<[u8]>,
    ready: VecDeque<Pointer>,
    /// The last page that was given or is ready; None if all are.
    last: Option<Pointer>,
    /// Stored pages that were read, and whether there are more.
    stored: VecDeque<Pointer>,
    has_more: bool,
    next_most: usize,
    pending: VecDeque<Pointer>,
}

impl Pages {
    pub fn next<S: StoredPostings>(&mut self, source: &mut S) -> Result<Option<Pointer>, S::Error> {
        if let Some(page) = self.ready.pop_front() {
            return Ok(Some(page));
        }
        while let Some(last) = &self.last {
            if self.stored.is_empty() && self.has_more {
                let read = source.after(&self.row, last, self.next_most)?; // `last` is the last stored page, too
                self.has_more = read.len() == self.next_most;
                self.next_most = (self.next_most * 4).min(MOST_POINTERS);
                self.stored.extend(read);
            }
            let next = match (self.stored.front(), self.pending.front()) {
                (Some(one), Some(other)) if one <= other => self.stored.pop_front(),
                (Some(_), None) => self.stored.pop_front(),
                (_, Some(_)) => self.pending.pop_front(),
                (None, None) => {
                    self.last = None;
                    return Ok(None);
                }
            };
            if next.as_ref() > Some(last) {
                self.last.clone_from(&next);
                return Ok(next);
            }
        }
        Ok(None)
    }
}

/// What is asked of a page that is looked for in a row; equal conditions of one row mean equal results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It has this body, under a status of this class.
    Body { class: i64, checksum: Box<[u8]> },
    /// It has the text of the row, and is a list, or is none, or either.
    Text { is_list: Option<bool> },
    /// It has this very text, under a title with the same words.
    Titled { text_checksum: Box<[u8]>, title: Box<[u8]>, is_list: bool },
}

/// What `Oldest` asks of a row.
pub trait Row {
    type Error;

    fn fits(&mut self, page: &Pointer) -> Result<bool, Self::Error>;
    fn pages_after(&mut self, page: &[u8]) -> Result<Pages, Self::Error>;
    fn next(&mut self, pages: &mut Pages) -> Result<Option<Pointer>, Self::Error>;
}

/// The oldest page that fits a condition, and the oldest one of another row.
///
/// A verdict needs the oldest page that fits and is of another row.  Each page that does not fit is skipped once: it is
/// assumed never to fit until it is posted again.  That is true for deleted pages and those of another status class.  It
/// is wrong for an expired version that a later equal value shows again: that version is found after the next open.
#[derive(Debug)]
pub struct Oldest {
    /// Pages after the first, until one is posted: many that do not fit are skipped in one read.
    ahead: Option<Pages>,
    /// None after every page.
    first: Option<Pointer>,
    second: Option<Pointer>,
}

/// Whether a page is before another, where None stands for the end.
fn is_before(page: &Pointer, other: Option<&Pointer>) -> bool {
    other.is_none_or(|other| page < other)
}

impl Oldest {
    pub fn new<R: Row>(row: &mut R) -> Result<Self, R::Error> {
        let mut made = Self { ahead: None, first: None, second: None };
        made.first = made.next(row, &[])?;
        made.second = made.next_of_another_row(row, made.first.clone())?;
        Ok(made)
    }

    /// The oldest page that fits and is not of a row; `new` are uncommitted pages, in order.
    pub fn find<R: Row>(&mut self, row_key: &[u8], new: &[Pointer], row: &mut R) -> Result<Option<Pointer>, R::Error> {
        let mut news = new.iter().filter(|page| row_key_of(page) != row_key).peekable();
        loop {
            let is_other = self.first.as_ref().is_some_and(|first| row_key_of(first) != row_key);
            let is_own = self.first.is_some() && !is_other;
            let page = if is_own { self.second.clone() } else { self.first.clone() };
            while let Some(newest) = news.next_if(|newest| is_before(newest, page.as_ref())) {
                if row.fits(newest)? {
                    return Ok(Some(newest.clone()));
                }
            }
            let Some(page) = page else { return Ok(None) };
            if row.fits(&page)? {
                return Ok(Some(page));
            }
            if is_other {
                self.pass_first(row)?;
            } else {
                self.second = self.next_of_another_row(row, Some(page))?;
            }
        }
    }

    /// Add a posted page.
    pub fn add(&mut self, page: &Pointer) {
        self.ahead = None;
        let is_of_first = self.first.as_ref().is_some_and(|first| row_key_of(first) == row_key_of(page));
        if is_before(page, self.first.as_ref()) {
            if !is_of_first {
                self.second = self.first.take();
            }
            self.first = Some(page.clone());
        } else if is_before(page, self.second.as_ref()) && !is_of_first {
            self.second = Some(page.clone());
        }
    }

    fn pass_first<R: Row>(&mut self, row: &mut R) -> Result<(), R::Error> {
        let Some(passed) = self.first.take() else { return Ok(()) };
        self.first = self.next(row, &passed)?;
        let is_same_row = self.first.as_ref().is_some_and(|first| row_key_of(first) == row_key_of(&passed));
        if !is_same_row {
            self.second = self.next_of_another_row(row, self.first.clone())?; // pages between do not fit
        }
        Ok(())
    }

    fn next<R: Row>(&mut self, row: &mut R, after: &[u8]) -> Result<Option<Pointer>, R::Error> {
        let mut ahead = match self.ahead.take() {
            Some(ahead) => ahead,
            None => row.pages_after(after)?,
        };
        let next = row.next(&mut ahead)?;
        self.ahead = Some(ahead);
        Ok(next)
    }

    /// The next page after a page that is of another row than the first.
    fn next_of_another_row<R: Row>(&self, row: &mut R, page: Option<Pointer>) -> Result<Option<Pointer>, R::Error> {
        let (Some(page), Some(first)) = (page, &self.first) else { return Ok(None) };
        let mut pages = row.pages_after(&page)?;
        while let Some(each) = row.next(&mut pages)? {
            if row_key_of(&each) != row_key_of(first) {
                return Ok(Some(each));
            }
        }
        Ok(None)
    }
}

/// A cached row: its first pages; for a row of more than a few also the oldest fitting pages, by condition.
struct CachedRow {
    first: Arc<[Pointer]>,
    /// None while it is asked.
    oldest: Vec<(Condition, Option<Oldest>)>,
}

impl CachedRow {
    fn new(first: &[Pointer]) -> Self {
        Self { first: first.into(), oldest: Vec::new() }
    }

    fn cost(&self) -> usize {
        ROW_BYTES + PAGE_BYTES * (self.first.len() + OLDEST_COST * self.oldest.len())
    }
}

/// Rows of postings: those of the batch over a cache of committed ones, which each commit updates.
pub struct Postings {
    pub new: NewRows,
    cached: Lru<Box<[u8]>, CachedRow>,
    /// Whether committed rows are cached; then `follow` is called after each commit.
    caches: bool,
    /// Rows that `prepare` found to be empty, and no commit has written since.
    absent: HashSet<Box<[u8]>>,
}

impl Postings {
    pub fn new(capacity: usize, caches: bool) -> Self {
        let cached = Lru::new(if caches { capacity } else { 0 });
        Self { new: NewRows::default(), cached, caches, absent: HashSet::new() }
    }

    pub fn caches(&self) -> bool {
        self.caches
    }

    pub fn counts(&self) -> Arc<crate::lru::Counts> {
        self.cached.counts()
    }

    /// Read rows that are not cached, in one call.
    pub fn prepare<S: StoredPostings>(&mut self, rows: &[&[u8]], source: &mut S) -> Result<(), S::Error> {
        if self.absent.len() > MOST_ABSENT {
            self.absent.clear();
        }
        if !self.caches || rows.is_empty() {
            return Ok(());
        }
        let is_known = |row: &&&[u8]| self.cached.contains(**row) || self.absent.contains(**row);
        let missing: Vec<&[u8]> = rows.iter().filter(|row| !is_known(row)).copied().collect();
        let read = if missing.is_empty() { Vec::new() } else { source.first(&missing)? };
        for (row, pages) in missing.into_iter().zip(read) {
            if pages.is_empty() {
                self.absent.insert(row.into()); // most rows
            } else {
                let cached = CachedRow::new(&pages);
                self.cached.put(row.into(), cached.cost(), cached);
            }
        }
        Ok(())
    }

    fn stored_first<S: StoredPostings>(&mut self, row: &[u8], source: &mut S) -> Result<Arc<[Pointer]>, S::Error> {
        if self.absent.contains(row) {
            return Ok(Arc::default());
        }
        if let Some(cached) = self.caches.then(|| self.cached.get(row)).flatten() {
            return Ok(cached.first.clone());
        }
        let read = source.first(&[row])?.pop().unwrap_or_default();
        let cached = CachedRow::new(&read);
        let first = cached.first.clone();
        if self.caches {
            self.cached.put(row.into(), cached.cost(), cached);
        }
        Ok(first)
    }

    /// The first `POINTER_SLICE` pages of a row, with those of the batch.
    pub fn first<S: StoredPostings>(&mut self, row: &[u8], source: &mut S) -> Result<Arc<[Pointer]>, S::Error> {
        let stored = self.stored_first(row, source)?;
        let pending = self.new.get(row);
        Ok(if pending.is_empty() { stored } else { first_of(&stored, pending).into() })
    }

    /// All pages of a row, oldest first; None if there are more than a few.
    pub fn few<S: StoredPostings>(&mut self, row: &[u8], source: &mut S) -> Result<Option<Arc<[Pointer]>>, S::Error> {
        Ok(Some(self.first(row, source)?).filter(|first| first.len() < FEW_PAGES))
    }

    /// The pages of a row after a page, those of the batch too.
    pub fn pages<S: StoredPostings>(&mut self, row: &[u8], after: &[u8], source: &mut S) -> Result<Pages, S::Error> {
        let first = self.first(row, source)?;
        Ok(pages_behind(row, &first, after, self.new.get(row)))
    }

    /// The stored pages of a row after a page.
    pub fn stored_pages<S: StoredPostings>(
        &mut self,
        row: &[u8],
        after: &[u8],
        source: &mut S,
    ) -> Result<Pages, S::Error> {
        let first = self.stored_first(row, source)?;
        Ok(pages_behind(row, &first, after, &[]))
    }

    /// Take what is known of the oldest page of a row that fits; None if nothing is.
    pub fn take_oldest(&mut self, row: &[u8], condition: &Condition) -> Option<Oldest> {
        let cached = self.cached.get(row)?;
        cached.oldest.iter_mut().find(|(each, _)| each == condition)?.1.take()
    }

    /// Keep what is known of the oldest page of a row that fits.
    pub fn keep_oldest(&mut self, row: &[u8], condition: Condition, oldest: Oldest) {
        let Some(cached) = self.cached.get(row) else { return };
        if let Some((_, place)) = cached.oldest.iter_mut().find(|(each, _)| *each == condition) {
            *place = Some(oldest);
            return;
        }
        if cached.oldest.len() == MAX_CONDITIONS {
            cached.oldest.remove(0);
        }
        cached.oldest.push((condition, Some(oldest)));
        let cost = cached.cost();
        self.cached.set_cost(row, cost);
    }

    /// After a commit: update the cached pages of a row that it changed.
    pub fn follow(&mut self, row: &[u8], added: &[Pointer], removed: &[Pointer], is_sure: bool) {
        if !self.caches {
            return;
        }
        if self.absent.remove(row) {
            if is_sure && row.first() == Some(&POSTING_TEXT) {
                // Later pages may be near to it; few bodies come again.
                let cached = CachedRow::new(&added[..added.len().min(POINTER_SLICE)]);
                self.cached.put(row.into(), cached.cost(), cached);
            }
            return;
        }
        let Some(cached) = (if self.cached.contains(row) { self.cached.get(row) } else { None }) else { return };
        if !is_sure || (!removed.is_empty() && cached.first.len() == POINTER_SLICE) {
            self.cached.drop(row); // the row may continue after the cached part
            return;
        }
        let mut left = first_of(&cached.first, added);
        left.retain(|page| !removed.contains(page));
        cached.first = left.into();
        cached.oldest.retain(|(_, oldest)| oldest.is_some());
        for page in added {
            cached.oldest.iter_mut().filter_map(|(_, oldest)| oldest.as_mut()).for_each(|oldest| oldest.add(page));
        }
        let cost = cached.cost();
        self.cached.set_cost(row, cost);
    }

    pub fn clear(&mut self) {
        self.cached.clear();
        self.absent.clear();
    }
}

fn pages_behind(row: &[u8], first: &[Pointer], after: &[u8], pending: &[Pointer]) -> Pages {
    let begin = first.partition_point(|page| **page <= *after);
    let ready: VecDeque<Pointer> = first[begin..].iter().cloned().collect();
    let is_cut = first.len() == POINTER_SLICE;
    let last =
        first.last().filter(|_| is_cut).map(|last| if **last < *after { Pointer::from(after) } else { last.clone() });
    let behind = last.as_ref().map_or(pending.len(), |last| pending.partition_point(|page| page <= last));
    Pages {
        row: row.into(),
        ready,
        last,
        stored: VecDeque::new(),
        has_more: is_cut,
        next_most: NEXT_POINTERS,
        pending: pending[behind..].iter().cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Numbers that look drawn, the same for the same seed.
    pub struct Chance(u64);

    impl Chance {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    /// Stored rows in a map, and how many rows were asked for.
    #[derive(Default)]
    struct Table {
        rows: BTreeMap<Vec<u8>, BTreeSet<Pointer>>,
        asked: usize,
    }

    impl StoredPostings for Table {
        type Error = ();

        fn first(&mut self, rows: &[&[u8]]) -> Result<Vec<Vec<Pointer>>, ()> {
            self.asked += rows.len();
            let first = |row: &&[u8]| self.rows.get(*row).into_iter().flatten().take(POINTER_SLICE).cloned().collect();
            Ok(rows.iter().map(first).collect())
        }

        fn after(&mut self, row: &[u8], page: &[u8], most: usize) -> Result<Vec<Pointer>, ()> {
            let pages = self.rows.get(row).into_iter().flatten();
            Ok(pages.filter(|each| ***each > *page).take(most).cloned().collect())
        }
    }

    impl Table {
        fn commit(&mut self, new: &NewRows) {
            for (row, pages) in new.iter() {
                self.rows.entry(row.to_vec()).or_default().extend(pages.iter().cloned());
            }
        }
    }

    fn all(postings: &mut Postings, row: &[u8], after: &[u8], table: &mut Table) -> Vec<Pointer> {
        let mut pages = postings.pages(row, after, table).expect("reads");
        std::iter::from_fn(|| pages.next(table).expect("reads")).collect()
    }

    fn follow(postings: &mut Postings, new: &NewRows, is_sure: bool) {
        for (row, pages) in new.iter() {
            postings.follow(row, pages, &[], is_sure);
        }
    }

    #[test]
    fn cached_rows_equal_stored_rows_and_those_in_flight() {
        for seed in 0..24 {
            let mut chance = Chance(seed);
            let capacity = if seed % 2 == 0 { 1 << 20 } else { 6 * 650 };
            let (mut table, mut cached) = (Table::default(), Postings::new(capacity, true));
            let rows: Vec<Vec<u8>> =
                (0..12).map(|number| vec![if number % 2 == 0 { POSTING_BODY } else { POSTING_TEXT }, number]).collect();
            let assert_same = |cached: &mut Postings, table: &mut Table, new: NewRows| {
                cached.new = new;
                let mut plain = Postings { new: NewRows::default(), ..Postings::new(0, false) };
                for (row, pages) in cached.new.iter() {
                    pages.iter().for_each(|page| plain.new.add(page, row));
                }
                for row in &rows {
                    let expected = all(&mut plain, row, b"", table);
                    assert_eq!(all(cached, row, b"", table), expected, "{seed}");
                    let after = expected.get(expected.len() / 2).cloned().unwrap_or_default();
                    let behind = expected.partition_point(|page| *page <= after);
                    assert_eq!(all(cached, row, &after, table), expected[behind..], "{seed}");
                }
                std::mem::take(&mut cached.new)
            };
            for group in 0..14 {
                let size = if chance.below(4) == 0 { 90 } else { 1 + chance.below(7) };
                let mut new = NewRows::default();
                for number in 0..size {
                    let page = pointer(group * 100 + number, format!("row{number}").as_bytes());
                    let first = chance.below(3);
                    new.add(&page, &rows[if size == 90 { first } else { chance.below(12) } as usize]);
                }
                if group % 3 > 0 {
                    let wanted: Vec<&[u8]> = rows.iter().map(|row| &row[..]).collect();
                    cached.prepare(&wanted, &mut table).expect("reads");
                }
                new = assert_same(&mut cached, &mut table, new);
                if chance.below(3) > 0 {
                    let (is_known, is_applied) = (chance.below(3) > 0, chance.below(3) > 0);
                    if is_known || is_applied {
                        table.commit(&new);
                    }
                    follow(&mut cached, &new, is_known);
                }
                assert_same(&mut cached, &mut table, NewRows::default());
                let row = &rows[chance.below(3) as usize];
                let gone = table.rows.get(row).into_iter().flatten().nth(chance.below(70) as usize).cloned();
                if let Some(gone) = gone.filter(|_| group % 4 == 3) {
                    table.rows.entry(row.clone()).or_default().remove(&gone);
                    cached.follow(row, &[], &[gone], chance.below(2) == 0);
                }
                assert_same(&mut cached, &mut table, NewRows::default());
            }
        }
    }

    #[test]
    fn a_row_that_is_known_to_be_empty_is_not_read_and_the_cache_is_bounded_by_pages() {
        let mut table = Table::default();
        let copies = 50;
        let mut postings = Postings::new(10 * (ROW_BYTES + PAGE_BYTES * copies), true);
        let rows: Vec<Vec<u8>> = (0..40).map(|number| vec![POSTING_TEXT, number]).collect();
        let wanted: Vec<&[u8]> = rows.iter().map(|row| &row[..]).collect();
        for number in 0..copies as u64 {
            postings.prepare(&wanted, &mut table).expect("reads");
            let mut new = NewRows::default();
            rows.iter().for_each(|row| new.add(&pointer(number, row), row));
            table.commit(&new);
            follow(&mut postings, &new, true);
        }
        table.asked = 0;
        for row in &rows {
            assert_eq!(all(&mut postings, row, b"", &mut table).len(), copies);
        }
        assert!((30..=40).contains(&table.asked), "{}", table.asked);
        postings.prepare(&[b"\x01none"], &mut table).expect("reads");
        table.asked = 0;
        assert!(postings.first(b"\x01none", &mut table).expect("reads").is_empty() && table.asked == 0);
    }

    /// Pages in order, those that fit, and how often each was read or asked.
    #[derive(Default)]
    struct Listed {
        pages: Vec<Pointer>,
        live: BTreeSet<Pointer>,
        read: usize,
        asked: usize,
    }

    impl Row for Listed {
        type Error = ();

        fn fits(&mut self, page: &Pointer) -> Result<bool, ()> {
            self.asked += 1;
            Ok(self.live.contains(page))
        }

        fn pages_after(&mut self, page: &[u8]) -> Result<Pages, ()> {
            Ok(pages_behind(b"", &self.pages, page, &[]))
        }

        fn next(&mut self, pages: &mut Pages) -> Result<Option<Pointer>, ()> {
            self.read += 1;
            Ok(pages.ready.pop_front())
        }
    }

    #[test]
    fn the_oldest_page_equals_that_of_a_scan_of_all_pages() {
        for seed in 0..60 {
            let mut chance = Chance(seed);
            let rows = [2, 3, 8][chance.below(3) as usize];
            let mut listed = Listed::default();
            let mut post = |listed: &mut Listed, chance: &mut Chance| {
                let page = pointer(1 + chance.below(59), format!("row{}", chance.below(rows)).as_bytes());
                if let Err(at) = listed.pages.binary_search(&page) {
                    listed.pages.insert(at, page.clone());
                }
                listed.live.insert(page.clone());
                page
            };
            for _ in 0..chance.below(20) {
                post(&mut listed, &mut chance);
            }
            let all: Vec<Pointer> = listed.live.iter().cloned().collect();
            for page in all.iter().step_by(3) {
                listed.live.remove(page);
            }
            let mut oldest = Oldest::new(&mut listed).expect("reads");
            for _ in 0..200 {
                match chance.below(4) {
                    0 => {
                        let page = post(&mut listed, &mut chance);
                        oldest.add(&page);
                    }
                    1 if !listed.live.is_empty() => {
                        let place = chance.below(listed.live.len() as u64) as usize;
                        let gone = listed.live.iter().nth(place).cloned();
                        gone.map(|gone| listed.live.remove(&gone));
                    }
                    _ => {}
                }
                let row_key = format!("row{}", chance.below(rows)).into_bytes();
                let is_other = |page: &&Pointer| listed.live.contains(*page) && row_key_of(page) != row_key;
                let expected = listed.pages.iter().find(is_other).cloned();
                assert_eq!(oldest.find(&row_key, &[], &mut listed), Ok(expected), "{seed}");
            }
        }
    }

    #[test]
    fn each_page_is_skipped_once_for_all_queries_and_pages_of_the_batch_count() {
        let mut listed = Listed::default();
        listed.pages.extend((1..1000).map(|number| pointer(number, b"own")));
        let other = pointer(1000, b"other");
        listed.pages.push(other.clone());
        listed.live.insert(other.clone());
        let mut oldest = Oldest::new(&mut listed).expect("reads");
        for row_key in [b"own", b"new"] {
            for _ in 0..100 {
                assert_eq!(oldest.find(row_key, &[], &mut listed), Ok(Some(other.clone())));
            }
        }
        assert!(listed.read <= 5000 && listed.asked <= 100 + 999 + 101 + 100, "{} {}", listed.read, listed.asked);
        let new = [pointer(5, b"own"), pointer(7, b"new")];
        listed.live.insert(new[1].clone());
        assert_eq!(oldest.find(b"own", &new, &mut listed), Ok(Some(new[1].clone())));
        assert_eq!(oldest.find(b"new", &new, &mut listed), Ok(Some(other)));
    }

    #[test]
    fn conditions_of_a_row_are_bounded() {
        let mut postings = Postings::new(1 << 20, true);
        let mut table = Table::default();
        let row = text_row(7);
        table.rows.insert(row.to_vec(), (0..POINTER_SLICE as u64).map(|number| pointer(number, b"row")).collect());
        postings.first(&row, &mut table).expect("reads");
        let condition = |class| Condition::Body { class, checksum: Box::default() };
        for class in 0..200 {
            let oldest = Oldest { ahead: None, first: None, second: None };
            postings.keep_oldest(&row, condition(class), oldest);
        }
        assert!(postings.take_oldest(&row, &condition(0)).is_none());
        assert!(postings.take_oldest(&row, &condition(199)).is_some());
        let used = ROW_BYTES + PAGE_BYTES * (POINTER_SLICE + OLDEST_COST * MAX_CONDITIONS);
        assert_eq!(postings.counts().used.load(std::sync::atomic::Ordering::Relaxed), used);
    }
}
