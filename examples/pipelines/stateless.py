"""Row by row, without state: filter, select, map_values, map, flat_map, select_key, branch, merge, foreach, to.

Run it: `python examples/pipelines/stateless.py` (needs `pip install headrace[spark]`)
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.streams import App, Json, Long, String, col, fn, vectorized

Row = dict[str, Any]

app = App("stateless", "localhost:9092")
orders = app.stream(
    "orders", key="user", value=Json("id long, user string, country string, amount double, items array<string>")
)

# Expressions first: Spark computes them without Python.
orders.filter(col.amount > 100).select("id", cents=(col.amount * 100).cast("long")).to("big")


# Functions where expressions do not reach: with the columns of many rows at once, or with one row, which is a dict.
@vectorized
def with_tax(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return {"gross": pc.round(pc.multiply(batch["amount"], 1.19), 2)}


def short(order: Row) -> Row:
    return {"order": order["id"], "text": f"{order['user']} from {order['country']}"}


def lines(order: Row) -> Iterator[Row]:
    for item in order["items"]:
        yield {"item": item, "id": order["id"]}


orders.map_values(with_tax, schema="gross double").to("gross", value=String("gross"))
orders.map(short, "order long, text string", key="order").to("texts", key=Long("order"), value=String("text"))
orders.flat_map(lines, "item string, id long", key="item").to("lines")

# Another key; and as many tasks as the work needs.
orders.select("id", "country").select_key("country").repartition(4).to("by-country")

# Each row goes one way; ways can meet again. The topic may be an expression, too.
ways = orders.select("id", "country").branch(home=col.country == "DE", near=col.country.isin("AT", "CH"), default="far")
ways["home"].merge(ways["near"]).to("truck")
ways["far"].to(fn.concat("plane-", fn.lower(col.country)))

# For what a function does, and no topic. After a failure it may see rows again.
paper = Path(tempfile.gettempdir(), f"paper-{os.getpid()}")


def note(order: Row) -> None:
    with paper.open("a") as lines_of_paper:
        print(order["user"], file=lines_of_paper)


orders.foreach(note)


if __name__ == "__main__":
    with app.test() as test:
        test.feed(
            "orders",
            {"id": 1, "user": "ann", "country": "DE", "amount": 50.0, "items": ["pen", "ink"]},
            {"id": 2, "user": "bob", "country": "US", "amount": 150.0, "items": ["desk"]},
            {"id": 3, "user": "ann", "country": "AT", "amount": 250.0, "items": []},
        )
        test.run()
        for topic in ("big", "gross", "texts", "lines", "by-country", "truck", "plane-us"):
            for record in sorted(test.read(topic)):
                print(f"{topic}: {record.key!r} -> {record.text}")
        print("on paper:", *sorted(paper.read_text().split()))
    paper.unlink()
