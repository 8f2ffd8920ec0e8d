"""Poison pills and late records: they go to the dead letters, with their bytes and the reason, and the rest goes on.

Run it: `python examples/pipelines/dead_letters.py` (needs `pip install headrace[spark]`)
"""

from typing import Any

from headrace.streams import App, Json, col, sum_, tumbling

app = App("dead-letters", "localhost:9092", dead_letters="orders.dead", late="dead_letters", grace="10s")
orders = app.stream("orders", value=Json("id long, amount double"), name="orders")


def small(order: dict[str, Any]) -> None:
    if order["amount"] > 1_000:
        raise ValueError(f"an amount of {order['amount']}")


# A check is an expression, which Spark computes. `peek` passes each row on, unless its function raises.
good = orders.check(col.amount > 0, "amount must be positive", name="positive").peek(small, name="small")
good.group_by("id").windowed(tumbling("1m")).agg(total=sum_(col.amount), name="minutes").to("totals")


if __name__ == "__main__":
    with app.test() as test:
        test.feed(
            "orders", {"id": 1, "amount": 5.0}, b"what is this?", {"id": 2, "amount": -3.0}, at="2026-01-01T10:00:30Z"
        )
        test.feed("orders", {"id": 3, "amount": 5000.0}, at="2026-01-01T10:00:30Z")
        test.feed("orders", {"id": 1, "amount": 1.0}, at="2026-01-01T10:05:00Z")
        test.run()
        test.feed(
            "orders", {"id": 1, "amount": 2.0}, at="2026-01-01T10:00:40Z"
        )  # its minute is over, and the grace too
        test.run()
        print("totals:", *sorted(str(row["total"]) for row in test.table("totals").values()))
        for letter in sorted(test.read("orders.dead"), key=lambda letter: letter.text or ""):
            said = {name: (value or b"").decode() for name, value in letter.headers}
            print(letter.text)
            print(f"  died in {said['headrace.operator']}: {said['headrace.error']}")
