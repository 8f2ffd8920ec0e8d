from typing import Any

import pytest

from headrace.streams import App, Json, Own, col, count, value_state
from headrace.streams.failing import MAX_ERROR_LENGTH, error_text, judges_rows, may_fail
from headrace.streams.plan import DeadLetters, End, LateLetters
from headrace.streams.queries import cut
from tests.unit.streams.pipelines import new_app, orders_of, users_of


def yes(row: dict[str, Any]) -> bool:
    return bool(row)


def no_bytes(row: dict[str, Any]) -> bytes:
    return b"" if row else b"-"


def test_rows_fail_in_decoding_in_checks_and_in_functions_and_nowhere_else() -> None:
    app = new_app()
    orders = orders_of(app, key="user")
    rates = app.global_table("rates", key="country", value=Json("rate double"))
    assert may_fail(orders.node)
    assert not may_fail(rates.node)
    assert not may_fail(orders.filter(col.amount > 1).join(rates, on="country").node)
    assert not may_fail(orders.group_by("user").count().node)
    for stream in (
        orders.check(col.amount > 1),
        users_of(app).check(yes),
        orders.filter(yes),
        orders.map_values(yes, schema="x long"),
        orders.map(yes, "x long"),
        orders.flat_map(yes, "x long"),
        orders.peek(yes),
        orders.process(yes, "user string"),
        orders.group_by("user").reduce(yes),
        orders.group_by("user").aggregate(dict, yes, "n long"),
        orders.group_by("user").cogroup(yes).aggregate(dict, "n long"),
        users_of(app).filter(yes),
    ):
        assert may_fail(stream.node), stream
    assert not judges_rows(orders.branch(a=col.amount > 1)["a"].node.input)
    assert judges_rows(orders.branch(b=col.amount > 1, c=yes)["c"].node.input)
    orders.to("x", value=Own("id long", encode=no_bytes))
    orders.to("y")
    assert [judges_rows(sink) for sink in app.plan.sinks if not isinstance(sink, End)] == [True, False]


def test_an_error_is_told_by_class_and_message_within_a_limit() -> None:
    assert error_text(ZeroDivisionError("division by zero")) == "ZeroDivisionError: division by zero"
    text = error_text(ValueError("x" * 10 * MAX_ERROR_LENGTH))
    assert len(text) == MAX_ERROR_LENGTH
    assert text.endswith("xxx...")


def test_an_error_that_cannot_tell_its_message_is_told() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert "MuteError" in error_text(MuteError())


def dead_letters_of(app: App) -> dict[str, list[str]]:
    """The queries, with the operators whose dead letters they write."""
    return {
        query.name: [sink.input.name for sink in query.sinks if isinstance(sink, DeadLetters)]
        for query in cut(app.plan)
    }


def test_each_operator_in_which_a_row_may_fail_has_dead_letters_in_the_query_that_has_the_row() -> None:
    app = App("sales", "x", dead_letters="dead")
    orders = orders_of(app).filter(yes, name="before")
    counts = orders.group_by("user").count(name="counts").to_stream()
    counts.map_values(yes, schema="x long", name="behind").to("out", value=Own("x long", encode=no_bytes), name="out")
    assert dead_letters_of(app) == {"counts": ["behind", "out"], "source-1.dead": ["source-1", "before"]}


def test_dead_letters_before_state_are_written_by_the_stateless_query_that_shares_their_source() -> None:
    app = App("sales", "x", dead_letters="dead")
    orders = orders_of(app)
    orders.to("copy")
    orders.filter(yes, name="before").group_by("user").count(name="counts").to("out")
    assert dead_letters_of(app) == {"source-1": ["source-1", "before"], "counts": []}


def test_between_two_operators_with_state_a_topic_stands_and_the_first_query_writes_the_dead_letters() -> None:
    app = App("sales", "x", dead_letters="dead")
    once = orders_of(app).deduplicate("id", within="1m", name="once")
    once.filter(yes, name="between").group_by("user").count(name="counts").to("out")
    assert dead_letters_of(app) == {"once": ["between"], "counts": [], "source-1.dead": ["source-1"]}


def test_a_processor_writes_its_own_and_is_cut_off_from_state_behind_it() -> None:
    app = App("sales", "x", dead_letters="dead")
    mine = orders_of(app, key="user").process(yes, "user string", state={"n": value_state("n long")}, name="mine")
    mine.group_by("user").count(name="counts").to("out")
    assert dead_letters_of(app) == {"mine": ["mine"], "counts": [], "source-1.dead": ["source-1"]}


def test_a_fold_writes_its_own_and_is_cut_off_from_state_behind_it() -> None:
    def app(dead_letters: str | None) -> App:
        made = App("sales", "x", dead_letters=dead_letters)
        largest = orders_of(made).group_by("user").reduce(yes, name="largest")
        largest.group_by("country").count(name="counts").to("out")
        return made

    assert dead_letters_of(app("dead")) == {"largest": ["largest"], "counts": [], "source-1.dead": ["source-1"]}
    assert dead_letters_of(app(None)) == {"counts": []}


def test_without_dead_letters_nothing_changes() -> None:
    app = App("sales", "x")
    orders_of(app).filter(yes).group_by("user").agg(n=count(), name="counts").to("out")
    assert dead_letters_of(app) == {"counts": []}


@pytest.mark.parametrize("late", ["drop", "dead_letters"])
def test_late_records_leave_with_the_results_of_operators_that_have_deadlines(late: Any) -> None:
    app = App("sales", "x", dead_letters="dead", late=late)
    orders = orders_of(app)
    orders.deduplicate("id", within="1m", name="once").to("once")
    orders.group_by("user").agg(n=count(), name="running").to("running")
    found = {
        query.name: [sink.name for sink in query.sinks if isinstance(sink, LateLetters)] for query in cut(app.plan)
    }
    assert found == {
        "once": ["once.late"] if late == "dead_letters" else [],
        "running": [],
        "source-1.dead": [],
    }
