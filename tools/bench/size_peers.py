"""Size against read time: docstore at each stage, beside what a user would pick instead, on the same pages in one run.

usage: python -m tools.bench.size_peers CORPUS_DIR [--limit N] [--reads N] [--stages live fast best] [--plot FILE.svg]

Sizes are percent of the raw bytes of the bodies.  For docstore that is the records of bodies with their headers and
dictionaries, and the whole directory (text, verdicts, index and all) apart.  WARC files and the tar hold what they
hold: request line and headers too.  Reads are means over random pages, warm, CPU of one thread; a WARC is read through
an index of offsets in memory, which costs nothing here.  Writing is CPU time of one core, pages in memory.

The oracle knows for each page the nearest earlier one, from an exact join of all texts at Jaccard 0.4: the body is then
a delta against that, where it is smaller than what the store has.  Its chains have no bound, so it is no store.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import docstore
from docstore.dedup.kernel import Kernel
from docstore.model.capture import MAIN
from docstore.model.format import RECORD_NARROW_HEADER_BYTES, RECORD_RELATED_BYTES
from docstore.model.types import Page, ReadSpec
from docstore.reference.fingerprints import Sets
from docstore.storage.envelope import parse_envelope
from docstore.store import DocumentStore
from docstore.tablets.bodies import decode_ref
from docstore.tablets.values import ValueCodec, checksum16
from tools.bench.exact_join import exact_join
from tools.bench.harness import Section, folder_bytes, load_pages, one_core, run_commands
from tools.bench.peers import PEERS, Reader
from tools.bench.plots import Plot, Points
from tools.bench.size import BODIES, DIRECTORY, NAMES, STAGES, account, compact, tell

LEAST_LIKENESS = 0.4


# --- the oracle


def nearest_earlier(store: DocumentStore) -> dict[tuple[bytes, int], tuple[bytes, int]]:
    """For each capture (row key, timestamp) the earlier one of the most similar text, by an exact join."""
    kernel = Kernel(store.schema.extractor, store.schema.shingle_words)
    names, shingles = [], []
    for row in store.cells.scan(spec=ReadSpec(families=(MAIN[0],), qualifier_prefix=MAIN[1])):
        for cell in row.cells:
            names.append((row.row_key, cell.timestamp))
            shingles.append(kernel.shingles(cell.value.decode("utf-8", "surrogatepass")))
    order = sorted(range(len(names)), key=lambda number: (names[number][1], names[number][0]))
    sets = Sets(
        np.concatenate([[0], np.cumsum([len(shingles[number]) for number in order])]).astype(np.int64),
        np.concatenate([shingles[number] for number in order]),
    )
    best: dict[int, tuple[float, int]] = {}
    for first, second, shared, either in zip(*(one.tolist() for one in exact_join(sets, LEAST_LIKENESS)), strict=True):
        if either and (second not in best or shared / either > best[second][0]):
            best[second] = shared / either, first
    return {names[order[number]]: names[order[found]] for number, (_, found) in best.items()}


def oracle_bytes(store: DocumentStore, level: int, nearest: dict[tuple[bytes, int], tuple[bytes, int]]) -> int:
    """Bytes of bodies, headers and dictionaries counted, if each leaned on the nearest earlier page."""
    codec = ValueCodec(level)
    saved = 0
    for row in store.table.scan(spec=ReadSpec(families=("page",))):
        for cell in row.cells:
            base = nearest.get((row.row_key, cell.timestamp))
            ref = parse_envelope(cell.value).ref
            if base is None or ref is None:
                continue
            raw = store.opened.placement.fetch(cell.value)
            (other,) = store.table.read_row(base[0], ReadSpec(("page",), b"body", start=base[1], end=base[1] + 1))
            base_raw = store.opened.placement.fetch(other.value)
            payload = codec.encode(raw, base=(checksum16(base_raw), base_raw)).payload
            header_bytes = RECORD_NARROW_HEADER_BYTES + RECORD_RELATED_BYTES + 4 + len(row.row_key)
            saved += max(0, decode_ref(ref).length - header_bytes - len(payload))
    return account(store)[BODIES] - saved


# --- measuring


class Contenders:
    """Readers that take turns on the same random pages; the first is what ratios refer to."""

    def __init__(self, pages: Sequence[Page], count: int) -> None:
        self._pages = pages
        source = random.Random(7)
        self._chosen = [source.randrange(len(pages)) for _ in range(count)]

    def micros(self, reader: Reader) -> float:
        """Mean CPU time of a warm read, in microseconds; the best of three rounds, since others use the core too."""
        for number in self._chosen:
            assert reader(number) == self._pages[number].body, number
        rounds = []
        for _ in range(3):
            began = time.thread_time()
            for number in self._chosen:
                reader(number)
            rounds.append(time.thread_time() - began)
        return 1e6 * min(rounds) / len(self._chosen)


def run(corpus: Path, limit: int | None, reads: int, stages: Sequence[str], plot: Path | None) -> Section:
    """Measure everybody."""
    # Only the newest capture of a URL: a reader by URL gives that one.
    pages = list({page.url: page for page in load_pages(corpus, limit)}.values())
    raw_bytes = sum(len(page.body) for page in pages)
    contenders = Contenders(pages, reads)
    section = Section(
        "Size against read time, and peers",
        f"python -m tools.bench.size_peers CORPUS_DIR --stages {' '.join(stages)} --plot docs/img/size-and-reads.svg",
        ("what", "size, % of bodies", "read one page, us", "of a frame alone", "write, MB/s a core"),
    )
    points: list[tuple[str, Points, Points]] = []
    bare = 0.0

    def add(name: str, size_bytes: int, micros: float | None, seconds: float | None) -> None:
        nonlocal bare
        size = 100 * size_bytes / raw_bytes
        bare = bare or micros or 0.0
        timing = ("-", "-") if micros is None else (f"{micros:.1f}", f"{micros / bare:.2f}x")
        speed = "" if seconds is None else f"{raw_bytes / 1e6 / seconds:.1f}"
        section.rows.append((name, f"{size:.2f}", *timing, speed))
        if micros is not None:
            points.append((name, [], [(micros, size)]))
        tell(f"{name}: {size:.2f}%, {timing[0]} us, {speed} MB/s")

    with one_core(), tempfile.TemporaryDirectory(prefix="docstore-peers-") as name:
        for number, peer in enumerate(PEERS):
            folder = Path(name) / str(number) / "files"
            folder.mkdir(parents=True)
            began = time.process_time()
            peer.write(pages, folder)
            seconds = time.process_time() - began
            size_bytes = folder_bytes(folder)
            micros = contenders.micros(peer.open(pages, folder)) if peer.open else None
            add(peer.name, size_bytes, micros, seconds)
            if not peer.open:
                shutil.rmtree(folder)
        _add_ours(pages, Path(name), contenders, stages, add)
    section.notes.append(
        f"{len(pages)} pages, the newest capture of each URL, {raw_bytes / 1e6:.1f} MB; {reads} random pages. Rows of "
        "docstore count records of bodies with headers and dictionaries; its directory holds text, verdicts and index "
        "besides, and its writing finds these. RocksDB's blob files have no dictionaries."
    )
    if plot is not None:
        micros, size = (1.1 * max(point[axis] for _, _, (point,) in points) for axis in range(2))
        names = ("Size against read time", "read one page by URL, warm, us of CPU", "% of raw bytes")
        Plot(*names, (0, micros), (0, size), range(0, int(micros), 5), points, legend=(420, 60)).write(plot)
    return section


def _add_ours(
    pages: Sequence[Page], folder: Path, contenders: Contenders, stages: Sequence[str], add: Callable[..., None]
) -> None:
    raw_bytes = sum(len(page.body) for page in pages)
    with docstore.open(folder / "store", create=True, durability="flush") as store:
        began = time.process_time()
        for _ in store.put_pages(pages, threads=1):
            pass
        seconds = time.process_time() - began

        def read(number: int) -> bytes:
            document = store.get(pages[number].url, families=("page",))
            assert document is not None and document.body is not None
            return document.body

        for stage in stages:
            if stage != "live":
                seconds = raw_bytes / 1e6 / float(compact(store, stage))
            found = account(store)
            micros = contenders.micros(read)
            add(f"docstore, {NAMES[stage].replace('`', '')}", found[BODIES], micros, seconds)
            add(f"the same, whole directory ({stage})", found[DIRECTORY], None, None)
        nearest = nearest_earlier(store)
        tell(f"{len(nearest)} of {len(pages)} pages have an earlier one at {LEAST_LIKENESS}")
        for level in (3, 15):
            add(f"oracle over the last stage: delta -{level} of the exactly nearest earlier page",
                oracle_bytes(store, level, nearest), None, None)  # fmt: skip


def main(
    corpus: Path,
    *,
    limit: int | None = None,
    reads: int = 2000,
    stages: tuple[str, ...] = STAGES,
    plot: Path | None = None,
) -> Section:
    """Size against read time, and peers; --plot draws it as SVG."""
    return run(corpus, limit, reads, stages, plot)


if __name__ == "__main__":
    run_commands(main)
