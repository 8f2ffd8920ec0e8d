"""Folds without Spark: batches of rows in, results out, and the state that goes outside and comes back in between."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from headrace.streams.functions import Function
from headrace.streams.keyed.aggregating import Aggregating, Part
from headrace.streams.keyed.fold_rows import ERROR, FUNCTION, KEYS, LATE, LETTER, Results, row_column
from headrace.streams.keyed.folding import Folding, FoldingRows, Reducing
from headrace.streams.keyed.operator import DELETED, GROUP, SIDE, TIME, Clock, KeyedOperator
from headrace.streams.keyed.order import OFFSET, PLACE
from headrace.streams.keyed.state_table import StateTable

KEY = pa.struct([("k", pa.string())])
ROW = pa.struct([("v", pa.int64())])
UTC_TIME = pa.timestamp("us", tz="UTC")
RECORD = pa.struct([("value", pa.int64())])  # as a dead letter has it
COUNT = Aggregating((Part("n", "count", None, pa.int64()),))


class In(NamedTuple):
    """A row at so many milliseconds."""

    key: str
    ms: int
    value: int | None = 1
    side: int = 0


def some_batches(low: int, high: int) -> st.SearchStrategy[list[list[In]]]:
    """A few batches over two keys, with times between these."""
    row = st.builds(In, st.sampled_from("ab"), st.integers(low, high), st.integers(0, 9), st.just(0))
    return st.lists(st.lists(row, max_size=6), max_size=5)


def results(folding: Folding, *, windowed: bool, letters: bool = False, late_letters: bool = False) -> Results:
    return Results("fold-1", KEY, folding, windowed, RECORD if letters else None, late_letters)


def reducing(call: Any) -> Reducing:
    return Reducing("reduce-1", Function("tests.call", call), ROW, pa.schema(list(ROW)))


def listing(merge: Any = None) -> FoldingRows:
    """All values, in the order in which they are added."""
    return FoldingRows(
        "fold-1",
        Function("tests.initial", lambda: {"all": []}),
        (
            Function("tests.add", lambda so_far, row: {"all": [*so_far["all"], row["v"]]}),
            Function("tests.subtract", lambda so_far, row: {"all": [*so_far["all"], -row["v"]]}),
        ),
        None if merge is None else Function("tests.merge", merge),
        pa.schema([("all", pa.list_(pa.int64()))]),
    )


def batch_of(rows: Sequence[In], first_offset: int = 0) -> pa.Table:
    columns = {
        GROUP: pa.array([row.key.encode() for row in rows], pa.binary()),
        SIDE: pa.array([row.side for row in rows], pa.int8()),
        TIME: pa.array([row.ms * 1000 for row in rows], pa.int64()).cast(UTC_TIME),
        DELETED: pa.array([False for _ in rows], pa.bool_()),
        PLACE: pa.array([0 for _ in rows], pa.int64()),
        OFFSET: pa.array(range(first_offset, first_offset + len(rows)), pa.int64()),
        KEYS: pa.array([{"k": row.key} for row in rows], KEY),
        LETTER: pa.array([{"value": row.value} for row in rows], RECORD),
    }
    for side in (0, 1):
        columns[row_column(side)] = pa.array([{"v": row.value} if row.side == side else None for row in rows], ROW)
    return pa.table(columns)


class Story:
    """An operator with its state, which is written and read back after each step."""

    def __init__(self, operator: KeyedOperator) -> None:
        self.operator = operator
        self._kept: list[pa.Table] = []
        self._offset = 0
        self.late = 0  # of the last step
        self.dead: list[tuple[int, str, str | None]] = []  # of the last step: the letter, why, and in which function

    @property
    def state(self) -> StateTable:
        return StateTable.of(self.operator.state_schema, self._kept)

    def step(self, *rows: In, watermark: int | None = None) -> list[dict[str, Any]]:
        """What comes out: dicts with window_start and window_end in milliseconds, and without time."""
        state = self.state
        made = self.operator.step(batch_of(rows, self._offset), state, Clock(watermark))
        self._offset += len(rows)
        assert made.schema.equals(self.operator.output_schema)
        if (changes := state.changes()) is not None:
            self._kept.append(changes)
        wakes_at = self.operator.wakes_at(state)
        assert wakes_at is None or watermark is None or wakes_at > watermark
        self.late, self.dead = 0, []
        return [_plain(row) for row in made.to_pylist() if not self._is_beside(row)]

    def _is_beside(self, row: dict[str, Any]) -> bool:
        """Whether it is no result."""
        late, letter, why, function = (row.pop(name, None) for name in (LATE, LETTER, ERROR, FUNCTION))
        self.late += late or 0
        if letter is not None:
            assert all(row[name] is None for name in row if name not in (TIME, DELETED))
            self.dead.append((letter["value"], why, function))
        return letter is not None or late is not None


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    del row[TIME]
    for name in ("window_start", "window_end"):
        if name in row:
            row[name] = pa.scalar(row[name], UTC_TIME).value // 1000
    if not row.pop(DELETED):
        return row
    return {**{name: value for name, value in row.items() if value is not None}, "gone": True}
