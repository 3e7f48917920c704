"""The rules of main text, one small page a rule: each case of `tests/cases/text/*.txt`, by its name.

    pytest tests/cases -k "icon"        # the cases whose names have the word
    pytest tests/cases --rewrite        # write what comes out now into the files; review the difference

A file holds the cases of one subject, and is edited by hand::

    ==== An icon in a link does not cut its sentence
    bound: scored::SOME_CONSTANT
    ---- page
    <p>It supports <a href="/l">Linux<svg/></a>, {words 3 40}
    ---- text
    It supports Linux, {words 3 40}

What stands before the first case tells what the file is about.  Lines between the name and the page, all optional:

- ``bound``: the constant of a rule of the kernel that the case pins, from one side.
- ``rule``: the extractor; `scored` if the line is missing.
- ``type``: the Content-Type; UTF-8 HTML if the line is missing, none if it is empty.
- ``url``: the address of the page; it is that of `URL` if the line is missing.
- ``bytes``: "escaped" if the page has ``\\xNN`` for bytes that are no UTF-8.
- ``each``: any number of these: the case runs once with each of them in place of ``{each}`` in its parts.

Parts that may follow the page, of which those given are compared: ``text`` (the main text), ``title``, ``description``,
``keywords``, ``lang``, ``canonical``, ``headings``, ``links`` (address, " | ", anchor), ``markdown``, ``charset`` (the
encoding, " | ", what says so), ``decoded`` (the source), ``blocks`` (for each block + or -, its score in hundredths,
its text), ``why`` (for each block + or -, its causes), and ``kind`` (whether the body is read as HTML).  ``has`` and
``lacks`` list what the text must and must not hold, and ``same`` is a page with the same text.  Characters that cannot
be printed are shown as Python writes them.

Filler, in the page and in what comes out: ``{words SEED COUNT}`` is made-up words, ``{Words SEED COUNT}`` a sentence of
them, ``{x COUNT}`` so many letters, ``{space COUNT}`` blanks, ``{file PATH}`` a file below `tests/`, and
``{repeat COUNT}...{end}`` repeats what is between, with ``{n}`` for the number of the repetition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pytest

from docstore.compiled import docstore_native
from docstore.dedup.kernel import Kernel
from docstore.model.analysis import Analysis
from tests.pages import words

FOLDER = Path(__file__).parent / "text"
URL = "https://site.example/docs/page"
HTML = "text/html; charset=utf-8"
HEADERS = ("bound", "rule", "type", "url", "bytes", "each")
REPEAT = re.compile(r"\{repeat (\d+)\}((?:(?!\{repeat ).)*?)\{end\}", re.S)
FILLER = re.compile(r"\{(words|Words) (\d+) (\d+)\}|\{(x|space) (\d+)\}|\{file ([\w./]+)\}")


class Case(NamedTuple):
    file: Path
    name: str
    headers: dict[str, list[str]]
    parts: dict[str, str]

    def header(self, name: str, default: str) -> str:
        return self.headers.get(name, [default])[0]


def cases_of(file: Path) -> list[Case]:
    found = []
    for source in re.split(r"^==== ", file.read_text("utf-8"), flags=re.M)[1:]:
        head, *parts = re.split(r"^---- ", source, flags=re.M)
        name, *lines = head.strip().split("\n")
        headers: dict[str, list[str]] = {}
        for line in lines:
            key, colon, value = line.partition(":")
            assert colon and key in HEADERS, f"{file.name}: {name}: no line of a case is {line!r}"
            headers.setdefault(key, []).append(value.strip())
        by_name = {part.partition("\n")[0].strip(): part.partition("\n")[2].rstrip("\n") for part in parts}
        assert len(by_name) == len(parts), f"{file.name}: {name}: a part stands twice"
        assert list(by_name)[:1] == ["page"] and len(by_name) > 1, f"{file.name}: {name}: a page, then what comes out"
        found.append(Case(file, name, headers, by_name))
    return found


def expand(source: str, each: str = "") -> str:
    """A part with its filler."""

    def filler(match: re.Match[str]) -> str:
        if match[6]:
            return (FOLDER.parents[1] / match[6]).read_text("utf-8")
        if match[4]:
            return {"x": "x", "space": " "}[match[4]] * int(match[5])
        text = " ".join(words(int(match[2]), int(match[3])))
        return text if match[1] == "words" else text.capitalize() + "."

    def repeated(match: re.Match[str]) -> str:
        return "".join(match[2].replace("{n}", str(number)) for number in range(int(match[1])))

    source = source.replace("{each}", each)
    while REPEAT.search(source):
        source = REPEAT.sub(repeated, source)
    return FILLER.sub(filler, source)


def fold(outcome: str, page: str) -> str:
    """What came out with the filler of its page written short."""
    fillers = {expand(match[0]): match[0] for match in FILLER.finditer(page)}
    for text in sorted(fillers, key=len, reverse=True):
        outcome = outcome.replace(text, fillers[text]) if len(text) >= 20 else outcome
    return outcome


class Ran:
    """What the kernel makes of the page of a case, as a store takes it."""

    def __init__(self, case: Case, page: str) -> None:
        self.case = case
        self.rule = case.header("rule", "scored")
        self.type = case.header("type", HTML)
        self.body = page.encode()
        if case.header("bytes", "") == "escaped":
            self.body = page.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("latin-1")

    @cached_property
    def analysis(self) -> Analysis:
        return Kernel(self.rule).analyse(self.body, self.type, links=True)

    def outcome(self, part: str) -> str:
        outcomes: dict[str, Callable[[], str]] = {
            "text": lambda: self.analysis.main,
            "headings": self.analysis.headings.decode,
            "links": lambda: "\n".join(f"{href} | {text}" for href, text in self.analysis.links),
            "markdown": self._markdown,
            "blocks": lambda: "\n".join(self.shown_blocks()),
            "why": lambda: "\n".join(self._blocks(lambda text, because: "; ".join(because))),
            "charset": lambda: " | ".join(docstore_native.charset_of(self.body, self.type)),
            "decoded": lambda: docstore_native.decode(self.body, self.type)[1],
            "kind": lambda: "HTML" if docstore_native.is_html(self.body, self.type) else "no HTML",
        }
        made = outcomes[part]() if part in outcomes else str(getattr(self.analysis, part))
        made = made.rstrip("\n")
        return "".join(each if each == "\n" or each.isprintable() else ascii(each)[1:-1] for each in made)

    def _markdown(self) -> str:
        return docstore_native.markdown(self.body, self.type, self.case.header("url", URL), self.analysis.main)

    def shown_blocks(self) -> Iterator[str]:
        return self._blocks(lambda text, because: text.replace("\n", " / "))

    def _blocks(self, shown: Callable[[str, list[str]], str]) -> Iterator[str]:
        source = docstore_native.decode(self.body, self.type)[1]
        for text, is_kept, score, because in docstore_native.explain(source, self.rule):
            yield f"{'+' if is_kept else '-'} {'' if score is None else score:>5}  {shown(text, because)}"


FILES = sorted(FOLDER.glob("*.txt"))
CASES = [case for file in FILES for case in cases_of(file)]


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.file.stem}: {case.name}") for case in CASES])
def test_case(case: Case) -> None:
    for each in case.headers.get("each", [""]):
        ran = Ran(case, expand(case.parts["page"], each))
        for part, source in case.parts.items():
            expected = expand(source, each)
            where = f"{case.file.name}: {case.name} {each}: {part}"
            if part in ("has", "lacks"):
                lines = expected.split("\n")
                wrong = [line for line in lines if (line in ran.outcome("text")) != (part == "has")]
                compare(where, [], wrong, f"the text is\n{ran.outcome('text')}")
            elif part == "same":
                compare(where, Ran(case, expected).outcome("text"), ran.outcome("text"))
            elif part != "page":
                page = case.parts["page"]
                blocks = fold("\n".join(ran.shown_blocks()), page)
                compare(where, fold(expected, page), fold(ran.outcome(part), page), blocks)


def compare(where: str, expected: object, found: object, more: str = "") -> None:
    if found != expected:
        pytest.fail(f"{where}\n--- expected\n{expected}\n--- found\n{found}\n--- more\n{more}", pytrace=False)


def test_names_of_cases_are_unique_in_their_file() -> None:
    names = [(case.file.name, case.name) for case in CASES]
    assert sorted(set(names)) == sorted(names)


def test_files_are_written_anew(rewrite: bool) -> None:
    if not rewrite:
        pytest.skip("--rewrite writes what comes out now")
    for file in FILES:
        source = file.read_text("utf-8")
        written = [re.split(r"^==== ", source, flags=re.M)[0]]
        for case in cases_of(file):
            ran = Ran(case, expand(case.parts["page"]))
            lines = [case.name, *(f"{name}: {value}" for name, values in case.headers.items() for value in values)]
            for part, expected in case.parts.items():
                is_fixed = part in ("page", "has", "lacks", "same") or "{each}" in expected or "each" in case.headers
                is_right = is_fixed or ran.outcome(part) == expand(expected)
                lines += [f"---- {part}", expected if is_right else fold(ran.outcome(part), case.parts["page"])]
            written.append("\n".join(lines) + "\n")
        file.write_text(written[0] + "\n".join(f"==== {each}" for each in written[1:]), "utf-8")
