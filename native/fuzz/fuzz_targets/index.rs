//! A run of the index, its log and the filter of rows, from any bytes and from bytes that were encoded and then damaged:
//! an error or an answer, never a panic or memory without bound.
//!
//! An input has sixteen bytes that say how it is read; the rest is the file, or the postings of one.
#![no_main]

use docstore_kernel::filter::Filter;
use docstore_kernel::postings::{encode, find, merge, propose, prune, Asked, Layer, Pruning, Recent, GONE};
use docstore_kernel::ranking::Looks;
use docstore_kernel::slices::{Run, Shape, KEY_BITS, LIST_LIMIT, PLACE_BITS};

const HEAD_BYTES: usize = 16;
const FILTER_BYTES: usize = 1 << 20;
const LOOKS: Looks = Looks { near: 24, inside: 16, most: 8, further: 48 };

/// Texts, slices and index of a run, as they lie in its file, and where each begins and the last one ends.
fn file_of(numbers: &[u64], texts: u64, shape: Shape) -> (Vec<u8>, [usize; 4]) {
    let places = (1 << shape.place_bits).min(texts);
    let mut postings: Vec<u64> =
        numbers.iter().map(|number| number >> PLACE_BITS << PLACE_BITS | number % places).collect();
    postings.sort_unstable();
    postings.dedup();
    let mut held = (u64::MAX, 0);
    postings.retain(|posting| {
        let key = posting >> PLACE_BITS;
        held = if held.0 == key { (key, held.1 + 1) } else { (key, 1) };
        held.1 <= LIST_LIMIT
    });
    let encoded = encode(&postings, shape);
    let mut bytes = vec![7; (texts as usize * 6).next_multiple_of(8)];
    let slices = bytes.len();
    bytes.extend_from_slice(&encoded.bytes);
    let index = bytes.len();
    let mut at = 0_u32;
    for units in std::iter::once(&0).chain(&encoded.units) {
        at += units;
        bytes.extend_from_slice(&at.to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let end = bytes.len();
    (bytes, [0, slices, index, end])
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    if let Some(filter) = Filter::load(input, FILTER_BYTES) {
        assert!(filter.bytes() <= FILTER_BYTES && filter.dump() == input);
        let _ = filter.may_have(input);
    }
    let _ = Recent::default().replay(input);
    let Some((head, rest)) = input.split_first_chunk::<HEAD_BYTES>() else { return };
    let Some(shape) = Shape::new(u32::from(head[0] % 10), u32::from(head[1] % 25)) else { return };
    let texts = u64::from(head[2]) + 1;
    let numbers: Vec<u64> = rest.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight)).collect();
    let keys: Vec<u64> = numbers.iter().map(|number| number >> (64 - KEY_BITS)).take(200).collect();
    let number = |at: usize| usize::from(head[at]) << 8 | usize::from(head[at + 1]);
    let (bytes, parts) = if head[3] & 1 == 0 {
        let (mut bytes, parts) = file_of(&numbers, texts, shape);
        for at in [4, 7, 10] {
            let place = number(at) % bytes.len();
            bytes[place] ^= head[at + 2];
        }
        (bytes, parts)
    } else {
        (rest.to_vec(), [number(4), number(6), number(8), number(10)])
    };
    let Ok(run) = Run::new(&bytes, parts, shape) else { return };
    let mut recent = Recent::default();
    recent.post(1, &keys[..keys.len().min(9)]);
    let mut layers = [Layer { runs: vec![run], recent: Some(&recent), skips_damage: false }];
    let _ = find(&layers, &keys, LIST_LIMIT);
    layers[0].skips_damage = true;
    assert!(find(&layers, &keys, LIST_LIMIT).is_ok());
    let asked = Asked { band_keys: &keys[..keys.len().min(96)], fingerprints: &numbers, runs: &keys, own: 1 };
    assert!(propose(&layers, asked, LIST_LIMIT, LOOKS).is_ok());
    let mut postings = Vec::new();
    for slice in 0..shape.slices() {
        let _ = run.postings(slice, &mut postings);
    }
    let _ = merge(&[run, run], &[texts, texts], shape, LIST_LIMIT, 0, shape.slices());
    let places: Vec<u64> = (0..texts).map(|place| if place % 3 == 0 { GONE } else { place }).collect();
    let _ = prune(run, Pruning { places: &places, texts, limit: 1 + usize::from(head[13] % 64) }, shape, 0, shape.slices());
});
