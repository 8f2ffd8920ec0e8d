"""Cutting a plan into queries of Spark, where output modes demand it.

Theory. A streaming query of Spark has one output mode and one result. In `append` a row leaves when it can no longer
change: final windows, outer joins, native sessions. In `update` it leaves whenever it changes: running aggregates. Few
operators can do both, and a native one that is followed by another stateful operator must append. So a plan is cut

1. after a stateful operator that another stateful one and somebody else read: a query has one result;
2. after stateful operators whose results are merged without another stateful operator, with each other or with rows
   that have passed none: a query with state has only its result;
3. between two stateful operators which share no output mode, and after those whose rows do not keep to a watermark: an
   outer join of streams, whose rows may lack either side and with it its time, and a processor of the user's;
4. after an operator with state of our own that stands between two of Spark's: its rows have lost the watermark, and
   Spark lets nobody set a second one;
5. before and after windows of our own: they take the watermark at its word, and what a stateful operator before them
   gives in the moment in which it closes something is behind the watermark already;
6. before an operator with state that stands behind a join with a global table: such a join belongs into the part of a
   query that is run on each micro-batch, as Spark would read the table once for the state, and never see it change;
7. between a deduplication and whoever else goes by the watermark, before it or after it: by its delay Spark knows how
   long to remember a row, so that it is `within`, and windows would close so much later.

At a cut the operator's rows go to a topic of the app's own, `<app>.<operator>`, and the next query reads them from
there. Sinks that hang on the same stateful operator belong to one query, and write in one transaction; so do all
stateless ones that share a source, which is then read once.

If the app has dead letters, each operator in which a row may fail has a sink for them, and the rules above do the rest.
Dead letters of what stands before any state are written by the stateless query that shares their source, or by one of
their own, since the one result of a stateful query is not made of those rows any more. A function that stands before
state is then called in both queries: one drops the row, the other writes it to the dead letters. So it must answer the
same each time that it is asked. Behind state, the query that has the state writes them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

from headrace.streams.failing import may_fail
from headrace.streams.lateness import judged_inputs
from headrace.streams.naming import internal_topic
from headrace.streams.plan import (
    Aggregate,
    DeadLetters,
    Deduplicate,
    GlobalLookup,
    Grouping,
    LateLetters,
    Node,
    Plan,
    Process,
    Sink,
    Source,
    StreamJoin,
    ancestors,
)
from headrace.streams.serdes import JsonSerde, Serde
from headrace.streams.shapes import Kind
from headrace.streams.walks import transform
from headrace.streams.windows import Hopping, Session, Tumbling

Mode = Literal["append", "update"]
_EITHER: Final[frozenset[Mode]] = frozenset({"append", "update"})
_APPEND: Final[frozenset[Mode]] = frozenset({"append"})
_UPDATE: Final[frozenset[Mode]] = frozenset({"update"})


class Traits(NamedTuple):
    """In which modes a stateful operator runs. `native`: Spark's own, which must append if another one follows."""

    modes: frozenset[Mode]
    native: bool


@dataclass(frozen=True)
class Query:
    """One query of Spark: the part of a plan that ends in `sinks` and begins at topics. `name` names its checkpoint."""

    name: str
    mode: Mode
    sinks: tuple[Sink, ...]

    def nodes(self) -> tuple[Node, ...]:
        return Plan("", self.sinks).nodes()

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(node for node in self.nodes() if isinstance(node, Source))

    @property
    def stateful(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes() if node.stateful)

    @property
    def by_clock(self) -> bool:
        """Whether it has something to do when nothing comes but time passes."""
        return any(isinstance(node, Process) and node.by_clock for node in self.nodes())


def traits(node: Node) -> Traits:
    """What Spark can do with a stateful operator."""
    assert node.stateful, node
    match node:
        case Aggregate() if node.input.shape.kind is Kind.TABLE:  # a row may leave its group, which Spark cannot do
            return Traits(_EITHER, native=False)
        case Aggregate(window=None):
            return Traits(_UPDATE, native=True)
        case Aggregate(window=Tumbling() | Hopping()):
            return Traits(_APPEND if node.emit == "final" else _UPDATE, native=True)
        case Aggregate(window=Session(), emit="final"):
            return Traits(_APPEND, native=True)
        case Grouping():  # sliding windows, sessions with changes, functions of the user's: state of our own
            return Traits(_EITHER, native=False)
        case StreamJoin(how="inner") | Deduplicate():
            return Traits(_EITHER, native=True)
        case StreamJoin():
            return Traits(_APPEND, native=True)
    return Traits(_EITHER, native=False)


def cut(plan: Plan) -> tuple[Query, ...]:
    """The queries of a plan, each after those whose topics it reads."""
    plan = _with_dead_letters(_cut_behind_global_tables(plan))
    frontiers = {node.name: _frontier(node) for node in plan.nodes()}
    cuts = _structural_cuts(plan, frontiers)
    modes = _modes(plan, frontiers, cuts)
    parts: dict[str, list[Sink]] = {}  # by the name of the stateful operator that the query ends in
    stateless: list[Sink] = []
    for node in plan.nodes():
        if node.name in cuts:
            parts.setdefault(node.name, []).append(_internal_sink(plan, _before(plan, node, cuts)))
        elif isinstance(node, Sink):
            ends = frontiers[node.name]
            if len(ends) == 1 and not _passes_state(node):
                parts.setdefault(ends[0], []).append(_keeping(plan, node, cuts, ends[0]))
            else:
                stateless.append(_sink(_after(plan, node, cuts)))
    made = [Query(name, _chosen(modes[name]), tuple(sinks)) for name, sinks in parts.items()]
    made.extend(_stateless_queries(stateless))
    order = {node.name: number for number, node in enumerate(plan.nodes())}
    made.sort(key=lambda query: min(order[(sink.input if sink.internal else sink).name] for sink in query.sinks))
    if plan.late == "dead_letters":
        made = [_with_late_letters(plan, query) for query in made]
    return tuple(_in_order(made))


def _cut_behind_global_tables(plan: Plan) -> Plan:
    """Rule 6, as a plan: with a sink before the operator with state, which reads from that sink's topic."""
    enriched: set[str] = set()  # operators without state behind a join with a global table
    cuts: dict[str, Sink] = {}
    for node in plan.nodes():
        if node.stateful:
            cuts |= {below.name: _internal_sink(plan, below) for below in node.inputs if below.name in enriched}
        elif isinstance(node, GlobalLookup) or any(below.name in enriched for below in node.inputs):
            enriched.add(node.name)
    if not cuts:
        return plan

    def change(node: Node) -> Node:
        if not node.stateful:
            return node
        inputs = (_internal_source(plan, below) if below.name in cuts else below for below in node.inputs)
        return replace(node, inputs=tuple(inputs))

    return transform(replace(plan, sinks=(*plan.sinks, *cuts.values())), change)


def _frontier(node: Node) -> tuple[str, ...]:
    """The nearest stateful operators above, in the order in which they are met."""
    found: dict[str, None] = {}
    for below in node.inputs:
        found.update(dict.fromkeys((below.name,) if below.stateful else _frontier(below)))
    return tuple(found)


def _passes_state(node: Node) -> bool:
    """Whether rows of a stream or a table come to it without a stateful operator on their way."""
    return any(
        isinstance(below, Source) or _passes_state(below)
        for below in node.inputs
        if not below.stateful and below.shape.kind is not Kind.GLOBAL_TABLE
    )


def _structural_cuts(plan: Plan, frontiers: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Rules 1, 2 and 5, and those who do not keep to a watermark."""
    cuts: set[str] = set()
    without = {
        node.name for node in plan.nodes() if isinstance(node, Process) or _is_outer(node) or has_own_windows(node)
    }
    readers: dict[str, list[Node]] = {}
    for node in plan.nodes():
        if node.stateful or isinstance(node, Sink):
            ends = frontiers[node.name]
            for end in ends:
                readers.setdefault(end, []).append(node)
            if (isinstance(node, Sink) and (len(ends) > 1 or _passes_state(node))) or has_own_windows(node):
                cuts.update(ends)
    for name, who in readers.items():
        if any(reader.stateful for reader in who) and (len(who) > 1 or name in without):
            cuts.add(name)
    return cuts


def has_own_windows(node: Node) -> bool:
    """Whether it keeps windows as state of our own. Such an operator is alone with its state in a query."""
    return isinstance(node, Grouping) and node.window is not None and not traits(node).native


def _goes_by_watermark(node: Node) -> bool:
    return traits(node).native or (isinstance(node, Process) and node.timers == "event")


def _is_outer(node: Node) -> bool:
    return isinstance(node, StreamJoin) and node.how == "outer"


def _modes(plan: Plan, frontiers: Mapping[str, tuple[str, ...]], cuts: set[str]) -> Mapping[str, frozenset[Mode]]:
    """Rules 3, 4 and 7: the modes left to the query of each stateful operator; `cuts` grows where none would be."""
    left: dict[str, frozenset[Mode]] = {}
    native: dict[str, bool] = {}  # whether the operator or one that it follows in its query is Spark's own
    own: dict[str, Traits] = {}
    apart = {node.name for node in plan.nodes() if isinstance(node, Deduplicate)}
    for node in plan.nodes():
        if not node.stateful:
            continue
        own[node.name] = traits(node)
        modes, any_native = own[node.name]
        for above in frontiers[node.name]:
            if above in cuts:
                continue
            shared = modes & left[above] & (_APPEND if native[above] else _EITHER)
            is_second_watermark = _goes_by_watermark(node) and native[above] and not own[above].native
            is_other_watermark = (
                (node.name in apart or above in apart) and _goes_by_watermark(node) and own[above].native
            )
            if shared and not is_second_watermark and not is_other_watermark:
                modes, any_native = shared, any_native or native[above]
            else:
                cuts.add(above)
        left[node.name], native[node.name] = modes, any_native
    return left


def _after(plan: Plan, node: Node, cuts: set[str]) -> Node:
    """The node with every operator at a cut replaced by a read of its topic."""
    if node.name in cuts:
        return _internal_source(plan, node)
    return _before(plan, node, cuts)


def _before(plan: Plan, node: Node, cuts: set[str]) -> Node:
    """The node itself, over inputs that are read from cuts."""
    inputs = tuple(_after(plan, below, cuts) for below in node.inputs)
    return node if inputs == node.inputs else replace(node, inputs=inputs)


def _keeping(plan: Plan, sink: Sink, cuts: set[str], end: str) -> Sink:
    """A sink in the query of its stateful operator, which may be cut off from others, but not from its own sinks."""
    if end not in cuts:
        return _sink(_before(plan, sink, cuts))

    def kept(node: Node) -> Node:
        if node.name == end:
            return _before(plan, node, cuts)
        inputs = tuple(kept(below) for below in node.inputs)
        return node if inputs == node.inputs else replace(node, inputs=inputs)

    return _sink(kept(sink))


def _internal_source(plan: Plan, node: Node) -> Source:
    topic = internal_topic(plan.app, node.name)
    shape = replace(node.shape, of_records=False)
    return Source(
        name=topic, shape=shape, topics=(topic,), key=_internal_key(node), value=JsonSerde(None), internal=True
    )


def _internal_sink(plan: Plan, node: Node) -> Sink:
    return Sink(
        name=f"{node.name}.out",
        inputs=(node,),
        shape=node.shape,
        topic=internal_topic(plan.app, node.name),
        key=_internal_key(node),
        value=JsonSerde(None),
        internal=True,
    )


def _internal_key(node: Node) -> Serde | None:
    """Rows without a key of their own keep that of their record."""
    return JsonSerde(None) if node.shape.key else None


def _stateless_queries(sinks: list[Sink]) -> Iterator[Query]:
    """Sinks that share a source, directly or by way of others, are one query.

    Those which read what others compute are not in one with those which do not: it might be computed from them.
    """
    groups: list[tuple[set[str], list[Sink]]] = []
    for sink in sinks:
        topics, members = _streams_read(sink), [sink]
        apart = []
        for others, theirs in groups:
            if others & topics and _reads_internal(theirs[0]) == _reads_internal(sink):
                topics, members = others | topics, theirs + members
            else:
                apart.append((others, theirs))
        groups = [*apart, (topics, members)]
    ordered = [tuple(sink for sink in sinks if sink in members) for _, members in groups]
    for order in sorted(ordered, key=lambda members: sinks.index(members[0])):
        sources = [node for node in ancestors(order[0]) if isinstance(node, Source)]
        first = next((source for source in sources if source.internal), sources[0])
        name = f"{first.name}.dead" if isinstance(order[0], DeadLetters) else first.name
        yield Query(name, "append", order)


def _with_dead_letters(plan: Plan) -> Plan:
    """A sink for the dead letters of each operator in which a row may fail."""
    if plan.dead_letters is None:
        return plan
    dead = (
        DeadLetters(name=f"{node.name}.dead", inputs=(node,), shape=node.shape, topic=plan.dead_letters)
        for node in plan.nodes()
        if may_fail(node)
    )
    return replace(plan, sinks=(*plan.sinks, *dead))


def _with_late_letters(plan: Plan, query: Query) -> Query:
    """They leave with the results, as only the query with the state knows what was late for it."""
    assert plan.dead_letters is not None, plan.app
    if next(judged_inputs(query.nodes()), None) is None:
        return query
    end = query.stateful[-1]
    late = LateLetters(name=f"{query.name}.late", inputs=(end,), shape=end.shape, topic=plan.dead_letters)
    return replace(query, sinks=(*query.sinks, late))


def _streams_read(sink: Sink) -> set[str]:
    return {
        node.name for node in ancestors(sink) if isinstance(node, Source) and node.shape.kind is not Kind.GLOBAL_TABLE
    }


def _reads_internal(sink: Sink) -> bool:
    return any(isinstance(node, Source) and node.internal for node in ancestors(sink))


def _in_order(queries: list[Query]) -> Iterator[Query]:
    """Writers of an internal topic before its readers; otherwise by the order in which the plan names their sinks."""
    waiting = list(queries)
    while waiting:
        unwritten = {sink.topic for query in waiting for sink in query.sinks if sink.internal}
        ready = next(
            query
            for query in waiting
            if not any(source.internal and source.topics[0] in unwritten for source in query.sources)
        )
        waiting.remove(ready)
        yield ready


def _chosen(modes: frozenset[Mode]) -> Mode:
    return "append" if "append" in modes else "update"


def _sink(node: Node) -> Sink:
    assert isinstance(node, Sink), node
    return node
