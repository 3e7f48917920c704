"""Clusters of the last sweep, as far as some rows show them.

Knows the `dedup` columns of a row; must not know HTTP.  A cluster's pages may lie anywhere, and a store has millions:
each view reads ROWS rows in their order and counts the pages of each cluster among them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from docstore.model import capture, keys
from docstore.model.errors import InvalidArgument
from docstore.model.types import ReadSpec
from docstore.store import DocumentStore

ROWS = 5000
SHOWN = 100
SHOWN_MEMBERS = 5


def clusters(store: DocumentStore, after: str) -> dict[str, Any]:
    """Values of `clusters.html`.

    Args:
        store: to be read.
        after: the row key behind which to go on, in hexadecimal; "" for the beginning.
    """
    try:
        start = bytes.fromhex(after) + b"\0" if after else b""
    except ValueError as error:
        raise InvalidArgument("`after` is what this view gave, in hexadecimal") from error
    family, qualifier = capture.CANONICAL_PAGE
    spec = ReadSpec(families=(family,), qualifier_prefix=qualifier, versions=1)
    counts: Counter[bytes] = Counter()
    members: dict[bytes, list[tuple[str, float]]] = {}
    rows, last = 0, b""
    for row in store.cells.scan(start=start, limit=ROWS, spec=spec):
        rows, last = rows + 1, row.row_key
        cell = next((one for one in row.cells if one.qualifier == qualifier), None)
        if cell is None:
            continue
        place = capture.decode_cluster_place(cell.value)
        if place.row_key == row.row_key:
            continue
        counts[place.row_key] += 1
        known = members.setdefault(place.row_key, [])
        if len(known) < SHOWN_MEMBERS:
            known.append((row.url, place.similarity))
    return {
        "rows": rows,
        "after": after,
        "next": last.hex() if rows == ROWS else "",
        "more": max(0, len(counts) - SHOWN),
        "clusters": [
            {"url": keys.url_of(row_key), "count": count, "members": members[row_key]}
            for row_key, count in counts.most_common(SHOWN)
        ],
    }
