"""warcprox: asks CDX whether a page is archived with the same bytes, and then writes a revisit record alone."""

from __future__ import annotations

from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator

from tests.clients.conftest import SAME, Archive, Environment, free_port, running

PROGRAM = """
import sys, warcprox.main, warcprox.warcproxy
warcprox.warcproxy.WarcProxyHandler.allow_localhost = True  # it refuses sites on loopback otherwise
warcprox.main.main(sys.argv)
"""


def test_a_page_that_is_archived_becomes_a_revisit(
    environment: Callable[[str], Environment], archive: Archive, tmp_path: Path
) -> None:
    port = free_port()
    options = ["-b", "127.0.0.1", "-p", str(port), "-d", "warcs", "--base32", f"--cdxserver-dedup={archive.base}/cdx"]
    with running([environment("warcprox").python, "-c", PROGRAM, *options], tmp_path, port):
        for _ in range(2):
            connection = HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", archive.origin)
            assert connection.getresponse().read() == SAME
            connection.close()
    records = []
    for written in (tmp_path / "warcs").glob("*.warc*"):
        with written.open("rb") as stream:
            records += [
                record.rec_headers for record in ArchiveIterator(stream) if record.rec_type in ("response", "revisit")
            ]
    assert [record["WARC-Type"] for record in records] == ["revisit", "revisit"]
    for record in records:
        assert record["WARC-Refers-To-Target-URI"] == archive.origin
        assert record["WARC-Refers-To-Date"] == "2024-07-01T00:00:00Z"
        assert record["WARC-Profile"].endswith("/identical-payload-digest")
