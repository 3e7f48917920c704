"""A loaded store is killed, cut and starved; what was acknowledged is there and exact."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import changed, page, words

import docstore
from docstore import Page
from docstore.model.errors import CorruptionError
from docstore.reports.check import check
from docstore.tablets.layout import Layout

HTML = (("Content-Type", "text/html"),)
T0 = 1_700_000_000_000_000


def body_of(number: int) -> bytes:
    text = changed(words(number // 3, 120), number, number % 9) if number % 4 else words(number, 700)
    return page(text)


def write_until_killed(script: str, folder: Path, durability: str, first: int, lines: int) -> int:
    """Write pages from a number on in another process, kill it after so many answers; -> answers given."""
    writer = subprocess.Popen(
        [sys.executable, "-c", script, str(folder), durability, str(first)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    for _ in range(lines):
        writer.stdout.readline()
    os.kill(writer.pid, signal.SIGKILL)
    rest = writer.stdout.read().splitlines(keepends=True)
    writer.wait()
    return lines + sum(line.endswith("\n") for line in rest)


DELETER = """
import sys
import docstore
from docstore.model.errors import CorruptionError
with docstore.open(sys.argv[1], durability=sys.argv[2]) as store:
    store.delete_crawl("x", purge=True, on_progress=lambda rows: print(rows, flush=True))
"""


def test_a_delete_of_a_crawl_goes_on_after_sigkill(tmp_path: Path) -> None:
    kept = {f"https://k.example/{n}": page(changed(words(n, 300), n, 9)) for n in range(40)}
    with docstore.open(tmp_path / "s", create=True) as store:
        for crawl, day in (("x", 0), ("y", 1)):
            bodies = [page(changed(words(n, 300), n, 1)) for n in range(40)] if crawl == "x" else kept.values()
            at = T0 + day * 10**9
            pages = [Page(url, body, 200, HTML, at, crawl=crawl) for url, body in zip(kept, bodies, strict=True)]
            list(store.put_pages(pages))
        list(store.put_pages(Page(f"https://x.example/{n}", body_of(n), 200, HTML, T0, crawl="x") for n in range(260)))
    left = 300
    for lines in (1, 2):
        write_until_killed(DELETER, tmp_path / "s", "flush", 0, lines)
        with docstore.open(tmp_path / "s") as store:
            assert store.lost == () and list(check(store.opened)) == []
            now = sum(1 for _ in store.cells.scan(spec=docstore.ReadSpec(("http",), crawl="x")))
            assert now <= left - 64 * lines
            left = now
    with docstore.open(tmp_path / "s") as store:
        assert store.delete_crawl("x", purge=True) == left
        for _ in range(2):
            assert list(check(store.opened)) == []
            assert [row.url for row in store.cells.scan(spec=docstore.ReadSpec(keys_only=True))] == sorted(kept)
            assert all(one is not None and one.body == kept[one.url] for one in store.get_many(kept))
            store.compact()


def test_a_store_without_its_index_folder_opens_and_finds_what_it_held(tmp_path: Path) -> None:
    pages = [Page(f"https://a.example/{n}", page(words(n, 200)), 200, HTML, T0) for n in range(30)]
    with docstore.open(tmp_path / "s", create=True) as store:
        list(store.put_pages(pages))
    shutil.rmtree(tmp_path / "s" / "index")
    with docstore.open(tmp_path / "s") as store:
        assert list(check(store.opened)) == []
        for number in range(30):
            assert [one.url for one in store.similar(page(changed(words(number, 200), 1, 2)))] == [pages[number].url]


def test_a_cut_tail_is_listed_and_everything_else_is_there(tmp_path: Path) -> None:
    pages = [Page(f"https://a.example/{n}", body_of(4 * n), 200, HTML, T0) for n in range(60)]
    with docstore.open(tmp_path / "s", create=True) as store:
        list(store.put_pages(pages))
    (segment,) = (tmp_path / "s" / "segments").glob("*.seg")
    whole = segment.stat().st_size
    os.truncate(segment, whole * 2 // 3)
    with pytest.raises(CorruptionError, match="accept-loss"):
        docstore.open(tmp_path / "s")
    Layout(tmp_path / "s").open(create=False, schema=None, accept_loss=True).close()  # `check --accept-loss`
    with docstore.open(tmp_path / "s") as store:
        lost = {version.url for version in store.lost}
        assert 10 < len(lost) < 40
        for one in pages:
            found = store.get(one.url)
            if one.url in lost:
                assert found is None
            else:
                assert found is not None and found.body == one.body
        assert all("missing at open" in finding.what for finding in check(store.opened))
        results = list(store.put_pages(pages))  # the crawl goes on
        assert len(results) == 60
    with docstore.open(tmp_path / "s") as store:
        assert {version.url for version in store.lost} == lost  # until somebody has seen it
        assert store.acknowledge_lost() == len(lost)
        assert store.lost == ()
    with docstore.open(tmp_path / "s") as store:
        assert store.lost == ()
        assert list(check(store.opened)) == []
        assert all(store.get(one.url) is not None for one in pages)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


FILLER = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import docstore
from docstore.model.errors import CorruptionError
from docstore import StorageError
from test_store_crashes import filler_pages

with docstore.open(sys.argv[1], create=True, durability=sys.argv[3]) as store:
    for start in (0, 10_000):  # until the disk is full; and once more while it is
        try:
            for result in store.put_pages(filler_pages(start, 4000)):
                print(result.url, flush=True)
        except StorageError as error:
            print("full", error, file=sys.stderr, flush=True)
    os.unlink(sys.argv[2])
    for result in store.put_pages(filler_pages(20_000, 100)):
        print(result.url, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def filler_pages(start: int, count: int) -> Iterator[Page]:
    """Pages that do not compress."""
    for n in range(start, start + count):
        noise = random.Random(n).randbytes(12_000)
        yield Page(f"https://a.example/{n}", page(words(n, 200)) + noise, 200, HTML, T0)


@pytest.mark.parametrize("durability", ["sync", "flush"])
def test_a_full_disk_refuses_and_then_takes_pages_again(small_disk: Path, durability: str) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * (5 << 20))
    here = Path(__file__).parent
    script = f"import sys; sys.path.insert(0, {str(here)!r})" + FILLER.format(tests=str(here.parent))
    run = subprocess.run(
        [sys.executable, "-c", script, str(small_disk / "s"), str(ballast), durability],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert run.stderr.count("full") >= 2
    assert "free space" in run.stderr
    acknowledged = [int(line.rsplit("/", 1)[1]) for line in run.stdout.splitlines()]
    assert acknowledged[-100:] == list(range(20_000, 20_100))
    with docstore.open(small_disk / "s") as store:
        assert store.lost == ()
        for number in acknowledged:
            found = store.get(f"https://a.example/{number}")
            assert found is not None and found.body == next(filler_pages(number, 1)).body
        assert list(check(store.opened)) == []
