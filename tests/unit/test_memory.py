"""Memory of an ingest: bounded by the longest body, whatever the archive unpacks to."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from warc_records import message, record

LIMIT_BYTES = 64 << 20
PROGRAM = """
import gc, resource, sys
import docstore
from docstore.archives.ingest import IngestOptions, ingest

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

with docstore.open(sys.argv[1], create=True, durability="none") as store:
    list(store.put_pages([docstore.Page("https://a.example/", b"<p>loads everything")]))
    before = peak()
    report = ingest(store, sys.argv[3:], IngestOptions(max_body_bytes=int(sys.argv[2]), reader=False))
    print(report.pages, report.error_count, peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("packing", ["gzip", "zstd", "content-encoding"])
def test_an_ingest_takes_at_most_four_times_the_longest_body(tmp_path: Path, packing: str) -> None:
    """Each body is just below the limit; some are HTML; one more is above it."""
    pack = zstandard.ZstdCompressor(1).compress if packing == "zstd" else lambda raw: gzip.compress(raw, 1)
    path = tmp_path / "bombs.warc"
    with path.open("wb") as stream:
        for number in range(5):
            length = LIMIT_BYTES - 1000 if number < 4 else LIMIT_BYTES + 2_000_000
            kind = "text/html" if number % 2 else "application/octet-stream"
            body = b"%d lorem ipsum dolor " % number
            body = body * (length // len(body))
            if packing == "content-encoding":
                block = message(gzip.compress(body, 1), headers=["Content-Encoding: gzip"])
            else:
                block = message(body)
            block = block.replace(b"text/html", kind.encode(), 1)
            stream.write(pack(record(block, f"http://e{number}.example/")))
    del body, block
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "store"), str(LIMIT_BYTES), str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages, errors, peak_bytes = map(int, done.stdout.split())
    assert (pages, errors) == (4, 1)
    text_bytes = 25 * (16 << 20)  # what the analysis of the longest text takes; see TEXT_LIMIT_BYTES
    assert peak_bytes < 3 * LIMIT_BYTES + text_bytes, f"{peak_bytes / LIMIT_BYTES:.1f} times the limit"
