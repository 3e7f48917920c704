"""A page counts as an original only while its body is kept: else what was rejected for it is an orphan."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import changed, page, words

import docstore
from docstore import GCPolicy, Schema
from docstore.reading.collapse import Loss
from docstore.reading.queries import orphans
from docstore.storage.table import Table, declared_families
from docstore.store import DocumentStore

HTML = (("content-type", "text/html"),)
REJECT = {"exact": "reject", "near": "reject"}
T0 = 1_700_000_000_000_000
DAY = 86_400_000_000
ORIGINAL, COPY = "https://a.example/original", "https://a.example/copy"
BODY = page(words(1, 300))
NEAR = page(changed(words(1, 300), 5, 1))
OTHERS = [page(words(seed, 300)) for seed in (2, 3, 4)]


def put(store: DocumentStore, url: str, body: bytes, days: int) -> str:
    return store.put_page(url, body, headers=HTML, fetched_at=T0 + days * DAY, policies=REJECT).stored


def found(store: DocumentStore) -> list[tuple[str, int, Loss]]:
    return [(orphan.url, (orphan.timestamp - T0) // DAY, orphan.loss) for orphan in store.orphans()]


@pytest.mark.parametrize("body", [BODY, NEAR], ids=["exact", "near"])
@pytest.mark.parametrize(
    "policies",
    [{"bodies": GCPolicy(max_versions=1)}, {"captures": GCPolicy(max_versions=1)}],
    ids=["bodies", "captures"],
)
@pytest.mark.parametrize("is_newest", [True, False])
def test_a_body_that_a_policy_drops_makes_orphans(
    tmp_path: Path, policies: dict[str, GCPolicy], body: bytes, is_newest: bool
) -> None:
    if not is_newest and "captures" in policies:
        policies = {"captures": GCPolicy(max_versions=2)}
    with docstore.open(tmp_path / "s", create=True, schema=Schema(**policies)) as store:
        assert put(store, ORIGINAL, BODY, 0) == "body"
        assert put(store, COPY, body, 1) == "rejected"
        if not is_newest:
            put(store, COPY, OTHERS[2], 2)
        assert found(store) == []
        put(store, ORIGINAL, OTHERS[0], 3)
        put(store, ORIGINAL, OTHERS[1], 4)
        for _ in range(2):
            assert found(store) == [(COPY, 1, Loss.GONE)]
            store.compact(full=True)
        assert put(store, COPY, body, 5) == "body"
        assert found(store) == []


def test_a_deleted_original_makes_orphans_of_captures_that_are_not_the_newest(store: DocumentStore) -> None:
    put(store, ORIGINAL, BODY, 0)
    assert put(store, COPY, BODY, 1) == "rejected"
    put(store, COPY, OTHERS[0], 2)
    put(store, ORIGINAL, OTHERS[1], 3)
    assert found(store) == [], "its bytes are in the history of the original"
    store.delete(ORIGINAL)
    assert found(store) == [(COPY, 1, Loss.GONE)]


def test_a_body_that_expires_makes_orphans_though_its_page_is_shown(store: DocumentStore) -> None:
    put(store, ORIGINAL, BODY, 0)
    assert put(store, COPY, BODY, 1) == "rejected"
    aged = Table(
        store.backend.engine,
        "pages",
        declared_families(store.schema),
        lambda: T0 + 10 * DAY,
        store.backend.values.same_value,
        captures=GCPolicy(),
        bodies=GCPolicy(max_age_seconds=5 * 86_400),
    )
    (orphan,) = (one for one in orphans(aged, store.backend.values) if one is not None)
    assert (orphan.url, orphan.loss) == (COPY, Loss.GONE)
