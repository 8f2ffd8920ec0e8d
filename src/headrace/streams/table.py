"""Tables: the latest row of each key. KTable and GlobalKTable of Kafka Streams.

A table changes by upserts and deletions, and all operations on it do: a filter turns a row that no longer passes into a
deletion of its key, a join follows both of its sides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.streams.columns import Column
from headrace.streams.errors import PlanError
from headrace.streams.handle import (
    Handle,
    On,
    RowFunction,
    check_of,
    condition_of,
    grouping_keys,
    keep_key,
    named_columns,
    pairs_to_key,
)
from headrace.streams.plan import Check, Emit, Filter, ForeignKeyJoin, Grouping, How, Select, TableJoin, ToStream
from headrace.streams.serdes import Serde
from headrace.streams.shapes import Kind, joined, projected

if TYPE_CHECKING:
    from headrace.streams.grouped import GroupedTable
    from headrace.streams.stream import Stream


class GlobalTable(Handle):
    """A table that every task has whole: streams may be joined to it by any of their columns, without a shuffle."""

    __slots__ = ()


class Table(Handle):
    """Made by `App.table`, by aggregations and by `Stream.to_table`."""

    __slots__ = ()

    def filter(self, condition: Column | RowFunction, *, name: str | None = None) -> "Table":
        """The rows for which the condition is true; the others are deleted."""
        made = condition_of(condition, self.node.shape, where="filter")
        return self._table(self._make(Filter, name, self.node.shape, condition=made))

    def check(self, condition: Column | RowFunction, message: str | None = None, *, name: str | None = None) -> "Table":
        """The changes for which the condition is true, and deletions; the others are dead letters, and the row of their
        key stays as it was."""
        made, why = check_of(condition, message, self.node.shape)
        return self._table(self._make(Check, name, self.node.shape, condition=made, message=why))

    def select(self, *columns: str | Column, name: str | None = None, **named: object) -> "Table":
        """Only these columns, and the key's, which always stay."""
        return self._select(columns, named, name, where="select")

    def map_values(
        self, *values: str | Column | RowFunction, schema: str | None = None, name: str | None = None, **named: object
    ) -> "Table":
        """`select` under its name in Kafka Streams; or a function from a row to a dict of `schema`'s columns."""
        if schema is None:
            return self._select(values, named, name, where="map_values")
        return self._table(self._map_values(values, named, schema, name))

    def emit(self, when: Emit) -> "Table":
        """When the results of an aggregation leave it: "changes", each time they change (at most once per micro-batch),
        or "final", once per window, when no more rows can come for it."""
        node = self.node
        if when not in ("changes", "final"):
            raise PlanError(f'emit takes "changes" or "final", and was given {when!r}')
        if not isinstance(node, Grouping):
            raise PlanError(f"emit comes right after agg, count, reduce or aggregate, and this is {node.name!r}")
        if when == "final" and node.window is None:
            raise PlanError('emit("final") needs a window: without one, more rows can always come')
        return self._table(self.app.note(replace(node, emit=when)))

    def to_stream(self, *, name: str | None = None) -> "Stream":
        """The changes as a stream; of a deletion only the key's columns are not NULL."""
        from headrace.streams.stream import Stream

        return Stream(self.app, self._make(ToStream, name, replace(self.node.shape, kind=Kind.STREAM)))

    def to(
        self, topic: str, *, key: Serde | str | None = None, value: Serde | None = None, name: str | None = None
    ) -> None:
        """Write each change to a topic, a deletion as a tombstone: compacted, that topic is the table."""
        if not isinstance(topic, str):
            raise PlanError("a table goes to one topic, by its name; use to_stream() first to choose one for each row")
        self.app.add_sink(self, topic, key=key, value=value, name=name)

    def group_by(self, *columns: str | Column, **named: object) -> "GroupedTable":
        """Group by other columns; a row that changes leaves its old group and enters its new one."""
        from headrace.streams.grouped import GroupedTable

        return GroupedTable(self, grouping_keys(columns, named, self.node.shape))

    def join(self, other: "Table", *, on: On = None, name: str | None = None) -> "Table":
        """Rows that both tables have. By both keys, or by columns `on` of this table that are the other's key."""
        return self._join("inner", other, on, name)

    def left_join(self, other: "Table", *, on: On = None, name: str | None = None) -> "Table":
        return self._join("left", other, on, name)

    def outer_join(self, other: "Table", *, name: str | None = None) -> "Table":
        """Rows that either table has, by both keys."""
        return self._join("outer", other, None, name)

    def _join(self, how: How, other: object, on: On, name: str | None) -> "Table":
        where = {"inner": "join", "left": "left_join", "outer": "outer_join"}[how]
        if not isinstance(other, Table):
            raise PlanError(f"{where}: a table is joined with a table; join the stream with this table instead")
        self._same_app(other, where=where)
        ours, theirs = self.node.shape, other.node.shape
        pairs = pairs_to_key(on, ours, theirs, where=where)
        shape = joined(ours, theirs, shared=pairs, kind=Kind.TABLE, where=where)
        if tuple(left for left, _ in pairs) == ours.key:
            return self._table(self._make(TableJoin, name, shape, other, how=how, on=pairs))
        return self._table(self._make(ForeignKeyJoin, name, shape, other, how=how, on=pairs))

    def _select(
        self, columns: Sequence[object], named: Mapping[str, object], name: str | None, *, where: str
    ) -> "Table":
        shape = self.node.shape
        chosen = keep_key(named_columns(columns, named, shape, where=where), shape, where=where)
        return self._table(self._make(Select, name, projected(shape, chosen), columns=chosen))

    def _table(self, node: Any) -> "Table":
        return Table(self.app, node)
