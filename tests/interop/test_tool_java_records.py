"""Apache Kafka's command-line tools for records say the same of Headrace as of Apache Kafka."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients_java import BOOTSTRAP, Both
from tests.support.kafka_tools import complaints

pytestmark = pytest.mark.kafka

KEYED = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")


def produce(both: Both, topic: str, lines: str, *arguments: str) -> None:
    both.run("ConsoleProducer", *BOOTSTRAP, "--topic", topic, *arguments, send=lines)


def test_console_producer_and_consumer(both: Both, made: str) -> None:
    reader = ("parse.key=true", "key.separator=:", "parse.headers=true", "headers.delimiter=|", "null.marker=NULL")
    properties = [part for each in reader for part in ("--reader-property", each)]
    lines = "kind:test,more:yes|k1:one\nkind:|k2:two\nNULL|k3:NULL\nkind:test|k1:four\n"
    produce(both, made, lines, *properties)
    printed = ("print.key", "print.headers", "print.offset", "print.partition")
    formatter = [part for each in printed for part in ("--formatter-property", f"{each}=true")]

    def consumed(partition: int, offset: str, count: int, *arguments: str) -> list[str]:
        place = ("--partition", str(partition), "--offset", offset, "--max-messages", str(count))
        return both.run("ConsoleConsumer", *BOOTSTRAP, "--topic", made, *place, *arguments).splitlines()

    # The Java client hashes keys as ever: k1 and its second record go to partition 2.
    assert consumed(2, "earliest", 2, *formatter) == [
        "Partition:2\tOffset:0\tkind:test,more:yes\tk1\tone",
        "Partition:2\tOffset:1\tkind:test\tk1\tfour",
    ]
    assert consumed(2, "1", 1, "--isolation-level", "read_committed") == ["four"]
    assert sum(len(consumed(partition, "earliest", 1)) for partition in range(2)) == 2


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_dump_log_segments_reads_what_the_java_client_wrote(both: Both, made: str, codec: str) -> None:
    lines = "".join(f"{n} {'and on ' * 20}\n" for n in range(50))
    produce(both, made, lines, "--compression-codec", codec)
    offsets = both.tools.run("GetOffsetShell", "--bootstrap-server", both.ours.bootstrap, "--topic", made)
    partition, count = next((int(row[1]), int(row[2])) for row in map(fields, offsets.splitlines()) if row[2] != "0")
    dump = both.tools.run(
        *("DumpLogSegments", "--print-data-log", "--deep-iteration"),
        *("--files", str(both.ours.data / f"{made}-{partition}" / f"{0:020}.log")),
    )
    assert complaints(dump) == []
    assert f"compresscodec: {codec}" in dump
    assert dump.count("payload:") == count > 0


def fields(line: str) -> list[str]:
    return line.split(":")


def test_get_offset_shell_and_delete_records(both: Both, made: str, tmp_path: Path) -> None:
    produce(both, made, "".join(f"key:{n}\n" for n in range(20)), *KEYED)

    def offsets(*arguments: str) -> list[list[str]]:
        return [line.split(":") for line in both.run("GetOffsetShell", *BOOTSTRAP, *arguments).splitlines()]

    ends = offsets("--topic", made)
    (full,) = [index for _, index, end in ends if end == "20"]
    assert sorted(end for _, _, end in ends) == ["0", "0", "20"]
    assert offsets("--topic", made, "--time", "latest-tiered") == []
    assert offsets("--topic", made, "--time", "0") == [[made, full, "0"]]
    assert offsets("--topic-partitions", f"{made}:{full}") == [[made, full, "20"]]

    wanted = {"version": 1, "partitions": [{"topic": made, "partition": int(full), "offset": 7}]}
    (tmp_path / "offsets.json").write_text(json.dumps(wanted))
    file = ("--offset-json-file", str(tmp_path / "offsets.json"))
    assert f"partition: {made}-{full}\tlow_watermark: 7\n" in both.run("DeleteRecordsCommand", *BOOTSTRAP, *file)
    assert [made, full, "7"] in offsets("--topic", made, "--time", "earliest")
    wanted["partitions"][0]["offset"] = 21  # type: ignore[index]
    (tmp_path / "offsets.json").write_text(json.dumps(wanted))
    assert "OffsetOutOfRangeException" in both.run("DeleteRecordsCommand", *BOOTSTRAP, *file)


def test_producer_performance_and_verifiable_producer(both: Both, made: str) -> None:
    load = ("--num-records", "2000", "--record-size", "100", "--throughput", "-1")
    settings = ("--command-property", "bootstrap.servers=ADDRESS", "compression.type=lz4")
    for address in (both.ours.bootstrap, both.kafka.address):
        said = both.end("ProducerPerformance", "--topic", made, *load, *settings, address=address)
        assert said.output.startswith("2000 records sent, "), said
        verified = both.end(
            *("VerifiableProducer", *BOOTSTRAP, "--topic", made),
            *("--max-messages", "50", "--repeating-keys", "5", "--acks", "-1"),
            address=address,
        )
        rows: list[dict[str, Any]] = [json.loads(line) for line in verified.output.splitlines()]
        assert [
            row["value"]
            for row in sorted(
                (row for row in rows if row["name"] == "producer_send_success"), key=lambda row: int(row["value"])
            )
        ] == [str(n) for n in range(50)]
        assert (rows[-1]["sent"], rows[-1]["acked"]) == (50, 50)
    ends = both.tools.run("GetOffsetShell", "--bootstrap-server", both.ours.bootstrap, "--topic", made)
    assert sum(int(line.split(":")[2]) for line in ends.splitlines()) == 2050


def test_log_dirs_command(both: Both, made: str) -> None:
    produce(both, made, "key:value\n", *KEYED)
    said = both.run("LogDirsCommand", *BOOTSTRAP, "--describe", "--topic-list", made)
    (directory,) = json.loads(said.splitlines()[-1])["brokers"][0]["logDirs"]
    assert directory["logDir"] == "DATA"
    assert sorted(row["size"] > 0 for row in directory["partitions"]) == [False, False, True]
    both.run("LogDirsCommand", *BOOTSTRAP, "--describe", "--broker-list", "1,2", "--topic-list", made, code=1)


def test_transactions_command_describes_idempotent_producers(both: Both, made: str) -> None:
    produce(both, made, "key:value\n", *KEYED)
    offsets = both.run("GetOffsetShell", *BOOTSTRAP, "--topic", made)
    (full,) = [line.split(":")[1] for line in offsets.splitlines() if line.endswith(":1")]
    said = both.run(
        *("TransactionsCommand", *BOOTSTRAP, "describe-producers", "--topic", made, "--partition", full),
        scrub={r"(?m)^\d+ *\t0 +\t-1 +\t0 +\t\d+\tNone *\t$": "ONE PRODUCER"},
    )
    assert said.splitlines()[1:] == ["ONE PRODUCER"]
    hanging = both.run("TransactionsCommand", *BOOTSTRAP, "find-hanging", "--topic", made)
    assert hanging.splitlines()[1:] == []
