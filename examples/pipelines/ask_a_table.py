"""A table asked by key, range and window while the pipeline runs; and a part of its topics run again, as a batch.

Run it: `python examples/pipelines/ask_a_table.py` (needs `pip install headrace[spark]`)
"""

import json
import tempfile
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import headrace
from headrace.streams import App, Json, count, tumbling

TEN = datetime(2026, 1, 1, 10, tzinfo=UTC)
ORDERS = [(0, "DE"), (1, "FR"), (40, "DE"), (70, "DE"), (80, "AT")]  # after so many seconds


def shown(rows: Iterable[dict[str, Any] | None]) -> str:
    return ", ".join(f"{row['n']} of {row['country']} at {row['window_start']:%H:%M}" for row in rows if row)


def main(address: str, state: str) -> None:
    with headrace.Producer(address) as producer:
        for number, (seconds, country) in enumerate(ORDERS):
            value = json.dumps({"id": number, "country": country}).encode()
            producer.send("orders", value, timestamp=int((TEN + timedelta(seconds=seconds)).timestamp() * 1000))

    app = App("sales", address, state=state, master="local[2]")
    orders = app.stream("orders", value=Json("id long, country string"))
    orders.group_by("country").windowed(tumbling("1m")).agg(n=count(), name="minutes").to("sales-per-minute")

    with app.start() as running:
        minutes = running.table("minutes")
        while not minutes.windows("AT"):  # the last order
            time.sleep(0.1)
            running.wait(timeout=0)  # raises, if the pipeline has failed
        print("DE, while it runs:", shown(minutes.windows("DE")))

    # From anywhere, whether it runs or not. Spark is not needed.
    with app.query("minutes") as minutes:
        print("DE, the latest:", shown([minutes.get("DE")]))
        print("DE, at ten:", shown([minutes.get("DE", window=TEN)]))
        print("FR:", shown(minutes.windows("FR", since=TEN)))
        print("from B to E:", shown(minutes.range("B", "E")))
        print("all:", shown(minutes))

    # The same code over a part of the topics, as a batch; nothing of the app changes.
    again = app.replay(start=TEN + timedelta(seconds=30))
    print("replayed:", *sorted(record.text or "" for record in again["sales-per-minute"]), sep="\n  ")


if __name__ == "__main__":
    with headrace.Broker() as broker, tempfile.TemporaryDirectory() as state:
        broker.create_topic("sales-per-minute", cleanup_policy="compact")
        main(broker.address, state)
