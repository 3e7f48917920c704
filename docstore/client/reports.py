"""Reports of jobs, as the types that the embedded store gives.

Knows dataclasses; must not know which reports there are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

from docstore.wire.shapes import read

_T = TypeVar("_T")


def report_of(kind: type[_T]) -> Callable[[Any], _T]:
    """Reads a report; what it only derives from its fields is passed over."""
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]

    def read_report(given: Any) -> _T:
        known = {name: value for name, value in given.items() if name in names} if isinstance(given, dict) else given
        return read(kind, known, "the report")

    return read_report
