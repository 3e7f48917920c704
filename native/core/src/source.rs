//! What is asked of a page's source beside its analysis: its visible text, what it declares, an explanation.

use crate::combined::{self, Combined};
use crate::explain::{self, Explained};
use crate::flow::{Flow, Source as How};
use crate::foreign;
use crate::kind;
use crate::left_out::{Kept, LeftOut};
use crate::markdown::{markdown, Chosen};
use crate::names::{Names, NAME_BASE, NAME_SCRIPT};
use crate::outline::Reading;
use crate::page::{self, is_space, Declared};
use crate::plateau::{self, Plateau};
use crate::scored::Scored;
use crate::tokens::{self, Tag, Tags};
use crate::visible::visible;
use crate::Extractor;

/// A page's source, cut at its markup.
pub struct Source {
    text: String,
    tags: Tags,
    names: Names,
}

/// Buffers of `Source::markdown`; what they remember of a site's tags makes its next page faster.
#[derive(Default)]
pub struct Buffers {
    left_out: LeftOut,
    flow: Flow,
    rule: Scored,
    combined: Combined,
}

impl Source {
    /// Cut a source of a type, which may be empty; U+0000 is read as U+FFFD.
    ///
    /// # Panics
    /// If the source is longer than `tokens::SOURCE_LIMIT_BYTES`.
    pub fn new(text: &str, content_type: &str) -> Self {
        let text = text.replace('\0', "\u{fffd}");
        assert!(text.len() <= tokens::SOURCE_LIMIT_BYTES, "a source of {} bytes is too long", text.len());
        let (mut tags, mut names) = (Tags::default(), Names::default());
        let is_xhtml = foreign::is_xhtml(text.as_bytes(), content_type);
        tokens::split(text.as_bytes(), is_xhtml, &mut tags, &mut names);
        Self { text, tags, names }
    }

    /// All visible text, one block a line.
    pub fn visible(&self) -> String {
        let mut flow = Flow::default();
        self.of_kept(|source, kept| visible(source, kept, &mut flow));
        text_of(&flow)
    }

    /// Ask something of the source and its tags without what is no text.
    fn of_kept<T>(&self, ask: impl FnOnce(&[u8], Kept) -> T) -> T {
        let (mut left_out, mut tags) = (LeftOut::default(), self.tags.clone());
        ask(self.text.as_bytes(), left_out.read(self.text.as_bytes(), &mut tags))
    }

    /// What the page declares, its headings and its links.
    pub fn declared(&self) -> Declared {
        let mut flow = Flow::default();
        let mut declared = page::read(self.text.as_bytes(), &self.tags, true, &mut flow);
        declared.headings = self.of_kept(|source, kept| page::headings(source, kept, &mut flow));
        declared
    }

    /// The address in the first `base` element that has one.
    pub fn base(&self) -> Option<String> {
        let mut bases = self.tags.all.iter().filter(|tag| tag.name == NAME_BASE << 1);
        bases.find_map(|tag| self.attribute(tag, "href")).map(|href| href.trim_matches(is_space).to_owned())
    }

    /// The contents of the scripts of JSON-LD, without the comments and sections around them.
    pub fn json_ld(&self) -> Vec<&str> {
        let is_json_ld = |tag: &&Tag| {
            let kind = self.attribute(tag, "type").unwrap_or_default();
            kind::media_type(&kind).eq_ignore_ascii_case("application/ld+json")
        };
        let scripts = self.tags.all.iter().filter(|tag| tag.name == NAME_SCRIPT << 1).filter(is_json_ld);
        let contents = scripts.map(|tag| bare_json(&self.text[tag.content as usize..tag.end as usize]));
        contents.filter(|text| !text.is_empty()).collect()
    }

    /// The tag plateau.
    pub fn plateau(&self) -> Plateau {
        self.of_kept(plateau::plateau)
    }

    /// Each block of the page, with the decision of the extractor.
    pub fn explain(&self, extractor: Extractor) -> Vec<Explained> {
        match extractor {
            Extractor::Scored => self.of_kept(|source, kept| explain::of_scored(source, kept, &self.names)),
            Extractor::Combined => self.of_kept(explain::of_combined),
            Extractor::Visible => {
                let shown =
                    |line: &str| Explained { text: line.to_owned(), is_kept: true, score: None, because: vec![] };
                self.visible().lines().map(shown).collect()
            }
        }
    }

    /// The page as Markdown, of the blocks that are its main text; None if no extractor gives this main text.
    pub fn markdown(&mut self, buffers: &mut Buffers, url: &str, text: &str) -> Option<String> {
        let base = self.base();
        let source = self.text.as_bytes();
        let Buffers { left_out, flow, rule, combined: page } = buffers;
        let read = left_out.read(source, &mut self.tags);
        let written = |kept: &[usize], combined: &Combined, noscript: bool| {
            let (page, text) = (&combined.page, std::str::from_utf8(combined.text()).unwrap_or_default());
            let chosen = Chosen { source, tags: read.tags, signs: read.signs, page, text, kept, noscript };
            markdown(chosen, url, base.as_deref())
        };
        let (kept, reading) = rule.main(source, read, flow);
        if flow.bytes() == text.as_bytes() {
            return Some(written(&kept, rule.combined(), reading.noscript));
        }
        page.read(source, read, Reading::default());
        let kept = combined::select(&page.page, 0);
        page.write(&kept, flow);
        if flow.bytes() == text.as_bytes() {
            return Some(written(&kept, page, false));
        }
        visible(source, read, flow);
        let all: Vec<usize> = (0..page.page.blocks.len()).collect();
        (flow.bytes() == text.as_bytes()).then(|| written(&all, page, false))
    }

    /// The value of the first attribute of that name.
    fn attribute(&self, tag: &Tag, name: &str) -> Option<String> {
        let [value] = page::values(tag.attributes(self.text.as_bytes()), [name]);
        value
    }
}

/// JSON without what pages write around it: sections of characters, a semicolon, comments.
fn bare_json(whole: &str) -> &str {
    let text = without_marks(whole);
    if text.is_empty() || (text.starts_with(['{', '[']) && text.ends_with(['}', ']'])) {
        return text;
    }
    // Among words of comments: what lies between the outermost braces, with the brackets around these.
    let (Some(mut start), Some(mut end)) = (whole.find('{'), whole.rfind('}').map(|last| last + 1)) else {
        return text;
    };
    loop {
        let (before, behind) = (whole[..start].trim_end(), whole[end..].trim_start());
        if !before.ends_with('[') || before.ends_with("<![CDATA[") || !behind.starts_with(']') {
            return &whole[start..end.max(start)];
        }
        (start, end) = (before.len() - 1, whole.len() - behind.len() + 1);
    }
}

fn without_marks(mut text: &str) -> &str {
    const BEFORE: [&str; 6] = ["<!--", "<![CDATA[", "//", "/*", "*/", "\u{feff}"];
    const BEHIND: [&str; 6] = ["-->", "]]>", "//", "*/", "/*", ";"];
    loop {
        let whole = text.len();
        text = text.trim_matches(is_space);
        text = BEFORE.iter().find_map(|mark| text.strip_prefix(mark)).unwrap_or(text);
        text = BEHIND.iter().find_map(|mark| text.strip_suffix(mark)).unwrap_or(text);
        if text.len() == whole {
            return text;
        }
    }
}

/// Lines of a text, white space folded to one space, without empty ones; U+0000 is read as U+FFFD.
pub fn fold_lines(text: &str) -> String {
    let mut flow = Flow::default();
    push_lines(text, &mut flow);
    text_of(&flow)
}

/// The same, for a flow that has nothing yet.
pub fn push_lines(text: &str, flow: &mut Flow) {
    let text = text.replace('\r', "\n").replace('\0', "\u{fffd}");
    flow.push(text.as_bytes(), 0, text.len(), How::Literal);
}

fn text_of(flow: &Flow) -> String {
    String::from_utf8_lossy(flow.bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_base_with_an_address_counts() {
        let base = |text| Source::new(text, "").base();
        assert_eq!(base("<base target=_top><BASE href=' /a&amp;b '><base href=/c>").as_deref(), Some("/a&b"));
        assert_eq!(base("<base href>").as_deref(), Some(""));
        assert_eq!(base("</base href=/a><!-- <base href=/b> --><basefont href=/c>"), None);
    }

    #[test]
    fn scripts_are_json_ld_by_their_type() {
        let text =
            "<script type=' Application/LD+JSON '>{1}</script><script>{2}</script><script type=application/ld+json>\
                    </script><script type=application/ld+json>{3}";
        assert_eq!(Source::new(text, "").json_ld(), ["{1}", "{3}"]);
    }

    #[test]
    fn lines_are_folded() {
        assert_eq!(fold_lines(" a \t b\rc\r\n\n\u{a0}\nd\u{3000}e\0&amp;<p>"), "a b\nc\nd e\u{fffd}&amp;<p>");
        assert_eq!(fold_lines(""), "");
    }

    #[test]
    fn parts_of_a_score_make_up_the_score() {
        let text =
            "<title>Hills</title><nav><a href=/>Home</a></nav><main><h1>Hills</h1><p>The walk over the hill was \
                    long.<p>We use cookies \u{a9} $5</main><div class=nav id=x>again</div><footer>again</footer>";
        let source = Source::new(&text.repeat(3), "");
        let (mut rule, mut flow) = (crate::scored::Scored::default(), Flow::default());
        rule.read_title(source.text.as_bytes(), &source.tags.all, &mut flow);
        let (taken, _) = source.of_kept(|text, kept| rule.read(text, kept));
        rule.find::<true>(taken, &mut flow);
        let mut sums = vec![crate::tables::scorecard::ANY; rule.scores().len()];
        for part in rule.parts() {
            sums[part.block] += part.worth;
        }
        assert!(!sums.is_empty());
        assert_eq!(sums, rule.scores());
    }
}
