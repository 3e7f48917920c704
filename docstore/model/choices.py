"""Words and defaults that the terminal shows and the rest of docstore uses, in a module that imports next to nothing.

`docstore --help` builds every parser; with the modules that use these words it would take twice as long.
"""

from __future__ import annotations

import enum
from typing import Final

COUNT_MAX: Final = 2**63 - 1
"""The largest count in a schema and on the command line."""

# --- of a schema

EXTRACTOR: Final = "scored"
SHINGLE_WORDS: Final = 5
NEAR_THRESHOLD: Final = 0.8
CONTAINED_THRESHOLD: Final = 0.9
SIMILAR_THRESHOLD: Final = 0.5
BINS: Final = 256
"""Bins of a sketch."""


class VerdictKind(enum.StrEnum):
    """The relation of a page to pages of other URLs: the first kind that applies."""

    EXACT = "exact"
    SAME_TEXT = "same_text"
    NEAR = "near"
    CONTAINED = "contained"
    SIMILAR = "similar"
    """Similar to a reader, but not a duplicate: it is only reported."""
    NEW = "new"


REASON_WORDS: Final = {
    "short_text": "too little text to compare",
    "not_modified": "not modified: the verdict is that of the fetched version",
    "no_text": "no reader extracts text from it, only its bytes were compared",
    "blank": "its body shows nothing, so it was not compared",
    "crowded": "its index buckets are full, so candidates may be missing; a sweep decides",
    "status": "no 2xx status, so its text was not compared",
    "title_mismatch": "a host has this text under contradicting titles",
    "doubtful_text": "few words of the title are in its main text, which may be a menu: `docstore get --explain URL`",
}
"""What a reason of a verdict means, for people."""


class Durability(enum.Enum):
    """What an acknowledged write survives."""

    SYNC = "sync"
    """Power loss: log and segment are synced before the answer."""
    FLUSH = "flush"
    """kill -9 of this process: handed to the operating system before the answer."""
    NONE = "none"
    """Only an orderly close."""


class Previous(enum.StrEnum):
    """The relation of a page to the version before of its own URL."""

    NONE = "none"
    SAME_BYTES = "same_bytes"
    SAME_TEXT = "same_text"
    CHANGED = "changed"


# --- of archives

BODY_LIMIT_BYTES: Final = 256 * 1024 * 1024
"""Default limit of a decoded body.  A longer one is refused with a reason, because a body is kept in memory."""
DEFAULT_SOURCE: Final = "table"
"""Name of a data set whose rows have no URLs, if the caller gives none."""
STREAM_FORMATS: Final = ("warc", "wacz", "trecweb", "jsonl")
PARQUET: Final = "parquet"
FORMATS: Final = (*STREAM_FORMATS, PARQUET)
"""What an export writes."""
LAYOUTS: Final = ("full", "fineweb", "ccindex", "markdown")
"""Of the columns of an exported table."""
QUALITY_PRESETS: Final = ("c4", "gopher", "fineweb")
LINE_SCOPES: Final = ("host", "store")
"""Of which pages a text loses the lines."""

# --- of a sweep

TEXTS: Final = ("main", "visible")
"""What a sweep compares."""
MEASURES: Final = ("jaccard", "overlap")
"""Of two sets: the share of all members that are common, or of the members of the smaller set."""
APPLY: Final = ("reference", "reject")
"""Policies that a sweep can apply."""
APPLIED_KINDS: Final = (str(VerdictKind.EXACT), str(VerdictKind.SAME_TEXT))
"""Relations to the canonical page to which it applies them."""


class CanonicalPolicy(enum.StrEnum):
    """Which page of a cluster is canonical, among those that fulfil the law; ties are broken by the next rule."""

    CANONICAL_LINK = "canonical-link"
    """The target of canonical links and redirects of its own site; then, and between sites, as `oldest`."""
    OLDEST = "oldest"
    """The first one fetched; then the shorter URL."""
    SHORTEST_URL = "shortest-url"
    """The shortest URL; then the oldest."""
    MOST_ANCHORS = "most-anchors"
    """The one that most pages link to; then as `oldest`."""


# --- of reading and reports

SNIPPET_LENGTH: Final = 200
"""Characters of a snippet."""
ANNOTATORS: Final = ("lang", "keyphrases", "entities", "links", "quality", "domain")
"""Annotators of docstore."""
FRONTIER_ORDERS: Final = ("rank", "inlinks", "host")
GROUPINGS: Final = ("host", "prefix", "parameter", "crawl", "pattern")
"""What captures are counted by.  A prefix is a host and the first segment of a path; with parameters a page counts once
for each; patterns are shapes of URLs."""
