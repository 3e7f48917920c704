//! The formats of a store, the rules about what its bytes mean, and the verdicts on pages.
//!
//! `own` judges a page, and makes its record; `batch` has what is judged and not committed.
//!
//! A verdict: `core` has the caches, `posted` the rows of postings, `compare` the order of verdicts,
//! `candidates`, `evidence` and `titles` what it stands on, `alike` queries; `pages::Reads` is all that is read.
//!
//! `docs/format.md` explains the bytes.  Pure functions over borrowed bytes: no I/O, no Python, no panic on any input.
//! What is damaged or unknown is None or a fault; the caller says where it lies.
#![deny(unsafe_code)]

pub mod alike;
pub mod analysed;
pub mod bases;
pub mod batch;
pub mod candidates;
pub mod capture;
pub mod check;
pub mod columns;
pub mod compare;
pub mod core;
pub mod encoding;
pub mod evidence;
pub mod format;
pub mod headers;
pub mod index;
pub mod keys;
pub mod live;
pub mod lru;
pub mod moving;
pub mod own;
pub mod packed;
pub mod pages;
pub mod posted;
pub mod record;
pub mod rows;
pub mod run;
pub mod segment;
pub mod survey;
pub mod sweep;
pub mod times;
pub mod titles;
pub mod totals;
pub mod values;
pub mod varint;
pub mod verdict;
