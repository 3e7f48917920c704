//! The LRU cache of `docstore.storage.cache`: values of Python by key, bounded by their cost.
//!
//! Keys are immutable values without code of their own, such as bytes.  Nothing here calls Python or frees a value while
//! the cache is borrowed: both may let another thread run, which may ask the same cache.

use std::collections::BTreeMap;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Key, value and cost.
type Entry = (Py<PyAny>, Py<PyAny>, usize);

#[pyclass(module = "docstore.dedup.docstore_native")]
pub struct LruCache {
    capacity: usize,
    cost: Option<Py<PyAny>>,
    entry_cost: usize,
    /// Turn of each key.
    turns: Py<PyDict>,
    /// By turn: the least recently used is the first.
    entries: BTreeMap<u64, Entry>,
    next_turn: u64,
    #[pyo3(get)]
    used: usize,
    #[pyo3(get)]
    hits: u64,
    #[pyo3(get)]
    misses: u64,
}

impl LruCache {
    /// Take an entry out; its key stays in `turns`.
    fn take(&mut self, key: &Bound<'_, PyAny>) -> PyResult<Option<Entry>> {
        let Some(turn) = self.turns.bind(key.py()).get_item(key)? else { return Ok(None) };
        let entry = self.entries.remove(&turn.extract()?);
        self.used -= entry.as_ref().map_or(0, |(_, _, cost)| *cost);
        Ok(entry)
    }

    fn insert(&mut self, python: Python<'_>, entry: Entry) -> PyResult<()> {
        self.next_turn += 1;
        self.turns.bind(python).set_item(&entry.0, self.next_turn)?;
        self.used += entry.2;
        self.entries.insert(self.next_turn, entry);
        Ok(())
    }
}

#[pymethods]
impl LruCache {
    #[new]
    #[pyo3(signature = (capacity, cost = None, entry_cost = 0))]
    fn new(python: Python<'_>, capacity: usize, cost: Option<Py<PyAny>>, entry_cost: usize) -> Self {
        let (turns, entries) = (PyDict::new(python).unbind(), BTreeMap::new());
        Self { capacity, cost, entry_cost, turns, entries, next_turn: 0, used: 0, hits: 0, misses: 0 }
    }

    fn __len__(&self) -> usize {
        self.entries.len()
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.turns.bind(key.py()).contains(key)
    }

    pub fn get(&mut self, key: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let Some(entry) = self.take(key)? else {
            self.misses += 1;
            return Ok(None);
        };
        self.hits += 1;
        let value = entry.1.clone_ref(key.py());
        self.insert(key.py(), entry)?;
        Ok(Some(value))
    }

    fn put(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>, value: Py<PyAny>) -> PyResult<()> {
        let python = slf.py();
        let mut cost = 1;
        let cost_of = slf.borrow().cost.as_ref().map(|cost| cost.clone_ref(python));
        if let Some(cost_of) = cost_of {
            cost = cost_of.call1(python, (&value,))?.extract::<usize>(python)? + slf.borrow().entry_cost;
        }
        let mut this = slf.borrow_mut();
        let mut freed = Vec::from_iter(this.take(key)?);
        if cost <= this.capacity {
            this.insert(python, (key.clone().unbind(), value, cost))?;
        } else if !freed.is_empty() {
            this.turns.bind(python).del_item(key)?;
        }
        while this.used > this.capacity {
            let Some((_, oldest)) = this.entries.pop_first() else { break };
            this.turns.bind(python).del_item(&oldest.0)?;
            this.used -= oldest.2;
            freed.push(oldest);
        }
        drop(this); // before what is freed
        Ok(())
    }

    fn drop(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut this = slf.borrow_mut();
        let freed = this.take(key)?;
        if freed.is_some() {
            this.turns.bind(slf.py()).del_item(key)?;
        }
        drop(this);
        drop(freed);
        Ok(())
    }

    fn clear(slf: &Bound<'_, Self>) {
        let mut this = slf.borrow_mut();
        this.used = 0;
        let freed = std::mem::take(&mut this.entries);
        let turns = std::mem::replace(&mut this.turns, PyDict::new(slf.py()).unbind());
        drop(this);
        drop((freed, turns));
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.cost)?;
        self.entries.values().try_for_each(|(_, value, _)| visit.call(value))
    }

    fn __clear__(&mut self) {
        self.cost = None;
        self.entries.clear();
    }
}
