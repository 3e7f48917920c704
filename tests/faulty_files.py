"""A file system that breaks on purpose: for tests, in place of `docstore.storage.files.Files`.

Every call that reaches the disk passes a named fault point, before and after its effect, and is counted.  A test asks
for what happens at the Nth point: a stop (`SimulatedCrash`), an errno, or a write cut short.  `power_loss` gives every
file in the watched folders the content, and every folder the names, that were synced.
"""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

from docstore.storage.files import AppendFile, Files, translated


class SimulatedCrash(BaseException):
    """The process is dead from here on.  No Exception, so that no `except Exception` survives it."""


class FaultyFiles(Files):
    """Real files below one folder, with faults.

    Attributes:
        points: names of the fault points passed so far, "before write", "after write", "before sync", ...
        crash_at: index into `points` at which to stop.
        fail_at: index of a "before" point -> errno to raise there.
        disk_limit_bytes: bytes that fit; a write beyond them is cut short and the next one raises ENOSPC.
    """

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder = folder
        self.points: list[str] = []
        self.crash_at: int | None = None
        self.fail_at: dict[int, int] = {}
        self.disk_limit_bytes: int | None = None
        self.written_bytes = 0
        self._random = random.Random(seed)
        self._dead = False
        self._durable_content: dict[int, bytes] = {}  # by inode
        self._durable_names: dict[Path, dict[str, int]] = {}
        self._kept: list[int] = []
        for path in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
            self.watch(path)

    # --- faults ---

    def _point(self, name: str) -> None:
        if self._dead:
            raise SimulatedCrash("the process is dead")
        index = len(self.points)
        self.points.append(name)
        if self.crash_at == index:
            self._dead = True
            raise SimulatedCrash(f"stopped at point {index}: {name}")
        if index in self.fail_at:
            raise OSError(self.fail_at[index], os.strerror(self.fail_at[index]))

    def write(self, descriptor: int, raw: memoryview) -> int:
        index = len(self.points)
        if self.crash_at == index:  # a dying process may have written any part
            os.write(descriptor, raw[: self._random.randrange(len(raw) + 1)])
        self._point("before write")
        if self.disk_limit_bytes is not None:
            room = self.disk_limit_bytes - self.written_bytes
            if room <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raw = raw[:room]
        written = os.write(descriptor, raw)
        self.written_bytes += written
        self._point("after write")
        return written

    def sync(self, descriptor: int) -> None:
        self._point("before sync")
        status = os.fstat(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir():
            self._durable_names[path] = _names(path)
        else:
            self._durable_content[status.st_ino] = path.read_bytes()
        self._point("after sync")

    def read(self, descriptor: int, length: int, offset: int) -> bytes:
        self._point("before read")
        return super().read(descriptor, length, offset)

    def open_append(self, path: Path, *, create: bool) -> AppendFile:
        with translated("open", path):
            self._point("before open")
        handle = super().open_append(path, create=create)
        if create:
            self._durable_content[path.stat().st_ino] = b""  # the number may be that of a removed file
        with translated("open", path):
            self._point("after open")
        return handle

    def rename(self, path: Path, target: Path) -> None:
        self._keep(target)
        with translated("rename", path):
            self._point("before rename")
            super().rename(path, target)
            self._point("after rename")

    def truncate(self, path: Path, length_bytes: int) -> None:
        with translated("truncate", path):
            self._point("before truncate")
            super().truncate(path, length_bytes)

    def unlink(self, path: Path) -> None:
        self._keep(path)
        with translated("remove", path):
            self._point("before unlink")
            super().unlink(path)
            self._point("after unlink")

    def make_folder(self, path: Path, mode: int = 0o777) -> None:
        super().make_folder(path, mode)
        self.watch(path)

    # --- power loss ---

    def power_loss(self, *, torn: bool = False) -> Files:
        """Leave only what was synced; with `torn`, a random part of what was appended since too.

        Returns:
            A file system without faults, for the process after the power came back.
        """
        for folder, names in self._durable_names.items():
            content = {name: self._after_power_loss(folder, name, inode, torn) for name, inode in names.items()}
            for path in folder.iterdir():
                if path.is_file():
                    path.unlink()
            for name, raw in content.items():
                (folder / name).write_bytes(raw)
        self._dead = True
        return Files()

    def _after_power_loss(self, folder: Path, name: str, inode: int, torn: bool) -> bytes:
        durable = self._durable_content.get(inode, b"")
        path = folder / name
        if torn and path.exists() and path.stat().st_ino == inode:
            now = path.read_bytes()
            if now.startswith(durable) and len(now) > len(durable):
                surplus = bytearray(now[len(durable) : self._random.randrange(len(durable), len(now) + 1)])
                if surplus and self._random.random() < 0.5:  # a block in the middle never reached the disk
                    at = self._random.randrange(len(surplus))
                    surplus[at : at + 512] = bytes(len(surplus[at : at + 512]))
                return durable + bytes(surplus)
        return durable

    def watch(self, folder: Path) -> None:
        """What stands there when watching begins counts as synced."""
        self._durable_names[folder] = _names(folder)
        for name, inode in self._durable_names[folder].items():
            self._durable_content[inode] = (folder / name).read_bytes()

    def _keep(self, path: Path) -> None:
        """Hold an inode open, so that its number is not given to another file while the test runs."""
        if path.exists():
            self._kept.append(os.open(path, os.O_RDONLY))

    def __del__(self) -> None:
        for descriptor in self._kept:
            os.close(descriptor)


def _names(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in folder.iterdir() if path.is_file()}
