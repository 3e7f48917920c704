//! Fuzzing without libFuzzer, for the stable toolchain: seeded mutations of real pages, every invariant checked.
//!
//! `cargo test --release -- --ignored` runs the long loop: FUZZ_EXECUTIONS (default 1,000,000) inputs from FUZZ_SEED
//! (default 1), the number printed at the end.  A failure prints the seed of its input, which alone makes it again.

mod chance;

use std::path::Path;
use std::time::Instant;

use chance::{asked_for, Chance};
use docstore_kernel::invariants::{analysers, check_kernel, check_tokens};

const PIECES: [&str; 64] = [
    "<",
    ">",
    "</",
    "/>",
    "<!--",
    "-->",
    "--!>",
    "<?",
    "<![CDATA[",
    "&",
    "&amp",
    "&#",
    "&#x110000;",
    "&#0;",
    "&nbsp;",
    "&ngE;",
    "\"",
    "'",
    "=",
    "\0",
    "<script>",
    "</script>",
    "<title>",
    "<textarea>",
    "<xmp>",
    "<plaintext>",
    "<style>",
    "<noscript>",
    "</noscript>",
    "<template>",
    "<pre>",
    "</pre>",
    "<p>",
    "<br>",
    "<b>",
    "</b>",
    "<div>",
    "</div>",
    "<li>",
    "<td>",
    "<tr>",
    "<h1 class=ad>",
    "</h1>",
    "<a href=/x/>",
    "</a>",
    "<area href=z>",
    "<meta charset=gbk>",
    "<nav>",
    "<article>",
    "<x-y>",
    "</x-y>",
    "\u{ad}",
    "\u{301}",
    "\u{338}",
    "\u{327}",
    "\u{1100}\u{1161}",
    "\u{ac00}\u{11a8}",
    "\u{915}\u{94d}",
    "\u{4e2d}",
    "\u{ff76}\u{ff9e}",
    "\u{130}",
    "\u{fb01}",
    "\u{fdfa}",
    "word word ",
];

const CONTENT_TYPES: [&str; 6] = [
    "text/html",
    "text/html",
    "text/html; charset=utf-8",
    "text/html;charset=windows-1251",
    "",
    "text/html;charset=\"",
];

fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/html");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut found: Vec<Vec<u8>> = paths.iter().filter_map(|path| std::fs::read(path).ok()).collect();
    found.push(b"<html lang=en><title>Tea</title><h1>On tea</h1><p>Some words <a href=x>more</a>".to_vec());
    found
}

fn input(seeds: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    let seed = &seeds[chance.below(seeds.len())];
    let start = chance.below(seed.len());
    let most = [40, 200, 1000, 4000][chance.below(4)];
    let mut body = seed[start..(start + most).min(seed.len())].to_vec();
    for _ in 0..=chance.below(8) {
        let place = chance.below(body.len() + 1);
        match chance.below(5) {
            0 if place < body.len() => body[place] ^= 1 << chance.below(8),
            1 => body.truncate(place),
            2 => {
                let end = (place + chance.below(40)).min(body.len());
                body.drain(place..end);
            }
            3 => {
                let byte = chance.below(256) as u8;
                body.splice(place..place, [byte]);
            }
            _ => {
                let piece = PIECES[chance.below(PIECES.len())].repeat(1 + chance.below(3));
                body.splice(place..place, piece.into_bytes());
            }
        }
    }
    body
}

fn run(executions: u64, seed: u64) {
    let seeds = seeds();
    let mut analysers = analysers();
    let begun = Instant::now();
    let mut bytes = 0;
    for number in 0..executions {
        let input_seed = seed.wrapping_mul(0x0100_0000_01b3).wrapping_add(number);
        let mut chance = Chance(input_seed);
        let body = input(&seeds, &mut chance);
        bytes += body.len();
        let content_type = CONTENT_TYPES[chance.below(CONTENT_TYPES.len())];
        let started = Instant::now();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            check_tokens(&body);
            check_kernel(&mut analysers, &body, content_type);
        }));
        assert!(outcome.is_ok(), "input seed {input_seed} ({:?})", String::from_utf8_lossy(&body));
        assert!(started.elapsed().as_secs() < 2, "input seed {input_seed} is slow");
    }
    println!("{executions} executions, {bytes} bytes, seed {seed}, {:.0} s", begun.elapsed().as_secs_f64());
}

#[test]
fn a_short_loop_finds_nothing() {
    run(5_000, 1);
}

#[test]
#[ignore = "minutes long: run by `make native-test`"]
fn a_long_loop_finds_nothing() {
    let (executions, seed) = asked_for(1_000_000);
    run(executions, seed);
}
