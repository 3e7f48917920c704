"""Last stage of a sweep: the cluster of each version, written into its row, in bounded groups.

Knows the columns `dedup:cluster` and `dedup:canonical`; must not know how clusters are made.  Only differences are
written: a killed sweep continues, and a second one writes nothing.  A version without a cluster gets columns only if
its verdict names a page: the result of the sweep replaces the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from docstore.model import capture
from docstore.model.capture import ClusterPlace, Column
from docstore.store import DocumentStore
from docstore.sweep.pages import Versions, placed_checksum

GROUP_CAPTURES = 1000
_NONE: Mapping[Column, bytes | None] = {capture.CLUSTER: None, capture.CANONICAL_PAGE: None}


def write_back(
    store: DocumentStore,
    versions: Versions,
    places: Callable[[int], ClusterPlace | None],
    on_progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write the differences.

    Args:
        store: whose rows.
        versions: as they were read.
        places: number of a version -> its cluster; None for one that needs no columns.
        on_progress: called with versions written and an upper bound of them.
    Returns:
        Versions whose columns were changed.
    """
    written = 0
    changes = _changes(versions, places)
    while group := list(islice(changes, GROUP_CAPTURES)):
        written += store.cells.set_computed(group)
        if on_progress is not None and len(group) == GROUP_CAPTURES:
            on_progress(written, len(versions.rows))
    return written


def _changes(
    versions: Versions, places: Callable[[int], ClusterPlace | None]
) -> Iterator[tuple[bytes, int, Mapping[Column, bytes | None]]]:
    for row_key, timestamp in versions.stale:
        yield row_key, timestamp, _NONE
    for number, held in enumerate(versions.placed.tolist()):
        place = places(number)
        if (place is None and not held) or versions.column_times[number] < versions.timestamps[number]:
            continue
        row_key, timestamp = versions.row_keys[number], int(versions.column_times[number])
        if place is None:
            yield row_key, timestamp, _NONE
            continue
        encoded = capture.encode_cluster_place(place)
        if placed_checksum(place.cluster, encoded) != held:
            yield row_key, timestamp, {capture.CLUSTER: place.cluster, capture.CANONICAL_PAGE: encoded}
