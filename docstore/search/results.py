"""Types of a search and of an update of the index, without tantivy, so that clients can import them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from docstore.model import markup
from docstore.model.plain import Plain
from docstore.model.types import Time, Verdict
from docstore.reading.documents import Rejected
from docstore.reading.snippet import Snippet


@dataclass(frozen=True, slots=True)
class Hit(Plain):
    """A page that matches a query.

    Attributes:
        url: of the page.
        title: of its newest live capture, or "".
        timestamp: of that capture, in microseconds since 1970.
        status: HTTP status of that capture.
        verdict: when it was written; None if it has none.
        score: higher is better; comparable within one search.
        duplicates: number of collapsed pages of the same cluster among the pages that were read.
        snippet: passages with the words of the query; None if the page has no text, or the time limit was reached.
        rejected: as of a `Document`.
    """

    url: str
    title: str
    timestamp: int
    status: int
    verdict: Verdict | None
    score: float
    duplicates: int = 0
    snippet: Snippet | None = None
    rejected: Rejected | None = None


@dataclass(frozen=True, slots=True)
class SearchResults(Plain):
    """The results of a search.

    Attributes:
        total: number of matching pages, with duplicates.
        hits: the requested ones, best first.
        complete: False if the time limit was reached before all duplicates and snippets were computed.
    """

    total: int
    hits: list[Hit]
    complete: bool = True

    def _repr_html_(self) -> str:
        """For notebooks."""
        rows = [
            (
                markup.element("bdi", hit.title),
                markup.url_text(hit.url),
                markup.moment(hit.timestamp),
                f"{hit.score:.2f}",
            )
            for hit in self.hits
        ]
        table = markup.table(("title", "URL", "time", "score"), rows, right=(3,))
        return markup.card(f"{markup.counted(self.total, 'page')} found", (), table)


class SearchOptions(TypedDict, total=False):
    """Options of a search.

    Attributes:
        host: only pages of this host or its subdomains.
        lang: only pages in this language, such as "hi": that of `note:lang`, else the one that the page declares.
        since, until: only captures with ``since <= timestamp < until``.
        status: HTTP status; any 2xx by default; 0 for any.
        limit: maximum number of hits, by default 10.
        offset: number of hits to skip.
        collapse: show one page of each cluster; True by default.
        length: characters of a snippet; 0 for none.
        seconds: time limit, after which duplicates are not collapsed and snippets not computed.
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
class IndexReport(Plain):
    """The report of an update of the index.

    Attributes:
        pages: live pages of the store.
        added, changed, removed: pages of the index.
        scrubbed: pages that were added again to remove the words of removed pages from the files.
        unreadable: pages with a text that could not be read; they are indexed by their other texts.
        index_bytes: size of all files of the index.
        seconds: wall time.
    """

    pages: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    scrubbed: int = 0
    unreadable: int = 0
    index_bytes: int = 0
    seconds: float = 0.0
