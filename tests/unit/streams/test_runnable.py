import pytest

from headrace.streams import App, CannotRunError, Json, PlanError, col, count, max_, session, sliding, tumbling
from headrace.streams.runnable import check_runnable
from tests.unit.streams.pipelines import new_app, orders_of, users_of


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
    tiers = app.global_table("tiers", key="user", value=Json("tier string"))
    joined = orders_of(app).join(tiers, on="user")
    joined.group_by("tier").count(name="one").to("x")
    joined.group_by("tier").windowed(sliding("1m")).count(name="two").to("y")
    with pytest.raises(CannotRunError, match=r"one \(.*two \("):
        check_runnable(app.plan)


def test_what_can_be_run_is_let_through() -> None:
    app = new_app()
    orders = orders_of(app)
    orders.filter(col.amount > 1).to("a")
    orders.group_by("user").windowed(tumbling("1m")).agg(n=count(), most=max_(col.amount)).to("b")
    orders.group_by("user").windowed(session("1m")).count().emit("final").to("c")
    orders.deduplicate("id", within="1m").to("d")
    orders.peek(print).select_key("id").process(print, "id long").to("e")
    orders.join(users_of(app), on="user").to("f")
    orders.group_by("user").windowed(sliding("1m")).count().to("g")
    orders.group_by("user").windowed(session("1m")).count().to("h")
    orders.group_by("user").reduce(max).to("i")
    users_of(app).group_by("tier").count().to("j")
    check_runnable(app.plan)


def test_an_app_that_writes_nothing_is_refused() -> None:
    with pytest.raises(PlanError, match="writes nothing"):
        check_runnable(App("sales", "x").plan)
