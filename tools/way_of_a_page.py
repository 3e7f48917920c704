"""The way of a page: which modules of docstore a put of a near-duplicate passes, and how often.

    python -m tools.way_of_a_page
    python -m tools.way_of_a_page --modules

Counts files, classes and functions that run between `put_page` and its answer, in one thread, with the store warm.
A module counts if one of its functions runs; native code is not seen.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import docstore

PACKAGE = Path(docstore.__file__).parent
_NOT_FUNCTIONS = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<lambda>")


class Passed(NamedTuple):
    """What ran.

    Attributes:
        calls: of each function: (module, qualified name).
        entries: of each package: how often the way came into it from another one.
    """

    calls: Counter[tuple[str, str]]
    entries: Counter[str]

    def modules(self) -> Counter[str]:
        """Calls by module."""
        found: Counter[str] = Counter()
        for (module, _), calls in self.calls.items():
            found[module] += calls
        return found

    def classes(self) -> set[tuple[str, str]]:
        """Classes of which a method ran."""
        names = ((module, name.replace(".<locals>.", ".").split(".")) for module, name in self.calls)
        return {(module, parts[0]) for module, parts in names if len(parts) > 1 and parts[0].lstrip("_")[:1].isupper()}

    def functions(self) -> int:
        """Functions and methods that ran, without comprehensions."""
        return sum(not name.endswith(_NOT_FUNCTIONS) for _, name in self.calls)


class Tracer:
    """Notes the functions of docstore that run in this thread while it is entered."""

    def __init__(self) -> None:
        self._calls: Counter[CodeType] = Counter()
        self._entries: Counter[str] = Counter()
        self._last = ""
        self._modules: dict[str, str] = {}

    def __enter__(self) -> Tracer:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        module = self._module(frame.f_code)
        if module:
            self._calls[frame.f_code] += 1
            package = module.split("/")[0]
            if package != self._last:
                self._last = package
                self._entries[package] += 1

    def _module(self, code: CodeType) -> str:
        name = self._modules.get(code.co_filename)
        if name is None:
            path = Path(code.co_filename)
            name = path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else ""
            self._modules[code.co_filename] = name
        return name

    def passed(self) -> Passed:
        """What has run."""
        calls: Counter[tuple[str, str]] = Counter()
        for code, count in self._calls.items():
            calls[self._module(code), code.co_qualname] += count
        return Passed(calls, self._entries)


def near_duplicate_put() -> Passed:
    """What a near-duplicate passes, put into a store that has put others before."""
    with tempfile.TemporaryDirectory() as folder, docstore.open(Path(folder) / "store", create=True) as store:
        for number in range(8):
            store.put_page(f"https://site.example/{number}", _page(number, 0))
        store.put_page("https://site.example/a", _page(0, 1))
        with Tracer() as tracer:
            result = store.put_page("https://site.example/b", _page(1, 2))
        assert result.verdict.kind == "near", result
    return tracer.passed()


def _page(number: int, changed: int) -> bytes:
    """A page of 600 words, of which a few are changed."""
    words = [f"word{number}x{place * place % 977}" for place in range(600)]
    for place in range(changed):
        words[100 * place + 50] = f"changed{place}"
    text = " ".join(words)
    return f"<html><head><title>Page {number}</title></head><body><p>{text}</p></body></html>".encode()


def main() -> None:
    """Print the counts; with --modules each module with its functions, in the order of calls."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--modules", action="store_true", help="list modules and functions too")
    chosen = parser.parse_args()
    passed = near_duplicate_put()
    modules = passed.modules()
    print(f"files {len(modules)}, classes {len(passed.classes())}, functions {passed.functions()}")
    for package, entries in passed.entries.most_common():
        inside = [module for module in modules if module.split("/")[0] == package]
        calls = sum(modules[module] for module in inside)
        print(f"{package:16} {len(inside):3} files {calls:6} calls, entered {entries} times")
    if chosen.modules:
        for module, calls in modules.most_common():
            names = sorted(name for (its, name) in passed.calls if its == module)
            print(f"{calls:6} {module}: {', '.join(names)}")


if __name__ == "__main__":
    main()
