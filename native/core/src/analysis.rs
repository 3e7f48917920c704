//! One body -> its analysis: with buffers that are used again from page to page.

use std::borrow::Cow;

use crate::charset;
use crate::combined::{self, Combined};
use crate::flow::Flow;
use crate::foreign;
use crate::kind;
use crate::left_out::LeftOut;
use crate::names::Names;
use crate::page::{self, Declared};
use crate::scored::{self, Scored};
use crate::shingle::{self, Sorter};
use crate::simhash::simhash;
use crate::sketch::{self, BAND_KEYS, BINS, SKETCH_BYTES};
use crate::source;
use crate::tokens::{self, Tags};
use crate::visible::visible;
use crate::words::Words;

pub const TEXT_LIMIT_BYTES: usize = 16 << 20;
pub const TEXT_DIGEST_BYTES: usize = 16;

/// Which text carries the fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extractor {
    Visible,
    Combined,
    Scored,
}

impl Extractor {
    /// By the name that a schema gives.
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "visible" => Some(Self::Visible),
            "combined" => Some(Self::Combined),
            "scored" => Some(Self::Scored),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub extractor: Extractor,
    pub shingle_words: usize,
    /// Which bins make a band; see `sketch::band_keys`.
    pub order: [u8; BINS],
}

/// Fingerprints of one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprints {
    pub word_count: usize,
    pub text_digest: [u8; TEXT_DIGEST_BYTES],
    /// The shingle set, ascending.
    pub shingles: Vec<u64>,
    pub simhash: u64,
    pub sketch: [u8; SKETCH_BYTES],
    pub band_keys: [u64; BAND_KEYS],
    /// Ascending.
    pub samples: Vec<u64>,
    /// Keys of the runs of each sample.
    pub runs: Vec<u64>,
}

/// What is said of one page; may be filled again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Name of the encoding, in lower case.
    pub encoding: String,
    pub declared: Declared,
    /// The text that carries the fingerprints; valid UTF-8.
    pub main: Vec<u8>,
    /// None where the text has no word.
    pub fingerprints: Option<Fingerprints>,
}

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Neither of the others.
    Other,
    /// The page is filled.
    Html,
    /// The page is filled: its text is the lines of the body.
    Plain,
}

/// Analyses one page after the other.
pub struct Analyser {
    options: Options,
    names: Names,
    tags: Tags,
    left_out: LeftOut,
    flow: Flow,
    line: Flow,
    combined: Combined,
    scored: Scored,
    words: Words,
    hashes: Vec<u64>,
    shingles: Vec<u64>,
    sums: Vec<u64>,
    sorter: Sorter,
}

impl Analyser {
    pub fn new(options: Options) -> Self {
        Self {
            options,
            names: Names::default(),
            tags: Tags::default(),
            left_out: LeftOut::default(),
            flow: Flow::default(),
            line: Flow::default(),
            combined: Combined::default(),
            scored: Scored::default(),
            words: Words::default(),
            hashes: Vec::new(),
            shingles: Vec::new(),
            sums: Vec::new(),
            sorter: Sorter::default(),
        }
    }

    /// Everything but the body's checksum, in `page`, which is as it was where the body is not read.
    pub fn analyse(&mut self, body: &[u8], content_type: &str, links: bool, page: &mut Page) -> Outcome {
        let whole = &body[..body.len().min(TEXT_LIMIT_BYTES)];
        let (outcome, body) = if kind::is_html(body, content_type) {
            (Outcome::Html, whole)
        } else if let Some(plain) = kind::plain(whole, content_type) {
            (Outcome::Plain, plain)
        } else {
            return Outcome::Other;
        };
        let (name, text) = charset::decode(body, content_type);
        if outcome == Outcome::Html {
            self.read(&text, content_type, links, page);
        } else {
            page.declared = Declared::default();
            self.flow.clear();
            source::push_lines(&text, &mut self.flow);
            self.measure(page);
        }
        page.encoding.clear();
        page.encoding.push_str(name.name());
        page.encoding.make_ascii_lowercase();
        outcome
    }

    /// One page's decoded source.
    ///
    /// # Panics
    /// If the source is longer than `tokens::SOURCE_LIMIT_BYTES`.
    fn read(&mut self, source: &str, content_type: &str, links: bool, page: &mut Page) {
        let source: Cow<str> = if memchr::memchr(0, source.as_bytes()).is_some() {
            source.replace('\0', "\u{fffd}").into()
        } else {
            source.into()
        };
        let source = source.as_bytes();
        assert!(source.len() <= tokens::SOURCE_LIMIT_BYTES, "a source of {} bytes is too long", source.len());
        self.names.clear();
        tokens::split(source, foreign::is_xhtml(source, content_type), &mut self.tags, &mut self.names);
        page.declared = page::read(source, &self.tags, links, &mut self.line);
        let kept = self.left_out.read(source, &mut self.tags);
        page.declared.headings = page::headings(source, kept, &mut self.line);
        match self.options.extractor {
            Extractor::Visible => visible(source, kept, &mut self.flow),
            Extractor::Combined => combined::combined(source, kept, &mut self.combined, &mut self.flow),
            Extractor::Scored => scored::scored(source, kept, &mut self.scored, &mut self.flow),
        }
        self.measure(page);
    }

    /// The text at hand is the page's: it, and its fingerprints.
    fn measure(&mut self, page: &mut Page) {
        self.words.cut(self.flow.bytes());
        page.main.clear();
        page.main.extend_from_slice(self.flow.bytes());
        let used = page.fingerprints.take();
        let (set, samples, runs) = used.map(|used| (used.shingles, used.samples, used.runs)).unwrap_or_default();
        page.fingerprints = self.fingerprints(set, samples, runs);
    }

    /// Fingerprints of the words at hand, in vectors that were used before.
    fn fingerprints(&mut self, mut set: Vec<u64>, mut samples: Vec<u64>, mut runs: Vec<u64>) -> Option<Fingerprints> {
        let word_count = self.words.ends().len();
        if word_count == 0 {
            return None;
        }
        shingle::word_hashes(&self.words, &mut self.hashes);
        shingle::shingles(&self.hashes, self.options.shingle_words, &mut self.shingles);
        self.sorter.distinct(&self.shingles, &mut set);
        shingle::sample(&set, &mut samples);
        shingle::runs(&self.shingles, &samples, &mut self.sums, &mut runs);
        let minima = sketch::minima(&set);
        let digest = blake3::hash(self.words.joined());
        let mut text_digest = [0; TEXT_DIGEST_BYTES];
        text_digest.copy_from_slice(&digest.as_bytes()[..TEXT_DIGEST_BYTES]);
        Some(Fingerprints {
            word_count,
            text_digest,
            simhash: simhash(&self.shingles),
            sketch: sketch::sketch(&minima),
            band_keys: sketch::band_keys(&minima, &self.options.order),
            samples,
            runs,
            shingles: set,
        })
    }

    /// Fingerprints of a main text; None if it has no word.
    pub fn fingerprints_of(&mut self, text: &str) -> Option<Fingerprints> {
        self.words.cut(text.as_bytes());
        self.fingerprints(Vec::new(), Vec::new(), Vec::new())
    }

    /// The shingle set of a main text, ascending.
    pub fn shingle_set(&mut self, text: &str) -> Vec<u64> {
        self.words.cut(text.as_bytes());
        shingle::word_hashes(&self.words, &mut self.hashes);
        let mut set = Vec::new();
        shingle::shingles(&self.hashes, self.options.shingle_words, &mut self.shingles);
        self.sorter.distinct(&self.shingles, &mut set);
        set
    }
}
