"""`headrace transaction` against both brokers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import confluent_kafka
import pytest

from headrace.cli.transaction_hanging import Writer, without_coordinator
from headrace.client.admin_partitions import ProducerState
from headrace.client.admin_transactions import TransactionDescription
from headrace.client.topic_partition import TopicPartition
from tests.support.both_brokers import eventually, unique
from tests.support.command_line import done, headrace
from tests.support.hanging import write_hanging

FIRST_STRANGER = 1_000_000  # a producer id that no coordinator has given out


def make_topic(bootstrap: str) -> str:
    """With two partitions."""
    name = unique("paid")
    done("topic", "create", name, "-p", "2", bootstrap=bootstrap)
    eventually(lambda: headrace("topic", "describe", name, bootstrap=bootstrap).code == 0)
    return name


@pytest.fixture
def topic(bootstrap: str) -> str:
    return make_topic(bootstrap)


@contextmanager
def open_transaction(bootstrap: str, topic: str) -> Iterator[tuple[str, confluent_kafka.Producer]]:
    """One with a record in the first partition; its transactional id, and its producer."""
    name = unique("tx")
    configs = {"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": 120_000}
    producer = confluent_kafka.Producer({**configs, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    producer.flush()
    yield name, producer


def states(bootstrap: str, *arguments: str) -> dict[str, str]:
    listed = done("transaction", "list", "--json", *arguments, bootstrap=bootstrap).objects
    return {each["transactional_id"]: each["state"] for each in listed}


def test_transactions_are_listed_by_state_producer_and_age(own_bootstrap: str) -> None:
    with open_transaction(own_bootstrap, make_topic(own_bootstrap)) as (name, producer):
        assert states(own_bootstrap) == {name: "Ongoing"}
        assert states(own_bootstrap, "--state", "ongoing") == {name: "Ongoing"}
        assert states(own_bootstrap, "--state", "Empty", "--state", "CompleteCommit") == {}
        assert states(own_bootstrap, "--longer-than", "0s") == {name: "Ongoing"}
        assert states(own_bootstrap, "--longer-than", "1d") == {}
        (row,) = done("transaction", "list", bootstrap=own_bootstrap).rows
        assert states(own_bootstrap, "--producer-id", row[2]) == {name: "Ongoing"}
        assert states(own_bootstrap, "--producer-id", str(FIRST_STRANGER)) == {}
        assert states(own_bootstrap, "--id", "(?i)TX-[0-9-]+") == {name: "Ongoing"}
        assert states(own_bootstrap, "--id", "tx") == {}
        wrong = headrace("transaction", "list", "--id", "(tx", bootstrap=own_bootstrap)
        assert (wrong.code, "regular expression" in wrong.err) == (2, True)
        producer.abort_transaction(30)
    eventually(lambda: states(own_bootstrap, "--producer-id", row[2]) == {name: "CompleteAbort"})
    nothing = done("transaction", "list", "--longer-than", "1000d", bootstrap=own_bootstrap)
    assert (nothing.out, nothing.err) == ("", "There are no such transactions.\n")
    assert headrace("transaction", "list", "--longer-than", "long", bootstrap=own_bootstrap).code == 2


def test_transactions_are_described(bootstrap: str, topic: str) -> None:
    with open_transaction(bootstrap, topic) as (name, producer):
        (described,) = done("transaction", "describe", name, "--json", bootstrap=bootstrap).objects
        assert (described["transactional_id"], described["state"], described["timeout_ms"]) == (
            name,
            "Ongoing",
            120_000,
        )
        assert described["partitions"] == [{"topic": topic, "partition": 0}]
        assert 0 <= described["running_ms"] < 120_000
        (row,) = done("transaction", "describe", name, bootstrap=bootstrap).rows
        assert (row[:2], row[4], row[-1]) == ([name, "Ongoing"], "2m", f"{topic}:0")
        producer.commit_transaction(30)
    eventually(lambda: done("transaction", "describe", name, bootstrap=bootstrap).rows[0][-3:] == ["2m", "-", "-"])
    part = headrace("transaction", "describe", name, name + "x", "--json", bootstrap=bootstrap)
    assert (part.code, [each["transactional_id"] for each in part.objects]) == (1, [name])
    wrong = headrace("transaction", "describe", name + "x", bootstrap=bootstrap)
    assert (wrong.code, wrong.err.splitlines()[0]) == (
        2,
        f"headrace: No coordinator knows the transactional id '{name}x'.",
    )
    assert wrong.err.splitlines()[1].startswith("  Did you mean tx-")


def test_a_transaction_is_terminated_with_its_producer(bootstrap: str, topic: str) -> None:
    with open_transaction(bootstrap, topic) as (name, producer):
        ended = done("transaction", "terminate", name, bootstrap=bootstrap)
        assert ended.out == f"{name}: nothing is open, and whoever used it is shut out.\n"
        eventually(lambda: states(bootstrap)[name] in ("CompleteAbort", "Empty"))
        with pytest.raises(confluent_kafka.KafkaException) as caught:
            producer.commit_transaction(30)
        assert caught.value.args[0].fatal()
    assert done("consume", topic, "--exit", "--read-committed", bootstrap=bootstrap).out == ""
    assert headrace("transaction", "terminate", "qqqq", bootstrap=bootstrap).code == 2
    assert "qqqq" not in states(bootstrap)


def test_what_hangs_is_found_and_aborted(bootstrap: str, topic: str) -> None:
    write_hanging(bootstrap, topic, producer_id=FIRST_STRANGER)
    done("produce", topic, "-p", "0", stdin=b"after it\n", bootstrap=bootstrap)
    assert done("consume", topic, "--exit", "--read-committed", bootstrap=bootstrap).out == ""

    fresh = done("transaction", "hanging", topic, bootstrap=bootstrap)
    assert (fresh.out, fresh.err) == ("", "No transaction hangs.\n")
    found = headrace("transaction", "hanging", topic, "--longer-than", "0s", bootstrap=bootstrap)
    assert (found.code, [row[:4] for row in found.rows]) == (1, [[topic, "0", str(FIRST_STRANGER), "0"]])
    assert found.rows[0][-1] == "0"
    command = f"headrace transaction abort {topic}:0 --producer-id {FIRST_STRANGER}"
    assert found.err == f"headrace: 1 transaction will not end by itself.\n  `{command}` ends it.\n"
    elsewhere = done("transaction", "hanging", f"{topic}:1", "--longer-than", "0s", "--json", bootstrap=bootstrap)
    assert elsewhere.out == ""
    everywhere = headrace(
        "transaction", "hanging", "--longer-than", "0s", "--json", "--broker", "1", bootstrap=bootstrap
    )
    assert topic in [each["topic"] for each in everywhere.objects]
    assert done("transaction", "hanging", "--longer-than", "0s", "--broker", "9", bootstrap=bootstrap).out == ""

    aborted = done(*command.split()[1:], bootstrap=bootstrap)
    assert aborted.out == f"Aborted what producer {FIRST_STRANGER} wrote from {topic}-0 offset 0 on.\n"
    assert done("consume", topic, "--exit", "--read-committed", bootstrap=bootstrap).out == "after it\n"
    assert headrace("transaction", "abort", f"{topic}:0", bootstrap=bootstrap).err == (
        f"headrace: No transaction is open in {topic}-0.\n"
    )


def test_a_transaction_hangs_where_its_coordinator_does_not_count_the_partition_to_it() -> None:
    """It ended there, say, and a record came late: the coordinator may have begun another one since."""
    here, there = TopicPartition("paid", 0), TopicPartition("paid", 1)
    state = ProducerState(7, 0, 0, 0, 0, 5)
    known = {7: TransactionDescription("tx", "Ongoing", 7, 0, 60_000, 0, (there,))}
    writers = [Writer(here, state), Writer(there, state), Writer(there, replace(state, producer_id=8))]
    assert without_coordinator(writers, known) == [writers[0], writers[2]]


def test_of_several_open_transactions_one_is_chosen(bootstrap: str, topic: str) -> None:
    strangers = (FIRST_STRANGER + 1, FIRST_STRANGER + 2)
    for producer_id in strangers:
        write_hanging(bootstrap, topic, producer_id=producer_id)
    which = headrace("transaction", "abort", f"{topic}:0", bootstrap=bootstrap)
    assert which.code == 2
    assert which.err.splitlines() == [
        f"headrace: 2 transactions are open in {topic}-0: which one?",
        f"  Open are: --producer-id {strangers[0]} from offset 0 on; --producer-id {strangers[1]} from offset 1 on.",
    ]
    none = headrace("transaction", "abort", f"{topic}:0", "--start-offset", "7", bootstrap=bootstrap)
    assert (none.code, none.err.splitlines()[0]) == (2, f"headrace: No such transaction is open in {topic}-0.")
    assert headrace("transaction", "abort", topic, bootstrap=bootstrap).code == 2
    first = done("transaction", "abort", f"{topic}:0", "--start-offset", "1", "--json", bootstrap=bootstrap)
    assert [each["producer_id"] for each in first.objects] == [strangers[1]]
    left = done("transaction", "producers", topic, "--json", bootstrap=bootstrap).objects
    assert {each["producer_id"]: each["transaction_start_offset"] for each in left} == {
        strangers[0]: 0,
        strangers[1]: None,
    }
    done("transaction", "abort", f"{topic}:0", bootstrap=bootstrap)


def test_what_a_coordinator_knows_neither_hangs_nor_is_aborted_in_one_partition(bootstrap: str, topic: str) -> None:
    with open_transaction(bootstrap, topic) as (name, producer):
        assert done("transaction", "hanging", topic, "--longer-than", "0s", bootstrap=bootstrap).out == ""
        refused = headrace("transaction", "abort", f"{topic}:0", bootstrap=bootstrap)
        assert (refused.code, refused.err.splitlines()[0]) == (
            2,
            f"headrace: Its coordinator knows this transaction: it is Ongoing under the id {name}.",
        )
        assert f"`headrace transaction terminate {name}`" in refused.err
        done("transaction", "abort", f"{topic}:0", "--force", bootstrap=bootstrap)
        assert headrace("transaction", "abort", f"{topic}:0", bootstrap=bootstrap).code == 2
        producer.abort_transaction(30)


def test_who_writes_is_shown(bootstrap: str, topic: str) -> None:
    nobody = done("transaction", "producers", topic, bootstrap=bootstrap)
    assert (nobody.out, nobody.err) == (
        "",
        f"Nobody has written to {topic} with idempotence or in transactions.\n",
    )
    done("produce", topic, "-p", "1", stdin=b"one\n", bootstrap=bootstrap)
    (row,) = done("transaction", "producers", topic, bootstrap=bootstrap).rows
    assert (row[:2], row[3:6], row[-1]) == ([topic, "1"], ["0", "-", "0"], "-")
