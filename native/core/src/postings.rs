//! Runs of postings together: made, merged and looked up; `docstore/dedup/runs.py` and `recent.py`.

use crate::slices::{encode_slice, Damaged, Found, Run, Shape, LIST_LIMIT, PLACE_BITS};

const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
const SECOND: u64 = 0xd6e8_feb8_6659_fd93;
const NONE: u32 = u32::MAX;

/// `runs.mix_keys` of one key.
#[inline]
pub fn mix_key(key: u64) -> u64 {
    let mut mixed = key.wrapping_mul(FIRST);
    mixed ^= mixed >> 32;
    mixed = mixed.wrapping_mul(SECOND);
    mixed ^= mixed >> 32;
    mixed >> 24
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
        let next_slice = first >> shape.slice_bits.checked_sub(run.shape.slice_bits).ok_or(Damaged)?;
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

/// Look up mixed keys in runs, oldest first, then in the table: for each posting which key, ascending, and its text.
///
/// At most `limit` texts of a key, the first ones.
pub fn find(
    runs: &[Run<'_>],
    recent: Option<&Recent>,
    keys: &[u64],
    limit: usize,
) -> Result<(Vec<u64>, Vec<u64>), Damaged> {
    if keys.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let mut found: Vec<Option<Found>> = Vec::with_capacity(runs.len() * keys.len());
    for run in runs {
        run.find(keys, &mut found)?;
    }
    let (mut owners, mut texts) = (Vec::new(), Vec::new());
    let mut places = Vec::with_capacity(limit.min(LIST_LIMIT));
    for (owner, &key) in keys.iter().enumerate() {
        let begin = texts.len();
        for (run, of_run) in runs.iter().zip(found.chunks_exact(keys.len())) {
            if let Some(found) = of_run[owner] {
                places.clear();
                run.places(found, limit - (texts.len() - begin), &mut places)?;
                for &place in &places {
                    texts.push(run.text(place)?);
                }
            }
        }
        if let Some(recent) = recent {
            recent.texts_of(key, limit - (texts.len() - begin), &mut texts);
        }
        owners.resize(texts.len(), owner as u64);
    }
    Ok((owners, texts))
}

/// Postings that no run holds yet: chains of equal keys behind an open-addressed table.
#[derive(Debug, Default)]
pub struct Recent {
    postings: Vec<u64>,
    next: Vec<u32>,
    slots: Vec<[u32; 2]>,
    texts: Vec<u64>,
    chains: usize,
}

impl Recent {
    pub fn texts(&self) -> &[u64] {
        &self.texts
    }

    /// All postings, `key << 24 | place`, in order of arrival.
    pub fn postings(&self) -> &[u64] {
        &self.postings
    }

    pub fn memory_bytes(&self) -> usize {
        (self.postings.capacity() + self.slots.capacity() + self.texts.capacity()) * 8 + self.next.capacity() * 4
    }

    /// Add a text under mixed keys, different ones; false where there is no room for another.
    pub fn post(&mut self, text: u64, keys: impl Iterator<Item = u64>) -> bool {
        let place = self.texts.len() as u64;
        if place >> PLACE_BITS != 0 {
            return false;
        }
        self.texts.push(text);
        for key in keys {
            if self.postings.len() >= NONE as usize {
                return false;
            }
            if (self.chains + 1) * 2 > self.slots.len() {
                self.grow();
            }
            let number = self.postings.len() as u32;
            self.postings.push(key << PLACE_BITS | place);
            self.next.push(NONE);
            self.link(key, number);
        }
        true
    }

    /// The slot of a key: its own, or the empty one where it would be.
    fn slot(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = key as usize & mask;
        while self.slots[at][0] != NONE && self.postings[self.slots[at][0] as usize] >> PLACE_BITS != key {
            at = (at + 1) & mask;
        }
        at
    }

    fn link(&mut self, key: u64, number: u32) {
        let at = self.slot(key);
        if self.slots[at][0] == NONE {
            self.slots[at] = [number, number];
            self.chains += 1;
        } else {
            let last = self.slots[at][1];
            self.next[last as usize] = number;
            self.slots[at][1] = number;
        }
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(1024);
        let chains = std::mem::replace(&mut self.slots, vec![[NONE; 2]; size]);
        for chain in chains.into_iter().filter(|chain| chain[0] != NONE) {
            let at = self.slot(self.postings[chain[0] as usize] >> PLACE_BITS);
            self.slots[at] = chain;
        }
    }

    /// Append at most `limit` texts of a key, in order of arrival.
    pub fn texts_of(&self, key: u64, limit: usize, texts: &mut Vec<u64>) {
        if self.slots.is_empty() {
            return;
        }
        let mut number = self.slots[self.slot(key)][0];
        for _ in 0..limit {
            if number == NONE {
                return;
            }
            let place = self.postings[number as usize] & ((1 << PLACE_BITS) - 1);
            texts.push(self.texts[place as usize]);
            number = self.next[number as usize];
        }
    }
}
