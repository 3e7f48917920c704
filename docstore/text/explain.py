"""Why a block of a page is main text or not, in words, for a person who doubts a verdict.

It decides nothing: the kept blocks are those of the extractor.  `scored` and `combined` are explained block by block;
for other extractors it only shows which lines of the visible text they keep.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tests.reference import combined, scored
from tests.reference.blocks import (
    ADVERT,
    BOILERPLATE,
    HEADER,
    HINT,
    MAIN,
    NEVER,
    WHOLE,
    Outline,
    outline,
    render,
    tag_marks,
)
from tests.reference.left_out import without_left_out
from tests.reference.page import extractor as extractor_of
from tests.reference.page import visible
from tests.reference.scored import outlier_blocks
from tests.reference.tokens import HIDDEN, split
from tests.reference.words import words

MOST_CAUSES: Final = 4
LEAST_SCORE: Final = 10
"""Hundredths of a score; weaker causes are not named."""
LEAST_TITLE_LETTERS: Final = 4
SMALL_SHARE: Final = 10
MOST_TAG: Final = 60
"""Characters of a start tag that are shown."""

_LINKS: Final = ("no links", "up to a third links", "up to two thirds links", "mostly links", "nothing but links")
_CAUSE_WORDS: Final = {
    "sentence": "ends a sentence",
    "currency": "has a currency sign",
    "consent": "names cookies, consent or privacy",
    "copyright": "claims a copyright",
    "repeats": "an earlier element has the same text",
    "is repeated": "a later element has the same text",
    "title heading": "is in the title of the page",
    "title block": "is in the title of the page",
    "behind a heading": "follows a heading",
    "before any heading": "no heading precedes it",
    "before taken": "is before the text that the rule `combined` keeps",
    "among taken": "is within the text that the rule `combined` keeps",
    "behind taken": "is after the text that the rule `combined` keeps",
    "taken": "the rule `combined` keeps it",
    "left": "the rule `combined` drops it",
}

_OUTLIER: Final = "a long text that few of many similar elements have"


class ExplainedBlock(NamedTuple):
    """A block of the visible text.

    Attributes:
        text: lines as shown, white space folded.
        is_kept: it is main text.
        score: hundredths, of `scored`; None for other extractors.
        because: the causes of the decision, strongest first; for `scored` with their parts of the score.
    """

    text: str
    is_kept: bool
    score: int | None
    because: tuple[str, ...]


def explain(source: str, extractor: str) -> list[ExplainedBlock]:
    """Each block of a page, with the decision of the extractor.

    Args:
        source: decoded; U+0000 is read as U+FFFD.
        extractor: its name in a schema.
    Raises:
        InvalidArgument: no extractor has that name, or it cannot be loaded.
    """
    markup = without_left_out(split(source.replace("\0", "\ufffd")))
    if extractor == "scored":
        page, taken = scored.read(markup)
        full = outline(markup, apart=True)
        if scored.blocks_of(full).blocks != page.blocks:
            full = outline(markup, HIDDEN - {"noscript"}, apart=True)
        return list(_of_scored(full, page, taken, scored.title_of(markup)))
    if extractor == "combined":
        return list(_of_combined(outline(markup)))
    main = Counter(extractor_of(extractor)(markup).split("\n"))
    blocks = []
    for line in filter(None, visible(markup).split("\n")):
        is_kept = main[line] > 0
        main[line] -= is_kept
        blocks.append(ExplainedBlock(line, is_kept, None, ()))
    return blocks


def left_out(blocks: Sequence[ExplainedBlock]) -> list[str]:
    """The `MOST_CAUSES` causes that dropped most characters, by each block's first cause without score and tag."""
    counts: Counter[str] = Counter()
    characters: Counter[str] = Counter()
    for block in blocks:
        if not block.is_kept and block.because:
            cause = block.because[0].partition(" (")[0].partition(", <")[0]
            counts[cause] += 1
            characters[cause] += len(block.text)
    return [
        f"{counts[cause]} block{'s' if counts[cause] > 1 else ''}, {size} characters: {cause}"
        for cause, size in characters.most_common(MOST_CAUSES)
    ]


def doubts(title: str, headings: str, main: str, visible: str) -> list[str]:
    """Signs that the main text misses the subject of the page, in words; empty without any."""
    if not visible:
        return ["the page shows no text; a script may fetch it"]
    reasons = []
    main_words = frozenset(words(main))
    for name, text in (("title", title), ("headings", headings)):
        title_words = {word for word in words(text) if len(word) >= LEAST_TITLE_LETTERS}
        if title_words and main_words.isdisjoint(title_words):
            reasons.append(f"no word of the {name} is in the main text")
    if len(main) * SMALL_SHARE < len(visible):
        reasons.append(
            f"the main text is less than a tenth of the visible text: {len(main)} of {len(visible)} characters"
        )
    return reasons


# --- scored


def _of_scored(full: Outline, page: Outline, taken: Sequence[int], title: str) -> Iterator[ExplainedBlock]:
    selected = scored.find(page, taken, title)
    kept = frozenset(scored.without_stamps(page, selected))
    before_stamps = frozenset(selected)
    features_of = list(scored.block_features(page, taken, title))
    scores = [scored.score(features) for features in features_of]
    chosen = scored.choose(page, scores)
    shown = scored.without_never(full)
    outliers = {id(shown.blocks[number]) for number in outlier_blocks(shown)}
    threshold = scored.best_bar(page, scores)
    number = 0
    for block in full.blocks:
        if number == len(page.blocks) or page.blocks[number] != block:
            why = _OUTLIER if id(block) in outliers else _never_by(full, block.owner)
            yield ExplainedBlock(render([block]), False, None, (why,))
            continue
        score, is_kept = scores[number], number in kept
        because: tuple[str, ...] = tuple(_causes(features_of[number], 1 if is_kept else -1))
        if not is_kept and number in before_stamps:
            because = ("a date, a time or a count, which changes although the page does not",)
        elif before_stamps != frozenset(chosen or taken):
            because = ("the chosen text has no word of the title, so everything but boilerplate is kept",)
        elif not chosen:
            because = ("no block scores high enough, so the rule `combined` decides",)
        elif not is_kept and score > threshold:
            because = ("an earlier element that is kept has the same text",)
        elif threshold < score <= 0:
            because = (f"the page has too little text with a clear score, so the threshold is {threshold}", *because)
        elif 0 < score <= threshold:
            because = (f"the page has enough text with a clear score, so the threshold is {threshold}", *because)
        yield ExplainedBlock(render([block]), is_kept, score, because)
        number += 1


def _never_by(page: Outline, element: int) -> str:
    """The element around a block that excludes it from main text, and the kind of that element."""
    while element:
        name, source = page.tags[element]
        tag = " ".join(f"<{name}{source or ''}>".split())
        shown = tag if len(tag) <= MOST_TAG else f"{tag[:MOST_TAG]}\N{HORIZONTAL ELLIPSIS}>"
        evidence = page.evidence[element]
        if tag_marks(name, source) & NEVER and not evidence & WHOLE:
            return f"inside a dialog or a notice of consent, {shown}"
        if evidence & ADVERT and not evidence & (MAIN | WHOLE):
            return f"inside an advert, {shown}"
        element = page.parents[element]
    return "inside a dialog, a notice of consent or an advert"


def _causes(features: Sequence[str], sign: int) -> Iterator[str]:
    """The causes of the decision, strongest first, each with its part of the score."""
    worth: dict[str, int] = defaultdict(int)
    for feature in features:
        worth[cause_of(feature)] += scored.score([feature]) - scored.score([])
    for cause, score in sorted(worth.items(), key=lambda item: (-item[1] * sign, item[0]))[:MOST_CAUSES]:
        if score * sign >= LEAST_SCORE:
            yield f"{cause} ({score / 100:+.2f})"


def cause_of(feature: str) -> str:
    """A feature of the scorecard in words; related features share them."""
    first, _, rest = feature.partition(" ")
    if first == "in":
        return f"inside {rest}" if rest[0] == "<" or "=" in rest else f'inside a class, id or state "{rest}"'
    if first == "like":
        return "many blocks have the same marks"
    if first[0] in "+-":
        return "the blocks next to it"
    if feature in _CAUSE_WORDS:
        return _CAUSE_WORDS[feature]
    if first == "fifth":
        return "its position in the text"
    if first == "sentence":
        return _CAUSE_WORDS[first]
    if " of amount " in feature or " of share " in feature:
        return _CAUSE_WORDS[first]
    form, _, digits = feature.removeprefix("taken ").removeprefix("left ").partition(" ")
    size, links = int(digits[0]), int(digits[1])
    long = f"of {scored.SIZES[size - 1]} letters and more" if size else f"under {scored.SIZES[0]} letters"
    return f"a {form} {long}, {_LINKS[links]}"


# --- combined


def _of_combined(page: Outline) -> Iterator[ExplainedBlock]:
    decision = combined.decide(page)
    kept = frozenset(decision.kept)
    for number, block in enumerate(page.blocks):
        is_kept = number in kept
        because = _why_kept(page, decision, number) if is_kept else _why_left_out(page, decision, number)
        yield ExplainedBlock(render([block]), is_kept, None, (because,))


def _why_kept(page: Outline, decision: combined.Decision, number: int) -> str:
    if decision.is_lenient:
        return "the page has little text, so all of it but boilerplate is kept"
    if not decision.inside[page.blocks[number].owner]:
        return "between the heading and the container of the main text"
    return "in the container of the main text"


def _why_left_out(page: Outline, decision: combined.Decision, number: int) -> str:
    block = page.blocks[number]
    if decision.adverts[block.owner]:
        return "a class or id says that it is an advert"
    if decision.dropped[number] or decision.is_lenient:
        return _said_by(page, block.owner, block.evidence)
    if not decision.inside[block.owner]:
        return "outside the container of the main text"
    if block.link_weight * combined.KEPT_LINKS[1] > block.weight * combined.KEPT_LINKS[0]:
        return "more than two thirds of it are links"
    return "after the last long text of the container"


def _said_by(page: Outline, element: int, evidence: int) -> str:
    """The evidence that a block is boilerplate; that of the nearest element decides."""
    while not evidence & (BOILERPLATE | HEADER | HINT | ADVERT) and element:
        evidence = page.evidence[element]
        element = page.parents[element]
    if evidence & ADVERT:
        return "a class or id says that it is an advert"
    if evidence & (BOILERPLATE | HEADER):
        return "its tag or role says that it is boilerplate"
    return "a class or id says that it is boilerplate"
