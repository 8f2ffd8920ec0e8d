"""A plan for people: text, and a Mermaid picture. Both show the queries that it is run as; neither needs Spark."""

from collections.abc import Iterator
from typing import Final

from headrace.streams.describe import columns_text, describe
from headrace.streams.expressions import Expression
from headrace.streams.plan import End, Node, Plan, Sink, Source
from headrace.streams.queries import Query, cut
from headrace.streams.rewrites import rewrite

_LABEL_LENGTH: Final = 60  # of a line in a picture's box; the text has it all


def explain_text(plan: Plan) -> str:
    """Each query with its operators, sources first; `->` says what leaves an operator where that changes."""
    queries = cut(rewrite(plan))
    if not queries:
        return f"app {plan.app}: nothing is written yet; end a stream or a table with .to(topic)\n"
    count = "1 query" if len(queries) == 1 else f"{len(queries)} queries"
    lines = [f"app {plan.app}: {count}"]
    for query in queries:
        lines += ["", *_query_lines(query)]
    if plan.loose:
        lines += ["", f"left out, since no topic is written from there: {', '.join(plan.loose)}"]
    return "\n".join(lines) + "\n"


def explain_mermaid(plan: Plan) -> str:
    """A flow chart in Mermaid's language: topics as rounded boxes, a frame for each query, thick boxes keep state."""
    lines = ["flowchart LR"]
    topics: dict[str, str] = {}
    edges: list[str] = []
    for number, query in enumerate(cut(rewrite(plan)), 1):
        lines.append(f'  subgraph q{number}["{_escaped(f"{query.name} ({query.mode})")}"]')
        ids = {node.name: f"q{number}n{index}" for index, node in enumerate(query.nodes(), 1)}
        for node in query.nodes():
            brackets = ("[[", "]]") if node.stateful else ("[", "]")
            label = f"{_escaped(node.name)}<br/>{_escaped(_short(describe(node)))}"
            lines.append(f'    {ids[node.name]}{brackets[0]}"{label}"{brackets[1]}')
            edges += [f"  {ids[below.name]} --> {ids[node.name]}" for below in node.inputs]
            edges += _topic_edges(node, ids[node.name], topics)
        lines.append("  end")
    lines += [f'  {identity}(["{_escaped(topic)}"])' for topic, identity in topics.items()]
    return "\n".join(lines + edges) + "\n"


def _query_lines(query: Query) -> Iterator[str]:
    state = ", ".join(node.name for node in query.stateful)
    yield f"query {query.name}: {query.mode}, {'state of ' + state if state else 'no state'}"
    width = max(len(node.name) for node in query.nodes())
    for node in query.nodes():
        inputs = f"  <- {', '.join(below.name for below in node.inputs)}" if node.inputs else ""
        yield f"  {node.name:<{width}}  {describe(node)}{inputs}"
        if not isinstance(node, Sink) and _changes_columns(node):
            yield f"  {'':<{width}}  -> {columns_text(node)}"


def _changes_columns(node: Node) -> bool:
    if not node.inputs:
        return True
    below, shape = node.inputs[0].shape, node.shape
    return (shape.kind, shape.columns, shape.key) != (below.kind, below.columns, below.key)


def _topic_edges(node: Node, identity: str, topics: dict[str, str]) -> Iterator[str]:
    if isinstance(node, Source):
        for topic in node.topics or (f"/{node.pattern}/",):
            yield f"  {topics.setdefault(topic, f't{len(topics) + 1}')} --> {identity}"
    elif isinstance(node, Sink) and not isinstance(node, End):
        topic = f"topic by {node.topic}" if isinstance(node.topic, Expression) else node.topic
        yield f"  {identity} --> {topics.setdefault(topic, f't{len(topics) + 1}')}"


def _short(text: str) -> str:
    return text if len(text) <= _LABEL_LENGTH else text[: _LABEL_LENGTH - 3] + "..."


def _escaped(text: str) -> str:
    """Mermaid reads entities, so what has a meaning to it is written as one; # first, since entities begin with it."""
    for character in '#"<>&':
        text = text.replace(character, f"#{ord(character)};")
    return text
