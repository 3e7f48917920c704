//! What rows of pages refer to, counted over many rows: for a compaction.
//!
//! A row is counted here only if no policy hides a part of it.  Of any other row the caller says what there is.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::capture::{number_of, Record, BODY};
use crate::format::{CAPTURE_FAMILY, VALUE_REF};
use crate::values::{parse, place_of, ref_of, Place, Value};

/// A cell of a row.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    pub family: &'a str,
    pub qualifier: &'a [u8],
    pub timestamp: i64,
    pub value: &'a [u8],
}

/// The bytes of a segment's records that are referred to, those of a base once, and the first and the last row that
/// refers to one that is no base.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Life {
    pub live_bytes: u64,
    pub first: Vec<u8>,
    pub last: Vec<u8>,
}

/// Who refers to a base.
#[derive(Clone, Debug, Default)]
struct Users {
    first: Option<Vec<u8>>,
    has_more: bool,
}

/// What may hide cells of a row of which no policy hides captures or bodies.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Families whose cells are kept as long as the capture record of their time.
    pub of_captures: Vec<String>,
    /// Families of which older versions may be hidden.
    pub counted: Vec<String>,
    /// Families of which any cell may be hidden, because it is too old.
    pub aging: Vec<String>,
}

impl Rules {
    /// Whether some cells of a row may be hidden, by what its cells say alone.
    pub fn may_hide(&self, cells: &[Cell<'_>]) -> bool {
        let (records, others): (Vec<&Cell<'_>>, Vec<_>) = cells.iter().partition(|cell| cell.family == CAPTURE_FAMILY);
        let mut last = None;
        others.into_iter().any(|cell| {
            let is_of = |families: &[String]| families.iter().any(|family| family == cell.family);
            let column = Some((cell.family, cell.qualifier));
            let is_older = last == column;
            last = column;
            (is_older && is_of(&self.counted))
                || is_of(&self.aging)
                || (is_of(&self.of_captures) && records.iter().all(|record| record.timestamp != cell.timestamp))
        })
    }
}

/// See above.
#[derive(Debug, Default)]
pub struct Survey {
    rules: Rules,
    /// By cell value.
    bases: HashMap<Vec<u8>, Users>,
    /// By number.
    pub segments: BTreeMap<u64, Life>,
    pub rows: u64,
    /// Records that are referred to, and their raw bytes: of each row each once.
    pub values: u64,
    pub raw_bytes: u64,
    /// Raw bytes of all bodies.
    pub body_bytes: u64,
}

impl Survey {
    /// `bases` are their cell values.
    pub fn new(bases: impl IntoIterator<Item = Vec<u8>>, rules: Rules) -> Self {
        let bases = bases.into_iter().map(|base| (base, Users::default())).collect();
        Self { rules, bases, ..Self::default() }
    }

    /// Count a row, with its cells in their order; whether that was possible: the caller counts an odd one.
    ///
    /// A row is odd if a record or a value is damaged, and if one of its cells may be hidden.
    pub fn add_row(&mut self, row_key: &[u8], cells: &[Cell<'_>]) -> bool {
        self.values_of(cells).is_some_and(|values| self.add(row_key, &values).is_ok())
    }

    /// Bodies and refs of a row: whether it is a body, and the cell value.
    fn values_of<'a>(&self, cells: &[Cell<'a>]) -> Option<Vec<(bool, &'a [u8])>> {
        if self.rules.may_hide(cells) {
            return None;
        }
        let mut values = Vec::with_capacity(4 * cells.len());
        let (records, others): (Vec<&Cell<'a>>, Vec<_>) = cells.iter().partition(|cell| cell.family == CAPTURE_FAMILY);
        for cell in records {
            let columns = Record::parse(cell.timestamp, cell.value)?.columns;
            let stored = columns.into_iter().enumerate().filter(|(_, value)| !value.is_empty());
            values.extend(stored.map(|(number, value)| (number == BODY, value)));
        }
        for cell in others {
            values.push((number_of(cell.family, cell.qualifier) == Some(BODY as u8), cell.value));
        }
        values.retain(|(is_body, value)| *is_body || value.first() == Some(&VALUE_REF));
        Some(values)
    }

    /// Count bodies and refs of a row, or nothing of it: then the first value that is damaged.
    pub fn add<'a>(&mut self, row_key: &[u8], values: &[(bool, &'a [u8])]) -> Result<(), &'a [u8]> {
        let mut body_bytes = 0;
        let mut refs: Vec<(&[u8], u64, Place)> = Vec::with_capacity(values.len());
        for (is_body, value) in values {
            let raw_bytes = match parse(value).ok_or(*value)? {
                Value::Ref(raw_bytes, reference) => {
                    refs.push((value, raw_bytes, place_of(reference).ok_or(*value)?));
                    raw_bytes
                }
                Value::Inline(content) => content.len() as u64,
                Value::Absent(_) => 0,
            };
            body_bytes += if *is_body { raw_bytes } else { 0 };
        }
        refs.sort_unstable();
        refs.dedup();
        self.rows += 1;
        self.body_bytes += body_bytes;
        for (value, raw_bytes, (segment, _, length)) in refs {
            self.values += 1;
            self.raw_bytes += raw_bytes;
            let life = self.segments.entry(segment).or_default();
            let Some(users) = self.bases.get_mut(value) else {
                life.live_bytes += length;
                if life.last.is_empty() || row_key < &life.first[..] {
                    life.first = row_key.to_vec();
                }
                if row_key > &life.last[..] {
                    life.last = row_key.to_vec();
                }
                continue;
            };
            match &users.first {
                None => {
                    users.first = Some(row_key.to_vec());
                    life.live_bytes += length;
                }
                Some(first) => users.has_more |= first != row_key,
            }
        }
        Ok(())
    }

    /// Cell values of bases that no row refers to.
    pub fn unused_bases(&self) -> impl Iterator<Item = &[u8]> {
        self.bases.iter().filter(|(_, users)| users.first.is_none()).map(|(base, _)| &base[..])
    }

    /// Cell values of bases that several rows refer to.
    pub fn shared_bases(&self) -> impl Iterator<Item = &[u8]> {
        self.bases.iter().filter(|(_, users)| users.has_more).map(|(base, _)| &base[..])
    }
}

/// Refs of capture records into some segments, with the number of their column: newest record first, each once.
///
/// None if a record or a ref is damaged.
pub fn refs_into<'a>(segments: &HashSet<u64>, cells: &[Cell<'a>]) -> Option<Vec<(u8, &'a [u8])>> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for cell in cells.iter().filter(|cell| cell.family == CAPTURE_FAMILY) {
        let columns = Record::parse(cell.timestamp, cell.value)?.columns;
        for (number, value) in columns.into_iter().enumerate().filter(|(_, value)| value.first() == Some(&VALUE_REF)) {
            let (_, (segment, ..)) = ref_of(value)?;
            if segments.contains(&segment) && seen.insert((number, value)) {
                found.push((number as u8, value));
            }
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{encode, CHECKSUM, MAIN};
    use crate::format::CAPTURE_STORED;
    use crate::values::{encode_absent, encode_ref, push_ref};

    fn value(raw_bytes: u64, place: Place) -> Vec<u8> {
        let mut reference = Vec::new();
        push_ref(&mut reference, place);
        encode_ref(raw_bytes, &reference)
    }

    fn capture(columns: &[(usize, &[u8])]) -> Vec<u8> {
        let mut columns: Vec<_> = columns.iter().map(|(number, value)| (*number as u8, *value)).collect();
        encode(CAPTURE_STORED, &mut columns, 0, 0)
    }

    fn cell<'a>(family: &'a str, timestamp: i64, value: &'a [u8]) -> Cell<'a> {
        Cell { family, qualifier: b"", timestamp, value }
    }

    fn life(live_bytes: u64, first: &[u8], last: &[u8]) -> Life {
        Life { live_bytes, first: first.to_vec(), last: last.to_vec() }
    }

    #[test]
    fn bytes_are_counted_by_segment_and_a_record_of_several_captures_once() {
        let (body, text, long) = (value(900, (1, 8, 100)), value(700, (2, 8, 50)), value(600, (2, 58, 7)));
        let first = capture(&[(BODY, &body), (MAIN, &text), (CHECKSUM, b"\0sum")]);
        let mut survey = Survey::new([], Rules::default());
        let note = cell("note", 9, &long);
        assert!(survey.add_row(b"b", &[cell(CAPTURE_FAMILY, 2, &first), cell(CAPTURE_FAMILY, 1, &first), note]));
        assert!(survey.add_row(b"a", &[cell(CAPTURE_FAMILY, 1, &capture(&[(BODY, b"\0inline")]))]));
        assert!(survey.add_row(b"c", &[cell(CAPTURE_FAMILY, 1, &capture(&[(BODY, &encode_absent(9)), (MAIN, &text)]))]));
        assert_eq!((survey.rows, survey.values, survey.raw_bytes), (3, 4, 2900));
        assert_eq!(survey.body_bytes, 2 * 900 + 6, "an absent body has no bytes");
        assert_eq!(survey.segments[&1], life(100, b"b", b"b"));
        assert_eq!(survey.segments[&2], life(107, b"b", b"c"));
    }

    #[test]
    fn a_base_counts_once_belongs_to_no_row_and_is_shared_by_two() {
        let [one, two, three] = [8, 20, 30].map(|offset| value(900, (1, offset, 10)));
        let mut survey = Survey::new([one.clone(), two.clone(), three.clone()], Rules::default());
        let (shared, own) = (capture(&[(BODY, &one)]), capture(&[(BODY, &two)]));
        for (row_key, record) in [(b"a", &shared), (b"b", &shared), (b"c", &own)] {
            let cells = [cell(CAPTURE_FAMILY, 2, record), cell(CAPTURE_FAMILY, 1, record)];
            assert!(survey.add_row(row_key, &cells));
        }
        assert_eq!(survey.segments[&1], life(20, b"", b""));
        assert_eq!(survey.shared_bases().collect::<Vec<_>>(), [&one[..]]);
        assert_eq!(survey.unused_bases().collect::<Vec<_>>(), [&three[..]]);
    }

    #[test]
    fn an_odd_row_leaves_nothing_behind() {
        let names = |name: &str| vec![name.to_string()];
        let rules = Rules { of_captures: names("dedup"), counted: names("anchor"), aging: names("seen") };
        let mut survey = Survey::new([], rules);
        let whole = value(900, (1, 8, 100));
        let record = capture(&[(BODY, &whole)]);
        let sound = cell(CAPTURE_FAMILY, 1, &record);
        let cut = capture(&[(MAIN, &whole[..whole.len() - 1])]);
        let odd_body = capture(&[(BODY, b"\x07odd")]);
        for odd in [
            &[cell(CAPTURE_FAMILY, 2, &record[..record.len() - 1])][..],
            &[cell(CAPTURE_FAMILY, 2, &cut)],
            &[cell(CAPTURE_FAMILY, 2, &odd_body)],
            &[cell("dedup", 2, b"\0outlived")],
            &[cell("links", 2, b"\x01")],
            &[cell("anchor", 3, b"\0newer"), cell("anchor", 2, b"\0older")],
            &[cell("seen", 2, b"\0once")],
        ] {
            assert!(!survey.add_row(b"a", &[&[sound], odd].concat()), "{odd:?}");
        }
        assert_eq!((survey.rows, survey.values, survey.body_bytes, survey.segments.len()), (0, 0, 0, 0));
        let other = Cell { qualifier: b"other", ..cell("anchor", 2, b"\0of another page") };
        let plain = [cell("dedup", 1, b"\0of a capture"), cell("links", 2, b"\x07"), cell("anchor", 2, b"\0"), other];
        assert!(survey.add_row(b"a", &[&[sound][..], &plain].concat()));
        assert_eq!(survey.add(b"a", &[(false, &whole), (false, b"\x01")]), Err(&b"\x01"[..]));
        assert_eq!(survey.values, 1);
    }

    #[test]
    fn refs_into_segments_come_with_their_columns_each_once() {
        let (body, text, other) = (value(900, (1, 8, 100)), value(700, (2, 8, 50)), value(600, (3, 8, 7)));
        let newer = capture(&[(MAIN, &text), (BODY, &body)]);
        let older = capture(&[(BODY, &body), (MAIN, &other), (CHECKSUM, b"\0sum")]);
        let cells = [cell(CAPTURE_FAMILY, 2, &newer), cell(CAPTURE_FAMILY, 1, &older), cell("links", 1, &body)];
        let found = refs_into(&HashSet::from([1, 2]), &cells);
        assert_eq!(found, Some(vec![(BODY as u8, &body[..]), (MAIN as u8, &text[..])]));
        let cut = cell(CAPTURE_FAMILY, 3, &older[..older.len() - 1]);
        assert_eq!(refs_into(&HashSet::from([1]), &[cut]), None);
    }
}
