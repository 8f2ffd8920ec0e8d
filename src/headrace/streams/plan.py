"""A pipeline as immutable data: one class per operator, and a `Plan`, which is its sinks.

Every node has a name that is unique in its plan: the user's, or the kind with a number (`filter-1`). Names of stateful
nodes tie a plan to the state that an earlier run of it has left, so give them when a pipeline is to live long. Nodes
point to their inputs, and a node that is used twice is one object: compare them by value, find them by name.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal

from headrace.streams.aggregates import Aggregation
from headrace.streams.errors import PlanError
from headrace.streams.expressions import Expression
from headrace.streams.functions import Function
from headrace.streams.serdes import Serde
from headrace.streams.shapes import Shape
from headrace.streams.states import State
from headrace.streams.windows import Window

How = Literal["inner", "left", "outer"]
Emit = Literal["changes", "final"]
Late = Literal["drop", "dead_letters"]
Named = tuple[tuple[str, Expression], ...]
Condition = Expression | Function

RECORD_TIME: Final = "record"
PROCESSING_TIME: Final = "processing"


@dataclass(frozen=True, kw_only=True)
class Node:
    """`kind` is the word in derived names. `stateful` operators keep something from one row to a later one."""

    kind: ClassVar[str]
    stateful: ClassVar[bool] = False

    name: str
    inputs: tuple["Node", ...] = field(default=(), repr=False)
    shape: Shape

    @property
    def input(self) -> "Node":
        """The only input."""
        (only,) = self.inputs
        return only


@dataclass(frozen=True, kw_only=True)
class Source(Node):
    """Topics, or all topics whose names match `pattern`. `key` None: rows keep their record's key as it came.

    `time` is an expression, or one of RECORD_TIME and PROCESSING_TIME. `internal` is a topic of the app's own, between
    two of its queries. `frame` is a DataFrame that takes the place of a topic, which then has a name of no topic.
    """

    kind: ClassVar[str] = "source"

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    key: Serde | None
    value: Serde
    time: Expression | str = RECORD_TIME
    start: Literal["earliest", "latest"] = "earliest"
    internal: bool = False
    frame: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Filter(Node):
    kind: ClassVar[str] = "filter"
    condition: Condition


@dataclass(frozen=True, kw_only=True)
class Check(Node):
    """A row for which the condition is not true has failed, with `message`: it is a dead letter, or stops the app."""

    kind: ClassVar[str] = "check"
    condition: Condition
    message: str


@dataclass(frozen=True, kw_only=True)
class Select(Node):
    kind: ClassVar[str] = "select"
    columns: Named


@dataclass(frozen=True, kw_only=True)
class Map(Node):
    """A function from a row to a row. `values_only`: the key's columns stay as they are."""

    kind: ClassVar[str] = "map"
    function: Function
    values_only: bool


@dataclass(frozen=True, kw_only=True)
class FlatMap(Node):
    """A function from a row to any number of rows."""

    kind: ClassVar[str] = "flat-map"
    function: Function


@dataclass(frozen=True, kw_only=True)
class SelectKey(Node):
    """`columns` become the key; those which were not there are added."""

    kind: ClassVar[str] = "key"
    columns: Named


@dataclass(frozen=True, kw_only=True)
class Peek(Node):
    kind: ClassVar[str] = "peek"
    function: Function


@dataclass(frozen=True, kw_only=True)
class Branch(Node):
    """Each row goes to the first choice whose condition is true, else to `default`, else nowhere."""

    kind: ClassVar[str] = "branch"
    choices: tuple[tuple[str, Condition], ...]
    default: str | None


@dataclass(frozen=True, kw_only=True)
class Chosen(Node):
    """The rows of its Branch that went to `choice`."""

    kind: ClassVar[str] = "branch"
    choice: str


@dataclass(frozen=True, kw_only=True)
class Merge(Node):
    kind: ClassVar[str] = "merge"


@dataclass(frozen=True, kw_only=True)
class Repartition(Node):
    kind: ClassVar[str] = "repartition"
    partitions: int


@dataclass(frozen=True, kw_only=True)
class ToStream(Node):
    """The changes of a table, as a stream; a deletion is a row with NULL in every column but the key's."""

    kind: ClassVar[str] = "to-stream"


@dataclass(frozen=True, kw_only=True)
class ToTable(Node):
    """The latest row of each key."""

    kind: ClassVar[str] = "to-table"


@dataclass(frozen=True, kw_only=True)
class Grouping(Node):
    """What is computed per group. `emit` "final" gives each window once, when no more rows can come for it."""

    stateful: ClassVar[bool] = True

    keys: Named
    window: Window | None
    emit: Emit = "changes"


@dataclass(frozen=True, kw_only=True)
class Aggregate(Grouping):
    """By expressions that Spark computes itself."""

    kind: ClassVar[str] = "aggregate"
    aggregations: tuple[tuple[str, Aggregation], ...]


@dataclass(frozen=True, kw_only=True)
class Reduce(Grouping):
    """By a function of two rows that makes one."""

    kind: ClassVar[str] = "reduce"
    function: Function


@dataclass(frozen=True, kw_only=True)
class Fold(Grouping):
    """By a function of what there is and a row, from `initial` on; `merge` joins two sessions that become one."""

    kind: ClassVar[str] = "fold"
    initial: Function
    function: Function
    merge: Function | None


@dataclass(frozen=True, kw_only=True)
class Cogroup(Grouping):
    """A fold over several streams; `functions` are in the order of `inputs`, and all have the same keys by name."""

    kind: ClassVar[str] = "cogroup"
    keys_of_inputs: tuple[Named, ...]
    initial: Function
    functions: tuple[Function, ...]
    merge: Function | None


@dataclass(frozen=True, kw_only=True)
class Deduplicate(Node):
    """The first row of those with equal `columns`, which are forgotten `within_ms` later by event time."""

    kind: ClassVar[str] = "deduplicate"
    stateful: ClassVar[bool] = True
    columns: tuple[str, ...]
    within_ms: int


@dataclass(frozen=True, kw_only=True)
class StreamJoin(Node):
    """Two streams: rows with equal columns, the right one from `before_ms` before the left to `after_ms` after it."""

    kind: ClassVar[str] = "join"
    stateful: ClassVar[bool] = True
    how: How
    on: tuple[tuple[str, str], ...]
    before_ms: int
    after_ms: int


@dataclass(frozen=True, kw_only=True)
class TableLookup(Node):
    """A stream enriched by a table as it is at that time; `on` pairs columns of the stream with the table's key."""

    kind: ClassVar[str] = "lookup"
    stateful: ClassVar[bool] = True
    how: How
    on: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class GlobalLookup(Node):
    """A stream enriched by a table that every task has whole."""

    kind: ClassVar[str] = "global-lookup"
    how: How
    on: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class TableJoin(Node):
    """Two tables by their keys."""

    kind: ClassVar[str] = "table-join"
    stateful: ClassVar[bool] = True
    how: How
    on: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class ForeignKeyJoin(Node):
    """Two tables, by columns of the left that name a key of the right."""

    kind: ClassVar[str] = "foreign-key-join"
    stateful: ClassVar[bool] = True
    how: How
    on: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Process(Node):
    """A function with state of its own per key; and if `timers` says in which time, timers, which call `on_timer`."""

    kind: ClassVar[str] = "process"
    stateful: ClassVar[bool] = True
    function: Function
    states: tuple[tuple[str, State], ...]
    timers: Literal["event", "processing"] | None
    on_timer: Function | None = None

    @property
    def by_clock(self) -> bool:
        """Whether it has something to do when nothing comes but time passes."""
        return self.timers == "processing" or any(state.ttl_ms is not None for _, state in self.states)


@dataclass(frozen=True, kw_only=True)
class Sink(Node):
    """A topic by name, or by an expression per row. A serde that is None is chosen by the columns (see `to`)."""

    kind: ClassVar[str] = "sink"
    topic: str | Expression
    key: Serde | None = None
    value: Serde | None = None
    internal: bool = False


@dataclass(frozen=True, kw_only=True)
class End(Sink):
    """Where an operator ends that is run for what its function does: nothing is written, and `topic` is empty."""

    kind: ClassVar[str] = "end"


@dataclass(frozen=True, kw_only=True)
class DeadLetters(Sink):
    """What fails in its input, the operator or the sink itself: the record as it came, with headers that say where it
    was and why it is dead; a row that is not one record any more, as JSON."""

    kind: ClassVar[str] = "dead-letters"


@dataclass(frozen=True, kw_only=True)
class LateLetters(DeadLetters):
    """The records that came too late for the operators with state of a query, whose last one is the input."""

    kind: ClassVar[str] = "late"


@dataclass(frozen=True)
class Plan:
    """`partitions` is over how many partitions state is spread; None until the first run decides it. `late` is what
    becomes of records that come too late for an operator with state. `loose` are operators that were written, and lead
    to none of its sinks: they are no part of it."""

    app: str
    sinks: tuple[Sink, ...]
    partitions: int | None = None
    dead_letters: str | None = None
    late: Late = "drop"
    loose: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        seen: dict[str, Node] = {}
        for sink in self.sinks:
            _check_names(sink, seen)

    def nodes(self) -> tuple[Node, ...]:
        """Each once, every one after its inputs, in the order in which sinks need them."""
        found: dict[str, Node] = {}
        for sink in self.sinks:
            _visit(sink, found)
        return tuple(found.values())

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes() if node.name == name)


def ancestors(node: Node) -> Iterator[Node]:
    """The node and all that it is made of."""
    found: dict[str, Node] = {}
    _visit(node, found)
    yield from found.values()


def _visit(node: Node, found: dict[str, Node]) -> None:
    if node.name in found:
        return
    for below in node.inputs:
        _visit(below, found)
    found[node.name] = node


def _check_names(node: Node, seen: dict[str, Node]) -> None:
    other = seen.get(node.name)
    if other is None:
        seen[node.name] = node
        for below in node.inputs:
            _check_names(below, seen)
    elif other is not node and other != node:
        if isinstance(node, Grouping) and isinstance(other, Grouping) and node.emit != other.emit:
            raise PlanError(
                f"{node.name!r} is used both with its changes and with its final results: write the aggregation twice, "
                "each with a name= of its own"
            )
        raise PlanError(f"two operators are called {node.name!r}: give one of them another name=")
