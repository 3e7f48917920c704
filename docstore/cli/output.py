"""How answers look: aligned plain text, JSON, times in ISO 8601 UTC, colour only on a terminal.

No other file of the package writes to stdout or stderr.  Text of pages is not trusted: control characters, which could
drive a terminal or reorder what it shows, are replaced, except in raw bytes (such as `get --body`).  This file imports
almost nothing, for a fast cold `docstore get`: `typing` or `re` alone takes half the time that the interpreter needs.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from docstore.model import plain
from docstore.reading.render import capture_fields

if TYPE_CHECKING:
    import argparse

    from docstore.reading.documents import Capture, Document

NOTHING = "-"
"""Shown for a missing value of a column."""
ALIGNED_ROWS = 1000
NARROWEST = 20
"""Lines are not folded to fewer characters, however narrow the terminal is."""
LAST_CELL = 16
"""If the last cell of a row has less room than this, and does not fit, it goes into a line of its own."""

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "dim": "2", "bold": "1"}


# --- streams


def prepare_streams() -> None:
    """Make stdin, stdout and stderr usable, before any file is opened.

    If the caller has closed a stream (`>&-`), the next opened file, such as a segment, would get its descriptor.  So a
    closed stdin or stdout gets a descriptor on which reads and writes fail, and stderr /dev/null.  Characters that a
    stream's encoding lacks are written as escapes (`\\xe9`).
    """
    for descriptor, name, mode, flags in (
        (0, "stdin", "r", os.O_WRONLY),
        (1, "stdout", "w", os.O_RDONLY),
        (2, "stderr", "w", os.O_WRONLY),
    ):
        stream = getattr(sys, name)
        if stream is None:
            opened = os.open(os.devnull, flags)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, open(descriptor, mode, encoding="utf-8", errors="backslashreplace", closefd=False))  # noqa: SIM115 - for the process's life
        elif mode == "w" and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")


# --- lines


class Styled:
    """Text in a colour, or between `before` and `after` if the stream has no colours."""

    def __init__(self, text: str, colour: str, before: str = "", after: str = "") -> None:
        self.text, self.colour, self.before, self.after = text, colour, before, after


def line(text: str = "") -> None:
    """Print one line of text on stdout, without control characters."""
    sys.stdout.write(safe(text) + "\n")


def styled_line(pieces: Iterable[str | Styled], indent: int | None = None) -> None:
    """Print pieces as one line on stdout, in their colours, without control characters.

    With `indent`, a line that is wider than the terminal is folded between words; what follows has so many spaces.
    """
    coloured = colours(sys.stdout)
    runs = [_run(piece, coloured=coloured) for piece in pieces]
    for folded in [runs] if indent is None else _folded(runs, indent, _room()):
        shown = (f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if colour else text for text, colour in folded)
        sys.stdout.write("".join(shown) + "\n")


def _run(piece: str | Styled, *, coloured: bool) -> tuple[str, str]:
    """Text and colour of a piece."""
    if isinstance(piece, str):
        return safe(piece), ""
    text = safe(piece.text)
    return (text, piece.colour) if coloured else (f"{piece.before}{text}{piece.after}", "")


def terminal_columns() -> int:
    """How wide lines may be: COLUMNS, else the width of the terminal; 0, no limit, for a file or a pipe.

    It asks the system: shutil, which has such a function, takes longer to import than most answers take.
    """
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return 0


def _room() -> int:
    """Characters that a line may have."""
    columns = terminal_columns()
    return max(columns, NARROWEST) if columns else sys.maxsize


def _folded(runs: Sequence[tuple[str, str]], indent: int, room: int) -> list[list[tuple[str, str]]]:
    """Lines of at most `room` characters, of runs of (text, colour): words stay whole if they fit."""
    if sum(len(text) for text, _ in runs) <= room:
        return [list(runs)]
    indent = min(indent, room - LAST_CELL)
    lines: list[list[tuple[str, str]]] = [[]]
    used = 0
    for text, colour in runs:
        for number, between in enumerate(text.split(" ")):
            word = f" {between}" if number else between
            if number and used + len(word) > room:
                lines.append([(" " * indent, "")])
                used = indent
            if used == indent and len(lines) > 1:
                word = word.lstrip(" ")
            while used + len(word) > room:
                lines[-1].append((word[: room - used], colour))
                lines.append([(" " * indent, "")])
                word, used = word[room - used :], indent
            lines[-1].append((word, colour))
            used += len(word)
    return lines


def colours(stream: IO[str]) -> bool:
    """Whether a stream shows colours: it is a terminal, and NO_COLOR is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def note(text: str) -> None:
    """Print a message on stderr that is not part of the answer."""
    sys.stderr.write(f"docstore: {safe(text)}\n")


def report_error(text: str, options: Collection[str] = ()) -> None:
    """Print an error on stderr, with options of the terminal in place of arguments of Python.

    Args:
        text: the message of an error.
        options: of the command, as Python names them: `create=True` becomes `--create`, `read_only` `--read-only`.
    """
    sys.stderr.write(f"docstore: error: {safe(with_options(text, options))}\n")


def with_options(text: str, options: Collection[str]) -> str:
    """A message with options of the terminal in place of arguments of Python; see `report_error`."""
    for name in options:
        option = f"--{name.replace('_', '-')}"
        if name in text:
            named = f"{name}=True" if "_" not in name else f"{name}(?:=True)?"
            text = re.sub(rf"(?<![\w/.-]){named}(?![\w/=-]|\.\w)", option, text)
    return text if "create" in options else text.replace(", or create=True", "")


def agrees(question: str) -> bool:
    """Whether the user confirms at the terminal."""
    sys.stderr.write(f"docstore: {safe(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


@contextmanager
def raw_stdout() -> Iterator[BinaryIO]:
    """Stdout for bytes, which are written as they are."""
    sys.stdout.flush()
    stdout: Any = sys.stdout.buffer
    if not isinstance(stdout, io.RawIOBase):
        yield stdout
        stdout.flush()
        return
    stream = io.BufferedWriter(stdout)  # an unbuffered stdout may write only a part of a value
    try:
        yield stream
        stream.flush()
    finally:
        stream.detach()  # otherwise it would close stdout


def write_bytes(value: bytes) -> None:
    """Write bytes to stdout as they are."""
    with raw_stdout() as stream:
        stream.write(value)


def safe(text: str) -> str:
    """Text without lone surrogates, direction marks and control characters other than tab and line feed."""
    text = text.replace("\r\n", "\n")
    if text.replace("\n", "").replace("\t", "").replace("\u00a0", "").isprintable():
        return text
    from docstore.model import markup

    return markup.safe(text)


def shown_url(url: str) -> str:
    """A URL for people: percent-encoded letters decoded; every command accepts it."""
    from docstore.model import keys

    return safe(keys.shown_url(url))


def one_line(text: str) -> str:
    """Text on one line."""
    return text if "\n" not in text and "\t" not in text else re.sub(r"[\t\n]+", " ", text)


def cut(text: str, width: int) -> str:
    """Text of at most `width` characters; longer text ends with an ellipsis."""
    return text if len(text) <= width else text[: width - 1] + "\u2026"


def cut_middle(text: str, width: int) -> str:
    """Text of at most `width` characters; of longer text, such as a URL, both ends are shown."""
    end = (width - 1) // 2
    return text if len(text) <= width else f"{text[: width - 1 - end]}\u2026{text[len(text) - end :]}"


# --- JSON


def json_line(value: Mapping[str, Any]) -> None:
    """Print one JSON object on one line of stdout."""
    import json

    sys.stdout.write(json.dumps(value) + "\n")


# --- times and sizes


iso = plain.iso


def size(count_bytes: float) -> str:
    """A number of bytes with a unit: 512 B, 1.5 KB, 20.3 MB; a KB is 1000 bytes."""
    for unit in ("B", "KB", "MB", "GB"):
        if count_bytes < 1000:
            return f"{count_bytes:.0f} {unit}" if unit == "B" else f"{count_bytes:.1f} {unit}"
        count_bytes /= 1000
    return f"{count_bytes:.1f} TB"


def share(count: int, total: int) -> str:
    """A number and its share of a total."""
    return f"{count}  ({count / total:.1%})" if count and total else str(count)


# --- tables


def table(rows: Iterable[Sequence[str]], headings: Sequence[str] = (), right: Sequence[int] = ()) -> None:
    """Print rows with aligned columns; the last column is never padded.

    In a narrow terminal columns go on in the next line, two spaces in.  There a cell that is wider than the terminal is
    cut in the middle; the last one is folded.

    Args:
        rows: of cells, all of one length; ALIGNED_ROWS of them are buffered and aligned together.
        headings: of the columns; not printed if there are no rows.
        right: columns aligned to the right.
    """
    remaining, room = iter(rows), _room()
    widths = [len(heading) for heading in headings]
    while shown := [[one_line(safe(cell)) for cell in row] for row in islice(remaining, ALIGNED_ROWS)]:
        if headings:
            shown.insert(0, list(headings))
            headings = ()
        measured = [max(len(cell) for cell in column) for column in zip(*shown, strict=True)]
        widths = [max(pair) for pair in zip(measured, widths, strict=True)] if widths else measured
        for row in shown:
            _print_row(row, widths, right, room)


def _print_row(row: Sequence[str], widths: Sequence[int], right: Sequence[int], room: int) -> None:
    last = len(row) - 1
    written = ""
    for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
        gap = "  " if index else ""
        needed = min(len(cell), LAST_CELL) if index == last else width
        if index and len(written) + len(gap) + needed > room:
            sys.stdout.write(written.rstrip() + "\n")
            written = ""
        written += gap
        if index == last:
            for folded in _folded([(written, ""), (cell, "")], len(written), room):
                sys.stdout.write("".join(text for text, _ in folded).rstrip() + "\n")
        else:
            width = min(width, room - len(written))
            cell = cut_middle(cell, width)
            written += cell.rjust(width) if index in right else cell.ljust(width)


# --- a capture, as `docstore get` prints it


def print_capture(args: argparse.Namespace, document: Document, capture: Capture, lang: str) -> bool:
    """Print the parts of a capture that the options of `get` select; False if that is the text and it is empty.

    `lang` is the language of the capture's text.
    """
    if args.json:
        fields = {"url": document.url, **capture_fields(capture)}
        if capture.body and capture.charset:
            from docstore.compiled import docstore_native  # here: `--help` prints without them
            from docstore.model.capture import content_type_of

            content_type = content_type_of(capture.headers or (), document.row_key)
            fields["charset_source"] = docstore_native.charset_of(capture.body, content_type)[1]
        if document.via:
            fields["via"] = list(document.via)
        if document.rejected and capture is document.newest:
            fields["rejected"] = plain.asdict(document.rejected)
        if args.markdown:
            fields["markdown"] = capture.markdown(document.row_key)
        if args.outline:
            from docstore.notes.words import topic_phrases  # reads lists of stop words

            fields["outline"] = [
                {**section._asdict(), "topic": topic_phrases(section.text, lang)} for section in capture.outline
            ]
        if args.body:
            fields["body"] = plain.textual(capture.body or b"")
        json_line(fields)
    elif args.body:
        write_bytes(capture.body or b"")
    elif args.headers:
        line(f"HTTP {capture.status}")
        for name, value in capture.headers or ():
            line(f"{name}: {value}")
    elif args.markdown and capture.text:
        line((capture.markdown(document.row_key) or "").rstrip("\n"))
    elif args.outline and capture.text:
        for heading, text in capture.outline:
            if heading:
                styled_line([Styled(heading, "bold", "## ")])
            if text:
                line(text)
    elif capture.title or capture.text:
        line("\n\n".join(part for part in (capture.title, capture.shown_text) if part))
    else:
        return False
    return True


# --- progress bars on stderr, with `--progress` (default: on a terminal)


def progress_bar(args: argparse.Namespace, stack: ExitStack, **look: Any) -> Any:
    """A tqdm bar that the stack closes; None without `--progress`."""
    if not (sys.stderr.isatty() if args.progress is None else args.progress):
        return None
    # Imported here: the import takes longer than most commands.
    from tqdm import tqdm

    return stack.enter_context(tqdm(file=sys.stderr, dynamic_ncols=True, **look))


def progress_of_bytes(args: argparse.Namespace, stack: ExitStack, what: str) -> Callable[[int, int], None] | None:
    """A function to call with (bytes done, total bytes)."""
    drawn = progress_bar(args, stack, desc=what, unit="B", unit_scale=True)

    def show(done: int, total: int) -> None:
        drawn.total = total
        drawn.update(done - drawn.n)

    return None if drawn is None else show


def progress_of_count(
    args: argparse.Namespace, stack: ExitStack, unit: str, what: str = ""
) -> Callable[[int], None] | None:
    """A function to call with the number done; the total is unknown."""
    drawn = progress_bar(args, stack, desc=what, unit=unit)
    return None if drawn is None else lambda done: drawn.update(done - drawn.n)


def progress_of_stages(
    args: argparse.Namespace, stack: ExitStack, *, counts_stages: bool = False
) -> Callable[..., None] | None:
    """A function to call with (stage, done, total or 0); with `counts_stages` a stage's name is the unit."""
    bar = progress_bar(args, stack)

    def show(stage: str, done: int, total: int = 0) -> None:
        if bar.desc != f"{stage}: ":
            bar.reset(total or None)
            bar.unit = f" {stage}" if counts_stages else bar.unit
            bar.set_description(stage, refresh=False)
        bar.total = total or None
        bar.update(done - bar.n)

    return None if bar is None else show


def answer(args: argparse.Namespace, fields: Mapping[str, Any], shown: str | Iterable[Sequence[str]]) -> None:
    """Print an answer as a sentence or labelled lines, or with `--json` as one object."""
    if args.json:
        json_line(fields)
    elif isinstance(shown, str):
        line(shown)
    else:
        table(shown)
