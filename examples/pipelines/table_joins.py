"""Joins with tables: a stream with a table and with a global table, two tables by their keys, and by a foreign key.

Run it: `python examples/pipelines/table_joins.py` (needs `pip install headrace[spark]`)
"""

from typing import Any

from headrace.streams import App, Json, col, sum_

app = App("table-joins", "localhost:9092")
orders = app.stream("orders", value=Json("id long, user string, currency string, amount double"))
users = app.table("users", key="user", value=Json("user string, city string"))
points = app.table("points", key="user", value=Json("user string, points long"))
cities = app.table("cities", key="city", value=Json("city string, country string"))
rates = app.global_table("rates", key="currency", value=Json("currency string, rate double"))

# The user as they are at the time of the order. By any column: no topic has to be partitioned like another.
orders.left_join(users, on="user").select("id", "city").to("orders-to-cities")
# A small table, which every task has whole: no shuffle, no state.
in_euros = orders.join(rates, on="currency").select("id", "user", euros=col.amount * col.rate)
in_euros.to("euros")
in_euros.group_by("user").agg(total=sum_(col.euros)).to("spent")
# Tables that follow both of their sides.
users.join(points).to("both")
users.outer_join(points).to("either")
# By a column that is the other table's key.
users.left_join(cities, on="city").select("country").to("countries")

STREAMS = ("orders-to-cities", "euros")
TABLES = ("spent", "both", "either", "countries")


def show(test: Any) -> None:
    for topic in STREAMS:
        print(f"{topic}:", *sorted(record.text or "" for record in test.read(topic)))
    for topic in TABLES:
        print(f"{topic}:", *(row for _, row in sorted(test.table(topic).items())))


if __name__ == "__main__":
    with app.test() as test:
        test.feed("users", {"user": "ann", "city": "Bonn"}, {"user": "bob", "city": "Oslo"})
        test.feed("points", {"user": "ann", "points": 7}, {"user": "eve", "points": 1})
        test.feed("cities", {"city": "Bonn", "country": "DE"})
        test.feed("rates", {"currency": "NOK", "rate": 0.09})
        test.feed("orders", {"id": 1, "user": "bob", "currency": "NOK", "amount": 100.0})
        test.feed("orders", {"id": 2, "user": "kim", "currency": "XXX", "amount": 5.0})
        test.run()
        show(test)
        print("\nBob moves to Bonn, and Ann loses her points.")
        test.feed("users", {"user": "bob", "city": "Bonn"})
        test.feed("points", None, key="ann")
        test.run()
        show(test)
