"""`docstore upgrade`: a store of an older format becomes one of the newest, and every other store is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_case import Terminal

import docstore
from docstore.model.errors import StoreUnavailable, UnsupportedFormat
from docstore.model.format import FORMAT_FILE, FORMAT_READER, FORMAT_VERSION
from docstore.tablets.format_file import CURRENT, FormatHead, decode_format, encode_format, read_head
from docstore.tablets.upgrade import STEPS, UpgradeStep, upgrade
from tests import older_stores
from tests.format_stores import asked_twice, unpack
from tests.stores import contents

NAME = "every value"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("stores")
    return folder, unpack(folder, NAME)


@pytest.fixture
def older(kept: tuple[Path, dict[str, Any]], tmp_path: Path) -> Path:
    """A store of the format before the first one."""
    unpack(tmp_path, NAME)
    older_stores.make_older(tmp_path / NAME)
    return tmp_path / NAME


def head_of(folder: Path) -> FormatHead:
    return read_head((folder / FORMAT_FILE).read_bytes(), folder)


def write_head(folder: Path, head: FormatHead) -> None:
    rows = decode_format((folder / FORMAT_FILE).read_bytes())
    assert rows is not None
    (folder / FORMAT_FILE).write_bytes(encode_format(rows, head))


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "LOCK"
    }


def test_there_is_a_step_from_each_format_but_the_newest() -> None:
    assert sorted(STEPS) == list(range(1, FORMAT_VERSION))
    assert all(step.summary and step.reader for step in STEPS.values())
    assert STEPS.get(FORMAT_VERSION - 1, UpgradeStep("", FORMAT_READER, lambda *_: None)).reader == FORMAT_READER


def test_an_older_store_is_refused_with_the_command_that_upgrades_it(older: Path) -> None:
    before = files_of(older)
    with pytest.raises(UnsupportedFormat, match=r"has format 0.*copy the folder.*docstore upgrade --store"):
        docstore.open(older)
    with pytest.raises(UnsupportedFormat, match="docstore upgrade"):
        docstore.open(older, read_only=True)
    assert files_of(older) == before


def test_an_upgraded_store_answers_takes_pages_and_compacts_as_one_that_was_never_older(
    older: Path, kept: tuple[Path, dict[str, Any]]
) -> None:
    seen: list[tuple[str, int, int]] = []
    report = upgrade(older, steps=older_stores.STEPS, on_progress=lambda *step: seen.append(step))
    assert (report.from_format, report.to_format, report.steps) == (0, 1, ["rename the family label"])
    assert seen[-1] == ("rows", len(seen), len(seen)) and len(seen) > 1
    assert head_of(older) == CURRENT
    assert asked_twice(older) == kept[1][NAME]
    assert upgrade(older, steps=older_stores.STEPS).steps == []


@pytest.mark.parametrize("name", ["every value, killed", "killed in compaction, 4", "lost rows", "rebuilt"])
def test_a_store_that_a_crash_left_is_upgraded_as_it_is(
    name: str, kept: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    unpack(tmp_path, name)
    older_stores.make_older(tmp_path / name)
    upgrade(tmp_path / name, steps=older_stores.STEPS)
    assert asked_twice(tmp_path / name) == kept[1][name]


def test_the_copy_of_rows_in_format_is_that_of_the_upgraded_store(older: Path) -> None:
    upgrade(older, steps=older_stores.STEPS)
    rows = decode_format((older / FORMAT_FILE).read_bytes())
    with docstore.open(older) as store:
        assert rows is not None and rows[1] == store.backend.identity  # type: ignore[attr-defined]
        assert b"mark" in rows[0] and b"label" not in rows[0]


def test_a_dry_run_names_the_steps_and_changes_nothing(older: Path) -> None:
    before = files_of(older)
    report = upgrade(older, steps=older_stores.STEPS, dry_run=True)
    assert (report.to_format, report.steps, report.dry_run) == (1, ["rename the family label"], True)
    assert files_of(older) == before


def test_steps_follow_each_other_and_the_next_format_is_refused_by_this_docstore(older: Path) -> None:
    done: list[FormatHead] = []
    second = UpgradeStep("second", "7.3", lambda folder, *_: done.append(head_of(folder)))
    report = upgrade(older, steps=older_stores.STEPS | {1: second})
    assert (report.to_format, report.steps) == (2, ["rename the family label", "second"])
    assert done == [FormatHead(1, "7.3", 2)]
    assert head_of(older) == FormatHead(2, "7.3")
    with pytest.raises(UnsupportedFormat, match=r"has format 2.*docstore 7\.3 or later"):
        docstore.open(older)


def test_a_failed_step_leaves_a_store_that_nothing_opens_until_it_is_run_again(older: Path) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space")

    step = older_stores.STEPS[0]
    with pytest.raises(OSError, match="no space"):
        upgrade(older, steps={0: step._replace(run=fail)})
    assert head_of(older) == FormatHead(0, "1.0", 1)
    with pytest.raises(UnsupportedFormat, match=r"has an unfinished upgrade of format 0.*docstore upgrade"):
        docstore.open(older)
    upgrade(older, steps=older_stores.STEPS)
    with docstore.open(older) as store:
        assert any(family == "mark" for _, family, _, _ in contents(store))


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (FormatHead(2, "7.3"), r"has format 2.*open it with docstore 7\.3 or later"),
        (
            FormatHead(1, "7.3", 2),
            r"unfinished upgrade to format 2.*run `docstore upgrade` with docstore 7\.3 or later",
        ),
        (FormatHead(0, "0.9"), r"has format 0, which this docstore cannot upgrade to format 1"),
    ],
    ids=str,
)
def test_a_store_that_no_step_leads_from_is_refused_and_not_changed(older: Path, head: FormatHead, says: str) -> None:
    write_head(older, head)
    before = files_of(older)
    with pytest.raises(UnsupportedFormat, match=says):
        upgrade(older)
    assert files_of(older) == before


def test_an_open_store_is_not_upgraded(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True), pytest.raises(StoreUnavailable):
        upgrade(tmp_path / "s")


def test_the_command_says_that_nothing_is_to_do(run: Terminal) -> None:
    run("init")
    before = files_of(run.store)
    answer = run("upgrade")
    assert answer.code == 0 and "nothing to do" in answer.out and f"format {FORMAT_VERSION}" in answer.out
    known = {"from_format": FORMAT_VERSION, "to_format": FORMAT_VERSION, "steps": [], "dry_run": True}
    assert json.loads(run("upgrade", "--dry-run", "--json").out) == known
    assert files_of(run.store) == before


def test_the_command_refuses_what_is_no_store_of_a_directory(run: Terminal) -> None:
    assert run("upgrade").code == 3
    assert run.on("http://localhost:1")("upgrade").code == 2  # type: ignore[arg-type]


def test_the_command_names_the_steps(run: Terminal, older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade, "__kwdefaults__", upgrade.__kwdefaults__ | {"steps": older_stores.STEPS})
    answer = run.on(older)("upgrade", "--dry-run")
    assert answer.code == 0 and "would be upgraded from format 0 to 1: rename the family label" in answer.out
    answer = run.on(older)("upgrade", "--progress")
    assert answer.code == 0 and "is upgraded from format 0 to 1" in answer.out and "rows" in answer.err
    assert run.on(older)("stats").code == 0
