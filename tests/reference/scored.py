"""The default main-content rule: every block is scored by a table of evidence, and kept above the page's bar.

Integers only, no order of hashing, linear time: another implementation gives the same blocks bit for bit.

The rule:

1. The blocks of the page but for those in elements that are never content (see `blocks`) or say that they are adverts
   and hold at most half of the text, and those of at most half after leaves that say so; inline tags that say so stand
   apart (see `blocks`).  Of the rest, *outlier blocks* go: long texts that few of many alike elements have (below).
   And what `combined` takes of the blocks; if it finds 16 solid ones or fewer, short ones are solid, too.  An element
   that holds more than 19/20 of the text is the page itself, whatever it is called, unless a fifth of what it holds or
   more names cookies or consent; html and body always are.  Where what is taken weighs less than 300 and the page has
   noscript elements, these are shown, and if 300 or more is taken then, the page is read so: it is a shell for browsers
   that run scripts, and its text stands there for those that do not.
2. A block's *score* is the sum of what the scorecard gives for: the marks of the elements around it and of its own tag;
   its size, its share of links and whether it is a heading, together with whether `combined` took it; where it stands
   to what was taken, in which fifth of the page's text, and whether a heading comes before it; whether its text stands
   in the title, or in another element too; how many blocks of the page have just the same marks and element; whether it
   ends a sentence, has a sign of currency, names cookies or consent, or claims a copyright; and the same things of the
   two blocks before and the two behind.
3. Blocks with a score above the *bar* are the main content: of -100, -50, 0 and 50 the one that promises the greatest
   F1, where a block's chance to be content grows evenly from none at -200 to all at 300 and blocks count by weight; the
   lowest of equals.  But of blocks of 40 and more with the same text only those in the element of the first, or in one
   next to it with its name and marks, as pages repeat a text for other sizes of screen, and replies quote.  Where there
   is none, what `combined` took.
4. That is *doubtful* where it weighs less than an eighth of the page's text, or no block scored above the bar, and it
   has less than a fifth of the words of the title (of those with four characters or more, as they are written).  Then
   it is likely to be a notice that the whole site shares, and the page's text is that of step 5 of `combined`: all that
   does not say that it is boilerplate.
5. Of what was found, *stamps* (see below: dates, times and counts) are left out, headings and blocks over 48 apart,
   where all of them weigh at most a fifth: they change while the page says the same.  A page of more is about them.

6. Dates and times of lists and tables among what was found belong to it, with the short block before each.
   Preformatted text among or right behind what was found belongs to it, unless it is numbers only or stands there
   twice.  A line, else a sentence, of 40 and more that an earlier block has said is not written again, headings and
   preformatted text apart, unless these are more than a third of all.

`combined` knows what weight and explicit markup say of a page as a whole; the scorecard knows which kinds of blocks are
content in shops, forums, lists and articles.  Its numbers were fitted to pages with known content; `docs/extraction.md`
says which, and what came out on pages that were not looked at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from tests.reference import tables
from tests.reference.blocks import (
    ADVERT,
    MAIN,
    MARK_SCORES,
    NEVER,
    WHOLE,
    Block,
    Outline,
    outline,
    render,
    tag_marks,
    text_weight,
    write,
)
from tests.reference.blocks import names as mark_names
from tests.reference.combined import LITTLE_WEIGHT, SOLID_WEIGHT, lenient, subtree_sums
from tests.reference.combined import select as select_combined
from tests.reference.left_out import without_left_out
from tests.reference.page import BREAK, PREFORMATTED
from tests.reference.tokens import HIDDEN, Markup, ascii_lower, decode_text

SIZES: Final = (10, 20, 40, 80, 160, 320)
"""A block's size is the number of these that its weight reaches."""
LIKES: Final = (2, 4, 8, 16, 32, 64)
"""Likewise for the number of blocks with its marks and element."""
TAKEN_WEIGHTS: Final = (300, 1000, 4000)
"""Likewise for what `combined` took of the page."""
FEW_SOLID: Final = 16
"""Where `combined` finds no more solid blocks than this, short ones are solid, too: on a page of short texts one long
advert would else be the only solid block, and decide what the others are."""
SHARES: Final = 4
_SCORECARD: Final = tables.read("scorecard.txt")
SCORES: Final = {
    **{f"in {mark}": score for mark, score in MARK_SCORES.items()},
    **tables.scores(_SCORECARD, "shapes", "alike", "neighbours", "others"),
}
"""What each sign is worth, in the words of `block_features`: hundredths of a natural logarithm of odds."""
WRAPPER_SHARE: Final = (19, 20)
CONSENT_SHARE: Final = 5
ADVERT_SHARE: Final = 2
DOUBTFUL_SHARE: Final = 8
BARS: Final = (-100, -50, 0, 50)
CHANCES: Final = (-200, 300)
"""Up to the first score a block is not content, from the second on it is; its chance grows evenly between them."""
COPY_WEIGHT: Final = 40
STAMP_WEIGHT: Final = 48
STAMP_SHARE: Final = 5
DATUM_WEIGHT: Final = 400
WRITER_WEIGHT: Final = 120
BYLINE_WEIGHT: Final = 60
HEADING_REACH: Final = 4
_DATA: Final = frozenset({"td", "th", "dd"})
_WRITER_NAMES = """
author byline posted publish timestamp dateline pubdate post-date entry-date article-date post-meta entry-meta
article-meta postmeta
"""
WRITER_NAMES: Final = tuple(_WRITER_NAMES.split())
TITLE_SHARE: Final = 5
TITLE_WORD_CHARACTERS: Final = 4
FIFTHS: Final = 5
TITLE_WEIGHT: Final = 8
"""A block of less says nothing by standing in the title; it must be at least a quarter of the title, too."""
REPEATED_WEIGHT: Final = 4
"""Likewise by standing on the page twice."""
NEIGHBOURS: Final = (-2, -1, 1, 2)

SENTENCE_ENDS: Final = tuple(".!?:…。！？؟।")
CURRENCIES: Final = tuple("$€£¥₹₽₩")
CONSENT: Final = ("ookie", "onsent", "rivacy", "GDPR", "atenschutz", "rivacidad", "onfidentialité")
COPYRIGHT: Final = ("©", "opyright", "OPYRIGHT", "ights reserved", "IGHTS RESERVED")


class Traits(NamedTuple):
    """What of a block its neighbours' scores depend on, too."""

    size: int
    links: int
    is_heading: bool
    is_taken: bool

    @property
    def shape(self) -> str:
        """Its form, size and share of links, as the scorecard writes them."""
        return f"{'heading' if self.is_heading else 'block'} {self.size}{self.links}"

    @property
    def fate(self) -> str:
        """What `combined` did with it."""
        return "taken" if self.is_taken else "left"


def scored(markup: Markup) -> str:
    """Main content of a page: blocks on lines of their own, white space folded; "" only if there is no text."""
    markup = without_left_out(markup)
    page, taken = read(markup)
    return write_once(page, select(page, taken, title_of(markup)))


def read(markup: Markup) -> tuple[Outline, list[int]]:
    """Step 1: the page, and the numbers of the blocks that `combined` takes."""
    page = blocks_of(outline(markup, apart=True))
    taken = select_combined(page, FEW_SOLID)
    if "noscript" in markup.names and _weigh(page, taken) < LITTLE_WEIGHT:
        shown = blocks_of(outline(markup, HIDDEN - {"noscript"}, apart=True))
        taken_of_shown = select_combined(shown, FEW_SOLID)
        if _weigh(shown, taken_of_shown) >= LITTLE_WEIGHT:
            return shown, taken_of_shown
    return page, taken


def blocks_of(page: Outline) -> Outline:
    """The page without what is never content, without its outlier blocks, and without teasers."""
    page = without_strays(without_never(page))
    gone = teasers(page)
    return page._replace(blocks=[block for number, block in enumerate(page.blocks) if number not in gone])


LEAST_CARDS: Final = 4
CARD_WEIGHT: Final = 600
MEAN_WEIGHT: Final = 350
HEAD_WEIGHT: Final = 8
STORY_BLOCKS: Final = 5
STORY_WEIGHT: Final = 700
AROUND_WEIGHT: Final = 80
MOST_STEPS: Final = 6
SOLID_LINK_SHARE: Final = 3


def teasers(page: Outline) -> set[int]:
    """Numbers of the blocks that are teasers, by the rule at the head of this file."""
    blocks, parents = page.blocks, page.parents
    heads = [
        block
        for block in blocks
        if block.is_heading and block.link_weight == block.weight and not block.is_local and block.weight >= HEAD_WEIGHT
    ]
    if len(heads) < LEAST_CARDS:
        return set()
    sums = subtree_sums(page, [block.weight for block in blocks])
    groups = _cards(page, heads, sums)
    is_member = [False] * len(parents)
    for element in (element for group in groups for element in group):
        is_member[element] = True
    for element in range(1, len(parents)):
        is_member[element] = is_member[element] or is_member[parents[element]]
    first_block = [len(blocks)] * len(parents)
    for number, block in reversed(list(enumerate(blocks))):
        first_block[block.owner] = number
    for element in range(len(parents) - 1, 0, -1):
        first_block[parents[element]] = min(first_block[parents[element]], first_block[element])
    end = _story_end(blocks, is_member)
    if end is None:
        return set()
    is_gone = [False] * len(parents)
    for group in groups:
        if any(first_block[element] < end for element in group):
            continue
        held = sum(sums[element] for element in group)
        for element in group:
            is_gone[element] = True
        around = parents[group[0]]
        while around and first_block[around] >= end and sums[around] - held <= AROUND_WEIGHT:
            is_gone[around] = True
            around = parents[around]
    for element in range(1, len(parents)):
        is_gone[element] = is_gone[element] or is_gone[parents[element]]
    return {number for number, block in enumerate(blocks) if is_gone[block.owner]}


def _cards(page: Outline, heads: Sequence[Block], sums: Sequence[int]) -> list[list[int]]:
    """Alike siblings of which each has a heading that is a link, the innermost groups first."""
    alike: dict[tuple[int, str], list[int]] = {}
    for block in heads:
        element = block.owner
        for _ in range(MOST_STEPS):
            if not element or sums[element] > CARD_WEIGHT:
                break
            members = alike.setdefault((page.parents[element], page.tags[element][0]), [])
            if members[-1:] != [element]:
                members.append(element)
            element = page.parents[element]
    taken: set[int] = set()
    groups = []
    for members in sorted(alike.values(), key=lambda members: -members[0]):
        is_light = sum(sums[element] for element in members) <= MEAN_WEIGHT * len(members)
        if len(members) < LEAST_CARDS or not is_light or not taken.isdisjoint(members):
            continue
        for around in members:
            while around and around not in taken:
                taken.add(around)
                around = page.parents[around]
        groups.append(members)
    return groups


def _story_end(blocks: Sequence[Block], is_member: Sequence[bool]) -> int | None:
    """Number of the block behind the first blocks of one element that make up a story."""
    counts: Counter[int] = Counter()
    weights: Counter[int] = Counter()
    for number, block in enumerate(blocks):
        is_solid = block.weight >= SOLID_WEIGHT and block.link_weight * SOLID_LINK_SHARE <= block.weight
        if is_solid and not block.is_heading and not is_member[block.owner]:
            counts[block.owner] += 1
            weights[block.owner] += block.weight
            if counts[block.owner] >= STORY_BLOCKS and weights[block.owner] >= STORY_WEIGHT:
                return number + 1
    return None


def without_never(page: Outline) -> Outline:
    """The page without the blocks in elements that are never content."""
    parents = page.parents
    says_so = [
        bool(tag_marks(*tag) & NEVER) and not evidence & WHOLE
        for tag, evidence in zip(page.tags, page.evidence, strict=True)
    ]
    of_leaves = [block.leaf is not None and _leaf_says_so(block) for block in page.blocks]
    if not any(says_so) and not any(of_leaves) and not any(evidence & ADVERT for evidence in page.evidence):
        return page
    sums = subtree_sums(page, [block.weight for block in page.blocks])
    of_consent = subtree_sums(page, [block.weight * _names(render([block]), CONSENT) for block in page.blocks])
    never = [False] * len(parents)
    for element in range(1, len(parents)):
        is_page = sums[element] * WRAPPER_SHARE[1] > sums[0] * WRAPPER_SHARE[0]
        is_dialog = says_so[element] and (not is_page or of_consent[element] * CONSENT_SHARE >= sums[element])
        is_named = page.evidence[element] & ADVERT and not page.evidence[element] & (MAIN | WHOLE)
        is_advert = bool(is_named) and sums[element] * ADVERT_SHARE <= sums[0]
        never[element] = never[parents[element]] or is_dialog or is_advert
    kept = [
        block
        for block, is_leaf in zip(page.blocks, of_leaves, strict=True)
        if not never[block.owner] and not (is_leaf and block.weight * ADVERT_SHARE <= sums[0])
    ]
    return page._replace(blocks=kept)


def _leaf_says_so(block: Block) -> bool:
    """Whether the leaf before a block says that it is an advert, or never content."""
    return bool(block.evidence & ADVERT or _leaf_marks(block) & NEVER)


def select(page: Outline, taken: Sequence[int], title: str) -> list[int]:
    """Numbers of the blocks that are main content, ascending."""
    return without_stamps(page, find(page, taken, title))


def find(page: Outline, taken: Sequence[int], title: str) -> list[int]:
    """Steps 2 to 4: numbers of the blocks that are content, ascending, stamps among them."""
    kept = choose(page, [score(features) for features in block_features(page, taken, title)])
    found = kept or list(taken)
    is_little = _weigh(page, kept) * DOUBTFUL_SHARE < _weigh(page, range(len(page.blocks)))
    if is_little and is_of_another(page, found, title):
        found = lenient(page)
    return with_preformatted(page, found)


def preformatted(page: Outline) -> list[bool]:
    """Which elements are preformatted or lie in one that is."""
    found = [False] * len(page.parents)
    for element in range(1, len(found)):
        found[element] = page.tags[element][0] in PREFORMATTED or found[page.parents[element]]
    return found


def with_preformatted(page: Outline, found: list[int]) -> list[int]:
    """Main content with the dates of lists and tables among it, and preformatted blocks that say more than numbers."""
    found = _with_dates(page, found)
    elements = preformatted(page)
    within = [elements[block.owner] for block in page.blocks]
    if not found or not any(within):
        return found
    texts = [render([block]) for block in page.blocks]
    first: dict[str, int] = {}
    for number, block in enumerate(page.blocks):
        if block.weight >= REPEATED_WEIGHT:
            first.setdefault(texts[number], number)
    end = found[-1] + 1
    while end < len(within) and within[end]:
        end += 1
    more = {
        number
        for number in range(found[0], end)
        if within[number] and _SAYS_MORE.search(texts[number]) and first.get(texts[number], number) == number
    }
    return sorted(more.union(found))


_LISTED: Final = frozenset({"dl", "dd", "td", "th", "li"})


def _with_dates(page: Outline, found: list[int]) -> list[int]:
    """Main content with the dates and times of lists and tables among it, and the short block before each."""

    def is_short(number: int) -> bool:
        block = page.blocks[number]
        is_text = not block.is_heading and not block.link_weight and block.weight <= STAMP_WEIGHT
        return is_text and page.tags[block.owner][0] in _LISTED

    more = set(found)
    for number in range(found[0], found[-1] + 1) if found else ():
        stamp = is_stamp(render([page.blocks[number]])) if is_short(number) and number not in more else None
        if stamp is not None and not stamp.is_counted and not stamp.is_told:
            more.add(number)
            if number > found[0] and is_short(number - 1):
                more.add(number - 1)
    return sorted(more)


_SAYS_MORE: Final = re.compile("[A-Za-z\u0080-\U0010ffff]")
_SENTENCE: Final = re.compile("[.!?][\"')\u201d\u00bb]? |[\u3002\uff01\uff1f\u0964\u061f\u06d4][\u300d\u300f\u201d]? ?")
"""The end of a sentence, and the blank behind it."""
REPEATED_SENTENCE_WEIGHT: Final = 40
REPEATED_SHARE: Final = 3
"""What repeats and is more than one such part of all is not left out."""


def write_once(page: Outline, kept: Sequence[int]) -> str:
    """Step 6: the blocks without signs, and without the long lines and sentences that an earlier one of them has said.

    A whole line goes first.  Headings are known, and stay; blocks with signs and preformatted ones are passed over.
    """
    within = preformatted(page)
    known: set[str] = set()
    shown = []
    for number in kept:
        block = page.blocks[number]
        if block.weight < REPEATED_SENTENCE_WEIGHT or block.written is not None or within[block.owner]:
            shown.append(block)
            continue
        lines = [_unsaid(line, known) for line in render([block]).split("\n")]
        shown.append(block if block.is_heading else block._replace(text=BREAK.join(lines)))
    blocks = [page.blocks[number] for number in kept]
    said = sum(block.weight for block in blocks) - sum(text_weight(block.text) for block in shown)
    return write(blocks if said * REPEATED_SHARE > _weigh(page, kept) else shown)


def _unsaid(line: str, known: set[str]) -> str:
    """What of a line is not known yet; now it is."""
    if _is_known(line, known):
        return ""
    cuts = [0, *(match.end() for match in _SENTENCE.finditer(line)), len(line)]
    sentences = [line[start:end] for start, end in pairwise(cuts) if start < end]
    if sentences == [line]:
        return line
    return "".join(" " if _is_known(sentence, known) else sentence for sentence in sentences)


def _is_known(text: str, known: set[str]) -> bool:
    text = text.removesuffix(" ")
    if text_weight(text) < REPEATED_SENTENCE_WEIGHT:
        return False
    if text in known:
        return True
    known.add(text)
    return False


def without_stamps(page: Outline, found: list[int]) -> list[int]:
    """Step 5."""
    stamps = {number: stamp for number in found if (stamp := stamp_of(page, number))}
    gone = {number for place, number in enumerate(found) if number in stamps and _goes(page, found, place, stamps)}
    if not gone or _weigh(page, gone) * STAMP_SHARE > _weigh(page, found):
        return found
    return [number for number in found if number not in gone]


def stamp_of(page: Outline, number: int) -> Stamp | None:
    """What stamp a block is that may be left out."""
    block = page.blocks[number]
    if block.is_heading or block.weight > STAMP_WEIGHT:
        return None
    return is_stamp(render([block]))


def _goes(page: Outline, found: Sequence[int], place: int, stamps: Mapping[int, Stamp]) -> bool:
    """Whether a stamp is left out, by the rule at the head of the part on stamps."""
    number = found[place]
    block, stamp = page.blocks[number], stamps[number]
    if preformatted(page)[block.owner]:
        return False
    if stamp.is_counted or stamp.is_told:
        return True
    sums = subtree_sums(page, [each.weight for each in page.blocks])
    if _is_datum(page, block, sums):
        return False
    if _names_writer(page, block, sums):
        return True
    if not stamp.is_date:
        return False
    for other in (place - 1, place + 1):
        beside = stamps.get(found[other]) if 0 <= other < len(found) else None
        if beside is not None and beside.is_date and not beside.is_counted and not beside.is_told:
            return False
    if block.time_weight * 2 >= block.weight or _is_near_heading(page, found, place):
        return True
    for step in (-2, -1, 1, 2):
        if not 0 <= number + step < len(page.blocks):
            continue
        beside_block = page.blocks[number + step]
        if beside_block.is_heading and beside_block.link_weight == beside_block.weight:
            return True
        if abs(step) == 1 and beside_block.weight <= BYLINE_WEIGHT and not beside_block.is_heading:
            word = render([beside_block]).partition(" ")[0].translate(_LOWER)
            if word in _BY or _names_writer(page, beside_block, sums):
                return True
    return False


def _is_datum(page: Outline, block: Block, sums: Sequence[int]) -> bool:
    """Whether a block is in a small cell or entry of a table or a definition list, or all of an entry of a list."""
    element = block.owner
    name = page.tags[element][0]
    if name == "dl" or (name == "li" and sums[element] == block.weight):
        return True
    while element:
        if page.tags[element][0] in _DATA and sums[element] <= DATUM_WEIGHT:
            return True
        element = page.parents[element]
    return False


def _names_writer(page: Outline, block: Block, sums: Sequence[int]) -> bool:
    """Whether the tag before a block, or the small element around it, is named for who wrote, or when."""
    sources = [block.leaf or ""]
    if sums[block.owner] <= WRITER_WEIGHT:
        sources.append(page.tags[block.owner][1] or "")
    return any(word in ascii_lower(source) for source in sources for word in WRITER_NAMES)


def _is_near_heading(page: Outline, found: Sequence[int], place: int) -> bool:
    """Whether a block stands right before the first heading, or behind it with nothing but short blocks between."""
    heading = next((at for at, number in enumerate(found) if page.blocks[number].is_heading), None)
    if heading is None or not heading - 1 <= place <= heading + HEADING_REACH:
        return False
    return all(page.blocks[number].weight < SOLID_WEIGHT for number in found[heading + 1 : place])


def choose(page: Outline, scores: Sequence[int]) -> list[int]:
    """Step 3 without `combined`: numbers of the blocks that their scores keep, ascending."""
    bar = best_bar(page, scores)
    kept = [number for number, each in enumerate(scores) if each > bar]
    around = path_marks(page)

    def are_beside(*elements: int) -> bool:
        return len({(page.parents[each], page.tags[each][0], around[each]) for each in elements}) == 1

    owners: dict[str, int] = {}
    chosen = []
    for number in kept:
        block = page.blocks[number]
        first = block.owner if block.weight < COPY_WEIGHT else owners.setdefault(render([block]), block.owner)
        if first == block.owner or are_beside(first, block.owner):
            chosen.append(number)
    return chosen


def best_bar(page: Outline, scores: Sequence[int]) -> int:
    """The bar of step 3; F1 is twice what is right by what is kept and what is content together."""
    least, most = CHANCES
    hopes = [
        block.weight * min(max(each - least, 0), most - least) for block, each in zip(page.blocks, scores, strict=True)
    ]
    content = sum(hopes)
    best, best_right, best_size = BARS[0], 0, 1
    for bar in BARS:
        above = [number for number, each in enumerate(scores) if each > bar]
        right, size = sum(hopes[number] for number in above), content + (most - least) * _weigh(page, above)
        if right * best_size > best_right * size:
            best, best_right, best_size = bar, right, size
    return best


def is_of_another(page: Outline, found: Sequence[int], title: str) -> bool:
    """Whether what was found is not what the title names."""
    text = write(page.blocks[number] for number in found)
    title_words = {word for word in title.split(" ") if len(word) >= TITLE_WORD_CHARACTERS}
    return sum(word in text for word in title_words) * TITLE_SHARE < len(title_words)


def title_of(markup: Markup) -> str:
    """The text of the first title element, white space folded."""
    if "title" not in markup.names:
        return ""
    return " ".join(decode_text(markup.contents[markup.names.index("title")] or "").split())


def score(features: Sequence[str]) -> int:
    """What the scorecard gives for the features of one block."""
    return SCORES["any"] + sum(SCORES.get(feature, 0) for feature in features)


def block_features(page: Outline, taken: Sequence[int], title: str) -> Iterator[list[str]]:
    """What is known of each block, in the scorecard's words."""
    blocks = page.blocks
    texts = [render([block]) for block in blocks]
    first_owners: dict[str, int] = {}
    repeated = {
        text
        for text, block in zip(texts, blocks, strict=True)
        if first_owners.setdefault(text, block.owner) != block.owner
    }
    weight_before = 0
    heading_before = False
    around = path_marks(page)
    is_taken = [False] * len(blocks)
    for number in taken:
        is_taken[number] = True
    traits = [
        Traits(_steps(block.weight, SIZES), link_share(block), block.is_heading, here)
        for block, here in zip(blocks, is_taken, strict=True)
    ]
    alike = Counter((around[block.owner], page.tags[block.owner][0]) for block in blocks)
    taken_weight = _weigh(page, taken)
    total = _weigh(page, range(len(blocks)))
    amount = _steps(taken_weight, TAKEN_WEIGHTS)
    share = min(SHARES - 1, SHARES * taken_weight // total) if total else 0
    first, last = (taken[0], taken[-1]) if taken else (len(blocks), -1)
    for number, (block, own) in enumerate(zip(blocks, traits, strict=True)):
        like = _steps(alike[around[block.owner], page.tags[block.owner][0]], LIKES)
        features = [f"in {name}" for name in mark_names(around[block.owner] | _leaf_marks(block))]
        features += [
            own.shape,
            f"{own.fate} {own.shape}",
            f"{own.fate} of amount {amount}",
            f"{own.fate} of share {share}",
        ]
        if not own.is_taken:
            features.append("before taken" if number < first else "behind taken" if number > last else "among taken")
        features += [f"like {like}", f"like {like} {own.fate}", f"like {like} links {own.links}"]
        features.append(f"like {like} of amount {amount} {own.fate}")
        fifth = FIFTHS * weight_before // total
        weight_before += block.weight
        heading_before = heading_before or block.is_heading
        features += [f"fifth {fifth}", f"fifth {fifth} {own.fate}"]
        features.append("behind a heading" if heading_before else "before any heading")
        text = texts[number]
        if block.weight >= TITLE_WEIGHT and len(text) * 4 >= len(title) and text in title:
            features.append(f"title {own.shape.partition(' ')[0]}")
        if text in repeated and block.weight >= REPEATED_WEIGHT:
            features.append("is repeated" if block.owner == first_owners[text] else "repeats")
        features += text_features(text, own.fate)
        for step in NEIGHBOURS:
            if not 0 <= number + step < len(blocks):
                features.append(f"{step:+d} nothing")
                continue
            other = traits[number + step]
            features += [f"{step:+d} {other.shape}", f"{step:+d} {other.fate} by {own.fate}"]
            if blocks[number + step].owner == block.owner:
                features.append(f"{step:+d} same element")
        yield features


def path_marks(page: Outline) -> list[int]:
    """Marks around the text of each element, its own among them."""
    found = [0] * len(page.parents)
    for element in range(1, len(found)):
        found[element] = found[page.parents[element]] | tag_marks(*page.tags[element])
    return found


def link_share(block: Block) -> int:
    """0 for no links, 1 up to a third, 2 up to two thirds, 3 for more, 4 for nothing else."""
    if not block.link_weight:
        return 0
    if block.link_weight == block.weight:
        return 4
    return 1 + (block.link_weight * 3 > block.weight) + (block.link_weight * 3 > block.weight * 2)


def text_features(text: str, fate: str) -> Iterator[str]:
    """What the words of a block say, white space folded."""
    if text.endswith(SENTENCE_ENDS):
        yield "sentence"
        yield f"sentence {fate}"
    for name, signs in (("currency", CURRENCIES), ("consent", CONSENT), ("copyright", COPYRIGHT)):
        if _names(text, signs):
            yield name


def _names(text: str, signs: Sequence[str]) -> bool:
    return any(sign in text for sign in signs)


def _leaf_marks(block: Block) -> int:
    return tag_marks("", block.leaf) if block.leaf else 0


def _steps(value: int, steps: Sequence[int]) -> int:
    return sum(value >= step for step in steps)


def _weigh(page: Outline, numbers: Iterable[int]) -> int:
    return sum(page.blocks[number].weight for number in numbers)


# --- Strays: long texts that few of many alike elements have, such as an advert in one of forty cards.
#
# Integers only, linear time: another implementation finds the same blocks.
#
# An element's *form* is its name, its own marks, whether it has attributes, and the form of its parent.  A block is a
# *outlier block* if it weighs 40 or more, is no heading, and is all the text of its element, which is a div, section,
# aside or article; and at most three elements with text have that one's form, four times as many or more have its
# parent's form, and it holds at most half of all the text in these.
#
# Where a page repeats a form (cards, posts, rows of a list), what belongs to the form is in most of its elements.
# A long text that is in one or two of them is not a part of it, whatever it is, and it would tip what shares and
# neighbours say of all others.

GENERIC: Final = frozenset({"div", "section", "aside", "article"})
"""Elements that do not say what their text is, as cells of a table, quotes and listings of source code do."""
STRAY_WEIGHT: Final = SOLID_WEIGHT
MOST_STRAYS: Final = 3
"""Elements of one form that outlier blocks may be in."""
LEAST_RATIO: Final = 4
"""So many times as many elements have the form of the parent."""
STRAY_SHARE: Final = 2


def without_strays(page: Outline) -> Outline:
    """The page without its outlier blocks."""
    found = set(outlier_blocks(page))
    if not found:
        return page
    return page._replace(blocks=[block for number, block in enumerate(page.blocks) if number not in found])


def outlier_blocks(page: Outline) -> list[int]:
    """Numbers of the blocks that are outlier blocks, ascending."""
    parents = page.parents
    held = subtree_sums(page, [1] * len(page.blocks))
    candidates = [
        number
        for number, block in enumerate(page.blocks)
        if block.weight >= STRAY_WEIGHT
        and not block.is_heading
        and held[block.owner] == 1
        and page.tags[block.owner][0] in GENERIC
    ]
    if not candidates:
        return []
    forms = forms_of(page)
    counts = Counter(form for form, number in zip(forms, held, strict=True) if number)
    weights: Counter[int] = Counter()
    for form, weight in zip(forms, subtree_sums(page, [block.weight for block in page.blocks]), strict=True):
        weights[form] += weight
    found = []
    for number in candidates:
        block = page.blocks[number]
        own, around = forms[block.owner], forms[parents[block.owner]]
        is_rare = counts[own] <= MOST_STRAYS and counts[own] * LEAST_RATIO <= counts[around]
        if is_rare and block.weight * STRAY_SHARE <= weights[around]:
            found.append(number)
    return found


def forms_of(page: Outline) -> list[int]:
    """The number of each element's form."""
    numbers: dict[tuple[int, str, bool, int], int] = {}
    forms = [0]
    for element in range(1, len(page.parents)):
        name, source = page.tags[element]
        form = (forms[page.parents[element]], name, bool(source), tag_marks(name, source))
        forms.append(numbers.setdefault(form, len(numbers) + 1))
    return forms


# --- Whether a short text is a stamp: a date, a time or a count that stands next to content and changes without it.
#
# The lists are closed, so that another implementation holds them bit for bit; a change changes main texts, and with
# them fingerprints.
#
# A text is cut into runs of ASCII digits and runs of letters: ASCII letters and every character from U+00C0 on but the
# general punctuation (U+2000 to U+206F).  It is a *stamp* where it has a digit and a sign, and at least half of these
# characters are in digits, in words that are signs, or in words that stand next to these.  A sign is
#
# - one of `DATE_WORDS`, or of `COUNT_WORDS`: "ago", or a word of what is counted, such as "replies" (small and capital
#   ASCII letters are the same);
# - a time of day: one or two digits, a colon and two digits; or digits before one of `HOUR_WORDS`, if all is known;
# - a date of numbers: three runs of digits with "/" between, or with "-" or "." where the first or last has four.
#
# So "Brian, October 1, 2025, 12:57pm", "3 days ago", "12 replies" and "9h30" are stamps; "10 hours", "1.2.3", "$ 12.90"
# "(12)" and "Battery lasts for 12 hours from May 3" are none: they may be what tells two pages apart.
#
# What counts, and what says that something was published (`TOLD_WORDS`, or "by" and a name), is left out, preformatted
# text apart.  Any other date or time in an entry of a table or list is text.  Else it is left out if its tag or small
# element is named for its writer or time (`WRITER_NAMES`).  So is one date alone, not next to another one, that is half
# or more in a time element, next to the first heading, within two blocks of a heading that is all link, or next to a
# byline.

_DATE_WORDS = """
jan january feb february mar march apr april may jun june jul july aug august sep sept september oct october nov
november dec december januar februar märz mai juni juli oktober dezember janv janvier févr février mars avr avril
juin juil juillet août septembre octobre novembre déc décembre enero febrero marzo abril mayo junio julio agosto
septiembre octubre noviembre diciembre gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre
janeiro fevereiro março maio junho julho setembro outubro novembro dezembro januari februari maart mei augustus
stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia января февраля
марта апреля мая июня июля августа сентября октября ноября декабря 年 月 日
"""
DATE_WORDS: Final = frozenset(_DATE_WORDS.split())
_COUNT_WORDS = """
ago vor hace fa atrás geleden temu назад 前 天前 日前 小时前 時間前 分钟前 分前 个月前 年前
view views review reviews rating ratings reply replies comment comments like likes vote votes post posts answer
answers share shares follower followers kommentar kommentare antwort antworten aufrufe bewertung bewertungen
commentaire commentaires réponse réponses avis vues comentario comentarios respuesta respuestas vistas commenti
risposte recensioni comentários respostas reacties
"""
COUNT_WORDS: Final = frozenset(_COUNT_WORDS.split())
_TOLD_WORDS = """
posted updated published edited revised modified veröffentlicht aktualisiert publié publicado actualizado pubblicato
aggiornato geplaatst gepubliceerd opublikowano опубликовано
"""
TOLD_WORDS: Final = frozenset(_TOLD_WORDS.split())
_BESIDE_WORDS = """
s sec secs second seconds m min mins minute minutes h hr hrs hour hours d day days w wk week weeks mo month months y yr
yrs year years am pm st nd rd th mon tue tues wed thu thur thurs fri sat sun monday tuesday wednesday thursday friday
saturday sunday utc gmt est edt pst pdt cet cest at on by last joined read
uhr um am sekunden minuten stunde stunden tag tagen woche wochen monat monaten jahr jahren heure heures jour
jours semaine semaines mois ans de hora horas día días dia dias semana semanas mes meses año años ora ore giorno giorni
"""
BESIDE_WORDS: Final = frozenset(_BESIDE_WORDS.split())
HOUR_WORDS: Final = frozenset(["h", "uhr", "am", "pm"])
YEAR_DIGITS: Final = 4

_RUN: Final = re.compile("([0-9]+)|[A-Za-z\u00c0-\u1fff\u2070-\U0010ffff]+")


class Stamp(NamedTuple):
    """What a stamp is.

    Attributes:
        is_counted: it counts, or tells how long ago something was.
        is_told: it says that something was published then, or by whom.
        is_date: it is one date and nothing else.
    """

    is_counted: bool
    is_told: bool
    is_date: bool


_BY: Final = frozenset(["by", "von", "par", "por", "di", "da", "door"])
_NOT_MONTHS: Final = frozenset("年日")
REST_CHARACTERS: Final = 2
"""So many unknown letters a date may have."""


def is_stamp(text: str) -> Stamp | None:
    """What stamp a text is, white space folded, by the rule at the head of this part; None if it is none."""
    runs = list(_RUN.finditer(text))
    known = total = years = months = 0
    has_digit = has_count = has_told = has_date = has_hour = False
    for number, run in enumerate(runs):
        size = run.end() - run.start()
        total += size
        if run[1]:
            has_digit = True
            known += size
            years += size == YEAR_DIGITS
            continue
        word = run[0].translate(_LOWER)
        has_date = has_date or word in DATE_WORDS
        months += word in DATE_WORDS and word not in _NOT_MONTHS
        has_count = has_count or word in COUNT_WORDS
        is_known = word in DATE_WORDS or word in COUNT_WORDS or word in TOLD_WORDS or word in BESIDE_WORDS
        is_name = number == 1 and not is_known and not runs[0][1] and runs[0][0].translate(_LOWER) in _BY
        has_told = has_told or word in TOLD_WORDS or is_name
        known += size * is_known
        has_hour = has_hour or (number > 0 and bool(runs[number - 1][1]) and word in HOUR_WORDS)
    if not has_digit or known * 2 < total:
        return None
    has_time, dates = _times(text, runs)
    if not (has_date or has_count or has_time or dates or (has_hour and known == total)):
        return None
    is_date = months + dates == 1 and years <= 1 and total - known <= REST_CHARACTERS
    return Stamp(has_count, has_told, is_date)


def _times(text: str, runs: list[re.Match[str]]) -> tuple[bool, int]:
    """Whether it has a time of day, and how many dates of numbers."""
    before: tuple[str, int] = ("", 0)
    has_time, dates = False, 0
    for one, other in pairwise(runs):
        if not (one[1] and other[1]):
            before = ("", 0)
            continue
        between = text[one.end() : other.start()]
        first, last = one.end() - one.start(), other.end() - other.start()
        has_time = has_time or (between == ":" and first <= 2 and last == 2)
        is_date = between == "/" or (between in ("-", ".") and YEAR_DIGITS in (before[1], last))
        dates += is_date and between == before[0]
        before = (between, first)
    return has_time, dates


_LOWER: Final = {capital: capital + 32 for capital in range(ord("A"), ord("Z") + 1)}
