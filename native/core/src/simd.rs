//! Sixteen bytes at a time: classes of bytes as the low sixteen bits of an integer, bit i for byte i.
//!
//! By SSE2, which every x86-64 processor has, or by plain integers elsewhere; a test holds both to the plain meaning.

#[cfg(target_arch = "x86_64")]
pub use sse2::Sixteen;

#[cfg(not(target_arch = "x86_64"))]
pub use plain::Sixteen;

/// As many bytes as there are up to sixteen, zeros behind.
#[inline(always)]
pub fn load(source: &[u8], place: usize) -> Sixteen {
    if let Some(sixteen) = source[place..].first_chunk() {
        return Sixteen::of(sixteen);
    }
    load_end(&source[place..])
}

#[cold]
fn load_end(rest: &[u8]) -> Sixteen {
    let mut padded = [0; 16];
    padded[..rest.len()].copy_from_slice(rest);
    Sixteen::of(&padded)
}

/// SAFETY, of every block here: the one thing that these calls ask for is SSE2, which the whole program is compiled for.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod sse2 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_cvtsi128_si64, _mm_max_epu8, _mm_movemask_epi8, _mm_set1_epi8, _mm_set_epi64x,
        _mm_setzero_si128, _mm_subs_epu8, _mm_unpackhi_epi64,
    };

    #[derive(Clone, Copy)]
    pub struct Sixteen(__m128i);

    impl Sixteen {
        #[inline(always)]
        pub fn of(bytes: &[u8; 16]) -> Self {
            let both = u128::from_le_bytes(*bytes);
            Self(unsafe { _mm_set_epi64x((both >> 64) as i64, both as i64) })
        }

        #[inline(always)]
        pub fn bytes(self) -> [u8; 16] {
            let low = unsafe { _mm_cvtsi128_si64(self.0) } as u64;
            let high = unsafe { _mm_cvtsi128_si64(_mm_unpackhi_epi64(self.0, self.0)) } as u64;
            (u128::from(high) << 64 | u128::from(low)).to_le_bytes()
        }

        /// Which bytes equal one value.
        #[inline(always)]
        pub fn equal(self, byte: u8) -> u32 {
            unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(self.0, _mm_set1_epi8(byte as i8))) as u32 }
        }

        /// Which bytes are at most so large.
        #[inline(always)]
        pub fn at_most(self, byte: u8) -> u32 {
            unsafe {
                let above = _mm_subs_epu8(self.0, _mm_set1_epi8(byte as i8));
                _mm_movemask_epi8(_mm_cmpeq_epi8(above, _mm_setzero_si128())) as u32
            }
        }

        /// Which bytes are 0x80 or more.
        #[inline(always)]
        pub fn high(self) -> u32 {
            unsafe { _mm_movemask_epi8(self.0) as u32 }
        }

        /// Each byte, or `least` where it is smaller.
        #[inline(always)]
        pub fn at_least(self, least: u8) -> Self {
            Self(unsafe { _mm_max_epu8(self.0, _mm_set1_epi8(least as i8)) })
        }
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod plain {
    use crate::bytes::{equal_everywhere, repeat, HIGHS};

    #[derive(Clone, Copy)]
    pub struct Sixteen([u64; 2]);

    impl Sixteen {
        #[inline(always)]
        pub fn of(bytes: &[u8; 16]) -> Self {
            let both = u128::from_le_bytes(*bytes);
            Self([both as u64, (both >> 64) as u64])
        }

        #[inline(always)]
        pub fn bytes(self) -> [u8; 16] {
            (u128::from(self.0[1]) << 64 | u128::from(self.0[0])).to_le_bytes()
        }

        /// The highest bit of each byte, side by side.
        #[inline(always)]
        fn bits(self, mask: impl Fn(u64) -> u64) -> u32 {
            let [low, high] = self.0.map(|word| ((mask(word) & HIGHS) >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56);
            (high << 8 | low) as u32
        }

        #[inline(always)]
        pub fn equal(self, byte: u8) -> u32 {
            self.bits(|word| equal_everywhere(word, byte))
        }

        #[inline(always)]
        pub fn at_most(self, byte: u8) -> u32 {
            self.bits(|word| at_most(word, byte))
        }

        #[inline(always)]
        pub fn high(self) -> u32 {
            self.bits(|word| word)
        }

        #[inline(always)]
        pub fn at_least(self, least: u8) -> Self {
            Self(self.0.map(|word| {
                let smaller = (at_most(word, least) >> 7) * 0xff;
                word & !smaller | repeat(least) & smaller
            }))
        }
    }

    /// Which bytes are at most `byte`, itself below 0x80, in every byte.
    #[inline(always)]
    fn at_most(word: u64, byte: u8) -> u64 {
        !((word & !HIGHS).wrapping_add(repeat(0x7f - byte)) | word) & HIGHS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_mean_what_the_plain_tests_say_on_every_machine() {
        for byte in 0..=255u8 {
            for place in 0..16 {
                let mut bytes = [b'~'; 16];
                bytes[place] = byte;
                let (found, plainly) = (Sixteen::of(&bytes), plain::Sixteen::of(&bytes));
                assert_eq!((found.bytes(), plainly.bytes()), (bytes, bytes));
                let bits = |holds: &dyn Fn(u8) -> bool| {
                    (0..16).filter(|&at| holds(bytes[at])).fold(0, |bits: u32, at| bits | 1 << at)
                };
                for other in [0, b'\n', 0x1f, b' ', b'<', b'~', 0x7f] {
                    let expected = bits(&|each| each == other);
                    assert_eq!((found.equal(other), plainly.equal(other)), (expected, expected));
                    let expected = bits(&|each| each <= other);
                    assert_eq!((found.at_most(other), plainly.at_most(other)), (expected, expected));
                    let expected = bytes.map(|each| each.max(other));
                    assert_eq!((found.at_least(other).bytes(), plainly.at_least(other).bytes()), (expected, expected));
                }
                let expected = bits(&|each| each >= 0x80);
                assert_eq!((found.high(), plainly.high()), (expected, expected));
            }
        }
    }

    #[test]
    fn zeros_stand_behind_the_end() {
        assert_eq!(load(b"abc", 1).bytes(), *b"bc\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(load(b"0123456789abcdefg", 1).bytes(), *b"123456789abcdefg");
    }
}
