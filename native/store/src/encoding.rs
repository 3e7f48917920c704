//! The values of a group on their way into records: what each may be a delta against, its dictionary, and its frame.
//!
//! `Group` takes pages in their order, or single values.  Bases of a body and of a text are tried in this order: the
//! row's own older version, the same path in another version or language of the site, then the nearest page.  A page of
//! the group can be a base; one that is a delta itself stands for its base.  An exact copy shares the body of the page
//! that it copies.  The group is encoded as a whole; then it is told where its records lie, or the refs that a backend
//! gave them, and has the cell values, the rows of bases and the capture records of the commit.
//!
//! Texts are encoded after all other values, so that no thread waits for the body of a text.  Their records stand
//! directly behind those of their bodies.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use docstore_frames::{encode_group, Base as FrameBase, Body, Dictionary, Effort, Encoded, Encoders, Name, Offer};
use docstore_frames::{Shelf, Sites, Value, Way};

use crate::bases::{Base, Bases, NewBase, Pointer, Reads, LARGEST_BASE_BYTES};
use crate::capture::{self, Columns, BODY, MAIN};
use crate::format::{BASE_FAMILY, CAPTURE_FAMILY, CAPTURE_FIELDS, CAPTURE_STORED, RECORD_VALUE, VALUE_INLINE};
use crate::packed::PackedRows;
use crate::record::{NewRecord, Records};
use crate::values::{encode_ref, is_long, push_ref};

/// What a text's delta against its own body is weighed against; see `weights`.
pub const ON_BODY: (usize, usize) = (4, 100);
const TABLE: &str = "pages";
const TABLE_OF_BASES: &str = "bodies";

/// The column of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// The number of a field of captures.
    Field(u8),
    Other(String, Vec<u8>),
}

impl Column {
    pub fn new(family: &str, qualifier: &[u8]) -> Self {
        capture::number_of(family, qualifier)
            .map_or_else(|| Self::Other(family.to_owned(), qualifier.to_vec()), Self::Field)
    }

    pub fn names(&self) -> (&str, &[u8]) {
        match self {
            Self::Field(number) => CAPTURE_FIELDS[usize::from(*number) - 1].1,
            Self::Other(family, qualifier) => (family, qualifier),
        }
    }

    fn is(&self, field: usize) -> bool {
        *self == Self::Field(field as u8)
    }

    /// The end of the name of its dictionaries' scopes; None for a column whose values are short or unlike each other.
    fn scope(&self) -> Option<&'static [u8]> {
        match self {
            Self::Field(number) if usize::from(*number) == BODY => Some(b" page:body"),
            Self::Field(number) if usize::from(*number) == MAIN => Some(b" text:main"),
            _ => None,
        }
    }

    /// What a delta is weighed against: below one part in so many of the raw bytes it is taken at once; another has to
    /// save so many bytes, for the row of its base and a second decode at every read.
    ///
    /// zstd alone hardly ever gets a body to a twelfth, a text hardly to a quarter; and the body of such a text is mostly
    /// a delta as well.
    pub fn weights(&self) -> (usize, usize) {
        if self.is(MAIN) {
            (6, 50)
        } else {
            (12, 200)
        }
    }
}

/// Whether a page with these words of its verdict shares the body of the page that it names: an exact copy that is stored
/// by reference.
pub fn is_shared_copy(kind: &str, stored: &str) -> bool {
    kind == "exact" && stored == "reference"
}

/// A page or visit with its verdict; see `batch::Judged`.
pub struct NewPage<R> {
    pub pointer: Pointer,
    /// Of its record.
    pub kind: u8,
    pub arrived: u64,
    pub confirms: u64,
    /// Columns of its record except body and text; and number and value of those that are too long for a cell.
    pub columns: Arc<Columns>,
    pub long: Vec<(u8, R)>,
    pub body: R,
    pub text: R,
    /// Names of body and text as bases; None for one that has none.
    pub body_name: Option<Name>,
    pub text_name: Option<Name>,
    /// Its row key without versions; empty if it has none.
    pub path: Box<[u8]>,
    /// The page that its verdict names, if it is an exact copy of it and stored by reference.
    pub copies: Option<Pointer>,
    /// The page of its own row before it, with the cell values of its body and text: a policy may hide them once the
    /// group is committed.
    pub previous: Option<(Pointer, [Box<[u8]>; 2])>,
    /// The nearest page of another row.
    pub nearest: Option<Pointer>,
    /// Its row has the same bytes, but they cannot be read, so it is stored whole.
    pub is_damaged: bool,
}

/// What a value may be a delta against, or share its record with.
enum Part<R> {
    /// A value of the group by its number.
    New(usize),
    Stored(Arc<Base<R>>),
}

impl<R> Clone for Part<R> {
    fn clone(&self) -> Self {
        match self {
            Self::New(number) => Self::New(*number),
            Self::Stored(base) => Self::Stored(base.clone()),
        }
    }
}

/// A value that is to be stored.
struct NewValue<R> {
    owner: usize,
    column: Column,
    held: Arc<R>,
    /// None if no other value may be a delta against it.
    name: Option<Name>,
    /// The likeliest first; None keeps a place free.
    bases: Vec<Option<Part<R>>>,
    /// Of a text: the body of its page, whose record stands directly before its own.
    body: Option<usize>,
    /// An earlier value with the same bytes, whose record it shares if that one is no delta.
    same: Option<usize>,
}

impl<R: AsRef<[u8]>> NewValue<R> {
    fn raw(&self) -> &[u8] {
        (*self.held).as_ref()
    }
}

/// What is stored of a page: the columns of its record, of which some are values of the group or shared ones.
struct Capture<R> {
    owner: usize,
    kind: u8,
    arrived: u64,
    confirms: u64,
    columns: Arc<Columns>,
    parts: Vec<(u8, Part<R>)>,
}

/// Body and text of a page that others may be deltas against.
type Relative<R> = (Option<Part<R>>, Option<Part<R>>);
type RelatedOf<R, S> = Result<(Vec<Relative<R>>, Option<Part<R>>), <S as Reads<R>>::Error>;

/// What became of a long value.
struct Made {
    way: Way,
    frame: Vec<u8>,
    /// The dictionary or base that its record names.
    related: Option<Name>,
    /// Of a delta: which of its bases; of a value that shares a record: whose, by its number.
    base: Option<usize>,
}

/// The base for values that resemble another one, and whether it needs a row.
type BaseOf<R> = (Option<Arc<Base<R>>>, bool);

/// The record of a value for a backend that keeps it in its own way.
pub struct OwnRecord<'a> {
    pub owner: &'a Pointer,
    pub column: &'a Column,
    pub way: Way,
    /// The dictionary or base that it names; else empty.
    pub related: &'a [u8],
    pub raw_bytes: usize,
    pub payload: &'a [u8],
}

/// A value could not be encoded; nothing of the group is stored.
#[derive(Debug)]
pub struct Failed(pub String);

impl fmt::Display for Failed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(to)
    }
}

/// The values of a group.
pub struct Group<R> {
    /// Whether cells may share a value, and values be deltas.
    shares: bool,
    owners: Vec<Pointer>,
    values: Vec<NewValue<R>>,
    captures: Vec<Capture<R>>,
    /// Body and text of each page so far.
    pages: HashMap<Pointer, [Option<Part<R>>; 2]>,
    /// Numbers of the values that are encoded, in the order in which that is done.
    turns: Vec<usize>,
    /// By the number of a value; None for a short one.
    made: Vec<Option<Made>>,
    /// By the number of a value: what it is a delta against, or shares; else the value itself.
    roots: Vec<Option<Part<R>>>,
    /// By the number of a value, once its place is known.
    cells: Vec<Box<[u8]>>,
    /// By the number of a value, once its place is known.
    bases_of: Vec<BaseOf<R>>,
}

impl<R: AsRef<[u8]> + Send + Sync> Group<R> {
    pub fn new(shares: bool) -> Self {
        Self {
            shares,
            owners: Vec::new(),
            values: Vec::new(),
            captures: Vec::new(),
            pages: HashMap::new(),
            turns: Vec::new(),
            made: Vec::new(),
            roots: Vec::new(),
            cells: Vec::new(),
            bases_of: Vec::new(),
        }
    }

    // --- what is to be stored

    /// Add a value by itself, with a base to try, or behind the body that was added last.
    pub fn add(&mut self, owner: Pointer, column: Column, raw: R, base: Option<Base<R>>, follows_body: bool) {
        let body = self.values.len().checked_sub(1).filter(|_| follows_body);
        let bases = base.map(|base| Some(Part::Stored(Arc::new(base)))).into_iter().collect();
        self.owners.push(owner);
        let owner = self.owners.len() - 1;
        self.values.push(NewValue { owner, column, held: Arc::new(raw), name: None, bases, body, same: None });
    }

    /// Add the long values of a page, with what its body and text may be deltas against.
    pub fn add_page<S: Reads<R>>(
        &mut self,
        page: NewPage<R>,
        bases: &mut Bases<R>,
        reads: &mut S,
    ) -> Result<(), S::Error> {
        let owner = self.owners.len();
        self.owners.push(page.pointer.clone());
        let mut parts = Vec::new();
        let mut of_page = [None, None];
        let (related, same) = self.related(&page, bases, reads)?;
        let NewPage { pointer, kind, arrived, confirms, columns, long, .. } = page;
        if kind == CAPTURE_STORED {
            let (of_body, of_text): (Vec<_>, Vec<_>) = related.into_iter().unzip();
            let mut body = None;
            if !columns.has(BODY) {
                let part = match same {
                    Some(Part::Stored(base)) => Part::Stored(base),
                    same => {
                        let may_be_base = self.shares && page.body.as_ref().len() <= LARGEST_BASE_BYTES;
                        let same = same.and_then(|same| if let Part::New(number) = same { Some(number) } else { None });
                        let (held, name) = (Arc::new(page.body), page.body_name.filter(|_| may_be_base));
                        body = Some(self.values.len());
                        Part::New(self.push(NewValue { bases: of_body, same, ..Self::value(owner, BODY, held, name) }))
                    }
                };
                of_page[0] = Some(part.clone());
                parts.push((BODY as u8, part));
            }
            let text_bytes = page.text.as_ref().len();
            let may_be_base = self.shares && is_long(text_bytes) && text_bytes <= LARGEST_BASE_BYTES;
            let (held, name) = (Arc::new(page.text), page.text_name.filter(|_| may_be_base));
            let body = body.filter(|_| self.shares);
            let text = Part::New(self.push(NewValue { bases: of_text, body, ..Self::value(owner, MAIN, held, name) }));
            of_page[1] = Some(text.clone());
            parts.push((MAIN as u8, text));
        }
        for (number, held) in long {
            let value = Self::value(owner, usize::from(number), Arc::new(held), None);
            parts.push((number, Part::New(self.push(value))));
        }
        self.pages.insert(pointer, of_page);
        self.captures.push(Capture { owner, kind, arrived, confirms, columns, parts });
        Ok(())
    }

    /// A value of a field with nothing to lean on.
    fn value(owner: usize, field: usize, held: Arc<R>, name: Option<Name>) -> NewValue<R> {
        let (column, bases, body, same) = (Column::Field(field as u8), Vec::new(), None, None);
        NewValue { owner, column, held, name, bases, body, same }
    }

    /// Add a value; gives its number.
    fn push(&mut self, value: NewValue<R>) -> usize {
        self.values.push(value);
        self.values.len() - 1
    }

    /// Body and text of those pages that the body and the text of a page may be deltas against; and the body that it shares
    /// as an exact copy, which is stored by reference.
    ///
    /// The first page is its own older version or, without one, the page of the same path in another version of the
    /// site; the second is the nearest page.  The text is None if the page's own text is too short for a delta.
    fn related<S: Reads<R>>(&self, page: &NewPage<R>, bases: &mut Bases<R>, reads: &mut S) -> RelatedOf<R, S> {
        let mut related = Vec::new();
        let keeps_body = !page.columns.has(BODY);
        if page.kind != CAPTURE_STORED || !keeps_body || !self.shares {
            return Ok((related, None));
        }
        let mut same = None;
        if !page.is_damaged {
            related = self.relatives(page, bases, reads)?;
        }
        if let Some(of) = &page.copies {
            let cell_value = match self.pages.contains_key(of) {
                true => Vec::new(),
                false => std::mem::take(&mut reads.page(of)?[0]),
            };
            let found = self.candidate(of, 0, &cell_value, bases, reads)?;
            same = found.filter(|part| self.raw_of(part) == page.body.as_ref());
        }
        Ok((related, same))
    }

    fn raw_of<'a>(&'a self, part: &'a Part<R>) -> &'a [u8] {
        match part {
            Part::New(number) => self.values[*number].raw(),
            Part::Stored(base) => (*base.raw).as_ref(),
        }
    }

    fn relatives<S: Reads<R>>(
        &self,
        page: &NewPage<R>,
        bases: &mut Bases<R>,
        reads: &mut S,
    ) -> Result<Vec<Relative<R>>, S::Error> {
        let mut related = Vec::new();
        let sibling = bases.replace_newest(&page.path, &page.pointer);
        let first = match &page.previous {
            Some((pointer, cells)) => Some((pointer, Some(cells))),
            None => sibling.as_ref().map(|sibling| (sibling, None)),
        };
        let nearest = page.nearest.as_ref().map(|nearest| (nearest, None));
        let has_text = is_long(page.text.as_ref().len());
        for (pointer, cells) in first.into_iter().chain(nearest) {
            let shown = match cells {
                None if !self.pages.contains_key(pointer) => reads.page(pointer)?,
                _ => Default::default(),
            };
            let cell = |column: usize| match cells {
                Some(cells) => &*cells[column],
                None => &*shown[column],
            };
            if let Some(body) = self.candidate(pointer, 0, cell(0), bases, reads)? {
                let text = match has_text {
                    true => self.candidate(pointer, 1, cell(1), bases, reads)?,
                    false => None,
                };
                related.push((Some(body), text));
            }
        }
        Ok(related)
    }

    /// The body (0) or text (1) of a page as a base: the value itself, or its own base if it is a delta.
    ///
    /// None if no value may be a delta against it.  `cell_value`: of a page that is not of the group; empty for none.
    fn candidate<S: Reads<R>>(
        &self,
        page: &Pointer,
        column: usize,
        cell_value: &[u8],
        bases: &mut Bases<R>,
        reads: &mut S,
    ) -> Result<Option<Part<R>>, S::Error> {
        let part = match self.pages.get(page) {
            Some(parts) => parts[column].clone(),
            None => bases.base_for(reads, cell_value, column, page)?.map(Part::Stored),
        };
        let is_usable = match &part {
            None => false,
            Some(Part::Stored(base)) => bases.is_usable(reads, &base.name, &base.cell_value)?,
            Some(Part::New(number)) => match &self.values[*number].name {
                Some(name) => bases.is_usable(reads, name, &[])?,
                None => false,
            },
        };
        Ok(part.filter(|_| is_usable))
    }

    // --- dictionaries and frames

    /// Choose the dictionary of each long value.  Values but texts are samples for the next dictionaries.
    pub fn choose<S: Shelf>(
        &mut self,
        sites: &mut Sites,
        shelf: &mut S,
    ) -> Result<Vec<Option<S::Dictionary>>, S::Error> {
        sites.begin();
        let long = (0..self.values.len()).filter(|&number| is_long(self.values[number].raw().len()));
        let (texts, others): (Vec<_>, Vec<_>) = long.partition(|&number| self.values[number].column.is(MAIN));
        self.turns = [others, texts].concat();
        let chosen = self.turns.iter().map(|&number| {
            let value = &self.values[number];
            let row_key = &self.owners[value.owner].row_key;
            match value.column.scope() {
                Some(scope) => sites.choose(shelf, (row_key, scope), value.raw(), !value.column.is(MAIN)),
                None => Ok(None),
            }
        });
        chosen.collect()
    }

    /// Encode the long values with their dictionaries: delta, dictionary or plain for each.
    pub fn encode(
        &mut self,
        dictionaries: &[Option<(&Dictionary, Name)>],
        encoders: &Encoders,
        threads: usize,
    ) -> Result<(), Failed> {
        let mut places = vec![None; self.values.len()];
        for (turn, &number) in self.turns.iter().enumerate() {
            places[number] = Some(turn);
        }
        let tasks: Vec<Value<'_>> =
            self.turns.iter().zip(dictionaries).map(|(&number, one)| self.task(number, *one, &places)).collect();
        let threads = if tasks.len() > 1 { threads } else { 1 };
        let encoded = encode_group(&tasks, Effort::of_writes(ON_BODY), encoders, threads);
        self.made = self.values.iter().map(|_| None).collect();
        // What values that resemble each may be deltas against, by its number: a value of the group, or a stored one.
        let mut roots: Vec<Option<Part<R>>> = vec![None; self.values.len()];
        for ((&number, dictionary), encoded) in self.turns.iter().zip(dictionaries).zip(encoded) {
            let Encoded { way, base, frame, .. } = encoded.map_err(|refused| Failed(refused.to_string()))?;
            let root = match (way, base) {
                (Way::Same, Some(turn)) => Part::New(self.turns[turn]),
                (Way::Delta, Some(place)) => match self.values[number].bases[place].clone() {
                    Some(Part::New(other)) => roots[other].clone().unwrap_or(Part::New(other)),
                    Some(stored) => stored,
                    None => return Err(Failed("a delta has no base".to_owned())),
                },
                _ => Part::New(number),
            };
            let related = match (way, &root) {
                (Way::Delta, Part::Stored(base)) => Some(base.name),
                (Way::Delta, Part::New(other)) => self.values[*other].name,
                (Way::Dictionary, _) => dictionary.map(|(_, name)| name),
                _ => None,
            };
            let base = if way == Way::Same { base.map(|turn| self.turns[turn]) } else { base };
            self.made[number] = Some(Made { way, frame, related, base });
            roots[number] = Some(root);
        }
        self.roots = roots;
        Ok(())
    }

    fn task<'a>(
        &'a self,
        number: usize,
        dictionary: Option<(&'a Dictionary, Name)>,
        places: &[Option<usize>],
    ) -> Value<'a> {
        let value = &self.values[number];
        let bases = value.bases.iter().map(|base| match base {
            Some(Part::New(other)) => places[*other].map_or(FrameBase::Given(Offer::default()), FrameBase::Earlier),
            Some(Part::Stored(base)) => FrameBase::Given(Offer { raw: (*base.raw).as_ref(), ..Offer::default() }),
            None => FrameBase::Given(Offer::default()),
        });
        let (small, cost_bytes) = value.column.weights();
        Value {
            raw: value.raw(),
            bases: bases.collect(),
            dictionary: dictionary.map(|(dictionary, _)| dictionary),
            body: value.body.and_then(|body| places[body]).map_or(Body::None, Body::Earlier),
            same: value.same.and_then(|same| places[same]),
            small,
            cost_bytes,
        }
    }

    /// Measure what dictionaries saved, and sample those texts that are no deltas for the next dictionaries.
    pub fn learn<S: Shelf>(&self, sites: &mut Sites, shelf: &mut S) -> Result<(), S::Error> {
        for &number in &self.turns {
            let (value, Some(made)) = (&self.values[number], &self.made[number]) else { continue };
            let Some(scope) = value.column.scope() else { continue };
            let (key, raw) = ((&self.owners[value.owner].row_key[..], scope), value.raw());
            if let (Way::Dictionary, Some(name)) = (made.way, &made.related) {
                sites.note_gain(shelf, key, (raw.len(), made.frame.len()), name)?;
            }
            if value.column.is(MAIN) && !matches!(made.way, Way::Body | Way::Delta) {
                sites.sample(shelf, key, raw)?;
            }
        }
        Ok(())
    }

    /// The dictionaries that records of the group name.
    pub fn used_dictionaries(&self) -> impl Iterator<Item = &Name> {
        let made = self.made.iter().flatten().filter(|made| made.way == Way::Dictionary);
        made.filter_map(|made| made.related.as_ref())
    }

    // --- records

    /// The records of the group in its order, and the number of the value of each.
    fn own_records(&self) -> impl Iterator<Item = (usize, OwnRecord<'_>)> {
        self.values.iter().zip(&self.made).enumerate().filter_map(|(number, (value, made))| {
            let made = made.as_ref().filter(|made| made.way != Way::Same)?;
            let raw = value.raw();
            let record = OwnRecord {
                owner: &self.owners[value.owner],
                column: &value.column,
                way: made.way,
                related: made.related.as_ref().map_or(&[], |name| name),
                raw_bytes: raw.len(),
                payload: if made.way == Way::Stored { raw } else { &made.frame },
            };
            Some((number, record))
        })
    }

    /// The records of the group in its order.
    pub fn records(&self) -> impl Iterator<Item = OwnRecord<'_>> {
        self.own_records().map(|(_, record)| record)
    }

    /// Lay the records out one behind the other in a segment from an offset on; gives them, and the ref of each.
    ///
    /// A mark with the number of the commit comes first, unless that is 0.  None if one of them does not fit the format.
    pub fn lay_out(&self, segment: u64, offset: u64, commit: u64) -> Option<(Records<'_>, Vec<Vec<u8>>)> {
        let mut records = Records::new(segment, offset, self.turns.len() + 1);
        if commit > 0 {
            records.add_mark(commit)?;
        }
        let mut refs = Vec::with_capacity(self.turns.len());
        for record in self.records() {
            let (family, qualifier) = record.column.names();
            let place = records.add(NewRecord {
                kind: RECORD_VALUE,
                row_key: &record.owner.row_key,
                family,
                qualifier,
                timestamp: record.owner.timestamp,
                codec: record.way as u8,
                related: record.related,
                raw_bytes: u32::try_from(record.raw_bytes).ok()?,
                payload: record.payload,
            })?;
            let mut reference = Vec::with_capacity(16);
            push_ref(&mut reference, place);
            refs.push(reference);
        }
        Some((records, refs))
    }

    // --- cells

    /// Take the refs of the records, in their order: values have cell values from now on.  False for another number of
    /// refs.
    pub fn place(&mut self, refs: &[impl AsRef<[u8]>]) -> bool {
        if self.made.len() != self.values.len() {
            return false; // it is not encoded
        }
        let mut of_value: Vec<Option<&[u8]>> = vec![None; self.values.len()];
        let mut given = refs.iter();
        let numbers: Vec<usize> = self.own_records().map(|(number, _)| number).collect();
        for number in numbers {
            of_value[number] = given.next().map(AsRef::as_ref);
            if of_value[number].is_none() {
                return false;
            }
        }
        let (mut cells, mut bases): (Vec<Box<[u8]>>, Vec<BaseOf<R>>) = Default::default();
        for (number, value) in self.values.iter().enumerate() {
            let raw = value.raw();
            let Some(made) = &self.made[number] else {
                cells.push([&[VALUE_INLINE], raw].concat().into());
                bases.push((None, false));
                continue;
            };
            let owner = made.base.filter(|_| made.way == Way::Same);
            let cell = match (owner, of_value[number]) {
                (Some(owner), _) => cells[owner].clone(),
                (None, reference) => encode_ref(raw.len() as u64, reference.unwrap_or_default()).into(),
            };
            bases.push(match &self.roots[number] {
                Some(Part::Stored(base)) => (Some(base.clone()), true),
                Some(Part::New(other)) if *other != number => (bases[*other].0.clone(), true),
                _ => {
                    let base = |name| Base { name, raw: value.held.clone(), cell_value: cell.clone() };
                    (value.name.map(base).map(Arc::new), false)
                }
            });
            cells.push(cell);
        }
        (self.cells, self.bases_of) = (cells, bases);
        given.next().is_none()
    }

    /// The cell values of all values, in their order.
    pub fn cells(&self) -> &[Box<[u8]>] {
        &self.cells
    }

    /// Numbers and cell values of those columns of a page that are values of the group or shared ones.
    pub fn cells_of_page(&self, page: usize) -> impl Iterator<Item = (u8, &[u8])> {
        let parts = self.captures.get(page).into_iter().flat_map(|capture| &capture.parts);
        parts.map(|(number, part)| (*number, self.cell_of(part)))
    }

    fn cell_of<'a>(&'a self, part: &'a Part<R>) -> &'a [u8] {
        match part {
            Part::New(number) => &self.cells[*number],
            Part::Stored(base) => &base.cell_value,
        }
    }

    /// What the values of its pages mean for later values.
    pub fn new_bases(&self) -> Vec<NewBase<R>> {
        let parts = self.captures.iter().flat_map(|capture| &capture.parts);
        let found = parts.filter_map(|(_, part)| {
            let (base, needs_row) = match part {
                Part::Stored(base) => (base.clone(), true),
                Part::New(number) => (self.bases_of[*number].0.clone()?, self.bases_of[*number].1),
            };
            Some(NewBase { base, cell_value: self.cell_of(part).into(), needs_row })
        });
        found.collect()
    }

    /// Add the capture records of its pages, each as a row.
    pub fn pack_captures(&self, to: &mut PackedRows) -> Option<()> {
        let mut fields: Vec<(u8, &[u8])> = Vec::new();
        for capture in &self.captures {
            let page = &self.owners[capture.owner];
            fields.clear();
            fields.extend(capture.parts.iter().map(|(number, part)| (*number, self.cell_of(part))));
            fields.extend(capture.columns.iter());
            let record = capture::encode(capture.kind, &mut fields, capture.arrived, capture.confirms);
            to.begin_row(TABLE, &page.row_key)?;
            to.add_cell(CAPTURE_FAMILY, b"", page.timestamp, &record)?;
        }
        Some(())
    }
}

/// Add the rows of bases that the commit has to write.
pub fn pack_bases(rows: &[(Name, Box<[u8]>)], to: &mut PackedRows) -> Option<()> {
    for (name, cell_value) in rows {
        to.begin_row(TABLE_OF_BASES, name)?;
        to.add_cell(BASE_FAMILY, b"", 0, cell_value)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_of_dictionaries_end_with_the_name_of_their_column() {
        for (number, (family, qualifier)) in CAPTURE_FIELDS {
            let name = [format!(" {family}:").as_bytes(), qualifier].concat();
            let has_scope = [BODY, MAIN].contains(&usize::from(*number));
            assert_eq!(Column::Field(*number).scope(), has_scope.then_some(&name[..]));
        }
        assert_eq!(Column::new("page", b"body"), Column::Field(BODY as u8));
        assert_eq!(Column::new("user", b"body").names(), ("user", &b"body"[..]));
    }
}
