"""The rows of a DataFrame on the driver, as Arrow batches, while Spark still computes the rest.

`toArrow` waits for everything and holds it; this hands over what is there. The rows of one of Spark's partitions keep
their order; partitions come as they are ready, just as their tasks would write them.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import unwrap_spark_exception
from pyspark.serializers import read_int
from pyspark.sql import DataFrame
from pyspark.util import _create_local_socket


def batches(df: DataFrame) -> Iterator[Any]:
    """Record batches. Raises what Spark raises."""
    port, secret, server = df._jdf.collectAsArrowToPython()
    file, sock = _create_local_socket((port, secret))
    try:
        with file, sock:
            yield from pa.ipc.open_stream(file)
            _read_order(file)
    except GeneratorExit:
        raise  # nobody wants the rest; the other side notices that the socket is closed
    except BaseException:
        _finish(server)  # knows better what went wrong
        raise
    _finish(server)


def _finish(server: Any) -> None:
    """Raises what Spark raises."""
    try:
        with unwrap_spark_exception():
            server.getResult()
    except PySparkException as error:
        if "maxResultSize" in str(error):
            error.add_note(
                "The rows of this micro-batch are too many for the driver. Let the tasks write them: "
                "transactions='tasks'; or make micro-batches smaller (maxOffsetsPerTrigger), or raise "
                "spark.driver.maxResultSize."
            )
        raise


def _read_order(file: Any) -> None:
    """Which batch would be which, in order; -1 if the job failed."""
    count = read_int(file)
    if count < 0:
        raise RuntimeError("Spark could not compute the rows")
    for _ in range(count):
        read_int(file)
