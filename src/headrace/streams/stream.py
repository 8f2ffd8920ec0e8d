"""A stream: rows that come and stay as they are. What users of Kafka Streams know as KStream."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from headrace.streams.columns import Column
from headrace.streams.durations import Duration, duration_ms, positive_ms
from headrace.streams.errors import PlanError
from headrace.streams.functions import function_of
from headrace.streams.handle import (
    Handle,
    On,
    RowFunction,
    check_of,
    condition_of,
    grouping_keys,
    keep_key,
    key_names,
    named_columns,
    pairs_of_streams,
    pairs_to_key,
)
from headrace.streams.plan import (
    Branch,
    Check,
    Chosen,
    Deduplicate,
    Filter,
    FlatMap,
    GlobalLookup,
    How,
    Map,
    Merge,
    Peek,
    Process,
    Repartition,
    Select,
    SelectKey,
    StreamJoin,
    TableLookup,
    ToTable,
)
from headrace.streams.schema import Field, names, parse_schema
from headrace.streams.serdes import Serde
from headrace.streams.shapes import Kind, Shape, check_names, check_new_columns, joined, merged, projected, typed
from headrace.streams.states import State, states_of
from headrace.streams.table import GlobalTable, Table

if TYPE_CHECKING:
    from headrace.streams.grouped import GroupedStream

Within = Duration | tuple[Duration, Duration]  # to both sides, or before and after


class Stream(Handle):
    """Made by `App.stream` and by the operations below. `name=` names the operator, for `explain` and for its state."""

    __slots__ = ()

    def filter(self, condition: Column | RowFunction, *, name: str | None = None) -> "Stream":
        """The rows for which the condition is true. A function gets the row as a dict; an expression is faster."""
        made = condition_of(condition, self.node.shape, where="filter")
        return self._stream(self._make(Filter, name, self.node.shape, condition=made))

    def check(
        self, condition: Column | RowFunction, message: str | None = None, *, name: str | None = None
    ) -> "Stream":
        """The rows for which the condition is true; the others are dead letters, with the message: why they are.

        `orders.check(col.amount > 0, "amount must be positive")`. Without dead letters the first of them stops the app.
        """
        made, why = check_of(condition, message, self.node.shape)
        return self._stream(self._make(Check, name, self.node.shape, condition=made, message=why))

    def select(self, *columns: str | Column, name: str | None = None, **named: object) -> "Stream":
        """Only these columns, and the key's, which always stay: `select("id", cents=col.amount * 100)`."""
        return self._select(columns, named, name, where="select")

    def map_values(
        self, *values: str | Column | RowFunction, schema: str | None = None, name: str | None = None, **named: object
    ) -> "Stream":
        """`select` under its name in Kafka Streams; or a function from a row to a dict of `schema`'s columns."""
        if schema is None:
            return self._select(values, named, name, where="map_values")
        return self._stream(self._map_values(values, named, schema, name))

    def map(
        self, function: RowFunction, schema: str, *, key: str | Sequence[str] | None = None, name: str | None = None
    ) -> "Stream":
        """From a row to a dict of `schema`'s columns. `key` names the new key, else that of the record stays."""
        shape = self._reshaped(schema, key, where="map")
        return self._stream(
            self._make(
                Map,
                name,
                shape,
                function=function_of(function, where="map", may_be_vectorized=True),
                values_only=False,
            )
        )

    def flat_map(
        self, function: RowFunction, schema: str, *, key: str | Sequence[str] | None = None, name: str | None = None
    ) -> "Stream":
        """Like `map`, with a function that returns or yields any number of dicts."""
        shape = self._reshaped(schema, key, where="flat_map")
        return self._stream(self._make(FlatMap, name, shape, function=function_of(function, where="flat_map")))

    def select_key(self, *columns: str | Column, name: str | None = None, **named: object) -> "Stream":
        """Another key: columns that are there, or new ones as `name=expression`."""
        shape = self.node.shape
        keys = named_columns(columns, named, shape, where="select_key")
        if not keys:
            raise PlanError("select_key needs at least one column")
        types = dict(typed(shape, keys))
        kept = tuple(Field(field.name, types.get(field.name, field.type)) for field in shape.columns)
        added = tuple(Field(key, types[key]) for key, _ in keys if key not in names(shape.columns))
        made = replace(shape, columns=kept + added, key=tuple(key for key, _ in keys))
        return self._stream(self._make(SelectKey, name, made, columns=keys))

    def peek(self, function: RowFunction, *, name: str | None = None) -> "Stream":
        """Call a function with each row and pass the row on. A row may be seen again after a failure."""
        made = function_of(function, where="peek")
        return self._stream(self._make(Peek, name, self.node.shape, function=made))

    def foreach(self, function: RowFunction, *, name: str | None = None) -> None:
        """`peek` as the end of a stream."""
        self.peek(function, name=name)

    def branch(
        self, *, default: str | None = None, name: str | None = None, **conditions: Column | RowFunction
    ) -> dict[str, "Stream"]:
        """Streams by name. A row goes to the first whose condition is true, else to `default`, else nowhere.

        `parts = orders.branch(big=col.amount > 100, default="small")`, then `parts["big"]` and `parts["small"]`.
        """
        shape = self.node.shape
        if not conditions:
            raise PlanError('branch needs conditions, such as branch(big=col.amount > 100, default="small")')
        if default in conditions:
            raise PlanError(f"branch: the default is called {default!r}, and so is a condition")
        choices = tuple(
            (choice, condition_of(condition, shape, where=f"branch {choice!r}", may_be_vectorized=False))
            for choice, condition in conditions.items()
        )
        node = self._make(Branch, name, shape, choices=choices, default=default)
        named = [choice for choice, _ in choices] + ([default] if default is not None else [])
        return {
            choice: self._stream(
                self.app.note(
                    Chosen(
                        name=self.app.names.take("", f"{node.name}.{choice}"),
                        inputs=(node,),
                        shape=shape,
                        choice=choice,
                    )
                )
            )
            for choice in named
        }

    def merge(self, *others: "Stream", name: str | None = None) -> "Stream":
        """All rows of this and the others; columns and keys must be equal."""
        for other in others:
            self._same_app(other, where="merge")
        shape = merged([self.node.shape, *(other.node.shape for other in others)], where="merge")
        return self._stream(self._make(Merge, name, shape, *others))

    def repartition(self, partitions: int, *, name: str | None = None) -> "Stream":
        """Spread over so many tasks from here on, rows of one key together."""
        if not isinstance(partitions, int) or partitions < 1:
            raise PlanError(f"repartition takes a whole number above 0, and was given {partitions!r}")
        return self._stream(self._make(Repartition, name, self.node.shape, partitions=partitions))

    def to(
        self,
        topic: str | Column,
        *,
        key: Serde | str | None = None,
        value: Serde | None = None,
        name: str | None = None,
    ) -> None:
        """Write to a topic; a column (`to(col.region)`, or any expression) names the topic row by row.

        Unless told otherwise, the key is the text of the key's column, a JSON object if the key has several columns, or
        the key of the record as it came; the value is a JSON object of all columns.
        """
        self.app.add_sink(self, topic, key=key, value=value, name=name)

    def to_table(self, *, name: str | None = None) -> Table:
        """The latest row of each key, as a table."""
        if not self.key:
            raise PlanError("to_table needs a key: use select_key first, or give key= to app.stream")
        return Table(self.app, self._make(ToTable, name, replace(self.node.shape, kind=Kind.TABLE)))

    def group_by(self, *columns: str | Column, **named: object) -> "GroupedStream":
        """Group by columns or expressions; without any, by the key. Then `windowed`, `agg`, `count`, ..."""
        from headrace.streams.grouped import GroupedStream

        return GroupedStream(self, grouping_keys(columns, named, self.node.shape))

    def deduplicate(self, *columns: str, within: Duration, name: str | None = None) -> "Stream":
        """The first of the rows with equal columns (the key's, if none are named) that come `within` of one another.

        NULL is equal to NULL: tombstones are duplicates of one another unless a column of the key is among these.
        """
        on = columns or self.key
        if not on:
            raise PlanError("deduplicate needs columns, or a stream with a key")
        check_names(on, self.node.shape, where="deduplicate")
        within_ms = positive_ms(within, what="within of deduplicate")
        return self._stream(self._make(Deduplicate, name, self.node.shape, columns=tuple(on), within_ms=within_ms))

    def join(self, other: Handle, *, on: On = None, within: Within | None = None, name: str | None = None) -> "Stream":
        """Rows with a partner: in another stream `within` a time, in a table as it is at the time of the row."""
        return self._join("inner", other, on, within, name)

    def left_join(
        self, other: Handle, *, on: On = None, within: Within | None = None, name: str | None = None
    ) -> "Stream":
        """All rows; the other's columns are NULL without a partner."""
        return self._join("left", other, on, within, name)

    def outer_join(self, other: "Stream", *, on: On = None, within: Within, name: str | None = None) -> "Stream":
        """All rows of both streams."""
        return self._join("outer", other, on, within, name)

    def process(
        self,
        function: RowFunction,
        schema: str,
        *,
        state: Mapping[str, State] | None = None,
        timers: Literal["event", "processing"] | None = None,
        on_timer: RowFunction | None = None,
        name: str | None = None,
    ) -> "Stream":
        """A function with state per key: of a row and a `Context`, it returns or yields dicts of `schema`'s columns.

        The context has the key, the states by their names, and the timers, in event time or in processing time. When
        one is due, `on_timer` is called with the context, and gives rows, too. Columns of the key that a dict leaves
        out are those of the key.
        """
        where = "process"
        if not self.key:
            raise PlanError("process keeps state per key: use select_key first, or give key= to app.stream")
        if timers not in (None, "event", "processing"):
            raise PlanError(f'process: timers is {timers!r}: it must be "event" or "processing"')
        if (timers is None) != (on_timer is None):
            raise PlanError("process: timers= says in which time, on_timer= what is called; give both or none")
        states = states_of(state or {})
        if timers == "event" and any(each.ttl_ms is not None for _, each in states):
            raise PlanError(
                "process: a time to live is counted by the clock, and these timers are in event time: clear the state "
                'by a timer, or use timers="processing"'
            )
        columns = parse_schema(schema)
        missing = [column for column in self.key if column not in names(columns)]
        if missing:
            raise PlanError(f"process: the schema must have the key's columns, and {missing[0]!r} is not in it")
        check_new_columns(names(columns), where=where)
        shape = replace(self.node.shape, columns=columns, of_records=False)
        return self._stream(
            self._make(
                Process,
                name,
                shape,
                function=function_of(function, where=where),
                states=states,
                timers=timers,
                on_timer=None if on_timer is None else function_of(on_timer, where=where),
            )
        )

    def _stream(self, node: Any) -> "Stream":
        return Stream(self.app, node)

    def _select(
        self, columns: Sequence[object], named: Mapping[str, object], name: str | None, *, where: str
    ) -> "Stream":
        shape = self.node.shape
        chosen = keep_key(named_columns(columns, named, shape, where=where), shape, where=where)
        return self._stream(self._make(Select, name, projected(shape, chosen), columns=chosen))

    def _reshaped(self, schema: str, key: str | Sequence[str] | None, *, where: str) -> Shape:
        columns = parse_schema(schema)
        check_new_columns(names(columns), where=where)
        shape = replace(self.node.shape, columns=columns, key=())
        return replace(shape, key=key_names(key, shape, where=where))

    def _join(self, how: How, other: Handle, on: On, within: Within | None, name: str | None) -> "Stream":
        where = {"inner": "join", "left": "left_join", "outer": "outer_join"}[how]
        if not isinstance(other, Handle):
            raise PlanError(f"{where} takes a stream, a table or a global table, and was given {other!r}")
        self._same_app(other, where=where)
        if isinstance(other, Stream):
            return self._join_stream(how, other, on, within, name, where)
        if within is not None:
            raise PlanError(f"{where}: within= is for two streams; a table is joined as it is at the time of the row")
        if how == "outer":
            raise PlanError("outer_join needs two streams, or two tables")
        ours, theirs = self.node.shape, other.node.shape
        pairs = pairs_to_key(on, ours, theirs, where=where)
        shape = joined(ours, theirs, shared=pairs, kind=Kind.STREAM, where=where)
        if isinstance(other, GlobalTable):
            # No shuffle and no state: each row still is one record.
            kept = replace(shape, of_records=ours.of_records)
            return self._stream(self._make(GlobalLookup, name, kept, other, how=how, on=pairs))
        return self._stream(self._make(TableLookup, name, shape, other, how=how, on=pairs))

    def _join_stream(
        self, how: How, other: "Stream", on: On, within: Within | None, name: str | None, where: str
    ) -> "Stream":
        if within is None:
            raise PlanError(f'{where} of two streams needs within=, such as within="5m": how far apart partners may be')
        before, after = within if isinstance(within, tuple) else (within, within)
        ours, theirs = self.node.shape, other.node.shape
        pairs = pairs_of_streams(on, ours, theirs, where=where)
        shape = joined(ours, theirs, shared=pairs, kind=Kind.STREAM, where=where)
        node = self._make(
            StreamJoin,
            name,
            shape,
            other,
            how=how,
            on=pairs,
            before_ms=duration_ms(before, what=f"within of {where}"),
            after_ms=duration_ms(after, what=f"within of {where}"),
        )
        return self._stream(node)
