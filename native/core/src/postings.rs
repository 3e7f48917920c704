//! Runs of postings together: made, merged and looked up; `tests/reference/postings.py`.

use crate::ranking::{self, Looks, Posting, Proposal};
use crate::shingle;
use crate::sketch::BANDS;
use crate::slices::{encode_slice, Damaged, Found, Run, Shape, KEY_BITS, LIST_LIMIT, PLACE_BITS};

const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xd6e8_feb8_6659_fd93;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;

/// `postings.mix` of one key.
#[inline]
pub fn mix_key(key: u64) -> u64 {
    let mut mixed = key.wrapping_mul(FIRST);
    mixed ^= mixed >> 32;
    mixed = mixed.wrapping_mul(SECOND);
    mixed ^= mixed >> 32;
    mixed >> 24
}

/// Bytes of a mixed key in a log, lowest first.
const KEY_BYTES: usize = KEY_BITS as usize / 8;

/// Bytes of a text number in a log, highest first.
pub const TEXT_BYTES: usize = 6;

fn push_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Take a varint from the front.
fn take_varint(rest: &mut &[u8]) -> Result<u64, Damaged> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, behind) = rest.split_first().ok_or(Damaged)?;
        *rest = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Damaged)
}

/// Slices as bytes, the length of each in units of 8 bytes, and what is in them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    pub bytes: Vec<u8>,
    pub units: Vec<u32>,
    pub keys: u64,
    pub postings: u64,
}

impl Encoded {
    fn push(&mut self, postings: &[u64], shape: Shape) {
        let begin = self.bytes.len();
        self.keys += encode_slice(postings, shape, &mut self.bytes) as u64;
        self.postings += postings.len() as u64;
        self.units.push(((self.bytes.len() - begin) / 8) as u32);
    }
}

/// All slices of sorted postings.
pub fn encode(postings: &[u64], shape: Shape) -> Encoded {
    let mut encoded = Encoded::default();
    let mut rest = postings;
    for slice in 1..=shape.slices() {
        let end = shape.begin(slice);
        let count = if slice == shape.slices() { rest.len() } else { rest.partition_point(|&posting| posting < end) };
        let (its, behind) = rest.split_at(count);
        encoded.push(its, shape);
        rest = behind;
    }
    encoded
}

/// Of sorted postings keep the first `limit` of each key.
fn bound(postings: &mut Vec<u64>, limit: usize) {
    let (mut key, mut count) = (u64::MAX, 0);
    postings.retain(|posting| {
        let its = posting >> PLACE_BITS;
        count = if its == key { count + 1 } else { 1 };
        key = its;
        count <= limit
    });
}

/// One run on its way through a merge: the postings of the slice in hand that are not merged yet.
struct Source<'a> {
    run: Run<'a>,
    offset: u64,
    next_slice: usize,
    held: Vec<u64>,
    at: usize,
}

impl Source<'_> {
    /// Append what lies below `end`, places moved.
    fn take(&mut self, begin: u64, end: u64, out: &mut Vec<u64>) -> Result<(), Damaged> {
        loop {
            let held = &self.held[self.at..];
            let count = if end == u64::MAX { held.len() } else { held.partition_point(|&posting| posting < end) };
            let skipped = held[..count].partition_point(|&posting| posting < begin);
            out.extend(held[skipped..count].iter().map(|posting| posting.wrapping_add(self.offset)));
            self.at += count;
            let shape = self.run.shape;
            if self.at < self.held.len() || self.next_slice == shape.slices() || shape.begin(self.next_slice) >= end {
                return Ok(());
            }
            self.held.clear();
            self.at = 0;
            self.run.postings(self.next_slice, &mut self.held)?;
            self.next_slice += 1;
        }
    }
}

/// Slices `first..first + count` of runs together, oldest first, at most `limit` postings of a key.
///
/// `texts`: how many each run has.
pub fn merge(
    runs: &[Run<'_>],
    texts: &[u64],
    shape: Shape,
    limit: usize,
    first: usize,
    count: usize,
) -> Result<Encoded, Damaged> {
    let mut offset = 0;
    let mut sources = Vec::with_capacity(runs.len());
    for (&run, &texts) in runs.iter().zip(texts) {
        // A run is cut finer than the merged one if it lost keys, or shares many with the others.
        let next_slice = first << run.shape.slice_bits >> shape.slice_bits;
        sources.push(Source { run, offset, next_slice, held: Vec::new(), at: 0 });
        offset += texts;
    }
    let mut encoded = Encoded::default();
    let mut together = Vec::new();
    for slice in first..(first + count).min(shape.slices()) {
        together.clear();
        for source in &mut sources {
            source.take(shape.begin(slice), shape.begin(slice + 1), &mut together)?;
        }
        together.sort(); // stable: finds the sorted parts and merges them
        bound(&mut together, limit.min(LIST_LIMIT));
        encoded.push(&together, shape);
    }
    Ok(encoded)
}

/// In place of the new place of a text: it is gone.
pub const GONE: u64 = u64::MAX;

/// Which slices of a run to make without texts that are gone, and how.
#[derive(Clone, Copy, Debug)]
pub struct Pruning<'a> {
    /// By place, the new place of a text, or `GONE`.
    pub places: &'a [u64],
    /// How many texts stay.
    pub texts: u64,
    /// Postings at which a bucket is full.
    pub limit: usize,
}

/// Slices `first..first + count`, under new places, without the postings of texts that are gone.
///
/// A full bucket keeps them, under places after those of all texts that stay: it must stay full.
pub fn prune(run: Run<'_>, pruning: Pruning<'_>, shape: Shape, first: usize, count: usize) -> Result<Encoded, Damaged> {
    let Pruning { places, texts, limit } = pruning;
    let next_slice = first << run.shape.slice_bits >> shape.slice_bits;
    let mut source = Source { run, offset: 0, next_slice, held: Vec::new(), at: 0 };
    let mut encoded = Encoded::default();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for slice in first..(first + count).min(shape.slices()) {
        before.clear();
        after.clear();
        source.take(shape.begin(slice), shape.begin(slice + 1), &mut before)?;
        for of_key in before.chunk_by(|one, other| one >> PLACE_BITS == other >> PLACE_BITS) {
            let mut gone = texts;
            for posting in of_key {
                let mut place = *places.get((posting & PLACE_MASK) as usize).ok_or(Damaged)?;
                if place == GONE {
                    if of_key.len() < limit {
                        continue;
                    }
                    (place, gone) = (gone, gone + 1);
                }
                after.push(posting & !PLACE_MASK | place & PLACE_MASK);
            }
        }
        after.sort_unstable();
        bound(&mut after, LIST_LIMIT);
        encoded.push(&after, shape);
    }
    Ok(encoded)
}

/// Postings by mixed key: those of runs, oldest first, then those that no run has yet.
#[derive(Debug, Default)]
pub struct Layer<'a> {
    pub runs: Vec<Run<'a>>,
    pub recent: Option<&'a Recent>,
    /// Whether a look-up goes on without the postings that a damaged run cannot give.
    pub skips_damage: bool,
}

/// Look up mixed keys in layers, oldest first: for each posting which key, ascending, and its text.
///
/// At most `limit` texts of a key, the first ones.
pub fn find(layers: &[Layer<'_>], keys: &[u64], limit: usize) -> Result<(Vec<u64>, Vec<u64>), Damaged> {
    Ok(by_owner(&gather(layers, keys, limit)?, keys.len()))
}

/// (Which key, text) of each posting of `find`; the postings of one key in order.
fn gather(layers: &[Layer<'_>], keys: &[u64], limit: usize) -> Result<Vec<(u32, u64)>, Damaged> {
    let mut together = Vec::new();
    if keys.is_empty() {
        return Ok(together);
    }
    let mut left = vec![limit; keys.len()];
    let mut places = Vec::with_capacity(limit.min(LIST_LIMIT));
    for Layer { runs, recent, skips_damage } in layers {
        let skip = |result: Result<(), Damaged>| if *skips_damage { Ok(()) } else { result };
        let mut found: Vec<Option<Found>> = Vec::with_capacity(runs.len() * keys.len());
        for (number, run) in runs.iter().enumerate() {
            skip(run.find(keys, &mut found))?;
            found.resize((number + 1) * keys.len(), None);
        }
        for (owner, left) in left.iter_mut().enumerate() {
            for (run, of_run) in runs.iter().zip(found.chunks_exact(keys.len())) {
                if let Some(found) = of_run[owner] {
                    places.clear();
                    skip(run.places(found, *left, &mut places))?;
                    *left -= places.len();
                    for &place in &places {
                        skip(run.text(place).map(|text| together.push((owner as u32, text))))?;
                    }
                }
            }
        }
        if let Some(recent) = recent {
            recent.texts_of(keys, &mut left, &mut together);
        }
    }
    Ok(together)
}

/// Texts in the order of the keys that led to them, one key's as they come.
fn by_owner(found: &[(u32, u64)], keys: usize) -> (Vec<u64>, Vec<u64>) {
    let mut places = vec![0; keys + 1];
    for &(owner, _) in found {
        places[owner as usize + 1] += 1;
    }
    let (mut owners, mut texts) = (Vec::with_capacity(found.len()), vec![0; found.len()]);
    for owner in 0..keys {
        places[owner + 1] += places[owner];
        owners.resize(places[owner + 1], owner as u64);
    }
    for &(owner, text) in found {
        let place = &mut places[owner as usize];
        texts[*place] = text;
        *place += 1;
    }
    (owners, texts)
}

/// What a page asks for; see `dedup.index.IndexQuery`.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Depth by depth.
    pub band_keys: &'a [u64],
    /// All under which it is posted; see `shingle::asked`.
    pub fingerprints: &'a [u64],
    /// Of all fingerprints, length by length.
    pub runs: &'a [u64],
    /// The number of the page's own text.
    pub own: u64,
}

/// The chains of keys that a page asks for: its bands', then its fingerprints'.
struct Chains<'a> {
    asked: Asked<'a>,
    bands: usize,
    /// Of the fingerprints that are asked for, places among all of them.
    places: Vec<usize>,
}

impl<'a> Chains<'a> {
    fn new(asked: Asked<'a>) -> Self {
        let mut few = Vec::new();
        shingle::asked(asked.fingerprints, &mut few);
        let mut few = few.into_iter().peekable();
        let is_asked = |place: &usize| few.next_if_eq(&asked.fingerprints[*place]).is_some();
        let places = (0..asked.fingerprints.len()).filter(is_asked).collect();
        Self { asked, bands: asked.band_keys.len().min(BANDS), places }
    }

    fn len(&self) -> usize {
        self.bands + self.places.len()
    }

    fn key(&self, chain: usize, depth: usize) -> Option<u64> {
        let Some(number) = chain.checked_sub(self.bands) else {
            return self.asked.band_keys.get(depth * BANDS + chain).copied();
        };
        let place = self.places[number];
        match depth.checked_sub(1) {
            None => Some(self.asked.fingerprints[place]),
            Some(length) => self.asked.runs.get(length * self.asked.fingerprints.len() + place).copied(),
        }
    }
}

/// Where the bucket of a band at this depth is full, there is a second one, of texts in the middle of a crowd.
const CROWD_DEPTH: usize = 1;

/// A text half of whose bands go on to this depth is in the middle of a crowd.
const MIDDLE_DEPTH: usize = 4;

/// Turns the key of the one into that of the other.
const CROWD: u64 = 0x5bf0_3635_dcf9_8c31;

/// Of fingerprints with full buckets, so many chains are gone along.
const TEMPLATE_CHAINS: usize = 16;

/// What going along the chains of a page gives; see `dedup.index.Proposal`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub proposal: Proposal,
    pub is_crowded: bool,
    pub further_keys: Vec<u64>,
}

/// `propose_by` with look-ups in layers, oldest first.
pub fn propose(layers: &[Layer<'_>], asked: Asked<'_>, limit: usize, looks: Looks) -> Result<Answer, Damaged> {
    propose_by(asked, limit, looks, |mut keys| {
        keys.iter_mut().for_each(|key| *key = mix_key(*key));
        gather(layers, &keys, limit)
    })
}

/// Go along the chains of a page, and rank what is found: `propose` of `tests/reference/ranking.py`.
///
/// `find` gives (which key, text) of each posting of some keys, at most `limit` of a key.
pub fn propose_by<E>(
    asked: Asked<'_>,
    limit: usize,
    looks: Looks,
    mut find: impl FnMut(Vec<u64>) -> Result<Vec<(u32, u64)>, E>,
) -> Result<Answer, E> {
    let chains = Chains::new(asked);
    let mut postings = Vec::new();
    let mut further_keys = Vec::new();
    let mut crowd = Vec::new();
    let (mut full_bands, mut full_fingerprints) = (chains.bands, chains.len() - chains.bands);
    let mut open: Vec<usize> = (0..chains.len()).collect();
    for depth in 0.. {
        let mut keys = Vec::with_capacity(open.len());
        open.retain(|&chain| match chains.key(chain, depth) {
            Some(key) => {
                keys.push(key);
                true
            }
            None => false,
        });
        if open.is_empty() {
            break;
        }
        if depth > 0 {
            further_keys.extend_from_slice(&keys);
        }
        let in_bands = open.partition_point(|&chain| chain < chains.bands);
        if depth == CROWD_DEPTH + 1 {
            crowd.extend(
                open[..in_bands].iter().filter_map(|&chain| chains.key(chain, CROWD_DEPTH)).map(|key| key ^ CROWD),
            );
            keys.extend_from_slice(&crowd);
        }
        if depth == MIDDLE_DEPTH && in_bands * 2 >= chains.bands {
            further_keys.extend_from_slice(&crowd);
        }
        let mut counts = vec![0; keys.len()];
        let found = find(keys)?;
        for &(owner, _) in &found {
            counts[owner as usize] += 1;
        }
        let weights: Vec<u32> = counts.iter().map(|&texts| ranking::weight(texts, limit)).collect();
        postings.extend(found.into_iter().map(|(owner, text)| {
            let owner = owner as usize;
            let is_band = open.get(owner).is_none_or(|&chain| chain < chains.bands);
            Posting { text, weight: weights[owner], is_band }
        }));
        let has_room = |texts: &&usize| **texts < limit;
        full_bands -= counts[..in_bands].iter().filter(has_room).count();
        full_fingerprints -= counts[in_bands..open.len()].iter().filter(has_room).count();
        let mut counts = counts.into_iter();
        open.retain(|_| counts.next().is_some_and(|texts| texts >= limit));
        if depth == 0 {
            open.truncate(open.partition_point(|&chain| chain < chains.bands) + TEMPLATE_CHAINS);
        }
    }
    let is_crowded = chains.bands > 0 && 2 * full_bands >= chains.bands
        || chains.len() > chains.bands && full_fingerprints == chains.len() - chains.bands;
    let proposal = ranking::rank(&postings, asked.own, looks);
    Ok(Answer { proposal, is_crowded, further_keys })
}

/// A slot without a key.
const EMPTY: u64 = u64::MAX;
/// In a slot whose key has several postings: the rest names a list of places.
const MANY: u64 = 1 << (PLACE_BITS - 1);
/// Lists are as long as powers of two, from this one on; a list begins at a multiple of it.
const LIST_UNIT: usize = 4;

/// Postings that no run holds yet, in an open-addressed table: most keys have one posting, which their slot holds.
#[derive(Debug, Default)]
pub struct Recent {
    /// All postings, `key << 24 | place`, in order of arrival.
    postings: Vec<u64>,
    /// `key << 24 | place`, or `key << 24 | MANY | list`.
    slots: Vec<u64>,
    /// Slots that have a key.
    keys: usize,
    /// Lists: the number of places, the places, and room for more up to a power of two.
    lists: Vec<u32>,
    texts: Vec<u64>,
}

impl Recent {
    pub fn texts(&self) -> &[u64] {
        &self.texts
    }

    /// How many postings there are.
    pub fn len(&self) -> usize {
        self.postings.len()
    }

    pub fn is_empty(&self) -> bool {
        self.postings.is_empty()
    }

    /// All postings, `key << 24 | place`, sorted, at most `limit` of a key.
    pub fn sorted(&self, limit: usize) -> Vec<u64> {
        let mut postings = self.postings.clone();
        postings.sort_unstable();
        postings.dedup(); // two keys of a text may agree in 40 bits
        bound(&mut postings, limit);
        postings
    }

    pub fn memory_bytes(&self) -> usize {
        (self.postings.capacity() + self.slots.capacity() + self.texts.capacity()) * size_of::<u64>()
            + self.lists.capacity() * size_of::<u32>()
    }

    /// Add a text under mixed keys, different ones; false where there is no room for another.
    pub fn post(&mut self, text: u64, keys: &[u64]) -> bool {
        let place = self.texts.len() as u64;
        // Each key may double the list that it has.
        let list_end = self.lists.len() + 4 * self.postings.len() + 2 * LIST_UNIT * keys.len();
        if place >= MANY || list_end >= MANY as usize * LIST_UNIT {
            return false;
        }
        self.texts.push(text);
        while (self.keys + keys.len()) * 2 > self.slots.len() {
            self.grow();
        }
        for (at, &key) in self.ends(keys).into_iter().zip(keys) {
            self.postings.push(key << PLACE_BITS | place);
            self.insert(at, key, place as u32);
        }
        true
    }

    /// All texts with their keys as cells of a row of a log, so many texts in each; one cell if there is none.
    ///
    /// A cell is the varint `durable_end`, then for each text its number, the varint of how many keys, and these.
    pub fn log(&self, durable_end: u64, cell_texts: usize) -> Vec<Vec<u8>> {
        let mut cells = Vec::new();
        let mut postings = &self.postings[..];
        for (place, text) in self.texts.iter().enumerate() {
            if place % cell_texts == 0 {
                cells.push(Vec::new());
                push_varint(durable_end, &mut cells[place / cell_texts]);
            }
            let cell = &mut cells[place / cell_texts];
            let keys = postings.iter().take_while(|&&posting| posting & PLACE_MASK == place as u64).count();
            let (its, behind) = postings.split_at(keys);
            postings = behind;
            cell.extend_from_slice(&text.to_be_bytes()[8 - TEXT_BYTES..]);
            push_varint(keys as u64, cell);
            for posting in its {
                cell.extend_from_slice(&(posting >> PLACE_BITS).to_le_bytes()[..KEY_BYTES]);
            }
        }
        if cells.is_empty() {
            cells.push(Vec::new());
            push_varint(durable_end, &mut cells[0]);
        }
        cells
    }

    /// Post the texts of a cell of a log.
    pub fn replay(&mut self, cell: &[u8]) -> Result<(), Damaged> {
        let mut rest = cell;
        take_varint(&mut rest)?;
        let mut keys = Vec::new();
        while !rest.is_empty() {
            let (number, behind) = rest.split_at_checked(TEXT_BYTES).ok_or(Damaged)?;
            rest = behind;
            let count = usize::try_from(take_varint(&mut rest)?).map_err(|_| Damaged)?;
            let bytes = count.checked_mul(KEY_BYTES).ok_or(Damaged)?;
            let (its, behind) = rest.split_at_checked(bytes).ok_or(Damaged)?;
            rest = behind;
            keys.clear();
            let key = |bytes: &[u8]| bytes.iter().rev().fold(0, |key, &byte| key << 8 | u64::from(byte));
            keys.extend(its.chunks_exact(KEY_BYTES).map(key));
            if !self.post(number.iter().fold(0, |text, &byte| text << 8 | u64::from(byte)), &keys) {
                return Err(Damaged);
            }
        }
        Ok(())
    }

    /// Whether a search for a key ends at a slot.
    #[inline]
    fn is_end(slot: u64, key: u64) -> bool {
        slot == EMPTY || slot >> PLACE_BITS == key
    }

    /// The slot of a key, from a slot on: its own, or the empty one where it would be.
    #[inline]
    fn end(&self, key: u64, from: usize) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = from & mask;
        while !Self::is_end(self.slots[at], key) {
            at = (at + 1) & mask;
        }
        at
    }

    /// The slots of keys; none in an empty table.
    ///
    /// Each first slot may miss every cache, so they are read one after the other, without a branch between.
    fn ends(&self, keys: &[u64]) -> Vec<usize> {
        if self.slots.is_empty() {
            return Vec::new();
        }
        let mask = self.slots.len() - 1;
        let firsts: Vec<u64> = keys.iter().map(|&key| self.slots[key as usize & mask]).collect();
        let resolve = |(slot, &key): (u64, &u64)| {
            let at = key as usize;
            if Self::is_end(slot, key) {
                at & mask
            } else {
                self.end(key, at + 1)
            }
        };
        firsts.into_iter().zip(keys).map(resolve).collect()
    }

    /// Add a place to a key; `at` is its slot, or was before other keys of the text were added.
    fn insert(&mut self, at: usize, key: u64, place: u32) {
        let at = self.end(key, at);
        let slot = self.slots[at];
        if slot == EMPTY {
            self.keys += 1;
            self.slots[at] = key << PLACE_BITS | u64::from(place);
            return;
        }
        let list = if slot & MANY == 0 {
            let list = self.lists.len();
            self.lists.extend_from_slice(&[1, (slot & PLACE_MASK) as u32, 0, 0]);
            list
        } else {
            (slot & (MANY - 1)) as usize * LIST_UNIT
        };
        let used = 1 + self.lists[list] as usize;
        let list = if used >= LIST_UNIT && used.is_power_of_two() {
            let moved = self.lists.len();
            self.lists.extend_from_within(list..list + used);
            self.lists.resize(moved + 2 * used, 0);
            moved
        } else {
            list
        };
        self.lists[list + used] = place;
        self.lists[list] += 1;
        self.slots[at] = key << PLACE_BITS | MANY | (list / LIST_UNIT) as u64;
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(1024);
        let slots = std::mem::replace(&mut self.slots, vec![EMPTY; size]);
        for slot in slots.into_iter().filter(|&slot| slot != EMPTY) {
            let key = slot >> PLACE_BITS;
            let at = self.end(key, key as usize);
            self.slots[at] = slot;
        }
    }

    /// Append the texts of each key with the number of the key, as many as `left` says of it; one key's in order of
    /// arrival.
    fn texts_of(&self, keys: &[u64], left: &mut [usize], found: &mut Vec<(u32, u64)>) {
        for ((owner, at), left) in self.ends(keys).into_iter().enumerate().zip(left) {
            let slot = self.slots[at];
            if slot == EMPTY {
                continue;
            }
            let one = [(slot & PLACE_MASK) as u32];
            let places = if slot & MANY == 0 {
                &one[..]
            } else {
                let list = (slot & (MANY - 1)) as usize * LIST_UNIT;
                &self.lists[list + 1..=list + self.lists[list] as usize]
            };
            let places = &places[..places.len().min(*left)];
            found.extend(places.iter().map(|&place| (owner as u32, self.texts[place as usize])));
            *left -= places.len();
        }
    }
}
