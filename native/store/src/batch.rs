//! Pages on their way into the store: fetched and analysed, then judged, with all that their commit writes.
//!
//! `own` makes the one of the other; `encoding` takes the judged pages of a batch.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use docstore_frames::Name;

use crate::bases;
use crate::capture::{Columns, BODY};
use crate::columns::RecordColumns;
use crate::compare::{Reason, Verdict};
use crate::encoding::{is_shared_copy, NewPage};
use crate::format::{VALUE_INLINE, VERDICT_KINDS, VERDICT_STORED};
use crate::pages::{Asking, Bytes, Stored};
use crate::posted::{row_key_of, time_of, Pointer};
use crate::totals;
use crate::verdict::{self, PREVIOUS_NONE, STORED_BODY, STORED_REFERENCE, STORED_REFUSED};

/// What was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchedKind {
    Page,
    /// A visit of an unchanged page (304), which has no body.
    Visit,
    /// A page that cannot be stored; its preparation says why.
    Refused,
}

/// A page that is analysed and not judged yet.
pub struct Fetched<H> {
    pub kind: FetchedKind,
    pub asking: Asking,
    /// In microseconds.
    pub timestamp: u64,
    /// Whether the caller wants its body stored.
    pub wants_body: bool,
    /// Label of its crawl; empty for none.
    pub crawl: Box<[u8]>,
    /// Of its record except body, text, verdict and crawl.
    pub columns: RecordColumns,
    /// Of a visit: the value of `http:visit`.
    pub visit: Box<[u8]>,
    /// Its row key without versions; empty if it has none.
    pub path: Box<[u8]>,
    pub has_anchors: bool,
    /// What the caller holds of it.
    pub held: H,
}

/// A verdict with what it says about the page's own row; words are numbers as in `verdict::Verdict`.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    pub kind: u8,
    pub of: Option<Pointer>,
    pub similarity: f64,
    pub reason: Cow<'static, [u8]>,
    /// The row of a page that this page contains; empty for none.
    pub contains: Box<[u8]>,
    pub candidates: u64,
    pub verified: u64,
    pub previous: u8,
    pub previous_similarity: f64,
    pub stored: u8,
}

impl Decided {
    /// Of a verdict against other rows; `no_text` is the reason of a body without text.
    pub fn of(verdict: &Verdict, no_text: &[u8]) -> Self {
        let reason = match verdict.reason {
            Reason::NoText => Cow::Owned(no_text.to_vec()),
            reason => Cow::Borrowed(reason.word().as_bytes()),
        };
        Self {
            kind: verdict.kind as u8,
            of: verdict.of.clone(),
            similarity: verdict.similarity,
            reason,
            contains: verdict.contains.as_ref().map_or(Box::default(), |page| row_key_of(page).into()),
            candidates: verdict.candidates as u64,
            verified: verdict.verified as u64,
            previous: PREVIOUS_NONE,
            previous_similarity: 0.0,
            stored: STORED_REFUSED,
        }
    }

    /// Of a page that was not judged.
    pub fn unjudged() -> Self {
        Self::of(&Verdict::new(Reason::None), &[])
    }

    fn fields(&self) -> verdict::Verdict<'_> {
        verdict::Verdict {
            kind: self.kind,
            of_row_key: self.of.as_ref().map_or(&[], |of| row_key_of(of)),
            of_timestamp: self.of.as_ref().map_or(0, |of| time_of(of)),
            similarity: self.similarity,
            reason: &self.reason,
            contains_row_key: &self.contains,
            candidates: self.candidates,
            verified: self.verified,
            previous: self.previous,
            previous_similarity: self.previous_similarity,
            stored: self.stored,
        }
    }

    /// The value of `dedup:verdict`.
    pub fn encode(&self) -> Vec<u8> {
        verdict::encode(&self.fields())
    }

    /// Of a value of `dedup:verdict`; None if it is damaged.
    pub fn decode(source: &[u8]) -> Option<Self> {
        verdict::decode(source).ok().map(|found| Self::from_fields(&found))
    }

    fn from_fields(found: &verdict::Verdict<'_>) -> Self {
        let of = (!found.of_row_key.is_empty()).then(|| crate::posted::pointer(found.of_timestamp, found.of_row_key));
        Self {
            kind: found.kind,
            of,
            similarity: found.similarity,
            reason: Cow::Owned(found.reason.to_vec()),
            contains: found.contains_row_key.into(),
            candidates: found.candidates,
            verified: found.verified,
            previous: found.previous,
            previous_similarity: found.previous_similarity,
            stored: found.stored,
        }
    }

    /// The verdict that a visit without a body shows of the page with this verdict.
    pub fn not_modified(&self) -> Self {
        Self::from_fields(&verdict::not_modified(&self.fields()))
    }
}

/// A capture of the row of a page.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub timestamp: u64,
    pub kind: u8,
    /// The columns that it has, or shows if it is live; of a body or text that stands in its cell the tag alone.
    pub columns: Columns,
    /// The time of the stored capture that has its body and text; 0 for none, and for a record that is not asked for as
    /// a live capture.
    pub source: u64,
    /// Of the record of a visit: the time of the capture that it confirmed when it was written; 0 for none.
    pub confirms: u64,
}

/// The record of a page, except body and text.
#[derive(Default)]
pub struct NewRecord {
    pub kind: u8,
    pub columns: Arc<Columns>,
    /// Number and value of those that are too long for a cell.
    pub long: Vec<(u8, Bytes)>,
    pub arrived: u64,
    pub confirms: u64,
}

/// Why a page is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its preparation says why.
    Prepared,
    /// No millisecond from its own on is free in its row.
    NoFreeTime,
}

/// A page with its verdict, and everything that its commit writes.
pub struct Judged<H> {
    pub fetched: Fetched<H>,
    /// The first free time from the page's own on, and its row.
    pub pointer: Pointer,
    pub verdict: Decided,
    pub refusal: Option<Refusal>,
    /// If the same capture was stored before: how it was stored then.
    pub known_as: Option<u8>,
    /// None if nothing is stored.
    pub record: Option<NewRecord>,
    /// The page that its verdict says it contains.
    pub contains: Option<Pointer>,
    /// The nearest page of another row: body and text may be deltas against its body and text.
    pub nearest: Option<Pointer>,
    /// The time of the page of its own row before it, with the cell values of its body and text.
    pub previous: Option<(u64, [Box<[u8]>; 2])>,
    /// Its row has the same bytes, but they cannot be read, so it is stored whole.
    pub is_damaged: bool,
    /// Its record replaces another one at the same time.
    pub rewrites: bool,
}

impl<H> Judged<H> {
    /// A page for which nothing is stored.
    pub fn without_record(fetched: Fetched<H>, timestamp: u64, verdict: Decided) -> Self {
        let pointer = crate::posted::pointer(timestamp, &fetched.asking.row_key);
        Self {
            fetched,
            pointer,
            verdict,
            refusal: None,
            known_as: None,
            record: None,
            contains: None,
            nearest: None,
            previous: None,
            is_damaged: false,
            rewrites: false,
        }
    }

    pub fn is_visit(&self) -> bool {
        self.fetched.kind == FetchedKind::Visit
    }

    fn owner(&self, timestamp: u64) -> bases::Pointer {
        bases::Pointer { timestamp, row_key: self.fetched.asking.row_key.clone() }
    }

    /// What is encoded of it; None if nothing is stored.
    pub fn new_page(&self) -> Option<NewPage<Bytes>> {
        let record = self.record.as_ref()?;
        let page = &self.fetched.asking.page;
        let other = |page: &Pointer| bases::Pointer { timestamp: time_of(page), row_key: row_key_of(page).into() };
        let (kind, stored) = (usize::from(self.verdict.kind), usize::from(self.verdict.stored));
        let is_copy = is_shared_copy(VERDICT_KINDS[kind], VERDICT_STORED[stored]);
        let name: fn(&[u8]) -> Option<Name> = |bytes| bytes.first_chunk().copied();
        Some(NewPage {
            pointer: self.owner(time_of(&self.pointer)),
            kind: record.kind,
            arrived: record.arrived,
            confirms: record.confirms,
            columns: record.columns.clone(),
            long: record.long.clone(),
            body: self.fetched.asking.body.clone(),
            text: Bytes::new(page.main.clone()),
            body_name: name(page.checksum.get(1..).unwrap_or_default()),
            text_name: page.marks.as_ref().map(|marks| marks.facts.name),
            path: self.fetched.path.clone(),
            copies: self.verdict.of.as_ref().filter(|_| is_copy).map(other),
            previous: self.previous.as_ref().map(|(time, cells)| (self.owner(*time), cells.clone())),
            nearest: self.nearest.as_ref().map(other),
            is_damaged: self.is_damaged,
        })
    }
}

/// A page of the batch that others are compared with.
pub(crate) struct Compared<H> {
    pub stored: Stored,
    pub judged: Arc<Judged<H>>,
}

/// Pages that are judged and not committed.  It ends as a whole: it is committed, or dropped.
pub(crate) struct Batch<H> {
    /// Pages and visits that get a record, in the order in which they were judged.
    pub pages: Vec<Arc<Judged<H>>>,
    /// Those that others are compared with.
    pub compared: HashMap<Pointer, Compared<H>>,
    rows: HashMap<Box<[u8]>, Vec<Arc<Judged<H>>>>,
    /// Rows of its pages that did not exist before it.
    pub absent: HashSet<Box<[u8]>>,
    pub body_bytes: usize,
}

impl<H> Default for Batch<H> {
    fn default() -> Self {
        let (compared, rows, absent) = (HashMap::new(), HashMap::new(), HashSet::new());
        Self { pages: Vec::new(), compared, rows, absent, body_bytes: 0 }
    }
}

impl<H> Batch<H> {
    /// Add a page that gets a record.
    pub fn add(&mut self, judged: &Arc<Judged<H>>) {
        let row_key = &judged.fetched.asking.row_key;
        match self.rows.get_mut(row_key) {
            Some(pages) => {
                pages.retain(|other| other.pointer != judged.pointer);
                pages.push(judged.clone());
            }
            None => drop(self.rows.insert(row_key.clone(), vec![judged.clone()])),
        }
        self.body_bytes += judged.fetched.asking.body().len();
        self.pages.push(judged.clone());
    }

    /// The last page of each time of a row.
    pub fn of_row(&self, row_key: &[u8]) -> &[Arc<Judged<H>>] {
        self.rows.get(row_key).map_or(&[], |pages| pages)
    }

    /// Whether a row is known to have no record, neither stored nor in the batch.
    pub fn is_new(&self, row_key: &[u8]) -> bool {
        self.absent.contains(row_key) && !self.rows.contains_key(row_key)
    }
}

/// What verdicts are counted by, with the captures and the bytes of their bodies.
pub type Counted = (totals::Group, u64, u64);

/// What pages and visits add to the totals of a store, in the order of the first of each group; and the number of visits
/// without a body.
pub fn totals_of<'a, H: 'a>(pages: impl Iterator<Item = &'a Arc<Judged<H>>>) -> (Vec<Counted>, u64) {
    let (mut groups, mut visits) = (Vec::<Counted>::new(), 0);
    for page in pages {
        if page.is_visit() {
            visits += 1;
            continue;
        }
        let Decided { kind, previous, stored, reason, .. } = &page.verdict;
        let has_body = matches!(*stored, STORED_BODY | STORED_REFERENCE);
        let body_bytes = if has_body { page.fetched.asking.body().len() as u64 } else { 0 };
        let is_of = |(of, ..): &&mut Counted| {
            (of.kind, of.previous, of.stored) == (*kind, *previous, *stored) && of.reason[..] == **reason
        };
        if let Some((_, captures, bytes)) = groups.iter_mut().find(is_of) {
            (*captures, *bytes) = (*captures + 1, *bytes + body_bytes);
        } else {
            let of = totals::Group { kind: *kind, previous: *previous, stored: *stored, reason: reason.to_vec() };
            groups.push((of, 1, body_bytes));
        }
    }
    (groups, visits)
}

/// Cell values of title, main text and body of a page of the batch: no value has one yet.
pub(crate) fn cells_in_batch(record: &NewRecord) -> [Box<[u8]>; 3] {
    let body = record.columns.get(BODY);
    [Box::default(), Box::default(), if body.is_empty() { [VALUE_INLINE].into() } else { body.into() }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysed::Analysed;
    use crate::posted::pointer;

    #[test]
    fn a_text_that_is_kept_as_a_base_keeps_no_fingerprints_of_its_page() {
        let page = Arc::new(Analysed { main: b"a text"[..].into(), ..Analysed::default() });
        let seen = Arc::downgrade(&page);
        let asking = Asking { row_key: b"row"[..].into(), status: 200, body: Bytes::new(*b"a body"), page };
        let fetched = Fetched {
            kind: FetchedKind::Page,
            asking,
            timestamp: 1000,
            wants_body: true,
            crawl: Box::default(),
            columns: RecordColumns::default(),
            visit: Box::default(),
            path: Box::default(),
            has_anchors: false,
            held: (),
        };
        let judged = Judged::without_record(fetched, 1000, Decided::unjudged());
        assert_eq!(judged.pointer, pointer(1000, b"row"));
        let judged = Judged { record: Some(NewRecord::default()), ..judged };
        let text = judged.new_page().expect("it has a record").text;
        drop(judged);
        assert!(seen.upgrade().is_none());
        assert_eq!(text.as_ref(), b"a text");
    }
}
