"""What a store holds, and a way to meddle with its compaction, for tests of stores."""

from __future__ import annotations

from collections.abc import Callable

from docstore.model import Durability
from docstore.store import DocumentStore
from docstore.tablets.bodies import SegmentRow
from docstore.tablets.record import Record
from docstore.tablets.walk import Damage

Contents = dict[tuple[bytes, str, bytes, int], bytes]
"""Row key, family, qualifier and timestamp of every cell -> its value."""


def contents(store: DocumentStore) -> Contents:
    return {
        (row.row_key, cell.family, cell.qualifier, cell.timestamp): cell.value
        for row in store.cells.scan()
        for cell in row.cells
    }


def records_of(store: DocumentStore, segment: int) -> list[Record]:
    found = [found for _, found in store.opened.bodies.walk(segment)]  # type: ignore[attr-defined]
    assert not any(isinstance(one, Damage) for one in found)
    return found


def before_refs_change(store: DocumentStore, action: Callable[[], None]) -> None:
    """Do something once, when everything is encoded and durable but no ref has been changed."""
    manifest = store.opened.manifest
    real = manifest.write_segment

    def write_segment(row: SegmentRow, durability: Durability) -> None:
        manifest.write_segment = real  # type: ignore[method-assign]
        real(row, durability)
        action()

    manifest.write_segment = write_segment  # type: ignore[method-assign]
