//! The values of a group of pages, encoded by several threads: delta, dictionary or plain for each.
//!
//! `choose` decides.  What a value may be a delta against is data: bytes, or the number of an earlier value of the group,
//! which stands for that value's own base if that value is a delta.  Each value is encoded as it would be alone, and the
//! results are in the order of the values, whatever the threads do.  Threads take the values in order, so a value that
//! another one waits for is done, or a thread is at work on it.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use crate::{no_context, Dictionary, Encoder, Refused, LEVEL};

/// A record names its dictionary or base by so many bytes.
const RELATED_BYTES: usize = 16;
/// A longer base is not used.
const BASE_LIMIT_BYTES: usize = 8 << 20;
/// A longer body is no base of its text: each read of the text decodes all of it.
const OWN_BODY_LIMIT_BYTES: usize = 4 << 20;
/// A body is no base of a text that is so many times shorter, either.
const OWN_BODY_TIMES: usize = 16;
/// Another thread is worth its start from so many bytes on.
const BYTES_A_THREAD: usize = 256 << 10;

/// Bytes that a value may be a delta against.
#[derive(Clone, Copy, Default)]
pub struct Offer<'a> {
    pub raw: &'a [u8],
    /// The frame of the value against them, if that is made already; else empty.
    pub frame: &'a [u8],
    /// Bytes that a delta against them is thought to save elsewhere.
    pub saves: isize,
}

/// What a value may be a delta against.
pub enum Base<'a> {
    Given(Offer<'a>),
    /// An earlier value of the group, or the base of that, if it is a delta.
    Earlier(usize),
}

/// The body of the page whose text is encoded.
pub enum Body<'a> {
    /// The value is no text, or its body has no record directly before it.
    None,
    Given(&'a [u8]),
    /// An earlier value of the group.  If that is a delta, the text may be a delta against the base at the same place
    /// among its own; if it shares a record, against any of its bases; else only against the body.
    Earlier(usize),
}

/// A value to encode.
pub struct Value<'a> {
    pub raw: &'a [u8],
    /// Bases to try, the likeliest first.
    pub bases: Vec<Base<'a>>,
    pub dictionary: Option<&'a Dictionary>,
    pub body: Body<'a>,
    /// An earlier value with the same bytes, whose record this value shares if that one is no delta.
    pub same: Option<usize>,
    /// What a delta is weighed against: one part in so many is taken at once.
    pub small: usize,
    /// Another delta has to save so many bytes, for the row of its base and a second decode at every read.
    pub cost_bytes: usize,
}

impl Value<'_> {
    /// The numbers of earlier values that it needs.
    fn needs(&self) -> impl Iterator<Item = usize> + '_ {
        let bases = self.bases.iter().filter_map(|base| match base {
            Base::Earlier(number) => Some(*number),
            Base::Given(_) => None,
        });
        let body = match self.body {
            Body::Earlier(number) => Some(number),
            _ => None,
        };
        bases.chain(body).chain(self.same)
    }
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

impl Effort {
    /// That of a write.
    pub const fn of_writes(on_body: (usize, usize)) -> Self {
        Self { level: LEVEL, compares: false, guesses: true, on_body }
    }
}

/// What a value is encoded with besides its dictionary: the earlier values that it names are bytes here.
struct Related<'a, 'g> {
    /// At the places of the value's bases; one without bytes is not tried.
    offers: Vec<Offer<'a>>,
    /// Of a body: its text, whose frame against the body is made, too, if the body is no delta; else empty.
    text: &'a [u8],
    /// Of a text: the body that its record stands behind; empty for none, and if the frame is there already.
    body: &'a [u8],
    /// Of a text: its frame against its body, if that is made already; else empty.
    on_body: &'g [u8],
}

/// How a value is encoded: the numbers of the codecs in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Stored = 0,
    Plain = 1,
    Dictionary = 2,
    Delta = 3,
    Body = 4,
    /// No record of its own: it shares that of an earlier value.
    Same = 255,
}

/// An encoded value.
pub struct Encoded {
    pub way: Way,
    /// Of a delta: which of the bases.  Of a value that shares a record: the number of the value that has it.
    pub base: Option<usize>,
    /// Empty for a value that is stored as it is.
    pub frame: Vec<u8>,
    /// Of a body: the frame of its text against it, if that was made.
    text: Vec<u8>,
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

/// A value that is done, and what a similar one may be a delta against.
struct Done<'a> {
    made: Result<Encoded, Refused>,
    root: &'a [u8],
}

/// What became of the values so far.
struct Group<'a, 'v> {
    values: &'v [Value<'a>],
    /// Of each body, the text in the group that may be a delta of it; else empty.
    texts: Vec<&'a [u8]>,
    effort: Effort,
    done: Vec<OnceLock<Done<'a>>>,
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
            let done = match (self.shared(value), &mut encoder) {
                (Some(done), _) => done,
                (None, None) => Done { made: Err(no_context()), root: value.raw },
                (None, Some(encoder)) => {
                    let related = self.related(number);
                    let made = catch_unwind(AssertUnwindSafe(|| choose(encoder, value, &related, self.effort)))
                        .unwrap_or_else(|_| Err(Refused::Failed("encoding a value panicked".to_owned())));
                    let base = made.as_ref().ok().and_then(|made| made.base);
                    Done { root: base.map_or(value.raw, |base| related.offers[base].raw), made }
                }
            };
            if matches!(done.made, Err(Refused::Failed(_))) {
                encoder = encoders.take(); // the one that failed is not used again
            }
            let _ = self.done[number].set(done);
            drop(self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            self.is_done.notify_all();
        }
        if let Some(encoder) = encoder {
            encoders.put_back(encoder);
        }
    }

    /// An earlier value; waits for the thread that is at work on it.
    fn earlier(&self, number: usize) -> &Done<'a> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(done) = self.done[number].get() {
                return done;
            }
            waiting = self.is_done.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The value as one that shares the record of an earlier one; None if it needs a record of its own.
    fn shared(&self, value: &Value<'a>) -> Option<Done<'a>> {
        let number = value.same?;
        let Done { made: Ok(made), root } = self.earlier(number) else { return None };
        let owner = match made.way {
            Way::Delta => return None,
            Way::Same => made.base,
            _ => Some(number),
        };
        Some(Done { made: Ok(Encoded { way: Way::Same, base: owner, frame: Vec::new(), text: Vec::new() }), root })
    }

    fn related(&self, number: usize) -> Related<'a, '_> {
        let value = &self.values[number];
        let mut offers: Vec<Offer<'a>> = value.bases.iter().map(|base| self.offer(base)).collect();
        for number in 1..offers.len() {
            if offers[..number].iter().any(|other| ptr::eq(other.raw, offers[number].raw)) {
                offers[number] = Offer::default();
            }
        }
        let mut related = Related { offers, text: self.texts[number], body: &[], on_body: &[] };
        match value.body {
            Body::None => {}
            Body::Given(body) if may_be_base(body, value.raw) => related.body = body,
            Body::Given(_) => {}
            Body::Earlier(number) => {
                if let Ok(body) = &self.earlier(number).made {
                    let only = if body.way == Way::Delta { body.base } else { None };
                    for (place, offer) in related.offers.iter_mut().enumerate() {
                        if body.way != Way::Same && Some(place) != only {
                            *offer = Offer::default();
                        }
                    }
                    related.on_body = &body.text;
                }
            }
        }
        related
    }

    fn offer(&self, base: &Base<'a>) -> Offer<'a> {
        match *base {
            Base::Given(offer) => offer,
            Base::Earlier(number) => Offer { raw: self.earlier(number).root, ..Offer::default() },
        }
    }
}

/// Whether a text may be a delta of its own body.
fn may_be_base(body: &[u8], text: &[u8]) -> bool {
    body.len() <= OWN_BODY_LIMIT_BYTES.min(OWN_BODY_TIMES * text.len())
}

/// Encode values with at most so many threads, this one included.
///
/// # Panics
///
/// If a value names itself or a later one, or two texts name one body.
pub fn encode_group(
    values: &[Value<'_>],
    effort: Effort,
    encoders: &Encoders,
    threads: usize,
) -> Vec<Result<Encoded, Refused>> {
    let mut texts: Vec<&[u8]> = vec![&[]; values.len()];
    for (number, value) in values.iter().enumerate() {
        assert!(value.needs().all(|other| other < number), "a base of value {number} comes after it");
        if let Body::Earlier(body) = value.body {
            assert!(texts[body].is_empty(), "value {body} is the body of two texts");
            if may_be_base(values[body].raw, value.raw) {
                texts[body] = value.raw;
            }
        }
    }
    let group = Group {
        values,
        texts,
        effort,
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
    group.done.into_iter().map(|one| one.into_inner().map_or_else(undone, |done| done.made)).collect()
}

/// Decide on delta, dictionary or plain: the one place where that is done, for writes and compaction.
///
/// The plain way is tried only if no delta is small.
fn choose(
    encoder: &mut Encoder,
    value: &Value<'_>,
    related: &Related<'_, '_>,
    effort: Effort,
) -> Result<Encoded, Refused> {
    let raw = value.raw;
    let of = |way, base, frame: &[u8]| Encoded { way, base, frame: frame.to_vec(), text: Vec::new() };
    let mut best: Option<Encoded> = None;
    // Body and text together are smaller without a base, mostly, if the delta is not small.
    let limit = (effort.guesses && !related.text.is_empty()).then_some(raw.len() / value.small);
    for (number, offer) in related.offers.iter().enumerate() {
        let frame = if !offer.frame.is_empty() {
            offer.frame
        } else if offer.raw.is_empty() || offer.raw.len() > BASE_LIMIT_BYTES {
            continue;
        } else {
            match encoder.with_base(raw, offer.raw, limit) {
                Err(Refused::OverLimit) => continue,
                made => made?,
            }
        };
        let is_better = best.as_ref().is_none_or(|best| frame.len() < best.frame.len());
        if is_better && frame.len() + RELATED_BYTES < raw.len() {
            let is_small = frame.len() * value.small < raw.len();
            best = Some(of(Way::Delta, Some(number), frame));
            if is_small && !effort.compares {
                break;
            }
        }
    }
    let mut saves = 0;
    if let Some((best, base)) = best.as_mut().and_then(|best| best.base.map(|base| (best, base))) {
        let offer = related.offers[base];
        saves = offer.saves;
        if effort.compares {
            let frame = encoder.with_base_at(raw, offer.raw, effort.level)?;
            if frame.len() < best.frame.len() {
                best.frame = frame.to_vec();
            }
        }
    }
    let (mut small, mut cost_bytes) = (value.small, value.cost_bytes);
    let is_small =
        |best: &Option<Encoded>, small| best.as_ref().is_some_and(|best| best.frame.len() * small < raw.len());
    if !is_small(&best, small) && !(related.body.is_empty() && related.on_body.is_empty()) {
        let frame = match related.on_body {
            [] => encoder.with_base_at(raw, related.body, effort.level)?,
            made => made,
        };
        if frame.len() < best.as_ref().map_or(raw.len(), |best| best.frame.len()) {
            best = Some(of(Way::Body, None, frame));
            saves = 0;
            (small, cost_bytes) = effort.on_body;
        }
    }
    let mut made = match best {
        Some(best) if best.frame.len() * small < raw.len() => best,
        Some(best) => {
            // The text of a delta is a delta, too, of as large a part of its bytes, or a larger one.
            let text_bytes = best.frame.len() * related.text.len() / raw.len();
            let limit = best.frame.len() + text_bytes + cost_bytes;
            let limit = limit.saturating_add_signed(-saves);
            alone(encoder, value, related.text, effort, Some(limit))?.unwrap_or(best)
        }
        None => alone(encoder, value, related.text, effort, None)?
            .ok_or_else(|| Refused::Failed("no way to encode".to_owned()))?,
    };
    if !matches!(made.way, Way::Delta | Way::Body) && made.text.is_empty() && !related.text.is_empty() {
        made.text = encoder.with_base(related.text, raw, None)?.to_vec();
    }
    Ok(made)
}

/// A value without a base; None if that takes more bytes than a limit.
fn alone(
    encoder: &mut Encoder,
    value: &Value<'_>,
    text: &[u8],
    effort: Effort,
    limit: Option<usize>,
) -> Result<Option<Encoded>, Refused> {
    let raw = value.raw;
    let is_within = |bytes: usize| limit.is_none_or(|limit| bytes <= limit);
    if let Some(dictionary) = value.dictionary {
        let guessed = limit.filter(|_| effort.guesses);
        let made = if text.is_empty() {
            encoder.with_dictionary(raw, dictionary, guessed).map(|frame| (frame.to_vec(), Vec::new()))
        } else {
            encoder.body_and_text(raw, text, dictionary, guessed)
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
        Value { raw, bases, dictionary, body: Body::None, same: None, small: 12, cost_bytes: 200 }
    }

    fn encode(values: &[Value<'_>], threads: usize) -> Vec<Encoded> {
        let made = encode_group(values, Effort::of_writes((4, 100)), &Encoders::new(), threads);
        made.into_iter().map(|made| made.expect("made")).collect()
    }

    #[test]
    fn many_threads_give_what_one_gives() {
        let raws: Vec<Vec<u8>> =
            (0..64u64).map(|number| [noise(number / 8, 20_000), noise(number, 300)].concat()).collect();
        let dictionary = Dictionary::new(&noise(3, 30_000), LEVEL);
        let values: Vec<Value<'_>> = (0..raws.len())
            .map(|number| {
                let bases = if number % 8 == 0 { vec![] } else { vec![Base::Earlier(number - 1)] };
                value(&raws[number], bases, Some(&dictionary))
            })
            .collect();
        let one = encode(&values, 1);
        for threads in [2, 3, 7] {
            for (one, other) in one.iter().zip(encode(&values, threads)) {
                assert_eq!((one.way, one.base, &one.frame), (other.way, other.base, &other.frame));
            }
        }
        assert_eq!(one.iter().filter(|one| one.way == Way::Delta).count(), 56);
    }

    #[test]
    fn the_base_of_a_delta_is_the_base_of_those_like_it() {
        let first = noise(1, 5000);
        let second = [&first[..2500], b"changed", &first[2500..]].concat();
        let third = [&second[..], b"and again"].concat();
        let values = [
            value(&first, vec![], None),
            value(&second, vec![Base::Earlier(0)], None),
            value(&third, vec![Base::Earlier(1)], None),
        ];
        let made = encode(&values, 2);
        let mut encoder = Encoder::new().expect("memory");
        let against_first = encoder.with_base(&third, &first, None).expect("a frame").to_vec();
        assert_eq!(made[2].frame, against_first);
    }

    #[test]
    fn a_value_shares_the_record_of_an_earlier_one_that_is_no_delta() {
        let (first, changed) = (noise(1, 5000), [&noise(1, 5000)[..], b"changed"].concat());
        let like = |raw, base| Value { same: Some(base), ..value(raw, vec![Base::Earlier(base)], None) };
        let values = [
            value(&first, vec![], None),
            like(&first, 0),
            like(&first, 1),
            value(&changed, vec![Base::Earlier(2)], None),
            like(&changed, 3),
        ];
        let made: Vec<_> = encode(&values, 2).iter().map(|made| (made.way, made.base)).collect();
        let delta = (Way::Delta, Some(0));
        assert_eq!(made, [(Way::Plain, None), (Way::Same, Some(0)), (Way::Same, Some(0)), delta, delta]);
    }

    #[test]
    fn a_text_leans_on_what_its_body_leans_on_or_on_its_body() {
        let (body, text) = (noise(1, 5000), noise(1, 2000));
        let (near, far) = ([&body[..], b"changed"].concat(), noise(2, 5000));
        let of = |raw| Base::Given(Offer { raw, ..Offer::default() });
        let bases = || vec![of(&far[..]), of(&near[..])];
        let text_of = |body| Value { body: Body::Earlier(body), ..value(&text, bases(), None) };
        let of_delta = encode(&[value(&body, bases(), None), text_of(0)], 2);
        assert_eq!((of_delta[0].base, of_delta[1].way, of_delta[1].base), (Some(1), Way::Delta, Some(1)));
        let of_whole = encode(&[value(&body, vec![], None), text_of(0)], 2);
        assert_eq!((of_whole[0].way, of_whole[1].way), (Way::Plain, Way::Body));
        let shared = Value { same: Some(0), ..value(&body, vec![], None) };
        let of_shared = encode(&[value(&body, vec![], None), shared, text_of(1)], 2);
        assert_eq!((of_shared[1].way, of_shared[2].way, of_shared[2].base), (Way::Same, Way::Delta, Some(1)));
    }

    #[test]
    fn any_group_is_encoded_alike_by_any_number_of_threads_and_comes_back() {
        let dictionary_content = noise(77, 9000);
        let dictionary = Dictionary::new(&dictionary_content, LEVEL);
        for seed in 0..12u64 {
            let mut state = seed;
            let mut below = |end: usize| {
                state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                (state >> 33) as usize % end
            };
            let raws: Vec<Vec<u8>> =
                (0..30).map(|_| [noise(below(5) as u64, 3000), noise(below(99) as u64, below(200))].concat()).collect();
            let mut has_text = vec![false; raws.len()];
            let values: Vec<Value<'_>> = (0..raws.len())
                .map(|number| {
                    let bases = (0..below(3)).filter(|_| number > 0).map(|_| Base::Earlier(below(number.max(1))));
                    let mut made = value(&raws[number], bases.collect(), (below(2) == 0).then_some(&dictionary));
                    let body = below(number.max(1));
                    if number > 0 && below(3) == 0 && !std::mem::replace(&mut has_text[body], true) {
                        made.body = Body::Earlier(body);
                    }
                    made.same = raws[..number].iter().position(|other| *other == raws[number]);
                    made
                })
                .collect();
            let one = encode(&values, 1);
            for threads in [2, 7] {
                for (one, other) in one.iter().zip(encode(&values, threads)) {
                    assert_eq!((one.way, one.base, &one.frame), (other.way, other.base, &other.frame));
                }
            }
            let mut decoder = crate::Decoder::new().expect("memory");
            let root = |mut number: usize| loop {
                match (one[number].way, one[number].base) {
                    (Way::Delta, Some(place)) => match values[number].bases[place] {
                        Base::Earlier(other) => number = other,
                        Base::Given(_) => panic!("no base was given"),
                    },
                    (Way::Same, Some(owner)) => number = owner,
                    _ => return number,
                }
            };
            for (number, made) in one.iter().enumerate() {
                let before: &[u8] = match (made.way, &values[number].body) {
                    (Way::Stored | Way::Same, _) => continue,
                    (Way::Plain, _) => &[],
                    (Way::Dictionary, _) => &dictionary_content,
                    (Way::Delta, _) => &raws[root(number)],
                    (Way::Body, Body::Earlier(body)) => &raws[*body],
                    (Way::Body, _) => panic!("it has no body"),
                };
                let raw = &raws[number];
                assert_eq!(decoder.decoded(&made.frame, before, raw.len()).as_ref(), Some(raw));
            }
        }
    }

    #[test]
    #[should_panic(expected = "comes after it")]
    fn a_base_comes_before_its_deltas() {
        let raw = noise(1, 100);
        encode(&[value(&raw, vec![Base::Earlier(0)], None)], 1);
    }
}
