"""A store on HBase and a sweep on Spark while servers die, from end to end with real processes on this machine.

    python -m tools.cluster_demo [--corpus DIR] [--pages N] [--folder DIR]

Starts a cluster; two `docstore ingest` write at once, and the busiest RegionServer is killed in the middle; compares
every page, runs `check`; sweeps on a Master and two Workers of Spark, one of them killed in the middle, and compares
that with the local sweep; copies the store into a directory and compares the exports.  Needs a JDK 17, Maven, and
`pip install '.[hbase,spark]'`.  Pages are those of the sample crawl, or of the WARC files of a folder, repeated
with small changes until there are enough.  Takes some minutes and 4 GB of memory.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tools.cluster.artifacts import NotAvailable, cache_folder, fetch
from tools.cluster.lifecycle import start, stop
from tools.cluster.processes import Processes
from tools.cluster.settings import Cluster, made
from tools.cluster.spark import why_not
from tools.cluster_demo import pages, steps
from tools.cluster_demo.steps import Failed

SAMPLE = Path(__file__).parents[2] / "examples"
NAMESPACE = "demo"


class Report:
    """Prints what has happened, with the seconds since the start."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def say(self, what: str) -> None:
        """Print a line."""
        print(f"{time.monotonic() - self._began:6.1f} s  {what}", flush=True)


def demonstrate(corpus: Path, count: int, folder: Path, stack: ExitStack) -> None:
    """All steps.

    Args:
        corpus: folder of WARC files.
        count: pages.
        folder: for everything that is made.
        stack: stops the cluster.
    Raises:
        Failed: what was to be shown does not hold.
    """
    report = Report()
    crawl = pages.grown(list(pages.of_folder(corpus)), count)
    halves = pages.in_two(crawl)
    archives = [folder / "one.warc.gz", folder / "two.warc.gz"]
    for archive, half in zip(archives, halves, strict=True):
        pages.write(archive, half)
    total = sum(map(len, halves))
    report.say(f"{total} pages in two archives; {total - len(crawl)} bodies are in both")

    cache = cache_folder()
    jars = fetch(cache)
    cluster = made(Cluster(cache / f"demo-{os.getpid()}", 0))
    stack.callback(shutil.rmtree, cluster.root, ignore_errors=True)
    processes = Processes(cluster, jars)
    stack.callback(stop, cluster, processes, at_once=True)
    start(cluster, cache)
    servers = list(cluster.servers())
    report.say(f"cluster is ready: {len(servers)} processes")
    address = f"hbase://{cluster.addresses}/{NAMESPACE}"
    steps.run("init", "--store", address)
    report.say(f"docstore init --store {address}")

    steps.ingest_twice(cluster, processes, address, archives, total, report.say)
    urls, new = steps.compare(address, [page for half in halves for page in half])
    report.say(f"{urls} URLs are exact by get and by scan; {new} captures are new, no body twice")
    steps.check(address)
    report.say("docstore check: silent")

    if reason := why_not():
        report.say(f"**** SKIPPED: NO SWEEP ON SPARK: {reason} ****")
    else:
        steps.sweep_on_spark(address, folder, report.say)
    copied, exported = steps.copy_back(address, folder)
    report.say(f"docstore copy into a directory: {copied['written_rows']} rows; check: silent")
    report.say(f"exports of both are equal: {exported} bytes")


def main() -> int:
    """Run it; returns an exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.cluster_demo", description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, default=SAMPLE, help="folder of WARC files (default: the sample crawl)")
    parser.add_argument("--pages", type=int, default=1500, help="default: %(default)s")
    parser.add_argument("--folder", type=Path, help="keep archives, pairs, copy and exports here, in an empty folder")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="docstore-demo-")))
        folder.mkdir(parents=True, exist_ok=True)
        try:
            demonstrate(given.corpus, given.pages, folder, stack)
        except (Failed, NotAvailable, RuntimeError) as error:
            print(f"FAILED: {error}", file=sys.stderr)
            return 1
    print("all of it holds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
