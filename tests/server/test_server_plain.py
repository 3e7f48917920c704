"""A page that is asked for in a plain way is answered before the framework, with what the route would answer.

A parameter that no route knows changes nothing but the way: with it the framework answers.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from docstore.serving import app
from docstore.serving.service import SHORT_BYTES
from docstore.serving.wire import from_msgpack
from tests.serving import Serving, serving

AT = 1_700_000_000_000_000
READ, WRITE = "r" * 20, "w" * 20
SHORT, LATIN = "https://short.example/a+b?q=1&r=%25", "https://latin.example/"
WORDS = " ".join(f"word{number}" for number in range(80)).encode()
PAGES = {
    SHORT: b"<title>Sh\xc3\xb6rt</title><p>" + WORDS,
    LATIN: b"<p>caf\xe9 " + WORDS[5:],
    "https://empty.example/": b"",
    "https://long.example/": b"<title>Long</title><p>" + WORDS[9:] + b"x" * SHORT_BYTES,
    "https://longer.example/": b"<pre>" + b"0123456789 " * 150_000,
}
URLS = [
    *PAGES, "https://rejected.example/", "https://nobody.example/", "https://gone.example/", "https://none.example/",
    "no url", "", "https://h\u00f6st.example/\u00fc", "https://a.example/\0", "https://user:pw@a.example/",
]  # fmt: skip
HEADERS: dict[str, list[str | None]] = {
    "authorization": [f"Bearer {READ}", f"bearer {WRITE}", None, "Bearer " + "x" * 20, f"Basic {READ}"],
    "accept": [None, "application/msgpack", "application/x-msgpack", "text/html", "application/json"],
    "accept-encoding": ["identity", "zstd", "gzip, zstd"],
    "range": [None, "bytes=0-9"],
    "host": ["localhost", "evil.example"],
    "origin": [None, "https://evil.example", "http://localhost"],
}
CHOICES: dict[str, list[str | None]] = {
    **HEADERS,
    "method": ["GET", "HEAD", "POST"],
    "path": ["/v1/page", "/v1/page/body", "/v1/page/", "/v1/p%61ge/body", "//v1/page"],
    "url": [*[SHORT] * 20, *URLS],
    "at": [
        *[None] * 30, str(AT), str(AT + 1), str(AT - 1), "0", "00", "", "x", "-1", " 1", "1.0", "\uff11", "1e3",
        "9" * 16, "9" * 30,
    ],
    "families": [
        *[None] * 12, "page", "http,text", "page,http,text,dedup", "dedup", "", ",", "anchor", "nothing", "page,page",
    ],
    "end": ["", "&", "&url=x", "&at=%ff", "&at", "&follow_redirects=1"],
    "known": [None, "*", '"x"', "its own", "W/ of its own"],
}  # fmt: skip
"""What is plain comes first."""
UNKNOWN = "&unknown=1"
DIFFERENT = ("x-request-id", "date")
plain_ones: list[bool] = []
"""Of each request whether it was answered before the framework."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("plain")
    (folder / "tokens").write_text(f"read {READ}\nwrite {WRITE}\n")
    (folder / "tokens").chmod(0o600)
    answer = app.plain_answer

    async def noted(*given: Any, **named: Any) -> Any:
        plain_ones.append(False)
        found = await answer(*given, **named)
        plain_ones[-1] = found is not None
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "plain_answer", noted)
        with serving(folder / "store", token_file=folder / "tokens") as one:
            for url, body in PAGES.items():
                one.store.put_page(url, body, headers={"Content-Type": "text/html"}, fetched_at=AT)
            one.store.put_page(SHORT, PAGES[SHORT] + b" again", fetched_at=AT - 1000)
            one.store.put_page(
                "https://rejected.example/", PAGES[LATIN], headers={"Content-Type": "text/html"}, fetched_at=AT,
                policies={"exact": "reject-any"},
            )  # fmt: skip
            one.store.put_page("https://nobody.example/", b"<p>nobody " + WORDS[7:], fetched_at=AT, keep_body=False)
            one.store.put_page("https://gone.example/", b"gone", fetched_at=AT)
            one.store.delete("https://gone.example/")
            yield one


def asked(served: Serving, method: str, path: str, headers: dict[str, str]) -> tuple[httpx.Response, bool]:
    """An answer, and whether it was given before the framework."""
    plain_ones.clear()
    answer = served.http.request(method, path, headers=headers)
    return answer, plain_ones == [True]


def seen(answer: httpx.Response) -> tuple[int, dict[str, str], bytes]:
    different = {*DIFFERENT, "content-length"} if answer.is_error else DIFFERENT  # errors name the target
    headers = {name: value for name, value in answer.headers.items() if name not in different}
    body = answer.content
    if body and answer.is_error and "msgpack" in headers.get("content-type", ""):
        body = repr(from_msgpack(body)).encode()
    return answer.status_code, headers, body.replace(UNKNOWN.encode(), b"")


def same(served: Serving, method: str, path: str, headers: dict[str, str]) -> bool:
    """Ask in both ways; -> whether the first was answered before the framework."""
    answer, is_plain = asked(served, method, path, headers)
    other, is_other_plain = asked(served, method, path + UNKNOWN, headers)
    assert not is_other_plain
    assert seen(answer) == seen(other), (method, path, headers)
    return is_plain


def a_request(draw: random.Random) -> tuple[str, str, dict[str, str], str | None]:
    """Method, path, headers, and what the client has of the page: plain, with up to two things that are not."""
    chosen = {name: values[0] for name, values in CHOICES.items()}
    chosen |= {name: draw.choice(CHOICES[name]) for name in ("url", "at", "families", "accept", "accept-encoding")}
    chosen |= {name: draw.choice(CHOICES[name]) for name in draw.sample(sorted(CHOICES), draw.randint(0, 2))}
    headers = {name: value for name in HEADERS if (value := chosen[name]) is not None}
    safe = draw.choice(["", ":/?", "+:/"])
    named = ((name, chosen[name]) for name in ("url", "at", "families"))
    query = "&".join(f"{name}={quote(value, safe=safe)}" for name, value in named if value is not None)
    return f"{chosen['method']}", f"{chosen['path']}?{query}{chosen['end']}", headers, chosen["known"]


def test_both_ways_answer_the_same(served: Serving) -> None:
    draw = random.Random(7)
    counts = {"before the framework": 0, "by the framework": 0}
    for _ in range(800):
        method, path, headers, known = a_request(draw)
        if known is not None:
            etag = served.http.get(path, headers=headers).headers.get("etag", '"none"')
            headers["if-none-match"] = {"its own": etag, "W/ of its own": f'"y", W/{etag}'}.get(known, known)
        counts["before the framework" if same(served, method, path, headers) else "by the framework"] += 1
    assert min(counts.values()) > 200, counts
    assert '"bug"' not in served.log.getvalue()


@pytest.mark.parametrize("url", PAGES)
@pytest.mark.parametrize("path", ["/v1/page", "/v1/page/body"])
def test_what_is_there_is_answered_before_the_framework(served: Serving, path: str, url: str) -> None:
    headers = {"authorization": f"Bearer {READ}", "accept-encoding": "identity"}
    assert same(served, "GET", f"{path}?url={quote(url, safe='')}", headers)


def test_both_ways_are_logged_and_counted_alike(served: Serving) -> None:
    headers = {"authorization": f"Bearer {READ}"}
    path = f"/v1/page/body?url={quote(SHORT, safe='')}"

    def count() -> float:
        lines = served.http.get("/metrics", headers=headers).text.splitlines()
        name = 'docstore_requests_total{method="GET",route="/v1/page/body",status="200"} '
        return next((float(line.removeprefix(name)) for line in lines if line.startswith(name)), 0.0)

    before = count()
    assert same(served, "GET", path, headers)
    assert count() == before + 2
    query = path.partition("?")[2]
    lines: list[dict[str, Any]] = []
    while len(lines) < 2:  # a thread writes them, ten times a second
        lines = []
        for line in served.log.getvalue().splitlines():
            with suppress(ValueError):  # the last one may not be whole
                entry = json.loads(line)
                if entry.get("query", "").startswith(query):
                    lines.append(entry)
    first, second = ({**one, "query": ""} for one in lines[-2:])
    for name in ("id", "time", "milliseconds"):
        assert first.pop(name) and second.pop(name)
    assert first == second
