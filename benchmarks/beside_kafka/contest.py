"""Both brokers take turns: round by round, one under load while the other idles, so that both see the same machine.

A broker that idles costs the other next to nothing; it is not stopped, so that the JVM keeps what it has compiled. What
one has written goes to the disk before the other's turn, and what it has left to do is done: a JVM compiles and
collects for some seconds after a load. Both are outside of what is measured.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from benchmarks.beside_kafka.nodes import Node
from benchmarks.machine import touch_memory

T = TypeVar("T")
IDLE: Final = 0.05  # of a core: Apache Kafka takes up to 0.04 for nothing
_LOOK_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Effort:
    """How long it is measured."""

    rounds: int
    seconds: float  # of a round
    warm_up_seconds: float  # before the first: the JVM compiles what is hot
    sustained_bytes: int
    sustained_rounds: int
    messages: int  # of a real client, per round
    partitions: int  # of a broker with many
    starts: int
    touches_memory: bool = False  # before each turn that needs much


FULL = Effort(
    rounds=5,
    seconds=4.0,
    warm_up_seconds=10.0,
    sustained_bytes=8 << 30,
    sustained_rounds=2,
    messages=1_000_000,
    partitions=10_000,
    starts=3,
    touches_memory=True,
)
QUICK = Effort(
    rounds=1,
    seconds=1.5,
    warm_up_seconds=2.0,
    sustained_bytes=1 << 30,
    sustained_rounds=1,
    messages=200_000,
    partitions=1_000,
    starts=1,
)


@dataclass(frozen=True, slots=True)
class Contest:
    """Who competes, Headrace first, and how long. Without Apache Kafka there is one competitor."""

    nodes: Sequence[Node]
    effort: Effort

    def take_turns(self, rounds: int, measure: Callable[[Node], T], *, memory_bytes: int = 0) -> list[list[T]]:
        """The results of each node, in the order of the rounds; those of Apache Kafka are empty if it is not there.

        `memory_bytes`: about how much is written in a turn, for which there must be memory.
        """
        results: list[list[T]] = [[], []]
        for _ in range(rounds):
            for node, found in zip(self.nodes, results, strict=False):
                os.sync()
                self._await_idleness()
                if memory_bytes and self.effort.touches_memory:
                    touch_memory(memory_bytes)
                with node.explaining():
                    found.append(measure(node))
        return results

    def _await_idleness(self) -> None:
        """Until all of them rest. Whoever never does must not keep the others waiting."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            before = [node.cpu_seconds() for node in self.nodes]
            time.sleep(_LOOK_SECONDS)
            used = [node.cpu_seconds() - start for node, start in zip(self.nodes, before, strict=True)]
            if max(used) <= IDLE * _LOOK_SECONDS:
                return
