"""The sweep on Spark beside the sweep in one process: the same store, the same run, start-up aside.

    python -m tools.bench.spark STORE [--master local[2]] [--threads 2]

STORE is opened for reading; nothing is written into its rows.  Both give the same pairs, which is checked.  `start` is
the session, and each core's first Python process with the kernels loaded.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import docstore
from docstore.sweep.job import SweepOptions, SweepReport, sweep
from tools.bench.harness import Section, machine

STAGES = ("start", "versions", "candidates", "shingles", "pairs", "listing", "clusters")


def measure(store: Path, master: str, threads: int) -> Section:
    """One sweep on each engine."""
    section = Section(
        "The sweep on Spark",
        f"python -m tools.bench.spark STORE --master {master}",
        ("engine", *(f"{stage} s" for stage in STAGES), "all but start s", "ratio"),
    )
    reports: dict[str, SweepReport] = {}
    with tempfile.TemporaryDirectory(prefix="docstore-bench-") as folder:
        found = []
        for engine in ("local", "spark"):
            pairs = Path(folder) / f"{engine}.tsv"
            settings = (("spark.driver.host", "127.0.0.1"), ("spark.driver.bindAddress", "127.0.0.1"))
            options = SweepOptions(
                engine=engine,
                master=master,
                threads=threads,
                dry_run=True,
                pairs=pairs,
                shared=Path(folder),
                settings=settings,
            )
            with docstore.open(store) as opened:
                reports[engine] = sweep(opened, options)
            found.append(pairs.read_bytes())
    base = work_seconds(reports["local"])
    for engine, report in reports.items():
        seconds = [f"{report.stage_seconds.get(stage, 0.0):.1f}" for stage in STAGES]
        work = work_seconds(report)
        section.rows.append((engine, *seconds, f"{work:.1f}", f"{work / base:.2f}"))
    report = reports["local"]
    section.notes.append(
        f"{report.documents} pages, {report.candidates} candidates, {report.pairs} pairs; "
        f"pairs files {'are equal' if found[0] == found[1] else 'DIFFER'}; {threads} threads; {machine()}."
    )
    return section


def work_seconds(report: SweepReport) -> float:
    """Seconds of a sweep without its start."""
    return report.seconds - report.stage_seconds.get("start", 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.spark", description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    print(measure(given.store, given.master, given.threads).render())


if __name__ == "__main__":
    main()
