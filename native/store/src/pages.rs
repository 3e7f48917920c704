//! Pages as verdicts see them: one that is judged, those of the batch before it, and stored ones.

use std::sync::{Arc, OnceLock};

use docstore_kernel::postings::Answer;

use crate::analysed::{Analysed, Marks};
use crate::batch::{Judged, Seen};
use crate::posted::{row_key_of, Pointer, StoredPostings};
use crate::titles::Titled;

/// Bytes that Python or a test holds; a clone is the same bytes.
#[derive(Clone)]
pub struct Bytes(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl Bytes {
    pub fn new(held: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(held))
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

/// A page that is judged.
#[derive(Clone)]
pub struct Asking {
    pub row_key: Box<[u8]>,
    pub status: i64,
    pub body: Bytes,
    pub page: Arc<Analysed>,
}

impl Asking {
    pub fn body(&self) -> &[u8] {
        self.body.as_ref()
    }

    pub fn main(&self) -> &[u8] {
        &self.page.main
    }
}

/// What tells pages apart that titles are compared of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// The page that is judged.
    Asking,
    /// A page of the batch, or a stored one.
    Stored(Pointer),
}

/// What verdicts need of a page of the batch, or of a stored one.
#[derive(Debug)]
pub struct Page {
    /// Of its body.
    pub checksum: Box<[u8]>,
    /// Of its text; empty if it has none.
    pub text_checksum: Box<[u8]>,
    /// Of its text; empty if it has none.
    pub sketch: Box<[u8]>,
    pub shingle_count: u64,
    pub status: i64,
    pub is_list: bool,
    /// None if it has to be read.
    pub title: Option<Box<[u8]>>,
    /// Title and text as words, filled on demand: many pages are compared with the same page of a template.
    pub(crate) titled: OnceLock<Arc<Titled<Named>>>,
}

impl Page {
    pub fn of(asking: &Asking) -> Self {
        let page = &asking.page;
        let Analysed { checksum, title, marks, .. } = &**page;
        Self {
            checksum: checksum.clone(),
            text_checksum: page.text_checksum().into(),
            sketch: marks.as_ref().map_or(Box::default(), |marks| marks.sketch.clone()),
            shingle_count: marks.as_ref().map_or(0, |marks| marks.shingle_count()),
            status: asking.status,
            is_list: page.is_list(),
            title: Some(title.clone()),
            titled: OnceLock::new(),
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub fn stored(
        checksum: &[u8],
        text_checksum: &[u8],
        sketch: &[u8],
        shingle_count: u64,
        status: i64,
        is_list: bool,
        title: Option<&[u8]>,
    ) -> Self {
        Self {
            checksum: checksum.into(),
            text_checksum: text_checksum.into(),
            sketch: sketch.into(),
            shingle_count,
            status,
            is_list,
            title: title.map(Box::from),
            titled: OnceLock::new(),
        }
    }

    pub(crate) fn titled(&self, pointer: &Pointer, title: &[u8]) -> Arc<Titled<Named>> {
        let made = || Arc::new(Titled::new(Named::Stored(pointer.clone()), row_key_of(pointer), title, None));
        self.titled.get_or_init(made).clone()
    }
}

/// A stored page, with the cell values of its title, main text and body; empty for one that it does not have.
#[derive(Clone)]
pub struct Stored {
    pub page: Arc<Page>,
    pub cells: Arc<[Box<[u8]>; 3]>,
}

impl Stored {
    pub fn cell(&self, value: Value) -> &[u8] {
        &self.cells[value as usize]
    }

    /// Bytes of its cell values.
    pub fn cell_bytes(&self) -> usize {
        self.cells.iter().map(|cell| cell.len()).sum()
    }
}

/// A value of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    Title,
    Main,
    Body,
}

/// Records of the batch in one row, the last of each time: each stands in the place of a stored one.
pub type Pending<'a, H> = &'a [Arc<Judged<H>>];

/// A record; and a page, if it was looked for.
pub type RecordAndPage = (Option<Seen>, Option<Option<Seen>>);

/// Everything that is read or asked while a page is judged.  A value that is None is damaged, and is listed.
pub trait Reads: StoredPostings {
    /// What the caller holds of a page of the batch.
    type Held;

    /// Those of some rows that have no cells, so far as that is known without a read of each.
    fn absent_rows(&mut self, row_keys: Vec<&[u8]>) -> Result<Vec<Box<[u8]>>, Self::Error>;

    /// A live page.
    fn page(&mut self, pointer: &Pointer, pending: Pending<'_, Self::Held>) -> Result<Option<Stored>, Self::Error>;

    /// A value of a page that does not stand in its cell.
    fn value(
        &mut self,
        pointer: &Pointer,
        value: Value,
        cell_value: &[u8],
        pending: Pending<'_, Self::Held>,
    ) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Whether the body of a page can be read that does not stand in its cell.
    fn is_readable(
        &mut self,
        pointer: &Pointer,
        cell_value: &[u8],
        pending: Pending<'_, Self::Held>,
    ) -> Result<bool, Self::Error>;

    /// The time of the newest live page of a row.
    fn newest(&mut self, row_key: &[u8], pending: Pending<'_, Self::Held>) -> Result<Option<u64>, Self::Error>;

    /// The record of a row at a time, whether or not a policy hides it.
    fn record(
        &mut self,
        row_key: &[u8],
        timestamp: u64,
        pending: Pending<'_, Self::Held>,
    ) -> Result<Option<Seen>, Self::Error>;

    /// The record of a row at a time; and if there is none, the newest live page before it, unless that takes a further
    /// read.
    fn record_and_page_before(
        &mut self,
        row_key: &[u8],
        timestamp: u64,
        pending: Pending<'_, Self::Held>,
    ) -> Result<RecordAndPage, Self::Error>;

    /// The newest live page of a row before a time; with `fetches` also a rejected capture, if that is newer.
    fn before(
        &mut self,
        row_key: &[u8],
        timestamp: u64,
        fetches: bool,
        pending: Pending<'_, Self::Held>,
    ) -> Result<Option<Seen>, Self::Error>;

    /// Times and checksums (without the scheme) of the records of a row with `start <= time < end`.
    fn times(
        &mut self,
        row_key: &[u8],
        start: u64,
        end: u64,
        pending: Pending<'_, Self::Held>,
    ) -> Result<Vec<(u64, Box<[u8]>)>, Self::Error>;

    /// The value of `dedup:verdict` of a capture, by its cell value.
    fn verdict(&mut self, row_key: &[u8], timestamp: u64, cell_value: &[u8]) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Whether a value of a capture can be read, by the number of its column.
    fn is_sound(&mut self, row_key: &[u8], timestamp: u64, number: u8, cell_value: &[u8]) -> Result<bool, Self::Error>;

    /// Store the anchors of a page with the batch; if they are compared with the stored ones, those that differ.
    fn add_anchors(&mut self, held: &Self::Held, timestamp: u64, compares: bool) -> Result<(), Self::Error>;

    /// How many words a body shows.
    fn visible_words(&mut self, body: &[u8]) -> Result<usize, Self::Error>;

    /// The texts that share keys with a page, `more` of them than are looked at otherwise.
    fn propose(&mut self, marks: &Arc<Marks>, more: usize) -> Result<Arc<Answer>, Self::Error>;

    /// Post the text of a page of the batch, with what the index proposed for it.
    fn post(&mut self, marks: &Arc<Marks>, answer: &Arc<Answer>) -> Result<(), Self::Error>;

    /// The shingle set of a main text in UTF-8, ascending.
    fn shingles(&mut self, text: &[u8]) -> Vec<u64>;

    /// Do work on so many texts that needs nothing of the caller's: it may let others go on meanwhile.
    fn apart<T: Send>(&mut self, texts: usize, work: impl FnOnce() -> T + Send) -> T {
        let _ = texts;
        work()
    }
}
