"""The end of a log, and of many: all that only memory knows is written, and then synced, side by side."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from headrace.log.chores import FlushPlan
from headrace.log.errors import StorageError
from headrace.log.flush_round import RunAll, run_plans
from headrace.log.rolling import seal_active

if TYPE_CHECKING:
    from headrace.log.log import Log

_TOGETHER: Final = 64  # logs whose files are open at the same time


def plan_close(log: "Log") -> FlushPlan | None:
    """See `Log.plan_close`."""
    log.refuse_if_failed()
    durability = log.durability
    if not log.log_end_offset and log.recovery_report is None and durability.is_untouched:
        return None  # it has never held anything: who loses it, or a part of it, makes it anew
    if durability.is_durable(log.log_end_offset) and not log.active.is_ahead_of_its_files:
        return None
    try:
        seal_active(log, log.log_end_offset)
        log.producer_history.drop_stale_snapshots()  # of the stops before
    except OSError as error:
        raise log.fail(f"closing it failed ({error})") from error
    return durability.plan_close(log, log.log_end_offset)


def close_logs(logs: Iterable["Log"], run_all: RunAll) -> list[str]:
    """Why some of them could not be closed: those must be recovered by whoever opens them next."""
    failures: list[str] = []
    left = iter(logs)
    while some := list(islice(left, _TOGETHER)):
        failures += _close(some, run_all)
    return failures


def _close(logs: Sequence["Log"], run_all: RunAll) -> Iterator[str]:
    plans: dict[Log, FlushPlan] = {}
    for log in logs:
        try:
            plan = log.plan_close()
        except StorageError as error:
            yield str(error)
            continue
        if plan is not None:
            plans[log] = plan
    for (log, plan), failure in zip(plans.items(), run_plans([*plans.values()], run_all), strict=True):
        if failure is None:
            plan.done()
        else:
            yield str(log.fail(f"closing it failed ({failure})"))
    for log in logs:
        log.segments.close()
