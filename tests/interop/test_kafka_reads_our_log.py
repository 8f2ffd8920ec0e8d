"""Kafka's own dump tool reads every kind of file that our log writes, and finds nothing to complain about."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from headrace.log.config import LogConfig
from headrace.log.inspect import read_file
from headrace.log.inspect.rows import AbortedRow, OffsetEntryRow, ProducerRow, TimeEntryRow
from headrace.log.log import Log
from headrace.protocol.compression import Codec
from headrace.protocol.records import Record
from tests.support.kafka_tools import KafkaToolError, KafkaTools, complaints, sections
from tests.support.log_batches import NOW_MS, append
from tests.support.our_logs import FS, write_compressed, write_plain, write_transactions

pytestmark = pytest.mark.kafka

DATA_FLAGS: Final = ("--deep-iteration", "--print-data-log")
SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_RECORD: Final = re.compile(
    r"^\| offset: (\d+) CreateTime: (-?\d+) keySize: (-?\d+) valueSize: (-?\d+) sequence: (-?\d+) "
    r"headerKeys: \[(.*?)\](?: key: (.*?))?(?: payload: (.*))?$"
)


_OFFSET_ENTRY: Final = re.compile(r"^offset: (\d+) position: (\d+)$", re.MULTILINE)
_TIME_ENTRY: Final = re.compile(r"^timestamp: (\d+) offset: (\d+)$", re.MULTILINE)
_ABORTED: Final = re.compile(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)")
_PRODUCER: Final = re.compile(
    r"^producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+) currentTxnFirstOffset: (\S+) "
    r"lastTimestamp: (\d+)"
    r"(?: firstSequence: -?\d+ lastSequence: (-?\d+) lastOffset: (\d+) offsetDelta: (\d+) timestamp: -?\d+)?$",
    re.MULTILINE,
)


def files_of(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("0*") if path.suffix in SUFFIXES)


@dataclass(frozen=True)
class Judged:
    """What we wrote, and what Kafka's tool prints about each of its files."""

    directory: Path
    written: dict[str, list[Record]]
    dump: str

    def sections(self, name: str, suffix: str) -> dict[Path, str]:
        """The part of the dump about each file of one kind, by file."""
        found = sections(self.dump).items()
        return {path: text for path, text in found if path.parent.name == f"{name}-0" and path.suffix == suffix}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory, kafka_tools: KafkaTools) -> Judged:
    directory = tmp_path_factory.mktemp("ours")
    written = {"plain": write_plain(directory / "plain-0"), "ledger": write_transactions(directory / "ledger-0")}
    for codec in Codec:
        if codec is not Codec.NONE:
            name = codec.name.lower()
            written[name] = write_compressed(directory / f"{name}-0", codec)
    return Judged(directory, written, kafka_tools.dump_log(files_of(directory), *DATA_FLAGS))


def test_every_kind_of_file_was_written_and_none_is_complained_about(judged: Judged) -> None:
    assert {path.suffix for path in files_of(judged.directory)} == set(SUFFIXES)
    assert complaints(judged.dump) == []
    assert judged.dump.count("isvalid: true") > 300


@pytest.mark.parametrize("name", ["plain", "ledger", "gzip", "snappy", "lz4", "zstd"])
def test_kafka_prints_every_record_as_it_was_acknowledged(judged: Judged, name: str) -> None:
    printed = []
    for _, text in sorted(judged.sections(name, ".log").items()):
        assert name in ("plain", "ledger") or f"compresscodec: {name}" in text
        for line in text.splitlines():
            found = _RECORD.match(line)
            if found and "endTxnMarker" not in line:
                offset, timestamp, key_size, value_size, _, headers, key, value = found.groups()
                printed.append((int(offset), int(timestamp), int(key_size), int(value_size), headers, key, value))
    assert printed == [
        (
            record.offset,
            record.timestamp,
            -1 if record.key is None else len(record.key),
            -1 if record.value is None else len(record.value),
            ",".join(name for name, _ in record.headers),
            None if record.key is None else record.key.decode(),
            None if record.value is None else record.value.decode(),
        )
        for record in judged.written[name]
    ]


@pytest.mark.parametrize("name", ["plain", "ledger", "gzip", "snappy", "lz4", "zstd"])
def test_kafka_reads_the_index_entries_that_we_read(judged: Judged, name: str) -> None:
    offsets = judged.sections(name, ".index")
    times = judged.sections(name, ".timeindex")
    assert len(offsets) == len(times) > 1, "several segments are needed"
    for path, text in offsets.items():
        entries = [OffsetEntryRow(int(offset), int(position)) for offset, position in _OFFSET_ENTRY.findall(text)]
        assert entries == list(read_file(FS, str(path)))
    for path, text in times.items():
        found = [TimeEntryRow(int(timestamp), int(offset)) for timestamp, offset in _TIME_ENTRY.findall(text)]
        assert found == list(read_file(FS, str(path)))
    assert any("position" in text for text in offsets.values()), "no index has an entry"


def test_kafka_reads_the_aborted_transactions(judged: Judged) -> None:
    printed = []
    for path, text in judged.sections("ledger", ".txnindex").items():
        rows = [AbortedRow(*map(int, numbers)) for numbers in _ABORTED.findall(text)]
        assert rows == list(read_file(FS, str(path)))
        printed += rows
    # Of twelve rounds, every odd one aborts the first producer, and two of three abort the second.
    assert len(printed) == 6 + 8


def test_kafka_reads_the_producers_of_each_snapshot(judged: Judged) -> None:
    for name in ("plain", "ledger"):
        snapshots = judged.sections(name, ".snapshot")
        assert len(snapshots) > 1
        for path, text in snapshots.items():
            printed = _PRODUCER.findall(text)
            rows = [row for row in read_file(FS, str(path)) if isinstance(row, ProducerRow)]
            assert printed == [_as_printed(row) for row in rows]
    assert "currentTxnFirstOffset: OptionalLong[" in "".join(judged.sections("ledger", ".snapshot").values())


def test_kafka_believes_the_last_batch_of_each_producer(tmp_path: Path, kafka_tools: KafkaTools) -> None:
    """Our snapshots have an entry for each of the last five."""
    log = Log.open(FS, str(tmp_path / "t-0"), LogConfig(), clean=False, now_ms=NOW_MS)
    for number in range(3):
        append(log, b"a", b"b", producer=7, sequence=2 * number, transactional=True)
        append(log, b"c", producer=9, sequence=number)
    log.close()
    (snapshot,) = (tmp_path / "t-0").glob("*.snapshot")
    assert len(list(read_file(FS, str(snapshot)))) == 6
    printed = kafka_tools.run("Producers.java", str(tmp_path / "t-0"), str(log.log_end_offset), str(NOW_MS))
    known = re.findall(
        r"producerId=(\d+),.*currentTxnFirstOffset=OptionalLong(\S+),.*"
        r"batchMetadata=\[BatchMetadata\(firstSeq=(\d+), lastSeq=(\d+), firstOffset=(\d+), lastOffset=(\d+),",
        printed,
    )
    assert sorted(known) == [("7", "[0]", "4", "5", "6", "7"), ("9", ".empty", "2", "2", "8", "8")], printed


def _as_printed(row: ProducerRow) -> tuple[str, ...]:
    transaction = row.transaction_first_offset
    open_since = "OptionalLong.empty" if transaction == -1 else f"OptionalLong[{transaction}]"
    head = (str(row.producer_id), str(row.producer_epoch), str(row.coordinator_epoch), open_since, str(row.timestamp))
    if row.last_offset == -1:
        return (*head, "", "", "")
    return (*head, str(row.last_sequence), str(row.last_offset), str(row.offset_delta))


def test_the_indexes_pass_the_check_that_a_broker_makes_on_start(judged: Judged, kafka_tools: KafkaTools) -> None:
    indexes = [path for path in files_of(judged.directory) if path.suffix in (".index", ".timeindex")]
    sane = kafka_tools.dump_log(indexes, "--index-sanity-check")
    assert complaints(sane) == []
    assert sane.count("passed sanity check") + sane.count(".index is empty.") == len(indexes)
    assert complaints(kafka_tools.dump_log(indexes, "--verify-index-only")) == []


def test_the_judge_sees_a_fault_of_every_kind(tmp_path: Path, kafka_tools: KafkaTools) -> None:
    """Without this nobody would know that silence means something."""
    directory = tmp_path / "plain-0"
    write_plain(directory)
    second = sorted(directory.glob("*.log"))[1].stem

    def change(suffix: str, position: int) -> Path:
        path = directory / f"{second}{suffix}"
        data = bytearray(path.read_bytes())
        data[position] ^= 1
        path.write_bytes(data)
        return path

    files = [change(".index", 3), change(".timeindex", 7), change(".snapshot", -1)]
    faults = "\n".join(complaints(kafka_tools.dump_log(files, *DATA_FLAGS)))
    assert "Mismatches in" in faults
    assert "Found timestamp mismatch" in faults
    assert "Snapshot is corrupt" in faults

    segment = change(".log", 100)
    with segment.open("ab") as file:
        file.write(b"\0" * 10)  # less than offset and length: where a batch was torn off
    faults = "\n".join(complaints(kafka_tools.dump_log([segment])))
    assert "isvalid: false" in faults
    assert "Found 10 invalid bytes" in faults
    with pytest.raises(KafkaToolError):  # an entry that points to no batch makes the tool itself fall over
        kafka_tools.dump_log([change(".index", 6)])
