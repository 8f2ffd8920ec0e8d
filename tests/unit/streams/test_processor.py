"""Processors and what they keep, over stores of this test that hold what Spark's would."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.streams import PlanError, list_state, map_state, value_state
from headrace.streams.functions import function_of
from headrace.streams.processor import Context, Input, Output, Processor, Run, new_run
from headrace.streams.processor_states import ListState, MapState, Timers, ValueState, from_ms, to_ms
from tests.unit.streams.pipelines import new_app, orders_of

AT = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Store:
    """That takes whatever it is given."""

    def fit(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return values

    fit_key = fit


class ValueStore(Store):
    def __init__(self) -> None:
        self.value: Any = None
        self.calls = 0

    def get(self) -> Any:
        self.calls += 1
        return self.value

    def update(self, value: Any) -> None:
        self.calls += 1
        self.value = value

    def clear(self) -> None:
        self.update(None)


class ListStore(Store):
    def __init__(self) -> None:
        self.values: list[Any] = []

    def get(self) -> Iterator[Any]:
        return iter(list(self.values))

    def put(self, values: list[Any]) -> None:
        assert values, "Spark refuses an empty list"
        self.values = list(values)

    def appendList(self, values: list[Any]) -> None:
        self.values += values

    def clear(self) -> None:
        self.values = []


class MapStore(Store):
    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}

    def getValue(self, key: Any) -> Any:
        return self.values.get(key)

    def updateValue(self, key: Any, value: Any) -> None:
        self.values[key] = value

    def removeKey(self, key: Any) -> None:
        self.values.pop(key, None)

    def iterator(self) -> Iterator[Any]:
        return iter(list(self.values.items()))

    def clear(self) -> None:
        self.values = {}


class TimerStore:
    def __init__(self) -> None:
        self.timers: set[int] = set()

    def registerTimer(self, at: int) -> None:
        self.timers.add(at)

    def deleteTimer(self, at: int) -> None:
        self.timers.discard(at)

    def listTimers(self) -> Iterator[int]:
        return iter(sorted(self.timers))


STATES = (
    ("all", list_state("n long")),
    ("by", map_state("word string", "n long")),
    ("one", value_state("n long, word string")),
)


class Task:
    """A processor with stores for one key."""

    def __init__(
        self, function: Callable[..., Any], on_timer: Any = None, *, stops: bool = False, time: str | None = "event"
    ) -> None:
        self.stores: dict[str, Any] = {"all": ListStore(), "by": MapStore(), "one": ValueStore()}
        self.timers = TimerStore()
        self.run: Run = new_run(STATES, self.stores, self.timers, time)
        timer = None if on_timer is None else function_of(on_timer, where="test")
        made = function_of(function, where="test")
        self.processor = Processor("mine", made, timer, ("user",), ("user", "n"), stops=stops)

    def rows(self, *inputs: Input, now: datetime | None = AT) -> list[Output]:
        self.run.at({"user": "ann"}, now)
        return list(self.processor.rows(self.run, inputs))

    def timer(self, at: datetime) -> list[Output]:
        self.run.at({"user": "ann"}, at)
        return list(self.processor.timer(self.run, at))


def given(n: int, seconds: int = 0, *order: Any) -> Input:
    return Input({"user": "ann", "n": n}, AT + seconds * SECOND, False, order)


def counting(row: dict[str, Any], context: Context) -> Iterator[dict[str, Any]]:
    one = context.value("one")
    n = (one.get() or {"n": 0})["n"] + row["n"]
    one.set(n=n)
    context.list("all").append(n=row["n"])
    context.map("by").set("x", n=n)
    context.timers.after("1m")
    if row["n"] < 0:
        raise ValueError("negative")
    yield {"n": n}


def test_rows_come_in_the_order_of_time_then_of_their_place() -> None:
    seen: list[int] = []
    task = Task(lambda row, context: seen.append(row["n"]))
    task.rows(given(4, 2), given(3, 1, "t", 1, 0), given(2, 1, "t", 0, 7), given(1, 1, "t", 0, 6), given(0, 0))
    assert seen == [0, 1, 2, 3, 4]


def test_what_is_yielded_has_the_time_of_its_row_and_the_columns_of_the_key() -> None:
    outputs = Task(counting).rows(given(1), given(2, 5))
    assert outputs == [Output(AT, {"user": "ann", "n": 1}), Output(AT + 5 * SECOND, {"user": "ann", "n": 3})]


@pytest.mark.parametrize(
    ("result", "rows"), [(None, 0), ({"n": 1}, 1), ([{"n": 1}, {"n": 2}], 2), ((), 0)], ids=["None", "dict", "list", ""]
)
def test_a_function_may_give_nothing_a_dict_or_many(result: Any, rows: int) -> None:
    assert len(Task(lambda row, context: result).rows(given(1))) == rows


@pytest.mark.parametrize("result", [[1], 1, [{"other": 1}]], ids=str)
def test_what_is_no_dict_of_the_schemas_columns_is_an_error(result: Any) -> None:
    (output,) = Task(lambda row, context: result).rows(given(1))
    assert output.error is not None


def test_a_row_that_fails_has_changed_nothing_and_those_around_it_have() -> None:
    task = Task(counting)
    bad = given(-5, 1)
    outputs = task.rows(given(1), bad, given(2, 2))
    assert [(output.row.get("n"), output.error) for output in outputs] == [
        (1, None),
        (None, "ValueError: negative"),
        (3, None),
    ]
    assert outputs[1].failed is bad
    assert outputs[1].function is not None
    assert outputs[1].function.endswith("counting")
    assert task.stores["one"].value == (3, None)
    assert task.stores["all"].values == [(1,), (2,)]
    assert task.stores["by"].values == {("x",): (3,)}
    assert task.timers.timers == {to_ms(AT + 60 * SECOND), to_ms(AT + 62 * SECOND)}


def test_a_row_that_fails_has_not_changed_what_is_inside_a_state_either() -> None:
    ids = "ids array<long>"
    states = (("all", list_state(ids)), ("by", map_state("word string", ids)), ("one", value_state(ids)))
    stores: dict[str, Any] = {"all": ListStore(), "by": MapStore(), "one": ValueStore()}

    def adding(row: dict[str, Any], context: Context) -> None:
        known = [*context.list("all"), context.map("by").get("x"), context.value("one").get()]
        found = [each["ids"] for each in known if each is not None] or [[], [], []]
        for each in found:
            each.append(row["n"])
        context.list("all").set([{"ids": found[0]}])
        context.map("by").set("x", ids=found[1])
        context.value("one").set(ids=found[2])
        for each in found:
            each.append(0)  # what becomes of it afterwards is the function's own affair
        if row["n"] < 0:
            raise ValueError("negative")

    run = new_run(states, stores, None, None)
    run.at({"user": "ann"}, None)
    processor = Processor("mine", function_of(adding, where="test"), None, ("user",), ("user", "n"), stops=False)
    assert len(list(processor.rows(run, [given(1), given(-5, 1), given(2, 2)]))) == 1
    assert stores["all"].values == [([1, 2],)]
    assert stores["by"].values == {("x",): ([1, 2],)}
    assert stores["one"].value == ([1, 2],)


def test_without_dead_letters_it_stops_with_the_place() -> None:
    task = Task(counting, stops=True)
    with pytest.raises(RuntimeError, match=r"mine: counting\(\) raised for the record at offset 7 of t-0: .*negative"):
        task.rows(given(-1, 0, "t", 0, 7))
    assert task.stores["one"].value is None


def test_a_value_that_many_rows_change_is_read_and_written_once() -> None:
    task = Task(counting)
    task.rows(*(given(1, second) for second in range(100)))
    assert task.stores["one"].value == (100, None)
    assert task.stores["one"].calls == 2


def test_between_two_keys_nothing_is_held() -> None:
    task = Task(counting)
    task.rows(given(1))
    task.stores["one"].value = (10, None)  # of the next key
    assert [output.row["n"] for output in task.rows(given(1))] == [11]


def test_timers_call_with_their_time_and_may_set_others() -> None:
    def due(context: Context) -> Iterator[dict[str, Any]]:
        assert context.time == AT
        assert context.timers.all() == []
        context.timers.after("5s")
        context.value("one").clear()
        yield {"n": 0}

    task = Task(counting, due)
    task.timers.timers = {to_ms(AT)}
    task.stores["one"].value = (1, None)
    assert task.timer(AT) == [Output(AT, {"user": "ann", "n": 0})]
    assert task.stores["one"].value is None
    assert task.timers.timers == {to_ms(AT), to_ms(AT + 5 * SECOND)}


def test_a_timer_that_fails_says_so() -> None:
    task = Task(counting, lambda context: 1 / 0)
    (output,) = task.timer(AT)
    assert (output.error, output.failed) == ("ZeroDivisionError: division by zero", None)
    stopping = Task(counting, lambda context: 1 / 0, stops=True)
    with pytest.raises(RuntimeError, match=r"the timer at 2026-01-01 00:00:00\+00:00 of the key {'user': 'ann'}"):
        stopping.timer(AT)


def test_timers_in_processing_time_count_from_now() -> None:
    task = Task(counting, time="processing")
    task.rows(given(1), now=AT + 100 * SECOND)
    assert task.timers.timers == {to_ms(AT + 160 * SECOND)}


def test_a_processor_without_timers_has_none_and_its_now_is_the_time_of_the_row() -> None:
    def look(row: dict[str, Any], context: Context) -> None:
        assert context.now == context.time == AT
        context.timers.after("1s")

    (output,) = Task(look, time=None).rows(given(1), now=None)
    assert output.error is not None
    assert 'timers="event"' in output.error


def test_a_state_that_is_not_there_is_named_with_those_that_are() -> None:
    (output,) = Task(lambda row, context: context.value("by")).rows(given(1))
    assert output.error is not None
    assert "no ValueState 'by'" in output.error
    assert "by (MapState)" in output.error


def test_a_column_that_a_state_has_not_is_refused() -> None:
    with pytest.raises(KeyError, match="no column 'm'; it has n"):
        ValueState("one", ("n",), ValueStore()).set(m=1)


def test_a_value_is_a_dict_of_its_columns() -> None:
    state = ValueState("one", ("n", "word"), ValueStore())
    assert state.get() is None
    state.set({"n": 1}, word="a")
    assert state.get() == {"n": 1, "word": "a"}


def test_a_list_is_appended_to_replaced_and_cleared() -> None:
    store = ListStore()
    store.values = [(1,)]
    state = ListState("all", ("n",), store)
    state.append(n=2)
    assert [row["n"] for row in state] == [1, 2]
    assert len(state) == 2
    state.flush()
    assert store.values == [(1,), (2,)]
    state.mark()
    state.set([{"n": 3}])
    state.append(n=4)
    state.undo()
    state.append(n=5)
    state.flush()
    assert store.values == [(1,), (2,), (5,)]
    state.set([{"n": 6}])
    state.flush()
    assert store.values == [(6,)]
    state.clear()
    assert list(state) == []
    state.flush()
    assert store.values == []


def test_a_map_is_read_through_its_changes() -> None:
    store = MapStore()
    store.values = {("a",): (1,), ("b",): (2,)}
    state = MapState("by", ("word",), ("n",), store)
    state.set("c", n=3)
    state.delete("a")
    assert dict(state.items()) == {"b": {"n": 2}, "c": {"n": 3}}
    assert ("b" in state, "a" in state, len(state), sorted(state)) == (True, False, 2, ["b", "c"])
    state.flush()
    assert store.values == {("b",): (2,), ("c",): (3,)}
    state.mark()
    state.set("b", n=9)
    state.clear()
    state.set("d", n=4)
    assert list(state.keys()) == ["d"]
    state.undo()
    assert state.get("b") == {"n": 2}
    state.clear()
    state.set("e", n=5)
    state.delete("b")
    state.flush()
    assert store.values == {("e",): (5,)}


def test_keys_of_several_columns_are_tuples() -> None:
    state = MapState("by", ("a", "b"), ("n",), MapStore())
    state.set((1, 2), n=3)
    assert list(state.keys()) == [(1, 2)]
    with pytest.raises(KeyError, match=r"keys of \(a, b\), and 1 is none"):
        state.get(1)


def test_timers_are_set_cancelled_and_listed() -> None:
    store = TimerStore()
    store.timers = {to_ms(AT)}
    timers = Timers(store)
    timers.set(AT + SECOND)
    timers.mark()
    timers.cancel(AT)
    timers.undo()
    assert timers.all() == [AT, AT + SECOND]
    timers.cancel(AT)
    timers.flush()
    assert store.timers == {to_ms(AT + SECOND)}
    with pytest.raises(ValueError, match="no time zone"):
        timers.set(datetime(2026, 1, 1))


def test_milliseconds_go_there_and_back_also_before_1970() -> None:
    for milliseconds in (0, 1, -1, 1_767_225_600_123):
        assert to_ms(from_ms(milliseconds)) == milliseconds


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"timers": "event"}, "give both or none"),
        ({"on_timer": print}, "give both or none"),
        ({"timers": "sometimes", "on_timer": print}, "must be"),
        ({"timers": "event", "on_timer": print, "state": {"s": value_state("n long", ttl="1h")}}, "time to live"),
    ],
)
def test_a_processor_that_cannot_be_is_refused(options: dict[str, Any], reason: str) -> None:
    stream = orders_of(new_app(), key="user")
    with pytest.raises(PlanError, match=reason):
        stream.process(print, "user string", **options)
