"""Two streams joined within a time: join, left_join, outer_join; and deduplicate before that.

Run it: `python examples/pipelines/stream_joins.py` (needs `pip install headrace[spark]`)
"""

from headrace.streams import App, Json

app = App("stream-joins", "localhost:9092", grace="10s")
orders = app.stream("orders", value=Json("id long, item string")).deduplicate("id", within="10m")
payments = app.stream("payments", value=Json("id long, paid double"))

# A payment comes up to five minutes after its order, and not before it.
orders.join(payments, on="id", within=("0s", "5m")).to("paid")
orders.left_join(payments, on="id", within=("0s", "5m")).to("paid-or-not")
# Up to five minutes before or after one another.
orders.outer_join(payments, on="id", within="5m").to("all")


if __name__ == "__main__":
    with app.test() as test:
        for second, (number, item) in enumerate([(1, "pen"), (2, "ink"), (1, "pen")]):  # the first one comes twice
            test.feed("orders", {"id": number, "item": item}, at=f"2026-01-01T10:00:0{second}Z")
        test.feed("payments", {"id": 1, "paid": 2.5}, {"id": 3, "paid": 9.0}, at="2026-01-01T10:01:00Z")
        test.run()
        print("at once")
        for topic in ("paid", "paid-or-not", "all"):
            print(f"  {topic}:", *(record.text for record in test.read(topic)))
        # Much later on both sides: no partner can come any more.
        for topic, row in (("orders", {"id": 4, "item": "cup"}), ("payments", {"id": 5, "paid": 1.0})):
            test.feed(topic, row, at="2026-01-01T10:20:00Z")
        test.run()
        print("when it is too late for a partner")
        for topic in ("paid", "paid-or-not", "all"):
            print(f"  {topic}:", *sorted(record.text for record in test.read(topic)))
