"""Descriptions, examples and arguments of the commands that read, write, compare and find pages.

What a parser needs and nothing else: neither the modules that run these commands nor the types of the model are
imported, so that `--help` and completion scripts come at once.  `tests/unit/test_cli_declarations.py` compares the
words and defaults that are written here with those of the modules that own them.
"""

from __future__ import annotations

import argparse

from docstore.cli import arguments
from docstore.cli.arguments import declare
from docstore.model.choices import ANNOTATORS, FRONTIER_ORDERS, GROUPINGS, SNIPPET_LENGTH

SHOWN_CHARACTERS = 100


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


def add_put_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "url URL", "URL of the page; https:// is added if the scheme is missing")
    declare(parser, "file FILE?", "its body; - or nothing for stdin")
    declare(parser, "--header 'NAME: VALUE'*", "a response header as received; may be repeated", arguments.header)
    declare(parser, "--status N", "HTTP status (default: 200); 304 is a visit", arguments.status, 200)
    declare(parser, "--fetched-at TIME", "when it was fetched (default: now)")
    declare(parser, "--crawl LABEL", "label of the crawl that fetched it")
    arguments.add_any_time(parser)
    arguments.add_policies(parser)
    arguments.add_durability(parser)
    arguments.add_create(parser)
    arguments.add_store(parser, "the answer as one JSON object")


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
docstore get https://example.com/ --markdown
docstore get https://example.com/ --outline --json
docstore get https://example.com/ --snippet 'solar power'
docstore get https://example.com/ https://example.org/ --snippet solar --html
"""


def add_get_arguments(parser: argparse.ArgumentParser) -> None:
    declare(
        parser, "urls URL+", "URL of the page; https:// is added if the scheme is missing; several only with --snippet"
    )
    shown = parser.add_mutually_exclusive_group()
    declare(shown, "--body", "the bytes as fetched")
    declare(shown, "--headers", "status and response headers")
    declare(shown, "--explain", "each block of the page: whether it is main text, and why")
    declare(shown, "--markdown", "main text as Markdown")
    declare(shown, "--outline", "main text cut at the page's own headings; with --json each part has its key phrases")
    declare(
        shown,
        "--column F:Q",
        "the value of one column, in hexadecimal if it is not text; F: lists a whole family, such as anchor: "
        "(qualifier, time, value)",
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
    arguments.add_store(parser, "one JSON object a line: one a capture, with --column one a cell", read_only=True)


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
    declare(parser, "url URL", "URL of the page; https:// is added if the scheme is missing")
    arguments.add_store(parser, "one JSON object a line: one a capture", read_only=True)


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
    arguments.add_store(parser, "one JSON object a line: one a row, with its cells", read_only=True)


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
    declare(parser, "url URL?", "URL of the page; https:// is added if the scheme is missing")
    declare(parser, "--prefix URL", "all pages whose URL has this prefix, with any scheme and port")
    arguments.add_crawl(parser)
    part = parser.add_mutually_exclusive_group()
    declare(part, "--family NAME", "only this family of the row")
    declare(part, "--column F:Q", "only this column of the row")
    declare(parser, "--purge", "delete pages for good: also compacts the store, so that none of their bytes remain")
    declare(parser, "--yes", "do not ask")
    arguments.add_progress(parser, "with --crawl or --purge: ")
    arguments.add_store(parser, "one JSON object: {deleted}, the number of rows from which something was deleted")


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
    declare(parser, "--row-key KEY", "row key whose URL is shown")
    arguments.add_json(parser, "one JSON object: {url, row_key, variants}")


# --- docstore stats

STATS_DESCRIPTION = """\
Print totals of a store: captures by verdict and by how they were stored, and
the sizes of its files.  --words prints statistics of words: vocabulary, the
most frequent words, Zipf's law and the growth of the vocabulary.
--dedup prints the duplicates among live captures: by verdict, by reason
(crowded, doubtful_text, short_text ...), cluster sizes of the last sweep,
bytes saved, pages that the detector cannot see, and query parameters that
never change the content (crawler traps)."""

STATS_EXAMPLES = """\
docstore stats
docstore stats --store crawl-2024 --json
docstore stats --codecs
docstore stats --words --host example.com --limit 20
docstore stats --dedup --by host
docstore stats --dedup --by parameter --json
docstore stats --dedup --by pattern
docstore stats --dedup --by crawl
docstore stats --crawl 2024-05
"""


def add_stats_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "--words", "statistics of words: the newest text of each page")
    declare(parser, "--host HOST", "with --words: only pages of this host")
    declare(parser, "--limit N", "with --words: most frequent words (default: 50)")
    declare(parser, "--dedup", "duplicates among live captures")
    declare(
        parser,
        "--by",
        "with --dedup: by host, by host and first path segment, by query parameter, by crawl, or by pattern: shapes of "
        "URLs with regular expressions for a crawler's rules, and texts that many URLs show, such as soft 404s",
        GROUPINGS,
    )
    declare(parser, "--crawl LABEL", "as --dedup, only of captures that the crawl of this label fetched")
    declare(parser, "--codecs", "size of records by column and codec, and the reason; reads all segments")
    declare(parser, "--caches", "memory and hits of each cache since the store was opened: ask a running server")
    arguments.add_store(parser, "everything as one JSON object", read_only=True)


# --- docstore report

REPORT_DESCRIPTION = """\
Write one HTML page with what a store holds: verdicts, also over time, the
largest clusters with examples, hosts, shapes of URLs that repeat pages, texts
by length and language, and what takes how much room.  The page has its
drawings in it: it loads nothing and runs nothing, so that it can be sent as a
file.  The store is read once, without bodies and texts.  Clusters are those of
the last `docstore sweep`; pages written since are counted by their verdicts."""

REPORT_EXAMPLES = """\
docstore report webtable.html
docstore report webtable.html --store http://127.0.0.1:8470
docstore report --json
"""


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "file OUT.html?", "the page to write; - for stdout")
    arguments.add_progress(parser)
    arguments.add_store(parser, "the figures as one JSON object", read_only=True)


DEFAULT_LIMIT = 10


# --- docstore dups

DUPS_DESCRIPTION = """\
List live pages that are similar to a page, older and younger ones, with exact
similarities.  The page is a stored one, or a file that need not be stored.
For contained the number is the share of the page that is in the listed page,
for contains the share of the listed page that is in the page.
--all lists the duplicates that the store knows, by the last sweep, else by
verdicts.  --simhash N finds pages whose simhash differs in at most N of 64
bits, whatever their similarity: those of a page, or with --all all pairs.
--digest finds the pages whose archive recorded a payload digest.
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
docstore dups --digest sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ
docstore dups --rejected
docstore dups --orphans --json
"""


def add_dups_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "url URL?", "URL of a stored page")
    declare(parser, "--file PAGE.html", "a page that need not be in the store; - for stdin")
    declare(parser, "--all", "list all duplicates that the store knows")
    declare(parser, "--digest sha1:...|md5:...", "recorded payload digest of the captures to list", _digest)
    declare(parser, "--rejected", "list rejected captures and what they duplicate")
    declare(
        parser, "--orphans", "list rejected pages to fetch again, and what happened to the pages that they duplicate"
    )
    declare(parser, "--threshold J", "least similarity (default: the schema's similar threshold, with --all 0)")
    declare(
        parser,
        "--simhash N",
        "most bits that differ in simhashes, 0 to 64; with URL, --file or --all; reads the simhash of every page",
        _bits,
    )
    declare(
        parser,
        "--limit N",
        f"most pages (default: {DEFAULT_LIMIT}; no limit with --all, --digest, --rejected and --orphans)",
    )
    arguments.add_store(
        parser,
        "one JSON object a line: one a page, most similar first, or one a known duplicate, pair, capture with the "
        "digest, rejected capture or orphan",
        read_only=True,
    )


def _digest(text: str) -> str:
    from docstore.model.capture import parse_digest

    if parse_digest(text) is None:
        raise argparse.ArgumentTypeError(
            f"not a digest: {text!r}; write its algorithm, a colon, and its value in base32 or hexadecimal"
        )
    return text


def _bits(text: str) -> int:
    if text.isascii() and text.isdecimal() and int(text) <= 64:
        return int(text)
    raise argparse.ArgumentTypeError(f"not a number of bits from 0 to 64: {text!r}")


# --- docstore diff

DIFF_DESCRIPTION = """\
Show which words of two pages differ, as [-removed-] and {+added+}; on a
terminal in red and green.  The first line has the similarity of the texts, the
exact Jaccard coefficient that verdicts use; for two pages without text it says
whether their bytes are the same.  One URL compares two of its versions: the
newest and the version before it, or those of --at.
--measures prints the result of each fingerprint instead: checksums, exact
Jaccard coefficient and containment, simhash, sketch, 0-mod-p fingerprints, and
the overlap of n-grams of the most frequent words."""

DIFF_EXAMPLES = """\
docstore diff https://example.com/a https://example.com/b
docstore diff https://example.com/ --at 2023-01-01 --at 2024-01-01
docstore diff https://example.com/a https://example.com/b --all --json
docstore diff https://example.com/a https://example.com/b --measures
"""


def add_diff_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "url URL1", "URL of a stored page")
    declare(parser, "other URL2?", "URL of another page (default: the version of URL1 before)")
    declare(parser, "--at TIME*", "version at this time; if given twice: URL1, then URL2")
    declare(parser, "--all", "also show blocks without a change")
    declare(parser, "--measures", "all measures of similarity instead of words")
    arguments.add_store(
        parser, "both pages, similarity and changes, or the measures, as one JSON object", read_only=True
    )


INDEX_HELP = "folder of the index (default: `search` in the store's folder)"
IDLE_SHARE = 4
"""With --follow: the least pause between two updates, as a multiple of the time of an update."""


# --- docstore index

INDEX_DESCRIPTION = """\
Make or update the search index of a store: the newest live page of each URL
with its anchors and notes.  Only pages that were added, changed or removed
since the last run are written.  A stopped run resumes.  The files of the index
keep no word of removed pages.  With --follow it updates until Ctrl-C, during a
crawl that writes through the server; on HBase, during any crawl."""

INDEX_EXAMPLES = """\
docstore index
docstore index --follow --every 30
docstore index --full --index /fast/search --json
"""


def add_index_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "--follow", "update until interrupted")
    declare(
        parser,
        "--every SECONDS",
        f"with --follow: pause between updates, at least {IDLE_SHARE} times an update's time (default: 10)",
        arguments.positive,
        10,
    )
    declare(parser, "--full", "rebuild the index")
    declare(parser, "--index DIR", INDEX_HELP)
    arguments.add_progress(parser)
    arguments.add_store(
        parser, "{pages, added, changed, removed, scrubbed, unreadable, index_bytes, seconds} an update", read_only=True
    )


def _status(text: str) -> int:
    return 0 if text == "any" else arguments.status(text)


# --- docstore search

SEARCH_DESCRIPTION = """\
Print the pages that match a query, best first, one of each cluster of
duplicates.  A query has words, "phrases", +required words, -excluded words, and
fields: title: headings: main: description: keywords: anchor: url: note: host:
lang:.  Words of four letters or more also find words that begin with them.
Exit code 1 if no page matches.  --judge measures the ranking instead: precision
at 5 and 10 and average precision of the --queries whose relevant documents are
known, with their means, and lists what has no judgement or no query."""

SEARCH_EXAMPLES = """\
docstore search stack buffer
docstore search '"address space" -windows' --host llvm.org --limit 20
docstore search title:safestack --json
docstore search 'रेल लड़का' --lang hi --since 2020 --synonyms groups.xml
docstore search --judge qrels.txt --queries queries.tsv --run run.txt
docstore search --judge qrels.txt --queries queries.tsv --boosts own.toml --json
"""


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "query QUERY*", "words, phrases and fields, see above")
    about = "judgements (TREC qrels): query id, iteration, URL or document number, relevance (above 0: relevant)"
    declare(parser, "--judge FILE", about)
    declare(parser, "--queries FILE", "with --judge: queries, one on each line: id, a tab, the query")
    declare(parser, "--run OUT", "with --judge: TREC run file to write, of all queries")
    declare(parser, "--host HOST", "only pages of this host or its subdomains")
    declare(parser, "--lang TAG", "only pages in this language, such as hi")
    arguments.add_times(parser)
    declare(parser, "--status N", "only pages with this HTTP status; any for all (default: 2xx)", _status)
    declare(parser, "--limit N", "most pages (default: 10; with --judge 1000, of a served store 100)")
    declare(parser, "--offset N", "skip the first N", int, 0)
    declare(parser, "--no-collapse", "show duplicates too")
    declare(parser, "--length N", "characters of a snippet; 0 for none", int, 200)
    declare(parser, "--boosts FILE", "TOML: weights of matches by field")
    declare(parser, "--synonyms FILE", "synonyms: XML (<synonyms><group><syn>), or one group on each line")
    declare(parser, "--index DIR", INDEX_HELP)
    arguments.add_store(parser, "one JSON object a line: one a page; with --judge one in all", read_only=True)


# --- docstore annotate

ANNOTATE_DESCRIPTION = """\
Compute columns of stored captures and store them as notes: lang (language with
score), keyphrases, entities (names of your lists), links (rank and in-links of
pages, hub and authority, weight of the host), quality (figures by which data
sets for language models choose texts), domain (the class of a text with its
probability, as your examples teach it), or an annotator from --python or an
installed package.  Only captures without a note of the annotator's version are
read; a killed run resumes.  Crawls and servers may run at the same time.
`docstore get URL --column note:lang` shows a note.  Exit code 8 if an annotator
failed on a page."""

ANNOTATE_EXAMPLES = """\
docstore annotate lang
docstore annotate lang quality
docstore annotate lang keyphrases links --json
docstore annotate entities --list company=companies.txt --list city=cities.txt
docstore annotate domain --examples classes
docstore annotate --python mymodule:sentiment
"""


def add_annotate_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "names NAME*", f"an annotator: {', '.join(ANNOTATORS)}, or installed")
    about = "a function from a document to a dict of fields, or an Annotator; may be repeated"
    declare(parser, "--python MODULE:NAME*", about)
    about = "with entities: names to find, one on each line; may be repeated"
    declare(parser, "--list NAME=FILE*", about, arguments.setting)
    about = "with domain: a folder in which each class has a folder of texts or HTML pages (extra classify)"
    declare(parser, "--examples DIR", about)
    arguments.add_progress(parser)
    arguments.add_store(parser, "{name, version, captures, written, failed, error, seconds}, one object a line")


# --- docstore frontier

FRONTIER_DESCRIPTION = """\
List pages that stored pages link to and that are not stored: what to crawl
next, one URL on each line, the best first, with entries of stored feeds and
site maps.  URLs of crawler traps are left out, by what `stats --dedup` counts
and crawlers have learned; --all lists them.  Needs the texts of links:
`ingest --anchors`, or the setting of your crawler.  --hosts lists hosts with their weight instead of URLs."""

FRONTIER_EXAMPLES = """\
docstore frontier --limit 1000 > next-urls.txt
docstore frontier --by inlinks --json --limit 20
docstore frontier --host example.com
docstore frontier --hosts
"""


def add_frontier_arguments(parser: argparse.ArgumentParser) -> None:
    about = "PageRank (default), number of pages of other hosts that link to it, or host: the heaviest host first"
    declare(parser, "--by", about, FRONTIER_ORDERS, "rank")
    declare(parser, "--host HOST", "only pages of this host")
    declare(parser, "--all", "also known redirects, URLs of traps, and links that crawlers have stopped to follow")
    declare(parser, "--hosts", "list hosts: weight, stored pages, targets not stored")
    declare(parser, "--limit N", "most lines")
    arguments.add_store(parser, "one JSON object a line, with rank, in-links and number of lists", read_only=True)


# --- docstore tool plateau

PLATEAU_DESCRIPTION = """\
Measure the tag curve of a page: tags so far by tokens so far, which are tags
and words.  The plateau is the span with most tags outside and words inside.
Prints this optimum, and the slope, tags per token, before, inside and after
it; the same if a word counts c = all tags / all words; and the flat windows:
slices without a tag, of --slice tokens, halved until there is one."""

PLATEAU_EXAMPLES = """\
docstore tool plateau https://example.com/
docstore tool plateau --file page.html --json
"""


def add_plateau_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "url URL?", "a stored page; https:// is added if the scheme is missing")
    declare(parser, "--file PAGE.html", "a file of HTML in place of a stored page; - for stdin")
    declare(parser, "--at TIME", "version at this time")
    declare(parser, "--slice N", "tokens of the first slices (default: 64)", default=64)
    arguments.add_store(parser, "the numbers, slopes and points of the curve, as one JSON object", read_only=True)


# --- docstore tool fingerprint

FINGERPRINT_DESCRIPTION = """\
Show how the fingerprints of texts come about: words with weights and hashes,
the vector and the simhash; n-grams, their hashes, and those that are 0 mod N;
the min-wise sketch; bytes, sums of Adler-32 and checksums.  Several texts are
compared.  This is a lesson, and needs no store.  The store's own simhash stands
next to the lesson's.  It differs: it adds up 64-bit hashes of shingles of five
words, not of words by their frequency, so that the order of words counts."""

FINGERPRINT_EXAMPLES = """\
docstore tool fingerprint --text 'a cab' --adler-modulus 13
docstore tool fingerprint page.txt --bits 64 --stop 'in the and' --json
docstore tool fingerprint --text 'Jack London traveled to Oakland' --text 'to the city' --shingle-words 2
docstore tool fingerprint old.txt new.txt --permutation 1,1,5 --permutation 3,1,5
"""


def add_fingerprint_arguments(parser: argparse.ArgumentParser) -> None:
    declare(parser, "files FILE*", "a text in UTF-8; - for stdin")
    declare(parser, "--text TEXT*", "a text in place of a file; may be repeated")
    declare(parser, "--bits N", "bits of the hash of a word, and of the simhash: 1 to 64 (default: 8)", default=8)
    declare(parser, "--stop WORDS", "words that do not count in the simhash, in one argument", default="")
    declare(
        parser,
        "--hashes FILE",
        "on each line a word or an n-gram and its hash, in place of MurmurHash3: binary with as many digits as --bits, "
        "or decimal",
    )
    declare(parser, "--shingle-words N", "words in an n-gram (default: 3)", default=3)
    declare(parser, "--mod N", "modulus: choose the n-grams whose hash is 0 modulo N (default: 4)", default=4)
    declare(parser, "--sketch N", "minima of the sketch, with built-in permutations (default: 200)", default=200)
    declare(
        parser,
        "--permutation A,B,P*",
        "numbers of x -> (A x + B) mod P, a permutation in place of the built-in ones; may be repeated",
        _permutation,
    )
    declare(parser, "--adler-modulus N", "modulus of the sums of the lecture's example (default: 13)", default=13)
    declare(parser, "--limit N", "most rows of each table (default: 20); --json gives all", default=20)
    arguments.add_json(parser, "all of it as one JSON object: texts, and their pairs")


def _permutation(text: str) -> tuple[int, ...]:
    numbers = tuple(int(word) for word in text.split(",") if word.isascii() and word.isdigit())
    if len(numbers) == 3 == text.count(",") + 1 and numbers[0] and numbers[2]:
        return numbers
    raise argparse.ArgumentTypeError(f"not A,B,P: {text!r}; write three whole numbers, such as 3,1,5")
