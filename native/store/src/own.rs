//! Judging a page: its own row, the verdict against other rows, its policy, and its record.
//!
//! 1. The time: the first free millisecond from the page's own on.  A page with the same body there is known: the same
//!    capture was stored before, and nothing is stored again, unless its values are damaged, or its body is wanted and was
//!    not kept.  A rejected capture that comes again is judged again, because the page that it duplicated may be gone; it is
//!    known if it gets the same verdict.
//! 2. The own row: `previous` compares the page with the live page before it.  With the same bytes under the same class of
//!    status it only confirms that page, unless its body is wanted and was not kept.
//! 3. Other rows: `compare`.
//! 4. The policy: `writing.policy` says how the page is stored, by facts about it and about the policy's page.  That is the
//!    page which the verdict names; or one of the page's own site that is like it, if `reject` rejects the page for that.
//! 5. The record, without body and text.  The page joins the batch: later pages see its record, and are compared with it if
//!    its text is stored.
//!
//! A visit without a body (304) confirms the page before it, and gets its verdict.  A visit after a rejected fetch confirms
//! no page: it has the checksum of what was rejected, so that it shows no older version again.  One that is stored already
//! keeps what it confirmed when it was written.

use std::sync::Arc;

use crate::batch::{cells_in_batch, Compared, Decided, Fetched, FetchedKind, Judged, NewRecord, Refusal, Seen};
use crate::capture::{BODY, CHECKSUM, CRAWL, HEADERS, MAIN, STATUS, TEXT_CHECKSUM, VERDICT, VISIT};
use crate::columns::RecordColumns;
use crate::compare::Kind;
use crate::core::Core;
use crate::format::{
    CAPTURE_CONFIRMED, CAPTURE_FIELDS, CAPTURE_NOT_MODIFIED, CAPTURE_REJECTED, CAPTURE_STORED, REASON_NOT_MODIFIED,
    RECORD_TIMESTAMP_STEP as STEP, TIMESTAMP_MAX, VALUE_ABSENT, VALUE_REF,
};
use crate::headers::validators;
use crate::keys::site;
use crate::pages::{Page, Reads, Stored, Value};
use crate::posted::{pointer as pointer_of, row_key_of, Pointer};
use crate::values::encode_absent;
use crate::verdict::{
    PREVIOUS_CHANGED, PREVIOUS_NONE, PREVIOUS_SAME_BYTES, PREVIOUS_SAME_TEXT, STORED_BODY, STORED_CONFIRMED,
    STORED_KNOWN, STORED_REFERENCE, STORED_REJECTED, STORED_TEXT, STORED_VISIT,
};

/// Milliseconds that are looked up one by one; after that, runs of taken milliseconds are read at once.
const MOST_PROBES: usize = 8;
/// Kinds of verdicts that say that two pages are the same one.
const SAME_PAGE: [Kind; 3] = [Kind::Exact, Kind::SameText, Kind::Near];

/// The number of `model.types.Policy.REJECT`.
const REJECT: u8 = 2;

/// Facts about a page; see `writing.policy.Facts`, whose field number i is the bit i.
const IS_DAMAGED: u8 = 1;
const CONFIRMS: u8 = 1 << 1;
const IS_SHOWN: u8 = 1 << 2;
const WANTS_BODY: u8 = 1 << 3;
const NAMES_PAGE: u8 = 1 << 4;
const SAME_SITE: u8 = 1 << 5;
const BODY_IS_KEPT: u8 = 1 << 6;
const IS_CURRENT: u8 = 1 << 7;
const CASES: usize = 1 << 8;
pub const POLICIES: usize = 4;
/// How a page is stored, by policy and facts.
pub type PolicyTable = [u8; POLICIES * CASES];

/// What to do with a page: the number of the policy for each kind of verdict, and the answers of `writing.policy`.
#[derive(Clone, Copy)]
pub struct Policies<'a> {
    pub by_kind: [u8; 6],
    pub table: &'a PolicyTable,
}

impl Policies<'_> {
    fn stored(&self, policy: u8, facts: u8) -> u8 {
        self.table[usize::from(policy) * CASES + usize::from(facts)]
    }

    /// Whether a policy rejects a page that is judged for the first time.
    fn rejects(&self, policy: u8, facts: u8) -> bool {
        self.stored(policy, facts & !(IS_SHOWN | CONFIRMS)) == STORED_REJECTED
    }

    /// Whether the answer depends on a fact.
    fn asks(&self, policy: u8, facts: u8, fact: u8) -> bool {
        let facts = facts & !(IS_SHOWN | CONFIRMS);
        self.stored(policy, facts | fact) != self.stored(policy, facts & !fact)
    }
}

fn fact(fact: u8, holds: bool) -> u8 {
    if holds {
        fact
    } else {
        0
    }
}

/// What a capture shows of its body's checksum, without the scheme; a visit without a body (304) has none of its own.
fn checksum_of(seen: &Seen) -> &[u8] {
    seen.columns.get(CHECKSUM).get(1..).unwrap_or_default()
}

fn status_of(seen: &Seen) -> i64 {
    let digits = seen.columns.get(STATUS).get(1..).unwrap_or_default();
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn is_absent(cell_value: &[u8]) -> bool {
    cell_value.first() == Some(&VALUE_ABSENT)
}

impl<H> Core<H> {
    /// Judge a page, and add it to the batch.
    ///
    /// `now` is the time of arrival in its record, in microseconds.
    pub fn judge<R: Reads<Held = H>>(
        &mut self,
        fetched: Fetched<H>,
        policies: &Policies<'_>,
        now: u64,
        reads: &mut R,
    ) -> Result<Arc<Judged<H>>, R::Error> {
        let judged = match fetched.kind {
            FetchedKind::Refused => refused(fetched, Refusal::Prepared),
            FetchedKind::Visit => self.judge_visit(fetched, now, reads)?,
            FetchedKind::Page => self.judge_page(fetched, policies, now, reads)?,
        };
        let judged = Arc::new(judged);
        self.add(&judged, reads)?;
        Ok(judged)
    }

    fn judge_page<R: Reads<Held = H>>(
        &mut self,
        mut fetched: Fetched<H>,
        policies: &Policies<'_>,
        now: u64,
        reads: &mut R,
    ) -> Result<Judged<H>, R::Error> {
        let asking = &fetched.asking;
        let (row_key, wants_body) = (&asking.row_key, fetched.wants_body);
        let is_new = self.batch.is_new(row_key); // nearly all pages of a first crawl
        let (taken, timestamp, known_before) =
            if is_new { (None, fetched.timestamp, Some(None)) } else { self.first_free_time(&fetched, reads)? };
        if timestamp > TIMESTAMP_MAX {
            return Ok(refused(fetched, Refusal::NoFreeTime));
        }
        let (mut known, mut is_damaged) = (None, false);
        if let Some(taken) = &taken {
            known = Some(self.verdict_of(row_key, taken, reads)?.unwrap_or_else(Decided::unjudged));
            is_damaged = self.is_damaged(row_key, taken, reads)?;
            if is_damaged || (wants_body && self.has_text_alone(row_key, taken, reads)?) {
                known = None; // it is judged and stored again, at its own time
            }
        }
        if let Some(known) = known.take_if(|known| known.stored != STORED_REJECTED) {
            if fetched.has_anchors {
                reads.add_anchors(&fetched.held, timestamp, true)?; // it may have been stored without them
            }
            return Ok(already_stored(fetched, timestamp, known));
        }
        let before = match known_before {
            Some(before) => before,
            None => self.newest_before(row_key, timestamp, reads)?,
        };
        let (mut previous, mut previous_similarity, mut confirms) = (PREVIOUS_NONE, 0.0, false);
        if let Some(before) = &before {
            (previous, previous_similarity) = self.compare_with_previous(&fetched, before, reads)?;
            // An error page does not confirm a page.
            confirms = previous == PREVIOUS_SAME_BYTES && asking.status / 100 == status_of(before) / 100;
            is_damaged = is_damaged || (confirms && self.is_damaged(row_key, before, reads)?);
            confirms = confirms && !(wants_body && is_absent(before.columns.get(BODY)));
        }
        let mut found = self.compare(asking, reads)?;
        let (contains, nearest) = (found.contains.clone(), found.nearest.clone());
        // Readers see a page or visit at this time.
        let is_shown = taken.as_ref().is_some_and(|taken| taken.kind != CAPTURE_REJECTED);
        let mut facts = fact(IS_DAMAGED, is_damaged)
            | fact(CONFIRMS, confirms)
            | fact(IS_SHOWN, is_shown)
            | fact(WANTS_BODY, wants_body);
        let mut policy = policies.by_kind[found.kind as usize];
        if !is_damaged && (is_shown || !confirms) {
            facts = self.facts_of_page(policies, policy, facts, row_key, found.of.as_ref(), reads)?;
            let asks_site = found.of.is_some()
                && SAME_PAGE.contains(&found.kind)
                && policies.by_kind.contains(&REJECT)
                && (policy == REJECT || facts & SAME_SITE == 0)
                && !policies.rejects(policy, facts);
            if asks_site {
                let rejected = |kind: &Kind| policies.by_kind[*kind as usize] == REJECT;
                let kinds: Vec<Kind> = SAME_PAGE.into_iter().filter(rejected).collect();
                if let Some(own) = self.of_site(asking, &kinds, reads)?.filter(|own| kinds.contains(&own.kind)) {
                    let of_site = self.facts_of_page(policies, REJECT, facts, row_key, own.of.as_ref(), reads)?;
                    if policies.rejects(REJECT, of_site) {
                        (found, policy, facts) = (own, REJECT, of_site);
                    }
                }
            }
        }
        let stored = policies.stored(policy, facts);
        let decided = Decided::of(&found, asking.page.no_text.as_bytes());
        let verdict = Decided { previous, previous_similarity, stored, ..decided };
        let is_same = |known: &Decided| (known.kind, &known.of, known.stored) == (verdict.kind, &verdict.of, stored);
        if let Some(known) = known.filter(is_same) {
            return Ok(already_stored(fetched, timestamp, known));
        }
        if fetched.has_anchors && stored != STORED_REJECTED {
            reads.add_anchors(&fetched.held, timestamp, before.is_some())?;
        }
        let record = record_of(&mut fetched, &verdict, before.as_ref(), now);
        let previous = before
            .map(|before| (before.source, [BODY, MAIN].map(|number| Box::<[u8]>::from(before.columns.get(number)))));
        let judged = Judged::without_record(fetched, timestamp, verdict);
        let (record, rewrites) = (Some(record), taken.is_some());
        Ok(Judged { record, contains, nearest, previous, is_damaged, rewrites, ..judged })
    }

    // --- the own row

    fn record<R: Reads<Held = H>>(
        &mut self,
        row_key: &[u8],
        timestamp: u64,
        reads: &mut R,
    ) -> Result<Option<Seen>, R::Error> {
        if self.batch.is_new(row_key) {
            return Ok(None);
        }
        reads.record(row_key, timestamp, self.batch.of_row(row_key))
    }

    fn newest_before<R: Reads<Held = H>>(
        &mut self,
        row_key: &[u8],
        timestamp: u64,
        reads: &mut R,
    ) -> Result<Option<Seen>, R::Error> {
        if self.batch.is_new(row_key) {
            return Ok(None);
        }
        reads.before(row_key, timestamp, false, self.batch.of_row(row_key))
    }

    /// The first millisecond, from the page's own on, that is free or has the same body; and the record there.  Also the
    /// live page before it, if a read told it.
    ///
    /// The time is beyond TIMESTAMP_MAX if there is no such millisecond.
    fn first_free_time<R: Reads<Held = H>>(
        &mut self,
        fetched: &Fetched<H>,
        reads: &mut R,
    ) -> Result<(Option<Seen>, u64, Option<Option<Seen>>), R::Error> {
        let row_key = &fetched.asking.row_key;
        let checksum = &fetched.asking.page.checksum;
        let has_body = |taken: &Seen| taken.kind != CAPTURE_NOT_MODIFIED && *checksum_of(taken) == **checksum;
        let (mut timestamp, mut probes) = (fetched.timestamp, 0);
        let pending = self.batch.of_row(row_key);
        let (mut taken, before) = reads.record_and_page_before(row_key, timestamp, pending)?;
        if taken.is_none() {
            return Ok((None, timestamp, before));
        }
        while taken.as_ref().is_some_and(|taken| !has_body(taken)) {
            timestamp += STEP;
            probes += 1;
            if probes >= MOST_PROBES {
                let mut run = self.taken_times.take(row_key, timestamp);
                let pending = self.batch.of_row(row_key);
                timestamp = run.next(timestamp, checksum, |start, end| reads.times(row_key, start, end, pending))?;
                self.taken_times.put(row_key, run);
            }
            taken = if timestamp > TIMESTAMP_MAX { None } else { self.record(row_key, timestamp, reads)? };
        }
        Ok((taken, timestamp, None))
    }

    /// The verdict of a capture; None if it has none, or one that cannot be read.
    fn verdict_of<R: Reads<Held = H>>(
        &mut self,
        row_key: &[u8],
        seen: &Seen,
        reads: &mut R,
    ) -> Result<Option<Decided>, R::Error> {
        let cell_value = seen.columns.get(VERDICT);
        if cell_value.is_empty() {
            return Ok(None);
        }
        Ok(reads.verdict(row_key, seen.timestamp, cell_value)?.and_then(|encoded| Decided::decode(&encoded)))
    }

    /// Whether a value of a capture cannot be read; each such value is listed.
    fn is_damaged<R: Reads<Held = H>>(&mut self, row_key: &[u8], seen: &Seen, reads: &mut R) -> Result<bool, R::Error> {
        let mut is_damaged = false;
        if seen.confirms != 0 {
            // A visit shows another record's values.
            if let Some(source) = self.record(row_key, seen.confirms, reads)? {
                is_damaged = self.has_damage(row_key, &source, reads)?;
            }
        }
        Ok(self.has_damage(row_key, seen, reads)? || is_damaged)
    }

    fn has_damage<R: Reads<Held = H>>(&mut self, row_key: &[u8], seen: &Seen, reads: &mut R) -> Result<bool, R::Error> {
        let mut has_damage = false;
        for (number, cell_value) in seen.columns.iter() {
            if cell_value.first() == Some(&VALUE_REF) {
                has_damage |= !reads.is_sound(row_key, seen.timestamp, number, cell_value)?;
            }
        }
        Ok(has_damage)
    }

    /// Whether a capture, or the page that it confirms, was stored without its body, because it was not wanted.
    fn has_text_alone<R: Reads<Held = H>>(
        &mut self,
        row_key: &[u8],
        taken: &Seen,
        reads: &mut R,
    ) -> Result<bool, R::Error> {
        let source = match taken.confirms {
            0 => None,
            time => match self.record(row_key, time, reads)? {
                None => return Ok(false),
                source => source,
            },
        };
        let verdict = self.verdict_of(row_key, source.as_ref().unwrap_or(taken), reads)?;
        Ok(verdict.is_some_and(|verdict| verdict.stored == STORED_TEXT))
    }

    fn compare_with_previous<R: Reads<Held = H>>(
        &mut self,
        fetched: &Fetched<H>,
        before: &Seen,
        reads: &mut R,
    ) -> Result<(u8, f64), R::Error> {
        let page = &fetched.asking.page;
        if *page.checksum == *checksum_of(before) {
            return Ok((PREVIOUS_SAME_BYTES, 1.0));
        }
        let text_checksum = before.columns.get(TEXT_CHECKSUM).get(1..).unwrap_or_default();
        let source = pointer_of(before.source, &fetched.asking.row_key);
        let (similarity, _) = self.shares(page.marks.as_ref(), text_checksum, &source, reads)?;
        let is_same = !page.text_checksum().is_empty() && page.text_checksum() == text_checksum;
        Ok((if is_same { PREVIOUS_SAME_TEXT } else { PREVIOUS_CHANGED }, similarity))
    }

    // --- visits

    fn judge_visit<R: Reads<Held = H>>(
        &mut self,
        fetched: Fetched<H>,
        now: u64,
        reads: &mut R,
    ) -> Result<Judged<H>, R::Error> {
        let row_key = &fetched.asking.row_key;
        let mut timestamp = fetched.timestamp;
        let mut taken = self.record(row_key, timestamp, reads)?;
        while taken.as_ref().is_some_and(|taken| taken.kind != CAPTURE_NOT_MODIFIED) {
            timestamp += STEP; // a page has the same time
            if timestamp > TIMESTAMP_MAX {
                return Ok(refused(fetched, Refusal::NoFreeTime));
            }
            taken = self.record(row_key, timestamp, reads)?;
        }
        let mut before = self.newest_before(row_key, timestamp, reads)?;
        let last = reads.before(row_key, timestamp, true, self.batch.of_row(row_key))?;
        let visit = Decided { reason: REASON_NOT_MODIFIED.as_bytes().into(), ..Decided::unjudged() };
        let mut verdict = Decided { stored: STORED_VISIT, ..visit.clone() };
        let had_confirmed = taken.as_ref().map(|taken| taken.confirms != 0);
        let rejected = last.filter(|last| last.kind == CAPTURE_REJECTED && had_confirmed != Some(true));
        if let Some(rejected) = &rejected {
            before = None;
            if let Some(found) = self.verdict_of(row_key, rejected, reads)? {
                verdict = Decided { stored: STORED_VISIT, ..found.not_modified() };
            }
        } else if let Some(before) = &before {
            let confirmed = self.verdict_of(row_key, before, reads)?;
            verdict = confirmed.map_or_else(|| visit.not_modified(), |found| found.not_modified());
        }
        if let Some(had_confirmed) = had_confirmed {
            let stored = if had_confirmed { STORED_CONFIRMED } else { STORED_VISIT };
            return Ok(already_stored(fetched, timestamp, Decided { stored, ..verdict }));
        }
        let mut columns = RecordColumns::default();
        columns.put(VISIT, &fetched.visit);
        if let Some(fetch) = rejected.as_ref().or(before.as_ref()).filter(|fetch| fetch.columns.has(CHECKSUM)) {
            columns.short.push(CHECKSUM, &[fetch.columns.get(CHECKSUM)]);
        }
        let confirms = before.as_ref().map_or(0, |before| before.source);
        if before.is_some() {
            columns.put(VERDICT, &verdict.encode());
        }
        let record = finish(columns, &fetched, CAPTURE_NOT_MODIFIED, now, confirms);
        Ok(Judged { record: Some(record), ..Judged::without_record(fetched, timestamp, verdict) })
    }

    // --- the policy

    /// Facts with those of a policy's page.  One that costs a read is read only if the answer depends on it.
    fn facts_of_page<R: Reads<Held = H>>(
        &mut self,
        policies: &Policies<'_>,
        policy: u8,
        facts: u8,
        row_key: &[u8],
        of: Option<&Pointer>,
        reads: &mut R,
    ) -> Result<u8, R::Error> {
        let Some(of) = of else { return Ok(facts) };
        let mut facts = facts & !SAME_SITE | NAMES_PAGE | BODY_IS_KEPT | IS_CURRENT;
        facts |= fact(SAME_SITE, site(row_key) == site(row_key_of(of)));
        if policies.asks(policy, facts, BODY_IS_KEPT) {
            let stored = self.page(of, reads)?;
            let body = stored.as_ref().map_or(&[][..], |stored| stored.cell(Value::Body));
            if body.is_empty() || is_absent(body) {
                facts &= !BODY_IS_KEPT;
            }
        }
        if policies.asks(policy, facts, IS_CURRENT) && !self.is_current(of, reads)? {
            facts &= !IS_CURRENT;
        }
        Ok(facts)
    }

    // --- the batch

    /// Add a page to the batch: later pages see its record, and are compared with it if its text is stored.
    fn add<R: Reads<Held = H>>(&mut self, judged: &Arc<Judged<H>>, reads: &mut R) -> Result<(), R::Error> {
        let Some(record) = &judged.record else { return Ok(()) };
        self.batch.add(judged);
        let asking = &judged.fetched.asking;
        let is_posted = matches!(judged.verdict.stored, STORED_BODY | STORED_TEXT | STORED_REFERENCE);
        if is_posted && !asking.body().is_empty() {
            self.post(&judged.pointer, asking, reads)?;
            let stored = Stored { page: Arc::new(Page::of(asking)), cells: Arc::new(cells_in_batch(record)) };
            self.batch.compared.insert(judged.pointer.clone(), Compared { stored, judged: judged.clone() });
        }
        Ok(())
    }
}

/// The answer to a page that cannot be stored.
fn refused<H>(fetched: Fetched<H>, refusal: Refusal) -> Judged<H> {
    let timestamp = fetched.timestamp;
    Judged { refusal: Some(refusal), ..Judged::without_record(fetched, timestamp, Decided::unjudged()) }
}

/// The answer to a capture that is stored already.
fn already_stored<H>(fetched: Fetched<H>, timestamp: u64, known: Decided) -> Judged<H> {
    let known_as = Some(known.stored);
    let verdict = Decided { stored: STORED_KNOWN, ..known };
    Judged { known_as, ..Judged::without_record(fetched, timestamp, verdict) }
}

/// The record of a page without its body and text; it takes the columns of the page.
fn record_of<H>(fetched: &mut Fetched<H>, verdict: &Decided, before: Option<&Seen>, now: u64) -> NewRecord {
    let kind = match verdict.stored {
        STORED_CONFIRMED => CAPTURE_CONFIRMED,
        STORED_REJECTED => CAPTURE_REJECTED,
        _ => CAPTURE_STORED,
    };
    let RecordColumns { short, mut long } = std::mem::take(&mut fetched.columns);
    let mut columns = RecordColumns::default();
    if kind == CAPTURE_STORED {
        columns = RecordColumns { short, long };
    } else {
        // A page that is confirmed keeps what is of each fetch, a rejected one only what finds it again.
        let is_kept = |number: usize| {
            number == CHECKSUM || (kind == CAPTURE_CONFIRMED && CAPTURE_FIELDS[number - 1].1 .0 == "http")
        };
        let kept = short.iter().filter(|(number, _)| is_kept(usize::from(*number)));
        kept.for_each(|(number, cell_value)| columns.short.push(usize::from(number), &[cell_value]));
        let headers = long.iter().find(|(number, _)| usize::from(*number) == HEADERS).map(|(_, value)| value.clone());
        long.retain(|(number, _)| is_kept(usize::from(*number)));
        columns.long = long;
        if kind == CAPTURE_REJECTED {
            let inline = short.get(HEADERS).get(1..).unwrap_or_default();
            let kept = validators(headers.as_ref().map_or(inline, |headers| headers.as_ref()));
            if let Some(kept) = kept.filter(|kept| !kept.is_empty()) {
                columns.put(HEADERS, &kept);
            }
        }
    }
    if verdict.stored == STORED_TEXT {
        columns.short.push(BODY, &[&encode_absent(fetched.asking.body().len() as u64)]);
    }
    columns.put(VERDICT, &verdict.encode());
    let confirms = before.filter(|_| kind == CAPTURE_CONFIRMED).map_or(0, |before| before.source);
    finish(columns, fetched, kind, now, confirms)
}

/// A record with the label of its crawl.
fn finish<H>(mut columns: RecordColumns, fetched: &Fetched<H>, kind: u8, arrived: u64, confirms: u64) -> NewRecord {
    if !fetched.crawl.is_empty() {
        columns.put(CRAWL, &fetched.crawl);
    }
    NewRecord { kind, columns: Arc::new(columns.short), long: columns.long, arrived, confirms }
}
