"""How a body was sent: codings in one header line or several, wrong ones, and bodies with an empty line too many."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import subprocess
import sys
import zlib
from pathlib import Path

import brotli
import pytest
import zstandard

from docstore.archives.http import Refused, parse_message

BODY = b"<title>Codings</title><p>" + b"words of a page " * 40
GZIP, DEFLATE, BROTLI = gzip.compress(BODY, mtime=0), zlib.compress(BODY), brotli.compress(BODY)
RAW_DEFLATE = DEFLATE[2:-4]
ZSTD = zstandard.ZstdCompressor().compress(BODY)
SKIPPABLE = b"\x50\x2a\x4d\x18\x04\0\0\0\x0a\0\0\0"
TEXT = "Content-Type: text/html; charset=utf-8"
CE, TE, CL = "Content-Encoding: ", "Transfer-Encoding: ", "Content-Length: "
N = len(BODY)


def chunked(body: bytes, step: int = 100) -> bytes:
    pieces = (body[start : start + step] for start in range(0, len(body), step))
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def message(body: bytes, *lines: str, content_type: str = TEXT) -> bytes:
    return "\r\n".join(("HTTP/1.1 200 OK", content_type, *lines, "", "")).encode() + body


@pytest.mark.parametrize(
    ("lines", "sent"),
    [
        # lists, and lines that repeat
        ([CE + "gzip", CE + "br"], brotli.compress(GZIP)),
        ([CE + "gzip, br"], brotli.compress(GZIP)),
        ([CE + "identity, gzip"], GZIP),
        ([CE + "identity", CE + "gzip"], GZIP),
        ([CE + "gzip, identity"], GZIP),
        ([CE, CE + "gzip"], GZIP),
        ([CE + ",gzip,,"], GZIP),
        ([CE + "none", CE + "gzip"], GZIP),
        ([CE + "gzip", CE + "gzip"], GZIP),
        ([CE + "gzip", CE + "gzip"], gzip.compress(GZIP, mtime=0)),
        ([CE + "gzip", CE + "deflate"], GZIP),
        # spellings
        ([CE + '"gzip"'], GZIP),
        ([CE + "gzip;q=1.0"], GZIP),
        ([CE + " GZip ; level=9 , Identity"], GZIP),
        ([CE + "x-deflate"], DEFLATE),
        ([CE + "x-deflate"], RAW_DEFLATE),
        ([CE + "zlib"], DEFLATE),
        ([CE + "x-gzip"], GZIP),
        # names that no one knows stop nothing
        ([CE + "utf-8"], BODY),
        ([CE + "utf-8, gzip"], GZIP),
        ([CE + "gzip, utf-8"], GZIP),
        ([CE + "sdch, br"], BROTLI),
        ([CE + "br, sdch"], BROTLI),
        ([CE + "text/html", CE + "deflate"], DEFLATE),
        # transfer codings
        ([TE + "gzip"], GZIP),
        ([TE + "gzip, chunked"], chunked(GZIP)),
        ([TE + "gzip", TE + "chunked"], chunked(GZIP)),
        ([TE + "chunked, gzip"], chunked(GZIP)),
        ([TE + "deflate, chunked"], chunked(DEFLATE)),
        ([TE + "identity", TE + "chunked"], chunked(BODY)),
        ([TE + "chunked", TE + "identity"], chunked(BODY)),
        ([TE + "chunked, chunked"], chunked(BODY)),
        ([TE + "chunked", TE + "chunked"], chunked(chunked(BODY))),
        ([TE + '"Chunked";a=b'], chunked(BODY)),
        ([TE + "gzip, chunked", CE + "br"], chunked(gzip.compress(BROTLI, mtime=0))),
        ([CE + "br", TE + "chunked", CE + "gzip"], chunked(gzip.compress(BROTLI, mtime=0))),
        ([TE + "gzip, chunked"], BODY),
        # an empty line too many
        ([CE + "gzip"], b"\r\n" + GZIP),
        ([CE + "gzip"], b"\n" + GZIP),
        ([CE + "br"], b"\r\n" + BROTLI),
        ([CE + "deflate"], b"\r\n" + DEFLATE),
        ([CE + "zstd", CL + str(len(ZSTD))], b"\r\n" + ZSTD),
        ([TE + "chunked"], b"\r\n" + chunked(BODY)),
        ([TE + "chunked", CE + "gzip"], b"\n" + chunked(GZIP)),
        ([TE + "chunked", CE + "gzip"], chunked(b"\r\n" + GZIP)),
        ([CL + str(N)], b"\r\n" + BODY),
        # lengths
        ([CL + "0", CL + str(N)], BODY),
        ([CL + f"{N}, {N}"], BODY),
        ([CL + str(N)], BODY + b"\r\n\r\n"),
        ([CL + str(N)], BODY + b"\n"),
        # chunks that are listed as a content coding
        ([CE + "chunked"], chunked(BODY)),
        ([CE + "gzip, chunked"], chunked(GZIP)),
        # more names that no one knows than codings are undone
        ([CE + "a, b, c, d, e, gzip"], GZIP),
        # frames that pzstd writes before each frame of data
        ([CE + "zstd"], SKIPPABLE + ZSTD),
        ([CE + "zstd"], SKIPPABLE + zstandard.compress(BODY[:99]) + SKIPPABLE + zstandard.compress(BODY[99:])),
        ([], SKIPPABLE + ZSTD),
        # packed, and no line says so
        ([], GZIP),
        ([], b"\r\n" + GZIP),
        ([CE + "identity"], GZIP),
        ([CE + "br"], GZIP),
        ([CE + "gzip"], gzip.compress(GZIP, mtime=0)),
        ([], gzip.compress(ZSTD, mtime=0)),
        ([], ZSTD),
        ([], DEFLATE),
        ([CE + "gzip"], DEFLATE),
    ],
)
def test_codings_are_one_list_and_undone_in_order(lines: list[str], sent: bytes) -> None:
    _, _, body, _, flaw = parse_message(message(sent, *lines))
    assert (body, flaw) == (BODY, "")


@pytest.mark.parametrize(
    ("lines", "sent"),
    [
        ([], b"\r\n" + BODY),
        ([CL + str(N + 2)], b"\r\n" + BODY),
        ([CE + "gzip"], b"\r\n" + BODY),
        ([CE + "deflate"], b"\r\nHG wells" + BODY),
        ([CE + "br"], b"\r\n;" + BODY),
        ([CE + "br"], b";" + BODY),
        ([TE + "chunked"], b"\r\nadd\r\n" + BODY),
        ([TE + "chunked, chunked"], BODY),
        ([], b"x^2 + y^2"),
        ([CL + "3"], BODY),
        ([CL + "three, 3"], BODY),
        ([], b""),
        ([CE + "gzip"], b""),
        ([CE + "br"], b""),
    ],
)
def test_a_body_that_is_not_packed_stays(lines: list[str], sent: bytes) -> None:
    assert parse_message(message(sent, *lines))[2] == sent


@pytest.mark.parametrize(
    "content_type", ['Content-Type: "text/html"', "Content-Type:\r\n" + TEXT, "Content-Type: text/html, text/html;a=b"]
)
def test_a_packed_body_is_text_whatever_way_its_head_says_so(content_type: str) -> None:
    assert parse_message(message(GZIP, content_type=content_type))[2] == BODY


@pytest.mark.parametrize("content_type", ["Content-Type: application/gzip", "Content-Type: image/png", "X: text/html"])
def test_a_packed_file_stays_packed(content_type: str) -> None:
    assert parse_message(message(GZIP, content_type=content_type))[2:] == (GZIP, None, "")


@pytest.mark.parametrize("media_type", ["text/plain", "application/xhtml+xml", "application/json", "TEXT/HTML"])
@pytest.mark.parametrize("packed", [lzma.compress(BODY), bz2.compress(BODY), DEFLATE[:30], b"\x04\x22\x4d\x18" + BODY])
def test_text_that_cannot_be_unpacked_is_listed(media_type: str, packed: bytes) -> None:
    _, _, body, _, flaw = parse_message(message(packed, content_type=f"Content-Type: {media_type}"))
    assert body == packed and "a packed body, whose head calls it text" in flaw


@pytest.mark.parametrize("sent", [GZIP[:-20], b"\r\n" + GZIP[:40], ZSTD[:-9], gzip.compress(GZIP[:-20], mtime=0)])
def test_text_that_breaks_off_while_it_is_unpacked_is_refused(sent: bytes) -> None:
    with pytest.raises(Refused, match="breaks after"):
        parse_message(message(sent))


def test_text_that_is_packed_again_and_again_is_refused() -> None:
    sent = BODY
    for _ in range(7):
        sent = gzip.compress(sent, mtime=0)
    with pytest.raises(Refused, match="packed more than 5 times"):
        parse_message(message(sent))


def test_brotli_is_undone_where_brotlipy_hides_the_module(tmp_path: Path) -> None:
    (tmp_path / "brotli").mkdir()
    (tmp_path / "brotli" / "__init__.py").write_text("class Error(Exception): ...\n")  # it has neither `error` nor more
    program = (
        "import sys, brotli; sys.path.remove(sys.argv[1]); from docstore.archives.http import parse_message; "
        "sys.stdout.buffer.write(parse_message(sys.stdin.buffer.read())[2])"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        input=message(BROTLI, CE + "br"),
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
    )
    assert done.stdout == BODY, done.stderr.decode()
