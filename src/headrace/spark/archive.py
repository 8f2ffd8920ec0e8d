"""An archive of Spark's classes, parsed and checked once, which the JVM maps into its memory at each start.

Measured on two cores, Java 17: the CPU time up to a running session falls from 14 to 8 seconds, up to the fifth
micro-batch from 34 to 23. Making it takes half a minute of CPU time and 170 MB of disk, so nobody makes it unasked:

    python -c "import headrace.spark; headrace.spark.make_archive()"

when a machine or an image is set up; sessions use it from then on. It belongs to one Java and one Spark; a JVM that it
does not fit goes on without it, and says nothing.
"""

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
from typing import Final

import pyspark

from headrace.spark.cache import cache_directory
from headrace.spark.java import Java, find_java

_OUTPUT_VARIABLE: Final = "HEADRACE_SPARK_ARCHIVE_OUTPUT"  # set for the program below, and for nobody else
_QUIET: Final = "-Xlog:disable -Xlog:all=error:stderr"  # that it does not fit is no news for anybody
_MAKE_SECONDS: Final = 600.0

# What sessions do: a stateful stream over JSON, a Python worker, and its results on the driver.
_TRAINING: Final = """
import sys, time
from headrace.spark.spark_session import session

# Code that runs once or twice is not worth optimising.
spark = session("training", "local[2]", conf={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
spark.range(10).groupBy().sum().collect()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100).load()
decoded = rows.selectExpr(
    "timestamp",
    "from_json(concat('{\\"n\\": ', value, '}'), 'n long').n AS n",
    "array(struct('a' AS key, encode('b', 'utf-8') AS value)) AS headers",
)
counted = decoded.withWatermark("timestamp", "1 minute").dropDuplicatesWithinWatermark(["n"])
counted = counted.mapInArrow(lambda batches: batches, counted.schema).groupBy("n").count()
query = (
    counted.writeStream.outputMode("update").option("checkpointLocation", sys.argv[1])
    .foreachBatch(lambda frame, batch_id: frame.toArrow()).start()
)
while not (query.lastProgress and query.lastProgress["batchId"] >= 2):
    if not query.isActive:
        raise query.exception()
    time.sleep(0.05)
query.stop()
jvm = spark.sparkContext._gateway.proc
spark.stop()
jvm.stdin.close()  # which ends it, and then it writes
jvm.wait()
"""


def archive_path(java: Java) -> str:
    """Where the archive for this Java and the installed Spark is, or would be."""
    build = f"{java.path} {os.stat(java.path).st_mtime_ns} {os.path.dirname(pyspark.__file__)} {pyspark.__version__}"
    name = hashlib.sha256(build.encode()).hexdigest()[:16]
    return os.path.join(cache_directory(os.environ), "java", f"{name}.jsa")


def archive_options(java: Java) -> str:
    """What makes a JVM use the archive, if there is one; or write it, in the process that makes it."""
    if output := os.environ.get(_OUTPUT_VARIABLE):
        return f'"-XX:ArchiveClassesAtExit={output}" {_QUIET}'
    path = archive_path(java)
    return f'"-XX:SharedArchiveFile={path}" {_QUIET}' if os.path.exists(path) else ""


def make_archive() -> str:
    """Make the archive unless it is there; its path. Raises RuntimeError with what Spark said, NoJavaError."""
    path = archive_path(find_java(os.environ))
    if os.path.exists(path):
        return path
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="headrace-archive-") as scratch:
        written = f"{path}.{os.getpid()}"
        done = subprocess.run(
            [sys.executable, "-c", _TRAINING, scratch],
            env={**os.environ, _OUTPUT_VARIABLE: written},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_MAKE_SECONDS,
            check=False,
        )
    if done.returncode or not os.path.exists(written):
        with contextlib.suppress(FileNotFoundError):
            os.remove(written)
        raise RuntimeError(f"the archive of Spark's classes could not be made: {done.stdout.strip()}")
    os.replace(written, path)  # by another at the same time: both are whole, and one stays
    return path
