"""Many flush plans at once: what they wait for, they wait for together.

A sync mostly waits for the file system to commit its journal, and one commit serves all that wait for it. So the syncs
of a round go side by side, file by file, in three steps: all contents; then the new names; then each directory, once,
however many plans have put a name into it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from headrace.log.chores import FlushPlan, Step
from headrace.log.errors import is_without_descriptor

# As `map`, or as the method of a pool of threads: run each step; the outcomes in their order.
RunAll: TypeAlias = Callable[[Callable[[Step], OSError | None], Iterable[Step]], Iterable[OSError | None]]


def run_plans(plans: Sequence[FlushPlan], run_all: RunAll) -> list[OSError | None]:
    """What was wrong with each plan; one that fails does not concern the others."""
    outcomes: list[OSError | None] = [None] * len(plans)

    def run(steps: Sequence[tuple[int, Step]]) -> None:
        for (place, _), error in zip(steps, run_all(attempt, [step for _, step in steps]), strict=True):
            outcomes[place] = _graver(outcomes[place], error)

    run([(place, step) for place, plan in enumerate(plans) for step in plan.contents()])
    for place, plan in enumerate(plans):
        if outcomes[place] is None:
            outcomes[place] = attempt(plan.give_names)
    _sync_directories(plans, outcomes, run_all)
    for place, plan in enumerate(plans):
        if outcomes[place] is None:
            outcomes[place] = attempt(plan.give_pages_back)
    return outcomes


def _sync_directories(plans: Sequence[FlushPlan], outcomes: list[OSError | None], run_all: RunAll) -> None:
    concerned: dict[str, list[int]] = {}
    steps: list[Step] = []
    for place, plan in enumerate(plans):
        if outcomes[place] is not None:
            continue
        for directory in plan.all_directories:
            if directory not in concerned:
                concerned[directory] = []
                steps.append(plan.syncing(directory))
            concerned[directory].append(place)
    for places, error in zip(concerned.values(), run_all(attempt, steps), strict=True):
        for place in places:
            outcomes[place] = _graver(outcomes[place], error)


def _graver(one: OSError | None, other: OSError | None) -> OSError | None:
    """A sync that failed must not be forgotten over a file that could not be opened: it is never tried again."""
    if one is None or (other is not None and is_without_descriptor(one)):
        return other
    return one


def attempt(step: Step) -> OSError | None:
    """Run it; what was wrong."""
    try:
        step()
    except OSError as error:
        return error
    return None
