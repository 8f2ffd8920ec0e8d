"""What a processor keeps per key: a value, a list or a map, each with a schema and, if asked, a time to live.

stream.process(track, schema="user string, n long", state={"seen": value_state("n long", ttl="1h")})
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.streams.durations import Duration, duration_text, positive_ms
from headrace.streams.errors import PlanError
from headrace.streams.schema import Schema, parse_schema, schema_text


@dataclass(frozen=True, slots=True)
class State:
    """`kind` is "value", "list" or "map"; `keys` are the columns of a map's keys, empty for the others."""

    kind: str
    columns: Schema
    keys: Schema = ()
    ttl_ms: int | None = None

    def __str__(self) -> str:
        keys = f"{schema_text(self.keys)} -> " if self.keys else ""
        ttl = "" if self.ttl_ms is None else f", kept {duration_text(self.ttl_ms)}"
        return f"{self.kind}({keys}{schema_text(self.columns)}{ttl})"


def value_state(schema: str, *, ttl: Duration | None = None) -> State:
    return State("value", parse_schema(schema), ttl_ms=_ttl(ttl))


def list_state(schema: str, *, ttl: Duration | None = None) -> State:
    return State("list", parse_schema(schema), ttl_ms=_ttl(ttl))


def map_state(key_schema: str, schema: str, *, ttl: Duration | None = None) -> State:
    return State("map", parse_schema(schema), parse_schema(key_schema), _ttl(ttl))


def states_of(given: Mapping[str, State]) -> tuple[tuple[str, State], ...]:
    """Sorted by name, since the order in which states are named means nothing."""
    for name, state in given.items():
        if not isinstance(state, State):
            raise PlanError(f"state {name!r} must be made by value_state, list_state or map_state, and is {state!r}")
    return tuple(sorted(given.items()))


def _ttl(given: Duration | None) -> int | None:
    return None if given is None else positive_ms(given, what="the time to live of a state")
