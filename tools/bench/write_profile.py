"""`python -m tools.bench.write_profile CORPUS [--pages N] [--text visible] [--no-deltas]`: a write by stage.

Where the write path spends its time, with one thread and the native kernel, beside bare zstd -3 of the same bodies in
the same process.  Functions that begin a stage are wrapped: time inside one counts for the innermost stage alone, so
that the rows add up to the whole.  What is shown is processor time of the writing thread; a wrapper costs about half a
microsecond a call, and what that adds is measured by a run without them and shown.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from unittest import mock

import zstandard

import docstore
from docstore.dedup.detector import Detector
from docstore.dedup.index import HashIndex
from docstore.dedup.kernel import Kernel
from docstore.model.types import Page
from docstore.storage.sharing import SharedBodies
from docstore.store import now_micros
from docstore.tablets.commit import Committer
from docstore.tablets.dictionaries import SiteDictionaries
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.tablets.placement import Placement
from docstore.tablets.values import ValueCodec
from docstore.writing import sequencer
from docstore.writing.batch import GroupPages
from docstore.writing.judge import OwnRows
from docstore.writing.place import Bases, PagePlacer
from docstore.writing.prepare import Preparer
from docstore.writing.stream import GROUP_PAGES
from docstore.writing.writer import Request
from tools.bench.harness import Section, load_pages, median, one_core

ROUNDS = 3
REST = "the rest: grouping, policies, pages in flight"
STAGES: tuple[tuple[str, tuple[tuple[object, str], ...]], ...] = (
    ("kernel: text and fingerprints of the body", ((Kernel, "analyse_many"),)),
    ("row key, timestamp, what is known of the row", ((Preparer, "prepare"),)),
    ("its own row", ((OwnRows, "own"), (OwnRows, "confirmations"), (Detector, "similarity"))),
    (
        "look-up: bands and fingerprints -> texts -> pages",
        ((HashIndex, "prepare"), (HashIndex, "propose"), (HashIndex, "_qualifiers")),
    ),
    (
        "rows of candidates",
        (
            (GroupPages, "page"),
            (GroupPages, "title"),
            (GroupPages, "status"),
            (GroupPages, "text"),
            (GroupPages, "body"),
        ),
    ),
    ("verify: exact comparison and the verdict", ((Detector, "judge"),)),
    (
        "bases: rows and bodies of relatives",
        (
            (GroupPages, "base"),
            (Bases, "at"),
            (SharedBodies, "lean_on"),
            (GroupPages, "text_base"),
            (Bases, "shared_cells"),
            (SharedBodies, "refer"),
        ),
    ),
    ("dictionaries: sampling and choosing", ((SiteDictionaries, "note"), (SiteDictionaries, "get"))),
    ("zstd of bodies, deltas and texts", ((ValueCodec, "encode"), (ValueCodec, "encode_within"))),
    (
        "records and envelopes",
        ((Placement, "place_near"), (Placement, "place"), (Placement, "place_all")),
    ),
    ("body, text and long values of a page, around zstd", ((PagePlacer, "place"),)),
    ("postings", ((HashIndex, "add"), (HashIndex, "add_names"), (HashIndex, "group_mutations"))),
    ("commit: segment written and synced", ((Placement, "settle"),)),
    ("commit: keys and values, one LevelDB batch", ((LevelDBEngine, "mutate_rows"),)),
    ("commit: rows, totals, manifest, caches", ((Committer, "commit"), (sequencer.Sequencer, "commit"))),
    ("answer", ((sequencer, "_result"),)),
)


class Stopwatch:
    """Time by stage: the innermost stage that is open is charged."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._open = [REST]
        self._since = time.thread_time()

    def enter(self, stage: str) -> None:
        self._charge()
        self._open.append(stage)

    def leave(self) -> None:
        self._charge()
        self._open.pop()

    def _charge(self) -> None:
        now = time.thread_time()
        self.seconds[self._open[-1]] += now - self._since
        self._since = now

    def wrapped(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self.enter(stage)
            try:
                return function(*args, **kwargs)
            finally:
                self.leave()

        return timed


@contextmanager
def watched() -> Iterator[Stopwatch]:
    """Wrap the functions of every stage."""
    watch = Stopwatch()
    with ExitStack() as stack:
        for stage, functions in STAGES:
            for owner, name in functions:
                wrapped = watch.wrapped(stage, getattr(owner, name))
                stack.enter_context(mock.patch.object(owner, name, wrapped))
        watch.seconds.clear()
        yield watch


def write(pages: Sequence[Page], schema: docstore.Schema) -> float:
    """Processor seconds of this thread for one store with all pages, opened and closed outside."""
    with (
        tempfile.TemporaryDirectory() as folder,
        docstore.open(Path(folder) / "s", create=True, schema=schema) as store,
    ):
        half = store._write_side()
        preparer = Preparer(half.kernel, now_micros)
        began = time.thread_time()
        for start in range(0, len(pages), GROUP_PAGES):  # as put_pages, all in this thread
            prepared = preparer.prepare(pages[start : start + GROUP_PAGES])
            half.queue.write(Request(prepared, [{}] * len(prepared)))
        return time.thread_time() - began


def bare_zstd(pages: Sequence[Page]) -> float:
    """Processor seconds of zstd -3 of every body."""
    compress = zstandard.ZstdCompressor(level=3).compress
    began = time.thread_time()
    for page in pages:
        compress(page.body)
    return time.thread_time() - began


@contextmanager
def without_deltas(*, wanted: bool) -> Iterator[None]:
    """No page is given a base to lean on."""
    if not wanted:
        yield
        return
    with mock.patch.object(PagePlacer, "_to_lean_on", lambda *_: []):
        yield


def run(pages: Sequence[Page], command: str, *, extractor: str = "scored", deltas: bool = True) -> Section:
    """One row a stage: the median of rounds, with bare zstd and a run without wrappers in each."""
    schema = docstore.Schema(extractor=extractor)
    count = len(pages)
    rounds: list[dict[str, float]] = []
    bare: list[float] = []
    plain: list[float] = []
    with one_core(), without_deltas(wanted=not deltas):
        write(pages[:300], schema)
        for _ in range(ROUNDS):
            bare.append(bare_zstd(pages))
            plain.append(write(pages, schema))
            with watched() as watch:
                write(pages, schema)
            rounds.append(watch.seconds)
    section = Section(
        f"Where a write spends its time: {'visible text' if extractor == 'visible' else 'main text'}, "
        f"{'deltas' if deltas else 'no deltas'}, one thread",
        command,
        ("stage", "us a page", "% of the write"),
    )
    total = sum(median([one[stage] for one in rounds]) for stage in [*dict(STAGES), REST])
    for stage in [*dict(STAGES), REST]:
        seconds = median([one[stage] for one in rounds])
        section.rows.append((stage, f"{seconds / count * 1e6:.1f}", f"{100 * seconds / total:.1f}"))
    ratio = median([one / other for one, other in zip(bare, plain, strict=True)])
    section.rows.append(("all stages, with the stopwatch", f"{total / count * 1e6:.0f}", "100"))
    section.rows.append(("the same without it", f"{median(plain) / count * 1e6:.0f}", ""))
    section.rows.append(("bare zstd -3 of the same bodies", f"{median(bare) / count * 1e6:.1f}", ""))
    section.notes.append(
        f"{count} pages, {sum(len(page.body) for page in pages) / count:.0f} bytes on average; processor time of the "
        f"writing thread, medians of {ROUNDS} rounds. Speed of the write without the stopwatch: {ratio:.3f}x of bare "
        "zstd -3."
    )
    return section


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.write_profile", description=__doc__)
    parser.add_argument("corpus", type=Path, help="folder of WARC files")
    parser.add_argument("--pages", type=int, help="at most so many")
    parser.add_argument("--text", choices=("main", "visible"), default="main", help="what carries the fingerprints")
    parser.add_argument("--no-deltas", action="store_true", help="every body compressed by itself")
    arguments = parser.parse_args()
    options = "".join(
        [
            " CORPUS",
            f" --pages {arguments.pages}" if arguments.pages else "",
            " --text visible" if arguments.text == "visible" else "",
            " --no-deltas" if arguments.no_deltas else "",
        ]
    )
    section = run(
        load_pages(arguments.corpus, arguments.pages),
        f"python -m tools.bench.write_profile{options}",
        extractor="visible" if arguments.text == "visible" else "scored",
        deltas=not arguments.no_deltas,
    )
    print(section.render())


if __name__ == "__main__":
    main()
