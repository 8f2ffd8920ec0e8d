from typing import Any

import pytest

from headrace.streams import App, PlanError, col, hopping, plan_from_json, plan_to_json, session, sliding, tumbling
from headrace.streams.lateness import Deadline, deadline_of, judged_inputs
from headrace.streams.queries import cut
from tests.unit.streams.pipelines import new_app, orders_of, users_of


@pytest.mark.parametrize(
    ("window", "deadline"),
    [
        (tumbling("1m"), Deadline(60_000, 60_000)),
        (hopping("1m", "10s"), Deadline(60_000, 10_000)),
        (session("30s"), Deadline(30_000)),
        (sliding("5s"), Deadline(5_001)),
    ],
)
def test_the_deadline_of_a_window_is_the_end_of_the_last_one_with_the_row(window: Any, deadline: Deadline) -> None:
    assert deadline_of(orders_of(new_app()).group_by("user").windowed(window).count().node) == deadline


def test_what_never_closes_has_no_deadlines() -> None:
    app = new_app()
    orders = orders_of(app, key="user")
    assert deadline_of(orders.group_by("user").count().node) is None
    assert deadline_of(orders.join(users_of(app), on="user").node) is None
    assert deadline_of(orders.process(print, "user string").node) is None


def test_both_sides_of_a_join_are_judged_and_only_the_first_operators_with_state() -> None:
    app = new_app()
    orders = orders_of(app)
    joined = orders.join(orders_of(app).select("id", other=col.user), on="id", within="1m", name="pairs")
    windows = joined.group_by("user").windowed(tumbling("1m")).count(name="windows").emit("final")
    windows.to("out")
    (query,) = cut(app.plan)
    assert [(judged.node.name, judged.side) for judged in judged_inputs(query.nodes())] == [("pairs", 0), ("pairs", 1)]


def test_late_is_kept_in_the_plan_and_checked() -> None:
    app = App("sales", "x", dead_letters="dead", late="dead_letters")
    orders_of(app).to("x")
    assert plan_from_json(plan_to_json(app.plan)).late == "dead_letters"
    older = plan_to_json(app.plan).replace('"late": "dead_letters",', "")
    assert plan_from_json(older).late == "drop"
    with pytest.raises(PlanError, match="needs dead_letters="):
        App("sales", "x", late="dead_letters")
    with pytest.raises(PlanError, match="must be"):
        App("sales", "x", late="never")  # type: ignore[arg-type]
