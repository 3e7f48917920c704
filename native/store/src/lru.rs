//! A cache that forgets what was used least recently, bounded by the cost of its values.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

/// What a cache holds and how it was used; other threads read it at any time.
#[derive(Debug, Default)]
pub struct Counts {
    pub used: AtomicUsize,
    pub entries: AtomicUsize,
    pub hits: AtomicU64,
    pub misses: AtomicU64,
}

struct Entry<V> {
    turn: u64,
    cost: usize,
    value: V,
}

pub struct Lru<K, V> {
    /// Of all values together; one that costs more is not held.
    capacity: usize,
    entries: HashMap<K, Entry<V>>,
    /// By turn: the least recently used is the first.
    order: BTreeMap<u64, K>,
    next_turn: u64,
    used: usize,
    counts: Arc<Counts>,
}

impl<K: Hash + Eq + Clone, V> Lru<K, V> {
    pub fn new(capacity: usize) -> Self {
        let (entries, order) = (HashMap::new(), BTreeMap::new());
        Self { capacity, entries, order, next_turn: 0, used: 0, counts: Arc::default() }
    }

    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    fn count(&self) {
        self.counts.used.store(self.used, Ordering::Relaxed);
        self.counts.entries.store(self.entries.len(), Ordering::Relaxed);
    }

    pub fn contains<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: std::borrow::Borrow<Q>,
    {
        self.entries.contains_key(key)
    }

    /// The value of a key, which becomes the most recently used.
    pub fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: std::borrow::Borrow<Q>,
    {
        let Some(entry) = self.entries.get_mut(key) else {
            self.counts.misses.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        self.counts.hits.fetch_add(1, Ordering::Relaxed);
        if let Some(key) = self.order.remove(&entry.turn) {
            self.next_turn += 1;
            entry.turn = self.next_turn;
            self.order.insert(entry.turn, key);
        }
        Some(&mut entry.value)
    }

    /// Hold a value in place of the key's last one; it becomes the most recently used.
    pub fn put(&mut self, key: K, cost: usize, value: V) {
        self.take(&key);
        if cost <= self.capacity {
            self.next_turn += 1;
            self.order.insert(self.next_turn, key.clone());
            self.entries.insert(key, Entry { turn: self.next_turn, cost, value });
            self.used += cost;
            self.shrink();
        }
        self.count();
    }

    /// Give the value of a key another cost, because it has changed; the key becomes the most recently used.
    pub fn set_cost<Q: Hash + Eq + ?Sized>(&mut self, key: &Q, cost: usize)
    where
        K: std::borrow::Borrow<Q>,
    {
        let Some(entry) = self.entries.get_mut(key) else { return };
        self.used = self.used - entry.cost + cost;
        entry.cost = cost;
        if let Some(key) = self.order.remove(&entry.turn) {
            self.next_turn += 1;
            entry.turn = self.next_turn;
            self.order.insert(entry.turn, key);
        }
        if cost > self.capacity {
            self.take(key);
        }
        self.shrink();
        self.count();
    }

    fn shrink(&mut self) {
        while self.used > self.capacity {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.used -= self.entries.remove(&oldest).map_or(0, |entry| entry.cost);
        }
    }

    fn take<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
    {
        let entry = self.entries.remove(key)?;
        self.order.remove(&entry.turn);
        self.used -= entry.cost;
        Some(entry.value)
    }

    /// Remove a key, if it is held.
    pub fn drop<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
    {
        let taken = self.take(key);
        self.count();
        taken
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
        self.used = 0;
        self.count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first_and_what_is_too_large_is_not_held() {
        let mut cache = Lru::new(10);
        cache.put("a", 4, 1);
        cache.put("b", 4, 2);
        assert_eq!(cache.get("a"), Some(&mut 1));
        cache.put("c", 4, 3);
        assert_eq!(cache.get("b"), None);
        assert_eq!(cache.get("c"), Some(&mut 3));
        cache.put("a", 11, 4);
        assert_eq!((cache.contains("a"), cache.contains("c")), (false, true));
        let counts = cache.counts();
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        assert_eq!((read(&counts.hits), read(&counts.misses)), (2, 1));
        assert_eq!((counts.used.load(Ordering::Relaxed), counts.entries.load(Ordering::Relaxed)), (4, 1));
    }

    #[test]
    fn a_value_that_grows_pushes_others_out() {
        let mut cache = Lru::new(10);
        cache.put(1, 4, ());
        cache.put(2, 4, ());
        cache.set_cost(&1, 8);
        assert_eq!((cache.contains(&1), cache.contains(&2)), (true, false));
        cache.set_cost(&1, 11);
        assert!(!cache.contains(&1));
        cache.put(3, 1, ());
        assert_eq!((cache.drop(&3), cache.drop(&3)), (Some(()), None));
        cache.clear();
        assert_eq!(cache.counts().used.load(Ordering::Relaxed), 0);
    }
}
