"""The syntax of RE2, which patterns of names are written in: what is refused, and what the rest means.

A pattern becomes a tree. What only concerns how much of a text is matched, or which group matched what, makes no
difference to whether a whole name matches: captures and laziness are read and forgotten.
"""

from collections.abc import Mapping
from typing import Final

from headrace.coordinator.re2_sets import (
    ANY,
    LAST_CHARACTER,
    NO_LINE_BREAK,
    PERL_CLASSES,
    POSIX_CLASSES,
    UNICODE_CLASSES,
    WORD,
    CharacterSet,
    Part,
    between,
    made_of,
)
from headrace.coordinator.re2_tree import (
    MAX_LENGTH,
    Kind,
    Node,
    PatternError,
    Place,
    assertion,
    characters,
    joined,
    repeated,
)

MAX_REPEAT: Final = 1_000  # RE2's own limit for {n,m}


def parse(pattern: str) -> Node:
    """Raises PatternError."""
    if len(pattern) > MAX_LENGTH:
        raise PatternError(f"it has more than {MAX_LENGTH} characters")
    return _Parser(pattern).parse()


class _Level:
    """An open parenthesis: the alternatives so far, the sequence being read, and the flags to go back to."""

    __slots__ = ("choices", "flags_before", "items")

    def __init__(self, flags_before: frozenset[str]) -> None:
        self.choices: list[Node] = []
        self.items: list[Node] = []
        self.flags_before = flags_before

    def close_choice(self) -> None:
        self.choices.append(joined(Kind.SEQUENCE, self.items))
        self.items = []

    def close(self) -> Node:
        self.close_choice()
        return joined(Kind.CHOICE, self.choices)


class _Parser:
    """Reads a pattern from left to right, without recursion."""

    __slots__ = ("_flags", "_group_names", "_levels", "_pattern", "_position")

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._flags: frozenset[str] = frozenset()  # of (?ims): letters stand for both cases, ^ and $, the dot
        self._levels = [_Level(self._flags)]
        self._group_names: set[str] = set()

    def parse(self) -> Node:
        after_repeat = False
        while self._position < len(self._pattern):
            is_brace = self._peek() == "{"
            is_repeat = self._read_repeat(after_repeat)
            if not is_repeat:
                self._read_one()
            after_repeat = is_repeat or is_brace  # RE2/J takes a brace for a repetition here, even if it is none
        if len(self._levels) > 1:
            raise PatternError("a parenthesis is not closed")
        return self._levels[0].close()

    # One item

    def _read_one(self) -> None:
        character = self._take()
        if character == "(":
            self._open()
        elif character == ")":
            self._close()
        elif character == "|":
            self._levels[-1].close_choice()
        elif character == "[":
            self._add(characters(self._read_bracket()))
        elif character == ".":
            self._add(characters(ANY if "s" in self._flags else NO_LINE_BREAK))
        elif character == "^":
            self._add(assertion(Place.LINE_START if "m" in self._flags else Place.START))
        elif character == "$":
            self._add(assertion(Place.LINE_END if "m" in self._flags else Place.END))
        elif character == "\\":
            self._read_backslash()
        else:
            self._add_literal(character)

    def _read_backslash(self) -> None:
        following = self._peek()
        if following in _ASSERTIONS:
            self._take()
            self._add(assertion(_ASSERTIONS[following]))
        elif following == "Q":
            self._take()
            end = self._pattern.find("\\E", self._position)
            quoted = self._pattern[self._position :] if end < 0 else self._pattern[self._position : end]
            self._position += len(quoted) if end < 0 else len(quoted) + 2
            for character in quoted:
                self._add_literal(character)
        elif (named := self._read_class_escape()) is not None:
            self._add(characters(self._set([named])))
        else:
            self._add_literal(self._read_escape())

    def _add(self, node: Node) -> None:
        self._levels[-1].items.append(node)

    def _add_literal(self, character: str) -> None:
        self._add(characters(self._set([between(character, character)])))

    def _set(self, parts: list[Part], *, is_negated: bool = False) -> CharacterSet:
        return made_of(parts, is_negated=is_negated, folds="i" in self._flags)

    # Repetition

    def _read_repeat(self, after_repeat: bool) -> bool:
        """Read a repetition if one stands here."""
        character = self._peek()
        if character in _REPEATS:
            self._take()
            least, most = _REPEATS[character]
        elif character == "{" and (bounds := self._read_bounds()) is not None:
            least, most = bounds
        else:
            return False
        if self._peek() == "?":
            self._take()  # lazy: it matters for what is found, not for whether
        if after_repeat:
            raise PatternError("a repetition is repeated")
        items = self._levels[-1].items
        if not items:
            raise PatternError("there is nothing to repeat")
        items[-1] = repeated(items[-1], least, most)
        return True

    def _read_bounds(self) -> tuple[int, int | None] | None:
        """{n}, {n,} or {n,m}; anything else is a brace like any other character."""
        start = self._position
        self._take()
        least = most = self._read_number()
        is_valid = least is not None
        if is_valid and self._peek() == ",":
            self._take()
            most = None
            if self._peek() != "}":
                most = self._read_number()
                is_valid = most is not None
        if least is None or not is_valid or self._peek() != "}":
            self._position = start
            return None
        self._take()
        if least > MAX_REPEAT or (most is not None and not least <= most <= MAX_REPEAT):
            raise PatternError(f"a repetition count is above {MAX_REPEAT}, or the bounds are swapped")
        return least, most

    def _read_number(self) -> int | None:
        start = self._position
        while self._peek() in _DIGITS:
            self._take()
        text = self._pattern[start : self._position]
        if not text or (len(text) > 1 and text[0] == "0"):
            return None
        return int(text[:9])  # no allowed count has nine digits

    # Groups

    def _open(self) -> None:
        flags_before = self._flags
        if self._peek() == "?":
            self._take()
            if not self._read_group_head():
                return
        self._levels.append(_Level(flags_before))

    def _close(self) -> None:
        if len(self._levels) == 1:
            raise PatternError("a parenthesis is closed that is not open")
        level = self._levels.pop()
        self._flags = level.flags_before
        self._add(level.close())

    def _read_group_head(self) -> bool:
        """What follows `(?`; whether a group begins, or flags were set for the rest of the enclosing one."""
        for opening in ("P<", "<"):
            if self._pattern.startswith(opening, self._position):
                self._position += len(opening)
                self._read_group_name()
                return True
        flags, is_off, seen = self._flags, False, False
        while (character := self._take()) not in (")", ":"):
            if character == "-" and not is_off:
                is_off, seen = True, False
            elif character in _FLAGS:
                seen = True
                flags = flags - {character} if is_off else flags | {character}
            else:
                raise PatternError("(? is followed by what RE2 does not have")
        if is_off and not seen:
            raise PatternError("(?- is not followed by a flag")
        self._flags = flags
        return character == ":"

    def _read_group_name(self) -> None:
        end = self._pattern.find(">", self._position)
        name = self._pattern[self._position : max(end, 0)]
        if not name or not all(character in WORD for character in name):
            raise PatternError("the name of a group consists of letters, digits and underscores")
        if name in self._group_names:
            raise PatternError(f"two groups have the name {name}")
        self._group_names.add(name)
        self._position = end + 1

    # Sets

    def _read_bracket(self) -> CharacterSet:
        is_negated = self._peek() == "^"
        if is_negated:
            self._take()
        parts: list[Part] = []
        is_first = True  # a bracket that closes at once is a character of the set
        while is_first or self._peek() != "]":
            is_first = False
            named = self._read_posix_class()
            if named is None and self._peek() == "\\":
                self._take()
                named = self._read_class_escape()
                if named is None:
                    self._position -= 1
            parts.append(self._read_range() if named is None else named)
        self._take()
        return self._set(parts, is_negated=is_negated)

    def _read_range(self) -> Part:
        first = last = self._read_set_character()
        if self._peek() == "-" and self._pattern[self._position + 1 : self._position + 2] not in ("", "]"):
            self._take()
            last = self._read_set_character()
            if last < first:
                raise PatternError(f"the range {first}-{last} is backwards")
        elif self._peek() == "-" and self._position + 1 == len(self._pattern):
            raise PatternError("a bracket is not closed")
        return between(first, last)

    def _read_set_character(self) -> str:
        if not self._peek():
            raise PatternError("a bracket is not closed")
        character = self._take()
        return self._read_escape() if character == "\\" else character

    def _read_posix_class(self) -> Part | None:
        if not self._pattern.startswith("[:", self._position):
            return None
        end = self._pattern.find(":]", self._position)
        if end < 0:
            return None
        name = self._pattern[self._position + 2 : end]
        is_negated = name.startswith("^")
        part = POSIX_CLASSES.get(name[1:] if is_negated else name)
        if part is None:
            raise PatternError(f"[:{name}:] is not a class")
        self._position = end + 2
        return part._replace(is_negated=is_negated)

    def _read_class_escape(self) -> Part | None:
        r"""\d and its like, \pN and \p{Name}; the backslash is read. None, and nothing is read: it is none of them."""
        following = self._peek()
        if following in ("p", "P"):
            self._take()
            return self._read_unicode_class(following == "P")
        if following.lower() not in PERL_CLASSES:
            return None
        self._take()
        return PERL_CLASSES[following.lower()]._replace(is_negated=following.isupper())

    def _read_unicode_class(self, is_negated: bool) -> Part:
        name = self._take()
        if name == "{":
            end = self._pattern.find("}", self._position)
            if end < 0:
                raise PatternError("a brace is not closed")
            name = self._pattern[self._position : end]
            self._position = end + 1
        if name.startswith("^"):
            is_negated, name = not is_negated, name[1:]
        if name not in UNICODE_CLASSES:
            raise PatternError(f"{name!r} is neither a category nor a script of Unicode")
        return Part(name=name, is_negated=is_negated)

    # Escapes

    def _read_escape(self) -> str:
        r"""The character that stands behind a backslash, which is read: \n, \x41, \x{1F600}, \101, or itself."""
        character = self._take()
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "x":
            return self._read_hexadecimal()
        if character == "0" or (character in _OCTAL and self._peek() in _OCTAL):
            digits = character
            while len(digits) < 3 and self._peek() in _OCTAL:
                digits += self._take()
            return chr(int(digits, 8))
        if character in WORD and character != "_":
            raise PatternError(f"\\{character} is not an escape")
        return character

    def _read_hexadecimal(self) -> str:
        if self._peek() == "{":
            end = self._pattern.find("}", self._position)
            digits = self._pattern[self._position + 1 : max(end, 0)]
            self._position = end + 1
        else:
            digits = self._pattern[self._position : self._position + 2]
            self._position += 2
            if len(digits) < 2:
                digits = ""
        if not digits or not all(digit in _HEXADECIMAL for digit in digits):
            raise PatternError("\\x is not followed by hexadecimal digits")
        number = int(digits.lstrip("0")[:7] or "0", 16)
        if number > LAST_CHARACTER:
            raise PatternError(f"\\x{{{digits}}} is not a character")
        return chr(number)

    # Characters

    def _peek(self) -> str:
        """The next character; empty at the end."""
        return self._pattern[self._position : self._position + 1]

    def _take(self) -> str:
        if self._position >= len(self._pattern):
            raise PatternError("the pattern ends too early")
        self._position += 1
        return self._pattern[self._position - 1]


_DIGITS: Final = frozenset("0123456789")
_OCTAL: Final = frozenset("01234567")
_HEXADECIMAL: Final = frozenset("0123456789abcdefABCDEF")
_FLAGS: Final = frozenset("imsU")
_REPEATS: Final[Mapping[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ASSERTIONS: Final = {
    "A": Place.START,
    "z": Place.END,
    "b": Place.WORD_BOUNDARY,
    "B": Place.NO_WORD_BOUNDARY,
}
