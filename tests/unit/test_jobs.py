"""Several processes that read the files of one ingest."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_case import Terminal, article, html, warc

import docstore
from docstore.archives.ingest import IngestOptions, in_turn, ingest
from docstore.archives.readahead import Portion
from docstore.model.errors import InvalidArgument
from docstore.model.types import Page

FILES = 3


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Archives with the same pages at other URLs, so that verdicts depend on the order."""
    names = []
    for file in range(FILES):
        pages = [
            (f"https://site{file}.example/{n}", "2024-05-01T00:00:00Z", html(f"Page {n}", article(n))) for n in range(4)
        ]
        names.append(str(warc(tmp_path / f"{file}.warc.gz", pages)))
    return names


def verdicts(path: Path) -> dict[str, str]:
    with docstore.open(path) as store:
        documents = [store.get(url) for url in store.urls()]
    return {one.url: f"{one.verdict.kind} {one.verdict.of_url}" for one in documents if one and one.verdict}


def test_the_same_files_and_jobs_give_the_same_verdicts(files: list[str], tmp_path: Path) -> None:
    reports = []
    for name in ("first", "second"):
        with docstore.open(tmp_path / name, create=True) as store:
            reports.append(ingest(store, files, IngestOptions(jobs=2)))
    assert [report.pages for report in reports] == [4 * FILES] * 2
    assert reports[0].verdicts == reports[1].verdicts and reports[0].verdicts["new"] == 4
    assert verdicts(tmp_path / "first") == verdicts(tmp_path / "second")


def test_more_jobs_than_files_and_a_damaged_file_are_no_problem(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "1.warc.gz").write_bytes(b"nothing")
    answer = Terminal(tmp_path / "store", capsys)("ingest", *files, "--jobs", "4", "--create", "--json")
    report = answer.object()
    assert (answer.code, report["pages"], report["files"]) == (8, 4 * (FILES - 1), FILES)
    assert [error["file"] for error in report["errors"]] == [str(tmp_path / "1.warc.gz")]
    assert report["done_bytes"] == report["file_bytes"]


def test_streams_are_taken_in_turn_until_all_have_ended() -> None:
    def stream(name: str, count: int) -> list[Portion[Page]]:
        return [Portion([Page(f"https://{name}.example/{n}", b"")]) for n in range(count)]

    taken = in_turn([iter(stream("a", 3)), iter(stream("b", 1)), iter(stream("c", 2))])
    assert [portion.pages[0].url[8:].replace(".example/", "") for portion in taken] == [
        "a0",
        "b0",
        "c0",
        "a1",
        "c1",
        "a2",
    ]


def test_jobs_that_cannot_be_are_refused(run: Terminal, files: list[str], tmp_path: Path) -> None:
    for words in ([files[0], "--no-reader"], ["-"]):
        answer = run("ingest", *words, "--jobs", "2", "--create")
        assert answer.code == 2 and "processes cannot read" in answer.err
    with docstore.open(tmp_path / "store") as store, pytest.raises(InvalidArgument, match="at least 1"):
        ingest(store, files, IngestOptions(jobs=0))
