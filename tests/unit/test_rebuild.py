"""`docstore tool rebuild`: a store that LevelDB refuses comes back, and says that rows may be lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_case import Terminal
from pages import page, words

import docstore
from docstore.compiled import docstore_native
from docstore.model.choices import Durability
from docstore.model.errors import CorruptionError
from docstore.model.format import SEGMENT_LIVE
from docstore.reports.check import check
from docstore.tablets.rebuild import rebuild
from docstore.tablets.segment import SegmentRow

URLS = [f"https://a.example/{number}" for number in range(40)]
BODIES = [page(words(number, 300)) for number in range(40)]

WRITES_AND_DIES = """
import os, sys, docstore
from tests.pages import page, words
store = docstore.open(sys.argv[1])
for number in range(20, 40):
    store.put_page(f"https://a.example/{number}", page(words(number, 300)))
os._exit(0)
"""


@pytest.fixture
def killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """A store whose first half is in a table of LevelDB, and whose second half is in its log."""
    path = tmp_path / "s"
    with docstore.open(path, create=True, schema=docstore.Schema(near_threshold=0.9, keyed_bands=True)) as store:
        list(store.put_pages(docstore.Page(url, body) for url, body in zip(URLS[:20], BODIES[:20], strict=True)))
    subprocess.run([sys.executable, "-c", WRITES_AND_DIES, path], check=True)
    return Terminal(path, capsys)


def the(store: Path, pattern: str) -> Path:
    """The largest file of a name in `engine/`."""
    return max((store / "engine").glob(pattern), key=lambda file: file.stat().st_size)


def flip(file: Path, at: int) -> None:
    raw = bytearray(file.read_bytes())
    raw[at] ^= 1
    file.write_bytes(raw)


def refused_and_rebuilt(terminal: Terminal) -> dict[str, bytes | None]:
    """The bodies by URL of a store that is refused, and that a rebuild brings back."""
    answer = terminal("stats")
    assert answer.code == CorruptionError.exit_code
    assert "docstore tool rebuild" in answer.err
    assert terminal("tool", "rebuild").code == 0
    with docstore.open(terminal.store) as store:
        assert [lost.where for lost in store.lost if not lost.url][-1] == "engine"
        assert store.schema.near_threshold == 0.9
        found = {url: document.newest.body for url in URLS if (document := store.get(url)) is not None}
        assert found.items() <= dict(zip(URLS, BODIES, strict=True)).items()
        assert not [finding for finding in check(store.backend) if finding.url], "what is there is whole"
        store.put_page("https://a.example/later", page(words(99, 60)))
        for url, body in zip(URLS, BODIES, strict=True):
            verdict = store.put_page(url + "/again", body).verdict
            assert (str(verdict.kind) == "exact") == (url in found), "the index has just what is there"
    terminal("check", "--acknowledge")
    with docstore.open(terminal.store) as store:
        assert store.lost == ()
    return found


@pytest.mark.parametrize("name", ["MANIFEST-*", "CURRENT"])
@pytest.mark.parametrize("is_missing", [False, True])
def test_without_its_manifest_a_store_comes_back_whole(killed: Terminal, name: str, is_missing: bool) -> None:
    file = the(killed.store, name)
    if is_missing:
        file.unlink()
    else:
        flip(file, 9)
    assert len(refused_and_rebuilt(killed)) == 40


def test_a_damaged_record_of_the_log_loses_its_commit_alone(killed: Terminal) -> None:
    log = the(killed.store, "*.log")
    flip(log, log.stat().st_size // 2)
    assert 38 <= len(refused_and_rebuilt(killed)) <= 39


def test_a_damaged_block_with_the_schema_loses_no_page_of_other_blocks(killed: Terminal) -> None:
    table = next(file for file in (killed.store / "engine").glob("*.ldb") if b"near_threshold" in file.read_bytes())
    flip(table, table.read_bytes().index(b"near_threshold"))
    assert len(refused_and_rebuilt(killed)) >= 20


def test_a_row_of_a_segment_that_compaction_removed_does_not_come_back(killed: Terminal) -> None:
    with docstore.open(killed.store) as store:
        store.backend.manifest.write_segment(SegmentRow(99, SEGMENT_LIVE, 5000, 5000), Durability.SYNC)
    flip(the(killed.store, "MANIFEST-*"), 9)
    assert len(refused_and_rebuilt(killed)) == 40


def test_a_damaged_or_missing_format_file_is_written_again(killed: Terminal) -> None:
    before = (killed.store / "FORMAT").read_bytes()
    flip(killed.store / "FORMAT", 2)
    assert len(refused_and_rebuilt(killed)) == 40
    assert (killed.store / "FORMAT").read_bytes() == before
    flip(killed.store / "FORMAT", len(before) // 2)
    with docstore.open(killed.store) as store:
        assert [finding.where for finding in check(store.backend)] == ["FORMAT"]
    (killed.store / "FORMAT").unlink()
    refused_and_rebuilt(killed)


def test_a_rebuild_makes_the_index_too(killed: Terminal, caplog: pytest.LogCaptureFixture) -> None:
    assert killed("tool", "rebuild").code == 0
    caplog.clear()
    killed("check")
    assert "index" not in caplog.text


def test_a_number_of_a_format_that_was_edited_is_named_with_its_checksum(killed: Terminal) -> None:
    path = killed.store / "FORMAT"
    before = path.read_bytes()
    line, _, rest = before.partition(b"\n")
    path.write_bytes(line.replace(b"format ", b"format 7") + b"\n" + rest)
    answer = killed("stats")
    assert answer.code == CorruptionError.exit_code and "format 7" in answer.err
    assert "do not agree" in answer.err and before.split()[-1].decode() in answer.err
    assert len(refused_and_rebuilt(killed)) == 40, "every row is kept"
    assert path.read_bytes() == before


def test_an_interrupted_rebuild_is_made_again(killed: Terminal) -> None:
    (killed.store / "FORMAT").rename(killed.store / "FORMAT.old")
    table = next(file for file in (killed.store / "engine").glob("*.ldb") if b"near_threshold" in file.read_bytes())
    flip(table, table.read_bytes().index(b"near_threshold"))
    assert len(refused_and_rebuilt(killed)) >= 20
    assert not (killed.store / "FORMAT.old").exists()


def test_a_store_is_rebuilt_while_the_error_of_its_open_is_held(killed: Terminal) -> None:
    for _ in range(2):
        docstore.open(killed.store).close()
    for table in (killed.store / "engine").glob("*.ldb"):
        end_of_blocks, _ = docstore_native.decode_varint(table.read_bytes(), table.stat().st_size - 48)
        flip(table, end_of_blocks - 20)  # the last block, where the key is that is read when LevelDB has opened
    with pytest.raises(CorruptionError) as refused:
        docstore.open(killed.store)
    rebuild(killed.store)
    assert "docstore tool rebuild" in str(refused.value)
    docstore.open(killed.store).close()


def test_a_rebuild_needs_rows_and_the_lock(killed: Terminal) -> None:
    with docstore.open(killed.store):
        assert killed("tool", "rebuild").code == 3
    (killed.store / "engine").rename(killed.store / "away")
    answer = killed("tool", "rebuild")
    assert answer.code == 3 and "docstore tool salvage" in answer.err


def test_a_rebuild_of_a_whole_store_changes_nothing(killed: Terminal) -> None:
    for _ in range(2):
        assert killed("tool", "rebuild").code == 0
    with docstore.open(killed.store) as store:
        assert [store.get(url).newest.body for url in URLS] == BODIES  # type: ignore[union-attr]
