"""Between `group_by` and a table: groups, windows over them, and what is computed."""

from collections.abc import Mapping
from typing import Any

from headrace.streams.aggregates import Aggregation, count
from headrace.streams.errors import PlanError
from headrace.streams.functions import Function, function_of
from headrace.streams.handle import Handle, RowFunction
from headrace.streams.plan import Aggregate, Cogroup, Fold, Grouping, Named, Reduce
from headrace.streams.schema import Field, Schema, parse_schema
from headrace.streams.shapes import Shape, aggregated, check_expression
from headrace.streams.table import Table
from headrace.streams.windows import Hopping, Session, Sliding, Tumbling, Window

# Which aggregations can take a row back when it leaves its group. The others would need all rows of the group.
_INVERTIBLE = frozenset({"count", "sum", "avg"})


class _Grouped:
    """A handle with the columns to group by, and a window if there is one."""

    __slots__ = ("_keys", "_of", "_window")

    def __init__(self, of: Handle, keys: Named, window: Window | None = None) -> None:
        self._of = of
        self._keys = keys
        self._window = window

    def agg(self, *, name: str | None = None, **aggregations: Aggregation) -> Table:
        """`agg(n=count(), total=sum_(col.amount))`: a table of the groups, with a column for each of these."""
        shape = self._of.node.shape
        if not aggregations:
            raise PlanError("agg needs something to compute, such as agg(n=count())")
        for column, aggregation in aggregations.items():
            if not isinstance(aggregation, Aggregation):
                raise PlanError(
                    f"agg: {column} is {aggregation!r}: use count(), sum_(col.x), min_, max_, avg, collect, ..."
                )
            if aggregation.of is not None:
                check_expression(aggregation.of, shape, where=f"agg {column}")
        results = tuple(Field(column, made.type_in(shape.readable)) for column, made in aggregations.items())
        return self._table(Aggregate, name, results, where="agg", aggregations=tuple(aggregations.items()))

    def count(self, column: str = "count", *, name: str | None = None) -> Table:
        """How many rows each group has, in a column of this name."""
        return self.agg(name=name, **{column: count()})

    def _table(
        self, operator: type[Grouping], name: str | None, results: Schema, *, where: str, **fields: Any
    ) -> Table:
        shape = self._shape(results, where=where)
        node = self._of._make(operator, name, shape, keys=self._keys, window=self._window, **fields)
        return Table(self._of.app, node)

    def _shape(self, results: Schema, *, where: str) -> Shape:
        windowed = self._window is not None
        return aggregated(self._of.node.shape, self._keys, results, windowed=windowed, where=where)


class GroupedTable(_Grouped):
    """Groups of a table's rows: `agg` and `count`, which follow rows from group to group."""

    __slots__ = ()

    def agg(self, *, name: str | None = None, **aggregations: Aggregation) -> Table:
        for column, aggregation in aggregations.items():
            if isinstance(aggregation, Aggregation) and aggregation.kind not in _INVERTIBLE:
                raise PlanError(
                    f"agg {column}: {aggregation.kind} cannot take back a row that leaves its group; "
                    "over a table there are count, sum_ and avg"
                )
        return super().agg(name=name, **aggregations)


class _FoldableStream(_Grouped):
    """What groups and windows of streams have in common: Python functions."""

    __slots__ = ()

    def reduce(self, function: RowFunction, *, name: str | None = None) -> Table:
        """A function of two rows (dicts) that returns one with the same columns; a group starts with its first row."""
        grouped = {key for key, _ in self._keys}
        results = tuple(field for field in self._of.node.shape.columns if field.name not in grouped)
        return self._table(Reduce, name, results, where="reduce", function=function_of(function, where="reduce"))

    def aggregate(
        self,
        initial: RowFunction,
        function: RowFunction,
        schema: str,
        *,
        merge: RowFunction | None = None,
        name: str | None = None,
    ) -> Table:
        """`function(so_far, row)` returns the new dict of `schema`'s columns; `initial()` makes the first `so_far`.

        Sessions also need `merge(one, other)`, for two of them that a late row joins.
        """
        where = "aggregate"
        fields = {
            "initial": function_of(initial, where=where),
            "function": function_of(function, where=where),
            "merge": session_merge(merge, self._window, where=where),
        }
        return self._table(Fold, name, parse_schema(schema), where=where, **fields)


class WindowedStream(_FoldableStream):
    """Groups per window. The table's key is the group's columns, `window_start` and `window_end`."""

    __slots__ = ()


class GroupedStream(_FoldableStream):
    """Groups of a stream's rows."""

    __slots__ = ()

    def windowed(self, window: Window) -> WindowedStream:
        """`tumbling`, `hopping`, `sliding` or `session`, over the event time of the rows."""
        return WindowedStream(self._of, self._keys, checked_window(window))

    def cogroup(self, function: RowFunction) -> "CogroupedStream":
        """The first of several streams that are folded into one table: `function(so_far, row)`, one for each stream."""
        return CogroupedStream(((self, function_of(function, where="cogroup")),))


class CogroupedStream:
    """`a.cogroup(f).cogroup(b, g).aggregate(initial, schema)`."""

    __slots__ = ("_parts", "_window")

    def __init__(self, parts: tuple[tuple[GroupedStream, Function], ...], window: Window | None = None) -> None:
        self._parts = parts
        self._window = window

    def cogroup(self, other: GroupedStream, function: RowFunction) -> "CogroupedStream":
        if not isinstance(other, GroupedStream):
            raise PlanError(f"cogroup takes what group_by gives, and was given {other!r}")
        first = self._parts[0][0]
        first._of._same_app(other._of, where="cogroup")
        if [name for name, _ in first._keys] != [name for name, _ in other._keys]:
            raise PlanError("cogroup: all streams must be grouped by columns of the same names")
        return CogroupedStream((*self._parts, (other, function_of(function, where="cogroup"))), self._window)

    def windowed(self, window: Window) -> "CogroupedStream":
        return CogroupedStream(self._parts, checked_window(window))

    def aggregate(
        self, initial: RowFunction, schema: str, *, merge: RowFunction | None = None, name: str | None = None
    ) -> Table:
        where = "cogroup"
        first = self._parts[0][0]
        windowed = self._window is not None
        shape = aggregated(first._of.node.shape, first._keys, parse_schema(schema), windowed=windowed, where=where)
        fields: Mapping[str, Any] = {
            "keys": first._keys,
            "keys_of_inputs": tuple(grouped._keys for grouped, _ in self._parts),
            "window": self._window,
            "initial": function_of(initial, where=where),
            "functions": tuple(function for _, function in self._parts),
            "merge": session_merge(merge, self._window, where=where),
        }
        others = (grouped._of for grouped, _ in self._parts[1:])
        return Table(first._of.app, first._of._make(Cogroup, name, shape, *others, **fields))


def checked_window(window: object) -> Window:
    if not isinstance(window, Tumbling | Hopping | Sliding | Session):
        raise PlanError(
            f'windowed takes tumbling("1m"), hopping("1h", "5m"), sliding("1m") or session("30m"): not {window!r}'
        )
    return window


def session_merge(merge: RowFunction | None, window: Window | None, *, where: str) -> Function | None:
    """Sessions need a function that joins two of them, and nothing else does."""
    if isinstance(window, Session) != (merge is not None):
        raise PlanError(
            f"{where}: merge= is needed for session windows, where a late row may join two sessions, and only for them"
        )
    return None if merge is None else function_of(merge, where=where)
