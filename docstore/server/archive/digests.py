"""Digests of payloads, worked out where none is recorded: base32 SHA-1 of the body.

Knows the store.  A body is read once: the digest is kept in its row as the payload digest, and in memory where the
store cannot be written to.  What one question may read is bounded; a digest beyond that stays unknown until it is asked
for again.
"""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from docstore.model import capture
from docstore.model.errors import DocstoreError
from docstore.model.types import ReadSpec, SetCell
from docstore.server.archive.captures import Listed, sha1_digest
from docstore.store import DocumentStore

REMEMBERED = 100_000
"""Digests in memory, about 200 bytes each."""


def payload_digest(body: bytes) -> str:
    """The digest of a body as a crawler would record it: ``sha1:`` and 32 characters of base32."""
    return "sha1:" + base64.b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()


class Digests:
    """Digests of captures that have none recorded.  Thread-safe.

    Args:
        store: to read bodies from.
        most_bytes: of bodies that are read for one question.
        keep: write digests into the store.
    """

    def __init__(self, store: DocumentStore, most_bytes: int, *, keep: bool) -> None:
        self._store = store
        self._most_bytes = most_bytes
        self._keep = keep
        self._known: OrderedDict[bytes, str] = OrderedDict()
        self._lock = Lock()

    def filled(self, listed: Sequence[Listed], left_bytes: int | None = None) -> tuple[list[Listed], int]:
        """Captures with their digests, as far as the bound allows.

        Args:
            listed: captures.
            left_bytes: what the question may still read; None for all of it.
        Returns:
            The captures, and what is left of the bound.
        """
        left = self._most_bytes if left_bytes is None else left_bytes
        found: list[Listed] = []
        made: list[tuple[bytes, int, str]] = []
        for one in listed:
            digest = one.digest or self._remembered(one)
            if not digest and one.body_bytes <= left:
                left -= one.body_bytes
                digest = self._worked_out(one)
                if digest:
                    made.append((one.row_key, one.fetched_at, digest))
            found.append(one if digest == one.digest else one._replace(digest=digest))
        if made:
            self._remember(made)
        return found, left

    def knows(self, one: Listed) -> bool:
        """Whether the digest of a capture is known without reading its body."""
        return bool(one.digest or self._remembered(one))

    def _remembered(self, one: Listed) -> str:
        return self._known.get(_name(one.row_key, one.fetched_at), "")

    def _worked_out(self, one: Listed) -> str:
        try:
            document = self._store.get(one.url, at=one.timestamp, families=("page",))
        except DocstoreError:  # its body cannot be read: that is for the replay to say
            return ""
        if document is None or document.timestamp != one.timestamp or document.body is None:
            return ""
        return sha1_digest(payload_digest(document.body))

    def _remember(self, made: Sequence[tuple[bytes, int, str]]) -> None:
        """Keep digests in their rows; in memory those that cannot be."""
        if self._keep:
            try:
                self._write(made)
                return
            except DocstoreError:  # read-only, or the disk is full
                pass
        with self._lock:
            for row_key, timestamp, digest in made:
                self._known[_name(row_key, timestamp)] = digest
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

    def _write(self, made: Sequence[tuple[bytes, int, str]]) -> None:
        rows: dict[bytes, list[SetCell]] = {}
        with self._store.committer.lock:  # a page that is deleted now must not get a row again
            for row_key, timestamp, digest in made:
                spec = ReadSpec((capture.STATUS[0],), capture.STATUS[1], timestamp, timestamp + 1, keys_only=True)
                if self._store.table.read_row(row_key, spec):
                    cell = SetCell(*capture.PAYLOAD_DIGEST, timestamp, f"sha1:{digest}".encode())
                    rows.setdefault(row_key, []).append(cell)
            if rows:
                self._store.cells.apply_many(list(rows.items()))


def _name(row_key: bytes, timestamp: int) -> bytes:
    return hashlib.blake2b(row_key, digest_size=16).digest() + timestamp.to_bytes(8, "big")
