"""`docstore diff`: which words of two pages, or of two versions of one page, differ.

Shows what `docstore.reports.worddiff` gives of two stored texts.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from docstore.cli import answers, arguments, output
from docstore.cli.opening import open_named, stored_url
from docstore.dedup.kernel import Kernel
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, InvalidArgument
from docstore.model.types import Schema
from docstore.reading.documents import Document
from docstore.reference.fingerprints import BITS
from docstore.reports.measures import Measures, measures
from docstore.reports.worddiff import Change, Piece, word_diff

if TYPE_CHECKING:
    from docstore.attach import Store

DIFF_DESCRIPTION = """\
Show which words of two pages differ, as [-removed-] and {+added+}; on a
terminal in red and green.  The first line has the similarity of the texts, the
exact Jaccard coefficient that verdicts use; of two pages without text it says
whether their bytes are the same.  One URL compares two of its versions: the
newest and the one before, or those of --at.
--measures prints what each fingerprint says instead: checksums, exact Jaccard
coefficient and containment, simhash, sketch, 0-mod-p fingerprints."""

DIFF_EXAMPLES = """\
docstore diff https://example.com/a https://example.com/b
docstore diff https://example.com/ --at 2023-01-01 --at 2024-01-01
docstore diff https://example.com/a https://example.com/b --all --json
docstore diff https://example.com/a https://example.com/b --measures
"""


def add_diff_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("url", metavar="URL1", help="of a stored page")
    parser.add_argument("other", metavar="URL2", nargs="?", help="of another (default: the same, its version before)")
    parser.add_argument(
        "--at",
        metavar="TIME",
        type=arguments.time_micros,
        action="append",
        default=[],
        help="version at this time; if given twice: URL1, then URL2",
    )
    parser.add_argument("--all", action="store_true", help="blocks without a change too")
    parser.add_argument("--measures", action="store_true", help="all measures of similarity instead of words")
    arguments.add_store(parser)
    arguments.add_read_only(parser)
    arguments.add_json(parser, "both pages, similarity and changes, or the measures, as one JSON object")


def run_diff(args: argparse.Namespace) -> int:
    """Print the differences."""
    if len(args.at) > 2:
        raise InvalidArgument("diff takes at most two --at; see `docstore diff --help`")
    if args.measures and args.all:
        raise InvalidArgument("--all shows blocks of words, --measures no words; leave one of them out")
    with open_named(args) as store:
        url = stored_url(store, args.url)
        families = ("text", "dedup")
        if args.other is None and len(args.at) < 2:
            found = store.get(url, at=args.at[0] if args.at else None, versions=2, families=families)
            both = [] if found is None else [Document(found.row_key, (one,)) for one in reversed(found.captures)]
            when = args.at[0] if args.at else None
            missing = [_named(url, when) if found is None else f"version before the only one of {url}"]
        else:
            urls = (url, stored_url(store, args.other) if args.other is not None else url)
            times = (*args.at, *args.at[-1:], None, None) if args.at else (None, None)
            if len(args.at) == 1:
                times = (args.at[0], args.at[0])
            read = [store.get(one, at=at, families=families) for one, at in zip(urls, times[:2], strict=True)]
            both = [document for document in read if document is not None]
            missing = [_named(one, at) for one, at, found in zip(urls, times, read, strict=False) if found is None]
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


def _print_bytes(args: argparse.Namespace, store: Store, both: list[Document]) -> int:
    """Whether two pages without text have the same bytes; bodies that were not kept are compared by checksum."""
    read = [store.get(page.url, at=page.timestamp, families=("page",)) for page in both]
    one, other = (None if page is None else page.body for page in read)
    is_same = one == other if one is not None else both[0].newest.checksum == both[1].newest.checksum
    if args.json:
        pages = [{"url": page.url, **answers.time_fields(page.timestamp)} for page in both]
        output.json_line({"pages": pages, "similarity": None, "same_bytes": is_same, "changes": []})
        return EXIT_OK
    if one is None or other is None:
        output.line(f"no text to compare; by checksum the bytes {'are the same' if is_same else 'differ'}")
    elif is_same:
        output.line(f"no text to compare; the bytes are the same ({len(one)})")
    else:
        first = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
        at = min(len(one), len(other)) if first is None else first
        output.line(f"no text to compare; the bytes differ from byte {at} on ({len(one)} and {len(other)} bytes)")
    return EXIT_OK


def _print(args: argparse.Namespace, one: Document, other: Document, schema: Schema) -> None:
    if args.measures:
        _print_measures(args, one, other, measures(one.newest, other.newest, schema))
        return
    texts = (one.text or "", other.text or "")
    similarity = _similarity(texts, schema)
    pieces = list(word_diff(*texts))
    if args.json:
        output.json_line(
            {
                "pages": [{"url": page.url, **answers.time_fields(page.timestamp)} for page in (one, other)],
                "similarity": similarity,
                "changes": [
                    {"change": str(piece.change), "text": piece.text} for piece in _shown(pieces, all_blocks=args.all)
                ],
            }
        )
        return
    output.line(f"similarity {answers.similarity(similarity)}")
    for mark, colour, page in (("-", "red", one), ("+", "green", other)):
        output.styled_line(
            [output.Styled(f"{mark} {output.shown_url(page.url)} as of {output.iso(page.timestamp)}", colour)]
        )
    line: list[str | output.Styled] = []
    for piece in _shown(pieces, all_blocks=args.all):
        if piece.change is Change.BREAK:
            output.styled_line(line)
            line = []
            continue
        if line:
            line.append(" ")
        if piece.change is Change.SAME:
            line.append(piece.text)
        elif piece.change is Change.OLD:
            line.append(output.Styled(piece.text, "red", "[-", "-]"))
        else:
            line.append(output.Styled(piece.text, "green", "{+", "+}"))
    if line:
        output.styled_line(line)


def _print_measures(args: argparse.Namespace, one: Document, other: Document, found: Measures) -> None:
    pages = (one, other)
    if args.json:
        shown = [{"url": page.url, **answers.time_fields(page.timestamp)} for page in pages]
        output.json_line({"pages": shown, "measures": found._asdict()})
        return
    for mark, page in zip("12", pages, strict=True):
        output.line(f"{mark} {output.shown_url(page.url)} as of {output.iso(page.timestamp)}")
    fingerprints = f"p = {found.modulus}: {found.first_fingerprints} and {found.second_fingerprints}, "
    bits = "" if found.simhash_bits is None else f"  ({found.simhash_bits} of {BITS} bits differ)"
    output.table(
        [
            ("checksum", _equality(found.same_checksum)),
            ("text checksum", _equality(found.same_text_checksum)),
            ("Jaccard, exact", _share(found.jaccard)),
            ("share of 1 in 2", _share(found.contained)),
            ("share of 2 in 1", _share(found.contains)),
            ("simhash, equal bits", _share(found.simhash_agreement) + bits),
            ("sketch, estimate", _share(found.sketch_estimate)),
            (
                "0-mod-p, overlap",
                f"{_share(found.fingerprint_overlap)}  ({fingerprints}{found.shared_fingerprints} shared)",
            ),
        ]
    )


def _equality(same: bool | None) -> str:
    return output.NOTHING if same is None else "equal" if same else "different"


def _share(value: float | None) -> str:
    return output.NOTHING if value is None else answers.similarity(value)


def _similarity(texts: tuple[str, str], schema: Schema) -> float:
    kernel = Kernel(schema.extractor, schema.shingle_words, schema.checksum)
    one, other = (kernel.shingles(text) for text in texts)
    shared = kernel.overlap(one, other)
    either = len(one) + len(other) - shared
    return shared / either if either else float(texts[0] == texts[1])


def _shown(pieces: Iterable[Piece], *, all_blocks: bool) -> list[Piece]:
    """Pieces of blocks that changed, or of all."""
    if all_blocks:
        return list(pieces)
    shown: list[Piece] = []
    block: list[Piece] = []
    for piece in pieces:
        block.append(piece)
        if piece.change is Change.BREAK:
            shown += block if any(one.change in (Change.OLD, Change.NEW) for one in block) else []
            block = []
    return shown + (block if any(one.change in (Change.OLD, Change.NEW) for one in block) else [])
