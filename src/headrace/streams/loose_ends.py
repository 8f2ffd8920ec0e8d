"""What was written and leads to no topic. Pure.

As in Kafka Streams, `peek`, `foreach` and `process` are run for what their functions do, whether or not somebody reads
their rows: where nobody does, they end in an `End`. All other operators are nothing without their results. They are
left out, and named, since whoever has written them has probably forgotten a `to`. A choice of a branch that nobody
takes is none of them, and neither is a source that nobody reads: sources are not among the operators `written`.
"""

from collections.abc import Iterable, Mapping

from headrace.streams.plan import Branch, Chosen, End, Node, Peek, Process, Sink, ancestors


def ends(written: Mapping[str, Node], sinks: Iterable[Sink]) -> tuple[End, ...]:
    """For operators with effects that no sink needs; of several in a row, for the last. `written` are all, by name."""
    needed = _needed(sinks)
    found: list[End] = []
    for node in reversed([*written.values()]):
        if isinstance(node, Peek | Process) and node.name not in needed:
            found.append(End(name=f"{node.name}.end", inputs=(node,), shape=node.shape, topic=""))
            needed |= _needed(found[-1:])
    return tuple(reversed(found))


def loose_ends(written: Mapping[str, Node], leaves: Iterable[Node]) -> tuple[str, ...]:
    """The last operators on ways that end in none of `leaves`."""
    needed = _needed(leaves)
    read = {below.name for node in written.values() for below in node.inputs}
    found: dict[str, None] = {}
    for node in written.values():
        if node.name in needed or node.name in read:
            continue
        if isinstance(node, Chosen):
            if node.input.name not in needed and not _is_chosen_from(node.input, written, read):
                found[node.input.name] = None
        else:
            found[node.name] = None
    return tuple(found)


def _is_chosen_from(branch: Node, written: Mapping[str, Node], read: set[str]) -> bool:
    """Whether somebody reads one of its choices, who then is the loose end."""
    assert isinstance(branch, Branch), branch
    return any(
        isinstance(node, Chosen) and node.input.name == branch.name and node.name in read for node in written.values()
    )


def _needed(leaves: Iterable[Node]) -> set[str]:
    return {node.name for leaf in leaves for node in ancestors(leaf)}
