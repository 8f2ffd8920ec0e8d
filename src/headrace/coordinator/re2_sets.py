"""Sets of characters, as patterns of RE2 name them: ranges, and classes of Unicode.

A set is asked for one character after the other, so that a class such as \\pL, with its hundred thousand letters, never
has to be written down. Two things go by the tables of the Python that runs this: categories, and which letters are the
same but for their case. Scripts go by the names of the characters, since Python has no table of them.
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import lru_cache
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits, hexdigits, punctuation
from typing import Final, NamedTuple, TypeAlias

WORD: Final = frozenset(ascii_letters + digits + "_")
LAST_CHARACTER: Final = 0x10FFFF
_KEPT: Final = 10_000  # characters whose names or cases are remembered

Bounds: TypeAlias = tuple[int, ...]  # the first of a range, the first behind it, the first of the next range, ...


class Part(NamedTuple):
    """Ranges of characters, or a class of Unicode by its name."""

    bounds: Bounds = ()
    name: str = ""
    is_negated: bool = False


class CharacterSet(NamedTuple):
    """What is in one of the parts; or, negated, what is in none."""

    parts: tuple[Part, ...]
    is_negated: bool = False
    folds: bool = False  # a part has a character if it has the same one in another case

    def has(self, character: str) -> bool:
        alike = same_but_case(character) if self.folds else character
        for bounds, name, is_negated in self.parts:
            is_in = any(_is_in_class(each, name) if name else _is_between(each, bounds) for each in alike)
            if is_in is not is_negated:
                return not self.is_negated
        return self.is_negated


def made_of(parts: Iterable[Part], *, is_negated: bool = False, folds: bool = False) -> CharacterSet:
    """All ranges become one part; the others are there once."""
    ranges: list[tuple[int, int]] = []
    others: dict[Part, None] = {}
    for part in parts:
        if part.name or part.is_negated:
            others[part] = None
        else:
            ranges += zip(part.bounds[::2], part.bounds[1::2], strict=True)
    return CharacterSet((Part(_merged(ranges)), *others), is_negated, folds)


def between(first: str, last: str) -> Part:
    """The characters from `first` to `last`."""
    return Part((ord(first), ord(last) + 1))


def _merged(ranges: list[tuple[int, int]]) -> Bounds:
    bounds: list[int] = []
    for start, end in sorted(ranges):
        if bounds and start <= bounds[-1]:
            bounds[-1] = max(bounds[-1], end)
        else:
            bounds += (start, end)
    return tuple(bounds)


def _of(characters: Iterable[str]) -> Part:
    return Part(_merged([(ord(character), ord(character) + 1) for character in characters]))


def _is_between(character: str, bounds: Bounds) -> bool:
    return bisect_right(bounds, ord(character)) % 2 == 1


def _is_in_class(character: str, name: str) -> bool:
    if name == "Any":
        return True
    if len(name) <= 2:
        return unicodedata.category(character).startswith(name)
    return _script(character) == name.upper()


@lru_cache(_KEPT)
def _script(character: str) -> str:
    """By the first word of its name, or what is there of all scripts."""
    name = unicodedata.name(character, "").replace("CJK UNIFIED", "HAN")
    for script in _SCRIPTS:
        if name.startswith(script.replace("_", " ").upper() + " "):
            return script.upper()
    if character in _LATIN_BY_ANOTHER_NAME:
        return "LATIN"
    if name.startswith("COMBINING "):
        return "INHERITED"
    return "COMMON" if name or unicodedata.category(character) == "Cc" else "UNKNOWN"


# Letters with two cases


@lru_cache(_KEPT)
def same_but_case(character: str) -> str:
    """The character, and those which differ from it by their case only."""
    return character if character in _ALONE else _alike().get(_folded(character), character)


def _folded(character: str) -> str:
    """The same for all characters that are alike; itself if there is no single one in the other case."""
    upper = character.upper()
    lower = (upper if len(upper) == 1 else character).lower()
    return lower if len(lower) == 1 else character


@lru_cache(1)
def _alike() -> Mapping[str, str]:
    """By what they are folded to: the characters that are alike, where there are several."""
    found: dict[str, str] = {}
    for first, last in _CASED:
        for code in range(first, last + 1):
            character = chr(code)
            if character not in _ALONE:
                folded = _folded(character)
                found[folded] = found.get(folded, "") + character
    return {folded: characters for folded, characters in found.items() if len(characters) > 1}


# Where Unicode has letters with two cases.
_CASED: Final = (
    (0x41, 0x587),
    (0x10A0, 0x10FF),
    (0x13A0, 0x13FF),
    (0x1C80, 0x1CBF),
    (0x1D79, 0x1D8E),
    (0x1E00, 0x1FFF),
    (0x2126, 0x2188),
    (0x24B6, 0x24E9),
    (0x2C00, 0x2D2D),
    (0xA640, 0xA7FF),
    (0xAB53, 0xABBF),
    (0xFF21, 0xFF5A),
    (0x10400, 0x104FF),
    (0x10570, 0x105BC),
    (0x10C80, 0x10CF2),
    (0x118A0, 0x118DF),
    (0x16E40, 0x16E7F),
    (0x1E900, 0x1E943),
)
_ALONE: Final = frozenset("\u0130\u0131")  # i with a dot or without: alike in Turkish only

# Classes by their names

_CATEGORIES: Final = (
    "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
)
_SCRIPT_NAMES: Final = """
    Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal
    Carian Cham Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Egyptian_Hieroglyphs Ethiopic
    Georgian Glagolitic Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited
    Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Latin
    Lepcha Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham
    Ol_Chiki Old_Italic Old_Persian Old_South_Arabian Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic
    Samaritan Saurashtra Shavian Sinhala Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil
    Telugu Thaana Thai Tibetan Tifinagh Ugaritic Unknown Vai Yi
"""
_SCRIPTS: Final = _SCRIPT_NAMES.split()

_LATIN_BY_ANOTHER_NAME: Final = frozenset("ªº\u212a\u212b")
UNICODE_CLASSES: Final = frozenset((*_CATEGORIES.split(), *_SCRIPTS, "Any"))  # the names that RE2/J 1.8 knows
PERL_CLASSES: Final = {"d": _of(digits), "s": _of("\t\n\f\r "), "w": _of(WORD)}
POSIX_CLASSES: Final = {
    "alnum": _of(ascii_letters + digits),
    "alpha": _of(ascii_letters),
    "ascii": between("\0", "\x7f"),
    "blank": _of("\t "),
    "cntrl": _of([*map(chr, range(0x20)), "\x7f"]),
    "digit": _of(digits),
    "graph": between("!", "~"),
    "lower": _of(ascii_lowercase),
    "print": between(" ", "~"),
    "punct": _of(punctuation),
    "space": _of("\t\n\v\f\r "),
    "upper": _of(ascii_uppercase),
    "word": _of(WORD),
    "xdigit": _of(hexdigits),
}
ANY: Final = made_of([Part((0, LAST_CHARACTER + 1))])
NO_LINE_BREAK: Final = made_of([_of("\n")], is_negated=True)
