"""What an export leaves out by its texts: shared n-grams, lines of other pages, pages that have not changed."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

import docstore
from docstore.archives import ngrams as ngrams_module
from docstore.archives import selection as selection_module
from docstore.archives.export import pages
from docstore.archives.ngrams import Ngrams
from docstore.archives.selection import FirstLines, Selection
from docstore.model.errors import InvalidArgument
from docstore.model.types import Page
from docstore.store import DocumentStore
from tests.cli_case import Terminal
from tests.pages import words

PLAIN = (("Content-Type", "text/plain"),)
T0 = 1_700_000_000_000_000


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(tmp_path / "store", capsys)


def text(number: int, count: int = 60) -> list[str]:
    return list(words(number, count))


def save(path: Path, *lines: str) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def shares_ngram(one: list[str], other: list[str], n: int) -> set[int]:
    """Places of `one` where a run of n words begins that `other` has: the definition."""
    runs = {tuple(other[place : place + n]) for place in range(len(other) - n + 1)}
    return {place for place in range(len(one) - n + 1) if tuple(one[place : place + n]) in runs}


@pytest.mark.parametrize("seed", range(40))
def test_a_match_is_what_the_definition_says(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    n = chance.choice((1, 3, 8, 13))
    few = [f"w{number}" for number in range(chance.choice((3, 12, 400)))]
    file = [[chance.choice(few) for _ in range(chance.randrange(1, 60))] for _ in range(5)]
    one = [chance.choice(few) for _ in range(chance.randrange(1, 90))]
    if chance.random() < 0.5:  # a part of a text of the file
        part = file[2][: chance.randrange(1, 40)]
        place = chance.randrange(len(one))
        one[place:place] = part
    found = Ngrams(save(tmp_path / "file", *map(" ".join, file)), n=n)
    assert (found.texts, found.short) == (5, sum(len(each) < n for each in file))
    places = set[int]().union(*(shares_ngram(one, each, n) for each in file))
    match = found.match(" ".join(one))
    if not places:
        assert match is None
        return
    assert match is not None
    assert (match.start, match.end) == (min(places), max(places) + n)
    assert match.span == " ".join(one[match.start : match.end])
    assert match.shared == len({tuple(one[place : place + n]) for place in places})
    first = tuple(one[match.start : match.start + n])
    lines = [line for line, each in enumerate(file, 1) if shares_ngram(list(first), each, n)]
    assert match.line == lines[0]


def test_case_and_punctuation_are_those_of_verdicts(tmp_path: Path) -> None:
    found = Ngrams(save(tmp_path / "file", "The Quick, brown fox (jumps) over the lazy dog!"), n=5)
    match = found.match("x y the quick brown: FOX jumps z")
    assert match is not None and match.span == "the quick brown fox jumps"
    assert found.match("the quick brown fox leaps over") is None


def test_many_texts_are_sorted_in_parts_and_too_many_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = save(tmp_path / "file", *(" ".join(text(number)) for number in range(50)))
    whole = Ngrams(file)
    monkeypatch.setattr(ngrams_module, "NGRAMS_TOGETHER", 100)
    in_parts = Ngrams(file)
    for number in (0, 20, 49):
        assert in_parts.match(" ".join(text(number))) == whole.match(" ".join(text(number))) is not None
    monkeypatch.setattr(ngrams_module, "MOST_NGRAMS", 500)
    with pytest.raises(InvalidArgument, match=r"more than 500 different n-grams up to line 1\d; split"):
        Ngrams(file)


def test_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    question = " ".join(text(1))
    lines = save(tmp_path / "a.jsonl", json.dumps({"q": question, "n": 1}), json.dumps({"q": 3}))
    with pytest.raises(InvalidArgument, match=r"JSON Lines; name the field.*its fields are q, n"):
        Ngrams(lines)
    with pytest.raises(InvalidArgument, match=r"line 1 of .* has no text in the field 'x': its fields are q, n"):
        Ngrams(lines, "x")
    with pytest.raises(InvalidArgument, match=r"line 2 of .* has no text in the field 'q'"):
        Ngrams(lines, "q")
    with pytest.raises(InvalidArgument, match="cannot read"):
        Ngrams(str(tmp_path / "none"))
    packed = tmp_path / "b.gz"
    packed.write_bytes(gzip.compress(question.encode()))
    assert Ngrams(str(packed)).match(question) is not None
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(InvalidArgument, match="is cut"):
        Ngrams(str(packed))


@pytest.fixture
def store(tmp_path: Path) -> DocumentStore:
    with docstore.open(tmp_path / "store", create=True, durability="none") as store:
        question = text(7, 30)
        for number in range(6):
            body = [*text(100 + number), *(question[4:24] if number == 2 else []), *text(200 + number)]
            store.put_page(f"https://a.example/{number}", " ".join(body).encode(), headers=PLAIN, fetched_at=T0)
    return store


def test_an_export_leaves_out_what_shares_ngrams_and_lists_it(
    store: DocumentStore, terminal: Terminal, tmp_path: Path
) -> None:
    questions = tmp_path / "questions.jsonl"
    save(questions, json.dumps({"q": " ".join(text(7, 30))}), json.dumps({"q": "too short"}))
    out, matches = tmp_path / "clean.jsonl", tmp_path / "matches.jsonl"
    options = ("--without-ngrams-of", str(questions), "--field", "q", "--matches", str(matches))
    answer = terminal("export", *options, "--output", str(out))
    assert answer.code == 0, answer.err
    assert "2 texts, 1 of them shorter than 13 words and not looked for" in answer.err
    urls = [json.loads(line)["url"] for line in out.read_text().splitlines()]
    assert urls == [f"https://a.example/{number}" for number in (0, 1, 3, 4, 5)]
    (match,) = map(json.loads, matches.read_text().splitlines())
    assert (match["url"], match["line"], match["shared"]) == ("https://a.example/2", 1, 8)
    assert match["span"] == " ".join(text(7, 30)[4:24])
    assert (match["start"], match["end"]) == (60, 80)
    refused = terminal("export", "--matches", str(matches), "--output", str(out))
    assert refused.code == 2 and "--without-ngrams-of" in refused.err


# --- lines of other pages


def put_lines(folder: Path, *texts: str) -> docstore.DocumentStore:
    store = docstore.open(folder, create=True, durability="none")
    for number, lines in enumerate(texts):
        store.put_page(f"https://h{number % 3}.example/{number}", lines.encode(), headers=PLAIN, fetched_at=T0)
    return store


def test_lines_of_any_host_are_left_out_of_a_store(tmp_path: Path) -> None:
    common = "Sign up for the letter of this publisher today."
    with put_lines(
        tmp_path / "s", *(f"{common}\nThis line is of page {number} alone." for number in range(6))
    ) as store:
        texts = {page.url: page.text for page in pages(store, Selection(drop_repeated_lines="store"))}
        assert [text for text in texts.values() if common in text] == [texts["https://h0.example/0"]]
        by_host = [page.text for page in pages(store, Selection(drop_repeated_lines="host"))]
        assert sum(common in text for text in by_host) == 3
        # a part of the export leaves out what the rows before it have
        after = store.cells.row_key("https://h1.example/1")
        rest = list(pages(store, Selection(drop_repeated_lines="store", after=after)))
        assert len(rest) == 3 and all(page.text == texts[page.url] for page in rest)
    with pytest.raises(InvalidArgument, match="must be one of host, store"):
        Selection(drop_repeated_lines="site")


def test_lines_in_arrays_are_found_as_those_in_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)
    texts = ["\n".join(f"line {chance.randrange(90)}" for _ in range(7)) for _ in range(100)]
    whole = FirstLines("store")
    expected = [whole(b"x", text) for text in texts]
    monkeypatch.setattr(selection_module, "LINES_TOGETHER", 10)
    monkeypatch.setattr(selection_module, "MOST_COUNTED", 5)
    in_parts = FirstLines("store")
    assert [in_parts(b"x", text) for text in texts] == expected
    assert (in_parts.lines, in_parts.dropped) == (whole.lines, whole.dropped) and whole.dropped > 300


def test_a_dry_run_says_which_lines_would_go(tmp_path: Path, terminal: Terminal) -> None:
    common = "Sign up for the letter of this publisher today."
    put_lines(terminal.store, *(f"{common}\nThis line is of page {number} alone." for number in range(6))).close()
    answer = terminal("export", "--drop-repeated-lines=store", "--dry-run")
    assert (answer.code, answer.out.splitlines()[0]) == (
        0,
        f"6 pages have 12 lines; 5  (41.7%) would go, {5 * len(common)} characters",
    )
    assert f"5  {common}" in answer.out
    found = terminal("export", "--drop-repeated-lines", "--dry-run", "--json").object()
    assert (found["dropped"], found["most"]) == (3, [{"line": common, "dropped": 3}])
    assert terminal("export", "--dry-run").code == 2


# --- pages that have changed


def test_pages_whose_text_has_changed_are_exported_with_the_measure(tmp_path: Path, terminal: Terminal) -> None:
    day = 86_400_000_000
    with docstore.open(terminal.store, create=True, durability="none") as store:

        def put(name: str, at: int, words_of: list[str], status: int = 200) -> None:
            body = " ".join(words_of).encode() if status == 200 else b""
            list(store.put_pages([Page(f"https://a.example/{name}", body, status, PLAIN, T0 + at * day)]))

        first = text(1)
        for name in ("changed", "same", "once-changed", "back"):
            put(name, 0, first)
        put("changed", 1, [*first[:-1], "other"])
        put("same", 1, first)
        put("once-changed", 1, [*first[:-5], *text(2, 5)])
        put("once-changed", 2, [], 304)  # a later visit that confirms it does not hide the change
        put("new", 1, text(3))
        put("back", 1, text(4))
        put("back", 2, first)
    out = tmp_path / "out.jsonl"
    options = ("export", "--output", str(out), "--previous", "changed")
    assert terminal(*options).code == 0
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(each["url"].rpartition("/")[2], each["timestamp"][8:10]) for each in found] == [
        ("back", "16"), ("changed", "15"), ("once-changed", "15"),
    ]  # fmt: skip
    assert [each["previous"] for each in found] == ["changed"] * 3
    assert 0 < found[1]["previous_similarity"] < 1 and found[0]["previous_similarity"] == 0
    assert terminal(*options, "--versions", "all").code == 0
    assert len(out.read_text().splitlines()) == 4
    assert terminal(*options, "--since", str(T0 + 2 * day)).code == 0
    assert [json.loads(line)["url"] for line in out.read_text().splitlines()] == ["https://a.example/back"]
    assert terminal("export", "--previous", "chnged").code == 2
    assert terminal.on(tmp_path / "again")("ingest", str(out), "--create").code == 0
