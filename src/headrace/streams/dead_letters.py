"""Dead letters as the records that they were: what `replay-dead` reads, and sends to their topics again. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

PREFIX: Final = "headrace."  # of the headers that a dead letter has got
ERROR: Final = "headrace.error"
APP: Final = "headrace.app"
OPERATOR: Final = "headrace.operator"
TOPIC: Final = "headrace.topic"
PARTITION: Final = "headrace.partition"
OFFSET: Final = "headrace.offset"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Letter(NamedTuple):
    """A record as it was before it was found dead, and the operator in which it died."""

    operator: str
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def position_group(app: str) -> str:
    """Where the position in the dead letters is: what stands before it was replayed already."""
    return f"{app}.replay-dead"


def letter_of(app: str, record: Mapping[str, Any]) -> Letter | None:
    """None if it is none of this app, as a topic of dead letters may serve several, or was a row of no one record."""
    headers = tuple((header["key"], header["value"]) for header in record["headers"] or ())
    said = {name: (value or b"").decode(errors="replace") for name, value in headers if name.startswith(PREFIX)}
    if said.get(APP) != app or not said.get(TOPIC) or not said.get(PARTITION, "").isdigit():
        return None
    kept = tuple((name, value) for name, value in headers if not name.startswith(PREFIX))
    return Letter(
        said.get(OPERATOR, ""),
        said[TOPIC],
        int(said[PARTITION]),
        record["key"],
        record["value"],
        kept,
        _milliseconds(record["timestamp"]),
    )


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)
