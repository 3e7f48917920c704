"""A store's directory: what creation makes, what it refuses, and what opening never destroys."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pages import page, words

import docstore
from docstore import Page
from docstore.cli.main import main
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.tablets.backup import restore

HTML = (("content-type", "text/html"),)
T0 = 1_700_000_000_000_000


def some_pages(start: int, count: int) -> list[Page]:
    return [
        Page(f"https://h{n % 3}.example/{n}", page(words(n, 300)), 200, HTML, T0) for n in range(start, start + count)
    ]


def made(path: Path, count: int = 20) -> Path:
    with docstore.open(path, create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, count)))
    return path


def files_of(path: Path) -> dict[str, int]:
    """Every file but the lock, with its length."""
    return {
        str(file.relative_to(path)): file.stat().st_size
        for file in path.rglob("*")
        if file.is_file() and "LOCK" not in file.name
    }


# --- 11.A1: existing files are never overwritten


@pytest.mark.parametrize("lost", ["engine", "engine/CURRENT"])
@pytest.mark.parametrize("create", [False, True])
def test_a_store_without_its_rows_is_refused_and_keeps_its_segments(tmp_path: Path, lost: str, create: bool) -> None:
    path = made(tmp_path / "s")
    gone = path / lost
    if gone.is_dir():
        shutil.rmtree(gone)
    else:
        gone.unlink()
    before = files_of(path)
    with pytest.raises(CorruptionError, match=r"missing.*expected engine.*restore"):
        docstore.open(path, create=create)
    assert files_of(path) == before
    assert main(["ingest", "--create", "--store", str(path), __file__]) == CorruptionError.exit_code
    assert files_of(path) == before


@pytest.mark.parametrize("create", [False, True])
def test_a_store_without_its_segments_folder_is_refused_and_keeps_its_rows(tmp_path: Path, create: bool) -> None:
    path = made(tmp_path / "s")
    (path / "segments").rename(tmp_path / "elsewhere")
    with pytest.raises(CorruptionError, match="expected segments"):
        docstore.open(path, create=create)
    (tmp_path / "elsewhere").rename(path / "segments")
    with docstore.open(path) as store:
        assert store.lost == ()
        assert store.get("https://h1.example/1") is not None


def test_a_store_without_its_format_file_is_not_created_again(tmp_path: Path) -> None:
    path = made(tmp_path / "s")
    (path / "FORMAT").unlink()
    before = files_of(path)
    for create in (True, False):
        with pytest.raises(CorruptionError, match="expected FORMAT"):
            docstore.open(path, create=create)
    assert files_of(path) == before


# --- 11.C5: a store is made in a folder of its own


def test_a_store_is_not_made_among_other_files(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(InvalidArgument, match=r"has files.*letter\.txt"):
        docstore.open(tmp_path, create=True)
    assert main(["init", "--store", str(tmp_path)]) == InvalidArgument.exit_code
    assert main(["ingest", "--create", "--store", str(tmp_path), __file__]) == InvalidArgument.exit_code
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_store_is_made_in_an_empty_folder_or_where_making_one_was_interrupted(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    docstore.open(tmp_path / "empty", create=True).close()
    (tmp_path / "empty" / "FORMAT").unlink()  # it is written last
    docstore.open(tmp_path / "empty", create=True).close()
    assert (tmp_path / "empty" / "FORMAT").is_file()


def test_a_store_and_its_copies_are_private_to_their_user(tmp_path: Path) -> None:
    made(tmp_path / "store", 2)
    with docstore.open(tmp_path / "store") as store:
        store.backup(tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "restored")
    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in ("store", "backup", "restored")}
    assert modes == {"store": 0o700, "backup": 0o700, "restored": 0o700}
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o750)
    made(shared, 2)
    assert shared.stat().st_mode & 0o777 == 0o750, "a folder that is there keeps the mode that its user gave it"
