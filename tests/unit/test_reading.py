"""Ingest with a second process that reads the archives: the same store and report, and its failures."""

from __future__ import annotations

import gzip
import io
import logging
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from counts import stride
from pages import page, words
from warc_records import message, record

import docstore
from docstore.archives import ingest as ingesting
from docstore.archives import readahead, readahead_child
from docstore.archives.entries import ReadOptions
from docstore.archives.ingest import IngestOptions, IngestReport, ingest
from docstore.archives.readahead import MAX_REST, Portion, ReadingJob, ReadingProcess, portions
from docstore.archives.readahead_child import END, LONG_BODY_BYTES
from docstore.dedup.kernel import Kernel
from docstore.model.errors import InvalidArgument, StorageError
from docstore.model.types import Page, Schema
from docstore.reports.check import check
from docstore.storage.writes import Anchor, Prepared
from docstore.store import DocumentStore
from docstore.writing.prepare import Preparer

ROOT = Path(__file__).parent.parent.parent
SAMPLE = ROOT / "examples" / "sample-crawl.warc.gz"
REVISIT = "WARC-Payload-Digest: sha1:NOWHERE\r\nWARC-Profile: identical-payload-digest\r\n"


def samples() -> list[str]:
    shared = Path(os.environ.get("DOCSTORE_SHARED", ROOT.parent / "shared"))
    folder = shared / "corpus" / "warc-samples"
    if not folder.is_dir():
        pytest.skip("the shared archive samples are not on this machine (DOCSTORE_SHARED)")
    return sorted(str(path) for path in folder.iterdir() if path.suffix != ".tsv")


def linked(number: int) -> bytes:
    return page(words(number, 80)).replace(b"</body>", b'<a href="/%d">next %d</a></body>' % (number + 1, number))


def packed(path: Path, records: Sequence[bytes]) -> str:
    path.write_bytes(b"".join(gzip.compress(item) for item in records))
    return str(path)


@pytest.fixture
def archives(tmp_path: Path) -> list[str]:
    """Pages, damage, revisits, refused pages, other records, and files that are not archives."""
    responses = [record(message(linked(n)), f"http://h{n % 7}.example/{n % 50}") for n in range(120)]
    damaged = [*responses[:30], responses[30][:-60], *responses[31:60]]
    odd = [
        record(b"a name server's answer", "dns:h.example"),
        record(message(linked(200)), "http://h.example:99999/"),
        record(message(linked(201)), "urn:h.example:1"),
        record(message(b"", "304 Not Modified"), "http://h1.example/1"),
        record(message(linked(202)), "http://h.example/202", extra="WARC-Payload-Digest: sha1:KNOWN\r\n"),
        record(b"", "http://h.example/203", "revisit", REVISIT),
        record(b"", "http://h.example/204", "revisit", REVISIT.replace("NOWHERE", "KNOWN")),
    ]
    return [
        packed(tmp_path / "odd.warc.gz", odd),
        str(tmp_path / "none.warc.gz"),
        packed(tmp_path / "sound.warc.gz", responses),
        packed(tmp_path / "damaged.warc.gz", damaged),
        str(SAMPLE),
        __file__,
    ]


def plain(report: IngestReport) -> dict[str, Any]:
    """A report without its time; errors by file and offset, because refused pages come with their group."""
    fields = report.asdict()
    del fields["seconds"]
    fields["errors"].sort(key=lambda error: (error["file"], error["offset"]))
    return fields


@pytest.fixture
def groups_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are not committed by time: on a slow machine the groups, and so the bases of deltas, would differ."""
    monkeypatch.setattr("docstore.writing.stream.GROUP_SECONDS", 1e9)


@pytest.mark.usefixtures("groups_do_not_wait")
def test_store_and_report_do_not_depend_on_the_reader(tmp_path: Path, archives: list[str]) -> None:
    outcomes = []
    for reader, threads in ((False, 1), (True, 1), (True, 8))[:: stride(2)]:
        options = IngestOptions(threads=threads, anchors=True, reader=reader)
        with docstore.open(tmp_path / f"{reader}{threads}", create=True) as store:
            report = ingest(store, archives, options)
            cells = list(store.cells.scan())
            assert list(check(store.backend)) == []
            again = ingest(store, archives, replace(options, reader=not reader))
            assert (again.stored, again.stored_bytes) == (0, 0)
        outcomes.append((plain(report), cells))
    report, cells = outcomes[0]
    assert report["pages"] > 300 and report["error_count"] >= 4 and report["skipped"]["revisit_unresolved"] == 1
    assert set(report["skipped"]) >= {"dns", "refused", "damaged", "unreadable_file"}
    assert any(cell.family == "anchor" for row in cells for cell in row.cells)
    for other in outcomes[1:]:
        assert other == (report, cells)


@pytest.mark.usefixtures("groups_do_not_wait")
def test_shared_samples_give_the_same_report_with_and_without_a_reader(tmp_path: Path) -> None:
    reports = []
    for reader in (False, True):
        with docstore.open(tmp_path / str(reader), create=True, durability="none") as store:
            reports.append(plain(ingest(store, samples()[1 :: stride(12)], IngestOptions(reader=reader))))
    assert reports[0] == reports[1]
    assert reports[0]["error_count"] > 100 // stride(20)


def test_dry_run_with_a_second_process_writes_nothing(store: DocumentStore) -> None:
    with store.dry_run() as trial:
        assert ingest(trial, [str(SAMPLE)], IngestOptions(reader=True)).pages == 192
    assert list(store.cells.scan()) == []


# --- when a process is started


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Process ids of the readers that a test starts."""
    process_ids: list[int] = []
    real = subprocess.Popen

    def recording(*words: Any, **options: Any) -> Any:
        process = real(*words, **options)
        process_ids.append(process.pid)
        return process

    monkeypatch.setattr(readahead.subprocess, "Popen", recording)
    return process_ids


@pytest.mark.parametrize(
    ("least_bytes", "cores", "threads", "expected"), [(1, 2, 2, 1), (1, 1, 2, 0), (1, 2, 1, 0), (1 << 30, 2, 2, 0)]
)
def test_second_process_is_started_only_for_large_files_and_several_cores(
    tmp_path: Path,
    started: list[int],
    monkeypatch: pytest.MonkeyPatch,
    least_bytes: int,
    cores: int,
    threads: int,
    expected: int,
) -> None:
    monkeypatch.setattr(ingesting, "READER_BYTES", least_bytes)
    monkeypatch.setattr(ingesting, "processors", lambda: cores)
    with docstore.open(tmp_path / "s", create=True) as store:
        assert ingest(store, [str(SAMPLE)], IngestOptions(threads=threads)).pages == 192
    assert len(started) == expected


def test_zero_threads_are_refused(store: DocumentStore) -> None:
    for reader in (False, True):
        with pytest.raises(InvalidArgument, match="threads must be at least 1, not 0"):
            ingest(store, [str(SAMPLE)], IngestOptions(threads=0, reader=reader))


def test_a_stream_is_read_in_this_process(tmp_path: Path, started: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingesting, "READER_BYTES", 1)
    with docstore.open(tmp_path / "s", create=True) as store:
        assert ingest(store, [io.BytesIO(SAMPLE.read_bytes())]).pages == 192
        with pytest.raises(InvalidArgument, match="--reader"):
            ingest(store, [io.BytesIO()], IngestOptions(reader=True))
    assert started == []


@pytest.mark.parametrize("program", ["/nowhere/python", "/bin/false", "/bin/cat"])
def test_if_no_process_starts_this_one_reads_and_warns_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, program: str
) -> None:
    if program.startswith("/bin") and not Path(program).exists():
        pytest.skip(f"no {program} here")
    monkeypatch.setattr(sys, "executable", program)
    readahead.warn_once.cache_clear()
    with docstore.open(tmp_path / "s", create=True) as store, caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert ingest(store, [str(SAMPLE)], IngestOptions(reader=True)).pages == 192
    said = [entry for entry in caplog.records if entry.name == readahead.__name__]
    assert len(said) == 1
    assert "reading in this one" in said[0].getMessage()


def test_script_without_a_main_guard_and_with_shadowed_modules_runs_once(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for name in ("docstore", "json", "pickle"):
        (work / f"{name}.py").write_text("raise SystemExit('misled')\n")
    script = tmp_path / "script" / "ingest_all.py"
    script.parent.mkdir()
    script.write_text(
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import docstore\n"
        "from docstore.archives.ingest import IngestOptions, ingest\n"
        "print('once')\n"
        f"with docstore.open({str(tmp_path / 's')!r}, create=True) as store:\n"
        f"    print(ingest(store, [{str(SAMPLE)!r}], IngestOptions(reader=True)).pages)\n"
    )
    plainly = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [sys.executable, str(script)], cwd=work, env=plainly, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == ("once\n192\n", "")


# --- what goes wrong


def test_killed_reader_is_an_error_with_file_and_offset_and_the_same_run_resumes(
    tmp_path: Path, started: list[int]
) -> None:
    path = packed(tmp_path / "many.warc.gz", [record(message(linked(n)), f"http://h.example/{n}") for n in range(1500)])
    seen: list[int] = []

    def kill(report: IngestReport) -> None:
        if not seen:
            os.kill(started[0], signal.SIGKILL)
        seen.append(report.pages)

    with docstore.open(tmp_path / "s", create=True) as store:
        with pytest.raises(StorageError, match=r"SIGKILL.*many\.warc\.gz at offset \d+.*--no-reader"):
            ingest(store, [path], IngestOptions(reader=True), kill)
        counted = seen[-1]
        assert list(check(store.backend)) == []
        again = ingest(store, [path])
        assert again.pages == 1500
        assert counted <= again.known < 1500
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


def test_an_exception_of_the_reader_is_raised_in_the_writer(tmp_path: Path, started: list[int]) -> None:
    with ReadingProcess(ReadingJob((str(SAMPLE),), ReadOptions(), Schema(extractor="nothing"), 1, False)) as reader:
        assert reader.has_loaded()
        with pytest.raises(InvalidArgument, match="nothing") as raised:
            list(reader.portions())
    assert "Traceback" in raised.value.__notes__[0]
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


class Unsendable(Exception):
    def __reduce__(self) -> str:
        raise TypeError("no")


class Unmakeable(Exception):
    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")


@pytest.mark.parametrize("error", [MemoryError("all gone"), Unsendable("all gone"), Unmakeable("memory", "all gone")])
def test_any_exception_can_be_sent(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> Iterator[Portion[Page]]:
        yield Portion([Page("http://a.example/", b"x", fetched_at=10**15)], [(0, 7)])
        raise error

    monkeypatch.setattr(readahead_child, "portions", failing)
    answers = io.BytesIO()
    readahead_child.serve(ReadingJob((), ReadOptions(), Schema(extractor="combined"), 2, False), answers)
    ready, failure = received(answers)
    assert isinstance(ready, Portion) and ready.places == [(0, 7)]
    assert isinstance(failure, BaseException) and "all gone" in str(failure)
    assert type(failure) is (MemoryError if isinstance(error, MemoryError) else RuntimeError)


def received(answers: io.BytesIO) -> list[readahead_child.Message]:
    receiver = readahead_child.Receiver(io.BufferedReader(io.BytesIO(answers.getvalue())))
    found = []
    while (message := receiver.take()) is not None:
        found.append(message)
    return found


# --- what travels


def test_bytes_in_flight_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    read_bytes = 0
    body = b"<p>" + b"word " * 20_000

    def many(*_: object, **__: object) -> Iterator[Portion[Page]]:
        nonlocal read_bytes
        for number in range(400):
            read_bytes += len(body)
            yield Portion([Page(f"http://a.example/{number}", body, fetched_at=10**15)], [(0, number)])

    class Answers(io.BytesIO):
        most_ahead_bytes = sent_bytes = 0

        def write(self, raw: Any, /) -> int:
            if len(raw) > len(body):
                self.most_ahead_bytes = max(self.most_ahead_bytes, read_bytes - self.sent_bytes)
                self.sent_bytes += len(body)
            return len(raw)

    monkeypatch.setattr(readahead_child, "portions", many)
    monkeypatch.setattr(readahead_child, "AHEAD_BYTES", 10 * len(body))
    answers = Answers()
    readahead_child.serve(ReadingJob((), ReadOptions(), Schema(extractor="combined"), 4, False), answers)
    assert answers.sent_bytes == 400 * len(body)
    assert answers.most_ahead_bytes <= 11 * len(body)  # one page more is read and waits


def test_a_page_longer_than_the_limit_passes() -> None:
    allowance = readahead_child.Allowance(10)
    passed = []

    def take_all() -> None:
        allowance.take(11)
        allowance.release(11)
        for count_bytes in (4, 6):
            allowance.take(count_bytes)
            passed.append(count_bytes)

    taker = threading.Thread(target=take_all, daemon=True)  # a blocked thread must not block the tests
    taker.start()
    taker.join(timeout=300)
    assert passed == [4, 6]


def test_a_portion_survives_encoding_and_decoding() -> None:
    source = random.Random(5)
    preparer = Preparer(Kernel("combined"), lambda: 10**15)
    pages = [
        Page(f"http://a.example/{n}", linked(n), fetched_at=10**15 + n * 1000, headers=(("A", "\udc80"), ("A", "é")))
        for n in range(20)
    ]
    pages += [
        Page("no url", b"x", fetched_at=10**15),
        Page("http://a.example/304", b"", 304, fetched_at=10**15, ip="::1"),
        Page("http://a.example/picture", source.randbytes(3000), fetched_at=10**15 + 5, payload_digest="d", docno="n"),
        Page("http://a.example/long", source.randbytes(LONG_BODY_BYTES), fetched_at=10**15 + 6),
        Page("http://a.example/longer", source.randbytes(LONG_BODY_BYTES + 1), fetched_at=10**15 + 7),
        Page("http://a.example/empty", b"", fetched_at=10**15),
    ]
    prepared = preparer.prepare(pages, anchors=True)
    places = [(number, number * 10) for number in range(len(pages))]
    portion = Portion(pages, places, errors=[((1, 2), "why", "")])
    portion.skipped["damaged"] += 1
    sent = io.BytesIO()
    readahead_child.write(sent, readahead_child.encode_portion(portion, prepared))
    (ready,) = received(sent)
    assert isinstance(ready, Portion)
    assert [len(received(io.BytesIO(sent.getvalue()[:-cut]))) for cut in (1, LONG_BODY_BYTES + 2)] == [0, 0]
    assert (ready.places, ready.skipped, ready.errors) == (places, portion.skipped, portion.errors)
    for item, other in zip(prepared, ready.pages, strict=True):
        assert isinstance(other, Prepared) and all(isinstance(anchor, Anchor) for anchor in other.anchors)
        assert other._replace(analysis=None) == item._replace(analysis=None)
        assert other.analysis.pack() == item.analysis.pack()
    assert any(item.anchors for item in ready.pages)
    assert readahead_child.decode(readahead_child.encode(END)) == END


def test_long_frames_are_read_and_truncated_frames_end_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readahead_child, "BUFFER_BYTES", 10)
    monkeypatch.setattr(readahead_child, "LARGEST_KEPT_BYTES", 200)
    answers = io.BytesIO()
    errors = [ValueError("x" * size) for size in (1, 500, 100, 300)]
    for error in errors:
        readahead_child.write(answers, readahead_child.encode(error))
    assert list(map(str, received(answers))) == list(map(str, errors))
    for cut in (1, 7, 100):
        assert len(received(io.BytesIO(answers.getvalue()[:-cut]))) == 3


def test_portions_have_all_records_in_order_within_the_limits(archives: list[str]) -> None:
    one_by_one = list(portions(archives, most_pages=1, most_bytes=1))
    many = list(portions(archives, most_pages=16, most_bytes=100_000))
    for name in ("pages", "places"):
        assert [x for portion in one_by_one for x in getattr(portion, name)] == [
            x for portion in many for x in getattr(portion, name)
        ]
    assert [e for portion in one_by_one for e in portion.errors] == [e for p in many for e in p.errors]
    assert max(len(portion.pages) for portion in many) == 16
    assert max(len(portion.pages) for portion in one_by_one) == 1
    assert all(sum(len(page.body) for page in portion.pages[:-1]) < 100_000 for portion in many)


def test_a_file_with_only_damage_takes_bounded_memory(tmp_path: Path) -> None:
    broken = record(message(linked(1))).replace(b"WARC-Date", b"WARC-Fate")
    found = list(portions([packed(tmp_path / "b.warc.gz", [broken] * (2 * MAX_REST + 5))], most_pages=16, most_bytes=1))
    assert [len(portion.errors) for portion in found] == [MAX_REST, MAX_REST, 5]
