#!/usr/bin/env python3
"""Make examples/sample-crawl.warc.gz from freely licensed manuals in Debian packages.

What it knows: which pages of which packages make a small crawl with every kind of duplicate in it, and how a server
would have sent them.  It must not need anything but apt, dpkg-deb and warcio.  `examples/README.md` lists the outcome.

    tools/make_sample_crawl.py examples/sample-crawl.warc.gz [--debs DIRECTORY]

Needs a Debian or Ubuntu machine with bookworm in its apt sources (run `apt-get update` first).  Nothing is installed.
The same package versions give the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import struct
import subprocess
import tarfile
import uuid
import zlib
from base64 import b32encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

PAGE_LIMIT_BYTES = 50_000
SERVERS = ("nginx/1.24.0", "Apache/2.4.57 (Debian)", "cloudflare")
BOOST_CHAPTERS = (
    *("array", "circular_buffer", "crc", "date_time", "function"),
    *("lambda", "program_options", "string_algo", "thread", "variant"),
)
CLANG_PAGES = (
    *("ExternalClangExamples", "IntroductionToTheClangAST", "JSONCompilationDatabase", "LTOVisibility"),
    *("LibASTMatchers", "LibTooling", "MSVCCompatibility", "MemorySanitizer", "SafeStack", "ShadowCallStack"),
    *("SYCLSupport", "ThinLTO", "ThreadSanitizer", "index"),
)
JAPANESE_PAGES = ("bind", "configuring", "custom-error", "dns-caveats", "filter", "handler", "index", "invoking")
KOREAN_PAGES = ("bind", "configuring", "custom-error", "dns-caveats")


@dataclass(frozen=True)
class Source:
    """Pages of one package: where they lie in it, at which URL they are served, and when they were fetched."""

    package: str
    directory: str
    url: str
    fetched: datetime
    pages: tuple[str, ...]
    charset: str = "utf-8"


def boost(version: str, fetched: datetime) -> Source:
    return Source(
        f"libboost{version}-doc",
        f"usr/share/doc/libboost{version}-doc/doc/html/",
        f"https://www.boost.org/doc/libs/{version.replace('.', '_')}_0/doc/html/",
        fetched,
        tuple(f"{chapter}{end}" for chapter in BOOST_CHAPTERS for end in (".html", "/")),
    )


def clang(version: int, fetched: datetime) -> Source:
    return Source(
        f"clang-{version}-doc",
        f"usr/share/doc/clang-{version}/html/",
        "https://clang.llvm.org/docs/",
        fetched,
        tuple(f"{page}.html" for page in CLANG_PAGES),
    )


def apache(language: str, pages: Sequence[str], charset: str, fetched: datetime) -> Source:
    return Source(
        "apache2-doc",
        f"usr/share/doc/apache2-doc/manual/{language}/",
        f"https://httpd.apache.org/docs/2.4/{language}/",
        fetched,
        tuple(f"{page}.html" for page in pages),
        charset,
    )


SOURCES = (
    boost("1.74", datetime(2020, 9, 1, 6, tzinfo=UTC)),
    clang(15, datetime(2022, 9, 20, 6, tzinfo=UTC)),
    boost("1.81", datetime(2023, 1, 10, 6, tzinfo=UTC)),
    clang(16, datetime(2023, 4, 2, 6, tzinfo=UTC)),
    apache("ja", JAPANESE_PAGES[:5], "utf-8", datetime(2024, 1, 15, 6, tzinfo=UTC)),
    apache("ja", JAPANESE_PAGES[5:], "euc-jp", datetime(2024, 1, 15, 7, tzinfo=UTC)),
    apache("ko", KOREAN_PAGES, "euc-kr", datetime(2024, 1, 15, 8, tzinfo=UTC)),
)
EXTRAS_FETCHED = datetime(2024, 2, 1, 6, tzinfo=UTC)
BOOST_LATEST = "https://www.boost.org/doc/libs/1_81_0/doc/html/"
BOOST_RELEASE = "https://www.boost.org/doc/libs/release/doc/html/"


def fetch(packages: list[str], debs: Path) -> dict[str, Path]:
    """Download the packages that are not yet there; package -> path of its .deb."""
    debs.mkdir(parents=True, exist_ok=True)
    have = {path.name.split("_")[0]: path for path in sorted(debs.glob("*.deb"))}
    missing = [package for package in packages if package not in have]
    if missing:
        subprocess.run(["apt-get", "-q", "download", "-o", "APT::Sandbox::User=root", *missing], cwd=debs, check=True)
        have = {path.name.split("_")[0]: path for path in sorted(debs.glob("*.deb"))}
    return {package: have[package] for package in packages}


def files(deb: Path) -> dict[str, bytes]:
    """Every regular HTML file of a package by its path."""
    found = {}
    unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as archive:
        for member in archive:
            if not member.isfile() or not member.name.removesuffix(".gz").endswith(".html"):
                continue
            stream = archive.extractfile(member)
            body = stream.read() if stream else b""
            if member.name.endswith(".gz"):
                body = gzip.decompress(body)
            if body:
                found[member.name.removeprefix("./").removesuffix(".gz")] = body
    return found


def pages_of(source: Source, content: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """URL and body of each page, in path order, in the source's charset, into which UTF-8 pages are converted.

    The Korean pages are EUC-KR as they ship; the Japanese ones are UTF-8 now and were not in older releases.
    """
    for path in sorted(content):
        tail = path.removeprefix(source.directory)
        wanted = any(tail == page or (page.endswith("/") and tail.startswith(page)) for page in source.pages)
        body = content[path]
        if not path.startswith(source.directory) or not wanted or len(body) > PAGE_LIMIT_BYTES:
            continue
        if source.charset != "utf-8" and b"charset=UTF-8" in body:
            text = body.decode("utf-8").replace("charset=UTF-8", f"charset={source.charset.upper()}")
            body = text.encode(source.charset, "xmlcharrefreplace")
        yield source.url + tail, body


class CrawlWriter:
    """WARC records with the headers that servers send, dates and record ids derived from the pages."""

    def __init__(self, stream: io.BytesIO) -> None:
        self._digests: dict[str, str] = {}
        self._writer = WARCWriter(stream, gzip=True, warc_version="1.1")
        self.count = 0

    def note(self, fields: str, fetched: datetime) -> None:
        """The warcinfo record."""
        url = "urn:docstore:sample-crawl"
        self._write(url, "warcinfo", fields.encode(), None, fetched, {}, "application/warc-fields")

    def page(
        self,
        url: str,
        body: bytes,
        fetched: datetime,
        status: str = "200 OK",
        kind: str = "text/html",
        more: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """A response; some are packed and chunked, as servers do."""
        lot = zlib.crc32(url.encode())
        date = format_datetime(fetched, usegmt=True)
        headers = [("Date", date), ("Server", SERVERS[lot % 3]), ("Content-Type", kind)]
        if status.startswith("200") and lot % 4:
            modified = fetched - timedelta(days=40 + lot % 300)
            headers.append(("Last-Modified", format_datetime(modified, usegmt=True)))
            headers.append(("ETag", f'"{lot:x}-{len(body):x}"'))
        sent = body
        if lot % 5 == 0 and kind.startswith("text/"):
            sent = gzip.compress(body, 9, mtime=0)
            headers += [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
        if lot % 7 == 0 and sent:
            sent = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in cut(sent, 4096)) + b"0\r\n\r\n"
            headers.append(("Transfer-Encoding", "chunked"))
        else:
            headers.append(("Content-Length", str(len(sent))))
        named = {
            "WARC-IP-Address": f"192.0.2.{1 + zlib.crc32(url.split('/')[2].encode()) % 250}",
            "WARC-Payload-Digest": digest(sent),  # of the bytes as sent, as `warcio check` computes it
        }
        self._digests[url] = digest(sent)
        http = StatusAndHeaders(status, headers + list(more), protocol="HTTP/1.1")
        self._write(url, "response", sent, http, fetched, named)

    def revisit(self, url: str, body: bytes, fetched: datetime, first: datetime) -> None:
        """A later visit that found the same bytes."""
        named = {
            "WARC-Profile": "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
            "WARC-Refers-To-Target-URI": url,
            "WARC-Refers-To-Date": stamp(first),
            "WARC-Payload-Digest": self._digests[url],
        }
        headers = [("Date", format_datetime(fetched, usegmt=True)), ("Content-Type", "text/html")]
        http = StatusAndHeaders("200 OK", [*headers, ("Content-Length", str(len(body)))], protocol="HTTP/1.1")
        self._write(url, "revisit", b"", http, fetched, named)

    def _write(
        self,
        url: str,
        kind: str,
        block: bytes,
        http: StatusAndHeaders | None,
        fetched: datetime,
        named: dict[str, str],
        content_type: str = "",
    ) -> None:
        identity = uuid.uuid5(uuid.NAMESPACE_URL, f"{url} {kind} {fetched.isoformat()}")
        named = {"WARC-Date": stamp(fetched), "WARC-Record-ID": f"<urn:uuid:{identity}>", **named}
        record = self._writer.create_warc_record(
            url,
            kind,
            payload=io.BytesIO(block),
            length=len(block),
            http_headers=http,
            warc_headers_dict=named,
            warc_content_type=content_type,
        )
        self._writer.write_record(record)
        self.count += 1


def digest(body: bytes) -> str:
    return "sha1:" + b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()


def cut(body: bytes, step: int) -> list[bytes]:
    return [body[at : at + step] for at in range(0, len(body), step)]


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def write_crawl(content: dict[str, dict[str, bytes]]) -> tuple[bytes, int]:
    """The whole crawl, and how many records it has."""
    stream = io.BytesIO()
    writer = CrawlWriter(stream)
    writer.note(
        "software: docstore tools/make_sample_crawl.py\r\nformat: WARC File Format 1.1\r\n"
        "description: manuals of Boost, Clang and Apache httpd; licences in examples/README.md\r\n",
        SOURCES[0].fetched,
    )
    seen: dict[str, tuple[bytes, datetime]] = {}
    for source in SOURCES:
        for number, (url, body) in enumerate(pages_of(source, content[source.package])):
            fetched = source.fetched + timedelta(seconds=number // 3)
            named = zlib.crc32(url.encode()) % 2 or source.charset != "utf-8"
            writer.page(url, body, fetched, kind=f"text/html; charset={source.charset}" if named else "text/html")
            seen[url] = body, fetched
    write_extras(writer, seen)
    return stream.getvalue(), writer.count


def png() -> bytes:
    """A grey gradient of 32 by 32 pixels, drawn here so that it needs no licence."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = b"".join(b"\0" + bytes(4 * (across + down) for across in range(32)) for down in range(32))
    size = struct.pack(">IIBBBBB", 32, 32, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def write_extras(writer: CrawlWriter, seen: dict[str, tuple[bytes, datetime]]) -> None:
    """What a crawl has besides pages: copies, redirects, errors, images, visits that find nothing changed."""
    when = EXTRAS_FETCHED
    array = f"{BOOST_LATEST}array.html"
    for chapter in ("array", "crc", "variant"):
        writer.page(f"{BOOST_RELEASE}{chapter}.html", seen[f"{BOOST_LATEST}{chapter}.html"][0], when)
    writer.page(array.replace("https", "http"), b"", when, "301 Moved Permanently", more=(("Location", array),))
    missing = b"<!DOCTYPE html><title>404 Not Found</title><h1>Not Found</h1><p>The requested URL was not found."
    writer.page(f"{BOOST_LATEST}no_such_library.html", missing, when, "404 Not Found")
    writer.page("https://www.example.org/gradient.png", png(), when, kind="image/png")
    for page in ("index", "ThinLTO"):
        url = f"https://clang.llvm.org/docs/{page}.html"
        writer.revisit(url, seen[url][0], when, seen[url][1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path, help="the WARC file to write")
    parser.add_argument("--debs", type=Path, default=Path("build/debs"), help="where .deb files are kept (build/debs)")
    arguments = parser.parse_args()
    packages = sorted({source.package for source in SOURCES})
    content = {package: files(deb) for package, deb in fetch(packages, arguments.debs.resolve()).items()}
    crawl, count = write_crawl(content)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_bytes(crawl)
    print(f"{arguments.out}: {count} records, {len(crawl)} bytes, sha256 {hashlib.sha256(crawl).hexdigest()}")


if __name__ == "__main__":
    main()
