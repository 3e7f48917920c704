"""What the writer knows of a page of its group, of a URL's own row, and of a text to lean on.

Types only; `rows.py` gives them.
"""

from __future__ import annotations

from typing import NamedTuple

from docstore.dedup.detector import StoredPage
from docstore.storage.sharing import Base


class PendingPage(NamedTuple):
    """A page of the group in flight, as later pages of the group see it.

    Attributes:
        page: what every verdict needs.
        title: as shown.
        status: of HTTP.
        text: main text in UTF-8, as stored.
        body: as fetched.
        envelope: where the body lies.
        base: what a page like this one can lean on: this body, or the base that it leans on itself.
    """

    page: StoredPage
    title: str
    status: int
    text: bytes
    body: bytes
    envelope: bytes
    base: Base | None


class TextBase(NamedTuple):
    """The text of a base: what texts of pages that lean on the base lean on.

    Attributes:
        raw: the text, in UTF-8.
        envelope: where it lies.
        named: the base's row names it already.
    """

    raw: bytes
    envelope: bytes
    named: bool


class OwnVersion(NamedTuple):
    """The version of a URL before the page being written.

    Attributes:
        timestamp: of its newest confirmation.
        body: its envelope in `page:body`.
        checksum: of its body; b"" where that is not known.
        text_checksum: of its text, or b"".
        text_timestamp: where its text lies.
    """

    timestamp: int
    body: bytes
    checksum: bytes
    text_checksum: bytes
    text_timestamp: int


class OwnRow(NamedTuple):
    """What a row holds at and before a timestamp.

    Attributes:
        taken: checksum of a capture at that very timestamp, hidden by a policy or not; b"" where its cell is gone; None
            where the timestamp is free.
        verdict: that capture's stored verdict, encoded; b"" where there is none that can be read.
        previous: the newest live version before, or None.
    """

    taken: bytes | None
    verdict: bytes
    previous: OwnVersion | None
