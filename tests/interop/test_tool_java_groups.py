"""Apache Kafka's command-line tools for groups say the same of Headrace as of Apache Kafka."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.clients_confluent import sender
from tests.support.clients_confluent_groups import PROTOCOLS, Crew, crew
from tests.support.clients_java import BOOTSTRAP, Both
from tests.support.kafka_tools import complaints

pytestmark = pytest.mark.kafka

PARTITIONS = 3
NOON_MS = 1_700_000_000_000
GROUPS = ("ConsumerGroupCommand", *BOOTSTRAP)
# Ids that a broker or a client makes up, and the widths of the columns that they stand in.
SCRUB = {
    r"(?<= )[A-Za-z0-9+/_-]{22}(?= )": "MEMBER",
    r"i-1-[\w-]{22,36}": "MEMBER",
    r"/127\.0\.0\.1": "HOST",
    r"[ \t]+": " ",
}


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def addresses(both: Both) -> tuple[str, str]:
    return both.ours.bootstrap, both.kafka.address


@pytest.fixture
def filled(both: Both, made: str) -> str:
    """A topic with ten records in each partition, a second apart, in both brokers."""
    for address in addresses(both):
        producer = sender(address)
        for number in range(10 * PARTITIONS):
            timestamp = NOON_MS + number // PARTITIONS * 1000
            producer.send(made, b"%d" % number, partition=number % PARTITIONS, timestamp=timestamp)
        producer.flush()
        assert not producer.failed
    return made


@contextmanager
def members(both: Both, topic: str, protocol: str) -> Iterator[list[Crew]]:
    """One static member of the group in each broker, that has read everything and committed it."""
    with ExitStack() as stack:
        crews = [stack.enter_context(crew(address, topic)) for address in addresses(both)]
        for group in crews:
            member = group.join(protocol, topic, client_id="somebody", group_instance_id="i-1")
            group.share(*((topic, index) for index in range(PARTITIONS)))
            group.until(lambda member=member: len(member.got) == 10 * PARTITIONS, "it reads all")  # type: ignore[misc]
            member.consumer.commit(asynchronous=False)
        yield crews


def said(both: Both, *arguments: str, code: int = 0) -> list[str]:
    """The lines that the tool prints, the same for both, in an order that does not depend on hashes."""
    return sorted(line.strip() for line in both.run(*GROUPS, *arguments, code=code, scrub=SCRUB).splitlines() if line)


def test_running_groups_are_listed_and_described(both: Both, filled: str, protocol: str) -> None:
    with members(both, filled, protocol):
        group = ("--describe", "--group", filled)
        offsets = said(both, *group)
        assert sum(f"{filled} {filled} {index} 10 10 0" in line for index in range(3) for line in offsets) == 3
        assert any("somebody" in line for line in said(both, *group, "--members", "--verbose"))
        assert any("Stable 1" in line for line in said(both, *group, "--state"))
        said(both, *group, "--offsets", "--verbose")
        said(both, *group, "--state", "--verbose")
        for filters in ((), ("--state",), ("--type",), ("--state", "Stable", "--type", protocol)):
            for address in addresses(both):
                listed = both.tools.run("ConsumerGroupCommand", "--bootstrap-server", address, "--list", *filters)
                assert filled in listed
        for address in addresses(both):
            rows = both.tools.run("GroupsCommand", "--bootstrap-server", address, "--list").splitlines()
            (row,) = [line.split() for line in rows if line.startswith(filled)]
            assert [each.lower() for each in row[1:]] == [protocol, "consumer"]
        assert any("GroupNotEmptyException" in line for line in said(both, "--delete", "--group", filled))
        refused = said(both, "--delete-offsets", "--group", filled, "--topic", filled)
        assert sum("GroupSubscribedToTopicException" in line for line in refused) == PARTITIONS
        reset = ("--reset-offsets", "--group", filled, "--topic", filled, "--to-earliest", "--execute")
        assert any("can only be reset" in line for line in said(both, *reset))


def test_offsets_are_reset_in_every_way_and_deleted(both: Both, filled: str, tmp_path: Path) -> None:
    name = f"{filled}-group"
    (tmp_path / "plan.csv").write_text(f"{filled},0,1\n{filled},2,9\n")
    ways: dict[tuple[str, ...], Sequence[int | None]] = {
        ("--to-earliest",): [0, 0, 0],
        ("--to-latest",): [10, 10, 10],
        ("--to-offset", "4"): [4, 4, 4],
        ("--shift-by", "-3"): [1, 1, 1],
        ("--shift-by", "100"): [10, 10, 10],
        ("--to-datetime", "2023-11-14T22:13:25.000"): [5, 5, 5],
        ("--by-duration", "PT0S"): [10, 10, 10],
        ("--to-current",): [10, 10, 10],
        ("--from-file", str(tmp_path / "plan.csv")): [1, None, 9],
    }
    for way, expected in ways.items():
        target = () if way[0] == "--from-file" else ("--topic", filled)
        plan = ("--reset-offsets", "--group", name, *target, *way)
        tried = said(both, *plan, "--dry-run")
        rows = [(f"{name} {filled} {index} {offset}") for index, offset in enumerate(expected) if offset is not None]
        assert [line for line in tried if line.startswith(name)] == rows
        assert said(both, *plan, "--execute") == tried
    exported = said(
        both, "--reset-offsets", "--group", name, "--topic", filled, "--to-current", "--export", "--dry-run"
    )
    assert f'"{filled}",0,1' in exported or f"{filled},0,1" in exported
    one = ("--delete-offsets", "--group", name, "--topic", f"{filled}:0")
    assert any("Successful" in line for line in said(both, *one))
    assert not any(f"{filled} 0 " in line for line in said(both, "--describe", "--group", name))
    assert any("Empty" in line for line in said(both, "--describe", "--group", name, "--state"))
    assert said(both, "--delete", "--group", name) == [
        f"Deletion of requested consumer groups ('{name}') was successful."
    ]
    assert any("GroupIdNotFoundException" in line for line in said(both, "--delete", "--group", name))
    assert any("GroupIdNotFoundException" in line for line in said(both, "--describe", "--group", name))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_console_and_verifiable_consumers_in_groups(both: Both, filled: str, protocol: str) -> None:
    settings = ("--command-property", f"group.protocol={protocol}", "--command-property", "auto.offset.reset=earliest")
    for address in addresses(both):
        place = ("--bootstrap-server", address)
        read = both.tools.run(
            *("ConsoleConsumer", *place, "--topic", filled, "--group", f"{filled}-console", "--max-messages", "30"),
            *settings,
        )
        assert sorted(map(int, read.split())) == list(range(30))
        verified = both.tools.run(
            *("VerifiableConsumer", *place, "--topic", filled, "--group-id", f"{filled}-verifiable"),
            *("--group-protocol", protocol, "--reset-policy", "earliest", "--max-messages", "30"),
        )
        rows = [json.loads(line) for line in verified.splitlines() if line.startswith("{")]
        assert sum(row["count"] for row in rows if row["name"] == "records_consumed") == 30
        committed = [row for row in rows if row["name"] == "offsets_committed"]
        assert all(row["success"] for row in committed)
        last = {each["partition"]: each["offset"] for row in committed for each in row["offsets"]}
        assert last == dict.fromkeys(range(PARTITIONS), 10)
        timed = both.tools.run(
            *("ConsumerPerformance", *place, "--topic", filled, "--num-records", "30", "--group", f"{filled}-perf")
        )
        assert re.search(r", 30, ", timed), timed
    assert (
        sum(
            f"{index} 10 10 0" in line
            for index in range(3)
            for line in said(both, "--describe", "--group", f"{filled}-console")
        )
        == 3
    )


def test_dump_log_segments_decodes_what_groups_wrote(both: Both, filled: str, protocol: str) -> None:
    with members(both, filled, protocol):
        files = [str(file) for file in sorted(both.ours.data.glob("__consumer_offsets-*/*.log")) if file.stat().st_size]
        dump = both.tools.run("DumpLogSegments", "--offsets-decoder", "--files", ",".join(files))
    assert complaints(dump) == []
    wanted = {f'"group":"{filled}"', f'"groupId":"{filled}"'}
    rows = [line for line in dump.splitlines() if any(each in line for each in wanted)]
    kind = "2" if protocol == "classic" else "3"
    assert any(f'"type":"{kind}"' in line for line in rows), rows[:3]
    assert sum('"offset":10' in line for line in rows) >= PARTITIONS
