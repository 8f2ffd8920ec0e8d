"""What a benchmark reports, and how it measures: CPU time, best of several repeats, ratios within one run."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Self


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value beside its goal: an upper bound if `at_most`, else a lower one; None is for information.

    With a `peer` it stands beside what somebody else reached in the same run. The goal may then be one for the ratio:
    the median of the ratios of all rounds, since a round sees one and the same machine.
    """

    name: str
    value: float
    unit: str
    goal: float | None = None
    at_most: bool = True
    note: str = ""
    peer: float | None = None
    ratio: float | None = None
    is_ratio_goal: bool = False
    peer_name: str = "Apache Kafka"

    @classmethod
    def beside(
        cls,
        name: str,
        unit: str,
        ours: Sequence[float],
        peers: Sequence[float],
        *,
        goal: float | None = None,
        at_most: bool = False,
        is_ratio_goal: bool = True,
        note: str = "",
        peer_name: str = "Apache Kafka",
    ) -> Self:
        """Rounds of both sides; `peers` may be empty, if nobody is there to compare with."""
        ratio = median(own / peer for own, peer in zip(ours, peers, strict=True)) if peers else None
        peer = median(peers) if peers else None
        return cls(name, median(ours), unit, goal, at_most, note, peer, ratio, is_ratio_goal, peer_name)

    @property
    def met(self) -> bool | None:
        reached = self.ratio if self.is_ratio_goal else self.value
        if self.goal is None or reached is None:
            return None
        return reached <= self.goal if self.at_most else reached >= self.goal


def cpu_seconds(work: Callable[[], object], *, calls: int, repeats: int = 7) -> float:
    """CPU seconds of one call of `work`: the best of `repeats` rounds of `calls` calls, since noise only ever adds."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        for _ in range(calls):
            work()
        best = min(best, time.process_time() - start)
    return best / calls
