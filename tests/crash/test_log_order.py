"""LevelDB's logs: what a commit that was synced builds on is durable before it, whichever log it is in."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from docstore.tablets.engines.leveldb import LevelDBEngine
from tests.crash.disk import Disk, lay_out, read_events, recorder, recording

WRITER = """
import sys, threading
from docstore.model.choices import Durability
from docstore.model.types import RowMutations, SetCell
from docstore.storage.cache import Memory
from docstore.tablets.engines.leveldb import LevelDBEngine

engine = LevelDBEngine(sys.argv[1], memory=Memory(96 << 20))
if int(sys.argv[2]):
    engine.log_limit_bytes = int(sys.argv[2])
done = threading.Event()

def compact():
    while not done.is_set():
        engine.compact("pages")

compacting = threading.Thread(target=compact)
if sys.argv[3] == "compacting":
    compacting.start()
for number in range(int(sys.argv[4])):
    cells = [SetCell("p", b"%06d%03d" % (number, cell), 0, b"") for cell in range(int(sys.argv[5]))]
    engine.mutate_rows([RowMutations("postings", b"%06d" % number, cells)], Durability.NONE)
    row = RowMutations("meta", b"last", [SetCell("meta", b"", 0, b"%d" % number)])
    engine.mutate_rows([row], Durability.SYNC)
done.set()
if compacting.ident:
    compacting.join()
engine.close()
"""


def _states(tmp_path: Path, *arguments: str) -> int:
    """Open what a power loss may leave after each sync of a log; the number of logs that were seen."""
    root, trace = tmp_path / "root", tmp_path / "trace"
    root.mkdir()
    LevelDBEngine(root / "engine", create=True).close()
    disk = Disk(root)
    command = [sys.executable, "-c", WRITER, str(root / "engine"), *arguments]
    subprocess.run(command, env=recording(root, trace), check=True, timeout=300)
    logs: set[str] = set()
    for number, event in enumerate(read_events(root, trace)):
        disk.apply(event)
        if event.kind != "s" or not event.path.endswith(".log"):
            continue
        logs.add(event.path)
        synced = dict(disk.states(Random(number), 0)).get("synced")
        if synced is None or sum(path.endswith(".log") for path in synced) < 2:
            continue
        state = tmp_path / f"state{number}"
        lay_out(synced, state)
        with closing(LevelDBEngine(state / "engine")) as engine:
            last = engine.newest("meta", b"last", "meta", b"")
            rows = [b"%06d" % row for row in range(int(last.value) + 1)] if last else []
            assert engine.absent_rows("postings", rows) == set(), event
    return len(logs)


@pytest.fixture(autouse=True)
def _compiler() -> None:
    try:
        recorder()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no C compiler: {error}")


def test_a_synced_commit_is_not_durable_before_writes_that_leveldb_moved_to_an_older_log(tmp_path: Path) -> None:
    """Keys are short, so LevelDB's memory of them is full before the log has its limit."""
    assert _states(tmp_path, "0", "alone", "75", "1000") > 1


def test_a_compaction_in_another_thread_begins_a_log_only_behind_synced_writes(tmp_path: Path) -> None:
    assert _states(tmp_path, str(64 << 20), "compacting", "50", "100") > 1
