"""Descriptions, examples and arguments of the commands that work on whole stores: archives, sweep, upkeep, servers.

What a parser needs and nothing else: neither the modules that run these commands nor the types of the model are
imported, so that `--help` and completion scripts come at once.  Words and defaults come from `model.choices`.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from docstore.cli import arguments
from docstore.cli.arguments import declare
from docstore.model import choices

if TYPE_CHECKING:
    from docstore.model.types import ColumnFamily, GCPolicy

HIGHEST_PORT = 65535


# --- docstore init

INIT_DESCRIPTION = """\
Make a store.  The schema cannot be changed later: all pages of a store use one
extractor and one shingle length.  Every option has a default."""

INIT_EXAMPLES = """\
docstore init
docstore init --store crawl-2024 --keyed-bands
docstore init --captures max_versions=10,max_age=1y --bodies max_versions=3
docstore init --family link --family crawl:max_versions=3,max_age=90d
docstore init --policy exact=reject --policy near=reference
docstore init --vocabulary press.toml
"""


def add_init_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_store(parser)
    declare(
        parser,
        "--extractor NAME",
        f"rule that extracts the text to fingerprint (default: {choices.EXTRACTOR})",
        default=choices.EXTRACTOR,
    )
    declare(
        parser,
        "--shingle-words N",
        f"words in a shingle (default: {choices.SHINGLE_WORDS})",
        default=choices.SHINGLE_WORDS,
    )
    declare(
        parser,
        "--near-threshold J",
        f"least Jaccard coefficient of near (default: {choices.NEAR_THRESHOLD})",
        default=choices.NEAR_THRESHOLD,
    )
    declare(
        parser,
        "--contained-threshold C",
        f"least share of a page in an older one for contained (default: {choices.CONTAINED_THRESHOLD})",
        arguments.share,
        choices.CONTAINED_THRESHOLD,
    )
    declare(
        parser,
        "--similar-threshold J",
        "least Jaccard coefficient of similar, which is only reported; none turns this verdict off "
        f"(default: {choices.SIMILAR_THRESHOLD})",
        _share_or_none,
        choices.SIMILAR_THRESHOLD,
    )
    declare(
        parser,
        "--keyed-bands",
        "choose the bands of sketches by a secret of the store, for crawls of untrusted sites: nobody else can fill "
        "its buckets on purpose, but two stores of the same pages may propose different candidates",
    )
    declare(
        parser,
        "--no-title-rule",
        "give verdicts on text alone, whatever the titles say: a notice that pages of a host share makes them near",
    )
    declare(
        parser,
        "--vocabulary FILE.toml",
        "paths of title, text and entries in your own XML, as in docs/extraction.md",
        arguments.path,
    )
    declare(
        parser,
        "--family NAME[:max_versions=N,max_age=30d,intersection]*",
        "a column family of your own with its GC policy, or another policy for anchor; a version is deleted if it "
        "exceeds either bound, with intersection if it exceeds both; may be repeated",
        _family,
    )
    declare(
        parser,
        "--captures max_versions=N,max_age=30d,intersection",
        "which captures of a page are kept: N different bodies, up to this age (default: all); "
        "visits live as long as the capture that they confirm",
        _gc_policy,
    )
    declare(
        parser,
        "--bodies max_versions=N,max_age=30d,intersection",
        "which of these keep their bodies (default: all); text and fingerprints of the others stay",
        _gc_policy,
    )
    arguments.add_policies(parser)
    arguments.add_json(parser, "the store's path and schema as one JSON object")


def _family(text: str) -> ColumnFamily:
    from docstore.cli.stores import family

    return family(text)


def _gc_policy(text: str) -> GCPolicy:
    from docstore.cli.stores import gc_policy

    return gc_policy(text)


def _share_or_none(text: str) -> float | None:
    return None if text == "none" else arguments.share(text)


# --- docstore copy

COPY_DESCRIPTION = """\
Copy a store into another one, which is created if it does not exist: all pages
with their versions, visits, anchors, cells, verdicts and clusters, and the
index for later verdicts.  Deleted and expired data is not copied.  A killed
copy continues where it stopped; a complete copy is updated.  FROM may be open
elsewhere for reading, not for writing."""

COPY_EXAMPLES = """\
docstore copy webtable /new/disk/webtable
docstore copy webtable /new/disk/webtable --delete --json
docstore copy webtable webtable-copy --threads 4 --no-verify
"""


def add_copy_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "source FROM", "store to copy; it is not changed")
    declare(parser, "target TO", "a new store, or an earlier copy of FROM")
    declare(parser, "--[no-]verify", "read every row of the copy and compare its checksum (default: yes)", default=True)
    declare(parser, "--delete", "remove rows of TO that FROM does not have; else they are counted")
    declare(parser, "--threads N", "threads that copy (default: 2)", default=2)
    arguments.add_progress(parser)
    arguments.add_json(parser, "the report as one JSON object")


# --- docstore backup

BACKUP_DESCRIPTION = """\
Copy a store, as of one moment, into a folder.  If the folder has an earlier
backup of the same store, it is updated: segments that it has are not copied
again.  `docstore restore` makes a store from it."""

BACKUP_EXAMPLES = """\
docstore backup /backups/webtable
docstore backup /backups/webtable --store crawl-2024 --json
"""


def add_backup_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "folder DIR", "folder of the backup; created if it does not exist")
    arguments.add_progress(parser)
    arguments.add_store(
        parser, "{segments, copied_segments, copied_bytes, total_bytes} as one JSON object", read_only=True
    )


# --- docstore restore

RESTORE_DESCRIPTION = """\
Make a store from a folder that `docstore backup` wrote.  The backup is not
changed.  The new store is opened once, to check that it is complete."""

RESTORE_EXAMPLES = """\
docstore restore /backups/webtable webtable-restored
"""


def add_restore_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "folder DIR", "folder of the backup")
    declare(parser, "store STORE", "directory of the new store; must not exist, or be empty")
    arguments.add_progress(parser)
    arguments.add_json(parser, "{store, captures} as one JSON object")


"""Of Parquet; the module that has them imports pyarrow."""


# --- docstore ingest

INGEST_DESCRIPTION = """\
Write the pages of WARC 1.0/1.1, WET, ARC and TREC Web files and of JSON Lines,
plain, gzip or zstd, of WACZ files, and of Parquet files with a column url or
id, and body or text, as those of FineWeb.  A line of JSON has url or id, and
text, html or body_base64; its other fields become a note.  --url-column,
--text-column and --id-column name other columns.  The format is detected by
content.
A FILE may be a URL of http or https (ranges; a broken connection goes on), or
of s3, gs or az with the extra of that name; credentials come from the
environment and the files of the cloud's tools.  Of a folder all archives in it
are read; hidden files and stores are left out, other files are passed over.
Revisits are resolved after all files are read, so the order of files does not
matter.  Damaged records are reported with file and offset, and skipped; the
exit code is then 8.  It is also 8 if the original of a revisit is neither in
these files nor in the store.  If you repeat a run, nothing is written twice.
With --mirror, files that wget or HTTrack saved become pages: the path below DIR
is the path below the base URL, the time of a file is its capture time."""

INGEST_EXAMPLES = """\
docstore ingest crawl-*.warc.gz
docstore ingest crawl.warc.gz --policy exact=reject --rejected rejected.jsonl
docstore ingest crawl.warc.gz --policy exact=reference --policy near=reference
curl -s https://example.org/crawl.warc.gz | docstore ingest - --json
docstore ingest crawl.warc.gz --dry-run
docstore ingest crawl.warc.gz --anchors
docstore ingest crawl.warc.gz --crawl 2024-05
docstore ingest fineweb/*.parquet CC-MAIN-*.warc.wet.gz
docstore ingest train-*.parquet --id-column doc_id --text-column content --source books
docstore ingest crawls/ one-more.wacz --create
docstore ingest 's3://bucket/crawl/*.warc.gz' https://example.org/more.warc.gz
docstore ingest --files-from warc.paths.gz --base https://data.commoncrawl.org/ --jobs 2
docstore ingest --records index.cdxj --base https://data.commoncrawl.org/ --rate 20
docstore ingest --mirror mirror/example.com --base https://example.com/
docstore ingest crawl.warc.gz --keep-encoded --create
"""


def add_ingest_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "files FILE*", "an archive or a folder of archives, a pattern or a URL of either; - for stdin")
    declare(
        parser,
        "--files-from FILE",
        "also what this file (- for stdin) lists, one path or URL a line, plain or gzip: paths of Common Crawl, or a "
        "manifest",
    )
    declare(parser, "--jobs N", "processes that read and analyse, each of them other files (default: 1)", default=1)
    declare(
        parser,
        "--records FILE",
        "instead: fetch just the records that this list names, with filename, offset and length: CDXJ, JSON Lines of "
        "an index server, or Parquet as Common Crawl's index; what is stored already is not fetched again",
    )
    declare(parser, "--at-once N", "with --records: requests at once (default: 8)", default=8)
    declare(parser, "--rate N", "with --records: most requests a second (default: no limit)", float, 0.0)
    declare(parser, "--mirror DIR", "instead: a folder of saved pages; needs --base")
    declare(
        parser,
        "--base URL",
        "URL of the folder of --mirror, https:// alone if the folders in it are named by hosts; with --files-from "
        "and --records: URL or folder before each name of the list",
    )
    declare(
        parser,
        "--windows-names",
        "with --mirror: wget wrote the names for Windows, so an @ in a file name begins the query",
    )
    declare(
        parser,
        "--keep-encoded",
        "also keep WARC and ARC records as they were recorded: encodings, requests, metadata, revisits; for "
        "export --keep-encoded; needs a store with family warc, which --create makes",
    )
    declare(
        parser,
        "--methods NAME,...",
        "also store answers to these methods, such as POST, under the URL by which pywb asks for them",
    )
    declare(parser, "--url-column NAME", "of Parquet and JSON Lines: the column with the URL (default: url)")
    declare(parser, "--text-column NAME", "of these: the column with the text, instead of a body (default: text)")
    declare(parser, "--id-column NAME", "of these: the column that names a row in its data set (default: docno, id)")
    declare(
        parser,
        "--source NAME",
        "of these: the data set; a row without a URL gets urn:docstore:NAME:ID, and all rows of a data set are one "
        f"site for --policy (default: {choices.DEFAULT_SOURCE})",
        default=choices.DEFAULT_SOURCE,
    )
    arguments.add_policies(parser)
    declare(parser, "--rejected FILE", "file for all rejected pages of these archives, one JSON object a line")
    declare(parser, "--dry-run", "compute every verdict, write nothing")
    declare(parser, "--anchors", "write each link's text into the anchor family of its target page")
    arguments.add_any_time(parser)
    declare(parser, "--crawl LABEL", "label of the crawl of these pages; stored pages keep their label")
    declare(
        parser, "--keep-truncated", "store the readable part of a page with a cut or broken record, marked as truncated"
    )
    declare(
        parser,
        "--strip-passwords",
        "remove user and password from URLs that have both (default: they are stored, with a warning)",
    )
    declare(
        parser,
        "--max-body-bytes N",
        "longest body; a page with a longer one is reported and skipped; memory is at most about four times this "
        f"(default: {choices.BODY_LIMIT_BYTES})",
        arguments.positive,
        choices.BODY_LIMIT_BYTES,
    )
    declare(parser, "--threads N", "threads for analysis (default: 2)", default=2)
    declare(
        parser,
        "--[no-]reader",
        "read and analyse in a second process (default: for files of 16 MB and more, with a second core and not "
        "--threads 1)",
    )
    arguments.add_progress(parser)
    arguments.add_durability(parser)
    arguments.add_create(parser)
    arguments.add_store(parser, "the report as one JSON object")


# --- docstore export

EXPORT_DESCRIPTION = """\
Write pages as WARC 1.1 (gzip, one member a record; captures with the same bytes
become revisit records), as WACZ (such a WARC with index, page list and digests
in one file), as TREC Web with document numbers, as JSON Lines with title, text,
verdict and notes, or as Parquet.  `docstore ingest` reads WARC, WACZ, TREC Web,
JSON Lines with --body and the layout `full` of Parquet back to the same pages.
JSON Lines and TREC Web are packed if the name of FILE ends in .gz or .zst.
--cdxj writes the index with which pywb and other tools find
records in the WARC file; it has offsets in that file, so both are written by
one run.  --keep-encoded writes records that `ingest --keep-encoded` kept as
they were recorded.  Captures without a recorded form are written anew.  If only
part of the store is exported, revisit records become whole pages.  The layouts
of Parquet: full has all that the store knows of a page, also its cluster and its
notes; fineweb has text in the columns of the FineWeb data set; ccindex has the
columns of the columnar index of Common Crawl."""

EXPORT_EXAMPLES = """\
docstore export --output all.warc.gz --versions all
docstore export --crawl 2024-05 --output may.warc.gz
docstore export --output all.warc.gz --cdxj all.cdxj --versions all
docstore export --format wacz --host example.com --output example.wacz
docstore export --keep-encoded --versions all --output same.warc.gz
docstore export --format trecweb --host example.com --output example.trec
docstore export --format jsonl --status 200 --lang en --where 'quality.words >= 50' --output pages.jsonl.gz
docstore export --collapse --status 200 --dropped dropped.tsv --output unique.warc.gz
docstore export --format warc --since 2024-05-01 --until 2024-06-01 --output may.warc.gz --json
docstore export --format parquet --versions all --output all.parquet
docstore export --format parquet --columns url,title,verdict --collapse --output pages.parquet
docstore export --format parquet --layout fineweb --verdict new --output text.parquet
docstore export --output s3://bucket/may/pages.warc.gz --shard-size 1GB
docstore export --format jsonl --quality fineweb --where 'lang.lang = en' --drop-repeated-lines > text.jsonl
docstore export --drop-repeated-lines=store --dry-run
docstore export --format jsonl --without-ngrams-of benchmark.txt --matches matches.jsonl --output clean.jsonl
docstore export --format jsonl --since 2024-05-01 --previous changed --output changed.jsonl
"""


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "--format", "output format (default: what the name of --output says, else warc)", choices.FORMATS)
    declare(parser, "--layout", "columns of --format parquet (default: full)", choices.LAYOUTS)
    declare(parser, "--columns LIST", "columns of --layout full to write, such as url,title,text (default: all)")
    declare(
        parser,
        "--output FILE",
        "output file, or an s3, gs or az URL; replaced when everything is written (default: stdout)",
        default="-",
    )
    declare(
        parser,
        "--shard-size SIZE",
        "write files of about this size, such as 1GB: of --output pages.warc.gz they are pages-00000.warc.gz and so "
        "on, with pages.manifest.jsonl; if a run was stopped, the same command goes on after the last whole file",
        arguments.memory,
    )
    declare(parser, "--shards N", "or so many files, of equally many captures")
    arguments.add_range(parser)
    declare(parser, "--status N", "only captures with this HTTP status", arguments.status)
    declare(
        parser,
        "--lang TAG",
        "only pages in this language: by their note `lang`, else as the page declares; en includes en-GB",
        default="",
    )
    declare(
        parser,
        "--where CONDITION*",
        "only captures whose notes fulfil it: NOTE.FIELD SIGN VALUE, such as 'quality.words >= 200'; may be repeated",
    )
    declare(
        parser,
        "--quality",
        "only captures that the filters of this data set keep; needs `docstore annotate quality`",
        choices.QUALITY_PRESETS,
    )
    declare(
        parser,
        "--drop-repeated-lines [SCOPE]",
        "leave out of a text the lines that an exported page before it has: of the same host, or with =store of any "
        "(8 bytes of memory for each different line)",
        choices.LINE_SCOPES,
    )
    declare(parser, "--dry-run", "with --drop-repeated-lines: write nothing, say which lines would go")
    declare(
        parser,
        "--without-ngrams-of FILE",
        "only pages whose text shares no run of --n words with this file, which has one text a line, such as the "
        "questions of a benchmark; texts with fewer words are counted and not looked for",
    )
    declare(parser, "--n N", "words of such a run (default: 13)", default=13)
    declare(parser, "--field NAME", "of that file as JSON Lines: the field that has the text")
    declare(parser, "--matches FILE", "with --without-ngrams-of: file for what is left out, one JSON object a line")
    declare(
        parser,
        "--previous KIND*",
        f"only captures with this verdict against the version before: {', '.join(choices.Previous)}; may be repeated",
        tuple(choices.Previous),
    )
    arguments.add_crawl(parser)
    arguments.add_times(parser)
    declare(
        parser,
        "--verdict KIND*",
        f"only captures with this verdict: {', '.join(choices.VerdictKind)}; may be repeated",
        arguments.verdict_kind,
    )
    declare(parser, "--versions N", "newest captures of a page, or all (default: 1)", arguments.positive_or_all, 1)
    declare(parser, "--collapse", "only one page of each cluster of duplicates: its canonical page if selected")
    declare(parser, "--dropped FILE", "with --collapse: file for URL, canonical and similarity of what is left out")
    declare(parser, "--body", "with --format jsonl: bodies too, in base64")
    declare(parser, "--markdown", "with --format jsonl or parquet: main text as Markdown, too")
    declare(parser, "--cdxj FILE", "with --format warc and --output: also write a sorted CDXJ index of the output")
    declare(parser, "--keep-encoded", "with --format warc or wacz: write records as they were recorded")
    arguments.add_progress(parser)
    arguments.add_store(
        parser, "{captures, body_bytes, output} as one JSON object; needs --output FILE", read_only=True
    )


# --- docstore subtract

SUBTRACT_DESCRIPTION = """\
Write the pages of B that are not in A.  A page of B counts as one of A if a page
of A has the same bytes, the same text, or a text that is nearly the same; it
may have another URL.  B's own duplicates stay.  Both are read into a store next
to the output, which is removed at the end: it needs some 15% of their size."""

SUBTRACT_EXAMPLES = """\
docstore subtract may.warc.gz june.warc.gz --output only-june.warc.gz
docstore subtract seen/ crawl.parquet --format parquet --output unseen.parquet --json
docstore subtract a.warc.gz b.warc.gz --verdict exact --output other-bytes.warc.gz
"""


def add_subtract_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "a A", "an archive or a folder of archives, or a URL or pattern: what is there already")
    declare(parser, "b B", "an archive or a folder of archives, or a URL or pattern: of which pages are written")
    parser.set_defaults(body=True, markdown=False, layout=None, columns=None, keep_encoded=False, shard_size=None)
    declare(parser, "--output FILE", "output file; replaced when everything is written", required=True)
    declare(parser, "--format", "output format (default: what the name of --output says, else warc)", choices.FORMATS)
    about = "verdict by which a page counts as one of A (default: exact, same_text and near); may be repeated"
    declare(parser, "--verdict KIND*", about, arguments.verdict_kind)
    declare(parser, "--threads N", "threads for analysis (default: 2)", default=2)
    arguments.add_progress(parser)
    arguments.add_json(parser, "{a, b, kept, output} as one JSON object")


# --- docstore sweep

SWEEP_DESCRIPTION = """\
Find every pair of pages at or above a similarity.  Group the pages into
clusters with one canonical page each, and write that into their rows.  Every
member of a cluster is within the threshold of its canonical.  A killed sweep
continues where it stopped; a second one over the same pages writes nothing.
Pages of 50 words and more are compared by their text; shorter ones are pairs
only if they are equal."""

SWEEP_EXAMPLES = """\
docstore sweep
docstore sweep --threshold 0.9 --canonical-policy oldest --pairs pairs.tsv --dry-run
docstore sweep --text visible --shingle-words 5 --all-pairs --pairs pairs.tsv --json
docstore sweep --same-url --dry-run
docstore sweep --apply reject --dry-run
docstore sweep --from clusters
"""


def add_sweep_arguments(parser: argparse.ArgumentParser) -> None:
    about = "share of the common shingles of two pages among all of both (default), or overlap: of the smaller page"
    declare(parser, "--measure", about, choices.MEASURES, choices.MEASURES[0])
    declare(parser, "--threshold J", "least similarity (default: that of the store's schema)")
    declare(
        parser,
        "--text",
        "main content or all visible text (default: what the store fingerprints)",
        choices.TEXTS,
    )
    declare(parser, "--shingle-words N", "words in a shingle (default: the schema's)")
    declare(
        parser,
        "--canonical-policy",
        "how a canonical page is chosen (default: by the canonical links and redirects of the other pages)",
        tuple(choices.CanonicalPolicy),
        choices.CanonicalPolicy.CANONICAL_LINK,
    )
    declare(parser, "--same-url", "also pairs of versions of one URL")
    declare(parser, "--all-pairs", "list all pairs of equal pages, not a star")
    declare(
        parser,
        "--apply",
        "store duplicates by reference to their canonical page, or keep only their URL, checksum and verdict, as "
        "this write policy does; `compact` then frees the space",
        choices.APPLY,
    )
    declare(
        parser,
        "--kinds KIND,...",
        "with --apply (default: %(default)s); contained with reference alone",
        default=",".join(choices.APPLIED_KINDS),
    )
    declare(parser, "--any-host", "with --apply: also if the canonical page is on another host")
    declare(parser, "--dry-run", "write nothing into the store")
    declare(
        parser,
        "--pairs FILE.tsv",
        "file for the pairs: URL, timestamp, URL, timestamp, similarity; pairs that titles set apart are at the end, "
        "with title_mismatch",
    )
    declare(parser, "--threads N", "threads that compare (default: all cores)", default=os.cpu_count() or 1)
    about = "clusters that docstore-spark made of the exported pages (Parquet); nothing is computed"
    declare(parser, "--from FOLDER", about)
    arguments.add_progress(parser)
    arguments.add_store(parser, "the report as one JSON object")


# --- docstore tool reindex

REINDEX_DESCRIPTION = """\
Find pages that the detector of duplicates cannot see: no posting leads to them,
or their fingerprints have an older scheme.  Compute their fingerprints again
and index them.  A stopped run continues where it was; if every page is
indexed, nothing is written."""

REINDEX_EXAMPLES = """\
docstore tool reindex
docstore tool reindex --dry-run --json
"""


def add_reindex_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "--dry-run", "count them and write nothing")
    arguments.add_progress(parser)
    arguments.add_store(parser, "{pages, unposted, outdated, unseen, posted} as one JSON object")


TEXTS_WITHOUT_BODIES = "jsonl"
"""The format that can have a page's text without its body."""


# --- docstore check

CHECK_DESCRIPTION = """\
Read and verify every value of a store.  Print what is damaged, and the next
step.  No output and exit code 0 if there is no damage, else 5.  Changes no
byte of the folder, except with --repair, --accept-loss and --acknowledge:
losses that an open detected are reported until then."""

CHECK_EXAMPLES = """\
docstore check
docstore check --store crawl-2024 --json
docstore check --sample 0.05
docstore check --repair
docstore check --acknowledge
"""


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    declare(
        parser,
        "--sample SHARE",
        "read the values of so many rows and bases, drawn anew each time: 0.05 is a twentieth (default: 1)",
        arguments.share,
        default=1.0,
    )
    declare(parser, "--acknowledge", "list losses that an open detected, and report them no more; no check")
    declare(
        parser,
        "--repair",
        "first repair what cannot be read, from captures that have the same bytes; not through a server",
    )
    declare(
        parser,
        "--accept-loss",
        "first delete the captures whose segment is missing or cut, if it does not come back; they are listed",
    )
    arguments.add_progress(parser)
    arguments.add_store(parser, "one JSON object a line: one a finding, {where, what, remedy}", read_only=True)


# --- docstore compact

COMPACT_DESCRIPTION = """\
Apply the families' policies, finish deletes, and rewrite live data, tablet by
tablet: in row-key order, with better dictionaries and delta bases.  Then remove
the old files.  Files of an earlier compaction stay while at most a fifth of
them is garbage, unless a page was purged.  An interrupted run continues where
it was.  On HBase: delete dead values and fold counts; HBase rewrites its files
itself."""

COMPACT_EXAMPLES = """\
docstore compact
docstore compact --level best --full
docstore compact --dry-run
docstore compact 3 4 --store crawl-2024 --json
"""


def add_compact_arguments(parser: argparse.ArgumentParser) -> None:
    declare(
        parser,
        "tablets TABLET*",
        "number of a tablet, as `docstore stats --json` lists them (default: all)",
        arguments.positive,
    )
    declare(parser, "--level", "best is smaller and takes longer (default: fast)", ("fast", "best"), "fast")
    declare(parser, "--full", "rewrite all segments, also those with less than a fifth of garbage")
    declare(parser, "--dry-run", "report what a run would do, change nothing")
    arguments.add_progress(parser)
    arguments.add_store(parser, "the report as one JSON object")


# --- docstore tool salvage

SALVAGE_FORMATS = ("warc", TEXTS_WITHOUT_BODIES)
SALVAGE_DESCRIPTION = """\
Write the records of a store's segments without its rows: bodies, texts and long
headers with their URLs and times.  Use it for a store whose engine/ is lost, or
with --set-aside for records that an open found without rows.  Status, short
headers and verdicts were only in rows: each page is written with status 200 and
the header X-Docstore-Salvaged.  The store is not changed; `docstore ingest`
reads the WARC file.  Exit code 8 if records were unreadable."""

SALVAGE_EXAMPLES = """\
docstore tool salvage --output pages.warc.gz
docstore tool salvage --set-aside --output pages.warc.gz
docstore tool salvage --format jsonl --output pages.jsonl --store broken
"""


def add_salvage_arguments(parser: argparse.ArgumentParser) -> None:
    about = "output format (default: what the name of --output says, else warc)"
    declare(parser, "--format", about, SALVAGE_FORMATS)
    declare(parser, "--output FILE", "output file; replaced when everything is written", required=True)
    declare(parser, "--set-aside", "only records in the store's folder set-aside/")
    arguments.add_store(parser, "{captures, bodies, texts, unreadable, damaged} as one JSON object")


# --- docstore tool rebuild

REBUILD_DESCRIPTION = """\
Bring back a store that does not open because files of LevelDB in engine/ are
damaged.  Makes a new list of its tables, without damaged blocks and records;
the old files stay in engine/lost/.  Makes the schema, the rows of segments and
the index again if they are lost.  `docstore check` then reports that rows may
be lost, until --acknowledge.  If you have a backup, restore it instead."""

REBUILD_EXAMPLES = """\
docstore tool rebuild
docstore tool rebuild --store broken --json
"""


def add_rebuild_arguments(parser: argparse.ArgumentParser) -> None:
    arguments.add_store(parser, "{replaced, copied, segments} as one JSON object")


# --- docstore upgrade

UPGRADE_DESCRIPTION = """\
Bring a store that an older docstore wrote up to date, in place.  Copy its folder
first.  No command opens the store until this is done; if it is stopped, run it
again.  This docstore reads and writes format 1, the first one, so there is
nothing to upgrade yet."""

UPGRADE_EXAMPLES = """\
docstore upgrade --dry-run
docstore upgrade --store crawl-2024 --json
"""


def add_upgrade_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "--dry-run", "say what would be done, and change nothing")
    arguments.add_progress(parser)
    arguments.add_store(parser, "{from_format, to_format, steps, dry_run} as one JSON object")


LOOPBACK = "127.0.0.1"


# --- docstore serve

SERVE_DESCRIPTION = """\
Serve a store over HTTP, so that many processes write and read it at a time:
crawlers with `docstore.connect`, other programs through /v1, archive tools
through /web on a separate port (--archive-port).  Other docstore commands on
this machine use the server of a served store automatically.  Ctrl-C or SIGTERM
commits accepted writes and ends; SIGHUP reads the token file again."""

SERVE_EXAMPLES = """\
docstore serve --create
docstore serve --store crawl --port 8470 --archive-port 8471
docstore serve --bind 0.0.0.0 --token-file tokens --allow-host store.example.org
"""


def add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "--bind ADDRESS", "address to listen on (default: 127.0.0.1); others need tokens", default=LOOPBACK)
    declare(parser, "--port N", "port of the API (default: 8470); 0: any free port", _port, 8470)
    declare(
        parser, "--unix SOCKET", "path of the socket for this user (default: in the store's folder)", arguments.path
    )
    declare(parser, "--archive-port N", "port of the archive API (default: no archive API); 0: any free port", _port)
    declare(
        parser,
        "--archive-bind ADDRESS",
        "address of the archive API (default: 127.0.0.1); without --token-file every client that reaches it can read "
        "all pages",
        default=LOOPBACK,
    )
    declare(parser, "--archive-url URL", "public scheme, host and port of the archive API", default="")
    declare(parser, "--token-file FILE", "lines of `read|write|admin TOKEN [name]`; mode 0600", arguments.path)
    declare(parser, "--allow-host NAME*", "a name of this server; may be repeated")
    declare(parser, "--allow-origin ORIGIN*", "origin of web pages that may send requests; may be repeated")
    declare(parser, "--trusted-proxy ADDRESS*", "proxy whose X-Forwarded-For is trusted")
    declare(parser, "--backup-root DIR", "folder for backups that clients request over TCP", arguments.path)
    declare(
        parser,
        "--payload-digests",
        "record the SHA-1 of each body that comes without a payload digest, for archive clients",
    )
    declare(
        parser,
        "--max-request-bytes N",
        f"limit of one request's body (default: {64 << 20})",
        arguments.positive,
        64 << 20,
    )
    arguments.add_durability(parser)
    arguments.add_create(parser)
    arguments.add_store(parser)


def _port(text: str) -> int:
    if text.isdecimal() and int(text) <= HIGHEST_PORT:
        return int(text)
    raise argparse.ArgumentTypeError(f"not a port: {text!r}; write a number from 0 to 65535")


# --- docstore tool lsh

LSH_DESCRIPTION = """\
Choose the bands of a min-wise sketch: they find pairs at a similarity with a
recall, and propose few pairs that share only a template.  L bands of k bins
miss a pair at similarity p with probability (1 - p^k)^L, and propose one at q
with 1 - (1 - q^k)^L.  Prints the curve, and the curve of the bands that this
docstore uses.  With --bands and --band-width it prints both error rates of
these bands instead of a choice.  Needs no store."""

LSH_EXAMPLES = """\
docstore tool lsh --threshold 0.8 --recall 0.99
docstore tool lsh --threshold 0.6 --recall 0.95 --background 0.2 --json
docstore tool lsh --threshold 0.95 --background 0.6 --bands 10 --band-width 8
"""


def add_lsh_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "--threshold J", "similarity of the pairs to find (default: 0.8)", default=0.8)
    declare(parser, "--recall R", "share of the pairs at the threshold that is found (default: 0.99)", default=0.99)
    declare(parser, "--background J", "similarity of pages that share only a template (default: 0.3)", default=0.3)
    declare(
        parser,
        "--max-false P",
        "largest share of pairs at the background that may be proposed (default: 0.15)",
        default=0.15,
    )
    declare(parser, "--bins N", f"bins of a sketch (default: {choices.BINS})", default=choices.BINS)
    declare(parser, "--bands N", "L, groups of bins or bits; with --band-width")
    declare(parser, "--band-width N", "k, bins or bits in a group")
    arguments.add_json(parser, "the choice, and both curves, as one JSON object")
