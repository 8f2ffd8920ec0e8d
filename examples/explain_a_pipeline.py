"""A pipeline is a plan before it runs: write it, see how it will be cut into queries, find mistakes; without Spark.

Run it: `python examples/explain_a_pipeline.py`
"""

from headrace.streams import App, Json, UnknownColumnError, col, count, tumbling

app = App("sales", "localhost:9092", dead_letters="sales.dead")
orders = app.stream("orders", value=Json("id long, country string, amount double"), grace="30s")
orders.select("id", cents=col.amount * 100).filter(col.cents > 10_000).to("big-orders")
per_minute = orders.group_by("country").windowed(tumbling("1m")).agg(n=count(), name="minutes")
per_minute.emit("final").to("sales-per-minute")
print(app.explain())

try:
    orders.filter(col.amuont > 100)
except UnknownColumnError as error:
    print(error)
