//! Values as zstd frames that lean on a dictionary or a base, and are decoded by any zstd.
//!
//! libzstd takes a dictionary over by copying its tables or by searching two sets of them, and reads a base anew for
//! each value; that costs more than all else.  So copies are found here: a dictionary is indexed once, for all threads,
//! a base at every fourth place, and libzstd only writes down what was found.  `docstore/tablets/values.py` has the
//! slower way to frames of the same kind; their bytes differ, what they decode to does not.
//!
//! A frame depends on the value and on what it leans on, and on nothing else.  It has neither magic nor content size.
//! Nothing here knows Python.
#![deny(unsafe_code)]

mod decode;
mod entropy;
mod matches;
mod places;

use std::sync::{Mutex, PoisonError};

pub use decode::Decoder;
use entropy::Context;
pub use entropy::Refused;
use matches::Finder;
use places::Index;

/// What a value leans on and the value itself have fewer bytes than this: places are numbers of 24 bits.
pub const REACH_BYTES: usize = 1 << places::PLACE_BITS;
/// A dictionary's text keeps room for a value this long, and gives back what a longer one took.
const ROOM_BYTES: usize = 128 << 10;
/// One part in so many of a value is tried before the whole, where the frame has a limit; not of shorter values.
const TRIED_PART: usize = 8;
const LEAST_TRIED_BYTES: usize = 8 << 10;
/// A frame is given up that would take more than so many eighths of its limit.
const GIVEN_UP_EIGHTHS: usize = 9;
/// Buffers of an encoder above this are given back after use.
const KEPT_BYTES: usize = 4 << 20;

/// Content that many values lean on, indexed once.
pub struct Dictionary {
    content_bytes: usize,
    index: Index,
    /// The content, and behind it the value at work, so that both are one text.
    text: Mutex<Vec<u8>>,
}

impl Dictionary {
    /// Index content; None where it is too long.
    pub fn new(content: &[u8]) -> Option<Self> {
        if content.len() >= REACH_BYTES {
            return None;
        }
        let mut text = Vec::with_capacity(content.len() + ROOM_BYTES);
        text.extend_from_slice(content);
        Some(Self { content_bytes: content.len(), index: Index::new(content), text: Mutex::new(text) })
    }

    /// Bytes of memory.
    pub fn capacity(&self) -> usize {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).capacity() + self.index.capacity()
    }
}

/// Makes frames; what it keeps between calls is memory alone.
pub struct Encoder {
    finder: Finder,
    text: Vec<u8>,
    context: Context,
}

impl Encoder {
    /// None where there is no memory for it.
    pub fn new() -> Option<Self> {
        Some(Self { finder: Finder::default(), text: Vec::new(), context: Context::new()? })
    }

    /// The frame of a value that leans on a dictionary; `OverLimit` where its beginning says that it would be clearly
    /// longer than a limit, which saves most of the work.  A frame that is made may still be longer.
    pub fn with_dictionary(
        &mut self,
        value: &[u8],
        dictionary: &Dictionary,
        limit: Option<usize>,
    ) -> Result<&[u8], Refused> {
        let start = dictionary.content_bytes;
        check_reach(start, value)?;
        {
            // Whoever panicked here left at most another value behind the content.
            let mut text = dictionary.text.lock().unwrap_or_else(PoisonError::into_inner);
            text.truncate(start);
            text.reserve_exact(value.len());
            text.extend_from_slice(value);
            let is_over = limit.is_some_and(|limit| self.is_over(&text, start, &dictionary.index, limit));
            if !is_over {
                self.finder.recent().clear(value.len());
                self.finder.find(&text, start, Some(&dictionary.index));
            }
            text.truncate(start);
            if text.capacity() > start + ROOM_BYTES {
                text.shrink_to(start + ROOM_BYTES);
            }
            if is_over {
                return Err(Refused::OverLimit);
            }
        }
        self.context.frame(self.finder.copies(), value, start)
    }

    /// The frame of a body with a dictionary, and that of its text against the body: the places of the body are known
    /// once it is read, so the text takes little more.
    pub fn body_and_text(
        &mut self,
        body: &[u8],
        said: &[u8],
        dictionary: &Dictionary,
    ) -> Result<(Vec<u8>, Vec<u8>), Refused> {
        let start = dictionary.content_bytes;
        check_reach(start + said.len(), body)?;
        // Whoever panicked here left at most other values behind the content.
        let mut text = dictionary.text.lock().unwrap_or_else(PoisonError::into_inner);
        text.truncate(start);
        text.reserve_exact(body.len() + said.len());
        text.extend_from_slice(body);
        self.finder.recent().clear(body.len() + said.len());
        self.finder.find(&text, start, Some(&dictionary.index));
        let first = self.context.frame(self.finder.copies(), body, start).map(<[u8]>::to_vec);
        text.extend_from_slice(said);
        self.finder.find_after(&text, start, start + body.len());
        text.truncate(start);
        if text.capacity() > start + ROOM_BYTES {
            text.shrink_to(start + ROOM_BYTES);
        }
        drop(text);
        Ok((first?, self.context.frame(self.finder.copies(), said, body.len())?.to_vec()))
    }

    /// Whether the beginning of a value says that its frame would be clearly longer than a limit.
    fn is_over(&mut self, text: &[u8], start: usize, index: &Index, limit: usize) -> bool {
        let value_bytes = text.len() - start;
        if value_bytes < LEAST_TRIED_BYTES {
            return false;
        }
        self.finder.recent().clear(value_bytes);
        self.finder.find(&text[..start + value_bytes / TRIED_PART], start, Some(index));
        self.finder.estimated_bytes() * TRIED_PART * 8 > limit.saturating_mul(GIVEN_UP_EIGHTHS)
    }

    /// The frame of a value that leans on a base.
    pub fn with_base(&mut self, value: &[u8], base: &[u8]) -> Result<&[u8], Refused> {
        check_reach(base.len(), value)?;
        self.text.clear();
        self.text.reserve_exact(base.len() + value.len());
        self.text.extend_from_slice(base);
        self.text.extend_from_slice(value);
        self.finder.recent().clear_to_base(&self.text, base.len());
        self.finder.find(&self.text, base.len(), None);
        self.context.frame(self.finder.copies(), value, base.len())
    }

    /// Whether it holds more memory than is worth keeping.
    pub fn is_large(&self) -> bool {
        self.text.capacity().max(self.context.capacity()).max(self.finder.capacity()) > KEPT_BYTES
    }
}

fn check_reach(before: usize, value: &[u8]) -> Result<(), Refused> {
    if before + value.len() < REACH_BYTES {
        Ok(())
    } else {
        Err(Refused::TooLong)
    }
}
