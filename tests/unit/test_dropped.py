"""Stores that were dropped without `close`, and folders whose names are no text."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import docstore
from docstore.cli.main import main
from docstore.model.errors import InvalidArgument, StoreUnavailable

URL = "https://a.example/"


def nothing(store: docstore.DocumentStore) -> None:
    assert store.get("https://none.example/") is None


def write(store: docstore.DocumentStore) -> None:
    store.put_page(URL, b"<p>words", fetched_at=10**15)


def dry_run(store: docstore.DocumentStore) -> None:
    with store.dry_run() as dry:
        write(dry)


@pytest.mark.filterwarnings("default::ResourceWarning")
@pytest.mark.parametrize("use", [nothing, write, dry_run])
@pytest.mark.parametrize("in_cycle", [False, True])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_that_was_dropped_says_so_and_can_be_opened_again(
    tmp_path: Path, use: Callable[[docstore.DocumentStore], None], in_cycle: bool, read_only: bool
) -> None:
    store = docstore.open(tmp_path / "store", create=True)
    use(store)
    held = [store]
    if in_cycle:
        held.append(held)  # type: ignore[arg-type]
    with pytest.warns(ResourceWarning, match=r"store was dropped without close\(\)"):
        del store, held
        gc.collect()
    with docstore.open(tmp_path / "store", read_only=read_only) as again:
        assert (URL in again) == (use is write)


def test_a_script_that_fails_with_an_open_store_shows_its_own_error_alone(tmp_path: Path) -> None:
    # The AttributeError holds the store until modules are None.
    program = f"import docstore\nstore = docstore.open({str(tmp_path / 'store')!r}, create=True)\nstore.mine()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.count("Traceback") == 1 and "no attribute 'mine'" in done.stderr


def test_a_store_that_is_in_use_is_not_opened_again(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "store", create=True) as store:
        write(store)
        with pytest.raises(StoreUnavailable, match="already open in this process"):
            docstore.open(tmp_path / "store")
        assert URL in store


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_came_from_a_dropped_store_still_reads(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "store", create=True) as store:
        write(store)
    rows = docstore.open(tmp_path / "store").cells.scan()
    gc.collect()
    assert [row.url for row in rows] == [URL]


@pytest.mark.parametrize(
    "words", ["init --store {}/s", "copy own {}/t", "backup {}/b --store own", "ingest {}/x --store {}/s --create"]
)
def test_a_folder_whose_name_is_no_text_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    Path(folder).mkdir()
    with docstore.open("own", create=True) as store:
        write(store)
    (Path(folder) / "x").write_bytes(b"")
    assert main([word.replace("{}", folder) for word in words.split()]) == 2
    shown = capsys.readouterr().err
    assert "rename 'caf\\xe9'" in shown and "Traceback" not in shown
    with pytest.raises(InvalidArgument, match="not UTF-8"):
        docstore.open(folder, create=True)
