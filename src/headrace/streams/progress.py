"""How far a running app is: what Spark tells of each query after each micro-batch, in our words.

Pure. Spark's report is a dict: `timestamp`, `batchId`, `numInputRows`, `eventTime`, `stateOperators`, and for each
source `endOffset` and `latestOffset`, which for topics are {"topic": {"0": offset}}. A query that has nothing to do
reports, too, every ten seconds.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

RATE_SECONDS: Final = 5.0  # rates are those of the last seconds: micro-batches are too uneven to be told one by one
LATE_METRIC: Final = "headrace.late."  # begins the names of metrics of our own that count late records
_NO_WATERMARK: Final = "1970-01-01"  # what Spark says before it has seen a row


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """Of one query. `lag` is how many records its topics hold beyond those it has read; None if that is not known.

    `rows` and `late` are of this run; late are those that came too late for their window. `watermark` is an ISO text,
    None without a window or before there was a row. `reported` is Spark's time of the last report.
    """

    query: str
    batch: int = -1
    rows: int = 0
    rows_per_second: float = 0.0
    lag: int | None = None
    watermark: str | None = None
    state_rows: int = 0
    state_bytes: int = 0
    late: int = 0
    reported: str = ""


@dataclass(frozen=True, slots=True)
class AppProgress:
    """`at` and `started` are seconds since 1970; `at` is when this was written."""

    app: str
    bootstrap: str
    master: str
    pid: int
    host: str
    started: float
    at: float
    queries: tuple[QueryProgress, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def app_progress(written: Mapping[str, Any]) -> AppProgress:
    """What `as_json` has made. Raises TypeError or KeyError for anything else."""
    fields = dict(written)
    queries = tuple(QueryProgress(**each) for each in fields.pop("queries"))
    return AppProgress(queries=queries, **fields)


def add(before: QueryProgress, report: Mapping[str, Any]) -> QueryProgress:
    """With one more report of Spark; one that was added already changes nothing."""
    if report["timestamp"] <= before.reported:
        return before
    states = report.get("stateOperators") or ()
    watermark = (report.get("eventTime") or {}).get("watermark")
    lag = _lag(report.get("sources") or ())
    return replace(
        before,
        batch=report["batchId"],
        rows=before.rows + report["numInputRows"],
        lag=before.lag if lag is None else lag,
        watermark=before.watermark if watermark is None or watermark.startswith(_NO_WATERMARK) else watermark,
        state_rows=sum(state.get("numRowsTotal", 0) for state in states),
        state_bytes=sum(state.get("memoryUsedBytes", 0) for state in states),
        late=before.late + sum(state.get("numRowsDroppedByWatermark", 0) for state in states) + _late_letters(report),
        reported=report["timestamp"],
    )


class Rate:
    """Rows per second of the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def at(self, now: float, rows: int) -> float:
        """`rows` is the number so far, at a time that never goes back."""
        self._seen.append((now, rows))
        while len(self._seen) > 2 and self._seen[1][0] <= now - RATE_SECONDS:
            self._seen.popleft()
        since, before = self._seen[0]
        return 0.0 if now <= since else (rows - before) / (now - since)


def _late_letters(report: Mapping[str, Any]) -> int:
    """Those which an app has had sent to its dead letters; Spark never sees them as late."""
    metrics: Mapping[str, Any] = report.get("observedMetrics") or {}
    return sum(values["rows"] for name, values in metrics.items() if name.startswith(LATE_METRIC))


def _lag(sources: Iterable[Mapping[str, Any]]) -> int | None:
    total = None
    for source in sources:
        ends, latest = source.get("endOffset"), source.get("latestOffset")
        if not isinstance(ends, Mapping) or not isinstance(latest, Mapping):
            continue
        for topic, partitions in latest.items():
            for number, offset in partitions.items():
                read = ends.get(topic, {}).get(number, 0)
                total = (total or 0) + max(offset - read, 0)
    return total
