use super::*;
use crate::capture::{encode, TITLE};
use crate::format::{CAPTURE_STORED, CODEC_STORED};
use crate::record::Records;
use crate::values::{encode_absent, encode_ref, push_ref};
use std::collections::BTreeSet;
use std::convert::Infallible;

const OLD: u64 = 3;
const NEW: u64 = 9;
const START: u64 = 24;
const ALL: (u64, usize) = (u64::MAX, usize::MAX);
const NAME: [u8; 16] = [7; 16];
const OTHER: [u8; 16] = [8; 16];

/// Old segment, what cannot be read, and the reads.
#[derive(Default)]
struct Files {
    bytes: Vec<u8>,
    unreadable: Vec<u64>,
    reads: Vec<Place>,
}

impl Log for Files {
    type Bytes = Vec<u8>;
    type Error = Infallible;

    fn read(&mut self, place: Place) -> Result<Option<Vec<u8>>, Infallible> {
        let (segment, offset, length) = place;
        assert_eq!(segment, OLD);
        self.reads.push(place);
        if self.unreadable.iter().any(|at| (offset..offset + length).contains(at)) {
            return Ok(None);
        }
        let end = self.bytes.len().min((offset + length) as usize);
        Ok(Some(self.bytes[offset as usize..end].to_vec()))
    }
}

impl Files {
    /// Append records one behind the other; gives their cell values.
    fn append(&mut self, records: &[NewRecord<'_>]) -> Vec<Vec<u8>> {
        self.bytes.resize(self.bytes.len().max(START as usize), 0);
        let start = self.bytes.len();
        let mut made = Records::new(OLD, start as u64, records.len());
        let places: Vec<_> = records.iter().map(|record| made.add(*record).expect("it fits")).collect();
        self.bytes.resize(start + made.total_bytes(), 0);
        made.fill(&mut self.bytes[start..]);
        places.into_iter().zip(records).map(|(place, record)| value(record.raw_bytes, place)).collect()
    }
}

fn value(raw_bytes: u32, place: Place) -> Vec<u8> {
    let mut reference = Vec::new();
    push_ref(&mut reference, place);
    encode_ref(u64::from(raw_bytes), &reference)
}

fn record<'a>(row_key: &'a [u8], codec: u8, related: &'a [u8], payload: &'a [u8]) -> NewRecord<'a> {
    let (kind, raw_bytes) = (RECORD_VALUE, 1000);
    NewRecord { kind, row_key, family: "page", qualifier: b"body", timestamp: 5000, codec, related, raw_bytes, payload }
}

fn delta<'a>(row_key: &'a [u8], payload: &'a [u8]) -> NewRecord<'a> {
    record(row_key, CODEC_ZSTD_DELTA, &NAME, payload)
}

fn body<'a>(row_key: &'a [u8], payload: &'a [u8]) -> NewRecord<'a> {
    record(row_key, CODEC_ZSTD_DICTIONARY, &NAME, payload)
}

fn text<'a>(row_key: &'a [u8], payload: &'a [u8]) -> NewRecord<'a> {
    NewRecord { family: "text", qualifier: b"main", ..record(row_key, CODEC_ZSTD_BODY, b"", payload) }
}

fn capture(columns: &[(usize, &[u8])]) -> Vec<u8> {
    let mut columns: Vec<_> = columns.iter().map(|(number, value)| (*number as u8, *value)).collect();
    encode(CAPTURE_STORED, &mut columns, 0, 0)
}

fn cell(timestamp: i64, value: &[u8]) -> Cell<'_> {
    Cell { family: CAPTURE_FAMILY, qualifier: b"", timestamp, value }
}

type Tested = Mover<Vec<u8>, &'static str>;

fn mover(shared: &Shared) -> Tested {
    let of_captures = vec!["dedup".to_owned()];
    let rules = Rules { of_captures, counted: Vec::new(), aging: Vec::new() };
    let mut mover = Mover::new(HashSet::from([OLD]), rules, shared.clone());
    mover.begin(NEW, START);
    mover
}

/// Read a window, with the answers that all bases stay or not, and that this is the dictionary of each scope.
fn read(mover: &mut Tested, files: &mut Files, stays: bool, chosen: &[u8]) -> Wanted {
    let Ok(wanted) = mover.read(files, true);
    let names = wanted.values.iter().map(|_| Vec::new()).collect::<Vec<_>>();
    mover.decide(names, vec![stays; wanted.bases.len()], vec![chosen.to_vec(); wanted.scopes.len()]);
    wanted
}

/// Run to the end; values that are left are settled as this one, or stay.  Gives the old cell values of these.
fn run(mover: &mut Tested, settled: &Option<Settled<&'static str>>) -> Vec<Vec<u8>> {
    let mut left = Vec::new();
    loop {
        match mover.run(ALL.0, ALL.1) {
            Step::Left(found) => left.push(found.old.to_vec()),
            Step::End => return left,
            other => panic!("{other:?}"),
        }
        mover.settle(settled.clone());
    }
}

fn bytes_of(mover: &mut Tested) -> Vec<u8> {
    mover.segment().map_or_else(Vec::new, Segment::take_bytes)
}

/// Old and new values of the rows that are planned.
fn moved(mover: &mut Tested) -> Vec<(Vec<u8>, Vec<u8>)> {
    let planned = mover.take_planned().into_iter().flat_map(|(_, _, changes)| changes);
    planned.flat_map(|(_, moves)| moves).map(|one| (one.old, one.new)).collect()
}

/// What is written in the new segment at the place of a cell value.
fn written<'a>(bytes: &'a [u8], cell_value: &[u8]) -> (Record<'a>, Place) {
    let (_, place) = ref_of(cell_value).expect("a ref");
    let start = (place.1 - START) as usize;
    (record::decode(&bytes[start..start + place.2 as usize], NEW).expect("sound"), place)
}

fn settled(new: &[u8], is_whole_body: bool, is_shared: bool) -> Option<Settled<&'static str>> {
    Some(Settled { new: new.to_vec(), name: NAME.to_vec(), base: None, is_whole_body, is_shared })
}

#[test]
fn a_record_is_copied_if_it_would_become_the_same_again() {
    for (new, stays, chosen, is_copied) in [
        (delta(b"a", b"frame"), true, OTHER, true),
        (delta(b"a", b"frame"), false, OTHER, false),
        (body(b"a", b"frame"), false, NAME, true),
        (body(b"a", b"frame"), true, OTHER, false),
        (record(b"a", CODEC_STORED, b"", b"stored"), true, NAME, false),
        (delta(b"b", b"of another page"), true, NAME, false),
        (text(b"a", b"of a body that is not there"), true, NAME, false),
    ] {
        let (mut files, mut mover) = (Files::default(), mover(&Shared::default()));
        let before = record(b"a", CODEC_STORED, b"", b"x");
        let old = files.append(&[before, new]).remove(1);
        assert!(mover.add_row(b"a", &[cell(1, &capture(&[(BODY, &old)]))]));
        read(&mut mover, &mut files, stays, &chosen);
        let left = run(&mut mover, &None);
        assert_eq!(left.is_empty(), is_copied, "{new:?}");
        let (moves, bytes) = (moved(&mut mover), bytes_of(&mut mover));
        assert_eq!(moves.len(), usize::from(is_copied));
        for (_, value) in moves {
            let (copy, _) = written(&bytes, &value);
            assert_eq!((copy.row_key, copy.codec, copy.related), (new.row_key, new.codec, new.related));
            assert_eq!((copy.timestamp, copy.raw_bytes, copy.payload), (5000, 1000, new.payload));
        }
    }
}

#[test]
fn what_the_caller_is_asked_is_asked_once() {
    let (mut files, mut mover) = (Files::default(), mover(&Shared::default()));
    let keys = [&b"com,example)/ a"[..], b"com,example)/x/1", b"com,example)/x/2", b"com,other)/x/3"];
    let records = keys.map(|row_key| [body(row_key, b"frame"), delta(row_key, b"frame")]);
    let values: Vec<_> = records.iter().map(|two| files.append(two)).collect();
    for (row_key, two) in keys.iter().zip(&values) {
        assert!(mover.add_row(row_key, &[cell(1, &capture(&[(BODY, &two[0]), (TITLE, &two[1])]))]));
    }
    let wanted = read(&mut mover, &mut files, true, &NAME);
    assert_eq!(wanted.values, values.concat());
    assert_eq!(wanted.bases, [NAME]);
    let scope = |row_key: &[u8]| (row_key.to_vec(), "page".to_owned(), b"body".to_vec());
    assert_eq!(wanted.scopes, [scope(keys[0]), scope(keys[1]), scope(keys[3])]);
    assert_eq!(run(&mut mover, &None), Vec::<Vec<u8>>::new());
    let names = mover.end_segment();
    assert_eq!((names.bases, names.dictionaries), (BTreeSet::from([NAME.to_vec()]), BTreeSet::from([NAME.to_vec()])));
    let counts = mover.take_counts();
    assert_eq!((counts.values, counts.raw_bytes), (8, 8000));
    assert_eq!(counts.read_bytes, files.bytes.len() as u64 - START);
    assert_eq!(names.codec_bytes.values().sum::<u64>(), counts.read_bytes);
    let Ok(wanted) = mover.read(&mut files, false);
    assert_eq!(wanted, Wanted::default());
}

#[test]
fn a_damaged_or_unreadable_record_is_never_copied() {
    let (mut files, mut mover) = (Files::default(), mover(&Shared::default()));
    let records = [&b"a"[..], b"b", b"c", b"d"].map(|row_key| delta(row_key, b"a frame"));
    let values = files.append(&records);
    let places: Vec<_> = values.iter().map(|value| ref_of(value).expect("a ref").1).collect();
    let last = (places[1].1 + places[1].2 - 1) as usize;
    files.bytes[last] ^= 1;
    files.unreadable.push(places[2].1 + 3);
    for (new, value) in records.iter().zip(&values) {
        assert!(mover.add_row(new.row_key, &[cell(1, &capture(&[(BODY, value)]))]));
    }
    read(&mut mover, &mut files, true, &NAME);
    let whole = (OLD, START, files.bytes.len() as u64 - START);
    assert_eq!(files.reads, [&[whole][..], &places].concat(), "neighbours are read together, or else alone");
    assert!(matches!(mover.run(ALL.0, ALL.1), Step::Left(Left { record: None, row: 1, cell: 0, .. })));
    assert_eq!(run(&mut mover, &None), [&values[1][..], &values[2]]);
    assert_eq!(moved(&mut mover).into_iter().map(|(old, _)| old).collect::<Vec<_>>(), [&values[0][..], &values[3]]);
}

#[test]
fn a_text_stays_behind_its_body() {
    let stored = record(b"a", CODEC_STORED, b"", b"x");
    let (mut files, mut mover) = (Files::default(), mover(&Shared::default()));
    let values = files.append(&[stored, body(b"a", b"body frame"), text(b"a", b"text")]);
    let sound = capture(&[(MAIN, &values[2]), (BODY, &values[1])]);
    assert!(mover.add_row(b"a", &[cell(1, &sound)]));
    read(&mut mover, &mut files, true, &NAME);
    assert_eq!(run(&mut mover, &None), Vec::<Vec<u8>>::new());
    let (moves, bytes) = (moved(&mut mover), bytes_of(&mut mover));
    let ((_, body_place), (text, text_place)) = (written(&bytes, &moves[0].1), written(&bytes, &moves[1].1));
    assert_eq!(text.body_place(text_place), Some(body_place));
    // The body is encoded again: whole, as a delta, or it is the record of another page.
    let again = record(b"a", CODEC_STORED, b"", b"a longer payload");
    for is_whole_body in [true, false] {
        assert!(mover.add_row(b"a", &[cell(1, &sound)]));
        read(&mut mover, &mut files, true, &OTHER);
        let Step::Left(left) = mover.run(ALL.0, ALL.1) else { panic!("the body is left") };
        assert_eq!((left.column, left.is_after_body, left.body), (BODY as u8, false, None));
        let new = mover.segment().and_then(|segment| segment.write(again)).expect("it fits");
        mover.settle(settled(&new, is_whole_body, false));
        let left = run(&mut mover, &settled(b"\x01other", false, false));
        assert_eq!(left.is_empty(), is_whole_body);
        let (moves, bytes) = (moved(&mut mover), bytes_of(&mut mover));
        if is_whole_body {
            let start = (ref_of(&new).expect("a ref").1 .1 - START) as usize;
            let length = ref_of(&moves[1].1).expect("a ref").1 .2 as usize;
            let body_bytes = bytes.len() - length;
            let text = record::decode(&bytes[body_bytes..], NEW).expect("sound");
            assert_eq!(text.body_place(ref_of(&moves[1].1).expect("a ref").1), ref_of(&new).map(|(_, place)| place));
            assert!(start > 0);
        }
    }
}

#[test]
fn a_shared_record_is_moved_once_for_all_pages_and_tablets() {
    let shared = Shared::default();
    let (mut files, mut one, mut other) = (Files::default(), mover(&shared), mover(&shared));
    let values = files.append(&[delta(b"b", b"frame")]);
    let record = capture(&[(BODY, &values[0])]);
    for row_key in [b"a", b"b"] {
        assert!(one.add_row(row_key, &[cell(2, &record), cell(1, &record)]));
    }
    let Ok(wanted) = one.read(&mut files, true);
    one.decide(vec![NAME.to_vec(); wanted.values.len()], vec![true], Vec::new());
    assert_eq!(run(&mut one, &settled(b"\x01new", false, true)), [&values[0][..]], "once in a row, then not again");
    assert_eq!(one.moved(&values[0]).as_deref(), Some(&b"\x01new"[..]));
    assert!(one.take_planned().iter().all(|(_, _, changes)| changes
        .iter()
        .all(|(_, moves)| { moves.len() == 1 && moves[0].new == b"\x01new" && moves[0].name == NAME })));
    assert_eq!((other.moved(&values[0]), bytes_of(&mut one)), (None, Vec::new()));
    one.share();
    assert_eq!(other.moved(&values[0]).as_deref(), Some(&b"\x01new"[..]));
    assert!(other.add_row(b"b", &[cell(1, &record)]));
    read(&mut other, &mut files, true, &NAME);
    assert_eq!(run(&mut other, &None), Vec::<Vec<u8>>::new());
    assert_eq!(moved(&mut other), [(values[0].clone(), b"\x01new".to_vec())]);
}

#[test]
fn one_record_may_be_the_value_of_two_columns() {
    let (mut files, mut mover) = (Files::default(), mover(&Shared::default()));
    let values = files.append(&[delta(b"a", b"frame")]);
    assert!(mover.add_row(b"a", &[cell(1, &capture(&[(BODY, &values[0]), (MAIN, &values[0])]))]));
    read(&mut mover, &mut files, true, &NAME);
    assert_eq!(run(&mut mover, &None), Vec::<Vec<u8>>::new());
    let planned = mover.take_planned();
    let columns: Vec<_> = planned[0].2[0].1.iter().map(|one| (one.column, one.new.clone())).collect();
    assert_eq!((columns[0].0, columns[1].0), (BODY as u8, MAIN as u8));
    assert_eq!(columns[0].1, columns[1].1);
}

#[test]
fn an_odd_row_leaves_nothing_behind_and_its_kept_cells_are_added() {
    let (mut files, mut mover) = (Files::default(), mover(&Shared::default()));
    let values = files.append(&[delta(b"a", b"frame"), delta(b"a", b"other")]);
    let (first, second) = (capture(&[(BODY, &values[0]), (TITLE, &values[1])]), capture(&[(BODY, b"\0inline")]));
    let later = Cell { family: "dedup", ..cell(3, b"\0outlived its capture") };
    let cut = capture(&[(BODY, &values[0][..values[0].len() - 1])]);
    for odd in [later, cell(2, &first[..first.len() - 1]), cell(2, &cut)] {
        assert!(!mover.add_row(b"a", &[cell(1, &first), odd]));
    }
    assert!(mover.is_done());
    assert_eq!(
        mover.add_kept(b"a", &[cell(1, &first), cell(2, &cut)], &HashSet::new(), false),
        Err(&values[0][..values[0].len() - 1])
    );
    assert_eq!(mover.add_kept(b"a", &[cell(1, &first), cell(2, &second)], &HashSet::from([1, 2]), true), Ok(()));
    assert_eq!(mover.add_kept(b"b", &[], &HashSet::new(), true), Ok(()));
    assert_eq!(mover.add_kept(b"c", &[cell(1, &second)], &HashSet::new(), false), Ok(()));
    read(&mut mover, &mut files, true, &NAME);
    assert_eq!(run(&mut mover, &None), Vec::<Vec<u8>>::new());
    let planned = mover.take_planned();
    let shape: Vec<_> = planned.iter().map(|(row, drops, changes)| (*row, *drops, changes.len())).collect();
    assert_eq!(shape, [(0, true, 2), (1, true, 0)]);
    let [(0, moves), (1, inline)] = &planned[0].2[..] else { panic!("{planned:?}") };
    assert_eq!((&moves[0].new, moves[1].column), (&encode_absent(1000), TITLE as u8));
    assert_eq!(inline[0].new, encode_absent(6));
    assert!(mover.is_done());
}

#[test]
fn a_row_ends_at_a_limit_and_a_window_behind_a_capture() {
    let (mut files, mut mover) = (Files::default(), mover(&Shared::default()));
    let large = vec![1; (WINDOW_BYTES / 2) as usize];
    let values = files.append(&[delta(b"a", &large), delta(b"a", &large), delta(b"a", &large), delta(b"b", b"")]);
    let records = [capture(&[(BODY, &values[0]), (MAIN, &values[1])]), capture(&[(BODY, &values[2])])];
    assert!(mover.add_row(b"a", &[cell(2, &records[0]), cell(1, &records[1])]));
    assert!(mover.add_row(b"b", &[cell(1, &capture(&[(BODY, &values[3])]))]));
    assert_eq!(read(&mut mover, &mut files, true, &NAME).values, values[..2]);
    assert!(matches!(mover.run(START + 1, 1), Step::End));
    assert!(!mover.is_between_rows() && mover.wants_read() && mover.take_planned().is_empty());
    assert_eq!(read(&mut mover, &mut files, true, &NAME).values, values[2..]);
    assert!(matches!(mover.run(START + 1, ALL.1), Step::End));
    assert!(mover.is_between_rows() && !mover.wants_read());
    assert_eq!(moved(&mut mover).len(), 3);
    mover.end_segment();
    assert!(matches!(mover.run(START + 1, ALL.1), Step::Begin));
    mover.begin(NEW + 1, START);
    assert!(matches!(mover.run(START + 1, ALL.1), Step::End));
    assert_eq!(moved(&mut mover).len(), 1);
    assert!(mover.is_done() && bytes_of(&mut mover).len() as u64 + START == mover.length_bytes());
}

#[test]
fn a_long_run_pauses() {
    let (mut files, mut mover) = (Files::default(), mover(&Shared::default()));
    let values = files.append(&vec![delta(b"a", b"frame"); MOST_VALUES + 1]);
    let records: Vec<_> = values.iter().map(|value| capture(&[(BODY, value)])).collect();
    let cells: Vec<_> = records.iter().enumerate().map(|(at, record)| cell(-(at as i64), record)).collect();
    assert!(mover.add_row(b"a", &cells));
    read(&mut mover, &mut files, true, &NAME);
    assert!(matches!(mover.run(ALL.0, ALL.1), Step::Pause));
    assert!(matches!(mover.run(ALL.0, ALL.1), Step::End));
    assert_eq!(moved(&mut mover).len(), MOST_VALUES + 1);
}
