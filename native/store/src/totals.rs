//! What the rows of a store add up to: totals of live captures, and the pages that postings may lead to.

use std::collections::hash_map::RandomState;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};

use crate::capture::{Record, BODY, CHECKSUM, VERDICT, VISIT};
use crate::format::{
    CAPTURE_NOT_MODIFIED, POSTING_BODY, POSTING_BODY_BYTES, POSTING_DOCNO, POSTING_PAYLOAD_DIGEST, TIMESTAMP_MAX,
};
use crate::live::{Live, Policy, Records};
use crate::values::{parse, Value};
use crate::varint::big_endian;
use crate::verdict;

/// Gives the values of cells that stand in segments; None for one that cannot be read.
pub trait Values {
    type Bytes: AsRef<[u8]>;
    type Error;

    fn value(&mut self, cell_value: &[u8]) -> Result<Option<Self::Bytes>, Self::Error>;
}

/// What verdicts are counted by; numbers of words as in `verdict::Verdict`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    pub kind: u8,
    pub previous: u8,
    pub stored: u8,
    pub reason: Vec<u8>,
}

/// See above.
#[derive(Debug, Default)]
pub struct Totals {
    captures: Policy,
    bodies: Policy,
    /// Drawn anew for each scan, so that nobody can write pages with the same key.
    hasher: RandomState,
    /// Keys of live pages, with and without the head of their body's checksum; sorted when they are first looked up.
    pages: Vec<u64>,
    is_sorted: bool,
    /// Rows with a verdict.
    pub urls: u64,
    pub visits: u64,
    /// Captures with a verdict, and the bytes of their bodies.
    pub groups: BTreeMap<Group, (u64, u64)>,
}

impl Totals {
    /// Totals of the captures and bodies that these policies keep.
    pub fn new(captures: Policy, bodies: Policy) -> Self {
        Self { captures, bodies, ..Self::default() }
    }

    /// Add a row with the times and values of its capture records, newest first; damaged ones do not count.
    pub fn add_row<V: Values>(
        &mut self,
        row_key: &[u8],
        records: &[(i64, &[u8])],
        values: &mut V,
    ) -> Result<(), V::Error> {
        let mut records =
            Records::new(records.iter().filter_map(|(time, value)| Record::parse(*time, value)).collect());
        let mut live = Live::new(self.captures, self.bodies);
        let mut has_verdict = false;
        while let Ok(Some(shown)) = live.next(&mut records) {
            let mut capture = shown.record;
            let own_verdict = capture.columns[VERDICT];
            if let Some(source) = shown.source.filter(|source| source.timestamp != capture.timestamp) {
                capture.confirm(&source);
            }
            let columns = &capture.columns;
            if !columns[BODY].is_empty() {
                let checksum = columns[CHECKSUM].get(1..).unwrap_or_default();
                let head = &checksum[..checksum.len().min(1 + POSTING_BODY_BYTES)];
                let keys = [&b""[..], head].map(|body| self.key(capture.timestamp as u64, row_key, body));
                self.pages.extend(keys);
                self.is_sorted = false;
            }
            if !columns[VISIT].is_empty() {
                self.visits += 1;
                continue;
            }
            let is_followed = capture.kind == CAPTURE_NOT_MODIFIED && own_verdict.is_empty();
            let held;
            let encoded = match parse(columns[VERDICT]) {
                Some(Value::Inline(encoded)) => encoded,
                Some(Value::Ref(..)) => {
                    held = values.value(columns[VERDICT])?;
                    let Some(encoded) = &held else { continue };
                    encoded.as_ref()
                }
                _ => continue,
            };
            let Ok(found) = verdict::decode(encoded) else { continue };
            has_verdict = true;
            let body_bytes = match parse(columns[BODY]) {
                Some(Value::Inline(raw)) if shown.has_body => raw.len() as u64,
                Some(Value::Ref(raw_bytes, _)) if shown.has_body => raw_bytes,
                None if !columns[BODY].is_empty() => continue,
                _ => 0,
            };
            let found = if is_followed { verdict::not_modified(&found) } else { found };
            let verdict::Verdict { kind, previous, stored, reason, .. } = found;
            let of = self.groups.entry(Group { kind, previous, stored, reason: reason.to_vec() }).or_default();
            *of = (of.0 + 1, of.1 + body_bytes);
        }
        self.urls += u64::from(has_verdict);
        Ok(())
    }

    fn key(&self, timestamp: u64, row_key: &[u8], body: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u64(timestamp);
        hasher.write_usize(row_key.len());
        hasher.write(row_key);
        hasher.write(body);
        hasher.finish()
    }

    /// Sort the keys of the pages, for `has_page`.
    pub fn sort(&mut self) {
        if !self.is_sorted {
            self.pages.sort_unstable();
            self.is_sorted = true;
        }
    }

    /// Whether the page that a posting leads to is live, by its row and qualifier; false is not certain.
    ///
    /// REQUIRES: `sort`.
    pub fn has_page(&self, row: &[u8], qualifier: &[u8]) -> bool {
        let (mut at, kind) = (0, row.first().copied().unwrap_or_default());
        let Some(time) = big_endian(qualifier, &mut at, 8) else { return false };
        let is_newest_first = [POSTING_PAYLOAD_DIGEST, POSTING_DOCNO].contains(&kind);
        let timestamp = if is_newest_first { TIMESTAMP_MAX.wrapping_sub(time) } else { time };
        let body = if kind == POSTING_BODY { &row[1..] } else { &[] };
        self.pages.binary_search(&self.key(timestamp, &qualifier[at..], body)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{encode, CRAWL};
    use crate::format::{
        CAPTURE_CONFIRMED, CAPTURE_STORED, POSTING_TEXT, VERDICT_KINDS, VERDICT_PREVIOUS, VERDICT_STORED,
    };
    use crate::values::{encode_absent, encode_ref};
    use crate::verdict::{number_of, Verdict};
    use std::convert::Infallible;

    /// The one value that stands in a segment.
    struct One(Option<Vec<u8>>);

    impl Values for One {
        type Bytes = Vec<u8>;
        type Error = Infallible;

        fn value(&mut self, _: &[u8]) -> Result<Option<Vec<u8>>, Infallible> {
            Ok(self.0.clone())
        }
    }

    fn judged(reason: &[u8]) -> Vec<u8> {
        let number = |words, word| number_of(words, word).expect("a word");
        verdict::encode(&Verdict {
            kind: number(VERDICT_KINDS, "new"),
            of_row_key: b"",
            of_timestamp: 0,
            similarity: 0.0,
            reason,
            contains_row_key: b"",
            candidates: 3,
            verified: 2,
            previous: number(VERDICT_PREVIOUS, "none"),
            previous_similarity: 0.0,
            stored: number(VERDICT_STORED, "body"),
        })
    }

    fn inline(value: &[u8]) -> Vec<u8> {
        [b"\0", value].concat()
    }

    fn record(kind: u8, columns: &[(usize, &[u8])], confirms: u64) -> Vec<u8> {
        encode(kind, &mut columns.iter().map(|(number, value)| (*number as u8, *value)).collect(), 0, confirms)
    }

    fn stored(verdict: &[u8], checksum: &[u8], body: &[u8]) -> Vec<u8> {
        record(CAPTURE_STORED, &[(VERDICT, verdict), (CHECKSUM, &inline(checksum)), (BODY, body)], 0)
    }

    fn add(totals: &mut Totals, row_key: &[u8], records: &[(i64, &[u8])]) {
        let Ok(()) = totals.add_row(row_key, records, &mut One(None));
    }

    #[test]
    fn verdicts_bodies_visits_and_urls_are_counted() {
        let (plain, crowded, mut totals) = (inline(&judged(b"")), inline(&judged(b"crowded")), Totals::default());
        let [first, second] = [&plain, &crowded].map(|verdict| stored(verdict, b"\x01sum", b"\0four"));
        let visit = record(CAPTURE_NOT_MODIFIED, &[(VISIT, b"\x001"), (CHECKSUM, &inline(b"\x01sum"))], 2);
        add(&mut totals, b"a", &[(3, &visit), (2, &second), (1, &first)]);
        add(&mut totals, b"b", &[(2, &second[..second.len() - 1]), (1, &first)]);
        add(&mut totals, b"c", &[(1, &stored(&inline(b"no verdict"), b"\x01sum", b"\0four"))]);
        add(&mut totals, b"d", &[(1, &stored(&plain, b"\x01sum", &encode_absent(9)))]);
        assert_eq!((totals.urls, totals.visits), (3, 1));
        let groups: Vec<_> = totals.groups.iter().map(|(group, counts)| (&group.reason[..], *counts)).collect();
        assert_eq!(groups, [(&b""[..], (3, 8)), (b"crowded", (1, 4))]);
    }

    #[test]
    fn what_the_policies_hide_does_not_count() {
        let (verdict, most) = (inline(&judged(b"")), |most| Policy { most: Some(most), ..Policy::default() });
        let records: Vec<_> =
            (1..=3u8).rev().map(|at| (i64::from(at), stored(&verdict, &[1, at], b"\0four"))).collect();
        let records: Vec<_> = records.iter().map(|(at, record)| (*at, &record[..])).collect();
        for (captures, bodies, expected) in [(2, 2, (2, 8)), (3, 1, (3, 4)), (9, 9, (3, 12))] {
            let mut totals = Totals::new(most(captures), most(bodies));
            add(&mut totals, b"a", &records);
            assert_eq!(totals.groups.into_values().collect::<Vec<_>>(), [expected]);
        }
    }

    #[test]
    fn a_long_verdict_is_read_and_one_that_cannot_be_read_does_not_count() {
        let long = stored(&encode_ref(900, b"\x01\x02\x03"), b"\x01sum", b"\0four");
        for (value, urls) in [(Some(judged(&[b'r'; 800])), 1), (Some(b"damaged".to_vec()), 0), (None, 0)] {
            let mut totals = Totals::default();
            let Ok(()) = totals.add_row(b"a", &[(1, &long)], &mut One(value));
            assert_eq!((totals.urls, totals.groups.len()), (urls, urls as usize));
        }
    }

    #[test]
    fn a_posting_leads_to_a_live_page_by_time_and_body() {
        let (verdict, mut totals) = (inline(&judged(b"")), Totals::default());
        let page = stored(&verdict, b"\x0112345678 and more", b"\0four");
        let visit = record(CAPTURE_CONFIRMED, &[(CHECKSUM, &inline(b"\x0112345678 and more")), (CRAWL, b"\0c")], 5);
        let rejected = record(crate::format::CAPTURE_REJECTED, &[(CHECKSUM, &inline(b"\x0187654321"))], 0);
        add(&mut totals, b"a", &[(9, &rejected), (7, &visit), (5, &page)]);
        totals.sort();
        let qualifier = |time: u64| [&time.to_be_bytes()[..], b"a"].concat();
        let body = [&[POSTING_BODY][..], b"\x0112345678"].concat();
        for (row, time, is_live) in [
            (&body[..], 5, true),
            (&body, 7, true),
            (&body, 9, false),
            (&[POSTING_BODY, 1], 5, false),
            (&[POSTING_TEXT, 1], 5, true),
            (&[POSTING_TEXT, 1], 6, false),
            (&[POSTING_DOCNO, 1], TIMESTAMP_MAX - 5, true),
            (&[POSTING_DOCNO, 1], 5, false),
        ] {
            assert_eq!(totals.has_page(row, &qualifier(time)), is_live, "{row:?} {time}");
        }
        assert!(!totals.has_page(&[POSTING_TEXT, 1], b"short") && !totals.has_page(b"", &qualifier(6)));
    }
}
