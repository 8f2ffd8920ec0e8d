"""Walks over a whole plan: every node changed, inputs first; and who reads each node."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from headrace.streams.plan import Node, Plan, Sink


def transform(plan: Plan, change: Callable[[Node], Node]) -> Plan:
    """The plan with every node replaced by what `change` makes of it, inputs first; what was shared stays shared."""
    made: dict[str, Node] = {}
    for node in plan.nodes():
        inputs = tuple(made[below.name] for below in node.inputs)
        unchanged = all(new is old for new, old in zip(inputs, node.inputs, strict=True))
        made[node.name] = change(node if unchanged else replace(node, inputs=inputs))
    return replace(plan, sinks=tuple(_sink(made[sink.name]) for sink in plan.sinks))


def consumers(plan: Plan) -> Mapping[str, tuple[Node, ...]]:
    """Who reads each node."""
    found: dict[str, tuple[Node, ...]] = {node.name: () for node in plan.nodes()}
    for node in plan.nodes():
        for below in node.inputs:
            found[below.name] += (node,)
    return found


def _sink(node: Node) -> Sink:
    assert isinstance(node, Sink), node
    return node
