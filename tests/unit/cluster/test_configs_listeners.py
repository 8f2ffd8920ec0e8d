"""Listeners, what is advertised of them, and their security protocols."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cluster.config_types import InvalidConfigError
from headrace.cluster.listeners import (
    DEFAULT_PROTOCOLS,
    Endpoint,
    Listener,
    SecurityProtocol,
    Voter,
    advertise,
    check_listeners,
    effective_protocols,
    parse_advertised_listeners,
    parse_bootstrap_servers,
    parse_host_counts,
    parse_listeners,
    parse_protocol_map,
    parse_voters,
)

PLAIN = SecurityProtocol.PLAINTEXT
DEFAULT_MAP = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"


@pytest.mark.parametrize(
    ("text", "listeners"),
    [
        ("PLAINTEXT://localhost:9092", [("PLAINTEXT", "localhost", 9092)]),
        ("PLAINTEXT://:9092", [("PLAINTEXT", "", 9092)]),
        ("PLAINTEXT://127.0.0.1:0", [("PLAINTEXT", "127.0.0.1", 0)]),
        ("PLAINTEXT://[::1]:9092", [("PLAINTEXT", "::1", 9092)]),
        ("PLAINTEXT://[fe80::1%eth0]:9092", [("PLAINTEXT", "fe80::1%eth0", 9092)]),
        ("internal-1://10.0.0.7:9092 , out://h:65535", [("INTERNAL-1", "10.0.0.7", 9092), ("OUT", "h", 65535)]),
        ("A://0.0.0.0:9092,B://[::]:9092", [("A", "0.0.0.0", 9092), ("B", "::", 9092)]),
        ("A://h:0,B://h:0", [("A", "h", 0), ("B", "h", 0)]),
    ],
)
def test_listeners_are_read(text: str, listeners: list[tuple[str, str, int]]) -> None:
    assert list(parse_listeners(text)) == [Listener(*each) for each in listeners]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "listeners must name one listener at least, such as PLAINTEXT://localhost:9092"),
        ("localhost:9092", 'listeners must be items such as PLAINTEXT://localhost:9092, not "localhost:9092"'),
        ("A://h:1,", 'listeners must be items such as PLAINTEXT://localhost:9092, not ""'),
        ("://h:1", "listeners must have a name of letters, digits"),
        ("MY NAME://h:1", "listeners must have a name of letters, digits"),
        ("A://localhost", 'listeners has no port in "localhost"; write host:port'),
        ("A://localhost:", 'listeners must have a port from 0 to 65535 in "localhost:", not ""'),
        ("A://localhost:70000", 'listeners must have a port from 0 to 65535 in "localhost:70000", not "70000"'),
        ("A://localhost:-1", 'listeners must have a port from 0 to 65535 in "localhost:-1", not "-1"'),
        ("A://[::1]", 'listeners has no port in "[::1]"; write host:port, and an IPv6 address as [::1]:port'),
        ("A://::1:9092", 'listeners must have the IPv6 address of "::1:9092" in brackets: [::1]:9092'),
        ("A://[localhost]:1", 'listeners must have an IPv6 address between the brackets of "[localhost]:1"'),
        ("A://a b:1", 'listeners must have a host name or address in "a b:1", not "a b"'),
        ("A://h:1,a://h:2", "listeners must not name the listener A twice"),
        ("A://h:1,B://g:1", "listeners must have another port in B://g:1: A://h:1 has it already"),
    ],
)
def test_a_wrong_listener_is_named(text: str, words: str) -> None:
    with pytest.raises(InvalidConfigError) as refused:
        parse_listeners(text)
    assert str(refused.value).startswith(words)


def test_what_is_advertised_can_share_ports_and_must_be_reachable() -> None:
    shared = parse_advertised_listeners("A://example.com:443,B://example.com:443")
    assert [each.port for each in shared] == [443, 443]
    assert parse_advertised_listeners("") == ()
    for text in ("A://0.0.0.0:1", "A://[::]:1"):
        with pytest.raises(
            InvalidConfigError, match=r"advertised.listeners must have an address that clients can reach"
        ):
            parse_advertised_listeners(text)


def test_a_listener_that_is_not_advertised_is_told_as_it_is_bound() -> None:
    bound = parse_listeners("A://:1,B://h:2")
    assert advertise(bound, parse_advertised_listeners("A://example.com:443")) == (
        Listener("A", "example.com", 443),
        Listener("B", "h", 2),
    )


def test_protocols_are_read_by_listener() -> None:
    assert parse_protocol_map("in:plaintext, OUT:SASL_SSL") == {"IN": PLAIN, "OUT": SecurityProtocol.SASL_SSL}
    assert parse_protocol_map(DEFAULT_MAP) == DEFAULT_PROTOCOLS
    for text, words in (
        ("IN", 'must be pairs such as INTERNAL:PLAINTEXT, not "IN"'),
        ("IN:TLS", 'must map to PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not to "TLS"'),
        ("IN:SSL,in:PLAINTEXT", "must not name IN twice"),
    ):
        with pytest.raises(InvalidConfigError) as refused:
            parse_protocol_map(text)
        assert refused.value.reason == words


def test_controllers_speak_plainly_only_while_nothing_is_secured() -> None:
    plain, secured = parse_listeners("PLAINTEXT://:1"), parse_listeners("SSL://:1")
    assert effective_protocols(DEFAULT_MAP, plain, ["ctl"])["CTL"] is PLAIN
    assert "CTL" not in effective_protocols(DEFAULT_MAP, secured, ["ctl"])
    assert "CTL" not in effective_protocols("PLAINTEXT:PLAINTEXT", plain, ["ctl"])


def test_listeners_must_fit_together() -> None:
    bound = parse_listeners("IN://:1,OUT://:2")
    check_listeners(bound, [], {"IN": PLAIN, "OUT": PLAIN})
    with pytest.raises(InvalidConfigError, match=r"protocol.map must say which protocol OUT speaks"):
        check_listeners(bound, [], {"IN": PLAIN})
    with pytest.raises(
        InvalidConfigError, match=r"advertised.listeners must not name OTHER: listeners has only IN, OUT"
    ):
        check_listeners(bound, [Listener("OTHER", "h", 1)], {"IN": PLAIN, "OUT": PLAIN})


def test_voters_bootstrap_servers_and_counts_are_read() -> None:
    assert parse_voters("1@localhost:9093, 2@[::1]:9094") == (Voter(1, "localhost", 9093), Voter(2, "::1", 9094))
    assert parse_bootstrap_servers("a:1,[::1]:2") == (Endpoint("a", 1), Endpoint("::1", 2))
    assert parse_host_counts("10.0.0.7:100,[::1]:5, ::2:6") == {"10.0.0.7": 100, "::1": 5, "::2": 6}
    for text in ("localhost:9093", "x@h:1", "1@h", "1@h:0", "1@h:1,1@g:2"):
        with pytest.raises(InvalidConfigError):
            parse_voters(text)
    for text in ("localhost", ":9093", "h:0"):
        with pytest.raises(InvalidConfigError):
            parse_bootstrap_servers(text)
    for text in ("10.0.0.7", "h:many", ":5"):
        with pytest.raises(InvalidConfigError):
            parse_host_counts(text)


hosts = st.sampled_from(["", "localhost", "10.0.0.7", "::1", "fe80::1%eth0", "a-b.c_d"])


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["A", "SASL_SSL", "IN-1"]), hosts, st.integers(0, 65535))
def test_a_listener_is_written_as_it_is_read(name: str, host: str, port: int) -> None:
    listener = Listener(name, host, port)
    assert parse_listeners(str(listener)) == (listener,)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="AB:/[]0129.,%@- x", max_size=20))
def test_no_text_breaks_the_parsers(text: str) -> None:
    for parse in (parse_listeners, parse_advertised_listeners, parse_protocol_map, parse_voters, parse_host_counts):
        with contextlib.suppress(InvalidConfigError):
            parse(text)
