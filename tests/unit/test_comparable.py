"""Which pages are compared with which, asked of verdicts, `similar`, the sweep and `reindex` alike."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from pages import changed, page, words

import docstore
from docstore import Policy, Previous, VerdictKind
from docstore.dedup.comparable import bodies_compare, distinctive_words, is_blank, text_compares
from docstore.dedup.kernel import words as words_of
from docstore.sweep.job import SweepOptions, sweep
from docstore.sweep.pages import read_versions
from docstore.sweep.reindex import reindex

HTML = (("Content-Type", "text/html; charset=utf-8"),)
T0 = 1_700_000_000_000_000
SECOND = 1_000_000
A, B, C, D = (f"https://{name}.example/" for name in "abcd")


def put(
    store: docstore.DocumentStore, url: str, body: bytes, second: int, status: int = 200, **more: object
) -> docstore.PutResult:
    return store.put_page(url, body, headers=HTML, status=status, fetched_at=T0 + second * SECOND, **more)  # type: ignore[arg-type]


def named(result: docstore.PutResult) -> tuple[str, str]:
    return str(result.verdict.kind), result.verdict.of_url


def similar(store: docstore.DocumentStore, asked: bytes | str) -> list[tuple[str, str]]:
    return [(str(one.kind), one.url) for one in store.similar(asked)]


def swept(store: docstore.DocumentStore, tmp_path: Path) -> set[tuple[str, int, str, int]]:
    pairs = tmp_path / "pairs"
    sweep(store, SweepOptions(all_pairs=True, dry_run=True, pairs=pairs, threads=1))
    lines = (line.split("\t") for line in pairs.read_text().splitlines())
    return {(one, int(at), other, int(other_at)) for one, at, other, other_at, _ in lines}


@pytest.mark.parametrize(
    ("status", "other", "bodies", "text"),
    [(200, 203, True, True), (200, 404, False, False), (301, 308, True, False), (404, 500, False, False)],
)
def test_bytes_are_compared_within_a_status_class_and_texts_among_good_pages(
    status: int, other: int, bodies: bool, text: bool
) -> None:
    assert bodies_compare(status, other) is bodies_compare(other, status) is bodies
    assert (text_compares(status) and text_compares(other)) is text


@pytest.mark.parametrize("body", [b"", b" ", b"\r\n\t\n", b"\xef\xbb\xbf\n", b"\n" * 3000])
def test_a_body_of_white_space_is_blank(body: bytes) -> None:
    assert is_blank(body)
    assert not is_blank(body + b".")


@pytest.mark.parametrize("edit", ["near", "same_text", "contained"])
def test_a_page_that_is_like_an_error_is_like_the_good_page_of_the_same_body(
    store: docstore.DocumentStore, edit: str
) -> None:
    text = words(1, 300)
    body = page(text)
    like = {"near": page(changed(text, 1, 3)), "same_text": body + b"<!-- -->", "contained": page(text[:150])}[edit]
    put(store, A, body, 0, 404)
    put(store, B, body, 1)
    assert named(put(store, C, like, 2)) == (edit, B)
    assert {url for _, url in similar(store, C)} == {B}
    store.delete(B)
    assert (
        named(put(store, D, like.replace(b"<p>", b"<p >"), 3, policies={VerdictKind(edit): Policy.REFERENCE}))[1] != A
    )


@pytest.mark.parametrize(("status", "kind"), [(200, "new"), (302, "exact"), (404, "new")])
def test_the_body_of_a_redirect_duplicates_that_of_redirects_alone(
    store: docstore.DocumentStore, tmp_path: Path, status: int, kind: str
) -> None:
    put(store, A, b"ok", 0, 301)
    assert named(put(store, B, b"ok", 1, status)) == (kind, A if kind == "exact" else "")
    assert (similar(store, B) == [("exact", A)]) is (kind == "exact")
    assert bool(swept(store, tmp_path)) is (kind == "exact")


@pytest.mark.parametrize("body", [b"\r\n", b"\n" * 3000])
def test_pages_of_white_space_are_no_duplicates(store: docstore.DocumentStore, tmp_path: Path, body: bytes) -> None:
    put(store, A, body, 0)
    result = put(store, B, body, 1)
    assert (named(result), result.verdict.reason) == (("new", ""), "blank")
    assert similar(store, B) == [] and swept(store, tmp_path) == set()
    assert put(store, B, body, 2).stored == "confirmed"
    assert swept(store, tmp_path) == set()


def test_a_page_that_was_an_error_is_seen_as_good_with_the_same_bytes(
    store: docstore.DocumentStore, tmp_path: Path
) -> None:
    text = words(1, 100)
    put(store, A, page(text), 0, 404)
    turned = put(store, A, page(text), 1)
    assert (turned.previous, turned.stored) == (Previous.SAME_BYTES, "body")
    assert named(put(store, B, page(changed(text, 1, 1)), 2)) == ("near", A)
    assert reindex(store, dry_run=True).unseen == 0
    assert swept(store, tmp_path) == {(A, T0 + SECOND, B, T0 + 2 * SECOND)}
    found = store.get(A)
    assert found is not None and (found.status, found.body) == (200, page(text))


@pytest.mark.parametrize("seed", range(4))
def test_whatever_a_verdict_names_the_sweep_pairs(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    texts = [words(number, size) for number, size in enumerate((5, 15, 25, 49, 50, 55, 90, 200))]
    texts += [["again"] * 60, ["x" * 120] * 18, ["long" * 30 + str(number) for number in range(19)]]
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        pages: list[tuple[str, int, str, int]] = []
        for number in range(250):
            text = list(choose.choice(texts))
            if choose.random() < 0.5:
                text[choose.randrange(len(text))] = f"other{choose.randrange(3)}"
            body = page(text, choose.choice("AB")) + choose.choice([b"", b"<!-- -->"])
            body = choose.choice([body] * 9 + [b"", b"\n", b"\n" * 600])
            url, at = f"https://h{choose.randrange(40)}.example/", number if seed % 2 else choose.randrange(1000)
            status = choose.choice([200, 200, 200, 203, 301, 404, 500])
            result = put(store, url, body, at, status)
            if result.verdict.kind in ("exact", "same_text", "near") and result.stored != "known":
                pages.append((url, result.timestamp, result.verdict.of_url, result.verdict.of_timestamp))
            if choose.random() < 0.02:
                store.delete(url)
        versions = read_versions(store)

        def version(url: str, at: int) -> tuple[str, int] | None:
            found = store.get(url, at=at, families=())
            if found is None or found.timestamp != at:
                return None
            number = versions.find(found.row_key, at)
            return url, int(versions.timestamps[number]) if number >= 0 else -1

        pairs = [(version(url, at), version(of, of_at)) for url, at, of, of_at in pages]
        expected = {tuple(sorted((one, other))) for one, other in pairs if one is not None and other is not None}
        paired = {tuple(sorted(((one, at), (other, other_at)))) for one, at, other, other_at in swept(store, tmp_path)}
    assert len(expected) > 30
    assert expected - paired == set()


def test_decimal_digits_of_every_script_distinguish_no_page_and_other_numerals_do() -> None:
    numerals = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isnumeric()]
    kept = [one for one in numerals if len(words_of(one * 3)) == 1]
    assert len(kept) > 700
    for numeral in kept:
        word = words_of(numeral * 3)[0]
        assert distinctive_words(numeral * 3) == (frozenset() if word.isdecimal() else {word}), numeral
