"""What a writer is given, and what every writer promises.

Knows `model`.  Must not know the store, which fills these in, or a file format.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from docstore.model.types import Headers, Page

_LINE_BREAKS = re.compile(r"[\r\n\0]+")
_NAME = re.compile(r"[^\s:]+(?:[ \t]+[^\s:]+)*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ExportPage:
    """One version of a page on its way out.

    Attributes:
        page: as it came in; `fetched_at` is the version's timestamp, None counts as 0.
        url: of the page's row; "" where that is the page's own.
        title, text, language: as extracted, "" where there is none.
        verdict: what it was to other pages when it was written: exact, same_text, near, contained,
            similar, new; or "".
        of_url: of which page, or "".
        similarity: how like that page, in [0, 1].
    """

    page: Page
    url: str = ""
    title: str = ""
    text: str = ""
    language: str = ""
    verdict: str = ""
    of_url: str = ""
    similarity: float = 0.0

    @property
    def timestamp(self) -> int:
        """Microseconds since 1970."""
        return self.page.fetched_at or 0


class PageWriter(Protocol):
    """Writes pages one by one to a binary stream that the caller opened and closes."""

    def write(self, page: ExportPage) -> None:
        """Append one page."""
        ...


def moment(timestamp: int) -> datetime:
    """A timestamp as a date, to the millisecond."""
    return _EPOCH + timedelta(milliseconds=timestamp // 1000)


def iso_date(timestamp: int) -> str:
    """``2024-05-06T07:08:09.123Z``; without a fraction where it is 0."""
    date = moment(timestamp)
    fraction = f".{date.microsecond // 1000:03d}" if date.microsecond else ""
    return f"{date.year:04d}-{date:%m-%dT%H:%M:%S}{fraction}Z"


def one_line(text: str) -> str:
    """Text that a line-based format can hold: no line breaks, and only what UTF-8 can say."""
    return _LINE_BREAKS.sub(" ", text).strip().encode("utf-8", "replace").decode()


def one_line_headers(headers: Headers) -> Headers:
    """Headers that a line-based format can hold: no line breaks, no name that is empty or has a colon."""
    return tuple((name, one_line(value)) for name, value in headers if _NAME.fullmatch(name))
