"""Which plans can be run. What Spark cannot do can be written, explained and kept, but not run."""

import warnings
from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from headrace.streams.aggregates import Aggregation
from headrace.streams.errors import CannotRunError, PlanError, PlanWarning
from headrace.streams.expressions import Expression
from headrace.streams.plan import GlobalLookup, Node, Plan, ancestors

# Of a record's hidden columns those which are others when it is read from a topic of the app's own.
_PLACES: Final = frozenset({"_key", "_topic", "_partition", "_offset"})


def check_runnable(plan: Plan) -> None:
    """Raises CannotRunError, which names every operator that stands in the way, and PlanError if there is nothing.

    Warns of what was written and is left out, since no topic is written from there.
    """
    if not plan.sinks:
        raise PlanError(f"app {plan.app!r} writes nothing: end a stream or a table with .to(topic)")
    reasons = [f"{node.name} ({reason})" for node in plan.nodes() if (reason := _reason(node)) is not None]
    if reasons:
        raise CannotRunError(
            f"app {plan.app!r} cannot be run, since these have no form in Spark: {', '.join(reasons)}. "
            "The plan is right, and explain() shows it"
        )
    if plan.loose:
        warnings.warn(left_out(plan), PlanWarning, stacklevel=2)


def left_out(plan: Plan) -> str:
    """A sentence about its loose ends."""
    return (
        f"app {plan.app!r} leaves out {', '.join(plan.loose)}, from where no topic is written: end what is to be run "
        "with .to(topic), or with .foreach(function)"
    )


def _reason(node: Node) -> str | None:
    if not any(_is_behind_global_table(above) for above in ancestors(node)):
        return None
    read = sorted(_PLACES & set(_columns_read(node)))
    if not read:
        return None
    # A topic of the app's own stands between: see `queries.py`.
    return f"{read[0]} behind a join with a global table; make a column of it by select, before the join"


def _is_behind_global_table(node: Node) -> bool:
    """Whether it keeps state of what was joined with one."""
    return node.stateful and any(isinstance(above, GlobalLookup) for above in ancestors(node))


def _columns_read(part: object) -> Iterator[str]:
    match part:
        case Expression() | Aggregation():
            yield from part.columns()
        case Node():
            for field in fields(part):
                if field.name != "inputs":
                    yield from _columns_read(getattr(part, field.name))
        case tuple():
            for each in part:
                yield from _columns_read(each)
