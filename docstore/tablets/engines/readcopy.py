"""A LevelDB directory made readable without changing it.

Knows the names of LevelDB's files.  Must not know what is in them, nor how they are opened.
"""

from __future__ import annotations

from pathlib import Path

from docstore.storage.files import translated

_TABLE_SUFFIXES = (".ldb", ".sst")


def copy_to_read(path: Path, copy: Path) -> None:
    """Make a LevelDB directory that can be opened without changing another one, which nobody may write meanwhile.

    LevelDB writes when it opens: a new log and MANIFEST, tables of what the old log holds, and it removes what is
    obsolete.  So what it reads from the beginning on (CURRENT, MANIFEST, logs) is copied, tables are symbolic links:
    removing one removes the link.

    Args:
        path: the directory.
        copy: to be made; takes about as much room as the logs, twice.
    Raises:
        StorageError: it cannot be read, or there is no room for the copy.
    """
    with translated("copy", path):
        copy.mkdir()
        for source in sorted(path.iterdir()):
            if source.suffix in _TABLE_SUFFIXES:
                (copy / source.name).symlink_to(source.resolve())
            elif source.name == "CURRENT" or source.name.startswith("MANIFEST-") or source.suffix == ".log":
                (copy / source.name).write_bytes(source.read_bytes())
