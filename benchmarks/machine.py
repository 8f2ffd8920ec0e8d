"""What else happened on this machine while something was measured: a figure from a busy one is worth little.

The kernel counts how long its processors were busy, and how long the host took them away (`steal`). What is left after
those who were measured is the others' share.
"""

import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

NOISE: Final = 0.1  # of a core: more than this by others is told
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_MOST_TOUCHED: Final = 0.6  # of the memory that is free: nobody else is to be pushed out
_TOUCH: Final = """
import mmap, sys
size = int(sys.argv[1])
with mmap.mmap(-1, size) as memory:
    for start in range(0, size, 1 << 28):
        memory[start : start + (1 << 28) : mmap.PAGESIZE] = bytes((1 << 28) // mmap.PAGESIZE)
"""


@dataclass(frozen=True, slots=True)
class Moment:
    """Seconds since the machine's start, and, of children, since ours."""

    at: float
    busy: float
    stolen: float
    children: float  # of this process, that have ended: load generators

    @classmethod
    def now(cls) -> Self:
        user, nice, system, _, _, irq, soft_irq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cls(
            at=time.perf_counter(),
            busy=(user + nice + system + irq + soft_irq) / _TICKS_PER_SECOND,
            stolen=steal / _TICKS_PER_SECOND,
            children=used.ru_utime + used.ru_stime,
        )


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Shares of one core."""

    others: float
    stolen: float

    @classmethod
    def since(cls, before: Moment, *, measured_cpu_seconds: float) -> Self:
        """`measured_cpu_seconds` is what those have used that were measured, apart from our own children."""
        now = Moment.now()
        seconds = now.at - before.at
        ours = measured_cpu_seconds + now.children - before.children
        others = max(0.0, now.busy - before.busy - ours)
        return cls(others / seconds, (now.stolen - before.stolen) / seconds)

    @property
    def text(self) -> str:
        """Empty if the machine was quiet."""
        if max(self.others, self.stolen) <= NOISE:
            return ""
        return f"NOT QUIET: others took {self.others:.0%} of a core, and the host {self.stolen:.0%}"


def touch_memory(size_bytes: int) -> None:
    """Have the memory that will be needed from the host, if this machine is a virtual one; and right before it is.

    A host gives it page by page when it is used, and takes back what is free within a minute. To have a GB takes a core
    3 s, as opposed to 0.5 s for memory that is there. Without this, that is what is measured of whoever comes first to
    new memory: 16 KB batches went at 826 MB/s in one round and at 248 MB/s in the next one.
    """
    available = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    most_bytes = int(int(available.split()[1]) * 1024 * _MOST_TOUCHED)
    subprocess.run([sys.executable, "-c", _TOUCH, str(min(size_bytes, most_bytes) >> 28 << 28)], check=True)
