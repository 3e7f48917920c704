"""The house rules that a program can check: floors, single importers, file sizes, first lines."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "docstore"

FLOORS = {
    "docstore.version": 0,
    "docstore.errors": 0,
    "docstore.format": 0,
    "docstore.codec": 1,
    "docstore.compiled": 1,
    "docstore.dedup.docstore_native": 1,
    "docstore.model": 1,
    "docstore.files": 1,
    "docstore.keys": 1,
    "docstore.drawing": 1,
    "docstore.hexdump": 1,
    "docstore.engines": 2,
    "docstore.html": 2,
    "docstore.dedup": 2,
    "docstore.reserve": 2,
    "docstore.table": 3,
    "docstore.tablets": 3,
    "docstore.dedup.index": 4,
    "docstore.dedup.detector": 4,
    "docstore.dedup.prune": 4,
    "docstore.capture": 4,
    "docstore.documents": 5,
    "docstore.cells": 5,
    "docstore.collapse": 5,
    "docstore.layout": 5,
    "docstore.lookup": 5,
    "docstore.losses": 5,
    "docstore.anchors": 5,
    "docstore.snippet": 5,
    "docstore.writing": 5,
    "docstore.compaction": 5,
    "docstore.store": 5,
    "docstore.check": 6,
    "docstore.backup": 5,
    "docstore.reindex": 6,
    "docstore.salvage": 6,
    "docstore.sweep": 6,
    "docstore.reports": 6,
    "docstore.ingest": 6,
    "docstore.export": 6,
    "docstore.formats": 6,
    "docstore.reading": 6,
    "docstore.cli": 7,
}
"""Floor by module; a module inside a package takes the longest name here that it begins with."""

ONLY_IMPORTER = {
    "plyvel": {"docstore.engines.leveldb"},
    "plyvel_next": {"docstore.engines.leveldb"},
    "zstandard": {"docstore.tablets.values", "docstore.formats.feeds", "docstore.formats.http"},
    "ada_url": {"docstore.keys"},
    "warcio": {"docstore.formats"},
}
"""Where a library may be imported: values on disk are decoded in one place; archive formats bring their own zstd."""

NATIVE_CODE = "docstore.dedup.docstore_native"
"""One module imports it, so that one answer to whether it is there holds everywhere."""

LARGEST_FILE_LINES = 600


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def floor(module: str) -> int:
    known = [name for name in FLOORS if module == name or module.startswith(name + ".")]
    assert known, f"{module} has no floor: add it to FLOORS and to docs/architecture.md"
    return FLOORS[max(known, key=len)]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of every import that runs; those under TYPE_CHECKING too, for they are knowledge as well."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            for alias in node.names:
                inner = PACKAGE.parent / Path(*node.module.split("."), alias.name + ".py")
                is_module = inner.exists() or inner.with_suffix(".pyi").exists()
                yield node.lineno, f"{node.module}.{alias.name}" if is_module else node.module


LOADED_LATER = {
    ("docstore.store", "docstore.writing.half"),
    ("docstore.store", "docstore.writing.prepared"),
    ("docstore.store", "docstore.snippet"),
    ("docstore.capture", "docstore.dedup.analysis"),
}
"""Imports for the type checker alone, between modules of one floor."""


@pytest.mark.parametrize(("module", "path"), list(modules()), ids=lambda value: value if isinstance(value, str) else "")
def test_imports_only_point_down(module: str, path: Path) -> None:
    for line, imported in imports(path):
        if imported.split(".")[0] != "docstore" or module == "docstore":
            continue
        assert imported != "docstore", f"{path}:{line} imports the package root"
        if (module, imported) in LOADED_LATER:
            continue
        assert floor(imported) <= floor(module), f"{path}:{line}: {module} (floor {floor(module)}) imports {imported}"
        assert imported != NATIVE_CODE or module == "docstore.compiled", f"{path}:{line}: ask docstore.compiled"
        for one, other in (("docstore.tablets", "docstore.dedup"), ("docstore.dedup", "docstore.tablets")):
            assert not (within(module, one) and within(imported, other)), f"{path}:{line}: {one} knows {other}"


def test_there_are_no_import_cycles() -> None:
    names = {module for module, _ in modules()}
    graph = {
        module: {name for _, name in imports(path) if name in names and (module, name) not in LOADED_LATER}
        for module, path in modules()
    }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail[trail.index(module) :], module))
        if module in done:
            return
        for imported in graph[module]:
            visit(imported, (*trail, module))
        done.add(module)

    for module in graph:
        visit(module, ())


def test_libraries_have_one_importer() -> None:
    for module, path in modules():
        for line, imported in imports(path):
            allowed = ONLY_IMPORTER.get(imported.split(".")[0])
            if allowed is not None:
                assert any(module == name or module.startswith(name + ".") for name in allowed), (
                    f"{path}:{line}: {imported} is imported in {module}; only {sorted(allowed)} may"
                )


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
@pytest.mark.parametrize(("system", "machine"), [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")])
def test_every_python_gets_one_library_for_leveldb(python: str, system: str, machine: str) -> None:
    """11.C10: plyvel has wheels for Linux on x86_64 up to CPython 3.12, plyvel-next from 3.12 on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    environment = {"python_version": python, "sys_platform": system, "platform_machine": machine}
    wanted = [
        requirement.name
        for requirement in map(Requirement, project["dependencies"])
        if requirement.name.startswith("plyvel")
        and requirement.marker is not None
        and requirement.marker.evaluate(environment)
    ]
    has_wheel = (system, machine) == ("linux", "x86_64") and python in ("3.11", "3.12")
    assert wanted == (["plyvel"] if has_wheel or python == "3.11" else ["plyvel-next"])


def test_no_test_looks_at_the_clock() -> None:
    """11.C11: on a loaded machine a second of the clock is no measure; `processor_time` has one."""
    for path in (ROOT / "tests").rglob("*.py"):
        found = re.search(r"\btime\.(?:perf_counter|monotonic)(?:_ns)?\(", path.read_text(encoding="utf-8"))
        assert found is None, f"{path} measures with {found}"


def test_files_are_short_and_say_what_they_know() -> None:
    for module, path in modules():
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        assert lines <= LARGEST_FILE_LINES, f"{path}: {lines} lines"
        assert ast.get_docstring(ast.parse(text)), f"{module} does not say what it knows"
        assert path.stem not in {"utils", "util", "helpers", "common", "misc"}, path


NEVER = _parser.parse("(?!)")
"""What `(?!)` is in a parsed expression; not the same in every Python."""


def unsafe_repeats(expression: str | bytes, flags: int = 0) -> list[str]:
    """Parts of an expression that CPython before 3.11.5 matches wrongly (gh-106052).

    They are atomic groups, and possessive repeats of more than one character whose last alternative is not `(?!)`.
    """
    found = []

    def visit(node: Any) -> None:
        if isinstance(node, _parser.SubPattern):
            node = node.data
        if isinstance(node, (list, tuple)):
            match node:
                case (_constants.ATOMIC_GROUP, _):
                    found.append("an atomic group")
                case (_constants.POSSESSIVE_REPEAT, (_, _, repeated)) if not is_safe(repeated):
                    found.append(f"a possessive repeat of {repeated}")
            for part in node:
                visit(part)

    def is_safe(repeated: Any) -> bool:
        if len(repeated) > 1:
            return False
        what, inside = repeated[0]
        if what is _constants.BRANCH:
            return repr(inside[1][-1]) == repr(NEVER)
        return what in (_constants.LITERAL, _constants.NOT_LITERAL, _constants.IN, _constants.ANY)

    visit(_parser.parse(expression, flags))
    return found


def test_the_rule_of_possessive_repeats_notices_what_is_wrong() -> None:
    for wrong in ("(?:ab?c)*+", "(?:ab?c)?+", "(?>ab?c)", "x(?:y(?:ab|c)++)?", "(?:a(?!)|b)*+"):
        assert unsafe_repeats(wrong), wrong
    for right in ("[ab]*+", "a++", "(?:ab?c|(?!))*+", "(?:ab?c)*", "[^<]*+(?:<(?!x)[^<]*+|(?!))*+"):
        assert not unsafe_repeats(right), right


def test_possessive_repeats_are_such_that_every_python_matches_them_right() -> None:
    seen = 0
    for module, _ in modules():
        if module == "docstore.cli.__main__":  # importing it runs it
            continue
        for name, value in vars(importlib.import_module(module)).items():
            if isinstance(value, re.Pattern):
                seen += 1
                assert not unsafe_repeats(value.pattern, value.flags & ~re.UNICODE), f"{module}.{name}"
    assert seen > 40
