import gc
import weakref
from collections.abc import Callable

import pytest

from headrace.server.later import Later


def test_an_answer_reaches_its_listener_whichever_comes_first() -> None:
    seen: list[int] = []
    early: Later[int] = Later()
    early.then(seen.append)
    early.resolve(1)
    late: Later[int] = Later()
    late.resolve(2)
    late.then(seen.append)
    assert seen == [1, 2]


def test_nobody_hears_an_answer_that_comes_after_it_was_abandoned() -> None:
    seen: list[object] = []
    later: Later[int] = Later()
    later.then(seen.append)
    later.on_abandon(lambda: seen.append("abandoned"))
    later.abandon()
    later.abandon()
    later.resolve(1)
    assert seen == ["abandoned"]


def test_abandoning_what_was_answered_changes_nothing() -> None:
    seen: list[object] = []
    later: Later[int] = Later()
    later.on_abandon(lambda: seen.append("abandoned"))
    later.resolve(1)
    later.abandon()
    later.then(seen.append)
    assert seen == [1]


def test_a_mapped_answer_is_changed_and_gives_up_with_its_source() -> None:
    seen: list[object] = []
    source: Later[int] = Later()
    source.map(lambda value: value * 10).then(seen.append)
    source.resolve(4)
    assert seen == [40]
    waiting: Later[int] = Later()
    waiting.on_abandon(lambda: seen.append("source"))
    waiting.map(str).abandon()
    assert seen == [40, "source"]


class Waiter:
    """Holds what it waits for, and is held by it."""

    def __init__(self) -> None:
        self.later: Later[int] = Later()
        self.later.then(self.hear)
        self.later.on_abandon(self.forget)

    def hear(self, _: int) -> None: ...

    def forget(self) -> None: ...


@pytest.mark.parametrize("settle", [lambda later: later.resolve(1), Later.abandon], ids=["resolved", "abandoned"])
def test_who_has_waited_goes_without_the_garbage_collector(settle: Callable[[Later[int]], None]) -> None:
    waiter = Waiter()
    seen = weakref.ref(waiter)
    gc.disable()
    try:
        settle(waiter.later)
        del waiter
        assert seen() is None
    finally:
        gc.enable()
