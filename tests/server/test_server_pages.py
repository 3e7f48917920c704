"""Pages over HTTP: written, read, listed; JSON and msgpack say the same."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard

import docstore
from docstore.model.types import Cell, Page, PutResult
from docstore.reading.documents import Document
from docstore.serving import app as replays
from docstore.serving.client import ROOM_BYTES, RemoteCells, RemoteStore
from docstore.serving.client_calls import endpoint_of
from docstore.serving.routes import MOST_SIMILAR
from docstore.serving.service import SHORT_BYTES
from docstore.serving.settings import Limits
from docstore.serving.wire import FrameKind, from_msgpack, read, to_msgpack
from tests.serving import Serving, frames_of, serving

WORDS = " ".join(f"word{number}" for number in range(80))
BODY = f"<html><title>Hello</title><p>{WORDS}".encode()
AT = 1_700_000_000_000_000
MSGPACK = {"content-type": "application/msgpack", "accept": "application/msgpack"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("served") / "store") as one:
        yield one


def put(served: Serving, url: str, body: bytes = BODY, **more: Any) -> dict[str, Any]:
    page = {"url": url, "body": body.decode(), "fetched_at": AT, **more}
    answer = served.http.post("/v1/page", json={"page": page})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_page_is_written_and_read_as_json(served: Serving) -> None:
    result = put(served, "https://one.example/", headers=[["Content-Type", "text/html"], ["ETag", '"1"']])
    assert (result["verdict"]["kind"], result["previous"], result["stored"]) == ("new", "none", "body")
    found = served.http.get("/v1/page", params={"url": "https://one.example/"})
    assert found.json()["url"] == "https://one.example/" and found.json()["captures"][0]["title"] == "Hello"
    assert "body" not in found.json()["captures"][0], "JSON shows no body unless it is asked for"
    with_body = served.http.get("/v1/page", params={"url": "https://one.example/", "families": "page"})
    assert with_body.json()["captures"][0]["body"] == BODY.decode()
    again = served.http.get(
        "/v1/page", params={"url": "https://one.example/"}, headers={"if-none-match": found.headers["etag"]}
    )
    assert again.status_code == 304 and again.content == b""
    validators = served.http.get("/v1/validators", params={"url": "https://one.example/"})
    assert validators.json() == {"etag": '"1"', "last_modified": "", "last_visit": "2023-11-14T22:13:20Z"}
    assert served.http.head("/v1/page", params={"url": "https://one.example/"}).status_code == 200
    assert served.http.head("/v1/page", params={"url": "https://none.example/"}).status_code == 404


@pytest.mark.parametrize("families", [None, "page", "http,text", "page,http,text,dedup"])
def test_a_short_page_is_read_at_once_and_its_row_once(
    served: Serving, monkeypatch: pytest.MonkeyPatch, families: str | None
) -> None:
    """Its row was read before, to see how long it is."""
    short, long = "https://short.example/", "https://long.example/body"
    put(served, short)
    put(served, long, f"<title>Long</title><p>{WORDS}<!--{'x' * SHORT_BYTES}-->".encode())
    engine = served.store.backend.engine
    newest = engine.newest
    in_thread: list[bool] = []

    def noted(table: str, *rest: Any) -> Cell | None:
        if table == "pages":
            in_thread.append(threading.current_thread().name.startswith("docstore-read"))
        return newest(table, *rest)

    monkeypatch.setattr(engine, "newest", noted)
    asked = {} if families is None else {"families": families}
    found = served.http.get("/v1/page", params={"url": short, **asked})
    assert (found.status_code, in_thread) == (200, [False])
    in_thread.clear()
    found = served.http.get("/v1/page", params={"url": long, **asked}, headers={"accept": "application/msgpack"})
    wanted = None if families is None else tuple(families.split(","))
    document = read(Document, from_msgpack(found.content))
    monkeypatch.undo()
    assert document == served.store.get(long, families=wanted)
    has_body = document.body is not None
    # where the body is not asked for it takes no time
    assert in_thread == ([False, True] if has_body else [False])


def test_msgpack_gives_what_python_gives(served: Serving) -> None:
    page = Page("https://two.example/", bytes(range(256)), 200, (("X", "caf\udce9"),), AT, docno="d-1")
    sent = to_msgpack({"pages": [page, Page("no url", b"x")]})
    answer = served.http.post("/v1/pages", content=sent, headers=MSGPACK)
    results = read(list[PutResult], from_msgpack(answer.content)["results"])
    assert [one.stored for one in results] == ["body", "refused"] and results[1].error
    found = served.http.get("/v1/page", params={"url": page.url}, headers=MSGPACK)
    document = read(Document, from_msgpack(found.content))
    assert document == served.store.get(page.url) and document.body == page.body
    line, end = served.http.get("/v1/find", params={"docno": "d-1", "limit": "1"}).text.splitlines()
    assert json.loads(line)["url"] == page.url
    after = json.loads(end)["end"]["next"]
    assert len(served.http.get("/v1/find", params={"docno": "d-1", "after": after}).text.splitlines()) == 1


def test_a_body_is_put_by_curl_and_given_as_data(served: Serving) -> None:
    answer = served.http.put(
        "/v1/page",
        params={"url": "https://three.example/x", "header": ["ETag: abc"], "policy": "exact=flag", "fetched_at": AT},
        content=b"<script>alert(1)</script>",
        headers={"content-type": "text/html"},
    )
    assert answer.json()["stored"] == "body"
    document = served.store.get("https://three.example/x")
    assert document is not None and document.newest.headers == (("ETag", "abc"), ("Content-Type", "text/html"))
    body = served.http.get("/v1/page/body", params={"url": "https://three.example/x"})
    assert body.content == b"<script>alert(1)</script>"
    assert body.headers["content-type"] == "application/octet-stream"
    assert body.headers["content-disposition"] == "attachment"
    assert body.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in body.headers["content-security-policy"]


def test_many_pages_are_read_as_frames_and_as_lines(served: Serving) -> None:
    put(served, "https://four.example/")
    wanted = ["https://four.example/", "https://none.example/"]
    for headers in ({}, {"accept-encoding": "zstd"}):
        answer = served.http.post(
            "/v1/pages/get", json={"urls": wanted}, headers={"accept": "application/vnd.docstore.frames", **headers}
        )
        items = [item for kind, value in frames_of(answer.content) if kind is FrameKind.ITEMS for item in value]
        assert read(list[Document | None], items) == [served.store.get(wanted[0]), None]
    lines = served.http.post("/v1/pages/get", json={"urls": wanted}).text.splitlines()
    assert len(lines) == 3 and lines[1] == "null" and lines[2] == '{"end":{"count":2}}'


def test_a_listing_resumes_after_a_key(served: Serving) -> None:
    for number in range(5):
        put(served, f"https://five.example/{number}")
    seen: list[str] = []
    after = ""
    while True:
        answer = served.http.get("/v1/urls", params={"host": "five.example", "limit": 2, "after": after})
        *items, end = map(json.loads, answer.text.splitlines())
        seen += [one["url"] for one in items]
        if "next" not in end["end"]:
            break
        after = end["end"]["next"]
    assert seen == [f"https://five.example/{number}" for number in range(5)]


def test_a_page_is_deleted(served: Serving) -> None:
    put(served, "https://six.example/")
    assert served.http.delete("/v1/page", params={"url": "https://six.example/"}).json() == {"deleted": True}
    assert served.http.delete("/v1/page", params={"url": "https://six.example/"}).json() == {"deleted": False}
    gone = served.http.get("/v1/page", params={"url": "https://six.example/"})
    assert gone.status_code == 404 and gone.json()["error"]["class"] == "Absent"


def test_what_python_asks_can_be_asked(served: Serving) -> None:
    put(served, "https://seven.example/a")
    put(served, "https://seven.example/b")
    similar = served.http.post("/v1/similar", json={"url": "https://seven.example/a"}).json()["similar"]
    assert "https://seven.example/b" in [one["url"] for one in similar]
    assert served.http.post("/v1/similar", json={"body": BODY.decode()}).json()["similar"]
    assert served.http.post("/v1/similar", json={}).status_code == 400
    urls = ["https://seven.example/a", "https://seven.example/b", "https://nowhere.example/"]
    assert served.http.post("/v1/collapse", json={"urls": urls}).json()["urls"] == served.store.collapse(urls)
    snippets = served.http.post("/v1/snippets", json={"urls": urls, "query": "word3"}).json()["snippets"]
    assert snippets[0]["passages"] and snippets[2] is None
    link = {"target_url": urls[0], "source_url": "https://eight.example/", "text": "seven", "seen_at": AT}
    assert served.http.post("/v1/anchors", json=link).json() == {}
    lines = served.http.get("/v1/anchors", params={"url": urls[0]}).text.splitlines()
    assert json.loads(lines[0])["value"] == "seven"
    assert len(served.http.get("/v1/history", params={"url": urls[0]}).json()["captures"]) == 1
    dry = served.http.post("/v1/page", json={"page": {"url": "https://dry.example/", "body": "x"}, "dry_run": True})
    assert dry.json()["stored"] == "body" and "https://dry.example/" not in served.store
    for path in ("/v1", "/v1/schema", "/v1/stats", "/v1/codec-stats", "/v1/stored-bytes", "/v1/lost", "/healthz"):
        assert served.http.get(path).status_code == 200, path
    assert "docstore_pages_total" in served.http.get("/metrics").text


def test_the_store_is_locked_and_says_where_to_ask(served: Serving, tmp_path: Path) -> None:
    assert served.local.get("/v1").json()["role"] == "admin"
    lock = (Path(served.store.backend.path) / "LOCK").read_text()
    assert f"unix:{served.server.unix}" in lock
    assert served.server.unix.stat().st_mode & 0o777 == 0o600


def test_a_key_makes_a_write_that_is_sent_again_the_same_write(served: Serving) -> None:
    boot = served.http.get("/v1").json()["boot"]
    rule = {
        "url": "https://key.example/",
        "rules": [{"type": "append", "family": "anchor", "qualifier": "n", "value": "x"}],
    }
    answers = [
        served.http.post("/v1/cells/read-modify-write", json=rule, headers={"idempotency-key": f"{boot}.{name}"})
        for name in ("first-key", "first-key", "other-key")
    ]
    assert [one.json()["cells"][0]["value"] for one in answers] == ["x", "x", "xx"]
    assert [one.headers.get("idempotent-replay") for one in answers] == [None, "true", None]
    headers = {"idempotency-key": f"{boot}.first-key"}
    other = served.http.post("/v1/cells/read-modify-write", json=rule | {"url": "https://k.example/"}, headers=headers)
    assert other.status_code == 409 and other.json()["error"]["class"] == "InvalidArgument"
    earlier = {"idempotency-key": "0123456789abcdef.first-key"}
    unknown = served.http.post("/v1/cells/read-modify-write", json=rule, headers=earlier)
    assert unknown.status_code == 409 and unknown.json()["error"]["class"] == "CommitUnknown"
    bad = served.http.post("/v1/cells/apply", json={"rows": []}, headers={"idempotency-key": "a b"})
    assert bad.status_code == 400


@pytest.mark.parametrize("why", ["too long to be kept", "dropped for later ones"])
def test_a_write_whose_answer_is_not_kept_is_not_done_twice(
    served: Serving, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    url = f"https://twice.example/{len(why)}"
    headers = {"idempotency-key": f"key-of-{len(why)}", "accept-encoding": "identity"}

    def append(value: str, key: dict[str, str]) -> Any:
        rule = {"type": "append", "family": "anchor", "qualifier": "n", "value": value}
        return served.http.post("/v1/cells/read-modify-write", json={"url": url, "rules": [rule]}, headers=key)

    value = "x" * (5 << 20 if why == "too long to be kept" else 10)
    assert append(value, headers).status_code == 200
    if why == "dropped for later ones":
        monkeypatch.setattr(replays, "MOST_BYTES", 1000)
        later = "https://later.example/"
        for number in range(20):
            key = {"idempotency-key": f"later-key-{number}"}
            body = {"url": later, "rules": [{"type": "append", "family": "anchor", "qualifier": "m", "value": "x"}]}
            assert served.http.post("/v1/cells/read-modify-write", json=body, headers=key).status_code == 200
    for _ in range(2):
        again = append(value, headers)
        assert again.status_code == 409 and again.json()["error"]["class"] == "CommitUnknown"
    row = served.store.cells.read_row(url)
    assert row is not None and row.cells[0].value == value.encode(), "it is applied once"


def test_a_page_whose_answer_is_not_kept_is_known_when_it_is_sent_again(
    served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replays, "LONGEST_ANSWER_BYTES", 10)
    page = {"page": {"url": "https://again.example/", "body": "text", "fetched_at": AT}}
    headers = {"idempotency-key": "key-of-a-page"}
    answers = [served.http.post("/v1/page", json=page, headers=headers).json() for _ in range(2)]
    assert [one["stored"] for one in answers] == ["body", "known"]


def test_keys_are_remembered_for_ten_minutes_and_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "LONGEST_ANSWER_BYTES", 1)
    monkeypatch.setattr(replays, "MOST_KEYS", 1)
    rules = [{"type": "append", "family": "anchor", "qualifier": "n", "value": "x"}]
    ask = {"url": "https://minutes.example/", "rules": rules}

    def status(name: str) -> int:
        headers = {"idempotency-key": f"minutes-{name}"}
        return served.http.post("/v1/cells/read-modify-write", json=ask, headers=headers).status_code

    with serving(tmp_path / "store") as served:
        assert [status(name) for name in ("one", "one", "two")] == [200, 409, 429], "no more keys than have room"
        monkeypatch.setattr(replays, "KEEP_SECONDS", -1.0)
        assert [status(name) for name in ("one", "two")] == [200, 200], "their time is over"


def test_a_key_with_another_body_of_the_same_length_is_refused(served: Serving) -> None:
    headers = {"idempotency-key": "one-key-for-two"}
    url = {"url": "https://two.example/"}
    bodies = (b"first", b"other", b"first")
    answers = [served.http.put("/v1/page", params=url, content=body, headers=headers) for body in bodies]
    assert [one.status_code for one in answers] == [200, 409, 200]
    assert answers[2].content == answers[0].content and answers[2].headers["idempotent-replay"] == "true"
    packed = [zstandard.compress(body) for body in (b"first" * 50, b"other" * 50)]
    headers = {"idempotency-key": "one-key-for-zstd", "content-encoding": "zstd"}
    answers = [served.http.put("/v1/page", params=url, content=body, headers=headers) for body in packed]
    assert [one.status_code for one in answers] == [200, 409]


def test_the_openapi_names_every_route(served: Serving) -> None:
    made = served.http.get("/v1/openapi.json").json()
    assert made["openapi"].startswith("3.1") and "/v1/cells/scan" in made["paths"]
    page = made["components"]["schemas"]["Page"]
    assert page["required"] == ["url", "body"] and "docno" in page["properties"]
    for path, operations in made["paths"].items():
        for operation in operations.values():
            assert operation["description"].startswith("Needs the role"), path


def test_a_call_is_described_by_the_signature_of_the_method_of_the_store(served: Serving) -> None:
    """Of each call that the client lists in one line, route, parameters and role come from that line."""
    made = served.http.get("/v1/openapi.json").json()["paths"]
    listed = [
        found for one in (*vars(RemoteStore).values(), *vars(RemoteCells).values()) if (found := endpoint_of(one))
    ]
    assert len(listed) > 10
    for one in listed:
        operation = made[one.path][one.verb.lower()]
        message = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        names = [*(parameter["name"] for parameter in operation.get("parameters", ())), *message.get("properties", {})]
        assert names == [parameter.name for parameter in one.parameters], one.path
        assert one.role.name.lower() in operation["description"], one.path
    similar = made["/v1/similar"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert [*similar] == ["url", "body", "threshold", "limit"], "a URL and a body are one argument in Python"


def test_a_row_is_named_by_its_url_or_its_key_and_by_one_of_them(served: Serving) -> None:
    put(served, "https://named.example/")
    key = served.store.cells.row_key("https://named.example/").decode()
    found = [served.http.post("/v1/cells/read", json=row).json()["row"]["url"] for row in (
        {"url": "https://named.example/"}, {"row_key": key},
    )]  # fmt: skip
    assert found == ["https://named.example/"] * 2
    for wrong in ({}, {"url": "https://named.example/", "row_key": key}):
        answer = served.http.post("/v1/cells/read", json=wrong)
        assert answer.status_code == 400 and "url or row_key: one of them" in answer.text


def test_markdown_of_a_page_is_served(served: Serving) -> None:
    body = "<h1>Walks</h1><p>" + " ".join(f"walk{number}" for number in range(90)) + " <a href=x>on</a>"
    url = "https://markdown.example/a/"
    served.store.put_page(url, body.encode(), headers=(("Content-Type", "text/html"),), fetched_at=AT)
    made = served.http.get("/v1/page/markdown", params={"url": url}).json()["markdown"]
    assert made.startswith("# Walks\n\nwalk0 ") and made.endswith("[on](https://markdown.example/a/x)\n")
    assert served.store.markdown(url) == made and served.store.markdown(url, at=AT - 1) is None
    assert served.http.get("/v1/page/markdown", params={"url": "https://absent.example/"}).status_code == 404


def test_pages_are_judged_without_storing_their_bodies(served: Serving) -> None:
    words = " ".join(f"elsewhere{number}" for number in range(90))
    pages = [{"url": f"https://ten.example/{number}", "body": f"<p>{words}", "fetched_at": AT} for number in range(2)]
    for page in pages:
        page["headers"] = [["Content-Type", "text/html"]]
    results = served.http.post("/v1/pages", json={"pages": pages, "keep_body": False}).json()["results"]
    assert [(one["verdict"]["kind"], one["stored"]) for one in results] == [("new", "text"), ("exact", "text")]
    found = served.http.get("/v1/page", params={"url": "https://ten.example/0", "families": "page,text"}).json()
    assert "body" not in found["captures"][0] and found["captures"][0]["text"] == words
    assert served.http.get("/v1/page/body", params={"url": "https://ten.example/0"}).status_code == 404


def test_a_rejected_page_is_absent_with_its_reason(served: Serving) -> None:
    for name in "ab":
        url = f"https://rejected.example/{name}"
        answer = served.http.post(
            "/v1/page",
            json={
                "page": {"url": url, "body": BODY.decode() + "rejected", "fetched_at": AT},
                "policies": {"exact": "reject"},
            },
        )
    assert answer.json()["stored"] == "rejected"
    gone = served.http.get("/v1/page", params={"url": url})
    assert gone.status_code == 404 and gone.json()["error"]["class"] == "Absent"
    assert "rejected as exact of https://rejected.example/a" in gone.json()["error"]["message"]
    assert (
        "rejected as" not in served.http.get("/v1/page", params={"url": url, "at": AT - 1}).json()["error"]["message"]
    )
    found = served.http.get("/v1/page", params={"url": url, "follow_duplicates": True})
    assert (found.status_code, found.json()["via"]) == (200, [url])


@pytest.mark.parametrize("limits", [Limits(urls=2), Limits(call_bytes=ROOM_BYTES + 70)])
def test_results_in_parts_are_the_results_of_one_call(tmp_path: Path, limits: Limits) -> None:
    def body(name: str) -> bytes:
        return f"<title>{name}</title><p>{' '.join(f'{name}{n}' for n in range(80))}<p>same".encode()

    with serving(tmp_path / "store", limits=limits) as one:
        for name, text in (("a", "x"), ("b", "y"), ("c", "x"), ("d", "z"), ("e", "y")):
            one.store.put_page(f"https://{name}.example/", body(text), fetched_at=AT)
        urls = [f"https://{name}.example/" for name in ("a", "none", "b", "c", "d", "e", "a")]
        whole = one.store.collapse(urls)
        assert whole == [f"https://{name}.example/" for name in ("a", "none", "b", "d")]

        with docstore.connect(one.server.url) as store:
            assert store.collapse(iter(urls)) == whole
            assert store.collapse([]) == []
            assert store.snippets(iter(urls), "x1") == one.store.snippets(urls, "x1")
            assert [found and found.url for found in store.get_many(urls)] == [
                None if "none" in url else url for url in urls
            ]
            many = [f"https://{number}.example/{'x' * 2000}" for number in range(5)]
            assert store.snippets(many, "x", length=1 << 23) == [None] * 5, "as many as one answer may hold"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "lacks url"),
        ("url=https://a.example/&url=https://b.example/", "given twice"),
        ("url=https://a.example/&at=yesterday", "ISO 8601"),
        ("url=https://a.example/&versions=1001", "from 1 to 1000"),
        ("url=https://a.example/&versions=+1", "a whole number"),
        ("url=https://a.example/&variants=perhaps", "true or false"),
        ("url=https://a.example/%ff", "not UTF-8"),
    ],
)
def test_a_wrong_query_is_refused_with_the_parameter(served: Serving, query: str, words: str) -> None:
    answer = served.http.get(f"/v1/page?{query}")
    assert answer.status_code == 400 and words in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "target", "words"),
    [
        ("GET", "/v1/page?url=https://a.example/&fetched=5", "no parameter 'fetched' here: its parameters are url, at"),
        ("PUT", "/v1/page?url=https://a.example/&fetched-at=5", "no parameter 'fetched-at' here"),
        ("PUT", "/v1/page?URL=https://a.example/", "no parameter 'URL' here"),
        ("GET", "/v1/search?q=words", "no parameter 'q' here"),
        ("GET", "/v1/schema?url=https://a.example/", "it takes none in the query"),
        ("POST", "/v1/page?dry_run=1", "its parameters are fields of its message"),
        ("DELETE", "/v1/page?url=https://a.example/&purged=1", "no parameter 'purged' here"),
        ("GET", "/v1/jobs/1?name=2", "no parameter 'name' here"),
        ("PUT", "/v1/page?url=https://a.example/?a=1&at=5", "url has a bare ? and a & after it"),
        ("PUT", "/v1/page?u%72l=https://a.example/?a=1&crawl=5", "url has a bare ? and a & after it"),
        (
            "PUT",
            "/v1/page?url=https://a.example/&policy=exact=reject&policy=exact=flag",
            "two policies for one of 'exact'",
        ),
        ("DELETE", "/v1/page?url=https://a.example/&purge=true&compact=true", "start the job `compact`"),
        ("DELETE", "/v1/page?url=https://a.example/&compact=true", "start the job `compact`"),
        ("PUT", "/v1/page?url=https://a.example/?a=1&status=200", "url has a bare ? and a & after it"),
        ("GET", "/v1/page?url=https://a.example/?a=1&at=5", "write the ? of a URL as %3F"),
        ("GET", "/v1/urls?prefix=https://a.example/?a&limit=5", "prefix has a bare ?"),
        ("GET", "/v1/page/body?url=https://a.example/?&at=5", "url has a bare ?"),
    ],
)
def test_what_a_route_would_not_read_as_it_is_meant_is_refused(
    served: Serving, method: str, target: str, words: str
) -> None:
    answer = served.http.send(httpx.Request(method, f"{served.server.url}{target}", content=BODY))
    assert (answer.status_code, words in answer.text) == (400, True), answer.text
    assert served.store.get("https://a.example/?a=1") is None


@pytest.mark.parametrize(
    "target",
    [
        "/v1/page/body?url=https%3A%2F%2Fa.example%2F%3Fa%3D1%26b%3D2&at=9000000000000000",
        "/v1/page/body?at=9000000000000000&url=https://a.example/%3Fa=1%26b=2",
        "/v1/page/body?at=9000000000000000&url=https://a.example/?a=1%26b=2",
        "/v1/page/body?url=https://a.example/?a=1%26b=2",
    ],
)
def test_a_url_with_a_query_is_read_to_its_end(served: Serving, target: str) -> None:
    put(served, "https://a.example/?a=1&b=2")
    assert served.http.send(httpx.Request("GET", f"{served.server.url}{target}")).content == BODY


def test_monitors_may_send_names_of_their_own(served: Serving) -> None:
    assert served.http.get("/healthz?t=1700000000").status_code == 200


def test_a_wrong_path_or_method_is_named(served: Serving) -> None:
    absent, wrong = served.http.get("/v1/nothing"), served.http.patch("/v1/page")
    assert absent.status_code == 404 and "/v1/openapi.json" in absent.json()["error"]["message"]
    assert wrong.status_code == 405 and set(wrong.headers["allow"].split(", ")) == {
        "GET",
        "PUT",
        "POST",
        "HEAD",
        "DELETE",
    }


def test_similar_pages_are_asked_for_within_bounds(served: Serving) -> None:
    answer = served.http.post("/v1/similar", json={"body": "x", "limit": MOST_SIMILAR + 1})
    assert answer.status_code == 400 and f"at most {MOST_SIMILAR}" in answer.text
