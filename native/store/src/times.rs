//! Runs of taken milliseconds of a few rows: where a page goes whose own time is taken, as many before it.

use std::collections::HashMap;

use crate::format::RECORD_TIMESTAMP_STEP as STEP;

/// Range of times that is read at once.
const WINDOW: u64 = 1000 * STEP;
const MOST_ROWS: usize = 16;

/// The taken times `start <= time < end`, by checksum, ascending; `end` is free.
pub(crate) struct TakenRun {
    start: u64,
    end: u64,
    is_read: bool,
    at: HashMap<Box<[u8]>, Vec<u64>>,
}

impl TakenRun {
    fn new(start: u64) -> Self {
        Self { start, end: start, is_read: false, at: HashMap::new() }
    }

    fn add(&mut self, checksum: Box<[u8]>) {
        self.at.entry(checksum).or_default().push(self.end);
        self.end += STEP;
    }

    /// The first time, from this one on, that is free or has this checksum.
    ///
    /// `read` gives times and checksums of the records with `start <= time < end`.
    pub fn next<E>(
        &mut self,
        timestamp: u64,
        checksum: &[u8],
        mut read: impl FnMut(u64, u64) -> Result<Vec<(u64, Box<[u8]>)>, E>,
    ) -> Result<u64, E> {
        if timestamp > self.end || !self.is_read {
            self.is_read = true;
            'windows: loop {
                let end = self.end + WINDOW;
                let mut taken: HashMap<u64, Box<[u8]>> = read(self.end, end)?.into_iter().collect();
                while self.end < end {
                    let Some(checksum) = taken.remove(&self.end) else { break 'windows };
                    self.add(checksum);
                }
            }
        }
        let same = self.at.get(checksum).and_then(|times| times.iter().find(|time| **time >= timestamp));
        Ok(same.map_or(self.end, |time| self.end.min(*time)))
    }
}

/// Runs by row, the most recently used last; the caller verifies each answer.
#[derive(Default)]
pub(crate) struct TakenTimes {
    runs: Vec<(Box<[u8]>, TakenRun)>,
}

impl TakenTimes {
    fn remove(&mut self, row_key: &[u8]) -> Option<TakenRun> {
        let place = self.runs.iter().position(|(row, _)| **row == *row_key)?;
        Some(self.runs.remove(place).1)
    }

    /// Take out the run of a row that a time continues, or begin one.
    pub fn take(&mut self, row_key: &[u8], timestamp: u64) -> TakenRun {
        let run = self.remove(row_key).filter(|run| run.start <= timestamp && timestamp <= run.end + STEP);
        run.unwrap_or_else(|| TakenRun::new(timestamp))
    }

    pub fn put(&mut self, row_key: &[u8], run: TakenRun) {
        if self.runs.len() == MOST_ROWS {
            self.runs.remove(0);
        }
        self.runs.push((row_key.into(), run));
    }

    /// A commit has changed the captures of a row: time and checksum of those that it has set.
    pub fn follow(&mut self, row_key: &[u8], set: &[(u64, Box<[u8]>)], deletes: bool, is_sure: bool) {
        let Some(mut run) = self.remove(row_key).filter(|_| !deletes) else { return };
        for (timestamp, checksum) in set {
            if *timestamp < run.end {
                continue;
            }
            if !is_sure || *timestamp != run.end {
                return;
            }
            run.add(checksum.clone());
        }
        self.put(row_key, run);
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub fn clear(&mut self) {
        self.runs.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(times: &mut TakenTimes, taken: &[(u64, u8)], at: u64, checksum: u8, reads: &mut usize) -> u64 {
        let mut run = times.take(b"row", at);
        let read = |start, end| {
            *reads += 1;
            let within = taken.iter().filter(|(time, _)| (start..end).contains(time));
            Ok::<_, ()>(within.map(|(time, checksum)| (*time, Box::from([*checksum]))).collect())
        };
        let found = run.next(at, &[checksum], read).expect("reads");
        times.put(b"row", run);
        found
    }

    #[test]
    fn a_run_is_read_once_and_leads_to_its_end_or_to_the_same_body() {
        let (mut times, mut reads) = (TakenTimes::default(), 0);
        let taken: Vec<(u64, u8)> = (0..1500).map(|number| (number * STEP, (number % 250) as u8)).collect();
        assert_eq!(next(&mut times, &taken, 0, 255, &mut reads), 1500 * STEP);
        assert_eq!(next(&mut times, &taken, 3 * STEP, 2, &mut reads), 252 * STEP);
        assert_eq!(reads, 2);
        times.follow(b"row", &[(1500 * STEP, [9].into())], false, true);
        assert_eq!(next(&mut times, &taken, 0, 255, &mut reads), 1501 * STEP);
        assert_eq!(reads, 2, "an own commit extends the run");
    }

    #[test]
    fn what_is_not_sure_is_read_again() {
        let taken = [(0, 1)];
        for (set, deletes, is_sure) in [(STEP, false, false), (3 * STEP, false, true), (STEP, true, true)] {
            let (mut times, mut reads) = (TakenTimes::default(), 0);
            next(&mut times, &taken, 0, 9, &mut reads);
            times.follow(b"row", &[(set, [9].into())], deletes, is_sure);
            next(&mut times, &taken, 0, 9, &mut reads);
            assert_eq!(reads, 2);
        }
    }

    #[test]
    fn few_rows_are_held() {
        let (mut times, mut reads) = (TakenTimes::default(), 0);
        next(&mut times, &[], 0, 9, &mut reads);
        for number in 0..MOST_ROWS as u8 {
            let run = times.take(&[number], 0);
            times.put(&[number], run);
        }
        next(&mut times, &[], 0, 9, &mut reads);
        assert_eq!((times.runs.len(), reads), (MOST_ROWS, 2));
    }
}
