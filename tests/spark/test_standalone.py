"""Pipelines on a real Spark cluster: a master and two workers of Spark's own, processes on this machine."""

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import headrace
from tests.support.both_brokers import unique
from tests.support.driver_processes import DRIVER_SECONDS, GIVEN_UP, end
from tests.support.kafka_tools import REPOSITORY
from tests.support.spark_settings import without_generated_code
from tests.support.streams_cluster import DRIVER_ENVIRONMENT, WORKERS, Cluster, spark_cluster
from tests.support.waiting import wait_until

SECONDS: Final = 1400
WAIT_SECONDS: Final = 600
COMMAND: Final = (sys.executable, "-c", "from headrace.cli import main; main()")
PIPELINE: Final = REPOSITORY / "tests" / "support" / "streams_cluster_pipeline.py"
TIERS: Final = {"ann": "gold", "bob": "tin", "cid": "gold"}

pytestmark = pytest.mark.timeout(SECONDS)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, spark_archive: Path) -> Iterator[Cluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster"), spark_archive) as made:
        yield made


def driver_environment() -> dict[str, str]:
    return without_generated_code() | DRIVER_ENVIRONMENT


class Orders:
    """Orders of users with a tier, and what must become of them."""

    def __init__(self, bootstrap: str) -> None:
        self.name = unique("shop")
        self._bootstrap = bootstrap
        self._sent: list[tuple[str, int]] = []  # user and total; the place is the id
        with headrace.Admin(bootstrap) as admin:
            for topic, partitions in (("orders", 2), ("users", 1), ("tiers", 1), ("numbered", 2)):
                admin.create_topic(f"{self.name}.{topic}", partitions=partitions)
        with headrace.Producer(bootstrap) as producer:
            for user, tier in TIERS.items():
                producer.send(f"{self.name}.users", key=user, value=json.dumps({"tier": tier}).encode(), timestamp=1)

    def send(self, count: int) -> None:
        with headrace.Producer(self._bootstrap) as producer:
            for number in range(len(self._sent), len(self._sent) + count):
                user, total = [*TIERS, "nobody"][number * 7 % 4], number % 10
                row = {"id": number, "user": user, "total": total}
                producer.send(f"{self.name}.orders", key=user, value=json.dumps(row).encode())
                self._sent.append((user, total))

    def are_all_there(self) -> bool:
        return len(self._read("numbered")) >= len(self._sent) and self._tiers() == self._expected_tiers()

    def check(self) -> None:
        """Each order once, with its number among those of its user; each change of a tier once."""
        numbers: Counter[str] = Counter()
        expected = []
        for number, (user, _) in enumerate(self._sent):
            numbers[user] += 1
            expected.append((user, number, numbers[user]))
        assert sorted((row["user"], row["id"], row["n"]) for row in self._read("numbered")) == sorted(expected)
        assert self._tiers() == self._expected_tiers()
        for tier in set(TIERS.values()):
            counts = [row["n"] for row in self._read("tiers") if row["tier"] == tier]
            assert counts == sorted(set(counts)), "each change was written once"

    def _expected_tiers(self) -> dict[str, tuple[int, int]]:
        made: dict[str, tuple[int, int]] = {}
        for user, total in self._sent:
            if user in TIERS:
                n, so_far = made.get(TIERS[user], (0, 0))
                made[TIERS[user]] = (n + 1, so_far + total)
        return made

    def _tiers(self) -> dict[str, tuple[int, int]]:
        return {row["tier"]: (row["n"], row["total"]) for row in self._read("tiers")}

    def _read(self, topic: str) -> list[Any]:
        table = headrace.arrow.read(f"{self.name}.{topic}", self._bootstrap, isolation="read_committed")
        return [json.loads(value) for value in table.column("value").to_pylist()]


class Driver:
    """The pipeline, in a process of its own. Given up by Spark, it is started again, as a watcher would do."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self._command = command
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                self._command, env=self._environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    @property
    def group(self) -> int:
        assert self._process is not None
        return self._process.pid

    def wait_killed(self) -> None:
        assert self._process is not None
        assert self._process.wait(DRIVER_SECONDS) == -signal.SIGKILL, self._log.read_text()[-4000:]

    def goes_on(self) -> bool:
        """It runs, or runs again; a failure of its own is the test's."""
        assert self._process is not None
        if self._process.poll() is not None:
            said = self._log.read_text()[-4000:]
            assert self._process.returncode == 1, said
            assert GIVEN_UP in said, said
            self.start()
        return True

    def end(self) -> None:
        if self._process is not None:
            end(self._process)


def test_keyed_state_on_a_shared_path_survives_a_driver_and_a_worker_that_are_killed_in_the_middle_of_a_task(
    cluster: Cluster, broker: headrace.Broker, tmp_path: Path
) -> None:
    """A table joined, a reduce and a processor, on both workers before and after the driver dies, and then on one."""
    orders = Orders(broker.address)
    mark = tmp_path / "mark"
    shared = tmp_path / "shared"
    told = {
        "HEADRACE_TEST_APP": orders.name,
        "HEADRACE_TEST_BOOTSTRAP": broker.address,
        "HEADRACE_TEST_MARK": str(mark),
        "XDG_STATE_HOME": str(tmp_path / "home"),
    }
    command = [*COMMAND, "pipeline", "run", str(PIPELINE), "--master", cluster.url, "--state", shared.as_uri()]
    driver = Driver(command, driver_environment() | told, tmp_path / "driver.log")

    def wait_for_all(what: str) -> None:
        wait_until(lambda: driver.goes_on() and orders.are_all_there(), what, seconds=WAIT_SECONDS)

    def end_in_a_task(**named: Any) -> None:
        mark.with_name("new").write_text(json.dumps(named))
        mark.with_name("new").rename(mark)  # there at once, and whole

    orders.send(40)
    try:
        driver.start()
        wait_for_all("the first orders, on two workers")
        end_in_a_task(driver=driver.group)
        orders.send(40)
        driver.wait_killed()
        assert not orders.are_all_there()
        driver.start()
        wait_for_all("the orders of whose tasks the driver has died")
        wait_until(lambda: len(cluster.state()["activeapps"]) == 1, "the driver that was killed is missed")
        applications = [each for kind in ("activeapps", "completedapps") for each in cluster.state()[kind]]
        assert len(applications) >= 2, "one that was killed, and one that goes on"
        assert {(each["name"], each["cores"]) for each in applications} == {(orders.name, WORKERS)}, "on both workers"
        end_in_a_task(workers=cluster.workers)
        orders.send(40)
        wait_for_all("the orders of whose tasks one was killed")
        assert not mark.exists()
        wait_until(lambda: cluster.state()["aliveworkers"] == WORKERS - 1, "the master has missed a worker")
        orders.send(40)
        wait_for_all("the orders after that, on one worker")
    finally:
        driver.end()
    orders.check()
    assert (shared / "plan.json").exists()
