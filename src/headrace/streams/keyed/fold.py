"""Folds over groups, without windows or over windows that stand still: tumbling and hopping ones.

The state has a row for each group and window. A window that no row can come for any more, since the watermark has
passed its end, is given if results are final, and forgotten in any case. A row whose windows are all over is late.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from headrace.streams.keyed.careful import Careful, late_rows, misfits
from headrace.streams.keyed.fold_rows import (
    KEYS,
    START,
    TIMESTAMP,
    US,
    VALUE,
    Batch,
    Change,
    Dead,
    Results,
    batch_of,
    times_array,
)
from headrace.streams.keyed.folding import FunctionFailedError, Value, values_array
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
            rows = batch_of(batch)
            changes, dead = self._add(rows, state, clock)
            if self.emit == "changes":
                made.append(changes)
            if dead:
                made.append(self.results.dead(rows, dead))
        return pa.concat_tables([self.output_schema.empty_table(), *made])

    def wakes_at(self, state: StateTable) -> int | None:
        return None if self.windows is None else state.next_due()

    def _add(self, batch: Batch, state: StateTable, clock: Clock) -> tuple[pa.Table, list[Dead]]:
        """Fold the rows into the state; what has changed, each group once, and the rows that do not count."""
        dead: list[Dead] = []
        if self.windows is None:
            cells = Cells(batch.groups, batch.codes, np.arange(len(batch.codes)), np.arange(len(batch.groups)), None)
        else:
            cells, deadlines = _in_windows(batch, self.windows, clock)
            dead = late_rows(self.results, deadlines, clock.watermark_ms or 0)
        if not len(cells.rows):
            return self.output_schema.empty_table(), dead
        before = state.rows(state.positions(cells.groups))
        values, failed = self._values(cells, batch, before)
        if failed:
            cells, taken = cells.without(failed)
            before, values = before.take(pa.array(taken)), [values[number] for number in taken.tolist()]
        times = times_of(before, TIME)
        np.maximum.at(times, cells.codes, batch.times[cells.rows])
        keys = batch.keys.take(pa.array(cells.keys))
        self._keep(state, cells.groups, keys, values, times, cells.starts)
        was_there = column(before, VALUE).is_valid().to_pylist()
        return self._changes(keys, values, times, cells.starts, was_there), dead + failed

    @property
    def _shares_rows(self) -> bool:
        """Whether several windows get the same row, and functions that may do anything with it."""
        overlaps = self.windows is not None and self.windows.hop_ms < self.windows.size_ms
        return overlaps and self.results.folding.may_keep_rows

    def _values(self, cells: "Cells", batch: Batch, before: pa.Table) -> tuple[list[Value | None], list[Dead]]:
        """What each group has after the batch, and the rows that failed."""
        values: list[Value | None] = before[VALUE].to_pylist()
        add, entries = self.results.folding.add, batch.entries
        failed: set[int] = set()  # keys
        shared = self._shares_rows
        for code, row in zip(cells.codes.tolist(), cells.rows.tolist(), strict=True):
            try:
                values[code] = add(values[code], *(deepcopy(entries[row]) if shared else entries[row]))
            except FunctionFailedError:
                if not self.results.forgives:
                    raise
                failed.add(int(cells.keys[code]))
        if self.results.forgives:
            failed.update(int(cells.keys[code]) for code in misfits(values, self.results.folding.value_type))
        return values, self._again(cells, batch, before, values, failed) if failed else []

    def _again(
        self, cells: "Cells", batch: Batch, before: pa.Table, values: list[Value | None], failed: set[int]
    ) -> list[Dead]:
        """Fold the rows of keys with a failure carefully: a row counts in all of its windows, or in none."""
        dead: list[Dead] = []
        careful, entries = Careful(self.results.folding, self.results.operator), batch.anew()
        for code in np.flatnonzero(np.isin(cells.keys, [*failed])).tolist():
            values[code] = before[VALUE][code].as_py()
        which = np.flatnonzero(np.isin(batch.codes[cells.rows], [*failed]))
        pairs = zip(cells.rows[which].tolist(), cells.codes[which].tolist(), strict=True)
        for row, pairs_of_row in groupby(pairs, key=itemgetter(0)):
            try:
                made = {code: careful.add(values[code], *entries[row]) for _, code in pairs_of_row}
            except FunctionFailedError as error:
                dead.append(Dead(row, error.error, error.function))
            else:
                for code, value in made.items():
                    values[code] = value
        return dead

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


class Cells(NamedTuple):
    """Which row counts in which group: `codes` are numbers of groups, and `rows` those of rows, side by side.

    A group is a key, by its number in the batch, and the start of its window if there are windows.
    """

    groups: list[bytes]
    codes: Ints
    rows: Ints
    keys: Ints
    starts: Ints | None

    def without(self, dead: Sequence[Dead]) -> tuple["Cells", Ints]:
        """Those of the other rows, and the numbers that their groups had."""
        counts = ~np.isin(self.rows, [each.row for each in dead])
        left, codes = np.unique(self.codes[counts], return_inverse=True)
        groups = [self.groups[number] for number in left.tolist()]
        starts = None if self.starts is None else self.starts[left]
        return Cells(groups, codes, self.rows[counts], self.keys[left], starts), left


def _in_windows(batch: Batch, windows: Windows, clock: Clock) -> tuple[Cells, dict[int, int]]:
    """Each row in each of its windows that is still open; and of rows for which there is none, by their numbers the
    ends of their last windows."""
    size, hop = windows.size_ms * US, windows.hop_ms * US
    every = (batch.times // hop * hop)[:, None] - np.arange(-(-size // hop)) * hop
    is_in = every + size > batch.times[:, None]
    late = np.zeros(0, np.int64)
    if clock.watermark_ms is not None:
        is_open = is_in & (every + size > clock.watermark_ms * US)
        late = np.flatnonzero(is_in.any(axis=1) & ~is_open.any(axis=1))
        is_in = is_open
    rows, _ = np.nonzero(is_in)
    begins, ranks = np.unique(every[is_in], return_inverse=True)
    pairs, codes = np.unique(batch.codes[rows] * len(begins) + ranks, return_inverse=True)
    which, when = np.divmod(pairs, max(len(begins), 1))
    names = [begin.to_bytes(_BYTES_OF_START, "big", signed=True) for begin in begins.tolist()]
    groups = [batch.groups[group] + names[number] for group, number in zip(which.tolist(), when.tolist(), strict=True)]
    deadlines = dict(zip(late.tolist(), (every[late, 0] + size).tolist(), strict=True))
    return Cells(groups, codes, rows, which, begins[when]), deadlines
