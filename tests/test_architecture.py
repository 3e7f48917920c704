"""The house rules that a program can check: layers, single importers, file sizes, first lines."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "docstore"

LAYERS = {
    "docstore.version": 0,
    "docstore.compiled": -1,
    "docstore.model": 0,
    "docstore.storage": 1,
    "docstore.text": 2,
    "docstore.serving.wire": 1,
    "docstore.dedup": 3,
    "docstore.tablets": 3,
    "docstore.backends": 5,
    "docstore.reading": 4,
    "docstore.writing": 5,
    "docstore.store": 6,
    "docstore.serving.client": 6.5,
    "docstore.attach": 7,
    "docstore.search.results": 5,
    "docstore.search.commands": 12,
    "docstore.search": 7,
    "docstore.sweep": 8,
    "docstore.archives": 9,
    "docstore.reports": 9,
    "docstore.serving": 10,
    "docstore.scrapy": 9,
    "docstore.cluster": 9,
    "docstore.spark.command": 12,
    "docstore.spark": 10,
    "docstore.cli": 11,
    "docstore.notes": 12,
}
"""Layer by package.  A module imports its own package and packages of lower layers, none beside it."""

NEEDS = {
    "docstore.scrapy": "scrapy",
    "docstore.search": "tantivy",
    "docstore.serving": "uvicorn",
    "docstore.spark.job": "pyspark",
    "docstore.spark.kernels": "pyarrow",
    "docstore.archives.arrow": "pyarrow",
    "docstore.archives.parquet": "pyarrow",
}
"""Packages and modules behind an extra: the library without which they do not import."""

ONLY_IMPORTER = {
    "thriftpy2": {"docstore.cluster.client"},
    "plyvel": {"docstore.tablets.engines.leveldb"},
    "plyvel_next": {"docstore.tablets.engines.leveldb"},
    "zstandard": {
        "docstore.tablets.codec",
        "docstore.archives.source",
        "docstore.archives.export",
        "docstore.archives.http",
        "docstore.serving.wire",
        "docstore.serving.messages",
        "docstore.serving.request",
    },
    "pypdf": {"docstore.text.pdf"},
    "tantivy": {"docstore.search"},
    "uvicorn": {"docstore.serving.run"},
    "ada_url": {"docstore.model.keys"},
    "pyarrow": {
        "docstore.spark.kernels",
        "docstore.archives.parquet",
        "docstore.archives.arrow",
        *("docstore.store", "docstore.serving.client"),  # the type alone
    },
    "pyspark": {"docstore.spark.job"},
    "fsspec": {"docstore.archives.locations"},
    "stopwordsiso": {"docstore.notes.words"},
    "warcio": {"docstore.archives.http", "docstore.archives.export"},
}
"""Where a library may be imported: values on disk are decoded in one place; archive formats bring their own zstd."""

NATIVE_CODE = "docstore.dedup.docstore_native"
"""One module imports it, so that one answer to whether it is there holds everywhere."""

LARGEST_FILE_LINES = 800

PUBLIC_ALL_THE_SAME = {"_replace", "_fields", "_exit", "_actions"}
"""Of named tuples, of `os`, and of a parser of arguments, which has no other list of them."""


@functools.cache
def modules() -> tuple[tuple[str, Path], ...]:
    paths = sorted(PACKAGE.rglob("*.py"))
    return tuple(
        (".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path) for path in paths
    )


def within(module: str, package: str) -> bool:
    """Whether a module is in a package; `client_http` is in `client`, as a file of the same subject."""
    return module == package or module.startswith((package + ".", package + "_"))


def package(module: str) -> str:
    """The entry of LAYERS that a module belongs to."""
    known = [name for name in LAYERS if within(module, name)]
    assert known, f"{module} has no layer: add it to LAYERS and to docs/architecture.md"
    return known[0]


class Source(NamedTuple):
    """What is asked of a module; its tree, of very many objects, is not kept.

    Attributes:
        docstring: if it has one.
        imports: (line, module, whether only a function imports it, or a table names it) of every import.
    """

    docstring: str | None
    imports: list[tuple[int, str, bool]]


@functools.cache
def source(path: Path) -> Source:
    root = ast.parse(path.read_text(encoding="utf-8"))
    return Source(ast.get_docstring(root), list(read_imports(root, path)))


@functools.cache
def is_module(name: str) -> bool:
    path = ROOT / Path(*name.split("."))
    return path.with_suffix(".py").exists() or path.with_suffix(".pyi").exists()


def read_imports(root: ast.Module, path: Path) -> Iterator[tuple[int, str, bool]]:
    known = {name for name, _ in modules()} - {"docstore"}
    waiting: list[tuple[ast.AST, bool]] = [(root, False)]
    while waiting:
        node, later = waiting.pop()
        later = later or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        waiting += ((inner, later) for inner in ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, later) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield node.lineno, inner if is_module(inner) else node.module, later
        elif isinstance(node, ast.Constant) and node.value in known:
            yield node.lineno, node.value, True


def imports(path: Path, *, later: bool = True) -> list[tuple[int, str]]:
    """(line, module) of every import: they are knowledge, also those for the type checker, in functions and by name.

    Args:
        path: of the module.
        later: also the imports in functions, and the names of modules in tables.
    """
    return [(line, name) for line, name, is_later in source(path).imports if later or not is_later]


LOADED_LATER = {
    ("docstore.store", "docstore.writing.writer"),
    ("docstore.store", "docstore.writing.prepare"),
    ("docstore.store", "docstore.reading.snippet"),
    ("docstore.store", "docstore.search.index"),
    ("docstore.store", "docstore.search.query"),
    ("docstore.store", "docstore.archives.arrow"),
    ("docstore.store", "docstore.archives.selection"),
    ("docstore.serving.client", "docstore.archives.arrow"),
    ("docstore.serving.client", "docstore.archives.selection"),
    ("docstore.backends", "docstore.cluster.backend"),
    ("docstore.cli.output", "docstore.notes.words"),
    ("docstore.cli.main", "docstore.search.commands"),
    ("docstore.cli.main", "docstore.notes.annotate"),
    ("docstore.cli.main", "docstore.notes.links"),
}
"""Imports of a higher layer: for the type checker alone, in the method that needs an extra, and by name."""


def test_imports_only_point_down() -> None:
    for module, path in modules():
        for line, imported in imports(path):
            if imported.split(".")[0] != "docstore" or module == "docstore":
                continue
            assert imported != "docstore", f"{path}:{line} imports the package root"
            assert imported != NATIVE_CODE or module == "docstore.compiled", f"{path}:{line}: ask docstore.compiled"
            own, other = package(module), package(imported)
            if own == other or imported == NATIVE_CODE or (module, imported) in LOADED_LATER:
                continue
            assert LAYERS[other] < LAYERS[own], f"{path}:{line}: {own} (layer {LAYERS[own]}) imports {imported}"


def test_there_are_no_import_cycles() -> None:
    names = {module for module, _ in modules()}
    graph = {
        module: {name for _, name in imports(path, later=False) if name in names and (module, name) not in LOADED_LATER}
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


OWNERS = {
    "plyvel": {"docstore.tablets.engines.leveldb"},
    "zstandard": {"docstore.tablets.codec", "docstore.archives.source"},
    "msgpack": {"docstore.model.capture", "docstore.storage.schema"},
    "mmh3": {"docstore.tablets.manifest"},
}
"""The packages of the owner, and where each is used."""


def test_each_package_of_the_owner_is_used_at_a_named_place() -> None:
    for library, places in OWNERS.items():
        assert places <= {
            module for module, path in modules() if library in {name.split(".")[0] for _, name in imports(path)}
        }


def test_the_package_never_imports_its_tests() -> None:
    """The readable definitions in `tests/reference/` are for tests; what the package computes, native code computes."""
    for _, path in modules():
        for line, imported in imports(path):
            assert imported.split(".")[0] != "tests", f"{path}:{line} imports {imported}"


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
    """11.C11: on a loaded machine a second of the clock is no measure; `processor_time` has one.  None sleeps.

    The soak is no test: it lasts as long as it is told.
    """
    for path in set((ROOT / "tests").rglob("*.py")) - {ROOT / "tests" / "crash" / "soak.py"}:
        found = re.search(r"\btime\.(?:perf_counter|monotonic|sleep)(?:_ns)?\(", path.read_text(encoding="utf-8"))
        assert found is None, f"{path}: {found}"


def test_unsafe_code_says_why_it_is_safe() -> None:
    for path in (ROOT / "native").glob("*/src/**/*.rs"):
        lines = path.read_text(encoding="utf-8").splitlines()
        is_said_of_all = False
        for number, line in enumerate(lines):
            is_said_of_all |= "SAFETY, of every block here" in line
            if re.match(r"\s*(?!//)[^/]*\bunsafe\b", line) and not is_said_of_all:
                assert "SAFETY" in "".join(lines[max(0, number - 4) : number]), f"{path}:{number + 1}"


def is_private(name: str) -> bool:
    return re.match("_[A-Za-z]", name) is not None and name not in PUBLIC_ALL_THE_SAME


MAY_BE_PRIVATE = re.compile(
    rf"(?<!self)(?<!cls)\._(?!(?:{'|'.join(name[1:] for name in PUBLIC_ALL_THE_SAME)})\b)[A-Za-z]"
    r"|\bimport\b.*\b_[A-Za-z]|^\s+_[A-Za-z]\w*,$|,\s*[\"']_[A-Za-z]",
    re.MULTILINE,
)
"""Most files have none of these, and need not be parsed."""


def private_names(text: str) -> Iterator[tuple[int, str]]:
    """(line, name) of private names of others that Python code reaches into; its own, of `self` and `cls`, it may."""
    for node in ast.walk(ast.parse(text)) if MAY_BE_PRIVATE.search(text) else ():
        names: list[str] = []
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") not in {"self", "cls"}:
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("docstore"):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and any(isinstance(arg, ast.Constant) for arg in node.args[1:2]):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            names = [node.args[1].value] if called in {"getattr", "setattr", "delattr", "object"} else []
        yield from ((node.lineno, name) for name in names if is_private(str(name)))


def test_tests_touch_no_private_names() -> None:
    imported = ("from docstore.x import _y", "from docstore.x import (\n    _y,\n)")
    for wrong in ("store._y", *imported, "monkeypatch.setattr(store, '_y', 1)", "a.b()._y()"):
        assert [name for _, name in private_names(wrong)] == ["_y"], wrong
    assert not list(private_names("self._a + cls._b + pair._replace(x=1)"))
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        found += [f"{path}:{line}: {name}" for line, name in private_names(path.read_text(encoding="utf-8"))]
    assert found == []


def test_files_are_short_and_say_what_they_know() -> None:
    for module, path in modules():
        text = path.read_text(encoding="utf-8")
        lines = text.count("\n")
        assert lines <= LARGEST_FILE_LINES, f"{path}: {lines} lines"
        assert source(path).docstring, f"{module} does not say what it knows"
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
        needed = NEEDS.get(module) or (NEEDS.get(package(module)) if module != "docstore" else None)
        if module == "docstore.cli.__main__" or (needed and importlib.util.find_spec(needed) is None):
            continue  # importing the first runs it
        for name, value in vars(importlib.import_module(module)).items():
            if isinstance(value, re.Pattern):
                seen += 1
                assert not unsafe_repeats(value.pattern, value.flags & ~re.UNICODE), f"{module}.{name}"
    assert seen > 40


def test_the_binding_has_small_files_without_circles_and_only_it_knows_python() -> None:
    sources = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "native/python/src").glob("*.rs")}
    assert {name: text.count("\n") for name, text in sources.items() if text.count("\n") > 400} == {}
    used = {name: set(re.findall(r"\bcrate::(\w+)", text)) & sources.keys() for name, text in sources.items()}
    while used:
        done = {name for name, others in used.items() if not others & used.keys()}
        assert done, f"these modules use each other in a circle: {sorted(used)}"
        used = {name: others for name, others in used.items() if name not in done}
    for manifest in (ROOT / "native").glob("*/Cargo.toml"):
        if manifest.parent.name != "python":
            assert "pyo3" not in manifest.read_text(encoding="utf-8"), manifest
