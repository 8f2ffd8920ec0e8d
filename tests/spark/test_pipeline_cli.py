"""`headrace pipeline` with a real Spark: a run in a process of its own that is told to stop, and runs that end."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as client
from tests.support.command_line import done, headrace
from tests.support.spark_settings import with_plain_python, without_generated_code

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

DEADLINE_SECONDS = 300

PIPELINE = """
from headrace.streams import App, Json, col, count

from helper_of_{name} import is_big

app = App("{name}", "{bootstrap}", state=r"{state}", dead_letters="{name}.dead", partitions=1, master="local[2]")
orders = app.stream("{name}-in", value=Json("id {type}, user string"))
orders.filter(is_big, name="big").select("id").to("{name}-big")
if {counts}:
    orders.group_by("user").agg(n=count(), name="users").to("{name}-users")
"""
HELPER = """
def is_big(row):
    return int(row["id"]) >= 3
"""


def written(tmp_path: Path, broker: client.Broker, name: str, *, counts: bool = True, type_: str = "long") -> str:
    """A pipeline with a function from a file beside it, which Spark's workers cannot import."""
    (tmp_path / f"helper_of_{name}.py").write_text(HELPER)
    values = {"name": name, "bootstrap": broker.address, "state": tmp_path / "state", "counts": counts, "type": type_}
    (tmp_path / f"{name}.py").write_text(PIPELINE.format(**values))
    return str(tmp_path / f"{name}.py")


def produce(broker: client.Broker, topic: str, *values: Any) -> None:
    with client.Producer(broker.address) as producer:
        for value in values:
            data = value if isinstance(value, bytes) else json.dumps({"id": value, "user": f"u{value % 2}"}).encode()
            producer.send(topic, value=data, partition=0)


def consumed(broker: client.Broker, topic: str) -> list[Any]:
    try:
        table = client.arrow.read(topic, broker.address, isolation="read_committed")
    except client.UnknownTopicError:
        return []
    return [json.loads(value)["id"] for value in table.column("value").to_pylist()]


def wait_until(condition: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, f"it did not happen within {DEADLINE_SECONDS} s"
        time.sleep(0.2)  # the condition is polled, with a deadline


def test_a_run_is_seen_asked_and_stopped_cleanly(broker: client.Broker, tmp_path: Path) -> None:
    file = written(tmp_path, broker, "endless")
    produce(broker, "endless-in", *range(5))
    command = [sys.executable, "-c", "from headrace.cli import main; main()", "pipeline", "run", file, "--json"]
    environment = {**without_generated_code(), "XDG_STATE_HOME": str(tmp_path / "home")}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            wait_until(lambda: consumed(broker, "endless-big") == [3, 4], process)
            wait_until(lambda: _described(file)["running"], process)
            wait_until(lambda: _rows(file) == {"source-1": 5, "users": 5}, process)
            refused = headrace("pipeline", "reset", file, "--to-earliest")
            assert (refused.code, "endless runs: stop it first" in refused.err) == (2, True)
            again = headrace("pipeline", "run", file)
            assert (again.code, f"runs already, in process {process.pid}" in again.err) == (2, True)
            assert done("pipeline", "query", file, "users", "--key", "u1", "--json").objects == [{"user": "u1", "n": 2}]
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=DEADLINE_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 0, err
    assert "endless has stopped. The next run goes on from here." in err
    assert "Traceback" not in err
    last = {each["query"]: each for each in map(json.loads, out.splitlines())}
    assert {name: each["rows"] for name, each in last.items()} == {"source-1": 5, "users": 5}
    assert not _described(file)["running"]


def test_ctrl_c_of_a_terminal_ends_it_without_noise_and_the_next_run_goes_on(
    spark: SparkSession, broker: client.Broker, tmp_path: Path
) -> None:
    """A terminal sends it to all processes of the command: to Spark's and its workers, too."""
    assert spark.version
    file = written(tmp_path, broker, "interrupted", counts=False)
    produce(broker, "interrupted-in", *range(5))
    command = [sys.executable, "-c", "from headrace.cli import main; main()", "pipeline", "run", file]
    environment = without_generated_code(with_plain_python())
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            wait_until(lambda: consumed(broker, "interrupted-big") == [3, 4], process)
            wait_until(lambda: _rows(file) == {"source-1": 5}, process)
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=DEADLINE_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 0, err
    assert "Traceback" not in err, err
    assert err.endswith("interrupted has stopped. The next run goes on from here.\n"), err
    assert out.splitlines()[-1].startswith("interrupted.source-1: micro-batch 0, rows/s "), out
    produce(broker, "interrupted-in", 5)
    done("pipeline", "run", file, "--until-caught-up")
    assert consumed(broker, "interrupted-big") == [3, 4, 5]


def _described(file: str) -> dict[str, Any]:
    (found,) = done("pipeline", "describe", file, "--json").objects
    return found


def _rows(file: str) -> dict[str, int | None]:
    return {query["name"]: (query["progress"] or {}).get("rows") for query in _described(file)["queries"]}


def test_a_run_that_ends_a_replay_and_dead_letters(spark: SparkSession, broker: client.Broker, tmp_path: Path) -> None:
    """In this process, whose Spark is used."""
    assert spark.version
    file = written(tmp_path, broker, "ending", counts=False)
    produce(broker, "ending-in", *range(5), b'{"id": "12"}', b"poison")
    ended = done("pipeline", "run", file, "--until-caught-up", "--json")
    assert [(each["query"], each["rows"]) for each in ended.objects] == [("source-1", 7)]
    assert "1 query on local[2]" in ended.err
    produce(broker, "ending-in", 5, 6)
    ended = done("pipeline", "run", file, "--until-caught-up")
    assert ended.rows[0][:2] == ["source-1", "2"]
    assert consumed(broker, "ending-big") == [3, 4, 5, 6]

    replayed = done("pipeline", "replay", file, "--from", "3", "--to", "ending-in:0=6", "--json").objects
    assert [(each["topic"], each["value"]) for each in replayed] == [
        ("ending-big", '{"id":3}'),
        ("ending-big", '{"id":4}'),
        ("ending.dead", '{"id": "12"}'),
    ]
    done("pipeline", "replay", file, "--from", "7", "--topic", "ending-again")
    assert consumed(broker, "ending-again") == [5, 6]
    assert headrace("pipeline", "replay", file, "--from", "soon").code == 2

    loose = written(tmp_path, broker, "ending", counts=False, type_="string")
    assert (
        done("pipeline", "replay-dead", loose, "--dry-run").out == "2 dead letters of ending.dead would be replayed.\n"
    )
    dead = headrace("pipeline", "replay-dead", loose)
    assert (dead.code, dead.out) == (1, "2 dead letters: 2 records written.\n")
    assert "1 of them are still dead" in dead.err
    assert consumed(broker, "ending-big") == [3, 4, 5, 6, "12"]


def test_a_query_that_fails_is_told_in_one_sentence(spark: SparkSession, broker: client.Broker, tmp_path: Path) -> None:
    assert spark.version
    (tmp_path / "failing.py").write_text(
        "from headrace.streams import App, Json\n"
        f'app = App("failing", "{broker.address}", state=r"{tmp_path}", partitions=1, master="local[2]")\n'
        'app.stream("failing-in", value=Json("id long")).to("failing-out")\n'
    )
    produce(broker, "failing-in", 1, b"poison")
    failed = headrace("pipeline", "run", str(tmp_path / "failing.py"), "--until-caught-up")
    assert failed.code == 1
    sentence = failed.err.splitlines()[-2]
    assert sentence.startswith("headrace: the record at offset 1 of failing-in-0 cannot be decoded"), failed.err
    assert len(failed.err) < 1_000
