"""A user's Python function inside a plan: what is called at run time, and the name under which the plan knows it.

Only the name takes part in comparisons and goes into JSON; a plan that was read back knows which functions it was made
with, but cannot call them.

As a rule a function gets a row. One that is `vectorized` gets the columns of many rows, and is called once for them.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headrace.streams.errors import PlanError


@dataclass(frozen=True, slots=True)
class Function:
    """`name` is module and qualified name, such as `shop.orders.enrich` or `shop.orders.build.<locals>.<lambda>`."""

    name: str
    call: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.name.rsplit(".", 1)[-1] + "()"


class Vectorized:
    """What `vectorized` makes of a function."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, batch: Any) -> Any:
        return self._function(batch)


def vectorized(function: Callable[[Any], Any]) -> Vectorized:
    """Call the function with many rows at once, as a `pyarrow.RecordBatch`; for `filter`, `check` and `map_values`.

        @vectorized
        def in_cents(orders):
            return {"cents": pyarrow.compute.multiply(orders["amount"], 100)}

        orders.map_values(in_cents, schema="cents long")

    It gives a dict of columns, or for a condition one column of booleans: Arrow arrays, NumPy arrays, Series or lists,
    with a value for each row. Each row counts for itself, since how many come together may change from run to run. If
    it raises, it is called again for each row alone, so that only those which fail are dead letters.
    """
    if not callable(function):
        raise PlanError(f"vectorized needs a function, and was given {function!r}")
    return Vectorized(function)


def function_of(given: object, *, where: str, may_be_vectorized: bool = False) -> Function:
    if not callable(given):
        raise PlanError(f"{where} needs a function, and was given {given!r}")
    if isinstance(given, Vectorized) and not may_be_vectorized:
        raise PlanError(f"{where} needs a function of a row: filter, check, map and map_values take vectorized ones")
    module = getattr(given, "__module__", None) or "?"
    name = getattr(given, "__qualname__", None) or type(given).__qualname__
    return Function(f"{module}.{name}", given)
