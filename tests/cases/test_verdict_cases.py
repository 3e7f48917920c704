"""The rules of judging, a few pages a rule: each case of `tests/cases/verdicts/*.txt`, by its name.

    pytest tests/cases -k "oldest"      # the cases whose names have the word

A case is pages that are written one after the other, each committed before the next::

    ==== The oldest of equal pages is named, whenever it was written
    a.example/1 @9 | Lamp | 1 80
    b.example/1 @5 | Lamp | 1 80 => exact a.example/1

A line has the URL with options; the title; the text; and what is expected behind "=>".  "& " before a line writes it in
the batch of the line before.  Options: a status if it is not 200 (a 304 has no title and text), "@" with the time in
milliseconds if pages do not come in its order, "text" for a page whose body is not wanted, and the policy for
duplicates: reference, reject or reject-any.

The title "list" makes a site map of pages, "bytes" a body that is no page.  Parts of a text are joined by "+": "1 80"
is 80 words of seed 1, "1 80 ~ 3" has three of them changed, anything else is text as it stands.  "- URL" deletes a
page, "! URL" makes the bodies of its row unreadable.

Expected is the verdict: its kind, reason and the page that it names, or that a new page contains.  Behind "/" is what
became of the page: the relation to the version before, how it is stored, "@" with its time; for "known" also how it was
stored before.  The store is the real one, over rows in dictionaries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from memory_backend import MemoryBackend, MemoryValues
from memory_engine import MemoryEngine

from docstore import Page, Policy, PutResult, Schema
from docstore.compiled import docstore_native
from docstore.model.capture import BODY
from docstore.model.choices import Durability
from docstore.model.errors import CorruptionError
from docstore.model.format import CAPTURE_STORED
from docstore.model.keys import row_key
from docstore.model.types import SAME_PAGE
from docstore.storage.captures import sound_records
from docstore.storage.values import is_ref
from docstore.store import DocumentStore
from tests.pages import changed, page, words

FOLDER = Path(__file__).parent / "verdicts"
T0 = 1_700_000_000_000_000
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


class Values(MemoryValues):
    """Values of which some cannot be read; a number at the end of a ref tells equal values apart."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: set[bytes] = set()
        self._numbers = count()

    def refs(self, group: docstore_native.Group) -> list[bytes]:
        return [ref + next(self._numbers).to_bytes(4, "big") for ref in super().refs(group)]

    def fetch(self, cell_value: bytes) -> bytes:
        if cell_value in self.lost:
            raise CorruptionError("the value is lost")
        return super().fetch(cell_value[:-4] if is_ref(cell_value) else cell_value)


class Backend(MemoryBackend):
    """A backend of a store that caches what it has committed, or nothing."""

    def __init__(self, *, caches: bool) -> None:
        engine = MemoryEngine()
        engine.caps = engine.caps._replace(single_writer=caches)
        super().__init__(engine, Schema(keyed_bands=False, extractor="visible"))
        self.values: Values = Values()

    def lose(self, url: str) -> None:
        """Make the bodies of a row unreadable."""
        cells = self.engine.read_row("pages", row_key(url))
        bodies = [record.columns[BODY] for record in sound_records(cells) if record.kind == CAPTURE_STORED]
        assert bodies and all(map(is_ref, bodies)), "a body in its cell is always readable"
        self.values.lost.update(bodies)


class Line(NamedTuple):
    """A line of a case: a page with its options."""

    page: Page
    policy: str
    keeps_body: bool
    expected: str

    @classmethod
    def parse(cls, line: str, number: int) -> Line:
        asked, _, expected = line.partition("=>")
        address, *rest = asked.split("|")
        url, *options = address.split()
        status = next((int(option) for option in options if option.isdigit()), 200)
        at = next((int(option[1:]) for option in options if option[0] == "@"), number)
        body = b"" if status == 304 else body_of(*(part.strip() for part in rest))
        policy = next((option for option in options if option in map(str, Policy)), "flag")
        return cls(Page(f"https://{url}", body, status, (), T0 + at * 1000), policy, "text" not in options, expected)


def shown(result: PutResult, expected: str) -> list[set[str]]:
    """A result as a case shows it: the verdict, and if it is asked for what became of the page."""
    verdict = result.verdict
    named = f"contains {verdict.contains_url}" if verdict.contains_url and verdict.kind == "new" else verdict.of_url
    parts = [f"{verdict.kind} {verdict.reason} {named.replace('https://', '')}"]
    if "/ " in expected:
        at = f"@{(result.timestamp - T0) // 1000}" if "@" in expected else ""
        parts.append(f"{result.previous} {result.stored} {result.known_as} {at}")
    return [set(part.split()) for part in parts]


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
def test_a_page_is_judged_as_its_rule_says(case: Case, caches: bool) -> None:
    backend = Backend(caches=caches)
    compared = []
    with DocumentStore(backend, Durability.NONE) as store:
        batches = "\n".join(case.lines).replace("\n& ", "&").split("\n")
        for number, batch in enumerate(batches, 1):
            if batch[:2] == "- ":
                assert store.delete(f"https://{batch[2:].strip()}")
                continue
            if batch[:2] == "! ":
                backend.lose(f"https://{batch[2:].strip()}")
                continue
            lines = [Line.parse(line, number) for line in batch.split("&")]
            policies = dict.fromkeys(SAME_PAGE, lines[-1].policy)
            pages = [line.page for line in lines]
            results = store.put_pages(pages, policies=policies, keep_body=lines[-1].keeps_body, threads=1)
            for line, result in zip(lines, results, strict=True):
                assert not result.error
                if line.expected:
                    expected = [set(part.split()) for part in re.split(r"/ ", line.expected)]
                    compared.append((batch, shown(result, line.expected), expected))
    assert compared
    assert [(line, found) for line, found, _ in compared] == [(line, expected) for line, _, expected in compared]
