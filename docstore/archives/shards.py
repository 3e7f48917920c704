"""An export in shards: files of about one size, each of them whole, and a manifest that says what is in them.

The manifest is JSON Lines: first the options of the export, then a line for each shard, and at the end
`{"complete": true}`.  An object cannot be appended to, so the manifest is written anew: after each of the first 200
shards, and then whenever it has grown by one percent.  After a kill, the shards of that percent are written again.
A shard ends between two pages of the store, and the next one begins after its last page.  So no page is in two shards,
and an export that was stopped goes on after the last shard of its manifest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias, cast

from docstore.archives.export import CountedStream, ExportReport, selected
from docstore.archives.locations import exists, open_input, open_output
from docstore.archives.selection import Selection, survivors
from docstore.model.errors import InvalidArgument
from docstore.storage.unreadable import Finding
from docstore.version import __version__

if TYPE_CHECKING:  # a type alone
    from docstore.attach import Store

Keep: TypeAlias = Callable[[bytes, int], bool] | None
Write: TypeAlias = Callable[..., ExportReport]
"""Called with a stream, a selection, and `keep` and `takes` as in `export`."""
_NUMBER_DIGITS: Final = 5
_NUMBERS: Final = ("captures", "body_bytes", "unreadable")
"""What an export that goes on needs of each shard, next to its last row key."""


class Shards:
    """The shards of one export.

    Args:
        output: name of the file that they replace: of `pages.warc.gz` they are `pages-00000.warc.gz` and so on.
        options: of the export; one that goes on must have the same.
        shard_bytes: a shard ends when it has so many bytes.
        count: or there are so many shards, of equally many captures.
    Attributes:
        manifest: its name.
        shards: its lines about shards.
        is_complete: nothing is left to write.
    Raises:
        InvalidArgument: shards of another export are there.
    """

    def __init__(self, output: str, options: Mapping[str, Any], shard_bytes: int | None, count: int | None) -> None:
        self._folder, slash, name = output.rpartition("/")
        self._folder += slash
        self._stem, self._dot, self._ending = name.partition(".")
        self.manifest = f"{self._folder}{self._stem}.manifest.jsonl"
        self._shard_bytes, self._count = shard_bytes, count
        self._head: dict[str, Any] = json.loads(json.dumps({"options": options}))
        self.shards: list[dict[str, Any]] = []
        self.is_complete = False
        if exists(self.manifest):
            with open_input(self.manifest) as stream:
                text = stream.read()
            try:
                head, *lines = map(json.loads, text.splitlines())
                is_complete = lines[-1:] == [{"complete": True}]
                shards = lines[:-1] if is_complete else lines
                if not (isinstance(head, dict) and all(map(_is_shard, shards))):
                    raise ValueError("a line is not that of a shard")
            except (ValueError, RecursionError) as error:
                raise InvalidArgument(f"{self.manifest} is no manifest ({error}); name another --output") from error
            if head.get("options") != self._head["options"]:
                raise InvalidArgument(
                    f"{self.manifest} is of an export with other options; repeat those, or name another --output"
                )
            self._head, self.shards, self.is_complete = head, shards, is_complete
        elif exists(self._name(0)):
            raise InvalidArgument(
                f"{self._name(0)} is there, but its manifest {self.manifest} is not: remove the old shards, or name "
                "another --output"
            )

    def _name(self, number: int) -> str:
        return f"{self._folder}{self._stem}-{number:0{_NUMBER_DIGITS}}{self._dot}{self._ending}"

    def write(self, store: Store, selection: Selection, write: Write) -> list[Finding]:
        """Write the shards that are not there yet; gives what could not be read."""
        unreadable: dict[Finding, None] = {}
        if self.is_complete:
            return []
        if not self.shards:
            total = sum(1 for _ in selected(store, selection)) if self._count else None
            self._head |= {"docstore": __version__, "captures": total}
            self._save()
        # Of which pages one is written is decided once, before the first shard of this run.
        keep = survivors(store, selection).keeps if selection.collapse else None
        try:
            while not self.is_complete:
                unreadable.update(dict.fromkeys(self._write_next(selection, keep, write).unreadable))
                if not self.shards:
                    break  # nothing matches
                if len(self.shards) % max(1, len(self.shards) // 100) == 0:
                    self._save()
        finally:
            if self.shards:
                self._save()
        return list(unreadable)

    def _write_next(self, selection: Selection, keep: Keep, write: Write) -> ExportReport:
        name = self._name(len(self.shards))
        after = bytes.fromhex(self.shards[-1]["last_row_key"]) if self.shards else b""
        last_row_key, captures, is_last, report = b"", 0, True, ExportReport()
        most = self._most_captures()

        def takes(row_key: bytes) -> bool:
            nonlocal last_row_key, captures, is_last
            is_full = captures >= most if self._shard_bytes is None else stream.written_bytes >= self._shard_bytes
            if captures and row_key != last_row_key and is_full:
                is_last = False
                return False
            last_row_key = row_key
            captures += 1
            return True

        with open_output(name, lambda: report.captures) as opened:
            stream = _Hashed(opened)
            part = replace(selection, collapse=False, after=after)
            report = write(cast(BinaryIO, stream), part, keep=keep, takes=takes)
        self.is_complete = is_last
        if report.captures:
            line = {
                "file": name.rpartition("/")[2],
                "captures": report.captures,
                "bytes": stream.written_bytes,
                "sha256": stream.hash.hexdigest(),
                "body_bytes": report.body_bytes,
                "unreadable": len(report.unreadable),
                "last_row_key": last_row_key.hex(),
            }
            self.shards.append(line)
        return report

    def _most_captures(self) -> float:
        """How many captures fill the next shard, if their number decides; the last one takes all that is left."""
        number = len(self.shards) + 1
        if self._count is None or number >= self._count:
            return inf
        before = sum(shard["captures"] for shard in self.shards)
        return float(self._head["captures"] * number // self._count - before)

    def _save(self) -> None:
        lines = [self._head, *self.shards, *([{"complete": True}] if self.is_complete else [])]
        with open_output(self.manifest) as stream:
            stream.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))


def _is_shard(line: object) -> bool:
    """Whether a line of a manifest has what an export that goes on needs.

    Raises:
        ValueError: its row key is not in hexadecimal digits.
    """
    if not isinstance(line, dict) or not all(type(line.get(name)) is int for name in _NUMBERS):
        return False
    last_row_key = line.get("last_row_key")
    return isinstance(last_row_key, str) and bool(bytes.fromhex(last_row_key))


class _Hashed(CountedStream):
    """A stream that also hashes what is written to it; it cannot be sought."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(stream)
        self.hash = hashlib.sha256()

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, piece: Any, /) -> int:
        """Append bytes."""
        self.hash.update(piece)
        return super().write(piece)
