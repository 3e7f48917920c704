"""`docstore subtract`: what one set of archives has and another does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli_case import Terminal, article

WORDS = article(1, 300)


def line(url: str, words: list[str], **fields: Any) -> str:
    return json.dumps({"url": url, "html": f"<title>{words[0]}</title><p>{' '.join(words)}</p>", **fields}) + "\n"


def changed(words: list[str], place: int) -> list[str]:
    return [*words[:place], f"other{place}", *words[place + 1 :]]


A = "".join(
    [
        line("https://a.example/one", WORDS, date="2024-01-01T00:00:00Z"),
        line("https://a.example/same", article(2), date="2024-01-01T00:00:00Z"),
        line("https://a.example/edited", article(3), date="2024-01-01T00:00:00Z"),
    ]
)
B_IN_A = {
    "https://b.example/exact": WORDS,
    "https://b.example/near": changed(WORDS, 150),
    "https://b.example/near-of-near": changed(changed(WORDS, 150), 20),
    "https://a.example/same": article(2),
}
B_ALONE = {
    "https://b.example/new": article(4),
    "https://b.example/new-copy": article(4),
    "https://a.example/edited": article(5),
}
B = "".join(line(url, words, date="2024-02-01T00:00:00Z") for url, words in {**B_IN_A, **B_ALONE}.items())


def urls(path: Path) -> set[str]:
    return {json.loads(written)["url"] for written in path.read_text().splitlines()}


def test_pages_of_b_that_a_has_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(tmp_path / "none", capsys)
    (tmp_path / "a.jsonl").write_text(A)
    (tmp_path / "b.jsonl").write_text(B)
    names, output = [str(tmp_path / name) for name in ("a.jsonl", "b.jsonl")], tmp_path / "out.jsonl"
    words = ("subtract", *names, "--output", str(output), "--threads", "1", "--json")
    run = terminal.bare(*words, "--format", "jsonl")
    assert run.code == 0, run.err
    assert run.object() == {"a": 3, "b": 7, "kept": 3, "output": str(output)}
    assert urls(output) == B_ALONE.keys()
    assert terminal.bare(*words, "--format", "jsonl", "--verdict", "exact").code == 0
    assert urls(output) == {*B_ALONE, "https://b.example/near", "https://b.example/near-of-near"}
    assert terminal.bare("subtract", *reversed(names), "--output", str(output), "--format", "jsonl").code == 0
    assert urls(output) == {"https://a.example/edited"}
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl", "out.jsonl"]


def test_nothing_left_keeps_the_old_output(run: Terminal, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(A)
    (tmp_path / "out.warc.gz").write_bytes(b"old")
    name = str(tmp_path / "a.jsonl")
    assert run.bare("subtract", name, name, "--output", str(tmp_path / "out.warc.gz")).code == 1
    assert (tmp_path / "out.warc.gz").read_bytes() == b"old"
    missing = run.bare("subtract", name, str(tmp_path / "no"), "--output", str(tmp_path / "o"))
    assert missing.code == 2 and "no file or folder" in missing.err
    for refused in (("--output", "-"), ("--output", str(tmp_path / "no" / "o")), ("--output", "o", "--verdict", "new")):
        assert run.bare("subtract", name, name, *refused).code == 2


def test_pages_without_words_are_not_one_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, number in (("a", 1), ("b", 2)):
        page = {"url": "https://a.example/i", "html": f"<img src={number}>", "date": f"2024-0{number}-01T00:00:00Z"}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(page) + "\n")
    names, output = [str(tmp_path / name) for name in ("a.jsonl", "b.jsonl")], tmp_path / "out.jsonl"
    run = Terminal(tmp_path / "none", capsys).bare("subtract", *names, "--output", str(output), "--format", "jsonl")
    assert run.code == 0 and urls(output) == {"https://a.example/i"}


def test_versions_of_one_url_are_compared_with_those_of_a(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drifted, pages = WORDS, []
    for day in range(1, 21):
        for place in range(6 * day - 6, 6 * day):
            drifted = changed(drifted, place)
        pages.append(line("https://a.example/one", drifted, date=f"2024-02-{day:02}T00:00:00Z"))
    older = line("https://a.example/one", changed(WORDS, 150), date="2023-01-01T00:00:00Z")
    (tmp_path / "a.jsonl").write_text(A)
    (tmp_path / "b.jsonl").write_text(older + "".join(pages))
    names, output = [str(tmp_path / name) for name in ("a.jsonl", "b.jsonl")], tmp_path / "out.jsonl"
    run = Terminal(tmp_path / "none", capsys).bare("subtract", *names, "--output", str(output), "--format", "jsonl")
    kept = [json.loads(written)["timestamp"] for written in output.read_text().splitlines()]
    assert run.code == 0 and "2023-01-01T00:00:00Z" not in kept and "2024-02-01T00:00:00Z" not in kept
    assert kept[-1] == "2024-02-20T00:00:00Z"


def written(tmp_path: Path, capsys: pytest.CaptureFixture[str], a: str, b: str) -> list[tuple[str, str]]:
    """URL and time of the pages of B that A does not have."""
    for name, lines in (("a", a), ("b", b)):
        (tmp_path / f"{name}.jsonl").write_text(lines)
    names, output = [str(tmp_path / name) for name in ("a.jsonl", "b.jsonl")], tmp_path / "out.jsonl"
    run = Terminal(tmp_path / "none", capsys).bare("subtract", *names, "--output", str(output), "--format", "jsonl")
    assert run.code in (0, 1), run.err
    pages = map(json.loads, output.read_text().splitlines()) if run.code == 0 else ()
    return [(page["url"], page["timestamp"]) for page in pages]


def test_an_older_version_is_compared_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its verdict names a page of B alone, which is the nearest; the page of A is a little further away."""
    first, third = changed(changed(WORDS, 150), 20), changed(WORDS, 150)
    b = [("https://b.example/nearest", third, 1), ("https://b.example/old", first, 2)]
    b.append(("https://b.example/old", article(7), 3))  # its newest version is not like a page of A
    lines = "".join(line(url, words, date=f"2024-02-0{day}T00:00:00Z") for url, words, day in b)
    kept = written(tmp_path, capsys, A, lines)
    assert kept == [("https://b.example/old", "2024-02-03T00:00:00Z")]


@pytest.mark.parametrize("words", [article(8), changed(article(1, 300), 150)], ids=["other", "near"])
def test_a_page_with_url_and_time_of_one_of_a_keeps_its_date(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    kept = written(tmp_path, capsys, A, line("https://a.example/one", words, date="2024-01-01T00:00:00Z"))
    is_near = words[:100] == WORDS[:100]
    assert kept == ([] if is_near else [("https://a.example/one", "2024-01-01T00:00:00Z")])
