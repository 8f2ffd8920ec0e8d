from collections.abc import Callable
from typing import Any

import pytest

from headrace.streams import App, Json, Verdict, avg, col, compatible, count, sum_, tumbling
from headrace.streams.compatibility import verdict
from headrace.streams.plan import Plan
from tests.unit.streams.pipelines import PIPELINES, new_app


def app_of(write: Callable[[App, Any], object], schema: str = "id long, user string, amount double") -> App:
    app = new_app()
    write(app, app.stream("orders", value=Json(schema)))
    return app


def windows(orders: Any, size: str = "1m", by: str = "user", name: str = "per-user", **aggregations: Any) -> Any:
    return orders.group_by(by).windowed(tumbling(size)).agg(name=name, **(aggregations or {"n": count()}))


def original(app: App, orders: Any) -> None:
    windows(orders).to("counts")


def between(change: Callable[[App, Any], object], **options: Any) -> list[Any]:
    return compatible(app_of(original).plan, app_of(change, **options).plan)


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: pipeline.__name__)
def test_a_plan_is_compatible_with_itself(pipeline: Callable[[], App]) -> None:
    assert compatible(pipeline().plan, pipeline().plan) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda app, orders: windows(orders.filter(col.amount > 0)).to("counts"),
        lambda app, orders: windows(orders).filter(col.n > 1).to("elsewhere"),
        lambda app, orders: windows(orders.select("user", "id")).to("counts"),
    ],
)
def test_stateless_operators_and_sinks_change_freely(change: Callable[[App, Any], object]) -> None:
    assert between(change) == []


def test_a_source_may_get_more_columns() -> None:
    assert between(original, schema="id long, user string, amount double, more string") == []


def test_a_stream_that_is_joined_with_a_table_may_get_more_columns_and_the_table_may_not() -> None:
    def plan(orders: str, users: str) -> Plan:
        app = new_app()
        table = app.table("users", key="user", value=Json(users))
        app.stream("orders", value=Json(orders)).join(table, on="user", name="known").to("known")
        return app.plan

    before = plan("user string", "tier string")
    assert compatible(before, plan("user string, amount double", "tier string")) == []
    (difference,) = compatible(before, plan("user string", "tier string, since long"))
    assert str(difference).startswith("known: column 'since' was not there and is bigint")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda app, orders: windows(orders, size="2m").to("counts"), "window was tumbling 1m and is tumbling 2m"),
        (lambda app, orders: windows(orders, by="id").to("counts"), "keys was ((user, user)) and is ((id, id))"),
        (lambda app, orders: windows(orders, n=sum_(col.id)).to("counts"), "aggregations was ((n, count(*)))"),
        (lambda app, orders: windows(orders).emit("final").to("counts"), "it was run by update, now by append"),
        (lambda app, orders: windows(orders, name="renamed").to("counts"), "while one of its kind is gone"),
        (lambda app, orders: windows(orders.deduplicate("id", within="1m")).to("counts"), "new in query 'per-user'"),
        (lambda app, orders: windows(app.stream("b", value=Json("user string"), name="b")).to("counts"), "'per-user'"),
        (
            lambda app, orders: orders.select_key("user").process(print, "user string", name="per-user").to("x"),
            "Process",
        ),
    ],
)
def test_what_changes_the_state_needs_a_rebuild_and_says_why(change: Callable[[App, Any], object], what: str) -> None:
    differences = between(change)
    assert verdict(differences) is Verdict.REBUILD
    assert any(what in difference.what for difference in differences), differences


def test_a_key_of_another_type_needs_a_rebuild() -> None:
    (difference,) = between(original, schema="id long, user long, amount double")
    assert difference.verdict is Verdict.REBUILD
    assert difference.what == "column 'user' was string and is bigint"
    assert "Reset the app" in str(difference)


def test_columns_that_wait_in_a_join_of_streams_must_keep_their_order() -> None:
    def plan(orders: str) -> Plan:
        app = new_app()
        paid = app.stream("payments", value=Json("id long, cents long"))
        app.stream("orders", value=Json(orders)).join(paid, on="id", within="1m", name="paid").to("paid")
        return app.plan

    before = plan("id long, user string, city string")
    assert compatible(before, plan("id long, user string, city string")) == []
    (difference,) = compatible(before, plan("id long, city string, user string"))
    assert difference.what == "it kept the columns id, user, city in this order, now id, city, user"
    assert difference.verdict is Verdict.REBUILD


def test_columns_of_states_that_know_them_by_name_may_change_their_order() -> None:
    def plan(columns: str) -> Plan:
        app = new_app()
        table = app.table("users", key="user", value=Json(columns))
        app.stream("orders", value=Json("user string")).join(table, on="user", name="known").to("known")
        return app.plan

    assert compatible(plan("city string, tier string"), plan("tier string, city string")) == []


@pytest.mark.parametrize("how", ["tables", "merged"])
def test_sources_of_a_query_must_keep_their_order(how: str) -> None:
    def plan(*topics: str) -> Plan:
        app = new_app()
        if how == "tables":
            one, other = (app.table(name, key="id", value=Json(f"{name} long"), name=name) for name in topics)
            one.join(other, name="both").to("both")
        else:
            first, second = (app.stream(name, value=Json("id long"), name=name) for name in topics)
            second.merge(first.filter(col.id > 0)).group_by("id").count(name="both").to("both")
        return app.plan

    assert compatible(plan("a", "b"), plan("a", "b")) == []
    (difference,) = compatible(plan("a", "b"), plan("b", "a"))
    read = ("a, b", "b, a") if how == "tables" else ("b, a", "a, b")
    assert difference.what == f"it read {read[0]} in this order, now {read[1]}"
    assert difference.verdict is Verdict.REBUILD


def test_queries_may_be_added_and_removed() -> None:
    def more(app: App, orders: Any) -> None:
        original(app, orders)
        orders.deduplicate("id", within="1h", name="once").to("once")

    added = between(more)
    assert [(difference.node, difference.verdict) for difference in added] == [("once", Verdict.COMPATIBLE)]
    removed = compatible(app_of(more).plan, app_of(original).plan)
    assert [(difference.node, difference.verdict) for difference in removed] == [("once", Verdict.COMPATIBLE)]


def test_other_partitions_need_a_repartition_and_unsaid_ones_do_not() -> None:
    def plan(partitions: int | None) -> Any:
        app = App("sales", "x", partitions=partitions)
        app.stream("orders", value=Json("user string")).group_by("user").agg(n=count()).to("n")
        return app.plan

    assert verdict(compatible(plan(2), plan(4))) is Verdict.REPARTITION
    assert compatible(plan(2), plan(None)) == []


def test_the_state_of_another_app_is_refused() -> None:
    def plan(name: str) -> Any:
        app = App(name, "x")
        app.stream("orders", value=Json("user string, n long")).group_by("user").agg(n=avg(col.n)).to("n")
        return app.plan

    (difference,) = compatible(plan("a"), plan("b"))
    assert "'a'" in difference.what
    assert verdict([difference]) is Verdict.REBUILD
