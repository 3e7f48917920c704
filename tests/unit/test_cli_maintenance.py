from __future__ import annotations

from pathlib import Path

import pytest
from cli_case import Terminal, article, html

import docstore
from docstore.cli.stats import CODEC_REASONS
from docstore.model.format import SEGMENT_HEADER_BYTES
from docstore.tablets.record import CODEC_NAMES, copies_mark, encode_record


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    terminal = Terminal(tmp_path / "store", capsys)
    with docstore.open(terminal.store, create=True, durability="none") as store:
        for number in range(12):
            words = article(number // 2)
            words[number] = "changed"
            store.put_page(f"https://h{number % 3}.example/{number}", html(f"Page {number}", words))
    return terminal


def test_compact_reports_what_it_did(run: Terminal) -> None:
    assert run("delete", "https://h1.example/1").code == 0
    dry = run("compact", "--dry-run", "--json").object()
    assert dry["dry_run"] is True and dry["rows"] == 11
    answer = run("compact", "--json")
    assert answer.code == 0
    assert answer.object()["removed_segments"] == 1
    shown = run("compact", "--level", "best", "--progress")
    assert "became" in shown.out
    assert "compact" in shown.err
    assert run("check").code == 0


def test_compact_of_one_tablet_and_of_one_that_is_not_there(run: Terminal) -> None:
    assert run("compact", "1", "--json").object()["tablets"] == 1
    answer = run("compact", "99")
    assert answer.code == 2
    assert "tablet 99" in answer.err


def test_purge_takes_a_page_down_for_good(run: Terminal) -> None:
    with docstore.open(run.store) as store:
        store.put_page("https://h0.example/secret", html("Secret", [*article(1), "unspeakableword"] * 9))
    answer = run("delete", "https://h0.example/secret", "--purge")
    assert answer.code == 0
    files = [path for path in run.store.rglob("*") if path.is_file()]
    assert not any(b"unspeakableword" in path.read_bytes() for path in files)
    assert run("check").code == 0
    assert run("delete", "https://h0.example/0", "--purge", "--family", "text").code == 2


def test_backup_and_restore(run: Terminal, tmp_path: Path) -> None:
    answer = run("backup", str(tmp_path / "b"), "--json")
    assert answer.object()["copied_segments"] == 1
    assert "copied 0 of 1 segments" in run("backup", str(tmp_path / "b"), "--progress").out
    restored = run.bare("restore", str(tmp_path / "b"), str(tmp_path / "r"), "--json")
    assert restored.object() == {"store": str(tmp_path / "r"), "captures": 12}
    assert "restored" in run.bare("restore", str(tmp_path / "b"), str(tmp_path / "r2"), "--progress").out
    assert run.bare("check", "--store", str(tmp_path / "r")).code == 0
    assert run.bare("restore", str(tmp_path / "b"), str(tmp_path / "r")).code == 2


def test_what_works_on_files_refuses_another_backend(run: Terminal, tmp_path: Path) -> None:
    run("backup", str(tmp_path / "b"))
    elsewhere = "hbase://127.0.0.1:1/web"
    restored = run.bare("restore", str(tmp_path / "b"), elsewhere)
    assert restored.code == 2 and "a restore writes files of a store; use `docstore copy`" in restored.err
    salvaged = run.bare("tool", "salvage", "--store", elsewhere, "--output", str(tmp_path / "o"))
    assert salvaged.code == 2 and "is not a directory, and salvage reads the files of a store" in salvaged.err


def test_restore_counts_what_is_there(run: Terminal, tmp_path: Path) -> None:
    assert run("delete", "https://h1.example/1").code == 0
    run("backup", str(tmp_path / "b"))
    assert run.bare("restore", str(tmp_path / "b"), str(tmp_path / "r"), "--json").object()["captures"] == 11


def test_a_backup_into_the_store_itself_is_refused(run: Terminal) -> None:
    answer = run("backup", str(run.store / "inner"))
    assert answer.code == 2 and "outside" in answer.err
    assert not (run.store / "inner").exists()


def test_long_work_shows_progress_with_the_option(run: Terminal) -> None:
    assert "check: " in run("check", "--progress").err
    assert run("check").err == ""
    assert "compact: " in run("delete", "https://h0.example/0", "--purge", "--progress").err


def test_stats_show_the_size_of_each_codec(run: Terminal) -> None:
    assert run("compact").code == 0
    codecs = run("stats", "--codecs", "--json").object()["codecs"]
    segments = sum(path.stat().st_size for path in (run.store / "segments").iterdir())
    mark = encode_record(copies_mark([1]), 2)  # compaction begins its segment with it
    assert sum(one["record_bytes"] for one in codecs.values()) == segments - SEGMENT_HEADER_BYTES - len(mark)
    assert codecs["page:body delta"]["records"] >= 1
    assert sum(one["records"] for name, one in codecs.items() if name.startswith("page:body")) == 12
    shown = run("stats", "--codecs").out
    assert "page:body" in shown and "delta" in shown
    for codec in {name.split(" ")[1] for name in codecs}:
        assert CODEC_REASONS[codec] in shown
    assert CODEC_REASONS.keys() == set(CODEC_NAMES.values())
