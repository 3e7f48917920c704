"""Memory of a server: garbage and freed memory go by the clock, not in the way of requests."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docstore.serving import run as memory
from tests.serving import serving


class Cycle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.own = self


def full_collections_of(objects: int) -> int:
    """How often Python looks at everything while so many objects come and stay."""
    full: list[int] = []

    def noted(phase: str, info: dict[str, Any]) -> None:
        if phase == "start" and info["generation"] == 2:
            full.append(1)

    gc.collect()
    gc.callbacks.append(noted)
    try:
        held = [[number] for number in range(objects)]
    finally:
        gc.callbacks.remove(noted)
    assert len(held) == objects
    return len(full)


@pytest.fixture(autouse=True)
def usual_thresholds() -> Iterator[None]:
    """Those of Python: servers of other tests may have ended in another order than they began."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_a_server_begins_no_full_collection_under_load(tmp_path: Path) -> None:
    """Before, one every 2.5 s under a load of writes, of .2 s each, in which nobody was answered."""
    objects = 200_000 + len(gc.get_objects())
    assert full_collections_of(objects) > 0
    with serving(tmp_path / "store") as served:
        assert served.http.get("/healthz").status_code == 200
        assert full_collections_of(objects) == 0
    assert full_collections_of(objects) > 0


def test_garbage_is_collected_by_the_clock() -> None:
    async def wait_until_it_goes() -> None:
        gone = asyncio.Event()
        loop = asyncio.get_running_loop()
        cycle = Cycle()
        watched = weakref.ref(cycle, lambda _: loop.call_soon_threadsafe(gone.set))
        gc.collect()  # it is old now
        del cycle
        task = asyncio.create_task(memory.tidy(0.0, 0.0))
        await asyncio.wait_for(gone.wait(), 60)
        task.cancel()
        assert watched() is None

    with memory.full_collections_by_clock():
        asyncio.run(wait_until_it_goes())
