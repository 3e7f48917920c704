//! What was found, written down as a zstd frame: libzstd's entropy coding.
//!
//! The module with unsafe code (`places` has one instruction besides): calls of libzstd's C functions.  What they trust
//! blindly is checked first, in `check`: sequences that cover the value block by block, and copy from where there is
//! something.  Pointers go into a call with the lengths of the slices that they are of, and none outlives it; the context
//! belongs to `Zstd` alone.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fmt;
use std::ptr::NonNull;

use zstd_sys as zstd;
use zstd_sys::ZSTD_cParameter as Parameter;

/// A zstd block holds at most so much.
pub const BLOCK_BYTES: usize = 128 << 10;
/// No copy is shorter.
pub const SHORTEST_COPY_BYTES: usize = 4;
const WINDOW_BITS: std::ops::RangeInclusive<u32> = 10..=27;
/// How a frame begins: nothing but a window.
const DESCRIPTOR: u8 = 0;
/// zstd's own default, at which values are written: 17.7% of the raw bytes of manual pages, at some 250 MB/s.
pub const LEVEL: i32 = 3;
/// Of deltas by libzstd, at least: they take 2.5% of manual pages in place of 3.0 at level 3, in the same time with
/// tables that fit.
pub const DELTA_LEVEL: i32 = 6;
/// 8 MB of table: it reaches back 16 MB, over the longest base.
const HASH_BITS_MOST: u32 = 21;

/// A run of literals and the copy behind it; a copy of no bytes ends a block.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Copy(zstd::ZSTD_Sequence);

impl Copy {
    #[inline(always)]
    pub fn new(literals: usize, distance: usize, bytes: usize) -> Self {
        let (literals, distance, bytes) = (literals as u32, distance as u32, bytes as u32);
        Self(zstd::ZSTD_Sequence { offset: distance, litLength: literals, matchLength: bytes, rep: 0 })
    }

    pub fn end_of_block(literals: usize) -> Self {
        Self::new(literals, 0, 0)
    }

    #[inline(always)]
    pub fn literals(&self) -> usize {
        self.0.litLength as usize
    }

    #[inline(always)]
    pub fn bytes(&self) -> usize {
        self.0.matchLength as usize
    }

    #[inline(always)]
    pub fn distance(&self) -> usize {
        self.0.offset as usize
    }
}

/// Why there is no frame.
#[derive(Debug)]
pub enum Refused {
    /// The frame would be clearly longer than it may be.
    OverLimit,
    /// A defect: copies that do not make up the value, or that libzstd does not take.
    Failed(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverLimit => to.write_str("the frame would be longer than it may be"),
            Self::Failed(why) => write!(to, "no zstd frame was made: {why}"),
        }
    }
}

/// A libzstd context that is set up once, and room for a frame.
struct Zstd {
    context: NonNull<zstd::ZSTD_CCtx>,
    frame: Vec<u8>,
}

// SAFETY: a context may be used by any thread, by one at a time; every use takes `&mut self`.
unsafe impl Send for Zstd {}

impl Drop for Zstd {
    fn drop(&mut self) {
        // SAFETY: it was made by ZSTD_createCCtx, and is freed here alone.
        unsafe { zstd::ZSTD_freeCCtx(self.context.as_ptr()) };
    }
}

impl Zstd {
    /// None where libzstd has no memory, or knows a parameter no more.
    fn new(parameters: &[(Parameter, i32)]) -> Option<Self> {
        // SAFETY: takes nothing; null is told apart.
        let context = NonNull::new(unsafe { zstd::ZSTD_createCCtx() })?;
        let made = Self { context, frame: Vec::new() };
        for (parameter, value) in parameters {
            // SAFETY: the context is live; parameters are checked by libzstd.
            let code = unsafe { zstd::ZSTD_CCtx_setParameter(made.context.as_ptr(), *parameter, *value) };
            if error_of(code).is_some() {
                return None;
            }
        }
        Some(made)
    }

    /// What a call writes into the room for the frame of a value; it gives the bytes written, or libzstd's error.
    fn write(
        &mut self,
        value: &[u8],
        call: impl FnOnce(*mut zstd::ZSTD_CCtx, &mut [u8]) -> usize,
    ) -> Result<&mut [u8], Refused> {
        // SAFETY: pure arithmetic.
        let bound = unsafe { zstd::ZSTD_compressBound(value.len()) };
        if self.frame.len() < bound {
            self.frame.resize(bound, 0);
        }
        // What there is room for decides in rare cases how a block is written: it must not depend on earlier values.
        let frame = &mut self.frame[..bound];
        let code = call(self.context.as_ptr(), frame);
        match error_of(code) {
            Some(error) => Err(Refused::Failed(error)),
            None => Ok(&mut frame[..code]),
        }
    }
}

/// Writes frames of given sequences.
pub struct Context(Zstd);

impl Context {
    /// None where libzstd has no memory, or knows a parameter no more.
    pub fn new() -> Option<Self> {
        let made = Zstd::new(&[
            (Parameter::ZSTD_c_experimentalParam2, 1), // format: without magic
            (Parameter::ZSTD_c_contentSizeFlag, 0),
            (Parameter::ZSTD_c_checksumFlag, 0),
            (Parameter::ZSTD_c_dictIDFlag, 0),
            (Parameter::ZSTD_c_strategy, zstd::ZSTD_strategy::ZSTD_dfast as i32), // how well tables are weighed
            (Parameter::ZSTD_c_windowLog, *WINDOW_BITS.end() as i32),
            (Parameter::ZSTD_c_hashLog, 6), // tables of its own that are not used
            (Parameter::ZSTD_c_chainLog, 6),
            (Parameter::ZSTD_c_minMatch, SHORTEST_COPY_BYTES as i32),
            (Parameter::ZSTD_c_experimentalParam11, 1), // sequences say where blocks end
            (Parameter::ZSTD_c_experimentalParam12, 0), // they are not checked: a base is unknown there
            (Parameter::ZSTD_c_experimentalParam14, 2), // no row match finder
            (Parameter::ZSTD_c_experimentalParam19, 1), // repeated distances are looked for
        ])?;
        Some(Self(made))
    }

    /// Bytes that are kept for a frame.
    pub fn capacity(&self) -> usize {
        self.0.frame.capacity()
    }

    /// The frame of a value, given its copies; `before` bytes stand before it.
    pub fn frame(&mut self, copies: &[Copy], value: &[u8], before: usize) -> Result<&[u8], Refused> {
        check(copies, value.len(), before)?;
        // SAFETY: pointers and lengths are of live slices; `Copy` is laid out as a sequence; `check` has made sure of
        // what libzstd asks of sequences: blocks of at most BLOCK_BYTES that make up the value, each with an end.
        let frame = self.0.write(value, |context, frame| unsafe {
            zstd::ZSTD_compressSequences(
                context,
                frame.as_mut_ptr().cast(),
                frame.len(),
                copies.as_ptr().cast(),
                copies.len(),
                value.as_ptr().cast(),
                value.len(),
            )
        })?;
        if frame.len() < 2 || frame[0] != DESCRIPTOR {
            return Err(Refused::Failed(format!("a frame begins with {:02x?}", &frame[..frame.len().min(2)])));
        }
        // libzstd knows of nothing before the value: the window has to span that, too.
        frame[1] = ((window_bits(before + value.len()) - WINDOW_BITS.start()) << 3) as u8;
        Ok(frame)
    }
}

/// How libzstd compresses a value against a base: a window that spans both, and tables no larger than that needs.
fn delta_parameters(level: i32, window_bits: u32) -> zstd::ZSTD_compressionParameters {
    // SAFETY: takes and gives numbers.
    let of = |level, bytes| unsafe { zstd::ZSTD_getCParams(level, bytes, 0) };
    let mut made = of(level, 1 << window_bits);
    if level <= DELTA_LEVEL || made.hashLog < (window_bits - 2).min(HASH_BITS_MOST) {
        if window_bits > HASH_BITS_MOST {
            // With an entry for each place the tables would not reach back to the base's beginning.
            made = of(LEVEL, 0);
            made.hashLog = (window_bits - 2).min(HASH_BITS_MOST);
            made.chainLog = (window_bits - 3).min(HASH_BITS_MOST - 1);
        } else {
            made = of(level, 0);
            (made.hashLog, made.chainLog) = (window_bits - 1, window_bits - 1);
        }
    }
    made.windowLog = window_bits;
    made
}

/// The window that spans a value and what stands before it.
fn window_bits(bytes: usize) -> u32 {
    (usize::BITS - bytes.leading_zeros()).clamp(*WINDOW_BITS.start(), *WINDOW_BITS.end())
}

/// A dictionary as libzstd compresses with it; any number of threads may use it.
pub struct Prepared(NonNull<zstd::ZSTD_CDict>);

// SAFETY: libzstd only reads a prepared dictionary.
unsafe impl Send for Prepared {}
unsafe impl Sync for Prepared {}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: it was made by ZSTD_createCDict_advanced, and is freed here alone.
        unsafe { zstd::ZSTD_freeCDict(self.0.as_ptr()) };
    }
}

impl Prepared {
    /// None if libzstd has no memory.
    pub fn new(content: &[u8], level: i32) -> Option<Self> {
        let memory = zstd::ZSTD_customMem { customAlloc: None, customFree: None, opaque: std::ptr::null_mut() };
        // SAFETY: pointer and length are of a live slice, which is copied; the content is taken as raw bytes.
        NonNull::new(unsafe {
            zstd::ZSTD_createCDict_advanced(
                content.as_ptr().cast(),
                content.len(),
                zstd::ZSTD_dictLoadMethod_e::ZSTD_dlm_byCopy,
                zstd::ZSTD_dictContentType_e::ZSTD_dct_rawContent,
                zstd::ZSTD_getCParams(level, 0, 0),
                memory,
            )
        })
        .map(Self)
    }
}

/// Makes frames as libzstd does by itself, at any level: of values without dictionary and base, of very long ones, and
/// of all values where a compaction takes its time.
pub struct Libzstd(Zstd);

impl Libzstd {
    /// None if libzstd has no memory.
    pub fn new() -> Option<Self> {
        Zstd::new(&[]).map(Self)
    }

    /// Bytes that are kept for a frame.
    pub fn capacity(&self) -> usize {
        self.0.frame.capacity()
    }

    /// The frame of a value alone.
    pub fn plain(&mut self, value: &[u8], level: i32) -> Result<&[u8], Refused> {
        // SAFETY: the context is live.
        self.frame(value, |context| unsafe {
            vec![zstd::ZSTD_CCtx_setParameter(context, Parameter::ZSTD_c_compressionLevel, level)]
        })
    }

    /// The frame of a value against a base.
    pub fn with_base(&mut self, value: &[u8], base: &[u8], level: i32) -> Result<&[u8], Refused> {
        let parameters = delta_parameters(level.max(DELTA_LEVEL), window_bits(base.len() + value.len()));
        // SAFETY: the context is live; the base is live until `frame` returns, which makes the context forget it.
        self.frame(value, |context| unsafe {
            let (by_reference, raw) =
                (zstd::ZSTD_dictLoadMethod_e::ZSTD_dlm_byRef, zstd::ZSTD_dictContentType_e::ZSTD_dct_rawContent);
            let (from, bytes) = (base.as_ptr().cast(), base.len());
            vec![
                zstd::ZSTD_CCtx_setCParams(context, parameters),
                zstd::ZSTD_CCtx_loadDictionary_advanced(context, from, bytes, by_reference, raw),
            ]
        })
    }

    /// The frame of a value with a dictionary, which was prepared at this level.
    pub fn with_dictionary(&mut self, value: &[u8], dictionary: &Prepared, level: i32) -> Result<&[u8], Refused> {
        // SAFETY: the context is live; the dictionary is live until `frame` returns, which makes the context forget it.
        self.frame(value, |context| unsafe {
            vec![
                zstd::ZSTD_CCtx_setCParams(context, zstd::ZSTD_getCParams(level, 0, 0)),
                zstd::ZSTD_CCtx_refCDict(context, dictionary.0.as_ptr()),
            ]
        })
    }

    /// A frame after `set` has said how and with what; the context forgets both.
    fn frame(&mut self, value: &[u8], set: impl FnOnce(*mut zstd::ZSTD_CCtx) -> Vec<usize>) -> Result<&[u8], Refused> {
        let context = self.0.context.as_ptr();
        // SAFETY: the context is live.
        let set_to = |parameter, number| unsafe { zstd::ZSTD_CCtx_setParameter(context, parameter, number) };
        let mut codes = vec![
            set_to(Parameter::ZSTD_c_experimentalParam2, 1), // format: without magic
            set_to(Parameter::ZSTD_c_contentSizeFlag, 0),
            set_to(Parameter::ZSTD_c_dictIDFlag, 0),
        ];
        codes.extend(set(context));
        let made = match codes.into_iter().find_map(error_of) {
            Some(error) => Err(Refused::Failed(error)),
            // SAFETY: pointers and lengths are of live slices.
            None => self.0.write(value, |context, frame| unsafe {
                let (to, from) = (frame.as_mut_ptr().cast(), value.as_ptr().cast());
                zstd::ZSTD_compress2(context, to, frame.len(), from, value.len())
            }),
        }
        .map(|frame| frame.len());
        // SAFETY: the context is live.
        unsafe { zstd::ZSTD_CCtx_reset(context, zstd::ZSTD_ResetDirective::ZSTD_reset_session_and_parameters) };
        made.map(|bytes| &self.0.frame[..bytes])
    }
}

/// Whether copies make up a value before which there are so many bytes.
fn check(copies: &[Copy], value_bytes: usize, before: usize) -> Result<(), Refused> {
    let (mut done, mut block_from) = (0usize, 0usize);
    let mut is_open = false;
    for copy in copies {
        let reach = before + done + copy.literals();
        done += copy.literals() + copy.bytes();
        is_open = copy.distance() != 0;
        let is_sound = if is_open {
            copy.distance() <= reach && copy.bytes() >= SHORTEST_COPY_BYTES
        } else {
            copy.bytes() == 0 && done > block_from
        };
        if !is_sound || done - block_from > BLOCK_BYTES {
            let [literals, distance, bytes] = [copy.literals(), copy.distance(), copy.bytes()];
            return Err(Refused::Failed(format!("{bytes} bytes from {distance} before, at {literals} of {done}")));
        }
        if !is_open {
            block_from = done;
        }
    }
    if is_open || done != value_bytes {
        return Err(Refused::Failed(format!("copies make up {done} bytes of {value_bytes}")));
    }
    Ok(())
}

/// What a code says that libzstd gave, where it is an error.
fn error_of(code: usize) -> Option<String> {
    // SAFETY: both take a number; the name is a static string.
    unsafe {
        (zstd::ZSTD_isError(code) != 0)
            .then(|| CStr::from_ptr(zstd::ZSTD_getErrorName(code)).to_string_lossy().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_do_not_make_up_the_value_are_refused() {
        let mut context = Context::new().expect("memory");
        let value = [7u8; 200];
        let end = Copy::end_of_block(0);
        for (copies, before) in [
            (vec![], 0),
            (vec![Copy::end_of_block(199)], 0),
            (vec![Copy::end_of_block(201)], 0),
            (vec![Copy::new(100, 1, 100)], 0),
            (vec![Copy::new(100, 101, 100), end], 0),
            (vec![Copy::new(0, 11, 200), end], 10),
            (vec![Copy::new(197, 1, 3), end], 0),
            (vec![Copy::end_of_block(0), Copy::end_of_block(200)], 0),
            (vec![Copy::new(1, 0, 199), end], 0),
        ] {
            assert!(matches!(context.frame(&copies, &value, before), Err(Refused::Failed(_))));
        }
        for (copies, before) in [(vec![Copy::new(0, 10, 200), end], 10), (vec![Copy::end_of_block(200)], 0)] {
            assert!(context.frame(&copies, &value, before).is_ok());
        }
        let long = vec![1; BLOCK_BYTES + 1];
        assert!(context.frame(&[Copy::end_of_block(long.len())], &long, 0).is_err());
        let blocks = [Copy::end_of_block(BLOCK_BYTES), Copy::end_of_block(1)];
        assert!(context.frame(&blocks, &long, 0).is_ok());
    }

    #[test]
    fn the_window_spans_what_stands_before() {
        let mut context = Context::new().expect("memory");
        let value = [b'x'; 100];
        for (before, window_bits) in [(0, 10), (923, 10), (924, 11), ((8 << 20) - 101, 23), (8 << 20, 24)] {
            let frame = context.frame(&[Copy::end_of_block(100)], &value, before).expect("a frame");
            assert_eq!((frame[0], frame[1] >> 3), (0, window_bits - 10));
        }
    }
}
