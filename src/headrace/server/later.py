"""A reply that is not there yet.

Handlers are plain functions that run to their end on the loop thread; what they cannot answer now they promise as a
`Later`, and whatever the answer waits for (an append, a high watermark, a flush, a deadline) resolves it. An asyncio
future would cost a turn of the loop for each answer and bind handlers to asyncio; this is one callback.

Once settled, it holds on to nobody. Whoever waits holds the `Later`, and is held by it: a circle, which would be left
to the garbage collector, and all requests wait while that runs.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Later(Generic[T]):
    """Resolved at most once. Whoever asked may go away before: then `abandon` runs what `on_abandon` was given."""

    __slots__ = ("_abandoned", "_on_abandon", "_then", "_values")

    def __init__(self) -> None:
        self._values: list[T] = []  # empty, or the one value
        self._then: Callable[[T], None] | None = None
        self._on_abandon: Callable[[], None] | None = None
        self._abandoned = False

    @property
    def is_settled(self) -> bool:
        """Resolved or abandoned: nothing more can happen to it."""
        return self._abandoned or bool(self._values)

    @property
    def value(self) -> T:
        """The answer, which must be there."""
        return self._values[0]

    def resolve(self, value: T) -> None:
        """The answer is there. Nothing happens if whoever asked has gone."""
        if self._abandoned:
            return
        assert not self._values, f"resolved with {self._values[0]!r}, and again with {value!r}"
        self._values.append(value)
        self._on_abandon = None
        then, self._then = self._then, None
        if then is not None:
            then(value)

    def then(self, callback: Callable[[T], None]) -> None:
        """Call `callback` with the answer, at once if it is there already."""
        assert self._then is None, "a Later has one listener"
        if self._values:
            callback(self._values[0])
        else:
            self._then = callback

    def map(self, function: Callable[[T], U]) -> "Later[U]":
        """The answer, changed by `function`; giving up the one gives up the other."""
        mapped: Later[U] = Later()
        mapped.on_abandon(self.abandon)
        self.then(lambda value: mapped.resolve(function(value)))
        return mapped

    def on_abandon(self, callback: Callable[[], None]) -> None:
        """Call `callback` if nobody wants the answer any more, so that what waits for it can be forgotten."""
        self._on_abandon = callback

    def abandon(self) -> None:
        """Nobody wants the answer any more."""
        if self.is_settled:
            return
        self._abandoned = True
        on_abandon, self._on_abandon, self._then = self._on_abandon, None, None
        if on_abandon is not None:
            on_abandon()


def as_later(value: T | Later[T]) -> Later[T]:
    """The same to whoever wants to wait for it, although it may be there already."""
    if isinstance(value, Later):
        return value
    later: Later[T] = Later()
    later.resolve(value)
    return later


def gather(laters: Sequence[Later[T]]) -> Later[list[T]]:
    """All answers in their order, when the last one is there."""
    together: Later[list[T]] = Later()
    answers: dict[int, T] = {}

    def take(place: int, value: T) -> None:
        answers[place] = value
        if len(answers) == len(laters):
            together.resolve([answers[each] for each in range(len(laters))])

    def abandon() -> None:
        for later in laters:
            later.abandon()

    together.on_abandon(abandon)
    if not laters:
        together.resolve([])
    for place, later in enumerate(laters):
        later.then(partial(take, place))
    return together
