//! Any body through the whole kernel, with each extractor.
#![no_main]

use std::cell::RefCell;

use docstore_kernel::invariants::{analysers, check_kernel};
use docstore_kernel::Analyser;

thread_local! {
    static ANALYSERS: RefCell<[Analyser; 3]> = RefCell::new(analysers());
}

libfuzzer_sys::fuzz_target!(|body: &[u8]| ANALYSERS.with_borrow_mut(|made| check_kernel(made, body, "text/html")));
