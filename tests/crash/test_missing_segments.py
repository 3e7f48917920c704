"""A segment is away, cut, empty or of another store for a time: nothing is dropped, and it counts again when back."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from cli_case import Terminal
from pages import page, words

import docstore
from docstore.model.errors import CorruptionError
from docstore.tablets.backup import restore

HTML = (("content-type", "text/html"),)
T0 = 1_700_000_000_000_000
URLS = [f"https://a.example/{number}" for number in range(5)]


def made(path: Path, durability: str = "sync") -> Path:
    """A store that was closed in order; returns its only segment."""
    with docstore.open(path, create=True, durability=durability) as store:
        for number, url in enumerate(URLS):
            store.put_page(url, page(words(number, 300)), headers=HTML, fetched_at=T0)
    (segment,) = (path / "segments").glob("*.seg")
    return segment


def damage(segment: Path, how: str) -> None:
    if how == "missing":
        segment.unlink()
    else:
        os.truncate(segment, {"empty": 0, "short": 2000}[how])


def contents(path: Path) -> dict[str, tuple[bytes, int]]:
    """Every file of a folder: its bytes, and when it was changed."""
    files = (file for file in path.rglob("*") if file.is_file())
    return {str(file.relative_to(path)): (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


def assert_complete(path: Path) -> None:
    with docstore.open(path) as store:
        assert [document.body for url in URLS if (document := store.get(url))] == [
            page(words(number, 300)) for number in range(len(URLS))
        ]
        assert store.lost == ()


@pytest.mark.parametrize("durability", ["sync", "flush", "none"])
@pytest.mark.parametrize("how", ["missing", "empty", "short"])
def test_a_segment_that_comes_back_brings_back_all_its_pages(tmp_path: Path, how: str, durability: str) -> None:
    segment = made(tmp_path / "s", durability)
    whole = segment.read_bytes()
    damage(segment, how)
    with pytest.raises(CorruptionError, match="put the whole file back") as refused:
        docstore.open(tmp_path / "s")
    assert refused.value.path == str(segment)
    segment.write_bytes(whole)
    assert_complete(tmp_path / "s")


@pytest.mark.parametrize("how", ["missing", "empty", "short", "whole"])
def test_a_check_changes_no_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str) -> None:
    segment = made(tmp_path / "s")
    whole = segment.read_bytes()
    if how != "whole":
        damage(segment, how)
    before = contents(tmp_path / "s")
    answer = Terminal(tmp_path / "s", capsys)("check")
    assert contents(tmp_path / "s") == before
    if how == "whole":
        assert (answer.code, answer.out) == (0, "")
        return
    assert answer.code == 5
    assert answer.out.startswith(f"segments/{segment.name}: expected ")
    assert "--accept-loss" in answer.out
    segment.write_bytes(whole)
    assert_complete(tmp_path / "s")


def test_a_check_changes_no_byte_after_a_kill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="flush") as store:
        store.put_page(URLS[0], page(words(0, 300)), headers=HTML)
        shutil.copytree(tmp_path / "s", tmp_path / "killed")
    (segment,) = (tmp_path / "killed" / "segments").glob("*.seg")
    with segment.open("ab") as file:
        file.write(b"a part of the next group")
    before = contents(tmp_path / "killed")
    assert Terminal(tmp_path / "killed", capsys)("check").code == 0
    assert contents(tmp_path / "killed") == before


def test_the_other_pages_can_be_read_meanwhile(tmp_path: Path) -> None:
    segment = made(tmp_path / "s")
    damage(segment, "short")
    with docstore.open(tmp_path / "s", read_only=True) as store:
        document = store.get(URLS[0])
        assert document is not None and document.body == page(words(0, 300))
        assert all(url in store for url in URLS)
        with pytest.raises(CorruptionError):
            store.get(URLS[4])


def test_pages_that_do_not_come_back_are_given_up_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segment = made(tmp_path / "s")
    damage(segment, "short")
    terminal = Terminal(tmp_path / "s", capsys)
    answer = terminal("check", "--accept-loss")
    assert answer.code == 5
    assert "the capture was dropped" in answer.out
    assert terminal("check", "--acknowledge").code == 0
    assert terminal("check").code == 0
    with docstore.open(tmp_path / "s") as store:
        assert [url in store for url in URLS] == [True, False, False, False, False]
        store.put_page(URLS[4], page(words(4, 300)), headers=HTML)
        store.compact()
    assert terminal("check").code == 0


@pytest.mark.parametrize("is_longer", [True, False])
def test_a_segment_of_another_store_is_not_read(tmp_path: Path, is_longer: bool) -> None:
    """Its records lie where those of this store lay, and its checksums are right."""
    segment = made(tmp_path / "s")
    whole = segment.read_bytes()
    with docstore.open(tmp_path / "other", create=True) as store:
        for number, url in enumerate(URLS):
            store.put_page(url, page(words(number + 100, 300)), headers=HTML, fetched_at=T0)
        if is_longer:
            store.put_page("https://a.example/more", page(words(7, 300)), headers=HTML, fetched_at=T0)
    foreign = (tmp_path / "other" / "segments" / segment.name).read_bytes()
    segment.write_bytes(foreign if is_longer else foreign[: len(whole)].ljust(len(whole), b"\0"))
    with (
        pytest.raises(CorruptionError, match="a segment of another store") as refused,
        docstore.open(tmp_path / "s") as store,
    ):
        store.get(URLS[0])
    assert refused.value.path == str(segment)
    assert segment.read_bytes()[: len(whole)] == foreign[: len(whole)].ljust(len(whole), b"\0")
    segment.write_bytes(whole)
    assert_complete(tmp_path / "s")


def test_all_segments_carry_the_identity_of_their_store(tmp_path: Path) -> None:
    made(tmp_path / "s")
    with docstore.open(tmp_path / "s") as store:
        store.compact(full=True)
        identity = store.backend.identity
        store.put_page("https://a.example/more", page(words(7, 300)), headers=HTML, fetched_at=T0)
        store.backup(tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "restored")
    segments = [*(tmp_path / "s" / "segments").iterdir(), *(tmp_path / "restored" / "segments").iterdir()]
    assert len(segments) == 4
    assert {segment.read_bytes()[20:36] for segment in segments} == {identity}
    assert_complete(tmp_path / "restored")


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_cut_table_of_leveldb_is_damage_that_a_salvage_survives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_empty: bool
) -> None:
    made(tmp_path / "s")
    with docstore.open(tmp_path / "s") as store:
        store.compact()
    tables = list((tmp_path / "s" / "engine").glob("*.ldb"))
    assert tables
    terminal = Terminal(tmp_path / "s", capsys)
    for table in tables:
        whole = table.read_bytes()
        os.truncate(table, 0 if is_empty else len(whole) // 2)
        answer = terminal("check")
        assert answer.code == 5
        assert f"engine/{table.name}" in answer.err
        assert "docstore tool salvage" in answer.err
        assert "free space" not in answer.err
        table.write_bytes(whole)
    answer = terminal("tool", "salvage", "--format", "jsonl", "--output", str(tmp_path / "out.jsonl"))
    assert answer.code == 0
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == len(URLS)
    assert_complete(tmp_path / "s")
