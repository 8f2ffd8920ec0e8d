"""What leads to no topic: run for what its functions do, or left out and named."""

from typing import Any

import pytest

from headrace.streams import App, Json, PlanError, col
from headrace.streams.plan import End
from tests.unit.streams.pipelines import new_app, orders_of, users_of


def look(row: Any, *_: Any) -> None:
    """Of interest for what it does."""


def ends_of(app: App) -> list[str]:
    return [sink.input.name for sink in app.plan.sinks if isinstance(sink, End)]


def test_what_leads_to_a_topic_is_not_loose() -> None:
    app = new_app()
    orders = orders_of(app)
    orders.peek(look).select_key("user").process(look, "user string").to("a")
    orders.group_by("user").count().filter(col.count > 1).to("b")
    orders.merge(orders_of(app).filter(col.amount > 1)).to("c")
    assert not app.plan.loose
    assert ends_of(app) == []


def test_the_last_operator_of_a_way_that_leads_nowhere_is_named() -> None:
    app = new_app()
    orders = orders_of(app)
    kept = orders.filter(col.amount > 1, name="used")
    kept.to("a")
    kept.select("id", name="first").filter(col.id > 1, name="second")
    orders.group_by("user").count(name="counts")
    users_of(app).join(app.table("mails", key="user", value=Json("mail string")), name="contacts")
    assert app.plan.loose == ("second", "counts", "contacts")
    assert [node.name for node in app.plan.nodes() if node.name in ("first", "counts", "contacts")] == []
    assert app.explain().endswith("left out, since no topic is written from there: second, counts, contacts\n")


def test_sources_that_nobody_reads_and_choices_that_nobody_takes_are_none_of_them() -> None:
    app = new_app()
    users_of(app)
    orders = orders_of(app)
    orders.branch(big=col.amount > 100, default="small", name="taken")["big"].to("big")
    assert not app.plan.loose
    orders.branch(big=col.amount > 100, default="small", name="not-taken")
    orders.branch(big=col.amount > 100, name="half")["big"].filter(col.id > 1, name="behind")
    assert app.plan.loose == ("not-taken", "behind")


def test_functions_that_are_called_for_what_they_do_are_called_also_if_nobody_reads_their_rows() -> None:
    app = new_app()
    orders = orders_of(app, key="user")
    orders.peek(look, name="seen").filter(col.amount > 1, name="forgotten")
    orders.foreach(look, name="each")
    orders.peek(look, name="before").process(look, "user string", name="watched")
    assert ends_of(app) == ["seen", "each", "watched"]
    assert app.plan.loose == ("forgotten",)
    assert [node.name for node in app.plan.nodes()][-1] == "watched.end"


def test_what_leaves_by_a_data_frame_is_not_loose() -> None:
    app = new_app()
    big = orders_of(app).filter(col.amount > 1)
    app.leave_by(big.node)
    assert not app.plan.loose


def test_the_message_of_a_check_is_a_short_text() -> None:
    orders = orders_of(new_app())
    assert orders.check(col.amount > 1).node.message == "it is not true that amount > 1"
    assert orders.check(look).node.message == "it is not true that look()"
    for wrong in ("", 1, "x" * 1001):
        with pytest.raises(PlanError, match="check: the message is a text of 1 to 1000 characters"):
            orders.check(col.amount > 1, wrong)
