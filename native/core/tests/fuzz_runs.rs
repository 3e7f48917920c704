//! The same for runs of postings and for sets: drawn ones against plain models, and damaged bytes, which must give an
//! error or an answer, and soon.
//!
//! `cargo test --release -- --ignored` runs the long loop: FUZZ_EXECUTIONS (default 300,000) inputs from FUZZ_SEED.

mod chance;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use chance::{asked_for, Chance};
use docstore_kernel::pairs::{overlap, shared_members, Marked};
use docstore_kernel::postings::{
    encode, find, merge, mix_key, propose, prune, Asked, Encoded, Layer, Pruning, Recent, GONE,
};
use docstore_kernel::ranking::Looks;
use docstore_kernel::slices::{Damaged, Run, Shape, KEY_BITS, LIST_LIMIT, PLACE_BITS};

const TEXT_BYTES: usize = 6;

/// Keys that meet often, and lie even or all together.
fn key(chance: &mut Chance, spread: usize) -> u64 {
    let one = chance.below(1 << spread.min(20)) as u64;
    [mix_key(one), one, one << (KEY_BITS as usize - spread.min(20))][spread % 3]
}

/// Sorted postings of so many texts, and the texts.
fn drawn(chance: &mut Chance, texts: usize, limit: usize) -> (Vec<u64>, Vec<u64>) {
    let spread = 1 + chance.below(20);
    let mut postings: Vec<u64> = (0..chance.below(600))
        .map(|_| key(chance, spread) << PLACE_BITS | chance.below(texts) as u64)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let mut held: BTreeMap<u64, usize> = BTreeMap::new();
    postings.retain(|posting| {
        let count = held.entry(posting >> PLACE_BITS).or_default();
        *count += 1;
        *count <= limit
    });
    (postings, (0..texts).map(|_| chance.number() >> 16).collect())
}

/// A run as it lies in its file: texts, slices, index, and room for a footer.
struct File {
    bytes: Vec<u8>,
    parts: [usize; 4],
    shape: Shape,
}

impl File {
    fn new(encoded: &Encoded, texts: &[u64], shape: Shape) -> Self {
        let mut bytes: Vec<u8> =
            texts.iter().flat_map(|text| text.to_le_bytes().into_iter().take(TEXT_BYTES)).collect();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let slices = bytes.len();
        bytes.extend_from_slice(&encoded.bytes);
        let index = bytes.len();
        let mut at = 0_u32;
        bytes.extend_from_slice(&at.to_le_bytes());
        for units in &encoded.units {
            at += units;
            bytes.extend_from_slice(&at.to_le_bytes());
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let end = bytes.len();
        bytes.resize(end + 64, 0xa5);
        Self { bytes, parts: [0, slices, index, end], shape }
    }

    fn run(&self) -> Result<Run<'_>, Damaged> {
        Run::new(&self.bytes, self.parts, self.shape)
    }
}

fn shape(chance: &mut Chance, texts: usize) -> Shape {
    let place_bits = usize::BITS - (texts - 1).leading_zeros();
    Shape::new(chance.below(9) as u32, place_bits).expect("small enough")
}

fn all_postings(run: &Run<'_>) -> Result<Vec<u64>, Damaged> {
    let mut postings = Vec::new();
    (0..run.shape.slices()).try_for_each(|slice| run.postings(slice, &mut postings))?;
    Ok(postings)
}

/// What is found under each key: texts of postings in their order, at most `limit`.
fn model(parts: &[(Vec<u64>, Vec<u64>)], keys: &[u64], limit: usize) -> (Vec<u64>, Vec<u64>) {
    let (mut owners, mut texts) = (Vec::new(), Vec::new());
    for (owner, key) in keys.iter().enumerate() {
        let its = parts.iter().flat_map(|(postings, texts)| {
            let is_its = move |posting: &&u64| **posting >> PLACE_BITS == *key;
            postings.iter().filter(is_its).map(|posting| texts[(posting & ((1 << PLACE_BITS) - 1)) as usize])
        });
        for text in its.take(limit) {
            owners.push(owner as u64);
            texts.push(text);
        }
    }
    (owners, texts)
}

fn check_runs(chance: &mut Chance) {
    let limit = 1 + chance.below(LIST_LIMIT);
    let parts: Vec<_> = (0..1 + chance.below(3))
        .map(|_| {
            let texts = 1 + chance.below(300);
            drawn(chance, texts, limit)
        })
        .collect();
    let files: Vec<File> = parts
        .iter()
        .map(|(postings, texts)| {
            let shape = shape(chance, texts.len());
            File::new(&encode(postings, shape), texts, shape)
        })
        .collect();
    let runs: Vec<Run> = files.iter().map(|file| file.run().expect("whole")).collect();
    for (run, (postings, _)) in runs.iter().zip(&parts) {
        assert_eq!(&all_postings(run).expect("whole"), postings);
    }
    let mut recent = Recent::default();
    let mut posted = (Vec::new(), Vec::new());
    for place in 0..chance.below(40) as u64 {
        let keys: Vec<u64> = (0..chance.below(30)).map(|_| key(chance, 1 + place as usize % 7)).collect();
        assert!(recent.post(place + 1000, &keys));
        posted.0.extend(keys.iter().map(|key| key << PLACE_BITS | place));
        posted.1.push(place + 1000);
    }
    let mut sorted = posted.0.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(recent.sorted(usize::MAX), sorted);
    let mut replayed = Recent::default();
    for cell in recent.log(chance.number() >> chance.below(64), 1 + chance.below(9)) {
        assert_eq!(replayed.replay(&cell), Ok(()));
        let _ = Recent::default().replay(&cell[..chance.below(cell.len())]);
    }
    assert_eq!((replayed.sorted(usize::MAX), replayed.texts()), (sorted, &posted.1[..]));
    let some =
        |postings: &Vec<u64>| postings.iter().step_by(7).map(|posting| posting >> PLACE_BITS).collect::<Vec<_>>();
    let mut keys: Vec<u64> = parts.iter().flat_map(|part| some(&part.0)).chain(some(&posted.0)).collect();
    keys.extend((0..9).map(|_| chance.number() >> (64 - KEY_BITS)));
    let together: Vec<_> = parts.iter().cloned().chain([posted]).collect();
    let layers = [Layer { runs: runs.clone(), recent: None, skips_damage: false }, Layer { runs: Vec::new(), recent: Some(&recent), skips_damage: false }];
    assert_eq!(find(&layers, &keys, limit), Ok(model(&together, &keys, limit)));
    assert_eq!(find(&layers[..1], &keys, limit), Ok(model(&parts, &keys, limit)));

    let texts: Vec<u64> = parts.iter().map(|part| part.1.len() as u64).collect();
    let finest = runs.iter().map(|run| run.shape.slice_bits).max().unwrap_or(0);
    let places = texts.iter().sum::<u64>() - 1;
    let shape = Shape::new(finest, u64::BITS - places.leading_zeros()).expect("small enough");
    let merged = merge(&runs, &texts, shape, limit, 0, shape.slices()).expect("whole");
    let all: Vec<u64> = parts.iter().flat_map(|part| part.1.clone()).collect();
    let file = File::new(&merged, &all, shape);
    let layer = Layer { runs: vec![file.run().expect("whole")], recent: None, skips_damage: false };
    assert_eq!(find(&[layer], &keys, limit), Ok(model(&parts, &keys, limit)));
}

fn check_damage(chance: &mut Chance) {
    let texts = 1 + chance.below(300);
    let (postings, numbers) = drawn(chance, texts, LIST_LIMIT);
    let shape = shape(chance, texts);
    let mut file = File::new(&encode(&postings, shape), &numbers, shape);
    for _ in 0..1 + chance.below(6) {
        let at = chance.below(file.bytes.len());
        file.bytes[at] = chance.number() as u8;
    }
    if chance.below(8) == 0 {
        file.parts[chance.below(4)] = chance.below(file.bytes.len() * 2);
    }
    if chance.below(8) == 0 {
        file.shape = self::shape(chance, 1 + texts / 2);
    }
    let Ok(run) = file.run() else { return };
    let keys: Vec<u64> = postings.iter().map(|posting| posting >> PLACE_BITS).collect();
    let mut layers = [Layer { runs: vec![run], recent: Some(&Recent::default()), skips_damage: false }];
    let _ = find(&layers, &keys, 64);
    layers[0].skips_damage = true;
    assert!(find(&layers, &keys, 64).is_ok());
    let fingerprints: Vec<u64> = (0..chance.below(200)).map(|_| chance.number()).collect();
    let (band_keys, own) = (&keys[..keys.len().min(96)], chance.number());
    let asked = Asked { band_keys, fingerprints: &fingerprints, runs: &keys, own };
    let _ = propose(&layers, asked, 64, Looks { near: 24, inside: 16, most: 8, further: 48 });
    let _ = merge(&[run], &[texts as u64], run.shape, 64, 0, run.shape.slices());
    let places: Vec<u64> = (0..texts as u64).map(|place| if chance.below(3) == 0 { GONE } else { place }).collect();
    let pruning = Pruning { places: &places, texts: texts as u64, limit: 1 + chance.below(64) };
    let _ = prune(run, pruning, run.shape, 0, run.shape.slices());
}

fn set(chance: &mut Chance, others: &[u64]) -> Vec<u64> {
    let shift = [0, 0, 24, 52][chance.below(4)];
    let size = [0, 3, 40, 300, 4000][chance.below(5)];
    let mut set: BTreeSet<u64> = (0..size).map(|_| chance.number() >> shift).collect();
    set.extend(others.iter().copied().filter(|_| chance.below(3) == 0));
    set.into_iter().collect()
}

fn check_sets(chance: &mut Chance) {
    let one = set(chance, &[]);
    let other = set(chance, &one);
    let members: BTreeSet<u64> = one.iter().copied().collect();
    let expected = other.iter().filter(|value| members.contains(value)).count();
    assert_eq!(overlap(&one, &other), expected);
    assert_eq!(overlap(&other, &one), expected);
    let mut marked = Marked::default();
    marked.mark(&one);
    assert_eq!(marked.shared(&other), expected);
    let both: Vec<u64> = one.iter().chain(&other).copied().collect();
    let starts = [0, one.len() as u64, both.len() as u64];
    assert_eq!(shared_members(&starts, &both, &[0, 1], &[1, 1]), Some(vec![expected as u64, other.len() as u64]));
    let wild: Vec<u64> = (0..4).map(|_| chance.number() >> (chance.below(8) * 8)).collect();
    let _ = shared_members(&wild, &both, &[0, 1], &[2, chance.below(4) as u64]);
}

fn run(executions: u64, seed: u64) {
    let begun = Instant::now();
    for number in 0..executions {
        let input_seed = seed.wrapping_mul(0x0100_0000_01b3).wrapping_add(number);
        let started = Instant::now();
        let outcome = std::panic::catch_unwind(|| {
            let mut chance = Chance(input_seed);
            [check_runs, check_damage, check_sets][number as usize % 3](&mut chance);
        });
        assert!(outcome.is_ok(), "input seed {input_seed}, check {}", number % 3);
        assert!(started.elapsed().as_secs() < 2, "input seed {input_seed} is slow");
    }
    println!("{executions} executions, seed {seed}, {:.0} s", begun.elapsed().as_secs_f64());
}

#[test]
fn a_short_loop_finds_nothing() {
    run(2_000, 1);
}

#[test]
#[ignore = "a minute long: run by `make native-test`"]
fn a_long_loop_finds_nothing() {
    let (executions, seed) = asked_for(300_000);
    run(executions, seed);
}
