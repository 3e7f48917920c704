"""cdx_toolkit: `cdxt` lists captures page by page, counts them, and writes WARC from raw replay."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker

from tests.clients.conftest import Archive, Environment

Cdxt = Callable[..., str]


@pytest.fixture(scope="module")
def cdxt(environment: Callable[[str], Environment], archive: Archive) -> Cdxt:
    client = environment("cdx_toolkit")

    def run(*arguments: str, cwd: Path | None = None) -> str:
        return client.run("cdxt", "--source", f"{archive.base}/cdx", "--wb", archive.base, *arguments, cwd=cwd)

    return run


def test_iter_lists_every_capture_once(cdxt: Cdxt) -> None:
    lines = cdxt("iter", "example.test/*").splitlines()
    assert len(lines) == len(set(lines)) == 10


def test_iter_takes_filters_and_times(cdxt: Cdxt) -> None:
    found = cdxt(
        *("--filter", "=status:200", "--filter", "!mimetype:image/.*", "--from", "2024", "--to", "20240301"),
        *("iter", "--fields", "url,status,mime", "--jsonl", "example.test/*"),
    )
    rows = [json.loads(line) for line in found.splitlines()]
    assert {row["url"] for row in rows} == {
        "http://example.test/",
        "http://example.test/zip",
        "http://example.test/q?a=1&b=x%20y;z",
        "https://example.test/self",
    }


def test_iter_ends_where_nothing_is_archived(cdxt: Cdxt) -> None:
    assert cdxt("iter", "nothing.test/*") == ""


def test_limit_is_counted_over_pages(cdxt: Cdxt) -> None:
    assert len(cdxt("--limit", "6", "iter", "example.test/*").splitlines()) == 6


def test_get_finds_the_closest(cdxt: Cdxt) -> None:
    found = cdxt("--get", "--closest", "20240501", "--limit", "1", "iter", "http://example.test/")
    assert "20240601000000" in found


def test_size_counts_pages(cdxt: Cdxt) -> None:
    assert int(cdxt("size", "example.test/*")) > 0


def test_warc_holds_every_capture_with_right_digests(cdxt: Cdxt, tmp_path: Path) -> None:
    cdxt("warc", "example.test/*", cwd=tmp_path)
    (written,) = tmp_path.glob("*.warc.gz")
    with written.open("rb") as stream:
        records = [
            (
                record.rec_type,
                record.rec_headers["WARC-Target-URI"],
                record.content_stream().read(),
                record.http_headers,
            )
            for record in ArchiveIterator(stream)
        ]
    assert [kind for kind, *_ in records] == ["warcinfo"] + ["response"] * 10
    bodies = {url: body for _, url, body, _ in records}
    assert bodies["http://example.test/zip"] == b"<h1>Was gzipped</h1>"
    assert bodies["http://example.test/q?a=1&b=x%20y;z"] == b"query page"
    redirect = next(http for _, url, _, http in records if url == "http://example.test/old")
    assert (redirect.get_statuscode(), redirect.get_header("Location")) == ("301", "http://example.test/zip")
    assert Checker(type("Wanted", (), {"inputs": [str(written)], "verbose": False})()).process_all() == 0
