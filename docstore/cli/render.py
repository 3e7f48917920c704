"""The store's answers as text and as JSON fields: verdicts, captures, cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from docstore.cli import output
from docstore.model.choices import REASON_WORDS, VerdictKind
from docstore.model.plain import textual
from docstore.model.types import Cell, Previous, PutResult, Verdict
from docstore.reading.documents import Document, Rejected

if TYPE_CHECKING:  # most answers have no snippet, and these imports slow a cold start
    from docstore.reading.snippet import Snippet
    from docstore.storage.unreadable import Finding

SHOWN_UNREADABLE = 20
KIND_COLOURS = {
    VerdictKind.NEW: "green",
    VerdictKind.EXACT: "red",
    VerdictKind.SAME_TEXT: "red",
    VerdictKind.NEAR: "yellow",
    VerdictKind.CONTAINED: "yellow",
    VerdictKind.SIMILAR: "blue",
}

_STORED_WORDS = {
    "body": "with its body",
    "text": "its text and fingerprints, without the body",
    "reference": "by reference to that page",
    "confirmed": "as a visit that confirms the version before",
    "visit": "as a visit only: the store has no version of this page that it could confirm",
    "rejected": "no: rejected, only the visit is recorded",
    "known": "before: this capture was already stored, nothing written",
}
_PREVIOUS_WORDS = {
    Previous.NONE: "none: first capture of this URL",
    Previous.SAME_BYTES: "same bytes as the version before",
    Previous.SAME_TEXT: "same text as the version before",
}
_COPY_WORDS = {VerdictKind.EXACT: "exact copy of", VerdictKind.SAME_TEXT: "same text as"}


def similarity(value: float) -> str:
    """A similarity for people: three digits; only 1 is shown as 1.000."""
    return "1.000" if value >= 1 else f"{min(value, 0.999):.3f}"


def verdict_words(verdict: Verdict) -> str:
    """A verdict in one line."""
    reason = REASON_WORDS.get(verdict.reason, verdict.reason)
    because = f" ({reason})" if reason else ""
    if verdict.reason == "title_mismatch":
        return f"new, though its text is {similarity(verdict.similarity)} like {verdict.of_url}{because}"
    if verdict.kind is VerdictKind.NEW:
        return f"new{because}"
    score = "" if verdict.kind in (VerdictKind.EXACT, VerdictKind.SAME_TEXT) else f" {similarity(verdict.similarity)}"
    return (
        f"{verdict.kind}{score} of {output.shown_url(verdict.of_url)} as of {output.iso(verdict.of_timestamp)}{because}"
    )


def rejected_words(rejected: Document | Rejected) -> str:
    """A rejected page and the page that it duplicates, in one line."""
    verdict = rejected.verdict
    assert verdict is not None
    words = _COPY_WORDS.get(verdict.kind) or f"{verdict.kind} {similarity(verdict.similarity)} of"
    of_url, url = output.shown_url(verdict.of_url), output.shown_url(rejected.url)
    return f"{url} was rejected at {output.iso(rejected.timestamp)}: {words} {of_url}"


def put_words(result: PutResult) -> list[tuple[str, str]]:
    """The result of one write, as labelled lines."""
    verdict = "none: a visit without a body" if result.stored == "visit" else verdict_words(result.verdict)
    lines = [("page", output.shown_url(result.url)), ("verdict", verdict)]
    if result.verdict.contains_url:
        lines.append(("contains", output.shown_url(result.verdict.contains_url)))
    changed = f"changed, {similarity(result.previous_similarity)} like the version before"
    lines.append(("previous", _PREVIOUS_WORDS.get(result.previous, changed)))
    lines.append(("stored", f"{_STORED_WORDS.get(result.stored, result.stored)}, at {output.iso(result.timestamp)}"))
    return lines


def snippet_pieces(snippet: Snippet, *, html: bool) -> list[str | output.Styled]:
    """A snippet for `output.styled_line`, or as HTML; matched words in bold, or between asterisks without colours."""
    if html:
        return [output.one_line(snippet.html())]
    # Extracted text never has U+0000.
    pieces = output.one_line(snippet.text("\0", "\0")).split("\0")
    return [output.Styled(piece, "bold", "*", "*") if number % 2 else piece for number, piece in enumerate(pieces)]


def cell_fields(cell: Cell, *, value: bool = True) -> dict[str, Any]:
    """A cell for JSON."""
    return {
        "family": cell.family,
        "qualifier": textual(cell.qualifier),
        "timestamp": output.iso(cell.timestamp),
        **({"value": textual(cell.value)} if value else {}),
    }


def no_label(crawl: str) -> str:
    """What a command says of a label of a crawl that no capture has."""
    return f"no capture has the label {crawl!r}; `docstore stats --dedup --by crawl` lists the labels"


def text_of(value: bytes) -> str:
    """Bytes for people: text, with escapes for bytes that are not UTF-8."""
    return value.decode("utf-8", "backslashreplace")


def is_text(value: bytes) -> bool:
    """Whether bytes can be shown as text: UTF-8 without NUL."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in value


def value_words(value: bytes) -> str:
    """A cell's value on one line: its text, or the number of its bytes if it is not text."""
    return output.one_line(value.decode()) if is_text(value) else f"({len(value)} bytes)"


def note_unreadable(values: Sequence[Finding]) -> None:
    """Name stored values that could not be read and were skipped."""
    for value in values[:SHOWN_UNREADABLE]:
        output.note(f"cannot read {value}")
    if values:
        output.note(f"{len(values)} stored values could not be read and were skipped; run `docstore check`")
