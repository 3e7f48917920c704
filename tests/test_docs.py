"""The pages keep their word: what they show runs, what they name exists, where they lead is something.

In README.md and docs/**/*.md, in order and in one temporary directory a page (in README.md a block, for a reader tries
one of them first), with `examples/` beside it:

- a ```python block runs; blocks of one page share their names; an ```output block is all that the block before it
  prints, where ``...`` stands for anything;
- in a ```console block every line ``$ docstore ...`` runs: in this process, or through bash where it has a pipe or
  another sign of the shell.  It must exit with 0, or with N where the line ends in ``# exit N``.  Lines shown below it
  are its output, where ``...`` stands for anything; nothing shown, nothing compared.  Other ``$`` lines (make, pip,
  curl) are for people and do not run.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import doctest
import functools
import io
import os
import pkgutil
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import docstore
from docstore.cli.arguments import parser_of
from docstore.cli.main import COMMANDS, Command, main
from docstore.model import format as disk_format
from tools.make_cli_reference import reference

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MAX_WORDS = 27_000
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL_SIGNS = re.compile(r"[|<>&;$`*~(){}\\#\n]")
EXIT_NOTE = re.compile(r"\s+# exit (\d+)$")
LIBRARIES = {"dataframes.md": ("pyarrow", "duckdb", "pandas", "polars"), "lectures.md": ("sklearn",)}
"""What the blocks of a page need and the core does not."""
ELSEWHERE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    language: str
    line: int
    text: str


class Session(NamedTuple):
    command: str
    exit_code: int
    shown: str


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that a test runs."""
    content = page.read_text(encoding="utf-8")
    found = [Block(match[1], content[: match.start()].count("\n") + 2, match[2]) for match in FENCE.finditer(content)]
    return [block for block in found if block.language in {"python", "output", "console"}]


def sessions(text: str) -> Iterator[Session]:
    """The `docstore` commands of a console block, each with what is shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        if not re.search(r"\bdocstore\b", command.split("#")[0]) or command.startswith(
            ("make ", "pip ", "cd ", "git ")
        ):
            continue
        note = EXIT_NOTE.search(command)
        yield Session(EXIT_NOTE.sub("", command), int(note[1]) if note else 0, shown.strip("\n"))


def run_session(session: Session, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run one command in a folder, which is the current one; gives what is wrong, or nothing."""
    program, _, words = session.command.partition(" ")
    if program == "docstore" and not SHELL_SIGNS.search(words):
        capsys.readouterr()
        code = main(shlex.split(words))
        output, error = capsys.readouterr()
    else:
        code, output, error = run_in_bash(session.command, folder)
    # A reader such as head may close the pipe before all is written.
    if code not in {session.exit_code, 141 if "|" in session.command else session.exit_code}:
        return f"exit code {code} in place of {session.exit_code}\n{error}"
    output += error
    if not session.shown or doctest.OutputChecker().check_output(session.shown + "\n", output, ELSEWHERE):
        return ""
    return f"shown:\n{session.shown}\nprinted:\n{output}"


def run_in_bash(command: str, folder: Path) -> tuple[int, str, str]:
    """Run a command in a shell; gives its exit code, and what it printed to stdout and to stderr."""
    environment = {name: value for name, value in os.environ.items() if name not in {"DOCSTORE_STORE", "NO_COLOR"}}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if page.exists() and blocks(page)], ids=lambda page: page.name)
def test_what_a_page_shows_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for library in LIBRARIES.get(page.name, ()):
        pytest.importorskip(library, reason=f"{page.name} needs {library}: pip install '.[test]'")
    for variable in ("DOCSTORE_STORE", "NO_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    names: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    folder = tmp_path / "0"
    for number, block in enumerate(blocks(page)):
        if number == 0 or page.name == "README.md":
            folder = tmp_path / str(number)
            folder.mkdir()
            (folder / "examples").symlink_to(ROOT / "examples")
            monkeypatch.chdir(folder)
        where = f"{page.name}, block at line {block.line}"
        if block.language == "python":
            printed = run_python(block, page, names)
        elif block.language == "output":
            assert doctest.OutputChecker().check_output(block.text, printed, ELSEWHERE), f"{where}: printed {printed}"
        else:
            for session in sessions(block.text):
                wrong = run_session(session, folder, capsys)
                assert not wrong, f"{where}: $ {session.command}\n{wrong}"


def run_python(block: Block, page: Path, names: dict[str, object]) -> str:
    """Run a block among the names of its page; gives what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        tree = ast.parse(block.text, f"{page.name}:{block.line}")
        exec(compile(tree, f"{page.name}:{block.line}", "exec"), names)
    return printed.getvalue()


def test_the_convention_notices_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for ending in ("", " | cat"):  # in this process, and in a shell

        def wrong(command: str, exit_code: int, shown: str, ending: str = ending) -> str:
            return run_session(Session(command + ending, exit_code, shown), tmp_path, capsys)

        assert wrong("docstore key https://a.example/", 0, "url https://a.example/\n...") == ""
        assert "shown" in wrong("docstore key https://a.example/", 0, "url https://b.example/")
        assert "exit code 2" in wrong("docstore key", 0, "")
        assert wrong("docstore key", 2, "docstore: error: key takes...") == ""
    found = list(sessions("$ make demo\nx\n$ docstore get x  # exit 1\nshown\nmore\n$ docstore key y\n"))
    assert found == [Session("docstore get x", 1, "shown\nmore"), Session("docstore key y", 0, "")]


# --- names of the code

NAMED_PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"]
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_/-]*(?:\.(?:py|md|rs|toml)|/)")
IDENTIFIER = re.compile(r"_?[A-Z][A-Za-z0-9_]{3,}")
PLACES = ("", "docs", "docstore", "docstore/archives", "docstore/tablets", "docstore/tablets/engines")


DEFINED = re.compile(r"^ *(?:class|(?:async )?def) (\w+)|^ *(\w+)(?:: [^=\n]+)? = ", re.MULTILINE)


@functools.cache
def defined() -> set[str]:
    """Names of classes, functions and module constants of the package and its tests."""
    files = [*(ROOT / "docstore").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    return {one or other for path in files for one, other in DEFINED.findall(path.read_text(encoding="utf-8"))}


@pytest.mark.parametrize("page", NAMED_PAGES, ids=lambda page: page.name)
def test_files_and_names_of_the_code_that_a_page_gives_exist(page: Path) -> None:
    known = defined() | set(dir(builtins))
    folder = "docs"
    missing = []
    for line in page.read_text(encoding="utf-8").splitlines():
        for span in SPAN.findall(line):
            if "NAME" in span:
                continue
            if PATH.fullmatch(span):
                where = next((place for place in (folder, *PLACES) if (ROOT / place / span).exists()), None)
                if where is None:
                    missing.append(span)
                elif span.endswith("/"):  # what follows may lie in it
                    folder = f"{where}/{span}".lstrip("/")
            elif IDENTIFIER.fullmatch(span) and span not in known:
                missing.append(span)
    assert missing == []


TOOL = re.compile(r"python -m (tools[\w.]*)([^`]*)")


def spans() -> Iterator[tuple[str, str]]:
    """The code in the text of each page, each with the name of its page."""
    for page in PAGES:
        for span in SPAN.findall(page.read_text(encoding="utf-8")):
            yield page.name, span


def test_tools_that_a_page_runs_have_the_commands_and_options_that_it_gives() -> None:
    missing = []
    for page, span in spans():
        for module, arguments in TOOL.findall(span):
            file = ROOT / module.replace(".", "/")
            file = file / "__main__.py" if file.is_dir() else file.with_suffix(".py")
            source = file.read_text(encoding="utf-8") if file.exists() else ""
            words = re.findall(r"(?<=\s)(?:--)?[a-z][a-z-]+(?![\w/.:=])", arguments)
            if not all(word in source or word.strip("-").replace("-", "_") in source for word in words) or not source:
                missing.append((page, span))
    assert missing == []


# --- links, figures, length

LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }


def test_links_of_a_page_lead_somewhere() -> None:
    broken = []
    for page in (*PAGES, ROOT / "CHANGELOG.md", ROOT / "examples" / "README.md"):
        for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if re.match(r"https?:", link):
                continue
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{page.name}: {link}")
    assert broken == []


INSTALL = re.compile(r"pip install +'?([\w./-]+)(?:\[([\w,-]+)\])?")


def test_install_lines_work_before_a_release() -> None:
    """They name a checkout or a wheel file, and extras that exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [(page.name, *match) for page in PAGES for match in INSTALL.findall(page.read_text(encoding="utf-8"))]
    assert len(lines) > 8
    for page, what, extras in lines:
        assert what in {".", "FILE.whl"}, (page, what)
        assert set(filter(None, extras.split(","))) <= set(project["optional-dependencies"]), (page, extras)


def test_figures_of_the_readme_stand_in_the_benchmarks() -> None:
    tables = re.findall(
        r"^\|[^\n]*\| docstore \|.*?(?=\n\n)", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S
    )
    figures = [
        figure
        for table in tables
        for row in table.splitlines()[2:]
        for figure in re.findall(r"[\d.,]*\d", row.partition(" | ")[2])
    ]
    benchmarks = set(re.findall(r"[\d.,]*\d", (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")))
    assert len(tables) == 2
    assert len(figures) > 25
    assert [figure for figure in figures if figure not in benchmarks] == []


def test_the_pages_can_be_read() -> None:
    """All pages together, decisions left out; and the page that a new engineer reads first.

    A word has a letter or a digit: the bars of a table are none.
    """
    pages = [page for page in PAGES if page.parent.name != "decisions"]
    words = {
        page.name: sum(any(map(str.isalnum, word)) for word in page.read_text(encoding="utf-8").split())
        for page in pages
    }
    assert sum(words.values()) <= MAX_WORDS, words
    assert len((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines()) <= 150


# --- commands


def command_of(words: list[str]) -> str | None:
    """The name of the command that these words call, which may be two words."""
    return next(
        (command.name for command in COMMANDS if words[: len(command.name.split())] == command.name.split()), None
    )


def test_the_page_of_commands_has_each_command_in_its_table_and_no_other() -> None:
    table = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8").split("| to | say |")[1].partition("\n\n")[0]
    named = {command_of(span.split()) for span in SPAN.findall(table)}
    assert named == {command.name for command in COMMANDS}


def test_the_reference_on_the_site_has_each_command_with_its_options_and_examples() -> None:
    text = reference()
    for command in COMMANDS:
        section = text.split(f"## docstore {command.name}\n")[1].split("\n## ")[0]
        assert command.examples.strip() in section
        for action in parser_of(command)._actions:
            assert all(option in section for option in action.option_strings if option not in {"-h", "--help"})


def test_commands_and_options_that_a_page_names_exist() -> None:
    options = {
        command.name: {option for action in parser_of(command)._actions for option in action.option_strings}
        for command in COMMANDS
    }
    missing = []
    for page, span in spans():
        words = span.removeprefix("docstore ").partition(" > ")[0].split()
        name = command_of(words)
        if not span.startswith("docstore ") and (name is None or "--" not in span):
            continue  # some other words; `init --checksum` is a command without its first word
        if words[0] in {"COMMAND", "--help", "--version"}:
            continue
        named = {word.strip("[]|").partition("=")[0] for word in words if word.strip("[").startswith("--")}
        if name is None or not named <= options[name]:
            missing.append((page, span))
    assert missing == []


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_help_with_examples_that_its_parser_takes(command: Command) -> None:
    parser = parser_of(command)
    assert command.summary[0].islower()
    assert not command.summary.endswith(".")
    assert command.description.strip()
    assert "examples:" in parser.format_help()
    examples = [line for line in command.examples.splitlines() if line]
    assert examples
    for example in examples:
        before, _, words = example.partition(f"docstore {command.name}")
        assert before == "" or before.endswith("| "), example
        parser.parse_args(split(words))


def split(words: str) -> list[str]:
    """Words as a shell would give them, without redirections; patterns stay as they are."""
    return shlex.split(words.partition(" > ")[0])


def test_every_option_has_help() -> None:
    for command in COMMANDS:
        for action in parser_of(command)._actions:
            assert action.help, f"docstore {command.name} {action.option_strings or action.dest}"


# --- the Python reference


def test_the_reference_has_every_public_name_and_no_other() -> None:
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    names = re.findall(r"^::: (.*)$", page, re.MULTILINE)
    assert {f"docstore.{name}" for name in docstore.__all__ if name != "__version__"} <= set(names)
    for name in names:
        assert pkgutil.resolve_name(name) is not None


# --- format


FORMAT_PAGE = ROOT / "docs" / "format.md"
CODE = re.compile(r"`([A-Za-z_][A-Za-z0-9_]*)`")


def constants() -> set[str]:
    return {name for name in vars(disk_format) if name.isupper() and not name.startswith("_")}


def test_every_constant_that_the_format_page_names_exists() -> None:
    if not FORMAT_PAGE.exists():
        pytest.skip("docs/format.md is not written yet")
    named = {name for name in CODE.findall(FORMAT_PAGE.read_text()) if name.isupper() and "_" in name}
    assert named
    assert named - constants() == set()


def test_every_constant_of_the_format_is_explained_on_its_page() -> None:
    if not FORMAT_PAGE.exists():
        pytest.skip("docs/format.md is not written yet")
    named = set(CODE.findall(FORMAT_PAGE.read_text()))
    assert constants() - named == set()
