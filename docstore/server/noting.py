"""The log and the numbers of an application that has its own admission and bounds: the archive API.

Knows ASGI messages; must not know what is asked.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from docstore.server.metrics import Metrics
from docstore.server.records import Log

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

SHOWN_CHARACTERS = 500


class Noting:
    """Notes each request.

    Args:
        app: that answers.
        route: by which its requests are counted.
        metrics, log: where they are noted.
    """

    def __init__(self, app: Any, route: str, metrics: Metrics, log: Log) -> None:
        self._app = app
        self._route = route
        self._metrics = metrics
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        fields: Any = scope
        started = time.perf_counter()
        status = sent_bytes = 0

        async def noting(message: Any) -> None:
            nonlocal status, sent_bytes
            status = message.get("status", status)
            sent_bytes += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            seconds = time.perf_counter() - started
            self._metrics.note_request(self._route, fields["method"], status, seconds)
            self._log.write(
                "request",
                client=fields["client"][0] if fields.get("client") else None,
                listener=self._route,
                method=fields["method"],
                path=fields["path"][:SHOWN_CHARACTERS],
                query=fields["query_string"].decode("latin-1")[:SHOWN_CHARACTERS] or None,
                status=status,
                sent_bytes=sent_bytes,
                milliseconds=round(seconds * 1000, 2),
            )
