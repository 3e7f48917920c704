"""Salvage of a store whose rows are lost: from records alone, into a new store."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cli_case import Terminal
from pages import changed, page, words

import docstore
from docstore import Page
from docstore.tablets.salvage import Salvage

HTML = (("content-type", "text/html"),)
T0 = 1_700_000_000_000_000


def pages() -> list[Page]:
    """Some stored whole, some as deltas, some with a dictionary."""
    texts = [changed(words(n // 4, 400), n, n % 4) for n in range(80)]
    return [Page(f"https://a.example/{n}", page(text), 200, HTML, T0 + n * 1000) for n, text in enumerate(texts)]


@pytest.mark.parametrize("compacted", [False, True])
def test_bodies_and_texts_are_salvaged_without_an_engine(
    tmp_path: Path, compacted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    given = pages()
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(given))
        store.delete("https://a.example/7")
        if compacted:
            store.compact()
        texts = {one.url: document.text for one in given if (document := store.get(one.url))}
        codecs = " ".join(store.codec_stats())
        assert "delta" in codecs and "text:main body" in codecs
    shutil.rmtree(tmp_path / "s" / "engine")
    salvage = Salvage(tmp_path / "s")
    found = {one.url: one for one in salvage.captures()}
    left = [one for one in given if one.url != "https://a.example/7"]
    assert {url: one.body for url, one in found.items()} == {one.url: one.body for one in left}
    assert {url: one.timestamp for url, one in found.items()} == {one.url: one.fetched_at for one in left}
    assert {url: one.text for url, one in found.items()} == texts
    assert (salvage.report.captures, salvage.report.unreadable, salvage.report.damaged) == (79, 0, 0)
    terminal = Terminal(tmp_path / "s", capsys)
    answer = terminal("tool", "salvage", "--output", str(tmp_path / "out.warc.gz"), "--json")
    assert answer.object()["bodies"] == 79
    new = Terminal(tmp_path / "new", capsys)
    assert new("ingest", "--create", str(tmp_path / "out.warc.gz")).code == 0
    with docstore.open(tmp_path / "new") as store:
        for one in left:
            document = store.get(one.url)
            assert document is not None and document.body == one.body


def test_salvage_can_be_limited_to_files_set_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = pages()
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(given[:40]))
    shutil.copytree(tmp_path / "s" / "engine", tmp_path / "engine")
    with docstore.open(tmp_path / "s", durability="none") as store:
        list(store.put_pages(given[40:]))
    shutil.rmtree(tmp_path / "s" / "engine")
    (tmp_path / "engine").rename(tmp_path / "s" / "engine")
    terminal = Terminal(tmp_path / "s", capsys)
    docstore.open(tmp_path / "s").close()
    assert "records that no row names are in" in terminal("get", given[0].url).err
    answer = terminal("check")
    assert answer.code == 5
    assert "40 bodies" in answer.out
    assert "docstore tool salvage" in answer.out
    answer = terminal("tool", "salvage", "--set-aside", "--format", "jsonl", "--output", str(tmp_path / "out.jsonl"))
    assert answer.code == 0
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {line["url"] for line in lines} == {one.url for one in given[40:]}
    assert all(["X-Docstore-Salvaged", "status and short headers are lost"] in line["headers"] for line in lines)


def test_a_folder_without_segments_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(tmp_path, capsys)
    answer = terminal("tool", "salvage", "--output", str(tmp_path / "out.warc.gz"))
    assert answer.code == 2
    assert "no segments" in answer.err
    assert not (tmp_path / "out.warc.gz").exists()
