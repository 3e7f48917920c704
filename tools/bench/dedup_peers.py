"""Near duplicates among pages that all lie there: docstore's sweep beside other programs, on the same pages.

    python -m tools.bench.dedup_peers CORPUS_DIR [--limit N] [--only NAME ...]

The yardstick is exact: pairs of pages of different URLs, 50 words and more, at a Jaccard coefficient of 0.8 and above
over their sets of 5-word shingles of main text, by the prefix-filter join.  All are given the same pages and run on one
core, with the parameters that they ship for a threshold of 0.8, or ship.  datasketch, rensa and datatrove get the
shingles' hashes; text-dedup, which takes texts only, the same words with one blank between them; docstore's sweep
reads its store and makes the shingles again.  Those that give clusters only are taken at their word: every pair of
pages in one cluster.  What is not installed is left out, and named; the extra `bench-peers` has
them.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import docstore
from docstore.dedup.kernel import Kernel, words
from docstore.model.sets import Numbers, Sets
from docstore.model.types import Page
from docstore.sweep.candidates import leaders
from docstore.sweep.job import SweepOptions, sweep
from tools.bench.exact_join import PairSet, exact_join, expand_pairs, recall
from tools.bench.harness import Section, children_seconds, load_pages, machine, one_core, run_commands

THRESHOLD = 0.8
PERMUTATIONS = 128
MIN_WORDS = 50
COMMAND = "python -m tools.bench.dedup_peers CORPUS_DIR"


@dataclass
class Judged:
    """Pages that are compared, by number.

    Attributes:
        pages: as fetched; of the same URL and time only the first.
        texts: their words with one blank between them.
        sets: their shingles.
        urls: (n,) number of the URL of each.
    """

    pages: list[Page]
    texts: list[str]
    sets: list[NDArray[np.uint64]]
    urls: Numbers

    def pairs(self, first: Sequence[int] | Numbers, second: Sequence[int] | Numbers) -> PairSet:
        """Pairs of pages of different URLs."""
        one, other = np.asarray(first, np.int64), np.asarray(second, np.int64)
        apart = self.urls[one] != self.urls[other]
        return PairSet.of(len(self.pages), one[apart], other[apart], np.ones(int(apart.sum())))

    def clusters(self, label: Numbers) -> PairSet:
        """Every pair of pages with the same label."""
        groups = np.unique(label)
        first, second, _ = expand_pairs(label, groups, groups)
        return self.pairs(first, second)


Found = tuple[PairSet, float]
"""Pairs, and the seconds of computing that they took."""


def judged_of(pages: Sequence[Page]) -> Judged:
    """Pages of 50 words and more, with their shingles."""
    kernel = Kernel(docstore.Schema().extractor)
    judged = Judged([], [], [], np.empty(0, np.int64))
    seen: set[tuple[str, int | None]] = set()
    numbers: dict[str, int] = {}
    urls: list[int] = []
    for page, analysis in zip(
        pages, kernel.analyse_many([(page.body, page.header("content-type")) for page in pages]), strict=True
    ):
        good = analysis.word_count >= MIN_WORDS and 200 <= page.status < 300
        if not good or (page.url, page.fetched_at) in seen:
            continue
        seen.add((page.url, page.fetched_at))
        judged.pages.append(page)
        judged.texts.append(" ".join(words(analysis.main)))
        judged.sets.append(kernel.shingles(analysis.main))
        urls.append(numbers.setdefault(page.url, len(numbers)))
    judged.urls = np.array(urls, np.int64)
    return judged


# --- contenders


def by_join(judged: Judged) -> Found:
    """The exact prefix-filter join."""
    began = time.process_time()
    starts = np.concatenate([[0], np.cumsum([len(one) for one in judged.sets])]).astype(np.int64)
    pairs = exact_join(Sets(starts, np.concatenate(judged.sets)), THRESHOLD)
    return judged.pairs(pairs.first, pairs.second), time.process_time() - began


def by_sweep(judged: Judged) -> Found:
    """docstore's sweep of a store of these pages, columns written."""
    with tempfile.TemporaryDirectory() as folder:
        with docstore.open(Path(folder) / "store", create=True, durability="none") as store:
            results = list(store.put_pages(judged.pages, threads=1))
        number_of: dict[str, int] = {}
        for number, result in enumerate(results):
            number_of.setdefault(f"{result.url}\t{result.timestamp}", number)
        path = Path(folder) / "pairs.tsv"
        with docstore.open(Path(folder) / "store") as store:
            options = SweepOptions(threshold=THRESHOLD, threads=1, all_pairs=True, pairs=path)
            began = time.process_time()
            sweep(store, options)
            seconds = time.process_time() - began
        first, second = [], []
        with path.open(encoding="utf-8") as stream:
            for line in stream:
                one, at, other, other_at, _ = line.split("\t")
                first.append(number_of[f"{one}\t{at}"])
                second.append(number_of[f"{other}\t{other_at}"])
    return judged.pairs(first, second), seconds


def datasketch_lsh() -> tuple[Callable[[list[bytes]], Any], Any]:
    """MinHashLSH of datasketch: a sketch of shingles, and the index."""
    from datasketch import MinHash, MinHashLSH

    def sketch(shingles: list[bytes]) -> Any:
        made = MinHash(num_perm=PERMUTATIONS)
        made.update_batch(shingles)
        return made

    return sketch, MinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS)


def rensa_lsh() -> tuple[Callable[[list[str]], Any], Any]:
    """RMinHashLSH of rensa: a sketch of shingles, and the index."""
    from rensa import RMinHash, RMinHashLSH

    def sketch(shingles: list[str]) -> Any:
        made = RMinHash(num_perm=PERMUTATIONS, seed=42)
        made.update(shingles)
        return made

    return sketch, RMinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS, num_bands=16)


def by_datasketch(judged: Judged) -> Found:
    """MinHashLSH of datasketch."""
    sketch, index = datasketch_lsh()
    return _by_lsh(judged, index, lambda shingles: sketch([one.tobytes() for one in shingles]))


def by_rensa(judged: Judged) -> Found:
    """RMinHashLSH of rensa."""
    sketch, index = rensa_lsh()
    return _by_lsh(judged, index, lambda shingles: sketch([str(one) for one in shingles.tolist()]))


def _by_lsh(judged: Judged, index: Any, sketch: Callable[[NDArray[np.uint64]], Any]) -> Found:
    began = time.process_time()
    first: list[int] = []
    second: list[int] = []
    for number, shingles in enumerate(judged.sets):
        made = sketch(shingles)
        others = index.query(made)
        first += others
        second += [number] * len(others)
        index.insert(number, made)
    return judged.pairs(first, second), time.process_time() - began


def by_datatrove(judged: Judged) -> Found:
    """The first three stages of datatrove's MinHash pipeline, given our shingles."""
    importlib.import_module("datatrove.pipeline.dedup.minhash")
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        numbers = map(str, range(len(judged.sets)))
        label = datatrove_labels(numbers, Path(folder), lambda number: judged.sets[int(number)].reshape(-1, 1))
        return judged.clusters(label), time.process_time() - began


def datatrove_labels(
    texts: Iterable[str], folder: Path, shingles: Callable[[str], NDArray[np.uint64]] | None = None
) -> Numbers:
    """Signatures, buckets and clusters of datatrove's MinHash pipeline.

    Args:
        texts: to compare.
        folder: for its files.
        shingles: of a text, (n, 1); None for those that datatrove makes.
    Returns:
        (texts,) the first text of the cluster of each.
    """
    from datatrove.data import Document
    from datatrove.pipeline.dedup.minhash import (
        MinhashConfig,
        MinhashDedupBuckets,
        MinhashDedupCluster,
        MinhashDedupSignature,
    )
    from datatrove.utils.logging import logger

    logger.remove()
    config, count = MinhashConfig(), 0

    def documents() -> Iterator[Any]:
        nonlocal count
        for count, text in enumerate(texts, 1):
            yield Document(text=text, id=str(count))

    signature = MinhashDedupSignature(f"{folder}/signatures", config)
    if shingles is not None:
        signature.get_shingles = shingles
    signature.run(documents())
    for rank in range(config.num_buckets):
        stage = MinhashDedupBuckets(f"{folder}/signatures", f"{folder}/buckets", config=config, lines_to_buffer=1000)
        stage.run(rank=rank, world_size=config.num_buckets)
    MinhashDedupCluster(f"{folder}/buckets", f"{folder}/clusters", config, save_cluster_id=True).run()
    label = np.arange(count) + count
    for number, cluster in struct.iter_unpack("<2I", (folder / "clusters" / "000000.clusters").read_bytes()):
        label[number] = cluster
    return _first_of(label)


def by_text_dedup(judged: Judged) -> Found:
    """text-dedup's MinHash program, in a process of its own; what it takes to start is taken off."""
    import datasets

    with tempfile.TemporaryDirectory() as folder:
        datasets.Dataset.from_dict({"text": judged.texts}).save_to_disk(f"{folder}/given")
        words_given = [sys.executable, "-m", "text_dedup.minhash", "--local", "--path", f"{folder}/given"]
        words_given += ["--column", "text", "--output", f"{folder}/out", "--cache_dir", f"{folder}/cache", "--debug"]
        words_given += ["--num_proc", "1", "--ngram", "5", "--min_length", "5", "--hash_func", "xxh3"]
        words_given += ["--num_perm", str(PERMUTATIONS), "--threshold", str(THRESHOLD)]
        environment = {**os.environ, "COLUMNS": "200", "HF_DATASETS_OFFLINE": "1"}
        began = children_seconds()
        subprocess.run([sys.executable, "-c", "import text_dedup.minhash"], env=environment, check=True)
        starting = children_seconds() - began
        done = subprocess.run(words_given, capture_output=True, text=True, env=environment, check=False)
        seconds = children_seconds() - began - 2 * starting
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
        with (Path(folder) / "out" / "uf.pkl").open("rb") as stream:
            found_sets = pickle.load(stream)  # written by the process above
    label = np.array([found_sets.find(number) for number in range(len(judged.texts))])
    return judged.clusters(_first_of(label)), seconds


def _first_of(label: Numbers) -> Numbers:
    return leaders(label.astype(np.uint64))


CONTENDERS: dict[str, tuple[str, str, Callable[[Judged], Found]]] = {
    "sweep": ("docstore sweep: texts read, pairs verified, columns written", "docstore", by_sweep),
    "join": ("exact prefix-filter join", "docstore", by_join),
    "datasketch": ("datasketch MinHashLSH, 128 permutations", "datasketch", by_datasketch),
    "rensa": ("rensa RMinHashLSH, 128 permutations, 16 bands", "rensa", by_rensa),
    "datatrove": ("datatrove MinHash, 14 x 8, clusters", "datatrove", by_datatrove),
    "text-dedup": ("text-dedup MinHash, 128 permutations, clusters", "text_dedup", by_text_dedup),
}


def run(pages: Sequence[Page], only: Sequence[str] = ()) -> Section:
    """Precision, recall and speed of each."""
    section = Section(
        "Near duplicates of a whole collection, exact Jaccard >= 0.8",
        COMMAND,
        ("what", "pairs", "precision", "recall per pair", "recall, mean over pages", "pages per second of computing"),
    )
    missing = []
    with one_core():
        judged = judged_of(pages)
        truth = by_join(judged)[0]
        for name, (title, module, find) in CONTENDERS.items():
            if only and name not in only:
                continue
            if importlib.util.find_spec(module) is None:
                missing.append(name)
                continue
            try:
                found, seconds = find(judged)
            except Exception as error:  # another program: the table says that it does not run
                missing.append(f"{name} ({type(error).__name__}: {error})")
                continue
            shares = recall(truth, found, judged.urls)
            right = int((found.places_in(truth) >= 0).sum())
            section.rows.append(
                (
                    title,
                    str(len(found)),
                    f"{right / max(1, len(found)):.4f}",
                    f"{shares.pairs:.4f}",
                    f"{shares.pages:.4f}",
                    f"{len(judged.pages) / seconds:.0f}",
                )
            )
    section.notes.append(
        f"{len(judged.pages)} pages of {len(pages)}, {len(truth)} pairs within the threshold; one core of {machine()}."
    )
    if missing:
        section.notes.append("Did not run: " + "; ".join(missing) + ".")
    return section


def main(corpus: Path, *, limit: int | None = None, only: tuple[str, ...] = ()) -> Section:
    """Near duplicates of a whole collection; `python -m tools.bench.pipelines` has those found at arrival."""
    logging.disable(logging.INFO)
    return run(load_pages(corpus, limit), only)


if __name__ == "__main__":
    run_commands(main)
