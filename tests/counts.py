"""How many examples the tests draw: one in a few in `make test`, all of them in `make test-all`."""

from __future__ import annotations

import os

DRAWS_ALL = os.environ.get("DOCSTORE_EXAMPLES") == "all"


def few(full: int, one_in: int = 5) -> int:
    """Return how many of `full` examples this run draws: one in `one_in`, or all if DOCSTORE_EXAMPLES is `all`."""
    return full if DRAWS_ALL else max(full // one_in, 1)
