"""What is folded: how a row is added to what a group has so far, and how two sessions become one.

A group's value is a dict that fits `value_type`, or None while there is nothing, as before its first row. A function of
the user's may give None, too: then the group ends, and its next row starts it anew, as in Kafka Streams.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

import pyarrow as pa

from headrace.streams.failing import bounded, error_text, misfit_text
from headrace.streams.functions import Function
from headrace.streams.whole_numbers import array_of

Value = dict[str, Any]


# When and where a row came: time in microseconds, place, offset. Later ones are greater.
At = tuple[int, int, int]


class Folding(Protocol):
    @property
    def may_keep_rows(self) -> bool:
        """Whether `add` may change a row, or give it as the new value: then each group needs a row of its own."""

    @property
    def value_type(self) -> pa.StructType:
        """Of what is kept for a group."""

    @property
    def results(self) -> pa.Schema:
        """Of what comes out for a group, beside its key."""

    def add(self, value: Value | None, side: int, row: dict[str, Any], at: At) -> Value | None:
        """With one more row, of input number `side`. May change the value that it was given."""

    def merge(self, one: Value, other: Value) -> Value | None:
        """Of two sessions; `one` is the earlier."""

    def result(self, value: Value) -> dict[str, Any]: ...


class FunctionFailedError(RuntimeError):
    """A function of the user's has raised, or has given what does not fit. `error` and `function` are what a dead
    letter says of it."""

    def __init__(self, message: str, *, error: str, function: str | None = None) -> None:
        super().__init__(message)
        self.error = bounded(error)
        self.function = function


@dataclass(frozen=True)
class Reducing:
    """By a function of two rows; a group starts with its first."""

    operator: str
    function: Function
    row_type: pa.StructType
    results: pa.Schema
    may_keep_rows: ClassVar[bool] = True

    @property
    def value_type(self) -> pa.StructType:
        return self.row_type

    def add(self, value: Value | None, side: int, row: dict[str, Any], at: At) -> Value | None:  # noqa: ARG002
        return row if value is None else called(self.operator, self.function, value, row)

    def merge(self, one: Value, other: Value) -> Value | None:
        return called(self.operator, self.function, one, other)

    def result(self, value: Value) -> dict[str, Any]:
        return value


@dataclass(frozen=True)
class FoldingRows:
    """By a function of what there is and a row, one for each input; `initial` makes the first of what there is."""

    operator: str
    initial: Function
    functions: tuple[Function, ...]
    merging: Function | None
    results: pa.Schema
    may_keep_rows: ClassVar[bool] = True

    @property
    def value_type(self) -> pa.StructType:
        return pa.struct(list(self.results))

    def add(self, value: Value | None, side: int, row: dict[str, Any], at: At) -> Value | None:  # noqa: ARG002
        if value is None:
            value = called(self.operator, self.initial)
        return called(self.operator, self.functions[side], value, row)

    def merge(self, one: Value, other: Value) -> Value | None:
        assert self.merging is not None, self
        return called(self.operator, self.merging, one, other)

    def result(self, value: Value) -> dict[str, Any]:
        return value


def called(operator: str, function: Function, *given: Any) -> Value | None:
    call: Callable[..., Any] | None = function.call
    assert call is not None, function
    try:
        made = call(*given)
    except Exception as error:
        row = f" for the row {given[-1]}" if given else ""
        raise FunctionFailedError(
            f"{operator}: {function} raised{row}: {error!r}", error=error_text(error), function=function.name
        ) from error
    if made is None or isinstance(made, dict):
        return made
    wrong = f"must give a dict of columns, or None, and gave {made!r}"
    raise FunctionFailedError(f"{operator}: {function} {wrong}", error=f"it {wrong}", function=function.name)


_MISFITS: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)


def values_array(values: Sequence[Value | None], value_type: pa.StructType, operator: str) -> pa.Array:
    """As they are kept. Raises FunctionFailedError for the first that does not fit."""
    try:
        return array_of(values, value_type)
    except _MISFITS as error:
        for value in values:
            if (reason := misfit([value], value_type)) is not None:
                raise FunctionFailedError(
                    f"{operator}: {value!r} does not fit {value_type}: {reason}",
                    error=misfit_text(reason),
                ) from error
        raise


def misfit(values: Sequence[Value | None], value_type: pa.StructType) -> Exception | None:
    """Why they cannot be kept; None if they can."""
    try:
        array_of(values, value_type)
    except _MISFITS as reason:
        return reason
    return None
