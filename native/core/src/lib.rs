//! Text and fingerprints of one page, from its bytes: the same bits as the readable Python reference, faster.
//!
//! `tests/reference/` defines the results in readable Python; each module here names the one it mirrors, and says only
//! what differs in the way there.  Pure functions over borrowed bytes, no I/O, no panic on any
//! input, time linear in the input.  Nothing here knows Python.
#![deny(unsafe_code)]

pub mod analysis;
mod inline_tags;
mod around;
pub mod bytes;
pub mod charset;
pub mod combined;
pub mod evidence;
pub mod explain;
pub mod filter;
pub mod flow;
pub mod foreign;
pub mod formulas;
mod groups;
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
pub mod outline;
pub mod page;
pub mod pairs;
mod phrases;
mod plateau;
pub mod postings;
pub mod ranking;
pub mod references;
pub mod attributes;
pub mod scored;
pub mod shingle;
pub mod simhash;
mod simd;
pub mod sketch;
pub mod sketches;
pub mod slices;
pub mod source;
pub mod stamps;
pub mod outliers;
mod teasers;
pub mod texts;
pub mod tokens;
pub mod visible;
mod wholes;
mod wide;
pub mod words;

/// Data that `tools/make_native_tables.py` writes from the reference's own constants.
mod tables {
    /// Tag names that the kernel knows by number, with what the reference says of each.
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
