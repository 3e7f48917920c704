//! Pages as verdicts see them: one that is judged, those of the batch before it, and stored ones.

use std::sync::{Arc, OnceLock};

use docstore_kernel::postings::Answer;

use crate::analysed::{Analysed, Marks};
use crate::posted::{row_key_of, Pointer, StoredPostings};
use crate::titles::Titled;

/// Bytes that Python or a test holds.
pub type Held = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A page that is judged.
#[derive(Clone)]
pub struct Asking {
    pub row_key: Box<[u8]>,
    pub status: i64,
    pub body: Held,
    pub page: Arc<Analysed>,
}

impl Asking {
    pub fn body(&self) -> &[u8] {
        (*self.body).as_ref()
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

/// A stored page, with the columns that Python has of it, which are never looked at here.
pub struct Stored<Columns> {
    pub page: Arc<Page>,
    pub columns: Arc<Columns>,
    /// Bytes of the columns.
    pub column_bytes: usize,
}

impl<Columns> Clone for Stored<Columns> {
    fn clone(&self) -> Self {
        Self { page: self.page.clone(), columns: self.columns.clone(), column_bytes: self.column_bytes }
    }
}

/// A value of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    Title,
    Main,
    Body,
}

/// Everything that is read or asked while a page is judged.  A value that is None is damaged, and is listed.
pub trait Reads: StoredPostings {
    type Columns;

    /// A live page, with the pages of the batch in place.
    fn page(&mut self, pointer: &Pointer) -> Result<Option<Stored<Self::Columns>>, Self::Error>;

    /// A value of a stored page.
    fn value(
        &mut self,
        pointer: &Pointer,
        value: Value,
        columns: &Self::Columns,
    ) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Whether the body of a stored page can be read.
    fn is_readable(&mut self, pointer: &Pointer, columns: &Self::Columns) -> Result<bool, Self::Error>;

    /// The time of the newest live page of a row, with the records of the batch.
    fn newest(&mut self, row_key: &[u8]) -> Result<Option<u64>, Self::Error>;

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
