//! Runs of postings as files: what a footer says, and the bytes of a run, made step by step.
//!
//! A file has texts, slices and their index, each padded to 8 bytes, and a footer.  Nothing here opens a file.  Each step
//! of a merge is bounded.

use std::sync::Arc;

use docstore_kernel::postings::{self, Encoded, Pruning, Recent, GONE};
use docstore_kernel::slices::{self, Damaged, Shape, PLACE_BITS};

use crate::format::{
    RUN_FOOTER_BYTES as FOOTER_BYTES, RUN_FORMAT_VERSION as FORMAT_VERSION, RUN_MAGIC as MAGIC,
    RUN_TEXT_GONE as TEXT_GONE, TEXT_NUMBER_BYTES as TEXT_BYTES,
};
use crate::record::crc32;
use crate::varint::little_endian;

const UNIT_BYTES: usize = 8;
/// Average keys in a bucket, at most.
const BUCKET_KEYS: u64 = 16;
const MAX_SLICE_BITS: u32 = 24;
const PART_NAMES: [&str; 3] = ["texts", "slices", "index"];
/// The place of the index of slices among these parts.
const INDEX: usize = 2;
/// Bytes of a run that are verified, or of its table of texts that are written, in one step.
const BYTES_A_STEP: usize = 1 << 22;
/// A run of so many bytes is verified when it is opened, which takes a millisecond; a longer one by merges and checks.
const VERIFIED_BYTES: usize = 4 << 20;
/// Slices that one step makes: 300,000 keys, some hundredths of a second.
const SLICES_A_STEP: usize = 128;

/// Groups of a run: `first <= group < end`.
pub type Span = (u64, u64);

/// Why a run cannot be read or made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It leads outside itself.
    Damaged,
    Corrupt {
        message: String,
        offset: Option<usize>,
        expected: String,
        found: String,
    },
    /// A format version that only another docstore knows.
    Version(u64),
    /// The caller asks for what does not fit.
    Invalid(String),
}

impl From<Damaged> for Fault {
    fn from(_: Damaged) -> Self {
        Self::Damaged
    }
}

fn corrupt(message: &str, offset: Option<usize>, expected: &str, found: &str) -> Fault {
    Fault::Corrupt { message: message.into(), offset, expected: expected.into(), found: found.into() }
}

/// The shape of a run of at most so many keys: 8 to 16 of them in a bucket.
fn shape_of(keys: u64, texts: u64) -> Result<Shape, Fault> {
    let bits = u64::BITS - (keys / BUCKET_KEYS).leading_zeros();
    let slice_bits = bits.saturating_sub(slices::BUCKET_BITS).min(MAX_SLICE_BITS);
    let place_bits = u64::BITS - texts.saturating_sub(1).leading_zeros();
    let most = 1_u64 << PLACE_BITS;
    let too_many = || Fault::Invalid(format!("{texts} texts do not fit one run; keep to {most}"));
    Shape::new(slice_bits, place_bits).ok_or_else(too_many)
}

/// The number of `N` bytes at a place of a footer.
fn number_at<const N: usize>(foot: &[u8], at: usize) -> u64 {
    little_endian(&foot[at..at + N])
}

/// The CRC-32 of a footer and of the groups by which its file is named: under another name it is another run.
fn checksum_of_footer((first, end): Span, footer: &[u8]) -> u32 {
    crc32(footer, crc32(&end.to_le_bytes(), crc32(&first.to_le_bytes(), 0)))
}

/// A run over bytes that nobody changes; its name is the groups that it holds.
pub struct Run<Bytes> {
    buffer: Bytes,
    pub span: Span,
    /// Where texts, slices, index and footer begin.
    pub parts: [usize; 4],
    pub shape: Shape,
    pub texts: u64,
    pub keys: u64,
    pub postings: u64,
    checksums: [u32; 3],
}

impl<Bytes: AsRef<[u8]>> Run<Bytes> {
    /// Read a footer and verify the index of slices; texts and slices are verified in a short run alone.
    pub fn open(span: Span, buffer: Bytes) -> Result<Self, Fault> {
        let bytes = buffer.as_ref();
        if !bytes.starts_with(&MAGIC) {
            let found = format!("{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(MAGIC.len())]));
            return Err(corrupt("not a run of postings", Some(0), "\"DSPOSTRN\"", &found));
        }
        let at = bytes.len().saturating_sub(FOOTER_BYTES);
        let foot = &bytes[at..];
        if foot.len() < FOOTER_BYTES || !foot.starts_with(&MAGIC) {
            let found = format!("{:02x?}", &foot[..foot.len().min(MAGIC.len())]);
            return Err(corrupt("run of postings is cut short", Some(at), "a footer", &found));
        }
        let (stored, computed) = (number_at::<4>(foot, 52) as u32, checksum_of_footer(span, &foot[..52]));
        if stored != computed {
            let (expected, found) = (format!("{computed:08x}"), format!("{stored:08x}"));
            return Err(corrupt("run footer is damaged", Some(at), &expected, &found));
        }
        let version = number_at::<2>(foot, 8);
        if version != u64::from(FORMAT_VERSION) {
            return Err(Fault::Version(version));
        }
        let shape = Shape::new(u32::from(foot[10]), u32::from(foot[11])).ok_or(Damaged)?;
        let (texts, keys, postings) = (number_at::<4>(foot, 12), number_at::<8>(foot, 16), number_at::<8>(foot, 24));
        let slices = MAGIC.len() + (texts as usize * TEXT_BYTES).next_multiple_of(UNIT_BYTES);
        let index = slices.saturating_add(number_at::<8>(foot, 32) as usize);
        let footer = index.saturating_add(((shape.slices() + 1) * 4).next_multiple_of(UNIT_BYTES));
        if footer != at {
            let (expected, found) = (format!("{footer} bytes"), at.to_string());
            return Err(corrupt("run of postings is cut short", None, &expected, &found));
        }
        let checksums = [40, 44, 48].map(|at| number_at::<4>(foot, at) as u32);
        let parts = [MAGIC.len(), slices, index, footer];
        let run = Self { buffer, span, parts, shape, texts, keys, postings, checksums };
        for part in if run.bytes().len() <= VERIFIED_BYTES { 0..=INDEX } else { INDEX..=INDEX } {
            let computed = run.checksum_of(part);
            if computed != run.checksums[part] {
                let (expected, found) = (format!("{:08x}", run.checksums[part]), format!("{computed:08x}"));
                let message = format!("the {} of a run of postings is damaged", PART_NAMES[part]);
                return Err(corrupt(&message, Some(run.parts[part]), &expected, &found));
            }
        }
        run.view()?;
        Ok(run)
    }

    pub fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    pub fn view(&self) -> Result<slices::Run<'_>, Damaged> {
        slices::Run::new(self.bytes(), self.parts, self.shape)
    }

    fn checksum_of(&self, part: usize) -> u32 {
        crc32(&self.bytes()[self.parts[part]..self.parts[part + 1]], 0)
    }

    fn text_table(&self) -> &[u8] {
        &self.bytes()[self.parts[0]..self.parts[0] + self.texts as usize * TEXT_BYTES]
    }

    /// Numbers of its texts by place; those of removed ones are `RUN_TEXT_GONE`.
    pub fn numbers(&self) -> Vec<u64> {
        self.text_table().chunks_exact(TEXT_BYTES).map(little_endian).collect()
    }

    /// Names of damaged parts; reads the whole run.
    pub fn damaged_parts(&self) -> Vec<&'static str> {
        let is_damaged = |part: &usize| self.checksum_of(*part) != self.checksums[*part];
        (0..3).filter(is_damaged).map(|part| PART_NAMES[part]).collect()
    }
}

/// What the slices of a new run are made of.
enum Source {
    /// Sorted postings that no run has.
    Recent(Vec<u64>),
    Merged,
    /// New places of the texts of one run, and how many stay.
    Pruned(Vec<u64>, u64),
}

/// The next step of `RunParts`.
enum Step {
    /// Run, part, and how far it is verified with which checksum.
    Verify(usize, usize, usize, u32),
    Begin,
    /// Run, and bytes of its table of texts that are written.
    Texts(usize, usize),
    Slices(usize),
    End,
    Done,
}

/// The bytes of a run that is made from postings that no run has, or from runs, part by part.
///
/// A step that only verifies gives none.  A run that is not as it was written is a fault: a merge would copy the damage
/// under a new checksum.
pub struct RunParts<Bytes> {
    pub span: Span,
    /// Of the runs that are read.
    pub size_bytes: usize,
    limit: usize,
    runs: Vec<Arc<Run<Bytes>>>,
    /// Texts that stay of the one run that is pruned, ascending.
    live: Option<Arc<Vec<u64>>>,
    source: Source,
    /// The table of texts, unless it is that of the runs.
    table: Option<Vec<u8>>,
    step: Step,
    shape: Shape,
    texts: u64,
    keys: u64,
    postings: u64,
    units: Vec<u32>,
    checksums: [u32; 3],
    bytes: [usize; 3],
}

impl<Bytes: AsRef<[u8]>> RunParts<Bytes> {
    fn new(span: Span, limit: usize, runs: Vec<Arc<Run<Bytes>>>, shape: Shape, texts: u64, source: Source) -> Self {
        Self {
            span,
            size_bytes: runs.iter().map(|run| run.bytes().len()).sum(),
            limit,
            step: if runs.is_empty() { Step::Begin } else { Step::Verify(0, 0, 0, 0) },
            runs,
            live: None,
            source,
            table: None,
            shape,
            texts,
            keys: 0,
            postings: 0,
            units: Vec::new(),
            checksums: [0; 3],
            bytes: [0; 3],
        }
    }

    /// A run of postings that no run has.
    pub fn of_recent(span: Span, limit: usize, recent: &Recent) -> Result<Self, Fault> {
        let postings = recent.sorted(limit);
        let keys = postings.chunk_by(|one, other| one >> PLACE_BITS == other >> PLACE_BITS).count() as u64;
        let texts = recent.texts().len() as u64;
        let mut parts = Self::new(span, limit, Vec::new(), shape_of(keys, texts)?, texts, Source::Recent(postings));
        parts.table = Some(table_of(recent.texts()));
        Ok(parts)
    }

    /// Runs together, oldest first.  Texts keep their order: the places of a run follow those of the runs before it.
    pub fn merged(span: Span, limit: usize, runs: Vec<Arc<Run<Bytes>>>) -> Result<Self, Fault> {
        let texts = runs.iter().map(|run| run.texts).sum();
        let shape = shape_of(runs.iter().map(|run| run.keys).sum(), texts)?;
        Ok(Self::new(span, limit, runs, shape, texts, Source::Merged))
    }

    /// A run without removed texts.
    ///
    /// A bucket that is not full loses them: the run lacks no later text of it.  A full one stays full: places at the
    /// end of the table, all of the text `RUN_TEXT_GONE`, replace the removed texts.
    pub fn pruned(limit: usize, run: Arc<Run<Bytes>>, live: Arc<Vec<u64>>) -> Self {
        let (span, shape) = (run.span, run.shape); // the shape until the texts that stay are counted
        let mut parts = Self::new(span, limit, vec![run], shape, 0, Source::Merged);
        parts.live = Some(live);
        parts
    }

    fn count_live(&mut self) -> Result<(), Fault> {
        let Some(live) = self.live.take() else { return Ok(()) };
        let run = &self.runs[0];
        let mut stay = Vec::new();
        let mut places = Vec::with_capacity(run.texts as usize);
        for number in run.numbers() {
            let is_live = number != TEXT_GONE && live.binary_search(&number).is_ok();
            places.push(if is_live { stay.len() as u64 } else { GONE });
            if is_live {
                stay.push(number);
            }
        }
        let left = stay.len();
        stay.resize(left + self.limit.min(places.len() - left), TEXT_GONE);
        self.texts = stay.len() as u64;
        self.shape = shape_of(run.keys, self.texts)?;
        self.table = Some(table_of(&stay));
        self.source = Source::Pruned(places, left as u64);
        Ok(())
    }

    fn count(&mut self, part: usize, bytes: Vec<u8>) -> Vec<u8> {
        self.checksums[part] = crc32(&bytes, self.checksums[part]);
        self.bytes[part] += bytes.len();
        bytes
    }

    fn verify(&mut self, run: usize, part: usize, at: usize, checksum: u32) -> Result<(), Fault> {
        let source = &self.runs[run];
        let bytes = &source.bytes()[source.parts[part]..source.parts[part + 1]];
        let end = bytes.len().min(at + BYTES_A_STEP);
        let computed = crc32(&bytes[at..end], checksum);
        self.step = if end < bytes.len() {
            Step::Verify(run, part, end, computed)
        } else if computed != source.checksums[part] {
            let message = format!("the {} of a run of postings are damaged", PART_NAMES[part]);
            let (stored, computed) = (format!("{:08x}", source.checksums[part]), format!("{computed:08x}"));
            return Err(corrupt(&message, None, &stored, &computed));
        } else if part < INDEX {
            Step::Verify(run, part + 1, 0, 0)
        } else if run + 1 < self.runs.len() {
            Step::Verify(run + 1, 0, 0, 0)
        } else {
            Step::Begin
        };
        Ok(())
    }

    fn texts(&mut self, run: usize, at: usize) -> Vec<u8> {
        let (table, tables) = match &self.table {
            Some(table) => (&table[..], 1),
            None => (self.runs[run].text_table(), self.runs.len()),
        };
        let end = table.len().min(at + BYTES_A_STEP);
        let mut bytes = table[at..end].to_vec();
        let is_last = end == table.len() && run + 1 == tables;
        self.step = match (end == table.len(), is_last) {
            (_, true) => Step::Slices(0),
            (true, false) => Step::Texts(run + 1, 0),
            (false, false) => Step::Texts(run, end),
        };
        if is_last {
            let length = self.bytes[0] + bytes.len();
            bytes.resize(bytes.len() + length.next_multiple_of(UNIT_BYTES) - length, 0);
        }
        self.count(0, bytes)
    }

    fn slices(&mut self, first: usize) -> Result<Vec<u8>, Fault> {
        let count = SLICES_A_STEP.min(self.shape.slices() - first);
        let views = self.runs.iter().map(|run| run.view()).collect::<Result<Vec<_>, _>>()?;
        let encoded = match &self.source {
            Source::Recent(postings) => Ok(postings::encode(postings, self.shape)),
            Source::Merged => {
                let texts: Vec<u64> = self.runs.iter().map(|run| run.texts).collect();
                postings::merge(&views, &texts, self.shape, self.limit, first, count)
            }
            Source::Pruned(places, texts) => {
                let pruning = Pruning { places, texts: *texts, limit: self.limit };
                postings::prune(views[0], pruning, self.shape, first, count)
            }
        };
        let Encoded { bytes, units, keys, postings } = encoded?;
        let is_whole = matches!(self.source, Source::Recent(_));
        let end = if is_whole { self.shape.slices() } else { first + count };
        self.step = if end < self.shape.slices() { Step::Slices(end) } else { Step::End };
        self.units.extend(units);
        self.keys += keys;
        self.postings += postings;
        Ok(self.count(1, bytes))
    }

    fn end(&mut self) -> Result<Vec<u8>, Fault> {
        let mut index = vec![0; 4];
        let mut units = 0_u64;
        for &more in &self.units {
            units += u64::from(more);
            index.extend_from_slice(&(units as u32).to_le_bytes());
        }
        if units >> 32 > 0 {
            let message = format!("{units} units of 8 bytes do not fit one run; keep below 2**32");
            return Err(Fault::Invalid(message));
        }
        index.resize(index.len().next_multiple_of(UNIT_BYTES), 0);
        let mut bytes = self.count(INDEX, index);
        let begin = bytes.len();
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[self.shape.slice_bits as u8, self.shape.place_bits as u8]);
        bytes.extend_from_slice(&(self.texts as u32).to_le_bytes());
        for number in [self.keys, self.postings, self.bytes[1] as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for checksum in self.checksums {
            bytes.extend_from_slice(&checksum.to_le_bytes());
        }
        let checksum = checksum_of_footer(self.span, &bytes[begin..]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        self.step = Step::Done;
        Ok(bytes)
    }

    /// The next part; None at the end.
    pub fn advance(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        match self.step {
            Step::Verify(run, part, at, checksum) => {
                self.verify(run, part, at, checksum)?;
                Ok(Some(Vec::new()))
            }
            Step::Begin => {
                self.count_live()?;
                self.step = Step::Texts(0, 0);
                Ok(Some(MAGIC.to_vec()))
            }
            Step::Texts(run, at) => Ok(Some(self.texts(run, at))),
            Step::Slices(first) => self.slices(first).map(Some),
            Step::End => self.end().map(Some),
            Step::Done => Ok(None),
        }
    }
}

/// Text numbers as they are stored.
fn table_of(texts: &[u64]) -> Vec<u8> {
    texts.iter().flat_map(|text| text.to_le_bytes().into_iter().take(TEXT_BYTES)).collect()
}
