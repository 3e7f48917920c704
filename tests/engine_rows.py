"""Rows of cells put straight into an engine, for tests of engines."""

from __future__ import annotations

from docstore.model.choices import Durability
from docstore.model.types import Mutation, RowMutations, SetCell
from docstore.storage.engine import Engine

NONE = Durability.NONE
ROW = b"com,example)/"


def put(engine: Engine, row_key: bytes, *cells: tuple[str, bytes, int, bytes], table: str = "pages") -> None:
    engine.mutate_rows([RowMutations(table, row_key, [SetCell(*cell) for cell in cells])], NONE)


def mutate(engine: Engine, row_key: bytes, *mutations: Mutation, table: str = "pages") -> None:
    engine.mutate_rows([RowMutations(table, row_key, mutations)], NONE)


def post(engine: Engine, row_key: bytes, *qualifiers: bytes) -> None:
    put(engine, row_key, *(("p", qualifier, 0, b"") for qualifier in qualifiers), table="postings")
