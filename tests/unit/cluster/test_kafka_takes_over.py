"""Apache Kafka starts on a metadata log and a snapshot that we wrote and goes on with them, and we with its log."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.cluster.control_records import (
    ControlRecord,
    VoterEndpoint,
    VoterNode,
    membership,
    read_voters,
    snapshot_footer,
    snapshot_header,
)
from headrace.cluster.metadata_records import MetadataRecord, decode_record, encode_record, record_version
from headrace.cluster.quorum import Append, Lead, OnDisk, Propose, Quorum, SaveState, SnapshotPolicy, Start
from headrace.cluster.quorum_state import QuorumState, format_quorum_state, parse_quorum_state
from headrace.cluster.replay import Replay
from headrace.cluster.snapshot import image_records
from headrace.protocol.records import (
    ControlType,
    NewRecord,
    build_batch,
    control_key,
    iter_batches,
    read_control_type,
    read_records,
)
from headrace.protocol.types import uuid_to_text
from tests.support.kafka import CLUSTER_ID, ApacheKafka
from tests.support.kafka_tools import KafkaTools
from tests.unit.cluster.harness import Cluster, directory

NODE = 1
NOW_MS = 1_700_000_000_000
ME = VoterNode(NODE, directory(NODE), (VoterEndpoint("CONTROLLER", "127.0.0.1", 9093),))
METADATA_VERSION = 30


def control_batch(records: Sequence[ControlRecord], base_offset: int, epoch: int) -> bytes:
    rows = [NewRecord(NOW_MS, control_key(record.type), record.value) for record in records]
    return bytes(build_batch(rows, base_offset=base_offset, leader_epoch=epoch, control=True))


def batch(records: Sequence[MetadataRecord], base_offset: int, epoch: int) -> bytes:
    rows = [
        NewRecord(NOW_MS, None, encode_record(record, record_version(record, METADATA_VERSION))) for record in records
    ]
    return bytes(build_batch(rows, base_offset=base_offset, leader_epoch=epoch))


def a_cluster_that_was_stopped() -> Cluster:
    cluster = Cluster(NODE)
    cluster.create_topic("orders", [NODE], [NODE], retention_ms="1234567")
    cluster.create_topic("deleted", [NODE])
    cluster.create_topic("strict", [NODE], min_insync_replicas="1")
    while not cluster.heartbeat(NODE, want_shut_down=True).should_shut_down:
        pass
    return cluster


def write_data(data: Path, cluster: Cluster, *, as_snapshot: bool) -> None:
    """A data directory as the shell of a broker leaves it: a log, or a snapshot that has replaced all of it."""
    metadata = data / "__cluster_metadata-0"
    metadata.mkdir(parents=True)
    properties = {
        "version": 1,
        "cluster.id": CLUSTER_ID,
        "node.id": NODE,
        "directory.id": uuid_to_text(ME.directory_id),
    }
    (data / "meta.properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    quorum = Quorum(ME, OnDisk(QuorumState(), 0, 0), kraft_version=1, policy=SnapshotPolicy(), now_ms=0)
    records = tuple(map(decode_record, cluster.log))
    log = b""
    for event in (Start(), Propose(records)):
        for effect in quorum.step(event, now_ms=0):
            if isinstance(effect, SaveState):
                (metadata / "quorum-state").write_text(format_quorum_state(effect.state, kraft_version=1))
            elif isinstance(effect, Append):
                log += control_batch(effect.control, effect.base_offset, effect.epoch) if effect.control else b""
                log += batch(effect.records, effect.base_offset, effect.epoch) if effect.records else b""
            else:
                assert isinstance(effect, Lead)
    if as_snapshot:
        name = f"{quorum.log_end_offset:020d}-{quorum.epoch:010d}.checkpoint"
        (metadata / name).write_bytes(snapshot(image_records(cluster.image), quorum.epoch))
    else:
        (metadata / "00000000000000000000.log").write_bytes(log)


def snapshot(records: Sequence[MetadataRecord], epoch: int) -> bytes:
    head = [snapshot_header(NOW_MS), *membership(1, [ME])]
    end = len(head) + len(records)
    return (
        control_batch(head, 0, epoch)
        + batch(records, len(head), epoch)
        + control_batch([snapshot_footer()], end, epoch)
    )


@pytest.mark.kafka
@pytest.mark.parametrize("as_snapshot", [False, True], ids=["log", "snapshot"])
def test_apache_kafka_goes_on_with_our_metadata_and_we_with_its(
    kafka_tools: KafkaTools, tmp_path: Path, as_snapshot: bool
) -> None:
    cluster = a_cluster_that_was_stopped()
    kafka = ApacheKafka(tmp_path, kafka_tools)
    write_data(kafka.data, cluster, as_snapshot=as_snapshot)
    with kafka:
        topics = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", kafka.address)
        described = kafka_tools.run(*topics, "--describe")
        kafka_tools.run(*topics, "--delete", "--topic", "deleted")
        kafka_tools.run(*topics, "--create", "--topic", "by-kafka", "--partitions", "3")
    for topic_id in cluster.image.topics:
        assert f"TopicId: {uuid_to_text(topic_id)}" in described
    assert "retention.ms=1234567" in described
    assert described.count(f"Leader: {NODE}\t") == 4

    metadata = kafka.data / "__cluster_metadata-0"
    data = b"".join(segment.read_bytes() for segment in sorted(metadata.glob("*.log")))
    replay = Replay(cluster.image) if as_snapshot else Replay()
    voters: tuple[VoterNode, ...] = ()
    for position, header in iter_batches(data):
        records = list(read_records(data, position))
        if header.is_control:
            values = [row.value or b"" for row in records if read_control_type(row.key) is ControlType.KRAFT_VOTERS]
            voters = read_voters(values[-1]) if values else voters
        else:
            replay.apply([decode_record(row.value or b"") for row in records], base_offset=header.base_offset)
    assert set(replay.image.topic_ids) == {"orders", "strict", "by-kafka"}
    assert [(voter.voter_id, voter.directory_id) for voter in voters] == [(NODE, ME.directory_id)]
    assert parse_quorum_state((metadata / "quorum-state").read_text()).leader_epoch == 2
