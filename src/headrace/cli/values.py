"""What people write on a command line, read: KEY=VALUE, TOPIC:PARTITION, points in time, durations, escapes."""

import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from headrace.cli.output import Complaint

_NAMED_TIMES: Final = {
    "earliest": "earliest",
    "latest": "latest",
    "max-timestamp": "max_timestamp",
    "earliest-local": "earliest_local",
    "latest-tiered": "latest_tiered",
}
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_ISO_UNITS: Final = ("w", "d", "h", "m", "s")  # in the order in which ISO 8601 has them
_LAST_MS: Final = 2**63 - 1  # of what goes over the wire
_ESCAPES: Final = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


def parse_pairs(texts: Iterable[str], *, option: str, example: str) -> dict[str, str]:
    """KEY=VALUE of each; a value may contain further equal signs."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise Complaint(f"{option} {text}: a KEY=VALUE is expected.", hint=f"Such as {option} {example}")
        pairs[name.strip()] = value
    return pairs


def parse_partition(text: str) -> tuple[str, int | None]:
    """TOPIC or TOPIC:PARTITION; a topic's name has no colon."""
    topic, colon, number = text.partition(":")
    if colon and not (number.isascii() and number.isdigit()):
        raise Complaint(f"{text}: after the colon comes the number of a partition.", hint=f"Such as {topic}:0")
    return topic, int(number) if colon else None


def parse_time(text: str) -> str | int:
    """A name that brokers know (`earliest`), or milliseconds since 1970 of a number, a date (UTC if none is said) or
    what was `2h ago`."""
    if text in _NAMED_TIMES:
        return _NAMED_TIMES[text]
    if text.isascii() and text.isdigit():
        if int(text) > _LAST_MS:
            raise Complaint(f"{text} is not a time: no clock gets there.", hint="Milliseconds since 1970 are expected.")
        return int(text)
    if text.endswith(" ago"):
        return max(time.time_ns() // 1_000_000 - parse_duration_ms(text.removesuffix(" ago")), 0)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Complaint(
            f"{text} is not a time.",
            hint=f"Known are {', '.join(_NAMED_TIMES)}, milliseconds since 1970, dates such as 2024-05-01T12:00Z, "
            "and '2h ago'.",
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(int(moment.timestamp() * 1000), 0)  # below 0 are Kafka's words: -1 would mean the end


def parse_duration_ms(text: str) -> int:
    """Milliseconds of `90s`, `15m`, `1d12h`, `500ms`, or of ISO 8601's PT1H30M. Raises Complaint."""
    number_and_unit = r"(\d+)\s*(ms|[smhdw])"
    if re.fullmatch(rf"(?:{number_and_unit}\s*)+", text):
        return sum(int(number) * _UNIT_MS[unit] for number, unit in re.findall(number_and_unit, text))
    # Neither months nor years: nobody can say how long they are.
    iso = re.fullmatch(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", text)
    if iso and any(iso.groups()):
        pairs = zip(iso.groups(), _ISO_UNITS, strict=True)
        return sum(int(number) * _UNIT_MS[unit] for number, unit in pairs if number)
    raise Complaint(f"{text} is not a duration.", hint="Such as 90s, 15m, 2h, 1d12h, or PT1H30M.")


def unescape(text: str) -> bytes:
    r"""The bytes of a text in which \n, \r, \t, \0, \\ and \xNN stand for one byte each. Raises Complaint."""
    pieces = []
    for plain, hexadecimal, letter in re.findall(r"([^\\]+)|\\x([0-9a-fA-F]{2})|\\(.?)", text, re.DOTALL):
        if plain:
            pieces.append(plain.encode())
        elif hexadecimal:
            pieces.append(bytes.fromhex(hexadecimal))
        elif letter in _ESCAPES:
            pieces.append(_ESCAPES[letter])
        else:
            raise Complaint(f"{text!r} has a backslash that means nothing.", hint=r"Known are \n \r \t \0 \\ \xNN.")
    return b"".join(pieces)
