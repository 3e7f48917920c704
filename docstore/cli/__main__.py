"""`python -m docstore.cli` is `docstore`."""

from __future__ import annotations

from docstore.cli.main import program

program()
