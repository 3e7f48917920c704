"""How many examples the tests draw: one in a few in `make test`, all of them in `make test-all`."""

from __future__ import annotations

import os

DRAWS_ALL = os.environ.get("DOCSTORE_EXAMPLES") == "all"


LEAST = 12
"""Fewer examples of a property are not drawn."""


def few(full: int, one_in: int = 10) -> int:
    """Return how many of `full` examples this run draws: one in `one_in`, or all if DOCSTORE_EXAMPLES is `all`."""
    return full if DRAWS_ALL else max(full // one_in, min(full, LEAST))


def share(full: int, one_in: int) -> int:
    """Return a size that is a part of `full`, or all of it if DOCSTORE_EXAMPLES is `all`."""
    return full if DRAWS_ALL else full // one_in


def stride(step: int) -> int:
    """Return the step through examples that are all there: every `step`-th, or each if DOCSTORE_EXAMPLES is `all`."""
    return 1 if DRAWS_ALL else step
