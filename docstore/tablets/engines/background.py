"""LevelDB's one background thread a process, which no fork copies.

LevelDB starts it at its first compaction, for all databases of the process, and never again.  In a fork it is missing,
while LevelDB believes that it runs: whatever waits for a compaction waits for ever.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from docstore.model.errors import FORK_WAYS_OUT, StoreUnavailable
from docstore.storage.files import translated

_has_thread = False
"""Whether LevelDB's one background thread may have been started in this process or in one that it is a fork of."""
_lacks_thread = False
"""Whether that was before a fork: the thread does not run here, and LevelDB, which believes that it does, starts no
other one, so a compaction would wait for ever."""


def refuse_after_fork(path: Path) -> None:
    """Refuse to open a store for writing in a fork of a process that has used a store.

    Raises:
        StoreUnavailable: with the ways out.
    """
    if _lacks_thread:
        raise StoreUnavailable(
            f"{path} cannot be opened for writing: this process is a fork of one that has used a store; {FORK_WAYS_OUT}"
        )


def may_run() -> None:
    """Note that a database is opened, so that the thread may have been started."""
    global _has_thread  # noqa: PLW0603 - a fact of the process
    _has_thread = True


def _after_fork_in_child() -> None:
    global _lacks_thread  # noqa: PLW0603 - a fact of the process
    _lacks_thread = _has_thread


os.register_at_fork(after_in_child=_after_fork_in_child)


def check(path: Path) -> None:
    """Refuse to write where no thread can be started: LevelDB would abort the process when it starts its own.

    Raises:
        StorageError: the limits of the process allow no further thread.
    """
    with translated("start a thread of LevelDB for", path):
        probe = threading.Thread(target=bool, name="docstore-probe")  # its stack is as large as that of LevelDB's
        probe.start()
        probe.join()


def close_or_leave(database: Any) -> None:
    """Close a database.  Without its thread LevelDB would wait for a compaction that never runs: it stays open."""
    if _lacks_thread:
        never_free(database)
    else:
        database.close()


def never_free(database: Any) -> None:
    """Keep a database for as long as the process runs: to free it would wait for the thread."""
    import ctypes  # few processes fork

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(database))
