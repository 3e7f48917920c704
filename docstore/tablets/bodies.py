"""The bodies seam: where large values lie, and the small ref by which a row names one.

Knows `record`.  Must not know how a payload was made, nor which row holds which ref.  A ref is opaque above
this seam; here it is (segment, offset, length).  `segment.py` keeps bodies in files, `dry_run.py` those of a dry run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from docstore.model.codec import encode_varint
from docstore.model.errors import CorruptionError
from docstore.model.format import (
    CODEC_ZSTD_DELTA,
    CODEC_ZSTD_DICTIONARY,
    RECORD_RELATED_BYTES,
    SEGMENT_ACTIVE,
    SEGMENT_HEADER_BYTES,
)
from docstore.tablets.record import Record


class Ref(NamedTuple):
    """A ref taken apart: the record's segment, its byte offset there, and its length in bytes."""

    segment: int
    offset: int
    length: int


class Tail(NamedTuple):
    """Where the next record would go."""

    segment: int
    offset: int


class SegmentRow(NamedTuple):
    """What the manifest knows of one segment.

    Attributes:
        number: of the segment; never given twice.
        state: SEGMENT_ACTIVE, SEGMENT_LIVE or SEGMENT_DRAINING.
        committed_bytes: rows refer to nothing behind this.
        synced_bytes: this much has survived an fsync; at most `committed_bytes`.
        tablet: number of the tablet that its records belong to; 0 for records of any tablet.
        level: of the compaction that wrote it, or SEGMENT_OF_MARKS; "" for one of the write path.
        run: the number that this compaction kept for delete marks; 0 for one of the write path.
    """

    number: int
    state: str = SEGMENT_ACTIVE
    committed_bytes: int = SEGMENT_HEADER_BYTES
    synced_bytes: int = 0
    tablet: int = 0
    level: str = ""
    run: int = 0


class SegmentNames:
    """What the records of a segment need to be decoded.

    Attributes:
        bases: names of the bases of its deltas.
        dictionaries: checksums of dictionaries.
    """

    def __init__(self, bases: Iterable[bytes] = (), dictionaries: Iterable[bytes] = ()) -> None:
        self.bases = set(bases)
        self.dictionaries = set(dictionaries)

    def note(self, record: Record) -> None:
        """Add what a record names."""
        if record.codec == CODEC_ZSTD_DELTA:
            self.bases.add(record.related)
        elif record.codec == CODEC_ZSTD_DICTIONARY:
            self.dictionaries.add(record.related)

    def encode(self) -> dict[str, bytes]:
        """As the manifest has it."""
        return {"bases": b"".join(sorted(self.bases)), "dictionaries": b"".join(sorted(self.dictionaries))}

    @classmethod
    def decode(cls, value: Mapping[str, bytes]) -> SegmentNames:
        """Of what `encode` gives."""
        return cls(*(_names(value.get(kind, b"")) for kind in ("bases", "dictionaries")))


def _names(joined: bytes) -> Iterator[bytes]:
    return (joined[at : at + RECORD_RELATED_BYTES] for at in range(0, len(joined), RECORD_RELATED_BYTES))


class SegmentProgress(NamedTuple):
    """How far one segment has got since it was opened for appending.

    Attributes:
        segment: its number.
        active: it takes the next records.
        written_bytes: bytes handed to the operating system; None after a failure, when only the manifest's committed
            length can be trusted.
        synced_bytes: bytes that have survived an fsync.
    """

    segment: int
    active: bool
    written_bytes: int | None
    synced_bytes: int


class Bodies(Protocol):
    """Records by ref.  Reads come from any thread; `append`, `flush` and `sync` from one at a time.

    A failure of `append`, `flush` or `sync` concerns every record that no `sync` has confirmed: their refs are void,
    except those of groups that were committed after a `flush`.
    """

    def begin_group(self, number: int) -> None:
        """Say which commit the records are for that are taken from now on: its number, the last one's plus 1."""
        ...

    def append(self, records: Sequence[Record]) -> list[bytes]:
        """Take records; returns a ref of each.  They can be read at once, and may still lie in a buffer.

        Raises:
            StorageError: none was taken.
        """
        ...

    def flush(self) -> None:
        """Hand everything taken to the operating system: it survives kill -9 of this process.

        Call it before the commit of every group that is not synced, at every durability.
        """
        ...

    def sync(self) -> None:
        """Make everything taken survive power loss.

        Raises:
            StorageError: the group's refs are void; the next `append` starts a new segment.
        """
        ...

    def drop(self) -> None:
        """Forget what was taken and not handed on: the group that it was for is not committed; its refs are void."""
        ...

    def abandon(self) -> None:
        """Never append to the active segment again: the group that it was for could not be committed."""
        ...

    def source(self, segment: int, offset: int, length: int) -> bytes:
        """The bytes of a record, as far as they are there; whether they are sound is not looked at.

        Raises:
            CorruptionError: the segment is missing.
        """
        ...

    def read(self, ref: bytes) -> Record:
        """The record of a ref.

        Raises:
            CorruptionError: it is damaged, or not there.
        """
        ...

    def read_many(self, refs: Sequence[bytes]) -> Iterator[tuple[int, Record]]:
        """Records of refs in the order in which they lie, each with its index in `refs`."""
        ...

    def tail(self) -> Tail:
        """Where the next record would go, if no new segment is begun."""
        ...

    def progress(self) -> list[SegmentProgress]:
        """How far each segment written by this object has got; the manifest is told with the group's rows."""
        ...

    def close(self) -> None:
        """Sync and let go; a second call does nothing."""
        ...


def encode_ref(segment: int, offset: int, length: int) -> bytes:
    """Encode a ref: three varints, 8 bytes for nearly every page."""
    return encode_varint(segment) + encode_varint(offset) + encode_varint(length)


def decode_ref(ref: bytes) -> Ref:
    """Take a ref apart.

    Raises:
        CorruptionError: not three whole varints.
    """
    numbers = []
    number = shift = 0
    for byte in ref:
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            numbers.append(number)
            number = shift = 0
        else:
            shift += 7
    if shift or len(numbers) != 3:
        raise CorruptionError("a ref is damaged", expected="three varints", found=ref.hex() or "nothing")
    return Ref(*numbers)
