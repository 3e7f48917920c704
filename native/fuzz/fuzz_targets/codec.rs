//! A group of values through the encoder, with any dictionary, bases and bodies: each frame is decoded to its value by
//! what its record names.  Then the frames are damaged: a decoder gives other bytes or refuses, and stays in its buffer.
//!
//! An input is cut at each newline, so that a page is one: first the head, then the dictionary, then the values, each behind four bytes that say
//! what it leans on.
#![no_main]

use std::cell::RefCell;
use std::mem::MaybeUninit;

use docstore_frames::{encode_group, Base, Body, Decoder, Dictionary, Effort, Encoded, Encoders, Offer, Value, Way};

const MOST_VALUES: usize = 12;
const MOST_TIMES: u8 = 200;
const LEVELS: [i32; 4] = [1, 3, 9, 19];

static ENCODERS: Encoders = Encoders::new();

thread_local! {
    static DECODER: RefCell<Decoder> = RefCell::new(Decoder::new().expect("memory"));
}

/// Decode to so many bytes; None if the decoder refuses.
fn decode(frame: &[u8], before: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut value = vec![MaybeUninit::new(0_u8); bytes];
    let is_whole = DECODER.with_borrow_mut(|decoder| decoder.decode(frame, before, &mut value));
    // SAFETY: all of it was made of bytes.
    is_whole.then(|| value.into_iter().map(|byte| unsafe { byte.assume_init() }).collect())
}

/// What a delta against a value leans on: the value, or what that is itself a delta against.
fn root<'a>(values: &[Value<'a>], made: &[Encoded], number: usize) -> &'a [u8] {
    match (made[number].way, made[number].base) {
        (Way::Delta, Some(base)) => base_bytes(values, made, number, base),
        (Way::Same, Some(owner)) => root(values, made, owner),
        _ => values[number].raw,
    }
}

fn base_bytes<'a>(values: &[Value<'a>], made: &[Encoded], number: usize, base: usize) -> &'a [u8] {
    match values[number].bases[base] {
        Base::Given(offer) => offer.raw,
        Base::Earlier(earlier) => root(values, made, earlier),
    }
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let mut parts = input.split(|byte| *byte == b'\n');
    let (head, content) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let option = |at: usize| head.get(at).copied().unwrap_or_default();
    let (level, threads) = (LEVELS[usize::from(option(0) % 4)], 1 + usize::from(option(1) % 3));
    let content = content.repeat(1 + usize::from(option(2) % MOST_TIMES));
    let dictionary = Dictionary::new(&content, level);
    let chunks: Vec<([u8; 4], Vec<u8>)> = parts
        .take(MOST_VALUES)
        .filter_map(|part| part.split_first_chunk::<4>())
        .map(|(how, raw)| (*how, raw.repeat(1 + usize::from(how[3] % MOST_TIMES))))
        .collect();
    let mut has_text = [false; MOST_VALUES];
    let mut values: Vec<Value<'_>> = Vec::new();
    for (number, ([leans, first, second, _], raw)) in chunks.iter().enumerate() {
        let earlier = |choice: u8| usize::from(choice) % number.max(1);
        let is_given = leans & 1 == 1;
        let bases = [*first, *second].into_iter().filter(|choice| number > 0 && choice & 1 == 1).map(|choice| {
            let other = earlier(choice >> 1);
            let offer = Offer { raw: &chunks[other].1, frame: &[], saves: isize::from(choice) * 4 - 512 };
            if is_given { Base::Given(offer) } else { Base::Earlier(other) }
        });
        let owner = earlier(*first);
        let body = match (leans >> 1 & 3, number) {
            (1, 1..) => Body::Given(&chunks[owner].1),
            (2, 1..) if !std::mem::replace(&mut has_text[owner], true) => Body::Earlier(owner),
            _ => Body::None,
        };
        values.push(Value {
            raw,
            bases: bases.collect(),
            dictionary: (leans & 8 == 8).then_some(&dictionary),
            body,
            same: chunks[..number].iter().position(|(_, other)| leans & 16 == 16 && other == raw),
            small: 1 + usize::from(*second % 16),
            cost_bytes: usize::from(*second),
        });
    }
    let effort = Effort { level, compares: option(3) & 1 == 1, guesses: option(3) & 2 == 2, on_body: (4, 100) };
    let made = encode_group(&values, effort, &ENCODERS, threads);
    let made: Vec<Encoded> = made.into_iter().map(|made| made.expect("each value can be encoded")).collect();
    for (number, (value, encoded)) in values.iter().zip(&made).enumerate() {
        let before: &[u8] = match (encoded.way, &value.body) {
            (Way::Stored, _) => {
                assert!(encoded.frame.is_empty());
                continue;
            }
            (Way::Same, _) => {
                let owner = encoded.base.expect("a value that shares a record names its owner");
                assert_eq!(values[owner].raw, value.raw);
                assert!(!matches!(made[owner].way, Way::Delta | Way::Same));
                continue;
            }
            (Way::Plain, _) => &[],
            (Way::Dictionary, _) => &content,
            (Way::Delta, _) => base_bytes(&values, &made, number, encoded.base.expect("a delta names its base")),
            (Way::Body, Body::Given(body)) => body,
            (Way::Body, Body::Earlier(body)) => values[*body].raw,
            (Way::Body, Body::None) => panic!("a delta of no body"),
        };
        assert!(encoded.frame.len() < value.raw.len());
        assert_eq!(decode(&encoded.frame, before, value.raw.len()).as_deref(), Some(value.raw), "{:?}", encoded.way);
        let mut damaged = encoded.frame.clone();
        for pair in head.get(4..).unwrap_or_default().chunks_exact(2) {
            let at = usize::from(pair[0]) % damaged.len();
            damaged[at] ^= pair[1];
            let _ = decode(&damaged, before, value.raw.len());
        }
        for other in [&content[..], &[]] {
            let _ = decode(&damaged[..damaged.len() - 1], other, value.raw.len() + 1);
        }
    }
});
