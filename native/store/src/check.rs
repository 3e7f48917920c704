//! Which rows of pages are sound.  `docstore.reports.check` defines what that means: it looks at all other rows itself,
//! and says what is wrong with them.

use std::ops::Range;

use docstore_frames::Decoder;
use docstore_kernel::words::Words;
use docstore_kernel::Analyser;

use crate::capture::{Record, BODY, CHECKSUM, FIELDS, MAIN, STATUS, TEXT_CHECKSUM, TITLE, VERDICT};
use crate::format::{
    CAPTURE_FAMILY, CAPTURE_STORED, CODEC_STORED, CODEC_ZSTD_BODY, CODEC_ZSTD_DELTA, CODEC_ZSTD_DICTIONARY,
    SCHEME_BLAKE3_256,
};
use crate::keys::{posting_hash, posting_rows, text_number};
use crate::values::{parse, ref_of, Place, Value};
use crate::{record, verdict};

/// Values of a row are in memory together; the caller reads those of a longer row capture by capture.
const MOST_ROW_BYTES: usize = 32 << 20;

/// What is chosen above the formats; see `reports.check`.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Numbers of ways of keeping a capture with which other pages are compared.
    pub posted: Vec<u8>,
    pub least_words: usize,
}

/// Gives the records of segments, and what they are decoded with; None for what cannot be read.
pub trait Sources {
    type Bytes: AsRef<[u8]>;
    type Error;

    fn record(&self, place: Place) -> Result<Self::Bytes, Self::Error>;
    fn dictionary(&self, name: &[u8]) -> Result<Option<Self::Bytes>, Self::Error>;
    fn base(&self, name: &[u8]) -> Result<Option<Self::Bytes>, Self::Error>;
    fn body(&self, place: Place) -> Result<Option<Self::Bytes>, Self::Error>;
}

/// A cell of a row: its family, time and value.
pub struct Cell<Bytes> {
    pub family: String,
    pub timestamp: i64,
    pub value: Bytes,
}

/// What a value is decoded with.
enum Before<Bytes> {
    Nothing,
    Content(Bytes),
    /// Another value of the row.
    Value(usize),
}

/// A value on its way: a sound record of a segment.
struct Piece<Bytes> {
    place: Place,
    source: Bytes,
    payload: Range<usize>,
    raw_bytes: usize,
    is_stored: bool,
    before: Before<Bytes>,
}

impl<Bytes: AsRef<[u8]>> Piece<Bytes> {
    /// The record of a cell's value; None if it is damaged.  `others` are the values of the row so far.
    fn read<S>(sources: &S, cell_value: &[u8], others: &[Self]) -> Result<Option<Self>, S::Error>
    where
        S: Sources<Bytes = Bytes>,
    {
        let Some((_, place)) = ref_of(cell_value) else { return Ok(None) };
        let source = sources.record(place)?;
        let Ok(found) = record::decode(source.as_ref(), place.0) else { return Ok(None) };
        let given = |content: Option<Bytes>| content.map(Before::Content);
        let before = match found.codec {
            CODEC_ZSTD_DICTIONARY => given(sources.dictionary(found.related)?),
            CODEC_ZSTD_DELTA => given(sources.base(found.related)?),
            CODEC_ZSTD_BODY => match found.body_place(place) {
                None => None,
                Some(body) => match others.iter().position(|other| other.place == body) {
                    Some(other) => Some(Before::Value(other)),
                    None => given(sources.body(body)?),
                },
            },
            _ => Some(Before::Nothing),
        };
        let payload = found.payload_at..found.payload_at + found.payload.len();
        let (raw_bytes, is_stored) = (found.raw_bytes as usize, found.codec == CODEC_STORED);
        Ok(before.map(|before| Self { place, source, payload, raw_bytes, is_stored, before }))
    }

    fn decode(&self, decoder: &mut Decoder, others: &[Vec<u8>]) -> Option<Vec<u8>> {
        let payload = self.source.as_ref().get(self.payload.clone())?;
        if self.is_stored {
            return (payload.len() == self.raw_bytes).then(|| payload.to_vec());
        }
        let before: &[u8] = match &self.before {
            Before::Nothing => &[],
            Before::Content(content) => content.as_ref(),
            Before::Value(place) => others.get(*place)?,
        };
        decoder.decoded(payload, before, self.raw_bytes)
    }
}

/// A row whose values are read: its captures, with the place of the first value of each among the pieces.
pub struct Row<Bytes> {
    pub number: usize,
    pub raw_bytes: usize,
    row_key: Bytes,
    captures: Vec<(i64, Bytes, usize)>,
    pieces: Vec<Piece<Bytes>>,
}

impl<Bytes: AsRef<[u8]>> Row<Bytes> {
    /// A row with what is needed to look at it; None if only the caller can.
    ///
    /// `has_family` says which families a row may have.
    pub fn read<S: Sources<Bytes = Bytes>>(
        number: usize,
        row_key: Bytes,
        cells: Vec<Cell<Bytes>>,
        has_family: impl Fn(&str) -> bool,
        sources: &S,
    ) -> Result<Option<Self>, S::Error> {
        let mut row = Self { number, raw_bytes: 0, row_key, captures: Vec::new(), pieces: Vec::new() };
        for Cell { family, timestamp, value } in cells {
            if family != CAPTURE_FAMILY {
                let is_plain = match parse(value.as_ref()) {
                    _ if !has_family(&family) => false,
                    Some(Value::Inline(_)) => true,
                    _ => row.add(sources, value.as_ref())?,
                };
                if !is_plain {
                    return Ok(None);
                }
                continue;
            }
            let first = row.pieces.len();
            let Some(record) = Record::parse(timestamp, value.as_ref()) else { return Ok(None) };
            for cell_value in record.columns {
                let is_ref = matches!(parse(cell_value), Some(Value::Ref(..)));
                if is_ref && !row.add(sources, cell_value)? {
                    return Ok(None);
                }
            }
            row.captures.push((timestamp, value, first));
        }
        Ok(Some(row))
    }

    /// Add a value; gives whether it could be read and the row may have more.
    fn add<S: Sources<Bytes = Bytes>>(&mut self, sources: &S, cell_value: &[u8]) -> Result<bool, S::Error> {
        let Some(piece) = Piece::read(sources, cell_value, &self.pieces)? else { return Ok(false) };
        self.raw_bytes += piece.raw_bytes;
        self.pieces.push(piece);
        Ok(self.raw_bytes <= MOST_ROW_BYTES)
    }
}

/// What a text asks of the index.
pub struct Query {
    /// The number of its row.
    pub row: usize,
    pub band_keys: Vec<u64>,
    pub fingerprints: Vec<u64>,
    pub runs: Vec<u64>,
    /// The number of the text.
    pub own: u64,
}

/// Looks at rows; keeps what it works with.
pub struct Checker<'a> {
    rules: &'a Rules,
    /// Hashes of all postings, ascending.
    known: &'a [u64],
    words: Words,
    decoder: Decoder,
}

impl<'a> Checker<'a> {
    /// None if there is no memory for a decoder.
    pub fn new(rules: &'a Rules, known: &'a [u64]) -> Option<Self> {
        Some(Self { rules, known, words: Words::default(), decoder: Decoder::new()? })
    }

    /// Whether a row is sound, but for the look-ups that are added to `queries`.
    pub fn is_sound<Bytes: AsRef<[u8]>>(
        &mut self,
        row: &Row<Bytes>,
        analyser: &mut Analyser,
        queries: &mut Vec<Query>,
    ) -> bool {
        let before = queries.len();
        let is_sound = self.look(row, analyser, queries).is_some();
        if !is_sound {
            queries.truncate(before);
        }
        is_sound
    }

    fn look<Bytes: AsRef<[u8]>>(
        &mut self,
        row: &Row<Bytes>,
        analyser: &mut Analyser,
        queries: &mut Vec<Query>,
    ) -> Option<()> {
        let row_key = row.row_key.as_ref();
        let mut values: Vec<Vec<u8>> = Vec::with_capacity(row.pieces.len());
        for piece in &row.pieces {
            values.push(piece.decode(&mut self.decoder, &values)?);
        }
        for (timestamp, source, first) in &row.captures {
            let record = Record::parse(*timestamp, source.as_ref())?;
            let mut of_capture = values.get(*first..)?.iter();
            let mut columns: [Option<&[u8]>; FIELDS] = [None; FIELDS];
            let mut is_dropped = false;
            for (number, cell_value) in record.columns.iter().enumerate().filter(|(_, value)| !value.is_empty()) {
                columns[number] = match parse(cell_value)? {
                    Value::Inline(value) => Some(value),
                    Value::Ref(..) => Some(of_capture.next()?),
                    Value::Absent(_) if number == BODY => {
                        is_dropped = true;
                        Some(&[])
                    }
                    Value::Absent(_) => return None,
                };
            }
            let kept = columns[VERDICT].map(|encoded| verdict::decode(encoded)).transpose().ok()?;
            if record.confirms != 0 && row.captures.iter().all(|(other, ..)| *other != record.confirms) {
                return None;
            }
            if record.kind != CAPTURE_STORED {
                continue;
            }
            let (body, checksum, kept) = (columns[BODY]?, columns[CHECKSUM]?, kept?.stored);
            let is_own = |scheme: &u8, digest| *scheme == SCHEME_BLAKE3_256 && blake3::hash(body).as_bytes() == digest;
            if !is_dropped && !checksum.split_first().is_some_and(|(scheme, digest)| is_own(scheme, digest)) {
                return None;
            }
            if !self.rules.posted.contains(&kept) || (body.is_empty() && !is_dropped) {
                continue;
            }
            let status = std::str::from_utf8(columns[STATUS].unwrap_or_default()).ok()?;
            let status: u64 = if status.is_empty() { 0 } else { status.parse().ok()? };
            let text_checksum = columns[TEXT_CHECKSUM].unwrap_or_default();
            let text = columns[MAIN].filter(|_| !text_checksum.is_empty() && status / 100 == 2);
            let compared = if text.is_some() { text_checksum } else { &[] };
            let title = columns[TITLE].unwrap_or_default();
            let qualifier = [&timestamp.to_be_bytes(), row_key].concat();
            let is_posted = |row: Vec<u8>| self.known.binary_search(&posting_hash(&row, &qualifier)).is_ok();
            if !posting_rows(checksum, compared, title, &mut self.words).into_iter().all(is_posted) {
                return None;
            }
            let Some(text) = text else { continue };
            let Some(found) = analyser.fingerprints_of(&String::from_utf8_lossy(text)) else { continue };
            if found.word_count >= self.rules.least_words {
                let (band_keys, fingerprints, runs) = (found.band_keys.to_vec(), found.samples, found.runs);
                let own = text_number(text_checksum)?;
                queries.push(Query { row: row.number, band_keys, fingerprints, runs, own });
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use docstore_kernel::sketch::IN_ORDER;
    use docstore_kernel::{Extractor, Options};

    use super::*;
    use crate::capture::encode;
    use crate::format::RECORD_VALUE;
    use crate::record::{NewRecord, Records};
    use crate::values::{encode_absent, encode_ref, push_ref};
    use crate::verdict::Verdict;

    /// A segment in memory, without dictionaries and bases.
    struct Segment(Vec<u8>);

    impl Sources for Segment {
        type Bytes = Vec<u8>;
        type Error = ();

        fn record(&self, (_, offset, length): Place) -> Result<Vec<u8>, ()> {
            Ok(self.0.get(offset as usize..(offset + length) as usize).ok_or(())?.to_vec())
        }
        fn dictionary(&self, _: &[u8]) -> Result<Option<Vec<u8>>, ()> {
            Ok(None)
        }
        fn base(&self, _: &[u8]) -> Result<Option<Vec<u8>>, ()> {
            Ok(None)
        }
        fn body(&self, _: Place) -> Result<Option<Vec<u8>>, ()> {
            Ok(None)
        }
    }

    const WORDS: &str = "one two three four five six seven";

    /// A page whose body stands in a segment, and the hashes of its postings.
    fn page(body: &[u8]) -> (Segment, Vec<u8>, Vec<u64>) {
        let mut records = Records::new(1, 0, 1);
        let new = NewRecord {
            kind: RECORD_VALUE,
            row_key: b"row",
            family: "page",
            qualifier: b"body",
            timestamp: 1000,
            codec: CODEC_STORED,
            related: b"",
            raw_bytes: body.len() as u32,
            payload: body,
        };
        let place = records.add(new).expect("it fits");
        let mut segment = vec![0; records.total_bytes()];
        records.fill(&mut segment);
        let mut reference = Vec::new();
        push_ref(&mut reference, place);
        let checksum = [&[SCHEME_BLAKE3_256], &blake3::hash(b"the body").as_bytes()[..]].concat();
        let text_checksum = [2; 17];
        let mut hashes: Vec<u64> = posting_rows(&checksum, &text_checksum, b"title", &mut Words::default())
            .iter()
            .map(|row| posting_hash(row, &[&1000_i64.to_be_bytes(), &b"row"[..]].concat()))
            .collect();
        hashes.sort_unstable();
        let verdict = Verdict {
            kind: 5,
            of_row_key: b"",
            of_timestamp: 0,
            similarity: 0.0,
            reason: b"",
            contains_row_key: b"",
            candidates: 0,
            verified: 0,
            previous: 0,
            previous_similarity: 0.0,
            stored: 0,
        };
        let inline = |raw: &[u8]| [&[0], raw].concat();
        let (body, checksum) = (encode_ref(body.len() as u64, &reference), inline(&checksum));
        let (text_checksum, verdict) = (inline(&text_checksum), inline(&verdict::encode(&verdict)));
        let main = inline(WORDS.as_bytes());
        let mut columns = vec![
            (BODY as u8, &body[..]),
            (STATUS as u8, b"\x00200"),
            (TITLE as u8, b"\0title"),
            (MAIN as u8, &main),
            (CHECKSUM as u8, &checksum),
            (TEXT_CHECKSUM as u8, &text_checksum),
            (VERDICT as u8, &verdict),
        ];
        let record = encode(CAPTURE_STORED, &mut columns, 1, 0);
        (Segment(segment), record, hashes)
    }

    /// How many look-ups a row needs; None for one that is not sound.
    fn looks(segment: &Segment, cells: Vec<Cell<Vec<u8>>>, known: &[u64]) -> Option<usize> {
        let rules = Rules { posted: vec![0], least_words: 5 };
        let row = Row::read(0, b"row".to_vec(), cells, |family| family == "note", segment).expect("it is there")?;
        let options = Options { extractor: Extractor::of_name("visible")?, shingle_words: 5, order: IN_ORDER };
        let mut queries = Vec::new();
        let mut checker = Checker::new(&rules, known).expect("memory");
        checker.is_sound(&row, &mut Analyser::new(options), &mut queries).then_some(queries.len())
    }

    fn cell(family: &str, value: &[u8]) -> Cell<Vec<u8>> {
        Cell { family: family.to_owned(), timestamp: 1000, value: value.to_vec() }
    }

    #[test]
    fn a_page_whose_values_and_postings_are_there_is_sound() {
        let (segment, record, known) = page(b"the body");
        assert_eq!(looks(&segment, vec![cell("capture", &record), cell("note", b"\0word")], &known), Some(1));
    }

    #[test]
    fn a_page_is_not_sound_with_another_body_a_lost_posting_or_damage() {
        let (segment, record, known) = page(b"the body");
        assert_eq!(looks(&segment, vec![cell("capture", &record)], &known[1..]), None, "a posting is lost");
        assert_eq!(looks(&segment, vec![cell("capture", &record[..9])], &known), None, "the record is cut");
        assert_eq!(looks(&segment, vec![cell("none", b"\0word")], &known), None, "there is no such family");
        assert_eq!(looks(&segment, vec![cell("note", b"\x07")], &known), None, "no value has this tag");
        let (other, record, known) = page(b"another one");
        assert_eq!(looks(&other, vec![cell("capture", &record)], &known), None, "its checksum is of another body");
        let (mut damaged, record, known) = page(b"the body");
        let last = damaged.0.len() - 1;
        damaged.0[last] ^= 1;
        assert_eq!(looks(&damaged, vec![cell("capture", &record)], &known), None);
    }

    #[test]
    fn a_visit_needs_the_capture_that_it_confirms() {
        let (segment, record, known) = page(b"the body");
        let visit = |confirms| encode(crate::format::CAPTURE_CONFIRMED, &mut Vec::new(), 1, confirms);
        assert_eq!(looks(&segment, vec![cell("capture", &visit(1000)), cell("capture", &record)], &known), Some(1));
        assert_eq!(looks(&segment, vec![cell("capture", &visit(999)), cell("capture", &record)], &known), None);
    }

    #[test]
    fn only_a_body_may_have_been_dropped() {
        let (segment, ..) = page(b"the body");
        let visit = |column| encode(CAPTURE_STORED, &mut vec![(column, &encode_absent(3)[..])], 1, 0);
        assert_eq!(looks(&segment, vec![cell("capture", &visit(BODY as u8))], &[]), None, "it has no verdict");
        assert_eq!(looks(&segment, vec![cell("capture", &visit(MAIN as u8))], &[]), None);
    }
}
