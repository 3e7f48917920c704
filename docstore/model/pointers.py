"""How the index names things: pages by place, texts and bodies by the heads of their checksums.

Knows `format`; must not know the index, nor load numpy: reading imports this.
"""

from __future__ import annotations

from typing import NamedTuple

from docstore.model.format import TEXT_NUMBER_BYTES

_BODY_HEAD_BYTES = 8


class PagePointer(NamedTuple):
    """Where a posting leads: sorts oldest first, then by row key."""

    timestamp: int
    row_key: bytes


def text_number(text_checksum: bytes) -> bytes:
    """The head of a text checksum's digest: names a text in every bucket."""
    return text_checksum[1 : 1 + TEXT_NUMBER_BYTES]


def body_head(body_checksum: bytes) -> bytes:
    """Scheme byte and the head of a body checksum's digest."""
    return body_checksum[: 1 + _BODY_HEAD_BYTES]
