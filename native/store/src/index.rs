//! The index of a store: committed postings in a few sorted runs, oldest first, and in a table in memory (the memtable).
//!
//! A small LSM tree.  Neighbouring runs of similar size are merged; the caller writes the bytes of flushes and merges to
//! files, and hands these over.  Each run keeps the first `limit` texts of a key, so results do not depend on merges.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use docstore_kernel::postings::{self, mix_key, Answer, Asked, Layer, Recent};
use docstore_kernel::ranking::Looks;
use docstore_kernel::sketch::BANDS;
use docstore_kernel::slices::{Damaged, LIST_LIMIT, PLACE_BITS};

use crate::check::Query;
use crate::format::RUN_TEXT_GONE;
use crate::run::{Fault, Run, RunParts, Span};

/// The runs of a store and its memtable.
pub struct Index<Bytes> {
    limit: usize,
    /// The memtable is flushed at so many texts, or so many postings, however few texts they are of.
    flush_texts: usize,
    flush_postings: usize,
    /// Runs of one level that are merged into one of the next.
    fan_in: usize,
    runs: Vec<Arc<Run<Bytes>>>,
    recent: Recent,
    /// The first group of the memtable.  Groups before it are in runs.
    end: u64,
    next: u64,
    /// Sources of each merge that is being written.
    merges: HashMap<Span, Vec<Span>>,
    /// Texts that stay, ascending, while runs of groups before `prune_end` are rewritten without others; `pruned` has
    /// the runs whose rewriting has started.
    live: Option<Arc<Vec<u64>>>,
    prune_end: u64,
    pruned: HashSet<Span>,
    dropped: u64,
}

impl<Bytes: AsRef<[u8]>> Index<Bytes> {
    /// An index without postings.
    pub fn new(limit: usize, flush_texts: usize, flush_postings: usize, fan_in: usize) -> Result<Self, Fault> {
        if fan_in < 2 || flush_texts < 1 || flush_postings < 1 || !(1..=LIST_LIMIT).contains(&limit) {
            return Err(Fault::Invalid(format!(
                "fan_in {fan_in} must be at least 2, flush_texts {flush_texts} and flush_postings {flush_postings} at \
                 least 1 and limit {limit} from 1 to {LIST_LIMIT}"
            )));
        }
        Ok(Self {
            limit,
            flush_texts,
            flush_postings,
            fan_in,
            runs: Vec::new(),
            recent: Recent::default(),
            end: 0,
            next: 0,
            merges: HashMap::new(),
            live: None,
            prune_end: 0,
            pruned: HashSet::new(),
            dropped: 0,
        })
    }

    /// Groups below this number are in runs.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The number of the next group.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The runs that look-ups read, oldest first.
    pub fn runs(&self) -> &[Arc<Run<Bytes>>] {
        &self.runs
    }

    /// What no run has.
    pub fn recent(&self) -> &Recent {
        &self.recent
    }

    /// Whether the memtable has to be flushed.
    pub fn is_full(&self) -> bool {
        self.recent.texts().len() >= self.flush_texts || self.recent.len() >= self.flush_postings
    }

    pub fn is_pruning(&self) -> bool {
        self.live.is_some()
    }

    /// Whether merges or rewrites are being written.
    pub fn is_merging(&self) -> bool {
        !self.merges.is_empty()
    }

    /// Postings that were pruned so far.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Open the next run of a store; false if the runs before it cover it: its merge was finished.
    pub fn open(&mut self, span: Span, buffer: Bytes) -> Result<bool, Fault> {
        if span.1 <= self.end {
            return Ok(false);
        }
        if span.0 != self.end {
            return Err(Fault::Corrupt {
                message: "a run of postings is missing".into(),
                offset: None,
                expected: format!("one from group {}", self.end),
                found: format!("group {}", span.0),
            });
        }
        self.runs.push(Arc::new(Run::open(span, buffer)?));
        (self.end, self.next) = (span.1, span.1);
        Ok(true)
    }

    /// Take a committed group into the memtable; gives the number of its texts.
    ///
    /// `group` is larger than that of the last one; groups between them failed.  `cells` are those of its row of the log.
    pub fn add(&mut self, group: u64, cells: &[impl AsRef<[u8]>]) -> Result<usize, Fault> {
        if group < self.next {
            let last = self.next - 1;
            return Err(Fault::Invalid(format!("group {group} does not follow {last}; add each once, in order")));
        }
        let before = self.recent.texts().len();
        for cell in cells {
            self.recent.replay(cell.as_ref()).map_err(|_| Fault::Corrupt {
                message: "a cell of the log of postings ends inside a text".into(),
                offset: None,
                expected: String::new(),
                found: String::new(),
            })?;
        }
        self.next = group + 1;
        Ok(self.recent.texts().len() - before)
    }

    /// The run of the memtable, to be written and adopted before another group is added; None if it has no group.
    pub fn flush(&self) -> Result<Option<RunParts<Bytes>>, Fault> {
        let span = (self.end, self.next);
        (self.next > self.end).then(|| RunParts::of_recent(span, self.limit, &self.recent)).transpose()
    }

    /// The power of `fan_in` for the size of a run in full memtables.
    fn level(&self, run: &Run<Bytes>) -> u32 {
        let size = (run.texts / self.flush_texts as u64).max(run.postings / self.flush_postings as u64);
        size.checked_ilog(self.fan_in as u64).unwrap_or(0)
    }

    /// Merges to begin: of neighbours whose oldest is not larger than the largest of the others.
    ///
    /// While texts are pruned, runs are rewritten without them instead.
    pub fn merge(&mut self) -> Result<Vec<RunParts<Bytes>>, Fault> {
        let mut begun = Vec::new();
        let mut busy: HashSet<Span> = self.merges.values().flatten().copied().collect();
        if let Some(live) = &self.live {
            for run in &self.runs {
                if run.span.1 <= self.prune_end && !busy.contains(&run.span) && self.pruned.insert(run.span) {
                    begun.push(RunParts::pruned(self.limit, run.clone(), live.clone()));
                    self.merges.insert(run.span, vec![run.span]);
                }
            }
            if !self.merges.is_empty() {
                return Ok(begun);
            }
            self.live = None;
        }
        for sources in self.runs.windows(self.fan_in).rev() {
            let levels: Vec<u32> = sources.iter().map(|run| self.level(run)).collect();
            let spans: Vec<Span> = sources.iter().map(|run| run.span).collect();
            let is_small = sources.iter().map(|run| run.texts).sum::<u64>() <= 1 << PLACE_BITS;
            let is_due = levels[1..].iter().any(|&level| levels[0] <= level);
            if is_due && is_small && !spans.iter().any(|span| busy.contains(span)) {
                let span = (spans[0].0, spans[spans.len() - 1].1);
                begun.push(RunParts::merged(span, self.limit, sources.to_vec())?);
                busy.extend(&spans);
                self.merges.insert(span, spans);
            }
        }
        Ok(begun)
    }

    /// Take a run that was written from `flush` or `merge`; gives the runs that it replaces, whose files may go.
    ///
    /// A run that is rewritten under its own name replaces its file, and is not among them.
    pub fn adopt(&mut self, span: Span, buffer: Bytes) -> Result<Vec<Arc<Run<Bytes>>>, Fault> {
        let run = Arc::new(Run::open(span, buffer)?);
        let Some(sources) = self.merges.remove(&span) else {
            if span != (self.end, self.next) {
                let (first, end) = span;
                return Err(Fault::Invalid(format!("no run of groups {first} to {end} is being made")));
            }
            self.runs.push(run);
            self.end = self.next;
            self.recent = Recent::default();
            return Ok(Vec::new());
        };
        let at = self.runs.iter().position(|run| run.span == sources[0]);
        let at = at.ok_or_else(|| Fault::Invalid("the sources of a merge are gone".into()))?;
        if sources[0] == span {
            self.dropped += self.runs[at].postings - run.postings;
        }
        let old = self.runs.splice(at..at + sources.len(), [run]);
        Ok(old.filter(|run| run.span != span).collect())
    }

    /// Begin to rewrite the runs without removed texts: `merge` gives them, and no merges until all are adopted.
    ///
    /// `live` are the numbers of texts that stay, ascending; texts of groups that are not in runs yet stay as well.
    pub fn prune(&mut self, live: Vec<u64>) {
        self.live = Some(Arc::new(live));
        self.prune_end = self.end;
        self.pruned.clear();
    }

    fn layer(&self, skips_damage: bool) -> Result<Layer<'_>, Damaged> {
        let runs = self.runs.iter().map(|run| run.view()).collect::<Result<_, _>>()?;
        Ok(Layer { runs, recent: Some(&self.recent), skips_damage })
    }

    /// The committed postings of another index, then those of this one, then those of a batch.
    fn layers<'a>(
        &'a self,
        lower: Option<&'a Self>,
        batch: Option<&'a Recent>,
        skips_damage: bool,
    ) -> Result<Vec<Layer<'a>>, Damaged> {
        let mut layers = lower.map(|lower| lower.layer(skips_damage)).transpose()?.into_iter().collect::<Vec<_>>();
        layers.push(self.layer(skips_damage)?);
        layers.extend(batch.map(|batch| Layer { recent: Some(batch), ..Layer::default() }));
        Ok(layers)
    }

    /// Look up keys that are not mixed, those of a batch last: which key, and text number, of each posting.
    pub fn find(
        &self,
        keys: Vec<u64>,
        batch: Option<&Recent>,
        lower: Option<&Self>,
    ) -> Result<(Vec<u64>, Vec<u64>), Damaged> {
        let mixed: Vec<u64> = keys.into_iter().map(mix_key).collect();
        postings::find(&self.layers(lower, batch, false)?, &mixed, self.limit)
    }

    /// The chains of a page looked up, and what they lead to ranked; removed texts are left out.
    ///
    /// `skips_damage`: go on without the postings that a damaged run cannot give.
    pub fn propose(
        &self,
        asked: Asked<'_>,
        looks: Looks,
        batch: Option<&Recent>,
        lower: Option<&Self>,
        skips_damage: bool,
    ) -> Result<Answer, Damaged> {
        let layers = self.layers(lower, batch, skips_damage)?;
        let mut found = postings::propose(&layers, asked, self.limit, looks)?;
        found.proposal.numbers.retain(|&number| number != RUN_TEXT_GONE);
        Ok(found)
    }

    /// Numbers of the rows whose texts no look-up finds, though their buckets have room for them.
    pub fn lacking(&self, queries: &[Query], looks: Looks) -> Result<Vec<usize>, Damaged> {
        let layers = self.layers(None, None, false)?;
        let mut rows = Vec::new();
        for query in queries {
            if self.is_lacking(&layers, query, looks)? {
                rows.push(query.row);
            }
        }
        Ok(rows)
    }

    fn is_lacking(&self, layers: &[Layer<'_>], query: &Query, looks: Looks) -> Result<bool, Damaged> {
        let Query { band_keys, fingerprints, runs, own, .. } = query;
        for key in band_keys.iter().take(BANDS) {
            if postings::find(layers, &[mix_key(*key)], self.limit)?.1.contains(own) {
                return Ok(false); // nearly always under the first one
            }
        }
        let asked = Asked { band_keys, fingerprints, runs, own: *own };
        let found = postings::propose(layers, asked, self.limit, looks)?;
        Ok(!found.proposal.holds_own && !found.is_crowded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 4;

    fn log(texts: impl Iterator<Item = u64>) -> Vec<Vec<u8>> {
        let mut recent = Recent::default();
        for text in texts {
            assert!(recent.post(text, &[mix_key(text), mix_key(7)]));
        }
        recent.log(0, 1024)
    }

    fn written(mut parts: RunParts<Vec<u8>>) -> Result<(Span, Vec<u8>), Fault> {
        let mut bytes = Vec::new();
        while let Some(part) = parts.advance()? {
            bytes.extend(part);
        }
        Ok((parts.span, bytes))
    }

    fn adopt_all(index: &mut Index<Vec<u8>>, parts: Vec<RunParts<Vec<u8>>>) -> Vec<Span> {
        let mut gone = Vec::new();
        for one in parts {
            let (span, bytes) = written(one).expect("sound runs");
            gone.extend(index.adopt(span, bytes).expect("it was begun").iter().map(|run| run.span));
        }
        gone
    }

    /// An index of so many runs of two texts each.
    fn made(runs: u64) -> Index<Vec<u8>> {
        let mut index = Index::new(LIMIT, 2, 1 << 17, 2).expect("fit");
        for group in 0..runs {
            let texts = 1 + 2 * group..3 + 2 * group;
            assert_eq!(index.add(group, &log(texts)), Ok(2));
            assert!(index.is_full());
            let parts = index.flush().expect("fits").expect("a group");
            adopt_all(&mut index, vec![parts]);
        }
        index
    }

    fn texts_of(index: &Index<Vec<u8>>, key: u64) -> Vec<u64> {
        index.find(vec![key], None, None).expect("sound").1
    }

    #[test]
    fn a_look_up_gives_the_same_before_and_after_a_merge() {
        let mut index = made(4);
        let before: Vec<_> = (0..9).map(|key| texts_of(&index, key)).collect();
        assert_eq!(before[7], [1, 2, 3, 4], "the first texts of a key");
        let merges = index.merge().expect("they fit");
        assert!(index.is_merging());
        assert!(index.merge().expect("they fit").is_empty(), "runs that are being merged are busy");
        let gone = adopt_all(&mut index, merges);
        assert_eq!((gone.len(), index.runs().len()), (4, 2));
        assert_eq!((0..9).map(|key| texts_of(&index, key)).collect::<Vec<_>>(), before);
        let again = index.merge().expect("they fit");
        adopt_all(&mut index, again);
        assert_eq!((index.runs().len(), index.runs()[0].span), (1, (0, 4)));
        assert_eq!((0..9).map(|key| texts_of(&index, key)).collect::<Vec<_>>(), before);
    }

    #[test]
    fn a_batch_and_a_lower_index_are_looked_up_beside_the_runs() {
        let (lower, upper) = (made(1), made(0));
        let mut batch = Recent::default();
        assert!(batch.post(9, &[mix_key(7)]));
        let (owners, texts) = upper.find(vec![5, 7], Some(&batch), Some(&lower)).expect("sound");
        assert_eq!((owners, texts), (vec![1, 1, 1], vec![1, 2, 9]));
    }

    #[test]
    fn pruning_drops_removed_texts_but_leaves_full_buckets_full() {
        let mut index = made(1);
        index.prune(vec![2]);
        assert!(index.is_pruning());
        let rewritten = index.merge().expect("they fit");
        assert_eq!(adopt_all(&mut index, rewritten), []);
        assert_eq!((texts_of(&index, 7), texts_of(&index, 1)), (vec![2], vec![]));
        assert!(index.dropped() > 0);
        assert!(index.merge().expect("they fit").is_empty());
        assert!(!index.is_pruning());
    }

    #[test]
    fn groups_and_runs_come_in_their_order() {
        let mut index = made(1);
        assert!(matches!(index.add(0, &log(5..6)), Err(Fault::Invalid(_))));
        assert!(matches!(index.add(3, &[&b"\x01\x02"[..]]), Err(Fault::Corrupt { .. })));
        assert_eq!(index.add(3, &log(5..6)), Ok(1), "groups between them failed");
        assert!(matches!(index.adopt((7, 9), Vec::new()), Err(Fault::Corrupt { .. })));
        let (span, bytes) = written(index.flush().expect("fits").expect("a group")).expect("sound");
        let mut opened = Index::new(LIMIT, 2, 1 << 17, 2).expect("fit");
        assert!(matches!(opened.open(span, bytes.clone()), Err(Fault::Corrupt { .. })), "a run before it is missing");
        opened.end = span.0;
        assert_eq!(opened.open(span, bytes.clone()), Ok(true));
        assert_eq!(opened.open(span, bytes), Ok(false));
        assert_eq!((opened.end(), opened.next()), (4, 4));
        assert!(Index::<Vec<u8>>::new(0, 1, 1, 2).is_err());
    }

    #[test]
    fn a_changed_byte_of_a_short_run_and_another_name_are_found_when_it_is_opened() {
        let (span, bytes) = written(made(0).flush_of(5)).expect("sound");
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Run::open(span, changed).is_err(), "byte {at}");
        }
        assert!(Run::open((span.0, span.1 + 1), &bytes[..]).is_err());
        assert!(matches!(Run::open(span, &bytes[..20]), Err(Fault::Corrupt { .. })));
    }

    impl Index<Vec<u8>> {
        fn flush_of(mut self, texts: u64) -> RunParts<Vec<u8>> {
            self.add(0, &log(1..1 + texts)).expect("in order");
            self.flush().expect("fits").expect("a group")
        }
    }
}
