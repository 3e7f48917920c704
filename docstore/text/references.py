"""Character references: `&amp;`, `&#228;`, `&#xE4;` -> characters, in text and in attribute values.

Knows nothing of the package.  Must not know what a tag is.  Pure functions, linear time, no exception.

The rule (results equal the standard library's `html.unescape`, which follows the WHATWG rules for text):

1. A reference is ``&#[xX]hex+;?``, ``&#digits+;?`` or ``&`` and a run of ASCII letters and digits, then maybe ``;``.
2. Numeric: 0, surrogates and numbers above 0x10FFFF give U+FFFD; 0x80-0x9F give the windows-1252 character where there
   is one, else the C1 control; 0x0D gives itself; the other C0 controls except tab, line feed and form feed, 0x0B,
   0x7F, and noncharacters give nothing.  Digits after the eighth significant one cannot make a number smaller, so
   the number of digits does not matter for the time.
3. Named, in text: the longest prefix of the run (with its ``;`` if there) that the table of named references has;
   what is left of the run stays text.  No such prefix: the reference stays text.
4. Named, in an attribute value: as in text, but a name matched without ``;`` that is followed by ``=`` or an ASCII
   letter or digit stays text.
"""

from __future__ import annotations

import re
from html.entities import html5

_NAMED = dict(html5)
"""Names with ``;`` and, for the old ones, also without.  The WHATWG table is closed: no name is ever added."""

_LONGEST_NAME = max(map(len, _NAMED))

_REFERENCE = re.compile(r"&(?:#[xX]([0-9a-fA-F]++);?+|#([0-9]++);?+|([A-Za-z][A-Za-z0-9]*+;?+))")

_WINDOWS_1252 = dict(
    zip(
        (*range(0x80, 0x81), *range(0x82, 0x8D), 0x8E, *range(0x91, 0x9D), 0x9E, 0x9F),
        "€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ",
        strict=True,
    )
)


def _numeric(number: int) -> str:
    if number in _WINDOWS_1252:
        return _WINDOWS_1252[number]
    if number == 0 or 0xD800 <= number <= 0xDFFF or number > 0x10FFFF:
        return "\ufffd"
    control = number < 0x20 and number not in {0x09, 0x0A, 0x0C, 0x0D}
    if control or (0x7F <= number <= 0x9F and number not in {0x81, 0x8D, 0x8F, 0x90, 0x9D}):
        return ""
    if 0xFDD0 <= number <= 0xFDEF or number & 0xFFFE == 0xFFFE:
        return ""
    return chr(number)


def _named(run: str) -> tuple[str, int]:
    """Characters of the longest prefix of `run` that is a name, and that prefix's length; 0 where there is none."""
    for length in range(min(len(run), _LONGEST_NAME), 1, -1):
        characters = _NAMED.get(run[:length])
        if characters is not None:
            return characters, length
    return "", 0


def _in_text(match: re.Match[str]) -> str:
    if match[3] is None:
        return _from_digits(match)
    run = match[3]
    characters, length = _named(run)
    return characters + run[length:] if length else match[0]


def _in_attribute(match: re.Match[str]) -> str:
    if match[3] is None:
        return _from_digits(match)
    run = match[3]
    characters, length = _named(run)
    if not length:
        return match[0]
    if run[length - 1] != ";" and (length < len(run) or match.string[match.end() : match.end() + 1] == "="):
        return match[0]
    return characters + run[length:]


def _from_digits(match: re.Match[str]) -> str:
    if match[1] is not None:
        return _numeric(int(match[1].lstrip("0")[:_DIGITS_THAT_MATTER] or "0", 16))
    return _numeric(int(match[2].lstrip("0")[:_DIGITS_THAT_MATTER] or "0"))


_DIGITS_THAT_MATTER = 8
"""Eight digits without leading zeros, decimal or hexadecimal, are above 0x10FFFF already."""


class _Decoded(dict[str, str]):
    """Reference as it stands in text -> its characters, remembered up to a bound: few are used again and again."""

    bound = 4096

    def __missing__(self, reference: str) -> str:
        match = _REFERENCE.fullmatch(reference)
        characters = reference if match is None else _in_text(match)
        if len(self) < self.bound and len(reference) <= _LONGEST_NAME + 1:
            self[reference] = characters
        return characters


_DECODED = _Decoded()


def _in_text_remembered(match: re.Match[str]) -> str:
    return _DECODED[match[0]]


def decode_text(source: str) -> str:
    """Text with its character references replaced, by the rule for text."""
    return _REFERENCE.sub(_in_text_remembered, source) if "&" in source else source


def decode_attribute(source: str) -> str:
    """Attribute value with its character references replaced, by the rule for attribute values."""
    return _REFERENCE.sub(_in_attribute, source) if "&" in source else source
