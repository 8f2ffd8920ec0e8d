"""Which micro-batch this is, found out inside `foreachBatch`.

What holds with PySpark 4.2 and 4.3 (classic): the function is called on the query's own thread of the JVM, and calls
back into the JVM run on the same thread. So the context's local properties are those of the query:
`sql.streaming.queryId`, `streaming.sql.batchId`, and as `spark.jobGroup.id` the id of this run. The DataFrame's session
is a clone that does not list the query among its own (`session.streams.get` finds nothing), but the state that all
sessions share does, and the query knows its checkpoint, given or temporary. The id is the one of the checkpoint's
`metadata` file: it stays over restarts. `offsets/<batch id>` is written before the function is called.

In a thread of one's own there are no local properties: then the argument `checkpoint` says where to look for the
query's id. Spark Connect has neither the properties nor the query; there, exactly once is not to be had in this way.
"""

from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headrace.client.errors import WrongStateError
from headrace.spark.checkpoints import Read, batch_ends, batch_watermark_ms, local_path, query_id, read_local
from headrace.spark.exactly_once import MicroBatch

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
RUN_ID: Final = "spark.jobGroup.id"


def micro_batch(df: DataFrame, batch_id: int, checkpoint: str | None) -> MicroBatch:
    """Raises WrongStateError outside of `foreachBatch`."""
    properties = _local_properties(df)
    number = properties.get(BATCH_ID)
    if number is not None and int(number) != batch_id:
        raise WrongStateError(
            f"The batch id is {batch_id}, but the query runs {number}: pass on the one that foreachBatch gives."
        )
    query = properties.get(QUERY_ID)
    location = checkpoint or (None if query is None else _checkpoint_of(df, query))
    root, read = (None, read_local) if location is None else _reader(df, location)
    if root is not None:
        query = query or query_id(root, read)
    if query is None:
        raise WrongStateError(
            "Exactly once needs a streaming query: call write_batch from foreachBatch (in a thread of your own, "
            'also tell the checkpoint), or use guarantee="at_least_once". Spark Connect is not enough.'
        )
    ends = {} if root is None else batch_ends(root, batch_id, read)
    return MicroBatch(query, properties.get(RUN_ID) or "", batch_id, ends)


def watermark_ms(df: DataFrame, batch_id: int) -> int:
    """That of the micro-batch which `foreachBatch` is called for. Raises WrongStateError elsewhere."""
    query = _local_properties(df).get(QUERY_ID)
    location = None if query is None else _checkpoint_of(df, query)
    if location is None:
        raise WrongStateError("Only a micro-batch has a watermark: ask for it inside of foreachBatch.")
    root, read = _reader(df, location)
    return batch_watermark_ms(root, batch_id, read)


def _local_properties(df: DataFrame) -> dict[str, str]:
    try:
        context = df.sparkSession.sparkContext
    except PySparkException:  # Spark Connect has none
        return {}
    found = {name: context.getLocalProperty(name) for name in (QUERY_ID, BATCH_ID, RUN_ID)}
    return {name: value for name, value in found.items() if value is not None}


def _checkpoint_of(df: DataFrame, query: str) -> str | None:
    session: Any = df.sparkSession
    running = session._jsparkSession.sharedState().activeStreamingQueries()
    found = running.get(session._jvm.java.util.UUID.fromString(query))
    return None if found is None else str(found.resolvedCheckpointRoot())


def is_running(df: DataFrame, query: str) -> bool:
    """Whether a query of this id runs in this driver."""
    session: Any = df.sparkSession
    running = session._jsparkSession.sharedState().activeStreamingQueries()
    return bool(running.containsKey(session._jvm.java.util.UUID.fromString(query)))


def _reader(df: DataFrame, location: str) -> tuple[str, Read]:
    path = local_path(location)
    return (path, read_local) if path is not None else (location, hadoop_reader(df))


def hadoop_reader(df: DataFrame) -> Read:
    """For checkpoints on any file system that Spark knows."""
    session: Any = df.sparkSession
    jvm = session._jvm

    def read(location: str) -> str | None:
        path = jvm.org.apache.hadoop.fs.Path(location)
        files = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    return read
