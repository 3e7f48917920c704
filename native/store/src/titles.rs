//! When titles speak against a verdict on text.  One rule for verdicts, `similar`, the sweep and Spark.
//!
//! Two pages with similar texts get no verdict (*title mismatch*) if their titles contradict each other, and there is
//! evidence that the text is boilerplate (a notice or a menu) and that the main subject of the pages is missing in it:
//!
//! 1. Titles *contradict* each other if each has words that the other has not, or only one has words, and neither text
//!    has two thirds of the words that only its own title has.  They do not if they share four words, at least half of
//!    each, and a text has two thirds of these: the rest is a site's name.  Words are those of `docstore_kernel::words`,
//!    of three bytes and more in UTF-8 (one letter of a script without spaces), without numbers.
//! 2. *Evidence* is a third page with such a text, of the host of one of the two, whose title contradicts both.  For two
//!    hosts it does not count if the page of its host is an article (its text has a quarter of its title's words, and is
//!    at least half of the visible text), because the third page may be a printer version.  For one host it is enough
//!    that one of the two shows more words outside its main text than in it, or that both have titles and neither text
//!    has a quarter of the words of its title.
//!
//! Pages of other hosts are not evidence, so that an attacker cannot hide copies of a page.  Figures: `docs/dedup.md`.

use std::borrow::{Borrow, Cow};
use std::cell::RefCell;
use std::cmp::Ordering;
use std::sync::OnceLock;

use docstore_kernel::titles::{distinctive, held};
use docstore_kernel::words::Words;

use crate::keys::host_of;

/// n stands for a share of 1/n.
const LEAST_SHARE: usize = 4;
/// Numerator and denominator.
const HELD_SHARE: (usize, usize) = (2, 3);
const LEAST_SHARED_WORDS: usize = 4;
/// A longer text takes the buffer of its thread with it, which would hold several times as much for ever.
const KEPT_TEXT_BYTES: usize = 4 << 20;

thread_local! {
    static WORDS: RefCell<Words> = RefCell::default();
}

/// The normalised words of a title in UTF-8, which may have lone surrogates in three bytes, with one space between.
pub fn joined_title(title: &[u8]) -> Vec<u8> {
    WORDS.with_borrow_mut(|words| {
        words.cut(String::from_utf8_lossy(title).as_bytes());
        words.joined().to_vec()
    })
}

/// Whether two titles have the same words in the same order.
pub fn same_title(title: &[u8], other: &[u8]) -> bool {
    title == other || joined_title(title) == joined_title(other)
}

/// Gives what is asked of few pages: their texts and their bodies.
pub trait Shown {
    /// What tells pages apart.
    type Name;
    type Error;

    /// The main text of a page in UTF-8.
    fn text<'a>(&'a mut self, name: &'a Self::Name) -> Result<Cow<'a, [u8]>, Self::Error>;

    /// How many words the body of a page shows; None without a body.
    fn visible_words(&mut self, name: &Self::Name) -> Result<Option<usize>, Self::Error>;
}

/// What the text of a page says of its title.
#[derive(Debug)]
struct Held {
    /// Which words of the title the text has.
    words: Vec<bool>,
    word_count: usize,
}

/// A page's row, title, and compared text; text and body are asked for when they are first needed.
#[derive(Debug)]
pub struct Titled<Name> {
    pub name: Name,
    /// Empty if the page is not stored.
    pub row_key: Box<[u8]>,
    pub title: Box<[u8]>,
    /// Ascending.
    words: OnceLock<Vec<Box<[u8]>>>,
    held: OnceLock<Held>,
    is_mostly_main: OnceLock<bool>,
}

impl<Name> Titled<Name> {
    pub fn new(name: Name, row_key: &[u8], title: &[u8], is_mostly_main: Option<bool>) -> Self {
        let is_mostly_main = is_mostly_main.map_or_else(OnceLock::new, OnceLock::from);
        let (words, held) = (OnceLock::new(), OnceLock::new());
        Self { name, row_key: row_key.into(), title: title.into(), words, held, is_mostly_main }
    }

    /// Of its URL; empty if it has none, and that equals no other page's.
    pub fn host(&self) -> &[u8] {
        host_of(&self.row_key)
    }

    /// The words of its title that distinguish the page, ascending.
    pub fn words(&self) -> &[Box<[u8]>] {
        self.words.get_or_init(|| {
            let title = String::from_utf8_lossy(&self.title);
            WORDS.with_borrow_mut(|words| distinctive(&title, words).into_iter().map(Box::from).collect())
        })
    }

    fn held<S: Shown<Name = Name>>(&self, shown: &mut S) -> Result<&Held, S::Error> {
        if let Some(held) = self.held.get() {
            return Ok(held);
        }
        let wanted: Vec<Cow<'_, str>> = self.words().iter().map(|word| String::from_utf8_lossy(word)).collect();
        let text = shown.text(&self.name)?;
        let mut words = WORDS.take();
        let found = held(&String::from_utf8_lossy(&text), &wanted, &mut words);
        let found = Held { words: found, word_count: words.ends().len() };
        if text.len() <= KEPT_TEXT_BYTES {
            WORDS.set(words);
        }
        Ok(self.held.get_or_init(|| found))
    }

    /// The words of its title that its text has.
    pub fn held_words<S: Shown<Name = Name>>(&self, shown: &mut S) -> Result<Vec<&[u8]>, S::Error> {
        let held = self.held(shown)?.words.iter();
        Ok(self.words().iter().zip(held).filter(|(_, held)| **held).map(|(word, _)| &**word).collect())
    }

    /// Whether the text has two thirds of some words of the title, by their places.
    fn holds<S: Shown<Name = Name>>(&self, some: &[usize], shown: &mut S) -> Result<bool, S::Error> {
        let held = self.held(shown)?;
        let count = some.iter().filter(|place| held.words[**place]).count();
        Ok(count * HELD_SHARE.1 >= some.len() * HELD_SHARE.0)
    }

    /// Whether the title has words, and the text has a quarter of them.
    fn is_named<S: Shown<Name = Name>>(&self, shown: &mut S) -> Result<bool, S::Error> {
        let words = self.words().len();
        let held = self.held(shown)?.words.iter().filter(|held| **held).count();
        Ok(words > 0 && words <= held * LEAST_SHARE)
    }

    /// Whether at least half of the visible words are main text; true without a body.
    pub fn is_mostly_main<S: Shown<Name = Name>>(&self, shown: &mut S) -> Result<bool, S::Error> {
        if let Some(known) = self.is_mostly_main.get() {
            return Ok(*known);
        }
        let is_mostly_main = match shown.visible_words(&self.name)? {
            Some(visible) => 2 * self.held(shown)?.word_count >= visible,
            None => true,
        };
        Ok(*self.is_mostly_main.get_or_init(|| is_mostly_main))
    }

    /// Whether the text has words of the title, and is most of the visible text.
    pub fn is_article<S: Shown<Name = Name>>(&self, shown: &mut S) -> Result<bool, S::Error> {
        Ok(self.is_named(shown)? && self.is_mostly_main(shown)?)
    }
}

/// Whether two titles contradict each other; symmetric.
pub fn contradict<S: Shown>(page: &Titled<S::Name>, other: &Titled<S::Name>, shown: &mut S) -> Result<bool, S::Error> {
    if page.title == other.title {
        return Ok(false);
    }
    let (mine, its) = (page.words(), other.words());
    let (mut only_here, mut only_there) = (Vec::new(), Vec::new());
    let (mut shared_here, mut shared_there) = (Vec::new(), Vec::new());
    let (mut here, mut there) = (0, 0);
    loop {
        let order = match (mine.get(here), its.get(there)) {
            (None, None) => break,
            (Some(one), Some(two)) => one.cmp(two),
            (one, _) => {
                if one.is_some() {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        };
        match order {
            Ordering::Less => only_here.push(here),
            Ordering::Greater => only_there.push(there),
            Ordering::Equal => {
                shared_here.push(here);
                shared_there.push(there);
            }
        }
        here += usize::from(order != Ordering::Greater);
        there += usize::from(order != Ordering::Less);
    }
    let adds_to_other = only_here.is_empty() != only_there.is_empty() && !mine.is_empty() && !its.is_empty();
    if (only_here.is_empty() && only_there.is_empty()) || adds_to_other {
        return Ok(false);
    }
    if (!only_here.is_empty() && page.holds(&only_here, shown)?)
        || (!only_there.is_empty() && other.holds(&only_there, shown)?)
    {
        return Ok(false);
    }
    let least_shared = LEAST_SHARED_WORDS.max(only_here.len()).max(only_there.len());
    let is_same_headline =
        shared_here.len() >= least_shared && (page.holds(&shared_here, shown)? || other.holds(&shared_there, shown)?);
    Ok(!is_same_headline)
}

/// Whether titles set two pages of different rows with similar texts apart; symmetric.
///
/// `evidence` is called if it is needed, and gives the pages of some hosts with such a text; it may give the two as well.
pub fn mismatch<S: Shown, T: Borrow<Titled<S::Name>>>(
    page: &Titled<S::Name>,
    other: &Titled<S::Name>,
    shown: &mut S,
    evidence: impl FnOnce(&mut S, &[&[u8]]) -> Result<Vec<T>, S::Error>,
) -> Result<bool, S::Error> {
    if !contradict(page, other, shown)? {
        return Ok(false);
    }
    let mut hosts = Vec::with_capacity(2);
    if !page.host().is_empty() && page.host() == other.host() {
        let are_titled = !page.words().is_empty() && !other.words().is_empty();
        if are_titled && !(page.is_named(shown)? || other.is_named(shown)?) {
            return Ok(true);
        }
        if !(page.is_mostly_main(shown)? && other.is_mostly_main(shown)?) {
            return Ok(true);
        }
        hosts.push(page.host());
    } else {
        for each in [page, other] {
            if !each.is_article(shown)? && !each.host().is_empty() {
                hosts.push(each.host());
            }
        }
    }
    if hosts.is_empty() {
        return Ok(false);
    }
    let like_them = evidence(shown, &hosts)?;
    has_evidence(page, other, like_them.iter().map(Borrow::borrow), shown)
}

/// Whether a third page's title contradicts those of both; symmetric.
pub fn has_evidence<'a, S: Shown>(
    page: &Titled<S::Name>,
    other: &Titled<S::Name>,
    like_them: impl IntoIterator<Item = &'a Titled<S::Name>>,
    shown: &mut S,
) -> Result<bool, S::Error>
where
    S::Name: 'a,
{
    for each in like_them {
        if each.row_key != page.row_key
            && each.row_key != other.row_key
            && contradict(each, page, shown)?
            && contradict(each, other, shown)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}
