//! What every part of the binding needs: work without the GIL, errors of Python, numbers and texts as Python has them.

use std::borrow::Cow;
use std::panic::{catch_unwind, AssertUnwindSafe};

use docstore_store::posted::{row_key_of, time_of};
use docstore_store::run::Fault;
use pyo3::exceptions::PyRuntimeError;
use pyo3::import_exception;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple, PyType};

import_exception!(docstore.model.errors, CorruptionError);
import_exception!(docstore.model.errors, InvalidArgument);
import_exception!(docstore.model.errors, UnsupportedFormat);

/// Decoded, or copied, in some 50 us: another thread that got the GIL meanwhile would keep it a hundred times as long.
pub const SHORT_BYTES: usize = 128 << 10;

/// Work without the GIL; a panic becomes an error.
pub fn detached<T: Send>(python: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    python.detach(|| caught(work)).map_err(PyRuntimeError::new_err)
}

/// A version of a page: its time and its row key.
pub fn place_of<'py>(python: Python<'py>, pointer: &[u8]) -> (u64, Bound<'py, PyBytes>) {
    (time_of(pointer), PyBytes::new(python, row_key_of(pointer)))
}

/// A fault of ours.
pub fn defect(what: &str) -> PyErr {
    PyRuntimeError::new_err(what.to_owned())
}

/// Work; a panic becomes a message.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str).or(cause.downcast_ref().copied());
        format!("the native kernel panicked: {}", text.unwrap_or("no message"))
    })
}

/// Numbers as bytes of uint64 in the machine's order.
pub fn words_as_bytes<'py>(python: Python<'py>, values: &[u64]) -> PyResult<Bound<'py, PyBytes>> {
    // SAFETY: the very bytes of the slice, any of which may be read as a u8; copied before the slice goes.
    let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), std::mem::size_of_val(values)) };
    Ok(PyBytes::new(python, bytes))
}

/// A `CorruptionError` with what was expected and found.
pub fn corrupt(python: Python<'_>, message: &str, offset: Option<usize>, expected: &str, found: &str) -> PyErr {
    let fields = PyDict::new(python);
    let made = fields
        .set_item("offset", offset)
        .and_then(|()| fields.set_item("expected", expected))
        .and_then(|()| fields.set_item("found", found))
        .and_then(|()| python.get_type::<CorruptionError>().call((message,), Some(&fields)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// What is wrong with a run, or with what is asked of it, as an error.
pub fn run_error(fault: impl Into<Fault>) -> PyErr {
    match fault.into() {
        Fault::Damaged => {
            CorruptionError::new_err("a run of postings leads outside itself; it is built again from the pages")
        }
        Fault::Corrupt { message, offset, expected, found } => {
            Python::attach(|python| corrupt(python, &message, offset, &expected, &found))
        }
        Fault::Version(version) => UnsupportedFormat::new_err(format!(
            "run of postings of format {version}, this docstore knows {}; it is rebuilt from the stored pages",
            docstore_store::format::RUN_FORMAT_VERSION
        )),
        Fault::Invalid(message) => InvalidArgument::new_err(message),
    }
}

/// `tuple.__new__`: a named tuple of it takes a tuple, and no call of Python.
pub fn new_of<'py>(made: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    made.py().get_type::<PyTuple>().getattr("__new__")
}

/// The bytes of a text in UTF-8; lone surrogates go as an error handler of Python has them.
pub fn utf8<'a>(text: &'a Bound<'_, PyString>, errors: &str) -> PyResult<Cow<'a, [u8]>> {
    match text.to_str() {
        Ok(text) => Ok(Cow::Borrowed(text.as_bytes())),
        Err(_) => Ok(Cow::Owned(text.call_method1("encode", ("utf-8", errors))?.extract()?)),
    }
}

/// A text of bytes in UTF-8; what is none goes as an error handler of Python has it.
pub fn text_of<'py>(python: Python<'py>, bytes: &[u8], errors: &str) -> PyResult<Bound<'py, PyAny>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(python, text).into_any()),
        Err(_) => PyBytes::new(python, bytes).call_method1("decode", ("utf-8", errors)),
    }
}
