//! Where six bytes have stood before: an index of what is leant on, and of the value as far as it is read.
//!
//! Both are tables of places by hash.  Beside each place stand eight more bits of the hash, so that a look-up that finds
//! nothing hardly ever has to look at the text.

use std::ops::RangeInclusive;

/// A place takes so many bits of an entry, its tag the rest.
pub const PLACE_BITS: u32 = 24;
/// So many bytes are hashed: the shortest copy that pays at the distances of a dictionary.
pub const HASHED_BYTES: usize = 6;
/// Bytes that are read for it.
pub const READ_BYTES: usize = 8;
/// A base is noted at every so many places; a copy found late is extended backward.
const BASE_STEP: usize = 4;
/// The same of a dictionary.
const DICTIONARY_STEP: usize = 2;
/// Places kept of one hash, the last ones.
const WAYS: usize = 4;
/// Tables have about one entry for so many bytes of a dictionary, and of a value: what the processor's cache does not
/// hold costs more time than it saves bytes.
const DICTIONARY_BYTES_AN_ENTRY: usize = 8;
const VALUE_BYTES_AN_ENTRY: usize = 4;
const INDEX_BITS: RangeInclusive<u32> = 8..=15;
const RECENT_BITS: RangeInclusive<u32> = 6..=14;
/// A base is noted as a whole, whatever its length.
const BASE_BITS: RangeInclusive<u32> = 6..=20;
const TAG_MASK: u32 = (1 << (32 - PLACE_BITS)) - 1;
const MULTIPLIER: u64 = 0x9E37_79B1_85EB_CA87;

/// Six bytes as a number, and its hash: the lowest bits say where in a table, the highest ones are the tag.
#[derive(Clone, Copy)]
pub struct Key {
    bytes: u64,
    hash: u64,
}

impl Key {
    /// Of the bytes at a place, eight of which there are.
    #[inline(always)]
    pub fn at(text: &[u8], place: usize) -> Self {
        let bytes = eight(text, place) << (8 * (READ_BYTES - HASHED_BYTES));
        // Both halves of the product, so that every bit depends on every byte.
        let product = u128::from(bytes) * u128::from(MULTIPLIER);
        Self { bytes, hash: product as u64 ^ (product >> 64) as u64 }
    }

    /// Whether the same six bytes stand at a place.
    #[inline(always)]
    pub fn stands_at(self, text: &[u8], place: usize) -> bool {
        eight(text, place) << (8 * (READ_BYTES - HASHED_BYTES)) == self.bytes
    }

    /// Where it stands in a table of so many entries, a power of two.
    #[inline(always)]
    fn slot(self, entries: usize) -> usize {
        self.hash as usize & (entries - 1)
    }

    #[inline(always)]
    fn tag(self) -> u32 {
        (self.hash >> 56) as u32
    }

    #[inline(always)]
    fn entry(self, place: usize) -> u32 {
        (place as u32) << (32 - PLACE_BITS) | self.tag()
    }
}

/// Eight bytes as a number.
#[inline(always)]
pub fn eight(text: &[u8], place: usize) -> u64 {
    u64::from_le_bytes(text[place..place + 8].try_into().expect("eight bytes"))
}

/// Four bytes as a number.
#[inline(always)]
pub fn four(text: &[u8], place: usize) -> u32 {
    u32::from_le_bytes(text[place..place + 4].try_into().expect("four bytes"))
}

#[inline(always)]
fn place_of(entry: u32) -> usize {
    (entry >> (32 - PLACE_BITS)) as usize
}

fn bits_for(places: usize, bounds: RangeInclusive<u32>) -> u32 {
    (usize::BITS - places.leading_zeros()).clamp(*bounds.start(), *bounds.end())
}

/// Of what is leant on: the last place of each hash.  An entry of zero bits names place 0, like any other to be tried.
pub struct Index {
    entries: Vec<u32>,
}

impl Index {
    pub fn new(content: &[u8]) -> Self {
        let bits = bits_for(content.len() / DICTIONARY_BYTES_AN_ENTRY, INDEX_BITS);
        let mut entries = vec![0; 1 << bits];
        let slots = entries.len();
        let end = (content.len() + 1).saturating_sub(READ_BYTES);
        for place in (0..end).step_by(DICTIONARY_STEP) {
            let key = Key::at(content, place);
            entries[key.slot(slots)] = key.entry(place);
        }
        Self { entries }
    }

    /// Bytes of memory.
    pub fn capacity(&self) -> usize {
        self.entries.capacity() * size_of::<u32>()
    }

    #[inline(always)]
    fn entry(&self, key: Key) -> u32 {
        self.entries[key.slot(self.entries.len())]
    }
}

/// The last places of each hash in a text that is being read.
#[derive(Default)]
pub struct Recent {
    buckets: Vec<[u32; WAYS]>,
}

impl Recent {
    /// Empty, for a value that leans on no base.
    pub fn clear(&mut self, value_bytes: usize) {
        self.clear_to(bits_for(value_bytes / VALUE_BYTES_AN_ENTRY / WAYS, RECENT_BITS));
    }

    /// Empty but for the base that is the text's beginning.
    pub fn clear_to_base(&mut self, text: &[u8], base_bytes: usize) {
        let value_places = (text.len() - base_bytes) / VALUE_BYTES_AN_ENTRY;
        let value_places = value_places.min(WAYS << RECENT_BITS.end());
        self.clear_to(bits_for((base_bytes / BASE_STEP + value_places) / WAYS, BASE_BITS));
        let end = base_bytes.min((text.len() + 1).saturating_sub(READ_BYTES));
        for place in (0..end).step_by(BASE_STEP) {
            self.note(Key::at(text, place), place);
        }
    }

    fn clear_to(&mut self, bits: u32) {
        self.buckets.clear();
        self.buckets.resize(1 << bits, [0; WAYS]);
    }

    /// Bytes of memory.
    pub fn capacity(&self) -> usize {
        self.buckets.capacity() * size_of::<[u32; WAYS]>()
    }

    #[inline(always)]
    pub fn note(&mut self, key: Key, place: usize) {
        let slot = key.slot(self.buckets.len());
        let bucket = &mut self.buckets[slot];
        *bucket = [key.entry(place), bucket[0], bucket[1], bucket[2]];
    }

    /// Places that may have these bytes, the last of the text first, then the index's; and note this one.
    #[inline(always)]
    pub fn places_and_note(&mut self, key: Key, place: usize, index: Option<&Index>) -> Candidates {
        let far = index.map_or(!key.tag(), |index| index.entry(key));
        let slot = key.slot(self.buckets.len());
        let bucket = &mut self.buckets[slot];
        let near = *bucket;
        let mut left = same_tags(near, key.tag());
        left |= u32::from((far ^ key.tag()) & TAG_MASK == 0) << WAYS;
        *bucket = [key.entry(place), near[0], near[1], near[2]];
        Candidates { entries: [near[0], near[1], near[2], near[3], far, 0, 0, 0], left }
    }
}

/// A bit for each entry of a bucket that has this tag.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
#[inline(always)]
fn same_tags(bucket: [u32; WAYS], tag: u32) -> u32 {
    use std::arch::x86_64 as simd;
    let [first, second, third, fourth] = bucket.map(|entry| entry as i32);
    // SAFETY: every processor of this architecture has SSE2; numbers go in and out, no pointers.
    unsafe {
        let entries = simd::_mm_set_epi32(fourth, third, second, first);
        let tags = simd::_mm_and_si128(entries, simd::_mm_set1_epi32(TAG_MASK as i32));
        let same = simd::_mm_cmpeq_epi32(tags, simd::_mm_set1_epi32(tag as i32));
        simd::_mm_movemask_ps(simd::_mm_castsi128_ps(same)) as u32
    }
}

/// A bit for each entry of a bucket that has this tag.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn same_tags(bucket: [u32; WAYS], tag: u32) -> u32 {
    bucket.iter().rev().fold(0, |bits, entry| bits << 1 | u32::from(entry & TAG_MASK == tag))
}

/// Places whose tag is right.
pub struct Candidates {
    entries: [u32; 2 * WAYS],
    left: u32,
}

impl Iterator for Candidates {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        let way = self.left.trailing_zeros() as usize % self.entries.len();
        self.left &= self.left - 1;
        Some(place_of(self.entries[way]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_told_apart_whatever_places_stand_beside_them() {
        for places in [0, 1, 0xFF, 0x0080_8080, 0x00FF_FFFF] {
            for wanted in [0, 1, 0x7F, 0x80, 0xFF] {
                for mask in 0..1u32 << WAYS {
                    let bucket = std::array::from_fn(|way| {
                        let tag = if mask >> way & 1 == 1 { wanted } else { wanted ^ 1 << way };
                        places << (32 - PLACE_BITS) | tag
                    });
                    assert_eq!(same_tags(bucket, wanted), mask, "tag {wanted:x}, places {places:x}");
                }
            }
        }
    }
}
