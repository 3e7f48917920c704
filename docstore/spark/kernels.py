"""What executors compute for a sweep on Spark: pure functions over Arrow batches, for `mapInArrow`.

The rules are those of the local sweep, called and not repeated: pages are read and prepared as `ingest` does, versions
are equal by `sweep.kernels`, pairs come from `sweep.candidates`, and whole components are clustered by `sweep.pairs`
and `sweep.clusters`.  A batch may end anywhere; `whole_groups` puts together the rows of a key, which Spark has sorted.
Memory of a task: a few batches of 16 MB, and its largest group: 450 bytes a page of the largest bucket, and about
1 KB a page and 120 bytes a pair of the largest component, whose pairs are some 135 a page.
"""

from __future__ import annotations

import io
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from docstore.archives.entries import DamagedEntry, PageEntry, ReadOptions, TableColumns
from docstore.archives.readahead import portions
from docstore.dedup.comparable import MIN_NEAR_WORDS, MIN_SAME_TEXT_WORDS, TitledPage, is_blank
from docstore.dedup.kernel import shared_members, visible_words
from docstore.model.capture import ClusterPlace
from docstore.model.choices import BINS, CanonicalPolicy, VerdictKind
from docstore.model.errors import missing_extra
from docstore.model.keys import same_site, url_of
from docstore.model.sets import Numbers, distinct
from docstore.model.types import Page
from docstore.storage.table import TIMESTAMP_STEP_MICROS
from docstore.storage.writes import Prepared
from docstore.sweep.candidates import Alike, band_keys, band_pairs, band_width, in_large_buckets
from docstore.sweep.clusters import cluster_versions, missing_pairs
from docstore.sweep.kernels import BY_TEXT, LONG_TEXT_BYTES, TextRule, equality, identify, moved_to, target_of, text_of
from docstore.sweep.pairs import Listed, PairGraph, set_apart
from docstore.writing.prepare import Preparer

try:
    import pyarrow as pa
    import pyarrow.compute as pc

    from docstore.archives.parquet import read_batch
except ImportError as missing:
    raise missing_extra("docstore-spark", "spark", missing) from missing

Batches: TypeAlias = Iterable[Any]
PAGES_TOGETHER = 256
BYTES_TOGETHER = 8 << 20
"""Pages, and bytes of bodies, that are analysed together."""
ROWS_TOGETHER = 1 << 16
"""Rows of whole groups that are computed together."""
PAIRS_TOGETHER = 1 << 14
"""Pairs that are verified together."""
NO_OTHER_TIME = "any_time=True accepts it", "no option of a sweep on Spark accepts it; mend it in the file"
"""What is said of a time that is refused: for Python, and here, where no option accepts it."""
OLDER = 1 << 60
"""Microseconds by which pages of earlier crawls count as older, so that they are canonical."""

PAGE = pa.schema(
    [
        ("row_key", pa.binary()),
        ("timestamp", pa.int64()),
        ("body", pa.binary()),
        ("is_blank", pa.bool_()),
        ("redirect", pa.binary()),
        ("identity", pa.binary()),
        ("titled", pa.binary()),
        ("by_text", pa.bool_()),
        ("good", pa.bool_()),
        ("is_list", pa.bool_()),
        ("sketch", pa.binary()),
        ("shingle_count", pa.int64()),
        ("title", pa.binary()),
        ("held", pa.binary()),
        ("mostly_main", pa.bool_()),
        ("declared", pa.binary()),
        ("text", pa.binary()),
        ("url", pa.string()),
        ("error", pa.string()),
    ]
)
"""A page with its fingerprints: `body` and `identity` are equal for equal bodies and versions, `titled` for equal texts
and titles; `redirect` and `declared` are row keys; `held` has the words of the title that the text has.  What is
damaged or refused is a row with `url` and `error` alone."""
VERSION = pa.schema([*list(PAGE)[:-2], pa.field("column_time", pa.int64()), pa.field("is_last", pa.bool_())])
"""A live version as in `sweep.pages`: the time of its newest capture, and whether it is the newest of its row.  A row
without `is_last` is no version, only the redirect of its URL."""
BANDED = pa.schema(
    [
        ("bucket", pa.int64()),
        ("tie", pa.int64()),
        ("id", pa.int64()),
        ("is_crowded", pa.bool_()),
        ("shingle_count", pa.int64()),
        ("sketch", pa.binary()),
    ]
)
PAIR = pa.schema([("first", pa.int64()), ("second", pa.int64())])
VERIFIED = PAIR.append(pa.field("similarity", pa.float64()))
PLACE = pa.schema(
    [
        ("url", pa.string()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("kind", pa.string()),
        ("cluster", pa.string()),
        ("canonical", pa.string()),
        ("canonical_timestamp", pa.timestamp("us", "UTC")),
        ("similarity", pa.float64()),
        ("id", pa.int64()),
        ("missing", pa.list_(pa.int64())),
    ]
)
"""The result, a row for each version; and versions before it that it has to be compared with."""


def ddl(schema: Any) -> str:
    """A schema as Spark writes it."""
    names = {
        pa.binary(): "binary",
        pa.string(): "string",
        pa.int64(): "bigint",
        pa.float64(): "double",
        pa.bool_(): "boolean",
        pa.timestamp("us", "UTC"): "timestamp",
        pa.list_(pa.int64()): "array<bigint>",
    }
    return ", ".join(f"{field.name} {names[field.type]}" for field in schema)


def whole_groups(batches: Batches, key: str, rows_together: int = 0) -> Iterator[Any]:
    """Tables of some `rows_together` rows that have all rows of each of their keys; the rows come sorted by the key."""
    waiting: list[Any] = []
    rows_together = rows_together or ROWS_TOGETHER
    rows, enough = 0, rows_together
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        rows += batch.num_rows
        if rows < enough:
            continue
        table = pa.Table.from_batches(waiting).combine_chunks()
        waiting.clear()  # else its rows are in memory twice while the table is used
        keys = table[key]
        cut = pc.index(keys, keys[-1]).as_py()
        if cut:
            yield table.slice(0, cut)
        waiting = table.slice(cut).combine_chunks().to_batches()
        rows -= cut
        enough = max(rows_together, 2 * rows)
        del table, keys
    if waiting:
        waiting = [pa.Table.from_batches(waiting).combine_chunks()]
        yield waiting.pop()


def _numbers(table: Any, name: str) -> Any:
    return table[name].to_numpy()


def _words(table: Any, name: str, width: int) -> NDArray[np.uint8]:
    """Values of one length, (n, width) uint8."""
    return np.frombuffer(b"".join(table[name].to_pylist()), np.uint8).reshape(-1, width)


# --- pages with their fingerprints


def pages_of_rows(rule: TextRule, batches: Batches, columns: TableColumns = TableColumns()) -> Iterator[Any]:
    """PAGE of the rows of Parquet files.

    Args:
        rule: of their texts.
        batches: rows, whose columns have the names that `read_batch` reads; a row whose column `file` is not null has
            an id for which that file has another text.
        columns: the data set that they are of.
    """
    for batch in batches:
        pages: list[Page] = []
        size = 0
        errors: list[tuple[str, str]] = []
        others = batch["file"].to_pylist() if "file" in batch.schema.names else repeat(None)
        for entry, other in zip(read_batch(batch, columns.source), others, strict=False):
            if other is not None:
                url = entry.page.url if isinstance(entry, PageEntry) else ""
                errors.append((url, f"{other} has another text for this id; name data sets by --source"))
            elif isinstance(entry, PageEntry):
                pages.append(entry.page)
                size += len(entry.page.body)
            elif isinstance(entry, DamagedEntry):
                errors.append((entry.url, entry.reason))
            if len(pages) == PAGES_TOGETHER or size >= BYTES_TOGETHER:
                yield _analysed(rule, pages)
                pages, size = [], 0
        yield _analysed(rule, pages, errors)


def pages_of_files(rule: TextRule, batches: Batches, columns: TableColumns = TableColumns()) -> Iterator[Any]:
    """PAGE of the records of archives.

    Args:
        rule: of their texts.
        batches: `path`, of which a local one is opened here, and `content`, which is null for a local one.  Spark
            writes file: before a local path, and encodes nothing in it.
        columns: of JSON Lines.
    """
    for batch in batches:
        for path, content in zip(batch["path"].to_pylist(), batch["content"], strict=True):
            local = path.removeprefix("file:").removeprefix("//")
            source = io.BytesIO(content.as_py()) if content.is_valid else local
            options = ReadOptions(columns=columns)
            for portion in portions([source], most_pages=PAGES_TOGETHER, most_bytes=BYTES_TOGETHER, options=options):
                errors = [(url, f"{path} at {place[1]}: {reason}") for place, reason, url in portion.errors]
                yield _analysed(rule, portion.pages, errors)


def _analysed(rule: TextRule, pages: Sequence[Page], errors: Sequence[tuple[str, str]] = ()) -> Any:
    prepared = Preparer(rule.kernel(), lambda: time.time_ns() // 1000).prepare(pages)
    rows = [_row(page) for page in prepared if not (page.error or page.is_visit)]
    refused = [(page.url, page.error.replace(*NO_OTHER_TIME)) for page in prepared if page.error]
    rows += [
        (*[None] * (len(PAGE) - 2), *(text.encode("utf-8", "replace").decode() for text in each))
        for each in (*errors, *refused)
    ]
    columns = zip(*rows, strict=True) if rows else [()] * len(PAGE)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, PAGE, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=PAGE)


def _row(page: Prepared) -> tuple[object, ...]:
    analysis, status = page.analysis, page.page.status
    title = analysis.title.encode("utf-8", "surrogatepass")
    is_list = bool(analysis.entries)

    def count_words() -> int:
        return MIN_NEAR_WORDS if len(analysis.main_bytes) > LONG_TEXT_BYTES else analysis.word_count

    equal = equality(
        status, analysis.body_checksum, analysis.text_checksum, title, is_list=is_list, count_words=count_words
    )
    titled, held, mostly_main = None, b"", True
    if equal.is_good and analysis.word_count >= MIN_SAME_TEXT_WORDS:
        text = text_of(analysis.text_checksum, is_list=is_list)
        titled = identify(MIN_SAME_TEXT_WORDS, text, title, equal.body)[1]
    if equal.equal_by == BY_TEXT:
        body = page.page.body
        shown = TitledPage(
            page.row_key, analysis.title, lambda: analysis.main, lambda: visible_words(body) if body else None
        )
        held = b"\n".join(shown.held_words())
        mostly_main = shown.is_mostly_main
    canonical = target_of(page.row_key, analysis.canonical)
    return (
        page.row_key,
        page.timestamp,
        equal.body,
        is_blank(page.page.body),
        moved_to(page.row_key, status, lambda: page.page.headers),
        equal.identity,
        titled,
        equal.equal_by == BY_TEXT,
        equal.is_good,
        is_list,
        analysis.sketch[1:] if analysis.sketch else bytes(BINS // 2),
        analysis.shingle_count,
        title,
        held,
        mostly_main,
        canonical if canonical is not None and same_site(canonical, page.row_key) else None,
        analysis.main_bytes,
        None,
        None,
    )


def versions_of_pages(batches: Batches) -> Iterator[Any]:
    """VERSION of PAGE; the rows come sorted by row key, time and body.

    Successive captures of one row with the same body are one version, as old as the first.  If another body has the
    time of a capture, it gets the next free millisecond.
    """
    for table in whole_groups(batches, "row_key", ROWS_TOGETHER // 16):
        taken: list[tuple[int, int, int, bool | None]] = []
        names = ("row_key", "timestamp", "body", "is_blank", "redirect")
        rows = zip(*(table[name].to_pylist() for name in names), strict=True)
        current, captured, shown, latest, redirect = b"", -1, b"", -1, None
        is_version = False
        for index, (key, timestamp, body, blank, target) in enumerate(rows):
            if key != current:
                _end_row(taken, latest, index - 1, captured, redirect)
                current, captured, shown, latest, is_version = key, -1, b"", -1, False
            elif timestamp <= captured:
                if body == shown:
                    continue
                timestamp = captured + TIMESTAMP_STEP_MICROS
            if body != shown:
                is_version = not blank
                if is_version:
                    latest = len(taken)
                    taken.append((index, timestamp, timestamp, False))
            elif is_version:
                taken[-1] = (*taken[-1][:2], timestamp, False)
            captured, shown, redirect = timestamp, body, target
        _end_row(taken, latest, table.num_rows - 1, captured, redirect)
        if not taken:
            continue
        indices, timestamps, times, last = zip(*taken, strict=True)
        versions = table.take(pa.array(indices))
        ends = zip(versions["row_key"].to_pylist(), versions["redirect"].to_pylist(), last, strict=True)
        moved = {key: target for key, target, each in ends if each is None}
        declared = zip(versions["row_key"].to_pylist(), versions["declared"].to_pylist(), strict=True)
        columns = {name: versions[name] for name in VERSION.names[:-2]} | {
            "timestamp": pa.array(timestamps, pa.int64()),
            "redirect": pc.if_else(pa.array([each is None for each in last]), versions["redirect"], None),
            "declared": pa.array([moved.get(key, target) for key, target in declared], pa.binary()),
            "column_time": pa.array(times, pa.int64()),
            "is_last": pa.array(last, pa.bool_()),
        }
        yield from pa.table(columns, VERSION).to_batches()


def _end_row(
    taken: list[tuple[int, int, int, bool | None]], latest: int, index: int, captured: int, redirect: bytes | None
) -> None:
    """Mark the newest version of a row, and add the redirect of its newest capture."""
    if latest >= 0:
        taken[latest] = (*taken[latest][:3], True)
    if redirect is not None and index >= 0:
        taken.append((index, captured, captured, None))


# --- pairs


def bands_of(threshold: float, batches: Batches) -> Iterator[Any]:
    """BANDED: each text once in the bucket of each of its bands."""
    width = band_width(threshold)
    bands = BINS // width
    for batch in batches:
        sketches, all_rows = _bins(batch), np.arange(batch.num_rows)
        following = band_keys(sketches, all_rows, 0, width)
        for band in range(bands):
            keys, following = following, band_keys(sketches, all_rows, (band + 1) % bands, width)
            packed = np.zeros(batch.num_rows, np.int64)
            for place in range(width):  # half a byte a bin
                packed |= ((keys >> np.uint64(8 * place)) & np.uint64(15)).astype(np.int64) << (4 * place)
            columns = [pa.array(packed | band << 32), pa.array(following.view(np.int64))]
            others = [batch[name] for name in BANDED.names[2:]]
            yield pa.RecordBatch.from_arrays([*columns, *others], schema=BANDED)


def crowded_of(batches: Batches) -> Iterator[Any]:
    """The `id` of each text of a large bucket; the rows, with `bucket` and `id`, come sorted by bucket."""
    for table in whole_groups(batches, "bucket"):
        large = in_large_buckets(_numbers(table, "bucket").view(np.uint64))
        yield pa.RecordBatch.from_pydict({"id": distinct(_numbers(table, "id")[large])})


def _bins(table: Any) -> NDArray[np.uint8]:
    halves = _words(table, "sketch", BINS // 2)
    return np.concatenate([halves & 15, halves >> 4], axis=1)


def pairs_of_buckets(threshold: float, fresh: int, batches: Batches) -> Iterator[Any]:
    """PAIR of likely pairs; the rows come sorted by bucket.

    Args:
        threshold: least Jaccard coefficient.
        fresh: at least one of a pair has this number or a larger one.
        batches: of BANDED.
    """
    for table in whole_groups(batches, "bucket"):
        table = table.take(pc.sort_indices(table["id"]))
        numbers, sizes = _numbers(table, "id"), _numbers(table, "shingle_count")
        keys, ties = (_numbers(table, name).view(np.uint64) for name in ("bucket", "tie"))
        alike = Alike(_bins(table), np.arange(len(numbers)), sizes, threshold)
        for first, second, _ in band_pairs(keys, ties, _numbers(table, "is_crowded"), alike):
            kept = numbers[second] >= fresh
            yield _batch(PAIR, numbers[first[kept]], numbers[second[kept]])


def verified_pairs(rule: TextRule, threshold: float, batches: Batches) -> Iterator[Any]:
    """VERIFIED: those pairs whose exact similarity is at least the threshold.

    Args:
        rule: of texts.
        threshold: least Jaccard coefficient.
        batches: pairs, `id` and `second`, and the texts that they need, which have no `second`; sorted by `block`.
    """
    for table in whole_groups(batches, "block"):
        is_pair = pc.is_valid(table["second"])
        texts, pairs = table.filter(pc.invert(is_pair)), table.filter(is_pair)
        del table
        numbers, places = np.unique(_numbers(texts, "id"), return_index=True)
        texts = texts.take(pa.array(places))
        sets, counts = rule.kernel().shingle_sets(texts["text"].to_pylist(), MIN_NEAR_WORDS)
        long_enough, lists = counts >= MIN_NEAR_WORDS, _numbers(texts, "is_list").astype(bool)
        first, second = (np.searchsorted(numbers, _numbers(pairs, name).astype(np.int64)) for name in ("id", "second"))
        for start in range(0, len(first), PAIRS_TOGETHER):
            left, right = (ends[start : start + PAIRS_TOGETHER] for ends in (first, second))
            shared = shared_members(sets, left, right)
            similarity = shared / np.maximum(sets.lengths[left] + sets.lengths[right] - shared, 1)
            kept = (similarity >= threshold) & long_enough[left] & long_enough[right] & (lists[left] == lists[right])
            yield _batch(VERIFIED, numbers[left[kept]], numbers[right[kept]], similarity[kept])


def _batch(schema: Any, *columns: Any) -> Any:
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=schema)


# --- clusters


class ClusterRule(NamedTuple):
    """How clusters are made.

    Attributes:
        policy: which page is canonical; for an incremental sweep `oldest`, with all pages of earlier crawls first.
        same_url: pairs of versions of one URL count.
        title_rule: titles set pairs apart.
        near_threshold: least similarity of evidence for that.
        fresh: versions with this number and larger ones are of the crawl that is swept.
    """

    policy: CanonicalPolicy
    same_url: bool
    title_rule: bool
    near_threshold: float
    fresh: int


@dataclass(slots=True)
class Members:
    """Versions of whole components; see `sweep.clusters.Placed`."""

    row_keys: Sequence[bytes]
    rows: Numbers
    timestamps: Numbers
    good: NDArray[np.bool_]
    declared: Numbers
    redirected: Numbers


def clusters_of_components(rule: ClusterRule, batches: Batches) -> Iterator[Any]:
    """PLACE of the versions of whole components.

    Args:
        rule: of clusters.
        batches: versions with `leader`, `end` (the row that they declare) and `votes` (redirects to them), and rows
            with `near`, which lists the pairs of an `id` as `second` and `similarity`; sorted by component.  The graph
            takes least memory if they are sorted by `id` too, and the lists by `second`.
    """
    for table in whole_groups(batches, "component"):
        has_pairs = pc.is_valid(table["near"])
        lists = table.filter(has_pairs).select(["id", "near"])
        members = table.filter(pc.invert(has_pairs)).drop_columns(["near"]).sort_by("id")
        del table
        pairs = _pairs_of(lists, _numbers(members, "id"))
        del lists
        yield _places(rule, members, pairs)


def _pairs_of(lists: Any, numbers: Numbers) -> Listed:
    """Positions of both ends of listed pairs among the numbers, and similarities."""
    near = pc.list_flatten(lists["near"])
    first = np.searchsorted(numbers, _numbers(lists, "id"))
    first = np.repeat(first, pc.list_value_length(lists["near"]).to_numpy())
    second = np.searchsorted(numbers, pc.struct_field(near, "second").to_numpy())
    return first, second, pc.struct_field(near, "similarity").to_numpy()


def _places(rule: ClusterRule, table: Any, pairs: Listed) -> Any:
    numbers = _numbers(table, "id")
    count = len(numbers)
    row_keys = table["row_key"].to_pylist()
    timestamps = np.where(numbers < rule.fresh, _numbers(table, "timestamp") - OLDER, _numbers(table, "timestamp"))
    names: dict[bytes, int] = {}
    rows = np.fromiter((names.setdefault(key, len(names)) for key in row_keys), np.int64, count)
    latest = {row_keys[number]: number for number in np.flatnonzero(_numbers(table, "is_last")).tolist()}
    ends = zip(row_keys, table["end"].to_pylist(), strict=True)
    declared = (latest.get(end, -1) if end and end != key else -1 for key, end in ends)
    leader = np.searchsorted(numbers, _numbers(table, "leader"))
    graph = _graph(rule, table, pairs, leader, rows)
    good, votes = _numbers(table, "good"), _numbers(table, "votes")
    members = Members(row_keys, rows, timestamps, good, np.fromiter(declared, np.int64, count), votes)
    clusters = cluster_versions(members, graph, rule.policy)
    canonical = clusters.canonical
    by_text = _numbers(table, "by_text")
    missing: defaultdict[int, list[int]] = defaultdict(list)
    for first, second in zip(*missing_pairs(graph, clusters, by_text, pairs[:2]), strict=True):
        missing[int(second)].append(int(numbers[first]))
    titled = np.array(table["titled"].to_pylist(), object)
    bodies = np.array(table["body"].to_pylist(), object)
    times = _numbers(table, "column_time")
    sizes = np.bincount(canonical, minlength=1)
    places: list[tuple[object, ...]] = []
    for number in np.flatnonzero(numbers >= rule.fresh).tolist():
        of = int(canonical[number])
        url, at = url_of(row_keys[number]), int(times[number])
        if sizes[of] == 1:
            places.append((url, at, str(VerdictKind.NEW), *[None] * 4, int(numbers[number]), missing[number]))
            continue
        place = ClusterPlace(row_keys[of], int(times[of]), float(clusters.similarity[number]))
        kind = VerdictKind.NEAR
        if of == number:
            kind = VerdictKind.NEW
        elif bodies[of] == bodies[number]:
            kind = VerdictKind.EXACT
        elif titled[of] is not None and titled[of] == titled[number]:
            kind = VerdictKind.SAME_TEXT
        of_page = place.cluster.hex(), url_of(place.row_key), place.timestamp, place.similarity
        places.append((url, at, str(kind), *of_page, int(numbers[number]), missing[number]))
    columns = zip(*places, strict=True) if places else [()] * len(PLACE)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, PLACE, strict=True)], schema=PLACE
    )


def _graph(rule: ClusterRule, table: Any, pairs: Listed, leader: Numbers, rows: Numbers) -> PairGraph:
    first, second, similarity = pairs
    if rule.title_rule:
        titles, held, mostly_main = (table[name].to_pylist() for name in ("title", "held", "mostly_main"))
        row_keys = table["row_key"].to_pylist()

        def page(number: int) -> TitledPage:
            def decoded(column: list[bytes]) -> str:
                return column[number].decode("utf-8", "surrogatepass")

            return TitledPage(
                row_keys[number], decoded(titles), lambda: decoded(held), lambda: None, mostly_main[number]
            )

        apart = set_apart(page, leader, first, second, similarity >= rule.near_threshold)
        if apart.any():
            first, second, similarity = first[~apart], second[~apart], similarity[~apart]
    bodies = _words(table, "body", 16).view(np.uint64)
    return PairGraph.of_pairs((first, second, similarity), bodies, leader, rows, versions=rule.same_url)
