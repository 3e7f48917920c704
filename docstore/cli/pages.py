"""Write, read, list and delete pages and their cells, one URL or a range of them.

The cold start of `docstore get` matters: it reads only families that it shows, and this module imports neither numpy
nor lxml nor an archive reader.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING

from docstore.cli import arguments, output, render
from docstore.cli.opening import open_in, open_named
from docstore.cli.page_commands import SHOWN_CHARACTERS
from docstore.model import keys
from docstore.model.capture import (
    BODY,
    CRAWL,
    LANG,
    NOTE_FAMILY,
    STORED_BODY,
    STORED_REFERENCE,
    STORED_VISIT,
    decode_note,
)
from docstore.model.choices import SNIPPET_LENGTH
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, InvalidArgument, compacting_deleted_pages
from docstore.model.format import REASON_NOT_MODIFIED
from docstore.model.keys import complete_url, holds_password
from docstore.model.types import DeleteCells, DeleteFamily, GCPolicy, Mutation, PutResult, ReadSpec
from docstore.reading.cells import Row
from docstore.reading.documents import MARKDOWN_FAMILIES, Capture, Document, rejection_of

if TYPE_CHECKING:
    from docstore.attach import Store

# --- docstore put


NO_BODY_STATUS = 304


def run_put(args: argparse.Namespace) -> int:
    url = complete_url(args.url)
    body = _body(args.file, args.status)
    with open_named(args, create=args.create, durability=args.durability) as store:
        policies = {**dict(store.schema.policies), **dict(args.policy)}
        result = store.put_page(
            url,
            body,
            headers=tuple(args.header),
            status=args.status,
            fetched_at=args.fetched_at,
            policies=policies,
            any_time=args.any_time,
            crawl=args.crawl or "",
        )
        hidden = _hidden_at_once(store, result)
    if holds_password(url):
        output.note("the URL contains a user and a password; both are stored and listed with it")
    if hidden:
        what = "this capture" if hidden == "capture" else "the body of this capture"
        output.note(f"a GC policy of the store hides {what} already; `docstore history URL` lists what it keeps")
    output.answer(args, result.asdict() | {"hidden": hidden}, render.put_words(result))
    return EXIT_OK


def _hidden_at_once(store: Store, result: PutResult) -> str:
    """What a GC policy hides of a capture that has just been written: "capture", "body" or ""."""
    if result.stored == STORED_VISIT:  # it confirms no version, so it is nowhere
        return ""
    if store.schema.captures != GCPolicy() and all(
        document.timestamp != result.timestamp for document in store.history(result.url)
    ):
        return "capture"
    if store.schema.bodies != GCPolicy() and result.stored in (STORED_BODY, STORED_REFERENCE):
        document = store.get(result.url, at=result.timestamp, families=(BODY[0],))
        return "" if document is not None and document.body is not None else "body"
    return ""


def _body(file: str | None, status: int) -> bytes:
    if file is not None:
        return arguments.read_input(file)
    if status == NO_BODY_STATUS:
        return b""
    if sys.stdin.isatty():
        raise InvalidArgument("no body; name a FILE, or pipe the page to stdin")
    return arguments.read_input("-")


# --- docstore get


def run_get(args: argparse.Namespace) -> int:
    _check(args)
    with open_named(args) as store:
        url = keys.stored_url(store.__contains__, args.urls[0])
        if args.snippet is not None:
            return _print_snippets(
                args, store, [url, *(keys.stored_url(store.__contains__, each) for each in args.urls[1:])]
            )
        if args.column is not None:
            return _print_column(args, store, url)
        document = store.get(
            url,
            at=args.at,
            versions=args.versions,
            families=_families(args),
            follow_redirects=args.follow_redirects,
            variants=args.variants,
            follow_duplicates=args.follow_duplicates,
        )
        if document is None:
            return _nothing(args, store, url)
        if document.via and not args.json:
            via = " and ".join(map(output.shown_url, document.via))
            output.note(f"showing {output.shown_url(document.url)}, reached from {via}")
        if document.rejected and not args.json:
            output.note(f"the newest fetch is not shown: {render.rejected_words(document.rejected)}")
        if args.explain:
            return _print_explanations(args, store, document)
        noted: dict[int, str] = {}
        if args.outline:
            notes = store.cells.read_row(document.url, ReadSpec((NOTE_FAMILY,), LANG[1]))
            noted = {
                one.timestamp: str(decode_note(one.value).get("lang", "")) for one in (notes.cells if notes else ())
            }
        for number, capture in enumerate(document.captures):
            if args.versions > 1 and not (args.json or args.body):
                output.line(f"{chr(10) if number else ''}--- {output.iso(capture.timestamp)}")
            lang = noted.get(capture.timestamp) or capture.lang or ""
            if not output.print_capture(args, document, capture, lang):
                _say_no_text(store, document, capture)
    return EXIT_OK


def _check(args: argparse.Namespace) -> None:
    """Refuse options that cannot be combined."""
    if args.snippet is None:
        if len(args.urls) > 1:
            raise InvalidArgument("several URLs need --snippet; without it name one page")
        if args.length is not None or args.html:
            raise InvalidArgument("--length and --html need --snippet QUERY")
    elif args.follow_redirects or args.variants or args.follow_duplicates or args.versions > 1:
        raise InvalidArgument(
            "--snippet takes none of --follow-redirects, --follow-duplicates, --variants and --versions; drop them"
        )


def _print_snippets(args: argparse.Namespace, store: Store, urls: list[str]) -> int:
    """Print a snippet for each page; with several pages as lines of URL, tab, snippet."""
    length = SNIPPET_LENGTH if args.length is None else args.length
    shown_count = 0
    for url, snippet in zip(urls, store.snippets(urls, args.snippet, length=length, at=args.at), strict=True):
        if snippet is None:
            if not _note_rejected(args, store, url):
                output.note(f"no {'text of' if url in store else 'page'} {output.shown_url(url)}")
            continue
        shown_count += 1
        if args.json:
            output.json_line(snippet.asdict())
            continue
        shown = render.snippet_pieces(snippet, html=args.html)
        output.styled_line([f"{output.shown_url(url)}\t", *shown] if len(urls) > 1 else shown)
    return EXIT_OK if shown_count else EXIT_NOTHING_FOUND


def _print_explanations(args: argparse.Namespace, store: Store, document: Document) -> int:
    from docstore.cli import diff

    explained = False
    for capture in document.captures:
        if args.versions > 1 and not args.json:
            output.line(f"{chr(10) if explained else ''}--- {output.iso(capture.timestamp)}")
        explained |= diff.print_explanation(document, capture, store.schema.extractor, as_json=args.json)
    return EXIT_OK if explained else EXIT_NOTHING_FOUND


def _families(args: argparse.Namespace) -> tuple[str, ...]:
    if args.explain:
        return ("http", "text", "dedup", "page")
    if args.json:
        return ("http", "text", "dedup", "page")  # the body tells where its charset comes from
    if args.markdown:
        return MARKDOWN_FAMILIES
    if args.body:
        return ("page",)
    return ("http",) if args.headers else ("text",)


def _nothing(args: argparse.Namespace, store: Store, url: str) -> int:
    if not _note_rejected(args, store, url):
        when = "" if args.at is None else f" at {output.iso(args.at)}"
        hint = "" if args.variants else "; --variants tries http and www too"
        output.note(f"no page {output.shown_url(url)}{when}{hint}")
    return EXIT_NOTHING_FOUND


def _note_rejected(args: argparse.Namespace, store: Store, url: str) -> bool:
    """Note that a page was rejected and for which page; False if it was not."""
    rejected = rejection_of(store.history(url), args.at)
    if rejected is None:
        return False
    if args.json:
        output.json_line({"url": rejected.url, **rejected.newest.asdict()})
    gone = "that page is gone or has changed, fetch this page again"
    hint = gone if args.follow_duplicates else "--follow-duplicates shows that page"
    output.note(f"{render.rejected_words(rejected)}; {hint}")
    return True


def _say_no_text(store: Store, document: Document, capture: Capture) -> None:
    http = store.get(document.url, at=capture.timestamp, families=("http",))
    what = f"status {http.status}, {http.newest.media_type or 'type unknown'}" if http else "gone"
    output.note(f"{output.shown_url(document.url)} has no text ({what}); --body prints its bytes")


def _print_column(args: argparse.Namespace, store: Store, url: str) -> int:
    family, qualifier = args.column
    spec = ReadSpec(
        families=(family,),
        qualifier_prefix=qualifier,
        until=None if args.at is None else args.at + 1,
        versions=args.versions,
    )
    count = 0
    for cell in store.cells.slices(url, spec=spec):
        if qualifier and cell.qualifier != qualifier:
            continue
        count += 1
        if args.json:
            output.json_line(render.cell_fields(cell))
        elif qualifier:
            output.write_bytes(cell.value if render.is_text(cell.value) else f"{cell.value.hex()}\n".encode())
        else:
            value = cell.value.decode() if render.is_text(cell.value) else cell.value.hex()
            words = (render.text_of(cell.qualifier), output.iso(cell.timestamp), value)
            output.line("\t".join(output.one_line(word) for word in words))
    if not count:
        wanted = f"{family}:{render.text_of(qualifier)}"
        output.note(f"{output.shown_url(url)} has no cell {wanted}")
    return EXIT_OK if count else EXIT_NOTHING_FOUND


# --- docstore history


def run_history(args: argparse.Namespace) -> int:
    with open_named(args) as store:
        url = keys.stored_url(store.__contains__, args.url)
        documents = store.history(url)
    if not documents:
        output.note(f"no page {output.shown_url(url)}")
        return EXIT_NOTHING_FOUND
    if args.json:
        for document in documents:
            output.json_line({"url": document.url, **document.newest.asdict()})
    else:
        has_crawl = any(document.newest.crawl for document in documents)
        headings = ("time", "status", "previous", "stored", "verdict", *(("crawl",) if has_crawl else ()))
        rows = ((*_row(document), document.newest.crawl)[: len(headings)] for document in documents)
        output.table(rows, headings, right=(1,))
    return EXIT_OK


def _row(document: Document) -> tuple[str, ...]:
    capture = document.newest
    stored, shown = capture.verdict, capture.shown_verdict
    when, status = output.iso(capture.timestamp), str(capture.status or output.NOTHING)
    if stored is None or shown is None or stored.reason == REASON_NOT_MODIFIED:
        return when, status, output.NOTHING, "visit" if stored is None else stored.stored, output.NOTHING
    previous = str(stored.previous)
    if previous == "changed":
        previous += f" {render.similarity(stored.previous_similarity)}"
    return when, status, previous, stored.stored, render.verdict_words(shown)


# --- docstore scan


def run_scan(args: argparse.Namespace) -> int:
    spec = ReadSpec(
        families=tuple(sorted(args.family)) if args.family else None,
        qualifier_prefix=arguments.row_key_bytes(args.qualifier_prefix),
        since=args.since or 0,
        until=args.until,
        versions=args.versions,
        keys_only=args.keys_only,
        crawl=args.crawl or "",
    )
    count = 0
    with open_named(args) as store:
        within = {
            "prefix": args.prefix,
            "host": args.host,
            "start": _bound(args.start) or b"",
            "end": _bound(args.end),
        }
        limit = args.limit if args.lang is None else None
        rows = store.cells.scan(qualifier_regex=args.qualifier_regex, limit=limit, spec=spec, **within)
        if args.lang is not None:
            from docstore.archives.selection import in_language

            is_wanted = in_language(store, args.lang, **within)
            rows = islice((row for row in rows if is_wanted(row.row_key, None)), args.limit)
        for row in rows:
            count += 1
            _print_row(args, row)
    if not count:
        output.note("no row matches")
    return EXIT_OK if count else EXIT_NOTHING_FOUND


def _bound(text: str | None) -> bytes | None:
    if text is None:
        return None
    return keys.row_key(text) if arguments.looks_like_url(text) else arguments.row_key_bytes(text)


def _print_row(args: argparse.Namespace, row: Row) -> None:
    if args.json:
        fields: dict[str, object] = {"url": row.url, "row_key": render.text_of(row.row_key)}
        fields["cells"] = [render.cell_fields(cell, value=not args.keys_only) for cell in row.cells]
        output.json_line(fields)
        return
    if args.keys_only:
        output.line(output.shown_url(row.url))
        return
    for cell in row.cells:
        if args.whole:
            shown = output.one_line(render.text_of(cell.value))
        else:
            shown = output.cut(render.value_words(cell.value), SHOWN_CHARACTERS)
        column = output.one_line(f"{cell.family}:{render.text_of(cell.qualifier)}")
        output.line("\t".join((output.shown_url(row.url), column, output.iso(cell.timestamp), shown)))


# --- docstore delete


def run_delete(args: argparse.Namespace) -> int:
    if (args.url is None) == (args.prefix is None and args.crawl is None) or (args.url and args.crawl):
        raise InvalidArgument("delete takes a URL, or --prefix, --crawl or both; see `docstore delete --help`")
    if (args.purge or args.crawl) and (args.family is not None or args.column is not None):
        raise InvalidArgument("--purge and --crawl delete whole captures; omit --family and --column")
    with ExitStack() as stack:
        store = open_in(stack, args)
        if args.url is None and not _agreed(args, store):
            output.note("nothing deleted")
            return EXIT_NOTHING_FOUND
        if args.crawl is not None:
            with ExitStack() as drawn:
                show = output.progress_of_count(args, drawn, " rows", "delete")
                deleted = store.delete_crawl(args.crawl, prefix=args.prefix, purge=args.purge, on_progress=show)
        else:
            urls = [keys.stored_url(store.__contains__, args.url)] if args.prefix is None else _urls(args, store)
            deleted = sum(_delete(args, store, url) for url in urls)
        if args.purge:
            with compacting_deleted_pages():
                report = store.compact(on_progress=output.progress_of_bytes(args, stack, "compact"))
            for sentence in report.advice:
                output.note(sentence)
    if args.json:
        output.json_line({"deleted": deleted})
    elif deleted:
        output.line(f"deleted {_what(args)}{deleted} {'row' if deleted == 1 else 'rows'}")
    else:
        output.note("nothing to delete" + ("" if args.crawl is None else f": {render.no_label(args.crawl)}"))
    return EXIT_OK if deleted else EXIT_NOTHING_FOUND


def _agreed(args: argparse.Namespace, store: Store) -> bool:
    if args.yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidArgument(
            "this may delete many pages and asks for confirmation, but there is no terminal; add --yes to delete them"
        )
    count = sum(1 for _ in _urls(args, store))
    if not count:
        return True
    where = "" if args.prefix is None else f" under {args.prefix}"
    return output.agrees(f"delete {_what(args)}{count} rows{where}?")


def _what(args: argparse.Namespace) -> str:
    if args.crawl is not None:
        return f"crawl {args.crawl} of "
    if args.family is not None:
        return f"family {args.family} of "
    if args.column is not None:
        family, qualifier = args.column
        return f"{family}:{render.text_of(qualifier)} of "
    return ""


def _urls(args: argparse.Namespace, store: Store) -> Iterator[str]:
    families = None if args.crawl is None else (CRAWL[0],)
    spec = ReadSpec(families, keys_only=True, cell_limit=1, crawl=args.crawl or "")
    return (row.url for row in store.cells.scan(prefix=args.prefix, spec=spec))


def _delete(args: argparse.Namespace, store: Store, url: str) -> bool:
    if args.family is None and args.column is None:
        return store.delete(url, purge=args.purge, compact=False)
    mutation: Mutation
    if args.family is not None:
        spec = ReadSpec(families=(args.family,), cell_limit=1, keys_only=True)
        mutation = DeleteFamily(args.family)
    else:
        family, qualifier = args.column
        spec = ReadSpec(families=(family,), qualifier_prefix=qualifier, versions=1, keys_only=True)
        mutation = DeleteCells(family, qualifier)
    row = store.cells.read_row(url, spec)
    wanted = None if args.column is None else args.column[1]
    if row is None or not any(wanted is None or cell.qualifier == wanted for cell in row.cells):
        return False
    store.cells.apply(url, [mutation])
    return True


# --- docstore key


def run_key(args: argparse.Namespace) -> int:
    if (args.url is None) == (args.row_key is None):
        raise InvalidArgument("key takes either a URL or --row-key; see `docstore key --help`")
    if args.row_key is None:
        url = keys.complete_url(args.url)
        row_key = keys.row_key(url)
    else:
        row_key = arguments.row_key_bytes(args.row_key)
        url = keys.url_of(row_key)
    variants = keys.variants(url)
    shown = render.text_of(row_key)
    lines = [("url", url), ("row key", shown), *(("variant", variant) for variant in variants)]
    output.answer(args, {"url": url, "row_key": shown, "variants": variants}, lines)
    return EXIT_OK
