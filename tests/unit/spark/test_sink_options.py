"""What the sink is told, and what it says about what cannot be."""

import pytest

from headrace.client.errors import ConfigError
from headrace.client.producer_core import producer_settings
from headrace.spark.sink_options import TRANSACTION_TIMEOUT_MS, batch_options, sink_options

ADDRESS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def of_batch(**given: object) -> object:
    arguments: dict[str, object] = {
        "bootstrap": "127.0.0.1:9092",
        "app": "sales",
        "topic": None,
        "guarantee": "exactly_once",
        "transactions": "driver",
        "checkpoint": None,
        "client": {},
    }
    return batch_options(**(arguments | given))  # type: ignore[arg-type]


class TestOptionsOfTheFormat:
    def test_without_a_name_it_is_what_spark_s_own_sink_is(self) -> None:
        options = sink_options({**ADDRESS, "topic": "out"})
        assert not options.is_exactly_once
        assert options.topic == "out"
        assert dict(options.client) == {"bootstrap.servers": "127.0.0.1:9092"}

    def test_a_name_asks_for_exactly_once(self) -> None:
        options = sink_options({**ADDRESS, "APP": "sales", "Transactions": "tasks", "checkpointLocation": "/c"})
        assert options.is_exactly_once
        assert options.in_tasks
        assert (options.name, options.checkpoint) == ("sales", "/c")

    def test_a_name_without_exactly_once(self) -> None:
        assert not sink_options({**ADDRESS, "app": "sales", "guarantee": "at_least_once"}).is_exactly_once

    def test_the_producer_gets_its_settings(self) -> None:
        options = sink_options({**ADDRESS, "app": "sales", "kafka.linger.ms": "7", "kafka.sasl.mechanism": "PLAIN"})
        settings = producer_settings(None, options.transactional("sales.x"), {})
        assert settings.text("transactional.id") == "sales.x"
        assert settings.number("linger.ms") == 7
        assert settings.number("transaction.timeout.ms") == TRANSACTION_TIMEOUT_MS
        assert options.admin() == {"bootstrap.servers": "127.0.0.1:9092", "sasl.mechanism": "PLAIN"}

    def test_a_timeout_of_one_s_own(self) -> None:
        options = sink_options({**ADDRESS, "app": "sales", "kafka.transaction.timeout.ms": "5000"})
        assert options.transactional("x")["transaction.timeout.ms"] == "5000"

    @pytest.mark.parametrize(
        ("given", "complaint"),
        [
            ({"topic": "out"}, "kafka.bootstrap.servers is missing"),
            ({**ADDRESS, "guarantee": "exactly_once"}, "exactly once needs an option app"),
            ({**ADDRESS, "garantee": "exactly_once"}, "Did you mean guarantee?"),
            ({**ADDRESS, "guarantee": "twice"}, "must be one of exactly_once, at_least_once"),
            ({**ADDRESS, "app": "a", "transactions": "no"}, "must be one of driver, tasks"),
            ({**ADDRESS, "app": "a", "kafka.transactional.id": "x"}, "kafka.transactional.id is the sink's own"),
            ({**ADDRESS, "kafka.lingerms": "1"}, "linger.ms"),
            ({**ADDRESS, "topic": ""}, "it must not be empty"),
            ({**ADDRESS, "maxTaskBytes": "0"}, "a whole number above 0"),
        ],
    )
    def test_what_cannot_be_is_told(self, given: dict[str, str], complaint: str) -> None:
        with pytest.raises(ConfigError, match=complaint.replace("?", r"\?")):
            sink_options(given)


class TestArgumentsOfWriteBatch:
    def test_settings_of_the_producer(self) -> None:
        options = of_batch(client={"linger.ms": 3, "kafka.acks": "all"})
        assert options.client == {"bootstrap.servers": "127.0.0.1:9092", "linger.ms": 3, "acks": "all"}  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("given", "complaint"),
        [
            ({"app": None}, "exactly once needs an option app"),
            ({"guarantee": "atmost"}, "guarantee is 'atmost'"),
            ({"transactions": "both"}, "transactions is 'both'"),
            ({"client": {"topics": "x"}}, "topics"),
        ],
    )
    def test_what_cannot_be_is_told(self, given: dict[str, object], complaint: str) -> None:
        with pytest.raises(ConfigError, match=complaint):
            of_batch(**given)
