"""How large docstore is, and what one put passes: the figures of `tests/test_size.py`.

    make size
    python -m tools.size [--folders] [--put]

Lines of code are lines with a token of Python; docstrings, comments and blank lines do not count.  Rust counts with its
tests and comments, but without tables of data (`native/core/data/*.in`); tools count whole, tests as docstore does, and
the cases of `tests/cases/` do not.
A class counts as a record type if it is a NamedTuple, a dataclass, an Enum, a TypedDict or a msgspec struct.  What a
put passes is what runs of docstore between `put_page` of a near duplicate and its answer, in one thread, in a store
that has put pages before: files, classes and functions in Python (native code is not seen), caches that are asked, and
the keys of its batch, read from LevelDB's log.
"""

from __future__ import annotations

import argparse
import ast
import functools
import gc
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

import docstore
from docstore.storage.cache import LruCache

ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = Path(docstore.__file__).parent
OUTSIDE_CORE: Final = ("serving", "cluster", "scrapy", "notes", "search")
"""Folders that a store in one process does not need."""
RECORDS: Final = frozenset({"NamedTuple", "dataclass", "TypedDict", "Struct", "Enum", "StrEnum", "IntEnum", "Flag"})
_NOT_FUNCTIONS: Final = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<lambda>")
_LOG_BLOCK_BYTES: Final = 32_768
_LOG_HEADER_BYTES: Final = 7


# --- the source


def tracked(*patterns: str) -> list[Path]:
    """Files that git tracks, and new ones that it does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return [path for name in sorted(set(listed.stdout.split())) if (path := ROOT / name).is_file()]


def lines_of(paths: list[Path]) -> int:
    """Lines of files together."""
    return sum(path.read_bytes().count(b"\n") for path in paths)


class _Facts(NamedTuple):
    """What is counted of a file; its tree, of very many objects, is not kept."""

    code_lines: int
    classes: int
    records: int
    calls: Counter[str]


@functools.cache
def _facts(path: Path) -> _Facts:
    """A string that stands alone as a statement is a docstring, and no code."""
    source = path.read_text("utf-8").split("\n")
    lines = {number for number, line in enumerate(source, 1) if line.strip() and not line.lstrip().startswith("#")}
    prose: set[int] = set()
    classes = records = 0
    calls: Counter[str] = Counter()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)):
            lines.update(range(node.lineno, (node.end_lineno or 0) + 1))  # of a long text, blank lines count too
        elif isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            prose.update(range(node.lineno, (node.end_lineno or 0) + 1))
        elif isinstance(node, ast.Call):
            calls[_name(node)] += 1
        elif isinstance(node, ast.ClassDef):
            classes += 1
            records += bool(RECORDS.intersection(map(_name, (*node.bases, *node.decorator_list))))
    return _Facts(len(lines - prose), classes, records, calls)


def lines_of_code(paths: list[Path]) -> int:
    """Lines of Python files together, without docstrings, comments and blank lines."""
    return sum(_facts(path).code_lines for path in paths)


def calls_of(name: str, paths: list[Path]) -> int:
    """How often Python files call a function of a name."""
    return sum(_facts(path).calls[name] for path in paths)


def classes_of(paths: list[Path]) -> tuple[int, int]:
    """Classes, and record types among them."""
    return sum(_facts(path).classes for path in paths), sum(_facts(path).records for path in paths)


def folder_of(path: Path) -> str:
    """The folder of the package that a module lies in; "" for the package itself."""
    parts = path.relative_to(ROOT / "docstore").parts
    return parts[0] if len(parts) > 1 else ""


def _name(node: ast.expr) -> str:
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


# --- one put


class Passed(NamedTuple):
    """What ran.

    Attributes:
        calls: of each function: (module, qualified name).
    """

    calls: Counter[tuple[str, str]]

    @property
    def modules(self) -> Counter[str]:
        """Calls by module."""
        found: Counter[str] = Counter()
        for (module, _), calls in self.calls.items():
            found[module] += calls
        return found

    @property
    def classes(self) -> set[tuple[str, str]]:
        """Classes of which a method ran."""
        names = ((module, name.replace(".<locals>.", ".").split(".")) for module, name in self.calls)
        return {(module, parts[0]) for module, parts in names if len(parts) > 1 and parts[0].lstrip("_")[:1].isupper()}

    @property
    def functions(self) -> int:
        """Functions and methods that ran, without comprehensions."""
        return sum(not name.endswith(_NOT_FUNCTIONS) for _, name in self.calls)


@functools.cache
def _module(filename: str) -> str:
    path = Path(filename)
    return path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else ""


def near_duplicate_put() -> Passed:
    """What a near duplicate passes in this thread, put into a store that has put others before."""
    calls: Counter[tuple[str, str]] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        module = _module(frame.f_code.co_filename) if event == "call" else ""
        if module:
            calls[module, frame.f_code.co_qualname] += 1

    with tempfile.TemporaryDirectory() as folder, docstore.open(Path(folder) / "store", create=True) as store:
        _fill(store)
        sys.setprofile(count)
        result = store.put_page("https://site.example/b", _page(1, 2))
        sys.setprofile(None)
        assert result.verdict.kind == "near", result
    return Passed(calls)


def caches_of_a_put() -> list[str]:
    """Caches that a put of a near duplicate asks: caches of functions, and those of the store.

    Those that native code has for itself are not seen.
    """
    with tempfile.TemporaryDirectory() as folder, docstore.open(Path(folder) / "store", create=True) as store:
        _fill(store)
        functions = [one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)]
        functions = [one for one in functions if str(getattr(one, "__module__", "")).startswith("docstore")]
        before = [one.cache_info()[:2] for one in functions]

        caches = [(one, one.hits, one.misses) for one in gc.get_objects() if isinstance(one, LruCache)]
        store.put_page("https://site.example/b", _page(1, 2))
        found = [
            f"{one.__module__}.{one.__qualname__}"
            for one, counts in zip(functions, before, strict=True)
            if one.cache_info()[:2] != counts
        ]
        asked = {id(one) for one, hits, misses in caches if (one.hits, one.misses) != (hits, misses)}
        for holder in gc.get_objects():
            names = vars(holder).items() if _is_ours(type(holder)) and hasattr(holder, "__dict__") else ()
            found += [f"{type(holder).__qualname__}.{name}" for name, value in names if id(value) in asked]
    return sorted(set(found))


def _is_ours(kind: type) -> bool:
    return str(kind.__module__).startswith("docstore") and not issubclass(kind, type)


def keys_of_a_put() -> tuple[int, int]:
    """Keys of LevelDB that a put writes: for each near duplicate of a page that is a base, and for its group."""

    def keys(pages: int) -> int:
        with tempfile.TemporaryDirectory() as folder, docstore.open(Path(folder) / "store", create=True) as store:
            _fill(store)
            list(store.put_pages([(f"https://site.example/b{number}", _page(number, 2)) for number in range(8)]))
            list(store.put_pages([(f"https://site.example/c{number}", _page(number, 3)) for number in range(pages)]))
            return batch_counts(next(Path(folder).rglob("engine/*.log")))[-1]

    one, many = keys(1), keys(7)
    return (many - one) // 6, one - (many - one) // 6


def batch_counts(log: Path) -> list[int]:
    """How many keys each batch in a log of LevelDB writes, in order (LevelDB's doc/log_format.md, write_batch.cc)."""
    data = log.read_bytes()
    counts = []
    offset = 0
    while offset + _LOG_HEADER_BYTES <= len(data):
        if _LOG_BLOCK_BYTES - offset % _LOG_BLOCK_BYTES < _LOG_HEADER_BYTES:
            offset += _LOG_BLOCK_BYTES - offset % _LOG_BLOCK_BYTES
            continue
        length, kind = int.from_bytes(data[offset + 4 : offset + 6], "little"), data[offset + 6]
        payload = data[offset + _LOG_HEADER_BYTES : offset + _LOG_HEADER_BYTES + length]
        if kind in (1, 2):  # whole, or the first part
            counts.append(int.from_bytes(payload[8:12], "little"))
        offset += _LOG_HEADER_BYTES + length
    return counts


def _fill(store: docstore.DocumentStore) -> None:
    for number in range(8):
        store.put_page(f"https://site.example/{number}", _page(number, 0))
    store.put_page("https://site.example/a", _page(0, 1))


def _page(number: int, changed: int) -> bytes:
    """A page of 600 words, of which a few are changed."""
    words = [f"word{number}x{place * place % 977}" for place in range(600)]
    for place in range(changed):
        words[100 * place + 50] = f"changed{place}"
    text = " ".join(words)
    return f"<html><head><title>Page {number}</title></head><body><p>{text}</p></body></html>".encode()


# --- the table


def figures() -> dict[str, int]:
    """All figures, by name."""
    package = tracked("docstore/*.py")
    core = [path for path in package if folder_of(path) not in OUTSIDE_CORE]
    classes, records = classes_of(package)
    passed = near_duplicate_put()
    of_page, of_group = keys_of_a_put()
    return {
        "lines of code of docstore/": lines_of_code(package),
        "lines of code of the core": lines_of_code(core),
        "files of docstore/": len(package),
        "classes": classes,
        "record types": records,
        "calls of import_module": calls_of("import_module", package),
        "files of a put": len(passed.modules),
        "classes of a put": len(passed.classes),
        "functions of a put": passed.functions,
        "caches of a put": len(caches_of_a_put()),
        "LevelDB keys of a put": of_page,
        "LevelDB keys of a group": of_group,
        "lines of Rust": lines_of(tracked("native/*.rs")),
        "lines of tools/": lines_of(tracked("tools/*.py", "tools/*.sh")),
        "lines of tests/": lines_of_code(tracked("tests/*.py")),
    }


def main() -> None:
    """Print the table; with --folders lines of code and files by folder, with --put each function that a put passes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--folders", action="store_true", help="lines of code, files and classes by folder")
    parser.add_argument("--put", action="store_true", help="functions and caches of a put")
    chosen = parser.parse_args()
    print("| what | now |\n|---|---|")
    for name, figure in figures().items():
        print(f"| {name} | {figure:,} |")
    if chosen.folders:
        paths = tracked("docstore/*.py")
        print("\n| folder | lines of code | files | classes |\n|---|---|---|---|")
        for folder in sorted(set(map(folder_of, paths))):
            inside = [path for path in paths if folder_of(path) == folder]
            print(f"| {folder or '(package)'} | {lines_of_code(inside):,} | {len(inside)} | {classes_of(inside)[0]} |")
    if chosen.put:
        passed = near_duplicate_put()
        for module, calls in passed.modules.most_common():
            names = sorted(name for (its, name) in passed.calls if its == module)
            print(f"{calls:6} {module}: {', '.join(names)}")
        print("caches:", ", ".join(caches_of_a_put()))


if __name__ == "__main__":
    main()
