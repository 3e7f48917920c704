"""What is public: names of `docstore`, their methods and parameters, and the options of all commands.

`api.txt` lists them.  CONTRIBUTING.md says what may change in which version.  `pytest --rewrite` writes the file anew.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docstore
from docstore.cli.arguments import parser_of
from docstore.cli.main import COMMANDS

GOLDEN = Path(__file__).with_name("api.txt")
OF_TUPLES = frozenset({"count", "index"})
"""What each NamedTuple has from tuple."""


def parameters(function: Any) -> str:
    """Names and defaults of a function; annotations may be written in other ways and mean the same."""
    shown: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        default = "" if parameter.default is inspect.Parameter.empty else f"={shown_default(parameter.default)}"
        star = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
        if parameter.kind.name == "KEYWORD_ONLY" and not any(each.startswith("*") for each in shown):
            shown.append("*")
        if parameter.name not in ("self", "cls"):
            shown.append(f"{star}{parameter.name}{default}")
    return ", ".join(shown)


def shown_default(value: object) -> str:
    return f"<{type(value).__name__}>" if " at 0x" in repr(value) or len(repr(value)) > 60 else repr(value)


def of_class(name: str, kind: type) -> Iterator[str]:
    if issubclass(kind, enum.Enum):
        yield f"{name}: {', '.join(f'{each.name}={each.value}' for each in kind)}"
        return
    if issubclass(kind, Exception):
        yield f"{name} is a {kind.__mro__[1].__name__}"
        return
    bases = [base.__name__ for base in kind.__mro__[1:] if base.__name__ in docstore.__all__]
    try:
        yield f"{name}({parameters(kind)})" + (f" is a {bases[0]}" if bases else "")
    except ValueError:
        yield name
    fields = {*getattr(kind, "_fields", ()), *getattr(kind, "__dataclass_fields__", ())}
    for member in sorted(dir(kind)):
        if member.startswith("_") or member in fields or (issubclass(kind, tuple) and member in OF_TUPLES):
            continue
        value = inspect.getattr_static(kind, member)
        if isinstance(value, property):
            yield f"{name}.{member}"
        elif callable(getattr(kind, member)) and member not in dir(Exception):
            yield f"{name}.{member}({parameters(getattr(kind, member))})"


def of_python() -> Iterator[str]:
    for name in docstore.__all__:
        value = getattr(docstore, name)
        if inspect.isclass(value):
            yield from of_class(name, value)
        elif callable(value):
            yield f"{name}({parameters(value)})"
        else:
            yield name


def of_commands() -> Iterator[str]:
    for command in sorted(COMMANDS, key=lambda command: command.name):
        for action in parser_of(command)._actions:
            if "--help" not in action.option_strings:
                choices = "" if action.choices is None else f" {{{','.join(map(str, action.choices))}}}"
                yield f"docstore {command.name}: {', '.join(action.option_strings) or action.dest}{choices}"


def test_what_is_public_is_as_listed(rewrite: bool) -> None:
    lines = [*of_python(), *of_commands()]
    if rewrite:
        GOLDEN.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert lines == GOLDEN.read_text(encoding="utf-8").splitlines()
