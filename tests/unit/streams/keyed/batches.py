"""Micro-batches for operators on keys: rows as tuples, and any of them that hypothesis can think of."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from headrace.streams.keyed.operator import DELETED, GROUP, SIDE, TIME, Clock
from headrace.streams.keyed.order import OFFSET, PLACE

CLOCK = Clock(None)
UTC_TIME = pa.timestamp("us", tz="UTC")


class Row(NamedTuple):
    """One row of a batch. Its value is None for a deletion."""

    side: int
    key: str
    time: int
    value: Any
    place: int = 0
    offset: int = 0


def numbered(rows: Sequence[Row], start: int = 0) -> list[Row]:
    """With offsets in the order of the list."""
    return [row._replace(offset=start + number) for number, row in enumerate(rows)]


def batch_of(rows: Sequence[Row], schema: pa.Schema, values: Sequence[dict[str, Any]]) -> pa.Table:
    """`values` are the other columns of each row."""
    hidden = {
        GROUP: pa.array([row.key.encode() for row in rows], pa.binary()),
        SIDE: pa.array([row.side for row in rows], pa.int8()),
        TIME: pa.array([row.time for row in rows], pa.int64()).cast(UTC_TIME),
        DELETED: pa.array([row.value is None for row in rows], pa.bool_()),
        PLACE: pa.array([row.place for row in rows], pa.int64()),
        OFFSET: pa.array([row.offset for row in rows], pa.int64()),
    }
    own = pa.Table.from_pylist(list(values), schema=schema)
    return pa.table(hidden | {name: own[name] for name in schema.names})


def some_batches(*, sides: int) -> st.SearchStrategy[list[list[Row]]]:
    """A few micro-batches over few keys, times and places, so that everything happens to everything."""
    row = st.builds(
        Row,
        side=st.integers(0, sides - 1),
        key=st.sampled_from("ab"),
        time=st.integers(0, 5),
        value=st.one_of(st.none(), st.integers(0, 9)),
        place=st.integers(0, 1),
        offset=st.just(0),
    )
    batch = st.lists(row, max_size=8).flatmap(lambda rows: st.permutations(numbered(rows)))
    return st.lists(batch, min_size=2, max_size=5)


def in_counting_order(changes: Sequence[Row]) -> list[tuple[int, Row]]:
    """The changes of one key, each with the time from which on it counts, by the rule and one by one."""
    made = []
    for place in sorted({row.place for row in changes}):
        latest = -1
        for row in sorted((row for row in changes if row.place == place), key=lambda row: row.offset):
            latest = max(latest, row.time)
            made.append((latest, row))
    return sorted(made, key=lambda each: each[0])


def time_of(row: dict[str, Any]) -> int:
    made: int = pa.scalar(row[TIME], UTC_TIME).value
    return made
