"""What people call a near-duplicate: precision, recall and F1 of J against pairs judged by hand.

    python -m tools.bench.judged_pairs DIR

DIR is the folder `s3-document-pair-sample` of the repository of Fröbe, Bittner, Potthast and Hagen, "The Effect of
Content-Equivalent Near-Duplicates on the Evaluation of Search Engines" (ECIR 2020), unpacked: a folder for each
collection, in it one for each pair, with the two texts (`full-text-NAME`) and `label`, 0 to 3.  The texts are licensed:
they are scored, never copied.  A pair counts as duplicates where its label is 1 or more, as their own script has it.
J is the exact Jaccard coefficient of the sets of hashed shingles of five words, which is what verdicts report.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from docstore.compiled import docstore_native
from docstore.dedup.comparable import jaccard
from docstore.dedup.kernel import Kernel
from docstore.model.types import Schema
from tools.bench.harness import Section, run_commands

COMMAND: Final = "python -m tools.bench.judged_pairs DIR"
LEAST_LABEL: Final = 1
THRESHOLDS: Final = (0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


class JudgedPair(NamedTuple):
    """Two texts, how like they are, and whether people took them for duplicates."""

    similarity: float
    duplicate: bool


class Score(NamedTuple):
    """What a threshold finds of some judged pairs."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """Harmonic mean of the two; 0.0 where both are."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def read_pairs(folder: Path, kernel: Kernel) -> list[JudgedPair]:
    """The pairs of one collection that have a label."""
    found = []
    for pair in sorted(path for path in folder.iterdir() if (path / "label").is_file()):
        texts = sorted(pair.glob("full-text-*"))
        one, other = (kernel.shingles(text.read_text("utf-8", "replace")) for text in texts)
        similarity = jaccard(docstore_native.overlap(one, other), len(one), len(other))
        found.append(JudgedPair(similarity, int((pair / "label").read_text()) >= LEAST_LABEL))
    return found


def score(pairs: Sequence[JudgedPair], threshold: float) -> Score:
    """Precision and recall of a threshold; precision is 1 where nothing is found."""
    named = [pair.duplicate for pair in pairs if pair.similarity >= threshold]
    right = sum(named)
    duplicates = sum(pair.duplicate for pair in pairs)
    return Score(right / len(named) if named else 1.0, right / duplicates if duplicates else 1.0)


def best(pairs: Sequence[JudgedPair]) -> tuple[float, Score]:
    """The threshold with the highest F1, the highest of equal ones."""
    thresholds = sorted({pair.similarity for pair in pairs}, reverse=True)
    return max(((threshold, score(pairs, threshold)) for threshold in thresholds), key=lambda found: found[1].f1)


def table(collections: dict[str, list[JudgedPair]]) -> Section:
    """Precision, recall and F1 by threshold, the schema's defaults marked."""
    schema = Schema()
    marks = {schema.near_threshold: " (near)", schema.similar_threshold: " (similar)"}
    names = [f"{name}, {sum(pair.duplicate for pair in pairs)} of {len(pairs)}" for name, pairs in collections.items()]
    section = Section("Pairs judged by people: precision / recall / F1", COMMAND, ("J at least", *names))
    for threshold in THRESHOLDS:
        cells = [_shown(score(pairs, threshold)) for pairs in collections.values()]
        section.rows.append((f"{threshold:.2f}{marks.get(threshold, '')}", *cells))
    found = [best(pairs) for pairs in collections.values()]
    section.rows.append(("best F1", *(f"{_shown(scored)} at {threshold:.2f}" for threshold, scored in found)))
    return section


def _shown(found: Score) -> str:
    return f"{found.precision:.2f} / {found.recall:.2f} / {found.f1:.2f}"


def score_folder(folder: Path) -> Section:
    """Score the pairs of a folder of collections."""
    schema = Schema()
    kernel = Kernel(schema.extractor, schema.shingle_words)
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    collections = {name: read_pairs(folder / name, kernel) for name in names}
    collections["all"] = [pair for pairs in collections.values() for pair in pairs]
    return table(collections)


if __name__ == "__main__":
    run_commands(score_folder)
