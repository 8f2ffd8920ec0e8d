"""Compaction has a process of its own: it computes for minutes, and in a thread all requests would wait meanwhile.

Python runs one thread at a time. A request lets go of the interpreter at each of its system calls, and a thread that
computes keeps it for 5 ms then. Measured beside a compaction of 3 million records: 7 ms instead of 0.1 for a record,
and 2,000 to 18,000 small requests per second instead of 300,000.

A round is a plan, which is data, and so is its outcome (`log.cleaner_run`): both go through pipes. The process begins
with the first round that is due and ends when none is left. Where none can begin, rounds run in the worker's thread.
"""

import contextlib
import logging
import os
import pickle
import select
import signal
import subprocess
import sys
from typing import Final

from headrace.log.cleaner_run import CleaningOutcome, CleaningPlan, Pause
from headrace.log.fs import RealFileSystem

_LOG: Final = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 0.02  # between two looks at a pipe; meanwhile the worker does what has come
_END_SECONDS: Final = 1.0  # a process that was killed may still have to wait for the disk
# The modules of the child are those of this process, wherever it has them from.
_PROGRAM: Final = "import sys; sys.path[:] = {path!r}; from headrace.log.cleaner_child import main; main({parent})"


class CleanerProcess:
    """Rounds of compaction, one at a time. For the worker's thread, and for others when that has ended."""

    __slots__ = ("_process",)

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_there(self) -> bool:
        return self._process is not None

    def run(self, plan: CleaningPlan, pause: Pause) -> CleaningOutcome:
        """As `CleaningPlan.run`. Raises what `pause` does; then nothing goes on."""
        if not isinstance(plan.fs, RealFileSystem):
            return plan.run(pause)  # nobody else sees those files
        pause(0)
        try:
            process = self._process or self._start()
        except OSError as error:
            return _run_here(plan, pause, str(error))
        try:
            return _ask(process, plan, pause)
        except (OSError, EOFError, pickle.UnpicklingError):
            self.close()
            code = process.returncode or -signal.SIGKILL  # which we sent, and it still waits for the disk
            if code > 0:  # it was no Python, or none that finds its modules
                return _run_here(plan, pause, f"{sys.executable} ended with {code}")
            plan.discard()
            ended = f"the process that compacts was ended by signal {-code}"
            return CleaningOutcome((), plan.first_dirty_offset, 0, abandoned=True, no_room=ended)
        except BaseException:
            self.close()
            raise

    def _start(self) -> subprocess.Popen[bytes]:
        if not sys.executable:
            raise OSError("nobody knows where the interpreter is")
        program = _PROGRAM.format(path=sys.path, parent=os.getpid())
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for who has started it
        )
        return self._process

    def close(self) -> None:
        """End it, whatever it does."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _run_here(plan: CleaningPlan, pause: Pause, why: str) -> CleaningOutcome:
    _LOG.warning("compaction has no process of its own, and slows requests down: %s", why)
    return plan.run(pause)


def _ask(process: subprocess.Popen[bytes], plan: CleaningPlan, pause: Pause) -> CleaningOutcome:
    """Raises OSError, EOFError, UnpicklingError if it has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    rest = memoryview(pickle.dumps(plan))
    while rest:
        _await(process.stdin.fileno(), select.POLLOUT, pause)
        rest = rest[os.write(process.stdin.fileno(), rest[: select.PIPE_BUF]) :]
    _await(process.stdout.fileno(), select.POLLIN, pause)
    outcome: CleaningOutcome = pickle.load(process.stdout)
    return outcome


def _await(pipe: int, event: int, pause: Pause) -> None:
    """Until it may be read or written without waiting, or has ended."""
    poll = select.poll()
    poll.register(pipe, event)
    while not poll.poll(0):
        pause(_LOOK_SECONDS)
