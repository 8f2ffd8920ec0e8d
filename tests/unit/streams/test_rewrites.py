from typing import Any

from headrace.streams import App, Own, col, fn
from headrace.streams.plan import Filter, Node, Plan, Select, Source
from headrace.streams.rewrites import rewrite
from tests.unit.streams.pipelines import new_app, orders_of, users_of


def names_of(plan: Plan) -> list[str]:
    return [node.name for node in plan.nodes()]


def rewritten(app: App) -> Plan:
    return rewrite(app.plan)


def only(plan: Plan, operator: type[Node]) -> Any:
    (found,) = (node for node in plan.nodes() if isinstance(node, operator))
    return found


def test_a_filter_goes_before_the_select_in_terms_of_what_the_select_reads() -> None:
    app = new_app()
    orders_of(app).select("id", cents=col.amount * 100).filter((col.cents > 5) & (col.id > 1)).to("out")
    plan = rewritten(app)
    assert names_of(plan) == ["source-1", "filter-1", "select-1", "sink-1"]
    assert str(only(plan, Filter).condition) == "amount * 100 > 5 AND id > 1"
    assert only(plan, Filter).shape == only(plan, Source).shape


def test_a_filter_stays_behind_what_gives_something_else_each_time() -> None:
    app = new_app()
    orders_of(app).select("id", dice=fn.rand()).filter(col.dice > 0.5).to("out")
    assert names_of(rewritten(app)) == ["source-1", "select-1", "filter-1", "sink-1"]


def test_a_filter_stays_behind_a_select_that_somebody_else_reads() -> None:
    app = new_app()
    selected = orders_of(app).select("id", cents=col.amount * 100)
    selected.filter(col.cents > 5).to("big")
    selected.to("all")
    assert names_of(rewritten(app)) == ["source-1", "select-1", "filter-1", "sink-1", "sink-2"]


def test_a_filter_by_a_function_stays_where_it_is() -> None:
    app = new_app()
    orders_of(app).select("id").filter(lambda row: row["id"] > 1).filter(lambda row: row["id"] < 9).to("out")
    assert names_of(rewritten(app)) == ["source-1", "select-1", "filter-1", "filter-2", "sink-1"]


def test_filters_and_selects_in_a_row_become_one() -> None:
    app = new_app()
    orders = orders_of(app).filter(col.id > 1).filter(col.id < 9).filter(col.amount > 0)
    orders.select(a=col.id + 1, b=col.amount).select(c=col.a * col.b, d=col.b).to("out")
    plan = rewritten(app)
    assert names_of(plan) == ["source-1", "filter-1+filter-2+filter-3", "select-1+select-2", "sink-1"]
    assert str(only(plan, Filter).condition) == "id > 1 AND id < 9 AND amount > 0"
    assert [(name, str(made)) for name, made in only(plan, Select).columns] == [
        ("c", "(id + 1) * amount"),
        ("d", "amount"),
    ]


def test_the_filter_of_a_table_is_left_where_it_is() -> None:
    app = new_app()
    users_of(app).select(level=col.tier).filter(col.level == "gold").to("gold")
    assert names_of(rewritten(app)) == ["source-1", "select-1", "filter-1", "sink-1"]


def test_sources_that_are_alike_are_read_once_and_others_are_not() -> None:
    app = new_app()
    orders_of(app).to("a")
    orders_of(app).to("b")
    orders_of(app, grace="1m").to("c")
    assert [name for name in names_of(rewritten(app)) if "source" in name] == ["source-1", "source-3"]


def test_two_functions_of_one_name_are_not_taken_for_one_source() -> None:
    app = new_app()
    for topic in ("a", "b"):

        def decode(raw: bytes, by: str = topic) -> dict[str, Any]:
            return {by: len(raw)}

        app.stream("raw", value=Own("n long", decode)).to(topic)
    assert [name for name in names_of(rewritten(app)) if "source" in name] == ["source-1", "source-2"]


def test_a_plan_that_cannot_be_bettered_stays_the_same() -> None:
    app = new_app()
    orders_of(app).filter(col.id > 1).select("id").to("out")
    assert rewrite(app.plan) == app.plan
