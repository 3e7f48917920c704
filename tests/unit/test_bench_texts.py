"""The records of `tools.bench.texts`: their truth, and what docstore says of them."""

from __future__ import annotations

import json
from pathlib import Path

from tools.bench.dedup_peers import THRESHOLD
from tools.bench.pipelines import jaccard
from tools.bench.texts import by_docstore, record_of, shingles_of, true_copies, words_of

RECORDS = 240


def test_the_true_copies_are_all_records_with_a_similar_earlier_one_and_docstore_finds_each(tmp_path: Path) -> None:
    sets = [shingles_of(words_of(number)) for number in range(RECORDS)]
    similar = {
        number
        for number, own in enumerate(sets)
        if any(jaccard(own, earlier) >= THRESHOLD for earlier in sets[:number])
    }
    assert len(similar) > 20
    assert true_copies(RECORDS) == similar

    path = tmp_path / "records.jsonl"
    path.write_text("".join(json.dumps(record_of(number)) + "\n" for number in range(RECORDS)))
    assert by_docstore(path, tmp_path) == similar
