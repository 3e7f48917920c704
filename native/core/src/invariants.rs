//! What holds of every input: the checks that fuzzing makes, with or without libFuzzer.

use crate::analysis::{Analyser, Extractor, Options, Outcome, Page};
use crate::charset;
use crate::names::Names;
use crate::shingle::{SAMPLE_LIMIT, SAMPLE_MODULUS};
use crate::sketch::IN_ORDER;
use crate::source::{Buffers, Source};
use crate::tokens::{self, Tags};

/// Tags lie in order, within the source, and their parts within them.
///
/// # Panics
/// Where they do not.
pub fn check_tokens(source: &[u8]) {
    [false, true].into_iter().for_each(|is_xhtml| check_split(source, is_xhtml));
}

fn check_split(source: &[u8], is_xhtml: bool) {
    let mut tags = Tags::default();
    tokens::split(source, is_xhtml, &mut tags, &mut Names::default());
    let mut before = 0;
    for tag in &tags.all {
        assert!(before <= tag.start as usize && tag.start <= tag.end && tag.end as usize <= source.len());
        assert!(tag.start <= tag.content && tag.content <= tag.end);
        let is_written = source[tag.start as usize..].first() == Some(&b'<') && tag.start < tag.content;
        let stands_for_slash = tag.start == tag.end && source[..tag.start as usize].ends_with(b"/>");
        assert!(is_written || stands_for_slash || source[tag.start as usize..].starts_with(b"]]>"));
        let attributes = tag.attributes(source);
        let mut total = 0;
        tokens::each_attribute(attributes, |name, value| {
            assert!(!name.is_empty());
            total += name.len() + value.len();
        });
        assert!(total <= attributes.len());
        before = tag.end as usize;
    }
}

/// An analysis repeats itself whatever came before it, is valid text, has fingerprints of its main text, and Markdown.
///
/// # Panics
/// Where it is not so.
pub fn check_kernel(analysers: &mut [Analyser; 3], body: &[u8], content_type: &str) {
    let mut buffers = Buffers::default();
    for analyser in analysers {
        let (mut page, mut again) = (Page::default(), Page::default());
        let outcome = analyser.analyse(body, content_type, true, &mut page);
        assert_eq!(outcome, analyser.analyse(body, content_type, true, &mut again));
        assert_eq!(page, again);
        if outcome == Outcome::Other {
            continue;
        }
        analyser.analyse(body, content_type, true, &mut again);
        assert_eq!(page, again, "a page filled again");
        let set = page.fingerprints.as_ref().map(|found| found.shingles.clone()).unwrap_or_default();
        let main = std::str::from_utf8(&page.main).expect("main text is valid UTF-8");
        assert_eq!(set, analyser.shingle_set(main));
        assert!(set.windows(2).all(|pair| pair[0] < pair[1]));
        let samples = page.fingerprints.as_ref().map_or(&[][..], |found| &found.samples);
        assert!(samples.len() <= SAMPLE_LIMIT && samples.windows(2).all(|pair| pair[0] < pair[1]));
        let of_all = set.iter().filter(|&value| value % SAMPLE_MODULUS == 0).count();
        assert!(of_all == samples.len() || of_all > SAMPLE_LIMIT);
        assert!(samples.iter().all(|value| value % SAMPLE_MODULUS == 0 && set.binary_search(value).is_ok()));
        assert!(!main.contains("\n\n") && !main.contains("  ") && main.trim() == main);
        if outcome == Outcome::Plain {
            continue;
        }
        let mut source = Source::new(&charset::decode(body, content_type).1, content_type);
        let markdown = source.markdown(&mut buffers, "https://host.example/a/b?c", main).expect("the text is known");
        assert!(markdown.len() <= 100 * (body.len() + 100) && markdown.is_empty() == main.is_empty());
        for line in [&page.declared.title, &page.declared.description, &page.declared.keywords, &page.declared.lang] {
            assert!(!line.contains('\n'));
        }
    }
}

/// What is asked of a source beside its analysis has an answer, and each block of an explanation a text.
///
/// # Panics
/// Where it is not so.
pub fn check_source(body: &[u8], content_type: &str) {
    let source = Source::new(&charset::decode(body, content_type).1, content_type);
    for extractor in [Extractor::Visible, Extractor::Combined, Extractor::Scored] {
        assert!(source.explain(extractor).iter().all(|block| !block.text.is_empty()));
    }
    let _ = (source.declared(), source.json_ld(), source.plateau());
}

/// An analyser for each extractor.
pub fn analysers() -> [Analyser; 3] {
    [Extractor::Visible, Extractor::Combined, Extractor::Scored]
        .map(|extractor| Analyser::new(Options { extractor, shingle_words: 5, order: IN_ORDER }))
}
