"""Main text as Markdown: what holds for any page; `tests/cases/text/markdown.txt` has the rules."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cli_case import Terminal
from markdown_it import MarkdownIt

import docstore
from docstore.compiled import docstore_native
from docstore.dedup.kernel import Kernel, words
from docstore.model import keys

HTML = "text/html; charset=utf-8"
URL = "https://example.com/docs/page?q=1"
KERNELS = {name: Kernel(name) for name in ("visible", "combined", "scored")}


def markdown(source: str, extractor: str = "visible", url: str = URL) -> str:
    body = source.encode()
    return docstore_native.markdown(body, HTML, url, KERNELS[extractor].analyse(body, HTML).main)


def shown(text: str) -> str:
    """The text that a reader of Markdown sees, blocks on lines of their own."""
    lines: list[str] = []
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        assert token.type not in ("html_block", "html_inline", "reference"), token
        if token.type in ("fence", "code_block"):
            lines.append(token.content)
        elif token.type == "inline":
            line = ""
            for one in token.children or ():
                assert one.type != "html_inline", token.content
                line += one.content if one.type in ("text", "code_inline") else " " * one.type.endswith("break")
            lines.append(line)
    return "\n".join(lines)


PAGE = """<title>Walks</title><nav><ul><li><a href=/>Home</a><li><a href=/b>Other walks</a></ul></nav><main>
<h1>Walks</h1>
<p>The walk over the hill was long, and the weather was as good as it can be in autumn, with a low sun behind us.</p>
<img src=a.png alt="The hill"><p>We came down in the evening, tired, and had supper at the inn by the river.</p></main>
<img src=b.png alt="An advert"><footer><p>Copyright, imprint, <a href=/c>contact</a></footer>"""


def test_other_documents_are_paragraphs_of_their_lines() -> None:
    assert docstore_native.markdown(b"", "text/plain", URL, "# a\nb & <c>\n\n") == "\\# a\n\nb & \\<c>\n"
    assert docstore_native.markdown(PAGE.encode(), HTML, URL, "another text") == "another text\n"
    assert docstore_native.markdown(b"<p>", HTML, URL, "") == ""


@pytest.mark.parametrize(
    "reference",
    ["", "a", "../b/./c/..", "/d//e", "//f.example/g", "?h=1", " l\n", "../../../m", "n?o=/../p",
     "https://q.example/r(s)", "\u00e9/\u4e2d", "%20", "t\\u"],
)  # fmt: skip
def test_addresses_are_resolved_as_those_of_links(reference: str) -> None:
    resolved = keys.resolve(URL, reference)
    assert markdown(f'<a href="{reference}">x</a>') == f"[x]({resolved})\n"


# --- any page

_TEXTS = [
    "word", "Two words ", " three", "a_b", "_c_", "*", "**", "`", "``", "#", "1.", "2)", "-", "---", "+ x", "[a]",
    "](b)", "[c]: d", "!", "&lt;b&gt;", "&amp;lt;", "\\", "~~", "|", "| - |", "=", "===", ">", "\u00e9\u4e2d",
    "x\n\n    y", "&nbsp;", ":", "$5", "http://e.example/f_g*h", "\t", "```", "[ ] t", "&#42;", "(p)",
    "\u201cq\u201d", "1986.",
]  # fmt: skip
_NAMES = [
    "p", "div", "h1", "h3", "ul", "ol", "li", "b", "i", "em", "strong", "code", "a href=x", "a href=#y", "pre",
    "blockquote", "table", "tr", "td", "th colspan=2", "td rowspan=3", "dl", "dt", "dd", "br", "span", "s",
    "section", "section", "ol start=7", "pre class=language-py", "hr", "caption", "thead", "tbody", "q", "small",
]  # fmt: skip


def hostile(chance: random.Random, length: int) -> str:
    parts = []
    for _ in range(length):
        name = chance.choice(_NAMES)
        kind = chance.random()
        if kind < 0.45:
            parts.append(chance.choice(_TEXTS))
        elif kind < 0.75:
            parts.append(f"<{name}>")
        else:
            parts.append(f"</{name.partition(' ')[0]}>")
    return "".join(parts)


@pytest.mark.parametrize("seed", range(12))
def test_markdown_reads_as_the_words_of_the_main_text(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(150):
        source = hostile(chance, chance.randrange(1, 60))
        made = markdown(source)
        text = KERNELS["visible"].analyse(source.encode(), HTML).main
        assert words(shown(made)) == words(text), (source, made)


_SENTENCES = [
    f"The {place} of the {thing} lies where the road to the {other} crosses the old railway line of the valley."
    for place in ("mill", "inn", "school")
    for thing, other in (("hamlet", "lake"), ("village", "hill"), ("parish", "castle"))
]
_PARTS = [
    "<p>{0} {1}</p>", "<p>{0} <b>{1}</b> {2}</p>", "<p>{0}</p><p>{1}", "<div>{0}<br>{1}</div>",
    "<h2 id=x>A heading <a class=headerlink href=#x>¶</a></h2><p>{0}</p>",
    "<h3>Part<span>[<a href='/w?action=edit'>edit</a>]</span></h3><p>{0} <a href=/y>{1}</a></p>",
    "<div hidden>{0}</div>", "<p>{0} <span style='display:none'>{1}</span></p>", "<p aria-hidden=true>{2}</p>",
    "<p class=byline>By Ann Lee, <time>3 May 2021</time>, 3 days ago</p><p>{0}",
    "<ul><li>{0}<li><p>{1}</p><ul><li>{2}</ul></ul>", "<blockquote>{0}<p>{1}</blockquote>",
    "<table><tr><th>A<th>B<tr><td>{0}<td>7<tr><td>{1}<td></table>", "<dl><dt>{0}<dd>{1}</dl>",
    "<nav><a href=/a>One</a> <a href=/b>Two</a></nav>", "<footer>Copyright 2020, all rights reserved</footer>",
    "<aside class=related><a href=/c>{0}</a></aside>", "<p>{0} <x-y>{1}</x-y> {2}</p>",
    "<p><a class=card href=/d>{0}</a> <span class=ad>{1}</span></p>", "<a href=/e><h3>Card</h3><p>{0}</p></a>",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_what_an_extractor_leaves_out_is_not_in_the_markdown(seed: int) -> None:
    chance = random.Random(seed)
    shorter = 0
    for _ in range(60):
        parts = [part.format(*chance.choices(_SENTENCES, k=3)) for part in chance.choices(_PARTS, k=12)]
        source = "<title>The valley</title><main>" + "".join(parts)
        for kernel in KERNELS.values():
            text = kernel.analyse(source.encode(), HTML).main
            made = docstore_native.markdown(source.encode(), HTML, URL, text)
            assert words(shown(made)) == words(text), (source, made)
            shorter += len(text) < len(KERNELS["visible"].analyse(source.encode(), HTML).main)
    assert shorter > 60


@pytest.mark.parametrize(
    "part",
    [
        "<ul><li>", "<blockquote>", "<b><div>", "<table><tr><td>", "<td rowspan=999 colspan=20>x", "<pre>",
        "</div>", "<b></i>", "`", "\\(", "<math>", "<a href=#x>", "<dl><dd><dt>x", "- x<br>", "<tr><td>x|<th>y",
        "<p><img src=x alt=y>", "<div><p>x", "</b>", "<li>x<p>y", "<pre>```", "<i>a<b>c</i>", "<a href='(\n'>x</a>",
        "<a href='javascript:x'>y", "<math>x<annotation encoding=tex>y", "</math>", "<h1>x", "<dt>", "<th>",
        "<span class=MathJax>", "<code>x", "<table>", f"<div class='{'x' * 3000}'><pre>y</pre>", "<img alt='`]('>x",
    ],
)  # fmt: skip
def test_hostile_pages_take_linear_time_and_room(part: str) -> None:
    def seconds(count: int) -> float:
        body = ("mathjax katex<table><td>a<td>b</table><p>word " + part * count + " word").encode()
        text = KERNELS["visible"].analyse(body, HTML).main
        began = time.process_time()
        made = docstore_native.markdown(body, HTML, URL, text)
        assert len(made) < 60 * len(body) + 1000
        return time.process_time() - began

    count = 2_000 if len(part) < 1000 else 100
    assert seconds(count * 16) < 16 * 8 * max(seconds(count), 0.0005)


# --- where it is given


def test_markdown_is_given_by_the_store_the_command_line_and_exports(run: Terminal, tmp_path: Path) -> None:
    headers = (("Content-Type", "text/html; charset=utf-8"),)
    with docstore.open(tmp_path / "store", create=True) as store:
        store.put_page(URL, PAGE.encode(), headers=headers, fetched_at=10**15)
        store.put_page("https://example.com/x.md", b"# A\n\n* b *c*\n", headers=(("Content-Type", "text/markdown"),))
        store.put_page("https://example.com/text", PAGE.encode(), headers=headers, keep_body=False)
        made = store.markdown(URL)
        assert made is not None and made == markdown(PAGE, "scored")
        document = store.get(URL)
        assert document is not None and document.markdown == made
        assert store.markdown(URL, at=10**14) is None and store.markdown("https://example.com/absent") is None
        assert store.markdown("https://example.com/x.md") == "# A\n\n* b *c*\n"
        assert str(store.markdown("https://example.com/text")).startswith("Walks\n\nThe walk")
        shown_titles = store.get(URL, families=("dedup",))
        assert shown_titles is not None and shown_titles.markdown is None
        [row] = store.to_arrow(["markdown"], docstore.Selection(prefix=URL)).read_all().to_pylist()
        assert row == {"markdown": made}
    assert run("get", URL, "--markdown").out == made
    assert run("get", URL, "--markdown", "--json").object()["markdown"] == made
    assert run("export", "--format", "jsonl", "--markdown", "--prefix", URL).object()["markdown"] == made
    parquet = tmp_path / "pages.parquet"
    assert run("export", "--format", "parquet", "--markdown", "--output", str(parquet)).code == 0
    assert made in pq.read_table(parquet)["markdown"].to_pylist()
    warc = str(tmp_path / "x.warc")
    assert "--markdown needs" in run("export", "--format", "warc", "--markdown", "--output", warc).err
