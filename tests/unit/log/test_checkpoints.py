"""The small text files: Kafka's exact content; what Kafka wrote is read; what is malformed is refused with its line."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from headrace.log.checkpoints import (
    NO_BROKER_EPOCH,
    TopicPartition,
    format_offsets,
    format_partition_metadata,
    parse_offsets,
    parse_partition_metadata,
    read_clean_shutdown,
    read_offsets,
    read_topic_id,
    write_clean_shutdown,
    write_topic_id,
)
from headrace.log.directory_chores import CheckpointFiles
from headrace.log.errors import CorruptCheckpointError
from headrace.log.fs import RealFileSystem
from headrace.log.memory_fs import Fault
from headrace.log.meta_properties import (
    MetaProperties,
    format_meta_properties,
    parse_meta_properties,
    read_meta_properties,
    write_meta_properties,
)
from headrace.protocol.types import uuid_from_text
from tests.support.segments import memory_fs

FS = RealFileSystem()
TOPIC_ID = uuid_from_text("cVc1N2pRSOGGnQR2nJQ3bw")


def test_an_offset_checkpoint_has_kafkas_text() -> None:
    offsets = {TopicPartition("orders", 0): 17, TopicPartition("a.b-c", 12): 0}
    assert format_offsets(offsets) == "0\n2\norders 0 17\na.b-c 12 0\n"
    assert parse_offsets(format_offsets(offsets), path="p") == offsets
    assert format_offsets({}) == "0\n0\n"


def test_an_empty_offset_checkpoint_is_an_empty_table() -> None:
    assert parse_offsets("", path="p") == {}
    assert parse_offsets("0\n0\n", path="p") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1\n0\n", "line 1: version 1, only 0 is known"),
        ("zero\n0\n", "line 1: 'zero' is not a number"),
        ("0", "line 2: the number of lines is missing"),
        ("0\n2\norders 0 17\n", "line 2: 2 lines announced, there are 1"),
        ("0\n0\norders 0 17\n", "line 2: 0 lines announced, there are 1"),
        ("0\n1\norders 17\n", "line 3: 'orders 17', expected topic, partition and offset"),
        ("0\n2\norders 0 1\norders x 17\n", "line 4: 'x' is not a number"),
        ("0\n1\norders 0 17k\n", "line 3: '17k' is not a number"),
    ],
)
def test_a_malformed_offset_checkpoint_is_refused_with_file_and_line(text: str, reason: str) -> None:
    with pytest.raises(CorruptCheckpointError, match="^data/recovery-point-offset-checkpoint, " + reason + "$"):
        parse_offsets(text, path="data/recovery-point-offset-checkpoint")


def test_offsets_survive_the_disk(tmp_path: Path) -> None:
    path = f"{tmp_path}/recovery-point-offset-checkpoint"
    assert read_offsets(FS, path) == {}
    files = CheckpointFiles(FS)
    files.plan({path: {TopicPartition("t", 1): 5}}).run()
    files.plan({path: {TopicPartition("t", 1): 6}}).run()
    assert read_offsets(FS, path) == {TopicPartition("t", 1): 6}
    files.plan({path: {TopicPartition("t", 1): 7}}).run_without_sync()
    assert read_offsets(FS, path) == {TopicPartition("t", 1): 7}
    assert [entry.name for entry in tmp_path.iterdir()] == ["recovery-point-offset-checkpoint"]


def test_a_checkpoint_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(b"0\n1\n\xff 0 1\n")
    with pytest.raises(CorruptCheckpointError, match="c: not UTF-8 at byte 4"):
        read_offsets(FS, f"{tmp_path}/c")


def test_partition_metadata_has_kafkas_text_without_a_newline_at_its_end() -> None:
    assert format_partition_metadata(TOPIC_ID) == "version: 0\ntopic_id: cVc1N2pRSOGGnQR2nJQ3bw"
    assert parse_partition_metadata("version: 0\ntopic_id: cVc1N2pRSOGGnQR2nJQ3bw\n", path="p") == TOPIC_ID


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "line 1: expected 'version: ...'"),
        ("version: 1\ntopic_id: cVc1N2pRSOGGnQR2nJQ3bw", "line 1: version 1, only 0 is known"),
        ("version: 0", "line 2: expected 'topic_id: ...'"),
        ("version: 0\ntopic_id: ", "line 2: expected 'topic_id: ...'"),
        ("version: 0\ntopic_id: xyz", "line 2: 'xyz' is not a topic id"),
        ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "line 2: the topic id is zero"),
    ],
)
def test_malformed_partition_metadata_is_refused_with_file_and_line(text: str, reason: str) -> None:
    with pytest.raises(CorruptCheckpointError, match="^t-0/partition.metadata, " + reason + "$"):
        parse_partition_metadata(text, path="t-0/partition.metadata")


def test_a_topic_id_survives_the_disk(tmp_path: Path) -> None:
    write_topic_id(FS, f"{tmp_path}/partition.metadata", TOPIC_ID)
    assert read_topic_id(FS, f"{tmp_path}/partition.metadata") == TOPIC_ID


@pytest.mark.parametrize("content", ["", "version: 0\ntopic_id: cVc1N2pRSO", "\0" * 43, "version: 0\n" + "\0" * 32])
def test_a_topic_id_that_a_power_cut_has_cut_short_was_never_saved(tmp_path: Path, content: str) -> None:
    (tmp_path / "partition.metadata").write_text(content)
    assert read_topic_id(FS, f"{tmp_path}/partition.metadata") is None


def test_an_older_checkpoint_never_takes_the_place_of_a_newer_one(tmp_path: Path) -> None:
    path = f"{tmp_path}/recovery-point-offset-checkpoint"
    files = CheckpointFiles(FS)
    older = files.plan({path: {TopicPartition("deleted", 0): 500}})
    newer = files.plan({path: {TopicPartition("t", 1): 7}})
    newer.run_without_sync()
    older.run()
    assert read_offsets(FS, path) == {TopicPartition("t", 1): 7}
    files.plan({path: {TopicPartition("t", 1): 8}}).run()
    newer.run()
    assert read_offsets(FS, path) == {TopicPartition("t", 1): 8}
    assert [entry.name for entry in tmp_path.iterdir()] == ["recovery-point-offset-checkpoint"]


def test_checkpoints_that_have_not_changed_are_not_written_again() -> None:
    fs = memory_fs("data")
    files = CheckpointFiles(fs)
    offsets = {TopicPartition("t", 1): 5}

    def steps(work: Callable[[], None]) -> int:
        before = fs.steps
        work()
        return fs.steps - before

    assert steps(files.plan({"data/c": offsets}).run) > 0
    assert steps(files.plan({"data/c": offsets}).run) == 0
    assert steps(files.plan({"data/c": offsets, "data/d": {}}).run) > 0
    # What was not synced is not known to be there, the same content included.
    files.plan({"data/c": offsets}).run_without_sync()
    assert steps(files.plan({"data/c": offsets}).run) > 0
    assert read_offsets(fs.crash(Random(1)), "data/c") == offsets


def test_a_checkpoint_that_could_not_be_saved_is_saved_the_next_time() -> None:
    fs = memory_fs("data")
    files = CheckpointFiles(fs)
    fs.faults.append(Fault("sync_dir"))
    with pytest.raises(OSError, match="data"):
        files.plan({"data/c": {TopicPartition("t", 1): 5}}).run()
    files.plan({"data/c": {TopicPartition("t", 1): 5}}).run()
    for seed in range(5):
        assert read_offsets(fs.crash(Random(seed)), "data/c") == {TopicPartition("t", 1): 5}


def test_the_clean_shutdown_file_has_kafkas_text(tmp_path: Path) -> None:
    path = f"{tmp_path}/.kafka_cleanshutdown"
    assert read_clean_shutdown(FS, path) is None
    write_clean_shutdown(FS, path, broker_epoch=42)
    assert Path(path).read_text() == '{"version":0,"brokerEpoch":42}'
    assert read_clean_shutdown(FS, path) == 42


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"version":0,"brokerEpoch":null}', "not json", '"x"'])
def test_a_clean_shutdown_file_without_an_epoch_still_says_clean(tmp_path: Path, content: str) -> None:
    (tmp_path / "f").write_text(content)
    assert read_clean_shutdown(FS, f"{tmp_path}/f") == NO_BROKER_EPOCH


def test_meta_properties_as_kafka_writes_them_are_read() -> None:
    written = (
        "#\n#Mon Sep 01 10:20:30 UTC 2025\ncluster.id=9oXkPq1mT3y\ndirectory.id=cVc1N2pRSOGGnQR2nJQ3bw\nnode.id=1\n"
        "version=1\n"
    )
    assert parse_meta_properties(written.encode()) == MetaProperties("9oXkPq1mT3y", 1, TOPIC_ID)


def test_meta_properties_are_written_as_java_properties(tmp_path: Path) -> None:
    meta = MetaProperties("9oXk", 3, TOPIC_ID)
    path = f"{tmp_path}/meta.properties"
    write_meta_properties(FS, path, meta)
    assert Path(path).read_text() == "version=1\ncluster.id=9oXk\nnode.id=3\ndirectory.id=cVc1N2pRSOGGnQR2nJQ3bw\n"
    assert read_meta_properties(FS, path) == meta


def test_version_0_calls_the_node_a_broker_and_may_lack_everything() -> None:
    assert parse_meta_properties(b"broker.id=5\n") == MetaProperties(None, 5, None, 0)
    assert parse_meta_properties(b"") == MetaProperties(None, None, None, 0)
    assert format_meta_properties(MetaProperties("c", 5, None, 0)) == b"version=0\ncluster.id=c\nbroker.id=5\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version=2\n", "version=2, only 0 and 1 are known"),
        ("version=one\n", "version=one is not a number"),
        ("version=1\ncluster.id=c\n", "node.id is missing"),
        ("version=1\nnode.id=1\n", "cluster.id is missing"),
        ("version=1\nnode.id=\ncluster.id=c\n", "node.id= is not a number"),
        ("version=1\nnode.id=1\ncluster.id=c\ndirectory.id=?\n", "directory.id=. is not a uuid"),
    ],
)
def test_malformed_meta_properties_are_refused(text: str, reason: str) -> None:
    with pytest.raises(CorruptCheckpointError, match="^data/meta.properties: " + reason + "$"):
        parse_meta_properties(text.encode(), path="data/meta.properties")


def test_meta_properties_that_java_could_not_read_are_refused_with_their_line() -> None:
    with pytest.raises(CorruptCheckpointError, match=r"^data/meta\.properties, line 2: "):
        parse_meta_properties(b"version=1\ncluster.id=\\u12\n", path="data/meta.properties")
