//! Any body through the whole text kernel: tokens, charset, each extractor, fingerprints, Markdown, explanations.
#![no_main]

use std::cell::RefCell;

use docstore_kernel::invariants::{analysers, check_kernel, check_source, check_tokens};
use docstore_kernel::Analyser;

const CONTENT_TYPES: [&str; 8] = [
    "text/html",
    "",
    "text/html; charset=utf-8",
    "text/html;charset=windows-1251",
    "text/html;charset=gb18030",
    "text/html;charset=iso-2022-jp",
    "text/html;charset=utf-16le",
    "text/html;charset=\"",
];

thread_local! {
    static ANALYSERS: RefCell<[Analyser; 3]> = RefCell::new(analysers());
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((last, body)) = input.split_last() else { return }; // the last byte, so that a page is an input
    let content_type = CONTENT_TYPES[usize::from(*last) % CONTENT_TYPES.len()];
    check_tokens(body);
    check_source(body, content_type);
    ANALYSERS.with_borrow_mut(|made| check_kernel(made, body, content_type));
});
