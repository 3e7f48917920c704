"""Many processes write the same bodies: one page of each is new, whoever stops or dies meanwhile."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hbase_cluster import ADDRESSES, empty_store
from ledgers import acknowledged, compare, longest_pause, seconds_of, start

from docstore.cluster.commit import LEASE_SECONDS
from tools.cluster.hbase import wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(not ADDRESSES, reason="no cluster: see `make test-cluster`")]
BODIES = int(os.environ.get("DOCSTORE_CLUSTER_BODIES", "600"))
NAMES = ("a", "b", "c", "d")
SLOW = "the writers do not come on"
SLOW_SECONDS = 3600


@pytest.fixture
def address() -> Iterator[str]:
    with empty_store() as made:
        yield made


def test_of_each_body_one_page_is_new_though_writers_stop_and_die(
    address: str, tmp_path: Path, report: Callable[[str], None]
) -> None:
    writers = {name: start(address, name, 0, BODIES, tmp_path) for name in NAMES}
    try:
        wait_for(lambda: len(acknowledged(tmp_path, "a")) > BODIES // 10, SLOW, SLOW_SECONDS)
        writers["a"].send_signal(signal.SIGSTOP)
        wait_for(lambda: len(acknowledged(tmp_path, "b")) > BODIES // 5, SLOW, SLOW_SECONDS)
        writers["b"].kill()
        writers["b"].wait()
        threading.Event().wait(LEASE_SECONDS + 2)
        stopped_at = len(acknowledged(tmp_path, "a"))
        writers["a"].send_signal(signal.SIGCONT)
        writers["b"] = start(address, "b", 0, BODIES, tmp_path)
        for writer in writers.values():
            assert writer.wait(SLOW_SECONDS) == 0
    finally:
        for writer in writers.values():
            writer.kill()
            writer.wait()
    found = compare(address, tmp_path, NAMES)
    seconds, pause = seconds_of(tmp_path, NAMES), longest_pause(tmp_path, "a")
    report(
        f"{found.pages} pages in {seconds:.0f} s, {sum(found.new_pages.values())} new; {len(found.lost)} of "
        f"{found.acknowledged} acknowledged pages lost; a writer stopped at {stopped_at} pages for {pause:.1f} s"
    )
    assert found.lost == [] and found.problems == []
    assert found.pages == BODIES * len(NAMES)
    assert {number: many for number, many in found.new_pages.items() if many != 1} == {}
    assert sum(found.new_pages.values()) == BODIES
