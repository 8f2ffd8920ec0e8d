"""The records of internal topics, both ways: Kafka decodes what we encode, and we decode what Kafka wrote."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import Phase, given, settings

from headrace.protocol.apis import (
    GROUP_RECORDS,
    METADATA_RECORDS,
    SHARE_RECORDS,
    TRANSACTION_RECORDS,
    RecordType,
    load_coordinator_record,
    load_metadata_record,
)
from headrace.protocol.batch import BatchHeader
from headrace.protocol.internal_records import (
    decode_coordinator_record,
    decode_metadata_record,
    encode_coordinator_record,
    encode_metadata_record,
)
from headrace.protocol.messages import control_records
from headrace.protocol.records import (
    ControlType,
    NewRecord,
    Record,
    build_batch,
    control_key,
    iter_batches,
    read_control_type,
    read_records,
)
from tests.support.kafka_json import DumpedRecord, differences, dumped_records
from tests.support.kafka_run import KafkaRun
from tests.support.kafka_tools import KafkaTools, complaints, sections
from tests.support.message_values import values_of
from tests.support.messages import message_named

pytestmark = pytest.mark.kafka

EXAMPLES: Final = 12  # of each message at each version
COORDINATORS: Final = [
    ("__consumer_offsets", "--offsets-decoder", GROUP_RECORDS),
    ("__transaction_state", "--transaction-log-decoder", TRANSACTION_RECORDS),
    ("__share_group_state", "--share-group-state-decoder", SHARE_RECORDS),
]
CONTROL_MESSAGES: Final = {
    ControlType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlType.KRAFT_VOTERS: "VotersRecord",
}


def some_messages(name: str, version: int, count: int = EXAMPLES) -> list[Any]:
    """Messages with values of every kind, the same ones on every run."""
    definition = message_named(name)
    found: list[Any] = []

    @settings(max_examples=count, derandomize=True, database=None, phases=[Phase.generate], deadline=None)
    @given(values_of(definition, version, unknown_tags=False))
    def collect(values: dict[str, Any]) -> None:
        found.append(definition.build(values))

    collect()
    return found


def write_segment(directory: Path, pairs: list[tuple[bytes | None, bytes | None]]) -> Path:
    directory.mkdir()
    path = directory / "00000000000000000000.log"
    path.write_bytes(build_batch([NewRecord(1_000, key, value) for key, value in pairs], leader_epoch=0))
    return path


def test_kafka_decodes_every_metadata_record_that_we_encode(tmp_path: Path, kafka_tools: KafkaTools) -> None:
    written = [
        (record_type, version, message)
        for record_type in METADATA_RECORDS.values()
        for version in load_metadata_record(record_type.id).encode
        for message in some_messages(record_type.name, version)
    ]
    values = [encode_metadata_record(record_type.id, message, version) for record_type, version, message in written]
    path = write_segment(tmp_path / "__cluster_metadata-0", [(None, value) for value in values])
    dump = kafka_tools.dump_log([path], "--cluster-metadata-decoder")
    assert complaints(dump) == []
    records = list(dumped_records(dump))
    assert len(records) == len(written)
    for (record_type, version, message), record in zip(written, records, strict=True):
        assert record.payload["version"] == version, record
        assert record.payload["type"].replace("_", "").lower() == record_type.name.lower()
        assert differences(message, record.payload["data"]) == [], record


@pytest.mark.parametrize(("topic", "flag", "types"), COORDINATORS)
def test_kafka_decodes_every_coordinator_record_that_we_encode(
    tmp_path: Path, kafka_tools: KafkaTools, topic: str, flag: str, types: Mapping[int, RecordType]
) -> None:
    written: list[tuple[RecordType, Any, Any, int | None]] = []
    version: int | None
    for record_type in types.values():
        keys = some_messages(f"{record_type.name}Key", 0)
        for version in load_coordinator_record(record_type)[1].encode:
            values = some_messages(f"{record_type.name}Value", version)
            written += [(record_type, key, value, version) for key, value in zip(keys, values, strict=True)]
        written.append((record_type, keys[0], None, None))
    path = write_segment(tmp_path / f"{topic}-0", [encode_coordinator_record(*each) for each in written])
    dump = kafka_tools.dump_log([path], flag)
    assert complaints(dump) == []
    records = list(dumped_records(dump))
    assert len(records) == len(written)
    for (record_type, key, value, version), record in zip(written, records, strict=True):
        assert record.key["type"] == str(record_type.id)
        assert differences(key, record.key["data"]) == [], record
        if value is None:
            assert record.line.endswith("payload: <DELETE>")
        else:
            assert record.payload["version"] == str(version)
            assert differences(value, record.payload["data"]) == [], record


def test_kafka_reads_a_metadata_snapshot_that_we_write(tmp_path: Path, kafka_tools: KafkaTools) -> None:
    directory_id = bytes(range(16))
    endpoint = control_records.Endpoint(name="CONTROLLER", host="localhost", port=9093)
    feature = control_records.KRaftVersionFeature(min_supported_version=0, max_supported_version=1)
    voter = control_records.VotersVoter(
        voter_id=1, voter_directory_id=directory_id, endpoints=[endpoint], kraft_version_feature=feature
    )
    header = control_records.SnapshotHeaderRecord(last_contained_log_timestamp=77)
    kraft_version = control_records.KRaftVersionRecord(kraft_version=1)
    voters = control_records.VotersRecord(voters=[voter])
    footer = control_records.SnapshotFooterRecord()
    opening = [
        (ControlType.SNAPSHOT_HEADER, control_records.encode_snapshot_header_record[0](header)),
        (ControlType.KRAFT_VERSION, control_records.encode_kraft_version_record[0](kraft_version)),
        (ControlType.KRAFT_VOTERS, control_records.encode_voters_record[0](voters)),
    ]
    closing = [(ControlType.SNAPSHOT_FOOTER, control_records.encode_snapshot_footer_record[0](footer))]
    topic = encode_metadata_record(2, some_messages("TopicRecord", 0, 1)[0], 0)

    def control_batch(records: list[tuple[ControlType, list[Any]]], base_offset: int) -> bytes:
        new = [NewRecord(77, control_key(kind), b"".join(parts)) for kind, parts in records]
        return bytes(build_batch(new, base_offset=base_offset, control=True, leader_epoch=7))

    path = tmp_path / "00000000000000000012-0000000007.checkpoint"
    data = build_batch([NewRecord(77, None, topic)], base_offset=3, leader_epoch=7)
    path.write_bytes(control_batch(opening, 0) + data + control_batch(closing, 4))
    dump = kafka_tools.dump_log([path], "--cluster-metadata-decoder")
    assert complaints(dump) == []
    assert "Snapshot end offset: 12, epoch: 7" in dump
    lines = [record.line for record in dumped_records(dump)]
    assert 'SnapshotHeader {"version":0,"lastContainedLogTimestamp":77}' in lines[0]
    assert 'KRaftVersion {"version":0,"kRaftVersion":1}' in lines[1]
    assert '"voterDirectoryId":"AAECAwQFBgcICQoLDA0ODw"' in lines[2]
    assert '"type":"TOPIC_RECORD"' in lines[3]
    assert 'SnapshotFooter {"version":0}' in lines[4]


def records_in(path: Path) -> Iterator[tuple[BatchHeader, Record]]:
    data = path.read_bytes()
    for position, header in iter_batches(data):
        for record in read_records(data, position):
            yield header, record


def both_views(
    paths: list[Path], kafka_tools: KafkaTools, flag: str
) -> Iterator[tuple[BatchHeader, Record, DumpedRecord]]:
    """Every record of segments that Kafka wrote, as we read it and as Kafka's tool prints it."""
    dumped = sections(kafka_tools.dump_log(paths, flag))
    assert set(dumped) == set(paths)
    for path in paths:
        for (header, record), theirs in zip(records_in(path), dumped_records(dumped[path]), strict=True):
            yield header, record, theirs


def test_we_decode_the_metadata_log_as_kafka_does_and_encode_it_to_the_same_bytes(
    kafka_run: KafkaRun, kafka_tools: KafkaTools
) -> None:
    found: set[str] = set()
    control_types: set[ControlType] = set()
    directory = kafka_run.clean / "__cluster_metadata-0"
    paths = [*directory.glob("*.log"), *directory.glob("*.checkpoint"), kafka_run.clean / "bootstrap.checkpoint"]
    for header, record, dumped in both_views(paths, kafka_tools, "--cluster-metadata-decoder"):
        if header.is_control:
            control_types.add(read_control_type(record.key))
            check_control_record(record, dumped)
            continue
        assert record.value is not None
        record_type, version, message = decode_metadata_record(record.value)
        assert differences(message, dumped.payload["data"]) == []
        assert encode_metadata_record(record_type.id, message, version) == record.value
        found.add(record_type.name)
    assert control_types == set(CONTROL_MESSAGES)
    assert found >= {
        "RegisterBrokerRecord",
        "TopicRecord",
        "PartitionRecord",
        "PartitionChangeRecord",
        "ConfigRecord",
        "RemoveTopicRecord",
        "UserScramCredentialRecord",
        "RemoveUserScramCredentialRecord",
        "FeatureLevelRecord",
        "ClientQuotaRecord",
        "ProducerIdsRecord",
        "BrokerRegistrationChangeRecord",
        "AccessControlEntryRecord",
        "RemoveAccessControlEntryRecord",
        "NoOpRecord",
        "BeginTransactionRecord",
        "EndTransactionRecord",
        "RegisterControllerRecord",
    }


def check_control_record(record: Record, dumped: DumpedRecord) -> None:
    """Decode the value by its own version, compare it with Kafka's line, and encode it to the same bytes."""
    control_type = read_control_type(record.key)
    assert record.key == control_key(control_type)
    assert record.value is not None
    definition = message_named(CONTROL_MESSAGES[control_type])
    version = int.from_bytes(record.value[:2])  # the first field of each of them
    message = definition.decode(version, record.value)
    assert differences(message, json.loads(dumped.line[dumped.line.index("{") :])) == []
    assert definition.encode(version, message) == record.value


@pytest.mark.parametrize(("topic", "flag", "types"), COORDINATORS)
def test_we_decode_coordinator_logs_as_kafka_does_and_encode_them_to_the_same_bytes(
    kafka_run: KafkaRun, kafka_tools: KafkaTools, topic: str, flag: str, types: Mapping[int, RecordType]
) -> None:
    found: set[str] = set()
    paths = sorted(kafka_run.clean.glob(f"{topic}-*/*.log"))
    for header, record, dumped in both_views(paths, kafka_tools, flag):
        if header.is_control:
            assert "endTxnMarker" in dumped.line
            continue
        decoded = decode_coordinator_record(types, record.key, record.value)
        assert differences(decoded.key, dumped.key["data"]) == []
        if decoded.value is not None and decoded.type.name != "GroupMetadata":  # there Kafka opens members' bytes
            assert differences(decoded.value, dumped.payload["data"]) == []
        again = encode_coordinator_record(decoded.type, decoded.key, decoded.value, decoded.version)
        assert again == (record.key, record.value)
        found.add(decoded.type.name)
    expected = {
        "__consumer_offsets": {"OffsetCommit", "GroupMetadata", "ConsumerGroupMetadata", "ShareGroupMetadata"},
        "__transaction_state": {"TransactionLog"},
        "__share_group_state": {"ShareSnapshot"},
    }
    assert found >= expected[topic]
