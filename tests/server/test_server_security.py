"""What strangers try: other names for this host, web pages, wrong tokens, bombs, endless heads, slow hands."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard

from docstore.cli.main import main
from docstore.model.errors import InvalidArgument, StoreUnavailable
from docstore.model.types import Page
from docstore.serving import routes
from docstore.serving.client_calls import Role
from docstore.serving.request import Tokens
from docstore.serving.service import KINDS
from docstore.serving.settings import Limits, Settings
from tests.serving import Serving, serving

COLLAPSE = b"POST /v1/collapse HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
READ, WRITE, ADMIN = "r" * 20, "w" * 20, "a" * 20
SMALL = Limits(request_bytes=100_000, waiting_bytes=300_000)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("small")
    with serving(folder / "store", limits=SMALL, hosts=("crawl.example",), origins=("https://ui.example",)) as one:
        yield one


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One that soon loses patience: with a test on a busy machine too, so that others ask a patient one."""
    limits = replace(SMALL, head_seconds=0.3, body_seconds=0.3, send_seconds=0.5)
    with serving(tmp_path_factory.mktemp("hasty") / "store", limits=limits) as one:
        yield one


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("guarded")
    tokens = folder / "tokens"
    tokens.write_text(f"# who may what\nread {READ}\nwrite {WRITE} crawler\n\nadmin {ADMIN} ops\n")
    tokens.chmod(0o600)
    with serving(folder / "store", token_file=tokens) as one:
        yield one


def said(served: Serving, raw: bytes, *, end: bool = False) -> bytes:
    """All that the server answers on a connection of its own until it closes it."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as one:
        one.sendall(raw)
        if end:
            one.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while part := one.recv(65536):
                answer += part
        except ConnectionResetError:
            pass
        return answer


# --- names and web pages


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:99", "[::1]:8470", "crawl.example", "10.1.2.3:8470"])
def test_a_host_that_is_ours_is_answered(served: Serving, host: str) -> None:
    assert served.http.get("/v1", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "",
        "[evil]",
        "1e100",
        "[localhost]",
        "[::1]evil",
    ],
)
def test_a_name_that_somebody_else_may_point_at_us_is_refused(served: Serving, host: str) -> None:
    answer = served.http.get("/v1", headers={"host": host})
    assert answer.status_code == 403 and "--allow-host" in answer.json()["error"]["message"]


def test_two_hosts_or_none_are_refused(served: Serving) -> None:
    for head in (b"", b"Host: localhost\r\nHost: evil.example\r\n"):
        answer = said(served, b"GET /v1 HTTP/1.1\r\n" + head + b"Connection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://localhost/v1", "localhost", 200),
        ("HTTP://LocalHost:80/healthz?x", "localhost:80", 200),
        ("http://evil.example/v1", "localhost", 400),
        ("http://evil.example/v1", "evil.example", 403),
        ("http://localhost/v1", "evil.example", 400),
        ("http://localhost@evil.example/v1", "localhost", 400),
        ("http://evil.example#@localhost/v1", "localhost", 400),
        ("ftp://localhost/v1", "localhost", 400),
        ("http:localhost/v1", "localhost", 400),
        ("localhost/v1", "localhost", 400),
    ],
)
def test_an_absolute_target_is_checked_like_the_host(served: Serving, target: str, host: str, status: int) -> None:
    answer = said(served, f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 %d" % status)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://ui.example"}, 200),
        ({"origin": "http://localhost", "host": "localhost"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
    ],
)
def test_pages_of_other_origins_may_not_ask(served: Serving, headers: dict[str, str], status: int) -> None:
    answer = served.http.get("/v1", headers=headers)
    assert answer.status_code == status
    assert not [name for name in answer.headers if name.startswith("access-control-")]


# --- tokens


@pytest.mark.parametrize(
    ("token", "statuses"),
    [
        (None, (401, 401, 401)),
        ("x" * 20, (401, 401, 401)),
        (READ, (200, 403, 403)),
        (WRITE, (200, 200, 403)),
        (ADMIN, (200, 200, 200)),
    ],
)
def test_a_token_opens_what_its_grade_opens(guarded: Serving, token: str | None, statuses: tuple[int, ...]) -> None:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    page = {"page": {"url": "https://a.example/", "body": "x", "fetched_at": 1_700_000_000_000_000}}
    found = (
        guarded.http.get("/v1/stats", headers=headers).status_code,
        guarded.http.post("/v1/page", json=page, headers=headers).status_code,
        guarded.http.post("/v1/lost/acknowledge", headers=headers).status_code,
    )
    assert found == statuses


def test_every_route_but_one_needs_a_token(guarded: Serving) -> None:
    made = guarded.http.get("/v1/openapi.json", headers={"authorization": f"bearer {READ}"}).json()
    assert guarded.http.get("/healthz").status_code == 200
    for path, operations in made["paths"].items():
        for method in operations:
            if path != "/healthz":
                answer = guarded.http.request(
                    method, path.replace("{name}", "x"), params={"url": "https://a.example/", "query": "x"}
                )
                assert answer.status_code == 401, (method, path)
                assert answer.headers["www-authenticate"] == "Bearer"
    assert guarded.local.get("/v1/stats").status_code == 200, "the socket is this user's own"


NOT_READ = {
    **dict.fromkeys(
        [
            ("POST", "/v1/page"), ("PUT", "/v1/page"), ("DELETE", "/v1/page"), ("POST", "/v1/pages"),
            ("POST", "/v1/anchors"), ("POST", "/v1/cells/apply"),
            ("POST", "/v1/cells/check-and-mutate"), ("POST", "/v1/cells/read-modify-write"), ("POST", "/v1/notes"),
            ("POST", "/v1/jobs"), ("DELETE", "/v1/jobs/{name}"),
        ],
        Role.WRITE,
    ),
    ("POST", "/v1/lost/acknowledge"): Role.ADMIN,
    ("GET", "/healthz"): Role.NONE,
}  # fmt: skip
"""What each route that is not for readers needs, said here once more."""
ROUTES = [(one.method, one.path) for one in routes.ROUTES]


def test_each_route_asks_for_its_role(guarded: Serving) -> None:
    for method, path in ROUTES:
        asks_for_its_role(guarded, method, path)


def asks_for_its_role(guarded: Serving, method: str, path: str) -> None:
    needed = NOT_READ.get((method, path), Role.READ)
    given = {Role.NONE: "", Role.READ: READ, Role.WRITE: WRITE, Role.ADMIN: ADMIN}
    for role, token in given.items():
        headers = {"authorization": f"Bearer {token}"} if token else {}
        others = (f"/{path}", f"{path}/", path.upper()) if role < needed else ()
        for asked in (path, *others):  # no spelling of a path goes round it
            answer = guarded.http.request(
                method,
                asked.replace("{name}", "none"),
                params={"url": "https://roles.example/", "query": "x"},
                headers=headers,
            )
            if asked == path and role >= needed:
                assert answer.status_code not in (401, 403), (method, path, role, answer.text)
            elif asked == path:
                assert answer.status_code == (403 if token else 401), (method, path, role)
            else:
                assert answer.status_code in (401, 403, 404, 405), (method, role, asked)


def test_the_roles_name_every_route(guarded: Serving) -> None:
    made = guarded.local.get("/v1/openapi.json").json()["paths"]
    described = {(method.upper(), path) for path, operations in made.items() for method in operations}
    assert described == {*ROUTES} and {*NOT_READ} <= {*ROUTES}


@pytest.mark.parametrize(
    ("mutation", "statuses"),
    [
        ({"family": "anchor", "qualifier": "https://b.example/", "timestamp": 1000, "value": "b"}, (200, 200)),
        ({"family": "text", "qualifier": "main", "timestamp": 1000, "value": "b"}, (400, 400)),
        ({"family": "dedup"}, (400, 400)),
        ({}, (200, 200)),
    ],
)
def test_what_captures_show_nobody_changes_as_cells(
    guarded: Serving, mutation: dict[str, Any], statuses: tuple[int, int]
) -> None:
    kind = "set_cell" if "value" in mutation else "delete_family" if mutation else "delete_row"
    changes = {"rows": [{"url": "https://cells.example/", "mutations": [{"type": kind, **mutation}]}]}
    for token, status in zip((WRITE, ADMIN), statuses, strict=True):
        headers = {"authorization": f"Bearer {token}"}
        answer = guarded.http.post("/v1/cells/apply", json=changes, headers=headers)
        assert answer.status_code == status, answer.text
        if kind == "set_cell":
            column = {"family": mutation["family"], "qualifier": mutation["qualifier"]}
            rules = {"url": "https://cells.example/", "rules": [{"type": "append", **column, "value": "x"}]}
            answer = guarded.http.post("/v1/cells/read-modify-write", json=rules, headers=headers)
            assert answer.status_code == status, answer.text
        checked = {
            "url": "https://cells.example/",
            "condition": {"family": "anchor", "qualifier": "", "value": None},
            "then": [{"type": kind, **mutation}],
            "otherwise": [],
        }
        answer = guarded.http.post("/v1/cells/check-and-mutate", json=checked, headers=headers)
        assert answer.status_code == status, answer.text


def test_purge_needs_more_than_delete(guarded: Serving) -> None:
    headers = {"authorization": f"Bearer {WRITE}"}
    asked = {"url": "https://nothing.example/", "purge": "true"}
    assert guarded.http.delete("/v1/page", params=asked, headers=headers).status_code == 403
    assert guarded.http.delete("/v1/page", params={"url": asked["url"]}, headers=headers).status_code == 200


def test_a_job_but_the_count_of_duplicates_needs_the_role_admin(guarded: Serving) -> None:
    headers = {"authorization": f"Bearer {WRITE}"}
    for kind in KINDS:
        answer = guarded.http.post("/v1/jobs", json={"kind": kind, "options": {"none": 1}}, headers=headers)
        assert answer.status_code == (400 if kind == "dedup-stats" else 403), kind
    job = guarded.local.post("/v1/jobs", json={"kind": "check"}).json()["id"]
    assert guarded.http.delete(f"/v1/jobs/{job}", headers=headers).status_code == 403
    assert guarded.http.delete("/v1/jobs/none", headers=headers).status_code == 404


def test_a_crawler_with_a_token_to_write_asks_for_its_frontier(
    guarded: Serving, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Page("https://links.example/", b'<p>One <a href="/next">page</a>.', 200, (("Content-Type", "text/html"),))
    list(guarded.store.put_pages([page], anchors=True))
    monkeypatch.setenv("DOCSTORE_TOKEN", WRITE)
    assert main(["frontier", "--host", "links.example", "--store", guarded.server.url]) == 0
    assert capsys.readouterr().out == "https://links.example/next\n"


def test_no_token_is_in_the_log(guarded: Serving) -> None:
    guarded.http.get("/v1/stats", headers={"authorization": f"Bearer {READ}"})
    guarded.http.get("/v1/stats", headers={"authorization": "Bearer wrong-token-of-somebody"})
    guarded.http.get("/v1/metrics")
    for secret in (READ, WRITE, ADMIN, "wrong-token-of-somebody"):
        assert secret not in guarded.logged()


def test_a_token_file_is_read_with_care(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    for text, mode, word in (
        (f"read {READ}\n", 0o644, "chmod 600"),
        ("", 0o600, "no token"),
        ("read short\n", 0o600, ":1:.*openssl rand"),
        (f"\nroot {READ}\n", 0o600, ":2:"),
    ):
        path.write_text(text)
        path.chmod(mode)
        with pytest.raises(InvalidArgument, match=word):
            Tokens(path)
    with pytest.raises(InvalidArgument, match="cannot read"):
        Tokens(tmp_path / "none")
    path.write_text(f"read {READ} reader\n")
    path.chmod(0o600)
    tokens = Tokens(path)
    assert tokens.find(READ) == (Role.READ, "reader") and tokens.find(WRITE) is None
    path.write_text(f"write {WRITE}\n")
    assert tokens.reload() == 1 and tokens.find(READ) is None and tokens.find(WRITE) is not None
    path.write_text("nonsense\n")
    with pytest.raises(InvalidArgument):
        tokens.reload()
    assert tokens.find(WRITE) is not None, "the old ones stay"


def test_nobody_listens_to_the_world_without_tokens(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.168.1.1", "crawl.example"):
        with pytest.raises(InvalidArgument, match="--token-file"):
            Settings(bind=host)
    with pytest.raises(InvalidArgument, match="--token-file"):
        Settings(trusted_proxies=("127.0.0.1",))
    Settings(bind="0.0.0.0", token_file=tmp_path / "tokens")


def test_a_port_or_socket_that_is_taken_is_refused(served: Serving, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="taken"), serving(tmp_path / "one", port=served.port):
        pass
    with pytest.raises(StoreUnavailable, match="listens"), serving(tmp_path / "two", unix=served.server.unix):
        pass
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidArgument, match="no socket"), serving(tmp_path / "three", unix=tmp_path / "file"):
        pass
    assert (tmp_path / "file").read_text() == "mine"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "left.sock"))
    with serving(tmp_path / "four", unix=tmp_path / "left.sock") as four:
        assert four.local.get("/healthz").status_code == 200, "the socket of a server that is gone is taken over"
    assert not (tmp_path / "left.sock").exists()


# --- bodies


def post(served: Serving, body: bytes, **headers: str) -> tuple[int, str]:
    answer = served.http.post("/v1/collapse", content=body, headers={"content-type": "application/json", **headers})
    return answer.status_code, "" if answer.status_code == 200 else answer.json()["error"]["message"]


def test_bombs_are_refused_before_they_are_unpacked(served: Serving) -> None:
    bomb = zstandard.ZstdCompressor().compress(b'{"urls": ["' + b"a" * 200_000_000 + b'"]}')
    assert len(bomb) < 50_000
    status, message = post(served, bomb, **{"content-encoding": "zstd"})
    assert status == 413 and "100000 bytes" in message
    stream = zstandard.ZstdCompressor().compressobj()
    unsaid = stream.compress(b" " * 50_000_000) + stream.flush()
    assert zstandard.frame_content_size(unsaid) == -1
    assert post(served, unsaid, **{"content-encoding": "zstd"})[0] == 413
    wide = zstandard.ZstdCompressor(level=22).compressobj()
    assert post(served, wide.compress(b"{}") + wide.flush(), **{"content-encoding": "zstd"})[0] == 400
    for frame in (b"", b"no zstd", bomb[:-3], zstandard.ZstdCompressor().compress(b'{"urls": []}') + b"more"):
        assert post(served, frame, **{"content-encoding": "zstd"})[0] in (400, 413)
    assert post(served, zstandard.ZstdCompressor().compress(b'{"urls": []}'), **{"content-encoding": "zstd"})[0] == 200
    for encoding in ("gzip", "br", "zstd, zstd"):
        assert post(served, b"{}", **{"content-encoding": encoding})[0] == 415


def test_answers_that_nobody_takes_are_bounded(tmp_path: Path) -> None:
    """Long ones count as memory until they are taken; one that is alone always has room."""
    with serving(tmp_path / "store", limits=Limits(waiting_bytes=3 << 20)) as served:
        url = "https://long.example/"
        served.store.put_page(url, bytes(8 << 20))
        head = f"GET /v1/page/body?url={url} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", served.port))
            slow.sendall(head)
            assert slow.recv(12) == b"HTTP/1.1 200"
            refused = served.http.get("/v1/page/body", params={"url": url})
            assert refused.status_code == 429 and refused.headers["retry-after"] == "1"
            assert served.http.get("/v1/page", params={"url": url}).status_code == 200, "a short one has room"
        for _ in range(20_000):  # until the server has seen that the client is gone
            answer = served.http.get("/v1/page/body", params={"url": url})
            if answer.status_code == 200:
                break
        assert len(answer.content) == 8 << 20


def test_a_long_body_is_refused(hasty: Serving) -> None:
    assert post(hasty, b"x" * 200_000)[0] == 413
    head = COLLAPSE
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n" + (b"8000\r\n" + b"x" * 0x8000 + b"\r\n") * 8
    assert said(hasty, chunked).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_what_a_form_of_a_web_page_can_send_is_refused(served: Serving, kind: str) -> None:
    assert post(served, b"{}", **{"content-type": kind})[0] == 415


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff", b'{"urls": 3}', b'{"urls": [3]}', b'{"nope": 1}', b"[" * 1100]
)
def test_what_is_no_message_is_named(served: Serving, body: bytes) -> None:
    status, message = post(served, body)
    assert status == 400 and message
    packed, _ = post(served, body, **{"content-type": "application/msgpack"})
    assert packed == 400


def test_a_head_without_end_is_cut_off(hasty: Serving) -> None:
    for endless in (b"GET /v1?" + b"a" * 300_000, b"GET /v1 HTTP/1.1\r\nX: " + b"a" * 300_000):
        answer = said(hasty, endless)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400")
    many = b"GET /v1 HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(20_000)) + b"\r\n"
    assert said(hasty, many).startswith(b"HTTP/1.1 400")


def test_a_slow_client_is_cut_off(hasty: Serving) -> None:
    assert said(hasty, b"") == b"", "one that says nothing"
    assert said(hasty, b"GET /v1 HT") == b"", "one that stops inside its head"
    head = COLLAPSE
    answer = said(hasty, head + b"Content-Length: 12\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 408") and b"retry" in answer.lower()
    assert said(hasty, head + b"Content-Length: 12\r\n\r\n{", end=True)[:12] in (b"", b"HTTP/1.1 400")


def test_what_is_no_http_gets_no_traceback(hasty: Serving) -> None:
    for raw in (
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        b"\0" * 100,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET //%ff HTTP/1.1\r\nConnection: close",
    ):
        answer = said(hasty, raw + b"\r\n\r\n")
        assert b"Traceback" not in answer and not answer.startswith(b"HTTP/1.1 5")
    assert '"bug"' not in hasty.logged()


def test_waiting_bodies_are_bounded(hasty: Serving) -> None:
    head = COLLAPSE + b"Content-Length: 90000\r\n\r\n"
    waiting = [socket.create_connection(("127.0.0.1", hasty.port)) for _ in range(5)]
    try:
        for one in waiting:
            one.sendall(head + b" " * 89_000)
        answers = []
        for one in waiting:
            one.settimeout(60)
            answers.append(one.recv(100)[9:12])
        assert b"429" in answers and set(answers) <= {b"429", b"408"}
    finally:
        for one in waiting:
            one.close()
    assert post(hasty, b'{"urls": []}')[0] == 200, "room is given back"


def test_one_who_takes_no_answer_is_cut_off(hasty: Serving) -> None:
    big = b"x" * 90_000
    pages = [Page(f"https://big.example/{number}", big, fetched_at=1_700_000_000_000_000) for number in range(250)]
    assert len(list(hasty.store.put_pages(pages))) == 250
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", hasty.port))
        ask = b'{"host": "big.example"}'
        one.sendall(COLLAPSE.replace(b"collapse", b"cells/scan") + b"Content-Length: %d\r\n\r\n" % len(ask) + ask)
        assert hasty.http.get("/v1/schema").status_code == 200
        for _ in range(20_000):  # looks until it is cut off, for half a second and more
            if "did not take its answer" in hasty.logged():
                break
            assert hasty.http.get("/healthz").status_code == 200
        assert "did not take its answer" in hasty.logged()
    assert hasty.http.get("/v1/schema").status_code == 200


def test_streams_are_bounded_and_one_that_is_cut_off_is_no_fault(tmp_path: Path) -> None:
    with serving(tmp_path / "store", limits=Limits(streams=1)) as served:
        url = "https://long.example/"
        assert served.http.put("/v1/page", params={"url": url}, content=bytes(60_000)).status_code == 200
        for _ in range(10):
            with served.http.stream("POST", "/v1/pages/get", json={"urls": [url] * 5000}) as first:
                assert first.status_code == 200
                parts = first.iter_raw()  # held: without it the client closes the connection
                next(parts)
                refused = served.http.post("/v1/pages/get", json={"urls": [url]})
                assert refused.status_code == 429 and refused.headers["retry-after"] == "1"
            for _ in range(20_000):  # until the server has seen that the client is gone
                status = served.http.post("/v1/pages/get", json={"urls": []}).status_code
                if status == 200:
                    break
            assert status == 200
        assert "Traceback" not in served.logged()


def test_scans_without_finds_give_their_end(served: Serving) -> None:
    for path in ("/v1/rejected", "/v1/orphans"):
        answer = served.http.get(path)
        assert json.loads(answer.text) == {"end": {"count": 0}}, path


def test_a_search_without_finds_lets_other_streams_go_on(served: Serving) -> None:
    for name in ("one", "two", "three"):
        assert served.http.put("/v1/page", params={"url": f"https://{name}.example/"}, content=b"x").status_code == 200
    nothing = served.http.post("/v1/cells/scan", json={"qualifier_regex": "nothing"})
    assert json.loads(nothing.text) == {"end": {"count": 0}}
    some = served.http.post("/v1/cells/scan", json={"qualifier_regex": "body", "limit": 2})
    assert [set(json.loads(line)) for line in some.text.splitlines()][-1] == {"end"} and len(
        some.text.splitlines()
    ) == 3


@pytest.mark.parametrize("path", ["/v1/pages/get", "/v1/snippets", "/v1/collapse"])
def test_too_many_urls_are_refused(tmp_path: Path, path: str) -> None:
    with serving(tmp_path / "store", limits=Limits(urls=2)) as served:
        answers = [served.http.post(path, json={"urls": ["https://a.example/"] * count}) for count in (2, 3)]
        assert [one.status_code for one in answers] == [200, 400]
        assert "3 URLs are too many" in answers[1].text


def test_two_urls_that_are_not_utf8_are_not_one_page(served: Serving) -> None:
    for raw in ("%ff", "%fe", "%c3", "%ed%a0%80"):
        assert served.http.put(f"/v1/page?url=https://a.example/{raw}", content=b"x").status_code == 400, raw
    for raw in ("%25ff", "%c3%a9"):
        assert served.http.put(f"/v1/page?url=https://a.example/{raw}", content=b"x").status_code == 200, raw


@pytest.mark.parametrize("length", [0, 100, 5000, 90_000])
def test_a_frame_without_its_length_is_taken_whole_or_refused(served: Serving, length: int) -> None:
    body = bytes(number * number % 251 for number in range(length))
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(body)
    page = {"url": f"https://frame.example/{length}"}
    for raw in (frame[:-1], frame[: len(frame) // 2], frame + b"x", frame + frame, frame + bytes(1000)):
        answer = served.http.put("/v1/page", params=page, content=raw, headers={"content-encoding": "zstd"})
        assert answer.status_code == 400 and "zstd" in answer.text, answer.text
    assert served.http.head("/v1/page", params=page).status_code == 404
    assert served.http.put("/v1/page", params=page, content=frame, headers={"content-encoding": "zstd"}).is_success
    assert served.http.get("/v1/page/body", params=page).content == body


def test_an_expression_takes_no_exponential_time(served: Serving) -> None:
    served.store.put_page("https://big.example/", b"x")
    bad = {"host": "big.example", "qualifier_regex": "(a+)+$" + "|(a|a)*b" * 20}
    assert served.http.post("/v1/cells/scan", json=bad).status_code == 200
    for expression in ("(", "(?=x)y", r"(a)\1", "x{1000}{1000}", "a" * 2000):
        answer = served.http.post("/v1/cells/scan", json={"qualifier_regex": expression})
        assert answer.status_code == 400 and ("RE2" in answer.text or "characters" in answer.text)


def test_numbers_beyond_all_bounds_are_refused(served: Serving) -> None:
    for path, params in (
        ("/v1/page", {"url": "https://a.example/", "versions": "0"}),
        ("/v1/page", {"url": "https://a.example/", "at": "nan"}),
        ("/v1/urls", {"limit": "-1"}),
        ("/v1/urls", {"after": "zz"}),
        ("/v1/find", {"docno": "d", "after": "zz"}),
        ("/v1/find", {"docno": "d", "limit": "0"}),
        ("/v1/page", {"url": "https://a.example/", "families": "nope"}),
    ):
        answer = served.http.get(path, params=params)
        assert answer.status_code == 400 and answer.json()["error"]["message"], (path, params, answer.text)


def log_lines(served: Serving) -> list[dict[str, Any]]:
    return [json.loads(line) for line in served.logged().splitlines()]


def test_the_log_is_one_object_a_line(served: Serving) -> None:
    served.http.get("/v1/page", params={"url": 'https://a.example/"\n{"event":"forged"}'})
    served.http.get("/healthz")
    events = {line["event"] for line in log_lines(served)}
    assert "forged" not in events and "request" in events


# --- offers of other protocols, which are not taken

OFFERS = {
    "h2c": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
    "websocket": b"upgrade: websocket\r\nconnection: keep-alive,upgrade\r\nSec-WebSocket-Version: 13\r\n",
    "TLS/1.2": b"Connection: upgrade\r\nUpgrade: TLS/1.2\r\n",
    "two": b"Upgrade: HTTP/3.0, h2c\r\nConnection: Upgrade\r\n",
    "twice": b"Upgrade: a\r\nUpgrade: b\r\nConnection: Upgrade\r\nConnection: te\r\n",
    "nothing": b"Connection: Upgrade\r\nUpgrade:\r\n",
}
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
OFFERED_BODY = b"<title>Offered</title><p>" + b"word " * 300


@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize("framing", ["length", "chunks"])
@pytest.mark.parametrize("step", [1, 700, 1 << 20])
def test_an_offer_of_an_upgrade_is_ignored(served: Serving, offer: str, method: str, framing: str, step: int) -> None:
    url = f"https://offer.example/{method}/{framing}/{step}/{offer.replace('/', '-')}"
    body, kind, target = OFFERED_BODY, b"text/html", b"/v1/page?url=" + url.encode()
    if method == "POST":
        body, kind, target = (
            json.dumps({"page": {"url": url, "body": body.decode()}}).encode(),
            b"application/json",
            b"/v1/page",
        )
    length = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    if framing == "chunks":
        length = b"Transfer-Encoding: chunked\r\n\r\n5\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (
            body[:5],
            len(body) - 5,
            body[5:],
        )
    head = b"%b %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: %b\r\n" % (method.encode(), target, kind)
    raw = head + OFFERS[offer] + length + HEALTH + OFFERS[offer] + b"\r\n" + HEALTH + b"Connection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(raw), step):
            one.sendall(raw[start : start + step])
        answer = b"".join(iter(lambda: one.recv(65536), b""))
    assert answer.count(b"HTTP/1.1 200 OK") == 3, answer
    document = served.store.get(url)
    assert document is not None and document.body == OFFERED_BODY


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n", b"400"),
        (b"CONNECT /healthz HTTP/1.1\r\nHost: localhost\r\n" + OFFERS["h2c"], b"400"),
        (b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n" + OFFERS["h2c"], b"200"),
        (b"PUT /v1/page HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n" + OFFERS["h2c"], b"403"),
        (b"PUT /v1/page HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1, 2\r\n" + OFFERS["h2c"], b"400"),
        (b"PUT /v1/page HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n" + OFFERS["h2c"], b"400"),
    ],
)
def test_an_offer_of_an_upgrade_changes_no_other_answer(served: Serving, request_head: bytes, status: bytes) -> None:
    assert said(served, request_head + b"Connection: close\r\n\r\n").split(b" ")[1] == status
