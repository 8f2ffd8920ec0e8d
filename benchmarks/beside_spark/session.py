"""One session for both: on two cores, with Spark's connector on its class path if that can be had."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

import headrace.spark
from benchmarks.beside_spark.jars import connector_jars

_DAEMON: Final = "pyspark.daemon"


@contextmanager
def spark_session(
    master: str = "local[2]", *, conf: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[SparkSession, bool]]:
    """The session, and whether Spark's own connector is there, too."""
    jars = connector_jars()
    made = {"spark.driver.extraClassPath": ":".join(map(str, jars)), "spark.driver.memory": "2g"}
    spark = headrace.spark.session("benchmark", master, conf={**made, **conf})
    try:
        yield spark, bool(jars)
    finally:
        spark.stop()


class _Process(NamedTuple):
    parent: int
    command: str
    cpu_seconds: float  # with that of its children that have ended
    peak_mb: float


def worker_peaks_mb() -> list[float]:
    """The most memory that each Python worker of this session has had so far; a worker is a fork of Spark's daemon."""
    processes = _of_spark()
    daemons = {pid for pid, each in processes.items() if _DAEMON in each.command}
    return [each.peak_mb for each in processes.values() if _DAEMON in each.command and each.parent in daemons]


def reset_worker_peaks() -> None:
    """From now on `worker_peaks_mb` are those since now."""
    for pid, each in _of_spark().items():
        if _DAEMON in each.command:
            with suppress(OSError):  # it has ended meanwhile
                Path(f"/proc/{pid}/clear_refs").write_text("5")


def cpu_seconds() -> float:
    """What the JVM of this session and its Python workers have used so far."""
    return sum(each.cpu_seconds for each in _of_spark().values())


def tree_cpu_seconds() -> float:
    """What this process and all below it have used so far."""
    processes = dict(_processes())
    return sum(processes[pid].cpu_seconds for pid in _with_descendants({os.getpid()}, processes))


def _of_spark() -> dict[int, _Process]:
    """The JVM that this process has started, and everything below it."""
    processes = dict(_processes())
    found = {pid for pid, each in processes.items() if each.parent == os.getpid() and "java" in each.command}
    return {pid: processes[pid] for pid in _with_descendants(found, processes)}


def _with_descendants(found: set[int], processes: Mapping[int, _Process]) -> set[int]:
    while more := {pid for pid, each in processes.items() if each.parent in found} - found:
        found = found | more
    return found


def _processes() -> Iterator[tuple[int, _Process]]:
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            command = directory.joinpath("cmdline").read_text()
            # What follows the name, which may hold anything, even parentheses.
            fields = directory.joinpath("stat").read_text().rpartition(")")[2].split()
            peak = re.search(r"VmHWM:\s*(\d+) kB", directory.joinpath("status").read_text())
        except OSError:  # it has ended meanwhile
            continue
        ticks = sum(map(int, fields[11:15]))
        peak_mb = int(peak[1]) / 1024 if peak else 0.0
        yield int(directory.name), _Process(int(fields[1]), command, ticks / os.sysconf("SC_CLK_TCK"), peak_mb)
