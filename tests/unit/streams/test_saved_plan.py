import os
from pathlib import Path
from typing import Any

import pytest

from headrace.streams import App, Json, Plan, PlanError, count, tumbling
from headrace.streams.saved_plan import agree_on_plan, saved_plan


def plan_of(size: str = "1m", partitions: int | None = None) -> Plan:
    app = App("sales", "x", partitions=partitions)
    orders: Any = app.stream("orders", value=Json("user string"))
    orders.group_by("user").windowed(tumbling(size)).agg(n=count(), name="per-user").to("n")
    return app.plan


def test_the_first_run_decides_the_partitions_and_later_ones_keep_them(tmp_path: Path) -> None:
    directory = os.fspath(tmp_path / "state")
    assert saved_plan(directory) is None
    first = agree_on_plan(plan_of(), directory, default_partitions=4)
    assert first.partitions == 4
    assert saved_plan(directory) == first
    assert agree_on_plan(plan_of(), directory, default_partitions=8).partitions == 4


def test_a_plan_that_cannot_go_on_is_refused_with_what_to_do_and_the_old_one_stays(tmp_path: Path) -> None:
    directory = os.fspath(tmp_path)
    first = agree_on_plan(plan_of(), directory, default_partitions=4)
    with pytest.raises(PlanError, match=r"window was tumbling 1m and is tumbling 2m\. Reset the app"):
        agree_on_plan(plan_of("2m"), directory, default_partitions=4)
    with pytest.raises(PlanError, match="Repartition the state"):
        agree_on_plan(plan_of(partitions=2), directory, default_partitions=4)
    assert saved_plan(directory) == first


def test_a_plan_that_cannot_be_read_is_told_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(PlanError, match=r"plan\.json: this is not a plan"):
        agree_on_plan(plan_of(), os.fspath(tmp_path), default_partitions=4)
