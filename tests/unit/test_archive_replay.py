"""TimeGate, TimeMap, mementos and raw replay: what web archive clients need, and that no stored byte can hurt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docstore.model.choices import VerdictKind
from docstore.model.types import Headers, Policy
from docstore.serving.archive_app import ArchiveApp
from docstore.serving.archive_captures import digits14
from docstore.serving.settings import ArchiveSettings
from docstore.store import DocumentStore, open_store
from tests.archive_case import BASE, Reply, ask, make_store
from tests.stores import damage_value

AT = 1_700_000_000_000_000
DIGITS = "20231114221320"
POLICY = "sandbox; default-src 'none'"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArchiveApp]:
    with make_store(tmp_path_factory.mktemp("archive")) as store:
        app = ArchiveApp(store)
        yield app
        app.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    with open_store(tmp_path_factory.mktemp("pages") / "store", create=True) as store:
        pages = Pages(store)
        yield pages
        pages.app.close()


class Pages:
    """A store that takes one page after the other, each at a URL of its own."""

    def __init__(self, store: DocumentStore) -> None:
        self.app = ArchiveApp(store)
        self._store = store
        self._count = 0

    def replayed(
        self, headers: Headers = (), body: bytes = b"a body", status: int = 200, modifier: str = "id_"
    ) -> Reply:
        """A page with these headers, as it is replayed."""
        self._count += 1
        url = f"http://a.test/{self._count}"
        self._store.put_page(url, body, headers=headers, status=status, fetched_at=AT)
        return ask(self.app, f"/web/{DIGITS}{modifier}/{url}")


def links_of(reply: Reply) -> dict[str, str]:
    """Targets of the links of an answer by their relation."""
    found = re.findall(r'<([^>]*)>; rel="([^"]*)"', reply.header("Link") or reply.text)
    return {rel: target for target, rels in found for rel in rels.split(" ")}


# --- TimeGate and TimeMap


def test_the_timegate_leads_to_the_newest_capture(app: ArchiveApp) -> None:
    reply = ask(app, "/web/http://example.test/")
    assert reply.status == 302 and reply.header("Vary") == "accept-datetime"
    assert reply.header("Location") == f"{BASE}/20240901000000id_/http://example.test/"
    assert reply.header("Memento-Datetime") is None
    links = links_of(reply)
    assert links["original"] == "http://example.test/"
    assert links["timegate"] == f"{BASE}/http://example.test/"
    assert links["timemap"] == f"{BASE}/timemap/link/http://example.test/"
    assert links["first"] == f"{BASE}/20240101000000id_/http://example.test/"
    assert links["last"] == links["memento"] == reply.header("Location")


@pytest.mark.parametrize(
    ("asked", "digits"),
    [
        ("Wed, 01 May 2024 00:00:00 GMT", "20240601000000"),
        ("Thu, 01 Jan 1970 00:00:00 GMT", "20240101000000"),
        ("Fri, 31 Dec 9999 23:59:59 GMT", "20240901000000"),
    ],
)
def test_the_timegate_leads_to_the_nearest_capture_and_names_it(app: ArchiveApp, asked: str, digits: str) -> None:
    reply = ask(app, "/web/http://example.test/", ("Accept-Datetime", asked), method="HEAD")
    chosen = f"{BASE}/{digits}id_/http://example.test/"
    assert (reply.status, reply.header("Location"), reply.body) == (302, chosen, b"")
    assert f"<{chosen}>" in (reply.header("Link") or "")


@pytest.mark.parametrize("asked", ["yesterday", "Wed, 01 May 12024 00:00:00 GMT", "\xff", "2024-05-01"])
def test_a_time_that_is_none_gets_400(app: ArchiveApp, asked: str) -> None:
    assert ask(app, "/web/http://example.test/", ("Accept-Datetime", asked)).status == 400


def test_the_timemap_lists_every_capture(app: ArchiveApp) -> None:
    reply = ask(app, "/web/timemap/link/http://example.test/")
    assert reply.status == 200 and reply.header("Content-Type") == "application/link-format"
    *heads, first, middle, last = reply.text.split(",\n")
    assert [re.findall('rel="([^"]*)"', head)[0] for head in heads] == ["original", "timegate", "self"]
    assert 'rel="first memento"; datetime="Mon, 01 Jan 2024 00:00:00 GMT"' in first
    assert 'rel="memento"; datetime="Sat, 01 Jun 2024 00:00:00 GMT"' in middle
    assert 'rel="last memento"' in last
    assert ask(app, "/web/timemap/link/http://example.test/nope").status == 404


def test_a_long_timemap_goes_on_in_another(store: DocumentStore) -> None:
    for second in range(10):
        store.put_page("http://a.test/", b"<p>version %d" % second, fetched_at=AT + second * 1_000_000)
    app = ArchiveApp(store, ArchiveSettings(timemap_mementos=4))
    app.close()
    app = ArchiveApp(store, ArchiveSettings(timemap_mementos=1))
    assert ask(app, "/web/timemap/link/http://a.test/").text.count('memento"') == 1
    app.close()
    app = ArchiveApp(store, ArchiveSettings(timemap_mementos=4))
    target, times = "/web/timemap/link/http://a.test/", []
    while target:
        text = ask(app, target).text
        times += re.findall(r'memento"; datetime="[^"]* (\S+) GMT"', text)
        following = re.search(r'<[^>]*(/web/timemap[^>]*)>; rel="timemap"', text)
        target = following[1] if following else ""
    assert times == [f"22:13:{second}" for second in range(20, 30)]
    app.close()


def test_a_link_holds_no_semicolon_and_leads_back(app: ArchiveApp) -> None:
    reply = ask(app, "/web/http://example.test/q?a=1&b=x%20y;z")
    assert reply.status == 302
    assert ";" not in "".join(re.findall("<([^>]*)>", reply.header("Link") or ""))
    memento = links_of(reply)["memento"]
    assert ask(app, memento[memento.index("/web") :]).body == b"query page"


# --- raw replay


def test_a_capture_is_replayed_as_it_was_recorded(app: ArchiveApp) -> None:
    reply = ask(app, "/web/20240101000000id_/http://example.test/")
    assert reply.status == 200 and b"Home one" in reply.body
    assert reply.header("Content-Type") == "text/html; charset=utf-8"
    assert reply.header("Memento-Datetime") == "Mon, 01 Jan 2024 00:00:00 GMT"
    assert reply.header("X-Archive-Orig-ETag") == '"one"' and reply.header("ETag") is None
    assert reply.header("X-Archive-Orig-Date") == "Mon, 01 Jan 2024 00:00:00 GMT"
    assert links_of(reply)["next"] == f"{BASE}/20240601000000id_/http://example.test/"


def test_a_revisit_is_replayed_with_the_body_that_it_repeats(app: ArchiveApp) -> None:
    reply = ask(app, "/web/20240901000000id_/http://example.test/")
    assert reply.status == 200 and b"Home two" in reply.body


def test_a_gzipped_body_comes_decoded_and_no_header_says_otherwise(app: ArchiveApp) -> None:
    reply = ask(app, "/web/20240101000002id_/http://example.test/zip")
    assert reply.body == b"<h1>Was gzipped</h1>" and reply.header("content-length") == "20"
    assert not [
        name for name, _ in reply.headers if "encoding" in name.lower() or name == "X-Archive-Orig-Content-Length"
    ]


def test_an_archived_404_is_a_404_with_a_memento_time(app: ArchiveApp) -> None:
    reply = ask(app, "/web/20240101000004id_/http://example.test/missing")
    assert (reply.status, reply.body) == (404, b"<h1>archived 404</h1>")
    assert reply.header("Memento-Datetime") is not None
    unknown = ask(app, "/web/20240101000004id_/http://example.test/nope")
    assert unknown.status == 404 and unknown.header("Memento-Datetime") is None


def test_a_redirect_leads_to_the_archived_target(app: ArchiveApp) -> None:
    reply = ask(app, "/web/20240101000003id_/http://example.test/old")
    assert (reply.status, reply.header("Location")) == (301, f"{BASE}/20240101000003id_/http://example.test/zip")


def test_a_redirect_to_https_does_not_lead_to_itself(app: ArchiveApp) -> None:
    reply = ask(app, "/web/20240101000006id_/http://example.test/self")
    location = reply.header("Location") or ""
    assert location == f"{BASE}/20240101000006id_/https://example.test/self"
    reply = ask(app, location[location.index("/web") :])
    assert (reply.status, reply.header("Location")) == (302, f"{BASE}/20240101000007id_/https://example.test/self")
    assert ask(app, "/web/20240101000007id_/https://example.test/self").body == b"<h1>secure</h1>"


@pytest.mark.parametrize(
    "path",
    [
        "http://example.test/q?a=1&b=x%20y;z",
        "http%3A//example.test/q%3Fa%3D1%26b%3Dx%2520y%3Bz",
        "HTTP%3a//example.test/q%3Fa%3D1%26b%3Dx%2520y%3Bz",
        "http%3A%2F%2Fexample.test%2Fq%3Fa%3D1%26b%3Dx%2520y%3Bz",
        "http:/example.test/q?a=1&b=x%20y;z",
        "example.test/q?a=1&b=x%20y;z",
    ],
)
def test_a_url_in_a_path_comes_in_two_forms(app: ArchiveApp, path: str) -> None:
    reply = ask(app, f"/web/20240101000005id_/{path}")
    if reply.status == 302:  # without a scheme: https is asked for
        location = reply.header("Location") or ""
        reply = ask(app, location[location.index("/web") :])
    assert (reply.status, reply.body) == (200, b"query page")


def test_slashes_are_not_merged_and_dots_in_a_query_stay(store: DocumentStore) -> None:
    store.put_page("http://a.test//x//../y/?u=http://b.test/../c", b"found", fetched_at=AT)
    app = ArchiveApp(store)
    assert ask(app, f"/web/{DIGITS}id_/http://a.test//x//../y/?u=http://b.test/../c").body == b"found"
    app.close()


def test_an_empty_query_is_found_though_servers_drop_its_mark(store: DocumentStore) -> None:
    store.put_page("http://a.test/?", b"found", fetched_at=AT)
    app = ArchiveApp(store)
    reply = ask(app, f"/web/{DIGITS}id_/http://a.test/?")
    assert reply.body == b"found"
    memento = links_of(reply)["memento"]
    assert ask(app, memento[memento.index("/web") :]).body == b"found"
    app.close()


def test_another_time_leads_to_the_nearest_capture(app: ArchiveApp) -> None:
    for asked, digits in (
        ("20240501", "20240601000000"),
        ("2023", "20240101000000"),
        ("99999999999999", "20240901000000"),
    ):
        reply = ask(app, f"/web/{asked}id_/http://example.test/")
        assert (reply.status, reply.header("Location")) == (302, f"{BASE}/{digits}id_/http://example.test/")


def test_captures_of_one_second_lead_to_one_of_them(store: DocumentStore) -> None:
    for millis in (1, 2, 3):
        store.put_page("http://a.test/", b"version %d" % millis, fetched_at=AT + millis * 1000)
    app = ArchiveApp(store)
    assert ask(app, f"/web/{DIGITS}id_/http://a.test/").body == b"version 3"
    assert len(ask(app, "/web/cdx?url=a.test").text.splitlines()) == 3
    app.close()


def test_a_url_with_very_many_captures_is_found_at_any_time(store: DocumentStore) -> None:
    for number in range(40):
        store.put_page("http://a.test/", b"<p>version %d" % number, fetched_at=AT + number * 86_400_000_000)
    app = ArchiveApp(store, ArchiveSettings(row_captures=5))
    for number in range(40):
        day = AT + number * 86_400_000_000
        reply = ask(app, f"/web/{digits14(day)}id_/http://a.test/")
        assert reply.body == b"<p>version %d" % number
        near = ask(app, f"/web/{digits14(day + 3600_000_000)}id_/http://a.test/")
        assert near.header("Location") == f"{BASE}/{digits14(day)}id_/http://a.test/"
    app.close()


def test_a_head_has_the_length_and_no_body(app: ArchiveApp) -> None:
    reply = ask(app, "/web/20240101000000id_/http://example.test/", method="HEAD")
    assert (reply.status, reply.body, reply.header("content-length")) == (200, b"", "194")


def test_pages_by_reference_have_the_body_and_rejected_ones_say_where_it_is(store: DocumentStore) -> None:
    body = b"<p>the same bytes"
    store.put_page("http://a.test/1", body, fetched_at=AT)
    store.put_page("http://a.test/2", body, fetched_at=AT, policies={VerdictKind.EXACT: Policy.REFERENCE})
    store.put_page("http://a.test/3", body, fetched_at=AT, policies={VerdictKind.EXACT: Policy.REJECT})
    app = ArchiveApp(store)
    assert ask(app, f"/web/{DIGITS}id_/http://a.test/2").body == body
    for target in (f"/web/{DIGITS}id_/http://a.test/3", "/web/http://a.test/3", "/web/timemap/link/http://a.test/3"):
        reply = ask(app, target)
        assert reply.status == 404 and f"{BASE}/{DIGITS}id_/http://a.test/1" in reply.text
    app.close()


def test_a_page_whose_body_its_crawler_keeps_is_not_shown(store: DocumentStore) -> None:
    store.put_page("http://a.test/1", b"<p>kept elsewhere", fetched_at=AT, keep_body=False)
    store.put_page("http://a.test/2", b"<p>kept elsewhere", fetched_at=AT)
    app = ArchiveApp(store)
    assert ask(app, "/web/cdx?url=a.test/*&fl=url").text == "http://a.test/2\n"
    assert '"pages": 1,' in ask(app, "/web/cdx?url=a.test/*&showNumPages=true&pageSize=1").text
    for target in (f"/web/{DIGITS}id_/http://a.test/1", "/web/http://a.test/1", "/web/timemap/link/http://a.test/1"):
        reply = ask(app, target)
        assert reply.status == 404 and "its body was not kept" in reply.text
    app.close()


def test_a_damaged_body_is_said_to_be_so(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        store.put_page("http://a.test/page", bytes(range(256)) * 40, fetched_at=AT)
        damage_value(store, "http://a.test/page", ("page", b"body"))
    with open_store(tmp_path / "store") as store:
        app = ArchiveApp(store)
        reply = ask(app, f"/web/{DIGITS}id_/http://a.test/page")
        assert reply.status == 502 and "docstore check" in reply.text
        assert ask(app, "/web/cdx?url=a.test/page").text.split(" ")[5] == "-"
        app.close()


# --- nothing of a stored page acts


HARMFUL = (
    ("Set-Cookie", "session=1"),
    ("Set-Cookie2", "session=1"),
    ("Refresh", "0; url=http://evil.test/"),
    ("Service-Worker-Allowed", "/"),
    ("Content-Security-Policy", "script-src *"),
    ("Access-Control-Allow-Origin", "*"),
    ("Clear-Site-Data", '"*"'),
    ("Strict-Transport-Security", "max-age=1"),
    ("Public-Key-Pins", "x"),
    ("WWW-Authenticate", "Basic"),
    ("Link", '<http://evil.test/x.css>; rel="stylesheet"'),
    ("X-Content-Type-Options", "sniff"),
    ("Connection", "close"),
    ("Keep-Alive", "timeout=1"),
    ("Upgrade", "h2c"),
    ("Trailer", "X"),
    ("Alt-Svc", 'h3="evil.test:443"'),
    ("Memento-Datetime", "Mon, 01 Jan 2001 00:00:00 GMT"),
    ("NEL", "{}"),
    ("Report-To", "{}"),
    ("SourceMap", "http://evil.test/map"),
    ("Host", "evil.test"),
    ("Date", "Mon, 01 Jan 2001 00:00:00 GMT"),
    ("Content-Disposition", "attachment; filename=evil.exe"),
)


@pytest.mark.parametrize("modifier", ["id_", ""])
def test_recorded_headers_are_there_under_a_name_on_which_nobody_acts(pages: Pages, modifier: str) -> None:
    reply = pages.replayed(HARMFUL, modifier=modifier)
    names = {name.lower() for name, _ in reply.headers}
    for name, value in HARMFUL:
        assert (f"X-Archive-Orig-{name}", value) in reply.headers
        if name.lower() not in {"link", "memento-datetime", "content-security-policy", "x-content-type-options"}:
            assert name.lower() not in names - ({"content-disposition"} if not modifier else set())
    assert reply.header("Content-Security-Policy") == POLICY
    assert reply.header("X-Content-Type-Options") == "nosniff"
    assert "evil" not in (reply.header("Link") or "") + (reply.header("Content-Disposition") or "")
    assert reply.header("Memento-Datetime") == "Tue, 14 Nov 2023 22:13:20 GMT"


@pytest.mark.parametrize(
    "headers",
    [
        (("X-Page", "one\r\nSet-Cookie: a=1"),),
        (("X-Page\r\nSet-Cookie", "a=1"),),
        (("X-Page", "one\nSet-Cookie: a=1"),),
        (("X-Page", "one\rSet-Cookie: a=1"),),
        (("X-Page", "\0\x0b\x0c\x1c\x7f\x85"),),
        (("Content-Type", "text/html\r\nSet-Cookie: a=1"),),
        (("Location", "/x\r\nSet-Cookie: a=1"),),
        (("", "nameless"), ("Set-Cookie", "a=1"), ("A B", "c"), ("A:B", "c"), ("Ünicode", "ü")),
    ],
)
@pytest.mark.parametrize("status", [200, 302])
def test_a_recorded_header_cannot_become_two(pages: Pages, headers: Headers, status: int) -> None:
    reply = pages.replayed(headers, status=status)
    assert reply.status == status
    assert "set-cookie" not in [name.lower() for name, _ in reply.headers]
    for name, value in reply.headers:
        assert re.fullmatch(r"[A-Za-z0-9-]+", name)
        assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value)


def test_very_many_or_long_headers_are_left_out_and_counted(pages: Pages) -> None:
    reply = pages.replayed((*((f"X-{number}", "v") for number in range(300)), ("X-Long", "v" * 9000)))
    assert len(reply.headers) < 95
    assert "recorded headers" in (reply.header("X-Docstore-Left-Out") or "")


@pytest.mark.parametrize(
    "target",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        " javascript:alert(1)",
        "java\tscript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "vbscript:x",
        "file:///etc/passwd",
        "ftp://a.test/",
        "blob:http://a.test/x",
        "about:blank",
        "mailto:a@a.test",
        "http://",
        "",
    ],
)
@pytest.mark.parametrize("modifier", ["id_", ""])
def test_a_redirect_to_what_is_no_page_leads_nowhere(pages: Pages, target: str, modifier: str) -> None:
    reply = pages.replayed((("Location", target),), status=302, modifier=modifier)
    assert reply.status == 302 and reply.header("Location") is None


@pytest.mark.parametrize("target", ["//evil.test/x", "http://evil.test/x", "\\\\evil.test/x", "http:\\\\evil.test/x"])
def test_a_redirect_to_another_site_stays_in_the_archive(pages: Pages, target: str) -> None:
    reply = pages.replayed((("Location", target),), status=302, modifier="")
    assert reply.header("Location") == f"{BASE}/{DIGITS}/http://evil.test/x"


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        ("text/html", "text/html"),
        ("text/html; charset=iso-8859-1", "text/html; charset="),
        ("image/svg+xml", "image/svg+xml"),
        ("image/png", "image/png"),
        ("text/javascript", "text/plain"),
        ("application/json", "text/plain"),
        ("application/xml", "text/plain"),
        ("application/rss+xml", "text/plain"),
        ("text/xsl", "text/plain"),
        ("application/pdf", "application/octet-stream"),
        ("application/x-shockwave-flash", "application/octet-stream"),
        ("application/x-msdownload", "application/octet-stream"),
        ("multipart/x-mixed-replace; boundary=x", "application/octet-stream"),
        ("message/rfc822", "application/octet-stream"),
        ("nonsense", "application/octet-stream"),
        ("", "application/octet-stream"),
    ],
)
def test_people_get_types_that_are_shown_as_text_or_downloaded(pages: Pages, recorded: str, shown: str) -> None:
    headers = (("Content-Type", recorded),) if recorded else ()
    reply = pages.replayed(headers, b"<script>alert(1)</script>", modifier="")
    assert (reply.header("Content-Type") or "").startswith(shown)
    assert (reply.header("Content-Disposition") == "attachment") == (shown == "application/octet-stream")
    assert reply.header("Content-Security-Policy") == POLICY
    assert reply.header("X-Content-Type-Options") == "nosniff"


def test_parts_of_a_body_bring_no_headers_of_their_own(pages: Pages) -> None:
    recorded = "multipart/x-mixed-replace; boundary=x"
    reply = pages.replayed((("Content-Type", recorded),), b"--x\r\nSet-Cookie: a=1\r\n\r\nx--")
    assert reply.header("Content-Type") == "application/octet-stream"
    assert reply.header("X-Archive-Orig-Content-Type") == recorded


def test_a_body_without_a_type_is_not_sniffed_in_raw_replay(pages: Pages) -> None:
    reply = pages.replayed((), b"<html><script>alert(1)</script>")
    assert reply.header("Content-Type") == "application/octet-stream"
    assert reply.header("X-Content-Type-Options") == "nosniff"


@pytest.mark.parametrize(("status", "answered"), [(0, 200), (100, 502), (199, 502), (204, 204), (999, 502), (600, 502)])
def test_a_recorded_status_that_http_cannot_say(pages: Pages, status: int, answered: int) -> None:
    reply = pages.replayed((), b"a body", status)
    assert reply.status == answered
    assert reply.header("X-Archive-Orig-Status") == (str(status) if answered == 502 else None)
    assert reply.body == (b"" if answered == 204 else b"a body")
    assert (reply.header("content-length") is None) == (answered == 204)


def test_every_answer_says_that_nothing_in_it_may_run(app: ArchiveApp) -> None:
    for target in (
        "/",
        "/web/",
        "/nope",
        "/web/cdx",
        "/web/cdx?url=example.test",
        "/web/http://example.test/",
        "/robots.txt",
    ):
        reply = ask(app, target)
        assert reply.header("Content-Security-Policy") == POLICY
        assert reply.header("X-Content-Type-Options") == "nosniff"
        assert reply.header("Set-Cookie") is None


def test_text_of_a_request_comes_back_as_plain_text_only(app: ArchiveApp) -> None:
    for target in ("/web/2024id_/http://a.test/<script>alert(1)</script>", "/web/cdx?url=<script>alert(1)</script>"):
        reply = ask(app, target)
        assert (reply.header("Content-Type") or "").startswith("text/plain")


# --- who may ask, and how


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get"])
def test_only_get_and_head_are_answered(app: ArchiveApp, method: str) -> None:
    reply = ask(app, "/web/http://example.test/", method=method)
    assert (reply.status, reply.header("Allow")) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "host",
    [
        "evil.test",
        "evil.test:8471",
        "127.0.0.1.evil.test",
        "",
        None,
        "127.0.0.1:x",
        "a b",
        "127.0.0.1\r\nX: y",
        "[::2]",
    ],
)
def test_another_name_is_refused(app: ArchiveApp, host: str | None) -> None:
    reply = ask(app, "/web/20240101000000id_/http://example.test/", host=host)
    assert reply.status == 421 and b"Home" not in reply.body


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:8471"])
def test_names_of_loopback_are_answered(app: ArchiveApp, host: str) -> None:
    assert ask(app, "/web/20240101000000id_/http://example.test/", host=host).status == 200


def test_links_carry_the_name_that_the_operator_gave(store: DocumentStore) -> None:
    store.put_page("http://a.test/", b"x", fetched_at=AT)
    app = ArchiveApp(store, ArchiveSettings(base_url="https://archive.test/"))
    reply = ask(app, "/web/http://a.test/", host="archive.test")
    assert reply.header("Location") == f"https://archive.test/web/{DIGITS}id_/http://a.test/"
    app.close()


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/web/20240101000000mp_/http://example.test/", 404),
        ("/web/2024010100000012id_/http://example.test/", 404),
        ("/web/*/http://example.test/", 404),
        ("/web/timemap/json/http://example.test/", 404),
        ("/web/20240101000000id_/", 400),
        ("/web/20240101000000id_/javascript:alert(1)", 400),
        ("/web/20240101000000id_/javascript%3Aalert(1)", 400),
        ("/web/20240101000000id_/data:text/html,x", 400),
        ("/web/20240101000000id_/file:///etc/passwd", 400),
        ("/web/20240101000000id_/http://u:p@example.test/", 400),
        ("/web/20240101000000id_/http://", 400),
        ("/web/20240101000000id_/http://[", 400),
        ("/web/20240101000000id_/http://example.test/%0d%0aSet-Cookie:a=1", 404),
        ("/web/20240101000000id_/http%3A//example.test/%0d%0aSet-Cookie:a=1", 404),
        ("/../../etc/passwd", 404),
        ("/web/../v1/pages", 400),
        ("//web/cdx", 404),
        ("/web/cdx/", 404),
    ],
)
def test_an_odd_path_gets_a_reason(app: ArchiveApp, target: str, status: int) -> None:
    reply = ask(app, target)
    assert reply.status == status and reply.body
    assert "set-cookie" not in [name.lower() for name, _ in reply.headers]
