"""Folds over sliding windows, which Kafka Streams' SlidingWindows are: a window for each different set of rows of a key
that are at most the difference apart.

Theory. A window of rows from `start` to `start` + difference, both included, to the millisecond. For each row at t
there is a left window, which ends at t, and a right one, which starts at t + 1 and is there only while it has rows. So
a new row at t

1. is added to all windows that are there and have t in them;
2. makes its left window, of the rows that the nearest window before has from t - difference on;
3. makes the right window of the row before it, which had none so far, with itself alone;
4. makes its own right window, if there are later rows: those that the nearest window over it has.

A window is over when the watermark has come to its end: it takes no more rows, and is given, if results are final. But
it is remembered for one difference longer, since by it the windows of later rows are made. A row is late if its right
window, the last that it could be in, is over.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from headrace.streams.keyed.careful import add_rows, late_rows
from headrace.streams.keyed.fold_rows import (
    KEYS,
    START,
    TIMESTAMP,
    US,
    VALUE,
    Batch,
    Change,
    Dead,
    Entry,
    Results,
    batch_of,
    times_array,
)
from headrace.streams.keyed.folding import Folding, Value, values_array
from headrace.streams.keyed.operator import GROUP, SUB, TIME, UNTIL, Clock
from headrace.streams.keyed.order import Ints, column, times_of
from headrace.streams.keyed.state_table import StateTable

_LONG_AGO_MS = -(1 << 62)


@dataclass(slots=True, eq=False)
class _Window:
    """`latest_us` is the time of its latest row. A value of None: a function of the user's has ended the group."""

    start_ms: int
    value: Value | None
    latest_us: int
    is_changed: bool = False
    is_known: bool = False  # results of it were given before


@dataclass(slots=True, eq=False)
class _Key:
    group: bytes
    keys: dict[str, Any]
    windows: dict[int, _Window]
    starts: list[int] = field(default_factory=list)  # sorted

    def put(self, window: _Window) -> None:
        self.windows[window.start_ms] = window
        insort(self.starts, window.start_ms)


@dataclass(frozen=True)
class FoldSliding:
    results: Results
    difference_ms: int
    emit: Literal["changes", "final"] = "changes"

    @property
    def state_schema(self) -> pa.Schema:
        return pa.schema(
            [
                pa.field(SUB, pa.binary()),
                pa.field(KEYS, self.results.key_type),
                pa.field(START, pa.int64()),
                pa.field(VALUE, self.results.folding.value_type),
                pa.field(TIME, TIMESTAMP),
                pa.field(UNTIL, pa.int64()),
            ]
        )

    @property
    def output_schema(self) -> pa.Schema:
        return self.results.schema

    def step(self, batch: pa.Table, state: StateTable, clock: Clock) -> pa.Table:
        watermark_ms = _LONG_AGO_MS if clock.watermark_ms is None else clock.watermark_ms
        made = []
        due = state.pop_due(watermark_ms)
        if self.emit == "final":
            made.append(self._over(due, state, watermark_ms))
        if len(batch):
            rows = batch_of(batch)
            touched, dead = self._add(rows, state, watermark_ms)
            changed = [(key, each) for key in touched for each in key.windows.values() if each.is_changed]
            self._keep(changed, state)
            if self.emit == "changes":
                heard = [(key, each) for key, each in changed if each.value is not None or each.is_known]
                changes = [self._change(each.value, each.latest_us, each.start_ms) for _, each in heard]
                made.append(self.results.rows(self._keys([key for key, _ in heard]), changes))
            if dead:
                made.append(self.results.dead(rows, dead))
        return pa.concat_tables([self.output_schema.empty_table(), *made])

    def wakes_at(self, state: StateTable) -> int | None:
        return state.next_due()

    def _add(self, batch: Batch, state: StateTable, watermark_ms: int) -> tuple[list[_Key], list[Dead]]:
        touched, dead, late = add_rows(
            batch,
            self.results,
            load=lambda: _windows_of(batch, state),
            add=lambda key, entry, folding: self._add_row(key, entry, folding, watermark_ms),
            values=lambda key: [each.value for each in key.windows.values() if each.is_changed],
        )
        return touched, dead + late_rows(self.results, late, watermark_ms)

    def _add_row(self, key: _Key, entry: Entry, folding: Folding, watermark_ms: int) -> int | None:
        time_us = entry[-1][0]
        at, size = time_us // US, self.difference_ms
        left, right = at - size, at + 1
        if right + size <= watermark_ms:
            return (right + size) * US
        first = bisect_left(key.starts, left)
        beyond = bisect_right(key.starts, at)
        before = key.windows[key.starts[first - 1]] if first > 0 else None
        over = key.windows[key.starts[beyond - 1]] if beyond > first else None
        new: list[_Window] = []
        fresh: Callable[[Entry], Entry] = deepcopy if folding.may_keep_rows else _same
        if over is not None and over.latest_us // US > at and right not in key.windows:
            new.append(_Window(right, deepcopy(over.value), over.latest_us, is_changed=True))
        having = [key.windows[start] for start in key.starts[first:beyond] if start + size > watermark_ms]
        values = [folding.add(window.value, *fresh(entry)) for window in having]
        if left not in key.windows and at > watermark_ms:
            shares = before is not None and before.latest_us // US >= left
            so_far = deepcopy(before.value) if shares and before is not None else None
            new.append(_Window(left, folding.add(so_far, *fresh(entry)), time_us, is_changed=True))
        if before is not None:
            follower = before.latest_us // US + 1  # where the right window of the row before starts
            is_new = follower not in key.windows and follower != left
            if is_new and follower <= at <= follower + size and follower + size > watermark_ms:
                new.append(_Window(follower, folding.add(None, *fresh(entry)), time_us, is_changed=True))
        for window, value in zip(having, values, strict=True):
            window.value, window.latest_us = value, max(window.latest_us, time_us)
            window.is_changed = True
        for window in new:
            key.put(window)
        return None

    def _keep(self, changed: list[tuple[_Key, _Window]], state: StateTable) -> None:
        windows = [each for _, each in changed]
        starts = np.array([each.start_ms for each in windows], np.int64)
        # Until it is over, if somebody waits for that; else until it is forgotten.
        until = starts + self.difference_ms if self.emit == "final" else self._forgotten_ms(starts)
        values = values_array([each.value for each in windows], self.results.folding.value_type, self.results.operator)
        columns = {
            GROUP: pa.array([key.group for key, _ in changed], pa.binary()),
            SUB: pa.array([_name(each.start_ms) for each in windows], pa.binary()),
            KEYS: self._keys([key for key, _ in changed]),
            START: pa.array(starts),
            VALUE: values,
            TIME: times_array(each.latest_us for each in windows),
            UNTIL: pa.array(until),
        }
        state.put(pa.table(columns))

    def _over(self, due: pa.Table, state: StateTable, watermark_ms: int) -> pa.Table:
        """What comes out of windows that are over. They are due a second time, when they may be forgotten."""
        starts = column(due, START).to_numpy()
        forgotten = self._forgotten_ms(starts)
        is_first = column(due, UNTIL).to_numpy() < forgotten
        again = due.set_column(due.schema.get_field_index(UNTIL), UNTIL, pa.array(forgotten))
        state.put(again.filter(pa.array(is_first & (forgotten > watermark_ms))))
        ready = due.filter(pa.array(is_first)).combine_chunks()
        ready = ready.filter(column(ready, VALUE).is_valid())
        facts = zip(ready[VALUE].to_pylist(), times_of(ready, TIME).tolist(), ready[START].to_pylist(), strict=True)
        return self.results.rows(column(ready, KEYS), [self._change(*each) for each in facts])

    def _change(self, value: Value | None, latest_us: int, start_ms: int) -> Change:
        return Change(value, latest_us, start_ms * US, (start_ms + self.difference_ms) * US)

    def _forgotten_ms(self, starts: Ints) -> Ints:
        """When the right window of a row at the end of each is over, too."""
        return starts + 2 * self.difference_ms + 1

    def _keys(self, keys: list[_Key]) -> pa.Array:
        return pa.array([key.keys for key in keys], self.results.key_type)


def _windows_of(batch: Batch, state: StateTable) -> list[_Key]:
    """Of each key of the batch."""
    rows, counts = state.rows_of(batch.groups)
    facts = zip(rows[START].to_pylist(), rows[VALUE].to_pylist(), times_of(rows, TIME).tolist(), strict=True)
    windows = iter([_Window(start, value, latest, is_known=value is not None) for start, value, latest in facts])
    keys = batch.keys.to_pylist()
    made = []
    for group, key, count in zip(batch.groups, keys, counts, strict=True):
        own = {each.start_ms: each for each in islice(windows, count)}
        made.append(_Key(group, key, own, sorted(own)))
    return made


def _same(entry: Entry) -> Entry:
    return entry


def _name(start_ms: int) -> bytes:
    return start_ms.to_bytes(8, "big", signed=True)
