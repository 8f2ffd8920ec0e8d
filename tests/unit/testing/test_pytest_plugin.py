"""The fixtures as projects get them that install Headrace: pytest in a process of its own, and the entry point."""

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

USE = """
import socket
import pytest

def test_each_test_has_a_broker_of_its_own(headrace_broker):
    host, _, port = headrace_broker.address.rpartition(":")
    socket.create_connection((host, int(port))).close()
    headrace_broker.create_topic("orders")

def test_and_finds_it_empty(headrace_broker):
    headrace_broker.create_topic("orders")

def test_a_topic_is_there_and_named_after_the_test(headrace_broker, headrace_topic):
    assert headrace_topic.startswith("test_a_topic_is_there_and_named_after_the_test-")
    with pytest.raises(ValueError, match="delete it first"):
        headrace_broker.create_topic(headrace_topic)

@pytest.mark.parametrize("value", ["a b/c", "ä" * 300])
def test_names_are_made_legal(headrace_topic, value):
    assert len(headrace_topic) < 250

@pytest.mark.headrace(config={"num.partitions": 7}, clock="movable", partitions=3, topic_config={"retention.ms": 5})
class TestMarks:
    def test_a_mark_says_how_they_are_made(self, headrace_broker, headrace_topic):
        now_ms = headrace_broker.clock.now_ms()
        headrace_broker.clock.advance(60)
        assert headrace_broker.clock.now_ms() == now_ms + 60_000
        assert partitions(headrace_broker, headrace_topic) == 3
        assert setting(headrace_broker, "num.partitions") == 7
        assert setting(headrace_broker, "node.id") == 1

    @pytest.mark.headrace(config={"node.id": 9}, partitions=2)
    def test_the_nearer_mark_counts_and_dicts_come_together(self, headrace_broker, headrace_topic):
        assert partitions(headrace_broker, headrace_topic) == 2
        assert setting(headrace_broker, "num.partitions") == 7
        assert setting(headrace_broker, "node.id") == 9

def partitions(broker, topic):
    return len(broker._run.ready().controller.image.topic(topic).partitions)

def setting(broker, name):
    return broker._run.ready().settings.values[name]
"""

SHARED = """
import pytest
import headrace

@pytest.fixture(scope="session")
def headrace_broker():
    with headrace.Broker() as broker:
        yield broker

addresses = set()

@pytest.mark.parametrize("number", range(3))
def test_a_project_may_have_one_broker_for_all_tests(headrace_broker, headrace_topic, number):
    addresses.add(headrace_broker.address)
    assert len(addresses) == 1
"""

MISTAKES = """
import pytest

@pytest.mark.headrace(confg={})
def test_unknown(headrace_broker): ...

@pytest.mark.headrace({"num.partitions": 3})
def test_without_a_name(headrace_broker): ...

@pytest.mark.headrace(clock="slow")
def test_another_clock(headrace_broker): ...

@pytest.mark.headrace(config={"num.partitons": 3})
def test_unknown_config(headrace_broker): ...
"""

IDLE = """
import sys

def test_nothing_is_imported_that_nobody_asked_for():
    loaded = [name for name in sys.modules if name.split(".")[0] == "headrace"]
    assert sorted(loaded) == ["headrace", "headrace.testing", "headrace.testing.pytest_plugin"]
"""


def run(pytester: pytest.Pytester, source: str) -> pytest.RunResult:
    pytester.makepyfile(source)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers", "-W", "error", timeout=120)


def test_fixtures_and_marks(pytester: pytest.Pytester) -> None:
    run(pytester, USE).assert_outcomes(passed=7)


def test_a_broker_for_many_tests_takes_the_place_of_the_fixture(pytester: pytest.Pytester) -> None:
    run(pytester, SHARED).assert_outcomes(passed=3)


def test_mistakes_are_told_with_what_to_do(pytester: pytest.Pytester) -> None:
    result = run(pytester, MISTAKES)
    result.assert_outcomes(errors=4)
    result.stdout.fnmatch_lines_random(
        [
            "E *@pytest.mark.headrace does not know confg. It knows: config (*), clock (*), partitions (*",
            "E *@pytest.mark.headrace does not know {'num.partitions': 3}. It knows: *",
            "E *@pytest.mark.headrace(clock='slow'): it can be \"movable\" only.",
            "E *num.partitons is not a broker config; did you mean num.partitions?*",
        ]
    )


def test_projects_that_do_not_use_it_pay_nothing(pytester: pytest.Pytester) -> None:
    run(pytester, IDLE).assert_outcomes(passed=1)
