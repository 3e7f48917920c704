"""What a search is asked and answers, and what an update of the index did: types alone, without tantivy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from docstore.model.types import Time, Verdict
from docstore.reading.snippet import Snippet


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that a search found.

    Attributes:
        url: of the page.
        title: of its newest live capture; "" for none.
        timestamp: of that capture, in microseconds since 1970.
        status: of its fetch.
        verdict: that it got when it was written; None if it has none.
        score: higher is better; comparable within one search.
        duplicates: pages of the same cluster that are not shown, of those that were looked at.
        snippet: passages that answer the query; None if the page has no text, or the time was up.
    """

    url: str
    title: str
    timestamp: int
    status: int
    verdict: Verdict | None
    score: float
    duplicates: int = 0
    snippet: Snippet | None = None


@dataclass(frozen=True, slots=True)
class SearchResults:
    """What a search found.

    Attributes:
        total: pages that match, duplicates included.
        hits: those asked for, best first.
        complete: whether there was time for duplicates and snippets of all of them.
    """

    total: int
    hits: list[Hit]
    complete: bool = True


class SearchOptions(TypedDict, total=False):
    """Options of a search.

    Attributes:
        host: only pages of this host, or of one below it.
        lang: only pages in this language, such as "hi": that of `note:lang`, else the one that the page declares.
        since, until: only captures from this time on, and before that one.
        status: of the fetch; left out, any 2xx; 0 for any.
        limit: most hits; 10 if left out.
        offset: hits that are left out at the beginning.
        collapse: show one page of each cluster, which is the default.
        length: characters of a snippet; 0 for none.
        seconds: after which duplicates are not looked for any more, and snippets not made.
    """

    host: str | None
    lang: str | None
    since: Time | None
    until: Time | None
    status: int | None
    limit: int
    offset: int
    collapse: bool
    length: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What an update of the index did.

    Attributes:
        pages: live pages that it saw.
        added, changed, removed: pages of the index.
        scrubbed: pages that were added again, so that words of pages that have gone leave the files.
        unreadable: pages of which a text could not be read; they are found by the others.
        index_bytes: of all files of the index.
        seconds: that it took.
    """

    pages: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    scrubbed: int = 0
    unreadable: int = 0
    index_bytes: int = 0
    seconds: float = 0.0
