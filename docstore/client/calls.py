"""Every call of the interface as a request, and what its answer means; pure.

The clients of threads and of asyncio share it.  Knows the routes of `/v1` and the public types; must not know sockets.
Arguments are checked here as the store checks them, so that a wrong call fails in the same way and is not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Generic, NamedTuple, TypeVar

from docstore.model import keys
from docstore.model.errors import DocstoreError, InvalidArgument
from docstore.model.types import (
    Append,
    Cell,
    Condition,
    Increment,
    Mutation,
    Page,
    PutResult,
    ReadSpec,
    Schema,
    Time,
    WriteOptions,
    checked_families,
    checked_spec,
    micros,
)
from docstore.reading.answers import Similar
from docstore.reading.cells import Row
from docstore.reading.documents import Document
from docstore.reading.snippet import Snippet
from docstore.wire.shapes import plain, read

_T = TypeVar("_T")
_Rule = Append | Increment


class Call(NamedTuple, Generic[_T]):
    """One request.

    Attributes:
        method, path: of the route.
        result: makes the result of the answer's plain data.
        query: parameters; those that are None are left out.
        message: the body, for msgpack; None has none.
        writes: it changes the store, so that it carries a key by which the server knows it again.
        absent: what it gives where the server says that there is no such page; None raises.
        failed: makes a result of an answer that failed, and its error; None raises the error.
    """

    method: str
    path: str
    result: Callable[[Any], _T]
    query: Mapping[str, object] = {}
    message: object = None
    writes: bool = False
    absent: Callable[[], _T] | None = None
    failed: Callable[[Any, DocstoreError], _T] | None = None


def _nothing() -> None:
    return None


def _field(name: str, kind: Any) -> Callable[[Any], Any]:
    """Reads one field of an answer."""

    def result(given: Any) -> Any:
        if not isinstance(given, dict) or name not in given:
            raise InvalidArgument(f"the answer lacks {name}")
        return read(kind, given[name], name)

    return result


def _of_kind(kind: Any) -> Callable[[Any], Any]:
    return lambda given: read(kind, given, "the answer")


def at_micros(at: Time | None) -> int | None:
    """A time as microseconds; None stays."""
    return None if at is None else micros(at)


def row_fields(url_or_row_key: str | bytes) -> dict[str, object]:
    """The fields that name a row."""
    if isinstance(url_or_row_key, bytes):
        return {"row_key": url_or_row_key}
    return {"url": checked_url(url_or_row_key)}


def checked_url(url: str) -> str:
    """A URL that has a row key, fit to be sent: lone surrogates are read as U+FFFD, as the store reads them.

    Raises:
        InvalidArgument: the store would refuse it.
    """
    keys.row_key(url)
    return url.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# --- the server


class Limits(NamedTuple):
    """How much one request may hold."""

    request_bytes: int = 64 << 20
    batch_pages: int = 1024
    urls: int = 1000
    call_bytes: int = 1 << 20


class About(NamedTuple):
    """What a server is; see `GET /v1`."""

    docstore: str = ""
    boot: str = ""
    pid: int = 0
    path: str = ""
    limits: Limits = Limits()
    grade: str = ""


def about() -> Call[About]:
    """What the server is."""

    def result(given: Any) -> About:
        if not isinstance(given, dict) or "docstore" not in given:
            raise InvalidArgument("it does not say that it is docstore")
        limits = given.get("limits", {})
        if isinstance(limits, list):  # msgpack gives a record inside a message by position
            limits = dict(zip(Limits._fields, limits, strict=False))
        elif not isinstance(limits, dict):
            limits = {}
        known = {name: given[name] for name in About._fields if name in given and name != "limits"}
        bounds = {name: limits[name] for name in Limits._fields if name in limits}
        return read(About, {**known, "limits": bounds})

    return Call("GET", "/v1", result)


def schema() -> Call[Schema]:
    """What the store declares."""
    return Call("GET", "/v1/schema", _of_kind(Schema))


class Losses(NamedTuple):
    """What opens of the store found lost, until it is acknowledged.

    Attributes:
        lost: captures, of type `docstore.tablets.losses.LostVersion`.
        lost_commits: commits without their rows, of type `LostCommits` there.
    """

    lost: tuple[Any, ...]
    lost_commits: tuple[Any, ...]


def losses() -> Call[Losses]:
    """What opens of the store found lost."""
    module: Any = import_module("docstore.tablets.losses")
    lost, commits = _field("lost", list[module.LostVersion]), _field("lost_commits", list[module.LostCommits])
    return Call("GET", "/v1/lost", lambda given: Losses(tuple(lost(given)), tuple(commits(given))))


def acknowledge_lost() -> Call[int]:
    """See `DocumentStore.acknowledge_lost`."""
    return Call("POST", "/v1/lost/acknowledge", _field("acknowledged", int), message={}, writes=True)


def stats() -> Call[dict[str, Any]]:
    """See `DocumentStore.stats`."""
    return Call("GET", "/v1/stats", _of_kind(dict[str, Any]))


def codec_stats() -> Call[dict[str, dict[str, int]]]:
    """See `DocumentStore.codec_stats`."""
    return Call("GET", "/v1/codec-stats", _of_kind(dict[str, dict[str, int]]))


def stored_bytes() -> Call[int]:
    """See `DocumentStore.stored_bytes`."""
    return Call("GET", "/v1/stored-bytes", _field("stored_bytes", int))


# --- pages


def _options(options: WriteOptions, policies: object) -> dict[str, object]:
    chosen = None if policies is None else {str(kind): str(policy) for kind, policy in options.policies.items()}
    return {**options._asdict(), "policies": chosen}


def put_page(page: Page, options: WriteOptions, policies: object) -> Call[PutResult]:
    """See `DocumentStore.put_page`; `policies` is None where the schema's are meant."""
    message = {"page": page, **_options(options, policies)}
    return Call("POST", "/v1/page", _of_kind(PutResult), message=message, writes=True)


def put_pages(pages: Sequence[Page], options: WriteOptions, policies: object) -> Call[list[PutResult | DocstoreError]]:
    """Pages of one request; a result for each, or results of the first ones and an error."""
    results = _field("results", list[PutResult])

    def failed(given: Any, error: DocstoreError) -> list[PutResult | DocstoreError]:
        done = results(given) if isinstance(given, dict) and "results" in given else []
        return [*done, error]

    def whole(given: Any) -> list[PutResult | DocstoreError]:
        found: list[PutResult | DocstoreError] = results(given)
        if len(found) != len(pages):
            raise InvalidArgument(f"{len(found)} results for {len(pages)} pages")
        return found

    message = {"pages": pages, **_options(options, policies)}
    return Call("POST", "/v1/pages", whole, message=message, writes=True, failed=failed)


def add_anchor(target_url: str, source_url: str, text: str, at: Time | None, any_time: bool) -> Call[None]:
    """See `DocumentStore.add_anchor`."""
    keys.row_key(target_url)
    keys.row_key(source_url)
    message = {
        "target_url": target_url,
        "source_url": source_url,
        "text": text,
        "at": at_micros(at),
        "any_time": any_time,
    }
    return Call("POST", "/v1/anchors", lambda _given: None, message=message, writes=True)


def delete(url: str, purge: bool) -> Call[bool]:
    """See `DocumentStore.delete`."""
    query = {"url": checked_url(url), "purge": True if purge else None}
    return Call("DELETE", "/v1/page", _field("deleted", bool), query, writes=True)


def contains(url: str) -> Call[bool]:
    """See `DocumentStore.__contains__`."""
    return Call("HEAD", "/v1/page", lambda _given: True, {"url": checked_url(url)}, absent=lambda: False)


def get(
    url: str,
    at: Time | None,
    versions: int,
    families: Sequence[str] | None,
    follow: bool,
    variants: bool,
    follow_duplicates: bool,
) -> Call[Document | None]:
    """See `DocumentStore.get`."""
    checked_spec(ReadSpec(versions=versions))
    query = {
        "url": checked_url(url),
        "at": at_micros(at),
        "versions": None if versions == 1 else versions,
        "families": None if families is None else ",".join(checked_families(tuple(families))),
        "follow": follow or None,
        "variants": variants or None,
        "follow_duplicates": follow_duplicates or None,
    }
    return Call("GET", "/v1/page", _of_kind(Document), query, absent=_nothing)


def history(url: str) -> Call[list[Document]]:
    """See `DocumentStore.history`."""
    return Call("GET", "/v1/history", _field("captures", list[Document]), {"url": checked_url(url)})


def validators(url: str) -> Call[dict[str, str | int] | None]:
    """See `DocumentStore.validators`."""
    return Call("GET", "/v1/validators", _of_kind(dict[str, Any]), {"url": checked_url(url)}, absent=_nothing)


def similar(page: bytes | str, threshold: float | None, limit: int) -> Call[list[Similar]]:
    """See `DocumentStore.similar`."""
    named: dict[str, object] = {"body": page} if isinstance(page, bytes) else {"url": page}
    message = {**named, "threshold": threshold, "limit": limit}
    return Call("POST", "/v1/similar", _field("similar", list[Similar]), message=message)


def snippets(urls: Sequence[str], query: str, length: int, at: Time | None) -> Call[list[Snippet | None]]:
    """See `DocumentStore.snippets`."""
    for url in urls:
        keys.row_key(url)
    message = {"urls": urls, "query": query, "length": length, "at": at_micros(at)}
    return Call("POST", "/v1/snippets", _field("snippets", list[Snippet | None]), message=message)


class Collapsed(NamedTuple):
    """A part of search results without duplicates.

    Attributes:
        urls: that stay.
        taken: groups that have a page by now; the next part is sent with them.
    """

    urls: list[str]
    taken: list[bytes]


def collapse(urls: Sequence[str], taken: list[bytes]) -> Call[Collapsed]:
    """A part of the results; see `DocumentStore.collapse`."""
    return Call("POST", "/v1/collapse", _of_kind(Collapsed), message={"urls": urls, "taken": taken})


# --- cells


def read_row(url_or_row_key: str | bytes, spec: ReadSpec) -> Call[Row | None]:
    """See `CellStore.read_row`."""
    message = {**row_fields(url_or_row_key), "spec": checked_spec(spec)}
    return Call("POST", "/v1/cells/read", _field("row", Row | None), message=message)


def apply_many(rows: Sequence[tuple[str | bytes, Sequence[Mutation]]]) -> Call[None]:
    """See `CellStore.apply_many`."""
    message = {"rows": [{**row_fields(row), "mutations": plain(list(mutations))} for row, mutations in rows]}
    return Call("POST", "/v1/cells/apply", lambda _given: None, message=message, writes=True)


def check_and_mutate(
    url_or_row_key: str | bytes, condition: Condition, then: Sequence[Mutation], otherwise: Sequence[Mutation]
) -> Call[bool]:
    """See `CellStore.check_and_mutate`."""
    changes = {"then": plain(list(then)), "otherwise": plain(list(otherwise))}
    message = {**row_fields(url_or_row_key), "condition": condition, **changes}
    return Call("POST", "/v1/cells/check-and-mutate", _field("held", bool), message=message, writes=True)


def read_modify_write(url_or_row_key: str | bytes, rules: Sequence[_Rule]) -> Call[list[Cell]]:
    """See `CellStore.read_modify_write`."""
    message = {**row_fields(url_or_row_key), "rules": plain(list(rules))}
    return Call("POST", "/v1/cells/read-modify-write", _field("cells", list[Cell]), message=message, writes=True)


# --- jobs


class Job(NamedTuple):
    """A long piece of maintenance that the server runs.

    Attributes:
        id: names it.
        state: running, done, failed or cancelled.
        stage: what it does now, in words.
        done, total: how far it is; 0 where that is not known.
        revision: grows with every change.
        result: what it gave, as plain data.
        error: why it failed, as plain data.
    """

    id: str
    state: str
    stage: str = ""
    done: int = 0
    total: int = 0
    revision: int = 0
    result: Any = None
    error: Any = None


def _job(given: Any) -> Job:
    if not isinstance(given, dict):
        raise InvalidArgument("a job must be a map")
    return read(Job, {name: given[name] for name in Job._fields if given.get(name) is not None}, "the job")


def start_job(kind: str, options: Mapping[str, object]) -> Call[Job]:
    """Start a job."""
    message = {"kind": kind, "options": {name: value for name, value in options.items() if value is not None}}
    return Call("POST", "/v1/jobs", _job, message=plain(message), writes=True)


def watch_job(job: Job, wait_seconds: int) -> Call[Job]:
    """A job, once it is another than the one given, or after some seconds."""
    return Call("GET", f"/v1/jobs/{job.id}", _job, {"wait": wait_seconds, "seen": job.revision})


def stop_job(job: Job) -> Call[Job]:
    """Ask a job to stop."""
    return Call("DELETE", f"/v1/jobs/{job.id}", _job, writes=True)
