"""Archives, one after the other -> portions: some pages, their places, and what else came before the last of them.

Knows the readers of `archives.formats`.  Must not know the store, nor which process it runs in: the same
input gives the same portions in both, so counts and damage do not depend on where it was read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, NamedTuple

from docstore.archives.formats.entries import (
    BODY_LIMIT_BYTES,
    DamagedEntry,
    Entry,
    PageEntry,
    RevisitEntry,
    SkippedEntry,
)
from docstore.archives.formats.reader import read
from docstore.model.errors import DocstoreError
from docstore.model.keys import holds_password, without_password
from docstore.model.types import Page

MAX_REST = 256
"""A portion ends with so many revisits or errors, too: a file of nothing else must not be held in memory."""

_WEB_SCHEMES = ("http:", "https:", "ftp:", "gemini:")


class Place(NamedTuple):
    """Where a record lies: the number of its source among those given, and its offset there."""

    source: int
    offset: int


class ReadError(NamedTuple):
    """A damaged record, a page that is not whole, or a file that cannot be read: where, why, and of which URL."""

    place: Place
    reason: str
    url: str = ""


@dataclass(slots=True)
class Rest:
    """What is no page.

    Attributes:
        skipped: number of skipped records by reason, damaged ones among them.
        errors: the damaged ones, and what is wrong with pages that were taken all the same.
        revisits: with the numbers of their sources.
        passwords: pages and revisits whose URL names a user and a password.
    """

    skipped: Counter[str] = field(default_factory=Counter)
    errors: list[ReadError] = field(default_factory=list)
    revisits: list[tuple[int, RevisitEntry]] = field(default_factory=list)
    passwords: int = 0

    def note(self, source: int, entry: Entry) -> None:
        """Count a record, or keep what it says."""
        if isinstance(entry, RevisitEntry):
            self.revisits.append((source, entry))
        elif isinstance(entry, SkippedEntry):
            self.skipped[entry.reason] += 1
        elif isinstance(entry, DamagedEntry):
            self.note_error(source, entry.offset, "damaged", entry.reason, entry.url)
        else:
            self.skipped["not_a_web_url"] += 1

    def note_error(self, source: int, offset: int, word: str, reason: str, url: str = "") -> None:
        """Count an error and name it."""
        self.skipped[word] += 1
        self.errors.append(ReadError(Place(source, offset), reason, url))

    def note_flaw(self, source: int, entry: PageEntry) -> None:
        """Name what is wrong with a page that was taken."""
        self.errors.append(ReadError(Place(source, entry.offset), f"taken as it is: {entry.flaw}", entry.page.url))


class Portion(NamedTuple):
    """Pages in input order, the places that they come from, and the rest."""

    pages: list[Page]
    places: list[Place]
    rest: Rest


def portions(
    sources: Sequence[str | IO[bytes]],
    *,
    most_pages: int,
    most_bytes: int,
    body_limit_bytes: int = BODY_LIMIT_BYTES,
    salvage: bool = False,
    strip_passwords: bool = False,
) -> Iterator[Portion]:
    """Everything in the sources, in order; a source that cannot be read is an error, and the next one follows.

    Args:
        sources: paths, or binary streams.
        most_pages, most_bytes: a portion ends with so many pages, or so many bytes of bodies.
        body_limit_bytes: longest body; a longer one is an error.
        salvage: take what there is of pages that are cut or break.
        strip_passwords: leave user and password out of URLs that name both.
    """
    pages: list[Page] = []
    places: list[Place] = []
    rest = Rest()
    held_bytes = 0
    for number, source in enumerate(sources):
        try:
            for entry in read(source, body_limit_bytes, salvage=salvage):
                if holds_password(_url(entry)):
                    rest.passwords += 1
                    if strip_passwords:
                        entry = _without_password(entry)
                if isinstance(entry, PageEntry) and entry.page.url.lower().startswith(_WEB_SCHEMES):
                    pages.append(entry.page)
                    places.append(Place(number, entry.offset))
                    held_bytes += len(entry.page.body)
                    if entry.flaw:
                        rest.note_flaw(number, entry)
                    is_full = len(pages) >= most_pages or held_bytes >= most_bytes
                else:
                    rest.note(number, entry)
                    is_full = len(rest.errors) + len(rest.revisits) >= MAX_REST
                del entry  # a large page must not be held until the next one is there
                if is_full:
                    yield Portion(pages, places, rest)
                    pages, places, rest, held_bytes = [], [], Rest(), 0
        except (DocstoreError, OSError) as error:
            rest.note_error(number, 0, "unreadable_file", str(error))
    yield Portion(pages, places, rest)


def _url(entry: Entry) -> str:
    if isinstance(entry, PageEntry):
        return entry.page.url
    return "" if isinstance(entry, SkippedEntry) else entry.url


def _without_password(entry: Entry) -> Entry:
    if isinstance(entry, PageEntry):
        return replace(entry, page=entry.page._replace(url=without_password(entry.page.url)))
    if isinstance(entry, RevisitEntry):
        refers_to = without_password(entry.refers_to_uri)
        return replace(entry, url=without_password(entry.url), refers_to_uri=refers_to)
    return entry if isinstance(entry, SkippedEntry) else replace(entry, url=without_password(entry.url))
