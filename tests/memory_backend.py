"""A backend in memory: values stand in their cells, and the index lies in a temporary folder.

It shows what the port asks for, and no more.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from memory_engine import MemoryEngine

from docstore.compiled import docstore_native
from docstore.model.capture import Column
from docstore.model.choices import Durability
from docstore.model.errors import InvalidArgument
from docstore.model.format import CODEC_ZSTD_DICTIONARY, RECORD_RELATED_BYTES, RECORD_VALUE
from docstore.model.types import Mutation, RowMutations, Schema, SetCell
from docstore.storage.bases import BaseRows, value_name
from docstore.storage.cache import Memory
from docstore.storage.engine import Engine, Plan, RunStorage
from docstore.storage.files import Files
from docstore.storage.port import Backend, Follower
from docstore.storage.unreadable import Finding, UnreadableValues
from docstore.storage.values import parse_cell_value, raw_bytes_of
from docstore.tablets.codec import ValueCodec
from docstore.tablets.dictionaries import SiteDictionaries
from docstore.tablets.manifest import Tablet
from docstore.tablets.record import Record

Result = TypeVar("Result")


class MemoryDictionaries:
    """See `Contents`: those of all stores, by checksum."""

    contents: ClassVar[dict[bytes, bytes]] = {}

    def write(self, content: bytes, level: int) -> bytes:
        self.contents[value_name(content)] = content
        return value_name(content)

    def load(self, checksum: bytes) -> bytes:
        return self.contents[checksum]

    def sync(self) -> None:
        pass


ALL_ROWS = Tablet(0, b"", None, 0)


class MemoryValues:
    """See `Values`: a long value is its codec, its dictionary and its payload, in its cell."""

    shares_values = False
    fill = None
    check_rows = None

    def __init__(self) -> None:
        self.unreadable = UnreadableValues()
        self._dictionaries = SiteDictionaries(MemoryDictionaries(), lambda scope: None, lambda row_key: ALL_ROWS)

    def read_together(self, work: Callable[[], Result]) -> Result:
        return work()

    def append(self, row_key: bytes, column: Column, timestamp: int, raw: bytes) -> bytes:
        group = docstore_native.Group(self.shares_values)
        group.add(row_key, column, timestamp, raw)
        self.append_group(group)
        return group.cell_values()[0]

    def append_group(self, group: docstore_native.Group) -> None:
        self._dictionaries.encode(group, 1)
        group.place(self.refs(group))

    def refs(self, group: docstore_native.Group) -> list[bytes]:
        return [bytes((codec,)) + related + payload for *_, codec, related, _, payload in group.records()]

    def mark_deleted(self, row_key: bytes, mutation: Mutation, now: int) -> None:
        pass

    def fetch(self, cell_value: bytes) -> bytes:
        value, ref = parse_cell_value(cell_value)
        if ref is None:
            return value
        start = 1 + RECORD_RELATED_BYTES * (ref[0] == CODEC_ZSTD_DICTIONARY)
        fields = ref[0], ref[1:start], raw_bytes_of(cell_value), ref[start:]
        return ValueCodec().decode(Record(RECORD_VALUE, b"", "", b"", 0, *fields), self._dictionaries.load)

    def fetch_many(self, cell_values: Sequence[bytes]) -> list[bytes]:
        return [self.fetch(cell_value) for cell_value in cell_values]

    def fetch_or_base(self, cell_value: bytes) -> tuple[bytes, bytes]:
        return self.fetch(cell_value), b""

    def fetch_with_owner(self, cell_value: bytes) -> tuple[bytes, Column, bytes]:
        raise AssertionError("no value is shared")

    def verify(self, cell_value: bytes) -> None:
        self.fetch(cell_value)

    def same_value(self, one: bytes, other: bytes) -> bool:
        return one == other

    def stored_bytes(self, cell_value: bytes) -> int:
        return len(cell_value)


def totals(engine: Engine) -> dict[str, int]:
    """Counts by name of what was written."""
    cells = engine.read_row("meta", b"totals")
    return json.loads(cells[0].value) if cells else {}


class MemoryCommitter:
    """See `Committer`."""

    many_writers = False

    def __init__(self, engine: Engine, durability: Durability) -> None:
        self.lock = threading.RLock()
        self.commits = 0
        self.followers: set[Follower] = set()
        self.durability = durability
        self._engine = engine

    def commit(self, plan: Plan) -> None:
        self.commits += 1
        known = False
        rows: Sequence[RowMutations] = ()
        try:
            if plan.counts:
                now = Counter(totals(self._engine))
                now.update(plan.counts)
                cell = SetCell("m", b"", 0, json.dumps(now).encode())
                plan.rows.append(RowMutations("meta", b"totals", [cell]))
            rows = plan.all_rows
            self._engine.mutate_rows(rows, self.durability)
            known = True
        finally:
            for follower in self.followers:
                follower(rows, known)

    def drop_values(self) -> None:
        pass

    def run_with_reserve(self, work: Callable[[], Result], *, in_parts: bool = True) -> Result:
        return work()


class MemoryBackend:
    """See `Backend`; give it the engine of an earlier one to open the same store again."""

    path = Path("/nowhere")
    band_secret = b""
    lower: Backend | None = None
    lost: tuple[Any, ...] = ()
    set_aside: tuple[Any, ...] = ()

    def __init__(self, engine: Engine | None = None, schema: Schema | None = None) -> None:
        self.engine: Engine = MemoryEngine() if engine is None else engine
        self.schema = schema or Schema(keyed_bands=False)
        self.values = MemoryValues()
        self.base_rows = BaseRows(self.engine)
        self.memory = Memory()
        self._folder = tempfile.TemporaryDirectory(prefix="docstore-memory-")
        self.runs: RunStorage | None = RunStorage(self.engine, Path(self._folder.name), Files())
        self.index: Any = None

    def committer(self, durability: Durability) -> MemoryCommitter:
        return MemoryCommitter(self.engine, durability)

    def group_writer(self, table: object, committer: object, clock: object) -> None:
        pass

    def overlay(self) -> Backend:
        raise InvalidArgument("no layer")

    def compact(self, *args: Any, **options: Any) -> Any:
        raise InvalidArgument("nothing to compact")

    def backup(self, *args: Any) -> Any:
        raise InvalidArgument("nothing to copy")

    def acknowledge(self) -> None:
        pass

    def publish_server(self, server: str) -> None:
        pass

    def check_writable(self) -> None:
        pass

    def make_reserve(self) -> None:
        pass

    def remarks(self) -> Iterator[Finding]:
        """See `Backend`: none."""
        return iter(())

    def problems(self) -> Iterator[Finding]:
        return iter(())

    def stored_bytes(self) -> int:
        return self.engine.approximate_bytes("pages")

    def stats(self) -> dict[str, Any]:
        return {"totals": totals(self.engine)}

    def codec_stats(self, committer: Any) -> dict[str, dict[str, int]]:
        return {}

    def close(self) -> None:
        if self.index is not None:
            self.index.close()
        self._folder.cleanup()
