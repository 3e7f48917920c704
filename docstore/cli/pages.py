"""Write, read, list and delete pages and their cells, one URL or a range of them.

The cold start of `docstore get` matters: it reads only families that it shows, and this module imports neither numpy
nor lxml nor an archive reader.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING

from docstore.cli import answers, arguments, output
from docstore.cli.arguments import declare
from docstore.cli.capture import print_capture
from docstore.cli.opening import open_in, open_named, stored_url
from docstore.model import keys
from docstore.model.capture import CRAWL, REASON_NOT_MODIFIED
from docstore.model.errors import EXIT_NOTHING_FOUND, EXIT_OK, InvalidArgument
from docstore.model.keys import complete_url, holds_password
from docstore.model.types import DeleteCells, DeleteFamily, Mutation, ReadSpec
from docstore.reading.cells import Row
from docstore.reading.documents import Capture, Document, rejection_of
from docstore.store import SNIPPET_LENGTH

if TYPE_CHECKING:
    from docstore.attach import Store

# --- docstore put


PUT_DESCRIPTION = """\
Write one page and print the verdict: new, exact, same_text, near, contained or similar,
and how it differs from the version before of its URL."""

PUT_EXAMPLES = """\
docstore put https://example.com/ page.html
curl -s https://example.com/ | docstore put https://example.com/ -
docstore put example.com/a a.html --header 'Content-Type: text/html; charset=utf-8' --fetched-at 2024-05-01
docstore put https://example.com/ --status 304
docstore put https://example.com/copy page.html --policy exact=reject --json
"""

NO_BODY_STATUS = 304


def add_put_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "url URL", "of the page; https:// is added if the scheme is missing")
    declare(parser, "file FILE?", "its body; - or nothing for stdin")
    declare(parser, "--header 'NAME: VALUE'*", "a response header as received; may be repeated", arguments.header)
    declare(parser, "--status N", "HTTP status (default: 200); 304 is a visit", arguments.status, 200)
    declare(parser, "--fetched-at TIME", "when it was fetched (default: now)")
    declare(parser, "--crawl LABEL", "of the crawl that fetched it")
    arguments.add_any_time(parser)
    arguments.add_policies(parser)
    arguments.add_durability(parser)
    arguments.add_create(parser)
    arguments.add_store(parser)
    arguments.add_json(parser, "the answer as one JSON object")


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
    if holds_password(url):
        output.note("the URL contains a user and a password; both are stored and listed with it")
    output.answer(args, result.asdict(), answers.put_words(result))
    return EXIT_OK


def _body(file: str | None, status: int) -> bytes:
    if file is not None:
        return arguments.read_input(file)
    if status == NO_BODY_STATUS:
        return b""
    if sys.stdin.isatty():
        raise InvalidArgument("no body; name a FILE, or pipe the page to stdin")
    return arguments.read_input("-")


# --- docstore get


GET_DESCRIPTION = """\
Print a page: title and text, or what the options select.  --versions prints
several captures, newest first.  --snippet prints the passages that answer a
query, of one page or of all pages of a result list.  --explain prints each
block of the page, whether it is main text, and why.  Pages are compared by
their main text."""

GET_EXAMPLES = """\
docstore get https://example.com/
docstore get example.com --variants --follow-redirects
docstore get https://example.com/ --at 2024-05-01T12:00:00Z
docstore get https://example.com/logo.png --body > logo.png
docstore get https://example.com/ --headers
docstore get https://example.com/ --column http:type
docstore get https://example.com/ --column anchor:
docstore get https://example.com/ --versions 3 --json
docstore get https://example.com/ --explain
docstore get https://example.com/ --outline --json
docstore get https://example.com/ --snippet 'solar power'
docstore get https://example.com/ https://example.org/ --snippet solar --html
"""


def add_get_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "urls URL+", "of the page; https:// is added if the scheme is missing; several only with --snippet")
    shown = parser.add_mutually_exclusive_group()
    declare(shown, "--body", "the bytes as fetched")
    declare(shown, "--headers", "status and response headers")
    declare(shown, "--explain", "each block of the page: whether it is main text, and why")
    declare(shown, "--outline", "main text cut at the page's own headings")
    declare(
        shown,
        "--column F:Q",
        "the value of one column as stored; F: lists a whole family, such as anchor: (qualifier, time, value)",
    )
    declare(
        shown,
        "--snippet QUERY",
        "the passages that cover the query best, matched words in bold or between asterisks; with '' the description "
        "or the beginning",
    )
    declare(parser, "--length N", f"characters of a snippet (default: {SNIPPET_LENGTH})")
    declare(parser, "--html", "a snippet that is safe in HTML, words in <mark>")
    declare(parser, "--at TIME", "the newest capture up to this time")
    declare(parser, "--versions N", "most captures (default: 1)", default=1)
    declare(parser, "--follow-redirects", "follow stored redirects")
    declare(parser, "--follow-duplicates", "if the page was rejected, show the page that it duplicates")
    declare(parser, "--variants", "if the page is not stored, try http or https, with and without www")
    arguments.add_store(parser)
    arguments.add_read_only(parser)
    arguments.add_json(parser, "one JSON object a line: one a capture, with --column one a cell")


def run_get(args: argparse.Namespace) -> int:
    _check(args)
    with open_named(args) as store:
        url = stored_url(store, args.urls[0])
        if args.snippet is not None:
            return _print_snippets(args, store, [url, *(stored_url(store, each) for each in args.urls[1:])])
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
        if args.explain:
            return _print_explanations(args, store, document)
        for number, capture in enumerate(document.captures):
            if args.versions > 1 and not (args.json or args.body):
                output.line(f"{chr(10) if number else ''}--- {output.iso(capture.timestamp)}")
            if not print_capture(args, document, capture):
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
                output.note(f"no text of {output.shown_url(url)}")
            continue
        shown_count += 1
        if args.json:
            output.json_line(snippet.asdict())
            continue
        shown = answers.snippet_pieces(snippet, html=args.html)
        output.styled_line([f"{output.shown_url(url)}\t", *shown] if len(urls) > 1 else shown)
    return EXIT_OK if shown_count else EXIT_NOTHING_FOUND


def _print_explanations(args: argparse.Namespace, store: Store, document: Document) -> int:
    shown = import_module("docstore.cli.diff")
    explained = False
    for capture in document.captures:
        if args.versions > 1 and not args.json:
            output.line(f"{chr(10) if explained else ''}--- {output.iso(capture.timestamp)}")
        explained |= shown.print_explanation(document, capture, store.schema.extractor, as_json=args.json)
    return EXIT_OK if explained else EXIT_NOTHING_FOUND


def _families(args: argparse.Namespace) -> tuple[str, ...]:
    if args.explain:
        return ("http", "text", "dedup", "page")
    if args.json:
        return ("http", "text", "dedup", "page") if args.body else ("http", "text", "dedup")
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
    output.note(f"{answers.rejected_words(rejected)}; {hint}")
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
            output.json_line(answers.cell_fields(cell))
        elif qualifier:
            output.write_bytes(cell.value)
        else:
            words = (answers.text_of(cell.qualifier), output.iso(cell.timestamp), answers.value_words(cell.value))
            output.line("\t".join(output.one_line(word) for word in words))
    if not count:
        wanted = f"{family}:{answers.text_of(qualifier)}"
        output.note(f"{output.shown_url(url)} has no cell {wanted}")
    return EXIT_OK if count else EXIT_NOTHING_FOUND


# --- docstore history


HISTORY_DESCRIPTION = """\
List the live captures of a page and those that a policy rejected, newest
first: time, status, difference to the version before, and the verdict against
other URLs when it was written."""

HISTORY_EXAMPLES = """\
docstore history https://example.com/
docstore history example.com/about --json
"""


def add_history_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "url URL", "of the page; https:// is added if the scheme is missing")
    arguments.add_store(parser)
    arguments.add_read_only(parser)
    arguments.add_json(parser, "one JSON object a line: one a capture")


def run_history(args: argparse.Namespace) -> int:
    with open_named(args) as store:
        url = stored_url(store, args.url)
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
        return when, status, output.NOTHING, "visit", output.NOTHING
    previous = str(stored.previous)
    if previous == "changed":
        previous += f" {answers.similarity(stored.previous_similarity)}"
    return when, status, previous, stored.stored, answers.verdict_words(shown)


# --- docstore scan


SCAN_DESCRIPTION = """\
List cells of rows in row-key order: the pages of a site are together.  Without
a range all rows are read.  One line a cell: URL, column, time, value.  Each
column shows its newest version, or as many as --versions says.  Of a binary
value only the length is shown; --json and --whole show the value."""

SCAN_EXAMPLES = """\
docstore scan --host example.com --keys-only
docstore scan --prefix https://example.com/blog/ --family text --qualifier-prefix title
docstore scan --family anchor --qualifier-regex 'https://news\\..*' --limit 100
docstore scan --start 'com,example)/' --end 'com,example)/n' --family http --json
docstore scan --since 2024-05-01 --until 2024-06-01 --family http --versions all
docstore scan --lang en --family text --qualifier-prefix title
docstore scan --crawl 2024-05 --keys-only
"""

SHOWN_CHARACTERS = 100


def add_scan_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_range(parser)
    declare(parser, "--start KEY", "first row key or URL, inclusive")
    declare(parser, "--end KEY", "row key or URL to stop before")
    declare(parser, "--family NAME*", "only this family; may be repeated")
    declare(parser, "--qualifier-prefix TEXT", "only qualifiers with this prefix", default="")
    declare(parser, "--qualifier-regex REGEX", "only qualifiers that match completely")
    declare(parser, "--lang TAG", "only pages in this language, as in `export --lang`")
    arguments.add_crawl(parser)
    arguments.add_times(parser)
    declare(parser, "--versions N", "newest versions a column, or all (default: 1)", arguments.positive_or_all, 1)
    declare(parser, "--limit N", "most rows")
    declare(parser, "--keys-only", "one URL a line; values are not read")
    declare(parser, "--whole", f"whole values, not the first {SHOWN_CHARACTERS} characters; binary values as escapes")
    arguments.add_store(parser)
    arguments.add_read_only(parser)
    arguments.add_json(parser, "one JSON object a line: one a row, with its cells")


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
            languages = import_module("docstore.archives.export").Languages(store, args.lang, **within)
            rows = islice((row for row in rows if languages.has(row.row_key)), args.limit)
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
        fields: dict[str, object] = {"url": row.url, "row_key": answers.text_of(row.row_key)}
        fields["cells"] = [answers.cell_fields(cell, value=not args.keys_only) for cell in row.cells]
        output.json_line(fields)
        return
    if args.keys_only:
        output.line(output.shown_url(row.url))
        return
    for cell in row.cells:
        if args.whole:
            shown = output.one_line(answers.text_of(cell.value))
        else:
            shown = output.cut(answers.value_words(cell.value), SHOWN_CHARACTERS)
        column = output.one_line(f"{cell.family}:{answers.text_of(cell.qualifier)}")
        output.line("\t".join((output.shown_url(row.url), column, output.iso(cell.timestamp), shown)))


# --- docstore delete


DELETE_DESCRIPTION = """\
Delete a page with all its versions, or one family or column of it.  A delete
removes what is stored now; what is put later is visible, whatever its time.
--prefix deletes every page whose URL has this prefix.  --crawl deletes the
captures that a crawl fetched, of all pages or of those under --prefix, and the
anchors that they wrote; a capture that a visit of another crawl confirms stays,
with that crawl's label.  Repeat an interrupted delete to complete it.  Both ask
for confirmation on the terminal; without a terminal --yes is required."""

DELETE_EXAMPLES = """\
docstore delete https://example.com/private
docstore delete https://example.com/ --family anchor
docstore delete https://example.com/ --column anchor:https://spam.example/
docstore delete --prefix https://example.com/calendar/ --yes
docstore delete https://example.com/private --purge
docstore delete --crawl 2024-05 --yes
"""


def add_delete_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "url URL?", "of the page; https:// is added if the scheme is missing")
    declare(parser, "--prefix URL", "all pages whose URL has this prefix, with any scheme and port")
    arguments.add_crawl(parser)
    part = parser.add_mutually_exclusive_group()
    declare(part, "--family NAME", "only this family of the row")
    declare(part, "--column F:Q", "only this column of the row")
    declare(
        parser,
        "--purge",
        "delete pages for good: also compacts the store, so that none of their bytes remain",
    )
    declare(parser, "--yes", "do not ask")
    arguments.add_progress(parser, "with --crawl or --purge: ")
    arguments.add_store(parser)
    arguments.add_json(parser, "one JSON object: {deleted}, the number of rows from which something was deleted")


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
            urls = [complete_url(args.url)] if args.prefix is None else _urls(args, store)
            deleted = sum(_delete(args, store, url) for url in urls)
        if args.purge:
            report = store.compact(on_progress=output.progress_of_bytes(args, stack, "compact"))
            for sentence in report.advice:
                output.note(sentence)
    if args.json:
        output.json_line({"deleted": deleted})
    elif deleted:
        output.line(f"deleted {_what(args)}{deleted} {'row' if deleted == 1 else 'rows'}")
    else:
        output.note("nothing to delete")
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
        return f"{family}:{answers.text_of(qualifier)} of "
    return ""


def _urls(args: argparse.Namespace, store: Store) -> Iterator[str]:
    families = None if args.crawl is None else (CRAWL[0],)
    spec = ReadSpec(families, keys_only=True, cell_limit=1, crawl=args.crawl or "")
    return (row.url for row in store.cells.scan(prefix=args.prefix, spec=spec))


def _delete(args: argparse.Namespace, store: Store, url: str) -> bool:
    if args.family is None and args.column is None:
        return store.delete(url, purge=args.purge)
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


KEY_DESCRIPTION = """\
Show the canonical URL and the row key of a URL, or with --row-key the URL of a
row key.  Two URLs are the same page if their canonical URLs are equal."""

KEY_EXAMPLES = """\
docstore key https://www.Example.com:443/a/../b#top
docstore key bücher.example --json
docstore key --row-key 'com,example,www)/b https'
"""


def add_key_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "url URL?", "https:// is added if the scheme is missing")
    declare(parser, "--row-key KEY", "show the URL of this row key")
    arguments.add_json(parser, "one JSON object: {url, row_key, variants}")


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
    shown = answers.text_of(row_key)
    lines = [("url", url), ("row key", shown), *(("variant", variant) for variant in variants)]
    output.answer(args, {"url": url, "row_key": shown, "variants": variants}, lines)
    return EXIT_OK
