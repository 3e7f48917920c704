"""The quality figures of texts, the published choices, and exports by notes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import docstore
from docstore.archives.export import pages
from docstore.archives.selection import QUALITY_PRESETS as PRESETS
from docstore.archives.selection import NoteCondition, Selection
from docstore.model import choices
from docstore.model.errors import InvalidArgument
from docstore.notes.annotate import annotate, find_annotator
from docstore.notes.quality import figures
from docstore.store import DocumentStore
from tests.cli_case import Terminal

PROSE = "\n".join(
    f"The pony of farm number {n} likes to eat oats, and that is what the people of village {n * 7} have with them."
    for n in range(12)
)
HTML = {"Content-Type": "text/html"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("One two three.\nFour", {"words": 4, "lines": 2, "punctuated_lines": 0.5, "short_lines": 1.0}),
        ("a b a b a b", {"top_2_gram": 1.0, "repeated_5_grams": 0.0, "mean_word_length": 1.0}),
        ("a a a a", {"top_2_gram": 1.0}),
        ("same line\nsame line\nother", {"repeated_lines": 0.3333, "repeated_line_characters": 0.3913}),
        ("x y z v w x y z v w", {"repeated_5_grams": 0.5, "repeated_6_grams": 0.0}),
        ("- one\n* two\nthree...\nfour…", {"bullet_lines": 0.5, "ellipsis_lines": 0.5, "symbols_per_word": 0.5}),
        ("One is here. Two is here! (Three is here.)", {"sentences": 3, "c4_sentences": 3}),
        ("We use cookies for this and that.\nEnable javascript, please do it.", {"c4_sentences": 0, "sentences": 2}),
        ("Two words.", {"c4_sentences": 0}),
        ("if (x) { y }", {"curly_brackets": True, "lorem_ipsum": False}),
        ("Lorem Ipsum dolor", {"lorem_ipsum": True}),
        ("Привет, мир", {"scripts": {"cyrillic": 1.0}}),
        ("今天天气很好。我们去公园。", {"sentences": 2, "punctuated_lines": 1.0}),
        ("1 2 3 four", {"alphabetic_words": 0.25}),
        ("the cat and the dog", {"stop_words": 2, "stop_word_share": 0.6}),
    ],
)
def test_figures_of_a_text(text: str, wanted: dict[str, object]) -> None:
    found = figures(text)
    assert {name: found[name] for name in wanted} == wanted


def test_stop_words_are_those_of_the_language() -> None:
    text = "der Hund und die Katze sind nicht in dem Haus"
    assert figures(text, "de-AT")["stop_words"] >= 6
    assert figures(text, "en")["stop_words"] == 0


@pytest.mark.parametrize(
    ("condition", "note", "holds"),
    [
        ("q.words >= 20", {"words": 20}, True),
        ("q.words>20", {"words": 20}, False),
        ("q.share < 0.5", {"share": 0}, True),
        ("q.name = en", {"name": "en"}, True),
        ('q.name != "en"', {"name": "de"}, True),
        ("q.name != en", {}, False),
        ("q.flag = false", {"flag": False}, True),
        ("q.words > 1", {"words": "2"}, False),
        ("q.words > 1", {"words": [2]}, False),
        ("q.list > [1]", {"list": [2]}, True),
        ("q.list > {}", {"list": {}}, False),
    ],
)
def test_a_condition_on_a_note(condition: str, note: dict[str, object], holds: bool) -> None:
    assert NoteCondition.parse(condition).holds(note) is holds


@pytest.mark.parametrize("condition", ["", "words > 2", "q.words", "q.words >", "q.words >> 2", "q.words == 2"])
def test_a_condition_of_another_form_is_refused(condition: str) -> None:
    with pytest.raises(InvalidArgument, match=r"NOTE\.FIELD SIGN VALUE"):
        Selection(where=(condition,))


CHINESE = (
    "我们今天去公园散步，看见很多人在湖边钓鱼。天气非常好，太阳照在水面上，闪闪发光。\n"
    "孩子们在草地上跑来跑去，老人坐在树下聊天。我觉得这样的生活很幸福。\n"
    "下午我们参观了城里的博物馆，那里有一百多年前的书和地图，还可以自己学习印刷。\n"
    "晚上回到家以后，母亲做了一桌好菜，大家一边吃饭一边谈论白天的见闻。"
)
JAPANESE = (
    "昨日は友達と一緒に山へ行きました。頂上からは海が見えて、とても美しかったです。\n"
    "帰りに小さな店でお茶を飲み、店の人から村の歴史について話を聞きました。\n"
    "その村では昔から紙を作っていて、今でも三つの家が同じ方法で仕事を続けています。\n"
    "また来年の春に訪れたいと思います。桜が咲くころが一番よいそうです。"
)
THAI = (
    "วันนี้เราไปเดินเล่นที่สวนสาธารณะและเห็นคนจำนวนมากกำลังตกปลาอยู่ริมทะเลสาบ\n"
    "อากาศดีมาก แสงแดดส่องลงบนผิวน้ำเป็นประกาย เด็กๆ วิ่งเล่นบนสนามหญ้า\n"
    "คนชรานั่งคุยกันใต้ต้นไม้ ฉันรู้สึกว่าชีวิตแบบนี้มีความสุขมาก"
)


@pytest.mark.parametrize("text", [CHINESE, JAPANESE, THAI], ids=["zh", "ja", "th"])
@pytest.mark.parametrize("declared", ["", "en"])
def test_presets_keep_texts_in_scripts_without_blanks(text: str, declared: str) -> None:
    note = figures(text, declared)
    assert note["unspaced_words"] > 0.9 and note["stop_words"] >= 2
    for name in ("gopher", "fineweb"):
        failed = [
            some for some in PRESETS[name] if not any(one.holds(note) for one in NoteCondition.alternatives(some))
        ]
        assert failed == [], name
        junk = figures("\n".join([text[:25]] * 40), declared)
        assert not all(any(one.holds(junk) for one in NoteCondition.alternatives(some)) for some in PRESETS[name])


LAO = "ມື້ນີ້ພວກເຮົາໄປຍ່າງຫຼິ້ນຢູ່ສວນສາທາລະນະ ແລະເຫັນຄົນຈຳນວນຫຼາຍກຳລັງຕຶກປາຢູ່ແຄມໜອງ"
AMHARIC = "ዛሬ ወደ መናፈሻ ሄድን እና ብዙ ሰዎች ዓሣ ሲያጠምዱ አየን።"
ARMENIAN = "Այսօր մենք գնացինք այգի և տեսանք շատ մարդկանց։"


@pytest.mark.parametrize("text", [THAI, LAO], ids=["th", "lo"])
def test_c4_judges_scripts_without_punctuation_by_the_long_lines_of_mc4(text: str) -> None:
    line = " ".join(text.split("\n") * 3)
    for lines, keeps in ((3, True), (2, False)):
        note = figures("\n".join([line] * lines + [line[:150]] * 3))
        assert note["long_lines"] == lines and note["c4_sentences"] == 0
        held = [any(one.holds(note) for one in NoteCondition.alternatives(some)) for some in PRESETS["c4"]]
        assert all(held) is keeps
    note = figures("\n".join(["no sentence ends here, but it goes on and on, " * 6] * 4))
    assert note["long_lines"] == 4  # which is no reason for another script
    assert not all(any(one.holds(note) for one in NoteCondition.alternatives(some)) for some in PRESETS["c4"])


@pytest.mark.parametrize("sentence", [AMHARIC, ARMENIAN], ids=["am", "hy"])
def test_sentences_of_other_scripts_end_with_their_own_signs(sentence: str) -> None:
    note = figures("\n".join([sentence] * 5))
    assert (note["c4_sentences"], note["punctuated_lines"]) == (5, 1.0)


def test_a_language_without_a_list_is_not_asked_for_stop_words() -> None:
    found = figures("Ɛnnɛ yɛbɛkɔ turom na yɛakɔhwɛ nnipa pii", "ak")
    assert found["has_stop_words"] is False
    [wanted] = [some for some in PRESETS["gopher"] if "stop_words" in some]
    assert any(one.holds(found) for one in NoteCondition.alternatives(wanted))


def test_an_outline_has_its_stop_words_by_the_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(tmp_path / "s", capsys)
    about = ("Der Ofen und die Kohle sind in dem Keller", "Die Rosen und der Garten sind vor dem Haus", "Es regnet oft")
    text = "".join(f"<p>{about[n % 3]}, und das ist so im Jahr {n}." for n in range(30))
    with docstore.open(tmp_path / "s", create=True) as store:
        store.put_page("https://a.example/", f"<html lang=en><h1>Heizen</h1>{text}".encode(), headers=HTML)
        [timestamp] = [one.timestamp for one in store.get("https://a.example/").captures]
        note = docstore.Note("https://a.example/", timestamp, "lang", b'{"lang": "de"}')
        store.cells.put_notes([note])
    topics = terminal("get", "https://a.example/", "--outline", "--json").object()["outline"][0]["topic"]
    assert topics and not {"der", "und", "die", "in", "ist"} & {word for topic in topics for word in topic.split()}


def test_presets_keep_prose_and_drop_junk() -> None:
    good = figures(PROSE.replace("pony", "horse", 3))
    for name, conditions in PRESETS.items():
        parsed = [NoteCondition.alternatives(condition) for condition in conditions]
        assert {one.field.partition(".")[0] for some in parsed for one in some} <= good.keys()
        dropped_by = [some for some in parsed if not any(one.holds(good) for one in some)]
        assert all("gram" in some[0].field for some in dropped_by), (name, dropped_by)
        for junk in ("buy now\n" * 50, "# " * 80, "short"):
            assert not all(any(one.holds(figures(junk)) for one in some) for some in parsed), (name, junk)
    assert tuple(PRESETS) == choices.QUALITY_PRESETS


def test_an_export_takes_pages_by_their_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s"
    terminal = Terminal(path, capsys)
    links = " ".join(f"<a href='/{n}'>link number {n}</a>" for n in range(40))
    with docstore.open(path, create=True) as store:
        story = "".join(f"<p>{line}</p>" for line in PROSE.split("\n"))
        store.put_page("https://a.example/prose", f"<h1>Ponies</h1>{story}".encode(), headers=HTML)
        store.put_page("https://a.example/links", f"<p>Pages of this site: {links}".encode(), headers=HTML)
        annotate(store, find_annotator("quality", store, {}))
        notes = {
            row.url: json.loads(row.cells[0].value)
            for row in store.cells.scan(spec=docstore.ReadSpec(("note",), b"quality", versions=1))
        }
        assert notes["https://a.example/prose"]["link_density"] == 0.0
        assert notes["https://a.example/links"]["link_density"] > 0.8
        found = [page.url for page in pages(store, Selection(where=("quality.link_density < 0.5",)))]
        assert found == ["https://a.example/prose"]
        assert [page.url for page in pages(store, Selection(where=("quality.words > 1", "none.x = 1")))] == []
    run = terminal("export", "--format", "jsonl", "--quality", "c4")
    assert [json.loads(line)["url"] for line in run.out.splitlines()] == ["https://a.example/prose"]
    refused = terminal("export", "--format", "warc", "--drop-repeated-lines")
    assert refused.code == 2 and "--format jsonl or parquet" in refused.err


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("quality.wrds > 2", r"no page has the field quality\.wrds; the note quality has .*words"),
        ("quality.words > many", r'quality\.words is a number, such as 4; it cannot be compared with a string, "many"'),
        ("quality.scripts.latn > 0", r"no page has the field quality\.scripts\.latn"),
        ("quality.lorem_ipsum = 0", r"quality\.lorem_ipsum is true or false, such as false"),
    ],
)
def test_a_wrong_field_or_type_is_named(
    store: DocumentStore, caplog: pytest.LogCaptureFixture, condition: str, reason: str
) -> None:
    store.put_page("https://a.example/", b"Four words are here.", headers={"Content-Type": "text/plain"})
    assert list(pages(store, Selection(where=(condition,)))) == []  # no note yet
    annotate(store, find_annotator("quality", store, {}))
    with pytest.raises(InvalidArgument, match=reason):
        list(pages(store, Selection(where=(condition,))))
    for fitting in ("quality.words > 9", "quality.scripts.latin < 1"):
        assert list(pages(store, Selection(where=(fitting,)))) == []
    [page] = pages(store, Selection(where=(f"{condition} or quality.scripts.latin = 1",)))
    assert page.text
    is_script = "scripts" in condition  # that no page has the script is no wrong name
    assert bool(re.search(reason, caplog.text)) is not is_script


def test_or_between_conditions_may_be_in_capitals() -> None:
    first, second = NoteCondition.alternatives("quality.words > 2 OR quality.lorem_ipsum = true")
    assert (first.name, first.value, second.name) == ("quality.words", 2, "quality.lorem_ipsum")


def test_repeated_lines_of_a_host_are_exported_once(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True) as store:
        for host, name in (("a.example", "one"), ("a.example", "two"), ("b.example", "one")):
            body = f"Sign up for the letter of this site today.\nThis line is of {name} alone.".encode()
            store.put_page(f"https://{host}/{name}", body, headers={"Content-Type": "text/plain"})
        texts = {page.url: page.text for page in pages(store, Selection(drop_repeated_lines="host"))}
    assert texts == {
        "https://a.example/one": "Sign up for the letter of this site today.\nThis line is of one alone.",
        "https://a.example/two": "This line is of two alone.",
        "https://b.example/one": "Sign up for the letter of this site today.\nThis line is of one alone.",
    }


def test_lines_of_a_page_that_is_not_selected_stay(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True) as store:
        for name, status in (("a", 404), ("b", 200)):
            body = b"Sign up for the letter of this site today."
            store.put_page(f"https://a.example/{name}", body, headers={"Content-Type": "text/plain"}, status=status)
        texts = [page.text for page in pages(store, Selection(status=200, drop_repeated_lines="host"))]
    assert texts == ["Sign up for the letter of this site today."]
