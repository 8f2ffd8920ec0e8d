"""A pipeline with keyed state for a cluster, whose driver or worker can be made to die in the middle of a task.

    headrace pipeline run tests/support/streams_cluster_pipeline.py --master spark://... --state file:///...

The app's name is in HEADRACE_TEST_APP. When the file that HEADRACE_TEST_MARK names is there, the first task that sees
it takes it away. If the file names the process group of the driver, it is killed, its JVM and all. If it names workers,
their directories and process ids, the one that the task runs on is killed with all that it has started, as if its
machine was lost.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headrace.streams import App, Context, Json, value_state

Row = dict[str, Any]
NAME = os.environ["HEADRACE_TEST_APP"]


def passes(mark: str) -> Callable[[Row], bool]:
    def check(row: Row) -> bool:
        end_somebody(mark)
        return True

    return check


def end_somebody(mark: str) -> None:
    try:
        named = json.loads(Path(mark).read_text())
        Path(mark).unlink()
    except FileNotFoundError:  # or another task was faster
        return
    if "driver" in named:
        os.killpg(named["driver"], signal.SIGKILL)
    else:
        end_worker(named["workers"])


def end_worker(workers: dict[str, int]) -> None:
    here = Path.cwd()  # in the directory of the worker, whose executor has started this process
    (worker,) = (worker for directory, worker in workers.items() if here.is_relative_to(directory))
    for process in (worker, *children_of(worker), os.getpid()):
        os.kill(process, signal.SIGKILL)


def children_of(parent: int) -> list[int]:
    tasks = Path(f"/proc/{parent}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def both(one: Row, other: Row) -> Row:
    return {**other, "n": one["n"] + other["n"], "total": one["total"] + other["total"]}


def number(row: Row, context: Context) -> Iterator[Row]:
    """Each order with its number among those of its user: one that is lost or counted twice shows in all later ones."""
    seen = context.value("seen")
    n = (seen.get() or {"n": 0})["n"] + 1
    seen.set(n=n)
    yield {"id": row["id"], "n": n}


app = App(NAME, os.environ["HEADRACE_TEST_BOOTSTRAP"], partitions=2)
users = app.table(f"{NAME}.users", key="user", value=Json("tier string"))
orders = app.stream(f"{NAME}.orders", key="user", value=Json("id long, user string, total long"))
good = orders.filter(passes(os.environ["HEADRACE_TEST_MARK"]))
known = good.join(users, on="user", name="known").map_values("tier", "total", n=1)
known.group_by("tier").reduce(both, name="tiers").to(f"{NAME}.tiers")
numbered = good.process(number, "user string, id long, n long", state={"seen": value_state("n long")}, name="numbered")
numbered.to(f"{NAME}.numbered")
