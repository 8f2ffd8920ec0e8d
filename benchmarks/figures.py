"""What a benchmark reports, and how it measures: CPU time, best of several repeats, ratios within one run."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value beside its goal: an upper bound if `at_most`, else a lower one; None is for information."""

    name: str
    value: float
    unit: str
    goal: float | None = None
    at_most: bool = True
    note: str = ""

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value <= self.goal if self.at_most else self.value >= self.goal


def cpu_seconds(work: Callable[[], object], *, calls: int, repeats: int = 7) -> float:
    """CPU seconds of one call of `work`: the best of `repeats` rounds of `calls` calls, since noise only ever adds."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(calls):
            work()
        best = min(best, time.process_time() - start)
    return best / calls
