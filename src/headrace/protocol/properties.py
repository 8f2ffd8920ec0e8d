r"""The format of Java's properties files: `server.properties`, `meta.properties`.

Read as Java reads it: comments after `#` or `!`, `=`, `:` or blanks between key and value, backslash escapes, lines
that go on after a backslash at their end; a later line wins over an earlier one with the same key. Written so that
Java reads it the same in either of its two encodings: what is not printable ASCII becomes `\uXXXX`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS: Final = " \t\f"
_KEY: Final = r"(?:[^\\=: \t\f]|\\.)*"
_SEPARATOR: Final = r"[ \t\f]*[=:]?[ \t\f]*"


class PropertiesError(ValueError):
    """A text that Java would not read either; the message names the line."""


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values. Raises PropertiesError."""
    properties = {}
    for number, line in _logical_lines(text):
        found = re.match(f"({_KEY}){_SEPARATOR}", line, re.DOTALL)
        assert found is not None, line  # each part may be empty
        properties[_unescape(found[1], number)] = _unescape(line[found.end() :], number)
    return properties


def format_properties(properties: Mapping[str, str]) -> bytes:
    lines = [f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}\n" for key, value in properties.items()]
    return "".join(lines).encode("ascii")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines joined where one goes on in the next, each with the number of its first; comments are left out."""
    first, pending = 0, ""
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = natural.lstrip(_BLANKS)
        if not pending:
            if not line or line[0] in "#!":  # inside a joined line these are ordinary characters
                continue
            first = number
        pending += line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = pending[:-1]
        else:
            yield first, pending
            pending = ""
    if pending:  # the last line promised another one
        yield first, pending


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text

    def one(escape: re.Match[str]) -> str:
        code, character = escape.groups()
        if character == "u":
            raise PropertiesError(
                f"line {line_number}: \\u must be followed by four hexadecimal digits; write a backslash itself as \\\\"
            )
        return chr(int(code, 16)) if code else _ESCAPES.get(character, character)

    unescaped = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", one, text, flags=re.DOTALL)
    # The escapes are units of UTF-16: two of them may make one character.
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str, *, is_key: bool) -> str:
    out = []
    for index, character in enumerate(text):
        if character == " ":
            out.append("\\ " if is_key or index == 0 else " ")
        elif character in "\\=:#!":
            out.append("\\" + character)
        elif " " < character <= "~":
            out.append(character)
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            out.extend(f"\\u{units[i : i + 2].hex().upper()}" for i in range(0, len(units), 2))
    return "".join(out)
