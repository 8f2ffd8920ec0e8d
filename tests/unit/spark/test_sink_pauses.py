"""A sink that has nothing to write for long: brokers forget transactional ids, and the sink asks for its own again."""

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
import pytest

import headrace
from headrace.arrow import read
from headrace.client.errors import FencedError, WrongStateError
from headrace.spark.exactly_once import PAUSE_SECONDS, AppSink, MicroBatch
from headrace.spark.sink_options import batch_options
from headrace.testing import MovableClock
from tests.support.both_brokers import unique

DAY_SECONDS = 24 * 3600.0
TOPIC = "out"


@pytest.fixture(scope="module")
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture(scope="module")
def broker(clock: MovableClock) -> Iterator[headrace.Broker]:
    with headrace.Broker(clock=clock, log_retention_ms=-1, offsets_retention_minutes=100_000) as made:
        made.create_topic(TOPIC)
        yield made


def new_sink(broker: headrace.Broker, clock: MovableClock, app: str) -> AppSink:
    options = batch_options(
        bootstrap=broker.address,
        app=app,
        topic=TOPIC,
        guarantee="exactly_once",
        transactions="driver",
        checkpoint=None,
        client={},
    )
    return AppSink(options, now_seconds=lambda: clock.now_ms() / 1000)


def batch(batch_id: int, run: str = "run") -> MicroBatch:
    return MicroBatch("c639eeea-7d20-4598-8dc3-5271601ed1fe", run, batch_id, {})


def rows(*values: str) -> list[pa.Table]:
    return [pa.table({"value": list(values)})]


def values(broker: headrace.Broker, app: str) -> list[str]:
    table = read(TOPIC, broker.address, isolation="read_committed")
    return [text for value in table.column("value").to_pylist() if (text := value.decode()).startswith(app)]


def test_a_sink_goes_on_when_the_broker_has_forgotten_its_name(broker: headrace.Broker, clock: MovableClock) -> None:
    app = unique("app")
    with closing(new_sink(broker, clock, app)) as sink:
        for batch_id in range(3):
            assert sink.write(batch(batch_id), rows(f"{app} {batch_id}"))
            clock.advance(8 * DAY_SECONDS)
            assert not sink.write(batch(batch_id, "again"), rows("never")), "the marker is read in any case"
            clock.advance(8 * DAY_SECONDS)
    assert values(broker, app) == [f"{app} {batch_id}" for batch_id in range(3)]


def test_a_driver_that_was_replaced_stays_fenced_after_a_pause(broker: headrace.Broker, clock: MovableClock) -> None:
    app = unique("app")
    with closing(new_sink(broker, clock, app)) as old, closing(new_sink(broker, clock, app)) as new:
        assert new.write(batch(0), rows(f"{app} 0"))
        clock.advance(PAUSE_SECONDS + 1)
        with pytest.raises(FencedError, match="Another driver has begun"):
            old.write(batch(1), rows("never"))
        assert new.write(batch(1), rows(f"{app} 1"))
    assert values(broker, app) == [f"{app} 0", f"{app} 1"]


def test_a_producer_asks_for_its_id_again_between_transactions_only(broker: headrace.Broker) -> None:
    with headrace.Producer(broker.address, transactional_id=unique("id")) as producer:
        producer.init_transactions()
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(WrongStateError, match="a transaction is open"):
            producer.init_transactions()
        producer.send(TOPIC, value=b"once")
        producer.commit_transaction()
        producer.init_transactions()
        with producer.transaction():
            producer.send(TOPIC, value=b"twice")
