"""The rules of verdicts, a few pages a rule: each case of `tests/cases/verdicts/*.txt`, by its name.

    pytest tests/cases -k "oldest"      # the cases whose names have the word

A case is pages that are written one after the other, each committed before the next::

    ==== The oldest of equal pages is named, whenever it was written
    a.example/1 @9 | Lamp | 1 80
    b.example/1 @5 | Lamp | 1 80 => exact a.example/1

A line has the URL, a status if it is not 200, and "@" with the time if pages do not come in its order; the title; the
text; and behind "=>" the verdict: its kind, reason and the page that it names, or that a new page contains.  The title
"list" makes a site map of pages, "bytes" a body that is no page.  Parts of a text are joined by "+": "1 80" is 80 words
of seed 1, "1 80 ~ 3" has three of them changed, anything else is text as it stands.  "- URL" deletes a page, "! URL"
makes its body unreadable.  The core is the real one; pages and postings are in dictionaries.
"""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from memory_hbase import key_rows

from docstore.cluster.rowindex import RowIndex
from docstore.compiled import docstore_native
from docstore.dedup.index import NewPostings
from docstore.dedup.kernel import Kernel, visible_words
from docstore.model.analysis import Analysis
from docstore.model.choices import Durability
from docstore.model.format import VERDICT_KINDS
from docstore.model.keys import row_key, url_of
from docstore.model.types import Schema
from tests.pages import changed, page, words

FOLDER = Path(__file__).parent / "verdicts"
BODIES = {"{blank}": b"\xef\xbb\xbf \n", "{binary}": b"\x00\x01\x02\x03 nothing reads this"}


class Case(NamedTuple):
    name: str
    lines: list[str]


def cases() -> Iterator[Case]:
    for path in sorted(FOLDER.glob("*.txt")):
        _, *parts = re.split(r"^==== ", path.read_text("utf-8"), flags=re.M)
        for part in parts:
            name, *lines = part.strip().split("\n")
            yield Case(f"{path.stem}: {name}", lines)


class Pages:
    """Pages, postings and texts in dictionaries, for the core."""

    def __init__(self) -> None:
        self.texts = RowIndex(key_rows())
        self.new = NewPostings()
        self.rows: dict[bytes, list[bytes]] = {}
        self.pages: dict[tuple[int, bytes], tuple[Analysis, int, bytes]] = {}
        self.unreadable: set[bytes] = set()

    def postings(self, rows: list[bytes], limit: int) -> list[list[bytes]]:
        return [self.rows.get(row, [])[:limit] for row in rows]

    def postings_after(self, row: bytes, after: bytes, most: int) -> list[bytes]:
        return [each for each in self.rows.get(row, []) if each > after][:most]

    def page(self, timestamp: int, row_key: bytes) -> docstore_native.PageFields | None:
        if (timestamp, row_key) not in self.pages:
            return None
        one, status, _ = self.pages[timestamp, row_key]
        title = one.title.encode()
        return one.body_checksum, one.text_checksum, one.sketch, one.shingle_count, status, bool(one.entries), title, {}

    def value(self, name: str, timestamp: int, row_key: bytes, columns: object) -> bytes | None:
        one, _, body = self.pages[timestamp, row_key]
        return {"title": one.title.encode(), "main": one.main_bytes, "body": body}[name]

    def is_readable(self, timestamp: int, row_key: bytes, columns: object) -> bool:
        return row_key not in self.unreadable

    def newest(self, row_key: bytes) -> int | None:
        return max((at for at, row in self.pages if row == row_key), default=None)

    def visible_words(self, body: bytes) -> int:
        return visible_words(body)

    def propose(self, query: docstore_native.IndexQuery) -> docstore_native.Proposal:
        return self.texts.propose(query, self.new)

    def post(self, query: docstore_native.IndexQuery, proposal: docstore_native.Proposal) -> None:
        self.texts.post(self.new, query, proposal)


class Judge:
    """The core over such pages, each of which is committed before the next one is judged."""

    def __init__(self, *, caches: bool = True) -> None:
        schema = Schema()
        self.kernel = Kernel("visible")
        rules = schema.near_threshold, schema.contained_threshold, schema.similar_threshold, True
        share = 1 << 20 if caches else 0
        self.core = docstore_native.Core(rules, self.kernel.native, (share, share, share, share), caches, False)
        self.pages = Pages()

    def put(self, url: str, status: int, at: int, body: bytes) -> str:
        """Write a page; gives its verdict as a case shows it."""
        key, pages = row_key(f"https://{url}"), self.pages
        analysis = self.kernel.analyse(body)
        self.core.prepare([analysis], pages)
        kind, of, _, _, reason, contains, *_ = self.core.compare(key, body, analysis, status, pages)
        self.core.add((at, key), body, analysis, status, {}, pages)
        rows = docstore_native.PackedRows()
        self.core.pack_postings(rows)
        pages.texts.log(pages.new)
        pages.texts.write(Durability.SYNC)
        for row in rows:
            for cell in row.mutations:
                insort(pages.rows.setdefault(row.row_key, []), cell.qualifier)  # type: ignore[union-attr]
        pages.pages[at, key] = analysis, status, body
        self.core.follow(rows, True)
        self.core.committed({(at, key): {}})
        pages.new = NewPostings()
        named = url_of(of).removeprefix("https://") if of else ""
        if VERDICT_KINDS[kind] == "new" and contains:
            named = f"contains {url_of(contains).removeprefix('https://')}"
        return " ".join(filter(None, (VERDICT_KINDS[kind], reason, named)))

    def delete(self, url: str) -> None:
        key = row_key(f"https://{url}")
        for place in [place for place in self.pages.pages if place[1] == key]:
            del self.pages.pages[place]
        self.core.clear_pages()


def body_of(title: str, text: str) -> bytes:
    if title == "bytes":
        return BODIES[text]
    found: list[str] = []
    for part in text.split("+"):
        drawn = re.fullmatch(r" *(\d+) (\d+)(?: ~ (\d+))? *", part)
        if drawn is None:
            found += part.split()
        else:
            made = words(int(drawn[1]), int(drawn[2]))
            found += changed(made, 7, int(drawn[3])) if drawn[3] else made
    if title == "list":
        items = "".join(
            f"<item><title>{' '.join(found[at : at + 20])}</title></item>" for at in range(0, len(found), 20)
        )
        return f'<?xml version="1.0"?><rss version="2.0"><channel><title>x</title>{items}</channel></rss>'.encode()
    return page(found, title)


@pytest.mark.parametrize("caches", [True, False], ids=["cached", "uncached"])
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in cases()])
def test_a_verdict_is_what_its_rule_says(case: Case, caches: bool) -> None:
    judge = Judge(caches=caches)
    shown: list[Any] = []
    for number, line in enumerate(case.lines, 1):
        if line[:2] in ("- ", "! "):
            url = line[2:].strip()
            if line[0] == "-":
                judge.delete(url)
            else:
                judge.pages.unreadable.add(row_key(f"https://{url}"))
            continue
        asked, _, expected = line.partition("=>")
        address, title, text = asked.split("|")
        url, *options = address.split()
        status = next((int(option) for option in options if option.isdigit()), 200)
        at = next((int(option[1:]) for option in options if option[0] == "@"), number)
        verdict = judge.put(url, status, at * 1000, body_of(title.strip(), text.strip()))
        if expected:
            shown.append((line, set(verdict.split()), set(expected.split())))
    assert shown and [(line, found) for line, found, _ in shown] == [(line, expected) for line, _, expected in shown]
