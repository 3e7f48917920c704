"""Made-up pages for tests: seeded words in plain markup, with exactly known changes."""

from __future__ import annotations

import functools
import random

VOCABULARY = [f"{a}{b}{c}" for a in ("ba", "de", "ki", "lo", "mu") for b in ("r", "st", "n", "v") for c in "aeiou"]


def words(seed: int, count: int) -> list[str]:
    """`count` words, the same for the same seed."""
    return list(_drawn(seed, count))


@functools.lru_cache(4096)  # tests ask for the same words again and again, and a draw is slower than a write
def _drawn(seed: int, count: int) -> tuple[str, ...]:
    source = random.Random(seed)
    return tuple(source.choice(VOCABULARY) + str(source.randrange(100)) for _ in range(count))


def page(text: list[str] | str, title: str = "A page") -> bytes:
    """An HTML page whose visible text is the words, in paragraphs of about twenty words."""
    given = text.split() if isinstance(text, str) else text
    paragraphs = [" ".join(given[start : start + 20]) for start in range(0, len(given), 20)]
    body = "\n".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return f"<!DOCTYPE html><html><head><title>{title}</title></head><body>{body}</body></html>".encode()


def changed(text: list[str], seed: int, count: int) -> list[str]:
    """The words with `count` of them replaced by others, at seeded places."""
    source = random.Random(seed)
    result = list(text)
    for place in source.sample(range(len(text)), count):
        result[place] = f"other{source.randrange(10**6)}"
    return result
