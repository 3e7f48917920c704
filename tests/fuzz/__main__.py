"""One fuzz target under atheris, which follows the branches of docstore's Python code.

    python -m tests.fuzz archive --seconds 60 --seed 1 --corpus DIR
    python -m tests.fuzz archive FILE                         # one input again

A failing input is written to the working directory (`crash-...`).  `make fuzz` runs all targets.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # as conftest.py does it


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz one target.")
    parser.add_argument("target", choices=["archive", "wire", "stored", "log", "crowded"])
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, default=Path("build/fuzz"))
    options = parser.parse_args()
    if options.file is not None:
        from tests.fuzz.targets import TARGETS

        TARGETS[options.target].check(options.file.read_bytes())
        return
    import atheris

    with atheris.instrument_imports(include=["docstore"]):
        from tests.fuzz.targets import TARGETS
    target = TARGETS[options.target]
    corpus = options.corpus / options.target
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        (corpus / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
    limits = [f"-max_total_time={options.seconds}", f"-seed={options.seed}", "-max_len=8192", "-timeout=20"]
    atheris.Setup([sys.argv[0], *limits, "-rss_limit_mb=2048", "-print_final_stats=1", str(corpus)], target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
