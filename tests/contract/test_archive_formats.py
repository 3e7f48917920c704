"""Every archive format: pages come back in order, damage is an entry and never an exception.

A new format needs an entry in SAMPLES.
"""

from __future__ import annotations

import gzip
import random

import pytest
from warc_records import numbered, reasons, run, urls

from docstore.archives.reader import FORMATS

BODY = b"<title>A page</title><p>with some words"


def arc(number: int) -> bytes:
    return b"http://example.com/%d 192.0.2.1 20240506070809 text/html %d\n%s\n" % (number, len(BODY), BODY)


def trecweb(number: int) -> bytes:
    head = b"http://example.com/%d 192.0.2.1 20240506070809 text/html %d" % (number, len(BODY))
    return b"<DOC>\n<DOCNO>%d</DOCNO>\n<DOCHDR>\n%s\n</DOCHDR>\n%s\n</DOC>\n" % (number, head, BODY)


def json_line(number: int) -> bytes:
    return b'{"url": "http://example.com/%d", "date": "2024-05-06T07:08:09Z", "html": "%s"}\n' % (number, BODY)


SAMPLES = {
    "WARC": numbered(3),
    "ARC": [arc(number) for number in range(3)],
    "TREC Web": [trecweb(number) for number in range(3)],
    "JSON Lines": [json_line(number) for number in range(3)],
}
"""By format: three records, of http://example.com/0 to /2."""
URLS = [f"http://example.com/{number}" for number in range(3)]


def test_every_format_has_a_sample() -> None:
    assert SAMPLES.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", FORMATS)
def test_pages_come_back_in_order_plain_and_packed(name: str) -> None:
    records = SAMPLES[name]
    for raw in (b"".join(records), b"".join(map(gzip.compress, records)), gzip.compress(b"".join(records))):
        found = run(raw)
        assert urls(found) == URLS
        assert reasons(found) == []
        offsets = [entry.offset for entry in found]
        assert offsets == sorted(offsets)


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_truncated_anywhere_gives_the_records_before_the_truncated_one(name: str) -> None:
    records = SAMPLES[name]
    raw = b"".join(records)
    for length in range(len(records[0]) + len(records[1]), len(raw)):
        assert urls(run(raw[:length]))[:1] == URLS[:1], length


@pytest.mark.parametrize("name", FORMATS)
def test_flipped_bytes_raise_nothing_and_lose_one_record_of_a_packed_file(name: str) -> None:
    records = SAMPLES[name]
    source = random.Random(name)
    packed = list(map(gzip.compress, records))
    for _ in range(50):
        raw = bytearray(b"".join(records))
        raw[source.randrange(len(raw))] ^= 1 << source.randrange(8)
        run(bytes(raw))
        middle = bytearray(packed[1])
        middle[source.randrange(len(middle) - 8, len(middle))] ^= 1  # its checksum and length
        found = run(packed[0] + middle + packed[2])
        assert {URLS[0], URLS[2]} <= set(urls(found))
        assert reasons(found)
