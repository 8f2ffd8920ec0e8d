"""Rows of a table on their way to groups: when a key changes, its old row leaves a group and its new one enters one.

Of several changes of a key in one micro-batch only the last counts.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.streams.keyed.fold_rows import KEYS, TIMESTAMP, row_column
from headrace.streams.keyed.operator import DELETED, GROUP, SIDE, TIME, Clock
from headrace.streams.keyed.order import (
    NONE,
    OFFSET,
    PLACE,
    Ints,
    changes_in_order,
    groups_of,
    last_changes,
    numbers,
    taken,
    times_of,
)
from headrace.streams.keyed.state_table import StateTable

ENTERS: Final = 0
LEAVES: Final = 1


@dataclass(frozen=True)
class Regroup:
    """`key_type` is the struct of the columns of the group, `row_type` that of what is computed with."""

    key_type: pa.StructType
    row_type: pa.StructType

    @property
    def state_schema(self) -> pa.Schema:
        return pa.schema([pa.field(KEYS, self.key_type), pa.field(row_column(ENTERS), self.row_type)])

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema(
            [
                pa.field(SIDE, pa.int8()),
                pa.field(KEYS, self.key_type),
                pa.field(row_column(ENTERS), self.row_type),
                pa.field(row_column(LEAVES), self.row_type),
                pa.field(PLACE, pa.int64()),
                pa.field(OFFSET, pa.int64()),
                pa.field(TIME, TIMESTAMP),
                pa.field(DELETED, pa.bool_()),
            ]
        )

    def step(self, batch: pa.Table, state: StateTable, clock: Clock) -> pa.Table:  # noqa: ARG002
        batch = batch.combine_chunks()
        groups = groups_of(batch)
        last = last_changes(changes_in_order(batch, groups.codes, np.ones(len(batch), np.bool_)), groups)
        last = last[last != NONE]
        keys = [groups.keys[code] for code in groups.codes[last]]
        times = times_of(batch, TIME)[last]
        positions = state.positions(keys)
        had_row, has_row = positions != NONE, ~numbers(batch, DELETED)[last]
        old = state.rows(positions[had_row])
        new = taken(batch, last[has_row])
        state.delete([key for key, there in zip(keys, has_row, strict=True) if not there])
        state.put(new.select([GROUP, *self.state_schema.names]))
        return pa.concat_tables([self._rows(LEAVES, old, times[had_row]), self._rows(ENTERS, new, times[has_row])])

    def wakes_at(self, state: StateTable) -> int | None:  # noqa: ARG002
        return None

    def _rows(self, side: int, rows: pa.Table, times: Ints) -> pa.Table:
        row, nothing = rows[row_column(ENTERS)], pa.nulls(len(rows), self.row_type)
        columns = {
            SIDE: pa.array(np.full(len(rows), side, np.int8)),
            KEYS: rows[KEYS],
            row_column(ENTERS): row if side == ENTERS else nothing,
            row_column(LEAVES): row if side == LEAVES else nothing,
            PLACE: pa.array(np.zeros(len(rows), np.int64)),
            OFFSET: pa.array(times),
            TIME: pa.array(times).cast(TIMESTAMP),
            DELETED: pa.array(np.zeros(len(rows), np.bool_)),
        }
        return pa.table(columns).cast(self.output_schema)
