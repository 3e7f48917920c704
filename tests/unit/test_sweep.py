"""The sweep: pairs, clusters, columns; equal whatever the order, the threads and the kills."""

from __future__ import annotations

import os
import random
import resource
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import docstore
from docstore.archives.entries import PageEntry
from docstore.archives.reader import read
from docstore.dedup.comparable import TitledPage
from docstore.dedup.kernel import Kernel
from docstore.model.capture import ClusterPlace, decode_cluster_place
from docstore.model.choices import CanonicalPolicy, VerdictKind
from docstore.model.errors import UnsupportedFormat
from docstore.model.format import SCHEME_TEXT_1
from docstore.model.keys import row_key
from docstore.model.types import Page, ReadSpec
from docstore.reading.index import text_scheme_row
from docstore.reports.check import check
from docstore.storage.engine import Plan
from docstore.store import DocumentStore
from docstore.sweep import pairs as sweep_pairs
from docstore.sweep import texts as sweep_texts
from docstore.sweep.candidates import band_width, candidates, expected_recall
from docstore.sweep.clusters import CROWD, Clusters, Survivors, missing_pairs
from docstore.sweep.job import SweepOptions, SweepReport, sweep
from docstore.sweep.pairs import PairGraph, set_apart
from docstore.sweep.reindex import reindex
from docstore.sweep.texts import StageLog
from tests.pages import changed, page, words

CRAWL = Path(__file__).parents[2] / "examples" / "sample-crawl.warc.gz"
SECOND = 1_000_000
BASE = "https://example.com/"


def put(store: DocumentStore, url: str, body: bytes, at: int = 1, status: int = 200, **headers: str) -> None:
    given = {"Content-Type": "text/html; charset=utf-8", **{key.replace("_", "-"): v for key, v in headers.items()}}
    store.put_page(url, body, headers=given, status=status, fetched_at=at * SECOND, any_time=True)


def pairs_of(store: DocumentStore, **options: object) -> list[tuple[str, int, str, int, float]]:
    """The pairs file, read."""
    path = store.backend.path.parent / "pairs.tsv"
    sweep(store, SweepOptions(pairs=path, threads=2, **options))  # type: ignore[arg-type]
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        one, at, other, other_at, similarity = line.split("\t")
        found.append((one, int(at) // SECOND, other, int(other_at) // SECOND, float(similarity)))
    return found


def places(store: DocumentStore) -> dict[str, ClusterPlace]:
    """What the sweep wrote: URL -> place."""
    spec = ReadSpec(families=("dedup",), qualifier_prefix=b"canonical")
    return {row.url: decode_cluster_place(row.cells[0].value) for row in store.cells.scan(spec=spec)}


def canonical_of(store: DocumentStore, url: str) -> str:
    place = places(store).get(url)
    return url if place is None else docstore.store.keys.url_of(place.row_key)  # type: ignore[attr-defined]


def jaccard(one: list[str], other: list[str]) -> float:
    kernel = Kernel()
    first, second = set(kernel.shingles(" ".join(one)).tolist()), set(kernel.shingles(" ".join(other)).tolist())
    return len(first & second) / len(first | second)


# --- pairs


def test_pairs_have_exact_similarities_and_leave_out_what_is_below_the_threshold(store: DocumentStore) -> None:
    text = words(1, 300)
    near, far = changed(text, 2, 4), changed(text, 3, 40)
    put(store, BASE + "a", page(text))
    put(store, BASE + "b", page(near), 2)
    put(store, BASE + "c", page(far), 3)
    assert jaccard(text, near) > 0.8 > jaccard(text, far)
    assert pairs_of(store) == [(BASE + "a", 1, BASE + "b", 2, pytest.approx(jaccard(text, near), abs=1e-6))]
    lower = pairs_of(store, threshold=0.3)
    assert [found[4] for found in lower] == [
        pytest.approx(jaccard(*two), abs=1e-6) for two in ((text, near), (text, far), (near, far))
    ]


def test_equal_texts_are_a_star_unless_all_pairs_are_requested(store: DocumentStore) -> None:
    text = words(1, 80)
    for number, name in enumerate("abcd"):
        put(store, BASE + name, page(text, title=name), number)
    assert [(one[-1], other[-1]) for one, _, other, _, _ in pairs_of(store)] == [("a", "b"), ("a", "c"), ("a", "d")]
    every = pairs_of(store, all_pairs=True)
    assert "".join(one[-1] + other[-1] for one, _, other, _, _ in every) == "abacadbcbdcd"
    assert {similarity for *_, similarity in every} == {1.0}


def test_short_pages_are_pairs_only_if_they_are_equal_as_in_verdicts(store: DocumentStore) -> None:
    tiny, short = words(1, 5), words(2, 30)
    put(store, BASE + "shell1", page(tiny, "One"))
    put(store, BASE + "shell2", page(tiny, "Two"))
    put(store, BASE + "same1", page(tiny, "Same"))
    put(store, BASE + "same2", page(tiny, "Same"))
    put(store, BASE + "short1", page(short, "A"))
    put(store, BASE + "short2", page(short, "A") + b"<!-- another body -->")
    put(store, BASE + "short3", page(short, "B"))
    put(store, BASE + "short4", page(changed(short, 1, 1), "A"))
    found = {
        (one.rpartition("/")[2], other.rpartition("/")[2]) for one, _, other, _, _ in pairs_of(store, threshold=0.1)
    }
    assert found == {("same1", "same2"), ("short1", "short2")}


def test_versions_of_one_url_are_pairs_only_with_the_option(store: DocumentStore) -> None:
    text = words(1, 100)
    put(store, BASE + "a", page(text), 1)
    put(store, BASE + "a", page(changed(text, 1, 1)), 2)
    put(store, BASE + "a", page(text, "Another page"), 3)
    assert pairs_of(store) == []
    assert sweep(store).with_duplicates == 0
    assert places(store) == {}
    assert [(at, other_at) for _, at, _, other_at, _ in pairs_of(store, same_url=True)] == [(1, 2), (1, 3), (2, 3)]
    report = sweep(store, SweepOptions(same_url=True, dry_run=True))
    assert (report.pairs, report.with_duplicates, report.clusters) == (3, 3, 1)
    put(store, BASE + "b", page(text, "Another page, 3"), 4)
    # no pair with the older version of the same row: each is paired with the other row
    assert [(one[-1], at, other[-1]) for one, at, other, _, _ in pairs_of(store)] == [
        ("a", 1, "b"),
        ("a", 2, "b"),
        ("a", 3, "b"),
    ]


def test_a_visit_with_the_same_bytes_is_not_a_version(store: DocumentStore) -> None:
    text = words(1, 100)
    for at in (1, 2, 3):
        put(store, BASE + "a", page(text), at)
    store.put_page(BASE + "a", status=304, fetched_at=4 * SECOND, any_time=True)
    put(store, BASE + "b", page(text), 5)
    assert sweep(store, SweepOptions(same_url=True)).captures == 2
    assert pairs_of(store, same_url=True) == [(BASE + "a", 1, BASE + "b", 5, 1.0)]
    assert store.collapse([BASE + "a", BASE + "b"]) == [BASE + "a"]


def test_pairs_include_every_pair_that_the_write_path_named(tmp_path: Path) -> None:
    chooser = random.Random(5)
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        named = set()
        texts = [words(seed, 90) for seed in range(8)]
        for number in range(150):
            text = changed(chooser.choice(texts), chooser.randrange(30), chooser.choice([0, 1, 1, 2, 12]))
            url = f"{BASE}{number}"
            result = store.put_page(url, page(text, chooser.choice("AB")), fetched_at=number * SECOND, any_time=True)
            if result.verdict.kind in (VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR):
                named.add(frozenset((url, result.verdict.of_url)))
        found = {frozenset((one, other)) for one, _, other, _, _ in pairs_of(store, all_pairs=True)}
    assert len(named) > 80
    assert named <= found


def test_errors_are_pairs_with_errors_by_their_bytes_alone(store: DocumentStore) -> None:
    text = words(1, 100)
    put(store, BASE + "error", page(text), 1, status=404)
    put(store, BASE + "error-too", page(text), 2, status=404)
    put(store, BASE + "other-error", page(changed(text, 1, 1)), 1, status=404)
    put(store, BASE + "good", page(text), 2)
    assert [(one, other) for one, _, other, _, _ in pairs_of(store)] == [(BASE + "error", BASE + "error-too")]
    assert canonical_of(store, BASE + "error-too") == BASE + "error"


# --- clusters and columns


def test_every_member_is_within_the_threshold_of_its_canonical_in_a_chain_of_changes(store: DocumentStore) -> None:
    text = words(1, 200)
    texts = {f"{BASE}00": text}
    for number in range(1, 12):
        text = changed(text, number, 2)
        texts[f"{BASE}{number:02}"] = text
    for number, (url, found) in enumerate(texts.items()):
        put(store, url, page(found), number + 1)
    for policy in CanonicalPolicy:
        report = sweep(store, SweepOptions(canonical_policy=policy))
        assert 1 < report.clusters < 12
        for url, place in places(store).items():
            canonical = docstore.store.keys.url_of(place.row_key)  # type: ignore[attr-defined]
            assert place.similarity == pytest.approx(jaccard(texts[url], texts[canonical]))
            assert place.similarity >= 0.8


def test_policies_choose_the_canonical(store: DocumentStore) -> None:
    text = words(1, 100)
    link = b'<link rel="canonical" href="/old-name">'
    put(store, BASE + "a-long-url-that-came-first", page(text), 1)
    put(store, BASE + "s", page(text), 3)
    put(store, BASE + "linked", page(text), 4)
    put(store, BASE + "declared", page(text), 5)
    put(store, BASE + "votes", page(text).replace(b"</head>", link + b"</head>"), 6)
    put(store, BASE + "old-name", b"", 7, status=301, Location="/declared")
    for source in ("x", "y"):
        store.add_anchor(BASE + "linked", f"https://other.example/{source}", "text", seen_at=SECOND, any_time=True)
    expected = {"oldest": "a-long-url-that-came-first", "shortest-url": "s", "most-anchors": "linked"}
    expected["canonical-link"] = "declared"
    for policy in CanonicalPolicy:
        sweep(store, SweepOptions(canonical_policy=policy))
        assert canonical_of(store, BASE + "votes") == BASE + expected[str(policy)], policy
        assert len({place.cluster for place in places(store).values()}) == 1


def test_a_redirect_from_another_host_makes_no_page_canonical(store: DocumentStore) -> None:
    text = words(1, 100)
    put(store, BASE + "first", page(text), 1)
    put(store, "https://evil.example/copy", page(text), 2)
    put(store, "https://third.example/", b"", 3, status=301, Location="https://evil.example/copy")
    sweep(store)
    assert canonical_of(store, "https://evil.example/copy") == BASE + "first"


LINKED = b'<link rel="canonical" href="%s"></head>'
EVIL = "https://evil.example/"


@pytest.mark.parametrize(
    ("attack", "status", "declares"),
    [
        ([EVIL + "copy"], 200, EVIL + "copy"),  # the copy declares itself
        ([EVIL + "copy", EVIL + "more"], 200, EVIL + "copy"),  # and another page of its host declares it
        ([EVIL + "copy", "https://third.example/"], 200, EVIL + "copy"),
        ([EVIL + "copy", EVIL + "moved"], 301, ""),  # a redirect of its host leads to it
        ([EVIL + "copy", BASE + "younger"], 200, EVIL + "copy"),  # a page of the victim's host is taken in
        (["http://evil.example/copy", EVIL + "copy"], 200, EVIL + "copy"),
    ],
)
@pytest.mark.parametrize("near", [False, True])
def test_a_strangers_votes_do_not_remove_an_older_page(
    store: DocumentStore, attack: list[str], status: int, declares: str, near: bool
) -> None:
    text = words(1, 300)
    put(store, BASE + "victim", page(text), 1)
    for number, url in enumerate(attack):
        copy = page(changed(text, number + 1, 1) if near else text)
        if status == 301 and number:
            put(store, url, b"", 9, status=301, Location=attack[0])
        else:
            put(store, url, copy.replace(b"</head>", LINKED % declares.encode()), 2 + number)
    sweep(store)
    assert canonical_of(store, BASE + "victim") == BASE + "victim"
    survivors = Survivors(store)
    for row in store.table.scan():
        survivors.add(row.row_key, 10 * SECOND)
    assert survivors.keeps(row_key(BASE + "victim"), SECOND)


@pytest.mark.parametrize(
    ("voter", "target", "counts"),
    [
        ("https://site.example/old", "https://site.example/new", True),
        ("https://site.example/a", "http://www.site.example/a", True),
        ("https://m.site.example/a", "https://www.site.example/a", True),
        ("https://blog.site.example/a", "https://site.example/a", False),
        ("https://m.co/a", "https://www.co/a", False),
        ("https://mm.site.example/a", "https://site.example/a", False),
    ],
)
def test_a_page_votes_for_pages_of_its_site_alone(store: DocumentStore, voter: str, target: str, counts: bool) -> None:
    text = words(1, 100)
    put(store, voter, page(text).replace(b"</head>", LINKED % target.encode()), 1)
    put(store, target, page(text), 2)
    sweep(store)
    assert canonical_of(store, voter) == (target if counts else voter)


def test_an_earlier_version_of_a_page_does_not_vote_for_it(store: DocumentStore) -> None:
    text = words(1, 100)
    put(store, BASE + "first", page(text), 1)
    put(store, BASE + "self", page(changed(text, 1, 1)).replace(b"</head>", LINKED % b"/self" + b"</head>"), 2)
    put(store, BASE + "self", page(text), 3)
    sweep(store, SweepOptions(same_url=True))
    assert canonical_of(store, BASE + "self") == BASE + "first"


def test_a_second_sweep_writes_nothing_and_another_threshold_writes_differences(store: DocumentStore) -> None:
    text = words(1, 300)
    put(store, BASE + "a", page(text), 1)
    put(store, BASE + "b", page(changed(text, 2, 4)), 2)
    put(store, BASE + "c", page(text, "Equal page"), 3)
    put(store, BASE + "d", page(words(9, 100)), 4)
    assert sweep(store, SweepOptions(dry_run=True)).written == 0
    assert places(store) == {}
    assert sweep(store).written == 3
    assert set(places(store)) == {BASE + "a", BASE + "b", BASE + "c"}
    assert sweep(store).written == 0
    # b is alone now; its columns say so, because its verdict names a
    assert sweep(store, SweepOptions(threshold=0.99)).written == 1
    assert canonical_of(store, BASE + "b") == BASE + "b"
    assert store.collapse([BASE + "b", BASE + "a", BASE + "c"]) == [BASE + "b", BASE + "a"]
    store.delete(BASE + "a")
    store.delete(BASE + "b")
    sweep(store)
    assert set(places(store)) == {BASE + "c"}  # alone now, though its verdict still names a page


def test_a_page_deleted_while_the_sweep_runs_does_not_come_back(store: DocumentStore) -> None:
    text = words(1, 100)
    put(store, BASE + "a", page(text), 1)
    put(store, BASE + "b", page(text, "B"), 2)

    def delete_at_once(stage: str, done: int, total: int) -> None:
        if stage != "columns":
            store.delete(BASE + "b")

    put(store, BASE + "c", page(changed(text, 1, 1)), 3)
    report = sweep(store, on_progress=delete_at_once)
    assert report.clusters == 1
    assert store.get(BASE + "b") is None
    assert store.cells.read_row(BASE + "b") is None


def test_totals_are_those_of_the_literature(store: DocumentStore) -> None:
    text = words(1, 60)
    for number in range(502):
        put(store, f"{BASE}copy{number}", page(text, str(number)), number + 1)
    put(store, BASE + "alone", page(words(2, 60)))
    put(store, BASE + "near1", page(words(3, 200)))
    put(store, BASE + "near2", page(changed(words(3, 200), 1, 1)))
    report = sweep(store)
    assert (report.captures, report.duplicates, report.without_duplicates) == (505, 502, 1)
    assert (report.with_duplicates, report.with_500, report.clusters, report.largest_cluster) == (504, 502, 2, 502)
    assert report.pairs == 502 * 501 // 2 + 1
    assert report.listed_pairs == 502


# --- another text, other shingles


def test_visible_text_is_compared_from_bodies_if_the_store_fingerprints_main_text(tmp_path: Path) -> None:
    menu = "<nav>" + " ".join(f"<a href=/{word}>{word}</a>" for word in words(7, 120)) + "</nav>"
    schema = docstore.Schema(extractor="combined")
    with docstore.open(tmp_path / "store", create=True, schema=schema, durability="none") as store:
        for number in range(2):
            body = page(words(number, 200)).replace(b"<body>", f"<body>{menu}".encode())
            put(store, f"{BASE}{number}", body)
        for number in range(2):
            body = page(words(5, 200)).replace(
                b"<body>", f"<body><nav>{' '.join(words(50 + number, 150))}</nav>".encode()
            )
            put(store, f"{BASE}same-main-{number}", body)
        main = {found[0] for found in pairs_of(store, threshold=0.2, text="main")}
        visible = pairs_of(store, threshold=0.2, text="visible")
        report = sweep(store, SweepOptions(text="visible", shingle_words=3))
    assert main == {BASE + "same-main-0"}
    assert {found[0] for found in visible} == {BASE + "0", BASE + "same-main-0"}
    assert (report.text, report.shingle_words) == ("visible", 3)


def test_other_shingle_lengths_are_made_from_stored_texts(store: DocumentStore) -> None:
    text = words(1, 200)
    other = changed(text, 2, 20)
    put(store, BASE + "a", page(text))
    put(store, BASE + "b", page(other))
    for width in (1, 3, 5):
        kernel = Kernel(shingle_words=width)
        one, two = (set(kernel.shingles(" ".join(some)).tolist()) for some in (text, other))
        ((*_, similarity),) = pairs_of(store, threshold=0.2, shingle_words=width)
        assert similarity == pytest.approx(len(one & two) / len(one | two), abs=1e-6)


@pytest.mark.parametrize("options", [{"threshold": 0.0}, {"threshold": 1.5}, {"text": "title"}, {"threads": 0}])
def test_options_that_make_no_sense_are_refused(store: DocumentStore, options: dict[str, object]) -> None:
    with pytest.raises(docstore.InvalidArgument):
        sweep(store, SweepOptions(**options))  # type: ignore[arg-type]


# --- the same whatever the order, the threads and the kills


def sample_pages() -> list[Page]:
    return [entry.page for entry in read(CRAWL) if isinstance(entry, PageEntry)]


def test_three_orders_of_ingest_give_one_pairs_file(tmp_path: Path) -> None:
    pages = sample_pages()
    orders: list[Callable[[list[Page]], None]] = [lambda some: None, list.reverse, random.Random(3).shuffle]
    files, clusters = set(), []
    for number, reorder in enumerate(orders):
        given = list(pages)
        reorder(given)
        with docstore.open(tmp_path / str(number), create=True, durability="none") as store:
            list(store.put_pages(given, threads=1))
            for all_pairs in (False, True):
                path = tmp_path / f"{number}-{all_pairs}.tsv"
                report = sweep(store, SweepOptions(pairs=path, all_pairs=all_pairs, threads=number + 1))
            files.add((path.read_bytes(), (tmp_path / f"{number}-False.tsv").read_bytes()))
            # a page alone has columns only if its verdict, which depends on the order, named another
            clusters.append({url: place for url, place in places(store).items() if place.similarity < 1})
    assert len(files) == 1
    assert report.pairs > 20
    assert clusters[0] == clusters[1] == clusters[2]


class Killed(Exception):
    """Stops a sweep where a kill would."""


@pytest.mark.parametrize("stage", ["shingles", "pairs", "columns"])
def test_a_killed_sweep_continues_where_it_stopped(tmp_path: Path, stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_texts, "BATCH_TEXTS", 8)
    monkeypatch.setattr(sweep_pairs, "BATCH_MEMBERS", 2000)
    monkeypatch.setattr("docstore.sweep.pages.GROUP_CAPTURES", 4)
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        list(store.put_pages(sample_pages()))
    shutil.copytree(tmp_path / "store", tmp_path / "whole")

    def run(name: str, stop_at: int = 0) -> tuple[SweepReport, int, dict[str, ClusterPlace]]:
        calls = 0

        def kill(at: str, done: int, total: int) -> None:
            nonlocal calls
            calls += at == stage
            if stop_at and calls == stop_at:
                raise Killed

        with docstore.open(tmp_path / name) as opened:
            report = sweep(opened, SweepOptions(pairs=tmp_path / f"{name}.tsv", threads=1), kill)
            return report, calls, places(opened)

    whole, batches, expected = run("whole")
    assert batches > 3
    with pytest.raises(Killed):
        run("store", stop_at=3)
    assert (tmp_path / "store" / "sweep").exists()
    resumed, left, found = run("store")
    assert left <= batches - 2  # what was logged is not made again
    assert (resumed.pairs, resumed.clusters) == (whole.pairs, whole.clusters)
    assert found == expected
    assert (tmp_path / "store.tsv").read_bytes() == (tmp_path / "whole.tsv").read_bytes()
    assert not (tmp_path / "store" / "sweep").exists()


def test_damaged_stages_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_texts, "BATCH_TEXTS", 8)
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        list(store.put_pages(sample_pages()))
        sweep(store, SweepOptions(pairs=tmp_path / "sound.tsv", dry_run=True))

        def kill(stage: str, done: int, total: int) -> None:
            if stage == "pairs":
                raise Killed

        for suffix, place in ((".log", 40), (".log", -9), (".u64", 100), (".u64", -100)):
            with pytest.raises(Killed):
                sweep(store, SweepOptions(dry_run=True), kill)
            (damaged,) = (tmp_path / "store" / "sweep").glob(f"*/shingles{suffix}")
            raw = bytearray(damaged.read_bytes())
            raw[place] ^= 1
            damaged.write_bytes(raw)
            sweep(store, SweepOptions(pairs=tmp_path / "again.tsv", dry_run=True))
            assert (tmp_path / "again.tsv").read_bytes() == (tmp_path / "sound.tsv").read_bytes()


def test_a_log_continues_after_its_last_sound_frame(tmp_path: Path) -> None:
    path = tmp_path / "stage.log"
    log = StageLog(path, b"i" * 16)
    for frame in (b"one", b"two", b""):
        log.append(frame)
    assert list(StageLog(path, b"i" * 16).frames()) == [b"one", b"two", b""]
    assert list(StageLog(path, b"j" * 16).frames()) == []
    path.write_bytes(path.read_bytes()[:-12])  # the empty frame, and the tail of the one before it
    log = StageLog(path, b"i" * 16)
    assert list(log.frames()) == [b"one"]
    log.append(b"three")
    assert list(StageLog(path, b"i" * 16).frames()) == [b"one", b"three"]


# --- its array kernels


def test_bands_get_narrower_with_the_threshold() -> None:
    widths = [band_width(threshold) for threshold in (0.95, 0.8, 0.7, 0.5, 0.2)]
    assert widths == sorted(widths, reverse=True)
    assert all(expected_recall(threshold) > 0.9999 for threshold in (0.5, 0.6, 0.8, 1.0))
    assert expected_recall(0.2) < 0.9


def test_candidates_include_near_pairs_of_a_bucket_too_large_for_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    sketches = rng.integers(0, 256, (600, 256), dtype=np.uint8)
    sketches[:, :128] = sketches[0, :128]  # all share half of the bands
    sketches[500:] = sketches[400:500]  # and a hundred pairs are equal
    monkeypatch.setattr("docstore.sweep.candidates.PARTNERS", 64)
    sizes, chosen = np.full(600, 1000), np.arange(600)
    first, second, cut = candidates(sketches, sizes, chosen, 0.8)
    assert cut == 600
    pairs = set(zip(first.tolist(), second.tolist(), strict=True))
    assert {(number, number + 100) for number in range(400, 500)} <= pairs
    assert len(pairs) < 200
    first, second, _ = candidates(sketches, sizes, chosen[410:], 0.8)
    assert set(zip(first.tolist(), second.tolist(), strict=True)) == {pair for pair in pairs if min(pair) >= 410}
    assert candidates(sketches, sizes, chosen[:0], 0.8)[0].tolist() == []
    sizes[500:] = 700  # too small to reach the threshold
    assert candidates(sketches, sizes, chosen, 0.8)[0].tolist() == []


@pytest.mark.parametrize(("changed_bins", "size"), [(8, 1000), (14, 116)], ids=["near", "just above the threshold"])
def test_a_large_family_gives_few_candidates_and_each_text_is_among_them(changed_bins: int, size: int) -> None:
    rng = np.random.default_rng(8)
    texts = 4000
    sketches = np.repeat(rng.integers(0, 16, (1, 256), dtype=np.uint8), texts, 0)
    for _ in range(changed_bins):
        sketches[np.arange(texts), rng.integers(0, 256, texts)] = rng.integers(0, 16, texts)
    first, second, cut = candidates(sketches, np.full(texts, size), np.arange(texts), 0.8)
    assert cut == texts
    assert len(first) < 100 * texts  # all pairs are two thousand a text, and more than a thousand were compared
    assert len(np.union1d(first, second)) == texts


def test_buckets_of_a_branch_of_a_large_family_do_not_give_all_pairs() -> None:
    rng = np.random.default_rng(8)
    texts, branches = 4000, 16
    sketches = np.repeat(rng.integers(0, 16, (1, 256), dtype=np.uint8), texts, 0)
    branch = np.arange(texts) % branches
    for _ in range(12):  # bins that a whole branch has otherwise
        sketches[np.arange(texts), rng.integers(0, 256, branches)[branch]] = rng.integers(0, 16, branches)[branch]
    for _ in range(4):
        sketches[np.arange(texts), rng.integers(0, 256, texts)] = rng.integers(0, 16, texts)
    sizes = np.full(texts, 1000)
    first, second, _ = candidates(sketches, sizes, np.arange(texts), 0.8)
    assert len(first) < 100 * texts  # half of the 250 texts of its branch would be more
    assert len(np.union1d(first, second)) == texts
    of_branch = np.flatnonzero(branch == 3)
    first, _, cut = candidates(sketches, sizes, of_branch, 0.8)  # alone it is no large family
    assert (len(first), cut) == (len(of_branch) * (len(of_branch) - 1) // 2, 0)


@pytest.mark.parametrize("policy", [CanonicalPolicy.CANONICAL_LINK, CanonicalPolicy.OLDEST])
def test_a_large_family_is_one_cluster_wherever_its_canonical_page_stands(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch, policy: CanonicalPolicy
) -> None:
    monkeypatch.setattr("docstore.sweep.candidates.PARTNERS", 8)
    monkeypatch.setattr("docstore.sweep.candidates.LEAST_PARTNERS", 2)
    monkeypatch.setattr("docstore.sweep.candidates.MATES", 1)
    link = b'<head><link rel="canonical" href="/m77">'
    for number in range(120):
        body = page(changed(words(1, 300), number, 2)).replace(b"<head>", link)
        put(store, f"{BASE}m{number:02}", body, 121 - number)
    report = sweep(store, SweepOptions(canonical_policy=policy))
    assert (report.clusters, report.largest_cluster, report.duplicates) == (1, 120, 119)
    assert report.candidates < 40 * 120
    expected = "m77" if policy is CanonicalPolicy.CANONICAL_LINK else "m119"
    assert {canonical_of(store, f"{BASE}m{number:02}") for number in range(120)} == {BASE + expected}


@pytest.mark.parametrize("pages", [12, 100])
def test_canonical_pages_that_only_a_crowded_text_joins_are_compared(pages: int) -> None:
    numbers = np.arange(pages)
    pairs = np.zeros(pages - 1, np.int64), numbers[1:]
    graph = PairGraph(numbers, *pairs, np.full(pages - 1, 0.9), numbers, versions=False)
    canonical = numbers.copy()
    canonical[0] = 1  # all others are near page 0 too, but alone
    first, second = missing_pairs(graph, Clusters(canonical, np.ones(pages)), numbers >= 0, pairs)
    found = set(zip(first.tolist(), second.tolist(), strict=True))
    assert {(1, number) for number in range(2, pages)} <= found
    if pages > CROWD:
        assert {(number, 99) for number in range(2, 2 + CROWD - 1)} <= found
        assert len(found) <= pages * CROWD
    else:
        assert len(found) == pages - 2


def test_no_pair_is_compared_in_two_rounds(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docstore.sweep.candidates.PARTNERS", 4)
    monkeypatch.setattr("docstore.sweep.candidates.LEAST_PARTNERS", 1)
    monkeypatch.setattr("docstore.sweep.candidates.MATES", 1)
    rounds: list[set[tuple[int, int]]] = []

    def noted(*arguments: Any) -> tuple[Any, Any]:
        first, second = missing_pairs(*arguments)
        rounds.append(set(zip(first.tolist(), second.tolist(), strict=True)))
        return first, second

    monkeypatch.setattr("docstore.sweep.job.missing_pairs", noted)
    for number in range(60):
        count = 1 + number % 5 if number else 0
        put(store, f"{BASE}m{number:02}", page(changed(words(1, 300), number, count)), 61 - number)
    sweep(store, SweepOptions())
    assert len(rounds) > 2 and rounds[0]
    assert sum(map(len, rounds)) == len(set().union(*rounds))


@pytest.mark.parametrize("seed", [1, 6, 8])
def test_titles_set_the_same_pairs_apart_in_whichever_order_pairs_come(seed: int) -> None:
    chance = random.Random(seed)
    names = ["Red Lamp", "Blue Lamp", "Green Chair", "Old Table", "Small Garden Table", "Lamp"]
    keys = [f"example,h{chance.randrange(2)})/{number:02} http".encode() for number in range(40)]
    pages = [TitledPage(key, chance.choice(names), lambda: "A notice.", lambda: None, True) for key in keys]
    pairs = sorted(chance.sample([(a, b) for a in range(40) for b in range(a + 1, 40)], 200))
    apart = []
    for _ in range(4):
        first, second = (np.array(ends) for ends in zip(*pairs, strict=True))
        chosen = set_apart(pages.__getitem__, np.arange(40), first, second, np.ones(200, bool))
        apart.append({pair for pair, is_apart in zip(pairs, chosen.tolist(), strict=True) if is_apart})
        chance.shuffle(pairs)
    assert 100 < len(apart[0]) < 200 and all(each == apart[0] for each in apart)


def test_pages_stored_by_reference_are_swept_and_rejected_pages_are_not(tmp_path: Path) -> None:
    text = words(1, 150)
    bodies = [page(text), page(text), page(text, "Other page"), page(changed(text, 1, 1)), page(words(2, 60))]
    found = {}
    for policy in (docstore.Policy.FLAG, docstore.Policy.REFERENCE, docstore.Policy.REJECT):
        folder = tmp_path / str(policy)
        folder.mkdir()
        policies = dict.fromkeys((VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR), policy)
        with docstore.open(folder / "store", create=True, durability="none") as store:
            pages = [Page(f"{BASE}{number}", body, 200, (), SECOND) for number, body in enumerate(bodies)]
            list(store.put_pages(pages, any_time=True, policies=policies))
            found[policy] = pairs_of(store, all_pairs=True)
    assert len(found[docstore.Policy.FLAG]) == 6
    assert found[docstore.Policy.REFERENCE] == found[docstore.Policy.FLAG]
    assert found[docstore.Policy.REJECT] == []


def test_texts_of_an_older_scheme_are_refused_until_reindex_extracts_them_again(tmp_path: Path) -> None:
    def page(seed: int) -> bytes:
        return f"<title>Lamps {seed}</title><main><p>{' '.join(words(seed, 80))}</p></main>".encode()

    with docstore.open(tmp_path / "store", create=True) as store:
        for seed in range(3):
            store.put_page(f"https://a.example/{seed}", page(seed))
        store.committer.commit(Plan([text_scheme_row(SCHEME_TEXT_1)]))
    with docstore.open(tmp_path / "store") as store:
        with pytest.raises(UnsupportedFormat, match="reindex"):
            store.put_page("https://b.example/1", page(1))
        with pytest.raises(UnsupportedFormat, match="reindex"):
            sweep(store)
        assert store.get("https://a.example/1") is not None
        reindex(store, dry_run=True)
        with pytest.raises(UnsupportedFormat, match="reindex"):
            store.put_page("https://b.example/1", page(1))
        reindex(store)
        assert str(store.put_page("https://b.example/1", page(1)).verdict.kind) == "exact"
        sweep(store)


# --- one at a time


@pytest.mark.parametrize("kind", ["sweep", "reindexing", "compaction", "backup", "repair"])
def test_a_job_that_runs_refuses_a_second_one_of_its_kind(tmp_path: Path, kind: str) -> None:
    jobs: dict[str, Callable[[DocumentStore], object]] = {
        "sweep": lambda store: sweep(store, SweepOptions(threads=1)),
        "reindexing": reindex,
        "compaction": lambda store: store.compact(),
        "backup": lambda store: store.backup(tmp_path / "backup"),
        "repair": lambda store: store.repair(),
    }
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        put(store, "https://a.example/", page(words(1, 100)))
        with store.jobs.one(kind), pytest.raises(docstore.StoreUnavailable, match=f"a {kind} of this store is running"):
            jobs[kind](store)
        for run in jobs.values():
            run(store)  # the one that was refused left nothing behind


def test_two_sweeps_at_a_time_write_the_columns_of_one(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        for number in range(60):
            put(
                store,
                f"https://h{number % 3}.example/{number}",
                page(changed(words(number // 3, 150), number, 1)),
                at=number,
            )
        waits, goes_on = threading.Event(), threading.Event()

        def stop_once(*_: object) -> None:
            waits.set()
            assert goes_on.wait(60)

        first = threading.Thread(target=sweep, args=(store, SweepOptions(threads=1), stop_once))
        first.start()
        assert waits.wait(60)
        with pytest.raises(docstore.StoreUnavailable, match="a sweep of this store is running"):
            sweep(store, SweepOptions(threads=1))
        goes_on.set()
        first.join()
        written = places(store)
        assert written
        sweep(store, SweepOptions(threads=1))
        assert places(store) == written


def test_a_sweep_that_can_open_no_file_says_so_and_leaves_a_sound_store(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        for number in range(10):
            put(store, f"https://a.example/{number}", page(words(number // 2, 150)))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.open(os.devnull, os.O_RDONLY)  # the first descriptor that is free
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            with pytest.raises(docstore.StorageError, match="too many open files"):
                sweep(store, SweepOptions(threads=1))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert sweep(store, SweepOptions(threads=1)).clusters == 5
        assert list(check(store.backend)) == []
