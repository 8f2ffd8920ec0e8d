"""Telling how far a running app is: in its state directory each second, and to whoever asks."""

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql.streaming import StreamingQuery

from headrace.streams.progress import AppProgress, QueryProgress, Rate, add
from headrace.streams.state_directory import PROGRESS, write_json

EVERY_SECONDS: Final = 1.0
_LOG: Final = logging.getLogger(__name__)


class Reporter:
    """A thread from `start` to `stop`; queries may be added meanwhile."""

    def __init__(self, app: str, bootstrap: str, master: str, state: str) -> None:
        self._state = state
        self._queries: dict[str, StreamingQuery] = {}
        self._progress: dict[str, QueryProgress] = {}
        self._rates: dict[str, Rate] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._about: dict[str, Any] = {
            "app": app,
            "bootstrap": bootstrap,
            "master": master,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started": time.time(),
        }
        self._thread = threading.Thread(target=self._run, name=f"headrace-progress-{app}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, name: str, query: StreamingQuery) -> None:
        with self._lock:
            self._queries[name] = query
            self._progress[name] = QueryProgress(name)
            self._rates[name] = Rate()

    def stop(self) -> None:
        """The last words are written when the queries have ended. More than one call does no harm."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def now(self) -> AppProgress:
        with self._lock:
            for name, query in self._queries.items():
                self._progress[name] = _with_reports(self._progress[name], query)
            moment = time.monotonic()
            queries = tuple(
                replace(each, rows_per_second=self._rates[name].at(moment, each.rows))
                for name, each in self._progress.items()
            )
            return AppProgress(**self._about, at=time.time(), queries=queries)

    def _run(self) -> None:
        ending = False
        try:
            while not ending:
                ending = self._stopping.wait(EVERY_SECONDS)
                write_json(self._state, PROGRESS, self.now().as_json(), durably=False)
        except (
            OSError,
            Py4JError,
        ) as error:  # a full disk, a JVM that is gone: whatever it is, the app is not its victim
            _LOG.warning("The progress of %s cannot be told any more: %s", self._about["app"], error)


def _with_reports(before: QueryProgress, query: StreamingQuery) -> QueryProgress:
    """All that Spark has said since, oldest first; as JSON, since each field would be a call into the JVM."""
    java: Any = query._jsq
    reports: list[Mapping[str, Any]] = []
    for each in reversed(list(java.recentProgress())):
        if each.timestamp() <= before.reported:
            break
        reports.append(json.loads(each.json()))
    made = before
    for report in reversed(reports):
        made = add(made, report)
    return made
