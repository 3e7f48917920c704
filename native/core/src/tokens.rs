//! A page's decoded source -> its tags and comments: one pass, linear time, no exception, nothing built.
//!
//! The grammar follows the WHATWG tokenizer.  S is one of tab, line feed, form feed, carriage return, space; EOF is the
//! end of the source.  At each `<`, the first that fits:
//!
//! 1. `<` letter or `</` letter: a *tag*.  Its name is all up to S, `/`, `>` or EOF; attributes follow; `>` or EOF ends
//!    it.
//! 2. `<!--`: a *comment*.  If `>` or `->` follows, that ends it; else the first `-->` or `--!>`, else EOF.
//! 3. `<!`, `<?`, or `</` not before EOF: a *bogus comment* (doctype and CDATA among them) up to the first `>`, else
//!    EOF.
//! 4. Anything else is *text*, the `<` included.
//!
//! *Attributes*, repeated: any S and `/`; then a name: one character that is not S, `/` or `>`, and all up to S, `/`,
//! `>` or `=`.  If, after any S, `=` follows, then, after any S: `"` starts a value up to the next `"` or EOF; `'`
//! likewise; `>` means no value and ends the tag; anything else is a value up to S or `>`.  A tag that meets EOF before
//! its `>` has swallowed the rest and counts for nothing (its name is "").
//!
//! *Raw elements*: after a start tag of script, style, xmp, iframe, noembed, noframes, title or textarea (any case),
//! all up to `</` + the same name + (S, `/` or `>`), else up to EOF, is the element's content, not markup.  In title
//! and textarea character references count.  After a start tag of plaintext all that follows is content.  In a source
//! that has `<frameset` (any case), noframes is no raw element: it is for browsers without frames.  Where this differs
//! from the standard: `<!--<script>` inside a script does not hide a `</script>`; CDATA is bogus inside svg and math
//! too, and title, style and script are raw there too.
//!
//! Names are lowercased in ASCII only.  The page's reader makes U+0000 into U+FFFD beforehand, as the standard does in
//! names and values; `split` itself treats U+0000 as any character.
//!
//! One pass over UTF-8 bytes; every byte is looked at a bounded number of times.
//!
//! Cases, in `tests/cases/text/`: `inline` (and the tables of examples below).

use crate::bytes::{self, find, is_blank};
use crate::foreign::Foreign;
use crate::names::{self, Names, CDATA, CUT, NOTHING};
use crate::simd;
use crate::wide::{self, equal_of_64, Bytes};

/// One tag or comment, by places in the source.
///
/// The text before it ends at `start`, the text behind it begins at `end`; the content of a raw element lies between
/// `content` and `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    pub start: u32,
    pub end: u32,
    pub attributes: u32,
    pub content: u32,
    /// As `names` numbers it; `NOTHING` for comments and for what the end of the source swallowed.
    pub name: u32,
}

impl Tag {
    /// The source of the attributes; may be empty.
    #[inline(always)]
    pub fn attributes<'a>(&self, source: &'a [u8]) -> &'a [u8] {
        if self.name >= CUT {
            return &[];
        }
        &source[self.attributes as usize..self.content as usize - 1]
    }

    /// The name of a start tag, as in the source.
    pub fn name<'a>(&self, source: &'a [u8]) -> &'a [u8] {
        &source[self.start as usize + 1..self.attributes as usize]
    }

    /// The source of a raw element's content; empty for other tags.
    pub fn content<'a>(&self, source: &'a [u8]) -> &'a [u8] {
        &source[self.content as usize..self.end as usize]
    }

    /// A section of characters that begins at a place: its content is text as it is, up to `]]>`, the next tag.
    fn of_cdata(source: &[u8], start: usize) -> Self {
        let content = start + 2 + CDATA_START.len();
        let end = memchr::memmem::find(&source[content..], b"]]>").map_or(source.len(), |at| content + at);
        let (start, attributes, content) = (start as u32, content as u32 - 1, content as u32);
        Self { start, end: end as u32, attributes, content, name: CDATA }
    }

    /// What is neither an element nor text.
    pub fn comment(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32, attributes: end as u32, content: end as u32, name: NOTHING }
    }
}

/// A page's tags and comments, in order.
#[derive(Clone, Default)]
pub struct Tags {
    pub all: Vec<Tag>,
    /// Numbers of those that say something by their names alone, as they were when the source was cut.
    pub special: Vec<u32>,
    /// Whether the text around some of them says if they cut it.
    pub has_doubtful: bool,
    pub has_math: bool,
}

const CDATA_START: &[u8] = b"[CDATA[";

/// Properties of special tags.
const SPECIAL: u16 = names::HIDDEN | names::DECLARING | names::RAW | names::LEFT_OUT | names::BUTTON;

/// Longest source whose places fit a tag.
pub const SOURCE_LIMIT_BYTES: usize = u32::MAX as usize - 16;

const fn name_ends() -> [bool; 256] {
    let mut ends = [false; 256];
    ends[b'\t' as usize] = true;
    ends[b'\n' as usize] = true;
    ends[0x0c] = true;
    ends[b'\r' as usize] = true;
    ends[b' ' as usize] = true;
    ends[b'/' as usize] = true;
    ends[b'>' as usize] = true;
    ends
}

/// Bytes that end a tag's name; an attribute's name ends at these and at `=`.
static NAME_ENDS: [bool; 256] = name_ends();
static ATTRIBUTE_NAME_ENDS: [bool; 256] = {
    let mut ends = name_ends();
    ends[b'=' as usize] = true;
    ends
};

/// Places of `<` that are found ahead of where they are needed.
const WINDOW_BYTES: usize = 1024;

/// Where `<` stands in a source, a window at a time.
///
/// Found one by one, the place of each would wait for the end of the tag before it.
struct Openings<'a> {
    source: &'a [u8],
    /// Up to which place the source is looked through.
    seen: usize,
    places: [u32; WINDOW_BYTES + 8],
    count: usize,
    next: usize,
}

impl<'a> Openings<'a> {
    fn new(source: &'a [u8]) -> Self {
        Self { source, seen: 0, places: [0; WINDOW_BYTES + 8], count: 0, next: 0 }
    }

    /// The first from `place` on, which never goes back; None at the end.
    #[inline(always)]
    fn from<B: Bytes>(&mut self, place: usize) -> Option<usize> {
        loop {
            while self.next < self.count {
                let at = self.places[self.next] as usize;
                if at >= place {
                    return Some(at);
                }
                self.next += 1;
            }
            self.seen = self.seen.max(place);
            if self.seen >= self.source.len() {
                return None;
            }
            self.look::<B>();
        }
    }

    /// Look through the next window.
    #[inline(always)]
    fn look<B: Bytes>(&mut self) {
        let end = self.source.len().min(self.seen + WINDOW_BYTES);
        (self.count, self.next) = (0, 0);
        while self.seen < end {
            let mut bits = equal_of_64::<B>(self.source, self.seen, b'<');
            if bits == 0 {
                self.seen += 64;
                continue;
            }
            let found = bits.count_ones() as usize;
            // Four are written in any case: there seldom are more, and how many there are is up to chance.
            let mut written = 0;
            loop {
                for place in &mut self.places[self.count + written..self.count + written + 4] {
                    *place = (self.seen as u32).wrapping_add(bits.trailing_zeros());
                    bits &= bits.wrapping_sub(1);
                }
                written += 4;
                if written >= found {
                    break;
                }
            }
            self.count += found;
            self.seen += 64;
        }
    }
}

struct Split<'a> {
    source: &'a [u8],
    is_xhtml: bool,
    tags: &'a mut Tags,
    names: &'a mut Names,
}

impl wide::Work for Split<'_> {
    type Made = ();

    #[inline(always)]
    fn on<B: Bytes>(self) {
        split_on::<B>(self.source, self.is_xhtml, self.tags, self.names);
    }
}

/// Cut a source at its markup; `is_xhtml` as `foreign::is_xhtml` says.
#[inline(never)]
pub fn split(source: &[u8], is_xhtml: bool, tags: &mut Tags, names: &mut Names) {
    wide::run(Split { source, is_xhtml, tags, names });
}

#[inline(always)]
fn split_on<B: Bytes>(source: &[u8], is_xhtml: bool, tags: &mut Tags, names: &mut Names) {
    let Tags { all, special, has_doubtful, has_math } = tags;
    *has_math = false;
    all.clear();
    special.clear();
    let mut kinds = 0;
    let mut openings = Openings::new(source);
    let mut foreign = Foreign::of(is_xhtml);
    let mut is_foreign = is_xhtml;
    let mut frames = None;
    let mut place = 0;
    while let Some(at) = openings.from::<B>(place).filter(|&at| at + 1 < source.len()) {
        let mut tag = match source[at + 1] {
            byte if byte.is_ascii_alphabetic() => element::<B>(source, at, at + 1, 0, names, &mut frames),
            b'/' if at + 2 == source.len() => break,
            b'/' if source[at + 2].is_ascii_alphabetic() => {
                plain_end(source, at, names).unwrap_or_else(|| element::<B>(source, at, at + 2, 1, names, &mut frames))
            }
            b'!' if source[at + 2..].starts_with(b"--") => Tag::comment(at, comment_end(source, at + 4)),
            b'!' if foreign.has_cdata() && source[at + 2..].starts_with(CDATA_START) => Tag::of_cdata(source, at),
            b'!' | b'?' | b'/' => Tag::comment(at, (find(b'>', source, at + 2) + 1).min(source.len())),
            _ => {
                place = at + 1;
                continue;
            }
        };
        let mut kind = kind_of(tag.name);
        if is_foreign || kind & IS_ROOT != 0 {
            *has_math |= tag.name >> 1 == names::NAME_MATH;
            let ended = foreign.pass(source, &mut tag);
            is_foreign = foreign.is_read();
            kind = kind_of(tag.name);
            if let Some(end) = ended {
                push(tag, kind, all, special);
                tag = end;
            }
        }
        kinds |= kind;
        place = tag.end as usize;
        push(tag, kind, all, special);
    }
    *has_doubtful = kinds & IS_DOUBTFUL != 0;
}

impl Tags {
    /// Put others in the place of all.
    pub fn replace(&mut self, all: Vec<Tag>) {
        let is_special = |&number: &usize| kind_of(all[number].name) & IS_SPECIAL != 0;
        self.special = (0..all.len()).filter(is_special).map(|number| number as u32).collect();
        self.all = all;
    }
}

#[inline(always)]
fn push(tag: Tag, kind: u8, all: &mut Vec<Tag>, special: &mut Vec<u32>) {
    if kind & IS_SPECIAL != 0 {
        special.push(all.len() as u32);
    }
    all.push(tag);
}

const IS_SPECIAL: u8 = 1;
const IS_DOUBTFUL: u8 = 2;
const IS_ROOT: u8 = 4;

/// What matters of a tag while a source is cut.
#[inline(always)]
fn kind_of(tag_name: u32) -> u8 {
    static KINDS: [u8; names::KNOWN] = {
        let doubtful = names::table_of(names::DOUBTFUL);
        let roots = names::table_of([names::NAME_SVG, names::NAME_MATH]);
        let mut kinds = [0; names::KNOWN];
        let mut name = 0;
        while name < names::KNOWN {
            let is_special = names::PROPERTIES[name] & SPECIAL != 0;
            kinds[name] = is_special as u8 | (doubtful[name] as u8) << 1 | (roots[name] as u8) << 2;
            name += 1;
        }
        kinds
    };
    let kind = KINDS.get((tag_name >> 1) as usize).copied();
    kind.unwrap_or(if tag_name < names::CUT { IS_DOUBTFUL } else { 0 })
}

/// The end tag at `at`, if it has a known name of up to seven small letters and nothing else.
#[inline(always)]
fn plain_end(source: &[u8], at: usize, names: &Names) -> Option<Tag> {
    let eight = u64::from_le_bytes(*source[at + 2..].first_chunk()?);
    let length = bytes::first(bytes::equal(eight, b'>'));
    let number = names.known(eight & !(u64::MAX << (8 * length.min(7))))?;
    let (attributes, end) = ((at + 2 + length) as u32, (at + 3 + length) as u32);
    Some(Tag { start: at as u32, end, attributes, content: end, name: number << 1 | 1 }).filter(|_| length < 8)
}

/// The end of a comment whose content begins at `start`.
fn comment_end(source: &[u8], start: usize) -> usize {
    let content = &source[start..];
    if content.starts_with(b">") {
        return start + 1;
    }
    if content.starts_with(b"->") {
        return start + 2;
    }
    memchr::memchr_iter(b'>', content)
        .find(|&end| content[..end].ends_with(b"--") || content[..end].ends_with(b"--!"))
        .map_or(source.len(), |end| start + end + 1)
}

/// The tag whose name begins at `start`.
#[inline(always)]
fn element<B: Bytes>(
    source: &[u8],
    at: usize,
    start: usize,
    closing: u32,
    names: &mut Names,
    frames: &mut Option<bool>,
) -> Tag {
    let bytes = B::load(source, start);
    // What looks like an end of the name mostly is one.
    let likely = bytes.at_most(b'>') | 1 << (B::COUNT - 1);
    let mut place = (start + likely.trailing_zeros() as usize).min(source.len());
    while place < source.len() && !NAME_ENDS[source[place] as usize] {
        place += 1;
    }
    let number = names.number_at(source, start, place);
    let name = &source[start..place];
    let attributes = place;
    if source.get(place) != Some(&b'>') {
        place = tag_end(bytes, source, start, place);
        if place == source.len() {
            return Tag::comment(at, place);
        }
    }
    let content = place + 1;
    let tag_name = number << 1 | closing;
    let mut end = content;
    if closing == 0 && names::properties(tag_name) & names::RAW != 0 {
        end = match number {
            names::NAME_PLAINTEXT => source.len(),
            names::NAME_NOFRAMES if *frames.get_or_insert_with(|| has_frameset(source)) => content,
            _ => raw_end(source, content, name),
        };
    }
    Tag { start: at as u32, end: end as u32, attributes: attributes as u32, content: content as u32, name: tag_name }
}

/// The place of the first byte from `place` on that ends an attribute's name, or the end of the source.
///
/// Tag names are short and often the same, so that a loop over their bytes, whose end the processor guesses, is faster.
#[inline(always)]
fn attribute_name_end(source: &[u8], mut place: usize) -> usize {
    if place < source.len() {
        // What looks like an end mostly is one.
        let bytes = simd::load(source, place);
        let likely = bytes.at_most(b' ') | bytes.equal(b'/') | bytes.equal(b'>') | bytes.equal(b'=') | 1 << 16;
        place = (place + likely.trailing_zeros() as usize).min(source.len());
    }
    while place < source.len() && !ATTRIBUTE_NAME_ENDS[source[place] as usize] {
        place += 1;
    }
    place
}

/// What `attributes_end` gives, by the places of quotes, where attributes are as nearly all are.
///
/// The first `>` before any quote ends the tag.  A quote opens a value right behind `=`, which stands right behind the
/// name, if no other `=` stands before it.
///
/// The attributes begin at `place`; `bytes` are those from `start` on.
#[inline(always)]
fn tag_end<B: Bytes>(mut bytes: B, source: &[u8], mut start: usize, mut place: usize) -> usize {
    if place - start >= B::COUNT {
        return attributes_end(source, place);
    }
    loop {
        let (ends, equals, double, single) =
            (bytes.equal(b'>'), bytes.equal(b'='), bytes.equal(b'"'), bytes.equal(b'\''));
        // What is not yet passed.
        let mut left = u64::MAX << (place - start);
        loop {
            let stop = (ends | double | single) & left;
            if stop == 0 {
                break;
            }
            let at = stop.trailing_zeros() as usize;
            let here = 1 << at;
            if ends & here != 0 {
                return start + at;
            }
            let is_first = equals & left & (here - 1) == here >> 1 && left & here >> 2 != 0;
            if !is_first || NAME_ENDS[source[start + at - 2] as usize] {
                match next_attribute(source, place) {
                    (end, true) => return end,
                    (next, false) => place = next,
                }
                break;
            }
            let closing = u64::MAX << at << 1 & if double & here != 0 { double } else { single };
            if closing == 0 {
                place = quote_end::<B>(source, source[start + at], start + B::COUNT) + 1;
                break;
            }
            place = start + closing.trailing_zeros() as usize + 1;
            left = u64::MAX << (place - start - 1) << 1;
        }
        if place >= source.len() {
            return source.len();
        }
        if place == start {
            match next_attribute(source, place) {
                (end, true) => return end,
                (next, false) => place = next,
            }
        }
        start = place;
        bytes = B::load(source, start);
    }
}

/// Place of the first quote from `place` on, or the length.
#[inline(always)]
fn quote_end<B: Bytes>(source: &[u8], quote: u8, mut place: usize) -> usize {
    for _ in 0..8 {
        if place >= source.len() {
            return source.len();
        }
        let quotes = B::load(source, place).equal(quote);
        if quotes != 0 {
            return place + quotes.trailing_zeros() as usize;
        }
        place += B::COUNT;
    }
    find(quote, source, place.min(source.len()))
}

/// The place of the `>` that ends the tag whose attributes begin at `place`, or the end of the source.
pub fn attributes_end(source: &[u8], mut place: usize) -> usize {
    loop {
        match next_attribute(source, place) {
            (end, true) => return end,
            (next, false) => place = next,
        }
    }
}

/// The place behind the attribute from `place` on; or what `attributes_end` gives, if there is none.
fn next_attribute(source: &[u8], mut place: usize) -> (usize, bool) {
    while let Some(&byte) = source.get(place) {
        if byte == b'>' {
            return (place, true);
        }
        if !is_blank(byte) && byte != b'/' {
            return (attribute_end(source, place, &mut |_, _| {}), false);
        }
        place += 1;
    }
    (source.len(), true)
}

/// The place behind the attribute whose name begins at `start`; tells where its name and its value lie.
#[inline(always)]
fn attribute_end<'a>(source: &'a [u8], start: usize, found: &mut impl FnMut(&'a [u8], &'a [u8])) -> usize {
    let place = attribute_name_end(source, start + 1);
    let name = &source[start..place];
    let mut ahead = place;
    while ahead < source.len() && is_blank(source[ahead]) {
        ahead += 1;
    }
    if source.get(ahead) != Some(&b'=') {
        found(name, &[]);
        return place;
    }
    ahead += 1;
    while ahead < source.len() && is_blank(source[ahead]) {
        ahead += 1;
    }
    match source.get(ahead) {
        Some(&quote @ (b'"' | b'\'')) => {
            let end = find(quote, source, ahead + 1);
            found(name, &source[ahead + 1..end]);
            (end + 1).min(source.len())
        }
        Some(&byte) if byte != b'>' => {
            let value = ahead;
            while ahead < source.len() && !is_blank(source[ahead]) && source[ahead] != b'>' {
                ahead += 1;
            }
            found(name, &source[value..ahead]);
            ahead
        }
        _ => {
            found(name, &[]);
            ahead
        }
    }
}

/// Each attribute of a tag, in order, as in the source: name, and value (empty where there is none).
#[inline(always)]
pub fn each_attribute<'a>(attributes: &'a [u8], mut found: impl FnMut(&'a [u8], &'a [u8])) {
    let mut place = 0;
    while let Some(&byte) = attributes.get(place) {
        if is_blank(byte) || byte == b'/' {
            place += 1;
        } else {
            place = attribute_end(attributes, place, &mut found);
        }
    }
}

/// Whether a source has a frameset, so that its noframes elements are text for browsers without frames.
#[inline(never)]
fn has_frameset(source: &[u8]) -> bool {
    const START: &[u8] = b"<frameset";
    memchr::memchr_iter(b'<', source)
        .any(|place| source[place..].get(..START.len()).is_some_and(|here| here.eq_ignore_ascii_case(START)))
}

/// The end of the content of the raw element of that name.
pub fn raw_end(source: &[u8], start: usize, name: &[u8]) -> usize {
    let mut place = start;
    loop {
        place = find(b'<', source, place);
        let behind = place + 2 + name.len();
        if behind >= source.len() {
            return source.len();
        }
        if source[place + 1] == b'/'
            && NAME_ENDS[source[behind] as usize]
            && source[place + 2..behind].eq_ignore_ascii_case(name)
        {
            return place;
        }
        place += 1;
    }
}

/// Whether the attributes mention a word, in any case.
pub fn mentions(attributes: &[u8], word: &[u8]) -> bool {
    attributes.len() >= word.len() && {
        let first = word[0];
        memchr::memchr2_iter(first, first.to_ascii_uppercase(), attributes).any(|place| {
            attributes[place..].len() >= word.len() && attributes[place..place + word.len()].eq_ignore_ascii_case(word)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Sixteen;
    use crate::wide::Work;

    /// The places of `<` that are asked for one after the other, each from some bytes behind the last.
    struct All<'a>(&'a [u8], &'a [usize]);

    impl Work for All<'_> {
        type Made = Vec<usize>;

        #[inline(always)]
        fn on<B: Bytes>(self) -> Self::Made {
            let mut openings = Openings::new(self.0);
            let (mut place, mut found) = (0, Vec::new());
            while let Some(at) = openings.from::<B>(place) {
                place = at + self.1[found.len() % self.1.len()];
                found.push(at);
            }
            found
        }
    }

    #[test]
    fn openings_are_what_a_plain_search_finds_however_far_apart() {
        for apart in [1, 2, 3, 15, 64, 65, 1000, 1024, 5000] {
            for length in [0, 1, 63, 64, 65, 1023, 1024, 1025, 9000] {
                let source: Vec<u8> = (0..length).map(|place| if place % apart == 0 { b'<' } else { b'=' }).collect();
                for steps in [&[1][..], &[1, 7, 40], &[3000, 1], &[1100, 2, 900]] {
                    let (mut place, mut expected) = (0, Vec::new());
                    while find(b'<', &source, place.min(length)) < length {
                        let at = find(b'<', &source, place);
                        place = at + steps[expected.len() % steps.len()];
                        expected.push(at);
                    }
                    assert_eq!(All(&source, steps).on::<Sixteen>(), expected, "{apart} {length}");
                    assert_eq!(wide::run(All(&source, steps)), expected, "{apart} {length}");
                }
            }
        }
    }

    /// Texts between the tags, and names of the tags; "" of comments, with a slash of end tags.
    fn cut(source: &str) -> (Vec<String>, Vec<String>, Tags) {
        let (mut tags, mut names) = (Tags::default(), Names::default());
        split(source.as_bytes(), false, &mut tags, &mut names);
        let mut begin = 0;
        let mut texts = Vec::new();
        for tag in &tags.all {
            texts.push(source[begin..tag.start as usize].to_owned());
            begin = tag.end as usize;
        }
        texts.push(source[begin..].to_owned());
        let name = |tag: &Tag| match tag.name {
            NOTHING => String::new(),
            number => {
                let name = String::from_utf8_lossy(names.name(number >> 1)).into_owned();
                format!("{}{name}", if number & 1 == 1 { "/" } else { "" })
            }
        };
        let named = tags.all.iter().map(name).collect();
        (texts, named, tags)
    }

    #[test]
    fn a_source_is_cut_as_the_grammar_says() {
        let table: &[(&str, &[&str], &[&str])] = &[
            ("a<b>c", &["a", "c"], &["b"]),
            ("<BR/>", &["", ""], &["br"]),
            ("</P x='>'>", &["", ""], &["/p"]),
            ("1 < 2 <3 <", &["1 < 2 <3 <"], &[]),
            ("</", &["</"], &[]),
            ("</>x", &["", "x"], &[""]),
            ("</3>x", &["", "x"], &[""]),
            ("<!-->x", &["", "x"], &[""]),
            ("<!--->x", &["", "x"], &[""]),
            ("<!--a--!>x", &["", "x"], &[""]),
            ("<!--a-- >b-->x", &["", "x"], &[""]),
            ("<!--a", &["", ""], &[""]),
            ("<!doctype html>x", &["", "x"], &[""]),
            ("<![CDATA[a>b]]>", &["", "b]]>"], &[""]),
            ("<?php a>b", &["", "b"], &[""]),
            ("x<a href='y>z", &["x", ""], &[""]),
            ("<a b=\"x>", &["", ""], &[""]),
            ("a<b>", &["a", ""], &["b"]),
            ("<scripty>a<b>", &["", "a", ""], &["scripty", "b"]),
            ("<a =\">x", &["", "x"], &["a"]),
            ("<a b=\"1\"=\">x", &["", "x"], &["a"]),
            ("<a b=c'd\">x", &["", "x"], &["a"]),
            ("<scr\u{131}pt>a<b>c</scr\u{131}pt>", &["", "a", "c", ""], &["scr\u{131}pt", "b", "/scr\u{131}pt"]),
        ];
        for (source, texts, names) in table {
            let found = cut(source);
            assert_eq!((&found.0[..], &found.1[..]), (&strings(texts)[..], &strings(names)[..]), "{source}");
        }
    }

    #[test]
    fn a_raw_element_holds_all_up_to_its_end() {
        let table: &[(&str, &[&str], &str)] = &[
            ("<script>a<b></scripts></SCRIPT >c", &["script", "/script"], "a<b></scripts>"),
            ("<SCRIPT>a<b>c</Script>", &["script", "/script"], "a<b>c"),
            ("<script>", &["script"], ""),
            ("<title>a</title", &["title"], "a</title"),
            ("<plaintext>a</plaintext>", &["plaintext"], "a</plaintext>"),
        ];
        for (source, names, content) in table {
            let (_, named, tags) = cut(source);
            assert_eq!(named, strings(names), "{source}");
            assert_eq!(tags.all[0].content(source.as_bytes()), content.as_bytes(), "{source}");
        }
    }

    #[test]
    fn attributes_follow_the_standard() {
        let found = |source: &str| {
            let mut found: Vec<(String, String)> = Vec::new();
            each_attribute(source.as_bytes(), |name, value| {
                let name = String::from_utf8_lossy(name).to_ascii_lowercase();
                found.push((name, crate::page::attribute_value(value)));
            });
            found
        };
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let source = " HREF = \"a&amp;b\" href='second' data-x=1/2 checked =odd T='&copy=1 &lt;'";
        let expected = [("href", "a&b"), ("href", "second"), ("data-x", "1/2"), ("checked", "odd"), ("t", "&copy=1 <")];
        assert_eq!(found(source), pairs(&expected));
        assert_eq!(found(" a=1 =b=\"2\"/c"), pairs(&[("a", "1"), ("=b", "2"), ("c", "")]));
        assert_eq!(found(" href=https://example.com/"), pairs(&[("href", "https://example.com/")]));
        assert_eq!(found(" href='a' /"), pairs(&[("href", "a")]));
        assert_eq!(found("a=1 b"), pairs(&[("a", "1"), ("b", "")]), "no blank before the first");
        assert_eq!(found(""), []);
    }

    fn strings(all: &[&str]) -> Vec<String> {
        all.iter().map(|each| (*each).to_owned()).collect()
    }
}
