from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streams.keyed.lookup import STREAM, TABLE, Lookup
from headrace.streams.keyed.operator import DELETED, GROUP
from headrace.streams.keyed.state_table import StateTable
from tests.unit.streams.keyed.batches import (
    CLOCK,
    Row,
    batch_of,
    in_counting_order,
    numbered,
    some_batches,
    time_of,
)

ORDERS = pa.schema([("user", pa.string()), ("id", pa.int64())])
USERS = pa.schema([("tier", pa.string())])
How = Literal["inner", "left"]


class Joined:
    """A join and its state; `of` is a micro-batch."""

    def __init__(self, how: How) -> None:
        self.operator = Lookup(how, ORDERS, USERS)
        self.state = StateTable(self.operator.state_schema)

    def of(self, *rows: Row) -> list[tuple[str, Any, Any]]:
        values = [
            {"user": row.key, "id": row.value} if row.side == STREAM else {"tier": _text(row.value)} for row in rows
        ]
        schema = pa.schema([*ORDERS, *USERS])
        made = self.operator.step(batch_of(rows, schema, values), self.state, CLOCK)
        assert made.schema.equals(self.operator.output_schema)
        assert not any(made[DELETED].to_pylist())
        self.times = [time_of(row) for row in made.to_pylist()]
        return [(row["user"], row["id"], row["tier"]) for row in made.to_pylist()]


def order(key: str, time: int, number: int, offset: int = 0, place: int = 0) -> Row:
    return Row(STREAM, key, time, number, place, offset)


def user(key: str, time: int, tier: str | None, offset: int = 0, place: int = 0) -> Row:
    return Row(TABLE, key, time, tier, place, offset)


def test_a_row_gets_the_tables_row_as_it_is_at_its_time_and_a_change_of_the_same_time_counts() -> None:
    join = Joined("inner")
    rows = [order("a", 9, 1), order("a", 10, 2), order("a", 11, 3), order("a", 20, 4), order("a", 30, 5)]
    changes = [user("a", 10, "gold"), user("a", 20, "lead"), user("a", 30, None)]
    assert join.of(*numbered([*rows, *changes])) == [("a", 2, "gold"), ("a", 3, "gold"), ("a", 4, "lead")]
    assert join.times == [10, 11, 20]


def test_a_left_join_gives_every_row() -> None:
    join = Joined("left")
    assert join.of(order("a", 1, 1), order("b", 1, 2, 1), user("b", 0, "gold")) == [("a", 1, None), ("b", 2, "gold")]
    assert join.of(user("b", 0, None), order("b", 5, 3)) == [("b", 3, None)]
    assert join.of(order("b", 6, 4)) == [("b", 4, None)]
    assert len(join.state) == 0


def test_what_earlier_micro_batches_left_is_there_for_rows_of_any_time() -> None:
    join = Joined("inner")
    assert join.of(user("a", 100, "gold"), user("b", 100, "lead")) == []
    assert join.of(order("a", 1, 1), user("a", 2, "tin"), order("a", 3, 2, offset=1)) == [
        ("a", 1, "gold"),
        ("a", 2, "tin"),
    ]
    assert join.of(order("b", 1, 3), order("c", 1, 4)) == [("b", 3, "lead")]


def test_the_change_with_the_highest_offset_is_the_state_whatever_its_time_is() -> None:
    join = Joined("inner")
    changes = [user("a", 10, "first", offset=1), user("a", 5, "second", offset=2)]
    for given_order in (changes, changes[::-1]):
        rows = join.of(*given_order, order("a", 7, 1, offset=1), order("a", 12, 2, offset=2))
        assert rows[-1] == ("a", 2, "second")
        assert join.of(order("a", 0, 3)) == [("a", 3, "second")]


def test_an_update_that_is_out_of_order_does_not_count_before_the_one_that_it_follows() -> None:
    join = Joined("left")
    changes = [user("a", 10, "first", offset=1), user("a", 5, "second", offset=2)]
    assert join.of(*changes, order("a", 7, 1, offset=1)) == [("a", 1, None)]


def test_rows_leave_in_the_order_of_their_offsets() -> None:
    join = Joined("left")
    rows = [order("b", 5, 3, offset=3), order("a", 9, 1, offset=1), order("a", 1, 2, offset=2)]
    assert [number for _, number, _ in join.of(*rows)] == [1, 2, 3]


def test_a_row_whose_key_is_null_finds_nothing_and_comes_out_of_a_left_join() -> None:
    join = Joined("left")
    rows = [user("a", 0, "gold"), order("a", 1, 1, 1), order("-", 1, 2, 2)]
    batch = batch_of(rows, pa.schema([*ORDERS, *USERS]), [{"tier": "gold"}, {"id": 1}, {"id": 2}])
    keys = pa.array([b"a", b"a", None], pa.binary())
    made = join.operator.step(batch.set_column(0, GROUP, keys), join.state, CLOCK)
    assert made.select(["id", "tier"]).to_pylist() == [{"id": 1, "tier": "gold"}, {"id": 2, "tier": None}]


def test_a_micro_batch_without_rows_gives_none() -> None:
    assert Joined("left").of() == []


def test_a_table_that_adds_no_column_still_chooses() -> None:
    operator = Lookup("inner", ORDERS, pa.schema([]))
    rows = [user("a", 0, "x"), order("a", 1, 1, 1), order("b", 1, 2, 2)]
    values = [{"user": row.key, "id": None if row.side == TABLE else row.value} for row in rows]
    made = operator.step(batch_of(rows, ORDERS, values), StateTable(operator.state_schema), CLOCK)
    assert made["id"].to_pylist() == [1]


@pytest.mark.parametrize("how", ["inner", "left"])
@settings(max_examples=60)
@given(batches=some_batches(sides=2))
def test_it_is_what_one_row_after_the_other_gives(how: How, batches: list[list[Row]]) -> None:
    join = Joined(how)
    table: dict[str, Any] = {}
    for rows in batches:
        with_values = [row for row in rows if row.side == TABLE or row.value is not None]
        assert join.of(*with_values) == _one_by_one(how, with_values, table)


@settings(max_examples=60)
@given(batches=some_batches(sides=2), seed=st.randoms())
def test_the_order_in_which_rows_of_a_micro_batch_come_does_not_matter(batches: list[list[Row]], seed: Any) -> None:
    one, other = Joined("left"), Joined("left")
    for rows in batches:
        shuffled = seed.sample(rows, len(rows))
        assert one.of(*rows) == other.of(*shuffled)


def _one_by_one(how: How, rows: Sequence[Row], table: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    made = []
    changes = {
        key: in_counting_order([row for row in rows if row.side == TABLE and row.key == key])
        for key in {row.key for row in rows}
    }
    for row in sorted((row for row in rows if row.side == STREAM), key=lambda row: (row.place, row.offset)):
        seen = [change for since, change in changes[row.key] if since <= row.time]
        value = seen[-1].value if seen else table.get(row.key)
        if value is not None or how == "left":
            made.append((row.key, row.value, _text(value)))
    table.update({key: each[-1][1].value for key, each in changes.items() if each})
    return made


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
