"""One interface: a store of this process, and one that a server holds, answer every call in the same way."""

from __future__ import annotations

import asyncio
import datetime
import inspect
import json
import re
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import pytest

import docstore
from docstore.model.capture import decode_note
from docstore.model.choices import VerdictKind
from docstore.model.types import (
    Append,
    Cell,
    Condition,
    DeleteCells,
    DeleteFamily,
    DeleteRow,
    Increment,
    Note,
    Page,
    Policy,
    ReadSpec,
    Schema,
    SetCell,
)
from docstore.notes.annotate import Annotator, annotate, find_annotator
from docstore.reading.cells import CellStore
from docstore.serving.client import RemoteCells, RemoteStore, connect
from docstore.store import DocumentStore, open_store
from tests.serving import serving

AT = 1_700_000_000_000_000
DAY = 86_400_000_000
SCHEMA = Schema(families=(docstore.ColumnFamily("notes"),))

INSIDE = {
    "backend",
    "search_index",
    "dry_run",
    "post_again",
    "apply_duplicates",
    "put_prepared",
    "submit_page",
    "table",
    "committer",
    "repair",
} | {"set_computed", "changes", "readable"}
"""What tools of this package use of an embedded store; no server gives it away."""
OUTSIDE = {"about", "run_job"}
"""What only a server has."""


def public(kind: type) -> set[str]:
    special = {"__contains__", "__enter__", "__exit__", "__len__", "__iter__", "__bool__"} & set(dir(kind))
    return {name for name in dir(kind) if not name.startswith("_")} | special


@pytest.mark.parametrize(("embedded", "remote"), [(DocumentStore, RemoteStore), (CellStore, RemoteCells)])
def test_both_have_the_same_methods_with_the_same_arguments(embedded: type, remote: type) -> None:
    assert public(embedded) - INSIDE - public(remote) == set()
    assert public(remote) - public(embedded) - OUTSIDE - {"schema", "lost", "cells", "clusters", "unreadable"} == set()
    for name in sorted(public(embedded) & public(remote)):
        one, other = getattr(embedded, name), getattr(remote, name)
        if callable(one):
            assert inspect.signature(one) == inspect.signature(other), name


# --- the same behaviour


@pytest.fixture(scope="module", params=["embedded", "remote over tcp", "remote over a socket"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def shared(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from made(kind, tmp_path_factory.mktemp("shared") / "store")


@pytest.fixture
def store(shared: Any) -> Any:
    """For tests that look at the pages of their own site alone."""
    return shared


@pytest.fixture
def own(kind: str, tmp_path: Any) -> Iterator[Any]:
    yield from made(kind, tmp_path / "store")


def made(kind: str, folder: Any) -> Iterator[Any]:
    open_store(folder, create=True, schema=SCHEMA).close()
    if kind == "embedded":
        with open_store(folder) as opened:
            yield opened
    else:
        with serving(folder) as served:
            url = served.server.url if kind == "remote over tcp" else f"unix:{served.server.unix}"
            with connect(url) as connected:
                yield connected


def body(name: str, words: int = 120, *, changed: int = 0) -> bytes:
    """A page of its own, of which the first words are others."""
    text = " ".join(f"{name}{number if number >= changed else number + 10_000}" for number in range(words))
    return f"<html><title>{name}</title><body><p>{text}</p></body></html>".encode()


HTML = (("Content-Type", "text/html; charset=utf-8"),)


def test_a_page_is_written_judged_and_read(store: Any) -> None:
    first = store.put_page("https://judged.example/a", body("judged"), headers=HTML, fetched_at=AT)
    assert (first.url, first.timestamp, first.stored) == ("https://judged.example/a", AT, "body")
    assert first.verdict.kind is VerdictKind.NEW
    copy = store.put_page("https://judged.example/b", body("judged"), headers=dict(HTML), fetched_at=AT)
    assert (copy.verdict.kind, copy.verdict.of_url) == (VerdictKind.EXACT, "https://judged.example/a")
    near = store.put_page("https://judged.example/c", body("judged", changed=4), headers=HTML, fetched_at=AT)
    assert near.verdict.kind is VerdictKind.NEAR and 0.8 <= near.verdict.similarity < 1
    document = store.get("https://judged.example/a")
    assert (document.body, document.title, document.status) == (body("judged"), "judged", 200)
    assert document.newest.headers == HTML and document.newest.verdict.kind is VerdictKind.NEW
    assert "https://judged.example/a" in store and "https://judged.example/none" not in store
    assert store.get("https://judged.example/none") is None
    again = store.put_page("https://judged.example/a", body("judged"), headers=HTML, fetched_at=AT)
    assert (again.stored, again.known_as) == ("known", "body")


def test_a_store_is_counted_and_iterated_in_row_key_order(own: Any) -> None:
    assert bool(own) and len(own) == 0
    urls = [f"https://{host}/{number}" for host in ("b.example", "a.example", "www.a.example") for number in (2, 1)]
    for url in urls:
        own.put_page(url, body(url), headers=HTML, fetched_at=AT)
    own.put_page(urls[0], body("again"), headers=HTML, fetched_at=AT + DAY)
    own.delete(urls[1])
    own.add_anchor("https://c.example/", urls[0], "text of a link to a page that is not stored", AT)
    left = ["https://a.example/1", "https://a.example/2", "https://www.a.example/1", "https://www.a.example/2", urls[0]]
    assert (list(own), len(own)) == (left, 5)
    assert list(own.urls(host="a.example")) == left[:2]
    assert list(own.urls(prefix="https://www.a.example/2")) == [left[3]]
    for wrong in ({"prefix": 5}, {"host": "a.example", "prefix": "https://a.example/"}):
        with pytest.raises(docstore.InvalidArgument):
            list(own.urls(**wrong))


def test_a_page_has_short_names_and_one_line(store: Any) -> None:
    url = "https://names.example/"
    store.put_page(url, body("names"), headers=HTML, fetched_at=AT)
    found = store.get(url)
    assert isinstance(found, docstore.Document)
    assert (found.headers, found.media_type, found.verdict.kind) == (HTML, "text/html", "new")
    for value in (found, found.newest, store, Page(url, b"x" * 10_000)):
        assert "\n" not in repr(value) and len(repr(value)) < 160, repr(value)
    assert repr(found).startswith("<Document https://names.example/ 2023-11-14T22:13:20Z status 200 'names'")


def test_results_are_plain_data_with_times_in_iso(store: Any) -> None:
    one, other = "https://plain.example/", "https://plain.example/copy"
    store.put_page(one, body("plain"), headers=HTML, fetched_at=AT)
    result = store.put_page(other, body("plain"), headers=HTML, fetched_at=AT + DAY)
    found = store.get(other)
    for value in (result, result.verdict, found, found.newest, store.similar(one)[0], store.snippet(one, "plain1")):
        assert json.loads(json.dumps(value.asdict())) == value.asdict()
    assert result.asdict()["timestamp"] == "2023-11-15T22:13:20Z"
    assert found.asdict()["captures"][0]["verdict"] == result.asdict()["verdict"]
    assert result.asdict()["verdict"]["of_timestamp"] == "2023-11-14T22:13:20Z"
    assert store.get(other, at=result.asdict()["timestamp"]) == found, "what is printed is taken"


@pytest.mark.parametrize("kind_of_bytes", [bytearray, memoryview])
def test_a_body_may_be_any_bytes(store: Any, kind_of_bytes: Any) -> None:
    url = f"https://{kind_of_bytes.__name__}.example/"
    store.put_page(url, kind_of_bytes(body("bytes")), headers=HTML)
    list(store.put_pages([(f"{url}2", kind_of_bytes(body("bytes"))), Page(f"{url}3", kind_of_bytes(body("bytes")))]))
    assert {store.get(each).body for each in (url, f"{url}2", f"{url}3")} == {body("bytes")}
    assert store.similar(kind_of_bytes(body("bytes")))


WRONG_TYPES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("put_page", {"url": 5}),
    ("put_page", {"url": "https://a.example/", "body": "text"}),
    ("put_page", {"url": "https://a.example/", "headers": 7}),
    ("put_page", {"url": "https://a.example/", "fetched_at": []}),
    ("put_page", {"url": "https://a.example/", "keep_body": "no"}),
    ("put_pages", {"pages": 5}),
    ("put_pages", {"pages": [], "threads": "2"}),
    ("get", {"url": None}),
    ("get", {"url": "https://a.example/", "variants": 1}),
    ("get_many", {"urls": "https://a.example/"}),
    ("similar", {"page": 5}),
    ("similar", {"page": b"x", "limit": "1"}),
    ("snippets", {"urls": ["https://a.example/"], "query": 5}),
    ("compact", {"tablets": 5}),
    ("backup", {"folder": 5}),
)
"""Methods and arguments, the last of which has a wrong type."""


def test_a_wrong_type_names_its_argument(store: Any) -> None:
    for method, arguments in WRONG_TYPES:
        name, value = list(arguments.items())[-1]
        with pytest.raises(docstore.InvalidArgument) as refused:
            getattr(store, method)(**arguments)
        assert re.match(f"{name} must be .*, not {type(value).__name__}", str(refused.value)), (method, arguments)


def test_versions_and_history_are_the_same(store: Any) -> None:
    for number in range(4):
        store.put_page("https://versions.example/", body("versions", changed=number), fetched_at=AT + number * DAY)
    found = store.get("https://versions.example/", versions=3)
    assert [one.timestamp for one in found.captures] == [AT + number * DAY for number in (3, 2, 1)]
    when = datetime.datetime.fromtimestamp((AT + DAY) / 1e6, datetime.UTC)
    assert store.get("https://versions.example/", at=when).timestamp == AT + DAY
    assert store.get("https://versions.example/", at=AT - 1) is None
    history = store.history("https://versions.example/")
    assert [one.timestamp for one in history] == [AT + number * DAY for number in (3, 2, 1, 0)]
    assert history[0].body is None and history[0].status == 200
    only = store.get("https://versions.example/", families=("http",))
    assert (only.status, only.body, only.text) == (200, None, None)
    assert store.history("https://versions.example/none") == []


def test_a_rejected_page_is_in_its_history_and_served_by_the_other(store: Any) -> None:
    url, copy = "https://rejected.example/a", "https://rejected.example/b"
    store.put_page(url, body("rejected"), headers=HTML, fetched_at=AT)
    store.put_page(copy, body("rejected"), headers=HTML, fetched_at=AT + DAY, policies={"exact": "reject"})
    assert store.get(copy) is None and store.snippet(copy) is None
    (only,) = store.history(copy)
    assert (only.timestamp, only.newest.verdict.stored, only.newest.shown_verdict.of_url) == (AT + DAY, "rejected", url)
    found = store.get(copy, follow_duplicates=True)
    assert (found.url, found.via, found.body) == (url, (copy,), body("rejected"))
    assert len(store.get(copy, follow_duplicates=True, versions=2).captures) == 1


def test_a_304_has_the_verdict_of_what_it_confirms(store: Any) -> None:
    url, copy = "https://unmodified.example/a", "https://unmodified.example/b"
    for one in (url, copy):
        store.put_page(one, body("unmodified"), headers=HTML, fetched_at=AT)
    answer = store.put_page(copy, status=304, fetched_at=AT + DAY)
    assert (answer.verdict.kind, answer.verdict.of_url, answer.verdict.reason) == (
        VerdictKind.EXACT,
        url,
        "not_modified",
    )


def test_variants_are_of_the_other_normal_form_too(store: Any) -> None:
    store.put_page("https://forms.example/M%C3%BCnchen", body("forms"), headers=HTML, fetched_at=AT)
    typed = "https://forms.example/Mu\u0308nchen"
    assert store.get(typed) is None
    assert store.get(typed, variants=True).url == "https://forms.example/M%C3%BCnchen"


def test_notes_stand_next_to_their_capture_and_are_computed_once(own: Any) -> None:
    for name in ("a", "b"):
        own.put_page(f"https://noted.example/{name}", body(name), headers=HTML, fetched_at=AT)
    note = Note("https://noted.example/a", AT, "said", b"\xff one")
    gone = note._replace(url="https://noted.example/none")
    assert own.cells.put_notes([note, gone]) == 1 and own.cells.put_notes([note]) == 0
    assert own.cells.put_notes([note._replace(url=own.cells.row_key(note.url), value=None)]) == 1
    with pytest.raises(docstore.InvalidArgument, match="name"):
        own.cells.put_notes([note._replace(name="")])
    length = Annotator("length", "1", lambda document: {"length": len(document.text or "")})
    assert annotate(own, length).written == 2 and annotate(own, length).written == 0
    rows = own.cells.scan(spec=ReadSpec(("note",), b"length"))
    assert [decode_note(row.cells[0].value)["length"] > 100 for row in rows] == [True, True]
    assert annotate(own, find_annotator("links", own, {})).written == 2


def test_a_visit_gives_validators(store: Any) -> None:
    url = "https://visits.example/"
    headers = (("ETag", '"v1"'), ("Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT"))
    store.put_page(url, body("visits"), headers=headers, fetched_at=AT)
    assert store.put_page(url, status=304, fetched_at=AT + DAY).stored == "confirmed"
    assert store.validators(url) == {"etag": '"v1"', "last_modified": headers[1][1], "last_visit": AT + DAY}
    store.put_page(url, status=304, headers=(("ETag", '"v2"'),), fetched_at=AT + 2 * DAY)
    assert store.validators(url) == {"etag": '"v2"', "last_modified": headers[1][1], "last_visit": AT + 2 * DAY}
    later = (("last-modified", "Wed, 15 Nov 2023 22:13:20 GMT"),)
    store.put_page(url, status=304, headers=later, fetched_at=AT + 3 * DAY)
    assert store.validators(url) == {"etag": '"v2"', "last_modified": later[0][1], "last_visit": AT + 3 * DAY}
    store.put_page(url, body("visits2"), headers=(("ETag", '"v3"'),), fetched_at=AT + 4 * DAY)
    assert store.validators(url) == {"etag": '"v3"', "last_modified": "", "last_visit": AT + 4 * DAY}
    assert store.validators("https://visits.example/none") is None


def test_redirects_and_variants_are_followed(store: Any) -> None:
    store.put_page("http://go.example/old", status=301, headers=(("Location", "/new"),), fetched_at=AT)
    store.put_page("http://go.example/new", body("go"), fetched_at=AT)
    assert store.get("http://go.example/old").status == 301
    followed = store.get("http://go.example/old", follow_redirects=True)
    assert (followed.url, followed.via) == ("http://go.example/new", ("http://go.example/old",))
    assert store.get("https://www.go.example/new", variants=True).url == "http://go.example/new"


def test_many_pages_are_answered_in_order_and_bad_ones_refused_alone(store: Any) -> None:
    pages: list[Any] = [
        Page("https://many.example/1", body("many1"), fetched_at=AT),
        Page("no url", b"x", fetched_at=AT),
        Page("https://many.example/2", "text", fetched_at=AT),  # type: ignore[arg-type]
        Page("https://many.example/3", b"x", status=-1, fetched_at=AT),
        Page("https://many.example/4", b"x", headers=(("a", "\ud800"),), fetched_at=AT),
        Page("https://many.example/5", b"x", fetched_at=5),
        Page("https://many.example/6", b"x", fetched_at=2**70),
        ("https://many.example/7", body("many7")),
        Page("https://many.example/8", b"x", headers=(("a", "caf\udce9"),), fetched_at=AT),
    ]
    results = list(store.put_pages(pages))
    assert [one.stored for one in results] == ["body", *["refused"] * 6, "body", "body"]
    assert all(bool(one.error) == (one.stored == "refused") for one in results)
    assert [one.url for one in results] == [
        f"https://many.example/{n}" if n else "no url" for n in (1, 0, 2, 3, 4, 5, 6, 7, 8)
    ]
    assert store.get("https://many.example/8").newest.headers == (("a", "caf\udce9"),)


def test_a_source_is_read_a_little_ahead_and_its_failure_comes_after_the_answers(store: Any) -> None:
    def source() -> Iterator[tuple[str, bytes]]:
        yield "https://source.example/1", body("source1")
        yield "https://source.example/2", body("source2")
        raise RuntimeError("the disk of the source")

    results = store.put_pages(source())
    assert next(results).url == "https://source.example/1"
    assert next(results).url == "https://source.example/2"
    with pytest.raises(RuntimeError, match="the disk of the source"):
        next(results)
    assert "https://source.example/2" in store


def test_nothing_is_written_before_results_are_asked_for(store: Any) -> None:
    store.put_pages([("https://lazy.example/", b"x")])
    assert "https://lazy.example/" not in store


def test_an_endless_source_is_answered_as_it_goes(store: Any) -> None:
    endless = ((f"https://endless.example/{number}", body(f"endless{number}")) for number in count())
    results = list(islice(store.put_pages(endless), 5))
    assert [one.url for one in results] == [f"https://endless.example/{number}" for number in range(5)]


def test_links_and_anchors_are_given(store: Any) -> None:
    page = b'<p>some text <a href="/b">to b</a> and <a href="https://else.example/">else</a></p>'
    result = store.put_page("https://links.example/a", page, headers=HTML, fetched_at=AT, links=True, anchors=True)
    assert result.links == ("https://links.example/b", "https://else.example/")
    store.add_anchor("https://links.example/b", "https://third.example/", "third", AT)
    found = list(store.anchors("https://links.example/b"))
    assert [(one.qualifier, one.value) for one in found] == [
        (b"https://links.example/a", b"to b"),
        (b"https://third.example/", b"third"),
    ]
    assert all(isinstance(one, Cell) for one in found)


def test_policies_reject_and_refer(own: Any) -> None:
    own.put_page("https://policy.example/a", body("policy"), headers=HTML, fetched_at=AT)
    turned = own.put_page(
        "https://policy.example/b", body("policy"), headers=HTML, fetched_at=AT, policies={"exact": "reject"}
    )
    assert turned.stored == "rejected" and own.get("https://policy.example/b") is None
    referred = list(
        own.put_pages(
            [Page("https://policy.example/c", body("policy"), headers=HTML, fetched_at=AT)],
            policies={VerdictKind.EXACT: Policy.REFERENCE},
        )
    )
    assert referred[0].stored == "reference"
    assert own.get("https://policy.example/c").newest.served_from == "https://policy.example/a"
    assert [(url, at, one.kind) for url, at, one in own.rejected()] == [
        ("https://policy.example/b", AT, VerdictKind.EXACT)
    ]
    assert list(own.orphans()) == []
    own.put_page("https://policy.example/a", body("another"), headers=HTML, fetched_at=AT + DAY)
    [orphan] = own.orphans()
    assert (orphan.url, orphan.timestamp, str(orphan.loss)) == ("https://policy.example/b", AT, "changed")


def test_a_page_is_deleted_with_all_it_has(store: Any) -> None:
    url = "https://deleted.example/"
    store.put_page(url, body("deleted"), fetched_at=AT)
    assert store.delete(url) is True
    assert store.get(url) is None and store.delete(url) is False
    store.put_page(url, body("deleted"), fetched_at=AT + DAY)
    assert store.delete(url, purge=True) is True


def test_many_pages_are_read_in_order(store: Any) -> None:
    urls = [f"https://read.example/{number}" for number in range(30)]
    list(store.put_pages([Page(url, url.encode(), fetched_at=AT) for url in urls[::2]]))
    found = list(store.get_many(iter(urls), families=("page",)))
    assert [None if one is None else one.body for one in found] == [
        url.encode() if number % 2 == 0 else None for number, url in enumerate(urls)
    ]
    endless = store.get_many(f"https://read.example/{number}" for number in count())
    assert next(endless).url == urls[0]


def test_a_url_with_a_lone_surrogate_is_one_page(store: Any) -> None:
    url = "https://surrogate.example/\udce9"
    store.put_page(url, body("surrogate"), fetched_at=AT)
    assert url in store and store.get(url).url == "https://surrogate.example/%EF%BF%BD"
    assert next(store.get_many([url])) is not None and store.delete(url)


def test_what_is_like_a_page_is_found(store: Any) -> None:
    store.put_page("https://like.example/a", body("like"), headers=HTML, fetched_at=AT)
    store.put_page("https://like.example/b", body("like", changed=3), headers=HTML, fetched_at=AT)
    [by_url] = store.similar("https://like.example/a")
    assert (by_url.url, by_url.kind) == ("https://like.example/b", VerdictKind.NEAR)
    by_body = store.similar(body("like"), threshold=0.5, limit=1)
    assert [(one.url, one.kind) for one in by_body] == [("https://like.example/a", VerdictKind.EXACT)]
    assert store.collapse(["https://like.example/b", "https://like.example/a", "https://not.example/"]) == [
        "https://like.example/b",
        "https://not.example/",
    ]


def test_snippets_are_the_same(store: Any) -> None:
    text = "<p>The quick brown fox jumps over the lazy dog. Another sentence stands here for company.</p>"
    store.put_page("https://snippet.example/", text.encode(), headers=HTML, fetched_at=AT)
    snippet = store.snippet("https://snippet.example/", "fox")
    assert "<mark>fox</mark>" in snippet.html()
    assert store.snippets(["https://snippet.example/none", "https://snippet.example/"], "dog", length=40)[0] is None


def test_captures_are_given_as_arrow_batches(own: Any) -> None:
    pytest.importorskip("pyarrow", reason="the extra docstore[arrow] is not installed")
    for number, name in enumerate("aab"):
        own.put_page(
            f"https://arrow.example/{name}", body(name, changed=number), headers=HTML, fetched_at=AT + number * DAY
        )
    own.put_page("https://other.example/", body("a"), headers=HTML, fetched_at=AT, policies={"exact": "reject-any"})
    own.cells.put_notes([Note("https://arrow.example/b", AT + 2 * DAY, "said", b"one")])
    where = docstore.Selection(host="arrow.example", versions=None)
    reader = own.to_arrow(["url", "timestamp", "verdict", "body", "title", "notes", "cluster"], where)
    rows = [tuple(row.values()) for row in reader.read_all().to_pylist()]
    days = [datetime.datetime(2023, 11, day, 22, 13, 20, tzinfo=datetime.UTC) for day in (14, 15, 16)]
    assert rows == [
        ("https://arrow.example/a", days[0], "new", body("a"), "a", [], None),
        ("https://arrow.example/a", days[1], "new", body("a", changed=1), "a", [], None),
        ("https://arrow.example/b", days[2], "new", body("b", changed=2), "b", [("said", "one")], None),
    ]
    with pytest.raises(docstore.InvalidArgument, match="columns must be"):
        own.to_arrow(["nothing"])


def test_captures_are_found_by_what_the_crawler_recorded(store: Any) -> None:
    page = Page("https://found.example/", body("found"), fetched_at=AT, docno="doc-7", payload_digest="sha1:ABC")
    list(store.put_pages([page]))
    assert [one.url for one in store.find(docno="doc-7")] == [page.url]
    assert [one.newest.payload_digest for one in store.find(payload_digest="sha1:ABC")] == ["sha1:ABC"]
    assert list(store.find(docno="doc-8")) == []
    assert list(store.find(docno="doc-7", payload_digest="sha1:ABD")) == []
    with pytest.raises(docstore.InvalidArgument, match="payload_digest or a docno"):
        store.find()


def test_all_captures_of_a_document_number_are_given_newest_first_in_parts(store: Any) -> None:
    url = "https://numbered.example/"
    pages = [Page(url, body(f"version {n}"), fetched_at=AT + n * 1000, docno="doc-9") for n in range(150)]
    list(store.put_pages(pages))
    times = [page.fetched_at for page in reversed(pages)]
    assert [one.timestamp for one in store.find(docno="doc-9")] == times
    parts: list[Any] = []
    while part := list(store.find(docno="doc-9", limit=64, after=parts[-1] if parts else None)):
        assert len(part) <= 64
        parts += [(one.timestamp, one.row_key) for one in part]
    assert [timestamp for timestamp, _ in parts] == times
    with pytest.raises(docstore.InvalidArgument, match="limit must be"):
        store.find(docno="doc-9", limit=0)


# --- cells


def test_cells_are_set_read_and_deleted(store: Any) -> None:
    url = "https://cells.example/"
    cells = [
        SetCell("notes", b"a", 1000, b"one"),
        SetCell("notes", b"a", 2000, b"\xff" * 2000),
        SetCell("notes", b"b", 0, b""),
    ]
    store.cells.apply(url, cells)
    row = store.cells.read_row(url)
    assert row.url == url and [Cell(*one) for one in (cells[1], cells[0], cells[2])] == list(row.cells)
    newest = store.cells.read_row(row.row_key, ReadSpec(families=("notes",), versions=1, keys_only=True))
    assert [(one.qualifier, one.timestamp, one.value) for one in newest.cells] == [(b"a", 2000, b""), (b"b", 0, b"")]
    store.cells.apply_many([(url, [DeleteCells("notes", b"a", 0, 2000)]), (row.row_key, [DeleteCells("notes", b"b")])])
    assert list(store.cells.slices(url)) == [Cell(*cells[1])]
    store.cells.apply(url, [DeleteFamily("notes")])
    assert store.cells.read_row(url) is None
    store.cells.apply(url, [SetCell("notes", b"a", 0, b"x"), DeleteRow()])
    assert store.cells.read_row(url) is None


def test_conditions_and_rules_are_atomic(store: Any) -> None:
    url = "https://rules.example/"
    absent = Condition("notes", b"owner", None)
    mine = [SetCell("notes", b"owner", 0, b"me")]
    assert store.cells.check_and_mutate(url, absent, mine) is True
    assert store.cells.check_and_mutate(url, absent, mine, [SetCell("notes", b"lost", 0, b"1")]) is False
    assert [one.qualifier for one in store.cells.read_row(url).cells] == [b"lost", b"owner"]
    rules = [Increment("notes", b"hits", 2), Increment("notes", b"hits", 3), Append("notes", b"log", b"x")]
    changed = store.cells.read_modify_write(url, rules)
    assert [(one.qualifier, one.value) for one in changed] == [(b"hits", (5).to_bytes(8, "big")), (b"log", b"x")]


def test_scans_give_rows_in_order(store: Any) -> None:
    urls = [f"https://scan.example/{number:02}" for number in range(40)]
    for number, url in enumerate(urls):
        store.cells.apply(url, [SetCell("notes", b"n", 0, str(number).encode()), SetCell("notes", b"m", 0, b"")])
    scan = store.cells.scan
    assert [row.url for row in scan(host="scan.example")] == urls
    assert [row.url for row in scan(prefix="https://scan.example/1")] == urls[10:20]
    assert [row.url for row in scan(host="scan.example", limit=3)] == urls[:3]
    assert list(scan(host="scan.example", limit=0)) == []
    matched = list(scan(host="scan.example", qualifier_regex="[n]", limit=2, spec=ReadSpec(families=("notes",))))
    assert [[one.value for one in row.cells] for row in matched] == [[b"0"], [b"1"]]
    start, end = store.cells.row_key(urls[5]), store.cells.row_key(urls[8])
    assert [row.url for row in scan(start=start, end=end, spec=ReadSpec(keys_only=True))] == urls[5:8]


# --- errors


WRONG_CALLS = (
    lambda store: store.get("no url"),
    lambda store: store.get("https://a.example/", versions=0),
    lambda store: store.get("https://a.example/", families=("nothing",)),
    lambda store: store.get("https://a.example/", families="page"),
    lambda store: store.get("https://a.example/", at="yesterday"),
    lambda store: store.put_page("https://a.example/", "text"),
    lambda store: store.put_page("https://a.example/", b"", fetched_at=1),
    lambda store: store.put_page("https://a.example/", b"", policies={"new": "reject"}),
    lambda store: list(store.put_pages([], policies={"exact": "burn"})),
    lambda store: list(store.put_pages([("https://a.example/", b"")], threads=0)),
    lambda store: store.add_anchor("https://a.example/", "no url", "text"),
    lambda store: store.add_anchor("https://a.example/", "https://b.example/", "text", 5),
    lambda store: store.delete("https://\ud800 .example/"),
    lambda store: "http://" in store,
    lambda store: store.history(5),
    lambda store: store.similar("https://absent.example/"),
    lambda store: store.similar(b"text", threshold=2.0),
    lambda store: store.similar(b"text", limit=0),
    lambda store: store.snippet("https://a.example/", length=1),
    lambda store: list(store.get_many(["no url"])),
    lambda store: store.find(docno="\ud800"),
    lambda store: store.cells.read_row(b"no row key", ReadSpec(cell_limit=0)),
    lambda store: store.cells.apply(b"no row key", [SetCell("notes", b"", 0, b"")]),
    lambda store: store.cells.apply("https://a.example/", [SetCell("undeclared", b"", 0, b"")]),
    lambda store: store.cells.apply("https://a.example/", [SetCell("notes", b"", 7, b"")]),
    lambda store: store.cells.apply("https://a.example/", [SetCell("notes", b"", 2**80, b"")]),
    lambda store: store.cells.read_modify_write("https://a.example/", []),
    lambda store: list(store.cells.scan(host="a.example", prefix="https://a.example/")),
    lambda store: list(store.cells.scan(qualifier_regex="(")),
    lambda store: store.compact(level="worst"),
)


def test_a_wrong_call_is_an_invalid_argument(store: Any) -> None:
    accepted = []
    for number, call in enumerate(WRONG_CALLS):
        try:
            call(store)
        except docstore.InvalidArgument:
            continue
        accepted.append(f"call {number} of WRONG_CALLS")
    assert accepted == []


def test_a_closed_store_says_so(own: Any) -> None:
    own.close()
    own.close()
    for call in (lambda: own.get("https://a.example/"), lambda: own.put_page("https://a.example/"), own.stats):
        with pytest.raises(docstore.StoreUnavailable, match="closed"):
            call()


# --- the whole store


def test_the_whole_store_says_how_it_is(own: Any) -> None:
    own.put_page("https://whole.example/", body("whole", 2000), headers=HTML, fetched_at=AT)
    assert own.schema == SCHEMA and own.lost == () and own.acknowledge_lost() == 0
    stats = own.stats()
    assert stats["totals"]["urls"] == 1 and stats["totals"]["verdict.new"] == 1
    assert own.stored_bytes() > 0
    assert any(one["records"] for one in own.codec_stats().values())


def test_tasks_of_asyncio_write_together(own: Any) -> None:
    async def write() -> list[Any]:
        calls = [own.put_page_async(f"https://tasks.example/{n}", body(f"tasks{n}"), fetched_at=AT) for n in range(6)]
        return await asyncio.gather(*calls)

    assert [one.url for one in asyncio.run(write())] == [f"https://tasks.example/{n}" for n in range(6)]


def test_threads_write_and_read_at_the_same_time(own: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def work(number: int) -> bool:
        own.put_page(f"https://threads.example/{number}", body(f"threads{number}"), fetched_at=AT)
        return f"https://threads.example/{number}" in own

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(24)))


def test_a_page_is_written_without_its_body(store: Any) -> None:
    result = store.put_page("https://without.example/", b"<p>" + b"some words " * 30, fetched_at=AT, keep_body=False)
    assert result.stored == "text" and store.get("https://without.example/").body is None


def test_captures_carry_the_label_of_their_crawl_and_are_deleted_by_it(own: Any) -> None:
    url, other = "https://crawls.example/a", "https://crawls.example/b"
    own.put_page(url, body("one"), fetched_at=AT, crawl="first")
    asyncio.run(own.put_page_async(url, body("two"), fetched_at=AT + DAY, crawl="second"))
    list(own.put_pages([Page(other, body("three"), fetched_at=AT, crawl="second")]))
    assert [document.newest.crawl for document in own.history(url)] == ["second", "first"]
    spec = ReadSpec(("http",), b"crawl", crawl="second")
    found = [(row.url, [cell.value for cell in row.cells]) for row in own.cells.scan(spec=spec)]
    assert found == [(url, [b"second"]), (other, [b"second"])]
    with pytest.raises(docstore.InvalidArgument, match="a crawl's label"):
        own.put_page(url, body("four"), crawl="\n")
    with pytest.raises(docstore.InvalidArgument, match="a crawl's label"):
        own.delete_crawl("")
    told: list[int] = []
    assert own.delete_crawl("second", prefix=url, on_progress=told.append) == 1
    assert told[-1:] == [1]
    assert own.delete_crawl("second", purge=True) == 1
    assert [document.newest.crawl for document in own.history(url)] == ["first"] and other not in own
