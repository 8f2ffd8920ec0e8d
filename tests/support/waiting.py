"""Waiting for a condition, with a deadline that only a broken program meets."""

import time
from collections.abc import Callable
from typing import Final

DEADLINE_SECONDS: Final = 120.0  # so long the machine may be busy; what needs it is broken
_LOOK_EVERY_SECONDS: Final = 0.01
_PAUSES_PER_LOOK: Final = 9  # one that takes long, such as reading a topic, must not take a core from what it waits for


def wait_until(
    condition: Callable[[], bool], what: str = "what was waited for", *, seconds: float = DEADLINE_SECONDS
) -> None:
    """Return when it holds; `what` names it if it never does."""
    deadline = time.monotonic() + seconds
    began = time.monotonic()
    while not condition():
        looked = time.monotonic()
        assert looked < deadline, f"not within {seconds} s: {what}"
        time.sleep(max(_LOOK_EVERY_SECONDS, _PAUSES_PER_LOOK * (looked - began)))
        began = time.monotonic()
