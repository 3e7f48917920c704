"""The first view: how much there is, verdicts, tablets, and what was written lately.

Knows the statistics of a store; must not know HTTP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docstore.model.keys import url_of
from docstore.model.types import VerdictKind
from docstore.server.page import shown
from docstore.store import DocumentStore

RATE_HEIGHT = 60
MOST_TABLETS = 200


def overview(store: DocumentStore, minutes: Sequence[int]) -> dict[str, Any]:
    """Values of `overview.html`.

    Args:
        store: to be shown.
        minutes: pages written in each of the last minutes, and in the one that is not over.
    """
    stats = store.stats()
    totals = stats["totals"]
    verdicts = {str(kind): totals.get(f"verdict.{kind}", 0) for kind in VerdictKind}
    body_bytes = totals.get("body_bytes", 0)
    lately = minutes[-6:-1] or [0]
    return {
        "path": stats["path"],
        "urls": totals.get("urls", 0),
        "captures": totals.get("captures", 0),
        "visits": totals.get("visits", 0),
        "body_bytes": body_bytes,
        "directory_bytes": stats.get("directory_bytes", 0),
        "segment_bytes": stats.get("segment_bytes", 0),
        "mixed_bytes": stats.get("segment_bytes", 0)
        - sum(one.get("segment_bytes", 0) for one in stats.get("tablets", [])),
        "verdicts": shown.verdict_bar(verdicts),
        "judged": sum(verdicts.values()),
        "kept": {word: totals.get(f"stored.{word}", 0) for word in ("body", "reference", "confirmed", "rejected")},
        "tablets": _tablets(stats.get("tablets", [])),
        "more_tablets": max(0, len(stats.get("tablets", [])) - MOST_TABLETS),
        "rate": shown.columns(minutes, RATE_HEIGHT),
        "rate_height": RATE_HEIGHT,
        "per_minute": sum(lately) / len(lately),
        "most_per_minute": max(minutes, default=0),
        "hour": sum(minutes),
        "troubles": _troubles(stats),
    }


def _tablets(tablets: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    starts = [_start(tablet["start"]) for tablet in tablets]
    ends = [*starts[1:], ""]
    return [
        {
            "number": tablet["number"],
            "start": start,
            "end": end,
            "raw_bytes": tablet["raw_bytes"],
            "segment_bytes": tablet.get("segment_bytes", 0),
        }
        for tablet, start, end in zip(tablets[:MOST_TABLETS], starts, ends, strict=False)
    ]


def _start(row_key: str) -> str:
    """The URL that a row key stands for, if it is a whole one."""
    try:
        return url_of(row_key.encode()) if row_key else ""
    except ValueError:
        return row_key


def _troubles(stats: dict[str, Any]) -> list[str]:
    """What an operator has to look at."""
    found = []
    if stats.get("lost") or stats.get("lost_commits"):
        found.append(
            f"{len(stats.get('lost', ()))} captures and {stats.get('lost_commits', 0)} commits were lost; "
            "`docstore check` names them"
        )
    if stats.get("unreadable"):
        found.append(f"{len(stats['unreadable'])} values cannot be read; `docstore check` names them")
    if stats.get("set_aside_bytes"):
        found.append(f"{shown.size(stats['set_aside_bytes'])} of records that no row names are in set-aside/")
    return found
