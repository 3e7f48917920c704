//! Long texts that few of many alike elements have, such as an advert in one of forty cards.
//!
//! An element's *form* is its name, its own marks, whether it has attributes, and the form of its parent.  A block is a
//! *outlier block* if it weighs 40 or more, is no heading, and is all the text of its element, which is a div, section,
//! aside or article; and at most three elements with text have that one's form, four times as many or more have its
//! parent's form, and it holds at most half of all the text in these.
//!
//! Where a page repeats a form (cards, posts, rows of a list), what belongs to the form is in most of its elements. A
//! long text that is in one or two of them is not a part of it, whatever it is, and it would tip what shares and
//! neighbours say of all others.
//!
//! Cases, in `tests/cases/text/`: `outliers`.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::combined::{subtree_sums, SOLID_WEIGHT};
use crate::marks::{Marks, Mixed};
use crate::names::{NAME_ARTICLE, NAME_ASIDE, NAME_DIV, NAME_SECTION};
use crate::outline::Outline;

const GENERIC: [u32; 4] = [NAME_DIV, NAME_SECTION, NAME_ASIDE, NAME_ARTICLE];
const OUTLIER_WEIGHT: u64 = SOLID_WEIGHT;
const MOST_OUTLIERS: u32 = 3;
const LEAST_RATIO: u32 = 4;
const OUTLIER_SHARE: u64 = 2;
const MADE: usize = 256;
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Forms of a page's elements.
#[derive(Default)]
pub struct Outliers {
    /// Of each element.
    forms: Vec<u32>,
    /// By the parent's form, a name, and twice the number of marks, one more with attributes.
    numbers: HashMap<(u32, u32, u32), u32, BuildHasherDefault<Mixed>>,
    of_marks: HashMap<Marks, u32, BuildHasherDefault<Mixed>>,
    /// The last form that was made of a parent's form, a name and attributes, by a hash of these.
    made: Vec<((u32, u32, u32), u32)>,
    /// Of each form: its elements with text, and the weight of that.
    counts: Vec<u32>,
    weights: Vec<u64>,
}

impl Outliers {
    /// Numbers of the blocks that are outliers, ascending.
    pub fn find(&mut self, page: &Outline) -> Vec<usize> {
        let may_be = |number: &usize| {
            let block = &page.blocks[*number];
            let is_long = block.weight >= OUTLIER_WEIGHT && !block.is_heading;
            is_long && GENERIC.contains(&page.tags[block.owner as usize].0)
        };
        let mut found: Vec<usize> = (0..page.blocks.len()).filter(may_be).collect();
        if found.is_empty() {
            return found;
        }
        let held = subtree_sums(page, page.blocks.iter().map(|_| 1));
        found.retain(|&number| held[page.blocks[number].owner as usize] == 1);
        if found.is_empty() {
            return found;
        }
        self.read_forms(page);
        for (&form, &blocks) in self.forms.iter().zip(&held) {
            self.counts[form as usize] += u32::from(blocks != 0);
        }
        let form = |element: u32| self.forms[element as usize] as usize;
        found.retain(|&number| {
            let owner = page.blocks[number].owner;
            let own = self.counts[form(owner)];
            own <= MOST_OUTLIERS && own * LEAST_RATIO <= self.counts[form(page.parents[owner as usize])]
        });
        if found.is_empty() {
            return found;
        }
        let weights = subtree_sums(page, page.blocks.iter().map(|block| block.weight));
        self.weights.clear();
        self.weights.resize(self.counts.len(), 0);
        for (&form, weight) in self.forms.iter().zip(weights) {
            self.weights[form as usize] += weight;
        }
        found.retain(|&number| {
            let block = &page.blocks[number];
            block.weight * OUTLIER_SHARE <= self.weights[form(page.parents[block.owner as usize])]
        });
        found
    }

    fn read_forms(&mut self, page: &Outline) {
        self.numbers.clear();
        self.of_marks.clear();
        self.made.clear();
        self.made.resize(MADE, ((u32::MAX, 0, 0), 0));
        self.forms.clear();
        self.forms.push(0);
        self.counts.clear();
        self.counts.push(0);
        for element in 1..page.parents.len() {
            let parent = self.forms[page.parents[element] as usize];
            let (name, attributes) = page.tags[element];
            let key = (parent, name, attributes);
            let mixed = (u64::from(parent) << 42 ^ u64::from(name) << 21 ^ u64::from(attributes)).wrapping_mul(MIX);
            let made = &mut self.made[(mixed >> (64 - MADE.trailing_zeros())) as usize];
            if made.0 != key {
                let marks = page.said.said(attributes).marks;
                let mut said = 0;
                if marks != Marks::default() {
                    let next = self.of_marks.len() as u32 + 1;
                    said = *self.of_marks.entry(marks).or_insert(next);
                }
                let next = self.counts.len() as u32;
                let of_key = (parent, name, said << 1 | u32::from(attributes != 0));
                *made = (key, *self.numbers.entry(of_key).or_insert(next));
                if made.1 == next {
                    self.counts.push(0);
                }
            }
            self.forms.push(made.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Flow;
    use crate::left_out::LeftOut;
    use crate::names::Names;
    use crate::outline::Reading;
    use crate::tokens::{split, Tags};

    /// Texts of the outlier blocks of a page.
    fn found(source: &str) -> Vec<String> {
        let (mut tags, mut left_out, mut page, mut flow) =
            (Tags::default(), LeftOut::default(), Outline::default(), Flow::default());
        split(source.as_bytes(), false, &mut tags, &mut Names::default());
        let kept = left_out.read(source.as_bytes(), &mut tags);
        page.read(source.as_bytes(), kept, &mut flow, Reading { noscript: false, apart: true });
        let text =
            |number: usize| String::from_utf8_lossy(&flow.bytes()[page.blocks[number].text.clone()]).into_owned();
        Outliers::default().find(&page).into_iter().map(text).collect()
    }

    /// So many cards, some of which hold one thing more.
    fn cards(count: usize, more: &str, places: &[usize]) -> String {
        let card = |number: usize| {
            let more = if places.contains(&number) { more } else { "" };
            format!(
                "<li class=product-card><h3 class=title><a href=/{number}>Lamp {number}</a></h3><div \
                 class=description>A brass lamp that burns for {number} hours and more on one filling.</div>{more}<span \
                 class=price>$ {number}.90</span></li>"
            )
        };
        format!("<main><h1>Lamps</h1><ul>{}</ul></main>", (0..count).map(card).collect::<String>())
    }

    fn advert(length: usize) -> String {
        format!("<div><p>{}</p></div>", "x".repeat(length))
    }

    #[test]
    fn a_paragraph_in_few_of_many_cards_is_an_outlier() {
        for places in [&[0][..], &[2], &[11], &[2, 7], &[2, 7, 9]] {
            assert_eq!(found(&cards(12, &advert(120), places)), vec!["x".repeat(120); places.len()], "{places:?}");
        }
    }

    #[test]
    fn what_may_belong_to_the_page_is_no_outlier() {
        let long = advert(120);
        for (what, source) in [
            ("none", cards(12, "", &[])),
            ("less than four times as many cards", cards(11, &long, &[2, 7, 9])),
            ("few cards", cards(3, &long, &[2])),
            ("more than three", cards(40, &long, &[1, 2, 3, 4])),
            ("short", cards(12, "<div><p>Sold out</p></div>", &[2])),
            ("a heading", cards(12, &format!("<div><h2>{}</h2></div>", "x".repeat(80)), &[2])),
            ("no element of its own", cards(12, &format!("<p>{}</p>", "x".repeat(120)), &[2])),
            ("two blocks", cards(12, &format!("<div><p>{0}</p><p>{0}</p></div>", "x".repeat(80)), &[2])),
            ("most of the text", cards(12, &advert(9000), &[2])),
            ("an article", format!("<article>{}</article>", advert(300))),
            ("a cell", cards(12, &format!("<table><tr><td>{}</table>", "x".repeat(120)), &[2])),
        ] {
            assert_eq!(found(&source), [""; 0], "{what}");
        }
    }

    #[test]
    fn an_outlier_weighs_forty_or_more_and_at_most_half() {
        assert_eq!(found(&cards(12, &advert(39), &[2])).len(), 0);
        assert_eq!(found(&cards(12, &advert(40), &[2])).len(), 1);
        let twelve = |length: usize| {
            let card = |number: usize| {
                format!(
                    "<li>{}<div class=x>{}</div></li>",
                    if number == 3 { advert(length) } else { String::new() },
                    "y".repeat(50)
                )
            };
            (0..12).map(card).collect::<String>()
        };
        assert_eq!(found(&twelve(600)).len(), 1);
        assert_eq!(found(&twelve(601)).len(), 0);
    }
}
