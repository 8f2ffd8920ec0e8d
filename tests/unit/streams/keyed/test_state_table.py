from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.streams.keyed.state_table import GROUP, SUB, UNTIL, StateTable

ONE = pa.schema([("v", pa.int64()), ("tags", pa.list_(pa.string()))])
MANY = pa.schema([(SUB, pa.binary()), ("v", pa.int64())])
TIMED = pa.schema([("v", pa.int64()), (UNTIL, pa.int64())])


def one(*rows: tuple[bytes, int | None]) -> pa.Table:
    return pa.table(
        {
            GROUP: pa.array([group for group, _ in rows], pa.binary()),
            "v": pa.array([value for _, value in rows], pa.int64()),
            "tags": pa.array([[str(value)] for _, value in rows], pa.list_(pa.string())),
        }
    )


def many(*rows: tuple[bytes, bytes, int]) -> pa.Table:
    return pa.table(
        {
            GROUP: pa.array([group for group, _, _ in rows], pa.binary()),
            SUB: pa.array([sub for _, sub, _ in rows], pa.binary()),
            "v": pa.array([value for _, _, value in rows], pa.int64()),
        }
    )


def timed(*rows: tuple[bytes, int, int | None]) -> pa.Table:
    groups, values, untils = zip(*rows, strict=True)
    return pa.table({GROUP: pa.array(groups, pa.binary()), "v": pa.array(values), UNTIL: pa.array(untils, pa.int64())})


def is_worth(table: StateTable) -> bool:
    return table.is_worth_rewriting


def content(table: StateTable) -> dict[bytes, int]:
    rows = table.live()
    return dict(zip(rows[GROUP].to_pylist(), rows["v"].to_pylist(), strict=True))


def test_an_empty_table_knows_nobody() -> None:
    table = StateTable(ONE)
    positions = table.positions([b"a", None])
    assert positions.tolist() == [-1, -1]
    assert table.rows(positions).to_pylist() == [{GROUP: None, "v": None, "tags": None}] * 2
    assert len(table) == 0
    assert table.live().num_rows == 0
    assert table.changes() is None


def test_rows_are_found_by_their_group_and_missing_ones_are_nulls() -> None:
    table = StateTable(ONE)
    table.put(one((b"a", 1), (b"b", 2)))
    table.put(one((b"c", 3)))
    found = table.rows(table.positions([b"c", b"x", b"a", None, b"b", b"a"]))
    assert found["v"].to_pylist() == [3, None, 1, None, 2, 1]
    assert found["tags"].to_pylist() == [["3"], None, ["1"], None, ["2"], ["1"]]


def test_a_row_replaces_the_one_before_it_and_the_last_of_one_put_counts() -> None:
    table = StateTable(ONE)
    table.put(one((b"a", 1), (b"b", 2), (b"a", 3)))
    table.put(one((b"b", 4)))
    assert content(table) == {b"a": 3, b"b": 4}
    assert len(table) == 2


def test_a_deleted_row_is_gone_and_can_come_back() -> None:
    table = StateTable(ONE)
    table.put(one((b"a", 1), (b"b", 2)))
    table.delete([b"a", b"never there"])
    assert content(table) == {b"b": 2}
    table.put(one((b"a", 5)))
    assert content(table) == {b"a": 5, b"b": 2}


def test_a_group_may_have_members() -> None:
    table = StateTable(MANY)
    table.put(many((b"a", b"1", 1), (b"a", b"2", 2), (b"b", b"1", 3), (b"a", b"1", 4)))
    members = table.members(b"a")
    assert sorted(members) == [b"1", b"2"]
    assert table.rows(np.array([members[b"1"], members[b"2"]]))["v"].to_pylist() == [4, 2]
    assert table.members(b"x") == {}
    assert sorted(table.groups()) == [b"a", b"b"]
    table.delete([b"a", b"b"], [b"2", b"1"])
    assert sorted(table.members(b"a")) == [b"1"]
    assert list(table.groups()) == [b"a"]
    table.put(many((b"a", b"3", 5)))
    table.delete([b"a"])
    assert len(table) == 0


def test_changes_are_what_happened_since_the_last_time() -> None:
    table = StateTable(ONE)
    table.put(one((b"a", 1), (b"b", 2)))
    first = table.changes()
    assert first is not None
    assert table.changes() is None
    table.put(one((b"b", 3)))
    table.put(one((b"b", 4), (b"c", 5)))
    table.delete([b"a"])
    second = table.changes()
    assert second is not None
    assert [(row[GROUP], row["v"], row["_gone"]) for row in second.to_pylist()] == [
        (b"b", 4, False),
        (b"c", 5, False),
        (b"a", None, True),
    ]
    assert content(StateTable.of(ONE, [first, second])) == {b"b": 4, b"c": 5}


def test_a_row_that_was_deleted_and_put_again_is_not_gone() -> None:
    table = StateTable(ONE)
    table.put(one((b"a", 1)))
    kept = [table.changes()]
    table.delete([b"a"])
    table.put(one((b"a", 2)))
    kept.append(table.changes())
    assert content(StateTable.of(ONE, [chunk for chunk in kept if chunk is not None])) == {b"a": 2}


def test_a_table_that_was_read_back_has_no_changes() -> None:
    table = StateTable(MANY)
    table.put(many((b"a", b"1", 1), (b"a", b"2", 2)))
    table.delete([b"a"], [b"2"])
    chunk = table.changes()
    assert chunk is not None
    again = StateTable.of(MANY, [chunk])
    assert again.changes() is None
    assert dict(again.members(b"a")).keys() == {b"1"}


def test_a_log_that_is_mostly_dead_is_worth_rewriting_and_positions_follow() -> None:
    table = StateTable(ONE)
    table.put(one(*((str(n).encode(), n) for n in range(100))))
    assert not is_worth(table)
    for round_ in range(20):
        table.put(one(*((str(n).encode(), n + round_) for n in range(100))))
    assert is_worth(table)
    whole = table.rewritten()
    assert not is_worth(table)
    assert whole.num_rows == 100
    assert table.changes() is None
    assert content(table) == content(StateTable.of(ONE, [whole])) == {str(n).encode(): n + 19 for n in range(100)}
    assert table.rows(table.positions([b"7"]))["v"].to_pylist() == [26]


def test_many_small_chunks_outside_are_worth_rewriting() -> None:
    table = StateTable(ONE)
    rounds = count()
    while not is_worth(table):
        table.put(one((str(next(rounds)).encode(), 1)))
        table.changes()
    assert 100 < next(rounds) < 1000
    assert len(table.rewritten()) == len(table)
    assert not is_worth(table)


def test_deletions_alone_make_it_worth_rewriting_too() -> None:
    table = StateTable(TIMED)
    at = 0
    while not is_worth(table):
        at += 1
        assert at < 100, "it would grow for ever"
        table.put(timed(*((f"{at}-{n}".encode(), n, at) for n in range(100))))
        table.changes()
        table.pop_due(at)
        table.changes()
    assert len(table) == 0
    assert table.rewritten().num_rows == 0


def test_rows_are_due_in_the_order_of_their_time() -> None:
    table = StateTable(TIMED)
    table.put(timed((b"a", 1, 30), (b"b", 2, 10), (b"c", 3, None), (b"d", 4, 20)))
    assert table.next_due() == 10
    assert table.pop_due(9).num_rows == 0
    assert table.pop_due(20)["v"].to_pylist() == [2, 4]
    assert table.next_due() == 30
    assert content(table) == {b"a": 1, b"c": 3}


def test_a_row_that_was_replaced_is_due_at_its_new_time_only() -> None:
    table = StateTable(TIMED)
    table.put(timed((b"a", 1, 10), (b"b", 2, 15)))
    table.put(timed((b"a", 1, 40)))
    table.delete([b"b"])
    assert table.next_due() == 40
    assert table.pop_due(39).num_rows == 0
    assert table.pop_due(40)["v"].to_pylist() == [1]
    assert table.next_due() is None


def test_asking_what_is_due_forgets_only_rows_that_are_dead() -> None:
    table = StateTable(TIMED)
    table.put(timed(*((key, 1, 10) for key in (b"a", b"b", b"c"))))
    table.put(timed((b"a", 2, 10)))  # its first row, which is the first of all that are due, is dead now
    assert table.next_due() == 10
    table.delete([b"b"])
    assert table.next_due() == 10
    assert sorted(table.pop_due(10)["v"].to_pylist()) == [1, 2]
    assert table.next_due() is None


def test_what_is_due_is_known_after_reading_back_and_after_rewriting() -> None:
    table = StateTable(TIMED)
    table.put(timed((b"a", 1, 10), (b"b", 2, 20)))
    chunk = table.changes()
    assert chunk is not None
    assert StateTable.of(TIMED, [chunk]).pop_due(10)["v"].to_pylist() == [1]
    table.rewritten()
    assert table.pop_due(10)["v"].to_pylist() == [1]


@pytest.mark.parametrize("schema", [ONE, MANY])
def test_a_state_is_asked_in_the_way_of_its_kind(schema: pa.Schema) -> None:
    table = StateTable(schema)
    with pytest.raises(AssertionError):
        table.members(b"a") if schema is ONE else table.positions([b"a"])
    with pytest.raises(AssertionError):
        table.next_due()


_KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
_ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.tuples(_KEYS, st.integers(0, 99)), min_size=1, max_size=4)),
        st.tuples(st.just("delete"), st.lists(_KEYS, max_size=3)),
        st.tuples(st.sampled_from(["save", "rewrite", "load"]), st.just([])),
    ),
    max_size=60,
)


@settings(max_examples=50, deadline=None)
@given(_ACTIONS)
def test_whatever_happens_it_equals_a_dict_and_so_does_what_is_kept_outside(actions: list[tuple[str, Any]]) -> None:
    table, model = StateTable(ONE), dict[bytes, int]()
    outside: list[pa.Table] = []

    def save() -> None:
        if (chunk := table.changes()) is not None:
            outside.append(chunk)

    for action, rows in actions:
        if action == "put":
            table.put(one(*rows))
            model.update(rows)
        elif action == "delete":
            table.delete(rows)
            for key in rows:
                model.pop(key, None)
        elif action == "save":
            save()
        elif action == "rewrite":
            outside[:] = [table.rewritten()]
        else:
            save()
            table = StateTable.of(ONE, outside)
        assert content(table) == model
        assert len(table) == len(model)
        keys = [b"a", b"b", b"c", b"d"]
        assert table.rows(table.positions(keys))["v"].to_pylist() == [model.get(key) for key in keys]
    save()
    assert content(StateTable.of(ONE, outside)) == model
