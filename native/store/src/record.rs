//! Records of a segment: what is written, what a reader accepts, and how one is found among damage.
//!
//! A record is a header of 18 bytes (narrow) or 28 (wide), fields, the CRC of both, started from the segment's number,
//! and the payload, whose CRC is in the header.  Fields: by what the codec names a dictionary, a base or the body; a
//! column that has no number; the row key.

use std::borrow::Cow;

use crate::format::{
    CODEC_STORED, CODEC_ZSTD, CODEC_ZSTD_BODY, CODEC_ZSTD_DELTA, CODEC_ZSTD_DICTIONARY, RECORD_BODY_LENGTH_BYTES,
    RECORD_COLUMNS, RECORD_COPIES, RECORD_CRC_BYTES as CRC_BYTES, RECORD_FIELDS_MAX_BYTES as FIELDS_MAX_BYTES,
    RECORD_GROUP, RECORD_MAGIC, RECORD_NARROW_HEADER_BYTES as NARROW, RECORD_RELATED_BYTES,
    RECORD_TIMESTAMP_STEP as STEP, RECORD_VALUE, RECORD_WIDE as WIDE, RECORD_WIDE_HEADER_BYTES as WIDE_BYTES,
    TIMESTAMP_MAX,
};
use crate::values::Place;
use crate::varint;

/// By so many bytes a record names its dictionary or base, or the body before it, by codec.
const RELATED_BYTES: [usize; 5] = {
    let mut bytes = [0; 5];
    bytes[CODEC_STORED as usize] = 0;
    bytes[CODEC_ZSTD as usize] = 0;
    bytes[CODEC_ZSTD_DICTIONARY as usize] = RECORD_RELATED_BYTES;
    bytes[CODEC_ZSTD_DELTA as usize] = RECORD_RELATED_BYTES;
    bytes[CODEC_ZSTD_BODY as usize] = RECORD_BODY_LENGTH_BYTES;
    bytes
};
const KIND_BITS: u8 = 7;
const MILLISECONDS_END: u64 = 1 << 48;

pub fn crc32(bytes: &[u8], seed: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

/// Bytes with their CRC-32 behind them.
pub fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32(&bytes, 0);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// The bytes before such a CRC-32; None if it is not that of the bytes.
pub fn unsealed(sealed: &[u8]) -> Option<&[u8]> {
    let (bytes, crc) = sealed.split_last_chunk::<CRC_BYTES>()?;
    (crc32(bytes, 0).to_le_bytes() == *crc).then_some(bytes)
}

fn is_kind(kind: u8) -> bool {
    (RECORD_VALUE..=RECORD_COPIES).contains(&kind)
}

/// Where the checksums of a segment's records start: its number; those of a dry run are larger.
fn seed_of(segment: u64) -> u32 {
    segment as u32
}

fn number_of(family: &str, qualifier: &[u8]) -> u8 {
    let is_column = |(_, column): &&(u8, (&str, &[u8]))| column.1 == qualifier && column.0 == family;
    RECORD_COLUMNS.iter().find(is_column).map_or(0, |(number, _)| *number)
}

// --- what is written

/// A record as it is handed in; see `tablets.record.Record`.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    pub kind: u8,
    pub row_key: &'a [u8],
    pub family: &'a str,
    pub qualifier: &'a [u8],
    pub timestamp: u64,
    pub codec: u8,
    /// Empty for a text that is a delta of its body, the record before it.
    pub related: &'a [u8],
    pub raw_bytes: u32,
    pub payload: &'a [u8],
}

/// A record on its way: where its head ends among those of its group, its payload, and where its CRC stands.
struct Part<'a> {
    head_end: usize,
    crc_at: usize,
    payload: Cow<'a, [u8]>,
}

/// Records that will lie one behind the other in a segment from an offset on.
pub struct Records<'a> {
    segment: u64,
    offset: u64,
    heads: Vec<u8>,
    parts: Vec<Part<'a>>,
    total_bytes: usize,
    last_bytes: usize,
}

impl<'a> Records<'a> {
    pub fn new(segment: u64, offset: u64, most: usize) -> Self {
        let (heads, parts) = (Vec::with_capacity(128 * most), Vec::with_capacity(most));
        Self { segment, offset, heads, parts, total_bytes: 0, last_bytes: 0 }
    }

    pub fn total_bytes(&self) -> usize {
        self.total_bytes
    }

    /// Add a record; gives where it will lie, or None if it does not fit the format.
    pub fn add(&mut self, new: NewRecord<'a>) -> Option<Place> {
        self.add_with(new, Cow::Borrowed(new.payload))
    }

    /// Add the mark after which the records of a commit stand.
    pub fn add_mark(&mut self, commit: u64) -> Option<Place> {
        let mut payload = Vec::with_capacity(varint::LONGEST);
        varint::push(&mut payload, commit);
        let (kind, codec, raw_bytes) = (RECORD_GROUP, CODEC_STORED, payload.len() as u32);
        let (row_key, family, qualifier, related): (&[u8], _, &[u8], &[u8]) = (b"", "", b"", b"");
        let mark =
            NewRecord { kind, row_key, family, qualifier, timestamp: 0, codec, related, raw_bytes, payload: &[] };
        self.add_with(mark, Cow::Owned(payload))
    }

    fn add_with(&mut self, new: NewRecord<'_>, payload: Cow<'a, [u8]>) -> Option<Place> {
        let NewRecord { kind, row_key, family, qualifier, timestamp, codec, related, raw_bytes, .. } = new;
        if !is_kind(kind) || timestamp > TIMESTAMP_MAX {
            return None;
        }
        let column = number_of(family, qualifier);
        let mut spelled = Vec::new();
        if column == 0 {
            for name in [family.as_bytes(), qualifier] {
                varint::push(&mut spelled, name.len() as u64);
                spelled.extend_from_slice(name);
            }
        }
        let body_length; // a text names its body, the record before it, by its length
        let related = if codec == CODEC_ZSTD_BODY && related.is_empty() && self.last_bytes > 0 {
            body_length = u32::try_from(self.last_bytes).ok()?.to_le_bytes();
            &body_length[..]
        } else {
            related
        };
        let fields_bytes = related.len() + spelled.len() + row_key.len();
        let payload_bytes = u32::try_from(payload.len()).ok()?;
        if RELATED_BYTES.get(usize::from(codec)) != Some(&related.len()) || fields_bytes > FIELDS_MAX_BYTES {
            return None;
        }
        let start = self.heads.len();
        let tag = kind | codec << 4;
        let milliseconds = timestamp / STEP;
        let short = (u8::try_from(fields_bytes), u16::try_from(payload_bytes), u16::try_from(raw_bytes));
        let is_narrow = timestamp % STEP == 0 && milliseconds < MILLISECONDS_END;
        let heads = &mut self.heads;
        if let ((Ok(fields_bytes), Ok(payload_bytes), Ok(raw_bytes)), true) = (short, is_narrow) {
            heads.extend_from_slice(&[RECORD_MAGIC, tag, column, fields_bytes]);
            heads.extend_from_slice(&payload_bytes.to_le_bytes());
            heads.extend_from_slice(&raw_bytes.to_le_bytes());
            heads.extend_from_slice(&milliseconds.to_le_bytes()[..6]);
        } else {
            heads.extend_from_slice(&[RECORD_MAGIC, tag | WIDE, column, 0]);
            for number in [fields_bytes as u32, payload_bytes, raw_bytes] {
                heads.extend_from_slice(&number.to_le_bytes());
            }
            heads.extend_from_slice(&timestamp.to_le_bytes());
        }
        let crc_at = heads.len();
        heads.extend_from_slice(&[0; CRC_BYTES]);
        heads.extend_from_slice(related);
        heads.extend_from_slice(&spelled);
        heads.extend_from_slice(row_key);
        self.last_bytes = heads.len() - start + CRC_BYTES + payload.len();
        self.parts.push(Part { head_end: heads.len(), crc_at, payload });
        let place = (self.segment, self.offset + self.total_bytes as u64, self.last_bytes as u64);
        self.total_bytes += self.last_bytes;
        Some(place)
    }

    /// Put all of them into `total_bytes` bytes.
    pub fn fill(mut self, mut rest: &mut [u8]) {
        let (mut start, seed) = (0, seed_of(self.segment));
        for part in &self.parts {
            let head = &mut self.heads[start..part.head_end];
            let at = part.crc_at - start;
            head[at..at + CRC_BYTES].copy_from_slice(&crc32(&part.payload, 0).to_le_bytes());
            let crc = crc32(head, seed).to_le_bytes();
            for bytes in [&*head, &crc[..], &part.payload] {
                let (place, behind) = rest.split_at_mut(bytes.len());
                place.copy_from_slice(bytes);
                rest = behind;
            }
            start = part.head_end;
        }
    }
}

// --- what is read

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    CutOff,
    /// The byte that is there in place of the first one of a record.
    NoRecord(u8),
    /// Checksums that are written and found, of header and fields.
    Head(u32, u32),
    Payload(u32, u32),
    /// Tag and column: the checksums hold, so a newer docstore wrote it, or a fault of ours.
    Unknown(u8, u8),
}

/// The fixed part of a record.
struct Head {
    tag: u8,
    column: u8,
    reserved: u8,
    fields_at: usize,
    crc_at: usize,
    payload_bytes: usize,
    raw_bytes: u32,
    timestamp: u64,
    payload_crc: u32,
}

impl Head {
    /// None if it is cut off.
    fn of(source: &[u8]) -> Option<Self> {
        let number = |at: usize, bytes: usize| varint::little_endian(&source[at..at + bytes]);
        let tag = *source.get(1)?;
        let is_wide = tag & WIDE != 0;
        let fields_at = if is_wide { WIDE_BYTES } else { NARROW };
        if source.len() < fields_at {
            return None;
        }
        let column = source[2];
        let head = if is_wide {
            let (crc_at, payload_bytes) = (fields_at + number(4, 4) as usize, number(8, 4) as usize);
            let (raw_bytes, timestamp, payload_crc) = (number(12, 4) as u32, number(16, 8), number(24, 4) as u32);
            Self {
                tag,
                column,
                reserved: source[3],
                fields_at,
                crc_at,
                payload_bytes,
                raw_bytes,
                timestamp,
                payload_crc,
            }
        } else {
            let (crc_at, payload_bytes) = (fields_at + usize::from(source[3]), number(4, 2) as usize);
            let (raw_bytes, timestamp, payload_crc) = (number(6, 2) as u32, number(8, 6) * STEP, number(14, 4) as u32);
            Self { tag, column, reserved: 0, fields_at, crc_at, payload_bytes, raw_bytes, timestamp, payload_crc }
        };
        (source.len() - fields_at >= head.crc_at - fields_at + CRC_BYTES).then_some(head)
    }

    fn is_known(&self) -> bool {
        is_kind(self.tag & KIND_BITS) && usize::from(self.tag >> 4) < RELATED_BYTES.len()
    }

    /// The checksum of header and fields as it is written, and as it is.
    fn checksums(&self, source: &[u8], segment: u64) -> (u32, u32) {
        let written = varint::little_endian(&source[self.crc_at..self.crc_at + CRC_BYTES]) as u32;
        (written, crc32(&source[..self.crc_at], seed_of(segment)))
    }

    fn bytes(&self) -> usize {
        self.crc_at + CRC_BYTES + self.payload_bytes
    }
}

/// A sound record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub kind: u8,
    pub row_key: &'a [u8],
    pub family: &'a [u8],
    pub qualifier: &'a [u8],
    pub timestamp: u64,
    pub codec: u8,
    pub related: &'a [u8],
    pub raw_bytes: u32,
    pub payload: &'a [u8],
    /// Where the payload begins.
    pub payload_at: usize,
}

impl Record<'_> {
    /// Where the body is that a text is a delta of, the record directly before it at a place; None if it cannot be.
    pub fn body_place(&self, (segment, offset, _): Place) -> Option<Place> {
        let length = varint::little_endian(self.related);
        Some((segment, offset.checked_sub(length)?, length))
    }
}

/// The record at the beginning of bytes that hold all of it.
pub fn decode(source: &[u8], segment: u64) -> Result<Record<'_>, Fault> {
    let head = Head::of(source).ok_or(Fault::CutOff)?;
    if source[0] != RECORD_MAGIC {
        return Err(Fault::NoRecord(source[0]));
    }
    let (written, found) = head.checksums(source, segment);
    if written != found {
        return Err(Fault::Head(written, found));
    }
    let payload = source.get(head.crc_at + CRC_BYTES..head.bytes()).ok_or(Fault::CutOff)?;
    let found = crc32(payload, 0);
    if found != head.payload_crc {
        return Err(Fault::Payload(head.payload_crc, found));
    }
    fields_of(&head, source, payload).ok_or(Fault::Unknown(head.tag, head.column))
}

fn fields_of<'a>(head: &Head, source: &'a [u8], payload: &'a [u8]) -> Option<Record<'a>> {
    let (kind, codec) = (head.tag & KIND_BITS, head.tag >> 4);
    if !head.is_known() || head.reserved != 0 {
        return None;
    }
    let fields = &source[head.fields_at..head.crc_at];
    let mut at = 0;
    let related = varint::take(fields, &mut at, RELATED_BYTES[usize::from(codec)])?;
    let (family, qualifier) = if head.column == 0 {
        let mut name = || {
            let bytes = usize::try_from(varint::read(fields, &mut at)?).ok()?;
            varint::take(fields, &mut at, bytes)
        };
        (name()?, name()?)
    } else {
        let (_, (family, qualifier)) = RECORD_COLUMNS.iter().find(|(number, _)| *number == head.column)?;
        (family.as_bytes(), *qualifier)
    };
    let (row_key, payload_at) = (&fields[at..], head.crc_at + CRC_BYTES);
    let (raw_bytes, timestamp) = (head.raw_bytes, head.timestamp);
    Some(Record { kind, row_key, family, qualifier, timestamp, codec, related, raw_bytes, payload, payload_at })
}

/// The length of the record whose header and fields stand at the beginning of bytes; None if these are damaged.
///
/// Looks at header and fields only, so that a scan can find the next record without the payload of this one.
pub fn span(source: &[u8], segment: u64) -> Option<usize> {
    let head = Head::of(source).filter(|head| source[0] == RECORD_MAGIC && head.is_known())?;
    let (written, found) = head.checksums(source, segment);
    (written == found).then(|| head.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{RECORD_DELETE_ROW, RECORD_GROUP};

    const PAGE: NewRecord<'_> = NewRecord {
        kind: RECORD_VALUE,
        row_key: b"com,example)/ http",
        family: "page",
        qualifier: b"body",
        timestamp: 1_700_000_000_123_000,
        codec: CODEC_STORED,
        related: b"",
        raw_bytes: 13,
        payload: b"Tropical fish",
    };

    fn encoded(records: &[NewRecord<'_>], segment: u64) -> Option<(Vec<u8>, Vec<Place>)> {
        let mut made = Records::new(segment, 24, records.len());
        let places = records.iter().map(|record| made.add(*record)).collect::<Option<_>>()?;
        let mut bytes = vec![0; made.total_bytes()];
        made.fill(&mut bytes);
        Some((bytes, places))
    }

    fn one(record: NewRecord<'_>) -> Vec<u8> {
        encoded(&[record], 7).expect("it fits").0
    }

    fn assert_same(record: NewRecord<'_>, found: Record<'_>) {
        assert_eq!((record.kind, record.row_key, record.codec), (found.kind, found.row_key, found.codec));
        assert_eq!((record.family.as_bytes(), record.qualifier), (found.family, found.qualifier));
        assert_eq!((record.timestamp, record.related), (found.timestamp, found.related));
        assert_eq!((record.raw_bytes, record.payload), (found.raw_bytes, found.payload));
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let odd = NewRecord { timestamp: PAGE.timestamp + 1, ..PAGE };
        let long_key = [b'k'; 256];
        let related = [9; 16];
        for record in [
            PAGE,
            odd,
            NewRecord { row_key: &long_key, ..PAGE },
            NewRecord { raw_bytes: 1 << 16, ..PAGE },
            NewRecord { timestamp: TIMESTAMP_MAX, ..PAGE },
            NewRecord { timestamp: 1000 << 48, ..PAGE },
            NewRecord { family: "mine", qualifier: b"\0", ..PAGE },
            NewRecord { codec: CODEC_ZSTD_DELTA, related: &related, ..PAGE },
            NewRecord { kind: RECORD_DELETE_ROW, family: "", qualifier: b"", payload: b"", raw_bytes: 0, ..PAGE },
            NewRecord { kind: RECORD_GROUP, row_key: b"", family: "", qualifier: b"", timestamp: 0, ..PAGE },
        ] {
            let bytes = one(record);
            assert_same(record, decode(&bytes, 7).expect("sound"));
            assert_eq!(span(&bytes, 7), Some(bytes.len()));
            assert_eq!(span(&bytes, 8), None);
            assert!(matches!(decode(&bytes, 8), Err(Fault::Head(..))));
        }
        assert_eq!(one(PAGE).len(), NARROW + PAGE.row_key.len() + CRC_BYTES + PAGE.payload.len());
        assert_eq!(one(odd).len(), one(PAGE).len() + WIDE_BYTES - NARROW);
    }

    #[test]
    fn a_text_names_the_body_before_it_by_its_length() {
        let text = NewRecord { codec: CODEC_ZSTD_BODY, qualifier: b"main", family: "text", ..PAGE };
        let (bytes, places) = encoded(&[PAGE, text], 7).expect("they fit");
        let found = decode(&bytes[places[0].2 as usize..], 7).expect("sound");
        assert_eq!(found.body_place(places[1]), Some(places[0]));
        assert_eq!(places[1].1, 24 + places[0].2);
        assert_eq!(found.body_place((7, 3, 0)), None, "it would begin before the segment");
        assert!(encoded(&[text], 7).is_none(), "there is no body before it");
    }

    #[test]
    fn sealed_bytes_come_back_unless_they_have_changed() {
        let mut bytes = sealed(b"bytes".to_vec());
        assert_eq!(unsealed(&bytes), Some(&b"bytes"[..]));
        bytes[0] ^= 1;
        assert_eq!((unsealed(&bytes), unsealed(b"abc")), (None, None));
    }

    #[test]
    fn what_does_not_fit_the_format_is_not_written() {
        let long = vec![0; FIELDS_MAX_BYTES + 1];
        for record in [
            NewRecord { kind: 0, ..PAGE },
            NewRecord { kind: RECORD_COPIES + 1, ..PAGE },
            NewRecord { codec: 5, ..PAGE },
            NewRecord { codec: CODEC_ZSTD_DICTIONARY, ..PAGE },
            NewRecord { related: b"x", ..PAGE },
            NewRecord { timestamp: TIMESTAMP_MAX + 1, ..PAGE },
            NewRecord { row_key: &long, ..PAGE },
        ] {
            assert!(encoded(&[record], 7).is_none(), "{record:?}");
        }
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        let bytes = one(NewRecord { family: "mine", ..PAGE });
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(decode(&changed, 7).is_err(), "byte {at}");
            let fault = decode(&bytes[..at], 7).expect_err("cut off");
            assert!(matches!(fault, Fault::CutOff), "{at}: {fault:?}");
        }
        assert_eq!(decode(&[1; 30], 7), Err(Fault::NoRecord(1)));
    }

    #[test]
    fn a_sound_record_of_an_unknown_kind_codec_or_column_is_told_from_damage() {
        for (at, byte) in [(1, 7), (1, RECORD_VALUE | 5 << 4), (2, 99)] {
            let mut bytes = one(PAGE);
            bytes[at] = byte;
            let crc_at = NARROW + PAGE.row_key.len();
            let crc = crc32(&bytes[..crc_at], 7).to_le_bytes();
            bytes[crc_at..crc_at + CRC_BYTES].copy_from_slice(&crc);
            assert!(matches!(decode(&bytes, 7), Err(Fault::Unknown(..))), "{at} {byte}");
        }
    }
}
