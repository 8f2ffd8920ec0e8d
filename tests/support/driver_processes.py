"""Drivers of Spark in processes of their own, with a JVM each: started, waited for, and killed, the JVM and all."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

DRIVER_SECONDS: Final = 600  # on a machine that others use, a JVM may take minutes
GIVEN_UP: Final = "Python worker failed to connect back"  # within ten seconds, which no setting of Spark changes


class DriverProcesses:
    """One application, started again and again: `python -m <module>`, with what it is told as JSON."""

    def __init__(self, module: str, log: Path, told: dict[str, Any]) -> None:
        self._module = module
        self._log = log
        self.told = told

    def start(self, **more: Any) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", self._module, json.dumps(self.told | more)]
        with self._log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def run(self, **more: Any) -> int:
        """Until it ends by itself; how. One that Spark gave up is started again, as whoever watches over it would."""
        while True:
            process = self.start(**more)
            try:
                code = process.wait(DRIVER_SECONDS)
            finally:
                end(process)
            if code != 1 or GIVEN_UP not in self.log_tail():
                return code

    def log_tail(self) -> str:
        return self._log.read_text()[-4000:]


def end(process: "subprocess.Popen[bytes]") -> None:
    """All of it, the JVM included."""
    with suppress(ProcessLookupError):  # it may have ended by itself
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
