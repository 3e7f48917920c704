//! Loops over text compiled for sixteen bytes at a time, for thirty-two with AVX2, for sixty-four with AVX-512.
//!
//! A loop is a `Work`, written once over `Bytes`; `run` picks.  Classes of bytes are bits of an integer, bit i for byte
//! i.  Knows `sixteen`, whose bytes every processor has; must not know what a loop looks for.

use crate::bytes;
use crate::simd::{self, Sixteen};

/// Eight groups of words, as bits: those that have the low four bits of each of a word's first `N` bytes, and the high
/// four bits of the first one.
#[derive(Clone, Copy)]
pub struct Groups<const N: usize> {
    pub low: [[u8; 16]; N],
    pub high: [u8; 16],
}

/// As many bytes as one instruction takes.
pub trait Bytes: Copy {
    const COUNT: usize;
    /// As many bytes as there are from `place` on up to `COUNT`, zeros behind.
    fn load(source: &[u8], place: usize) -> Self;
    /// Which bytes equal one value.
    fn equal(self, byte: u8) -> u64;
    /// Which bytes are at most so large.
    fn at_most(self, byte: u8) -> u64;
    /// Which bytes are 0x80 or more.
    fn high(self) -> u64;
    /// Which of up to sixty-four bytes are ASCII letters, digits or underscores; stores them, letters in lower case.
    fn class_64(text: &[u8], lowered: &mut [u8; 64]) -> u64;
    /// Of up to `COUNT` bytes from `place` on: those where the next `N` are in one of the groups; zeros stand behind the
    /// end.
    fn in_a_group<const N: usize>(text: &[u8], place: usize, groups: &Groups<N>) -> u64;
    /// How many of the low `COUNT` bits are set, where there are no others.
    fn count(bits: u64) -> usize;
    /// Store each byte, or `least` where it is smaller, from `place` on.
    fn store_at_least(self, least: u8, target: &mut [u8], place: usize);
}

impl Bytes for Sixteen {
    const COUNT: usize = 16;

    #[inline(always)]
    fn load(source: &[u8], place: usize) -> Self {
        simd::load(source, place)
    }

    #[inline(always)]
    fn equal(self, byte: u8) -> u64 {
        self.equal(byte).into()
    }

    #[inline(always)]
    fn at_most(self, byte: u8) -> u64 {
        self.at_most(byte).into()
    }

    #[inline(always)]
    fn high(self) -> u64 {
        self.high().into()
    }

    #[inline(always)]
    fn class_64(text: &[u8], lowered: &mut [u8; 64]) -> u64 {
        let mut flags = [0; 64];
        // The loop compiles to vector instructions.
        for ((flag, lowered), &byte) in flags.iter_mut().zip(lowered).zip(text) {
            *lowered = byte.to_ascii_lowercase();
            *flag = u8::from(bytes::is_word_byte(byte));
        }
        bytes::bits(&flags)
    }

    #[inline(always)]
    fn in_a_group<const N: usize>(text: &[u8], place: usize, groups: &Groups<N>) -> u64 {
        let is_left = |place: usize| {
            let byte = |ahead: usize| usize::from(text.get(place + ahead).copied().unwrap_or(0));
            let mut left = groups.high[byte(0) >> 4];
            groups.low.iter().enumerate().all(|(ahead, low)| {
                left &= low[byte(ahead) & 15];
                left != 0
            })
        };
        (0..16).fold(0, |bits, ahead| bits | u64::from(is_left(place + ahead)) << ahead)
    }

    #[inline(always)]
    fn count(bits: u64) -> usize {
        let bits = bits as u32;
        let pairs = bits - (bits >> 1 & 0x5555);
        let fours = (pairs & 0x3333) + (pairs >> 2 & 0x3333);
        let eights = (fours + (fours >> 4)) & 0x0f0f;
        ((eights + (eights >> 8)) & 0x1f) as usize
    }

    #[inline(always)]
    fn store_at_least(self, least: u8, target: &mut [u8], place: usize) {
        target[place..place + 16].copy_from_slice(&self.at_least(least).bytes());
    }
}

/// Which of up to sixty-four bytes from `place` on equal one value.
#[inline(always)]
pub fn equal_of_64<B: Bytes>(source: &[u8], place: usize, byte: u8) -> u64 {
    let mut bits = 0;
    let mut ahead = 0;
    while ahead < 64 && place + ahead < source.len() {
        bits |= B::load(source, place + ahead).equal(byte) << ahead;
        ahead += B::COUNT;
    }
    bits
}

/// What `Bytes::in_a_group` gives of up to sixty-four bytes from `place` on.
#[inline(always)]
pub fn in_a_group_of_64<B: Bytes, const N: usize>(text: &[u8], place: usize, groups: &Groups<N>) -> u64 {
    let mut bits = 0;
    for ahead in (0..64).step_by(B::COUNT) {
        bits |= B::in_a_group(text, place + ahead, groups) << ahead;
    }
    bits
}

/// A loop over bytes; `on` is to be marked `inline(always)`, with all that it calls for `B`.
pub trait Work {
    type Made;
    fn on<B: Bytes>(self) -> Self::Made;
}

/// Do the work with as many bytes at a time as this processor takes.
#[inline(always)]
pub fn run<W: Work>(work: W) -> W::Made {
    #[cfg(target_arch = "x86_64")]
    let work = match sixty_four::run(work).or_else(thirty_two::run) {
        Ok(made) => return made,
        Err(work) => work,
    };
    work.on::<Sixteen>()
}

/// SAFETY, of every block here: a `ThirtyTwo` comes to be only in a `Work` that `run` does, which has asked the
/// processor right before; loads and stores are of an array or a slice of just their length.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod thirty_two {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi8, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8, _mm256_loadu_si256,
        _mm256_max_epu8, _mm256_min_epu8, _mm256_movemask_epi8, _mm256_set1_epi8, _mm256_setzero_si256,
        _mm256_shuffle_epi8, _mm256_srli_epi16, _mm256_storeu_si256, _mm256_sub_epi8, _mm_loadu_si128,
    };

    use super::{Bytes, Groups, Work};

    #[derive(Clone, Copy)]
    pub struct ThirtyTwo(__m256i);

    #[inline(always)]
    fn splat(byte: u8) -> __m256i {
        unsafe { _mm256_set1_epi8(byte as i8) }
    }

    #[inline(always)]
    fn bits(bytes: __m256i) -> u64 {
        u64::from(unsafe { _mm256_movemask_epi8(bytes) } as u32)
    }

    #[inline(always)]
    fn of(bytes: &[u8; 32]) -> ThirtyTwo {
        ThirtyTwo(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) })
    }

    #[cold]
    #[inline(never)]
    fn load_end<const COUNT: usize>(rest: &[u8]) -> [u8; COUNT] {
        let mut padded = [0; COUNT];
        padded[..rest.len()].copy_from_slice(rest);
        padded
    }

    #[inline(always)]
    pub fn run<W: Work>(work: W) -> Result<W::Made, W> {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn wide<W: Work>(work: W) -> W::Made {
            work.on::<ThirtyTwo>()
        }
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
        {
            return Ok(unsafe { wide(work) });
        }
        Err(work)
    }

    impl Bytes for ThirtyTwo {
        const COUNT: usize = 32;

        #[inline(always)]
        fn load(source: &[u8], place: usize) -> Self {
            let rest = &source[place..];
            match rest.first_chunk() {
                Some(bytes) => of(bytes),
                None => of(&load_end(rest)),
            }
        }

        #[inline(always)]
        fn equal(self, byte: u8) -> u64 {
            bits(unsafe { _mm256_cmpeq_epi8(self.0, splat(byte)) })
        }

        #[inline(always)]
        fn at_most(self, byte: u8) -> u64 {
            bits(unsafe { _mm256_cmpeq_epi8(_mm256_min_epu8(self.0, splat(byte)), self.0) })
        }

        #[inline(always)]
        fn high(self) -> u64 {
            bits(self.0)
        }

        #[inline(always)]
        fn class_64(text: &[u8], lowered: &mut [u8; 64]) -> u64 {
            let mut classes = 0;
            for (half, lowered) in lowered.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                let Self(bytes) = Self::load(text, (32 * half).min(text.len()));
                let within = |bytes, first: u8, count: u8| unsafe {
                    let from = _mm256_sub_epi8(bytes, splat(first));
                    _mm256_cmpeq_epi8(_mm256_min_epu8(from, splat(count - 1)), from)
                };
                let small = unsafe { _mm256_add_epi8(bytes, _mm256_and_si256(within(bytes, b'A', 26), splat(0x20))) };
                unsafe { _mm256_storeu_si256(lowered.as_mut_ptr().cast(), small) };
                let letters = bits(within(small, b'a', 26));
                classes |= (letters | bits(within(bytes, b'0', 10)) | Self(bytes).equal(b'_')) << (32 * half);
            }
            classes
        }

        #[inline(always)]
        fn in_a_group<const N: usize>(text: &[u8], place: usize, groups: &Groups<N>) -> u64 {
            // One look at where the text ends, not one for each load.
            let rest = &text[place.min(text.len())..];
            let end: [u8; 64];
            let window = match rest.first_chunk::<64>() {
                Some(window) => window,
                None => {
                    end = load_end(rest);
                    &end
                }
            };
            let four = splat(15);
            let look_up = |of: &[u8; 16], bytes| unsafe {
                let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(of.as_ptr().cast()));
                _mm256_shuffle_epi8(table, _mm256_and_si256(bytes, four))
            };
            let mut left = look_up(&groups.high, unsafe { _mm256_srli_epi16::<4>(Self::load(window, 0).0) });
            for (ahead, low) in groups.low.iter().enumerate() {
                left = unsafe { _mm256_and_si256(left, look_up(low, Self::load(window, ahead.min(32)).0)) };
            }
            !bits(unsafe { _mm256_cmpeq_epi8(left, _mm256_setzero_si256()) }) & u64::from(u32::MAX)
        }

        #[inline(always)]
        fn count(bits: u64) -> usize {
            bits.count_ones() as usize
        }

        #[inline(always)]
        fn store_at_least(self, least: u8, target: &mut [u8], place: usize) {
            let target = &mut target[place..place + 32];
            unsafe { _mm256_storeu_si256(target.as_mut_ptr().cast(), _mm256_max_epu8(self.0, splat(least))) };
        }
    }
}

/// SAFETY, of every block here: a `SixtyFour` comes to be only in a `Work` that `run` does, which has asked the
/// processor right before; a masked load touches no byte but those whose bits are set, other loads
/// and stores an array or a slice of just their length.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod sixty_four {
    use std::arch::x86_64::{
        __m512i, _mm512_and_si512, _mm512_broadcast_i32x4, _mm512_cmpeq_epi8_mask, _mm512_cmple_epu8_mask,
        _mm512_cmplt_epu8_mask, _mm512_mask_add_epi8, _mm512_maskz_loadu_epi8, _mm512_max_epu8, _mm512_movepi8_mask,
        _mm512_set1_epi8, _mm512_shuffle_epi8, _mm512_srli_epi16, _mm512_storeu_si512, _mm512_sub_epi8,
        _mm512_test_epi8_mask, _mm_loadu_si128,
    };

    use super::{Bytes, Groups, Work};

    #[derive(Clone, Copy)]
    pub struct SixtyFour(__m512i);

    #[inline(always)]
    fn splat(byte: u8) -> __m512i {
        unsafe { _mm512_set1_epi8(byte as i8) }
    }

    #[inline(always)]
    fn available() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt")
    }

    #[inline(always)]
    pub fn run<W: Work>(work: W) -> Result<W::Made, W> {
        #[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
        fn wide<W: Work>(work: W) -> W::Made {
            work.on::<SixtyFour>()
        }
        if available() {
            return Ok(unsafe { wide(work) });
        }
        Err(work)
    }

    impl Bytes for SixtyFour {
        const COUNT: usize = 64;

        #[inline(always)]
        fn load(source: &[u8], place: usize) -> Self {
            let rest = &source[place..];
            let mask = if rest.len() < 64 { (1 << rest.len()) - 1 } else { u64::MAX };
            Self(unsafe { _mm512_maskz_loadu_epi8(mask, rest.as_ptr().cast()) })
        }

        #[inline(always)]
        fn equal(self, byte: u8) -> u64 {
            unsafe { _mm512_cmpeq_epi8_mask(self.0, splat(byte)) }
        }

        #[inline(always)]
        fn at_most(self, byte: u8) -> u64 {
            unsafe { _mm512_cmple_epu8_mask(self.0, splat(byte)) }
        }

        #[inline(always)]
        fn high(self) -> u64 {
            unsafe { _mm512_movepi8_mask(self.0) }
        }

        #[inline(always)]
        fn class_64(text: &[u8], lowered: &mut [u8; 64]) -> u64 {
            let Self(bytes) = Self::load(text, 0);
            let within = |bytes, first: u8, count: u8| unsafe {
                _mm512_cmplt_epu8_mask(_mm512_sub_epi8(bytes, splat(first)), splat(count))
            };
            let capitals = within(bytes, b'A', 26);
            let small = unsafe { _mm512_mask_add_epi8(bytes, capitals, bytes, splat(0x20)) };
            unsafe { _mm512_storeu_si512(lowered.as_mut_ptr().cast(), small) };
            within(small, b'a', 26) | within(bytes, b'0', 10) | Self(bytes).equal(b'_')
        }

        #[inline(always)]
        fn in_a_group<const N: usize>(text: &[u8], place: usize, groups: &Groups<N>) -> u64 {
            let four = splat(15);
            let look_up = |of: &[u8; 16], bytes| unsafe {
                let table = _mm512_broadcast_i32x4(_mm_loadu_si128(of.as_ptr().cast()));
                _mm512_shuffle_epi8(table, _mm512_and_si512(bytes, four))
            };
            let load = |ahead: usize| Self::load(text, (place + ahead).min(text.len())).0;
            let mut left = look_up(&groups.high, unsafe { _mm512_srli_epi16::<4>(load(0)) });
            for (ahead, low) in groups.low.iter().enumerate() {
                left = unsafe { _mm512_and_si512(left, look_up(low, load(ahead))) };
            }
            unsafe { _mm512_test_epi8_mask(left, left) }
        }

        #[inline(always)]
        fn count(bits: u64) -> usize {
            bits.count_ones() as usize
        }

        #[inline(always)]
        fn store_at_least(self, least: u8, target: &mut [u8], place: usize) {
            let target = &mut target[place..place + 64];
            unsafe {
                let bytes = _mm512_max_epu8(self.0, splat(least));
                _mm512_storeu_si512(target.as_mut_ptr().cast(), bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that can be asked of the bytes from a place on.
    struct Ask<'a>(&'a [u8], usize);

    impl Work for Ask<'_> {
        type Made = (usize, [u64; 6], Vec<u8>);

        #[inline(always)]
        fn on<B: Bytes>(self) -> Self::Made {
            let Self(source, place) = self;
            let bytes = B::load(source, place);
            let mut stored = vec![0; 256];
            bytes.store_at_least(b' ', &mut stored, 0);
            let mut lowered = [0; 64];
            let end = source.len().min(place + 64);
            let words = B::class_64(&source[place..end], &mut lowered);
            stored[64..64 + end - place].copy_from_slice(&lowered[..end - place]);
            let bits = [
                bytes.equal(b'<'),
                bytes.at_most(0x1f),
                bytes.high(),
                words,
                equal_of_64::<B>(source, place, b'<'),
                B::count(bytes.high()) as u64,
            ];
            (B::COUNT, bits, stored)
        }
    }

    fn plainly(source: &[u8], place: usize, count: usize) -> ([u64; 6], Vec<u8>) {
        let at = |ahead: usize| source.get(place + ahead).copied().unwrap_or(0);
        let bits = |count: usize, holds: &dyn Fn(u8) -> bool| {
            (0..count).filter(|&ahead| holds(at(ahead))).fold(0, |bits: u64, ahead| bits | 1 << ahead)
        };
        let mut stored = vec![0; 256];
        (0..count).for_each(|ahead| stored[ahead] = at(ahead).max(b' '));
        (0..64).for_each(|ahead| stored[64 + ahead] = at(ahead).to_ascii_lowercase());
        let high = bits(count, &|byte| byte >= 0x80);
        let found = [
            bits(count, &|byte| byte == b'<'),
            bits(count, &|byte| byte <= 0x1f),
            high,
            bits(64, &bytes::is_word_byte),
            bits(64, &|byte| byte == b'<'),
            high.count_ones().into(),
        ];
        (found, stored)
    }

    #[test]
    fn bits_mean_what_the_plain_tests_say_by_either_way() {
        let mut state = 1u64;
        for length in 1..150 {
            let source: Vec<u8> = (0..length)
                .map(|place| {
                    state = crate::shingle::fold(&[state], place);
                    if state >> 60 == 0 {
                        b'<'
                    } else {
                        (state >> 32) as u8
                    }
                })
                .collect();
            for place in 0..length as usize {
                for (count, bits, stored) in [Ask(&source, place).on::<Sixteen>(), run(Ask(&source, place))] {
                    assert_eq!((bits, stored), plainly(&source, place, count), "{length} {place} {count}");
                }
            }
        }
    }
}
