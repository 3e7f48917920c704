//! Values as zstd frames that lean on a dictionary or a base, and are decoded by any zstd.
//!
//! libzstd takes a dictionary over by copying its tables or by searching two sets of them, and reads a base anew for
//! each value; that costs more than all else.  So copies are found here: a dictionary is indexed once, for all threads,
//! a base at every fourth place, and libzstd only writes down what was found.  It searches by itself where a value is
//! very long, or where a compaction takes its time for smaller frames (`Libzstd`).
//!
//! A frame depends on the value and on what it leans on, and on nothing else.  It has neither magic nor content size.
//! Nothing here knows Python.  `sites` chooses the dictionary of a value, and samples values for the next ones.
#![deny(unsafe_code)]

mod decode;
mod entropy;
mod group;
mod matches;
mod places;
mod sites;

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

pub use decode::Decoder;
use entropy::{Context, Libzstd, Prepared, DELTA_LEVEL};
pub use entropy::{Refused, LEVEL};
pub use group::{encode_group, Base, Body, Effort, Encoded, Encoders, Offer, Value, Way};
use matches::Finder;
use places::Index;
pub use sites::{site_of, Limits, Name, Sample, Shelf, Sites, Tablet, PIECE_BYTES};

/// What a value leans on and the value itself have fewer bytes than this: places are numbers of 24 bits.
pub const REACH_BYTES: usize = 1 << places::PLACE_BITS;
/// A dictionary's text keeps room for a value this long, and gives back what a longer one took.
const ROOM_BYTES: usize = 128 << 10;
/// Buffers of an encoder above this are given back after use.
const KEPT_BYTES: usize = 4 << 20;

/// Content that many values lean on, indexed once.
pub struct Dictionary {
    content_bytes: usize,
    level: i32,
    /// None above `LEVEL`, and of content that is too long: libzstd does the work there.
    index: Option<Index>,
    prepared: OnceLock<Option<Prepared>>,
    texts: Mutex<Texts>,
    is_back: Condvar,
}

/// The content, and behind it room for the value at work, so that both are one text: once for each thread that needed
/// it while another one had it.
struct Texts {
    idle: Vec<Vec<u8>>,
    made: usize,
    waiting: usize,
}

impl Dictionary {
    /// Index content for values that are encoded at a level.
    pub fn new(content: &[u8], level: i32) -> Self {
        let texts = Texts { idle: vec![with_room(content)], made: 1, waiting: 0 };
        Self {
            content_bytes: content.len(),
            level: if level > LEVEL { level } else { DELTA_LEVEL },
            index: (level <= LEVEL && content.len() < REACH_BYTES).then(|| Index::new(content)),
            prepared: OnceLock::new(),
            texts: Mutex::new(texts),
            is_back: Condvar::new(),
        }
    }

    /// The index, if it is there and reaches over so many bytes of values.
    fn index_for(&self, value_bytes: usize) -> Option<&Index> {
        self.index.as_ref().filter(|_| self.content_bytes + value_bytes < REACH_BYTES)
    }

    fn prepared(&self) -> Result<&Prepared, Refused> {
        let make = || self.with_text(|text| Prepared::new(&text[..self.content_bytes], self.level));
        self.prepared.get_or_init(make).as_ref().ok_or_else(no_context)
    }

    /// Bytes of memory.
    pub fn capacity(&self) -> usize {
        let made = self.texts.lock().unwrap_or_else(PoisonError::into_inner).made;
        made * (self.content_bytes + ROOM_BYTES) + self.index.as_ref().map_or(0, Index::capacity)
    }

    /// Work on a text that no other thread has; what stands behind the content is dropped before and after.
    fn with_text<T>(&self, work: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut has_waited = false;
        let mut text = loop {
            if let Some(text) = texts.idle.pop() {
                break text;
            }
            has_waited = true;
            texts.waiting += 1;
            texts = self.is_back.wait(texts).unwrap_or_else(PoisonError::into_inner);
            texts.waiting -= 1;
        };
        if has_waited && texts.idle.is_empty() {
            texts.idle.push(with_room(&text[..self.content_bytes]));
            texts.made += 1;
        }
        drop(texts);
        let made = catch_unwind(AssertUnwindSafe(|| work(&mut text))); // other threads may wait for this text
        text.truncate(self.content_bytes);
        if text.capacity() > self.content_bytes + ROOM_BYTES {
            text.shrink_to(self.content_bytes + ROOM_BYTES);
        }
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.idle.push(text);
        if texts.waiting > 0 {
            self.is_back.notify_one();
        }
        drop(texts);
        made.unwrap_or_else(|cause| resume_unwind(cause))
    }
}

fn with_room(content: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(content.len() + ROOM_BYTES);
    text.extend_from_slice(content);
    text
}

/// Makes frames; what it keeps between calls is memory alone.
pub struct Encoder {
    finder: Finder,
    text: Vec<u8>,
    context: Context,
    libzstd: Option<Libzstd>,
}

impl Encoder {
    /// None where there is no memory for it.
    pub fn new() -> Option<Self> {
        Some(Self { finder: Finder::default(), text: Vec::new(), context: Context::new()?, libzstd: None })
    }

    /// The frame of a value that leans on a dictionary; `OverLimit` where a part of it says that it would be clearly
    /// longer than a limit, which saves most of the work.  A frame that is made may still be longer.
    pub fn with_dictionary(
        &mut self,
        value: &[u8],
        dictionary: &Dictionary,
        limit: Option<usize>,
    ) -> Result<&[u8], Refused> {
        let start = dictionary.content_bytes;
        let Some(index) = dictionary.index_for(value.len()) else {
            return self.libzstd()?.with_dictionary(value, dictionary.prepared()?, dictionary.level);
        };
        let is_read = dictionary.with_text(|text| {
            text.reserve_exact(value.len());
            text.extend_from_slice(value);
            self.finder.recent().clear(value.len());
            self.finder.find(text, start, Some(index), limit)
        });
        if !is_read {
            return Err(Refused::OverLimit);
        }
        self.context.frame(self.finder.copies(), value, start)
    }

    /// The frame of a body with a dictionary, and that of its text against the body: the places of the body are known
    /// once it is read, so the text takes little more.  The limit is that of the body.  If libzstd makes the frame of the
    /// body, that of the text is empty.
    pub fn body_and_text(
        &mut self,
        body: &[u8],
        own_text: &[u8],
        dictionary: &Dictionary,
        limit: Option<usize>,
    ) -> Result<(Vec<u8>, Vec<u8>), Refused> {
        let start = dictionary.content_bytes;
        let Some(index) = dictionary.index_for(body.len() + own_text.len()) else {
            return Ok((self.with_dictionary(body, dictionary, limit)?.to_vec(), Vec::new()));
        };
        let first = dictionary.with_text(|text| {
            text.reserve_exact(body.len() + own_text.len());
            text.extend_from_slice(body);
            self.finder.recent().clear(body.len() + own_text.len());
            if !self.finder.find(text, start, Some(index), limit) {
                return Err(Refused::OverLimit);
            }
            let first = self.context.frame(self.finder.copies(), body, start).map(<[u8]>::to_vec);
            text.extend_from_slice(own_text);
            self.finder.find_after(text, start, start + body.len());
            first
        });
        Ok((first?, self.context.frame(self.finder.copies(), own_text, body.len())?.to_vec()))
    }

    /// The frame of a value by itself, as zstd makes it.
    pub fn plain(&mut self, value: &[u8], level: i32) -> Result<&[u8], Refused> {
        self.libzstd()?.plain(value, level)
    }

    fn libzstd(&mut self) -> Result<&mut Libzstd, Refused> {
        if self.libzstd.is_none() {
            self.libzstd = Libzstd::new();
        }
        self.libzstd.as_mut().ok_or_else(no_context)
    }

    /// The frame of a value that leans on a base, above `LEVEL` by libzstd's own search.
    pub fn with_base_at(&mut self, value: &[u8], base: &[u8], level: i32) -> Result<&[u8], Refused> {
        if level > LEVEL {
            return self.libzstd()?.with_base(value, base, level);
        }
        self.with_base(value, base, None)
    }

    /// The frame of a value that leans on a base; `OverLimit` as with a dictionary.
    pub fn with_base(&mut self, value: &[u8], base: &[u8], limit: Option<usize>) -> Result<&[u8], Refused> {
        if base.len() + value.len() >= REACH_BYTES {
            return self.libzstd()?.with_base(value, base, LEVEL);
        }
        self.text.clear();
        self.text.reserve_exact(base.len() + value.len());
        self.text.extend_from_slice(base);
        self.text.extend_from_slice(value);
        self.finder.recent().clear_to_base(&self.text, base.len());
        if !self.finder.find(&self.text, base.len(), None, limit) {
            return Err(Refused::OverLimit);
        }
        self.context.frame(self.finder.copies(), value, base.len())
    }

    /// Whether it holds more memory than is worth keeping.
    pub fn is_large(&self) -> bool {
        let libzstd_bytes = self.libzstd.as_ref().map_or(0, Libzstd::capacity);
        self.text.capacity().max(self.context.capacity()).max(self.finder.capacity()).max(libzstd_bytes) > KEPT_BYTES
    }
}

fn no_context() -> Refused {
    Refused::Failed("libzstd gives no context".to_owned())
}
