"""CDX: what web archive clients ask, and the answers with which they work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from docstore.model.capture import PAYLOAD_DIGEST, STATUS, TYPE
from docstore.model.choices import VerdictKind
from docstore.model.errors import InvalidArgument
from docstore.model.types import Policy, ReadSpec
from docstore.reports.check import check
from docstore.serving.archive_app import ArchiveApp
from docstore.serving.archive_captures import Budget, Digests, of_path
from docstore.serving.archive_cdx import matcher
from docstore.serving.settings import ArchiveSettings
from docstore.store import DocumentStore, open_store
from tests.archive_case import CAPTURES, Recorded, ask, make_store
from tests.stores import change_capture

ALL = "/web/cdx?url=example.test/*"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocumentStore]:
    with make_store(tmp_path_factory.mktemp("archive")) as store:
        yield store


@pytest.fixture(scope="module")
def app(store: DocumentStore) -> Iterator[ArchiveApp]:
    app = ArchiveApp(store)
    yield app
    app.close()


def lines(app: ArchiveApp, target: str) -> list[list[str]]:
    reply = ask(app, target)
    assert reply.status == 200, reply.text
    return [line.split(" ") for line in reply.text.splitlines()]


def times(app: ArchiveApp, target: str) -> list[str]:
    return [line[1] for line in lines(app, target)]


def test_a_line_has_seven_fields(app: ArchiveApp) -> None:
    first, second, third = lines(app, "/web/cdx?url=http%3A%2F%2Fexample.test%2F")
    assert first[:5] == ["test,example)/", "20240101000000", "http://example.test/", "text/html", "200"]
    assert len(first) == 7 and len(first[5]) == 32 and first[6] == "194"
    assert third[3:5] == ["warc/revisit", "-"] and third[5] == second[5] != first[5]


def test_a_recorded_digest_is_that_of_the_bytes_as_they_were_sent(app: ArchiveApp) -> None:
    (zipped,) = lines(app, "/web/cdx?url=example.test/zip")
    assert zipped[5] == "PYT5JYM5ZQXO62A6SMY4RBHKTKTH4ZWK"  # of the gzip member


def test_what_pywb_asks_gives_the_nearest_captures_first(app: ArchiveApp) -> None:
    target = "/web/cdx?url=http%3A//example.test/&closest=2024060{}&sort=closest&limit=100&matchType=exact"
    assert times(app, target.format("1000000")) == ["20240601000000", "20240901000000", "20240101000000"]
    assert times(app, target.format("2").replace("limit=100", "limit=1")) == ["20240601000000"]
    empty = "/web/cdx?url=http%3A//example.test/&closest=&sort=closest&matchType=exact"
    assert times(app, empty) == ["20240101000000", "20240601000000", "20240901000000"]


def test_what_pywb_asks_after_an_empty_answer_is_empty_too(app: ArchiveApp) -> None:
    assert lines(app, "/web/cdx?url=http%3A//example.test/nope&closest=&sort=closest&matchType=prefix") == []


def test_what_warcprox_asks_gives_one_line(app: ArchiveApp) -> None:
    target = (
        "/web/cdx?url=http%3A%2F%2Fexample.test%2F&fl=timestamp%2Cdigest&filter=%21mimetype%3Awarc%2Frevisit&limit=-1"
    )
    assert lines(app, target) == [["20240601000000", "43N6Q446EIJVSHA2LIPDF4CW34MTG3CO"]]


def test_what_cdxt_asks_gives_objects_of_strings_until_400(app: ArchiveApp) -> None:
    first = ask(app, "/web/cdx?url=example.test%2F%2A&output=json&page=0")
    rows = [json.loads(line) for line in first.text.splitlines()]
    assert len(rows) == 10 and all(isinstance(value, str) for row in rows for value in row.values())
    assert rows[0] | {"digest": ""} == {
        "urlkey": "test,example)/",
        "timestamp": "20240101000000",
        "url": "http://example.test/",
        "mime": "text/html",
        "status": "200",
        "digest": "",
        "length": "194",
    }
    after = ask(app, "/web/cdx?url=example.test%2F%2A&output=json&page=1")
    assert after.status == 400 and "message" in json.loads(after.body)


def test_nothing_found_is_404_in_json_only(app: ArchiveApp) -> None:
    reply = ask(app, "/web/cdx?url=example.test/nope&output=json")
    assert (reply.status, json.loads(reply.body)) == (404, {"message": "No Captures found for: example.test/nope"})
    reply = ask(app, "/web/cdx?url=example.test/nope")
    assert (reply.status, reply.body) == (200, b"")


def test_http_and_https_are_in_one_answer(app: ArchiveApp) -> None:
    both = [line[2] for line in lines(app, "/web/cdx?url=http://example.test/self")]
    assert both == ["http://example.test/self", "https://example.test/self"]
    assert [line[2] for line in lines(app, "/web/cdx?url=example.test/self")] == both


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        ("url=example.test/&matchType=host", 10),
        ("url=test&matchType=domain", 10),
        ("url=*.test", 10),
        ("url=*.example.test/*", 10),
        ("url=example.tes&matchType=domain", 0),
        ("url=example.test/s&matchType=prefix", 2),
        ("url=http://example.test/m*", 1),
        ("url=example.test/old&matchType=range", 6),
        ("url=example.test/old&matchType=range&end=example.test/q", 2),
        ("url=example.test:8080/*", 0),
        ("url=example.test/*&from=2024&to=202401", 8),
        ("url=example.test/*&from=202406&to=20240601", 1),
        ("url=example.test/*&filter=%3Dstatus:200", 6),
        ("url=example.test/*&filter=statuscode:200", 6),
        ("url=example.test/*&filter=status:20", 0),
        ("url=example.test/*&filter=~status:20", 6),
        ("url=example.test/*&filter=!mimetype:image/.*&filter=%3Dstatus:200", 5),
        ("url=example.test/*&filter=original:.*self", 2),
        ("url=example.test/*&filter=%3Dfilename:-", 10),
        ("url=example.test/*&collapse=urlkey", 7),
        ("url=example.test/*&collapse=timestamp:4", 1),
        ("url=example.test/*&collapse=digest", 9),
        ("url=example.test/*&limit=4", 4),
        ("url=example.test/*&limit=0", 0),
        ("url=example.test/*&limit=-2", 2),
    ],
)
def test_a_question_finds_so_many(app: ArchiveApp, asked: str, count: int) -> None:
    assert len(lines(app, f"/web/cdx?{asked}")) == count


def test_the_last_rows_come_in_order_and_reverse_turns_it(app: ArchiveApp) -> None:
    every = times(app, ALL)
    assert times(app, f"{ALL}&limit=-3") == every[-3:]
    assert times(app, f"{ALL}&sort=reverse") == every[::-1]
    assert times(app, f"{ALL}&sort=reverse&limit=2") == every[:-3:-1]
    assert times(app, f"{ALL}&closest=20240101000004&limit=1") == ["20240101000004"]


def test_fields_are_those_asked_for_under_their_names(app: ArchiveApp) -> None:
    assert lines(app, "/web/cdx?url=example.test/old&fl=statuscode,original,offset") == [
        ["301", "http://example.test/old", "-"]
    ]
    reply = ask(app, "/web/cdx?url=example.test/old&fl=statuscode,mimetype&output=json")
    assert json.loads(reply.body) == {"statuscode": "301", "mimetype": "text/html"}


def test_cdxj_has_key_time_and_an_object(app: ArchiveApp) -> None:
    urlkey, timestamp, fields = ask(app, "/web/cdx?url=example.test/old&output=cdxj").text.split(" ", 2)
    assert (urlkey, timestamp) == ("test,example)/old", "20240101000003")
    assert json.loads(fields)["status"] == "301"


def test_pages_are_counted_and_together_hold_every_row_once(app: ArchiveApp) -> None:
    reply = ask(app, f"{ALL}&showNumPages=true&pageSize=4")
    assert json.loads(reply.body) == {"pages": 3, "pageSize": 4, "blocks": 3}
    every = lines(app, ALL)
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        fresh = {number: lines(app, f"{ALL}&page={number}&pageSize=4") for number in order}
        assert [line for number in sorted(fresh) for line in fresh[number]] == every
    assert ask(app, f"{ALL}&page=3&pageSize=4").status == 400
    assert ask(app, "/web/cdx?url=example.test/nope*&page=0").body == b""
    assert ask(app, "/web/cdx?url=example.test/nope*&page=1").status == 400


def test_pages_of_one_capture_split_a_url_with_several(store: DocumentStore) -> None:
    app = ArchiveApp(store)
    every = lines(app, ALL)
    assert json.loads(ask(app, f"{ALL}&showNumPages=true&pageSize=1").body)["pages"] == len(every)
    cold = ArchiveApp(store)
    assert lines(cold, f"{ALL}&page=2&pageSize=1") == every[2:3]
    assert [line for page in range(10) for line in lines(cold, f"{ALL}&page={page}&pageSize=1")] == every
    app.close()
    cold.close()


def test_limit_counts_after_page(app: ArchiveApp) -> None:
    assert len(lines(app, f"{ALL}&limit=6&page=0&pageSize=4")) == 4
    assert len(lines(app, f"{ALL}&limit=2&page=1&pageSize=4")) == 2


@pytest.mark.parametrize(
    ("question", "limit"),
    [(ALL, 3), ("/web/cdx?url=example.test/", 1), ("/web/cdx?url=example.test/&from=2024&fl=timestamp", 2)],
)
def test_an_answer_goes_on_where_it_stopped(app: ArchiveApp, question: str, limit: int) -> None:
    every = lines(app, question)
    assert len(every) > limit
    rows: list[list[str]] = []
    link: str | None = f"<{question}&limit={limit}&showResumeKey=true>"
    while link is not None:
        reply = ask(app, link[link.index("/web") : link.index(">")])
        text, _, key = reply.text.partition("\n\n")
        rows += [line.split(" ") for line in text.splitlines()]
        link = reply.header("Link")
        assert (link is None) == (key == "") and key.strip() in (link or "")
    assert rows == every


def test_a_used_up_budget_says_so_and_the_question_goes_on(store: DocumentStore) -> None:
    app = ArchiveApp(store, ArchiveSettings(scan_rows=3))
    rows, target = [], ALL
    for _ in range(10):
        reply = ask(app, target)
        rows += [line.split(" ") for line in reply.text.splitlines()]
        link = reply.header("Link")
        if link is None:
            break
        assert "looked at 3 rows and captures" in (reply.header("X-Docstore-Incomplete") or "")
        target = link[link.index("/web") : link.index(">")]
    assert rows == lines(ArchiveApp(store), ALL)
    assert ask(app, f"{ALL}&limit=-1").status == 400
    empty = ask(app, f"{ALL}&filter=status:500&output=json")
    assert empty.status == 404 and "looked at 3 rows" in empty.text
    counted = json.loads(ask(app, f"{ALL}&showNumPages=true&pageSize=2").body)
    assert counted["complete"] is False and counted["pages"] >= 1
    assert "ask again" in ask(app, f"{ALL}&page=4&pageSize=2").text
    app.close()


def test_an_answer_has_no_more_bytes_than_it_may(store: DocumentStore) -> None:
    app = ArchiveApp(store, ArchiveSettings(answer_bytes=700))
    every = lines(ArchiveApp(store), ALL)
    rows, link = [], f"<{ALL}>"
    while link:
        reply = ask(app, link[link.index("/web") : link.index(">")])
        rows += [line.split(" ") for line in reply.text.splitlines()]
        assert len(reply.body) <= 700
        link = reply.header("Link") or ""
    assert rows == every
    paged: list[list[str]] = []
    for page in range(20):
        reply = ask(app, f"{ALL}&page={page}")
        assert len(reply.body) <= 700
        paged += [line.split(" ") for line in reply.text.splitlines() if reply.status == 200]
    assert paged == every
    for asked in (f"{ALL}&sort=reverse", f"{ALL}&closest=2024", "/web/cdx?url=example.test/"):
        reply = ask(app, asked)
        assert 0 < len(reply.body) <= 700 and "700 bytes" in (reply.header("X-Docstore-Incomplete") or "")
    app.close()


def test_a_very_long_url_leaves_headers_short(store: DocumentStore) -> None:
    url = "http://long.test/" + "x" * 40_000
    for second in range(3):
        store.put_page(url, b"version %d" % second, fetched_at=(1_700_000_000 + second) * 1_000_000)
    app = ArchiveApp(store)
    assert len(lines(app, f"/web/cdx?url={url}")) == 3
    for target in (
        f"/web/{url}",
        f"/web/20231114221321id_/{url}",
        f"/web/timemap/link/{url}",
        "/web/cdx?url=long.test/*&limit=1",
    ):
        reply = ask(app, target)
        assert reply.status in (200, 302)
        assert all(len(value) < 60_000 for _, value in reply.headers)
    app.close()


def test_pages_go_on_one_after_the_other_whatever_the_budget(store: DocumentStore) -> None:
    app = ArchiveApp(store, ArchiveSettings(scan_rows=4))
    rows: list[list[str]] = []
    for page in range(20):
        reply = ask(app, f"{ALL}&page={page}")
        if reply.status == 400:
            break
        rows += [line.split(" ") for line in reply.text.splitlines()]
    assert rows == lines(ArchiveApp(store), ALL)
    app.close()


def test_links_to_pages_that_nobody_fetched_count_too(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        for number in range(300):
            store.add_anchor(f"http://a.test/{number:03d}", "http://b.test/", "a link")
        store.put_page("http://a.test/zzz", b"<p>the only page")
        app = ArchiveApp(store, ArchiveSettings(scan_rows=100))
        reply = ask(app, "/web/cdx?url=a.test/*")
        assert (reply.status, reply.body) == (200, b"") and reply.header("Link") is not None
        patient = ArchiveApp(store)
        assert len(lines(patient, "/web/cdx?url=a.test/*")) == 1
        app.close()
        patient.close()


def test_a_url_with_very_many_captures_shows_the_newest_of_a_time(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        for second in range(40):
            store.put_page("http://a.test/", b"<p>version %d" % second, fetched_at=(1_700_000_000 + second) * 1_000_000)
        app = ArchiveApp(store, ArchiveSettings(row_captures=5))
        reply = ask(app, "/web/cdx?url=a.test/")
        assert [line.split(" ")[1][-2:] for line in reply.text.splitlines()] == ["55", "56", "57", "58", "59"]
        assert "from and to" in (reply.header("X-Docstore-Incomplete") or "")
        assert len(times(app, "/web/cdx?url=a.test/&from=20231114221330&to=20231114221333")) == 4
        app.close()


def test_a_digest_that_nobody_recorded_is_worked_out_and_kept(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        store.put_page("http://a.test/", b"hello")
        digest = "VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N"  # sha1 of hello
        app = ArchiveApp(store)
        assert lines(app, "/web/cdx?url=a.test/")[0][5] == digest
        row = store.cells.read_row("http://a.test/", ReadSpec(("http",), b"payload_digest"))
        assert row is not None and [cell.value for cell in row.cells] == [f"sha1:{digest}".encode()]
        app.close()
        with mock.patch.object(DocumentStore, "get", side_effect=AssertionError("no body is read again")):
            again = ArchiveApp(store)
            assert lines(again, "/web/cdx?url=a.test/")[0][5] == digest
            again.close()
        store.compact()
        assert list(check(store.backend)) == []


def test_a_page_that_is_deleted_meanwhile_gets_no_row_again(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        store.put_page("http://a.test/", b"hello")
        listed = of_path(store.table, b"test,a)/", Budget(100, 10, 10))
        digests = Digests(store, 1000, keep=True)
        found, left = digests.filled(listed)
        assert (found[0].digest, left) == ("VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N", 995)

        class Deleting(DocumentStore):
            """Deletes the page as soon as its body is read."""

            def __init__(self) -> None:
                vars(self).update(vars(store))

            def get(self, *arguments: Any, **named: Any) -> Any:
                found = store.get(*arguments, **named)
                store.delete("http://a.test/", purge=True, compact=False)
                return found

        store.delete("http://a.test/")
        store.put_page("http://a.test/", b"hello")
        listed = of_path(store.table, b"test,a)/", Budget(100, 10, 10))
        assert Digests(Deleting(), 1000, keep=True).filled(listed)[0][0].digest
        assert list(store.cells.scan()) == []


def test_columns_that_make_no_sense_break_no_list(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        store.put_page("http://a.test/", b"hello", fetched_at=1_700_000_000_000_000)
        senseless = dict.fromkeys((STATUS, TYPE, PAYLOAD_DIGEST), b"\xff no number\n" * 200)
        change_capture(store, "http://a.test/", senseless)
        app = ArchiveApp(store)
        assert lines(app, "/web/cdx?url=a.test/")[0][3:5] == ["unk", "-"]
        reply = ask(app, "/web/20231114221320id_/http://a.test/")
        assert reply.status == 502 and "cannot be read" in reply.text
        app.close()


def test_bodies_beyond_the_bound_keep_an_unknown_digest(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        store.put_page("http://a.test/1", b"x" * 100)
        store.put_page("http://a.test/2", b"y" * 100)
        app = ArchiveApp(store, ArchiveSettings(digest_bytes=150, keep_digests=False))
        first = [line[5] for line in lines(app, "/web/cdx?url=a.test/*")]
        assert first[0] != "-" and first[1] == "-"
        assert "-" not in [line[5] for line in lines(app, "/web/cdx?url=a.test/*")]
        document = store.get("http://a.test/1")
        assert document is not None and document.newest.payload_digest == ""
        app.close()


@pytest.mark.parametrize(
    ("recorded", "shown"),
    [
        ("sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "A" * 32),
        ("SHA1:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "A" * 32),
        ("sha1:" + "00" * 20, "A" * 32),
        ("md5:1B2M2Y8AsgTpgAmY7PhCfg", "VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N"),
        ("sha1:two words", "VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N"),
    ],
)
def test_recorded_digests_of_other_spellings(tmp_path: Path, recorded: str, shown: str) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        store.put_page("http://a.test/", b"hello", fetched_at=1_700_000_000_000_000)
        change_capture(store, "http://a.test/", {PAYLOAD_DIGEST: recorded.encode()})
        app = ArchiveApp(store, ArchiveSettings(keep_digests=False))
        assert lines(app, "/web/cdx?url=a.test/")[0][5] == shown
        app.close()


def test_a_visit_that_a_304_answered_is_a_revisit(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        store.put_page("http://a.test/", b"hello", fetched_at=1_700_000_000_000_000)
        store.put_page("http://a.test/", status=304, fetched_at=1_700_000_100_000_000)
        app = ArchiveApp(store)
        first, second = lines(app, "/web/cdx?url=a.test/")
        assert first[3:6] == ["unk", "200", "VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N"]
        assert second[3:6] == ["warc/revisit", "-", "VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N"]
        app.close()


def test_a_revisit_stays_one_when_bodies_move(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        body = b" ".join(b"word%d" % number for number in range(1000))
        store.put_page("http://a.test/other", body + b" end", fetched_at=1_700_000_000_000_000)
        for second, version in enumerate((body, body, body + b" changed", body)):
            store.put_page("http://a.test/", version, fetched_at=(1_700_000_000 + second) * 1_000_000)
        store.delete("http://a.test/other", purge=True, compact=False)
        store.compact()
        app = ArchiveApp(store)
        assert [line[3] for line in lines(app, "/web/cdx?url=a.test/")] == ["unk", "warc/revisit", "unk", "unk"]
        app.close()


def test_captures_without_a_body_are_not_listed(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        store.put_page("http://a.test/1", b"the same bytes")
        store.put_page("http://a.test/2", b"the same bytes", policies={VerdictKind.EXACT: Policy.REJECT})
        store.put_page("http://a.test/3", b"the same bytes", policies={VerdictKind.EXACT: Policy.REFERENCE})
        app = ArchiveApp(store)
        assert [line[2] for line in lines(app, "/web/cdx?url=a.test/*")] == ["http://a.test/1", "http://a.test/3"]
        app.close()


def test_pages_at_other_ports_and_with_passwords(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        for url in ("http://a.test/x", "http://a.test:8080/x", "http://u:secret@a.test/x", "ftp://a.test/x", "urn:x:y"):
            store.put_page(url, url.encode())
        app = ArchiveApp(store)
        assert [line[0] for line in lines(app, "/web/cdx?url=a.test&matchType=host")] == ["test,a)/x", "test,a:8080)/x"]
        assert [line[2] for line in lines(app, "/web/cdx?url=http://a.test:8080/x")] == ["http://a.test:8080/x"]
        assert [line[2] for line in lines(app, "/web/cdx?url=http://a.test/*")] == ["http://a.test/x"]
        assert [line[2] for line in lines(app, "/web/cdx?url=http://a.test:8080/*")] == ["http://a.test:8080/x"]
        app.close()


def test_a_recorded_type_cannot_make_a_line_of_its_own(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        store.put_page("http://a.test/", b"x", headers={"Content-Type": "text/html\ncom,evil)/ 2024"})
        app = ArchiveApp(store)
        (line,) = lines(app, "/web/cdx?url=a.test/")
        assert line[3] == "unk"
        app.close()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("", "url is missing"),
        ("url=", "url is missing"),
        ("url=javascript:alert(1)", "nothing is archived"),
        ("url=ftp://a.test/", "only URLs of http and https"),
        ("url=http://u:p@a.test/", "without a password"),
        ("url=a.test&matchType=near", "matchType must be one of"),
        ("url=a.test&sort=up", "sort must be one of"),
        ("url=a.test&output=xml", "output must be one of"),
        ("url=a.test&from=yesterday", "not a time"),
        ("url=a.test&closest=123456789012345", "not a time"),
        ("url=a.test&limit=many", "limit must be a whole number"),
        ("url=a.test&page=-1", "page must be a whole number"),
        ("url=a.test&filter=status", "has no colon"),
        ("url=a.test&filter=colour:red", "no field 'colour'"),
        ("url=a.test&filter=status:(", "is not understood"),
        ("url=a.test&filter=status:(.)\\1", "no back references"),
        ("url=a.test&filter=url:" + "a" * 1001, "at most 1000 are read"),
        ("url=a.test&" + "filter=status:200&" * 17, "at most 16 are applied"),
        ("url=a.test&" + "x=1&" * 65, "at most 64 parameters"),
        ("url=a.test&fl=timestamp,colour", "no field 'colour'"),
        ("url=a.test&collapse=timestamp:many", "write collapse="),
        ("url=a.test/*&resumeKey=%00", "is none that this server gave"),
        ("url=a.test/b&matchType=range&end=a.test/a", "lies before"),
    ],
)
def test_a_bad_question_gets_400_with_a_reason(app: ArchiveApp, asked: str, said: str) -> None:
    reply = ask(app, f"/web/cdx?{asked}")
    assert reply.status == 400 and said in reply.text
    as_json = ask(app, f"/web/cdx?output=json&{asked}".replace("&output=xml", "&sort=xml"))
    assert as_json.status == 400 and json.loads(as_json.body)["message"]


def test_an_expression_that_backtracks_is_matched_in_linear_time(tmp_path: Path) -> None:
    with make_store(
        tmp_path, [Recorded("20240101000000", "http://a.test/" + "a" * 5000, "200 OK", [], b"x"), *CAPTURES[:1]]
    ) as store:
        app = ArchiveApp(store)
        assert lines(app, "/web/cdx?url=a.test/*&filter=url:http.*(a%2B)%2B(a%2B)%2B!") == []
        app.close()


EXPRESSIONS = Path(__file__).parent.parent / "cases" / "expressions.txt"
TEXTS, *TABLE = [line for line in EXPRESSIONS.read_text("utf-8").splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("line", TABLE)
def test_an_expression_of_a_client_matches_what_re2_matches(line: str) -> None:
    if line.endswith(" refused"):
        with pytest.raises(InvalidArgument, match="the syntax is that of RE2"):
            matcher(json.loads(line.removesuffix(" refused")))
        return
    expression, whole, beginning = map(json.loads, line.split(" | "))
    assert [text for text in json.loads(TEXTS) if matcher(expression)(text)] == whole
    begins = matcher(expression, whole=False)
    assert [text for text in json.loads(TEXTS) if begins(text) and text not in whole] == beginning
