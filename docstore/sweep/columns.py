"""Last stage of a sweep: the cluster of each version, written into its row, in bounded groups.

Knows the columns `dedup:cluster` and `dedup:canonical`; must not know how clusters are made.  Only differences are
written: a killed sweep continues, and a second one writes nothing.  A version without a cluster gets columns only if
its verdict names a page: the result of the sweep replaces the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from docstore.model import capture
from docstore.model.capture import ClusterPlace
from docstore.model.types import DeleteCells, Mutation, ReadSpec, SetCell
from docstore.storage.table import TIMESTAMP_STEP_MICROS
from docstore.store import DocumentStore
from docstore.sweep.pages import Versions, placed_checksum

GROUP_ROWS = 1000

Change = tuple[bytes, int, list[Mutation]]


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
    group: list[Change] = []
    for change in _changes(versions, places):
        group.append(change)
        if len(group) == GROUP_ROWS:
            written += _apply(store, group)
            group = []
            if on_progress is not None:
                on_progress(written, len(versions.rows))
    if group:
        written += _apply(store, group)
    return written


def _changes(versions: Versions, places: Callable[[int], ClusterPlace | None]) -> Iterator[Change]:
    for row_key, timestamp in versions.stale:
        yield row_key, timestamp, _cleared(timestamp)
    for number, held in enumerate(versions.placed.tolist()):
        place = places(number)
        if place is None and not held:
            continue
        timestamp = int(versions.column_times[number])
        row_key = versions.row_keys[number]
        if place is None:
            yield row_key, timestamp, _cleared(timestamp)
            continue
        encoded = capture.encode_cluster_place(place)
        if placed_checksum(place.cluster, encoded) != held:
            cells = ((capture.CLUSTER, place.cluster), (capture.CANONICAL_PAGE, encoded))
            yield row_key, timestamp, [SetCell(*column, timestamp, value) for column, value in cells]


def _cleared(timestamp: int) -> list[Mutation]:
    columns = (capture.CLUSTER, capture.CANONICAL_PAGE)
    return [DeleteCells(*column, timestamp, timestamp + TIMESTAMP_STEP_MICROS) for column in columns]


def _apply(store: DocumentStore, group: list[Change]) -> int:
    """Commit a group, but for versions that were deleted since they were read: their rows must not come back."""
    with store.committer.lock:
        rows = [(row_key, mutations) for row_key, timestamp, mutations in group if _is_live(store, row_key, timestamp)]
        if rows:
            store.cells.apply_many(rows)
    return len(rows)


def _is_live(store: DocumentStore, row_key: bytes, timestamp: int) -> bool:
    spec = ReadSpec(
        families=("dedup",),
        qualifier_prefix=capture.CHECKSUM[1],
        start=timestamp,
        end=timestamp + 1,
        keys_only=True,
    )
    return bool(store.table.read_row(row_key, spec))
