"""All measures of two pages, pages by their simhashes, the duplicates that a store knows; here and over a server."""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import docstore
from docstore.dedup.kernel import Kernel
from docstore.model.capture import SIMHASH
from docstore.model.errors import InvalidArgument
from docstore.model.plain import iso
from docstore.model.types import ReadSpec, Schema
from docstore.reading.documents import Capture
from docstore.reports.dedup import KnownDuplicate, known_duplicates
from docstore.reports.measures import Measures, measures, simhash_pairs, similar_by_simhash
from docstore.serving.client import connect
from docstore.store import DocumentStore, open_store
from docstore.sweep.job import sweep
from tests.cli_case import Terminal
from tests.pages import changed, page, words
from tests.reference import fingerprints
from tests.reference.fingerprints import simhash
from tests.reference.words import words as words_of
from tests.serving import serving
from tests.stores import change_capture

SECOND = 1_000_000
TYPE = {"Content-Type": "text/html; charset=utf-8"}
A, NEAR, COPY, RETITLED, FAR, SHORT, EMPTY, SMALLER, OTHER = (
    f"https://example.com/{name}"
    for name in ("a", "near", "copy", "retitled", "far", "short", "empty", "smaller", "other")
)
BOTH = ("text", "dedup")
BASE = words(1, 300)
PAGES = {
    A: page(BASE),
    NEAR: page(changed(BASE, 1, 6)),
    COPY: page(BASE),
    RETITLED: page(BASE).replace(b"<body>", b"<body> "),
    FAR: page(words(2, 300)),
    SHORT: page("two words"),
    EMPTY: page(""),
    SMALLER: page(BASE[:150]),
    OTHER: b"%PDF-1.7 no text",
}


def fill(store: Any) -> None:
    for second, (url, body) in enumerate(PAGES.items(), 1):
        headers = {"Content-Type": "application/pdf"} if url == OTHER else TYPE
        store.put_page(url, body, headers=headers, fetched_at=second * SECOND, any_time=True)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("measures") / "store"
    with docstore.open(path, create=True, durability="none") as opened:
        fill(opened)
    return path


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Iterator[DocumentStore]:
    shutil.copytree(filled, tmp_path / "store")
    with docstore.open(tmp_path / "store", durability="none") as opened:
        yield opened


def capture(store: Any, url: str, **named: Any) -> Capture:
    newest: Capture = store.get(url, families=BOTH, **named).newest
    return newest


def compared(store: Any, one: str, other: str) -> Measures:
    return measures(capture(store, one), capture(store, other), store.schema)


# --- fields of a capture


def test_a_capture_has_the_simhash_and_the_sketch_of_its_text(store: DocumentStore) -> None:
    analysis = Kernel().analyse(PAGES[A], TYPE["Content-Type"])
    found = capture(store, A)
    assert found.simhash == analysis.simhash == simhash(fingerprints.shingles(words_of(analysis.main), 5))
    assert found.sketch == analysis.sketch
    for url in (EMPTY, OTHER):
        assert (capture(store, url).simhash, capture(store, url).sketch) == (None, None)
    only_text = store.get(A, families=("text",))
    assert only_text is not None and (only_text.newest.simhash, only_text.newest.sketch) == (None, None)


def test_a_capture_shows_no_fingerprint_of_an_earlier_or_later_version(store: DocumentStore) -> None:
    store.put_page(A, PAGES[A], headers=TYPE, fetched_at=20 * SECOND, any_time=True)  # found again
    store.put_page(A, b"", headers=TYPE, status=304, fetched_at=30 * SECOND, any_time=True)
    store.put_page(A, PAGES[EMPTY], headers=TYPE, fetched_at=40 * SECOND, any_time=True)
    store.put_page(A, PAGES[FAR], headers=TYPE, fetched_at=50 * SECOND, any_time=True)
    expected = Kernel().analyse(PAGES[A]).simhash
    for second, value in ((1, expected), (20, expected), (30, expected), (40, None), (50, capture(store, FAR).simhash)):
        assert capture(store, A, at=second * SECOND).simhash == value, second


# --- measures


def test_measures_of_two_pages_agree_with_their_texts_and_columns(store: DocumentStore) -> None:
    found = compared(store, A, NEAR)
    one, other = (set(Kernel().shingles(" ".join(text)).tolist()) for text in (BASE, changed(BASE, 1, 6)))
    assert found.jaccard == len(one & other) / len(one | other)
    assert found.contained == len(one & other) / len(one)
    assert found.contains == len(one & other) / len(other)
    first, second = capture(store, A).simhash, capture(store, NEAR).simhash
    assert first is not None and second is not None and found.simhash_bits == (first ^ second).bit_count()
    assert found.simhash_agreement == 1 - found.simhash_bits / 64
    assert found.sketch_estimate == pytest.approx(found.jaccard, abs=0.1)
    sampled = [{value for value in each if value % 12 == 0} for each in (one, other)]
    assert (found.modulus, found.first_fingerprints, found.second_fingerprints) == (
        12,
        len(sampled[0]),
        len(sampled[1]),
    )
    assert found.shared_fingerprints == len(sampled[0] & sampled[1]) > 0
    assert found.fingerprint_overlap == len(sampled[0] & sampled[1]) / len(sampled[0] | sampled[1])
    assert (found.same_checksum, found.same_text_checksum) == (False, False)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (A, COPY, (True, True, 1.0, 1.0, 1.0, 0)),
        (A, RETITLED, (False, True, 1.0, 1.0, 1.0, 0)),
        (EMPTY, EMPTY, (True, None, None, None, None, None)),
        (EMPTY, OTHER, (False, None, None, None, None, None)),
        (A, EMPTY, (False, None, 0.0, 0.0, None, None)),
        (OTHER, A, (False, None, 0.0, None, 0.0, None)),
    ],
)
def test_missing_measures_are_none(store: DocumentStore, one: str, other: str, expected: tuple[Any, ...]) -> None:
    found = compared(store, one, other)
    assert found[:6] == expected


def test_fingerprints_of_a_long_and_a_short_text_are_compared_at_the_larger_p(store: DocumentStore) -> None:
    long = words(3, 120_000)
    store.put_page("https://example.com/long", page(long), headers=TYPE)
    store.put_page("https://example.com/part", page(long[:6000]), headers=TYPE)
    found = compared(store, "https://example.com/part", "https://example.com/long")
    assert found.modulus > 12 and found.second_fingerprints <= 4096
    assert 0 < found.first_fingerprints == found.shared_fingerprints


def test_measures_refuse_captures_without_what_they_need(store: DocumentStore) -> None:
    page_only = store.get(A, families=("page",))
    assert page_only is not None
    with pytest.raises(InvalidArgument, match="families"):
        measures(page_only.newest, capture(store, A), store.schema)


def test_fingerprints_of_another_scheme_are_not_compared(store: DocumentStore) -> None:
    row = store.cells.read_row(A, ReadSpec(families=("dedup",)))
    assert row is not None
    fingerprints = {cell[:2]: cell.value for cell in row.cells if cell.qualifier != b"verdict"}
    change_capture(store, A, {column: bytes((value[0] ^ 0x80,)) + value[1:] for column, value in fingerprints.items()})
    found = compared(store, A, COPY)
    assert (found.jaccard, found.fingerprint_overlap) == (1.0, 1.0)
    assert (found.same_checksum, found.same_text_checksum, found.simhash_bits, found.sketch_estimate) == (None,) * 4
    assert similar_by_simhash(store, A, 64) == []
    assert A not in {one.url for one in similar_by_simhash(store, COPY, 64, limit=100)}
    for value in (b"", b"\1", b"\1" * 8, b"\1" * 300):
        change_capture(store, A, {SIMHASH: value})
        assert capture(store, A).simhash is None


# --- by simhash


def bits_apart(store: Any, one: str, other: str) -> int:
    found = compared(store, one, other).simhash_bits
    assert found is not None
    return found


@pytest.mark.parametrize("bits", [0, 5, 20, 64])
def test_pages_by_simhash_are_those_of_brute_force(store: DocumentStore, bits: int) -> None:
    with_words = [url for url in PAGES if url not in (EMPTY, OTHER)]
    apart = {(one, other): bits_apart(store, one, other) for one, other in itertools.permutations(with_words, 2)}
    for url in with_words:
        found = similar_by_simhash(store, url, bits, limit=100)
        assert {one.url: one.bits for one in found} == {o: a for (u, o), a in apart.items() if u == url and a <= bits}
        assert [one.bits for one in found] == sorted(one.bits for one in found)
        assert found[:2] == similar_by_simhash(store, url, bits, limit=2)
    pairs = {frozenset((one.first_url, one.second_url)): one.bits for one in simhash_pairs(store, bits)}
    assert pairs == {frozenset(pair): a for pair, a in apart.items() if a <= bits}
    stored = {url: store.get(url).timestamp for url in PAGES}  # type: ignore[union-attr]
    for one in simhash_pairs(store, bits):
        assert (one.first_timestamp, one.second_timestamp) == (stored[one.first_url], stored[one.second_url])
        assert one.first_url < one.second_url


def test_a_body_is_searched_by_its_own_simhash_and_a_page_without_words_has_no_matches(store: DocumentStore) -> None:
    asked = page(changed(BASE, 9, 2))
    found = similar_by_simhash(store, asked, 64, limit=100)
    assert len(found) == 7 and found[-1].bits > found[0].bits
    for nothing in (PAGES[EMPTY], EMPTY, OTHER, b""):
        assert similar_by_simhash(store, nothing, 64) == []


def test_only_the_newest_version_of_a_page_counts(store: DocumentStore) -> None:
    store.put_page(COPY, PAGES[EMPTY], headers=TYPE, fetched_at=20 * SECOND, any_time=True)
    store.delete(RETITLED)
    assert similar_by_simhash(store, A, 0) == []


def test_a_store_of_one_page_or_none_has_no_pairs(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "one", create=True) as store:
        for bits in (0, 3, 64):
            assert list(simhash_pairs(store, bits)) == []
        store.put_page(A, PAGES[A], headers=TYPE)
        for bits in (0, 3, 64):
            assert list(simhash_pairs(store, bits)) == similar_by_simhash(store, A, bits) == []
        assert list(known_duplicates(store)) == []


def test_wrong_questions_are_refused(store: DocumentStore) -> None:
    for bits in (-1, 65):
        with pytest.raises(InvalidArgument, match="0 to 64"):
            similar_by_simhash(store, A, bits)
        with pytest.raises(InvalidArgument, match="0 to 64"):
            simhash_pairs(store, bits)
    with pytest.raises(InvalidArgument, match="limit"):
        similar_by_simhash(store, A, 3, limit=0)
    with pytest.raises(InvalidArgument, match="not in the store"):
        similar_by_simhash(store, "https://example.com/none", 3)


# --- known duplicates


def test_known_duplicates_go_by_verdicts_until_a_sweep_has_the_last_word(store: DocumentStore) -> None:
    found = {one.url: one for one in known_duplicates(store)}
    kinds = {NEAR: "near", COPY: "exact", RETITLED: "same_text", SMALLER: "contained"}
    assert {url: (one.kind, one.of_url, one.by) for url, one in found.items()} == {
        url: (kind, A, "verdict") for url, kind in kinds.items()
    }
    assert list(found) == sorted(kinds)
    assert found[NEAR].similarity == compared(store, A, NEAR).jaccard
    sweep(store)
    swept = {one.url: (one.kind, one.by) for one in known_duplicates(store)}
    assert swept == {url: (kind, "verdict" if url == SMALLER else "sweep") for url, kind in kinds.items()}


def test_a_duplicate_of_a_deleted_page_is_not_listed_and_one_that_only_the_sweep_found_is(store: DocumentStore) -> None:
    store.delete(A)
    assert list(known_duplicates(store)) == []
    sweep(store)  # the copies of what is gone are now each other's: the oldest one stays
    assert {one.url: (one.kind, one.of_url) for one in known_duplicates(store)} == {
        COPY: ("cluster", NEAR),
        RETITLED: ("cluster", NEAR),
    }


def test_a_newer_version_goes_by_its_own_verdict_and_a_rejected_page_is_listed(store: DocumentStore) -> None:
    sweep(store)
    store.put_page(COPY, page(words(9, 200)), headers=TYPE, fetched_at=20 * SECOND, any_time=True)
    store.put_page(NEAR, b"", headers=TYPE, status=304, fetched_at=20 * SECOND, any_time=True)
    store.put_page(
        A + "-again", PAGES[A], headers=TYPE, fetched_at=20 * SECOND, any_time=True, policies={"exact": "reject"}
    )
    found = {one.url: one for one in known_duplicates(store)}
    assert COPY not in found and (found[NEAR].kind, found[NEAR].by) == ("near", "sweep")
    assert found[A + "-again"] == KnownDuplicate(A + "-again", 20 * SECOND, "exact", 1.0, A, SECOND, "verdict")


# --- over a server, and on the terminal


def test_a_served_store_gives_the_same_answers(tmp_path: Path) -> None:
    open_store(tmp_path / "store", create=True, schema=Schema()).close()
    with serving(tmp_path / "store") as served, connect(served.server.url) as remote:
        fill(remote)
        local = served.store
        assert compared(remote, A, NEAR) == compared(local, A, NEAR)
        assert capture(remote, A) == capture(local, A)
        assert similar_by_simhash(remote, A, 20) == similar_by_simhash(local, A, 20) != []
        assert list(simhash_pairs(remote, 20)) == list(simhash_pairs(local, 20)) != []
        assert list(known_duplicates(remote)) == list(known_duplicates(local)) != []


@pytest.fixture
def terminal(store: DocumentStore, capsys: pytest.CaptureFixture[str]) -> Terminal:
    path = store.backend.path
    store.close()
    return Terminal(path, capsys)


def test_diff_measures_prints_every_measure(terminal: Terminal) -> None:
    shown = terminal("diff", A, NEAR, "--measures")
    labels = [
        "1 ",
        "2 ",
        "checksum",
        "text checksum",
        "Jaccard, exact",
        "share of 1",
        "share of 2",
        "simhash",
        "sketch",
    ]
    lines = shown.out.splitlines()
    assert all(
        line.startswith(label)
        for line, label in zip(lines, [*labels, "0-mod-p", "top words", "cosine", "equal words"], strict=True)
    )
    assert "different" in lines[2] and "of 64 bits differ" in lines[7] and "p = 12" in lines[9]
    found = terminal("diff", A, COPY, "--measures", "--json").object()
    assert found["measures"]["same_checksum"] is True and found["measures"]["simhash_bits"] == 0
    nothing = terminal("diff", EMPTY, OTHER, "--measures")
    assert nothing.code == 0 and nothing.out.splitlines()[7].split() == ["simhash,", "equal", "bits", "-"]
    assert "use only one of them" in terminal("diff", A, NEAR, "--measures", "--all").err


def test_dups_by_simhash_lists_pages_or_all_pairs(terminal: Terminal, tmp_path: Path) -> None:
    assert [one["url"] for one in terminal("dups", A, "--simhash", "0", "--json").objects()] == [COPY, RETITLED]
    (tmp_path / "page.html").write_bytes(PAGES[A])
    of_file = terminal("dups", "--file", str(tmp_path / "page.html"), "--simhash", "0").out.splitlines()
    assert [line.split()[-1] for line in of_file] == ["url", A, COPY, RETITLED]
    pairs = terminal("dups", "--all", "--simhash", "0", "--json").objects()
    assert {(one["first_url"], one["second_url"]) for one in pairs} == {(A, COPY), (A, RETITLED), (COPY, RETITLED)}
    assert len(terminal("dups", "--all", "--simhash", "64", "--limit", "4", "--json").objects()) == 4
    none = terminal("dups", SHORT, "--simhash", "3")
    assert (none.code, none.out) == (1, "") and "at most 3 bits" in none.err
    for words_of_call in (
        ["--simhash", "65", A],
        ["--simhash", "x", A],
        ["--rejected", "--simhash", "3"],
        ["--all", "--simhash", "3", "--threshold", "0.5"],
        ["--all", A],
    ):
        assert terminal("dups", *words_of_call).code == 2


def test_dups_all_lists_what_the_store_knows_and_dups_alone_names_it(terminal: Terminal) -> None:
    assert "`docstore dups --all`" in terminal("dups").err
    lines = terminal("dups", "--all").out.splitlines()
    assert [line.split()[0] for line in lines] == ["kind", "exact", "near", "same_text", "contained"]
    found = terminal("dups", "--all", "--threshold", "1", "--json").objects()
    assert [(one["url"], one["of_url"]) for one in found] == [(COPY, A), (RETITLED, A), (SMALLER, A)]
    swept = terminal("sweep")
    assert "`docstore dups --all`" in swept.out and f"cluster of 4 {A}" in " ".join(swept.out.split())
    assert "dups --all" not in terminal("sweep", "--dry-run").out
    report = terminal("sweep", "--json").object()
    assert report["largest_clusters"] == [{"url": A, "timestamp": iso(SECOND), "captures": 4}]
    for url in (A, COPY, NEAR, RETITLED, SMALLER):
        terminal("delete", url, "--yes")
    none = terminal("dups", "--all")
    assert none.code == 1 and "`docstore sweep`" in none.err


def test_cosine_and_equal_words_are_those_of_the_word_counts(tmp_path: Path) -> None:
    pages = (b"<p>tea tea tea milk sugar cup pot leaf", b"<p>tea milk milk sugar cup pot leaf water kettle spoon")
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        for number, body in enumerate((*pages, b"")):
            store.put_page(f"https://a.example/{number}", body, headers=TYPE)
        one, other, empty = (
            store.get(f"https://a.example/{number}", families=("text", "dedup")) for number in range(3)
        )
        assert one is not None and other is not None and empty is not None
        found = measures(one.newest, other.newest, store.schema)
        assert found.cosine == pytest.approx(9 / math.sqrt(14 * 12))  # 3x1 + 1x2 + 4; (3, 1, 1, 1, 1, 1), (1, 2, 1 ...)
        assert found.equal_words == pytest.approx(6 / 10)
        assert measures(one.newest, one.newest, store.schema).equal_words == 1.0
        nothing = measures(one.newest, empty.newest, store.schema)
        assert (nothing.cosine, nothing.equal_words) == (None, None)
