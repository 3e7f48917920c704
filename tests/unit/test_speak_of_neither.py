"""Texts that leave out what tells two pages apart carry no verdict: at write time, in `similar`, and in the sweep."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import docstore
from docstore.dedup.comparable import REASON_DOUBTFUL
from docstore.dedup.doubt import TitledText, speak_of_neither
from docstore.model.types import VerdictKind
from docstore.sweep.job import SweepOptions, sweep
from tests.pages import changed, page, words

HTML = (("Content-Type", "text/html; charset=utf-8"),)
T0 = 1_700_000_000_000_000
NOTICE = words(1, 200)
LAMP, KNIFE, VASE = "Blue enamel lamp - Shop", "Kitchen knife - Shop", "Glass vase - Shop"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[docstore.DocumentStore]:
    with docstore.open(tmp_path / "store", create=True, durability="none") as opened:
        yield opened


def put(store: docstore.DocumentStore, name: str, title: str, text: list[str], at: int = 0) -> docstore.Verdict:
    url = f"https://{name}.example/"
    return store.put_page(url, page(text, title), headers=HTML, fetched_at=T0 + at * 1000).verdict


def pairs_of(store: docstore.DocumentStore) -> set[tuple[str, str]]:
    path = store.opened.path.parent / "pairs.tsv"
    sweep(store, SweepOptions(pairs=path, all_pairs=True, threads=1))
    lines = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    return {(line[0].split("//")[1][:-9], line[2].split("//")[1][:-9]) for line in lines}


@pytest.mark.parametrize(
    ("one", "other", "neither"),
    [
        ((LAMP, "free shipping"), (KNIFE, "free shipping"), True),
        ((LAMP, "a blue enamel lamp"), (KNIFE, "a blue enamel lamp"), False),  # a copy under another title
        ((LAMP, "a blue lamp"), (KNIFE, "free shipping"), False),  # two of three
        ((LAMP, "a blue shop"), (KNIFE, "a shop"), True),  # what both titles have does not count
        ((LAMP, "free shipping"), (LAMP, "free shipping"), False),
        ((LAMP, "free shipping"), ("", "free shipping"), True),
        ((LAMP, "a blue enamel lamp"), ("$ 124", "a blue enamel lamp"), False),
        (("12", "free shipping"), ("$ 124", "free shipping"), False),
        ((LAMP, "free shipping"), ("Shop", "free shipping"), False),  # that has no word of its own
        (("Manual 6.1.0, page 200", "rings"), ("Manual 5.4.0, page 300", "rings"), False),  # numbers
        (("青い琺瑯のランプ", "送料無料"), ("台所の包丁", "送料無料"), True),
        (("青い琺瑯のランプ", "青い琺瑯のランプです"), ("台所の包丁", "送料無料"), False),
        (("ЛАМПА", "лампа"), ("Нож", "нет"), False),
    ],
)
def test_texts_without_what_tells_the_titles_apart_speak_of_neither(
    one: tuple[str, str], other: tuple[str, str], neither: bool
) -> None:
    first, second = (TitledText(title, lambda text=text: text) for title, text in (one, other))  # type: ignore[misc]
    assert speak_of_neither(first, second) is neither
    assert speak_of_neither(second, first) is neither


def test_no_verdict_stands_on_a_notice_that_pages_share(store: docstore.DocumentStore) -> None:
    put(store, "a", LAMP, NOTICE)
    for name, text in (("b", NOTICE), ("c", changed(NOTICE, 1, 2)), ("d", changed(NOTICE, 1, 12)), ("e", NOTICE[:120])):
        verdict = put(store, name, f"{KNIFE} {words(ord(name), 3)}", text)
        assert (verdict.kind, verdict.reason, verdict.of_url) == (VerdictKind.NEW, REASON_DOUBTFUL, "")
        assert store.similar(f"https://{name}.example/") == []
    assert pairs_of(store) == set()


def test_a_copy_is_found_behind_pages_that_share_its_notice(store: docstore.DocumentStore) -> None:
    """A text number leads to the oldest page of that text, which is another one here."""
    for number, title in enumerate((LAMP, KNIFE, VASE)):
        put(store, f"original{number}", title, NOTICE, number)
    verdict = put(store, "copy", KNIFE, changed(NOTICE, 1, 2))
    assert (verdict.kind, verdict.of_url) == (VerdictKind.NEAR, "https://original1.example/")
    same = put(store, "same", VASE, [*NOTICE, "!"])
    assert (same.kind, same.of_url) == (VerdictKind.SAME_TEXT, "https://original2.example/")
    assert {one.url for one in store.similar("https://copy.example/")} == {"https://original1.example/"}
    assert pairs_of(store) == {("copy", "original1"), ("original2", "same")}


def test_a_copy_under_another_title_is_found(store: docstore.DocumentStore) -> None:
    text = ["blue", "enamel", "lamp", *NOTICE]
    put(store, "a", LAMP, text)
    assert put(store, "b", KNIFE, text).kind is VerdictKind.NEAR
    assert put(store, "c", "", text).kind is VerdictKind.NEAR
    assert pairs_of(store) == {("a", "b"), ("a", "c")}  # b and c alone have nothing that speaks for them


def test_the_sweep_has_every_pair_that_a_verdict_names(store: docstore.DocumentStore) -> None:
    """Titles are such that neither "shares its text" nor "may stand beside" is transitive."""
    source = random.Random(12)
    texts = [[*more, *changed(NOTICE, seed, 3)] for seed in (1, 2) for more in ([], ["blue", "enamel", "lamp"])]
    titles = [LAMP, KNIFE, VASE, "", "Shop", "Blue lamp 17", "Blue lamp 18", "Knife and lamp"]
    chosen = [*itertools.product(titles, texts), *source.choices(list(itertools.product(titles, texts)), k=30)]
    source.shuffle(chosen)
    named = set()
    for number, (title, text) in enumerate(chosen):
        verdict = put(store, f"n{number}", title, [*text, "!" * number], number)
        if verdict.kind in (VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR):
            named.add(tuple(sorted((f"n{number}", verdict.of_url.split("//")[1][:-9]))))
    assert len(named) > 40
    assert named <= {tuple(sorted(pair)) for pair in pairs_of(store)}
