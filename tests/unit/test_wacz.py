"""WACZ in and out, and CDXJ: what other tools find in an export, and what hostile zip files do to a read."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import struct
import tracemalloc
import zipfile
import zlib
from argparse import Namespace
from pathlib import Path

import pytest
from cli_case import Terminal, article, html
from warc_records import message, numbered, record, urls
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker

import docstore
from docstore.archives import wacz
from docstore.archives.entries import DamagedEntry, Entry, PageEntry, ReadOptions, RevisitEntry
from docstore.archives.export import ExportPage
from docstore.archives.reader import read
from docstore.archives.wacz import CdxjIndex, surt

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "sample-crawl.warc.gz"
MAY = 1_714_521_600_000_000
WARC = b"".join(map(gzip.compress, numbered(3)))
URLS = [f"http://example.com/{number}" for number in range(3)]


def packed(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED, package: bool = True) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
        if package:
            opened.writestr("datapackage.json", b"{}")
    return stream.getvalue()


def run(raw: bytes, options: ReadOptions = ReadOptions()) -> list[Entry]:
    return list(read(io.BytesIO(raw), options))


def reasons(entries: list[Entry]) -> list[str]:
    return [entry.reason for entry in entries if isinstance(entry, DamagedEntry)]


# --- in


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("content", [WARC, b"".join(numbered(3))], ids=["gzip", "plain"])
def test_the_records_of_all_files_in_archive_are_read(compression: int, content: bytes) -> None:
    members = {"pages/pages.jsonl": b"{}", "archive/a.warc.gz": content, "archive/b.warc.gz": WARC, "x.warc.gz": WARC}
    found = run(packed(members, compression))
    assert urls(found) == URLS * 2
    assert reasons(found) == []
    offsets = [entry.offset for entry in found]
    assert offsets == sorted(offsets)


def test_offsets_are_those_of_the_zip_file() -> None:
    raw = packed({"archive/a.warc.gz": WARC})
    for entry in run(raw):
        assert raw[entry.offset : entry.offset + 3] == b"\x1f\x8b\x08"


def test_a_zip_file_cut_anywhere_is_damage_and_never_an_exception() -> None:
    raw = packed({"archive/a.warc.gz": WARC})
    for length in range(4, len(raw)):
        found = run(raw[:length])
        assert reasons(found) and "get the whole file again" in reasons(found)[0], length


def test_flipped_bytes_raise_nothing() -> None:
    raw = packed({"archive/a.warc.gz": WARC, "archive/b.warc": b"".join(numbered(3))})
    for position in range(0, len(raw), 3):
        for bit in (0, 7):
            broken = bytearray(raw)
            broken[position] ^= 1 << bit
            run(bytes(broken))


def test_a_member_that_would_begin_after_the_file_is_one_error_at_its_head() -> None:
    raw = bytearray(packed({"archive/a.warc.gz": WARC}))
    raw[28:30] = b"\xff\xff"  # length of the extra field in the head of the member
    (entry,) = run(bytes(raw))
    assert isinstance(entry, DamagedEntry) and entry.offset == 0
    assert "bytes after the end of the zip file (in 'archive/a.warc.gz')" in entry.reason


def test_a_member_at_a_place_after_the_file_is_one_error_at_its_end() -> None:
    raw = bytearray(packed({"archive/a.warc.gz": WARC}))
    at = raw.index(b"PK\x01\x02") + 42  # of the offset in the list of members
    raw[at : at + 4] = b"\0\0\1\0"
    (entry,) = run(bytes(raw))
    assert isinstance(entry, DamagedEntry) and entry.offset == len(raw)


def test_a_damaged_record_is_one_error_with_the_name_of_its_file() -> None:
    raw = bytearray(packed({"archive/a.warc.gz": WARC}))
    raw[raw.index(b"\x1f\x8b\x08") + 60] ^= 255
    found = run(bytes(raw))
    assert urls(found) == URLS[1:]
    (reason,) = reasons(found)
    assert reason.endswith("(in 'archive/a.warc.gz')")


def test_a_wrong_checksum_of_a_plain_file_is_reported() -> None:
    raw = packed({"archive/a.warc": b"".join(numbered(3))})
    found = run(raw.replace(b"with some words 2", b"with same words 2"))
    assert urls(found) == URLS
    assert reasons(found) == ["the content has another CRC-32 than the zip file says (in 'archive/a.warc')"]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (packed({"archive/a.warc": b"x"}, package=False), "a zip file without datapackage.json"),
        (packed({"pages/pages.jsonl": b"x"}), "a WACZ file without records"),
        (packed({"a.wacz": packed({"archive/a.warc.gz": WARC})}, zipfile.ZIP_DEFLATED), "unzip the outer file first"),
        (packed({"archive/a.txt": b"some text"}), "not a WARC or ARC or TREC Web or JSON Lines"),
        (packed({"archive/a.warc": b"x" * 100}, zipfile.ZIP_BZIP2), "zip compression 12 is not supported"),
        (packed({"archive/a.warc": b"x" * 100}, zipfile.ZIP_LZMA), "zip compression 14 is not supported"),
    ],
)
def test_other_content_is_refused_with_its_reason(raw: bytes, reason: str) -> None:
    (found,) = run(raw)
    assert isinstance(found, DamagedEntry) and reason in found.reason


@pytest.mark.parametrize("package", [False, True])
def test_a_collection_of_wacz_files_is_read(package: bool) -> None:
    """The profile `multi-wacz-package` (webrecorder/wabac.js#115, webrecorder/browsertrix#1289)."""
    inner = packed({"archive/a.warc.gz": WARC})
    other = packed({"archive/b.warc": record(message(), "http://other.example/")})
    raw = packed({"crawl-0.wacz": inner, "crawl-1.wacz": other}, package=package)
    found = run(raw)
    assert urls(found) == [*URLS, "http://other.example/"]
    for entry in found:
        assert isinstance(entry, PageEntry)
        assert raw[entry.offset :].startswith((b"\x1f\x8b", b"WARC/1."))


def test_damage_in_a_wacz_file_of_a_collection_names_both_files() -> None:
    [reason] = reasons(run(packed({"crawl-0.wacz": packed({"archive/a.txt": b"some text"})})))
    assert reason.endswith("(in 'archive/a.txt') (in 'crawl-0.wacz')")


def test_collections_are_read_to_a_depth() -> None:
    raw = packed({"archive/a.warc.gz": WARC})
    for _ in range(2):
        raw = packed({"crawl.wacz": raw})
    assert urls(run(raw)) == URLS
    [reason] = reasons(run(packed({"crawl.wacz": raw})))
    assert "unzip them first" in reason


def test_an_encrypted_member_is_refused() -> None:
    raw = bytearray(packed({"archive/a.warc.gz": WARC}))
    for magic, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(magic) + at] |= 1
    (reason,) = reasons(run(bytes(raw)))
    assert reason.startswith("the member is encrypted")


def test_a_wacz_on_a_pipe_is_refused_with_what_to_do(tmp_path: Path) -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    (found,) = list(read(Pipe(packed({"archive/a.warc.gz": WARC}))))
    assert isinstance(found, DamagedEntry) and found.reason.endswith("save and name it")


def test_names_that_climb_and_repeat_write_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as opened, pytest.warns(UserWarning, match="Duplicate name"):
        for name in ("archive/../../up.warc.gz", "archive//etc/x.warc.gz", "archive/a.warc.gz", "archive/a.warc.gz"):
            opened.writestr(name, WARC)
        opened.writestr("datapackage.json", b"{}")
    assert urls(run(stream.getvalue())) == URLS * 4
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_not_utf8_is_a_clear_error_if_it_is_marked_as_utf8() -> None:
    raw = packed({"archive/\u00e9.warc.gz": WARC})
    assert urls(run(raw)) == URLS
    (reason,) = reasons(run(raw.replace("\u00e9".encode(), b"\xff\xfe")))
    assert "a name that is not UTF-8" in reason


def test_members_that_share_bytes_are_read_once() -> None:
    raw = packed({"archive/a.warc.gz": WARC})
    directory = raw.index(b"PK\x01\x02")
    end = raw.index(b"PK\x05\x06")
    entry_end = raw.index(b"PK\x01\x02", directory + 1)
    entries = raw[directory:end] + raw[directory:entry_end] * 50
    tail = bytearray(raw[end:])
    struct.pack_into("<HHI", tail, 8, 52, 52, len(entries))
    found = run(raw[:directory] + entries + bytes(tail))
    assert urls(found) == URLS
    assert len(reasons(found)) == 50 and "begins inside the one before it" in reasons(found)[0]


def test_a_zip_bomb_stops_at_the_ratio_within_bounded_memory() -> None:
    bomb = zlib.compressobj(9, zlib.DEFLATED, -15)
    blank = b"\n" * (1 << 20)
    squeezed = bomb.compress(b"".join(numbered(3))) + b"".join(bomb.compress(blank) for _ in range(200)) + bomb.flush()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as opened:
        info = zipfile.ZipInfo("archive/a.warc")
        opened.writestr(info, squeezed)
        opened.writestr("datapackage.json", b"{}")
    raw = bytearray(stream.getvalue())
    for magic, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        raw[raw.index(magic) + at] = zipfile.ZIP_DEFLATED  # the stored bytes are a deflated stream
    tracemalloc.start()
    found = run(bytes(raw), ReadOptions(body_limit_bytes=1_000_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert urls(found) == URLS
    assert [reason for reason in reasons(found) if "more than 100 times its length" in reason], reasons(found)
    assert peak < 20_000_000


def test_a_huge_list_of_members_is_refused_before_it_is_read() -> None:
    raw = bytearray(packed({"archive/a.warc.gz": WARC}))
    struct.pack_into("<I", raw, raw.index(b"PK\x05\x06") + 12, 1 << 30)
    (reason,) = reasons(run(bytes(raw)))
    assert reason.startswith("the list of members of the zip file has 1073741824 bytes")


# --- out


@pytest.fixture
def filled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    terminal = Terminal(tmp_path / "store", capsys)
    with docstore.open(terminal.store, create=True) as store:
        headers = {"Content-Type": "text/html; charset=utf-8"}
        store.put_page("https://www.example.com/B?z=1&a=2", html("One", article(1)), headers=headers, fetched_at=MAY)
        store.put_page("https://example.com/a", html("One", article(1)), headers=headers, fetched_at=MAY + 10**9)
        store.put_page(
            "https://example.com/C.txt", b"text " * 200, headers={"Content-Type": "text/plain"}, fetched_at=MAY
        )
        store.put_page("https://example.com/gone", b"<p>gone", headers=headers, status=404, fetched_at=MAY)
        store.put_page("ftp://example.com/file", b"by ftp", fetched_at=MAY)
    return terminal


def test_a_wacz_has_the_files_digests_and_pages_of_the_specification(filled: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "out.wacz"
    assert filled("export", "--format", "wacz", "--output", str(file), "--versions", "all").code == 0
    with zipfile.ZipFile(file) as opened:
        assert opened.testzip() is None
        names = opened.namelist()
        assert names[0] == "archive/data.warc.gz" and opened.getinfo(names[0]).compress_type == zipfile.ZIP_STORED
        package = json.loads(opened.read("datapackage.json"))
        assert package["wacz_version"] == "1.1.1" and package["profile"] == "data-package"
        described = {one["path"]: one for one in package["resources"]}
        assert described.keys() == set(names) - {"datapackage.json", "datapackage-digest.json"}
        for path, one in described.items():
            content = opened.read(path)
            assert (one["bytes"], one["hash"]) == (len(content), "sha256:" + hashlib.sha256(content).hexdigest())
        digest = json.loads(opened.read("datapackage-digest.json"))
        assert digest["hash"] == "sha256:" + hashlib.sha256(opened.read("datapackage.json")).hexdigest()
        header, *pages = map(json.loads, opened.read("pages/pages.jsonl").splitlines())
        assert header["format"] == "json-pages-1.0"
        assert [(page["url"], page["ts"], page["title"]) for page in pages] == [
            ("https://example.com/a", "2024-05-01T00:16:40Z", "One"),
            ("https://www.example.com/B?z=1&a=2", "2024-05-01T00:00:00Z", "One"),
        ]
        lines = gzip.decompress(opened.read("indexes/index.cdx.gz")).decode().splitlines()
        data = opened.read("archive/data.warc.gz")
    for line in lines:
        fields = json.loads(line.split(" ", 2)[2])
        begin, length = int(fields["offset"]), int(fields["length"])
        (found,) = list(ArchiveIterator(io.BytesIO(data[begin : begin + length])))
        assert found.rec_headers.get_header("WARC-Target-URI") == fields["url"]


def test_a_wacz_ingests_again_to_the_same_pages(
    filled: Terminal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = str(tmp_path / "out.wacz"), str(tmp_path / "again.warc.gz")
    filled("export", "--format", "wacz", "--output", first, "--versions", "all")
    other = Terminal(tmp_path / "other", capsys)
    report = other("ingest", first, "--create", "--json").object()
    assert (report["stored"], report["errors"]) == (5, [])
    assert other("export", "--output", second, "--versions", "all").code == 0
    third = str(tmp_path / "first.warc.gz")
    filled("export", "--output", third, "--versions", "all")
    assert Path(second).read_bytes() == Path(third).read_bytes()


def test_the_index_of_a_warc_export_is_sorted_and_finds_each_page(filled: Terminal, tmp_path: Path) -> None:
    file, index = tmp_path / "out.warc.gz", tmp_path / "out.cdxj"
    assert filled("export", "--output", str(file), "--cdxj", str(index), "--versions", "all").code == 0
    lines = index.read_bytes().splitlines(keepends=True)
    assert lines == sorted(lines) and len(lines) == 5
    data = file.read_bytes()
    shown = []
    for line in lines:
        key, digits, rest = line.decode().split(" ", 2)
        fields = json.loads(rest)
        assert fields["filename"] == "out.warc.gz"
        piece = data[int(fields["offset"]) : int(fields["offset"]) + int(fields["length"])]
        (found,) = list(ArchiveIterator(io.BytesIO(piece)))
        assert found.rec_headers.get_header("WARC-Target-URI") == fields["url"]
        assert found.rec_headers.get_header("WARC-Payload-Digest") == fields["digest"]
        shown.append((key, digits, fields.get("mime"), fields.get("status")))
    assert shown == [
        ("com,example)/a", "20240501001640", "text/html", "200"),
        ("com,example)/b?a=2&z=1", "20240501000000", "warc/revisit", "200"),
        ("com,example)/c.txt", "20240501000000", "text/plain", "200"),
        ("com,example)/file", "20240501000000", None, None),
        ("com,example)/gone", "20240501000000", "text/html", "404"),
    ]
    assert Checker(Namespace(inputs=[str(file)], verbose=False)).process_all() == 0


def test_an_index_larger_than_memory_is_sorted_in_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wacz, "RUN_BYTES", 2000)
    index = CdxjIndex("x.warc.gz")
    for number in range(500):
        url = f"https://example.com/{number * 7919 % 500:03d}"
        index.add(docstore.Page(url, b"", fetched_at=MAY), "response", "sha1:A", number, 1)
    lines = list(index.lines())
    assert len(lines) == 500 and lines == sorted(lines)
    assert [json.loads(line.split(b" ", 2)[2])["url"][-3:] for line in lines] == [f"{n:03d}" for n in range(500)]


@pytest.mark.parametrize(
    "words",
    [
        ("--cdxj", "x.cdxj"),
        ("--cdxj", "x.cdxj", "--format", "jsonl", "--output", "x"),
        ("--format", "wacz"),
        ("--keep-encoded", "--format", "jsonl"),
        ("--keep-encoded", "--output", "x"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    filled: Terminal, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert filled("export", *words).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_an_empty_wacz_is_complete() -> None:
    stream = io.BytesIO()
    wacz.WaczExport(stream, "docstore").close()
    with zipfile.ZipFile(stream) as opened:
        assert len(opened.namelist()) == 6
    (reason,) = reasons(run(stream.getvalue()))
    assert reason.startswith("a WACZ file without records")


# The keys are those of the package `surt` 0.3.1, which pywb and cdxj-indexer use.
@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://www.Example.com:80/A/b?B=2&a=1", "com,example)/a/b?a=1&b=2"),
        ("https://example.com:8443/x/?", "com,example:8443)/x"),
        ("http://user:pw@example.com/a//b/../c/./d/", "com,example)/a/c/d"),
        ("http://example.com/?x=1&PHPSESSID=0123456789abcdef0123456789abcdef", "com,example)/?&x=1"),
        ("http://example.com/a%2520b%41?q=%2b+a%20b", "com,example)/a%20ba?q=++a%20b"),
        ("http://b\u00fccher.example/\u00dc", "example,xn--bcher-kva)/%c3%9c"),
        ("http://127.0.0.1:8080/p", "1,0,0,127:8080)/p"),
        ("urn:x:y", "urn:x:y"),
        ("http://www34.archive.example/goo/?b&a", "example,archive)/goo?a&b"),
        ("http://archive.example/goo/?a=2&b&a=1", "example,archive)/goo?a=1&a=2&b"),
        ("http://www.archive.example?", "example,archive)/"),
        ("http://abc.www2.example.com/", "com,example,www2,abc)/"),
        ("http://awww.example.com/", "com,example,awww)/"),
        ("http://www.com/", "com)/"),
        ("http://www1.www2.example.com/", "com,example,www2)/"),
        ("http://a.example:/x", "example,a)/x"),
        ("http://a.example:443/", "example,a:443)/"),
        ("ftp://www.a.example:80/", "example,a:80)/"),
        ("http://192.168.1.254/info/", "254,1,168,192)/info"),
        ("http://100.100.100.100.org/", "org,100,100,100,100)/"),
        ("whois://whois.isoc.example/shaveh.example", "example,isoc,whois)/shaveh.example"),
        ("http://a.example/i.php?PHPSESSID=0123456789abcdefghijklemopqrstuv&b=c;u=1", "example,a)/i.php?b=c;u=1"),
        (
            "http://a.example/v.gif?&r=http%3A//b.example/&b=N%205%20%28W%29",
            "example,a)/v.gif?&b=n%205%20(w)&r=http://b.example/",
        ),
        ("mailto:foo@example.com", "mailto:foo@example.com"),
        ("dns:archive.example", "dns:archive.example"),
        ("filedesc:foo.arc.gz", "filedesc:foo.arc.gz"),
    ],
)
def test_the_key_of_a_url_is_that_of_pywb(url: str, key: str) -> None:
    assert surt(url) == key


def test_pages_of_the_export_are_those_of_the_store(tmp_path: Path) -> None:
    stream = io.BytesIO()
    writer = wacz.WaczExport(stream, "docstore")
    originals = [entry.page for entry in read(SAMPLE) if isinstance(entry, PageEntry)][:50]
    for page in originals:
        writer.write(ExportPage(page))
    writer.close()
    found = run(stream.getvalue())
    revisits = [entry.url for entry in found if isinstance(entry, RevisitEntry)]
    assert sorted(page.url for page in originals) == sorted([*urls(found), *revisits])
