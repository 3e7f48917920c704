"""`python -m tools.bench.engine_blocks STORE [--keys N]`: what LevelDB's block size does to the rows of a store.

Copies keys of the pages table into fresh databases that differ in block size alone, compacts them, and seeks random
bodies' keys: first with an empty block cache (files in the page cache), then again.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from itertools import islice
from pathlib import Path

import plyvel

from docstore.model.format import ENGINE_DIRECTORY
from docstore.tablets.engines.cellkeys import TAGS, range_end
from tools.bench.harness import Section, median

BLOCK_BYTES = (4096, 8192, 16384, 32768)
PROBES = 4000
ROUNDS = 3
BATCH = 5000


def seek_micros(database: plyvel.DB, probes: list[bytes]) -> float:
    """Processor time of one seek."""
    began = time.process_time()
    for key in probes:
        with database.raw_iterator(verify_checksums=True) as stream:
            stream.seek(key)
            stream.value()
    return (time.process_time() - began) / len(probes) * 1e6


def run(store: Path, keys: int, command: str) -> Section:
    """One row a block size."""
    low = TAGS["pages"]
    with (
        plyvel.DB(str(store / ENGINE_DIRECTORY)) as source,
        source.iterator(start=low, stop=range_end(low)) as stream,
    ):
        pairs = list(islice(stream, keys))
    bodies = [key for key, _ in pairs if b"page\x00body" in key]
    probes = random.Random(1).sample(bodies, min(PROBES, len(bodies)))
    section = Section(
        "Block size of LevelDB", command, ("block", "bytes a page", "us, seek, empty cache", "us, seek, warm")
    )
    for block_bytes in BLOCK_BYTES:
        with tempfile.TemporaryDirectory() as folder:
            with plyvel.DB(folder, create_if_missing=True, block_size=block_bytes) as database:
                for start in range(0, len(pairs), BATCH):
                    with database.write_batch() as batch:
                        for pair in pairs[start : start + BATCH]:
                            batch.put(*pair)
                database.compact_range()
            taken = sum(path.stat().st_size for path in Path(folder).glob("*.ldb"))
            cold, warm = [], []
            for _ in range(ROUNDS):
                with plyvel.DB(folder, lru_cache_size=256 << 20) as database:
                    cold.append(seek_micros(database, probes))
                    warm.append(seek_micros(database, probes))
        section.rows.append(
            (str(block_bytes), f"{taken / len(bodies):.0f}", f"{median(cold):.1f}", f"{median(warm):.1f}")
        )
    section.notes.append(f"{len(pairs)} cells of {len(bodies)} captures; processor time, medians of {ROUNDS} rounds.")
    return section


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.engine_blocks", description=__doc__)
    parser.add_argument("store", type=Path, help="a store that is not open")
    parser.add_argument("--keys", type=int, default=400_000, help="at most so many cells")
    arguments = parser.parse_args()
    print(run(arguments.store, arguments.keys, "python -m tools.bench.engine_blocks STORE").render())


if __name__ == "__main__":
    main()
