"""The way out to plain Spark, and the way in: `to_df` gives a streaming DataFrame, `from_df` takes one.

Run it: `python examples/pipelines/plain_spark.py` (needs `pip install headrace[spark]`)
"""

import tempfile
from pathlib import Path

import headrace
import headrace.spark
from headrace.streams import App, Json, col, fn

ORDERS = b'{"id": 1, "amount": 50.0}', b'{"id": 2, "amount": 150.0}', b'{"id": 3, "amount": 250.0}'


def main(address: str, directory: Path) -> None:
    spark = headrace.spark.session("plain", "local[2]")
    with headrace.Producer(address) as producer:
        for value in ORDERS:
            producer.send("orders", value)

    # Out: what Spark can do with a stream, here into files.
    app = App("out", address, state=directory / "out")
    orders = app.stream("orders", value=Json("id long, amount double"))
    frame = orders.filter(col.amount > 100).to_df(spark)
    writer = frame.select("id", "amount", "_offset").writeStream.format("json")
    writer = writer.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True)
    writer.start(str(directory / "big")).awaitTermination()
    for row in spark.read.json(str(directory / "big")).orderBy("id").collect():
        print(f"a row of a DataFrame: order {row.id} of {row.amount}, from offset {row._offset}")

    # In: any source of Spark's, here lines of files.
    (directory / "lines").mkdir()
    (directory / "lines" / "1.txt").write_text("three apples\ntwo pears\n")
    lines = spark.readStream.text(str(directory / "lines"))
    app = App("in", address, state=directory / "in")
    app.from_df(lines).select("value", words=fn.size(fn.split(col.value, " "))).to("lines")
    app.catch_up(spark)
    for value in headrace.arrow.read("lines", address).column("value").to_pylist():
        print(f"a record of a topic: {value.decode()}")


if __name__ == "__main__":
    with headrace.Broker() as broker, tempfile.TemporaryDirectory() as directory:
        main(broker.address, Path(directory))
