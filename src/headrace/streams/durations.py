"""Durations as people write them: "500ms", "30s", "1m", "2h", "7d", "1m 30s", or a timedelta. Inside: milliseconds."""

import re
from datetime import timedelta
from typing import Final

from headrace.streams.errors import PlanError

Duration = str | timedelta

_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART: Final = re.compile(r"\s*(\d+)\s*(ms|s|m|h|d)(?![a-z])")
_MICROSECOND: Final = timedelta(microseconds=1)


def duration_ms(given: Duration, *, what: str) -> int:
    """Milliseconds, 0 or more; `what` is the name of the setting, for the sentence when it cannot be read."""
    if isinstance(given, timedelta):
        microseconds = given // _MICROSECOND
        if microseconds % 1_000:
            raise PlanError(
                f"{what} is {given}: Kafka's clock counts milliseconds, and this is not a whole number of them"
            )
        milliseconds = microseconds // 1_000
        if milliseconds < 0:
            raise PlanError(f"{what} is {given}: it must not be negative")
        return milliseconds
    if not isinstance(given, str):
        raise PlanError(f'{what} is {given!r}: write it with its unit, such as "30s", or give a timedelta')
    return _parse(given, what)


def positive_ms(given: Duration, *, what: str) -> int:
    milliseconds = duration_ms(given, what=what)
    if milliseconds == 0:
        raise PlanError(f"{what} is {given!r}: it must be above 0")
    return milliseconds


def duration_text(milliseconds: int) -> str:
    """The shortest form that `duration_ms` reads back: 90000 is "1m 30s"."""
    parts = []
    for unit, size in reversed(_UNIT_MS.items()):
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts) or "0s"


def _parse(text: str, what: str) -> int:
    position, total = 0, 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            break
        total += int(part[1]) * _UNIT_MS[part[2]]
        position = part.end()
    if position == 0 or text[position:].strip():
        raise PlanError(f'{what} is {text!r}: it must be a number with a unit of ms, s, m, h or d, such as "30s"')
    return total
