"""The sweep: every pair of a store at a threshold, clusters with one canonical page each, written into the rows.

    versions  ->  shingle sets  ->  candidates  ->  verified pairs  ->  clusters  ->  columns
    (scan)        (from texts)      (sketches)      (exact)             (rule)        (committed in groups)

Rule: every member's exact similarity to its canonical is at least the threshold.  The result does not depend on the
order of ingest.  Memory: arrays of about 150 bytes a version, 24 bytes a candidate pair, 32 bytes a verified pair, and
for each thread 16 MB and two batches of at most 100 MB.  Row keys, sketches, cell values of texts and shingle sets are
in mapped files.  A killed sweep continues where it stopped, unless the store has changed: a hash of input and options
names the working folder.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Container
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from docstore.dedup.comparable import MIN_NEAR_WORDS, REASON_TITLE_MISMATCH, TitledPage
from docstore.dedup.kernel import visible_words
from docstore.model import markup
from docstore.model.capture import BODY, ClusterPlace, PagePointer
from docstore.model.choices import APPLIED_KINDS, APPLY, MEASURES, TEXTS, CanonicalPolicy, VerdictKind
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.keys import row_key, same_site, site, url_of
from docstore.model.plain import Plain
from docstore.model.sets import Numbers, distinct
from docstore.model.types import SAME_PAGE, Policy
from docstore.reading.documents import DocumentReader
from docstore.reading.index import check_text_scheme
from docstore.storage.unreadable import Finding
from docstore.store import DocumentStore
from docstore.sweep.candidates import candidates, expected_recall, leaders, overlap_candidates
from docstore.sweep.clusters import ROUNDS, Clusters, cluster_versions, missing_pairs
from docstore.sweep.kernels import BY_BODY, BY_TEXT, TextRule
from docstore.sweep.pages import Versions, anchor_counts, read_versions, write_back
from docstore.sweep.pairs import Listed, PairGraph, set_apart, verify
from docstore.sweep.texts import Maker, make_folder, remove_folder

MANY_DUPLICATES = 500
LARGEST_CLUSTERS = 5
"""So many of the largest clusters are in the report."""
MAIN_EXTRACTOR = "scored"
"""Extractor of main content for a store that fingerprints all visible text."""

APPLY_GROUP = 64
"""Members that are changed while the writers' lock is taken once."""

Progress = Callable[[str, int, int], None]
"""Called with the stage's name, the amount done, and the total; the total is 0 if unknown."""


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """Parameters of a sweep.

    Attributes:
        measure: "jaccard"; or "overlap", by which a page also pairs with a page that contains it.
        threshold: least exact similarity of a pair by the measure; None takes the schema's `near_threshold`, of the
            overlap its `contained_threshold`.
        text: "main" compares main content, "visible" all visible text; None the text of the store's fingerprints.
        shingle_words: words in a shingle; None takes the schema's.
        canonical_policy: how the canonical page of a cluster is chosen.
        same_url: pairs of versions of one URL too.
        all_pairs: list every pair of equal versions; else a star around the first of them.
        dry_run: write no columns.
        pairs: file to write the pairs to.
        threads: to make shingles and compare.
        apply: "reference" or "reject": change the members of clusters to the state that this write policy would have
            given them, against their canonical page; None changes no page.  With `dry_run` in an overlay.
        kinds: members to change: exact, same_text, near, and with "reference" contained.
        any_host: also members of other hosts than their canonical page.
    """

    measure: str = MEASURES[0]
    threshold: float | None = None
    text: str | None = None
    shingle_words: int | None = None
    canonical_policy: CanonicalPolicy = CanonicalPolicy.CANONICAL_LINK
    same_url: bool = False
    all_pairs: bool = False
    dry_run: bool = False
    pairs: Path | None = None
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    apply: str | None = None
    kinds: tuple[str, ...] = APPLIED_KINDS
    any_host: bool = False

    def __post_init__(self) -> None:
        known = [str(policy) for policy in CanonicalPolicy]
        if self.canonical_policy not in known:
            raise InvalidArgument(
                f"canonical_policy {self.canonical_policy!r} is unknown; choose one of {', '.join(known)}"
            )
        object.__setattr__(self, "canonical_policy", CanonicalPolicy(self.canonical_policy))
        if self.apply not in (None, *APPLY):
            raise InvalidArgument(f"apply must be one of {', '.join(APPLY)}, not {self.apply!r}")
        if self.measure not in MEASURES:
            raise InvalidArgument(f"measure {self.measure!r} is unknown; choose one of {', '.join(MEASURES)}")
        kinds = [*map(str, SAME_PAGE), *([str(VerdictKind.CONTAINED)] if self.apply != str(Policy.REJECT) else [])]
        if not self.kinds or not set(self.kinds) <= set(kinds):
            raise InvalidArgument(
                f"kinds must be of {', '.join(kinds)}, not {', '.join(map(str, self.kinds))!r}; contained pages are "
                "only stored by reference"
            )


@dataclass(frozen=True, slots=True)
class LargeCluster:
    """URL and time of the canonical page of a cluster, and how many captures are in the cluster."""

    url: str
    timestamp: int
    captures: int


@dataclass(slots=True)
class SweepReport(Plain):
    """Results of a sweep; the same names as `docstore sweep --json` prints.

    Attributes:
        captures: live versions with a body.
        compared: of these, those with 50 words and more, compared by shingles.
        by_bytes_only: of these, those compared only by their bytes: no text, under 20 words, or no 2xx status.
        duplicates: captures whose canonical is another document.
        without_duplicates, with_duplicates: captures in no pair, and in at least one.
        with_500: captures with at least 500 duplicates.
        pairs: all pairs, including those of equal versions.
        listed_pairs: pairs in the list: equal versions as a star, unless all pairs were requested.
        clusters: of two or more captures.
        largest_cluster: captures in it.
        largest_clusters: the five largest, largest first, ties by row key.
        candidates: pairs compared exactly.
        expected_recall: share of the pairs exactly at the threshold that become candidates; it is higher above it.
        title_mismatches: pairs of groups of equal pages that titles set apart; `pairs` does not count them.  The file
            of pairs has them at its end, with "title_mismatch" after the similarity.
        crowded: texts in buckets of which not all pairs were compared.
        written: captures whose columns were changed.
        applied: captures that `apply` changed, by their verdict against the canonical page.
        left: members that `apply` did not change, by reason: `other_host`, `kind` (not in `kinds`), and those of
            `docstore.writing.applying.Applied`.
        freed_bytes: what the next compaction frees because of `apply`; with `dry_run` what it would free.
        unreadable: values that could not be read; pages that need them were left out.
        threshold, text, shingle_words, canonical_policy: as used.
        seconds: wall time of the sweep; `stage_seconds` by stage.
    """

    captures: int = 0
    compared: int = 0
    by_bytes_only: int = 0
    duplicates: int = 0
    without_duplicates: int = 0
    with_duplicates: int = 0
    with_500: int = 0
    pairs: int = 0
    listed_pairs: int = 0
    clusters: int = 0
    largest_cluster: int = 0
    largest_clusters: list[LargeCluster] = field(default_factory=list)
    candidates: int = 0
    expected_recall: float = 1.0
    title_mismatches: int = 0
    crowded: int = 0
    written: int = 0
    applied: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    freed_bytes: int = 0
    unreadable: list[Finding] = field(default_factory=list)
    threshold: float = 0.0
    text: str = ""
    shingle_words: int = 0
    canonical_policy: str = ""
    seconds: float = 0.0
    stage_seconds: dict[str, float] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """For notebooks: the figures, and the largest clusters."""
        largest = [(markup.number(one.captures), markup.url_text(one.url)) for one in self.largest_clusters]
        fields = [
            (name, markup.number(getattr(self, name))) for name in ("captures", "duplicates", "pairs", "clusters")
        ]
        table = markup.table(("captures", "largest clusters"), largest, right=(0,)) if largest else None
        return markup.card(f"Sweep at {self.threshold:g}", [*fields, ("time", markup.duration(self.seconds))], table)


def sweep(
    store: DocumentStore, options: SweepOptions = SweepOptions(), on_progress: Progress | None = None
) -> SweepReport:
    """Find all pairs, cluster them, write the clusters into the rows.

    Raises:
        InvalidArgument: an option has an invalid value.
        StoreUnavailable: another sweep of this store is running.
        StorageError: disk full or I/O; what is committed stays, and the same sweep again continues.
    """
    with store.jobs.one("sweep"), store.backend.values.unreadable.collecting() as unreadable:
        work = _Sweep(store, options, on_progress)
        with store.cells.changes() as changed:
            report = work.run(changed)
    report.unreadable = list(unreadable)
    return report


class _Sweep:
    def __init__(self, store: DocumentStore, options: SweepOptions, on_progress: Progress | None) -> None:
        self._began = self._stage_began = time.monotonic()
        schema = store.schema
        check_text_scheme(store.backend, store.table)
        self._store = store
        self._reader = DocumentReader(store.table, store.backend.values)
        self._options = options
        self._on_progress = on_progress
        self._by_overlap = options.measure == "overlap"
        least = schema.contained_threshold if self._by_overlap else schema.near_threshold
        self._threshold = least if options.threshold is None else options.threshold
        shingle_words = schema.shingle_words if options.shingle_words is None else options.shingle_words
        if not 0.0 < self._threshold <= 1.0:
            raise InvalidArgument(f"threshold must be in (0, 1], not {self._threshold}")
        if options.threads < 1:
            raise InvalidArgument(f"threads must be at least 1, not {options.threads}")
        extractor = _extractor(options.text, schema.extractor)
        self._from_bodies = extractor != schema.extractor
        self._own_sketches = self._from_bodies or shingle_words != schema.shingle_words
        self._rule = TextRule(extractor, shingle_words, False, schema.vocabulary)
        self._rule.kernel()  # refuses invalid parameters before anything is read
        self._how = f"{options.measure} {self._threshold!r} {extractor} {shingle_words} {options.same_url}"
        self.report = SweepReport(
            threshold=self._threshold,
            text=extractor,
            shingle_words=shingle_words,
            canonical_policy=str(options.canonical_policy),
            expected_recall=1.0 if self._by_overlap else expected_recall(self._threshold),
        )
        self._sizes = np.empty(0, np.int64)
        """(n,) shingles of leaders in pairs, with the overlap as measure."""
        self._apart: Listed = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64)

    def run(self, changed: Container[bytes] | None) -> SweepReport:
        """Sweep; `changed` has the rows that are changed meanwhile."""
        report = self.report
        versions = read_versions(self._store, lambda done: self._show("versions", done, 0))
        self._stage_done("versions")
        state = blake3(versions.state + self._how.encode()).digest(16)
        folder = make_folder(self._store.backend.path, state)
        if self._own_sketches or not versions.sketched[versions.equal_by == BY_TEXT].all():
            self._sketch(versions, folder)
        leader = leaders(versions.identity) if len(versions.rows) else np.empty(0, np.int64)
        pairs = self._pairs(versions, leader, folder)
        graph = self._graph(versions, leader, pairs)
        clusters = self._cluster(versions, graph)
        compared = pairs[:2]
        for number in range(0 if self._by_overlap else ROUNDS):
            first, second = missing_pairs(graph, clusters, versions.equal_by == BY_TEXT, compared)
            compared = np.concatenate([compared[0], first]), np.concatenate([compared[1], second])
            more = self._verified(versions, first, second, folder / str(number))
            if not len(more[0]):
                break
            columns = zip(pairs, more, strict=True)
            pairs = cast("Listed", tuple(np.concatenate(column) for column in columns))
            graph = self._graph(versions, leader, pairs)
            clusters = self._cluster(versions, graph)
        degrees = graph.degrees()
        sizes = np.bincount(clusters.canonical, minlength=1)
        report.captures = len(versions.rows)
        report.compared = int((versions.equal_by == BY_TEXT).sum())
        report.by_bytes_only = int((versions.equal_by == BY_BODY).sum())
        report.with_duplicates = int((degrees > 0).sum())
        report.without_duplicates = report.captures - report.with_duplicates
        report.with_500 = int(((degrees >= MANY_DUPLICATES) | (sizes[clusters.canonical] > MANY_DUPLICATES)).sum())
        report.pairs = int(degrees.sum()) // 2
        self._write_pairs(versions, graph)
        gone = self._apply(versions, clusters) if self._options.apply else np.zeros(len(versions.rows), bool)
        is_alone = np.bincount(clusters.canonical, minlength=1)[clusters.canonical] == 1
        has_none = gone | (is_alone & ~versions.duplicate)

        def place(number: int) -> ClusterPlace | None:
            """None for a version without duplicates that no verdict called a duplicate, or that is rejected now."""
            if has_none[number]:
                return None
            canonical = int(clusters.canonical[number])
            similarity = float(clusters.similarity[number])
            return ClusterPlace(versions.row_keys[canonical], int(versions.column_times[canonical]), similarity)

        if not self._options.dry_run:
            report.written = write_back(self._store, versions, place, changed, self._reporter("columns"))
        self._stage_done("columns")
        report.seconds = time.monotonic() - self._began
        remove_folder(folder)
        return report

    # --- stages

    def _sketch(self, versions: Versions, folder: Path) -> None:
        """Make the sketches that the store lacks: of another text, another shingle length, or an earlier scheme."""
        chosen = versions.good if self._own_sketches else (versions.equal_by == BY_TEXT) & ~versions.sketched
        numbers = np.flatnonzero(chosen)
        made = self._maker(versions).make(
            folder, "sketches", numbers, sketches=True, on_progress=self._reporter("sketches")
        )
        versions.sketches[numbers] = made.sketches
        versions.shingle_counts[numbers] = made.sets.lengths
        if self._from_bodies:
            versions.equal_by = versions.equal_by.copy()
            versions.identity = versions.identity.copy()
            versions.equal_by[numbers] = made.equal_by
            versions.identity[numbers] = made.identity
        self._stage_done("sketches")

    def _maker(self, versions: Versions) -> Maker:
        return Maker(self._store, versions, self._rule, from_bodies=self._from_bodies, threads=self._options.threads)

    def _pairs(self, versions: Versions, leader: Numbers, folder: Path) -> Listed:
        """Verified pairs of leaders, those that titles set apart too."""
        lone = np.flatnonzero((leader == np.arange(len(leader))) & (versions.equal_by == BY_TEXT))
        if self._by_overlap:
            self._sizes = np.zeros(len(leader), np.int64)
            made = self._maker(versions).make(
                folder, "overlaps", lone, sketches=False, on_progress=self._reporter("overlaps")
            )
            first, second, self.report.crowded = overlap_candidates(made.sets)
            first, second = lone[first], lone[second]
        else:
            first, second, self.report.crowded = candidates(
                versions.sketches, versions.shingle_counts, lone, self._threshold, self._options.threads
            )
        first, second = _with_named(first, second, leader, versions)
        self.report.candidates = len(first)
        self._stage_done("candidates")
        return self._verified(versions, first, second, folder)

    def _verified(self, versions: Versions, first: Numbers, second: Numbers, folder: Path) -> Listed:
        """Those of some pairs of leaders that are within the threshold, compared exactly."""
        if not len(first):
            return first, second, np.empty(0, np.float64)
        folder.mkdir(exist_ok=True)
        maker = self._maker(versions)
        needed = distinct(np.concatenate([first, second]))
        made = maker.make(folder, "shingles", needed, sketches=False, on_progress=self._reporter("shingles"))
        self._stage_done("shingles")
        left, right = np.searchsorted(needed, first), np.searchsorted(needed, second)
        shared = verify(
            made.sets, left, right, folder, threads=self._options.threads, on_progress=self._reporter("pairs")
        )
        either = made.sets.lengths[left] + made.sets.lengths[right] - shared
        if self._by_overlap:
            either = np.minimum(made.sets.lengths[left], made.sets.lengths[right])
            self._sizes[needed] = made.sets.lengths
        similarity = shared / np.maximum(either, 1)
        long_enough = (made.word_counts[left] >= MIN_NEAR_WORDS) & (made.word_counts[right] >= MIN_NEAR_WORDS)
        kept = (similarity >= self._threshold) & long_enough & (versions.lists[first] == versions.lists[second])
        self._stage_done("pairs")
        return first[kept], second[kept], similarity[kept]

    def _graph(self, versions: Versions, leader: Numbers, pairs: Listed) -> PairGraph:
        """The graph of verified pairs, without those that titles set apart, and with pairs of equal bodies."""
        first, second, similarity = pairs
        maker = self._maker(versions)
        if self._store.schema.title_rule:
            is_near = similarity >= self._store.schema.near_threshold

            def page(number: int) -> TitledPage:
                title = versions.titles[number].decode("utf-8", "surrogatepass")

                def load_visible_words() -> int | None:
                    body = maker.body(number)
                    return visible_words(body) if body else None

                text = partial(maker.text, number)
                return TitledPage(versions.row_keys[number], title, text, load_visible_words)

            apart = set_apart(page, leader, first, second, is_near)
            shown = apart & (self._options.same_url | (versions.rows[first] != versions.rows[second]))
            self._apart = first[shown], second[shown], similarity[shown]
            first, second, similarity = first[~apart], second[~apart], similarity[~apart]
        self.report.title_mismatches = len(self._apart[0])
        graph = PairGraph.of_pairs(
            (first, second, similarity), versions.bodies, leader, versions.rows, versions=self._options.same_url
        )
        self._stage_done("graph")
        return graph

    def _write_pairs(self, versions: Versions, graph: PairGraph) -> None:
        listed = 0
        parts = graph.every() if self._options.all_pairs else iter([graph.star()])
        if self._options.pairs is None:
            listed = self.report.pairs if self._options.all_pairs else sum(len(first) for first, _, _ in parts)
        else:
            partial = self._options.pairs.with_name(self._options.pairs.name + ".partial")
            try:
                with partial.open("w", encoding="utf-8", newline="\n") as stream:
                    for part in parts:
                        stream.writelines(_lines(versions, part))
                        listed += len(part[0])
                    stream.writelines(_lines(versions, self._apart, f"\t{REASON_TITLE_MISMATCH}"))
                partial.replace(self._options.pairs)
            except OSError as error:
                partial.unlink(missing_ok=True)
                raise InvalidArgument(f"cannot write {self._options.pairs}: {error.strerror}") from error
        self.report.listed_pairs = listed
        self._stage_done("listing")

    def _cluster(self, versions: Versions, graph: PairGraph) -> Clusters:
        """Clusters of all versions."""
        anchors = sizes = None
        if self._options.canonical_policy is CanonicalPolicy.MOST_ANCHORS:
            anchors = partial(anchor_counts, self._store, versions)
        if self._by_overlap:
            sizes = self._sizes[graph.leader]
        readable: dict[int, bool] = {}

        def unreadable(canonicals: Numbers) -> Numbers:
            for number in canonicals.tolist():
                if number not in readable:
                    readable[number] = self._is_readable(versions, number)
            return np.array([number for number, is_readable in readable.items() if not is_readable], np.int64)

        result = cluster_versions(versions, graph, self._options.canonical_policy, anchors, sizes, unreadable)
        sizes = np.bincount(result.canonical, minlength=1)
        self.report.clusters = int((sizes > 1).sum())
        self.report.largest_cluster = int(sizes.max()) if len(result.canonical) else 0
        largest = np.lexsort((np.arange(len(sizes)), -sizes))[:LARGEST_CLUSTERS]
        self.report.largest_clusters = [
            LargeCluster(url_of(versions.row_keys[number]), int(versions.timestamps[number]), int(sizes[number]))
            for number in largest.tolist()
            if sizes[number] > 1
        ]
        self.report.duplicates = int((result.canonical != np.arange(len(result.canonical))).sum())
        self._stage_done("clusters")
        return result

    def _is_readable(self, versions: Versions, number: int) -> bool:
        """Whether the body of a version can be read; it is not decoded."""
        with suppress(CorruptionError):
            self._store.backend.values.verify(versions.body_values[number])
            return True
        # a compaction may have moved it since the scan
        return self._reader.is_readable(versions.row_keys[number], BODY, int(versions.timestamps[number]))

    def _apply(self, versions: Versions, clusters: Clusters) -> NDArray[np.bool_]:
        """Change the members of clusters by the policy; -> (n,) bool, the versions that are rejected now.

        Members whose canonical page is not live wait for another pass, as long as a pass changes something: a newer
        version of its URL may have hidden it, and may be rejected now.
        """
        options, report = self._options, self.report
        policy = Policy(options.apply or Policy.FLAG)
        if policy is Policy.REJECT and options.any_host:
            policy = Policy.REJECT_ANY
        members, targets, reasons = self._members(versions, clusters)
        gone = np.zeros(len(versions.rows), bool)
        applied: Counter[str] = Counter()
        with ExitStack() as stack:
            store = stack.enter_context(self._store.dry_run()) if options.dry_run else self._store
            needed: dict[bytes, set[int]] = {}
            for _, _, verdict in () if policy is Policy.REFERENCE else store.rejected():
                needed.setdefault(row_key(verdict.of_url), set()).add(verdict.of_timestamp)
            done, total, changed = 0, len(members), True
            while members and changed:
                waiting: list[int] = []
                changed = False
                for start in range(0, len(members), APPLY_GROUP):
                    group = members[start : start + APPLY_GROUP]
                    pairs = [(_pointer(versions, n), _pointer(versions, targets[n])) for n in group]
                    outcomes = store.apply_duplicates(pairs, policy, options.kinds, needed, dry_run=options.dry_run)
                    for number, outcome in zip(group, outcomes, strict=True):
                        if outcome.reason == "canonical":
                            waiting.append(number)
                            continue
                        done += 1
                        (applied if outcome.kind else reasons)[outcome.kind or outcome.reason] += 1
                        report.freed_bytes += outcome.freed_bytes
                        changed |= bool(outcome.kind)
                        gone[number] = bool(outcome.kind) and policy is not Policy.REFERENCE
                    self._show("apply", done, total)
                members = waiting
        reasons["canonical"] += len(members)
        report.applied, report.left = dict(sorted(applied.items())), dict(sorted((+reasons).items()))
        self._stage_done("apply")
        alone = np.flatnonzero(gone)
        clusters.canonical[alone], clusters.similarity[alone] = alone, 1.0
        return gone

    def _members(self, versions: Versions, clusters: Clusters) -> tuple[list[int], dict[int, int], Counter[str]]:
        """Versions that may be changed; for each the page that it duplicates; and why others may not be changed.

        That is the canonical page, or, if that is of another site and may not be, the oldest page of its own site.
        """
        reasons: Counter[str] = Counter()
        targets: dict[int, int] = {}
        of_site: dict[tuple[int, bytes], int] = {}
        chosen = (versions.rows != versions.rows[clusters.canonical]) & (versions.column_times >= versions.timestamps)
        is_newest = np.append(versions.rows[1:] != versions.rows[:-1], True)
        numbers = np.flatnonzero(chosen)
        for number in numbers[np.lexsort((numbers, versions.timestamps[numbers], ~is_newest[numbers]))].tolist():
            target, own = int(clusters.canonical[number]), versions.row_keys[number]
            if not (self._options.any_host or same_site(own, versions.row_keys[target])):
                target = of_site.setdefault((target, site(own)), number)
            is_equal = (versions.identity[number] == versions.identity[target]).all()
            is_equal |= (versions.bodies[number] == versions.bodies[target]).all()
            if versions.rows[target] == versions.rows[number]:
                reasons["other_host"] += 1
            elif not is_equal and not {VerdictKind.NEAR, VerdictKind.CONTAINED} & set(self._options.kinds):
                reasons["kind"] += 1
            else:
                targets[number] = target
        return sorted(targets), targets, reasons

    # --- progress

    def _reporter(self, stage: str) -> Callable[[int, int], None]:
        return lambda done, total: self._show(stage, done, total)

    def _show(self, stage: str, done: int, total: int) -> None:
        if self._on_progress is not None:
            self._on_progress(stage, done, total)

    def _stage_done(self, stage: str) -> None:
        now = time.monotonic()
        seconds = self.report.stage_seconds.get(stage, 0.0) + now - self._stage_began  # some stages come again
        self.report.stage_seconds[stage] = round(seconds, 3)
        self._stage_began = now


def _extractor(text: str | None, stored: str) -> str:
    """The extractor of the text to compare."""
    if text is None:
        return stored
    if text not in TEXTS:
        raise InvalidArgument(f"text {text!r} is unknown; choose one of {', '.join(TEXTS)}")
    if text == "visible":
        return "visible"
    return MAIN_EXTRACTOR if stored == "visible" else stored


def _with_named(first: Numbers, second: Numbers, leader: Numbers, versions: Versions) -> tuple[Numbers, Numbers]:
    """Candidates and the pairs of stored verdicts: the sweep's pairs include those."""
    left, right = leader[versions.named[:, 0]], leader[versions.named[:, 1]]
    comparable = (left != right) & (versions.equal_by[left] == BY_TEXT) & (versions.equal_by[right] == BY_TEXT)
    low, high = np.minimum(left, right)[comparable], np.maximum(left, right)[comparable]
    codes = distinct(np.concatenate([first, low]) * max(1, len(leader)) + np.concatenate([second, high]))
    return codes // max(1, len(leader)), codes % max(1, len(leader))


def _pointer(versions: Versions, number: int) -> PagePointer:
    return PagePointer(int(versions.timestamps[number]), versions.row_keys[int(number)])


def _lines(versions: Versions, part: Listed, reason: str = "") -> list[str]:
    urls: dict[int, str] = {}

    def shown(number: int) -> str:
        if number not in urls:
            urls[number] = f"{url_of(versions.row_keys[number])}\t{versions.timestamps[number]}"
        return urls[number]

    return [
        f"{shown(first)}\t{shown(second)}\t{similarity:.6f}{reason}\n"
        for first, second, similarity in zip(*(column.tolist() for column in part), strict=True)
    ]
