"""A sample of the states that a crash may leave (`tests.crash.states` tries all), and what these tests are worth."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from counts import DRAWS_ALL, share

import docstore
from docstore.model.errors import CorruptionError
from tests.crash.disk import Event, recorder
from tests.crash.states import DEEP_SHARE, HTML, PROTOCOLS, T0, Record, a_page, fault_of, near, try_protocol

BLOCK_BYTES = 512
SAMPLE = -(-share(2500, 8) // len(PROTOCOLS))
"""States of each protocol: 312 of all in `make test`."""


@pytest.fixture(autouse=True, scope="module")
def _compiler() -> None:
    try:
        recorder()
    except OSError as missing:
        pytest.skip(f"needs a C compiler: {missing}")


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_sample_of_the_states_of_each_protocol_is_sound(name: str) -> None:
    tried = try_protocol(name, seed=36, states=SAMPLE, sample=True, deep_share=DEEP_SHARE if DRAWS_ALL else 1 / 8)
    assert tried.faults == []
    assert tried.states > SAMPLE // 5 and tried.steps > 10


def is_sync_of(part: str) -> Callable[[Event], bool]:
    return lambda event: event.kind == "s" and part in event.path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Record:
    return Record("make", tmp_path_factory.mktemp("make"))


@pytest.mark.parametrize(
    "left_out",
    [
        is_sync_of(".seg"),
        is_sync_of(".log"),
        lambda event: event.kind == "s" and event.path == "s",
        lambda event: event.kind == "s" and event.path == "s/engine",
    ],
    ids=["segment", "log of LevelDB", "folder of the store", "folder of LevelDB"],
)
def test_a_sync_that_is_left_out_is_found(made: Record, left_out: Callable[[Event], bool]) -> None:
    crashes = [one for one in made.crashes(0, mixes=2, left_out=left_out) if one.promise.pages]
    assert any(fault_of(made, crash, is_deep=False) for crash in crashes)


def test_a_rename_before_its_bytes_are_synced_is_found(tmp_path: Path) -> None:
    """Of a backup: the file that names all others."""
    record = Record("backup", tmp_path)
    crashes = record.crashes(0, mixes=2, left_out=is_sync_of("b/BACKUP.new"))
    assert any(fault_of(record, crash, is_deep=False) for crash in crashes if "backup" in crash.promise.done)


def test_the_making_of_a_store_goes_on_where_the_manifest_of_leveldb_was_lost(tmp_path: Path) -> None:
    """LevelDB does not sync the first one that it makes."""
    with docstore.open(tmp_path / "s", create=True):
        pass
    (tmp_path / "s" / "FORMAT").unlink()
    for table in (tmp_path / "s" / "engine").glob("*.ldb"):
        table.unlink()
    for manifest in (tmp_path / "s" / "engine").glob("MANIFEST-*"):
        manifest.write_bytes(b"")
    with docstore.open(tmp_path / "s", create=True) as store:
        store.put_page("https://a.example/", near(4, 1), headers=HTML, fetched_at=T0)
    (tmp_path / "s" / "FORMAT").unlink()
    for manifest in (tmp_path / "s" / "engine").glob("MANIFEST-*"):
        manifest.write_bytes(b"")
    with pytest.raises(CorruptionError):  # pages were written
        docstore.open(tmp_path / "s", create=True)


def test_a_block_of_the_log_that_never_reached_the_disk_loses_its_commit_alone(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True) as store:
        store.put_page("https://a.example/", near(4, 1), headers=HTML, fetched_at=T0)
        (log,) = (tmp_path / "s" / "engine").glob("*.log")
        synced = log.stat().st_size
        list(store.put_pages([a_page(f"b.example/{n}", near(n, n)) for n in range(20)]))
        shutil.copytree(tmp_path / "s", tmp_path / "crashed")
    (log,) = (tmp_path / "crashed" / "engine").glob("*.log")
    raw = bytearray(log.read_bytes())
    middle = (synced + len(raw)) // 2
    raw[middle : middle + BLOCK_BYTES] = bytes(BLOCK_BYTES)
    log.write_bytes(raw)
    with docstore.open(tmp_path / "crashed") as store:
        assert "https://a.example/" in store and "https://b.example/1" not in store
