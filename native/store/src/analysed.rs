//! A page that is analysed: the text of one body, what the page declares, and the fingerprints of the text.
//!
//! It is made once and then only read: by verdicts, by the encoder, by Python.  A process that reads archives sends it to
//! the process that writes as `pack` gives it; both are the same docstore, and no packed page reaches disk.

use std::sync::Arc;

use docstore_kernel::analysis::Fingerprints;
use docstore_kernel::postings::Asked;
use docstore_kernel::titles::Facts;

use crate::format::{SCHEME_SKETCH_1, SCHEME_TEXT_2};
use crate::keys::text_number;
use crate::varint::{little_endian, push, read, take};

/// The fingerprints of a main text, as they are stored and compared.
#[derive(Debug, PartialEq, Eq)]
pub struct Marks {
    pub fingerprints: Fingerprints,
    pub facts: Facts,
    /// Scheme byte and digest of the normalised words.
    pub text_checksum: Box<[u8]>,
    /// Scheme byte and bins.
    pub sketch: Box<[u8]>,
    /// The number of the text in the index.
    pub number: u64,
}

impl Marks {
    pub fn new(fingerprints: Fingerprints, facts: Facts) -> Self {
        let text_checksum = [&[SCHEME_TEXT_2], &fingerprints.text_digest[..]].concat();
        let sketch = [&[SCHEME_SKETCH_1], &fingerprints.sketch[..]].concat();
        let number = text_number(&text_checksum).unwrap_or_default();
        Self { fingerprints, facts, text_checksum: text_checksum.into(), sketch: sketch.into(), number }
    }

    /// What the page asks the index.
    pub fn asked(&self) -> Asked<'_> {
        let Fingerprints { band_keys, samples, runs, .. } = &self.fingerprints;
        Asked { band_keys, fingerprints: samples, runs, own: self.number }
    }

    pub fn shingle_count(&self) -> u64 {
        self.fingerprints.shingles.len() as u64
    }
}

/// A page that is analysed.  Texts are in UTF-8; lone surrogates stand in three bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Analysed {
    /// Scheme byte and digest of the body; empty for a page without a body to analyse.
    pub checksum: Box<[u8]>,
    /// Whether the body has a reader.
    pub has_text: bool,
    /// Why it has none; empty if that is not known, or it has one.
    pub no_text: String,
    /// The WHATWG name of the body's encoding.
    pub charset: String,
    pub title: Box<[u8]>,
    pub description: Box<[u8]>,
    pub keywords: Box<[u8]>,
    pub lang: Box<[u8]>,
    pub canonical: Box<[u8]>,
    /// A time in UTC.
    pub published: Box<[u8]>,
    /// One a line.
    pub headings: Box<[u8]>,
    /// Of a feed or site map, as they are stored; empty for other pages.
    pub entries: Box<[u8]>,
    /// The text: one block a line.  The cache of bases may hold it longer than the page.
    pub main: Arc<[u8]>,
    /// None if the text has no word.
    pub marks: Option<Arc<Marks>>,
}

impl Analysed {
    pub fn word_count(&self) -> usize {
        self.marks.as_ref().map_or(0, |marks| marks.fingerprints.word_count)
    }

    pub fn text_checksum(&self) -> &[u8] {
        self.marks.as_ref().map_or(&[], |marks| &marks.text_checksum)
    }

    /// A feed or site map, which is compared only with lists.
    pub fn is_list(&self) -> bool {
        !self.entries.is_empty()
    }

    /// Whether the main text is doubtful: it has less than a quarter of the long words of the title.
    ///
    /// Words are separated by white space, have at least four letters, count once and are case folded; the text has a
    /// word if it has its letters in a row.  A title without such a word decides nothing, nor does that of a feed.
    pub fn is_doubtful(&self) -> bool {
        !(self.is_list() || self.marks.as_ref().is_some_and(|marks| marks.facts.holds_title))
    }

    fn fields(&self) -> [&[u8]; 12] {
        [
            &self.checksum,
            self.no_text.as_bytes(),
            self.charset.as_bytes(),
            &self.title,
            &self.description,
            &self.keywords,
            &self.lang,
            &self.canonical,
            &self.published,
            &self.headings,
            &self.entries,
            &self.main,
        ]
    }

    /// The page in bytes.
    pub fn pack(&self) -> Vec<u8> {
        let mut packed = Vec::with_capacity(2 * self.main.len() + 4096);
        packed.push(u8::from(self.has_text) | u8::from(self.marks.is_some()) << 1);
        for field in self.fields() {
            push(&mut packed, field.len() as u64);
            packed.extend_from_slice(field);
        }
        let Some(marks) = &self.marks else { return packed };
        let (its, facts) = (&marks.fingerprints, &marks.facts);
        packed.push(u8::from(facts.holds_title));
        packed.extend_from_slice(&facts.name);
        packed.extend_from_slice(&its.text_digest);
        packed.extend_from_slice(&its.sketch);
        for numbers in
            [&[its.word_count as u64, its.simhash], &its.band_keys[..], &its.samples, &its.runs, &its.shingles]
        {
            push(&mut packed, numbers.len() as u64);
            numbers.iter().for_each(|number| packed.extend_from_slice(&number.to_le_bytes()));
        }
        packed
    }

    /// The page of `pack`; None for other bytes.
    pub fn unpack(packed: &[u8]) -> Option<Self> {
        let at = &mut 0;
        let [flags] = array(packed, at)?;
        let mut field = || {
            let bytes = read(packed, at)?;
            take(packed, at, usize::try_from(bytes).ok()?).map(<[u8]>::to_vec)
        };
        let made = Self {
            checksum: field()?.into(),
            has_text: flags & 1 != 0,
            no_text: String::from_utf8(field()?).ok()?,
            charset: String::from_utf8(field()?).ok()?,
            title: field()?.into(),
            description: field()?.into(),
            keywords: field()?.into(),
            lang: field()?.into(),
            canonical: field()?.into(),
            published: field()?.into(),
            headings: field()?.into(),
            entries: field()?.into(),
            main: field()?.into(),
            marks: None,
        };
        if flags & 2 == 0 {
            return (*at == packed.len()).then_some(made);
        }
        let [holds_title] = array(packed, at)?;
        let (name, text_digest, sketch) = (array(packed, at)?, array(packed, at)?, array(packed, at)?);
        let mut numbers = || {
            let bytes = usize::try_from(read(packed, at)?).ok()?.checked_mul(8)?;
            Some(take(packed, at, bytes)?.chunks_exact(8).map(little_endian).collect::<Vec<_>>())
        };
        let [word_count, simhash] = numbers()?.try_into().ok()?;
        let band_keys = numbers()?.try_into().ok()?;
        let (samples, runs, shingles) = (numbers()?, numbers()?, numbers()?);
        let word_count = usize::try_from(word_count).ok()?;
        let fingerprints =
            Fingerprints { word_count, text_digest, shingles, simhash, sketch, band_keys, samples, runs };
        let marks = Some(Arc::new(Marks::new(fingerprints, Facts { name, holds_title: holds_title != 0 })));
        (*at == packed.len()).then_some(Self { marks, ..made })
    }
}

fn array<const BYTES: usize>(packed: &[u8], at: &mut usize) -> Option<[u8; BYTES]> {
    take(packed, at, BYTES)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use docstore_kernel::sketch::BINS;
    use docstore_kernel::{Analyser, Extractor, Options};

    use super::*;

    fn marks_of(text: &str) -> Option<Arc<Marks>> {
        let mut order = [0; BINS];
        order.iter_mut().zip(0..).for_each(|(bin, number)| *bin = number);
        let mut analyser = Analyser::new(Options { extractor: Extractor::Visible, shingle_words: 5, order });
        let found = analyser.fingerprints_of(text)?;
        Some(Arc::new(Marks::new(found, Facts::of(text.as_bytes(), "word"))))
    }

    fn page(text: &str) -> Analysed {
        Analysed {
            checksum: [&[1], &[7; 32][..]].concat().into(),
            has_text: true,
            charset: "utf-8".to_owned(),
            title: b"a lone surrogate \xed\xa0\x80"[..].into(),
            description: "d".repeat(300).into_bytes().into(),
            headings: b"one\ntwo"[..].into(),
            main: text.as_bytes().into(),
            marks: marks_of(text),
            ..Analysed::default()
        }
    }

    #[test]
    fn a_page_comes_back_as_it_was_packed() {
        let words = (0..900).map(|number| format!("word{}", number * number % 700)).collect::<Vec<_>>().join(" ");
        let refused = Analysed { no_text: "unreadable: no PDF".to_owned(), ..Analysed::default() };
        for made in [page(&words), page("word"), page("..."), refused, Analysed::default()] {
            assert_eq!(Analysed::unpack(&made.pack()), Some(made));
        }
    }

    #[test]
    fn a_packed_page_that_is_cut_or_longer_is_none() {
        let whole = page("some words of a page").pack();
        for cut in 0..whole.len() {
            assert_eq!(Analysed::unpack(&whole[..cut]), None, "{cut}");
        }
        assert_eq!(Analysed::unpack(&[&whole[..], b"x"].concat()), None);
    }
}
