"""Byte vectors: messages written out by hand, in text files that can be read like a table.

A vector starts at the left margin with its API, side, version and story. Below it, indented, stand its bytes: hex
before the bar, behind it what they are. `path = value` is a claim that is checked against the decoded message (a Python
literal, `bytes` with hex, or `N times` a byte); any other remark is for people. A field without a claim must be at its
default.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from wiregen.model import Struct

from tests.support.messages import UNKNOWN_TAGS, Values
from tests.support.reference_codec import default_of

DIRECTORY: Final = Path(__file__).parents[1] / "vectors"

_TITLE: Final = re.compile(r"(?P<api>\w+) (?P<side>request|response) v(?P<version>\d+): (?P<story>.+)")
_CLAIM: Final = re.compile(r"(?P<path>[a-z0-9_.\[\]]+) = (?P<value>.+)")
_TIMES: Final = re.compile(r"(\d+) times ([0-9a-f]{2})")


@dataclass
class Vector:
    api: str
    side: str
    version: int
    story: str
    place: str  # file and line, for messages
    data: bytes = b""
    claims: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.api} {self.side} v{self.version}"

    @property
    def message_name(self) -> str:
        return f"{self.api}{self.side.title()}"


@cache
def all_vectors() -> tuple[Vector, ...]:
    return tuple(vector for path in sorted(DIRECTORY.glob("*.txt")) for vector in _read(path))


def _read(path: Path) -> list[Vector]:
    vectors: list[Vector] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        place = f"{path.name}:{number}"
        if not line or line.startswith("#"):
            continue
        if not line.startswith(" "):
            title = _TITLE.fullmatch(line)
            assert title, f"{place}: not the title of a vector: {line!r}"
            vectors.append(Vector(title["api"], title["side"], int(title["version"]), title["story"], place))
            continue
        digits, _, remark = line.partition("|")
        vectors[-1].data += bytes.fromhex(digits)
        claim = _CLAIM.fullmatch(remark.strip())
        if claim:
            assert claim["path"] not in vectors[-1].claims, f"{place}: {claim['path']} for the second time"
            vectors[-1].claims[claim["path"]] = _value(claim["value"])
    return vectors


def _value(text: str) -> Any:
    if text.startswith("bytes "):
        return bytes.fromhex(text.removeprefix("bytes "))
    if times := _TIMES.fullmatch(text):
        return int(times[1]) * bytes.fromhex(times[2])
    return ast.literal_eval(text)


def leaves(row: Struct, values: Values, path: str = "") -> Iterator[tuple[str, Any, bool]]:
    """Every value that is no struct: its path, itself, and whether it is at its default."""
    for field_ in row.fields:
        value = values[field_.name]
        if field_.struct is None or not value:
            yield path + field_.name, value, value == default_of(field_)
        elif field_.is_array:
            for index, item in enumerate(value):
                yield from leaves(field_.struct, item, f"{path}{field_.name}[{index}].")
        else:
            yield from leaves(field_.struct, value, f"{path}{field_.name}.")
    yield path + UNKNOWN_TAGS, values[UNKNOWN_TAGS], not values[UNKNOWN_TAGS]
