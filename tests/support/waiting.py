"""Waiting for a condition, with a deadline that only a broken program meets."""

import time
from collections.abc import Callable
from typing import Final

DEADLINE_SECONDS: Final = 60.0
_LOOK_EVERY_SECONDS: Final = 0.01


def wait_until(
    condition: Callable[[], bool], what: str = "what was waited for", *, seconds: float = DEADLINE_SECONDS
) -> None:
    """Return when it holds; `what` names it if it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(_LOOK_EVERY_SECONDS)
