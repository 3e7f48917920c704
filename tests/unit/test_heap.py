"""One heap for all threads: it must be set before threads start."""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from docstore.cli import store_commands, stores

PROGRAM = """
import ctypes, sys, threading
from docstore.storage.heap import trim_heap, use_one_heap

use_one_heap()
gate = threading.Barrier(9)
held = []

def work():
    gate.wait(60)
    held.append([bytes(2000 + number) for number in range(500)])
    gate.wait(60)

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
gate.wait(60)
gate.wait(60)
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
stream = libc.fopen(sys.argv[1].encode(), b"w")
libc.malloc_info(0, ctypes.c_void_p(stream))
libc.fclose(ctypes.c_void_p(stream))
trim_heap()
"""

FLUSH = """
import re, sys, threading
from pathlib import Path
from docstore.dedup.runs import RunFiles, Span

def kept_bytes():
    return int(re.search("Anonymous: +([0-9]+)", Path("/proc/self/smaps_rollup").read_text())[1]) << 10

def work():
    blocks = [b"block" * 4000 for _ in range(2000)]
    del blocks[:-1]
    last.extend(blocks)

last = []
thread = threading.Thread(target=work)
thread.start()
thread.join()
storage = RunFiles(Path(sys.argv[1]))
before = kept_bytes()
storage.write(Span(1, 2), [b"run"])
storage.finish_merges()
print(before - kept_bytes())
storage.close()
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="the C library is not glibc")
def test_all_threads_allocate_from_one_heap(tmp_path_factory: pytest.TempPathFactory) -> None:
    told = tmp_path_factory.mktemp("heap") / "told.xml"
    subprocess.run([sys.executable, "-c", PROGRAM, str(told)], check=True, timeout=120)
    assert told.read_text(encoding="utf-8").count("<heap ") == 1


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="the C library is not glibc")
def test_a_flush_of_the_index_releases_what_threads_have_freed(tmp_path: Path) -> None:
    """Before, a writer with memory="128MB" reached 145 MB after 40,000 pages: 65 MB were free, in six heaps."""
    done = subprocess.run([sys.executable, "-c", FLUSH, str(tmp_path)], check=True, capture_output=True, timeout=120)
    assert int(done.stdout) > 30_000_000


def test_a_server_has_one_heap_before_its_store_has_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, the limit came after a thread of the store had a heap, which later ones then shared."""
    done: list[str] = []

    class Opened(Exception):
        pass

    def opened(*_args: object, **_options: object) -> NoReturn:
        done.append("open")
        raise Opened

    monkeypatch.setattr(stores, "use_one_heap", lambda: done.append("heap"))
    monkeypatch.setattr(stores, "open_files", opened)
    parser = argparse.ArgumentParser()
    store_commands.add_serve_arguments(parser)
    with pytest.raises(Opened):
        stores.run_serve(parser.parse_args(["--port", "0"]))
    assert done == ["heap", "open"]
