"""Whole lives of a store: random writes, visits, deletes, sweeps, compactions, backups; a dict is the yardstick.

After every step of maintenance `check` is silent, and every page is at every time what was put there, text and status
included, whatever came in late, leans on what, or was moved.  Seeds are the parameters: a failure can be run again.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import pytest
from pages import changed, page, words

import docstore
from docstore import Policy, VerdictKind
from docstore.reports.check import check
from docstore.sweep.job import sweep
from docstore.sweep.reindex import reindex
from docstore.tablets.backup import restore

HTML = (("Content-Type", "text/html; charset=utf-8"),)
T0 = 1_700_000_000_000_000
SECOND = 1_000_000
STEPS = 60
LAST_SECOND = 40
POLICIES = (
    {},
    {VerdictKind.EXACT: Policy.REFERENCE, VerdictKind.NEAR: Policy.REFERENCE},
    {VerdictKind.EXACT: Policy.REJECT_ANY},
)


class Seen(NamedTuple):
    """What a page must show at a time."""

    status: int
    body: bytes
    text: list[str]


class Life:
    """A store, and beside it what it must hold: URL -> timestamp -> what was seen."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.choose = random.Random(seed)
        self.urls = [f"https://h{number % 3}.example/{number}" for number in range(8)]
        self.themes = [words(number, 90) for number in range(3)]
        self.holds: dict[str, dict[int, Seen]] = {url: {} for url in self.urls}
        self.rejected: set[tuple[str, int]] = set()
        self.waiting: set[tuple[str, int]] = set()
        self.number = 0
        self.store = docstore.open(folder / "s0", create=True, durability="none")

    def put(self) -> None:
        """A page: of a theme, changed a little or not at all, at any time, also before what is there."""
        text = changed(self.choose.choice(self.themes), self.choose.randrange(4), self.choose.choice([0, 0, 1, 2, 30]))
        status = self.choose.choice([200, 200, 200, 404])
        url, at = self.choose.choice(self.urls), T0 + self.choose.randrange(LAST_SECOND) * SECOND
        policies = self.choose.choice(POLICIES)
        result = self.store.put_page(url, page(text), status=status, headers=HTML, fetched_at=at, policies=policies)
        if result.stored in ("body", "reference", "confirmed"):
            assert result.timestamp not in self.holds[url]
            self.holds[url][result.timestamp] = Seen(status, page(text), text)
        elif result.stored == "known":
            assert self.holds[url].get(result.timestamp, Seen(0, page(text), [])).body == page(text)
        else:
            assert result.stored == "rejected"
            self.rejected.add((url, result.timestamp))

    def visit(self) -> None:
        """A 304: stands for the newest version before it, for good; without one for what comes before it later."""
        url, at = self.choose.choice(self.urls), T0 + self.choose.randrange(LAST_SECOND) * SECOND
        result = self.store.put_page(url, status=304, fetched_at=at)
        if result.stored == "known":
            return
        before = [timestamp for timestamp in self.holds[url] if timestamp < result.timestamp]
        if before:
            self.holds[url][result.timestamp] = self.holds[url][max(before)]
        else:
            self.waiting.add((url, result.timestamp))

    def shown(self, url: str) -> dict[int, Seen]:
        """What a page shows at each time."""
        holds = dict(self.holds[url])
        for its, timestamp in self.waiting:
            before = [one for one in self.holds[url] if one < timestamp]
            if its == url and before:
                holds[timestamp] = self.holds[url][max(before)]
        return holds

    def delete(self) -> None:
        """A page goes, for good or not."""
        url = self.choose.choice(self.urls)
        self.store.delete(url, purge=self.choose.random() < 0.5)
        self.holds[url] = {}
        self.rejected = {one for one in self.rejected if one[0] != url}
        self.waiting = {one for one in self.waiting if one[0] != url}

    def sweep(self) -> None:
        """Clusters, and a second sweep that writes nothing."""
        sweep(self.store)
        assert sweep(self.store).written == 0

    def compact(self) -> None:
        """All tablets, at either level."""
        self.store.compact(level=self.choose.choice(["fast", "best"]))

    def reindex(self) -> None:
        """There is nothing that the detector cannot see."""
        assert reindex(self.store, dry_run=True).unseen == 0

    def reopen(self) -> None:
        """Close and open."""
        path = self.store.opened.path
        self.store.close()
        self.store = docstore.open(path, durability="none")

    def move(self) -> None:
        """Go on in a store that was restored from a backup."""
        self.store.backup(self.folder / "backup")
        self.store.close()
        self.number += 1
        target = self.folder / f"s{self.number}"
        restore(self.folder / "backup", target)
        self.store = docstore.open(target, durability="none")
        (self.folder / "backup").rename(self.folder / f"old{self.number}")

    def verify(self, what: str) -> None:
        """Compare all that can be asked."""
        assert list(check(self.store.opened)) == [], what
        for url in self.holds:
            holds = self.shown(url)
            shown = [document.timestamp for document in self.store.history(url)]
            fetched = {timestamp for its, timestamp in self.rejected if its == url}
            assert shown == sorted({*holds, *fetched}, reverse=True), what
            for timestamp, seen in holds.items():
                found = self.store.get(url, at=timestamp)
                assert found is not None and found.text is not None, (what, url, timestamp)
                assert (found.timestamp, found.status, found.body) == (timestamp, *seen[:2]), (what, url, timestamp)
                assert found.text.split() == seen.text, (what, url, timestamp)
        live = [url for url, holds in self.holds.items() if holds]
        kept = self.store.collapse(live)
        assert kept == [url for url in live if url in kept] and (not live or kept[0] == live[0]), what


@pytest.mark.parametrize("seed", range(6))
def test_a_store_is_at_every_time_what_was_put_into_it(tmp_path: Path, seed: int) -> None:
    life = Life(tmp_path, seed)
    maintenance = (life.delete, life.sweep, life.compact, life.reindex, life.reopen, life.move)
    try:
        for _ in range(STEPS):
            if life.choose.random() < 0.8:
                life.choose.choice((life.put, life.put, life.put, life.visit))()
                continue
            step = life.choose.choice(maintenance)
            step()
            life.verify(step.__name__)
        life.sweep()
        life.compact()
        life.verify("the end")
        assert any(life.holds.values()), "a life that ends with nothing has shown nothing"
    finally:
        life.store.close()
