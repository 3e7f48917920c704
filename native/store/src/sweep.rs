//! What a sweep keeps of a row whose captures no policy hides and whose values stand in its records.
//!
//! A row of any other shape is not taken: `sweep.pages` takes it, and says what a version is.

use docstore_kernel::analysis::TEXT_DIGEST_BYTES;
use docstore_kernel::titles::distinctive;
use docstore_kernel::words::Words;

use crate::capture::{
    is_blank, Record, BODY, CANONICAL, CHECKSUM, ENTRIES, MAIN, SKETCH, STATUS, TEXT_CHECKSUM, TITLE, VERDICT,
};
use crate::format::{
    CAPTURE_NOT_MODIFIED, CAPTURE_REJECTED, CAPTURE_STORED, REASON_BLANK, SCHEME_SKETCH_1, SCHEME_TEXT_2, SKETCH_BYTES,
};
use crate::live::{Live, Policy, Records};
use crate::values::{inline, parse, Value};
use crate::{varint, verdict};

const TEXT_CHECKSUM_BYTES: usize = 1 + TEXT_DIGEST_BYTES;
const BINS: usize = 2 * (SKETCH_BYTES - 1);
const IDENTITY_BYTES: usize = 16;
const BY_BODY: u8 = 0;
const BY_TITLE: u8 = 1;
const BY_TEXT: u8 = 2;

/// What is chosen above the formats; see `sweep.pages`.
#[derive(Clone, Debug)]
pub struct Rules {
    pub redirects: Vec<u64>,
    /// Numbers of kinds of verdicts.
    pub same_page: Vec<u8>,
    pub least_words: u64,
    pub least_title_words: u64,
    pub long_text_bytes: u64,
}

/// Values one behind the other, and the length of each.
pub type Blob = (Vec<u8>, Vec<u8>);

/// Columns of versions as bytes; of values of different lengths, the values and their lengths.
#[derive(Default)]
pub struct Columns {
    pub positions: Vec<u8>,
    pub timestamps: Vec<u8>,
    pub column_times: Vec<u8>,
    pub placed: Vec<u8>,
    pub identity: Vec<u8>,
    pub bodies: Vec<u8>,
    pub equal_by: Vec<u8>,
    pub flags: Vec<u8>,
    pub shingle_counts: Vec<u8>,
    pub sketches: Vec<u8>,
    pub state: Vec<u8>,
    pub row_keys: Blob,
    pub body_values: Blob,
    pub texts: Blob,
    pub titles: Blob,
    /// Number of the version, and row key and time of a page that the verdict of one of its captures calls equal.
    pub named: Vec<(usize, Vec<u8>, u64)>,
    /// Number of the version, and its canonical link.
    pub canonical: Vec<(usize, Vec<u8>)>,
    /// Row key and time of what an earlier sweep has written for no version.
    pub stale: Vec<(Vec<u8>, i64)>,
}

fn push(blob: &mut Blob, value: &[u8]) {
    blob.0.extend_from_slice(value);
    blob.1.extend_from_slice(&(value.len() as i64).to_le_bytes());
}

fn digest(parts: &[&[u8]]) -> [u8; IDENTITY_BYTES] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    let mut found = [0; IDENTITY_BYTES];
    found.copy_from_slice(&hasher.finalize().as_bytes()[..IDENTITY_BYTES]);
    found
}

/// Words of a text, or so many as are enough if it is long; None if it is not here.
fn word_count(main: &[u8], rules: &Rules, words: &mut Words) -> Option<u64> {
    let text = match parse(main) {
        Some(Value::Ref(raw_bytes, _)) if raw_bytes > rules.long_text_bytes => return Some(rules.least_words),
        Some(Value::Inline(text)) => text,
        None if main.is_empty() => main,
        _ => return None,
    };
    words.cut(std::str::from_utf8(text).ok()?.as_bytes());
    Some(words.ends().len() as u64)
}

/// A version of a page, as it is written to the columns.
struct Version<'a> {
    timestamp: i64,
    column_time: i64,
    body: [u8; IDENTITY_BYTES],
    equal_by: u8,
    identity: [u8; IDENTITY_BYTES],
    good: bool,
    is_list: bool,
    shingle_count: u64,
    /// Of the current scheme; empty if it has none.
    sketch: &'a [u8],
    body_value: &'a [u8],
    main: &'a [u8],
    title: &'a [u8],
    canonical: &'a [u8],
    /// Row key and time of the pages that the verdicts of its captures call equal.
    named: Vec<(&'a [u8], u64)>,
}

impl<'a> Version<'a> {
    fn of(rules: &Rules, words: &mut Words, capture: &Record<'a>, status: u64, checksum: &[u8]) -> Option<Self> {
        let columns = &capture.columns;
        let (text_checksum, title) = (inline(columns[TEXT_CHECKSUM])?, inline(columns[TITLE])?);
        let (sketch, canonical) = (inline(columns[SKETCH])?, inline(columns[CANONICAL])?);
        let is_list = !columns[ENTRIES].is_empty();
        let good = status / 100 == 2 && text_checksum.len() == TEXT_CHECKSUM_BYTES && text_checksum[0] == SCHEME_TEXT_2;
        let mut at = SKETCH_BYTES;
        let shingle_count = if sketch.is_empty() { 0 } else { varint::read(sketch, &mut at)? };
        let sketched = sketch.first() == Some(&SCHEME_SKETCH_1);
        let class = format!("b{}:", status / 100);
        let body = digest(&[class.as_bytes(), checksum]);
        let (equal_by, identity) = if !good {
            (BY_BODY, body)
        } else {
            let list: &[u8] = if is_list { b"list" } else { b"" };
            let enough = if sketched && shingle_count >= rules.least_words {
                rules.least_words
            } else {
                word_count(columns[MAIN], rules, words)?
            };
            if enough >= rules.least_words {
                let of_title = distinctive(std::str::from_utf8(title).ok()?, words).join(&b"\n"[..]);
                (BY_TEXT, digest(&[b"n", list, text_checksum, &of_title]))
            } else if enough >= rules.least_title_words {
                words.cut(std::str::from_utf8(title).ok()?.as_bytes());
                (BY_TITLE, digest(&[b"t", list, text_checksum, words.joined()]))
            } else {
                (BY_BODY, body)
            }
        };
        Some(Self {
            timestamp: capture.timestamp,
            column_time: 0,
            body,
            equal_by,
            identity,
            good,
            is_list,
            shingle_count: if sketched { shingle_count } else { 0 },
            sketch: if sketched { &sketch[1..SKETCH_BYTES] } else { &[] },
            body_value: columns[BODY],
            main: columns[MAIN],
            title,
            canonical,
            named: Vec::new(),
        })
    }
}

/// One row: its key, the times and values of its capture records, newest first, and what an earlier sweep has written:
/// time, whether it is the canonical page, and the value.
pub struct Row<'a> {
    pub row_key: &'a [u8],
    pub records: Vec<(i64, &'a [u8])>,
    pub placed: Vec<(i64, bool, &'a [u8])>,
}

impl<'a> Row<'a> {
    /// Its captures as they are shown, newest first, each with the time of its source, and whether its verdict is that of
    /// a capture confirmed without a body.  None if a record is damaged, or a visit does not show a capture before it.
    fn captures(&self) -> Option<Vec<(Record<'a>, i64, bool)>> {
        let parse = |(time, value): &(i64, &'a [u8])| Record::parse(*time, value);
        let mut records = Records::new(self.records.iter().map(parse).collect::<Option<_>>()?);
        if records.all().iter().any(|record| record.kind == CAPTURE_REJECTED && !record.columns[BODY].is_empty()) {
            return None;
        }
        let mut live = Live::new(Policy::default(), Policy::default());
        let mut captures = Vec::with_capacity(records.all().len());
        while let Ok(Some(shown)) = live.next(&mut records) {
            let (mut capture, mut is_followed) = (shown.record, false);
            match shown.source {
                Some(source) if capture.kind != CAPTURE_STORED => {
                    if source.timestamp >= capture.timestamp || capture.body_identity() != source.body_identity() {
                        return None;
                    }
                    is_followed = capture.kind == CAPTURE_NOT_MODIFIED && capture.columns[VERDICT].is_empty();
                    capture.confirm(&source);
                }
                None if capture.kind != CAPTURE_REJECTED => return None,
                _ => {}
            }
            captures.push((capture, shown.source.map_or(0, |source| source.timestamp), is_followed));
        }
        Some(captures)
    }

    /// Its versions, oldest first, with the checksum of what an earlier sweep has written for each; and times of what it
    /// has written for none of them.  None for a row of another shape.
    fn versions(&self, rules: &Rules, words: &mut Words) -> Option<(Vec<(Version<'a>, u64)>, Vec<i64>)> {
        let captures = self.captures()?;
        let mut versions: Vec<Version<'a>> = Vec::new();
        let mut previous: Option<(&[u8], u64)> = None;
        let mut is_version = false;
        for (place, (capture, source, is_followed)) in captures.iter().enumerate().rev() {
            let columns = &capture.columns;
            let status = inline(columns[STATUS])?;
            if status.len() > 9 || !status.iter().all(u8::is_ascii_digit) {
                return None;
            }
            let status = status.iter().fold(0u64, |status, digit| 10 * status + u64::from(digit - b'0'));
            if place == 0 && rules.redirects.contains(&status) {
                return None;
            }
            if columns[BODY].is_empty() || columns[CHECKSUM].is_empty() {
                continue;
            }
            let checksum = inline(columns[CHECKSUM])?;
            let judged = match inline(columns[VERDICT])? {
                [] => None,
                encoded => Some(verdict::decode(encoded).ok()?),
            };
            let shown = (checksum, status / 100);
            if previous.as_ref() != Some(&shown) {
                previous = Some(shown);
                let blank = match parse(columns[BODY])? {
                    Value::Inline(body) => is_blank(body),
                    _ => judged.is_some_and(|judged| !is_followed && judged.reason == REASON_BLANK.as_bytes()),
                };
                is_version = !blank && !columns[TEXT_CHECKSUM].is_empty();
                if is_version {
                    versions.push(Version::of(rules, words, capture, status, checksum)?);
                }
            }
            if let Some(version) = versions.last_mut().filter(|_| is_version) {
                version.column_time = version.column_time.max(*source);
                let same_page = judged.filter(|judged| rules.same_page.contains(&judged.kind));
                version.named.extend(same_page.map(|judged| (judged.of_row_key, judged.of_timestamp)));
            }
        }
        let mut placed = self.checksums(&captures)?;
        let take = |version: Version<'a>| {
            let found = placed.iter().position(|(time, _)| *time == version.column_time);
            (version, found.map_or(0, |place| placed[place].1))
        };
        let versions: Vec<_> = versions.into_iter().map(take).collect();
        placed.retain(|(time, _)| versions.iter().all(|(version, _)| version.column_time != *time));
        Some((versions, placed.iter().map(|(time, _)| *time).collect()))
    }

    /// Times of live captures for which an earlier sweep has written something, ascending, and the checksum of it.
    fn checksums(&self, captures: &[(Record<'a>, i64, bool)]) -> Option<Vec<(i64, u64)>> {
        let mut placed: Vec<(i64, u64)> = Vec::new();
        for (capture, ..) in captures.iter().rev() {
            let of_capture =
                |is_page| self.placed.iter().find(move |(at, page, _)| (*at, *page) == (capture.timestamp, is_page));
            let both = [of_capture(false), of_capture(true)];
            if both.iter().any(Option::is_some) {
                let [cluster, page] = both.map(|cell| inline(cell.map_or(&[], |(.., value)| *value)));
                let mut first = [0; 8];
                first.copy_from_slice(&digest(&[cluster?, page?])[..8]);
                placed.push((capture.timestamp, u64::from_le_bytes(first) | 1));
            }
        }
        Some(placed)
    }
}

impl Columns {
    /// Add the versions of a row at a position; None, and nothing is added, if it has another shape.
    pub fn add_row(&mut self, rules: &Rules, words: &mut Words, position: usize, row: &Row<'_>) -> Option<()> {
        let (versions, others) = row.versions(rules, words)?;
        for (version, placed) in versions {
            let number = self.equal_by.len();
            self.add(position, row.row_key, &version, placed);
            self.named.extend(version.named.iter().map(|(row_key, at)| (number, row_key.to_vec(), *at)));
            if !version.canonical.is_empty() {
                self.canonical.push((number, version.canonical.to_vec()));
            }
        }
        self.stale.extend(others.into_iter().map(|time| (row.row_key.to_vec(), time)));
        Some(())
    }

    fn add(&mut self, position: usize, row_key: &[u8], version: &Version<'_>, placed: u64) {
        self.positions.extend_from_slice(&(position as i64).to_le_bytes());
        self.timestamps.extend_from_slice(&version.timestamp.to_le_bytes());
        self.column_times.extend_from_slice(&version.column_time.to_le_bytes());
        self.placed.extend_from_slice(&placed.to_le_bytes());
        self.identity.extend_from_slice(&version.identity);
        self.bodies.extend_from_slice(&version.body);
        self.equal_by.push(version.equal_by);
        let flags = [version.good, !version.sketch.is_empty(), version.is_list, !version.named.is_empty()];
        self.flags.extend(flags.map(u8::from));
        self.shingle_counts.extend_from_slice(&version.shingle_count.to_le_bytes());
        if version.sketch.is_empty() {
            self.sketches.resize(self.sketches.len() + BINS, 0);
        } else {
            self.sketches.extend(version.sketch.iter().map(|byte| byte & 0x0f));
            self.sketches.extend(version.sketch.iter().map(|byte| byte >> 4));
        }
        push(&mut self.row_keys, row_key);
        push(&mut self.body_values, version.body_value);
        push(&mut self.texts, version.main);
        push(&mut self.titles, version.title);
        self.state.extend_from_slice(&(row_key.len() as u32).to_be_bytes());
        self.state.extend_from_slice(row_key);
        self.state.extend_from_slice(&version.timestamp.to_be_bytes());
        self.state.extend_from_slice(&version.identity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::encode;
    use crate::verdict::Verdict;

    fn rules() -> Rules {
        Rules { redirects: vec![301], same_page: vec![0], least_words: 5, least_title_words: 2, long_text_bytes: 100 }
    }

    fn judged(kind: u8, reason: &[u8]) -> Vec<u8> {
        let verdict = Verdict {
            kind,
            of_row_key: b"other",
            of_timestamp: 7,
            similarity: 1.0,
            reason,
            contains_row_key: b"",
            candidates: 1,
            verified: 1,
            previous: 0,
            previous_similarity: 0.0,
            stored: 0,
        };
        [&[0], &verdict::encode(&verdict)[..]].concat()
    }

    /// A stored page of some words, with a body that its checksum names.
    fn page(body: &[u8], main: &[u8], kind: u8) -> Vec<u8> {
        let inline = |raw: &[u8]| [&[0], raw].concat();
        let (body, main, verdict) = (inline(body), inline(main), judged(kind, b""));
        let text = inline(&[&[SCHEME_TEXT_2], &[9; 16][..]].concat());
        let mut columns = vec![
            (BODY as u8, &body[..]),
            (STATUS as u8, b"\x00200"),
            (TITLE as u8, b"\0a title"),
            (MAIN as u8, &main),
            (CHECKSUM as u8, &body),
            (TEXT_CHECKSUM as u8, &text),
            (VERDICT as u8, &verdict),
        ];
        encode(CAPTURE_STORED, &mut columns, 1, 0)
    }

    fn taken(records: &[(i64, &[u8])], placed: &[(i64, bool, &[u8])]) -> Option<Columns> {
        let mut columns = Columns::default();
        let row = Row { row_key: b"row", records: records.to_vec(), placed: placed.to_vec() };
        columns.add_row(&rules(), &mut Words::default(), 3, &row).map(|()| columns)
    }

    fn times(column: &[u8]) -> Vec<i64> {
        column.as_chunks::<8>().0.iter().map(|eight| i64::from_le_bytes(*eight)).collect()
    }

    #[test]
    fn captures_with_the_same_bytes_are_one_version_as_old_as_the_first() {
        let (one, other) = (page(b"one", b"a b c d e f", 5), page(b"other", b"a b c", 0));
        let found = taken(&[(9, &other), (5, &one), (3, &one)], &[]).expect("a plain row");
        assert_eq!(times(&found.timestamps), [3, 9]);
        assert_eq!(times(&found.column_times), [5, 9]);
        assert_eq!(found.equal_by, [BY_TEXT, BY_TITLE]);
        assert_eq!(found.named, [(1, b"other".to_vec(), 7)]);
        assert_eq!(times(&found.positions), [3, 3]);
    }

    #[test]
    fn what_an_earlier_sweep_wrote_belongs_to_a_version_or_is_stale() {
        let one = page(b"one", b"a", 5);
        let found = taken(&[(5, &one), (3, &one)], &[(5, false, b"\0c"), (3, true, b"\0p"), (1, true, b"\0q")]);
        let found = found.expect("a plain row");
        assert_ne!(times(&found.placed), [0]);
        assert_eq!(found.stale, [(b"row".to_vec(), 3)], "what has no capture is not of this row's versions");
        assert_eq!(found.equal_by, [BY_BODY]);
    }

    #[test]
    fn visits_belong_to_the_version_that_they_confirm() {
        let one = page(b"one", b"a b c d e f", 5);
        let checksum = [(CHECKSUM as u8, &b"\0one"[..])];
        let later = encode(CAPTURE_NOT_MODIFIED, &mut checksum.to_vec(), 0, 3);
        let status = (STATUS as u8, &b"\x00200"[..]);
        let visit = encode(crate::format::CAPTURE_CONFIRMED, &mut vec![status, checksum[0]], 0, 3);
        let found = taken(&[(9, &later), (5, &visit), (3, &one)], &[]).expect("a plain row");
        assert_eq!((times(&found.timestamps), times(&found.column_times)), (vec![3], vec![3]));
    }

    #[test]
    fn odd_rows_are_left_to_the_caller() {
        let one = page(b"one", b"a", 5);
        let redirect = encode(CAPTURE_STORED, &mut vec![(STATUS as u8, b"\x00301")], 0, 0);
        let lost = encode(CAPTURE_NOT_MODIFIED, &mut vec![(STATUS as u8, b"\x00200")], 0, 1);
        let rejected = encode(CAPTURE_REJECTED, &mut vec![(BODY as u8, b"\0b")], 0, 0);
        let worded = encode(CAPTURE_STORED, &mut vec![(STATUS as u8, b"\0ok")], 0, 0);
        for odd in [&redirect[..], &lost, &rejected, &worded, b"\x09", b""] {
            assert!(taken(&[(9, odd), (3, &one)], &[]).is_none(), "{odd:?}");
        }
        assert!(taken(&[], &[]).is_some());
    }

    #[test]
    fn blank_pages_are_no_versions() {
        assert!(taken(&[(3, &page(b" \n", b"", 5))], &[]).expect("plain").equal_by.is_empty());
    }
}
