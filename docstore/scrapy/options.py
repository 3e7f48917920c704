"""The settings `DOCSTORE_...` of a Scrapy project, and the stores that they name.

A process can open a folder only once, so all crawlers of the process share its store.
"""

from __future__ import annotations

import logging
from difflib import get_close_matches
from enum import Enum, StrEnum
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeAlias, TypeVar

from scrapy.settings import BaseSettings

from docstore.backends import names_server
from docstore.model.choices import Durability, VerdictKind
from docstore.model.errors import InvalidArgument
from docstore.model.types import DUPLICATES, SAME_PAGE, Policy, checked_crawl, checked_policies
from docstore.serving.client import RemoteStore, connect
from docstore.store import DocumentStore, open_store

PREFIX = "DOCSTORE_"
SETTINGS = (
    *("STORE", "TOKEN", "DURABILITY", "POLICIES", "ANCHORS", "ERROR_STATUSES", "FOLLOW_DUPLICATES", "DUPLICATE_KINDS"),
    *("MIN_DEPTH", "ACROSS_HOSTS", "CRAWL_START", "ITEM_FIELD", "DROP_ITEMS", "CONDITIONAL", "CRAWL", "FRESH_SECONDS"),
)
"""Their names, without the prefix."""
logger = logging.getLogger(__name__)
_Words = TypeVar("_Words", bound=Enum)


class FollowDuplicates(StrEnum):
    """Whether links of pages that duplicate another URL are followed."""

    LEARN = "learn"
    """Follow a sample for each shape of URLs, and stop if it leads only to duplicates."""
    ALWAYS = "always"
    NEVER = "never"


class Options(NamedTuple):
    """The settings of a project.

    Attributes:
        store: a folder, or the address of a server.
        token: for the server; "" for none.
        durability: of writes to a folder.
        policies: what to do for each verdict; None takes the store's policies.
        anchors: write the texts of links into the rows of the linked pages.
        error_statuses: statuses of 400 and above that are stored.
        follow: whether links of duplicates are followed.
        kinds: verdicts that make a page a duplicate.
        min_depth: links of pages at a smaller depth are always followed; start pages have depth 0.
        across_hosts: pages of another host count as originals too.
        crawl_start: microseconds since 1970; only originals visited since then count.  None: the start of this crawl.
        item_field: field of an item that gets the verdict.
        drop_items: verdicts whose items the pipeline drops.
        fresh_seconds: a page visited in the last so many seconds is taken from the store without a request.
        crawl: label of the crawl, or "".
    """

    store: str
    token: str
    durability: Durability
    policies: dict[VerdictKind, Policy] | None
    anchors: bool
    error_statuses: frozenset[int]
    follow: FollowDuplicates
    kinds: frozenset[VerdictKind]
    min_depth: int
    across_hosts: bool
    crawl_start: int | None
    item_field: str
    drop_items: frozenset[VerdictKind]
    fresh_seconds: float
    crawl: str


def options(settings: BaseSettings) -> Options:
    """Read the settings.

    Raises:
        InvalidArgument: one is missing or wrong; the message names it.
    """
    store = settings.get(PREFIX + "STORE")
    if not store:
        raise InvalidArgument(
            'DOCSTORE_STORE is not set; set it to a folder ("webtable") or a server ("http://127.0.0.1:8470")'
        )
    start = settings.get(PREFIX + "CRAWL_START")
    return Options(
        store=str(store),
        token=str(settings.get(PREFIX + "TOKEN") or ""),
        durability=_one_of(settings, "DURABILITY", Durability, Durability.SYNC),
        policies=_policies(settings),
        anchors=settings.getbool(PREFIX + "ANCHORS"),
        error_statuses=frozenset(_numbers(settings, "ERROR_STATUSES", (404, 410))),
        follow=_follow(settings),
        kinds=_kinds(settings, "DUPLICATE_KINDS", SAME_PAGE),
        min_depth=int(_number(settings, "MIN_DEPTH", 2)),
        across_hosts=settings.getbool(PREFIX + "ACROSS_HOSTS"),
        crawl_start=None if start is None else int(_number(settings, "CRAWL_START", 0) * 1_000_000),
        item_field=str(settings.get(PREFIX + "ITEM_FIELD") or "docstore"),
        drop_items=_kinds(settings, "DROP_ITEMS", ()),
        fresh_seconds=_number(settings, "FRESH_SECONDS", 0),
        crawl=_crawl(settings),
    )


def warn_of_unknown(settings: BaseSettings) -> None:
    """Warn of settings with our prefix that nothing reads: a wrong name would be left without a word."""
    for setting in map(str, settings):
        name = setting.removeprefix(PREFIX)
        if name != setting and name not in SETTINGS:
            near = get_close_matches(name, SETTINGS, n=1)
            advice = f"; do you mean {PREFIX}{near[0]}?" if near else ""
            logger.warning("docstore: there is no setting %s%s", setting, advice)


def _policies(settings: BaseSettings) -> dict[VerdictKind, Policy] | None:
    try:
        policies = settings.getdict(PREFIX + "POLICIES")
        return checked_policies(policies) if policies else None
    except ValueError as error:
        raise InvalidArgument(f"{PREFIX}POLICIES: {error}") from error


def _crawl(settings: BaseSettings) -> str:
    try:
        return checked_crawl(str(settings.get(PREFIX + "CRAWL"))) if settings.get(PREFIX + "CRAWL") else ""
    except ValueError as error:
        raise InvalidArgument(f"{PREFIX}CRAWL: {error}") from error


def _follow(settings: BaseSettings) -> FollowDuplicates:
    value = str(settings.get(PREFIX + "FOLLOW_DUPLICATES", FollowDuplicates.LEARN))
    as_words = {"true": FollowDuplicates.ALWAYS, "false": FollowDuplicates.NEVER}
    as_words |= {"1": FollowDuplicates.ALWAYS, "0": FollowDuplicates.NEVER}
    if value.lower() in as_words:
        return as_words[value.lower()]
    return _one_of(settings, "FOLLOW_DUPLICATES", FollowDuplicates, FollowDuplicates.LEARN)


def _one_of(settings: BaseSettings, name: str, words: type[_Words], default: _Words) -> _Words:
    value: Any = settings.get(PREFIX + name, default)
    try:
        return words(value)
    except ValueError as error:
        known = ", ".join(str(word.value) for word in words)
        raise InvalidArgument(f"{PREFIX}{name} is one of {known}, not {value!r:.100}") from error


def _kinds(settings: BaseSettings, name: str, default: tuple[VerdictKind, ...]) -> frozenset[VerdictKind]:
    kinds = [str(kind) for kind in settings.getlist(PREFIX + name, list(default))]
    known = [str(kind) for kind in DUPLICATES]
    for kind in kinds:
        if kind not in known:
            raise InvalidArgument(f"{PREFIX}{name} lists verdicts of {', '.join(known)}, not {kind!r:.100}")
    return frozenset(VerdictKind(kind) for kind in kinds)


def _number(settings: BaseSettings, name: str, default: float) -> float:
    value = settings.get(PREFIX + name, default)
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"{PREFIX}{name} must be a number, not {value!r:.100}") from error
    if not 0 <= number < 2**63 / 1_000_000:
        raise InvalidArgument(f"{PREFIX}{name} must be a number from 0 on, not {value!r:.100}")
    return number


def _numbers(settings: BaseSettings, name: str, default: tuple[int, ...]) -> list[int]:
    values = settings.getlist(PREFIX + name, list(default))
    try:
        return [int(value) for value in values]
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"{PREFIX}{name} must list numbers, not {values!r:.100}") from error


# --- stores by address

Store: TypeAlias = DocumentStore | RemoteStore
"""In this process or of a server: they have the same methods."""

_lock = Lock()
_open: dict[str, tuple[Store, int]] = {}
"""By address: the store, and its reference count."""


def acquire(options: Options) -> Store:
    """The store of these options; the first call opens it, and creates a folder that does not exist.

    Raises:
        DocstoreError: it does not open; the crawl must not begin without it.
    """
    address = _address(options)
    with _lock:
        store, references = _open.get(address) or (_open_store(options), 0)
        _open[address] = store, references + 1
        return store


def release(options: Options) -> None:
    """Undo one `acquire`; the last call closes the store."""
    address = _address(options)
    with _lock:
        store, references = _open.pop(address)
        if references > 1:
            _open[address] = store, references - 1
        else:
            store.close()


def _address(options: Options) -> str:
    return options.store if names_server(options.store) else str(Path(options.store).resolve())


def _open_store(options: Options) -> Store:
    if names_server(options.store):
        return connect(options.store, token=options.token or None)
    return open_store(options.store, create=True, durability=options.durability)
