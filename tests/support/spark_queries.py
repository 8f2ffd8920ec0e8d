"""Small streaming queries over files, whose micro-batches are known beforehand: one file is one of them."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.arrow import read

QUERY_SECONDS: Final = 600  # so long the machine may be busy; a query that needs it hangs


class LineFiles:
    """A directory of text files; each becomes a micro-batch, in the order in which they were written."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0
        directory.mkdir()

    def write(self, lines: Iterable[str]) -> None:
        path = self._directory / f"{self._count:06}"
        hidden = self._directory / f"_{self._count:06}"  # Spark does not see it until it is whole
        hidden.write_text("".join(f"{line}\n" for line in lines))
        os.utime(hidden, (self._count, self._count))  # by which Spark sorts them
        hidden.rename(path)
        self._count += 1

    def stream(self, spark: SparkSession) -> DataFrame:
        return spark.readStream.option("maxFilesPerTrigger", 1).text(str(self._directory))


def keyed(lines: DataFrame) -> DataFrame:
    """Each line is value and key."""
    return lines.select(f.col("value").alias("key"), f.col("value"))


def run_to_end(writer: Any, checkpoint: Path) -> None:
    """Until everything that is there is processed. Raises what ends the query."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(QUERY_SECONDS), "the query has not ended in time"
    finally:
        query.stop()


def forget_last_commit(checkpoint: Path) -> int:
    """As if the driver had died after the sink's commit and before Spark's own; which micro-batch will be repeated."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    return last


def committed_values(topic: str, bootstrap: str) -> list[str]:
    """In the order of the log, partition by partition."""
    table = read(topic, bootstrap, isolation="read_committed")
    return [value.decode() for value in table.column("value").to_pylist()]


def numbers(topic: str, bootstrap: str) -> list[int]:
    """The same as whole numbers, sorted: what is there, each as often as it is there."""
    return sorted(map(int, committed_values(topic, bootstrap)))
