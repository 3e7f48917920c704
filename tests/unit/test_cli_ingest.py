from __future__ import annotations

import io
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cli_case import Terminal, article, html, warc
from warc_records import message, record

from docstore.archives.ingest import IngestReport

KEYS = {
    "pages",
    "stored",
    "verdicts",
    "previous",
    "skipped",
    "errors",
    "body_bytes",
    "stored_bytes",
    "seconds",
}


@pytest.fixture
def run(run: Terminal) -> Terminal:
    assert run("init").code == 0
    return run


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    words = article(1)
    near = [*words[:-2], "two", "others"]
    pages = [
        ("https://a.example/", "2024-05-01T00:00:00Z", html("One", words)),
        ("https://b.example/", "2024-05-01T00:00:01Z", html("One", words)),
        ("https://c.example/", "2024-05-01T00:00:02Z", html("One", near)),
        ("https://d.example/", "2024-05-01T00:00:03Z", html("Two", article(2))),
        ("https://a.example/", "2024-05-02T00:00:00Z", html("One", words)),
    ]
    return warc(tmp_path / "crawl.warc.gz", pages)


def test_ingest_json_is_one_object_of_the_promised_shape(run: Terminal, crawl: Path) -> None:
    answer = run("ingest", str(crawl), "--json")
    assert (answer.code, answer.err) == (0, "")
    report = answer.object()
    assert report.keys() >= KEYS
    assert report["pages"] == 5
    assert report["verdicts"] == {"new": 2, "exact": 2, "same_text": 0, "near": 1, "contained": 0, "similar": 0}
    assert report["previous"] == {"none": 4, "same_bytes": 1, "same_text": 0, "changed": 0}
    assert report["errors"] == []
    assert report["body_bytes"] > 4000


def test_ingest_twice_writes_nothing_twice(run: Terminal, crawl: Path) -> None:
    run("ingest", str(crawl))
    again = run("ingest", str(crawl), "--json").object()
    assert (again["pages"], again["stored"], again["known"], again["stored_bytes"]) == (5, 0, 5, 0)


def test_what_was_known_before_is_no_part_of_what_is_stored(run: Terminal, crawl: Path, tmp_path: Path) -> None:
    one = warc(tmp_path / "one.warc", [("https://a.example/", "2024-05-01T00:00:00Z", html("One", article(1)))])
    run("ingest", str(one))
    report = run("ingest", str(crawl), "--policy", "exact=reject-any", "--json").object()
    assert (report["known"], report["stored"], report["rejected"]) == (1, 3, 1)
    assert 0 < report["stored_body_bytes"] < report["body_bytes"]
    again = run("ingest", str(crawl), "--policy", "exact=reject-any")
    assert "nothing: all 5 were known (1 of them rejected)" in again.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--base", "https://a.example/", "a.jsonl"), "--base goes with --mirror"),
        (("--mirror", ".", "--base", "site.example"), "must begin with http:// or https://"),
        ((), "name archives"),
    ],
)
def test_each_wrong_use_of_a_base_has_its_own_message(run: Terminal, words: tuple[str, ...], says: str) -> None:
    answer = run("ingest", *words)
    assert answer.code == 2 and says in answer.err


def test_ingest_prints_a_summary_for_people(run: Terminal, crawl: Path) -> None:
    answer = run("ingest", str(crawl))
    assert answer.err == ""
    lines = {" ".join(line.split()[:2]): line for line in answer.out.splitlines()}
    assert lines["verdict near"].split()[2] == "1"
    assert "pages/s" in answer.out
    assert "\x1b" not in answer.out


def test_progress_goes_to_stderr_only_with_the_option(run: Terminal, crawl: Path) -> None:
    answer = run("ingest", str(crawl), "--progress", "--json")
    assert answer.object()["pages"] == 5
    assert "pages" in answer.err
    assert "MB/s, exact 2 near 1 new 2" in answer.err
    assert "100%|" in answer.err and "5 pages, " in answer.err


def test_progress_of_a_stream_has_no_total(run: Terminal, crawl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(crawl.read_bytes())))
    answer = run("ingest", "-", "--progress", "--json")
    assert "%|" not in answer.err and "5 pages [" in answer.err
    assert (answer.object()["file_bytes"], answer.object()["done_bytes"]) == (0, 0)


def test_the_message_of_an_interrupted_run_is_on_a_separate_line(
    run: Terminal, crawl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*words: object) -> object:
        show = words[3]
        assert callable(show)
        show(IngestReport(pages=3, file_bytes=100, done_bytes=50))
        raise KeyboardInterrupt

    monkeypatch.setattr("docstore.cli.archives.ingest", interrupted)
    answer = run("ingest", str(crawl), "--progress")
    assert answer.code == 130
    assert " 50%|" in answer.err and "3 pages" in answer.err
    lines = answer.err.replace("\r", "\n").splitlines()
    assert any(line.startswith("docstore: every counted page is stored") for line in lines)
    assert answer.err.count("\ndocstore: ") == 2


def test_short_bodies_are_not_reported_as_0_bytes(run: Terminal, tmp_path: Path) -> None:
    pages = [(f"https://a.example/{n}", "2024-05-01T00:00:00Z", b"<p>%d" % n) for n in range(3)]
    answer = run("ingest", str(warc(tmp_path / "short.warc.gz", pages)))
    (line,) = [line for line in answer.out.splitlines() if line.startswith("stored")]
    assert " 0 B" not in line and "3  12 B (kept in rows and shared records)" in line


def test_a_visit_of_an_unknown_page_is_counted_as_such(run: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "visit.warc"
    path.write_bytes(record(message(b"", "304 Not Modified"), "https://a.example/"))
    report = run("ingest", str(path), "--json").object()
    assert (report["pages"], report["stored"], report["skipped"]) == (1, 0, {"visit_of_unknown": 1})


def test_a_dry_run_gives_every_verdict_and_writes_nothing(run: Terminal, crawl: Path) -> None:
    report = run("ingest", str(crawl), "--dry-run", "--json").object()
    assert report["verdicts"] == {"new": 2, "exact": 2, "same_text": 0, "near": 1, "contained": 0, "similar": 0}
    assert run("scan").code == 1
    assert "dry run" in run("ingest", str(crawl), "--dry-run").out


def test_a_dry_run_creates_no_store(run: Terminal, crawl: Path, tmp_path: Path) -> None:
    folder = tmp_path / "none"
    report = run("ingest", str(crawl), "--dry-run", "--create", "--store", str(folder), "--json").object()
    assert report["pages"] == 5 and not folder.exists()
    folder.mkdir()
    assert run("ingest", str(crawl), "--dry-run", "--create", "--store", str(folder)).code == 0
    assert list(folder.iterdir()) == []


def test_reject_applies_only_to_exact_and_is_listed(run: Terminal, crawl: Path, tmp_path: Path) -> None:
    rejects = tmp_path / "rejects.jsonl"
    report = run("ingest", str(crawl), "--policy", "exact=reject-any", "--rejected", str(rejects), "--json").object()
    rows = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert [row["url"] for row in rows] == ["https://b.example/"]
    assert rows[0]["verdict"]["of_url"] == "https://a.example/"
    assert report["rejected"] == 1
    assert run("get", "https://c.example/").code == 0
    assert run("get", "https://b.example/").code == 1


class Cut(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        taken = super().read(size)
        if not taken:
            raise KeyboardInterrupt
        return taken


def test_the_list_of_rejected_pages_is_complete_after_an_interrupted_run(
    run: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [(f"https://{n}.example/", f"2024-05-01T00:00:{n:02}Z", html("One", article(1))) for n in range(30)]
    crawl, rejects = warc(tmp_path / "copies.warc.gz", pages), tmp_path / "rejects.jsonl"
    words = ("ingest", "--policy", "exact=reject-any", "--rejected", str(rejects), "--json")
    rejects.write_text("of an earlier run")

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Cut(crawl.read_bytes())))
    assert run(*words, "-").code == 130
    assert rejects.read_text() == "of an earlier run"
    assert run("ingest", "--policy", "exact=reject-any", str(warc(tmp_path / "half.warc.gz", pages[:15]))).code == 0
    reports, lists = [], []
    for _ in range(2):
        reports.append(run(*words, str(crawl)).object())
        lists.append([json.loads(line) for line in rejects.read_text().splitlines()])
    assert reports[0]["rejected"] < 29 and reports[1]["rejected"] == 0
    assert [row["url"] for row in lists[0]] == [url for url, _, _ in pages[1:]]
    assert {row["stored"] for row in lists[0]} == {"rejected"}
    assert lists[1] == lists[0]
    assert sorted(path.name for path in tmp_path.glob("rejects*")) == ["rejects.jsonl"]


def test_rejected_pages_can_be_listed_to_a_pipe(run: Terminal, crawl: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        assert run("ingest", str(crawl), "--policy", "exact=reject-any", "--rejected", str(pipe)).code == 0
        assert json.loads(read.result())["url"] == "https://b.example/"


def test_policies_of_several_verdicts_are_applied(run: Terminal, crawl: Path) -> None:
    run("ingest", str(crawl), "--policy", "exact=reject-any", "--policy", "near=reject-any")
    assert run("get", "https://c.example/").code == 1


def test_reference_gives_every_page_its_own_bytes(run: Terminal, crawl: Path) -> None:
    run("ingest", str(crawl), "--policy", "exact=reference", "--policy", "near=reference")
    fields = run("get", "https://c.example/", "--json", "--body").object()
    assert fields["body"].encode() == html("One", [*article(1)[:-2], "two", "others"])
    assert fields["stored"] == "reference"


def test_damage_is_reported_and_gives_exit_code_8(run: Terminal, crawl: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.warc.gz"
    content = crawl.read_bytes()
    broken.write_bytes(content[: len(content) - 40])
    answer = run("ingest", str(broken))
    assert answer.code == 8
    assert f"{broken} at offset " in answer.err and answer.err.endswith("(https://a.example/)\n")
    report = run("ingest", str(broken), "--json")
    assert report.code == 8
    (error,) = report.object()["errors"]
    assert error.keys() == {"file", "offset", "reason", "url"}
    assert error["offset"] > 0


@pytest.mark.parametrize("reader", ["--reader", "--no-reader"])
def test_a_body_above_the_limit_is_reported_and_skipped(run: Terminal, crawl: Path, reader: str) -> None:
    longest = len(html("Two", article(2)))
    longer = len([body for body in (html("One", article(1)), html("Two", article(2))) if len(body) > longest - 1])
    report = run("ingest", str(crawl), "--max-body-bytes", str(longest - 1), reader, "--json")
    assert report.code == 8
    assert (report.object()["error_count"] >= longer) and report.object()["pages"] < 5
    assert f"more than the limit of {longest - 1}" in report.object()["errors"][-1]["reason"]
    answer = run("ingest", str(crawl), "--max-body-bytes", str(longest - 1), reader)
    assert f"more than the limit of {longest - 1} (--max-body-bytes)" in answer.err
    assert run("ingest", str(crawl), "--max-body-bytes", "0").code == 2


@pytest.mark.parametrize("reader", ["--reader", "--no-reader"])
def test_passwords_in_urls_are_reported_and_stripped_with_an_option(run: Terminal, tmp_path: Path, reader: str) -> None:
    secret = "https://me:secret@a.example/"
    path = tmp_path / "secret.warc"
    date = "WARC-Refers-To-Target-URI: {}\r\nWARC-Refers-To-Date: 2024-05-06T07:08:09.123Z\r\n"
    later = record(b"", "https://me:secret@b.example/", "revisit", date.format(secret))
    path.write_bytes(record(message(), secret) + later + record(message(), "https://user@c.example/p:q@r"))
    with_them = run("ingest", str(path), reader)
    assert with_them.code == 0 and "URLs of 2 records contain a user and a password" in with_them.err
    assert "secret" in run("scan").out
    other = ("--store", str(tmp_path / "other"))
    report = run.bare("ingest", str(path), reader, "--strip-passwords", "--create", "--json", *other)
    assert (report.code, report.err) == (0, "")
    assert (report.object()["pages"], report.object()["passwords"]) == (3, 2)
    assert "secret" not in run.bare("scan", "--json", *other).out
    assert run.bare("get", "https://b.example/", *other).code == 0
    assert run.bare("get", "https://user@c.example/p:q@r", *other).code == 0


def test_a_missing_file_is_refused_before_anything_is_written(run: Terminal, crawl: Path) -> None:
    answer = run("ingest", str(crawl), "nowhere.warc")
    assert answer.code == 2
    assert "nowhere.warc" in answer.err
    assert run("scan").code == 1


def test_an_interrupted_run_leaves_a_consistent_store_that_the_same_run_completes(
    run: Terminal, crawl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Cut(crawl.read_bytes())))
    answer = run("ingest", "-", "--json")
    assert (answer.code, answer.out) == (130, "")
    assert "run the same command again to continue" in answer.err
    assert run("check").code == 0
    report = run("ingest", str(crawl), "--json").object()
    assert report["stored"] + report["known"] == 5


def test_revisits_that_cannot_be_resolved_give_exit_code_8_and_advice(run: Terminal, tmp_path: Path) -> None:
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    head = (
        "WARC/1.1\r\nWARC-Type: revisit\r\nWARC-Target-URI: https://a.example/\r\nWARC-Date: 2024-05-02T00:00:00Z\r\n"
        "WARC-Record-ID: <urn:uuid:1>\r\nWARC-Refers-To-Target-URI: https://gone.example/\r\n"
        "WARC-Refers-To-Date: 2024-05-01T00:00:00Z\r\n"
        "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n"
        f"Content-Type: application/http;msgtype=response\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    path = tmp_path / "revisit.warc"
    path.write_bytes(head.encode() + block + b"\r\n\r\n")
    answer = run("ingest", str(path))
    assert answer.code == 8
    assert "1 revisit without an original in the store" in answer.err
    assert f"{path} at offset 0: revisit of https://gone.example/, which neither" in answer.err
    assert run("ingest", str(path), "--json").object()["skipped"] == {"revisit_unresolved": 1}
