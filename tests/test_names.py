"""One word for each thing: options, parameters and fields agree with tests/golden/names.md."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import docstore
from docstore.archives.copying import CopyReport
from docstore.archives.export import ExportReport
from docstore.archives.ingest import IngestOptions, IngestReport
from docstore.archives.selection import Selection
from docstore.cli.arguments import parser_of
from docstore.cli.main import COMMANDS
from docstore.model import types
from docstore.model.plain import TIMES
from docstore.reading import cells, collapse, documents, snippet
from docstore.reports import dedup, measures
from docstore.search import results as search
from docstore.serving import routes
from docstore.serving.client import RemoteCells, RemoteStore
from docstore.serving.client_calls import About, CallLimits, Job, Listed
from docstore.serving.settings import Settings
from docstore.storage import reports
from docstore.store import DocumentStore, open_store
from docstore.sweep.job import SweepOptions, SweepReport
from docstore.sweep.reindex import ReindexReport

PAGE = Path(__file__).resolve().parent / "golden" / "names.md"
WORDS = re.compile(r"`([a-z_]+)`")
RECORDS = (
    *(CopyReport, ExportReport, Selection, IngestOptions, IngestReport, SweepOptions, SweepReport),
    *(
        ReindexReport,
        Settings,
        About,
        Job,
        CallLimits,
        Listed,
        documents.Rejected,
        reports.CompactionReport,
        reports.BackupReport,
    ),
    *(collapse.Similar, collapse.Orphan, cells.Row, documents.Capture, documents.Document, snippet.Snippet, search.Hit),
    *(search.SearchResults, search.SearchOptions, search.IndexReport, dedup.DedupStats, dedup.KnownDuplicate),
    *(measures.SimhashMatch, measures.SimhashPair, types.Page, types.PutResult, types.Verdict, types.Schema),
    *(types.Cell, types.SetCell, types.DeleteCells, types.ReadSpec, types.Note, types.GCPolicy),
)
METAVARS_BY_COMMAND = {
    "--family": {"NAME", "NAME[:max_versions=N,max_age=30d,intersection]"},
    "--store": {"PATH"},
}
"""Options that take more in `init`, which declares what others name."""


def table() -> list[tuple[set[str], set[str]]]:
    """The words of each row, and those that stand for none."""
    rows = [line.split("|")[1:-1] for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    return [(set(WORDS.findall(words)), set(WORDS.findall(others))) for words, _, others in rows]


def parameters(function: Any) -> Iterator[tuple[str, Any]]:
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in ("self", "context", "_context", "service") and parameter.kind is not parameter.VAR_KEYWORD:
            yield name, parameter.annotation


def names() -> dict[str, set[str]]:
    """Every name that a user meets, and where."""
    found = defaultdict[str, set[str]](set)
    for command in COMMANDS:
        for action in parser_of(command)._actions:
            if action.option_strings:
                found[action.option_strings[-1].removeprefix("--").removeprefix("no-").replace("-", "_")].add(
                    f"docstore {command.name}"
                )
    for kind in (DocumentStore, RemoteStore, cells.CellStore, RemoteCells):
        for method, value in inspect.getmembers(kind, callable):
            if not method.startswith("_"):
                found[method].add(kind.__name__)
                for name, _ in parameters(value):
                    found[name].add(f"{kind.__name__}.{method}")
    for function in (open_store, docstore.connect):
        for name, _ in parameters(function):
            found[name].add(function.__name__)
    for record in RECORDS:
        for name in (*fields(record), *(method for method in vars(record) if method == "asdict")):
            found[name].add(record.__name__)
    for route in routes.ROUTES:
        for name, _ in parameters(route.function):
            found[name].add(route.path)
    return found


def fields(record: Any) -> dict[str, Any]:
    hints = record.__annotations__ if record is search.SearchOptions else typing.get_type_hints(record)
    if dataclasses.is_dataclass(record):
        return {field.name: hints[field.name] for field in dataclasses.fields(record)}
    return {name: hints[name] for name in getattr(record, "_fields", hints)}


@pytest.fixture(scope="module")
def used() -> dict[str, set[str]]:
    return names()


def test_the_table_is_short_and_its_words_are_used(used: dict[str, set[str]]) -> None:
    assert len(PAGE.read_text("utf-8").replace("|", " ").split()) <= 250
    for words, _ in table():
        assert words <= used.keys(), words - used.keys()


def test_no_name_is_one_that_the_table_refuses(used: dict[str, set[str]]) -> None:
    for words, others in table():
        for other in sorted(others & used.keys()):
            pytest.fail(f"{other} of {', '.join(sorted(used[other]))}: write {' or '.join(sorted(words))}")


def test_an_option_has_one_metavar() -> None:
    shown = defaultdict[str, set[str]](set)
    for command in COMMANDS:
        for action in parser_of(command)._actions:
            for option in action.option_strings:
                if action.metavar is not None:
                    shown[option].add(str(action.metavar))
    more = {option: found for option, found in shown.items() if found - METAVARS_BY_COMMAND.get(option, found)}
    assert more == {}
    assert {option for option, found in shown.items() if len(found) > 1} <= METAVARS_BY_COMMAND.keys()


def test_every_time_is_shown_in_iso_and_nothing_else_is() -> None:
    for record in RECORDS:
        for name, kind in fields(record).items():
            where = f"{record.__name__}.{name}"
            is_time = name in TIMES
            assert not is_time or int in (kind, *typing.get_args(kind)) or "Time" in str(kind), where
            if name.endswith(("timestamp", "_at")):
                assert is_time, f"{where} is a time that JSON would show as a number"
