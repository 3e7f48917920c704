"""`sweep --apply`: stored duplicates get the state that the write policy would have given them."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from counts import stride

import docstore
from docstore.archives.ingest import IngestOptions, ingest
from docstore.dedup.pages import LivePages
from docstore.model.capture import CHECKSUM, VERDICT, PagePointer
from docstore.model.choices import CanonicalPolicy, VerdictKind
from docstore.model.errors import InvalidArgument
from docstore.model.types import ColumnFamily, GCPolicy, Policy, Schema
from docstore.reports.check import check
from docstore.store import DocumentStore
from docstore.sweep.job import SweepOptions, sweep
from tests.pages import changed, page, words
from tests.stores import contents

CRAWL = Path(__file__).parents[2] / "examples" / "sample-crawl.warc.gz"
SECOND = 1_000_000
BASE = "https://example.com/"
TEXT = words(1, 300)
BODY_BYTES = page(TEXT)
SAME_TEXT = BODY_BYTES.replace(b"<body>", b"<body class='other'>")
REJECT = SweepOptions(apply="reject", threads=1)
REFERENCE = SweepOptions(apply="reference", threads=1)


def put(store: DocumentStore, name: str, body: bytes = BODY_BYTES, at: int = 1, **options: Any) -> docstore.PutResult:
    url = name if "://" in name else BASE + name
    kind = {"Content-Type": "text/html"}
    return store.put_page(url, body, headers=kind, fetched_at=at * SECOND, any_time=True, **options)


def said(store: DocumentStore, names: list[str]) -> dict[str, Any]:
    """What a store says of its pages to those who ask."""
    urls = [BASE + name for name in names]
    documents = {url: store.get(url) for url in urls}
    return {
        "get": {
            url: document and (document.body, document.text, document.newest) for url, document in documents.items()
        },
        "history": {url: [one.newest for one in store.history(url)] for url in urls},
        "followed": {url: (found := store.get(url, follow_duplicates=True)) and found.url for url in urls},
        "rejected": list(store.rejected()),
        "orphans": list(store.orphans()),
        "similar": [one.url for one in store.similar(BODY_BYTES)],
    }


def fill(store: DocumentStore, policies: dict[str, str] | None) -> list[str]:
    """Copies, the same text in other bytes, a near page, copies of an error, another page, versions, confirmations."""
    put(store, "a", at=1, policies=policies)
    put(store, "copy", at=2, policies=policies)
    put(store, "copy", at=3, policies=policies)
    put(store, "text", SAME_TEXT, at=4, policies=policies)
    put(store, "near", page(changed(TEXT, 2, 3)), at=5, policies=policies)
    put(store, "other", page(words(9, 100)), at=6, policies=policies)
    put(store, "moved", page(words(7, 100)), at=7, policies=policies)
    put(store, "moved", at=8, policies=policies)
    put(store, "e1", b"<p>not here", at=9, status=404, policies=policies)
    put(store, "e2", b"<p>not here", at=10, status=404, policies=policies)
    return ["a", "copy", "text", "near", "other", "moved", "e1", "e2"]


@pytest.mark.parametrize("policy", ["reject", "reference"])
def test_apply_gives_the_store_that_writing_under_the_policy_gives(tmp_path: Path, policy: str) -> None:
    answers = {}
    for how in ("written", "applied"):
        with docstore.open(tmp_path / how, create=True, durability="none") as store:
            policies = {"exact": policy, "same_text": policy}
            names = fill(store, policies if how == "written" else None)
            if how == "applied":
                report = sweep(store, SweepOptions(apply=policy, threads=1))
                assert report.applied == {"exact": 3, "same_text": 1}
                assert report.left == {"kind": 1}
            sweep(store, SweepOptions(threads=1))
            answers[how] = said(store, names)
            assert list(check(store.backend)) == []
            store.compact()
            assert list(check(store.backend)) == []
            answers[how + " compacted"] = said(store, names)
            answers[how + " totals"] = store.stats()["totals"]
    assert answers["applied"] == answers["written"]
    assert answers["applied compacted"] == answers["written compacted"]
    assert answers["applied totals"] == answers["written totals"]
    rejected = [url for url, _, _ in answers["applied"]["rejected"]]
    expected = [] if policy == "reference" else [BASE + name for name in ("copy", "copy", "e2", "moved", "text")]
    assert sorted(rejected) == expected


@pytest.mark.parametrize("policy", ["reject", "reference"])
def test_a_second_run_changes_nothing(store: DocumentStore, policy: str) -> None:
    fill(store, None)
    options = SweepOptions(apply=policy, kinds=("exact", "same_text", "near"), threads=1)
    assert sum(sweep(store, options).applied.values()) == 5
    before = contents(store)
    again = sweep(store, options)
    assert (again.applied, again.written, again.freed_bytes) == ({}, 0, 0)
    assert contents(store) == before


@pytest.mark.parametrize("policy", ["reject", "reference"])
def test_a_dry_run_writes_nothing_and_reports_freed_bytes(store: DocumentStore, policy: str) -> None:
    fill(store, None)
    put(store, "b1", page(words(20, 9000)), at=20)
    put(store, "b2", page(words(20, 9000)).replace(b"<body>", b"<body id='x'>"), at=21)
    before, size = contents(store), store.stored_bytes()
    tried = sweep(store, SweepOptions(apply=policy, dry_run=True, threads=1))
    assert contents(store) == before
    assert store.stored_bytes() == size
    done = sweep(store, SweepOptions(apply=policy, threads=1))
    assert (done.applied, done.left, done.freed_bytes) == (tried.applied, tried.left, tried.freed_bytes)
    assert done.applied


def during(action: Callable[[], object]) -> Callable[[str, int, int], None]:
    """Progress that does something once, when pairs are found and nothing is changed yet."""
    left = [action]

    def show(stage: str, done: int, total: int) -> None:
        if stage == "shingles" and left:
            left.pop()()

    return show


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda store: store.delete(BASE + "a"), "changed"),
        (lambda store: put(store, "a", page(words(5, 200)), at=50), "canonical"),
        (lambda store: put(store, "a", BODY_BYTES, at=50, status=503), "canonical"),
        (lambda store: store.delete(BASE + "copy"), "changed"),
    ],
)
def test_changes_between_sweep_and_apply_are_respected(
    store: DocumentStore, change: Callable[[DocumentStore], object], reason: str
) -> None:
    put(store, "a")
    put(store, "copy", at=2)
    put(store, "z1", page(words(3, 100)), at=3)
    put(store, "z2", page(changed(words(3, 100), 1, 1)), at=4)  # a pair whose shingles are made
    report = sweep(store, REJECT, during(lambda: change(store)))
    assert (report.applied, report.left) == ({}, {"kind": 1, reason: 1})
    assert not list(store.rejected())
    assert list(check(store.backend)) == []


def test_a_canonical_is_live_again_when_its_newer_version_is_rejected(store: DocumentStore) -> None:
    other = page(words(4, 200))
    put(store, "q", other, at=1)
    put(store, "a", at=2)
    put(store, "copy", at=3)
    put(store, "a", other, at=4)  # what /a shows is a copy of /q, and hides what /copy is a copy of
    report = sweep(store, REJECT)
    assert (report.applied, report.left) == ({"exact": 2}, {})
    assert sweep(store, REJECT).applied == {}
    found = store.get(BASE + "copy", follow_duplicates=True)
    assert found is not None and found.body == BODY_BYTES
    assert not list(store.orphans())


def test_a_page_that_others_were_rejected_for_is_kept(store: DocumentStore) -> None:
    put(store, "c1", at=10)
    put(store, "m", at=11)
    assert sweep(store, REJECT).applied == {"exact": 1}
    put(store, "c0", at=5)  # comes late, and is older
    report = sweep(store, SweepOptions(apply="reject", canonical_policy=CanonicalPolicy.OLDEST, threads=1))
    assert (report.applied, report.left) == ({}, {"needed": 1})
    assert [url for url, _, _ in store.rejected()] == [BASE + "m"]
    assert not list(store.orphans())


def test_a_chain_of_references_gives_every_body_back(store: DocumentStore) -> None:
    put(store, "c1", SAME_TEXT, at=10)
    put(store, "m", at=11)
    sweep(store, REFERENCE)
    put(store, "c0", at=5)
    sweep(store, REFERENCE)
    store.compact()
    assert list(check(store.backend)) == []
    bodies = {name: store.get(BASE + name).body for name in ("c0", "c1", "m")}  # type: ignore[union-attr]
    assert bodies == {"c0": BODY_BYTES, "c1": SAME_TEXT, "m": BODY_BYTES}
    store.delete(BASE + "c0")
    store.compact()
    assert store.get(BASE + "m").body == BODY_BYTES  # type: ignore[union-attr]
    assert list(check(store.backend)) == []


def test_visits_and_late_captures_after_a_rejection(store: DocumentStore) -> None:
    put(store, "a", at=1)
    put(store, "m", page(words(8, 100)), at=2)
    put(store, "m", at=10)
    put(store, "m", b"", at=12, status=304)
    put(store, "m", at=14)
    assert sweep(store, REJECT).applied == {"exact": 1}
    assert [one.timestamp // SECOND for one in store.history(BASE + "m")] == [14, 10, 2]
    assert {one.newest.checksum for one in store.history(BASE + "m")[:2]} == {store.get(BASE + "a").newest.checksum}  # type: ignore[union-attr]
    assert store.validators(BASE + "m")["last_visit"] == 14 * SECOND  # type: ignore[index]
    assert put(store, "m", b"", at=20, status=304).stored == "visit"
    assert put(store, "m", at=14, policies={"exact": "reject"}).stored == "known"
    assert put(store, "m", at=11, policies={"exact": "reject"}).stored == "rejected"
    assert put(store, "m", at=12).stored == "body"  # it is stored again under a policy that stores it
    assert list(check(store.backend)) == []
    alone = put(store, "e", at=30)
    assert (alone.verdict.kind, alone.verdict.of_url) == (VerdictKind.EXACT, BASE + "a")


def test_a_visit_of_a_rejected_url_that_has_nothing_else(store: DocumentStore) -> None:
    put(store, "a", at=1)
    put(store, "m", at=2)
    put(store, "m", b"", at=3, status=304)
    sweep(store, REJECT)
    assert store.get(BASE + "m") is None
    assert put(store, "m", b"", at=9, status=304).stored == "visit"
    assert [one.timestamp // SECOND for one in store.history(BASE + "m")] == [2]
    assert list(check(store.backend)) == []
    store.delete(BASE + "a")
    assert [one.url for one in store.orphans()] == [BASE + "m"]


@pytest.mark.parametrize("policy", ["reject", "reference"])
def test_other_hosts_only_with_the_option(store: DocumentStore, policy: str) -> None:
    put(store, "a")
    put(store, "https://mirror.example/a", at=2)
    assert sweep(store, SweepOptions(apply=policy, threads=1)).left == {"other_host": 1}
    report = sweep(store, SweepOptions(apply=policy, any_host=True, threads=1))
    assert (report.applied, report.left) == ({"exact": 1}, {})
    assert sweep(store, SweepOptions(apply=policy, any_host=True, threads=1)).applied == {}


def test_near_pages_only_with_the_option_and_versions_of_one_url_never(store: DocumentStore) -> None:
    put(store, "a", at=1)
    put(store, "a", page(changed(TEXT, 1, 2)), at=2)
    put(store, "a", at=3)
    assert sweep(store, SweepOptions(apply="reject", same_url=True, threads=1)).applied == {}
    put(store, "near", page(changed(TEXT, 2, 3)), at=4)
    near = SweepOptions(apply="reject", kinds=("near",), threads=1)
    assert sweep(store, near).applied == {"near": 1}
    ((_, _, verdict),) = store.rejected()
    assert 0.8 < verdict.similarity < 1


def test_pages_without_a_body_and_cells_of_the_user_stay(tmp_path: Path) -> None:
    schema = Schema(families=(ColumnFamily("mine"),))
    with docstore.open(tmp_path / "s", create=True, durability="none", schema=schema) as store:
        put(store, "a", at=1)
        put(store, "slim", at=2, keep_body=False)
        put(store, "m", at=3)
        store.cells.apply(BASE + "m", [docstore.SetCell("mine", b"note", 3 * SECOND, b"x")])
        assert sweep(store, REJECT).left == {"changed": 1}
        row = store.cells.row_key(BASE + "m")
        assert {(family, name) for key, family, name, _ in contents(store) if key == row} == {
            ("mine", b"note"), CHECKSUM, VERDICT,
        }  # fmt: skip


def test_no_member_is_applied_against_a_canonical_without_its_body(store: DocumentStore) -> None:
    put(store, "a", at=1, keep_body=False)
    put(store, "m", at=2)
    assert sweep(store, REJECT).left == {"canonical": 1}
    assert store.get(BASE + "m").body == BODY_BYTES  # type: ignore[union-attr]


def test_a_version_that_a_policy_hides_comes_back_when_the_newer_one_is_rejected(tmp_path: Path) -> None:
    schema = Schema(captures=GCPolicy(max_versions=1))
    with docstore.open(tmp_path / "s", create=True, durability="none", schema=schema) as store:
        put(store, "a", at=1)
        put(store, "m", page(words(8, 100)), at=2)
        put(store, "m", at=3)
        assert sweep(store, REJECT).applied == {"exact": 1}
        found = store.get(BASE + "m")
        assert found is not None and found.body == page(words(8, 100))
        store.compact()
        assert list(check(store.backend)) == []


@pytest.mark.parametrize("options", [{"apply": "flag"}, {"apply": "reject", "kinds": ("contained",)}, {"kinds": ()}])
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        SweepOptions(**options)


@pytest.mark.parametrize("policy", ["reject", "reference"])
def test_after_compaction_the_sample_crawl_has_the_size_of_a_store_written_under_the_policy(
    tmp_path: Path, policy: str
) -> None:
    kinds = ("exact", "same_text", "near")
    sizes = {}
    for how in ("applied", "written"):
        with docstore.open(tmp_path / how, create=True, durability="none") as store:
            policies = {VerdictKind(kind): Policy(policy) for kind in kinds} if how == "written" else {}
            ingest(store, [CRAWL], IngestOptions(policies=policies))
            if how == "applied":
                store.compact()
                live = store.compact(dry_run=True).live_bytes
                options = SweepOptions(apply=policy, kinds=kinds, canonical_policy=CanonicalPolicy.OLDEST, threads=1)
                report = sweep(store, options)
                assert sum(report.applied.values()) == report.duplicates == 74
                if policy == "reject":
                    assert 15_000 < report.freed_bytes <= live - store.compact(dry_run=True).live_bytes
            store.compact(full=True)
            sizes[how] = store.stored_bytes()
            assert list(check(store.backend)) == []
    print(sizes)
    assert sizes["applied"] == pytest.approx(sizes["written"], rel=0.01)


@pytest.mark.parametrize("seed", [0, 2, 4, 5, 21, 22][:: stride(3)])
def test_random_stores_lose_nothing(tmp_path: Path, seed: int) -> None:
    """A page shows what it showed, or the page it was rejected for does; during compactions, run after run."""
    source = random.Random(seed)
    texts = [words(number, source.choice([8, 30, 120])) for number in range(4)]
    bodies = [page(text, f"Title {n}") for n, text in enumerate(texts)]
    bodies += [one.replace(b"<body>", b"<body class='x'>") for one in bodies]
    bodies += [page(changed(text, seed, 2), f"Title {n}") for n, text in enumerate(texts)]
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        for round_number in range(4):
            for _ in range(40):
                name, at = f"p{source.randrange(12)}", source.randrange(1, 200)
                status = source.choice([200, 200, 200, 200, 404, 304])
                body = b"" if status == 304 else source.choice(bodies)
                policy = source.choice(["flag", "flag", "reference", "reject"])
                put(store, name, body, at, status=status, policies=dict.fromkeys(("exact", "same_text"), policy))
            if source.random() < 0.5:
                store.delete(f"{BASE}p{source.randrange(12)}")
            pages = LivePages(store.table, store.backend.values)
            stood = {
                (url, at)
                for url, at, one in store.rejected()
                if pages.is_current(PagePointer(one.of_timestamp, store.cells.row_key(one.of_url)))
            }
            before = captures_of(store)
            kinds = source.choice([("exact", "same_text"), ("exact",), ("exact", "same_text", "near")])
            options = SweepOptions(apply=source.choice(["reject", "reference"]), kinds=kinds, threads=1)
            compacting = threading.Thread(target=store.compact)
            compacting.start()
            report = sweep(store, options)
            compacting.join()
            after = captures_of(store)
            assert sweep(store, options).applied == {}, (seed, round_number)
            assert captures_of(store) == after
            orphans = {(one.url, one.timestamp) for one in store.orphans()}
            assert orphans.isdisjoint(stood | before.keys()), (seed, round_number, report)
            rejected = {(url, at): verdict for url, at, verdict in store.rejected()}
            for (url, at), shown in before.items():
                if (url, at) in after:
                    assert after[url, at] == shown
                elif (url, at) in rejected:
                    verdict = rejected[url, at]
                    body, text = after[verdict.of_url, verdict.of_timestamp]
                    assert body == shown[0] if verdict.kind == "exact" else verdict.kind == "near" or text == shown[1]
            assert list(check(store.backend)) == []


def captures_of(store: DocumentStore) -> dict[tuple[str, int], tuple[bytes | None, str | None]]:
    """Body and text of every live capture."""
    found = {}
    for number in range(12):
        url = f"{BASE}p{number}"
        for one in store.history(url):
            document = store.get(url, at=one.timestamp)
            if document is not None and document.timestamp == one.timestamp:
                found[url, one.timestamp] = document.body, document.text
    return found


def test_a_later_capture_of_bytes_that_others_were_rejected_for_is_kept(store: DocumentStore) -> None:
    put(store, "x", at=5)
    assert put(store, "r", at=6, policies={"exact": "reject"}).stored == "rejected"
    put(store, "x", at=9)
    put(store, "x", page(words(3, 100)), at=7)  # comes late: the visit at 9 goes with the capture at 5
    put(store, "y", at=2)
    report = sweep(store, SweepOptions(apply="reject", canonical_policy=CanonicalPolicy.OLDEST, threads=1))
    assert (report.applied, report.left) == ({}, {"needed": 1})
    assert not list(store.orphans())


def put_contained(store: DocumentStore) -> None:
    """Two long pages that contain a third, a page of their template alone, and others."""
    inner, menu = words(50, 200), words(51, 30)
    put(store, "inner", page(inner), at=1)
    put(store, "whole", page(f"{words(52, 60)} {inner} {words(53, 60)}"), at=2)
    put(store, "other-whole", page(f"{words(54, 300)} {inner}"), at=3)
    for number in range(4):
        put(store, f"template/{number}", page(f"{menu} {words(60 + number, 150)}"), at=4)


def test_a_sweep_by_overlap_clusters_pages_with_one_that_contains_them(store: DocumentStore) -> None:
    put_contained(store)
    assert sweep(store, SweepOptions(threads=1)).clusters == 0
    report = sweep(store, SweepOptions(threads=1, measure="overlap"))
    assert (report.clusters, report.duplicates, report.threshold) == (1, 1, 0.9)
    urls = [BASE + name for name in ("whole", "inner", "other-whole", "template/0", "template/1")]
    kept = store.collapse(urls)
    assert BASE + "inner" not in kept or BASE + "other-whole" not in kept
    assert len(kept) == len(urls) - 1 and {BASE + "template/0", BASE + "template/1"} <= set(kept)
    assert sweep(store, SweepOptions(threads=1, measure="overlap")).written == 0
    assert sweep(store, SweepOptions(threads=1, measure="overlap", threshold=0.2)).clusters == 1


def test_contained_pages_are_stored_by_reference_and_read_as_before(store: DocumentStore) -> None:
    put_contained(store)
    before = said(store, ["inner", "whole", "other-whole"])["get"]
    options = SweepOptions(threads=1, measure="overlap", apply="reference", kinds=("contained",))
    assert sweep(store, options).applied == {"contained": 1}
    after = said(store, ["inner", "whole", "other-whole"])["get"]
    assert {url: one[:2] for url, one in after.items()} == {url: one[:2] for url, one in before.items()}
    with pytest.raises(InvalidArgument, match="only stored by reference"):
        SweepOptions(apply="reject", kinds=("contained",))
    with pytest.raises(InvalidArgument, match="measure"):
        SweepOptions(measure="cosine")
    assert list(check(store.backend)) == []
