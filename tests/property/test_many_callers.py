"""Many callers of one store on a disk that fails at random: an acknowledged page is there, and a caller's are a prefix.

Seeds are the parameters; how the threads take turns is left to chance, and nothing that is asserted depends on it.
"""

from __future__ import annotations

import asyncio
import errno
import random
import threading
from pathlib import Path

import pytest
from pages import changed, page, words

import docstore
from docstore import Page, Policy, PutResult, StorageError, VerdictKind
from docstore.model.types import RowMutations
from docstore.reports.check import check
from docstore.store import DocumentStore

HTML = (("Content-Type", "text/html; charset=utf-8"),)
T0 = 1_700_000_000_000_000
CALLERS = 6
PAGES = 40
POLICIES: tuple[dict[VerdictKind | str, Policy | str], ...] = (
    {},
    {VerdictKind.EXACT: Policy.REFERENCE, VerdictKind.NEAR: Policy.REFERENCE},
    {VerdictKind.EXACT: Policy.REJECT_ANY},
)


class Disk:
    """Fails one commit in so many, before anything of it is written; and does nothing else."""

    def __init__(self, store: DocumentStore, choose: random.Random, one_in: int) -> None:
        self._write = store.backend.engine.mutate_rows
        self._choose, self._one_in = choose, one_in
        self.is_sound = True
        store.backend.engine.mutate_rows = self.mutate_rows  # type: ignore[method-assign, assignment]

    def mutate_rows(self, rows: list[RowMutations], durability: docstore.Durability) -> None:
        if not self.is_sound and self._choose.randrange(self._one_in) == 0:
            raise StorageError(errno.ENOSPC, "disk full")
        self._write(rows, durability)


class Caller:
    """A thread that writes its own pages in order, some as `put_page` and some as `put_pages`; all may fail."""

    def __init__(self, number: int, seed: int) -> None:
        self.choose = random.Random(f"{seed} {number}")
        themes = [words(theme, 80) for theme in range(3)]  # the same for all callers
        self.pages = [
            Page(
                f"https://h{number}.example/{n}",
                page(changed(self.choose.choice(themes), self.choose.randrange(3), self.choose.choice([0, 1, 40]))),
                200,
                HTML,
                T0 + n * 1000,
            )
            for n in range(PAGES)
        ]
        self.results: list[PutResult] = []
        """Of the pages from the first on, until a write has failed."""

    def run(self, store: DocumentStore) -> None:
        try:
            while len(self.results) < PAGES:
                rest = self.pages[len(self.results) :]
                policies = self.choose.choice(POLICIES)
                if self.choose.random() < 0.7:
                    one = rest[0]
                    self.results.append(
                        store.put_page(
                            one.url,
                            one.body,
                            headers=HTML,
                            status=one.status,
                            fetched_at=one.fetched_at,
                            policies=policies,
                        )
                    )
                else:
                    some = rest[: self.choose.randrange(1, 15)]
                    source = some if self.choose.random() < 0.5 else iter(some)
                    for result in store.put_pages(source, policies=policies, threads=self.choose.choice([1, 2])):
                        self.results.append(result)
        except StorageError as error:
            assert error.errno == errno.ENOSPC


@pytest.mark.parametrize("seed", range(4))
def test_acknowledged_pages_are_exact_and_each_caller_has_written_a_prefix(tmp_path: Path, seed: int) -> None:
    callers = [Caller(number, seed) for number in range(CALLERS)]
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        store.put_page("https://first.example/", b"<p>the write half is loaded")
        disk = Disk(store, random.Random(seed), one_in=25)
        disk.is_sound = seed == 0
        threads = [threading.Thread(target=caller.run, args=(store,)) for caller in callers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        disk.is_sound = True
        assert seed > 0 or all(len(caller.results) == PAGES for caller in callers)
        verify(store, callers)
        assert not any(one.url in store for caller in callers for one in caller.pages[len(caller.results) :])
        for caller in callers:  # whoever failed goes on where it was
            list(store.put_pages(caller.pages[len(caller.results) :]))
            assert [one.url for one in caller.pages if one.url not in store] == [
                one.url for one in caller.results if one.stored == "rejected"
            ]
    with docstore.open(tmp_path / "s") as store:
        verify(store, callers)


def verify(store: DocumentStore, callers: list[Caller]) -> None:
    assert list(check(store.backend)) == []
    bodies = {one.url: one.body for caller in callers for one in caller.pages}
    for caller in callers:
        done = len(caller.results)
        assert [result.url for result in caller.results] == [one.url for one in caller.pages[:done]]
        for one, result in zip(caller.pages, caller.results, strict=False):
            assert result.stored in ("body", "reference", "rejected")
            found = store.get(one.url)
            assert (found is None) == (result.stored == "rejected")
            assert found is None or (found.body, found.timestamp) == (one.body, one.fetched_at)
            if result.verdict.kind is VerdictKind.EXACT:
                assert bodies[result.verdict.of_url] == one.body


@pytest.mark.parametrize("seed", range(3))
def test_tasks_are_told_what_became_of_their_own_page(tmp_path: Path, seed: int) -> None:
    pages = [one for caller in range(CALLERS) for one in Caller(caller, seed).pages]

    async def put(one: Page) -> PutResult:
        await asyncio.sleep(0)
        return await store.put_page_async(one.url, one.body, headers=HTML, fetched_at=one.fetched_at)

    async def put_all() -> list[PutResult | BaseException]:
        found: list[PutResult | BaseException] = []
        for start in range(0, len(pages), 20):
            puts = [put(one) for one in pages[start : start + 20]]
            found += await asyncio.gather(*puts, return_exceptions=True)
        return found

    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        disk = Disk(store, random.Random(seed), one_in=4)
        disk.is_sound = False
        answers = asyncio.run(put_all())
        disk.is_sound = True
        assert {type(answer) for answer in answers} == {PutResult, StorageError}
        for one, answer in zip(pages, answers, strict=True):
            found = store.get(one.url)
            assert (found is None) == isinstance(answer, StorageError)
            assert found is None or found.body == one.body
        assert list(check(store.backend)) == []
