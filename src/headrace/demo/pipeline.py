"""The pipeline of the demo: broken orders become dead letters, each of the others counts once and makes revenue.

    orders ── join users ── check ──► orders.checked ── deduplicate ──► orders.clean
                              └─────► orders.dead           └── sum per country and minute ──► revenue

It is a program like any that users write. `headrace pipeline run` runs it, exactly once from topic to topic.
"""

from typing import Any

from headrace.streams import App, Json, col, count, sum_, tumbling

app = App("demo", "localhost:9092", dead_letters="orders.dead", grace="1h")

users = app.global_table("users", key="user", value=Json("country string"))
orders = app.stream("orders", value=Json("id string, user string, cents long"), name="orders")


def check(order: dict[str, Any]) -> None:
    """An order for which this raises is a dead letter: it goes to orders.dead as it came, with the reason."""
    if order["cents"] is None:
        raise ValueError("no amount")
    if order["cents"] <= 0:
        raise ValueError("amount not above zero")
    if order["country"] is None:
        raise ValueError("no such user")


orders.left_join(users, on="user").peek(check).to("orders.checked")

checked = app.stream("orders.checked", value=Json("id string, country string, cents long"), name="checked")
clean = checked.deduplicate("id", within="1h", name="clean")
clean.to("orders.clean")
revenue = clean.group_by("country").windowed(tumbling("1m")).agg(orders=count(), cents=sum_(col.cents), name="revenue")
revenue.to("revenue")
