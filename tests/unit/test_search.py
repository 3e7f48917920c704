"""Search: the content of an index after writes, deletes, purges and kills, and the results of queries."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from counts import few
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.model.capture import encode_note
from docstore.model.errors import CorruptionError, InvalidArgument, StorageError, StoreUnavailable
from docstore.model.keys import canonical_url
from docstore.model.types import Note
from docstore.store import DocumentStore, open_store
from docstore.sweep.job import SweepOptions, sweep
from docstore.text.finding import EMOJI, search_text
from tests.cli_case import Terminal
from tests.reference.words import words

tantivy: Any = pytest.importorskip("tantivy", reason="the extra docstore[search] is not installed")

HTML = {"Content-Type": "text/html; charset=utf-8"}
DAY = 86_400_000_000
FIRST = 1_700_000_000_000_000

PAGES = {
    "https://bn.example/a": ("রেলগাড়ি", "bn", "ট্রেন চলে গেছে। বাংলাদেশের রেলপথ অনেক পুরানো, আর ভাষা সুন্দর।"),
    "https://hi.example/a": ("नई किताबें", "hi", "लड़के किताबें पढ़ते हैं और नदियों के पास रहते हैं।"),
    "https://ko.example/a": ("서울 여행", "ko", "우리는 학교에서 한국어를 배우고 서울까지 갔다."),
    "https://zh.example/a": ("机器学习", "zh-CN", "这本书介绍机器学习的基本概念和方法。"),
    "https://ar.example/a": ("مدينة", "ar", "هذه مكتبة كبيرة في المدينة القديمة."),
    "https://en.example/docs/stack": (
        "Stack buffers",
        "en-US",
        "A stack buffer overflow is a café of errors in programs.",
    ),
    "https://en.example/docs/heap": (
        "Heaps",
        "en",
        "The buffer lies on a heap far away from here, and much later there is some stack too.",
    ),
}


@given(
    st.text(st.characters(exclude_categories=()), max_size=40)
    | st.text("aÉéΣς\u0301Ł\u1e9e\u13a0\u0130ｅ中\ud800", max_size=12)
)
@settings(max_examples=few(500, 5), deadline=None)
def test_words_of_the_index_are_those_of_the_reference_without_accents(text: str) -> None:
    text = re.sub("[ँं\u0919\u091e\u0923\u0928\u092e]", " ", EMOJI.sub(" ", text))
    bare = (unicodedata.normalize("NFD", word) for word in words(text))
    plain = " ".join("".join(filter(lambda mark: not "\u0300" <= mark <= "\u036f", word)) for word in bare)
    similar = str.maketrans("øđłħŧıς", "odlhtiσ")
    found = unicodedata.normalize("NFD", search_text(text))
    assert found.split() == plain.translate(similar).split()


def page(title: str, text: str, lang: str = "en") -> bytes:
    return f"<!doctype html><html lang={lang}><title>{title}</title><body><h1>{title}</h1><p>{text}</p>".encode()


def put(store: DocumentStore, url: str, text: str, title: str = "A page", **options: Any) -> None:
    options.setdefault("fetched_at", FIRST)
    store.put_page(url, page(title, text, options.pop("lang", "en")), headers=HTML, **options)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("search") / "store"
    with open_store(path, create=True, durability="none") as opened:
        for place, (url, (title, lang, text)) in enumerate(PAGES.items()):
            put(opened, url, text, title, lang=lang, fetched_at=FIRST + place * DAY)
        opened.search_index().update()
    return path


@pytest.fixture
def store(indexed: Path, tmp_path: Path) -> Iterator[DocumentStore]:
    shutil.copytree(indexed, tmp_path / "store")
    with open_store(tmp_path / "store", durability="none") as opened:
        yield opened


def found(store: DocumentStore, query: str, **options: Any) -> list[str]:
    return [hit.url for hit in store.search(query, **options).hits]


def held(index: Any) -> dict[bytes, tuple[Any, Any]]:
    """The content of an index: row key -> state and time."""
    searcher = index.searcher()
    hits = searcher.search(tantivy.Query.all_query(), limit=10_000).hits
    addresses = [address for _, address in hits]
    values = [searcher.fast_field_values(name, addresses) for name in ("state", "time")]
    keys = [bytes(searcher.doc(address).get_first("key")) for address in addresses]
    assert len(set(keys)) == len(keys)
    return {key: (state, time) for key, state, time in zip(keys, *values, strict=True)}


def terms(index: Any, beginning: str) -> list[str]:
    """Words with a prefix in the files of an index, also of removed pages."""
    fields = ("title", "headings", "main", "url", "anchor")
    return [word for name in fields for word, _ in index.searcher().terms_with_prefix(name, beginning)]


def files_hold(index: Any, raw: bytes) -> bool:
    return any(raw in path.read_bytes() for path in index.folder.iterdir())


# --- queries


@pytest.mark.parametrize(
    ("query", "host"),
    [
        ("ট্রেন", "bn"),
        ("বাংলাদেশ", "bn"),  # with an ending in the text
        ("लड़का", "hi"),
        ("किताब", "hi"),
        ("नदी", "hi"),
        ("학교", "ko"),
        ("한국어", "ko"),
        ("机器学习", "zh"),
        ("基本概念", "zh"),
        ("مكتبة", "ar"),
        ("المدينة", "ar"),
        ("overflow", "en"),
        ("OVERFLO", "en"),
        ("cafe", "en"),
    ],
)
def test_words_of_every_script_are_found_and_marked(store: DocumentStore, query: str, host: str) -> None:
    results = store.search(query)
    assert [hit.url.split("/")[2] for hit in results.hits] == [f"{host}.example"]
    assert results.total == 1
    [hit] = results.hits
    assert hit.title and hit.timestamp >= FIRST and hit.status == 200 and hit.verdict is not None and hit.score > 0
    assert hit.snippet is not None
    assert any(passage.marks for passage in hit.snippet.passages)


@pytest.mark.parametrize("query", ["", "  ", '"', '""', ">>>", '">>>"', "...", "+", "title:>>>", "!? -- :"])
def test_a_query_without_a_word_finds_nothing_and_says_so(store: DocumentStore, query: str) -> None:
    with pytest.raises(InvalidArgument, match="no word in the query"):
        store.search(query)


def test_an_emoji_is_a_word(store: DocumentStore) -> None:
    put(store, "https://horse.example/", "The 🐴 and the flag 🇩🇪 stand in the stable.", "Stable 🐎")
    put(store, "https://rose.example/", "A garden with a 🌹 and the flag 🇩🇰.", "A garden")
    store.search_index().update()
    for query in ("🐴", "🇩🇪", "title:🐎", '"flag 🇩🇪"', "+🐴 +stable"):
        assert found(store, query) == ["https://horse.example/"], query
    assert found(store, "🦄") == found(store, "title:🐴") == []
    [hit] = store.search("🐴").hits
    assert hit.snippet is not None and "[🐴]" in hit.snippet.text("[", "]")


@pytest.mark.parametrize("query", ["titel:stack", "Titel:stack", "stack -site:en.example", '+titel:"stack buffer"'])
def test_an_unknown_field_is_an_error_that_names_the_fields(store: DocumentStore, query: str) -> None:
    with pytest.raises(InvalidArgument, match=r"no field (titel|site): the fields are title, headings, .*, host, lang"):
        store.search(query)


def test_words_with_colons_that_are_no_field(store: DocumentStore) -> None:
    put(store, "https://bn.example/wiki/বা\u09dcি", "Some words.", "A house")
    put(store, "https://cpp.example/", "How std::vector grows, at 12:30.", "Vectors")
    store.search_index().update()
    assert found(store, "std::vector") == found(store, "12:30") == ["https://cpp.example/"]
    assert found(store, "TITLE:vectors") == ["https://cpp.example/"]
    for typed in ("https://bn.example/wiki/বা\u09a1\u09bcি", "https://bn.example/wiki/বা\u09dcি"):
        for query in (typed, canonical_url(typed), f"url:{canonical_url(typed)}"):
            assert found(store, query)[0] == "https://bn.example/wiki/%E0%A6%AC%E0%A6%BE%E0%A7%9C%E0%A6%BF", query


def test_other_forms_of_a_word_score_below_it_and_exact_words_have_none(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True, durability="none") as store:
        put(store, "https://plural.example/", f"Two hotels stand here. {long_text(0, 9)}")
        put(store, "https://singular.example/", f"One hotel stands here. {long_text(50, 59)}")
        put(store, "https://other.example/", f"The news are new here. {long_text(100, 109)}")
        store.search_index().update()
        singular, plural = "https://singular.example/", "https://plural.example/"
        assert found(store, "hotel") == [singular, plural]
        assert found(store, "hotels") == [plural, singular]
        for exact in ('"hotel"', '+"hotel"', "“hotel”", "„hotel“", "«hotel»", "« hotel »", "main:“one hotel”"):
            assert found(store, exact) == [singular], exact
        assert found(store, "“hotel one”") == found(store, "statu") == found(store, "stable") == []
        [marked, _] = store.search("hotels").hits
        assert marked.snippet is not None and "[hotels]" in marked.snippet.text("[", "]")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("কলকাতার", "তিনি কলকাতায় থাকেন।"),
        ("কলকাতায়", "তিনি কলকাতা থেকে এসেছেন।"),
        ("মানুষদের", "মানুষ এখানে থাকে।"),
        ("বইগুলো", "একটি বইয়ের কথা।"),
        ("শহরের", "এই শহরে বৃষ্টি হয়।"),
        ("लड़कियाँ", "एक लड़की आई।"),
        ("किताबों", "यह किताब है।"),
        ("भाषाओं", "यह भाषा है।"),
        ("학교에서", "우리는 학교를 좋아한다."),
        ("서울은", "서울까지 갔다."),
        ("المدينة", "هذه مدينة قديمة."),
        ("مدينة", "زار والمدينة القديمة."),
        ("والكتاب", "قرأت الكتاب أمس."),
        ("للكتاب", "هذا كتاب جديد."),
        ("हिंदी", "वे हिन्दी बोलते हैं।"),
        ("मुम्बई", "यह मुंबई शहर है।"),
        ("गांव", "मेरा गाँव दूर है।"),
        ("घर", "हम घरों में हैं।"),
        ("বই", "বইগুলো এখানে আছে।"),
        ("বইটি", "একটি বই আছে।"),
        ("মায়ের", "আমার মা এলেন।"),
        ("hotels", "One hotel is here."),
        ("box", "Two boxes are here."),
        ("cities", "One city is here."),
        ("movie", "Old movies are here."),
        ("e-mail", "Send an email there."),
        ("ebook", "Read an e-book there."),
        ("wifi", "The wi-fi is here."),
        ("U.S.A.", "It lies in the USA."),
        ("uk", "It lies in the U.K. too."),
    ],
)
def test_light_rules_of_endings_find_other_forms_of_a_word(tmp_path: Path, query: str, text: str) -> None:
    with open_store(tmp_path / "store", create=True, durability="none") as store:
        put(store, "https://a.example/", text)
        put(store, "https://b.example/", "শব্দ शब्द 단어 كلمة word")
        store.search_index().update()
        [hit] = store.search(query).hits
        assert hit.url == "https://a.example/"
        assert store.search(f"-{query} word শব্দ").total == 1


@pytest.mark.parametrize(
    ("query", "text"),
    [("খবর", "খবু নাম।"), ("대학", "대구 이야기"), ("서울은", "서로 이야기"), ("الم", "ولد مدينة"), ("आओं", "आम है")],
)
def test_light_rules_keep_other_words_apart(tmp_path: Path, query: str, text: str) -> None:
    with open_store(tmp_path / "store", create=True, durability="none") as store:
        put(store, "https://a.example/", text)
        store.search_index().update()
        assert found(store, query) == []


def test_short_words_do_not_match_as_prefixes(store: DocumentStore) -> None:
    assert found(store, "sta") == []
    assert found(store, "한") == []
    assert found(store, "nothing") == []


def test_phrases_fields_and_signs(store: DocumentStore) -> None:
    stack, heap = "https://en.example/docs/stack", "https://en.example/docs/heap"
    assert found(store, "stack buffer") == [stack, heap]
    assert found(store, '"stack buffer"') == [stack]
    assert found(store, '"buffer stack"') == []
    assert found(store, "title:heaps") == [heap]
    assert found(store, "title:overflow") == []
    assert found(store, "buffer -overflow") == [heap]
    assert found(store, "buffer +overflow") == [stack]
    assert found(store, "+buffer +nowhere") == []
    assert found(store, "url:docs host:en.example -heap") == [stack]
    assert found(store, "lang:ko") == ["https://ko.example/a"]
    assert found(store, "https://en.example/docs/heap", limit=1) == [heap]


def test_words_near_each_other_count_more(tmp_path: Path) -> None:
    with open_store(tmp_path / "near", create=True, durability="none") as store:
        filler = " ".join(f"word{number}" for number in range(30))
        put(store, "https://a.example/", f"alpha stands {filler} by omega")
        put(store, "https://b.example/", f"{filler} omega stands by alpha")
        put(store, "https://c.example/", f"alpha omega {filler} stands by")
        for number in range(40):
            put(store, f"https://d{number}.example/", f"another page {number} of {filler}")
        store.search_index().update()
        assert found(store, "alpha omega")[-1] == "https://a.example/"


def test_filters(store: DocumentStore) -> None:
    put(store, "https://en.example/gone", "A buffer that is gone.", status=404)
    store.search_index().update()
    assert len(found(store, "buffer", host="en.example")) == 2
    assert found(store, "buffer", host="example") == found(store, "buffer")
    assert found(store, "buffer", host="n.example") == []
    assert found(store, "buffer", status=404) == ["https://en.example/gone"]
    assert len(found(store, "buffer", status=0)) == 3
    assert found(store, "", lang="en") == found(store, "", host="en.example")
    second = FIRST + DAY
    assert found(store, "", since=second, until=second + 1) == ["https://hi.example/a"]
    assert found(store, "", since=second, until=second) == []
    assert len(found(store, "", since=second)) == len(PAGES) - 1
    assert found(store, "", until=0) == found(store, "", since=1 << 70) == []
    every = found(store, "", since=FIRST)
    assert set(every) == set(PAGES)
    assert found(store, "", since=FIRST, limit=3) + found(store, "", since=FIRST, limit=10, offset=3) == every
    for wrong in ({"limit": 0}, {"offset": -1}):
        with pytest.raises(InvalidArgument, match="limit"):
            store.search("buffer", **wrong)
    with pytest.raises(InvalidArgument, match="1000 characters"):
        store.search("x" * 1001)


@pytest.mark.parametrize(
    "text",
    [
        "<synonyms><group><syn>overflow</syn><syn>overrun</syn></group>"
        "<group><syn>programming mistake</syn><syn>errors</syn></group></synonyms>",
        "# groups\noverflow, overrun\n\nprogramming mistake, errors\n",
    ],
)
def test_synonyms_find_each_other(store: DocumentStore, tmp_path: Path, text: str) -> None:
    path = tmp_path / "synonyms"
    path.write_text(text)
    stack = ["https://en.example/docs/stack"]
    assert found(store, "overrun") == []
    [hit] = store.search("overrun", synonyms=path).hits
    assert hit.url == stack[0]
    assert hit.snippet is not None
    assert "[overflow]" in hit.snippet.text("[", "]")
    assert found(store, "programming mistake", synonyms=path) == stack
    assert found(store, "mistake", synonyms=path) == []
    (store.backend.path / "search.toml").write_text(f'synonyms = "{path}"\n')
    assert found(store, "overrun") == stack


def test_boosts_change_the_order_and_wrong_ones_are_refused(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True, durability="none") as store:
        filler = " ".join(f"word{number}" for number in range(50))
        put(store, "https://a.example/", f"{filler} falcon", "Bird")
        store.put_page("https://b.example/", f"<title>Falcon</title><p>{filler}x".encode(), headers=HTML)
        store.search_index().update()
        boosts = tmp_path / "boosts.toml"
        boosts.write_text("[fields]\ntitle = 20\nheadings = 0\nmain = 0.1\n")
        assert found(store, "falcon", boosts=boosts, collapse=False)[0] == "https://b.example/"
        other = tmp_path / "other.toml"
        other.write_text("[fields]\ntitle = 0\nheadings = 0\n")
        assert found(store, "falcon", boosts=other, collapse=False)[0] == "https://a.example/"
        for number, wrong in enumerate(("[fields]\nbody = 1\n", "[fields]\ntitle = -1\n", "title = 1\n", "nonsense")):
            bad = tmp_path / f"bad{number}.toml"
            bad.write_text(wrong)
            with pytest.raises(InvalidArgument, match="boost"):
                store.search("falcon", boosts=bad)
        with pytest.raises(InvalidArgument, match="synonyms"):
            store.search("falcon", synonyms=tmp_path / "none.xml")


@pytest.mark.parametrize(
    ("kind", "note", "worth"),
    [
        ("rank", "links", {"rank": 9.0, "host_weight": 0.0}),
        ("host", "links", {"rank": 0.0, "host_weight": 9.0}),
        ("richness", "quality", {"words": 900, "link_density": 0.0, "repeated_line_characters": 0.0}),
    ],
)
def test_pages_score_for_themselves_if_that_is_set(
    tmp_path: Path, kind: str, note: str, worth: dict[str, float]
) -> None:
    with open_store(tmp_path / "store", create=True, durability="none") as store:
        for host in ("a", "b", "c"):
            put(store, f"https://{host}.example/", "the falcon is a bird" if host != "c" else "no such animal", host)
        poor = dict.fromkeys(worth, 0.1)
        for host, value in (("a", poor), ("b", worth), ("c", worth)):
            store.cells.put_notes([Note(f"https://{host}.example/", FIRST, note, encode_note("1", value))])
        index = store.search_index()
        index.update()
        on, off = tmp_path / "on.toml", tmp_path / "off.toml"
        on.write_text(f"[pages]\n{kind} = 0.5\n")
        off.write_text("")
        first, second = store.search("falcon", boosts=on, collapse=False).hits
        assert (first.url, second.url) == ("https://b.example/", "https://a.example/")
        plain = {hit.url: hit.score for hit in store.search("falcon", boosts=off, collapse=False).hits}
        assert first.score - plain[first.url] > second.score - plain[second.url] >= 0
        assert plain[first.url] == pytest.approx(plain[second.url])
        store.cells.put_notes([Note("https://b.example/", FIRST, note, encode_note("1", poor))])
        assert index.update().changed == 1
        assert found(store, "falcon", boosts=on, collapse=False)[0] == "https://a.example/"
        on.write_text("[pages]\nbeauty = 1\n")
        with pytest.raises(InvalidArgument, match="\\[pages\\] takes rank, host, richness"):
            store.search("falcon", boosts=on)


def test_duplicates_are_collapsed_and_counted(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True, durability="none") as store:
        text = " ".join(f"Pony number {number} likes oats and rain." for number in range(30))
        for place, host in enumerate(("a", "b", "c")):
            put(store, f"https://{host}.example/pony", text, fetched_at=FIRST + place * DAY)
        put(store, "https://d.example/pony", "One pony that is like no other pony.")
        store.search_index().update()
        results = store.search("pony oats", host="example")
        assert (results.total, results.complete) == (4, True)
        assert sorted(hit.duplicates for hit in results.hits) == [0, 2]
        assert len(found(store, "pony oats", collapse=False)) == 4
        sweep(store, SweepOptions())
        assert sorted(hit.duplicates for hit in store.search("pony oats").hits) == [0, 2]
        late = store.search("pony oats", seconds=0)
        assert not late.complete
        assert len(late.hits) == 4
        assert all(hit.snippet is None for hit in late.hits)


def long_text(first: int, last: int) -> str:
    return " ".join(f"Pony {number} likes oats {number * 7} and rain {number * 13}." for number in range(first, last))


@pytest.mark.parametrize("swept", [False, True])
def test_the_canonical_page_of_a_group_is_shown(tmp_path: Path, swept: bool) -> None:
    with open_store(tmp_path / "store", create=True, durability="none") as store:
        put(store, "https://original.example/", long_text(0, 40), "Stables")
        for place in range(3):  # shorter fields: these rank higher
            copy = f"<title>Stables</title><p>{long_text(0, 39)} pony oats pony.".encode()
            store.put_page(f"https://copy{place}.example/", copy, headers=HTML, fetched_at=FIRST + (place + 1) * DAY)
        store.search_index().update()
        if swept:
            sweep(store, SweepOptions())
        [hit] = store.search("pony oats").hits
        assert (hit.url, hit.duplicates) == ("https://original.example/", 3)
        assert hit.snippet is not None and hit.snippet.url == hit.url
        [own] = store.search("pony oats", host="copy1.example").hits  # a filter leaves the canonical page out
        assert own.url == "https://copy1.example/"


@pytest.mark.parametrize("small_first", [False, True])
def test_contained_copies_are_collapsed_into_the_page_that_contains_them(tmp_path: Path, small_first: bool) -> None:
    pages = {"https://whole.example/": long_text(0, 60), "https://part.example/": long_text(0, 30)}
    with open_store(tmp_path / "store", create=True, durability="none") as store:
        for place, (url, text) in enumerate(sorted(pages.items(), reverse=not small_first)):
            put(store, url, text, "Ponies", fetched_at=FIRST + place * DAY)
        put(store, "https://other.example/", "One pony that likes no oats and no other pony.")
        store.search_index().update()
        hits = {hit.url: hit.duplicates for hit in store.search("pony oats").hits}
        assert hits == {"https://whole.example/": 1, "https://other.example/": 0}


# --- the index


def test_an_update_writes_only_what_changed(store: DocumentStore) -> None:
    index = store.search_index()
    index.update()
    before = held(index)
    assert index.update().pages == 0  # nothing was committed
    url = "https://en.example/docs/stack"
    put(store, url, "An older text that nobody sees.", fetched_at=FIRST - DAY)  # below a live one
    store.put_page(url, status=304, fetched_at=FIRST + 300 * DAY)  # a visit
    report = index.update()
    assert (report.pages, report.added, report.changed, report.removed) == (len(PAGES), 0, 0, 0)
    assert held(index) == before
    put(store, url, "A newer text about queues.", fetched_at=FIRST + 400 * DAY)
    put(store, "https://old.example/", "From an archive of long ago.", fetched_at=FIRST - 3000 * DAY)
    report = index.update()
    assert (report.added, report.changed, report.removed, report.scrubbed) == (1, 1, 0, 0)
    assert found(store, "queues") == [url]
    assert found(store, "archive") == ["https://old.example/"]
    assert found(store, "overflow") == []


def test_anchors_and_notes_are_searched(store: DocumentStore) -> None:
    stack = "https://en.example/docs/stack"
    store.add_anchor(stack, "https://other.example/", "about smashing")
    report = store.search_index().update()
    assert (report.added, report.changed) == (0, 1)
    assert found(store, "anchor:smashing") == found(store, "smashing") == [stack]


def test_notes_are_searched_and_name_the_language(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True, durability="none") as store:
        put(store, "https://a.example/", "Eine Seite.", lang="en")
        phrases = encode_note("1", {"phrases": [["solar panel", 3], ["roof", 2]]})
        language = encode_note("1", {"lang": "de", "score": 0.9})
        store.cells.put_notes([Note("https://a.example/", FIRST, "keyphrases", phrases)])
        store.cells.put_notes([Note("https://a.example/", FIRST, "lang", language)])
        index = store.search_index()
        index.update()
        assert found(store, "note:solar") == found(store, "lang:de roof") == ["https://a.example/"]
        assert found(store, "seite", lang="en") == found(store, "note:1") == []
        store.cells.put_notes([Note("https://a.example/", FIRST, "keyphrases", phrases.replace(b"roof", b"wall"))])
        assert index.update().changed == 1
        assert found(store, "wall") == ["https://a.example/"]
        assert found(store, "roof") == []


def test_the_error_of_a_damaged_index_says_how_to_rebuild_it(store: DocumentStore) -> None:
    index = store.search_index()
    (index.folder / "meta.json").write_text("{}")
    with pytest.raises(CorruptionError, match="--full"):
        store.search("buffer")
    put(store, "https://new.example/", "One more page.")
    with pytest.raises(CorruptionError, match="--full"):
        index.update()
    assert index.update(full=True).added == len(PAGES) + 1


def test_a_full_disk_is_not_reported_as_a_damaged_index(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        """tantivy's writer, once its thread has met a full disk: only `commit` names it."""

        rolled_back = False

        def add_document(self, *_: object) -> None:
            raise ValueError("An error occurred in a thread: 'An index writer was killed.. A worker thread'")

        def commit(self) -> None:
            raise ValueError("An IO error occurred: 'No space left on device (os error 28)'")

        def rollback(self) -> None:
            self.rolled_back = True

        def wait_merging_threads(self) -> None:
            pass

    writer = Full()
    index = store.search_index()
    monkeypatch.setattr(index, "writer", lambda _: writer)
    with pytest.raises(StorageError, match="no space for"):
        index.update(full=True)
    assert writer.rolled_back


@pytest.mark.parametrize("free", range(8))
def test_an_index_that_can_open_few_files_is_not_reported_as_damaged(store: DocumentStore, free: int) -> None:
    index = store.search_index()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)  # the first descriptor that is free
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + free, hard))
    try:
        with contextlib.suppress(StorageError):
            index.update(full=True)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert index.update(full=True).added == len(PAGES)


def test_deleted_pages_are_not_shown_and_their_words_are_removed(store: DocumentStore) -> None:
    index = store.search_index()
    url = "https://secret.example/zanzibarpage"
    put(store, url, "The xylophonist wrote this.", "Quetzalcoatl")
    put(store, "https://other.example/", "A page that stays.")
    index.update()
    put(store, url, "The xylophonist wrote this again, longer.", "Quetzalcoatl", fetched_at=FIRST + DAY)
    index.update()
    words = ("xylophonist", "quetzalcoatl", "zanzibarpage")
    assert all(terms(index, word) for word in words)
    assert files_hold(index, b"zanzibarpage")
    store.delete(url, purge=True, compact=False)
    assert found(store, "xylophonist") == []  # before the update too
    report = index.update()
    assert report.removed == 1
    assert report.scrubbed > 0
    assert not any(terms(index, word) for word in words)
    assert not files_hold(index, b"zanzibarpage")
    assert not (index.folder / "scrub").exists()
    assert set(found(store, "", since=0)) == {*PAGES, "https://other.example/"}
    again = index.update(full=True)
    assert (again.added, again.pages) == (len(PAGES) + 1, len(PAGES) + 1)


def test_words_of_a_purged_page_are_removed_even_if_its_url_was_put_again(store: DocumentStore) -> None:
    index = store.search_index()
    url = "https://secret.example/"
    put(store, url, "The xylophonist wrote this.")
    put(store, "https://other.example/", "A page that stays.")
    index.update()
    store.delete(url, purge=True, compact=False)
    put(store, url, "Other words.", fetched_at=FIRST + DAY)
    store.compact()
    assert index.update().scrubbed > 0
    assert not terms(index, "xylophonist")


@pytest.mark.parametrize("options", [{"status": -1}, {"status": 10**30}, {"host": "\ud800"}, {"lang": "\ud800"}])
def test_a_wrong_option_is_not_reported_as_a_damaged_index(store: DocumentStore, options: Any) -> None:
    with pytest.raises(InvalidArgument):
        store.search("word", **options)
    with pytest.raises(InvalidArgument):
        store.search("host:a\ud800")


def test_a_stopped_scrub_resumes(store: DocumentStore) -> None:
    index = store.search_index()
    put(store, "https://secret.example/", "The xylophonist wrote this.")
    put(store, "https://other.example/", "A page that stays.")
    index.update()
    store.delete("https://secret.example/", purge=True, compact=False)
    calls = []

    def stop_in_the_second_pass(pages: int) -> None:
        calls.append(pages)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.update(stop_in_the_second_pass)
    assert found(store, "xylophonist") == []
    assert terms(index, "xylophonist")
    index.update()
    assert not terms(index, "xylophonist")
    assert set(found(store, "", since=0)) == {*PAGES, "https://other.example/"}


KILLED = """
import os, signal, sys
from docstore.search import index
from docstore.store import open_store
index.ROWS_AHEAD, index.COMMIT_PAGES = 5, 10
with open_store(sys.argv[1]) as store:
    def kill(pages):
        if pages == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
    store.search_index().update(kill)
"""


@pytest.mark.parametrize("pages", [25])
def test_a_killed_update_resumes(tmp_path: Path, pages: int) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        for number in range(40):
            put(store, f"https://a.example/{number:02}", f"Page number{number} about birds and stones.")
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "store", str(pages)], check=False)
    assert killed.returncode == -signal.SIGKILL
    with open_store(tmp_path / "store") as store:
        report = store.search_index().update()
        assert report.pages == 40
        assert report.added == 40 - (max(0, pages - 5) // 10) * 10
        whole = store.search_index(tmp_path / "whole")
        whole.update()
        assert held(store.search_index()) == held(whole)
        for query in ("birds", "number7", "stones birds"):
            results = [store.search(query, index=index, limit=50) for index in (None, tmp_path / "whole")]
            shown = [sorted((round(hit.score, 4), hit.url) for hit in one.hits) for one in results]
            assert shown[0] == shown[1]


def test_an_index_of_another_format_is_rebuilt_and_other_folders_are_refused(
    store: DocumentStore, tmp_path: Path
) -> None:
    index = store.search_index()
    (index.folder / "FORMAT").write_text("docstore search 0\n")
    with pytest.raises(InvalidArgument, match="docstore index"):
        index.searcher()
    (index.folder / "meta.json").write_text("{}")
    put(store, "https://new.example/", "One more page.")
    assert index.update().added == len(PAGES) + 1
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(InvalidArgument, match="is not a search index"):
        store.search_index(tmp_path / "mine").update()
    with pytest.raises(InvalidArgument, match="no search index"):
        store.search("x", index=tmp_path / "nowhere")


def test_one_process_updates_at_a_time(store: DocumentStore) -> None:
    index = tantivy.Index.open(str(store.search_index().folder))
    writer = index.writer(20_000_000, num_threads=1)
    put(store, "https://new.example/", "One more page.")
    with pytest.raises(StoreUnavailable, match="another process"):
        store.search_index().update()
    writer.rollback()


# --- the terminal


def test_index_and_search_on_the_terminal(run: Terminal, tmp_path: Path) -> None:
    with open_store(tmp_path / "store", create=True) as store:
        for url, (title, lang, text) in PAGES.items():
            put(store, url, text, title, lang=lang)
    assert run("index", "--json").object()["added"] == len(PAGES)
    shown = run("search", "stack", "buffer", "--limit", "1")
    assert "Stack buffers" in shown.out
    assert "*stack* *buffer*" in shown.out
    assert "2 pages match" in shown.err
    hit = run("search", '"stack buffer"', "--json").object()
    assert hit["url"] == "https://en.example/docs/stack"
    assert hit["snippet"]["html"]
    assert run("search", "nowhere").code == 1
    assert run("search", "buffer", "--status", "404").code == 1
    refused = run("index", "--follow")
    assert refused.code == 2
    assert "docstore serve" in refused.err


# --- a store that many processes write


def test_a_store_on_hbase_is_indexed_next_to_its_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("thriftpy2", reason="the extra docstore[hbase] is not installed")
    memory_hbase = importlib.import_module("memory_hbase")
    memory_hbase.use(monkeypatch)
    with memory_hbase.open_store() as writer, memory_hbase.open_store() as reader:
        put(writer, "https://a.example/", "A page about birds.")
        index = reader.search_index(tmp_path / "index")
        assert index.update().added == 1
        put(writer, "https://b.example/", "Another page about birds.")
        assert index.update().added == 1  # though this process committed nothing
        assert len(found(reader, "birds", index=tmp_path / "index")) == 2
        writer.delete("https://a.example/")
        assert found(reader, "birds", index=tmp_path / "index") == ["https://b.example/"]
        assert index.update().removed == 1
