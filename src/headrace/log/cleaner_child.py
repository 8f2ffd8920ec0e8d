"""The inside of the process that compacts: plans come in, outcomes go out, one after the other.

It ends with whoever has started it, in the middle of a round if need be: what a round has written so far, the next one
removes. Another broker may soon work in the same directory, and so may its own process that compacts. Should this one
be late to notice, as one that waits for a slow disk may be, then that one waits until this one is gone.
"""

import fcntl
import os
import pickle
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

from headrace.log.cleaner_run import CleaningPlan

NICENESS: Final = 10  # requests come first
_LOOK_SECONDS: Final = 1.0


def main(parent: int) -> NoReturn:
    """Serve whoever has started this process, whose number is `parent`, by its standard input and output."""
    os.nice(NICENESS)
    source, target = sys.stdin.buffer, sys.stdout.buffer

    def something_comes(seconds: float) -> bool:
        # The pipe ends with the parent, unless a process that it has forked holds it open.
        comes = bool(select.select([source], [], [], seconds)[0])
        if not comes and os.getppid() != parent:
            os._exit(0)
        return comes

    def pause(seconds: float) -> None:
        if something_comes(seconds):
            os._exit(0)  # nobody sends a plan during a round, so it is the end

    with suppress(EOFError, pickle.UnpicklingError, BrokenPipeError):  # it ended before, within or after a plan
        while True:
            while not something_comes(_LOOK_SECONDS):
                pass
            plan: CleaningPlan = pickle.load(source)
            with _alone_in(plan.directory):
                pause(0)  # it may have ended meanwhile
                outcome = plan.run(pause)
            pickle.dump(outcome, target)
            target.flush()
    os._exit(0)  # an outcome that nobody wants would else be written once more


@contextmanager
def _alone_in(directory: str) -> Iterator[None]:
    """When no other process compacts there. Some file systems of networks cannot tell; those we believe."""
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # the round will tell
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
