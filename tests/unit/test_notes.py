"""Notes: derived columns have the timestamp and the lifetime of their capture, and are computed once."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import memory_hbase
import pytest
from cli_case import Terminal
from pages import page, words
from stores import contents, everything_on_disk

import docstore
from docstore import GCPolicy, InvalidArgument, Note, ReadSpec, Schema, SetCell
from docstore.archives.copying import copy
from docstore.cluster import upkeep, upkeep_postings
from docstore.model.capture import decode_note
from docstore.model.format import CAPTURE_FAMILY
from docstore.model.types import ColumnFamily
from docstore.notes.annotate import Annotator, annotate, find_annotator, load_annotator
from docstore.notes.links import frontier, host_table, read_graph
from docstore.notes.words import entity_finder, key_phrases, stop_words
from docstore.reading.documents import Document, Section, outline_of
from docstore.reports.check import check
from docstore.store import DocumentStore
from docstore.sweep.job import SweepOptions, sweep

HTML = (("Content-Type", "text/html; charset=utf-8"),)
T0 = 1_700_000_000_000_000
DAY = 86_400_000_000
URL = "https://a.example/"


def put(store: Any, url: str, text: str, at: int = 0, **options: Any) -> docstore.PutResult:
    body = text.encode() if text.startswith("<") else page(text)
    return store.put_page(url, body, headers=HTML, fetched_at=T0 + at * DAY, **options)  # type: ignore[no-any-return]


def notes_of(store: Any, url: str = URL, name: str = "") -> dict[int, bytes]:
    """Notes of a row by the day of their capture."""
    row = store.cells.read_row(url, ReadSpec(("note",), name.encode()))
    return {} if row is None else {(cell.timestamp - T0) // DAY: cell.value for cell in row.cells}


# --- where notes live


def test_a_note_has_the_timestamp_of_its_capture_and_is_written_once(store: DocumentStore) -> None:
    put(store, URL, " ".join(words(1, 60)))
    put(store, URL, " ".join(words(2, 60)), at=2)
    note = Note(URL, T0, "lang", b"one")
    assert store.cells.put_notes([note, Note(URL, T0 + DAY, "lang", b"of no capture")]) == 1
    assert store.cells.put_notes([note]) == 0
    assert notes_of(store) == {0: b"one"}
    assert store.cells.put_notes([note._replace(value=b"two"), note._replace(value=b"three")]) == 1
    assert notes_of(store) == {0: b"three"}
    assert store.cells.put_notes([note._replace(value=None), note._replace(timestamp=T0 + 2 * DAY, value=b"x")]) == 2
    assert notes_of(store) == {2: b"x"}
    assert store.cells.put_notes([note._replace(value=None)]) == 0
    with pytest.raises(InvalidArgument, match="name"):
        store.cells.put_notes([Note(URL, T0, "", b"x")])
    with pytest.raises(InvalidArgument, match="takes no cells"):
        store.cells.apply(URL, [SetCell("note", b"lang", T0, b"x")])
    with pytest.raises(InvalidArgument, match="built in"):
        Schema(families=(ColumnFamily("note"),))


def test_a_visit_shows_the_notes_of_the_capture_that_it_confirms(store: DocumentStore) -> None:
    put(store, URL, " ".join(words(1, 60)))
    put(store, URL, " ".join(words(1, 60)), at=1)
    store.put_page(URL, status=304, fetched_at=T0 + 2 * DAY)
    assert store.cells.put_notes([Note(URL, T0 + at * DAY, "lang", b"one") for at in (2, 1, 0)]) == 1
    assert notes_of(store) == {2: b"one", 1: b"one", 0: b"one"}
    [row] = store.cells.scan(spec=ReadSpec(("note", "dedup"), b"lang", versions=1))
    assert [(cell.timestamp, cell.value) for cell in row.cells] == [(T0 + 2 * DAY, b"one")]


def test_notes_of_hidden_or_deleted_captures_are_gone(tmp_path: Path) -> None:
    schema = Schema(captures=GCPolicy(max_versions=1))
    with docstore.open(tmp_path / "s", create=True, schema=schema) as store:
        secret = "unspeakable" * 90
        put(store, URL, " ".join(words(1, 60)))
        store.cells.put_notes([Note(URL, T0, "long", secret.encode())])
        put(store, URL, " ".join(words(2, 60)), at=1)
        assert notes_of(store) == {} and store.cells.put_notes([Note(URL, T0, "long", b"again")]) == 0
        store.cells.put_notes([Note(URL, T0 + DAY, "long", secret.encode() + b"!")])
        store.compact()
        engine = store.backend.engine
        assert [cell.timestamp for cell in engine.read_row("pages", store.cells.row_key(URL), ReadSpec(("note",)))] == [
            T0 + DAY
        ]
        assert notes_of(store) == {1: secret.encode() + b"!"}
        assert any(secret.encode() in piece for piece in everything_on_disk(store))
        put(store, "https://b.example/", " ".join(words(3, 60)))
        store.delete(URL, purge=True, compact=False)
        store.compact()
        assert not any(b"unspeakable" in piece for piece in everything_on_disk(store))
        assert list(check(store.backend)) == []


def test_a_page_that_a_sweep_rejects_loses_its_notes(store: DocumentStore) -> None:
    text = " ".join(words(1, 200))
    for name in ("a", "b"):
        put(store, URL + name, text, at=ord(name))
        store.cells.put_notes([Note(URL + name, T0 + ord(name) * DAY, "lang", b"x" * 600)])
    assert sweep(store, SweepOptions(apply="reject", threads=1)).applied == {"exact": 1}
    gone = [row.row_key for row in store.backend.engine.scan("pages", spec=ReadSpec(("note",)))]
    assert gone == [store.cells.row_key(URL + "a")]


def test_a_copy_has_the_notes(store: DocumentStore, tmp_path: Path) -> None:
    for number in range(5):
        put(store, f"{URL}{number}", " ".join(words(number, 60)))
        store.cells.put_notes([Note(f"{URL}{number}", T0, "lang", b"%d" % number * 400)])
    copy(store, tmp_path / "copy")
    with docstore.open(tmp_path / "copy") as target:
        assert contents(target) == contents(store)


def test_notes_on_hbase_stay_until_their_capture_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "GRACE_SECONDS", 0)
    monkeypatch.setattr(upkeep_postings, "GRACE_SECONDS", 0)
    memory_hbase.use(monkeypatch)
    with memory_hbase.open_store(Schema(captures=GCPolicy(max_versions=1))) as store:
        put(store, URL, " ".join(words(1, 60)))
        assert store.cells.put_notes([Note(URL, T0, name, name.encode() * 300) for name in ("lang", "x")]) == 2
        assert annotate(store, counted([])).written == 1 and annotate(store, counted([])).written == 0
        store.compact()
        assert notes_of(store, name="x") == {0: b"x" * 300} and len(notes_of(store, name="lang")) == 1
        put(store, URL, " ".join(words(2, 60)), at=1)
        store.compact()
        cells = store.backend.engine.read_row("pages", store.cells.row_key(URL), ReadSpec(("note", CAPTURE_FAMILY)))
        assert [cell.family for cell in cells] == [CAPTURE_FAMILY]


# --- annotate


def counted(seen: list[str], version: str = "1") -> Annotator:
    def of_document(document: Document) -> dict[str, Any] | None:
        seen.append(f"{document.url} {(document.timestamp - T0) // DAY}")
        if "bad" in document.url:
            raise ValueError("no such page")
        return {"words": len((document.text or "").split())} if document.text else None

    return Annotator("count", version, of_document)


def test_only_captures_without_a_note_of_the_version_are_annotated(store: DocumentStore) -> None:
    seen: list[str] = []
    put(store, URL, " ".join(words(1, 60)), at=4)
    put(store, URL, " ".join(words(2, 60)), at=6)
    store.put_page(URL, status=304, fetched_at=T0 + 7 * DAY)
    store.put_page(URL + "image", b"\x89PNG", headers=(("Content-Type", "image/png"),), fetched_at=T0)
    first = annotate(store, counted(seen))
    assert (first.captures, first.written, first.failed) == (4, 3, 0)
    assert sorted(seen) == [f"{URL} 4", f"{URL} 7", f"{URL}image 0"]
    assert json.loads(notes_of(store)[7]) == {"version": "1", "words": 60}
    assert json.loads(notes_of(store, URL + "image")[0]) == {"version": "1"}
    seen.clear()
    assert annotate(store, counted(seen)).written == 0 and seen == []
    put(store, URL, " ".join(words(3, 60)), at=1)  # fetched long ago, arrived now
    assert annotate(store, counted(seen)).written == 1 and seen == [f"{URL} 1"]
    seen.clear()
    assert annotate(store, counted(seen, "2")).written == 4 and len(seen) == 4


def test_annotate_runs_during_a_crawl(store: DocumentStore) -> None:
    def crawl() -> None:
        for number in range(300):
            put(store, f"{URL}{number % 200}", " ".join(words(number, 60)), at=number)

    thread = threading.Thread(target=crawl)
    thread.start()
    written = 0
    while thread.is_alive():
        written += annotate(store, counted([])).written
    thread.join()
    last = annotate(store, counted([]))
    assert (last.captures, last.failed, written + last.written) == (300, 0, 300)
    notes = [cell for row in store.cells.scan(spec=ReadSpec(("note",))) for cell in row.cells]
    assert len(notes) == 300 and {decode_note(cell.value)["words"] for cell in notes} == {60}
    assert list(check(store.backend)) == []


def test_a_page_for_which_an_annotator_fails_is_tried_again(store: DocumentStore) -> None:
    seen: list[str] = []
    for name in ("a", "bad", "c"):
        put(store, URL + name, " ".join(words(len(name), 60)))
    report = annotate(store, counted(seen))
    assert (report.written, report.failed, report.error) == (2, 1, f"{URL}bad: ValueError: no such page")
    seen.clear()
    assert annotate(store, counted(seen)).failed == 1 and seen == [f"{URL}bad 0"]


def test_annotators_are_loaded_from_python_and_others_refused(
    run: Terminal, store: DocumentStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "annotators_here.py").write_text(
        "def length(document):\n    return {'length': len(document.text)}\nlength.version = 7\nnothing = 3\n"
        "def size(document):\n    return {'size': len(document.body)}\nsize.families = ('page',)\n"
        "def wrong(document):\n    return {}\nwrong.families = 'page'\n"
    )
    monkeypatch.chdir(tmp_path)
    put(store, URL, "one two three")
    store.close()
    answer = run("annotate", "--python", "annotators_here:length", "--json").object()
    assert (answer["name"], answer["version"], answer["written"]) == ("length", "7", 1)
    assert decode_note(run("get", URL, "--column", "note:length").out.encode()) == {"version": "7", "length": 13}
    assert run("annotate", "--python", "annotators_here:length").out.startswith("length: 0 notes")
    answer = run("annotate", "--python", "annotators_here:size", "--json").object()
    assert (answer["written"], answer["failed"]) == (1, 0), "families say what it reads"
    for path in ("annotators_here:wrong", "annotators_here:nothing", "annotators_here:none", "no_such_module:x", "x"):
        with pytest.raises(InvalidArgument):
            load_annotator(path)
    assert "there are domain, entities" in run("annotate", "no_such").err
    assert run("annotate").code == 2 and run("annotate", "lang", "--list", "a=b").code == 2
    assert run("annotate", "entities").code == 2


# --- texts


def test_lang_detects_the_language_and_scan_filters_by_it(run: Terminal, store: DocumentStore) -> None:
    pytest.importorskip("py3langid", reason="needs the extra docstore[lang]")
    texts = {
        "bn": "বাংলাদেশ দক্ষিণ এশিয়ার একটি সার্বভৌম রাষ্ট্র। দেশটির রাজধানী ও বৃহত্তম শহর ঢাকা।",
        "hi": "भारत दक्षिण एशिया में स्थित एक देश है और इसकी राजधानी नई दिल्ली है।",
        "ko": "대한민국은 동아시아의 한반도 남부에 있는 나라이며 수도는 서울이다.",
        "zh": "中国的首都是北京,它有三千多年的历史,是一座美丽的城市。",
        "ar": "القاهرة هي عاصمة جمهورية مصر العربية وأكبر مدنها من حيث عدد السكان.",
        "en": "The capital of the United Kingdom is London, which stands on the river Thames.",
        "de": "Die Hauptstadt der Bundesrepublik Deutschland ist Berlin, das an der Spree liegt.",
    }
    for lang, text in texts.items():
        put(store, URL + lang, f'<html lang="en"><title></title><p>{text}</p>')
    put(store, URL + "image", "<html lang='de'><img src=x>")
    assert annotate(store, find_annotator("lang", store, {})).written == 8
    for lang in texts:
        note = decode_note(notes_of(store, URL + lang, "lang")[0])
        assert note["lang"] == lang and 0.5 < note["score"] <= 1
    store.close()
    assert run("scan", "--lang", "en", "--keys-only").out.split() == [URL + "en"]
    assert run("scan", "--lang", "de", "--keys-only").out.split() == [URL + "de", URL + "image"]  # as it declares
    found = run("export", "--lang", "bn", "--format", "jsonl").objects()
    assert [one["url"] for one in found] == [URL + "bn"]
    assert run("scan", "--lang", "fi").code == 1


def test_key_phrases_are_terms_that_occur_together() -> None:
    filler = [f"{a}{b}" for a in "aeiou" for b in "nst"] + ["the", "on", "at"]
    lines = []
    for number in range(30):
        company = "solar power plant" if number % 3 == 0 else f"river {filler[number % 7]} water"
        near = "mirror tower" if number % 3 == 0 else "boat bridge"
        lines.append(f"{filler[number % 18]} {company} {filler[(number + 5) % 18]} {near} the {filler[number % 5]}.")
    found = [phrase for phrase, _ in key_phrases(" ".join(lines), frozenset(filler))]
    assert {"solar power plant", "mirror tower"} <= set(found) and not set(filler) & set(found)
    assert key_phrases("one two three", frozenset()) == [] and key_phrases("", frozenset()) == []
    text = (
        "".join(f"人工智能改变{'甲乙丙丁'[n % 4]}城。天气{'东西南北'[n % 4]}很好。" for n in range(8))
        + "人工智能和天气。"
    )
    found = [phrase for phrase, _ in key_phrases(text, frozenset(["很", "好"]))]
    assert found and all(" " not in phrase for phrase in found) and any("智能" in phrase for phrase in found)


def test_stop_words_are_the_most_frequent_of_each_language_in_the_store(store: DocumentStore) -> None:
    for number in range(12):
        put(store, f"{URL}en/{number}", f'<html lang="en-GB"><p>the {" ".join(words(number, 80))} the of</p>')
        put(store, f"{URL}xx/{number}", f'<html lang="xx"><p>zur {" ".join(words(50 + number, 80))} zur der</p>')
    found = stop_words(store)
    assert {"the", "of"} <= found["en"] and not {"zur", "der"} & found["en"]
    assert {"zur", "der"} <= found["xx"] and {"the", "zur"} <= found[""]
    report = annotate(store, find_annotator("keyphrases", store, {}))
    assert (report.written, report.failed) == (24, 0)


@pytest.mark.parametrize(
    ("stop", "phrase"),
    [
        ("এবং তারা তাদের", "নদী সেতু"),
        ("और उनके लिए", "नदी पुल"),
        ("그리고 그러나 우리", "강 다리"),
        ("هذه التي على", "نهر جسر"),
    ],
    ids=["Bengali", "Hindi", "Korean", "Arabic"],
)
def test_listed_stop_words_bound_no_key_phrase(store: DocumentStore, stop: str, phrase: str) -> None:
    first, second, third = stop.split()
    filler = [f"{a}{b}" for a in "aeiou" for b in "nst"]
    lines = []
    for number in range(30):
        subject = f"{second} {phrase} {third}" if number % 3 == 0 else f"river {filler[number % 7]} water"
        near = f"mirror {first}" if number % 3 == 0 else "boat bridge"
        lines.append(f"{filler[number % 13]} {subject} {filler[(number + 5) % 13]} {near} {filler[number % 5]}.")
    put(store, URL, "One page, which has none of these words.")
    found = [words for words, _ in key_phrases(" ".join(lines), stop_words(store)[""] | {*filler})]
    assert phrase in found and not {*stop.split()} & {word for words in found for word in words.split()}


@pytest.mark.parametrize(
    ("lang", "text", "stop", "phrase"),
    [
        (
            "en",
            "The windmill of a river and the wheel of the windmill is by a river.",
            "the of and is by a",
            "windmill",
        ),
        ("", "Die Mühle an dem Fluss und das Rad der Mühle sind an dem Fluss.", "die der das und an dem", "mühle"),
        ("fr", "Le moulin de la rivière et la roue du moulin sont dans la rivière.", "le la de du et dans", "moulin"),
        ("ru", "Мельница на реке и колесо у мельницы, а мельница не на реке.", "на и у не а", "мельница"),
        ("", "El molino de la aldea y la rueda del molino son de la aldea.", "el la de del y son", "molino"),
    ],
)
def test_key_phrases_of_a_store_of_one_page_are_its_subjects_and_no_stop_words(
    store: DocumentStore, lang: str, text: str, stop: str, phrase: str
) -> None:
    others = (text, f"{phrase} {' '.join(words(98, 3))}.", f"{' '.join(words(99, 4))}.")
    lines = " ".join(f"{others[n % 3]} {' '.join(words(n, 9))}." for n in range(18))
    put(store, URL, f"<html lang='{lang}'><p>{lines}</p>")
    annotate(store, find_annotator("keyphrases", store, {}))
    note = decode_note(notes_of(store)[0])
    found = [phrase.split() for phrase, _ in note["phrases"]]
    assert phrase in {word for words in found for word in words}
    assert not {*stop.split()} & {word for words in found for word in (words[0], words[-1])}


def test_no_japanese_phrase_is_a_piece_of_a_word() -> None:
    pieces = "コンピュータの情報処理を学ぶ。新しいﾕｰｻﾞｰが登録を繰り返した。"
    pieces += "サーバーの情報処理とコンピュータ。水車の登録している。"
    text = "".join(
        f"{pieces}{word}が{word}で見る。" for word in ("山川", "石橋", "森林", "田畑", "海岸", "湖水") for _ in range(2)
    )
    found = [phrase for phrase, _ in key_phrases(text, frozenset())]
    whole = {
        "コンピュータ",
        "情報処理",
        "ユーザー",
        "登録",
        "サーバー",
        "水車",
        "山川",
        "石橋",
        "森林",
        "田畑",
        "海岸",
        "湖水",
    }
    assert {"コンピュータ", "情報処理"} & {part for phrase in found for part in re.split("[ぁ-ん]+", phrase)}
    for phrase in found:
        assert {part for part in re.split("[ぁ-ん]+", phrase) if len(part) > 1} <= whole, found
        assert phrase.startswith(tuple(whole)) and phrase.endswith(tuple(whole)), found


def test_entities_are_the_longest_names_of_the_lists(store: DocumentStore, tmp_path: Path) -> None:
    cities = tmp_path / "cities"
    cities.write_text("# cities\nNew York\n\nNew York City\nঢাকা\n서울\n北京\nनई दिल्ली\nYork\n", encoding="utf-8")
    put(store, URL, "In new york city, not New-York nor York: ঢাকা, नई दिल्ली, 我爱北京 and ঢাকা. 서울")
    annotator = find_annotator("entities", store, {"city": cities})
    assert annotate(store, annotator).written == 1
    found = decode_note(notes_of(store)[0])["city"]
    assert [(name, count) for name, count, _ in found] == [
        ("ঢাকা", 2), ("New York City", 1), ("New York", 1), ("York", 1), ("नई दिल्ली", 1), ("北京", 1), ("서울", 1),
    ]  # fmt: skip
    assert found[1][2] == 3  # the title's two words, and "In"
    cities.write_text("York\n", encoding="utf-8")
    changed = find_annotator("entities", store, {"city": cities})
    assert changed.version != annotator.version and annotate(store, changed).written == 1
    assert entity_finder(["", "a b"])(["a", "a", "b"]) == [["a b", 1, 1]]


PORT = """Oslo harbour ferries reach Oslo harbour. Green ferries visit Oslo harbour towers.
Ibsen wrote plays. Ibsen wrote letters. Bergen rains often. Ibsen walked north."""
"""Mean frequencies of words: 15/6, 11/6, 2, 2, 1, 5/3; so the first and the third sentence are the top third."""
OSLO = {"list": "place", "name": "Oslo", "F": 0.333, "PR": 0.5, "POS": 0.75, "content_score": 1.583}
IBSEN = {"list": "person", "name": "Ibsen", "F": 0.5, "PR": 0.5, "POS": 1.0, "content_score": 2.0}


@pytest.mark.parametrize(
    ("path", "title", "description", "link", "focus"),
    [
        ("", "Oslo by sea", "", "", OSLO),
        ("", "Ports", "of oslo", "", OSLO),
        ("visit_oslo_now", "Ports", "", "", OSLO),
        ("", "Ports", "", "to Oslo", OSLO),
        ("", "Bergen, Oslo and Ibsen", "", "", OSLO),  # in more sentences than Bergen; Ibsen is in the second list
        ("", "Ibsen", "and Tromso", "", IBSEN),  # no sentence has the place
        ("", "Osloer ports", "", "", None),
        ("", "Tromso", "", "", None),
    ],
)
def test_the_focus_of_a_page_is_an_entity_of_its_head_with_its_support_by_the_text(
    store: DocumentStore, tmp_path: Path, path: str, title: str, description: str, link: str, focus: Any
) -> None:
    (tmp_path / "places").write_text("Bergen\nOslo\nTromso\n")
    (tmp_path / "persons").write_text("Ibsen\n")
    lists = {"place": tmp_path / "places", "person": tmp_path / "persons"}
    url = URL + path
    put(store, url, f"<html lang=en><title>{title}</title><meta name=description content='{description}'><p>{PORT}</p>")
    store.add_anchor(url, "https://b.example/", link or "a page")
    assert annotate(store, find_annotator("entities", store, lists)).written == 1
    found = decode_note(notes_of(store, url)[0])
    assert found.get("focus") == focus
    assert found["person"][0][0] == "Ibsen"


def test_the_first_list_comes_first_and_no_list_is_called_focus(store: DocumentStore, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("Oslo\n")
    (tmp_path / "b").write_text("Ibsen\n")
    lists = {"place": tmp_path / "a", "person": tmp_path / "b"}
    put(store, URL, f"<html lang=en><title>Oslo and Ibsen</title><p>{PORT}</p>")
    for order, focus in ((("place", "person"), OSLO), (("person", "place"), IBSEN)):
        annotator = find_annotator("entities", store, {name: lists[name] for name in order})
        assert annotate(store, annotator).written == 1
        assert decode_note(notes_of(store)[0])["focus"] == focus
    with pytest.raises(InvalidArgument, match="not called focus"):
        find_annotator("entities", store, {"focus": tmp_path / "a"})


def test_an_outline_is_cut_at_the_headings_of_the_page(run: Terminal, store: DocumentStore) -> None:
    text = "Contents\nFirst\nSecond\nIntro\nFirst\nabout first\nmore\nSecond ¶\nabout Second\nFirst"
    assert outline_of(text, "First\nSecond¶\nAbsent") == [
        Section("", "Contents\nFirst\nSecond\nIntro"),
        Section("First", "about first\nmore"),
        Section("Second ¶", "about Second\nFirst"),
    ]
    assert outline_of("no headings\nhere", "") == [Section("", "no headings\nhere")]
    assert outline_of("", "x") == [Section("", "")]
    parts = "".join(f"<h2>Part {n}</h2><p>{' '.join(words(n, 60))}.</p>" for n in range(3))
    put(store, URL, f"<html><title>T</title><body><p>{' '.join(words(9, 60))}.</p>{parts}</body></html>")
    store.close()
    found = run("get", URL, "--outline", "--json").object()["outline"]
    assert [one["heading"] for one in found] == ["", "Part 0", "Part 1", "Part 2"]
    assert found[2]["text"] == " ".join(words(1, 60)) + "."
    assert "## Part 1\n" in run("get", URL, "--outline").out


# --- links


def linked(store: Any, url: str, *targets: str) -> None:
    anchors = "".join(f'<a href="{target}">to {target}</a> ' for target in targets)
    put(
        store,
        url,
        f"<html><title>{url}</title><body><p>{' '.join(words(len(url), 40))}</p>{anchors}</body>",
        anchors=True,
    )


def test_links_become_ranks_and_in_links(store: DocumentStore) -> None:
    linked(store, URL, URL + "b", "https://hub.example/")
    linked(store, URL + "b", "https://hub.example/", URL)
    linked(store, "https://c.example/", "https://hub.example/")
    linked(store, "https://hub.example/", "https://hub.example/")  # a link to itself counts nothing
    report = annotate(store, find_annotator("links", store, {}))
    assert report.written == 4
    note = {url: decode_note(notes_of(store, url)[0]) for url in (URL, URL + "b", "https://hub.example/")}
    assert (note["https://hub.example/"]["inlinks"], note["https://hub.example/"]["internal"]) == (3, 0)
    assert (note[URL]["inlinks"], note[URL]["internal"]) == (0, 1)
    assert note["https://hub.example/"]["authority"] == 1 and note[URL]["hub"] > note[URL + "b"]["authority"]
    graph = read_graph(store)
    ranks = dict(zip(graph.urls, graph.ranks().tolist(), strict=True))
    assert sum(ranks.values()) == pytest.approx(4) and max(ranks, key=lambda url: ranks[url]) == "https://hub.example/"
    # Each page's rank follows from those of the pages that link to it; a page without links gives its rank to all.
    kept = 0.15 + 0.85 * ranks["https://hub.example/"] / 4
    assert ranks["https://c.example/"] == pytest.approx(kept)
    assert ranks[URL + "b"] == pytest.approx(kept + 0.85 * ranks[URL] / 2)
    assert annotate(store, find_annotator("links", store, {})).written == 0
    weights = {one.host: one.weight for one in host_table(graph)}
    assert sum(weights.values()) == pytest.approx(3, abs=0.02) and weights["c.example"] < weights["a.example"]


def test_the_frontier_has_targets_of_links_and_site_maps_that_are_not_stored(
    run: Terminal, store: DocumentStore
) -> None:
    linked(store, URL, "https://new.example/1", URL + "here", URL + "missing")
    linked(store, "https://b.example/", "https://new.example/1", "https://rejected.example/")
    linked(store, "https://c.example/", "https://new.example/1", "https://new.example/2")
    for at, url in enumerate((URL + "first", "https://rejected.example/")):
        put(store, url, " ".join(words(7, 90)), at=at, policies={"exact": "reject-any"})
    assert [url for url, _, _ in store.rejected()] == ["https://rejected.example/"]
    entries = "".join(
        f"<url><loc>{URL}{name}</loc><lastmod>2024-0{month}-02</lastmod></url>"
        for month, name in enumerate(("first", "listed"), 1)
    )
    site_map = f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'
    store.put_page(URL + "map.xml", site_map.encode(), headers=(("Content-Type", "application/xml"),), fetched_at=T0)
    graph = read_graph(store, entries=True)
    found = list(frontier(graph))
    assert found[0].url == "https://new.example/1" and found[0].inlinks == 3
    assert {one.url for one in found} == {
        "https://new.example/1", "https://new.example/2", URL + "here", URL + "missing", URL + "listed",
    }  # fmt: skip
    [listed] = [one for one in found if one.url == URL + "listed"]
    assert (listed.listed, listed.internal, listed.published[:7]) == (1, 1, "2024-02")
    by_host = [one.host for one in frontier(graph, "host")]
    assert by_host == sorted(by_host, key=by_host.index) and len(set(by_host)) == 2
    assert next(frontier(graph, "inlinks")).url == "https://new.example/1"
    with pytest.raises(InvalidArgument):
        next(frontier(graph, "size"))
    store.close()
    lines = run("frontier").out.split()
    assert lines == [one.url for one in found]
    assert (
        run("frontier", "--host", "a.example", "--limit", "1").out.split()
        == [one.url for one in found if one.host == "a.example"][:1]
    )
    assert run("frontier", "--json").objects()[0]["rank"] == found[0].rank
    hosts = {one["host"]: one for one in run("frontier", "--hosts", "--json").objects()}
    assert (hosts["new.example"]["stored"], hosts["new.example"]["targets"]) == (0, 2)
    assert run("frontier", "--hosts", "--by", "host").code == 2
    assert run("frontier", "--host", "none.example").code == 1


def test_the_frontier_leaves_out_traps_redirects_and_links_that_are_not_followed(
    run: Terminal, store: DocumentStore
) -> None:
    def copy(text: int) -> str:
        return f"<html><title>Story</title><body><p>{' '.join(words(text, 90))}</p></body>"

    good = [URL + name for name in ("story/9", "view?page=9", "other?sid=3", "both", "calendar/about")]
    traps = [URL + name for name in ("calendar/2031-07", "view?page=1&sid=77", "other?sid=4")]
    for month in range(1, 9):
        put(store, f"{URL}calendar/2024-0{month}", copy(1))
    for page_number, sid in ((1, ""), (1, "&sid=5"), (1, "&sid=6"), (2, ""), (2, "&sid=5")):
        put(store, f"{URL}view?page={page_number}{sid}", copy(page_number + 10))
    put(store, URL + "story/1", copy(30))
    put(store, URL + "story/2", copy(31))
    anchors = {"anchors": True}
    links = "".join(f'<a href="{url}">link</a>' for url in (URL + "both", URL + "only-from-a-copy"))
    put(store, "https://a.example/lists/a", copy(40).replace("</body>", links), at=0)
    put(store, "https://a.example/lists/b", copy(40).replace("</body>", links), at=1, **anchors)
    store.cells.apply("urn:docstore:links:a.example", [SetCell("anchor", b"links:/lists/", T0, b"closed")])
    linked(store, "https://hub.example/", *good, *traps, URL + "moved")
    store.put_page(URL + "moved", b"", status=301, headers=(("Location", URL),), fetched_at=T0)
    store.close()
    assert set(run("frontier").out.split()) == set(good)
    everything = {*good, *traps, URL + "moved", URL + "only-from-a-copy"}
    assert set(run("frontier", "--all").out.split()) == everything


def test_a_class_is_learned_from_folders_of_examples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn", reason="the extra docstore[classify] is not installed")
    kinds = {
        "kitchen": "Boil the rice, fry the onions and season the soup with salt and pepper.",
        "harbour": "The ship left the dock at high tide and the sailors hoisted the sail.",
    }
    examples = tmp_path / "kinds"
    for kind, text in kinds.items():
        (examples / kind).mkdir(parents=True)
        (examples / kind / "1.txt").write_text(text)
        (examples / kind / "2.html").write_text(f"<title>{kind}</title><p>{text.lower()}")
    terminal = Terminal(tmp_path / "s", capsys)
    with docstore.open(tmp_path / "s", create=True) as store:
        store.put_page("https://a.example/soup", b"<p>Season the soup, then boil onions.", headers=HTML)
        store.put_page("https://a.example/tide", b"<p>At high tide sailors wait on a ship.", headers=HTML)
        store.put_page("https://a.example/empty", b"<img src=x>", headers=HTML)
    assert terminal("annotate", "domain", "--examples", str(examples), "--json").object()["written"] == 3
    for name, kind in (("soup", "kitchen"), ("tide", "harbour")):
        note = terminal("get", f"https://a.example/{name}", "--column", "note:domain", "--json").out
        assert f'"domain": "{kind}"' in note.replace("\\", "")
    assert terminal("annotate", "domain", "--examples", str(examples), "--json").object()["written"] == 0
    (examples / "harbour" / "3.txt").write_text("A dock for fishing boats.")
    assert terminal("annotate", "domain", "--examples", str(examples), "--json").object()["written"] == 3
    assert terminal("annotate", "domain").code == terminal("annotate", "links", "--examples", str(examples)).code == 2
    refused = terminal("annotate", "domain", "--examples", str(examples / "harbour"))
    assert refused.code == 2 and "two folders or more" in refused.err
