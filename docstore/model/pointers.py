"""Names in the index: pages by row and time, texts and bodies by the first bytes of their checksums.

Knows `format`; must not know the index, nor load numpy: reading imports this.
"""

from __future__ import annotations

from typing import NamedTuple

from docstore.model.format import TEXT_NUMBER_BYTES

_BODY_HEAD_BYTES = 8


class PagePointer(NamedTuple):
    """The target of a posting: sorts oldest first, then by row key."""

    timestamp: int
    row_key: bytes


def text_number(text_checksum: bytes) -> bytes:
    """The first bytes of a text checksum's digest: the text's name in every bucket."""
    return text_checksum[1 : 1 + TEXT_NUMBER_BYTES]


def body_head(body_checksum: bytes) -> bytes:
    """Scheme byte and first bytes of a body checksum's digest."""
    return body_checksum[: 1 + _BODY_HEAD_BYTES]
