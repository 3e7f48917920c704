//! The marks around the text of each element: those of all elements around it, each once.

use crate::evidence::WHOLE;
use crate::marks::{self, Marks};
use crate::numbers::Numbers;
use crate::outline::Outline;

/// A set of marks, and what they are worth together.
#[derive(Clone, Copy, Default)]
pub struct Path {
    pub marks: Marks,
    pub worth: i32,
}

/// The path that comes of a parent's path, a name and the number of attributes.
#[derive(Clone, Copy)]
struct Made {
    of: (u32, u32, u32),
    path: u32,
    /// What is added says that the element is never content.
    is_never: bool,
}

const MADE: usize = 256;
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Paths of a page's elements; no two have the same marks.
#[derive(Default)]
pub struct Around {
    paths: Vec<Path>,
    by_marks: Numbers,
    /// Of each element: the number of its path.
    of_elements: Vec<u32>,
    /// What was made last, by a hash of what it was made of.
    made: Vec<Made>,
    /// Elements that say of themselves that they are never content.
    pub never: Vec<usize>,
}

impl Around {
    /// The number of an element's path.
    #[inline(always)]
    pub fn number(&self, element: u32) -> u32 {
        self.of_elements[element as usize]
    }

    /// An element's path.
    #[inline(always)]
    pub fn path(&self, element: u32) -> &Path {
        &self.paths[self.number(element) as usize]
    }

    /// Read one page.
    pub fn read(&mut self, page: &Outline) {
        self.never.clear();
        self.paths.clear();
        self.paths.push(Path::default());
        self.by_marks.clear();
        self.by_marks.number(hash_of(Marks::default()), 0, |_| true);
        self.of_elements.clear();
        self.of_elements.push(0);
        self.made.clear();
        self.made.resize(MADE, Made { of: (u32::MAX, 0, 0), path: 0, is_never: false });
        let elements = page.parents.iter().zip(&page.tags).zip(&page.evidence);
        for (element, ((&parent, &(name, attributes)), evidence)) in elements.enumerate().skip(1) {
            let parent = self.of_elements[parent as usize];
            if attributes == 0 && !marks::has_name_marks(name) && !page.is_custom(name) {
                self.of_elements.push(parent);
                continue;
            }
            let of = (parent, name, attributes);
            let mixed = (u64::from(parent) << 42 ^ u64::from(name) << 21 ^ u64::from(attributes)).wrapping_mul(MIX);
            let slot = (mixed >> (64 - MADE.trailing_zeros())) as usize;
            if self.made[slot].of != of {
                let own = page.said.said(attributes).marks.with(page.custom(name).marks).with(marks::name_marks(name));
                self.made[slot] = Made { of, path: self.joined(parent, own), is_never: own.is_never() };
            }
            let made = self.made[slot];
            if made.is_never && evidence & WHOLE == 0 {
                self.never.push(element);
            }
            self.of_elements.push(made.path);
        }
    }

    /// The path that comes of a path and marks.
    fn joined(&mut self, path: u32, own: Marks) -> u32 {
        let Path { marks: around, worth } = self.paths[path as usize];
        if own.are_in(around) {
            return path;
        }
        let marks = around.with(own);
        let paths = &mut self.paths;
        let next = paths.len() as u32;
        let number = self.by_marks.number(hash_of(marks), next, |number| paths[number as usize].marks == marks);
        if number == next {
            paths.push(Path { marks, worth: worth + own.score_beyond(around) });
        }
        number
    }
}

fn hash_of(marks: Marks) -> u32 {
    (marks.parts().iter().fold(0u64, |mixed, part| (mixed.rotate_left(23) ^ part).wrapping_mul(MIX)) >> 32) as u32
}
