"""Tables: rows that change and go. filter, select, group_by, to_stream, to_table; a tombstone deletes its key.

Run it: `python examples/pipelines/tables.py` (needs `pip install headrace[spark]`)
"""

from headrace.streams import App, Json, avg, col, count, sum_

app = App("tables", "localhost:9092")
users = app.table("users", key="user", value=Json("user string, tier string, points long"))

users.filter(col.points > 10).select("points").to("rich")  # one who is not rich any more is deleted there
users.group_by("tier").agg(n=count(), points=sum_(col.points), mean=avg(col.points)).to("tiers")  # one who moves leaves
users.to_stream().select("points").to("changes")  # every change; of a deletion the key alone is there

# A stream is a table if only the latest row of each key counts.
logins = app.stream("logins", value=Json("user string, device string"))
logins.select_key("user").to_table().to("last-device")


if __name__ == "__main__":
    with app.test() as test:
        test.feed("users", {"user": "ann", "tier": "gold", "points": 50}, {"user": "bob", "tier": "gold", "points": 5})
        test.feed("logins", {"user": "ann", "device": "phone"}, {"user": "ann", "device": "laptop"})
        test.run()
        for topic in ("rich", "tiers", "last-device"):
            print(f"{topic}: {test.table(topic)}")
        test.feed("users", {"user": "ann", "tier": "tin", "points": 3})
        test.feed("users", None, key="bob")
        test.run()
        print("Ann has spent her points, and Bob is gone.")
        for topic in ("rich", "tiers"):
            print(f"{topic}: {test.table(topic)}")
        print("changes:", *(f"{record.key!r} {record.text}" for record in test.read("changes")), sep="\n  ")
