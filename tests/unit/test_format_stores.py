"""Stores that are kept from the first docstore of their format open, answer, take pages and compact as they did."""

from __future__ import annotations

import random
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docstore import GCPolicy
from docstore.dedup.index import BUCKET_LIMIT
from docstore.model import capture, keys
from docstore.model.analysis import BANDS
from docstore.model.format import CODEC_ZSTD_BODY, HEADER_NAMES, HEADER_VALUES, RUN_KEY_BITS
from docstore.reading.index import kernel_of
from docstore.storage.captures import CaptureRecord, live
from docstore.store import DocumentStore
from docstore.tablets.record import Record, encode_record
from tests import format_stores
from tests.format_stores import HALF_DONE, NOW, POWER_LOSS, STORES, asked_twice, kept_names, lay_out_store, opened
from tests.made_runs import run_bytes
from tests.queries import numbers
from tests.reference import read_store
from tests.reference.read_store import StoreReader
from tests.stores import Contents, contents, records_of

NAMES = kept_names()
"""Of all kept stores."""
REPAIRED = {"lost rows", "lost captures", "set aside", *(name for name in NAMES if name.startswith("power loss"))}
"""Stores whose open drops or sets aside what a plain reader of rows stumbles over, or does not see."""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("stores")
    return folder, format_stores.unpack(folder)


@pytest.fixture
def copy(kept: tuple[Path, dict[str, Any]], tmp_path: Path) -> Callable[[str], Path]:
    """Gives a copy of a kept store, to be changed."""
    return lambda name: lay_out_store(kept[0] / name, tmp_path / "store")


def test_all_kept_stores_have_answers(kept: tuple[Path, dict[str, Any]]) -> None:
    assert sorted(kept[1]) == NAMES
    assert set(NAMES) >= set(STORES)
    for kind, protocols in (("killed", HALF_DONE), ("power loss", POWER_LOSS)):
        for protocol, count in protocols.items():
            assert sum(name.startswith(f"{kind} in {protocol}, ") for name in NAMES) >= count
    assert all(kept[1][name]["before"]["urls"] for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_kept_store_answers_as_it_did_before_and_after_pages_are_written_and_compacted(
    name: str, kept: tuple[Path, dict[str, Any]], copy: Callable[[str], Path]
) -> None:
    found, known = asked_twice(copy(name)), kept[1][name]
    assert found["written"] == known["written"]
    for when in ("before", "after"):
        for question, answer in known[when].items():
            assert found[when][question] == answer, (when, question)
    assert found.keys() == known.keys()


def test_kept_stores_have_every_kind_of_row_value_record_and_field(
    kept: tuple[Path, dict[str, Any]], copy: Callable[[str], Path]
) -> None:
    """Else a kind could change without a test that fails."""
    seen: dict[str, set[Any]] = {}
    for name in NAMES:
        with StoreReader(copy(name) if name == "backup" else kept[0] / name, NOW) as reader:
            for kind, value in kinds_in(reader, has_sound_segments=name not in REPAIRED):
                seen.setdefault(kind, set()).add(value)
    assert seen["capture"] == {0, 1, 2, 3}
    assert seen["field"] == {*range(1, 26), 64, 65, 67}
    assert seen["tag"] == {0, 1, 2}
    assert seen["record"] == {1, 2, 3, 4, 5, 6}
    assert seen["codec"] == {0, 1, 2, 3, 4}
    assert seen["wide"] == {0, 8}
    assert seen["column byte"] == {0, 1, 2, 3, 4, 5, 6, 8}, "no language is longer than 512 bytes"
    assert seen["state"] == {"live", "active", "draining"}
    assert seen["level"] == {"", "fast", "best", "marks"}
    assert seen["verdict"] == {*read_store.KINDS}
    assert seen["previous"] == {*read_store.PREVIOUS}
    assert seen["stored"] == {*read_store.HOW_STORED} - {"known", "refused", "visit"}, "these have no record"
    assert seen["posting"] == {(1, 10), (7, 7), (7, 11), (8, 9), (9, 9)}
    assert seen["lost"] == {b"commits", b"rebuild", b"version"}
    assert seen["meta"] == {
        *(b"schema", b"identity", b"band-secret", b"text-scheme", b"backups", b"copy", b"purged", b"lost", b"counters"),
        *(b"tablet", b"segment", b"names", b"dictionary site", b"dictionary tablet", b"runs", b"runs-rebuild"),
    }
    assert seen["later"] == {b"cluster", b"canonical", b"payload_digest"}


def kinds_in(reader: StoreReader, *, has_sound_segments: bool) -> Iterator[tuple[str, Any]]:
    """What a store has: the name of a kind, and which it is."""
    for cell in reader.cells("meta"):
        name, _, rest = cell.row_key.partition(b":")
        yield "meta", name + b" " + rest.split(b" ")[0] if name == b"dictionary" else name
        if name == b"lost":
            yield "lost", cell.qualifier[:7]
    for cell in reader.cells("pages"):
        if cell.family in ("dedup", "http"):
            yield "later", cell.qualifier
        if cell.family != "capture":
            yield "tag", cell.value[0]
            continue
        yield "capture", cell.value[0]
        at = 1
        while at < len(cell.value):
            yield "field", cell.value[at]
            length, start = read_store.varint(cell.value, at + 1)
            at = start + length
        fields = read_store.decode_capture(cell.timestamp, cell.value).fields
        yield from (("tag", value[0]) for value in fields.values())
        if verdict := fields.get(read_store.NUMBERS["dedup", b"verdict"]):
            words = read_store.decode_verdict(reader.value(verdict))
            yield from (("verdict", words["kind"]), ("previous", words["previous"]), ("stored", words["stored"]))
    for key in reader.postings():
        yield "posting", (key[0], len(key))
    for number, row in reader.segments().items():
        yield from (("state", row["state"]), ("level", row["level"]))
        for record in reader.records(number) if has_sound_segments else ():
            head = (reader.folder / "segments" / f"{number:08}.seg").read_bytes()[record.offset : record.offset + 3]
            yield from (("record", record.kind), ("codec", record.codec), ("wide", head[1] & 8))
            yield "column byte", head[2]


# --- a reader that knows only docs/format.md


@pytest.fixture
def pair(copy: Callable[[str], Path], request: pytest.FixtureRequest) -> Iterator[tuple[StoreReader, DocumentStore]]:
    """The second reader of a kept store, and a store that reads the same files."""
    path = copy(request.param)
    with StoreReader(path, NOW) as reader, opened(path) as store:
        yield reader, store


READ = [name for name in NAMES if name not in REPAIRED]


@pytest.mark.parametrize("pair", READ, indirect=True)
def test_a_reader_of_the_page_alone_sees_every_cell(pair: tuple[StoreReader, DocumentStore]) -> None:
    reader, store = pair
    assert shown_cells(reader) == contents(store)


def shown_cells(reader: StoreReader) -> Contents:
    rows = reader.rows("pages")
    return {(row_key, *place): value for row_key, cells in rows for place, value in reader.view(cells).items()}


@pytest.mark.parametrize("pair", READ, indirect=True)
def test_a_reader_of_the_page_alone_sees_the_pages_as_documents(pair: tuple[StoreReader, DocumentStore]) -> None:
    reader, store = pair
    urls = []
    for row_key, cells in reader.rows("pages"):
        captures = [one for one in reader.captures(cells) if ("page", b"body") in one.columns]
        url = read_store.url_of(row_key)
        assert url == keys.url_of(row_key)
        if not captures:
            continue
        urls.append(url)
        document = store.get(url, versions=1000)
        assert document is not None
        assert [one.timestamp for one in captures] == [one.timestamp for one in document.captures]
        for one, shown in zip(captures, document.captures, strict=True):
            values = {qualifier.decode(): value for (_, qualifier), value in one.columns.items()}
            assert (shown.body or b"") == values["body"]
            assert (shown.text or "") == values.get("main", b"").decode()
            assert shown.status == int(values.get("status", b"0"))
            assert shown.headers == read_store.decode_headers(values.get("headers", b""))
            if "verdict" in values:
                assert shown.verdict is not None
                assert list(shown.verdict) == list(read_store.decode_verdict(values["verdict"]).values())
            if values.get("simhash"):
                assert shown.simhash == read_store.decode_simhash(values["simhash"])
            if "visit" in values:
                assert capture.decode_visit(values["visit"]) == read_store.decode_visit(values["visit"])
    assert urls == list(store.urls())


@pytest.mark.parametrize("pair", READ, indirect=True)
def test_a_reader_of_the_page_alone_sees_segments_bases_and_dictionaries(
    pair: tuple[StoreReader, DocumentStore],
) -> None:
    reader, store = pair
    backend = store.backend
    rows = {row.number: row for row in backend.manifest.segments()}  # type: ignore[attr-defined]
    segments = {number: row for number, row in reader.segments().items() if number in rows}
    assert segments.keys() == rows.keys()
    for number, row in segments.items():
        assert (row["state"], row["committed_bytes"]) == (rows[number].state, rows[number].committed_bytes)
        found = list(reader.records(number))
        known = records_of(store, number)[: len(found)]
        for one, other in zip(found, known, strict=True):
            assert (one.kind, one.codec, one.row_key, one.timestamp) == (other[0], other[5], other[1], other[4])
            assert (one.related, one.raw_bytes, one.payload) == other[6:]
            assert one.column in (None, (other[2], other[3]))
            if one.codec == CODEC_ZSTD_BODY:
                assert int.from_bytes(one.related, "little") > 0
    named = {number: names for number, names in reader.names().items() if number in rows}
    for number, (bases, dictionaries) in named.items():
        names = backend.manifest.names(number)  # type: ignore[attr-defined]
        assert (set(bases), set(dictionaries)) == (set(names.bases), set(names.dictionaries))
        assert [blake for blake in map(reader.dictionary, dictionaries) if not blake] == []
    assert [reader.base(row_key) for row_key, _ in reader.rows("bodies")].count(b"") == 0
    tablets = backend.manifest.tablets()  # type: ignore[attr-defined]
    assert reader.tablets() == [(one.number, one.start, one.raw_bytes) for one in tablets]
    assert reader.counters()["totals"] == store.stats()["totals"]


@pytest.mark.parametrize("pair", READ, indirect=True)
def test_a_reader_of_the_page_alone_finds_pages_by_their_postings_and_keys(
    pair: tuple[StoreReader, DocumentStore],
) -> None:
    reader, store = pair
    postings, text_keys = reader.postings(), reader.text_keys()
    kernel = kernel_of(store.backend)
    texts_of_key = Counter(key for keys in text_keys.values() for key in keys)
    posted = 0
    for row_key, cells in reader.rows("pages"):
        for one in reader.captures(cells):
            columns = one.columns
            if one.kind != 0 or ("page", b"body") not in columns:
                continue
            at = one.timestamp, row_key
            text, number = columns.get(("text", b"main"), b""), columns.get(("dedup", b"text_checksum"), b"")[1:7]
            analysis = kernel.analyse_text(text.decode())
            if columns["http", b"status"] != b"200" or analysis.word_count < 50:
                continue
            assert at in postings[b"\x07" + number]
            assert at in postings[b"\x01" + columns["dedup", b"checksum"][:9]]
            posted_under = numbers(analysis.band_keys)[:BANDS].tolist() + numbers(analysis.fingerprints).tolist()
            expected = set(map(mixed, posted_under))
            missing = expected - text_keys.get(int.from_bytes(number, "big"), set())
            assert all(texts_of_key[key] >= BUCKET_LIMIT for key in missing)
            posted += 1
    assert posted


def mixed(key: int) -> int:
    """A key as it is posted: mixed, and cut to its highest bits."""
    for factor in (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93):
        key = key * factor % 2**64
        key ^= key >> 32
    return key >> 64 - RUN_KEY_BITS


@pytest.mark.parametrize(("keys", "texts"), [(0, 1), (1, 1), (40, 9), (3000, 70), (20_000, 40)])
def test_a_reader_of_the_page_alone_reads_every_posting_of_a_run(keys: int, texts: int) -> None:
    source = random.Random(keys)
    drawn = {(source.getrandbits(40), source.randrange(texts)) for _ in range(keys)}
    drawn |= {(7 << 20, place) for place in range(min(texts, 60))}
    postings = np.array(sorted(key << 24 | place for key, place in drawn), np.uint64)
    named = np.array(sorted(source.sample(range(1, 2**48), texts)), np.uint64)
    raw = run_bytes(postings, named).tobytes()
    found = list(read_store.read_run(raw, 0, 1))
    assert len(found) == len(drawn)
    assert set(found) == {(int(named[place]), key) for key, place in drawn}


def test_a_reader_of_the_page_alone_refuses_every_flipped_byte_of_a_record() -> None:
    record = Record(1, b"com,example)/ http", "page", b"body", 1_700_000_000_123_000, 0, b"", 13, b"Tropical fish")
    raw = encode_record(record, 7)
    assert read_store.read_record(raw, 0, 7).payload == record.payload
    for at in range(len(raw)):
        damaged = bytearray(raw)
        damaged[at] ^= 0x10
        with pytest.raises((read_store.Damage, struct.error, IndexError)):
            read_store.read_record(bytes(damaged), 0, 7)
    with pytest.raises(read_store.Damage):
        read_store.read_record(raw, 0, 8)


def test_a_reader_of_the_page_alone_knows_which_captures_a_row_shows() -> None:
    """Rows of a few captures, of all kinds, with few bodies and times, under policies that hide some of them."""
    source = random.Random(54)
    hidden = absent = 0
    for _ in range(4000):
        times = range(source.randrange(1, 9), 0, -1)
        rows = []
        for time in times:
            kind = source.randrange(4)
            known = source.choice((b"", b"a", b"a", b"b")) if kind else source.choice((b"a", b"a", b"b"))
            columns = {capture.CHECKSUM: b"\x00\x01" + known} if known else {}
            columns |= {} if kind else {capture.BODY: b"\x00body"}
            rows.append(CaptureRecord(time, kind, columns, 1, source.randrange(time) if kind in (1, 2) else 0))
        policies = [
            GCPolicy(source.choice((None, None, 1, 2)), source.choice((None, None, 2e-6, 5e-6)), source.random() < 0.5)
            for _ in range(2)
        ]
        records = [read_store.decode_capture(row.timestamp, row.encode()) for row in rows]
        found = read_store.live(records, *(read_store.Policy(*policy) for policy in policies), 9)
        by_time = {row.timestamp: row for row in rows}
        known = list(live(rows, by_time.get, *policies, 9))
        assert [(one.timestamp, of.timestamp if of else 0) for one, of, _ in found] == [
            (one.timestamp, one.source) for one in known
        ]
        bodies = [one.columns.get(capture.BODY, b"")[:1] for one in known]
        assert bodies == [(b"\x00" if has_body else b"\x02") if of else b"" for _, of, has_body in found]
        hidden += len(known) < len(rows)
        absent += b"\x02" in bodies
    assert hidden > 500 and absent > 500


def test_the_list_of_header_words_is_that_of_the_code() -> None:
    for kind, words in (("name", HEADER_NAMES), ("value", HEADER_VALUES)):
        assert read_store.header_words(kind) == dict(enumerate(words, 1))


def test_the_second_reader_imports_nothing_of_docstore() -> None:
    source = Path(read_store.__file__).read_text()
    assert "docstore" not in re.findall(r"^(?:from|import) (\w+)", source, re.M)


@pytest.mark.parametrize("name", [name for name in STORES if name not in REPAIRED])
def test_a_reader_of_the_page_alone_reads_what_todays_code_writes(name: str, tmp_path: Path) -> None:
    """The kept stores are read by today's code; these, which it has just written, by the rules of the page."""
    (tmp_path / "made").mkdir()
    STORES[name](tmp_path / "made" / "store")
    path = lay_out_store(tmp_path / "made" / "store", tmp_path / "store")
    with StoreReader(path, NOW) as reader, opened(path) as store:
        assert shown_cells(reader) == contents(store)
        assert all(list(reader.records(number)) for number in reader.segments())
    asked_twice(path)
    with StoreReader(path, NOW) as reader, opened(path) as store:
        assert shown_cells(reader) == contents(store)
        assert sorted(reader.text_keys()) and reader.counters()["totals"] == store.stats()["totals"]
