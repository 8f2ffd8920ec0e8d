"""The demo on a real Spark cluster: a master and two workers of Spark's own, processes of their own on this machine."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
import pytest

from headrace.spark.java import find_java, java_home_for
from tests.support.kafka import free_ports
from tests.support.waiting import wait_until

SECONDS = 1400
WORKERS = 2


class Cluster(NamedTuple):
    url: str
    page: str

    def state(self) -> dict[str, Any]:
        """What the master's page says, for programs."""
        with urllib.request.urlopen(f"{self.page}/json/", timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


@pytest.fixture
def cluster(tmp_path: Path, spark_archive: Path) -> Iterator[Cluster]:
    java_home = java_home_for(find_java(os.environ), str(tmp_path))
    # Executors inherit it from their workers: seven JVMs that live for a minute.
    quick = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:SharedArchiveFile={spark_archive} -Xlog:disable"
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
        stack.enter_context(running(master, environment, tmp_path / "master.log"))
        wait_until(lambda: answers(made), "the master's page", seconds=240)
        for number in range(WORKERS):
            command = [*worker, "--work-dir", str(tmp_path / f"worker{number}"), made.url]
            stack.enter_context(running(command, environment, tmp_path / f"worker{number}.log"))
        wait_until(lambda: made.state()["aliveworkers"] == WORKERS, "two workers", seconds=240)
        yield made


@contextmanager
def running(command: Sequence[str], environment: dict[str, str], log: Path) -> Iterator[None]:
    """One of Spark's processes; `spark-class` becomes the JVM, so that its end is the JVM's."""
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
            yield
        finally:
            process.terminate()
            try:
                process.wait(60)
            finally:
                process.kill()


def answers(cluster: Cluster) -> bool:
    try:
        return bool(cluster.state())
    except OSError:
        return False


@pytest.mark.timeout(SECONDS)
def test_the_demo_gives_the_same_on_a_cluster_of_two_workers_and_survives_a_killed_driver(cluster: Cluster) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from headrace.cli import main; main()"),
            *("demo", "--orders", "2000", "--master", cluster.url),
        ],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_EXECUTOR_MEMORY": "512m"},
        capture_output=True,
        text=True,
        timeout=SECONDS - 120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Equal: nothing lost, nothing doubled." in done.stdout
    wait_until(lambda: not cluster.state()["activeapps"], "both drivers are gone")
    applications = [(each["name"], each["cores"]) for each in cluster.state()["completedapps"]]
    assert len(applications) >= 2, "one that was killed, and one that went on"
    assert set(applications) == {("demo", WORKERS)}, "each of them on both workers"
