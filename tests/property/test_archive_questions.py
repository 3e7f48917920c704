"""Whatever bytes a client sends, the archive API answers with a reason, and a list of captures stays a list."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.serving.archive_app import ArchiveApp
from docstore.serving.archive_captures import (
    END_OF_TIMES,
    address_of,
    digits14,
    earliest,
    http_date,
    in_links,
    latest,
    parse_http_date,
    parse_url,
    replayed,
)
from docstore.serving.settings import ArchiveSettings
from tests.archive_case import Reply, ask, make_store

LINE = re.compile(r"[^ \x00-\x20]+( [^ \x00-\x20]+)*")
WORDS = re.compile(r"\S+")
NAMES = WORDS.findall("""
    url matchType sort closest from to filter collapse fl fields limit output page pageSize showNumPages resumeKey
    showResumeKey reverse end x
""")
VALUES = WORDS.findall("""
    example.test/* *.test http://example.test/ exact prefix host domain range reverse closest 2024 20240601000000
    !mimetype:warc/revisit =status:200 ~url:.*self status digest:.* timestamp:6 digest urlkey timestamp,original 0 1 3
    -1 -2 999999999 json cdx cdxj true MCBjb20 https://example.test:443/self http://[::1]/ a.test:99999 %00 ü .*
""")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArchiveApp]:
    with make_store(tmp_path_factory.mktemp("archive")) as store:
        app = ArchiveApp(store, ArchiveSettings(scan_rows=7, answer_rows=5, timemap_mementos=2, keep_digests=False))
        yield app
        app.close()


def check(reply: Reply) -> None:
    assert reply.status in (200, 302, 400, 404), reply
    assert reply.body or reply.status in (200, 302)
    for name, value in reply.headers:
        assert re.fullmatch(r"[A-Za-z0-9-]+", name)
        assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value)
    assert reply.header("Content-Security-Policy") and reply.header("X-Content-Type-Options") == "nosniff"


pairs = st.tuples(
    st.sampled_from(NAMES),
    st.one_of(
        st.sampled_from(VALUES), st.text(max_size=12), st.binary(max_size=8).map(lambda raw: raw.decode("latin-1"))
    ),
)


@given(st.lists(pairs, max_size=6))
def test_any_parameters_get_rows_or_a_reason(app: ArchiveApp, parameters: list[tuple[str, str]]) -> None:
    given_pairs = [("url", "example.test/*"), *parameters]
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in given_pairs)
    reply = ask(app, f"/web/cdx?{query}")
    check(reply)
    is_json = dict(reversed(given_pairs)).get("output") == "json"
    if reply.status == 200 and reply.text and not reply.text.startswith('{"pages"'):
        for line in reply.text.split("\n\n")[0].rstrip("\n").split("\n"):
            assert isinstance(json.loads(line), dict) if is_json else LINE.fullmatch(line), reply.text


@given(st.binary(max_size=60))
def test_any_query_string_gets_rows_or_a_reason(app: ArchiveApp, query: bytes) -> None:
    check(ask(app, b"/web/cdx?" + query))
    check(ask(app, b"/web/cdx?url=example.test/*&" + query))


@given(
    st.sampled_from(
        [b"/", b"/web/", b"/web/2024id_/", b"/web/20240101000000/", b"/web/timemap/link/", b"/web/2024id_/http%3A"]
    ),
    st.binary(max_size=40),
)
def test_any_path_gets_a_capture_or_a_reason(app: ArchiveApp, head: bytes, tail: bytes) -> None:
    check(ask(app, head + tail))
    check(ask(app, head + b"http://example.test/" + tail))


@given(st.text(max_size=30), st.binary(max_size=30).map(lambda raw: raw.decode("latin-1")))
def test_any_header_gets_an_answer(app: ArchiveApp, agent: str, asked: str) -> None:
    latin = agent.encode("utf-8", "replace").decode("latin-1")
    reply = ask(app, "/web/http://example.test/", ("User-Agent", latin), ("Accept-Datetime", asked))
    check(reply)


@given(st.text(max_size=40), st.text(max_size=20), st.booleans())
def test_a_url_in_a_link_comes_back_as_it_was(path: str, query: str, has_query: bool) -> None:
    try:
        url = parse_url(f"http://a.test/{path}" + (f"?{query}" if has_query else "")).url
    except ValueError:
        return
    raw_path, _, query_string = in_links(url).encode("ascii").partition(b"?")
    assert replayed(raw_path, query_string).url == url
    assert ";" not in in_links(url) and not set(in_links(url)) & set(' <>"\r\n')


@given(st.integers(0, END_OF_TIMES - 1))
def test_times_come_back_to_the_second(micros: int) -> None:
    second = micros - micros % 1_000_000
    assert earliest(digits14(micros)) == second
    assert latest(digits14(micros)) == second + 999_999
    assert parse_http_date(http_date(micros)) == second


@given(st.from_regex(r"[0-9]{4,14}", fullmatch=True))
def test_any_digits_are_a_time(digits: str) -> None:
    assert 0 <= earliest(digits) <= latest(digits) < END_OF_TIMES


@given(st.binary(max_size=40))
def test_any_row_key_has_an_address_or_none(row_key: bytes) -> None:
    address = address_of(row_key)
    assert address is None or row_key.rpartition(b" ")[2].startswith(b"http")
