from __future__ import annotations

import base64
import hashlib
import io
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_case import Answer, Terminal, article, html

import docstore
from docstore.cli import output

URL = "https://a.example/one"
MAY = "2024-05-01T00:00:00Z"
JUNE = "2024-06-01T00:00:00Z"


@pytest.fixture
def run(run: Terminal) -> Terminal:
    assert run("init").code == 0
    return run


@pytest.fixture
def put(run: Terminal, tmp_path: Path) -> Iterator[object]:
    def write(url: str, body: bytes, *words: str) -> dict[str, object]:
        file = tmp_path / "body"
        file.write_bytes(body)
        answer = run("put", url, str(file), "--json", *words)
        assert answer.code == 0, answer.err
        return answer.object()

    yield write


# --- init


def test_init_declares_the_options(run: Terminal, tmp_path: Path) -> None:
    other = run.on(tmp_path / "other")
    answer = other(
        "init",
        "--shingle-words",
        "4",
        "--family",
        "link:max_versions=2,max_age=30d",
        "--policy",
        "exact=reject",
        "--json",
    )
    assert answer.code == 0
    assert answer.object()["schema"]["policies"] == {"exact": "reject"}
    with docstore.open(other.store) as store:
        assert store.schema.shingle_words == 4
        assert store.schema.families == (docstore.ColumnFamily("link", docstore.GCPolicy(2, 2_592_000.0)),)
        assert store.schema.policy(docstore.VerdictKind.EXACT) is docstore.Policy.REJECT


def test_init_declares_which_captures_and_bodies_are_kept(run: Terminal, tmp_path: Path) -> None:
    other = run.on(tmp_path / "other")
    answer = other("init", "--captures", "max_versions=10,max_age=30d", "--bodies", "max_versions=3", "--json")
    bodies = {"max_versions": 3, "max_age_seconds": None, "intersection": False}
    assert (answer.code, answer.object()["schema"]["bodies"]) == (0, bodies)
    with docstore.open(other.store) as store:
        assert store.schema.captures == docstore.GCPolicy(10, 2_592_000.0)
        assert store.schema.bodies == docstore.GCPolicy(3)
    refused = run.on(tmp_path / "third")("init", "--family", "page:max_versions=3")
    assert refused.code == 2 and "`captures` and `bodies`" in refused.err


def test_init_refuses_a_folder_with_a_store(run: Terminal) -> None:
    answer = run("init")
    assert answer.code == 2
    assert "already" in answer.err


# --- put


def test_put_says_new_then_exact_of_which_page_and_when(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    body = html("Tablets", article(1))
    first = put(URL, body, "--fetched-at", MAY)
    assert first["verdict"]["kind"] == "new"
    assert first["timestamp"] == MAY
    second = put("https://b.example/copy", body, "--fetched-at", JUNE)
    assert second["verdict"]["kind"] == "exact"
    assert second["verdict"]["of_url"] == URL
    assert second["previous"] == "none"


@pytest.mark.parametrize(
    "order", [("{url}", "--store", "{store}", "{file}"), ("--status", "200", "{url}", "--store", "{store}", "{file}")]
)
def test_put_takes_its_file_after_an_option(run: Terminal, tmp_path: Path, order: tuple[str, ...]) -> None:
    (tmp_path / "page.html").write_bytes(html("A page", article(1)))
    values = {"url": URL, "store": str(run.store), "file": str(tmp_path / "page.html")}
    words = [word.format(**values) for word in order]
    answer = run.bare("put", *words, "--create", "--header", "X-One: 1", "--json")
    assert answer.code == 0 and answer.object()["verdict"]["kind"] == "new"
    assert run("get", URL, "--json").object()["headers"] == [["X-One", "1"]]
    for wrong in (["more"], ["--nonsense"]):
        refused = run.bare("put", *words, *wrong)
        assert refused.code == 2 and f"unrecognized arguments: {wrong[0]}" in refused.err


def test_put_speaks_in_words(run: Terminal, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_bytes(html("Tablets", article(1)))
    run("put", URL, str(page), "--fetched-at", MAY)
    answer = run("put", "b.example", str(page), "--fetched-at", JUNE)
    assert "page      https://b.example/\n" in answer.out
    assert f"verdict   exact of {URL} as of {MAY}\n" in answer.out
    assert "first capture" in answer.out


def test_put_reads_stdin_and_headers(run: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"<p>caf\xe9")))
    answer = run("put", URL, "-", "--header", "Content-Type: text/html; charset=latin-1")
    assert answer.code == 0
    assert run("get", URL).out == "café\n"
    assert "Content-Type: text/html; charset=latin-1\n" in run("get", URL, "--headers").out


def test_put_rejects_with_the_policy_and_lists_the_page(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    body = html("Tablets", article(1))
    put(URL, body)
    rejected = put("https://b.example/", body, "--policy", "exact=reject-any")
    assert rejected["stored"] == "rejected"
    assert run("get", "https://b.example/").code == 1
    listed = run("dups", "--rejected", "--json").object()
    assert listed["url"] == "https://b.example/"
    assert listed["verdict"]["of_url"] == URL
    put("https://c.example/", body, "--policy", "exact=reject-any")
    heading, *rows = run("dups", "--rejected").out.splitlines()
    assert heading.split() == ["kind", "similarity", "time", "url", "of"]
    assert [row.split()[::4] for row in rows] == [["exact", URL]] * 2
    assert rows[0].index("https://b.example/") == rows[1].index("https://c.example/") == heading.index("url")
    assert len(run("dups", "--rejected", "--limit", "1", "--json").objects()) == 1
    assert run("dups", "--orphans").code == 1
    run("delete", URL, "--yes")
    orphans = run("dups", "--orphans", "--json").objects()
    assert [(one["url"], one["loss"], len(one["checksum"]["base64"])) for one in orphans] == [
        ("https://b.example/", "gone", 44),
        ("https://c.example/", "gone", 44),
    ]
    assert run("dups", "--orphans", "--limit", "1").out.splitlines()[1].split()[:2] == ["gone", "exact"]


def test_put_of_a_304_needs_no_body_and_confirms(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    put(URL, html("Tablets", article(1)), "--fetched-at", MAY)
    answer = run("put", URL, "--status", "304", "--fetched-at", JUNE, "--json")
    assert answer.object()["stored"] == "confirmed"
    assert [one["timestamp"] for one in run("history", URL, "--json").objects()] == [JUNE, MAY]
    assert "confirmed" in run("history", URL).out.splitlines()[1]


def test_put_says_that_a_policy_hides_the_capture_at_once(run: Terminal, tmp_path: Path) -> None:
    policies = ("--captures", "max_versions=2", "--bodies", "max_versions=1")
    few = run.on(tmp_path / "few")
    assert few("init", *policies).code == 0

    def put(body: str, time: str, *words: str) -> Answer:
        (tmp_path / "page").write_text(body)
        return few("put", URL, str(tmp_path / "page"), "--fetched-at", time, *words)

    assert put("<p>third", "2024-05-03").err == ""
    assert "hides the body of this capture already" in put("<p>second", "2024-05-02").err
    hidden = put("<p>first", "2024-05-01")
    assert hidden.code == 0 and "hides this capture already; `docstore history URL`" in hidden.err
    assert put("<p>zeroth", "2024-04-30", "--json").object()["hidden"] == "capture"
    assert put("<p>fourth", "2024-05-04", "--json").object()["hidden"] == ""
    rejected = put("<p>fourth", "2024-05-05", "--status", "304", "--json").object()
    assert (rejected["stored"], rejected["hidden"]) == ("confirmed", "")


def test_put_refuses_a_url_that_cannot_be_stored(run: Terminal, tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_bytes(b"x")
    answer = run("put", "mailto:someone@example.com", str(page))
    assert answer.code == 2
    assert "mailto" in answer.err


def test_put_creates_a_store_only_with_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Terminal(tmp_path / "none", capsys)
    page = tmp_path / "page"
    page.write_bytes(b"<p>hello")
    assert run("put", URL, str(page)).code == 3
    assert run("put", URL, str(page), "--create").code == 0


# --- get


def test_get_prints_title_and_text(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    put(URL, b"<title>A title</title><p>Hello <b>world</b>")
    assert run("get", URL).out == "A title\n\nHello world\n"


def test_get_prints_the_very_bytes(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    body = bytes(range(256)) * 9
    put(URL, body)
    command = [sys.executable, "-m", "docstore.cli", "get", URL, "--body", "--store", str(run.store)]
    assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == body


def test_get_of_a_page_that_is_not_there_is_exit_1(run: Terminal) -> None:
    answer = run("get", URL)
    assert (answer.code, answer.out) == (1, "")
    assert "--variants" in answer.err


def test_get_tries_variants_and_says_so(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    put("http://www.a.example/", b"<p>Hello")
    answer = run("get", "a.example", "--variants")
    assert answer.out == "Hello\n"
    assert "http://www.a.example/" in answer.err
    assert run("get", "a.example", "--variants", "--json").object()["via"] == ["https://a.example/"]


def test_get_follows_redirects_with_the_option(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    put(URL, b"", "--status", "301", "--header", "Location: /two")
    put("https://a.example/two", b"<p>Two")
    assert run("get", URL).out == ""
    answer = run("get", URL, "--follow-redirects")
    assert answer.out == "Two\n"
    assert "https://a.example/two" in answer.err


def test_get_at_a_time_and_several_versions(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    put(URL, b"<p>first", "--fetched-at", MAY)
    put(URL, b"<p>second", "--fetched-at", JUNE)
    assert run("get", URL, "--at", "2024-05-15").out == "first\n"
    assert run("get", URL, "--at", MAY).out == "first\n"
    assert run("get", URL, "--at", "2024-04-01").code == 1
    assert [one["text"] for one in run("get", URL, "--versions", "5", "--json").objects()] == ["second", "first"]
    assert run("get", URL, "--versions", "2").out == f"--- {JUNE}\nsecond\n\n--- {MAY}\nfirst\n"


def test_get_json_is_one_object_with_the_verdict(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    put(URL, b"<title>T</title><p>Hello", "--fetched-at", MAY)
    fields = run("get", URL, "--json").object()
    assert fields["url"] == URL
    assert fields["timestamp"] == "2024-05-01T00:00:00Z"
    assert fields["status"] == 200
    assert fields["title"] == "T"
    assert fields["verdict"]["kind"] == "new"
    assert fields["verdict"]["reason"] == "short_text"
    assert "body" not in fields
    assert run("get", URL, "--json", "--body").object()["body"] == "<title>T</title><p>Hello"


def test_get_column_prints_one_value_or_a_family(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    put(URL, b"<p>Hello", "--header", "Content-Type: text/html")
    with docstore.open(run.store) as store:
        store.add_anchor(URL, "https://x.example/", "see one", seen_at=1_714_521_600_000_000)
        store.add_anchor(URL, "https://y.example/", "a\tb", seen_at=1_714_521_600_000_000)
        page = store.get(URL)
        assert page is not None and page.newest.checksum is not None
        shown = page.newest.checksum.hex()
    assert run("get", URL, "--column", "http:type").out == "text/html"
    listed = run("get", URL, "--column", "anchor:").out
    assert listed == f"https://x.example/\t{MAY}\tsee one\nhttps://y.example/\t{MAY}\ta b\n"
    assert run("get", URL, "--column", "anchor:https://x.example/", "--json").object()["value"] == "see one"
    assert run("get", URL, "--column", "anchor:https://z.example/").code == 1
    assert run("get", URL, "--column", "dedup:checksum").out == f"{shown}\n"
    assert shown in [line.split("\t")[2] for line in run("get", URL, "--column", "dedup:").out.splitlines()]
    undeclared = run("get", URL, "--column", "nowhere:")
    assert undeclared.code == 2
    assert "nowhere" in undeclared.err


# --- scan


def test_scan_narrows_by_host_prefix_family_and_limit(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    for path in ("b/2", "b/1", "c"):
        put(f"https://a.example/{path}", f"<title>{path}</title><p>x".encode())
    put("https://b.example/", b"<title>other</title><p>x")
    assert run("scan", "--host", "a.example", "--keys-only").out.split() == [
        "https://a.example/b/1",
        "https://a.example/b/2",
        "https://a.example/c",
    ]
    assert run("scan", "--prefix", "a.example/b/", "--keys-only", "--limit", "1").out == "https://a.example/b/1\n"
    titles = run("scan", "--family", "text", "--qualifier-prefix", "title", "--json").objects()
    assert [row["cells"][0]["value"] for row in titles] == ["b/1", "b/2", "c", "other"]
    assert [cell["qualifier"] for cell in titles[0]["cells"]] == ["title"]
    words = run("scan", "--host", "b.example", "--family", "text", "--qualifier-regex", "ti.*").out.split("\t")
    assert (words[0], words[1], words[3]) == ("https://b.example/", "text:title", "other\n")
    assert run("scan", "--start", "https://a.example/c", "--keys-only").out.split() == [
        "https://a.example/c",
        "https://b.example/",
    ]
    assert run("scan", "--end", "example,a)/c", "--keys-only").out.split() == [
        "https://a.example/b/1",
        "https://a.example/b/2",
    ]


def test_scan_narrows_by_time(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    put("https://a.example/may", b"<p>x", "--fetched-at", MAY)
    put("https://a.example/june", b"<p>y", "--fetched-at", JUNE)
    assert run("scan", "--since", JUNE, "--keys-only").out == "https://a.example/june\n"
    assert run("scan", "--until", JUNE, "--keys-only").out == "https://a.example/may\n"


def test_a_plain_scan_shows_newest_versions_and_no_bytes_that_are_no_text(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    """11.C9: it showed every version, and fingerprints as escapes."""
    put(URL, html("Tablets", article(1)), "--fetched-at", MAY)
    put(URL, html("Tablets", article(2)), "--fetched-at", JUNE)
    lines = run("scan").out.splitlines()
    columns = [line.split("\t")[1] for line in lines]
    assert "dedup:sketch" in columns
    assert len(columns) == len(set(columns))
    assert {line.split("\t")[2] for line in lines} == {"2024-06-01T00:00:00Z"}
    (sketch,) = [line for line in lines if "\tdedup:sketch\t" in line]
    assert re.fullmatch(r"\(\d+ bytes\)", sketch.split("\t")[3])
    assert "\ufffd" not in run("scan").out
    whole = run("scan", "--whole", "--versions", "all").out.splitlines()
    assert len(whole) > len(lines)
    assert not [line for line in whole if " bytes)" in line]
    assert len(run("scan", "--versions", "2").out.splitlines()) == len(whole)
    assert run("scan", "--versions", "0").code == 2


def test_scan_of_nothing_is_exit_1_and_a_broken_expression_exit_2(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    put(URL, b"<p>x")
    assert run("scan", "--host", "nobody.example").code == 1
    assert run("scan", "--qualifier-regex", "(").code == 2
    assert run("scan", "--host", "a.example", "--prefix", "b").code == 2


# --- history, dups


def test_history_lists_captures_newest_first(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    words = article(1)
    put(URL, html("T", words), "--fetched-at", MAY)
    put(URL, html("T", words), "--fetched-at", "2024-05-10")
    put(URL, html("T", [*words[:-3], "other", "last", "words"]), "--fetched-at", JUNE)
    shown = run("history", URL)
    lines = shown.out.splitlines()
    assert lines[0].split() == ["time", "status", "previous", "stored", "verdict"]
    assert [line.split()[0] for line in lines[1:]] == [JUNE, "2024-05-10T00:00:00Z", MAY]
    assert "changed 0.9" in lines[1]
    assert "same_bytes" in lines[2]
    assert run("history", "https://a.example/none").code == 1


def test_dups_shows_both_directions_and_only_live_pages(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    words = article(1)
    put(URL, html("T", words), "--fetched-at", MAY)
    put("https://b.example/", html("T", words), "--fetched-at", JUNE)
    put("https://c.example/", html("T", [*words[:-2], "two", "others"]), "--fetched-at", "2024-06-02")
    older = run("dups", "https://b.example/", "--json").objects()
    assert {(one["url"], one["kind"], one["age"]) for one in older} == {
        (URL, "exact", "older"),
        ("https://c.example/", "near", "younger"),
    }
    assert {one["url"] for one in run("dups", URL, "--json").objects()} == {"https://b.example/", "https://c.example/"}
    run("delete", "https://b.example/")
    assert [one["url"] for one in run("dups", URL, "--json").objects()] == ["https://c.example/"]
    table = run("dups", URL).out.splitlines()
    assert table[0].split() == ["kind", "similarity", "time", "age", "url"]
    assert table[1].endswith("younger  https://c.example/")


def test_dups_tells_contained_from_contains(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    part = article(1, words=100)
    put(URL, html("T", part), "--fetched-at", MAY)
    put("https://b.example/whole", html("T", [*part, *article(2, words=300)]), "--fetched-at", JUNE)
    inside = run("dups", URL).out.splitlines()[1].split()
    assert (inside[0], inside[1], inside[4]) == ("contained", "1.000", "https://b.example/whole")
    around = run("dups", "https://b.example/whole").out.splitlines()[1].split()
    assert (around[0], around[1], around[4]) == ("contains", "1.000", URL)


def test_dups_of_a_file_that_is_not_stored(run: Terminal, put, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    words = article(1)
    put(URL, html("T", words))
    page = tmp_path / "page.html"
    page.write_bytes(html("T", [*words[:-2], "two", "others"]))
    found = run("dups", "--file", str(page), "--json").object()
    assert found["url"] == URL
    assert found["kind"] == "near"
    assert 0.8 < found["similarity"] < 1
    assert run("dups", "--file", str(page), "--threshold", "1").code == 1
    page.write_bytes(html("T", article(2)))
    assert run("dups", "--file", str(page)).code == 1


def test_dups_finds_pages_by_the_digest_that_an_archive_recorded(run: Terminal, tmp_path: Path) -> None:
    body = html("Lamp", article(1))
    sha1, md5 = hashlib.sha1(body).digest(), hashlib.md5(body).hexdigest()
    recorded = (f"sha1:{base64.b32encode(sha1).decode()}", f"SHA-1:{sha1.hex()}", f"md5:{md5}", "")
    with docstore.open(tmp_path / "store") as store:
        list(
            store.put_pages(
                docstore.Page(
                    f"https://h.example/{number}", body, fetched_at=10**15 + number * 1000, payload_digest=digest
                )
                for number, digest in enumerate(recorded)
            )
        )
    found = run("dups", "--digest", f"sha1:{sha1.hex()}", "--json").objects()
    assert [one["url"] for one in found] == ["https://h.example/1", "https://h.example/0"]
    assert found[1]["payload_digest"] == recorded[0]
    assert run("dups", "--digest", f"md5:{md5}").out.splitlines()[1].split()[-1] == "https://h.example/2"
    assert run("dups", "--digest", f"sha1:{'0' * 40}").code == 1
    refused = run("dups", "--digest", "sha1:short")
    assert refused.code == 2 and "not a digest" in refused.err
    assert run("dups", URL, "--digest", f"md5:{md5}").code == 2


def test_dups_takes_one_question(run: Terminal) -> None:
    assert run("dups").code == 2
    assert run("dups", URL, "--rejected").code == 2
    assert run("dups", URL).code == 1
    assert run("dups", "--rejected").code == 1


# --- delete


def test_delete_removes_a_page_once(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    put(URL, b"<p>x")
    assert run("delete", URL, "--json").object() == {"deleted": 1}
    assert run("get", URL).code == 1
    assert run("delete", URL).code == 1


def test_delete_of_a_family_or_column_leaves_the_rest(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    put(URL, b"<p>x", "--header", "Content-Type: text/html")
    with docstore.open(run.store) as store:
        for source in ("https://x.example/", "https://y.example/"):
            store.add_anchor(URL, source, "words")
    assert run("delete", URL, "--column", "anchor:https://x.example/").code == 0
    assert run("delete", URL, "--column", "anchor:https://x.example/").code == 1
    assert "y.example" in run("get", URL, "--column", "anchor:").out
    assert run("delete", URL, "--family", "anchor").code == 0
    assert run("get", URL, "--column", "anchor:").code == 1
    assert run("get", URL).out == "x\n"


def test_delete_by_prefix_leaves_the_neighbours(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    for path in ("a/1", "a/2", "b"):
        put(f"https://a.example/{path}", b"<p>x")
    assert run("delete", "--prefix", "a.example/a/", "--yes", "--json").object() == {"deleted": 2}
    assert run("scan", "--keys-only").out == "https://a.example/b\n"


def test_delete_by_prefix_without_a_terminal_needs_yes(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    """11.C5: with stdin from /dev/null it deleted everything."""
    put(URL, b"<p>x")
    answer = run("delete", "--prefix", "a.example/")
    assert (answer.code, "--yes" in answer.err) == (2, True)
    assert run("get", URL).code == 0


def test_delete_by_prefix_asks_a_person_first(run: Terminal, put, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    put(URL, b"<p>x")

    class Person(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Person())
    monkeypatch.setattr(sys, "stdin", Person("n\n"))
    assert run("delete", "--prefix", "a.example/").code == 1
    assert "delete 1 rows under a.example/? [y/N]" in sys.stderr.getvalue()  # type: ignore[attr-defined]
    monkeypatch.setattr(sys, "stdin", Person("y\n"))
    assert run("delete", "--prefix", "a.example/").code == 0
    assert run("get", URL).code == 1


# --- key, stats, check


def test_key_goes_both_ways(run: Terminal) -> None:
    answer = run.bare("key", "HTTPS://www.Example.com:443/a/../b#top", "--json").object()
    assert answer["url"] == "https://www.example.com/b"
    assert answer["row_key"] == "com,example,www)/b https"
    assert "http://example.com/b" in answer["variants"]
    assert run.bare("key", "--row-key", answer["row_key"], "--json").object()["url"] == answer["url"]
    assert run.bare("key", "--row-key", "nonsense").code == 2
    assert run.bare("key").code == 2


def test_stats_counts_what_was_written(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    put(URL, html("T", article(1)))
    put("https://b.example/", html("T", article(1)))
    stats = run("stats", "--json").object()
    assert stats["totals"]["captures"] == 2
    assert stats["totals"]["verdict.exact"] == 1
    shown = run("stats").out
    assert re.search(r"^captures +2$", shown, re.MULTILINE)
    assert re.search(r"^verdict exact +1  \(50\.0%\)$", shown, re.MULTILINE)
    assert re.search(r"^segment +\d+(\.\d)? K?B$", shown, re.MULTILINE)


def test_check_is_silent_on_a_sound_store_and_exit_5_on_a_damaged_one(run: Terminal, put) -> None:  # type: ignore[no-untyped-def]
    put(URL, html("T", article(1, words=2000)))
    sound = run("check")
    assert (sound.code, sound.out, sound.err) == (0, "", "")
    (segment,) = (path for path in (run.store / "segments").iterdir() if path.stat().st_size)
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0x40
    segment.write_bytes(content)
    damaged = run("check", "--json")
    assert damaged.code == 5
    if damaged.out:
        assert set(damaged.objects()[0]) >= {"where", "what", "remedy", "path", "offset"}


# --- small pieces


def test_sizes_are_shown_with_units() -> None:
    assert [output.size(n) for n in (0, 999, 1500, 20_300_000)] == ["0 B", "999 B", "1.5 KB", "20.3 MB"]


# --- get --explain


def test_get_explains_which_blocks_are_main_text(run: Terminal, put: Callable[..., object]) -> None:
    walk = "It was a long walk. " * 40
    put(URL, f"<title>A walk</title><nav><a href='/'>Home</a></nav><h1>A walk</h1><p>{walk}</p>".encode())
    answer = run("get", URL, "--explain")
    assert answer.code == 0
    assert re.search(r"^verdict +new", answer.out, re.MULTILINE)
    assert re.search(r"^yes .* It was a long walk", answer.out, re.MULTILINE)
    assert re.search(r"^no .* Home", answer.out, re.MULTILINE)
    fields = run("get", URL, "--explain", "--json").object()
    assert fields["extractor"] == docstore.Schema().extractor
    assert fields["in_doubt"] == []
    assert [block["text"] for block in fields["blocks"] if not block["main"]] == ["Home"]
    assert all(block["because"] for block in fields["blocks"])


def test_get_explains_only_html(run: Terminal, put: Callable[..., object]) -> None:
    put(URL, b"%PDF-1.7 and more")
    answer = run("get", URL, "--explain")
    assert answer.code == 1
    assert "nothing to explain" in answer.err


# --- pages that were rejected

SECOND_URL = "https://a.example/two"


def reject(put: Callable[..., dict[str, object]]) -> None:
    body = html("One", article(1))
    put(URL, body, "--fetched-at", MAY)
    assert put(SECOND_URL, body, "--fetched-at", JUNE, "--policy", "exact=reject")["stored"] == "rejected"


@pytest.mark.parametrize(
    "words",
    [(), ("--body",), ("--headers",), ("--explain",), ("--snippet", "x"), ("--at", "2025"), ("--versions", "2")],
)
def test_get_says_that_a_page_was_rejected(
    run: Terminal, put: Callable[..., dict[str, object]], words: tuple[str, ...]
) -> None:
    reject(put)
    answer = run("get", SECOND_URL, *words)
    assert (answer.code, answer.out) == (1, "")
    assert f"{SECOND_URL} was rejected at {JUNE}: exact copy of {URL}" in answer.err
    fields = run("get", SECOND_URL, "--json", *words)
    assert fields.code == 1
    assert (fields.object()["stored"], fields.object()["timestamp"]) == ("rejected", JUNE)
    assert (fields.object()["verdict"]["kind"], fields.object()["verdict"]["of_url"]) == ("exact", URL)


def test_a_page_that_was_rejected_later_is_unknown_before(run: Terminal, put: Callable[..., dict[str, object]]) -> None:
    reject(put)
    assert "rejected" not in run("get", SECOND_URL, "--at", MAY).err


def test_get_follows_a_rejected_page_to_the_one_that_it_duplicates(
    run: Terminal, put: Callable[..., dict[str, object]]
) -> None:
    reject(put)
    answer = run("get", SECOND_URL, "--follow-duplicates", "--body")
    assert (answer.code, answer.out.encode()) == (0, html("One", article(1)))
    assert f"showing {URL}, reached from {SECOND_URL}" in answer.err
    assert run("get", SECOND_URL, "--follow-duplicates", "--json").object()["via"] == [SECOND_URL]
    assert run("get", SECOND_URL, "--follow-duplicates", "--snippet", "x").code == 2
    assert run("delete", URL, "--yes").code == 0
    gone = run("get", SECOND_URL, "--follow-duplicates")
    assert gone.code == 1 and "gone or has changed, fetch this page again" in gone.err


def test_history_and_dups_tell_of_a_rejected_page(run: Terminal, put: Callable[..., dict[str, object]]) -> None:
    reject(put)
    answer = run("history", SECOND_URL)
    assert answer.code == 0
    assert answer.out.splitlines()[1].split()[:6] == [JUNE, "-", "none", "rejected", "exact", "of"]
    assert run("history", SECOND_URL, "--json").object()["stored"] == "rejected"
    dups = run("dups", SECOND_URL)
    assert dups.code == 1 and "exact copy of" in dups.err


# --- how URLs are shown and typed


def test_urls_are_shown_decoded_and_found_as_they_are_typed(
    run: Terminal, put: Callable[..., dict[str, object]]
) -> None:
    stored = "https://xn--mnchen-3ya.example/stra%C3%9Fe%2F%E2%80%AE%E9"
    other = "https://a.example/Mu%CC%88nchen"
    body = html("One", article(1))
    assert put("https://münchen.example/straße%2F%E2%80%AE%E9", body, "--fetched-at", MAY)["url"] == stored
    put(other, body, "--fetched-at", JUNE)
    shown = "https://münchen.example/straße%2F%E2%80%AE%E9"
    assert run("scan", "--keys-only").out.splitlines() == ["https://a.example/Mu\u0308nchen", shown]
    for answer in (
        run("history", other),
        run("dups", other),
        run("diff", other, shown),
        run("diff", other, shown, "--measures"),
        run("scan", "--family", "page"),
        run("dups", "--all"),
        run("dups", other, "--simhash", "0"),
        run("dups", "--all", "--simhash", "0"),
        run("sweep"),
    ):
        assert shown in answer.out and stored not in answer.out
    assert stored in run("history", other, "--json").out and stored in run("dups", other, "--json").out
    for command in ("get", "history", "dups"):
        assert run(command, "https://a.example/M\u00fcnchen").code == 0
    assert run("get", shown, "https://a.example/M\u00fcnchen", "--snippet", "").out.count("\t") == 2
    assert run("diff", "https://a.example/M\u00fcnchen", shown).code == 0
    assert "no page https://a.example/\u00f6;" in run("get", "https://a.example/\u00f6").err


# --- what has no text


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        (b"\x00\x01\x02", b"\x00\x01\x02", "the bytes are the same (3)"),
        (b"\x00\x01\x02", b"\x00\x01\x03\x04", "the bytes differ from byte 2 on (3 and 4 bytes)"),
        (b"\x00\x01", b"\x00\x01\x03", "the bytes differ from byte 2 on (2 and 3 bytes)"),
    ],
)
def test_diff_of_pages_without_text_compares_bytes(
    run: Terminal, put: Callable[..., dict[str, object]], one: bytes, other: bytes, says: str
) -> None:
    put(URL, one)
    put(SECOND_URL, other)
    answer = run("diff", URL, SECOND_URL)
    assert (answer.code, answer.out) == (0, f"no text to compare; {says}\n")
    fields = run("diff", URL, SECOND_URL, "--json").object()
    assert (fields["similarity"], fields["same_bytes"]) == (None, one == other)


def test_diff_of_pages_without_bodies_compares_checksums(run: Terminal) -> None:
    with docstore.open(run.store) as store:
        for url, body in ((URL, b"\x00\x01"), (SECOND_URL, b"\x00\x02")):
            store.put_page(url, body, keep_body=False)
    assert run("diff", URL, SECOND_URL).out == "no text to compare; by checksum the bytes differ\n"


@pytest.mark.parametrize(
    ("count", "says"),
    [
        (0, "0 words; with fewer than 20 only the same bytes would"),
        (30, "30 words; with fewer than 50 only the same bytes or the same text"),
        (60, ""),
    ],
)
def test_dups_of_a_file_says_that_its_text_is_too_short(run: Terminal, tmp_path: Path, count: int, says: str) -> None:
    file = tmp_path / "page.html"
    file.write_bytes(html("", article(1, count)))
    answer = run("dups", "--file", str(file))
    assert answer.code == 1
    assert "no page like it" in answer.err and says in answer.err and ("words" in answer.err) == bool(says)


def test_stats_count_what_is_live_after_delete_and_compact(
    run: Terminal, put: Callable[..., dict[str, object]]
) -> None:
    reject(put)
    put("https://a.example/three", html("Three", article(3)), "--fetched-at", MAY)
    put("https://a.example/three", b"", "--status", "304", "--fetched-at", JUNE)
    before = run("stats", "--json").object()["totals"]
    assert run("compact").code == 0 and run("stats", "--json").object()["totals"] == before
    assert run("delete", "https://a.example/three", "--yes").code == 0
    at_once = run("stats", "--json").object()["totals"]
    assert run("compact").code == 0
    after = run("stats", "--json").object()["totals"]
    assert at_once == after
    assert {name: after.get(name, 0) for name in before if name != "doubtful_text"} == {
        "urls": 2, "captures": 2, "visits": 0, "verdict.new": 1, "verdict.exact": 1, "previous.none": 2,
        "stored.body": 1, "stored.rejected": 1, "body_bytes": len(html("One", article(1))),
    }  # fmt: skip
    put("https://a.example/three", html("Three", article(3)), "--fetched-at", MAY)
    assert run("stats", "--json").object()["totals"]["captures"] == 3


# --- headings


PARAGRAPH = "The quick brown fox jumps over the lazy dog, again and again, until the evening comes to the farm."


@pytest.mark.parametrize(
    "link",
    [
        '<a class="headerlink" href="#x" title="Permalink">\u00b6</a>',
        '<a class="headerlink" href="#x">#</a>',
        '<a class="hash-link" href="#x">\u200b</a>',
        '<a class="doc-anchor" href="#x">\u00a7</a>',
        '<a class="anchor" href="#x">\U0001f517</a>',
        '<a class="headerlink" href="#x">\uf0c1</a>',
    ],
)
@pytest.mark.parametrize("before", [False, True])
def test_get_and_snippets_show_a_heading_once_and_no_signs_of_links_to_it(
    run: Terminal, put: Callable[..., dict[str, object]], link: str, before: bool
) -> None:
    def heading(level: int, text: str) -> str:
        return f"<h{level}>{link + text if before else text + link}</h{level}><p>{PARAGRAPH} {text}.</p>"

    put(
        URL,
        f"<!doctype html><meta charset=utf-8><title>Foxes of C# - The docs</title><main>{heading(1, 'Foxes of C#')}"
        f"{heading(2, 'Their dens')}</main>".encode(),
    )
    text = f"{PARAGRAPH} Foxes of C#.\nTheir dens\n{PARAGRAPH} Their dens."
    assert run("get", URL).out == f"Foxes of C# - The docs\n\n{text}\n"
    assert run("get", URL, "--snippet", "", "--length", "400").out.strip() == (
        f"{PARAGRAPH} Foxes of C#. Their dens \u2013 {PARAGRAPH} Their dens."
    )
    assert "Their *dens* \u2013 The" in run("get", URL, "--snippet", "dens", "--length", "400").out


def test_a_name_that_ends_in_a_sign_stays(run: Terminal, put: Callable[..., dict[str, object]]) -> None:
    topics = [f"<h2>{topic} in C#</h2><p>{PARAGRAPH}</p>" for topic in ("Loops", "Classes", "Types")]
    law = f"<p>\u00a7 5 {PARAGRAPH}</p><p>\u00a75 {PARAGRAPH}</p>"
    put(URL, f"<!doctype html><meta charset=utf-8><title>A course</title><main>{''.join(topics)}{law}</main>".encode())
    shown = run("get", URL).out.splitlines()
    assert [line for line in shown if line.endswith("#")] == ["Loops in C#", "Classes in C#", "Types in C#"]
    assert [line[:2] for line in shown if line.startswith("\u00a7")] == ["\u00a7 ", "\u00a75"]


@pytest.mark.parametrize("form", ["NFC", "NFD", ""])
def test_every_command_finds_a_page_by_its_url_in_any_unicode_form(run: Terminal, put: Any, form: Any) -> None:
    url = "https://bn.example/wiki/বা\u09dcি/\u09dcো"
    put(url, html("A page", article(1)))
    typed = unicodedata.normalize(form, url) if form else url
    for command in ("get", "history"):
        assert run(command, typed).code == 0
    assert "no page like it" in run("dups", typed).err
    variant = run("get", typed.replace("https://", "http://www."), "--variants")
    assert variant.code == 0, variant.err
    assert run("delete", typed).code == 0
