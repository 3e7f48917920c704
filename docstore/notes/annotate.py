"""`docstore annotate`: columns that are derived from stored captures, one mechanism for all of them.

An annotator is a function from a document to fields, or from a store to an iterator of captures with their fields.
What it says of a capture is one cell of family `note`: the qualifier is the annotator's name, the value a JSON object
of its version and its fields.  It stands at the capture's time, is shown and collected with the capture, and is purged
with it.

A pass reads the notes of all live captures, and computes those that are absent or have another version.  So what has
arrived since the last pass is found, whatever time it was fetched at, and so is all that an annotator of a new version
has to do again.  Notes are committed in groups as any write is, next to a crawl.  A pass that was killed goes on where
it was.  An annotator of a whole store computes everything each time; only notes that differ are written.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import entry_points
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from docstore.cli import arguments, output
from docstore.cli.opening import open_in
from docstore.model import errors
from docstore.model.capture import CHECKSUM, NOTE_FAMILY, TEXT_CHECKSUM, decode_note, encode_note
from docstore.model.errors import InvalidArgument
from docstore.model.types import Note, ReadSpec
from docstore.reading.cells import Row
from docstore.reading.documents import Document

if TYPE_CHECKING:
    from docstore.attach import Store

Fields: TypeAlias = Mapping[str, Any]
"""What an annotator says of a capture: names with values that JSON has."""
GROUP: Final = 256
"""Captures that are read together, and whose notes are committed together."""
GROUP_BYTES: Final = 1 << 18
"""Notes of so many bytes are committed at once: a request to a server takes a megabyte."""
LANG: Final = "lang"
BUILT_IN: Final = {
    LANG: ("docstore.notes.words", "language"),
    "keyphrases": ("docstore.notes.words", "keyphrases"),
    "entities": ("docstore.notes.words", "entities"),
    "links": ("docstore.notes.links", "links"),
}
"""Annotators of docstore: the module and the function that makes each, of a store and the lists of `--list`."""
ENTRY_POINTS: Final = "docstore.annotators"


class Annotator(NamedTuple):
    """Computes the notes of one name.

    Attributes:
        name: qualifier of the notes.
        version: a capture whose note has it is left out; raise it with every change of what is said.
        of_document: fields of a document; None for nothing to say.  The document's `lang` is that of its note, if it
            has one.
        of_store: or, of a whole store, row key and time of captures with their fields.
        families: of a document, that are read: of page, http, text, dedup.
    """

    name: str
    version: str = "1"
    of_document: Callable[[Document], Fields | None] | None = None
    of_store: Callable[[Store], Iterable[tuple[bytes, int, Fields]]] | None = None
    families: tuple[str, ...] = ("http", "text")


@dataclass(slots=True)
class Annotated:
    """What a pass did.

    Attributes:
        name, version: of the annotator.
        captures: that were looked at.
        written: notes that were written.
        failed: captures on which the annotator failed; the next pass tries them again.
        error: of the first of these.
        seconds: wall time.
    """

    name: str
    version: str
    captures: int = 0
    written: int = 0
    failed: int = 0
    error: str = ""
    seconds: float = 0.0


# --- the pass


def annotate(store: Store, annotator: Annotator, on_progress: Callable[[int], None] | None = None) -> Annotated:
    """Compute and write the notes of one annotator.

    Args:
        store: whose captures.
        annotator: what computes them.
        on_progress: called with captures looked at so far.
    """
    return _Pass(store, annotator, on_progress).run()


class _Pending(NamedTuple):
    """A capture without a note of this version.

    Attributes:
        row_key, url: its page.
        timestamps: of the capture, and of visits next to it that found the same bytes, newest first.
        lang: of its note; "" for none.
        is_newest: no capture of the page is newer.
    """

    row_key: bytes
    url: str
    timestamps: tuple[int, ...]
    lang: str
    is_newest: bool


class _Pass:
    def __init__(self, store: Store, annotator: Annotator, on_progress: Callable[[int], None] | None) -> None:
        self._store = store
        self._annotator = annotator
        self._on_progress = on_progress
        self._report = Annotated(annotator.name, annotator.version)
        self._notes: list[Note] = []
        self._note_bytes = 0

    def run(self) -> Annotated:
        began = time.monotonic()
        if self._annotator.of_store is not None:
            for row_key, timestamp, fields in self._annotator.of_store(self._store):
                self._report.captures += 1
                self._add(row_key, (timestamp,), encode_note(self._annotator.version, fields))
        else:
            pending = self._pending()
            while group := list(islice(pending, GROUP)):
                self._annotate(group)
        self._commit()
        self._report.seconds = round(time.monotonic() - began, 3)
        return self._report

    def _pending(self) -> Iterator[_Pending]:
        """Captures to annotate, in row-key order."""
        spec = ReadSpec(("dedup", NOTE_FAMILY))
        columns = "|".join(("checksum", "text_checksum", LANG, re.escape(self._annotator.name)))
        for row in self._store.cells.scan(spec=spec, qualifier_regex=columns):
            yield from self._pending_of(row)

    def _pending_of(self, row: Row) -> Iterator[_Pending]:
        noted, lang = (NOTE_FAMILY, self._annotator.name.encode()), (NOTE_FAMILY, LANG.encode())
        start = encode_note(self._annotator.version, {})[:-1]
        captures: dict[int, dict[tuple[str, bytes], bytes]] = {}
        for cell in row.cells:
            captures.setdefault(cell.timestamp, {})[cell.family, cell.qualifier] = cell.value
        times = sorted((at for at, columns in captures.items() if TEXT_CHECKSUM in columns), reverse=True)
        self._report.captures += len(times)
        missing = [at for at in times if not captures[at].get(noted, b"").startswith((start + b",", start + b"}"))]
        for _, visits in groupby(missing, key=lambda at: (captures[at].get(CHECKSUM), captures[at][TEXT_CHECKSUM])):
            same = tuple(visits)
            declared = str(decode_note(captures[same[0]].get(lang, b"")).get("lang", ""))
            yield _Pending(row.row_key, row.url, same, declared, same[0] == times[0])

    def _annotate(self, group: Sequence[_Pending]) -> None:
        of_document, families = self._annotator.of_document, self._annotator.families
        assert of_document is not None
        newest = self._store.get_many([one.url for one in group if one.is_newest], families=families)
        for one in group:
            at = one.timestamps[0]
            try:  # of one document, by code that is not ours, or of a damaged value: the others are annotated
                try:
                    found = next(newest, None) if one.is_newest else None
                except errors.CorruptionError:  # the documents after it are read one at a time
                    found, newest = None, iter(())
                found = self._store.get(one.url, at=at, families=families) if found is None else found
                if found is None or found.timestamp != at:
                    continue  # it has changed since the scan: the next pass sees to it
                if one.lang and "text" in families:
                    found = found._replace(captures=(found.newest._replace(lang=one.lang),))
                value = encode_note(self._annotator.version, of_document(found) or {})
            except (errors.StorageError, errors.StoreUnavailable):
                raise
            except Exception as error:
                self._report.failed += 1
                self._report.error = self._report.error or f"{one.url}: {type(error).__name__}: {error}"
            else:
                self._add(one.row_key, one.timestamps, value)
        self._commit()

    def _add(self, row_key: bytes, timestamps: Iterable[int], value: bytes) -> None:
        for timestamp in timestamps:
            self._notes.append(Note(row_key, timestamp, self._annotator.name, value))
            self._note_bytes += len(value) + len(row_key)
            if len(self._notes) >= GROUP or self._note_bytes >= GROUP_BYTES:
                self._commit()

    def _commit(self) -> None:
        if self._notes:
            self._report.written += self._store.cells.put_notes(self._notes)
        self._notes, self._note_bytes = [], 0
        if self._on_progress is not None:
            self._on_progress(self._report.captures)


# --- which annotators there are


def find_annotator(name: str, store: Store, lists: Mapping[str, Path]) -> Annotator:
    """An annotator of docstore, or of a package that is installed.

    Args:
        name: of it.
        store: that is annotated.
        lists: files of names by the name of the list, for `entities`.
    Raises:
        InvalidArgument: there is none of that name, or it lacks something.
    """
    if name in BUILT_IN:
        module, function = BUILT_IN[name]
        found: Annotator = getattr(import_module(module), function)(store, lists)
        return found
    installed = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in installed:
        there = ", ".join(sorted({*BUILT_IN, *installed}))
        raise InvalidArgument(f"there is no annotator {name!r}; there are {there}, and --python MODULE:NAME")
    return _annotator(installed[name].load(), name)


def load_annotator(path: str) -> Annotator:
    """An annotator by the path `module:name` of an `Annotator`, or of a function from a document to fields.

    Raises:
        InvalidArgument: there is nothing of that path, or something else.
    """
    module, _, name = path.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # modules of the working directory, as `python -c` finds them
    try:
        return _annotator(getattr(import_module(module), name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgument(f"cannot load the annotator {path!r}, which must be MODULE:NAME: {error}") from error


def _annotator(found: object, name: str) -> Annotator:
    if isinstance(found, Annotator):
        return found
    if not callable(found):
        raise InvalidArgument(f"annotator {name!r} is no function and no Annotator, but {found!r:.100}")
    return Annotator(name, str(getattr(found, "version", "1")), of_document=found)


# --- docstore annotate


ANNOTATE_DESCRIPTION = """\
Compute columns of stored captures and write them next to these, as notes:
lang (language with score), keyphrases, entities (names of your lists), links
(rank and in-links of pages, hub and authority, weight of the host), or what
--python or an installed package brings.  Only captures without a note of the
annotator's version are read; a killed run continues where it was.  Crawls and
servers go on meanwhile.  `docstore get URL --column note:lang` shows a note.
Exit code 8 if an annotator failed on a page."""

ANNOTATE_EXAMPLES = """\
docstore annotate lang
docstore annotate lang keyphrases links --json
docstore annotate entities --list company=companies.txt --list city=cities.txt
docstore annotate --python mymodule:sentiment
"""


def add_annotate_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"an annotator: {', '.join(BUILT_IN)}, or installed")
    parser.add_argument(
        "--python",
        metavar="MODULE:NAME",
        action="append",
        default=[],
        help="a function from a document to a dict of fields, or an Annotator; may be repeated",
    )
    parser.add_argument(
        "--list",
        metavar="NAME=FILE",
        action="append",
        default=[],
        type=arguments.setting,
        help="with entities: names to find, one a line; may be repeated",
    )
    arguments.add_progress(parser)
    arguments.add_store(parser)
    arguments.add_json(parser, "{name, version, captures, written, failed, error, seconds}, one object a line")


def run_annotate(args: argparse.Namespace) -> int:
    """Annotate."""
    if not args.names and not args.python:
        raise InvalidArgument(f"annotate takes the NAME of an annotator: {', '.join(BUILT_IN)}, or --python")
    if args.list and "entities" not in args.names:
        raise InvalidArgument("--list goes only with the annotator entities")
    failed = 0
    with ExitStack() as stack:
        store = open_in(stack, args)
        lists = {name: Path(file) for name, file in args.list}
        chosen = [find_annotator(name, store, lists) for name in args.names] + [
            load_annotator(one) for one in args.python
        ]
        for annotator in chosen:
            with ExitStack() as shown:
                show = output.progress_of_count(args, shown, " captures", annotator.name)
                report = annotate(store, annotator, show)
            failed += report.failed
            if args.json:
                output.json_line(asdict(report))
                continue
            output.line(f"{report.name}: {report.written} notes written, {report.captures} captures looked at")
            if report.failed:
                output.note(f"{report.name} failed on {report.failed} captures; the first: {report.error}")
    return errors.EXIT_RECORDS_SKIPPED if failed else errors.EXIT_OK
