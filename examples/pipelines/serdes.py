"""From bytes to columns and back: Json, String, Long, Bytes and functions of your own; topics by pattern; event time.

Run it: `python examples/pipelines/serdes.py` (needs `pip install headrace[spark]`)
"""

import re
from typing import Any

from headrace.streams import App, Bytes, Json, Long, Own, String, col, fn, lit

app = App("serdes", "localhost:9092")


def read_csv(data: bytes) -> dict[str, Any]:
    name, degrees = data.decode().split(";")
    return {"sensor": name, "degrees": float(degrees)}


def write_csv(row: dict[str, Any]) -> bytes:
    return f"{row['sensor']};{row['degrees']:.1f}".encode()


Csv = Own("sensor string, degrees double", read_csv, write_csv)

# Every topic of that kind, also those that are yet to come; what a record brings along is in hidden columns.
readings = app.stream(re.compile("readings-.*"), value=Csv)
readings.select("sensor", degrees=col.degrees * 1.8 + 32).to("fahrenheit", key="sensor", value=Csv)
readings.select("sensor", place=fn.replace(col._topic, lit("readings-"), lit(""))).to("places")

# Eight bytes as Java writes them, text, and bytes that stay as they are.
counters = app.stream("counters", key=String("page"), value=Long("n"))
counters.filter(col.n > 1).to("often", value=Long("n"))
photos = app.stream("photos", key=String("id", "long"), value=Bytes("jpeg"))
photos.select(size=fn.length(col.jpeg)).to("sizes")

# The time of an order is when it was placed, not when it came.
orders = app.stream("orders", value=Json("id long, placed timestamp"), time="placed")
orders.select("id", hour=fn.hour(col._time)).to("hours")


if __name__ == "__main__":
    with app.test() as test:
        test.feed("readings-roof", {"sensor": "north", "degrees": 20.0})
        test.feed("readings-cellar", {"sensor": "door", "degrees": 5.0})
        test.feed("counters", 7, key="home")
        test.feed("counters", 1, key="shop")
        test.feed("photos", b"\xff\xd8\xff\xe0", key=12)
        test.feed("orders", {"id": 1, "placed": "2026-01-01T10:00:00Z"}, at="2026-01-01T15:30:00Z")
        test.run()
        for topic in ("fahrenheit", "places", "often", "sizes", "hours"):
            for record in sorted(test.read(topic)):
                print(f"{topic}: {record.key!r} -> {record.value!r}, {record.timestamp:%H:%M}")
