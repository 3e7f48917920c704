"""Ceilings for the size of docstore, and for what one put passes.

They are lowered; a change that needs more room for a feature says by how much.  `make size` prints the figures.

Search and notes may take 3,000 lines in all, 800 of them in the core.  Of these the notes (`annotate`, `frontier`,
`stats --by pattern`) took 1,540, of them 210 in the core, five files, 15 classes with eleven record types, and 30 lines
of tools.  Search took 1,420, 100 of them in the core, six files, 12 classes with seven record types, and 200 lines of
tools; PDF and JSON took 160 and a file, labels of crawls 320: 440 more than 3,000.

2,000 lines of Rust and 390 of tools are of the room that speed has (2,500 and 400).

Archives, data frames, the report and one word for each thing may take 1,500 lines, 800 of them in the core.  They took
about 4,800: archives 1,040, Parquet and Arrow 800, the report and pages of the server 1,330, names, arguments and plain
data 700, upkeep on all cores 600, decoders of legacy charsets 260; 33 classes, 15 record types, six files, 650 lines
of tools.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from docstore import compiled
from tools.size import batch_counts, figures, near_duplicate_put

CEILINGS = {
    "lines of docstore/": 62_555,
    "lines of the core": 41_755,
    "files of docstore/": 203,
    "classes": 465,
    "record types": 218,
    "files of a put": 38,
    "classes of a put": 51,
    "functions of a put": 229,
    "caches of a put": 5,
    "LevelDB keys of a put": 4,
    "LevelDB keys of a group": 2,
    "lines of Rust": 12_880,
    "lines of tools/": 9_192,
}


@pytest.mark.skipif(bool(compiled.WHY_NOT), reason="the reference has more files, which run as one native call")
def test_no_figure_is_above_its_ceiling() -> None:
    found = figures()
    assert found.keys() == CEILINGS.keys()
    for name, figure in found.items():
        print(f"{name}: {figure:,} of {CEILINGS[name]:,}")
    assert {name: figure for name, figure in found.items() if figure > CEILINGS[name]} == {}


@pytest.mark.skipif(bool(compiled.WHY_NOT), reason="the reference has more files, which run as one native call")
def test_a_traced_put_is_seen_in_judge_detector_and_commit() -> None:
    assert {"writing/judge.py", "dedup/detector.py", "tablets/commit.py"} <= set(near_duplicate_put().modules)


def test_batches_are_counted_in_a_log_of_leveldb(tmp_path: Path) -> None:
    plyvel = pytest.importorskip("plyvel")
    database = plyvel.DB(str(tmp_path / "db"), create_if_missing=True)
    for size in (1, 3, 2):
        with database.write_batch() as batch:
            for number in range(size):
                batch.put(b"%d" % number, bytes(20_000))  # a batch goes on in the next block of the log
    [log] = (tmp_path / "db").glob("*.log")
    assert batch_counts(log) == [1, 3, 2]
    database.close()
