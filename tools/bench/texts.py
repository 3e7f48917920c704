"""Texts without bodies: records of a URL and a text, whose copies are found as they come, against other programs.

    python -m tools.bench.texts RECORDS FOLDER [--only NAME ...]

A record is as in the data set FineWeb: a URL of its own and a plain text, here of 300 words of `tools.bench.scale`.  Of
the records 12% are exact copies of any earlier text, and 16% are copies of the first text of their family in which 1 to
9 words are changed, with a Jaccard coefficient between .98 and .73 over shingles of 5 words.  A record is a true copy
if an earlier one has an exact coefficient of 0.8 and above.  Recall is the share of true copies that a program calls
copies of an earlier record, precision the share of true copies among those that it calls so.

The records are JSON lines in FOLDER, which each program reads for itself, in a process of its own on one core.  Time is
processor time from the first line to the last answer, memory the most that the process had of its own and in all.
docstore writes the texts, compressed, into a store, with its usual memory and with the least; the others keep what they
compare.  datatrove cuts words as it is shipped for English, and once at blanks, which costs it least.  fastdedup is a
command, `cargo install --git https://github.com/wapplewhite4/fastdedup fastdedup-cli`; it compares whole files.
"""

from __future__ import annotations

import importlib
import json
import logging
import multiprocessing
import random
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from docstore.archives.http import PLAIN_TEXT
from docstore.model.types import Page
from docstore.store import open_store
from tools.bench import scale
from tools.bench.dedup_peers import PERMUTATIONS, THRESHOLD, datatrove_labels
from tools.bench.harness import Section, children_seconds, memory_of, one_core, run_commands
from tools.bench.pipelines import DUPLICATE, jaccard

COLUMNS = ("program", "records/s of a core", "own MB", "MB in all", "recall", "precision")
AT_ONCE = 1000
"""Records that rensa gets in one call."""


@lru_cache(maxsize=1 << 16)
def shown_by(number: int) -> int:
    """The record whose very text a record has."""
    kind = scale.kind_of(number)
    is_exact = kind == scale.EXACT or (kind == scale.AGAIN and number % 2 == 0)
    return shown_by(scale.source_of(number)) if is_exact else number


def words_of(number: int) -> list[str]:
    """The words of its text."""
    shown = shown_by(number)
    words = scale.words_of(scale.family_of(shown))
    if shown != scale.family_of(shown):
        chance = random.Random(f"changes {shown}")
        for place in chance.sample(range(len(words)), chance.randint(1, 9)):
            words[place] = f"w{shown}"
    return words


def record_of(number: int) -> dict[str, str]:
    """A URL of its own, and its text in paragraphs."""
    words = words_of(number)
    paragraphs = (" ".join(words[at : at + 26]).capitalize() + "." for at in range(0, len(words), 26))
    return {"url": f"{scale.url_of(number)}?{number}", "text": "\n".join(paragraphs)}


def shingles_of(words: list[str]) -> set[str]:
    return {" ".join(words[at : at + 5]) for at in range(len(words) - 4)}


def true_copies(records: int) -> set[int]:
    """The records with an earlier one of their family at the threshold."""
    copies = set()
    families: defaultdict[int, set[int]] = defaultdict(set)
    for number in range(records):
        shown, earlier = shown_by(number), families[scale.family_of(number)]
        own = shingles_of(words_of(shown)) if earlier else set()
        others = (shingles_of(words_of(each)) for each in sorted(earlier))  # the nearest mostly comes first
        if shown in earlier or any(jaccard(own, other) >= THRESHOLD for other in others):
            copies.add(number)
        earlier.add(shown)
    return copies


def read(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


# --- programs: the records, and a folder -> the numbers of those that are called copies of an earlier one


def by_docstore(path: Path, folder: Path, *, memory: str | None = None) -> set[int]:
    """put_pages, texts alone; every record gets its verdict when it is written."""
    pages = (
        Page(each["url"], each["text"].encode(), headers=PLAIN_TEXT, fetched_at=scale.START) for each in read(path)
    )
    with open_store(folder / "store", create=True, durability="flush", memory=memory) as store:
        results = enumerate(store.put_pages(pages, threads=1, keep_body=False))
        return {number for number, result in results if result.verdict.kind in DUPLICATE}


def by_rensa(path: Path, folder: Path) -> set[int]:
    """RMinHashDeduplicator with its index; a record that is no copy is added."""
    from rensa import RMinHashDeduplicator

    found = RMinHashDeduplicator(THRESHOLD, PERMUTATIONS, True, 16)
    entries = ((str(number), list(shingles_of(re.findall(r"\w+", each["text"].lower()))))
               for number, each in enumerate(read(path)))  # fmt: skip
    flagged, number = set(), 0
    while some := list(islice(entries, AT_ONCE)):
        flagged |= {number + at for at, is_added in enumerate(found.add_pairs(some)) if not is_added}
        number += len(some)
    return flagged


def by_datatrove(path: Path, folder: Path, *, at_blanks: bool = False) -> set[int]:
    """Signatures, buckets and clusters; of a cluster all but the first are copies."""
    from datatrove.utils.hashing import HashConfig, create_hash_func

    hashed = create_hash_func(HashConfig())

    def shingles(text: str) -> NDArray[np.uint64]:
        return np.fromiter(map(hashed, shingles_of(text.lower().split())), np.uint64).reshape(-1, 1)

    label = datatrove_labels((each["text"] for each in read(path)), folder, shingles if at_blanks else None)
    return set(np.flatnonzero(label != np.arange(len(label))).tolist())


def by_fastdedup(path: Path, folder: Path) -> set[int]:
    """The command `fuzzy-dedup` with words; its output lacks the copies."""
    unique = folder / "unique.jsonl"
    options = ("--field", "text", "--threshold", str(THRESHOLD), "--word-shingles", "--shingle-size", "5")
    command = ("fastdedup", "fuzzy-dedup", "--input", str(path), "--output", str(unique), *options)
    subprocess.run(command, check=True, capture_output=True)
    kept = {each["url"] for each in read(unique)}
    return {number for number, each in enumerate(read(path)) if each["url"] not in kept}


Program = Callable[[Path, Path], set[int]]
PROGRAMS: dict[str, tuple[str, Program]] = {
    "docstore": ("docstore.store", by_docstore),
    "docstore-96MB": ("docstore.store", partial(by_docstore, memory="96MB")),
    "rensa": ("rensa", by_rensa),
    "fastdedup": ("json", by_fastdedup),
    "datatrove": ("datatrove.pipeline.dedup.minhash", by_datatrove),
    "datatrove-blanks": ("datatrove.pipeline.dedup.minhash", partial(by_datatrove, at_blanks=True)),
}


def work(name: str, path: Path, folder: Path, answers: Connection) -> None:
    """Run a program and send its processor time and what it found."""
    logging.disable(logging.CRITICAL)
    module, program = PROGRAMS[name]
    importlib.import_module(module)
    began = time.process_time()
    found = program(path, folder)
    # A command's time is its own alone; what reads its answer is ours.
    answers.send((children_seconds() or time.process_time() - began, found))


def measured(name: str, path: Path, folder: Path) -> tuple[float, set[int], float, float]:
    """Seconds of processor time, the records that are called copies, most MB of its own and in all."""
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(name, path, folder, sending))
    process.start()
    sending.close()
    own = whole = 0.0
    while not receiving.poll(0.05):
        with suppress(OSError, KeyError):  # it has just begun, or ended
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
            memory = memory_of(children[0] if children else str(process.pid))
            own, whole = max(own, memory.own), max(whole, sum(memory))
    seconds, found = receiving.recv()
    process.join()
    return seconds, found, own, whole


def main(records: int, folder: Path, *, only: tuple[str, ...] = tuple(PROGRAMS)) -> Section:
    """Find the copies among so many records with each program; FOLDER must be empty or have records.jsonl."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "records.jsonl"
    if not path.exists():
        with path.open("w", encoding="utf-8") as lines:
            lines.writelines(json.dumps(record_of(number)) + "\n" for number in range(records))
    section = Section("Texts without bodies", f"python -m tools.bench.texts {records} FOLDER", COLUMNS)
    true = true_copies(records)
    section.notes.append(f"{records:,} records, {path.stat().st_size / 1e6:,.0f} MB; {len(true):,} true copies")
    for name in only:
        with one_core(), TemporaryDirectory(dir=folder) as made:
            seconds, found, own, whole = measured(name, path, Path(made))
        right = len(found & true)
        shares = right / max(1, len(true)), right / max(1, len(found))
        cells = f"{records / seconds:,.0f}", f"{own:.0f}", f"{whole:.0f}", *(f"{share:.4f}" for share in shares)
        section.rows.append((name, *cells))
        print(" | ".join(section.rows[-1]), flush=True)
    return section


if __name__ == "__main__":
    run_commands(main)
