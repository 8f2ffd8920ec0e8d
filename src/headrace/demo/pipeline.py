"""The pipeline itself, as a user would write it: two streaming queries in one driver, exactly once from topic to topic.

    orders ── decode ── join users ── deduplicate ──► orders.clean ── sum per country and minute ──► revenue
                                              └─────► orders.dead

The first query writes both of its topics in one transaction. The second reads only what is committed, so that a crash
of the first never shows. `python -m headrace.demo.pipeline MASTER ADDRESS CHECKPOINTS MAX_OFFSETS` runs it.
"""

import sys
import tempfile
import time
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.streaming import DataStreamWriter

import headrace.spark
from headrace.demo import topics
from headrace.demo.truth import BELOW_ZERO, NO_AMOUNT, NO_USER, NOT_JSON

# Longer than an order can be late, and than its duplicate can be behind it: nothing is forgotten too early.
WATERMARK: Final = "1 hour"
TRIGGER: Final = "200 milliseconds"  # without a pause an idle query takes a tenth of a core
MAX_FAILURES: Final = 5
_LOOK_SECONDS: Final = 0.5


def read(spark: SparkSession, address: str, topic: str, *, max_offsets: int) -> DataFrame:
    return (
        spark.readStream.format("headrace")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", max_offsets)
        .option("kafka.isolation.level", "read_committed")
        .option("commitOffsets", "false")  # the sink commits them, in the transaction of what was made of them
        .load()
    )


def users_table(spark: SparkSession, address: str) -> DataFrame:
    """The users as they are now: the newest record of each key. It is read again with each micro-batch."""
    records = (
        spark.read.format("headrace")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topics.USERS)
        .load()
    )
    newest = records.groupBy("key").agg(F.max_by("value", "offset").alias("value")).where("value IS NOT NULL")
    country = F.from_json(F.col("value").cast("string"), "country string").country
    return newest.select(F.col("key").cast("string").alias("user"), country.alias("country"))


def cleaned(orders: DataFrame, users: DataFrame) -> DataFrame:
    """What goes where: orders that count, each once, and dead letters that say where they come from and why."""
    as_json = F.from_json(
        F.col("value").cast("string"),
        "id string, user string, cents long, broken string",
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "broken"},
    )
    decoded = orders.withWatermark("timestamp", WATERMARK).select("*", as_json.alias("order"))
    known = decoded.join(F.broadcast(users), F.col("order.user") == F.col("user"), "left")
    where = F.concat_ws("", "topic", F.lit("-"), "partition", F.lit("@"), "offset")
    judged = known.withColumn("error", _error()).withColumn("where", where)
    # A letter is its own duplicate only: it may have no id.
    once = judged.withColumn("identity", F.when(F.col("error").isNull(), F.col("order.id")).otherwise(F.col("where")))
    is_dead = F.col("error").isNotNull()
    order = F.to_json(F.struct("order.id", "country", "order.cents"))
    return once.dropDuplicatesWithinWatermark(["identity"]).select(
        F.when(is_dead, topics.DEAD).otherwise(topics.CLEAN).alias("topic"),
        F.col("key"),
        F.when(is_dead, F.col("value")).otherwise(order.cast("binary")).alias("value"),
        F.when(is_dead, F.array(_header(topics.WHY_HEADER, "error"), _header(topics.WHERE_HEADER, "where"))).alias(
            "headers"
        ),
        F.col("timestamp"),
    )


def revenue(orders: DataFrame) -> DataFrame:
    """Per country and minute; each change is a record, and the newest of a key counts."""
    order = F.from_json(F.col("value").cast("string"), "country string, cents long")
    decoded = orders.select("timestamp", order.alias("order")).select("timestamp", "order.*")
    summed = (
        decoded.withWatermark("timestamp", WATERMARK)
        .groupBy(F.window("timestamp", "1 minute"), "country")
        .agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
        .withColumn("minute_ms", F.unix_millis("window.start"))
    )
    return summed.select(
        F.concat_ws(" ", "country", "minute_ms").cast("binary").alias("key"),
        F.to_json(F.struct("country", "minute_ms", "orders", "cents")).cast("binary").alias("value"),
    )


def writers(spark: SparkSession, address: str, checkpoints: str, *, max_offsets: int) -> dict[str, DataStreamWriter]:
    """Both queries, ready to be started, by name."""
    users = users_table(spark, address)
    clean = cleaned(read(spark, address, topics.ORDERS, max_offsets=max_offsets), users)
    sums = revenue(read(spark, address, topics.CLEAN, max_offsets=max_offsets))
    made = {}
    for app, frame, mode, topic in (
        (topics.CLEAN_APP, clean, "append", None),
        (topics.REVENUE_APP, sums, "update", topics.REVENUE),
    ):
        write = headrace.spark.batch_writer(bootstrap=address, app=app, topic=topic)
        named = frame.writeStream.queryName(app).option("checkpointLocation", f"{checkpoints}/{app}")
        made[app] = named.outputMode(mode).trigger(processingTime=TRIGGER).foreachBatch(write)
    return made


def keep_running(queries: dict[str, DataStreamWriter]) -> Exception:
    """Start them, and start again what fails: it goes on where it was. The last error, when it has failed too often.

    Spark gives a Python process ten seconds to call back, which may be too little while a machine has much to do.
    """
    running = {app: query.start() for app, query in queries.items()}
    failures = 0
    while True:
        time.sleep(_LOOK_SECONDS)
        for app in [app for app, query in running.items() if not query.isActive]:
            failures += 1
            error = running[app].exception() or RuntimeError(f"query {app} has stopped by itself")
            if failures > MAX_FAILURES:
                return error
            running[app] = queries[app].start()


def _error() -> Column:
    return (
        F.when(F.col("order.broken").isNotNull() | F.col("order.id").isNull(), NOT_JSON)
        .when(F.col("order.cents").isNull(), NO_AMOUNT)
        .when(F.col("order.cents") <= 0, BELOW_ZERO)
        .when(F.col("country").isNull(), NO_USER)
    )


def _header(name: str, column: str) -> Column:
    return F.struct(F.lit(name).alias("key"), F.col(column).cast("binary").alias("value"))


def main(master: str, address: str, checkpoints: str, max_offsets: str) -> None:
    # What a killed JVM leaves behind is then where everything else of the demo is, and goes with it.
    # It lives for less than a minute: a compiler that optimises would be busy for longer than it pays.
    java = f'"-Djava.io.tmpdir={tempfile.gettempdir()}" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC'
    spark = headrace.spark.session("demo", master, conf={"spark.driver.extraJavaOptions": java})
    error = keep_running(writers(spark, address, checkpoints, max_offsets=int(max_offsets)))
    # Spark adds its plan of the query, which is long.
    print(str(error).partition("=== Streaming Query ===")[0].rstrip(), flush=True)
    sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
