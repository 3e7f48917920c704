"""Pages are judged against what a store keeps, not against what its policies hide at once: groups of any size agree."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pages import changed, page, words

import docstore
from docstore import GCPolicy, Page, Policy, PutResult, Schema, VerdictKind
from docstore.model.types import Durability
from docstore.tablets.layout import StoreDirectory

HTML = (("Content-Type", "text/html; charset=utf-8"),)
HOUR = 3_600_000_000
NOW = 1_700_000_000_000_000
REJECT = dict.fromkeys((VerdictKind.EXACT, VerdictKind.SAME_TEXT), Policy.REJECT)
GC = {
    "none": Schema(),
    "one version": Schema(captures=GCPolicy(max_versions=1)),
    "two versions": Schema(captures=GCPolicy(max_versions=2)),
    "a day": Schema(captures=GCPolicy(max_age_seconds=86_400)),
    "bodies of a day": Schema(bodies=GCPolicy(max_age_seconds=86_400)),
    "either": Schema(captures=GCPolicy(max_versions=1, max_age_seconds=86_400)),
    "both": Schema(captures=GCPolicy(max_versions=1, max_age_seconds=86_400, intersection=True)),
    "everything": Schema(captures=GCPolicy(max_versions=2), bodies=GCPolicy(max_versions=1, max_age_seconds=86_400)),
}


def opened(folder: Path, schema: Schema) -> docstore.DocumentStore:
    return docstore.DocumentStore(
        StoreDirectory(folder).open(create=True, schema=schema), Durability.NONE, clock=lambda: NOW
    )


def crawl(seed: int, count: int) -> list[Page]:
    """Few URLs and texts, at times within and beyond a day, in no order; now and then an error or a 304."""
    choose = random.Random(seed)
    texts = [words(number, size) for number, size in enumerate((30, 60, 90))]
    texts += [changed(text, 1, 2) for text in texts]
    pages = []
    for _ in range(count):
        url = f"https://h{choose.randrange(2)}.example/{choose.randrange(6)}"
        at = NOW - choose.randrange(48) * HOUR
        status = choose.choice([200] * 8 + [404, 304])
        body = b"" if status == 304 else page(choose.choice(texts), choose.choice("AB"))
        pages.append(Page(url, body, status, HTML, at))
    return pages


def written(
    store: docstore.DocumentStore, pages: list[Page], group: int, policies: dict[VerdictKind, Policy]
) -> list[PutResult]:
    results: list[PutResult] = []
    for start in range(0, len(pages), group):
        results += store.put_pages(pages[start : start + group], policies=policies, threads=1)
    return results


@pytest.mark.parametrize("group", [1, 25])
@pytest.mark.parametrize("gc", GC)
def test_what_is_rejected_can_be_read_elsewhere(tmp_path: Path, gc: str, group: int) -> None:
    pages = crawl(5, 60)
    rejected = 0
    with opened(tmp_path / "store", GC[gc]) as store:
        for start in range(0, len(pages), group):
            part = pages[start : start + group]
            touched = [one.url for one in part]
            for one, result in zip(part, written(store, part, group, REJECT), strict=True):
                if result.stored == "rejected" and touched.count(result.verdict.of_url) == 0:
                    rejected += 1
                    found = store.get(result.verdict.of_url, at=result.verdict.of_timestamp)
                    assert found is not None and found.timestamp == result.verdict.of_timestamp
                    assert found.body == one.body or result.verdict.kind is VerdictKind.SAME_TEXT
    assert rejected or group > 1


OLD, NEWER = NOW - 30 * HOUR, NOW - HOUR


@pytest.mark.parametrize("policy", [Policy.REJECT_ANY, Policy.REFERENCE])
@pytest.mark.parametrize("gc", ["one version", "a day", "either"])
@pytest.mark.parametrize("group", [1, 9])
def test_a_page_of_the_same_group_that_is_hidden_at_once_is_no_canonical(
    tmp_path: Path, gc: str, group: int, policy: Policy
) -> None:
    body, other = page(words(1, 90)), page(words(2, 90))
    pages = [
        Page("https://a.example/", other, 200, HTML, NEWER),
        Page("https://a.example/", body, 200, HTML, OLD),
        Page("https://b.example/", body, 200, HTML, NEWER),
    ]
    with opened(tmp_path / "store", GC[gc]) as store:
        result = written(store, pages, group, {VerdictKind.EXACT: policy})[-1]
        assert (result.verdict.kind, result.stored) == (VerdictKind.NEW, "body")
        found = store.get("https://b.example/")
        assert found is not None and found.body == body


def test_a_page_that_the_same_group_hides_is_no_canonical(tmp_path: Path) -> None:
    body, other = page(words(1, 90)), page(words(2, 90))
    with opened(tmp_path / "store", GC["one version"]) as store:
        store.put_page("https://a.example/", body, headers=HTML, fetched_at=OLD)
        pages = [
            Page("https://a.example/", other, 200, HTML, NEWER),
            Page("https://b.example/", body, 200, HTML, NEWER),
        ]
        result = written(store, pages, 2, REJECT)[-1]
        assert (result.verdict.kind, result.stored) == (VerdictKind.NEW, "body")
