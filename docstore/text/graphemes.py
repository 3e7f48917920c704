"""Where text may be cut: never inside what a reader takes for one character.

Knows nothing of the package.  Must not know words, queries or pages.

The boundaries are those of extended grapheme clusters (UAX #29), by the running Python's character tables, with these
simplifications: every mark (Mn, Mc, Me) extends, an emoji joined by U+200D stays whole whatever it is joined to, and a
virama keeps the letter behind it.  All of them cut less often than the standard, never more often.
"""

from __future__ import annotations

from typing import Final
from unicodedata import category, combining

_ZERO_WIDTH_JOINER: Final = "\u200d"
_EXTENDING: Final = frozenset("\u200c\u200d\u0e33\u0eb3\uff9e\uff9f")
"""Joiners, Thai and Lao AM, halfwidth voicing marks: no marks by category, and part of what stands before them."""
_VIRAMA_CLASS: Final = 9
LONGEST_CHARACTER: Final = 256
"""Code points that are looked through for a boundary: then the text is cut all the same, as a megabyte of marks is."""


def is_boundary(text: str, place: int) -> bool:
    """Whether text may be cut before character `place`."""
    if place <= 0 or place >= len(text):
        return True
    after = text[place]
    before = text[place - 1]
    if after < "\u0300":
        return not ((before == "\r" and after == "\n") or before == _ZERO_WIDTH_JOINER)
    if before == _ZERO_WIDTH_JOINER or after in _EXTENDING or category(after)[0] == "M":
        return False
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return False  # skin tones, and the letters of flags of regions
    if _is_flag_letter(after) and _is_flag_letter(before):
        first = place - 1
        while first > 0 and _is_flag_letter(text[first - 1]):
            first -= 1
        return (place - first) % 2 == 0
    if combining(before) == _VIRAMA_CLASS and category(after) == "Lo":
        return False
    return not _jamo_follow(before, after)


def cut_before(text: str, place: int) -> int:
    """The last boundary at or before `place`; LONGEST_CHARACTER before it if there is none so near."""
    least = place - LONGEST_CHARACTER
    while place > least and not is_boundary(text, place):
        place -= 1
    return max(0, min(place, len(text)))


def cut_after(text: str, place: int) -> int:
    """The first boundary at or after `place`; LONGEST_CHARACTER after it if there is none so near."""
    most = place + LONGEST_CHARACTER
    while place < most and not is_boundary(text, place):
        place += 1
    return max(0, min(place, len(text)))


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _jamo_follow(before: str, after: str) -> bool:
    """Whether two parts of a Hangul syllable belong together."""
    if "\u1100" <= before <= "\u115f":
        return "\u1100" <= after <= "\u11a7" or "\uac00" <= after <= "\ud7a3"
    if "\u1160" <= after <= "\u11a7":
        return "\u1160" <= before <= "\u11a7" or ("\uac00" <= before <= "\ud7a3" and (ord(before) - 0xAC00) % 28 == 0)
    if "\u11a8" <= after <= "\u11ff":
        return "\u1160" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3"
    return False
