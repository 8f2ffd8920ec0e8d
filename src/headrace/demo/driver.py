"""The pipeline's driver as processes of their own: Python, its JVM and its workers, to be killed and started again."""

import contextlib
import os
import signal
import subprocess
import sys
from typing import Final

_TAIL_LINES: Final = 15  # of what it said last: enough to see why it ended


class DriverFailedError(RuntimeError):
    """The driver has ended by itself; the message has the last lines of what it said."""


class Driver:
    """All that it leaves behind is in one directory: checkpoints, what it says, and what Spark would clean up."""

    def __init__(self, master: str, address: str, directory: str, *, max_offsets: int) -> None:
        checkpoints = os.path.join(directory, "checkpoints")
        self._arguments = [master, address, checkpoints, str(max_offsets)]
        self._scratch = os.path.join(directory, "scratch")
        self.log = os.path.join(directory, "driver.log")
        self._verdict = os.path.join(directory, "driver.out")  # apart: Spark goes on complaining after the end
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it has not been started"
        return self._process.pid

    def start(self) -> None:
        os.makedirs(self._scratch, exist_ok=True)
        with open(self.log, "ab") as log, open(self._verdict, "wb") as verdict:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headrace.demo.pipeline", *self._arguments],
                env={**os.environ, "TMPDIR": self._scratch, "SPARK_LOCAL_DIRS": self._scratch},
                stdin=subprocess.DEVNULL,
                stdout=verdict,
                stderr=log,
                start_new_session=True,  # so that its JVM can be killed with it; and Ctrl-C is for us, not for it
            )

    def check(self) -> None:
        """Raises DriverFailedError if it does not run any more."""
        if self._process is not None and self._process.poll() is not None:
            raise DriverFailedError(
                f"the pipeline's driver has ended with exit code {self._process.returncode}: {self._why()}"
            )

    def kill(self) -> None:
        """Python and its JVM, with -9, at once: neither can finish anything."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _why(self) -> str:
        """What it said about its end; if nothing, what it complained about last."""
        for path in (self._verdict, self.log):
            with open(path, encoding="utf-8", errors="replace") as file:
                if lines := file.readlines():
                    return "".join(lines[-_TAIL_LINES:]).rstrip()
        return "it said nothing"
