"""`headrace log dump` on real files: what people see, what programs get, and the exit codes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headrace.cli import main
from headrace.log.aborted import AbortedTxn
from headrace.log.snapshots import SnapshotEntry, pack_snapshot
from headrace.protocol.compression import Codec
from headrace.protocol.internal_records import encode_metadata_record
from headrace.protocol.messages.metadata_records import TopicRecord
from headrace.protocol.records import NewRecord, build_batch, build_end_transaction_marker
from headrace.protocol.types import uuid_to_text

TOPIC_ID = bytes(range(1, 17))
TIME = 1_700_000_000_000


def dump(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["log", "dump", *map(str, arguments)])


def json_rows(*arguments: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in dump("--json", *arguments).stdout.splitlines()]


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A log directory with one partition: a transaction of two records, aborted, and all the files beside it."""
    directory = tmp_path / "data" / "orders-0"
    directory.mkdir(parents=True)
    records = [
        NewRecord(TIME, b"alice", b'{"amount":1}', (("trace", b"a-1"), ("none", None))),
        NewRecord(TIME + 5, None, b"\x00\xff"),
    ]
    data = build_batch(
        records, codec=Codec.LZ4, producer_id=9, producer_epoch=1, base_sequence=4, transactional=True, leader_epoch=2
    )
    marker = build_end_transaction_marker(
        commit=False,
        coordinator_epoch=3,
        producer_id=9,
        producer_epoch=1,
        timestamp=TIME + 9,
        base_offset=2,
        leader_epoch=2,
    )
    (directory / "00000000000000000000.log").write_bytes(data + marker)
    (directory / "00000000000000000000.index").write_bytes((2).to_bytes(4) + len(data).to_bytes(4))
    (directory / "00000000000000000000.timeindex").write_bytes((TIME + 9).to_bytes(8) + (2).to_bytes(4))
    (directory / "00000000000000000000.txnindex").write_bytes(AbortedTxn(9, 0, 2, 3).pack())
    (directory / "00000000000000000003.snapshot").write_bytes(
        pack_snapshot([SnapshotEntry(9, 1, 5, 1, 1, TIME + 9, 3, -1)])
    )
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n2 0\n")
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_to_text(TOPIC_ID)}")
    (directory.parent / "meta.properties").write_text("version=1\nnode.id=1\n")
    (directory.parent / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    return directory


def test_a_segment_shows_batches_and_their_records(partition: Path) -> None:
    result = dump(partition / "00000000000000000000.log")
    assert result.exit_code == 0
    heading, header, first_batch, alice, binary, second_batch, marker = result.stdout.splitlines()
    assert heading.endswith("00000000000000000000.log  203 B")
    assert header.split() == ["offset", "time", "key", "value", "headers"]
    assert first_batch == (
        "batch 0-1, 2 records, 125 B at byte 0, leader epoch 2, producer 9 epoch 1, sequence 4-5, lz4, "
        "transactional, CRC ok"
    )
    assert alice.split() == ["0", "2023-11-14T22:13:20.000Z", "alice", '{"amount":1}', "trace=a-1", "none=<null>"]
    assert binary.split() == ["1", "2023-11-14T22:13:20.005Z", "<null>", "0x00ff"]
    assert second_batch.startswith("batch 2, 1 record, 78 B at byte 125")
    assert marker.split() == ["2", "2023-11-14T22:13:20.009Z", "ABORT", "coordinator_epoch=3"]


def test_without_records_a_segment_is_a_table_of_batches(partition: Path) -> None:
    result = dump("--no-records", partition / "00000000000000000000.log")
    _, header, first, second = result.stdout.splitlines()
    assert " ".join(header.split()) == "offsets records position bytes epoch producer sequence time flags CRC"
    assert first.split()[:5] == ["0-1", "2", "0", "125", "2"]
    assert first.split()[-3:] == ["lz4", "transactional", "ok"]
    assert "transactional control" in second


def test_json_has_one_object_per_row_and_whole_values(partition: Path) -> None:
    rows = json_rows(partition / "00000000000000000000.log")
    assert [row["kind"] for row in rows] == ["batch", "record", "record", "batch", "record"]
    assert rows[0]["codec"] == "lz4"
    assert rows[0]["crc_ok"] is True
    assert rows[1] == {
        "kind": "record",
        "file": str(partition / "00000000000000000000.log"),
        "offset": 0,
        "timestamp": TIME,
        "key": "alice",
        "value": '{"amount":1}',
        "headers": [["trace", "a-1"], ["none", None]],
    }
    assert rows[2]["value"] == {"hex": "00ff"}
    assert (rows[4]["type"], rows[4]["value"]) == ("ABORT", {"coordinator_epoch": 3})


def test_a_partition_directory_shows_each_of_its_files(partition: Path) -> None:
    result = dump(partition)
    assert result.exit_code == 0
    headings = [line for line in result.stdout.splitlines() if line.startswith(str(partition))]
    names = [heading.removeprefix(f"{partition}/").split()[0] for heading in headings]
    assert names == [
        "00000000000000000000.log",
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000000.txnindex",
        "00000000000000000003.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    kinds = {row["kind"] for row in json_rows(partition)}
    assert kinds == {
        "batch",
        "record",
        "offset_entry",
        "time_entry",
        "aborted_transaction",
        "producer",
        "leader_epoch",
        "property",
    }


def test_a_log_directory_shows_its_partitions(partition: Path) -> None:
    result = dump(partition.parent)
    assert result.exit_code == 0
    last = result.stdout.splitlines()[-1]
    assert last.split() == ["orders-0", "1", "203", "B", "0", "3", "-", "3", "2", uuid_to_text(TOPIC_ID)]
    rows = json_rows(partition.parent)
    assert [row["kind"] for row in rows] == ["property", "property", "partition"]
    assert (rows[2]["log_end_offset"], rows[2]["recovery_point"], rows[2]["high_watermark"]) == (3, 3, None)


def test_metadata_records_are_shown_with_their_names(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    value = encode_metadata_record(2, TopicRecord(name="orders", topic_id=TOPIC_ID), 0)
    (directory / "00000000000000000000.log").write_bytes(build_batch([NewRecord(TIME, None, value)]))
    shown = dump(directory).stdout
    assert f"TopicRecord v0  name=orders topic_id={uuid_to_text(TOPIC_ID)}" in shown
    (row,) = [row for row in json_rows(directory) if row["kind"] == "record"]
    assert (row["type"], row["version"], row["key"]) == ("TopicRecord", 0, None)
    assert row["value"] == {"name": "orders", "topic_id": uuid_to_text(TOPIC_ID)}
    (row,) = [row for row in json_rows(directory, "--decode", "none") if row["kind"] == "record"]
    assert "type" not in row
    assert row["value"].encode() == value


def test_a_record_that_cannot_be_decoded_is_shown_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch([NewRecord(TIME, None, b"\1\x63\0")]))
    result = dump(path, "--decode", "metadata")
    assert result.exit_code == 0
    assert "record type 99 is not known" in result.stdout
    record = json_rows(path, "--decode", "metadata")[1]
    assert "record type 99 is not known" in record["decode_error"]
    assert record["value"] == "\1c\0"


def test_the_limit_counts_records_or_batches_or_entries(partition: Path) -> None:
    path = partition / "00000000000000000000.log"
    assert [row["kind"] for row in json_rows(path, "--limit", 2)] == ["batch", "record", "record"]
    assert [row["kind"] for row in json_rows(path, "--limit", 1, "--no-records")] == ["batch"]
    assert "more rows follow: --limit 1" in dump(path, "--limit", 1).stdout
    assert "more rows" not in dump(path, "--limit", 3).stdout
    assert json_rows(path, "--limit", 0) == []


def test_a_damaged_file_is_shown_up_to_the_fault(partition: Path) -> None:
    path = partition / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 0xFF
    path.write_bytes(data)
    result = dump(path)
    assert result.exit_code == 1
    assert "alice" in result.stdout
    assert "CRC WRONG" in result.stdout
    assert f"{path} is damaged at byte 125: the batch has CRC" in result.stdout
    assert "1 file is damaged" in result.stderr
    *_, fault = json_rows(path)
    assert (fault["kind"], fault["file"], fault["position"]) == ("fault", str(path), 125)
    assert dump("--json", path).exit_code == 1


def test_the_other_files_of_a_partition_are_shown_after_a_fault(partition: Path) -> None:
    (partition / "00000000000000000000.log").write_bytes(b"torn")
    (partition / "leader-epoch-checkpoint").write_text("0\n3\n2 0\n")
    result = dump(partition)
    assert result.exit_code == 1
    # The offset index points into a segment that has nothing there any more, so three files are damaged.
    assert "3 files are damaged" in result.stderr
    assert uuid_to_text(TOPIC_ID) in result.stdout
    faults = [row for row in json_rows(partition) if row["kind"] == "fault"]
    assert [fault["position"] for fault in faults] == [0, 0, None]


@pytest.mark.parametrize(
    "name",
    ["leader-epoch-checkpoint", "partition.metadata", "../meta.properties", "../recovery-point-offset-checkpoint"],
)
def test_a_file_that_has_not_its_final_name_yet_is_read_as_what_it_will_be(partition: Path, name: str) -> None:
    whole = partition / name
    temporary = whole.with_name(whole.name + ".tmp")
    temporary.write_bytes(whole.read_bytes())
    result = dump("--json", temporary)
    assert result.exit_code == 0, result.output
    assert [row | {"file": ""} for row in json_rows(temporary)] == [row | {"file": ""} for row in json_rows(whole)]
    assert dump(partition).exit_code == 0


def test_a_file_that_a_broker_has_removed_meanwhile_is_passed_over(partition: Path) -> None:
    """A name without a file stands for one that was there when the directory was listed."""
    (partition / "leader-epoch-checkpoint.tmp").symlink_to(partition / "gone")
    assert dump(partition).exit_code == 0


def test_a_file_that_cannot_be_read_is_told(partition: Path) -> None:
    (partition / "00000000000000000003.log").mkdir()
    for path in (partition, partition.parent):
        result = dump(path)
        assert isinstance(result.exception, SystemExit), result.exception
        assert "cannot be read: Is a directory." in result.output.replace("\n", " ")


def test_a_pipe_that_nobody_reads_is_no_fault_of_the_file(tmp_path: Path) -> None:
    segment = tmp_path / f"{0:020d}.log"
    segment.write_bytes(build_batch([NewRecord(TIME, None, b"x" * 100)] * 5000))
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace", "log", "dump", "--json", segment],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(7) == b'{"kind"'
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as errors:
        assert errors.read() == b""
    assert process.wait(60) == 1


@pytest.mark.parametrize("form", ["--json", "--records"])
def test_a_full_disk_is_told_as_such(partition: Path, form: str) -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "headrace", "log", "dump", form, str(partition)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr.decode().splitlines()[0]) == (
        2,
        "headrace: Cannot write: No space left on device.",
    )


def test_a_missing_path_is_told_with_a_hint(tmp_path: Path) -> None:
    result = dump(tmp_path / "nowhere")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"headrace: {tmp_path}/nowhere does not exist.\n  Give ")


def test_a_path_that_is_no_log_is_told_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    result = dump(tmp_path / "notes.txt")
    assert result.exit_code == 2
    assert "is no file of a log" in result.stderr
    result = dump(tmp_path)
    assert result.exit_code == 2
    assert "holds no log" in result.stderr


def test_preallocated_space_is_no_entry(partition: Path) -> None:
    index = partition / "00000000000000000000.index"
    index.write_bytes(index.read_bytes() + bytes(800))
    result = dump(index)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "800 B of zero bytes from byte 8 on: pre-allocated"
