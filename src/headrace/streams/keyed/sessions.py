"""Folds over sessions: rows of a key with at most the gap between one and the next.

A session begins with its first row and ends the gap after its last. A row between two sessions makes one of them. The
key of a result has both ends, so that a session that grows is a new row, and the old one is deleted, as in Kafka
Streams. When the watermark has come to the end of a session it is over: given, if results are final, and forgotten. A
row is late if the session that it would belong to is over.
"""

from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import pyarrow as pa

from headrace.streams.keyed.careful import add_rows, late_rows
from headrace.streams.keyed.fold_rows import (
    END,
    KEYS,
    START,
    US,
    VALUE,
    Batch,
    Change,
    Dead,
    Entry,
    Results,
    batch_of,
)
from headrace.streams.keyed.folding import Folding, Value, values_array
from headrace.streams.keyed.operator import GROUP, SUB, UNTIL, Clock
from headrace.streams.keyed.order import column
from headrace.streams.keyed.state_table import StateTable


@dataclass(slots=True, eq=False)
class _Session:
    """From its first row to its last, in microseconds."""

    start: int
    last: int
    value: Value
    is_new: bool = False

    @property
    def name(self) -> bytes:
        return self.start.to_bytes(8, "big", signed=True) + self.last.to_bytes(8, "big", signed=True)


@dataclass(slots=True, eq=False)
class _Key:
    """The sessions of a key, in order, and those that were there before the batch and are not there any more."""

    group: bytes
    keys: dict[str, Any]
    sessions: list[_Session]
    gone: list[_Session] = field(default_factory=list)
    latest: int = 0


@dataclass(frozen=True)
class FoldSessions:
    results: Results
    gap_ms: int
    emit: Literal["changes", "final"] = "changes"

    @property
    def state_schema(self) -> pa.Schema:
        return pa.schema(
            [
                pa.field(SUB, pa.binary()),
                pa.field(KEYS, self.results.key_type),
                pa.field(START, pa.int64()),
                pa.field(END, pa.int64()),
                pa.field(VALUE, self.results.folding.value_type),
                pa.field(UNTIL, pa.int64()),
            ]
        )

    @property
    def output_schema(self) -> pa.Schema:
        return self.results.schema

    def step(self, batch: pa.Table, state: StateTable, clock: Clock) -> pa.Table:
        made = []
        if clock.watermark_ms is not None:
            over = state.pop_due(clock.watermark_ms)
            if self.emit == "final":
                made.append(self._kept(over))
        if len(batch):
            rows = batch_of(batch)
            touched, dead = self._add(rows, state, clock)
            self._keep(touched, state)
            if self.emit == "changes":
                made.append(self._changes(touched))
            if dead:
                made.append(self.results.dead(rows, dead))
        return pa.concat_tables([self.output_schema.empty_table(), *made])

    def wakes_at(self, state: StateTable) -> int | None:
        return state.next_due()

    def _add(self, batch: Batch, state: StateTable, clock: Clock) -> tuple[list[_Key], list[Dead]]:
        over_us = None if clock.watermark_ms is None else clock.watermark_ms * US
        touched, dead, late = add_rows(
            batch,
            self.results,
            load=lambda: _sessions_of(batch, state),
            add=lambda key, entry, folding: self._add_row(key, entry, folding, over_us),
            values=lambda key: [each.value for each in key.sessions if each.is_new],
        )
        return touched, dead + late_rows(self.results, late, clock.watermark_ms or 0)

    def _add_row(self, key: _Key, entry: Entry, folding: Folding, over_us: int | None) -> int | None:
        at, gap = entry[-1][0], self.gap_ms * US
        near = [each for each in key.sessions if each.start - gap <= at <= each.last + gap]
        start = min([at, *(each.start for each in near)])
        last = max([at, *(each.last for each in near)])
        if over_us is not None and last + gap <= over_us:
            return last + gap
        value = folding.add(_merged(near, folding), *entry)
        key.gone.extend(each for each in near if not each.is_new)
        key.sessions = [each for each in key.sessions if each not in near]
        if value is not None:
            key.sessions.append(_Session(start, last, value, is_new=True))
            key.sessions.sort(key=lambda each: each.start)
        key.latest = max(key.latest, at)
        return None

    def _keep(self, touched: list[_Key], state: StateTable) -> None:
        gone = [(key.group, each.name) for key in touched for each in key.gone]
        state.delete([group for group, _ in gone], [name for _, name in gone])
        new = [(key, each) for key in touched for each in key.sessions if each.is_new]
        values = [each.value for _, each in new]
        columns = {
            GROUP: pa.array([key.group for key, _ in new], pa.binary()),
            SUB: pa.array([each.name for _, each in new], pa.binary()),
            KEYS: pa.array([key.keys for key, _ in new], self.results.key_type),
            START: pa.array([each.start for _, each in new], pa.int64()),
            END: pa.array([each.last for _, each in new], pa.int64()),
            VALUE: values_array([*values], self.results.folding.value_type, self.results.operator),
            UNTIL: pa.array([-(-self._end(each.last) // US) for _, each in new], pa.int64()),
        }
        state.put(pa.table(columns))

    def _changes(self, touched: list[_Key]) -> pa.Table:
        keys, changes = [], []
        for key in touched:
            new = [each for each in key.sessions if each.is_new]
            there = {each.name for each in new}
            for each in key.gone:
                if each.name not in there:
                    keys.append(key.keys)
                    changes.append(Change(None, key.latest, each.start, self._end(each.last)))
            for each in new:
                keys.append(key.keys)
                changes.append(Change(each.value, each.last, each.start, self._end(each.last)))
        return self.results.rows(pa.array(keys, self.results.key_type), changes)

    def _kept(self, rows: pa.Table) -> pa.Table:
        facts = zip(rows[VALUE].to_pylist(), rows[START].to_pylist(), rows[END].to_pylist(), strict=True)
        changes = [Change(value, last, start, self._end(last)) for value, start, last in facts]
        return self.results.rows(column(rows, KEYS), changes)

    def _end(self, last: int) -> int:
        return last + self.gap_ms * US


def _sessions_of(batch: Batch, state: StateTable) -> list[_Key]:
    """Of each key of the batch."""
    rows, counts = state.rows_of(batch.groups)
    facts = zip(rows[START].to_pylist(), rows[END].to_pylist(), rows[VALUE].to_pylist(), strict=True)
    sessions = iter([_Session(*each) for each in facts])
    keys = batch.keys.to_pylist()
    made = []
    for group, key, count in zip(batch.groups, keys, counts, strict=True):
        made.append(_Key(group, key, sorted(islice(sessions, count), key=lambda each: each.start)))
    return made


def _merged(sessions: list[_Session], folding: Folding) -> Value | None:
    value: Value | None = None
    for each in sessions:
        value = each.value if value is None else folding.merge(value, each.value)
    return value
