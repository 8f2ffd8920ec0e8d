from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from headrace.streams.keyed.operator import DELETED
from headrace.streams.keyed.state_table import StateTable
from headrace.streams.keyed.table_join import LEFT, RIGHT, How, TableJoin
from tests.unit.streams.keyed.batches import CLOCK, Row, batch_of, in_counting_order, numbered, some_batches, time_of

KEY = pa.schema([("user", pa.string())])
NAMES = pa.schema([("name", pa.string())])
TIERS = pa.schema([("tier", pa.string())])


class Joined:
    """A join and its state; `of` is a micro-batch, and gives each key's change: both values, or None for a deletion."""

    def __init__(self, how: How) -> None:
        self.operator = TableJoin(how, KEY, NAMES, TIERS)
        self.state = StateTable(self.operator.state_schema)
        self.times: dict[str, int] = {}

    def of(self, *rows: Row) -> dict[str, Any]:
        values = [{"user": row.key, "name" if row.side == LEFT else "tier": _text(row.value)} for row in rows]
        schema = pa.schema([*KEY, *NAMES, *TIERS])
        made = self.operator.step(batch_of(rows, schema, values), self.state, CLOCK)
        assert made.schema.equals(self.operator.output_schema)
        changes = {row["user"]: None if row[DELETED] else (row["name"], row["tier"]) for row in made.to_pylist()}
        assert len(changes) == len(made), "a key has one change per micro-batch"
        self.times = {row["user"]: time_of(row) for row in made.to_pylist()}
        return changes


def left(key: str, value: str | None, time: int = 0, offset: int = 0) -> Row:
    return Row(LEFT, key, time, value, offset=offset)


def right(key: str, value: str | None, time: int = 0, offset: int = 0) -> Row:
    return Row(RIGHT, key, time, value, offset=offset)


def test_an_inner_join_is_there_while_both_rows_are() -> None:
    join = Joined("inner")
    assert join.of(left("a", "Ann"), right("b", "gold")) == {}
    assert join.of(right("a", "lead"), left("b", None)) == {"a": ("Ann", "lead")}
    assert join.of(left("a", "Anna")) == {"a": ("Anna", "lead")}
    assert join.of(left("a", None)) == {"a": None}
    assert join.of(right("a", None)) == {}
    assert len(join.state) == 1


def test_a_left_join_is_there_while_the_left_row_is() -> None:
    join = Joined("left")
    assert join.of(left("a", "Ann"), right("b", "gold")) == {"a": ("Ann", None)}
    assert join.of(right("a", "lead")) == {"a": ("Ann", "lead")}
    assert join.of(right("a", None)) == {"a": ("Ann", None)}
    assert join.of(left("a", None), left("b", "Bob")) == {"a": None, "b": ("Bob", "gold")}


def test_an_outer_join_is_there_while_either_row_is() -> None:
    join = Joined("outer")
    assert join.of(left("a", "Ann"), right("b", "gold")) == {"a": ("Ann", None), "b": (None, "gold")}
    assert join.of(left("a", None), left("b", "Bob")) == {"a": None, "b": ("Bob", "gold")}
    assert join.of(right("b", None)) == {"b": ("Bob", None)}
    assert join.of(left("b", None)) == {"b": None}
    assert len(join.state) == 0


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
def test_a_deletion_of_what_was_not_there_changes_nothing(how: How) -> None:
    join = Joined(how)
    assert join.of(left("a", None), right("b", None)) == {}
    assert join.of(*numbered([left("a", "Ann"), left("a", None)])) == {}
    join.of(left("a", "Ann"))
    assert join.of(right("a", None)) == {}


def test_of_several_changes_of_a_key_the_last_written_counts() -> None:
    join = Joined("inner")
    assert join.of(right("a", "gold", 1), left("a", "late", 1, offset=2), left("a", "early", 9, offset=1)) == {
        "a": ("late", "gold")
    }


def test_a_result_is_as_old_as_the_younger_of_its_rows_and_a_deletion_as_what_deleted_it() -> None:
    join = Joined("inner")
    join.of(left("a", "Ann", 5), right("a", "gold", 3))
    assert join.times == {"a": 5}
    join.of(right("a", "lead", 9))
    assert join.times == {"a": 9}
    join.of(left("a", None, 12))
    assert join.times == {"a": 12}


def test_a_micro_batch_without_rows_changes_nothing() -> None:
    assert Joined("outer").of() == {}


def test_a_table_of_keys_alone_can_be_joined() -> None:
    operator = TableJoin("inner", KEY, NAMES, pa.schema([]))
    rows = [left("a", "Ann"), left("b", "Bob"), right("b", "x")]
    values = [{"user": row.key, "name": row.value if row.side == LEFT else None} for row in rows]
    made = operator.step(batch_of(rows, pa.schema([*KEY, *NAMES]), values), StateTable(operator.state_schema), CLOCK)
    assert made["name"].to_pylist() == ["Bob"]


@pytest.mark.parametrize("how", ["inner", "left", "outer"])
@settings(max_examples=60)
@given(batches=some_batches(sides=2))
def test_the_changes_make_the_table_that_both_tables_make(how: How, batches: list[list[Row]]) -> None:
    join = Joined(how)
    tables: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    result: dict[str, Any] = {}
    for rows in batches:
        for key in {row.key for row in rows}:
            for side, table in enumerate(tables):
                changes = in_counting_order([row for row in rows if row.side == side and row.key == key])
                if changes:
                    table[key] = _text(changes[-1][1].value)
        changes_seen = join.of(*rows)
        assert all(key in result for key, change in changes_seen.items() if change is None), "a needless deletion"
        result = {key: row for key, row in (result | changes_seen).items() if row is not None}
        assert result == _joined(how, *tables)


def _joined(how: How, lefts: dict[str, Any], rights: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    made = {}
    for key in lefts | rights:
        row = (lefts.get(key), rights.get(key))
        wanted = {"inner": None not in row, "left": row[0] is not None, "outer": row != (None, None)}
        if wanted[how]:
            made[key] = row
    return made


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
