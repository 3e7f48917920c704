"""pywb: replays pages, images, redirects, revisits and 404s, from CDX with raw replay, from Memento alone, and from
exported files without a server of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import docstore
from docstore.archives.export import WarcExport, export
from docstore.archives.ingest import IngestOptions, ingest
from docstore.archives.selection import Selection
from docstore.archives.wacz import CdxjIndex, WaczExport
from tests.archive_case import CAPTURES, write_warc
from tests.clients.conftest import Archive, Environment, fetch, free_port, running

CONFIG = """
collections:
  web:
    index_paths: cdx+{base}/cdx
  mem: memento+{base}/
  out:
    index_paths: {files}/out.cdxj
    archive_paths: {files}/
  kept:
    index_paths: {files}/kept.cdxj
    archive_paths: {files}/
"""
RED, BLUE = (255, 0, 0), (0, 0, 255)


@pytest.fixture(scope="module")
def pywb(
    environment: Callable[[str], Environment], archive: Archive, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[int]:
    """The port of a pywb that replays from the archive, and from exported files.

    `out` is a WARC file with its index, `kept` one with records as they were recorded, `wacz` was added as a WACZ file.
    """
    client = environment("pywb")
    folder, port = tmp_path_factory.mktemp("pywb"), free_port()
    export_files(folder)
    (folder / "config.yaml").write_text(CONFIG.format(base=archive.base, files=folder))
    client.run("wb-manager", "init", "wacz", cwd=folder)
    client.run("wb-manager", "add", "wacz", "--unpack-wacz", str(folder / "out.wacz"), cwd=folder)
    with running(
        [client.python, str(client.folder / "bin" / "wayback"), "-b", "127.0.0.1", "-p", str(port)], folder, port
    ):
        yield port


def export_files(folder: Path) -> None:
    """Export the captures of the archive in three ways."""
    write_warc(folder / "crawl.warc.gz", CAPTURES)
    schema = docstore.Schema(families=(docstore.ColumnFamily("warc"),))
    with docstore.open(folder / "store", create=True, schema=schema) as store:
        ingest(store, [str(folder / "crawl.warc.gz")], IngestOptions(keep_encoded=True))
        for name in ("out", "kept"):
            index = CdxjIndex(f"{name}.warc.gz")
            with (folder / f"{name}.warc.gz").open("wb") as stream:
                writer = WarcExport(stream, on_record=index.add)
                export(store, writer, Selection(versions=None), keep_encoded=name == "kept")
            (folder / f"{name}.cdxj").write_bytes(b"".join(index.lines()))
        with (folder / "out.wacz").open("wb") as stream:
            export(store, WaczExport(stream, "docstore"), Selection(versions=None))


both = pytest.mark.parametrize("collection", ["web", "mem"])
every = pytest.mark.parametrize("collection", ["web", "mem", "out", "kept", "wacz"])


@every
@pytest.mark.parametrize(
    ("digits", "url", "shown"),
    [
        ("20240101000000", "http://example.test/", "Home one"),
        ("20240601000000", "http://example.test/", "Home two"),
        ("20240901000000", "http://example.test/", "Home two"),
        ("20240101000002", "http://example.test/zip", "Was gzipped"),
        ("20240101000005", "http://example.test/q?a=1&b=x%20y;z", "query page"),
        ("20240101000007", "https://example.test/self", "secure"),
    ],
)
def test_a_page_is_replayed(pywb: int, collection: str, digits: str, url: str, shown: str) -> None:
    found = fetch(pywb, f"/{collection}/{digits}mp_/{url}")
    assert found.status == 200 and shown in found.body


@every
def test_a_redirect_leads_to_the_replay_of_its_target(pywb: int, collection: str) -> None:
    found = fetch(pywb, f"/{collection}/20240101000003mp_/http://example.test/old")
    assert found.status == 301 and found.location.endswith(f"/{collection}/20240101000003mp_/http://example.test/zip")


@every
def test_a_redirect_from_http_to_https_ends_at_the_page(pywb: int, collection: str) -> None:
    path = f"/{collection}/20240101000006mp_/http://example.test/self"
    for _ in range(4):
        found = fetch(pywb, path)
        if found.status == 200:
            break
        path = found.location[found.location.index(f"/{collection}/") :]
    assert found.status == 200 and "secure" in found.body


@every
def test_an_archived_404_and_an_unknown_page_are_404(pywb: int, collection: str) -> None:
    archived = fetch(pywb, f"/{collection}/20240101000004mp_/http://example.test/missing")
    assert archived.status == 404 and "archived 404" in archived.body
    unknown = fetch(pywb, f"/{collection}/20240101000004mp_/http://example.test/nope")
    assert unknown.status == 404 and "archived 404" not in unknown.body


@pytest.mark.parametrize("collection", ["web", "out", "kept", "wacz"])
def test_the_capture_list_has_every_capture(pywb: int, collection: str) -> None:
    found = fetch(pywb, f"/{collection}/cdx?url=http://example.test/&output=json")
    assert [line[:60].count("2024") for line in found.body.splitlines()] == [1, 1, 1]


@both
def test_a_browser_shows_page_and_image(
    pywb: int, collection: str, chromium: Callable[..., str], tmp_path: Path
) -> None:
    image = pytest.importorskip("PIL.Image", reason="pictures are looked at with Pillow")
    url = f"http://127.0.0.1:{pywb}/{collection}/20240601000000mp_/http://example.test/"
    assert "Home two" in chromium(url)
    chromium(url, tmp_path / "page.png")
    colours = image.open(tmp_path / "page.png").convert("RGB").getcolors(1 << 24)
    counts = {colour: count for count, colour in colours}
    assert counts.get(RED, 0) > 1000 and counts.get(BLUE, 0) > 1000
