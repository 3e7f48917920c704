//! Microseconds a page of the kernel over a file of pages, each page's best of some rounds: load of others is left out.
//!
//! The file: for each page two u32 lengths, little-endian, the body, the content type.

use std::time::Instant;

use docstore_kernel::{sketch::IN_ORDER, Analyser, Extractor, Options, Page};

const ROUNDS: usize = 20;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, path, extractor] = &arguments[..] else { panic!("give a file of pages and an extractor") };
    let bytes = std::fs::read(path).expect("the file can be read");
    let mut pages = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let length = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four bytes")) as usize;
        let (body, behind) = rest[8..].split_at(length(0));
        let (kind, behind) = behind.split_at(length(4));
        pages.push((body, String::from_utf8_lossy(kind)));
        rest = behind;
    }
    let time = |what: &str, work: &mut dyn FnMut(&[u8], &str)| {
        let mut best = vec![f64::MAX; pages.len()];
        for _ in 0..ROUNDS {
            for ((body, kind), best) in pages.iter().zip(&mut best) {
                let start = Instant::now();
                work(body, kind);
                *best = best.min(start.elapsed().as_secs_f64());
            }
        }
        println!("{what:16} {:8.2} us a page", best.iter().sum::<f64>() * 1e6 / pages.len() as f64);
    };
    let extractor = Extractor::of_name(extractor).expect("an extractor");
    let mut analyser = Analyser::new(Options { extractor, shingle_words: 5, order: IN_ORDER });
    let mut page = Page::default();
    time("body checksum", &mut |body, _| {
        std::hint::black_box(blake3::hash(body));
    });
    time("analysis", &mut |body, kind| {
        analyser.analyse(body, kind, false, &mut page);
    });
}
