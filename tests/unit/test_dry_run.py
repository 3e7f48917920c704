"""A dry run gives the verdicts of the real run after it, also with full buckets."""

from __future__ import annotations

import random
from pathlib import Path

from pages import page, words

import docstore
from docstore.model.choices import Durability
from docstore.model.format import DICTIONARY_ROW_PREFIX, MANIFEST_FAMILY, MANIFEST_QUALIFIER
from docstore.model.types import Page, PutResult, RowMutations, SetCell
from docstore.storage.cache import SHARES
from docstore.tablets.layout import LocalBackend

SIBLINGS = 80
"""More than a bucket of the index holds."""


def site() -> list[Page]:
    """Pages of one template, and a copy of each with one word changed, in a seeded order."""
    shared = words(1, 240)
    pages = []
    for number in range(SIBLINGS):
        own = [*shared[:120], *words(1000 + number, 60), *shared[120:]]
        copy = [*own[:130], "changed", *own[131:]]
        for host, text in (("shop", own), ("mirror", copy)):
            url = f"https://{host}.example/{number}"
            pages.append(Page(url, page(text, f"Page {number}"), 200, (("Content-Type", "text/html"),)))
    random.Random(3).shuffle(pages)
    return pages


def told(result: PutResult) -> tuple[object, ...]:
    verdict = result.verdict
    return result.url, verdict.kind, verdict.of_url, verdict.similarity, verdict.candidates, verdict.verified


def test_a_dry_run_over_full_buckets_gives_the_verdicts_of_the_run(tmp_path: Path) -> None:
    pages = site()
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        list(store.put_pages(pages[:SIBLINGS]))
        with store.dry_run() as trial:
            dry = [told(result) for result in trial.put_pages(pages[SIBLINGS:])]
        real = [told(result) for result in store.put_pages(pages[SIBLINGS:])]
    assert max(verdict[4] for verdict in real) > 64
    assert dry == real


def test_a_dry_run_uses_the_dictionaries_that_its_store_has_now(tmp_path: Path) -> None:
    key = DICTIONARY_ROW_PREFIX + b"site a"

    def name(store: docstore.DocumentStore, value: bytes) -> None:
        cell = SetCell(MANIFEST_FAMILY, MANIFEST_QUALIFIER, 0, value)
        store.backend.engine.mutate_rows([RowMutations("meta", key, [cell])], Durability.NONE)

    with docstore.open(tmp_path / "store", create=True, durability="none") as store, store.dry_run() as trial:
        opened = trial.backend
        assert isinstance(opened, LocalBackend)
        name(store, b"first")
        assert opened.scopes.get(key) == b"first"
        name(store, b"next")
        assert opened.scopes.get(key) == b"next"


def test_the_caches_of_a_dry_run_are_a_quarter_of_those_of_its_store(tmp_path: Path) -> None:
    memory = "96MB"
    with docstore.open(tmp_path / "s", create=True, memory=memory) as store, store.dry_run() as trial:
        shares = [sum(map(opened.memory.share, SHARES)) for opened in (store.backend, trial.backend)]
        list(trial.put_pages(site()[:8]))
    assert shares[1] <= shares[0] // 4
