"""The inside of the process that compacts: plans come in, outcomes go out, one after the other.

It ends with whoever has started it, in the middle of a round if need be: what a round has written so far, the next one
removes. Another broker may soon write to the same directory, so nothing may go on here.
"""

import os
import pickle
import select
import sys
import time
from queue import SimpleQueue
from threading import Thread
from typing import BinaryIO, Final

from headrace.log.cleaner_run import CleaningPlan

NICENESS: Final = 10  # requests come first
_LOOK_SECONDS: Final = 1.0


def main(parent: int) -> None:
    """Serve whoever has started this process, whose number is `parent`, by its standard input and output."""
    os.nice(NICENESS)
    plans: SimpleQueue[CleaningPlan] = SimpleQueue()
    Thread(target=_receive, args=(sys.stdin.buffer, plans, parent), daemon=True).start()
    while True:
        outcome = plans.get().run(time.sleep)
        pickle.dump(outcome, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _receive(source: BinaryIO, plans: "SimpleQueue[CleaningPlan]", parent: int) -> None:
    try:
        while True:
            # The pipe ends with the parent, unless a process that it has forked holds it open.
            while not select.select([source], [], [], _LOOK_SECONDS)[0]:
                if os.getppid() != parent:
                    return
            plans.put(pickle.load(source))
    except EOFError:
        return
    finally:
        os._exit(0)
