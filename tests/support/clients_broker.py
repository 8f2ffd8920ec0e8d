"""`headrace start` as a process of its own, for clients that nobody here wrote.

The port stays the same from start to start, as clients expect of a broker that comes back. It lies below the range from
which the kernel gives out ports: a client that keeps dialling a free port of that range on loopback may be given the
very same one for its own side, connect to itself, and hold the port against the broker.
"""

import atexit
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

READY_SECONDS: Final = 30.0
STOP_SECONDS: Final = 30.0
START_ATTEMPTS: Final = 5
CONDITION_SECONDS: Final = 30.0
_COMMAND: Final = (sys.executable, "-c", "from headrace.cli import main; main()", "start")
_LOWEST_PORT: Final = 10_000
_KERNELS_PORTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


class BrokerProcessError(AssertionError):
    """The broker did not start or stop as it should; the message has its output."""


class HeadraceProcess:
    """A broker on `directory`, reached at `address`."""

    def __init__(self, directory: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self.data = directory / "data"
        self.address = ""
        self._log_file = directory / "broker.log"
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None:
            return
        if kind is None:
            self.stop()
        else:
            self.kill()

    def start(self) -> None:
        """Start, and return when clients can connect; again on the same port if it ran before."""
        assert self._process is None, "already running"
        if self.address:
            self._start(self.address)
            return
        for attempt in range(START_ATTEMPTS):
            address = f"127.0.0.1:{_lasting_port()}"
            try:
                self._start(address)
            except BrokerProcessError as error:  # somebody else may have been faster
                if attempt + 1 == START_ATTEMPTS or "in use" not in str(error):
                    raise
            else:
                self.address = address
                return

    def _start(self, address: str) -> None:
        self._log_file.parent.mkdir(parents=True, exist_ok=True)
        chosen = [argument for name, value in self._settings.items() for argument in ("--set", f"{name}={value}")]
        command = [*_COMMAND, "--data", str(self.data), "--listen", address, *chosen]
        with self._log_file.open("a") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, errors="replace"
            )
        self._process = process
        atexit.register(self.kill)  # whatever a test forgot: no broker outlives the tests
        assert process.stdout is not None
        if not process.stdout.readline().startswith("Headrace is ready"):
            self.kill()
            raise BrokerProcessError(f"headrace did not start:\n{self.log_tail()}")

    def stop(self) -> None:
        """Stop as an operator would: SIGTERM, and a clean end."""
        assert self._process is not None, "not running"
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise BrokerProcessError(f"headrace did not stop within {STOP_SECONDS} s:\n{self.log_tail()}") from None
        finally:
            self.kill()
        if code != 0:
            raise BrokerProcessError(f"headrace ended with {code}:\n{self.log_tail()}")

    def kill(self) -> None:
        """Stop as a crash would: SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def log_tail(self) -> str:
        return "\n".join(self.log_text().splitlines()[-40:])

    def log_text(self) -> str:
        return self._log_file.read_text(errors="replace") if self._log_file.exists() else ""


def _lasting_port() -> int:
    """A loopback port that nobody listens on now, and that the kernel gives to nobody else."""
    lowest_of_kernel = int(_KERNELS_PORTS.read_text().split()[0]) if _KERNELS_PORTS.exists() else 32_768
    while True:
        port = random.randrange(_LOWEST_PORT, max(lowest_of_kernel, _LOWEST_PORT + 1000))
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Return when `condition` holds; fail, naming `what`, if it never does."""
    deadline = time.monotonic() + CONDITION_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"in {CONDITION_SECONDS} s it did not happen that {what}"
        time.sleep(0.02)  # the condition is polled, with a deadline
