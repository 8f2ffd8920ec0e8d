"""`headrace log dump` shows every file of a real data directory, and finds it sound."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headrace.cli import main
from tests.support.kafka_run import KafkaRun

pytestmark = pytest.mark.kafka


def rows_of(path: Path) -> list[dict[str, Any]]:
    result = CliRunner().invoke(main, ["log", "dump", "--json", str(path)])
    assert result.exit_code == 0, result.output[-2000:]
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_stopped_kafkas_files_are_shown_without_a_fault(kafka_run: KafkaRun) -> None:
    kinds: Counter[str] = Counter()
    for directory in sorted(kafka_run.clean.glob("*-*/")):
        for row in rows_of(directory):
            kinds[row["kind"]] += 1
            assert "decode_error" not in row, row
    assert set(kinds) >= {
        "batch",
        "record",
        "offset_entry",
        "time_entry",
        "aborted_transaction",
        "producer",
        "leader_epoch",
        "property",
    }
    for file in kafka_run.clean.glob("*-checkpoint"):
        rows_of(file)
    assert rows_of(kafka_run.clean / "bootstrap.checkpoint")


def test_a_killed_kafkas_indexes_are_preallocated_and_no_fault(kafka_run: KafkaRun) -> None:
    rows = rows_of(kafka_run.killed / "sized-0")
    preallocated = [row for row in rows if row["kind"] == "preallocated"]
    assert len(preallocated) == 2, "offset and time index of the active segment"


def test_a_log_directory_is_summed_up_as_kafka_knows_it(kafka_run: KafkaRun) -> None:
    rows = {row["directory"]: row for row in rows_of(kafka_run.clean) if row["kind"] == "partition"}
    for topic, partition in kafka_run.before_stop.partitions():
        said = kafka_run.before_stop.offsets(topic, partition)
        row = rows[f"{topic}-{partition}"]
        assert row["log_end_offset"] == row["high_watermark"] == row["recovery_point"] == said["high_watermark"]
        assert row["log_start_offset"] == said["log_start_offset"]


def test_group_members_are_shown_with_what_they_told_one_another(kafka_run: KafkaRun) -> None:
    rows = [row for directory in kafka_run.clean.glob("__consumer_offsets-*/") for row in rows_of(directory)]
    members = [
        member
        for row in rows
        if row["kind"] == "record" and row.get("type") == "GroupMetadata" and row["value"]
        for member in row["value"]["members"]
    ]
    assert members
    for member in members:
        assert member["subscription"]["topics"] == ["plain"]
        assert {row["topic"] for row in member["assignment"]["assigned_partitions"]} == {"plain"}
