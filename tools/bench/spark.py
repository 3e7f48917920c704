"""A sweep on Spark without a store: what a page costs, against datatrove's MinHash on the same pages.

    python -m tools.bench.spark PAGES FOLDER [--master local[1]]

Pages are those of `tools.bench.scale`, as Parquet with their HTML.  `docstore-spark` runs as a process with one core of
Spark.  Its processor time is that of all processes of its session, of Java and Python, looked at twice a second;
shuffled bytes are in Spark's log of events; memory is the most that Java, and the largest Python process, had of their
own.  A planted copy is found if its row names a page of its family as canonical.  datatrove, of the extra
`bench-peers`, gets the shingles of docstore, so the time of extraction is not in its row, and connected components.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from docstore.model.keys import canonical_url
from docstore.model.types import Page
from tools.bench.dedup_peers import by_datatrove, judged_of
from tools.bench.harness import Section, memory_of, processor_seconds, run_commands
from tools.bench.scale import EXACT, NEAR, START, family_of, kind_of, page_of, url_of

COMMAND = "python -m tools.bench.spark PAGES FOLDER"
COLUMNS = (
    "what", "processor s", "pages/s of a core", "shuffled, B a page", "MB of Java", "MB of Python", "found", "false",
)  # fmt: skip
WRITTEN = 5000
"""Pages of a row group."""


def write(pages: int, path: Path) -> None:
    """The pages as Parquet."""
    schema = pa.schema([("url", pa.string()), ("timestamp", pa.timestamp("us", "UTC")), ("body", pa.binary())])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, pages, WRITTEN):
            made = [page_of(number) for number in range(start, min(start + WRITTEN, pages))]
            columns = zip(*((page.url, page.fetched_at, page.body) for page in made), strict=True)
            writer.write_table(pa.table(list(map(list, columns)), schema=schema))


def processes_of(session: int) -> list[int]:
    """Living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            found.append(int(path.parent.name))
    return found


def observed(command: Sequence[str]) -> tuple[float, float, float]:
    """Processor seconds of a command and all that it starts; most MB of Java, and of one Python process."""
    seconds: dict[int, float] = {}
    memory = {"java": 0.0, "python": 0.0}
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    running = subprocess.Popen(command, start_new_session=True, env=environment, stdout=subprocess.DEVNULL)
    while running.poll() is None:
        for process in processes_of(running.pid):
            try:
                seconds[process] = processor_seconds(process)
                name = "java" if "java" in Path(f"/proc/{process}/comm").read_text() else "python"
                memory[name] = max(memory[name], memory_of(process).own)
            except (OSError, KeyError):
                continue  # it has just ended
        time.sleep(0.5)
    if running.returncode:
        raise RuntimeError(f"docstore-spark ended with exit code {running.returncode}")
    return sum(seconds.values()), memory["java"], memory["python"]


def shuffled_bytes(log: Path) -> int:
    """Bytes that all tasks wrote for a shuffle."""
    total = 0
    for path in log.rglob("*"):
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() and path.suffix != ".crc" else ():
            if '"SparkListenerTaskEnd"' in line:
                metrics = json.loads(line).get("Task Metrics") or {}
                total += metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
    return total


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


def with_spark(pages: int, folder: Path, master: str) -> Sequence[str]:
    write(pages, folder / "pages.parquet")
    (folder / "events").mkdir(exist_ok=True)
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{(folder / 'events').absolute()}",
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "8",
    }
    given = [word for name, value in settings.items() for word in ("--spark", f"{name}={value}")]
    program = [sys.executable, "-c", "from docstore.spark.command import program; program()"]
    seconds, java, python = observed(
        [*program, str(folder / "pages.parquet"), *given, "--output", str(folder / "out"), "--master", master]
    )
    named: dict[int, set[int]] = {}
    families = {canonical_url(url_of(number)): family_of(number) for number in range(pages)}
    for row in pq.read_table(folder / "out" / "clusters").to_pylist():
        if row["kind"] != "new":
            number = (int(row["timestamp"].timestamp() * 1e6 + 0.5) - START) // 1_000_000
            named[number] = {families[row["canonical"]]}
    shuffled = f"{shuffled_bytes(folder / 'events') / pages:,.0f}"
    cells = f"{seconds:.0f}", f"{pages / seconds:,.0f}", shuffled, f"{java:.0f}", f"{python:.0f}"
    return ("docstore-spark, extraction and exact pairs", *cells, *quality(pages, named))


def with_datatrove(pages: int) -> Sequence[str]:
    judged = judged_of([page_of(number) for number in range(pages)])
    pairs, seconds = by_datatrove(judged)
    numbers = [number_of(page) for page in judged.pages]
    named: dict[int, set[int]] = {}
    for code in pairs.codes.tolist():
        first, second = sorted(numbers[end] for end in divmod(code, pairs.count))
        named.setdefault(second, set()).add(family_of(first))
    rate = f"{pages / seconds:,.0f}"
    return ("datatrove MinHash, without extraction", f"{seconds:.0f}", rate, "", "", "", *quality(pages, named))


def number_of(page: Page) -> int:
    return ((page.fetched_at or START) - START) // 1_000_000


def main(pages: int, folder: Path, *, master: str = "local[1]") -> Section:
    """Sweep generated pages with Spark; the folder must be empty."""
    folder.mkdir(parents=True, exist_ok=True)
    section = Section("A sweep on Spark", f"{COMMAND} ({pages:,} pages)", COLUMNS)
    section.rows.append(with_spark(pages, folder, master))
    if importlib.util.find_spec("datatrove"):
        section.rows.append(with_datatrove(pages))
    kinds = Counter(map(kind_of, range(pages)))
    section.notes.append(", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    return section


if __name__ == "__main__":
    run_commands(main)
