"""Many pages at once: the same answers as one by one, read in the order in which they lie."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import pytest
from pages import changed, page, words

import docstore
from docstore import Page, ReadSpec
from docstore.model.errors import CorruptionError
from docstore.storage.files import Files
from docstore.storage.values import parse_cell_value
from docstore.store import DocumentStore
from docstore.tablets.record import decode_ref

T0 = 1_700_000_000_000_000
DAY = 86_400_000_000
HTML = (("content-type", "text/html"),)
PAGES = 150


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DocumentStore]:
    """Families of three pages alike in an order that is not that of their row keys; every tenth has two versions."""
    made = []
    for number in range(PAGES):
        body = page(changed(words(number // 3, 300), number, number % 3 * 6), title=f"Page {number}")
        made.append(Page(f"https://h{number % 5}.example/{number}", body, 200, HTML, T0))
        if number % 10 == 0:
            made.append(Page(f"https://h{number % 5}.example/{number}", body + b"<p>more", 200, HTML, T0 + DAY))
    random.Random(1).shuffle(made)
    with docstore.open(tmp_path / "s", create=True, durability="none") as opened:
        for _ in opened.put_pages(made):
            pass
        yield opened


def urls_of(store: DocumentStore) -> list[str]:
    return [row.url for row in store.cells.scan(spec=ReadSpec(keys_only=True, families=("page",)))]


def test_many_pages_are_what_each_is_alone(store: DocumentStore) -> None:
    urls = [*urls_of(store), "https://nowhere.example/", "https://h1.example/1"]
    random.Random(2).shuffle(urls)
    store.delete(urls[5])
    for _ in range(2):
        for families, at in product((None, ("page",), ("text", "dedup"), ("http",)), (None, T0)):
            alone = [store.get(url, families=families, at=at) for url in urls]
            assert list(store.get_many(iter(urls), families=families, at=at)) == alone
            assert alone.count(None) >= 2
        store.compact()


def test_the_newest_body_of_a_time_is_that_of_many_too(store: DocumentStore) -> None:
    (document,) = store.get_many(["https://h0.example/10"], families=("page",))
    assert document is not None and document.timestamp == T0 + DAY and document.body == document.captures[0].body
    assert document.body is not None and document.body.endswith(b"<p>more")


@pytest.mark.parametrize("how", ["scan", "get_many"])
def test_many_are_read_in_file_order_and_neighbours_in_one_call(
    store: DocumentStore, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.compact()
    urls = urls_of(store)
    random.Random(3).shuffle(urls)
    reads: list[tuple[int, int]] = []
    announced: list[tuple[int, int]] = []
    read, announce = Files.read, Files.announce

    def noted_read(files: Files, descriptor: int, length: int, offset: int) -> bytes:
        reads.append((descriptor, offset))
        return read(files, descriptor, length, offset)

    def noted_announce(files: Files, descriptor: int, length: int, offset: int) -> None:
        announced.append((descriptor, offset))
        announce(files, descriptor, length, offset)

    monkeypatch.setattr(Files, "read", noted_read)
    monkeypatch.setattr(Files, "announce", noted_announce)
    if how == "scan":
        assert len(list(store.cells.scan(spec=ReadSpec(families=("page",), versions=1)))) == PAGES
    else:
        assert all(store.get_many(urls, families=("page",)))
    assert len(reads) < PAGES / 5
    assert set(announced) <= set(reads)  # whatever was announced was read
    one_by_one = len(reads)
    assert all(store.get(url, families=("page",)) for url in urls)
    assert len(reads) - one_by_one >= PAGES


def test_a_compaction_between_look_up_and_read_is_not_felt(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = urls_of(store)
    alone = [store.get(url) for url in urls]
    values = store.backend.values
    fetch_many = values.fetch_many
    compacted: list[object] = []

    def compact_first(cell_values: Sequence[bytes]) -> list[bytes]:
        if not compacted:
            compacted.append(store.compact())
        return fetch_many(cell_values)

    monkeypatch.setattr(values, "fetch_many", compact_first)
    assert list(store.get_many(urls)) == alone and len(compacted) == 1
    compacted.clear()
    store.delete(urls[0])
    bodies = {row.url: row.cells[0].value for row in store.cells.scan(spec=ReadSpec(families=("page",)))}
    assert bodies == {one.url: one.body for one in alone[1:] if one is not None} and len(compacted) == 1


def test_a_damaged_page_is_named_when_its_turn_comes(store: DocumentStore) -> None:
    store.compact()
    urls = urls_of(store)
    victim = urls[40]
    cell = store.table.newest(store.cells.row_key(victim), "page", b"body")
    assert cell is not None
    ref = parse_cell_value(cell.value).ref
    assert ref is not None
    segment, offset, length = decode_ref(ref)
    path = store.backend.value_log.path(segment)  # type: ignore[attr-defined]
    with path.open("r+b") as stream:
        stream.seek(offset + length - 1)
        byte = stream.read(1)
        stream.seek(offset + length - 1)
        stream.write(bytes((byte[0] ^ 1,)))
    for given in (
        (row.url for row in store.cells.scan(spec=ReadSpec(families=("page",), versions=1))),
        (one.url for one in store.get_many(urls, families=("page",)) if one is not None),
    ):
        seen = []
        with pytest.raises(CorruptionError):
            for url in given:
                seen.append(url)
        assert 0 < len(seen) <= 40 and seen == urls[: len(seen)]
