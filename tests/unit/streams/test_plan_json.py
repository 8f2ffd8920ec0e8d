import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from headrace.streams import App, Own, Plan, PlanError, col, plan_from_json, plan_to_json
from tests.unit.streams.pipelines import PIPELINES, new_app, orders_of


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: pipeline.__name__)
def test_a_plan_reads_back_from_its_json(pipeline: Callable[[], App]) -> None:
    plan = pipeline().plan
    back = plan_from_json(plan_to_json(plan))
    assert back == plan
    assert plan_to_json(back) == plan_to_json(plan)


def test_literals_of_all_types_read_back_as_what_they_were() -> None:
    app = new_app()
    values: list[object] = [
        None,
        True,
        1,
        1.5,
        "x",
        b"\x00\xff",
        date(2026, 11, 16),
        datetime(2026, 11, 16, 1, tzinfo=UTC),
    ]
    values += [Decimal("1.50"), timedelta(days=1, microseconds=7)]
    orders_of(app).filter(col.id.isin(values)).to("out")
    plan = app.plan
    back = plan_from_json(plan_to_json(plan))
    assert back == plan
    (_, condition, _) = (str(getattr(node, "condition", "")) for node in back.nodes())
    assert "1.50" in condition


def test_functions_are_kept_by_name() -> None:
    app = new_app()
    app.stream("raw", value=Own("n long", decode=len)).filter(bool).to("out")  # type: ignore[arg-type]
    back = plan_from_json(plan_to_json(app.plan))
    source = back.nodes()[0]
    assert source.value.decode.name == "builtins.len"  # type: ignore[attr-defined]
    assert source.value.decode.call is None  # type: ignore[attr-defined]


def test_shared_nodes_are_one_again() -> None:
    app = new_app()
    orders = orders_of(app)
    orders.to("a")
    orders.to("b")
    back = plan_from_json(plan_to_json(app.plan))
    assert back.sinks[0].input is back.sinks[1].input


def _changed(change: Callable[[dict[str, object]], object]) -> str:
    app = new_app()
    orders_of(app).to("out")
    whole = json.loads(plan_to_json(app.plan))
    change(whole)
    return json.dumps(whole)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        _changed(lambda whole: whole.update(format=2)),
        _changed(lambda whole: whole.update(sinks=["nope"])),
        _changed(lambda whole: whole.update(sinks=["source-1"])),
        _changed(lambda whole: whole["nodes"][0].update({"$": "System"})),  # type: ignore[index]
        _changed(lambda whole: whole["nodes"][0].update({"$": "Shape"})),  # type: ignore[index]
        _changed(lambda whole: whole["nodes"][0].update(new_field=1)),  # type: ignore[index]
        _changed(lambda whole: whole["nodes"][0].pop("value")),  # type: ignore[index]
        _changed(lambda whole: whole["nodes"].reverse()),  # type: ignore[attr-defined]
    ],
)
def test_what_is_not_a_plan_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="plan"):
        plan_from_json(text)


def test_a_plan_without_sinks_reads_back() -> None:
    assert plan_from_json(plan_to_json(Plan("sales", ()))) == Plan("sales", ())
