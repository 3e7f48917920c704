"""Anchors: which outlinks of a page become cells of other pages, and that any way of writing gives the same ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from cli_case import Terminal, warc

import docstore
from docstore import Page
from docstore.dedup.kernel import Kernel
from docstore.model.choices import VerdictKind
from docstore.model.keys import row_key, url_of
from docstore.model.types import Policy
from docstore.reports.check import check
from docstore.storage.writes import ANCHOR_BYTES
from docstore.store import DocumentStore
from docstore.writing.prepare import MAX_TARGETS, outgoing
from tests.processor_time import least_seconds

HTML = (("Content-Type", "text/html; charset=utf-8"),)
SOURCE = "https://a.example/dir/page"
T0 = 1_700_000_000_000_000
DAY = 86_400_000_000


def linking(*links: str, head: str = "") -> bytes:
    return f"<!doctype html><html><head>{head}</head><body>{' '.join(links)}</body></html>".encode()


def given(body: bytes, url: str = SOURCE, content_type: str = "text/html") -> dict[str, str]:
    analysis = Kernel().analyse(body, content_type, links=True)
    return {url_of(anchor.row_key): anchor.text.decode() for anchor in outgoing(url, body, content_type, analysis)}


def incoming(store: docstore.DocumentStore, url: str) -> list[tuple[str, int, str]]:
    return [(cell.qualifier.decode(), cell.timestamp, cell.value.decode()) for cell in store.anchors(url)]


# --- which links count


def test_links_are_resolved_against_the_page() -> None:
    body = linking('<a href="other">One</a>', '<a href="/top?q=1">Two</a>', '<a href="//b.example">Three</a>')
    assert given(body) == {
        "https://a.example/dir/other": "One",
        "https://a.example/top?q=1": "Two",
        "https://b.example/": "Three",
    }


@pytest.mark.parametrize(
    ("base", "target"),
    [
        ('<base href="https://c.example/x/">', "https://c.example/x/other"),
        ('<BASE HREF="/up/">', "https://a.example/up/other"),
        ('<base target="_top"><base href="/up/"><base href="/down/">', "https://a.example/up/other"),
        ('<base href="http://[broken">', "https://a.example/dir/other"),
        ("<base>", "https://a.example/dir/other"),
        ('<!-- <base href="/no/"> -->', "https://a.example/dir/other"),
    ],
)
def test_a_base_element_moves_references(base: str, target: str) -> None:
    assert given(linking('<a href="other">One</a>', head=base)) == {target: "One"}


def test_a_base_element_is_found_in_utf_16() -> None:
    body = linking('<a href="other">One</a>', head='<base href="/up/">').decode().encode("utf-16")
    assert given(body) == {"https://a.example/up/other": "One"}


def test_links_within_the_page_and_to_nothing_are_left_out() -> None:
    body = linking(
        '<a href="#part">Part</a>',
        f'<a href="{SOURCE}#part">Part</a>',
        '<a href="">Here</a>',
        '<a href="mailto:x@a.example">Mail</a>',
        '<a href="javascript:go()">Go</a>',
        '<a href="http://[broken">Broken</a>',
        '<a name="anchor">No link</a>',
    )
    assert given(body) == {}


def test_texts_of_several_links_to_one_page_are_kept_once_each() -> None:
    body = linking('<a href="b">One</a>', '<a href="b#x">Two</a>', '<a href="b">One</a>', '<a href="b"><img></a>')
    assert given(body) == {"https://a.example/dir/b": "One\nTwo"}


def test_a_link_without_words_is_kept_empty() -> None:
    assert given(linking('<a href="b"><img src="x"></a>')) == {"https://a.example/dir/b": ""}


def test_targets_and_texts_are_bounded() -> None:
    many = given(linking(*(f'<a href="p{number}">Text</a>' for number in range(MAX_TARGETS + 50))))
    assert len(many) == MAX_TARGETS and "https://a.example/dir/p0" in many
    long = given(linking(f'<a href="b">{"é" * ANCHOR_BYTES}</a>'))
    assert long == {"https://a.example/dir/b": "é" * (ANCHOR_BYTES // 2)}


# --- in a store


def pages() -> list[Page]:
    """Forty pages that link to each other, one of them twice in time, one an error page, one a redirect's body."""
    found = []
    for number in range(40):
        links = [f'<a href="/p{(number * 7 + step) % 40}">from {number} step {step}</a>' for step in range(5)]
        text = " ".join(f"w{number}x{place}" for place in range(60))
        status = 404 if number == 3 else 200
        url = f"https://a.example/p{number}"
        found.append(Page(url, linking(text, *links), status, HTML, T0 + number * 1000))
    changed = linking("changed", '<a href="/p1">newer words</a>')
    return [*found, Page("https://a.example/p0", changed, 200, HTML, T0 + DAY)]


def everything(store: docstore.DocumentStore) -> list[tuple[str, object]]:
    return [(row.url, cell) for row in store.cells.scan() for cell in row.cells if cell.family == "anchor"]


def written(folder: Path, all_pages: Sequence[Page], **options: object) -> list[tuple[str, object]]:
    with docstore.open(folder, create=True) as store:
        for _ in store.put_pages(all_pages, **options):  # type: ignore[arg-type]
            pass
        assert not list(check(store.backend))
        return everything(store)


def test_an_anchor_has_the_linking_page_as_qualifier_and_its_time(store: DocumentStore) -> None:
    list(store.put_pages(pages(), anchors=True))
    found = incoming(store, "https://a.example/p1")
    assert ("https://a.example/p0", T0 + DAY, "newer words") in found
    assert len([one for one in found if one[0] == "https://a.example/p0"]) == 1
    assert not [one for one in found if one[0] == "https://a.example/p3"], "an error page gives none"
    assert store.get("https://a.example/p1") is not None


def test_without_the_option_no_anchor_is_written(tmp_path: Path) -> None:
    assert written(tmp_path / "store", pages()) == []


def test_many_texts_of_one_target_take_linear_time() -> None:
    def link(count: int) -> Callable[[], object]:
        body = "".join(f"<a href=/x>text number {number}</a> " for number in range(count)).encode()
        analysis = Kernel().analyse(body, "text/html", links=True)
        return lambda: outgoing("https://a.example/", body, "text/html", analysis)

    (anchor,) = link(40_000)()  # type: ignore[misc]
    assert len(anchor.text) == ANCHOR_BYTES and anchor.text.startswith(b"text number 0\ntext number 1\n")
    assert least_seconds(link(40_000)) < 16 * least_seconds(link(5_000))


def test_any_number_of_threads_gives_the_same_anchors(tmp_path: Path) -> None:
    one = written(tmp_path / "one", pages(), anchors=True, threads=1)
    assert len(one) > 150
    for threads in (2, 8):
        assert written(tmp_path / str(threads), pages(), anchors=True, threads=threads) == one


def test_small_groups_give_the_same_anchors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = written(tmp_path / "whole", pages(), anchors=True)
    monkeypatch.setattr("docstore.writing.judge.BATCH_ANCHORS", 7)
    assert written(tmp_path / "cut", pages(), anchors=True) == whole


def test_a_second_run_over_known_pages_adds_the_anchors(tmp_path: Path) -> None:
    at_once = written(tmp_path / "once", pages(), anchors=True)
    assert written(tmp_path / "later", pages()) == []
    assert written(tmp_path / "later", pages(), anchors=True) == at_once


def test_a_page_that_is_fetched_again_adds_only_changed_anchors(tmp_path: Path) -> None:
    def body(text: str, number: int) -> bytes:
        return linking('<a href="/same">Same words</a>', f'<a href="/other">{text}</a>', f"<p>visit {number}")

    schema = docstore.Schema(families=(docstore.ColumnFamily("anchor"),))  # keeps all versions
    with docstore.open(tmp_path / "store", create=True, schema=schema) as store:
        for number, text in enumerate(("first", "first", "second", "second", "first")):
            page = Page(SOURCE, body(text, number), fetched_at=T0 + number * DAY)
            assert [result.stored for result in store.put_pages([page, page], anchors=True)] == ["body", "known"]
        spec = docstore.ReadSpec(families=("anchor",))
        found = {}
        for name in ("same", "other"):
            row = store.cells.read_row(row_key(f"https://a.example/{name}"), spec)
            assert row is not None
            found[name] = [((cell.timestamp - T0) // DAY, cell.value) for cell in row.cells]
        assert found == {"same": [(0, b"Same words")], "other": [(4, b"first"), (2, b"second"), (0, b"first")]}


def test_a_rejected_page_gives_no_anchors(store: DocumentStore) -> None:
    body = linking(" ".join(f"w{place}" for place in range(60)), '<a href="https://t.example/">Words</a>')
    for url in ("https://a.example/", "https://b.example/"):
        list(
            store.put_pages([Page(url, body, 200, HTML)], policies={VerdictKind.EXACT: Policy.REJECT_ANY}, anchors=True)
        )
    assert [qualifier for qualifier, _, _ in incoming(store, "https://t.example/")] == ["https://a.example/"]


def test_anchors_need_no_record_in_a_segment(tmp_path: Path) -> None:
    sizes = []
    for anchors in (False, True):
        folder = tmp_path / str(anchors)
        written(folder, pages(), anchors=anchors)
        sizes.append(sum(file.stat().st_size for file in (folder / "segments").iterdir()))
    assert sizes[0] == sizes[1]


def test_a_dry_run_writes_no_anchor(store: DocumentStore) -> None:
    with store.dry_run() as dry:
        list(dry.put_pages(pages(), anchors=True))
    assert everything(store) == []


# --- at the terminal


def test_ingest_writes_anchors_and_get_reads_them(run: Terminal, tmp_path: Path) -> None:
    body = linking("Some words", '<a href="https://t.example/x">Café  menu</a>')
    archive = warc(tmp_path / "a.warc.gz", [("https://a.example/", "2024-05-01T00:00:00Z", body)])
    assert run("ingest", os.fspath(archive), "--create").code == 0
    assert run("get", "https://t.example/x", "--column", "anchor:").code == 1
    assert run("ingest", os.fspath(archive), "--anchors").code == 0
    answer = run("get", "https://t.example/x", "--column", "anchor:")
    assert answer.out == "https://a.example/\t2024-05-01T00:00:00Z\tCafé menu\n"
    assert row_key("https://t.example/x") == b"example,t)/x https"
