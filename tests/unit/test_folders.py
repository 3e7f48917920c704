"""Ingest of folders: archives by content, and pages that wget or HTTrack saved."""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli_case import Terminal
from warc_records import message, numbered, record

import docstore
from docstore.archives.entries import DamagedEntry, PageEntry, ReadOptions, SkippedEntry
from docstore.archives.folder import media_type, saved_page, saved_url
from docstore.archives.ingest import IngestOptions, IngestReport, ingest
from docstore.model.errors import InvalidArgument

WARC = b"".join(numbered(2))
SAVED = 1_714_979_289_123_000
BASE = "https://example.com/"


@pytest.fixture
def run(run: Terminal) -> Terminal:
    assert run("init").code == 0
    return run


def single(url: str, date: str = "2024-05-06T07:08:09Z") -> bytes:
    return record(message(f"<p>at {url}".encode()), url).replace(b"2024-05-06T07:08:09.123456Z", date.encode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Archives of three formats, other files, hidden ones, a loop of links, and a damaged archive."""
    folder = tmp_path / "in"
    (folder / "b" / "deep").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / "b" / "warc").write_bytes(single("http://example.com/warc"))
    (folder / "a.txt.gz").write_bytes(gzip.compress(single("http://example.com/gz")))
    body = b"<p>by arc"
    arc = b"http://example.com/arc 192.0.2.1 20240506070809 text/html %d\n%s\n" % (len(body), body)
    (folder / "b" / "deep" / "x.arc").write_bytes(arc)
    wacz = io.BytesIO()
    with zipfile.ZipFile(wacz, "w") as opened:
        opened.writestr("archive/data.warc", single("http://example.com/wacz"))
        opened.writestr("datapackage.json", "{}")
    (folder / "c.wacz").write_bytes(wacz.getvalue())
    (folder / "cut.wacz").write_bytes(wacz.getvalue()[:-40])
    (folder / "notes.txt").write_text("no archive")
    (folder / "empty").write_bytes(b"")
    with zipfile.ZipFile(folder / "other.zip", "w") as opened:
        opened.writestr("readme", "x")
    (folder / ".hidden" / "x.warc").write_bytes(single("http://example.com/hidden"))
    (folder / ".x.warc").write_bytes(single("http://example.com/hidden"))
    (folder / "b" / "loop").symlink_to(folder)
    (folder / "broken-link").symlink_to(folder / "nothing")
    (folder / os.fsdecode(b"\xff\xfe.warc")).write_bytes(single("http://example.com/odd-name"))
    os.mkfifo(folder / "pipe")
    return folder


def urls(path: Path) -> list[str]:
    with docstore.open(path) as store:
        return [row.url for row in store.cells.scan(spec=docstore.ReadSpec(keys_only=True, cell_limit=1))]


def test_all_archives_of_a_folder_are_read_by_content(run: Terminal, folder: Path) -> None:
    answer = run("ingest", str(folder), "--json")
    assert answer.code == 8
    report = answer.object()
    assert urls(run.store) == [f"http://example.com/{name}" for name in ("arc", "gz", "odd-name", "wacz", "warc")]
    assert (report["pages"], report["files"]) == (5, 6)
    (error,) = report["errors"]
    assert error["file"] == str(folder / "cut.wacz") and "cut" in error["reason"]
    passed = {Path(one["file"]).name: one["reason"] for one in report["passed_over"]}
    assert passed.keys() == {"notes.txt", "empty", "other.zip"} and report["passed_over_count"] == 3
    assert "datapackage.json" in passed["other.zip"]
    assert report["done_bytes"] == report["file_bytes"] > 0


def test_files_that_are_no_archives_are_named(run: Terminal, folder: Path) -> None:
    answer = run("ingest", str(folder))
    expected = ", ".join(str(folder / name) for name in ("empty", "notes.txt", "other.zip"))
    assert f"docstore: passed over 3 files that are no archives: {expected}" in answer.err


def test_saved_pages_that_are_given_as_archives_are_no_success(run: Terminal, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / "page.html").write_text("<p>hello")
    answer = run("ingest", str(folder))
    assert answer.code == 1 and "--mirror DIR --base URL" in answer.err
    answer = run("ingest", str(folder / "page.html"))
    assert answer.code == 8 and "`docstore put URL FILE`" in answer.err


def test_what_an_archive_by_its_name_has_instead_is_an_error_that_says_so(run: Terminal, tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    folder.mkdir()
    (folder / "a.warc.lz4").write_bytes(b"\x04\x22\x4d\x18 and more")
    (folder / "b.WARC.gz").touch()
    answer = run("ingest", str(folder))
    assert answer.code == 8 and "passed over" not in answer.err and "verdict" not in answer.out
    assert "a.warc.lz4 at offset 0: lz4 compression is not supported" in answer.err
    assert "b.WARC.gz at offset 0: the file is empty" in answer.err


@pytest.mark.parametrize(
    ("head", "advice"),
    [
        (b'{"Url": "https://a.example/"}', 'the first line needs a field "url" or "id"'),
        (b'\xef\xbb\xbf {"text": "x"}', 'the first line needs a field "url" or "id"'),
        (b'{"options": {"prefix": null}}', "name the manifest of an export in shards after --files-from"),
    ],
)
def test_objects_that_are_no_pages_are_told_what_is_missing(
    run: Terminal, tmp_path: Path, head: bytes, advice: str
) -> None:
    file = tmp_path / "pages.jsonl"
    file.write_bytes(head + b"\n")
    answer = run("ingest", str(file))
    assert answer.code == 8 and advice in answer.err


def test_the_working_directory_is_a_folder_and_its_store_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.warc").write_bytes(WARC)
    terminal = Terminal(Path("webtable"), capsys)
    report = terminal("ingest", ".", "--create", "--json").object()
    assert (report["pages"], report["passed_over"]) == (2, [])
    assert terminal("ingest", ".", "--json").object()["known"] == 2
    refused = terminal("ingest", "webtable")
    assert refused.code == 2 and "is a store" in refused.err


def test_files_are_read_in_sorted_order_and_a_bad_one_stops_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "2").mkdir(parents=True)
    names = ["1.warc", "3.warc", "9.warc", "2/0.warc"]  # the files of a folder before its folders
    for name in reversed(names):
        (folder / name).write_bytes(single(f"http://example.com/{name}") + b"WARC/1.0\r\ncut")
    with docstore.open(tmp_path / "store", create=True) as store:
        report = ingest(store, [str(folder)])
    assert [error.file for error in report.errors] == [str(folder / name) for name in names]
    assert report.stored == 4


def test_progress_counts_the_bytes_of_all_files(run: Terminal, folder: Path) -> None:
    answer = run("ingest", str(folder), "--progress")
    assert "100%|" in answer.err and "00:00<" in answer.err


def test_an_empty_folder_is_no_error(run: Terminal, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    answer = run("ingest", str(tmp_path / "nothing"), "--json")
    assert (answer.code, answer.object()["pages"]) == (0, 0)


def test_a_folder_is_read_by_a_second_process_as_by_this_one(tmp_path: Path, folder: Path) -> None:
    reports = []
    for reader in (False, True):
        with docstore.open(tmp_path / f"store{reader}", create=True) as store:
            report = ingest(store, [str(folder)], IngestOptions(reader=reader))
            report.seconds = report.stored_bytes = 0
            reports.append(report)
    assert reports[0] == reports[1]


# --- saved pages


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("index.html", BASE),
        ("a/index.html", BASE + "a/"),
        ("a/INDEX.HTM", BASE + "a/"),
        ("a/page.html", BASE + "a/page.html"),
        ("a/page.php?id=3&x=y", BASE + "a/page.php?id=3&x=y"),
        ("a/page.php?id=3.html", BASE + "a/page.php?id=3"),
        ("index.html?q=1", BASE + "?q=1"),
        ("a/page.php.html", BASE + "a/page.php"),
        ("a/v1.2.html", BASE + "a/v1.2.html"),
        ("a b.html", BASE + "a%20b.html"),
        ("a%20b.html", BASE + "a%20b.html"),
        ("100%.html", BASE + "100%25.html"),
        ("a#b", BASE + "a%23b"),
        ("caf\u00e9.html", BASE + "caf%C3%A9.html"),
        ("caf\udce9.html", BASE + "caf%E9.html"),
        ("f?a=b%2Fc", BASE + "f?a=b%2Fc"),
        # wget --restrict-file-names=windows, which its manual describes
        ("watch@v=abc", BASE + "watch?v=abc"),
        ("x.php@id=4.html", BASE + "x.php?id=4"),
        ("index.html@id=2", BASE + "?id=2"),
        ("a%3Ab.html", BASE + "a:b.html"),
        ("mail@example.html", BASE + "mail@example.html"),
        ("@user/v=1", BASE + "@user/v=1"),
    ],
)
def test_the_url_of_a_file_is_its_place_below_the_base(name: str, url: str) -> None:
    assert saved_url(os.fsencode(name), BASE) == url


def test_names_of_wget_for_windows_have_a_port_after_plus_and_a_query_after_any_at_sign() -> None:
    assert saved_url(b"w.example+8080/p.html", "https://") == "https://w.example:8080/p.html"
    assert saved_url(b"w.example/a+1/p.html", "https://") == "https://w.example/a+1/p.html"
    assert saved_url(b"a/find@ponies", BASE, windows=True) == BASE + "a/find?ponies"
    assert saved_url(b"a@b/find.html", BASE, windows=True) == BASE + "a@b/find.html"


@pytest.mark.parametrize(
    ("name", "head", "kind"),
    [
        ("x", b"<!doctype html><p>", "text/html"),
        ("x.txt", b"\n <!-- saved --> <HTML lang=en>", "text/html"),
        ("x.html", b"some words", "text/html"),
        ("page.php?id=3", b"<?xml version='1.0'?><html>", "text/html"),
        ("x.html", b"%PDF-1.4", "application/pdf"),
        ("x.css?v=3", b"body {}", "text/css"),
        ("x.txt", b"text", "text/plain"),
        ("x.tar.gz", b"\x1f\x8b", "application/octet-stream"),
        ("x", b"\0\1", ""),
    ],
)
def test_the_media_type_comes_from_content_and_then_from_the_name(name: str, head: bytes, kind: str) -> None:
    assert media_type(name.encode(), head) == kind


def save(folder: Path, name: str, content: bytes, micros: int = SAVED) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, ns=(micros * 1000, micros * 1000))
    return path


def test_a_mirror_of_wget_is_ingested_with_file_times(run: Terminal, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    save(mirror, "index.html", b"<html><title>Home</title><p>Some words of the home page")
    save(mirror, "a/page.php?id=3.html", b"<html><p>Some words of page 3", SAVED + 5_000_000)
    save(mirror, "style.css", b"p { color: red }")
    save(mirror, "robots.txt.tmp", b"")
    answer = run("ingest", "--mirror", str(mirror), "--base", "https://example.com", "--json")
    assert answer.code == 0
    report = answer.object()
    assert (report["pages"], report["skipped"]) == (3, {"empty file": 1})
    with docstore.open(run.store) as store:
        home = store.get(BASE)
        assert home is not None and (home.title, home.timestamp) == ("Home", SAVED)
        assert home.newest.headers == (("Content-Type", "text/html"),)
        third = store.get(BASE + "a/page.php?id=3")
        assert third is not None and third.timestamp == SAVED + 5_000_000
    assert run("ingest", "--mirror", str(mirror), "--base", BASE, "--json").object()["known"] == 3


HTTRACK = b"""<!DOCTYPE html><html>
<!-- Mirrored from %s by HTTrack Website Copier/3.x [XR&CO'2014], Fri, 05 May 2017 12:34:56 GMT -->
<head><title>Saved</title></head><body>Words of the page</body></html>"""


def test_httrack_says_where_and_when_a_page_was_fetched_on_its_own_host(run: Terminal, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    save(mirror, "example.com/page3a7b.html", HTTRACK % b"example.com/page.php?id=3")
    save(mirror, "example.com/forged.html", HTTRACK % b"bank.example/login")
    save(mirror, "other.example/index.html", b"<html><p>Words of the other host")
    save(mirror, "index.html", b"<html>made by HTTrack")
    save(mirror, "hts-cache/doit.log", b"log")
    save(mirror, "hts-log.txt", b"log")
    report = run("ingest", "--mirror", str(mirror), "--base", "https://", "--json").object()
    assert report["skipped"] == {"file of HTTrack": 2, "not in a folder of a host": 1}
    with docstore.open(run.store) as store:
        page = store.get("https://example.com/page.php?id=3")
        assert page is not None
        assert page.timestamp == datetime(2017, 5, 5, 12, 34, 56, tzinfo=UTC).timestamp() * 1_000_000
        assert store.get("https://bank.example/login") is None
        forged = store.get("https://example.com/forged.html")
        assert forged is not None and forged.timestamp == SAVED
        assert store.get("https://other.example/") is not None


def test_hostile_names_and_comments_stop_nothing(run: Terminal, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    for host in ("[x", "x]:99999999", "a b", "%00", "\x07", "\udcff", "user:pass@host.example", "example.com"):
        save(mirror, f"{host}/index.html", b"<html><p>Words of " + os.fsencode(host))
    forged = HTTRACK.replace(b"05 May 2017 12:34:56", b"99 Xyz 2017 99:99:99")
    save(mirror, "example.com/b.html", forged % b"example.com/other")
    report = run("ingest", "--mirror", str(mirror), "--base", "https://", "--json").object()
    assert sum(report["skipped"].values()) + report["pages"] == 9
    assert {"https://example.com/", "https://example.com/b.html"} <= set(urls(run.store))


def test_the_original_of_a_file_that_wget_changed_is_read(run: Terminal, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    save(mirror, "a.html", b"<html><a href='local.html'>")
    save(mirror, "a.html.orig", b"<html><a href='https://example.com/local'>")
    save(mirror, "b.html", b"<html>the ending was added by wget")
    save(mirror, "b.orig", b"<html>the ending was added")
    save(mirror, "c.orig", b"<html>no file of wget")
    assert run("ingest", "--mirror", str(mirror), "--base", BASE).code == 0
    assert urls(run.store) == [BASE + "a.html", BASE + "b", BASE + "c.orig"]
    assert b"example.com/local" in run("get", BASE + "a.html", "--body").out.encode()


def test_links_out_of_a_mirror_are_not_followed(run: Terminal, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    (tmp_path / "secret").mkdir()
    secret = save(tmp_path / "secret", "password", b"secret")
    save(mirror, "index.html", b"<html><p>words")
    (mirror / "stolen").symlink_to(secret)
    (mirror / "folder").symlink_to(tmp_path / "secret")
    report = run("ingest", "--mirror", str(mirror), "--base", BASE, "--json").object()
    assert (report["pages"], report["skipped"]) == (1, {"link out of the folder": 2})


def test_a_file_above_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.html"
    with path.open("wb") as stream:
        stream.truncate(3 << 30)  # a hole: it takes no space
    (found,) = saved_page(str(path), ReadOptions(mirror=(str(tmp_path), BASE)))
    assert isinstance(found, DamagedEntry) and "3221225472 bytes, more than the limit" in found.reason
    save(tmp_path, "small", b"12345")
    for limit, kind in ((4, DamagedEntry), (5, PageEntry)):
        (found,) = saved_page(str(tmp_path / "small"), ReadOptions(limit, mirror=(str(tmp_path), BASE)))
        assert type(found) is kind
    (found,) = saved_page(str(save(tmp_path, "none", b"")), ReadOptions(mirror=(str(tmp_path), BASE)))
    assert isinstance(found, SkippedEntry)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--base", BASE),
        ("--mirror", "."),
        ("--mirror", ".", "--base", "example.com"),
        ("--mirror", ".", "--base", "file:///etc/"),
        ("--mirror", ".", "--base", BASE + "?a=b"),
        ("--mirror", "nowhere", "--base", BASE),
        ("x.warc", "--mirror", ".", "--base", BASE),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(run: Terminal, words: tuple[str, ...]) -> None:
    assert run("ingest", *words).code == 2


def test_a_base_without_a_folder_is_refused_by_the_interface(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "store", create=True) as store, pytest.raises(InvalidArgument, match="one folder"):
        ingest(store, ["a", "b"], IngestOptions(base=BASE))


def test_the_report_is_plain_data(tmp_path: Path) -> None:
    assert json.loads(json.dumps(IngestReport().asdict()))["passed_over"] == []


def test_folders_nested_deeper_than_the_stack_are_walked(
    run: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(1100):
        Path("d").mkdir()
        os.chdir("d")
    Path("x.warc").write_bytes(WARC)
    os.chdir(tmp_path)
    report = run("ingest", "d", "--json").object()
    for _ in range(1100):
        os.chdir("d")
    Path("x.warc").unlink()
    for _ in range(1100):  # pytest removes folders by recursion
        os.chdir("..")
        Path("d").rmdir()
    assert report["pages"] == 2


def test_rejected_pages_are_not_listed_into_what_is_read(run: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "in" / "a.warc"
    file.parent.mkdir()
    file.write_bytes(WARC)
    for source, target in ((file, file), (file.parent, file), (file.parent, file.parent / "rejected.jsonl")):
        answer = run("ingest", str(source), "--rejected", str(target))
        assert answer.code == 2 and "name another file" in answer.err
    assert file.read_bytes() == WARC and sorted(file.parent.iterdir()) == [file]


def test_hidden_files_and_long_names_of_a_mirror_are_pages(run: Terminal, tmp_path: Path) -> None:
    for name in (".well-known/security.html", f"{'n' * 245}.html"):
        path = tmp_path / "mirror" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"<p>saved")
    report = run("ingest", "--mirror", str(tmp_path / "mirror"), "--base", BASE, "--json").object()
    assert (report["pages"], report["error_count"], report["skipped"]) == (2, 0, {})
    missing = run("ingest", "--mirror", str(tmp_path / "none"), "--base", BASE)
    assert missing.code == 2 and "no folder" in missing.err
