"""A pipeline in a process of its own, to be killed: orders joined with users and folded, in sessions and in windows.

    python -m tests.support.streams_driver '{"app": ..., "bootstrap": ..., "state": ..., "mark": ...}'

It works off what is there and ends; told to `stay`, it runs until it is killed. Told `kill_at`, it dies there, the JVM
and all, as in a power cut: in the sink of the query `kill_query` (see `spark_driver.py`), or, "reading", while a task
reads the orders.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.spark import session
from headrace.streams import App, Json, count, tumbling
from headrace.streams import session as session_window
from tests.support.spark_driver import End, prepare_end
from tests.support.spark_settings import QUICK_START

GAP_MS, WINDOW_MS = 7_000, 10_000
Row = dict[str, Any]


def main(told: dict[str, Any]) -> None:
    match told.get("kill_at"):
        case None:
            pass
        case "reading":
            Path(told["mark"]).write_text(str(os.getpgid(0)))
        case place:
            prepare_end({f"{told['app']}.{told['kill_query']}": End(place)})
    app = killed_app(told)
    spark = session("killed", "local[2,4]", conf=QUICK_START)
    if told.get("stay"):
        app.start(spark).wait()
    else:
        app.catch_up(spark)
    os._exit(0)  # the rest would take seconds


def killed_app(told: dict[str, Any]) -> App:
    """Queries: `orders` copies, `totals` joins and folds, `visits` folds over sessions, `tens` is Spark's own."""
    name = told["app"]
    app = App(name, told["bootstrap"], state=told["state"], partitions=2, grace="60s", dead_letters=f"{name}.dead")
    orders = app.stream(f"{name}.orders", value=Json("id long, user string, amount long"), name="orders")
    users = app.table(f"{name}.users", key="user", value=Json("tier string"), name="users")
    good = orders.filter(is_positive(told["mark"]), name="good")
    good.select("id").to(f"{name}.copies")
    tiers = good.join(users, on="user").group_by("tier")
    tiers.aggregate(nothing, add, "n long, ids array<long>", name="totals").to(f"{name}.totals")
    by_user = good.group_by("user")
    sessions = by_user.windowed(session_window(f"{GAP_MS}ms"))
    sessions.aggregate(nothing, add, "n long, ids array<long>", merge=both, name="visits").to(f"{name}.visits")
    by_user.windowed(tumbling(f"{WINDOW_MS}ms")).agg(n=count(), name="tens").emit("final").to(f"{name}.tens")
    return app


def is_positive(mark: str) -> Callable[[Row], bool]:
    def check(row: Row) -> bool:
        end_driver(mark)
        if row["amount"] < 0:
            raise ValueError(f"an amount of {row['amount']}")
        return True

    return check


def end_driver(mark: str) -> None:
    """Called in a worker: the driver has put its process group there if it wants to die."""
    try:
        group = int(Path(mark).read_text())
        Path(mark).unlink()
    except FileNotFoundError:  # or another worker was faster
        return
    os.killpg(group, signal.SIGKILL)


def nothing() -> Row:
    return {"n": 0, "ids": []}


def is_unlucky(row: Row) -> bool:
    """Its amount passes, but cannot be added."""
    return bool(row["amount"] % 10 == 3)


def add(so_far: Row, row: Row) -> Row:
    if is_unlucky(row):
        raise ArithmeticError(f"an amount of {row['amount']}")
    return {"n": so_far["n"] + 1, "ids": sorted([*so_far["ids"], row["id"]])}


def both(one: Row, other: Row) -> Row:
    return {"n": one["n"] + other["n"], "ids": sorted(one["ids"] + other["ids"])}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
