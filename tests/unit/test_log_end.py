"""LevelDB's log after a power loss: what was never synced is cut off, and nothing else."""

from __future__ import annotations

import logging
import shutil
from contextlib import closing
from itertools import count
from pathlib import Path
from random import Random

import pytest
from pages import page, words

import docstore
from docstore.model.choices import Durability
from docstore.model.errors import CorruptionError, StorageError
from docstore.model.format import MANIFEST_COUNTERS_ROW, MANIFEST_FAMILY, MANIFEST_QUALIFIER
from docstore.model.types import RowMutations, SetCell
from docstore.tablets.engines.cellkeys import column_head, row_prefix
from docstore.tablets.engines.leveldb import LevelDBEngine

HTML = (("content-type", "text/html"),)
SECTOR = 512
COUNTERS_KEY = row_prefix("meta", MANIFEST_COUNTERS_ROW) + column_head(MANIFEST_FAMILY, MANIFEST_QUALIFIER)
COUNTERS_KEY += b"\x7f" + b"\xff" * 7


def put(store: docstore.DocumentStore, *numbers: int) -> None:
    """Several pages are one commit; each has headers that stay in its row, so that the log grows."""
    pages = [
        docstore.Page(f"https://a.example/{number}", page(words(number, 60)), 200, (*HTML, ("x", noise(number))))
        for number in numbers
    ]
    list(store.put_pages(pages))


def noise(number: int) -> str:
    return Random(number).randbytes(200).hex()


def crashed(path: Path, commits: list[list[int]], durability: str = "sync") -> tuple[Path, list[int]]:
    """A copy of a store with these commits that was not closed; its log, and where each commit ends in it."""
    for attempt in count():  # on a busy machine `put_pages` may have made two commits of one list
        folder = path / str(attempt)
        folder.mkdir()
        with docstore.open(folder / "s", create=True, durability=durability) as store:
            ends = []
            for numbers in commits:
                put(store, *numbers)
                (log,) = (folder / "s" / "engine").glob("*.log")
                ends.append(log.stat().st_size)
            shutil.copytree(folder / "s", folder / "crashed")
            if store.backend.manifest.group == len(commits):
                break
    return folder / "crashed" / "engine" / log.name, ends


def zero(log: Path, begin: int, length: int = SECTOR) -> bytes:
    raw = bytearray(log.read_bytes())
    raw[begin : begin + length] = bytes(len(raw[begin : begin + length]))
    log.write_bytes(raw)
    return bytes(raw)


def pages_in(path: Path) -> set[int]:
    with docstore.open(path) as store:
        assert not any(one.timestamp for one in store.backend.lost), "captures that are there in part"
        return {int(url.rpartition("/")[2]) for url in store.urls()}


@pytest.mark.parametrize("part", range(6))
def test_a_hole_anywhere_in_the_commit_in_flight_loses_this_commit_alone(tmp_path: Path, part: int) -> None:
    log, ends = crashed(tmp_path, [[0, 1], list(range(2, 90))])
    assert ends[1] - ends[0] > 33_000, "it lies in two blocks of the log"
    begin = ends[0] + part * (ends[1] - ends[0] - SECTOR) // 5
    zero(log, begin)
    assert pages_in(log.parents[1]) == {0, 1}
    assert pages_in(log.parents[1]) == {0, 1}


def test_the_open_says_what_it_cut(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log, ends = crashed(tmp_path, [[0], [1, 2, 3, 4]])
    zero(log, ends[0] + 100)
    with caplog.at_level(logging.WARNING):
        pages_in(log.parents[1])
    assert f"{log.name} from byte {ends[0]} of {ends[1]} on, with 0 whole commits" in caplog.text


@pytest.mark.parametrize("at_head", [False, True])
def test_zeros_before_a_synced_commit_are_damage_and_nothing_is_cut(tmp_path: Path, at_head: bool) -> None:
    """Of a whole block, so that also LevelDB goes on behind it."""
    log, ends = crashed(tmp_path, [[0], list(range(1, 90)), list(range(90, 180)), [180]])
    raw = zero(log, ends[0] if at_head else ends[0] + 100)
    with pytest.raises(CorruptionError, match="LevelDB found damage on opening"):
        docstore.open(log.parents[1])
    assert log.read_bytes() == raw


def test_a_flipped_bit_in_the_last_commit_is_damage(tmp_path: Path) -> None:
    log, ends = crashed(tmp_path, [[0], [1, 2, 3]])
    raw = bytearray(log.read_bytes())
    raw[ends[0] + 50] ^= 1
    log.write_bytes(raw)
    with pytest.raises(CorruptionError):
        docstore.open(log.parents[1])
    assert log.read_bytes() == bytes(raw)


@pytest.mark.parametrize("at_head", [False, True])
def test_below_sync_a_store_holds_the_commits_before_the_hole(tmp_path: Path, at_head: bool) -> None:
    log, ends = crashed(tmp_path, [[0], list(range(1, 90)), list(range(90, 180)), [180]], "flush")
    zero(log, ends[0] if at_head else ends[0] + 100)
    assert pages_in(log.parents[1]) == {0}


def test_a_value_that_holds_the_key_of_the_counters_is_not_taken_for_a_commit(tmp_path: Path) -> None:
    """Its batch is whole, and stands before the damage."""
    with closing(LevelDBEngine(tmp_path / "e", create=True)) as engine:
        for value in (b"1", b"-" + COUNTERS_KEY + b"\x02\xc1\xc1", b"3" * 2000, b"4"):
            row = RowMutations("pages", value[:1], [SetCell("page", b"", 1, value)])
            engine.mutate_rows([row], Durability.SYNC)
        shutil.copytree(tmp_path / "e", tmp_path / "crashed")
    (log,) = (tmp_path / "crashed").glob("*.log")
    raw = bytearray(log.read_bytes())
    raw[-1000] ^= 1  # in the third
    log.write_bytes(raw)
    with pytest.raises(CorruptionError):
        LevelDBEngine(tmp_path / "crashed")


def test_a_file_that_is_no_log_of_leveldb_is_left_alone(tmp_path: Path) -> None:
    LevelDBEngine(tmp_path / "e", create=True).close()
    (tmp_path / "e" / "old.log").write_bytes(bytes(20) + b"x")
    LevelDBEngine(tmp_path / "e").close()
    assert (tmp_path / "e" / "old.log").read_bytes() == bytes(20) + b"x"


def test_a_log_that_cannot_be_read_is_an_error_of_storage(tmp_path: Path) -> None:
    LevelDBEngine(tmp_path / "e", create=True).close()
    (tmp_path / "e" / "000999.log").mkdir()
    with pytest.raises(StorageError, match="000999"):
        LevelDBEngine(tmp_path / "e")
