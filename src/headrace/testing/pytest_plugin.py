"""What pytest gets from Headrace: a broker for each test that wants one, and a topic on it.

    def test_orders_are_counted(headrace_broker, headrace_topic):
        ...                                   # headrace_broker.address, .faults, .clock; headrace_topic is a name

    @pytest.mark.headrace(config={"message.max.bytes": 1000}, clock="movable", partitions=3)
    def test_what_is_too_large_is_refused(headrace_broker, headrace_topic): ...

The mark stands at a test, a class or a module (`pytestmark`); what is nearer to the test counts more. A broker starts
and stops in a few milliseconds, so each test has its own, and finds it empty. For a broker that many tests share, write
a fixture: `with headrace.Broker() as broker: yield broker`.

pytest imports this in every project where Headrace is installed, so it imports nothing before a test asks for it.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import headrace

MARK = "headrace"
_OPTIONS = {
    "config": "a dict of configs for the broker",
    "clock": '"movable", for one that the test moves by headrace_broker.clock.advance(seconds)',
    "partitions": "how many partitions headrace_topic has",
    "topic_config": "a dict of configs for headrace_topic",
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{MARK}({', '.join(_OPTIONS)}): how headrace_broker and headrace_topic are made"
    )


@pytest.fixture
def headrace_broker(request: pytest.FixtureRequest) -> "Iterator[headrace.Broker]":
    """A Kafka broker in this process, fresh for this test and gone after it; give its `address` to any client."""
    import headrace
    from headrace.testing import MovableClock

    options = _options(request.node)
    clock = MovableClock() if options.get("clock") == "movable" else None
    with headrace.Broker(clock=clock, **options.get("config", {})) as broker:
        yield broker


@pytest.fixture
def headrace_topic(request: pytest.FixtureRequest, headrace_broker: "headrace.Broker") -> str:
    """The name of a fresh topic on `headrace_broker`."""
    import secrets

    options = _options(request.node)
    # Where a project has a broker for many tests under this name, the topics of one test meet those of others.
    name = f"{re.sub('[^a-zA-Z0-9._-]+', '-', request.node.name)[:200]}-{secrets.token_hex(4)}"
    headrace_broker.create_topic(name, options.get("partitions", 1), **options.get("topic_config", {}))
    return name


def _options(item: pytest.Item) -> dict[str, Any]:
    """What the marks say; of dicts, all of them together."""
    options: dict[str, Any] = {}
    for mark in reversed(list(item.iter_markers(MARK))):
        unknown = [*map(repr, mark.args), *(name for name in mark.kwargs if name not in _OPTIONS)]
        if unknown:
            known = ", ".join(f"{name} ({what})" for name, what in _OPTIONS.items())
            raise pytest.UsageError(f"@pytest.mark.headrace does not know {', '.join(unknown)}. It knows: {known}.")
        if mark.kwargs.get("clock", "movable") != "movable":
            raise pytest.UsageError(f'@pytest.mark.headrace(clock={mark.kwargs["clock"]!r}): it can be "movable" only.')
        for name, value in mark.kwargs.items():
            options[name] = {**options.get(name, {}), **value} if isinstance(value, dict) else value
    return options
