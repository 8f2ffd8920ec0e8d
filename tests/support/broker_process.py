"""`headrace start` as a process of its own: to be fed, starved, killed and looked at from outside.

What it logs goes to a file, so that a test can read it afterwards, and so that a full pipe never stops the broker. The
data directory is the caller's, and outlives the process.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import SystemRandom
from types import TracebackType
from typing import Final, Self

START: Final = (sys.executable, "-c", "from headrace.cli import main; main()", "start")
_READY: Final = "Headrace is ready at "


def _free_port() -> int:
    """One that stays free while the broker is down: of those that the system gives to nobody who does not ask for one.

    Else a client that connects again and again could get the broker's port as its own, and reach itself.
    """
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = SystemRandom().randrange(first // 2, first)
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                sock.bind(("127.0.0.1", port))
                return port


class BrokerProcess:
    """Start, `kill` or `stop`, `start` again; what was running is killed at the end of the `with`."""

    def __init__(
        self,
        directory: Path,
        *,
        configs: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
        wait: bool = True,
    ) -> None:
        """`before` is a command that starts the broker, such as one that gives it a disk of its own."""
        self.data = directory / "data"
        self.log_path = directory / "broker.log"
        self._configs = dict(configs or {})
        self._before = before
        self._process: subprocess.Popen[str] | None = None
        self.port = _free_port()
        self.start(wait=wait)

    def start(self, *, wait: bool = True) -> None:
        """Start it; return when it says that it is ready. Without `wait`, call `wait_ready` or `kill`."""
        assert self._process is None, "it is running"
        sets = [argument for name, value in self._configs.items() for argument in ("--set", f"{name}={value}")]
        command = [*self._before, *START, "--data", str(self.data), "--listen", f"127.0.0.1:{self.port}", *sets]
        with self.log_path.open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith(_READY), f"{line!r}; its log: {self.log_text()}"

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    @property
    def bootstrap(self) -> str:
        """The address as clients want it."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """As a power cut does to the process: at any instruction, without a last word."""
        self._end(signal.SIGKILL)

    def stop(self, *, timeout: float = 120) -> int:
        """As an operator does; its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(timeout)
        self._close()
        return code

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._close()

    def _close(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    # What it looks like from outside

    def log_text(self) -> str:
        return self.log_path.read_text()

    def check_log(self) -> None:
        """An exception that nobody expected is a bug, whatever else went well."""
        text = self.log_text()
        assert "Traceback" not in text, text[-8000:]

    def memory_bytes(self) -> int:
        """Resident now."""
        return self._status("VmRSS")

    def peak_memory_bytes(self) -> int:
        """The most that was ever resident, since the start or `reset_peak`."""
        return self._status("VmHWM")

    def reset_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def _status(self, name: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"the kernel does not tell {name}")

    def count_descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(signal.SIGKILL)
