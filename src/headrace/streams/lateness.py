"""When a row is too late for an operator: a rule that depends on nothing but the row's time and the watermark.

The watermark of a micro-batch is the latest time that the micro-batches before it have seen, less the grace. A row is
too late if its deadline is not after the watermark: the end of the last window that it belongs to, or, where there are
no windows, its own time. Operators that never close anything have no deadlines: running aggregates without a window,
joins with tables, processors.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.streams.plan import Deduplicate, Grouping, Node, StreamJoin, ancestors
from headrace.streams.windows import Hopping, Session, Sliding, Tumbling

# What the dead letter of a late row says, with the deadline behind the first and the watermark behind the second.
TAKEN_UNTIL: Final = "it is late: it was taken until the watermark had come to "
IS_AT: Final = ", and that is at "


class Deadline(NamedTuple):
    """So long after the time of the row, or after the multiple of `hop_ms` before it."""

    after_ms: int
    hop_ms: int | None = None


class Judged(NamedTuple):
    """One input of an operator that does not take rows after their deadline."""

    node: Node
    side: int
    deadline: Deadline

    @property
    def input(self) -> Node:
        return self.node.inputs[self.side]


def deadline_of(node: Node) -> Deadline | None:
    match node:
        case Grouping(window=Tumbling() as window):
            return Deadline(window.size_ms, window.size_ms)
        case Grouping(window=Hopping() as window):
            return Deadline(window.size_ms, window.hop_ms)
        case Grouping(window=Session() as window):
            return Deadline(window.gap_ms)
        case Grouping(window=Sliding() as window):
            return Deadline(window.difference_ms + 1)  # the end of its right window, which starts after the row
        case StreamJoin() | Deduplicate():
            return Deadline(0)
    return None


def judged_inputs(nodes: tuple[Node, ...]) -> Iterator[Judged]:
    """Of the operators of a query those which get rows of sources. Behind them, rows keep to the watermark."""
    for node in nodes:
        deadline = deadline_of(node)
        if deadline is not None:
            for side, below in enumerate(node.inputs):
                if not any(above.stateful for above in ancestors(below)):
                    yield Judged(node, side, deadline)
