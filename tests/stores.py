"""What a store holds, and a way to meddle with its compaction, for tests of stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from docstore.model.capture import Column
from docstore.model.choices import Durability
from docstore.model.format import CODEC_ZSTD_BODY, CODEC_ZSTD_DICTIONARY
from docstore.storage.engine import Plan
from docstore.storage.files import Files
from docstore.storage.values import parse_cell_value
from docstore.store import DocumentStore
from docstore.tablets.codec import ValueCodec
from docstore.tablets.dictionaries import decode_dictionary
from docstore.tablets.record import Damage, Record, SegmentNames, decode_ref, walk_records
from docstore.tablets.segment import SegmentRow

Contents = dict[tuple[bytes, str, bytes, int], bytes]
"""Row key, family, qualifier and timestamp of every cell -> its value."""


def contents(store: DocumentStore) -> Contents:
    return {
        (row.row_key, cell.family, cell.qualifier, cell.timestamp): cell.value
        for row in store.cells.scan()
        for cell in row.cells
    }


def records_of(store: DocumentStore, segment: int) -> list[Record]:
    path = store.backend.value_log.path(segment)  # type: ignore[attr-defined]
    found = [found for _, found in walk_records(Files().open_read(path), segment)]
    assert not any(isinstance(one, Damage) for one in found)
    return found


def everything_on_disk(store: DocumentStore) -> Iterator[bytes]:
    """Every value of every record of every segment decoded, every dictionary, and every cell of the engine."""
    opened = store.backend
    opened.value_log.flush()
    codec, load, base = ValueCodec(), opened.dictionaries.load, opened.values.base
    for row in opened.manifest.segments():
        before = b""
        for found in records_of(store, row.number):
            resolve = {CODEC_ZSTD_DICTIONARY: load, CODEC_ZSTD_BODY: lambda _, body=before: body}
            before = codec.decode(found, resolve.get(found.codec, base))  # type: ignore[arg-type]
            yield before
    for path in (opened.path / "dictionaries").iterdir():
        yield decode_dictionary(path.read_bytes())
    for table in ("pages", "bodies", "meta"):
        for scanned in opened.engine.scan(table):
            yield from (cell.value for cell in scanned.cells)
    for path in (opened.path / "engine").iterdir():
        yield path.read_bytes()


def stored(store: DocumentStore, url: str) -> list[tuple[Column, int, bytes]]:
    """Column, timestamp and cell value of all that the records of a page hold, newest first."""
    records = store.table.records(store.cells.row_key(url))
    return [(column, one.timestamp, value) for one in records for column, value in one.columns.items()]


def damage_value(store: DocumentStore, url: str, column: tuple[str, bytes], at: int | None = None) -> tuple[str, int]:
    """Flip a byte of the record of a page's value; -> its file and its offset there.  Open the store anew to see it."""
    return damage_record(store, stored_value(store, url, column, at))


def damage_record(store: DocumentStore, cell_value: bytes) -> tuple[str, int]:
    """As `damage_value`, of the record that a cell's value leads to."""
    ref = parse_cell_value(cell_value).ref
    assert ref is not None, "the value stands in its cell"
    store.backend.value_log.sync()
    segment, offset, length = decode_ref(ref)
    path = store.backend.path / "segments" / f"{segment:08d}.seg"
    raw = bytearray(path.read_bytes())
    raw[offset + length - 3] ^= 255
    path.write_bytes(raw)
    return str(path), offset


def before_refs_change(store: DocumentStore, action: Callable[[], None]) -> None:
    """Do something once, when everything is encoded and durable but no ref has been changed."""
    manifest = store.backend.manifest
    real = manifest.write_segment

    def write_segment(row: SegmentRow, durability: Durability, names: SegmentNames | None = None) -> None:
        manifest.write_segment = real  # type: ignore[method-assign]
        real(row, durability, names)
        action()

    manifest.write_segment = write_segment  # type: ignore[method-assign]


def stored_value(store: DocumentStore, url: str, column: Column, at: int | None = None) -> bytes:
    """The cell value of a column of a capture as it is stored, of the newest that has one or of that at a time."""
    records = store.table.records(store.cells.row_key(url))
    return next(one.columns[column] for one in records if column in one.columns and at in (None, one.timestamp))


def change_capture(store: DocumentStore, url: str, values: Mapping[Column, bytes | None]) -> None:
    """Give the newest capture of a page other values, or none, without any verdict."""
    row_key = store.cells.row_key(url)
    with store.committer.lock:
        old = next(store.table.records(row_key))
        columns = {column: value for column, value in old.columns.items() if column not in values}
        for column, raw in values.items():
            if raw is not None:
                columns[column] = store.backend.values.append(row_key, column, old.timestamp, raw)
        row = store.table.replacement(row_key, old, old._replace(columns=columns))
        assert row is not None
        store.committer.commit(Plan([row]))
