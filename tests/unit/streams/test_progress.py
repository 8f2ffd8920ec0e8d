from typing import Any

from headrace.streams.progress import AppProgress, QueryProgress, Rate, add, app_progress


def report(number: int, **fields: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-01-01T00:00:{number:02d}.000Z", "batchId": number, "numInputRows": 10, **fields}


def source(end: int | None, latest: int) -> dict[str, Any]:
    return {"endOffset": None if end is None else {"orders": {"0": end}}, "latestOffset": {"orders": {"0": latest}}}


def test_reports_add_up_and_none_counts_twice() -> None:
    made = add(add(QueryProgress("users"), report(1)), report(2))
    assert (made.rows, made.batch) == (20, 2)
    assert add(made, report(2)) == made
    assert add(made, report(1)) == made


def test_lag_is_what_the_topics_hold_beyond_what_was_read() -> None:
    made = add(QueryProgress("users"), report(1, sources=[source(20, 25), source(3, 3)]))
    assert made.lag == 5
    assert add(made, report(2, sources=[source(None, 30)])).lag == 5, "one that says nothing leaves it as it was"
    new = {"endOffset": {"orders": {"0": 2}}, "latestOffset": {"orders": {"0": 2, "1": 7}}}
    assert add(made, report(2, sources=[new])).lag == 7, "a partition that is not read yet counts whole"
    assert add(QueryProgress("users"), report(1, sources=[{"endOffset": 3, "latestOffset": 9}])).lag is None


def test_state_watermark_and_late_rows_of_all_operators() -> None:
    states = [
        {"numRowsTotal": 3, "memoryUsedBytes": 100, "numRowsDroppedByWatermark": 2},
        {"numRowsTotal": 4, "memoryUsedBytes": 50},
    ]
    time = {"watermark": "2026-01-01T00:00:00.000Z"}
    made = add(QueryProgress("users"), report(1, stateOperators=states, eventTime=time))
    assert (made.state_rows, made.state_bytes, made.late, made.watermark) == (7, 150, 2, time["watermark"])
    made = add(made, report(2, stateOperators=states))
    assert (made.state_rows, made.late, made.watermark) == (7, 4, time["watermark"])
    before = add(QueryProgress("users"), report(1, eventTime={"watermark": "1970-01-01T00:00:00.000Z"}))
    assert before.watermark is None


def test_a_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate()
    assert rate.at(0, 0) == 0
    assert rate.at(1, 100) == 100
    assert rate.at(5, 100) == 20
    assert rate.at(6, 100) == 0, "what came within the first second is more than five seconds ago"
    assert rate.at(11, 600) == 100


def test_it_is_written_as_json_and_read_again() -> None:
    made = AppProgress("sales", "localhost:9092", "local[*]", 7, "here", 1.0, 2.0, (QueryProgress("users", lag=3),))
    assert app_progress(made.as_json()) == made
