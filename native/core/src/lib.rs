//! Text and fingerprints of one page, from its bytes.
//!
//! A rule of main text is defined at the head of its module, with the number of each bound, and its readable form is a
//! list of cases under `tests/cases/text/`.  The measures that the lectures teach (words, fingerprints, postings) have
//! a definition in Python in `tests/reference/`, with which tests compare them.  Pure functions over borrowed bytes, no
//! I/O, no panic on any input, time linear in the input.  Nothing here knows Python.
#![deny(unsafe_code)]

pub mod analysis;
mod around;
pub mod attributes;
pub mod bytes;
pub mod charset;
pub mod combined;
pub mod evidence;
pub mod explain;
pub mod expressions;
pub mod filter;
pub mod flow;
pub mod foreign;
pub mod formulas;
mod groups;
mod inline_tags;
pub mod invariants;
pub mod kind;
mod lanes;
pub mod left_out;
pub mod lines;
pub mod markdown;
pub mod marks;
pub mod murmur;
pub mod names;
mod numbers;
mod once;
pub mod outliers;
pub mod outline;
pub mod page;
pub mod pairs;
mod phrases;
mod plateau;
pub mod postings;
pub mod ranking;
pub mod references;
pub mod scored;
pub mod search;
pub mod shingle;
mod simd;
pub mod simhash;
pub mod sketch;
pub mod sketches;
pub mod slices;
pub mod source;
pub mod stamps;
mod teasers;
pub mod texts;
pub mod titles;
pub mod tokens;
pub mod visible;
mod wholes;
mod wide;
pub mod words;

/// Data that `tools/make_native_tables.py` writes from the lists beside them.
pub mod tables {
    /// Tag names that the kernel knows by number, with what the rules say of each.
    pub mod names {
        include!("../data/names.in");
    }
    /// Names of character references, and what they mean.
    pub mod references {
        include!("../data/references.in");
    }
    /// What each sign is worth that `scored` reads from a page.
    pub mod scorecard {
        include!("../data/scorecard.in");
    }
    /// Words of dates, times and counts.
    pub mod stamps {
        include!("../data/stamps.in");
    }
    /// What folding does to each code point, and how it cuts words.
    pub mod unicode {
        include!("../data/unicode.in");
    }
}

pub use analysis::{Analyser, Extractor, Options, Outcome, Page};
