"""Two tables joined by their keys: the result is a table, too, and changes as either of them does.

Of all changes of a key within a micro-batch only the last of each side counts, so that at most one change comes out:
the joined row while there is one, a deletion when it ceases to be, and nothing when there was none before or after, or
when neither side has changed. A result is as old as the younger of its two rows.
"""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.streams.keyed.operator import DELETED, GROUP, SIDE, TIME, Clock
from headrace.streams.keyed.order import (
    LONG_AGO,
    NONE,
    Bools,
    Groups,
    Ints,
    changes_in_order,
    groups_of,
    known,
    last_changes,
    numbers,
    stacked,
    taken,
    times_of,
)
from headrace.streams.keyed.state_table import StateTable

How = Literal["inner", "left", "outer"]
LEFT: Final = 0
RIGHT: Final = 1
# When each side's row is from; NULL if there is none.
LEFT_TIME: Final = "_left_time"
RIGHT_TIME: Final = "_right_time"
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


class _Side(NamedTuple):
    """One table, key by key: whether there is a row before and after the batch, and whether it has changed.

    `values` are its columns after the batch, and `times` when that row, or its deletion, is from.
    """

    before: Bools
    after: Bools
    changed: Bools
    values: dict[str, pa.Array]
    times: Ints


@dataclass(frozen=True)
class TableJoin:
    """Rows of both sides have the key's columns. The others are the left table's, and those that the right one adds."""

    how: How
    key_schema: pa.Schema
    left_schema: pa.Schema
    right_schema: pa.Schema

    @property
    def state_schema(self) -> pa.Schema:
        times = [pa.field(LEFT_TIME, _TIMESTAMP), pa.field(RIGHT_TIME, _TIMESTAMP)]
        return pa.schema([*self.left_schema, *self.right_schema, *times])

    @property
    def output_schema(self) -> pa.Schema:
        hidden = [pa.field(TIME, _TIMESTAMP), pa.field(DELETED, pa.bool_())]
        return pa.schema([*self.key_schema, *self.left_schema, *self.right_schema, *hidden])

    def step(self, batch: pa.Table, state: StateTable, clock: Clock) -> pa.Table:  # noqa: ARG002
        batch = batch.combine_chunks()
        groups = groups_of(batch)
        kept = state.rows(state.positions(groups.keys))
        left = self._side(batch, groups, kept, LEFT)
        right = self._side(batch, groups, kept, RIGHT)
        self._change(groups, left, right, state)
        return self._output(batch, groups, left, right)

    def wakes_at(self, state: StateTable) -> int | None:  # noqa: ARG002
        return None

    def _side(self, batch: pa.Table, groups: Groups, kept: pa.Table, which: int) -> _Side:
        changes = changes_in_order(batch, groups.codes, numbers(batch, SIDE) == which)
        last = last_changes(changes, groups)
        kept_times = times_of(kept, LEFT_TIME if which == LEFT else RIGHT_TIME)
        before = kept_times != LONG_AGO
        is_new = last != NONE
        is_deletion = is_new & numbers(batch, DELETED)[last]
        after = np.where(is_new, ~is_deletion, before)
        # In a list of the batch's rows, then those kept.
        rows = np.where(after, np.where(is_new, last, len(batch) + np.arange(len(last))), NONE)
        names = (self.left_schema if which == LEFT else self.right_schema).names
        values = taken(stacked(batch.select(names), kept.select(names)), rows)
        return _Side(
            before=before,
            after=after,
            changed=is_new & (before | after),
            values={name: values[name] for name in names},
            times=np.where(is_new, times_of(batch, TIME)[last], kept_times),
        )

    def _change(self, groups: Groups, left: _Side, right: _Side, state: StateTable) -> None:
        is_there = left.after | right.after
        gone = np.flatnonzero((left.before | right.before) & ~is_there)
        state.delete(known(groups.keys[code] for code in gone))
        columns = {
            GROUP: pa.array(groups.keys, pa.binary()),
            **left.values,
            **right.values,
            LEFT_TIME: _times(left.times, left.after),
            RIGHT_TIME: _times(right.times, right.after),
        }
        state.put(pa.table(columns).filter(pa.array(is_there & (left.changed | right.changed))))

    def _output(self, batch: pa.Table, groups: Groups, left: _Side, right: _Side) -> pa.Table:
        before, after = self._joined(left.before, right.before), self._joined(left.after, right.after)
        is_change = (left.changed | right.changed) & (before | after)
        any_row = np.empty(len(groups.keys), np.int64)
        any_row[groups.codes] = np.arange(len(batch))
        keys = batch.select(self.key_schema.names).take(pa.array(any_row))
        columns = {
            **{name: keys[name] for name in self.key_schema.names},
            **left.values,
            **right.values,
            TIME: _times(np.maximum(left.times, right.times), np.ones(len(any_row), np.bool_)),
            DELETED: pa.array(~after),
        }
        return pa.table(columns, schema=self.output_schema).filter(pa.array(is_change))

    def _joined(self, left: Bools, right: Bools) -> Bools:
        match self.how:
            case "inner":
                return left & right
            case "left":
                return left
            case "outer":
                return left | right


def _times(times: Ints, known: Bools) -> pa.Array:
    return pa.array(times, pa.int64(), mask=~known).cast(_TIMESTAMP)
