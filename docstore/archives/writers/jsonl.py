"""Pages -> JSON Lines: one object a line, UTF-8, for programs that want text and verdicts rather than bytes.

Knows `pages`.  Must not know the store.
"""

from __future__ import annotations

import base64
import json
from typing import BinaryIO

from docstore.archives.writers.pages import ExportPage, iso_date


class JsonLinesExport:
    """Writes one object a page; bodies only when asked for, in base64, since they are bytes."""

    def __init__(self, stream: BinaryIO, *, bodies: bool = False) -> None:
        self._stream = stream
        self._bodies = bodies

    def write(self, page: ExportPage) -> None:
        """Append one page."""
        source = page.page
        fields: dict[str, object] = {
            "url": page.url or source.url,
            "fetched_url": source.url,
            "timestamp": iso_date(page.timestamp),
            "status": source.status,
            "headers": [list(header) for header in source.headers],
            "title": page.title,
            "text": page.text,
            "language": page.language,
            "verdict": page.verdict,
            "of_url": page.of_url,
            "similarity": page.similarity,
            "ip": source.ip,
            "payload_digest": source.payload_digest,
            "docno": source.docno,
            "body_bytes": len(source.body),
        }
        if self._bodies:
            fields["body_base64"] = base64.b64encode(source.body).decode()
        line = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
        self._stream.write(line.encode("utf-8", "replace") + b"\n")
