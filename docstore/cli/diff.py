"""Which words of two pages differ (`docstore diff`), and why a block is main text (`get --explain`).

Prints results of `docstore.reports.worddiff` and `docstore.text.explain`; it imports the analysis.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from docstore.cli import output, render
from docstore.cli.opening import open_named
from docstore.model import keys
from docstore.model.analysis import BITS
from docstore.model.capture import content_type_of
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, InvalidArgument
from docstore.model.plain import asdict
from docstore.model.types import Schema
from docstore.reading.documents import Capture, Document
from docstore.reports.measures import TOP_WORDS, TOP_WORDS_NGRAM, TOP_WORDS_OVERLAP, Measures, measures
from docstore.reports.worddiff import Change, Piece, word_diff
from docstore.text.explain import ExplainedBlock, doubts, explain, left_out
from docstore.text.readers import decode, is_html

if TYPE_CHECKING:
    from docstore.attach import Store

SHOWN_CHARACTERS = 100


def run_diff(args: argparse.Namespace) -> int:
    if len(args.at) > 2:
        raise InvalidArgument("diff takes at most two --at; see `docstore diff --help`")
    if args.measures and args.all:
        raise InvalidArgument("--all shows words and --measures shows none; use only one of them")
    with open_named(args) as store:
        url = keys.stored_url(store.__contains__, args.url)
        families = ("text", "dedup")
        if args.other is None and len(args.at) < 2:
            document = store.get(url, at=args.at[0] if args.at else None, versions=2, families=families)
            both = (
                []
                if document is None
                else [Document(document.row_key, (each,)) for each in reversed(document.captures)]
            )
            when = args.at[0] if args.at else None
            missing = [_named(url, when) if document is None else f"version of {url} before its only version"]
        else:
            urls = (url, keys.stored_url(store.__contains__, args.other) if args.other is not None else url)
            times = (*args.at, *args.at[-1:], None, None) if args.at else (None, None)
            if len(args.at) == 1:
                times = (args.at[0], args.at[0])
            read = [store.get(each, at=at, families=families) for each, at in zip(urls, times[:2], strict=True)]
            both = [document for document in read if document is not None]
            missing = [
                _named(each, at) for each, at, document in zip(urls, times, read, strict=False) if document is None
            ]
        schema = store.schema
        if len(both) == 2 and not args.measures and not any(page.text for page in both):
            return _print_bytes(args, store, both)
    if len(both) < 2:
        output.note(f"nothing to compare: no {' and no '.join(missing)}")
        return EXIT_NOTHING_FOUND
    _print(args, both[0], both[1], schema)
    return EXIT_OK


def _named(url: str, at: int | None) -> str:
    url = output.shown_url(url)
    return f"page {url}" if at is None else f"page {url} as of {output.iso(at)}"


def _pages(*documents: Document) -> list[dict[str, Any]]:
    return [{"url": page.url, "timestamp": output.iso(page.timestamp)} for page in documents]


def _print_bytes(args: argparse.Namespace, store: Store, both: list[Document]) -> int:
    """Print whether two pages without text have the same bytes; bodies that were not kept are compared by checksum."""
    read = [store.get(page.url, at=page.timestamp, families=("page",)) for page in both]
    first, second = (None if page is None else page.body for page in read)
    is_same = first == second if first is not None else both[0].newest.checksum == both[1].newest.checksum
    if args.json:
        output.json_line({"pages": _pages(*both), "similarity": None, "same_bytes": is_same, "changes": []})
        return EXIT_OK
    if first is None or second is None:
        output.line(f"no text to compare; by checksum the bytes {'are the same' if is_same else 'differ'}")
    elif is_same:
        output.line(f"no text to compare; the bytes are the same ({len(first)})")
    else:
        differing = next((at for at, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), None)
        at = min(len(first), len(second)) if differing is None else differing
        output.line(f"no text to compare; the bytes differ from byte {at} on ({len(first)} and {len(second)} bytes)")
    return EXIT_OK


def _print(args: argparse.Namespace, first: Document, second: Document, schema: Schema) -> None:
    measured = measures(first.newest, second.newest, schema)
    if args.measures:
        _print_measures(args, first, second, measured)
        return
    texts = (first.text or "", second.text or "")
    similarity = float(texts[0] == texts[1]) if measured.jaccard is None else measured.jaccard
    shown = _shown(word_diff(*texts), all_blocks=args.all)
    if args.json:
        changes = [{"change": str(piece.change), "text": piece.text} for piece in shown]
        output.json_line({"pages": _pages(first, second), "similarity": similarity, "changes": changes})
        return
    output.line(f"similarity {render.similarity(similarity)}")
    for mark, colour, page in (("-", "red", first), ("+", "green", second)):
        output.styled_line(
            [output.Styled(f"{mark} {output.shown_url(page.url)} as of {output.iso(page.timestamp)}", colour)], 2
        )
    line: list[str | output.Styled] = []
    for piece in shown:
        if piece.change is Change.BREAK:
            output.styled_line(line)
            line = []
            continue
        if line:
            line.append(" ")
        styles = {Change.OLD: ("red", "[-", "-]"), Change.NEW: ("green", "{+", "+}")}
        line.append(output.Styled(piece.text, *styles[piece.change]) if piece.change in styles else piece.text)
    if line:
        output.styled_line(line)


def _print_measures(args: argparse.Namespace, first: Document, second: Document, measured: Measures) -> None:
    if args.json:
        output.json_line({"pages": _pages(first, second), "measures": measured._asdict()})
        return
    for mark, page in (("1", first), ("2", second)):
        output.styled_line([f"{mark} {output.shown_url(page.url)} as of {output.iso(page.timestamp)}"], 2)
    fingerprints = f"p = {measured.modulus}: {measured.first_fingerprints} and {measured.second_fingerprints}, "
    bits = "" if measured.simhash_bits is None else f"  ({measured.simhash_bits} of {BITS} bits differ)"
    top = f"  ({TOP_WORDS_NGRAM}-grams of the {TOP_WORDS} most frequent words; near from {TOP_WORDS_OVERLAP:g})"
    output.table(
        [
            ("checksum", _equality(measured.same_checksum)),
            ("text checksum", _equality(measured.same_text_checksum)),
            ("Jaccard, exact", _share(measured.jaccard)),
            ("share of 1 in 2", _share(measured.contained)),
            ("share of 2 in 1", _share(measured.contains)),
            ("simhash, equal bits", _share(measured.simhash_agreement) + bits),
            ("sketch, estimate", _share(measured.sketch_estimate)),
            (
                "0-mod-p, overlap",
                f"{_share(measured.fingerprint_overlap)}  ({fingerprints}{measured.shared_fingerprints} shared)",
            ),
            ("top words, overlap", _share(measured.top_words_overlap) + top),
            ("cosine of word counts", _share(measured.cosine)),
            ("equal words", _share(measured.equal_words)),
        ]
    )


def _equality(same: bool | None) -> str:
    return output.NOTHING if same is None else "equal" if same else "different"


def _share(value: float | None) -> str:
    return output.NOTHING if value is None else render.similarity(value)


def _shown(pieces: Iterable[Piece], *, all_blocks: bool) -> list[Piece]:
    """The pieces of blocks that changed, or of all blocks."""
    if all_blocks:
        return list(pieces)
    shown: list[Piece] = []
    block: list[Piece] = []
    for piece in pieces:
        block.append(piece)
        if piece.change is Change.BREAK:
            shown += block if any(piece.change in (Change.OLD, Change.NEW) for piece in block) else []
            block = []
    return shown + (block if any(piece.change in (Change.OLD, Change.NEW) for piece in block) else [])


# --- docstore get --explain: why each block is main text or not


def print_explanation(document: Document, capture: Capture, extractor: str, *, as_json: bool) -> bool:
    """Print why each block of a capture is main text or not; False if it has no HTML."""
    content_type = content_type_of(capture.headers or (), document.row_key)
    if not capture.body or not is_html(capture.body, content_type):
        output.note(f"{document.url} has no HTML at {output.iso(capture.timestamp)}; nothing to explain")
        return False
    blocks = explain(decode(capture.body, content_type)[1], extractor, content_type or "")
    visible = "\n".join(block.text for block in blocks)
    main = "\n".join(block.text for block in blocks if block.is_kept)
    reasons = doubts(capture.title or "", capture.headings or "", main, visible)
    if as_json:
        verdict = capture.shown_verdict
        fields = {
            "url": document.url,
            "timestamp": output.iso(capture.timestamp),
            "extractor": extractor,
            "verdict": None if verdict is None else asdict(verdict),
            "in_doubt": reasons,
            "blocks": [
                {"main": block.is_kept, "score": block.score, "text": block.text, "because": list(block.because)}
                for block in blocks
            ],
        }
        output.json_line(fields)
        return True
    kept = sum(block.is_kept for block in blocks)
    rows = [
        ("rule", extractor),
        ("main text", f"{kept} of {len(blocks)} blocks, {len(main)} of {len(visible)} characters"),
    ]
    if capture.shown_verdict is not None:
        rows.append(("verdict", render.verdict_words(capture.shown_verdict)))
    rows += [("left out", words) for words in left_out(blocks)]
    rows += [("in doubt", doubt) for doubt in reasons]
    output.table(rows)
    output.line()
    output.table(map(_block_row, blocks), ("main", "score", "text", "because"), right=(1,))
    return True


def _block_row(block: ExplainedBlock) -> tuple[str, str, str, str]:
    score = output.NOTHING if block.score is None else f"{block.score / 100:+.2f}"
    shown = output.cut(output.one_line(block.text), SHOWN_CHARACTERS)
    return "yes" if block.is_kept else "no", score, shown, ", ".join(block.because) or output.NOTHING
