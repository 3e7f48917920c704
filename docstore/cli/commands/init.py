"""`docstore init`: make a store and say once what it declares.

Knows the schema's options; the store checks their values.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from docstore.backends import store_exists
from docstore.cli import arguments, output
from docstore.cli.opening import open_files
from docstore.model.errors import EXIT_OK, InvalidArgument
from docstore.model.types import ColumnFamily, GCPolicy, Schema

DESCRIPTION = """\
Make a store.  The schema cannot be changed later: all pages of a store use one
extractor and one shingle length.  Everything has a default."""

EXAMPLES = """\
docstore init
docstore init --store crawl-2024 --checksum sha256
docstore init --captures max_versions=10,max_age=1y --bodies max_versions=3
docstore init --family link --family crawl:max_versions=3,max_age=90d
docstore init --on exact=reject --on near=reference
docstore init --vocabulary press.toml
"""

_DEFAULTS = Schema()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    arguments.add_store(parser)
    parser.add_argument(
        "--extractor",
        metavar="NAME",
        default=_DEFAULTS.extractor,
        help=f"rule that finds the text which carries the fingerprints (default: {_DEFAULTS.extractor})",
    )
    parser.add_argument(
        "--shingle-words",
        metavar="N",
        type=arguments.positive,
        default=_DEFAULTS.shingle_words,
        help=f"words in a shingle (default: {_DEFAULTS.shingle_words})",
    )
    parser.add_argument(
        "--near-threshold",
        metavar="J",
        type=arguments.share,
        default=_DEFAULTS.near_threshold,
        help=f"least Jaccard coefficient of near (default: {_DEFAULTS.near_threshold})",
    )
    parser.add_argument(
        "--contained-threshold",
        metavar="C",
        type=arguments.share,
        default=_DEFAULTS.contained_threshold,
        help=f"least share of a page in an older one for contained (default: {_DEFAULTS.contained_threshold})",
    )
    parser.add_argument(
        "--similar-threshold",
        metavar="J",
        type=_share_or_none,
        default=_DEFAULTS.similar_threshold,
        help="least Jaccard coefficient of similar, which is only shown; none for a store without this grade "
        f"(default: {_DEFAULTS.similar_threshold})",
    )
    parser.add_argument(
        "--keyed-bands",
        action="store_true",
        help="choose the bands of sketches by a secret of the store, for crawls of strangers: "
        "nobody else can aim at the index, and two stores of the same pages may differ in what they propose",
    )
    parser.add_argument(
        "--no-title-rule",
        action="store_true",
        help="give verdicts on text whatever the titles say: a notice that pages of a host share makes them near",
    )
    parser.add_argument(
        "--checksum",
        metavar="NAME",
        default=_DEFAULTS.checksum,
        help=f"checksum of bodies, such as blake3, sha256, md5 (default: {_DEFAULTS.checksum})",
    )
    parser.add_argument(
        "--vocabulary",
        metavar="FILE.toml",
        type=Path,
        help="where XML of your own has its title, text and entries, as docs/extraction.md shows",
    )
    parser.add_argument(
        "--family",
        metavar="NAME[:max_versions=N,max_age=30d,intersection]",
        type=family,
        action="append",
        default=[],
        help="a column family of your own with its GC policy, or another policy for anchor; "
        "a version goes when it breaks either bound, with intersection when it breaks both; may be repeated",
    )
    parser.add_argument(
        "--captures",
        metavar="max_versions=N,max_age=30d,intersection",
        type=gc_policy,
        default=_DEFAULTS.captures,
        help="which captures of a page are kept: N different bodies, as old as that at most (default: all); "
        "visits live as long as the capture that they confirm",
    )
    parser.add_argument(
        "--bodies",
        metavar="max_versions=N,max_age=30d,intersection",
        type=gc_policy,
        default=_DEFAULTS.bodies,
        help="which of these keep their bodies (default: all); text and fingerprints of the others stay",
    )
    arguments.add_policies(parser)
    arguments.add_json(parser, "the store's path and schema as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Make the store."""
    if store_exists(args.store):
        raise InvalidArgument(f"there is a store at {args.store} already; `docstore stats` shows it")
    schema = Schema(
        families=tuple(args.family),
        extractor=args.extractor,
        shingle_words=args.shingle_words,
        near_threshold=args.near_threshold,
        contained_threshold=args.contained_threshold,
        checksum=args.checksum,
        policies=tuple(args.on),
        similar_threshold=args.similar_threshold,
        keyed_bands=args.keyed_bands,
        vocabulary=_vocabulary(args.vocabulary) if args.vocabulary else "",
        title_rule=not args.no_title_rule,
        captures=args.captures,
        bodies=args.bodies,
    )
    open_files(args, "init makes the files of a store", create=True, schema=schema).close()
    if args.json:
        output.json_line({"store": args.store, "schema": schema_fields(schema)})
    else:
        output.line(f"made a store at {args.store}")
    return EXIT_OK


def _vocabulary(path: Path) -> str:
    try:
        source = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"cannot read the vocabulary {path}: {error}") from error
    try:
        import_module("docstore.text.vocabulary").parse(source)
    except InvalidArgument as error:
        raise InvalidArgument(f"{path}: {error}") from error
    return source


def _share_or_none(text: str) -> float | None:
    return None if text == "none" else arguments.share(text)


def schema_fields(schema: Schema) -> dict[str, Any]:
    """A schema for JSON."""
    fields = schema._asdict()
    fields["families"] = [one._asdict() | {"gc": one.gc._asdict()} for one in schema.families]
    fields |= {"captures": schema.captures._asdict(), "bodies": schema.bodies._asdict()}
    fields["policies"] = {str(kind): str(policy) for kind, policy in schema.policies}
    return fields


def family(text: str) -> ColumnFamily:
    """A column family of `name[:max_versions=N,max_age=30d,intersection]`."""
    name, _, rules = text.partition(":")
    try:
        return ColumnFamily(name, gc_policy(rules) if rules else GCPolicy())
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def gc_policy(text: str) -> GCPolicy:
    """A GC policy of `max_versions=N,max_age=30d,intersection`."""
    max_versions: int | None = None
    max_age_seconds: float | None = None
    intersection = False
    for rule in text.split(","):
        word, _, value = rule.partition("=")
        if word == "max_versions":
            max_versions = arguments.positive(value)
        elif word == "max_age":
            max_age_seconds = arguments.span_seconds(value)
        elif rule == "intersection":
            intersection = True
        else:
            raise argparse.ArgumentTypeError(
                f"not a rule of a policy: {rule!r}; write max_versions=N, max_age=30d or intersection"
            )
    try:
        return GCPolicy(max_versions, max_age_seconds, intersection)
    except InvalidArgument as error:
        raise argparse.ArgumentTypeError(str(error)) from error
