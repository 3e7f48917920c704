"""`docstore dups`: pages like a page, all known duplicates, rejected captures, and those of them to fetch again.

Shows what `DocumentStore.similar`, `DocumentStore.rejected`, `DocumentStore.orphans`, `docstore.reports.dedup` and
`docstore.reports.measures` give.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from docstore.cli import answers, arguments, output
from docstore.cli.arguments import declare
from docstore.cli.capture import time_fields, verdict_fields
from docstore.cli.opening import open_named, stored_url
from docstore.dedup.comparable import MIN_NEAR_WORDS, MIN_SAME_TEXT_WORDS
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, InvalidArgument
from docstore.model.types import Schema, Verdict, VerdictKind
from docstore.reading.documents import rejection_of

if TYPE_CHECKING:
    from docstore.attach import Store
    from docstore.reading.answers import Orphan, Similar
    from docstore.reports.dedup import KnownDuplicate
    from docstore.reports.measures import SimhashMatch, SimhashPair

DUPS_DESCRIPTION = """\
List live pages that are like a page, older and younger ones, with exact
similarities.  The page is a stored one, or a file that need not be stored.
For contained the number is the share of the page that is in the listed one,
for contains the share of the listed one that is in the page.
--all lists the duplicates that the store knows, by the last sweep, else by
verdicts.  --simhash N finds pages whose simhash differs in at most N of 64
bits, whatever their similarity: those of a page, or with --all all pairs.
--rejected lists captures that a policy rejected, without a body.
--orphans lists rejected pages to fetch again: the page that they duplicated is
gone, or its URL has changed."""

DUPS_EXAMPLES = """\
docstore dups https://example.com/
docstore dups https://example.com/ --threshold 0.5 --limit 50
docstore dups --file page.html
curl -s https://example.com/ | docstore dups --file - --json
docstore dups --all
docstore dups https://example.com/ --simhash 6
docstore dups --all --simhash 3 --json
docstore dups --rejected
docstore dups --orphans --json
"""

DEFAULT_LIMIT = 10
NO_DUPLICATES = "no duplicates are known; `docstore sweep` looks for all pairs of the store"
NO_ORPHANS = "nothing to fetch again: every page that was rejected for another still has that one"

Shown = tuple[Sequence[str], dict[str, Any]]
"""A line of a table, and the same as JSON."""


def add_dups_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "url URL?", "of a stored page")
    declare(parser, "--file PAGE.html", "a page that need not be in the store; - for stdin")
    declare(parser, "--all", "list all duplicates that the store knows")
    declare(parser, "--rejected", "list rejected captures and what they duplicate")
    declare(parser, "--orphans", "list rejected pages to fetch again, and what became of their duplicates")
    declare(parser, "--threshold J", "least similarity (default: of similar in the store's schema, with --all 0)")
    declare(
        parser,
        "--simhash N",
        "by simhash: most bits that differ, 0 to 64; with URL, --file or --all; reads the simhash of every page",
        _bits,
    )
    declare(
        parser, "--limit N", f"most pages (default: {DEFAULT_LIMIT}, with --all, --rejected and --orphans no limit)"
    )
    arguments.add_store(parser)
    arguments.add_read_only(parser)
    arguments.add_json(
        parser,
        "one JSON object a line: one a page, most similar first, or one a known duplicate, pair, rejected capture or "
        "orphan",
    )


def run_dups(args: argparse.Namespace) -> int:
    chosen = sum((args.url is not None, args.file is not None, args.all, args.rejected, args.orphans))
    if not chosen:
        raise InvalidArgument(
            "dups lists pages like one: name its URL, or --file PAGE.html; `docstore dups --all` lists all duplicates "
            "that the store knows"
        )
    if chosen > 1:
        raise InvalidArgument(
            "dups takes one of URL, --file PAGE.html, --all, --rejected and --orphans; see `docstore dups --help`"
        )
    if args.simhash is not None and (args.rejected or args.orphans):
        raise InvalidArgument("--simhash goes with URL, --file or --all; rejected pages have no simhash")
    if args.simhash is not None and args.threshold is not None:
        raise InvalidArgument("--simhash takes a number of bits and --threshold a similarity; leave one of them out")
    with open_named(args) as store:
        if args.all and args.simhash is not None:
            pairs = import_module("docstore.reports.measures").simhash_pairs(store, args.simhash)
            nothing = f"no two pages have simhashes that differ in at most {args.simhash} bits"
            return _print(args, map(_pair, pairs), ("bits", "url", "of"), nothing, right=(0,))
        if args.all:
            known = import_module("docstore.reports.dedup").known_duplicates(store)
            listed = (_known(one) for one in known if one.similarity >= (args.threshold or 0))
            return _print(args, listed, ("kind", "similarity", "time", "url", "of"), NO_DUPLICATES, right=(1,))
        if args.rejected:
            headings = ("kind", "similarity", "time", "url", "of")
            return _print(args, map(_rejected, store.rejected()), headings, "nothing was rejected", right=(1,))
        if args.orphans:
            return _print(args, map(_orphan, store.orphans()), ("loss", "verdict", "time", "url", "of"), NO_ORPHANS)
        if args.file is not None:
            asked: str | bytes = arguments.read_input(args.file)
            timestamp = None
        else:
            asked = stored_url(store, args.url)
            document = store.get(asked, families=())
            if document is None:
                rejected = rejection_of(store.history(asked), None)
                said = f"no page {output.shown_url(asked)}" if rejected is None else answers.rejected_words(rejected)
                output.note(f"{said}; --file asks for a page that is not in the store")
                return EXIT_NOTHING_FOUND
            timestamp = document.timestamp
        if args.simhash is not None:
            return _by_simhash(args, store, asked)
        found = store.similar(asked, threshold=args.threshold, limit=args.limit or DEFAULT_LIMIT)
        schema = store.schema
    if not found:
        output.note(f"no page like it{_too_short(asked, schema) if isinstance(asked, bytes) else ''}")
        return EXIT_NOTHING_FOUND
    listed = (_similar(one, timestamp) for one in found)
    return _print(args, listed, ("kind", "similarity", "time", "age", "url"), "", right=(1,))


def _by_simhash(args: argparse.Namespace, store: Store, asked: bytes | str) -> int:
    reports = import_module("docstore.reports.measures")
    found = reports.similar_by_simhash(store, asked, args.simhash, limit=args.limit or DEFAULT_LIMIT)
    nothing = f"no page with a simhash that differs in at most {args.simhash} bits; a page without words has none"
    return _print(args, map(_match, found), ("bits", "time", "url"), nothing, right=(0,))


def _match(one: SimhashMatch) -> Shown:
    row = (str(one.bits), output.iso(one.timestamp), output.shown_url(one.url))
    return row, {"url": one.url, **time_fields(one.timestamp), "bits": one.bits}


def _pair(one: SimhashPair) -> Shown:
    return (str(one.bits), output.shown_url(one.first_url), output.shown_url(one.second_url)), one._asdict()


def _known(one: KnownDuplicate) -> Shown:
    urls = (output.shown_url(one.url), output.shown_url(one.of_url))
    row = (one.kind, answers.similarity(one.similarity), output.iso(one.timestamp), *urls)
    return row, one._asdict() | time_fields(one.timestamp)


def _bits(text: str) -> int:
    if text.isascii() and text.isdecimal() and int(text) <= 64:
        return int(text)
    raise argparse.ArgumentTypeError(f"not a number of bits from 0 to 64: {text!r}")


def _too_short(body: bytes, schema: Schema) -> str:
    """Why a file cannot be near to any page, if its text is too short."""
    kernel = import_module("docstore.dedup.kernel").Kernel(schema.extractor, schema.shingle_words, schema.checksum)
    count = kernel.analyse(body, None).word_count
    if count >= MIN_NEAR_WORDS:
        return ""
    least, found = MIN_NEAR_WORDS, "the same bytes or the same text"
    if count < MIN_SAME_TEXT_WORDS:
        least, found = MIN_SAME_TEXT_WORDS, "the same bytes"
    return f": its text has {count} words; of less than {least} only {found} would be found"


def _age(one: Similar, timestamp: int | None) -> str | None:
    if timestamp is None:
        return None
    if one.timestamp == timestamp:
        return "same"
    return "older" if one.timestamp < timestamp else "younger"


def _similar(one: Similar, timestamp: int | None) -> Shown:
    kind, similarity = str(one.kind), one.similarity
    if one.kind is VerdictKind.CONTAINED:
        similarity = max(one.contained, one.contains)
        kind = "contained" if one.contained >= one.contains else "contains"
    if one.reason:
        kind, similarity = f"{kind}, {one.reason}", max(similarity, one.contained, one.contains)
    age = _age(one, timestamp)
    row = (
        kind,
        answers.similarity(similarity),
        output.iso(one.timestamp),
        age or output.NOTHING,
        output.shown_url(one.url),
    )
    fields = {"kind": str(one.kind), "similarity": one.similarity, "contained": one.contained, "contains": one.contains}
    return row, {"url": one.url, **time_fields(one.timestamp), **fields, "reason": one.reason, "age": age}


def _rejected(one: tuple[str, int, Verdict]) -> Shown:
    url, timestamp, verdict = one
    urls = (output.shown_url(url), output.shown_url(verdict.of_url))
    row = (str(verdict.kind), answers.similarity(verdict.similarity), output.iso(timestamp), *urls)
    return row, {"url": url, **time_fields(timestamp), "verdict": verdict_fields(verdict)}


def _orphan(one: Orphan) -> Shown:
    urls = (output.shown_url(one.url), output.shown_url(one.verdict.of_url))
    row = (str(one.loss), str(one.verdict.kind), output.iso(one.timestamp), *urls)
    words = {"checksum": one.checksum.hex(), "loss": str(one.loss), "verdict": verdict_fields(one.verdict)}
    return row, {"url": one.url, **time_fields(one.timestamp), **words}


def _print(
    args: argparse.Namespace, found: Iterator[Shown], headings: Sequence[str], nothing: str, right: Sequence[int] = ()
) -> int:
    found = islice(found, args.limit)
    first = next(found, None)
    if first is None:
        output.note(nothing)
        return EXIT_NOTHING_FOUND
    found = chain([first], found)
    if args.json:
        for _, fields in found:
            output.json_line(fields)
    else:
        output.table((row for row, _ in found), headings, right)
    return EXIT_OK
