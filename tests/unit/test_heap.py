"""One heap for all threads: it must be set before threads start."""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
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


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="the C library is not glibc")
def test_all_threads_allocate_from_one_heap(tmp_path_factory: pytest.TempPathFactory) -> None:
    told = tmp_path_factory.mktemp("heap") / "told.xml"
    subprocess.run([sys.executable, "-c", PROGRAM, str(told)], check=True, timeout=120)
    assert told.read_text(encoding="utf-8").count("<heap ") == 1


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
