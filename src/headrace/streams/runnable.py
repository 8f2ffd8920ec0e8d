"""Which plans can be run today. Operators that have no compiler yet can be written, explained and kept, but not run."""

from headrace.streams.errors import CannotRunError, PlanError
from headrace.streams.plan import (
    Aggregate,
    Cogroup,
    Fold,
    ForeignKeyJoin,
    GlobalLookup,
    Node,
    Peek,
    Plan,
    Process,
    Reduce,
    TableJoin,
    TableLookup,
    ancestors,
)
from headrace.streams.shapes import Kind
from headrace.streams.windows import Session, Sliding

_NOT_YET = (Cogroup, Fold, ForeignKeyJoin, Peek, Process, Reduce, TableJoin, TableLookup)


def check_runnable(plan: Plan) -> None:
    """Raises CannotRunError, which names every operator that stands in the way, and PlanError if there is nothing."""
    if not plan.sinks:
        raise PlanError(f"app {plan.app!r} writes nothing: end a stream or a table with .to(topic)")
    reasons = [f"{node.name} ({reason})" for node in plan.nodes() if (reason := _reason(node)) is not None]
    if reasons:
        raise CannotRunError(
            f"app {plan.app!r} cannot be run yet, since these have no form in Spark so far: {', '.join(reasons)}. "
            "The plan is right, and explain() shows it"
        )


def _reason(node: Node) -> str | None:
    match node:
        case Aggregate(window=Sliding()):
            return "aggregates over sliding windows"
        case Aggregate(window=Session(), emit="changes"):
            return 'sessions with changes; emit("final") runs'
        case Aggregate() if node.input.shape.kind is Kind.TABLE:
            return "aggregates of a table's rows; those of its changes run, by to_stream()"
    if node.stateful and any(isinstance(above, GlobalLookup) for above in ancestors(node)):
        # Spark would read the table once, when the query starts, and never see it change.
        return "state behind a join with a global table; write the joined rows to a topic, and read them from there"
    return f"{node.kind} operators" if isinstance(node, _NOT_YET) else None
