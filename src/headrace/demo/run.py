"""The story of the demo: a broker, orders that come in, a pipeline that is killed in the middle, and its results."""

import tempfile
import time
from contextlib import closing
from typing import Final, NamedTuple

from headrace.client.producer import Producer
from headrace.demo import topics
from headrace.demo.comparison import compare, is_right
from headrace.demo.driver import PIPELINE, Driver, DriverFailedError
from headrace.demo.orders import SPAN_MS, Event, make_orders, make_users
from headrace.demo.results import RevenueSoFar, Watch, read_outcome
from headrace.demo.sending import Sending, send_all, sending
from headrace.demo.truth import MINUTE_MS, countries, truth_of
from headrace.demo.view import Progress, View
from headrace.server.embedded import EmbeddedBroker

MICRO_BATCHES: Final = 5  # of each query, at least, if it is killed: a middle to be killed in; more only cost time
SEND_SECONDS: Final = 20.0  # at most: few orders come as quickly as many
ORDERS_PER_SECOND: Final = 2500
RESTARTS: Final = 5  # of a driver that ends by itself, as whoever watches over it in production would start it again
GIVE_UP_SECONDS: Final = 1200.0  # a machine that is ten times as slow still gets to the end
_LOOK_SECONDS: Final = 0.2
_OPEN_SECONDS: Final = 5.0  # how long to wait for a transaction that is open, to be killed in


class Settings(NamedTuple):
    orders: int
    seed: int
    kills: int
    keep: bool
    master: str


def run(settings: Settings, view: View) -> bool:
    """Whether every number is right. Raises DriverFailedError, TimeoutError."""
    now_ms = time.time_ns() // 1_000_000
    start_ms = (now_ms - SPAN_MS) // MINUTE_MS * MINUTE_MS
    users, orders = make_users(settings.seed, start_ms), make_orders(settings.orders, settings.seed, start_ms)
    # Workers of a JVM that was killed may live a moment longer, and write into what is being removed.
    scratch = tempfile.TemporaryDirectory(prefix="headrace-demo-", ignore_cleanup_errors=True)
    with scratch as directory, EmbeddedBroker() as broker:
        view.restart_clock()
        view.say(f"a broker is up at {broker.address}")
        _prepare(broker, users)
        seconds = min(SEND_SECONDS, len(orders) / ORDERS_PER_SECOND)
        micro_batches = MICRO_BATCHES if settings.kills else 1
        driver = Driver(
            settings.master, broker.address, directory, max_per_trigger=max(1, len(orders) // micro_batches)
        )
        try:
            with (
                closing(Watch(broker.address)) as watch,
                closing(RevenueSoFar(broker.address)) as revenue,
                sending(broker.address, topics.ORDERS, orders, seconds=seconds) as sent,
            ):
                story = _Story(settings.kills, len(orders), view, watch, driver, sent, revenue)
                with view.live():
                    story.play()
            view.say("all orders are through; the results are read, and the truth is computed")
            wanted = truth_of(orders, countries(users))
            lines = compare(wanted, read_outcome(broker.address), lag=story.progress.lag)
            view.result(lines)
            view.say("that is all")
            if settings.keep:
                _keep(broker.address, driver, view)
        finally:
            driver.kill()
    return is_right(lines)


def _prepare(broker: EmbeddedBroker, users: list[Event]) -> None:
    for topic, partitions in topics.PARTITIONS.items():
        broker.create_topic(topic, partitions, cleanup_policy="compact" if topic in topics.COMPACTED else "delete")
    with Producer(broker.address) as producer:
        send_all(producer, topics.USERS, users)


def _keep(address: str, driver: Driver, view: View) -> None:
    """Until Ctrl-C."""
    view.note(
        (
            f"Everything goes on: the broker at {address}, the pipeline as process {driver.pid}.",
            f"What the pipeline says is in {driver.log}",
            "Try, in another terminal:",
            f"  headrace consume {topics.REVENUE} --last 5 --read-committed --bootstrap {address}",
            f"  headrace consume {topics.DEAD} --last 5 --json --read-committed --bootstrap {address}",
            f"  headrace pipeline describe {PIPELINE} --state {driver.state} --bootstrap {address}",
            f"  headrace group describe {topics.ORDERS_GROUP} --bootstrap {address}",
            "Ctrl-C ends it.",
        )
    )
    try:
        while True:
            driver.check()
            time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        pass


class _Story:
    """From the first start of the driver until it has done everything."""

    def __init__(
        self,
        kills: int,
        total: int,
        view: View,
        watch: Watch,
        driver: Driver,
        sent: Sending,
        revenue: RevenueSoFar,
    ) -> None:
        self.progress = Progress(total)
        self._kills = kills
        self._view = view
        self._watch = watch
        self._driver = driver
        self._sent = sent
        self._revenue = revenue
        self._restarts_left = RESTARTS
        self._deadline = time.monotonic() + GIVE_UP_SECONDS

    def play(self) -> None:
        self._driver.start()
        self._view.say(f"orders come in; the pipeline starts, process {self._driver.pid}")
        for number in range(1, self._kills + 1):
            self._wait_for(self.progress.total * number // (self._kills + 1))
            self._kill()
        self._wait_for_all()

    def _kill(self) -> None:
        deadline = time.monotonic() + _OPEN_SECONDS
        while not (is_open := self._watch.is_in_transaction()) and time.monotonic() < deadline:
            pass  # a transaction is open for milliseconds: looking again at once is how to meet one
        pid = self._driver.pid
        self._driver.kill()
        where = "within a transaction" if is_open else "between two transactions"
        self._view.say(f"kill -9 {pid}, {where}, after {self.progress.checked:,} orders", "bold red")
        self._driver.start()
        self._view.say(f"the pipeline starts again, process {self._driver.pid}, and goes on where it was")

    def _wait_for(self, checked: int) -> None:
        while self._look().checked < checked:
            self._pause()

    def _wait_for_all(self) -> None:
        while self._look().checked < self.progress.total or self.progress.lag:
            self._pause()

    def _pause(self) -> None:
        if time.monotonic() > self._deadline:
            raise TimeoutError(
                f"the pipeline is not through after {GIVE_UP_SECONDS:.0f} s; what it said is in {self._driver.log}"
            )
        self._sent.check()
        try:
            self._driver.check()
        except DriverFailedError as error:  # on a machine with too much other work, Spark gives up on its own workers
            if not self._restarts_left:
                raise
            self._restarts_left -= 1
            self._view.say(f"{error}")
            self._driver.start()
            self._view.say(f"the pipeline starts again, process {self._driver.pid}")
        time.sleep(_LOOK_SECONDS)

    def _look(self) -> Progress:
        progress = self.progress
        progress.sent = self._sent.count
        progress.checked, progress.lag = self._watch.look()
        progress.cents = self._revenue.cents()
        self._view.show(progress)
        return progress
