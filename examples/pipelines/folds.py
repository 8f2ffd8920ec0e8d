"""Groups folded by functions of your own: reduce, aggregate, and cogroup, which folds several streams into one table.

Run it: `python examples/pipelines/folds.py` (needs `pip install headrace[spark]`)
"""

from typing import Any

from headrace.streams import App, Json

Row = dict[str, Any]

app = App("folds", "localhost:9092")
orders = app.stream("orders", key="user", value=Json("user string, id long, amount double"))
payments = app.stream("payments", key="user", value=Json("user string, paid double"))


def larger(one: Row, other: Row) -> Row:
    return one if one["amount"] >= other["amount"] else other


def remember(so_far: Row, order: Row) -> Row:
    return {"n": so_far["n"] + 1, "ids": [*so_far["ids"], order["id"]][-2:]}  # the last two


def owe(so_far: Row, order: Row) -> Row:
    return {"owes": so_far["owes"] + order["amount"]}


def pay(so_far: Row, payment: Row) -> Row | None:
    left = so_far["owes"] - payment["paid"]
    return {"owes": left} if left else None  # None: the row is deleted, and the next order begins a new one


orders.group_by("user").reduce(larger).to("largest")
orders.group_by("user").aggregate(lambda: {"n": 0, "ids": []}, remember, "n long, ids array<long>").to("last-two")
balances = orders.group_by("user").cogroup(owe).cogroup(payments.group_by("user"), pay)
balances.aggregate(lambda: {"owes": 0.0}, "owes double").to("balances")


if __name__ == "__main__":
    with app.test() as test:
        for number, (user, amount) in enumerate([("ann", 50.0), ("bob", 20.0), ("ann", 70.0), ("ann", 10.0)]):
            row = {"id": number, "user": user, "amount": amount}
            test.feed("orders", row, at=f"2026-01-01T10:00:0{number}Z")
        test.run()
        for topic in ("largest", "last-two", "balances"):
            print(topic, *(value for _, value in sorted(test.table(topic).items())), sep="\n  ")
        test.feed("payments", {"user": "bob", "paid": 20.0}, {"user": "ann", "paid": 100.0}, at="2026-01-01T10:01:00Z")
        test.run()
        print("balances, when Bob has paid and Ann almost", *test.table("balances").values(), sep="\n  ")
