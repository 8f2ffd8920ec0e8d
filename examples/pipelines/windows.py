"""Windows over event time: tumbling, hopping, sliding, session; grace for late rows; changes or final results.

Run it: `python examples/pipelines/windows.py` (needs `pip install headrace[spark]`)
"""

from headrace.streams import App, Json, Record, hopping, session, sliding, tumbling

app = App("windows", "localhost:9092", grace="1m")  # a row may come a minute after its time
clicks = app.stream("clicks", value=Json("user string"))
users = clicks.group_by("user")

users.windowed(tumbling("1m")).count("clicks").to("each-minute")  # a record for each change
users.windowed(tumbling("1m")).count("clicks").emit("final").to("each-minute-final")  # one record, when it is over
users.windowed(hopping("1m", "30s")).count("clicks").emit("final").to("a-minute-every-30s")
users.windowed(sliding("20s")).count("clicks").emit("final").to("within-20s")
users.windowed(session("20s")).count("clicks").emit("final").to("visits")

TOPICS = ("each-minute", "each-minute-final", "a-minute-every-30s", "within-20s", "visits")


def shown(record: Record) -> str:
    row = record.json
    start, end = (row[column][11:19] for column in ("window_start", "window_end"))
    return f"{start} to {end}: {row['clicks']}"


if __name__ == "__main__":
    with app.test() as test:
        for second in (10, 20, 45):
            test.feed("clicks", {"user": "ann"}, at=f"2026-01-01T10:00:{second}Z")
        test.run()
        test.feed("clicks", {"user": "ann"}, at="2026-01-01T10:00:05Z")  # out of order, and within the grace
        test.run()
        test.feed("clicks", {"user": "bob"}, at="2026-01-01T10:05:00Z")  # so late that all windows of Ann's are over
        test.run()
        for topic in TOPICS:
            of_ann = [record for record in test.read(topic) if record.json["user"] == "ann"]
            print(topic, *map(shown, sorted(of_ann, key=lambda record: record.json["window_start"])), sep="\n  ")
