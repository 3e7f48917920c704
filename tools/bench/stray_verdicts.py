"""Verdicts on text among pages of public sets, nearly each of a site of its own: most of them should not be there.

    python -m tools.bench.stray_verdicts CHECKOUT [CHECKOUT ...]

The checkouts are those that `tools.bench.extraction` reads, WCXB's development split as well.  All pages are written to
one store in the order given; each verdict on text is listed with the first words that both main texts have, so that a
reader can tell one page that was recorded twice from two pages that share a notice.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

import docstore
from docstore.model.types import Durability, Page, VerdictKind
from tools.bench.extraction import article_pages, passage_pages, text_pages
from tools.bench.harness import Section
from tools.bench.page_kinds import read_pages

COMMAND: Final = "python -m tools.bench.stray_verdicts CHECKOUT [CHECKOUT ...]"
QUIET: Final = frozenset({VerdictKind.NEW, VerdictKind.SIMILAR})
SHOWN_CHARACTERS: Final = 80
_HEADERS: Final = (("Content-Type", "text/html"),)


def bodies_of(checkout: Path) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each page of a set."""
    tests = checkout / "tests" / "evaldata.json"
    if tests.is_file():
        names = sorted(json.loads(tests.read_text("utf-8")))
        yield from zip(names, (page.body for page in passage_pages(checkout)), strict=True)
    elif (checkout / "test" / "test-pages").is_dir():
        names = sorted(path.name for path in (checkout / "test" / "test-pages").iterdir())
        yield from zip(names, (page.body for page in text_pages(checkout)), strict=True)
    elif (checkout / "ground-truth.json").is_file():
        names = sorted(json.loads((checkout / "ground-truth.json").read_text("utf-8")))
        yield from zip(names, (page.body for page in article_pages(checkout)), strict=True)
    else:
        yield from ((page.name, page.body) for page in read_pages(checkout))


def pages_of(checkout: Path) -> Iterator[Page]:
    """Its pages, under addresses that name set and page."""
    for name, body in bodies_of(checkout):
        yield Page(f"https://{checkout.name}.example/{quote(name, safe='')}", body, headers=_HEADERS)


def look(store: docstore.DocumentStore, checkouts: list[Path]) -> Section:
    """Write all pages; a row for each verdict on text."""
    section = Section("Verdicts on text among pages of unlike sites", COMMAND, ["verdict", "page", "of", "shared"])
    kinds: Counter[str] = Counter()
    for checkout in checkouts:
        for result in store.put_pages(pages_of(checkout)):
            verdict = result.verdict
            kinds[f"{verdict.kind} {verdict.reason}".rstrip()] += 1
            if verdict.kind not in QUIET:
                shown = f"{verdict.kind} {verdict.similarity:.3f}"
                section.rows.append((shown, result.url, verdict.of_url, _shared(store, result.url, verdict.of_url)))
    section.notes.append(", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common()))
    return section


def _shared(store: docstore.DocumentStore, *urls: str) -> str:
    """The longest line of both texts, cut."""
    one, other = (set((document.text or "").split("\n")) for url in urls if (document := store.get(url)) is not None)
    longest = max(one & other, key=len, default="")
    return longest[:SHOWN_CHARACTERS].replace("|", "/")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.bench.stray_verdicts", description=__doc__)
    parser.add_argument("checkouts", type=Path, nargs="+")
    with tempfile.TemporaryDirectory() as folder:
        fresh = docstore.open(Path(folder) / "store", create=True, durability=Durability.NONE)
        with fresh as opened:
            print(look(opened, parser.parse_args().checkouts).render())
