"""The pipeline's driver as processes of their own: Python, its JVM and its workers, to be killed and started again."""

import contextlib
import os
import signal
import subprocess
import sys
from importlib.resources import files
from typing import Final

PIPELINE: Final = str(files("headrace.demo").joinpath("pipeline.py"))
_COMMAND: Final = "from headrace.cli import main; main()"  # `headrace`, which need not be on the PATH
_TAIL_LINES: Final = 15  # of what it said last: enough to see why it ended


class DriverFailedError(RuntimeError):
    """The driver has ended by itself; the message has the last lines of what it said."""


class Driver:
    """`headrace pipeline run`, as anybody would start it.

    All that it leaves behind is in one directory: its state, what it says, and what Spark would clean up.
    """

    def __init__(self, master: str, address: str, directory: str, *, max_per_trigger: int) -> None:
        self.state = os.path.join(directory, "state")
        where = ["--master", master, "--bootstrap", address, "--state", self.state]
        self._arguments = ["pipeline", "run", PIPELINE, *where, "--max-per-trigger", str(max_per_trigger)]
        self._scratch = os.path.join(directory, "scratch")
        self.log = os.path.join(directory, "driver.log")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it has not been started"
        return self._process.pid

    def start(self) -> None:
        os.makedirs(self._scratch, exist_ok=True)
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _COMMAND, *self._arguments],
                env={**os.environ, **self._environment()},
                stdin=subprocess.DEVNULL,
                stdout=log,
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

    def _environment(self) -> dict[str, str]:
        """What a killed JVM leaves behind is then where everything else of the demo is, and goes with it.

        It lives for less than a minute: a compiler that optimises would be busy for longer than it pays.
        """
        java = f'"-Djava.io.tmpdir={self._scratch}" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC'
        return {"TMPDIR": self._scratch, "SPARK_LOCAL_DIRS": self._scratch, "JDK_JAVA_OPTIONS": java}

    def _why(self) -> str:
        """What it said last."""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-_TAIL_LINES:]).rstrip() or "it said nothing"
