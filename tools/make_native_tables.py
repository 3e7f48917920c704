"""Write the tables of the native kernel, `native/core/data/*.in`, from the lists of `native/core/data/*.txt`.

Run it with a Python whose `unicodedata` is 14.0.0 (CPython 3.11), as `make_unicode_tables.py`.  `--check` says whether
the files in the tree are what this writes.

Every code point gets one entry: the class that cuts words, and what case folding and normalisation do to it.  The point
of the *action* is to spare nearly all characters the five passes of NFKC_Casefold.  A code point is *safe* when, at
every stage, its image begins with a starter that composes with nothing before it: then the image of a run of safe code
points is the run of their images.  A *reorder* mark is its own image and composes with nothing; behind an *inert* base,
whose every stage is one character, it stays where it is as long as combining classes do not fall.  All else is *slow*.
"""

from __future__ import annotations

import sys
import unicodedata
from html.entities import html5

from tools.kernel_tables import FOLDER, bits, lines, lists, marks, read, scores, words

UNICODE = read("unicode.txt")
MARK_SCORES = marks()
MARKS = tuple(MARK_SCORES)
_CARD = read("scorecard.txt")
SCORES = {f"in {mark}": score for mark, score in MARK_SCORES.items()}
SCORES |= scores(_CARD, "shapes", "alike", "neighbours", "others")
NEIGHBOURS = (-2, -1, 1, 2)
SHARES = 4
FIFTHS = 5
HEAD = "// {what}\n//\n// Made by `tools/make_native_tables.py`; never edited by hand.\n\n"

BREAK, WORD, UNSPACED, MARK = range(4)
KEEP, DROP, SLOW, CHARACTER, STRING, REORDER, APOSTROPHE = range(7)
INERT = 1 << 5
TATWEEL = 0x640
"""It stretches a line of Arabic script and is no letter of a word."""
LETTER_APOSTROPHE = 0x2BC
"""Between letters it cuts, as the apostrophe of ASCII does."""
BLOCK = 128
"""Code points in a block of the two-stage table."""

COMMON_NAMES = """
html head body title meta link base script style div p section article aside nav header footer main h1 h2 h3 h4 h5 h6
ul ol li dl dt dd table thead tbody tfoot tr td th caption colgroup col form fieldset legend label input button select
option optgroup textarea img br hr area map pre listing blockquote figure figcaption address hgroup center svg path g
rect circle use math object embed param source track video audio canvas picture iframe frame frameset details summary
dialog menu template noscript search slot keygen bgsound xmp plaintext noembed noframes
"""


def _ranges(table: str) -> set[int]:
    members: set[int] = set()
    for item in table.split():
        first, _, last = item.partition("-")
        members.update(range(int(first, 16), int(last or first, 16) + 1))
    return members


def _seconds() -> set[int]:
    """Characters that compose with one before them."""
    found = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}
    for code_point in range(sys.maxunicode + 1):
        parts = unicodedata.decomposition(chr(code_point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            pair = "".join(chr(int(part, 16)) for part in parts)
            if unicodedata.normalize("NFC", pair) == chr(code_point):
                found.add(int(parts[1], 16))
    return found


def _stages(character: str) -> list[str]:
    """The images of a character at every stage of NFKC_Casefold; the last one is the result."""
    normalize = unicodedata.normalize
    first = normalize("NFD", character)
    second = first.casefold()
    third = normalize("NFKC", second)
    fourth = third.casefold()
    return [
        first,
        second,
        normalize("NFKD", second),
        third,
        fourth,
        normalize("NFKD", fourth),
        normalize("NFKC", fourth),
    ]


class Entries:
    """One number for each code point, and the strings that some of them point to."""

    def __init__(self) -> None:
        self.word = _ranges(UNICODE["word"])
        self.unspaced = _ranges(UNICODE["unspaced"])
        self.mark = _ranges(UNICODE["mark"])
        self.ignorable = _ranges(UNICODE["ignorable"])
        self.unassigned = _ranges(UNICODE["unassigned"])
        self.seconds = _seconds()
        self.strings = bytearray()
        self.string_places: dict[bytes, int] = {}
        self.numbers = [self._entry(code_point) for code_point in range(sys.maxunicode + 1)]

    def _entry(self, code_point: int) -> int:
        if code_point in self.ignorable or code_point == TATWEEL:
            return DROP << 2
        if code_point == LETTER_APOSTROPHE:
            return WORD | APOSTROPHE << 2 | INERT
        if 0xD800 <= code_point <= 0xDFFF or code_point in self.unassigned:
            return BREAK | KEEP << 2 | INERT
        kind = BREAK
        if code_point in self.mark:
            kind = MARK
        elif code_point in self.unspaced:
            kind = UNSPACED
        elif code_point in self.word:
            kind = WORD
        character = chr(code_point)
        stages = _stages(character)
        inert = INERT if all(len(stage) == 1 for stage in stages) else 0
        if all(stage and not unicodedata.combining(stage[0]) and ord(stage[0]) not in self.seconds for stage in stages):
            folded = stages[-1]
            if folded == character:
                return kind | KEEP << 2 | inert
            if len(folded) == 1:
                return kind | CHARACTER << 2 | inert | ord(folded) << 8
            return kind | STRING << 2 | self._string(folded.encode()) << 8
        combining = unicodedata.combining(character)
        if combining and code_point not in self.seconds and all(stage == character for stage in stages):
            return kind | REORDER << 2 | combining << 8
        return kind | SLOW << 2

    def _string(self, folded: bytes) -> int:
        place = self.string_places.get(folded)
        if place is None:
            place = self.string_places[folded] = len(self.strings)
            self.strings += folded
        assert place < 1 << 16
        assert len(folded) < 1 << 8
        return place << 8 | len(folded)


def _numbers(values: list[int], width: int = 118) -> str:
    lines, line = [], "   "
    for value in values:
        item = f" {value},"
        if len(line) + len(item) > width:
            lines.append(line)
            line = "   "
        line += item
    return "\n".join([*lines, line])


def unicode_module() -> str:
    """Entries of all code points, and full case folding."""
    entries = Entries()
    blocks: dict[tuple[int, ...], int] = {}
    index = []
    for start in range(0, sys.maxunicode + 1, BLOCK):
        block = tuple(entries.numbers[start : start + BLOCK])
        index.append(blocks.setdefault(block, len(blocks)))
    flat = [number for block in blocks for number in block]
    folded = [
        (code_point, [ord(part) for part in chr(code_point).casefold()])
        for code_point in range(sys.maxunicode + 1)
        if chr(code_point).casefold() != chr(code_point)
    ]
    rows = "\n".join(
        f"    ({code_point:#x}, [{', '.join(f'{part:#x}' for part in (*parts, 0, 0)[:3])}]),"
        for code_point, parts in folded
    )
    unassigned = "\n".join(
        f"    ({int(first, 16):#x}, {int(last or first, 16):#x}),"
        for first, _, last in (item.partition("-") for item in UNICODE["unassigned"].split())
    )
    return (
        HEAD.format(what=f"What folding does to each code point, and how it cuts words: Unicode {VERSION}.")
        + f"pub const BLOCK: usize = {BLOCK};\n\n"
        + f"pub static INDEX: [u8; {len(index)}] = [\n{_numbers(index)}\n];\n\n"
        + f"pub static ENTRIES: [u32; {len(flat)}] = [\n{_numbers(flat)}\n];\n\n"
        + f"pub static STRINGS: [u8; {len(entries.strings)}] = [\n{_numbers(list(entries.strings))}\n];\n\n"
        + "/// Code point -> its full case folding, padded with zeros; ascending.\n"
        + f"pub static CASE_FOLDING: [(u32, [u32; 3]); {len(folded)}] = [\n{rows}\n];\n\n"
        + "/// Ranges of code points that this version does not assign; ascending.\n"
        + f"pub static UNASSIGNED: [(u32, u32); {len(UNICODE['unassigned'].split())}] = [\n{unassigned}\n];\n"
    )


def references_module() -> str:
    """Named character references."""

    def escaped(characters: str) -> str:
        return "".join(f"\\u{{{ord(part):x}}}" for part in characters)

    rows = "\n".join(f'    ("{name}", "{escaped(text)}"),' for name, text in sorted(html5.items()))
    return (
        HEAD.format(what="Names of character references, with their semicolon where they have one, and what they mean.")
        + f"pub static NAMED: [(&str, &str); {len(html5)}] = [\n{rows}\n];\n"
    )


IMPLIED, CLOSES, TAGS = lists("implied"), lists("closes"), bits("tags")
FLAGS = {
    "INLINE": words("inline"),
    "HIDDEN": words("hidden"),
    "PREFORMATTED": words("preformatted"),
    "VISIBLE_RAW": words("visible raw"),
    "REFERENCES_RAW": words("references raw"),
    "RAW": words("raw"),
    "HEADING": words("headings"),
    "DECLARING": ["html", "title", "meta", "link"],
    "LINKING": ["a", "area"],
    "LEFT_OUT": words("left out"),
    "RUBY": words("ruby"),
    "CHILDLESS": words("childless"),
    "HEAD": words("heads"),
    "BUTTON": ["button"],
    "SIGNED": ["a", "span"],
    "ENDING": list(IMPLIED),
}
INLINE_TAG, SPACE, LINK, LINK_END, LEAF, NO_ELEMENT = range(1, 7)
KINDS = {
    **dict.fromkeys(["", *words("inline"), *(f"/{name}" for name in words("inline"))], INLINE_TAG),
    **dict.fromkeys(["br", "/br", "img", "/img"], SPACE),
    "a": LINK,
    "/a": LINK_END,
    **dict.fromkeys(words("leaves"), LEAF),
    **dict.fromkeys([*(f"/{name}" for name in words("leaves")), *words("void"), *words("raw blocks")], NO_ELEMENT),
}
"""What a tag is, as `outline.rs` numbers it."""


def array(title: str, kind: str, items: list[str]) -> str:
    """A static array, an item on each line."""
    body = "\n".join(f"    {item}," for item in items)
    return f"\npub static {title}: [{kind}; {len(items)}] = [\n{body}\n];\n"


def known_names() -> list[str]:
    """Tag names that have a number, in the order of their numbers."""
    known = set(COMMON_NAMES.split()).union(*FLAGS.values())
    known |= {name.removeprefix("/") for name in KINDS if name}
    known |= {*CLOSES, *TAGS, *IMPLIED}
    names = sorted(known)
    if len(names) > 250:
        raise SystemExit("a name's number is a byte, and 255 is the unknown one")
    return names


def names_module() -> str:
    """Known tag names with their properties, and the words that say what a tag holds."""
    names = known_names()

    def constant(name: str) -> str:
        return name.upper().replace("-", "_")

    parts = [
        HEAD.format(what="Tag names that the kernel knows by number, with what the rules say of each."),
        *(f"pub const {flag}: u16 = 1 << {bit};\n" for bit, flag in enumerate(FLAGS)),
        "\n",
        *(f"pub const NAME_{constant(name)}: u32 = {number};\n" for number, name in enumerate(names)),
        f"\npub const KNOWN: usize = {len(names)};\n",
    ]

    def closing(title: str, closes: dict[str, list[str]]) -> str:
        """A table of start tags and the elements on top that they close."""
        rows = [
            f"(NAME_{constant(name)}, &[{', '.join(f'NAME_{constant(each)}' for each in sorted(closed))}])"
            for name, closed in sorted(closes.items())
        ]
        return array(title, "(u32, &[u32])", rows)

    flags = [" | ".join(flag for flag, members in FLAGS.items() if name in members) or "0" for name in names]
    parts += [
        array("NAMES", "&str", [f'"{name}"' for name in names]),
        array("PROPERTIES", "u16", flags),
        "\n/// What a start tag and an end tag are in an outline.",
        array(
            "KINDS",
            "(u8, u8)",
            [f"({KINDS.get(name, 0)}, {KINDS.get('/' + name, 0)})" for name in names],
        ),
        "\n/// What the tag's name itself says of its content.",
        array("TAG_EVIDENCE", "u8", [str(TAGS.get(name, 0)) for name in names]),
        "\n/// A start tag and the elements on top that it closes.",
        closing("CLOSES", CLOSES),
        closing("IMPLIED", IMPLIED),
        array("ROLES", "(&str, u8)", [f'("{role}", {bits})' for role, bits in sorted(bits("roles").items())]),
        array("HINT_WORDS", "&str", [f'"{word}"' for word in sorted(words("hint words"))]),
        array("ADVERT_WORDS", "&str", [f'"{word}"' for word in sorted(words("advert words"))]),
        array("ADVERT_NAMES", "&str", [f'"{name}"' for name in sorted(words("advert names"))]),
        array("NEGATIONS", "&str", [f'"{word}"' for word in sorted(words("negations"))]),
    ]
    return "".join(parts)


FATES = ("left", "taken")
FORMS = ("block", "heading")


def scorecard_module() -> str:
    """The scorecard as arrays: sums of the signs that always come together."""
    sizes, links = range(len(words("sizes")) + 1), range(5)
    amounts, likes = range(len(words("taken weights")) + 1), range(len(words("likes")) + 1)
    numbers = {mark: number for number, mark in enumerate(MARKS, 1)}
    none = "u16::MAX"

    def total(*signs: str) -> str:
        return str(sum(SCORES.get(sign, 0) for sign in signs))

    def prefixed(prefix: str) -> list[str]:
        found = sorted(mark for mark in MARKS if mark.startswith(prefix))
        return [f'("{mark.removeprefix(prefix)}", {numbers[mark]})' for mark in found]

    word_marks = sorted(mark for mark in MARKS if mark.isalpha())
    shapes = [(form, size, link) for form in FORMS for size in sizes for link in links]
    steps = [f"{step:+d}" for step in NEIGHBOURS]
    parts = [
        HEAD.format(what="What each sign is worth that `scored` reads from a page."),
        f"pub const MARK_COUNT: usize = {len(MARKS) + 1};\n",
        f"pub const MARK_HIDDEN: u16 = {numbers['hidden']};\n",
        f"pub const MARK_ARIA_HIDDEN: u16 = {numbers.get('aria-hidden', none)};\n",
        "pub const MARK_NEVER: u16 = 0;\n",
        f"pub const ANY: i32 = {SCORES['any']};\n",
        array("MARK_NAMES", "&str", ['""', *(f'"{mark}"' for mark in MARKS)]),
        array("MARK_SCORES", "i16", ["0", *(str(score) for score in MARK_SCORES.values())]),
        array("WORD_MARKS", "(&str, u16)", [f'("{word}", {numbers[word]})' for word in word_marks]),
        array("ROLE_MARKS", "(&str, u16)", prefixed("role=")),
        array("CONSENT_MANAGERS", "&str", [f'"{word}"' for word in sorted(words("consent managers"))]),
        array("CONSENT_NAMES", "&str", [f'"{word}"' for word in sorted(words("consent names"))]),
        array("NEVER_NAMES", "&str", [f'"{name}"' for name in sorted(words("never"))]),
        array("NOTICES", "&str", [f'"{word}"' for word in sorted(words("notices"))]),
        array("ITEM_MARKS", "(&str, u16)", prefixed("itemprop=")),
        array("TAG_MARKS", "u16", [str(numbers.get(f"<{name}>", none)) for name in known_names()]),
        "\n/// By fate, form, size and links.",
        array("SHAPE", "i16", [total(f"{a} {b}{c}", f"{f} {a} {b}{c}") for f in FATES for a, b, c in shapes]),
        "\n/// By fate and amount.",
        array("AMOUNT", "i16", [total(f"{f} of amount {a}") for f in FATES for a in amounts]),
        "\n/// By fate and share.",
        array("SHARE", "i16", [total(f"{f} of share {s}") for f in FATES for s in range(SHARES)]),
        "\n/// Of a block that is left: before, among, behind those that are taken.",
        array("PLACE", "i16", [total(f"{place} taken") for place in ("before", "among", "behind")]),
        "\n/// By fate and fifth of the text.",
        array("FIFTH", "i16", [total(f"fifth {n}", f"fifth {n} {f}") for f in FATES for n in range(FIFTHS)]),
        "\n/// By whether a heading stands before the block.",
        array("HEADING_BEFORE", "i16", [total("before any heading"), total("behind a heading")]),
        "\n/// Of a text that stands once; of the first of those that do not; of the others.",
        array("REPEATED", "i16", ["0", total("is repeated"), total("repeats")]),
        "\n/// By form, of a text that stands in the title.",
        array("TITLE", "i16", [total(f"title {form}") for form in FORMS]),
        "\n/// By number of like blocks, fate, links and amount.",
        array(
            "LIKE",
            "i16",
            [
                total(f"like {n}", f"like {n} {f}", f"like {n} links {k}", f"like {n} of amount {a} {f}")
                for n in likes
                for f in FATES
                for k in links
                for a in amounts
            ],
        ),
        "\n/// By fate.",
        array("SENTENCE", "i16", [total("sentence", f"sentence {f}") for f in FATES]),
        "\n/// Currency, consent, copyright.",
        array("WORDS", "i16", [total(name) for name in ("currency", "consent", "copyright")]),
        "\n/// By neighbour, its form, size and links.",
        array("NEIGHBOUR", "i16", [total(f"{s} {a} {b}{c}") for s in steps for a, b, c in shapes]),
        "\n/// By neighbour, its fate and the block's.",
        array("NEIGHBOUR_FATE", "i16", [total(f"{s} {g} by {f}") for s in steps for g in FATES for f in FATES]),
        "\n/// By neighbour, where it is of the same element.",
        array("SAME_ELEMENT", "i16", [total(f"{s} same element") for s in steps]),
        "\n/// By neighbour, where there is none.",
        array("NOTHING", "i16", [total(f"{s} nothing") for s in steps]),
        array("SIZES", "u64", words("sizes")),
        array("LIKES", "u64", words("likes")),
        array("TAKEN_WEIGHTS", "u64", words("taken weights")),
        array("SENTENCE_ENDS", "char", [f"'{end}'" for end in lines("sentence ends")]),
        array("CURRENCIES", "&str", [f'"{sign}"' for sign in lines("currencies")]),
        array("CONSENT", "&str", [f'"{sign}"' for sign in lines("consent")]),
        array("COPYRIGHT", "&str", [f'"{sign}"' for sign in lines("copyright")]),
    ]
    return "".join(parts)


def stamps_module() -> str:
    """The words of dates, times and counts."""
    head = HEAD.format(what="Words of dates, times and counts; ascending.")
    kinds = ("DATE_WORDS", "COUNT_WORDS", "TOLD_WORDS", "BESIDE_WORDS")
    listed = [(kind, sorted(words(kind.lower().replace("_", " ")))) for kind in kinds]
    return head + "".join(array(name, "&str", [f'"{word}"' for word in its]) for name, its in listed)


VERSION = UNICODE["version"]


def main() -> int:
    if unicodedata.unidata_version != VERSION:
        print(f"needs Unicode {VERSION}; this Python has {unicodedata.unidata_version}: use CPython 3.11")
        return 2
    modules = {
        "unicode.in": unicode_module(),
        "references.in": references_module(),
        "names.in": names_module(),
        "scorecard.in": scorecard_module(),
        "stamps.in": stamps_module(),
    }
    stale = 0
    for name, text in modules.items():
        path = FOLDER / name
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path.name} is not what the tool writes: run it without --check")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
