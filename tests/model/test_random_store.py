"""Random lives of a store against the model, a few of them; and lives with visits and rejected captures by themselves.

`python -m tests.model.random_store --seeds 500` runs many lives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from counts import share

import docstore
from docstore import GCPolicy, Policy, Schema, VerdictKind
from docstore.reports.check import check
from docstore.sweep.job import SweepOptions, sweep
from docstore.sweep.reindex import reindex
from tests.model.random_store import Mismatch, replay, run_seed, shortened
from tests.model.store_model import MOST_MISSED, Ask, Delete, DeleteCrawl, Do, Fetch, Operation, Put, Setting
from tests.pages import changed, page, words

SEEDS = share(16, 4)
HTML = (("Content-Type", "text/html; charset=utf-8"),)
DAY = 86_400_000_000
T0 = 1_700_000_000_000_000
A, B, C = (f"https://{host}.example/" for host in "abc")
TEXT, OTHER = words(40, 80), words(41, 80)


@pytest.mark.parametrize("first", range(0, SEEDS, 4))
def test_random_lives_are_as_the_model_says(first: int) -> None:
    met: Counter[str] = Counter()
    for seed in range(first, first + 4):
        met.update(run_seed(seed))
    assert met["pages"] > 50
    missed = sum(count for name, count in met.items() if name.startswith("missed"))
    assert missed <= MOST_MISSED * met["pages"], met


FOUND: dict[str, tuple[Setting, list[Operation]]] = {
    "the same capture again, hidden by a policy": (
        Setting("two"),
        [
            Put((Fetch("a/0", 10, day=8), Fetch("a/0", 11, day=6), Fetch("a/0", 3, day=2))),
            Put((Fetch("a/0", 3, day=2),)),
        ],
    ),
    "the same capture again, rejected": (
        Setting("none"),
        [Put((Fetch("a/0", 3), Fetch("a/1", 3)), "reject"), Put((Fetch("a/1", 3),), "reject")],
    ),
    "a version that a URL shows no more, beside the one that it shows, under a rejecting policy": (
        Setting("none"),
        [
            Put((Fetch("a/35", 16, noise=3, day=5),)),
            Put((Fetch("a/35", 16, noise=30, day=1), Fetch("a/3", 16, 1, noise=101, day=2)), "reject"),
        ],
    ),
    "two versions that differ by noise alone, in a sweep": (
        Setting("two"),
        [
            Put((Fetch("a/9", 9, 8, noise=102, day=7), Fetch("a/9", 9, 8, noise=12, day=8), Fetch("a/8", 9, day=6))),
            Do("sweep"),
        ],
    ),
    "a document number of a capture that a policy hides, in a copy": (
        Setting("4 days", titles_held=False),
        [Put((Fetch("a/4", 17, 11, title=3, noise=102, day=2, docno="D1"),)), Do("copy"), Ask("find", "D1")],
    ),
    "a page that a policy hid is live again when the newer one is deleted": (
        Setting("one"),
        [
            Put((Fetch("a/6", 5, 1, title=4, day=6),), policy="reject-any"),
            Put((Fetch("a/6", 5, 3, title=3, noise=21, day=8, crawl="x"),), policy="reject-any"),
            Put((Fetch("a/0", 5, 0, title=3, day=1),), policy="reject-any"),
            DeleteCrawl("x"),
            Put((Fetch("a/2", 5, 12, day=4),), policy="reject-any"),
        ],
    ),
    "a page rejected by one of its own host, twice, where another host has an older one": (
        Setting(),
        [
            Put((Fetch("b/0", 3), Fetch("a/0", 3, day=1))),
            Put((Fetch("a/1", 3, day=2),), "reject"),
            Put((Fetch("a/1", 3, day=2),), "reject"),
        ],
    ),
    "a visit after a rejected fetch, twice": (
        Setting(),
        [
            Put((Fetch("a/0", 3), Fetch("a/1", 4), Fetch("a/1", 3, day=1)), "reject-any"),
            Put((Fetch("a/1", status=304, day=2),)),
            Put((Fetch("a/1", status=304, day=2),)),
        ],
    ),
    "a purge, which also removes what policies hide of other pages": (
        Setting("one"),
        [
            Put((Fetch("a/0", 3, day=1), Fetch("a/0", 4, day=2), Fetch("a/1", 5))),
            Delete("a/1", purge=True),
            Put((Fetch("a/0", 6, day=1),)),
        ],
    ),
}
"""Lives that failed once, each shortened by its seed's run."""


@pytest.mark.parametrize("name", FOUND)
def test_lives_that_failed_once_pass(name: str) -> None:
    replay(*FOUND[name])


def test_a_wrong_answer_is_found_and_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    life: list[Operation] = [Put((Fetch("a/1"), Fetch("b/1", 2), Fetch("b/2", 3))), Do("compact"), Delete("b/1")]
    replay(Setting(), life)
    real = docstore.DocumentStore.__contains__
    monkeypatch.setattr(docstore.DocumentStore, "__contains__", lambda store, url: "b." not in url and real(store, url))
    with pytest.raises(Mismatch, match="in https://b"):
        replay(Setting(), life)
    assert len(shortened(Setting(), life)) == 1


# --- visits and rejected captures count as no version


def opened(folder: Path, captures: GCPolicy) -> docstore.DocumentStore:
    schema = Schema(captures=captures)
    return docstore.open(folder / "store", create=True, schema=schema, durability="none")


def put(store: docstore.DocumentStore, url: str, text: list[str], day: int, **fields: object) -> docstore.PutResult:
    return store.put_page(url, page(text), headers=HTML, fetched_at=T0 + day * DAY, **fields)  # type: ignore[arg-type]


def by_detector(store: docstore.DocumentStore) -> bool:
    verdict = put(store, C, TEXT, 9).verdict
    return (verdict.kind, verdict.of_url) == (VerdictKind.EXACT, A)


def by_similar(store: docstore.DocumentStore) -> bool:
    return A in {one.url for one in store.similar(page(changed(TEXT, 1, 1)))}


def by_sweep(store: docstore.DocumentStore) -> bool:
    put(store, C, changed(TEXT, 1, 1), 9)
    path = store.backend.path.parent / "pairs.tsv"
    sweep(store, SweepOptions(pairs=path, threads=1, dry_run=True))
    return A in path.read_text("utf-8")


@pytest.mark.parametrize("seen", [by_detector, by_similar, by_sweep])
def test_a_rejected_capture_does_not_hide_the_live_page_of_its_row(
    tmp_path: Path, seen: Callable[[docstore.DocumentStore], bool]
) -> None:
    with opened(tmp_path, GCPolicy(max_versions=1)) as store:
        put(store, A, TEXT, 0)
        put(store, B, OTHER, 0)
        assert put(store, A, OTHER, 1, policies={VerdictKind.EXACT: Policy.REJECT_ANY}).stored == "rejected"
        found = store.get(A)
        assert found is not None and found.body == page(TEXT)
        assert seen(store)


@pytest.fixture(params=["304", "same bytes"])
def confirmed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[docstore.DocumentStore]:
    """A store of at most two versions, with a page that a visit has confirmed."""
    with opened(tmp_path, GCPolicy(max_versions=2)) as store:
        put(store, A, TEXT, 0)
        if request.param == "304":
            store.put_page(A, status=304, fetched_at=T0 + 2 * DAY)
        else:
            assert put(store, A, TEXT, 2).stored == "confirmed"
        yield store


@pytest.mark.parametrize("seen", [by_detector, by_similar])
def test_the_page_of_a_live_visit_is_seen(
    confirmed: docstore.DocumentStore, seen: Callable[[docstore.DocumentStore], bool]
) -> None:
    put(confirmed, A, OTHER, 1)  # it comes in late: alone, the first capture would be one too many
    found = confirmed.get(A)
    assert found is not None and found.body == page(TEXT)
    assert seen(confirmed)


def test_nothing_is_unseen_when_a_capture_comes_in_late(confirmed: docstore.DocumentStore) -> None:
    put(confirmed, A, OTHER, 1)
    assert (reindex(confirmed, dry_run=True).unseen, list(check(confirmed.backend))) == (0, [])
    confirmed.compact()
    assert (reindex(confirmed, dry_run=True).unseen, list(check(confirmed.backend))) == (0, [])
    assert by_detector(confirmed)
