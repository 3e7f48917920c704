"""Bytes that change on disk, files that are cut or removed: the right answer, or an error that says where.

    python -m tests.crash.rot --flips 1000000 --seed 0      # `make bit-rot`
    python -m tests.crash.rot --flips 0 --small-share .01 --keep /tmp/kept

A small store is damaged in one place at a time: one bit of each byte, each file cut at each length, each file removed.
A larger one gets many flipped bits at once, from ten to twenty thousand.  Then the store is opened and everything is
read.  It may refuse to open with an error that names the place; if the error names `docstore tool rebuild`, that is
done, and the store has to open.  If it opens, each capture is as it was written, or its read raises `CorruptionError`
with the damaged file, or its loss is reported: by the store when it opens, or by `check`.
No other exception and no other answer is allowed.  Only public calls are used.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

import docstore
from docstore import Page
from docstore.model.errors import CorruptionError, DocstoreError, UnsupportedFormat
from docstore.model.format import RESERVE_FILE
from docstore.reports.check import check
from docstore.store import DocumentStore
from docstore.tablets.rebuild import rebuild
from tests.crash.states import HTML, MEMORY, T0, Work, a_page, fill, limited, near, run_killed, site_pages
from tests.pages import changed, page, words

MOST_VERSIONS = 10
PAGES = 4000
FEWEST_FLIPS, MOST_FLIPS = 10, 20_000
"""Of a round over the larger store."""

NOT_READ = {RESERVE_FILE, "LOG", "LOG.old"}
"""Files that hold nothing, or what LevelDB tells people."""
IN_A_STORE = ("engine/", "segments/", "dictionaries/", "index/")

Value = tuple[bytes | None, str, str]
"""Body, main text and kind of verdict of a capture."""
Truth = dict[str, dict[int, Value]]
"""URL -> time of capture -> its value."""


class Fault(AssertionError):
    """A wrong answer, a loss that nobody reports, or an exception that is none of docstore's."""


class Damage(NamedTuple):
    """What is done to one file: a bit of the byte at `offset` flips, the file is cut there, or it is removed."""

    kind: str
    file: str
    offset: int = 0
    bit: int = 0

    def apply(self, root: Path) -> None:
        path = root / self.file
        if self.kind == "removed":
            path.unlink()
        elif self.kind == "cut":
            os.truncate(path, self.offset)
        else:
            with path.open("r+b") as file:
                file.seek(self.offset)
                byte = file.read(1)[0]
                file.seek(self.offset)
                file.write(bytes([byte ^ 1 << self.bit]))


def captures_of(store: DocumentStore, url: str) -> dict[int, Value]:
    """Read all captures of a URL, with their bodies, texts and verdicts."""
    found = store.get(url, versions=MOST_VERSIONS)
    captures = () if found is None else found.captures
    return {
        one.timestamp: (one.body, one.text, "" if one.verdict is None else str(one.verdict.kind)) for one in captures
    }


def make_small(root: Path) -> None:
    """Make a store of 27 pages that a kill ended: tables and a log of LevelDB, segments, deltas, a dictionary, runs."""
    with limited({"flush_texts": 6}):
        fill(Work(root.parent))
        with docstore.open(root) as store:
            list(store.put_pages(site_pages(7)))
            store.compact()
        run_killed("tests.crash.rot:put_and_die", root)


def put_and_die(root: Path) -> None:
    with limited({"flush_texts": 6}):
        store = docstore.open(root)
        for number in range(4):
            store.put_page(*a_page(f"l.example/{number}", near(number, 70 + number))[:2], headers=HTML)
        os._exit(0)


def make_large(root: Path) -> None:
    """Make a store of some thousand pages, half of them near duplicates, a part of them compacted."""
    source = Random(0)
    with docstore.open(root, create=True) as store:
        for first in range(0, PAGES, PAGES // 4):
            pages = []
            for number in range(first, first + PAGES // 4):
                text = words(number // 2, source.choice([60, 300, 900]))
                body = page(changed(text, number, 1 + number % 7), title=f"Page {number // 2}")
                pages.append(Page(f"https://h{number % 50}.example/{number}", body, 200, HTML, T0))
            list(store.put_pages(pages))
            if first == PAGES // 4:
                store.compact()


def read_all(root: Path) -> Truth:
    with docstore.open(root, read_only=True) as store:
        return {url: captures_of(store, url) for url in store.urls()}


def look(root: Path, truth: Truth, *, is_rebuilt: bool = False) -> Counter[str]:
    """Open a damaged store, rebuild it if need be, and compare all of it with the truth; -> captures by outcome.

    Raises:
        Fault: an answer is wrong, or a loss is not reported.
    """
    outcome: Counter[str] = Counter()
    try:
        store = docstore.open(root)
    except DocstoreError as error:
        if not any(name in str(error) for name in (str(root), *IN_A_STORE)):
            raise Fault(f"the refusal does not say where: {error!r}") from error
        if "docstore tool rebuild" not in str(error):
            return Counter({f"store refused: {type(error).__name__}": 1})
        if is_rebuilt:
            raise Fault(f"a rebuild does not help: {error!r}") from error
        try:
            rebuild(root)
        except CorruptionError:  # FORMAT and the block with the schema are damaged
            return Counter({"store refused, and a rebuild too": 1})
        return look(root, truth, is_rebuilt=True) + Counter({"store rebuilt": 1})
    with store:
        missing: list[str] = []
        for url, captures in truth.items():
            try:
                found = captures_of(store, url)
            except (CorruptionError, UnsupportedFormat) as error:  # a number of a format may be what has changed
                if not any(name in str(error) for name in (str(root), *IN_A_STORE)):
                    raise Fault(f"{url}: the error does not say where: {error!r}") from error
                outcome["damage named"] += len(captures)
                continue
            wrong = {time: value for time, value in found.items() if captures.get(time) != value}
            if wrong:
                raise Fault(f"{url}: wrong answer {str(wrong)[:300]}, not {str(captures)[:300]}")
            missing += [url] * (len(captures) - len(found))
            outcome["right"] += len(found)
        try:
            strangers = set(store.urls()) - truth.keys()
        except CorruptionError:
            strangers = set()
        if strangers:
            raise Fault(f"pages that nobody wrote: {strangers}")
        if missing:
            is_told = bool(store.lost)
            if not is_told and not list(store.backend.remarks()) and not list(check(store.backend)):
                raise Fault(f"lost, and nobody says so: {missing[:5]}")
            outcome["loss reported at open" if is_told else "loss reported by check"] += len(missing)
    return outcome


def files_of(root: Path) -> list[tuple[str, int]]:
    """Name and length of each file of a store that is read."""
    found = (path for path in sorted(root.rglob("*")) if path.is_file() and path.name not in NOT_READ)
    return [(str(path.relative_to(root)), path.stat().st_size) for path in found]


def single_damages(root: Path, source: Random, share: float) -> Iterator[Damage]:
    """Each damage of one place of one file, or a share of them."""
    for name, length in files_of(root):
        yield Damage("removed", name)
        for offset in range(length):
            if source.random() < share:
                yield Damage("flipped", name, offset, source.randrange(8))
            if source.random() < share:
                yield Damage("cut", name, offset)


def many_flips(root: Path, source: Random, flips: int) -> Iterator[list[Damage]]:
    """Flips spread over all bytes of a store, in rounds, until there are so many."""
    files = files_of(root)
    while flips > 0:
        count = min(flips, int(FEWEST_FLIPS * (MOST_FLIPS / FEWEST_FLIPS) ** source.random()))
        flips -= count
        chosen = source.choices(files, weights=[length for _, length in files], k=count)
        yield [Damage("flipped", name, source.randrange(length), source.randrange(8)) for name, length in chosen]


def chunks(rounds: Iterable[list[Damage]], size: int) -> Iterator[list[list[Damage]]]:
    rounds = iter(rounds)
    while chunk := list(islice(rounds, size)):
        yield chunk


class Tried(NamedTuple):
    """Outcomes by kind of damage and file, and faults."""

    outcomes: dict[str, Counter[str]]
    faults: list[str]


def try_damages(root: Path, truth: Truth, rounds: list[list[Damage]], *, keep: Path | None = None) -> Tried:
    """Damage a copy of a store, round by round, and look at it."""
    faulthandler.enable()
    tried = Tried({}, [])
    with TemporaryDirectory(prefix="docstore-rot-", dir=MEMORY) as folder:
        for damages in rounds:
            copy = Path(folder) / "s"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(root, copy, ignore=shutil.ignore_patterns(RESERVE_FILE))
            for damage in damages:
                damage.apply(copy)
            try:
                outcome = look(copy, truth)
            except Exception as error:
                tried.faults.append(f"{damages[:3]}: {type(error).__name__}: {str(error)[:400]}")
                outcome = Counter({"fault": 1})
                if keep is not None:
                    shutil.rmtree(keep / "s", ignore_errors=True)
                    shutil.copytree(root, keep / "s")
                    for damage in damages:
                        damage.apply(keep / "s")
            single = damages[0] if len(damages) == 1 else None
            kind = "many flipped" if single is None else f"{single.kind}: {kind_of(single.file)}"
            tried.outcomes.setdefault(kind, Counter({"states": 0, "damages": 0})).update(outcome)
            tried.outcomes[kind].update(states=1, damages=len(damages))
    return tried


def kind_of(file: str) -> str:
    """What a file of a store is, by its name."""
    path = Path(file)
    return path.name if path.suffix == "" and "-" not in path.name else str(path.parent / f"*{path.suffix}")


def main() -> int:
    """Damage both stores; 1 if there was a fault."""
    parser = argparse.ArgumentParser(description="Flipped bytes, cut and removed files.")
    parser.add_argument("--flips", type=int, default=1_000_000, help="flipped bytes of the larger store, in all")
    parser.add_argument("--small-share", type=float, default=1.0, help="share of the places of the small store")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder that gets the last store with a fault")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.keep is not None:
        options.keep.mkdir(exist_ok=True)
    source = Random(options.seed)
    outcomes: dict[str, Counter[str]] = {}
    faults: list[str] = []
    with (
        TemporaryDirectory(prefix="docstore-rot-", dir=MEMORY) as folder,
        ProcessPoolExecutor(options.processes, multiprocessing.get_context("spawn")) as pool,
    ):
        small, large = Path(folder) / "small" / "s", Path(folder) / "large" / "s"
        small.parent.mkdir()
        large.parent.mkdir()
        make_small(small)
        singles = ([damage] for damage in single_damages(small, source, options.small_share))
        truth = read_all(small)
        works = [(small, truth, chunk) for chunk in chunks(singles, 100)]
        if options.flips:
            make_large(large)
            truth = read_all(large)
            works += [(large, truth, chunk) for chunk in chunks(many_flips(large, source, options.flips), 5)]
        jobs = [pool.submit(partial(try_damages, keep=options.keep), *work) for work in works]
        for number, job in enumerate(jobs, 1):
            tried = job.result()
            faults += tried.faults
            for kind, counts in tried.outcomes.items():
                outcomes.setdefault(kind, Counter()).update(counts)
            print(f"{number} of {len(jobs)}: {len(faults)} faults", *tried.faults[:5], sep="\n", flush=True)
    columns = sorted({name for counts in outcomes.values() for name in counts} - {"states", "damages"})
    print(f"\nseed {options.seed}\n\n| damage | {' | '.join(['states', 'damages', *columns])} |")
    print(f"|---{'|---' * (len(columns) + 2)}|")
    for kind, counts in sorted(outcomes.items()):
        print(f"| {kind} | {' | '.join(f'{counts[name]:,}' for name in ['states', 'damages', *columns])} |")
    return 1 if faults else 0


if __name__ == "__main__":
    from tests.crash import rot  # other processes import what they are given by this name

    sys.exit(rot.main())
