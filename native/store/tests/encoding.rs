//! Groups of pages are encoded, laid out and told to the caches of bases, without Python and without files.

use std::collections::HashMap;
use std::sync::Arc;

use docstore_frames::{Dictionary, Encoders, Limits, Name, Shelf, Sites, Tablet, Way};
use docstore_store::bases::{name_of, Base, Bases, Pointer, Reads, Stored};
use docstore_store::capture::{self, Columns, Field};
use docstore_store::encoding::{pack_bases, Column, Group, NewPage};
use docstore_store::format::{CAPTURE_REJECTED, CAPTURE_STORED, CODEC_ZSTD_BODY};
use docstore_store::packed::PackedRows;
use docstore_store::record;
use docstore_store::values::ref_of;

/// What a store has: values and bases by cell value or name.
#[derive(Default)]
struct Store {
    pages: HashMap<Pointer, [Vec<u8>; 2]>,
    whole: HashMap<Vec<u8>, Vec<u8>>,
    deltas: HashMap<Vec<u8>, Name>,
    rows: HashMap<Name, Vec<u8>>,
    unsound: Vec<Vec<u8>>,
    retired: Vec<Name>,
    reads: usize,
}

impl Reads<Vec<u8>> for Store {
    type Error = ();

    fn page(&mut self, page: &Pointer) -> Result<[Vec<u8>; 2], ()> {
        self.reads += 1;
        Ok(self.pages.get(page).cloned().unwrap_or_default())
    }
    fn value(&mut self, cell_value: &[u8], _: usize, _: &Pointer) -> Result<Option<Stored<Vec<u8>>>, ()> {
        self.reads += 1;
        let base = self.deltas.get(cell_value).copied().map(Stored::DeltaOf);
        Ok(base.or_else(|| self.whole.get(cell_value).cloned().map(Stored::Whole)))
    }
    fn row(&mut self, name: &Name) -> Result<Vec<u8>, ()> {
        Ok(self.rows.get(name).cloned().unwrap_or_default())
    }
    fn is_sound(&mut self, cell_value: &[u8]) -> Result<bool, ()> {
        Ok(!self.unsound.contains(&cell_value.to_vec()))
    }
    fn is_retired(&mut self, name: &Name) -> Result<bool, ()> {
        Ok(self.retired.contains(name))
    }
}

struct NoDictionaries;

impl Shelf for NoDictionaries {
    type Dictionary = ();
    type Error = ();

    fn stored(&mut self, _: &[u8]) -> Result<Option<(usize, Name)>, ()> {
        Ok(None)
    }
    fn tablet(&mut self, _: &[u8]) -> Result<Tablet, ()> {
        Ok(Tablet { number: 1, start: Vec::new(), end: None })
    }
    fn write(&mut self, _: &[u8], _: bool) -> Result<Name, ()> {
        Err(())
    }
    fn prepared(&mut self, _: &Name) -> Result<Option<()>, ()> {
        Ok(None)
    }
    fn prepare(&mut self, _: &Name) -> Result<Option<()>, ()> {
        Ok(None)
    }
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        b'a' + (state >> 40) as u8 % 26
    };
    (0..bytes).map(|_| next()).collect()
}

fn pointer(number: u64) -> Pointer {
    Pointer { timestamp: 1000 * number, row_key: format!("com,a)/{number} https").into_bytes().into() }
}

fn columns(given: &[(usize, &[u8])]) -> Arc<Columns> {
    let mut columns = Columns::default();
    given.iter().for_each(|(number, cell_value)| columns.push(*number, &[cell_value]));
    Arc::new(columns)
}

/// A page with an inline status; without text.
fn page(number: u64, body: &[u8]) -> NewPage<Vec<u8>> {
    NewPage {
        pointer: pointer(number),
        kind: CAPTURE_STORED,
        arrived: 5,
        confirms: 0,
        columns: columns(&[(2, b"\x00200")]),
        long: Vec::new(),
        body: body.to_vec(),
        text: Vec::new(),
        body_name: Some(name_of(body)),
        text_name: None,
        path: Box::default(),
        copies: None,
        previous: None,
        nearest: None,
        is_damaged: false,
    }
}

fn near(number: u64, body: &[u8], other: u64) -> NewPage<Vec<u8>> {
    NewPage { nearest: Some(pointer(other)), ..page(number, body) }
}

fn bases() -> Bases<Vec<u8>> {
    Bases::new(1 << 20, 1 << 20, 1 << 20, 10)
}

/// Encode a group and lay it out from byte 100 of segment 7 on; gives it with the bytes of its records.
fn encoded(pages: Vec<NewPage<Vec<u8>>>, bases: &mut Bases<Vec<u8>>, store: &mut Store) -> (Group<Vec<u8>>, Vec<u8>) {
    let mut group = Group::new(true);
    for page in pages {
        group.add_page(page, bases, store).expect("read");
    }
    let bytes = laid_out(&mut group);
    (group, bytes)
}

fn laid_out(group: &mut Group<Vec<u8>>) -> Vec<u8> {
    let mut sites = Sites::new(Limits {
        stages: vec![(1 << 40, 1)],
        most_scopes: 9,
        most_sample_bytes: 1 << 20,
        values_a_load: 1,
        most_earned: 1,
        gain_bytes: 1000,
        faded: 1.5,
    });
    let chosen = group.choose(&mut sites, &mut NoDictionaries).expect("chosen");
    let none: Vec<Option<(&Dictionary, Name)>> = chosen.iter().map(|_| None).collect();
    group.encode(&none, &Encoders::new(), 2).expect("encoded");
    group.learn(&mut sites, &mut NoDictionaries).expect("learnt");
    let (records, refs) = group.lay_out(7, 100, 3).expect("it fits");
    let mut bytes = vec![0; records.total_bytes()];
    records.fill(&mut bytes);
    assert!(group.place(&refs));
    bytes
}

fn ways(group: &Group<Vec<u8>>) -> Vec<(Way, Vec<u8>)> {
    group.records().map(|record| (record.way, record.related.to_vec())).collect()
}

/// The rows of bases that the commit of a group writes.
fn rows_of(group: &Group<Vec<u8>>, bases: &mut Bases<Vec<u8>>) -> Vec<(Name, Vec<u8>)> {
    bases.prepare(group.new_bases()).iter().map(|(name, cell)| (*name, cell.to_vec())).collect()
}

fn cell_of(group: &Group<Vec<u8>>, page: usize, field: usize) -> Vec<u8> {
    let found = group.cells_of_page(page).find(|(number, _)| usize::from(*number) == field);
    found.expect("a value").1.to_vec()
}

#[test]
fn a_page_of_the_group_is_a_base_and_a_delta_stands_for_its_base() {
    let (mut bases, mut store) = (bases(), Store::default());
    let first = noise(1, 5000);
    let second = [&first[..], b"changed"].concat();
    let third = [&second[..], b"again"].concat();
    let pages = vec![page(1, &first), near(2, &second, 1), near(3, &third, 2)];
    let (group, bytes) = encoded(pages, &mut bases, &mut store);
    let name = name_of(&first);
    let delta = (Way::Delta, name.to_vec());
    assert_eq!(ways(&group), [(Way::Plain, Vec::new()), delta.clone(), delta]);
    assert_eq!(rows_of(&group, &mut bases), [(name, cell_of(&group, 0, capture::BODY))]);
    let mark = record::span(&bytes, 7).expect("a mark comes first");
    let (raw_bytes, (segment, offset, _)) = ref_of(&cell_of(&group, 0, capture::BODY)).expect("a ref");
    assert_eq!((raw_bytes, segment, offset), (5000, 7, 100 + mark as u64));
    assert_eq!(record::decode(&bytes[mark..], 7).expect("sound").row_key, &pointer(1).row_key[..]);
    assert_eq!(store.reads, 0);
}

#[test]
fn what_a_commit_stored_is_a_base_without_a_read_and_a_dropped_batch_teaches_nothing() {
    let (mut bases, mut store) = (bases(), Store::default());
    let first = noise(1, 5000);
    for is_committed in [false, true] {
        let (group, _) = encoded(vec![page(1, &first)], &mut bases, &mut store);
        assert_eq!(rows_of(&group, &mut bases), []);
        store.pages.insert(pointer(1), [cell_of(&group, 0, capture::BODY), Vec::new()]);
        if is_committed {
            bases.follow([].into_iter(), true);
        } else {
            bases.drop_new();
            bases.follow([].into_iter(), true);
        }
        store.reads = 0;
        let (group, _) = encoded(vec![near(2, &[&first[..], b"!"].concat(), 1)], &mut bases, &mut store);
        assert_eq!(ways(&group)[0].0 == Way::Delta, is_committed, "its record cannot be read");
        assert_eq!(store.reads, if is_committed { 1 } else { 2 }, "the page, then its body");
        let rows = rows_of(&group, &mut bases);
        assert_eq!(rows.len(), usize::from(is_committed));
        if let [(name, _)] = &rows[..] {
            bases.follow([&name[..]].into_iter(), true);
            assert_eq!(rows_of(&group, &mut bases), [], "the row is there now");
        }
    }
    let others = name_of(b"of a compaction");
    bases.follow([&others[..]].into_iter(), true);
    assert_eq!(
        bases.counts().map(|counts| counts.used.load(std::sync::atomic::Ordering::Relaxed)),
        [0, 0, 0],
        "it may have moved or freed bases"
    );
}

#[test]
fn a_delta_in_the_store_stands_for_its_base_unless_that_is_freed_or_damaged() {
    let base = noise(1, 5000);
    let name = name_of(&base);
    let ref_cell = |offset: u8| vec![1, 0x88, 0x27, 1, offset, 9];
    let given = || Store {
        pages: HashMap::from([(pointer(1), [ref_cell(1), Vec::new()])]),
        whole: HashMap::from([(ref_cell(2), base.clone())]),
        deltas: HashMap::from([(ref_cell(1), name)]),
        rows: HashMap::from([(name, ref_cell(2))]),
        ..Store::default()
    };
    let wrote = |mut store: Store| {
        let mut bases = bases();
        let (group, _) = encoded(vec![near(2, &[&base[..], b"!"].concat(), 1)], &mut bases, &mut store);
        (ways(&group).remove(0), rows_of(&group, &mut bases))
    };
    assert_eq!(wrote(given()), ((Way::Delta, name.to_vec()), vec![]), "its row is there");
    assert_eq!(wrote(Store { retired: vec![name], ..given() }).0 .0, Way::Plain);
    assert_eq!(wrote(Store { rows: HashMap::new(), ..given() }).0 .0, Way::Plain);
    // A value that is whole, and whose name leads to another record that cannot be read.
    let whole = HashMap::from([(ref_cell(1), base.clone()), (ref_cell(2), base.clone())]);
    let is_whole = || Store { deltas: HashMap::new(), whole: whole.clone(), ..given() };
    assert_eq!(wrote(is_whole()).0 .0, Way::Delta);
    assert_eq!(wrote(Store { unsound: vec![ref_cell(2)], ..is_whole() }).0 .0, Way::Plain);
}

#[test]
fn an_older_version_comes_before_the_same_path_elsewhere_and_that_before_the_nearest_page() {
    let of = |seed| [noise(seed, 40), noise(9, 5000)].concat(); // a delta against any of them is small
    let raw = of(4);
    let wrote = |has_previous: bool, path: &[u8]| {
        let (mut bases, mut store) = (bases(), Store::default());
        let on_path = |number, body: &[u8]| NewPage { path: path.into(), ..page(number, body) };
        let pages = vec![page(1, &of(1)), on_path(2, &of(2)), page(3, &of(3))];
        let previous = has_previous.then(|| (pointer(1), Default::default()));
        let last = NewPage { path: path.into(), previous, ..near(4, &raw, 3) };
        let (group, _) = encoded(pages.into_iter().chain([last]).collect(), &mut bases, &mut store);
        ways(&group).pop().expect("a record").1
    };
    assert_eq!(wrote(true, b"path"), name_of(&of(1)));
    assert_eq!(wrote(false, b"path"), name_of(&of(2)));
    assert_eq!(wrote(false, b""), name_of(&of(3)));
}

#[test]
fn an_exact_copy_shares_the_body_and_its_base_gets_a_row() {
    let (mut bases, mut store) = (bases(), Store::default());
    let body = noise(1, 5000);
    let copy = |number, of| NewPage { copies: Some(pointer(of)), ..page(number, &body) };
    let (group, _) = encoded(vec![page(1, &body), copy(2, 1)], &mut bases, &mut store);
    assert_eq!(ways(&group), [(Way::Plain, Vec::new())]);
    let cell = cell_of(&group, 0, capture::BODY);
    assert_eq!(cell_of(&group, 1, capture::BODY), cell);
    assert_eq!(rows_of(&group, &mut bases), [(name_of(&body), cell.clone())]);
    bases.follow([&name_of(&body)[..]].into_iter(), true);
    store.pages.insert(pointer(1), [cell.clone(), Vec::new()]);
    let (group, bytes) = encoded(vec![copy(3, 1)], &mut bases, &mut store);
    assert_eq!((group.records().count(), bytes.len()), (0, record::span(&bytes, 7).expect("the mark")));
    assert_eq!(cell_of(&group, 0, capture::BODY), cell);
    let other = NewPage { copies: Some(pointer(1)), ..page(4, &noise(2, 900)) };
    assert_eq!(encoded(vec![other], &mut bases, &mut store).0.records().count(), 1, "it has other bytes");
}

#[test]
fn a_text_stands_directly_behind_its_body_and_short_values_in_their_cells() {
    let (mut bases, mut store) = (bases(), Store::default());
    let (body, text) = (noise(1, 5000), noise(1, 2000));
    let long = vec![(3, noise(4, 600))];
    let whole = NewPage { long, text: text.clone(), text_name: Some(name_of(&text)), ..page(1, &body) };
    let rejected = NewPage { kind: CAPTURE_REJECTED, ..page(2, &body) };
    let short = NewPage { text: b"few words".to_vec(), ..page(3, &noise(5, 40)) };
    let (group, bytes) = encoded(vec![whole, rejected, short], &mut bases, &mut store);
    let found: Vec<_> = group.records().map(|record| (record.way, record.column.clone())).collect();
    let [body_column, text_column, headers] =
        [capture::BODY, capture::MAIN, 3].map(|number| Column::Field(number as u8));
    assert_eq!(found, [(Way::Plain, body_column), (Way::Body, text_column), (Way::Plain, headers)]);
    let place_of = |field| ref_of(&cell_of(&group, 0, field)).expect("a ref").1;
    let place = place_of(capture::MAIN);
    let its_record = record::decode(&bytes[place.1 as usize - 100..], 7).expect("sound");
    assert_eq!(its_record.codec, CODEC_ZSTD_BODY);
    assert_eq!(its_record.body_place(place), Some(place_of(capture::BODY)));
    assert_eq!(cell_of(&group, 2, capture::MAIN), b"\0few words");
    let mut rows = PackedRows::default();
    group.pack_captures(&mut rows).expect("packed");
    let records: Vec<Vec<u8>> = rows.pairs().map(|(_, value)| value.to_vec()).collect();
    let numbers = |record: &[u8]| -> Vec<u8> {
        let number = |field| if let Some(Field::Column(number, _)) = field { Some(number) } else { None };
        capture::fields(record).filter_map(number).collect()
    };
    assert_eq!(
        records.iter().map(|one| numbers(one)).collect::<Vec<_>>(),
        [vec![1, 2, 3, 12], vec![2], vec![1, 2, 12]]
    );
    assert_eq!(capture::kind_of(&records[1]), Some(CAPTURE_REJECTED));
}

#[test]
fn a_text_without_words_is_no_base() {
    let (mut bases, mut store) = (bases(), Store::default());
    let text = noise(1, 5000);
    let with_text = |number, body: u64| NewPage { text: text.clone(), ..near(number, &noise(body, 9), number - 1) };
    let (group, _) = encoded(vec![with_text(1, 2), with_text(2, 3)], &mut bases, &mut store);
    assert_eq!(ways(&group), [(Way::Plain, Vec::new()), (Way::Plain, Vec::new())]);
    assert_eq!(rows_of(&group, &mut bases), []);
}

#[test]
fn a_backend_that_shares_nothing_gives_refs_of_its_own() {
    let (mut bases, mut store) = (bases(), Store::default());
    let body = noise(1, 5000);
    let mut group = Group::new(false);
    for page in [page(1, &body), NewPage { copies: Some(pointer(1)), ..near(2, &body, 1) }] {
        group.add_page(page, &mut bases, &mut store).expect("read");
    }
    laid_out(&mut group);
    assert_eq!(ways(&group), [(Way::Plain, Vec::new()), (Way::Plain, Vec::new())]);
    assert!(!group.place(&[b"one ref"]));
    assert!(!group.place(&[b"one", b"two", b"six"]));
    assert!(group.place(&[b"one", b"two"]));
    assert_eq!(cell_of(&group, 1, capture::BODY), [&[1, 0x88, 0x27], &b"two"[..]].concat());
    assert_eq!(rows_of(&group, &mut bases), []);
}

#[test]
fn single_values_have_a_base_that_is_given_or_follow_their_body() {
    let (base, body, text) = (noise(1, 5000), noise(2, 5000), noise(2, 2000));
    let mut group = Group::new(true);
    let given = Base { name: name_of(&base), raw: base.clone().into(), cell_value: [].into() };
    let column = |field| Column::Field(field as u8);
    group.add(pointer(1), column(capture::BODY), [&base[..], b"!"].concat(), Some(given), false);
    group.add(pointer(2), column(capture::BODY), body, None, false);
    group.add(pointer(2), column(capture::MAIN), text, None, true);
    group.add(pointer(3), Column::new("user", b"cell"), b"short".to_vec(), None, false);
    laid_out(&mut group);
    let delta = (Way::Delta, name_of(&base).to_vec());
    assert_eq!(ways(&group), [delta, (Way::Plain, Vec::new()), (Way::Body, Vec::new())]);
    assert_eq!((group.cells().len(), &group.cells()[3][..]), (4, &b"\0short"[..]));
}

#[test]
fn rows_of_bases_are_packed() {
    let mut rows = PackedRows::default();
    pack_bases(&[(name_of(b"a"), b"cell"[..].into())], &mut rows).expect("packed");
    let found: Vec<_> = rows.rows().map(|row| (row.table, row.row_key())).collect();
    assert_eq!(found, [("bodies", name_of(b"a").to_vec())]);
}
