"""Orders in, big orders and sales per country out, exactly once: a broker in this process, and Spark on this machine.

Run it: `python examples/sales_pipeline.py` (needs `pip install headrace[spark]`; Spark takes some seconds to start)
"""

import json
import tempfile

import headrace
from headrace.streams import App, Json, col, count, sum_

ORDERS = [("DE", 50.0), ("FR", 250.0), ("DE", 150.0), ("DE", 20.0)]


def last_values(topic: str, address: str) -> list[str]:
    """The last value of each key, in the order of the keys."""
    table = headrace.arrow.read(topic, address)
    last = dict(zip(table.column("key").to_pylist(), table.column("value").to_pylist(), strict=True))
    return [value.decode() for _, value in sorted(last.items())]


with headrace.Broker() as broker, tempfile.TemporaryDirectory() as state:
    with headrace.Producer(broker.address) as producer:
        for number, (country, amount) in enumerate(ORDERS):
            order = {"id": number, "country": country, "amount": amount}
            producer.send("orders", key=str(number), value=json.dumps(order).encode())
        producer.send("orders", key="4", value=b"what is this?")

    app = App("sales", broker.address, state=state, dead_letters="sales.dead", master="local[2]")
    orders = app.stream("orders", value=Json("id long, country string, amount double"))
    orders.filter(col.amount > 100).to("big-orders")
    orders.group_by("country").agg(n=count(), total=sum_(col.amount)).to("sales")
    app.catch_up()  # over what is there now; app.run() would go on

    for topic in ("big-orders", "sales", "sales.dead"):
        print(f"{topic}: {', '.join(last_values(topic, broker.address))}")
