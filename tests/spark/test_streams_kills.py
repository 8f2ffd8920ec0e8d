"""kill -9 of the driver of a pipeline with state of our own: at chosen places, and at any moment. At the end, output,
tables and dead letters are what plain Python makes of the same orders, each change and each letter once."""

import json
import signal
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace
from tests.support.both_brokers import unique
from tests.support.driver_processes import DRIVER_SECONDS, DriverProcesses, end
from tests.support.kills import KILLS, SEED, stay_a_moment
from tests.support.streams_driver import GAP_MS, WINDOW_MS, Row, is_unlucky, killed_app
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

BASE_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
ORDERS = 30  # of one round, a second apart: less than the grace, so that none is late
USERS = [f"u{number}" for number in range(5)]


class Shop:
    """Orders and users, and what must become of them."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.name = unique("shop")
        self.bootstrap = bootstrap
        self._random = Random(f"{SEED} shop")
        self._seconds = 0
        self._tiers: dict[str, str] = {}
        self._orders: list[tuple[Row, str | None]] = []  # with the tier of the user at that time
        self._poison = 0
        self.drivers = DriverProcesses(
            "tests.support.streams_driver",
            directory / "driver.log",
            {
                "app": self.name,
                "bootstrap": bootstrap,
                "state": str(directory / "state"),
                "mark": str(directory / "mark"),
            },
        )
        with headrace.Admin(bootstrap) as admin:
            for topic, partitions in (("orders", 2), ("users", 1), ("copies", 2), ("totals", 1), ("visits", 1)):
                admin.create_topic(f"{self.name}.{topic}", partitions=partitions)

    def move(self, **tiers: str | None) -> None:
        """Users to other tiers, or away; only while nobody runs, so that everybody knows when it was."""
        with headrace.Producer(self.bootstrap) as producer:
            for user, tier in tiers.items():
                value = None if tier is None else json.dumps({"tier": tier}).encode()
                producer.send(f"{self.name}.users", key=user, value=value, timestamp=self._now_ms)
        self._tiers = {user: tier for user, tier in (self._tiers | tiers).items() if tier is not None}
        self._seconds += 1

    def order(self, count: int = ORDERS) -> None:
        """Some have amounts that a condition or a fold cannot take, and one more is no JSON at all."""
        with headrace.Producer(self.bootstrap) as producer:
            for _ in range(count):
                self._send(producer, -1 if self._random.random() < 0.1 else self._random.randrange(100))
            producer.send(f"{self.name}.orders", value=b"poison", timestamp=self._now_ms, partition=0)
            self._poison += 1

    def close_windows(self) -> None:
        self._seconds += 3600
        with headrace.Producer(self.bootstrap) as producer:
            self._send(producer, amount=1)

    @property
    def _now_ms(self) -> int:
        return BASE_MS + self._seconds * 1000

    def _send(self, producer: headrace.Producer, amount: int) -> None:
        row: Row = {"id": self._seconds, "user": self._random.choice(USERS), "amount": amount}
        value = json.dumps(row).encode()
        producer.send(f"{self.name}.orders", key=row["user"], value=value, timestamp=self._now_ms)
        self._orders.append((row, self._tiers.get(row["user"])))
        self._seconds += 1

    def count(self, topic: str) -> int:
        return len(self._read(topic))

    def check(self) -> None:
        good = [row for row, _ in self._orders if row["amount"] >= 0]
        copies = Counter(row["id"] for _, row in self._read("copies"))
        assert copies == Counter(row["id"] for row in good)
        self._check_totals()
        self._check_visits([row for row in good if not is_unlucky(row)])
        self._check_windows(good)
        self._check_dead(good)

    def _check_totals(self) -> None:
        changes = [row for _, row in self._read("totals")]
        expected: dict[str, list[int]] = {}
        for row, tier in self._orders:
            if row["amount"] >= 0 and not is_unlucky(row) and tier is not None:
                expected.setdefault(tier, []).append(row["id"])
        assert {row["tier"]: row["ids"] for row in changes} == expected
        for tier in expected:
            counts = [row["n"] for row in changes if row["tier"] == tier]
            assert counts == sorted(set(counts)), "each change was written once"

    def _check_visits(self, lucky: list[Row]) -> None:
        found: dict[bytes, Row] = dict(self._read("visits"))
        expected: list[tuple[str, list[int]]] = []
        for user in USERS:
            visits: list[list[int]] = []
            for number in (row["id"] for row in lucky if row["user"] == user):
                if visits and (number - visits[-1][-1]) * 1000 <= GAP_MS:
                    visits[-1].append(number)
                else:
                    visits.append([number])
            expected.extend((user, ids) for ids in visits)
        assert sorted((row["user"], row["ids"]) for row in found.values() if row is not None) == sorted(expected)

    def _check_windows(self, good: list[Row]) -> None:
        """Each once, but for that of the last row, which is open."""
        windows = Counter((row["user"], row["id"] * 1000 // WINDOW_MS) for row in good[:-1])
        assert sorted((row["user"], row["n"]) for _, row in self._read("tens")) == sorted(
            (user, n) for (user, _), n in windows.items()
        )

    def _check_dead(self, good: list[Row]) -> None:
        """Each letter once, with the bytes of its record; behind a join, with the row."""
        table = headrace.arrow.read(f"{self.name}.dead", self.bootstrap, isolation="read_committed")
        found: dict[str, list[bytes]] = {}
        for value, headers in zip(table.column("value").to_pylist(), table.column("headers").to_pylist(), strict=True):
            said = {header["key"]: header["value"].decode() for header in headers}
            found.setdefault(said["headrace.operator"], []).append(value)
        unlucky = [row for row in good if is_unlucky(row)]
        joined = [row["id"] for row, tier in self._orders if row in unlucky and tier is not None]
        assert sorted(json.loads(value)["id"] for value in found.pop("totals")) == joined
        assert {operator: sorted(values) for operator, values in found.items()} == {
            "orders": [b"poison"] * self._poison,
            "good": sorted(json.dumps(row).encode() for row, _ in self._orders if row["amount"] < 0),
            "visits": sorted(json.dumps(row).encode() for row in unlucky),
        }

    def _read(self, topic: str) -> list[tuple[bytes, Any]]:
        table = headrace.arrow.read(f"{self.name}.{topic}", self.bootstrap, isolation="read_committed")
        return [
            (key, value and json.loads(value))
            for key, value in zip(table.column("key").to_pylist(), table.column("value").to_pylist(), strict=True)
        ]


def test_a_pipeline_whose_driver_is_killed_again_and_again_gives_what_one_gives_that_lives(
    spark: SparkSession, broker: headrace.Broker, tmp_path: Path
) -> None:
    shop = Shop(broker.address, tmp_path)
    shop.move(u0="gold", u1="gold", u2="tin", u3="tin")
    shop.order()
    assert shop.drivers.run(kill_at="reading") == -signal.SIGKILL, shop.drivers.log_tail()
    assert shop.count("copies") + shop.count("totals") == 0

    shop.move(u1="tin", u4="gold")
    places: list[tuple[str, str, dict[str, str | None]]] = [
        ("before", "totals", {"u3": None}),  # its state is written, its rows are sent, and nothing is committed
        ("after", "visits", {"u0": "tin", "u2": "gold"}),
        ("middle", "totals", {"u3": "gold"}),
    ]
    for place, query, moves in places:
        shop.order()
        before = shop.count(query)
        killed = shop.drivers.run(kill_at=place, kill_query=query)
        assert killed == -signal.SIGKILL, shop.drivers.log_tail()
        assert (shop.count(query) > before) is (place == "after"), place
        shop.move(**moves)

    random = Random(f"{SEED} moments")
    for _ in range(max(1, KILLS // 10)):
        shop.order(ORDERS // 2)
        before = shop.count("copies")
        process = shop.drivers.start(stay=True)
        try:
            wait_until(
                lambda before=before, process=process: shop.count("copies") > before or process.poll() is not None,  # type: ignore[misc]
                "orders are copied",
                seconds=DRIVER_SECONDS,
            )
            shop.order(ORDERS // 2)
            stay_a_moment(random.random() * 5)
        finally:
            end(process)

    shop.close_windows()
    killed_app(shop.drivers.told).catch_up(spark)
    shop.check()
