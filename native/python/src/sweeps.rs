//! What a sweep keeps of a page, for rows with one capture that stands in its record.
//!
//! A row of any other shape ends the call: `sweep.pages` takes that row, and the next call goes on after it.

use docstore_kernel::words::Words;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::reads::{number, take, varint};

const STORED: u8 = 0;
const INLINE: u8 = 0;
const REF: u8 = 1;
const ABSENT: u8 = 2;
const BODY: usize = 1;
const STATUS: usize = 2;
const TITLE: usize = 11;
const MAIN: usize = 12;
const CANONICAL: usize = 17;
const ENTRIES: usize = 19;
const CHECKSUM: usize = 20;
const TEXT_CHECKSUM: usize = 21;
const SKETCH: usize = 23;
const VERDICT: usize = 24;
const FIELDS: usize = 26;
/// Fields from here on are no columns; those up to here may follow them.
const NO_COLUMNS: std::ops::RangeInclusive<u8> = 64..=67;
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
    /// Schemes of body checksums that decide alone.
    deciding: Vec<u8>,
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

/// The columns of a record of kind STORED, by number, an absent one empty; None for any other record.
fn columns_of(source: &[u8]) -> Option<[&[u8]; FIELDS]> {
    let mut found: [&[u8]; FIELDS] = [&[]; FIELDS];
    if *source.first()? != STORED {
        return None;
    }
    let mut at = 1;
    while let Some(&field) = source.get(at) {
        at += 1;
        let bytes = varint(source, &mut at)? as usize;
        let content = take(source, &mut at, bytes)?;
        match usize::from(field) {
            column @ 1..FIELDS => found[column] = content,
            _ if NO_COLUMNS.contains(&field) => {}
            _ => return None,
        }
    }
    Some(found)
}

/// A value that stands in its cell, empty if there is no cell; None for any other.
fn inline(cell: &[u8]) -> Option<&[u8]> {
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

fn verdict(source: &[u8]) -> Option<Verdict<'_>> {
    let mut at = 0;
    if !(0x95..=0x9f).contains(&number(source, &mut at, 1)?) {
        return None;
    }
    let (kind, of_row_key) = (number(source, &mut at, 1)?, text(source, &mut at)?);
    let of_timestamp = match number(source, &mut at, 1)? {
        small @ 0..=0x7f => small,
        tag @ 0xcc..=0xcf => number(source, &mut at, 1 << (tag - 0xcc))?,
        _ => return None,
    };
    match number(source, &mut at, 1)? {
        0 | 1 => {}
        0xcb => drop(take(source, &mut at, 8)?),
        _ => return None,
    }
    Some((kind, of_row_key, of_timestamp, text(source, &mut at)?))
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

/// The page that a verdict names, by row key and time, and a canonical link.
type Links = (Option<(Vec<u8>, u64)>, Vec<u8>);

impl Columns {
    /// Add the version of a row, if it has one; gives the page that its verdict names and its canonical link.
    ///
    /// The outer None is a row of another shape.
    fn add(
        &mut self,
        rules: &Rules,
        words: &mut Words,
        (position, row_key, timestamp): (usize, &[u8], i64),
        source: &[u8],
    ) -> Option<Option<Links>> {
        let columns = columns_of(source)?;
        let status = inline(columns[STATUS])?;
        if status.len() > 9 || !status.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let status = status.iter().fold(0u64, |status, digit| 10 * status + u64::from(digit - b'0'));
        if rules.redirects.contains(&status) {
            return None;
        }
        if columns[BODY].is_empty() || columns[CHECKSUM].is_empty() {
            return Some(None);
        }
        let checksum = inline(columns[CHECKSUM])?;
        if !rules.deciding.contains(checksum.first()?) {
            return None;
        }
        let judged = match inline(columns[VERDICT])? {
            [] => None,
            encoded => Some(verdict(encoded)?),
        };
        let blank = match columns[BODY][0] {
            INLINE => is_blank(&columns[BODY][1..]),
            REF | ABSENT => judged.is_some_and(|(.., reason)| reason == rules.blank.as_bytes()),
            _ => return None,
        };
        if blank || columns[TEXT_CHECKSUM].is_empty() {
            return Some(None);
        }
        let (text_checksum, title) = (inline(columns[TEXT_CHECKSUM])?, inline(columns[TITLE])?);
        let (sketch, canonical) = (inline(columns[SKETCH])?, inline(columns[CANONICAL])?);
        let is_list = !columns[ENTRIES].is_empty();
        let good =
            status / 100 == 2 && text_checksum.len() == TEXT_CHECKSUM_BYTES && text_checksum[0] == rules.text_scheme;
        let mut at = 1 + rules.bins / 2;
        let shingle_count = if sketch.is_empty() { 0 } else { varint(sketch, &mut at)? };
        let sketched = sketch.first() == Some(&rules.sketch_scheme);
        let body = digest(&[format!("b{}:", status / 100).as_bytes(), checksum]);
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
        let same_page = judged.filter(|(kind, ..)| rules.same_page.contains(kind));
        self.positions.extend_from_slice(&(position as i64).to_le_bytes());
        self.timestamps.extend_from_slice(&timestamp.to_le_bytes());
        self.identity.extend_from_slice(&identity);
        self.bodies.extend_from_slice(&body);
        self.equal_by.push(equal_by);
        let flags = [good, sketched, is_list, same_page.is_some()];
        self.flags.extend(flags.map(u8::from));
        self.shingle_counts.extend_from_slice(&(if sketched { shingle_count } else { 0 }).to_le_bytes());
        if sketched {
            let halves = &sketch[1..=rules.bins / 2];
            self.sketches.extend(halves.iter().map(|byte| byte & 0x0f));
            self.sketches.extend(halves.iter().map(|byte| byte >> 4));
        } else {
            self.sketches.resize(self.sketches.len() + rules.bins, 0);
        }
        push(&mut self.row_keys, row_key);
        push(&mut self.body_values, columns[BODY]);
        push(&mut self.texts, columns[MAIN]);
        push(&mut self.titles, title);
        self.state.extend_from_slice(&(row_key.len() as u32).to_be_bytes());
        self.state.extend_from_slice(row_key);
        self.state.extend_from_slice(&timestamp.to_be_bytes());
        self.state.extend_from_slice(&identity);
        let named = same_page.map(|(_, of_row_key, of_timestamp, _)| (of_row_key.to_vec(), of_timestamp));
        Some(Some((named, canonical.to_vec())))
    }
}

/// The versions of rows from one on, up to a row of another shape.
///
/// Gives how many rows were taken; positions of versions in them, and their columns as bytes; then named pages and
/// canonical links, each with the number of its version.
#[pyfunction]
fn sweep_versions<'py>(
    python: Python<'py>,
    rows: &Bound<'py, PyList>,
    first: usize,
    family: &str,
    rules: Rules,
) -> PyResult<Bound<'py, PyTuple>> {
    let mut columns = Columns::default();
    let (mut named, mut canonical) = (Vec::new(), Vec::new());
    let (mut taken, mut most) = (0, FIRST_ROWS);
    let mut words = Words::default();
    loop {
        let mut part: Vec<(PyBackedBytes, i64, PyBackedBytes)> = Vec::with_capacity(most);
        for place in first + taken..rows.len().min(first + taken + most) {
            let row = rows.get_item(place)?;
            let cells = row.get_item(1)?.cast_into::<PyList>()?;
            if cells.len() != 1 {
                break;
            }
            let cell = cells.get_item(0)?;
            if cell.get_item(0)?.cast::<PyString>()?.to_str()? != family {
                break;
            }
            part.push((row.get_item(0)?.extract()?, cell.get_item(2)?.extract()?, cell.get_item(3)?.extract()?));
        }
        let before = taken;
        crate::detached(python, || {
            for (row_key, timestamp, value) in &part {
                let Some(version) = columns.add(&rules, &mut words, (taken, row_key, *timestamp), value) else { break };
                taken += 1;
                if let Some((of_page, link)) = version {
                    let number = columns.equal_by.len() - 1;
                    named.extend(of_page.map(|(row_key, timestamp)| (number, row_key, timestamp)));
                    if !link.is_empty() {
                        canonical.push((number, link));
                    }
                }
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
    (taken, PyTuple::new(python, parts)?, blobs, named, canonical).into_pyobject(python)
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(sweep_versions, module)?)
}
