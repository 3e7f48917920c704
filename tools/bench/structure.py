"""Lists and tables that main text keeps in part, and headings that it keeps, of real pages.

    python -m tools.bench.structure parts CRAWL.warc.gz
    python -m tools.bench.structure headings WCXB_DIR CRAWL.warc.gz

`parts` counts the lists, tables and lists of definitions of a crawl that have two cells or more, all short, without
headings, forms, other lists and tables, and of which at most half is links, unless each row with a link has other
words, too: how many are kept, and how many in part, by the blocks of `docstore get --explain`.

`headings` reads `headings.tsv`, next to this file: headings of pages of WCXB's development split and of the sample
crawl, drawn by chance, each with 1 if it belongs to the content of its page and 0 if not, by eye.  Those of 66 sites
were looked at while the rules were made; those of 33 other sites of WCXB, marked `unseen`, were labelled before and are
looked at by nobody.  It tells which share of either kind each extractor gives as headings of its Markdown.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from lxml import html
from warcio.archiveiterator import ArchiveIterator

from docstore.compiled import docstore_native
from docstore.dedup.kernel import Kernel
from tools.bench.harness import Section, run_commands

LABELS: Final = Path(__file__).with_name("headings.tsv")
KERNEL: Final = Kernel("scored")
LONGEST_CELL: Final = 240
LEAST_LETTERS: Final = 4
WHOLES: Final = ("ul", "ol", "dl", "table")
OTHERS: Final = {*WHOLES, "form", "pre", "blockquote", "figure", "h1", "h2", "h3", "h4", "h5", "h6"}
_HEADING: Final = re.compile(r"[\s>*+-]*(?:\d+[.)]\s+)?#{1,6}\s+(.*)")
_TAG: Final = re.compile(r"</?su[bp]>")
_LINK: Final = re.compile(r"!?\[((?:[^\[\]\\]|\\.)*)\]\([^()]*\)")


def letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()


def pages_of(crawl: Path) -> Iterator[tuple[str, bytes]]:
    with crawl.open("rb") as file:
        for record in ArchiveIterator(file):
            body = record.content_stream().read() if record.rec_type == "response" else b""
            if body.strip() and docstore_native.is_html(body, "text/html"):
                yield record.rec_headers.get_header("WARC-Target-URI"), body


def cells_of(whole: Any) -> list[str] | None:
    """The texts of the cells of a list or table; None if it is not one that is kept as a whole."""
    if any(element.tag in OTHERS for element in whole.iterdescendants() if isinstance(element.tag, str)):
        return None
    cells = list(whole.iter("li", "td", "th", "dt", "dd"))
    texts = [" ".join(cell.text_content().split()) for cell in cells]
    if (
        sum(map(bool, texts)) < 2
        or any(len(text) > LONGEST_CELL for text in texts)
        or any(len(c.findall(".//p")) > 1 for c in cells)
    ):
        return None
    links = sum(len(letters(link.text_content())) for link in whole.iter("a") if link.get("href"))
    if links * 2 > len(letters("".join(texts))):
        rows = [*whole.iter("tr")] if whole.tag == "table" else [*whole.iter("li")]
        for row in rows or [whole]:
            linked = "".join(link.text_content() for link in row.iter("a") if link.get("href"))
            if linked.strip() and len(letters(linked)) == len(letters(row.text_content())):
                return None
    return texts


def states_of(source: str) -> Iterator[tuple[str, str]]:
    """Of each such list or table of a page: "list" or "table", and what is kept of it."""
    blocks = [(letters(text), is_kept) for text, is_kept, *_ in docstore_native.explain(source, "scored")]
    ends = list(accumulate(len(text) for text, _ in blocks))
    whole_text, cursor = "".join(text for text, _ in blocks), 0
    root = html.fromstring(source.encode(), parser=html.HTMLParser(encoding="utf-8"))
    for whole in root.iter(*WHOLES):
        text = "".join(map(letters, cells_of(whole) or ()))
        start = whole_text.find(text, cursor) if len(text) >= LEAST_LETTERS else -1
        if start < 0:
            continue
        cursor = start + len(text)
        found = [
            is_kept
            for (own, is_kept), end in zip(blocks, ends, strict=True)
            if own and start < end and end - len(own) < cursor
        ]
        state = "whole" if all(found) else "in part" if any(found) else "left out"
        yield "table" if whole.tag == "table" else "list", state


def parts(crawl: Path) -> Section:
    """Lists and tables of a crawl that are kept in part."""
    counts: Counter[tuple[str, str]] = Counter()
    for _, body in pages_of(crawl):
        counts.update(states_of(docstore_native.decode(body, "text/html")[1]))
    states = ("whole", "in part", "left out")
    rows: list[Sequence[str]] = [[kind, *(str(counts[kind, state]) for state in states)] for kind in ("list", "table")]
    command = "python -m tools.bench.structure parts CRAWL.warc.gz"
    return Section("Lists and tables of short cells", command, ["kind", *states], rows)


def headings_of(markdown: str) -> list[str]:
    found = (_HEADING.match(line) for line in markdown.split("\n"))
    return [letters(_TAG.sub("", _LINK.sub(r"\1", match[1]))) for match in found if match]


def headings(data: Path, crawl: Path) -> Section:
    """Shares of the labelled headings that are headings in Markdown."""
    makers: dict[str, Callable[[bytes], str]] = {
        "docstore": lambda body: docstore_native.markdown(
            body, "text/html", "https://x.example/", KERNEL.analyse(body, None).main
        )
    }
    try:
        from trafilatura import extract

        makers["trafilatura"] = lambda body: extract(body, output_format="markdown", include_comments=False) or ""
    except ImportError:
        pass
    bodies = dict(pages_of(crawl))
    labels = [line.split("\t") for line in LABELS.read_text("utf-8").splitlines()]
    rows: list[Sequence[str]] = []
    for name, make in makers.items():
        kept, all_of = Counter[tuple[bool, str]](), Counter[tuple[bool, str]]()
        for where, page, _, text, label in labels:
            body = (
                bodies[page]
                if where == "crawl"
                else gzip.decompress((data / "dev" / "html" / f"{page}.html.gz").read_bytes())
            )
            wanted = letters(text)
            group = (where == "unseen", label)
            all_of[group] += 1
            kept[group] += any(heading.startswith(wanted[:80]) for heading in headings_of(make(body)))
        groups = [(is_unseen, label) for is_unseen in (False, True) for label in "10"]
        rows.append(
            [name, *(f"{kept[group]} of {all_of[group]}, {kept[group] / all_of[group]:.2f}" for group in groups)]
        )
    command = "python -m tools.bench.structure headings WCXB_DIR CRAWL.warc.gz"
    columns = ["by", "of content", "others", "of content, unseen", "others, unseen"]
    return Section("Headings of content, and others", command, columns, rows)


if __name__ == "__main__":
    run_commands(parts, headings)
