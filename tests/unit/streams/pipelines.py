"""Pipelines whose plans are kept as golden texts, by name. Each shows something about how plans are cut or drawn."""

import re
from collections.abc import Callable
from typing import Any, Final

from headrace.streams import (
    App,
    Bytes,
    Json,
    Long,
    String,
    avg,
    col,
    count,
    fn,
    hopping,
    latest,
    map_state,
    max_,
    processing_time,
    session,
    sliding,
    sum_,
    tumbling,
    value_state,
    when,
)

ORDERS: Final = "id long, user string, country string, amount double, at timestamp"


def new_app(name: str = "sales") -> App:
    return App(name, "localhost:9092", grace="30s")


def orders_of(app: App, **options: Any) -> Any:
    return app.stream("orders", value=Json(ORDERS), **options)


def users_of(app: App) -> Any:
    return app.table("users", key="user", value=Json("user string, tier string"))


def stateless() -> App:
    """Three sinks, a branch and dead letters over one read of one source."""
    app = App("sales", "localhost:9092", dead_letters="sales.dead")
    orders = orders_of(app, key="user", time="at")
    big = orders.filter(col.amount > 100).select("id", cents=(col.amount * 100).cast("long"))
    big.filter(col.cents < 1_000_000).to("big-orders")
    parts = orders.branch(german=col.country == "DE", french=col.country.isin("FR", "MC"), default="rest")
    parts["german"].merge(parts["french"]).to(fn.concat("orders-", fn.lower(col.country)))
    parts["rest"].select_key("country").repartition(8).to("rest", key="country", value=Json("id long, amount double"))
    return app


def same_source_twice() -> App:
    """Two reads that are written alike become one."""
    app = new_app()
    orders_of(app).filter(col.amount > 100).to("big")
    orders_of(app).filter(col.amount <= 100).to("small")
    return app


def design_example() -> App:
    """A lookup, and final windows: two queries, each with its own state; and one for dead letters of each source."""
    app = App("sales", "localhost:9092", grace="30s", dead_letters="sales.dead")
    orders = orders_of(app)
    orders.filter(col.amount > 100).left_join(users_of(app), on="user").to("big-orders")
    per_minute = orders.group_by("country").windowed(tumbling("1m")).agg(n=count(), total=sum_(col.amount))
    per_minute.emit("final").to("sales-per-minute")
    return app


def running_then_running() -> App:
    """A running aggregate of a running aggregate: Spark refuses it in one query, so a topic stands between."""
    app = new_app()
    per_user = orders_of(app).group_by("user").agg(n=count(), name="per-user")
    size = when(col.n > 10, "many").otherwise("few")
    per_user.to_stream().group_by(size=size).agg(users=count(), most=max_(col.n), name="per-size").to("sizes")
    return app


def final_then_final() -> App:
    """Final windows of final windows run in one query."""
    app = new_app()
    minutes = orders_of(app).group_by("country").windowed(tumbling("1m")).agg(n=count(), name="minutes").emit("final")
    per_country = minutes.to_stream().group_by("country")
    per_country.windowed(hopping("1h", "5m")).agg(per_minute=avg(col.n), name="hours").emit("final").to("hours")
    return app


def shared_aggregate() -> App:
    """A running aggregate with a sink and a second reader with state: the reader takes it from a topic."""
    app = new_app()
    counts = orders_of(app).group_by("user").count(name="counts")
    counts.to("counts")
    orders_of(app, name="orders").join(counts, on="user", name="with-counts").to("enriched")
    return app


def merged_aggregates() -> App:
    """Results of two aggregates merged without state: both go through topics, and a stateless query merges them."""
    app = new_app()
    orders = orders_of(app)
    by_user = orders.group_by(who=col.user).count(name="by-user").to_stream()
    by_country = orders.group_by(who=col.country).count(name="by-country").to_stream()
    by_user.merge(by_country).filter(col.count > 3).to("busy")
    return app


def windows() -> App:
    """Sessions and sliding windows, with changes and final."""
    app = new_app()
    clicks = app.stream(re.compile("clicks-.*"), value=String("page"), key=Long("user"), start="latest")
    visits = clicks.group_by("user").windowed(session("30m"))
    visits.count(name="visits").emit("final").to("visits")
    visits.count(name="running-visits").to("running-visits")
    clicks.group_by("page").windowed(sliding("1m")).agg(last=latest(col.user), name="slide").to("slide")
    return app


def joins() -> App:
    """Every kind of join."""
    app = new_app()
    orders = orders_of(app, name="orders")
    payments = app.stream("payments", value=Json("order long, paid double"), name="payments")
    rates = app.global_table("rates", key="currency", value=Json("currency string, rate double"))
    users = users_of(app)
    accounts = app.table("accounts", key="account", value=Json("account long, owner string"))
    paid = orders.outer_join(payments, on={"id": "order"}, within=("0s", "1h"), name="paid")
    paid.join(rates, on={"country": "currency"}).to("paid")
    accounts.left_join(users, on="owner", name="owners").to("owners")
    users.outer_join(app.table("mails", key="user", value=Json("user string, mail string")), name="contacts").to(
        "contacts"
    )
    return app


def state_behind_global_table() -> App:
    """Rows are joined with the global table in each micro-batch, and go through a topic to the state behind it."""
    app = App("sales", "localhost:9092", grace="30s", dead_letters="sales.dead")
    rates = app.global_table("rates", key="currency", value=Json("currency string, rate double"), name="rates")
    in_euros = orders_of(app, name="orders").join(rates, on={"country": "currency"}, name="rated")
    in_euros = in_euros.select("user", euros=col.amount * col.rate, name="euros")
    in_euros.to("euros")
    in_euros.group_by("user").agg(total=sum_(col.euros), name="totals").to("totals")
    in_euros.join(users_of(app), on="user", name="known").to("known")
    return app


def checks_and_effects() -> App:
    """Rows are checked by expressions, functions are called for what they do, and one way leads nowhere."""
    app = App("sales", "localhost:9092", dead_letters="sales.dead")
    orders = orders_of(app, key="user").check(col.amount > 0, "amount must be positive").check(_is_clean)
    orders.foreach(print)
    orders.filter(col.amount > 100, name="forgotten")
    orders.to("good-orders")
    users_of(app).check(col.tier.is_not_null(), name="has-tier").to("users-with-tier")
    orders.process(_split, "user string", state={"seen": value_state("n long")}, name="watcher")
    return app


def functions() -> App:
    """Python functions everywhere, and state of one's own."""
    app = new_app()
    orders = orders_of(app, key="user", time=processing_time)
    clean = orders.filter(_is_clean).map_values(_parse, schema="words array<string>").peek(print)
    clean.flat_map(_split, "word string", key="word").deduplicate(within="1h").to("words")
    state = {"seen": value_state("n long", ttl="1h"), "by_word": map_state("word string", "n long")}
    tracked = clean.process(
        _split, "user string, n long", state=state, timers="processing", on_timer=_split, name="tracker"
    )
    tracked.to("tracked")
    other = app.stream("other", key="user", value=Bytes("raw"))
    joined = orders.group_by().cogroup(_split).cogroup(other.group_by("user"), _split)
    joined.aggregate(dict, "n long", name="both").to("both")
    orders.group_by("country").reduce(_parse).to("reduced")
    return app


def _is_clean(row: dict[str, Any]) -> bool:
    return bool(row["user"])


def _parse(row: dict[str, Any]) -> dict[str, Any]:
    return {"words": row["user"].split()}


def _split(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"word": word} for word in row["words"]]


PIPELINES: Final[tuple[Callable[[], App], ...]] = (
    stateless,
    same_source_twice,
    design_example,
    running_then_running,
    final_then_final,
    shared_aggregate,
    merged_aggregates,
    windows,
    joins,
    functions,
    state_behind_global_table,
    checks_and_effects,
)
