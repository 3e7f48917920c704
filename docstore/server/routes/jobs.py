"""Jobs: started, watched, cancelled.

Knows `jobs`; must not know what a job does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Final, NamedTuple

from litestar import Response, delete, get, post
from litestar.params import FromPath, QueryParameter
from litestar.response import Stream

from docstore.server.answers import AnyRequest, Asked, message, reply
from docstore.server.exchange import exchange_of
from docstore.server.jobs import Job
from docstore.server.routes.described import opens
from docstore.server.tokens import Grade
from docstore.wire.shapes import to_json

LONGEST_WAIT_SECONDS: Final = 60
BEAT_SECONDS: Final = 15
"""A stream of events says at least so often that it is there."""


class StartJob(NamedTuple):
    """What to do; see `docstore.server.jobs` for the options of each kind."""

    kind: str
    options: dict[str, Any] = {}  # noqa: RUF012 - read, never written


class JobList(NamedTuple):
    """Jobs, the newest first."""

    jobs: list[Job]


@post("/jobs", status_code=202, opt=opens(Grade.ADMIN, takes=StartJob, gives=Job))
async def start_job(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Start a compaction, sweep, backup, check or reindexing."""
    kind, options = await message(request, service, StartJob)
    job = service.jobs.start(kind, options, is_local=exchange_of(request.scope).is_local)
    return reply(request, job, 202)


@get("/jobs", opt=opens(Grade.READ, gives=JobList))
async def list_jobs(request: AnyRequest, service: Asked) -> Response[bytes]:
    """Jobs of this run of the server."""
    return reply(request, {"jobs": service.jobs.list()})


@get("/jobs/{name:str}", opt=opens(Grade.READ, gives=Job))
async def get_job(
    request: AnyRequest,
    service: Asked,
    name: FromPath[str],
    wait: Annotated[float, QueryParameter(ge=0, le=LONGEST_WAIT_SECONDS, description="seconds, for a change")] = 0.0,
    seen: Annotated[int, QueryParameter(description="revision that the asker has")] = 0,
) -> Response[bytes]:
    """A job; with `wait` when it has changed since revision `seen`."""
    return reply(request, await service.jobs.watch(name, seen, wait))


@get("/jobs/{name:str}/events", opt=opens(Grade.READ, gives=bytes))
async def follow_job(service: Asked, name: FromPath[str]) -> Stream:
    """A job each time that it changes, as server-sent events."""
    service.jobs.get(name)

    async def events() -> AsyncIterator[bytes]:
        async for job in service.jobs.follow(name, BEAT_SECONDS):
            yield b": still here\n\n" if job is None else b"event: job\ndata: " + to_json(job) + b"\n\n"

    return Stream(events(), media_type="text/event-stream")


@delete("/jobs/{name:str}", status_code=200, opt=opens(Grade.ADMIN, gives=Job))
async def cancel_job(request: AnyRequest, service: Asked, name: FromPath[str]) -> Response[bytes]:
    """Ask a job to stop."""
    return reply(request, service.jobs.cancel(name))


JOBS: Final = [start_job, list_jobs, get_job, follow_job, cancel_job]
