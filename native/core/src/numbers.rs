//! Numbers of things that are found again by a hash: a table that is used from page to page.

const FREE: u32 = u32::MAX;
const FIRST_SLOTS: usize = 1024;

/// Numbers below `u32::MAX`, with the hashes of what they stand for.
#[derive(Default)]
pub struct Numbers {
    /// Hash and number; at least half of them are free.
    slots: Vec<(u32, u32)>,
    count: usize,
}

impl Numbers {
    /// Forget all.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.slots.resize(FIRST_SLOTS, (0, FREE));
        self.count = 0;
    }

    /// The number of the thing with this hash that `is_it` knows by its number; `next`, from now on, where there is
    /// none.
    #[inline(always)]
    pub fn number(&mut self, hash: u32, next: u32, is_it: impl Fn(u32) -> bool) -> u32 {
        let mut slot = hash as usize & (self.slots.len() - 1);
        loop {
            let (other, number) = self.slots[slot];
            if number == FREE {
                self.slots[slot] = (hash, next);
                self.count += 1;
                if self.count * 2 > self.slots.len() {
                    self.grow();
                }
                return next;
            }
            if other == hash && is_it(number) {
                return number;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    #[cold]
    fn grow(&mut self) {
        let longer = vec![(0, FREE); self.slots.len() * 2];
        for (hash, number) in std::mem::replace(&mut self.slots, longer).into_iter().filter(|each| each.1 != FREE) {
            let mut slot = hash as usize & (self.slots.len() - 1);
            while self.slots[slot].1 != FREE {
                slot = (slot + 1) & (self.slots.len() - 1);
            }
            self.slots[slot] = (hash, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_keep_their_numbers_whatever_their_hashes() {
        let mut numbers = Numbers::default();
        for spread in [1, 7, 1000] {
            numbers.clear();
            for turn in 0..2000u32 {
                let thing = turn % 1500;
                let (hash, next) = (thing / 3 * spread, thing * u32::from(turn < 1500));
                assert_eq!(numbers.number(hash, next, |number| number == thing), thing);
            }
        }
    }

    #[test]
    fn many_things_keep_their_numbers_however_often_the_table_grows() {
        let mut numbers = Numbers::default();
        numbers.clear();
        for thing in (0..20_000).chain(0..20_000) {
            assert_eq!(numbers.number(thing, thing, |number| number == thing), thing);
        }
    }
}
