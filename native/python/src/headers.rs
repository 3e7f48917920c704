//! Header fields of a capture to bytes and back; `tests/reference/capture.py` is the readable definition.
//!
//! Names and values that are stored as numbers are handed in: dictionaries of the numbers, or tuples of the words.

use docstore_kernel::analysis::TEXT_LIMIT_BYTES;
use docstore_kernel::charset::{self, Origin};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

/// What is not UTF-8 in a header is kept.
const ESCAPE: &str = "surrogateescape";

use crate::detached;
use crate::reads::{number, take, varint};
use crate::records::{push_varint, utf8};

const LOWER_CASE: u8 = 0x80;
const TEXT: u64 = 64;
const DAY_SECONDS: u32 = 86_400;
const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
const DATE_BYTES: usize = 29;

/// Year, month from 0 on and day of a day since 1970.  Years begin in March here, so that a leap day is the last one.
fn civil(day: u32) -> (u32, usize, u32) {
    let since = day + 719_468; // 1 March of the year 0
    let (era, day_of_era) = (since / 146_097, since % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let is_next = month >= 10;
    let year = 400 * era + year_of_era + u32::from(is_next);
    (year, ((month + 2) % 12) as usize, day_of_year - (153 * month + 2) / 5 + 1)
}

/// A date as HTTP writes it.
fn render(seconds: u32) -> [u8; DATE_BYTES] {
    let (day, rest) = (seconds / DAY_SECONDS, seconds % DAY_SECONDS);
    let (year, month, day_of_month) = civil(day);
    let mut text = *b"Day, 00 Mon 0000 00:00:00 GMT";
    text[..3].copy_from_slice(DAYS[day as usize % 7]);
    text[8..11].copy_from_slice(MONTHS[month]);
    let two = [(5, day_of_month), (12, year / 100), (14, year % 100)];
    for (at, number) in two.into_iter().chain([(17, rest / 3600), (20, rest / 60 % 60), (23, rest % 60)]) {
        text[at] = b'0' + (number / 10) as u8;
        text[at + 1] = b'0' + (number % 10) as u8;
    }
    text
}

/// The seconds since 1970 that are rendered as this text.
fn seconds_of(text: &[u8]) -> Option<u32> {
    if text.len() != DATE_BYTES || !text.ends_with(b" GMT") {
        return None;
    }
    let digits = |at: usize, count: usize| {
        let digits = &text[at..at + count];
        let is_number = digits.iter().all(u8::is_ascii_digit);
        is_number.then(|| digits.iter().fold(0, |number, digit| 10 * number + i64::from(digit - b'0')))
    };
    let month = MONTHS.iter().position(|month| month[..] == text[8..11])? as i64;
    let (day, year) = (digits(5, 2)?, digits(12, 4)? - i64::from(month < 2));
    let day_of_year = (153 * ((month + 10) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468;
    let seconds = i64::from(DAY_SECONDS) * days + 3600 * digits(17, 2)? + 60 * digits(20, 2)? + digits(23, 2)?;
    u32::try_from(seconds).ok().filter(|&seconds| render(seconds) == text)
}

/// Encode pairs of name and value.
#[pyfunction]
fn encode_headers<'py>(
    headers: &Bound<'py, PyAny>,
    names: &Bound<'py, PyDict>,
    values: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut encoded = Vec::with_capacity(256);
    for pair in headers.try_iter()? {
        let pair = pair?;
        let pair = pair.cast::<PyTuple>()?;
        let (name, value) = (pair.get_borrowed_item(0)?, pair.get_borrowed_item(1)?);
        let (name, value) = (name.cast::<PyString>()?, value.cast::<PyString>()?);
        match names.get_item(name)? {
            Some(number) => encoded.push(number.extract()?),
            None => {
                let raw = utf8(&name, ESCAPE)?;
                encoded.push(0);
                push_varint(&mut encoded, raw.len() as u64);
                encoded.extend_from_slice(&raw);
            }
        }
        if let Some(number) = values.get_item(value)? {
            encoded.push(number.extract()?);
            continue;
        }
        let raw = utf8(&value, ESCAPE)?;
        if let Some(seconds) = seconds_of(&raw) {
            encoded.push(0);
            encoded.extend_from_slice(&seconds.to_be_bytes());
        } else {
            push_varint(&mut encoded, TEXT + raw.len() as u64);
            encoded.extend_from_slice(&raw);
        }
    }
    Ok(PyBytes::new(headers.py(), &encoded))
}

/// Pairs of name and value; None if the bytes are damaged.
#[pyfunction]
fn decode_headers<'py>(
    source: &Bound<'py, PyBytes>,
    names: &Bound<'py, PyTuple>,
    values: &Bound<'py, PyTuple>,
) -> Option<Bound<'py, PyTuple>> {
    let (python, source) = (source.py(), source.as_bytes());
    let pairs = PyList::empty(python);
    let word = |words: &Bound<'py, PyTuple>, number: usize| words.get_item(number.checked_sub(1)?).ok();
    let text = |at: &mut usize, bytes: usize| {
        let raw = take(source, at, bytes)?;
        match std::str::from_utf8(raw) {
            Ok(text) => Some(PyString::new(python, text).into_any()),
            Err(_) => PyBytes::new(python, raw).call_method1("decode", ("utf-8", ESCAPE)).ok(),
        }
    };
    let mut at = 0;
    while let Some(&name) = source.get(at) {
        at += 1;
        let name = match name {
            0 => {
                let bytes = varint(source, &mut at)? as usize;
                text(&mut at, bytes)?
            }
            1..LOWER_CASE => word(names, usize::from(name))?,
            _ => {
                let name = word(names, usize::from(name - LOWER_CASE))?;
                let lower = name.cast::<PyString>().ok()?.to_str().ok()?.to_ascii_lowercase();
                PyString::new(python, &lower).into_any()
            }
        };
        let value = match varint(source, &mut at)? {
            0 => {
                let date = render(number(source, &mut at, 4)? as u32);
                PyString::new(python, std::str::from_utf8(&date).ok()?).into_any()
            }
            number if number < TEXT => word(values, number as usize)?,
            length => text(&mut at, (length - TEXT) as usize)?,
        };
        pairs.append((name, value)).ok()?;
    }
    Some(pairs.to_tuple())
}

/// The encoding of a body, and what says so: bom, http, meta, xml or guessed.
#[pyfunction]
fn charset_of(body: &[u8], content_type: &Bound<'_, PyString>) -> PyResult<(String, &'static str)> {
    let (python, content_type) = (content_type.py(), content_type.to_string_lossy());
    let body = &body[..body.len().min(TEXT_LIMIT_BYTES)];
    let ((name, _), origin) = detached(python, || charset::decode_told(body, &content_type))?;
    let origin = match origin {
        Origin::Bom => "bom",
        Origin::Http => "http",
        Origin::Meta => "meta",
        Origin::Xml => "xml",
        Origin::Guessed => "guessed",
    };
    Ok((lowered(name), origin))
}

fn lowered(name: charset::Name) -> String {
    name.name().to_ascii_lowercase()
}

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(encode_headers, module)?)?;
    module.add_function(wrap_pyfunction!(charset_of, module)?)?;
    module.add_function(wrap_pyfunction!(decode_headers, module)?)
}
