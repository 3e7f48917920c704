"""What a disk may hold after a crash, made from the calls by which a process changed its files.

`recording` gives the environment in which a process is recorded (record_files.c: Python, LevelDB and Rust alike);
a process that has the library of `recorder` preloaded begins a record by `begin_record`.
`read_events` reads the record, `Disk` follows it, and `Disk.states` gives what may be there if the power goes then:

* all: everything done so far (a kill of the process);
* synced: only what was synced, contents as well as names in folders;
* one: of all that is not synced, one file or one name alone is there, or alone is not;
* mixed: each unsynced file is whole, as it was, cut anywhere, or has a hole of zeros; any of the names are there.

Of LevelDB's folder some things are taken for granted, as LevelDB does: its names become durable in the order in which
they were made, and with the first sync of a new file; what it appended to a file that is no log may be cut, but has
no holes.  Not covered:
damage of what was synced; a disk that reorders what an fsync has ended.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import NamedTuple

from docstore.model.format import RESERVE_FILE

State = dict[str, bytes | None]
"""Content of each file by its path below the root; None for a folder."""
SHORTEST_HOLE_BYTES = 8
"""Fewer zeros in LevelDB's log may be a damaged number, so it is not opened."""
HEADER = struct.Struct("<IIIIQQ")


class Event(NamedTuple):
    """One call: its kind is a letter of record_files.c, its paths are below the root."""

    kind: str
    path: str
    target: str
    offset: int
    data: bytes


@lru_cache(maxsize=1)
def recorder() -> Path:
    """The library that records, compiled for this process.

    Raises:
        OSError: there is no C compiler.
        subprocess.CalledProcessError: it does not compile.
    """
    library = Path(mkdtemp(prefix="docstore-record-")) / "record.so"
    source = Path(__file__).with_name("record_files.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl", "-lpthread"], check=True)
    return library


def recording(root: Path, trace: Path) -> dict[str, str]:
    """The environment of a process whose changes below `root` are appended to the file `trace`."""
    return os.environ | {"LD_PRELOAD": str(recorder()), "RECORD_BELOW": str(root), "RECORD_TO": str(trace)}


def begin_record(root: str, trace: str) -> None:
    """Record this process from now on."""
    os.environ |= {"RECORD_BELOW": root, "RECORD_TO": trace}
    ctypes.CDLL(None).begin_record()


def read_events(root: Path, trace: Path) -> Iterator[Event]:
    """The record of a process, without LevelDB's notes for people and without lock files."""
    raw, place = trace.read_bytes(), 0
    while place < len(raw):
        kind, path_bytes, target_bytes, _, offset, data_bytes = HEADER.unpack_from(raw, place)
        place += HEADER.size
        parts = []
        for length in (path_bytes, target_bytes, data_bytes):
            parts.append(raw[place : place + length])
            place += length
        path, target = (os.path.relpath(part.decode(), root) if part else "" for part in parts[:2])
        if not is_ignored(path) and not path.endswith(" (deleted)"):
            yield Event(chr(kind), "" if path == "." else path, target, offset, parts[2])


def is_ignored(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith("LO") or name.endswith(".lock")


class File:
    """An inode: its content when it was synced last, and what was done to it since."""

    def __init__(self, synced: bytes, *, is_engine: bool, may_have_holes: bool) -> None:
        self.synced = synced
        self.changes: list[tuple[int, bytes | None]] = []
        """Offset and bytes of a write; length and None of a truncation."""
        self.is_engine = is_engine
        self.may_have_holes = may_have_holes

    def left(self, source: Random | None = None) -> bytes:
        """The content with all changes, or with some of them: as it was, cut anywhere, or with a hole."""
        if source is None:
            return self._after(self.changes)
        how = source.choice(["synced", "all", "cut", "cut", "hole" if self.may_have_holes else "cut"])
        if how == "synced":
            return self.synced
        if how == "cut":
            kept = source.randrange(len(self.changes))
            offset, data = self.changes[kept]
            part = [] if data is None else [(offset, data[: source.randrange(len(data) + 1)])]
            return self._after([*self.changes[:kept], *part])
        now = bytearray(self._after(self.changes))
        writes = [(offset, len(data)) for offset, data in self.changes if data]
        if how == "hole" and writes:
            offset, length = source.choice(writes)
            begin = source.randrange(max(length - SHORTEST_HOLE_BYTES, 0) + 1)
            length = length - begin if source.random() < 0.5 else min(512, length - begin)
            now[offset + begin : offset + begin + length] = bytes(length)
        return bytes(now)

    def _after(self, changes: list[tuple[int, bytes | None]]) -> bytes:
        content = bytearray(self.synced)
        for offset, data in changes:
            if data is None or offset > len(content):
                del content[offset:]
                content += bytes(offset - len(content))
            if data is not None:
                content[offset : offset + len(data)] = data
        return bytes(content)


Names = dict[str, File | None]
"""What each path leads to; None is a folder."""


class Change(NamedTuple):
    """A change of a name that no sync of its folder has made durable yet."""

    kind: str
    path: str
    file: File | None
    target: str

    @property
    def folder(self) -> str:
        return (self.target or self.path).rpartition("/")[0]

    @property
    def is_in_order(self) -> bool:
        """It becomes durable after the changes before it in its folder, as LevelDB expects."""
        return _is_engine(self.folder)

    def apply(self, names: Names) -> None:
        if self.kind == "add":
            names[self.path] = self.file
            return
        names.pop(self.path, None)
        if self.kind == "move":
            names[self.target] = self.file
            below = f"{self.path}/"
            for path in [path for path in names if path.startswith(below)] if self.file is None else ():
                names[f"{self.target}/{path.removeprefix(below)}"] = names.pop(path)


def _is_engine(folder: str) -> bool:
    return folder.rpartition("/")[2].startswith("engine")


class Disk:
    """What the calls so far have left: contents and names, and of both what is durable.

    Args:
        root: a folder as it is before the first call; all of it is durable.
    """

    def __init__(self, root: Path) -> None:
        self.names: Names = {}
        for path in sorted(root.rglob("*")):
            at = path.relative_to(root).as_posix()
            if not is_ignored(at):
                raw = b"" if path.is_dir() or path.name == RESERVE_FILE else path.read_bytes()
                self.names[at] = None if path.is_dir() else self._file(at, raw)
        self.durable_names = dict(self.names)
        self.pending: list[Change] = []

    def _file(self, path: str, synced: bytes = b"") -> File:
        is_engine = _is_engine(path.rpartition("/")[0])
        return File(synced, is_engine=is_engine, may_have_holes=not is_engine or path.endswith(".log"))

    def apply(self, event: Event) -> None:
        kind, path, target, offset, data = event
        file = self.names.get(path)
        if kind in "cm":
            self._rename(Change("add", path, self._file(path) if kind == "c" else None, ""))
        elif kind == "n":
            self._rename(Change("move", path, file, target))
        elif kind in "ud":
            self._rename(Change("remove", path, None, ""))
        elif kind == "s" and file is not None:
            file.synced, file.changes = file.left(), []
            if file.is_engine and any(change.file is file for change in self.pending):
                self._sync_names(path.rpartition("/")[0])
        elif kind == "s":
            self._sync_names(path)
        elif file is not None and not path.endswith(RESERVE_FILE):
            file.changes.append((offset, data if kind == "w" else None))

    def _sync_names(self, folder: str) -> None:
        for change in self.pending:
            if change.folder == folder:
                change.apply(self.durable_names)
        self.pending = [change for change in self.pending if change.folder != folder]

    def _rename(self, change: Change) -> None:
        change.apply(self.names)
        self.pending.append(change)

    def states(self, source: Random, mixes: int) -> Iterator[tuple[str, State]]:
        """What the disk may hold after a crash now, each with what it is; `mixes` of the last kind."""
        unsynced = list({id(file): file for file in self._files() if file.changes}.values())
        files, names = {id(file): file.left() for file in unsynced}, set(range(len(self.pending)))
        yield "all", self._state(names, files)
        if not unsynced and not names:
            return
        yield "synced", self._state(set(), {})
        for number in names:
            yield f"only name {self._named(number)}", self._state({number}, files)
            yield f"not name {self._named(number)}", self._state(names - {number}, files)
        for file in unsynced:
            where = next((path for path, other in self.names.items() if other is file), "a removed file")
            yield f"only {where}", self._state(names, {id(file): files[id(file)]})
            yield f"not {where}", self._state(names, {key: raw for key, raw in files.items() if key != id(file)})
        for _ in range(mixes):
            share = source.choice([0.0, 0.5, 1.0])
            some = {number for number in names if source.random() < share}
            yield f"mixed, names {sorted(some)}", self._state(some, {id(file): file.left(source) for file in unsynced})

    def _named(self, number: int) -> str:
        return " ".join(
            filter(None, (self.pending[number].kind, self.pending[number].path, self.pending[number].target))
        )

    def _files(self) -> Iterator[File]:
        for names in (self.names, self.durable_names):
            yield from filter(None, names.values())

    def _state(self, numbers: set[int], contents: dict[int, bytes]) -> State:
        names = dict(self.durable_names)
        stopped: set[str] = set()
        for number, change in enumerate(self.pending):
            if number in numbers and change.folder not in stopped:
                change.apply(names)
            elif change.is_in_order:
                stopped.add(change.folder)
        state: State = {}
        for path, file in names.items():
            above = path.split("/")[:-1]
            if all("/".join(above[: depth + 1]) in names for depth in range(len(above))):
                state[path] = None if file is None else contents.get(id(file), file.synced)
        return state


def lay_out(state: State, root: Path) -> None:
    """Write a state into a folder that is made for it."""
    root.mkdir()
    for path, raw in sorted(state.items()):
        with suppress(FileExistsError):
            (root / path).mkdir() if raw is None else (root / path).write_bytes(raw)
