"""Processors of tests, in a module that loads little (see `streams_fold_functions.py`)."""

from collections.abc import Iterator
from datetime import date
from typing import Any

from headrace.streams.processor import Context

Rows = Iterator[dict[str, Any]]


def visit(row: dict[str, Any], context: Context) -> Rows:
    """A visit is over 30 s after its last click; how often each page was seen is kept for ever."""
    if row["page"] == "bad":
        context.list("pages").append(page="bad")
        raise ValueError("bad page")
    last = context.value("last")
    before = last.get()
    if before is not None:
        context.timers.cancel(before["due"])
    last.set(due=context.timers.after("30s"), page={"name": row["page"], "tags": [row["page"]]}, day=date(2026, 1, 1))
    context.list("pages").append(page=row["page"])
    seen = context.map("seen")
    n = (seen.get(row["page"]) or {"n": 0})["n"] + 1
    seen.set(row["page"], n=n)
    yield {"what": f"{row['page']} {n}", "pages": None}


def visit_over(context: Context) -> Rows:
    last = context.value("last").get()
    assert last is not None
    assert last["due"] == context.time
    assert context.timers.all() == []
    pages = [row["page"] for row in context.list("pages")]
    if "broken" in pages:
        raise RuntimeError("broken visit")
    context.value("last").clear()
    context.list("pages").clear()
    yield {"what": f"over after {last['page']['name']} on {last['day']:%A}", "pages": pages}


def remind(row: dict[str, Any], context: Context) -> Rows:
    once = context.value("once")
    is_new = once.get() is None
    once.set(yes=True)
    context.timers.after("1h")
    yield {"what": "new" if is_new else "known"}


def reminded(context: Context) -> Rows:
    yield {"what": "timer"}


def counted(row: dict[str, Any], context: Context) -> dict[str, Any]:
    n = (context.value("n").get() or {"n": 0})["n"] + row["n"]
    context.value("n").set(n=n)
    return {"n": n}


def keep(row: dict[str, Any], context: Context) -> dict[str, Any]:
    total = context.value("total")
    before = total.get()
    total.set(x="two" if row["n"] == 2 else row["n"])
    return {"n": "three" if row["n"] == 3 else row["n"], "before": None if before is None else before["x"]}
