"""Groups, and what is computed over them: count, sum_, min_, max_, avg, collect, first, latest. Spark does the work.

Run it: `python examples/pipelines/aggregates.py` (needs `pip install headrace[spark]`)
"""

from headrace.streams import App, Json, avg, col, collect, count, first, fn, latest, max_, min_, sum_, when

app = App("aggregates", "localhost:9092")
orders = app.stream("orders", value=Json("id long, user string, amount double"))

per_user = orders.group_by("user").agg(
    n=count(),
    total=sum_(col.amount),
    least=min_(col.amount),
    most=max_(col.amount),
    mean=avg(col.amount),
    first=first(col.id),
    latest=latest(col.id),
    ids=collect(col.id),
)
# A table has rows like a stream; this one sorts an array, whose order is not promised.
per_user.select("n", "total", "least", "most", "mean", "first", "latest", ids=fn.array_sort(col.ids)).to("per-user")

# By anything that can be computed.
orders.group_by(size=when(col.amount > 100, "big").otherwise("small")).count("orders").to("per-size")


if __name__ == "__main__":
    with app.test() as test:
        test.feed("orders", {"id": 1, "user": "ann", "amount": 50.0}, at="2026-01-01T10:00:00Z")
        test.feed("orders", {"id": 2, "user": "bob", "amount": 150.0}, at="2026-01-01T10:00:01Z")
        test.feed("orders", {"id": 3, "user": "ann", "amount": 250.0}, at="2026-01-01T10:00:02Z")
        test.run()
        for topic in ("per-user", "per-size"):
            for record in sorted(test.read(topic)):
                print(f"{topic}: {record.text}")
        print("One more order of Bob's, and only his row and that of its size change.")
        test.feed("orders", {"id": 4, "user": "bob", "amount": 10.0}, at="2026-01-01T10:00:03Z")
        test.run()
        for topic in ("per-user", "per-size"):
            for record in test.read(topic):
                print(f"{topic}: {record.text}")
