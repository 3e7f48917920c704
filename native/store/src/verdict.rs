//! Verdicts as `dedup:verdict` has them: a list of eleven fields in MessagePack.

use crate::format::{REASON_NOT_MODIFIED, VERDICT_KINDS, VERDICT_PREVIOUS, VERDICT_STORED};
use crate::varint::{big_endian, take};

const FIELDS: u8 = 0x90 | 11;

/// Numbers of words in `VERDICT_PREVIOUS` and `VERDICT_STORED`; a test compares them.
pub const PREVIOUS_NONE: u8 = 0;
pub const PREVIOUS_SAME_BYTES: u8 = 1;
pub const PREVIOUS_SAME_TEXT: u8 = 2;
pub const PREVIOUS_CHANGED: u8 = 3;
pub const STORED_BODY: u8 = 0;
pub const STORED_REFERENCE: u8 = 1;
pub const STORED_TEXT: u8 = 2;
pub const STORED_CONFIRMED: u8 = 3;
pub const STORED_REJECTED: u8 = 4;
pub const STORED_KNOWN: u8 = 5;
pub const STORED_REFUSED: u8 = 6;
pub const STORED_VISIT: u8 = 7;

/// Numbers of words in the lists of `format`; see `model.capture.StoredVerdict`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict<'a> {
    pub kind: u8,
    pub of_row_key: &'a [u8],
    pub of_timestamp: u64,
    pub similarity: f64,
    /// A text; a lone surrogate of Python stands as the byte that it escapes.
    pub reason: &'a [u8],
    pub contains_row_key: &'a [u8],
    pub candidates: u64,
    pub verified: u64,
    pub previous: u8,
    pub previous_similarity: f64,
    pub stored: u8,
}

/// Why bytes are no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Damaged,
    /// A kind that only a newer docstore knows.
    Newer(u64),
}

/// The number of a word in a list of `format`.
pub fn number_of(words: &[&str], word: &str) -> Option<u8> {
    words.iter().position(|other| *other == word).map(|place| place as u8)
}

fn push_number(out: &mut Vec<u8>, number: u64) {
    match number {
        0..=0x7f => out.push(number as u8),
        0x80..=0xff => out.extend_from_slice(&[0xcc, number as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend_from_slice(&(number as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend_from_slice(&(number as u32).to_be_bytes());
        }
        _ => {
            out.push(0xcf);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

/// A similarity; 0 and 1 take one byte.
fn push_similarity(out: &mut Vec<u8>, similarity: f64) {
    if similarity == 0.0 || similarity == 1.0 {
        out.push(similarity as u8);
    } else {
        out.push(0xcb);
        out.extend_from_slice(&similarity.to_be_bytes());
    }
}

/// The length of bytes or of a text, by the first tag of those with a length of 1, 2 or 4 bytes.
fn push_length(out: &mut Vec<u8>, first_tag: u8, bytes: usize) {
    match bytes {
        0..=0xff => out.extend_from_slice(&[first_tag, bytes as u8]),
        0x100..=0xffff => {
            out.push(first_tag + 1);
            out.extend_from_slice(&(bytes as u16).to_be_bytes());
        }
        _ => {
            out.push(first_tag + 2);
            out.extend_from_slice(&(bytes as u32).to_be_bytes());
        }
    }
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_length(out, 0xc4, bytes.len());
    out.extend_from_slice(bytes);
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    if text.len() < 32 {
        out.push(0xa0 | text.len() as u8);
    } else {
        push_length(out, 0xd9, text.len());
    }
    out.extend_from_slice(text);
}

pub fn encode(verdict: &Verdict<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(32 + verdict.of_row_key.len() + verdict.reason.len());
    out.extend_from_slice(&[FIELDS, verdict.kind]);
    push_bytes(&mut out, verdict.of_row_key);
    push_number(&mut out, verdict.of_timestamp);
    push_similarity(&mut out, verdict.similarity);
    push_text(&mut out, verdict.reason);
    push_bytes(&mut out, verdict.contains_row_key);
    push_number(&mut out, verdict.candidates);
    push_number(&mut out, verdict.verified);
    out.push(verdict.previous);
    push_similarity(&mut out, verdict.previous_similarity);
    out.push(verdict.stored);
    out
}

/// Reads the fields of a message one after the other.
struct Message<'a> {
    source: &'a [u8],
    at: usize,
}

impl<'a> Message<'a> {
    fn tag(&mut self) -> Option<u64> {
        big_endian(self.source, &mut self.at, 1)
    }

    fn number(&mut self) -> Option<u64> {
        match self.tag()? {
            small @ 0..=0x7f => Some(small),
            tag @ 0xcc..=0xcf => big_endian(self.source, &mut self.at, 1 << (tag - 0xcc)),
            _ => None,
        }
    }

    fn similarity(&mut self) -> Option<f64> {
        if self.source.get(self.at) == Some(&0xcb) {
            self.at += 1;
            return big_endian(self.source, &mut self.at, 8).map(f64::from_bits);
        }
        self.number().map(|number| number as f64)
    }

    fn take(&mut self, bytes: u64) -> Option<&'a [u8]> {
        take(self.source, &mut self.at, usize::try_from(bytes).ok()?)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = match self.tag()? {
            tag @ 0xc4..=0xc6 => big_endian(self.source, &mut self.at, 1 << (tag - 0xc4))?,
            _ => return None,
        };
        self.take(length)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = match self.tag()? {
            tag @ 0xa0..=0xbf => tag & 0x1f,
            tag @ 0xd9..=0xdb => big_endian(self.source, &mut self.at, 1 << (tag - 0xd9))?,
            _ => return None,
        };
        self.take(length).filter(|text| std::str::from_utf8(text).is_ok())
    }

    /// The number of a word in a list.
    fn word(&mut self, words: &[&str]) -> Option<u8> {
        self.number().filter(|number| *number < words.len() as u64).map(|number| number as u8)
    }
}

pub fn decode(source: &[u8]) -> Result<Verdict<'_>, Fault> {
    let mut message = Message { source, at: 1 };
    if source.first() != Some(&FIELDS) {
        return Err(Fault::Damaged);
    }
    let kind = message.number().ok_or(Fault::Damaged)?;
    if kind >= VERDICT_KINDS.len() as u64 {
        return Err(Fault::Newer(kind));
    }
    let mut rest = || {
        Some(Verdict {
            kind: kind as u8,
            of_row_key: message.bytes()?,
            of_timestamp: message.number()?,
            similarity: message.similarity()?,
            reason: message.text()?,
            contains_row_key: message.bytes()?,
            candidates: message.number()?,
            verified: message.number()?,
            previous: message.word(VERDICT_PREVIOUS)?,
            previous_similarity: message.similarity()?,
            stored: message.word(VERDICT_STORED)?,
        })
    };
    let verdict = rest().ok_or(Fault::Damaged)?;
    if message.at == source.len() {
        Ok(verdict)
    } else {
        Err(Fault::Damaged)
    }
}

/// The verdict that a visit without a body shows: that of its capture, marked as not judged again.
pub fn not_modified<'a>(verdict: &Verdict<'a>) -> Verdict<'a> {
    Verdict {
        reason: REASON_NOT_MODIFIED.as_bytes(),
        previous: PREVIOUS_SAME_BYTES,
        previous_similarity: 1.0,
        stored: STORED_CONFIRMED,
        ..*verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_words_are_those_of_the_lists() {
        let previous = [PREVIOUS_NONE, PREVIOUS_SAME_BYTES, PREVIOUS_SAME_TEXT, PREVIOUS_CHANGED];
        assert_eq!(
            previous.map(|number| VERDICT_PREVIOUS[number as usize]),
            ["none", "same_bytes", "same_text", "changed"]
        );
        let stored = [
            (STORED_BODY, "body"),
            (STORED_REFERENCE, "reference"),
            (STORED_TEXT, "text"),
            (STORED_CONFIRMED, "confirmed"),
            (STORED_REJECTED, "rejected"),
            (STORED_KNOWN, "known"),
            (STORED_REFUSED, "refused"),
            (STORED_VISIT, "visit"),
        ];
        assert!(stored.iter().all(|(number, word)| VERDICT_STORED[usize::from(*number)] == *word));
        assert_eq!(stored.len(), VERDICT_STORED.len());
    }

    const NEAR: Verdict<'_> = Verdict {
        kind: 2,
        of_row_key: b"com,example)/ http",
        of_timestamp: 1_700_000_000_000_000,
        similarity: 0.95,
        reason: b"crowded",
        contains_row_key: b"",
        candidates: 300,
        verified: 1,
        previous: 3,
        previous_similarity: 0.5,
        stored: 0,
    };

    #[test]
    fn a_verdict_is_read_as_it_was_written() {
        let long = vec![b'k'; 70_000];
        for verdict in [
            NEAR,
            not_modified(&NEAR),
            Verdict { similarity: 0.0, previous_similarity: 1.0, ..NEAR },
            Verdict { of_row_key: &long, contains_row_key: &long[..300], reason: &long[..40], ..NEAR },
            Verdict { reason: &long, candidates: 0xff, verified: 1 << 20, of_timestamp: u64::MAX, ..NEAR },
        ] {
            let encoded = encode(&verdict);
            assert_eq!(decode(&encoded), Ok(verdict));
            for cut in (0..encoded.len()).step_by(1 + encoded.len() / 200) {
                assert_eq!(decode(&encoded[..cut]), Err(Fault::Damaged));
            }
            assert_eq!(decode(&[&encoded[..], &[0]].concat()), Err(Fault::Damaged));
        }
    }

    #[test]
    fn similarities_of_nothing_and_all_take_one_byte() {
        let of_all = encode(&Verdict { similarity: 1.0, previous_similarity: 0.0, ..NEAR });
        assert_eq!(encode(&NEAR).len() - of_all.len(), 16);
    }

    #[test]
    fn a_kind_of_a_newer_docstore_is_no_damage() {
        let mut encoded = encode(&NEAR);
        encoded[1] = 6;
        assert_eq!(decode(&encoded), Err(Fault::Newer(6)));
        for (at, byte) in [(1, 0xc0), (2, 0xa0), (0, 0x9a)] {
            let mut damaged = encode(&NEAR);
            damaged[at] = byte;
            assert_eq!(decode(&damaged), Err(Fault::Damaged), "{at}");
        }
    }

    #[test]
    fn words_of_a_visit_are_those_of_the_lists() {
        assert_eq!(number_of(VERDICT_STORED, "mine"), None);
    }
}
