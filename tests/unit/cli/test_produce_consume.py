"""`headrace produce` and `headrace consume` against both brokers."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tests.support.both_brokers import eventually, unique
from tests.support.command_line import done, headrace

COMMAND = (sys.executable, "-c", "from headrace.cli import main; main()")


@pytest.fixture
def topic(bootstrap: str) -> str:
    """With three partitions."""
    name = unique("records")
    done("topic", "create", name, "-p", "3", bootstrap=bootstrap)
    eventually(lambda: headrace("topic", "describe", name, bootstrap=bootstrap).code == 0)
    return name


def produce(bootstrap: str, topic: str, *arguments: str, stdin: bytes = b"") -> None:
    done("produce", topic, *arguments, stdin=stdin, bootstrap=bootstrap)


def consume(bootstrap: str, *arguments: str) -> bytes:
    return done("consume", *arguments, "--exit", bootstrap=bootstrap).raw


def objects(bootstrap: str, *arguments: str) -> list[dict[str, Any]]:
    return done("consume", *arguments, "--exit", "--json", bootstrap=bootstrap).objects


# Writing


def test_lines_become_values(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, "-p", "0", stdin=b"one\ntwo\n\nfour")
    assert consume(bootstrap, topic) == b"one\ntwo\n\nfour\n"


def test_lines_have_keys_headers_and_nulls(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, "-K", r"\t", "-H", "a=1", "-H", "b=x=y", "-p", "1", "-Z", stdin=b"k\tv\tw\n\tv\nk\t\n")
    rows = objects(bootstrap, topic)
    assert [(row["key"], row["value"]) for row in rows] == [("k", "v\tw"), (None, "v"), ("k", None)]
    assert {str(row["headers"]) for row in rows} == {"[['a', '1'], ['b', 'x=y']]"}
    assert {row["partition"] for row in rows} == {1}
    produce(bootstrap, topic, "-k", "all", "-D", ";", "-p", "2", stdin=b"1;2")
    assert [(row["key"], row["value"]) for row in objects(bootstrap, f"{topic}:2")] == [("all", "1"), ("all", "2")]


def test_a_line_without_the_separator_ends_it_and_what_came_before_is_written(bootstrap: str, topic: str) -> None:
    wrong = headrace("produce", topic, "-K", ":", "-p", "0", stdin=b"a:1\nb:2\nc3\nd:4\n", bootstrap=bootstrap)
    assert (wrong.code, "not in 'c3'" in wrong.err) == (2, True)
    assert consume(bootstrap, topic) == b"1\n2\n"


def test_a_file_is_one_record(bootstrap: str, topic: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(bytes(range(256)))
    second.write_bytes(b"two\nlines\n")
    produce(bootstrap, topic, str(first), str(second), "-p", "0", "-k", "k")
    assert consume(bootstrap, topic, "-f", "%k %S %s") == b"k 256 " + bytes(range(256)) + b"k 10 two\nlines\n"


def test_what_consume_prints_as_json_can_be_produced(bootstrap: str, topic: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    producer.produce(
        topic,
        value=b"\xff\x00",
        key="ü".encode(),
        headers=[("h", b"\x80"), ("n", None)],
        partition=2,
        timestamp=1_700_000_000_123,
    )
    producer.produce(topic, value=None, key=None, partition=2, timestamp=1_700_000_000_124)
    producer.flush()
    printed = done("consume", topic, "--exit", "--json", bootstrap=bootstrap)
    first, second = printed.objects
    assert (first["key"], first["value"]) == ("ü", {"hex": "ff00"})
    assert first["headers"] == [["h", {"hex": "80"}], ["n", None]]
    assert (second["key"], second["value"], second["headers"]) == (None, None, [])
    assert (first["timestamp_ms"], first["timestamp_type"]) == (1_700_000_000_123, "CreateTime")
    produce(bootstrap, topic, "--json", stdin=printed.raw)
    copies = objects(bootstrap, topic, "--from", "2")
    assert [{**copy, "offset": copy["offset"] - 2} for copy in copies] == [first, second]


def test_json_may_hold_json(bootstrap: str, topic: str) -> None:
    produce(
        bootstrap, topic, "--json", "-p", "0", "-H", "a=b", stdin=b'{"key":1,"value":{"x":[1]},"headers":{"h":"v"}}'
    )
    (row,) = objects(bootstrap, topic)
    assert (row["key"], row["value"], row["headers"]) == ("1", '{"x":[1]}', [["a", "b"], ["h", "v"]])


@pytest.mark.parametrize("line", [b"nonsense", b"[1]", b'{"value":"a","partition":"one"}', b'{"value":{"hex":"zz"}}'])
def test_a_line_that_is_no_record_is_refused(headrace_bootstrap: str, line: bytes) -> None:
    name = unique("json")
    done("topic", "create", name, bootstrap=headrace_bootstrap)
    wrong = headrace("produce", name, "--json", stdin=line, bootstrap=headrace_bootstrap)
    assert (wrong.code, wrong.err.startswith("headrace: Not a record")) == (2, True)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed(bootstrap: str, topic: str, codec: str) -> None:
    value = b"text that can be made smaller " * 100
    produce(bootstrap, topic, "-z", codec, "-p", "0", stdin=value + b"\n" + value + b"\n")
    assert consume(bootstrap, topic) == (value + b"\n") * 2
    (directory,) = done("log", "dirs", f"{topic}:0", "--json", bootstrap=bootstrap).objects
    assert (directory["partitions"][0]["size_bytes"] < len(value)) == (codec != "none")


def test_keys_go_where_the_java_client_puts_them(bootstrap: str, topic: str) -> None:
    keys = [f"key-{number}" for number in range(50)]
    produce(bootstrap, topic, "-K", ":", stdin="".join(f"{key}:v\n" for key in keys).encode())
    ours = {row["key"]: row["partition"] for row in objects(bootstrap, topic)}
    # librdkafka's murmur2 is Java's, and is checked against it there.
    other = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2"})
    theirs: dict[str, int] = {}
    for key in keys:
        other.produce(
            topic,
            b"v",
            key,
            on_delivery=lambda error, message: theirs.update({message.key().decode(): message.partition()}),
        )
    other.flush()
    assert ours == theirs
    assert len(set(ours.values())) == 3


def test_records_without_a_key_are_spread_batch_by_batch(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, stdin=b"x" * 99 + (b"\n" + b"x" * 99) * 20_000)
    assert {row["partition"] for row in objects(bootstrap, topic)} == {0, 1, 2}


def test_nobody_confirms_with_acks_0(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, "-p", "0", stdin=b"ready\n")  # a leader that is not, yet, would drop it without a word
    produce(bootstrap, topic, "--acks", "0", "-p", "0", stdin=b"fire\nforget\n")
    eventually(lambda: consume(bootstrap, topic) == b"ready\nfire\nforget\n")


def test_a_topic_is_created_by_writing_to_it_where_that_is_allowed(bootstrap: str) -> None:
    name = unique("auto")
    produce(bootstrap, name, stdin=b"first\n")
    assert consume(bootstrap, name) == b"first\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-p", "9"), "there is no partition 9"),
        (("-D", ""), "--delimiter must not be empty"),
        (("-K", "\\q"), "a backslash that means nothing"),
        (("-X", "linger.mss=1"), "did you mean linger.ms?"),
        (("-X", "linger.ms"), "KEY=VALUE"),
    ],
)
def test_what_cannot_be_produced(headrace_bootstrap: str, arguments: tuple[str, ...], message: str) -> None:
    name = unique("wrong")
    done("topic", "create", name, bootstrap=headrace_bootstrap)
    wrong = headrace("produce", name, *arguments, stdin=b"x\n", bootstrap=headrace_bootstrap)
    assert (wrong.code, message in wrong.err) == (2, True), wrong.err


# Reading


def test_where_to_begin(bootstrap: str, topic: str) -> None:
    lines = b"".join(b'{"value":"%d","timestamp_ms":%d}\n' % (each, 1_700_000_000_000 + each) for each in range(6))
    produce(bootstrap, topic, "--json", "-p", "0", stdin=lines)
    produce(bootstrap, topic, "-p", "1", stdin=b"other\n")

    def read(*arguments: str) -> list[str]:
        return consume(bootstrap, f"{topic}:0", *arguments).decode().split()

    assert read() == ["0", "1", "2", "3", "4", "5"]
    assert read("--from", "end") == []
    assert read("--from", "4") == ["4", "5"]
    assert read("--from", "@1700000000003") == ["3", "4", "5"]
    assert read("--from", "2023-11-14T22:13:20.005Z") == ["5"]
    assert read("--from", "2033-11-14") == []
    assert read("--last", "2") == ["4", "5"]
    assert read("--last", "99") == ["0", "1", "2", "3", "4", "5"]
    assert read("--count", "2") == ["0", "1"]
    assert max(consume(bootstrap, topic, "-p", "0", "-p", "1").split()) == b"other"
    done("topic", "delete-records", f"{topic}:0", "--before", "3", bootstrap=bootstrap)
    assert read("--from", "1") == ["3", "4", "5"]
    beyond = headrace("consume", topic, "--from", "99", "--exit", bootstrap=bootstrap)
    assert (beyond.code, "No partition reaches offset 99; the highest end is 6" in beyond.err) == (2, True)


def test_formats(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, "-K", ":", "-H", "h=1", "-p", "0", "-Z", stdin=b"k:v\n:\n")
    assert consume(bootstrap, topic, "-f", r"%t/%p/%o %k=%s %K,%S %h 100%%\n") == (
        f"{topic}/0/0 k=v 1,1 h=1 100%\n{topic}/0/1 = -1,-1 h=1 100%\n".encode()
    )
    assert consume(bootstrap, topic, "-f", r"%R%s\x00", "--null", "NULL") == (
        b"\x00\x00\x00\x01v\x00\xff\xff\xff\xffNULL\x00"
    )
    assert consume(bootstrap, topic, "-K", "%: ") == b"k%: v\n%: \n"


def test_only_committed_records_if_asked_for(bootstrap: str, topic: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("tx")})
    producer.init_transactions(30)
    for value, ends in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush()
        ends(30)
    assert consume(bootstrap, topic) == b"aborted\ncommitted\n"
    assert consume(bootstrap, topic, "--read-committed") == b"committed\n"
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush()
    assert consume(bootstrap, topic) == b"aborted\ncommitted\nopen\n"
    assert consume(bootstrap, topic, "--read-committed") == b"committed\n"
    producer.abort_transaction(30)


def test_it_follows_until_it_is_interrupted(bootstrap: str, topic: str) -> None:
    process = subprocess.Popen(
        [*COMMAND, "consume", topic, "--from", "end", "--bootstrap", bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    deadline = time.monotonic() + 60
    seen = b""
    while not seen:  # until it has begun: what is written before that is not for it
        assert time.monotonic() < deadline
        assert process.poll() is None
        produce(bootstrap, topic, "-p", "1", stdin=b"again\n")
        seen = process.stdout.read() or b""
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
    assert set(seen.split()) == {b"again"}


def test_a_pipe_that_nobody_reads_ends_it(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, stdin=b"x" * 99 + (b"\n" + b"x" * 99) * 20_000)
    process = subprocess.Popen(
        [*COMMAND, "consume", topic, "--bootstrap", bootstrap], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.read(10) == b"x" * 10
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as errors:
        assert errors.read() == b""
    assert process.wait(60) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-f", "%q"), "%q is not known in the format"),
        (("-f", "a%"), "% is not known in the format"),
        (("-f", "a\\"), "a backslash that means nothing"),
        (("-f", "%s", "--json"), "exclude one another"),
        (("--from", "1", "--last", "2"), "--from and --last exclude one another"),
        (("--from", "yesterday"), "yesterday is not a time"),
    ],
)
def test_what_cannot_be_consumed(headrace_bootstrap: str, arguments: tuple[str, ...], message: str) -> None:
    name = unique("wrong")
    done("topic", "create", name, bootstrap=headrace_bootstrap)
    wrong = headrace("consume", name, *arguments, bootstrap=headrace_bootstrap)
    assert (wrong.code, message in wrong.err) == (2, True), wrong.err


def test_a_topic_that_does_not_exist(bootstrap: str, topic: str) -> None:
    wrong = headrace("consume", topic + "x", bootstrap=bootstrap)
    assert (wrong.code, f"Did you mean {topic}?" in wrong.err) == (2, True)
