from collections.abc import Callable
from typing import Any

import pytest

from headrace.streams import App, CannotRunError, Json, PlanError, col, count, max_, session, sliding, tumbling
from headrace.streams.runnable import check_runnable
from tests.unit.streams.pipelines import new_app, orders_of, users_of


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (lambda o, u: o.join(u, on="user").to("x"), "lookup-1 (lookup operators)"),
        (lambda o, u: o.peek(print).to("x"), "peek-1"),
        (lambda o, u: o.group_by("user").windowed(sliding("1m")).count().to("x"), "sliding windows"),
        (lambda o, u: o.group_by("user").windowed(session("1m")).count().to("x"), 'emit("final") runs'),
        (lambda o, u: u.group_by("tier").count().to("x"), "by to_stream()"),
        (lambda o, u: o.group_by("user").reduce(max).to("x"), "reduce-1"),
        (lambda o, u: u.join(u.select(level=col.tier)).to("x"), "table-join-1"),
        (lambda o, u: o.select_key("id").process(print, "id long", name="mine").to("x"), "mine (process operators)"),
    ],
)
def test_an_operator_that_cannot_be_run_yet_is_named(write: Callable[[Any, Any], Any], reason: str) -> None:
    app = new_app()
    write(orders_of(app), users_of(app))
    with pytest.raises(CannotRunError) as caught:
        check_runnable(app.plan)
    assert reason in str(caught.value)


def test_state_behind_a_global_table_is_refused_and_a_global_table_behind_state_is_not() -> None:
    app = new_app()
    tiers = app.global_table("tiers", key="user", value=Json("tier string"))
    orders_of(app).group_by("user").count().to_stream().join(tiers, on="user").to("fine")
    check_runnable(app.plan)
    orders_of(app).join(tiers, on="user").group_by("tier").count(name="mine").to("x")
    with pytest.raises(CannotRunError, match=r"mine \(state behind a join with a global table; write"):
        check_runnable(app.plan)


def test_all_of_them_are_named_at_once() -> None:
    app = new_app()
    orders = orders_of(app)
    orders.peek(print, name="one").to("x")
    orders.group_by("user").reduce(max, name="two").to("y")
    with pytest.raises(CannotRunError, match=r"one \(.*two \("):
        check_runnable(app.plan)


def test_what_can_be_run_is_let_through() -> None:
    app = new_app()
    orders = orders_of(app)
    orders.filter(col.amount > 1).to("a")
    orders.group_by("user").windowed(tumbling("1m")).agg(n=count(), most=max_(col.amount)).to("b")
    orders.group_by("user").windowed(session("1m")).count().emit("final").to("c")
    orders.deduplicate("id", within="1m").to("d")
    check_runnable(app.plan)


def test_an_app_that_writes_nothing_is_refused() -> None:
    with pytest.raises(PlanError, match="writes nothing"):
        check_runnable(App("sales", "x").plan)
