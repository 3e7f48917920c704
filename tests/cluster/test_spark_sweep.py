"""The sweep on Spark: a Master and two Workers, one killed in mid-shuffle, give the bytes of the local sweep."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import docstore
from docstore.archives.copying import copy
from docstore.model.types import Page
from docstore.sweep.job import SweepOptions, SweepReport, sweep
from tests.pages import changed, page, words
from tests.stores import contents
from tools.cluster.spark import SparkCluster, why_not

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=f"SPARK IS NOT TESTED HERE: {why_not()}")]
T0 = 1_700_000_000_000_000


def crawl() -> Iterator[Page]:
    for number in range(400):
        body = page(changed(words(number // 5, 200), number, number % 11), f"Title {number // 5}")
        yield Page(f"https://h{number % 9}.example/{number}", body, 200, (), T0 + number * 1_000_000)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, SweepReport]:
    """A store without columns, its folder, and what the local sweep says of it."""
    folder = tmp_path_factory.mktemp("spark")
    with docstore.open(folder / "source", create=True) as store:
        list(store.put_pages(crawl()))
        copy(store, folder / "local")
    with docstore.open(folder / "local") as store:
        report = sweep(store, SweepOptions(pairs=folder / "local.tsv"))
    assert report.clusters > 30
    return folder / "source", folder, report


def same(swept: tuple[Path, Path, SweepReport], name: str, **options: Any) -> None:
    """Sweep a copy of the store on Spark; pairs, clusters and columns are those of the local sweep."""
    source, folder, expected = swept
    with docstore.open(source, read_only=True) as store:
        copy(store, folder / name)
    with docstore.open(folder / name) as store, docstore.open(folder / "local") as local:
        pairs = folder / f"{name}.tsv"
        report = sweep(store, SweepOptions(engine="spark", pairs=pairs, **options))
        assert pairs.read_bytes() == (folder / "local.tsv").read_bytes()
        assert contents(store) == contents(local)
        assert not (store.opened.path / "sweep").exists()
    for field in ("captures", "pairs", "clusters", "candidates", "crowded", "written", "duplicates"):
        assert getattr(report, field) == getattr(expected, field), field


def test_spark_on_one_machine_gives_the_bytes_of_the_local_sweep(swept: tuple[Path, Path, SweepReport]) -> None:
    same(swept, "one", master="local[2]", settings=(("spark.driver.bindAddress", "127.0.0.1"),))


def test_a_worker_killed_in_mid_shuffle_changes_nothing(
    swept: tuple[Path, Path, SweepReport], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from docstore.cluster import spark as bandstages

    begun, go_on = str(tmp_path / "begun"), str(tmp_path / "go")
    monkeypatch.setattr(bandstages, "pair_buckets", held_up(bandstages.pair_buckets, begun, go_on))
    with SparkCluster(tmp_path / "cluster") as cluster:

        def kill() -> None:
            while not Path(begun).exists():
                threading.Event().wait(0.1)
            cluster.kill("worker1")
            Path(go_on).touch()

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        same(swept, "cluster", master=cluster.master, settings=cluster.settings, shared=tmp_path / "shared")
        killer.join()
        assert "Removing worker" in cluster.log("master").read_text() or "removed" in cluster.log("master").read_text()


def held_up(kernel: Callable[..., Iterator[Any]], begun: str, go_on: str) -> Callable[..., Iterator[Any]]:
    """The kernel behind a shuffle, which says that it has begun, and waits: what is before the shuffle is done then."""

    def work(plan: Any, batches: Iterable[Any]) -> Iterator[Any]:
        import pathlib
        import threading

        pathlib.Path(begun).touch()
        while not pathlib.Path(go_on).exists():
            threading.Event().wait(0.05)
        yield from kernel(plan, batches)

    return work
