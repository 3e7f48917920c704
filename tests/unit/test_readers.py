"""`text.readers` and `text.vocabulary`: text of feeds, site maps, Markdown, text files and shells, and its verdicts.

The feeds are written as WordPress, Drupal, Hugo, GitHub and arXiv emit them, and as the specifications of RSS 0.9 to
2.0, Atom, MRSS and sitemaps.org show.
"""

from __future__ import annotations

import gzip
import json
import resource
import time
from pathlib import Path

import pytest
from counts import few, share
from hypothesis import given, settings
from hypothesis import strategies as st

import docstore
from docstore.archives.ingest import IngestOptions, ingest
from docstore.dedup.kernel import Kernel
from docstore.model.capture import Entry
from docstore.model.choices import VerdictKind
from docstore.model.errors import InvalidArgument
from docstore.sweep.job import SweepOptions, sweep
from docstore.text import readers
from docstore.text.readers import Text, Unreadable, published_time, read
from docstore.text.vocabulary import MOST_ENTRIES, parse
from tests.cli_case import Terminal
from tests.warc_records import record

WORDPRESS = """<?xml version="1.0" encoding="UTF-8"?><rss version="2.0"
	xmlns:content="http://purl.org/rss/1.0/modules/content/"
	xmlns:wfw="http://wellformedweb.org/CommentAPI/"
	xmlns:dc="http://purl.org/dc/elements/1.1/"
	xmlns:atom="http://www.w3.org/2005/Atom"
	xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"
	xmlns:slash="http://purl.org/rss/1.0/modules/slash/"
	>
<channel>
	<title>River News</title>
	<atom:link href="https://river.example/feed/" rel="self" type="application/rss+xml" />
	<link>https://river.example</link>
	<description>All about bridges &#038; boats</description>
	<lastBuildDate>Wed, 01 May 2024 09:30:00 +0000</lastBuildDate>
	<language>en-GB</language>
	<sy:updatePeriod>hourly</sy:updatePeriod>
	<generator>https://wordpress.org/?v=6.5</generator>
	<image><url>https://river.example/icon.png</url><title>River News</title><link>https://river.example</link></image>
	<item>
		<title>The bridge that wouldn&#8217;t close</title>
		<link>https://river.example/bridge/</link>
		<comments>https://river.example/bridge/#comments</comments>
		<dc:creator><![CDATA[Ada]]></dc:creator>
		<pubDate>Tue, 30 Apr 2024 21:15:00 +0000</pubDate>
		<category><![CDATA[Bridges]]></category>
		<guid isPermaLink="false">https://river.example/?p=17</guid>
		<description><![CDATA[The short of it [&#8230;]]]></description>
		<content:encoded><![CDATA[<p>A gate jammed at <b>no</b>on.</p>
<p>Boats&nbsp;waited.</p><script>track()</script>]]></content:encoded>
		<wfw:commentRss>https://river.example/bridge/feed/</wfw:commentRss>
		<slash:comments>3</slash:comments>
	</item>
	<item><title>Short</title><guid>https://river.example/short/</guid>
		<description>&lt;em&gt;Only&lt;/em&gt; this &amp;amp; that</description></item>
</channel>
</rss>"""
DRUPAL = """<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0" xml:base="https://council.example/en/news/">
  <channel>
    <title>Council</title>
    <link>https://council.example/en</link>
    <description/>
    <language>en</language>
    <item>
  <title>Road works</title>
  <link>../node/5</link>
  <description>&lt;span&gt;Road works&lt;/span&gt;
&lt;div class="field"&gt;&lt;p&gt;From Monday.&lt;/p&gt;&lt;/div&gt;</description>
  <pubDate>Mon, 29 Apr 24 08:00:00 EDT</pubDate>
</item>
  </channel>
</rss>"""
HUGO = """<?xml version="1.0" encoding="utf-8" standalone="yes"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom">
<channel><title>Notes</title><link>http://notes.example/</link><description>Recent content on Notes</description>
<generator>Hugo -- gohugo.io</generator><lastBuildDate>Mon, 01 Jan 2024 00:00:00 +0100</lastBuildDate>
<atom:link href="http://notes.example/index.xml" rel="self" type="application/rss+xml"/>
<item><title>One</title><link>http://notes.example/one/</link><pubDate>Mon, 01 Jan 2024 00:00:00 +0100</pubDate>
<guid>http://notes.example/one/</guid>
<description>&lt;p&gt;First note.&lt;/p&gt;</description></item></channel></rss>"""
GITHUB = """<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xmlns:media="http://search.yahoo.com/mrss/" xml:lang="en-US">
  <id>tag:github.com,2008:https://github.com/a/b/releases</id>
  <link type="text/html" rel="alternate" href="https://github.com/a/b/releases"/>
  <link type="application/atom+xml" rel="self" href="https://github.com/a/b/releases.atom"/>
  <title>Release notes from b</title>
  <updated>2024-05-01T10:00:00Z</updated>
  <entry>
    <id>tag:github.com,2008:Repository/1/v2</id>
    <updated>2024-05-01T12:00:00+02:00</updated>
    <link rel="alternate" type="text/html" href="https://github.com/a/b/releases/tag/v2"/>
    <title>v2: maps &lt;K, V&gt;</title>
    <content type="html">&lt;h2&gt;Changes&lt;/h2&gt;
&lt;ul&gt;&lt;li&gt;faster&lt;/li&gt;&lt;/ul&gt;</content>
    <author><name>ada</name></author>
    <media:thumbnail height="30" width="30" url="https://avatars.example/1"/>
  </entry>
</feed>"""
ATOM_XHTML = """<a:feed xmlns:a="http://www.w3.org/2005/Atom" xmlns:x="http://www.w3.org/1999/xhtml" xml:base="https://b.example/x/">
<a:title type="html">Less: &lt;em&gt;more&lt;/em&gt;</a:title><a:subtitle>Sub</a:subtitle>
<a:entry xml:base="y/"><a:title type="xhtml"><x:div>In <x:b>two</x:b></x:div></a:title><a:link href="1"/>
<a:published>2003-12-13T08:29:29-04:00</a:published>
<a:content type="xhtml"><x:div><x:p>one &lt; two</x:p><x:p>three</x:p></x:div></a:content></a:entry></a:feed>"""
ARXIV = """<?xml version="1.0" encoding="UTF-8"?>
<rdf:RDF
 xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
 xmlns="http://purl.org/rss/1.0/"
 xmlns:content="http://purl.org/rss/1.0/modules/content/"
 xmlns:taxo="http://purl.org/rss/1.0/modules/taxonomy/"
 xmlns:dc="http://purl.org/dc/elements/1.1/"
 xmlns:syn="http://purl.org/rss/1.0/modules/syndication/"
>
<channel rdf:about="http://arxiv.org/">
<title>cs.IR updates on arXiv.org</title>
<link>http://arxiv.org/</link>
<description rdf:parseType="Literal">Computer Science -- Information Retrieval</description>
<dc:language>en-us</dc:language>
<dc:date>2024-05-01T20:30:00-05:00</dc:date>
<items><rdf:Seq><rdf:li rdf:resource="http://arxiv.org/abs/2405.00001" /></rdf:Seq></items>
</channel>
<item rdf:about="http://arxiv.org/abs/2405.00001">
<title>Near Duplicates. (arXiv:2405.00001v1 [cs.IR])</title>
<description rdf:parseType="Literal">&lt;p&gt;We look at $x &amp;lt; y$.
&lt;/p&gt;</description>
<dc:creator>&lt;a href="http://arxiv.org/find/"&gt;A. Uthor&lt;/a&gt;</dc:creator>
</item>
</rdf:RDF>"""
RSS_090 = """<?xml version="1.0"?><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
 xmlns="http://my.netscape.com/rdf/simple/0.9/"><channel><title>Mozilla</title><link>http://m.example/</link></channel>
<item><title>Status</title><link>http://m.example/status</link></item></rdf:RDF>"""
RSS_091 = """<?xml version="1.0" encoding="ISO-8859-1"?><!DOCTYPE rss PUBLIC
 "-//Netscape Communications//DTD RSS 0.91//EN" "http://my.netscape.com/publish/formats/rss-0.91.dtd">
<rss version="0.91"><channel><title>Caf\xe9 &eacute;</title>
<language>fr</language><item><title>A & B</title><link>http://c.example/a?b=1&c=2</link></item></channel></rss>"""
NEWS_MAP = """<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
 xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"
 xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
<url><loc>http://n.example/1</loc><news:news><news:publication><news:name>N</news:name></news:publication>
<news:publication_date>2008-12-23</news:publication_date>
<news:title>Companies A, B in talks</news:title></news:news></url>
<url><loc> http://n.example/2
</loc><lastmod>2005-01</lastmod><image:image><image:loc>http://n.example/p</image:loc>
<image:caption>A dam</image:caption>
</image:image><image:image><image:caption>A lock</image:caption></image:image></url></urlset>"""
MAP_INDEX = """<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>http://i.example/1.xml.gz</loc>
<lastmod>2004-10-01T18:23:17+00:00</lastmod></sitemap></sitemapindex>"""


@pytest.mark.parametrize(
    ("source", "content_type", "expected"),
    [
        (WORDPRESS, "application/rss+xml; charset=UTF-8", Text(
            "The bridge that wouldn’t close\nA gate jammed at noon.\nBoats waited.\nShort\nOnly this & that", "utf-8",
            "River News", "All about bridges & boats", lang="en-GB", published="2024-05-01T09:30:00Z",
            links=(("https://river.example", "River News"),
                   ("https://river.example/bridge/", "The bridge that wouldn’t close"),
                   ("https://river.example/short/", "Short")),
            entries=(Entry("https://river.example/bridge/", "The bridge that wouldn’t close", "2024-04-30T21:15:00Z"),
                     Entry("https://river.example/short/", "Short", "")))),
        (DRUPAL, "text/html; charset=utf-8", Text(
            "Road works\nRoad works\nFrom Monday.", "utf-8", "Council", lang="en", published="2024-04-29T12:00:00Z",
            links=(("https://council.example/en", "Council"), ("https://council.example/en/node/5", "Road works")),
            entries=(Entry("https://council.example/en/node/5", "Road works", "2024-04-29T12:00:00Z"),))),
        (HUGO, "application/xml", Text(
            "One\nFirst note.", "utf-8", "Notes", "Recent content on Notes", published="2023-12-31T23:00:00Z",
            links=(("http://notes.example/", "Notes"), ("http://notes.example/one/", "One")),
            entries=(Entry("http://notes.example/one/", "One", "2023-12-31T23:00:00Z"),))),
        (GITHUB, "application/atom+xml", Text(
            "v2: maps <K, V>\nChanges\nfaster", "utf-8", "Release notes from b", lang="en-US",
            published="2024-05-01T10:00:00Z",
            links=(("https://github.com/a/b/releases", "Release notes from b"),
                   ("https://github.com/a/b/releases/tag/v2", "v2: maps <K, V>")),
            entries=(Entry("https://github.com/a/b/releases/tag/v2", "v2: maps <K, V>", "2024-05-01T10:00:00Z"),))),
        (ATOM_XHTML, "text/xml", Text(
            "In two\none < two\nthree", "utf-8", "Less: more", "Sub", published="2003-12-13T12:29:29Z",
            links=(("https://b.example/x/y/1", "In two"),),
            entries=(Entry("https://b.example/x/y/1", "In two", "2003-12-13T12:29:29Z"),))),
        (ARXIV, "text/xml", Text(
            "Near Duplicates. (arXiv:2405.00001v1 [cs.IR])\nWe look at $x < y$.", "utf-8", "cs.IR updates on arXiv.org",
            "Computer Science -- Information Retrieval", lang="en-us", published="2024-05-02T01:30:00Z",
            links=(("http://arxiv.org/", "cs.IR updates on arXiv.org"),
                   ("http://arxiv.org/abs/2405.00001", "Near Duplicates. (arXiv:2405.00001v1 [cs.IR])")),
            entries=(Entry("http://arxiv.org/abs/2405.00001", "Near Duplicates. (arXiv:2405.00001v1 [cs.IR])", ""),))),
        (RSS_090, None, Text(
            "Status", "utf-8", "Mozilla",
            links=(("http://m.example/", "Mozilla"), ("http://m.example/status", "Status")),
            entries=(Entry("http://m.example/status", "Status", ""),))),
        (NEWS_MAP, "application/xml", Text(
            "Companies A, B in talks\nA dam\nA lock", "utf-8", published="2008-12-23T00:00:00Z",
            links=(("http://n.example/1", "Companies A, B in talks"), ("http://n.example/2", "")),
            entries=(Entry("http://n.example/1", "Companies A, B in talks", "2008-12-23T00:00:00Z"),
                     Entry("http://n.example/2", "", "2005-01-01T00:00:00Z")))),
        (MAP_INDEX, None, Text(
            "", "utf-8", published="2004-10-01T18:23:17Z", links=(("http://i.example/1.xml.gz", ""),),
            entries=(Entry("http://i.example/1.xml.gz", "", "2004-10-01T18:23:17Z"),))),
    ],
    ids=["wordpress", "drupal", "hugo", "github", "atom xhtml", "arxiv", "rss 0.9", "news and images", "index"],
)  # fmt: skip
def test_text_of_feeds_and_site_maps(source: str, content_type: str | None, expected: Text) -> None:
    assert read(source.encode(), content_type) == expected
    assert read(("\ufeff" + source).encode(), content_type) == expected
    packed = gzip.compress(source.encode()[:200]) + gzip.compress(source.encode()[200:])
    assert read(packed, "application/octet-stream") == expected
    for encoding in ("utf-16le", "utf-16be"):
        marked = read(("\ufeff" + source).encode(encoding), content_type)
        assert marked == expected._replace(charset=encoding)
        if source.startswith("<?xml"):
            assert read(source.encode(encoding), "text/xml") == marked


def test_an_ill_formed_feed_in_an_old_encoding_is_read_without_its_dtd() -> None:
    text = read(RSS_091.encode("latin-1"), "text/xml")
    assert text is not None
    assert (text.title, text.charset, text.lang) == ("Café é", "windows-1252", "fr")
    assert text.entries[0].title == "A & B" and text.entries[0].url == "http://c.example/a?b=1&c=2"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('<!DOCTYPE l [<!ENTITY a "x">\n<!ENTITY b "&a;&a;">]><rss>&b;</rss>', "declares entities in line 1"),
        ('<?xml version="1.0"?>\n<!DOCTYPE r [<!ENTITY % x SYSTEM "file:///etc/passwd">%x;]><rss/>', "in line 2"),
        ("<!DOCTYPE r [<!-- don't -->\n]><rss/>", "no root element"),
        ("<?xml version='1.0'?>\n\n<rss><a <</rss>", "in line 3"),
        ("<?xml version='1.0'?>", "no root element"),
    ],
)
def test_hostile_and_broken_xml_is_a_message_and_the_verdict_has_it(source: str, message: str) -> None:
    with pytest.raises(Unreadable, match=message):
        read(source.encode(), "application/xml")
    analysis = Kernel().analyse(source.encode(), "application/xml")
    assert not analysis.has_text and analysis.no_text.startswith("unreadable: ") and message in analysis.no_text


def test_no_file_is_read_for_an_entity_or_dtd(tmp_path: Path) -> None:
    (tmp_path / "x.dtd").write_text('<!ENTITY secret "leaked">')
    source = f'<!DOCTYPE rss SYSTEM "{tmp_path}/x.dtd"><rss><channel><title>a &secret; b</title></channel></rss>'
    text = read(source.encode(), None)
    assert text is not None and text.title == "a &secret; b"


HUGE = share(8 << 20, 16)


@pytest.mark.parametrize(
    "body",
    [
        b"<rss>" + b"<a/>" * (HUGE // 4),
        b"<rss>" + b"<a>" * (HUGE // 3),
        b"<rss><channel><item><description>" + b"&lt;p&gt;" * (HUGE // 9),
        b"<rss><channel><item><description>" + b"<p>" * (HUGE // 3),
        b"<rss><channel>" + b"<item><link>a</link></item>" * (HUGE // 27),
        b"<rss " + b"".join(b"a%x='' " % n for n in range(HUGE // 11)),
        b"<rss>" + b"&x;" * (HUGE // 3),
        b"<?xml " * (HUGE // 6),
        b"<!DOCTYPE [" * (HUGE // 11),
        gzip.compress(b"<urlset>" + bytes(HUGE * 8)),
    ],
    ids=["elements", "depth", "markup", "tags", "entries", "attributes", "references", "prolog", "doctype", "bomb"],
)
def test_hostile_documents_stay_bounded_in_time_and_memory(body: bytes) -> None:
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    try:
        text = read(body, None)
        assert text is None or len(text.entries) <= MOST_ENTRIES
    except Unreadable:
        pass
    assert time.process_time() - begun < share(20, 4)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < share(512 << 10, 4)  # KiB


@pytest.mark.parametrize(
    "piece",
    ["`", "[", "[a](", "*", "_a", "|", " ", "- ", "<", "[a]: ", "\\", "!", ">", "---\na", '[a](b "', "`a", "=\n"],
)
def test_markdown_takes_linear_time(piece: str) -> None:
    begun = time.process_time()
    readers.markdown((piece * (share(500_000, 5) // len(piece))).encode(), None)
    assert time.process_time() - begun < share(10, 5)


def test_markdown() -> None:
    source = """---
title: "Bridges of the river"
date: 2024-05-01 12:00:00 +0200
lang: en
---
A swing bridge
==============

It *opens* at **noon**, `if (a < b)` holds; see [the plan](plan.md "Plan"), [Dam][d]
and <https://r.example/>. snake_case stays, ![a map](map.png) shows.

## Parts ##
- [x] gate \\*one\\*
1. lock

> quoted
```c
x = *p & 1;
```

| part | weight |
|------|-------:|
| gate | 3 t |

[d]: /dam
"""
    for content_type in ("text/markdown; charset=utf-8", "text/x-markdown"):
        text = read(source.replace("\n", "\r\n").encode(), content_type)
        assert text is not None
        assert (text.title, text.lang, text.published) == ("Bridges of the river", "en", "2024-05-01T10:00:00Z")
        assert text.headings == "A swing bridge\nParts"
        assert text.main.split("\n") == [
            "A swing bridge",
            "It opens at noon, if (a < b) holds; see the plan, Dam and https://r.example/. "
            "snake_case stays, a map shows.",
            "Parts", "gate *one*", "lock", "quoted", "x = *p & 1;", "part weight", "gate 3 t",
        ]  # fmt: skip
        assert text.links == (("plan.md", "the plan"), ("/dam", "Dam"), ("https://r.example/", "https://r.example/"))


@pytest.mark.parametrize(
    ("line", "is_text"),
    [
        ("[^1]: note", True),
        ("[^src]: See the letters of 1931.", True),
        ("[Teacher]: The mill was sold.", True),
        ("[Teacher]: Sold.", True),
        ("[00:01]: Good evening to all.", True),
        ("[a]: b", True),
        ("[g]: https://x.example/g 'Title'", False),
        ("[g]: /dam", False),
        ("[g]: plan.md (The plan)", False),
        ("[g]: <#part>", False),
        ("   [g]: mailto:a@b.example", False),
        ("[g]: <plans/the dam.html>", False),
        (r'[g]: /dam "the \"old\" dam"', False),
        ("[ ]: https://x.example/g", True),
    ],
)
def test_a_link_definition_of_markdown_is_a_whole_line_with_an_address(line: str, is_text: bool) -> None:
    text = read(f"one\n\n{line}\n\ntwo".encode(), "text/markdown")
    assert text is not None
    assert text.main.split("\n") == ["one", *([line] if is_text else []), "two"]


@pytest.mark.parametrize(
    ("matter", "title"),
    [
        ("title: >-\n  A long title\n  on two lines\nlang: en", "A long title on two lines"),
        ("title: |\n  A long title", "A long title"),
        ("title: > # folded\n\tA title", "A title"),
        (r'title: "My \"quoted\" title" # so', 'My "quoted" title'),
        ("title: 'It''s a mill'", "It's a mill"),
        ("title: Bread # working title", "Bread"),
        ("title: C# and F#", "C# and F#"),
        ("title: A title\n  that goes on\ntags:\n  - x", "A title that goes on"),
        ("title:\nauthor:\n  name: x", "Heading"),
        ('title: "One": two', '"One": two'),
        (r'"title": "Caf\u00e9\tand\x20mill"', "Caf\u00e9 and mill"),
        ("title:\n  A title\n  below", "A title below"),
        ('title: "A title\n  in quotes"', "A title in quotes"),
        ("title: ~", "Heading"),
    ],
)
def test_titles_of_front_matter_are_read_as_yaml_has_them(matter: str, title: str) -> None:
    text = read(f"---\n{matter}\n---\n# Heading\n\ntext".encode(), "text/markdown")
    assert text is not None
    assert text.title == title


def test_front_matter_of_toml_ends_at_its_first_table() -> None:
    text = read(b'+++\n"title" = "Mill"\n[params]\ntitle = "x"\n+++\ntext', "text/markdown")
    assert text is not None
    assert text.title == "Mill"


@pytest.mark.parametrize(
    ("source", "main"),
    [
        ("[![Build](https://b.example/x.svg)](https://b.example) is it", "Build is it"),
        ("line one\\\nline two", "line one\nline two"),
        ("the end\\\\\nof it", "the end\\ of it"),
    ],
)
def test_badges_and_hard_line_ends_of_markdown_leave_no_signs(source: str, main: str) -> None:
    text = read(source.encode(), "text/markdown")
    assert text is not None
    assert text.main == main


@pytest.mark.parametrize(
    "description",
    [
        "&lt;![CDATA[&lt;p&gt;One&lt;/p&gt;&lt;p&gt;two&lt;/p&gt;]]&gt;",
        "<![CDATA[<![CDATA[<p>One</p><p>two</p>]]]]><![CDATA[>]]>",
    ],
)
def test_escaped_sections_of_feeds_are_read(description: str) -> None:
    item = f"<item><description>{description}</description></item>"
    feed = f"<rss version='2.0'><channel><title>T</title>{item}</channel></rss>"
    text = read(feed.encode(), "application/rss+xml")
    assert text is not None
    assert text.main.split("\n")[-2:] == ["One", "two"]


@pytest.mark.parametrize(
    ("body", "content_type", "main"),
    [
        (b"One  line\r\nand\x0canother\n\n", "text/plain", "One line\nand another"),
        ("naïve".encode("latin-1"), "text/plain; charset=iso-8859-1", "naïve"),
        (b"<p>kept", "text/plain", "<p>kept"),
        (b"untyped text", None, "untyped text"),
        (b"\x7fELF\x00\x01", "text/plain", None),
        (b"PK\x03\x04 zip", "text/plain", None),
        (b"body { color: red }", "text/css", None),
        (b"<svg><text>x</text></svg>", "image/svg+xml", None),
        (b"<article>x</article>", "application/xml", None),
        (gzip.compress(b"plain text in gzip", mtime=0), "text/plain", None),
        (gzip.compress(b"<urlset>", mtime=0)[:9], "application/gzip", None),
        (b"", None, None),
    ],
)
def test_plain_text_and_what_has_no_reader(body: bytes, content_type: str | None, main: str | None) -> None:
    found = Kernel().analyse(body, content_type)
    assert (found.main if found.has_text else None) == main


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Wed, 01 May 2024 12:00:00 GMT", "2024-05-01T12:00:00Z"),
        ("Thu, 1 May 24 12:00 EST", "2024-05-01T17:00:00Z"),
        ("1 May 2024 12:00:00 +0530", "2024-05-01T06:30:00Z"),
        ("May 1, 2024", "2024-05-01T00:00:00Z"),
        ("Wed May  1 12:00:00 2024", "2024-05-01T12:00:00Z"),
        ("2024", "2024-01-01T00:00:00Z"),
        ("2024-05", "2024-05-01T00:00:00Z"),
        ("20240501T120000Z", "2024-05-01T12:00:00Z"),
        ("2024-05-01 12:00:00 -04:00", "2024-05-01T16:00:00Z"),
        ("2024-05-01T12:00:00.123+0200", "2024-05-01T10:00:00Z"),
        ("2024-12-31T24:00:00Z", "2025-01-01T00:00:00Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
        ("0099-02-03", "0099-02-03T00:00:00Z"),
        ("2024-13-01", ""),
        ("05/01/2024", ""),
        ("9999-12-31T24:00Z", ""),
        ("Wed, 01 May 2024 12:00:00 +9999", ""),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_dates_of_feeds(text: str, expected: str) -> None:
    assert published_time(text) == expected


@given(
    st.text(max_size=40) | st.from_regex(r"\A[A-Z][a-z]{2}, \d{1,2} [A-Z][a-z]{2} \d{2,4} [\d:]{1,8} [-+A-Z0-9]{1,5}\Z")
)
def test_any_text_is_a_date_or_none(text: str) -> None:
    found = published_time(text)
    assert found == "" or (len(found) == 20 and found[10] == "T")


pieces = st.sampled_from(
    ["<rss>", "<feed xmlns='http://www.w3.org/2005/Atom'>", "<urlset>", "<channel>", "<item>", "<entry>", "<title>",
     "x", "<link rel='alternate' href='http://[a'/>", "<![CDATA[", "]]>", "&lt;b&gt;", "&nbsp;", "&#0;", "\0",
     "</item>", "</channel>", "</rss>", "<?xml version='1.0' encoding='utf-16'?>", "<!DOCTYPE a>", "<!--", "-->",
     "<content:encoded>", "<a:b xml:base='//[' a:c='1'>", "# x", "```", "[a](b)", "---\n", "\n", "\ue0000\ue001",
     "<script type='application/ld+json'>",
     '{"articleBody":"a b"}', "</script>"]
)  # fmt: skip


@given(
    st.lists(pieces, max_size=12).map(lambda parts: "".join(parts).encode("utf-8")) | st.binary(max_size=80),
    st.sampled_from([None, "text/xml", "text/html", "application/rss+xml; charset=utf-16le", "text/markdown",
                     "text/plain", "application/gzip", "text/plain; charset=utf-7"]),
)  # fmt: skip
@settings(max_examples=few(400, 5), deadline=None)
def test_any_body_has_a_text_or_a_stated_reason(body: bytes, content_type: str | None) -> None:
    found = Kernel().analyse(body, content_type, links=True)
    assert found.has_text or found.no_text
    packed = Kernel().analyse(gzip.compress(body, mtime=0), "application/gzip")
    assert packed.has_text or packed.no_text


ARTICLE = " ".join(f"word{number} of the article on rivers and {number * number % 97} bridges" for number in range(30))


def shell(*bodies: str, text: str = "") -> bytes:
    graph = [
        {"@type": "NewsArticle", "articleBody": body, "datePublished": "2024-05-01", "headline": "H"} for body in bodies
    ]
    script = json.dumps({"@context": "https://schema.org", "@graph": graph}).replace("</", "<\\/")
    return f'<html lang=en><body><div id=root>{text}</div><script type="application/ld+json">{script}</script>'.encode()


def test_a_shell_has_the_article_of_its_json_ld() -> None:
    plain = Kernel().analyse(f"<p>{ARTICLE}".encode(), "text/html")
    for body in (shell(ARTICLE), shell(ARTICLE, ARTICLE), shell(f"<p>{ARTICLE}</p>")):
        found = Kernel().analyse(body, "text/html")
        assert found.text_checksum == plain.text_checksum
        assert (found.title, found.lang, found.published) == ("H", "en", "2024-05-01T00:00:00Z")
        assert found.band_keys == plain.band_keys


@pytest.mark.parametrize(
    "body",
    [
        shell(ARTICLE, ARTICLE + " and another"),
        shell("only a few words"),
        shell(ARTICLE, text="own words " * 60),
        b'<p>x<script type="application/ld+json">{"articleBody": ' + b"[" * 100_000,
        shell(ARTICLE).replace(b"ld+json", b"json"),
    ],
    ids=["two articles", "few words", "own text", "deep", "other script"],
)
def test_a_page_with_text_or_several_articles_keeps_its_own(body: bytes) -> None:
    assert Kernel("visible").analyse(body, "text/html").main in ("", "x", " ".join(["own words"] * 60))


def test_a_number_of_thousands_of_digits_does_not_hide_the_article_of_a_shell() -> None:
    body = shell(ARTICLE).replace(b'"2024-05-01"', b"9" * 5000)
    assert b"9" * 5000 in body
    assert (
        Kernel("visible").analyse(body, "text/html").main == Kernel("visible").analyse(shell(ARTICLE), "text/html").main
    )


# --- the user's own vocabulary

PRESS = """
[press]
roots = ["story"]
title = ["head/title"]
text = ["body/para", "body/c:note"]
published = ["head/date"]
lang = ["@xml:lang"]
link = ["head/ref@target"]
[press.namespaces]
c = "urn:c"

[catalogue]
roots = ["rss"]
entries = ["channel/product"]
title = ["channel/name"]
[catalogue.entry]
title = ["name"]
text = ["about"]
link = ["@href"]
"""
STORY = b"""<story xml:lang="fr" xmlns:q="urn:c"><head><title>T</title><date>2024</date><ref target="http://s.example/"/></head>
<body><para>one <i>t</i>wo</para><para>three</para><q:note>not asked</q:note></body></story>"""


def test_a_vocabulary_of_the_user_comes_first() -> None:
    assert read(STORY, "text/xml") is None
    assert read(STORY, "application/x-press+xml", PRESS) == Text(
        "one two\nthree", "utf-8", "T", lang="fr", published="2024-01-01T00:00:00Z", links=(("http://s.example/", "T"),)
    )
    shop = (
        b"<rss><channel><name>S</name><product href='/1'><name>Pot</name><about>a pot</about></product></channel></rss>"
    )
    found = read(shop, None, PRESS)
    assert found is not None and (found.main, found.entries) == ("Pot\na pot", (Entry("/1", "Pot", ""),))


def test_a_path_finds_the_namespace_that_its_prefix_is_declared_for() -> None:
    source = "[x]\nroots = ['x']\ntitle = ['c:name']\ntext = ['dc:description']\nlang = ['@xml:lang']\n"
    vocabulary = source + "[x.namespaces]\nc = 'urn:c&d'\ndc = 'urn:other'"
    documents = (
        "<x xmlns:q='urn:c&amp;d' xmlns:o='urn:other' xml:lang='fr'><q:name>N</q:name>"
        "<o:description>D</o:description></x>",
        "<x xml:lang='fr'><c:name>N</c:name><dc:description>D</dc:description></x>",
        "<x xmlns:c='urn:of-the-document' xml:lang='fr'><c:name>N</c:name><dc:description>D</dc:description></x>",
    )
    for document in documents:
        assert read(document.encode(), "text/xml", vocabulary) == Text("D", "utf-8", "N", lang="fr"), document


def test_a_column_is_read_from_the_elements_with_its_key() -> None:
    source = """[x]
roots = ['record']
title = ['field[TITLE=]', 'name']
published = ['field[DATE=]']
text = ['field[NOTE=]']
description = ['about@of[topic=]']"""
    document = b"""<record><name>other</name><field>DATE = 2024-05-01</field><field>TITLE=A = B</field>
        <field>NOTE=one</field><field>NOTES=not</field><field>NOTE</field><field>NOTE=two &amp; three</field>
        <about of="topic=rivers"/><about of="rivers"/></record>"""
    assert read(document, "text/xml", source) == Text(
        "one\ntwo & three", "utf-8", "A = B", description="rivers", published="2024-05-01T00:00:00Z"
    )


def test_a_column_is_read_from_the_elements_whose_attribute_names_it() -> None:
    # Solr's form of documents: https://solr.apache.org/guide/solr/latest/indexing-guide/indexing-with-update-handlers.html
    source = """[x]
roots = ['add']
entries = ['doc']
[x.entry]
title = ['field[name=title]', 'field']
text = ['field[name=body]', 'field[name=note]']
link = ['field[name=id]@href', 'field[name=url]']"""
    document = b"""<add><doc><field name="other">not</field><field name="title">A</field><field name="note">not</field>
        <field name=" body ">one</field><field name="body">two</field><field name="url">http://a.example/</field></doc>
        <doc><field>plain</field><field name="Title">not</field><field name="note">three</field></doc></add>"""
    found = read(document, "text/xml", source)
    assert found is not None
    assert found.main == "A\none\ntwo\nplain\nthree"
    assert found.links == (("http://a.example/", "A"),)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x", "not TOML"),
        ("x = 1", r"must be a table"),
        ("[x]\ntitle = ['a']", "names no root"),
        ("[x]\nroots = ['a']\nname = ['b']", r"x\.name: no such field"),
        ("[x]\nroots = ['a']\ntitle = 'b'", "must be a list of paths"),
        ("[x]\nroots = ['a']\nentries = ['b']", "needs both"),
        ("[x]\nroots = ['a']\ntitle = ['b/geo:c']", r"x\.title: the prefix 'geo' of the path 'b/geo:c' is not"),
        ("[x]\nroots = ['a']\ntitle = ['b@geo:c']", r"declared are atom, .* xml; add \[x\.namespaces\] with geo ="),
        ("[x]\nroots = ['a']\nentries = ['g:b']\n[x.entry]\ntitle = ['c']", r"x\.entries: the prefix 'g'"),
        ("[x]\nroots = ['a']\nentries = ['b']\n[x.entry]\ntitle = ['g:c']", r"x\.entry\.title: the prefix 'g'"),
        ("[x]\nroots = ['dc:a']", r"x\.roots: write the root 'dc:a' without its prefix"),
        ("[x]\nroots = ['a']\n[x.namespaces]\ngeo = 1", r"\[x\.namespaces\] must map"),
        ("[x]\nroots = ['a']\n[x.namespaces]\nxmlns = 'urn:a'", r"\[x\.namespaces\] must map"),
    ],
)
def test_a_bad_vocabulary_is_refused_by_name(source: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=message):
        parse(source)
    with pytest.raises(InvalidArgument, match=message):
        docstore.open(tmp_path / "s", create=True, schema=docstore.Schema(vocabulary=source))
    assert not (tmp_path / "s" / "FORMAT").exists()


# --- in a store


def feed(*items: tuple[str, str, str], title: str = "Blog") -> bytes:
    listed = "".join(
        f"<item><title>{name}</title><link>{url}</link><description><![CDATA[<p>{text}</p>]]></description></item>"
        for name, url, text in items
    )
    return f"<rss version='2.0'><channel><title>{title}</title>{listed}</channel></rss>".encode()


REJECTING = docstore.Schema(policies={"exact": "reject", "same_text": "reject", "near": "reject-any"})


def page_of(name: str, body: bytes, kind: str) -> docstore.Page:
    return docstore.Page(f"https://a.example/{name}", body, headers=(("Content-Type", kind),))


@pytest.mark.parametrize("feed_first", [True, False])
@pytest.mark.parametrize("in_one_group", [True, False])
def test_a_feed_and_its_article_are_no_duplicates_of_each_other(
    tmp_path: Path, feed_first: bool, in_one_group: bool
) -> None:
    rss = page_of("feed", feed(("Bridges", "/1", ARTICLE)), "text/xml")
    html = page_of("1", f"<title>Blog</title><h1>Bridges</h1><p>{ARTICLE}".encode(), "text/html")
    other = page_of("feed2", feed(("Bridges", "/1", ARTICLE + " edited")), "text/xml")
    pages = [rss, html, other] if feed_first else [html, rss, other]
    groups = [pages] if in_one_group else [[page] for page in pages]
    with docstore.open(tmp_path / "s", create=True, schema=REJECTING, durability="none") as store:
        found = {result.url: result for group in groups for result in store.put_pages(group)}
        assert [(found[page.url].verdict.kind, found[page.url].stored) for page in (rss, html, other)] == [
            (VerdictKind.NEW, "body"),
            (VerdictKind.NEW, "body"),
            (VerdictKind.NEAR, "rejected"),
        ]
        assert found[other.url].verdict.of_url == rss.url
        assert found[rss.url].verdict.reason == ""  # the name of a feed is not in its entries
        assert store.similar(html.url) == [] == store.similar(rss.url)
        assert [one.url for one in store.similar(feed(("Bridges", "/1", ARTICLE + " again")))] == [rss.url]
        store.delete(rss.url)
        assert store.put_page(other.url, other.body, headers=other.headers).verdict.kind is VerdictKind.NEW


def test_a_sweep_makes_no_cluster_of_a_feed_and_its_article(tmp_path: Path) -> None:
    bodies = {
        "feed": (feed(("Bridges", "/1", ARTICLE), title="Bridges"), "text/xml"),
        "atom": (feed(("Bridges", "/1", ARTICLE), title="Bridges ").replace(b"2.0", b"0.92"), "text/xml"),
        "1": (f"<title>Bridges</title><h1>Bridges</h1><p>{ARTICLE}".encode(), "text/html"),
        "2": (f"<title>Bridges</title><h2>Bridges</h2><p>{ARTICLE}".encode(), "text/html"),
    }
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        for name, (body, kind) in bodies.items():
            store.put_page(f"https://a.example/{name}", body, headers=(("Content-Type", kind),))
        for text in (None, "visible"):
            pairs = tmp_path / "pairs"
            sweep(store, SweepOptions(pairs=pairs, text=text))
            names = {
                tuple(sorted(url.rpartition("/")[2] for url in line.split()[:3:2]))
                for line in pairs.read_text().splitlines()
            }
            assert names == {("atom", "feed"), ("1", "2")}


def test_documents_of_every_kind_go_through_the_terminal(run: Terminal, tmp_path: Path) -> None:
    (tmp_path / "press.toml").write_text(PRESS.partition("[catalogue]")[0])
    assert "cannot read the vocabulary" in run("init", "--vocabulary", str(tmp_path / "none")).err
    assert run("init", "--vocabulary", str(tmp_path / "press.toml")).code == 0
    documents = {
        "feed": (feed(("Bridges", "/1", ARTICLE)), "application/rss+xml", "new"),
        "feed2": (feed(("Bridges", "/1", ARTICLE + " edited")), "text/xml", "near"),
        "sitemap.xml": (NEWS_MAP.encode(), "application/xml", "new"),
        "a.md": (f"# Bridges\n\n{ARTICLE}".encode(), "text/markdown", "new"),
        "a.txt": (f"Bridges\n\n{ARTICLE} edited".encode(), "text/plain", "near"),
        "story": (STORY, "text/xml", "new"),
        "evil": (b"<!DOCTYPE a [<!ENTITY b 'c'>]><rss/>", "text/xml", "new"),
    }
    for name, (body, kind, verdict) in documents.items():
        (tmp_path / "body").write_bytes(body)
        words = (f"https://a.example/{name}", str(tmp_path / "body"), "--header", f"Content-Type: {kind}", "--json")
        answer = run("put", *words).object()
        assert answer["verdict"]["kind"] == verdict, answer
        if name == "evil":
            assert answer["verdict"]["reason"].startswith("unreadable: the XML declares entities in line 1")
    shown = run("get", "https://a.example/sitemap.xml", "--json").object()
    assert shown["published"] == "2008-12-23T00:00:00Z" and shown["entries"][1]["url"] == "http://n.example/2"
    assert run("get", "https://a.example/a.md", "--json").object()["headings"] == "Bridges"
    assert run("get", "https://a.example/story", "--json").object()["text"] == "one two\nthree"
    for name, of in (("feed", "feed2"), ("a.md", "a.txt")):
        assert [one["url"] for one in run("dups", f"https://a.example/{name}", "--json").objects()] == [
            f"https://a.example/{of}"
        ]
    assert run("check").code == 0


@pytest.mark.parametrize("reader", [False, True], ids=["this process", "a second process"])
def test_an_archive_of_feeds_is_ingested_with_the_vocabulary_of_the_store(tmp_path: Path, reader: bool) -> None:
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n\r\n"
    rss = feed(("Bridges", "1?a", ARTICLE), ("Boats", "http://b.example/", "short"))
    records = [record(block + rss, "http://a.example/x/feed"), record(block + STORY, "http://a.example/story")]
    (tmp_path / "a.warc").write_bytes(b"".join(records))
    schema = docstore.Schema(vocabulary=PRESS.partition("[catalogue]")[0])
    with docstore.open(tmp_path / "s", create=True, schema=schema, durability="none") as store:
        ingest(store, [str(tmp_path / "a.warc")], IngestOptions(reader=reader, anchors=True))
        found = store.get("http://a.example/story")
        assert found is not None and (found.text, found.title) == ("one two\nthree", "T")
        for target, text in (("http://a.example/x/1?a", "Bridges"), ("http://b.example/", "Boats")):
            row = store.cells.read_row(target)
            assert row is not None
            assert [(one.qualifier, one.value) for one in row.cells] == [(b"http://a.example/x/feed", text.encode())]
    with docstore.open(tmp_path / "s") as store:
        assert store.schema == schema


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mon Sep 29 00:41:50 BST 2008", "2008-09-28T23:41:50Z"),  # a feed of a course on retrieval
        ("Wed, 01 May 2024 08:00:00 CEST", "2024-05-01T06:00:00Z"),
        ("Wed, 01 May 2024 08:00:00 CET", "2024-05-01T07:00:00Z"),
        ("Wed, 01 May 2024 08:00 JST", "2024-04-30T23:00:00Z"),
        ("Wed, 01 May 2024 08:00:00 EDT", "2024-05-01T12:00:00Z"),
        ("Wed, 01 May 2024 08:00:00 +0200 (CEST)", "2024-05-01T06:00:00Z"),
        ("Wed, 01 May 2024 08:00:00 IST", "2024-05-01T08:00:00Z"),  # of India, Israel or Ireland: read as UTC
    ],
)
def test_names_of_zones_in_dates_of_feeds(text: str, expected: str) -> None:
    assert published_time(text) == expected


STRAY = (  # shown by readers of feeds and site maps: feedparser, ultimate-sitemap-parser
    ("Q&A at AT&T", "Q&A at AT&T"),
    ("Q&amp;A at AT&amp;T", "Q&A at AT&T"),
    ("a &b=1 &amp;c &#38; &#x26;", "a &b=1 &c & &"),
    ("caf&eacute; &nosuch; &#x2014;", "caf\u00e9 &nosuch; \u2014"),
    ("3 < 4 <5 &#1; &#55296; &#9999999999;", "3 < 4 <5 \ufffd \ufffd \ufffd"),
    ("<![CDATA[R&D &nbsp;3 < 4]]>", "R&D 3 < 4"),
    ("x<!-- a & b < c -->y", "xy"),
)


def test_stray_characters_of_xml_are_text_and_harm_no_other_entry() -> None:
    entries = [
        (f"https://a.example/?n={n}{{}}copy=5{{}}page=3", title, plain) for n, (title, plain) in enumerate(STRAY)
    ]
    for mark in ("&", "&amp;"):
        items = "".join(f"<item><title>{t}</title><link>{u.format(mark, mark)}</link></item>" for u, t, _ in entries)
        feed = read(f"<rss><channel><title>T&T</title>{items}</channel></rss>".encode(), "text/xml")
        assert feed is not None
        assert feed.title == "T&T"
        expected = [(url.format("&", "&"), plain) for url, _, plain in entries]
        assert [(entry.url, entry.title) for entry in feed.entries] == expected
        urls = "".join(f"<url><loc>{url.format(mark, '&amp;')}</loc></url>" for url, _, _ in entries)
        site_map = read(f"<urlset>{urls}</urlset>".encode(), "text/xml")
        assert site_map is not None
        assert [entry.url for entry in site_map.entries] == [url for url, _ in expected]


@pytest.mark.parametrize("wrong", ["A<B & C>D", "one<br>two", "<b>one<i></b>two</i>", "a</p>b", "</item><item>", "<z>"])
def test_a_missing_or_wrong_tag_of_xml_harms_no_other_entry(wrong: str) -> None:
    rest = "<link>https://a.example/{0}</link><description>text {0}</description></item>"
    items = "".join(
        f"<item><title>{title}</title>{rest.format(n)}" for n, title in enumerate(["first", f"{wrong} second", "third"])
    )
    feed = read(f"<rss><channel><title>T</title>{items}</channel></rss>".encode(), "text/xml")
    assert feed is not None
    entries = {entry.url: entry.title for entry in feed.entries}
    assert [entries[f"https://a.example/{n}"] for n in (0, 2)] == ["first", "third"]
    assert f"https://a.example/{1}" in entries
    locations = [f"<url><loc>https://a.example/{n}{wrong if n == 1 else ''}</loc></url>" for n in range(3)]
    site_map = read(f"<urlset>{''.join(locations)}</urlset>".encode(), "text/xml")
    assert site_map is not None
    assert {"https://a.example/0", "https://a.example/2"} < {entry.url for entry in site_map.entries}


def test_an_entry_without_an_end_tag_ends_where_the_next_begins() -> None:
    site_map = read(b"<urlset><url><loc>/a</loc></ur><url><loc>/b</loc><url><loc>/c</loc></url></urlset>", "text/xml")
    assert site_map is not None
    assert [entry.url for entry in site_map.entries] == ["/a", "/b", "/c"]


def test_tags_without_an_end_at_every_depth_take_linear_time() -> None:
    feed = "<rss><channel><title>T</title>" + "<item><title>a<br></title></item>" * 2_000
    found = read(feed.encode(), "text/xml")
    assert found is not None and len(found.entries) == 2_000
    begun = time.process_time()
    found = read(b"<rss><channel><title>T</title>" + b'<a b="' * 50_000, "text/xml")
    assert found is not None and found.title == "T"
    assert time.process_time() - begun < share(10, 5)


def test_unclosed_parts_of_xml_are_mended_in_linear_time() -> None:
    for part in ("<![CDATA[ & ", "<!-- & ", "<? & ", "& < "):
        text = read(b"<rss><channel><title>T</title><item><title>a" + part.encode() * 50_000, "text/xml")
        assert text is not None and text.title == "T"
