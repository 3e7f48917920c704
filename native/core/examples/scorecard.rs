//! The signs of each block that `scored` reads from pages, in the words of `native/core/data/scorecard.txt`, and the
//! blocks that a table keeps: what `tools/fit_scorecard.py` fits a table to.
//!
//! ```text
//! cargo run --release --example scorecard [TABLE] < PAGES
//! ```
//!
//! PAGES is a line with a number of bytes before each source.  For each page there is a line `page`, with the numbers
//! of the blocks that `combined` takes, and a line `block` for each: its text, with U+0001 for line feeds, and its
//! signs, all with tabs between.  With a TABLE the score of a block is what this gives for its signs, not what the
//! kernel was built with, and a line `kept` has the numbers of the blocks that are kept.

use std::collections::HashMap;
use std::io::{self, BufRead, BufWriter, Read, Write};

use docstore_kernel::flow::Flow;
use docstore_kernel::foreign::is_xhtml;
use docstore_kernel::left_out::LeftOut;
use docstore_kernel::marks::Marks;
use docstore_kernel::names::Names;
use docstore_kernel::outline::Block;
use docstore_kernel::scored::{steps, Cause, Part, Scored, REPEATED_WEIGHT};
use docstore_kernel::tables::scorecard::{FIFTH, LIKES, SENTENCE_ENDS, SHARE, TAKEN_WEIGHTS, WORDS};
use docstore_kernel::tokens::{split, Tags};

const FATES: [&str; 2] = ["left", "taken"];
const FORMS: [&str; 2] = ["block", "heading"];
const STEPS: [isize; 4] = [-2, -1, 1, 2];

/// What of a block its neighbours' signs depend on, too.
struct Traits {
    shape: String,
    links: usize,
    form: &'static str,
    fate: &'static str,
}

impl Traits {
    fn of(parts: &[Part]) -> Self {
        let (mut shape, mut links, mut form, mut fate) = (String::new(), 0, FORMS[0], FATES[0]);
        for part in parts {
            match part.cause {
                Cause::Fate { is_taken } => fate = FATES[usize::from(is_taken)],
                Cause::Shape { is_heading, size, links: its } => {
                    (links, form) = (its, FORMS[usize::from(is_heading)]);
                    shape = format!("{form} {size}{links}");
                }
                _ => {}
            }
        }
        Self { shape, links, form, fate }
    }
}

/// The signs of each block of the page that a rule has read.
fn signs_of(rule: &Scored, taken: &[usize]) -> Vec<Vec<String>> {
    let (page, text) = (&rule.combined().page, rule.combined().text());
    let parts: Vec<&[Part]> = rule.parts().chunk_by(|one, other| one.block == other.block).collect();
    let traits: Vec<Traits> = parts.iter().map(|parts| Traits::of(parts)).collect();
    let around = |block: &Block| rule.marks_of(&Block { leaf: 0, ..block.clone() });
    let mut alike: HashMap<(Marks, u32), u64> = HashMap::new();
    let mut first_owners: HashMap<&[u8], (u32, bool)> = HashMap::new();
    for block in &page.blocks {
        *alike.entry((around(block), page.tags[block.owner as usize].0)).or_default() += 1;
        let first = first_owners.entry(&text[block.text.clone()]).or_insert((block.owner, false));
        first.1 |= first.0 != block.owner;
    }
    let weigh = |numbers: &[usize]| -> u64 { numbers.iter().map(|&number| page.blocks[number].weight).sum() };
    let (taken_weight, total) = (weigh(taken), page.blocks.iter().map(|block| block.weight).sum::<u64>());
    let (fifths, shares) = ((FIFTH.len() / 2) as u64, (SHARE.len() / 2) as u64);
    let amount = steps(taken_weight, &TAKEN_WEIGHTS);
    let share = (shares * taken_weight).checked_div(total).map_or(0, |share| share.min(shares - 1));
    let mut weight_before = 0;
    let mut found = Vec::new();
    for (number, block) in page.blocks.iter().enumerate() {
        let Traits { shape, links, form, fate } = &traits[number];
        let own = &text[block.text.clone()];
        let mut signs: Vec<String> = rule.marks_of(block).named().map(|(name, _)| format!("in {name}")).collect();
        signs.retain(|sign| sign != "in ");
        signs.extend([shape.clone(), format!("{fate} {shape}")]);
        signs.extend([format!("{fate} of amount {amount}"), format!("{fate} of share {share}")]);
        let like = steps(alike[&(around(block), page.tags[block.owner as usize].0)], &LIKES);
        signs.extend([format!("like {like}"), format!("like {like} {fate}"), format!("like {like} links {links}")]);
        signs.push(format!("like {like} of amount {amount} {fate}"));
        let fifth = fifths * weight_before / total;
        weight_before += block.weight;
        signs.extend([format!("fifth {fifth}"), format!("fifth {fifth} {fate}")]);
        for part in parts[number] {
            match part.cause {
                Cause::Place(place) => signs.push(format!("{} taken", ["before", "among", "behind"][place])),
                Cause::HeadingBefore(true) => signs.push("behind a heading".to_owned()),
                Cause::HeadingBefore(false) => signs.push("before any heading".to_owned()),
                Cause::Title => signs.push(format!("title {form}")),
                Cause::Words(kinds) => {
                    let names = ["currency", "consent", "copyright"].into_iter().take(WORDS.len()).enumerate();
                    signs.extend(names.filter(|(kind, _)| kinds >> kind & 1 != 0).map(|(_, name)| name.to_owned()));
                }
                _ => {}
            }
        }
        let (first_owner, is_repeated) = first_owners[own];
        if is_repeated && block.weight >= REPEATED_WEIGHT {
            signs.push(if block.owner == first_owner { "is repeated" } else { "repeats" }.to_owned());
        }
        if String::from_utf8_lossy(own).ends_with(SENTENCE_ENDS) {
            signs.extend(["sentence".to_owned(), format!("sentence {fate}")]);
        }
        for step in STEPS {
            let other = number.checked_add_signed(step).filter(|&other| other < page.blocks.len());
            let Some(other) = other else {
                signs.push(format!("{step:+} nothing"));
                continue;
            };
            signs.push(format!("{step:+} {}", traits[other].shape));
            signs.push(format!("{step:+} {} by {fate}", traits[other].fate));
            if page.blocks[other].owner == block.owner {
                signs.push(format!("{step:+} same element"));
            }
        }
        found.push(signs);
    }
    found
}

/// The scores of a table by sign, with "in " before marks.
fn table_of(path: &str) -> io::Result<HashMap<String, i32>> {
    let mut scores = HashMap::new();
    let mut before = "";
    for line in std::fs::read_to_string(path)?.lines() {
        if line.starts_with('[') {
            before = if ["[tags]", "[states]", "[words]"].contains(&line) { "in " } else { "" };
        } else if !line.starts_with('#') {
            for (sign, score) in line.split("  ").filter_map(|entry| entry.rsplit_once(':')) {
                scores.insert(format!("{before}{sign}"), score.parse().expect("a score is an integer"));
            }
        }
    }
    Ok(scores)
}

fn main() -> io::Result<()> {
    let table = std::env::args().nth(1).map(|path| table_of(&path)).transpose()?;
    let (mut input, mut output) = (io::stdin().lock(), BufWriter::new(io::stdout().lock()));
    let (mut rule, mut tags, mut names) = (Scored::default(), Tags::default(), Names::default());
    let (mut left_out, mut flow, mut line) = (LeftOut::default(), Flow::default(), String::new());
    while input.read_line(&mut line)? != 0 {
        let mut source = vec![0; line.trim().parse().expect("a number of bytes")];
        input.read_exact(&mut source)?;
        line.clear();
        names.clear();
        split(&source, is_xhtml(&source, ""), &mut tags, &mut names);
        let kept = left_out.read(&source, &mut tags);
        rule.read_title(&source, kept.tags, &mut flow);
        let (taken, _) = rule.read(&source, kept);
        let found = rule.find::<true>(taken, &mut flow);
        let numbers = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join("\t");
        writeln!(output, "page\t{}", numbers(&found.taken))?;
        let all = signs_of(&rule, &found.taken);
        for (block, signs) in rule.combined().page.blocks.iter().zip(&all) {
            let text = String::from_utf8_lossy(&rule.combined().text()[block.text.clone()]).replace('\n', "\u{1}");
            writeln!(output, "block\t{text}\t{}", signs.join("\t"))?;
        }
        if let Some(table) = &table {
            let of = |sign: &str| table.get(sign).copied().unwrap_or(0);
            let scores = all.iter().map(|signs| of("any") + signs.iter().map(|sign| of(sign)).sum::<i32>());
            writeln!(output, "kept\t{}", numbers(&rule.choose_by(scores.collect())))?;
        }
    }
    output.flush()
}
