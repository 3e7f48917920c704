//! Megabytes a second of the kernel and its stages over a file of pages.
//!
//! The file: for each page two u32 lengths, little-endian, the body, the content type.

use std::time::Instant;

use docstore_kernel::{
    charset, flow::Flow, names::Names, page as declared, shingle, tokens, visible::visible, words::Words,
};
use docstore_kernel::{simhash::simhash, sketch, sketch::IN_ORDER, Analyser, Extractor, Options, Outcome, Page};

fn read(path: &str) -> Vec<(Vec<u8>, String)> {
    let bytes = std::fs::read(path).expect("the file can be read");
    let mut pages = Vec::new();
    let mut place = 0;
    while place < bytes.len() {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
        let (body, kind) = (number(place), number(place + 4));
        place += 8;
        pages.push((
            bytes[place..place + body].to_vec(),
            String::from_utf8_lossy(&bytes[place + body..place + body + kind]).into(),
        ));
        place += body + kind;
    }
    pages
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, path, extractor] = &arguments[..] else { panic!("give a file of pages and an extractor") };
    let pages = read(path);
    let total: usize = pages.iter().map(|(body, _)| body.len()).sum();
    let time = |what: &str, work: &mut dyn FnMut() -> usize| {
        let mut best = f64::MAX;
        let mut sum = 0;
        for _ in 0..5 {
            let start = Instant::now();
            sum = work();
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!(
            "{what:24} {:8.0} MB/s {:8.2} us a page  ({sum})",
            total as f64 / best / 1e6,
            best * 1e6 / pages.len() as f64
        );
    };
    let extractor = Extractor::of_name(extractor).expect("an extractor");
    let mut analyser = Analyser::new(Options { extractor, shingle_words: 5, order: IN_ORDER });
    time("body checksum", &mut || pages.iter().map(|(body, _)| blake3::hash(body).as_bytes()[0] as usize).sum());
    let mut page = Page::default();
    time("whole", &mut || {
        let mut is_html =
            |(body, kind): &&(Vec<u8>, String)| analyser.analyse(body, kind, false, &mut page) == Outcome::Html;
        pages.iter().filter(|each| is_html(each)).count()
    });
    let (mut tags, mut names, mut flow, mut words) = (Vec::new(), Names::default(), Flow::default(), Words::default());
    let (mut hashes, mut shingles, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    let mut sorter = shingle::Sorter::default();
    let mut set = Vec::new();
    time("charset", &mut || {
        pages
            .iter()
            .map(|(body, kind)| charset::decode(body, kind).1.len())
            .sum()
    });
    time("tokens", &mut || {
        pages
            .iter()
            .map(|(body, _)| {
                tokens::split(body, &mut tags, &mut names);
                tags.len()
            })
            .sum()
    });
    let mut cut = Vec::new();
    for (body, _) in &pages {
        names.clear();
        let mut tags = Vec::new();
        let valid = String::from_utf8_lossy(body).into_owned();
        tokens::split(valid.as_bytes(), &mut tags, &mut names);
        visible(valid.as_bytes(), &tags, &mut flow);
        cut.push((valid, tags, flow.bytes().to_vec()));
    }
    time("declared", &mut || {
        cut.iter().map(|(source, tags, _)| declared::read(source.as_bytes(), tags, false, &mut flow).title.len()).sum()
    });
    time("visible", &mut || {
        cut.iter()
            .map(|(source, tags, _)| {
                visible(source.as_bytes(), tags, &mut flow);
                flow.bytes().len()
            })
            .sum()
    });
    time("words", &mut || {
        cut.iter()
            .map(|(_, _, main)| {
                words.cut(main);
                words.ends().len()
            })
            .sum()
    });
    let all: Vec<Words> = cut
        .iter()
        .map(|(_, _, main)| {
            let mut words = Words::default();
            words.cut(main);
            words
        })
        .collect();
    time("text checksum", &mut || all.iter().map(|words| blake3::hash(words.joined()).as_bytes()[0] as usize).sum());
    time("word hashes", &mut || {
        all.iter()
            .map(|words| {
                shingle::word_hashes(words, &mut hashes);
                hashes.len()
            })
            .sum()
    });
    let hashed: Vec<Vec<u64>> = all
        .iter()
        .map(|words| {
            shingle::word_hashes(words, &mut hashes);
            hashes.clone()
        })
        .collect();
    time("shingles", &mut || {
        hashed
            .iter()
            .map(|hashes| {
                shingle::shingles(hashes, 5, &mut shingles);
                shingles.len()
            })
            .sum()
    });
    let all: Vec<Vec<u64>> = hashed
        .iter()
        .map(|hashes| {
            shingle::shingles(hashes, 5, &mut shingles);
            shingles.clone()
        })
        .collect();
    time("distinct", &mut || {
        all.iter()
            .map(|shingles| {
                sorter.distinct(shingles, &mut set);
                set.len()
            })
            .sum()
    });
    time("sample", &mut || {
        all.iter()
            .map(|shingles| {
                shingle::sample(shingles, &mut samples);
                samples.len()
            })
            .sum()
    });
    let sets: Vec<Vec<u64>> = all
        .iter()
        .map(|shingles| {
            sorter.distinct(shingles, &mut set);
            set.clone()
        })
        .collect();
    time("minima", &mut || sets.iter().map(|shingles| sketch::minima(shingles)[0] as usize & 1).sum());
    time("bands", &mut || {
        all.iter()
            .map(|shingles| {
                sketch::band_keys(&sketch::minima(&shingles[..shingles.len().min(1)]), &IN_ORDER)[0] as usize & 1
            })
            .sum()
    });
    time("simhash", &mut || all.iter().map(|shingles| simhash(shingles) as usize & 1).sum());
}
