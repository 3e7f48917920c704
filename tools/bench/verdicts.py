"""What two stores of the same input say of each page: every verdict that differs, counted by kind; and why.

    python -m tools.bench.verdicts changes OLD NEW [--examples 20]
    python -m tools.bench.verdicts causes OLD NEW [--examples 3]
    python -m tools.bench.verdicts versions OTHER_PYTHON [--corpus DIR] [--limit N] [--pairs 10]

OLD and NEW are addresses of stores that were made from the same archives by two versions of docstore, by two schemas,
or on two backends.  For causes, of each capture whose verdicts differ, the lines of its main text in both stores are
compared; where they are the same, those of the pages that the two verdicts name.  A line is of the *frame* where ten
pages or more of its host have it in one of the stores (in a manual: menus, notices, headings of every page), a *date*
where it is a stamp (`reference.scored`), and the *page's own* otherwise.  A change has the cause that most of the words
are of that came or went.
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
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgpack

import docstore
from docstore.model.capture import MAIN, VERDICT, decode_verdict
from docstore.model.keys import url_of
from docstore.model.types import ReadSpec
from docstore.reference.scored import is_stamp
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


def compare(old_path: str, new_path: str, most: int) -> Section:
    """Count the differences by what they are, and list some of each."""
    before = dict(verdicts(old_path))
    after = dict(verdicts(new_path))
    counts: Counter[str] = Counter()
    same = 0
    shown: dict[str, list[str]] = {}
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        change = difference(old, new)
        if not change:
            same += 1
            continue
        counts[change] += 1
        listed = shown.setdefault(change, [])
        if len(listed) < most:
            listed.append(f"- {change}: {key[0]} at {key[1]}: {_words(old)} -> {_words(new)}")
    command = "python -m tools.bench.verdicts changes OLD NEW"
    section = Section("Changed verdicts", command, ["change", "captures", "of all"])
    total = max(1, len(before))
    section.rows += [(change, f"{count:,}", f"{count / total:.3%}") for change, count in counts.most_common()]
    section.rows.append(("none", f"{same:,}", f"{same / total:.3%}"))
    section.notes += ["\n".join(lines) for lines in shown.values()]
    return section


def _words(said: Said | None) -> str:
    return "nothing" if said is None else f"{said.kind} {said.similarity:.3f} {said.of or said.reason}".rstrip()


FRAME_PAGES: Final = 10
SHORT: Final = "short_text"
AS_BEFORE: Final = "the same texts, compared or ranked otherwise"
_TEXTS_HELD: Final = 4096

Verdicts = dict[tuple[str, int], Said]
"""Of each capture: URL and timestamp."""


class Line(NamedTuple):
    """A line of main text of a page of a host."""

    host: str
    text: str


class Change(NamedTuple):
    """One capture that is answered otherwise."""

    url: str
    kind: str
    old: Said
    new: Said
    whose: str
    lost: frozenset[Line]
    gained: frozenset[Line]


class Texts:
    """Main texts of one store, as lines."""

    def __init__(self, store: docstore.DocumentStore) -> None:
        self._store = store
        self.lines = lru_cache(_TEXTS_HELD)(self._lines)

    def _lines(self, url: str, at: int) -> frozenset[Line]:
        document = self._store.get(url, at=at, families=("text",)) if url else None
        text = (document.text or "") if document is not None else ""
        host = urlsplit(url).netloc
        return frozenset(Line(host, line) for line in text.split("\n") if line)

    def pages_with(self, wanted: frozenset[Line]) -> Counter[Line]:
        """How many pages have each of the lines."""
        counts: Counter[Line] = Counter()
        for row in self._store.cells.scan(spec=ReadSpec(families=MAIN[:1], qualifier_prefix=MAIN[1], keys_only=True)):
            counts.update(self.lines(row.url, row.cells[0].timestamp) & wanted)
        return counts


def changed(before: Verdicts, after: Verdicts, old: Texts, new: Texts) -> Iterator[Change]:
    """Captures that both stores answer, and otherwise."""
    for url, at in sorted(before.keys() & after.keys()):
        was, now = before[url, at], after[url, at]
        kind = difference(was, now)
        if not kind:
            continue
        whose = "the page"
        lost, gained = _moved(url, at, old, new)
        if not lost and not gained:
            whose = "the page named"
            moved = [_moved(each, at, old, new) for each in {was.of, now.of} if each]
            lost = frozenset().union(*(each for each, _ in moved))
            gained = frozenset().union(*(each for _, each in moved))
        yield Change(url, kind, was, now, whose, lost, gained)


def _moved(url: str, at: int, old: Texts, new: Texts) -> tuple[frozenset[Line], frozenset[Line]]:
    was, now = old.lines(url, at), new.lines(url, at)
    return was - now, now - was


def cause(change: Change, frame: frozenset[Line]) -> str:
    """In words, why the answer is another one."""
    if change.new.reason == SHORT != change.old.reason:
        return "under 50 words now"
    if change.old.reason == SHORT != change.new.reason:
        return "50 words or more now"
    if not change.lost and not change.gained:
        return AS_BEFORE
    words: Counter[str] = Counter()
    for lines, what in ((change.lost, "left"), (change.gained, "came in")):
        for line in lines:
            kind = "dates" if is_stamp(line.text) else "lines of the frame" if line in frame else "lines of its own"
            words[f"{kind} {what}"] += len(line.text.split())
    (most, _), *_ = words.most_common(1)
    return f"{change.whose}: {most}"


def compare_causes(old_path: Path, new_path: Path, most: int) -> Section:
    """Each kind of change by its causes, and some examples of each pair."""
    before, after = dict(verdicts(old_path)), dict(verdicts(new_path))
    with docstore.open(old_path) as old_store, docstore.open(new_path) as new_store:
        old, new = Texts(old_store), Texts(new_store)
        found = list(changed(before, after, old, new))
        wanted = frozenset().union(*(each.lost | each.gained for each in found))
        frame = frozenset(
            line for texts in (old, new) for line, pages in texts.pages_with(wanted).items() if pages >= FRAME_PAGES
        )
    by_cause: dict[tuple[str, str], list[Change]] = defaultdict(list)
    for each in found:
        by_cause[_group(each.kind), cause(each, frame)].append(each)
    total = Counter(_group(each.kind) for each in found)
    section = Section(
        "Causes of changed verdicts", "python -m tools.bench.verdicts causes OLD NEW", ["change", "captures", "causes"]
    )
    for kind, count in total.most_common():
        causes = sorted(((len(of), why) for (one, why), of in by_cause.items() if one == kind), reverse=True)
        section.rows.append((kind, f"{count:,}", "; ".join(f"{number:,} {why}" for number, why in causes)))
    for (kind, why), of in sorted(by_cause.items()):
        section.notes += [_example(kind, why, each) for each in of[:most]]
    return section


def _group(kind: str) -> str:
    """Other similarities and pages together, whatever the verdict."""
    return "same verdict, other similarity or page" if ":" in kind and "reason" not in kind else kind


def _example(kind: str, why: str, change: Change) -> str:
    def shown(lines: frozenset[Line]) -> str:
        return " / ".join(sorted(line.text[:80] for line in lines)[:5]) or "nothing"

    return (
        f"- {kind}; {why}: {change.url}: {change.old.similarity:.3f} {change.old.of} to {change.new.similarity:.3f} "
        f"{change.new.of}; left: {shown(change.lost)}; came in: {shown(change.gained)}"
    )


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


def changes(old: str, new: str, *, examples: int = 0) -> Section:
    """Count the differences of two stores of the same input by what they are, and list some of each."""
    return compare(old, new, examples)


def causes(old: Path, new: Path, *, examples: int = 0) -> Section:
    """Why two stores of the same input say different things of a page: what came into main text, and what left it."""
    return compare_causes(old, new, examples)


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
    run_commands(changes, causes, versions)
