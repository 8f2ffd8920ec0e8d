"""A snapshot of an image, replayed, is the image; and Kafka's own logs, snapshots and tools agree with ours."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cluster import image as images
from headrace.cluster.image import EMPTY_IMAGE, ConfigResource, Image, Partition, Topic
from headrace.cluster.metadata_records import decode_record, encode_record, record_version
from headrace.cluster.replay import Replay
from headrace.cluster.snapshot import image_records
from headrace.protocol.messages.metadata_records import FeatureLevelRecord, RegisterBrokerRecord, TopicRecord
from headrace.protocol.records import NewRecord, build_batch, iter_batches, read_records
from tests.support.kafka_run import KafkaRun
from tests.support.kafka_tools import KafkaTools, complaints

Drawer = Callable[..., Any]

texts = st.text("abc-.", min_size=1, max_size=6)
uuids = st.binary(min_size=16, max_size=16).filter(lambda uuid: not images.is_reserved_directory(uuid))
small = st.integers(0, 5)
node_ids = st.lists(st.integers(0, 20), min_size=1, max_size=4, unique=True).map(tuple)
int64s = st.integers(0, 2**63 - 1)
endpoints = st.lists(st.builds(images.Endpoint, texts, texts, st.integers(0, 65535), small), max_size=2).map(tuple)
features = st.lists(st.builds(images.FeatureSupport, texts, small, small), max_size=2).map(tuple)


@st.composite
def partitions(draw: Drawer, metadata_version: int) -> Partition:
    replicas = draw(node_ids)
    directories = st.lists(uuids, min_size=len(replicas), max_size=len(replicas)).map(tuple)
    some = st.lists(st.sampled_from(replicas), unique=True).map(tuple)
    with_elr = metadata_version >= 23
    return Partition(
        replicas=replicas,
        isr=draw(some),
        leader=draw(st.sampled_from([-1, *replicas])),
        leader_epoch=draw(small),
        partition_epoch=draw(small),
        directories=draw(directories) if metadata_version >= 17 else (bytes(16),) * len(replicas),
        adding_replicas=draw(some),
        removing_replicas=draw(some),
        elr=draw(some) if with_elr else (),
        last_known_elr=draw(some) if with_elr else (),
        recovering=draw(st.booleans()),
    )


@st.composite
def brokers(draw: Drawer, metadata_version: int) -> images.Broker:
    directories = st.lists(uuids, max_size=2).map(tuple)
    return images.Broker(
        broker_id=draw(small),
        epoch=draw(int64s),
        incarnation_id=draw(uuids),
        listeners=draw(endpoints),
        features=draw(features),
        rack=draw(st.none() | texts),
        fenced=draw(st.booleans()),
        in_controlled_shutdown=draw(st.booleans()),
        log_dirs=draw(directories) if metadata_version >= 17 else (),
        cordoned_log_dirs=draw(st.none() | directories) if metadata_version >= 30 else None,
        is_migrating_zk_broker=metadata_version >= 8 and draw(st.booleans()),
    )


@st.composite
def topics(draw: Drawer, metadata_version: int) -> dict[bytes, Topic]:
    found: dict[bytes, Topic] = {}
    for name in draw(st.lists(texts, max_size=3, unique=True)):
        topic_id = draw(uuids.filter(lambda uuid: uuid not in found))
        rows = draw(st.lists(partitions(metadata_version), max_size=3))
        found[topic_id] = Topic(name, topic_id, dict(enumerate(rows)))
    return found


@st.composite
def any_image(draw: Drawer) -> Image:
    version = draw(st.integers(7, 30))
    by_id = draw(topics(version))
    entities = st.dictionaries(st.sampled_from(["user", "client-id", "ip"]), st.none() | texts, min_size=1)
    controllers = st.builds(images.ControllerNode, small, uuids, endpoints, features, st.booleans())
    credentials = st.builds(images.ScramCredential, st.binary(), st.binary(), st.binary(), st.integers(1, 9999))
    acls = st.builds(images.Acl, small, texts, small, texts, texts, small, small)
    token_fields = (texts, texts, st.lists(texts, max_size=2).map(tuple), int64s, int64s, int64s)
    return Image(
        features={"metadata.version": version, **draw(st.dictionaries(st.just("group.version"), st.just(1)))},
        brokers={each.broker_id: each for each in draw(st.lists(brokers(version), max_size=3))},
        controllers={each.controller_id: each for each in draw(st.lists(controllers, max_size=2))},
        topics=by_id,
        topic_ids={topic.name: topic_id for topic_id, topic in by_id.items()},
        configs=draw(
            st.dictionaries(
                st.builds(ConfigResource, st.sampled_from([2, 4, 16, 32]), texts),
                st.dictionaries(texts, texts, min_size=1, max_size=3),
                max_size=3,
            )
        ),
        client_quotas=draw(
            st.dictionaries(
                entities.map(lambda entity: tuple(sorted(entity.items(), key=lambda item: item[0]))),
                st.dictionaries(texts, st.floats(0, 1e9), min_size=1, max_size=3),
                max_size=3,
            )
        ),
        next_producer_id=draw(int64s),
        scram_credentials=draw(st.dictionaries(st.tuples(texts, st.integers(1, 2)), credentials, max_size=2)),
        acls=draw(st.dictionaries(uuids, acls, max_size=2)),
        delegation_tokens=draw(st.dictionaries(texts, st.builds(images.DelegationToken, *token_fields), max_size=2)),
    )


@settings(max_examples=150, deadline=None)
@given(image=any_image())
def test_a_snapshot_read_back_from_its_bytes_is_the_image(image: Image) -> None:
    version = image.metadata_version
    values = [encode_record(record, record_version(record, version)) for record in image_records(image)]
    assert EMPTY_IMAGE.apply(map(decode_record, values)) == image


def test_the_empty_image_has_an_empty_snapshot() -> None:
    assert image_records(EMPTY_IMAGE) == []


def test_metadata_version_comes_first_since_it_says_how_to_read_the_rest() -> None:
    image = EMPTY_IMAGE.apply(
        [
            FeatureLevelRecord("group.version", 1),
            TopicRecord("orders", bytes(16)),
            RegisterBrokerRecord(broker_id=1),
            FeatureLevelRecord("metadata.version", 30),
        ]
    )
    records = image_records(image)
    assert records[0] == FeatureLevelRecord("metadata.version", 30)
    assert [type(record).__name__ for record in records[1:]] == [
        "FeatureLevelRecord",
        "RegisterBrokerRecord",
        "TopicRecord",
    ]


def _replay_file(path: Path, replay: Replay, *, below: int | None = None) -> int:
    """Replay the metadata records of a log or snapshot file of Kafka, and say how many there were."""
    count = 0
    data = path.read_bytes()
    for position, header in iter_batches(data):
        if header.is_control or (below is not None and header.base_offset >= below):
            continue
        records = [decode_record(record.value or b"") for record in read_records(data, position)]
        replay.apply(records, base_offset=header.base_offset)
        count += len(records)
    return count


@pytest.mark.kafka
def test_kafkas_log_and_kafkas_snapshots_of_it_give_the_same_image(kafka_run: KafkaRun) -> None:
    directory = kafka_run.clean / "__cluster_metadata-0"
    snapshots = sorted(directory.glob("*.checkpoint"))
    compared = 0
    for path in snapshots:
        end_offset = int(path.name[:20])
        from_snapshot, from_log = Replay(), Replay()
        if end_offset == 0:
            continue  # written before the first start: what the log then begins with
        _replay_file(path, from_snapshot)
        assert _replay_file(directory / "00000000000000000000.log", from_log, below=end_offset) > 10
        assert _in_any_order(from_snapshot.image) == _in_any_order(from_log.image)
        compared += 1
    assert compared > 0


def _in_any_order(image: Image) -> Image:
    """Kafka's snapshots sort directories, and list features and listeners in the order of a hash table."""
    return image._replace(
        brokers={
            broker_id: broker._replace(
                features=tuple(sorted(broker.features)), listeners=tuple(sorted(broker.listeners))
            )
            for broker_id, broker in image.brokers.items()
        },
        controllers={
            controller_id: controller._replace(features=tuple(sorted(controller.features)))
            for controller_id, controller in image.controllers.items()
        },
    )


@pytest.mark.kafka
def test_kafkas_dump_tool_decodes_our_snapshot_of_kafkas_cluster(
    kafka_run: KafkaRun, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    replay = Replay()
    _replay_file(kafka_run.clean / "__cluster_metadata-0" / "00000000000000000000.log", replay)
    records = image_records(replay.image)
    version = replay.image.metadata_version
    values = [NewRecord(0, None, encode_record(record, record_version(record, version))) for record in records]
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(build_batch(values))
    dump = kafka_tools.dump_log([segment], "--cluster-metadata-decoder")
    assert complaints(dump) == []
    assert dump.count("payload: {") == len(records)
    assert '"type":"REGISTER_BROKER_RECORD","version":4' in dump
