"""Judgements of searches: precision at k, average precision, files of queries and judgements, TREC runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docstore.model.errors import InvalidArgument
from docstore.model.types import Page
from docstore.store import DocumentStore, open_store
from tests.cli_case import Terminal

pytest.importorskip("tantivy", reason="the extra docstore[search] is not installed")

from docstore.search.judgements import measures, read_judgements, read_queries, run_lines

HTML = {"Content-Type": "text/html; charset=utf-8"}
BIRDS = ["https://birds.example/1", "https://birds.example/2", "https://birds.example/3"]
FISH = "https://fish.example/"
ABSENT = "https://absent.example/"


def put_numbered(store: DocumentStore, url: str, text: str, docno: str) -> None:
    body = f"<title>Page</title><body><p>{text}.</p>".encode()
    list(store.put_pages([Page(url, body, 200, (("Content-Type", "text/html"),), docno=docno)]))


@pytest.fixture
def indexed(run: Terminal, tmp_path: Path) -> Terminal:
    """A store in which `heron` finds three pages, the first of them first, and `trout` one, which has a docno."""
    with open_store(tmp_path / "store", create=True) as store:
        for place, url in enumerate(BIRDS):
            text = " ".join(["heron"] * (9 - 4 * place) + [f"word{place}{n}" for n in range(40)])
            store.put_page(url, f"<title>Page</title><body><p>{text}.</p>".encode(), headers=HTML)
        put_numbered(store, FISH, "A trout in a brook", "F-1")
    assert run("index").code == 0
    return run


def written(path: Path, *lines: str) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("ranking", "relevant", "at_five", "at_ten", "average"),
    [
        ("abcdefghijkl", "a", 0.2, 0.1, 1),
        ("abcdefghijkl", "fj", 0, 0.2, (1 / 6 + 2 / 10) / 2),
        ("abcdefghijkl", "ek", 0.2, 0.1, (1 / 5 + 2 / 11) / 2),
        ("ab", "ab", 0.4, 0.2, 1),
        ("ab", "bz", 0.2, 0.1, 1 / 2 / 2),
        ("", "z", 0, 0, 0),
    ],
)
def test_measures_are_those_of_trec(ranking: str, relevant: str, at_five: float, at_ten: float, average: float) -> None:
    found = measures(ranking, set(relevant))
    assert list(found.values()) == pytest.approx([at_five, at_ten, average])


def test_scores_of_a_run_fall_with_each_rank() -> None:
    lines = [line.split() for line in run_lines("q", [("a", 2.5), ("b", 2.5), ("c", 2.5), ("d", 1)])]
    assert [line[:4] for line in lines] == [["q", "Q0", name, str(rank)] for rank, name in enumerate("abcd", 1)]
    scores = [float(line[4]) for line in lines]
    assert scores == sorted(set(scores), reverse=True) and scores[0] == 2.5 and scores[3] == 1


def test_own_queries_are_measured_by_their_judgements(indexed: Terminal, tmp_path: Path) -> None:
    queries = written(tmp_path / "queries", "b\theron", "f\ttrout", "n\tbrook", "z\tnowhere", "0\theron trout")
    judgements = written(
        tmp_path / "qrels",
        f"b 0 {BIRDS[0]} 0", f"b 0 {BIRDS[1]} 2", "b 0 HTTPS://Birds.example:443/3 1", f"b 0 {ABSENT} 1", "",
        "f\t0\tF-1\t1", "f 0 F-9 0", "other 0 F-1 1", f"z 0 {FISH} 1", "0 0 F-1 -2",
    )  # fmt: skip
    options = ("--judge", judgements, "--queries", queries, "--run", str(tmp_path / "run"))
    found = indexed("search", *options, "--json").object()
    by_id = {row["id"]: row for row in found["queries"]}
    # Ranks 2 and 3 of three relevant ones, of which one is not stored; rank 1 of one; no hit.
    assert by_id["b"]["precision_5"] == 0.4 and by_id["b"]["precision_10"] == 0.2
    assert by_id["b"]["average_precision"] == pytest.approx((1 / 2 + 2 / 3) / 3)
    assert (by_id["b"]["relevant"], by_id["b"]["found"]) == (3, 2)
    assert by_id["f"]["average_precision"] == 1 and by_id["z"]["average_precision"] == 0
    assert by_id.keys() == {"b", "f", "z"}
    assert found["mean"]["precision_5"] == pytest.approx((0.4 + 0.2 + 0) / 3)
    assert found["mean"]["average_precision"] == pytest.approx((7 / 18 + 1 + 0) / 3)
    assert found["without_judgement"] == ["n"] and found["without_query"] == ["other"]
    assert found["without_relevant"] == ["0"] and found["not_in_store"] == ["F-9", ABSENT]
    run = [line.split(" ") for line in (tmp_path / "run").read_text().splitlines()]
    assert [line[:4] for line in run[:4]] == [
        ["b", "Q0", BIRDS[0], "1"],
        ["b", "Q0", BIRDS[1], "2"],
        ["b", "Q0", "HTTPS://Birds.example:443/3", "3"],
        ["f", "Q0", "F-1", "1"],
    ]
    assert [line[0] for line in run[4:]] == ["n", "0", "0", "0", "0"]
    assert run[4][2] == FISH
    shown = indexed("search", *options)
    assert shown.code == 0
    assert [line.split() for line in shown.out.splitlines()][:2] == [
        ["query", "P@5", "P@10", "AP", "relevant", "found"],
        ["b", "0.4000", "0.2000", "0.3889", "3", "2"],
    ]
    assert "mean   0.2000" in shown.out and "without judgement  1: n" in shown.out


def test_a_run_names_pages_by_number_if_the_judgements_do(indexed: Terminal, tmp_path: Path) -> None:
    with open_store(indexed.store) as store:
        put_numbered(store, "https://fish.example/2", "A pike in a pond", "F-2")
    indexed("index")
    queries = written(tmp_path / "queries", "p\tpike", "h\theron")
    for judgement, name in (("p 0 F-1 1", "F-2"), (f"p 0 {FISH} 1", "https://fish.example/2")):
        judgements = written(tmp_path / "qrels", judgement)
        run = tmp_path / "run"
        assert indexed("search", "--judge", judgements, "--queries", queries, "--run", str(run)).code == 0
        names = [line.split()[2] for line in run.read_text().splitlines()]
        assert names == [name, *BIRDS]


def test_nothing_is_measured_without_a_query_that_is_judged(indexed: Terminal, tmp_path: Path) -> None:
    queries, judgements = written(tmp_path / "queries", "1\theron"), written(tmp_path / "qrels", "2 0 F-1 1")
    shown = indexed("search", "--judge", judgements, "--queries", queries)
    assert shown.code == 1 and "nothing is measured" in shown.err
    assert "without judgement  1: 1" in shown.out and "without query      1: 2" in shown.out


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("q2 0 doc", "expected query id, iteration, document and relevance"),
        ("q2 0 doc 1 extra", "expected query id"),
        ("q2 0 doc yes", "whole number"),
        ("q2 0 doc 0.5", "whole number"),
        ("q1 0 doc 0", "doc has the relevance 1 in an earlier line, not 0"),
    ],
)
def test_a_malformed_judgement_is_named_with_its_line(tmp_path: Path, line: str, why: str) -> None:
    file = tmp_path / "qrels"
    written(file, "\ufeffq1 0 doc 1", "", line)
    with pytest.raises(InvalidArgument, match=f"qrels, line 3: .*{why}"):
        read_judgements(file)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("q2 heron", "a tab"),
        ("q2\t", "a query"),
        ("q 2\theron", "without blanks"),
        ("\theron", "an id"),
        ("q1\theron", "the id q1 has a query already"),
    ],
)
def test_a_malformed_query_is_named_with_its_line(tmp_path: Path, line: str, why: str) -> None:
    file = tmp_path / "queries"
    written(file, "q1\ta heron", "", line)
    with pytest.raises(InvalidArgument, match=f"queries, line 3: .*{why}"):
        read_queries(file)


def test_wrong_uses_of_judgements_say_what_to_give(indexed: Terminal, tmp_path: Path) -> None:
    queries, judgements = written(tmp_path / "queries", "1\tbad:field"), written(tmp_path / "qrels", "1 0 F-1 1")
    pair = ("--judge", judgements, "--queries", queries)
    neither = "--judge FILE and --queries FILE, with --run, without --offset"
    wrong: list[tuple[tuple[str, ...], str]] = [
        ((), neither),
        (pair[:2], neither),
        (pair[2:], neither),
        (("heron", *pair), neither),
        (("heron", "--run", "x"), neither),
        (pair, "query 1 in .*no field bad"),
        ((*pair, "--offset", "5"), neither),
        (("--judge", str(tmp_path / "none"), *pair[2:]), "none cannot be read"),
    ]
    for options, why in wrong:
        refused = indexed("search", *options)
        assert refused.code == 2 and re.search(why, refused.err)
    queries = written(tmp_path / "queries", "1\ttrout")
    refused = indexed("search", *pair, "--run", str(tmp_path / "no" / "run"))
    assert refused.code == 2 and "cannot write" in refused.err
