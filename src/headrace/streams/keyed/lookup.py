"""A stream joined with a table: each row of the stream gets the table's row as it is at the time of the row.

Within a micro-batch that is exact: a row sees the changes up to its own time, also those of the same moment, and no
later ones. Changes of earlier micro-batches it sees all, as whatever came before it in Kafka Streams. The table's state
is the change with the highest offset (see `order`). Rows leave in the order of their offsets.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pyarrow as pa

from headrace.streams.keyed.operator import DELETED, SIDE, TIME, Clock
from headrace.streams.keyed.order import (
    NONE,
    OFFSET,
    PLACE,
    Changes,
    Groups,
    Ints,
    before_or_at,
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

STREAM: Final = 0
TABLE: Final = 1


@dataclass(frozen=True)
class Lookup:
    """`stream_schema` are the columns of the stream that come out, `table_schema` those which the table adds.

    The stream's rows have a value. A table has no key that is NULL, so that rows with such a key find none.
    """

    how: Literal["inner", "left"]
    stream_schema: pa.Schema
    table_schema: pa.Schema

    @property
    def state_schema(self) -> pa.Schema:
        return self.table_schema

    @property
    def output_schema(self) -> pa.Schema:
        hidden = [pa.field(TIME, pa.timestamp("us", tz="UTC")), pa.field(DELETED, pa.bool_())]
        return pa.schema([*self.stream_schema, *self.table_schema, *hidden])

    def step(self, batch: pa.Table, state: StateTable, clock: Clock) -> pa.Table:  # noqa: ARG002
        batch = batch.combine_chunks()
        groups = groups_of(batch)
        side = numbers(batch, SIDE)
        changes = changes_in_order(batch, groups.codes, side == TABLE)
        rows = _in_order(batch, np.flatnonzero(side == STREAM))
        # Before the change of the state, which is to have what it had.
        found, values = self._found(batch, groups, changes, rows, state)
        self._change(batch, groups, changes, state)
        if self.how == "inner":
            rows, found = rows[found != NONE], found[found != NONE]
        return self._output(batch.take(pa.array(rows)), taken(values, found))

    def wakes_at(self, state: StateTable) -> int | None:  # noqa: ARG002
        return None

    def _found(
        self, batch: pa.Table, groups: Groups, changes: Changes, rows: Ints, state: StateTable
    ) -> tuple[Ints, pa.Table]:
        """For each row of the stream the number of the table's row in a list of rows: those kept, then the changes."""
        positions = state.positions(groups.keys)
        kept = np.flatnonzero(positions != NONE)
        number_of = np.full(len(groups.keys), NONE, np.int64)
        number_of[kept] = np.arange(len(kept))
        codes = groups.codes[rows]
        found = number_of[codes]
        values = state.rows(positions[kept]).select(self.table_schema.names)
        if len(changes.rows):
            hits = before_or_at(groups.codes[changes.rows], changes.since, codes, times_of(batch, TIME)[rows])
            is_deleted = numbers(batch, DELETED)[changes.rows]
            found = np.where(hits == NONE, found, np.where(is_deleted[hits], NONE, len(kept) + hits))
            values = stacked(values, batch.select(self.table_schema.names).take(pa.array(changes.rows)))
        return found, values

    def _change(self, batch: pa.Table, groups: Groups, changes: Changes, state: StateTable) -> None:
        last = last_changes(changes, groups)
        last = last[last != NONE]
        is_deleted = numbers(batch, DELETED)[last]
        state.delete(known(groups.keys[code] for code in groups.codes[last[is_deleted]]))
        state.put(batch.take(pa.array(last[~is_deleted])))

    def _output(self, rows: pa.Table, values: pa.Table) -> pa.Table:
        columns = [
            *(rows[name] for name in self.stream_schema.names),
            *(values[name] for name in self.table_schema.names),
            rows[TIME],
            pa.array(np.zeros(len(rows), np.bool_)),
        ]
        return pa.Table.from_arrays(columns, schema=self.output_schema)


def _in_order(batch: pa.Table, rows: Ints) -> Ints:
    return rows[np.lexsort((numbers(batch, OFFSET)[rows], numbers(batch, PLACE)[rows]))]
