"""What the index of band keys and fingerprints costs as documents come: a table, a JSON and a plot of cost against N.

Stands on the package from outside; must not be imported by it.  Structures:

- ``runs``: `docstore.dedup.levels` over files, with its log in LevelDB;
- ``rows``: LevelDB, one bare key a posting (tag, kind, key, text number), read with one seek a key: what it replaced.

Load: synthetic fingerprints, a fixed number of bands and of 0-mod-p fingerprints a document, whose bucket sizes are
those measured on 100,386 different texts of 50 words or more of the 121,351 pages of the Debian manuals (tables below).
The load repeats in epochs of 100,000 documents with fresh keys, but half of the buckets of 1,000 and more are the same
in every epoch, so giants grow with the collection.  Between two sizes documents are loaded in groups of 2,000 as fast
as they can be made; then, while what that left is still being merged, `--paced` documents are added in unsynced groups
of 64, for stalls; then merges are waited for, and a window of documents goes through the detector's index work: look
up all keys of one, add 64 of them as a synced group.

    index_scale.py --sizes 100000,300000,1000000,3000000,10000000 --json out.json --plot docs/img/index-cost.svg
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

import numpy as np
import plyvel
from numpy.typing import NDArray

from docstore.dedup.levels import RunLevels
from docstore.dedup.packing import packing
from docstore.dedup.runfiles import RunFiles
from docstore.storage.files import Files
from tools.bench.svg import Plot

Keys = NDArray[np.uint64]

EPOCH = 100_000
GROUP = 64
LOAD_GROUP = 2000
BUCKET_LIMIT = 64

# (bucket size, share of postings in such buckets), measured as the docstring says
BAND_BUCKETS = (
    (1, 0.7348), (2, 0.1128), (3, 0.0390), (4, 0.0252), (7, 0.0168), (13, 0.0188), (29, 0.0136), (69, 0.0083),
    (130, 0.0077), (288, 0.0054), (620, 0.0104), (1360, 0.0042), (2295, 0.0029),
)  # fmt: skip
FINGERPRINT_BUCKETS = (
    (1, 0.2638), (2, 0.1588), (3, 0.0514), (4, 0.0643), (7, 0.0619), (13, 0.0572), (28, 0.0603), (68, 0.0283),
    (146, 0.0410), (284, 0.0558), (690, 0.0477), (1339, 0.0167), (2826, 0.0259), (9426, 0.0667),
)  # fmt: skip
GIANT = 1000

PLANTED = 10_000
"""Of each similarity: the standard error of a recall of .97 is .0017."""
PLANTED_SIMILARITIES = (0.5, 0.6, 0.7, 0.8, 0.9)
BAND_WIDTH = 5


def spread(numbers: Keys) -> Keys:
    """An even 64-bit key of each number (SplitMix64's finaliser)."""
    mixed = numbers * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


class Load:
    """Documents with keys; the same for every structure and every run."""

    def __init__(self, bands: int, fingerprints: int) -> None:
        self.bands, self.fingerprints = bands, fingerprints

    def epoch(self, number: int) -> tuple[Keys, Keys]:
        """(EPOCH,) text numbers and (EPOCH, bands + fingerprints) keys."""
        rng = np.random.default_rng([20261120, number])
        columns = [self._column(rng, number, slot, BAND_BUCKETS) for slot in range(self.bands)]
        if self.fingerprints:
            # fingerprints share one space of keys: a bucket of any size may come in any of their places
            postings = EPOCH * self.fingerprints
            drawn = self._draw(rng, number, 10_000, FINGERPRINT_BUCKETS, postings)
            columns.append((drawn.reshape(EPOCH, self.fingerprints) // np.uint64(16)) * np.uint64(16))
        texts = spread(np.arange(EPOCH, dtype=np.uint64) + np.uint64(number * EPOCH + 1)) >> np.uint64(16)
        return texts, np.column_stack(columns)

    def _column(self, rng: np.random.Generator, epoch: int, slot: int, sizes: Sequence[tuple[int, float]]) -> Keys:
        return self._draw(rng, epoch, slot, sizes, EPOCH)

    @staticmethod
    def _draw(
        rng: np.random.Generator, epoch: int, slot: int, sizes: Sequence[tuple[int, float]], postings: int
    ) -> Keys:
        buckets = [np.full(max(1, round(share * postings / size)), size) for size, share in sizes]
        each = np.concatenate(buckets[::-1])
        each = each[: int(np.searchsorted(np.cumsum(each), postings)) + 1]
        names = np.arange(len(each), dtype=np.uint64) << np.uint64(24) | np.uint64(slot)
        salt = np.full(len(each), epoch + 1, np.uint64)
        salt[(each >= GIANT) & (names >> np.uint64(24) & np.uint64(1) == 0)] = 0
        keys = np.repeat(spread(names ^ spread(salt)), each)[:postings]
        if len(keys) < postings:
            fresh = np.arange(postings - len(keys), dtype=np.uint64) << np.uint64(40)
            keys = np.concatenate([keys, spread(fresh | np.uint64(slot + epoch * 1_000_003))])
        return rng.permutation(keys)


class Sizes(NamedTuple):
    """Bytes on disk, in memory; parts that a look-up may ask; processor time that other threads have taken so far."""

    disk_bytes: int
    memory_bytes: int
    parts: int
    background_seconds: float


class Structure(Protocol):
    """What is measured."""

    def find(self, keys: Keys) -> list[int]:
        """Look up the keys of one document, or of a group; gives the text number of each posting found."""
        ...

    def add(self, group: int, texts: Sequence[int], keys: Keys, sync: bool) -> None:
        """Add one group; durable when it returns, if `sync`."""
        ...

    def load(self, group: int, texts: Keys, keys: Keys) -> None:
        """Add many documents at once, unsynced."""
        ...

    def settle(self) -> None:
        """Wait for what goes on in the background."""
        ...

    def sizes(self) -> Sizes:
        """What it takes now."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


class Rows:
    """LevelDB with one bare key a posting."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cache_bytes, self._buffer_bytes = 64 << 20, 16 << 20
        self._db = plyvel.DB(
            str(folder),
            create_if_missing=True,
            lru_cache_size=self._cache_bytes,
            write_buffer_size=self._buffer_bytes,
        )

    def find(self, keys: Keys) -> list[int]:
        found: list[int] = []
        with self._db.raw_iterator() as cursor:
            for key in keys.astype(">u8").view("S8").tolist():
                row = b"\x04\x03" + key.ljust(8, b"\0")
                cursor.seek(row)
                taken = 0
                while taken < BUCKET_LIMIT and cursor.valid() and (key_found := cursor.key()).startswith(row):
                    found.append(int.from_bytes(key_found[10:], "big"))
                    taken += 1
                    cursor.next()
        return found

    def add(self, group: int, texts: Sequence[int], keys: Keys, sync: bool) -> None:
        rows = np.ascontiguousarray(keys.astype(">u8")).tobytes()
        width = keys.shape[1] * 8
        with self._db.write_batch(sync=sync) as batch:
            for number, text in enumerate(texts):
                tail = text.to_bytes(6, "big")
                for at in range(number * width, (number + 1) * width, 8):
                    batch.put(b"\x04\x03" + rows[at : at + 8] + tail, b"")

    def load(self, group: int, texts: Keys, keys: Keys) -> None:
        self.add(group, texts.tolist(), keys, sync=False)

    def settle(self) -> None:
        """Its thread cannot be waited for."""

    def sizes(self) -> Sizes:
        disk = Files().tree_bytes(self._folder)
        return Sizes(disk, self._cache_bytes + self._buffer_bytes, len(list(self._folder.glob("*.ldb"))), 0.0)

    def close(self) -> None:
        self._db.close()


class Runs:
    """`RunLevels`, and its log: one synced LevelDB row a group, deleted when a run holds it."""

    def __init__(self, folder: Path, fan_in: int, kernel: Literal["native", "reference"] | None) -> None:
        self._storage = RunFiles(folder / "runs")
        self._levels = RunLevels(self._storage, bucket_limit=BUCKET_LIMIT, fan_in=fan_in, kernel=packing(kernel))
        self._log_folder = folder / "log"
        self._log = plyvel.DB(str(self._log_folder), create_if_missing=True)
        self._trimmed = 0

    def find(self, keys: Keys) -> list[int]:
        numbers: list[int] = self._levels.find(keys)[1].tolist()
        return numbers

    def add(self, group: int, texts: Sequence[int], keys: Keys, sync: bool) -> None:
        packed = np.array(texts, np.uint64).tobytes() + keys.tobytes()
        with self._log.write_batch(sync=sync) as batch:
            batch.put(group.to_bytes(8, "big"), packed)
            while self._trimmed < self._levels.end:
                batch.delete(self._trimmed.to_bytes(8, "big"))
                self._trimmed += 1
        for text, its_keys in zip(texts, keys, strict=True):
            self._levels.post(text, self._levels.log_keys(its_keys))
        self._levels.end_group(group)

    def load(self, group: int, texts: Keys, keys: Keys) -> None:
        self._levels.load(group, texts, keys.ravel(), np.full(len(texts), keys.shape[1]))

    def settle(self) -> None:
        self._levels.settle()
        self._storage.settle()

    def sizes(self) -> Sizes:
        disk = Files().tree_bytes(self._log_folder.parent)
        levels = self._levels
        return Sizes(disk, levels.memory_bytes, levels.run_count, self._storage.background_seconds)

    def close(self) -> None:
        self._storage.close()
        self._log.close()


@dataclass
class Row:
    """One line of the table; times in microseconds, a document where they do not say group; bytes a document.

    `find_` and `add_` are processor time of the calling thread, so that other work on the machine does not count;
    `merge_mean` is that of background threads since the beginning, so what all merges so far have taken; `waited_` is
    of the clock; `group_` is of the clock less the time in which the thread was ready to run and had no processor,
    which is other work on the machine; `group_clock_max` is all of it.  Groups are of 64 documents, unsynced.
    """

    structure: str
    documents: int
    find_mean: float
    find_p50: float
    find_p99: float
    waited_p99: float
    add_mean: float
    merge_mean: float
    cost_mean: float
    group_p50: float
    group_p999: float
    group_max: float
    group_clock_max: float
    unsettled_disk_bytes: float
    disk_bytes: float
    memory_bytes: float
    resident_bytes: float
    parts: int
    found: float
    recall: dict[str, float]


def unserved_seconds() -> float:
    """How long this thread has been ready to run without a processor; 0 where the system does not say."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0


def resident_anonymous_bytes() -> int:
    """Memory of this process that is not a file's pages."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


def groups(load: Load, start: int, end: int, group: int) -> Iterator[tuple[Keys, Keys]]:
    """Documents start..end in groups."""
    for epoch in range(start // EPOCH, -(-end // EPOCH)):
        texts, keys = load.epoch(epoch)
        for at in range(max(start - epoch * EPOCH, 0), min(end - epoch * EPOCH, EPOCH), group):
            stop = min(at + group, end - epoch * EPOCH, EPOCH)
            yield texts[at:stop], keys[at:stop]


def recall(structure: Structure, load: Load, documents: int) -> dict[str, float]:
    """Share of planted near-duplicates that the bands find, by similarity; the bucket bound is what they may fail by.

    A planted page is a stored one of which each band survives with the chance that its similarity gives; only planted
    pages that still share a band are counted, so the curve of the bands themselves is left out.
    """
    rng = np.random.default_rng([20261120, documents])
    chosen = np.sort(rng.integers(0, documents, PLANTED))
    hits: dict[str, list[bool]] = {f"{similarity:.1f}": [] for similarity in PLANTED_SIMILARITIES}
    for epoch in np.unique(chosen // EPOCH).tolist():
        texts, keys = load.epoch(epoch)
        for document in (chosen[chosen // EPOCH == epoch] - epoch * EPOCH).tolist():
            for similarity in PLANTED_SIMILARITIES:
                kept = keys[document, : load.bands][rng.random(load.bands) < similarity**BAND_WIDTH]
                if len(kept):
                    hits[f"{similarity:.1f}"].append(int(texts[document]) in structure.find(kept))
    return {name: round(float(np.mean(found)), 4) for name, found in hits.items()}


def measure(
    name: str, structure: Structure, load: Load, sizes: Sequence[int], window: int, paced: int, budget_seconds: float
) -> Iterator[Row]:
    """Load up to each size and measure a window there; stops when the time is up."""
    began = time.perf_counter()
    group = documents = 0
    for size in sizes:
        for texts, keys in groups(load, documents, size - window - paced, LOAD_GROUP):
            structure.load(group, texts, keys)
            group += 1
            documents += len(texts)
            if time.perf_counter() - began > budget_seconds:
                break
        commits: list[float] = []
        clock: list[float] = []
        busy: list[float] = []
        for texts, keys in groups(load, documents, documents + paced, GROUP):
            numbers = texts.tolist()
            unserved, begin, mark = unserved_seconds(), time.thread_time(), time.perf_counter()
            structure.add(group, numbers, keys, sync=False)
            clock.append(time.perf_counter() - mark)
            busy.append(time.thread_time() - begin)
            commits.append(clock[-1] - (unserved_seconds() - unserved))
            group += 1
            documents += len(texts)
        unsettled = structure.sizes().disk_bytes
        structure.settle()
        finds: list[float] = []
        adds: list[float] = []
        waited: list[float] = []
        found = 0
        for texts, keys in groups(load, documents, documents + window, GROUP):
            for row in keys:
                begin, mark = time.thread_time(), time.perf_counter()
                found += len(structure.find(row))
                finds.append(time.thread_time() - begin)
                waited.append(time.perf_counter() - mark)
            begin = time.thread_time()
            structure.add(group, texts.tolist(), keys, sync=True)
            adds.append(time.thread_time() - begin)
            group += 1
            documents += len(texts)
        structure.settle()
        sizes_now = structure.sizes()
        find, commit = np.array(finds) * 1e6, np.array(commits) * 1e6
        add_mean = (float(np.sum(adds)) + float(np.sum(busy))) * 1e6 / (window + paced)
        merge_mean = sizes_now.background_seconds * 1e6 / documents
        yield Row(
            structure=name,
            documents=documents,
            find_mean=float(np.mean(find)),
            find_p50=float(np.quantile(find, 0.5)),
            find_p99=float(np.quantile(find, 0.99)),
            waited_p99=float(np.quantile(waited, 0.99)) * 1e6,
            add_mean=add_mean,
            merge_mean=merge_mean,
            cost_mean=float(np.mean(find)) + add_mean + merge_mean,
            group_p50=float(np.quantile(commit, 0.5)),
            group_p999=float(np.quantile(commit, 0.999)),
            group_max=float(commit.max()),
            group_clock_max=max(clock) * 1e6,
            unsettled_disk_bytes=unsettled / documents,
            disk_bytes=sizes_now.disk_bytes / documents,
            memory_bytes=sizes_now.memory_bytes / documents,
            resident_bytes=resident_anonymous_bytes() / documents,
            parts=sizes_now.parts,
            found=found / len(finds),
            recall=recall(structure, load, documents),
        )
        if time.perf_counter() - began > budget_seconds:
            return


COLUMNS = {
    "documents": ("documents", ",d"),
    "find_mean": ("find us", ".0f"),
    "find_p50": ("p50", ".0f"),
    "find_p99": ("p99", ".0f"),
    "waited_p99": ("p99 by the clock", ".0f"),
    "add_mean": ("add us", ".1f"),
    "merge_mean": ("merge us", ".1f"),
    "cost_mean": ("cost us", ".0f"),
    "group_p50": ("group us: p50", ".0f"),
    "group_p999": ("p99.9", ".0f"),
    "group_max": ("max", ".0f"),
    "group_clock_max": ("max by the clock", ".0f"),
    "unsettled_disk_bytes": ("disk B while merging", ".0f"),
    "disk_bytes": ("disk B", ".0f"),
    "memory_bytes": ("table B", ".1f"),
    "resident_bytes": ("process B", ".0f"),
    "parts": ("parts", "d"),
    "found": ("postings found", ".0f"),
}
"""Field -> heading and format of the printed table."""


def heading() -> str:
    return "| " + " | ".join(title for title, _ in COLUMNS.values()) + " | recall by similarity |"


def rendered(row: Row) -> str:
    values = [format(getattr(row, field), spec) for field, (_, spec) in COLUMNS.items()]
    return "| " + " | ".join([*values, " ".join(f"{value:.4f}" for value in row.recall.values())]) + " |"


def plotted(rows: Sequence[Row]) -> Plot:
    """Cost against documents."""
    fields = {
        "look-up, addition and merging: mean": "cost_mean",
        "look-up: p99": "find_p99",
        "look-up: mean": "find_mean",
        "addition: mean": "add_mean",
        "merging: mean of all so far": "merge_mean",
    }
    powers = [math.log10(row.documents) for row in rows]
    highest = max(max(row.cost_mean, row.find_p99) for row in rows)
    plot = Plot(
        "The index of band keys and fingerprints",
        "documents, as a power of ten",
        "microseconds of processor time a document",
        (math.floor(powers[0]), math.ceil(powers[-1])),
        (0, math.ceil(highest / 50) * 50),
        range(math.floor(powers[0]), math.ceil(powers[-1]) + 1),
    )
    for title, field in fields.items():
        points = [(power, getattr(row, field)) for power, row in zip(powers, rows, strict=True)]
        plot.curves.append((title, points, points))
    return plot


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--structure", choices=["runs", "rows"], default="runs")
    parser.add_argument("--sizes", default="100000,300000,1000000", help="documents, ascending, separated by commas")
    parser.add_argument("--window", type=int, default=4096, help="documents measured one by one at each size")
    parser.add_argument("--paced", type=int, default=50_000, help="documents before it that are added in groups")
    parser.add_argument("--bands", type=int, default=16)
    parser.add_argument("--fingerprints", type=int, default=24)
    parser.add_argument("--fan-in", type=int, default=2, help="runs merged into one")
    parser.add_argument(
        "--kernel", choices=["native", "reference"], help="of the runs; default native where it is built"
    )
    parser.add_argument("--budget-seconds", type=float, default=1e9, help="measure where this time ends, and stop")
    parser.add_argument("--folder", type=Path, help="where to work; default a temporary folder")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="SVG of cost against documents")
    args = parser.parse_args()
    load = Load(args.bands, args.fingerprints)
    folder = Path(tempfile.mkdtemp(prefix="index-scale-", dir=args.folder))
    structure: Structure = Rows(folder) if args.structure == "rows" else Runs(folder, args.fan_in, args.kernel)
    rows: list[Row] = []
    print(heading(), flush=True)
    try:
        sizes = [int(size) for size in args.sizes.split(",")]
        for row in measure(args.structure, structure, load, sizes, args.window, args.paced, args.budget_seconds):
            rows.append(row)
            print(rendered(row), flush=True)
    finally:
        structure.close()
        shutil.rmtree(folder)
    if args.plot:
        plotted(rows).write(args.plot)
    if args.json:
        about = {
            "machine": platform.processor() or platform.machine(),
            "options": {k: str(v) for k, v in vars(args).items()},
        }
        args.json.write_text(json.dumps({**about, "rows": [asdict(row) for row in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
