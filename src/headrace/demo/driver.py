"""The pipeline's driver as processes of their own: Python, its JVM and its workers, to be killed and started again."""

import contextlib
import os
import signal
import subprocess
import sys
from typing import Final

STOP_SECONDS: Final = 60.0
_TAIL_LINES: Final = 15  # of what it said last: enough to see why it ended


class DriverFailedError(RuntimeError):
    """The driver has ended by itself; the message has the last lines of what it said."""


class Driver:
    """What it prints goes into a file of the directory where its checkpoints are, too."""

    def __init__(self, master: str, address: str, directory: str, *, max_offsets: int) -> None:
        checkpoints = os.path.join(directory, "checkpoints")
        self._arguments = [master, address, checkpoints, str(max_offsets)]
        self.log = os.path.join(directory, "driver.log")
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it has not been started"
        return self._process.pid

    def start(self) -> None:
        self.starts += 1
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headrace.demo.pipeline", *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that its JVM can be killed with it; and Ctrl-C is for us, not for it
            )

    def check(self) -> None:
        """Raises DriverFailedError if it does not run any more."""
        if self._process is not None and self._process.poll() is not None:
            raise DriverFailedError(
                f"the pipeline's driver has ended with exit code {self._process.returncode}; it said:\n{self._tail()}"
            )

    def kill(self) -> None:
        """Python and its JVM, with -9, at once: neither can finish anything."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Let it end in peace; if it does not, it is killed."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
            self.kill()

    def _tail(self) -> str:
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-_TAIL_LINES:]).rstrip()
