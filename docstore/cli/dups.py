"""The command `docstore dups`: pages similar to a page, known duplicates, and rejected captures.

The store finds them; this file chooses the question from the arguments and prints a line or a JSON object for each
answer.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from docstore.cli import arguments, output, render
from docstore.cli.opening import open_named
from docstore.cli.page_commands import DEFAULT_LIMIT
from docstore.dedup.comparable import MIN_NEAR_WORDS, MIN_SAME_TEXT_WORDS
from docstore.dedup.kernel import Kernel
from docstore.model import keys
from docstore.model.choices import VerdictKind
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, InvalidArgument
from docstore.model.plain import asdict
from docstore.model.types import Schema, Verdict
from docstore.reading.documents import rejection_of
from docstore.reports.dedup import KnownDuplicate, known_duplicates
from docstore.reports.measures import SimhashMatch, SimhashPair, simhash_pairs, similar_by_simhash

if TYPE_CHECKING:
    from docstore.attach import Store
    from docstore.reading.collapse import Orphan, Similar
    from docstore.reading.documents import Document


NO_DUPLICATES = "no duplicates are known; `docstore sweep` compares all pairs of the store"
NO_ORPHANS = "nothing to fetch again: the store still has every page for which another was rejected"

Shown = tuple[Sequence[str], dict[str, Any]]
"""A row of a table, and its JSON object."""


def run_dups(args: argparse.Namespace) -> int:
    chosen = sum(
        (args.url is not None, args.file is not None, args.all, args.digest is not None, args.rejected, args.orphans)
    )
    if not chosen:
        raise InvalidArgument(
            "dups needs a page: name its URL, or --file PAGE.html; `docstore dups --all` lists all duplicates that the "
            "store knows"
        )
    if chosen > 1:
        raise InvalidArgument(
            "dups takes one of URL, --file PAGE.html, --all, --digest, --rejected and --orphans; see "
            "`docstore dups --help`"
        )
    if args.simhash is not None and args.url is None and args.file is None and not args.all:
        raise InvalidArgument("--simhash needs a URL, --file or --all")
    if args.simhash is not None and args.threshold is not None:
        raise InvalidArgument("--simhash takes a number of bits and --threshold a similarity; use only one of them")
    with open_named(args) as store:
        if args.all and args.simhash is not None:
            pairs = simhash_pairs(store, args.simhash)
            nothing = f"no two pages have simhashes that differ in at most {args.simhash} bits"
            return _print(args, map(_pair, pairs), ("bits", "url", "of"), nothing, right=(0,))
        if args.all:
            known = known_duplicates(store)
            listed = (_known(each) for each in known if each.similarity >= (args.threshold or 0))
            return _print(args, listed, ("kind", "similarity", "time", "url", "of"), NO_DUPLICATES, right=(1,))
        if args.digest is not None:
            captures = map(_recorded, store.find(payload_digest=args.digest))
            return _print(args, captures, ("time", "url"), f"no capture has the recorded digest {args.digest}")
        if args.rejected:
            headings = ("kind", "similarity", "time", "url", "of")
            return _print(args, map(_rejected, store.rejected()), headings, "nothing was rejected", right=(1,))
        if args.orphans:
            return _print(args, map(_orphan, store.orphans()), ("loss", "verdict", "time", "url", "of"), NO_ORPHANS)
        if args.file is not None:
            page: str | bytes = arguments.read_input(args.file)
            timestamp = None
        else:
            page = keys.stored_url(store.__contains__, args.url)
            document = store.get(page, families=())
            if document is None:
                rejected = rejection_of(store.history(page), None)
                what = f"no page {output.shown_url(page)}" if rejected is None else render.rejected_words(rejected)
                output.note(f"{what}; use --file for a page that is not in the store")
                return EXIT_NOTHING_FOUND
            timestamp = document.timestamp
        if args.simhash is not None:
            return _by_simhash(args, store, page)
        pages = store.similar(page, threshold=args.threshold, limit=args.limit or DEFAULT_LIMIT)
        schema = store.schema
    if not pages:
        output.note(f"no page like it{_too_short(page, schema) if isinstance(page, bytes) else ''}")
        return EXIT_NOTHING_FOUND
    listed = (_similar(match, timestamp) for match in pages)
    return _print(args, listed, ("kind", "similarity", "time", "age", "url"), "", right=(1,))


def _by_simhash(args: argparse.Namespace, store: Store, page: bytes | str) -> int:
    matches = similar_by_simhash(store, page, args.simhash, limit=args.limit or DEFAULT_LIMIT)
    nothing = f"no page with a simhash that differs in at most {args.simhash} bits; a page without words has none"
    return _print(args, map(_match, matches), ("bits", "time", "url"), nothing, right=(0,))


def _match(match: SimhashMatch) -> Shown:
    row = (str(match.bits), output.iso(match.timestamp), output.shown_url(match.url))
    return row, {"url": match.url, "timestamp": output.iso(match.timestamp), "bits": match.bits}


def _pair(pair: SimhashPair) -> Shown:
    return (str(pair.bits), output.shown_url(pair.first_url), output.shown_url(pair.second_url)), asdict(pair)


def _known(known: KnownDuplicate) -> Shown:
    urls = (output.shown_url(known.url), output.shown_url(known.of_url))
    row = (known.kind, render.similarity(known.similarity), output.iso(known.timestamp), *urls)
    return row, asdict(known)


def _too_short(body: bytes, schema: Schema) -> str:
    """Why a file has no near pages, if its text is too short."""
    kernel = Kernel(schema.extractor, schema.shingle_words)
    count = kernel.analyse(body, None).word_count
    if count >= MIN_NEAR_WORDS:
        return ""
    least, detected = MIN_NEAR_WORDS, "the same bytes or the same text"
    if count < MIN_SAME_TEXT_WORDS:
        least, detected = MIN_SAME_TEXT_WORDS, "the same bytes"
    return f": its text has {count} words; with fewer than {least} only {detected} would be detected"


def _age(similar: Similar, timestamp: int | None) -> str | None:
    if timestamp is None:
        return None
    if similar.timestamp == timestamp:
        return "same"
    return "older" if similar.timestamp < timestamp else "younger"


def _similar(similar: Similar, timestamp: int | None) -> Shown:
    kind, similarity = str(similar.kind), similar.similarity
    if similar.kind is VerdictKind.CONTAINED:
        similarity = max(similar.contained, similar.contains)
        kind = "contained" if similar.contained >= similar.contains else "contains"
    if similar.reason:
        kind, similarity = f"{kind}, {similar.reason}", max(similarity, similar.contained, similar.contains)
    age = _age(similar, timestamp)
    row = (
        kind,
        render.similarity(similarity),
        output.iso(similar.timestamp),
        age or output.NOTHING,
        output.shown_url(similar.url),
    )
    return row, {**similar.asdict(), "age": age}


def _recorded(document: Document) -> Shown:
    time = output.iso(document.timestamp)
    row = (time, output.shown_url(document.url))
    return row, {"url": document.url, "timestamp": time, "payload_digest": document.newest.payload_digest}


def _rejected(rejected: tuple[str, int, Verdict]) -> Shown:
    url, timestamp, verdict = rejected
    urls = (output.shown_url(url), output.shown_url(verdict.of_url))
    row = (str(verdict.kind), render.similarity(verdict.similarity), output.iso(timestamp), *urls)
    return row, {"url": url, "timestamp": output.iso(timestamp), "verdict": asdict(verdict)}


def _orphan(orphan: Orphan) -> Shown:
    urls = (output.shown_url(orphan.url), output.shown_url(orphan.verdict.of_url))
    row = (str(orphan.loss), str(orphan.verdict.kind), output.iso(orphan.timestamp), *urls)
    return row, orphan.asdict()


def _print(
    args: argparse.Namespace, listed: Iterator[Shown], headings: Sequence[str], nothing: str, right: Sequence[int] = ()
) -> int:
    listed = islice(listed, args.limit)
    first = next(listed, None)
    if first is None:
        output.note(nothing)
        return EXIT_NOTHING_FOUND
    listed = chain([first], listed)
    if args.json:
        for _, fields in listed:
            output.json_line(fields)
    else:
        output.table((row for row, _ in listed), headings, right)
    return EXIT_OK
