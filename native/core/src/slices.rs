//! Slices of a run of postings, packed and unpacked: `tests/reference/postings.py`.
//!
//! A posting is `key << 24 | place`.  Bytes that are not as they were written give wrong postings or `Damaged`.

pub const KEY_BITS: u32 = 40;
pub const PLACE_BITS: u32 = 24;
pub const BUCKET_BITS: u32 = 8;
const BUCKETS: usize = 1 << BUCKET_BITS;
const UNIT_BYTES: usize = 8;
const HEAD_BYTES: usize = 8;
pub const COUNT_BITS: u32 = 6;
pub const STEP_BITS: u32 = 5;
const LIST_HEAD_BITS: u32 = COUNT_BITS + STEP_BITS;
/// Texts of one key that a slice can hold.
pub const LIST_LIMIT: usize = (1 << COUNT_BITS) + 1;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;

/// A run leads outside itself: it is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// How a run is cut: `2^slice_bits` slices; places take `place_bits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub slice_bits: u32,
    pub place_bits: u32,
}

impl Shape {
    /// None where an entry would not lie in 57 bits.
    pub fn new(slice_bits: u32, place_bits: u32) -> Option<Self> {
        let shape = Self { slice_bits, place_bits };
        let fits = slice_bits <= 24 && place_bits <= PLACE_BITS && shape.entry_bits() <= 57;
        fits.then_some(shape)
    }

    fn tag_bits(self) -> u32 {
        KEY_BITS - BUCKET_BITS - self.slice_bits
    }

    fn entry_bits(self) -> u32 {
        self.tag_bits() + 1 + self.place_bits
    }

    /// The first posting that a slice may have; behind the last slice, the end of all.
    pub fn begin(self, slice: usize) -> u64 {
        if slice >= self.slices() {
            return u64::MAX;
        }
        (slice as u64).checked_shl(KEY_BITS + PLACE_BITS - self.slice_bits).unwrap_or(0)
    }

    pub fn slices(self) -> usize {
        1 << self.slice_bits
    }
}

fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// A number of at most 57 bits at a bit position.
#[inline]
fn read_bits(bytes: &[u8], position: usize, bits: u32) -> Result<u64, Damaged> {
    Ok(word(bytes, position / 8)? >> (position % 8) & mask(bits))
}

#[inline]
fn word(bytes: &[u8], at: usize) -> Result<u64, Damaged> {
    let end = at.checked_add(8).ok_or(Damaged)?;
    let eight = bytes.get(at..end).ok_or(Damaged)?;
    Ok(u64::from_le_bytes(eight.try_into().map_err(|_| Damaged)?))
}

/// Numbers one behind the other, lowest bit first.
struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    held: u64,
    bits: u32,
}

impl<'a> BitWriter<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, held: 0, bits: 0 }
    }

    /// At most 57 bits.
    #[inline]
    fn push(&mut self, value: u64, bits: u32) {
        self.held |= value << self.bits;
        self.bits += bits;
        while self.bits >= 8 {
            self.out.push(self.held as u8);
            self.held >>= 8;
            self.bits -= 8;
        }
    }

    fn end_byte(&mut self) {
        if self.bits > 0 {
            self.out.push(self.held as u8);
            (self.held, self.bits) = (0, 0);
        }
    }
}

fn pad(out: &mut Vec<u8>, begin: usize) {
    out.resize(begin + (out.len() - begin).next_multiple_of(UNIT_BYTES), 0);
}

/// The postings of one key and those behind.
#[inline]
fn split_key(postings: &[u64]) -> (&[u64], &[u64]) {
    let key = postings[0] >> PLACE_BITS;
    let count = 1 + postings[1..].iter().take_while(|&&posting| posting >> PLACE_BITS == key).count();
    postings.split_at(count)
}

/// Append the bytes of one slice; gives how many keys it has.
///
/// `postings` are of that slice, sorted, no key with more than `LIST_LIMIT`.
pub fn encode_slice(postings: &[u64], shape: Shape, out: &mut Vec<u8>) -> usize {
    if postings.is_empty() {
        return 0;
    }
    let (tag_bits, entry_bits) = (shape.tag_bits(), shape.entry_bits());
    let mut fence = [[0_u32; 2]; BUCKETS + 1];
    let mut packed = Vec::with_capacity(postings.len() * 6);
    let mut lists = Vec::new();
    let mut keys = 0;
    let mut bucket = 0;
    let mut entries = BitWriter::new(&mut packed);
    let mut listed = BitWriter::new(&mut lists);
    let mut rest = postings;
    while !rest.is_empty() {
        let (of_key, behind) = split_key(rest);
        rest = behind;
        let key = of_key[0] >> PLACE_BITS;
        let first = of_key[0] & PLACE_MASK;
        let its_bucket = (key >> tag_bits) as usize % BUCKETS;
        if bucket < its_bucket {
            listed.end_byte();
            fence[bucket + 1..=its_bucket].fill([keys, listed.out.len() as u32]);
            bucket = its_bucket;
        }
        let has_list = of_key.len() > 1;
        entries.push(key & mask(tag_bits) | u64::from(has_list) << tag_bits | first << (tag_bits + 1), entry_bits);
        keys += 1;
        if has_list {
            let step = |pair: &[u64]| (pair[1] - pair[0]).saturating_sub(1);
            let widest = of_key.windows(2).map(step).max().unwrap_or(0);
            let width = u64::BITS - widest.leading_zeros();
            listed.push((of_key.len() - 2) as u64 | u64::from(width) << COUNT_BITS, LIST_HEAD_BITS);
            for pair in of_key.windows(2) {
                listed.push(step(pair), width);
            }
        }
    }
    entries.end_byte();
    listed.end_byte();
    fence[bucket + 1..].fill([keys, lists.len() as u32]);

    let begin = out.len();
    let wide = keys.max(lists.len() as u32) >= 1 << 16;
    out.extend_from_slice(&keys.to_le_bytes());
    out.extend_from_slice(&[if wide { 4 } else { 2 }, 0, 0, 0]);
    for number in fence.as_flattened() {
        out.extend_from_slice(&number.to_le_bytes()[..if wide { 4 } else { 2 }]);
    }
    pad(out, begin);
    out.extend_from_slice(&packed);
    pad(out, begin);
    out.extend_from_slice(&lists);
    pad(out, begin);
    out.extend_from_slice(&[0; UNIT_BYTES]);
    keys as usize
}

/// Where an entry's places are: the first, and the bit position of the list of those behind it.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    first: u64,
    list: Option<usize>,
}

/// A bucket to look into: bytes at which the slice's entries begin, keys first..last, bit position of its lists.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    entries: usize,
    first: usize,
    last: usize,
    lists: usize,
}

/// A run over its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    bytes: &'a [u8],
    texts: &'a [u8],
    slices: usize,
    index: &'a [u8],
    pub shape: Shape,
}

impl<'a> Run<'a> {
    /// `bytes` of the whole file; `texts`, `slices`, `index`: where each part begins, `end` where the last one ends.
    pub fn new(bytes: &'a [u8], [texts, slices, index, end]: [usize; 4], shape: Shape) -> Result<Self, Damaged> {
        let index = bytes.get(index..end).ok_or(Damaged)?;
        let texts = bytes.get(texts..slices).ok_or(Damaged)?;
        if index.len() / 4 <= shape.slices() || index.len() % 8 != 0 {
            return Err(Damaged);
        }
        Ok(Self { bytes, texts, slices, index, shape })
    }

    /// Bytes at which a slice begins and ends.
    #[inline]
    fn span(&self, slice: usize) -> Result<(usize, usize), Damaged> {
        let both = word(self.index, slice * 4)?; // the index is filled up to a multiple of 8 bytes
        let place = |units: u64| self.slices + units as usize * UNIT_BYTES;
        Ok((place(both & mask(32)), place(both >> 32)))
    }

    #[inline]
    fn bucket(&self, (begin, end): (usize, usize), bucket: usize) -> Result<Bucket, Damaged> {
        if begin == end {
            return Ok(Bucket::default());
        }
        let head = word(self.bytes, begin)?;
        let (keys, number_bytes) = ((head & mask(32)) as usize, (head >> 32) as usize & 0xff);
        let at = begin + HEAD_BYTES + bucket * 2 * number_bytes;
        let number = |place: usize| read_bits(self.bytes, (at + place * number_bytes) * 8, number_bytes as u32 * 8);
        if number_bytes != 2 && number_bytes != 4 {
            return Err(Damaged);
        }
        let (first, lists, last) = (number(0)? as usize, number(1)? as usize, number(2)? as usize);
        if first > last || last > keys {
            return Err(Damaged);
        }
        let entries = begin + HEAD_BYTES + ((BUCKETS + 1) * 2 * number_bytes).next_multiple_of(UNIT_BYTES);
        let behind = entries + (keys * self.shape.entry_bits() as usize).div_ceil(64) * 8;
        Ok(Bucket { entries, first, last, lists: (behind + lists) * 8 })
    }

    #[inline]
    fn entry(&self, bucket: &Bucket, number: usize) -> Result<u64, Damaged> {
        let bits = self.shape.entry_bits();
        read_bits(self.bytes, bucket.entries * 8 + number * bits as usize, bits)
    }

    /// Steps in a list and bits of each.
    #[inline]
    fn list_head(&self, list: usize) -> Result<(usize, u32), Damaged> {
        let head = read_bits(self.bytes, list, LIST_HEAD_BITS)?;
        Ok(((head & mask(COUNT_BITS)) as usize + 1, (head >> COUNT_BITS) as u32))
    }

    #[inline]
    fn behind_list(&self, list: usize) -> Result<usize, Damaged> {
        let (steps, width) = self.list_head(list)?;
        Ok(list + LIST_HEAD_BITS as usize + steps * width as usize)
    }

    #[inline]
    fn key_in(&self, bucket: &Bucket, key: u64) -> Result<Option<Found>, Damaged> {
        let tag_bits = self.shape.tag_bits();
        let tag = key & mask(tag_bits);
        let mut list = bucket.lists;
        for number in bucket.first..bucket.last {
            let entry = self.entry(bucket, number)?;
            let its_tag = entry & mask(tag_bits);
            if its_tag >= tag {
                let has_list = entry >> tag_bits & 1 == 1;
                let found = Found { first: entry >> (tag_bits + 1), list: has_list.then_some(list) };
                return Ok((its_tag == tag).then_some(found));
            }
            if entry >> tag_bits & 1 == 1 {
                list = self.behind_list(list)?;
            }
        }
        Ok(None)
    }

    /// Look up each key; what is found comes in `found`, one for each.
    ///
    /// Step by step for all of them, so that the reads of one step, each of which may miss every cache, overlap.
    pub fn find(&self, keys: &[u64], found: &mut Vec<Option<Found>>) -> Result<(), Damaged> {
        let fence_bits = KEY_BITS - self.shape.slice_bits;
        let spans: Vec<_> =
            keys.iter().map(|&key| self.span((key >> fence_bits) as usize)).collect::<Result<_, _>>()?;
        let tag_bits = self.shape.tag_bits();
        let buckets: Vec<_> = keys
            .iter()
            .zip(spans)
            .map(|(&key, span)| self.bucket(span, (key >> tag_bits) as usize % BUCKETS))
            .collect::<Result<_, _>>()?;
        for (&key, bucket) in keys.iter().zip(&buckets) {
            found.push(self.key_in(bucket, key)?);
        }
        Ok(())
    }

    /// Append at most `limit` places, ascending.
    pub fn places(&self, found: Found, limit: usize, places: &mut Vec<u64>) -> Result<(), Damaged> {
        if limit == 0 {
            return Ok(());
        }
        places.push(found.first);
        let Some(list) = found.list else { return Ok(()) };
        let (steps, width) = self.list_head(list)?;
        let mut place = found.first;
        let mut at = list + LIST_HEAD_BITS as usize;
        for _ in 0..steps.min(limit - 1) {
            place = place.wrapping_add(read_bits(self.bytes, at, width)? + 1);
            at += width as usize;
            places.push(place);
        }
        Ok(())
    }

    /// The text number at a place.
    #[inline]
    pub fn text(&self, place: u64) -> Result<u64, Damaged> {
        let at = place as usize * 6;
        let six = self.texts.get(at..at + 6).ok_or(Damaged)?;
        let mut eight = [0; 8];
        eight[..6].copy_from_slice(six);
        Ok(u64::from_le_bytes(eight))
    }

    /// Append all postings of one slice, sorted.
    pub fn postings(&self, slice: usize, postings: &mut Vec<u64>) -> Result<(), Damaged> {
        let span = self.span(slice)?;
        if span.0 == span.1 {
            return Ok(());
        }
        let tag_bits = self.shape.tag_bits();
        let mut places = Vec::with_capacity(LIST_LIMIT);
        for number in 0..BUCKETS {
            let bucket = self.bucket(span, number)?;
            let mut list = bucket.lists;
            for place in bucket.first..bucket.last {
                let entry = self.entry(&bucket, place)?;
                let key = (slice << BUCKET_BITS | number) as u64;
                let head = (key << tag_bits | entry & mask(tag_bits)) << PLACE_BITS;
                let first = entry >> (tag_bits + 1);
                if entry >> tag_bits & 1 == 0 {
                    postings.push(head | first);
                    continue;
                }
                places.clear();
                self.places(Found { first, list: Some(list) }, usize::MAX, &mut places)?;
                list = self.behind_list(list)?;
                postings.extend(places.iter().map(|&place| head.wrapping_add(place)));
            }
        }
        Ok(())
    }
}
