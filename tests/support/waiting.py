"""Waiting for a condition, with a deadline that only a broken program meets."""

import time
from collections.abc import Callable
from typing import Final

DEADLINE_SECONDS: Final = 60.0
_LOOK_EVERY_SECONDS: Final = 0.01


def wait_until(condition: Callable[[], bool], *, seconds: float = DEADLINE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(_LOOK_EVERY_SECONDS)
