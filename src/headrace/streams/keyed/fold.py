"""Folds over groups, without windows or over windows that stand still: tumbling and hopping ones.

The state has a row for each group and window. A window that no row can come for any more, since the watermark has
passed its end, is given if results are final, and forgotten in any case. A row whose window is over is late.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from headrace.streams.keyed.fold_rows import (
    KEYS,
    START,
    TIMESTAMP,
    US,
    VALUE,
    Batch,
    Change,
    Results,
    batch_of,
    times_array,
)
from headrace.streams.keyed.folding import Value, values_array
from headrace.streams.keyed.operator import GROUP, TIME, UNTIL, Clock
from headrace.streams.keyed.order import Ints, column, times_of
from headrace.streams.keyed.state_table import StateTable

_BYTES_OF_START = 8


@dataclass(frozen=True)
class Windows:
    """`size_ms` long, one every `hop_ms`, from the epoch on."""

    size_ms: int
    hop_ms: int


@dataclass(frozen=True)
class Fold:
    results: Results
    windows: Windows | None = None
    emit: Literal["changes", "final"] = "changes"

    @property
    def state_schema(self) -> pa.Schema:
        window = [] if self.windows is None else [pa.field(START, pa.int64()), pa.field(UNTIL, pa.int64())]
        value = pa.field(VALUE, self.results.folding.value_type)
        return pa.schema([pa.field(KEYS, self.results.key_type), *window, value, pa.field(TIME, TIMESTAMP)])

    @property
    def output_schema(self) -> pa.Schema:
        return self.results.schema

    def step(self, batch: pa.Table, state: StateTable, clock: Clock) -> pa.Table:
        made = []
        if self.windows is not None and clock.watermark_ms is not None:
            over = state.pop_due(clock.watermark_ms)
            if self.emit == "final":
                made.append(self._kept(over))
        if len(batch):
            changes = self._add(batch_of(batch), state, clock)
            if self.emit == "changes":
                made.append(changes)
        return pa.concat_tables([self.output_schema.empty_table(), *made])

    def wakes_at(self, state: StateTable) -> int | None:
        return None if self.windows is None else state.next_due()

    def _add(self, batch: Batch, state: StateTable, clock: Clock) -> pa.Table:
        """Fold the rows into the state; what has changed, each group once."""
        if self.windows is None:
            groups, rows, keys, starts = batch.groups, np.arange(len(batch.codes)), batch.keys, None
            codes = batch.codes
        else:
            groups, codes, rows, keys, starts = _in_windows(batch, self.windows, clock)
        if not len(rows):
            return self.output_schema.empty_table()
        before = state.rows(state.positions(groups))
        values: list[Value | None] = before[VALUE].to_pylist()
        was_there = [value is not None for value in values]
        add, entries = self.results.folding.add, batch.entries
        for code, row in zip(codes.tolist(), rows.tolist(), strict=True):
            values[code] = add(values[code], *entries[row])
        times = times_of(before, TIME)
        np.maximum.at(times, codes, batch.times[rows])
        self._keep(state, groups, keys, values, times, starts)
        return self._changes(keys, values, times, starts, was_there)

    def _keep(
        self,
        state: StateTable,
        groups: list[bytes],
        keys: pa.Array,
        values: list[Value | None],
        times: Ints,
        starts: Ints | None,
    ) -> None:
        columns = {
            GROUP: pa.array(groups, pa.binary()),
            KEYS: keys,
            VALUE: values_array(values, self.results.folding.value_type, self.results.operator),
            TIME: times_array(times),
        }
        if starts is not None:
            columns |= {START: pa.array(starts), UNTIL: pa.array(self._end(starts) // US)}
        ended = [number for number, value in enumerate(values) if value is None]
        rows = pa.table(columns)
        if ended:
            state.delete([groups[number] for number in ended])
            rows = rows.filter(rows[VALUE].is_valid())
        state.put(rows)

    def _changes(
        self, keys: pa.Array, values: list[Value | None], times: Ints, starts: Ints | None, was_there: list[bool]
    ) -> pa.Table:
        # What ends before anybody has heard of it needs no deletion.
        heard = [number for number, value in enumerate(values) if value is not None or was_there[number]]
        at = times.tolist()
        if starts is None:
            changes = [Change(values[number], at[number]) for number in heard]
        else:
            begin, end = starts.tolist(), self._end(starts).tolist()
            changes = [Change(values[number], at[number], begin[number], end[number]) for number in heard]
        return self.results.rows(keys if len(heard) == len(keys) else keys.take(pa.array(heard)), changes)

    def _kept(self, rows: pa.Table) -> pa.Table:
        """Rows of the state as they come out."""
        starts = column(rows, START).to_numpy()
        facts = zip(
            rows[VALUE].to_pylist(),
            times_of(rows, TIME).tolist(),
            starts.tolist(),
            self._end(starts).tolist(),
            strict=True,
        )
        return self.results.rows(column(rows, KEYS), [Change(*each) for each in facts])

    def _end(self, starts: Ints) -> Ints:
        assert self.windows is not None
        return starts + self.windows.size_ms * US


def _in_windows(batch: Batch, windows: Windows, clock: Clock) -> tuple[list[bytes], Ints, Ints, pa.Array, Ints]:
    """Each row in each of its windows that is still open: a group for each key and window; the code and the number of
    each row in them; the key, and the start of the window, of each group."""
    size, hop = windows.size_ms * US, windows.hop_ms * US
    every = (batch.times // hop * hop)[:, None] - np.arange(-(-size // hop)) * hop
    is_in = every + size > batch.times[:, None]
    if clock.watermark_ms is not None:
        is_in &= every + size > clock.watermark_ms * US
    rows, _ = np.nonzero(is_in)
    begins, ranks = np.unique(every[is_in], return_inverse=True)
    pairs, codes = np.unique(batch.codes[rows] * len(begins) + ranks, return_inverse=True)
    which, when = np.divmod(pairs, max(len(begins), 1))
    names = [begin.to_bytes(_BYTES_OF_START, "big", signed=True) for begin in begins.tolist()]
    groups = [batch.groups[group] + names[number] for group, number in zip(which.tolist(), when.tolist(), strict=True)]
    return groups, codes, rows, batch.keys.take(pa.array(which)), begins[when]
