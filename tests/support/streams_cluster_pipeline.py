"""A pipeline with keyed state for a cluster, of which a worker can be made to die in the middle of a task.

    headrace pipeline run tests/support/streams_cluster_pipeline.py --master spark://... --state file:///...

The app's name is in HEADRACE_TEST_APP. When the file that HEADRACE_TEST_MARK names is there, with the process ids of
workers, the first task that sees it takes it away and kills the worker that it runs on, as if its machine was lost.
"""

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
        end_worker(mark)
        return True

    return check


def end_worker(mark: str) -> None:
    try:
        workers = {int(word) for word in Path(mark).read_text().split()}
        Path(mark).unlink()
    except FileNotFoundError:  # or another task was faster
        return
    chain = [os.getpid()]  # this process of Python's, the one that made it, the executor, the worker
    while chain[-1] not in workers:
        chain.append(parent_of(chain[-1]))
    for process in reversed(chain):
        os.kill(process, signal.SIGKILL)


def parent_of(process: int) -> int:
    status = Path(f"/proc/{process}/stat").read_text()
    return int(status.rpartition(")")[2].split()[1])  # behind the name, which may have anything in it: state, parent


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
