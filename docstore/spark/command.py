"""The program `docstore-spark`, which finds the duplicates of files on any path that Spark reads.

It reads the arguments, starts a Spark session, and calls `docstore.spark.job`; no page passes through it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from docstore.archives.entries import TableColumns
from docstore.cli import arguments, output
from docstore.cli.arguments import declare
from docstore.model.choices import DEFAULT_SOURCE, CanonicalPolicy
from docstore.model.errors import EXIT_OK, DocstoreError
from docstore.model.types import Schema

DESCRIPTION = """\
Find all duplicates among pages where they lie, on Spark and without a store, as
`docstore sweep` finds them in a store.  It writes Parquet: DIR/clusters with url,
timestamp, kind, cluster, canonical, canonical_timestamp and similarity of each
version; DIR/fingerprints, which --against takes; DIR/errors, what was damaged
or refused; and with --kept DIR/kept, the pages that stay.  DIR/_work can be removed then."""
POLICIES = tuple(str(policy) for policy in CanonicalPolicy if policy is not CanonicalPolicy.MOST_ANCHORS)
SETTINGS = {"spark.checkpoint.compress": "true", "spark.cleaner.referenceTracking.cleanCheckpoints": "true"}
"""Settings of a session that this program starts."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    result = argparse.ArgumentParser("docstore-spark", description=DESCRIPTION)
    result.formatter_class = argparse.RawDescriptionHelpFormatter
    declare(result, "paths PATH+", "Parquet files of pages, folders or patterns, of any file system that Spark reads")
    declare(result, "--output DIR", "folder that all executors see; what is written must not exist", required=True)
    declare(result, "--files", "the paths are WARC, WET, ARC or JSON Lines, packed or not")
    declare(result, "--url-column NAME", "the column with the URL (default: url)", default="")
    declare(result, "--text-column NAME", "the column with the text, instead of a body (default: text)", default="")
    declare(result, "--id-column NAME", "the column that names a row without a URL (default: docno, id)", default="")
    source = f"the data set of such rows, in their URLs urn:docstore:NAME:ID (default: {DEFAULT_SOURCE})"
    declare(result, "--source NAME", source, default=DEFAULT_SOURCE)
    declare(result, "--against DIR*", "a fingerprints folder of an earlier crawl: its pages are the canonical ones")
    declare(result, "--kept", "also write the pages that stay: url, timestamp, title, text")
    declare(result, "--threshold J", "least similarity (default: 0.8)")
    declare(result, "--canonical-policy", "how a canonical page is chosen", POLICIES, POLICIES[0])
    declare(result, "--same-url", "also pairs of versions of one URL")
    declare(result, "--extractor NAME", "of the main text, as of `docstore init`", default=Schema().extractor)
    declare(result, "--shingle-words N", "words in a shingle", default=Schema().shingle_words)
    declare(result, "--no-title-rule", "titles set no pairs apart")
    declare(result, "--master URL", "of Spark: spark://HOST:7077, local[2] (default: as Spark is set up)")
    declare(result, "--spark NAME=VALUE*", "a setting of Spark, such as spark.executor.memory=4g", arguments.setting)
    arguments.add_json(result, "the counts as one JSON object")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run `docstore-spark` with these arguments (None: those of the process); -> exit code."""
    args = parser().parse_args(argv)
    try:
        from docstore.spark.job import SparkOptions, start, sweep

        schema = Schema(extractor=args.extractor, shingle_words=args.shingle_words, title_rule=not args.no_title_rule)
        policy = CanonicalPolicy(args.canonical_policy)
        columns = TableColumns(args.url_column, args.text_column, args.id_column, args.source)
        options = SparkOptions(
            schema, args.threshold, policy, args.same_url, tuple(args.against), args.kept, args.files, columns
        )
        spark = start(args.master, SETTINGS | dict(args.spark))
        try:
            report = sweep(spark, args.paths, args.output, options)
        finally:
            spark.stop()
    except DocstoreError as error:
        output.report_error(str(error))
        return error.exit_code
    kinds = [(kind, str(count)) for kind, count in report.kinds.items()]
    output.answer(args, report.asdict(), [("versions", str(report.versions)), ("errors", str(report.errors)), *kinds])
    return EXIT_OK


def program() -> None:
    """Run `main` and exit the process."""
    sys.exit(main())
