"""Dictionaries of the write path: when they are made, how many are cached, and what pages without one use."""

from __future__ import annotations

import errno
import gc
import random
from pathlib import Path
from typing import Any

import pytest
from stores import before_refs_change, stored, stored_value

import docstore
from docstore import Page, Policy, VerdictKind
from docstore.model.capture import BODY
from docstore.model.choices import Durability
from docstore.model.errors import StorageError
from docstore.model.format import CODEC_ZSTD_DELTA, CODEC_ZSTD_DICTIONARY
from docstore.reports.check import check
from docstore.storage.bases import value_name
from docstore.storage.cache import MB, SHARES
from docstore.storage.files import AppendFile, Files
from docstore.storage.values import parse_cell_value
from docstore.store import DocumentStore
from docstore.tablets import dictionaries
from docstore.tablets.codec import PACK_LEVEL, Dictionary, pack
from docstore.tablets.compaction import job
from docstore.tablets.dictionaries import PASSING_PACK_LEVEL, STAGES
from docstore.tablets.layout import StoreDirectory
from docstore.tablets.record import Record

HTML = (("content-type", "application/octet-stream"),)
T0 = 1_700_000_000_000_000


def pages(site: int, count: int, start: int = 0) -> list[Page]:
    """Pages of one site, about 26 KB each, of words that no other site has."""
    own = random.Random(site)
    words = [bytes(own.choices(b"abcdefghijklmnopqrstuvwxyz", k=10)) for _ in range(400)]
    made = []
    for number in range(start, start + count):
        body = b" ".join(random.Random(f"{site} {number}").choices(words, k=2400))
        made.append(Page(f"https://h{site}.example/a/{number}", body, 200, HTML, T0))
    return made


def record_of(store: DocumentStore, url: str) -> Record:
    (cell_value,) = (value for column, _, value in stored(store, url) if column == BODY)
    ref = parse_cell_value(cell_value).ref
    assert ref is not None
    return store.backend.value_log.read(ref)


def test_site_gets_a_dictionary_of_its_first_pages(store: DocumentStore) -> None:
    given = pages(1, 12)
    list(store.put_pages(given))
    (first, *_), last = given, given[-1]
    assert record_of(store, first.url).codec != CODEC_ZSTD_DICTIONARY
    assert record_of(store, last.url).codec == CODEC_ZSTD_DICTIONARY
    content = store.backend.dictionaries.load(record_of(store, last.url).related)
    assert first.body in content


def test_a_path_segment_has_another_dictionary_than_the_pages_of_its_host(store: DocumentStore) -> None:
    mixed: list[Page] = []
    for number, (deep, flat) in enumerate(zip(pages(1, 12), pages(2, 12), strict=True)):
        mixed.append(deep._replace(url=f"https://h.example/a/{number}"))
        mixed.append(flat._replace(url=f"https://h.example/{number}"))
    list(store.put_pages(mixed))
    of_deep, of_flat = (store.backend.dictionaries.load(record_of(store, page.url).related) for page in mixed[-2:])
    assert mixed[0].body in of_deep and mixed[1].body not in of_deep
    assert mixed[1].body in of_flat and mixed[0].body not in of_flat


ROOM_OF_ONE = Dictionary(bytes(150_000)).memory_bytes
"""More than a first dictionary of such a site takes, less than two take."""


def own_dictionary(store: DocumentStore, site: int) -> bytes:
    """The dictionary of a site, made while these pages were written."""
    given = pages(site, 8)
    list(store.put_pages(given))
    return record_of(store, given[-1].url).related


def test_prepared_dictionaries_are_bounded_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHARES, "prepared dictionaries", (2 * ROOM_OF_ONE / MB, 0))
    monkeypatch.setattr(dictionaries, "LOADS_IN_STOCK", 0)
    sites = range(1, 5)
    with docstore.open(tmp_path / "s", create=True) as store:
        own = [own_dictionary(store, site) for site in sites]
        later = [one for site in sites for one in pages(site, 1, start=100)]
        results = list(store.put_pages(later))
        assert {result.stored for result in results} == {"body"}
        used = [record_of(store, one.url).related for one in later]
        assert used[-1] == own[-1] != b"", "the last site's dictionary is held"
        assert used[1] != own[1] != b"", "the second site's was pushed out, and nothing was earned to load it"
        for one in later:
            document = store.get(one.url)
            assert document is not None and document.body == one.body


def test_pages_earn_an_evicted_dictionary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHARES, "prepared dictionaries", (ROOM_OF_ONE / MB, 0))
    monkeypatch.setattr(dictionaries, "LOADS_IN_STOCK", 1)
    monkeypatch.setattr(dictionaries, "PAGES_A_LOAD", 4)
    with docstore.open(tmp_path / "s", create=True) as store:
        own = {site: own_dictionary(store, site) for site in (2, 1, 3)}
        list(store.put_pages(pages(2, 1, start=100)))  # uses all loads in stock
        later = pages(1, 8, start=100)
        list(store.put_pages(later))
        used = [record_of(store, one.url).related for one in later]
    assert used[0] != own[1] == used[-1] != b""


def prepared_bytes() -> int:
    """Of all dictionaries that are prepared."""
    return sum(one.memory_bytes for one in gc.get_objects() if isinstance(one, Dictionary))


def test_pages_of_alternating_sites_take_no_more_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, samples of 256 scopes were cached, and dictionaries were counted without their tables."""
    bounds = 3 * ROOM_OF_ONE, 2 * ROOM_OF_ONE
    monkeypatch.setitem(SHARES, "samples", (bounds[0] / MB, 0))
    monkeypatch.setitem(SHARES, "prepared dictionaries", (bounds[1] / MB, 0))
    gc.collect()
    before = prepared_bytes()
    most = (0, 0)
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        for site in range(24):
            list(store.put_pages(pages(site, 4 if site % 3 else 7)))
            samples = store.backend.values.dictionaries.sample_bytes
            most = max(most[0], samples), max(most[1], prepared_bytes() - before)
        assert most <= bounds and most[1] <= bounds[1]
        assert most[0] > bounds[0] // 2, "samples are held"
        last = pages(23, 8)[-1]
        list(store.put_pages([last]))
        assert store.get(last.url) is not None


def opened_on(folder: Path, files: Files) -> DocumentStore:
    return DocumentStore(StoreDirectory(folder, files).open(create=True, schema=None), Durability.SYNC)


class NotingFiles(Files):
    """Records renames and syncs, in order."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def rename(self, path: Path, target: Path) -> None:
        super().rename(path, target)
        self.noted.append(f"named {target.suffix}")

    def sync_folder(self, folder: Path) -> None:
        super().sync_folder(folder)
        self.noted.append(f"synced folder {folder.name}")

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        self.noted.append("synced")


def test_dictionaries_of_a_group_are_made_durable_once_and_before_its_records(tmp_path: Path) -> None:
    files = NotingFiles()
    with opened_on(tmp_path / "s", files) as store:
        list(store.put_pages([*pages(1, 12), *pages(2, 12)]))
        made = len(store.backend.dictionaries.names())
    named = [place for place, what in enumerate(files.noted) if what == "named .dict"]
    folder_syncs = [place for place, what in enumerate(files.noted) if what == "synced folder dictionaries"]
    assert len(named) == made > 1
    assert [files.noted[place - 1] for place in named] == made * ["synced"]
    assert len(folder_syncs) == 1
    assert named[-1] < folder_syncs[0]
    assert files.noted[folder_syncs[0] :][:4] == [
        "synced folder dictionaries",
        "synced",
        "synced",
        "synced folder segments",
    ]


def test_only_the_last_dictionary_of_a_site_is_packed_at_the_high_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dictionaries, "STAGES", (STAGES[0], (400_000, STAGES[1][1])))
    levels: list[int] = []

    def noted(raw: bytes, level: int) -> bytes:
        levels.append(level)
        return pack(raw, level)

    monkeypatch.setattr(dictionaries, "pack", noted)
    with docstore.open(tmp_path / "s", create=True) as store:
        list(store.put_pages(pages(1, 30)))
    assert levels == [PASSING_PACK_LEVEL, PACK_LEVEL]


class NoDictionaries(Files):
    """No dictionary can be written while the disk is `full`."""

    full = False

    def open_append(self, path: Path, *, create: bool) -> AppendFile:
        if self.full and path.parent.name == "dictionaries":
            raise StorageError(errno.ENOSPC, "the disk is full")
        return super().open_append(path, create=create)


def test_values_of_a_group_that_failed_are_not_written_with_the_next(tmp_path: Path) -> None:
    files = NoDictionaries()
    with opened_on(tmp_path / "s", files) as store:
        files.full = True
        for start in (0, 100):
            with pytest.raises(StorageError):
                list(store.put_pages(pages(1, 60, start=start)))
        files.full = False
        store.put_page("https://b.example/", b"one short page")
    segments = [path.stat().st_size for path in (tmp_path / "s" / "segments").iterdir()]
    assert sum(segments) < 1000


class FailingFolder(Files):
    """Fails to sync one folder, once."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def sync_folder(self, folder: Path) -> None:
        if folder.name == self.folder:
            self.folder = ""
            raise StorageError(errno.EIO, "the folder cannot be synced")
        super().sync_folder(folder)


def test_a_dictionary_whose_sync_failed_is_used_by_no_page(tmp_path: Path) -> None:
    files = FailingFolder("")
    with opened_on(tmp_path / "s", files) as store:
        files.folder = "dictionaries"
        with pytest.raises(StorageError):
            list(store.put_pages(pages(1, 12)))
        failed = set(store.backend.dictionaries.names())
        assert failed
        given = pages(1, 30, start=5)
        assert all(result.stored == "body" for result in store.put_pages(given))
        related = {record_of(store, page.url).related for page in given}
        assert any(related)
        assert not related & failed
        assert [store.get(page.url).body for page in given] == [page.body for page in given]  # type: ignore[union-attr]


def test_dictionary_that_comes_into_use_while_compaction_looks_through_records_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site was deleted and is crawled again: its first pages make the same dictionary, which was unused."""
    given = pages(1, 12)
    look_through = job.dictionaries_set_aside

    def crawl_again_after(*args: Any) -> set[bytes]:
        found = look_through(*args)
        list(store.put_pages(given))
        return found

    with docstore.open(tmp_path / "s", create=True) as store:
        list(store.put_pages([*pages(2, 1), *given]))
        dictionary = record_of(store, given[-1].url).related
        for one in given:
            store.delete(one.url)
        monkeypatch.setattr(job, "dictionaries_set_aside", crawl_again_after)
        store.compact()
        assert record_of(store, given[-1].url).related == dictionary
    with docstore.open(tmp_path / "s") as store:
        assert [document.body for document in map(store.get, (one.url for one in given)) if document] == [
            one.body for one in given
        ]
        assert list(check(store.backend)) == []


def test_no_dictionary_that_compaction_has_removed_is_used_again(store: DocumentStore) -> None:
    """Its group was not committed, so no row names it; but it is cached in prepared form."""
    given = pages(1, 12)
    list(store.put_pages(pages(2, 1)))
    store.delete(pages(2, 1)[0].url)
    real, store.backend.engine.mutate_rows = store.backend.engine.mutate_rows, _refuse  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        list(store.put_pages(given))
    store.backend.engine.mutate_rows = real  # type: ignore[method-assign]
    prepared = len(store.backend.dictionaries.names())
    assert prepared
    assert store.compact().removed_dictionaries == prepared
    list(store.put_pages(given))
    for one in given:
        document = store.get(one.url)
        assert document is not None and document.body == one.body
    assert list(check(store.backend)) == []


def test_compaction_copies_records_whose_dictionary_stays_and_encodes_the_others_with_it(store: DocumentStore) -> None:
    given = pages(1, 12)
    list(store.put_pages(given))
    first, last = given[0].url, given[-1].url
    before = record_of(store, last)
    assert before.codec == CODEC_ZSTD_DICTIONARY != record_of(store, first).codec
    store.compact()
    assert record_of(store, last) == before
    assert record_of(store, first).related == before.related
    store.compact(full=True)
    assert record_of(store, last).related != before.related, "a full run samples again"
    assert [document.body for document in map(store.get, (one.url for one in given)) if document] == [
        one.body for one in given
    ]
    assert list(check(store.backend)) == []


def test_each_site_keeps_its_dictionary_however_many_are_read_at_once(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dictionaries, "ROWS_AHEAD", 2)
    monkeypatch.setattr(dictionaries, "LASTING_STAGE", 1)
    given = [one for site in range(5) for one in pages(site, 12)]
    list(store.put_pages(given))
    before = {one.url: record_of(store, one.url) for one in given[11::12]}
    assert len({record.related for record in before.values()}) == 5
    store.compact()
    assert {url: record_of(store, url) for url in before} == before


def test_the_row_of_a_base_leads_to_the_copy_of_a_record_that_became_a_base_while_it_was_copied(
    store: DocumentStore,
) -> None:
    given = pages(1, 12)
    list(store.put_pages(given))
    changed = given[-1]._replace(body=given[-1].body + b" and more", fetched_at=T0 + 10**9)

    def crawl_again() -> None:
        store.put_page(changed.url, changed.body, headers=HTML, fetched_at=changed.fetched_at)

    before_refs_change(store, crawl_again)
    assert store.compact().kept_segments == 0
    newest = store.backend.value_log.read(parse_cell_value(stored_value(store, changed.url, BODY)).ref or b"")
    assert newest.codec == CODEC_ZSTD_DELTA
    assert newest.related == value_name(given[-1].body)
    document = store.get(changed.url)
    assert document is not None and document.body == changed.body
    assert list(check(store.backend)) == []


def test_a_site_keeps_a_lasting_dictionary_until_its_pages_are_gone(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dictionaries, "LASTING_STAGE", 1)
    given, later = pages(1, 12), pages(1, 2, start=50)
    list(store.put_pages([*pages(2, 1), *given]))
    own = record_of(store, given[-1].url).related
    store.compact()
    list(store.put_pages(later))
    assert [record_of(store, one.url).related for one in later] == [own, own]
    for one in [*given, *later]:
        store.delete(one.url)
    store.compact()
    assert own not in store.backend.dictionaries.names()


def test_pages_share_a_record_after_a_compaction_whether_its_owner_comes_first_or_last(store: DocumentStore) -> None:
    """Once, a record was encoded for the first page that shares it, and copied for its owner."""
    given = pages(1, 20)
    list(store.put_pages(given))
    copies = [one._replace(url=f"https://h1.example/a/0{number}") for number, one in enumerate(given)]
    results = list(store.put_pages(copies, policies={VerdictKind.EXACT: Policy.REFERENCE}))
    assert {result.stored for result in results} == {"reference"}
    assert record_of(store, given[-1].url).codec == CODEC_ZSTD_DICTIONARY
    store.compact()
    values = [[stored_value(store, one.url, BODY) for one in group] for group in (given, copies)]
    assert values[0] == values[1]
    assert [store.backend.values.fetch(value) for value in values[0]] == [one.body for one in given]
    assert list(check(store.backend)) == []


def _refuse(*args: Any) -> None:
    raise StorageError(errno.ENOSPC, "full")
