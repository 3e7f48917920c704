//! Why a block of a page is main text or not, in words, for a person who doubts a verdict.
//!
//! It decides nothing: the kept blocks, the scores and their parts are those of the extractor.

use std::collections::{BTreeMap, HashSet};

use crate::combined::{self, Combined, Decision};
use crate::evidence::{ADVERT, BOILERPLATE, HEADER, HINT, MAIN, WHOLE};
use crate::flow::Flow;
use crate::left_out::Kept;
use crate::marks;
use crate::names::Names;
use crate::outline::{Block, Outline, Reading};
use crate::page::is_space;
use crate::scored::{Cause, Found, Part, Scored};
use crate::tables::scorecard::{SIZES, WORDS};

const MOST_CAUSES: usize = 4;
/// Hundredths of a score; weaker causes are not named.
const LEAST_SCORE: i32 = 10;
/// Characters of a start tag that are shown.
const MOST_TAG: usize = 60;

const LINKS: [&str; 5] =
    ["no links", "up to a third links", "up to two thirds links", "mostly links", "nothing but links"];
const PLACES: [&str; 3] = [
    "is before the text that the rule `combined` keeps",
    "is within the text that the rule `combined` keeps",
    "is after the text that the rule `combined` keeps",
];
/// By the kinds of words that the rule looks for.
const KINDS: [&str; WORDS.len()] = ["has a currency sign", "names cookies, consent or privacy", "claims a copyright"];
const SIGN: &str = "no text, or text that stands on the page before";
const TEASER: &str = "one of several short texts with linked headings after the main text";
const OUTLIER: &str = "a long text that few of many similar elements have";
const ADVERT_NAME: &str = "a class or id says that it is an advert";

/// A block of the visible text, with the decision of the extractor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Lines as shown, white space folded.
    pub text: String,
    /// It is main text.
    pub is_kept: bool,
    /// Hundredths, of `scored`.
    pub score: Option<i32>,
    /// The causes of the decision, strongest first; for `scored` with their parts of the score.
    pub because: Vec<String>,
}

impl Explained {
    fn of(page: &Combined, block: &Block, is_kept: bool, score: Option<i32>, because: Vec<String>) -> Self {
        let text = page.written(block);
        if text.is_empty() {
            let text = String::from_utf8_lossy(&page.text()[block.text.clone()]).into_owned();
            return Self { text, is_kept: false, score, because: vec![SIGN.to_owned()] };
        }
        Self { text, is_kept, score, because }
    }
}

/// Each block of a page, with the decision of `combined`.
pub fn of_combined(source: &[u8], kept: Kept) -> Vec<Explained> {
    let mut buffers = Combined::default();
    buffers.read(source, kept, Reading::default());
    let decision = combined::decide(&buffers.page, 0);
    let blocks = buffers.page.blocks.iter().enumerate();
    blocks
        .map(|(number, block)| {
            let is_kept = decision.kept.binary_search(&number).is_ok();
            let why = if is_kept { why_kept(&decision, block) } else { why_left(&buffers.page, &decision, number) };
            Explained::of(&buffers, block, is_kept, None, vec![why.to_owned()])
        })
        .collect()
}

fn why_kept(decision: &Decision, block: &Block) -> &'static str {
    if decision.is_lenient {
        "the page has little text, so all of it but boilerplate is kept"
    } else if !decision.inside[block.owner as usize] {
        "between the heading and the container of the main text"
    } else {
        "in the container of the main text"
    }
}

fn why_left(page: &Outline, decision: &Decision, number: usize) -> &'static str {
    let block = &page.blocks[number];
    if decision.adverts[block.owner as usize] {
        ADVERT_NAME
    } else if decision.dropped[number] || decision.is_lenient {
        by_evidence(page, block)
    } else if !decision.inside[block.owner as usize] {
        "outside the container of the main text"
    } else if combined::is_links(block) {
        "more than two thirds of it are links"
    } else {
        "after the last long text of the container"
    }
}

/// The evidence that a block is boilerplate; that of the nearest element decides.
fn by_evidence(page: &Outline, block: &Block) -> &'static str {
    let (mut evidence, mut element) = (block.evidence, block.owner as usize);
    while evidence & (BOILERPLATE | HEADER | HINT | ADVERT) == 0 && element != 0 {
        evidence = page.evidence[element];
        element = page.parents[element] as usize;
    }
    if evidence & ADVERT != 0 {
        ADVERT_NAME
    } else if evidence & (BOILERPLATE | HEADER) != 0 {
        "its tag or role says that it is boilerplate"
    } else {
        "a class or id says that it is boilerplate"
    }
}

/// Each block of a page, with the decision of `scored`.
pub fn of_scored(source: &[u8], kept: Kept, names: &Names) -> Vec<Explained> {
    let (mut rule, mut flow) = (Scored::default(), Flow::default());
    rule.read_title(source, kept.tags, &mut flow);
    let (taken, reading) = rule.read(source, kept);
    let found = rule.find::<true>(taken, &mut flow);
    let main = rule.without_rest(found.blocks.clone());
    let (mut whole, mut without_never) = (Combined::default(), Scored::default());
    whole.read(source, kept, reading);
    whole.page.signs.clone_from(&rule.combined().page.signs);
    let not_never = without_never.not_never(source, kept, reading);
    let not_never: HashSet<usize> = not_never.iter().map(|block| block.text.start).collect();
    let mut parts = rule.parts().chunk_by(|one, other| one.block == other.block);
    let mut scored = rule.combined().page.blocks.iter().enumerate().peekable();
    let mut explained = Vec::new();
    for block in &whole.page.blocks {
        let Some((number, _)) = scored.next_if(|(_, scored)| scored.text == block.text) else {
            let is_outlier = not_never.contains(&block.text.start);
            let why = if rule.teasers().binary_search(&block.text.start).is_ok() {
                TEASER.to_owned()
            } else if is_outlier {
                OUTLIER.to_owned()
            } else {
                never_by(&whole.page, block.owner, names)
            };
            explained.push(Explained::of(&whole, block, false, None, vec![why]));
            continue;
        };
        let (score, is_kept) = (rule.scores()[number], main.binary_search(&number).is_ok());
        let causes = causes(&rule, block, parts.next().unwrap_or(&[]), if is_kept { 1 } else { -1 });
        let because = why_scored(&found, number, score, is_kept, causes);
        explained.push(Explained::of(&whole, block, is_kept, Some(score), because));
    }
    explained
}

fn why_scored(found: &Found, number: usize, score: i32, is_kept: bool, causes: Vec<String>) -> Vec<String> {
    let bar = found.bar;
    let only = |why: &str| vec![why.to_owned()];
    let behind = |what: &str| {
        let mut all = vec![format!("the page has {what} text with a clear score, so the threshold is {bar}")];
        all.extend(causes.clone());
        all
    };
    if !is_kept && found.blocks.binary_search(&number).is_ok() {
        only("a date, a time or a count, which changes although the page does not")
    } else if found.is_doubtful {
        only("the chosen text has no word of the title, so everything but boilerplate is kept")
    } else if found.chosen.is_empty() {
        only("no block scores high enough, so the rule `combined` decides")
    } else if is_kept && found.chosen.binary_search(&number).is_err() {
        only("a heading, a list, a table, preformatted text, or a date of a list, within the main text")
    } else if !is_kept && found.chosen.binary_search(&number).is_ok() {
        only("most of its list or table is no main text")
    } else if !is_kept && score > bar {
        only("an earlier element that is kept has the same text")
    } else if bar < score && score <= 0 {
        behind("too little")
    } else if 0 < score && score <= bar {
        behind("enough")
    } else {
        causes
    }
}

/// The element around a block that excludes it from main text, and the kind of that element.
fn never_by(page: &Outline, owner: u32, names: &Names) -> String {
    let mut element = owner as usize;
    while element != 0 {
        let (name, attributes) = page.tags[element];
        let evidence = page.evidence[element];
        let of_name = marks::name_marks(name).with(page.custom(name).marks);
        if page.said.said(attributes).marks.with(of_name).is_never() && evidence & WHOLE == 0 {
            return format!("inside a dialog or a notice of consent, {}", start_tag(page, element, names));
        }
        if evidence & ADVERT != 0 && evidence & (MAIN | WHOLE) == 0 {
            return format!("inside an advert, {}", start_tag(page, element, names));
        }
        element = page.parents[element] as usize;
    }
    "inside a dialog, a notice of consent or an advert".to_owned()
}

fn start_tag(page: &Outline, element: usize, names: &Names) -> String {
    let (name, attributes) = page.tags[element];
    let (name, attributes) = (names.name(name), page.said.source(attributes));
    let tag = format!("<{}{}>", String::from_utf8_lossy(name), String::from_utf8_lossy(attributes));
    let tag = tag.split(is_space).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    match tag.char_indices().nth(MOST_TAG) {
        None => tag,
        Some((place, _)) => format!("{}\u{2026}", &tag[..place]),
    }
}

/// The causes of the decision, strongest first, each with its part of the score.
fn causes(rule: &Scored, block: &Block, parts: &[Part], sign: i32) -> Vec<String> {
    let mut worth: BTreeMap<String, i32> = BTreeMap::new();
    for (mark, score) in rule.marks_of(block).named() {
        let is_word = !mark.starts_with('<') && !mark.contains('=');
        let cause = if is_word { format!("inside a class, id or state \"{mark}\"") } else { format!("inside {mark}") };
        worth.insert(cause, score);
    }
    for part in parts {
        if let Cause::Words(kinds) = part.cause {
            let named = KINDS.into_iter().zip(WORDS).enumerate().filter(|(kind, _)| kinds >> kind & 1 != 0);
            worth.extend(named.map(|(_, (cause, score))| (cause.to_owned(), score.into())));
        } else if let Some(cause) = in_words(part.cause) {
            *worth.entry(cause).or_default() += part.worth;
        }
    }
    let mut causes: Vec<_> = worth.into_iter().filter(|&(_, score)| score * sign >= LEAST_SCORE).collect();
    causes.sort_by_key(|&(_, score)| -score * sign);
    causes.truncate(MOST_CAUSES);
    causes.into_iter().map(|(cause, score)| format!("{cause} ({:+.2})", f64::from(score) / 100.0)).collect()
}

/// A cause in words; None for those that have several.
fn in_words(cause: Cause) -> Option<String> {
    let words = match cause {
        Cause::Marks | Cause::Words(_) => return None,
        Cause::Fate { is_taken: true } => "the rule `combined` keeps it",
        Cause::Fate { is_taken: false } => "the rule `combined` drops it",
        Cause::Shape { is_heading, size, links } => {
            let form = if is_heading { "heading" } else { "block" };
            let letters = match size.checked_sub(1) {
                None => format!("under {} letters", SIZES[0]),
                Some(before) => format!("of {} letters and more", SIZES[before]),
            };
            return Some(format!("a {form} {letters}, {}", LINKS[links]));
        }
        Cause::Place(place) => PLACES[place],
        Cause::Alike => "many blocks have the same marks",
        Cause::Fifth => "its position in the text",
        Cause::HeadingBefore(true) => "follows a heading",
        Cause::HeadingBefore(false) => "no heading precedes it",
        Cause::Repeated { is_first: true } => "a later element has the same text",
        Cause::Repeated { is_first: false } => "an earlier element has the same text",
        Cause::Title => "is in the title of the page",
        Cause::Sentence => "ends a sentence",
        Cause::Neighbours => "the blocks next to it",
    };
    Some(words.to_owned())
}
