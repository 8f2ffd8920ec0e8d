"""The plan that a state directory was made by, in `plan.json` there; and whether another plan may go on with it."""

import os
from dataclasses import replace
from typing import Final

from headrace.streams.compatibility import Verdict, compatible, verdict
from headrace.streams.errors import PlanError
from headrace.streams.plan import Plan
from headrace.streams.plan_json import plan_from_json, plan_to_json

FILE: Final = "plan.json"


def saved_plan(directory: str) -> Plan | None:
    """The plan of the last run; None if there was none. Raises PlanError if it cannot be read."""
    path = os.path.join(directory, FILE)
    try:
        with open(path, encoding="utf-8") as file:
            return plan_from_json(file.read())
    except FileNotFoundError:
        return None
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from error


def agree_on_plan(plan: Plan, directory: str, *, default_partitions: int) -> Plan:
    """The plan as it will be run, with the partitions that its state has, and kept for the next run.

    Raises PlanError, with what to do, if the state is that of a plan which this one cannot go on from.
    """
    old = saved_plan(directory)
    if old is not None:
        differences = compatible(old, plan)
        if verdict(differences) is not Verdict.COMPATIBLE:
            worst = [difference for difference in differences if difference.verdict is not Verdict.COMPATIBLE]
            listed = "".join(f"\n  {difference}" for difference in worst)
            raise PlanError(
                f"the state in {directory} was made by another plan, which this one cannot go on from:{listed}"
            )
    known = old.partitions if old is not None else None
    agreed = replace(plan, partitions=plan.partitions or known or default_partitions)
    _save(agreed, directory)
    return agreed


def _save(plan: Plan, directory: str) -> None:
    """Whole or not at all: a crash must not leave half a plan."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, FILE)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(plan_to_json(plan))
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)
