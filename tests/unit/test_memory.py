"""Memory of a store: bounded by its setting; of an ingest: by the longest body, whatever the archive unpacks to."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from warc_records import message, record

import docstore
from docstore.model.errors import InvalidArgument
from docstore.storage.cache import DEFAULT_BYTES, FIXED_BYTES, MB, SHARES, Memory, parse_memory

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


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("512 MB", 512 * MB), ("2gb", 2000 * MB), ("64MiB", 64 << 20), (96 * MB, 96 * MB)]
)
def test_memory_is_given_as_a_size_with_a_unit_or_in_bytes(text: str | int, size_bytes: int) -> None:
    assert parse_memory(text) == size_bytes


@pytest.mark.parametrize("memory", ["much", "-5 MB", "1 TB!", "", 1000, "95MB", "9999999999GB", "9" * 400])
def test_memory_that_is_no_size_or_too_little_is_refused(tmp_path: Path, memory: str | int) -> None:
    with pytest.raises(InvalidArgument, match="memory is"):
        docstore.open(tmp_path / "s", create=True, memory=memory)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("times", [1, 4])
def test_all_shares_together_leave_room_for_the_rest(times: int, read_only: bool) -> None:
    limit_bytes = times * DEFAULT_BYTES[read_only]
    memory = Memory(limit_bytes, read_only=read_only)
    assert sum(map(memory.share, SHARES)) <= limit_bytes - FIXED_BYTES[read_only]


def test_statistics_say_what_caches_hold_and_how_often_they_had_an_answer(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none", memory="200MB") as store:
        for number in range(3):
            store.put_page(f"https://a.example/{number}", b"<p>" + b"word " * 400)
        stats = store.stats()
    assert stats["memory_bytes"] == 200 * MB
    for cache in stats["caches"].values():
        assert 0 <= cache["used_bytes"] <= cache["limit_bytes"] < 200 * MB
    pages = stats["caches"]["pages"]
    assert pages["entries"] == 3 and pages["hits"] + pages["misses"] > 0


MANY_SITES = """
import random, sys
from pathlib import Path
import docstore

words = ["".join(random.Random(seed).choices("abcdefghijklmnop", k=6)) for seed in range(2000)]

def pages(count):
    for number in range(count):
        frame = " ".join(random.Random(f"site {number % 20_000}").choices(words, k=150))
        text = " ".join(random.Random(number).choices(words, k=300))
        yield f"https://s{number % 20_000}.example/a/{number}", f"<ul><li>{frame}</li></ul><p>{text}</p>".encode()

with docstore.open(sys.argv[1], create=True, durability="none", memory=sys.argv[2]) as store:
    for result in store.put_pages(pages(int(sys.argv[3]))):
        assert store.get(result.url) is not None
    rollup = Path("/proc/self/smaps_rollup").read_text()
    print(next(line.split()[1] for line in rollup.splitlines() if line.startswith("Anonymous:")))
"""


@pytest.mark.parametrize(
    ("megabytes", "pages"), [(96, 2000), pytest.param(128, 24_000, marks=pytest.mark.slow)], ids=["few", "many"]
)
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="only Linux says what is anonymous")
def test_a_store_of_up_to_twenty_thousand_sites_keeps_to_its_memory(tmp_path: Path, megabytes: int, pages: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MANY_SITES, str(tmp_path / "store"), f"{megabytes}MB", str(pages)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) * 1024 <= megabytes * MB
