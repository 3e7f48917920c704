"""A sweep on Spark without a store: what a page costs, against datatrove's MinHash and a store's sweep of these pages.

    python -m tools.bench.spark PAGES FOLDER [--skew] [--store] [--s3 JARS] [--master local-cluster[1,1,1024]]

Pages are those of `tools.bench.scale`, as Parquet with their HTML.  With `--skew` five of six are short pages of one
family, of which any two are near and share band keys (50,000 of 60,000 pages), and half of all are of one host.
`docstore-spark` runs as a process with one executor, a process of its own, of one core; with local-cluster[1,2,1024]
of two.  Processor time and memory are looked at twice a second: memory is the most that a process had of its own.
Bytes are in Spark's log of events, by the step that its jobs name.

A planted copy is found if its row names a page of its family as canonical.  datatrove, of the extra `bench-peers`, gets
the shingles of docstore, so the time of extraction is not in its row, and connected components.  With `--store` the
same pages are ingested into a store, which is swept, and compared in all columns with a store that takes the clusters
of Spark.  With `--s3` all files of Spark are on moto's S3 server; the folder has the jars of hadoop-aws.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from docstore.archives.selection import Selection
from docstore.model.choices import BINS
from docstore.model.keys import canonical_url
from docstore.model.types import Page
from docstore.spark.kernels import BANDED, pairs_of_buckets
from docstore.store import open_store
from docstore.sweep.candidates import candidates
from tests.remote import KEYS, s3_server
from tools.bench.dedup_peers import THRESHOLD, by_datatrove, judged_of
from tools.bench.harness import Section, children_seconds, memory_of, processor_seconds, run_commands
from tools.bench.scale import AGAIN, EXACT, NEAR, START, WORDS, family_of, kind_of, page_of, url_of

COMMAND = "python -m tools.bench.spark PAGES FOLDER"
COLUMNS = (
    "what", "wall s", "processor s: driver, Java, Python", "pages/s of a core", "own MB: driver, Java, Python",
    "found", "false",
)  # fmt: skip
STEP_COLUMNS = ("step", "task s", "shuffled, B a page", "read, B a page", "written, B a page", "spilled MB")
WRITTEN = 5000
"""Pages of a row group."""
FAMILY_WORDS = 120
MATES = 60
"""Unrelated texts in a bucket at a billion pages."""
MATCHED = 60_000
"""Texts that are compared in such buckets."""
FAMILY = 50_000
CHANGED_BINS = 8
"""Of 256 in the sketch of each text of a family: its texts share some .94 of their shingles."""
COMPARED = ["url", "timestamp", "cluster", "canonical", "canonical_similarity"]
DRIVER, JAVA, PYTHON = "driver", "executor's Java", "executor's Python"


def skewed(number: int) -> Page:
    """A page of one large family, or of one host, or as it was."""
    page = page_of(number)
    host = "half" if zlib.crc32(b"%d" % number) % 2 else f"notices{number % 7}"
    if number % 6 != 1:
        words = random.Random("family").choices(WORDS, k=FAMILY_WORDS)
        words[random.Random(f"place {number}").randrange(FAMILY_WORDS)] = f"w{number}"
        body = f"<html><head><title>Notice</title></head><body><p>{' '.join(words)}.</p></body></html>"
        return page._replace(url=f"http://www.{host}.example/{number}", body=body.encode())
    _, _, rest = page.url.partition("www.")
    return page._replace(url=f"http://www.half.example/{rest}") if zlib.crc32(rest.encode()) % 2 else page


def write(make: Callable[[int], Page], pages: int, path: Path) -> None:
    """The pages as Parquet."""
    schema = pa.schema([("url", pa.string()), ("timestamp", pa.timestamp("us", "UTC")), ("body", pa.binary())])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, pages, WRITTEN):
            made = [make(number) for number in range(start, min(start + WRITTEN, pages))]
            columns = zip(*((page.url, page.fetched_at, page.body) for page in made), strict=True)
            writer.write_table(pa.table(list(map(list, columns)), schema=schema))


# --- processes


def processes_of(session: int) -> Iterator[int]:
    """Living processes of a session."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            yield int(path.parent.name)


def role_of(process: int) -> str:
    """Whether a process is a driver or an executor."""
    command = Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8", errors="replace")
    return JAVA if "CoarseGrainedExecutorBackend" in command else PYTHON if "pyspark.daemon" in command else DRIVER


@dataclass
class Observed:
    """What a command and all that it started took.

    Attributes:
        wall: seconds.
        seconds: of processor time, by role.
        memory: most MB that a process of a role had of its own.
    """

    wall: float = 0.0
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    memory: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, command: Sequence[str]) -> Observed:
        """Run a command and look at its session twice a second."""
        result = cls()
        seconds: dict[int, tuple[str, float]] = {}
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        began = time.perf_counter()
        running = subprocess.Popen(command, start_new_session=True, env=environment, stdout=subprocess.DEVNULL)
        try:
            while running.poll() is None:
                for process in processes_of(running.pid):
                    try:
                        role = role_of(process)
                        if process in seconds and role == DRIVER:  # a process that ends has no command any more
                            role = seconds[process][0]
                        seconds[process] = role, processor_seconds(process)
                        result.memory[role] = max(result.memory[role], round(memory_of(process).own))
                    except (OSError, KeyError):
                        continue  # it has just ended
                time.sleep(0.5)
        finally:
            for process in processes_of(running.pid):
                os.kill(process, signal.SIGTERM)
        if running.returncode:
            raise RuntimeError(f"docstore-spark ended with exit code {running.returncode}")
        result.wall = time.perf_counter() - began
        for role, used in seconds.values():
            result.seconds[role] += used
        return result

    def cells(self, pages: int) -> Sequence[str]:
        executor = self.seconds[JAVA] + self.seconds[PYTHON]
        used, most = (
            ", ".join(f"{values[role]:.0f}" for role in (DRIVER, JAVA, PYTHON))
            for values in (self.seconds, self.memory)
        )
        return f"{self.wall:.0f}", used, f"{pages / executor:,.0f}", most


def steps_of(log: Path, pages: int) -> Iterator[Sequence[str]]:
    """By step of the sweep: seconds of its tasks, and bytes a page."""
    steps: dict[int, str] = {}
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    paths = (path for path in sorted(log.rglob("events_*")) if path.is_file())
    for line in (line for path in paths for line in path.read_text(encoding="utf-8").splitlines()):
        event = json.loads(line)
        if event["Event"] == "SparkListenerJobStart":
            name = event["Properties"].get("spark.job.description", "other")
            steps |= {stage: name for stage in event["Stage IDs"] if stage not in steps}
        elif event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
            metrics, total = event["Task Metrics"], totals[steps[event["Stage ID"]]]
            total["run"] += metrics["Executor Run Time"]
            total["spilled"] += metrics["Disk Bytes Spilled"]
            total["shuffled"] += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
            total["read"] += metrics["Input Metrics"]["Bytes Read"]
            total["written"] += metrics["Output Metrics"]["Bytes Written"]
    totals["all"] = sum(totals.values(), Counter())
    for name, total in totals.items():
        each = (f"{total[what] / pages:,.0f}" for what in ("shuffled", "read", "written"))
        yield name, f"{total['run'] / 1000:.0f}", *each, f"{total['spilled'] / 1e6:.0f}"


# --- contenders


def quality(pages: int, named: dict[int, set[int]]) -> tuple[str, str]:
    """Shares of planted copies that name their family, and of pages that name another one.

    Args:
        pages: their number.
        named: by number of a page the families of the pages that it is called a copy of.
    """
    planted = [number for number in range(pages) if kind_of(number) in (NEAR, EXACT)]
    found = sum(family_of(number) in named.get(number, ()) for number in planted)
    false = sum(families != {family_of(number)} for number, families in named.items())
    return f"{found / max(1, len(planted)):.4f}", f"{false / max(1, len(named)):.4f}"


def with_spark(folder: Path, given: Sequence[str], source: str, output: str, master: str) -> Observed:
    """Run `docstore-spark`; its log of events is in folder/events."""
    shutil.rmtree(folder / "events", ignore_errors=True)
    (folder / "events").mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{(folder / 'events').absolute()}",
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "8",
    }
    words = [word for name, value in settings.items() for word in ("--spark", f"{name}={value}")]
    program = [sys.executable, "-c", "from docstore.spark.command import program; program()"]
    return Observed.of([*program, source, *words, *given, "--output", output, "--master", master])


def named_by_spark(clusters: Path, pages: int) -> dict[int, set[int]]:
    """By number of a page the family of its canonical page.

    A row has the time of the newest capture of a version.  A planted page is the first version of its URL.
    """
    numbers = {canonical_url(url_of(number)): number for number in reversed(range(pages)) if kind_of(number) != AGAIN}
    table = pq.read_table(clusters, columns=["url", "timestamp", "kind", "canonical"]).sort_by("timestamp")
    columns = (table["url"], table["timestamp"].cast(pa.int64()), table["kind"], table["canonical"])
    seen: set[int] = set()
    named = {}
    for url, at, kind, canonical in zip(*(column.to_pylist() for column in columns), strict=True):
        number = numbers[url]
        if kind != "new":
            named[(at - START) // 1_000_000 if number in seen else number] = {family_of(numbers[canonical])}
        seen.add(number)
    return named


@contextmanager
def pages_on_s3(jars: Path, folder: Path) -> Iterator[tuple[str, Sequence[str]]]:
    """An S3 server that has the pages; at the end the folder gets the clusters.

    Gives the address of its bucket for Spark, and settings.
    """
    with s3_server() as client:
        client.upload_file(str(folder / "pages.parquet"), "crawls", "pages.parquet")
        settings = {
            "spark.driver.extraClassPath": f"{jars.absolute()}/*",
            "spark.executor.extraClassPath": f"{jars.absolute()}/*",
            "spark.hadoop.fs.s3a.endpoint": client.meta.endpoint_url,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
            "spark.hadoop.fs.s3a.access.key": KEYS["aws_access_key_id"],
            "spark.hadoop.fs.s3a.secret.key": KEYS["aws_secret_access_key"],
        }
        yield "s3a://crawls", [word for name, value in settings.items() for word in ("--spark", f"{name}={value}")]
        (folder / "out" / "clusters").mkdir(parents=True)
        for each in client.list_objects_v2(Bucket="crawls", Prefix="out/clusters/part-")["Contents"]:
            client.download_file("crawls", each["Key"], str(folder / each["Key"]))


def with_datatrove(pages: int) -> Sequence[str]:
    began = time.process_time()
    judged = judged_of([page_of(number) for number in range(pages)])
    making = time.process_time() - began
    pairs, seconds = by_datatrove(judged)
    numbers = [((page.fetched_at or START) - START) // 1_000_000 for page in judged.pages]
    named: dict[int, set[int]] = {}
    for code in pairs.codes.tolist():
        first, second = sorted(numbers[end] for end in divmod(code, pairs.count))
        named.setdefault(second, set()).add(family_of(first))
    what = f"datatrove MinHash, without making pages and shingles ({making:.0f} s)"
    return what, "", f"{seconds:.0f}", f"{pages / seconds:,.0f}", "", *quality(pages, named)


def with_store(folder: Path, pages: int) -> tuple[Sequence[str], str]:
    """The same pages in a store and swept; -> a row, and whether Spark's clusters are the same."""
    used = [children_seconds()]
    began = time.perf_counter()
    for command in (["ingest", str(folder / "pages.parquet"), "--create"], ["sweep"]):
        if command == ["sweep"]:
            shutil.copytree(folder / "store", folder / "taken")
        program = [sys.executable, "-m", "docstore.cli", "--store", str(folder / "store")]
        subprocess.run([*program, *command], check=True, stdout=subprocess.DEVNULL)
        used.append(children_seconds())
    wall = time.perf_counter() - began
    take = ["--store", str(folder / "taken"), "sweep", "--from", str(folder / "out" / "clusters")]
    subprocess.run([sys.executable, "-m", "docstore.cli", *take], check=True, stdout=subprocess.DEVNULL)
    tables = []
    for name in ("store", "taken"):
        with open_store(folder / name) as store:
            table = store.to_arrow(COMPARED, Selection(versions=None)).read_all()
            tables.append(table.sort_by([(column, "ascending") for column in COMPARED[:2]]))
    rows = tables[0].num_rows
    same = "equal" if tables[0].equals(tables[1]) else f"NOT EQUAL in {differing(*tables)}"
    clustered = rows - tables[0]["cluster"].null_count
    cells = f"{used[1] - used[0]:.0f} + {used[2] - used[1]:.0f}", f"{pages / (used[2] - used[0]):,.0f}"
    row = ("a store: ingest + sweep", f"{wall:.0f}", *cells, "", "", "")
    return row, f"{rows:,} captures, {clustered:,} of them in clusters: the columns of both are {same}"


def differing(one: pa.Table, other: pa.Table) -> int:
    """Rows that are not in both."""
    rows = ({tuple(row.items()) for row in table.to_pylist()} for table in (one, other))
    return len(next(rows) ^ next(rows))


def mates_micros() -> float:
    """Processor time of comparing a text with its mates in a bucket of a billion pages, in all bands."""
    random_source = np.random.default_rng(7)
    bands = 42
    sketches = random_source.integers(0, 256, (MATCHED, BINS // 2), np.uint8)
    columns = [
        pa.array(np.arange(MATCHED) // MATES),
        pa.array(random_source.integers(0, 1 << 40, MATCHED)),
        pa.array(np.arange(MATCHED)),
        pa.array(np.zeros(MATCHED, bool)),
        pa.array(random_source.integers(100, 1000, MATCHED)),
        pa.array([row.tobytes() for row in sketches], pa.binary()),
    ]
    table = pa.table(columns, schema=BANDED)
    began = time.process_time()
    pairs = sum(batch.num_rows for batch in pairs_of_buckets(THRESHOLD, 0, table.to_batches(16384)))
    assert pairs == 0
    return (time.process_time() - began) / MATCHED * bands * 1e6


def family_cost() -> str:
    """Processor time and candidates a text of a large family, any two of which are near."""
    random_source = np.random.default_rng(7)
    sketches = np.repeat(random_source.integers(0, 16, (1, BINS), np.uint8), FAMILY, 0)
    for _ in range(CHANGED_BINS):
        sketches[np.arange(FAMILY), random_source.integers(0, BINS, FAMILY)] = random_source.integers(0, 16, FAMILY)
    began = time.process_time()
    first, _, _ = candidates(sketches, np.full(FAMILY, 1000), np.arange(FAMILY), THRESHOLD)
    seconds = time.process_time() - began
    return f"{FAMILY:,} near texts: {seconds / FAMILY * 1e6:.0f} us and {len(first) / FAMILY:.0f} candidates a text"


def main(
    pages: int,
    folder: Path,
    *,
    skew: bool = False,
    store: bool = False,
    s3: Path | None = None,
    master: str = "local-cluster[1,1,1024]",
) -> Iterator[Section]:
    """Sweep generated pages with Spark; the folder must be empty, but for such pages.parquet of an earlier run."""
    folder.mkdir(parents=True, exist_ok=True)
    make: Callable[[int], Page] = skewed if skew else page_of
    if not (folder / "pages.parquet").exists():
        write(make, pages, folder / "pages.parquet")
    section = Section("A sweep on Spark", f"{COMMAND} ({pages:,} pages{', skewed' if skew else ''})", COLUMNS)
    with ExitStack() as servers:
        place, given = servers.enter_context(pages_on_s3(s3, folder)) if s3 else (str(folder), [])
        observed = with_spark(folder, given, f"{place}/pages.parquet", f"{place}/out", master)
    found = ("", "") if skew else quality(pages, named_by_spark(folder / "out" / "clusters", pages))
    section.rows.append((f"docstore-spark{' on S3' if s3 else ''}", *observed.cells(pages), *found))
    if store:
        row, note = with_store(folder, pages)
        section.rows.append(row)
        section.notes.append(note)
    if importlib.util.find_spec("datatrove") and not skew and not s3:
        section.rows.append(with_datatrove(pages))
    kinds = Counter(map(kind_of, range(pages)))
    section.notes.append(", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    section.notes.append(f"{MATES} unrelated texts in each bucket would cost {mates_micros():.0f} us a page more")
    section.notes.append(family_cost())
    yield section
    yield Section("Its steps", section.command, STEP_COLUMNS, list(steps_of(folder / "events", pages)))


if __name__ == "__main__":
    run_commands(main)
