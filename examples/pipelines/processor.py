"""Functions with state of their own, per key: values, lists and maps, times to live, and timers of both kinds.

Run it: `python examples/pipelines/processor.py` (needs `pip install headrace[spark]`)
"""

from collections.abc import Iterator
from typing import Any

from headrace.streams import App, Context, Json, list_state, map_state, value_state

Row = dict[str, Any]

app = App("processor", "localhost:9092", grace="10s")
clicks = app.stream("clicks", key="user", value=Json("user string, page string"))


def visit(click: Row, context: Context) -> None:
    """Collect, and wait for the end of the visit."""
    pages, seen = context.list("pages"), context.map("seen")
    pages.append(page=click["page"])
    seen.set(click["page"], n=(seen.get(click["page"]) or {"n": 0})["n"] + 1)
    context.timers.after("30m")


def is_quiet(context: Context) -> Iterator[Row]:
    """Half an hour after a click. In event time: it is over when a later record says so."""
    if not context.timers.all():  # there was no click since
        path = [row["page"] for row in context.list("pages")]
        most = max(context.map("seen").items(), key=lambda item: item[1]["n"])[0]
        yield {"path": path, "most": most}
        context.list("pages").clear()
        context.map("seen").clear()


def first_today(click: Row, context: Context) -> Iterator[Row]:
    """What is remembered is forgotten by the clock, a day after it was set."""
    if context.value("welcomed").get() is None:
        context.value("welcomed").set(page=click["page"])
        context.timers.after("1m")
        yield {"text": f"welcome to {click['page']}"}


def remind(context: Context) -> Row:
    """A minute later by the clock, whether anybody clicks or not."""
    welcomed = context.value("welcomed").get()
    return {"text": f"still interested in {welcomed['page'] if welcomed else 'us'}?"}


clicks.process(
    visit,
    "user string, path array<string>, most string",
    state={"pages": list_state("page string"), "seen": map_state("page string", "n long")},
    timers="event",
    on_timer=is_quiet,
).to("visits")
clicks.process(
    first_today,
    "user string, text string",
    state={"welcomed": value_state("page string", ttl="1d")},
    timers="processing",
    on_timer=remind,
).to("messages")


if __name__ == "__main__":
    with app.test() as test:
        for minute, page in enumerate(["home", "shop", "home"]):
            test.feed("clicks", {"user": "ann", "page": page}, at=f"2026-01-01T10:0{minute}:00Z")
        test.run()
        print("messages:", *(record.text for record in test.read("messages")))
        test.move_clock("2m")
        print("two minutes later:", *(record.text for record in test.read("messages")))
        test.feed("clicks", {"user": "bob", "page": "shop"}, at="2026-01-01T11:00:00Z")
        test.run()
        print("visits:", *(record.text for record in test.read("visits")))
