"""Snippets: which passages are shown, how they are cut and marked, and what is read for them."""

from __future__ import annotations

import random
import time
import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from pages import page, words

import docstore
from docstore import InvalidArgument
from docstore.reading import snippet
from docstore.reading.snippet import SHORTEST_LENGTH, Passage, Snippet
from docstore.reading.snippet import escape as escape_html
from docstore.tablets.record import decode_record
from docstore.text.finding import LONGEST_CHARACTER, PlacedWords, is_boundary, search_text, terms

HTML = {"Content-Type": "text/html; charset=utf-8"}
URL = "https://a.example/page"


def passages(text: str, query: str, length: int = 200) -> tuple[Passage, ...]:
    return snippet.passages(PlacedWords(text), terms(query), length)


def lead(text: str, length: int) -> tuple[Passage, ...]:
    return snippet.lead(PlacedWords(text), (), length)


def marked(text: str, query: str, length: int = 200) -> str:
    """The snippet of a text, marks in brackets; "" where the query is not in it."""
    return Snippet("", "main", passages(text, query, length)).text("[", "]")


def filler(seed: int, sentences: int) -> str:
    chooser = random.Random(seed)
    return " ".join(" ".join(words(chooser.randrange(10**6), 8)).capitalize() + "." for _ in range(sentences))


# --- finding words


@pytest.mark.parametrize(
    ("query", "text", "shown"),
    [
        ("cafe", "Un Café noir.", "Un [Café] noir."),
        ("CAFÉ", "Un cafe noir.", "Un [cafe] noir."),
        ("cafe", "Un Cafe\u0301 noir.", "Un [Cafe\u0301] noir."),
        ("cafe\u0301", "Un Café noir.", "Un [Café] noir."),
        ("zolty", "Kolor Żółty jest.", "Kolor [Żółty] jest."),
        ("tieng viet", "Học Tiếng Việt nhanh.", "Học [Tiếng] [Việt] nhanh."),
        ("москва", "Это МОСКВА сегодня.", "Это [МОСКВА] сегодня."),
        ("еще", "Нужно Ещё время.", "Нужно [Ещё] время."),
        ("αθηνα", "Στην Αθήνα σήμερα.", "Στην [Αθήνα] σήμερα."),
        ("λόγος", "Ο ΛΟΓΟΣ του.", "Ο [ΛΟΓΟΣ] του."),
        ("strasse", "Die Lange Straße hier.", "Die Lange [Straße] hier."),
        ("straße", "Die LANGE STRASSE hier.", "Die LANGE [STRASSE] hier."),
        ("istanbul", "Gel İstanbul şehri.", "Gel [İstanbul] şehri."),
        ("abc", "Der ＡＢＣ Code.", "Der [ＡＢＣ] Code."),
        ("東京都", "私は東京都に住む。", "私は[東京都]に住む。"),
        ("天气", "今天天气很好。", "今天[天气]很好。"),
        ("インストール", "コマンドラインでインストールする。", "コマンドラインで[インストール]する。"),
        ("インストール", "コマンドラインで書く。", "コマンドラ[イン]で書く。"),
        ("ภาษาไทย", "เรียนภาษาไทยวันนี้", "เรียน[ภาษาไทย]วันนี้"),
        ("서울", "오늘 서울에서 만나요.", "오늘 [서울에서] 만나요."),
        ("학교", "우리 학교는 크고, 학교에 간다.", "우리 [학교는] 크고, [학교에] 간다."),
        ("집", "우리 집에 간다.", "우리 집에 간다."),
        ("लड़का", "यह लड़का है, वे लड़के हैं, लड़कों का घर।", "यह [लड़का] है, वे [लड़के] हैं, [लड़कों] का घर।"),
        ("किताब", "नई किताबें और पुरानी किताबों में।", "नई [किताबें] और पुरानी [किताबों] में।"),
        ("किताबें", "एक किताब थी।", "एक [किताब] थी।"),
        ("বই", "বইয়ের দোকান", "[বইয়ের] দোকান"),
        ("বাংলা", "বাংলার মাটি", "[বাংলার] মাটি"),
        ("हिन्दी", "यह हिन्दी भाषा है।", "यह [हिन्दी] भाषा है।"),
        ("عربي", "هذا نص عربي قصير.", "هذا نص [عربي] قصير."),
        ("tablet", "Two tablets, one table.", "Two [tablets], one table."),
        ("in", "A string in rain.", "A string [in] rain."),
        ("c++ 语言", "学习C++语言。", "学习[C]++[语言]。"),
        ("snake_case", "Use Snake_Case names.", "Use [Snake_Case] names."),
        ("donaudampf", "Der Do\xadnau\xaddampf kam.", "Der [Do\xadnau\xaddampf] kam."),
        ("office", "The head oﬃce moved.", "The head [oﬃce] moved."),
        ("xii", "See chapter Ⅻ now.", "See chapter [Ⅻ] now."),
        ("ガラス", "ｶﾞﾗｽの工場", "[ｶﾞﾗｽ]の工場"),
        ("ｶﾞﾗｽ", "ガラスの工場", "[ガラス]の工場"),
        ("학교", "새 \u1112\u1161\u11a8\u1100\u116d 앞", "새 [\u1112\u1161\u11a8\u1100\u116d] 앞"),
        ("পাহাড\u09bc", "একটি পাহা\u09dc আছে", "একটি [পাহা\u09dc] আছে"),
        ("ग\u093cज\u093cल", "वह \u095a\u095bल है", "वह [\u095a\u095bल] है"),
        ("स्थान", "मूल स्\u200dथान है", "मूल [स्\u200dथान] है"),
        ("کتابها", "هر روز کتاب\u200cها را", "هر روز [کتاب\u200cها] را"),
        ("हिंदी", "यह हिन्दी है", "यह [हिन्दी] है"),
        ("गाँव", "मेरा गांव दूर", "मेरा [गांव] दूर"),
        ("पंडित इन्टरनेट", "पण्डित का इंटरनेट", "[पण्डित] का [इंटरनेट]"),
        ("ghar घर", "घरों में", "[घरों] में"),
        ("বইটি", "বই পড়ি", "[বই] পড়ি"),
        ("মায়ের", "মা এলেন", "[মা] এলেন"),
        ("city", "Many cities here.", "Many [cities] here."),
        ("boxes", "One box, two boxes.", "One [box], two [boxes]."),
        ("news", "Something new.", "Something new."),
        ("hotels", "One hotel here.", "One [hotel] here."),
        ('"hotels"', "One hotel here.", "One hotel here."),
        ("“hotels” «two»", "Two hotels and one hotel.", "[Two] [hotels] and one hotel."),
        ("email", "Send an e-mail now.", "Send an [e-mail] now."),
        ("e-mail", "Send an email now.", "Send an [email] now."),
        ("U.S.A.", "In the USA now.", "In the [USA] now."),
        ("usa", "In the U.S.A. now.", "In the [U.S.A]. now."),
    ],
)
def test_case_and_accents_do_not_matter_in_any_script(query: str, text: str, shown: str) -> None:
    if "[" in shown:
        assert marked(text, query) == shown
    else:
        assert marked(text, query) == ""


def test_a_long_korean_word_is_found_by_its_beginning() -> None:
    assert marked("오늘 대한민국에서 만나요.", "대한민국") == "오늘 [대한민국에서] 만나요."


def test_every_letter_is_found_by_its_folded_form_and_by_itself() -> None:
    for point in [*range(0xC0, 0x250), *range(0x370, 0x530), *range(0x1E00, 0x2000), *range(0xFF10, 0xFF5B)]:
        letter = chr(point)
        is_cut = " " in search_text(f"x{letter}y") or "\u02bc" in unicodedata.normalize("NFKD", letter)
        if not letter.isalpha() or unicodedata.category(letter) == "Lm" or is_cut:
            continue
        for query in (letter, unicodedata.normalize("NFD", letter), letter.lower(), search_text(f"x{letter}y")[1:-1]):
            for other in ("", "ж", "“"):
                (term,) = terms(f"x{query}y")
                found = PlacedWords(f"{other} x{letter}y").find(term, 9)
                assert found == [(len(other) + 1, len(other) + 4, True)], (hex(point), query, other)


def test_a_text_has_the_words_of_the_index_at_ascending_places() -> None:
    chooser = random.Random(4)
    letters = [*"ab -.é国イ가েनि\u0301\u094d\u00ad\u200d\u3099ｶﾞ\ufb03\u2167\u1103\u1169", "👍", "🇫🇷", "\ud800"]
    for _ in range(500):
        text = "".join(chooser.choices(letters, k=chooser.randrange(30)))
        placed = PlacedWords(text).words()
        assert [word for word, _, _ in placed if word] == search_text(text).split()
        assert [start for _, start, _ in placed] == sorted(start for _, start, _ in placed)
        assert all(0 <= start < end <= len(text) for _, start, end in placed)
        for number, (word, start, end) in enumerate(placed):
            (term,) = terms(f'"{word}"') or (None,)
            if term is not None and term.text == word:
                matches = PlacedWords(text).find(term, 99)
                assert (start, end, True) in matches, (text, number)


# --- choosing passages


def test_the_passage_with_all_words_beats_those_with_one() -> None:
    text = f"Alpha stands here. {filler(1, 40)} Alpha meets beta now. {filler(2, 40)} Beta alone. {filler(3, 10)}"
    assert "[Alpha] meets [beta] now." in marked(text, "alpha beta")


def test_words_close_together_beat_words_far_apart() -> None:
    text = f"Alpha then {' '.join(words(5, 18))} beta. {filler(6, 30)} See alpha beta there. {filler(7, 10)}"
    assert "[alpha] [beta]" in marked(text, "alpha beta")


def test_words_too_far_apart_are_shown_in_passages_of_their_own() -> None:
    text = f"{filler(1, 20)} The alpha part. {filler(2, 30)} The beta part. {filler(3, 20)}"
    shown = marked(text, "alpha beta")
    assert "[alpha]" in shown and "[beta]" in shown and " … " in shown
    assert shown.index("[alpha]") < shown.index("[beta]")


def test_a_rare_word_weighs_more_than_a_frequent_one() -> None:
    text = f"{filler(1, 3)} {'The the thing of it. ' * 60} Zebra stands. {filler(2, 30)}"
    assert "[Zebra]" in marked(text, "the zebra of", 60)


def test_a_passage_begins_at_the_sentence_before_its_words() -> None:
    text = f"{filler(1, 20)} Here we say that alpha is near. {filler(2, 20)}"
    shown = marked(text, "alpha", 120)
    assert shown.startswith("Here we say that [alpha] is near.")


def test_a_cut_inside_a_sentence_shows_an_ellipsis() -> None:
    text = f"{' '.join(words(1, 200))} alpha {' '.join(words(2, 200))}"
    shown = marked(text, "alpha", 80)
    assert shown.startswith("…") and shown.endswith("…")
    assert marked("Only alpha.", "alpha") == "Only [alpha]."


@pytest.mark.parametrize(
    "sentence",
    [
        "It weighs approx. 500 grams with alpha.",
        "The letter of Dr. Smith names alpha.",
        "It is drawn in Fig. 3 and no. 12 with alpha.",
        "Tools, e.g. hammers, stand beside alpha.",
        "The book of J. R. Tolkien names alpha.",
        "Das Werk wird z. B. Anfang Mai von alpha besucht.",
        "Am 3. Mai kam alpha an.",
        "Le moulin de M. Dupont a vu alpha.",
        "डॉ. शर्मा ने alpha लिखा।",
        "The mill vs. the alpha is a case.",
    ],
)
def test_no_passage_begins_or_ends_behind_an_abbreviation(sentence: str) -> None:
    text = f"{filler(1, 20)} {sentence} {filler(2, 20)}"
    for length in range(50, 130, 10):
        shown = marked(text, "alpha", length).replace("[", "").replace("]", "")
        assert shown.startswith((sentence[: len(shown) - 1], "…")), shown
        assert shown.endswith("…") or any(f"{shown[-12:]} " in f"{whole} " for whole in (text,) if shown[-1] in ".।")
        for cut in ("approx.", "Dr.", "Fig.", "no.", "e.g.", "J.", "R.", "z.", "B.", "3.", "M.", "डॉ.", "vs."):
            assert not shown.endswith(cut)


def test_a_short_word_ends_a_sentence_if_a_capital_follows() -> None:
    text = f"{filler(1, 20)} They went to the sea. There alpha was seen. {filler(2, 20)}"
    assert marked(text, "alpha", 60).startswith("There [alpha] was seen.")


def test_block_ends_are_shown_as_blanks() -> None:
    assert marked("One alpha\ntwo", "alpha") == "One [alpha] two"


def test_length_and_boundaries_hold_on_random_text_of_every_script() -> None:
    clusters = [
        *"abcxyz  ,.\n",
        "é",
        "e\u0301",
        "ก",
        "กิ",
        "กำ",
        "国",
        "か\u3099",
        "👩\u200d👩\u200d👧",
        "🇫🇷",
        "क्षि",
        "각",
        "👍🏽",
        "。",
        "\u1112\u1161\u11ab",
    ]
    chooser = random.Random(11)
    for _ in range(400):
        pieces = chooser.choices(clusters, k=chooser.randrange(1, 400))
        text = "".join(pieces)
        ends = {0}
        for piece in pieces:
            ends.add(max(ends) + len(piece))
        length = chooser.randrange(SHORTEST_LENGTH, 120)
        query = "".join(chooser.choices(clusters, k=3)) + " " + chooser.choice(clusters)
        for shown in (passages(text, query, length), lead(text, length)):
            assert sum(len(passage.text) for passage in shown) <= length
            flat = text.replace("\n", " ")
            place = 0
            for passage in shown:
                place = flat.index(passage.text, place)
                assert is_boundary(text, place) and is_boundary(text, place + len(passage.text))
                assert list(passage.marks) == sorted(passage.marks)
                assert all(0 <= start < end <= len(passage.text) for start, end in passage.marks)
                assert all(first[1] < second[0] for first, second in pairwise(passage.marks))


def test_a_character_of_several_code_points_is_never_cut() -> None:
    for cluster in ("e\u0301", "กิ", "か\u3099", "👩\u200d👩\u200d👧", "🇫🇷", "क्षि", "👍🏽", "\u1112\u1161\u11ab", "กำ"):
        (passage,) = lead(cluster * 100, 50)
        assert len(passage.text) % len(cluster) == 0 and 0 < len(passage.text) <= 50


def test_a_cluster_longer_than_a_passage_is_shown_cut_rather_than_nothing() -> None:
    (passage,) = lead("a" + "\u0301" * 5000, 30)
    assert 0 < len(passage.text) <= 5001


def test_bad_queries_give_no_passage_and_no_error() -> None:
    for query in ("", "   ", "!?…", "\x00", "\ud800", "\u200b", "a" * 100_000):
        assert passages("Some text that stands here.", query) == ()


def test_a_length_too_short_is_refused(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "store", create=True) as store, pytest.raises(InvalidArgument, match="at least 20"):
        store.snippets([], "text", length=5)


def test_time_stays_linear_on_text_that_is_one_word_or_one_query_word() -> None:
    for text in ("ab" * 500_000, "ab " * 300_000, "国" * 300_000, "\n" * 500_000):
        began = time.process_time()
        passages(text, "ab 国国 abab")
        assert time.process_time() - began < 10


# --- how they look


def test_html_is_safe_and_marks_are_not_escaped() -> None:
    shown = Snippet("", "main", passages("if a<b & \"c\" then 'alpha' <script>", "alpha"))
    assert shown.html() == "if a&lt;b &amp; &quot;c&quot; then &#39;<mark>alpha</mark>&#39; &lt;script&gt;"
    assert shown.text() == "if a<b & \"c\" then 'alpha' <script>"
    assert escape_html("plain") == "plain"


def test_neighbouring_marks_become_one() -> None:
    assert passages("東京都庁", "東京都庁") == (Passage("東京都庁", ((0, 4),), False, False),)


# --- over a store


def described(description: str, text: str) -> bytes:
    return page(text).replace(b"<title>", f'<meta name="description" content="{description}"><title>'.encode())


def test_a_heading_equal_to_the_title_is_not_in_the_snippet(store: docstore.DocumentStore) -> None:
    body = f"<title>Harbour</title><main><h1>Harbour</h1><p>Lanterns here. {filler(1, 50)}</p></main>"
    store.put_page(URL, body.encode(), headers=HTML)
    for query in ("", "lanterns"):
        found = store.snippet(URL, query)
        assert found is not None and found.text().startswith("Lanterns here.")


@pytest.mark.parametrize(
    ("main", "query", "shown"),
    [
        ("<h2>Zebra keeping</h2><p>One needs a garden.", "zebra", "Zebra keeping – One needs a garden."),
        ("<h2>Keeping</h2><h2>Keeping</h2><p>A zebra eats.", "zebra keeping", "Keeping – A zebra eats."),
        ("<h2>What is a zebra?</h2><p>An animal.", "zebra", "What is a zebra? – An animal."),
        ("<h2>Zebras</h2><h3>Food</h3><p>They eat grass.", "zebra", "Zebras – Food – They eat grass."),
    ],
)
def test_a_heading_is_parted_from_its_sentence(
    store: docstore.DocumentStore, main: str, query: str, shown: str
) -> None:
    body = f"<title>x</title><main><p>{filler(1, 40)}</p>{main} {filler(2, 40)}</p></main>"
    store.put_page(URL, body.encode(), headers=HTML)
    found = store.snippet(URL, query, length=100)
    assert found is not None and found.text().startswith(shown)
    assert sum(len(passage.text) for passage in found.passages) <= 100


def test_no_query_gives_the_description_else_the_beginning(store: docstore.DocumentStore) -> None:
    store.put_page(URL, described("What it says.", filler(1, 50)), headers=HTML)
    store.put_page("https://b.example/", page(filler(2, 50)), headers=HTML)
    first = store.snippet(URL)
    assert first is not None and (first.source, first.text()) == ("description", "What it says.")
    second = store.snippet("https://b.example/", "absentword")
    assert second is not None and second.source == "main"
    assert filler(2, 50).startswith(second.text().rstrip("…"))
    assert store.snippet("https://c.example/") is None
    store.put_page("https://c.example/", b"\x00", headers={"Content-Type": "image/png"})
    assert store.snippet("https://c.example/", "alpha") is None


def test_a_description_of_an_older_version_is_not_shown(store: docstore.DocumentStore) -> None:
    store.put_page(URL, described("Old words.", filler(1, 50)), headers=HTML, fetched_at=10**15)
    store.put_page(URL, page(filler(2, 50)), headers=HTML, fetched_at=15 * 10**14)
    newest, older = store.snippet(URL), store.snippet(URL, at=10**15)
    assert newest is not None and newest.source == "main"
    assert older is not None and older.text() == "Old words."


def test_a_confirmed_version_keeps_its_text(store: docstore.DocumentStore) -> None:
    for at in (10**15, 15 * 10**14):
        store.put_page(URL, page("Alpha stands here."), headers=HTML, fetched_at=at)
    found = store.snippet(URL, "alpha", at=15 * 10**14)
    assert found is not None and found.text("[", "]") == "[Alpha] stands here."


def test_a_result_page_keeps_its_order_and_its_gaps(store: docstore.DocumentStore) -> None:
    store.put_page(URL, page("Alpha one."), headers=HTML)
    store.put_page("https://b.example/", page("Beta two alpha."), headers=HTML)
    shown = store.snippets(["https://b.example/", "https://gone.example/", URL], "alpha")
    assert [one and one.text("[", "]") for one in shown] == ["Beta two [alpha].", None, "[Alpha] one."]
    assert [one and one.url for one in shown] == ["https://b.example/", None, URL]


def test_a_snippet_reads_the_text_and_the_body_that_it_is_a_delta_of(
    store: docstore.DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = filler(3, 200)
    store.put_page(URL, page(text), headers=HTML)
    columns: list[str] = []
    value_log = store.backend.value_log
    source = value_log.source

    def counting_records(segment: int, offset: int, length: int) -> bytes:
        raw = bytes(source(segment, offset, length))
        record = decode_record(raw, segment)
        columns.append(f"{record.family}:{record.qualifier.decode()}")
        return raw

    monkeypatch.setattr(value_log, "source", counting_records)
    for query in ("", "absentword", text.split()[100]):
        assert store.snippet(URL, query) is not None
        assert set(columns) <= {"text:main", "page:body"}
    assert columns.count("page:body") <= 1, "the body that the text is a delta of is decoded once"


@pytest.mark.parametrize("character", ["\0", "\u0301", "\u1100", "\u200d", "\U0001f1e6", "a", "漢"])
def test_of_a_long_text_the_beginning_is_read(tmp_path: Path, character: str) -> None:
    """16 MB without a place to cut kept a thread for a minute."""
    text = "needle " + character * (snippet.MOST_TEXT // len(character.encode())) + " behind"
    steps: list[int] = []
    with docstore.open(tmp_path / "store", create=True) as store:
        body = f"<title>x</title><pre>{text}".encode()
        store.put_page("https://long.example/", body, headers={"Content-Type": "text/html; charset=utf-8"})
        stored = store.get("https://long.example/", families=("text",))
        assert stored is not None and stored.text is not None
        if "behind" in stored.text:  # NUL and the like are no text
            found = store.snippet("https://long.example/", "behind")
            assert found is None or not any(one.marks for one in found.passages)
        found = store.snippet("https://long.example/", "needle")
        assert found is not None and sum(len(one.text) for one in found.passages) <= 200 + LONGEST_CHARACTER
    for pieces in (passages(character * snippet.MOST_TEXT, "behind"), lead(character * snippet.MOST_TEXT, 200)):
        steps += [len(one.text) for one in pieces]
    assert all(one <= 200 + LONGEST_CHARACTER for one in steps)
