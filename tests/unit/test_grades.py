"""`similar`, the grade below `near`: shown with its exact similarity, and nothing else comes of it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import msgpack
import pytest
from pages import changed, page, words

import docstore
from docstore import Schema, VerdictKind
from docstore.archives.export import JsonLinesExport, export
from docstore.dedup.kernel import Kernel
from docstore.reports.dedup import dedup_stats
from docstore.storage.schema import decode_schema, encode_schema
from docstore.sweep.job import sweep
from tools.bench.judged_pairs import JudgedPair, best, read_pairs, score, table

HTML = (("Content-Type", "text/html; charset=utf-8"),)
T0 = 1_700_000_000_000_000
A, B, C = (f"https://{name}.example/" for name in "abc")
TEXT = words(1, 300)
LIKE = changed(TEXT, 1, 15)
"""At J = .6 to TEXT."""


def put(store: docstore.DocumentStore, url: str, text: list[str], **more: object) -> docstore.PutResult:
    return store.put_page(url, page(text), headers=HTML, fetched_at=T0, **more)  # type: ignore[arg-type]


def shingle_jaccard(one: list[str], other: list[str]) -> float:
    first, second = ({tuple(text[place : place + 5]) for place in range(len(text) - 4)} for text in (one, other))
    return len(first & second) / len(first | second)


def test_a_page_below_near_is_similar_with_its_exact_similarity(store: docstore.DocumentStore) -> None:
    put(store, A, TEXT)
    verdict = put(store, B, LIKE).verdict
    assert 0.5 <= shingle_jaccard(TEXT, LIKE) < 0.8
    assert (verdict.kind, verdict.of_url, verdict.of_timestamp) == (VerdictKind.SIMILAR, A, T0)
    assert verdict.similarity == pytest.approx(shingle_jaccard(TEXT, LIKE))
    (found,) = store.similar(B)
    assert (found.url, found.kind, found.similarity) == (A, VerdictKind.SIMILAR, verdict.similarity)
    assert store.similar(B, threshold=0.8) == []
    assert put(store, C, words(2, 300)).verdict.kind is VerdictKind.NEW


def test_a_contained_page_stays_contained(store: docstore.DocumentStore) -> None:
    put(store, A, TEXT)
    half = put(store, B, TEXT[:200])
    assert (half.verdict.kind, half.verdict.similarity) == (VerdictKind.CONTAINED, 1.0)
    assert [(one.kind, one.url) for one in store.similar(B)] == [(VerdictKind.CONTAINED, A)]


def test_similar_pages_are_no_duplicates(store: docstore.DocumentStore) -> None:
    put(store, A, TEXT)
    put(store, B, LIKE, policies=dict.fromkeys(("exact", "same_text", "near"), "reject-any"))
    assert store.stats()["totals"]["verdict.similar"] == 1
    counts = dedup_stats(store).total
    assert (counts.verdicts["similar"], counts.duplicates) == (1, 0)
    assert sweep(store).clusters == 0
    assert store.collapse([A, B]) == [A, B]
    stream = io.BytesIO()
    export(store, JsonLinesExport(stream))
    shown = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(one["verdict"], one["of_url"]) for one in shown] == [("new", ""), ("similar", A)]
    assert shown[1]["similarity"] == pytest.approx(shingle_jaccard(TEXT, LIKE))


@pytest.mark.parametrize("policy", ["flag", "reference", "reject", "reject-any"])
def test_there_is_no_policy_for_similar_pages(policy: str) -> None:
    with pytest.raises(docstore.InvalidArgument, match="similar"):
        Schema(policies={"similar": policy})


def test_a_store_without_the_grade_has_no_similar_pages(tmp_path: Path) -> None:
    without = Schema(similar_threshold=None)
    assert decode_schema(encode_schema(without)) == without
    assert decode_schema(encode_schema(Schema(similar_threshold=0.6))).similar_threshold == 0.6
    with docstore.open(tmp_path / "s", create=True, schema=without) as store:
        put(store, A, TEXT)
        assert put(store, B, LIKE).verdict.kind is VerdictKind.NEW
        assert store.similar(B) == []
        assert [one.kind for one in store.similar(B, threshold=0.5)] == [VerdictKind.SIMILAR]
    with docstore.open(tmp_path / "s", schema=without) as store:
        assert store.schema == without
    with pytest.raises(docstore.InvalidArgument, match="another schema"):
        docstore.open(tmp_path / "s", schema=Schema())


@pytest.mark.parametrize("threshold", [0, 1.5, "0.5", True])
def test_a_threshold_that_is_none_is_refused(threshold: object) -> None:
    with pytest.raises(docstore.InvalidArgument, match="similar_threshold"):
        Schema(similar_threshold=threshold)  # type: ignore[arg-type]


# --- the bench of judged pairs


def test_judged_pairs_are_scored_by_the_similarity_that_verdicts_report(tmp_path: Path) -> None:
    for name, other, label in (("x", TEXT, "3"), ("y", LIKE, "1"), ("z", words(3, 300), "0")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "full-text-a").write_text(" ".join(TEXT))
        (folder / "full-text-b").write_text(" ".join(other))
        (folder / "label").write_text(label)
    pairs = read_pairs(tmp_path, Kernel("combined", 5))
    assert pairs == [
        JudgedPair(1.0, True),
        JudgedPair(pytest.approx(shingle_jaccard(TEXT, LIKE)), True),  # type: ignore[arg-type]
        JudgedPair(0.0, False),
    ]
    assert score(pairs, 0.8) == (1.0, 0.5) and score(pairs, 0.5) == (1.0, 1.0)
    assert best(pairs) == (pairs[1].similarity, (1.0, 1.0))
    rows = {row[0]: row[1] for row in table({"one": pairs}).rows}
    assert rows["0.80 (near)"] == "1.00 / 0.50 / 0.67"
    assert rows["0.50 (similar)"] == "1.00 / 1.00 / 1.00"


def test_a_similar_threshold_above_that_of_near_is_refused() -> None:
    with pytest.raises(docstore.InvalidArgument, match=r"similar_threshold 0.5 is above near_threshold 0.4"):
        Schema(near_threshold=0.4)
    assert Schema(near_threshold=0.5).similar_threshold == 0.5
    fields = msgpack.unpackb(encode_schema(Schema()))
    with pytest.raises(docstore.CorruptionError, match=r"similar_threshold 0\.5 is above"):
        decode_schema(msgpack.packb({**fields, "near_threshold": 0.4}))
