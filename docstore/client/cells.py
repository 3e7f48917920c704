"""General cells of a remote store, with the interface of `CellStore`.

Knows calls and listings; how they are sent is the store's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from docstore.client import calls, listings
from docstore.client.calls import Call
from docstore.client.listings import Listing
from docstore.model import keys
from docstore.model.errors import InvalidArgument
from docstore.model.types import Append, Cell, Condition, Increment, Mutation, ReadSpec
from docstore.reading.cells import SLICE_CELLS, Row


class RemoteCells:
    """Cells of page rows.  Thread-safe.

    Args:
        ask: sends a call until it is answered.
        items: gives the items of a stream.
    """

    def __init__(self, ask: Callable[[Call[Any]], Any], items: Callable[[Listing[Any]], Iterator[Any]]) -> None:
        self._ask = ask
        self._items = items

    @staticmethod
    def row_key(url_or_row_key: str | bytes) -> bytes:
        """See `CellStore.row_key`."""
        return url_or_row_key if isinstance(url_or_row_key, bytes) else keys.row_key(url_or_row_key)

    def slices(
        self,
        url_or_row_key: str | bytes,
        *,
        families: tuple[str, ...] | None = None,
        cell_limit: int = SLICE_CELLS,
        spec: ReadSpec | None = None,
    ) -> Iterator[Cell]:
        """See `CellStore.slices`; how many cells are read at a time is the server's choice."""
        if cell_limit < 1:
            raise InvalidArgument(f"cell_limit must be at least 1, not {cell_limit}")
        return self._items(listings.slices(url_or_row_key, families, spec))

    def read_row(self, url_or_row_key: str | bytes, spec: ReadSpec = ReadSpec()) -> Row | None:
        """See `CellStore.read_row`."""
        found: Row | None = self._ask(calls.read_row(url_or_row_key, spec))
        return found

    def scan(
        self,
        *,
        prefix: str | None = None,
        host: str | None = None,
        start: bytes = b"",
        end: bytes | None = None,
        qualifier_regex: str | None = None,
        limit: int | None = None,
        spec: ReadSpec = ReadSpec(),
    ) -> Iterator[Row]:
        """See `CellStore.scan`; a scan that is cut off goes on after the last row."""
        return self._items(listings.scan(prefix, host, start, end, qualifier_regex, limit, spec))

    def apply(self, url_or_row_key: str | bytes, mutations: Sequence[Mutation]) -> None:
        """See `CellStore.apply`."""
        self.apply_many([(url_or_row_key, mutations)])

    def apply_many(self, rows: Sequence[tuple[str | bytes, Sequence[Mutation]]]) -> None:
        """See `CellStore.apply_many`."""
        self._ask(calls.apply_many(rows))

    def check_and_mutate(
        self,
        url_or_row_key: str | bytes,
        condition: Condition,
        then: Sequence[Mutation],
        otherwise: Sequence[Mutation] = (),
    ) -> bool:
        """See `CellStore.check_and_mutate`."""
        held: bool = self._ask(calls.check_and_mutate(url_or_row_key, condition, then, otherwise))
        return held

    def read_modify_write(self, url_or_row_key: str | bytes, rules: Sequence[Append | Increment]) -> list[Cell]:
        """See `CellStore.read_modify_write`."""
        cells: list[Cell] = self._ask(calls.read_modify_write(url_or_row_key, rules))
        return cells


class RemoteRows:
    """Rows and values as who reads clusters asks for them."""

    def __init__(self, cells: RemoteCells) -> None:
        self._cells = cells

    def read_row(self, row_key: bytes, spec: ReadSpec) -> Sequence[Cell]:
        """The cells of a row."""
        row = self._cells.read_row(row_key, spec)
        return () if row is None else row.cells

    def fetch(self, value: bytes) -> bytes:
        """A value as it came: the server has fetched it."""
        return value
