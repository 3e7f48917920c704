"""Compaction stopped at every step: by a fault point of the file system, by a write of the engine, by SIGKILL.

After each stop the power is lost as well: only what was synced is left.  The store opens, every cell reads as before,
`check` is silent, and the next compaction finishes the work and leaves no file behind that belongs to nobody.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from faulty_files import FaultyFiles, SimulatedCrash
from pages import changed, page, words
from stores import Contents, contents, everything_on_disk

import docstore
from docstore import Page, Policy, VerdictKind
from docstore.model.types import Durability, GCPolicy, RowMutations, Schema
from docstore.reports.check import check
from docstore.store import DocumentStore
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.tablets.layout import Layout

HTML = (("content-type", "text/html"),)
LONG = (*HTML, ("X-Long", "h" * 700))
T0 = 1_700_000_000_000_000


def fill(store: DocumentStore) -> None:
    """Deltas, a shared body, expired captures and bodies, visits, deleted pages that others lean on."""
    for number in range(24):
        text = changed(words(number // 4, 600), number, number % 4 * 8)
        store.put_page(f"https://h{number % 3}.example/{number}", page(text), headers=HTML, fetched_at=T0)
    shared = page(words(4, 700))
    for host in "ab":
        policies = {VerdictKind.EXACT: Policy.REFERENCE}
        store.put_page(f"https://{host}.example/", shared, headers=HTML, fetched_at=T0, policies=policies)
    for version in range(3):
        body = page(changed(words(77, 700), version, 5))
        store.put_page("https://c.example/", body, headers=HTML, fetched_at=T0 + version * 10**6)
    store.put_page("https://c.example/", body, headers=HTML, fetched_at=T0 + 3 * 10**6)
    store.put_page("https://a.example/", b"", status=304, headers=HTML, fetched_at=T0 + 10**6)
    store.put_page("https://b.example/", b"", status=304, headers=LONG, fetched_at=T0 + 10**6)
    store.delete("https://h0.example/0")
    store.delete("https://h2.example/5")
    store.delete("https://a.example/")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Contents]:
    folder = tmp_path_factory.mktemp("template") / "s"
    schema = Schema(captures=GCPolicy(max_versions=2), bodies=GCPolicy(max_versions=1))
    with docstore.open(folder, create=True, schema=schema) as store:
        fill(store)
        return folder, contents(store)


class Stopper:
    """Stops before or after the Nth write of the engine."""

    def __init__(self, engine: LevelDBEngine, stop_at: int | None) -> None:
        self.writes = 0
        self._real = engine.mutate_rows
        self._stop_at = stop_at
        engine.mutate_rows = self  # type: ignore[method-assign]

    def __call__(self, rows: Sequence[RowMutations], durability: Durability) -> None:
        self._pass()
        self._real(rows, durability)
        self._pass()

    def _pass(self) -> None:
        if self.writes == self._stop_at:
            raise SimulatedCrash(f"stopped at write {self.writes} of the engine")
        self.writes += 1


def run_until(
    folder: Path, *, file_point: int | None = None, engine_point: int | None = None
) -> tuple[FaultyFiles, int]:
    """Compact a store, stopping at a point; the process and the power are gone afterwards."""
    files = FaultyFiles(folder / "segments", seed=file_point or 0)
    files.watch(folder / "dictionaries")
    opened = Layout(folder, files).open(create=False, schema=None)
    start = len(files.points)
    stopper = Stopper(opened.engine, engine_point)  # type: ignore[arg-type]
    files.crash_at = None if file_point is None else start + file_point
    store = DocumentStore(opened, Durability.SYNC)
    try:
        store.compact()
        assert file_point is None and engine_point is None, "it did not stop"
    except SimulatedCrash:
        pass
    finally:
        opened.engine.close()
        opened.lock.release()
    del files.points[:start]
    return files, stopper.writes


def assert_as_before(folder: Path, before: Contents, where: str) -> None:
    with docstore.open(folder) as store:
        assert store.lost == (), where
        assert contents(store) == before, where
        assert list(check(store.opened)) == [], where
        report = store.compact()
        assert report.kept_segments == report.left_values == 0, where
        assert contents(store) == before, where
        assert list(check(store.opened)) == [], where
        known = {f"{row.number:08d}.seg" for row in store.opened.manifest.segments()}
        assert {path.name for path in (folder / "segments").iterdir()} == known, where


SLOW = pytest.mark.slow
EVERY_POINT = pytest.mark.parametrize("of_three", [0, pytest.param(1, marks=SLOW), pytest.param(2, marks=SLOW)])
"""Each third point is tried, or the others in the slow lane."""


@EVERY_POINT
def test_stopped_at_every_fault_point_of_the_file_system(
    template: tuple[Path, Contents], tmp_path: Path, of_three: int
) -> None:
    folder, before = template
    shutil.copytree(folder, tmp_path / "count")
    files, _ = run_until(tmp_path / "count")
    points = [number for number, name in enumerate(files.points) if name != "before read"]
    assert len(points) > 25
    for number in points[of_three::3]:
        shutil.copytree(folder, tmp_path / "s")
        stopped, _ = run_until(tmp_path / "s", file_point=number)
        stopped.power_loss(torn=number % 2 == 1)
        assert_as_before(tmp_path / "s", before, f"file point {number}, {files.points[number]}")
        shutil.rmtree(tmp_path / "s")


@EVERY_POINT
def test_stopped_before_and_after_every_write_of_the_engine(
    template: tuple[Path, Contents], tmp_path: Path, of_three: int
) -> None:
    folder, before = template
    shutil.copytree(folder, tmp_path / "count")
    _, writes = run_until(tmp_path / "count")
    assert writes > 15
    for number in range(of_three, writes, 3):
        shutil.copytree(folder, tmp_path / "s")
        stopped, _ = run_until(tmp_path / "s", engine_point=number)
        stopped.power_loss(torn=number % 2 == 1)
        assert_as_before(tmp_path / "s", before, f"engine point {number}")
        shutil.rmtree(tmp_path / "s")


SECRET = "unspeakable" + "".join(random.Random(7).choices("abcdefghij", k=24))
SECRET_URL = "https://h1.example/secret"


@pytest.mark.parametrize("purged_first", [True, pytest.param(False, marks=SLOW)])
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=SLOW)])
def test_a_purged_page_is_nowhere_after_a_stopped_compaction_and_another(
    template: tuple[Path, Contents], tmp_path: Path, step: int, purged_first: bool
) -> None:
    """Purged before the compaction that stops, or after it: what that had written may hold its bytes."""
    given = tmp_path / "given"
    shutil.copytree(template[0], given)
    body = page(f"{SECRET} {words(5, 900)}")
    with docstore.open(given) as store:
        store.put_page(SECRET_URL, body, headers=HTML, fetched_at=T0)
        near = store.put_page("https://h1.example/near", body.replace(SECRET.encode(), b""), headers=HTML)
        assert near.verdict.kind is VerdictKind.NEAR
        store.compact()
        list(store.put_pages([Page(f"https://h1.example/x{n}", page(words(n, 300))) for n in range(20, 40)]))
        assert any(SECRET.encode() in piece for piece in everything_on_disk(store))
        if purged_first:
            store.delete(SECRET_URL, purge=True)
    shutil.copytree(given, tmp_path / "count")
    files, writes = run_until(tmp_path / "count")
    points: list[dict[str, int]] = [{"engine_point": number} for number in range(0, writes, step)]
    points += [{"file_point": n} for n, name in enumerate(files.points) if name != "before read"][::step]
    for point in points:
        shutil.copytree(given, tmp_path / "s")
        stopped, _ = run_until(tmp_path / "s", **point)
        stopped.power_loss(torn=False)
        with docstore.open(tmp_path / "s") as store:
            if not purged_first:
                store.delete(SECRET_URL, purge=True)
            store.compact()
            assert not any(SECRET.encode() in piece for piece in everything_on_disk(store)), point
            assert list(check(store.opened)) == [], point
        shutil.rmtree(tmp_path / "s")


@pytest.mark.slow
def test_stopped_again_and_again_it_comes_to_its_end(template: tuple[Path, Contents], tmp_path: Path) -> None:
    folder, before = template
    source = random.Random(5)
    shutil.copytree(folder, tmp_path / "s")
    for _ in range(25):
        if source.random() < 0.5:
            files, _ = run_until_maybe(tmp_path / "s", file_point=source.randrange(60))
        else:
            files, _ = run_until_maybe(tmp_path / "s", engine_point=source.randrange(30))
        files.power_loss(torn=source.random() < 0.5)
    assert_as_before(tmp_path / "s", before, "after 25 stops")


def run_until_maybe(
    folder: Path, *, file_point: int | None = None, engine_point: int | None = None
) -> tuple[FaultyFiles, int]:
    """The same where the point may lie behind the end."""
    try:
        return run_until(folder, file_point=file_point, engine_point=engine_point)
    except AssertionError:
        return FaultyFiles(folder / "segments"), 0


def test_an_interrupted_run_does_not_move_again_what_it_had_moved(
    template: tuple[Path, Contents], tmp_path: Path
) -> None:
    folder, before = template
    shutil.copytree(folder, tmp_path / "s")
    _, writes = run_until(tmp_path / "s")
    shutil.rmtree(tmp_path / "s")
    shutil.copytree(folder, tmp_path / "s")
    run_until(tmp_path / "s", engine_point=writes - 8)  # refs are changed, old segments still there
    with docstore.open(tmp_path / "s") as store:
        report = store.compact()
        assert report.values == 0
        assert report.removed_segments >= 1
        assert contents(store) == before
        assert list(check(store.opened)) == []


def test_a_disk_that_is_full_leaves_the_store_as_it_was(template: tuple[Path, Contents], tmp_path: Path) -> None:
    folder, before = template
    shutil.copytree(folder, tmp_path / "s")
    files = FaultyFiles(tmp_path / "s" / "segments")
    files.disk_limit_bytes = 0
    opened = Layout(tmp_path / "s", files).open(create=False, schema=None)
    with DocumentStore(opened, Durability.SYNC) as store:
        with pytest.raises(docstore.StorageError):
            store.compact()
        assert contents(store) == before
        files.disk_limit_bytes = None
        assert store.compact().kept_segments == 0
        assert contents(store) == before
    assert_as_before(tmp_path / "s", before, "after a full disk")


COMPACTOR = """
import os, signal, sys
import docstore
from docstore.storage.files import Files

left = int(sys.argv[2])

def counted(call):
    def one(*given):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*given)
    return one

store = docstore.open(sys.argv[1])
for name in ("read", "write", "sync", "rename", "unlink"):
    setattr(Files, name, counted(getattr(Files, name)))
while True:
    store.compact(level="best")
"""


@pytest.mark.slow
def test_killed_at_any_call_of_the_file_system(template: tuple[Path, Contents], tmp_path: Path) -> None:
    folder, before = template
    source = random.Random(11)
    shutil.copytree(folder, tmp_path / "s")
    for turn in range(10):
        command = [sys.executable, "-c", COMPACTOR, str(tmp_path / "s"), str(source.randrange(1, 400))]
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
        with docstore.open(tmp_path / "s") as store:
            assert store.lost == ()
            assert contents(store) == before, turn
            assert list(check(store.opened)) == [], turn
    assert_as_before(tmp_path / "s", before, "after ten kills")
