"""The settings of clients: names in both spellings, Python values and texts, and mistakes that are named."""

from typing import Any

import pytest

from headrace.client.admin_configs import ADMIN_CONFIGS
from headrace.client.config import Address, Settings, load_settings
from headrace.client.consumer_configs import CONSUMER_CONFIGS, parse_duration_ms
from headrace.client.errors import ConfigError
from headrace.client.producer_configs import PRODUCER_CONFIGS
from headrace.cluster.config_types import ConfigTable, InvalidConfigError

SERVER = "localhost:9092"


def producer(**keywords: object) -> Settings:
    return load_settings(PRODUCER_CONFIGS, SERVER, {}, keywords)


def test_names_come_with_underscores_or_with_dots() -> None:
    settings = load_settings(PRODUCER_CONFIGS, SERVER, {"linger.ms": 7}, {"batch_size": 10})
    assert (settings.number("linger.ms"), settings.number("batch.size")) == (7, 10)
    assert settings.is_given("linger.ms")
    assert not settings.is_given("acks")
    assert settings.seconds("linger.ms") == 0.007


def test_values_are_python_values_or_texts() -> None:
    settings = producer(linger_ms="7", acks=1, enable_idempotence="FALSE", compression_type="zstd")
    assert settings.number("linger.ms") == 7
    assert settings.text("acks") == "1"
    assert settings.flag("enable.idempotence") is False
    assert producer(enable_idempotence=False).flag("enable.idempotence") is False
    assert producer(sasl_login_refresh_window_factor=0.9).real("sasl.login.refresh.window.factor") == 0.9


def test_text_without_regard_to_case_becomes_the_declared_one() -> None:
    assert load_settings(CONSUMER_CONFIGS, SERVER, {"group.protocol": "CONSUMER"}).text("group.protocol") == "consumer"


def test_lists_are_lists_or_texts_and_may_hold_objects() -> None:
    hook = object()
    settings = load_settings(CONSUMER_CONFIGS, SERVER, {"partition.assignment.strategy": ["sticky", "range"]})
    assert settings.items("partition.assignment.strategy") == ("sticky", "range")
    assert producer(interceptor_classes=[hook]).items("interceptor.classes") == (hook,)


def test_what_is_a_class_in_java_is_an_object_here() -> None:
    def choose(topic: str, key: bytes, value: bytes, partitions: int) -> int:
        return 0

    assert producer(partitioner_class=choose).value("partitioner.class") is choose
    assert producer().value("partitioner.class") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", [Address("localhost", 9092)]),
        ("a:1, b:2", [Address("a", 1), Address("b", 2)]),
        (["a:1", "[::1]:2"], [Address("a", 1), Address("::1", 2)]),
        ("PLAINTEXT://a:1", [Address("a", 1)]),
    ],
)
def test_bootstrap_servers(text: str | list[str], expected: list[Address]) -> None:
    assert load_settings(ADMIN_CONFIGS, text).servers == tuple(expected)


def test_an_ipv6_address_is_written_in_brackets() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"


@pytest.mark.parametrize(
    ("servers", "message"),
    [
        ("localhost", "write host:port, such as localhost:9092"),
        ("a:b", "a port is a number"),
        ("a:0", "a port is a number"),
        ("a:65536", "a port is a number"),
        (":9092", "write host:port"),
        ("::1:9092", "stands in brackets"),
        ("", "with one item at least"),
        ([], "with one item at least"),
        (None, "must name a broker at least"),
        ([9092], "write host:port, such as localhost:9092"),
    ],
)
def test_bad_bootstrap_servers_are_refused_with_a_hint(servers: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_settings(ADMIN_CONFIGS, servers)
    assert len(caught.value.problems) == 1


def test_an_unknown_name_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"linger\.mss is not a producer config; did you mean linger\.ms\?"):
        producer(linger_mss=5)
    with pytest.raises(ConfigError, match=r"retry\.backof\.ms is not an admin client config; did you mean retry"):
        load_settings(ADMIN_CONFIGS, SERVER, {"retry.backof.ms": 5})


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        producer(linger_ms=-1, acks="some", bootstrap_servers="x")
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("linger_ms", None, "linger.ms must be a whole number of milliseconds >= 0, not None"),
        ("linger_ms", 1.5, 'not "1.5"'),
        ("linger_ms", object(), "linger.ms must be a whole number"),
        ("enable_idempotence", 1, "must be true or false"),
        ("acks", "2", "must be all, -1, 0 or 1"),
        ("transactional_id", "", "must not be empty"),
        ("security_protocol", "SASL_SSL", "speaks neither TLS nor SASL"),
        ("security_protocol", "TLS", "must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
        ("ssl_engine_factory_class", "x", "must be left out: it names a Java class"),
    ],
)
def test_wrong_values_are_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        producer(**{name: value})


def test_a_config_is_given_once() -> None:
    with pytest.raises(ConfigError, match=r"linger\.ms is given twice"):
        load_settings(PRODUCER_CONFIGS, SERVER, {"linger.ms": 1}, {"linger_ms": 2})
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is given twice"):
        load_settings(PRODUCER_CONFIGS, SERVER, {"bootstrap.servers": SERVER})


def test_what_has_no_meaning_here_is_accepted() -> None:
    producer(metrics_num_samples=2, sasl_kerberos_service_name="kafka")


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("PT1S", 1000), ("P1D", 86_400_000), ("P1DT2H3M4.5S", 93_784_500), ("pt0.001s", 1), ("PT90M", 5_400_000)],
)
def test_durations(text: str, expected_ms: int) -> None:
    assert parse_duration_ms("x", text) == expected_ms
    assert load_settings(CONSUMER_CONFIGS, SERVER, {"auto.offset.reset": f"by_duration:{text}"})


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1H", "PT1D", "P1Y", "PT-1S", "P1DT"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InvalidConfigError):
        parse_duration_ms("x", text)


@pytest.mark.parametrize("table", [PRODUCER_CONFIGS, CONSUMER_CONFIGS, ADMIN_CONFIGS])
def test_every_default_can_be_given(table: ConfigTable) -> None:
    for name, key in table.items():
        if name != "bootstrap.servers":
            given = load_settings(table, SERVER, {name: key.default})
            assert given.value(name) == key.default, name
