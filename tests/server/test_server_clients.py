"""Many clients of one server: what one of them asks for holds up its own requests, not those of another."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from docstore.model.types import Cell, Page
from docstore.serving import messages, wire
from docstore.serving.archive_app import ArchiveApp
from docstore.serving.service import COMPARERS_OF_CLIENT, READERS_OF_CLIENT, STREAMERS_OF_CLIENT, Turns
from docstore.serving.settings import ArchiveSettings, Limits
from docstore.serving.wire import from_msgpack, to_json, to_msgpack
from docstore.storage.engine import ScannedRow
from docstore.storage.table import SHORT_RECORDS
from docstore.store import DocumentStore, open_store
from tests.serving import Serving, serving

GREEDY, OTHER = "a-token-that-asks-much", "a-token-that-asks-little"
SECOND = 1_000_000
AT = 1_600_000_000 * SECOND
PAGE, LONG, VISITED, REJECTED = (f"https://{name}.example/" for name in ("page", "long", "visited", "rejected"))
MANY = 3 * SHORT_RECORDS
WORDS = " ".join(f"word{number}" for number in range(80))
ASKED = 24
"""Requests of the greedy client, more than all threads of a kind."""


@contextmanager
def shared(folder: Path, **named: Any) -> Iterator[tuple[Serving, httpx.Client, httpx.Client]]:
    """A server with two clients: the greedy one, and another."""
    tokens = folder / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"read {GREEDY} greedy\nread {OTHER} other\n", encoding="utf-8")
    with serving(folder / "store", token_file=tokens, archive_port=0, **named) as one:
        one.store.put_page(PAGE, f"<title>A page</title><p>{WORDS}".encode(), fetched_at=AT)
        greedy, other = (one.client(headers={"authorization": f"Bearer {token}"}) for token in (GREEDY, OTHER))
        yield one, greedy, other


class Gate:
    """Holds the calls of one kind until it is opened.

    Attributes:
        held: counts calls that have come to it.
    """

    def __init__(self) -> None:
        self._is_open = threading.Event()
        self._changed = threading.Condition()
        self.held = 0

    def wait(self) -> None:
        with self._changed:
            self.held += 1
            self._changed.notify_all()
        assert self._is_open.wait(60)

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.held >= count, 60)

    def open(self) -> None:
        self._is_open.set()


def hold(store: DocumentStore, name: str, gate: Gate, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold calls of a method of the store that are about a URL at the gate."""
    method = getattr(store, name)

    def call(*args: Any, **options: Any) -> Any:
        if url in (*args, *options.values()):
            gate.wait()
        return method(*args, **options)

    monkeypatch.setattr(store, name, call)


def hold_scans(store: DocumentStore, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold scans for captures of the long page at the gate."""
    table = store.table
    scan = table.scan_captures

    def scanned(start: bytes, end: bytes) -> Iterator[ScannedRow]:
        if b"long" in start:
            gate.wait()
        return scan(start, end)

    monkeypatch.setattr(table, "scan_captures", scanned)


KINDS = {
    "reads": ("history", READERS_OF_CLIENT, "GET", "/v1/history?url={}", None),
    "comparisons": ("similar", COMPARERS_OF_CLIENT, "POST", "/v1/similar", "url"),
    "streams": ("anchors", STREAMERS_OF_CLIENT, "GET", "/v1/anchors?url={}", None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_one_client_has_some_of_the_threads_and_another_is_answered_meanwhile(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, of_client, verb, path, field = KINDS[kind]
    gate = Gate()
    with shared(tmp_path) as (one, greedy, other), ThreadPoolExecutor(ASKED) as pool:
        one.store.put_page(LONG, f"<p>{WORDS} and more".encode(), fetched_at=AT)
        hold(one.store, method, gate, LONG, monkeypatch)

        def ask(client: httpx.Client, url: str) -> httpx.Response:
            return client.request(verb, path.format(url), json={field: url} if field else None)

        answers: list[Future[httpx.Response]] = [pool.submit(ask, greedy, LONG) for _ in range(ASKED)]
        gate.wait_for(of_client)
        assert ask(other, PAGE).status_code == 200, "a thread is left for it"
        assert other.get("/v1/page", params={"url": PAGE}).status_code == 200
        assert greedy.get("/v1/page", params={"url": PAGE}).status_code == 200, "a short page takes no thread"
        assert gate.held == of_client
        gate.open()
        assert {each.result().status_code for each in answers} == {200}, "the others have waited"


def test_one_client_of_the_archive_has_some_of_its_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    with shared(tmp_path) as (one, *_), ThreadPoolExecutor(ASKED) as pool, ExitStack() as stack:
        hold_scans(one.store, gate, monkeypatch)
        greedy, other = (
            stack.enter_context(
                httpx.Client(base_url=one.server.archive_url, timeout=60, headers={"authorization": f"Bearer {token}"})
            )
            for token in (GREEDY, OTHER)
        )
        answers = [pool.submit(greedy.get, f"/web/timemap/link/{LONG}") for _ in range(ASKED)]
        gate.wait_for(ArchiveSettings().threads // 2)
        assert other.get(f"/web/timemap/link/{PAGE}").status_code == 200
        assert other.get("/web/cdx", params={"url": PAGE}).status_code == 200
        assert gate.held == ArchiveSettings().threads // 2
        gate.open()
        assert {each.result().status_code for each in answers} == {404}


def test_waiting_requests_of_one_client_of_the_archive_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()

    async def ask(app: ArchiveApp, address: str, url: str) -> int:
        path = f"/web/timemap/link/{url}"
        scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "client": (address, 1)}
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await app(scope | {"headers": [(b"host", b"localhost")]}, asyncio.Event().wait, send)
        return int(sent[0]["status"])

    async def run(store: DocumentStore) -> None:
        app = ArchiveApp(store, ArchiveSettings(waiting=4))
        greedy = [asyncio.create_task(ask(app, "10.0.0.1", LONG)) for _ in range(3)]
        assert await greedy[2] == 503
        assert await ask(app, "10.0.0.2", PAGE) == 200
        gate.open()
        assert await asyncio.gather(*greedy[:2]) == [404, 404]
        app.close()

    with open_store(tmp_path / "store", create=True) as store:
        store.put_page(PAGE, b"<p>a page", fetched_at=AT)
        hold_scans(store, gate, monkeypatch)
        asyncio.run(run(store))


def test_requests_of_one_client_are_bounded_and_another_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    limits = Limits(requests=8, client_requests=4)
    with shared(tmp_path, limits=limits) as (one, greedy, other), ThreadPoolExecutor(4) as pool:
        for method in ("history", "similar"):
            hold(one.store, method, gate, PAGE, monkeypatch)
        answers = [pool.submit(greedy.get, "/v1/history", params={"url": PAGE}) for _ in range(2)]
        answers += [pool.submit(greedy.post, "/v1/similar", json={"url": PAGE}) for _ in range(2)]
        gate.wait_for(4)
        refused = greedy.get("/v1/page", params={"url": PAGE})
        assert refused.status_code == 429 and int(refused.headers["retry-after"]) > 0
        assert other.get("/v1/page", params={"url": PAGE}).status_code == 200
        gate.open()
        assert {each.result().status_code for each in answers} == {200}
        assert greedy.get("/v1/page", params={"url": PAGE}).status_code == 200


def test_streams_of_one_client_are_bounded_and_another_reads_one(tmp_path: Path) -> None:
    with shared(tmp_path, limits=Limits(streams=4)) as (one, greedy, other), ExitStack() as stack:
        pages = (Page(f"https://many.example/{number}", b"x" * 8000, 200, (), AT) for number in range(3000))
        assert not any(each.error for each in one.store.put_pages(pages))
        scan = {"spec": {"families": ["page"]}}
        for _ in range(2):
            answer = stack.enter_context(greedy.stream("POST", "/v1/cells/scan", json=scan))
            assert answer.status_code == 200, "it is not read to its end"
        refused = greedy.post("/v1/cells/scan", json=scan)
        assert refused.status_code == 429 and int(refused.headers["retry-after"]) > 0
        assert other.post("/v1/cells/scan", json=scan | {"limit": 1}).status_code == 200


def test_clients_begin_requests_in_turn() -> None:
    begun: list[str] = []

    async def ask(turns: Turns, client: str) -> None:
        await turns.begin(client)
        begun.append(client)

    async def run() -> None:
        turns = Turns(1)
        await asyncio.gather(*(ask(turns, client) for client in (*["greedy"] * 50, "other", "other", "third")))

    asyncio.run(run())
    assert len(begun) == 53
    assert begun.index("other") <= 2 and begun.index("third") <= 2
    assert [place for place, client in enumerate(begun) if client == "other"][1] <= 6


# --- what the event loop reads


def put_histories(store: DocumentStore) -> None:
    """Pages with many captures: of their own, visits that a 304 answered, and rejected ones."""
    copies = f"<title>A page</title><p>{WORDS}".encode()
    rows = {
        LONG: [Page(LONG, f"<p>{number} {WORDS}".encode(), 200, (), AT + number * SECOND) for number in range(MANY)],
        VISITED: [Page(VISITED, b"<p>seen", 200, (), AT)]
        + [Page(VISITED, b"", 304, (), AT + number * SECOND) for number in range(1, MANY)],
        REJECTED: [Page(REJECTED, copies, 200, (), AT + number * SECOND) for number in range(1, MANY)],
    }
    for pages in rows.values():
        policies = {"exact": "reject"} if pages[0].url == REJECTED else None
        assert not any(one.error for one in store.put_pages(pages, policies=policies))


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Serving, httpx.Client, httpx.Client]]:
    with shared(tmp_path_factory.mktemp("histories")) as (one, _, other):
        put_histories(one.store)
        with httpx.Client(
            base_url=one.server.archive_url, timeout=60, headers={"authorization": f"Bearer {OTHER}"}
        ) as archive:
            yield one, other, archive


READS = [
    ("GET", "/v1/page?url={}&versions=1000"),
    ("GET", "/v1/page?url={}&at=2020-09-13T12:30:00Z"),
    ("GET", "/v1/page?url={}&follow_duplicates=1&follow_redirects=1&variants=1"),
    ("HEAD", "/v1/page?url={}"),
    ("GET", "/v1/page/body?url={}"),
    ("GET", "/v1/page/markdown?url={}"),
    ("GET", "/v1/validators?url={}"),
    ("GET", "/v1/history?url={}"),
    ("GET", "/page?url={}"),
    ("GET", "/web/cdx?url={}"),
    ("GET", "/web/{}"),
    ("GET", "/web/timemap/link/{}"),
    ("GET", "/web/20200913123000id_/{}"),
]


@pytest.mark.parametrize("url", [LONG, VISITED, REJECTED])
@pytest.mark.parametrize(("verb", "path"), READS)
def test_the_event_loop_reads_few_cells_of_a_row_with_many_captures(
    histories: tuple[Serving, httpx.Client, httpx.Client],
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    verb: str,
    path: str,
) -> None:
    one, client, archive = histories
    engine = one.store.backend.engine
    read_row, scan = engine.read_row, engine.scan
    on_loop = [0]

    def noted(cells: list[Cell]) -> list[Cell]:
        if threading.current_thread() is one.thread:
            on_loop[0] += len(cells)
        return cells

    def scanned(*args: Any) -> Iterator[ScannedRow]:
        for row in scan(*args):
            noted(row.cells)
            yield row

    monkeypatch.setattr(engine, "read_row", lambda *args: noted(read_row(*args)))
    monkeypatch.setattr(engine, "scan", scanned)
    answer = (archive if path.startswith("/web") else client).request(verb, path.format(url))
    assert answer.status_code in (200, 302, 404), answer.text
    assert on_loop[0] <= 2 * SHORT_RECORDS


def test_versions_longer_than_an_answer_may_be_are_refused_before_they_are_read(tmp_path: Path) -> None:
    with serving(tmp_path / "store", limits=Limits(request_bytes=100_000)) as one:
        for number in range(20):
            one.store.put_page(PAGE, f"<p>{number}<!--{'x' * 20_000}-->".encode(), fetched_at=AT + number * SECOND)
        asked = {"url": PAGE, "families": "page"}
        refused = one.http.get("/v1/page", params={**asked, "versions": "20"})
        assert refused.status_code == 400 and "fewer versions" in refused.json()["error"]["message"]
        assert len(one.http.get("/v1/page", params={**asked, "versions": "4"}).json()["captures"]) == 4
        assert len(one.http.get("/v1/page", params={"url": PAGE, "versions": "20"}).json()["captures"]) == 20


def test_a_message_of_many_values_is_decoded_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []

    def noted(raw: bytes, media_type: str) -> Any:
        threads.append(threading.current_thread().name.startswith("docstore-read"))
        return wire.decode(raw, media_type)

    monkeypatch.setattr(messages, "decode", noted)
    with serving(tmp_path / "store") as one:
        for count in (10, 5000):
            assert one.http.post("/v1/collapse", json={"urls": [PAGE] * count}).status_code == 200
    assert threads == [False, True]


@pytest.mark.parametrize(
    "value",
    [
        {"text": '\ud83d\ude00\ud83d é"\\' * 500_000, "none": None, "list": [1, 2.5, True]},
        {"captures": [{"url": f"u{number}", "headers": [["a", "b" * 50]]} for number in range(20_000)], "empty": []},
        [["x" * (3 << 20), "", {}], {}],
    ],
    ids=["a long string", "many records", "nested"],
)
def test_a_long_answer_is_encoded_in_pieces_as_a_short_one_is_in_one(value: Any) -> None:
    assert to_json(value) == json.dumps(value, separators=(",", ":")).encode()
    assert from_msgpack(to_msgpack(value)) == value
