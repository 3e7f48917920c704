"""`python -m docstore.cli` is `docstore`."""

from __future__ import annotations

from docstore.cli import start

start()
