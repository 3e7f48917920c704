//! A frame back into its value: libzstd's decoder.
//!
//! The other module with unsafe code: calls of libzstd's C functions.  Pointers go into a call with the lengths of the
//! slices that they are of, and none outlives it.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use zstd_sys as zstd;

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Of a frame's first byte: content size present, or a single segment, which implies it.
const CONTENT_SIZE_BITS: u8 = 0xe0;
const SIZE_IN_FOUR_BYTES: u8 = 0x80;
/// Content that begins so would be taken for more than content, if libzstd were not told.
const DICTIONARY_MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];
/// A longer buffer is given back after use.
const KEPT_BYTES: usize = 4 << 20;

/// A libzstd context for decoding, and room for a frame.
pub struct Decoder {
    context: NonNull<zstd::ZSTD_DCtx>,
    frame: Vec<u8>,
}

// SAFETY: a context may be used by any thread, by one at a time; every use takes `&mut self`.
unsafe impl Send for Decoder {}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: it was made by ZSTD_createDCtx, and is freed here alone.
        unsafe { zstd::ZSTD_freeDCtx(self.context.as_ptr()) };
    }
}

impl Decoder {
    /// None where libzstd has no memory.
    pub fn new() -> Option<Self> {
        // SAFETY: takes nothing; null is told apart.
        let context = NonNull::new(unsafe { zstd::ZSTD_createDCtx() })?;
        Some(Self { context, frame: Vec::new() })
    }

    /// Fill a value with what a frame without magic and content size holds; whether it holds just that.
    ///
    /// `before` is the dictionary or base that the frame copies from, as raw content.  The frame is decoded with magic
    /// and size, as `tablets/values.py` does it: so libzstd itself refuses what has another length.
    pub fn decode(&mut self, frame: &[u8], before: &[u8], value: &mut [MaybeUninit<u8>]) -> bool {
        let Ok(bytes) = u32::try_from(value.len()) else { return false };
        if frame.len() < 2 || frame[0] & CONTENT_SIZE_BITS != 0 {
            return false;
        }
        let mut whole = std::mem::take(&mut self.frame);
        whole.clear();
        whole.reserve(frame.len() + MAGIC.len() + 4);
        whole.extend_from_slice(&MAGIC);
        whole.extend_from_slice(&[frame[0] | SIZE_IN_FOUR_BYTES, frame[1]]);
        whole.extend_from_slice(&bytes.to_le_bytes());
        whole.extend_from_slice(&frame[2..]);
        let is_whole = self.unpack(&whole, before, value);
        if whole.capacity() <= KEPT_BYTES {
            self.frame = whole;
        }
        is_whole
    }

    /// What such a frame holds; None if it does not hold so many bytes.
    pub fn decoded(&mut self, frame: &[u8], before: &[u8], bytes: usize) -> Option<Vec<u8>> {
        let mut value = Vec::with_capacity(bytes);
        if !self.decode(frame, before, &mut value.spare_capacity_mut()[..bytes]) {
            return None;
        }
        // SAFETY: `decode` says that it has filled just so many bytes.
        unsafe { value.set_len(bytes) };
        Some(value)
    }

    /// The same of a whole frame.
    pub fn unpack(&mut self, frame: &[u8], before: &[u8], value: &mut [MaybeUninit<u8>]) -> bool {
        if before.starts_with(&DICTIONARY_MAGIC) {
            return self.unpack_after(frame, before, value);
        }
        // SAFETY: the context is live, and so are all slices; libzstd only writes to the value.
        let code = unsafe {
            zstd::ZSTD_decompress_usingDict(
                self.context.as_ptr(),
                value.as_mut_ptr().cast(),
                value.len(),
                frame.as_ptr().cast(),
                frame.len(),
                before.as_ptr().cast(),
                before.len(),
            )
        };
        code == value.len() // an error is a number above all lengths
    }

    /// The same after content of any kind; slower, because libzstd prepares it as a dictionary.
    fn unpack_after(&mut self, frame: &[u8], before: &[u8], value: &mut [MaybeUninit<u8>]) -> bool {
        let context = self.context.as_ptr();
        // SAFETY: as above; what stands before is forgotten after one frame.
        let code = unsafe {
            zstd::ZSTD_DCtx_refPrefix(context, before.as_ptr().cast(), before.len());
            let (to, from) = (value.as_mut_ptr().cast(), frame.as_ptr().cast());
            let code = zstd::ZSTD_decompressDCtx(context, to, value.len(), from, frame.len());
            zstd::ZSTD_DCtx_refPrefix(context, std::ptr::null(), 0);
            code
        };
        code == value.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of one block that holds five bytes as they are.
    const STORED: [u8; 10] = [0, 0, (5 << 3) | 1, 0, 0, b'h', b'e', b'l', b'l', b'o'];

    #[test]
    fn a_frame_is_decoded_to_its_own_length_alone() {
        let mut decoder = Decoder::new().expect("memory");
        let mut value = [MaybeUninit::new(0u8); 5];
        assert!(decoder.decode(&STORED, b"", &mut value));
        // SAFETY: all of it was made of bytes.
        assert_eq!(value.map(|byte| unsafe { byte.assume_init() }), *b"hello");
        assert!(!decoder.decode(&STORED, b"", &mut [MaybeUninit::new(0u8); 4]));
        assert!(!decoder.decode(&STORED, b"", &mut [MaybeUninit::new(0u8); 6]));
        assert!(decoder.decode(&STORED, &DICTIONARY_MAGIC, &mut value));
        for cut in 0..STORED.len() {
            assert!(!decoder.decode(&STORED[..cut], b"before", &mut value));
        }
        assert!(decoder.decode(&STORED, b"before", &mut value));
    }
}
