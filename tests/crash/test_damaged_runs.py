"""Damaged runs of the index: the store makes them again, and verdicts are those of the whole index."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from counts import share

import docstore
from docstore.model.types import Page
from docstore.reports.check import check
from tests.crash.states import limited
from tests.pages import changed, page, words

T0 = 1_600_000_000_000_000
SECOND = 1_000_000
FAMILIES = 6
Answers = list[tuple[object, ...]]


def text_of(number: int) -> list[str]:
    return changed(words(number % FAMILIES, [60, 120, 250][number % 3]), number, number % 4)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a few runs, one of them merged."""
    folder = tmp_path_factory.mktemp("runs") / "store"
    for part in range(6):
        with limited({"flush_texts": 4}), docstore.open(folder, create=True, durability="none") as store:
            numbers = range(part, 60, 6)
            pages = [Page(f"https://h{n % 7}.example/{n}", page(text_of(n)), 200, (), T0 + n * SECOND) for n in numbers]
            for one in pages:
                assert store.put_page(one.url, one.body, fetched_at=one.fetched_at).stored == "body"
    assert len(list((folder / "index").glob("*.run"))) >= 2
    return folder


def answers(folder: Path) -> Answers:
    """Similar pages of a text of each family, and the verdict of a page with it; the store is sound behind that."""
    found: Answers = []
    with limited({"flush_texts": 4}), docstore.open(folder) as store:
        for family in range(FAMILIES):
            body = page(changed(text_of(family), 99, 2))
            found.append(tuple(sorted((one.url, one.similarity) for one in store.similar(body, limit=100))))
            verdict = store.put_page(f"https://new.example/{family}", body, fetched_at=T0).verdict
            found.append((verdict.kind, verdict.of_url, verdict.similarity))
        assert list(check(store.backend)) == []
    return found


def damage(source: random.Random, folder: Path) -> list[str]:
    """Change bytes of one to three runs, cut them, take them away, or give them names of other groups."""
    files = sorted((folder / "index").glob("*.run"))
    done = []
    for path in source.sample(files, min(len(files), source.choice([1, 1, 2, 3]))):
        raw = bytearray(path.read_bytes())
        kind = source.choice(
            ["flip", "text", "foot", "zeros", "cut", "empty", "longer", "noise", "gone", "other", "twice"]
        )
        at = {"text": source.randrange(8, 16), "foot": -1 - source.randrange(56)}.get(kind, source.randrange(len(raw)))
        done.append(f"{kind} {path.name} {at}")
        if kind in ("flip", "text", "foot"):
            raw[at] ^= 1 << source.randrange(8)
        elif kind == "zeros":
            raw[at : at + 512] = bytes(len(raw[at : at + 512]))
        elif kind in ("cut", "empty"):
            del raw[at if kind == "cut" else 0 :]
        elif kind == "longer":
            raw += source.randbytes(source.choice([1, 8, 56]))
        elif kind == "noise":
            raw = bytearray(source.randbytes(len(raw)))
        elif kind == "other":
            raw = bytearray(source.choice(files).read_bytes()) if all(map(Path.exists, files)) else raw
        elif kind == "twice":
            end = int(path.stem.partition("-")[2], 16)
            path.with_name(f"{end:016x}-{end + 1:016x}.run").write_bytes(raw)
        path.write_bytes(raw)
        if kind == "gone":
            path.unlink()
    return done


def test_verdicts_after_damage_are_those_of_the_whole_index(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "truth")
    truth = answers(tmp_path / "truth")
    assert sum(len(similar) for similar in truth[::2]) > 3 * FAMILIES, truth
    for seed in range(share(400, 20)):
        shutil.copytree(whole, tmp_path / str(seed))
        done = damage(random.Random(seed), tmp_path / str(seed))
        assert answers(tmp_path / str(seed)) == truth, f"seed {seed}: {done}"
        shutil.rmtree(tmp_path / str(seed))
