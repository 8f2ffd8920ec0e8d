"""Each example of a pipeline prints what it should. One runs as a user would run it; the others share a Spark."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.streams import App, Json
from tests.support.spark_settings import with_plain_python

EXAMPLES = Path(__file__).parents[2] / "examples"
OUTPUTS = Path(__file__).parent / "example_outputs"
NAMES = sorted(path.stem for path in (EXAMPLES / "pipelines").glob("*.py"))

OUTPUT = """\
big-orders: {"id":1,"country":"FR","amount":250.0}, {"id":2,"country":"DE","amount":150.0}
sales: {"country":"DE","n":3,"total":220.0}, {"country":"FR","n":1,"total":250.0}
sales.dead: what is this?
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_the_example_of_a_pipeline_prints_what_it_should_and_nothing_else(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "sales_pipeline.py")],
        cwd=tmp_path,
        env=with_plain_python(),
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout, done.stderr) == (OUTPUT, "")
    assert not list(tmp_path.iterdir()), "it leaves nothing behind"


@pytest.mark.parametrize("name", NAMES)
def test_examples_of_operators_print_what_they_should(
    name: str,
    spark: SparkSession,  # of this process, which they find
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("HEADRACE_BOOTSTRAP", "XDG_STATE_HOME"):  # which an example sets
        monkeypatch.setenv(variable, "")
    runpy.run_path(str(EXAMPLES / "pipelines" / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out == (OUTPUTS / f"{name}.txt").read_text()
    assert not list(tmp_path.iterdir()), "it leaves nothing behind"


def test_a_micro_batch_takes_so_many_records_of_a_stream_and_all_of_a_table(
    broker: headrace.Broker, spark: SparkSession, tmp_path: Path
) -> None:
    with headrace.Producer(broker.address) as producer:
        for number in range(25):
            producer.send("bounded-users", json.dumps({"user": number}).encode(), key=str(number), partition=0)
            producer.send("bounded", json.dumps({"user": number}).encode(), partition=0)
    app = App("bounded", broker.address, state=tmp_path, max_per_trigger=10)
    users = app.table("bounded-users", key="user", value=Json("user long"))
    app.stream("bounded", value=Json("user long")).join(users, on="user", name="known").to("bounded-out")
    app.catch_up(spark)
    assert sorted(path.name for path in (tmp_path / "known" / "offsets").iterdir() if path.name.isdigit()) == [
        "0",
        "1",
        "2",
    ]
    table = headrace.arrow.read("bounded-out", broker.address, isolation="read_committed")
    assert sorted(json.loads(value)["user"] for value in table.column("value").to_pylist()) == list(range(25))
