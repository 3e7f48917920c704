"""A compaction that was stopped near its end, or met a full disk; `tests.crash.states` stops it everywhere."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from faulty_files import FaultyFiles, SimulatedCrash
from pages import changed, page, words
from stores import Contents, contents

import docstore
from docstore import Policy, VerdictKind
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


def run_until(folder: Path, engine_point: int | None = None) -> int:
    """Compact a store, stopping at a write of the engine, and leave it as a killed process does; -> writes."""
    opened = Layout(folder).open(create=False, schema=None)
    stopper = Stopper(opened.engine, engine_point)
    store = DocumentStore(opened, Durability.SYNC)
    try:
        store.compact()
        assert engine_point is None, "it did not stop"
    except SimulatedCrash:
        pass
    finally:
        opened.engine.close()
        opened.lock.release()
    return stopper.writes


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


def test_an_interrupted_run_does_not_move_again_what_it_had_moved(
    template: tuple[Path, Contents], tmp_path: Path
) -> None:
    folder, before = template
    shutil.copytree(folder, tmp_path / "s")
    writes = run_until(tmp_path / "s")
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
