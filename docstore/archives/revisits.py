"""Revisits that wait for the page that they refer to, and the names that they have for it."""

from __future__ import annotations

import hashlib
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from os import SEEK_END
from typing import TypeAlias

import msgpack

from docstore.archives.entries import Recorded, RevisitEntry
from docstore.model.capture import parse_digest
from docstore.model.types import Headers, Page

REVISIT_SPOOL_BYTES = 8 << 20
"""Bytes of revisits kept in memory; more go to a temporary file."""
MICROS_A_SECOND = 1_000_000


class RevisitSpool:
    """Revisits in the order in which they were added; many of them lie in a temporary file."""

    def __init__(self) -> None:
        self._places = array("Q")
        self._file = tempfile.SpooledTemporaryFile(max_size=REVISIT_SPOOL_BYTES)  # noqa: SIM115

    def __enter__(self) -> RevisitSpool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, source: int, entry: RevisitEntry) -> None:
        """Append a revisit of the source with that number."""
        packed = msgpack.packb([source, asdict(entry)], unicode_errors="surrogateescape")
        self._places.append(self._file.seek(0, SEEK_END))
        self._file.write(len(packed).to_bytes(4, "little") + packed)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, number: int) -> tuple[int, RevisitEntry]:
        """A revisit by its number, and the number of its source."""
        self._file.seek(self._places[number])
        packed = self._file.read(int.from_bytes(self._file.read(4), "little"))
        source, fields = msgpack.unpackb(packed, unicode_errors="surrogateescape")
        for name in ("headers", "concurrent_to"):
            fields[name] = tuple(tuple(one) if isinstance(one, list) else one for one in fields[name])
        fields["recorded"] = fields["recorded"] and Recorded(*fields["recorded"])
        return source, RevisitEntry(**fields)

    def __iter__(self) -> Iterator[tuple[int, RevisitEntry]]:
        return map(self.__getitem__, range(len(self)))


def revisited(entry: RevisitEntry, body: bytes, status: int, headers: Headers) -> Page:
    """The page of a revisit, whose own head counts before that of its original."""
    return Page(
        entry.url,
        body,
        entry.status or status,
        entry.headers or headers,
        entry.fetched_at,
        entry.ip,
        entry.payload_digest,
        entry.docno,
    )


Name: TypeAlias = tuple[str, str | bytes, int | None]
"""By which a revisit may name its original: the kind of name, and the name."""


def names_of(url: str, at: int | None, record_id: str, page: Page | None = None) -> Iterator[Name]:
    """The names of a record by which revisits may refer to it."""
    address = url.partition("://")[2]
    if record_id:
        yield "id", record_id.strip("<>"), None
    yield "url", address, (at or 0) // MICROS_A_SECOND
    yield "url", address, None
    if page is not None and (recorded := parse_digest(page.payload_digest)) is not None:
        yield "digest", recorded[1], None
    if page is not None and page.body:
        for algorithm in ("sha1", "sha256", "md5"):
            yield "digest", hashlib.new(algorithm, page.body, usedforsecurity=False).digest(), None


def names_of_original(entry: RevisitEntry) -> Iterator[Name]:
    """The names that a revisit has for its original."""
    if entry.refers_to:
        yield "id", entry.refers_to.strip("<>"), None
    if entry.refers_to_uri:
        at = None if entry.refers_to_date is None else entry.refers_to_date // MICROS_A_SECOND
        yield "url", entry.refers_to_uri.partition("://")[2], at
    if (recorded := parse_digest(entry.payload_digest)) is not None:
        yield "digest", recorded[1], None


def those_of(wanted: Mapping[int, list[int]], names: Iterable[Name], resolved: set[int]) -> list[int]:
    """The revisits that name a record and have not been given."""
    numbers = (number for name in names for number in wanted.get(hash(name), ()))
    return [number for number in dict.fromkeys(numbers) if number not in resolved]


def both_schemes(url: str) -> list[str]:
    """A URL as it is, then with https in place of http or the other way round."""
    scheme, mark, rest = url.partition("://")
    other = {"http": "https", "https": "http"}.get(scheme.lower())
    return [url, other + mark + rest] if other else [url] if url else []
