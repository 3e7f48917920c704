//! Eight bytes at a time in a plain integer: classes of bytes as bits, without a line of unsafe code.
//!
//! A *mask* has the highest bit of each byte set where the byte belongs; the lowest set bit is exact.

pub const ONES: u64 = 0x0101_0101_0101_0101;
pub const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Eight bytes from `place` on; the caller has made sure that they are there.
#[inline(always)]
pub fn load(source: &[u8], place: usize) -> u64 {
    u64::from_le_bytes(source[place..place + 8].try_into().unwrap_or([0; 8]))
}

/// The same, zeros behind the end.
#[inline(always)]
pub fn load_padded(source: &[u8], place: usize) -> u64 {
    if place + 8 <= source.len() {
        return load(source, place);
    }
    if source.len() >= 8 {
        let behind = 8 * (place + 8 - source.len()) as u32;
        return load(source, source.len() - 8).checked_shr(behind).unwrap_or(0);
    }
    let mut padded = [0; 8];
    let rest = &source[place..];
    padded[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(padded)
}

/// Four bytes, for a character to be stored without a call: its own, and anything behind.
#[inline(always)]
pub fn four(source: &[u8], place: usize) -> [u8; 4] {
    source[place..].first_chunk().copied().unwrap_or_else(|| (load_padded(source, place) as u32).to_le_bytes())
}

#[inline(always)]
pub const fn repeat(byte: u8) -> u64 {
    ONES * byte as u64
}

/// Bytes equal to one value; exact in every byte below 0x80 and up to the first hit in the others.
#[inline(always)]
pub fn equal(word: u64, byte: u8) -> u64 {
    let difference = word ^ repeat(byte);
    difference.wrapping_sub(ONES) & !difference & HIGHS
}

/// Bytes equal to one value, exact in every byte.
#[inline(always)]
pub fn equal_everywhere(word: u64, byte: u8) -> u64 {
    let difference = word ^ repeat(byte);
    !(((difference & !HIGHS) + !HIGHS) | difference) & HIGHS
}

/// Number of the first byte that a mask names; 8 for none.
#[inline(always)]
pub fn first(mask: u64) -> usize {
    (mask.trailing_zeros() >> 3) as usize
}

/// Place of the first `needle` from `place` on, or the length: near ones without a call.
#[inline(always)]
pub fn find(needle: u8, source: &[u8], place: usize) -> usize {
    let mut at = place;
    for _ in 0..4 {
        if at + 8 > source.len() {
            break;
        }
        let mask = equal(load(source, at), needle);
        if mask != 0 {
            return at + first(mask);
        }
        at += 8;
    }
    memchr::memchr(needle, &source[at..]).map_or(source.len(), |offset| at + offset)
}

/// Whether a text has a byte other than 0: of short texts without a call.
#[inline(always)]
pub fn has(text: &[u8], byte: u8) -> bool {
    match text.len() {
        0..=7 => equal(load_padded(text, 0), byte) != 0,
        length @ 8..=32 => {
            let at = |place: usize| equal(load(text, place.min(length - 8)), byte);
            at(0) | at(8) | at(16) | at(24) != 0
        }
        _ => memchr::memchr(byte, text).is_some(),
    }
}

/// A hash of bytes, for tables in memory and for filters, which are kept on disk.
#[inline(always)]
pub fn mixed(text: &[u8]) -> u64 {
    const KEYS: [u64; 4] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93];
    let fold = |one: u64, other: u64| {
        let product = u128::from(one) * u128::from(other);
        product as u64 ^ (product >> 64) as u64
    };
    let length = text.len();
    let seed = KEYS[0] ^ length as u64;
    // Two loads, which overlap where the text is shorter than both, take the place of a loop over its bytes.
    let (one, other) = match length {
        0..=3 => {
            let at = |place: usize| u64::from(text.get(place).copied().unwrap_or(0));
            (at(0) | at(1) << 8 | at(2) << 16, 0)
        }
        4..=7 => (load_four(text, 0), load_four(text, length - 4)),
        8..=16 => (load(text, 0), load(text, length - 8)),
        _ => {
            let pair = |place: usize, key: u64| fold(load(text, place) ^ key, load(text, place + 8) ^ seed);
            let (mut first, mut second) = (0, 0);
            let mut place = 0;
            while place + 32 < length {
                first = fold(first ^ KEYS[3], pair(place, KEYS[1]));
                second = fold(second ^ KEYS[3], pair(place + 16, KEYS[2]));
                place += 32;
            }
            (first ^ pair(place.min(length - 16), KEYS[1]), second ^ pair(length - 16, KEYS[2]))
        }
    };
    fold(one ^ seed, other ^ KEYS[1])
}

#[inline(always)]
fn load_four(source: &[u8], place: usize) -> u64 {
    u32::from_le_bytes(source[place..place + 4].try_into().unwrap_or([0; 4])).into()
}

/// ASCII letters, in every byte.
#[inline(always)]
pub fn letters(word: u64) -> u64 {
    let lower = (word | repeat(0x20)) & repeat(0x7f);
    let from_a = lower + repeat(0x80 - b'a');
    let above_z = lower + repeat(0x80 - b'z' - 1);
    from_a & !above_z & !word & HIGHS
}

/// One bit a byte: bit i of the result is the lowest bit of `flags[i]`; each flag is 0 or 1.
#[inline(always)]
pub fn bits(flags: &[u8; 64]) -> u64 {
    let mut bits = 0;
    for (place, eight) in flags.chunks_exact(8).enumerate() {
        // The product has flag i at bit 56 + i, and nothing carries into those.
        bits |= load(eight, 0).wrapping_mul(0x0102_0408_1020_4080) >> 56 << (8 * place);
    }
    bits
}

/// ASCII lower case of every byte.
#[inline(always)]
pub fn lower(word: u64) -> u64 {
    word | (letters(word) >> 2)
}

/// ASCII letters, digits and the underscore.
#[inline(always)]
pub fn is_word_byte(byte: u8) -> bool {
    ((byte | 0x20).wrapping_sub(b'a') < 26) | (byte.wrapping_sub(b'0') < 10) | (byte == b'_')
}

/// What `tokens` calls S.
#[inline(always)]
pub fn is_blank(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | 0x0c | b'\r' | b' ')
}

/// Length of the UTF-8 sequence that a byte begins.
#[inline(always)]
pub fn sequence_length(lead: u8) -> usize {
    match lead {
        0..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    }
}

/// The code point of a sequence of two to four bytes; `bytes` is valid UTF-8 from its first byte on.
#[inline(always)]
pub fn code_point(bytes: &[u8], length: usize) -> u32 {
    let tail = |place: usize| u32::from(bytes[place] & 0x3f);
    match length {
        1 => u32::from(bytes[0]),
        2 => u32::from(bytes[0] & 0x1f) << 6 | tail(1),
        3 => u32::from(bytes[0] & 0x0f) << 12 | tail(1) << 6 | tail(2),
        _ => u32::from(bytes[0] & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3),
    }
}

/// Whether a sequence of two or three bytes is white space, as Python's `str.split` sees it.
#[inline(always)]
pub fn is_wide_space(sequence: &[u8]) -> bool {
    match sequence {
        [0xc2, 0x85 | 0xa0] | [0xe1, 0x9a, 0x80] | [0xe2, 0x81, 0x9f] | [0xe3, 0x80, 0x80] => true,
        [0xe2, 0x80, last] => matches!(last, 0x80..=0x8a | 0xa8 | 0xa9 | 0xaf),
        _ => false,
    }
}

/// White space among the bytes below 0x80, as Python's `str.split` sees it.
#[inline(always)]
pub fn is_space(byte: u8) -> bool {
    matches!(byte, 0x09..=0x0d | 0x1c..=0x20)
}

/// Where most texts have the words of their title.
const HEAD_BYTES: usize = 2048;

/// Whether at least `enough` strings are in a text whose ASCII letters are put into lower case.
pub fn has_in_lowered(text: &[u8], strings: &[&[u8]], enough: usize) -> bool {
    let has = |part: &[u8]| {
        let lowered = part.to_ascii_lowercase();
        let found = strings.iter().filter(|string| memchr::memmem::find(&lowered, string).is_some());
        found.take(enough).count() == enough
    };
    has(&text[..text.len().min(HEAD_BYTES)]) || (text.len() > HEAD_BYTES && has(text))
}

/// Whether case folding may change a character of a text in UTF-8 that is not ASCII.
///
/// False for punctuation, symbols, and scripts without case; true for a few blocks more than those with case.
pub fn may_fold(text: &[u8]) -> bool {
    let mut place = 0;
    while let Some(ahead) = first_high(&text[place..]) {
        place += ahead;
        let next = text.get(place + 1).copied().unwrap_or(0);
        match text[place] {
            0xc2 if next != 0xb5 => place += 2,             // to U+00BF, without the micro sign
            0xe0 | 0xe3..=0xe9 | 0xeb..=0xee => place += 3, // Indic scripts, Thai, kana, Han, Hangul
            0xe2 if matches!(next, 0x80..=0x83 | 0x88..=0x91 | 0x94..=0xaf) => place += 3, // punctuation, symbols
            0xef if next == 0xbc && text.get(place + 2).is_some_and(|&last| last < 0xa1) => place += 3, // full width
            0xf0 if next == 0x9f => place += 4,             // pictures
            _ => return true,
        }
        place = place.min(text.len());
    }
    false
}

/// Where the first byte of 0x80 or more is.
fn first_high(text: &[u8]) -> Option<usize> {
    let words = text.as_chunks::<8>().0;
    let in_words = words.iter().position(|&word| u64::from_le_bytes(word) & HIGHS != 0);
    let start = in_words.map_or(8 * words.len(), |number| 8 * number);
    text[start..].iter().position(|&byte| byte >= 0x80).map(|ahead| start + ahead)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_belongs_where_the_plain_test_says() {
        for byte in 0..=255u8 {
            for place in 0..8 {
                let mut bytes = [b' '; 8];
                bytes[place] = byte;
                let word = u64::from_le_bytes(bytes);
                let bit = 0x80u64 << (8 * place);
                assert_eq!(letters(word) & bit != 0, byte.is_ascii_alphabetic());
                assert_eq!(is_word_byte(byte), byte.is_ascii_alphanumeric() || byte == b'_');
                assert_eq!(lower(word).to_le_bytes()[place], byte.to_ascii_lowercase());
                assert_eq!(equal(word, b'<') != 0, byte == b'<');
                assert_eq!(equal_everywhere(word, b'!') & bit != 0, byte == b'!');
                assert_eq!(equal_everywhere(word, b' ') & bit != 0, byte == b' ');
            }
        }
    }

    #[test]
    fn bits_name_the_flags_that_are_set() {
        let mut state = 1u64;
        for _ in 0..1000 {
            let flags: [u8; 64] = std::array::from_fn(|place| (state >> place & 1) as u8);
            assert_eq!(bits(&flags), state);
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407).rotate_left(9);
        }
        assert_eq!((bits(&[0; 64]), bits(&[1; 64])), (0, u64::MAX));
    }

    #[test]
    fn find_gives_the_first_place_wherever_it_lies() {
        for length in 0..80 {
            let mut source = vec![b'.'; length];
            assert_eq!(find(b'<', &source, 0), length);
            for place in (0..length).rev() {
                source[place] = b'<';
                assert_eq!(find(b'<', &source, 0), place);
            }
        }
    }
    #[test]
    fn folding_may_change_letters_and_neither_punctuation_nor_scripts_without_case() {
        for text in [
            "tea",
            "\u{201c}tea\u{201d} \u{2013} \u{2026}",
            "\u{201c}\u{65e5}\u{672c}\u{201d}",
            "\u{e01}\u{e32}",
            "5\u{a0}\u{b0}",
            "\u{1f600} \u{ff01}",
        ] {
            assert!(!may_fold(text.as_bytes()), "{text}");
        }
        for text in ["\u{c9}", "\u{201c}\u{c9}\u{201d}", "\u{b5}", "\u{2126}", "\u{ff21}", "\u{130}", "\u{43f}"] {
            assert!(may_fold(text.as_bytes()), "{text}");
        }
    }
}
