//! Any bytes through the tokenizer.
#![no_main]

libfuzzer_sys::fuzz_target!(|source: &[u8]| docstore_kernel::invariants::check_tokens(source));
