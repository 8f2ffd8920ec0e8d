"""What folds read, keep and give: names of columns, and the way from a batch to entries and from values to rows.

Keys and rows of the user's are structs, so that their names cannot meet ours.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.streams.keyed.folding import At, Folding, Value, values_array
from headrace.streams.keyed.operator import DELETED, SIDE, TIME
from headrace.streams.keyed.order import (
    OFFSET,
    PLACE,
    Ints,
    changes_in_order,
    column,
    groups_of,
    numbers,
    times_of,
)

KEYS: Final = "_keys"  # struct: the columns of the key
VALUE: Final = "_value"  # struct: what the group has so far
START: Final = "_start"  # int64: of a window, in microseconds
END: Final = "_end"
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
US: Final = 1000  # microseconds of a millisecond


def row_column(side: int) -> str:
    """The struct of a row's columns; NULL in rows of another input."""
    return f"_row_{side}"


Entry = tuple[int, dict[str, Any], At]  # the input that a row came from, its columns, and when and where it came


class Batch(NamedTuple):
    """Rows in the order in which they count, those of a key together. `codes` are the numbers of keys in `groups`."""

    groups: list[bytes]
    codes: Ints
    times: Ints
    entries: list[Entry]
    keys: pa.Array  # of each group


def batch_of(rows: pa.Table) -> Batch:
    rows = rows.combine_chunks()
    groups = groups_of(rows)
    order = changes_in_order(rows, groups.codes, np.ones(len(rows), np.bool_)).rows
    times = times_of(rows, TIME)[order]
    sides = numbers(rows, SIDE)[order].tolist()
    at = zip(times.tolist(), numbers(rows, PLACE)[order].tolist(), numbers(rows, OFFSET)[order].tolist(), strict=True)
    take = pa.array(order)
    by_side = {side: column(rows, row_column(side)).take(take).to_pylist() for side in set(sides)}
    if len(by_side) == 1:
        (given,) = by_side.values()
    else:
        given = [by_side[side][number] for number, side in enumerate(sides)]
    entries = list(zip(sides, given, at, strict=True))
    some_row = np.zeros(len(groups.keys), np.int64)
    some_row[groups.codes] = np.arange(len(rows))  # any of them has the key
    known = [key for key in groups.keys if key is not None]
    assert len(known) == len(groups.keys), "rows without a key are in no group"
    return Batch(known, groups.codes[order], times, entries, column(rows, KEYS).take(pa.array(some_row)))


class Change(NamedTuple):
    """A group's new value, or None for its deletion, and the time of it in microseconds."""

    value: Value | None
    time: int
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Results:
    """The rows that come out: the key's columns, the window if there is one, the results."""

    operator: str
    key_type: pa.StructType
    folding: Folding
    is_windowed: bool

    @property
    def schema(self) -> pa.Schema:
        window = [pa.field("window_start", TIMESTAMP), pa.field("window_end", TIMESTAMP)] if self.is_windowed else []
        hidden = [pa.field(TIME, TIMESTAMP), pa.field(DELETED, pa.bool_())]
        return pa.schema([*self.key_type, *window, *self.folding.results, *hidden])

    def rows(self, keys: pa.Array, changes: Sequence[Change]) -> pa.Table:
        """`keys` has the key of each change."""
        results = [None if each.value is None else self.folding.result(each.value) for each in changes]
        columns: list[Any] = keys.flatten()
        if self.is_windowed:
            columns += [times_array(each.start for each in changes), times_array(each.end for each in changes)]
        columns += values_array(results, pa.struct(list(self.folding.results)), self.operator).flatten()
        columns += [
            times_array(each.time for each in changes),
            pa.array([each is None for each in results], pa.bool_()),
        ]
        return pa.Table.from_arrays(columns, schema=self.schema)


def times_array(times: Iterable[int | None]) -> pa.Array:
    return pa.array(times, pa.int64()).cast(TIMESTAMP)
