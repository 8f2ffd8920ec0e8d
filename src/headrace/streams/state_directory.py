"""What an app's state directory holds beside its plan and the checkpoints of its queries, and who runs it.

    plan.json         the plan of the last run
    <query>/          the checkpoint of a query
    @lock             held, as the kernel's lock, for as long as the app runs: a driver that is killed has let go of it
    @progress.json    how far it is, each second; what the last one says stays when it ends
    @start.json       where queries without a checkpoint begin, if a reset has said so
    @reset/           what the last reset has moved aside, for its undoing

No operator can be called by a name with an @ in it, so no checkpoint can be in the way.
"""

import errno
import fcntl
import json
import os
import re
import time
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, Final, Self
from urllib.parse import unquote, urlsplit

from headrace.streams.errors import CannotRunError, PlanError

OWN: Final = "@"  # how names of our own begin
PROGRESS: Final = "@progress.json"
START: Final = "@start.json"
RESET: Final = "@reset"
_LOCK: Final = "@lock"
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_PATIENCE_SECONDS: Final = 0.5
_POLL_SECONDS: Final = 0.02


class AlreadyRunningError(PlanError):
    """The app runs: it is not started a second time, and its state is not touched."""


class RunLock:
    """Held by whoever runs an app or changes its state. Raises AlreadyRunningError if somebody else does."""

    def __init__(self, directory: str, *, app: str) -> None:
        os.makedirs(directory, exist_ok=True)
        self._file: IO[str] | None = open(os.path.join(directory, _LOCK), "a+", encoding="utf-8")  # noqa: SIM115 held
        if not _locked_soon(self._file):
            self._file.seek(0)
            who = self._file.read().strip()
            self._file.close()
            raise AlreadyRunningError(
                f"app {app!r} runs already{f', in process {who}' if who else ''}, with its state in {directory}. "
                "Stop it first; an app that is to run beside it needs another name, and state of its own"
            )
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


def state_path(given: str | os.PathLike[str]) -> str:
    """A directory as a path, also of one that is written as file:///mnt/state.

    Beside checkpoints, which Spark could keep anywhere, there are files here that only a file system has, and a lock.
    Raises CannotRunError for hdfs:, s3a: and the like.
    """
    text = os.fspath(given)
    if not _URL.match(text):
        return text
    url = urlsplit(text)
    if url.scheme != "file" or url.netloc not in ("", "localhost"):
        raise CannotRunError(
            f"state is {text!r}: it must be a directory, by its path or as file:///path; on a cluster, one that the "
            "driver and all workers see under the same path, such as a network file system"
        )
    return unquote(url.path)


def is_running(directory: str) -> bool:
    """Whether an app runs with its state there."""
    try:
        with open(os.path.join(directory, _LOCK), encoding="utf-8") as file:
            return not _locked(file, shared=True)
    except FileNotFoundError:
        return False


def checkpoints(directory: str) -> tuple[str, ...]:
    """The names of the queries that have one."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except FileNotFoundError:
        return ()
    return tuple(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(OWN))


def read_json(directory: str, name: str) -> Any:
    """None if it is not there. Raises PlanError if it is not JSON."""
    path = os.path.join(directory, name)
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise PlanError(f"{path} cannot be read ({error}): it is written by Headrace; remove it to go on") from None


def write_json(directory: str, name: str, value: Any, *, durably: bool = True) -> None:
    """Whole or not at all, also after a crash if `durably`."""
    path = os.path.join(directory, name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.flush()
        if durably:
            os.fsync(file.fileno())
    os.replace(path + ".new", path)


def remove(directory: str, name: str) -> None:
    with suppress(FileNotFoundError):
        os.remove(os.path.join(directory, name))


def _locked_soon(file: IO[str]) -> bool:
    """Somebody who only asks has the lock for a moment, too."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while not _locked(file):
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _locked(file: IO[str], *, shared: bool = False) -> bool:
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        return False
    return True
