//! The values of a group of pages, encoded by several threads: delta, dictionary or plain for each.
//!
//! `choose` decides; each value of a group is encoded as it would be alone, and the results are in the order of the
//! values, whatever the threads do.  The base of a value may be that of an earlier
//! value of the group: threads take the values in order, so what one waits for is done, or another thread is at it.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use crate::{no_context, Dictionary, Encoder, Refused, LEVEL};

/// A record names its dictionary or base by so many bytes.
const RELATED_BYTES: usize = 16;
/// A longer base is not used.
const BASE_LIMIT_BYTES: usize = 8 << 20;
/// Another thread is worth its start from so many bytes on.
const BYTES_A_THREAD: usize = 256 << 10;

/// What a value may be a delta against.
pub enum Base<'a> {
    Given(&'a [u8]),
    /// An earlier value of the group, or the base of that, if it is a delta.
    Earlier(usize),
}

/// A value to encode.
pub struct Value<'a> {
    pub raw: &'a [u8],
    /// Bases to try, the likeliest first.
    pub bases: Vec<Base<'a>>,
    pub dictionary: Option<&'a Dictionary>,
    /// Of a body: its text, whose frame against the body is made, too, if the body is no delta; else empty.
    pub text: &'a [u8],
    /// Of a text: the body that its record stands behind; empty for none, and if the frame is there already.
    pub body: &'a [u8],
    /// Of a text: its frame against its body, if that is made already; else empty.
    pub on_body: &'a [u8],
    /// What a delta is weighed against: one part in so many is taken at once.
    pub small: usize,
    /// Another delta has to save so many bytes, for the row of its base and a second decode at every read.
    pub cost_bytes: usize,
}

/// How hard to try.
#[derive(Clone, Copy)]
pub struct Effort {
    /// Of zstd.
    pub level: i32,
    /// All bases are tried, at the level of writing, and the best one is taken; else the first small delta.
    pub compares: bool,
    /// What looks longer than a delta is not encoded to its end.
    pub guesses: bool,
    /// `small` and `cost_bytes` of a text against its own body.
    pub on_body: (usize, usize),
}

/// A base to try, the likeliest first.
pub struct Offer<Bytes> {
    pub raw: Bytes,
    /// The frame of the value against it, if that is made already; else empty.
    pub frame: Bytes,
    /// Bytes that a delta against it is thought to save elsewhere.
    pub saves: isize,
}

/// How a value is encoded: the numbers of the codecs in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Stored = 0,
    Plain = 1,
    Dictionary = 2,
    Delta = 3,
    Body = 4,
}

/// An encoded value.
pub struct Encoded {
    pub way: Way,
    /// Which of the bases.
    pub base: Option<usize>,
    /// Empty for a value that is stored as it is.
    pub frame: Vec<u8>,
    /// The frame of the text, if there is one.
    pub text: Vec<u8>,
}

/// Encoders that wait for work.
pub struct Encoders(Mutex<Vec<Box<Encoder>>>);

impl Encoders {
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// One that nobody else has; None where libzstd gives no context.
    pub fn take(&self) -> Option<Box<Encoder>> {
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.or_else(|| Encoder::new().map(Box::new))
    }

    /// For the next call; one that panicked is not put back, nor one that has grown large.
    pub fn put_back(&self, encoder: Box<Encoder>) {
        if !encoder.is_large() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(encoder);
        }
    }
}

impl Default for Encoders {
    fn default() -> Self {
        Self::new()
    }
}

/// What became of the values so far.
struct Group<'a, 'v> {
    values: &'v [Value<'a>],
    effort: Effort,
    /// Of each value that is done: how it is encoded, and what a similar value may be a delta against.
    done: Vec<OnceLock<(Result<Encoded, Refused>, &'a [u8])>>,
    next: AtomicUsize,
    /// Threads that wait for a value of another one.
    waiting: Mutex<()>,
    is_done: Condvar,
}

impl<'a> Group<'a, '_> {
    fn work(&self, encoders: &Encoders) {
        let mut encoder = encoders.take();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(value) = self.values.get(number) else { break };
            let bases: Vec<&[u8]> = value.bases.iter().map(|base| self.root_of(base)).collect();
            let made = match &mut encoder {
                None => Err(no_context()),
                Some(encoder) => {
                    let mut numbers = 0..bases.len();
                    let next = || {
                        let number = numbers.next()?;
                        let is_tried = bases[..number].iter().any(|other| ptr::eq(*other, bases[number]));
                        let raw = if is_tried { &[][..] } else { bases[number] };
                        Some(Offer { raw, frame: &[][..], saves: 0 })
                    };
                    catch_unwind(AssertUnwindSafe(|| choose(encoder, value, self.effort, next)))
                        .unwrap_or_else(|_| Err(Refused::Failed("encoding a value panicked".to_owned())))
                }
            };
            if matches!(made, Err(Refused::Failed(_))) {
                encoder = encoders.take(); // the one that failed is not used again
            }
            let base = made.as_ref().ok().and_then(|made| made.base);
            let root = base.map_or(value.raw, |base| bases[base]);
            let _ = self.done[number].set((made, root));
            drop(self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            self.is_done.notify_all();
        }
        if let Some(encoder) = encoder {
            encoders.put_back(encoder);
        }
    }

    fn root_of(&self, base: &Base<'a>) -> &'a [u8] {
        match *base {
            Base::Given(raw) => raw,
            Base::Earlier(number) => {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                loop {
                    if let Some((_, root)) = self.done[number].get() {
                        return root;
                    }
                    waiting = self.is_done.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// Encode values while pages come in, with at most so many threads, this one included; a text on its own body is weighed
/// by `on_body`.
///
/// # Panics
///
/// If a value names itself or a later one as its base.
pub fn encode_group(
    values: &[Value<'_>],
    on_body: (usize, usize),
    encoders: &Encoders,
    threads: usize,
) -> Vec<Result<Encoded, Refused>> {
    for (number, value) in values.iter().enumerate() {
        let is_earlier = |base: &Base<'_>| !matches!(base, Base::Earlier(other) if *other >= number);
        assert!(value.bases.iter().all(is_earlier), "a base of value {number} comes after it");
    }
    let group = Group {
        values,
        effort: Effort { level: LEVEL, compares: false, guesses: true, on_body },
        done: values.iter().map(|_| OnceLock::new()).collect(),
        next: AtomicUsize::new(0),
        waiting: Mutex::new(()),
        is_done: Condvar::new(),
    };
    let bytes: usize = values.iter().map(|value| value.raw.len()).sum();
    let more = threads.min(values.len()).min(1 + bytes / BYTES_A_THREAD).saturating_sub(1);
    std::thread::scope(|scope| {
        for _ in 0..more {
            // Without another thread this one does all.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || group.work(encoders));
        }
        group.work(encoders);
    });
    let undone = || Err(Refused::Failed("a value was not encoded".to_owned()));
    group.done.into_iter().map(|one| one.into_inner().map_or_else(undone, |(made, _)| made)).collect()
}

/// Decide on delta, dictionary or plain: the one place where that is done, for writes and compaction.
///
/// `next` gives the bases.  The plain way is tried only if no delta is small.
pub fn choose<Bytes: AsRef<[u8]>>(
    encoder: &mut Encoder,
    value: &Value<'_>,
    effort: Effort,
    mut next: impl FnMut() -> Option<Offer<Bytes>>,
) -> Result<Encoded, Refused> {
    let raw = value.raw;
    let of = |way, base, frame: &[u8]| Encoded { way, base, frame: frame.to_vec(), text: Vec::new() };
    let mut best: Option<Encoded> = None;
    let mut chosen = None;
    // Body and text together are smaller without a base, mostly, if the delta is not small.
    let limit = (effort.guesses && !value.text.is_empty()).then_some(raw.len() / value.small);
    for number in 0.. {
        let Some(offer) = next() else { break };
        let (base, made) = (offer.raw.as_ref(), offer.frame.as_ref());
        let frame = if !made.is_empty() {
            made
        } else if base.is_empty() || base.len() > BASE_LIMIT_BYTES {
            continue;
        } else {
            match encoder.with_base(raw, base, limit) {
                Err(Refused::OverLimit) => continue,
                made => made?,
            }
        };
        let is_better = best.as_ref().is_none_or(|best| frame.len() < best.frame.len());
        if is_better && frame.len() + RELATED_BYTES < raw.len() {
            let is_small = frame.len() * value.small < raw.len();
            best = Some(of(Way::Delta, Some(number), frame));
            chosen = Some(offer);
            if is_small && !effort.compares {
                break;
            }
        }
    }
    if let (true, Some(best), Some(offer)) = (effort.compares, &mut best, &chosen) {
        let frame = encoder.with_base_at(raw, offer.raw.as_ref(), effort.level)?;
        if frame.len() < best.frame.len() {
            best.frame = frame.to_vec();
        }
    }
    let (mut small, mut cost_bytes) = (value.small, value.cost_bytes);
    let is_small = |best: &Option<Encoded>, small| best.as_ref().is_some_and(|best| best.frame.len() * small < raw.len());
    if !is_small(&best, small) && !(value.body.is_empty() && value.on_body.is_empty()) {
        let frame = match value.on_body {
            [] => encoder.with_base_at(raw, value.body, effort.level)?,
            made => made,
        };
        if frame.len() < best.as_ref().map_or(raw.len(), |best| best.frame.len()) {
            best = Some(of(Way::Body, None, frame));
            chosen = None;
            (small, cost_bytes) = effort.on_body;
        }
    }
    let mut made = match best {
        Some(best) if best.frame.len() * small < raw.len() => best,
        Some(best) => {
            // The text of a delta is a delta, too, of as large a part of its bytes, or a larger one.
            let text_bytes = best.frame.len() * value.text.len() / raw.len();
            let limit = best.frame.len() + text_bytes + cost_bytes;
            let saves = chosen.map_or(0, |offer| offer.saves);
            alone(encoder, value, effort, Some(limit.saturating_add_signed(-saves)))?.unwrap_or(best)
        }
        None => alone(encoder, value, effort, None)?.ok_or_else(|| Refused::Failed("no way to encode".to_owned()))?,
    };
    if !matches!(made.way, Way::Delta | Way::Body) && made.text.is_empty() && !value.text.is_empty() {
        made.text = encoder.with_base(value.text, raw, None)?.to_vec();
    }
    Ok(made)
}

/// A value without a base; None if that takes more bytes than a limit.
fn alone(
    encoder: &mut Encoder,
    value: &Value<'_>,
    effort: Effort,
    limit: Option<usize>,
) -> Result<Option<Encoded>, Refused> {
    let raw = value.raw;
    let is_within = |bytes: usize| limit.is_none_or(|limit| bytes <= limit);
    if let Some(dictionary) = value.dictionary {
        let guessed = limit.filter(|_| effort.guesses);
        let made = if value.text.is_empty() {
            encoder.with_dictionary(raw, dictionary, guessed).map(|frame| (frame.to_vec(), Vec::new()))
        } else {
            encoder.body_and_text(raw, value.text, dictionary, guessed)
        };
        if matches!(made, Err(Refused::OverLimit)) {
            return Ok(None);
        }
        let (frame, text) = made?;
        if frame.len() + RELATED_BYTES < raw.len() {
            let is_within = is_within(frame.len() + text.len());
            return Ok(is_within.then_some(Encoded { way: Way::Dictionary, base: None, frame, text }));
        }
    }
    let frame = encoder.plain(raw, effort.level)?;
    let (way, frame) = if frame.len() < raw.len() { (Way::Plain, frame.to_vec()) } else { (Way::Stored, Vec::new()) };
    let bytes = if way == Way::Stored { raw.len() } else { frame.len() };
    Ok(is_within(bytes).then_some(Encoded { way, base: None, frame, text: Vec::new() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64, bytes: usize) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            b'a' + (state >> 40) as u8 % 26
        };
        (0..bytes).map(|_| next()).collect()
    }

    fn value<'a>(raw: &'a [u8], bases: Vec<Base<'a>>, dictionary: Option<&'a Dictionary>) -> Value<'a> {
        Value { raw, bases, dictionary, text: &[], body: &[], on_body: &[], small: 12, cost_bytes: 200 }
    }

    #[test]
    fn many_threads_give_what_one_gives() {
        let encoders = Encoders::new();
        let raws: Vec<Vec<u8>> =
            (0..64u64).map(|number| [noise(number / 8, 20_000), noise(number, 300)].concat()).collect();
        let dictionary = Dictionary::new(&noise(3, 30_000), LEVEL);
        let values: Vec<Value<'_>> = (0..raws.len())
            .map(|number| {
                let bases = if number % 8 == 0 { vec![] } else { vec![Base::Earlier(number - 1)] };
                value(&raws[number], bases, Some(&dictionary))
            })
            .collect();
        let one = encode_group(&values, (4, 100), &encoders, 1);
        for threads in [2, 3, 7] {
            for (one, other) in one.iter().zip(encode_group(&values, (4, 100), &encoders, threads)) {
                let (one, other) = (one.as_ref().expect("made"), other.expect("made"));
                assert_eq!((one.way, one.base, &one.frame), (other.way, other.base, &other.frame));
            }
        }
        assert_eq!(one.iter().filter(|one| one.as_ref().is_ok_and(|one| one.way == Way::Delta)).count(), 56);
    }

    #[test]
    fn the_base_of_a_delta_is_the_base_of_those_like_it() {
        let first = noise(1, 5000);
        let second = [&first[..2500], b"changed", &first[2500..]].concat();
        let third = [&second[..], b"and again"].concat();
        let encoders = Encoders::new();
        let values = [
            value(&first, vec![], None),
            value(&second, vec![Base::Earlier(0)], None),
            value(&third, vec![Base::Earlier(1)], None),
        ];
        let made = encode_group(&values, (4, 100), &encoders, 2);
        let mut encoder = Encoder::new().expect("memory");
        let against_first = encoder.with_base(&third, &first, None).expect("a frame").to_vec();
        assert_eq!(made[2].as_ref().expect("made").frame, against_first);
    }

    #[test]
    #[should_panic(expected = "comes after it")]
    fn a_base_comes_before_its_deltas() {
        let raw = noise(1, 100);
        let _ = encode_group(&[value(&raw, vec![Base::Earlier(0)], None)], (4, 100), &Encoders::new(), 1);
    }
}
