"""`docstore annotate`: columns that are derived from stored captures.

An annotator is a function from a document to fields, or from a store to an iterator of captures with their fields.
Its result for a capture is one cell of family `note`, with the capture's timestamp:

    qualifier   name of the annotator
    value       JSON object of the annotator's version and the fields

The note is shown, collected and purged with the capture.

A pass reads the notes of all live captures, and computes those that are missing or have another version.  So it finds
captures of any timestamp that arrived since the last pass, and does all again for a new version of the annotator.
Notes are committed in groups, also during a crawl.  After a kill the next pass computes what is missing.  An annotator
of a whole store computes everything in each pass, but only notes that differ are written.
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

from docstore.cli import output
from docstore.cli.opening import open_in
from docstore.model import errors
from docstore.model.capture import CHECKSUM, LANG_NOTE, NOTE_FAMILY, TEXT_CHECKSUM, decode_note, encode_note
from docstore.model.choices import ANNOTATORS
from docstore.model.errors import InvalidArgument
from docstore.model.types import Note, ReadSpec
from docstore.reading.cells import Row
from docstore.reading.documents import DOCUMENT_FAMILIES, Document

if TYPE_CHECKING:
    from docstore.attach import Store

Fields: TypeAlias = Mapping[str, Any]
"""The fields of a note: names with JSON values."""
GROUP: Final = 256
"""Captures that are read together, and whose notes are committed together."""
GROUP_BYTES: Final = 1 << 18
"""Bytes of notes after which a group is committed: a request to a server may have a megabyte."""
ENTRY_POINTS: Final = "docstore.annotators"


class Annotator(NamedTuple):
    """Computes the notes of one name.

    Attributes:
        name: qualifier of the notes.
        version: captures with a note of this version are skipped; raise it with each change of the fields.
        of_document: computes the fields of a document; None for no fields.  The document's `lang` is that of its note,
            if there is one.
        of_store: instead, computes for a whole store row key, timestamp and fields of captures.
        families: families of a document to read, among page, http, text, dedup.
    """

    name: str
    version: str = "1"
    of_document: Callable[[Document], Fields | None] | None = None
    of_store: Callable[[Store], Iterable[tuple[bytes, int, Fields]]] | None = None
    families: tuple[str, ...] = ("http", "text")


@dataclass(slots=True)
class Annotated:
    """The report of a pass.

    Attributes:
        name, version: of the annotator.
        captures: number of captures that were checked.
        written: number of notes that were written.
        failed: captures for which the annotator failed; the next pass tries them again.
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
        store: to read and write.
        annotator: computes the notes.
        on_progress: called with the number of captures checked so far.
    """
    return _Pass(store, annotator, on_progress).run()


class _Pending(NamedTuple):
    """A capture without a note of this version.

    Attributes:
        row_key, url: of the page.
        timestamps: of the capture and of adjacent captures with the same bytes, newest first.
        lang: of its note, or "".
        is_newest: whether it is the newest capture of the page.
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
        columns = "|".join(("checksum", "text_checksum", LANG_NOTE, re.escape(self._annotator.name)))
        for row in self._store.cells.scan(spec=spec, qualifier_regex=columns):
            yield from self._pending_of(row)

    def _pending_of(self, row: Row) -> Iterator[_Pending]:
        note, lang = (NOTE_FAMILY, self._annotator.name.encode()), (NOTE_FAMILY, LANG_NOTE.encode())
        start = encode_note(self._annotator.version, {})[:-1]
        captures: dict[int, dict[tuple[str, bytes], bytes]] = {}
        for cell in row.cells:
            captures.setdefault(cell.timestamp, {})[cell.family, cell.qualifier] = cell.value
        times = sorted((at for at, columns in captures.items() if TEXT_CHECKSUM in columns), reverse=True)
        self._report.captures += len(times)
        missing = [at for at in times if not captures[at].get(note, b"").startswith((start + b",", start + b"}"))]
        for _, visits in groupby(missing, key=lambda at: (captures[at].get(CHECKSUM), captures[at][TEXT_CHECKSUM])):
            same = tuple(visits)
            language = str(decode_note(captures[same[0]].get(lang, b"")).get("lang", ""))
            yield _Pending(row.row_key, row.url, same, language, same[0] == times[0])

    def _annotate(self, group: Sequence[_Pending]) -> None:
        of_document, families = self._annotator.of_document, self._annotator.families
        assert of_document is not None
        newest = self._store.get_many([pending.url for pending in group if pending.is_newest], families=families)
        for pending in group:
            at = pending.timestamps[0]
            try:  # a failure of the annotator, or a damaged value, must not stop the pass
                try:
                    document = next(newest, None) if pending.is_newest else None
                except errors.CorruptionError:  # the documents after it are read one at a time
                    document, newest = None, iter(())
                if document is None:
                    document = self._store.get(pending.url, at=at, families=families)
                if document is None or document.timestamp != at:
                    continue  # it has changed since the scan: the next pass annotates it
                if pending.lang and "text" in families:
                    document = document._replace(captures=(document.newest._replace(lang=pending.lang),))
                value = encode_note(self._annotator.version, of_document(document) or {})
            except (errors.StorageError, errors.StoreUnavailable):
                raise
            except Exception as error:
                self._report.failed += 1
                self._report.error = self._report.error or f"{pending.url}: {type(error).__name__}: {error}"
            else:
                self._add(pending.row_key, pending.timestamps, value)
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


# --- finding an annotator


def find_annotator(name: str, store: Store, lists: Mapping[str, Path]) -> Annotator:
    """An annotator of docstore or of an installed package, by name.

    Args:
        name: of the annotator.
        store: to annotate.
        lists: files of names by the name of the list, for `entities`; for `domain` the folder `examples`.
    Raises:
        InvalidArgument: there is no such annotator, or it needs an extra, a list or examples.
    """
    if name in ANNOTATORS:
        from docstore.notes import links, quality, words  # which import this file

        makers = (words.language, words.keyphrases, words.entities, links.links, quality.quality, words.domain)
        return dict(zip(ANNOTATORS, makers, strict=True))[name](store, lists)
    installed = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in installed:
        names = ", ".join(sorted({*ANNOTATORS, *installed}))
        raise InvalidArgument(f"there is no annotator {name!r}; there are {names}, and --python MODULE:NAME")
    return _annotator(installed[name].load(), name)


def load_annotator(path: str) -> Annotator:
    """An annotator by the path `module:name` of an `Annotator`, or of a function from a document to fields.

    A function may have the attributes `version` and `families` of an `Annotator`.

    Raises:
        InvalidArgument: the path cannot be imported, or is not an annotator.
    """
    module, _, name = path.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # modules of the working directory, as `python -c` finds them
    try:
        return _annotator(getattr(import_module(module), name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgument(f"cannot load the annotator {path!r}, which must be MODULE:NAME: {error}") from error


def _annotator(loaded: object, name: str) -> Annotator:
    if isinstance(loaded, Annotator):
        return loaded
    if not callable(loaded):
        raise InvalidArgument(f"annotator {name!r} must be a function or an Annotator, not {loaded!r:.100}")
    families = getattr(loaded, "families", Annotator(name).families)
    if isinstance(families, str) or not set(families) <= set(DOCUMENT_FAMILIES):
        raise InvalidArgument(
            f"families of annotator {name!r} must be a tuple of {', '.join(DOCUMENT_FAMILIES)}, not {families!r:.100}"
        )
    return Annotator(name, str(getattr(loaded, "version", "1")), of_document=loaded, families=tuple(families))


# --- docstore annotate


def run_annotate(args: argparse.Namespace) -> int:
    """Annotate."""
    if not args.names and not args.python:
        raise InvalidArgument(f"annotate takes the NAME of an annotator: {', '.join(ANNOTATORS)}, or --python")
    if args.list and "entities" not in args.names:
        raise InvalidArgument("--list is only for the annotator entities; leave it out, or add entities")
    if bool(args.examples) != ("domain" in args.names):
        raise InvalidArgument(
            "annotate domain needs --examples DIR, a folder of examples for each class, and no other does"
        )
    failed = 0
    with ExitStack() as stack:
        store = open_in(stack, args)
        lists = {name: Path(file) for name, file in args.list}
        examples = {"examples": Path(args.examples or "")}
        annotators = [find_annotator(name, store, examples if name == "domain" else lists) for name in args.names]
        annotators += [load_annotator(path) for path in args.python]
        for annotator in annotators:
            with ExitStack() as progress:
                show = output.progress_of_count(args, progress, " captures", annotator.name)
                report = annotate(store, annotator, show)
            failed += report.failed
            if args.json:
                output.json_line(asdict(report))
                continue
            output.line(f"{report.name}: {report.written} notes written, {report.captures} captures checked")
            if report.failed:
                output.note(f"{report.name} failed on {report.failed} captures; the first: {report.error}")
    return errors.EXIT_RECORDS_SKIPPED if failed else errors.EXIT_OK
