"""Judgements of searches: files of queries and of judgements (TREC qrels), the measures of a ranking, and TREC runs.

    queries     id, a tab, the query
    judgements  id of the query, iteration (ignored), document, relevance: above 0 is relevant
    run         id of the query, Q0, document, rank, score, name of the run

Fields are separated by white space, in queries by a tab.  Empty lines are ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from docstore.model.errors import InvalidArgument

DEPTHS: Final = (5, 10)
"""The k of precision at k."""
SCORE_STEP: Final = 1e-4
"""The least difference of two scores in a run: evaluators sort by score, and each breaks ties in its own way."""


def read_queries(path: Path) -> dict[str, str]:
    """Queries by id, in the order of the file.

    Raises:
        InvalidArgument: the file cannot be read, or a line is malformed or has the id of another one.
    """
    queries: dict[str, str] = {}
    for place, line in _lines(path):
        query_id, _, query = (part.strip() for part in line.partition("\t"))
        if len(query_id.split()) != 1 or not query:
            raise InvalidArgument(f"{place}: expected an id without blanks, a tab and a query, found {line!r:.120}")
        if query_id in queries:
            raise InvalidArgument(f"{place}: the id {query_id} has a query already")
        queries[query_id] = query
    return queries


def read_judgements(path: Path) -> dict[str, dict[str, int]]:
    """Relevance of documents by id of the query.

    Raises:
        InvalidArgument: the file cannot be read, or a line is malformed or contradicts another one.
    """
    judged: dict[str, dict[str, int]] = {}
    for place, line in _lines(path):
        try:
            query_id, _, document, grade = line.split()
            relevance = int(grade)
        except ValueError:
            expected = "query id, iteration, document and relevance, which is a whole number"
            raise InvalidArgument(f"{place}: expected {expected}, found {line!r:.120}") from None
        if (earlier := judged.setdefault(query_id, {}).setdefault(document, relevance)) != relevance:
            raise InvalidArgument(
                f"{place}: {document} has the relevance {earlier} in an earlier line, not {relevance}"
            )
    return judged


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Lines that are not empty, each with its place for an error."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"{path} cannot be read: {error}; give a text file in UTF-8") from error
    return ((f"{path}, line {number}", line.rstrip()) for number, line in enumerate(lines, 1) if line.strip())


def measures(ranking: Sequence[str], relevant: Collection[str]) -> dict[str, float]:
    """Precision at each of DEPTHS, and average precision.

    A ranking that is shorter than k has no relevant document in the missing places.  Relevant documents that the
    ranking does not have count as found with precision 0.

    Args:
        ranking: documents, best first.
        relevant: documents, at least one.
    """
    hits = [place for place, document in enumerate(ranking, 1) if document in relevant]
    precisions = {f"precision_{k}": sum(place <= k for place in hits) / k for k in DEPTHS}
    average = sum(count / place for count, place in enumerate(hits, 1)) / len(relevant)
    return {**precisions, "average_precision": average}


def run_lines(query_id: str, ranking: Iterable[tuple[str, float]]) -> Iterator[str]:
    """The lines of one query in a TREC run; scores fall with each rank.

    Args:
        query_id: of the query.
        ranking: documents with their scores, best first.
    """
    last = float("inf")
    for rank, (document, score) in enumerate(ranking, 1):
        last = min(score, last - SCORE_STEP)
        yield f"{query_id} Q0 {document} {rank} {last:.4f} docstore\n"
