"""`docstore get --snippet` at the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_case import Terminal

import docstore

HTML = {"Content-Type": "text/html; charset=utf-8"}
ONE = "https://a.example/one"
TWO = "https://b.example/two"


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    folder = tmp_path / "store"
    with docstore.open(folder, create=True) as store:
        store.put_page(ONE, b"<p>Un Caf\xc3\xa9 noir &amp; <b>fort</b>.", headers=HTML)
        store.put_page(TWO, b"<p>Two \x1b[31m words of coffee, caf\xc3\xa9 too.", headers=HTML)
    return Terminal(folder, capsys)


def test_a_snippet_marks_the_words_of_the_query(run: Terminal) -> None:
    answer = run("get", ONE, "--snippet", "cafe")
    assert (answer.code, answer.out) == (0, "Un *Café* noir & fort.\n")


def test_html_is_safe(run: Terminal) -> None:
    assert run("get", ONE, "--snippet", "cafe", "--html").out == "Un <mark>Café</mark> noir &amp; fort.\n"


def test_a_result_page_has_a_line_a_page_and_no_control_characters(run: Terminal) -> None:
    answer = run("get", ONE, TWO, "https://gone.example/", "--snippet", "cafe")
    assert answer.code == 0
    assert answer.out.splitlines() == [
        f"{ONE}\tUn *Café* noir & fort.",
        f"{TWO}\tTwo \ufffd[31m words of coffee, *café* too.",
    ]
    assert "no page https://gone.example/" in answer.err
    assert run("get", "https://gone.example/", "--snippet", "cafe").code == 1


def test_json_has_the_pieces(run: Terminal) -> None:
    fields = run("get", ONE, "--snippet", "cafe", "--json").object()
    assert fields["url"] == ONE and fields["source"] == "main"
    (passage,) = fields["passages"]
    ((start, end),) = passage["marks"]
    assert passage["text"][start:end] == "Café"
    assert fields["html"] == "Un <mark>Café</mark> noir &amp; fort."


def test_length_is_kept(run: Terminal) -> None:
    assert len(run("get", TWO, "--snippet", "", "--length", "20").out) <= 22
    answer = run("get", TWO, "--snippet", "x", "--length", "3")
    assert answer.code == 2 and "at least 20" in answer.err


@pytest.mark.parametrize(
    "words",
    [(ONE, TWO), (ONE, "--html"), (ONE, "--length", "50"), (ONE, "--snippet", "x", "--follow-redirects")],
)
def test_options_that_do_not_go_together_are_refused(run: Terminal, words: tuple[str, ...]) -> None:
    answer = run("get", *words)
    assert answer.code == 2 and "--snippet" in answer.err
