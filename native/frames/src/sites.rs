//! Dictionaries of sites and tablets, sampled from the values that are written.
//!
//! A dictionary is raw content: pieces of the values at even distances (relative Lempel-Ziv: Hoobin, Puglisi, Zobel
//! 2011), which measured better here than a trained one.  A *scope* is what one dictionary serves, in one column: a site
//! (host and first path segment of the row key), or a whole tablet.  A site's first dictionary is its first pages;
//! larger ones of pieces follow as the site grows (`Limits::stages`).  A tablet's dictionary serves the sites that are
//! too small for one.  If its values compress much worse than before, because other sites came, it is sampled again.
//!
//! Preparing a dictionary costs as much as writing several pages.  So each written value earns a part of that cost, and
//! a value whose dictionary is neither cached nor paid for uses its tablet's, or none.  This bounds the cost if pages of
//! many sites alternate.
//!
//! Files, rows and the cache of prepared dictionaries are the caller's (`Shelf`).

use std::collections::{BTreeMap, HashMap};

/// Bytes of a piece of a sample.
pub const PIECE_BYTES: usize = 1024;
pub const LARGEST_DICTIONARY_BYTES: usize = 1 << 20;

/// The checksum that names a dictionary.
pub type Name = [u8; 16];

/// A sample of a stream of values: at first whole values, then pieces at even distances.
#[derive(Default)]
pub struct Sample {
    seen_bytes: usize,
    kept: Vec<u8>,
    /// End of each value or piece in `kept`.
    ends: Vec<usize>,
    /// Distance of pieces; 0 while whole values are kept.
    stride_bytes: usize,
    /// Place of the next piece in the stream.
    next: usize,
}

impl Sample {
    /// Sample the next value.
    pub fn take(&mut self, raw: &[u8]) {
        let before = self.seen_bytes;
        self.seen_bytes += raw.len();
        if self.stride_bytes == 0 {
            self.keep(raw);
            return;
        }
        while self.next < self.seen_bytes {
            let start = self.next.saturating_sub(before);
            self.keep(&raw[start..raw.len().min(start + PIECE_BYTES)]);
            self.next += self.stride_bytes;
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        self.kept.extend_from_slice(piece);
        self.ends.push(self.kept.len());
    }

    /// The whole sample, in order; only pieces of it if a long value made it larger than a dictionary.
    pub fn content(&self) -> Vec<u8> {
        let parts = self.kept.len().div_ceil(LARGEST_DICTIONARY_BYTES);
        if parts <= 1 {
            return self.kept.clone();
        }
        self.kept.chunks(parts * PIECE_BYTES).flat_map(|part| &part[..part.len().min(PIECE_BYTES)]).copied().collect()
    }

    /// Keep only pieces at this distance, now and for further values.
    pub fn widen(&mut self, stride_pieces: usize) {
        let stride_bytes = stride_pieces * PIECE_BYTES;
        let had_pieces = self.stride_bytes > 0;
        let step = if had_pieces { stride_bytes / self.stride_bytes } else { 1 };
        let before = std::mem::replace(self, Self { stride_bytes, ..Self::default() });
        let spans = before.ends.iter().scan(0, |start, &end| Some((std::mem::replace(start, end), end)));
        for (start, end) in spans.step_by(step) {
            let piece = &before.kept[start..end];
            if had_pieces {
                self.keep(piece);
            } else {
                self.take(piece);
            }
        }
        if had_pieces {
            (self.seen_bytes, self.next) = (before.seen_bytes, self.ends.len() * stride_bytes);
        }
    }
}

/// Bounds of the sites of a store.
pub struct Limits {
    /// After so many bytes of values, a scope gets a dictionary of one piece in so many; the first is of whole values.
    pub stages: Vec<(usize, usize)>,
    pub most_scopes: usize,
    pub most_sample_bytes: usize,
    /// Values that are written for each dictionary that is prepared again.
    pub values_a_load: usize,
    /// Most values that count for that.
    pub most_earned: usize,
    /// The gain of a dictionary is measured over so many bytes of values.
    pub gain_bytes: usize,
    /// A dictionary is replaced if its values take this many times the bytes that they took at first.
    pub faded: f64,
}

/// A range of row keys.
#[derive(Clone)]
pub struct Tablet {
    pub number: u64,
    pub start: Vec<u8>,
    /// Exclusive; None for no bound.
    pub end: Option<Vec<u8>>,
}

impl Tablet {
    fn has(&self, row_key: &[u8]) -> bool {
        self.start[..] <= *row_key && self.end.as_ref().is_none_or(|end| *row_key < end[..])
    }
}

/// What the caller keeps of dictionaries.
pub trait Shelf {
    /// A dictionary that is prepared.
    type Dictionary;
    type Error;

    /// The stage and the dictionary that the row of a scope names.
    fn stored(&mut self, scope: &[u8]) -> Result<Option<(usize, Name)>, Self::Error>;
    /// The tablet of a row.
    fn tablet(&mut self, row_key: &[u8]) -> Result<Tablet, Self::Error>;
    /// Write a dictionary; `is_last`: the scope gets no further one.
    fn write(&mut self, content: &[u8], is_last: bool) -> Result<Name, Self::Error>;
    /// A dictionary, if it is prepared.
    fn prepared(&mut self, name: &Name) -> Result<Option<Self::Dictionary>, Self::Error>;
    /// Prepare a dictionary; None if it cannot be read.
    fn prepare(&mut self, name: &Name) -> Result<Option<Self::Dictionary>, Self::Error>;
}

/// The dictionary of a scope, the sample for its next one, and its recent gain.
struct Scope {
    dictionary: Option<Name>,
    stage: usize,
    sample: Option<Sample>,
    raw_bytes: usize,
    payload_bytes: usize,
    best_share: Option<f64>,
    /// When it was looked up.
    turn: u64,
}

impl Scope {
    fn sample_bytes(&self) -> usize {
        self.sample.as_ref().map_or(0, |sample| sample.kept.len())
    }

    /// Sample for a first dictionary again.
    fn start_again(&mut self) {
        (self.stage, self.sample, self.best_share) = (0, Some(Sample::default()), None);
        (self.raw_bytes, self.payload_bytes) = (0, 0);
    }
}

/// Chooses the dictionary of each value, and makes new ones from the values.
pub struct Sites {
    limits: Limits,
    scopes: HashMap<Vec<u8>, Scope>,
    /// Their names by when they were looked up.
    by_turn: BTreeMap<u64, Vec<u8>>,
    turn: u64,
    sample_bytes: usize,
    earned: usize,
    /// The last site, and what all its row keys begin with: most values are of the site of the one before.
    site: Vec<u8>,
    site_start: Vec<u8>,
    /// Scopes of that site that were looked up.
    of_site: Vec<Vec<u8>>,
    /// The last tablet of the group at work: tablets change between groups.
    tablet: Option<Tablet>,
    changed: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Sites {
    pub fn new(limits: Limits) -> Self {
        Self {
            earned: limits.most_earned,
            limits,
            scopes: HashMap::new(),
            by_turn: BTreeMap::new(),
            turn: 0,
            sample_bytes: 0,
            site: Vec::new(),
            site_start: Vec::new(),
            of_site: Vec::new(),
            tablet: None,
            changed: Vec::new(),
        }
    }

    /// Bytes of all samples.
    pub fn sample_bytes(&self) -> usize {
        self.sample_bytes
    }

    /// Begin a group.
    pub fn begin(&mut self) {
        self.tablet = None;
    }

    /// The dictionary for a value of a column of a row: its site's, else its tablet's, else none.
    ///
    /// `samples`: the value is a sample for the next dictionaries; else the caller may call `sample` for it later.
    pub fn choose<S: Shelf>(
        &mut self,
        shelf: &mut S,
        (row_key, column): (&[u8], &[u8]),
        raw: &[u8],
        samples: bool,
    ) -> Result<Option<S::Dictionary>, S::Error> {
        let site = self.site_scope(shelf, row_key, column)?;
        let mut chosen = self.prepared(shelf, &site)?;
        if chosen.is_none() {
            let tablet = self.tablet_scope(shelf, row_key, column)?;
            chosen = self.prepared(shelf, &tablet)?;
        }
        if samples {
            self.sample(shelf, (row_key, column), raw)?;
        }
        Ok(chosen)
    }

    /// Sample a value for its site; for its tablet too while the site has no dictionary.
    pub fn sample<S: Shelf>(
        &mut self,
        shelf: &mut S,
        (row_key, column): (&[u8], &[u8]),
        raw: &[u8],
    ) -> Result<(), S::Error> {
        self.earned = self.limits.most_earned.min(self.earned + 1);
        let site = self.site_scope(shelf, row_key, column)?;
        self.take(shelf, &site, raw)?;
        if self.scopes.get(&site).is_none_or(|scope| scope.dictionary.is_none()) {
            let tablet = self.tablet_scope(shelf, row_key, column)?;
            self.take(shelf, &tablet, raw)?;
        }
        Ok(())
    }

    /// Measure what a dictionary saves, by a value that was encoded with it; if that has faded, begin a new one.
    pub fn note_gain<S: Shelf>(
        &mut self,
        shelf: &mut S,
        (row_key, column): (&[u8], &[u8]),
        (raw_bytes, payload_bytes): (usize, usize),
        dictionary: &Name,
    ) -> Result<(), S::Error> {
        let uses =
            |sites: &Self, name: &[u8]| sites.scopes.get(name).is_some_and(|one| one.dictionary == Some(*dictionary));
        let mut name = self.site_scope(shelf, row_key, column)?;
        if !uses(self, &name) {
            name = self.tablet_scope(shelf, row_key, column)?;
        }
        if !uses(self, &name) {
            return Ok(());
        }
        let Some(scope) = self.scopes.get_mut(&name) else { return Ok(()) };
        scope.raw_bytes += raw_bytes;
        scope.payload_bytes += payload_bytes;
        if scope.raw_bytes >= self.limits.gain_bytes {
            let share = scope.payload_bytes as f64 / scope.raw_bytes as f64;
            (scope.raw_bytes, scope.payload_bytes) = (0, 0);
            if scope.best_share.is_some_and(|best| share > self.limits.faded * best) && scope.sample.is_none() {
                scope.start_again();
            } else {
                scope.best_share = Some(scope.best_share.map_or(share, |best| best.min(share)));
            }
        }
        Ok(())
    }

    /// The rows of scopes that got dictionaries since the last call: name of the scope; stage and name of the dictionary.
    pub fn take_changed(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        std::mem::take(&mut self.changed)
    }

    /// Forget all scopes: others have changed which dictionaries are in use.
    pub fn forget(&mut self) {
        self.scopes.clear();
        self.by_turn.clear();
        self.of_site.clear();
        self.sample_bytes = 0;
    }

    /// The scope of a row's site, looked up if the value before was of another site.
    fn site_scope<S: Shelf>(&mut self, shelf: &mut S, row_key: &[u8], column: &[u8]) -> Result<Vec<u8>, S::Error> {
        if self.site_start.is_empty() || !row_key.starts_with(&self.site_start) {
            let (site, start) = site_of(row_key);
            (self.site, self.site_start) = (site, start.to_vec());
            self.of_site.clear();
        }
        let name = [&self.site, column].concat();
        if !self.of_site.contains(&name) {
            self.look_up(shelf, &name)?;
            self.of_site.push(name.clone());
        }
        Ok(name)
    }

    fn tablet_scope<S: Shelf>(&mut self, shelf: &mut S, row_key: &[u8], column: &[u8]) -> Result<Vec<u8>, S::Error> {
        let tablet = match self.tablet.take().filter(|tablet| tablet.has(row_key)) {
            Some(tablet) => tablet,
            None => shelf.tablet(row_key)?,
        };
        let name = [b"tablet ", &tablet.number.to_be_bytes()[..], column].concat();
        self.tablet = Some(tablet);
        self.look_up(shelf, &name)?;
        Ok(name)
    }

    /// Make a scope the one that was used last; it is made from its row if it is not known.
    fn look_up<S: Shelf>(&mut self, shelf: &mut S, name: &[u8]) -> Result<(), S::Error> {
        self.turn += 1;
        if let Some(scope) = self.scopes.get_mut(name) {
            let name = self.by_turn.remove(&std::mem::replace(&mut scope.turn, self.turn));
            self.by_turn.extend(name.map(|name| (self.turn, name)));
            return Ok(());
        }
        let stored = shelf.stored(name)?;
        let (stage, dictionary) = stored.map_or((0, None), |(stage, name)| (stage, Some(name)));
        let sample = (stage == 0).then(Sample::default);
        let (raw_bytes, payload_bytes, best_share, turn) = (0, 0, None, self.turn);
        let scope = Scope { dictionary, stage, sample, raw_bytes, payload_bytes, best_share, turn };
        self.scopes.insert(name.to_vec(), scope);
        self.by_turn.insert(self.turn, name.to_vec());
        self.evict();
        Ok(())
    }

    /// Drop the scopes that were used longest ago, until all that are left have room.
    fn evict(&mut self) {
        while self.scopes.len() > self.limits.most_scopes
            || (self.sample_bytes > self.limits.most_sample_bytes && self.scopes.len() > 1)
        {
            let Some((_, name)) = self.by_turn.pop_first() else { return };
            self.sample_bytes -= self.scopes.remove(&name).map_or(0, |scope| scope.sample_bytes());
            self.of_site.clear();
        }
    }

    /// The dictionary of a scope that has one, if it is prepared, or if values have earned to prepare it.
    fn prepared<S: Shelf>(&mut self, shelf: &mut S, name: &[u8]) -> Result<Option<S::Dictionary>, S::Error> {
        let Some(dictionary) = self.scopes.get(name).and_then(|scope| scope.dictionary) else { return Ok(None) };
        let found = shelf.prepared(&dictionary)?;
        if found.is_some() || self.earned < self.limits.values_a_load {
            return Ok(found);
        }
        self.earned -= self.limits.values_a_load;
        let made = shelf.prepare(&dictionary)?;
        if let (None, Some(scope)) = (&made, self.scopes.get_mut(name)) {
            self.sample_bytes -= scope.sample_bytes();
            scope.dictionary = None;
            scope.start_again();
        }
        Ok(made)
    }

    /// Sample a value for a scope, and make its next dictionary if the sample is whole.
    fn take<S: Shelf>(&mut self, shelf: &mut S, name: &[u8], raw: &[u8]) -> Result<(), S::Error> {
        let Some(scope) = self.scopes.get_mut(name) else { return Ok(()) };
        let before = scope.sample_bytes();
        let Some(sample) = &mut scope.sample else { return Ok(()) };
        sample.take(raw);
        let is_whole = sample.seen_bytes >= self.limits.stages[scope.stage].0;
        let made = if is_whole { next_stage(shelf, &self.limits.stages, scope) } else { Ok(None) };
        self.sample_bytes = self.sample_bytes + scope.sample_bytes() - before;
        if let Some(row) = made? {
            self.changed.retain(|(other, _)| other != name);
            self.changed.push((name.to_vec(), row));
        }
        if self.sample_bytes > self.limits.most_sample_bytes {
            self.evict();
        }
        Ok(())
    }
}

/// Make a scope's next dictionary from its sample; gives the value of its row.
fn next_stage<S: Shelf>(
    shelf: &mut S,
    stages: &[(usize, usize)],
    scope: &mut Scope,
) -> Result<Option<Vec<u8>>, S::Error> {
    let Some(sample) = &mut scope.sample else { return Ok(None) };
    let stage = scope.stage + 1;
    let name = shelf.write(&sample.content(), stage == stages.len())?;
    (scope.dictionary, scope.stage, scope.best_share) = (Some(name), stage, None);
    if stage == stages.len() {
        scope.sample = None;
    } else {
        sample.widen(stages[stage].1);
    }
    shelf.prepare(&name)?;
    Ok(Some([&[stage as u8], &name[..]].concat()))
}

/// The name of a row's site (host and first path segment of its row key), and what all its row keys begin with.
///
/// Sites with path segments begin like the site of their host without one, so that one has no common start.
pub fn site_of(row_key: &[u8]) -> (Vec<u8>, &[u8]) {
    let host = row_key.windows(2).position(|two| two == b")/").map(|at| at + 2);
    let after = host.unwrap_or(1).min(row_key.len());
    let segment = row_key[after..].iter().position(|&byte| byte == b'/').map(|at| after + at);
    let site = [b"site ", &row_key[..segment.unwrap_or(after)]].concat();
    let start = segment.filter(|_| host.is_some()).map_or(&[][..], |end| &row_key[..=end]);
    (site, start)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look drawn, the same for the same seed.
    fn noise(mut seed: u64, bytes: usize) -> Vec<u8> {
        let mut step = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u8
        };
        (0..bytes).map(|_| step()).collect()
    }

    #[test]
    fn a_sample_keeps_whole_values_first_then_pieces_at_even_distances() {
        let values: Vec<Vec<u8>> = (0..60).map(|seed| noise(seed, 3000 + 100 * seed as usize)).collect();
        let whole = values.concat();
        let mut sample = Sample::default();
        values[..40].iter().for_each(|value| sample.take(value));
        assert_eq!(sample.content(), values[..40].concat());
        sample.widen(8);
        values[40..].iter().for_each(|value| sample.take(value));
        let ends: Vec<usize> = values
            .iter()
            .scan(0, |end, value| {
                *end += value.len();
                Some(*end)
            })
            .collect();
        let piece = |place: usize| {
            let end = ends.iter().find(|&&end| end > place).map_or(0, |end| *end);
            whole[place..end.min(place + PIECE_BYTES)].to_vec()
        };
        let pieces: Vec<Vec<u8>> = (0..whole.len()).step_by(8 * PIECE_BYTES).map(piece).collect();
        assert_eq!(sample.content(), pieces.concat());
        sample.widen(32);
        assert_eq!(sample.content(), pieces.iter().step_by(4).flatten().copied().collect::<Vec<u8>>());
    }

    #[test]
    fn one_long_value_makes_no_longer_dictionary_than_many() {
        for stride_pieces in [0, 8] {
            let long = noise(5, 7 * LARGEST_DICTIONARY_BYTES * stride_pieces.max(1) + 321);
            let mut sample = Sample::default();
            if stride_pieces > 0 {
                sample.widen(stride_pieces);
            }
            sample.take(&long);
            let content = sample.content();
            assert!((LARGEST_DICTIONARY_BYTES * 7 / 8..=LARGEST_DICTIONARY_BYTES).contains(&content.len()));
            assert_eq!(content[..PIECE_BYTES], long[..PIECE_BYTES]);
        }
    }

    #[test]
    fn a_site_is_a_host_and_the_first_segment_of_its_path() {
        for (row_key, site, start) in [
            ("com,a)/x/1 https", "site com,a)/x", "com,a)/x/"),
            ("com,a)/x https", "site com,a)/", ""),
            ("com,a)/ https", "site com,a)/", ""),
            ("com,a:80)/x/y/z http", "site com,a:80)/x", "com,a:80)/x/"),
            ("urn:a/b", "site urn:a", ""),
            ("urn:a", "site u", ""),
            ("", "site ", ""),
        ] {
            assert_eq!(site_of(row_key.as_bytes()), (site.as_bytes().to_vec(), start.as_bytes()), "{row_key}");
        }
    }

    /// Dictionaries in memory: those written, by the first byte of their name, and those that are prepared.
    #[derive(Default)]
    struct Memory {
        written: Vec<Vec<u8>>,
        prepared: Vec<Name>,
        loads: usize,
        is_full: bool,
    }

    impl Shelf for Memory {
        type Dictionary = Name;
        type Error = &'static str;

        fn stored(&mut self, _: &[u8]) -> Result<Option<(usize, Name)>, &'static str> {
            Ok(None)
        }
        fn tablet(&mut self, _: &[u8]) -> Result<Tablet, &'static str> {
            Ok(Tablet { number: 1, start: Vec::new(), end: None })
        }
        fn write(&mut self, content: &[u8], _: bool) -> Result<Name, &'static str> {
            if self.is_full {
                return Err("full");
            }
            self.written.push(content.to_vec());
            Ok([self.written.len() as u8; 16])
        }
        fn prepared(&mut self, name: &Name) -> Result<Option<Name>, &'static str> {
            Ok(self.prepared.contains(name).then_some(*name))
        }
        fn prepare(&mut self, name: &Name) -> Result<Option<Name>, &'static str> {
            self.loads += 1;
            self.prepared.push(*name);
            Ok(Some(*name))
        }
    }

    fn sites(most_scopes: usize, most_sample_bytes: usize) -> Sites {
        Sites::new(Limits {
            stages: vec![(10_000, 1), (40_000, 2)],
            most_scopes,
            most_sample_bytes,
            values_a_load: 4,
            most_earned: 4,
            gain_bytes: 1000,
            faded: 1.5,
        })
    }

    const COLUMN: &[u8] = b" page:body";

    fn put(sites: &mut Sites, shelf: &mut Memory, host: &str, seed: u64) -> Result<Option<Name>, &'static str> {
        let row_key = format!("com,{host})/a/{seed} https");
        sites.choose(shelf, (row_key.as_bytes(), COLUMN), &noise(seed, 1000), true)
    }

    fn put_all(sites: &mut Sites, shelf: &mut Memory, seeds: std::ops::Range<u64>) {
        for seed in seeds {
            put(sites, shelf, "a", seed).unwrap();
        }
    }

    #[test]
    fn a_site_gets_dictionaries_by_stages_and_its_tablet_serves_small_sites() {
        let (mut sites, mut shelf) = (sites(9, 1 << 20), Memory::default());
        for seed in 0..9 {
            assert_eq!(put(&mut sites, &mut shelf, "a", seed), Ok(None));
        }
        assert_eq!(put(&mut sites, &mut shelf, "a", 9), Ok(None), "this value made it");
        assert_eq!(shelf.written.len(), 1);
        assert!(shelf.written[0].starts_with(&noise(0, 1000)));
        assert_eq!(put(&mut sites, &mut shelf, "a", 10), Ok(Some([1; 16])));
        assert_eq!(put(&mut sites, &mut shelf, "small", 11), Ok(None), "the tablet has 9 values");
        assert_eq!(put(&mut sites, &mut shelf, "small", 12), Ok(Some([2; 16])), "one more made its dictionary");
        let changed = sites.take_changed();
        assert_eq!(changed[0], (b"site com,a)/a page:body".to_vec(), [&[1][..], &[1; 16]].concat()));
        assert!(changed[1].0.starts_with(b"tablet \0"));
        put_all(&mut sites, &mut shelf, 20..50);
        assert_eq!(put(&mut sites, &mut shelf, "a", 50), Ok(Some([3; 16])));
        assert_eq!(sites.take_changed(), [(b"site com,a)/a page:body".to_vec(), [&[2][..], &[3; 16]].concat())]);
    }

    #[test]
    fn values_earn_a_dictionary_that_is_prepared_no_more() {
        let (mut sites, mut shelf) = (sites(9, 1 << 20), Memory::default());
        put_all(&mut sites, &mut shelf, 0..10);
        shelf.prepared.clear();
        assert_eq!(put(&mut sites, &mut shelf, "a", 10), Ok(Some([1; 16])), "one load was in stock");
        shelf.prepared.clear();
        let chosen: Vec<bool> =
            (11..16).map(|seed| put(&mut sites, &mut shelf, "a", seed).unwrap().is_some()).collect();
        assert_eq!(chosen, [false, false, false, true, true]);
        assert_eq!(shelf.loads, 3, "one when it was made");
    }

    #[test]
    fn a_dictionary_whose_gain_has_faded_is_sampled_again() {
        let (mut sites, mut shelf) = (sites(9, 1 << 20), Memory::default());
        put_all(&mut sites, &mut shelf, 0..50);
        let name = put(&mut sites, &mut shelf, "a", 50).unwrap().unwrap();
        let sampled = sites.sample_bytes();
        let key = (&b"com,a)/a/1 https"[..], COLUMN);
        for payload_bytes in [100, 149] {
            sites.note_gain(&mut shelf, key, (1000, payload_bytes), &name).unwrap();
            put(&mut sites, &mut shelf, "a", 51).unwrap();
            assert_eq!(sites.sample_bytes(), sampled, "the last stage samples no more");
        }
        sites.note_gain(&mut shelf, key, (1000, 151), &name).unwrap();
        put(&mut sites, &mut shelf, "a", 52).unwrap();
        assert_eq!(sites.sample_bytes(), sampled + 1000);
    }

    #[test]
    fn scopes_are_bounded_in_number_and_in_bytes_of_their_samples() {
        for (most_scopes, most_sample_bytes) in [(3, 1 << 20), (100, 2500)] {
            let (mut sites, mut shelf) = (sites(most_scopes, most_sample_bytes), Memory::default());
            for seed in 0..8 {
                put(&mut sites, &mut shelf, &format!("h{seed}"), seed).unwrap();
                assert!(sites.scopes.len() <= most_scopes);
                assert!(sites.sample_bytes() <= most_sample_bytes || sites.scopes.len() == 1);
                let held: usize = sites.scopes.values().map(Scope::sample_bytes).sum();
                assert_eq!(held, sites.sample_bytes());
            }
        }
    }

    #[test]
    fn a_dictionary_that_cannot_be_written_is_made_of_a_later_value() {
        let (mut sites, mut shelf) = (sites(9, 1 << 20), Memory { is_full: true, ..Memory::default() });
        let failed = (0..11).filter(|&seed| put(&mut sites, &mut shelf, "a", seed).is_err()).count();
        assert_eq!(failed, 2);
        assert!(sites.take_changed().is_empty());
        shelf.is_full = false;
        put(&mut sites, &mut shelf, "a", 11).unwrap();
        assert!(put(&mut sites, &mut shelf, "a", 12).unwrap().is_some());
    }
}
