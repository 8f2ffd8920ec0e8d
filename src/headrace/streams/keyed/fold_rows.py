"""What folds read, keep and give: names of columns, and the way from a batch to entries and from values to rows.

Keys and rows of the user's are structs, so that their names cannot meet ours.
"""

from collections.abc import Iterable, Mapping, Sequence
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
LETTER: Final = "_letter"  # struct: what the dead letter of a row is made of, if there are dead letters
ERROR: Final = "_error"  # in rows that come out: why this one is a dead letter, and in which function it failed
FUNCTION: Final = "_function"
LATE: Final = "_late"  # int64: in rows that come out and are no results, how many rows were late; of windows only
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
    rows: pa.Table  # as they came, in that order

    def anew(self) -> list[Entry]:
        """The entries as they were, before functions of the user's have changed them."""
        return _entries(self.rows, self.times)


def batch_of(rows: pa.Table) -> Batch:
    rows = rows.combine_chunks()
    groups = groups_of(rows)
    order = changes_in_order(rows, groups.codes, np.ones(len(rows), np.bool_)).rows
    times = times_of(rows, TIME)[order]
    some_row = np.zeros(len(groups.keys), np.int64)
    some_row[groups.codes] = np.arange(len(rows))  # any of them has the key
    known = [key for key in groups.keys if key is not None]
    assert len(known) == len(groups.keys), "rows without a key are in no group"
    keys = column(rows, KEYS).take(pa.array(some_row))
    ordered = rows.take(pa.array(order))
    return Batch(known, groups.codes[order], times, _entries(ordered, times), keys, ordered)


def _entries(rows: pa.Table, times: Ints) -> list[Entry]:
    sides = numbers(rows, SIDE).tolist()
    at = zip(times.tolist(), numbers(rows, PLACE).tolist(), numbers(rows, OFFSET).tolist(), strict=True)
    by_side = {side: column(rows, row_column(side)).to_pylist() for side in set(sides)}
    if len(by_side) == 1:
        (given,) = by_side.values()
    else:
        given = [by_side[side][number] for number, side in enumerate(sides)]
    return list(zip(sides, given, at, strict=True))


class Change(NamedTuple):
    """A group's new value, or None for its deletion, and the time of it in microseconds."""

    value: Value | None
    time: int
    start: int | None = None
    end: int | None = None


class Dead(NamedTuple):
    """A row, by its number in the batch, that does not count: it failed or came too late, and why that is."""

    row: int
    error: str
    function: str | None = None
    is_late: bool = False


@dataclass(frozen=True)
class Results:
    """The rows that come out: the key's columns, the window if there is one, the results; and beside them the dead.

    `letter` is what dead letters are made of; without it, a function that fails stops the app. Late rows are counted,
    and with `late_letters`, which need it, they are dead letters, too.
    """

    operator: str
    key_type: pa.StructType
    folding: Folding
    is_windowed: bool
    letter: pa.StructType | None = None
    late_letters: bool = False

    @property
    def schema(self) -> pa.Schema:
        window = [("window_start", TIMESTAMP), ("window_end", TIMESTAMP)] if self.is_windowed else []
        columns = [*_pairs(self.key_type), *window, *_pairs(self.folding.results), (TIME, TIMESTAMP)]
        return pa.schema([*columns, (DELETED, pa.bool_()), *self._beside])

    @property
    def forgives(self) -> bool:
        """Whether functions may fail for single rows."""
        return self.letter is not None and self.folding.may_keep_rows

    @property
    def _beside(self) -> list[tuple[str, pa.DataType]]:
        """Columns that are NULL in results."""
        letter = [] if self.letter is None else [(LETTER, self.letter), (ERROR, pa.string()), (FUNCTION, pa.string())]
        return [*letter, *([(LATE, pa.int64())] if self.is_windowed else [])]

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
        columns += [pa.nulls(len(changes), type_) for _, type_ in self._beside]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def dead(self, batch: Batch, dead: Sequence[Dead]) -> pa.Table:
        """Those which become dead letters, each with its letter, and one row that counts the late ones that do not."""
        lettered = [each for each in dead if self.late_letters or not each.is_late]
        others = len(dead) - len(lettered)
        facts: dict[str, Any] = {
            TIME: times_array(int(batch.times[each.row]) for each in lettered),
            DELETED: pa.array([False for _ in lettered], pa.bool_()),
            ERROR: pa.array([each.error for each in lettered], pa.string()),
            FUNCTION: pa.array([each.function for each in lettered], pa.string()),
            LATE: pa.array([1 if each.is_late else None for each in lettered], pa.int64()),
        }
        if lettered:
            facts[LETTER] = column(batch.rows, LETTER).take(pa.array([each.row for each in lettered], pa.int64()))
        schema = self.schema
        made = [_filled(schema, facts, len(lettered))]
        if others:
            made.append(_filled(schema, {LATE: pa.array([others], pa.int64())}, 1))
        return pa.concat_tables(made)


def _filled(schema: pa.Schema, columns: Mapping[str, pa.Array], rows: int) -> pa.Table:
    """With NULL in all other columns."""
    arrays = [columns[field.name] if field.name in columns else pa.nulls(rows, field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _pairs(fields: Iterable[pa.Field]) -> list[tuple[str, pa.DataType]]:
    """Names and types; any of them may be NULL beside results."""
    return [(field.name, field.type) for field in fields]


def times_array(times: Iterable[int | None]) -> pa.Array:
    return pa.array(times, pa.int64()).cast(TIMESTAMP)
