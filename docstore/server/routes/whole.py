"""The store as a whole: what it is, its totals, what was lost; and whether the server is well.

Knows the public class of a store; must not know pages or cells.
"""

from __future__ import annotations

import os
from typing import Any, Final

from litestar import Response, get, post
from litestar.params import FromQuery

from docstore.model.types import Schema
from docstore.server import messages
from docstore.server.answers import AnyRequest, Asked, ask, reply
from docstore.server.exchange import exchange_of
from docstore.server.refusals import busy
from docstore.server.routes.described import opens
from docstore.server.tokens import Grade
from docstore.version import __version__


@get("/", opt=opens(Grade.READ, gives=messages.About))
async def about(request: AnyRequest, service: Asked) -> Response[bytes]:
    """What this server is, and how much one request may hold."""
    limits = service.settings.limits
    bounds = messages.Bounds(limits.request_bytes, limits.batch_pages, limits.urls, limits.call_bytes)
    grade = exchange_of(request.scope).grade.name.lower()
    path = str(service.store.opened.path)
    found = messages.About(__version__, service.boot, os.getpid(), path, service.archive_url, bounds, grade)
    return reply(request, found)


@get("/schema", opt=opens(Grade.READ, gives=Schema))
async def schema(request: AnyRequest, service: Asked) -> Response[bytes]:
    """What the store declares."""
    return reply(request, service.store.schema)


@get("/stats", opt=opens(Grade.READ, gives=dict[str, Any]))
async def stats(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Totals, verdicts, sizes and tablets."""
    return await ask(request, service, service.store.stats)


@get("/codec-stats", opt=opens(Grade.READ, gives=dict[str, Any]))
async def codec_stats(request: AnyRequest, service: Asked) -> Response[bytes]:
    """What records take on disk by column and codec; reads all segments, for one asker at a time."""
    if service.reading_all.locked():
        raise busy("the records are being counted for another request")
    async with service.reading_all:
        return await ask(request, service, service.store.codec_stats)


@get("/stored-bytes", opt=opens(Grade.READ, gives=messages.StoredBytes))
async def stored_bytes(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Bytes in segments."""
    return await ask(request, service, lambda: messages.StoredBytes(service.store.stored_bytes()))


@get("/lost", opt=opens(Grade.READ, gives=messages.Losses))
async def lost(request: AnyRequest, service: Asked) -> Response[bytes]:
    """What opens of this store have found lost, until it is acknowledged."""
    opened = service.store.opened
    found = messages.Losses(list(service.store.lost), list(opened.lost_commits), list(opened.set_aside))
    return reply(request, found)


@post("/lost/acknowledge", status_code=200, opt=opens(Grade.ADMIN, gives=messages.Acknowledged))
async def acknowledge_lost(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Clear the list of what was lost."""
    count = await service.write(service.store.acknowledge_lost)
    return reply(request, messages.Acknowledged(count))


@get("/healthz", opt=opens(Grade.NONE, gives=dict[str, Any]))
async def health(request: AnyRequest, service: Asked, writes: FromQuery[bool] = False) -> Response[bytes]:
    """Whether the server answers; with `writes=1` also whether it writes: 503 if not."""
    trouble = await service.read(service.health.trouble) if writes else ""
    if trouble:
        return reply(request, {"status": "writes fail"}, 503)
    return reply(request, {"status": "ok"})


@get("/metrics", opt=opens(Grade.READ, gives=bytes))
async def metrics(service: Asked) -> Response[bytes]:
    """Numbers for Prometheus."""
    found = await service.read(lambda: service.metrics.text(service.store.stats()))
    return Response(found, media_type="text/plain; version=0.0.4; charset=utf-8")


WHOLE: Final = [about, schema, stats, codec_stats, stored_bytes, lost, acknowledge_lost]
OPERATIONS: Final = [health, metrics]
