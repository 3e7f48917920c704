"""An upgrade that is killed, or loses power, after any of its calls: the same command ends it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

import docstore
from docstore.model.errors import UnsupportedFormat
from docstore.model.format import FORMAT_FILE
from docstore.reports.check import check
from docstore.tablets.format_file import CURRENT, FormatHead, read_head
from docstore.tablets.upgrade import upgrade
from tests import older_stores
from tests.crash.disk import Disk, State, lay_out, read_events, recording
from tests.crash.states import MEMORY
from tests.format_stores import unpack
from tests.stores import Contents, contents

NAME = "every value"
SEED = 54


def held(folder: Path) -> Contents:
    with docstore.open(folder) as store:
        assert list(check(store.backend)) == []
        return contents(store)


def assert_ends(state: State, right: Contents) -> FormatHead:
    """A state is of one format or says that it is of neither, and the command makes a right store of it."""
    with TemporaryDirectory(dir=MEMORY) as folder:
        root = Path(folder) / "root"
        lay_out(state, root)
        head = read_head((root / "s" / FORMAT_FILE).read_bytes(), root / "s")
        if head != CURRENT:
            with pytest.raises(UnsupportedFormat, match="docstore upgrade"):
                docstore.open(root / "s")
        upgrade(root / "s", steps=older_stores.STEPS)
        assert held(root / "s") == right
        return head


def test_an_upgrade_ends_right_after_a_stop_at_each_of_its_calls(tmp_path: Path) -> None:
    root, before, trace = tmp_path / "root", tmp_path / "before", tmp_path / "trace"
    root.mkdir()
    unpack(tmp_path, NAME)
    (tmp_path / NAME).rename(root / "s")
    shutil.copytree(root / "s", tmp_path / "right")
    right = held(tmp_path / "right")
    older_stores.make_older(root / "s")
    shutil.copytree(root, before)
    command = [sys.executable, "-m", "tests.older_stores", root / "s"]
    subprocess.run(command, env=recording(root, trace), check=True)
    assert held(root / "s") == right
    disk, source, heads = Disk(before), Random(SEED), set()
    events = list(read_events(root, trace))
    for event in events:
        disk.apply(event)
        heads |= {assert_ends(state, right) for _, state in disk.states(source, 3)}
    assert heads == {FormatHead(0, "0.9"), FormatHead(0, "1.0", 1), CURRENT}, f"seed {SEED}"
    assert len(events) > 20
