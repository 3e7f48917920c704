"""Near duplicates found while pages arrive: docstore's verdict beside MinHash LSH of datasketch and of rensa.

The yardstick is exact: of pages with an earlier page of another URL at Jaccard >= 0.8 over the same 5-word shingles of
the same text, the share that is flagged, and of those flagged the share that is right.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

import docstore
from docstore.dedup.kernel import Kernel
from docstore.model.types import Page, VerdictKind
from docstore.reference.fingerprints import Sets
from tools.bench.exact_join import exact_join
from tools.bench.harness import Section, one_core

THRESHOLD = 0.8
PERMUTATIONS = 128
MIN_WORDS = 50
DUPLICATE = (VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR)


def run(pages: Sequence[Page], command: str) -> Section:
    """Recall, precision and speed of each."""
    section = Section(
        "Near duplicates at arrival, exact Jaccard >= 0.8",
        command,
        ("what", "pages flagged", "recall", "precision", "pages/s"),
    )
    with one_core():
        kernel = Kernel(docstore.Schema().extractor)
        analyses = kernel.analyse_many([(page.body, page.header("content-type")) for page in pages])
        sets = [kernel.shingles(one.main) for one in analyses]
        judged = [n for n, one in enumerate(analyses) if one.word_count >= MIN_WORDS]
        truth = _pages_with_an_earlier_relative(pages, sets, judged)
        contenders: list[tuple[str, str, Callable[[], Iterable[int]]]] = [
            ("docstore", "put_pages (text, storage and commit included)", lambda: _docstore(pages)),
            ("datasketch", "MinHashLSH, 128 permutations (from shingles)", lambda: _datasketch(pages, sets, judged)),
            ("rensa", "RMinHashLSH, 128 permutations (from shingles)", lambda: _rensa(pages, sets, judged)),
        ]
        missing = [module for module, _, _ in contenders if importlib.util.find_spec(module) is None]
        for module, what, find in contenders:
            if module in missing:
                continue
            began = time.perf_counter()
            found = set(find()) & set(judged)
            seconds = time.perf_counter() - began
            section.rows.append(
                (
                    f"{module} {what}",
                    str(len(found)),
                    f"{len(found & truth) / len(truth):.4f}",
                    f"{len(found & truth) / max(1, len(found)):.4f}",
                    f"{len(pages) / seconds:.0f}",
                )
            )
    section.notes.append(
        f"{len(judged)} pages of {len(pages)} have {MIN_WORDS} words; {len(truth)} of them have an earlier page of "
        "another URL within the threshold, by the exact join. The peers are given the shingles; their time is for "
        "sketching, asking and inserting, in memory. They report candidates, whose similarity nobody computes."
    )
    if missing:
        section.notes.append(f"Not installed, and left out: {', '.join(missing)}; the extra `bench` has them.")
    return section


def _pages_with_an_earlier_relative(
    pages: Sequence[Page], sets: Sequence[np.ndarray], judged: Sequence[int]
) -> set[int]:
    chosen = [sets[n] for n in judged]
    starts = np.concatenate([[0], np.cumsum([len(one) for one in chosen])]).astype(np.int64)
    pairs = exact_join(Sets(starts, np.concatenate(chosen)), THRESHOLD)
    found = set()
    for first, second in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True):
        one, other = sorted((judged[first], judged[second]))
        if pages[one].url != pages[other].url:
            found.add(other)
    return found


def _docstore(pages: Sequence[Page]) -> Iterable[int]:
    with tempfile.TemporaryDirectory() as folder, docstore.open(Path(folder) / "s", create=True) as store:
        for number, result in enumerate(store.put_pages(pages, threads=1)):
            if result.verdict.kind in DUPLICATE:
                yield number


def _datasketch(pages: Sequence[Page], sets: Sequence[np.ndarray], judged: Sequence[int]) -> Iterable[int]:
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS)
    for number in judged:
        sketch = MinHash(num_perm=PERMUTATIONS)
        sketch.update_batch([shingle.tobytes() for shingle in sets[number]])
        if any(pages[other].url != pages[number].url for other in index.query(sketch)):
            yield number
        index.insert(number, sketch)


def _rensa(pages: Sequence[Page], sets: Sequence[np.ndarray], judged: Sequence[int]) -> Iterable[int]:
    from rensa import RMinHash, RMinHashLSH

    index = RMinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS, num_bands=16)
    for number in judged:
        sketch = RMinHash(num_perm=PERMUTATIONS, seed=42)
        sketch.update([str(shingle) for shingle in sets[number].tolist()])
        if any(pages[other].url != pages[number].url for other in index.query(sketch)):
            yield number
        index.insert(number, sketch)
