"""The arithmetic behind the tables of `docs/dedup.md`: sets of pairs, recall, precision over a grid of thresholds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.bench.exact_join import PairSet, recall

COUNT = 12
PAIRS = st.dictionaries(
    st.tuples(st.integers(0, COUNT - 1), st.integers(0, COUNT - 1)).filter(lambda pair: pair[0] < pair[1]),
    st.floats(0.5, 1.0),
    max_size=20,
)


def pair_set(pairs: dict[tuple[int, int], float]) -> PairSet:
    first, second = np.array(list(pairs), np.int64).reshape(-1, 2).T
    return PairSet.of(COUNT, second, first, np.array(list(pairs.values())))


@given(PAIRS, PAIRS, st.lists(st.integers(0, 2), min_size=COUNT, max_size=COUNT))
def test_recall_is_that_of_plain_counting(
    wanted: dict[tuple[int, int], float], found: dict[tuple[int, int], float], archives: list[int]
) -> None:
    shares = recall(pair_set(wanted), pair_set(found), np.array(archives))

    def mean(groups: dict[int, list[bool]]) -> float:
        return sum(sum(hits) / len(hits) for hits in groups.values()) / len(groups) if groups else 1.0

    by_page: dict[int, list[bool]] = {}
    by_archive: dict[int, list[bool]] = {}
    for pair in wanted:
        for page in pair:
            by_page.setdefault(page, []).append(pair in found)
        for archive in {archives[page] for page in pair}:
            by_archive.setdefault(archive, []).append(pair in found)
    assert shares.pages == pytest.approx(mean(by_page))
    assert shares.archives == pytest.approx(mean(by_archive))
    assert shares.pairs == pytest.approx(sum(pair in found for pair in wanted) / len(wanted) if wanted else 1.0)
    assert pair_set(wanted).similarity_in(pair_set(found)).tolist() == [found.get(pair, 0.0) for pair in sorted(wanted)]


def test_a_pairs_file_is_read_by_names(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("https://b/\t2\thttps://a/\t1\t0.900000\nhttps://a/\t1\thttps://c/\t3\t1.000000\n")
    names = {"https://a/\t1": 0, "https://b/\t2": 1, "https://c/\t3": 2}
    found = PairSet.listed(path, names)
    assert list(zip(found.first.tolist(), found.second.tolist(), found.similarity.tolist(), strict=True)) == [
        (0, 1, 0.9),
        (0, 2, 1.0),
    ]
