"""What pages hide that are aimed at the buckets of one text, where the order of bins is public and where it is secret.

    python -m tools.bench.aimed_pages

An aimed page repeats just the shingles by which a text is found (those that are minima of its sketch's bins, its
fingerprints, or both), with a word of its own between runs of them.  The pages come first, then the text; then copies
of the text are judged.
"""

from __future__ import annotations

import random
from typing import Final

from docstore.dedup import bands, shingle, sketch
from docstore.dedup.detector import jaccard
from docstore.dedup.kernel import Kernel
from docstore.model.types import VerdictKind
from tools.bench.harness import Section
from tools.bench.sites import COPIES, SHINGLE_WORDS, Words, common, rare
from tools.bench.template_sites import SEED, Written, judged

COMMAND: Final = "python -m tools.bench.aimed_pages"
PAGES: Final = 500
TRIALS: Final = 60


def aimed(source: random.Random, target: Words, at: str) -> Words:
    """A page aimed at the buckets of a text: of its bands, or of both bands and fingerprints."""
    in_order = shingle.shingles(target, SHINGLE_WORDS)
    distinct = shingle.distinct(in_order)
    wanted = set(sketch.minima(distinct).tolist())
    if at == "both":
        wanted |= set(shingle.sample(distinct).tolist())
    page: Words = []
    end = 0  # of the run that was copied last
    for place, one in enumerate(in_order.tolist()):
        if one in wanted:
            if place > end:
                page += rare(source, 1)
            page += target[max(place, end) : place + SHINGLE_WORDS]
            end = place + SHINGLE_WORDS
    return page + rare(source, 8)


def row(words: int, at: str, secret: bytes) -> list[str]:
    """Copies of a text of so many words that name it, by kind of copy."""
    source = random.Random(f"{SEED} aimed {words} {at}")
    target = common(source, words)
    with Written() as written:
        written.kernel = Kernel("scored", SHINGLE_WORDS, order=bands.order_of(secret))
        _, [attacker, *_] = written.write([aimed(source, target, at) for _ in range(PAGES)])
        [pointer], [original] = written.write([target])
        shared = shingle.overlap(attacker.shingles, original.shingles)
        alike = jaccard(shared, attacker.shingle_count, original.shingle_count)
        cells = [str(words), at, "by a secret" if secret else "public", f"{alike:.2f}"]
        for make in COPIES.values():
            copies = written.analyse([make(target, source) for _ in range(TRIALS)])
            found = [judged(written, copy, original, pointer, VerdictKind.NEAR) for copy in copies]
            mean = sum(one.jaccard for one in found) / TRIALS
            cells.append(f"{sum(one.is_named for one in found) / TRIALS:.2f} ({mean:.2f})")
        return cells


def main() -> None:
    """Measure and print."""
    columns = ("words", "aimed at", "bins", "J of aimed pages", *(f"{kind} (J)" for kind in COPIES))
    section = Section("Copies that name a text that pages were aimed at", COMMAND, columns)
    for words in (120, 400, 1000):
        for at in ("bands", "both"):
            section.rows += [row(words, at, secret) for secret in (b"", b"a secret")]
    print(section.render())


if __name__ == "__main__":
    main()
