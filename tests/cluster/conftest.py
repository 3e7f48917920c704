"""What the tests of a cluster measured, below the summary: docs/hbase.md shows it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

_LINES: list[str] = []


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Notes a line that is printed at the end."""
    return lambda line: _LINES.append(f"{request.node.name}: {line}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in _LINES:
        terminalreporter.write_line(line)
    _LINES.clear()
