"""What all tests share: the `--rewrite` option of golden files, and what Hypothesis leaves to the machine.

Being here puts `tests/` on the import path.
"""

from __future__ import annotations

import os

import pytest
from counts import few
from hypothesis import HealthCheck, settings

# How long an example takes says nothing of the code where other work runs beside the tests.
settings.register_profile(
    "docstore", deadline=None, max_examples=few(100, 4), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("docstore")

os.environ.pop("COLUMNS", None)  # workers of xdist have it: answers would be folded as for a terminal


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write golden files anew; review the difference")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite"))
