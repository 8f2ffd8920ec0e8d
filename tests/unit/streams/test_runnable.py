import pytest

from headrace.streams import (
    App,
    CannotRunError,
    Json,
    PlanError,
    PlanWarning,
    col,
    count,
    max_,
    session,
    sliding,
    tumbling,
)
from headrace.streams.runnable import check_runnable
from tests.unit.streams.pipelines import new_app, orders_of, users_of


def test_the_place_of_a_record_is_not_known_to_state_behind_a_global_table_and_all_who_ask_for_it_are_named() -> None:
    app = new_app()
    tiers = app.global_table("tiers", key="user", value=Json("tier string"))
    joined = orders_of(app).join(tiers, on="user")
    joined.group_by("tier").count(name="fine").to("a")
    joined.filter(col._topic == "orders").group_by("tier").count(name="before").to("b")
    orders_of(app).group_by(where=col._topic).count().to("c")
    check_runnable(app.plan)
    joined.group_by(where=col._topic).count(name="one").to("x")
    joined.group_by("tier").agg(last=max_(col._offset), name="two").to("y")
    joined.deduplicate("id", within="1m").filter(col._partition > 0, name="three").to("z")
    with pytest.raises(CannotRunError, match=r"one \(_topic behind .*two \(_offset behind .*three \(_partition behind"):
        check_runnable(app.plan)


def test_what_leads_to_no_topic_is_warned_of_by_name() -> None:
    app = new_app()
    orders = orders_of(app)
    orders.to("copy")
    orders.filter(col.amount > 1, name="forgotten")
    with pytest.warns(PlanWarning, match=r"'sales' leaves out forgotten, from where no topic is written: end"):
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
