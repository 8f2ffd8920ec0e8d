"""Plans into better plans that mean the same. Pure; each rewrite is a function, and `rewrite` is all of them in order.

| rewrite | before | after | when |
|---|---|---|---|
| one read | two sources of the same topics, decoded alike | one | no function of the user's decodes |
| filter first | filter after select | select after filter | only functions that always give the same for a row |
| one select | select after select | one | the same |
| one filter | filter after filter | one | expressions only |

An operator that others read, too, stays as it is: its work would be done twice. Tables are left alone: their filter
turns rows into deletions, so that its place matters. A fused operator has both names, `filter-1+filter-2`.
"""

from dataclasses import replace

from headrace.streams.expressions import Expression, both, is_steady, substitute
from headrace.streams.plan import Filter, Node, Plan, Select, Source
from headrace.streams.serdes import OwnSerde
from headrace.streams.shapes import Kind
from headrace.streams.walks import consumers, transform


def rewrite(plan: Plan) -> Plan:
    plan = share_sources(plan)
    # Each step makes a node less or moves a filter towards its source, so it ends.
    while (better := _step(plan)) is not None:
        plan = better
    return plan


def share_sources(plan: Plan) -> Plan:
    """One read of topics for all who read them alike."""
    first: dict[Source, Source] = {}

    def change(node: Node) -> Node:
        # Two functions may have one name, as all lambdas of one function have, and decode differently.
        if not isinstance(node, Source) or isinstance(node.key, OwnSerde) or isinstance(node.value, OwnSerde):
            return node
        return first.setdefault(replace(node, name=""), node)

    return transform(plan, change)


def _step(plan: Plan) -> Plan | None:
    """One rewrite of one place, after which it must be found anew who reads whom."""
    readers = consumers(plan)
    for node in plan.nodes():
        if node.shape.kind is not Kind.STREAM or len(node.inputs) != 1 or len(readers[node.input.name]) != 1:
            continue
        better = _rewritten(node, node.input)
        if better is not None:
            return _replaced(plan, node.name, better)
    return None


def _replaced(plan: Plan, name: str, better: Node) -> Plan:
    return transform(plan, lambda node: better if node.name == name else node)


def _rewritten(node: Node, below: Node) -> Node | None:
    match node, below:
        case Filter(condition=Expression() as condition), Select() if _all_steady(below):
            moved_condition = substitute(condition, dict(below.columns))
            moved = replace(node, condition=moved_condition, inputs=below.inputs, shape=below.input.shape)
            return replace(below, inputs=(moved,))
        case Filter(condition=Expression() as condition), Filter(condition=Expression() as first):
            return replace(node, name=_fused(below, node), condition=both(first, condition), inputs=below.inputs)
        case Select(), Select() if _all_steady(below):
            inner = dict(below.columns)
            columns = tuple((name, substitute(expression, inner)) for name, expression in node.columns)
            return replace(node, name=_fused(below, node), columns=columns, inputs=below.inputs)
    return None


def _all_steady(select: Select) -> bool:
    return all(is_steady(expression) for _, expression in select.columns)


def _fused(below: Node, node: Node) -> str:
    return f"{below.name}+{node.name}"
