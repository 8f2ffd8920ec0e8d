"""Pipelines over topics: what Kafka Streams gives Java people, for Python people, on Spark.

    from headrace.streams import App, Json, col, count, sum_, tumbling

    app = App("sales", "localhost:9092")
    orders = app.stream("orders", value=Json("id long, country string, amount double"), grace="30s")
    orders.filter(col.amount > 100).to("big-orders")
    sales = orders.group_by("country").windowed(tumbling("1m")).agg(n=count(), total=sum_(col.amount))
    sales.emit("final").to("sales-per-minute")
    print(app.explain())

What is written is a plan, immutable data that is checked as it is written; neither that nor `explain` needs Spark.
"""

from headrace.streams.aggregates import avg, collect, count, first, latest, max_, min_, sum_
from headrace.streams.app import App, processing_time, record_time
from headrace.streams.columns import Column, col, fn, lit, when
from headrace.streams.compatibility import Difference, Verdict, compatible
from headrace.streams.errors import CannotRunError, PlanError, PlanWarning, UnknownColumnError
from headrace.streams.feeding import Record
from headrace.streams.functions import vectorized
from headrace.streams.grouped import CogroupedStream, GroupedStream, GroupedTable, WindowedStream
from headrace.streams.plan import Plan
from headrace.streams.plan_json import plan_from_json, plan_to_json
from headrace.streams.processor import Context
from headrace.streams.serdes import Bytes, Json, Long, Own, String
from headrace.streams.states import list_state, map_state, value_state
from headrace.streams.stream import Stream
from headrace.streams.table import GlobalTable, Table
from headrace.streams.windows import hopping, session, sliding, tumbling

__all__ = [
    "App",
    "Bytes",
    "CannotRunError",
    "CogroupedStream",
    "Column",
    "Context",
    "Difference",
    "GlobalTable",
    "GroupedStream",
    "GroupedTable",
    "Json",
    "Long",
    "Own",
    "Plan",
    "PlanError",
    "PlanWarning",
    "Record",
    "Stream",
    "String",
    "Table",
    "UnknownColumnError",
    "Verdict",
    "WindowedStream",
    "avg",
    "col",
    "collect",
    "compatible",
    "count",
    "first",
    "fn",
    "hopping",
    "latest",
    "list_state",
    "lit",
    "map_state",
    "max_",
    "min_",
    "plan_from_json",
    "plan_to_json",
    "processing_time",
    "record_time",
    "session",
    "sliding",
    "sum_",
    "tumbling",
    "value_state",
    "vectorized",
    "when",
]
