//! A cache by bytes that is bounded by the cost of its values: what was used longest ago is evicted first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A cache of values by bytes.
pub struct Lru<V> {
    most: usize,
    /// Of one entry, next to its value.
    entry_cost: usize,
    turns: HashMap<Arc<[u8]>, u64>,
    /// By turn: the least recently used is the first.  Key, value and cost.
    entries: BTreeMap<u64, (Arc<[u8]>, V, usize)>,
    next_turn: u64,
    used: usize,
    hits: u64,
    misses: u64,
}

/// Cost of what a cache holds, its entries, and its look-ups that found a value or none.
pub type Figures = (usize, usize, u64, u64);

impl<V> Lru<V> {
    pub fn new(most: usize, entry_cost: usize) -> Self {
        let (turns, entries) = (HashMap::new(), BTreeMap::new());
        Self { most, entry_cost, turns, entries, next_turn: 0, used: 0, hits: 0, misses: 0 }
    }

    /// A value, which now is the one that was used last.
    pub fn get(&mut self, key: &[u8]) -> Option<&V> {
        let Some(turn) = self.turns.get_mut(key) else {
            self.misses += 1;
            return None;
        };
        self.hits += 1;
        self.next_turn += 1;
        let entry = self.entries.remove(&std::mem::replace(turn, self.next_turn))?;
        Some(&self.entries.entry(self.next_turn).or_insert(entry).1)
    }

    /// Keep a value; one that costs more than the whole cache may hold only drops the value before it.
    pub fn put(&mut self, key: &[u8], value: V, cost: usize) {
        self.drop(key);
        let cost = cost + self.entry_cost;
        if cost > self.most {
            return;
        }
        self.next_turn += 1;
        let key: Arc<[u8]> = key.into();
        self.turns.insert(key.clone(), self.next_turn);
        self.entries.insert(self.next_turn, (key, value, cost));
        self.used += cost;
        while self.used > self.most {
            let Some((_, (key, _, cost))) = self.entries.pop_first() else { break };
            self.turns.remove(&key);
            self.used -= cost;
        }
    }

    pub fn drop(&mut self, key: &[u8]) {
        let entry = self.turns.remove(key).and_then(|turn| self.entries.remove(&turn));
        self.used -= entry.map_or(0, |(_, _, cost)| cost);
    }

    pub fn clear(&mut self) {
        self.turns.clear();
        self.entries.clear();
        self.used = 0;
    }

    pub fn figures(&self) -> Figures {
        (self.used, self.entries.len(), self.hits, self.misses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_is_evicted() {
        let mut cache = Lru::new(30, 4);
        for (key, value) in [(&b"a"[..], 1), (b"b", 2), (b"c", 3)] {
            cache.put(key, value, 6);
        }
        assert_eq!(cache.get(b"a"), Some(&1));
        cache.put(b"d", 4, 6);
        assert_eq!([&b"b"[..], b"a", b"d"].map(|key| cache.get(key).copied()), [None, Some(1), Some(4)]);
        assert_eq!(cache.figures(), (30, 3, 3, 1));
        cache.put(b"a", 5, 1);
        assert_eq!(cache.get(b"a"), Some(&5));
        assert_eq!(cache.figures().0, 25);
    }

    #[test]
    fn a_value_that_is_too_large_only_drops_the_one_before_it() {
        let mut cache = Lru::new(30, 4);
        cache.put(b"a", 1, 6);
        cache.put(b"b", 2, 6);
        cache.put(b"a", 3, 27);
        assert_eq!([&b"a"[..], b"b"].map(|key| cache.get(key).copied()), [None, Some(2)]);
        cache.clear();
        assert_eq!(cache.get(b"b"), None);
        assert_eq!(cache.figures(), (0, 0, 1, 2));
        let mut nothing = Lru::new(0, 0);
        nothing.put(b"a", 1, 1);
        assert_eq!(nothing.get(b"a"), None);
    }
}
