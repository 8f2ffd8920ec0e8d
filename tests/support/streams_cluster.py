"""A real Spark cluster: a master and two workers of Spark's own, processes of their own on this machine."""

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pyspark

from headrace.spark.java import find_java, java_home_for
from tests.support.kafka import free_ports
from tests.support.waiting import wait_until

WORKERS: Final = 2
# What those who start drivers on it must have in their environment.
DRIVER_ENVIRONMENT: Final = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_EXECUTOR_MEMORY": "512m"}


class Cluster(NamedTuple):
    """`workers` are the process ids of its workers, by their directories.

    What a worker starts for an application are children of its own, in a directory below its own.
    """

    url: str
    page: str
    workers: Mapping[str, int] = MappingProxyType({})

    def state(self) -> dict[str, Any]:
        """What the master's page says, for programs."""
        with urllib.request.urlopen(f"{self.page}/json/", timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


@contextmanager
def spark_cluster(directory: Path, archive: Path) -> Iterator[Cluster]:
    java_home = java_home_for(find_java(os.environ), str(directory))
    # Executors inherit it from their workers: several JVMs that live for a minute.
    quick = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:SharedArchiveFile={archive} -Xlog:disable"
    environment = {
        **os.environ,
        "JAVA_HOME": java_home,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JDK_JAVA_OPTIONS": f"{quick} -Xlog:all=error:stderr",
    }
    port, page_port = free_ports(2)
    made = Cluster(f"spark://127.0.0.1:{port}", f"http://127.0.0.1:{page_port}")
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page_port)]
    worker = ["worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
    with ExitStack() as stack:
        stack.enter_context(_running(master, environment, directory / "master.log"))
        wait_until(lambda: _answers(made), "the master's page", seconds=240)
        workers = {}
        for number in range(WORKERS):
            work = str(directory / f"worker{number}")
            command = [*worker, "--work-dir", work, made.url]
            workers[work] = stack.enter_context(_running(command, environment, directory / f"worker{number}.log"))
        wait_until(lambda: made.state()["aliveworkers"] == WORKERS, "two workers", seconds=240)
        yield made._replace(workers=workers)


@contextmanager
def _running(command: Sequence[str], environment: dict[str, str], log: Path) -> Iterator[int]:
    """One of Spark's processes, by its id; `spark-class` becomes the JVM, so that its end is the JVM's."""
    script = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with (
        log.open("w") as file,
        subprocess.Popen(
            [str(script), f"org.apache.spark.deploy.{command[0]}", *command[1:]],
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(60)
            finally:
                process.kill()


def _answers(cluster: Cluster) -> bool:
    try:
        return bool(cluster.state())
    except (OSError, ValueError):  # the page may be there a moment before the one for programs is
        return False
