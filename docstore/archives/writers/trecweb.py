"""Pages -> TREC Web, in the form of WT10g: ``url ip date type length``, then HTTP status and headers, then the body.

Knows `pages`.  Must not know the store.

The format has no escape: a body that holds ``</DOC>`` is written as it is, and the length in the first line tells our
reader where it ends; other readers stop at the first ``</DOC>``.  A page without a document number gets one from its
URL and time.  Payload digests have no place here and are left out.  Dates have fourteen digits, and three more where
there are milliseconds.
"""

from __future__ import annotations

import hashlib
import re
from typing import BinaryIO

from docstore.archives.writers.pages import ExportPage, moment, one_line, one_line_headers

_TAG = re.compile(r"</(?=DOCHDR>)", re.IGNORECASE)
_SPACE = re.compile(r"\s+")


class TrecWebExport:
    """Writes <DOC> elements to a stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, page: ExportPage) -> None:
        """Append one page."""
        source = page.page
        date = moment(page.timestamp)
        digits = f"{date.year:04d}{date:%m%d%H%M%S}" + (f"{date.microsecond // 1000:03d}" if date.microsecond else "")
        kind = _SPACE.sub("", (source.header("content-type") or "").partition(";")[0]) or "-"
        address = _SPACE.sub("", source.ip) or "-"
        first = f"{one_line(source.url)} {address} {digits} {kind} {len(source.body)}"
        lines = [first, f"HTTP/1.1 {source.status:03d}"]
        lines += [f"{name}: {value}" for name, value in one_line_headers(source.headers)]
        head = "\n".join(_TAG.sub("< /", line) for line in lines).encode("utf-8", "replace")
        number = one_line(source.docno or document_number(source.url, page.timestamp)).encode()
        self._stream.write(b"<DOC>\n<DOCNO>%s</DOCNO>\n<DOCHDR>\n%s\n</DOCHDR>\n" % (number, head))
        self._stream.write(source.body)
        self._stream.write(b"\n</DOC>\n")


def document_number(url: str, timestamp: int) -> str:
    """The number of a page that came without one: the same for the same URL and time."""
    return "DS-" + hashlib.blake2b(f"{url} {timestamp}".encode(), digest_size=10).hexdigest()
