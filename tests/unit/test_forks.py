"""Stores in forked processes: LevelDB's background thread is not copied by a fork."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import docstore
from docstore.tablets.rebuild import rebuild

A = "https://a.example/"
WAYS_OUT = ("spawn", "forkserver", "docstore serve")


def forked(work: Callable[[], object]) -> str:
    """What a forked child says of its work: its error, or nothing."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work()
        except Exception as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        said = stream.read().decode()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return said


def used_store(folder: Path, *, keep_open: bool) -> docstore.DocumentStore:
    store = docstore.open(folder, create=True)
    store.put_page(A, b"<p>parent")
    if not keep_open:
        store.close()
    return store


@pytest.mark.parametrize("keep_open", [False, True], ids=["closed", "open"])
@pytest.mark.parametrize("what", ["open", "create", "backup", "rebuild"])
def test_a_fork_of_a_process_that_used_a_store_is_refused_at_open_with_the_ways_out(
    tmp_path: Path, keep_open: bool, what: str
) -> None:
    parent = used_store(tmp_path / "parent", keep_open=keep_open)
    other = tmp_path / "other"
    used_store(other, keep_open=False)
    work: dict[str, Callable[[], object]] = {
        "open": lambda: docstore.open(other),
        "create": lambda: docstore.open(tmp_path / "new", create=True),
        "backup": lambda: docstore.open(other, read_only=True).backup(tmp_path / "backup"),
        "rebuild": lambda: rebuild(other),
    }
    said = forked(work[what])
    assert said.startswith("StoreUnavailable") and all(way in said for way in WAYS_OUT), said
    assert not (tmp_path / "new").exists()
    parent.close()
    for folder in (tmp_path / "parent", other):
        with docstore.open(folder) as store:
            assert store.get(A) is not None


@pytest.mark.parametrize("keep_open", [False, True], ids=["closed", "open"])
def test_a_fork_reads_a_store_and_closes_it(tmp_path: Path, keep_open: bool) -> None:
    with docstore.open(tmp_path / "other", create=True, durability="none") as store:
        list(store.put_pages((f"https://b.example/{n}", b"<p>page %d" % n) for n in range(2000)))
    parent = used_store(tmp_path / "parent", keep_open=keep_open)

    def read() -> None:
        for _ in range(3):
            with docstore.open(tmp_path / "other", read_only=True) as store:
                assert sum(1 for _ in store.urls()) == 2000
                assert all(store.get(f"https://b.example/{n}") is not None for n in range(0, 2000, 7))

    assert forked(read) == ""
    parent.close()


@pytest.mark.parametrize("what", ["get", "put"])
def test_a_fork_that_uses_the_store_of_its_parent_is_refused_with_the_ways_out(tmp_path: Path, what: str) -> None:
    parent = used_store(tmp_path / "s", keep_open=True)
    work = {"get": lambda: parent.get(A), "put": lambda: parent.put_page(A, b"<p>child")}
    said = forked(work[what])
    assert said.startswith("StoreUnavailable") and all(way in said for way in WAYS_OUT), said
    parent.close()


def _use(folder: str) -> None:
    with docstore.open(folder) as store:
        store.put_page("https://b.example/", b"<p>child")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_are_no_forks_of_the_user_open_a_store(tmp_path: Path, method: str) -> None:
    used_store(tmp_path / "s", keep_open=False)
    process = multiprocessing.get_context(method).Process(target=_use, args=(str(tmp_path / "s"),))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    with docstore.open(tmp_path / "s") as store:
        assert store.get("https://b.example/") is not None


def test_a_fork_of_a_process_that_has_used_no_store_opens_one(tmp_path: Path) -> None:
    program = (
        "import os, sys, docstore\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    store = docstore.open(sys.argv[1], create=True)\n"
        "    store.put_page('https://a.example/', b'<p>child')\n"
        "    store.compact()\n"
        "    store.close()\n"
        "    os._exit(0)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "s"], check=True, timeout=60)
    with docstore.open(tmp_path / "s") as store:
        assert store.get(A) is not None


def test_a_fork_that_ends_leaves_the_dry_run_of_its_parent(tmp_path: Path) -> None:
    program = (
        "import os, sys, docstore\n"
        "store = docstore.open(sys.argv[1], create=True)\n"
        "dry_run = store.dry_run()\n"
        "dry_run.put_page('https://a.example/', b'<p>one')\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    sys.exit(0)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
        "assert dry_run.put_page('https://b.example/', b'<p>two').stored == 'body'\n"
        "assert dry_run.get('https://a.example/') is not None\n"
        "folder = dry_run.backend.folder.path\n"
        "assert folder.exists()\n"
        "dry_run.close()\n"
        "assert not folder.exists()\n"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "s"], check=True, timeout=60)


def test_a_fork_is_refused_although_another_thread_was_importing_a_part_of_docstore(tmp_path: Path) -> None:
    """The lock of a module that is being imported stays locked in a fork: once, the child waited for it for ever."""
    program = (
        "import os, sys, threading, docstore\n"
        "from importlib.machinery import PathFinder\n"
        "begun, ended = threading.Event(), threading.Event()\n"
        "class Slow:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name != 'docstore.writing.writer':\n"
        "            return None\n"
        "        spec = PathFinder.find_spec(name, path)\n"
        "        real = spec.loader.exec_module\n"
        "        def slow(module):\n"
        "            begun.set()\n"
        "            ended.wait(60)\n"
        "            real(module)\n"
        "        spec.loader.exec_module = slow\n"
        "        return spec\n"
        "store = docstore.open(sys.argv[1], create=True)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "writer = threading.Thread(target=store.put_page, args=('https://a.example/', b'<p>parent'))\n"
        "writer.start()\n"
        "begun.wait(60)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    for work in (lambda: store.put_page('https://b.example/', b'<p>child'), store.stats, store.compact):\n"
        "        try:\n"
        "            work()\n"
        "        except docstore.StoreUnavailable as error:\n"
        "            assert 'spawn' in str(error), error\n"
        "        else:\n"
        "            os._exit(9)\n"
        "    os._exit(0)\n"
        "status = os.waitpid(child, 0)[1]\n"
        "ended.set()\n"
        "writer.join()\n"
        "assert store.get('https://a.example/') is not None\n"
        "store.close()\n"
        "sys.exit(os.waitstatus_to_exitcode(status))\n"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path / "s"], check=True, timeout=60)
