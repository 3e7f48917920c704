//! The Python module `docstore.dedup.docstore_native`: bytes in, strings and arrays out.
//!
//! Converts between Python and the crates beside it, and decides nothing: rules about text are in `docstore-kernel`, those
//! about the bytes of a store in `docstore-store`.  A panic, which would be a defect, becomes a RuntimeError.  A lone
//! surrogate of a string is read as U+FFFD, once for each of its three bytes.

mod analysis;
mod asking;
mod bases;
mod cache;
mod captures;
mod checks;
mod columns;
mod convert;
mod encode;
mod filter;
mod format;
mod headers;
mod judge;
mod kernel;
mod keys;
mod moving;
mod packed;
mod pages;
mod postings;
mod queries;
mod reads;
mod records;
mod rows;
mod runs;
mod sites;
mod survey;
mod sweeps;
mod text;
mod titles;
mod totals;
mod values;
mod verdicts;

use pyo3::prelude::*;

/// What is offered to Python and expected of it; docstore/compiled.py has the same number.
const INTERFACE: u32 = 46;

#[pymodule]
fn docstore_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("INTERFACE", INTERFACE)?;
    module.add_class::<cache::LruCache>()?;
    module.add_class::<filter::RowFilter>()?;
    analysis::add_to(module)?;
    asking::add_to(module)?;
    bases::add_to(module)?;
    captures::add_to(module)?;
    checks::add_to(module)?;
    columns::add_to(module)?;
    encode::add_to(module)?;
    format::add_to(module)?;
    headers::add_to(module)?;
    judge::add_to(module)?;
    kernel::add_to(module)?;
    keys::add_to(module)?;
    moving::add_to(module)?;
    packed::add_to(module)?;
    pages::add_to(module)?;
    postings::add_to(module)?;
    queries::add_to(module)?;
    reads::add_to(module)?;
    records::add_to(module)?;
    rows::add_to(module)?;
    runs::add_to(module)?;
    sites::add_to(module)?;
    survey::add_to(module)?;
    sweeps::add_to(module)?;
    text::add_to(module)?;
    totals::add_to(module)?;
    titles::add_to(module)?;
    values::add_to(module)?;
    verdicts::add_to(module)
}
