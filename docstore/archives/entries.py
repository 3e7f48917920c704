"""What a reader finds in an archive: pages, revisits, skipped records, damage.  Types and limits only.

Knows `model`.  Must not know a file format or the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from docstore.model.types import Headers, Page

BODY_LIMIT_BYTES = 256 * 1024 * 1024
"""Default limit of a decoded body.  A longer one is refused with a reason, because a body is held in memory."""
HEADER_LIMIT_BYTES = 1024 * 1024
"""Longest header of a record or of an HTTP message."""

PageKind: TypeAlias = Literal["response", "resource"]


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A page, decoded.

    Attributes:
        page: what to store.
        kind: `response` of an HTTP server, or `resource`: bytes without HTTP (with status 200).
        offset: of the record in the file; of its gzip member or zstd frame in a compressed one.
        record_id: as recorded, or "".
        flaw: what is missing or wrong though the page was accepted; else "".
    """

    page: Page
    kind: PageKind
    offset: int
    record_id: str = ""
    flaw: str = ""


@dataclass(frozen=True, slots=True)
class RevisitEntry:
    """A visit that found what an earlier record holds; `ingest` resolves it.

    Attributes:
        url: as fetched.
        fetched_at: microseconds since 1970.
        headers: of this visit, as received.
        status: of this visit; 0 where the record has no HTTP header.
        payload_digest: of the body that is not repeated, or "".
        refers_to_uri: URL of the earlier record, or "".
        refers_to_date: its time in microseconds, or None.
        profile: how the two were found to be the same, or "".
        offset: as in `PageEntry`.
        ip, docno: as in `Page`.
    """

    url: str
    fetched_at: int
    headers: Headers
    status: int
    payload_digest: str
    refers_to_uri: str
    refers_to_date: int | None
    profile: str
    offset: int
    ip: str = ""
    docno: str = ""


@dataclass(frozen=True, slots=True)
class SkippedEntry:
    """A sound record that is no page: its type, such as ``request`` or ``dns``."""

    reason: str
    offset: int


@dataclass(frozen=True, slots=True)
class DamagedEntry:
    """A record, or a stretch of bytes, that cannot be read as what it claims to be; reading continued after it.

    Attributes:
        offset: as in `PageEntry`.
        reason: what is wrong.
        url: of the record, if its header could be read; else "".
    """

    offset: int
    reason: str
    url: str = ""


Entry: TypeAlias = PageEntry | RevisitEntry | SkippedEntry | DamagedEntry
