//! What a sweep keeps of a row whose captures no policy hides and whose values stand in its records.
//!
//! A row of any other shape ends the call: `sweep.pages` takes that row, and the next call goes on after it.

use docstore_kernel::words::Words;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::reads::{number, take, varint, ABSENT, ARRIVED, CONFIRMS, REF, SHA1, SHA1_BYTES, STORED_CAPTURE as STORED};
use crate::records::INLINE;

/// Kinds of captures.
const NOT_MODIFIED: u8 = 2;
const REJECTED: u8 = 3;
/// Numbers of columns, and how many there are.
pub const BODY: usize = 1;
pub const STATUS: usize = 2;
pub const TITLE: usize = 11;
pub const MAIN: usize = 12;
const CANONICAL: usize = 17;
const ENTRIES: usize = 19;
pub const CHECKSUM: usize = 20;
pub const TEXT_CHECKSUM: usize = 21;
const SKETCH: usize = 23;
pub const VERDICT: usize = 24;
pub const FIELDS: usize = 26;
const TEXT_CHECKSUM_BYTES: usize = 17;
const LEAST_WORD_BYTES: usize = 3;
const IDENTITY_BYTES: usize = 16;
const BY_BODY: u8 = 0;
const BY_TITLE: u8 = 1;
const BY_TEXT: u8 = 2;
/// Rows that are looked at before the first look at what they are; then twice as many.
const FIRST_ROWS: usize = 8;
const MOST_ROWS: usize = 512;

/// What constants of Python say; see `sweep.pages`.
#[derive(FromPyObject)]
struct Rules {
    redirects: Vec<u64>,
    blank: String,
    /// Numbers of kinds of verdicts.
    same_page: Vec<u64>,
    text_scheme: u8,
    sketch_scheme: u8,
    bins: usize,
    least_words: u64,
    least_title_words: u64,
    long_text_bytes: u64,
}

/// Columns of versions as bytes; of values of different lengths, the values and their lengths.
#[derive(Default)]
struct Columns {
    positions: Vec<u8>,
    timestamps: Vec<u8>,
    column_times: Vec<u8>,
    placed: Vec<u8>,
    identity: Vec<u8>,
    bodies: Vec<u8>,
    equal_by: Vec<u8>,
    flags: Vec<u8>,
    shingle_counts: Vec<u8>,
    sketches: Vec<u8>,
    row_keys: (Vec<u8>, Vec<u8>),
    body_values: (Vec<u8>, Vec<u8>),
    texts: (Vec<u8>, Vec<u8>),
    titles: (Vec<u8>, Vec<u8>),
    state: Vec<u8>,
}

fn push(blob: &mut (Vec<u8>, Vec<u8>), value: &[u8]) {
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

/// A capture record: its kind, columns by number, an absent one empty, and the capture that it confirms.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    timestamp: i64,
    pub kind: u8,
    pub columns: [&'a [u8]; FIELDS],
    pub confirms: i64,
}

impl<'a> Record<'a> {
    /// None for a record that is damaged or has a field that is not known here.
    pub fn parse(timestamp: i64, source: &'a [u8]) -> Option<Self> {
        let kind = *source.first().filter(|kind| **kind <= REJECTED)?;
        let mut found = Self { timestamp, kind, columns: [&[]; FIELDS], confirms: 0 };
        let mut at = 1;
        while let Some(&field) = source.get(at) {
            at += 1;
            let bytes = varint(source, &mut at)? as usize;
            let content = take(source, &mut at, bytes)?;
            match field {
                CONFIRMS => found.confirms = i64::try_from(varint(content, &mut 0)?).ok()?,
                ARRIVED => drop(varint(content, &mut 0)?),
                SHA1 if content.len() == SHA1_BYTES => {}
                SHA1 => return None,
                column => {
                    let is_value = column > 0 && !content.is_empty();
                    *found.columns.get_mut(usize::from(column)).filter(|_| is_value)? = content;
                }
            }
        }
        Some(found)
    }

    /// What tells its body from others.
    fn body_identity(&self) -> &'a [u8] {
        self.columns[CHECKSUM]
    }

    /// Show what a visit shows of the capture that it confirms; gives whether its verdict is that of this capture.
    ///
    /// `storage.captures` defines it.
    fn confirm(&mut self, source: &Self) -> bool {
        let of_source = |column| matches!(column, BODY | TITLE..=ENTRIES | TEXT_CHECKSUM..=SKETCH);
        let lacks_verdict = self.columns[VERDICT].is_empty();
        for (column, value) in self.columns.iter_mut().enumerate() {
            if value.is_empty() && (self.kind == NOT_MODIFIED || of_source(column)) {
                *value = source.columns[column];
            }
        }
        self.kind == NOT_MODIFIED && lacks_verdict
    }
}

/// A value that stands in its cell, empty if there is no cell; None for any other.
pub fn inline(cell: &[u8]) -> Option<&[u8]> {
    match cell.first() {
        None => Some(cell),
        Some(&INLINE) => Some(&cell[1..]),
        _ => None,
    }
}

/// Whether white space alone is in a body.
fn is_blank(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    body.iter().all(|byte| matches!(byte, b' ' | b'\t'..=b'\r'))
}

/// A string or bytes of a message.
fn text<'a>(source: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let tag = number(source, at, 1)?;
    let bytes = match tag {
        0xa0..=0xbf => tag & 0x1f,
        0xc4..=0xc6 => number(source, at, 1 << (tag - 0xc4))?,
        0xd9..=0xdb => number(source, at, 1 << (tag - 0xd9))?,
        _ => return None,
    };
    take(source, at, bytes as usize)
}

/// Number of the kind, row key, time and reason of a verdict.
type Verdict<'a> = (u64, &'a [u8], u64, &'a [u8]);

/// None for a verdict that is damaged anywhere: Python has to report it.
fn verdict(source: &[u8]) -> Option<Verdict<'_>> {
    let at = &mut 0;
    if number(source, at, 1)? != 0x9b {
        return None;
    }
    let (kind, of_row_key, of_timestamp) = (small(source, at)?, text(source, at)?, whole(source, at)?);
    similarity(source, at)?;
    let reason = text(source, at)?;
    let (_contains, _candidates, _verified) = (text(source, at)?, whole(source, at)?, whole(source, at)?);
    let _previous = small(source, at)?;
    similarity(source, at)?;
    let _stored = small(source, at)?;
    (*at == source.len()).then_some((kind, of_row_key, of_timestamp, reason))
}

/// A number below 128 of a message.
fn small(source: &[u8], at: &mut usize) -> Option<u64> {
    number(source, at, 1).filter(|number| *number <= 0x7f)
}

/// A whole number of a message, which is not negative.
fn whole(source: &[u8], at: &mut usize) -> Option<u64> {
    match number(source, at, 1)? {
        small @ 0..=0x7f => Some(small),
        tag @ 0xcc..=0xcf => number(source, at, 1 << (tag - 0xcc)),
        _ => None,
    }
}

/// Pass a similarity in a message.
fn similarity(source: &[u8], at: &mut usize) -> Option<()> {
    match number(source, at, 1)? {
        0 | 1 => Some(()),
        0xcb => take(source, at, 8).map(drop),
        _ => None,
    }
}

/// The distinctive words of a title, one a line, ascending; None if a word may be a number of another script.
fn distinctive(title: &[u8], words: &mut Words) -> Option<Vec<u8>> {
    let title = std::str::from_utf8(title).ok()?;
    words.cut(title.as_bytes());
    let mut chosen: Vec<&[u8]> = Vec::new();
    for word in words.joined().split(|byte| *byte == b' ').filter(|word| word.len() >= LEAST_WORD_BYTES) {
        if word.iter().all(u8::is_ascii_digit) {
            continue;
        }
        if !word.is_ascii() && std::str::from_utf8(word).ok()?.chars().all(char::is_numeric) {
            return None;
        }
        chosen.push(word);
    }
    chosen.sort_unstable();
    chosen.dedup();
    Some(chosen.join(&b"\n"[..]))
}

/// Words of a text, or so many as are enough if it is long; None if it is not here.
fn word_count(main: &[u8], rules: &Rules, words: &mut Words) -> Option<u64> {
    let mut at = 1;
    if main.first() == Some(&REF) && varint(main, &mut at)? > rules.long_text_bytes {
        return Some(rules.least_words);
    }
    words.cut(std::str::from_utf8(inline(main)?).ok()?.as_bytes());
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
        let good =
            status / 100 == 2 && text_checksum.len() == TEXT_CHECKSUM_BYTES && text_checksum[0] == rules.text_scheme;
        let mut at = 1 + rules.bins / 2;
        let shingle_count = if sketch.is_empty() { 0 } else { varint(sketch, &mut at)? };
        let sketched = sketch.first() == Some(&rules.sketch_scheme);
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
                (BY_TEXT, digest(&[b"n", list, text_checksum, &distinctive(title, words)?]))
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
            sketch: if sketched { &sketch[1..=rules.bins / 2] } else { &[] },
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
struct Row<'a> {
    row_key: &'a [u8],
    records: Vec<(i64, &'a [u8])>,
    placed: Vec<(i64, bool, &'a [u8])>,
}

impl<'a> Row<'a> {
    /// Its captures as they are shown, newest first, and whether the verdict of each is that of a capture confirmed
    /// without a body.  None if only `storage.captures` can say what is shown.
    fn captures(&self) -> Option<Vec<(Record<'a>, i64, bool)>> {
        let parse = |(time, value): &(i64, &'a [u8])| Record::parse(*time, value);
        let records = self.records.iter().map(parse).collect::<Option<Vec<_>>>()?;
        let mut shown = Vec::with_capacity(records.len());
        for (place, record) in records.iter().enumerate() {
            let (mut capture, mut source, mut is_followed) = (*record, record.timestamp, false);
            if record.kind == REJECTED && !record.columns[BODY].is_empty() {
                return None;
            } else if record.kind != STORED && record.kind != REJECTED {
                let confirmed = records[place + 1..].iter().find(|other| other.timestamp == record.confirms)?;
                if confirmed.kind != STORED || confirmed.body_identity() != record.body_identity() {
                    return None;
                }
                (is_followed, source) = (capture.confirm(confirmed), confirmed.timestamp);
            }
            shown.push((capture, source, is_followed));
        }
        Some(shown)
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
                encoded => Some(verdict(encoded)?),
            };
            let shown = (checksum, status / 100);
            if previous.as_ref() != Some(&shown) {
                previous = Some(shown);
                let says_blank = |(.., reason): Verdict<'_>| !is_followed && reason == rules.blank.as_bytes();
                let blank = match columns[BODY][0] {
                    INLINE => is_blank(&columns[BODY][1..]),
                    REF | ABSENT => judged.is_some_and(says_blank),
                    _ => return None,
                };
                is_version = !blank && !columns[TEXT_CHECKSUM].is_empty();
                if is_version {
                    versions.push(Version::of(rules, words, capture, status, checksum)?);
                }
            }
            if let Some(version) = versions.last_mut().filter(|_| is_version) {
                version.column_time = version.column_time.max(*source);
                let same_page = judged.filter(|(kind, ..)| rules.same_page.contains(kind));
                version.named.extend(same_page.map(|(_, row_key, timestamp, _)| (row_key, timestamp)));
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
    /// Add a version of a row.
    fn add(&mut self, rules: &Rules, (position, row_key): (usize, &[u8]), version: &Version<'_>, placed: u64) {
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
            self.sketches.resize(self.sketches.len() + rules.bins, 0);
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

/// A cell of a row: its time, whether a sweep has written it and as what, and its value.
type OwnCell = (i64, Option<bool>, PyBackedBytes);

/// The cells of a scanned row that count here: capture records, and what an earlier sweep has written.
fn cells_of(row: &Bound<'_, PyAny>, names: &Names<'_>) -> PyResult<(PyBackedBytes, Vec<OwnCell>)> {
    let cells = row.get_item(1)?.cast_into::<PyList>()?;
    let mut found = Vec::with_capacity(cells.len());
    for cell in &cells {
        let cell = cell.cast_into::<PyTuple>()?;
        let family = cell.get_item(0)?;
        let placed = if family.eq(&names.0)? {
            None
        } else {
            let qualifier = cell.get_item(1)?;
            let mut columns = [&names.1, &names.2].into_iter().enumerate();
            let is_column = |(_, (of, name)): &(usize, &(Bound<'_, PyAny>, Bound<'_, PyAny>))| {
                Ok::<_, PyErr>(family.eq(of)? && qualifier.eq(name)?)
            };
            match columns.find_map(|column| is_column(&column).map(|is| is.then_some(column.0 == 1)).transpose()) {
                Some(is_page) => Some(is_page?),
                None => continue,
            }
        };
        found.push((cell.get_item(2)?.extract()?, placed, cell.get_item(3)?.extract()?));
    }
    Ok((row.get_item(0)?.extract()?, found))
}

/// The family of captures, and the columns of the cluster and the canonical page.
type Names<'py> = (Bound<'py, PyAny>, (Bound<'py, PyAny>, Bound<'py, PyAny>), (Bound<'py, PyAny>, Bound<'py, PyAny>));

/// The versions of rows from one on, up to a row of another shape.
///
/// Gives how many rows were taken; positions of versions in them, and their columns as bytes; then named pages and
/// canonical links, each with the number of its version; and row keys and times of columns without a version.
#[pyfunction]
fn sweep_versions<'py>(
    python: Python<'py>,
    rows: &Bound<'py, PyList>,
    first: usize,
    names: Names<'py>,
    rules: Rules,
) -> PyResult<Bound<'py, PyTuple>> {
    let mut columns = Columns::default();
    let (mut named, mut canonical, mut stale) = (Vec::new(), Vec::new(), Vec::new());
    let (mut taken, mut most) = (0, FIRST_ROWS);
    let mut words = Words::default();
    loop {
        let mut part: Vec<(PyBackedBytes, Vec<OwnCell>)> = Vec::with_capacity(most);
        for place in first + taken..rows.len().min(first + taken + most) {
            part.push(cells_of(&rows.get_item(place)?, &names)?);
        }
        let before = taken;
        crate::detached(python, || {
            for (row_key, cells) in &part {
                let records = cells.iter().filter(|cell| cell.1.is_none());
                let row = Row {
                    row_key,
                    records: records.map(|(time, _, value)| (*time, &value[..])).collect(),
                    placed: cells.iter().filter_map(|(time, is, value)| Some((*time, (*is)?, &value[..]))).collect(),
                };
                let Some((versions, others)) = row.versions(&rules, &mut words) else { break };
                for (version, placed) in versions {
                    let number = columns.equal_by.len();
                    columns.add(&rules, (taken, row.row_key), &version, placed);
                    named.extend(version.named.iter().map(|(row_key, at)| (number, row_key.to_vec(), *at)));
                    if !version.canonical.is_empty() {
                        canonical.push((number, version.canonical.to_vec()));
                    }
                }
                stale.extend(others.into_iter().map(|time| (row_key.to_vec(), time)));
                taken += 1;
            }
        })?;
        if taken - before < most {
            break;
        }
        most = MOST_ROWS.min(2 * most);
    }
    let bytes = |column: &[u8]| PyBytes::new(python, column);
    let parts = [
        bytes(&columns.positions),
        bytes(&columns.timestamps),
        bytes(&columns.column_times),
        bytes(&columns.placed),
        bytes(&columns.identity),
        bytes(&columns.bodies),
        bytes(&columns.equal_by),
        bytes(&columns.flags),
        bytes(&columns.shingle_counts),
        bytes(&columns.sketches),
        bytes(&columns.state),
    ];
    let blobs = [&columns.row_keys, &columns.body_values, &columns.texts, &columns.titles]
        .map(|(data, sizes)| (bytes(data), bytes(sizes)));
    let named: Vec<_> = named.iter().map(|(number, row_key, at)| (*number, bytes(row_key), *at)).collect();
    let canonical: Vec<_> = canonical.iter().map(|(number, link)| (*number, bytes(link))).collect();
    let stale: Vec<_> = stale.iter().map(|(row_key, at)| (bytes(row_key), *at)).collect();
    (taken, PyTuple::new(python, parts)?, blobs, named, canonical, stale).into_pyobject(python)
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(sweep_versions, module)?)
}
