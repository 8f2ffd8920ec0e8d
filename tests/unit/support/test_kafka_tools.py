"""The judge's own tools: they say what is missing, and they hear every complaint."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import kafka_tools
from tests.support.kafka_tools import complaints, gaps, missing_tool

QUIET = """Dumping orders-0/00000000000000000005.log
Log starting offset: 5
baseOffset: 5 lastOffset: 5 count: 1 crc: 4018552529 isvalid: true
| offset: 5 CreateTime: 17 keySize: 1 valueSize: 1 sequence: 0 headerKeys: [] key: k payload: v
Non-consecutive offsets in orders-0/00000000000000000005.log
  -1 is followed by 5
"""


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A PATH with nothing on it but what a test puts there, and no jars yet."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(kafka_tools, "jar_directory", lambda: tmp_path / "jars")
    missing_tool.cache_clear()
    yield tmp_path
    missing_tool.cache_clear()


def install(directory: Path, name: str, script: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def java(version: str, module: str) -> str:
    return f"""case "$1" in -version) echo 'openjdk version "{version}"' >&2;; *) echo {module};; esac"""


def test_each_missing_tool_is_named(bare_machine: Path) -> None:
    assert str(missing_tool()).startswith("java (a JDK, version 17 or newer) is not on the PATH")
    for script, words in [
        (java("11.0.2", "jdk.compiler@11"), "java is too old: 17 or newer is needed"),
        (java("21.0.1", "java.base@21"), "java is only a runtime"),
        (java("21.0.1", "jdk.compiler@21"), "mvn (Apache Maven) is not on the PATH"),
    ]:
        install(bare_machine, "java", script)
        missing_tool.cache_clear()
        assert words in str(missing_tool())


def test_nothing_is_missing_with_java_and_maven_or_with_the_jars(bare_machine: Path) -> None:
    install(bare_machine, "java", java("17.0.15", "jdk.compiler@17"))
    install(bare_machine, "mvn", "true")
    assert missing_tool() is None
    (bare_machine / "mvn").unlink()
    (bare_machine / "jars").mkdir()
    (bare_machine / "jars" / "complete").touch()
    missing_tool.cache_clear()
    assert missing_tool() is None


def test_a_sound_dump_has_no_complaints() -> None:
    assert complaints(QUIET) == []
    assert gaps(QUIET) == []


@pytest.mark.parametrize(
    "line",
    [
        "Mismatches in :/data/00000000000000000000.index",
        "Found timestamp mismatch in :/data/00000000000000000000.timeindex",
        "Found out of order timestamp in :/data/00000000000000000000.timeindex",
        "The following indexed offsets are not found in the log.",
        "Found 71 invalid bytes at the end of 00000000000000000000.log",
        "baseOffset: 0 lastOffset: 0 count: 1 crc: 4018552529 isvalid: false",
        "| offset: 0 key: Error at offset 0, skipping. Buffer underflow",
        "Snapshot is corrupt (CRC is no longer valid). Stored crc: 1. Computed crc: 2",
    ],
)
def test_each_kind_of_fault_is_heard(line: str) -> None:
    assert complaints(QUIET + line + "\n") == [line]


def test_a_gap_between_offsets_is_a_complaint_and_can_be_listed() -> None:
    dump = QUIET + "Non-consecutive offsets in orders-0/00000000000000000000.log\n  3 is followed by 7\n"
    assert complaints(dump) == ["Non-consecutive offsets in orders-0/00000000000000000000.log"]
    assert gaps(dump) == [(3, 7)]
