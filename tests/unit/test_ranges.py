"""Records by range: a list names the file, offset and length of each record, and only these bytes are fetched."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_case import Terminal, article, html, warc
from remote import Files, environment, http_server, s3_server

from docstore.archives import locations, ranges
from docstore.archives.entries import DamagedEntry
from docstore.archives.ranges import RangeOptions, RecordPlace, record_places
from docstore.model.errors import InvalidArgument

COUNT = 12


@pytest.fixture
def files() -> Iterator[Files]:
    with http_server() as served:
        yield served


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(tmp_path / "store", capsys)


@pytest.fixture
def indexed(tmp_path: Path, terminal: Terminal) -> tuple[bytes, list[dict[str, Any]]]:
    """A WARC file, and what its CDXJ index says of each record."""
    pages = [
        (f"https://site{n}.example/", f"2024-05-01T00:00:{n:02}Z", html(f"Page {n}", article(n))) for n in range(COUNT)
    ]
    source = terminal.on(tmp_path / "source")
    assert source("ingest", str(warc(tmp_path / "pages.warc.gz", pages)), "--create").code == 0
    out, index = tmp_path / "crawl.warc.gz", tmp_path / "crawl.cdxj"
    assert source("export", "--output", str(out), "--cdxj", str(index)).code == 0
    fields = []
    for line in index.read_text().splitlines():
        _, stamp, rest = line.split(" ", 2)
        fields.append(json.loads(rest) | {"timestamp": stamp})
    return out.read_bytes(), fields


def cdxj(path: Path, fields: list[dict[str, Any]]) -> str:
    lines = [
        f"x {each['timestamp']} {json.dumps({k: v for k, v in each.items() if k != 'timestamp'})}" for each in fields
    ]
    path.write_text("\n".join(["!meta {}", *lines, ""]))
    return str(path)


def parquet(path: Path, fields: list[dict[str, Any]]) -> str:
    """As Common Crawl's columnar index."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {
        "url": "url",
        "warc_filename": "filename",
        "warc_record_offset": "offset",
        "warc_record_length": "length",
    }
    table = {
        name: [int(each[key]) if key in ("offset", "length") else each[key] for each in fields]
        for name, key in columns.items()
    }
    times = [
        locations.datetime.strptime(each["timestamp"], "%Y%m%d%H%M%S").replace(tzinfo=locations.UTC) for each in fields
    ]
    pq.write_table(pa.table(table | {"fetch_time": pa.array(times, pa.timestamp("ms", "UTC"))}), path)
    return str(path)


def json_lines(path: Path, fields: list[dict[str, Any]]) -> str:
    path.write_bytes(gzip.compress(b"".join(json.dumps(each).encode() + b"\n" for each in fields)))
    return str(path)


@pytest.mark.parametrize("write", [cdxj, parquet, json_lines])
def test_only_the_records_of_the_list_are_fetched_and_once(
    files: Files, terminal: Terminal, tmp_path: Path, indexed: tuple[bytes, list[dict[str, Any]]], write: Any
) -> None:
    raw, fields = indexed
    files.content["/data/crawl.warc.gz"] = raw
    name = write(tmp_path / "list", fields[3:9])
    options = ("--records", name, "--base", f"{files.url}/data/", "--create", "--json")
    report = terminal("ingest", *options).object()
    assert (report["pages"], report["stored"], report["error_count"]) == (6, 6, 0)
    wanted = [f"bytes={each['offset']}-{int(each['offset']) + int(each['length']) - 1}" for each in fields[3:9]]
    assert sorted(asked for _, asked in files.asked) == sorted(wanted)
    found = {line.split()[0] for line in terminal("scan").out.splitlines() if line}
    assert len(found) >= 6
    again = terminal("ingest", *options).object()
    assert (again["pages"], again["skipped"]) == (0, {"already_stored": 6})
    assert len(files.asked) == 6
    name = write(tmp_path / "longer", fields)
    longer = terminal("ingest", "--records", name, *options[2:]).object()
    assert (longer["pages"], longer["skipped"]) == (6, {"already_stored": 6})


def test_what_fails_is_listed_and_the_next_run_fetches_it(
    files: Files,
    terminal: Terminal,
    tmp_path: Path,
    indexed: tuple[bytes, list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(locations, "RETRY_SECONDS", (0.0, 0.0))
    raw, fields = indexed
    files.content["/crawl.warc.gz"] = raw
    listed = [dict(each) for each in fields[:4]]
    listed[1]["filename"] = "gone.warc.gz"
    listed[2] |= {"offset": str(len(raw) - 10), "length": "50"}
    listed.append({"filename": "crawl.warc.gz", "timestamp": "20240501000000"})
    files.statuses = [503, 503]
    options = ("--base", files.url, "--at-once", "1", "--json", "--create")
    answer = terminal("ingest", "--records", cdxj(tmp_path / "list", listed), *options)
    report = answer.object()
    assert (answer.code, report["pages"], report["error_count"]) == (8, 2, 3)
    reasons = [error["reason"] for error in report["errors"]]
    assert "404" in reasons[0] and "of gone.warc.gz)" in reasons[0] and report["errors"][0]["url"] == listed[1]["url"]
    assert "has 10 bytes from" in reasons[1] or "416" in reasons[1]
    assert "gives the filename, offset and length" in reasons[2]
    files.content["/gone.warc.gz"] = raw
    report = terminal("ingest", "--records", cdxj(tmp_path / "list", listed), *options).object()
    assert (report["pages"], report["skipped"]["already_stored"], report["error_count"]) == (1, 2, 2)


def test_a_wrong_base_ends_the_run(
    files: Files,
    terminal: Terminal,
    tmp_path: Path,
    indexed: tuple[bytes, list[dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ranges, "MOST_FAILURES", 3)
    answer = terminal("ingest", "--records", cdxj(tmp_path / "list", indexed[1]), "--base", files.url, "--create")
    assert answer.code == 8 and "none of the first 3 records could be fetched; check --base" in answer.err


def test_records_of_local_files_and_object_stores_are_read(
    terminal: Terminal, tmp_path: Path, indexed: tuple[bytes, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, fields = indexed
    name = cdxj(tmp_path / "list", fields[::2])
    report = terminal("ingest", "--records", name, "--base", str(tmp_path), "--create", "--json").object()
    assert (report["pages"], report["error_count"]) == (COUNT // 2, 0)
    pytest.importorskip("moto", reason="moto is not installed: pip install '.[test]'")
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed: pip install '.[s3]'")
    with s3_server() as client:
        for variable, value in environment(client.meta.endpoint_url).items():
            monkeypatch.setenv(variable, value)
        s3fs.S3FileSystem.clear_instance_cache()
        client.put_object(Bucket="crawls", Key="a/crawl.warc.gz", Body=raw)
        other = terminal.on(tmp_path / "other")
        report = other("ingest", "--records", name, "--base", "s3://crawls/a", "--create", "--json").object()
        assert (report["pages"], report["error_count"]) == (COUNT // 2, 0)


def test_the_rate_bounds_how_often_requests_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = 100.0, list[float]()

    def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    monkeypatch.setattr(ranges.time, "monotonic", lambda: now)
    monkeypatch.setattr(ranges.time, "sleep", sleep)
    pace = ranges.Pace(4.0)
    for _ in range(9):
        pace.wait()
    assert sum(slept) == pytest.approx(2.0)
    ranges.Pace(0.0).wait()
    assert len(slept) == 9


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (
            b'com,example)/ 20240501120000 {"url": "https://a.example/", "filename": "a", "offset": 7, "length": "9"}',
            RecordPlace(0, "a", 7, 9, "https://a.example/", 1_714_564_800_000_000),
        ),
        (b'{"filename": "a", "offset": 7, "length": 9}', RecordPlace(0, "a", 7, 9)),
        (b'{"warc_filename": "a", "warc_record_offset": 0, "warc_record_length": 9}', RecordPlace(0, "a", 0, 9)),
        (b'{"filename": "a", "offset": "-1", "length": "9"}', None),
        (b'{"filename": "a", "offset": "1", "length": "0"}', None),
        (b'{"filename": 3, "offset": "1", "length": "1"}', None),
        (b'{"filename": "a", "offset": [1], "length": null}', None),
        (b"com,example)/ 20240501120000 https://example.com/ text/html 200 X - - 9 7 a", None),
    ],
)
def test_an_entry_of_a_list_is_a_place_or_damage(tmp_path: Path, line: bytes, place: RecordPlace | None) -> None:
    (tmp_path / "list").write_bytes(line + b"\n\n")
    (found,) = record_places(str(tmp_path / "list"))
    assert found == place if place is not None else isinstance(found, DamagedEntry)


def test_options_that_do_not_fit_are_refused(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("")
    assert terminal("ingest", "--records", str(tmp_path / "list"), "x.warc", "--create").code == 2
    assert terminal("ingest", "--records", str(tmp_path / "none"), "--create").code == 2
    assert terminal("ingest", "--records", str(tmp_path / "list"), "--rate", "-1", "--create").code == 2
    assert terminal("ingest", "--records", str(tmp_path / "list"), "--jobs", "2", "--create").code == 2
    assert RangeOptions() == RangeOptions("", 8, 0.0)
    with pytest.raises(InvalidArgument):
        list(record_places(str(tmp_path)))
