from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given, settings

from headrace.streams.keyed.fold_rows import KEYS, row_column
from headrace.streams.keyed.operator import SIDE, Clock
from headrace.streams.keyed.regrouping import LEAVES, Regroup
from headrace.streams.keyed.state_table import StateTable
from tests.unit.streams.keyed.batches import Row, batch_of, numbered, some_batches

KEY = pa.struct([("tier", pa.int64())])
VALUE = pa.struct([("points", pa.int64())])
SCHEMA = pa.schema([(KEYS, KEY), (row_column(0), VALUE)])


def step(operator: Regroup, state: StateTable, rows: list[Row]) -> list[tuple[str, Any, Any]]:
    """The value of a row is its group, and ten times that its points."""
    values = [
        {KEYS: {"tier": row.value}, row_column(0): {"points": None if row.value is None else row.value * 10}}
        for row in rows
    ]
    made = operator.step(batch_of(rows, SCHEMA, values), state, Clock(None))
    assert made.schema.equals(operator.output_schema)
    return [
        (
            "leaves" if row[SIDE] == LEAVES else "enters",
            row[KEYS]["tier"],
            row[row_column(row[SIDE])]["points"],
        )
        for row in made.to_pylist()
    ]


def test_a_row_that_changes_leaves_its_group_and_enters_another() -> None:
    operator = Regroup(KEY, VALUE)
    state = StateTable(operator.state_schema)
    assert step(operator, state, [Row(0, "ann", 1, 7)]) == [("enters", 7, 70)]
    assert step(operator, state, [Row(0, "ann", 2, 8)]) == [("leaves", 7, 70), ("enters", 8, 80)]
    assert step(operator, state, [Row(0, "ann", 3, None)]) == [("leaves", 8, 80)]
    assert step(operator, state, [Row(0, "ann", 4, None)]) == []
    assert len(state) == 0


def test_of_several_changes_in_a_batch_the_last_counts() -> None:
    operator = Regroup(KEY, VALUE)
    state = StateTable(operator.state_schema)
    assert step(operator, state, numbered([Row(0, "ann", 1, 7), Row(0, "ann", 1, 8)])) == [("enters", 8, 80)]


@settings(max_examples=50, deadline=None)
@given(some_batches(sides=1))
def test_groups_have_what_the_table_has(batches: list[list[Row]]) -> None:
    operator = Regroup(KEY, VALUE)
    state, groups = StateTable(operator.state_schema), Counter[int]()
    for rows in batches:
        for what, tier, _ in step(operator, state, rows):
            groups[tier] += 1 if what == "enters" else -1
        assert +groups == Counter(row["tier"] for row in state.live()[KEYS].to_pylist())
        assert min(groups.values(), default=0) >= 0
