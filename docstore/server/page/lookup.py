"""One URL: its captures on a time line, what was said of each, its text, its duplicates, and its neighbours by name.

Knows the public class of a store; must not know HTTP.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, NamedTuple

from docstore.model import capture, keys
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.types import ReadSpec
from docstore.reading.documents import Capture, Document, rejection_of
from docstore.server.page import shown
from docstore.store import DocumentStore

MOST_CAPTURES = 300
MOST_CHARACTERS = 60_000
MOST_DUPLICATES = 50
MOST_ANCHORS = 50
ROWS = 100
FAMILIES = ("http", "text", "dedup")


class Place(NamedTuple):
    """A capture on the time line."""

    x: float
    capture: Capture
    is_shown: bool


def lookup(store: DocumentStore, url: str, at: int | None) -> dict[str, Any]:
    """Values of `lookup.html`; `page` is None where there is no such page.

    Raises:
        InvalidArgument: not a URL that could be stored.
    """
    url = keys.canonical_url(keys.complete_url(url))
    found = store.get(url, at=at, families=FAMILIES)
    if found is None:
        others = [other for other in (*keys.variants(url), *keys.normal_forms(url)) if other in store]
        rejected = rejection_of(store.history(url), at)
        return {"url": url, "page": None, "others": others, "rejected": rejected, "at": at, "folder": _folder(url)}
    newest = store.get(url, versions=MOST_CAPTURES + 1, families=("http", "dedup"))
    history = () if newest is None else newest.captures
    captures = list(history[:MOST_CAPTURES])
    shown_now = found.newest
    text = shown_now.shown_text
    return {
        "url": url,
        "page": found,
        "now": shown_now,
        "verdict": shown_now.shown_verdict,
        "line": _line(captures, shown_now),
        "has_more": len(history) > MOST_CAPTURES,
        "text": text[:MOST_CHARACTERS],
        "is_cut": len(text) > MOST_CHARACTERS,
        "headers": shown_now.headers or (),
        "duplicates": _duplicates(store, url),
        "canonical": _canonical(store, found),
        "anchors": [
            (cell.qualifier.decode("utf-8", "replace"), cell.value.decode("utf-8", "replace"))
            for cell in islice(store.anchors(url), MOST_ANCHORS)
        ],
        "folder": _folder(url),
        "digits": shown.fourteen_digits(shown_now.timestamp),
        "at": at,
    }


def listing(store: DocumentStore, prefix: str, after: str) -> dict[str, Any]:
    """Values of `list.html`: pages whose URL begins so, a hundred at a time.

    Args:
        store: to be listed.
        prefix: of the URLs; "" for all.
        after: the row key behind which to go on, in hexadecimal; "" for the beginning.
    Raises:
        InvalidArgument: the prefix is none, or `after` is no row key.
    """
    start, end = keys.prefix_range(prefix) if prefix else (b"", None)
    try:
        start = max(start, bytes.fromhex(after) + b"\0") if after else start
    except ValueError as error:
        raise InvalidArgument("`after` is what a page of this list gave, in hexadecimal") from error
    spec = ReadSpec(families=(capture.BODY[0],), qualifier_prefix=capture.BODY[1], versions=1, keys_only=True)
    rows = list(store.cells.scan(start=start, end=end, limit=ROWS + 1, spec=spec))
    urls = [keys.url_of(row.row_key) for row in rows[:ROWS]]
    pages = [page for page in store.get_many(urls, families=FAMILIES) if page is not None]
    return {
        "prefix": prefix,
        "pages": pages,
        "next": rows[ROWS - 1].row_key.hex() if len(rows) > ROWS else "",
        "after": after,
    }


def _line(captures: list[Capture], current: Capture) -> list[Place]:
    xs = shown.places([one.timestamp for one in captures])
    return [Place(x, one, one.timestamp == current.timestamp) for x, one in zip(xs, captures, strict=True)]


def _duplicates(store: DocumentStore, url: str) -> list[Any]:
    try:
        return store.similar(url, limit=MOST_DUPLICATES)
    except CorruptionError:  # its text cannot be read: everything else is shown
        return []


def _canonical(store: DocumentStore, page: Document) -> tuple[str, float] | None:
    """The page that stands for it since the last sweep, and the similarity to it."""
    family, qualifier = capture.CANONICAL_PAGE
    row = store.cells.read_row(page.row_key, ReadSpec(families=(family,), qualifier_prefix=qualifier, versions=1))
    cell = next((one for one in row.cells if one.qualifier == qualifier), None) if row else None
    if cell is None:
        return None
    place = capture.decode_cluster_place(cell.value)
    return keys.url_of(place.row_key), place.similarity


def _folder(url: str) -> str:
    """The URL up to its last slash."""
    return url[: url.rindex("/") + 1] if url.count("/") > 2 else url
