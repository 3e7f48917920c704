//! Which captures of a row the policies keep, and of which capture each shows body and text: the one answer.
//!
//! Records are read newest first, and no more of them than are needed.  A policy counts different bodies: consecutive
//! captures with the same body count once, with the time of the newest of them and of the visits that confirm them.  A
//! visit lives as long as the capture that it confirms, a rejected capture as long as the stored capture before it.

use std::collections::VecDeque;
use std::convert::Infallible;

use crate::capture::{Record, CHECKSUM};
use crate::format::{CAPTURE_REJECTED, CAPTURE_STORED};

/// A policy, at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy {
    /// Different bodies that are kept at most.
    pub most: Option<u64>,
    /// What is not newer than this is too old, in microseconds.
    pub oldest: Option<i64>,
    /// What is kept is too many and too old only together.
    pub both: bool,
}

impl Policy {
    pub fn keeps_all(&self) -> bool {
        self.most.is_none() && self.oldest.is_none()
    }
}

/// Applies a policy to bodies, newest first; after the first dropped body it keeps none.
struct Counter {
    policy: Policy,
    rank: u64,
    keeps: bool,
}

impl Counter {
    fn new(policy: Policy) -> Self {
        let both = policy.both && policy.most.is_some() && policy.oldest.is_some();
        Self { policy: Policy { both, ..policy }, rank: 0, keeps: true }
    }

    /// Count the next different body, with the newest time at which it was seen.
    fn count(&mut self, timestamp: i64) {
        self.rank += 1;
        let too_old = self.policy.oldest.is_some_and(|oldest| timestamp <= oldest);
        let too_many = self.policy.most.is_some_and(|most| self.rank > most);
        self.keeps &= !if self.policy.both { too_many && too_old } else { too_many || too_old };
    }
}

/// A capture record of a row; a clone is the same record.
pub trait Seen: Clone {
    fn timestamp(&self) -> i64;
    fn kind(&self) -> u8;
    /// Equal for equal bodies; empty for a visit that confirmed nothing when it was written.
    fn body_identity(&self) -> &[u8];
    /// For a visit the time of the capture that it confirmed when it was written; 0 for none.
    fn confirms(&self) -> i64;
}

/// Gives the records of a row.
pub trait Rows {
    type Record: Seen;
    type Error;

    /// The next older one.
    fn next(&mut self) -> Result<Option<Self::Record>, Self::Error>;

    /// The one at a time.
    fn find(&mut self, timestamp: i64) -> Result<Option<Self::Record>, Self::Error>;
}

impl Seen for Record<'_> {
    fn timestamp(&self) -> i64 {
        self.timestamp
    }

    fn kind(&self) -> u8 {
        self.kind
    }

    fn body_identity(&self) -> &[u8] {
        self.columns[CHECKSUM]
    }

    fn confirms(&self) -> i64 {
        self.confirms
    }
}

/// The records of a row, newest first, and how many are read.
pub struct Records<'a>(Vec<Record<'a>>, usize);

impl<'a> Records<'a> {
    pub fn new(records: Vec<Record<'a>>) -> Self {
        Self(records, 0)
    }

    pub fn all(&self) -> &[Record<'a>] {
        &self.0
    }
}

impl<'a> Rows for Records<'a> {
    type Record = Record<'a>;
    type Error = Infallible;

    fn next(&mut self) -> Result<Option<Record<'a>>, Infallible> {
        self.1 += 1;
        Ok(self.0.get(self.1 - 1).copied())
    }

    fn find(&mut self, timestamp: i64) -> Result<Option<Record<'a>>, Infallible> {
        Ok(self.0.iter().find(|record| record.timestamp == timestamp).copied())
    }
}

/// A live capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown<Record> {
    pub record: Record,
    /// The stored capture whose body and text it shows; the record itself if that has them.
    pub source: Option<Record>,
    /// Whether the policy for bodies keeps that of its source.
    pub has_body: bool,
}

/// The captures of a row that the policies keep, newest first.
pub struct Live<Record> {
    captures: Counter,
    bodies: Counter,
    /// Rejected captures are certainly live only after the stored capture before them is.
    drops: bool,
    last: Option<Vec<u8>>,
    /// The capture that the last visit confirms; usually the next visit confirms it too.
    confirms: Option<Record>,
    /// Rejected captures and visits, newest first, that are kept if the next stored capture is.
    undecided: Vec<Record>,
    /// Captures that live visits confirm and that are not reached yet: time, and whether the body is shown.
    confirmed: Vec<(i64, bool)>,
    ready: VecDeque<Shown<Record>>,
    is_done: bool,
}

impl<Record: Seen> Live<Record> {
    pub fn new(captures: Policy, bodies: Policy) -> Self {
        Self {
            drops: !captures.keeps_all(),
            captures: Counter::new(captures),
            bodies: Counter::new(bodies),
            last: None,
            confirms: None,
            undecided: Vec::new(),
            confirmed: Vec::new(),
            ready: VecDeque::new(),
            is_done: false,
        }
    }

    /// The next live capture.
    pub fn next<R: Rows<Record = Record>>(&mut self, rows: &mut R) -> Result<Option<Shown<Record>>, R::Error> {
        while self.ready.is_empty() && !self.is_done {
            match rows.next()? {
                Some(record) => self.take(record, rows)?,
                None => self.finish(rows)?,
            }
        }
        Ok(self.ready.pop_front())
    }

    fn show(&mut self, record: Record, source: Option<Record>, has_body: bool) {
        self.ready.push_back(Shown { record, source, has_body });
    }

    fn take<R: Rows<Record = Record>>(&mut self, record: Record, rows: &mut R) -> Result<(), R::Error> {
        if record.kind() == CAPTURE_REJECTED {
            if self.drops || !self.undecided.is_empty() {
                self.undecided.push(record);
            } else {
                self.show(record, None, true);
            }
            return Ok(());
        }
        let mut source = record.clone();
        if record.kind() != CAPTURE_STORED {
            if self.confirms.as_ref().is_none_or(|held| held.timestamp() != record.confirms()) {
                self.confirms = if record.confirms() == 0 { None } else { rows.find(record.confirms())? };
            }
            let is_confirmed =
                |held: &&Record| held.kind() == CAPTURE_STORED && held.body_identity() == record.body_identity();
            match self.confirms.as_ref().filter(is_confirmed) {
                Some(held) => source = held.clone(),
                None => {
                    self.undecided.push(record);
                    return Ok(());
                }
            }
        }
        if self.last.as_deref() != Some(record.body_identity()) {
            self.captures.count(record.timestamp());
            self.bodies.count(record.timestamp());
            self.last = Some(record.body_identity().to_vec());
        }
        if !self.captures.keeps {
            return self.finish(rows);
        }
        let has_body = self.bodies.keeps;
        for follower in std::mem::take(&mut self.undecided) {
            let identity = follower.body_identity();
            let follows = identity.is_empty() || identity == record.body_identity();
            let is_visit = follower.kind() != CAPTURE_REJECTED && follows;
            let source = is_visit.then(|| source.clone());
            self.show(follower, source, has_body);
        }
        let reached = self.confirmed.iter().position(|(time, _)| *time == record.timestamp());
        let was_shown = reached.is_some_and(|place| self.confirmed.swap_remove(place).1);
        let is_shown = was_shown || has_body;
        if source.timestamp() != record.timestamp() {
            match self.confirmed.iter_mut().find(|(time, _)| *time == source.timestamp()) {
                Some((_, shown)) => *shown |= is_shown,
                None => self.confirmed.push((source.timestamp(), is_shown)),
            }
        }
        self.show(record, Some(source), is_shown);
        Ok(())
    }

    fn finish<R: Rows<Record = Record>>(&mut self, rows: &mut R) -> Result<(), R::Error> {
        self.is_done = true;
        if self.captures.keeps {
            let oldest = self.captures.policy.oldest;
            for follower in std::mem::take(&mut self.undecided) {
                if oldest.is_none_or(|oldest| follower.timestamp() > oldest) {
                    self.show(follower, None, true); // no stored capture is before it
                }
            }
        }
        self.confirmed.sort_unstable_by(|one, other| other.cmp(one));
        for (timestamp, has_body) in std::mem::take(&mut self.confirmed) {
            if let Some(source) = rows.find(timestamp)? {
                self.show(source.clone(), Some(source), has_body);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{CAPTURE_CONFIRMED, CAPTURE_NOT_MODIFIED};

    /// Time, kind, body, and the time that it confirms.
    type One = (i64, u8, &'static str, i64);

    impl Seen for One {
        fn timestamp(&self) -> i64 {
            self.0
        }
        fn kind(&self) -> u8 {
            self.1
        }
        fn body_identity(&self) -> &[u8] {
            self.2.as_bytes()
        }
        fn confirms(&self) -> i64 {
            self.3
        }
    }

    struct Row<'a> {
        records: &'a [One],
        read: usize,
    }

    impl Rows for Row<'_> {
        type Record = One;
        type Error = ();

        fn next(&mut self) -> Result<Option<One>, ()> {
            self.read += 1;
            Ok(self.records.get(self.read - 1).copied())
        }

        fn find(&mut self, timestamp: i64) -> Result<Option<One>, ()> {
            Ok(self.records.iter().find(|record| record.0 == timestamp).copied())
        }
    }

    const ALL: Policy = Policy { most: None, oldest: None, both: false };

    fn most(most: u64) -> Policy {
        Policy { most: Some(most), ..ALL }
    }

    /// Time of each live capture, of its source (0 for none), and whether the body is shown.
    fn live(records: &[One], captures: Policy, bodies: Policy) -> Vec<(i64, i64, bool)> {
        let mut live = Live::new(captures, bodies);
        let mut row = Row { records, read: 0 };
        std::iter::from_fn(|| live.next(&mut row).expect("no error"))
            .map(|one| (one.record.0, one.source.map_or(0, |source| source.0), one.has_body))
            .collect()
    }

    const S: u8 = CAPTURE_STORED;
    const C: u8 = CAPTURE_CONFIRMED;
    const N: u8 = CAPTURE_NOT_MODIFIED;
    const R: u8 = CAPTURE_REJECTED;

    #[test]
    fn without_policies_all_are_live_and_visits_show_their_capture() {
        let row = [(5, N, "a", 2), (4, R, "x", 0), (3, C, "a", 2), (2, S, "a", 0), (1, N, "", 0)];
        let expected = [(5, 2, true), (4, 0, true), (3, 2, true), (2, 2, true), (1, 0, true)];
        assert_eq!(live(&row, ALL, ALL), expected);
        assert_eq!(live(&[], ALL, ALL), []);
    }

    #[test]
    fn a_visit_that_came_before_its_capture_shows_the_next_stored_one_with_its_body() {
        let row = [(4, N, "", 0), (3, C, "b", 1), (2, S, "b", 0)];
        assert_eq!(live(&row, ALL, ALL), [(4, 2, true), (3, 2, true), (2, 2, true)]);
        let other = [(3, C, "b", 9), (2, S, "a", 0)];
        assert_eq!(live(&other, ALL, ALL), [(3, 0, true), (2, 2, true)], "another body");
        let gone = [(3, C, "a", 1), (2, R, "a", 0)];
        assert_eq!(live(&gone, ALL, ALL), [(3, 0, true), (2, 0, true)], "no stored capture is before it");
    }

    #[test]
    fn equal_bodies_count_once_and_the_rest_is_not_read() {
        let row = [(6, S, "c", 0), (5, S, "b", 0), (4, S, "b", 0), (3, S, "a", 0), (2, S, "b", 0)];
        assert_eq!(live(&row, most(2), ALL), [(6, 6, true), (5, 5, true), (4, 4, true)]);
        let mut live = Live::new(most(1), ALL);
        let mut one = Row { records: &row, read: 0 };
        while live.next(&mut one) != Ok(None) {}
        assert_eq!(one.read, 2);
    }

    #[test]
    fn bodies_are_hidden_by_a_policy_of_their_own() {
        let row = [(3, S, "b", 0), (2, S, "a", 0), (1, R, "x", 0)];
        assert_eq!(live(&row, ALL, most(1)), [(3, 3, true), (2, 2, false), (1, 0, true)]);
    }

    #[test]
    fn a_capture_lives_as_long_as_a_visit_that_confirms_it() {
        let row = [(9, C, "a", 1), (5, S, "b", 0), (3, S, "c", 0), (1, S, "a", 0)];
        assert_eq!(live(&row, most(2), ALL), [(9, 1, true), (5, 5, true), (1, 1, true)]);
        assert_eq!(live(&row, most(2), most(1)), [(9, 1, true), (5, 5, false), (1, 1, true)]);
        let by_age = Policy { oldest: Some(5), ..ALL };
        assert_eq!(live(&row, by_age, ALL), [(9, 1, true), (1, 1, true)], "not newer than the bound is too old");
    }

    #[test]
    fn rejected_captures_go_with_the_stored_capture_before_them() {
        let row = [(5, R, "x", 0), (4, S, "b", 0), (3, R, "y", 0), (2, S, "a", 0)];
        assert_eq!(live(&row, most(1), ALL), [(5, 0, true), (4, 4, true)]);
        let alone = [(5, R, "x", 0), (4, R, "y", 0)];
        assert_eq!(live(&alone, most(1), ALL), [(5, 0, true), (4, 0, true)]);
        let by_age = Policy { oldest: Some(4), ..ALL };
        assert_eq!(live(&alone, by_age, ALL), [(5, 0, true)]);
    }

    #[test]
    fn too_many_and_too_old_are_dropped_together_only_where_both_are_asked_for() {
        let row = [(9, S, "d", 0), (8, S, "c", 0), (3, S, "b", 0), (2, S, "a", 0)];
        let both = Policy { most: Some(1), oldest: Some(3), both: true };
        assert_eq!(live(&row, both, ALL), [(9, 9, true), (8, 8, true)]);
        let either = Policy { both: false, ..both };
        assert_eq!(live(&row, either, ALL), [(9, 9, true)]);
        let only_number = Policy { oldest: None, ..both };
        assert_eq!(live(&row, only_number, ALL), [(9, 9, true)], "one bound alone is that bound");
    }
}
