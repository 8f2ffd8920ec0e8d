"""The way out to plain Spark: the rows of a stream or a table as a streaming DataFrame."""

from pyspark.sql import DataFrame, SparkSession

from headrace.spark.spark_session import session
from headrace.streams.compiler.query import CompiledQuery
from headrace.streams.compiler.running import Deployment, own_session
from headrace.streams.compiler.topics import ClusterTopics
from headrace.streams.errors import PlanError
from headrace.streams.plan import Node, Plan, Sink
from headrace.streams.queries import cut
from headrace.streams.rewrites import rewrite
from headrace.streams.runnable import check_runnable

_PARTITIONS = "spark.sql.shuffle.partitions"


def to_df(node: Node, deployment: Deployment, spark: SparkSession | None = None) -> DataFrame:
    """Its columns, and the hidden ones that there are. Raises PlanError for what Spark cannot do in one query.

    Offsets are kept by whoever writes the DataFrame, in his checkpoint: the app has nothing to do with it any more.
    """
    app = deployment.plan.app
    sink = Sink(name="to-df", inputs=(node,), shape=node.shape, topic="df")
    plan = Plan(app, (sink,))
    check_runnable(plan)
    queries = cut(rewrite(plan))
    if len(queries) > 1:
        parts = ", ".join(query.name for query in queries)
        raise PlanError(f"{node.name} takes several queries of Spark ({parts}): write it to a topic, and read that one")
    (query,) = queries
    base = spark if spark is not None else session(app, deployment.master)
    own = own_session(base, deployment.plan.partitions or int(base.conf.get(_PARTITIONS) or 1))
    topics = ClusterTopics(deployment.bootstrap, app, exactly_once=True)
    return CompiledQuery(query, own, topics, {}, app=app, has_dead_letters=False).rows(query.sinks[0].input)
