"""A user's Python function inside a plan: what is called at run time, and the name under which the plan knows it.

Only the name takes part in comparisons and goes into JSON; a plan that was read back knows which functions it was made
with, but cannot call them.
"""

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


def function_of(given: object, *, where: str) -> Function:
    if not callable(given):
        raise PlanError(f"{where} needs a function, and was given {given!r}")
    module = getattr(given, "__module__", None) or "?"
    name = getattr(given, "__qualname__", None) or type(given).__qualname__
    return Function(f"{module}.{name}", given)
