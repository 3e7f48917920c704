"""What only the LevelDB adapter must do: survive failed writes, forks, closing under load, and damage on disk."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from docstore.model.choices import Durability
from docstore.model.errors import CorruptionError, DocstoreError, StorageError, StoreUnavailable
from docstore.model.format import ENGINE_END_KEY, TIMESTAMP_MAX
from docstore.model.types import DeleteCells, DeleteFamily, DeleteRow, Position, ReadSpec, RowMutations, SetCell
from docstore.tablets.engines.leveldb import LevelDBEngine

ROW = b"com,example)/"
SYNC, FLUSH = Durability.SYNC, Durability.FLUSH


def put(engine: LevelDBEngine, number: int, value: bytes = b"value", durability: Durability = FLUSH) -> None:
    row = RowMutations("pages", b"%06d" % number, [SetCell("page", b"body", 1000, value)])
    engine.mutate_rows([row], durability)


def big_row(engine: LevelDBEngine, cells: int) -> None:
    cells_of_row = [SetCell("anchor", b"%07d" % number, 1000, b"a") for number in range(cells)]
    engine.mutate_rows([RowMutations("pages", ROW, cells_of_row)], FLUSH)


def numbers(engine: LevelDBEngine) -> list[int]:
    return [int(row.row_key) for row in engine.scan("pages")]


def run(code: str, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, env={**os.environ, **(env or {})}
    )


# --- opening and closing ---


def test_a_missing_directory_is_unavailable_unless_it_may_be_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="create the store first"):
        LevelDBEngine(tmp_path / "engine")
    LevelDBEngine(tmp_path / "engine", create=True).close()
    LevelDBEngine(tmp_path / "engine").close()


def test_a_directory_open_in_another_engine_is_unavailable(tmp_path: Path) -> None:
    engine = LevelDBEngine(tmp_path, create=True)
    with pytest.raises(StoreUnavailable, match="open in another"):
        LevelDBEngine(tmp_path)
    outcome = run(
        """
        import sys
        from docstore.tablets.engines.leveldb import LevelDBEngine
        from docstore.model.errors import StoreUnavailable
        try:
            LevelDBEngine(sys.argv[1])
        except StoreUnavailable as error:
            print(error)
        """,
        str(tmp_path),
    )
    assert "open in another" in outcome.stdout, outcome.stderr
    engine.close()


def test_a_second_close_of_an_engine_does_not_unlock_the_next_one(tmp_path: Path) -> None:
    first = LevelDBEngine(tmp_path, create=True)
    first.close()
    second = LevelDBEngine(tmp_path)
    del first
    gc.collect()
    with pytest.raises(StoreUnavailable, match="open in another"):
        LevelDBEngine(tmp_path)
    second.close()


def test_an_engine_dropped_without_closing_unlocks_its_directory(tmp_path: Path) -> None:
    first = LevelDBEngine(tmp_path, create=True)
    put(first, 1)
    del first
    gc.collect()
    second = LevelDBEngine(tmp_path)
    assert numbers(second) == [1]
    second.close()


def test_closing_empties_the_log(tmp_path: Path) -> None:
    engine = LevelDBEngine(tmp_path, create=True)
    for number in range(2000):
        put(engine, number)
    assert sum(log.stat().st_size for log in tmp_path.glob("*.log")) > 50_000
    engine.close()
    assert sum(log.stat().st_size for log in tmp_path.glob("*.log")) == 0
    engine = LevelDBEngine(tmp_path)
    assert numbers(engine) == list(range(2000))
    engine.close()


def test_writes_survive_a_process_killed_without_closing(tmp_path: Path) -> None:
    outcome = run(
        """
        import os, signal, sys
        from docstore.tablets.engines.leveldb import LevelDBEngine
        from docstore.model.choices import Durability
        from docstore.model.types import RowMutations, SetCell
        engine = LevelDBEngine(sys.argv[1], create=True)
        for number in range(500):
            cells = [SetCell("page", b"body", 1000, b"value")]
            engine.mutate_rows([RowMutations("pages", b"%06d" % number, cells)], Durability.FLUSH)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        str(tmp_path),
    )
    assert outcome.returncode == -9, outcome.stderr
    engine = LevelDBEngine(tmp_path)
    assert numbers(engine) == list(range(500))
    engine.close()


def test_a_large_delete_survives_a_reopening(tmp_path: Path) -> None:
    engine = LevelDBEngine(tmp_path, create=True)
    big_row(engine, 3000)
    engine.mutate_rows([RowMutations("pages", ROW, [DeleteFamily("anchor")])], FLUSH)
    engine.close()
    engine = LevelDBEngine(tmp_path)
    assert engine.read_row("pages", ROW) == []
    engine.mutate_rows([RowMutations("pages", ROW, [SetCell("anchor", b"0000001", 0, b"back")])], FLUSH)
    engine.close()
    engine = LevelDBEngine(tmp_path)
    assert [cell.value for cell in engine.read_row("pages", ROW)] == [b"back"]
    engine.compact("pages")
    big_row(engine, 1500)
    engine.close()
    engine = LevelDBEngine(tmp_path)
    assert len(engine.read_row("pages", ROW)) == 1501
    engine.mutate_rows([RowMutations("pages", ROW, [DeleteRow()])], FLUSH)
    assert engine.read_row("pages", ROW) == []
    engine.close()


def test_compacting_a_deleted_row_frees_its_space(tmp_path: Path) -> None:
    engine = LevelDBEngine(tmp_path, create=True)
    cells = [
        SetCell("anchor", random.Random(n).randbytes(20), 1000, random.Random(n).randbytes(100)) for n in range(5000)
    ]
    engine.mutate_rows([RowMutations("pages", ROW, cells)], FLUSH)
    engine.compact("pages")
    full_bytes = engine.approximate_bytes("pages")
    assert full_bytes > 500_000
    engine.mutate_rows([RowMutations("pages", ROW, [DeleteRow()])], FLUSH)
    engine.compact("pages")
    assert engine.approximate_bytes("pages") < full_bytes / 100
    engine.close()


# --- threads, closing under load, forks ---


def test_closing_under_running_reads_and_scans_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    outcome = run(
        """
        import sys, threading
        from docstore.tablets.engines.leveldb import LevelDBEngine
        from docstore.model.errors import StoreUnavailable
        from docstore.model.choices import Durability
        from docstore.model.types import RowMutations, SetCell

        none = Durability.NONE
        for round_number in range(6):
            engine = LevelDBEngine(f"{sys.argv[1]}/{round_number}", create=True)
            for number in range(3000):
                engine.mutate_rows([
                    RowMutations("pages", b"%06d" % number, [SetCell("page", b"body", 1000, b"value")]),
                    RowMutations("postings", b"%06d" % number, [SetCell("p", b"q", 0, b"")]),
                ], none)
            refused, running = [], threading.Barrier(7)

            def work(kind):
                running.wait()
                try:
                    while True:
                        if kind == 0:
                            for _ in engine.scan("pages"): pass
                        elif kind == 1:
                            for _ in engine.scan("postings"): pass
                        elif kind == 2:
                            engine.read_row("pages", b"001500")
                        elif kind == 3:
                            engine.qualifiers_of_rows("postings", [b"%06d" % n for n in range(0, 3000, 50)], 3)
                        elif kind == 4:
                            engine.mutate_rows([RowMutations("pages", b"x", [SetCell("page", b"b", 0, b"")])], none)
                        else:
                            engine.newest("pages", b"y", "page", b"b")
                except StoreUnavailable as error:
                    refused.append(kind)

            threads = [threading.Thread(target=work, args=(kind,)) for kind in range(6)]
            for thread in threads: thread.start()
            running.wait()
            for _ in range(20): engine.read_row("pages", b"000001")
            engine.close()
            for thread in threads: thread.join()
            assert sorted(refused) == [0, 1, 2, 3, 4, 5], refused
        print("closed in peace")
        """,
        str(tmp_path),
    )
    assert outcome.stdout == "closed in peace\n", (outcome.returncode, outcome.stderr[-2000:])


def test_eight_threads_write_and_read_their_own_rows(tmp_path: Path) -> None:
    engine = LevelDBEngine(tmp_path, create=True)
    wrong: list[int] = []

    def work(me: int) -> None:
        for number in range(me * 1000, me * 1000 + 200):
            put(engine, number, b"%d" % number)
            cells = engine.read_row("pages", b"%06d" % number)
            if [cell.value for cell in cells] != [b"%d" % number]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and len(numbers(engine)) == 1600
    engine.close()


def test_every_call_in_a_forked_child_is_unavailable_and_the_parent_continues(tmp_path: Path) -> None:
    outcome = run(
        """
        import os, sys, threading
        from docstore.tablets.engines.leveldb import LevelDBEngine
        from docstore.model.errors import StoreUnavailable
        from docstore.model.choices import Durability
        from docstore.model.types import RowMutations, SetCell
        engine = LevelDBEngine(sys.argv[1], create=True)
        row = RowMutations("pages", b"r", [SetCell("page", b"b", 0, b"")])
        stop = threading.Event()

        def write():
            while not stop.is_set():
                engine.mutate_rows([row], Durability.SYNC)

        writer = threading.Thread(target=write)
        writer.start()
        running = engine.scan("pages")
        for _ in range(20):
            child = os.fork()
            if child == 0:
                calls = [
                    lambda: engine.mutate_rows([row], Durability.SYNC),
                    lambda: engine.read_row("pages", b"r"),
                    lambda: next(running),
                    lambda: engine.scan("pages"),
                    lambda: engine.qualifiers("postings", b"r", 1),
                    lambda: engine.newest("pages", b"r", "page", b"b"),
                    lambda: engine.approximate_bytes("pages"),
                    lambda: engine.compact("pages"),
                ]
                refused = 0
                for call in calls:
                    try:
                        call()
                    except StoreUnavailable as error:
                        refused += "fork" in str(error)
                engine.close()
                sys.exit(0 if refused == len(calls) else 50 + refused)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        writer.join()
        assert len(list(running)) == 1
        engine.close()
        print("parent went on")
        """,
        str(tmp_path),
    )
    assert outcome.stdout == "parent went on\n", (outcome.returncode, outcome.stderr[-2000:])


# --- failed writes ---

FULL_DISK = """
    import os, resource, signal, sys
    from docstore.tablets.engines.leveldb import LevelDBEngine
    from docstore.model.errors import CommitUnknown, StorageError
    from docstore.model.choices import Durability
    from docstore.model.types import RowMutations, SetCell

    path, durability = sys.argv[1], Durability(sys.argv[2])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    engine = LevelDBEngine(path, create=True)

    def put(number):
        row = RowMutations("pages", b"%06d" % number, [SetCell("page", b"body", 1000, b"v" * 1000)])
        engine.mutate_rows([row], durability)

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    limit(300_000)  # no file may grow past this: writes to the log fail as on a full disk
    acknowledged, refused = [], []
    for number in range(400):
        try:
            put(number)
            acknowledged.append(number)
        except StorageError as error:
            refused.append(number)
            if len(refused) == 3:
                break
    assert refused, "the limit was never met"
    assert engine.read_row("pages", b"000000"), "reads go on"
    limit(resource.RLIM_INFINITY)
    for number in range(1000, 1100):
        put(number)
        acknowledged.append(number)
    print(",".join(map(str, acknowledged)))
    print(",".join(map(str, refused)), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("durability", ["sync", "flush"])
def test_writes_after_a_failed_one_are_kept_and_the_failed_one_is_not(tmp_path: Path, durability: str) -> None:
    outcome = run(FULL_DISK, str(tmp_path), durability)
    assert outcome.returncode == -9, outcome.stderr
    acknowledged, refused = ([int(n) for n in line.split(",")] for line in outcome.stdout.splitlines())
    engine = LevelDBEngine(tmp_path)
    assert numbers(engine) == acknowledged
    assert not set(refused) & set(acknowledged)
    engine.close()


FAILING_SYNC = """
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <errno.h>
    #include <stdlib.h>
    #include <unistd.h>
    static int fails(void) { const char *file = getenv("FAIL_SYNC_IF"); return file && access(file, F_OK) == 0; }
    int fdatasync(int fd) { if (fails()) { errno = EIO; return -1; }
        return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd); }
    int fsync(int fd) { if (fails()) { errno = EIO; return -1; }
        return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); }
"""


def test_a_write_with_a_failed_sync_has_unknown_outcome_and_can_be_repeated(tmp_path: Path) -> None:
    source, library = tmp_path / "failing.c", tmp_path / "failing.so"
    source.write_text(FAILING_SYNC)
    try:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no C compiler to make a failing fdatasync with: {error}")
    outcome = run(
        """
        import os, sys
        from pathlib import Path
        from docstore.tablets.engines.leveldb import LevelDBEngine
        from docstore.model.errors import CommitUnknown
        from docstore.model.choices import Durability
        from docstore.model.types import RowMutations, SetCell
        engine = LevelDBEngine(sys.argv[1] + "/engine", create=True)
        row = RowMutations("pages", b"r", [SetCell("page", b"b", 0, b"value")])
        switch = Path(os.environ["FAIL_SYNC_IF"])
        switch.touch()
        try:
            engine.mutate_rows([row], Durability.SYNC)
        except CommitUnknown as error:
            print("unknown")
        switch.unlink()
        engine.mutate_rows([row], Durability.SYNC)
        print(engine.read_row("pages", b"r")[0].value)
        engine.close()
        """,
        str(tmp_path),
        env={"LD_PRELOAD": str(library), "FAIL_SYNC_IF": str(tmp_path / "fail")},
    )
    assert outcome.stdout == "unknown\nb'value'\n", outcome.stderr


def test_a_full_disk_refuses_writes_serves_reads_and_recovers(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "docstore-test", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system here: {mounted.stderr.decode().strip()}")
    try:
        engine = LevelDBEngine(tmp_path / "engine", create=True)
        ballast = tmp_path / "ballast"
        ballast.write_bytes(bytes(2 << 20))
        acknowledged = 0
        with pytest.raises(StorageError) as caught:
            for acknowledged in range(10_000):
                put(engine, acknowledged, b"v" * 1000, SYNC)
        assert caught.value.errno == 28
        for _ in range(3):
            with pytest.raises(StorageError):
                put(engine, 20_000, b"v" * 1000, SYNC)
            assert numbers(engine) == list(range(acknowledged))
        ballast.unlink()
        for number in range(30_000, 30_100):
            put(engine, number, b"v", SYNC)
        wanted = [*range(acknowledged), *range(30_000, 30_100)]
        assert numbers(engine) == wanted
        engine.close()
        engine = LevelDBEngine(tmp_path / "engine")
        assert numbers(engine) == wanted
        engine.close()
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


# --- damage ---


def read_all(path: Path) -> dict[bytes, list[bytes]]:
    engine = LevelDBEngine(path)
    try:
        scanned = {row.row_key: [cell.value for cell in row.cells] for row in engine.scan("pages")}
        for row_key, values in scanned.items():
            assert [cell.value for cell in engine.read_row("pages", row_key)] == values
        return scanned
    finally:
        engine.close()


@pytest.mark.parametrize("kind", ["ldb", "log"])
def test_a_flipped_byte_is_an_error_and_never_a_wrong_answer(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "engine"
    engine = LevelDBEngine(path, create=True)
    source = random.Random(11)
    wanted = {}
    for number in range(300):
        value = source.randbytes(100)
        put(engine, number, value)
        wanted[b"%06d" % number] = [value]
    if kind == "ldb":
        engine.close()
    copy = {file.name: file.read_bytes() for file in path.iterdir()}
    engine.close()
    target = max((name for name in copy if name.endswith(kind)), key=lambda name: len(copy[name]))
    size, found_damage = len(copy[target]), 0
    for place in sorted(source.sample(range(size), 60)):
        for file in path.iterdir():
            file.unlink()
        for name, content in copy.items():
            (path / name).write_bytes(content)
        damaged = bytearray(copy[target])
        damaged[place] ^= 1 << source.randrange(8)
        (path / target).write_bytes(damaged)
        try:
            assert read_all(path) == wanted, f"byte {place} of {size} of {target}"
        except CorruptionError:
            found_damage += 1
    assert found_damage > 40


# --- errors and details ---


def test_a_foreign_error_names_the_directory_and_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DocstoreError, match=str(tmp_path)):
        LevelDBEngine(tmp_path / "file", create=True)


def test_the_newest_cell_and_a_read_agree_after_a_large_delete(tmp_path: Path) -> None:
    engine = LevelDBEngine(tmp_path, create=True)
    big_row(engine, 2000)
    engine.mutate_rows([RowMutations("pages", ROW, [DeleteFamily("anchor"), DeleteCells("anchor", b"0000003")])], FLUSH)
    spec = ReadSpec(("anchor",), b"0000004")
    assert engine.read_row("pages", ROW, spec) == []
    assert engine.newest("pages", ROW, "anchor", b"0000004") is None
    engine.close()


def test_deleted_cells_do_not_count_as_versions(tmp_path: Path) -> None:
    engine = LevelDBEngine(tmp_path, create=True)
    old = [SetCell("page", b"a", 1000 * number, b"old") for number in range(5000, 7000)]
    engine.mutate_rows([RowMutations("pages", ROW, [*old])], FLUSH)
    fresh = [SetCell("page", b"a", 1000 * number, b"new") for number in (1, 2, 3)]
    engine.mutate_rows([RowMutations("pages", ROW, [DeleteRow(), *fresh])], FLUSH)
    spec = ReadSpec(versions=2)
    assert [cell.timestamp for cell in engine.read_row("pages", ROW, spec)] == [3000, 2000]
    resumed = engine.read_row("pages", ROW, spec._replace(after=Position("page", b"a", 3000)))
    assert [cell.timestamp for cell in resumed] == [2000]
    engine.close()


def test_a_batch_of_cells_looks_as_the_format_says(tmp_path: Path) -> None:
    engine = LevelDBEngine(tmp_path, create=True)
    rows = [
        RowMutations("pages", b"r\x00", [SetCell("page", b"b", 1000, b"v")]),
        RowMutations("postings", b"t", (SetCell("p", b"q\x00", 0, b""),)),
    ]
    engine.mutate_rows(rows, FLUSH)
    engine.close()
    plyvel = pytest.importorskip("plyvel")
    database = plyvel.DB(str(tmp_path))
    assert list(database) == [
        (b"\x02r\x00\xff\x00\x01\x03page\x00b\x00\x01" + (TIMESTAMP_MAX - 1000).to_bytes(8, "big"), b"v"),
        (b"\x04t\x00\x01q\x00", b""),
        (ENGINE_END_KEY, b""),
    ]
    database.close()
