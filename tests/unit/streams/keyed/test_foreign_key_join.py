from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streams.keyed.foreign_key_join import (
    LEFT,
    LEFT_KEY,
    RIGHT,
    RIGHT_KEY,
    How,
    Settled,
    Subscribers,
    Subscriptions,
)
from headrace.streams.keyed.operator import DELETED, GROUP, SIDE, KeyedOperator
from headrace.streams.keyed.order import OFFSET, PLACE
from headrace.streams.keyed.state_table import StateTable
from tests.unit.streams.keyed.batches import CLOCK, Row, batch_of, in_counting_order, numbered, time_of

ORDERS = pa.schema([("id", pa.string()), ("user", pa.string()), ("item", pa.string())])
TIERS = pa.schema([("tier", pa.string())])
NO_USER = b"nobody"  # as the key of a row that names none


class Joined:
    """All steps with their state; `of` is a micro-batch, and gives what becomes of each order: None for a deletion."""

    def __init__(self, how: How) -> None:
        self.subscribers = Subscribers(how, ORDERS, TIERS)
        without_key = self.subscribers.output_schema.remove(0)
        self.steps: list[KeyedOperator] = [Subscriptions(ORDERS), self.subscribers, Settled(without_key)]
        self.states = [StateTable(each.state_schema) for each in self.steps]
        self.times: dict[str, int] = {}

    def of(self, *rows: Row) -> dict[str, Any]:
        """An order's value is its user and its item, a user's is the tier."""
        sent = self._step(0, self._orders([row for row in rows if row.side == LEFT]))
        users = self._users([row for row in rows if row.side == RIGHT])
        answers = self._step(1, pa.concat_tables([_tagged(sent, RIGHT_KEY), users], promote_options="default"))
        made = self._step(2, _tagged(answers, LEFT_KEY)).to_pylist()
        changes = {row["id"]: None if row[DELETED] else (row["user"], row["item"], row["tier"]) for row in made}
        assert len(changes) == len(made), "a key has one change per micro-batch"
        self.times = {row["id"]: time_of(row) for row in made}
        return changes

    def _step(self, number: int, batch: pa.Table) -> pa.Table:
        made = self.steps[number].step(batch, self.states[number], CLOCK)
        assert made.schema.equals(self.steps[number].output_schema)
        return made

    def _orders(self, rows: list[Row]) -> pa.Table:
        users = [None if row.value is None else row.value[0] for row in rows]
        values = [
            {"id": row.key, "user": user, "item": None if row.value is None else row.value[1]}
            for row, user in zip(rows, users, strict=True)
        ]
        keys = pa.array([NO_USER if user is None else user.encode() for user in users], pa.binary())
        return batch_of(rows, ORDERS, values).append_column(RIGHT_KEY, keys)

    def _users(self, rows: list[Row]) -> pa.Table:
        batch = batch_of(rows, TIERS, [{"tier": row.value} for row in rows])
        others = {name: pa.nulls(len(rows), pa.string()) for name in ORDERS.names}
        others[LEFT_KEY] = pa.nulls(len(rows), pa.binary())
        for name, values in others.items():
            batch = batch.append_column(name, values)
        return batch


def _tagged(rows: pa.Table, key: str) -> pa.Table:
    """As the runner hands what one step gives to the next."""
    made = rows.rename_columns({key: GROUP}).append_column(SIDE, pa.array([LEFT] * len(rows), pa.int8()))
    if key == LEFT_KEY:
        made = made.append_column(LEFT_KEY, rows[key])
    for name in (PLACE, OFFSET):
        made = made.append_column(name, pa.array([0] * len(rows), pa.int64()))
    return made


def order(key: str, user: str | None, item: str = "x", time: int = 0, offset: int = 0) -> Row:
    return Row(LEFT, key, time, (user, item), offset=offset)


def no_order(key: str, time: int = 0, offset: int = 0) -> Row:
    return Row(LEFT, key, time, None, offset=offset)


def user(key: str, tier: str | None, time: int = 0, offset: int = 0) -> Row:
    return Row(RIGHT, key, time, tier, offset=offset)


def test_an_inner_join_is_there_while_the_row_names_one_that_is() -> None:
    join = Joined("inner")
    assert join.of(order("1", "ann"), order("2", "bob"), user("bob", "gold")) == {"2": ("bob", "x", "gold")}
    assert join.of(user("ann", "lead")) == {"1": ("ann", "x", "lead")}
    assert join.of(user("bob", None)) == {"2": None}
    assert join.of(no_order("1"), no_order("2")) == {"1": None}
    assert [len(state) for state in join.states] == [0, 1, 0]


def test_a_left_join_gives_every_row() -> None:
    join = Joined("left")
    assert join.of(order("1", "ann"), order("2", None)) == {"1": ("ann", "x", None), "2": (None, "x", None)}
    assert join.of(user("ann", "lead")) == {"1": ("ann", "x", "lead")}
    assert join.of(user("ann", None), user("bob", None)) == {"1": ("ann", "x", None)}
    assert join.of(order("2", "ann"), no_order("1")) == {"1": None, "2": ("ann", "x", None)}


def test_a_change_of_the_right_row_reaches_all_who_name_it() -> None:
    join = Joined("inner")
    join.of(*(order(str(number), "ann") for number in range(50)), order("other", "bob"))
    assert join.of(user("ann", "gold")) == {str(number): ("ann", "x", "gold") for number in range(50)}
    assert join.of(user("ann", None)) == {str(number): None for number in range(50)}


def test_a_row_that_names_another_leaves_the_first() -> None:
    join = Joined("inner")
    join.of(order("1", "ann"), user("ann", "gold"), user("bob", "lead"))
    assert join.of(order("1", "bob")) == {"1": ("bob", "x", "lead")}
    assert join.of(user("ann", "tin")) == {}
    assert join.of(order("1", "nobody there")) == {"1": None}
    assert join.of(order("1", None)) == {}
    assert join.of(user("bob", "tin"), order("1", "bob", "y")) == {"1": ("bob", "y", "tin")}


def test_of_several_names_within_one_micro_batch_the_last_written_counts() -> None:
    join = Joined("inner")
    join.of(order("1", "ann"), user("ann", "gold"), user("bob", "lead"))
    moved = numbered([order("1", "bob"), order("1", "carl"), order("1", "ann", "y"), user("ann", "tin")])
    assert join.of(*moved) == {"1": ("ann", "y", "tin")}
    assert join.of(*numbered([order("1", "bob"), no_order("1"), order("1", "bob", "z")])) == {"1": ("bob", "z", "lead")}
    assert join.of(*numbered([order("1", "ann"), no_order("1")])) == {"1": None}


def test_what_was_not_there_and_will_not_be_gives_no_deletion() -> None:
    join = Joined("inner")
    assert join.of(no_order("1"), user("ann", None)) == {}
    assert join.of(order("1", "ann")) == {}
    assert join.of(order("1", "bob"), user("carl", None)) == {}
    assert join.of(no_order("1")) == {}


def test_a_result_is_as_old_as_the_younger_of_its_rows() -> None:
    join = Joined("inner")
    join.of(order("1", "ann", time=5), user("ann", "gold", time=3))
    assert join.times == {"1": 5}
    join.of(user("ann", "tin", time=9))
    assert join.times == {"1": 9}
    join.of(user("ann", None, time=12))
    assert join.times == {"1": 12}


def test_a_micro_batch_without_rows_changes_nothing() -> None:
    assert Joined("left").of() == {}


_ORDERS = st.builds(
    Row,
    side=st.just(LEFT),
    key=st.sampled_from("123"),
    time=st.integers(0, 5),
    value=st.none() | st.tuples(st.none() | st.sampled_from("ab"), st.sampled_from("xyz")),
    place=st.integers(0, 1),
    offset=st.just(0),
)
_USERS = st.builds(
    Row,
    side=st.just(RIGHT),
    key=st.sampled_from("ab"),
    time=st.integers(0, 5),
    value=st.none() | st.sampled_from(["gold", "lead"]),
    place=st.integers(0, 1),
    offset=st.just(0),
)


@pytest.mark.parametrize("how", ["inner", "left"])
@settings(max_examples=60)
@given(batches=st.lists(st.lists(_ORDERS | _USERS, max_size=10).map(numbered), max_size=5))
def test_the_changes_make_the_table_that_both_tables_make(how: How, batches: list[list[Row]]) -> None:
    join = Joined(how)
    tables: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    result: dict[str, Any] = {}
    for rows in batches:
        for side, table in enumerate(tables):
            for key in {row.key for row in rows if row.side == side}:
                changes = in_counting_order([row for row in rows if row.side == side and row.key == key])
                table[key] = changes[-1][1].value
        changes_seen = join.of(*rows)
        assert all(key in result for key, change in changes_seen.items() if change is None), "a needless deletion"
        result = {key: row for key, row in (result | changes_seen).items() if row is not None}
        assert result == _joined(how, *tables)


def _joined(how: How, orders: dict[str, Any], tiers: dict[str, Any]) -> dict[str, Any]:
    rows = {key: (*value, tiers.get(value[0])) for key, value in orders.items() if value is not None}
    return {key: row for key, row in rows.items() if how == "left" or row[2] is not None}
