"""One operator in one line, for people: what `explain` prints and draws."""

from headrace.streams.durations import duration_text
from headrace.streams.expressions import ColumnRef, Expression
from headrace.streams.plan import (
    Aggregate,
    Branch,
    Check,
    Chosen,
    Cogroup,
    DeadLetters,
    Deduplicate,
    End,
    Filter,
    FlatMap,
    Fold,
    ForeignKeyJoin,
    GlobalLookup,
    Grouping,
    LateLetters,
    Map,
    Merge,
    Named,
    Node,
    Peek,
    Process,
    Reduce,
    Repartition,
    Select,
    SelectKey,
    Sink,
    Source,
    StreamJoin,
    TableJoin,
    TableLookup,
    ToStream,
    ToTable,
)


def describe(node: Node) -> str:
    match node:
        case Source():
            return _source(node)
        case DeadLetters():
            return f"to {node.topic}, {_dead(node)}"
        case End():
            return "no topic: what the function does is all"
        case Sink():
            return _sink(node)
        case Filter():
            return f"where {node.condition}"
        case Check():
            return f"must be {node.condition}: {node.message}"
        case Select():
            return named_text(node.columns)
        case Map():
            return f"{node.function} {'of each value' if node.values_only else 'of each row'}"
        case FlatMap():
            return f"{node.function} of each row, any number of rows"
        case SelectKey():
            return f"key {named_text(node.columns)}"
        case Peek():
            return f"calls {node.function}"
        case Branch():
            choices = "; ".join(f"{name} where {condition}" for name, condition in node.choices)
            return choices if node.default is None else f"{choices}; else {node.default}"
        case Chosen():
            return f"those of {node.choice}"
        case Merge():
            return "all rows of its inputs"
        case Repartition():
            return f"over {node.partitions} tasks"
        case ToStream():
            return "changes of the table"
        case ToTable():
            return "latest row of each key"
        case Grouping():
            return _grouping(node)
        case Deduplicate():
            return f"first by {', '.join(node.columns)} within {duration_text(node.within_ms)}"
        case StreamJoin():
            between = f"from {duration_text(node.before_ms)} before to {duration_text(node.after_ms)} after"
            return f"{node.how} join of streams {_on(node.on)}, {between}"
        case TableLookup():
            return f"{node.how} join with a table {_on(node.on)}"
        case GlobalLookup():
            return f"{node.how} join with a global table {_on(node.on)}"
        case TableJoin():
            return f"{node.how} join of tables {_on(node.on)}"
        case ForeignKeyJoin():
            return f"{node.how} join of tables by foreign key {_on(node.on)}"
        case Process():
            states = ", ".join(f"{name}: {state}" for name, state in node.states) or "no state"
            timers = "" if node.timers is None else f", timers in {node.timers} time for {node.on_timer}"
            return f"{node.function} with {states}{timers}"
    raise AssertionError(f"{type(node).__name__} has no description")


def named_text(columns: Named) -> str:
    """`id, cents = amount * 100`."""
    return ", ".join(
        str(expression) if expression == ColumnRef(name) else f"{name} = {expression}" for name, expression in columns
    )


def columns_text(node: Node) -> str:
    """`table (country string, n bigint) by country`; a type that only Spark can know is left out."""
    shape = node.shape
    columns = ", ".join(field.name if field.type is None else f"{field.name} {field.type}" for field in shape.columns)
    key = f" by {', '.join(shape.key)}" if shape.key else ""
    return f"{shape.kind} ({columns}){key}"


def _source(node: Source) -> str:
    what = f"topics like {node.pattern}" if node.pattern is not None else ", ".join(node.topics)
    if node.internal:
        return f"{what} (of this app)"
    parts = [what]
    if node.key is not None:
        parts.append(f"key {node.key}")
    parts.append(f"value {node.value}")
    if isinstance(node.time, Expression):
        parts.append(f"time {node.time}")
    elif node.time != "record":
        parts.append(f"{node.time} time")
    if node.start != "earliest":
        parts.append(f"from the {node.start}")
    return ", ".join(parts)


def _dead(node: DeadLetters) -> str:
    if isinstance(node, LateLetters):
        return "what came too late"
    match node.input:
        case Source():
            return "what cannot be decoded"
        case Sink():
            return "what cannot be encoded"
    return "what fails"


def _sink(node: Sink) -> str:
    if node.internal:
        return f"to {node.topic} (of this app)"
    target = f"to {node.topic}" if isinstance(node.topic, str) else f"to the topic {node.topic}"
    serdes = [f"{part} {serde}" for part, serde in (("key", node.key), ("value", node.value)) if serde is not None]
    return ", ".join([target, *serdes])


def _grouping(node: Grouping) -> str:
    window = "" if node.window is None else f", {node.window}, grace {duration_text(node.shape.grace_ms)}"
    match node:
        case Aggregate():
            work = ", ".join(f"{name} = {aggregation}" for name, aggregation in node.aggregations)
        case Reduce():
            work = f"{node.function} of two rows"
        case Fold():
            work = f"{node.function} from {node.initial}"
        case Cogroup():
            work = f"{' and '.join(map(str, node.functions))} from {node.initial}"
        case _:
            raise AssertionError(f"{type(node).__name__} has no description")
    return f"by {named_text(node.keys)}{window}: {work}; emits {node.emit}"


def _on(pairs: tuple[tuple[str, str], ...]) -> str:
    return "on " + ", ".join(ours if ours == theirs else f"{ours} = {theirs}" for ours, theirs in pairs)
