"""Pages with like texts that titles set apart, at write time, in `similar` and in the sweep; copies that are found."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import docstore
from docstore.dedup.comparable import REASON_TITLE_MISMATCH, TitledPage, title_mismatch, titles_contradict
from docstore.dedup.kernel import visible_words
from docstore.model.choices import VerdictKind
from docstore.model.keys import row_key
from docstore.reports.dedup import dedup_stats
from docstore.sweep import pairs
from docstore.sweep.job import SweepOptions, SweepReport, sweep
from tests.pages import changed, page, words

HTML = (("Content-Type", "text/html; charset=utf-8"),)
T0 = 1_700_000_000_000_000
CLOCK = itertools.count()
NOTICE = words(1, 200)
LAMP, KNIFE, VASE = "Blue enamel lamp - Shop", "Kitchen knife - Shop", "Glass vase - Shop"
MENU = f"<ul>{''.join(f'<li><a href=/{word}>{word}</a>' for word in words(9, 300))}</ul>".encode()


def put(store: docstore.DocumentStore, name: str, title: str, text: list[str], menu: bytes = b"") -> docstore.Verdict:
    """Write a page of HOST/PATH; the text alone, or in an article next to a menu of 300 words."""
    body = page(text, title)
    if menu:
        body = body.replace(b"<body>", b"<body>" + menu + b"<article>").replace(b"</body>", b"</article></body>")
    host, _, path = name.partition("/")
    return store.put_page(
        f"https://{host}.example/{path}", body, headers=HTML, fetched_at=T0 + next(CLOCK) * 1000
    ).verdict


def name_of(url: str) -> str:
    host, _, path = url.removeprefix("https://").partition("/")
    return f"{host.removesuffix('.example')}/{path}".rstrip("/")


def swept(store: docstore.DocumentStore) -> tuple[set[tuple[str, str]], set[tuple[str, str]], SweepReport]:
    """Pairs of the sweep, and pairs that titles set apart."""
    path = store.backend.path.parent / "pairs.tsv"
    report = sweep(store, SweepOptions(pairs=path, all_pairs=True, threads=1))
    lines = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    assert all(line[5:] in ([], [REASON_TITLE_MISMATCH]) for line in lines)
    pairs, apart = ({(name_of(line[0]), name_of(line[2])) for line in lines if len(line) == size} for size in (5, 6))
    return pairs, apart, report


def titled(host: str, title: str, text: str, *, mostly_main: bool = True) -> TitledPage:
    visible = None if mostly_main else visible_words(page([*text.split(), *words(3, 100)]))
    return TitledPage(row_key(f"https://{host}.example/{title}"), title, lambda: text, lambda: visible)


@pytest.mark.parametrize(
    ("one", "other", "contradict"),
    [
        ((LAMP, "free shipping"), (KNIFE, "free shipping"), True),
        ((LAMP, "a blue enamel lamp"), (KNIFE, "a blue enamel lamp"), False),  # a copy under another title
        ((LAMP, "a blue lamp"), (KNIFE, "free shipping"), False),  # two of three
        ((LAMP, "a blue shop"), (KNIFE, "a shop"), True),  # what both titles have does not count
        ((LAMP, "free shipping"), (LAMP, "free shipping"), False),
        ((LAMP, "free shipping"), ("", "free shipping"), True),
        ((LAMP, "a blue enamel lamp"), ("$ 124", "a blue enamel lamp"), False),
        (("12", "free shipping"), ("$ 124", "free shipping"), False),
        (("12 May 2024", "free shipping"), ("13 May 2024", "free shipping"), False),
        (("Topic of lamps", "free shipping"), ("Page 2 of topic of lamps", "free shipping"), False),
        ((LAMP, "free shipping"), ("Shop", "free shipping"), False),  # that has no word of its own
        (("Lamp", "free shipping"), ("Knife", "free shipping"), True),
        (("Manual 6.1.0, page 200", "rings"), ("Manual 5.4.0, page 300", "rings"), False),  # numbers
        (("青い琺瑯のランプ", "送料無料"), ("台所の包丁", "送料無料"), True),
        (("青い琺瑯のランプ", "青い琺瑯のランプです"), ("台所の包丁", "送料無料"), False),
        (("โคมไฟสีน้ำเงิน", "จัดส่งฟรี"), ("มีดทำครัว", "จัดส่งฟรี"), True),
        (("โคมไฟสีน้ำเงิน", "โคมไฟสีน้ำเงิน"), ("มีดทำครัว", "จัดส่งฟรี"), False),
        (("ЛАМПА", "лампа"), ("Нож", "нет"), False),
        # one headline of four words, and names of sites
        (
            ("Daily Star: Howrah bridge opens again", "howrah bridge opens"),
            ("Howrah bridge opens again | AMP", "x"),
            False,
        ),
        (("Daily Star: Howrah bridge opens again", "free shipping"), ("Howrah bridge opens again | AMP", "x"), True),
        (("Howrah bridge - Daily Star", "howrah bridge"), ("Howrah bridge - Evening Post", "howrah bridge"), True),
    ],
)
def test_titles_contradict_if_texts_leave_out_what_tells_them_apart(
    one: tuple[str, str], other: tuple[str, str], contradict: bool
) -> None:
    first, second = (titled("a", title, text) for title, text in (one, other))
    assert titles_contradict(first, second) is contradict
    assert titles_contradict(second, first) is contradict


@pytest.mark.parametrize(
    ("hosts", "mostly_main", "third", "apart"),
    [
        ("ab", True, None, False),
        ("aa", True, None, False),
        ("aa", False, None, True),  # one host, and the text is less than half of what the pages show
        ("xx", True, None, True),  # one host, and no text holds a quarter of the words of its title
        ("ab", False, None, False),
        ("ab", False, ("a", VASE), True),
        ("ab", False, ("b", VASE), True),
        ("ab", True, ("a", VASE), False),  # that host's page is an article, the third may be its printer version
        ("ab", True, ("b", VASE), False),
        ("aa", True, ("a", VASE), True),
        ("ab", True, ("c", VASE), False),  # of another host
        ("ab", True, ("a", f"{LAMP} 2"), False),  # the title of one of the two again
    ],
)
def test_titles_set_pages_apart_only_with_evidence(
    hosts: str, mostly_main: bool, third: tuple[str, str] | None, apart: bool
) -> None:
    one, other = (
        titled(host, title, "free shipping" if host == "x" else "free shipping of a shop", mostly_main=mostly_main)
        for host, title in zip(hosts, (LAMP, KNIFE), strict=True)
    )
    like_them = [one, other, *([titled(*third, "free shipping")] if third else [])]
    assert title_mismatch(one, other, like_them) is apart
    assert title_mismatch(other, one, like_them) is apart


@pytest.mark.parametrize(
    "titles",
    [
        ("Howrah bridge - Daily Star", "Howrah bridge - Evening Post"),
        ("Daily Star | Howrah bridge", "Evening Post | Howrah bridge"),
        ("Daily Star", "Evening Post"),
        ("Bridge opens", "Tram returns"),
        ("Bridge opens", ""),
        ("Tram", "Bus"),
        ("豪拉大桥 - 每日星报", "豪拉大桥 - 晚邮报"),
    ],
)
@pytest.mark.parametrize("copy", ["b", "a/amp"])
def test_a_copy_is_found_whatever_its_title_says(
    store: docstore.DocumentStore, titles: tuple[str, str], copy: str
) -> None:
    text = [*NOTICE, "bridge", "tram", "大桥"]
    put(store, "a", titles[0], text)
    verdict = put(store, copy, titles[1], changed(text[:200], 1, 2) + text[200:])
    if titles == ("Daily Star", "Evening Post") and copy == "a/amp":  # a host has one name
        assert (verdict.kind, verdict.reason) == (VerdictKind.NEW, REASON_TITLE_MISMATCH)
        return
    assert (verdict.kind, verdict.of_url) == (VerdictKind.NEAR, "https://a.example/")
    assert [(name_of(one.url), one.kind) for one in store.similar(verdict.of_url)] == [(copy, VerdictKind.NEAR)]
    assert swept(store)[:2] == ({("a", copy)}, set())


def test_a_third_host_hides_no_copy(store: docstore.DocumentStore) -> None:
    """The attacker shows the text under many titles, and under those of the two pages."""
    put(store, "a", LAMP, NOTICE)
    for number, title in enumerate((VASE, "Oak table", "Tin cup", LAMP, KNIFE)):
        put(store, f"evil/{number}", title, changed(NOTICE, 1, number // 2))
    assert put(store, "b", KNIFE, changed(NOTICE, 2, 2)).kind is VerdictKind.NEAR
    assert VerdictKind.NEAR in {one.kind for one in store.similar("https://b.example/") if name_of(one.url) == "a"}
    assert ("a", "b") in swept(store)[0]


def test_a_notice_makes_no_pair_once_a_third_page_of_the_host_shows_it(store: docstore.DocumentStore) -> None:
    """It holds one of three words that tell the first title from the others, so that two pages may be an article's."""
    notice = ["lamp", *NOTICE[1:]]
    assert put(store, "a/1", LAMP, notice).kind is VerdictKind.NEW
    assert put(store, "a/2", KNIFE, notice).kind is VerdictKind.NEAR  # nothing tells them from a copy yet
    for name, text in (("a/3", changed(notice, 1, 2)), ("a/4", notice[:120])):
        verdict = put(store, name, f"Bowl {words(ord(name[2]), 3)}", text)
        assert (verdict.kind, verdict.reason) == (VerdictKind.NEW, REASON_TITLE_MISMATCH)
        assert verdict.of_url.startswith("https://a.example/")
        assert verdict.similarity > 0.8
        url = f"https://{name.replace('/', '.example/')}"
        listed = store.similar(url)
        assert {(one.kind, one.reason) for one in listed} == {(VerdictKind.NEW, REASON_TITLE_MISMATCH)}
    pairs, apart, report = swept(store)
    assert pairs == set()
    assert apart >= {("a/1", "a/2"), ("a/1", "a/3")}
    assert report.title_mismatches == len(apart)
    assert dedup_stats(store).total.reasons[REASON_TITLE_MISMATCH] == 2
    assert store.stats()["totals"][REASON_TITLE_MISMATCH] == 2


@pytest.mark.parametrize("extra", ["Printer friendly version", "Print | Daily Star", "Send to a friend"])
def test_other_versions_of_an_article_on_its_host_hide_no_copy(store: docstore.DocumentStore, extra: str) -> None:
    article = ["howrah", "bridge", "turns", "eighty", *words(5, 300)]
    put(store, "star/1", "Howrah bridge turns eighty - Daily Star", article)
    assert put(store, "star/print/1", extra, article).kind is VerdictKind.NEAR
    for number, title in enumerate(
        ("Howrah bridge turns eighty - Evening Post", "A jubilee - Evening Post", "Evening Post")
    ):
        verdict = put(store, f"post{number}", title, changed(article, number + 10, 2))
        assert (verdict.kind, name_of(verdict.of_url)) == (VerdictKind.NEAR, "star/1")
    assert {("post0", "star/1"), ("post1", "star/1"), ("post2", "star/1")} <= swept(store)[0]


def test_a_notice_next_to_a_menu_makes_no_pair_on_one_host(store: docstore.DocumentStore) -> None:
    put(store, "a/1", LAMP, NOTICE, MENU)
    verdict = put(store, "a/2", KNIFE, NOTICE, MENU)
    assert (verdict.kind, verdict.reason, verdict.similarity) == (VerdictKind.NEW, REASON_TITLE_MISMATCH, 1.0)
    assert put(store, "b/1", VASE, NOTICE, MENU).reason == REASON_TITLE_MISMATCH  # two pages of a contradict it
    assert swept(store)[0] == set()


def test_evidence_is_found_among_all_pages_of_one_text(store: docstore.DocumentStore) -> None:
    """A text number leads to the oldest page of that text, which is of a stranger here."""
    put(store, "evil", "Oak table", NOTICE)
    for number in range(70):
        put(store, f"a/{number}", f"Cup {words(number + 100, 2)}", [*NOTICE, "!" * number])
    verdict = put(store, "a/last", LAMP, changed(NOTICE, 1, 2))
    assert (verdict.kind, verdict.reason) == (VerdictKind.NEW, REASON_TITLE_MISMATCH)
    assert name_of(verdict.of_url) == "evil"


def test_the_rule_can_be_switched_off(tmp_path: Path) -> None:
    schema = docstore.Schema(title_rule=False)
    with docstore.open(tmp_path / "store", create=True, schema=schema, durability="none") as store:
        for number, title in enumerate((LAMP, KNIFE, VASE)):
            verdict = put(store, f"a/{number}", title, NOTICE)
        assert (verdict.kind, verdict.of_url) == (VerdictKind.NEAR, "https://a.example/0")
        assert {one.kind for one in store.similar("https://a.example/2")} == {VerdictKind.NEAR}
        assert len(swept(store)[0]) == 3
    with docstore.open(tmp_path / "store") as store:
        assert store.schema == schema


@pytest.mark.parametrize("count", [30, 200])
def test_same_text_compares_titles_by_words(store: docstore.DocumentStore, count: int) -> None:
    for name, title in (("a", "Story One"), ("b", "STORY  ONE!"), ("c", "Story Two 2"), ("d", "Story Two 3")):
        verdict = put(store, name, title, NOTICE[:count])
        assert (verdict.kind is VerdictKind.SAME_TEXT) is (name == "b")
    pairs = swept(store)[0]
    assert ("a", "b") in pairs
    assert ("c", "d") in pairs or count == 30  # a number is a word of a title where titles alone decide


def test_a_copy_is_found_behind_pages_that_share_its_notice(store: docstore.DocumentStore) -> None:
    """A text number leads to the oldest page of that text, which is another one here."""
    for number, title in enumerate((LAMP, KNIFE, VASE)):
        put(store, f"original/{number}", title, NOTICE)
    verdict = put(store, "copy", KNIFE, changed(NOTICE, 1, 2))
    assert (verdict.kind, verdict.of_url) == (VerdictKind.NEAR, "https://original.example/1")
    same = put(store, "same", VASE, [*NOTICE, "!"])
    assert (same.kind, same.of_url) == (VerdictKind.SAME_TEXT, "https://original.example/2")
    found = [(one.url, one.reason) for one in store.similar("https://copy.example/")]
    assert found == [("https://original.example/1", "")]
    pairs, apart, _ = swept(store)
    assert pairs >= {("copy", "original/1"), ("original/2", "same")}
    assert ("original/1", "original/2") not in pairs
    assert ("original/0", "original/1") in apart


def test_the_sweep_has_every_pair_that_a_verdict_names_or_sets_it_apart(store: docstore.DocumentStore) -> None:
    """With these titles neither "shares its text" nor "titles allow the pair" is transitive."""
    source = random.Random(12)
    texts = [[*more, *changed(NOTICE, seed, 3)] for seed in (1, 2) for more in ([], ["blue", "enamel", "lamp"])]
    titles = [LAMP, KNIFE, VASE, "", "Shop", "Blue lamp 17", "Blue lamp 18", "Knife and lamp"]
    chosen = [*itertools.product(titles, texts), *source.choices(list(itertools.product(titles, texts)), k=30)]
    source.shuffle(chosen)
    named = set()
    for number, (title, text) in enumerate(chosen):
        verdict = put(store, f"n{number % 20}/{number}", title, [*text, "!" * number])
        if verdict.kind in (VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR):
            named.add(frozenset((f"n{number % 20}/{number}", name_of(verdict.of_url))))
    pairs, apart, _ = swept(store)
    assert len(named) > 40
    assert len(named - {frozenset(pair) for pair in pairs}) < 6
    assert apart


def test_a_text_on_many_hosts_under_three_titles_costs_a_sweep_a_step_for_each_host(
    store: docstore.DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each host's own pages are evidence, so titles set apart all pairs of hosts; there are 10,800 of them."""
    hosts = 60
    steps = 0

    def counted(compare: Callable[..., bool]) -> Callable[..., bool]:
        def call(
            one: TitledPage,
            other: TitledPage,
            like_them: Iterable[TitledPage] = (),
        ) -> bool:
            nonlocal steps
            others = [list(like_them)] if like_them else []
            steps += 1 + sum(map(len, others))
            return compare(one, other, *others)

        return call

    for host, (path, title) in itertools.product(range(hosts), enumerate((LAMP, KNIFE, VASE))):
        put(store, f"h{host}/{path}", title, [*NOTICE, "!" * (3 * host + path)])
    for name in ("titles_contradict", "has_evidence", "title_mismatch"):
        monkeypatch.setattr(f"docstore.sweep.pairs.{name}", counted(getattr(pairs, name)))
    assert swept(store)[2].clusters == 3
    assert 0 < steps < 60 * hosts


@pytest.mark.parametrize("seed", range(40))
def test_the_sweep_sets_groups_apart_as_the_rule_does_for_each_pair_of_their_pages(
    store: docstore.DocumentStore, seed: int
) -> None:
    draw = random.Random(seed)
    notice = [*NOTICE, "blue"] if seed % 2 else NOTICE  # with it the text names the lamp
    titles = {LAMP: 0, KNIFE: 1, VASE: 2, "": 3}
    places = draw.sample(list(itertools.product("abc", titles)), draw.randint(3, 8))
    for number, (host, title) in enumerate(places):
        put(store, f"{host}/{titles[title]}", title, [*notice, "!" * number])
    pages = {
        title: [titled(host, title, " ".join(notice)) for host, each in places if each == title] for title in titles
    }
    everything = [each for group in pages.values() for each in group]

    def is_apart(one: TitledPage, other: TitledPage) -> bool:
        return title_mismatch(one, other, [each for each in everything if each.host in (one.host, other.host)])

    apart = {
        (first, second)
        for first, second in itertools.combinations(titles, 2)
        if pages[first]
        and pages[second]
        and all(is_apart(*pair) for pair in itertools.product(pages[first], pages[second]))
    }
    assert swept(store)[2].title_mismatches == len(apart)
