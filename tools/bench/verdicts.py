"""What two stores of the same input say of each page: every verdict that differs, counted by kind.

    python -m tools.bench.verdicts changes OLD NEW [--examples 20]
    python -m tools.bench.verdicts versions OTHER_PYTHON [--corpus DIR] [--limit N] [--pairs 10]

OLD and NEW are addresses of stores that were made from the same archives by two versions of docstore, by two schemas,
or on two backends.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

import docstore
from docstore.model.capture import VERDICT, decode_verdict
from docstore.model.keys import url_of
from docstore.model.types import ReadSpec
from tools.bench.harness import Section, load_pages, run_commands

_SPEC = ReadSpec(families=(VERDICT[0],), qualifier_prefix=VERDICT[1])
_SIMILARITY_STEP = 1e-9


class Said(NamedTuple):
    """What a store says of one capture."""

    kind: str
    of: str
    similarity: float
    reason: str
    previous: str


def verdicts(path: str | Path) -> Iterator[tuple[tuple[str, int], Said]]:
    """Each capture's (URL, timestamp) and verdict, in row-key order."""
    with docstore.open(path) as store:
        for row in store.cells.scan(spec=_SPEC):
            for cell in row.cells:
                found = decode_verdict(cell.value)
                of = url_of(found.of_row_key) if found.of_row_key else ""
                said = Said(str(found.kind), of, found.similarity, found.reason, str(found.previous))
                yield (row.url, cell.timestamp), said


def difference(old: Said | None, new: Said | None) -> str:
    """In what two verdicts differ; "" for equal ones."""
    if old is None or new is None:
        return "not stored before" if old is None else "not stored now"
    if old.kind != new.kind:
        return f"{old.kind} -> {new.kind}"
    if old.of != new.of:
        better = new.similarity - old.similarity
        if abs(better) < _SIMILARITY_STEP:
            return f"{old.kind}: another page, equal similarity"
        return f"{old.kind}: another page, {'more' if better > 0 else 'less'} similar"
    if abs(old.similarity - new.similarity) >= _SIMILARITY_STEP:
        return f"{old.kind}: same page, other similarity"
    if old.previous != new.previous:
        return f"previous: {old.previous} -> {new.previous}"
    return f"{old.kind}: other reason" if old.reason != new.reason else ""


def changes(old: str, new: str, *, examples: int = 0) -> Section:
    """Count the differences of two stores of the same input by what they are, and list some of each."""
    before = dict(verdicts(old))
    after = dict(verdicts(new))
    counts: Counter[str] = Counter()
    same = 0
    shown: dict[str, list[str]] = {}
    for key in sorted(before.keys() | after.keys()):
        was, now = before.get(key), after.get(key)
        change = difference(was, now)
        if not change:
            same += 1
            continue
        counts[change] += 1
        listed = shown.setdefault(change, [])
        if len(listed) < examples:
            listed.append(f"- {change}: {key[0]} at {key[1]}: {_words(was)} -> {_words(now)}")
    command = "python -m tools.bench.verdicts changes OLD NEW"
    section = Section("Changed verdicts", command, ["change", "captures", "of all"])
    total = max(1, len(before))
    section.rows += [(change, f"{count:,}", f"{count / total:.3%}") for change, count in counts.most_common()]
    section.rows.append(("none", f"{same:,}", f"{same / total:.3%}"))
    section.notes += ["\n".join(lines) for lines in shown.values()]
    return section


def _words(said: Said | None) -> str:
    return "nothing" if said is None else f"{said.kind} {said.similarity:.3f} {said.of or said.reason}".rstrip()


READS = 3000
RUN = """
import json, random, sys, time
from pathlib import Path
import msgpack
import docstore

given, folder, reads = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
pages = [
    docstore.Page(url, body, status, tuple(map(tuple, headers)), at)
    for url, body, status, headers, at in msgpack.unpackb(Path(given).read_bytes(), strict_map_key=False)
]
with docstore.open(folder.with_name(folder.name + "-first"), create=True) as store:
    store.put_page("https://first.example/", b"<p>what a version loads, and when, is not what is compared")
said = {}
began = time.process_time()
with docstore.open(folder, create=True) as store:
    for result in store.put_pages(pages):
        pass
said["write"] = time.process_time() - began
urls = random.Random(7).choices([page.url for page in pages], k=reads)
with docstore.open(folder) as store:
    for url in urls:
        store.get(url, families=("page",))
    began = time.process_time()
    for url in urls:
        store.get(url, families=("page",))
    said["read"] = time.process_time() - began
said["bodies"] = sum(path.stat().st_size for path in (folder / "segments").iterdir())
said["directory"] = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name != "RESERVE")
print(json.dumps(said))
"""


def run_once(python: str, given: Path, folder: Path) -> dict[str, float]:
    """What a fresh store takes in one process of a version: seconds to write and to read, and bytes."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, "-P", "-c", RUN, str(given), str(folder), str(READS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=folder.parent)
    said: dict[str, float] = json.loads(done.stdout)
    return said


def interval(ratios: Sequence[float]) -> str:
    """Median and the distribution-free 95% interval of it, for some ten pairs."""
    ordered = sorted(ratios)
    cut = max(0, round(len(ordered) / 2 - 0.98 * len(ordered) ** 0.5))
    return f"{statistics.median(ordered):.3f} ({ordered[cut]:.3f} to {ordered[-1 - cut]:.3f})"


def versions(other: str, *, corpus: Path = Path("examples"), limit: int | None = None, pairs: int = 10) -> Section:
    """Two versions of docstore in turns on the same pages: writing, reading, sizes, and verdicts that differ.

    OTHER is the interpreter of an environment that has the other version.  Each run is a process of its own with a
    fresh store; ratios are of processor time, this version to the other, of the two runs of a pair.
    """
    pages = load_pages(corpus, limit)
    with tempfile.TemporaryDirectory() as name:
        given = Path(name) / "pages"
        rows: Any = [(one.url, one.body, one.status, one.headers, one.fetched_at) for one in pages]
        given.write_bytes(msgpack.packb(rows))
        found: dict[str, Any] = defaultdict(list)
        for pair in range(pairs):
            order = [("this", sys.executable), ("other", other)]
            said = {}
            for which, python in order if pair % 2 else reversed(order):
                said[which] = run_once(python, given, Path(name) / f"{which}{pair}")
            for what, value in said["this"].items():
                found[what].append(value / said["other"][what])
        section = Section("This version to the other", "", ("what", "median of pairs (95% interval)"))
        section.rows.extend((what, interval(ratios)) for what, ratios in found.items())
        old, new = (dict(verdicts(Path(name) / f"{which}0")) for which in ("other", "this"))
        differ = sum(bool(difference(old.get(key), new.get(key))) for key in old.keys() | new.keys())
        section.notes.append(f"{pairs} pairs of {len(pages)} pages; {differ} verdicts differ.")
    return section


if __name__ == "__main__":
    run_commands(changes, versions)
