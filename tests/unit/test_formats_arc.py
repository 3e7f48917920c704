"""Reading ARC: both versions, and damage."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest
from warc_records import HTML, message, page, reasons, run, urls

from docstore.archives.entries import SkippedEntry

ARC_1 = b"1 0 InternetArchive\nURL IP-address Archive-date Content-type Archive-length\n"
ARC_2 = (
    b"2 0 Alexa\nURL IP-address Archive-date Content-type Result-code "
    + b"Checksum Location Offset Filename Archive-length\n"
)


def arc(version: bytes, lines: list[tuple[bytes, bytes]]) -> list[bytes]:
    members = [b"filedesc://a.arc 0.0.0.0 20040712071242 text/plain %d\n%s\n" % (len(version), version)]
    return members + [b"%s %d\n%s\n" % (line, len(block), block) for line, block in lines]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_arc_of_both_versions_is_read(pack: Callable[[bytes], bytes]) -> None:
    first = arc(ARC_1, [
        (b"http://example.com/a b 192.0.2.1 20040712071242 text/html", message()),
        (b"dns:example.com 192.0.2.1 20040712071242 text/dns", b"x"),
        (b"http://example.com/c - 20040712071243 text/html", message(status="404 No")),
    ])  # fmt: skip
    found = run(b"".join(pack(member) for member in first))
    assert urls(found) == ["http://example.com/a b", "http://example.com/c"]
    assert page(found).ip == "192.0.2.1"
    assert page(found).fetched_at == 1_089_616_362_000_000
    assert page(found, 1).status == 404
    assert [entry.reason for entry in found if isinstance(entry, SkippedEntry)] == ["arc header", "dns"]
    second = arc(ARC_2, [(b"http://example.com/ 192.0.2.1 20040712071242 text/html 200 check - 0 a.arc", message())])
    assert page(run(b"".join(pack(member) for member in second))).body == HTML


def test_damaged_arc_record_loses_no_other() -> None:
    members = arc(ARC_1, [
        (b"http://example.com/1 192.0.2.1 20040712071242 text/html", message()),
        (b"http://example.com/2 192.0.2.1 20040712071242 text/html", b"no length here"),
        (b"http://example.com/3 192.0.2.1 20040712071242 text/html", message()),
    ])  # fmt: skip
    members[2] = members[2].replace(b" 14\n", b" 40\n")
    found = run(b"".join(members))
    assert urls(found) == ["http://example.com/1", "http://example.com/3"]
    assert len(reasons(found)) == 1
