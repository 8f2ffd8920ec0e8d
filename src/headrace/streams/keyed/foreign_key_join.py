"""Two tables, of which the left names by its columns a key of the right: many left rows may name the same.

Theory. Three steps, each with other keys, run one after the other within every micro-batch:

1. `Subscriptions`, by the left key, knows which right key each left row names. A row that changes is sent to the right
   key that it names now, and leaves the one that it named before.
2. `Subscribers`, by the right key, has that key's row and all left rows that name it, so that a change of the right row
   reaches them all. It says what becomes of each result, if there was one or will be one.
3. `Settled`, by the left key again: a row that went from one right key to another may have lost a result at the first
   and have got one at the second. What it has got counts.

All three have seen the whole micro-batch when it ends, and only the last change of a key within it goes through them.
So no answer can be overtaken by a later question, which Kafka Streams has to tell by a hash of the left row.

No key here is NULL: a left row that names nothing names a key that no right row can have.
"""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.streams.keyed.operator import DELETED, GROUP, SIDE, SUB, TIME, Clock
from headrace.streams.keyed.order import (
    NONE,
    Bools,
    Groups,
    Ints,
    changes_in_order,
    column,
    groups_of,
    known,
    last_changes,
    numbers,
    stacked,
    taken,
    times_of,
)
from headrace.streams.keyed.state_table import StateTable

How = Literal["inner", "left"]
LEFT: Final = 0
RIGHT: Final = 1
LEFT_KEY: Final = "_left_key"  # binary: the key of the left row
RIGHT_KEY: Final = "_right_key"  # binary: the key of the right row, which a left row names
_THE_RIGHT_ROW: Final = b"\xff"  # as SUB; that of a left row is its key, which is text, and no text is this
_HIDDEN: Final = (pa.field(TIME, pa.timestamp("us", tz="UTC")), pa.field(DELETED, pa.bool_()))


@dataclass(frozen=True)
class Subscriptions:
    """By the left key. Batches have RIGHT_KEY; a row that comes out deleted leaves that right key."""

    left_schema: pa.Schema

    @property
    def state_schema(self) -> pa.Schema:
        return pa.schema([(RIGHT_KEY, pa.binary())])

    @property
    def output_schema(self) -> pa.Schema:
        keys = [(RIGHT_KEY, pa.binary()), (LEFT_KEY, pa.binary())]
        return pa.schema([*keys, *self.left_schema, *_HIDDEN])

    def step(self, batch: pa.Table, state: StateTable, clock: Clock) -> pa.Table:  # noqa: ARG002
        batch = batch.combine_chunks()
        groups = groups_of(batch)
        changes = changes_in_order(batch, groups.codes, np.ones(len(batch), np.bool_))
        last = batch.take(pa.array(last_changes(changes, groups)))
        positions = state.positions(groups.keys)
        named_before = column(state.rows(positions), RIGHT_KEY)
        is_there = ~numbers(last, DELETED)
        stays = is_there & _equal(named_before, column(last, RIGHT_KEY))
        leaves = (positions != NONE) & ~stays
        state.delete(known(key for key, each in zip(groups.keys, is_there.tolist(), strict=True) if not each))
        state.put(last.filter(pa.array(is_there & ~stays)))
        return pa.concat_tables(
            [
                self._sent(last, column(last, RIGHT_KEY), is_there, deleted=False),
                self._sent(last, named_before, leaves, deleted=True),
            ]
        )

    def wakes_at(self, state: StateTable) -> int | None:  # noqa: ARG002
        return None

    def _sent(self, rows: pa.Table, to: pa.Array, which: Bools, *, deleted: bool) -> pa.Table:
        columns = [
            to,
            rows[GROUP],
            *(rows[name] for name in self.left_schema.names),
            rows[TIME],
            pa.array(np.full(len(rows), deleted)),
        ]
        return pa.Table.from_arrays(columns, schema=self.output_schema).filter(pa.array(which))


class _RightRows(NamedTuple):
    """Key by key: the right row's position before the batch, the row of the batch that changes it, and what is after.

    A deletion of what was not there is no change.
    """

    position: Ints
    change: Ints
    after: Bools


class _Results(NamedTuple):
    """Left rows whose results may change: their right keys by number, and where they are from.

    `position` is the left row's before the batch, `change` the row of the batch that changes it. Either may be NONE.
    """

    codes: Ints
    position: Ints
    change: Ints


@dataclass(frozen=True)
class Subscribers:
    """By the right key. Left rows are those that come out of `Subscriptions`; `right_schema` is what the right adds."""

    how: How
    left_schema: pa.Schema
    right_schema: pa.Schema

    @property
    def state_schema(self) -> pa.Schema:
        return pa.schema([(SUB, pa.binary()), *self.left_schema, *self.right_schema, _HIDDEN[0]])

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema([(LEFT_KEY, pa.binary()), *self.left_schema, *self.right_schema, *_HIDDEN])

    def step(self, batch: pa.Table, state: StateTable, clock: Clock) -> pa.Table:  # noqa: ARG002
        batch = batch.append_column(SUB, pc.fill_null(batch[LEFT_KEY], _THE_RIGHT_ROW)).combine_chunks()
        groups = groups_of(batch)
        rights = self._rights(batch, groups, state)
        results = self._results(batch, groups, rights, state)
        made = self._output(batch, rights, results, state)
        self._change(batch, rights, state)
        return made

    def wakes_at(self, state: StateTable) -> int | None:  # noqa: ARG002
        return None

    def _rights(self, batch: pa.Table, groups: Groups, state: StateTable) -> _RightRows:
        last = last_changes(changes_in_order(batch, groups.codes, numbers(batch, SIDE) == RIGHT), groups)
        position = np.array([state.members(key).get(_THE_RIGHT_ROW, NONE) for key in known(groups.keys)], np.int64)
        is_deletion = (last != NONE) & numbers(batch, DELETED)[last]
        change = np.where(is_deletion & (position == NONE), NONE, last)
        return _RightRows(position, change, np.where(change != NONE, ~is_deletion, position != NONE))

    def _results(self, batch: pa.Table, groups: Groups, rights: _RightRows, state: StateTable) -> _Results:
        """Those of the left rows in the batch, and of all others that name a right row which has changed."""
        members = [state.members(key) for key in known(groups.keys)]
        changed = np.flatnonzero(numbers(batch, SIDE) == LEFT)
        codes = groups.codes[changed].tolist()
        left_keys = batch[SUB].take(pa.array(changed)).to_pylist()
        positions = [members[code].get(key, NONE) for code, key in zip(codes, left_keys, strict=True)]
        in_batch = set(positions)
        for code in np.flatnonzero(rights.change != NONE).tolist():
            others = [at for sub, at in members[code].items() if sub != _THE_RIGHT_ROW and at not in in_batch]
            codes.extend([code] * len(others))
            positions.extend(others)
        change = np.full(len(codes), NONE, np.int64)
        change[: len(changed)] = changed
        return _Results(np.array(codes, np.int64), np.array(positions, np.int64), change)

    def _output(self, batch: pa.Table, rights: _RightRows, results: _Results, state: StateTable) -> pa.Table:
        is_left = self.how == "left"
        is_new = results.change != NONE
        left_after = np.where(is_new, ~numbers(batch, DELETED)[results.change], results.position != NONE)
        after = left_after & (rights.after[results.codes] | is_left)
        before = (results.position != NONE) & ((rights.position[results.codes] != NONE) | is_left)
        wanted = np.flatnonzero(before | after)
        lefts = _rows(batch, state, results.change[wanted], results.position[wanted])
        codes = results.codes[wanted]
        right_rows = _rows(batch, state, rights.change[codes], rights.position[codes])
        # The time of a right row that is deleted counts, its columns do not.
        values = taken(right_rows, np.where(rights.after[codes], np.arange(len(codes)), NONE))
        columns = [
            lefts[SUB],
            *(lefts[name] for name in self.left_schema.names),
            *(values[name] for name in self.right_schema.names),
            pa.array(np.maximum(times_of(lefts, TIME), times_of(right_rows, TIME))).cast(_HIDDEN[0].type),
            pa.array(~after[wanted]),
        ]
        return pa.Table.from_arrays(columns, schema=self.output_schema)

    def _change(self, batch: pa.Table, rights: _RightRows, state: StateTable) -> None:
        lefts = np.flatnonzero(numbers(batch, SIDE) == LEFT)
        rows = batch.take(pa.array(np.concatenate([lefts, rights.change[rights.change != NONE]])))
        gone = rows.filter(rows[DELETED])
        state.delete(gone[GROUP].to_pylist(), gone[SUB].to_pylist())
        state.put(rows.filter(pc.invert(rows[DELETED])))


@dataclass(frozen=True)
class Settled:
    """By the left key, over what comes out of `Subscribers`; `schema` is that without LEFT_KEY. It keeps nothing."""

    schema: pa.Schema

    @property
    def state_schema(self) -> pa.Schema:
        return pa.schema([])

    @property
    def output_schema(self) -> pa.Schema:
        return self.schema

    def step(self, batch: pa.Table, state: StateTable, clock: Clock) -> pa.Table:  # noqa: ARG002
        batch = batch.combine_chunks()
        groups = groups_of(batch)
        deletions_first = np.argsort(~numbers(batch, DELETED), kind="stable")
        chosen = np.empty(len(groups.keys), np.int64)
        chosen[groups.codes[deletions_first]] = deletions_first  # of several assignments numpy keeps the last
        return batch.select(self.schema.names).take(pa.array(chosen))

    def wakes_at(self, state: StateTable) -> int | None:  # noqa: ARG002
        return None


def _rows(batch: pa.Table, state: StateTable, change: Ints, position: Ints) -> pa.Table:
    """Each row as it is after its change, if that is not NONE, else as it is in the state; NULLs if it is nowhere."""
    is_new = change != NONE
    kept = state.rows(np.where(is_new, NONE, position))
    both = stacked(batch.select(kept.schema.names), kept)
    return both.take(pa.array(np.where(is_new, change, len(batch) + np.arange(len(change)))))


def _equal(one: pa.Array, other: pa.Array) -> Bools:
    made: Bools = pc.fill_null(pc.equal(one, other), False).to_numpy(zero_copy_only=False)
    return made
