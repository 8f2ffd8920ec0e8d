"""Sets of characters, as patterns of RE2 name them.

Topic names consist of 65 characters (letters, digits, dot, underscore, hyphen), so a set is a number of 65 bits, and a
character that no name has is the empty set.
"""

import unicodedata
from collections.abc import Iterable, Mapping
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits, hexdigits, punctuation
from typing import Final

SYMBOLS: Final = "-." + digits + ascii_uppercase + "_" + ascii_lowercase
BIT_OF: Final[Mapping[str, int]] = {symbol: 1 << place for place, symbol in enumerate(SYMBOLS)}
ALL_SYMBOLS: Final = (1 << len(SYMBOLS)) - 1
WORD: Final = frozenset(ascii_letters + digits + "_")

_FOLDED_TO_ASCII: Final = (("\u017f", "sS"), ("\u212a", "kK"))  # the long s, and the sign of kelvin
_CATEGORIES: Final = (
    "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
)
_SCRIPTS: Final = """
    Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal
    Carian Cham Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Egyptian_Hieroglyphs Ethiopic
    Georgian Glagolitic Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited
    Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Latin
    Lepcha Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham
    Ol_Chiki Old_Italic Old_Persian Old_South_Arabian Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic
    Samaritan Saurashtra Shavian Sinhala Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil
    Telugu Thaana Thai Tibetan Tifinagh Ugaritic Unknown Vai Yi
"""


def bits(characters: Iterable[str]) -> int:
    """The set of these characters."""
    symbols = 0
    for character in characters:
        symbols |= BIT_OF.get(character, 0)
    return symbols


def fold(symbols: int) -> int:
    """With the other case of each letter."""
    for symbol, bit in BIT_OF.items():
        if symbols & bit:
            symbols |= BIT_OF[symbol.swapcase()]
    return symbols


def bits_between(first: str, last: str, *, folds: bool) -> int:
    """The characters from `first` to `last`, in both cases if it `folds`."""
    symbols = bits(symbol for symbol in SYMBOLS if first <= symbol <= last)
    if not folds:
        return symbols
    # Two letters outside ASCII are the lower or upper case of one inside.
    extra = "".join(letters for sign, letters in _FOLDED_TO_ASCII if first <= sign <= last)
    return fold(symbols | bits(extra))


def _unicode_classes() -> dict[str, int]:
    classes = dict.fromkeys((*_CATEGORIES.split(), *_SCRIPTS.split()), 0)
    for symbol, bit in BIT_OF.items():
        category = unicodedata.category(symbol)
        for name in (category, category[0], "Latin" if symbol.isalpha() else "Common"):
            classes[name] |= bit
    return {**classes, "Any": ALL_SYMBOLS}


PERL_CLASSES: Final = {"d": bits(digits), "s": 0, "w": bits(WORD)}
POSIX_CLASSES: Final = {
    "alnum": bits(ascii_letters + digits),
    "alpha": bits(ascii_letters),
    "ascii": ALL_SYMBOLS,
    "blank": 0,
    "cntrl": 0,
    "digit": bits(digits),
    "graph": ALL_SYMBOLS,
    "lower": bits(ascii_lowercase),
    "print": ALL_SYMBOLS,
    "punct": bits(punctuation),
    "space": 0,
    "upper": bits(ascii_uppercase),
    "word": bits(WORD),
    "xdigit": bits(hexdigits),
}
UNICODE_CLASSES: Final[Mapping[str, int]] = _unicode_classes()  # the names that RE2/J 1.8 knows
