"""Salvage: reading pages from the records of a store whose rows are lost.

It opens no engine, changes nothing, takes no lock.  A record names its row, column and time, so bodies, texts and
headers above 512 bytes are found.  Smaller values, status, verdicts and references to another page's body are only in
rows, and lost.  Delete marks are applied in the order of the records.  A page that was deleted during a compaction may
come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from docstore.model import capture
from docstore.model.capture import Column
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import (
    CAPTURE_FAMILY,
    CODEC_ZSTD_BODY,
    CODEC_ZSTD_DELTA,
    CODEC_ZSTD_DICTIONARY,
    DICTIONARY_DIRECTORY,
    RECORD_DELETE_COLUMN,
    RECORD_DELETE_FAMILY,
    RECORD_DELETE_ROW,
    RECORD_VALUE,
    SEGMENT_DIRECTORY,
    SEGMENT_SUFFIX,
    SET_ASIDE_DIRECTORY,
)
from docstore.model.keys import url_of
from docstore.model.plain import Plain
from docstore.model.types import Headers
from docstore.storage.bases import value_name
from docstore.storage.files import Files, ReadFile
from docstore.storage.unreadable import SetAside
from docstore.tablets.codec import ValueCodec
from docstore.tablets.dictionaries import DictionaryFiles
from docstore.tablets.leftovers import list_set_aside
from docstore.tablets.record import (
    Damage,
    Record,
    Ref,
    body_place,
    decode_record,
    deleted_range,
    walk_records,
)

COLUMNS = frozenset((capture.BODY, capture.MAIN, capture.TITLE, capture.HEADERS))


@dataclass(frozen=True, slots=True)
class Salvaged:
    """A salvaged capture.

    Attributes:
        url: of the page.
        timestamp: of the capture, in microseconds since 1970.
        body: the bytes; None if their record is missing or unreadable.
        title, text: as extracted; "" if there is none.
        headers: as received; empty if they were short, because then they are in no record.
    """

    url: str
    timestamp: int
    body: bytes | None
    title: str
    text: str
    headers: Headers


@dataclass
class SalvageReport(Plain):
    """What was found; complete after the last capture.

    Attributes:
        captures, bodies, texts: salvaged.
        unreadable: valid records with a missing dictionary or base.
        damaged: parts of segments that are no valid records.
    """

    captures: int = 0
    bodies: int = 0
    texts: int = 0
    unreadable: int = 0
    damaged: int = 0


class _Place(NamedTuple):
    """The position of a record, and the base that it needs."""

    handle: ReadFile
    ref: Ref
    base: bytes


Captures = dict[bytes, dict[int, dict[Column, _Place]]]


class Salvage:
    """Reads the segments of a store's folder.

    Args:
        folder: of the store.
        only_set_aside: skip the store's own segments, which may have rows.
    Raises:
        InvalidArgument: there are no segments.
    """

    def __init__(self, folder: Path, *, only_set_aside: bool = False) -> None:
        self.report = SalvageReport()
        self._files = Files()
        self._only_set_aside = only_set_aside
        self._codec = ValueCodec()
        self._dictionaries = DictionaryFiles(self._files, folder / DICTIONARY_DIRECTORY)
        self._segments = folder / SEGMENT_DIRECTORY
        self._set_aside = folder / SET_ASIDE_DIRECTORY
        self._parts = sorted(self._all_parts(), key=lambda part: (part.segment, not part.is_in_place, part.start))
        self._plain: list[_Place] = []
        """Bodies and texts that are no deltas, also of deleted pages: they may be bases."""
        self._named: set[bytes] = set()
        self._bases: dict[bytes, _Place] = {}
        if not self._parts:
            raise InvalidArgument(f"there are no segments in {folder}; name the folder of a store")

    def _all_parts(self) -> Iterator[SetAside]:
        for name in self._files.names(self._segments) if self._files.exists(self._segments) else ():
            stem = name.removesuffix(SEGMENT_SUFFIX)
            if stem != name and stem.isdecimal():
                yield SetAside(name, int(stem), self._files.length_bytes(self._segments / name), is_in_place=True)
        yield from list_set_aside(self._files, self._set_aside)

    def captures(self) -> Iterator[Salvaged]:
        """All captures with a salvaged body or text, by row key and time."""
        everything: Captures = {}
        wanted: set[tuple[bytes, int]] = set()
        for part in self._parts:
            self._read(part, everything, wanted)
        self._find_bases()
        for row_key in sorted(everything):
            for timestamp, columns in sorted(everything[row_key].items()):
                if self._only_set_aside and (row_key, timestamp) not in wanted:
                    continue
                salvaged = self._capture(row_key, timestamp, columns)
                if salvaged.body is None and not salvaged.text:
                    continue
                self.report.captures += 1
                self.report.bodies += salvaged.body is not None
                self.report.texts += bool(salvaged.text)
                yield salvaged

    def _read(self, part: SetAside, everything: Captures, wanted: set[tuple[bytes, int]]) -> None:
        handle = self._files.open_read((self._segments if part.is_in_place else self._set_aside) / part.name)
        for ref, record in walk_records(handle, part.segment):
            if isinstance(record, Damage):
                self.report.damaged += 1
            elif record.kind == RECORD_VALUE:
                column = record.family, record.qualifier
                if column in COLUMNS:
                    place = _Place(handle, ref, record.related if record.codec == CODEC_ZSTD_DELTA else b"")
                    everything.setdefault(record.row_key, {}).setdefault(record.timestamp, {})[column] = place
                    if place.base:
                        self._named.add(place.base)
                    elif column in (capture.BODY, capture.MAIN):
                        self._plain.append(place)
                    if not part.is_in_place:
                        wanted.add((record.row_key, record.timestamp))
            else:
                _delete(everything.get(record.row_key, {}), record)

    def _find_bases(self) -> None:
        """Find the bases that deltas name: values that are no deltas, by checksum."""
        for place in self._plain if self._named else ():
            raw = self._value(place)
            name = b"" if raw is None else value_name(raw)
            if name in self._named:
                self._bases.setdefault(name, place)

    def _capture(self, row_key: bytes, timestamp: int, columns: dict[Column, _Place]) -> Salvaged:
        values = {column: self._value(place) for column, place in columns.items()}
        self.report.unreadable += sum(value is None for value in values.values())
        return Salvaged(
            url_of(row_key),
            timestamp,
            values.get(capture.BODY),
            (values.get(capture.TITLE) or b"").decode("utf-8", "replace"),
            (values.get(capture.MAIN) or b"").decode("utf-8", "replace"),
            capture.decode_headers(headers) if (headers := values.get(capture.HEADERS)) else (),
        )

    def _value(self, place: _Place) -> bytes | None:
        """The raw value of a record; None if its dictionary or base is missing."""
        try:
            record = decode_record(place.handle.read(place.ref.length, place.ref.offset), place.ref.segment)
            return self._codec.decode(record, lambda name: self._related(place, record, name))
        except CorruptionError:
            return None

    def _related(self, place: _Place, record: Record, name: bytes) -> bytes:
        if record.codec == CODEC_ZSTD_DICTIONARY:
            return self._dictionaries.load(name)
        base = self._bases.get(name)
        if record.codec == CODEC_ZSTD_BODY:
            base = _Place(place.handle, body_place(place.ref, record), b"")
        raw = None if base is None else self._value(base)
        if raw is None:
            raise CorruptionError("the base of a delta is missing", expected=f"base {name.hex()}", found="no record")
        return raw


def _delete(captures: dict[int, dict[Column, _Place]], mark: Record) -> None:
    """Apply a delete mark to a row's captures."""
    if mark.kind == RECORD_DELETE_ROW:
        captures.clear()
    if mark.kind not in (RECORD_DELETE_FAMILY, RECORD_DELETE_COLUMN):
        return
    is_capture = mark.family == CAPTURE_FAMILY
    start, end = (0, None) if mark.kind == RECORD_DELETE_FAMILY else deleted_range(mark)
    for timestamp, columns in captures.items():
        if timestamp < start or (end is not None and timestamp >= end):
            continue
        for family, qualifier in list(columns):
            is_column = family == mark.family and (mark.kind == RECORD_DELETE_FAMILY or qualifier == mark.qualifier)
            if is_capture or is_column:
                del columns[family, qualifier]
