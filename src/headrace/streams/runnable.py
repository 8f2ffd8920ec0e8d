"""Which plans can be run. What Spark cannot do can be written, explained and kept, but not run."""

from headrace.streams.errors import CannotRunError, PlanError
from headrace.streams.plan import GlobalLookup, Node, Plan, ancestors


def check_runnable(plan: Plan) -> None:
    """Raises CannotRunError, which names every operator that stands in the way, and PlanError if there is nothing."""
    if not plan.sinks:
        raise PlanError(f"app {plan.app!r} writes nothing: end a stream or a table with .to(topic)")
    reasons = [f"{node.name} ({reason})" for node in plan.nodes() if (reason := _reason(node)) is not None]
    if reasons:
        raise CannotRunError(
            f"app {plan.app!r} cannot be run, since these have no form in Spark: {', '.join(reasons)}. "
            "The plan is right, and explain() shows it"
        )


def _reason(node: Node) -> str | None:
    if node.stateful and any(isinstance(above, GlobalLookup) for above in ancestors(node)):
        # Spark would read the table once, when the query starts, and never see it change.
        return "state behind a join with a global table; write the joined rows to a topic, and read them from there"
    return None
