"""Two captures side by side: which words went, which came.

Knows texts and `worddiff`; must not know HTTP.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from docstore.model import keys
from docstore.reading.documents import Document
from docstore.reports.worddiff import Change, Piece, word_diff
from docstore.store import DocumentStore

MOST_CHARACTERS = 40_000
"""Of each text: what is longer is compared up to here, so that a comparison takes no more than a second or so."""
FAMILIES = ("http", "text", "dedup")


class Row(NamedTuple):
    """A block of both texts, or a run of blocks without a change."""

    old: list[Piece]
    new: list[Piece]
    unchanged: int = 0


def comparison(store: DocumentStore, one: str, one_at: int | None, other: str, other_at: int | None) -> dict[str, Any]:
    """Values of `diff.html`.  Without another URL and time: with the version before.

    Raises:
        InvalidArgument: not URLs that could be stored.
    """
    one_url = keys.canonical_url(keys.complete_url(one))
    other_url = keys.canonical_url(keys.complete_url(other)) if other else one_url
    if not other and other_at is None:
        found = store.get(one_url, at=one_at, versions=2, families=FAMILIES)
        pages = [] if found is None else [Document(found.row_key, (each,)) for each in reversed(found.captures)]
    else:
        read = (store.get(one_url, at=one_at, families=FAMILIES), store.get(other_url, at=other_at, families=FAMILIES))
        pages = [page for page in read if page is not None]
    values: dict[str, Any] = {"one": one_url, "other": other_url, "one_at": one_at, "other_at": other_at}
    if len(pages) < 2:
        return values | {"pages": None}
    texts = [page.text or "" for page in pages]
    rows = side_by_side(texts[0][:MOST_CHARACTERS], texts[1][:MOST_CHARACTERS])
    changed = [row for row in rows if not row.unchanged]
    return values | {
        "pages": pages,
        "rows": rows,
        "is_same": not changed,
        "is_cut": max(map(len, texts)) > MOST_CHARACTERS,
        "old_words": _words(row.old for row in changed),
        "new_words": _words(row.new for row in changed),
    }


def side_by_side(old: str, new: str) -> list[Row]:
    """Blocks of both texts beside each other; runs of equal ones are counted, but for one at each end of a change."""
    blocks: list[Row] = []
    left: list[Piece] = []
    right: list[Piece] = []
    for piece in [*word_diff(old, new), Piece(Change.BREAK, "")]:
        if piece.text:
            left += [piece] if piece.change is not Change.NEW else []
            right += [piece] if piece.change is not Change.OLD else []
        elif piece.change is Change.BREAK and (left or right):
            blocks.append(Row(left, right))
            left, right = [], []
    return _folded(blocks)


def _folded(blocks: list[Row]) -> list[Row]:
    is_changed = [any(piece.change is not Change.SAME for piece in (*row.old, *row.new)) for row in blocks]
    shown: list[Row] = []
    hidden = 0
    for index, row in enumerate(blocks):
        if any(is_changed[max(0, index - 1) : index + 2]):
            shown += [Row([], [], hidden)] if hidden else []
            shown.append(row)
            hidden = 0
        else:
            hidden += 1
    return shown + ([Row([], [], hidden)] if hidden else [])


def _words(sides: Any) -> int:
    return sum(len(piece.text.split()) for side in sides for piece in side if piece.change is not Change.SAME)
