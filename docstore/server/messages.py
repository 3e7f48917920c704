"""What requests hold and answers give, beside the types of the public API.

Knows those types; must not know HTTP.  Every class is read by `wire.shapes.read`, and described in the OpenAPI.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from docstore.model.types import (
    Append,
    Cell,
    Condition,
    DeleteCells,
    DeleteFamily,
    DeleteRow,
    Increment,
    Page,
    PutResult,
    ReadSpec,
    SetCell,
    Verdict,
)
from docstore.reading.answers import Similar
from docstore.reading.cells import Row
from docstore.reading.documents import Document
from docstore.reading.snippet import DEFAULT_LENGTH, Snippet

AnyMutation = SetCell | DeleteCells | DeleteFamily | DeleteRow
AnyRule = Append | Increment


def by_name(value: object) -> object:
    """An answer of this module as a map: its fields may become more; the public types stay as they are."""
    is_ours = isinstance(value, tuple) and type(value).__module__ == __name__
    return value._asdict() if is_ours else value  # type: ignore[attr-defined]


class PutPage(NamedTuple):
    """One page to write; see `DocumentStore.put_page`.

    Attributes:
        page: as fetched.
        policies: what to do per verdict; null takes the schema's.
        anchors, links, any_time, keep_body: as in Python.
        dry_run: give the verdict, and write nothing.
    """

    page: Page
    policies: dict[str, str] | None = None
    anchors: bool = False
    links: bool = False
    any_time: bool = False
    keep_body: bool = True
    dry_run: bool = False


class PutPages(NamedTuple):
    """Pages to write, in order; see `DocumentStore.put_pages`."""

    pages: list[Page]
    policies: dict[str, str] | None = None
    anchors: bool = False
    links: bool = False
    any_time: bool = False
    keep_body: bool = True
    dry_run: bool = False


class Results(NamedTuple):
    """A result for each page, in order; with an error they are those of the first pages, which are committed."""

    results: list[PutResult]


class GetPages(NamedTuple):
    """Pages to read; see `DocumentStore.get_many`."""

    urls: list[str]
    at: int | None = None
    families: list[str] | None = None


class Captures(NamedTuple):
    """Captures of one page, newest first."""

    captures: list[Document]


class Validators(NamedTuple):
    """What a conditional request sends."""

    etag: str
    last_modified: str
    last_visit: int


class Deleted(NamedTuple):
    """Whether there was anything to delete."""

    deleted: bool


class AddAnchor(NamedTuple):
    """A link with its text; see `DocumentStore.add_anchor`."""

    target_url: str
    source_url: str
    text: str
    at: int | None = None
    any_time: bool = False


class Done(NamedTuple):
    """It is done."""


class FindSimilar(NamedTuple):
    """A stored page (`url`), or a body that need not be stored; see `DocumentStore.similar`."""

    url: str | None = None
    body: bytes | None = None
    threshold: float | None = None
    limit: int = 10


class SimilarPages(NamedTuple):
    """Pages like it, most similar first."""

    similar: list[Similar]


class Snippets(NamedTuple):
    """Pages and a query; see `DocumentStore.snippets`."""

    urls: list[str]
    query: str = ""
    length: int = DEFAULT_LENGTH
    at: int | None = None


class SnippetList(NamedTuple):
    """A snippet for each page, null for one without text."""

    snippets: list[Snippet | None]


class Collapse(NamedTuple):
    """Search results, best first; see `DocumentStore.collapse`.

    Attributes:
        urls: of the results.
        taken: of results that are sent in parts: the groups that earlier parts have a page of, [] with the first part.
            The answer has those for the next part.
    """

    urls: list[str]
    taken: list[bytes] | None = None


class Rejected(NamedTuple):
    """A capture that a policy rejected."""

    url: str
    timestamp: int
    verdict: Verdict


class Listed(NamedTuple):
    """A stored page in a listing."""

    url: str
    row_key: bytes
    timestamp: int


class ReadRow(NamedTuple):
    """A row, by `url` or `row_key`; see `DocumentStore.cells`."""

    url: str | None = None
    row_key: bytes | None = None
    spec: ReadSpec | None = None


class OneRow(NamedTuple):
    """The row; null where it has no such cells."""

    row: Row | None


class Scan(NamedTuple):
    """Rows to read, those after `after`; see `DocumentStore.cells.scan`."""

    prefix: str | None = None
    host: str | None = None
    start: bytes = b""
    end: bytes | None = None
    after: bytes | None = None
    qualifier_regex: str | None = None
    limit: int | None = None
    spec: ReadSpec | None = None


class RowChange(NamedTuple):
    """Mutations of one row, by `url` or `row_key`."""

    mutations: list[AnyMutation]
    url: str | None = None
    row_key: bytes | None = None


class Apply(NamedTuple):
    """Mutations of rows, each row all or none."""

    rows: list[RowChange]


class CheckAndMutate(NamedTuple):
    """A condition, and what to apply where it holds and where not."""

    condition: Condition
    then: list[AnyMutation]
    otherwise: Sequence[AnyMutation] = ()
    url: str | None = None
    row_key: bytes | None = None


class Held(NamedTuple):
    """Whether the condition held."""

    held: bool


class ReadModifyWrite(NamedTuple):
    """Rules to apply to the newest values of columns."""

    rules: list[AnyRule]
    url: str | None = None
    row_key: bytes | None = None


LONG_MESSAGES = frozenset({PutPage, PutPages, FindSimilar, Collapse, Apply, CheckAndMutate, ReadModifyWrite})
"""Messages that hold bodies, values or the groups of long results; every other one has at most `Limits.call_bytes`."""


class Cells(NamedTuple):
    """Cells, as they are now."""

    cells: list[Cell]


class Acknowledged(NamedTuple):
    """How many entries the list of what was lost had."""

    acknowledged: int


class StoredBytes(NamedTuple):
    """Bytes in segments."""

    stored_bytes: int


class Losses(NamedTuple):
    """What opens of this store have found lost."""

    lost: list[Any]
    lost_commits: list[Any]
    set_aside: list[Any]


class Bounds(NamedTuple):
    """How much one request may hold."""

    request_bytes: int
    batch_pages: int
    urls: int
    call_bytes: int


class About(NamedTuple):
    """What this server is.

    Attributes:
        docstore: its version.
        boot: names this run of it.
        pid: its process.
        path: of the store.
        archive: URL of the archive API, or "".
        limits: of one request.
        grade: what the asker may do.
    """

    docstore: str
    boot: str
    pid: int
    path: str
    archive: str
    limits: Bounds
    grade: str
