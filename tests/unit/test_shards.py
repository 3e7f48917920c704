from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from cli_case import Terminal, article, html

import docstore
from docstore.archives.export import ExportReport, JsonLinesExport, WarcExport, export
from docstore.archives.locations import open_output
from docstore.archives.selection import Selection
from docstore.archives.shards import Shards

COUNT = 12
MAY = 1_714_521_600_000_000


def url(number: int) -> str:
    return f"https://site{number % 3}.example/{number:02}"


def put(store: docstore.DocumentStore, number: int, fetched_at: int = MAY) -> None:
    lines = [*article(number), *article(1000 + number % 3, 20)]  # the last lines are those of the site
    body = "<body>" + "".join(f"<p>{' '.join(lines[at : at + 20])}" for at in range(0, len(lines), 20))
    store.put_page(url(number), body.encode(), headers={"Content-Type": "text/html"}, fetched_at=fetched_at)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    terminal = Terminal(tmp_path / "store", capsys)
    with docstore.open(terminal.store, create=True) as store:
        for number in range(COUNT):
            put(store, number)
    return terminal


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def urls(folder: Path) -> list[str]:
    """URLs of the lines of all shards of JSON Lines, in order."""
    return [line["url"] for path in sorted(folder.glob("pages-*.jsonl")) for line in lines(path)]


def write_lines(store: docstore.DocumentStore, output: str, selection: Selection, stop_at: int = 0) -> None:
    """Export in shards of about two captures; with `stop_at` that shard is interrupted."""

    def write(stream: BinaryIO, part: Selection, **how: Any) -> ExportReport:
        def stop(report: ExportReport) -> None:
            if stop_at and len(shards.shards) == stop_at and report.captures == 1:
                raise KeyboardInterrupt

        return export(store, JsonLinesExport(stream), part, on_progress=stop, **how)

    shards = Shards(output, {}, 3000, None)
    shards.write(store, selection, write)


@pytest.mark.parametrize("kind", ["warc", "wacz", "jsonl", "parquet", "trecweb"])
def test_shards_of_every_format_hold_all_pages_and_are_read_by_their_manifest(
    run: Terminal, tmp_path: Path, kind: str
) -> None:
    pytest.importorskip("pyarrow")
    options = ["--body"] if kind == "jsonl" else []
    output = tmp_path / "out" / f"pages.{kind}"
    output.parent.mkdir()
    answer = run("export", "--format", kind, *options, "--output", str(output), "--shards", "5", "--json")
    assert (answer.code, answer.err) == (0, "")
    shards = answer.object()["shards"]
    assert [shard["captures"] for shard in shards] == [2, 2, 3, 2, 3]
    assert [shard["file"] for shard in shards] == [f"pages-{number:05}.{kind}" for number in range(5)]
    for shard in shards:
        content = (output.parent / shard["file"]).read_bytes()
        assert shard["bytes"] == len(content)
        assert shard["sha256"] == hashlib.sha256(content).hexdigest()
    manifest = answer.object()["output"]
    assert manifest == str(output.parent / "pages.manifest.jsonl")
    for number, words in enumerate(
        (["--files-from", manifest], [f"{output.parent}/pages-*.{kind}"], [str(output.parent)])
    ):
        report = run.on(tmp_path / f"again{number}")("ingest", *words, "--create", "--json").object()
        assert (report["pages"], report["files"], report["errors"]) == (COUNT, 5, [])


@pytest.mark.parametrize("kind", ["warc", "parquet"])
def test_a_shard_ends_when_it_is_as_long_as_it_should_be(run: Terminal, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("pyarrow")
    output = str(tmp_path / f"pages.{kind}")
    answer = run("export", "--format", kind, "--output", output, "--shard-size", "2KB", "--json")
    shards = answer.object()["shards"]
    assert len(shards) > 1 and sum(shard["captures"] for shard in shards) == COUNT
    if kind == "warc":
        assert all(2000 <= shard["bytes"] < 6000 for shard in shards[:-1])


@pytest.mark.parametrize("options", [{}, {"drop_repeated_lines": "host"}, {"collapse": True}, {"prefix": url(1)[:21]}])
def test_an_interrupted_export_goes_on_and_gives_the_files_of_one_that_was_not(
    run: Terminal, tmp_path: Path, options: dict[str, Any]
) -> None:
    assert run("sweep").code == 0
    selection = Selection(**options)
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    with docstore.open(run.store) as store:
        write_lines(store, str(tmp_path / "whole" / "pages.jsonl"), selection)
        with pytest.raises(KeyboardInterrupt):
            write_lines(store, str(tmp_path / "parts" / "pages.jsonl"), selection, stop_at=1)
        names = sorted(path.name for path in (tmp_path / "parts").iterdir())
        assert names == ["pages-00000.jsonl", "pages.manifest.jsonl"]
        write_lines(store, str(tmp_path / "parts" / "pages.jsonl"), selection)
        with (tmp_path / "single").open("wb") as stream:
            export(store, JsonLinesExport(stream), selection)
    files = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "parts").iterdir()}
    assert len(files) > 2
    assert b"".join(files[name] for name in sorted(files)[:-1]) == (tmp_path / "single").read_bytes()


def test_versions_of_a_page_are_in_one_shard(run: Terminal, tmp_path: Path) -> None:
    with docstore.open(run.store) as store:
        for number in range(COUNT):
            put(store, number + 3 * COUNT, MAY)  # other pages of the same hosts
            for day in range(1, 4):
                store.put_page(url(number), html("Next", article(100 * day + number)), fetched_at=MAY + day * 10**12)
    output = tmp_path / "pages.jsonl"
    run("export", "--format", "jsonl", "--versions", "all", "--output", str(output), "--shards", "20")
    of_shards = [{line["url"] for line in lines(path)} for path in sorted(tmp_path.glob("pages-*"))]
    assert len(of_shards) > 5 and sum(map(len, of_shards)) == 2 * COUNT == len(set().union(*of_shards))


def test_a_store_that_changes_before_an_export_goes_on_gives_no_page_twice(run: Terminal, tmp_path: Path) -> None:
    output = str(tmp_path / "pages.jsonl")
    with docstore.open(run.store) as store:
        with pytest.raises(KeyboardInterrupt):
            write_lines(store, output, Selection(), stop_at=1)
        written = urls(tmp_path)
        store.put_page("https://a.example/", html("Early", article(50)), fetched_at=MAY)  # sorts first
        store.put_page("https://z.example/", html("Late", article(51)), fetched_at=MAY)
        store.put_page(written[0], html("Changed", article(52)), fetched_at=MAY + 10**9)
        write_lines(store, output, Selection())
    assert sorted(urls(tmp_path)) == sorted([url(number) for number in range(COUNT)] + ["https://z.example/"])
    assert lines(tmp_path / "pages-00000.jsonl")[0]["timestamp"] == "2024-05-01T00:00:00Z"


def test_a_finished_export_is_not_written_again(run: Terminal, tmp_path: Path) -> None:
    words = ("export", "--output", str(tmp_path / "pages.warc.gz"), "--shards", "2")
    first = run(*words)
    assert first.code == 0 and f" in 2 files to {tmp_path}/pages.manifest.jsonl" in first.out
    inodes = {path: path.stat().st_ino for path in tmp_path.glob("pages*")}
    with docstore.open(run.store) as store:
        store.put_page("https://z.example/", b"more", fetched_at=MAY)
    again = run(*words)
    assert again.code == 0 and "was complete: nothing was written" in again.err
    assert {path: path.stat().st_ino for path in tmp_path.glob("pages*")} == inodes


def test_shards_of_another_export_are_not_mixed_with_these(run: Terminal, tmp_path: Path) -> None:
    output = str(tmp_path / "pages.warc.gz")
    assert run("export", "--output", output, "--shards", "2").code == 0
    for words in (["--shards", "3"], ["--shards", "2", "--status", "200"], ["--shard-size", "1MB"]):
        answer = run("export", "--output", output, *words)
        assert answer.code == 2 and "pages.manifest.jsonl is of an export with other options" in answer.err
    manifest = tmp_path / "pages.manifest.jsonl"
    head = manifest.read_bytes().split(b"\n")[0]
    shard = b'\n{"captures": 1, "body_bytes": 1, "unreadable": 0, "last_row_key": %s}'
    for damaged in (
        b"",
        b"[]",
        b"[" * 100_000,
        head + b"\n3",
        head + b'\n{"file": "pages-00000.warc.gz"}',
        head + (shard % b'"0z"'),
        head + (shard % b"5"),
        head + (shard % b'"00"').replace(b"1", b'"1"'),
    ):
        manifest.write_bytes(damaged)
        answer = run("export", "--output", output, "--shards", "2")
        assert answer.code == 2 and "is no manifest" in answer.err
    (tmp_path / "pages.manifest.jsonl").unlink()
    answer = run("export", "--output", output, "--shards", "2")
    assert answer.code == 2 and "remove the old shards" in answer.err


@pytest.mark.parametrize(
    "words",
    [
        ["--shards", "2"],
        ["--shards", "2", "--shard-size", "1MB", "--output", "{}"],
        ["--shards", "2", "--output", "{}", "--cdxj", "{}.cdxj"],
        ["--shards", "0", "--output", "{}"],
        ["--shard-size", "many", "--output", "{}"],
        ["--shard-size", "0", "--output", "{}"],
    ],
)
def test_options_that_do_not_fit_shards_are_refused(run: Terminal, tmp_path: Path, words: list[str]) -> None:
    answer = run("export", *(word.format(tmp_path / "pages.warc.gz") for word in words))
    assert answer.code == 2
    assert not list(tmp_path.glob("pages*"))


def test_an_export_of_nothing_leaves_no_shard_and_can_be_repeated(run: Terminal, tmp_path: Path) -> None:
    words = ("export", "--output", str(tmp_path / "pages.warc.gz"), "--shards", "2", "--host", "z.example")
    assert run(*words).code == 1
    with docstore.open(run.store) as store:
        store.put_page("https://z.example/", b"more", fetched_at=MAY)
    assert run(*words).code == 0


def test_a_shard_that_is_shorter_than_its_manifest_says_is_refused(run: Terminal, tmp_path: Path) -> None:
    run("export", "--output", str(tmp_path / "pages.warc.gz"), "--shards", "2")
    shard = tmp_path / "pages-00001.warc.gz"
    shard.write_bytes(shard.read_bytes()[:-100])
    answer = run.on(tmp_path / "other")("ingest", "--files-from", str(tmp_path / "pages.manifest.jsonl"), "--create")
    assert answer.code == 2 and "pages-00001.warc.gz has" in answer.err and "copy or export it again" in answer.err


def test_two_shards_with_the_same_page_give_it_once(run: Terminal, tmp_path: Path) -> None:
    for name, words in (("one", ["--shards", "2"]), ("two", ["--shards", "3"])):
        run("export", "--output", str(tmp_path / f"{name}.warc.gz"), *words)
    report = run.on(tmp_path / "other")("ingest", str(tmp_path / "*.warc.gz"), "--create", "--json").object()
    assert (report["pages"], report["known"], report["files"]) == (2 * COUNT, COUNT, 5)


def test_a_long_manifest_is_not_written_after_each_shard_but_has_all_at_an_interruption(
    run: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []

    def counted(name: str, *rest: Any) -> Any:
        names.append(name)
        return open_output(name, *rest)

    def write(stream: BinaryIO, part: Selection, *, takes: Callable[[bytes], bool], **_how: Any) -> ExportReport:
        first, report = int(part.after or b"-1") + 1, ExportReport(captures=1)
        if first == 230:
            raise KeyboardInterrupt
        assert takes(b"%d" % first) and not takes(b"%d" % (first + 1))
        return report

    monkeypatch.setattr("docstore.archives.shards.open_output", counted)
    with docstore.open(run.store) as store, pytest.raises(KeyboardInterrupt):
        Shards(str(tmp_path / "pages.jsonl"), {}, 0, None).write(store, Selection(), write)
    assert len(lines(tmp_path / "pages.manifest.jsonl")) == 231
    assert sum(name.endswith(".manifest.jsonl") for name in names) == 1 + 200 + 15 + 1


def test_a_manifest_says_whether_the_export_was_complete(run: Terminal, tmp_path: Path) -> None:
    with docstore.open(run.store) as store:

        def write(stream: BinaryIO, part: Selection, **how: Any) -> ExportReport:
            if shards.shards:
                raise KeyboardInterrupt
            return export(store, WarcExport(stream), part, **how)

        shards = Shards(str(tmp_path / "pages.warc.gz"), {}, None, 2)
        with pytest.raises(KeyboardInterrupt):
            shards.write(store, Selection(), write)
    head, *rest = lines(tmp_path / "pages.manifest.jsonl")
    assert head["captures"] == COUNT and [line.get("captures") for line in rest] == [6]
    assert gzip.decompress((tmp_path / "pages-00000.warc.gz").read_bytes()).startswith(b"WARC/1.1")
    assert not Shards(str(tmp_path / "pages.warc.gz"), {}, None, 2).is_complete
