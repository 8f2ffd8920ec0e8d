"""Kafka Streams as the judge of what operators mean: our Java program in tests/interop/streams_judge, on its own jars.

One JVM answers all cases. A case is a pipeline, by the name of its operator and its parameters, and the records that it
reads in the order of their arrival; the answer is what it writes.
"""

import hashlib
import json
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.kafka_tools import REPOSITORY, KafkaToolError, filled

SOURCES: Final = REPOSITORY / "tests" / "interop" / "streams_judge"
_COMPILE_SECONDS: Final = 120
_JUDGE_SECONDS: Final = 300

Columns = tuple[tuple[str, Any], ...]  # by name


class Given(NamedTuple):
    """A record of an input topic. A value of None is a tombstone."""

    topic: str
    key: str | None
    value: Mapping[str, Any] | None
    at_ms: int


class Result(NamedTuple):
    """A record of the output: columns that are NULL are left out, a value of None is a deletion."""

    key: Columns
    value: Columns | None
    at_ms: int


def columns(row: Mapping[str, Any]) -> Columns:
    return tuple(sorted((name, value) for name, value in row.items() if value is not None))


def final_table(results: Iterable[Result]) -> dict[Columns, tuple[Columns, int]]:
    """The last value of each key and its time, without the keys that were deleted."""
    last = {result.key: result for result in results}
    return {key: (result.value, result.at_ms) for key, result in last.items() if result.value is not None}


def judge(cases: Mapping[str, Mapping[str, Any]], records: Mapping[str, Iterable[Given]]) -> dict[str, list[Result]]:
    """What Kafka Streams makes of each case; both arguments are by the names of the cases."""
    asked = [json.dumps({"pipeline": case, "records": [*records[name]]}) for name, case in cases.items()]
    with _judge_command() as command:
        done = subprocess.run(
            command,
            input="".join(line + "\n" for line in asked),
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=_JUDGE_SECONDS,
        )
    if done.returncode != 0:
        raise KafkaToolError(f"the judge ended with {done.returncode}:\n{done.stderr[-6000:]}")
    answers = [json.loads(line)["outputs"] for line in done.stdout.splitlines()]
    return {name: [*map(_result, outputs)] for name, outputs in zip(cases, answers, strict=True)}


def _result(output: list[Any]) -> Result:
    key, value, at_ms = output
    return Result(columns(key), None if value is None else columns(value), at_ms)


@contextmanager
def _judge_command() -> Iterator[list[str]]:
    """The program, with a directory for its state."""
    pom = SOURCES / "pom.xml"
    jars = filled(REPOSITORY / ".cache" / "kafka-streams", pom)
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    with tempfile.TemporaryDirectory(prefix="streams-judge-") as state:
        yield ["java", *options, "-cp", f"{_compiled(jars)}:{jars}/*", "Judge", state]


def _compiled(jars: Path) -> Path:
    """The directory with the classes, which is kept for as long as the sources stay as they are."""
    sources = sorted(SOURCES.glob("*.java"))
    content = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    directory = jars.parent / f"streams-judge-{content}"
    if not directory.exists():
        making = tempfile.mkdtemp(dir=jars.parent)
        compiler = ["javac", "-Xlint:all", "-Werror", "-d", making, "-cp", f"{jars}/*", *map(str, sources)]
        done = subprocess.run(compiler, capture_output=True, text=True, check=False, timeout=_COMPILE_SECONDS)
        if done.returncode != 0:
            raise KafkaToolError(f"the judge does not compile:\n{done.stdout}{done.stderr}")
        with suppress(OSError):  # another worker was faster
            Path(making).rename(directory)
    return directory
