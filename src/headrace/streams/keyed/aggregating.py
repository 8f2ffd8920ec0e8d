"""Aggregations as folds: what Spark computes natively, for windows that it does not have.

The results are Spark's: NULL does not count, a sum of nothing is NULL, NaN is greater than any other number, and whole
numbers wrap around. In structs and arrays NULL is less than anything else. A row is a struct of the arguments, in the
order of the aggregations.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, ClassVar, Final

import pyarrow as pa

from headrace.streams.keyed.folding import At, Value

_EXACT: Final = Context(prec=76, rounding=ROUND_HALF_UP)
_AT: Final = ("time", "place", "offset")


@dataclass(frozen=True)
class Part:
    """`kind` is the aggregation's; `of` is the type of its argument, None for the count of all rows."""

    name: str
    kind: str
    of: pa.DataType | None
    result: pa.DataType

    @property
    def kept(self) -> pa.DataType:
        match self.kind:
            case "avg":
                return pa.struct([("sum", _sum_type(self.of)), ("n", pa.int64())])
            case "first" | "latest":
                return pa.struct([("value", self.of), *((name, pa.int64()) for name in _AT)])
        return self.result


@dataclass(frozen=True)
class Aggregating:
    parts: tuple[Part, ...]
    may_keep_rows: ClassVar[bool] = False

    @property
    def value_type(self) -> pa.StructType:
        return pa.struct([(part.name, part.kept) for part in self.parts])

    @property
    def results(self) -> pa.Schema:
        return pa.schema([(part.name, part.result) for part in self.parts])

    def add(self, value: Value | None, side: int, row: dict[str, Any], at: At) -> Value | None:  # noqa: ARG002
        made = dict.fromkeys(part.name for part in self.parts) if value is None else value
        for part in self.parts:
            given = row[part.name] if part.of is not None else True
            made[part.name] = _MERGE[part.kind](made[part.name], _single(part, given, at))
        return made

    def merge(self, one: Value, other: Value) -> Value | None:
        return {part.name: _MERGE[part.kind](one[part.name], other[part.name]) for part in self.parts}

    def result(self, value: Value) -> dict[str, Any]:
        return {part.name: _result(part, value[part.name]) for part in self.parts}


@dataclass(frozen=True)
class Totals:
    """Counts, sums and averages that rows can be taken out of again: side 0 adds a row, side 1 takes one back.

    As in Kafka Streams, a group that has lost its last row stays, with a count and a sum of 0.
    """

    parts: tuple[Part, ...]
    may_keep_rows: ClassVar[bool] = False

    @property
    def value_type(self) -> pa.StructType:
        fields = []
        for part in self.parts:
            kept = pa.struct([("sum", pa.int64() if part.kind == "count" else _sum_type(part.of)), ("n", pa.int64())])
            fields.append((part.name, kept))
        return pa.struct(fields)

    @property
    def results(self) -> pa.Schema:
        return pa.schema([(part.name, part.result) for part in self.parts])

    def add(self, value: Value | None, side: int, row: dict[str, Any], at: At) -> Value | None:  # noqa: ARG002
        sign = -1 if side else 1
        made = {part.name: {"sum": None, "n": 0} for part in self.parts} if value is None else value
        for part in self.parts:
            given = row[part.name] if part.of is not None else 0
            if given is not None:
                made[part.name] = self._total(part, made[part.name], given, sign)
        return made

    def merge(self, one: Value, other: Value) -> Value | None:  # noqa: ARG002
        raise AssertionError("tables have no sessions")

    def result(self, value: Value) -> dict[str, Any]:
        return {part.name: self._result(part, **value[part.name]) for part in self.parts}

    def _total(self, part: Part, so_far: Value, given: Any, sign: int) -> Value:
        n = so_far["n"] + sign
        if part.kind == "count":
            return {"sum": None, "n": n}
        nothing = Decimal(0) if isinstance(given, Decimal) else type(given)(0)
        if n == 0:  # exactly, also where floating point numbers would leave a rest
            return {"sum": nothing, "n": 0}
        change = _negated(given) if sign < 0 else given
        return {"sum": change if so_far["sum"] is None else _plus(so_far["sum"], change), "n": n}

    def _result(self, part: Part, sum: Any, n: int) -> Any:  # noqa: A002
        if part.kind == "count":
            return n
        if part.kind == "avg":
            return _average(part, sum, n)
        return sum


def _single(part: Part, given: Any, at: At) -> Any:
    """What is kept of one row alone. None: the row does not count."""
    if part.kind in ("first", "latest"):
        return {"value": given, **dict(zip(_AT, at, strict=True))}
    if given is None:
        return [] if part.kind == "collect" else 0 if part.kind == "count" else None
    match part.kind:
        case "count":
            return 1
        case "avg":
            return {"sum": given if isinstance(given, Decimal) else float(given), "n": 1}
        case "collect":
            return [given]
    return given


def _either(join: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: other if one is None else one if other is None else join(one, other)


def _plus(one: Any, other: Any) -> Any:
    if isinstance(one, Decimal):
        return _EXACT.add(one, other)
    total = one + other
    if isinstance(total, int) and not -(1 << 63) <= total < 1 << 63:
        return (total + (1 << 63)) % (1 << 64) - (1 << 63)
    return total


def _negated(value: Any) -> Any:
    return _EXACT.minus(value) if isinstance(value, Decimal) else -value


def _rank(value: Any) -> tuple[int, Any]:
    """Orders values as Spark does: NULL first, NaN last, structs by their fields, arrays by their elements."""
    if value is None:
        return (0, None)
    if isinstance(value, float) and math.isnan(value):  # which is equal to itself here
        return (2, None)
    if isinstance(value, dict):
        return (1, [_rank(each) for each in value.values()])
    return (1, [_rank(each) for each in value] if isinstance(value, list) else value)


def _at(kept: Value) -> tuple[int, ...]:
    return tuple(kept[name] for name in _AT)


_MERGE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "count": _either(_plus),
    "sum": _either(_plus),
    "min": _either(lambda one, other: min(one, other, key=_rank)),
    "max": _either(lambda one, other: max(one, other, key=_rank)),
    "avg": _either(lambda one, other: {"sum": _plus(one["sum"], other["sum"]), "n": one["n"] + other["n"]}),
    "collect": _either(lambda one, other: one + other),
    "first": _either(lambda one, other: min(one, other, key=_at)),
    "latest": _either(lambda one, other: max(one, other, key=_at)),
}


def _result(part: Part, kept: Any) -> Any:
    if kept is None:
        return None
    match part.kind:
        case "avg":
            return _average(part, kept["sum"], kept["n"])
        case "first" | "latest":
            return kept["value"]
    return kept


def _average(part: Part, total: Any, n: int) -> Any:
    if n == 0:
        return None
    if isinstance(total, Decimal):
        exponent = Decimal(1).scaleb(-part.result.scale)
        return _EXACT.quantize(_EXACT.divide(total, Decimal(n)), exponent)
    return total / n


def _sum_type(of: pa.DataType | None) -> pa.DataType:
    """Wide enough for any sum."""
    assert of is not None
    if pa.types.is_decimal(of):
        return pa.decimal128(38, of.scale)
    return pa.int64() if pa.types.is_integer(of) else pa.float64()
