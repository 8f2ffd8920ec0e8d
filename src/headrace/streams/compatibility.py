"""May a new plan go on with the state of an old one? Found out before anything is started.

State belongs to stateful operators, which are known by name; so does the place in a source's topics. What they keep is
decided by their keys, their windows, their columns and what is computed. What stands between them may change freely:
filters, projections, sinks. Each query has a checkpoint of its own, so that a query may be added or removed, but not an
operator with state inside one. The verdict on a plan is the worst of its differences.

Spark knows the sources of a query, and the columns of rows that wait in a join of streams, by their places only: in
another order they would be taken for one another.
"""

from dataclasses import fields
from enum import IntEnum
from typing import Any, Final, NamedTuple

from headrace.streams.plan import Deduplicate, Node, Plan, Source, StreamJoin, TableLookup
from headrace.streams.queries import Query, cut
from headrace.streams.rewrites import rewrite
from headrace.streams.schema import Schema, names
from headrace.streams.shapes import Kind

# Of these an operator may change without touching what it keeps. Functions are known by name, which says little.
_FREE: Final = frozenset({"inputs", "name", "shape", "function", "functions", "initial", "merge", "on_timer"})
_FREE_OF_SOURCES: Final = _FREE | {"start", "time", "key", "value"}

_REBUILD: Final = "Reset the app to build its state anew from its topics, or keep the old form under the old name"
_REORDERED: Final = "Write them in the old order, or reset the app to build its state anew from its topics"
_RENAMED: Final = "If it was only renamed, give it its old name by name=; else reset the app"


class Verdict(IntEnum):
    """From what costs nothing to what costs most."""

    COMPATIBLE = 0
    REPARTITION = 1
    REBUILD = 2


class Difference(NamedTuple):
    """`node` is the name of an operator, a query or, if it is about the whole plan, the app."""

    node: str
    verdict: Verdict
    what: str
    what_to_do: str

    def __str__(self) -> str:
        return f"{self.node}: {self.what}. {self.what_to_do}"


def compatible(old: Plan, new: Plan) -> list[Difference]:
    """What differs in a way that matters to state, the worst first; empty if the new plan may simply go on."""
    found: list[Difference] = []
    if old.app != new.app:
        what = f"the state belongs to the app {old.app!r}"
        found.append(Difference(new.app, Verdict.REBUILD, what, "Give each app a state directory of its own"))
    if None not in (old.partitions, new.partitions) and old.partitions != new.partitions:
        what = f"its state is spread over {old.partitions} partitions, and the plan says {new.partitions}"
        found.append(Difference(new.app, Verdict.REPARTITION, what, "Repartition the state while the app is stopped"))
    before = {query.name: query for query in cut(rewrite(old))}
    after = {query.name: query for query in cut(rewrite(new))}
    gone = [query for name, query in before.items() if name not in after]
    added = [query for name, query in after.items() if name not in before]
    found.extend(_gone_and_added(gone, added))
    for name in before.keys() & after.keys():
        found.extend(_query_differences(before[name], after[name]))
    return sorted(found, key=lambda difference: (-difference.verdict, difference.node, difference.what))


def verdict(differences: list[Difference]) -> Verdict:
    return max((difference.verdict for difference in differences), default=Verdict.COMPATIBLE)


def _gone_and_added(gone: list[Query], added: list[Query]) -> list[Difference]:
    """Queries may come and go; but if one goes and one with the same kind of state comes, it was probably renamed."""
    found = []
    kinds_gone = {type(node) for query in gone for node in query.stateful}
    for query in gone:
        what = "the query is gone from the plan, and its state is left"
        found.append(Difference(query.name, Verdict.COMPATIBLE, what, "Nothing needs to be done"))
    for query in added:
        if any(type(node) in kinds_gone for node in query.stateful):
            what = "the query is new and has no state, while one of its kind is gone"
            found.append(Difference(query.name, Verdict.REBUILD, what, _RENAMED))
        else:
            what = "the query is new, and starts where its sources say"
            found.append(Difference(query.name, Verdict.COMPATIBLE, what, "Nothing needs to be done"))
    return found


def _query_differences(old: Query, new: Query) -> list[Difference]:
    found = []
    if old.mode != new.mode:
        found.append(Difference(new.name, Verdict.REBUILD, f"it was run by {old.mode}, now by {new.mode}", _REBUILD))
    before, after = _keepers(old), _keepers(new)
    for name in before.keys() ^ after.keys():
        what = (
            f"it is {'gone from' if name in before else 'new in'} query {new.name!r}, which has state of another form"
        )
        found.append(Difference(name, Verdict.REBUILD, what, _RENAMED))
    for name in before.keys() & after.keys():
        found.extend(_node_differences(before[name], after[name]))
    return found or _reordered(new.name, "it read", _streams(old), _streams(new))


def _streams(query: Query) -> tuple[str, ...]:
    """Those of its sources that have a place in its checkpoint."""
    return tuple(source.name for source in query.sources if source.shape.kind is not Kind.GLOBAL_TABLE)


def _reordered(node: str, what: str, old: tuple[str, ...], new: tuple[str, ...]) -> list[Difference]:
    if old == new or set(old) != set(new):
        return []
    return [
        Difference(node, Verdict.REBUILD, f"{what} {', '.join(old)} in this order, now {', '.join(new)}", _REORDERED)
    ]


def _keepers(query: Query) -> dict[str, Node]:
    """The nodes that keep something between two runs: state, or a place in topics."""
    return {node.name: node for node in (*query.sources, *query.stateful)}


def _node_differences(old: Node, new: Node) -> list[Difference]:
    if type(old) is not type(new):
        what = f"it was a {type(old).__name__} and is a {type(new).__name__}"
        return [Difference(new.name, Verdict.REBUILD, what, _REBUILD)]
    free = _FREE_OF_SOURCES if isinstance(new, Source) else _FREE
    found = []
    for field in fields(new):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if field.compare and field.name not in free and before != after:
            what = f"{field.name.replace('_', ' ')} was {_text(before)} and is {_text(after)}"
            found.append(Difference(new.name, Verdict.REBUILD, what, _REBUILD))
    if new.stateful:
        found = found or _changed_types(old, new)
    if isinstance(new, StreamJoin):
        for before, after in zip(old.inputs, new.inputs, strict=True):
            columns = names(before.shape.columns), names(after.shape.columns)
            found = found or _reordered(new.name, "it kept the columns", *columns)
    return found


def _changed_types(old: Node, new: Node) -> list[Difference]:
    """Kept columns whose types changed, as when a source's schema did. A type that only Spark knows says nothing."""
    before = dict(_kept(old))
    after = dict(_kept(new))
    found = []
    for name in sorted(before.keys() | after.keys()):
        one, other = before.get(name, "not there"), after.get(name, "not there")
        if None not in (one, other) and one != other:
            what = f"column {name!r} was {one} and is {other}"
            found.append(Difference(new.name, Verdict.REBUILD, what, _REBUILD))
    return found


def _kept(node: Node) -> Schema:
    if isinstance(node, Deduplicate):
        return tuple(field for field in node.shape.columns if field.name in node.columns)
    if isinstance(node, TableLookup):  # of the stream it keeps nothing
        return node.inputs[1].shape.columns
    return node.shape.columns


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_text(part) for part in value) + ")"
    return "nothing" if value is None else str(value)
